//! What NCCL made of the topology, by the channel lines of logs: over what each pair of GPUs talks, which NIC each GPU uses, and whether
//! that is the best that there is.

use super::{Distance, Topology, UNKNOWN};
use crate::base::units::counted;
use crate::model::Model;
use crate::model::bringup::routes::{End, Ring, Route, Routes};
use crate::model::bringup::{Bringup, Distinct, host_id, kind};
use crate::model::job::Job;
use crate::model::port::Link;
use std::collections::{BTreeMap, BTreeSet};

/// How what NCCL uses stands to what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// No log has channel lines.
    NotSeen,
    /// There are channel lines, and none of these two.
    Unused,
    /// What joins the two is not known, or means nothing.
    NotJudged,
    Matches,
    /// Something better is there.
    Below,
}

impl Verdict {
    /// As JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::NotSeen => "not-seen",
            Verdict::Unused => "unused",
            Verdict::NotJudged => "not-judged",
            Verdict::Matches => "matches",
            Verdict::Below => "below",
        }
    }
}

/// Channels from a GPU to the network and back over one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetUse {
    /// `NET/IB/GDRDMA`, with lines.
    pub transports: BTreeMap<String, u64>,
    pub sends: u64,
    pub receives: u64,
    /// All of them use GPUDirect RDMA.
    pub gpu_direct: bool,
    /// Some leave through the proxy of another rank, whose GPU is near to the device (PXN).
    pub pxn: bool,
}

/// What the ranks of a job use on this node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Used {
    /// Channel lines of this node were found.
    pub seen: bool,
    /// By the GPUs that send and receive: transports with the number of channels.
    pub pairs: BTreeMap<(u32, u32), BTreeMap<String, u64>>,
    /// By GPU and device: its name, or `IB/3` where no line names it.
    pub nets: BTreeMap<(u32, String), NetUse>,
    /// Of the largest communicator, as ranks.
    pub rings: Vec<Ring>,
    /// Variables that NCCL took and that forbid a transport.
    pub forbidden_by: Vec<String>,
    /// Lines whose GPUs are none of this node, as far as is known.
    pub unplaced: u64,
    /// The lines name another host: they may be of another machine.
    pub of_another_host: bool,
}

/// Two devices, and what NCCL uses between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    pub distance: Option<Distance>,
    /// `P2P`, `SHM`, `NET`, `GDR`; empty where nothing is used.
    pub used: &'static str,
    pub verdict: Verdict,
    /// In a sentence.
    pub why: String,
}

/// Variables that keep NCCL from a transport.
const FORBIDDING: &[&str] =
    &["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_DIRECT_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL", "NCCL_IB_HCA", "NCCL_NET"];

impl Used {
    pub fn of(model: &Model, job: &Job, bringup: &Bringup) -> Used {
        let routes = &bringup.routes;
        let mut used = Used { rings: routes.rings.clone(), ..Used::default() };
        let value = |name: &&str| {
            let said = bringup.env.get(*name).and_then(Distinct::first).filter(|s| s.value != "0")?;
            Some(format!("{name}={}", said.value))
        };
        used.forbidden_by = FORBIDDING.iter().filter_map(value).collect();
        let Some((host, is_ours)) = host_of(model, routes) else { return used };
        used.of_another_host = !is_ours;
        let place = Placing { model, job, routes, host };
        let one_node = bringup.layouts.said.iter().all(|l| l.value.nnodes == 1) && !bringup.layouts.said.is_empty();
        for (route, lines) in routes.known.iter().filter(|(route, _)| route.host == host) {
            used.seen = true;
            used.take(&place, route, *lines, one_node);
        }
        used
    }

