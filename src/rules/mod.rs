//! The rules: what counts as trouble, how it is known, what to do.
//!
//! **To add a rule**: a file below `rules/` with a `pub const RULE: Rule` and its tests, and its line in [`RULES`]. A rule says what
//! holds now, with its evidence; opening, holding, clearing and counting are the ledger's business.

mod absent_on_cpus;
mod addresses;
pub mod area;
mod busbw_below_platform;
pub mod chain;
mod collective_mismatch;
mod collective_timeout;
mod congestion;
mod connection_lost;
mod cuda_error;
mod cuda_oom;
mod disk_full;
pub mod dumps;
mod ena_allowance;
mod env_mismatch;
mod env_no_effect;
mod fabric_retransmits;
mod fabric_state;
mod fallback_to_sockets;
pub mod findings;
mod gloo_waits;
mod gpu_driver;
mod gpu_ecc;
mod gpu_lost;
mod gpu_not_answering;
mod gpu_throttled;
mod gpu_xid;
mod grad_overflow;
mod hang_rank_absent;
mod hang_symmetric;
mod harmless;
pub mod host_checks;
mod host_cpu_contention;
pub mod host_faults;
mod host_memory_low;
mod host_setup;
mod init_stuck;
mod input_stall;
mod inspector_records;
pub mod job_cancelled;
pub mod last_words;
mod launch_failed;
mod left_out;
mod loss_not_finite;
mod loss_spike;
mod memory_growth;
mod missing_nic;
mod nccl_tests_failed;
mod nccl_warn;
mod nic_down;
mod nic_errors;
mod nic_flapping;
mod nvlink_down;
mod nvlink_errors;
mod pcie_degraded;
mod port_below_line_rate;
mod ports;
mod process_stuck;
mod program_error;
pub mod python_exception;
mod rail_imbalance;
mod rank_exited;
mod rank_oom_killed;
mod rank_stopped;
mod ras_reports;
mod rendezvous_failed;
mod send_order_deadlock;
pub mod settings;
mod several_runs;
mod slow_steps;
mod source_trouble;
mod stale_process;
mod storage_failed;
mod storage_hang;
mod store_barrier;
pub mod straggler;
mod transport_below_topology;
mod version_mismatch;
mod watchdogs;
mod work_stacks;
mod wrong_interface;
mod wrong_rail;

use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::Stamp;
use crate::base::time::span;
use crate::base::units::counted;
use crate::base::words::rank_words;
use crate::logs::catalog::{self, Part, Scope, Signature};
use crate::logs::error_words::exception_words;
use crate::logs::error_words::first_sentences;
use crate::logs::error_words::last_error;
use crate::logs::{Exception, Origin, What};
use crate::model::bringup::trouble::{Facts, Trouble};
use crate::model::bringup::{Bringup, Proof};
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{Look, RankLook};
use crate::model::{Model, TextSeen};
use crate::observe::evidence::{Evidence, Witness};
use crate::rules::findings::{Finding, Ledger, Life};
use crate::rules::host_faults::Hit;
use area::Area;
use chain::{Chain, Place};
use regex::Regex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

/// One rule, complete: its name, its meaning, its advice and its test.
pub struct Rule {
    pub id: &'static str,
    pub severity: Severity,
    /// What it means, in a sentence.
    pub title: &'static str,
    /// What is said of a rank, GPU or port that it names, where its own node's words are not known: `{has|have} not joined …`. Empty: the title.
    pub says: &'static str,
    /// How it is known.
    pub how: &'static str,
    /// What to do about it.
    pub advice: &'static str,
    pub life: Life,
    /// What the job is while it is open.
    pub implies: Implies,
    /// Where the cause lies, if a finding of this rule is one; `None`: its evidence may tell.
    pub area: Option<Area>,
    /// What its findings are in a chain of failures.
    pub chain: Chain,
    /// Whose stacks show more.
    pub stacks: Stacks,
    /// Its thresholds.
    pub limits: &'static [&'static Limit],
    /// Runs on each event of each log line, as it is applied.
    pub on_text: Option<fn(&TextContext, &mut Vec<Finding>)>,
    /// The open finding of the rule that a line of text shows to be over.
    pub takes_back: Option<for<'a> fn(&TextContext<'a>) -> Option<&'a Finding>>,
    /// Runs once a second.
    pub on_tick: Option<fn(&TickContext, &mut Vec<Finding>)>,
    /// Runs on what logs, dumps and reports show of a job, whenever that has changed, and when there is no more input.
    pub on_facts: Option<fn(&FactContext, &mut Vec<Finding>)>,
}

