//! What log text means: bytes in, events out. Reads no files, knows no clock, keeps no more state than the last lines of one file.
//!
//! **To teach it a line**: an entry in the catalogue (see [`catalog`]) if it says that something is wrong; a table's entry if it tells
//! how training goes (see [`progress`]); else a reader in the file of the program that prints it (`nccl`, `torch`, `cuda`), with the
//! line as an example in `tests/it`, and a pattern in [`prefilter`], so that the line is looked at.

pub mod catalog;
pub mod cuda;
pub mod error_words;
pub mod metrics;
pub mod nccl;
mod parts;
pub mod prefilter;
pub mod prefix;
pub mod progress;
pub mod torch;
pub mod when;

use crate::base::clean::{clean, clip};
use crate::base::severity::Severity;
use memchr::memmem::Finder;
pub use nccl::types::{
    Ending, FabricLine, GraphPath, GraphPaths, NetDevice, NetDevices, Ofi, PathKind, Plugin, PluginKind, PluginState, Timings,
};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use std::time::Duration;

/// One thing a log line says.
#[derive(Clone, Debug, PartialEq)]
pub struct TextEvent {
    pub origin: Origin,
    pub what: What,
    /// The line that says it, where it is an earlier one than the line just read: a traceback is reported when the next line shows that
    /// it has ended.
    pub said_at: Option<SaidAt>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaidAt {
    /// From 1, as given to [`Reader::at_line`].
    pub line: Option<u64>,
    pub text: String,
}

/// Who wrote the line, as far as the line itself tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Global rank: from `[rank3]:`, `[1,3]<stdout>:`, `3: ` of srun.
    pub rank: Option<u32>,
    /// torchrun's `[default3]:`.
    pub local_rank: Option<u32>,
    pub host: Option<String>,
    /// In the PID namespace of the writer.
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    /// CUDA index current in the calling thread (NCCL's `[3]`): not the rank.
    pub cuda_dev: Option<u32>,
    /// The time that the line carries, if any.
    pub written: Option<Written>,
}

/// A time as a log line has it. Zone and year may be missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Written {
    pub year: Option<i16>,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub nanosecond: u32,
    /// Seconds east of UTC, if the text says.
    pub offset_s: Option<i32>,
}