    fn take(&mut self, place: &Placing, route: &Route, lines: u64, one_node: bool) {
        let (from, to) = (place.gpu(route.from), place.gpu(route.to));
        let Some(net) = route.transport.strip_prefix("NET/").or_else(|| route.transport.strip_prefix("COLLNET/")) else {
            // Over NVLink between hosts the other GPU may be anywhere.
            let is_here = route.transport != "P2P/MNNVL" || one_node || place.job.ranks.contains_key(&route.to.rank);
            match (from, to) {
                (Some(from), Some(to)) if from != to && is_here => {
                    *self.pairs.entry((from, to)).or_default().entry(route.transport.clone()).or_default() += lines;
                }
                _ => self.unplaced += u64::from(is_here) * lines,
            }
            return;
        };
        let Some(gpu) = (if route.receive { to } else { from }) else {
            self.unplaced += lines;
            return;
        };
        // Both ends are here: that is how ranks talk which may use nothing else.
        if let (Some(from), Some(to)) = (from, to)
            && from != to
            && (one_node || place.routes.has_other_end(route))
            && !route.receive
        {
            *self.pairs.entry((from, to)).or_default().entry(kind(&route.transport)).or_default() += lines;
        }
        let (device, pxn) = place.device(net);
        let direct = route.transport.contains("/GDRDMA");
        let known = self.nets.entry((gpu, device)).or_insert(NetUse { gpu_direct: true, ..NetUse::default() });
        *known.transports.entry(kind(&route.transport)).or_default() += lines;
        *(if route.receive { &mut known.receives } else { &mut known.sends }) += lines;
        known.gpu_direct &= direct;
        known.pxn |= pxn;
    }

    /// What NCCL uses from one GPU to another.
    pub fn pair(&self, topology: &Topology, from: u32, to: u32) -> Judged {
        let distance = topology.gpu_to_gpu(from, to);
        let head = format!("GPU{from}-GPU{to}: {}", distance_words(distance));
        let Some(transports) = self.pairs.get(&(from, to)) else { return self.nothing(distance, &head) };
        let p2p = topology.pair(from, to).and_then(|p| p.p2p_read);
        let (verdict, used) = transports.keys().map(|t| (judge_pair(t, distance, p2p), short(t))).max().unwrap_or((Verdict::Unused, ""));
        let mut why = format!("{head}; NCCL uses {}", list(transports));
        if transports.keys().any(|t| t.contains("/read")) {
            why += &format!(" (read: GPU{to} reads the memory of GPU{from} directly)");
        }
        why += &match verdict {
            Verdict::Matches if used == "P2P" => ": right".to_owned(),
            Verdict::Matches => ": right, P2P is not used that far".to_owned(),
            Verdict::Below if used == "ind" => ": by way of another GPU".to_owned(),
            Verdict::Below => format!(": below what joins them{}", self.because(&["NCCL_P2P", "NCCL_SHM"])),
            _ => ": whether that is right is not known".to_owned(),
        };
        Judged { distance, used, verdict, why }
    }

    /// What NCCL uses from a GPU to the network over a device.
    pub fn net(&self, model: &Model, topology: &Topology, gpu: u32, device: &str) -> Judged {
        let distance = topology.gpu_to_nic(gpu, device);
        let head = format!("GPU{gpu}-{device}: {}", distance_words(distance));
        let Some(net) = self.nets.get(&(gpu, device.to_owned())) else { return self.nothing(distance, &head) };
        let transports: Vec<&str> = net.transports.keys().map(String::as_str).collect();
        let channels = counted(net.sends, "channel");
        let mut why = format!("{head}; NCCL uses {} ({channels} out, {} in)", transports.join(" and "), net.receives);
        if net.pxn {
            why += ", in part by way of another GPU that is near to it (PXN)";
        }
        let is_socket = net.transports.keys().any(|t| t.contains("/Socket"));
        let used = if net.gpu_direct { "GDR" } else { "NET" };
        let nearer = self.nearer(model, topology, gpu, device);
        let verdict = match distance {
            _ if is_socket => Verdict::NotJudged,
            Some(_) if nearer.is_some() => Verdict::Below,
            Some(d) if d.is_by_switch() && !net.gpu_direct => Verdict::Below,
            _ if net.gpu_direct => Verdict::Matches,
            _ => Verdict::NotJudged,
        };
        why += &match (verdict, nearer) {
            (Verdict::Below, Some((device, d))) => {
                format!(": far, {device} is nearer ({}){}", d.label(), self.because(&["NCCL_IB_HCA", "NCCL_NET"]))
            }
            (Verdict::Below, None) => {
                format!(": without GPUDirect RDMA, data goes through host memory{}", self.because(&["NCCL_NET_GDR"]))
            }
            (Verdict::Matches, _) => ": right".into(),
            _ if is_socket => ": TCP sockets".into(),
            _ => ": whether that is right is not known".into(),
        };
        Judged { distance, used, verdict, why }
    }

