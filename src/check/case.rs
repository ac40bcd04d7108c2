//! All that the inputs say, put together.

use super::alarms::{Alarm, Alarms, Said, is_alarm};
use super::flight::Dumped;
use super::runs::Marks;
use super::when;
use crate::findings::{Evidence, Finding, Ledger};
use crate::model::Model;
use crate::model::bringup::{Bringup, Item};
use crate::model::job::Job;
use crate::model::log::{LogFile, Progress};
use crate::observe::log::LogFileInfo;
use crate::reports::inspector::Inspector;
use crate::reports::nccl_tests::Table;
use crate::reports::ras_series::RasLook;
use crate::rules;
use crate::session::Session;
use crate::text::signature::Part;
use crate::text::{Init, Step, TextEvent, Timings, What, WorkerFailure, clean};
use crate::time::{Stamp, Zone};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

/// Everything read so far.
pub struct Case {
    pub zone: Zone,
    /// What log lines say, as on the screen: all files are one job.
    pub model: Model,
    pub files: BTreeMap<u32, FileSeen>,
    pub alarms: Alarms,
    /// By global rank, as far as lines say who it is.
    pub ranks: BTreeMap<u32, RankSeen>,
    /// Processes of several hosts may have the same number.
    ranks_of_pid: HashMap<u32, Vec<u32>>,
    pub hosts: BTreeSet<String>,
    /// Channel lines by transport, device numbers included: `NET/Socket/0`.
    pub transports: BTreeMap<String, u64>,
    /// Flight Recorder dumps, by rank.
    pub dumps: BTreeMap<u32, Dumped>,
    pub ras: Vec<RasLook>,
    pub inspectors: Vec<Inspector>,
    /// nccl-tests tables, with the path of the file that they stand in.
    pub tables: Vec<(String, Table)>,
    /// Seconds that the slowest rank took to create a communicator, by the number of its ranks.
    pub init_s: BTreeMap<u32, f64>,
    /// Number of ranks as rings and initialisations tell it, which name no communicator in old versions.
    pub ranks_told: Option<u32>,
    /// What recordings showed.
    pub(super) replayed: Vec<Finding>,
    replayed_job: Option<String>,
    /// Something that is no log line was understood.
    pub understood: bool,
    /// Loss findings, made while the progress was what it was then.
    pub(super) losses: Ledger,
}

/// What only `check` knows of a log file.
#[derive(Debug, Default)]
pub struct FileSeen {
    pub modified: Stamp,
    /// The last time that a line of it carried.
    at: Option<Stamp>,
    /// The last few of them, with their lines.
    times: VecDeque<(u64, Stamp)>,
    /// The first one, or when a wait began that a watchdog tells of, if that was earlier.
    began: Option<Stamp>,
    /// Times came without zone or year, which were assumed.
    pub assumed: bool,
    run: u32,
    /// Something failed in this run.
    failed: bool,
    pub lines: u64,
    /// Progress lines since the last failure that it tells, and whether its end was told since then.
    pub(super) steps_since: u32,
    pub(super) ended_well: bool,
    /// The lines of those, of which the first [`WATCHED_STEPS`] are looked at; the highest step, the bytes and the bars among them.
    lines_since: u64,
    step_since: Option<u64>,
    bytes_since: usize,
    bars_since: u32,
    /// Lines that stand in the first [`BUFFER`] bytes and before any failure, and whether a step is among them.
    pub(super) early_lines: u64,
    early_step: bool,
    /// What tells its run from others.
    pub(super) marks: Marks,
    /// How NCCL came up in the run before the last one.
    before: Bringup,
    /// The rank of whoever writes it, by the place where launchers put each one's output.
    rank: Option<PathRank>,
}

