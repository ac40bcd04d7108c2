//! What is done with a session: event lines and snapshots. The screen is `crate::tui`.

pub mod alert;
pub mod bundle;
pub mod check;
pub mod doctor;
pub mod events;
pub mod evidence;
pub mod fleet;
mod host;
pub mod snapshot;
pub mod topology;
