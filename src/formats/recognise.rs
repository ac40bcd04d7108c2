//! Finished reports that `check` reads beside logs: nccl-tests, the NCCL Inspector, saved RAS answers. Text in, structures and
//! out; opens no file and knows no clock.

use super::inspector;
use memchr::memmem;

fn holds(text: &[u8], what: &str) -> bool {
    memmem::find(text, what.as_bytes()).is_some()
}

/// The first bytes without white space before them, and no more of them than are worth a look.
fn head(first_bytes: &[u8]) -> &[u8] {
    let text = first_bytes.trim_ascii_start();
    &text[..text.len().min(4096)]
}

/// A RAS answer, JSON or text, also one that a recorder got instead of it.
pub fn looks_like_ras(first_bytes: &[u8]) -> bool {
    let text = head(first_bytes);
    let first_line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    text.starts_with(b"SERVER PROTOCOL ")
        || text.starts_with(b"# EXC ")
        || first_line.starts_with(b"NCCL version ") && holds(first_line, " compiled with CUDA ")
        || text.starts_with(b"{") && holds(text, "\"cuda_runtime_version\"") && holds(text, "\"nccl_version\"")
        || [&b"OK"[..], b"ERROR: "].iter().any(|reply| text.starts_with(reply))
            && (holds(text, "\nNCCL version ") || holds(text, "\"communicators\"") || holds(text, "nknown command"))
}

/// Records of the Inspector, one a line.
pub fn looks_like_inspector(first_bytes: &[u8]) -> bool {
    let text = head(first_bytes);
    let first_line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    first_line.starts_with(b"{") && holds(first_line, "\"header\"") && holds(first_line, "\"n_ranks\"")
}

/// What `-J` of nccl-tests writes.
pub fn looks_like_nccl_tests_json(first_bytes: &[u8]) -> bool {
    let text = head(first_bytes);
    text.starts_with(b"{") && holds(text, "\"version\"") && holds(text, "\"start_time\"") && holds(text, "\"args\"")
}

/// Metrics that the Inspector writes for Prometheus.
pub fn looks_like_prom(first_bytes: &[u8]) -> bool {
    let first_line = head(first_bytes).split(|b| *b == b'\n').find(|line| !line.is_empty() && !line.starts_with(b"#"));
    first_line.and_then(|line| std::str::from_utf8(line.split(|b| *b == b'{').next()?).ok()).is_some_and(inspector::prom::is_metric)
}
