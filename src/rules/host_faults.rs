//! Faults of the machine that kernel and driver report: which GPU, rank and job each hits, and the finding that it makes.
//!
//! Texts are those of the catalogue. A line of the kernel's log and an NVML event of the same Xid are one finding.

mod named;

use crate::base::clean::{clean, clip};
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::{Stamp, span};
use crate::base::words::rank_words;
use crate::logs::catalog::{self, Part, Scope, Signature};
use crate::model::Model;
use crate::model::gpu::{Gpu, PciAddress};
use crate::model::job::Job;
use crate::model::process::Process;
use crate::observe::evidence::{Evidence, Witness};
use crate::observe::gpu::GpuEvent;
use crate::observe::log::KernelLine;
use crate::observe::{SourceId, SourceState};
use crate::rules::findings::{Finding, Ledger};
use crate::rules::rule;
use named::Named;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The same Xid from kernel and driver within this time is one.
const SAME: Duration = Duration::from_secs(10);
/// The kernel's line of an Xid says more than NVML's event: so long it is waited for.
const LINE_COMES: Duration = Duration::from_secs(2);
/// GPUs and ranks are known after this, or will not be.
const KNOWN_AFTER: Duration = Duration::from_secs(15);
/// After this the first polls of all sources have come.
const FIRST_LOOKS: Duration = Duration::from_secs(3);
/// What happened longer ago than this, before any job that runs, is of another day.
const OF_ANOTHER_DAY: Duration = Duration::from_secs(24 * 3600);
/// Kept until they can be judged: as many as one poll of the kernel's log tells.
const MAX_WAITING: usize = 2048;
const MAX_HEARD: usize = 512;
/// Eight GPUs have had a dozen different Xids each.
const MAX_XIDS: usize = 256;
/// A process that is gone is still the one that a line is about.
const JUST_GONE: Duration = Duration::from_secs(60);
/// A finding of the machine that something is asked for again and again ends when it has been gone for so long.
const GONE_FOR: Duration = Duration::from_secs(30);
/// The kernel says it once; how long that is shown where nothing else tells the end.
const SAID_ONCE: Duration = Duration::from_secs(600);

/// Reports that are not judged yet, and those that only the kernel or only the driver has given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    waiting: VecDeque<Said>,
    heard: VecDeque<Heard>,
    /// By GPU and number: those that came while the program watched.
    xids: BTreeMap<(u32, u64), u64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Said {
    at: Stamp,
    /// When it happened, where that is known and not now.
    written: Option<Stamp>,
    what: What,
}

#[derive(Clone, Debug, PartialEq)]
enum What {
    Line(KernelLine),
    Event(GpuEvent),
}

#[derive(Clone, Debug, PartialEq)]
struct Heard {
    at: Stamp,
    subject: String,
    by_event: bool,
}

/// Whom something hits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hit {
    pub gpu: Option<u32>,
    /// As the text has it, where it is no GPU that is known.
    pub device: Option<String>,
    pub port: Option<String>,
    pub pid: Option<u32>,
    pub rank: Option<u32>,
    pub job: Option<String>,
    /// The process was named, not its GPU.
    pub by_pid: bool,
    /// `None`: it is certain.
    pub confidence: Option<Confidence>,
}

impl Hit {
    /// The GPU, the rank that works on it, and its job.
    pub fn of_gpu(model: &Model, index: u32) -> Hit {
        let mut hit = Hit { gpu: Some(index), ..Hit::default() };
        let gone_at = |pid: &u32| Some(model.processes.get(pid).filter(|p| was_there(model, p))?.gone?.at);
        // The last of them: one job ends, the next begins and meets the fault, all within a minute.
        let just_worked = || {
            let jobs = model.jobs.values().filter(|j| !model.is_stale(j));
            let worked = jobs.flat_map(|job| job.pids().map(move |pid| (job, pid)));
            worked.filter(|(_, pid)| gone_at(pid).is_some() && model.gpu_of_pid(*pid) == Some(index)).max_by_key(|(_, pid)| gone_at(pid))
        };
        if let Some((job, pid)) = model.owner_of_gpu(index).or_else(just_worked) {
            hit.job = Some(job.id.clone());
            // Of ranks that share it, it is not known whose work met the fault.
            if model.ranks_on_gpu(index).is_none_or(|(_, ranks)| ranks.len() < 2) {
                hit.pid = Some(pid);
                hit.rank = job.rank_of(pid);
            }
        }
        hit
    }

