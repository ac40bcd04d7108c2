//! How NCCL came up in a job, as its own lines say, each fact with the line that proves it.

mod checklist;
pub mod graphs;
pub mod routes;
pub mod trouble;
mod variables;

use super::Model;
use crate::base::clean;
use crate::base::severity::Severity;
use crate::base::time::Stamp;
use crate::base::units::counted;
use crate::logs::catalog;
use crate::logs::{CollectiveTimeout, FabricLine, Ofi, PathKind, PluginKind, PluginState, What};
use routes::{Route, Routes};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The bring-up lines of one file, or of all files of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bringup {
    /// `2.28.9+cuda13.0`
    pub nccl_versions: Distinct<String>,
    /// The interface that ranks find each other over: `eth0`.
    pub bootstraps: Distinct<String>,
    /// `Socket`, `IB`, `AWS Libfabric`
    pub networks: Distinct<String>,
    /// The driver's CUDA: `12.9`.
    pub drivers: Distinct<String>,
    /// Names, where the line has one.
    pub plugins: BTreeMap<(PluginKind, PluginState), Distinct<String>>,
    /// RDMA devices that NCCL took: `mlx5_0`.
    pub devices: Distinct<String>,
    /// All RDMA ports that one process took, of lines that are whole: `mlx5_0:1, mlx5_1:1`.
    pub ports: Distinct<String>,
    /// What they are: `IB`, `RoCE`.
    pub links: Distinct<String>,
    /// Interfaces that NCCL took for data over TCP.
    pub sockets: Distinct<String>,
    pub ofi: Distinct<Ofi>,
    /// Whether GPUDirect RDMA is there, per GPU and device; sockets left out.
    pub gpu_direct: Distinct<bool>,
    pub dma_buf: Option<Proof>,
    /// PXN and GPUDirect in the rings that were connected.
    pub connected: Distinct<(Option<bool>, Option<bool>)>,
    /// Every pair of GPUs of a node has direct P2P.
    pub all_direct: Distinct<bool>,
    /// What joins GPU to GPU, as NCCL's dump of the topology has it.
    pub gpu_links: BTreeMap<PathKind, Proof>,
    /// Variables that NCCL says do nothing, with its word for it; the first [`MAX_NAMES`].
    pub env_unused: BTreeMap<String, (&'static str, Proof)>,
    /// Lines that tell of an error, whoever prints them.
    pub errors: u64,
    pub first_error: Option<Proof>,
    /// Where RAS listens: `127.0.0.1:28028`.
    pub ras: Distinct<String>,
    /// `NCCL_*` variables that NCCL says it took from its environment, by name; the first [`MAX_NAMES`].
    pub env: BTreeMap<String, Distinct<String>>,
    /// Sizes of communicators.
    pub layouts: Distinct<Layout>,
    /// Whether communicators use NVLink between hosts.
    pub mnnvl: Distinct<bool>,
    /// Where GPUs stand in the NVLink fabric.
    pub fabrics: Distinct<FabricLine>,
    /// Channels for collectives, per communicator.
    pub channels: Distinct<u32>,
    /// By transport without device numbers: `P2P/CUMEM`, `NET/AWS Libfabric/GDRDMA`; the first [`MAX_KINDS`].
    pub paths: BTreeMap<String, Path>,
    /// Channel lines of transports beyond those.
    pub other_paths: u64,
    /// The same by pairs of ranks.
    pub routes: Routes,
    /// By hash, as in [`Model::comms`]; the first [`MAX_COMMS`].
    pub inits: BTreeMap<u64, InitLines>,
    /// Of communicators without an id, as NCCL up to 2.17 has them, by their size: the ranks that are up, and the newest line that says so.
    pub nameless: BTreeMap<u32, (BTreeSet<u32>, Option<Proof>)>,
    /// Timeout of PyTorch's watchdog for the group of all ranks, ms.
    pub watchdog_ms: Distinct<u64>,
    /// Lines of level WARN.
    pub warnings: u64,
    pub first_warning: Option<Proof>,
    pub newest_warning: Option<Proof>,
    /// The first line of level INFO that tells of a trouble of the rule on WARN lines.
    pub first_noted: Option<Proof>,
    /// The first line of level INFO: where there is one, WARN lines are printed too.
    pub first_info: Option<Proof>,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Proof {
    pub file: u32,
    /// From 1, where lines were counted.
    pub line: Option<u64>,
    pub at: Stamp,
    /// Cleaned; up to 300 characters.
    pub text: Arc<str>,
}

impl Proof {
    /// In one file the lines tell, whatever times they carry.
    pub fn is_before(&self, other: &Proof) -> bool {
        match (self.line, other.line) {
            (Some(line), Some(known)) if self.file == other.file => line < known,
            _ => self.at < other.at,
        }
    }
}

/// The different values that lines gave for one thing, the first ones, in the order in which they came.
#[derive(Clone, Debug, PartialEq)]
pub struct Distinct<T> {
    pub said: Vec<Said<T>>,
    /// Lines with a value beyond the [`MAX_VALUES`] kept.
    pub others: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Said<T> {
    pub value: T,
    /// How many lines say so.
    pub lines: u64,
    /// The first of them.
    pub proof: Proof,
    /// Who printed it, the first [`MAX_WHO`], sorted.
    pub who: Vec<Who>,
}

/// Who wrote a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    pub file: u32,
    pub rank: Option<u32>,
    /// Of the host's name: containers of several hosts have the same pids.
    pub host: Option<u64>,
    pub pid: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub nranks: u32,
    pub nnodes: u32,
}

/// Channels over one transport. The network prints a line at either end, P2P and SHM only at the sender's.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    pub sends: u64,
    pub receives: u64,
    pub proof: Proof,
}

/// Lines about the creation of one communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InitLines {
    pub first_start: Option<Proof>,
    pub newest_complete: Option<Proof>,
}