/// What an open finding makes of its job's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Implies {
    Nothing,
    Slow,
    Stuck,
    /// The job has failed, unless it goes on all the same.
    Failed,
}

/// Whose stacks show more of a finding, among the processes of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stacks {
    /// It is not about what processes do now.
    OfNobody,
    /// Those of the ranks to blame.
    OfCulprits,
    /// The same; where nobody is to blame, those of any two ranks side by side.
    OfAnyone,
}

/// What a rule on text may know.
pub struct TextContext<'a> {
    pub model: &'a Model,
    pub seen: &'a TextSeen<'a>,
    pub ledger: &'a Ledger,
}

/// What a rule on ticks may know.
pub struct TickContext<'a> {
    pub model: &'a Model,
    pub looks: &'a BTreeMap<String, Look>,
    pub ledger: &'a Ledger,
}

/// What a rule on facts may know.
pub struct FactContext<'a> {
    pub model: &'a Model,
    pub ledger: &'a Ledger,
    /// No more lines will come.
    pub ended: bool,
    bringups: Vec<(&'a Job, Bringup)>,
    /// What is known from all dumps, watchdogs and reports together, whatever rule it stands under.
    compared: Vec<Finding>,
}

/// What the rules on facts find now. Flight Recorder dumps are compared once they are all there, which the caller knows.
pub fn facts(model: &Model, ledger: &Ledger, ended: bool, dumps: &[Finding]) -> Vec<Finding> {
    let bringups = model.jobs.values().map(|job| (job, model.bringup_of(&job.id))).collect();
    let mut compared = dumps.to_vec();
    for job in model.jobs.values() {
        compared.extend(watchdogs::judge(model, job));
        compared.extend(gloo_waits::judge(model, job));
        compared.extend(store_barrier::judge(model, job));
        compared.extend(ras_reports::of_job(model, job));
        compared.extend(inspector_records::of_job(model, job));
    }
    let ctx = FactContext { model, ledger, ended, bringups, compared };
    let (mut all, mut found) = (Vec::new(), Vec::new());
    for rule in RULES {
        found.extend(ctx.compared.iter().filter(|f| f.rule == rule.id).cloned());
        if let Some(check) = rule.on_facts {
            check(&ctx, &mut found);
        }
        // What no rule says otherwise rests on how NCCL came up.
        found.iter_mut().filter(|f| f.witness == Witness::Text).for_each(|f| f.witness = Witness::Bringup);
        all.append(&mut found);
    }
    all
}

impl Rule {
    /// One that is seen once, changes nothing for its job, and has no hook: its findings come from the texts of the catalogue that stand
    /// under it.
    pub(crate) const PLAIN: Rule = Rule {
        id: "",
        severity: Severity::Info,
        title: "",
        says: "",
        how: "",
        advice: "",
        life: ONCE,
        implies: Implies::Nothing,
        area: None,
        chain: Chain::PLAIN,
        stacks: Stacks::OfNobody,
        limits: &[],
        on_text: None,
        takes_back: None,
        on_tick: None,
        on_facts: None,
    };

    /// A finding on a report. Its summary is its subject: it distinguishes it from others.
    pub fn weighed(&self, severity: Severity, confidence: Confidence, summary: impl Into<String>) -> Finding {
        let summary = summary.into();
        let mut found = Finding::new(self.id, severity, summary.clone(), summary, Stamp::default());
        found.role = if severity == Severity::Info { Role::Context } else { Role::Root };
        (found.confidence, found.witness) = (confidence, Witness::Reports);
        found
    }

    /// A finding of this rule, as bad as its findings usually are.
    pub fn finding(&self, subject: impl Into<String>, summary: impl Into<String>, since: Stamp) -> Finding {
        Finding::new(self.id, self.severity, subject, summary, since)
    }
}

