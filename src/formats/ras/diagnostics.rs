//! What NCCL 2.31 and newer answers to `diagnostics`: lines of `host:pid NCCL DIAG [OK]   check: what was found`.

use super::RasError;
use serde::Serialize;

/// Whether the ranks of all communicators have the same GPUs, drivers, links and variables, as NCCL itself puts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Diagnostics {
    pub lines: Vec<DiagLine>,
    /// Processes of the job that answered.
    pub peers: Option<u32>,
    /// Milliseconds.
    pub took_ms: Option<f64>,
}

/// What one check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiagLine {
    /// `[OK]`. Else `[INFO]`: ranks differ, or something could not be read.
    pub ok: bool,
    /// `GPU inventory`
    pub check: String,
    /// `8x NVIDIA H100 per node consistent across 8 ranks in comm 0x1234`
    pub text: String,
}

/// Behind it stands how long it took, and how many processes answered (NCCL, ras/diagnostics.cc).
const END: &str = "RAS diagnostics completed in ";
/// More than the checks have lines for any job: names of variables that differ, each with the ranks that have a value.
const MAX_LINES: usize = 4096;

/// The answer is at its end.
pub fn is_whole(reply: &str) -> bool {
    reply.contains(END) || refusal(reply).is_some()
}

/// Why the service does not answer.
fn refusal(reply: &str) -> Option<RasError> {
    let line = reply.lines().map(str::trim).find(|line| !line.is_empty() && *line != "OK")?;
    match line {
        line if line.starts_with("ERROR: Unknown command") => Some(RasError::NoDiagnostics),
        line if line.starts_with("BUSY:") || line.starts_with("ERROR:") => Some(RasError::Refused(line.chars().take(200).collect())),
        _ => None,
    }
}

/// Reads the answer.
///
/// # Errors
/// It is a refusal, no answer to `diagnostics`, or not a whole one.
pub fn parse(reply: &str) -> Result<Diagnostics, RasError> {
    if let Some(why) = refusal(reply) {
        return Err(why);
    }
    let mut found = Diagnostics::default();
    let texts = reply.lines().filter_map(|line| Some(line.split_once(" NCCL DIAG ")?.1.trim()));
    for text in texts {
        if let Some(line) = line_of(text).filter(|_| found.lines.len() < MAX_LINES) {
            found.lines.push(line);
        } else if let Some(end) = text.strip_prefix(END) {
            let number = |text: &str| text.split(' ').next().map(str::to_owned);
            found.took_ms = number(end).and_then(|ms| ms.parse().ok()).filter(|ms: &f64| ms.is_finite());
            found.peers = end.split_once(" across ").and_then(|(_, peers)| number(peers)?.parse().ok());
            return Ok(found);
        }
    }
    match found.lines.is_empty() {
        true => Err(RasError::NotAReport(reply.chars().take(60).collect())),
        false => Err(RasError::CutOff("in the diagnostics".into())),
    }
}

/// `[OK]   ECC: no uncorrected volatile errors across 8 ranks in comm 0x1234`
fn line_of(text: &str) -> Option<DiagLine> {
    let (tag, text) = text.strip_prefix('[')?.split_once(']')?;
    let (check, text) = text.trim_start().split_once(": ")?;
    Some(DiagLine { ok: tag == "OK", check: check.to_owned(), text: text.to_owned() })
}
