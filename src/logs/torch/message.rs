//! The message of an exception: which of the lines behind it are its own.

use super::traceback::{exception, is_frame};
use crate::logs::{catalog, error_words, known_by};

/// The same of lines that nothing but the message before them announces.
const MAX_ANNOUNCED: u8 = 6;

/// Whether a line right behind the last one belongs to its message: it is indented, a library's own report of the call that failed, or what
/// the message announces.
pub(super) fn goes_on(message: &str, further: u8, text: &str) -> bool {
    // Steps of others begin with a blank, too.
    let is_step = || known_by(text).reader.is_some_and(|reader| reader == "step");
    if is_frame(text) || text.contains("%|") || is_step() || text.trim_start().starts_with(['=', '-', '*', '#', '\u{256d}', '\u{2570}']) {
        return false;
    }
    let first = message.lines().next().unwrap_or_default();
    let announces = first.is_empty() || error_words::announces(first);
    // `backend='inductor' raised:` has the other exception as its message.
    if first.ends_with(" raised:") && further == 0 && exception(text).is_some() {
        return true;
    }
    // Ray says in the next line on which node, and who was killed.
    if further == 0 && first.contains("node running low on memory") && text.starts_with("Memory on the node (") {
        return true;
    }
    // The report of DDP, the lines of which are not indented.
    const OF_DDP: [&str; 4] = [
        "making sure all `forward`",
        "If you already have done the above",
        "Parameter indices which did not receive grad",
        "Parameters which did not receive grad",
    ];
    if first.contains("Expected to have finished reduction in the prior iteration") && OF_DDP.iter().any(|words| text.starts_with(words)) {
        return true;
    }
    // What is known by itself speaks for itself.
    let is_unknown = || catalog::find(catalog::Scope::Line, text).is_none();
    let is_sentence = || text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/') && (!first.is_empty() || text.contains(' '));
    text.starts_with([' ', '\t'])
        || error_words::is_library_report(text)
        || announces && further < MAX_ANNOUNCED && is_sentence() && is_unknown()
}

/// Without what is no message: a frame or the marks of one, printed by another process of the same output.
pub(super) fn without_frame(message: &str) -> &str {
    let is_frame = message.starts_with("File \"") || message.bytes().all(|b| matches!(b, b'^' | b' '));
    if is_frame { "" } else { message }
}

/// What a worker of vLLM failed with, in the words of the engine that hands it on.
pub(super) fn of_worker(message: &str) -> &str {
    let inner = message.strip_prefix("Worker failed with error '").or_else(|| message.strip_prefix("Worker failed with error "));
    inner.map_or(message, |inner| inner.split_once("', please check the stack trace above").map_or(inner, |(inner, _)| inner))
}

/// Whether it is one more line of a list that the message has the first lines of: `size mismatch for …`, indented.
pub(super) fn lists(message: &str, text: &str) -> bool {
    let same = |line: &str| line.starts_with([' ', '\t']) && line.split_whitespace().take(2).eq(text.split_whitespace().take(2));
    text.starts_with([' ', '\t']) && message.lines().any(same)
}

/// The rank that the message itself names: `(PID:2969, Device:0, RankID:1)`, which torch_npu puts behind its words (-1 is a process without a
/// communicator), or `Parameter indices which did not receive grad for rank 5: 94 95` of DDP.
pub(super) fn rank_of(message: &str) -> Option<u32> {
    [(", RankID:", ')'), (" did not receive grad for rank ", ':')].iter().find_map(|(before, end)| {
        let (_, tail) = message.split_once(before)?;
        tail.split(*end).next()?.trim().parse().ok()
    })
}
