//! Model, rules and ledger put together: observations in, changes out. Live, replay and demo are this with other input.

use crate::findings::{Change, Finding, Ledger, Life, Role, Severity};
use crate::judge::Look;
use crate::machine::{self, Machine};
use crate::model::gpu::Activity;
use crate::model::{Model, TextSeen};
use crate::observe::{Body, Observation};
use crate::rules::{Implies, RULES, TextContext, TickContext};
use crate::tape::Header;
use crate::text::What;
use crate::time::{Stamp, Zone};
use crate::verdict::{self, State, Verdict};
use std::collections::BTreeMap;
use std::time::Duration;

/// A job that makes steps this long after an error has survived it.
const SURVIVED: Duration = Duration::from_secs(5);

/// Ranks write their Flight Recorder dumps within a second or two of each other: so long after the last they are judged.
const DUMPS_SETTLE: Duration = Duration::from_secs(3);

/// Everything known and judged so far.
#[derive(Clone, Default, PartialEq)]
pub struct Session {
    pub model: Model,
    pub ledger: Ledger,
    /// By job id.
    pub verdicts: BTreeMap<String, Verdict>,
    looks: BTreeMap<String, Look>,
    /// What kernel and driver say.
    machine: Machine,
    /// [`Model::bringup_revision`] when the rules on facts were last asked.
    facts_at: u64,
    /// [`Model::dumps`]' revision when they were last judged, and what they say.
    dumps_at: u64,
    dumps_say: Vec<Finding>,
    /// The state last reported without a job.
    reported_idle: bool,
}

/// Runs the rules on text on one event.
pub(crate) fn judge_text(model: &Model, seen: &TextSeen, ledger: &mut Ledger, changes: &mut Vec<Change>) {
    if seen.event.what == What::RunStart {
        let once = |f: &Finding| crate::rules::rule(f.rule).is_some_and(|r| r.life.linger.is_none());
        ledger.clear_where(seen.at, "a new run began", |f| f.job.as_deref() == Some(&seen.job) && once(f), changes);
    }
    if let Some((signature, text)) = (TextContext { model, seen, ledger }).signature()
        && let Some(rule) = crate::rules::rule(signature.rule)
    {
        let found = (TextContext { model, seen, ledger }).signed(rule, signature, &text);
        // A text says it once and for all; only what is looked at again and again has to hold for a while.
        let life = Life { hold: Duration::ZERO, ..rule.life };
        ledger.saw(seen.at, found, life, seen.times, changes);
    }
    let mut found = Vec::new();
    for rule in RULES {
        let Some(check) = rule.on_text else { continue };
        check(&TextContext { model, seen, ledger }, &mut found);
        for f in found.drain(..) {
            ledger.saw(seen.at, f, rule.life, seen.times, changes);
        }
    }
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
        summary: String,
    },
}

impl Session {
    pub fn new(host: &str, zone: Zone) -> Self {
        let mut session = Session::default();
        session.model.host = crate::text::clean::clean(host).into_owned();
        session.model.zone = zone;
        session
    }

    pub fn of_tape(header: &Header) -> Self {
        Session::new(&header.host, header.zone())
    }

    /// Memory of this session, estimated: what keeping it as it is now costs.
    pub fn bytes(&self) -> usize {
        /// Of one sample in a series, and of a process, GPU, communicator or finding with the texts that belong to it.
        const SAMPLE: usize = 16;
        const THING: usize = 2 << 10;
        let model = &self.model;
        let ports = model.ports.values().map(|p| p.tx.len() + p.rx.len());
        let netdevs = model.netdevs.values().map(|n| n.tx.len() + n.rx.len());
        let gpus = model
            .gpus
            .values()
            .map(|g| g.util_pct.len() + g.util_trend.len() + g.sm_trend.len() + g.power_trend.len() + g.nvlink_trend.len());
        let files = model.files.values().map(|f| {
            f.progress.losses.len() + f.progress.step_trend.len() + f.progress.throughput_trend.len() + f.progress.step_times.len()
        });
        let samples: usize = ports.chain(netdevs).chain(gpus).chain(files).sum();
        let members: usize = model.comms.values().map(|c| c.ranks.len() + c.missing.len()).sum();
        let findings = self.ledger.open().len() + self.ledger.past().count();
        let things = model.gpus.len() + model.ports.len() + model.netdevs.len() + model.processes.len() + model.files.len() + findings;
        model.logbook.bytes() + samples * SAMPLE + members * (THING / 8) + model.kernel.len() * (THING / 8) + (1 + things) * THING
    }

