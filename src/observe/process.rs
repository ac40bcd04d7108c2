//! Processes of jobs: ranks and their launchers.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// Facts that seldom change. Sent when first seen, and again when one of them changes (exec, late environment, new log file).
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessInfo {
    pub pid: u32,
    pub ppid: u32,
    /// /proc/PID/stat field 22, clock ticks since boot: with the pid it names a process for good.
    pub start_ticks: u64,
    pub role: ProcessRole,
    pub uid: u32,
    /// First 15 characters of the program's name.
    pub comm: String,
    /// Arguments, secrets masked, bounded.
    pub cmdline: Vec<String>,
    /// Allow-listed variables of the initial environment. `None`: may not be read.
    pub env: Option<BTreeMap<String, String>>,
    /// Its place in the job, where its environment does not name it.
    pub place: Option<Place>,
    /// The process that has its output and is none of its ancestors: Slurm's client `srun`, whose tasks are children of slurmstepd, or the
    /// controller of Ray Train.
    pub client: Option<u32>,
    /// Innermost pid (last of NSpid): the one that NCCL's lines carry.
    pub ns_pid: Option<u32>,
    /// Path in /proc/PID/cgroup, for grouping and for the container's name.
    pub cgroup: Option<String>,
    /// The pod that it runs in, by the path of its control group and kubelet's directories of logs.
    pub pod: Option<Pod>,
    pub cwd: Option<String>,
    /// Where the output goes and which log files belong to this process.
    pub logs: Vec<ProcessLog>,
    /// Directories of files that it had open for writing while it wrote much.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<WrittenDir>,
    pub setup: Option<ProcessSetup>,
    /// What could not be read, and why: `environ: permission denied`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

/// A place in a job whose launcher does not number its ranks: Lightning's own is itself a rank and numbers what it starts by node, and
/// `accelerate launch` numbers nothing where it starts one process.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Place {
    /// The process that has started the ranks of this node.
    pub leader: u32,
    /// `None`: not certain, as the nodes before may have another number of ranks.
    pub rank: Option<u32>,
    pub local_rank: Option<u32>,
    pub world_size: Option<u32>,
}

/// A pod of Kubernetes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// metadata.uid, with dashes; of a static pod the hash that kubelet gives to it.
    pub uid: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    /// `None` where the pod has several, and nothing tells which it is.
    pub container: Option<String>,
}

/// What a process may use, and which namespaces it is in: /proc/PID/limits, status and ns.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSetup {
    /// The soft limit; `u64::MAX` is unlimited.
    pub memlock_bytes: Option<u64>,
    /// Up to this it may be raised.
    pub memlock_hard_bytes: Option<u64>,
    /// The hard limit: NCCL raises the soft one to it.
    pub open_files: Option<u64>,
    /// CAP_IPC_LOCK is effective: the limit on locked memory does not count.
    pub locks_freely: Option<bool>,
    /// The CPUs that it may run on: `0-15,64-79`, Cpus_allowed_list of /proc/PID/status.
    pub cpus: Option<String>,
    /// `ipc:[4026531839]`
    pub ipc_namespace: Option<String>,
    pub pid_namespace: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessRole {
    /// One of the processes that hold a GPU or have a rank in their environment.
    Rank,
    /// torchrun, srun, mpirun, deepspeed, accelerate: the parent of ranks.
    Launcher,
    /// Neither a rank nor a GPU is seen of it, but it has a training framework loaded and its output counts steps.
    Trainer,
    /// Holds a GPU, but nothing says that it is a rank.
    #[default]
    #[serde(other)]
    GpuUser,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessLog {
    pub via: LogVia,
    /// The path as this host can open it, or the link's text where it is no regular file (`pipe:[123]`, `/dev/pts/3`).
    pub path: String,
    /// `None`: not a regular file, never opened.
    pub inode: Option<u64>,
    pub device: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogVia {
    Stdout,
    Stderr,
    NcclDebugFile,
    TorchrunLogDir,
    #[default]
    #[serde(other)]
    Other,
}

/// A directory that a process writes to, such as that of its checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WrittenDir {
    /// As the process names it.
    pub path: String,
    /// st_dev of the file.
    pub device: u64,
}

/// One look at one process. Counters cumulative.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessSample {
    pub pid: u32,
    /// The letter of /proc/PID/stat: R, S, D, T, t, Z, X, I.
    #[serialize_always]
    pub state: Option<char>,
    /// utime + stime, clock ticks.
    pub cpu_ticks: Option<u64>,
    pub threads: Option<u32>,
    pub rss_bytes: Option<u64>,
    /// /proc/PID/io: bytes passed to read and write calls, and bytes that reached storage. Children that are no ranks are added.
    pub rchar_bytes: Option<u64>,
    pub wchar_bytes: Option<u64>,
    pub read_bytes: Option<u64>,
    pub write_bytes: Option<u64>,
    /// Threads in state D right now.
    pub threads_in_d: Option<u32>,
    /// How long its first thread was ready to run and got no CPU, ns since it began: the second number of /proc/PID/schedstat.
    pub run_delay_ns: Option<u64>,
    /// Its descendants that are no ranks. Not of launchers.
    pub helpers: Option<Helpers>,
    /// Where it waits, and where its helpers do: of a process that hardly uses a CPU, once in some looks. Itself comes first.
    pub waits: Option<Vec<Wait>>,
}

