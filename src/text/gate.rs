//! Which lines are worth a look: a million uninteresting ones must cost almost nothing.

use regex::bytes::Regex;
use std::ops::Range;
use std::sync::LazyLock;

/// How much a line matters before anybody has parsed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing that any reader understands. May be dropped under pressure.
    Noise,
    /// Bring-up, progress, phases. Kept if at all possible.
    Fact,
    /// WARN or worse. Always counted.
    Alarm,
}

/// Without these nothing would be read; alternatives of one pattern, bytes, `(?-u)`. Keep them free of `.*`: a line is scanned once.
#[rustfmt::skip]
const ALARMS: &[&str] = &[
    " NCCL WARN ",
    // Python
    r"Traceback \(most recent call last\)", r"[A-Za-z](?:Error|Exception|Interrupt|SystemExit)(?::|$|\r)", r"(?:^|[\r\n\]: ])SystemExit",
    "Exception ignored in", "Fatal Python error",
    // c10 and glog, severities E and F
    r"\[[EF][0-9]{3,4} [0-9]{2}:", r"(?:^|[\r\n\]: ])[EF][0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\.", r"\[[EF] [A-Za-z]+\.cpp:",
    "Watchdog caught", "watchdog thread terminated", "watchdog got stuck", "detected by watchdog", "timed out in blocking wait",
    "Timeout at NCCL work", "following async exception", "found async exception", "taking the entire process down",
    "Some NCCL operations have failed", "dump signal", "timeout signal from", "global timeout from", "signal dumping",
    "Heartbeat monitor timed out", "NCCL monitor thread timeout", "detects no heartbeat", "Terminating the process after",
    "remote error detected", "Aborting process on rank", "nccl hit async error", "Async error on rank", "Operation timed out after",
    "NCCL operation timed out", "what\\(\\):", "ncclRemoteError",
    // CUDA
    "CUDA error: ", "CUDA out of memory", "CUBLAS_STATUS_", "CUDNN_STATUS_", "Cuda failure ", "cudaErrorMemoryAllocation", "CUDA_ERROR_",
    // launchers
    r"failed \(exitcode: ", "Root Cause \\(first", "Failures:", " closing signal ", " death signal", "forcefully exiting via",
    "Killing subprocess", "exits with return code", "crashed with exit code", "exited with code", "terminated with code",
    "exited on signal",
    // the system
    "Segmentation fault", "Bus error", r"core dumped\)", "oom-kill", "Killed process", "slurmstepd: error", "srun: error",
];

#[rustfmt::skip]
const FACTS: &[&str] = &[
    // NCCL
    "NCCL version ", "INFO Bootstrap", "INFO Using network ", "INFO NET/Plugin", "INFO RAS client listening", " set by environment to ",
    r"comm 0x[0-9a-f]+ rank ", r"\] via (?:P2P|SHM|NET|COLLNET|direct)", " coll channels, ", "INFO Connected all rings",
    // around a traceback
    r#"  File ""#, "During handling of the above", "The above exception was", "ncclInvalidUsage: |nccl[A-Z][A-Za-z]+Error: ", "Last error:",
    // torchrun
    "Setting OMP_NUM_THREADS", r"\[[0-9]+\]:(?:$|\r)", "  (?:time|host|rank|exitcode|traceback) +: ",
    // progress
    "[Ll]oss", "LOSS", r"[0-9]%\|", "it/s", "s/it", "iteration", "step", "Step", r"[Ii]ter ", "SamplesPerSec", r"\[(?:epoch=[0-9]+\]\[)?batch=",
    "OVERFLOW", "Overflow", "[Oo]verflow on", "Gradient overflow", "train_runtime", "'eval_",
    "[Cc]heckpoint", "[Ee]valuat", "[Vv]alidat", "[Cc]ompil", "_inductor/", "[Ll]oading", "[Bb]uilding", "dataset",
    "done in [0-9]", "Training (?:complete|finished|done)", "training is done", "stopped: ", "exiting program", "train_iters",
];

fn any_of(lists: &[&[&str]]) -> Regex {
    let all: Vec<String> = lists.iter().flat_map(|l| l.iter()).map(|p| format!("(?:{p})")).collect();
    Regex::new(&format!("(?m-u){}", all.join("|"))).expect("gate patterns")
}

static ALARM: LazyLock<Regex> = LazyLock::new(|| any_of(&[ALARMS]));
static ANY: LazyLock<Regex> = LazyLock::new(|| any_of(&[ALARMS, FACTS]));

/// Classifies one raw line.
pub fn classify(line: &[u8]) -> Class {
    if !ANY.is_match_at(line, after_header(line)) {
        Class::Noise
    } else if ALARM.is_match(line) {
        Class::Alarm
    } else {
        Class::Fact
    }
}

