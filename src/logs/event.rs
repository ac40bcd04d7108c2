//! What lines say, as values: one event for each thing, and who wrote the line.

use super::header::{Launch, Present};
use super::{catalog, error_words, prefix};
use crate::base::severity::Severity;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub use super::nccl::types::{
    Ending, FabricLine, GraphPath, GraphPaths, NetDevice, NetDevices, Ofi, PathKind, Plugin, PluginKind, PluginState, Timings,
};
pub use super::torch::doing::{Doing, Task, stage_words};

/// One thing a log line says.
#[derive(Clone, Debug, PartialEq)]
pub struct TextEvent {
    pub origin: Origin,
    pub what: What,
    /// The line that says it, where it is an earlier one than the line just read: a traceback is reported when the next line shows that
    /// it has ended.
    pub said_at: Option<SaidAt>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SaidAt {
    /// From 1, as given to [`Reader::at_line`].
    pub line: Option<u64>,
    pub text: String,
    /// Where a traceback says that it was raised, of the program's own frames the last: `File "train.py", line 486, in main`.
    pub raised_at: Option<String>,
    /// The source of that frame, where the traceback shows it: `images.to(device)`.
    pub source: Option<String>,
    /// What a traceback says that the program was doing.
    pub doing: Doing,
    /// Its functions, from the program's own to the one that raised: `main (train.py:163) > initialize … _broadcast_model (deepspeed)`;
    /// empty where the last frame says all.
    pub calls: String,
    /// Its outermost frame is that of a program on a command line: `python -c`.
    pub of_command: bool,
}

/// Who wrote the line, as far as the line itself tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Global rank: from `[rank3]:`, `[1,3]<stdout>:`, `3: ` of srun.
    pub rank: Option<u32>,
    pub rank_by: RankBy,
    /// torchrun's `[default3]:`.
    pub local_rank: Option<u32>,
    pub host: Option<String>,
    /// In the PID namespace of the writer.
    pub pid: Option<u32>,
    pub tid: Option<u32>,
    /// Ray's name of an actor or a task: `MegatronPolicyWorker` of `(MegatronPolicyWorker pid=310)`.
    pub worker: Option<Box<str>>,
    /// CUDA index current in the calling thread (NCCL's `[3]`): not the rank.
    pub cuda_dev: Option<u32>,
    /// The time that the line carries, if any.
    pub written: Option<Written>,
    /// Ray has left out equal lines of other processes: `[repeated 15x across cluster]`.
    pub stands_for_others: bool,
}

