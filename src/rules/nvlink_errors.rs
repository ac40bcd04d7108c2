//! An NVLink works, but counts errors all the time.

use super::area::Area;
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::model::gpu::Gpu;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nvlink-errors",
    severity: Severity::Warning,
    title: "The NVLinks of a GPU keep counting errors: retransmissions slow them down, and the links may fail",
    says: "{keeps|keep} counting errors of NVLinks",
    how: "NVML's counters of CRC errors, replays and recoveries (fields 161 to 163) grow at three looks in a row, 45 s apart, by ten or more; or \
          links recover again and again over hours, at least three times 20 minutes apart. A few since the driver was loaded are usual",
    advice: "`nvidia-smi nvlink -e` names the link; compare with the other GPUs. Have the GPU's seat, the baseboard or the cable checked",
    life: while_it_holds(0, 120),
    implies: Implies::Nothing,
    area: Some(Area::Nvlink),
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// Of a GPU whose links all count, the first show it.
const LINKS_SHOWN: usize = 6;

/// `its link 5` where only one has counted, else all.
fn links(gpu: &Gpu) -> String {
    let mut numbers: Vec<usize> = gpu.nvlinks.grown().map(|(no, ..)| no).collect();
    numbers.dedup();
    match numbers[..] {
        [only] => format!("NVLink {only}"),
        _ => "its NVLinks".into(),
    }
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for gpu in ctx.model.gpus.values() {
        let watch = &gpu.watch;
        let counters =
            [("CRC errors", &watch.nvlink_crc_errors), ("replays", &watch.nvlink_replays), ("recoveries", &watch.nvlink_recoveries)];
        let rising: Vec<_> = counters.into_iter().filter_map(|(name, looks)| Some((name, looks.rising(ctx.model.now)?))).collect();
        let chronic = watch.nvlink_recovered.chronic(ctx.model.now);
        let since = rising.iter().map(|(_, r)| r.since).chain(chronic.map(|(_, r)| r.since)).min();
        let Some(since) = since else { continue };
        let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {} errors", gpu.index), since);
        let links = links(gpu);
        match chronic.filter(|_| rising.is_empty()) {
            Some((times, _)) => {
                let within = span(ctx.model.now.since(since));
                found.summary = format!("{name}: {links} had to recover {times} times in {within}");
                found.why =
                    "a healthy link is not trained again while it is used; one that is, and again, fails in the end (Xid 74, 149)".into();
            }
            None => {
                let rates: Vec<String> = rising.iter().map(|(what, r)| format!("{:.0} {what}", r.per_min)).collect();
                found.summary =
                    format!("{name}: {links} count{} {} a minute", if links.starts_with("its") { "" } else { "s" }, rates.join(" and "));
                found.why = "the counters grow at every look; each error is data that is sent again".into();
            }
        }
        found.confidence = Confidence::Certain;
        found.next = Some(format!("nvidia-smi nvlink -e -i {}", gpu.index));
        let rose = rising.iter().copied().chain(chronic.map(|(_, r)| ("recoveries", r)).filter(|_| rising.is_empty()));
        let grew = rose.map(|(what, r)| format!("NVLink {what}: {} -> {}", r.from, r.to)).collect::<Vec<_>>().join(", ");
        found.evidence = vec![Evidence::of("counter", grew)];
        found.evidence.extend(
            gpu.nvlinks
                .grown()
                .take(LINKS_SHOWN)
                .map(|(no, what, by, is)| Evidence::of("counter", format!("link {no}: {what} {} -> {is}", is - by))),
        );
        out.push(found);
    }
}
