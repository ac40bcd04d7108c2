//! The scheduler, the cluster or a person ended the job.

use super::{Check, Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "job-cancelled",
    severity: Severity::Error,
    title: "The scheduler, the cluster or a person ended the job",
    how: "The words of Slurm, Kubernetes, the launcher or the trainer",
    advice: "Nothing in the job is to blame: look at the time limit, the preemption or the node's events",
    life: ONCE,
    implies: Implies::Failed,
    check: Check::Signatures,
};
