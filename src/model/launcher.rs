//! What started the ranks of a job, by its name.

use super::Model;
use super::job::Job;
use super::process::Process;
use crate::base::agent::{base_name, python_target};

/// Programs and modules of Python, in front of the name that people know them by.
const PROGRAMS: &[(&str, &str)] = &[
    ("torchrun", "torchrun"),
    ("torch.distributed.run", "torchrun"),
    ("torch.distributed.launch", "torchrun"),
    ("accelerate", "accelerate"),
    ("accelerate.commands.", "accelerate"),
    ("deepspeed", "DeepSpeed"),
    ("horovod", "Horovod"),
    ("srun", "srun"),
    ("slurmstepd", "srun"),
    ("mpirun", "mpirun"),
    ("mpiexec", "mpirun"),
    ("orterun", "mpirun"),
    ("orted", "mpirun"),
    ("prte", "mpirun"),
    ("hydra_", "mpirun"),
    ("raylet", "Ray"),
];

/// Variables that a launcher gives to each of its ranks, the innermost launcher first.
const VARIABLES: &[(&str, &str)] = &[
    ("TORCHELASTIC_RUN_ID", "torchrun"),
    ("OMPI_COMM_WORLD_RANK", "mpirun"),
    ("MV2_COMM_WORLD_RANK", "mpirun"),
    ("PMI_RANK", "mpirun"),
    ("HOROVOD_RANK", "horovodrun"),
    ("SLURM_PROCID", "srun"),
];

impl Model {
    /// `torchrun`, `srun`, `mpirun`, `Ray`, `Lightning`, `mp.spawn`, … `None`: nothing shows it.
    pub fn launcher_name(&self, job: &Job) -> Option<&'static str> {
        let ranks = || job.pids().filter_map(|pid| self.processes.get(&pid));
        // Lightning numbers in the environment those that it starts beside the script; `multiprocessing` numbers nobody there.
        let has_numbered = ranks().any(|p| p.env("LOCAL_RANK").is_some());
        let by_program = || by_program(self.processes.get(&job.launcher?)?);
        let of_rank = |p: &Process| {
            let by_variable = || VARIABLES.iter().find(|(variable, _)| p.env(variable).is_some()).map(|(_, name)| *name);
            let by_place = || {
                p.info.place.as_ref()?;
                Some(match () {
                    () if p.env("ACCELERATE_MIXED_PRECISION").is_some() => "accelerate",
                    () if has_numbered => "Lightning",
                    () => "mp.spawn",
                })
            };
            if p.is_of_ray() { Some("Ray") } else { by_place().or_else(by_variable) }
        };
        by_program().or_else(|| ranks().find_map(of_rank))
    }
}

fn by_program(process: &Process) -> Option<&'static str> {
    let target = python_target(&process.info.cmdline).map(base_name);
    let names = [target, Some(process.info.comm.as_str())];
    let known = |name: &str| PROGRAMS.iter().find(|(program, _)| name.starts_with(program)).map(|(_, known)| *known);
    names.into_iter().flatten().find_map(known)
}
