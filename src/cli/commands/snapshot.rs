//! `nccl-top snapshot`: observe for a moment, print, exit.

use super::headless::{self, For};
use super::{Env, Outcome, name_unread};
use crate::base::severity::Severity;
use crate::base::time::{Clock, Stamp, Zone};
use crate::diagnosis::session::Session;
use crate::observe::Body;
use crate::output::bundle::{self, Bundle};
use crate::output::snapshot;
use crate::recording::timeline::{Limits, Timeline};
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// Memory for what goes into a bundle.
const KEPT_BYTES: usize = 64 << 20;

pub fn run(env: &Env, json: bool, wait: Duration, bundle: Option<&Path>, logs: Vec<String>) -> Result<Outcome> {
    let zone = Zone::of_host(Clock::start().now());
    let mut session = Session::new(&env.host(), zone);
    let header = env.header();
    let mut timeline = bundle.map(|_| Timeline::new(Limits { depth: Duration::MAX, bytes: KEPT_BYTES }, &session));
    let mut events = Vec::new();
    headless::observe(env, env.setup(logs.clone()), None, For::Result, Some(wait), |seen, text| {
        if let Some(timeline) = &mut timeline {
            timeline.push(&seen, &session);
        }
        session.apply(&seen, &mut events);
        events.clear();
        if seen.body != Body::End {
            return Ok(());
        }
        let zone = env.zone(zone);
        if let (Some(dir), Some(timeline)) = (bundle, &timeline) {
            let kept = timeline.kept(Stamp(i64::MAX));
            let bundle =
                Bundle { header: header.clone(), zone, session: Box::new(session.clone()), kept, stacks: Vec::new(), summary: None };
            bundle::write(dir, &bundle, &mut |_| {}).map_err(|why| anyhow::anyhow!("{}: {why}", dir.display()))?;
        }
        *text = if json {
            format!("{:#}\n", snapshot::json(&session, zone))
        } else {
            snapshot::text(&session, zone, crate::tui::panes::as_text(&session))
        };
        Ok(())
    })?;
    if name_unread(&session, &logs) {
        return Ok(Outcome::CannotJudge);
    }
    let bad = session.ledger.open().iter().any(|f| f.severity >= Severity::Error);
    Ok(if bad { Outcome::Findings } else { Outcome::Clean })
}
