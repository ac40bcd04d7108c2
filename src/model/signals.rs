//! One look at one job: every signal that this node has of whether it moves, side by side, with how long each has shown it.
//!
//! Rules and the verdict read this and nothing else of the kind, so that they cannot disagree. A signal that is missing is `None`:
//! it neither accuses nor acquits.

use crate::base::clean::clean;
use crate::base::time::Stamp;
use crate::base::words::{py_spy, shell_word};
use crate::logs::Phase;
use crate::model::Model;
use crate::model::circle::{WaitsFor, circle, siblings_did_more};
use crate::model::comm::{Behind, Comm, CommRank, Odd};
use crate::model::counting::Counted;
use crate::model::gpu::{Activity, Gpu};
use crate::model::job::Job;
use crate::model::log::LogFile;
use crate::model::peers::Peers;
use crate::model::process::Process;
use crate::observe::process::{Helpers, Holder, Wait};
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A server whose GPUs all wait for so long waits for none of its clients.
const SERVER_HELD: Duration = Duration::from_secs(12);
/// How far back I/O and CPU of a process are looked at: a checkpoint writer pauses for seconds between files.
const IO_WINDOW: Duration = Duration::from_secs(10);
/// Programs start within less.
const FORKS: Duration = Duration::from_secs(4);

/// Who gets no CPU when it wants one does so all the time, not for a moment.
const CPU_WINDOW: Duration = Duration::from_secs(20);

/// More than a log and a few sockets: somebody reads or writes data.
const IO_BYTES_PER_S: f64 = 256e3;

/// Of one core: a thread that polls uses all of it.
const SPINS_PCT: f64 = 80.0;
const SLEEPS_PCT: f64 = 10.0;

/// A reading of GPM is a mean over the time since the one before.
const GPM_SETTLES: Duration = Duration::from_secs(2);

/// Gigabytes within this: a part of a checkpoint, which other nodes write, too.
const LATELY: Duration = Duration::from_secs(60);
const MUCH_IO_BYTES_PER_S: f64 = 16e6;

#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    pub at: Stamp,
    pub ranks: BTreeMap<u32, RankLook>,
    /// Ranks of this node that should be there.
    pub local_ranks: usize,
    pub log: Option<LogLook>,
    /// The newest step of a `metrics.csv`, and when it was saved. It is no log: silence of it means nothing.
    pub saved: Option<(u64, Option<Stamp>)>,
    pub ras: Option<RasLook>,
    pub peers: Peers,
    pub phase: Option<(Phase, Stamp)>,
    /// A pause that the log names and that has lasted longer than those like it before: it is not believed any more.
    pub overdue: Option<(Phase, Stamp)>,
    /// It served, and all of its GPUs wait for each other for longer than a batch takes.
    pub server_hangs: bool,
    /// How long its GPUs have worked so far.
    pub worked: Duration,
    /// What the GPUs do that ranks of this job share and nobody else works on, all together, and since when. Which of those ranks does it
    /// is not told. Empty where none is shared.
    pub shared: Vec<(Activity, Stamp)>,
    /// Its ranks on this node count their pids in a container.
    pub contained: bool,
    /// Which kinds of signal are not there, in words: `RAS answers`.
    pub lacks: Vec<&'static str>,
    /// When something was last seen to move.
    pub moved_at: Option<Stamp>,
    /// The time of a step by the rhythm of its traffic, where no log names it: the last that was found.
    pub rhythm: Option<Duration>,
    /// Lines of its logs that count something, where none names a step.
    pub counted: Option<Counted>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RankLook {
    pub rank: u32,
    pub pid: u32,
    pub gpu: Option<u32>,
    pub activity: Activity,
    pub activity_since: Stamp,
    /// Activity is known from GPM, not from utilisation and power.
    pub by_gpm: bool,
    pub power_mw: Option<u64>,
    /// What its GPU usually draws while it works in this job, W.
    pub at_work_w: Option<f64>,
    /// Its GPU draws what it draws while it works, or far less.
    pub draws_as_at_work: Option<bool>,
    /// SMs with a kernel on them while its GPU has been in this state.
    pub sm_active_pct: Option<f64>,
    pub state: Option<char>,
    pub state_since: Stamp,
    /// `None` where /proc/PID/io may not be read.
    pub io_bytes_per_s: Option<f64>,
    /// It has read or written gigabytes within a minute.
    pub much_io_lately: bool,
    /// It, or a thread of it, was in uninterruptible sleep for much of the window. A moment in it is usual: driver calls are.
    pub in_d: bool,
    /// In how many looks of late it was stopped as in the one before, although it had run in between.
    pub times_stopped_again: usize,
    pub cpu_pct: Option<f64>,
    /// How fast its resident memory grows.
    pub resident_growth_bytes_per_s: Option<f64>,
    pub gone_at: Option<Stamp>,
    pub exit_code: Option<i32>,
    pub written_bytes_per_s: Option<f64>,
    /// Its descendants that are no ranks, and the CPU time that they use, % of one core.
    pub helpers: Option<Helpers>,
    pub helper_cpu_pct: Option<f64>,
    /// Share of the time in which it was ready to run and got no CPU, %.
    pub run_delay_pct: Option<f64>,
    /// Where it and its helpers wait, itself first. Empty where nobody looked: it works, or its /proc may not be read.
    pub waits: Vec<Wait>,
    /// How long each look has found it itself in the same one.
    pub waits_for: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogLook {
    pub step: Option<u64>,
    pub last_step_at: Option<Stamp>,
    pub quiet_for: Duration,
    /// Silence up to this is usual for this log.
    pub patience: Duration,
    /// A rank that waits for longer than this waits for longer than any has before.
    pub longer_than_waits: Duration,
}

/// The communicator of a job that tells most: still and uneven before still, the largest first.
#[derive(Clone, Debug, PartialEq)]
pub struct RasLook {
    pub hash: u64,
    pub nranks: u32,
    /// How long no count of any communicator of the job has changed.
    pub still_for: Duration,
    pub still_since: Stamp,
    pub still_answers: u32,
    /// What last changed, changed after this. `None`: no change was seen yet.
    pub moved_after: Option<Stamp>,
    pub answered_at: Stamp,
    pub age: Duration,
    pub behind: Vec<Late>,
    /// The only one that is behind has left out what the groups like its own have made, on all of their ranks.
    pub left_out: bool,
    /// Members whose counts are not those that most have.
    pub odd: Vec<(Member, Odd)>,
    /// Ranks that wait for each other, over all communicators of the job.
    pub circle: Vec<WaitsFor>,
    pub missing: Vec<Member>,
    pub operations: u64,
    /// The most reductions of a communicator.
    pub reductions: u64,
    /// The most answers of a communicator whose counts had grown.
    pub moves: u32,
    /// No communicator of the job has launched anything that is counted.
    pub counts_nothing: bool,
    /// The job has made steps while no count changed: what its steps consist of is not counted.
    pub blind: bool,
    /// Communicators in which no rank has launched anything yet.
    pub unused: Vec<u64>,
    /// Members of any communicator whose initialisation is in progress, and since when the first of them.
    pub in_init: Vec<Member>,
    pub in_init_since: Option<Stamp>,
}

/// A member of a communicator, which has its own numbering of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its rank in the job; `None` when only its number in a smaller communicator is known.
    pub rank: Option<u32>,
    pub comm_rank: u32,
    pub pid: Option<u32>,
    pub host: Option<String>,
    /// It runs on another node, where this one sees nothing but what RAS says.
    pub elsewhere: bool,
    /// It is the first of a communicator: those write checkpoints for the others.
    pub first: bool,
    /// RAS has nothing of it.
    pub silent: Option<Silent>,
}

