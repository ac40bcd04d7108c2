//! `nccl-top watch`: live, without a screen.

use super::headless::{self, For};
use super::{Env, Outcome, Printer, export, name_awaited, name_unread};
use crate::base::time::{Clock, Zone};
use crate::cli::arguments::Beside;
use crate::diagnosis::session::Session;
use crate::edge::courier::Courier;
use crate::edge::diagnostics::complain;
use crate::observe::Body;
use crate::output::alert::Alerts;
use anyhow::Result;
use std::path::Path;
use std::time::Duration;

/// How long the end waits for an alert that is under way.
const LAST_ALERT: Duration = Duration::from_secs(5);

pub fn run(env: &Env, json: bool, output: Option<&Path>, duration: Option<Duration>, beside: Beside, logs: Vec<String>) -> Result<Outcome> {
    let zone = Zone::of_host(Clock::start().now());
    name_awaited(&logs);
    let mut session = Session::new(&env.host(), zone);
    let mut printer = Printer { json, zone: env.zone(zone), worst: None };
    let mut events = Vec::new();
    let setup = env.setup(logs.clone());
    let mut exporter = export::beside(&setup, beside, complain)?;
    let mut alerts = Alerts::default();
    let mut courier = Courier::new(|delivered| {
        if let Err(why) = delivered {
            complain(&why);
        }
    });
    let is_recorded = headless::observe(env, setup, output, For::Reader, duration, |seen, text| {
        session.apply(&seen, &mut events);
        if let (Some(exporter), Body::Tick) = (&mut exporter, &seen.body) {
            exporter.publish(&session);
        }
        printer.put(&session, &mut events, text);
        let config = &env.config;
        if seen.body == Body::Tick && !config.routes.is_off() {
            let due = alerts.due(&session, printer.zone, config.alert_every, |_| false);
            due.into_iter().for_each(|message| courier.send(config.routes.clone(), message));
        }
        Ok(())
    })?;
    courier.wait(LAST_ALERT);
    Ok(if name_unread(&session, &logs) || !is_recorded { Outcome::CannotJudge } else { printer.outcome() })
}