#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// `NCCL version 2.28.9+cuda13.0`
    NcclVersion {
        version: String,
        cuda: Option<String>,
    },
    /// Any `NCCL WARN`.
    NcclWarn {
        site: Option<String>,
        text: String,
    },
    /// `Bootstrap: Using eth0:10.0.0.1<0>`
    Bootstrap {
        interface: String,
        address: Option<String>,
    },
    /// `Using network Socket`
    Network {
        name: String,
    },
    /// `NET/Plugin: Loaded net plugin AWS Libfabric (v10)` and all else about plugins.
    Plugin(Plugin),
    /// `cudaDriverVersion 12090`, as `12.9`.
    CudaDriver {
        version: String,
    },
    /// `NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>`, `NET/Socket : Using [0]eth0:10.0.0.1<0>`
    NetDevices(NetDevices),
    /// What aws-ofi-nccl says of itself.
    Ofi(Ofi),
    /// `RAS client listening socket at 127.0.0.1<28028>`, as `127.0.0.1:28028`.
    RasListening {
        address: String,
    },
    /// `NCCL_SOCKET_IFNAME set by environment to eth0`
    EnvSet {
        name: String,
        value: String,
    },
    /// `Invalid value abc for NCCL_IB_TIMEOUT, using default 20.`
    EnvInvalid {
        name: String,
        value: String,
    },
    /// `Warning: ENV NCCL_X is unused. Setting it has no effect.`
    EnvUnused {
        name: String,
        /// `unused`, `deprecated`, `private`
        how: &'static str,
    },
    /// `… - Init START` and `… - Init COMPLETE`
    Init(Init),
    /// How long bring-up took, in parts.
    Timings(Timings),
    /// `comm 0x… rank 3 nRanks 8 nNodes 1 localRanks 8 localRank 3 MNNVL 0`
    Layout {
        rank: u32,
        nranks: u32,
        nnodes: u32,
        local_ranks: u32,
        /// Over several hosts of one NVLink domain.
        mnnvl: Option<bool>,
    },
    /// `MNNVL busId 0x801000 fabric UUID 8f1e.a2b3 cliqueId 0x1 state 3 healthMask 0x156`: what NVML shows the rank of its GPU.
    Fabric(FabricLine),
    /// `MNNVL 1 cliqueId 1 cliqueSize 72 cliqueRank 4`: whether NVLink is used between hosts, and by how many ranks.
    Clique {
        used: bool,
        size: u32,
    },
    /// `Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM`
    Channel {
        channel: u32,
        from_rank: u32,
        /// What stands in brackets, read as a hexadecimal number: NVML's index, or the packed PCI address up to 2.18.1.
        from_gpu: Option<u64>,
        to_rank: u32,
        to_gpu: Option<u64>,
        transport: String,
        receive: bool,
        /// A connection for sends and receives, not for rings and trees: `/1` behind the channel. SHM and NCCL up to 2.12 do not say.
        p2p: bool,
    },
    /// `24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels…`
    Channels {
        coll: u32,
        collnet: Option<u32>,
        nvls: Option<u32>,
        p2p: u32,
        per_peer: u32,
    },
    /// `Channel 00/24 : 0 1 2 3`: a ring. Its end may be missing.
    Ring {
        channel: u32,
        channels: u32,
        ranks: Vec<u32>,
    },
    /// `Trees [0] 1/-1/-1->0->-1 [1] …`: what a rank has above and below it, by channel. Its end may be missing.
    Trees {
        rank: u32,
        branches: Vec<(u32, Branch)>,
    },
    /// `NET/OFI NIC group 0 device #1 0000:51:00.0`: one of the devices that aws-ofi-nccl joins to one, whose number is that of the group.
    OfiRail {
        device: u32,
        rail: u32,
        address: String,
    },
    /// `Check P2P Type isAllDirectP2p 1 directMode 0`
    P2pType {
        /// Every pair of GPUs of the node has direct P2P.
        all_direct: bool,
        direct_mode: bool,
        all_cuda: Option<bool>,
    },
    /// `Connected all rings, use ring PXN 0 GDR 1`
    Connected {
        pxn: Option<bool>,
        gdr: Option<bool>,
    },
    /// `NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'`, `GPU Direct RDMA Disabled for GPU 3 / HCA 0 (distance 6 > 5)`
    GpuDirect {
        enabled: bool,
        device: Option<String>,
        /// Too far, in steps of NCCL's path types: distance and limit.
        distance: Option<(u32, u32)>,
    },
    /// `DMA-BUF is available on GPU device 3`
    DmaBuf,
    /// `GPU/0-9000 :GPU/0-9000 (0/5000.0/LOC) GPU/0-b000 (2/288.0/NVL) …`
    GraphPaths(GraphPaths),
    /// `… - Abort START`, `… - Revoke START`
    CommEnding {
        comm: String,
        rank: u32,
        how: Ending,
    },
    /// Destroy, abort or revocation of a communicator finished.
    CommEnded {
        comm: String,
        rank: u32,
        how: Ending,
    },

    /// `ProcessGroupNCCL initialization options: … TIMEOUT(ms): 600000` of the group of all ranks.
    WatchdogTimeout {
        ms: u64,
    },
    /// `Watchdog caught collective operation timeout: WorkNCCL(…) ran for … milliseconds before timing out.` and its kin.
    CollectiveTimeout(CollectiveTimeout),
    /// `… last enqueued work: 247, last completed work: 235`
    CollectiveStatus {
        group: Option<String>,
        guid: Option<String>,
        pg_rank: Option<u32>,
        seq: Option<u64>,
        enqueued: Option<u64>,
        completed: Option<u64>,
    },
    /// The process says that it will end itself, or that its watchdog ended.
    TakingDown {
        text: String,
    },

    /// `Traceback (most recent call last):` and what it ended with. One event per traceback, when its last line is known.
    Exception(Exception),
    CudaOom {
        text: String,
        tried_bytes: Option<u64>,
    },
    /// `CUDA error: …`, `Cuda failure …`, CUBLAS and cuDNN states.
    CudaError {
        text: String,
    },

    /// `failed (exitcode: -9) local_rank: 5 (pid: 3239) of binary: …`
    WorkerFailed {
        exit_code: i32,
        local_rank: u32,
        pid: u32,
    },
    /// `- (ip=10.0.0.2, pid=375) world_rank=1, local_rank=1, node_rank=0`: Ray Train names the process of a rank.
    Placed {
        rank: u32,
        pid: u32,
    },
    /// One block of torchrun's failure table.
    WorkerFailure(WorkerFailure),
    /// `Sending process 3234 closing signal SIGTERM`: the launcher ends the others.
    Terminating {
        pid: Option<u32>,
        signal: String,
    },
    /// `Received 15 death signal, shutting down workers`: somebody ended the launcher.
    LauncherSignalled {
        signal: i32,
    },
    /// A new run begins in the same file (torchrun's banner).
    RunStart,

    /// A step of training.
    Step(Step),
    /// Total number of steps, printed once (`Total optimization steps = 1875`).
    TotalSteps {
        total: u64,
    },
    /// A named pause begins or ends.
    Phase {
        phase: Phase,
        begins: bool,
    },
    /// The job says that it is done.
    Done,
    /// fp16 overflow, skipped step.
    SkippedStep,

    /// A text of the catalogue that no other event tells.
    Signed {
        signature: &'static catalog::Signature,
        text: String,
        /// NCCL printed it as INFO: it tries something that may fail.
        tried: bool,
    },
}

