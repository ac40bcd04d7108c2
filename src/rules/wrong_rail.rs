//! A GPU talks to the network through a NIC that is far from it, though one that is near to it is up.

use super::area::Area;
use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::{Confidence, Severity};
use crate::base::units::counted;
use crate::model::port::Port;
use crate::model::topology::Topology;
use crate::model::topology::used::{NetUse, Used};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "wrong-rail",
    severity: Severity::Warning,
    title: "GPUs use NICs that are far from them, though nearer ones are up",
    how: "NCCL's channel lines (`via NET/…/N`) against the PCI tree: the NIC is beyond the host bridge, and one of those that NCCL lists is below a \
          switch of the GPU's. Nothing is said in a flat tree, where the user chose NICs (NCCL_IB_HCA, NCCL_GRAPH_FILE, NCCL_NET_FORCE_MERGE, or NCCL_CROSS_NIC=0 \
          without PXN), or where data leaves through another GPU (PXN)",
    advice: "Look at what NCCL knows of the topology (NCCL_TOPO_DUMP_FILE), at NCCL_TOPO_FILE, NCCL_CROSS_NIC and NCCL_NETDEVS_POLICY, and whether the \
             order of GPUs was changed (CUDA_VISIBLE_DEVICES); `nccl-top topo` shows GPU by GPU what is near",
    life: ONCE,
    implies: Implies::Nothing,
    area: Some(Area::Network),
    on_facts: Some(check),
    ..Rule::PLAIN
};

/// So many are named one by one.
const NAMED: usize = 8;

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    let topology = Topology::of(ctx.model);
    if topology.is_flat() {
        return;
    }
    for (job, bringup) in &ctx.bringups {
        let used = Used::of(ctx.model, job, bringup);
        if used.chosen_by.is_some() || used.of_another_host {
            continue;
        }
        let far: Vec<(u32, &str, &NetUse, &str)> = used
            .nets
            .iter()
            .filter_map(|((gpu, device), net)| {
                let (nearer, _) = used.nearer(ctx.model, &topology, *gpu, device).filter(|(nearer, _)| used.listed.contains(*nearer))?;
                Some((*gpu, device.as_str(), net, nearer))
            })
            .collect();
        let Some((gpu, device, _, nearer)) = far.first() else { continue };
        let gpus: std::collections::BTreeSet<u32> = far.iter().map(|(gpu, ..)| *gpu).collect();
        let others = if gpus.len() > 1 { format!(", and so do {}", counted(gpus.len() as u64 - 1, "other GPU")) } else { String::new() };
        let summary = format!("GPU {gpu} uses {device}, which is far from it, though {nearer} is near and up{others}");
        let mut found = RULE.finding("far NICs", summary, ctx.model.now);
        found.job = Some(job.id.clone());
        found.confidence = Confidence::Certain;
        found.why = "data crosses the host bridge, where GPUDirect RDMA is slow or off, and shares the link between CPUs".into();
        found.next = Some("nccl-top topo".into());
        found.gpus = gpus.into_iter().collect();
        let ports = |device: &str| ctx.model.ports.values().filter(|port| port.info.device == device).map(Port::name).collect::<Vec<_>>();
        found.ports = far.iter().flat_map(|(_, device, ..)| ports(device)).collect();
        found.evidence = far
            .iter()
            .take(NAMED)
            .map(|(gpu, device, net, nearer)| {
                let label = |device: &str| topology.gpu_to_nic(*gpu, device).map_or("?".into(), |distance| distance.label());
                let transports: Vec<&str> = net.transports.keys().map(String::as_str).collect();
                let lines = counted(net.sends + net.receives, "channel line");
                let (far, near) = (label(device), label(nearer));
                let words = format!("GPU {gpu}: {lines} via {} over {device} ({far}); {nearer} is at {near}", transports.join(" and "));
                let Some(proof) = &net.proof else { return Evidence::of("line", words) };
                let quoted = proof.text.find("Channel ").map_or(&*proof.text, |at| &proof.text[at..]);
                let words = format!("{words}; the first: {quoted}");
                Evidence::line(ctx.model.path_of(proof.file), proof.line, &words, proof.at)
            })
            .collect();
        out.push(found);
    }
}
