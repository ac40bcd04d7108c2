//! `nccl-top export`: what this node shows, or a recording does, as metrics for Prometheus.

use super::headless::{self, For};
use super::{Env, Outcome, name_awaited};
use crate::base::time::{Clock, Stamp, Zone};
use crate::cli::arguments::{Beside, EXPORT_ADDRESS, ExportArgs, Speed};
use crate::diagnosis::session::Session;
use crate::edge::diagnostics::{complain, print};
use crate::edge::{self, Signals};
use crate::export::own::Own;
use crate::export::{Exporter, Options, history::History};
use crate::observe::Body;
use crate::recording::tape;
use crate::recording::without::filter;
use crate::sources::Setup;
use anyhow::{Context as _, Result};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

pub fn run(env: &Env, args: ExportArgs) -> Result<Outcome> {
    match (&args.replay, &args.openmetrics_file) {
        (Some(tape), Some(file)) => history(env, tape, file, &args),
        (Some(tape), None) => replay(env, tape, &args),
        (None, _) => live(env, args),
    }
}

/// An exporter beside the screen or `watch`, where one is asked for.
///
/// # Errors
/// As [`Exporter::start`].
pub fn beside(setup: &Setup, beside: Beside, tell: fn(&str)) -> Result<Option<Exporter>> {
    let Beside { export, web_config } = beside;
    let start = |listen| {
        Exporter::start(
            &Options { listen: Some(listen), web_config, textfile: None, tell },
            Own::new(setup.roots.clone(), setup.polls.clone()),
        )
    };
    export.map(start).transpose()
}

fn options(args: &ExportArgs) -> Options {
    let usual = || args.textfile.is_none().then(|| EXPORT_ADDRESS.to_owned());
    Options {
        listen: args.listen.clone().or_else(usual),
        web_config: args.web_config.clone(),
        textfile: args.textfile.clone(),
        tell: complain,
    }
}

fn live(env: &Env, args: ExportArgs) -> Result<Outcome> {
    let zone = Zone::of_host(Clock::start().now());
    let setup = env.setup(args.logs.clone());
    let mut exporter = Exporter::start(&options(&args), Own::new(setup.roots.clone(), setup.polls.clone()))?;
    name_awaited(&args.logs);
    let mut session = Session::new(&env.host(), zone);
    let mut events = Vec::new();
    headless::observe(env, setup, None, For::Result, None, |seen, _| {
        session.apply(&seen, &mut events);
        events.clear();
        if seen.body == Body::Tick {
            exporter.publish(&session);
        }
        Ok(())
    })?;
    Ok(Outcome::Clean)
}

/// Goes through a tape at its own pace or another, and shows its last moment until a signal comes.
fn replay(env: &Env, tape: &Path, args: &ExportArgs) -> Result<Outcome> {
    let mut reader = tape::Reader::open(tape)?;
    let mut exporter = Exporter::start(&options(args), Own::unknown())?;
    let mut session = reader.header().session();
    let clock = Clock::start();
    let speed = match args.speed {
        Some(Speed::Max) => None,
        Some(Speed::Times(n)) => Some(n),
        None => Some(1.0),
    };
    edge::run(async {
        let mut signals = Signals::of(&edge::ending())?;
        let (began, mut first, mut events) = (Instant::now(), None, Vec::new());
        while let Some(seen) = reader.read()? {
            let offset = seen.at.since(*first.get_or_insert(seen.at));
            let Some(seen) = filter(seen, &env.without) else { continue };
            if let Some(due) = speed.and_then(|speed| Duration::try_from_secs_f64(offset.as_secs_f64() / speed).ok()) {
                tokio::select! {
                    biased;
                    _ = signals.next() => return Ok(()),
                    () = sleep_until(began + due) => {}
                }
            }
            session.apply(&seen, &mut events);
            events.clear();
            reader.afford(session.effort)?;
            if seen.body == Body::Tick && speed.is_some() {
                exporter.publish_as_of(&session, clock.now());
            }
        }
        exporter.publish_as_of(&session, clock.now());
        print(&format!("{}: that was all of it; its last moment is served until Ctrl-C", tape.display()));
        signals.next().await;
        Ok(())
    })?;
    Ok(Outcome::Clean)
}

/// Writes all of a tape at once, with time stamps.
fn history(env: &Env, tape: &Path, file: &Path, args: &ExportArgs) -> Result<Outcome> {
    let mut reader = tape::Reader::open(tape)?;
    let mut session = reader.header().session();
    let (mut history, mut events) = (History::new(args.label.clone()), Vec::new());
    let mut next = Stamp::default();
    while let Some(seen) = reader.read()? {
        let Some(seen) = filter(seen, &env.without) else { continue };
        session.apply(&seen, &mut events);
        events.clear();
        reader.afford(session.effort)?;
        if seen.body == Body::Tick && seen.at >= next {
            next = seen.at.plus(args.every);
            history.add(&session);
        }
    }
    anyhow::ensure!(!history.is_empty(), "{}: the tape holds no second of observation", tape.display());
    let created = edge::private::create(file);
    created.and_then(|file| history.write(file)).with_context(|| file.display().to_string())?;
    Ok(Outcome::Clean)
}
