//! Saved answers of NCCL's RAS service.

use super::case::Case;
use super::kinds::{Counts, Kind, Opened};
use crate::reports::ras_series::{self, RasLook};

pub const KIND: Kind = Kind { id: "ras", name: "RAS reports", is, read };

/// 16,384 ranks are 9 MiB.
const MOST_BYTES: u64 = 64 << 20;

fn is(opened: &Opened) -> bool {
    crate::reports::looks_like_ras(&opened.head)
}

fn read(opened: &mut Opened, case: &mut Case, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let bytes = opened.all(MOST_BYTES)?;
    progress();
    let text = String::from_utf8_lossy(&bytes);
    let lines = Counts { lines: Some(text.lines().count() as u64) };
    // A recorder asked, and nobody answered: that was read, and says nothing.
    if text.contains("# EXC ") && !text.contains("NCCL version") && !text.contains("nccl_version") {
        return Ok(lines);
    }
    let look = RasLook::read(&opened.name, &text, Some(opened.modified))?;
    case.understood = true;
    for comm in &look.report.comms {
        let world = look.report.comms.iter().all(|c| c.size <= comm.size);
        let known = comm.ranks.iter().map(|r| (r.rank, &r.place)).chain(comm.missing.iter().map(|m| (m.rank, &m.place)));
        for (rank, place) in known.filter(|_| world) {
            let seen = case.ranks.entry(rank).or_default();
            seen.pid = seen.pid.or(place.pid);
            seen.gpu = seen.gpu.or(place.nvml_dev);
            seen.host = seen.host.take().or(place.host.clone());
        }
    }
    case.ras.push(look);
    Ok(lines)
}

/// What the answers say in the order in which they were taken.
pub fn judge(case: &mut Case) -> Vec<crate::reports::Judged> {
    case.ras.sort_by_key(|look| (look.written.or(look.at), natural(&look.path)));
    ras_series::judge(&case.ras)
}

/// Numbers in names count as numbers: `ras-9` stands before `ras-10`.
fn natural(name: &str) -> Vec<(u64, String)> {
    let mut out: Vec<(u64, String)> = Vec::new();
    let mut digits = false;
    for c in name.chars() {
        let digit = c.is_ascii_digit();
        match out.last_mut() {
            Some((_, text)) if digit == digits => text.push(c),
            _ => out.push((0, c.to_string())),
        }
        digits = digit;
    }
    for (number, text) in &mut out {
        *number = text.parse().unwrap_or(u64::MAX);
    }
    out
}
