//! nccl-top: is the distributed training job healthy, and if not, which rank is to blame?
//!
//! ```text
//!            sources (threads, I/O)                pure (no I/O, no clock, no threads, no colour)
//! nvml  ─┐
//! procs ─┤                                             ┌──────── Session ────────┐
//! tail  ─┤   poll() -> Vec<Body>                       │  Model   <- apply(&obs) │
//! ras   ─┼────────────► feed: stamp, bound, tick ────► │  RULES   <- text, Tick  │──► screen, watch, snapshot
//! flight─┤                   │                         │                         │
//! rdma  ─┤                   │                         │  Ledger  (open/cleared) │
//! kmsg  ─┤                   │                         └─────────────────────────┘
//! host  ─┘                   └──► tape (record, watch -o) ──► replay, demo: the same stream again
//! ```
//!
//! `check` feeds the same readers, rules and catalogue with files that were written, and judges when all of it is known: see [`check`].
//!
//! To add a source, see [`sources`]; a rule, see `rules`; a line that NCCL or a trainer prints, see [`text`].

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod base;
pub mod bundle;
pub mod check;
pub mod cli;
pub mod commands;
pub mod config;
pub mod demo;
pub mod diagnosis;
pub mod diagnostics;
pub mod edge;
pub mod feed;
pub mod findings;
pub mod flight;
mod heap;
pub mod judge;
pub mod limit;
pub mod machine;
pub mod model;
pub mod observe;
pub mod ras;
pub mod recap;
pub mod reports;
pub mod rules;
pub mod score;
pub mod session;
pub mod sinks;
pub mod sources;
pub mod stack;
pub mod steps;
pub mod tape;
pub mod text;
pub mod time;
pub mod timeline;
pub mod tui;
pub mod units;
pub mod verdict;
pub mod without;
