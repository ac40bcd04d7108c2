//! `nccl-top record`: put everything that is seen on a tape, judge nothing.

use super::headless::{self, For};
use super::{Env, Outcome, name_awaited};
use crate::base::time::{Clock, Zone};
use crate::edge::diagnostics::print;
use anyhow::Result;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

pub fn run(env: &Env, output: Option<PathBuf>, duration: Option<Duration>, logs: Vec<String>) -> Result<Outcome> {
    let path = output.unwrap_or_else(|| {
        let now = Clock::start().now();
        let stamp: String = Zone::of_host(now).rfc3339(now).chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
        PathBuf::from(format!("nccl-top-{}-{stamp}.jsonl.gz", env.host()))
    });
    if path.as_os_str() != "-" && io::stderr().is_terminal() {
        print(&format!("recording to {}; Ctrl-C ends it", path.display()));
    }
    name_awaited(&logs);
    headless::observe(env, env.setup(logs), Some(&path), For::Tape, duration, |_, _| Ok(()))?;
    Ok(Outcome::Clean)
}
