//! How NCCL came up in a job, as its own lines say, each fact with the line that proves it.

mod checklist;
mod names;
pub mod trouble;

use super::Model;
use crate::base::severity::Severity;
use crate::text::signature;
use crate::text::{Ofi, PathKind, PluginKind, PluginState, What, clean};
use crate::time::Stamp;
use crate::units::counted;
use std::collections::BTreeMap;
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
    /// Channels for collectives, per communicator.
    pub channels: Distinct<u32>,
    /// By transport without device numbers: `P2P/CUMEM`, `NET/AWS Libfabric/GDRDMA`; the first [`MAX_KINDS`].
    pub paths: BTreeMap<String, Path>,
    /// Channel lines of transports beyond those.
    pub other_paths: u64,
    /// By hash, as in [`Model::comms`]; the first [`MAX_COMMS`].
    pub inits: BTreeMap<u64, InitLines>,
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
    fn is_before(&self, other: &Proof) -> bool {
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
    /// Who said so, the first [`MAX_WHO`], sorted.
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
pub const MAX_NAMES: usize = 128;
pub const MAX_KINDS: usize = 32;
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

/// The transport without what differs from device to device: `NET/IB/3(1)/GDRDMA` is `NET/IB/GDRDMA`.
fn kind(transport: &str) -> String {
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
            What::Layout { nranks, nnodes, .. } => self.layouts.add(Layout { nranks: *nranks, nnodes: *nnodes }, 1, &proof(), who),
            What::Channels { coll, .. } => self.channels.add(*coll, 1, &proof(), who),
            What::Channel { transport, receive, .. } => {
                let (sends, receives) = if *receive { (0, 1) } else { (1, 0) };
                self.path(&short(&kind(transport)), sends, receives, proof);
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
            _ => return is_error(what),
        }
        self.first_info.get_or_insert_with(proof);
        true
    }

    /// Further channel lines of a transport that a line has told.
    pub fn more_channels(&mut self, transport: &str, receive: bool, lines: u64) {
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
        self.errors += other.errors;
        earlier(&mut self.first_error, &other.first_error);
        self.ras.merge(&other.ras);
        for (name, values) in &other.env {
            if self.env.len() < MAX_NAMES || self.env.contains_key(name) {
                self.env.entry(name.clone()).or_default().merge(values);
            }
        }
        self.layouts.merge(&other.layouts);
        self.channels.merge(&other.channels);
        for (kind, path) in &other.paths {
            self.path(kind, path.sends, path.receives, || path.proof.clone());
        }
        self.other_paths += other.other_paths;
        for (&hash, lines) in &other.inits {
            if self.inits.len() < MAX_COMMS || self.inits.contains_key(&hash) {
                let known = self.inits.entry(hash).or_default();
                earlier(&mut known.first_start, &lines.first_start);
                later(&mut known.newest_complete, &lines.newest_complete);
            }
        }
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

    /// All communicators whose layout was said are inside one node.
    fn is_one_node(&self) -> bool {
        let layouts = &self.layouts;
        !layouts.said.is_empty() && layouts.others == 0 && layouts.said.iter().all(|l| l.value.nnodes == 1)
    }

    /// Some communicator goes over several nodes.
    fn is_many_nodes(&self) -> bool {
        self.layouts.said.iter().any(|l| l.value.nnodes > 1)
    }

    /// The value of a variable that NCCL said it took, with the line.
    fn env_value(&self, name: &str) -> Option<(&str, &Proof)> {
        self.env.get(name)?.first().map(|s| (s.value.as_str(), &s.proof))
    }
}

/// It tells of an error, by itself or by the catalogue of texts.
fn is_error(what: &What) -> bool {
    match what {
        What::Exception(_) | What::CudaError { .. } | What::CudaOom { .. } | What::CollectiveTimeout(_) | What::WorkerFailed { .. } => true,
        What::Signed { signature, .. } => signature.severity >= Severity::Error,
        What::NcclWarn { site, text } => signature::find_warn(site.as_deref(), text).is_some_and(|s| s.severity >= Severity::Error),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::Job;
    use crate::model::port::Port;
    use crate::observe::log::{Line, LogFileInfo};
    use crate::observe::port::PortKind;
    use crate::observe::port::{PortInfo, PortSample};
    use crate::observe::{Body, Observation, SourceId};

    fn at(s: i64) -> Stamp {
        Stamp(s * 1_000_000_000)
    }

    fn sees(model: &mut Model, at: Stamp, body: Body) {
        model.apply(&Observation { at, host: None, from: SourceId::of("tail"), body });
    }

    /// The model after a line every 10 ms of a file that no process is known to write.
    fn told<'a>(lines: impl IntoIterator<Item = &'a str>) -> Model {
        let mut model = Model::default();
        sees(&mut model, at(0), Body::LogFile(LogFileInfo { file: 1, path: "/l/x.log".into(), ..Default::default() }));
        for (i, text) in lines.into_iter().enumerate() {
            tell(&mut model, Stamp(i as i64 * 10_000_000), i as u64 + 1, text);
        }
        model
    }

    fn tell(model: &mut Model, at: Stamp, no: u64, text: &str) {
        model.now = model.now.max(at);
        model.apply_line(at, 1, &Line { no: Some(no), text: text.into(), ..Default::default() }, false, |_, _| {});
    }

    fn recorded(log: &[u8]) -> Model {
        let text = String::from_utf8_lossy(log);
        told(text.split(['\n', '\r']))
    }

    fn rows(model: &Model) -> Vec<(&'static str, Seen, String)> {
        let job = model.jobs.get("x.log").cloned().unwrap_or(Job::new("x.log".into(), at(0)));
        model.bringup_of("x.log").items(model, &job).into_iter().map(|i| (i.id, i.state, i.value)).collect()
    }

    fn row(model: &Model, id: &str) -> (Seen, String) {
        rows(model).into_iter().find(|r| r.0 == id).map(|r| (r.1, r.2)).unwrap()
    }

    fn port_is_up(model: &mut Model, kind: PortKind) {
        let mut port = Port { info: PortInfo { device: "rdma0".into(), port: 1, kind, ..Default::default() }, ..Default::default() };
        port.apply(at(0), &PortSample { state: Some("ACTIVE".into()), ..Default::default() });
        model.ports.insert(("rdma0".into(), 1), port);
    }

    #[test]
    fn a_recorded_start_is_told_with_its_lines() {
        let mut model = recorded(include_bytes!("../../tests/fixtures/logs/hang.log"));
        let said = rows(&model);
        let took = said[5].2.strip_prefix("8 of 8 ranks in ").unwrap().to_owned();
        assert_eq!(
            said,
            [
                ("nccl-version", Seen::Pass, "2.28.9+cuda13.0".to_owned()),
                ("net-plugin", Seen::Pass, "none found".into()),
                ("network", Seen::Pass, "Socket".into()),
                ("socket-ifname", Seen::Pass, "eth0".into()),
                ("gpu-paths", Seen::Pass, "16 x P2P/CUMEM".into()),
                ("init-complete", Seen::Pass, format!("8 of 8 ranks in {took}")),
                ("no-warnings", Seen::Pass, "none (INFO only)".into()),
                ("no-errors", Seen::Fail, "7 lines".into()),
                ("env-settings", Seen::Pass, "1 variable set".into()),
                ("ranks-agree", Seen::Pass, "all that say so: 8".into()),
            ]
        );
        let b = model.bringup_of("x.log");
        let first = b.networks.first().unwrap();
        assert_eq!((first.lines, first.proof.file), (8, 1));
        assert!(first.proof.text.contains("NCCL INFO Using network Socket") && first.proof.line.is_some());
        assert_eq!(b.env["NCCL_NVLS_ENABLE"].first().map(|s| (s.value.as_str(), s.lines)), Some(("0", 8)));
        assert_eq!(b.ras.first().map(|s| s.value.as_str()), Some("127.0.0.1:28028"));
        assert_eq!((b.layouts.first().unwrap().value, b.channels.first().unwrap().value), (Layout { nranks: 8, nnodes: 1 }, 24));
        port_is_up(&mut model, PortKind::Infiniband);
        assert_eq!(row(&model, "network").0, Seen::Pass, "inside one node the network does not matter");
    }

    #[test]
    fn sockets_between_nodes_are_looked_at_where_something_faster_is_up() {
        let mut model = recorded(include_bytes!("../../tests/fixtures/logs/twohosts.log"));
        assert_eq!(row(&model, "network"), (Seen::Warn, "Socket between nodes".into()));
        assert_eq!(row(&model, "gpu-paths"), (Seen::Pass, "28 x P2P/CUMEM, 8 x NET/Socket".into()));
        port_is_up(&mut model, PortKind::Efa);
        assert_eq!(row(&model, "network"), (Seen::Fail, "NCCL uses TCP sockets although rdma0/1 is up".into()));
        assert_eq!(row(&model, "net-plugin"), (Seen::Fail, "none found, and an EFA port is up".into()));
    }

    #[test]
    fn trouble_told_at_level_info_stands_beside_no_warn() {
        let told = "node-04:7120:7188 [0] NCCL INFO PXN Disabled as plugin is v4\n";
        assert_eq!(row(&recorded(told.repeat(2).as_bytes()), "no-warnings"), (Seen::Pass, "none (INFO only)".into()));
        let proof = recorded(told.as_bytes()).bringup_of("x.log").first_noted.expect("the line");
        assert!(proof.text.ends_with("PXN Disabled as plugin is v4"));
        let warned = format!("{told}node-04:7120:7188 [0] NCCL WARN something odd\n");
        assert_eq!(row(&recorded(warned.as_bytes()), "no-warnings"), (Seen::Warn, "1 line".into()));
    }

    #[test]
    fn what_no_line_said_is_not_seen() {
        let mut model = recorded(include_bytes!("../../tests/fixtures/logs/ifname.log"));
        assert_eq!(row(&model, "socket-ifname"), (Seen::NotSeen, "NCCL_SOCKET_IFNAME=nope0".into()));
        assert_eq!(row(&model, "no-warnings"), (Seen::Warn, "1 line".into()));
        assert_eq!(row(&model, "network"), (Seen::NotSeen, String::new()));
        assert!(model.bringup_of("x.log").newest_warning.is_some_and(|p| p.text.contains("no socket interface found")));
        model = recorded(include_bytes!("../../tests/fixtures/logs/kill.log"));
        assert_eq!(row(&model, "nccl-version"), (Seen::Pass, "2.28.9+cuda13.0".into()));
        assert_eq!(row(&model, "no-warnings").0, Seen::NotSeen, "at this level NCCL would not print one");
        model = Model::default();
        assert!(rows(&model).iter().all(|r| r.1 == Seen::NotSeen && r.2.is_empty()));
        model.ras.nccl_version = Some("2.27.3".into());
        assert_eq!(row(&model, "nccl-version"), (Seen::Pass, "2.27.3 (RAS)".into()));
    }

    const START: &str =
        "vm:1:9 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xab - Init START";

    #[test]
    fn init_that_does_not_end_is_looked_at() {
        let other = START.replace("vm:1:9", "vm:2:9").replace("rank 0", "rank 1");
        let mut model = told([START, &other]);
        tell(&mut model, at(1), 3, &START.replace("START", "COMPLETE"));
        model.now = at(20);
        assert_eq!(row(&model, "init-complete"), (Seen::NotSeen, "1 of 2 ranks".into()));
        model.now = at(45);
        assert_eq!(row(&model, "init-complete"), (Seen::Fail, "initialisation finished on 1 of 2 ranks after 45 s: rank 1 began".into()));
        let mut stepping = told([START, &other]);
        tell(&mut stepping, at(40), 4, "step 5 | loss 2.5");
        assert_eq!(row(&stepping, "init-complete"), (Seen::NotSeen, "0 of 2 ranks".into()), "a COMPLETE line was lost");
        tell(&mut model, at(50), 5, &other.replace("START", "COMPLETE"));
        assert_eq!(row(&model, "init-complete"), (Seen::Pass, "2 of 2 ranks in 50.00 s".into()));
        let one_node_of_two = told([START, &START.replace("START", "COMPLETE")]);
        assert_eq!(row(&one_node_of_two, "init-complete"), (Seen::Pass, "1 of 2 ranks in 10.0 ms, all that are logged here".into()));
    }

    #[test]
    fn ranks_that_differ_are_looked_at() {
        let network = |name: &str| format!("vm:1:9 [0] NCCL INFO Using network {name}");
        let model = told([network("IB"), network("IB"), network("Socket")].iter().map(String::as_str));
        assert_eq!(row(&model, "network"), (Seen::Warn, "IB (2 lines), Socket (1 line)".into()));
        let names: Vec<String> = (0..20).map(|i| network(&format!("Net{i}"))).collect();
        let b = told(names.iter().map(String::as_str)).bringup_of("x.log");
        assert_eq!((b.networks.said.len(), b.networks.others), (MAX_VALUES, 12));
    }

    #[test]
    fn paths_are_counted_without_their_devices() {
        for (line, folded) in [
            ("NET/AWS Libfabric/3/GDRDMA", "NET/AWS Libfabric/GDRDMA"),
            ("NET/IB/0(1)/GDRDMA/Shared", "NET/IB/GDRDMA/Shared"),
            ("SHM/direct/direct", "SHM/direct/direct"),
            ("P2P/indirect/3[1a0]", "P2P/indirect"),
            ("P2P/CUMEM/read", "P2P/CUMEM/read"),
        ] {
            assert_eq!(kind(line), folded);
        }
        let net = |way: &str, i: u32| format!("vm:1:9 [0] NCCL INFO Channel 0{i}/0 : 3[3] -> 4[4] {way} via NET/AWS Libfabric/{i}/GDRDMA");
        let lines: Vec<String> = (0..8).flat_map(|i| [net("[send]", i), net("[receive]", i)]).collect();
        let model = told(lines.iter().map(String::as_str));
        assert_eq!(row(&model, "gpu-paths"), (Seen::Pass, "8 x NET/AWS Libfabric/GDRDMA".into()));
        let many: Vec<String> = (0..40).map(|i| net("[send]", 1).replace("Libfabric", &format!("N{i}"))).collect();
        let b = told(many.iter().map(String::as_str)).bringup_of("x.log");
        assert_eq!((b.paths.len(), b.other_paths), (MAX_KINDS, 8));
    }

    #[test]
    fn hostile_lines_fill_no_memory() {
        let set = |i: usize| format!("vm:1:9 [0] NCCL INFO NCCL_V{i} set by environment to {}", "x".repeat(5000));
        let lines: Vec<String> = (0..300).map(set).collect();
        let b = told(lines.iter().map(String::as_str)).bringup_of("x.log");
        assert_eq!(b.env.len(), MAX_NAMES);
        assert!(b.env.values().all(|v| v.said[0].value.chars().count() <= MAX_VALUE && v.said[0].proof.text.chars().count() <= MAX_PROOF));
    }

    #[test]
    fn a_new_run_begins_anew() {
        let mut model = told(["vm:1:9 [0] NCCL INFO Using network IB", "vm:1:9 [0] x.cc:1 NCCL WARN no"]);
        tell(&mut model, at(9), 3, "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default");
        assert_eq!(model.bringup_of("x.log"), Bringup::default());
    }
}
