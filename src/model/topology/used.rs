//! What NCCL made of the topology, by the channel lines of logs: over what each pair of GPUs talks, which NIC each GPU uses, and whether
//! that is the best that there is.

use super::{Distance, Topology, UNKNOWN};
use crate::base::units::counted;
use crate::logs::{Ofi, PathKind};
use crate::model::Model;
use crate::model::bringup::graphs::{Graph, Ring, Tree};
use crate::model::bringup::routes::{End, Route, Routes, Seen};
use crate::model::bringup::{Bringup, Distinct, Proof, host_id, kind};
use crate::model::gpu::PciAddress;
use crate::model::job::Job;
use crate::model::port::Link;
use crate::observe::port::PortKind;
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
    /// The first of the lines.
    pub proof: Option<Proof>,
}

/// Channels of all communicators in which one GPU is beside another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Behind it in a ring.
    pub ring: u64,
    /// Above or below it in a tree.
    pub tree: u64,
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
    /// The first line of each pair.
    pub proofs: BTreeMap<(u32, u32), Proof>,
    /// From one GPU to the next in rings and trees.
    pub beside: BTreeMap<(u32, u32), Beside>,
    /// Of the largest communicator, as ranks.
    pub rings: Vec<Ring>,
    pub trees: Vec<Tree>,
    /// Variables that NCCL took and that forbid a transport.
    pub forbidden_by: Vec<String>,
    /// Devices that NCCL or its plugin lists: it may use them.
    pub listed: BTreeSet<String>,
    /// A variable by which the user chose NICs.
    pub chosen_by: Option<String>,
    /// All GPUs are joined by NVLink, as NCCL's own dump of the topology shows, or NVML of all pairs that it knows.
    pub all_nvlink: bool,
    /// Lines whose GPUs are none of this node, as far as is known.
    pub unplaced: u64,
    /// The lines name another host: they may be of another machine.
    pub of_another_host: bool,
}

/// What a job uses, and what of it is below what is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InUse {
    pub used: Used,
    /// In sentences.
    pub troubles: Vec<String>,
}

impl InUse {
    pub fn of(model: &Model, job: &Job) -> InUse {
        let used = Used::of(model, job, &model.bringup_of(&job.id));
        let troubles = used.troubles(model, &Topology::of(model));
        InUse { used, troubles }
    }
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
const FORBIDDING: &[&str] = &["NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_DIRECT_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NET_GDR_LEVEL"];

/// The variable by which the user chose NICs, by NCCL's documentation of its environment. NCCL_NET and its levels choose none; what
/// NCCL_IB_HCA leaves out with `^` neither.
fn chosen_by(value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let names = ["NCCL_IB_HCA", "NCCL_GRAPH_FILE", "NCCL_NET_FORCE_MERGE"];
    let lists = names.into_iter().filter_map(|name| Some((name, value(name)?))).find(|(_, list)| !list.starts_with('^'));
    // A ring then leaves a node by the NIC that it came in by, and no other GPU may send for the last one.
    let same_nic = || value("NCCL_CROSS_NIC").is_some_and(|v| v == "0") && value("NCCL_PXN_DISABLE").is_some_and(|v| v == "1");
    let lists = lists.map(|(name, list)| format!("{name}={list}"));
    lists.or_else(|| same_nic().then(|| "NCCL_CROSS_NIC=0, NCCL_PXN_DISABLE=1".to_owned()))
}

impl Used {
    pub fn of(model: &Model, job: &Job, bringup: &Bringup) -> Used {
        let routes = &bringup.routes;
        let mut used = Used::default();
        if let Some(largest) = routes.graphs.largest() {
            (used.rings, used.trees) = (largest.rings.clone(), largest.tree_list());
        }
        let value = |name: &str| bringup.env.get(name).and_then(Distinct::first).map(|said| said.value.clone());
        let forbids = |name: &&str| value(name).filter(|v| v != "0").map(|v| format!("{name}={v}"));
        used.forbidden_by = FORBIDDING.iter().filter_map(forbids).collect();
        used.chosen_by = chosen_by(value);
        let links = &bringup.gpu_links;
        let pairs = model.topology.as_ref().map(|topology| topology.pairs.as_slice()).filter(|pairs| !pairs.is_empty());
        used.all_nvlink = links.contains_key(&PathKind::Nvl) && links.keys().all(|kind| *kind <= PathKind::Nvb)
            || pairs.is_some_and(|pairs| pairs.iter().all(|pair| pair.nvlinks.is_some_and(|n| n > 0)));
        let Some((host, is_ours)) = host_of(model, routes) else { return used };
        used.of_another_host = !is_ours;
        let place = Placing { model, job, routes, ofi: &bringup.ofi, host };
        let of_plugin = routes.devices_with_rails(host).filter_map(|device| place.devices_of_plugin(device)).flatten();
        used.listed = routes.devices.values().flatten().cloned().chain(of_plugin).collect();
        let one_node = bringup.layouts.said.iter().all(|l| l.value.nnodes == 1) && !bringup.layouts.said.is_empty();
        for (route, seen) in routes.known.iter().filter(|(route, _)| route.host == host) {
            used.seen = true;
            used.take(&place, route, seen, one_node);
        }
        routes.graphs.all().for_each(|graph| used.take_graph(&place, graph));
        used
    }

