//! What the logs of one job have reported so far, kept while its run lasts, so that it can be judged as a whole: what failed, in order, and
//! who its ranks are.

use super::Model;
use super::alarms::{Alarm, Alarms};
use super::chronicle::PathRank;
use super::gpu::PciAddress;
use super::job::Job;
use super::saved_report::SavedReport;
use crate::base::severity::Severity;
use crate::base::time::Stamp;
use crate::formats::inspector::Inspector;
use crate::formats::nccl_tests::Table;
use crate::logs::header::{Launch, Present};
use crate::logs::{Ending, Init, RankBy, Timings, What, WorkStack};
use crate::observe::evidence::Evidence;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    pub alarms: Alarms,
    /// By global rank, as far as lines say who it is.
    pub ranks: BTreeMap<u32, RankSeen>,
    /// Processes of several hosts may have the same number.
    ranks_of_pid: HashMap<u32, Vec<u32>>,
    /// Ranks of processes, as the launcher's table of failures names them.
    pub launched: BTreeMap<u32, u32>,
    pub hosts: BTreeSet<String>,
    /// Versions of programs as lines name them, by the program's name.
    pub software: BTreeMap<&'static str, Vec<String>>,
    /// How the job was started, as far as lines say.
    pub launch: Launch,
    /// Numbers and names of the job, by the row of the report: what each is of (`tensor {}`), and its value, in the order of the lines. What was
    /// said first stays: ranks and libraries say it again, each of its own.
    pub details: BTreeMap<&'static str, Vec<(&'static str, String)>>,
    /// The last checkpoint that a line tells of, in its words.
    pub saved: Option<String>,
    /// The first checkpoint that the run went on from.
    pub resumed: Option<String>,
    /// The first and the last evaluation, and the last result, that lines tell of, in their words.
    pub evaluated_first: Option<String>,
    pub evaluated: Option<String>,
    pub result: Option<String>,
    /// By the row of the report: what was said last, and how many lines said it. `{}` in the text stands for so many processes.
    pub last: BTreeMap<&'static str, (String, u64)>,
    /// Ranks have said who they are.
    pub is_present: bool,
    /// How often each rank began, and how many there are to be.
    pub joined: BTreeMap<u32, u32>,
    pub members: Option<u32>,
    /// The first line by which a rank began that had begun already.
    pub joined_again: Option<JoinedAgain>,
    /// Channel lines by transport, device numbers included: `NET/Socket/0`.
    pub transports: BTreeMap<String, u64>,
    /// Seconds that the slowest rank took to create a communicator, by the number of its ranks.
    pub init_s: BTreeMap<u32, f64>,
    /// Number of ranks as rings and initialisations give it, which name no communicator in old versions.
    pub ring_ranks: Option<u32>,
    /// Ranks of the largest communicator that lines name.
    largest_comm: u32,
    /// nccl-tests tables, with the path of the file that they stand in.
    pub tables: Vec<(String, Table)>,
    /// Saved answers of RAS, in the order in which they were taken.
    pub reports: Vec<SavedReport>,
    /// Files of the Inspector.
    pub inspectors: Vec<Inspector>,
    /// Events that may be failures and came while the program watched, by how bad they are.
    pub said: BTreeMap<Severity, u64>,
    /// Ranks that have destroyed the communicator of all ranks, with the line that says so.
    pub left: BTreeMap<u32, Told<()>>,
    /// Where each rank called the collective that timed out last, with the line that says so.
    pub work_stacks: BTreeMap<u32, Told<WorkStack>>,
    /// Grows with everything that may be judged differently.
    pub revision: u64,
}

/// What a rank has said, with the line that says it, and the run of the file that it is of.
#[derive(Clone, Debug, PartialEq)]
pub struct Told<T> {
    pub what: T,
    pub proof: Evidence,
    pub file: u32,
    pub run: u32,
}

/// A line by which a rank began that had begun already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedAgain {
    pub at: Stamp,
    pub file: u32,
    pub line: Option<u64>,
    pub text: String,
    /// How many ranks had begun then: of a start that follows another one, all that this file names.
    pub after: usize,
}

