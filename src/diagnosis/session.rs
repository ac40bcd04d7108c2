//! Model, rules and ledger put together: observations in, changes out. Live, replay, demo, `score` and `check` are this with other input.

use crate::base::severity::{Role, Severity};
use crate::base::time::{Stamp, Zone};
use crate::diagnosis::culprits::Culprits;
use crate::diagnosis::startup::Startup;
use crate::diagnosis::story::Story;
use crate::diagnosis::unproven::Unproven;
use crate::diagnosis::verdict::{self, State, Verdict};
use crate::diagnosis::{causality, cover, driver_chain, lines};
use crate::logs::{TextEvent, What};
use crate::model::gpu::Activity;
use crate::model::quiet::Quiet;
use crate::model::reading::ReadLine;
use crate::model::series::Trend;
use crate::model::signals::Look;
use crate::model::topology;
use crate::model::topology::used::InUse;
use crate::model::{Model, TextSeen};
use crate::observe::evidence::Witness;
use crate::observe::{Body, Observation};
use crate::rules::area::Area;
use crate::rules::findings::{Change, Finding, Ledger, Life};
use crate::rules::host_faults::{self, Machine};
use crate::rules::last_words::LastWords;
use crate::rules::{Implies, RULES, TickContext};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// For so long a job is warned of what it could not write.
const LOST: Duration = Duration::from_secs(1800);
/// A job that makes steps this long after an error has survived it.
const SURVIVED: Duration = Duration::from_secs(5);
/// Ranks write their Flight Recorder dumps within a second or two of each other: so long after the last they are judged.
const DUMPS_SETTLE: Duration = Duration::from_secs(3);
/// Logs of jobs of which no process is seen are judged anew as a whole while they report no more than this.
const MOST_JUDGED_ANEW: usize = 1024;

/// What lies further apart is a gap, in which nobody looked.
const MOST_BETWEEN_TICKS: Duration = Duration::from_secs(3);

/// Steps that a byte of a dump counts for.
const PER_DUMPED_BYTE: u64 = 16;

/// Everything known and judged so far.
#[derive(Clone, Default, PartialEq)]
pub struct Session {
    pub model: Model,
    pub ledger: Ledger,
    /// By job id.
    pub verdicts: BTreeMap<String, Verdict>,
    /// The phases of its start, by job id.
    pub startups: BTreeMap<String, Startup>,
    /// Whom the verdicts name.
    pub culprits: Culprits,
    /// The states that jobs went through.
    pub story: Story,
    looks: BTreeMap<String, Look>,
    /// By job, the number of the finding that is the cause.
    causes: BTreeMap<String, u64>,
    /// What kernel and driver say.
    machine: Machine,
    /// Revisions of what the rules on facts read, when they were last asked, and what they find.
    facts_at: Option<FactsAt>,
    facts_found: Vec<Finding>,
    /// What those who are blamed wrote last.
    last_words: LastWords,
    /// Exceptions that may have been caught.
    unproven: Unproven,
    /// What NCCL makes of the topology, by job, and revisions of what it was put together from.
    in_use: BTreeMap<String, Arc<InUse>>,
    in_use_at: Option<(u64, u64)>,
    /// Revision of the dumps when they were last compared, and what they show.
    dumps_at: u64,
    dumps_found: Vec<Finding>,
    /// What watchdogs leave open, by job.
    questions: BTreeMap<String, String>,
    /// Revision of the record of a job when its log was last judged as a whole.
    whole_at: BTreeMap<String, u64>,
    /// When a second was last counted for what ranks spend their time with.
    counted_at: Option<Stamp>,
    /// The state last reported without a job.
    reported_idle: bool,
    /// Steps taken so far to judge what was seen, about: what a second of it costs grows with how much there is of everything.
    pub effort: u64,
}