/// Why RAS has nothing of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Silent {
    /// Its process answers, but is not in the communicator.
    NotIn,
    NoAnswer,
    /// None for a minute: RAS has given it up.
    Dead,
}

/// A member that has launched fewer operations than another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    pub who: Member,
    pub behind: Behind,
}

/// How this node and the processes of a job on it look to RAS, which knows addresses and the pids that processes have themselves.
struct Here<'a> {
    job: &'a Job,
    ranks: &'a BTreeMap<u32, RankLook>,
    rank_of_pid: BTreeMap<u32, u32>,
    host: Option<&'a str>,
    /// Host and pid of the first ranks of communicators.
    firsts: BTreeSet<(&'a str, u32)>,
    largest: u32,
}

impl<'a> Here<'a> {
    fn new(model: &Model, job: &'a Job, ranks: &'a BTreeMap<u32, RankLook>, comms: &[&'a Comm]) -> Here<'a> {
        let inner = |pid: u32| model.processes.get(&pid).and_then(|p| p.info.ns_pid).unwrap_or(pid);
        let rank_of_pid: BTreeMap<u32, u32> = ranks.values().map(|r| (inner(r.pid), r.rank)).collect();
        // Processes in containers have the same pids on every node: a rank that is right, too, counts more.
        let mut votes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let mut firsts = BTreeSet::new();
        for comm in comms {
            let whole = job.world_size == Some(comm.nranks) || job.log_only;
            for (rank, host, pid) in places(comm) {
                let (Some(host), Some(pid)) = (host, pid) else { continue };
                if rank == 0 && comm.nranks > 1 {
                    firsts.insert((host, pid));
                }
                if let Some(own) = rank_of_pid.get(&pid) {
                    let vote = votes.entry(host).or_default();
                    vote.0 += usize::from(whole && *own == rank);
                    vote.1 += 1;
                }
            }
        }
        let most = votes.values().max().copied();
        let mut hosts = votes.iter().filter(|(_, vote)| Some(**vote) == most).map(|(host, _)| *host);
        // Of two that look the same, neither is known to be this one.
        let host = hosts.next().filter(|_| hosts.next().is_none());
        Here { job, ranks, rank_of_pid, host, firsts, largest: comms.iter().map(|c| c.nranks).max().unwrap_or(0) }
    }

    fn member(&self, comm: &Comm, comm_rank: u32) -> Member {
        let (known, missing) = (comm.ranks.get(&comm_rank), comm.missing.get(&comm_rank));
        let pid = missing.and_then(|m| m.pid).or(known.and_then(|k| k.pid));
        let host = missing.and_then(|m| m.host.as_deref()).or(known.and_then(|k| k.host.as_deref()));
        let other_host = matches!((host, self.host), (Some(host), Some(own)) if host != own);
        // On this node a process tells its rank; elsewhere the numbers agree only in the communicator of the whole job. Where no process
        // may be seen, the largest communicator is taken for that.
        let whole = self.job.world_size == Some(comm.nranks) || (self.job.log_only && comm.nranks == self.largest);
        let by_pid = || pid.filter(|_| !other_host).and_then(|pid| self.rank_of_pid.get(&pid).copied());
        let rank = if whole { Some(comm_rank) } else { by_pid() };
        Member {
            rank,
            comm_rank,
            pid,
            host: host.map(str::to_owned),
            elsewhere: rank.map_or(other_host, |r| !self.ranks.contains_key(&r)),
            first: comm_rank == 0 || host.zip(pid).is_some_and(|who| self.firsts.contains(&who)),
            silent: missing.map(|m| match (m.considered_dead, m.answers) {
                (true, _) => Silent::Dead,
                (false, true) => Silent::NotIn,
                (false, false) => Silent::NoAnswer,
            }),
        }
    }
}

/// Of every member that RAS knows: its number, host and pid.
fn places(comm: &Comm) -> impl Iterator<Item = (u32, Option<&str>, Option<u32>)> {
    let answering = comm.ranks.iter().map(|(rank, known)| (*rank, known.host.as_deref(), known.pid));
    answering.chain(comm.missing.iter().map(|(rank, known)| (*rank, known.host.as_deref(), known.pid)))
}

impl Member {
    /// `rank 13`, `rank 2 of comm 8228c677 (pid 48213 on 10.0.0.7)`
    pub fn name(&self, hash: u64) -> String {
        let place = match (self.pid, &self.host) {
            (Some(pid), Some(host)) => format!(" (pid {pid} on {})", clean(host)),
            _ => String::new(),
        };
        match self.rank {
            Some(rank) => format!("rank {rank}{place}"),
            None => format!("rank {} of comm {:08x}{place}", self.comm_rank, hash >> 32),
        }
    }

    /// `rank 13 on 10.0.0.7 (pid 48213)`
    pub fn far_name(&self, hash: u64) -> String {
        let host = self.host.as_deref().map_or(" on another node".to_owned(), |host| format!(" on {}", clean(host)));
        let pid = self.pid.map_or(String::new(), |pid| format!(" (pid {pid})"));
        match self.rank {
            Some(rank) => format!("rank {rank}{host}{pid}"),
            None => format!("rank {} of comm {:08x}{host}{pid}", self.comm_rank, hash >> 32),
        }
    }

    /// The command that shows what it does, to be run from here. What RAS calls a host becomes part of it only if it is an address.
    pub fn far_command(&self) -> Option<String> {
        let (host, pid) = (self.host.as_ref()?.parse::<IpAddr>().ok()?, self.pid?);
        Some(match self.silent {
            None => format!("ssh {host} {}", crate::base::words::py_spy(pid)),
            Some(_) => format!("ssh {host} ps -o pid,stat,wchan:24,etime,args -p {pid}"),
        })
    }
}

impl RankLook {
    pub fn alive(&self) -> bool {
        self.gone_at.is_none()
    }

    /// The command that shows most of why it stands: the stack of its process, or of who holds the lock that it waits for.
    pub fn next(&self) -> String {
        let own = self.waits.iter().find(|wait| wait.pid == self.pid);
        let is_python = |comm: &str| ["python", "pt_"].iter().any(|begin| comm.starts_with(begin));
        match (own.and_then(|wait| wait.holder.as_ref()), own.and_then(|wait| wait.file.as_deref())) {
            (Some(Holder { ended: true, .. }), Some(file)) => format!("fuser -v {}", shell_word(file)),
            (Some(Holder { ended: true, .. }), None) | (None, _) => py_spy(self.pid),
            (Some(Holder { pid, comm: Some(comm), .. }), _) if !is_python(comm) => format!("ps -o pid,stat,etime,args -p {pid}"),
            (Some(Holder { pid, .. }), _) => py_spy(*pid),
        }
    }

    pub fn stopped(&self) -> bool {
        self.alive() && matches!(self.state, Some('T' | 't'))
    }

    /// It reads, writes, or sleeps in the kernel waiting for a disk.
    pub fn does_io(&self) -> bool {
        self.alive() && (self.in_d || self.io_bytes_per_s.is_some_and(|b| b >= IO_BYTES_PER_S))
    }

    /// It reads, in no wait for a disk, and keeps its CPU busy: what was read before is read again by who compiles, or generates without end.
    pub fn only_reads(&self) -> bool {
        self.does_io() && self.spins() && !self.writes() && !self.in_d
    }

    /// It writes more than a log.
    pub fn writes(&self) -> bool {
        self.alive() && self.written_bytes_per_s.is_some_and(|b| b >= IO_BYTES_PER_S)
    }

    /// Its own wait in the kernel, while it waits for a message of somebody.
    pub fn awaits_a_message(&self) -> Option<&Wait> {
        self.waits.iter().find(|wait| wait.pid == self.pid && wait.is_for_a_message()).filter(|_| self.sleeps())
    }

    /// The same where it has sent what it had to: it receives, and does not look whether it may send on.
    pub fn awaits_an_answer(&self) -> Option<&Wait> {
        self.awaits_a_message().filter(|wait| matches!(wait.call.as_deref(), Some("recvfrom" | "recvmsg")))
    }

    /// Its own wait for a thread of its own process, in a lock or a queue, while neither it nor a helper of it uses a CPU.
    pub fn awaits_a_thread(&self) -> Option<&Wait> {
        let is_lock = |wait: &&Wait| wait.pid == self.pid && wait.call.as_deref() == Some("futex") && wait.in_gloo != Some(true);
        let still = self.sleeps() && !self.helpers_work();
        self.waits.iter().find(is_lock).filter(|_| still)
    }

    /// It sleeps for a time, while neither it nor a helper of it uses a CPU: as one does who asks again and again for what does not come.
    pub fn awaits_its_time(&self) -> Option<&Wait> {
        let still = self.sleeps() && !self.helpers_work();
        self.waits.iter().find(|wait| wait.pid == self.pid && wait.what() == crate::model::waits::WaitsFor::Time).filter(|_| still)
    }

    /// It was seen to wait in a collective of Gloo, by the names of its threads.
    pub fn is_in_gloo(&self) -> bool {
        self.waits.iter().any(|wait| wait.pid == self.pid && wait.in_gloo == Some(true))
    }

    /// Its process keeps a CPU busy.
    pub fn spins(&self) -> bool {
        self.alive() && self.cpu_pct.is_some_and(|c| c >= SPINS_PCT)
    }

    /// Its children use a CPU.
    pub fn helpers_work(&self) -> bool {
        self.helper_cpu_pct.is_some_and(|pct| pct > SLEEPS_PCT)
    }

    /// It computes on the CPU and keeps what it makes: a trace, an index, tokens. Who stands, or turns in a circle, keeps nothing.
    pub fn builds(&self) -> bool {
        const KEEPS_BYTES_PER_S: f64 = 8e6;
        self.spins() && self.resident_growth_bytes_per_s.is_some_and(|grows| grows >= KEEPS_BYTES_PER_S)
    }

    /// Its process hardly uses a CPU.
    pub fn sleeps(&self) -> bool {
        self.alive() && self.cpu_pct.is_some_and(|c| c <= SLEEPS_PCT)
    }

    /// Where it stands: it and its helpers have used no CPU and moved nothing for as long as both are looked at, more than one look has found it
    /// there, and nothing else is done for it meanwhile, as far as the kernel tells what it waits for.
    pub fn stands(&self) -> Option<&Wait> {
        const USES_PCT: f64 = 1.0;
        const LOOKS: Duration = Duration::from_secs(2);
        let rests = |pct: Option<f64>| pct.is_some_and(|pct| pct < USES_PCT);
        let still = self.waits_for >= LOOKS
            && self.alive()
            && !self.stopped()
            && rests(self.cpu_pct)
            && self.io_bytes_per_s.is_some()
            && !self.does_io();
        let alone = self.helpers.is_none_or(|h| h.alive == 0) || rests(self.helper_cpu_pct);
        self.waits.iter().find(|wait| wait.pid == self.pid && wait.is_standstill()).filter(|_| still && alone)
    }

    pub fn is(&self, activity: Activity, now: Stamp, least: Duration) -> bool {
        self.activity == activity && now.since(self.activity_since) >= least
    }

    /// `rank 3 (GPU 3, pid 2939)`
    pub fn name(&self) -> String {
        match self.gpu {
            Some(gpu) => format!("rank {} (GPU {gpu}, pid {})", self.rank, self.pid),
            None => format!("rank {} (pid {})", self.rank, self.pid),
        }
    }
}

impl Look {
    pub fn at(model: &Model, job: &Job) -> Look {
        let now = model.now;
        let progress = model.progress_of(&job.id);
        let log = progress.filter(|p| !p.is_empty() && !p.is_by_saves()).map(|p| LogLook {
            step: p.step,
            last_step_at: p.last_step_at,
            quiet_for: p.last_step_at.map_or(Duration::ZERO, |at| now.since(model.watched(at))),
            patience: p.patience(),
            longer_than_waits: p.longer_than_waits(),
        });
        // What was written before the last step is none of a pause after it.
        let quiet = log.as_ref().filter(|l| l.last_step_at.is_some()).map_or(IO_WINDOW, |l| l.quiet_for);
        let written = quiet.saturating_sub(Duration::from_secs(1)).clamp(Duration::from_secs(3), IO_WINDOW);
        let mut ranks: BTreeMap<u32, RankLook> = job
            .ranks
            .iter()
            .filter_map(|(&rank, &pid)| Some((rank, rank_look(model, now, rank, pid, Some((model.processes.get(&pid)?, written))))))
            .collect();
        if job.log_only {
            ranks = unseen_ranks(model, now, job);
        }
        // What a GPU does that another job works on, too, says nothing of this one; nor, where ranks share it, which of them does it.
        let shared = shared_gpus(&ranks);
        let has_unseen = |gpu: u32| model.gpus.get(&gpu).is_some_and(Gpu::has_unseen_process);
        let is_unclear = |gpu: u32| shared.contains(&gpu) || has_unseen(gpu) || stranger_on(model, job, gpu).is_some();
        let is_own = |gpu: &u32| !has_unseen(*gpu) && stranger_on(model, job, *gpu).is_none();
        let by_gpu: BTreeMap<u32, (Activity, Stamp)> =
            ranks.values().filter(|r| r.alive()).filter_map(|r| Some((r.gpu?, (r.activity, r.activity_since)))).collect();
        let own_shared = shared.iter().filter(|gpu| is_own(gpu)).filter_map(|gpu| by_gpu.get(gpu).copied()).collect();
        for rank in ranks.values_mut().filter(|r| r.gpu.is_some_and(is_unclear)) {
            (rank.activity, rank.by_gpm, rank.draws_as_at_work) = (Activity::Unknown, false, None);
        }
        let mut ras = ras_look(model, now, job, &ranks);
        if let (Some(ras), Some(log)) = (ras.as_mut(), log.as_ref()) {
            let steps_since = log.last_step_at.is_some_and(|at| at.since(ras.still_since) >= log.patience);
            ras.blind = ras.still_answers > 0 && (steps_since || ras.counts_nothing && log.step.is_some_and(|step| step >= 3));
        }
        let mut lacks = lacks(&ranks, log.as_ref(), ras.as_ref());
        // A job of one process exchanges nothing: RAS has nothing to tell of it.
        if model.only_rank(job).is_some() {
            lacks.retain(|words| *words != OF_RAS);
        }
        let named = model.phase_of(&job.id);
        // Nobody does anything for it: it need not be waited for as long as for one that somebody works for.
        let rests = |r: &RankLook| {
            r.stands().is_some() || (r.is_in_gloo() || r.awaits_an_answer().is_some()) && r.sleeps() && !r.does_io() && !r.helpers_work()
        };
        let all_stand = ranks.values().any(RankLook::alive) && ranks.values().filter(|r| r.alive()).all(rests);
        let believed = |(phase, since): &(Phase, Stamp)| {
            now.since(model.watched(*since)) < model.pause_limit(&job.id, *phase, all_stand && !job.has_ranks_elsewhere())
        };
        // A server waits for requests with GPUs that idle, or one that waits for another. Where all GPUs of the job are in kernels that wait
        // for each other, no request can end it.
        let held = |r: &RankLook| r.by_gpm && r.is(Activity::Waiting, now, SERVER_HELD);
        let all_here = !job.log_only && !job.has_ranks_elsewhere() && ranks.len() > 1;
        let hangs = named.is_some_and(|(phase, _)| phase == Phase::Serving) && all_here && ranks.values().all(held);
        let named = named.filter(|_| !hangs);
        let (phase, overdue) = (named.filter(believed), named.filter(|named| !believed(named)));
        // A working GPU, a step, a count.
        let moving = ranks.values().any(|r| r.activity == Activity::Working && r.alive())
            || log.as_ref().is_some_and(|l| l.last_step_at.is_some() && l.quiet_for < Duration::from_secs(2))
            || ras.as_ref().is_some_and(|r| r.still_for.is_zero() && r.age < Duration::from_secs(3) && r.operations > 0);
        let saved = progress.filter(|p| p.is_by_saves()).and_then(|p| Some((p.step?, p.saved_at())));
        let last = job.moved_at.max(log.as_ref().and_then(|l| l.last_step_at)).max(saved.and_then(|(_, at)| at));
        let moved_at = if moving { Some(now) } else { last.map(|at| model.watched(at)) };
        Look {
            at: now,
            local_ranks: job.local_world_size.map_or(ranks.len(), |n| n as usize).max(ranks.len()),
            ranks,
            log,
            saved,
            ras,
            peers: Peers::of(model, job),
            phase,
            overdue,
            server_hangs: hangs,
            worked: job.worked,
            shared: own_shared,
            contained: job.pids().filter_map(|pid| model.processes.get(&pid)).any(|p| p.info.ns_pid.is_some_and(|ns| ns != p.info.pid)),
            lacks,
            moved_at,
            rhythm: job.rhythm.map(|rhythm| Duration::from_secs_f64(rhythm.period_s)),
            counted: model.files.values().filter(|f| f.job == job.id && f.progress.is_empty()).find_map(|f| f.counting.counted()),
        }
    }

    pub fn alive(&self) -> impl Iterator<Item = &RankLook> {
        self.ranks.values().filter(|r| r.alive())
    }

    pub fn gpus_of(&self, ranks: &[u32]) -> Vec<u32> {
        let mut gpus: Vec<u32> = ranks.iter().filter_map(|r| self.ranks.get(r)?.gpu).collect();
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// Ranks whose GPU has been in this state for at least so long.
    pub fn with(&self, activity: Activity, least: Duration) -> Vec<&RankLook> {
        self.alive().filter(|r| r.is(activity, self.at, least)).collect()
    }

    /// Of GPUs that its ranks share among themselves, at least one does this.
    pub fn shared_is(&self, activity: Activity) -> bool {
        self.shared.iter().any(|(does, _)| *does == activity)
    }

    /// Since when all its ranks, which share their GPUs among themselves, wait in collectives: these GPUs are at 100 % and compute nothing, and
    /// all processes spin, as who waits for a GPU does. `None`: they do not, or it cannot be seen.
    pub fn shared_wait(&self) -> Option<Stamp> {
        let on_shared = |r: &RankLook| r.gpu.is_some() && r.activity == Activity::Unknown && r.spins() && r.io_bytes_per_s.is_some();
        let all = self.alive().count() >= self.local_ranks.max(2) && self.alive().all(|r| on_shared(r) && !r.does_io() && !r.builds());
        let gpus = self.gpus_of(&self.alive().map(|r| r.rank).collect::<Vec<_>>()).len();
        let wait = self.shared.len() == gpus && self.shared.iter().all(|(does, _)| *does == Activity::Waiting);
        self.shared.iter().map(|(_, since)| *since).max().filter(|_| all && wait)
    }

    /// What at least one GPU of the job does can be seen.
    pub fn knows_gpus(&self) -> bool {
        self.alive().any(|r| r.activity != Activity::Unknown)
    }

    /// The share of its ranks here whose GPUs wait at this moment, if it can be seen what any of them does.
    pub fn waiting_share(&self) -> Option<f64> {
        let waiting = self.alive().filter(|r| r.activity == Activity::Waiting).count();
        self.knows_gpus().then(|| waiting as f64 / self.ranks.len() as f64)
    }

    /// Its ranks send and receive, or exchange in other ways that RAS does not count: NCCL counts AllReduce, AllGather, ReduceScatter,
    /// Broadcast and Reduce, unless they are in a CUDA graph (`ncclProfilerStartCollEvent` and `NCCL_NUM_FUNCTIONS` of NCCL 2.30).
    pub fn has_uncounted(&self) -> bool {
        // Servers decode in graphs.
        self.server_hangs || self.peers.is_known() || self.ras.as_ref().is_some_and(|r| r.blind)
    }

    /// Ranks that stand while all others of this node wait, so that nobody can be expected to end it. Whoever spins without a GPU that waits
    /// may compute what the one that stands waits for, but not where that waits for a stranger.
    pub fn standing(&self) -> Vec<&RankLook> {
        let (standing, others): (Vec<&RankLook>, Vec<&RankLook>) = self.alive().partition(|r| r.stands().is_some());
        let strangers = standing.iter().all(|r| r.stands().is_some_and(Wait::is_for_a_stranger));
        let waits = |r: &RankLook| match r.activity {
            Activity::Waiting => true,
            Activity::Working => false,
            _ => r.sleeps() || strangers && r.spins() && !r.builds(),
        };
        let busy = |r: &RankLook| r.does_io() || r.helper_cpu_pct.is_some_and(|pct| pct >= SLEEPS_PCT);
        let all_wait = !others.is_empty() && others.iter().all(|r| waits(r) && !busy(r) && !r.stopped());
        if all_wait && standing.len() <= others.len() && standing.len() + others.len() >= self.local_ranks { standing } else { Vec::new() }
    }

    /// Of these whoever is held by what brings no work: the front of a server waits for requests in a queue, too.
    pub fn held(&self) -> Vec<&RankLook> {
        let standing = self.standing();
        if standing.iter().all(|r| r.stands().is_some_and(Wait::is_held)) { standing } else { Vec::new() }
    }

    pub fn quiet_log(&self) -> bool {
        self.log.as_ref().is_none_or(|l| l.quiet_for > l.patience)
    }
}

/// GPUs that several ranks hold: with MPS or `NCCL_MULTI_RANK_GPU_ENABLE`, or on "nodes" that are containers of one machine.
fn shared_gpus(ranks: &BTreeMap<u32, RankLook>) -> BTreeSet<u32> {
    let mut held = BTreeSet::new();
    ranks.values().filter(|r| r.alive()).filter_map(|r| r.gpu).filter(|gpu| !held.insert(*gpu)).collect()
}

/// A process that works on a GPU, too, and is none of a job's. One that only holds memory there slows nobody; NVIDIA's own (MPS) works for
/// the job's.
pub fn stranger_on<'a>(model: &'a Model, job: &Job, gpu: u32) -> Option<&'a Process> {
    const WORKS_PCT: f64 = 20.0;
    let is_its = |p: &Process| job.pids().chain(job.launcher).any(|pid| pid == p.info.pid || pid == p.info.ppid);
    let works = |p: &Process| {
        let busy = p.cpu_pct(model.now, IO_WINDOW).is_some_and(|pct| pct >= WORKS_PCT);
        p.is_alive() && busy && !p.info.comm.starts_with("nvidia-")
    };
    let held = model.gpus.get(&gpu)?.processes.iter().filter_map(|p| model.processes.get(&p.pid));
    held.into_iter().find(|p| !is_its(p) && works(p))
}

/// An answer older than this says nothing about now.
pub const RAS_OLD: Duration = Duration::from_secs(30);

const OF_RAS: &str = "RAS answers";

fn lacks(ranks: &BTreeMap<u32, RankLook>, log: Option<&LogLook>, ras: Option<&RasLook>) -> Vec<&'static str> {
    let alive = || ranks.values().filter(|r| r.alive());
    let some = |is: &dyn Fn(&RankLook) -> bool| alive().next().is_some() && alive().any(is);
    let mut lacks = Vec::new();
    for (missing, words) in [
        (ras.is_none_or(|r| r.age > RAS_OLD), OF_RAS),
        (some(&|r| r.activity == Activity::Unknown), "GPU activity"),
        (some(&|r| r.activity != Activity::Unknown && !r.by_gpm), "GPM"),
        (log.is_none_or(|l| l.last_step_at.is_none()), "step lines"),
        (some(&|r| r.state.is_none()), "process states"),
        (some(&|r| r.state.is_some() && r.io_bytes_per_s.is_none()), "process I/O"),
    ] {
        if missing {
            lacks.push(words);
        }
    }
    lacks
}