impl What {
    /// A failure, or a part of one.
    pub fn is_alarm(&self) -> bool {
        matches!(
            self,
            What::NcclWarn { .. }
                | What::CollectiveTimeout(_)
                | What::CollectiveStatus { .. }
                | What::TakingDown { .. }
                | What::Exception(_)
                | What::CudaOom { .. }
                | What::CudaError { .. }
                | What::WorkerFailed { .. }
                | What::WorkerFailure(_)
                | What::Terminating { .. }
                | What::LauncherSignalled { .. }
                | What::Signed { .. }
        )
    }

    /// How bad it is by itself, where it is an alarm: as the user or the catalogue has it.
    pub fn severity(&self) -> Option<Severity> {
        let by_itself = match self {
            _ if !self.is_alarm() => return None,
            What::NcclWarn { .. } => Severity::Warning,
            _ => Severity::Error,
        };
        let signature = self.signature();
        let unknown = matches!(self, What::NcclWarn { .. }).then_some("nccl-warn");
        let by_user = signature.map(|s| s.rule).or(unknown).and_then(crate::base::limit::severity_of);
        by_user.or(signature.map(|s| s.severity)).or(Some(by_itself))
    }

    /// Something failed: an alarm that is not known to be harmless.
    pub fn is_failure(&self) -> bool {
        self.is_alarm() && !matches!(self, What::Signed { signature, .. } if signature.part == catalog::Part::Harmless)
    }
}

/// Communicator creation, one rank's view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Pointer, unique in its process only.
    pub comm: String,
    pub rank: u32,
    pub nranks: u32,
    pub cuda_dev: Option<u32>,
    pub nvml_dev: Option<u32>,
    /// `0000:1b:00.0`, from NCCL's packed hex.
    pub bus_id: Option<String>,
    /// Same on all ranks; equals RAS's hash. Missing on splits.
    pub comm_id: Option<u64>,
    /// `ncclCommInitRankConfig`
    pub function: Option<String>,
    /// Pointer of the communicator that it was split from.
    pub parent: Option<String>,
    pub color: Option<i64>,
    pub complete: bool,
}