    /// Applies one observation; what changed is added to `out`, with its time.
    pub fn apply(&mut self, seen: &Observation, out: &mut Vec<(Stamp, Event)>) {
        let mut changes = Vec::new();
        self.model.apply(seen);
        if matches!(seen.body, Body::Lines(_)) {
            // Whose lines these are is known before anything is said of them: else it is said of the log's name, and again of the job.
            self.model.settle();
        }
        for (from, to) in std::mem::take(&mut self.model.adopted) {
            self.ledger.adopt(&from, &to);
        }
        match &seen.body {
            Body::Lines(lines) => {
                if let Some(file) = self.model.files.get_mut(&lines.file) {
                    file.dropped_lines += lines.dropped_lines;
                    file.folded_alarms += lines.folded_alarms;
                }
                // Line by line, states too, so that it does not matter which lines came together.
                for line in &lines.lines {
                    let ledger = &mut self.ledger;
                    self.model
                        .apply_line(seen.at, lines.file, line, lines.backlog, |model, text| judge_text(model, text, ledger, &mut changes));
                    self.report(seen.at, &mut changes, out);
                }
            }
            Body::Kernel { lines, uptime_us } => self.machine.lines(seen.at, lines, *uptime_us),
            Body::GpuEvents { events } => self.machine.events(seen.at, events),
            Body::Tick | Body::End => {
                let ended = seen.body == Body::End;
                self.machine.judge(&self.model, ended, &mut self.ledger, &mut changes);
                let ledger = &mut self.ledger;
                self.model.apply_silence(seen.at, |model, text| judge_text(model, text, ledger, &mut changes));
                self.tick(seen.at, &mut changes);
            }
            _ => {}
        }
        let ticked = matches!(seen.body, Body::Tick | Body::End);
        self.report(seen.at, &mut changes, out);
        if ticked {
            self.judge(seen.at, out);
        }
    }

    /// Hands findings on, and the states that they make.
    fn report(&mut self, at: Stamp, changes: &mut Vec<Change>, out: &mut Vec<(Stamp, Event)>) {
        if !changes.is_empty() {
            out.extend(changes.drain(..).map(|c| (at, Event::Finding(c))));
            self.judge(at, out);
        }
    }

    fn tick(&mut self, now: Stamp, changes: &mut Vec<Change>) {
        self.looks.clear();
        self.close_past_runs(now, changes);
        let model = &self.model;
        for job in model.jobs.values().filter(|j| j.ended_at.is_none() && !model.is_stale(j)) {
            self.looks.insert(job.id.clone(), Look::at(model, job));
        }
        for rule in RULES {
            let Some(check) = rule.on_tick else { continue };
            let mut found = Vec::new();
            check(&TickContext { model, looks: &self.looks, ledger: &self.ledger }, &mut found);
            for f in found {
                self.ledger.saw(now, f, rule.life, 0, changes);
            }
        }
        // A log may be read later than a death is seen.
        let roots = self.ledger.open().into_iter().filter(|f| f.role == Role::Root && crate::rules::tells_why(f.rule));
        let explained: Vec<Option<String>> = roots.map(|f| f.job.clone()).collect();
        self.ledger.follow(|f| crate::rules::is_by_exit_code(f) && explained.contains(&f.job));
        self.name_writers();
        self.judge_facts(now, changes);
        self.judge_dumps(now, changes);
        self.ledger.settle(now, machine::linger_of, changes);
        for (id, look) in &self.looks {
            if let Some(job) = self.model.jobs.get_mut(id) {
                job.moved_at = look.moved_at;
                let working = look.alive().filter(|r| r.activity == Activity::Working).count();
                if working * 2 > look.ranks.len() {
                    job.worked += crate::feed::TICK;
                }
            }
        }
    }

