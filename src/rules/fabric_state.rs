//! The NVLink fabric is not there, reports that it is ill, or ends between GPUs that it should join.

use super::area::Area;
use super::{FactContext, Implies, Rule, TickContext, host_checks, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::counted;
use crate::base::words::{gpu_words, rank_words};
use crate::model::Model;
use crate::model::bringup::Bringup;
use crate::model::bringup::trouble::{Facts, trouble};
use crate::model::gpu::{Activity, Gpu};
use crate::model::job::Job;
use crate::observe::evidence::Evidence;
use crate::observe::gpu::Fabric;
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};

pub const RULE: Rule = Rule {
    id: "fabric-state",
    severity: Severity::Warning,
    title: "GPUs are not part of the NVLink fabric, the fabric reports a fault, or IMEX is missing between hosts that it joins",
    how: "nvmlDeviceGetGpuFabricInfoV: state 1 (not started) or 2 (in progress) for a long time while nothing runs on the GPU; a registration that ended \
          with an error; bits of the health mask; GPUs of one host in different clusters or cliques. The same from NCCL's lines `MNNVL busId …` where \
          NVML shows nothing. IMEX (channels in /dev, the daemon, its list of nodes) where NCCL uses NVLink between hosts, or could. H100 and H200 \
          report neither a mask nor a cluster: that is fine",
    advice: "`systemctl status nvidia-fabricmanager` (on GB200 nvidia-imex, too); its version must be that of the driver. Without it CUDA fails with \
             error 802, \"system not yet initialized\". NCCL goes over the network, and prints no WARN, where one rank's GPU is not in the clique",
    life: while_it_holds(0, 60),
    implies: Implies::Nothing,
    area: Some(Area::Nvlink),
    limits: &[&AFTER],
    on_tick: Some(check),
    on_facts: Some(check_lines),
    ..Rule::PLAIN
};

const AFTER: Limit = Limit::seconds("fabric-state", "after", 60.0, "a fabric that has not come up for so long is stuck");

/// Bits of the health mask where 1 means yes, and 0 that it is not supported: nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_*.
const ILL: &[(u32, &str)] = &[
    (0, "bandwidth is degraded"),
    (2, "routes are being recovered"),
    (4, "routes are unhealthy"),
    (6, "accesses have timed out and are being recovered"),
];
/// Four bits from here: 0 not supported, 1 none, else what is wrong.
const CONFIGURATION: u32 = 8;

/// healthSummary of nvml.h.
const SUMMARY: &[(u32, &str)] = &[(2, "it is unhealthy"), (3, "its capacity is limited")];
const COMPLETED: u32 = 3;

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    // Why it has not come up is one finding.
    let is_named = ctx.ledger.is_open(super::host_setup::FABRIC_MANAGER.id, None);
    out.extend(not_up(ctx.model).filter(|_| !is_named));
    ctx.model.gpus.values().for_each(|gpu| out.extend(ill(ctx, gpu)));
    out.extend(split(ctx.model));
    // Putting together what all logs say takes time: only where there is something to miss.
    if let Some(missing) = imex_missing(ctx.model) {
        out.extend(ctx.model.jobs.values().filter_map(|job| without_imex(ctx.model, job, &missing)));
    }
}

/// GPUs that wait for the fabric to come up.
fn not_up(model: &Model) -> Option<Finding> {
    let waits = |gpu: &&Gpu| {
        let held = gpu.watch.fabric_state.filter(|held| matches!(held.value, 1 | 2));
        // CUDA cannot begin on such a GPU: where it works, the state means something else.
        let rests = gpu.processes.is_empty() && !matches!(gpu.activity, Activity::Working | Activity::Waiting);
        rests && held.is_some_and(|held| model.now.since(model.watched(held.since)) >= AFTER.duration())
    };
    let stuck: Vec<&Gpu> = model.gpus.values().filter(waits).collect();
    let held = stuck.iter().filter_map(|g| g.watch.fabric_state).min_by_key(|held| held.since)?;
    let word = if held.value == 1 { "not started" } else { "in progress" };
    let are = if stuck.len() == 1 { "is" } else { "are" };
    let summary = format!("the NVSwitch fabric has not come up: {} {are} not part of it ({word})", counted(stuck.len(), "GPU"));
    let mut found = RULE.finding("fabric", summary, held.since);
    found.why = format!("so for {}; CUDA fails with error 802 until it has", span(model.now.since(held.since)));
    found.confidence = Confidence::Certain;
    found.gpus = stuck.iter().map(|g| g.index).collect();
    found.next = Some("systemctl status nvidia-fabricmanager nvidia-imex; nvidia-smi -q | grep -A4 Fabric".into());
    found.evidence = vec![Evidence::of("gpu", format!("NVML fabric state {} ({word})", held.value))];
    Some(found)
}