/// What the rules on facts were asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FactsAt {
    bringup: u64,
    records: u64,
    dumps: u64,
    /// Of GPUs, ports, and what joins them.
    topology: u64,
    /// Logs of jobs of which no process is seen that have fallen silent.
    silent: usize,
    ended: bool,
}

/// Something that was reported: what `watch` prints, one line each.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Finding(Change),
    /// `job` is `None` when there is no job at all.
    State {
        job: Option<String>,
        state: State,
        phase: Option<&'static str>,
        area: Option<Area>,
        summary: String,
    },
}

impl Session {
    pub fn new(host: &str, zone: Zone) -> Self {
        let mut session = Session::default();
        session.model.host = crate::base::clean::clean(host).into_owned();
        session.model.zone = zone;
        session
    }

    /// Memory of this session, estimated: what keeping it as it is now costs.
    pub fn bytes(&self) -> usize {
        /// Of one sample in a series, and of a process, GPU, communicator or finding with the texts that belong to it.
        const SAMPLE: usize = 16;
        const THING: usize = 2 << 10;
        /// A time in which a counter grew, in samples.
        const GROWTH: usize = 3;
        let model = &self.model;
        let ports = model.ports.values().map(|p| p.tx.len() + p.rx.len());
        let netdevs = model.netdevs.values().map(|n| n.tx.len() + n.rx.len());
        let gpus = model.gpus.values().map(|g| {
            let trends = [&g.util_trend, &g.sm_trend, &g.power_trend, &g.nvlink_trend, &g.nvlink_tx_trend];
            g.util_pct.len() + trends.map(Trend::len).iter().sum::<usize>() + g.deeds.len() / SAMPLE
        });
        let files = model.files.values().map(|f| {
            f.progress.losses.len() + f.progress.step_trend.len() + f.progress.throughput_trend.len() + f.progress.step_times.len()
        });
        let counters = model.ports.values().map(|p| &p.counters).chain(model.netdevs.values().map(|n| &n.counters));
        let growth = counters.map(|c| c.kept() * GROWTH);
        let samples: usize = ports.chain(netdevs).chain(gpus).chain(files).chain(growth).sum();
        let members: usize = model.comms.values().map(|c| c.ranks.len() + c.missing.len()).sum();
        let alarms: usize = model.records.values().map(|r| r.alarms.iter().len() + r.ranks.len() / 8).sum();
        let findings = self.ledger.open().len() + self.ledger.past().count();
        let things = model.gpus.len() + model.ports.len() + model.netdevs.len() + model.processes.len() + model.files.len() + findings;
        let lists = (members + model.kernel.len() + alarms + self.story.len()) * (THING / 8);
        model.logbook.bytes() + samples * SAMPLE + lists + (1 + things) * THING
    }