/// Where processes may not be seen: the ranks whose pids NCCL's lines or RAS name, and of which NVML says that they hold a GPU here.
fn unseen_ranks(model: &Model, now: Stamp, job: &Job) -> BTreeMap<u32, RankLook> {
    // Numbers inside the pairs of a pipeline come again in each pair.
    let single = |f: &LogFile, rank: u32| f.rank_of_pid.values().filter(|other| **other == rank).count() == 1;
    let said = model
        .files_of(&job.id)
        .flat_map(|f| f.rank_of_pid.iter().filter(move |(_, rank)| single(f, **rank)).map(|(pid, rank)| (*pid, *rank)));
    // Where others are as large and of other processes, none is that of the whole job.
    let is_whole = |one: &&Comm| {
        let pids: BTreeSet<Option<u32>> = one.ranks.values().map(|r| r.pid).chain(one.missing.values().map(|m| m.pid)).collect();
        let alike = model.comms_of(job).filter(|other| other.nranks == one.nranks && other.answered_at == one.answered_at);
        alike.flat_map(|other| other.ranks.values()).all(|r| pids.contains(&r.pid))
    };
    let largest = model.comms_of(job).max_by_key(|c| (c.nranks, c.operations())).filter(is_whole);
    let answered = largest.into_iter().flat_map(|c| c.ranks.iter().filter_map(|(rank, known)| Some((known.pid?, *rank))));
    let away = largest.into_iter().flat_map(|c| c.missing.iter().filter_map(|(rank, known)| Some((known.pid?, *rank))));
    said.chain(answered)
        .chain(away)
        .filter(|(pid, _)| model.gpu_of_pid(*pid).is_some())
        .map(|(pid, rank)| (rank, rank_look(model, now, rank, pid, None)))
        .collect()
}

