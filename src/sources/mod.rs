//! Where observations come from: one thread per source, a bounded channel, no way back.
//!
//! **To add a source**: a file below `sources/` with a type that implements [`Source`], an entry in [`SOURCES`], and, if it
//! reports something new, a variant of [`Body`] with its arm in `model::Model::apply`.

pub mod addresses;
pub mod cgroup;
pub mod checks;
pub mod debug_server;
pub mod ethtool;
pub mod feed;
pub mod files;
pub mod flight;
pub mod host;
pub mod inspector;
pub mod kmsg;
pub mod netdev;
pub mod nvml;
pub mod pace;
pub mod procs;
pub mod queue_pairs;
pub mod ras;
pub mod rdma;
pub mod sysfs;
pub mod tail;

use crate::base::words::io_words;
use crate::observe::facts::Look;
use crate::observe::{Body, SourceReport, SourceState};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::time::Duration;

/// Something that can be asked again and again what is new.
///
/// `poll` may block for as long as the world does (a driver call, a slow file system): it has its own thread. It never reads a clock
/// to stamp what it reports; the feed does that when `poll` returns.
pub trait Source: Send {
    /// How long to wait between two polls while all is well. May change from poll to poll.
    fn every(&self) -> Duration;

    /// Puts what is new into `out`.
    ///
    /// # Errors
    /// Why nothing, or not everything, could be read. What was put into `out` before still counts. The feed turns it into the
    /// source's state and asks again, less often.
    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError>;

    /// How the source is after a poll that returned `Ok`: `None` is simply "ok"; `Some` adds a state or a remark
    /// (`ok`, "2 of 14 processes belong to other users").
    fn remark(&self) -> Option<(SourceState, String)> {
        None
    }

    /// Blocks until something may be new or `timeout` has passed. Overridden where the kernel can wake us (inotify).
    fn wait(&mut self, timeout: Duration) {
        std::thread::sleep(timeout);
    }
}

/// Why a source has nothing to report. The text names the path or call, what is missing, and what still works where that helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("{0}")]
    Absent(String),
    #[error("{0}")]
    Denied(String),
    #[error("{0}")]
    Failed(String),
}

impl SourceError {
    /// From an I/O error on `path`: ENOENT is absence, EACCES and EPERM are denial.
    pub fn io(path: &Path, err: &std::io::Error) -> Self {
        let text = format!("{}: {}", path.display(), io_words(err));
        match err.kind() {
            std::io::ErrorKind::NotFound => SourceError::Absent(text),
            std::io::ErrorKind::PermissionDenied => SourceError::Denied(text),
            _ => SourceError::Failed(text),
        }
    }

    pub fn state(&self) -> SourceState {
        match self {
            SourceError::Absent(_) => SourceState::Absent,
            SourceError::Denied(_) => SourceState::Denied,
            SourceError::Failed(_) => SourceState::Failed,
        }
    }
}

/// Where /sys, /proc, /dev and the rest of the file system are. No source writes an absolute path of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    root: PathBuf,
}

impl Roots {
    pub fn live() -> Self {
        Roots { root: PathBuf::from("/") }
    }

    /// `--sysroot DIR`: everything is read below `dir`.
    pub fn below(dir: impl Into<PathBuf>) -> Self {
        Roots { root: dir.into() }
    }

    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// `path` is absolute, as on a live system: `/sys/class/net`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a table below /proc, a MiB of it at most.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn table(&self, path: &str) -> io::Result<String> {
        const MOST_BYTES: u64 = 1 << 20;
        Ok(String::from_utf8_lossy(&crate::base::file::read_table(&self.path(path), MOST_BYTES)?).into_owned())
    }
}

/// A hint from one source to another: "these files are logs of a job". Lossy on purpose; what matters is sent again at every scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Pids that hold a GPU, from NVML to the process reader.
    GpuPids(Vec<u32>),
    /// Regular files behind a job's output, from the process reader to the tailer.
    Logs(Vec<PathBuf>),
    /// Ranks of this node, pid and start, from the process reader to those of Flight Recorder dumps, of the debug server and of
    /// the Inspector's files.
    Ranks(Vec<(u32, u64)>),
    /// An error that a driver logs about a command by which counters are read, from the kernel's log to those who read them.
    Complaint(Complaint),
    /// Where jobs have their RAS, from the process reader to the RAS client.
    RasAddresses(Vec<RasAddress>),
}

/// A driver could not do for a device what reading its counters asks of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub bus_id: String,
    /// The line of the kernel's log, bounded.
    pub line: String,
}

/// An `NCCL_RAS_ADDR`, or the address that NCCL takes without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RasAddress {
    pub name: String,
    /// Of the processes that have it, as they count them themselves.
    pub pids: Vec<u32>,
    /// They have a network of their own, and this address in it, if that is known.
    pub apart: Option<Option<Ipv4Addr>>,
}

/// The sending half of a hint line; never blocks.
#[derive(Clone)]
pub struct Hints(pub SyncSender<Hint>);

impl Hints {
    pub fn line() -> (Hints, Receiver<Hint>) {
        let (tx, rx) = std::sync::mpsc::sync_channel(64);
        (Hints(tx), rx)
    }

