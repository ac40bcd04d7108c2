//! The calls of the native stack that stands below a crash, and what they tell that the process was about.

use super::again::Proof;
use crate::base::clean::clean;
use crate::logs::torch::crash::native_call;

/// Lines between the words of the crash and its stack.
const MOST_IN_FRONT: usize = 14;
/// Calls that are told, the innermost ones.
const MOST_CALLS: usize = 6;

#[derive(Default)]
pub struct Stack {
    /// `ncclCommInitRank > ncclCuMemHostEnable > cuMemCreate`
    pub calls: Option<String>,
    pub doing: Option<&'static str>,
}

/// What a call stands for wherever it is in the stack; NCCL 2.12 to 2.29, UCX 1.9 to 1.19.
const DOINGS: &[(&str, &[&str])] = &[
    (
        "while NCCL set up a communicator",
        &["ncclCommInitRank", "ncclCommInitAll", "ncclCommInitRankFunc", "ncclCommInitRankConfig", "commAlloc", "ncclCommSplit"],
    ),
    ("while UCX connected to a peer", &["ucp_wireup_", "ucp_ep_create"]),
    ("while NCCL registered memory", &["ncclCommRegister", "ncclCommWindowRegister", "ncclRegister"]),
    ("while NCCL ended a communicator", &["ncclCommDestroy", "ncclCommAbort", "ncclCommFinalize", "commReclaim"]),
    ("while a CUDA graph was recorded", &["cuStreamEndCapture", "cudaStreamEndCapture"]),
];

pub(super) fn of(proof: &Proof) -> Stack {
    let mut calls: Vec<String> = Vec::new();
    let mut has_begun = false;
    for (at, line) in proof.below().enumerate() {
        let line = String::from_utf8_lossy(line);
        match native_call(&clean(&line)) {
            Some(call) => {
                has_begun = true;
                calls.extend(call.filter(|name| calls.last().is_none_or(|last| last != name)).map(str::to_owned));
            }
            None if has_begun || at >= MOST_IN_FRONT => break,
            None => {}
        }
    }
    let is_in = |marks: &&(&str, &[&str])| {
        calls.iter().any(|call| marks.1.iter().any(|mark| call == mark || mark.ends_with('_') && call.starts_with(mark)))
    };
    let doing = DOINGS.iter().find(is_in).map(|(doing, _)| *doing);
    // One alone is where it crashed, which the headline says.
    let told = (calls.len() > 1).then(|| calls.iter().take(MOST_CALLS).rev().map(String::as_str).collect::<Vec<_>>().join(" > "));
    Stack { calls: told, doing }
}
