//! Dumps of torch 2.11 with NCCL 2.28.9 on 8 H200, recorded 2026-11-21, and dumps made by hand.

mod judging;
mod reading;
mod support;
