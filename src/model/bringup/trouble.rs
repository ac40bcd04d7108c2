//! What is wrong with a bring-up: read by the checklist and by the rules on facts, so that they cannot disagree.

use super::{Bringup, Path, Proof, Said, variables};
use crate::base::severity::Confidence;
use crate::base::time::{Stamp, span};
use crate::base::units::counted;
use crate::base::words::{all_words, rank_words};
use crate::logs::{Ofi, PathKind, PluginState, What};
use crate::model::Model;
use crate::model::alarms::Alarm;
use crate::model::comm::Comm;
use crate::model::job::Job;
use crate::model::port::Link;
use crate::model::topology::used::{Used, Verdict, judge_pair};
use crate::model::topology::{Distance, Topology};
use crate::observe::evidence::Evidence;
use crate::observe::port::PortKind;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Bring-up takes seconds; on thousands of ranks some tens of them.
const INIT_TAKES: Duration = Duration::from_secs(30);
/// A log without a new line for so long is silent.
const SILENT: Duration = Duration::from_secs(10);

/// Pairs of GPUs that are named one by one.
const NAMED: usize = 4;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// The same for the same thing, whatever line reports it.
    pub subject: String,
    /// It is sure to cost something; else a person should look.
    pub fails: bool,
    pub confidence: Confidence,
    pub summary: String,
    pub why: String,
    pub advice: String,
    pub proofs: Vec<Proof>,
    /// What shows it, where no line does.
    pub seen: Vec<Evidence>,
    pub ranks: Vec<u32>,
    pub since: Option<Stamp>,
}

/// Channels of two GPUs of a node that do not talk by P2P; without `pair`, of all that do not.
struct Slow<'a> {
    verdict: Verdict,
    kind: &'a str,
    channels: u64,
    proof: Option<&'a Proof>,
    pair: Option<(u32, u32)>,
}

/// The bring-up of one job, and what is known around it.
pub struct Facts<'a> {
    pub bringup: &'a Bringup,
    pub model: &'a Model,
    pub job: &'a Job,
    /// No more lines will come.
    pub ended: bool,
}

/// Something that is likely, of which nothing is known yet but in words.
pub fn trouble(subject: impl Into<String>, summary: String, advice: impl Into<String>) -> Trouble {
    Trouble {
        subject: subject.into(),
        fails: false,
        confidence: Confidence::Likely,
        summary,
        why: String::new(),
        advice: advice.into(),
        proofs: Vec::new(),
        seen: Vec::new(),
        ranks: Vec::new(),
        since: None,
    }
}

/// Values that lines cut short did not make: the beginning of another one is dropped.
pub(super) fn whole(said: &[Said<String>]) -> Vec<&Said<String>> {
    let is_piece = |s: &Said<String>| {
        said.iter().any(|o| {
            o.value.len() > s.value.len()
                && o.value.starts_with(&s.value)
                && (o.lines > s.lines || o.value.as_bytes().get(s.value.len()) == Some(&b'+'))
        })
    };
    said.iter().filter(|s| !is_piece(s)).collect()
}

/// Bridges of containers come by the dozen: those beside a good interface are reported as one.
fn fold_interfaces(found: Vec<Trouble>) -> Vec<Trouble> {
    let (beside, mut out): (Vec<Trouble>, Vec<Trouble>) = found.into_iter().partition(|t| !t.fails && t.summary.contains(" for data,"));
    let names: Vec<String> = beside.iter().map(|t| t.subject.clone()).collect();
    let Some(mut first) = beside.into_iter().next() else { return out };
    if names.len() > 1 {
        let more = if names.len() > 3 { format!(" and {} more", names.len() - 3) } else { String::new() };
        let list = names.iter().take(3).map(String::as_str).collect::<Vec<_>>().join(", ");
        first.summary = format!("NCCL uses the interfaces {list}{more} for data, which other nodes cannot reach");
    }
    out.push(first);
    out
}

