//! An NVLink works, but counts errors all the time.

use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nvlink-errors",
    severity: Severity::Warning,
    title: "The NVLinks of a GPU count errors all the time: what is sent again makes them slower, and they may go down",
    how: "NVML's counters of CRC errors, replays and recoveries (fields 161 to 163) grow at three looks in a row, 45 s apart, by ten or more. \
          A few since the driver was loaded are usual",
    advice: "`nvidia-smi nvlink -e` names the link; compare with the other GPUs. Have the GPU's seat, the baseboard or the cable checked",
    life: while_it_holds(0, 120),
    implies: Implies::Nothing,
    on_tick: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for gpu in ctx.model.gpus.values() {
        let watch = &gpu.watch;
        let counters =
            [("CRC errors", &watch.nvlink_crc_errors), ("replays", &watch.nvlink_replays), ("recoveries", &watch.nvlink_recoveries)];
        let rising: Vec<_> = counters.into_iter().filter_map(|(name, looks)| Some((name, looks.rising(ctx.model.now)?))).collect();
        let Some(since) = rising.iter().map(|(_, r)| r.since).min() else { continue };
        let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {} errors", gpu.index), since);
        let rates: Vec<String> = rising.iter().map(|(what, r)| format!("{:.0} {what}", r.per_min)).collect();
        found.summary = format!("{name}: its NVLinks count {} a minute", rates.join(" and "));
        found.confidence = Confidence::Certain;
        found.why = "the counters grow at every look; each error is data that is sent again".into();
        found.next = Some(format!("nvidia-smi nvlink -e -i {}", gpu.index));
        let grew = |(what, r): &(&str, crate::model::health::Rising)| format!("NVLink {what}: {} -> {}", r.from, r.to);
        found.evidence = vec![Evidence::of("counter", rising.iter().map(grew).collect::<Vec<_>>().join(", "))];
        out.push(found);
    }
}