    /// A NIC that is up and near to a GPU, where NCCL uses one that is far from it. What leaves by way of another GPU is near to that one.
    pub fn nearer<'a>(&self, model: &Model, topology: &Topology<'a>, gpu: u32, device: &str) -> Option<(&'a str, Distance)> {
        let net = self.nets.get(&(gpu, device.to_owned()))?;
        nearer_nic(model, topology, gpu, topology.gpu_to_nic(gpu, device)).filter(|_| !net.pxn)
    }

    fn nothing(&self, distance: Option<Distance>, head: &str) -> Judged {
        let (verdict, why) = if self.seen {
            (Verdict::Unused, "NCCL has no channel between them")
        } else {
            (Verdict::NotSeen, "what NCCL uses is not known: no log has its channel lines, which NCCL_DEBUG=INFO prints")
        };
        Judged { distance, used: "", verdict, why: format!("{head}; {why}") }
    }

    fn because(&self, starts: &[&str]) -> String {
        let set = self.forbidden_by.iter().find(|set| starts.iter().any(|start| set.starts_with(start)));
        set.map_or(String::new(), |set| format!(" ({set})"))
    }

    /// Everything that is below what is there, in sentences.
    pub fn troubles(&self, model: &Model, topology: &Topology) -> Vec<String> {
        let pairs = self.pairs.keys().map(|(from, to)| self.pair(topology, *from, *to));
        let nets = self.nets.keys().map(|(gpu, device)| self.net(model, topology, *gpu, device));
        pairs.chain(nets).filter(|judged| judged.verdict == Verdict::Below).map(|judged| judged.why).collect()
    }
}

/// The host whose lines are of this node, and whether its name is ours: with others beside it, none is, unless it is.
fn host_of(model: &Model, routes: &Routes) -> Option<(Option<u64>, bool)> {
    let hosts: BTreeSet<Option<u64>> = routes.known.keys().map(|route| route.host).collect();
    // NCCL cuts its host's name at the first dot.
    let names = [model.host.as_str(), model.host.split('.').next().unwrap_or("")];
    let ours = names.iter().map(|name| Some(host_id(name))).find(|id| hosts.contains(id));
    match (ours, hosts.len()) {
        (Some(ours), _) => Some((ours, true)),
        (None, 1) => hosts.first().map(|host| (*host, host.is_none())),
        (None, _) => None,
    }
}

/// Which GPU and which device a line names.
pub(in crate::model) struct Placing<'a> {
    model: &'a Model,
    job: &'a Job,
    routes: &'a Routes,
    /// The host whose lines are about this node.
    pub host: Option<u64>,
}