/// Ranks beside one in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    pub up: Option<u32>,
    pub down: [Option<u32>; 3],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectiveTimeout {
    /// Rank inside the process group that the line names; not always the global rank (that is in [`Origin`]).
    pub pg_rank: Option<u32>,
    /// Group name or description: `default_pg`, `0`.
    pub group: Option<String>,
    /// The group's name, which is the same on all its ranks and no other group's: `0`, `3`. Several groups may have one description.
    pub guid: Option<String>,
    pub seq: Option<u64>,
    /// `ALLREDUCE`
    pub op: Option<String>,
    pub numel_in: Option<u64>,
    pub numel_out: Option<u64>,
    pub timeout_ms: Option<u64>,
    pub ran_ms: Option<u64>,
}

impl CollectiveTimeout {
    /// A send, a receive, or a batch of them (`batch_isend_irecv`), which PyTorch calls coalesced and gives no number of elements. They are
    /// counted apart on each rank: the same number on two of them means nothing.
    pub fn is_p2p(&self) -> bool {
        match self.op.as_deref() {
            Some("SEND" | "RECV" | "RECVANYSOURCE") => true,
            Some("COALESCED") => self.numel_in.is_none(),
            _ => false,
        }
    }

    /// How long the rank had waited when it printed this.
    pub fn waited(&self) -> Duration {
        Duration::from_millis(self.ran_ms.or(self.timeout_ms).unwrap_or(0))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// `ValueError`, `torch.distributed.DistBackendError`
    pub class: String,
    pub message: String,
    /// Last `File "…", line N, in f` before it.
    pub place: Option<String>,
    /// A consequence of another process's end (`ChildFailedError`, `SignalException`, connection resets, `ncclRemoteError`).
    pub victim: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFailure {
    /// Stands below "Root Cause (first observed failure)".
    pub root: bool,
    pub rank: Option<u32>,
    pub local_rank: Option<u32>,
    pub host: Option<String>,
    pub exit_code: Option<i32>,
    pub pid: Option<u32>,
    pub time: Option<Written>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Checkpoint,
    Evaluation,
    Compilation,
    DataLoading,
    /// A server that answers requests: between them nobody is late.
    Serving,
}

impl Phase {
    pub const ALL: [Phase; 5] = [Phase::Checkpoint, Phase::Evaluation, Phase::Compilation, Phase::DataLoading, Phase::Serving];

    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Checkpoint => "checkpoint",
            Phase::Evaluation => "evaluation",
            Phase::Compilation => "compilation",
            Phase::DataLoading => "data loading",
            Phase::Serving => "serving",
        }
    }
}

/// What a progress line tells. Absent is `None`; NaN and infinity are kept as they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    pub dialect: Dialect,
    pub step: Option<u64>,
    pub total_steps: Option<u64>,
    pub epoch: Option<f64>,
    pub loss: Option<f64>,
    pub grad_norm: Option<f64>,
    pub learning_rate: Option<f64>,
    pub step_time_s: Option<f64>,
    pub throughput: Option<f64>,
    /// `tokens/s`, `samples/s`, `tokens/s/GPU`, `TFLOP/s/GPU`
    pub throughput_unit: Option<&'static str>,
    /// The loss was expected in this line and is not there (Megatron leaves a NaN out).
    pub loss_missing: bool,
    /// A bar that is redrawn (`\r`): newer ones replace it.
    pub bar: bool,
    /// Time left that the line itself gives, s.
    pub remaining_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    #[default]
    Plain,
    HfTrainer,
    Tqdm,
    Lightning,
    DeepSpeed,
    Megatron,
    Torchtitan,
    Nemo,
    NanoGpt,
    LitGpt,
    Composer,
    Fairseq,
    /// PyTorch's examples, torchvision, MMEngine.
    Vision,
    Json,
    /// Of which only `assets/progress` knows, under this name.
    Other(&'static str),
}

