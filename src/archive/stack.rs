//! The calls of the native stack that stands below a crash, and what they tell that the process was about.

use super::again::Proof;
use crate::base::clean::clean;
use crate::logs::torch::crash::{Call, begins_stack, native_call};

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
    ("while a CUDA graph was recorded", &["cuStreamEndCapture", "cudaStreamEndCapture"]),
];

/// Libraries whose functions are meant.
const THEIR_LIBRARIES: &[&str] = &["nccl", "ucp", "uct", "torch", "cuda"];

/// Nothing of a crash whose words have no stack of their own: the next one may be another process's.
pub(super) fn of(proof: &Proof) -> Stack {
    let own = String::from_utf8_lossy(proof.own());
    if own.trim_start().starts_with(FORTRAN) {
        return Stack { calls: chain(&of_fortran(proof)), doing: None };
    }
    if !begins_stack(&clean(&own)) {
        return Stack::default();
    }
    let mut calls: Vec<String> = Vec::new();
    let (mut has_begun, mut doing, mut at_last) = (false, None, None);
    for (at, line) in proof.below().enumerate() {
        let line = clean(&String::from_utf8_lossy(line)).into_owned();
        match native_call(&line) {
            Some(call) => {
                has_begun = true;
                if let Some(Call { name, library, address }) = call {
                    doing = doing.or_else(|| doing_of(name, library));
                    let address = address.map(str::to_owned);
                    if address.is_some() && address == at_last {
                        calls.pop();
                    }
                    let is_new = calls.last().is_none_or(|last| last != name);
                    at_last = address.filter(|_| is_new);
                    if is_new {
                        calls.push(name.to_owned());
                    }
                }
            }
            None if has_begun || at >= MOST_IN_FRONT || begins_stack(&line) || line.contains("Traceback (most recent") => break,
            None => {}
        }
    }
    // One alone is where it crashed, which the headline says.
    let told = (calls.len() > 1).then_some(calls).or_else(|| Some(of_fortran(proof))).and_then(|calls| chain(&calls));
    Stack { calls: told, doing }
}

/// The innermost ones, from the outermost of them to where it was.
fn chain(calls: &[String]) -> Option<String> {
    (!calls.is_empty()).then(|| calls.iter().take(MOST_CALLS).rev().map(String::as_str).collect::<Vec<_>>().join(" > "))
}

/// What Intel's runtime of Fortran begins its lines with.
const FORTRAN: &str = "forrtl: ";

/// `MAIN__ (ovf.F90:17)`: the functions whose source the table of Intel's runtime knows, innermost first.
///
/// ```text
/// Image              PC                Routine            Line        Source
/// ovf.x              0000000000402E2B  MAIN__                     17  ovf.F90
/// ```
fn of_fortran(proof: &Proof) -> Vec<String> {
    const MOST_LINES: usize = 60;
    let lines = proof.below().take(MOST_LINES).map(|line| clean(&String::from_utf8_lossy(line)).into_owned());
    let mut table = lines.skip_while(|line| !(line.starts_with("Image ") && line.contains(" Routine ") && line.ends_with("Source")));
    table.next();
    let row = |line: &String| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let &[_, address, routine, no, source] = cells.as_slice() else { return None };
        let is_row = address.len() >= 8 && address.bytes().all(|b| b.is_ascii_hexdigit());
        is_row.then(|| no.parse::<u32>().is_ok().then(|| format!("{routine} ({source}:{no})")))
    };
    table.map_while(|line| row(&line)).flatten().collect()
}

fn doing_of(name: &str, library: Option<&str>) -> Option<&'static str> {
    let is_theirs = library.is_none_or(|library| THEIR_LIBRARIES.iter().any(|own| library.contains(own)));
    let is_it = |mark: &&str| name == *mark || mark.ends_with('_') && name.starts_with(*mark);
    DOINGS.iter().find(|(_, marks)| is_theirs && marks.iter().any(is_it)).map(|(doing, _)| *doing)
}