    pub fn send(&self, hint: Hint) {
        match self.0.try_send(hint) {
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

/// Everything a source needs to be built.
pub struct Setup {
    pub roots: Roots,
    /// The interval of the fast lanes.
    pub interval: Duration,
    /// LOG arguments: files, globs, directories, `-`.
    pub logs: Vec<String>,
    /// What the host checks want to have looked at.
    pub looks: Vec<Look>,
    /// Read logs from their start (headless use), instead of only their last part.
    pub whole_logs: bool,
    /// Names of sources that are not started, with the option that says so.
    pub left_out: Vec<(&'static str, String)>,
    /// Where each source leaves how long it took.
    pub polls: feed::Polls,
    pub to_procs: Hints,
    pub to_tail: Hints,
    pub to_ras: Hints,
    pub to_flight: Hints,
    pub to_debug: Hints,
    pub to_inspector: Hints,
    pub to_rdma: Hints,
    pub to_netdev: Hints,
    /// The receiving ends, taken by the source that listens.
    pub procs_inbox: Option<Receiver<Hint>>,
    pub tail_inbox: Option<Receiver<Hint>>,
    pub ras_inbox: Option<Receiver<Hint>>,
    pub flight_inbox: Option<Receiver<Hint>>,
    pub debug_inbox: Option<Receiver<Hint>>,
    pub inspector_inbox: Option<Receiver<Hint>>,
    pub rdma_inbox: Option<Receiver<Hint>>,
    pub netdev_inbox: Option<Receiver<Hint>>,
}

impl Setup {
    pub fn new(roots: Roots, interval: Duration, logs: Vec<String>) -> Self {
        let (to_procs, procs_inbox) = Hints::line();
        let (to_tail, tail_inbox) = Hints::line();
        let (to_ras, ras_inbox) = Hints::line();
        let (to_flight, flight_inbox) = Hints::line();
        let (to_debug, debug_inbox) = Hints::line();
        let (to_inspector, inspector_inbox) = Hints::line();
        let (to_rdma, rdma_inbox) = Hints::line();
        let (to_netdev, netdev_inbox) = Hints::line();
        Setup {
            roots,
            interval,
            logs,
            looks: Vec::new(),
            whole_logs: false,
            left_out: Vec::new(),
            polls: feed::Polls::default(),
            to_procs,
            to_tail,
            to_ras,
            to_flight,
            to_debug,
            to_inspector,
            to_rdma,
            to_netdev,
            procs_inbox: Some(procs_inbox),
            tail_inbox: Some(tail_inbox),
            ras_inbox: Some(ras_inbox),
            flight_inbox: Some(flight_inbox),
            debug_inbox: Some(debug_inbox),
            inspector_inbox: Some(inspector_inbox),
            rdma_inbox: Some(rdma_inbox),
            netdev_inbox: Some(netdev_inbox),
        }
    }
}

/// One row per source: adding one is adding a row.
pub struct SourceSpec {
    pub id: &'static str,
    /// What it reports, for the sources pane and the help.
    pub title: &'static str,
    /// Off below `--sysroot`: it asks the live kernel or driver, whatever the root.
    pub live_only: bool,
    /// What a tree below `--sysroot` shows in its place.
    pub instead: Option<fn(&Roots) -> Vec<Body>>,
    /// The longest pause between two tries while it has nothing to report or fails.
    pub retry: Duration,
    pub make: fn(&mut Setup) -> Box<dyn Source>,
}

impl SourceSpec {
    /// How it is, with what it sees.
    pub fn report(&self, state: SourceState, detail: Option<String>) -> SourceReport {
        SourceReport { state, detail, title: Some(self.title) }
    }
}

/// All sources, in the order in which the sources pane shows them.
#[rustfmt::skip]
pub const SOURCES: &[SourceSpec] = &[
    SourceSpec { id: "nvml", title: "GPUs through NVML", live_only: true, instead: Some(nvml::from_pci), retry: Duration::from_secs(10), make: nvml::make },
    SourceSpec { id: "procs", title: "ranks and launchers below /proc", live_only: false, instead: None, retry: Duration::from_secs(3), make: procs::make },
    SourceSpec { id: "tail", title: "training and NCCL logs", live_only: false, instead: None, retry: Duration::from_secs(1), make: tail::make },
    SourceSpec { id: "ras", title: "NCCL's RAS service", live_only: true, instead: None, retry: Duration::from_secs(5), make: ras::make },
    SourceSpec { id: "flight", title: "Flight Recorder dumps that appear", live_only: false, instead: None, retry: Duration::from_secs(3), make: flight::make },
    SourceSpec { id: "debug", title: "PyTorch's debug server, where the job has started it", live_only: true, instead: None, retry: Duration::from_secs(10), make: debug_server::make },
    SourceSpec { id: "inspector", title: "what the NCCL Inspector writes of each rank", live_only: false, instead: None, retry: Duration::from_secs(5), make: inspector::make },
    SourceSpec { id: "rdma", title: "RDMA ports below /sys/class/infiniband", live_only: false, instead: None, retry: Duration::from_secs(10), make: rdma::make },
    SourceSpec { id: "qpairs", title: "queue pairs by process, through RDMA netlink", live_only: false, instead: None, retry: Duration::from_secs(60), make: queue_pairs::make },
    SourceSpec { id: "netdev", title: "interfaces below /sys/class/net", live_only: false, instead: None, retry: Duration::from_secs(10), make: netdev::make },
    SourceSpec { id: "kmsg", title: "kernel log", live_only: true, instead: None, retry: Duration::from_secs(60), make: kmsg::make },
    SourceSpec { id: "events", title: "Xids and errors that the driver reports", live_only: true, instead: None, retry: Duration::from_secs(60), make: nvml::make_events },
    SourceSpec { id: "host", title: "CPU, memory, /dev/shm and disk", live_only: false, instead: None, retry: Duration::from_secs(10), make: host::make },
];