impl FactContext<'_> {
    /// The bring-up of each job.
    fn each(&self) -> impl Iterator<Item = Facts<'_>> {
        self.bringups.iter().map(|(job, bringup)| {
            let ended = self.ended || job.ended_at.is_some();
            Facts { bringup, model: self.model, job, ended }
        })
    }

    /// One thing that is wrong, as a finding; where it is not sure to cost something, as a warning at most.
    fn found(&self, rule: &Rule, facts: &Facts, told: Trouble) -> Finding {
        let since = told.since.or(told.proofs.iter().map(|p| p.at).min()).unwrap_or(self.model.now);
        let mut found = rule.finding(told.subject, told.summary, since);
        found.job = Some(facts.job.id.clone());
        if !told.fails {
            found.severity = Severity::Warning;
        }
        found.confidence = told.confidence;
        found.why = told.why;
        found.next = Some(told.advice);
        found.ranks = told.ranks;
        let proof = |p: &Proof| Evidence {
            at: self.model.carries_time(p.file, p.line).then_some(p.at),
            ..Evidence::line(self.model.path_of(p.file), p.line, &p.text, p.at)
        };
        found.evidence = told.proofs.iter().map(proof).collect();
        found.evidence.extend(told.seen);
        found
    }

    /// An error of another rule is open for this job.
    fn has_failed(&self, rule: &str, job: &str) -> bool {
        self.ledger.open().iter().any(|f| f.rule != rule && f.severity >= Severity::Error && f.job.as_deref() == Some(job))
    }
}

/// Seen once, it stays for the life of the run.
pub const ONCE: Life = Life { hold: Duration::ZERO, linger: None, renews: false };

pub const fn while_it_holds(hold_s: u64, linger_s: u64) -> Life {
    Life { hold: Duration::from_secs(hold_s), linger: Some(Duration::from_secs(linger_s)), renews: false }
}

/// The rule whose findings say that a process of a job is gone.
pub const END_OF_A_RANK: &str = rank_exited::RULE.id;
/// The rule of what a job could not read or write, which it may go on after.
pub const STORAGE_FAILED: &str = storage_failed::RULE.id;
/// The rule of errors that a CUDA call returns.
pub const CUDA_ERROR: &str = cuda_error::RULE.id;

/// All rules. The order is that of the catalogue, not of importance.
pub const RULES: &[Rule] = &[
    hang_rank_absent::RULE,
    hang_symmetric::RULE,
    process_stuck::RULE,
    send_order_deadlock::RULE,
    collective_mismatch::RULE,
    init_stuck::RULE,
    storage_hang::RULE,
    input_stall::RULE,
    rank_exited::RULE,
    rank_stopped::RULE,
    host_memory_low::RULE,
    memory_growth::RULE,
    rank_oom_killed::RULE,
    collective_timeout::RULE,
    connection_lost::RULE,
    rendezvous_failed::RULE,
    job_cancelled::RULE,
    cuda_oom::RULE,
    cuda_error::RULE,
    python_exception::RULE,
    disk_full::RULE,
    storage_failed::RULE,
    loss_not_finite::RULE,
    loss_spike::RULE,
    grad_overflow::RULE,
    straggler::RULE,
    slow_steps::RULE,
    host_cpu_contention::RULE,
    gpu_lost::RULE,
    gpu_not_answering::RULE,
    gpu_ecc::RULE,
    gpu_xid::RULE,
    gpu_driver::RULE,
    gpu_throttled::RULE,
    nvlink_down::RULE,
    nvlink_errors::RULE,
    pcie_degraded::RULE,
    fabric_state::RULE,
    nic_down::RULE,
    nic_flapping::RULE,
    nic_errors::RULE,
    fabric_retransmits::RULE,
    congestion::RULE,
    rail_imbalance::RULE,
    port_below_line_rate::RULE,
    missing_nic::RULE,
    ena_allowance::RULE,
    fallback_to_sockets::RULE,
    transport_below_topology::RULE,
    wrong_interface::RULE,
    wrong_rail::RULE,
    env_mismatch::RULE,
    env_no_effect::RULE,
    version_mismatch::RULE,
    nccl_warn::RULE,
    program_error::RULE,
    nccl_tests_failed::RULE,
    busbw_below_platform::RULE,
    stale_process::RULE,
    host_setup::SHM_SMALL,
    host_setup::MEMLOCK_SMALL,
    host_setup::IOMMU_ON,
    host_setup::FABRIC_MANAGER,
    host_setup::CLOCK_SKEW,
    source_trouble::RULE,
    several_runs::RULE,
    launch_failed::RULE,
    left_out::RULE,
    harmless::RULE,
];

