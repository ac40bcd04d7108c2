//! Lightning's `metrics.csv`, as a log of steps. Its rows are nothing that a log's reader would look at.

use super::intake::Intake;
use super::kinds::{Counts, Kind, Opened};
use crate::logs::metrics::Columns;
use crate::logs::{Origin, TextEvent, What};
use crate::model::reading::ReadLine;

pub const KIND: Kind = Kind { id: "metrics", name: "metrics of Lightning's CSVLogger", is: |opened| columns(&opened.head).is_some(), read };

fn columns(head: &[u8]) -> Option<Columns> {
    let end = memchr::memchr(b'\n', head)?;
    Columns::of(std::str::from_utf8(&head[..end]).ok()?)
}

fn read(opened: &mut Opened, intake: &mut Intake, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let columns = columns(&opened.head).ok_or("its first line is no header of metrics.csv")?;
    let bytes = opened.all(64 << 20)?;
    progress();
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().count() as u64;
    let file = intake.log_file(&opened.name, opened.modified, 0);
    for (at, line) in text.lines().enumerate().skip(1) {
        if let Some(step) = columns.row(line) {
            let mut events = vec![TextEvent { origin: Origin::default(), what: What::Step(step), said_at: None }];
            let read = ReadLine { no: Some(at as u64 + 1), text: line, bytes: line.len() };
            intake.session.read(file, &read, &mut events);
        }
    }
    intake.session.model.archive_lines(file, lines);
    intake.understood = true;
    Ok(Counts { lines: Some(lines) })
}
