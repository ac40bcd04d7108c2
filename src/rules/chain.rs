//! What a rule's findings are in a chain of failures: what explains what, and who is only a messenger. Read by `diagnosis`.

use crate::base::time::Stamp;
use std::time::Duration;

/// The place of a rule's findings in a chain of causes and consequences.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    pub place: Place,
    /// The findings that follow from one of this rule.
    pub explains: &'static [Explains],
    /// Whether it slows a job down that goes on.
    pub slows: Slows,
    /// Its texts say why a process ended: an end that is known by its exit code alone follows from it.
    pub says_why: bool,
    /// Its texts are of the one rank that prints them.
    pub is_of_its_writer: bool,
    /// A fault of what joins GPUs, which several of them report.
    pub joins_gpus: bool,
    /// From the kernel's log, which keeps lines for weeks.
    pub from_kernel: bool,
    /// It says that what is computed is wrong, which a fault of a GPU's memory may cause, or the program.
    pub is_of_numbers: bool,
    /// What is wrong with the start of a job, which is no fault of the rank that the launcher saw end first.
    pub is_of_the_start: bool,
    /// It says why a job stands that had moved.
    pub is_hang: bool,
    /// Its texts are of a process that waited in vain and will say so in an exception of its own.
    pub says_who_waited: bool,
    /// Where something failed, that explains it, and there is nothing more to say.
    pub yields_to_failure: bool,
    /// Where a finding of one of these rules names one of the same ranks, there is nothing more to say.
    pub covered_by: &'static [&'static str],
}

/// How findings of a rule are weighed against others of the same job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Something failed; the first of all failures is the cause.
    Failure,
    /// What all ranks together show. It explains what messengers say, however late the last of them wrote.
    Judgement,
    /// Somebody waited in vain for somebody else: the cause only if nothing else is known.
    Messenger,
    /// Somebody ended the job. A job that stood is ended in the end: then that it stood is the cause.
    Request,
}

/// What a fault has to do with steps that became longer at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slows {
    Nothing,
    /// Errors, rates and losses are what they are, however much a job sends: it explains what became slow when it began.
    Steps,
    /// The same; but it is known by traffic alone, which changes with the steps, too: what began after them follows from them.
    StepsByTraffic,
}

impl Slows {
    /// Ports are compared over up to half a minute before they are named, over a minute where errors are counted.
    const BEFORE: Duration = Duration::from_secs(60);
    /// How exactly the beginning of either is known.
    const AFTER: Duration = Duration::from_secs(15);

    /// Whether what began at `since` may be why steps are slow since `slow`.
    pub fn explains(self, since: Stamp, slow: Stamp) -> bool {
        self != Slows::Nothing && slow.since(since) <= Self::BEFORE && since.since(slow) <= Self::AFTER
    }

    /// Whether what began at `since` may come of steps that are slow since `slow`.
    pub fn follows(self, since: Stamp, slow: Stamp) -> bool {
        // What comes later has nothing to do with it.
        self == Slows::StepsByTraffic && since.since(slow) > Self::AFTER && since.since(slow) <= Self::BEFORE * 2
    }
}

/// A consequence.
#[derive(Clone, Copy, Debug)]
pub struct Explains {
    pub rule: &'static str,
    /// Only where the cause's ranks are among those of the consequence.
    pub of_its_ranks: bool,
}

impl Chain {
    /// A failure like any other.
    pub const PLAIN: Chain = Chain {
        place: Place::Failure,
        explains: &[],
        slows: Slows::Nothing,
        says_why: false,
        is_of_its_writer: false,
        joins_gpus: false,
        from_kernel: false,
        is_of_numbers: false,
        is_of_the_start: false,
        is_hang: false,
        says_who_waited: false,
        yields_to_failure: false,
        covered_by: &[],
    };

    /// What makes a network slow, and so the steps of a job.
    pub const OF_THE_NETWORK: Chain = Chain {
        explains: &[Explains { rule: "slow-steps", of_its_ranks: false }, Explains { rule: "straggler", of_its_ranks: false }],
        slows: Slows::Steps,
        ..Chain::PLAIN
    };

    /// A judgement of why a job hangs.
    pub const HANG: Chain = Chain { place: Place::Judgement, is_hang: true, ..Chain::PLAIN };

    /// A fault that the kernel reports.
    pub const KERNEL: Chain = Chain { from_kernel: true, ..Chain::PLAIN };

    /// What a rank does not come back from: it is missed because of it.
    pub const ENDS_ITS_RANK: Chain =
        Chain { explains: &[Explains { rule: "hang-rank-absent", of_its_ranks: true }], says_why: true, ..Chain::PLAIN };
}