pub(crate) use busbw_below_platform::compare as busbw_of_platform;
pub(crate) use gpu_ecc::may_damage_data;
pub(crate) use hang_rank_absent::{has_trained, works_unseen};
pub(crate) use init_stuck::lone_agent;
pub(crate) use input_stall::may_be_a_pause;
pub(crate) use rank_exited::{TASK, is_abort, is_by_exit_code};
pub(crate) use rendezvous_failed::may_pass;
/// What entries of the catalogue call the index of a process that mp.spawn started, which is its local rank.
const SPAWNED: &str = "spawned";
/// How headlines call who waited and reports it, where its own words do not say it.
const SOME_RANK: &str = "a rank waited ";

pub(crate) use watchdogs::{note as open_questions, silent as silent_ranks};

/// The job made steps after its watchdogs spoke, or its dumps were written: it was not stuck.
pub(crate) fn went_on(model: &Model, job: &Job, witness: Witness) -> bool {
    match witness {
        Witness::Dumps => dumps::went_on(model, job),
        _ => watchdogs::went_on(model, job),
    }
}

/// What a finding makes of its job's state, which is what its rule implies but for input that is only late, or may be.
pub fn implied(found: &Finding) -> Implies {
    match rule(found.rule) {
        Some(_) if input_stall::is_chronic(found) => Implies::Slow,
        Some(_) if input_stall::may_be_a_pause(found) => Implies::Nothing,
        Some(rule) => rule.implies,
        None => Implies::Nothing,
    }
}

/// It tells of one process that failed or ended by itself, and not of what all wait for, or of somebody's request.
pub fn ends_a_rank(found: &Finding) -> bool {
    let of_failures = |rule: &Rule| rule.chain.place == Place::Failure && (rule.chain.says_why || rule.id == END_OF_A_RANK);
    !is_messenger(found) && rule(found.rule).is_some_and(of_failures)
}

/// Who reports it has waited for somebody.
pub fn is_messenger(found: &Finding) -> bool {
    found.part == Some(Part::Messenger) || rule(found.rule).is_some_and(|rule| rule.chain.place == Place::Messenger)
}

pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.id == id)
}

/// The rule that a text stands under. Who waits for others in vain does not start any more once the job has made steps.
pub fn rule_of_text(signature: &Signature, model: &Model, job: &str) -> Option<&'static Rule> {
    let trains = || model.progress_of(job).is_some_and(|p| p.last_step_at.is_some());
    let waits = signature.rule == init_stuck::RULE.id && signature.part == Part::Messenger;
    rule(if waits && trains() { collective_timeout::RULE.id } else { signature.rule })
}

/// `3 GPUs are spinning in NCCL; no bytes moved for 12 s`
fn spinning(gpus: usize, lasts: Duration) -> String {
    format!("{}; no bytes moved for {}", spins(gpus), span(lasts))
}

/// `3 GPUs are spinning in NCCL`: kernels of collectives, or of sends and receives, that wait for a peer.
fn spins(gpus: usize) -> String {
    format!("{} {} spinning in NCCL", counted(gpus as u64, "GPU"), if gpus == 1 { "is" } else { "are" })
}

/// Ends a finding of the judge of progress: what it rests on, and what could not be seen.
pub fn told_by(found: &mut Finding, look: &Look) {
    if let Some(log) = look.log.as_ref().filter(|l| l.last_step_at.is_some() && l.quiet_for > l.patience) {
        found.evidence.push(Evidence::of("line", format!("no step in the log for {}", crate::base::time::span(log.quiet_for))));
    }
    if !look.lacks.is_empty() {
        found.evidence.push(Evidence::of("source", format!("not seen: {}", look.lacks.join(", "))));
    }
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
}