    fn of(model: &Model, named: &Named) -> Hit {
        if let Some(address) = named.pci {
            if let Some(gpu) = model.gpus.values().find(|g| g.is_at(address)) {
                return Hit::of_gpu(model, gpu.index);
            }
            let here = |bus_id: &Option<String>| bus_id.as_deref().and_then(PciAddress::parse) == Some(address);
            let port = model.ports.values().find(|p| here(&p.info.bus_id)).map(|p| p.name());
            let netdev = || model.netdevs.values().find(|n| here(&n.sample.bus_id)).map(|n| n.sample.name.clone());
            return Hit { device: named.device.clone(), port: port.or_else(netdev), ..Hit::default() };
        }
        if let Some(name) = named.interface.as_ref().filter(|n| model.netdevs.contains_key(*n)) {
            return Hit { port: Some(name.clone()), ..Hit::default() };
        }
        let mut hit = Hit { pid: named.pid, by_pid: named.pid.is_some(), ..Hit::default() };
        let Some(pid) = named.pid else { return hit };
        let holds = |job: &&Job| job.pids().any(|p| p == pid) || job.launcher == Some(pid);
        let known = model
            .processes
            .get(&pid)
            .filter(|p| was_there(model, p) && named.comm.as_deref().is_none_or(|comm| same_name(&p.info.comm, comm)));
        if let (Some(_), Some(job)) = (known, model.jobs.values().find(holds)) {
            hit.rank = job.rank_of(pid);
            hit.gpu = hit.rank.and_then(|_| model.gpu_of_pid(pid));
            hit.job = Some(job.id.clone());
            // In a container the kernel counts pids otherwise.
            hit.confidence = model.node.as_ref().and_then(|n| n.container.as_ref()).map(|_| Confidence::Likely);
            return hit;
        }
        // A child of a rank: by its control group, or else by what only the job's processes are called.
        let running: Vec<&Job> = model.jobs.values().filter(|j| j.ended_at.is_none() && !j.log_only && !model.is_stale(j)).collect();
        let has = |job: &Job, which: &dyn Fn(&Process) -> bool| {
            job.pids().chain(job.launcher).filter_map(|pid| model.processes.get(&pid)).any(which)
        };
        let by = |which: &dyn Fn(&Process) -> bool| match running.iter().filter(|j| has(j, which)).collect::<Vec<_>>()[..] {
            [job] => Some(job.id.clone()),
            _ => None,
        };
        if let Some(group) = named.group.as_deref().filter(|g| g.len() > 1) {
            hit.job = by(&|p| p.info.cgroup.as_deref() == Some(group));
            hit.confidence = Some(Confidence::Likely);
        } else if let Some(comm) = named.comm.as_deref().filter(|_| named.killed_for_memory) {
            // PyTorch calls its data loaders so.
            let by_nature = || running.first().filter(|_| running.len() == 1 && comm.starts_with("pt_")).map(|j| j.id.clone());
            hit.job = by(&|p| same_name(&p.info.comm, comm)).or_else(by_nature);
            hit.confidence = Some(Confidence::Possible);
        }
        hit
    }

    /// `GPU 3 (0000:3b:00.0), rank 3`, `rank 3 (pid 2201)`, `mlx5_0:1`
    pub fn name(&self, model: &Model) -> Option<String> {
        let rank = self.rank.map(|r| rank_words(&[r]));
        if self.by_pid {
            return self.pid.map(|pid| rank.map_or(format!("pid {pid}"), |r| format!("{r} (pid {pid})")));
        }
        if let Some(index) = self.gpu {
            let bus = model.gpus.get(&index).and_then(|g| g.info.bus_id.as_deref()).map_or(String::new(), |b| format!(" ({b})"));
            return Some(format!("GPU {index}{bus}{}", rank.map_or(String::new(), |r| format!(", {r}"))));
        }
        self.port.clone().or_else(|| self.device.clone())
    }