/// A rank, as lines and reports name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankSeen {
    pub pid: Option<u32>,
    pub host: Option<String>,
    /// NVML index.
    pub gpu: Option<u32>,
    /// Where its GPU is.
    pub card: Option<PciAddress>,
    /// Only the number of a task says that it is there, and where.
    pub by_task: bool,
}

const MAX_RANKS: usize = 1 << 17;
const MAX_HOSTS: usize = 1 << 14;
const MAX_KINDS: usize = 256;
/// Of one program: nodes may differ in what is installed.
const MOST_VERSIONS: usize = 4;
/// Of one row.
const MOST_DETAILS: usize = 16;

impl Record {
    /// Notes who wrote a line, and what it says of the job as a whole.
    pub(super) fn apply(&mut self, event: &crate::logs::TextEvent) {
        self.who(event);
        match &event.what {
            What::Channel { transport, .. } => self.channels(transport, 1),
            What::Timings(t) => self.init_took(t),
            What::TasksAreLaunchers => {
                let by_task: Vec<u32> = self.ranks.iter().filter(|(_, seen)| seen.by_task).map(|(rank, _)| *rank).collect();
                by_task.into_iter().for_each(|rank| self.forget(rank));
            }
            What::Init(init) => {
                self.ring_ranks = self.ring_ranks.max(Some(init.nranks));
                if init.comm_id.is_some() {
                    self.largest_comm = self.largest_comm.max(init.nranks);
                }
            }
            What::Placed { rank, pid, host } if self.ranks_of_pid.len() < MAX_RANKS => {
                // Where hosts have names, an address is another name of one of them.
                let is_new =
                    self.hosts.len() < MAX_HOSTS && self.hosts.iter().all(|host| host.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
                self.hosts.extend(host.clone().filter(|_| is_new));
                self.rank(*rank, |_| ());
                let ranks = self.ranks_of_pid.entry(*pid).or_default();
                if !ranks.contains(rank) && ranks.len() < MAX_KINDS {
                    ranks.push(*rank);
                }
            }
            What::Launch(said) => self.launch.learn(said),
            What::Saved { text } => self.saved = Some(text.clone()),
            What::Resumed { text } => {
                self.resumed.get_or_insert_with(|| text.clone());
            }
            What::Evaluated { text } => {
                self.evaluated_first.get_or_insert_with(|| text.clone());
                self.evaluated = Some(text.clone());
            }
            What::Result { text } => self.add_result(text),
            What::Last { row, text } => {
                let (said, times) = self.last.entry(row).or_default();
                said.clone_from(text);
                *times += 1;
            }
            What::Present(present) => self.present(present, event.origin.host.as_ref()),
            What::Joined { rank, members } => {
                self.members = self.members.max(Some(*members));
                if self.joined.len() < MAX_RANKS {
                    *self.joined.entry(*rank).or_default() += 1;
                }
            }
            What::Software { name, version } => {
                let known = self.software.entry(name).or_default();
                if known.len() < MOST_VERSIONS && !known.contains(version) {
                    known.push(version.clone());
                }
            }
            What::Detail { row, of, value } => {
                let told = self.details.entry(row).or_default();
                // Nodes may differ in their GPUs.
                let is_known = |(known, said): &(&str, String)| known == of && (*row != "GPUs" || said == value);
                if told.len() < MOST_DETAILS && !told.iter().any(is_known) {
                    told.push((of, value.clone()));
                }
            }
            What::Ring { ranks, .. } => self.ring_ranks = self.ring_ranks.max(whole_ring(ranks)),
            // torchrun's table names the global rank of a process; its line of the failure has only the local one.
            What::WorkerFailure(f) => {
                if let (Some(rank), Some(pid)) = (f.rank, f.pid)
                    && self.launched.len() < MAX_RANKS
                {
                    self.launched.entry(pid).or_insert(rank);
                }
            }
            _ => {}
        }
    }

    /// A table of results has a row for each: `train_loss = 2.6578`.
    fn add_result(&mut self, text: &str) {
        const LONGEST: usize = 240;
        let name = |text: &str| text.split_once(" = ").map(|(name, _)| format!("{name} = ")).filter(|name| name.matches(' ').count() == 2);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match &mut self.result {
            // What has a name that is there already is of the next table.
            Some(before)
                if name(before).is_some()
                    && name(&words).is_some_and(|name| !before.contains(&name))
                    && before.len() + words.len() < LONGEST =>
            {
                before.push_str(", ");
                before.push_str(&words);
            }
            result => *result = Some(words),
        }
    }

    fn present(&mut self, said: &Present, writer: Option<&String>) {
        let (Some(rank), host) = (said.rank, said.host.as_ref().or(writer)) else { return };
        self.is_present = true;
        self.launch.world = self.launch.world.max(said.members);
        if let Some(host) = host.filter(|_| self.hosts.len() < MAX_HOSTS) {
            self.hosts.insert(host.clone());
        }
        self.rank(rank, |seen| {
            seen.by_task = false;
            if seen.host.is_none() {
                seen.host = host.cloned();
            }
        });
    }

    /// Notes who takes the communicator of all ranks down, or comes back to one, and where a rank called what timed out.
    pub(super) fn come_or_gone(&mut self, event: &What, writer: Option<u32>, told: impl FnOnce() -> Told<()>) {
        let world = self.world_size().or(self.launch.ranks());
        match event {
            What::Init(init) if world.is_none_or(|all| init.nranks >= all) => {
                self.left.remove(&init.rank);
            }
            What::CommEnded { rank, nranks, how: Ending::Destroy, .. } if self.left.len() < MAX_RANKS && world == Some(*nranks) => {
                self.left.entry(*rank).or_insert_with(told);
            }
            What::WorkStack(stack) => {
                if let Some(rank) = writer
                    && (self.work_stacks.len() < MAX_RANKS || self.work_stacks.contains_key(&rank))
                {
                    let Told { proof, file, run, .. } = told();
                    self.work_stacks.insert(rank, Told { what: stack.clone(), proof, file, run });
                    self.revision += 1;
                }
            }
            _ => {}
        }
    }

    fn forget(&mut self, rank: u32) {
        let Some(pid) = self.ranks.remove(&rank).and_then(|seen| seen.pid) else { return };
        if let Some(ranks) = self.ranks_of_pid.get_mut(&pid) {
            ranks.retain(|known| *known != rank);
        }
    }

    /// Learns more of a rank, if there is room for it.
    pub fn rank(&mut self, rank: u32, learn: impl FnOnce(&mut RankSeen)) {
        if self.ranks.len() >= MAX_RANKS && !self.ranks.contains_key(&rank) {
            return;
        }
        let seen = self.ranks.entry(rank).or_default();
        let before = seen.pid;
        learn(seen);
        if let (None, Some(pid)) = (before, seen.pid) {
            self.ranks_of_pid.entry(pid).or_default().push(rank);
        }
    }

    fn who(&mut self, event: &crate::logs::TextEvent) {
        let origin = &event.origin;
        if let Some(host) = &origin.host
            && self.hosts.len() < MAX_HOSTS
            && !self.hosts.contains(host)
        {
            self.hosts.insert(host.clone());
        }
        let own = match &event.what {
            What::Init(init) if self.is_world(init) => Some(init.rank),
            // Which of a job's communicators ends is told by its size alone.
            What::CommEnding { rank, nranks, .. } | What::CommEnded { rank, nranks, .. } if self.launch.ranks() == Some(*nranks) => {
                Some(*rank)
            }
            _ => None,
        };
        let Some(rank) = own.or(origin.rank) else { return };
        let by_task = own.is_none() && origin.rank_by == RankBy::Task;
        match self.ranks.get(&rank).map(|seen| seen.by_task) {
            Some(false) if by_task => return,
            // What the number of a task told may be of another rank.
            Some(true) if !by_task => self.forget(rank),
            _ => {}
        }
        self.rank(rank, |seen| {
            seen.by_task = by_task;
            seen.pid = seen.pid.or(origin.pid);
            if seen.host.is_none() {
                seen.host.clone_from(&origin.host);
            }
            if let What::Init(init) = &event.what {
                seen.gpu = seen.gpu.or(init.nvml_dev);
                seen.card = seen.card.or_else(|| PciAddress::parse(init.bus_id.as_deref()?));
            }
        });
    }

    /// A rank in the largest communicator is the global one.
    fn is_world(&self, init: &Init) -> bool {
        self.largest_comm <= init.nranks
    }

    fn init_took(&mut self, t: &Timings) {
        if t.of == "init"
            && let Some(nranks) = t.nranks
            && (self.init_s.len() < MAX_KINDS || self.init_s.contains_key(&nranks))
        {
            let slowest = self.init_s.entry(nranks).or_insert(t.total_s);
            *slowest = slowest.max(t.total_s);
        }
    }

    /// So many channel lines over a transport.
    pub fn channels(&mut self, transport: &str, lines: u64) {
        if let Some(known) = self.transports.get_mut(transport) {
            *known += lines;
        } else if self.transports.len() < MAX_KINDS {
            self.transports.insert(transport.to_owned(), lines);
        }
    }

    /// The ranks that a process of this number may be: of several hosts each may have one.
    pub fn rank_of_pid(&self, pid: u32, host: Option<&str>) -> Option<u32> {
        let same_host = |seen: &RankSeen| host.is_none() || seen.host.is_none() || seen.host.as_deref() == host;
        let known = self.ranks_of_pid.get(&pid)?;
        let mut ranks = known.iter().copied().filter(|rank| self.ranks.get(rank).is_some_and(same_host));
        ranks.next().filter(|_| ranks.next().is_none())
    }

    /// Whether the launcher reports that a process ended, or that it ends it.
    fn has_ended(&self, pid: u32) -> bool {
        let ended = |what: &What| match what {
            What::Terminating { pid, .. } => *pid,
            What::WorkerFailed { pid, .. } => Some(*pid),
            What::WorkerFailure(failure) => failure.pid,
            _ => None,
        };
        self.alarms.iter().any(|alarm| ended(&alarm.event.what) == Some(pid))
    }

    /// The number of ranks of the largest communicator that lines name.
    pub fn world_size(&self) -> Option<u32> {
        Some(self.largest_comm).filter(|n| *n > 0)
    }
}

impl Model {
    /// What the logs of a job have reported.
    pub fn record_of(&self, job: &str) -> &Record {
        static NOTHING: std::sync::LazyLock<Record> = std::sync::LazyLock::new(Record::default);
        self.records.get(job).unwrap_or(&NOTHING)
    }