    /// Applies one observation; what changed is added to `out`, with its time.
    pub fn apply(&mut self, seen: &Observation, out: &mut Vec<(Stamp, Event)>) {
        let dumped = self.model.dumps.bytes_read;
        self.model.apply(seen);
        self.effort += (self.model.dumps.bytes_read - dumped) * PER_DUMPED_BYTE;
        if matches!(seen.body, Body::Lines(_)) {
            // The job of these lines is settled before they are judged: else a finding is reported for the log, and again for the job.
            self.model.settle();
        }
        for (from, to) in std::mem::take(&mut self.model.adopted) {
            self.ledger.adopt(&from, &to);
            self.story.adopt(&from, &to);
            self.unproven.adopt(&from, &to);
        }
        match &seen.body {
            Body::Lines(lines) => {
                if let Some(file) = self.model.files.get_mut(&lines.file) {
                    file.dropped_lines += lines.dropped_lines;
                    file.folded_alarms += lines.folded_alarms;
                    file.alarms_left_out += lines.alarms_left_out;
                }
                // Line by line, states too, so that it does not matter which lines came together.
                for line in &lines.lines {
                    let (ledger, unproven) = (&mut self.ledger, &mut self.unproven);
                    self.model.apply_line(seen.at, lines.file, line, lines.backlog, |model, text| unproven.judge(model, text, ledger));
                    self.report(seen.at, out);
                }
            }
            Body::Kernel { lines, uptime_us } => self.machine.lines(seen.at, lines, *uptime_us),
            Body::GpuEvents { events } => self.machine.events(seen.at, events),
            Body::Gap { for_ms } => self.ledger.stood_still(seen.at, Duration::from_millis(*for_ms)),
            Body::Tick | Body::End => {
                self.effort += self.model.weight();
                let ended = seen.body == Body::End;
                let faults = self.machine.judge(&self.model, ended, &self.ledger);
                let ledger = &mut self.ledger;
                for fault in faults {
                    let Some(rule) = crate::rules::rule(fault.rule) else { continue };
                    // What is reported is so; only what is looked at again and again has to hold for a while.
                    let (life, times) = (Life { hold: Duration::ZERO, ..rule.life }, fault.count);
                    ledger.saw(seen.at, fault, life, times);
                }
                let unproven = &mut self.unproven;
                self.model.apply_silence(seen.at, |model, text| unproven.judge(model, text, ledger));
                self.unproven.tick(&self.model, &mut self.ledger);
                self.tick(seen.at, ended);
                self.relate(seen.at);
            }
            _ => {}
        }
        self.report(seen.at, out);
        if matches!(seen.body, Body::Tick | Body::End) {
            self.judge(seen.at, out);
        }
    }

    /// Applies what a line of an archived file says, which its source has read already. Takes the events out.
    pub fn read(&mut self, file: u32, line: &ReadLine, events: &mut Vec<TextEvent>) {
        let ledger = &mut self.ledger;
        // What failed is judged when all files are read: only then is its order in time known.
        let judge = |model: &Model, text: &TextSeen| {
            if matches!(text.event.what, What::Step(_) | What::Evaluated { .. } | What::RunStart) {
                lines::judge_line(model, text, ledger);
            }
        };
        let at = self.model.now;
        self.model.apply_events(at, file, events, line, true, &mut { judge });
        self.ledger.forget_changes();
        events.clear();
    }

    /// Hands findings on, and the states that they make.
    fn report(&mut self, at: Stamp, out: &mut Vec<(Stamp, Event)>) {
        if !self.ledger.has_changes() {
            return;
        }
        self.relate(at);
        let changes = self.ledger.take_changes();
        if !changes.is_empty() {
            self.effort += self.model.weight();
            out.extend(changes.into_iter().map(|c| (at, Event::Finding(c))));
            self.judge(at, out);
        }
    }

    /// Gives all findings their roles, and says which of them say nothing new.
    fn relate(&mut self, now: Stamp) {
        self.causes.clear();
        for job in self.ledger.jobs() {
            let model = &self.model;
            let outlived = causality::outlived(model.progress_of(&job).and_then(|p| p.last_step_at));
            let mut findings = self.ledger.of_job(Some(&job));
            lines::complete(model, &job, self.questions.get(&job).map(String::as_str), &mut findings);
            let covered = cover::covered(&findings);
            findings.retain(|f| !covered.contains(&f.no));
            let cause = causality::assign(&mut findings, &outlived, &causality::near(model)).map(|at| findings[at].no);
            cause.map(|no| self.causes.insert(job.clone(), no));
            self.ledger.cover(now, &job, &covered);
        }
        // Errors of GPUs that no job uses have an order, too.
        let mut of_nobody = self.ledger.of_job(None);
        of_nobody.iter_mut().for_each(|f| f.role = f.own_role);
        driver_chain::relate(&mut of_nobody, &|_| false);
    }

