//! What log text means: bytes in, events out. Reads no files, knows no clock, keeps no more state than the last lines of one file.
//!
//! **To teach it a line**: an entry in the catalogue (see [`catalog`]) if it says that something is wrong; a table's entry if it tells
//! how training goes (see [`progress`]); else a reader in the file of the program that prints it (`nccl`, `torch`, `cuda`), with the
//! line as an example in `tests/it`, and a pattern in [`prefilter`], so that the line is looked at.

pub mod catalog;
pub mod ctest;
pub mod cuda;
pub mod error_words;
mod event;
pub mod gpu_memory;
pub mod header;
pub mod metrics;
pub mod nccl;
mod parts;
pub mod prefilter;
pub mod prefix;
pub mod progress;
mod reader;
mod shipped;
mod shown;
mod tasks;
pub mod torch;
pub mod when;

pub use event::*;
pub use reader::{KnownBy, Reader, is_only_warning, known_by};
