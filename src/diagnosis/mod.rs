//! The judge: what explains what, in what state a job is, and the session that puts model, rules and ledger together. Pure: no file, no clock,
//! no thread.

pub mod causality;
pub mod conclusion;
pub mod countdown;
pub(crate) mod cover;
pub mod culprits;
mod driver_chain;
pub(crate) mod lines;
mod odd_one;
pub mod remedies;
pub mod session;
pub mod startup;
pub mod story;
mod unproven;
pub mod verdict;
mod witnesses;
