//! `nccl-top topo`: how GPUs and NICs are joined, and what NCCL uses of it.

use super::headless::{self, For};
use super::{Env, Outcome, name_unread};
use crate::base::time::{Clock, Zone};
use crate::diagnosis::session::Session;
use crate::edge::diagnostics::complain;
use crate::observe::{Body, Observation, SourceId};
use crate::output::topology;
use crate::sources::nvml;
use crate::tui::theme::Depth;
use anyhow::Result;
use std::time::Duration;

/// Sources answer a part of what they are asked in each poll: 16 GPUs need 30 of them.
const INTERVAL: Duration = Duration::from_millis(100);
/// How long is waited for NVML, and for files alone.
const WAIT: Duration = Duration::from_secs(3);
const WAIT_FOR_FILES: Duration = Duration::from_secs(1);

pub fn run(env: &Env, json: bool, wait: Option<Duration>, logs: Vec<String>) -> Result<Outcome> {
    let zone = Zone::of_host(Clock::start().now());
    let mut session = Session::new(&env.host(), zone);
    let mut setup = env.setup(logs.clone());
    setup.interval = setup.interval.min(INTERVAL);
    setup.whole_logs = !logs.is_empty();
    let wait = wait.unwrap_or(if env.roots.is_live() { WAIT } else { WAIT_FOR_FILES });
    let mut events = Vec::new();
    headless::observe(env, setup, None, For::Result, Some(wait), |seen, text| {
        let is_end = seen.body == Body::End;
        if is_end && session.model.gpus.is_empty() {
            // Without NVML the PCI tree shows that they are there.
            for body in nvml::from_pci(&env.roots) {
                session.apply(&Observation { at: seen.at, host: None, from: SourceId::of("nvml"), body }, &mut events);
            }
        }
        session.apply(&seen, &mut events);
        events.clear();
        if is_end && !topology::is_empty(&session) {
            *text = if json {
                format!("{:#}\n", topology::json(&session, env.zone(zone)))
            } else {
                topology::text(&session, env.depth != Depth::None)
            };
        }
        Ok(())
    })?;
    let unread = name_unread(&session, &logs);
    if topology::is_empty(&session) {
        complain("no GPU and no RDMA device is seen, by NVML or below /sys, and no log has channel lines of NCCL");
        for id in ["nvml", "rdma"] {
            if let Some(why) = session.model.sources.get(&SourceId::of(id)).and_then(|source| source.detail.as_deref()) {
                complain(&format!("{id}: {why}"));
            }
        }
        return Ok(Outcome::CannotJudge);
    }
    Ok(if unread { Outcome::CannotJudge } else { Outcome::Clean })
}
