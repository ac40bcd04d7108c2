//! The system killed a process because memory ran out.

use super::area::Area;
use super::chain::{Chain, Explains};
use super::{Implies, ONCE, Rule, TickContext};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

/// Whoever was killed for its memory did not just end, and is missed for that reason.
const EXPLAINS: &[Explains] =
    &[Explains { rule: "hang-rank-absent", of_its_ranks: true }, Explains { rule: "rank-exited", of_its_ranks: false }];

pub const RULE: Rule = Rule {
    id: "rank-oom-killed",
    severity: Severity::Critical,
    title: "The system killed a process because memory ran out",
    says: "{was|were} killed because memory ran out",
    how: "The kernel's log, the scheduler's or the container runtime's word. Where the kernel's log may not be read: its count of processes \
          killed for memory rose when a rank vanished, which makes it possible",
    advice: "Host memory, not GPU memory: fewer data-loader workers, less pinned memory, smaller checkpoint staging, or a higher limit for the job",
    life: ONCE,
    implies: Implies::Failed,
    area: Some(Area::Host),
    chain: Chain { explains: EXPLAINS, ..Chain::KERNEL },
    on_tick: Some(check),
    limits: &[&APART],
    ..Rule::PLAIN
};

/// The count is read every few seconds, and a process is missed within one.
const APART: Limit = Limit::seconds(
    "rank-oom-killed",
    "apart",
    15.0,
    "a rank's end and a rise of the kernel's count of kills for memory are at most this far apart",
);
const SIGKILL: i32 = 9;

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let Some(rise) = ctx.model.oom_kills_rose else { return };
    for (id, look) in ctx.looks {
        // The kernel's own word says more.
        if ctx.ledger.open().iter().any(|f| f.rule == RULE.id && f.job.as_deref() == Some(id) && f.signature.is_some()) {
            continue;
        }
        for rank in look.ranks.values() {
            let Some(gone) = rank.gone_at else { continue };
            let by_kill = rank.exit_code.is_none_or(|code| code == -SIGKILL || code == 128 + SIGKILL);
            if !by_kill || gone.since(rise.at).max(rise.at.since(gone)) > APART.duration() {
                continue;
            }
            let mut found = RULE.finding(
                format!("rank {}", rank.rank),
                format!("rank {} (pid {}) may have been killed because host memory ran out", rank.rank, rank.pid),
                gone,
            );
            found.job = Some(id.clone());
            found.ranks = vec![rank.rank];
            found.gpus = rank.gpu.into_iter().collect();
            found.machine = true;
            // That it is gone is another rule's word.
            found.severity = Severity::Warning;
            found.confidence = Confidence::Possible;
            found.why = format!("the kernel killed {} for memory when the rank vanished", processes(rise.after - rise.before));
            found.next = Some("dmesg -T | grep -i -e 'killed process' -e oom-kill".into());
            found.evidence = vec![Evidence {
                path: Some("/proc/vmstat".into()),
                ..Evidence::of("counter", format!("oom_kill {} -> {}", rise.before, rise.after))
            }];
            out.push(found);
        }
    }
}

fn processes(n: u64) -> String {
    if n == 1 { "a process".into() } else { format!("{n} processes") }
}