    /// Which GPUs are beside one another in rings and trees.
    fn take_graph(&mut self, place: &Placing, graph: &Graph) {
        let mut gpus: BTreeMap<u32, Option<u32>> = BTreeMap::new();
        let mut pair = |a: u32, b: u32| {
            let mut gpu = |rank| *gpus.entry(rank).or_insert_with(|| place.gpu_in(graph, rank));
            gpu(a).zip(gpu(b)).filter(|(a, b)| a != b)
        };
        for (from, to, channels) in graph.ring_steps() {
            if let Some(pair) = pair(from, to) {
                self.beside.entry(pair).or_default().ring += channels;
            }
        }
        for ((up, down), channels) in graph.edges() {
            if let Some((up, down)) = pair(up, down) {
                let channels = u64::from(channels.count_ones());
                self.beside.entry((up, down)).or_default().tree += channels;
                self.beside.entry((down, up)).or_default().tree += channels;
            }
        }
    }

    fn take(&mut self, place: &Placing, route: &Route, seen: &Seen, one_node: bool) {
        let lines = seen.lines;
        let (from, to) = (place.gpu(route.from), place.gpu(route.to));
        let Some(net) = route.transport.strip_prefix("NET/").or_else(|| route.transport.strip_prefix("COLLNET/")) else {
            // Over NVLink between hosts the other GPU may be anywhere.
            let is_here = route.transport != "P2P/MNNVL" || one_node || place.job.ranks.contains_key(&route.to.rank);
            match (from, to) {
                (Some(from), Some(to)) if from != to && is_here => {
                    self.add_pair((from, to), route.transport.clone(), seen);
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
            self.add_pair((from, to), kind(&route.transport), seen);
        }
        let (devices, pxn) = place.devices(net);
        let direct = route.transport.contains("/GDRDMA");
        for device in devices {
            let known = self.nets.entry((gpu, device)).or_insert(NetUse { gpu_direct: true, ..NetUse::default() });
            *known.transports.entry(kind(&route.transport)).or_default() += lines;
            *(if route.receive { &mut known.receives } else { &mut known.sends }) += lines;
            known.gpu_direct &= direct;
            known.pxn |= pxn;
            keep_first(&mut known.proof, &seen.proof);
        }
    }

    fn add_pair(&mut self, pair: (u32, u32), transport: String, seen: &Seen) {
        *self.pairs.entry(pair).or_default().entry(transport).or_default() += seen.lines;
        let known = self.proofs.entry(pair).or_insert_with(|| seen.proof.clone());
        if seen.proof.is_before(known) {
            *known = seen.proof.clone();
        }
    }

    /// What joins two GPUs, as far as it decides over what they should talk.
    pub fn joined(&self, topology: &Topology, from: u32, to: u32) -> Option<Distance> {
        topology.gpu_to_gpu(from, to).or(self.all_nvlink.then_some(Distance::Nvlink(1)))
    }

    /// How the transports of a pair stand to what joins the two: the worst of them, as cells show it.
    pub fn judge(&self, topology: &Topology, from: u32, to: u32) -> (Verdict, &'static str) {
        let joined = self.joined(topology, from, to);
        let p2p = topology.pair(from, to).and_then(|p| p.p2p_read);
        let transports = self.pairs.get(&(from, to)).into_iter().flat_map(|transports| transports.keys());
        transports.map(|t| (judge_pair(t, joined, p2p), short(t))).max().unwrap_or((Verdict::Unused, ""))
    }

    /// What NCCL uses from one GPU to another.
    pub fn pair(&self, topology: &Topology, from: u32, to: u32) -> Judged {
        let distance = topology.gpu_to_gpu(from, to);
        let is_like_all = distance.is_none() && self.all_nvlink;
        let words = if is_like_all { "NVLink, like all GPUs of this node".to_owned() } else { distance_words(distance) };
        let head = format!("GPU{from}-GPU{to}: {words}");
        let Some(transports) = self.pairs.get(&(from, to)) else { return self.nothing(distance, &head) };
        let (verdict, used) = self.judge(topology, from, to);
        let mut why = format!("{head}; NCCL uses {}", list(transports));
        if transports.keys().any(|t| t.contains("/read")) {
            why += &format!(" (read: GPU{to} reads the memory of GPU{from} directly)");
        }
        why += &match verdict {
            Verdict::Matches if used == "P2P" => ": the fastest way".to_owned(),
            Verdict::Matches => ": as it should, P2P is not used that far".to_owned(),
            Verdict::Below if used == "ind" => ": by way of another GPU".to_owned(),
            Verdict::Below => format!(": slower than the link between them{}", self.because(&["NCCL_P2P", "NCCL_SHM"])),
            _ => ": whether there is a faster way is not known".to_owned(),
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
                let chosen = self.chosen_by.as_ref().map_or(String::new(), |set| format!(" ({set})"));
                format!(": far, {device} is nearer ({}){chosen}", d.label())
            }
            (Verdict::Below, None) => {
                format!(": without GPUDirect RDMA, data goes through host memory{}", self.because(&["NCCL_NET_GDR"]))
            }
            (Verdict::Matches, _) => ": the nearest way".into(),
            _ if is_socket => ": TCP sockets".into(),
            _ => ": whether there is a faster way is not known".into(),
        };
        Judged { distance, used, verdict, why }
    }

    /// A NIC that is up and near to a GPU, where NCCL uses one that is far from it. What leaves by way of another GPU is near to that one.
    pub fn nearer<'a>(&self, model: &Model, topology: &Topology<'a>, gpu: u32, device: &str) -> Option<(&'a str, Distance)> {
        let net = self.nets.get(&(gpu, device.to_owned()))?;
        nearer_nic(model, topology, gpu, topology.gpu_to_nic(gpu, device)).filter(|_| !net.pxn)
    }

