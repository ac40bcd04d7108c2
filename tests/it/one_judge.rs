//! There is one judge: a log that is followed line by line comes to the same conclusion as the same log given to `check`.

use flate2::read::MultiGzDecoder;
use nccl_top::archive::check;
use nccl_top::base::severity::Severity;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::conclusion::Conclusion;
use nccl_top::diagnosis::session::Session;
use nccl_top::diagnosis::verdict::{State, Verdict};
use nccl_top::logs::{prefix, when};
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::rules::findings::Finding;
use nccl_top::rules::{Implies, rule};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A session that sees one log as it is written.
struct Live {
    session: Session,
    now: Stamp,
}

impl Live {
    fn sees(&mut self, body: Body) {
        let from = SourceId::of("tail");
        self.session.apply(&Observation { at: self.now, host: None, from, body }, &mut Vec::new());
    }

    /// Time passes, with a tick each second; of hours without a line no more than minutes are gone through one by one.
    fn goes_on_until(&mut self, at: Stamp) {
        const MOST: Duration = Duration::from_secs(300);
        if at.since(self.now) > MOST {
            self.now = at.minus(MOST);
        }
        while at.since(self.now) >= SECOND {
            self.now = self.now.plus(SECOND);
            self.sees(Body::Tick);
        }
        self.now = self.now.max(at);
    }
}

/// What a live session comes to that sees the lines with the times that they carry: the verdicts that stand on the screen, and what is
/// concluded when there are no more lines.
fn live(path: &Path, bytes: &[u8]) -> (Vec<Verdict>, Conclusion) {
    let modified = std::fs::metadata(path).unwrap().modified().unwrap();
    let modified = Stamp(modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64);
    let text = String::from_utf8_lossy(bytes);
    let at_of = |line: &str| prefix::peel(line).origin.written.and_then(|w| when::stamp_of(&w, modified, Zone::UTC));
    let start = text.lines().find_map(at_of).unwrap_or(modified);
    let mut live = Live { session: Session::new("node", Zone::UTC), now: start };
    live.sees(Body::LogFile(LogFileInfo { file: 0, path: path.display().to_string(), ..LogFileInfo::default() }));
    let mut offset = 0;
    for (no, whole) in text.split_inclusive('\n').enumerate() {
        let line = whole.trim_end_matches('\n').trim_end_matches('\r');
        if let Some(at) = at_of(line) {
            live.goes_on_until(at);
        }
        let mut pieces = line.split('\r').peekable();
        while let Some(piece) = pieces.next() {
            let line = Line { no: Some(no as u64 + 1), offset, text: piece.into(), transient: pieces.peek().is_some() };
            live.sees(Body::Lines(Lines { file: 0, lines: vec![line], ..Lines::default() }));
        }
        offset += whole.len() as u64;
    }
    live.goes_on_until(live.now.plus(Duration::from_secs(180)));
    let verdicts = live.session.verdicts.values().cloned().collect();
    live.sees(Body::End);
    (verdicts, Conclusion::of(&live.session, &[]))
}

/// What the screen says of a job that has failed, hangs or is slow, if that is not what `check` says. A cause that leaves the state of a job
/// as it is may stand among the findings only.
fn verdict_differs(verdicts: &[Verdict], cause: Option<&Finding>) -> Option<String> {
    let shown: Vec<&Verdict> = verdicts.iter().filter(|v| v.state >= State::Slow).collect();
    let is_it =
        |v: &&Verdict| cause.is_some_and(|f| v.because.as_ref().is_some_and(|(id, _)| *id == f.rule) && v.summary.contains(&f.summary));
    let must_show =
        cause.is_some_and(|f| f.severity >= Severity::Error && rule(f.rule).is_some_and(|rule| rule.implies != Implies::Nothing));
    let alike = if must_show { shown.iter().any(is_it) } else { shown.iter().all(is_it) };
    (!alike)
        .then(|| shown.iter().map(|v| format!("{} {}: {}", v.state.as_str(), v.because.as_ref().map_or("-", |b| b.0), v.summary)).collect())
}

fn headline(cause: Option<&Finding>) -> String {
    cause.map_or("nothing".into(), |f| format!("{} {:?} {}", f.rule, f.ranks, f.summary))
}

/// Where the two differ, and why that is right.
const EXCEPTIONS: &[(&str, &str)] = &[];

fn compare(files: Vec<PathBuf>) {
    let mut wrong = Vec::new();
    for path in &files {
        let mut bytes = std::fs::read(path).unwrap();
        if path.extension().is_some_and(|e| e == "gz") {
            let packed = std::mem::take(&mut bytes);
            MultiGzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        }
        let report = check(&[path.display().to_string()], Zone::UTC, &mut |_, _| ());
        let whole = headline(report.root_cause.map(|i| &report.findings[i]));
        let (verdicts, conclusion) = live(path, &bytes);
        let followed = headline(conclusion.cause());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let excepted = EXCEPTIONS.iter().any(|(file, _)| *file == name);
        if (whole != followed) != excepted {
            wrong.push(format!("{name}\n    check {whole}\n    live  {followed}"));
        }
        if let Some(shown) = verdict_differs(&verdicts, report.root_cause.map(|i| &report.findings[i])) {
            wrong.push(format!("{name}\n    check  {whole}\n    screen {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn recorded_logs_are_judged_alike_live_and_afterwards() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    compare([files_in(&fixtures.join("logs")), files_in(&fixtures.join("runs"))].concat());
}

#[test]
#[ignore]
fn extra() {
    compare(files_in(Path::new(&std::env::var("EXTRA").unwrap())));
}
