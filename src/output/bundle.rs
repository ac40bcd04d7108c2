//! The evidence bundle: a recording of what is kept, findings and processes as text, Flight Recorder dumps, stacks. Written only when the
//! user asks for it, to a directory that the user names, for this user only; nothing that exists is overwritten.

use crate::base::severity::Severity;
use crate::base::time::{Stamp, Zone};
use crate::base::words::io_words;
use crate::diagnosis::session::Session;
use crate::edge::private::Dir;
use crate::edge::py_spy::Stack;
use crate::formats::flight_recorder;
use crate::output::evidence;
use crate::recording::preamble;
use crate::recording::tape::{self, Header};
use crate::recording::timeline::Kept;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// Everything that goes into it, as it was at one moment.
pub struct Bundle {
    pub header: Header,
    pub zone: Zone,
    pub session: Box<Session>,
    pub kept: Kept,
    pub stacks: Vec<Arc<Stack>>,
    /// Who is where, of the stacks of all ranks.
    pub summary: Option<Vec<String>>,
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    pub files: usize,
    pub bytes: u64,
}

/// The directory that is proposed: `nccl-top-evidence-node-17-2026-11-21T10-04-09`.
pub fn default_name(host: &str, at: Stamp, zone: Zone) -> String {
    let host: String = host.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).take(64).collect();
    let time: String = zone.rfc3339(at).chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
    format!("nccl-top-evidence-{host}-{time}")
}

/// Writes it; `progress` gets the name of what is being written.
///
/// # Errors
/// Why nothing, or not all of it, was written.
pub fn write(dir: &Path, bundle: &Bundle, progress: &mut dyn FnMut(&str)) -> Result<Written, String> {
    let mut out = Out { dir: Dir::prepare(dir)?, files: 0, bytes: 0 };
    // What is read first is written first: a full disk then takes the least of it.
    progress("findings.txt");
    out.file("findings.txt", findings(bundle).as_bytes())?;
    progress("processes.txt");
    out.file("processes.txt", evidence::processes(&bundle.session).as_bytes())?;
    for stack in &bundle.stacks {
        out.file(&format!("py-spy-{}.txt", stack.pid), stack.whole(bundle.zone).as_bytes())?;
    }
    if let Some(lines) = &bundle.summary {
        out.file("py-spy-summary.txt", format!("{}\n", lines.join("\n")).as_bytes())?;
    }
    let mut names = BTreeSet::new();
    for dumped in bundle.session.model.dumps.iter() {
        let Some(bytes) = dumped.seen.bytes() else { continue };
        let mut name = dump_name(&dumped.seen.path, dumped.seen.rank);
        if !names.insert(name.clone()) {
            name = format!("pid_{}_rank_{}", dumped.seen.pid, dumped.seen.rank);
            if !names.insert(name.clone()) {
                continue;
            }
        }
        if names.len() == 1 {
            out.dir.make(DUMPS).map_err(|err| format!("{DUMPS}: {}", io_words(&err)))?;
        }
        progress(&name);
        out.file(&format!("{DUMPS}/{name}"), &bytes)?;
    }
    out.recording(bundle, progress)?;
    Ok(Written { files: out.files, bytes: out.bytes })
}

const RECORDING: &str = "recording.jsonl.gz";
const DUMPS: &str = "flight-recorder";

fn findings(bundle: &Bundle) -> String {
    let mut text = evidence::findings(&bundle.session, bundle.zone);
    let worst = bundle.session.ledger.open().iter().map(|f| f.severity).max();
    text.push_str(match worst {
        Some(Severity::Error | Severity::Critical) | None => "\n",
        Some(_) => "\nNothing at error or above is open.\n",
    });
    text.push_str(&format!("To see it as it was: nccl-top replay {RECORDING}\n"));
    text.push_str("Environment variables are an allow-list; what may be secret is shown as ***, in log lines, too.\n");
    text
}

/// A name that ends in the rank, as the readers of dumps want it, and that leads nowhere else.
pub fn dump_name(path: &str, rank: u32) -> String {
    let name = path.rsplit('/').next().unwrap_or("");
    let sane = name.len() <= 100 && !name.starts_with('.') && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if sane && flight_recorder::rank_of_name(name) == Some(rank) { name.to_owned() } else { format!("dump_rank_{rank}") }
}

struct Out {
    dir: Dir,
    files: usize,
    bytes: u64,
}

impl Out {
    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        self.dir.create(name).and_then(|mut file| file.write_all(bytes)).map_err(|err| format!("{name}: {}", io_words(&err)))?;
        self.files += 1;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// What is kept, as a tape. What came before the first line that is kept stands at its beginning, in short.
    fn recording(&mut self, bundle: &Bundle, progress: &mut dyn FnMut(&str)) -> Result<(), String> {
        let told = |err: io::Error| format!("{RECORDING}: {}", io_words(&err));
        let file = self.dir.create(RECORDING).map_err(told)?;
        let size = file.try_clone().map_err(told)?;
        let mut tape = tape::Writer::to(Box::new(file), true, &bundle.header).map_err(told)?;
        let mut line = Vec::new();
        for seen in preamble::of(&bundle.kept.before.model) {
            line.clear();
            if tape::put_line(&seen, &mut line).is_ok() {
                tape.write_line(&line).map_err(told)?;
            }
        }
        let mut shown = usize::MAX;
        bundle.kept.lines(|line, (done, of)| {
            if shown != done {
                shown = done;
                progress(&format!("{RECORDING}, {} %", done * 100 / of.max(1)));
            }
            tape.write_line(line).map_err(told)
        })?;
        tape.finish().map_err(told)?;
        self.files += 1;
        self.bytes += size.metadata().map_or(0, |meta| meta.len());
        Ok(())
    }
}
