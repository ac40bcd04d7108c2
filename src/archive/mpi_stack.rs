//! What the error stack of MPICH and its kin says of why a call failed: the innermost line of it that has words, or the line that a library wrote
//! right above it. The line that is known says only which call it was.

use super::Report;
use super::again::Proof;
use crate::base::{clean, mask};
use regex::Regex;
use std::sync::LazyLock;

/// Frames of a stack, and lines above it.
const MOST_FRAMES: usize = 24;
const ABOVE: usize = 2;
const LONGEST: usize = 200;
/// Known lines that such a stack stands below.
const HEADS: [&str; 3] = ["mpich-abort", "mpich-init", "mpich-fatal"];
/// What a library that MPICH calls says of itself, in front of the stack: where no frame has words.
const ABOVE_IT: [&str; 2] = ["GTL_DEBUG: ", " failed with error: "];
/// What MPICH itself says there says more than its frames.
const OF_ITSELF: &str = "MPICH ERROR: ";

pub(super) fn of(report: &Report, proof: &Proof) -> Option<String> {
    let cause = &report.findings[report.root_cause?];
    cause.signature.filter(|signature| HEADS.contains(signature))?;
    let text = |line: &[u8]| clean::clean(&String::from_utf8_lossy(line)).into_owned();
    let head = text(proof.own());
    let above: Vec<String> = proof.above().take(ABOVE).map(|(_, line)| text(line)).collect();
    let below = proof.near(0, MOST_FRAMES).skip(1).map(|(_, line)| text(line));
    // `Other MPI error, error stack:` may have a line of its own.
    let below: Vec<String> = below.skip_while(|line| line.contains("error stack:")).collect();
    let reason = reason(&head, &above, &below)?;
    let last = reason.rsplit(':').next().unwrap_or(&reason).trim().trim_end_matches(')');
    (!cause.summary.contains(last)).then(|| clean::clip(&mask::text(&reason), LONGEST).into_owned())
}

/// `above` has the line next to the head first.
fn reason(head: &str, above: &[String], below: &[String]) -> Option<String> {
    static FRAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\s*(?:([\w:*]+)\(\d*\)|\(unknown\)\(\))\.*: ?(.*)$").expect("pattern"));
    let lines = || above.iter().map(|line| line.trim()).filter(|line| !line.contains("error stack"));
    let own = lines().find_map(|line| line.strip_prefix(OF_ITSELF)).filter(|words| !words.is_empty());
    let frames = below.iter().map_while(|line| Some(FRAME.captures(line)?.get(2)?.as_str().trim()));
    // Of a start that fails without a word, the layer in which it did: `MPIDI_OFI_mpi_init_hook` brings up libfabric.
    let layers = below.iter().map_while(|line| Some(FRAME.captures(line)?.get(1).map_or("", |name| name.as_str())));
    let layer =
        || layers.filter(|name| name.starts_with("MPIDI_")).last().filter(|_| head.contains("_Init")).map(|name| format!("in {name}"));
    // What the head says already, and the call itself, are no reason.
    let says_more = |words: &&str| {
        let is_call = words.ends_with(" failed") && words.contains('(');
        words.split_whitespace().count() > 1
            && !is_call
            && !head.contains(words.trim_end_matches('!'))
            && !words.starts_with("Internal MPI error")
    };
    let beside = || lines().find(|line| ABOVE_IT.iter().any(|word| line.contains(word)));
    own.or_else(|| frames.filter(says_more).last()).or_else(beside).map(str::to_owned).or_else(layer)
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_innermost_line_with_words_says_why() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let head = "MPICH ERROR [Rank 0] [job id 7.0] [n1] - Abort(2665871) (rank 0 in comm 0): Fatal error in PMPI_Init_thread: Other MPI error, error stack:";
        let stack = lines(
            "MPIR_Init_thread(170).................:\nMPID_Init(501)........................:\nMPIDI_CRAY_ofi_get_nic_index(1801)....: OFI invalid value for environment variable\n\naborting job:",
        );
        assert_eq!(reason(head, &[], &stack).as_deref(), Some("OFI invalid value for environment variable"));
        let above = lines("MPICH ERROR: Unable to use a NIC_POLICY of 'NUMA'. Rank 4 is not confined to a single NUMA node.\nstep 3");
        assert_eq!(
            reason(head, &above, &stack).as_deref(),
            Some("Unable to use a NIC_POLICY of 'NUMA'. Rank 4 is not confined to a single NUMA node.")
        );
        // A remark of libfabric is no reason.
        assert_eq!(
            reason(head, &lines("libfabric:4121:core:core:fi_getinfo():1<info> Since psm3 can be used, opx has been skipped."), &[]),
            None
        );
        // Where no frame has words, the layer says which part did not start.
        let head = "Abort(672785807) on node 0 (rank 0 in comm 0): Fatal error in internal_Init: Other MPI error, error stack:";
        let stack = lines(
            "MPID_Init(1719)..............:\nMPIDI_OFI_mpi_init_hook(1661):\n(unknown)(): Other MPI error\n[unset]: write_line error",
        );
        assert_eq!(reason(head, &[], &stack).as_deref(), Some("in MPIDI_OFI_mpi_init_hook"));
        // The call, and what the head says, are none; nor is another head above it.
        let head = "Abort(3) (rank 0 in comm 0): Fatal error in PMPI_Send: Invalid count, error stack:";
        let stack = lines(
            "PMPI_Send(163).......: MPI_Send(buf=0x7f, count=1024, MPI_INT) failed\nMPID_Send(505).......: \n(unknown)(): Invalid count\n",
        );
        assert_eq!(reason(head, &lines("Fatal error in PMPI_Send: Invalid count, error stack:"), &stack), None);
    }
}