    /// Puts into a finding whom it hits.
    pub fn mark(&self, found: &mut Finding) {
        found.machine = true;
        found.job.clone_from(&self.job);
        found.ranks = self.rank.into_iter().collect();
        found.gpus = self.gpu.into_iter().collect();
        found.ports = self.port.clone().into_iter().collect();
    }
}

/// It runs, or has just ended: another process may have its number later.
fn was_there(model: &Model, process: &Process) -> bool {
    process.gone.is_none_or(|gone| model.now.since(gone.at) <= JUST_GONE)
}

/// The kernel cuts names at 15 bytes.
fn same_name(ours: &str, told: &str) -> bool {
    let cut = |t: &str| t.bytes().take(15).collect::<Vec<_>>();
    cut(ours) == cut(told)
}

/// The card that a text of the driver names.
pub fn card_of(signature: &Signature, text: &str) -> Option<PciAddress> {
    Named::of(signature, text).pci
}

/// How long a finding is shown after it was last seen.
pub fn linger_of(finding: &Finding) -> Option<Duration> {
    if let Some(linger) = super::init_stuck::lingers(finding) {
        return Some(linger);
    }
    // What NCCL printed when it came up holds for the run.
    let linger = rule(finding.rule)?.life.linger.filter(|_| finding.witness != Witness::Bringup);
    let said = finding.signature.is_some() || finding.evidence.iter().any(|e| e.kind == "event" || e.kind == "kernel");
    match finding.machine {
        false => linger,
        true if said => linger.map(|l| l.max(SAID_ONCE)),
        true => Some(linger.unwrap_or(GONE_FOR)),
    }
}

/// A signature's own rule looks at the state of the port, which says when it is over.
fn is_watched_elsewhere(signature: &Signature) -> bool {
    matches!(signature.id, "mlx5-link-down" | "nic-link-down" | "bond-link-down")
}

impl Machine {
    pub fn xids(&self) -> &BTreeMap<(u32, u64), u64> {
        &self.xids
    }

    pub fn lines(&mut self, at: Stamp, lines: &[KernelLine], uptime_us: Option<u64>) {
        for line in lines {
            let ago = uptime_us.zip(line.uptime_us).map(|(now, then)| Duration::from_micros(now.saturating_sub(then)));
            let written = ago.filter(|_| line.backlog).map(|ago| at.minus(ago));
            self.wait(Said { at, written, what: What::Line(line.clone()) });
        }
    }

    pub fn events(&mut self, at: Stamp, events: &[GpuEvent]) {
        for event in events {
            self.wait(Said { at, written: None, what: What::Event(event.clone()) });
        }
    }

    fn wait(&mut self, said: Said) {
        if self.waiting.len() == MAX_WAITING {
            // What came first may be the cause of the rest; what is from before is not.
            let old = self.waiting.iter().position(|s| matches!(&s.what, What::Line(line) if line.backlog));
            let Some(old) = old else { return };
            self.waiting.remove(old);
        }
        self.waiting.push_back(said);
    }

    /// What was reported and can now be judged, because it is known whom it hits; each finding with the times that it was reported.
    pub fn judge(&mut self, model: &Model, ended: bool, ledger: &Ledger) -> Vec<Finding> {
        let now = model.now;
        self.heard.retain(|h| now.since(h.at) <= SAME);
        let age = model.started.map_or(Duration::ZERO, |at| now.since(at));
        let has_spoken = |id: &'static str| model.sources.get(&SourceId::of(id)).is_some_and(|s| s.state != SourceState::Slow);
        let known = ended || age >= KNOWN_AFTER || (age >= FIRST_LOOKS && has_spoken("nvml") && has_spoken("procs"));
        let mut found: Vec<Finding> = Vec::new();
        if !known || self.waiting.is_empty() {
            return found;
        }
        let kernel_speaks = model.sources.get(&SourceId::of("kmsg")).is_some_and(|s| s.state == SourceState::Ok);
        let mut said: Vec<Said> = std::mem::take(&mut self.waiting).into();
        // Lines first: they say more.
        said.sort_by_key(|s| matches!(s.what, What::Event(_)));
        for one in said {
            let by_event = matches!(one.what, What::Event(_));
            let told = match &one.what {
                What::Line(line) => told_by_line(model, &one, line),
                What::Event(event) => told_by_event(model, &one, event),
            };
            let Some(told) = told else { continue };
            let line_may_come = kernel_speaks && !ended && now.since(one.at) < LINE_COMES;
            if by_event && line_may_come && !self.is_paired(&told.found.subject, true) {
                self.waiting.push_back(one);
                continue;
            }
            let told = self.counted(now, told, by_event, ledger, &found);
            found.push(told);
        }
        found
    }