/// `seen` is the process, and the time over which its writes are counted; `None` where it may not be seen.
fn rank_look(model: &Model, now: Stamp, rank: u32, pid: u32, seen: Option<(&Process, Duration)>) -> RankLook {
    let (process, written) = seen.map_or((None, IO_WINDOW), |(process, written)| (Some(process), written));
    let gpu = model.gpu_of_pid(pid);
    // What a GPU did when it was last asked says nothing about now.
    let seen = gpu.and_then(|g| model.gpus.get(&g)).filter(|g| g.is_fresh(now));
    // Whatever it has written before: it does nothing for as long as it waits for a child to become another program.
    let forks = process.is_some_and(|p| {
        let own = p.waits(now).iter().find(|wait| wait.pid == pid);
        own.is_some_and(Wait::is_for_a_child) && p.waits_for(now) >= FORKS
    });
    let nothing = |rate: f64| if forks { 0.0 } else { rate };
    let io = |window| process.and_then(|p| p.io_bytes_per_s(now, window)).map(nothing);
    RankLook {
        rank,
        pid,
        gpu,
        activity: seen.map_or(Activity::Unknown, |g| g.activity),
        activity_since: seen.map_or(now, |g| model.watched(g.activity_since)),
        by_gpm: seen.is_some_and(|g| g.gpm().is_some()),
        sm_active_pct: seen.and_then(|g| g.gpm_since(g.activity_since.plus(GPM_SETTLES))?.sm_active_pct).map(f64::from),
        power_mw: seen.and_then(|g| g.sample.power_mw),
        at_work_w: seen.and_then(Gpu::at_work_w),
        draws_as_at_work: seen.and_then(Gpu::draws_as_at_work),
        state: process.and_then(|p| p.sample.state),
        state_since: process.map_or(now, |p| model.watched(p.state_since)),
        io_bytes_per_s: io(IO_WINDOW),
        much_io_lately: io(LATELY).is_some_and(|b| b >= MUCH_IO_BYTES_PER_S),
        in_d: !forks && process.and_then(|p| p.share_in_d(now, IO_WINDOW)).is_some_and(|share| share >= 0.4),
        times_stopped_again: process.map_or(0, |p| p.times_stopped_again(now)),
        cpu_pct: process.and_then(|p| p.cpu_pct(now, IO_WINDOW)),
        resident_growth_bytes_per_s: process.and_then(|p| p.resident_growth_bytes_per_s(now, IO_WINDOW)),
        gone_at: process.and_then(|p| p.gone).map(|g| g.at),
        exit_code: process.and_then(|p| p.gone).and_then(|g| g.exit_code),
        written_bytes_per_s: process.and_then(|p| p.written_bytes_per_s(now, written)).map(nothing),
        helpers: process.and_then(|p| p.sample.helpers),
        helper_cpu_pct: process.and_then(|p| p.helper_cpu_pct(now, IO_WINDOW)),
        run_delay_pct: process.and_then(|p| p.run_delay_pct(now, CPU_WINDOW)),
        waits: process.map_or(Vec::new(), |p| p.waits(now).to_vec()),
        waits_for: process.map_or(Duration::ZERO, |p| p.waits_for(now)),
    }
}