    /// Runs the rules on facts, where one has come since, or time alone may tell. What they no longer find was told too early.
    fn judge_facts(&mut self, now: Stamp, changes: &mut Vec<Change>) {
        let waits = self.model.comms.values().any(|c| c.init_started.len() > c.init_complete.len());
        if self.facts_at == self.model.bringup_revision && !waits {
            return;
        }
        self.facts_at = self.model.bringup_revision;
        for (rule, f) in crate::rules::facts(&self.model, &self.ledger, false) {
            self.ledger.saw(now, f, rule.life, 0, changes);
        }
        let from_facts = |r: &crate::rules::Rule| r.on_facts.is_some() && (r.on_tick.is_none() || r.life.linger.is_none());
        let of_facts = |f: &Finding| crate::rules::rule(f.rule).is_some_and(from_facts) && f.signature.is_none();
        self.ledger.clear_where(now, "it no longer holds", |f| of_facts(f) && f.last_at < now, changes);
    }

    /// What a log says without naming a rank is of the one rank that ended by itself at that moment.
    fn name_writers(&mut self) {
        const NEAR: Duration = Duration::from_secs(10);
        let by_code = self.ledger.open().into_iter().filter(|f| crate::rules::is_by_exit_code(f) && f.ranks.len() == 1);
        let ended: Vec<Finding> = by_code.map(|f| f.clone()).collect();
        for end in ended {
            let is_its = |f: &Finding| {
                let near = f.last_at.since(end.since) <= NEAR && end.since.since(f.last_at) <= NEAR;
                let told = crate::rules::names_its_rank(f.rule) && f.severity >= Severity::Error;
                near && told && f.role == Role::Root && f.ranks.is_empty() && f.job == end.job
            };
            self.ledger.name(is_its, &end);
        }
    }

    /// Says what Flight Recorder dumps prove, and what only follows from that.
    fn judge_dumps(&mut self, now: Stamp, changes: &mut Vec<Change>) {
        let dumps = &self.model.dumps;
        if dumps.revision == 0 {
            return;
        }
        let settled = || now.since(dumps.changed_at) >= DUMPS_SETTLE || crate::rules::dumps::are_complete(&self.model);
        if self.dumps_at != dumps.revision && settled() {
            self.dumps_at = dumps.revision;
            self.dumps_say = crate::rules::dumps::live(&self.model);
            crate::heap::give_back();
        }
        let model = &self.model;
        let went_on = |job: Option<&str>| job.is_some_and(|job| crate::rules::dumps::went_on(model, job));
        self.ledger.clear_where(now, "the job went on", |f| crate::rules::dumps::is_proven(f) && went_on(f.job.as_deref()), changes);
        let say = &self.dumps_say;
        let still_said = |f: &Finding| say.iter().any(|s| s.rule == f.rule && s.subject == f.subject && s.job == f.job);
        let once = |f: &Finding| crate::rules::rule(f.rule).is_some_and(|r| r.life.linger.is_none());
        let other = |f: &Finding| crate::rules::dumps::is_proven(f) && once(f) && !still_said(f);
        self.ledger.clear_where(now, "more dumps say otherwise", other, changes);
        for found in say {
            let Some(rule) = crate::rules::rule(found.rule) else { continue };
            let Some(job) = found.job.as_ref().and_then(|id| model.jobs.get(id)) else { continue };
            // Of processes that have ended only what was said once stays said.
            let over = job.ended_at.is_some() && rule.life.linger.is_some();
            if over || went_on(found.job.as_deref()) {
                continue;
            }
            let mut found = found.clone();
            // What counters and GPUs have shown of the same, this second.
            let same = |f: &&&Finding| f.rule == rule.id && f.subject == found.subject && f.job == found.job && f.last_at == now;
            let seen = self.ledger.open().iter().find(same).map_or(Vec::new(), |f| f.evidence.clone());
            found.evidence.extend(seen.into_iter().filter(|e| e.kind != "dump"));
            self.ledger.saw(now, found, Life { hold: Duration::ZERO, ..rule.life }, 0, changes);
            crate::rules::dumps::put_in_order(&mut self.ledger, &job.id);
        }
    }