impl Dialect {
    const KNOWN: [Dialect; 14] = [
        Dialect::Plain,
        Dialect::HfTrainer,
        Dialect::Tqdm,
        Dialect::Lightning,
        Dialect::DeepSpeed,
        Dialect::Megatron,
        Dialect::Torchtitan,
        Dialect::Nemo,
        Dialect::NanoGpt,
        Dialect::LitGpt,
        Dialect::Composer,
        Dialect::Fairseq,
        Dialect::Vision,
        Dialect::Json,
    ];

    /// The dialect of this name. A name that is not known is kept as long as the program runs: names come from a table that is read once.
    pub fn named(name: &str) -> Dialect {
        Dialect::KNOWN.into_iter().find(|d| d.as_str() == name).unwrap_or_else(|| Dialect::Other(name.to_owned().leak()))
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Dialect::Plain => "plain",
            Dialect::HfTrainer => "hf-trainer",
            Dialect::Tqdm => "tqdm",
            Dialect::Lightning => "lightning",
            Dialect::DeepSpeed => "deepspeed",
            Dialect::Megatron => "megatron",
            Dialect::Torchtitan => "torchtitan",
            Dialect::Nemo => "nemo",
            Dialect::NanoGpt => "nanogpt",
            Dialect::LitGpt => "litgpt",
            Dialect::Composer => "composer",
            Dialect::Fairseq => "fairseq",
            Dialect::Vision => "vision",
            Dialect::Json => "json",
            Dialect::Other(name) => name,
        }
    }
}

impl What {
    /// As [`What::signature`]; what a reader takes in its own words, the catalogue may know by the text of its line.
    pub fn entry_of(&self, line: &str) -> Option<&'static catalog::Signature> {
        let by_text = || catalog::find(catalog::Scope::Line, prefix::peel(line).rest).filter(|_| self.is_alarm());
        self.signature().or_else(by_text)
    }

    /// Which event it is: `nccl-version` of [`What::NcclVersion`].
    pub fn name(&self) -> String {
        let name = format!("{self:?}");
        let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let mut words = String::new();
        for (at, c) in name.char_indices() {
            if at > 0 && c.is_ascii_uppercase() {
                words.push('-');
            }
            words.push(c.to_ascii_lowercase());
        }
        words
    }

    /// The entry of the catalogue that knows the text of this event.
    pub fn signature(&self) -> Option<&'static catalog::Signature> {
        let line = |text: &str| catalog::find(catalog::Scope::Line, text);
        match self {
            What::Signed { signature, .. } => Some(signature),
            What::NcclWarn { site, text } => catalog::find_warn(site.as_deref(), text),
            What::CudaError { text } | What::CudaOom { text, .. } | What::TakingDown { text } => line(text),
            What::Exception(e) => {
                // NCCL's own last words say more than the kind of its error.
                let reason = error_words::last_error(&e.message).and_then(|reason| catalog::find(catalog::Scope::Nccl, reason));
                reason.or_else(|| line(&error_words::exception_words(e)))
            }
            _ => None,
        }
    }
}

/// What a line is known by, without the lines around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownBy {
    /// The entry of the catalogue.
    pub entry: Option<&'static catalog::Signature>,
    /// What a reader takes from it, in the reader's own word: `step`.
    pub reader: Option<String>,
}

/// The first thing that a line says; nothing where it means nothing.
pub fn known_by(line: &str) -> KnownBy {
    let mut events = Vec::new();
    let mut reader = Reader::default();
    reader.read_all(line, prefilter::classify(line.as_bytes()), &mut events);
    reader.torch.idle(&mut events);
    let Some(event) = events.first() else { return KnownBy::default() };
    KnownBy { entry: event.what.entry_of(line), reader: Some(event.what.name()) }
}