    /// Beside which GPUs one is in rings and trees, in words.
    pub fn beside_words(&self, gpu: u32) -> Vec<(&'static str, String)> {
        let on = |channels: u64| counted(channels, "channel");
        let steps = self.beside.iter().filter(|((from, to), beside)| beside.ring > 0 && (*from == gpu || *to == gpu));
        let step = |((from, to), beside): (&(u32, u32), &Beside)| match *from == gpu {
            true => format!("to GPU{to} on {}", on(beside.ring)),
            false => format!("from GPU{from} on {}", on(beside.ring)),
        };
        let trees = self.beside.range((gpu, 0)..=(gpu, u32::MAX)).filter(|(_, beside)| beside.tree > 0);
        let rings: Vec<String> = steps.map(step).collect();
        let trees: Vec<String> = trees.map(|((_, to), beside)| format!("GPU{to} on {}", on(beside.tree))).collect();
        let all = [("rings", rings), ("trees", trees)];
        all.into_iter().filter(|(_, pairs)| !pairs.is_empty()).map(|(of, pairs)| (of, pairs.join(", "))).collect()
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

fn keep_first(known: &mut Option<Proof>, proof: &Proof) {
    if known.as_ref().is_none_or(|known| proof.is_before(known)) {
        *known = Some(proof.clone());
    }
}

/// The host whose lines are of this node, and whether its name is ours: with others beside it, none is, unless it is.
fn host_of(model: &Model, routes: &Routes) -> Option<(Option<u64>, bool)> {
    let mut hosts: BTreeSet<Option<u64>> = routes.known.keys().map(|route| route.host).collect();
    // Before the first collective there may be no channel.
    if hosts.is_empty() {
        hosts = routes.graphs.all().flat_map(Graph::seats).map(|seat| seat.host).collect();
    }
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
    /// What aws-ofi-nccl prints of itself.
    ofi: &'a Distinct<Ofi>,
    /// The host whose lines are about this node.
    pub host: Option<u64>,
}

impl<'a> Placing<'a> {
    /// `None`: the lines may be of several hosts, and none is known to be this one.
    pub fn of(model: &'a Model, job: &'a Job, bringup: &'a Bringup) -> Option<Placing<'a>> {
        let routes = &bringup.routes;
        host_of(model, routes).map(|(host, _)| Placing { model, job, routes, ofi: &bringup.ofi, host })
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
        self.by_index(end).or_else(|| at(end.address()?))
    }

    /// The GPU of a rank of a communicator, if it is one of this node.
    fn gpu_in(&self, graph: &Graph, rank: u32) -> Option<u32> {
        let gpus = &self.model.gpus;
        match graph.seat(rank) {
            Some(seat) => {
                let seat = seat.filter(|seat| seat.host == self.host)?;
                let has_addresses = gpus.values().any(|gpu| gpu.info.bus_id.is_some());
                match seat.address.filter(|_| has_addresses) {
                    Some(address) => gpus.values().find(|gpu| gpu.is_at(address)).map(|gpu| gpu.index),
                    None => self.by_index(seat.end),
                }
            }
            // No line tells the communicator: what channels tell of the rank, if they agree.
            None if graph.nranks.is_none() => {
                let of_host = self.routes.known.keys().filter(|route| route.host == self.host);
                let ends: BTreeSet<End> = of_host.flat_map(|route| [route.from, route.to]).filter(|end| end.rank == rank).collect();
                let end = ends.first().filter(|_| ends.len() == 1);
                end.map_or_else(|| self.job.ranks.get(&rank).and_then(|pid| self.model.gpu_of_pid(*pid)), |end| self.gpu(*end))
            }
            None => None,
        }
    }

    fn by_index(&self, end: End) -> Option<u32> {
        let gpus = &self.model.gpus;
        end.index().filter(|index| gpus.contains_key(index) || gpus.is_empty() && *index < 256)
    }

    /// The device of `IB/3(1)/GDRDMA`, by its name where a line gives it, and whether another rank's proxy sends. aws-ofi-nccl joins several
    /// devices to one.
    fn devices(&self, net: &str) -> (Vec<String>, bool) {
        let is_number = |part: &&str| part.split('(').next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let parts: Vec<&str> = net.split('/').collect();
        let Some(at) = parts.iter().rposition(is_number) else { return (vec![net.to_owned()], false) };
        let network = parts[..at].join("/");
        let (number, pxn) = parts[at].split_once('(').map_or((parts[at], false), |(number, _)| (number, true));
        // The plugin for InfiniBand lists its devices as NCCL does.
        let list = if network.starts_with("IB") { "IB" } else { network.as_str() };
        let name = self.routes.devices.get(list).and_then(|names| names.get(number.parse::<usize>().ok()?));
        let by_list = name.map(|name| vec![name.clone()]);
        let by_plugin = || self.devices_of_plugin(number.parse().ok()?).filter(|_| network.contains("Libfabric"));
        (by_list.or_else(by_plugin).unwrap_or_else(|| vec![format!("{network}/{number}")]), pxn)
    }

    /// The devices behind a number of aws-ofi-nccl. With its protocol RDMA it numbers its groups of NICs, and lists them; with SENDRECV the
    /// order is that of libfabric, which nothing tells unless there is one device.
    fn devices_of_plugin(&self, number: u32) -> Option<Vec<String>> {
        let ports = &self.model.ports;
        let is_said = |is: &dyn Fn(&Ofi) -> bool| self.ofi.said.iter().any(|said| is(&said.value));
        if is_said(&|ofi| matches!(ofi, Ofi::Protocol { name, .. } if name == "SENDRECV")) {
            let mut efas = ports.values().filter(|port| port.info.kind == PortKind::Efa).map(|port| &port.info.device);
            let only = efas.next().filter(|_| efas.next().is_none() && number == 0)?;
            return is_said(&|ofi| matches!(ofi, Ofi::Provider { nics: 1, .. })).then(|| vec![only.clone()]);
        }
        let at = |address: &PciAddress| {
            let mut ports = ports.values().filter(|port| port.info.bus_id.as_deref().and_then(PciAddress::parse) == Some(*address));
            ports.next().map(|port| port.info.device.clone())
        };
        self.routes.rails_of(self.host, number)?.iter().map(at).collect()
    }
}

/// Whether two GPUs of a node talk over what joins them. `p2p_read` is NVML's answer whether one may read the memory of the other: 0 is yes.
pub fn judge_pair(transport: &str, distance: Option<Distance>, p2p_read: Option<u32>) -> Verdict {
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
        // Whether P2P works through a switch, only NVML knows.
        Some(d) if d.is_by_switch() && p2p_read.is_none() => Verdict::NotJudged,
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