    /// What was wrong with ranks that were started anew, or with a job that is forgotten, is past.
    fn close_past_runs(&mut self, now: Stamp, changes: &mut Vec<Change>) {
        let jobs = &self.model.jobs;
        let restarted = |f: &Finding| {
            let job = f.job.as_ref().and_then(|id| jobs.get(id));
            job.and_then(|j| j.restarted_at).is_some_and(|at| f.last_at <= at)
        };
        self.ledger.clear_where(now, "the ranks were started again", restarted, changes);
        // An error that a job went on after was no failure.
        let survived = |f: &Finding| {
            let job = f.job.as_ref().and_then(|id| jobs.get(id)).filter(|j| j.ended_at.is_none());
            let went_on = job.and_then(|j| self.model.progress_of(&j.id)?.last_step_at).is_some_and(|at| at > f.last_at.plus(SURVIVED));
            let ends = |r: &crate::rules::Rule| r.implies == Implies::Failed || r.implies == Implies::Stuck && r.life.linger.is_none();
            went_on && !f.machine && crate::rules::rule(f.rule).is_some_and(ends)
        };
        self.ledger.clear_where(now, "the job went on", survived, changes);
        let forgotten = |f: &Finding| f.job.as_ref().is_some_and(|id| !jobs.contains_key(id));
        self.ledger.clear_where(now, "its job is no longer known", forgotten, changes);
    }

    /// Says each job's state where it changed.
    fn judge(&mut self, now: Stamp, out: &mut Vec<(Stamp, Event)>) {
        let known = |id: &str| self.model.jobs.get(id).is_some_and(|j| !self.model.is_stale(j));
        let gone: Vec<String> = self.verdicts.keys().filter(|id| !known(id)).cloned().collect();
        for id in gone {
            self.verdicts.remove(&id);
        }
        let model = &self.model;
        for job in model.jobs.values().filter(|j| !model.is_stale(j)) {
            let fresh;
            let look = match self.looks.get(&job.id) {
                Some(look) => look,
                None => {
                    fresh = Look::at(model, job);
                    &fresh
                }
            };
            let before = self.verdicts.get(&job.id);
            let verdict = verdict::of_job(model, &self.ledger, job, look, before);
            // The same state for another reason is news, too: steps are slow, and then it is known who is late.
            let told = |v: &Verdict| (v.state, v.phase, v.because.as_ref().map(|b| b.0));
            // So is a name before the same words.
            let named = |b: &Verdict| b.summary.len() < verdict.summary.len() && verdict.summary.ends_with(&b.summary);
            if before.is_none_or(|b| told(b) != told(&verdict) || named(b)) {
                self.reported_idle = false;
                let summary = verdict.summary.clone();
                out.push((now, Event::State { job: Some(job.id.clone()), state: verdict.state, phase: verdict.phase, summary }));
            }
            self.verdicts.insert(job.id.clone(), verdict);
        }
        if self.verdicts.is_empty() && !self.reported_idle {
            self.reported_idle = true;
            out.push((now, Event::State { job: None, state: State::Idle, phase: None, summary: "no job on this node".into() }));
        }
    }

    /// States and open findings as events of this moment.
    pub fn present(&self, now: Stamp) -> Vec<(Stamp, Event)> {
        let findings = self.ledger.open().into_iter().map(|f| Event::Finding(Change::Opened(Box::new(f.clone()))));
        let states = self.verdicts.iter().map(|(id, v)| Event::State {
            job: Some(id.clone()),
            state: v.state,
            phase: v.phase,
            summary: v.summary.clone(),
        });
        findings.chain(states).map(|e| (now, e)).collect()
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
        (job.is_some_and(|j| j.ended_at.is_none()), self.verdicts.get(id).map(|v| v.state), worst, job.map(|j| j.first_seen))
    }

    /// The state of the node: that of its main job.
    pub fn state(&self) -> (State, String) {
        self.main_job().map_or((State::Idle, "no job on this node".into()), |(_, v)| (v.state, v.summary.clone()))
    }
}