/// Descendants of a rank that are no ranks: workers of its data loader, writers of checkpoints, compilers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Helpers {
    pub alive: u32,
    /// Zombies: they have ended, and their parent has not noticed.
    pub dead: u32,
    /// utime + stime of all that live, clock ticks.
    pub cpu_ticks: u64,
}

/// Where a process waits in the kernel.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    pub pid: u32,
    pub comm: String,
    /// The letter of /proc/PID/stat, or of the thread that is in state D.
    pub state: Option<char>,
    /// The system call by its name, from /proc/PID/syscall; `page fault` outside of any.
    pub call: Option<String>,
    /// Of a process with PyTorch's threads of Gloo: whether it waits for other ranks. Those threads sleep with a timeout then, else without.
    pub in_gloo: Option<bool>,
    /// The function of the kernel that it sleeps in: the first of /proc/PID/stack, else /proc/PID/wchan.
    pub place: Option<String>,
    /// The file that the call is about, as /proc/PID/fd names it: `/data/part-07.tar`, `socket:[123]`.
    pub file: Option<String>,
    /// The other end of that file, where it is a TCP socket: `10.0.0.7:443`, from /proc/PID/net/tcp and tcp6.
    pub peer: Option<String>,
    /// The address that it tries to reach, while nothing there answers: `10.0.0.7:29500`, a socket of its own in state SYN_SENT. Looked for
    /// at the port at which ranks meet only.
    pub connects: Option<String>,
    /// The mount that the file lies on; without a file, the only one of the kind that `place` belongs to.
    pub mount: Option<Mount>,
    /// Where it waits for a lock of a file: who holds it, from /proc/locks.
    pub holder: Option<Holder>,
}

impl Wait {
    /// flock(2), or fcntl(2) where it waits.
    pub fn is_for_a_file_lock(&self) -> bool {
        let locks = || self.place.as_deref().is_some_and(|place| place.starts_with("locks_"));
        let call = self.call.as_deref();
        call == Some("flock") || call == Some("fcntl") && locks()
    }
}

/// A process that holds a lock of a file.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    pub pid: u32,
    /// `None`: it may not be read, or it has ended.
    pub comm: Option<String>,
    /// It has ended, and who inherited the open file from it holds the lock on.
    pub ended: bool,
    /// How many more hold the same lock, which they may share.
    pub others: u32,
}

/// A line of /proc/PID/mountinfo.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mount {
    /// Where it is mounted.
    pub at: String,
    /// Its type: `nfs4`, `lustre`, `fuse.s3fs`, `ext4`.
    pub fs: String,
    /// Where it comes from: `filer:/vol7`, `/dev/nvme0n1p1`.
    pub source: String,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessGone {
    pub pid: u32,
    pub start_ticks: u64,
    /// How it ended, where the zombie or the kernel (Linux 6.15 and later) could be asked: exit code, or minus the signal.
    pub exit_code: Option<i32>,
}