    fn tick(&mut self, now: Stamp, ended: bool) {
        self.looks.clear();
        self.close_past_runs(now);
        self.judge_whole_logs(now, ended);
        let model = &self.model;
        for job in model.jobs.values().filter(|j| j.ended_at.is_none() && !j.archived && !model.is_stale(j)) {
            self.looks.insert(job.id.clone(), Look::at(model, job));
        }
        for rule in RULES {
            let Some(check) = rule.on_tick else { continue };
            let mut found = Vec::new();
            check(&TickContext { model, looks: &self.looks, ledger: &self.ledger }, &mut found);
            for mut f in found {
                if rule.chain.is_hang {
                    f.evidence.extend(self.last_words.of_culprit(model, &f));
                }
                self.ledger.saw(now, Finding { witness: Witness::Signals, ..f }, rule.life, 0);
            }
        }
        self.name_writers();
        self.compare_dumps(now, ended);
        self.place_routes();
        self.judge_facts(now, ended);
        // Nobody looks again at what only a log reports.
        let log_only = |job: &String| self.model.jobs.get(job).is_some_and(|j| j.log_only);
        let is_final = |f: &Finding| f.witness.is_text() && f.job.as_ref().is_some_and(log_only);
        self.ledger.settle(now, |f| host_faults::linger_of(f).filter(|_| !is_final(f)));
        let passed = self.counted_at.map_or(Duration::ZERO, |before| now.since(before)).min(MOST_BETWEEN_TICKS);
        self.counted_at = Some(now);
        for (id, look) in &self.looks {
            if let Some(job) = self.model.jobs.get_mut(id) {
                for (rank, seen) in &look.ranks {
                    let runs = seen.alive() && !seen.stopped();
                    job.spent.entry(*rank).or_default().add(runs.then_some(seen.activity), passed);
                }
                match look.waiting_share() {
                    Some(share) => job.lately.add(share, passed),
                    None => job.lately.forget(),
                }
                // A look counts what stands still from later, the more of it was not watched: only what moves is kept.
                job.moved_at = look.moved_at.filter(|at| *at == look.at).or(job.moved_at);
                let working = look.alive().filter(|r| r.activity == Activity::Working).count();
                if working * 2 > look.ranks.len() || look.shared_is(Activity::Working) {
                    job.worked += crate::observe::TICK;
                }
            }
        }
    }

    /// Of a job of which no process is seen, lines may come late or name each other's ranks: they are judged anew, all together, in the
    /// order in which they were written. An archived log is judged when all of it is read.
    fn judge_whole_logs(&mut self, now: Stamp, ended: bool) {
        let model = &self.model;
        for job in model.jobs.values().filter(|j| j.log_only) {
            let record = model.record_of(&job.id);
            let known = self.whole_at.get(&job.id).copied().unwrap_or(0);
            if job.archived && ended {
                lines::judge_archive(model, job, &mut self.ledger);
            } else if !job.archived && record.revision != known && record.alarms.iter().len() <= MOST_JUDGED_ANEW {
                let whole = lines::judge_whole(model, job);
                self.ledger.replace_text(now, &job.id, whole);
                self.whole_at.insert(job.id.clone(), record.revision);
            }
        }
        self.whole_at.retain(|job, _| model.jobs.contains_key(job));
    }

    /// Puts together what NCCL uses, where lines or the topology have changed.
    fn place_routes(&mut self) {
        let model = &self.model;
        let at = (model.bringup_revision, topology::revision(model));
        if self.in_use_at != Some(at) {
            self.in_use_at = Some(at);
            self.in_use = model.jobs.values().map(|job| (job.id.clone(), Arc::new(InUse::of(model, job)))).collect();
        }
    }

    /// All signals of a job that runs, as of the last second.
    pub fn look(&self, job: &str) -> Option<&Look> {
        self.looks.get(job)
    }

    /// Xids that kernel and driver have reported of each GPU while they were watched, by GPU and number.
    pub fn xids(&self) -> &BTreeMap<(u32, u64), u64> {
        self.machine.xids()
    }

    /// What a job uses of the topology, as of the last second.
    pub fn in_use(&self, job: &str) -> Option<&Arc<InUse>> {
        self.in_use.get(job)
    }