fn ras_look(model: &Model, now: Stamp, job: &Job, ranks: &BTreeMap<u32, RankLook>) -> Option<RasLook> {
    let comms: Vec<&Comm> = model.comms_of(job).filter(|c| c.answered_at.is_some()).collect();
    let newest = comms.iter().filter_map(|c| c.answered_at).max()?;
    // One that a process has left is no longer in the reports.
    let current: Vec<&Comm> = comms.into_iter().filter(|c| c.answered_at == Some(newest)).collect();
    let still_since = model.watched(current.iter().filter_map(|c| c.still_since).max()?);
    let still_answers = current.iter().map(|c| c.still_answers).min().unwrap_or(0);
    let here = Here::new(model, job, ranks, &current);
    // Who is behind in one communicator may wait in another, for somebody else: that tells less.
    let waits = |who: &Member| who.rank.and_then(|r| ranks.get(&r)).is_some_and(|r| r.activity == Activity::Waiting);
    let late = |c: &Comm| c.behind().into_iter().map(|behind| Late { who: here.member(c, behind.rank), behind }).collect::<Vec<_>>();
    let with_late = current.iter().map(|c| (*c, late(c)));
    let tells = |late: &[Late]| (!late.is_empty(), late.iter().any(|l| !waits(&l.who)));
    let (told, behind) = with_late.max_by_key(|(c, late)| (!c.missing.is_empty(), tells(late), c.nranks, c.operations()))?;
    Some(RasLook {
        hash: told.hash,
        nranks: told.nranks,
        still_for: newest.since(still_since),
        still_since,
        still_answers,
        moved_after: current.iter().filter_map(|c| c.moved_after).max(),
        answered_at: newest,
        age: now.since(newest),
        left_out: !job.log_only && matches!(behind.as_slice(), [one] if siblings_did_more(&current, told, &one.behind)),
        behind,
        circle: if job.log_only { Vec::new() } else { circle(&current, |comm, rank| here.member(comm, rank)) },
        odd: told.odd().into_iter().map(|odd| (here.member(told, odd.rank), odd)).collect(),
        unused: current.iter().filter(|c| c.nranks > 1 && c.operations() == 0 && c.missing.is_empty()).map(|c| c.hash).collect(),
        in_init: current.iter().flat_map(|c| in_init(c).map(|(rank, _)| here.member(c, rank))).collect(),
        in_init_since: current.iter().flat_map(|c| in_init(c).filter_map(|(_, known)| known.init_since)).min().map(|at| model.watched(at)),
        missing: told.missing.keys().map(|&rank| here.member(told, rank)).collect(),
        operations: told.operations(),
        reductions: current.iter().map(|c| c.reductions()).max().unwrap_or(0),
        moves: current.iter().map(|c| c.moves).max().unwrap_or(0),
        counts_nothing: current.iter().all(|c| c.operations() == 0),
        blind: false,
    })
}

