//! How NCCL came up in a job, as its own lines say, each fact with the line that proves it.

use super::Model;
use super::job::Job;
use super::port::Link;
use crate::observe::port::PortKind;
use crate::text::{What, clean};
use crate::time::{Stamp, span};
use crate::units::seconds;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The bring-up lines of one file, or of all files of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bringup {
    /// `2.28.9+cuda13.0`
    pub nccl_versions: Distinct<String>,
    /// The interface that ranks find each other over: `eth0`.
    pub bootstraps: Distinct<String>,
    /// `Socket`, `IB`, `AWS Libfabric`
    pub networks: Distinct<String>,
    /// `None`: a plugin was looked for and not found.
    pub net_plugins: Distinct<Option<String>>,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Pass,
    /// A person should look at it.
    Look,
    /// No line says.
    NotSeen,
}

pub const MAX_VALUES: usize = 8;
pub const MAX_NAMES: usize = 128;
pub const MAX_KINDS: usize = 32;
pub const MAX_COMMS: usize = 256;
const MAX_PROOF: usize = 300;
/// A value is a name or a short list.
const MAX_VALUE: usize = 200;
/// Bring-up takes seconds; on thousands of ranks some tens of them.
const INIT_TAKES: Duration = Duration::from_secs(30);

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Distinct { said: Vec::new(), others: 0 }
    }
}

impl<T: PartialEq> Distinct<T> {
    fn add(&mut self, value: T, lines: u64, proof: &Proof) {
        let room = self.said.len() < MAX_VALUES;
        match self.said.iter_mut().find(|s| s.value == value) {
            Some(said) => {
                said.lines += lines;
                if proof.at < said.proof.at {
                    said.proof = proof.clone();
                }
            }
            None if room => self.said.push(Said { value, lines, proof: proof.clone() }),
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
            self.add(s.value.clone(), s.lines, &s.proof);
        }
        self.others += other.others;
    }

    /// `a`, or `a (7 lines), b (1 line)`.
    fn words(&self, word: impl Fn(&T) -> String) -> String {
        if self.is_one() {
            return self.first().map_or(String::new(), |s| word(&s.value));
        }
        let said = self.said.iter().map(|s| format!("{} ({})", word(&s.value), count(s.lines, "line")));
        let others = (self.others > 0).then(|| format!("others ({})", count(self.others, "line")));
        said.chain(others).collect::<Vec<_>>().join(", ")
    }
}

impl Path {
    /// Channels of one direction.
    pub fn channels(&self) -> u64 {
        self.sends.max(self.receives)
    }
}