impl<'a> Placing<'a> {
    /// `None`: the lines may be of several hosts, and none is known to be this one.
    pub fn of(model: &'a Model, job: &'a Job, routes: &'a Routes) -> Option<Placing<'a>> {
        host_of(model, routes).map(|(host, _)| Placing { model, job, routes, host })
    }

    /// The index of the GPU at an end.
    pub fn gpu(&self, end: End) -> Option<u32> {
        let gpus = &self.model.gpus;
        let at = |address| gpus.values().find(|gpu| gpu.is_at(address)).map(|gpu| gpu.index);
        match self.routes.address_of(self.host, end) {
            // A container that has some of the GPUs counts them from 0: the address tells which one it is.
            Some(Some(address)) if gpus.values().any(|gpu| gpu.info.bus_id.is_some()) => return at(address),
            Some(None) => return None,
            _ => {}
        }
        if end.gpu.is_none() {
            return self.job.ranks.get(&end.rank).and_then(|pid| self.model.gpu_of_pid(*pid));
        }
        let index = end.index().filter(|index| gpus.contains_key(index) || gpus.is_empty() && *index < 256);
        index.or_else(|| at(end.address()?))
    }

    /// The device of `IB/3(1)/GDRDMA`, by its name where a line gives it, and whether another rank's proxy sends.
    fn device(&self, net: &str) -> (String, bool) {
        let is_number = |part: &&str| part.split('(').next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let parts: Vec<&str> = net.split('/').collect();
        let Some(at) = parts.iter().rposition(is_number) else { return (net.to_owned(), false) };
        let network = parts[..at].join("/");
        let (number, pxn) = parts[at].split_once('(').map_or((parts[at], false), |(number, _)| (number, true));
        // The plugin for InfiniBand lists its devices as NCCL does.
        let list = if network.starts_with("IB") { "IB" } else { network.as_str() };
        let name = self.routes.devices.get(list).and_then(|names| names.get(number.parse::<usize>().ok()?));
        (name.cloned().unwrap_or_else(|| format!("{network}/{number}")), pxn)
    }
}

fn judge_pair(transport: &str, distance: Option<Distance>, p2p_read: Option<u32>) -> Verdict {
    if transport.starts_with("P2P/indirect") {
        return Verdict::Below;
    }
    if transport.starts_with("P2P") {
        return Verdict::Matches;
    }
    let refused = p2p_read.is_some_and(|status| status != 0);
    let is_shm = transport.starts_with("SHM") || transport == "direct shared memory";
    match distance {
        Some(Distance::Nvlink(_)) => Verdict::Below,
        Some(d) if d.is_by_switch() && !refused => Verdict::Below,
        // Beyond switches NCCL takes shared memory; the network within a node is never the best.
        Some(_) if is_shm => Verdict::Matches,
        Some(_) => Verdict::Below,
        None => Verdict::NotJudged,
    }
}

/// What a cell shows of a transport.
pub fn short(transport: &str) -> &'static str {
    match transport {
        t if t.starts_with("P2P/indirect") => "ind",
        t if t.starts_with("P2P") => "P2P",
        t if t.starts_with("SHM") || t == "direct shared memory" => "SHM",
        _ => "NET",
    }
}

/// A NIC that is up and nearer to the GPU than `distance`, by switches alone.
fn nearer_nic<'a>(model: &Model, topology: &Topology<'a>, gpu: u32, distance: Option<Distance>) -> Option<(&'a str, Distance)> {
    let distance = distance?;
    let is_up = |device: &str| model.ports.values().any(|p| p.info.device == device && p.link.now == Link::Up);
    let place = topology.gpus.get(&gpu)?;
    let others = topology.nics.iter().filter_map(|nic| Some((nic.device, place.distance(&nic.place)?)));
    others.filter(|(device, d)| *d < distance && d.is_by_switch() && !distance.is_by_switch() && is_up(device)).min_by_key(|(_, d)| *d)
}

/// `NV18: 18 NVLinks`
pub fn distance_words(distance: Option<Distance>) -> String {
    distance.map_or_else(|| format!("{UNKNOWN}: what joins them is not known"), |d| format!("{}: {}", d.label(), d.words()))
}

/// `P2P/CUMEM (24 channels)`
fn list(transports: &BTreeMap<String, u64>) -> String {
    let words: Vec<String> = transports.iter().map(|(transport, lines)| format!("{transport} ({})", counted(*lines, "channel"))).collect();
    words.join(" and ")
}
