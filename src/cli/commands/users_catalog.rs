//! Users' own entries of the catalogue: their files are found and read here, see [`crate::logs::catalog::user`]; and
//! `nccl-top rules --test FILE`, which shows what the lines of a log are known by.

use super::{Outcome, out};
use crate::archive::inputs;
use crate::archive::kinds::Opened;
use crate::base::clean::clip;
use crate::base::file::read_text;
use crate::base::mask::shown;
use crate::base::words::io_words;
use crate::cli::config::is_closed;
use crate::logs::catalog::user;
use crate::logs::catalog::user::RuleName;
use crate::logs::{Reader, TextEvent, What, prefilter};
use crate::rules::RULES;
use anyhow::Result;
use std::fmt::Write;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

const MAX_FILE_BYTES: u64 = 1 << 20;
const MOST_FILES: usize = 64;
/// Of a line so much is looked at, as elsewhere.
const LONGEST: u64 = 64 << 10;

/// Puts the entries of `catalog/*.toml` beside the config file, and of the files that the command line names, into use.
///
/// # Errors
/// The first file that cannot be read, or the first mistake in one: file, line, key, and what to do.
pub fn install(config_file: Option<&Path>, named: &[PathBuf]) -> Result<()> {
    let folder = config_file.and_then(Path::parent).map(|folder| folder.join("catalog"));
    let mut paths = folder.map_or(Ok(Vec::new()), |folder| files_of(&folder))?;
    paths.extend(named.iter().cloned());
    anyhow::ensure!(paths.len() <= MOST_FILES, "{} files of a catalogue, at most {MOST_FILES} are read; put entries together", paths.len());
    if paths.is_empty() {
        return Ok(());
    }
    let read = |path: &PathBuf| {
        let shown = path.display().to_string();
        read_text(path, MAX_FILE_BYTES).map(|text| (shown.clone(), text)).map_err(|why| anyhow::anyhow!("{shown}: {why}"))
    };
    let files = paths.iter().map(read).collect::<Result<Vec<_>>>()?;
    let rules: Vec<RuleName> = RULES.iter().map(|rule| RuleName { id: rule.id, advice: rule.advice }).collect();
    user::install(user::read(&files, &rules)?);
    Ok(())
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = match std::fs::read_dir(folder) {
        // The home of another user, as after `su` and `sudo -E`, is no reason not to start.
        Err(err) if matches!(err.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => return Ok(Vec::new()),
        found => found.map_err(|err| anyhow::anyhow!("{}: {}; make it readable or remove it", folder.display(), io_words(&err)))?,
    };
    let mut paths: Vec<PathBuf> = found.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml") && path.is_file() && !is_closed(path));
    paths.sort();
    Ok(paths)
}

/// Prints for each line of a file that is recognised its number, the entry or reader that it is known by, and the rule; then how many
/// lines there are, and how many of them mean nothing.
///
/// # Errors
/// If the file cannot be read.
pub fn test(file: &str) -> Result<Outcome> {
    let wrong = |why: String| anyhow::anyhow!("{file}: {why}");
    let input = inputs::expand(&[file.to_owned()]).into_iter().next().filter(|input| input.named);
    let input = input.ok_or_else(|| wrong("not one file; name one, or - for standard input".into()))?;
    let mut input = BufReader::new(Opened::of(&input).map_err(wrong)?);
    let mut tested = Tested::default();
    let mut line = Vec::new();
    while (&mut input).take(LONGEST).read_until(b'\n', &mut line).map_err(|err| wrong(io_words(&err)))? > 0 {
        if line.last() != Some(&b'\n') {
            input.skip_until(b'\n').map_err(|err| wrong(io_words(&err)))?;
        }
        tested.line(&line);
        line.clear();
        if tested.text.len() > 1 << 16 {
            // The input may have no end.
            if !out(&std::mem::take(&mut tested.text))? {
                return Ok(Outcome::Clean);
            }
        }
    }
    out(&tested.end())?;
    Ok(Outcome::Clean)
}

/// A file's lines on their way through the reader.
#[derive(Default)]
struct Tested {
    reader: Reader,
    lines: u64,
    nothing: u64,
    text: String,
}

impl Tested {
    fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        let was_inside = self.reader.is_inside();
        let mut events = Vec::new();
        self.reader.at_line(Some(self.lines));
        self.reader.read_all(line, prefilter::classify(line.as_bytes()), &mut events);
        let here = events.iter().any(|event| event.said_at.is_none());
        self.nothing += u64::from(!here && !was_inside && !self.reader.is_inside());
        // What a line tells of the run besides is no other reading of it.
        if events.iter().any(|event| !event.what.is_header()) {
            events.retain(|event| !event.what.is_header());
        }
        events.iter().for_each(|event| self.put(event, line));
    }

    fn put(&mut self, event: &TextEvent, line: &str) {
        let (no, line) = match &event.said_at {
            Some(at) => (at.line.unwrap_or(self.lines), at.text.as_str()),
            None => (self.lines, line),
        };
        let line = shown(line);
        let (name, rule) = match event.what.entry_of(&line) {
            Some(s) if s.muted => (format!("{} (muted)", s.id), s.rule),
            Some(s) => (s.id.to_owned(), s.rule),
            None => (format!("reader: {}", event.what.name()), rule(&event.what)),
        };
        let _ = writeln!(self.text, "{no:>7}  {name:<30} {rule:<24} {}", clip(line.trim(), 110));
    }

    fn end(mut self) -> String {
        let mut events = Vec::new();
        self.reader.idle(&mut events);
        events.iter().for_each(|event| self.put(event, ""));
        let _ = writeln!(self.text, "\n{} lines, {} of them mean nothing to nccl-top", self.lines, self.nothing);
        self.text
    }
}

/// The rule that a reader's event stands under, where the catalogue does not know its text.
fn rule(what: &What) -> &'static str {
    match what {
        What::NcclWarn { .. } => "nccl-warn",
        What::CollectiveTimeout(_) | What::CollectiveStatus { .. } | What::TakingDown { .. } => "collective-timeout",
        What::Exception(_) => "python-exception",
        What::CudaOom { .. } => "cuda-oom",
        What::CudaError { .. } => "cuda-error",
        What::WorkerFailed { .. } | What::WorkerFailure(_) | What::Terminating { .. } => "rank-exited",
        What::LauncherSignalled { .. } => "job-cancelled",
        _ => "-",
    }
}