/// `1 line`, `2 lines`
fn count(n: u64, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// The transport without what differs from device to device: `NET/IB/3(1)/GDRDMA` is `NET/IB/GDRDMA`.
fn kind(transport: &str) -> String {
    let device = |part: &str| part.split(['(', '[']).next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let parts: Vec<&str> = transport.split('/').filter(|part| !device(part)).collect();
    parts.join("/")
}

fn earlier(known: &mut Option<Proof>, other: &Option<Proof>) {
    if let Some(p) = other
        && known.as_ref().is_none_or(|k| p.at < k.at)
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
    /// Notes what a line says, if it is about bring-up.
    pub(super) fn apply(&mut self, what: &What, file: u32, line: Option<u64>, at: Stamp, text: &str) {
        let proof = || Proof { file, line, at, text: clean::clip(text, MAX_PROOF).into() };
        let short = |value: &str| clean::clip(value, MAX_VALUE).into_owned();
        match what {
            What::NcclVersion { version, cuda } => {
                let cuda = cuda.as_ref().map_or(String::new(), |c| format!("+cuda{c}"));
                self.nccl_versions.add(short(&format!("{version}{cuda}")), 1, &proof());
                return;
            }
            What::NcclWarn { .. } => {
                self.warnings += 1;
                self.first_warning.get_or_insert_with(proof);
                self.newest_warning = Some(proof());
                return;
            }
            What::Bootstrap { interface, .. } => self.bootstraps.add(short(interface), 1, &proof()),
            What::Network { name } => self.networks.add(short(name), 1, &proof()),
            What::NetPlugin { name } => self.net_plugins.add(name.as_deref().map(short), 1, &proof()),
            What::RasListening { address } => self.ras.add(short(address), 1, &proof()),
            What::EnvSet { name, value } => {
                let name = short(name);
                if self.env.len() < MAX_NAMES || self.env.contains_key(&name) {
                    self.env.entry(name).or_default().add(short(value), 1, &proof());
                }
            }
            What::Layout { nranks, nnodes, .. } => self.layouts.add(Layout { nranks: *nranks, nnodes: *nnodes }, 1, &proof()),
            What::Channels { coll } => self.channels.add(*coll, 1, &proof()),
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
            _ => return,
        }
        self.first_info.get_or_insert_with(proof);
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
    fn merge(&mut self, other: &Bringup) {
        self.nccl_versions.merge(&other.nccl_versions);
        self.bootstraps.merge(&other.bootstraps);
        self.networks.merge(&other.networks);
        self.net_plugins.merge(&other.net_plugins);
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
        earlier(&mut self.first_info, &other.first_info);
    }

    /// The rows of the NCCL pane, always the same, in this order. What no line says is [`Seen::NotSeen`].
    pub fn items(&self, model: &Model, job: &Job) -> Vec<Item> {
        let items = [
            self.version(model),
            self.net_plugin(model),
            self.network(model),
            self.socket_ifname(),
            self.gpu_paths(),
            self.init(model, job),
            self.no_warnings(),
        ];
        items.into()
    }

    /// [`Seen::Pass`] where all lines agree.
    fn agreed<T: PartialEq + Clone>(id: &'static str, label: &'static str, said: &Distinct<T>, word: impl Fn(&T) -> String) -> Item {
        let state = match said.first() {
            None => Seen::NotSeen,
            Some(_) if said.is_one() => Seen::Pass,
            Some(_) => Seen::Look,
        };
        // Where lines differ, the line that does not say what the first one says.
        let proof = said.said.get(1).or(said.first()).map(|s| s.proof.clone());
        Item { id, label, state, value: said.words(word), proof }
    }

    fn version(&self, model: &Model) -> Item {
        let mut item = Self::agreed("nccl-version", "NCCL version", &self.nccl_versions, String::clone);
        if let (Seen::NotSeen, Some(version)) = (item.state, &model.ras.nccl_version) {
            (item.state, item.value) = (Seen::Pass, format!("{} (RAS)", clean::clip(version, MAX_VALUE)));
        }
        item
    }

    /// Not to find one is usual, but for EFA, which NCCL cannot use without.
    fn net_plugin(&self, model: &Model) -> Item {
        let said = &self.net_plugins.said;
        let loaded: Vec<&Said<Option<String>>> = said.iter().filter(|s| s.value.is_some()).collect();
        let names: Vec<&str> = loaded.iter().filter_map(|s| s.value.as_deref()).collect();
        let efa = model.ports.values().any(|p| p.info.kind == PortKind::Efa && p.link.now == Link::Up);
        let (state, value) = match said.first() {
            None => (Seen::NotSeen, String::new()),
            Some(_) if !names.is_empty() => (Seen::Pass, names.join(", ")),
            Some(_) if efa && !self.is_one_node() => (Seen::Look, "none found, and an EFA port is up".into()),
            Some(_) => (Seen::Pass, "none found".into()),
        };
        let proof = loaded.first().copied().or(said.first()).map(|s| s.proof.clone());
        Item { id: "net-plugin", label: "Net plugin", state, value, proof }
    }

    /// Sockets are right where there is nothing faster, and do not matter inside one node.
    fn network(&self, model: &Model) -> Item {
        let mut item = Self::agreed("network", "Network", &self.networks, String::clone);
        let socket = self.networks.first().is_some_and(|s| s.value == "Socket");
        let up = || model.ports.values().find(|p| p.link.now == Link::Up);
        if item.state == Seen::Pass
            && socket
            && !self.is_one_node()
            && let Some(port) = up()
        {
            item.state = Seen::Look;
            item.value = format!("Socket, and {} is up", port.name());
        }
        item
    }

    /// All communicators whose layout was said are inside one node.
    fn is_one_node(&self) -> bool {
        let layouts = &self.layouts;
        !layouts.said.is_empty() && layouts.others == 0 && layouts.said.iter().all(|l| l.value.nnodes == 1)
    }

    /// Hosts may differ in the names of their interfaces.
    fn socket_ifname(&self) -> Item {
        let mut item = Self::agreed("socket-ifname", "Bootstrap interface", &self.bootstraps, String::clone);
        if item.state == Seen::Look {
            (item.state, item.proof) = (Seen::Pass, self.bootstraps.first().map(|s| s.proof.clone()));
        }
        if let Some(set) = self.env.get("NCCL_SOCKET_IFNAME") {
            let set_to = format!("NCCL_SOCKET_IFNAME={}", set.words(String::clone));
            item.value = if item.value.is_empty() { set_to } else { format!("{} ({set_to})", item.value) };
            item.proof = item.proof.or(set.first().map(|s| s.proof.clone()));
        }
        item
    }

    fn gpu_paths(&self) -> Item {
        let mut paths: Vec<(&String, &Path)> = self.paths.iter().collect();
        paths.sort_by_key(|(_, p)| std::cmp::Reverse(p.channels()));
        let others = (self.other_paths > 0).then(|| format!("{} x others", self.other_paths));
        let words: Vec<String> = paths.iter().map(|(kind, p)| format!("{} x {kind}", p.channels())).chain(others).collect();
        Item {
            id: "gpu-paths",
            label: "GPU paths",
            state: if paths.is_empty() { Seen::NotSeen } else { Seen::Pass },
            value: words.join(", "),
            proof: paths.first().map(|(_, p)| p.proof.clone()),
        }
    }

    /// About the communicator that hangs, else the largest one.
    fn init(&self, model: &Model, job: &Job) -> Item {
        let mut item = Item { id: "init-complete", label: "Init", state: Seen::NotSeen, value: String::new(), proof: None };
        let now = job.ended_at.unwrap_or(model.now);
        // A COMPLETE can be torn, or left out where too many lines came at once: a job that makes steps is past it.
        let stepped = model.progress_of(&job.id).and_then(|p| p.last_step_at);
        let whole = model.files_of(&job.id).all(|f| f.dropped_lines == 0);
        let of_job = || self.inits.iter().filter_map(|(hash, lines)| Some((model.comms.get(hash)?, lines)));
        let late = |c: &super::comm::Comm| {
            let since = c.init_from.filter(|from| now.since(*from) > INIT_TAKES && stepped.is_none_or(|s| s < *from));
            since.filter(|_| whole && c.init_started.difference(&c.init_complete).next().is_some())
        };
        let hangs = of_job().filter(|(c, _)| late(c).is_some()).max_by_key(|(c, _)| c.nranks);
        // The first of the largest ones: the newest of all would change with every split.
        let largest = || of_job().max_by_key(|(c, _)| (c.nranks, std::cmp::Reverse(c.init_from)));
        let Some((comm, lines)) = hangs.or_else(largest) else { return item };
        let (done, all) = (comm.init_complete.len(), comm.nranks);
        item.value = format!("{done} of {all} ranks");
        let pending = comm.init_started.iter().any(|r| !comm.init_complete.contains(r));
        if let Some(since) = late(comm) {
            item.state = Seen::Look;
            item.value = format!("{done} of {all} ranks after {}", span(now.since(since)));
            item.proof = lines.first_start.clone();
        } else if !pending && done > 0 {
            item.state = Seen::Pass;
            // Lines that were there before us all have one time.
            let took = comm.init_from.zip(comm.init_to).filter(|(from, to)| to > from);
            item.value += &took.map_or(String::new(), |(from, to)| format!(" in {}", seconds(to.secs_since(from))));
            if done < all as usize {
                item.value += ", all that are logged here";
            }
            item.proof = lines.newest_complete.clone();
        } else {
            item.proof = lines.newest_complete.clone().or(lines.first_start.clone());
        }
        item
    }

    /// Without a line of level INFO it is not known whether WARN lines would be printed.
    fn no_warnings(&self) -> Item {
        let (state, value, proof) = match (&self.first_warning, &self.first_info) {
            (Some(first), _) => (Seen::Look, count(self.warnings, "line"), Some(first.clone())),
            (None, Some(info)) => (Seen::Pass, "none".into(), Some(info.clone())),
            (None, None) => (Seen::NotSeen, String::new(), None),
        };
        Item { id: "no-warnings", label: "WARN lines", state, value, proof }
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
    use crate::model::port::Port;
    use crate::observe::log::{Line, LogFileInfo};
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
                ("no-warnings", Seen::Pass, "none".into()),
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
        assert_eq!(row(&model, "network"), (Seen::Pass, "Socket".into()));
        assert_eq!(row(&model, "gpu-paths"), (Seen::Pass, "28 x P2P/CUMEM, 8 x NET/Socket".into()));
        port_is_up(&mut model, PortKind::Efa);
        assert_eq!(row(&model, "network"), (Seen::Look, "Socket, and rdma0/1 is up".into()));
        assert_eq!(row(&model, "net-plugin"), (Seen::Look, "none found, and an EFA port is up".into()));
    }

    #[test]
    fn what_no_line_said_is_not_seen() {
        let mut model = recorded(include_bytes!("../../tests/fixtures/logs/ifname.log"));
        assert_eq!(row(&model, "socket-ifname"), (Seen::NotSeen, "NCCL_SOCKET_IFNAME=nope0".into()));
        assert_eq!(row(&model, "no-warnings"), (Seen::Look, "1 line".into()));
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
        assert_eq!(row(&model, "init-complete"), (Seen::Look, "1 of 2 ranks after 45 s".into()));
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
        assert_eq!(row(&model, "network"), (Seen::Look, "IB (2 lines), Socket (1 line)".into()));
        let names: Vec<String> = (0..20).map(|i| network(&format!("N{i}"))).collect();
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