/// One row of the NCCL pane.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: &'static str,
    pub label: &'static str,
    pub state: Seen,
    /// Empty where nothing is known.
    pub value: String,
    pub proof: Option<Proof>,
    /// What to do, where it does not pass.
    pub advice: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Pass,
    /// A person should look at it.
    Warn,
    /// It costs the job its speed, or its life.
    Fail,
    /// No line says.
    NotSeen,
}

pub const MAX_VALUES: usize = 8;
/// Ports of one process that are kept.
const MAX_PORTS: usize = 32;
pub const MAX_NAMES: usize = 128;
pub const MAX_KINDS: usize = 32;
const MAX_RANKS: usize = 1 << 17;
pub const MAX_COMMS: usize = 256;
pub const MAX_WHO: usize = 64;
const MAX_PROOF: usize = 300;
/// A value is a name or a short list.
const MAX_VALUE: usize = 200;
impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Distinct { said: Vec::new(), others: 0 }
    }
}

impl<T: PartialEq> Distinct<T> {
    fn add(&mut self, value: T, lines: u64, proof: &Proof, who: &[Who]) {
        let room = self.said.len() < MAX_VALUES;
        match self.said.iter_mut().find(|s| s.value == value) {
            Some(said) => {
                said.lines += lines;
                for one in who {
                    if let Err(at) = said.who.binary_search(one)
                        && said.who.len() < MAX_WHO
                    {
                        said.who.insert(at, *one);
                    }
                }
                if proof.is_before(&said.proof) {
                    said.proof = proof.clone();
                }
            }
            None if room => self.said.push(Said { value, lines, proof: proof.clone(), who: who.to_vec() }),
            None => self.others += lines,
        }
    }

    pub fn first(&self) -> Option<&Said<T>> {
        self.said.first()
    }

    /// All lines agree, as far as there are any.
    pub fn is_one(&self) -> bool {
        self.said.len() <= 1 && self.others == 0
    }
}

impl<T: PartialEq + Clone> Distinct<T> {
    fn merge(&mut self, other: &Distinct<T>) {
        for s in &other.said {
            self.add(s.value.clone(), s.lines, &s.proof, &s.who);
        }
        self.others += other.others;
    }

    /// `a`, or `a (7 lines), b (1 line)`.
    fn words(&self, word: impl Fn(&T) -> String) -> String {
        if self.is_one() {
            return self.first().map_or(String::new(), |s| word(&s.value));
        }
        let said = self.said.iter().map(|s| format!("{} ({})", word(&s.value), counted(s.lines, "line")));
        let others = (self.others > 0).then(|| format!("others ({})", counted(self.others, "line")));
        said.chain(others).collect::<Vec<_>>().join(", ")
    }
}