    /// Runs the rules on facts where something has come since, or where time alone may change the answer. What they no longer find was
    /// reported too early.
    fn judge_facts(&mut self, now: Stamp, ended: bool) {
        let model = &self.model;
        // A live program that ends knows nothing more of a job that goes on.
        let ended = ended && model.jobs.values().any(|j| j.archived);
        let records = model.records.values().fold(0u64, |sum, r| sum.wrapping_add(r.revision));
        let silent = model.files.values().filter(|f| model.is_silent(f)).count();
        let (bringup, topology) = self.in_use_at.unwrap_or_default();
        let at = FactsAt { bringup, records, dumps: self.dumps_at, topology, silent, ended };
        let waits = model.comms.values().any(|c| c.init_started.len() > c.init_complete.len());
        // A name that does not resolve may do so in the end.
        let waits = waits || self.facts_found.iter().any(crate::rules::may_pass);
        if waits || self.facts_at != Some(at) {
            self.facts_at = Some(at);
            self.facts_found = crate::rules::facts(model, &self.ledger, ended, &self.dumps_found);
            self.facts_found.iter_mut().for_each(|f| lines::place(model, f));
            let question = |id: &String| Some((id.clone(), crate::rules::open_questions(model, model.jobs.get(id)?)?));
            self.questions = model.jobs.keys().filter_map(question).collect();
        }
        for found in &self.facts_found {
            let Some(rule) = crate::rules::rule(found.rule) else { continue };
            let job = found.job.as_ref().and_then(|id| model.jobs.get(id));
            // Of processes that have ended only what was reported once stays.
            let over = job.is_some_and(|j| j.ended_at.is_some()) && rule.life.linger.is_some();
            let weighed = matches!(found.witness, Witness::Watchdogs | Witness::Dumps);
            if over || weighed && job.is_some_and(|j| crate::rules::went_on(model, j, found.witness)) {
                continue;
            }
            self.ledger.saw(now, found.clone(), Life { hold: Duration::ZERO, ..rule.life }, 0);
        }
        let from_facts = |f: &Finding| !f.witness.is_text() && f.witness != Witness::Signals && !f.machine;
        self.ledger.clear_where(now, "it is no longer so", |f| from_facts(f) && f.last_at < now);
    }

    /// What a log reports without naming a rank is of the one rank that ended by itself at that moment.
    fn name_writers(&mut self) {
        const NEAR: Duration = Duration::from_secs(10);
        let by_code = self.ledger.open().into_iter().filter(|f| crate::rules::is_by_exit_code(f) && f.ranks.len() == 1);
        let ended: Vec<Finding> = by_code.cloned().collect();
        for end in ended {
            let is_its = |f: &Finding| {
                let near = f.last_at.since(end.since) <= NEAR && end.since.since(f.last_at) <= NEAR;
                let of_writer = crate::rules::rule(f.rule).is_some_and(|r| r.chain.is_of_its_writer) && f.severity >= Severity::Error;
                near && of_writer && f.role == Role::Root && f.ranks.is_empty() && f.job == end.job
            };
            self.ledger.name(is_its, &end);
        }
    }

    /// Compares Flight Recorder dumps once all of them are there.
    fn compare_dumps(&mut self, now: Stamp, ended: bool) {
        let dumps = &self.model.dumps;
        let settled = || ended || now.since(dumps.changed_at) >= DUMPS_SETTLE || crate::rules::dumps::are_complete(&self.model);
        if self.dumps_at != dumps.revision && settled() {
            self.dumps_at = dumps.revision;
            self.dumps_found = crate::rules::dumps::compare(&self.model);
            crate::base::allocator::give_back();
        }
    }

