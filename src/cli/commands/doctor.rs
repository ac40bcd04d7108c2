//! `nccl-top doctor`: is this host set up as jobs of NCCL need it?

use super::check::terminal_width;
use super::{Env, Outcome, out};
use crate::archive::Verdict;
use crate::base::time::{Clock, Zone};
use crate::cli::arguments::DoctorArgs;
use crate::diagnosis::session::Session;
use crate::edge;
use crate::observe::{Body, Observation, SourceId, SourceState};
use crate::output::check::text::Style;
use crate::output::doctor::{self, Report};
use crate::rules::host_checks::{self, Group};
use crate::sources::feed::{Feed, channel};
use crate::sources::ras::{self, question::Limits};
use crate::sources::{Hint, RasAddress, SOURCES, SourceSpec};
use crate::tui::theme::Depth;
use anyhow::Result;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Sources that no group can do without: jobs that run, RDMA devices.
const ALWAYS: &[&str] = &["host", "procs", "rdma", "netdev"];
/// Those that only one group asks.
const OF_GROUP: &[(&str, Group)] = &[("nvml", Group::Gpu), ("kmsg", Group::Host)];

pub fn run(env: &Env, args: &DoctorArgs) -> Result<Outcome> {
    let began = Instant::now();
    let groups = if args.only.is_empty() { &Group::ALL[..] } else { &args.only };
    let (session, jobs) = look(env, groups, args.wait)?;
    // It asks every rank about its GPUs.
    let jobs = if groups.contains(&Group::Gpu) { jobs } else { Vec::new() };
    let diagnosed = ras::diagnose(&env.setup(Vec::new()).roots, &jobs, &Limits::default());
    let report = Report {
        host: env.host(),
        machine: host_checks::machine(&session.model),
        checked: host_checks::judge(&session.model, groups),
        diagnosed: diagnosed.into_iter().map(|one| (one.address, one.answer)).collect(),
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    if args.json {
        out(&format!("{:#}\n", doctor::json(&report)))?;
    } else {
        let style = Style { color: env.depth != Depth::None, ascii: env.config.is_ascii(), width: terminal_width() };
        out(&doctor::text(&report, &style, args.all))?;
    }
    Ok(match report.verdict() {
        Verdict::Unknown => Outcome::CannotJudge,
        Verdict::Fail => Outcome::Findings,
        Verdict::Warn if args.strict => Outcome::Findings,
        Verdict::Warn | Verdict::Ok => Outcome::Clean,
    })
}

/// One poll of each source, all at the same time. One that has not answered after `wait` is left to its thread. Also where the jobs have
/// their RAS.
fn look(env: &Env, groups: &[Group], wait: Duration) -> Result<(Session, Vec<RasAddress>)> {
    let is_wanted =
        |spec: &SourceSpec| ALWAYS.contains(&spec.id) || OF_GROUP.iter().any(|(id, group)| *id == spec.id && groups.contains(group));
    let mut session = Session::new(&env.host(), Zone::of_host(Clock::start().now()));
    let mut waiting: Vec<&SourceSpec> = SOURCES.iter().filter(|spec| is_wanted(spec)).collect();
    let (send, mut batches) = channel();
    let mut feed = Feed::new();
    let mut setup = env.setup(Vec::new());
    let jobs = setup.ras_inbox.take().filter(|_| setup.roots.is_live());
    feed.start_some(setup, &send, is_wanted);
    let until = Instant::now() + wait;
    let mut events = Vec::new();
    edge::run(async {
        while !waiting.is_empty() {
            let Ok(Some(batch)) = timeout_at(until, batches.recv()).await else { break };
            // The first poll ends with the source's own state.
            if batch.bodies.iter().any(|body| matches!(body, Body::Source(_))) {
                waiting.retain(|spec| spec.id != batch.from.as_str());
            }
            feed.accept(batch, |seen| session.apply(&seen, &mut events));
        }
        Ok(())
    })?;
    for spec in waiting {
        let why = format!("no answer within {} s", wait.as_secs_f64());
        let body = Body::Source(spec.report(SourceState::Slow, Some(why)));
        session.apply(&Observation { at: feed.now(), host: None, from: SourceId::of(spec.id), body }, &mut events);
    }
    // Puts the processes that were seen together to jobs.
    feed.tick(|seen| session.apply(&seen, &mut events));
    let jobs = jobs.iter().flat_map(|jobs| jobs.try_iter()).last();
    let Some(Hint::RasAddresses(jobs)) = jobs else { return Ok((session, Vec::new())) };
    Ok((session, jobs))
}
