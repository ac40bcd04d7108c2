//! What NCCL's lines tell, in types.

use crate::logs::What;

/// A line about a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    pub kind: PluginKind,
    pub state: PluginState,
    /// The plugin's own name, or its library.
    pub name: Option<String>,
    /// `v10` of its interface.
    pub api: Option<u32>,
    /// Why it could not be loaded.
    pub why: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginKind {
    Net,
    CollNet,
    Tuner,
    Profiler,
    Env,
    Gin,
    Rma,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PluginState {
    /// Looked for and not there: usual where nobody asked for one.
    NotFound,
    /// Asked for.
    SetByEnv,
    /// There, and the loader refused it.
    FailedToLoad,
    /// Of an interface that this NCCL does not know.
    Unsupported,
    /// Its interface was found.
    Loaded,
    /// Its library was opened.
    LibraryLoaded,
    /// It works here.
    Initialized,
    /// Its hardware is not here: the next one is tried.
    FailedToInitialize,
    /// It is the one that is used.
    Assigned,
    /// NCCL's own is used.
    Internal,
    /// Not used, as the environment asks.
    Disabled,
}

/// Network devices that a transport took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetDevices {
    /// `IB`, `Socket`
    pub transport: String,
    /// None: it found nothing.
    pub devices: Vec<NetDevice>,
    /// PCIe relaxed ordering.
    pub relaxed_ordering: bool,
    /// The interface for what does not go over the devices.
    pub oob: Option<String>,
    /// The line has its end; else there may be more of them.
    pub whole: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetDevice {
    /// `mlx5_0`, `eth0`
    pub name: String,
    pub port: Option<u32>,
    /// `IB`, `RoCE`; the address of an interface.
    pub link: String,
}

/// What aws-ofi-nccl says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ofi {
    /// `Initializing aws-ofi-nccl 1.13.2-aws`
    Version(String),
    /// `Using Libfabric version 1.22`
    Libfabric(String),
    /// `Selected provider is efa, fabric is efa-direct (found 32 nics)`
    Provider { name: String, fabric: Option<String>, nics: u32 },
    /// `Using transport protocol RDMA (platform set)`
    Protocol { name: String, set_by: Option<String> },
    /// `Plugin selected platform: AWS`
    Platform(String),
    /// `Running on p5.48xlarge platform, topology file /opt/…/p5.48xl-topo.xml`
    Topology { instance: String, file: String },
    /// `Could not disable CUDA API usage for HMEM, disabling GDR`
    NoGpuDirect,
    /// `No eligible providers were found`
    NoProvider,
}

/// Times of bring-up, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Timings {
    /// `bootstrap`, `init`, `p2p connect`
    pub of: &'static str,
    pub function: Option<String>,
    pub rank: Option<u32>,
    pub nranks: Option<u32>,
    pub total_s: f64,
    pub parts: Vec<(String, f64)>,
}

/// Paths from one GPU or network device to others.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphPaths {
    /// `GPU/0-9000`
    pub from: String,
    /// Itself left out.
    pub to: Vec<GraphPath>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GraphPath {
    pub to: String,
    pub hops: u32,
    /// GB/s
    pub bandwidth: f64,
    pub kind: PathKind,
}

/// NCCL's kinds of paths, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathKind {
    /// Itself.
    Loc,
    Nvl,
    /// NVLink by way of another GPU.
    Nvb,
    C2c,
    /// One PCIe bridge.
    Pix,
    /// Several, no host bridge.
    Pxb,
    /// GPU, C2C, CPU, PCIe.
    P2c,
    /// By way of another GPU's network device.
    Pxn,
    /// Through the host bridge of a CPU.
    Phb,
    /// Between sockets.
    Sys,
    Net,
    Dis,
}

impl PathKind {
    pub fn as_str(self) -> &'static str {
        match self {
            PathKind::Loc => "LOC",
            PathKind::Nvl => "NVL",
            PathKind::Nvb => "NVB",
            PathKind::C2c => "C2C",
            PathKind::Pix => "PIX",
            PathKind::Pxb => "PXB",
            PathKind::P2c => "P2C",
            PathKind::Pxn => "PXN",
            PathKind::Phb => "PHB",
            PathKind::Sys => "SYS",
            PathKind::Net => "NET",
            PathKind::Dis => "DIS",
        }
    }

    pub fn of(word: &str) -> Option<Self> {
        use PathKind::*;
        [Loc, Nvl, Nvb, C2c, Pix, Pxb, P2c, Pxn, Phb, Sys, Net, Dis].into_iter().find(|k| k.as_str() == word)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    Destroy,
    Abort,
    Revoke,
}

/// A fact that may stand in the catalogue of texts, too.
pub(super) fn tells_trouble(what: &What) -> bool {
    match what {
        What::Plugin(p) => matches!(p.state, PluginState::FailedToLoad | PluginState::Unsupported),
        What::Ofi(o) => matches!(o, Ofi::NoGpuDirect | Ofi::NoProvider | Ofi::Provider { .. }),
        What::EnvInvalid { .. } | What::EnvUnused { .. } => true,
        What::GpuDirect { enabled, .. } => !enabled,
        What::CommEnding { .. } => true,
        What::NetDevices(d) => d.devices.is_empty(),
        _ => false,
    }
}

/// Names of networks that NCCL and plugins known to us have.
const NETWORKS: &[&str] = &[
    "Socket",
    "IB",
    "IBext",
    "IBext_v6",
    "IBext_v7",
    "IBext_v8",
    "IBext_v9",
    "IBext_v10",
    "IBext_v11",
    "AWS Libfabric",
    "Libfabric",
    "SHARP",
    "FasTrak",
    "UCX",
    "UCX-Ext",
    "P2P",
    "gIB",
    "Libfabric_v2",
];

/// A name at the end of a line is believed only if it cannot be the torn piece of another, or have one glued to it.
pub(super) fn whole_name(name: &str) -> Option<String> {
    let name = name.trim_end();
    if NETWORKS.contains(&name) {
        return Some(name.into());
    }
    let usual = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'_' | b'-' | b'.' | b'/' | b'+');
    let torn = NETWORKS.iter().any(|known| known.starts_with(name)) || name.starts_with("Socket") || name.starts_with("AWS Libfabric");
    (name.len() >= 3 && name.len() <= 64 && !torn && name.bytes().all(usual)).then(|| name.into())
}

/// Where a rank's GPU stands in the NVLink fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricLine {
    /// Both halves of the cluster's UUID as NCCL prints them; `None` where they are zero: the fabric ends at this host.
    pub cluster: Option<String>,
    pub clique: u32,
    /// 3: completed.
    pub state: u32,
    pub health: u32,
}
