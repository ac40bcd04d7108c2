//! The initial environment of a process: which rank it says it is, and the variables that may be shown. Everything else in it
//! (tokens, home directories) is never taken.

use super::stat::number;
use crate::base::mask;
use std::collections::BTreeMap;

/// Who gave the rank. In order of precedence: below srun, torchrun's own numbers are the true ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Torch,
    OpenMpi,
    Mvapich,
    Pmi,
    Pmix,
    /// horovodrun over Gloo.
    Horovod,
    /// What `jax.distributed` and MaxText read.
    Jax,
    Paddle,
    Slurm,
    Kubernetes,
    /// `RankKey::rank` is the number on the node.
    Lightning,
    /// The only process of `accelerate launch`.
    Accelerate,
}

/// The rank that an environment names. Wrappers and data loader workers inherit it, so it does not name a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RankKey {
    pub family: Family,
    pub rank: u32,
    /// `None` only where the launcher does not say it (PMIx).
    pub world: Option<u32>,
}

/// Rank variable, and the variables of which one must be there too.
const RANKS: &[(Family, &str, &[&str])] = &[
    (Family::Torch, "RANK", &["WORLD_SIZE"]),
    (Family::OpenMpi, "OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_SIZE"]),
    (Family::Mvapich, "MV2_COMM_WORLD_RANK", &["MV2_COMM_WORLD_SIZE"]),
    (Family::Pmi, "PMI_RANK", &["PMI_SIZE"]),
    (Family::Pmix, "PMIX_RANK", &["PMIX_NAMESPACE"]),
    (Family::Horovod, "HOROVOD_RANK", &["HOROVOD_SIZE"]),
    (Family::Jax, "JAX_PROCESS_ID", &["JAX_NUM_PROCESSES", "JAX_PROCESS_COUNT"]),
    (Family::Jax, "JAX_PROCESS_INDEX", &["JAX_PROCESS_COUNT", "JAX_NUM_PROCESSES"]),
    (Family::Paddle, "PADDLE_TRAINER_ID", &["PADDLE_TRAINERS_NUM"]),
    (Family::Slurm, "SLURM_PROCID", &["SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_NPROCS"]),
    (Family::Kubernetes, "JOB_COMPLETION_INDEX", &["WORLD_SIZE"]),
];

const SHOWN: &[&str] = &[
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_NODE_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_LOCAL_RANK",
    "PMI_LOCAL_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "JAX_PROCESS_ID",
    "JAX_PROCESS_INDEX",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_COUNT",
    "JAX_COORDINATOR_ADDRESS",
    "PADDLE_TRAINER_ID",
    "PADDLE_TRAINERS_NUM",
    "PADDLE_MASTER",
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "SLURM_STEP_ID",
    "SLURM_STEPID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NPROCS",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_JOB_NAME",
    "SLURM_JOB_USER",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_PARTITION",
    "SLURM_CLUSTER_NAME",
    "SLURM_RESTART_COUNT",
    "PET_NNODES",
    "PET_NODE_RANK",
    "JOB_COMPLETION_INDEX",
    "HOSTNAME",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NVIDIA_VISIBLE_DEVICES",
    "OMP_NUM_THREADS",
    "UCX_NET_DEVICES",
    "PYTORCH_CUDA_ALLOC_CONF",
    "RAY_JOB_ID",
    "ACCELERATE_MIXED_PRECISION",
];

/// What `accelerate launch` gives to each process that it starts, and a user sets by hand only one of.
const ACCELERATE: [&[u8]; 2] = [b"ACCELERATE_MIXED_PRECISION", b"ACCELERATE_DYNAMO_MODE"];

const SHOWN_PREFIXES: &[&str] = &["NCCL_", "FI_", "OFI_", "TORCH_", "TORCHELASTIC_"];

/// Its value is an address of the cluster: that it is there says enough.
const POD: &str = "KUBERNETES_SERVICE_HOST";