/// Where GPM does not tell what GPUs do: what those that wait draw, and what they drew while they worked.
pub(crate) fn power_evidence(look: &Look) -> Option<Evidence> {
    let waiting = || look.alive().filter(|r| r.activity == Activity::Waiting && !r.by_gpm);
    let most = |watts: &dyn Fn(&RankLook) -> Option<f64>| waiting().map(watts).try_fold(0.0_f64, |most, w| w.map(|w| w.max(most)));
    let (now, at_work) = (most(&|r| Some(r.power_mw? as f64 / 1e3))?, most(&|r| r.at_work_w)?);
    (now > 0.0).then(|| Evidence::of("gpu", format!("they draw {now:.0} W or less, at work up to {at_work:.0} W")))
}

/// Who wrote a line, in front of what it says; empty where nothing tells.
pub(crate) fn who_wrote(rank: Option<u32>, origin: &Origin) -> String {
    let of_host = || origin.host.as_deref().map_or(String::new(), |host| format!(" of {host}"));
    if let (None, None, Some(worker), Some(pid), false) = (rank, origin.local_rank, &origin.worker, origin.pid, origin.stands_for_others) {
        return format!("{worker} (pid {pid}){}: ", of_host());
    }
    match (rank, origin.local_rank, origin.cuda_dev, &origin.host) {
        (Some(rank), ..) => format!("{}: ", rank_words(&[rank])),
        (None, Some(local), ..) => format!("local rank {local}{}: ", of_host()),
        (None, None, Some(dev), _) => format!("CUDA device {dev}{}: ", of_host()),
        (None, None, None, Some(host)) => format!("host {host}: "),
        (None, None, None, None) => String::new(),
    }
}