/// What in front of a line names the rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankBy {
    #[default]
    Other,
    /// The number of its task, by `srun -l`.
    Task,
    /// A tag of MPI.
    Mpi,
    /// `[rank3]:`, which PyTorch prints in front of its own lines, and of an exception that nobody has caught.
    PyTorch,
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
        nranks: u32,
        how: Ending,
    },
    /// Destroy, abort or revocation of a communicator finished.
    CommEnded {
        comm: String,
        rank: u32,
        nranks: u32,
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
    /// `Stack trace of the failed collective: ` and its frames.
    WorkStack(WorkStack),
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
        host: Option<String>,
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
    /// The tasks of srun each start several ranks: their numbers are no ranks.
    TasksAreLaunchers,

    /// A number or a name of the job that its programs print once: a row of the report, and the words in it.
    Detail {
        /// `parallel`
        row: &'static str,
        /// `tensor {}`
        of: &'static str,
        /// `2`
        value: String,
    },
    /// `DeepSpeed info: version=0.16.3`: the version of a program.
    Software {
        name: &'static str,
        version: String,
    },
    /// How the job was started, as far as the line says.
    Launch(Launch),
    /// `Saving checkpoint to exp/epoch-14.pt`
    Saved {
        text: String,
    },
    /// `resuming from snapshot at epoch 4`
    Resumed {
        text: String,
    },
    /// `validation loss at iteration 5000 | lm loss value: 5.741563E+00`
    Evaluated {
        text: String,
    },
    /// `train_runtime: 2233.1, train_samples_per_second: 21.28`: what a program prints when it is done.
    Result {
        text: String,
    },
    /// `Decode batch. #running-req: 3, gen throughput (token/s): 410.2`: what is told in a row of the report as it was said last.
    Last {
        row: &'static str,
        text: String,
    },
    /// `initialized host node-1 as rank 4`, `rank: 3, world_size: 8`
    Present(Present),
    /// `GLOBAL_RANK: 1, MEMBER: 2/8`: a rank has begun.
    Joined {
        rank: u32,
        members: u32,
    },

    /// A step of training.
    Step(Step),
    /// Total number of steps, printed once (`Total optimization steps = 1875`).
    TotalSteps {
        total: u64,
    },
    /// A bar that may be that of the training stands at its start, of so many.
    AtStart {
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
    SkippedStep {
        /// What the gradients are multiplied with from now on, where the line says it.
        scale: Option<f64>,
    },

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

    /// It tells of the run itself, and may stand in a line that says something else.
    pub fn is_header(&self) -> bool {
        matches!(
            self,
            What::Software { .. }
                | What::Detail { .. }
                | What::Launch(_)
                | What::Saved { .. }
                | What::Resumed { .. }
                | What::Evaluated { .. }
                | What::Result { .. }
                | What::Last { .. }
                | What::Present(_)
                | What::Joined { .. }
        )
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

/// Where a program called a collective that timed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkStack {
    /// PyTorch's function: `all_reduce`.
    pub op: String,
    /// The calls that led there, the innermost first, without those of PyTorch and of Python.
    pub calls: Vec<PythonCall>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PythonCall {
    pub function: String,
    /// `model.py:3174`
    pub place: String,
    /// It is no installed library's.
    pub is_own: bool,
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exception {
    /// `ValueError`, `torch.distributed.DistBackendError`; empty where the log ends before it.
    pub class: String,
    pub message: String,
    /// The source that failed, of an assertion without words: `assert heads % size == 0`.
    pub assertion: Option<String>,
    /// Last `File "…", line N, in f` before it.
    pub place: Option<String>,
    /// Where that is a library's, the last one before it of the program itself.
    pub called_from: Option<String>,
    /// The exception that was being handled when it came, the first of a chain: `RuntimeError: file write failed`.
    pub after: Option<String>,
    /// It was raised from that one, as its program says: `raise … from e`.
    pub is_because: bool,
    /// A data loader raised it, or handed it up.
    pub in_loader: bool,
    /// It ended a thread that the program had started (`threading.py`); the process may go on.
    pub in_thread: bool,
    /// A consequence of another process's end (`ChildFailedError`, `SignalException`, connection resets, `ncclRemoteError`).
    pub victim: bool,
}

impl Exception {
    /// The exception before it, where this one only says that there was one.
    pub fn handed_on(&self) -> Option<&str> {
        // What a queue says whose data loading process is gone is a consequence, unless it is that process's own end.
        let is_more = |first: &&str| !self.message.starts_with("DataLoader worker (pid") || first.contains("DataLoader worker");
        self.after.as_deref().filter(is_more).filter(|_| error_words::hands_on(&self.message))
    }

    /// The entry of the catalogue that knows it. What a library reports behind the last line is why the call of it failed.
    pub fn signature(&self) -> Option<&'static catalog::Signature> {
        let find = |text: &str| catalog::find(catalog::Scope::Line, text);
        let report = self.message.lines().skip(1).find(|line| error_words::is_library_report(line.trim_start()));
        let says_why = |s: &&catalog::Signature| matches!(s.part, catalog::Part::Cause | catalog::Part::Messenger);
        let behind = report.and_then(|_| self.message.split_once('\n')).and_then(|(_, tail)| find(tail)).filter(says_why);
        let first = || self.handed_on().and_then(find).filter(says_why);
        behind.or_else(first).or_else(|| find(&error_words::exception_words(self)))
    }
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
    /// Samples of one step on all ranks. Of a run that begins with small batches it grows, and steps with it.
    pub global_batch: Option<f64>,
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
                reason.or_else(|| e.signature())
            }
            _ => None,
        }
    }
}