/// What the bits of a health mask complain of.
fn complaints(mask: u32) -> Vec<String> {
    let mut ill: Vec<String> = ILL.iter().filter(|(shift, _)| mask >> shift & 3 == 1).map(|(_, words)| (*words).to_owned()).collect();
    let configuration = mask >> CONFIGURATION & 15;
    if configuration > 1 {
        ill.push(format!("its configuration is wrong (code {configuration})"));
    }
    ill
}

/// What the fabric reports of one GPU.
fn ill(ctx: &TickContext, gpu: &Gpu) -> Option<Finding> {
    let health = gpu.health.as_ref()?;
    let mask = health.fabric_health.unwrap_or(0);
    let mut ill = complaints(mask);
    let mut shown = vec![format!("health mask {mask:#x}")];
    if let Some(fabric) = &health.fabric {
        let summary = SUMMARY.iter().find(|(code, _)| fabric.summary == Some(*code)).filter(|_| ill.is_empty());
        ill.extend(summary.map(|(_, words)| (*words).to_owned()));
        shown.extend(fabric.summary.map(|summary| format!("health summary {summary}")));
        if health.fabric_state == Some(COMPLETED) && fabric.status != 0 {
            ill.push(format!("the GPU could not be registered (NVML error {})", fabric.status));
            shown.push(format!("status {}", fabric.status));
        }
    }
    if ill.is_empty() {
        return None;
    }
    let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {} fabric", gpu.index), ctx.model.now);
    found.summary = format!("{name}: the NVSwitch fabric reports that {}", ill.join(", "));
    found.confidence = Confidence::Certain;
    found.next = Some(format!("nvidia-smi -q -i {} | grep -A12 Fabric; the log of nvidia-fabricmanager", gpu.index));
    found.evidence = vec![Evidence::of("gpu", format!("NVML fabric {}", shown.join(", ")))];
    Some(found)
}

/// Who is in each cluster and clique.
type Domains<'a, T> = BTreeMap<(Option<&'a str>, u32), Vec<T>>;

/// All but those of the domain that most are in; all where none has more.
fn outsiders<T: Copy>(domains: &Domains<T>) -> Vec<T> {
    let most = domains.values().map(Vec::len).max().unwrap_or(0);
    let alone = domains.values().filter(|members| members.len() == most).count() == 1;
    domains.values().filter(|members| !alone || members.len() < most).flatten().copied().collect()
}

/// GPUs of this host that the fabric does not join.
fn split(model: &Model) -> Option<Finding> {
    let mut domains: Domains<u32> = BTreeMap::new();
    let up =
        model.gpus.values().filter_map(|gpu| Some((gpu.index, gpu.health.as_ref()?))).filter(|(_, h)| h.fabric_state == Some(COMPLETED));
    for (index, health) in up {
        let Some(Fabric { cluster, clique, .. }) = &health.fabric else { continue };
        domains.entry((cluster.as_deref(), *clique)).or_default().push(index);
    }
    if domains.len() < 2 || domains.keys().all(|(cluster, _)| cluster.is_none()) {
        return None;
    }
    let gpus = outsiders(&domains);
    let (names, are) = (gpu_words(&gpus), if gpus.len() == 1 { "is" } else { "are" });
    let summary = if domains.values().map(Vec::len).sum::<usize>() == gpus.len() {
        format!("{names} are in {} different NVLink cliques", domains.len())
    } else {
        format!("{names} {are} not in the NVLink clique of the host's other GPUs")
    };
    let mut found = RULE.finding("clique", summary, model.now);
    found.why = "NVLink joins only GPUs of one cluster and clique; unless the fabric is partitioned so on purpose, NCCL does without it between hosts".into();
    found.confidence = Confidence::Certain;
    found.gpus = gpus;
    found.next = Some("nvidia-smi -q | grep -A12 Fabric; ask the fabric manager of the rack (nmx-controller) for its partitions".into());
    found.evidence = domains
        .iter()
        .map(|((cluster, clique), gpus)| {
            let gpus = gpu_words(gpus);
            Evidence::of("gpu", format!("NVML: {gpus}: cluster {}, clique {clique}", cluster.unwrap_or("none")))
        })
        .collect();
    Some(found)
}

/// What IMEX lacks, on a host of which a GPU is part of a fabric, or may be.
fn imex_missing(model: &Model) -> Option<String> {
    let in_cluster = |gpu: &Gpu| gpu.health.as_ref().and_then(|h| h.fabric.as_ref()).is_none_or(|fabric| fabric.cluster.is_some());
    if !model.gpus.values().any(in_cluster) {
        return None;
    }
    host_checks::imex(model).filter(|answer| answer.state == host_checks::State::Warn).map(|answer| answer.value)
}