    /// The number of ranks of a job: as its environment says, else by its largest communicator.
    pub fn world_size_of(&self, job: &Job) -> Option<u32> {
        job.world_size.or_else(|| self.record_of(&job.id).world_size())
    }

    /// Nodes of a job, by the layout of its communicators.
    fn nnodes_of(&self, job: &str) -> Option<u32> {
        let files = || self.files_of(job).map(|f| &f.bringup);
        if files().any(|b| b.counts_gpus_as_nodes()) {
            return u32::try_from(self.record_of(job).hosts.len()).ok().filter(|n| *n > 0);
        }
        files().flat_map(|b| &b.layouts.said).map(|s| s.value.nnodes).max()
    }

    /// The rank that a local rank is, of a job on one node; of one whose nodes are not known where all of its lines are of one host.
    pub fn rank_of_local(&self, job: &str, local: u32) -> Option<u32> {
        let by_process = || self.jobs.get(job).is_some_and(is_all_here);
        let by_log = || self.nnodes_of(job).map_or(self.record_of(job).hosts.len() <= 1, |n| n == 1);
        (by_process() || self.jobs.get(job).is_none_or(|job| job.log_only) && by_log()).then_some(local)
    }

    /// The global rank that an alarm is of: as its line says, else by the process that wrote it, else by the file that it stands in.
    /// On one node the local rank is the rank.
    pub fn rank_of_alarm(&self, job: &str, alarm: &Alarm) -> Option<u32> {
        let (record, origin) = (self.record_of(job), &alarm.event.origin);
        let by_log = || self.nnodes_of(job).map_or(record.hosts.len() == 1, |n| n == 1);
        let one_node = || by_log() || self.jobs.get(job).is_some_and(is_all_here);
        let by_path = || match self.files.get(&alarm.file)?.path_rank? {
            PathRank::Global(rank) => Some(rank),
            PathRank::Local(rank) => Some(rank).filter(|_| self.nnodes_of(job).is_none_or(|n| n == 1)),
        };
        let by_process = || record.rank_of_pid(origin.pid?, origin.host.as_deref());
        alarm.rank.or_else(by_process).or_else(by_path).or_else(|| origin.local_rank.filter(|_| one_node()))
    }

