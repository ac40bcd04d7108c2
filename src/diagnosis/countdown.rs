//! When PyTorch's watchdog will end a job that hangs. Only where its timeout is known: from a line of the log, or from an argument of the job.

use crate::base::time::{Stamp, span};
use crate::model::Model;
use crate::model::job::Job;
use crate::rules::findings::Finding;
use crate::rules::rule;
use std::time::Duration;

/// The watchdog's timeout, for one hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Countdown {
    pub timeout: Duration,
    /// Where it stands: `Timeout(ms)=600000, train.log:12`, `--ddp_timeout 1800`.
    pub source: String,
    /// When the collective that waits reaches it.
    pub ends_at: Stamp,
}

/// Arguments of training programs that become the timeout of `init_process_group`, and the seconds in one of their units.
const ARGUMENTS: &[(&str, u64)] = &[
    // Megatron-LM and those that came of it
    ("--distributed-timeout-minutes", 60),
    // HF Trainer
    ("--ddp_timeout", 1),
    // torchtitan: of the steps after the first
    ("--comm.train_timeout_seconds", 1),
    ("--comm.train-timeout-seconds", 1),
];
/// Without it the watchdog reports a timeout and ends nothing.
const HANDLING: &[&str] = &["TORCH_NCCL_ASYNC_ERROR_HANDLING", "NCCL_ASYNC_ERROR_HANDLING"];

impl Countdown {
    /// `None` where it is no hang, nothing of the job runs here, or its timeout is not known.
    pub fn of(model: &Model, finding: &Finding) -> Option<Countdown> {
        if !rule(finding.rule).is_some_and(|rule| rule.chain.is_hang) {
            return None;
        }
        let job = model.jobs.get(finding.job.as_ref()?).filter(|job| job.ended_at.is_none() && !job.log_only && !job.archived)?;
        let mut ranks = job.ranks.values().filter_map(|pid| model.processes.get(pid));
        if ranks.any(|p| p.env_number(HANDLING) == Some(0)) {
            return None;
        }
        let (timeout, source) = by_log(model, job).or_else(|| by_arguments(model, job))?;
        Some(Countdown { timeout, source, ends_at: finding.since.plus(timeout) })
    }

    /// Seconds until then; less than none afterwards.
    pub fn left_s(&self, now: Stamp) -> i64 {
        (self.ends_at.0 - now.0).div_euclid(1_000_000_000)
    }

    /// `NCCL watchdog ends it in 8 m 20 s (Timeout(ms)=600000, train.log:12)`
    pub fn words(&self, now: Stamp) -> String {
        match now > self.ends_at {
            false => format!("NCCL watchdog ends it in {} ({})", span(self.ends_at.since(now)), self.source),
            true => format!("still alive {} after the NCCL watchdog's timeout ({})", span(now.since(self.ends_at)), self.source),
        }
    }
}

fn by_log(model: &Model, job: &Job) -> Option<(Duration, String)> {
    let said = model.files_of(&job.id).filter_map(|file| file.bringup.watchdog_ms.first()).next()?;
    let path = model.path_of(said.proof.file).rsplit('/').next().unwrap_or_default();
    let line = said.proof.line.map_or(String::new(), |line| format!(":{line}"));
    Some((Duration::from_millis(said.value), format!("Timeout(ms)={}, {path}{line}", said.value)))
}

/// Gloo has no watchdog: a communicator of NCCL must be known.
fn by_arguments(model: &Model, job: &Job) -> Option<(Duration, String)> {
    let by_log = || model.files_of(&job.id).any(|file| !file.comms.is_empty());
    if model.comms_of(job).next().is_none() && !by_log() {
        return None;
    }
    let arguments = &model.processes.get(job.ranks.values().next()?)?.info.cmdline;
    ARGUMENTS.iter().find_map(|(name, unit_s)| {
        let at = arguments.iter().position(|arg| arg.split('=').next() == Some(name))?;
        let value = arguments[at].split_once('=').map(|(_, value)| value).or(arguments.get(at + 1).map(String::as_str))?;
        let n: u64 = value.parse().ok()?;
        Some((Duration::from_secs(n.checked_mul(*unit_s)?), format!("{name} {n}")))
    })
}