    fn is_paired(&self, subject: &str, by_event: bool) -> bool {
        self.heard.iter().any(|h| h.subject == subject && h.by_event != by_event)
    }

    /// A finding with the times that it counts: what the kernel and the driver both report counts once.
    fn counted(&mut self, now: Stamp, mut told: Told, by_event: bool, ledger: &Ledger, before: &[Finding]) -> Finding {
        let subject = told.found.subject.clone();
        // Several lines are about one killed process, and not each names all.
        if !told.counts && !by_event {
            let same = |f: &&Finding| f.rule == told.found.rule && f.subject == subject && now.since(f.last_at) <= SAME;
            let known = before.iter().find(|f| f.rule == told.found.rule && f.subject == subject);
            if let Some(open) = known.or_else(|| ledger.open().into_iter().find(same)).cloned() {
                (told.found.job, told.found.ranks, told.found.gpus) = (open.job, open.ranks, open.gpus);
                told.found.severity = told.found.severity.min(open.severity);
            }
        }
        told.found.count = u64::from(told.counts);
        match self.heard.iter().position(|h| h.subject == subject && h.by_event != by_event) {
            Some(at) => {
                self.heard.remove(at);
                told.found.count = 0;
            }
            None => self.heard.push_back(Heard { at: now, subject, by_event }),
        }
        if let (Some(gpu), Some(xid), true) = (told.found.gpus.first(), told.xid, told.found.count > 0)
            && (self.xids.len() < MAX_XIDS || self.xids.contains_key(&(*gpu, xid)))
        {
            *self.xids.entry((*gpu, xid)).or_default() += told.found.count;
        }
        while self.heard.len() > MAX_HEARD {
            self.heard.pop_front();
        }
        told.found
    }
}

/// A finding, and how it is counted.
struct Told {
    found: Finding,
    /// The Xid that it is about, if it came just now.
    xid: Option<u64>,
    /// Said again it is another one.
    counts: bool,
}

fn told_by_line(model: &Model, said: &Said, line: &KernelLine) -> Option<Told> {
    let text = clean(&line.text);
    let signature = catalog::find(Scope::Line, &text).filter(|s| !s.muted)?;
    let named = Named::of(signature, &text);
    // Another line names the process that was killed.
    if signature.rule == "rank-oom-killed" && named.pid.is_none() {
        return None;
    }
    let hit = Hit::of(model, &named);
    let shown = clip(&text, 300).into_owned();
    let proof = Evidence { path: Some("kernel log".into()), at: Some(said.written.unwrap_or(said.at)), ..Evidence::of("kernel", shown) };
    let what = match named.xid {
        Some((number, rest)) => format!("Xid {number}{}", if rest.is_empty() { String::new() } else { format!(", {rest}") }),
        None => text.trim().to_owned(),
    };
    let mut told = told(model, said, signature, &named, hit, &what, proof)?;
    if !line.backlog {
        return Some(told);
    }
    told.xid = None;
    match since_before(model, &told.found, line) {
        false => {}
        true if still_in_trouble(model, signature.rule, &told.found, said) => {
            told.found.why = format!("{} · it was reported before the job began, and still holds", told.found.why);
        }
        true => return context(model, said, told),
    }
    Some(told)
}

/// A line that was there before the job began, or of which that is not known, or that is about no job.
fn since_before(model: &Model, found: &Finding, line: &KernelLine) -> bool {
    let Some(job) = found.job.as_ref().and_then(|id| model.jobs.get(id)) else { return true };
    let Some(written_us) = line.uptime_us else { return true };
    // Clock ticks are hundredths of a second.
    let starts = job.pids().filter_map(|pid| Some(model.processes.get(&pid)?.info.start_ticks.saturating_mul(10_000)));
    // The kernel's clock of its log drifts from that of its processes.
    let slack_us = 5_000_000 + written_us / 10_000;
    starts.min().is_none_or(|began_us| written_us < began_us.saturating_add(slack_us))
}