/// Where the message of a line begins that starts with NCCL's own header; the search may begin there, at the level.
fn after_header(line: &[u8]) -> usize {
    const MARK: &[u8] = b"] NCCL INFO ";
    let Some(space) = memchr::memchr(b' ', &line[..line.len().min(100)]) else { return 0 };
    let Some(dev) = line[space + 1..].strip_prefix(b"[") else { return 0 };
    let digits = dev.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits > 0 && dev[digits..].starts_with(MARK) && line[..space].iter().filter(|b| **b == b':').count() == 2 {
        space + 2 + digits + "] NCCL ".len()
    } else {
        0
    }
}

/// The lines of `chunk` (ended by `\n` or `\r`, the ends left out) that are not noise. Noise is skipped without looking for line ends.
pub fn find_interesting(chunk: &[u8]) -> impl Iterator<Item = (Range<usize>, Class)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = ANY.find_at(chunk, at)?;
        let start = memchr::memrchr2(b'\n', b'\r', &chunk[at..found.start()]).map_or(at, |n| at + n + 1);
        // A pattern may have taken a line end with it.
        let inside = found.start().max(start);
        let first = chunk.get(inside).filter(|b| matches!(b, b'\n' | b'\r')).map_or(inside, |_| inside + 1);
        let start = if first > inside { first } else { start };
        let end = memchr::memchr2(b'\n', b'\r', &chunk[first..]).map_or(chunk.len(), |n| first + n);
        // The separator stays: a pattern may want to see it.
        at = end;
        let at_line = &chunk[start..end];
        Some((start..end, if ALARM.is_match(at_line) { Class::Alarm } else { Class::Fact }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ncclinfo_chatter_is_noise() {
        for line in [
            "vm:2692:2692 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1",
            "vm:2692:2692 [0] NCCL INFO Channel 00/24 : 0 1 2 3 4 5 6 7",
            "vm:2692:2692 [0] NCCL INFO GPU/0-60 :GPU/0-60 (0/5000.0/LOC) GPU/0-70 (2/370.8/NVL)",
            "vm:1:1 [0] NCCL INFO AllReduce: opCount 1a sendbuff 0x7f recvbuff 0x7f count 4 datatype 9 op 0 root 0 comm 0x7f0a [nranks=8] stream 0x1",
            "vm:2692:2735 [0] NCCL INFO RAS thread started",
            "",
            "hello",
        ] {
            assert_eq!(classify(line.as_bytes()), Class::Noise, "{line}");
        }
    }

    #[test]
    fn classes() {
        for (line, class) in [
            ("vm:1:1 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM", Class::Fact),
            ("step 0 | loss 0.0000 | step_time 265.3 ms", Class::Fact),
            ("vm:1:1 [0] a.cc:1 NCCL WARN x", Class::Alarm),
            ("[rank5]: ValueError: boom", Class::Alarm),
            ("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError", Class::Alarm),
            ("[rank0]:[E1121 00:10:37.678827192 WorkNCCL.cpp:1] [TC][rank=0][name=x] y", Class::Alarm),
            ("E1121 00:05:26.947000 3137 torch/x.py:986] whatever", Class::Alarm),
            ("W1121 00:05:26.176000 3137 torch/x.py:1012] Sending process 3234 closing signal SIGTERM", Class::Alarm),
            ("  rank      : 5 (local_rank: 5)", Class::Fact),
            ("[0]:", Class::Fact),
        ] {
            assert_eq!(classify(line.as_bytes()), class, "{line}");
        }
    }

    #[test]
    fn a_chunk_gives_the_same_lines_as_its_lines() {
        let chunk = b"noise\nstep 1 loss 2\r\rnoise\nSystemExit: 1\n\nx NCCL WARN y\n[1]:\nnoise\nlast step 3";
        let got: Vec<_> = find_interesting(chunk).map(|(r, c)| (std::str::from_utf8(&chunk[r]).unwrap(), c)).collect();
        assert_eq!(
            got,
            [
                ("step 1 loss 2", Class::Fact),
                ("SystemExit: 1", Class::Alarm),
                ("x NCCL WARN y", Class::Alarm),
                ("[1]:", Class::Fact),
                ("last step 3", Class::Fact)
            ]
        );
    }

    proptest! {
        #[test]
        fn chunks_and_lines_agree(lines in prop::collection::vec(prop::sample::select(vec![
            "", "noise", "step 1", "SystemExit", "[1]:", " NCCL WARN ", "ValueError", "E1121 00:05:26.9", "Failures:", "x ValueError",
        ]), 0..12), cr in any::<bool>()) {
            let chunk = lines.join(if cr { "\r" } else { "\n" });
            let got: Vec<(Range<usize>, Class)> = find_interesting(chunk.as_bytes()).collect();
            let mut at = 0;
            let mut want = Vec::new();
            for l in &lines {
                let class = classify(l.as_bytes());
                if class != Class::Noise {
                    want.push((at..at + l.len(), class));
                }
                at += l.len() + 1;
            }
            prop_assert_eq!(got, want);
        }

        #[test]
        fn any_bytes_make_progress(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(find_interesting(&bytes).count() <= bytes.len());
        }
    }
}
