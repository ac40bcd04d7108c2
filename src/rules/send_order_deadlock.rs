//! Ranks wait for each other in sends and receives: a circle.

use super::area::Area;
use super::chain::Chain;
use super::collective_mismatch::OTHER_SM_PCT;
use super::hang_rank_absent::{WAITED_ALONE, has_trained, patience, paused_by_name};
use super::{Implies, Rule, Stacks, TickContext, told_by, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::{all_here, so_many};
use crate::base::words::{py_spy, rank_words};
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{Look, RAS_OLD, RankLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "send-order-deadlock",
    severity: Severity::Critical,
    title: "Ranks wait for each other in sends and receives: each sends, or receives, before the other answers it",
    how: "Flight Recorder dumps in which each rank of a circle waits for a call that the next has not made; watchdogs of ranks that all wait in a \
          send; all GPUs of a job at 100 % without moving a byte, where steps went by and no count of RAS changed: the job only sends and receives. \
          Who exchanges with whom (channel lines, communicators of two), and whose kernels are alike, says which two neighbours it can be",
    advice: ADVICE,
    life: while_it_holds(0, 3),
    implies: Implies::Stuck,
    area: Some(Area::Code),
    stacks: Stacks::OfAnyone,
    chain: Chain { covered_by: &["collective-mismatch", "hang-rank-absent"], ..Chain::HANG },
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// NCCL keeps nothing back: a send ends when the other has posted its receive.
pub(super) const ADVICE: &str =
    "one of the two must receive before it sends, or both calls belong into one batch_isend_irecv (ncclGroupStart and ncclGroupEnd)";

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        if !RULE.chain.covered_by.iter().any(|rule| ctx.ledger.is_open(rule, Some(id))) {
            out.extend(judge(job, look));
        }
    }
}

/// Of ranks that all wait, and for nobody else, some wait in a circle.
pub(super) fn judge(job: &Job, look: &Look) -> Option<Finding> {
    let ras = look.ras.as_ref().filter(|r| r.age <= RAS_OLD && r.blind && r.behind.is_empty() && r.missing.is_empty())?;
    let waiting = look.with(Activity::Waiting, patience(look, WAITED_ALONE.duration()));
    let all = waiting.len() == look.alive().count() && waiting.len() >= look.local_ranks.max(2);
    if !all || job.log_only || job.has_ranks_elsewhere() || !look.quiet_log() || !has_trained(look) || paused_by_name(look) {
        return None;
    }
    if look.alive().any(|r| r.stopped() || r.does_io()) {
        return None;
    }
    let circle = circle(look, &waiting)?;
    let since = waiting.iter().map(|r| r.activity_since).max()?;
    let still_for = look.log.as_ref()?.last_step_at?.since(ras.still_since);
    let subject = if circle.ranks.is_empty() { "all".to_owned() } else { rank_words(&circle.ranks) };
    let mut found = RULE.finding(subject, circle.words, since);
    found.job = Some(job.id.clone());
    found.gpus = look.gpus_of(&circle.ranks);
    let exchanged = look.peers.last_exchanges(&circle.ranks);
    found.ranks = circle.ranks;
    found.confidence = Confidence::Possible;
    found.next = waiting.iter().find(|r| circle.first.is_none_or(|first| r.rank == first)).map(|r| py_spy(r.pid));
    found.evidence = vec![
        Evidence::of("gpu", super::spinning(waiting.len(), look.at.since(since))),
        Evidence::of(
            "ras",
            format!("counts equal, and unchanged for {} before the last step: steps have no collective that is counted", span(still_for)),
        ),
    ];
    found.evidence.extend(circle.kernels);
    found.evidence.extend(exchanged);
    told_by(&mut found, look);
    Some(found)
}

/// Who waits for whom, as far as that is known.
struct Circle {
    words: String,
    /// Those of it, if nobody else can be.
    ranks: Vec<u32>,
    /// Whose stack is looked at first.
    first: Option<u32>,
    kernels: Option<Evidence>,
}

/// More pairs than these are no help.
const PAIRS: usize = 3;

