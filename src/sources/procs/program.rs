//! What kind of program a process runs, by its name and arguments. Knows nothing of ranks.

use crate::base::agent::{base_name, is_python, python_target};

/// What a program can be for a training job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Python,
    /// Starts ranks: torchrun, srun, mpirun.
    Launcher,
    /// Stands between a launcher and a rank: shells, `numactl`, `env`, profilers, container starters.
    Wrapper,
    /// Small tools that a job script runs beside the training.
    Tool,
    /// A worker that names itself.
    Helper,
    /// Looks at GPUs, but is no load.
    Monitor,
    Other,
}

const LAUNCHERS: &[&str] = &[
    "torchrun",
    "accelerate",
    "deepspeed",
    "horovodrun",
    "srun",
    "slurmstepd",
    "mpirun",
    "mpiexec",
    "mpiexec.hydra",
    "hydra_pmi_proxy",
    "hydra_bstrap_proxy",
    "orterun",
    "orted",
    "prte",
    "prted",
    "prterun",
    "mpirun_rsh",
    "mpispawn",
    "raylet",
    "torchx",
    "lightning",
];

const LAUNCHER_MODULES: &[&str] = &[
    "torch.distributed.run",
    "torch.distributed.launch",
    "torch.distributed.elastic",
    "accelerate.commands.launch",
    "accelerate.commands.accelerate_cli",
    "deepspeed.launcher.launch",
    "deepspeed.launcher.runner",
    "horovod.runner",
    "horovod.runner.launch",
];

const WRAPPERS: &[&str] = &[
    "bash",
    "sh",
    "dash",
    "ash",
    "zsh",
    "ksh",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "env",
    "timeout",
    "numactl",
    "taskset",
    "nice",
    "ionice",
    "nohup",
    "setsid",
    "stdbuf",
    "time",
    "script",
    "sudo",
    "su",
    "gosu",
    "tini",
    "dumb-init",
    "catatonit",
    "docker-init",
    "s6-svscan",
    "apptainer",
    "singularity",
    "starter",
    "starter-suid",
    "appinit",
    "sinit",
    "enroot",
    "nsys",
    "ncu",
    "strace",
    "gdb",
    "tmux",
    "screen",
    "sshd",
    "kubectl",
    "docker",
    "podman",
];

const TOOLS: &[&str] = &[
    "tee",
    "sleep",
    "cat",
    "tail",
    "head",
    "grep",
    "awk",
    "gawk",
    "mawk",
    "sed",
    "sort",
    "ls",
    "cp",
    "mv",
    "rm",
    "tar",
    "gzip",
    "rsync",
    "scp",
    "ssh",
    "git",
    "curl",
    "wget",
    "vi",
    "vim",
    "nvim",
    "nano",
    "emacs",
    "less",
    "more",
    "top",
    "htop",
    "ps",
    "watch",
    "dstat",
    "iostat",
    "vmstat",
    "sar",
    "ldconfig",
    "dd",
    "find",
    "xargs",
    "yes",
    "tr",
    "cut",
    "wc",
    "jq",
    "nc",
    "socat",
    "date",
    "uniq",
    "mkdir",
    "perl",
    "inotifywait",
    "pgrep",
    "ip",
    "hostname",
    "getent",
    "make",
    "ninja",
    "cc1plus",
    "nvcc",
    "ptxas",
    "cicc",
    "ptrace",
    "py-spy",
    "s5cmd",
];

/// `comm` is cut to 15 characters, hence prefixes.
const MONITORS: &[&str] = &[
    "nvidia-smi",
    "nvidia-persiste",
    "nvidia-imex",
    "nv-hostengine",
    "nv-fabricmanage",
    "dcgm",
    "nvtop",
    "nvitop",
    "gpustat",
    "all-smi",
    "nccl-top",
    "Xorg",
    "Xwayland",
    "gnome-shell",
];

const HELPERS: &[&str] = &["pt_data_worker", "pt_data_pin", "wandb-core", "gpu_stats"];

impl Program {
    pub fn of(comm: &str, args: &[String]) -> Program {
        let is = |names: &[&str], name: &str| names.iter().any(|known| cut(known) == cut(name));
        if MONITORS.iter().any(|known| comm.starts_with(known)) {
            return Program::Monitor;
        }
        if is(LAUNCHERS, comm) {
            return Program::Launcher;
        }
        if is(WRAPPERS, comm) {
            return Program::Wrapper;
        }
        if is(HELPERS, comm) {
            return Program::Helper;
        }
        // A script with its own name as comm, or python with the script as argument: the arguments decide.
        let python = is_python(comm) || args.first().is_some_and(|arg| is_python(base_name(arg)));
        if python {
            return match python_target(args) {
                Some(target) if is_launcher_target(target) => Program::Launcher,
                _ => Program::Python,
            };
        }
        if is(TOOLS, comm) {
            return Program::Tool;
        }
        // slurmstepd and sshd rewrite their arguments: `slurmstepd: [7.0]`.
        let says = args.first().map(|arg| base_name(arg.split([' ', ':']).next().unwrap_or_default())).unwrap_or_default();
        if is(LAUNCHERS, says) { Program::Launcher } else { Program::Other }
    }

    /// Could this be a rank at all?
    pub fn can_train(self) -> bool {
        matches!(self, Program::Python | Program::Other)
    }
}

fn cut(name: &str) -> &str {
    name.get(..15).unwrap_or(name)
}

fn is_launcher_target(target: &str) -> bool {
    if LAUNCHER_MODULES.contains(&target) || LAUNCHERS.contains(&base_name(target)) {
        return true;
    }
    let Some(module) = target.strip_suffix(".py") else { return false };
    LAUNCHER_MODULES.iter().any(|known| module.ends_with(&known.replace('.', "/")))
}