/// Whether a line that is worth a look says nothing worse than a warning, as far as it says anything without the lines around it.
pub fn is_only_warning(line: &[u8]) -> bool {
    let mut events = Vec::new();
    Reader::default().read(&String::from_utf8_lossy(line), prefilter::Class::Alarm, &mut events);
    !events.is_empty() && events.iter().all(|e| e.what.severity() < Some(Severity::Error))
}

/// What the user has muted is never reported.
fn drop_muted(from: usize, out: &mut Vec<TextEvent>) {
    if from < out.len() && catalog::user::has_mutes() {
        let new = out.split_off(from);
        out.extend(new.into_iter().filter(|event| event.what.signature().is_none_or(|s| !s.muted)));
    }
}

/// A record of a log shipper: JSON that holds the text of a program, with the ends of its lines spelled out.
#[derive(Deserialize)]
struct Shipped {
    #[serde(alias = "message", alias = "msg", alias = "MESSAGE")]
    log: String,
    #[serde(default, alias = "timestamp", alias = "@timestamp")]
    time: Option<serde_json::Value>,
}

/// The lines that a log shipper put into one record (`{"log":"ValueError: x\n","time":"2026-05-04T10:00:00Z"}`), each behind its time.
fn unwrapped(line: &str) -> Option<String> {
    if !line.starts_with('{') || !line.contains("\\n") {
        return None;
    }
    let shipped: Shipped = serde_json::from_str(line.trim_end()).ok()?;
    let time =
        shipped.time.as_ref().and_then(|time| time.as_str()).filter(|time| prefix::stamp::iso(time).is_some_and(|(_, n)| n == time.len()));
    let before = time.map_or(String::new(), |time| format!("{time} "));
    let lines = shipped.log.lines().filter(|text| !text.trim().is_empty());
    Some(lines.map(|text| format!("{before}{text}\n")).collect())
}

/// The value of a line of JSON that is spread over lines: `"message": "no such node",`.
fn without_json(text: &str) -> &str {
    let value = || text.strip_prefix('"')?.split_once("\": \"")?.1.trim_end_matches(',').strip_suffix('"');
    value().map_or(text, |value| value.trim_end_matches([':', ' ']))
}

/// What the driver says of a GPU in several lines, of which only the first names it.
#[derive(Clone, Default, PartialEq)]
struct OfGpu {
    text: String,
    lines: u8,
}

impl OfGpu {
    /// The whole record, where `rest` goes on with one that names a GPU: its lines behind one another.
    fn read(&mut self, rest: &str) -> Option<String> {
        let text = rest.trim();
        let Some(tail) = text.strip_prefix("NVRM: ") else {
            *self = OfGpu::default();
            return None;
        };
        if tail.starts_with("The NVIDIA GPU ") {
            *self = OfGpu { text: text.to_owned(), lines: 1 };
            return None;
        }
        if self.lines == 0 || self.lines > 4 {
            return None;
        }
        self.lines += 1;
        self.text.push(' ');
        self.text.push_str(&clip(tail, 200));
        Some(self.text.clone())
    }
}

/// Reads the lines of one file, in order.
#[derive(Clone, Default, PartialEq)]
pub struct Reader {
    torch: torch::State,
    nccl: nccl::State,
    progress: progress::State,
    /// It is a `metrics.csv`.
    metrics: Option<metrics::Columns>,
    is_first: bool,
    gpu: OfGpu,
    /// ctest wrote it: what stands before its lines is the number of a test, not of a rank.
    of_ctest: bool,
    parts: parts::Parts,
    /// Horovod's `Missing ranks:` was read: a line for each of them follows.
    names_missing: bool,
}

/// The head of Horovod's list of ranks that others wait for.
const MISSING: &str = "Missing ranks:";
/// How lines begin that a launcher prints under its own name.
const LAUNCHERS: &[&str] = &["srun: ", "slurmstepd", "mpirun ", "mpiexec ", "prterun "];

