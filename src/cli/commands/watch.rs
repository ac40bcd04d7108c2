//! `nccl-top watch`: live, without a screen.

use super::headless::{self, For};
use super::{Env, Outcome, Printer, name_awaited, name_unread};
use crate::base::time::{Clock, Zone};
use crate::diagnosis::session::Session;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

pub fn run(env: &Env, json: bool, output: Option<&Path>, duration: Option<Duration>, logs: Vec<String>) -> Result<Outcome> {
    let zone = Zone::of_host(Clock::start().now());
    name_awaited(&logs);
    let mut session = Session::new(&env.host(), zone);
    let mut printer = Printer { json, zone: env.zone(zone), worst: None };
    let mut events = Vec::new();
    let is_recorded = headless::observe(env, env.setup(logs.clone()), output, For::Reader, duration, |seen, text| {
        session.apply(&seen, &mut events);
        printer.put(&session, &mut events, text);
        Ok(())
    })?;
    Ok(if name_unread(&session, &logs) || !is_recorded { Outcome::CannotJudge } else { printer.outcome() })
}
