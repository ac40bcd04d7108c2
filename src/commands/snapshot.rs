//! `nccl-top snapshot`: observe for a moment, print, exit.

use super::{Env, Outcome, live, name_unread, out};
use crate::findings::Severity;
use crate::session::Session;
use crate::sinks::snapshot;
use crate::time::{Clock, Zone};
use anyhow::Result;
use std::ops::ControlFlow;
use std::time::Duration;

pub fn run(env: &Env, json: bool, wait: Duration, logs: Vec<String>) -> Result<Outcome> {
    let zone = Zone::of_host(Clock::start().now());
    let mut session = Session::new(&env.host(), zone);
    let mut events = Vec::new();
    live::observe(env, env.setup(logs.clone()), None, false, Some(wait), |seen| {
        session.apply(&seen, &mut events);
        events.clear();
        Ok(ControlFlow::Continue(()))
    })?;
    let zone = env.zone(zone);
    if json {
        out(&format!("{:#}\n", snapshot::json(&session, zone)))?;
    } else {
        out(&snapshot::text(&session, zone))?;
    }
    if name_unread(&session, &logs) {
        return Ok(Outcome::CannotJudge);
    }
    let bad = session.ledger.open().iter().any(|f| f.severity >= Severity::Error);
    Ok(if bad { Outcome::Findings } else { Outcome::Clean })
}