fn still_in_trouble(model: &Model, rule: &str, found: &Finding, said: &Said) -> bool {
    let Some(gpu) = found.gpus.first().and_then(|index| model.gpus.get(index)) else { return false };
    let now = |held: Option<bool>| held == Some(true);
    let watch = &gpu.watch;
    let needs_action = watch.recovery_action.is_some_and(|a| a.value != 0);
    gpu.trouble.is_some()
        || match rule {
            "gpu-ecc" => needs_action || now(watch.remap_failed.map(|h| h.value)) || now(watch.remap_pending.map(|h| h.value)),
            "nvlink-down" => needs_action || watch.links.iter().any(crate::model::health::LinkWatch::is_down),
            // Most of these are the programs' own.
            "gpu-xid" => needs_action && !is_of_another_day(model, said),
            "gpu-lost" => needs_action,
            _ => false,
        }
}

fn is_of_another_day(model: &Model, said: &Said) -> bool {
    said.written.is_some_and(|at| model.now.since(at) > OF_ANOTHER_DAY)
}

/// Worth knowing, and not this job's.
fn context(model: &Model, said: &Said, mut told: Told) -> Option<Told> {
    let severity = told.found.severity;
    let old = is_of_another_day(model, said);
    // Whether a port is up now is seen elsewhere.
    if severity < Severity::Warning || old || told.found.role == Role::Context || !told.found.machine {
        return None;
    }
    let runs = model.jobs.values().any(|j| j.ended_at.is_none() && !model.is_stale(j));
    let before = if runs { "this job" } else { "nccl-top began" };
    let when = said.written.map_or("before nccl-top began".to_owned(), |at| format!("{} before nccl-top saw it", span(said.at.since(at))));
    let found = &mut told.found;
    found.job = None;
    found.ranks.clear();
    found.role = Role::Context;
    found.severity = Severity::Info;
    found.subject = format!("before: {}", found.subject);
    found.summary = format!("{} (before {before})", found.summary);
    found.why = format!("{when}, and not of a job that runs · {}", found.why);
    Some(told)
}

fn told(model: &Model, said: &Said, signature: &'static Signature, named: &Named, hit: Hit, what: &str, proof: Evidence) -> Option<Told> {
    let name = hit.name(model);
    let device = hit.gpu.map(|index| format!("GPU {index}")).or_else(|| hit.port.clone()).or_else(|| hit.device.clone());
    let by_pid = hit.by_pid;
    let subject = match (named.xid, &device, named.pid) {
        _ if signature.rule == "gpu-lost" => device.clone().unwrap_or_else(|| "a GPU".into()),
        _ if is_watched_elsewhere(signature) => device.clone().unwrap_or_else(|| signature.id.into()),
        (Some((number, _)), Some(device), _) => format!("{device} Xid {number}"),
        (Some((number, _)), None, _) => format!("Xid {number}"),
        (None, _, Some(pid)) if by_pid => format!("pid {pid}"),
        (None, Some(device), _) => format!("{device} {}", signature.id),
        (None, None, _) => signature.id.into(),
    };
    let is_named_in_text = name.as_deref().is_some_and(|n| what.contains(n)) && hit.rank.is_none();
    let summary = match &name {
        Some(name) if !is_named_in_text => format!("{name}: {what}"),
        _ => what.to_owned(),
    };
    let mut found = Finding::new(signature.rule, signature.severity, subject, clip(&summary, 160), said.written.unwrap_or(said.at));
    hit.mark(&mut found);
    found.card = named.pci;
    let mut severity = signature.severity;
    let mut why = signature.means.to_owned();
    // The kernel's log is that of the whole machine: other containers' GPUs and processes, too.
    let gpus_are_known = !model.gpus.is_empty() && model.gpus.values().all(|g| g.info.bus_id.is_some());
    if signature.id.starts_with("xid-") && hit.gpu.is_none() && gpus_are_known && proof.kind == "kernel" {
        severity = severity.min(Severity::Warning);
        why = format!("it is none of the GPUs seen here · {why}");
    }
    if by_pid && hit.job.is_none() {
        let most = if signature.rule == "rank-oom-killed" { Severity::Warning } else { Severity::Info };
        severity = severity.min(most);
        why = format!("the process belongs to no job seen here · {why}");
    }
    found.confidence = hit.confidence.filter(|_| hit.job.is_some()).unwrap_or(Confidence::Certain);
    if by_pid && hit.job.is_some() && hit.rank.is_none() {
        // Whether the job can do without it shows soon.
        severity = severity.min(Severity::Error);
        let how = if found.confidence == Confidence::Possible { "is named as its processes are" } else { "is in its control group" };
        why = format!("it is no rank of the job, but {how} · {why}");
    }
    found.severity = severity;
    found.why = why;
    found.next = Some(signature.next.into());
    found.role = signature.part.role();
    if !is_watched_elsewhere(signature) {
        found.sign(signature);
    }
    found.machine = !is_watched_elsewhere(signature);
    found.evidence = vec![proof];
    // A fault that the text itself calls harmless is nobody's.
    if signature.part == Part::Harmless && severity == Severity::Info && named.xid.is_none() {
        return None;
    }
    let xid = named.xid.map(|(number, _)| number);
    Some(Told { found, xid, counts: !(by_pid && signature.rule == "rank-oom-killed") })
}