/// The name that RAS gives to this node: an address, by which other nodes' answers mean it.
pub fn name_here(model: &Model, job: &Job, ranks: &BTreeMap<u32, RankLook>) -> Option<String> {
    let comms: Vec<&Comm> = model.comms_of(job).filter(|c| c.answered_at.is_some()).collect();
    Here::new(model, job, ranks, &comms).host.map(str::to_owned)
}

/// Operations of the ranks of this node, the fewest and the most that one has launched, by communicator: as RAS counts them, over all kinds.
pub fn operations_here(model: &Model, job: &Job, ranks: &BTreeMap<u32, RankLook>) -> BTreeMap<u64, (u64, u64)> {
    let comms: Vec<&Comm> = model.comms_of(job).filter(|c| c.answered_at.is_some()).collect();
    let here = Here::new(model, job, ranks, &comms);
    let of_comm = |comm: &Comm| {
        let counted = comm.ranks.iter().filter(|(_, known)| !known.counts.is_empty());
        let own = counted.filter(|(rank, _)| !here.member(comm, **rank).elsewhere);
        let sums = own.map(|(_, known)| known.counts.values().fold(0, |sum: u64, n| sum.saturating_add(*n)));
        sums.fold(None, |range: Option<(u64, u64)>, n| Some(range.map_or((n, n), |(min, max)| (min.min(n), max.max(n)))))
    };
    comms.iter().filter_map(|comm| Some((comm.hash, of_comm(comm)?))).collect()
}

fn in_init(comm: &Comm) -> impl Iterator<Item = (u32, &CommRank)> {
    comm.ranks.iter().filter(|(_, known)| known.init_since.is_some()).map(|(rank, known)| (*rank, known))
}
