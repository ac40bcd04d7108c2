//! nccl-top: is the distributed training job healthy, and if not, which rank is to blame?
//!
//! ```text
//!            sources (threads, I/O)                pure (no I/O, no clock, no threads, no colour)
//! nvml  ─┐
//! procs ─┤                                             ┌──────── Session ────────┐
//! tail  ─┤   poll() -> Vec<Body>                       │  Model   <- apply(&obs) │
//! ras   ─┼────────────► feed: stamp, bound, tick ────► │  RULES   <- text, Tick  │──► screen, watch, snapshot
//! rdma  ─┤                   │                         │  Ledger  (open/cleared) │
//! kmsg  ─┤                   │                         └─────────────────────────┘
//! host  ─┘                   └──► tape (record, watch -o) ──► replay, demo: the same stream again
//! ```
//!
//! To add a source, see [`sources`]; a rule, see `rules`; a line that NCCL or a trainer prints, see [`text`].

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod observe;
pub mod ras;
pub mod sources;
pub mod text;
pub mod time;
