//! A GPU's PCIe link is slower than it could be.

use super::area::Area;
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::Stamp;
use crate::model::gpu::Gpu;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "pcie-degraded",
    severity: Severity::Warning,
    title: "The PCIe link of a GPU is narrower or slower than that of the others, or keeps replaying packets",
    says: "{has|have} a PCIe link that is narrower or slower than those of the others",
    how: "NVML's link width below its maximum, or generation below it while the GPU works (at rest it is lowered to save power), and another \
          GPU of the node has more; the replay counter grows at three looks in a row. Where all GPUs have the same link it is the machine's design",
    advice: "Copies from and to the host and GPUDirect RDMA take longer on this GPU, and the others wait. Have it reseated, or the riser replaced",
    life: while_it_holds(5, 30),
    implies: Implies::Nothing,
    area: Some(Area::Host),
    on_tick: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for gpu in ctx.model.gpus.values().filter(|g| g.trouble.is_none()) {
        let wrong: Vec<(Stamp, String, String)> =
            [width(ctx, gpu), generation(ctx, gpu), replays(ctx, gpu)].into_iter().flatten().collect();
        let Some(since) = wrong.iter().map(|(since, ..)| *since).min() else { continue };
        let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {} PCIe", gpu.index), since);
        let all = |which: fn(&(Stamp, String, String)) -> &str| wrong.iter().map(which).collect::<Vec<_>>().join(", ");
        found.summary = format!("{name}: PCIe {}", all(|w| &w.1));
        found.confidence = Confidence::Certain;
        found.why = "less is copied per second than at the other GPUs of this node".into();
        let address = gpu.info.bus_id.as_deref().unwrap_or("BUSID");
        found.next = Some(format!("lspci -vv -s {address} | grep -E 'LnkCap|LnkSta'; dmesg -T | grep -i -e aer -e pcieport | tail"));
        found.evidence = vec![Evidence::of("counter", all(|w| &w.2))];
        out.push(found);
    }
}

fn others<'a>(ctx: &'a TickContext, gpu: &'a Gpu) -> impl Iterator<Item = &'a Gpu> {
    ctx.model.gpus.values().filter(|g| g.index != gpu.index)
}

fn width(ctx: &TickContext, gpu: &Gpu) -> Option<(Stamp, String, String)> {
    let now = gpu.watch.pcie_width?;
    let most = gpu.health.as_ref()?.pcie_width_max.filter(|most| now.value < *most)?;
    let best = others(ctx, gpu).filter_map(|g| Some(g.watch.pcie_width?.value)).max().filter(|best| *best > now.value)?;
    let text = format!("x{} instead of x{most}", now.value);
    Some((now.since, text, format!("link width {} of {most}, others {best}", now.value)))
}

fn generation(ctx: &TickContext, gpu: &Gpu) -> Option<(Stamp, String, String)> {
    let now = gpu.watch.pcie_at_work?;
    let most = gpu.health.as_ref()?.pcie_gen_max.filter(|most| now.generation < *most)?;
    let best = others(ctx, gpu).filter_map(|g| Some(g.watch.pcie_at_work?.generation)).max().filter(|best| *best > now.generation)?;
    let text = format!("generation {} instead of {most} at work", now.generation);
    Some((now.since, text, format!("link generation {} of {most} at work, others {best}", now.generation)))
}

fn replays(ctx: &TickContext, gpu: &Gpu) -> Option<(Stamp, String, String)> {
    let rise = gpu.watch.pcie_replays.rising(ctx.model.now)?;
    Some((rise.since, format!("replays {:.0} packets a minute", rise.per_min), format!("replays {} -> {}", rise.from, rise.to)))
}