/// A rank as a path tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathRank {
    Global(u32),
    Local(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSeen {
    pub pid: Option<u32>,
    pub host: Option<String>,
    /// NVML index.
    pub gpu: Option<u32>,
}

/// What a process that prints into a file holds back, until so much has come together or it ends.
pub const BUFFER: usize = 8192;

/// Step lines after a failure that show whether the job goes on.
pub const WATCHED_STEPS: u64 = 1024;

/// Something failed. What only looks like it is no failure.
pub fn is_failure(what: &What) -> bool {
    is_alarm(what) && !matches!(what, What::Signed { signature, .. } if signature.part == Part::Harmless)
}

impl FileSeen {
    /// Whether more steps were made than are looked at.
    pub(super) fn went_far(&self) -> bool {
        self.lines_since > WATCHED_STEPS
    }

    /// When an event was told, as far as the lines up to its own say.
    fn at_of(&self, event: &TextEvent) -> Option<Stamp> {
        match event.said_at.as_ref().and_then(|said| said.line) {
            Some(line) if event.origin.written.is_none() => self.times.iter().rfind(|(at, _)| *at <= line).map(|(_, at)| *at),
            _ => self.at,
        }
    }

    fn stepped(&mut self, step: &Step, line: u64, bytes: usize) {
        self.lines_since += 1;
        if self.lines_since > WATCHED_STEPS {
            return;
        }
        // Ranks that stand still say the same step once more when they end.
        if step.step.is_none() || step.step > self.step_since {
            self.steps_since += 1;
            self.bars_since += u32::from(step.bar);
        }
        self.step_since = self.step_since.max(step.step);
        self.bytes_since = self.bytes_since.saturating_add(bytes);
        self.early_step |= line <= self.early_lines;
    }

    fn has_failed(&mut self) {
        (self.steps_since, self.ended_well) = (0, false);
        (self.lines_since, self.step_since, self.bytes_since, self.bars_since) = (0, None, 0, 0);
        // What a short run held back is all there is, and stands behind this.
        self.early_lines = 0;
    }

    /// The steps behind a failure were made after it. What a process held back is written when it ends, behind its traceback: that is
    /// ruled out by more than it holds back, by bars, which are not held back, and by a step that came too early for that.
    pub(super) fn goes_on(&self) -> bool {
        self.early_step || self.bytes_since > BUFFER || self.bars_since > 2
    }
}

const MOST_TIMES: usize = 16;
const MAX_RANKS: usize = 1 << 17;
const MAX_HOSTS: usize = 1 << 14;
const MAX_TRANSPORTS: usize = 256;

impl Case {
    pub fn new(zone: Zone) -> Case {
        let mut model = Model::default();
        model.zone = zone;
        Case {
            zone,
            model,
            files: BTreeMap::new(),
            alarms: Alarms::default(),
            ranks: BTreeMap::new(),
            ranks_of_pid: HashMap::new(),
            hosts: BTreeSet::new(),
            transports: BTreeMap::new(),
            dumps: BTreeMap::new(),
            ras: Vec::new(),
            inspectors: Vec::new(),
            tables: Vec::new(),
            init_s: BTreeMap::new(),
            ranks_told: None,
            replayed: Vec::new(),
            replayed_job: None,
            understood: false,
            losses: Ledger::default(),
        }
    }

    /// Makes a log file known; its number comes back. All files are one job, named after the first.
    pub fn add_file(&mut self, mut info: LogFileInfo, modified: Stamp) -> u32 {
        let file = self.files.len() as u32;
        info.file = file;
        self.files.insert(file, FileSeen { modified, rank: rank_of_path(&info.path), ..FileSeen::default() });
        let mut log = LogFile::new(info);
        log.job = self.model.files.values().next().map_or_else(|| log.name().to_owned(), |first| first.job.clone());
        self.model.files.insert(file, log);
        self.model.now = self.model.now.max(modified);
        file
    }

    /// A further run begins in a file: how NCCL came up in the one before is set aside.
    pub fn run_began(&mut self, file: u32) {
        let Some(log) = self.model.files.get_mut(&file) else { return };
        let bringup = std::mem::take(&mut log.bringup);
        if let Some(seen) = self.files.get_mut(&file)
            && bringup != Bringup::default()
        {
            seen.before = bringup;
        }
        if self.files.len() == 1 {
            self.transports.clear();
        }
    }

    /// The last run said again, word for word, what the one before had said: a container that was started anew has the same pids.
    pub fn same_as_before(&mut self, file: u32) {
        if let (Some(log), Some(seen)) = (self.model.files.get_mut(&file), self.files.get_mut(&file)) {
            log.bringup.merge(&std::mem::take(&mut seen.before));
        }
    }

    pub fn early_lines(&mut self, file: u32, lines: u64) {
        if let Some(seen) = self.files.get_mut(&file) {
            seen.early_lines = lines;
        }
    }

    pub fn files_read(&mut self, file: u32, lines: u64) {
        if let Some(seen) = self.files.get_mut(&file) {
            seen.lines = lines;
        }
        if let Some(log) = self.model.files.get_mut(&file) {
            log.lines = lines;
        }
    }

    /// What a line of a log says. Takes the events out.
    pub fn told(&mut self, file: u32, line: u64, text: &str, events: &mut Vec<TextEvent>) {
        let Some(seen) = self.files.get_mut(&file) else { return };
        for event in events.iter() {
            if let Some(written) = &event.origin.written {
                seen.assumed |= written.year.is_none() || written.offset_s.is_none();
                let at = when::stamp_of(written, seen.modified, self.zone);
                at.into_iter().for_each(|at| seen.marks.timed(at));
                seen.at = at.or(seen.at);
            }
            if let What::WorkerFailure(WorkerFailure { time: Some(time), .. }) = &event.what {
                // It tells whole seconds: what was said in that second was said before.
                let told = when::stamp_of(time, seen.modified, self.zone).map(|at| at.plus(Duration::from_millis(999)));
                seen.at = told.or(seen.at);
            }
            seen.began = seen.began.or(seen.at);
            if let What::CollectiveTimeout(t) = &event.what {
                seen.began = seen.began.min(seen.at.map(|at| at.minus(t.waited())));
            }
            if event.what == What::RunStart {
                seen.run += u32::from(std::mem::take(&mut seen.failed));
                // A run before this one may have written all that it held back.
                if std::mem::take(&mut seen.early_step) {
                    seen.early_lines = 0;
                }
            }
        }
        if let Some(at) = seen.at.filter(|at| seen.times.back().is_none_or(|(_, last)| last != at)) {
            // The first one stays.
            if seen.times.len() >= MOST_TIMES {
                seen.times.remove(1);
            }
            seen.times.push_back((line, at));
        }
        // A traceback is told when later lines show that it has ended, which may be written much later.
        let mut times = events.iter().map(|e| seen.at_of(e)).collect::<Vec<_>>().into_iter();
        let (at, run, modified) = (seen.at, seen.run, seen.modified);
        for event in events.iter() {
            match &event.what {
                What::Step(step) => seen.stepped(step, line, text.len()),
                What::Done => seen.ended_well = true,
                What::Init(init) => seen.marks.init(&event.origin, init),
                what if is_failure(what) => seen.has_failed(),
                _ => {}
            }
        }
        let clean = clean::clean(text);
        for event in events.iter() {
            self.who(event);
            match &event.what {
                What::Channel { transport, .. } => self.channel(transport, 1),
                What::Timings(t) => self.init_took(t),
                What::Init(init) => self.ranks_told = self.ranks_told.max(Some(init.nranks)),
                What::Ring { ranks, .. } => self.ranks_told = self.ranks_told.max(whole_ring(ranks)),
                _ => {}
            }
        }
        let (alarms, losses, model) = (&mut self.alarms, &mut self.losses, &mut self.model);
        let mut failed = false;
        model.apply_events(at.unwrap_or(modified), file, events, (Some(line), &clean), true, &mut |model, seen| {
            let at = times.next().flatten();
            if is_alarm(&seen.event.what) {
                failed = true;
                let said = Said { file, run, rank: seen.rank, event: seen.event };
                alarms.push(&said, || Alarm {
                    file,
                    run,
                    line: seen.line.unwrap_or(line),
                    text: seen.text.to_owned(),
                    event: seen.event.clone(),
                    rank: seen.rank,
                    at,
                    is_timed: seen.event.origin.written.is_some(),
                    count: 1,
                });
            } else if matches!(seen.event.what, What::Step(_)) {
                crate::session::judge_text(model, seen, losses, &mut Vec::new());
            }
        });
        if let Some(seen) = self.files.get_mut(&file).filter(|_| failed) {
            seen.failed = true;
        }
        events.clear();
    }

    /// Notes who wrote a line.
    fn who(&mut self, event: &TextEvent) {
        let origin = &event.origin;
        if let Some(host) = &origin.host
            && self.hosts.len() < MAX_HOSTS
            && !self.hosts.contains(host)
        {
            self.hosts.insert(host.clone());
        }
        let rank = match &event.what {
            What::Init(init) if self.is_world(init) => Some(init.rank),
            _ => origin.rank,
        };
        let Some(rank) = rank else { return };
        if self.ranks.len() >= MAX_RANKS && !self.ranks.contains_key(&rank) {
            return;
        }
        let known = self.ranks.entry(rank).or_default();
        if let (None, Some(pid)) = (known.pid, origin.pid) {
            known.pid = Some(pid);
            self.ranks_of_pid.entry(pid).or_default().push(rank);
        }
        if known.host.is_none() {
            known.host.clone_from(&origin.host);
        }
        if let What::Init(init) = &event.what {
            known.gpu = known.gpu.or(init.nvml_dev);
        }
    }

    fn init_took(&mut self, t: &Timings) {
        if t.of == "init"
            && let Some(nranks) = t.nranks
            && (self.init_s.len() < MAX_TRANSPORTS || self.init_s.contains_key(&nranks))
        {
            let slowest = self.init_s.entry(nranks).or_insert(t.total_s);
            *slowest = slowest.max(t.total_s);
        }
    }

    /// A rank in the largest communicator is the global one.
    fn is_world(&self, init: &Init) -> bool {
        self.model.comms.values().all(|c| c.nranks <= init.nranks)
    }

    pub fn channel(&mut self, transport: &str, lines: u64) {
        if let Some(known) = self.transports.get_mut(transport) {
            *known += lines;
        } else if self.transports.len() < MAX_TRANSPORTS {
            self.transports.insert(transport.to_owned(), lines);
        }
    }

    /// The global rank that an alarm is of: as its line says, else by the process that wrote it, else by the file that it stands in.
    /// On one node the local rank is the rank.
    pub fn rank_of(&self, alarm: &Alarm) -> Option<u32> {
        let origin = &alarm.event.origin;
        let by_process = || {
            let same_host = |seen: &RankSeen| origin.host.is_none() || seen.host.is_none() || seen.host == origin.host;
            let pid = origin.pid?;
            let known = self.ranks_of_pid.get(&pid)?;
            let mut ranks = known.iter().copied().filter(|rank| self.ranks.get(rank).is_some_and(same_host));
            ranks.next().filter(|_| ranks.next().is_none())
        };
        let by_path = self.files.get(&alarm.file).and_then(|f| f.rank).and_then(|rank| match rank {
            PathRank::Global(rank) => Some(rank),
            PathRank::Local(rank) => Some(rank).filter(|_| self.nnodes().is_none_or(|n| n == 1)),
        });
        let one_node = self.nnodes().map_or(self.hosts.len() == 1, |n| n == 1);
        alarm.rank.or_else(by_process).or(by_path).or(origin.local_rank.filter(|_| one_node))
    }

    /// Nodes of the job, by the layout of its communicators.
    fn nnodes(&self) -> Option<u32> {
        self.model.files.values().flat_map(|f| &f.bringup.layouts.said).map(|s| s.value.nnodes).max()
    }

    /// Channel lines like one that was told.
    pub fn more_channels(&mut self, file: u32, transport: &str, receive: bool, lines: u64) {
        if lines > 0 {
            self.channel(transport, lines);
            if let Some(log) = self.model.files.get_mut(&file) {
                log.bringup.more_channels(transport, receive, lines);
            }
        }
    }

    /// The one job that all logs are of, or the main one of a recording.
    pub fn job(&self) -> Option<&Job> {
        self.replayed_job.as_ref().and_then(|id| self.model.jobs.get(id)).or_else(|| self.model.jobs.values().next())
    }

    /// All alarms in the order of time, as far as it is known, with the time. A line without one stands where its file has it.
    pub fn in_order(&self) -> Vec<(Option<Stamp>, &Alarm)> {
        let began = |file: u32| self.files.get(&file).and_then(|f| f.began);
        let mut all: Vec<_> = self.alarms.iter().map(|a| (a.at.or_else(|| began(a.file)), a)).collect();
        // A file without any times comes last: nothing says that it was first.
        all.sort_by_key(|(at, a)| (at.unwrap_or(Stamp(i64::MAX)), a.file, a.line));
        all
    }

    /// The name of a log file.
    pub fn path_of(&self, file: u32) -> String {
        self.model.files.get(&file).map_or(String::new(), |f| f.info.path.clone())
    }

    /// The number of ranks that the job has, by its largest communicator.
    pub fn world_size(&self) -> Option<u32> {
        self.model.comms.values().map(|c| c.nranks).max()
    }

    pub fn recognised(&self) -> bool {
        let steps = |f: &Progress| !f.is_empty() || f.skipped_steps > 0;
        let facts = || self.model.files.values().any(|f| steps(&f.progress) || f.bringup != Default::default());
        self.understood || !self.tables.is_empty() || !self.alarms.is_empty() || !self.model.comms.is_empty() || facts()
    }

    /// How NCCL came up, by all logs. Lines that name no process make no job, but they are known.
    pub fn bringup(&self) -> Bringup {
        let job = self.job().map(|j| j.id.as_str()).or_else(|| Some(self.model.files.values().next()?.job.as_str()));
        job.map(|id| self.model.bringup_of(id)).unwrap_or_default()
    }

    pub fn checklist(&self) -> Vec<Item> {
        let nobody = Job::new(String::new(), self.model.now);
        self.bringup().checklist(&self.model, self.job().unwrap_or(&nobody), true)
    }

    /// Takes what a recording showed: its findings, also those that it saw pass, and, where no log says more, what it knew.
    pub fn replayed(&mut self, session: Session, path: &str) {
        let mut findings: Vec<Finding> = session.ledger.open().into_iter().cloned().collect();
        findings.extend(session.ledger.past().cloned().map(|mut f| {
            let after = f.cleared_at.map_or(String::new(), |at| crate::time::span(at.since(f.opened_at)));
            f.why = format!("{}; it passed after {after}", f.why);
            f
        }));
        for f in &mut findings {
            f.job = None;
            f.evidence.iter_mut().filter(|e| e.path.is_none()).for_each(|e| e.path = Some(path.to_owned()));
        }
        self.replayed.extend(findings);
        if self.files.is_empty() {
            self.replayed_job = session.main_job().map(|(id, _)| id.to_owned());
            self.model = session.model;
        }
    }

    /// The command that shows where a rank is, if its process is known.
    pub fn py_spy(&self, rank: u32) -> Option<String> {
        let seen = self.ranks.get(&rank)?;
        let command = rules::py_spy(seen.pid?);
        Some(match &seen.host {
            Some(host) if self.hosts.len() > 1 => format!("on {host}: {command}"),
            _ => command,
        })
    }

    /// A line of a log as evidence.
    pub fn proof(&self, alarm: &Alarm) -> Evidence {
        let path = self.model.files.get(&alarm.file).map_or("", |f| f.info.path.as_str());
        Evidence { at: alarm.at, ..Evidence::line(path, Some(alarm.line), &alarm.text, Stamp::default()) }
    }
}

/// `attempt_0/3/stderr.log` of torchrun, `rank_3.log`, `rank-3/out.txt`.
fn rank_of_path(path: &str) -> Option<PathRank> {
    static ATTEMPT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|/)attempt_[0-9]+/([0-9]{1,4})/std(?:out|err)\.log").expect("pattern"));
    static RANK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|[^A-Za-z])(local[_-]?)?[Rr]ank[_-]?([0-9]{1,5})(?:[^0-9]|$)").expect("pattern"));
    if let Some(found) = ATTEMPT.captures(path) {
        return found[1].parse().ok().map(PathRank::Local);
    }
    let found = RANK.captures_iter(path).last()?;
    let rank = found[2].parse().ok()?;
    Some(if found.get(1).is_some() { PathRank::Local(rank) } else { PathRank::Global(rank) })
}

/// How many ranks a ring has; `None` for one that has lost its end.
fn whole_ring(ranks: &[u32]) -> Option<u32> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.iter().enumerate().all(|(i, rank)| i as u32 == *rank).then_some(ranks.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_ranks_where_launchers_put_them() {
        for (path, rank) in [
            ("/tmp/torchelastic_x/none_ab12cd34/attempt_0/3/stderr.log", Some(PathRank::Local(3))),
            ("logs/rank_12.log", Some(PathRank::Global(12))),
            ("logs/rank3/out.txt", Some(PathRank::Global(3))),
            ("logs/local_rank_5.log", Some(PathRank::Local(5))),
            ("logs/train.log", None),
            ("frank9.log", None),
            ("attempt_0/3/notes.txt", None),
        ] {
            assert_eq!(rank_of_path(path), rank, "{path}");
        }
    }
}