const MAX_VALUE_CHARS: usize = 256;
const MAX_SHOWN: usize = 256;

/// What finding ranks needs of an environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signs {
    pub key: Option<RankKey>,
    pub slurm_job: Option<String>,
    /// Where the srun listens that has started this step.
    pub srun_port: Option<u16>,
    pub ray_job: Option<String>,
    /// Lightning's own launcher numbers the nodes, and names no rank.
    pub node_rank: Option<u32>,
}

impl Signs {
    pub fn read(raw: &[u8]) -> Self {
        let mut signs = Signs::default();
        let mut ranks: [Option<u32>; RANKS.len()] = [None; RANKS.len()];
        let mut worlds: [Option<Option<u32>>; RANKS.len()] = [None; RANKS.len()];
        let (mut local_rank, mut node_rank, mut by_accelerate) = (None, None, 0);
        for (name, value) in variables(raw) {
            match name {
                b"SLURM_JOB_ID" => signs.slurm_job = Some(super::printable(value)),
                b"SLURM_SRUN_COMM_PORT" => signs.srun_port = number(value),
                b"RAY_JOB_ID" => signs.ray_job = Some(super::printable(value)),
                b"LOCAL_RANK" => local_rank = number(value),
                b"NODE_RANK" => node_rank = number(value),
                _ if ACCELERATE.contains(&name) => by_accelerate += 1,
                _ => {}
            }
            for (at, (_, rank, world)) in RANKS.iter().enumerate() {
                if name == rank.as_bytes() {
                    ranks[at] = number(value);
                } else if world.iter().any(|w| w.as_bytes() == name) {
                    worlds[at] = Some(number(value));
                }
            }
        }
        signs.key = RANKS.iter().zip(ranks).zip(worlds).find_map(|(((family, _, _), rank), world)| {
            let (rank, world) = (rank?, world?);
            (world.is_some() || *family == Family::Pmix).then_some(RankKey { family: *family, rank, world })
        });
        let torch = RANKS.iter().position(|(family, _, _)| *family == Family::Torch);
        if let (None, Some(rank), Some(_), Some(Some(world))) = (signs.key, local_rank, node_rank, torch.and_then(|at| worlds[at])) {
            signs.key = Some(RankKey { family: Family::Lightning, rank, world: Some(world) });
            signs.node_rank = node_rank;
        }
        if signs.key.is_none() && by_accelerate == ACCELERATE.len() {
            signs.key = Some(RankKey { family: Family::Accelerate, rank: 0, world: Some(1) });
        }
        signs
    }
}

/// The variables that may be shown. A name that smells of a secret is never taken, whatever its prefix.
pub fn shown(raw: &[u8]) -> BTreeMap<String, String> {
    variables(raw)
        .filter_map(|(name, value)| {
            let name = std::str::from_utf8(name).ok()?;
            if name == POD {
                return Some((name.to_owned(), "set".to_owned()));
            }
            let wanted = SHOWN.contains(&name) || SHOWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            let plain = !mask::is_secret_name(name) && name.bytes().all(|b| b.is_ascii_graphic());
            (wanted && plain).then(|| {
                (name.to_owned(), {
                    // Half a secret is a secret too, and no longer looks like one.
                    let masked = mask::variable(name, &super::printable(value));
                    masked.chars().take(MAX_VALUE_CHARS).collect()
                })
            })
        })
        .take(MAX_SHOWN)
        .collect()
}

/// One variable, unbounded and unmasked: for paths that are to be opened.
pub fn variable<'a>(raw: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    variables(raw).find(|(name, _)| *name == wanted.as_bytes()).map(|(_, value)| value)
}

fn variables(raw: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    raw.split(|b| *b == 0).filter_map(|entry| {
        let equals = memchr::memchr(b'=', entry)?;
        Some((&entry[..equals], &entry[equals + 1..]))
    })
}