/// Nothing that a reader knows is longer; longer lines are read up to here.
const MAX_LINE: usize = 64 * 1024;

impl Reader {
    /// A record of several lines has begun, and the next line may belong to it although it looks like noise.
    pub fn is_inside(&self) -> bool {
        !self.torch.is_idle() || !self.parts.is_empty() || self.names_missing
    }

    /// The number in its file of the line that [`Reader::line`] gets next.
    pub fn at_line(&mut self, no: Option<u64>) {
        self.torch.at_line(no);
        self.is_first = no == Some(1);
    }

    /// Puts what `line` says into `out`, if it is worth a look. `line` is one physical line without its end, as it came; it may hold
    /// several records.
    pub fn line(&mut self, line: &str, out: &mut Vec<TextEvent>) {
        self.read(line, prefilter::classify(line.as_bytes()), out);
    }

    /// Like [`Reader::line`], for a caller that has asked the gate already.
    pub fn read(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        let before = out.len();
        self.read_all(line, class, out);
        drop_muted(before, out);
    }

    /// Like [`Reader::read`], with what the user has muted.
    pub fn read_all(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        match self.parts.read(line) {
            parts::Part::Whole => self.read_whole(line, class, out),
            parts::Part::Begun => {}
            parts::Part::Ended(line) => self.read_whole(&line, prefilter::classify(line.as_bytes()), out),
        }
    }