    /// The command that shows where a rank is, if its process is known and has not ended.
    pub fn py_spy(&self, job: &Job, rank: u32) -> Option<String> {
        if let Some(pid) = job.ranks.get(&rank) {
            return self.processes.get(pid).filter(|p| p.is_alive()).map(|_| crate::base::words::py_spy(*pid));
        }
        let record = self.record_of(&job.id);
        let seen = record.ranks.get(&rank)?;
        let pid = seen.pid.filter(|pid| !record.has_ended(*pid))?;
        let command = crate::base::words::py_spy(pid);
        Some(match &seen.host {
            Some(host) if record.hosts.len() > 1 => format!("on {host}: {command}"),
            _ => command,
        })
    }

    /// Where to look at a rank whose process is not known to run.
    pub fn what_it_left(&self, job: &Job, rank: u32) -> String {
        let record = self.record_of(&job.id);
        let has_ended = record.ranks.get(&rank).and_then(|seen| seen.pid).is_some_and(|pid| record.has_ended(pid));
        let then = if has_ended {
            "Flight Recorder's dumps of all ranks, where it was on, show where each was"
        } else {
            "where it still runs: py-spy dump --nonblocking --pid PID"
        };
        format!("read what rank {rank} printed last, and its node's kernel log; {then}")
    }