impl TextContext<'_> {
    /// The finding's frame: job, rank, GPU, the line as evidence. Errors that follow another root of the same job are its cascade.
    pub fn found(&self, rule: &Rule, subject: impl Into<String>, summary: impl Into<String>) -> Finding {
        let seen = self.seen;
        let mut found = rule.finding(subject, summary, seen.since);
        found.job = Some(seen.job.clone());
        let is_timed = seen.event.origin.written.is_some() || !self.model.is_archived(seen.file);
        let proof = Evidence::line(self.model.path_of(seen.file), seen.line, seen.text, seen.since);
        found.evidence = vec![Evidence { at: Some(seen.since).filter(|_| is_timed), ..proof }];
        if let Some(rank) = seen.rank {
            found.ranks = vec![rank];
            found.gpus = self.gpu_of_rank(rank).into_iter().collect();
        }
        found
    }

    /// Who wrote the line, in front of what it says: `rank 3: `, `local rank 2 of node-a: `, `CUDA device 3 of node-a: `, `RayWorker (pid 310): `; empty where nothing tells.
    pub fn who(&self) -> String {
        who_wrote(self.seen.rank, &self.seen.event.origin)
    }

    /// Adds to the words of a finding what the program was doing, as far as its traceback says.
    pub fn tell_doing(&self, found: &mut Finding) {
        let doing = self.seen.event.said_at.as_ref().map_or(String::new(), |said| said.doing.words());
        // That something could not be set up says so itself.
        let of_start = self::rule(found.rule).is_some_and(|rule| rule.chain.is_of_the_start) || found.rule == rendezvous_failed::RULE.id;
        if !doing.is_empty() && !of_start {
            let words = found.summary.trim_end_matches(['.', ':', ' ']);
            found.summary = format!("{words}, {doing}");
        }
    }

    /// A failure that one rank tells first and the others repeat: they are counted, not opened.
    pub fn first_of_its_kind(&self, rule: &Rule, text: &str, next: &str) -> Finding {
        let who = self.who();
        let mut found = self.found(rule, "first", format!("{who}{}", first_sentences(text)));
        found.confidence = Confidence::Certain;
        found.why = "the first of its kind in this run".into();
        found.next = Some(next.into());
        self.tell_doing(&mut found);
        found
    }

    /// What an event is in the catalogue of texts, if it is in it; what other rules tell in their own words is left to them.
    pub fn signature(&self) -> Option<(&'static Signature, Cow<'_, str>)> {
        let other_than = |rule: &str, text: String| {
            let signature = catalog::find(Scope::Line, &text).filter(|s| s.rule != rule)?;
            Some((signature, Cow::Owned(text)))
        };
        let of_exception = |e: &Exception| {
            let signature = e.signature().filter(|s| s.rule != python_exception::RULE.id)?;
            // The first of a chain says it in plainer words than what was made of it.
            let is_it = |first: &&String| catalog::find(Scope::Line, first).is_some_and(|s| s.id == signature.id);
            Some((signature, Cow::Owned(e.after.as_ref().filter(is_it).cloned().unwrap_or_else(|| exception_words(e)))))
        };
        match &self.seen.event.what {
            What::Signed { signature, text, .. } => Some((signature, text.into())),
            What::NcclWarn { site, text } => catalog::find_warn(site.as_deref(), text).map(|s| (s, text.into())),
            What::Exception(e) if self.repeats(e) => None,
            What::Exception(e) => {
                // NCCL's own last words say more than the kind of its error.
                let by_reason = last_error(&e.message).and_then(|reason| catalog::find(Scope::Nccl, reason));
                match by_reason {
                    Some(signature) => Some((signature, Cow::Owned(exception_words(e)))),
                    None => of_exception(e),
                }
            }
            What::CudaError { text } => other_than("cuda-error", text.clone()),
            _ => None,
        }
    }

    /// The same words of NCCL were reported as its WARN, which the catalogue knows.
    fn warned(&self, text: &str) -> bool {
        text.starts_with("Cuda failure ") && self.seen.text.contains("NCCL WARN") && catalog::find(Scope::Nccl, text).is_some()
    }

    /// Adds to a finding what the catalogue knows of its text.
    pub fn sign(&self, found: &mut Finding, text: &str) {
        if let Some(signature) = catalog::find(Scope::Line, text) {
            found.sign(signature);
            if let Some(severity) = catalog::user::severity_of(signature.id) {
                found.severity = severity;
            }
            found.why = if found.why.is_empty() { signature.means.into() } else { format!("{} · {}", signature.means, found.why) };
            found.next = Some(signature.next.into());
        }
    }

    /// A text of the catalogue as a finding.
    pub fn signed(&self, rule: &Rule, signature: &'static Signature, text: &str) -> Finding {
        let told = signature.tell(text, self.seen.event.origin.host.as_deref());
        let subject = match told.thing {
            // The same process is killed in several words; a GPU has several troubles.
            Some(thing) if signature.rule == "rank-oom-killed" => thing,
            Some(thing) => format!("{} {thing}", signature.id),
            None => signature.id.to_owned(),
        };
        let summary = told.headline.map_or_else(|| first_sentences(text), |words| crate::base::clean::clip(&words, 220).into_owned());
        let mut found = self.found(rule, subject, summary);
        // NCCL's INFO tells of what it does without, too.
        let most = match (&self.seen.event.what, signature.part) {
            (What::Signed { tried: true, .. }, Part::Harmless) => Severity::Info,
            (What::Signed { tried: true, .. }, _) => Severity::Warning,
            _ => Severity::Critical,
        };
        found.severity = signature.severity.min(most);
        if let Some(task) = signature.capture(text, rank_exited::TASK).and_then(|task| task.parse().ok()) {
            found.ranks = rank_exited::rank_of_task(self, task).into_iter().collect();
            found.gpus = found.ranks.first().and_then(|rank| self.gpu_of_rank(*rank)).into_iter().collect();
        } else if let Some(ranks) = told.ranks {
            (found.ranks, found.gpus) = (ranks, Vec::new());
        } else if let Some(index) = signature.capture(text, SPAWNED).and_then(|index| index.parse().ok()) {
            found.ranks = self.model.rank_of_local(&self.seen.job, index).into_iter().collect();
            found.gpus = found.ranks.first().and_then(|rank| self.gpu_of_rank(*rank)).into_iter().collect();
        } else if rule.chain.place == Place::Request || rule.chain.place == Place::Messenger && signature.part != Part::Cause {
            // Who reports has waited for somebody else; what a scheduler asks of a job stands in the log of any rank.
            (found.ranks, found.gpus) = (Vec::new(), Vec::new());
        }
        if found.ranks.is_empty()
            && found.severity >= Severity::Error
            && signature.part == Part::Cause
            && rule.chain.place == Place::Failure
            && !rule.chain.from_kernel
        {
            found.ranks = self.rank_in_label(text).into_iter().collect();
            found.gpus = found.ranks.first().and_then(|rank| self.gpu_of_rank(*rank)).into_iter().collect();
        }
        found.card = rule.chain.from_kernel.then(|| host_faults::card_of(signature, text)).flatten();
        let explained_by = told.follows.unwrap_or(signature);
        found.sign(signature);
        found.confidence = signature.confidence;
        found.why = explained_by.means.into();
        // PyTorch's default port stands for that of the text, and MODULE for its name.
        let next = match signature.capture(text, "port") {
            Some(port) => explained_by.next.replace("29500", port),
            None => explained_by.next.into(),
        };
        found.next = Some(match signature.capture(text, "module") {
            Some(module) => next.replace("MODULE", module.split('.').next().unwrap_or(module)),
            None => next,
        });
        found.role = signature.part.role();
        let is_of_all = rule.chain.place == Place::Request && self.seen.rank.is_some();
        let is_own =
            !is_of_all && signature.part == Part::Cause || signature.part == Part::Messenger && rule.chain.place != Place::Messenger;
        // What NCCL says of a machine's fault tells which of its processes met it.
        let is_of_process = !rule.chain.from_kernel || signature.scope == Scope::Nccl;
        if is_own && found.severity >= Severity::Error && is_of_process && !self.names_somebody(&found) {
            found.summary = format!("{}{}", self.who(), found.summary);
        } else if let Some(who) = self.who().strip_suffix(": ").filter(|_| !self.names_somebody(&found)) {
            // Who reports that somebody else is missing is told, and not blamed.
            found.summary = found.summary.replacen(SOME_RANK, &format!("{who} waited "), 1);
        }
        // Interfaces are chosen for what ranks say to one another, and not for storage or a program's own requests.
        if found.severity >= Severity::Error && matches!(area::Area::of(&found), None | Some(area::Area::Network)) {
            let words = found.summary.clone();
            addresses::explain(&mut found, &words);
        }
        self.tell_doing(&mut found);
        found
    }

    /// Who writes a line that has its rank in front of its words, behind a logger's name: `WARNING:dataset:rank 1: pread failed`.
    fn rank_in_label(&self, text: &str) -> Option<u32> {
        static LABEL: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"(?i)^(?:[\w.\[\]-]{1,40}: ?){0,3}\[?rank[ =]?(\d{1,5})\]?: ").expect("pattern"));
        let rank = LABEL.captures(text)?[1].parse().ok()?;
        let job = self.model.jobs.get(&self.seen.job)?;
        job.ranks.contains_key(&rank).then_some(rank)
    }

    /// Whether the words of a finding say already who it is about, or it is about others than who wrote the line.
    fn names_somebody(&self, found: &Finding) -> bool {
        let words = found.summary.to_lowercase();
        let is_of_writer = self.seen.rank.is_none_or(|rank| found.ranks == [rank]);
        let numbered =
            |what: &str| words.match_indices(what).any(|(at, _)| words[at + what.len()..].starts_with(|c: char| c.is_ascii_digit()));
        let is_host = |host: &str| words.contains(&host.to_lowercase());
        !is_of_writer
            || ["rank ", "ranks ", "gpu "].iter().any(|what| numbered(what))
            || self.seen.event.origin.host.as_deref().is_some_and(is_host)
    }

    /// The rank of a process that a launcher names.
    pub fn rank_of_pid(&self, pid: u32) -> Option<u32> {
        let by_process = self.model.jobs.get(&self.seen.job).and_then(|job| job.rank_of(pid));
        by_process.or_else(|| self.model.record_of(&self.seen.job).launched.get(&pid).copied())
    }

    pub fn gpu_of_rank(&self, rank: u32) -> Option<u32> {
        let pid = self.model.jobs.get(&self.seen.job)?.ranks.get(&rank)?;
        self.model.gpu_of_pid(*pid)
    }

    /// ChildFailedError and its like only repeat what is known.
    pub fn repeats(&self, e: &Exception) -> bool {
        let teardown = || catalog::find(Scope::Line, &exception_words(e)).is_some_and(|s| s.part == Part::Teardown);
        let of_job = |f: &Finding| f.job.as_deref() == Some(&self.seen.job);
        let has_failed = |f: &Finding| {
            let fails = self::rule(f.rule).is_some_and(|r| r.implies == Implies::Failed || r.id == END_OF_A_RANK);
            f.rule != python_exception::RULE.id && f.severity >= Severity::Error && fails && !self.is_end_of_writer(f)
        };
        e.victim && teardown() && self.ledger.first_open(|f| of_job(f) && f.own_role == Role::Root && has_failed(f)).is_some()
    }

    /// A finding that knows of the writer of this line that it ended, and not why.
    fn is_end_of_writer(&self, f: &Finding) -> bool {
        rank_exited::is_by_exit_code(f) && (f.ranks.is_empty() || self.seen.rank.is_none_or(|rank| f.ranks.contains(&rank)))
    }
}

