//! Saved answers of NCCL's RAS service.

use super::intake::Intake;
use super::kinds::{Counts, Kind, Opened};
use crate::model::saved_report::{self, SavedReport};

pub const KIND: Kind = Kind { id: "ras", name: "RAS reports", is, read };

/// 16,384 ranks are 9 MiB.
const MOST_BYTES: u64 = 32 << 20;

fn is(opened: &Opened) -> bool {
    crate::formats::recognise::looks_like_ras(&opened.head)
}

fn read(opened: &mut Opened, intake: &mut Intake, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let bytes = opened.all(MOST_BYTES)?;
    progress();
    let text = String::from_utf8_lossy(&bytes);
    let lines = Counts { lines: Some(text.lines().count() as u64) };
    // A recorder asked, and nobody answered: that was read, and says nothing.
    if text.contains("# EXC ") && !text.contains("NCCL version") && !text.contains("nccl_version") {
        return Ok(lines);
    }
    let report = SavedReport::read(&opened.name, &text, Some(opened.modified))?;
    intake.understood = true;
    let record = intake.session.model.archive_record(&opened.name, opened.modified);
    for comm in &report.report.comms {
        let world = report.report.comms.iter().all(|c| c.size <= comm.size);
        let known = comm.ranks.iter().map(|r| (r.rank, &r.place)).chain(comm.missing.iter().map(|m| (m.rank, &m.place)));
        for (rank, place) in known.filter(|_| world) {
            record.rank(rank, |seen| {
                seen.pid = seen.pid.or(place.pid);
                seen.gpu = seen.gpu.or(place.nvml_dev);
                seen.host = seen.host.take().or(place.host.clone());
            });
        }
    }
    record.reports.push(report);
    saved_report::in_order(&mut record.reports);
    Ok(lines)
}