    /// The path of a file, empty if it is not known.
    pub fn path_of(&self, file: u32) -> &str {
        self.files.get(&file).map_or("", |f| f.info.path.as_str())
    }

    /// What was read, for a job, from the line that a piece of evidence is.
    pub fn alarms_at<'a>(&'a self, job: &str, proof: Option<&Evidence>) -> impl Iterator<Item = &'a Alarm> + use<'a> {
        let at = proof.and_then(|proof| Some((proof.path.clone()?, proof.line?)));
        let is_it =
            move |a: &&Alarm| at.as_ref().is_some_and(|(path, line)| a.line == Some(*line) && self.path_of(a.file) == path.as_str());
        self.record_of(job).alarms.iter().filter(is_it)
    }

    /// The line of an alarm as evidence. It has a time only if the line or one before it carries one.
    pub fn proof(&self, alarm: &Alarm) -> Evidence {
        let at = alarm.at.filter(|_| alarm.is_timed || !self.is_archived(alarm.file));
        Evidence { at, ..Evidence::line(self.path_of(alarm.file), alarm.line, &alarm.text, Stamp::default()) }
    }
}

/// How many ranks a ring has; `None` for one that has lost its end.
fn whole_ring(ranks: &[u32]) -> Option<u32> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.iter().enumerate().all(|(i, rank)| i as u32 == *rank).then_some(ranks.len() as u32)
}

/// All ranks of it are on this node.
pub(super) fn is_all_here(job: &Job) -> bool {
    job.world_size.is_some_and(|n| job.local_world_size == Some(n) || job.ranks.len() == n as usize)
}
