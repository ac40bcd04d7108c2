//! nccl-top: is the distributed training job healthy, and if not, which rank is to blame?
//!
//! `docs/ARCHITECTURE.md` draws how data flows through these modules and says why each is there; `CONTRIBUTING.md` shows how to add a rule,
//! a known text, a source, a pane, a key or a subcommand. Which module may use which is checked by `tests/it/directions.rs`.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod archive;
pub mod base;
pub mod cli;
pub mod diagnosis;
pub mod edge;
pub mod export;
pub mod fleet;
pub mod formats;
pub mod logs;
pub mod model;
pub mod observe;
pub mod output;
pub mod recording;
pub mod rules;
pub mod sources;
pub mod tui;