    /// What was wrong with ranks that were started anew, or with a job that is forgotten, is past.
    fn close_past_runs(&mut self, now: Stamp) {
        let jobs = &self.model.jobs;
        let job_of = |f: &Finding| f.job.as_ref().and_then(|id| jobs.get(id));
        let restarted = |f: &Finding| {
            let at = job_of(f).filter(|j| !j.log_only).and_then(|j| j.restarted_at);
            at.is_some_and(|at| f.last_at <= at)
        };
        self.ledger.clear_where(now, "the ranks were started again", restarted);
        // A warning that a job went on after says what it has lost.
        let is_past = |f: &Finding| f.severity >= Severity::Error || f.rule != crate::rules::STORAGE_FAILED || now.since(f.last_at) > LOST;
        // An error that a job went on after was no failure. Of a log alone that is judged with the whole of it.
        let survived = |f: &Finding| {
            let job = job_of(f).filter(|j| j.ended_at.is_none() && !j.log_only);
            let went_on = job.and_then(|j| self.model.progress_of(&j.id)?.last_step_at).is_some_and(|at| at > f.last_at.plus(SURVIVED));
            let ends = |r: &crate::rules::Rule| r.implies == Implies::Failed || r.implies == Implies::Stuck && r.life.linger.is_none();
            // What the kernel says in its own log is of the machine; in the log of a job it is what somebody printed there.
            let is_printed = || {
                job.is_some_and(|job| {
                    f.evidence
                        .first()
                        .and_then(|e| e.path.as_deref())
                        .is_some_and(|path| self.model.files_of(&job.id).any(|file| file.info.path == path))
                })
            };
            went_on && (!f.machine || is_printed()) && is_past(f) && crate::rules::rule(f.rule).is_some_and(ends)
        };
        self.ledger.clear_where(now, "the job went on", survived);
        // Nobody is late any more in a job that is over; what it hung in is still what there is to know of it.
        let slowed = |f: &Finding| {
            let is_over = job_of(f).is_some_and(|j| j.ended_at.is_some() && !j.archived);
            let of_pace = crate::rules::rule(f.rule).is_some_and(|r| r.implies == Implies::Slow && r.life.linger.is_some());
            is_over && of_pace && f.witness == Witness::Signals
        };
        self.ledger.clear_where(now, "the job ended", slowed);
        let forgotten = |f: &Finding| f.job.as_ref().is_some_and(|id| !jobs.contains_key(id));
        self.ledger.clear_where(now, "its job is gone", forgotten);
        self.ledger.forget_left_out(|job| !jobs.contains_key(job));
    }

    /// Says each job's state where it changed.
    fn judge(&mut self, now: Stamp, out: &mut Vec<(Stamp, Event)>) {
        let known = |id: &str| self.model.jobs.get(id).is_some_and(|j| !j.archived && !self.model.is_stale(j));
        let gone: Vec<String> = self.verdicts.keys().filter(|id| !known(id)).cloned().collect();
        for id in gone {
            self.verdicts.remove(&id);
            self.startups.remove(&id);
        }
        let model = &self.model;
        for job in model.jobs.values().filter(|j| !j.archived && !model.is_stale(j)) {
            let fresh;
            let look = match self.looks.get(&job.id) {
                Some(look) => look,
                None => {
                    fresh = Look::at(model, job);
                    &fresh
                }
            };
            let before = self.verdicts.get(&job.id);
            let verdict = verdict::of_job(model, &self.ledger, job, look, self.causes.get(&job.id).copied(), before);
            // The same state for another reason is news, too: steps are slow, and then it is known who is late.
            let reason = |v: &Verdict| (v.state, v.phase, v.because.as_ref().map(|b| b.0));
            // So is a name before the same words.
            let named = |b: &Verdict| b.summary.len() < verdict.summary.len() && verdict.summary.ends_with(&b.summary);
            // So is another finding of the same rule, where the one before stands no more, or follows from it.
            let is_gone = |b: &Verdict| {
                let is = |f: &Finding| {
                    f.role == Role::Root && b.because.as_ref().is_some_and(|(rule, subject)| f.rule == *rule && f.subject == *subject)
                };
                b.because.is_some() && b.because != verdict.because && !self.ledger.open().into_iter().any(is)
            };
            if before.is_none_or(|b| reason(b) != reason(&verdict) || named(b) || is_gone(b)) {
                self.reported_idle = false;
                let summary = verdict.summary.clone();
                let (state, phase, area) = (verdict.state, verdict.phase, verdict.area);
                out.push((now, Event::State { job: Some(job.id.clone()), state, phase, area, summary }));
            }
            self.startups.entry(job.id.clone()).or_default().note(now, job, &verdict);
            self.story.note(now, &job.id, &verdict);
            self.verdicts.insert(job.id.clone(), verdict);
        }
        self.culprits = Culprits::of(self);
        if self.verdicts.is_empty() && !self.reported_idle {
            self.reported_idle = true;
            out.push((now, Event::State { job: None, state: State::Idle, phase: None, area: None, summary: self.idle_words() }));
        }
    }