impl TickContext<'_> {
    /// A finding about a GPU, with the rank that works on it and its job, and the name of the GPU: `GPU 3 (0000:3b:00.0), rank 3`.
    pub fn of_gpu(&self, rule: &Rule, index: u32, subject: String, since: Stamp) -> (Finding, String) {
        let mut hit = Hit::of_gpu(self.model, index);
        // What began with a job that has ended since is still its.
        if hit.job.is_none()
            && let Some(open) = self.ledger.open().iter().find(|f| f.rule == rule.id && f.subject == subject && f.job.is_some())
        {
            hit.job.clone_from(&open.job);
            hit.rank = open.ranks.first().copied();
        }
        let mut found = rule.finding(subject, "", since);
        hit.mark(&mut found);
        (found, hit.name(self.model).unwrap_or_else(|| format!("GPU {index}")))
    }

    /// The subject of a finding that kernel or driver gave on the same fault of a GPU already: what counters show belongs to it.
    pub fn told_already(&self, rule: &str, gpu: u32) -> Option<String> {
        let told = |f: &&&crate::rules::findings::Finding| f.rule == rule && f.machine && f.signature.is_some() && f.gpus == [gpu];
        let open = self.ledger.open();
        open.iter().filter(|f| f.role != crate::base::severity::Role::Context).find(told).map(|f| f.subject.clone())
    }

    /// What a cause of another rule makes of a job that ended then, if one is open or was when it ended.
    pub fn explained(&self, rule: &Rule, job: &Job, at: Stamp) -> Option<Implies> {
        let still = self.ledger.open().into_iter().filter(|f| f.role == Role::Root);
        let then = self.ledger.past().filter(|f| f.role == Role::Root && f.cleared_at.is_some_and(|cleared| cleared >= at));
        // Ctrl-C is reported as a warning, and explains all the same.
        let tells = |f: &&Finding| f.severity >= Severity::Error || f.rule == job_cancelled::RULE.id;
        let others = still.chain(then).filter(|f| f.rule != rule.id).filter(tells);
        // What a job has survived for two minutes is not why it fails now.
        let near = |f: &&Finding| !f.machine || at.since(f.last_at) < Duration::from_secs(120);
        let mine = others.filter(|f| f.job.as_deref() == Some(&job.id)).filter(near);
        mine.filter_map(|f| self::rule(f.rule)).map(|r| r.implies).filter(|implies| *implies >= Implies::Stuck).max()
    }

    /// Another finding of the same job already says what a finding of this rule would say of these ranks.
    pub fn is_covered(&self, rule: &Rule, job: &str, ranks: &[u32]) -> bool {
        let names_one = |f: &Finding| ranks.iter().any(|r| f.ranks.contains(r));
        let covers = |f: &Finding| rule.chain.covered_by.contains(&f.rule) && f.job.as_deref() == Some(job) && names_one(f);
        self.ledger.first_open(covers).is_some()
    }
}