/// A job over several hosts that NVLink joins, without what it needs for that.
fn without_imex(model: &Model, job: &Job, missing: &str) -> Option<Finding> {
    let bringup = model.bringup_of(&job.id);
    let says = |used: bool| bringup.mnnvl.said.iter().find(|said| said.value == used);
    let (proof, summary) = if let Some(used) = says(true) {
        (&used.proof, format!("NCCL uses NVLink between hosts, and IMEX is not healthy: {missing}"))
    } else {
        let unused = says(false).filter(|_| could_use(model, job, &bringup))?;
        (&unused.proof, format!("NCCL does without NVLink between hosts, and IMEX is not healthy: {missing}"))
    };
    let mut found = RULE.finding("imex", summary, model.now);
    found.job = Some(job.id.clone());
    found.why =
        "memory of GPUs of other hosts is mapped through IMEX: what is mapped already may go on, new communicators fail or use the network"
            .into();
    found.next = Some("systemctl status nvidia-imex; nvidia-imex-ctl -N; ls -l /dev/nvidia-caps-imex-channels".into());
    let line = Evidence::line(model.path_of(proof.file), proof.line, &proof.text, proof.at);
    found.evidence = vec![Evidence::of("counter", missing), line];
    Some(found)
}

/// It runs on several hosts, its GPUs have a cluster beyond this host, and nobody has switched it off.
fn could_use(model: &Model, job: &Job, bringup: &Bringup) -> bool {
    const NVL: &[&str] = &["GB200", "GB300"];
    const SWITCH: &str = "NCCL_MNNVL_ENABLE";
    let many = bringup.layouts.said.iter().any(|layout| layout.value.nnodes > 1);
    let is_off = bringup.env.get(SWITCH).is_some_and(|values| values.said.iter().any(|said| said.value == "0"))
        || job.pids().any(|pid| model.processes.get(&pid).and_then(|p| p.env(SWITCH)) == Some("0"));
    let is_nvl = |gpu: &Gpu| {
        let cluster = gpu.health.as_ref().and_then(|h| h.fabric.as_ref()?.cluster.as_ref());
        cluster.is_some() && gpu.info.name.as_ref().is_some_and(|name| NVL.iter().any(|part| name.contains(part)))
    };
    many && !is_off && model.gpus.values().any(is_nvl)
}

/// The same from NCCL's lines, which come from all hosts, where NVML shows nothing of this one.
fn check_lines(ctx: &FactContext, out: &mut Vec<Finding>) {
    const CHOSEN: &[&str] = &["NCCL_MNNVL_UUID", "NCCL_MNNVL_CLIQUE_ID"];
    if ctx.model.gpus.values().any(|gpu| gpu.health.as_ref().is_some_and(|h| h.fabric.is_some())) {
        return;
    }
    for facts in ctx.each() {
        if !CHOSEN.iter().any(|name| facts.bringup.env.contains_key(*name)) {
            lines_of(ctx, &facts, out);
        }
    }
}

fn lines_of(ctx: &FactContext, facts: &Facts, out: &mut Vec<Finding>) {
    let next = "nvidia-smi -q | grep -A12 Fabric on the hosts of these ranks";
    let mut hosts: BTreeMap<Option<u64>, Domains<(usize, Option<u32>)>> = BTreeMap::new();
    for (at, said) in facts.bringup.fabrics.said.iter().enumerate() {
        let ranks = facts.ranks(said);
        let mut ill = complaints(said.value.health);
        if said.value.state != COMPLETED {
            ill.push(format!("it has not come up (state {})", said.value.state));
        }
        if !ill.is_empty() {
            let of = if ranks.is_empty() { counted(said.lines, "rank") } else { rank_words(&ranks) };
            let mut told = trouble(format!("lines {at}"), format!("the NVLink fabric of {of}: {}", ill.join(", ")), next);
            (told.confidence, told.why, told.proofs, told.ranks) =
                (Confidence::Certain, "as NVML showed it to NCCL".into(), vec![said.proof.clone()], ranks);
            out.push(ctx.found(&RULE, facts, told));
        }
        for who in &said.who {
            let of_host = hosts.entry(who.host).or_default();
            of_host.entry((said.value.cluster.as_deref(), said.value.clique)).or_default().push((at, who.rank));
        }
    }
    // Lines without a host may be of several.
    hosts.remove(&None);
    for domains in hosts.values().filter(|domains| domains.len() > 1 && domains.keys().any(|(cluster, _)| cluster.is_some())) {
        let odd = outsiders(domains);
        let mut ranks: Vec<u32> = odd.iter().filter_map(|(_, rank)| *rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let of = if ranks.is_empty() { "some ranks".to_owned() } else { rank_words(&ranks) };
        let mut told = trouble("clique", format!("the GPUs of {of} are not in the NVLink clique of their host's other GPUs"), next);
        told.why = "NVLink joins only GPUs of one cluster and clique: NCCL does without it between hosts".into();
        let lines: BTreeSet<usize> = domains.values().flatten().map(|(at, _)| *at).collect();
        (told.proofs, told.ranks) = (lines.iter().map(|at| facts.bringup.fabrics.said[*at].proof.clone()).collect(), ranks);
        out.push(ctx.found(&RULE, facts, told));
    }
}