    fn read_whole(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        if std::mem::take(&mut self.is_first) {
            self.metrics = metrics::Columns::of(line);
        }
        if let Some(step) = self.metrics.as_ref().and_then(|columns| columns.row(line)) {
            out.push(TextEvent { origin: Origin::default(), what: What::Step(step), said_at: None });
            return;
        }
        // Lines that belong to a record that has begun may look like anything.
        let class = if !self.torch.is_idle() { prefilter::Class::Alarm } else { class };
        if class == prefilter::Class::Noise {
            return;
        }
        let rest = &line[..(0..=line.len().min(MAX_LINE)).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0)];
        let of_logger = || prefix::of_json(rest).filter(|_| class == prefilter::Class::Alarm);
        match unwrapped(rest).or_else(of_logger) {
            Some(text) => self.pieces(&text, class, out),
            None => self.pieces(rest, class, out),
        }
    }

    fn pieces(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        let mut rest = line;
        while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
            self.piece(&rest[..at], class, out);
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() || line.is_empty() {
            self.piece(rest, class, out);
        }
    }

    fn piece(&mut self, piece: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        let cleaned = clean(piece);
        if let Some(event) = self.missing(&cleaned) {
            return out.push(event);
        }
        let text = self.without_test(&cleaned);
        // Every head of another record has a bracket, or stands behind a bar.
        if memchr::memchr(b']', text.as_bytes()).is_none() && prefix::behind_bar(text).is_none() {
            return self.record(prefix::peel(text), class, out);
        }
        for record in prefix::records(text) {
            self.record(prefix::peel(record), class, out);
        }
    }

    /// The line without the number of a test of ctest, which looks like a rank.
    fn without_test<'a>(&mut self, line: &'a str) -> &'a str {
        let numbered = |line: &'a str| {
            let inner = line.trim_start_matches(' ');
            let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
            (digits > 0).then(|| inner[digits..].strip_prefix(": ")).flatten()
        };
        self.of_ctest |= line.trim_start().strip_prefix("Start ").is_some_and(|tail| numbered(tail).is_some());
        if self.of_ctest { numbered(line).unwrap_or(line) } else { line }
    }

    /// `2: [grads_0, grads_1]` of Horovod's list of ranks that others wait for.
    fn missing(&mut self, text: &str) -> Option<TextEvent> {
        // The number is no prefix of a launcher.
        let tail = ["]<stderr>:", "]<stdout>:"].iter().find_map(|tag| Some(text.split_once(tag)?.1)).unwrap_or(text).trim();
        if !std::mem::replace(&mut self.names_missing, tail == MISSING) {
            return None;
        }
        let (rank, tensors) = tail.split_once(": [")?;
        rank.parse::<u32>().ok()?;
        let tensor = tensors.split([',', ']']).next()?;
        let text = format!("{} [missing ranks: {rank}]", clip(tensor, 120));
        let signature = catalog::find(catalog::Scope::Line, &text)?;
        self.names_missing = true;
        let origin = prefix::peel(text.as_str()).origin;
        Some(TextEvent { origin, what: What::Signed { signature, text, tried: false }, said_at: None })
    }

    /// The file has been silent for a while, or has ended: puts what was held back, because more of it might have come, into `out`.
    pub fn idle(&mut self, out: &mut Vec<TextEvent>) {
        let before = out.len();
        for line in self.parts.take() {
            self.read_whole(&line, prefilter::classify(line.as_bytes()), out);
        }
        self.torch.idle(out);
        drop_muted(before, out);
    }

    fn record(&mut self, mut p: prefix::Peeled<'_>, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        static NCCL: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("NCCL "));
        static DRIVER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("NVRM: "));
        static BANNER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("OMP_NUM_THREADS"));
        static OPTIONS: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("ProcessGroupNCCL initialization options"));
        static PLACED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(") world_rank="));
        if NCCL.find(p.rest.as_bytes()).is_some() || nccl::may_be_early(p.rest) || p.rest.starts_with(nccl::OF_PLUGIN_TEST) {
            match self.nccl.read(p.rest, &p.origin, out) {
                None => {}
                Some(before) if before.trim().is_empty() => return self.torch.pass(out),
                Some(before) => p.rest = before,
            }
        }
        if let Some((_, version)) = p.rest.split_once("vLLM is using nccl==") {
            let version = version.split_whitespace().next().unwrap_or_default().to_owned();
            out.push(TextEvent { origin: p.origin.clone(), what: What::NcclVersion { version, cuda: None }, said_at: None });
            return;
        }
        // What PyTorch says is an alarm, but for torchrun's banner, the timeout of a process group, Ray's list of workers, and records in
        // whose middle a log begins.
        let in_middle = || p.rest.starts_with("  File \"") || p.rest.starts_with("  time ");
        let is_fact = || in_middle() || [&BANNER, &OPTIONS, &PLACED].iter().any(|words| words.find(p.rest.as_bytes()).is_some());
        let torch = class == prefilter::Class::Alarm || is_fact();
        // A traceback that waits for a line behind its last one gets none from a launcher.
        let is_launcher = torch && LAUNCHERS.iter().any(|name| p.rest.starts_with(name));
        if is_launcher {
            self.torch.idle(out);
        }
        let before = out.len();
        let taken = torch && self.torch.read(&p, out);
        // What no reader tells is looked up. What a record of several lines holds belongs to it, but not what the driver prints between
        // them on a console. A record that ended with this line is of earlier ones.
        let of_driver = || !taken && DRIVER.find(p.rest.as_bytes()).is_some();
        let is_told = if taken { out.len() > before } else { out[before..].iter().any(|event| event.said_at.is_none()) };
        if torch
            && (!is_told && (is_launcher || !self.is_inside()) || of_driver())
            && let of_gpu = self.gpu.read(p.rest)
            && let Some(signature) = catalog::find(catalog::Scope::Line, p.rest)
        {
            let text = of_gpu.as_deref().unwrap_or_else(|| without_json(p.rest.trim()));
            let text = clip(text, catalog::MAX_TEXT).into_owned();
            out.push(TextEvent { origin: p.origin.clone(), what: What::Signed { signature, text, tried: false }, said_at: None });
            return;
        }
        if !taken && !p.cpp {
            self.progress.read(&p, out);
        }
    }
}