/// Where ranks exchange in a chain, only two neighbours can wait for each other. In a closed one, all may, each for the next. Those two wait
/// in kernels that are alike, and mostly for another message than the ranks behind them.
fn circle(look: &Look, waiting: &[&RankLook]) -> Option<Circle> {
    let kinds = kinds(waiting);
    let of_kind = |rank: u32| kinds.iter().find(|kind| kind.ranks.contains(&rank));
    let alike = |a: u32, b: u32| of_kind(a).is_some_and(|kind| kind.ranks.contains(&b));
    let all: Vec<u32> = waiting.iter().map(|r| r.rank).collect();
    if let [a, b] = all[..] {
        // Two that wait in different kernels may not wait for each other. Where kernels are not seen, it may be no send: an AlltoAll or a
        // CUDA graph is not counted either.
        let sends = look.peers.is_known() || waiting.iter().all(|r| r.sm_active_pct.is_some());
        let words = format!("rank {a} and rank {b} wait for each other in sends or receives");
        return (sends && alike(a, b)).then_some(Circle { words, ranks: all, first: None, kernels: None });
    }
    let here = all_here(all.len(), "wait");
    let unknown = || Circle {
        words: format!("{here} in sends or receives, some of them for each other"),
        ranks: Vec::new(),
        first: None,
        kernels: None,
    };
    let Some(chain) = look.peers.chain(all[0]).filter(|chain| *chain == all) else { return Some(unknown()) };
    let closed = all.len() > 2 && look.peers.exchange(chain[0], chain[chain.len() - 1]);
    let pairs = || chain.iter().zip(chain.iter().cycle().skip(1)).take(if closed { chain.len() } else { chain.len() - 1 });
    let pairs_of = |most: usize| -> Vec<[u32; 2]> {
        let few = |rank: u32| of_kind(rank).is_some_and(|kind| kind.ranks.len() <= most);
        pairs().filter(|(a, b)| alike(**a, **b) && few(**a)).map(|(a, b)| [*a.min(b), *a.max(b)]).collect()
    };
    let apart = Some(pairs_of(2)).filter(|pairs| !pairs.is_empty()).unwrap_or_else(|| pairs_of(all.len()));
    if closed && kinds.len() == 1 {
        let words = format!("{here} in sends or receives, in a ring: each for the next, or two neighbours for each other");
        return Some(Circle { words, ..unknown() });
    }
    let sides = kinds.iter().map(|kind| format!("{} on {:.1} %", rank_words(&kind.ranks), kind.sm_pct.unwrap_or(0.0)));
    let kernels =
        (kinds.len() > 1).then(|| Evidence::of("gpu", format!("kernels on shares of the SMs: {}", sides.collect::<Vec<_>>().join(", "))));
    let named = |pair: &[u32; 2]| format!("{} and {}", pair[0], pair[1]);
    let (words, ranks) = match apart.as_slice() {
        [] => return Some(unknown()),
        [one] => (
            format!("{} wait for each other in sends or receives; {} behind them", rank_words(one), so_many(all.len() - 2, "rank", "wait")),
            one.to_vec(),
        ),
        some if some.len() <= PAIRS => {
            let pairs: Vec<String> = some.iter().map(named).collect();
            (format!("{here} in sends or receives, two neighbours for each other: ranks {}", pairs.join(", or ")), Vec::new())
        }
        _ => (format!("{here} in sends or receives, two neighbours of a chain for each other"), Vec::new()),
    };
    Some(Circle { words, ranks, first: Some(apart[0][0]), kernels })
}

/// Ranks whose kernels take the same share of the SMs: the same number of channels.
struct Kind {
    sm_pct: Option<f64>,
    ranks: Vec<u32>,
}

/// Where the share of one rank is not known, all count as alike.
fn kinds(waiting: &[&RankLook]) -> Vec<Kind> {
    let all = || vec![Kind { sm_pct: None, ranks: waiting.iter().map(|r| r.rank).collect() }];
    let shares: Option<Vec<(f64, u32)>> = waiting.iter().map(|r| Some((r.sm_active_pct?, r.rank))).collect();
    let Some(mut shares) = shares else { return all() };
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut kinds: Vec<Kind> = Vec::new();
    for (pct, rank) in shares {
        match kinds.last_mut().filter(|kind| kind.sm_pct.is_some_and(|of| pct - of < OTHER_SM_PCT.value())) {
            Some(kind) => kind.ranks.push(rank),
            None => kinds.push(Kind { sm_pct: Some(pct), ranks: vec![rank] }),
        }
    }
    kinds.iter_mut().for_each(|kind| kind.ranks.sort_unstable());
    kinds
}