impl Path {
    /// Channels of one direction.
    pub fn channels(&self) -> u64 {
        self.sends.max(self.receives)
    }
}

/// Stands for the name of a host.
pub fn host_id(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// The transport without what differs from device to device: `NET/IB/3(1)/GDRDMA` is `NET/IB/GDRDMA`.
pub fn kind(transport: &str) -> String {
    let device = |part: &str| part.split(['(', '[']).next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let parts: Vec<&str> = transport.split('/').filter(|part| !device(part)).collect();
    parts.join("/")
}

fn earlier(known: &mut Option<Proof>, other: &Option<Proof>) {
    if let Some(p) = other
        && known.as_ref().is_none_or(|k| p.is_before(k))
    {
        *known = Some(p.clone());
    }
}

fn later(known: &mut Option<Proof>, other: &Option<Proof>) {
    if let Some(p) = other
        && known.as_ref().is_none_or(|k| p.at >= k.at)
    {
        *known = Some(p.clone());
    }
}

impl Bringup {
    /// Notes what a line says, if it is about bring-up; `true` then.
    pub(super) fn apply(&mut self, what: &What, who: Who, line: Option<u64>, at: Stamp, text: &str) -> bool {
        let file = who.file;
        let proof = || Proof { file, line, at, text: clean::clip(text, MAX_PROOF).into() };
        let short = |value: &str| clean::clip(value, MAX_VALUE).into_owned();
        let who = &[who];
        if is_error(what) {
            self.errors += 1;
            self.first_error.get_or_insert_with(proof);
        }
        self.routes.apply(what, who[0], text, proof);
        match what {
            What::NcclVersion { version, cuda } => {
                let cuda = cuda.as_ref().map_or(String::new(), |c| format!("+cuda{c}"));
                self.nccl_versions.add(short(&format!("{version}{cuda}")), 1, &proof(), who);
                return true;
            }
            What::NcclWarn { .. } => {
                self.warnings += 1;
                self.first_warning.get_or_insert_with(proof);
                self.newest_warning = Some(proof());
                return true;
            }
            What::Signed { signature, tried: true, .. } if signature.rule == "nccl-warn" => {
                self.first_noted.get_or_insert_with(proof);
            }
            What::CudaDriver { version } => self.drivers.add(short(version), 1, &proof(), who),
            What::Bootstrap { interface, .. } => self.bootstraps.add(short(interface), 1, &proof(), who),
            What::Network { name } => self.networks.add(short(name), 1, &proof(), who),
            What::Plugin(p) => {
                let name = p.name.as_deref().map_or(String::new(), short);
                self.plugins.entry((p.kind, p.state)).or_default().add(name, 1, &proof(), who);
            }
            What::NetDevices(d) => {
                let list = if d.transport == "Socket" { &mut self.sockets } else { &mut self.devices };
                d.devices.iter().for_each(|device| list.add(short(&device.name), 1, &proof(), who));
                if d.transport == "IB" && d.whole && !d.devices.is_empty() {
                    let names = d.devices.iter().take(MAX_PORTS).filter_map(|device| Some(format!("{}:{}", device.name, device.port?)));
                    self.ports.add(names.collect::<Vec<_>>().join(", "), 1, &proof(), who);
                }
                let links = d.devices.iter().filter(|_| d.transport != "Socket").map(|device| &device.link);
                links.for_each(|link| self.links.add(short(link), 1, &proof(), who));
            }
            What::Ofi(ofi) => self.ofi.add(ofi.clone(), 1, &proof(), who),
            What::GpuDirect { enabled, .. } if !text.contains("NET/Socket") => self.gpu_direct.add(*enabled, 1, &proof(), who),
            What::DmaBuf => {
                self.dma_buf.get_or_insert_with(proof);
            }
            What::Connected { pxn, gdr } => self.connected.add((*pxn, *gdr), 1, &proof(), who),
            What::P2pType { all_direct, .. } => self.all_direct.add(*all_direct, 1, &proof(), who),
            What::GraphPaths(paths) if paths.from.starts_with("GPU/") => {
                for path in paths.to.iter().filter(|p| p.to.starts_with("GPU/")) {
                    self.gpu_links.entry(path.kind).or_insert_with(proof);
                }
            }
            What::EnvUnused { name, how } if self.env_unused.len() < MAX_NAMES => {
                self.env_unused.entry(short(name)).or_insert_with(|| (how, proof()));
            }
            What::EnvInvalid { name, .. } if self.env_unused.len() < MAX_NAMES => {
                self.env_unused.entry(short(name)).or_insert_with(|| ("not valid", proof()));
            }
            What::RasListening { address } => self.ras.add(short(address), 1, &proof(), who),
            What::EnvSet { name, value } => {
                let name = short(name);
                if self.env.len() < MAX_NAMES || self.env.contains_key(&name) {
                    self.env.entry(name).or_default().add(short(value), 1, &proof(), who);
                }
            }
            What::Layout { nranks, nnodes, mnnvl, .. } => {
                self.layouts.add(Layout { nranks: *nranks, nnodes: *nnodes }, 1, &proof(), who);
                mnnvl.iter().for_each(|used| self.mnnvl.add(*used, 1, &proof(), who));
            }
            What::Clique { used, .. } => self.mnnvl.add(*used, 1, &proof(), who),
            What::Fabric(fabric) => self.fabrics.add(fabric.clone(), 1, &proof(), who),
            What::Channels { coll, .. } => self.channels.add(*coll, 1, &proof(), who),
            What::Channel { transport, receive, .. } => {
                let (sends, receives) = if *receive { (0, 1) } else { (1, 0) };
                self.path(&short(&kind(transport)), sends, receives, proof);
            }
            What::Init(init) if init.comm_id.is_none() => {
                if init.complete && (self.nameless.len() < MAX_KINDS || self.nameless.contains_key(&init.nranks)) {
                    let (ranks, newest) = self.nameless.entry(init.nranks).or_default();
                    if ranks.len() < MAX_RANKS {
                        ranks.insert(init.rank);
                    }
                    *newest = Some(proof());
                }
            }
            What::Init(init) => {
                if let Some(hash) = init.comm_id
                    && (self.inits.len() < MAX_COMMS || self.inits.contains_key(&hash))
                {
                    let lines = self.inits.entry(hash).or_default();
                    if init.complete {
                        lines.newest_complete = Some(proof());
                    } else {
                        lines.first_start.get_or_insert_with(proof);
                    }
                }
            }
            // No lines of NCCL: they do not show that NCCL prints any.
            What::WatchdogTimeout { ms } => {
                self.watchdog_ms.add(*ms, 1, &proof(), who);
                return true;
            }
            What::CollectiveTimeout(CollectiveTimeout { timeout_ms: Some(ms), .. }) => {
                self.watchdog_ms.add(*ms, 1, &proof(), who);
                return true;
            }
            What::Ring { .. } | What::Trees { .. } | What::OfiRail { .. } => {}
            _ => return is_error(what),
        }
        self.first_info.get_or_insert_with(proof);
        true
    }

    /// Further channel lines of a transport that is known, and of a route.
    pub(super) fn more_channels(&mut self, transport: &str, receive: bool, route: Option<&Route>, lines: u64) {
        self.routes.more(route, lines);
        if let Some(path) = self.paths.get_mut(kind(transport).as_str()) {
            if receive { path.receives += lines } else { path.sends += lines }
        }
    }

    fn path(&mut self, kind: &str, sends: u64, receives: u64, proof: impl FnOnce() -> Proof) {
        let room = self.paths.len() < MAX_KINDS;
        match self.paths.get_mut(kind) {
            Some(path) => {
                path.sends += sends;
                path.receives += receives;
            }
            None if room => {
                self.paths.insert(kind.to_owned(), Path { sends, receives, proof: proof() });
            }
            None => self.other_paths += sends + receives,
        }
    }

    /// Adds what another file of the same job says.
    pub(crate) fn merge(&mut self, other: &Bringup) {
        self.nccl_versions.merge(&other.nccl_versions);
        self.bootstraps.merge(&other.bootstraps);
        self.networks.merge(&other.networks);
        self.drivers.merge(&other.drivers);
        for (key, names) in &other.plugins {
            self.plugins.entry(*key).or_default().merge(names);
        }
        self.devices.merge(&other.devices);
        self.ports.merge(&other.ports);
        self.links.merge(&other.links);
        self.sockets.merge(&other.sockets);
        self.ofi.merge(&other.ofi);
        self.gpu_direct.merge(&other.gpu_direct);
        earlier(&mut self.dma_buf, &other.dma_buf);
        self.connected.merge(&other.connected);
        self.all_direct.merge(&other.all_direct);
        for (kind, proof) in &other.gpu_links {
            self.gpu_links.entry(*kind).or_insert_with(|| proof.clone());
        }
        for (name, said) in &other.env_unused {
            if self.env_unused.len() < MAX_NAMES {
                self.env_unused.entry(name.clone()).or_insert_with(|| said.clone());
            }
        }
        self.routes.merge(&other.routes);
        self.errors += other.errors;
        earlier(&mut self.first_error, &other.first_error);
        self.ras.merge(&other.ras);
        for (name, values) in &other.env {
            if self.env.len() < MAX_NAMES || self.env.contains_key(name) {
                self.env.entry(name.clone()).or_default().merge(values);
            }
        }
        self.layouts.merge(&other.layouts);
        self.mnnvl.merge(&other.mnnvl);
        self.fabrics.merge(&other.fabrics);
        self.channels.merge(&other.channels);
        for (kind, path) in &other.paths {
            self.path(kind, path.sends, path.receives, || path.proof.clone());
        }
        self.other_paths += other.other_paths;
        for (size, (ranks, newest)) in &other.nameless {
            if self.nameless.len() < MAX_KINDS || self.nameless.contains_key(size) {
                let (known, line) = self.nameless.entry(*size).or_default();
                known.extend(ranks);
                *line = line.take().or_else(|| newest.clone());
            }
        }
        for (&hash, lines) in &other.inits {
            if self.inits.len() < MAX_COMMS || self.inits.contains_key(&hash) {
                let known = self.inits.entry(hash).or_default();
                earlier(&mut known.first_start, &lines.first_start);
                later(&mut known.newest_complete, &lines.newest_complete);
            }
        }
        self.watchdog_ms.merge(&other.watchdog_ms);
        self.warnings += other.warnings;
        earlier(&mut self.first_warning, &other.first_warning);
        later(&mut self.newest_warning, &other.newest_warning);
        earlier(&mut self.first_noted, &other.first_noted);
        earlier(&mut self.first_info, &other.first_info);
    }

    /// Lines about plugins for the network, of one kind.
    fn net_plugin(&self, state: PluginState) -> Option<&Distinct<String>> {
        self.plugins.get(&(PluginKind::Net, state))
    }

    /// NCCL's own count of nodes says nothing: a node is what its ranks reach without the network, and without P2P and shared memory that
    /// is each GPU by itself.
    pub fn counts_gpus_as_nodes(&self) -> bool {
        ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"].iter().all(|name| self.env_value(name).is_some_and(|(value, _)| value == "1"))
    }

    /// All communicators whose layout is known are inside one node.
    fn is_one_node(&self) -> bool {
        let layouts = &self.layouts;
        !layouts.said.is_empty() && layouts.others == 0 && layouts.said.iter().all(|l| l.value.nnodes == 1)
    }

    /// Some communicator goes over several nodes.
    fn is_many_nodes(&self) -> bool {
        !self.counts_gpus_as_nodes() && self.layouts.said.iter().any(|l| l.value.nnodes > 1)
    }

    /// The value of a variable that NCCL reports to have taken, with the line.
    pub fn env_value(&self, name: &str) -> Option<(&str, &Proof)> {
        self.env.get(name)?.first().map(|s| (s.value.as_str(), &s.proof))
    }
}

/// It tells of an error, by itself or by the catalogue of texts.
fn is_error(what: &What) -> bool {
    match what {
        What::Exception(_) | What::CudaError { .. } | What::CudaOom { .. } | What::CollectiveTimeout(_) | What::WorkerFailed { .. } => true,
        What::Signed { signature, .. } => signature.severity >= Severity::Error,
        What::NcclWarn { site, text } => catalog::find_warn(site.as_deref(), text).is_some_and(|s| s.severity >= Severity::Error),
        _ => false,
    }
}

impl Model {
    /// What all logs of a job say about its bring-up. Put together anew each time, so that a file that turns out to be another job's
    /// takes along what it said.
    pub fn bringup_of(&self, job: &str) -> Bringup {
        let mut all = Bringup::default();
        self.files_of(job).for_each(|f| all.merge(&f.bringup));
        all
    }
}