/// The Xid that stands for the same fault as an event of another kind.
fn xid_of(event: &GpuEvent) -> Option<u64> {
    match event.event_bits {
        0x8 => Some(event.data),
        0x2 => Some(48),
        0x200 => Some(92),
        0x400 => Some(63),
        0x800 => Some(64),
        0x1000 => Some(94),
        0x2000 => Some(95),
        0x8000 => Some(154),
        _ => None,
    }
}

fn event_words(event: &GpuEvent) -> String {
    let what = match event.event_bits {
        0x1 => "corrected ECC error",
        0x2 => "uncorrected ECC error",
        0x8 => return format!("Xid {}", event.data),
        0x200 => "storm of corrected ECC errors",
        0x400 => "a row of memory is to be replaced",
        0x800 => "a row of memory could not be replaced",
        0x1000 => "poisoned data, contained",
        0x2000 => "poisoned data, not contained",
        0x4000 => "the GPU is not available",
        0x8000 => "another action is needed for the GPU to recover",
        bits => return format!("event {bits:#x}"),
    };
    what.into()
}

fn told_by_event(model: &Model, said: &Said, event: &GpuEvent) -> Option<Told> {
    let words = event_words(event);
    let hit = event.index.map_or_else(Hit::default, |index| Hit::of_gpu(model, index));
    let proof = Evidence { at: Some(said.at), ..Evidence::of("event", format!("NVML event {:#x}: {words}", event.event_bits)) };
    let bus = event.index.and_then(|i| model.gpus.get(&i)).and_then(|g: &Gpu| g.info.bus_id.as_deref());
    if let Some(number) = xid_of(event) {
        let text = format!("NVRM: Xid (PCI:{}): {number}, ", bus.unwrap_or(""));
        let signature = catalog::find(Scope::Line, &text).filter(|s| !s.muted)?;
        let what = if event.event_bits == 0x8 { words } else { format!("{words} (Xid {number})") };
        let named = Named { xid: Some((number, "")), pci: bus.and_then(PciAddress::parse), ..Named::default() };
        let mut told = told(model, said, signature, &named, hit, &what, proof)?;
        told.counts = event.event_bits == 0x8;
        return Some(told);
    }
    if event.event_bits != 0x4000 {
        return None;
    }
    let name = hit.name(model).unwrap_or_else(|| "a GPU".into());
    let mut found = rule("gpu-xid")?.finding(format!("{name} unavailable"), format!("{name}: {words}"), said.at);
    hit.mark(&mut found);
    found.confidence = Confidence::Certain;
    found.why = "the driver took it out of use; programs on it fail".into();
    found.next = Some("nvidia-smi -q | grep -i -A3 recovery; dmesg -T | grep -i xid | tail".into());
    found.evidence = vec![proof];
    Some(Told { found, xid: None, counts: true })
}
