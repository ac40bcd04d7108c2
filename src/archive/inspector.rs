//! Files of the NCCL Inspector: records of operations, and metrics for Prometheus.

use super::intake::Intake;
use super::kinds::{Counts, Kind, Opened};
use crate::base::words::io_words;
use crate::formats::inspector::{Inspector, prom};
use std::io::{BufRead, BufReader, Read};

pub const KIND: Kind =
    Kind { id: "inspector", name: "NCCL Inspector files", is: |o| crate::formats::recognise::looks_like_inspector(&o.head), read };
pub const PROM: Kind = Kind {
    id: "inspector-prometheus",
    name: "NCCL Inspector metrics",
    is: |o| crate::formats::recognise::looks_like_prom(&o.head),
    read: read_prom,
};

/// A record with traces of all channels has some tens of KiB.
const LONGEST: u64 = 1 << 20;

fn read(opened: &mut Opened, intake: &mut Intake, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let mut inspector = Inspector::new(opened.name.clone());
    let mut input = BufReader::new(opened);
    let (mut line, mut lines) = (Vec::new(), 0);
    loop {
        line.clear();
        let n = (&mut input).take(LONGEST).read_until(b'\n', &mut line).map_err(|err| format!("reading stopped: {}", io_words(&err)))?;
        if n == 0 {
            break;
        }
        lines += 1;
        inspector.line(&String::from_utf8_lossy(&line), lines);
        if lines % 1024 == 0 {
            progress();
        }
    }
    intake.understood = true;
    let (path, at) = (inspector.path.clone(), intake.session.model.now);
    intake.session.model.archive_record(&path, at).inspectors.push(inspector);
    Ok(Counts { lines: Some(lines) })
}

fn read_prom(opened: &mut Opened, intake: &mut Intake, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let bytes = opened.all(64 << 20)?;
    progress();
    let text = String::from_utf8_lossy(&bytes);
    let metrics = prom::parse(&text);
    intake.understood |= !metrics.rows.is_empty();
    Ok(Counts { lines: Some(text.lines().count() as u64) })
}