    /// States and open findings as events of this moment.
    pub fn present(&self, now: Stamp) -> Vec<(Stamp, Event)> {
        let findings = self.ledger.open().into_iter().map(|f| Event::Finding(Change::Opened(Box::new(f.clone()))));
        let states = self.verdicts.iter().map(|(id, v)| Event::State {
            job: Some(id.clone()),
            state: v.state,
            phase: v.phase,
            area: v.area,
            summary: v.summary.clone(),
        });
        findings.chain(states).map(|e| (now, e)).collect()
    }

    /// The finding that decides the state of a job.
    pub fn deciding(&self, job: &str) -> Option<&Finding> {
        let (rule, subject) = self.verdicts.get(job)?.because.as_ref()?;
        self.ledger.first_open(|f| f.rule == *rule && f.subject == *subject && f.job.as_deref() == Some(job))
    }

    /// The worst of what is open and no mere note, of a job or of the node.
    pub fn worst(&self, job: &str) -> Option<&Finding> {
        self.ledger.first_open(|f| f.severity > Severity::Info && f.job.as_deref().is_none_or(|j| j == job))
    }

    /// The finding that stands below the verdict of a job: what decides it, else what there is to look at.
    pub fn named(&self, job: &str) -> Option<&Finding> {
        self.deciding(job).or_else(|| self.worst(job))
    }

    /// A job that nothing speaks against makes no step for longer than it has shown: worth a look at once, long before a verdict.
    pub fn hesitates(&self, job: &str) -> Option<Quiet> {
        self.verdicts.get(job).filter(|v| v.state == State::Training).and_then(|_| self.model.quiet(job))
    }

    /// The job to show first: the worst of those that run, else the last one that ended.
    pub fn main_job(&self) -> Option<(&str, &Verdict)> {
        self.verdicts.iter().max_by_key(|(id, _)| self.weight_of(id)).map(|(id, v)| (id.as_str(), v))
    }

    /// How much a job matters beside others; the greatest comes first.
    pub fn weight_of(&self, id: &str) -> impl Ord + use<> {
        let job = self.model.jobs.get(id);
        let mine = |f: &Finding| f.job.as_deref() == Some(id) && f.role == Role::Root && f.severity >= Severity::Warning;
        let worst = self.ledger.first_open(mine).map(|f| f.severity);
        let runs = job.is_some_and(|j| j.ended_at.is_none());
        let hesitates = self.hesitates(id).is_some();
        (runs, self.verdicts.get(id).map(|v| v.state), worst, hesitates, job.map(|j| j.first_seen), id.to_owned())
    }

    fn idle_words(&self) -> String {
        format!("no job on this node{}", self.model.left_over_words())
    }

    /// The state of the node: that of its main job.
    pub fn state(&self) -> (State, String) {
        self.main_job().map_or_else(|| (State::Idle, self.idle_words()), |(_, v)| (v.state, v.summary.clone()))
    }
}