impl Facts<'_> {
    /// NCCL went over TCP although something faster was there or was asked for.
    pub fn sockets(&self) -> Option<Trouble> {
        let b = self.bringup;
        let socket = b.networks.said.iter().find(|s| s.value == "Socket")?;
        if b.is_one_node() || self.is_alone() {
            return None;
        }
        let mut proofs = vec![socket.proof.clone()];
        let mut seen = Vec::new();
        let mut reasons = Vec::new();
        let mut asked = false;
        if let Some((net, proof)) = b.env_value("NCCL_NET").filter(|(net, _)| !net.eq_ignore_ascii_case("Socket")) {
            asked = true;
            reasons.push(format!("NCCL_NET={net} asked for another network"));
            proofs.push(proof.clone());
        }
        for (state, words, is_asked) in [
            (PluginState::FailedToLoad, "a network plugin could not be loaded", true),
            (PluginState::Unsupported, "the network plugin does not fit this NCCL", true),
            (PluginState::SetByEnv, "a network plugin was asked for", true),
            (PluginState::Loaded, "a network plugin was loaded", false),
        ] {
            if let Some(said) = b.net_plugin(state).and_then(|d| d.first()) {
                asked |= is_asked;
                let name = if said.value.is_empty() { String::new() } else { format!(" ({})", said.value) };
                reasons.push(format!("{words}{name}"));
                proofs.push(said.proof.clone());
            }
        }
        if let Some(device) = b.devices.first() {
            asked = true;
            reasons.push(format!("NCCL itself found {}", device.value));
            proofs.push(device.proof.clone());
        }
        if let Some(ofi) =
            b.ofi.said.iter().find(|o| {
                matches!(&o.value, Ofi::Platform(p) if p == "AWS") || matches!(o.value, Ofi::Topology { .. } | Ofi::Provider { .. })
            })
        {
            asked = true;
            reasons.push("aws-ofi-nccl was there".into());
            proofs.push(ofi.proof.clone());
        }
        if let Some(port) = self.model.ports.values().find(|p| p.link.now == Link::Up) {
            asked |= port.info.kind == PortKind::Efa;
            reasons.push(format!("{} is up", port.name()));
            seen.push(Evidence::of("counter", format!("port {} ({}) is up", port.name(), port.info.kind.as_str())));
        }
        let unopened = |alarm: &Alarm| match &alarm.event.what {
            What::NcclWarn { text, .. } => text.strip_prefix("NET/IB : Unable to open device ").map(|name| name.trim().to_owned()),
            _ => None,
        };
        let unopened: BTreeSet<String> = self.model.record_of(&self.job.id).alarms.iter().filter_map(unopened).collect();
        if let Some(first) = unopened.first().filter(|_| reasons.is_empty()) {
            let more = if unopened.len() > 1 { format!(" and {} more", unopened.len() - 1) } else { String::new() };
            reasons.push(format!("{first}{more} is there, which it could not open"));
        }
        // One that fails may say nothing but that.
        let warned = |alarm: &Alarm| matches!(&alarm.event.what, What::NcclWarn { text, .. } if text.starts_with("NET/OFI "));
        let has_failed = self.model.record_of(&self.job.id).alarms.iter().any(warned);
        if reasons.is_empty() && has_failed {
            asked = true;
            reasons.push("aws-ofi-nccl was there".into());
        }
        // It turns off NCCL's own InfiniBand, not a plugin.
        let has_plugin = !b.ofi.said.is_empty() || has_failed;
        let off = !has_plugin && b.env_value("NCCL_IB_DISABLE").is_some_and(|(v, _)| v == "1");
        if reasons.is_empty() && off {
            reasons.push("RDMA was turned off by hand".into());
        }
        if reasons.is_empty() {
            return None;
        }
        let mut told = trouble(
            "network",
            format!("NCCL uses TCP sockets although {}", reasons[0]),
            "read the plugin's lines above \"Using network\": they say why; most often its library or /dev/infiniband is missing in the container; NCCL_NET=IB or NCCL_NET=\"AWS Libfabric\" makes the fallback an error",
        );
        let by_hand = [("NCCL_IB_DISABLE", "1"), ("NCCL_NET", "Socket")];
        let cause = by_hand.iter().filter(|(name, _)| off || *name != "NCCL_IB_DISABLE").find_map(|(name, want)| {
            b.env_value(name).filter(|(v, _)| v.eq_ignore_ascii_case(want)).map(|(v, p)| (format!("{name}={v}"), p))
        });
        if !unopened.is_empty() && reasons.len() == 1 {
            told.advice = "`ls -l /dev/infiniband; ibv_devinfo; ulimit -l` where the rank runs, as its user: give the devices into the container (--device=/dev/infiniband or the RDMA device plugin), with the right to open them; NCCL_NET=IB makes the fallback an error".into();
        }
        if let Some((set, proof)) = cause {
            let although = if off && reasons.len() == 1 { String::new() } else { format!(", although {}", reasons[0]) };
            told.summary = format!("NCCL uses TCP sockets because of {set}{although}");
            told.advice = format!("unset {set}");
            told.confidence = Confidence::Certain;
            proofs.insert(1, proof.clone());
            asked = false;
        }
        told.fails = asked;
        told.why = reasons.join("; ");
        (told.proofs, told.seen) = (proofs, seen);
        Some(told)
    }

    /// Some processes go over TCP and others over a faster network: the two cannot connect.
    pub fn mixed_networks(&self) -> Option<Trouble> {
        let said = whole(&self.bringup.networks.said);
        let (sockets, others): (Vec<&Said<String>>, Vec<&Said<String>>) = said.into_iter().partition(|s| s.value == "Socket");
        let (socket, other) = sockets.first().zip(others.first())?;
        let writer = |w: &super::Who| (w.host, w.pid);
        // A process may have communicators of both.
        let both = others.iter().flat_map(|s| &s.who).any(|w| w.pid.is_none() || socket.who.iter().any(|of| writer(of) == writer(w)));
        // Each of two communicators, or of two runs in one log, may have its own: then they come up.
        let came_up = |hash: &u64| self.model.comms.get(hash).is_some_and(|comm| !comm.init_complete.is_empty());
        let is_up = !self.bringup.nameless.is_empty()
            || self.bringup.inits.keys().any(came_up)
            || self.model.progress_of(&self.job.id).is_some_and(|progress| progress.last_step_at.is_some());
        let of_connection = |alarm: &Alarm| match &alarm.event.what {
            What::NcclWarn { site: Some(site), .. } => ["socket", "transport/net", "proxy"].iter().any(|part| site.contains(part)),
            _ => false,
        };
        let warned = self.model.record_of(&self.job.id).alarms.iter().any(of_connection);
        if both || is_up || !warned || self.bringup.is_one_node() || socket.who.iter().any(|w| w.pid.is_none()) {
            return None;
        }
        let words = format!("{} on {} and TCP sockets on {}", other.value, self.who_words(other), self.who_words(socket));
        let mut told = trouble(
            "network",
            format!("ranks use different networks, which cannot connect to one another: {words}"),
            "look at the lines above \"Using network\" on those with sockets: no device is found there (`ibv_devinfo`, /dev/infiniband in the container), or the plugin or a setting is missing; NCCL_NET=IB or the plugin's name on all makes it an error at the start",
        );
        told.fails = true;
        told.confidence = Confidence::Likely;
        told.why = "all ranks of a communicator need the same network, and a connection failed here".into();
        told.proofs = vec![socket.proof.clone(), other.proof.clone()];
        told.ranks = self.ranks(if socket.lines <= other.lines { socket } else { other });
        Some(told)
    }

    /// Nodes talk over TCP, and nothing faster is seen: that may be all there is.
    pub fn plain_sockets(&self) -> Option<Trouble> {
        let b = self.bringup;
        let socket = b.networks.said.iter().find(|s| s.value == "Socket").filter(|_| b.networks.is_one())?;
        let hosts: BTreeSet<u64> = b.networks.said.iter().flat_map(|s| &s.who).filter_map(|w| w.host).collect();
        let carried = b.paths.iter().find(|(kind, _)| kind.starts_with("NET/Socket"));
        let many = b.is_many_nodes() || (hosts.len() > 1 && carried.is_some() && !b.is_one_node());
        if !many || self.sockets().is_some() {
            return None;
        }
        let mut told = trouble(
            "plain",
            "the nodes talk over TCP sockets, and no RDMA device or network plugin is seen".into(),
            "TCP is slow: if the nodes have InfiniBand, RoCE or EFA, give the container its devices (/dev/infiniband) and libraries (rdma-core, aws-ofi-nccl)",
        );
        told.confidence = Confidence::Certain;
        told.why = "that is right where the nodes have nothing faster; on EFA, InfiniBand or RoCE it costs most of the bandwidth".into();
        told.proofs.push(socket.proof.clone());
        told.proofs.extend(carried.map(|(_, path)| path.proof.clone()));
        Some(told)
    }

    /// The first of these variables that NCCL reports to have taken.
    fn explained(&self, names: &[&str]) -> Option<(String, Proof)> {
        let set = |name: &&str| {
            let (value, proof) = self.bringup.env_value(name).filter(|(v, _)| *v != "0")?;
            Some((format!("{name}={value}"), proof.clone()))
        };
        names.iter().find_map(set)
    }

    /// GPUs talk over something slower than what joins them.
    pub fn transports(&self) -> Vec<Trouble> {
        let b = self.bringup;
        let mut out = Vec::new();
        if let Some((kind, path)) = b.paths.iter().find(|(kind, _)| kind.starts_with("P2P/indirect")) {
            let mut told = trouble(
                "indirect",
                format!("{} channels are routed through another GPU ({kind})", path.channels()),
                "look at NVLink and P2P of the two GPUs: nvidia-smi topo -p2p r, nvidia-smi nvlink -s",
            );
            told.proofs.push(path.proof.clone());
            told.confidence = Confidence::Certain;
            told.why = "the only transport that is named indirect".into();
            out.push(told);
        }
        // Shared memory is used inside a node only; the network may be between nodes.
        let local = |kind: &str| kind.starts_with("SHM") || kind == "direct shared memory" || (b.is_one_node() && kind.starts_with("NET/"));
        let slow: Vec<_> = b.paths.iter().filter(|(kind, _)| local(kind)).collect();
        let dump = b.gpu_links.get(&PathKind::Nvl).filter(|_| b.gpu_links.keys().all(|k| *k <= PathKind::Nvb));
        let pairs = self.model.topology.as_ref().map(|t| t.pairs.as_slice()).filter(|p| !p.is_empty());
        let joined = pairs.is_some_and(|p| p.iter().all(|pair| pair.nvlinks.is_some_and(|n| n > 0)));
        if !slow.is_empty() {
            out.extend(self.slow_pairs(&slow, joined, dump));
        }
        let refused = b.all_direct.said.iter().find(|s| !s.value).filter(|_| slow.is_empty() && (dump.is_some() || joined));
        if let Some(said) = refused {
            let advice = "look at P2P between the GPUs: nvidia-smi topo -p2p r, and NCCL_P2P_DISABLE, NCCL_P2P_LEVEL";
            let mut told = trouble("direct", "NVLink joins the GPUs, but NCCL finds pairs without direct P2P".into(), advice);
            told.why = "isAllDirectP2p 0".into();
            told.proofs.push(said.proof.clone());
            told.proofs.extend(dump.cloned());
            out.push(told);
        }
        out.extend(self.no_gpu_direct());
        out
    }

    /// GPUs of a node that do not talk by P2P: pair by pair where lines and topology name them, else all of them together, if all are joined
    /// by NVLink (`joined`, or NCCL's `dump`).
    fn slow_pairs<'a>(&'a self, slow: &[(&'a String, &'a Path)], joined: bool, dump: Option<&Proof>) -> Option<Trouble> {
        let cause = self.explained(&["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE"]);
        let used = Used::of(self.model, self.job, self.bringup);
        let topology = Topology::of(self.model);
        let mut found = Vec::new();
        for (pair, transports) in &used.pairs {
            let (verdict, _) = used.judge(&topology, pair.0, pair.1);
            let of_slow = transports.iter().filter(|(t, _)| slow.iter().any(|(kind, _)| *kind == *t));
            let proof = used.proofs.get(pair);
            found.extend(of_slow.map(|(kind, channels)| Slow { verdict, kind, channels: *channels, proof, pair: Some(*pair) }));
        }
        if found.is_empty() {
            let all = (joined || dump.is_some()).then_some(Distance::Nvlink(1));
            let of_all = |(kind, path): &(&'a String, &'a Path)| Slow {
                verdict: judge_pair(kind, all, None),
                kind,
                channels: path.channels(),
                proof: Some(&path.proof),
                pair: None,
            };
            found.extend(slow.iter().map(of_all));
        }
        // Where it is not known what joins them, the variable that made them talk so is reason enough.
        let is_below = found.iter().any(|slow| slow.verdict == Verdict::Below);
        let wanted = if is_below { Verdict::Below } else { Verdict::NotJudged };
        found.retain(|slow| slow.verdict == wanted && (is_below || cause.is_some()));
        let (kind, proof) = found.first().map(|first| (first.kind, first.proof))?;
        let channels: u64 = found.iter().filter(|slow| slow.kind == kind).map(|slow| slow.channels).sum();
        let by_nvlink = found.iter().all(|slow| match slow.pair {
            Some((from, to)) => matches!(used.joined(&topology, from, to), Some(Distance::Nvlink(_))),
            None => joined || dump.is_some(),
        });
        let by = cause.as_ref().map_or(String::new(), |(set, _)| format!(" because of {set}"));
        let link = if by_nvlink { "that NVLink joins " } else { "" };
        let advice = match &cause {
            Some((set, _)) => format!("unset {set}"),
            None => "look for containers that do not share IPC and host name, and for NVLinks that are down (nvidia-smi nvlink -s)".into(),
        };
        let mut told = trouble("local", format!("GPUs {link}talk over {kind}{by} ({channels} channels)"), advice);
        told.proofs.extend(proof.cloned());
        if let Some((_, proof)) = cause {
            told.proofs.push(proof);
            told.confidence = Confidence::Certain;
        }
        told.proofs.extend(dump.cloned());
        // One sentence tells it of all of them.
        let pairs = found.iter().filter_map(|slow| slow.pair.filter(|_| is_below && !joined && dump.is_none()));
        told.seen.extend(pairs.take(NAMED).map(|(from, to)| Evidence::of("gpu", used.pair(&topology, from, to).why)));
        if joined {
            told.seen.push(Evidence::of("gpu", "NVML: NVLink joins all GPUs of this node"));
        }
        told.why = "GPUs of one node should talk by P2P".into();
        Some(told)
    }

    /// The network copies through the host's memory although GPUDirect RDMA is there.
    fn no_gpu_direct(&self) -> Option<Trouble> {
        let b = self.bringup;
        let net = |kind: &str| kind.starts_with("NET/") && !kind.starts_with("NET/Socket");
        let without = b.paths.iter().find(|(kind, _)| net(kind) && !kind.contains("/GDRDMA"));
        let with = b.paths.keys().any(|kind| net(kind) && kind.contains("/GDRDMA"));
        // From 2.24 on the rings say it, too.
        let fast = b.networks.first().is_some_and(|n| n.value != "Socket") && b.networks.is_one() && b.is_many_nodes();
        let rings = b.connected.said.iter().find(|s| s.value.1 == Some(false)).filter(|_| fast);
        let proof = without.map(|(_, path)| &path.proof).or(rings.map(|s| &s.proof)).filter(|_| !with && !b.is_one_node())?;
        let there = b.gpu_direct.said.iter().find(|s| s.value).map(|s| s.proof.clone()).or(b.dma_buf.clone());
        let by_value =
            |name: &str, bad: &[&str]| b.env_value(name).filter(|(v, _)| bad.contains(v)).map(|(v, p)| (format!("{name}={v}"), p.clone()));
        let cause = by_value("NCCL_NET_GDR_LEVEL", &["LOC", "0", "NVL", "PIX", "1"])
            .or_else(|| by_value("NCCL_DMABUF_ENABLE", &["0"]))
            .or_else(|| self.explained(&["NCCL_NET_GDR_DISABLE"]));
        // It may be off because the host lacks what it needs.
        let off = |o: &&Said<Ofi>| matches!(o.value, Ofi::NoGpuDirect);
        let refused = b.gpu_direct.said.iter().find(|s| !s.value).map(|s| s.proof.clone());
        let refused = refused.or_else(|| Some(b.ofi.said.iter().find(off)?.proof.clone())).filter(|_| there.is_none());
        if there.is_none() && cause.is_none() && refused.is_none() {
            return None;
        }
        let by = cause.as_ref().map_or(String::new(), |(set, _)| format!(" because of {set}"));
        let advice = match &cause {
            Some((set, _)) => format!("unset {set}"),
            None if refused.is_some() => "lsmod | grep nvidia_peermem, or DMA-BUF (open kernel modules, Linux 5.12 or newer); on EFA a libfabric and an instance type that have GDR; else live with it".into(),
            None => "look at nvidia-peermem (lsmod), ACS and IOMMU of the PCIe bridges, and NCCL_NET_GDR_LEVEL".into(),
        };
        let mut told =
            trouble("gpudirect", format!("data between nodes is copied through host memory, GPUDirect RDMA is not used{by}"), advice);
        told.why = match &refused {
            Some(_) => "the network is used without GDRDMA, and NCCL says that GPUDirect RDMA is off".into(),
            None => "the network is used without GDRDMA, and GPUDirect is there".into(),
        };
        told.proofs.extend(refused);
        told.proofs.push(proof.clone());
        told.proofs.extend(cause.map(|(_, p)| p));
        told.proofs.extend(there);
        Some(told)
    }

    /// All communicators are of one rank, which has to reach nobody.
    fn is_alone(&self) -> bool {
        let mut sizes = self.bringup.inits.keys().filter_map(|hash| self.model.comms.get(hash)).map(|c| c.nranks).peekable();
        // By its rings, where it names no communicator.
        let is_ring_of_one = self.model.record_of(&self.job.id).ring_ranks == Some(1) && sizes.peek().is_none();
        is_ring_of_one || sizes.peek().is_some() && sizes.all(|nranks| nranks == 1)
    }

    /// Interfaces that other nodes cannot reach, or that differ.
    pub fn interfaces(&self) -> Vec<Trouble> {
        let b = self.bringup;
        let mut out = Vec::new();
        let local = |name: &str| name == "lo" || ["docker", "virbr", "veth", "cni", "br-"].iter().any(|p| name.starts_with(p));
        // No rank comes to its end alone: all have met in it.
        let is_up = |c: &Comm| c.nranks > 1 && !c.init_complete.is_empty();
        let came_up = b.inits.keys().filter_map(|hash| self.model.comms.get(hash)).any(is_up);
        let hosts: BTreeSet<Option<u64>> = b.bootstraps.said.iter().flat_map(|s| &s.who).map(|w| w.host).collect();
        if self.is_alone() || b.is_one_node() || (came_up && hosts.len() <= 1 && !b.is_many_nodes()) {
            return out;
        }
        for (said, what) in b.bootstraps.said.iter().map(|s| (s, "bootstrap")).chain(b.sockets.said.iter().map(|s| (s, "data"))) {
            if !local(&said.value) || out.iter().any(|t: &Trouble| t.subject == said.value) {
                continue;
            }
            // A network of containers over which they have met, as in a pod whose own interface has such a name.
            if came_up && said.value != "lo" && b.bootstraps.said.iter().any(|s| s.value == said.value) {
                continue;
            }
            // Of several interfaces for data the good ones may be enough.
            let others = what == "data" && b.sockets.said.iter().any(|s| !local(&s.value));
            let mut told = trouble(
                said.value.clone(),
                format!("NCCL uses the interface {} for {what}, which other nodes usually cannot reach", said.value),
                "set NCCL_SOCKET_IFNAME to the interface that all nodes reach one another by (ip -brief address)",
            );
            // It does where all ranks found one another over it, and within one host.
            told.fails = !others && !came_up && (b.is_many_nodes() || hosts.len() > 1);
            told.confidence = if b.is_many_nodes() { Confidence::Certain } else { Confidence::Possible };
            told.why = "it is the loopback, or a bridge of this host's containers".into();
            told.proofs.push(said.proof.clone());
            if let Some((v, p)) = b.env_value("NCCL_SOCKET_IFNAME") {
                told.why += &format!("; NCCL_SOCKET_IFNAME={v}");
                told.proofs.push(p.clone());
            }
            told.ranks = self.ranks(said);
            out.push(told);
        }
        fold_interfaces(out)
    }

    /// Ranks of one job with different settings.
    pub fn env_mismatch(&self) -> Vec<Trouble> {
        let mut out = Vec::new();
        for (name, values) in self.bringup.env.iter().filter(|(name, _)| !variables::may_differ(name)) {
            let said = whole(&values.said);
            let differ = said.windows(2).any(|w| w[0].who != w[1].who);
            if said.len() < 2 || !differ {
                continue;
            }
            let words: Vec<String> = said.iter().take(4).map(|s| format!("{} on {}", s.value, self.who_words(s))).collect();
            let mut told = self.mismatch(name, words);
            told.proofs = said.iter().take(4).map(|s| s.proof.clone()).collect();
            told.ranks = said.iter().min_by_key(|s| s.lines).map_or(Vec::new(), |s| self.ranks(s));
            out.push(told);
        }
        // The environment of processes tells also what is not set.
        let envs: Vec<(u32, &BTreeMap<String, String>)> =
            self.job.ranks.iter().filter_map(|(r, pid)| Some((*r, self.model.processes.get(pid)?.info.env.as_ref()?))).collect();
        let mut names: Vec<&String> =
            envs.iter().flat_map(|(_, e)| e.keys()).filter(|n| n.starts_with("NCCL_") && !variables::may_differ(n)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let mut by_value: BTreeMap<Option<&String>, Vec<u32>> = BTreeMap::new();
            envs.iter().for_each(|(rank, env)| by_value.entry(env.get(name)).or_default().push(*rank));
            if by_value.len() < 2 || out.iter().any(|t: &Trouble| t.subject == *name) {
                continue;
            }
            let words =
                by_value.iter().take(4).map(|(v, r)| format!("{} on {}", v.map_or("not set", |v| v.as_str()), rank_words(r))).collect();
            let mut told = self.mismatch(name, words);
            told.ranks = by_value.values().min_by_key(|r| r.len()).cloned().unwrap_or_default();
            told.seen.push(Evidence::of("process", format!("environment of the processes: {}", told.why)));
            out.push(told);
        }
        out
    }

    fn mismatch(&self, name: &str, words: Vec<String>) -> Trouble {
        let mut told = trouble(
            name,
            format!("{name} differs between ranks: {}", words.join(", ")),
            "set it in one place for all nodes: the launcher's export list, the image, /etc/nccl.conf",
        );
        // Hosts may have other names for the same things.
        let by_host = ["_IFNAME", "_HCA", "_GID_INDEX"].iter().any(|e| name.ends_with(e));
        told.confidence = if by_host { Confidence::Possible } else { Confidence::Certain };
        told.why = words.join(", ");
        told
    }

    /// Variables that do nothing.
    pub fn env_no_effect(&self) -> Vec<Trouble> {
        let b = self.bringup;
        let mut out = Vec::new();
        for (name, (how, proof)) in &b.env_unused {
            let mut told = trouble(name.clone(), format!("{name} is {how}, NCCL says"), "remove it, or use the name that NCCL knows");
            told.confidence = Confidence::Certain;
            told.why = "NCCL's own line about it".into();
            told.proofs.push(proof.clone());
            out.push(told);
        }
        let processes = self.job.pids().filter_map(|pid| self.model.processes.get(&pid)?.info.env.as_ref());
        let mut names: Vec<&str> = processes.flat_map(|e| e.keys().map(String::as_str)).chain(b.env.keys().map(String::as_str)).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let Some(doubt) = variables::doubt(name) else { continue };
            // What NCCL says it took, it knows.
            let known = b.env.get(name).and_then(|d| d.first());
            let (summary, advice, confidence) = match doubt {
                variables::Doubt::Like(like) if known.is_none() => {
                    (format!("NCCL does not know {name}; {like} may be meant"), format!("use {like}"), Confidence::Likely)
                }
                variables::Doubt::Gone(now) if known.is_none() => {
                    (format!("{name} does nothing in this NCCL"), format!("use {now}"), Confidence::Likely)
                }
                variables::Doubt::OfTorch => (
                    format!("{name} is PyTorch's, which names it TORCH_{name} since 2.2"),
                    format!("use TORCH_{name}"),
                    Confidence::Possible,
                ),
                _ => continue,
            };
            let mut told = trouble(name, summary, advice);
            told.confidence = confidence;
            told.why = "by its name".into();
            match known {
                Some(said) => told.proofs.push(said.proof.clone()),
                None => told.seen.push(Evidence::of("process", format!("{name} stands in the environment of a rank"))),
            }
            out.push(told);
        }
        out
    }

    /// Ranks of one job with different versions of NCCL, or of the driver.
    pub fn versions(&self) -> Vec<Trouble> {
        let b = self.bringup;
        let mut out = Vec::new();
        for (subject, what, values) in
            [("nccl", "versions of NCCL", &b.nccl_versions), ("driver", "CUDA versions of the driver", &b.drivers)]
        {
            let mut said = whole(&values.said);
            // A program that calls RCCL by NCCL's name means the same library.
            let is_named_twice = |s: &Said<String>| values.said.iter().any(|o| o.value.strip_prefix("RCCL ") == Some(s.value.as_str()));
            said.retain(|s| !is_named_twice(s));
            if said.len() < 2 {
                continue;
            }
            // One rank alone differs from nobody: a program names the version it was built with, too.
            let ranks: BTreeSet<Vec<u32>> = said.iter().map(|s| self.ranks(s)).collect();
            if ranks.len() == 1 && ranks.iter().all(|ranks| ranks.len() == 1) {
                continue;
            }
            let words: Vec<String> = said.iter().take(4).map(|s| format!("{} on {}", s.value, self.who_words(s))).collect();
            let mut told = trouble(
                subject,
                format!("ranks have different {what}: {}", words.join(", ")),
                "use one image on all nodes; ldd and LD_LIBRARY_PATH say which libnccl a process loads",
            );
            let number = |s: &Said<String>| s.value.split('+').next().map(str::to_owned);
            told.fails = subject == "nccl" && said.windows(2).any(|w| number(w[0]) != number(w[1]));
            told.confidence = Confidence::Certain;
            told.why = words.join(", ");
            told.proofs = said.iter().take(4).map(|s| s.proof.clone()).collect();
            told.ranks = said.iter().min_by_key(|s| s.lines).map_or(Vec::new(), |s| self.ranks(s));
            out.push(told);
        }
        out
    }

    /// NCCL found fewer RDMA ports on a host than on another one that has the same names: a port that was down, or a card that is gone.
    pub fn fewer_ports(&self) -> Vec<Trouble> {
        /// A host with less has ports for other work, too.
        const LEAST: usize = 4;
        const MOST_MISSING: usize = 2;
        // Where somebody has chosen them, it is no accident.
        if self.bringup.env.contains_key("NCCL_IB_HCA") {
            return Vec::new();
        }
        let said = &self.bringup.ports.said;
        let names = |s: &Said<String>| -> BTreeSet<String> { s.value.split(", ").map(str::to_owned).collect() };
        let hosts = |s: &Said<String>| -> BTreeSet<u64> { s.who.iter().filter_map(|w| w.host).collect() };
        let Some(most) = said.iter().max_by_key(|s| names(s).len()).filter(|s| names(s).len() >= LEAST) else { return Vec::new() };
        let all = names(most);
        let fewer = said.iter().filter(|s| {
            let own = names(s);
            let missing = all.len() - own.len();
            // Ranks of one host that use different ones were told to.
            let apart = hosts(s).is_disjoint(&hosts(most)) && !hosts(s).is_empty() && !hosts(most).is_empty();
            // One host that has more than several others is another kind of host.
            let is_odd = hosts(most).len() > hosts(s).len() || said.len() == 2 && hosts(most).len() == 1 && hosts(s).len() == 1;
            apart && is_odd && (1..=MOST_MISSING).contains(&missing) && own.is_subset(&all)
        });
        let told = |s: &Said<String>| {
            let own = names(s);
            let missing: Vec<String> = all.difference(&own).cloned().collect();
            let on = self.host_words(s).unwrap_or_else(|| self.who_words(s));
            let lacks = format!("{} {}", all_words(&missing), if missing.len() == 1 { "is" } else { "are" });
            let mut told = trouble(
                "ports",
                format!("NCCL uses {} of {} RDMA ports on {on}: {lacks} not used there", own.len(), all.len()),
                "on that host: `rdma link`, `ibstat` and `dmesg -T | grep mlx5` for the port that is missing; a link that comes and goes is a cable, a transceiver or the port of the switch. Until then NCCL_IB_HCA with the same list on all hosts",
            );
            told.confidence = Confidence::Likely;
            told.why = "NCCL takes the ports that are active when it starts; with other ports on the other host rails do not match, and the job is slower or cannot connect".into();
            told.proofs = vec![s.proof.clone(), most.proof.clone()];
            told.ranks = self.ranks(s);
            told
        };
        fewer.map(told).collect()
    }

    /// The hosts of those who said it, by name.
    fn host_words(&self, said: &Said<String>) -> Option<String> {
        let hosts: BTreeSet<u64> = said.who.iter().filter_map(|w| w.host).collect();
        let record = self.model.record_of(&self.job.id);
        let names: Vec<String> = record.hosts.iter().filter(|name| hosts.contains(&super::host_id(name))).cloned().collect();
        (!names.is_empty() && names.len() == hosts.len()).then(|| all_words(&names))
    }

    /// A communicator that ranks began to create and did not complete, when nothing more comes.
    pub fn init(&self) -> Option<Trouble> {
        let b = self.bringup;
        let (model, job) = (self.model, self.job);
        let now = job.ended_at.unwrap_or(model.now);
        // A COMPLETE can be torn, or left out where too many lines came at once: a job that makes steps is past it.
        let stepped = model.progress_of(&job.id).and_then(|p| p.last_step_at);
        let whole = model.files_of(&job.id).all(|f| f.dropped_lines == 0);
        let last = model.files_of(&job.id).filter_map(|f| f.last_line_at).max();
        let silent = self.ended || last.is_none_or(|at| now.since(model.watched(at)) > SILENT);
        let late = |c: &Comm| {
            let from = c.init_from?;
            let waits = self.ended || now.since(model.watched(from)) > INIT_TAKES;
            (whole && silent && waits && stepped.is_none_or(|s| s < from)).then_some(from)
        };
        let pending = |c: &Comm| !c.init_left_out && c.init_started.difference(&c.init_complete).next().is_some();
        let of_job = b.inits.iter().filter_map(|(hash, lines)| Some((model.comms.get(hash)?, lines)));
        // Who completes another one later went on: lines of this one are missing where somebody cut the log.
        let went_on = |c: &Comm, own: &super::InitLines| {
            let began = || c.init_started.difference(&c.init_complete);
            let later = |proof: &Proof| own.first_start.as_ref().is_some_and(|start| start.file == proof.file && start.is_before(proof));
            let others = b.inits.iter().filter(|(hash, _)| **hash != c.hash);
            let mut others = others.filter_map(|(hash, lines)| Some((model.comms.get(hash)?, lines.newest_complete.as_ref()?)));
            others.any(|(other, complete)| {
                later(complete) && other.nranks == c.nranks && began().all(|rank| other.init_complete.contains(rank))
            })
        };
        // One that is alone waits for nobody.
        let is_stuck = |(c, lines): &(&Comm, &super::InitLines)| c.nranks > 1 && pending(c) && late(c).is_some() && !went_on(c, lines);
        let (comm, lines) = of_job.filter(is_stuck).max_by_key(|(c, _)| c.nranks)?;
        let from = late(comm)?;
        let began: Vec<u32> = comm.init_started.difference(&comm.init_complete).copied().collect();
        let known = |r: &u32| comm.init_started.contains(r) || comm.init_complete.contains(r);
        // The log of one rank says nothing of the others.
        let is_of_one = self.ended && comm.init_started.len() == 1 && comm.init_complete.is_empty();
        let never: Vec<u32> = (0..comm.nranks.min(1 << 14)).filter(|r| !is_of_one && !known(r)).collect();
        let mut words = format!("{} of {} ranks", comm.init_complete.len(), comm.nranks);
        // Of a log that has ended only its own times tell how long it took.
        let to = if self.ended { model.files_of(&job.id).filter_map(|f| f.chronicle.marks.to).max() } else { Some(now) };
        let took = to.map_or(Duration::ZERO, |to| to.since(from));
        // That a file ends is not that the job does: it may have been copied while ranks came up, or cut.
        let cut = self.ended && took <= INIT_TAKES;
        let after = if took < Duration::from_secs(1) { String::new() } else { format!(" after {}", span(took)) };
        let until = if cut { ", and the log ends" } else { "" };
        words = format!("initialisation finished on {words}{after}: {} began{until}", rank_words(&began));
        if !never.is_empty() {
            words += &format!(", {} never did, as far as the logs here show", rank_words(&never));
        }
        let advice = match never.as_slice() {
            [] => "look at the first WARN, and whether ranks reach one another over the bootstrap interface".to_owned(),
            missing => format!("look at {}: a node that was not started, a firewall, another world size", rank_words(missing)),
        };
        let mut told = trouble(format!("init of comm {:08x}", comm.hash >> 32), words, advice);
        told.fails = !cut;
        told.confidence = if cut { Confidence::Possible } else { told.confidence };
        told.why = match cut {
            true => {
                "Init START without Init COMPLETE; the log does not say how long it went on, so that it may be stuck or only cut off here"
            }
            false => "Init START without Init COMPLETE, and no line since",
        }
        .into();
        told.proofs.extend(lines.first_start.clone());
        told.ranks = if never.is_empty() { began } else { never };
        told.since = Some(from);
        Some(told)
    }

    /// Two ranks of one host that began to create a communicator on the same GPU, where NCCL refused it as invalid usage, when nothing more comes.
    /// NCCL_MULTI_RANK_GPU_ENABLE=1 allows it (2.30.3).
    pub fn gpu_twice(&self) -> Option<Trouble> {
        let record = self.model.record_of(&self.job.id);
        let refused = |a: &Alarm| ["invalid usage", "ncclInvalidUsage"].iter().any(|words| a.text.contains(words));
        // What NCCL warned of is known better.
        let is_warned = record.alarms.iter().any(|a| matches!(a.event.what, What::NcclWarn { .. }));
        let is_allowed = self.bringup.env_value("NCCL_MULTI_RANK_GPU_ENABLE").is_some();
        if !self.ended || is_warned || is_allowed || !record.alarms.iter().any(refused) {
            return None;
        }
        let mut of_gpu: BTreeMap<_, Vec<(u32, Option<u32>)>> = BTreeMap::new();
        for (rank, seen) in &record.ranks {
            if let (Some(host), Some(card)) = (&seen.host, &seen.card) {
                of_gpu.entry((host, card)).or_default().push((*rank, seen.pid));
            }
        }
        let ((host, card), ranks, lines) = of_gpu.into_iter().find_map(|(gpu, ranks)| {
            // Hosts of one name have processes of one number.
            let pids: BTreeSet<Option<u32>> = ranks.iter().map(|(_, pid)| *pid).collect();
            let ranks: Vec<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
            let began = |c: &Comm| c.nranks > 1 && c.init_complete.is_empty() && ranks.iter().all(|rank| c.init_started.contains(rank));
            let tried = self.bringup.inits.iter().find(|(hash, _)| self.model.comms.get(hash).is_some_and(began));
            let lines = tried.filter(|_| ranks.len() > 1 && pids.len() == ranks.len())?.1;
            Some((gpu, ranks, lines))
        })?;
        let card = format!("{:04x}:{:02x}:{:02x}", card.domain, card.bus, card.device);
        let mut told = trouble(
            format!("gpu of {host} {card}"),
            format!("{} use the same GPU ({card}) of {host}", rank_words(&ranks)),
            "give each rank a GPU of its own: `torch.cuda.set_device(LOCAL_RANK)`, CUDA_VISIBLE_DEVICES of each process, as many GPUs in the pod or \
             task as ranks",
        );
        told.fails = true;
        told.why = "their Init START lines have the same bus id, the communicator did not come up, and NCCL called it invalid usage".into();
        told.proofs.extend(lines.first_start.clone());
        told.ranks = ranks;
        Some(told)
    }

    /// The ranks whose lines say so, as far as that is known.
    pub fn ranks<T>(&self, said: &Said<T>) -> Vec<u32> {
        let rank = |w: &super::Who| w.rank.or_else(|| self.model.rank_of_ns_pid(w.file, w.pid?));
        let mut ranks: Vec<u32> = said.who.iter().filter_map(rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// `ranks 0, 1 and 2`, `2 processes`
    fn who_words<T>(&self, said: &Said<T>) -> String {
        match self.ranks(said) {
            ranks if !ranks.is_empty() => rank_words(&ranks),
            _ if said.who.iter().any(|w| w.pid.is_some()) => counted(said.who.len(), "process"),
            _ => counted(said.lines, "line"),
        }
    }
}
