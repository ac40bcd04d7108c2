//! An NVLink or NVSwitch link is down or failing.

use super::area::Area;
use super::chain::Chain;
use super::{Implies, ONCE, Rule, TickContext};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::model::gpu::Gpu;
use crate::model::health::LinkWatch;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nvlink-down",
    severity: Severity::Error,
    title: "An NVLink or NVSwitch link is down or failing",
    says: "{has|have} an NVLink that is down or failing",
    how: "The kernel's log (Xid 74, 136, 149; SXid), CUDA's and NCCL's errors; NVML's state of each link: off, while it was active before or \
          the same link of the other GPUs is",
    advice: "`nvidia-smi nvlink -s` names the link; drain the node, reset its GPUs, look at fabric manager and cables",
    life: ONCE,
    implies: Implies::Failed,
    area: Some(Area::Nvlink),
    chain: Chain { joins_gpus: true, ..Chain::KERNEL },
    on_tick: Some(check),
    limits: &[&LASTS],
    ..Rule::PLAIN
};

/// Links are looked at every 15 s: it was down at two looks.
const LASTS: Limit = Limit::seconds("nvlink-down", "after", 16.0, "links must have been down this long; they are looked at every 15 s");

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for gpu in ctx.model.gpus.values().filter(|g| g.info.mig != Some(true) && g.trouble.is_none()) {
        let down: Vec<(usize, &LinkWatch)> =
            gpu.watch.links.iter().enumerate().filter(|(no, link)| is_wrong(ctx, gpu, *no, link)).collect();
        let Some(since) = down.iter().map(|(_, link)| link.since).min() else { continue };
        let told = ctx.told_already(RULE.id, gpu.index);
        if told.is_none() && ctx.model.now.since(since) < LASTS.duration() {
            continue;
        }
        let subject = told.unwrap_or_else(|| format!("GPU {} links", gpu.index));
        let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, subject, since);
        let up = gpu.watch.links.iter().filter(|link| link.is_up()).count();
        let numbers = numbers(&down.iter().map(|(no, _)| *no).collect::<Vec<_>>());
        found.summary = format!("{name}: NVLink {numbers} down, {up} of {} active", gpu.watch.links.len());
        found.confidence = Confidence::Certain;
        let was_up = down.iter().filter(|(_, link)| link.was_up).count();
        found.why = match was_up {
            0 => "off since nccl-top began, while the same links of the other GPUs are active".into(),
            _ => format!("{was_up} went down while watched, for {} now", span(ctx.model.now.since(since))),
        };
        found.next = Some(format!("nvidia-smi nvlink -s -i {}; dmesg -T | grep -i -E 'xid|nvlink' | tail", gpu.index));
        found.evidence =
            vec![Evidence::of("counter", format!("NVML field 165, state of link {numbers}: {}0", if was_up > 0 { "1 -> " } else { "" }))];
        out.push(found);
    }
}

/// Off, though it was on, or though it is on at nearly all other GPUs: some machines have GPUs with fewer links.
fn is_wrong(ctx: &TickContext, gpu: &Gpu, no: usize, link: &LinkWatch) -> bool {
    let others = || ctx.model.gpus.values().filter(|g| g.index != gpu.index).filter_map(|g| g.watch.links.get(no));
    let (up, all) = (others().filter(|l| l.is_up()).count(), others().count());
    link.is_down() && (link.was_up || (all > 0 && up * 4 >= all * 3))
}

/// `3`, `3 and 7`, `0-17`
fn numbers(links: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &no in links {
        match ranges.last_mut() {
            Some(range) if range.1 + 1 == no => range.1 = no,
            _ => ranges.push((no, no)),
        }
    }
    let words: Vec<String> = ranges.iter().map(|(from, to)| if from == to { from.to_string() } else { format!("{from}-{to}") }).collect();
    words.join(", ")
}
