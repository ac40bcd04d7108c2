//! The process reader against fake /proc trees, and once against the real one.

use crate::support::screen::PATIENCE;
use nccl_top::observe::Body;
use nccl_top::observe::process::{LogVia, ProcessGone, ProcessInfo, ProcessRole, ProcessSample};
use nccl_top::sources::procs::Procs;
use nccl_top::sources::{Hint, Hints, RasAddress, Roots, Source, SourceError};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One process of a fake tree.
#[derive(Clone)]
struct Fake {
    pid: u32,
    ppid: u32,
    comm: String,
    cmdline: String,
    env: String,
    state: char,
    start: u64,
    wait_status: i32,
    ns_pids: String,
    rchar: u64,
    fds: Vec<(u32, String)>,
}

fn process(pid: u32, ppid: u32, cmdline: &str) -> Fake {
    let comm = cmdline.split(' ').next().unwrap().rsplit('/').next().unwrap();
    Fake {
        pid,
        ppid,
        comm: comm.chars().take(15).collect(),
        cmdline: cmdline.into(),
        env: "PATH=/bin HOME=/root".into(),
        state: 'S',
        start: 1000 + u64::from(pid),
        wait_status: 0,
        ns_pids: pid.to_string(),
        rchar: 100,
        fds: Vec::new(),
    }
}

impl Fake {
    fn env(mut self, env: &str) -> Self {
        self.env = format!("{} {env}", self.env);
        self
    }

    fn fd(mut self, fd: u32, target: impl AsRef<Path>) -> Self {
        self.fds.push((fd, target.as_ref().to_str().unwrap().into()));
        self
    }

    fn stat(&self) -> String {
        let Fake { pid, ppid, comm, state, start, wait_status, .. } = self;
        let head = format!("{pid} ({comm}) {state} {ppid} {pid} {pid} 0 -1 4194304 1 0 0 0 300 50 0 0 20 0 1 0 {start} 1000 500");
        format!("{head}{} {wait_status}\n", " 0".repeat(27))
    }
}

struct Tree {
    dir: TempDir,
}

impl Tree {
    fn of(processes: impl IntoIterator<Item = Fake>) -> Self {
        let tree = Tree { dir: tempfile::tempdir().unwrap() };
        fs::create_dir_all(tree.at("proc/sys/kernel")).unwrap();
        fs::write(tree.at("proc/sys/kernel/hostname"), "node-1.cluster\n").unwrap();
        tree.put(process(1, 0, "systemd"));
        processes.into_iter().for_each(|process| tree.put(process));
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn file(&self, pid: u32, file: &str) -> PathBuf {
        self.at(&format!("proc/{pid}/{file}"))
    }

    fn put(&self, process: Fake) {
        let pid = process.pid;
        self.remove(pid);
        fs::create_dir_all(self.file(pid, "fd")).unwrap();
        let write = |file: &str, text: String| fs::write(self.file(pid, file), text).unwrap();
        write("stat", process.stat());
        write("cmdline", process.cmdline.replace(' ', "\0") + "\0");
        write("environ", process.env.replace(' ', "\0") + "\0");
        write("status", format!("Name:\t{}\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t{}\nVmRSS:\t 64 kB\n", process.comm, process.ns_pids));
        write("io", format!("rchar: {}\nwchar: 2\nsyscr: 1\nsyscw: 1\nread_bytes: 3\nwrite_bytes: 4\n", process.rchar));
        write("cgroup", "0::/job\n".into());
        symlink(self.dir.path(), self.file(pid, "cwd")).unwrap();
        for (fd, target) in &process.fds {
            symlink(target, self.file(pid, &format!("fd/{fd}"))).unwrap();
        }
    }

    fn remove(&self, pid: u32) {
        let _ = fs::remove_dir_all(self.at(&format!("proc/{pid}")));
    }

    /// What root's tests have in place of "permission denied".
    fn deny(&self, pid: u32, file: &str) {
        fs::remove_file(self.file(pid, file)).unwrap();
        fs::create_dir(self.file(pid, file)).unwrap();
    }

    fn watch(&self) -> Watch {
        let (hints, inbox) = Hints::line();
        let (to_tail, tail) = Hints::line();
        let (to_ras, ras) = Hints::line();
        // An interval of a scan: every poll is one.
        let procs = Procs::new(Roots::below(self.dir.path()), Duration::from_secs(3), Some(inbox)).telling(to_tail, to_ras);
        Watch { procs, hints, tail, ras, known: BTreeMap::new() }
    }
}

/// The reader and what it has told so far.
struct Watch {
    procs: Procs,
    hints: Hints,
    tail: Receiver<Hint>,
    ras: Receiver<Hint>,
    known: BTreeMap<u32, ProcessInfo>,
}

#[derive(Default)]
struct Told {
    news: Vec<ProcessInfo>,
    gone: Vec<ProcessGone>,
    samples: Vec<ProcessSample>,
    error: Option<SourceError>,
}

impl Told {
    fn sample(&self, pid: u32) -> &ProcessSample {
        self.samples.iter().find(|sample| sample.pid == pid).unwrap()
    }
}

impl Watch {
    fn poll(&mut self) -> Told {
        let mut out = Vec::new();
        let mut told = Told { error: self.procs.poll(&mut out).err(), ..Told::default() };
        for body in out {
            match body {
                Body::Process(info) => {
                    self.known.insert(info.pid, info.clone());
                    told.news.push(info);
                }
                Body::ProcessGone(gone) => {
                    self.known.remove(&gone.pid);
                    told.gone.push(gone);
                }
                Body::Processes { processes } => told.samples = processes,
                other => panic!("{other:?}"),
            }
        }
        told
    }

    fn gpus(&mut self, pids: &[u32]) {
        self.hints.send(Hint::GpuPids(pids.to_vec()));
    }

    /// The logs that the tailer was last asked to follow.
    fn followed(&self) -> Vec<PathBuf> {
        let logs = |hint| match hint {
            Hint::Logs(paths) => Some(paths),
            _ => None,
        };
        self.tail.try_iter().filter_map(logs).last().unwrap_or_default()
    }

    fn with_role(&self, role: ProcessRole) -> Vec<u32> {
        self.known.values().filter(|info| info.role == role).map(|info| info.pid).collect()
    }

    fn ranks(&self) -> Vec<u32> {
        self.with_role(ProcessRole::Rank)
    }

    fn launchers(&self) -> Vec<u32> {
        self.with_role(ProcessRole::Launcher)
    }

    fn gpu_users(&self) -> Vec<u32> {
        self.with_role(ProcessRole::GpuUser)
    }
}

fn torch_env(rank: u32, world: u32) -> String {
    format!("RANK={rank} LOCAL_RANK={rank} WORLD_SIZE={world} MASTER_PORT=29500 TORCHELASTIC_RUN_ID=run")
}

/// torchrun → per rank a shell → python → two data loader workers.
fn torchrun_job(ranks: u32) -> Vec<Fake> {
    let mut all = vec![
        process(10, 1, "bash job.sh"),
        Fake { comm: "torchrun".into(), ..process(20, 10, "/usr/bin/python3 /usr/bin/torchrun train.py") },
    ];
    for rank in 0..ranks {
        let env = torch_env(rank, ranks);
        all.push(process(100 + rank, 20, "bash wrapper.sh").env(&env));
        all.push(process(200 + rank, 100 + rank, "python3 -u train.py").env(&env));
        all.push(process(300 + rank, 200 + rank, "python3 -u train.py").env(&env));
        all.push(process(400 + rank, 200 + rank, "python3 -u train.py").env(&env));
    }
    all
}

#[test]
fn below_torchrun_the_python_between_shell_and_data_loaders_is_the_rank() {
    let tree = Tree::of(torchrun_job(8));
    let mut watch = tree.watch();
    let told = watch.poll();
    assert_eq!(watch.ranks(), (200..208).collect::<Vec<_>>());
    assert_eq!(watch.launchers(), [20]);
    assert!(watch.gpu_users().is_empty());
    assert_eq!(told.news[0].pid, 20, "launchers are told first");
    let rank = &watch.known[&203];
    assert_eq!((rank.ppid, rank.uid, rank.start_ticks, rank.comm.as_str()), (103, 1000, 1203, "python3"));
    assert_eq!(rank.cmdline, ["python3", "-u", "train.py"]);
    assert_eq!(rank.env.as_ref().unwrap()["RANK"], "3");
    assert!(!rank.env.as_ref().unwrap().contains_key("HOME"));
    assert_eq!(rank.cgroup.as_deref(), Some("/job"));
    assert_eq!(rank.cwd.as_deref(), tree.dir.path().to_str());
    assert!(rank.hidden.is_empty(), "{:?}", rank.hidden);
    assert!(watch.poll().news.is_empty(), "what does not change is told once");
}

#[test]
fn a_sample_holds_the_counters_of_the_rank_and_the_io_of_its_helpers() {
    let tree = Tree::of(torchrun_job(1));
    tree.put(Fake { rchar: 5000, ..process(300, 200, "python3 -u train.py").env(&torch_env(0, 1)) });
    let told = tree.watch().poll();
    let rank = told.sample(200);
    assert_eq!((rank.state, rank.cpu_ticks, rank.threads, rank.rss_bytes), (Some('S'), Some(350), Some(1), Some(64 << 10)));
    assert_eq!((rank.rchar_bytes, rank.wchar_bytes, rank.read_bytes, rank.write_bytes), (Some(5200), Some(6), Some(9), Some(12)));
    assert_eq!(told.sample(20).rchar_bytes, Some(100), "a launcher does not count its ranks");
}

#[test]
fn the_one_that_holds_the_gpu_is_the_rank_even_below_another_python() {
    let tree = Tree::of([
        process(10, 1, "python3 start.py").env(&torch_env(0, 2)),
        process(11, 10, "python3 train.py").env(&torch_env(0, 2)),
        process(12, 11, "python3 train.py").env(&torch_env(0, 2)),
    ]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.ranks(), [10]);
    watch.gpus(&[11]);
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![11], vec![10]));
}

#[test]
fn a_script_beside_the_training_gives_its_rank_back() {
    let env = torch_env(0, 1);
    let tree = Tree::of([
        process(10, 1, "bash run.sh").env(&env),
        process(11, 10, "python3 monitor.py").env(&env),
        process(12, 10, "python3 train.py").env(&env),
    ]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.ranks(), [11], "nothing tells them apart yet but age");
    watch.gpus(&[12]);
    watch.poll();
    assert_eq!((watch.ranks(), watch.gpu_users()), (vec![12], vec![11]));
}

#[test]
fn processes_side_by_side_with_one_rank_and_several_gpus_are_no_ranks() {
    let env = "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0";
    let tree = Tree::of([
        process(10, 1, "python3 spawn.py").env(env),
        process(11, 10, "python3 x").env(env),
        process(12, 10, "python3 x").env(env),
    ]);
    let mut watch = tree.watch();
    watch.gpus(&[11, 12]);
    watch.poll();
    assert_eq!((watch.ranks(), watch.gpu_users()), (vec![], vec![11, 12]));
    tree.remove(12);
    watch.gpus(&[11]);
    watch.poll();
    assert_eq!((watch.ranks(), watch.gpu_users()), (vec![], vec![11]), "the last one does not become the rank");
}

fn srun_job() -> Vec<Fake> {
    let job = "SLURM_JOB_ID=7 SLURM_NTASKS=2 SLURM_NNODES=1 SLURM_JOB_NAME=pretrain SLURM_JWT=no";
    let mut all = vec![
        process(10, 1, "slurmstepd: [7.batch]"),
        process(11, 10, "bash slurm_script").env(&format!("{job} SLURM_PROCID=0")),
        process(12, 11, "srun run.sh").env(&format!("{job} SLURM_PROCID=0")),
        process(13, 11, "tee log.txt").env(&format!("{job} SLURM_PROCID=0")),
        process(20, 1, "slurmstepd: [7.0]"),
    ];
    all[0].comm = "slurmstepd".into();
    all[4].comm = "slurmstepd".into();
    for rank in 0..2 {
        let env = format!("{job} SLURM_STEP_ID=0 SLURM_PROCID={rank} SLURM_LOCALID={rank}");
        all.push(process(30 + rank, 20, "bash run.sh").env(&env));
        all.push(process(40 + rank, 30 + rank, "python3 train.py").env(&env));
    }
    all
}

#[test]
fn below_srun_neither_the_batch_script_nor_its_tools_are_ranks() {
    let tree = Tree::of(srun_job());
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.ranks(), [40, 41]);
    assert_eq!(watch.launchers(), [12, 20], "the client has the job's output, the step daemon is the parent");
    let env = watch.known[&41].env.clone().unwrap();
    assert_eq!(env["SLURM_JOB_NAME"], "pretrain");
    assert!(!env.contains_key("SLURM_JWT"));
}

/// Two steps that were started from a login shell, as Slurm 23.11 runs them: the client has no number of a job, the output of its tasks is a pipe.
fn steps_of_a_login_shell(tree: &Tree) {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
        0: 00000000:91E3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1001 1 0 100 0 0 10 0\n   \
        1: 00000000:91E4 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1002 1 0 100 0 0 10 0\n   \
        2: 0100007F:A01C 0100007F:91E3 01 00000000:00000000 00:00000000 00000000     0        0 1003 1 0 20 4 30 10 -1\n";
    for (at, port) in [37347, 37348].into_iter().enumerate() {
        let (at, log) = (at as u32, tree.at(&format!("run{at}.log")));
        fs::write(&log, "step 1\n").unwrap();
        let client = 20 + 10 * at;
        tree.put(process(client, 1, "srun -n1 python3 train.py").fd(1, &log).fd(2, &log).fd(7, format!("socket:[{}]", 1001 + at)));
        // It forks, and the copy has no socket.
        tree.put(process(client + 1, client, "srun -n1 python3 train.py").fd(1, &log).fd(2, &log));
        tree.put(Fake { comm: "slurmstepd".into(), ..process(client + 2, 1, "slurmstepd: [7.0]") });
        let env = format!("SLURM_JOB_ID={} SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_SRUN_COMM_PORT={port}", 7 + at);
        tree.put(process(client + 3, client + 2, "python3 train.py").env(&env).fd(1, "pipe:[5]"));
    }
    for pid in [20, 21, 30, 31] {
        fs::create_dir_all(tree.file(pid, "net")).unwrap();
        fs::write(tree.file(pid, "net/tcp"), table).unwrap();
    }
}

#[test]
fn the_output_of_a_step_is_that_of_the_srun_that_its_tasks_report_to() {
    let tree = Tree::of([]);
    steps_of_a_login_shell(&tree);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![23, 33], vec![20, 22, 30, 32]));
    assert_eq!([23, 33].map(|pid| watch.known[&pid].client), [Some(20), Some(30)]);
    let logs = |path: &str| vec![tree.at(path)];
    assert_eq!(watch.followed(), [logs("run0.log"), logs("run1.log")].concat());
}

#[test]
fn what_srun_writes_itself_and_what_sbatch_writes_on_another_node_is_followed() {
    let tree = Tree::of([]);
    let (own, read) = (tree.at("step.log"), tree.at("input.txt"));
    for file in [&own, &read] {
        fs::write(file, "step 1\n").unwrap();
    }
    let job = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1";
    tree.put(process(20, 1, "srun -o step.log python3 train.py").env("SLURM_JOB_ID=7").fd(1, "/dev/null").fd(4, &own).fd(5, &read));
    fs::create_dir_all(tree.file(20, "fdinfo")).unwrap();
    fs::write(tree.file(20, "fdinfo/4"), "pos:\t0\nflags:\t0102001\n").unwrap();
    fs::write(tree.file(20, "fdinfo/5"), "pos:\t0\nflags:\t0100000\n").unwrap();
    tree.put(Fake { comm: "slurmstepd".into(), ..process(22, 1, "slurmstepd: [7.0]") });
    tree.put(process(23, 22, "python3 train.py").env(job).fd(1, "pipe:[5]"));
    // A node that does not run the script sees the directory alone.
    fs::write(tree.at("proc/uptime"), "100.00 0.00\n").unwrap();
    fs::create_dir(tree.at("work")).unwrap();
    fs::write(tree.at("work/slurm-9.out"), "step 1\n").unwrap();
    fs::write(tree.at("work/slurm-12_3.out"), "step 1\n").unwrap();
    let (one, array) = (job.replace("=7", "=9"), "SLURM_ARRAY_JOB_ID=12 SLURM_ARRAY_TASK_ID=3");
    tree.put(process(33, 1, "python3 train.py").env(&format!("{one} SLURM_SUBMIT_DIR=/work")).fd(1, "pipe:[6]"));
    tree.put(process(34, 1, "python3 train.py").env(&format!("{one} {array} SLURM_SUBMIT_DIR=/work")).fd(1, "pipe:[6]"));
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.known[&23].client, Some(20), "by the number of its job");
    assert_eq!(watch.followed(), [own, tree.at("work/slurm-9.out"), tree.at("work/slurm-12_3.out")]);
}

#[test]
fn the_output_of_an_earlier_job_of_the_same_number_is_not_followed() {
    let tree = Tree::of([process(33, 1, "python3 train.py")
        .env("SLURM_JOB_ID=9 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_SUBMIT_DIR=/work")
        .fd(1, "pipe:[6]")]);
    fs::write(tree.at("proc/uptime"), "100.00 0.00\n").unwrap();
    fs::create_dir(tree.at("work")).unwrap();
    let old = fs::File::create(tree.at("work/slurm-9.out")).unwrap();
    old.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600)).unwrap();
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.ranks(), [33]);
    assert!(watch.followed().is_empty());
}

#[test]
fn below_srun_and_torchrun_only_torchruns_ranks_count() {
    let slurm = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_NTASKS=2";
    let tree = Tree::of([
        process(10, 1, "bash run.sh").env(slurm),
        // Not known by its name, but it starts other ranks.
        process(11, 10, "python3 own_launcher.py").env(slurm),
        process(12, 11, "python3 train.py").env(&format!("{slurm} {}", torch_env(8, 16))),
        process(13, 11, "python3 train.py").env(&format!("{slurm} {}", torch_env(9, 16))),
    ]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![12, 13], vec![11]));
}

/// As Ray 2.60 runs Ray Train below a driver: neither the environment nor the arguments of a worker have its rank.
fn ray_job(tree: &Tree) {
    let actor = |pid, ppid, name: &str| {
        let named = process(pid, ppid, name).env("RAY_JOB_ID=01000000 RAY_RAYLET_PID=20");
        Fake { comm: name.chars().take(15).collect(), ..named }
    };
    let log = |name: &str| {
        fs::write(tree.at(name), "step 1\n").unwrap();
        tree.at(name)
    };
    tree.put(process(10, 1, "python3 train.py").fd(1, log("driver.log")));
    tree.put(process(20, 10, "/ray/raylet --raylet_socket_name=x"));
    tree.put(actor(30, 20, "ray::TrainController.run").fd(2, log("controller.err")));
    tree.put(actor(31, 20, "ray::RayTrainWorker").fd(1, log("worker-31.out")));
    tree.put(actor(32, 20, "ray::_RayTrainWorker__execute.get_next").fd(1, log("worker-32.out")));
    // What a worker forks has its name.
    tree.put(actor(33, 31, "ray::RayTrainWorker").fd(1, log("worker-31.out")));
    for (pid, name) in
        [(40, "ray::DashboardAgent"), (41, "ray::IDLE"), (42, "ray::PlacementGroupCleaner"), (43, "ray::SynchronizationActor")]
    {
        tree.put(actor(pid, 20, name));
    }
}

#[test]
fn the_workers_of_ray_train_are_ranks_and_its_other_actors_are_none() {
    let tree = Tree::of([]);
    ray_job(&tree);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![31, 32], vec![10, 20, 30]));
    assert_eq!([31, 32].map(|pid| watch.known[&pid].client), [Some(30); 2], "the controller names their places");
    assert_eq!(watch.known[&31].env.as_ref().unwrap()["RAY_JOB_ID"], "01000000");
    let logs = ["driver.log", "controller.err", "worker-31.out", "worker-32.out"];
    assert_eq!(watch.followed(), logs.map(|name| tree.at(name)));
}

/// It has given itself another name (`setproctitle`, prctl).
#[test]
fn ranks_of_one_script_that_have_another_name_are_its_ranks_once_they_hold_gpus() {
    let tree = Tree::of([]);
    spawned(&tree, true);
    for pid in [22, 23] {
        fs::write(tree.file(pid, "comm"), "wgan\n").unwrap();
        let stat = fs::read_to_string(tree.file(pid, "stat")).unwrap();
        fs::write(tree.file(pid, "stat"), stat.replacen("(python3)", "(wgan)", 1)).unwrap();
    }
    let mut watch = tree.watch();
    watch.gpus(&[22, 23]);
    watch.poll();
    assert_eq!((watch.gpu_users(), watch.ranks(), watch.launchers()), (vec![], vec![22, 23], vec![20]));
}

#[test]
fn ranks_that_two_shells_have_started_are_known_by_an_argument() {
    let tree = Tree::of([]);
    let rank = |pid: u32, shell: u32, args: &str, inode: u32| {
        tree.put(process(shell, 1, "bash run.sh"));
        tree.put(process(pid, shell, &format!("python3 train.py {args}")).fd(9, format!("socket:[{inode}]")));
        fs::create_dir_all(tree.file(pid, "net")).unwrap();
        fs::write(tree.file(pid, "net/tcp"), table_of_two()).unwrap();
    };
    rank(22, 20, "--process_index=1 --host b", 501);
    rank(23, 21, "--process_index=0 --host a", 502);
    let mut watch = tree.watch();
    watch.gpus(&[22, 23]);
    watch.poll();
    assert_eq!((watch.gpu_users(), watch.ranks()), (vec![], vec![22, 23]));
    let place = |pid: u32| watch.known[&pid].place.clone().map(|place| (place.leader, place.rank, place.world_size));
    assert_eq!([place(22), place(23)], [Some((23, Some(1), Some(2))), Some((23, Some(0), Some(2)))]);
    // Two trials of one sweep have numbers, too, and nothing to say to one another.
    let tree = Tree::of([]);
    tree.put(process(22, 20, "python3 train.py --process_index=1"));
    tree.put(process(23, 21, "python3 train.py --process_index=0"));
    let mut watch = tree.watch();
    watch.gpus(&[22, 23]);
    watch.poll();
    assert_eq!((watch.gpu_users(), watch.ranks()), (vec![22, 23], vec![]));
}

/// Actors that somebody wrote, two of a class, which join a process group and are told their ranks by a call.
#[test]
fn actors_of_ray_that_are_joined_are_ranks_without_numbers() {
    let actors = |tree: &Tree, class: &str, pids: [u32; 2]| {
        for (pid, inode) in pids.into_iter().zip([501, 502]) {
            let named = process(pid, 20, &format!("ray::{class}.fit")).env("RAY_JOB_ID=01000000");
            tree.put(Fake { comm: format!("ray::{class}.fit").chars().take(15).collect(), ..named }.fd(9, format!("socket:[{inode}]")));
            fs::create_dir_all(tree.file(pid, "net")).unwrap();
            fs::write(tree.file(pid, "net/tcp"), table_of_two()).unwrap();
            trains(tree, pid);
        }
    };
    let cluster = || {
        let tree = Tree::of([]);
        tree.put(process(10, 1, "python3 train.py"));
        tree.put(process(20, 10, "/ray/raylet --raylet_socket_name=x"));
        tree
    };
    let tree = cluster();
    actors(&tree, "PolicyModelActor", [31, 32]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![31, 32], vec![10, 20]));
    let place = watch.known[&31].place.clone().unwrap();
    assert_eq!((place.leader, place.rank, place.world_size), (20, None, None), "they are not started in the order of their numbers");
    // Worlds that take turns: which one's numbers would be meant is not known.
    let tree = cluster();
    actors(&tree, "PolicyModelActor", [31, 32]);
    actors(&tree, "CriticModelActor", [33, 34]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.ranks(), [] as [u32; 0]);
}

#[test]
fn the_only_process_of_accelerate_is_rank_0_of_1() {
    let env = "ACCELERATE_USE_CPU=True ACCELERATE_MIXED_PRECISION=no ACCELERATE_DYNAMO_BACKEND=NO ACCELERATE_DYNAMO_MODE=default";
    let tree = Tree::of([
        Fake { comm: "accelerate".into(), ..process(10, 1, "/usr/bin/python3 /usr/bin/accelerate launch --num_processes 1 train.py") },
        process(11, 10, "python3 train.py").env(env),
        process(12, 11, "python3 train.py").env(env),
        // A user's own setting.
        process(20, 1, "python3 notebook.py").env("ACCELERATE_MIXED_PRECISION=bf16"),
    ]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![11], vec![10]));
    let place = watch.known[&11].place.clone().unwrap();
    assert_eq!((place.leader, place.rank, place.world_size), (10, Some(0), Some(1)));
    // Where it has started several, torchrun's numbers count.
    for (pid, ppid) in [(11, 10), (12, 11)] {
        tree.put(process(pid, ppid, "python3 train.py").env(&format!("{env} {}", torch_env(1, 2))));
    }
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.known[&11].place.clone()), (vec![11], None));
}

/// A program of Python with its output and the libraries that it has loaded.
fn alone(tree: &Tree, process: Fake, log: &str, lines: &str, library: &str) {
    fs::write(tree.at(log), lines).unwrap();
    let pid = process.pid;
    tree.put(process.fd(1, tree.at(log)).fd(2, tree.at(log)));
    fs::write(tree.file(pid, "maps"), format!("7f00-7f01 r-xp 00000000 08:01 1 /usr/bin/python3\n7f02-7f03 r-xp 0 08:01 2 {library}\n"))
        .unwrap();
}

#[test]
fn who_trains_alone_is_known_by_its_framework_and_its_steps() {
    let tree = Tree::of([]);
    fs::write(tree.at("proc/uptime"), "100.00 0.00\n").unwrap();
    let torch = "/venv/torch/lib/libtorch_cpu.so";
    let steps = "step 1/100 loss 0.5\nstep 2/100 loss 0.4\nstep 3/100 loss 0.3\n";
    alone(&tree, process(20, 1, "python3 train.py"), "train.log", steps, torch);
    // Its loader has the same output and the same libraries.
    alone(&tree, process(21, 20, "python3 train.py"), "train.log", steps, torch);
    alone(&tree, process(22, 1, "python3 fit.py"), "jax.log", steps, "/venv/jaxlib/libjax_common.so");
    alone(&tree, process(30, 1, "python3 server.py"), "server.log", "listening\nGET /step/1\nGET /step/2\nGET /step/3\n", torch);
    alone(&tree, process(31, 1, "python3 count.py"), "count.log", steps, "/lib/libz.so");
    alone(&tree, process(32, 1, "tail -f train.log"), "tail.log", steps, torch);
    // The driver of a job elsewhere prints what its workers print.
    let passed_on = steps.replace("step", "(RayTrainWorker pid=7) step");
    alone(&tree, process(33, 1, "python3 driver.py"), "driver.log", &passed_on, torch);
    // Beside ranks: a launcher of one's own, and a helper that writes where they write.
    alone(&tree, process(40, 1, "python3 launch.py"), "job.log", steps, torch);
    alone(&tree, process(41, 40, "python3 rank.py").env(&torch_env(0, 1)), "job.log", steps, torch);
    alone(&tree, process(42, 1, "python3 evaluate.py"), "job.log", steps, torch);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.with_role(ProcessRole::Trainer), [20, 22]);
    assert_eq!(watch.ranks(), [41]);
    // With the same rest of the world, once it holds a GPU.
    watch.gpus(&[20]);
    watch.poll();
    assert_eq!((watch.gpu_users(), watch.with_role(ProcessRole::Trainer)), (vec![20], vec![22]));
}

/// The table of connections of two processes to one another, whose sockets are 501 and 502.
fn table_of_two() -> String {
    let end = |port: u16| format!("0100007F:{port:04X}");
    let row = |no: u32, from: u16, to: u16, inode: u32| {
        format!(
            "   {no}: {} {} 01 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0000000000000000 20 4 30 10 -1\n",
            end(from),
            end(to)
        )
    };
    format!("  sl  local_address rem_address   st\n{}{}", row(0, 29500, 41000, 501), row(1, 41000, 29500, 502))
}

/// Has loaded PyTorch.
fn trains(tree: &Tree, pid: u32) {
    fs::write(tree.file(pid, "maps"), "7f02-7f03 r-xp 0 08:01 2 /venv/torch/lib/libtorch_cpu.so\n").unwrap();
}

/// Two processes that `torch.multiprocessing.spawn` has started, their connections, and a loader that one has started by spawn, too.
fn spawned(tree: &Tree, joined: bool) {
    let main = "-c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7) --multiprocessing-fork";
    tree.put(process(20, 1, "python3 train.py"));
    tree.put(process(21, 20, "python3 -c from multiprocessing.resource_tracker import main;main(4)"));
    for (pid, inode) in [(22, 501), (23, 502)] {
        let socket = if joined { format!("socket:[{inode}]") } else { "pipe:[9]".into() };
        tree.put(process(pid, 20, &format!("python3 {main}")).fd(9, socket));
        fs::create_dir_all(tree.file(pid, "net")).unwrap();
        fs::write(tree.file(pid, "net/tcp"), table_of_two()).unwrap();
    }
    tree.put(process(30, 22, &format!("python3 {main}")));
    tree.put(process(31, 22, &format!("python3 {main}")));
    for pid in [20, 22, 23, 30, 31] {
        trains(tree, pid);
    }
}

#[test]
fn processes_of_one_script_that_are_joined_are_its_ranks() {
    let tree = Tree::of([]);
    spawned(&tree, false);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.ranks(), [] as [u32; 0], "loaders have no connections");
    spawned(&tree, true);
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![22, 23], vec![20]));
    let place = |pid: u32| watch.known[&pid].place.clone().unwrap();
    assert_eq!([place(22), place(23)].map(|p| (p.leader, p.rank, p.world_size)), [(20, Some(0), Some(2)), (20, Some(1), Some(2))]);
}

#[test]
fn the_names_of_their_outputs_tell_the_numbers_of_ranks() {
    let tree = Tree::of([]);
    spawned(&tree, true);
    for (pid, name) in [(22, "trainer.1.log"), (23, "trainer.0.log")] {
        fs::write(tree.at(name), "step 1\n").unwrap();
        std::os::unix::fs::symlink(tree.at(name), tree.file(pid, "fd/1")).unwrap();
    }
    let mut watch = tree.watch();
    watch.poll();
    let rank = |pid: u32| watch.known[&pid].place.clone().and_then(|place| place.rank);
    assert_eq!([rank(22), rank(23)], [Some(1), Some(0)]);
}

/// It has asked how many GPUs there are.
#[test]
fn a_script_that_starts_ranks_is_no_user_of_a_gpu_that_it_has_open() {
    let tree = Tree::of([]);
    spawned(&tree, false);
    tree.put(process(20, 1, "python3 train.py").fd(5, "/dev/nvidia0"));
    let mut watch = tree.watch();
    watch.gpus(&[]);
    watch.poll();
    assert_eq!((watch.gpu_users(), watch.ranks()), (vec![20], vec![]));
    spawned(&tree, true);
    tree.put(process(20, 1, "python3 train.py").fd(5, "/dev/nvidia0"));
    watch.gpus(&[22, 23]);
    watch.poll();
    assert_eq!((watch.gpu_users(), watch.ranks(), watch.launchers()), (vec![], vec![22, 23], vec![20]));
}

/// NVML names them before they have a process group.
#[test]
fn who_holds_a_gpu_gets_its_rank_once_it_is_joined() {
    let tree = Tree::of([]);
    spawned(&tree, false);
    let mut watch = tree.watch();
    watch.gpus(&[22, 23]);
    watch.poll();
    assert_eq!((watch.gpu_users(), watch.ranks()), (vec![22, 23], vec![]));
    spawned(&tree, true);
    watch.poll();
    assert_eq!((watch.gpu_users(), watch.ranks()), (vec![], vec![22, 23]));
}

#[test]
fn mpi_ranks_need_not_be_python() {
    let env = |rank| format!("OMPI_COMM_WORLD_RANK={rank} OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=prterun-1@1 PMIX_RANK={rank}");
    let tree = Tree::of([
        process(10, 1, "mpirun -np 2 all_reduce_perf"),
        process(11, 10, "./all_reduce_perf -b 8").env(&env(0)),
        process(12, 10, "numactl -N1 ./all_reduce_perf").env(&env(1)),
        process(13, 12, "./all_reduce_perf -b 8").env(&env(1)),
    ]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![11, 13], vec![10]));
}

#[test]
fn two_jobs_with_the_same_ranks_are_both_seen() {
    let env = torch_env(0, 2);
    let tree = Tree::of([
        process(10, 1, "torchrun a.py"),
        process(11, 10, "python3 a.py").env(&env),
        process(20, 1, "torchrun b.py"),
        process(21, 20, "python3 b.py").env(&env),
    ]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.launchers()), (vec![11, 21], vec![10, 20]));
}

#[test]
fn without_nvml_an_open_device_makes_a_gpu_user_but_not_a_forked_child_or_a_monitor() {
    let tree = Tree::of([
        process(10, 1, "python3 serve.py").fd(5, "/dev/nvidia3"),
        process(11, 10, "python3 serve.py").fd(5, "/dev/nvidia3"),
        process(12, 1, "python3 count.py").fd(5, "/dev/nvidiactl").fd(6, "/dev/nvidia").fd(7, "/dev/nvidia-uvm").fd(8, "/tmp/dev/nvidia0"),
        process(13, 1, "nvidia-smi dmon").fd(5, "/dev/nvidia0"),
    ]);
    let mut watch = tree.watch();
    watch.gpus(&[]);
    watch.poll();
    assert_eq!(watch.gpu_users(), [10]);
}

#[test]
fn a_device_that_a_data_loader_inherited_does_not_make_it_a_rank() {
    let rank = |pid, ppid| process(pid, ppid, "python3 t.py").env(&torch_env(0, 1)).fd(7, "/dev/nvidia0");
    // The child has the lower number, and started in the same tick.
    let tree = Tree::of([rank(20, 1), Fake { start: 1020, ..rank(19, 20) }]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!((watch.ranks(), watch.gpu_users()), (vec![20], vec![]));
}

#[test]
fn the_pid_of_a_data_loader_may_come_back_as_a_rank() {
    let tree = Tree::of(torchrun_job(1));
    let mut watch = tree.watch();
    watch.poll();
    tree.put(Fake { start: 50_000, ..process(300, 20, "python3 -u train.py").env(&torch_env(1, 2)) });
    watch.poll();
    assert_eq!(watch.ranks(), [200, 300]);
}

#[test]
fn nvml_is_believed_where_its_pids_are_ours() {
    let tree = Tree::of([
        process(10, 1, "python3 serve.py"),
        process(11, 1, "python3 look.py").fd(5, "/dev/nvidia0"),
        process(12, 1, "nvidia-smi"),
        process(13, 1, "gromacs"),
    ]);
    let mut watch = tree.watch();
    watch.gpus(&[10, 12, 13]);
    watch.poll();
    assert_eq!(watch.gpu_users(), [10, 13]);
}

#[test]
fn a_container_pid_is_told_beside_the_hosts() {
    let tree = Tree::of([Fake { ns_pids: "5000\t31\t7".into(), ..process(5000, 1, "python3 t.py").env(&torch_env(0, 1)) }]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.known[&5000].ns_pid, Some(7));
}

#[test]
fn what_is_denied_is_named_and_counted() {
    let tree = Tree::of([process(10, 1, "python3 a.py"), process(11, 1, "python3 b.py").env(&torch_env(0, 1))]);
    tree.deny(10, "environ");
    tree.deny(10, "io");
    let mut watch = tree.watch();
    watch.gpus(&[10, 11]);
    let told = watch.poll();
    let denied = &watch.known[&10];
    assert_eq!((denied.role, &denied.env), (ProcessRole::GpuUser, &None));
    assert_eq!(denied.hidden, ["io: is a directory", "environ: is a directory"]);
    assert_eq!(told.sample(10).rchar_bytes, None);
    assert_eq!(told.sample(10).cpu_ticks, Some(350));
    let remark = watch.procs.remark().unwrap().1;
    assert_eq!(remark, "1 of 2 processes belong to other users: environ and logs are hidden; run as the job's user or root");
}

#[test]
fn hidepid_is_said_unless_it_does_not_concern_us() {
    let tree = Tree::of([]);
    let absent = |watch: &mut Watch| watch.poll().error.unwrap();
    fs::write(tree.at("proc/mounts"), "proc /proc proc rw,hidepid=2 0 0\n").unwrap();
    assert_eq!(absent(&mut tree.watch()), SourceError::Absent("no process of a training job found".into()));
    tree.remove(1);
    let text = "no process of a training job found; /proc is mounted with hidepid: only own processes are seen";
    let mut watch = tree.watch();
    assert_eq!(absent(&mut watch), SourceError::Absent(text.into()));
    assert_eq!(watch.ras.try_iter().count(), 0);
    // Somebody is there all the same.
    watch.hints.send(Hint::GpuPids(vec![4711]));
    watch.poll();
    let usual = RasAddress { name: "localhost:28028".into(), pids: Vec::new(), apart: None };
    assert_eq!(watch.ras.try_iter().last(), Some(Hint::RasAddresses(vec![usual])));
}

#[test]
fn no_proc_at_all_is_an_error_that_names_it() {
    let tree = Tree::of([]);
    fs::remove_dir_all(tree.at("proc")).unwrap();
    match tree.watch().poll().error {
        Some(SourceError::Absent(text)) => assert!(text.ends_with("/proc: no such file or directory"), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_zombie_is_gone_with_its_exit_code() {
    let rank = |pid| process(pid, 1, "python3 t.py").env(&torch_env(pid, 4));
    let tree = Tree::of([rank(10), rank(11), rank(12)]);
    let mut watch = tree.watch();
    watch.poll();
    tree.put(Fake { state: 'Z', wait_status: 9, env: String::new(), ..rank(10) });
    tree.put(Fake { state: 'Z', wait_status: 1 << 8, env: String::new(), ..rank(11) });
    let told = watch.poll();
    let codes: Vec<_> = told.gone.iter().map(|gone| (gone.pid, gone.start_ticks, gone.exit_code)).collect();
    assert_eq!(codes, [(10, 1010, Some(-9)), (11, 1011, Some(1))]);
    assert_eq!(told.samples.len(), 1);
    let again = watch.poll();
    assert!(again.gone.is_empty() && again.news.is_empty(), "a zombie is gone once");
}

#[test]
fn the_exit_code_of_a_process_we_may_not_trace_is_unknown_and_not_zero() {
    let tree = Tree::of([process(10, 1, "python3 t.py")]);
    tree.deny(10, "environ");
    let mut watch = tree.watch();
    watch.gpus(&[10]);
    watch.poll();
    tree.put(Fake { state: 'Z', ..process(10, 1, "python3 t.py") });
    assert_eq!(watch.poll().gone, [ProcessGone { pid: 10, start_ticks: 1010, exit_code: None }]);
}

#[test]
fn a_reused_pid_is_another_process() {
    let tree = Tree::of([process(10, 1, "python3 t.py").env(&torch_env(0, 2))]);
    let mut watch = tree.watch();
    watch.poll();
    tree.put(Fake { start: 99_999, ..process(10, 1, "python3 t.py").env(&torch_env(1, 2)) });
    let told = watch.poll();
    assert_eq!(told.gone, [ProcessGone { pid: 10, start_ticks: 1010, exit_code: None }]);
    assert_eq!(told.news.len(), 1);
    assert_eq!((told.news[0].start_ticks, told.news[0].env.as_ref().unwrap()["RANK"].as_str()), (99_999, "1"));
}

#[test]
fn states_are_told_as_they_are() {
    let rank = |pid| process(pid, 1, "python3 t.py").env(&torch_env(pid, 4));
    let tree = Tree::of([Fake { state: 'T', ..rank(10) }, Fake { state: 'D', ..rank(11) }]);
    for (tid, state) in [(11, 'D'), (90, 'D'), (91, 'S')] {
        let task = tree.file(11, &format!("task/{tid}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("stat"), Fake { state, ..rank(tid) }.stat()).unwrap();
    }
    let told = tree.watch().poll();
    assert_eq!(told.sample(10).state, Some('T'));
    assert_eq!((told.sample(11).state, told.sample(11).threads_in_d), (Some('D'), Some(2)));
}

#[test]
fn threads_are_counted_now_and_then() {
    let tree = Tree::of([process(10, 1, "python3 t.py").env(&torch_env(0, 1))]);
    fs::create_dir_all(tree.file(10, "task/10")).unwrap();
    fs::write(tree.file(10, "task/10/stat"), process(10, 1, "x").stat()).unwrap();
    let mut watch = tree.watch();
    let counted = (0..10).filter(|_| watch.poll().sample(10).threads_in_d == Some(0)).count();
    assert_eq!(counted, 2);
}

#[test]
fn a_name_full_of_parentheses_is_read_whole() {
    let mut odd = process(10, 1, "python3 t.py").env(&torch_env(0, 1));
    odd.comm = "a) (b) Z 9".into();
    let tree = Tree::of([odd]);
    let mut watch = tree.watch();
    let told = watch.poll();
    assert_eq!((watch.known[&10].comm.as_str(), watch.known[&10].ppid), ("a) (b) Z 9", 1));
    assert_eq!(told.sample(10).state, Some('S'));
}

#[test]
fn secrets_in_arguments_and_environment_are_masked() {
    let tree = Tree::of([process(10, 1, "python3 t.py --api-key abc --hub_token=def hf_AbCdEfGhIjKlMnOp0123")
        .env(&torch_env(0, 1))
        .env("HF_TOKEN=ghi NCCL_SECRET=jkl NCCL_DEBUG=INFO")]);
    let mut watch = tree.watch();
    watch.poll();
    let info = &watch.known[&10];
    assert_eq!(info.cmdline, ["python3", "t.py", "--api-key", "***", "--hub_token=***", "***"]);
    let names: Vec<&str> = info.env.as_ref().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["LOCAL_RANK", "MASTER_PORT", "NCCL_DEBUG", "RANK", "TORCHELASTIC_RUN_ID", "WORLD_SIZE"]);
}

#[test]
fn arguments_are_bounded_and_masked_before_they_are_cut() {
    let long = format!("{}--api-key=abc", "x".repeat(250));
    let tree = Tree::of([process(10, 1, &format!("python  --password hunter2 {long} {}", "a ".repeat(100))).env(&torch_env(0, 1))]);
    let mut watch = tree.watch();
    watch.poll();
    let args = &watch.known[&10].cmdline;
    assert_eq!(args.len(), 64);
    assert_eq!(args[..4], ["python", "", "--password", "***"]);
    assert_eq!(args[4].chars().count(), 256);
    assert!(!args[4].contains("abc"));
}

#[test]
fn regular_files_are_logs_and_everything_else_is_only_named() {
    let files = tempfile::tempdir().unwrap();
    let log = files.path().join("out.log");
    fs::write(&log, "x").unwrap();
    let rank = |pid| process(pid, 1, "python3 t.py").env(&torch_env(pid, 8));
    let tree = Tree::of([
        rank(10).fd(1, &log).fd(2, &log),
        rank(11).fd(1, "pipe:[12345]").fd(2, "/dev/null"),
        rank(12).fd(1, "socket:[1]").fd(2, "/dev/pts/99999"),
        rank(13),
    ]);
    let mut watch = tree.watch();
    watch.poll();
    let logs = |pid: u32| -> Vec<_> { watch.known[&pid].logs.iter().map(|l| (l.via, l.path.as_str(), l.inode)).collect() };
    let (path, inode) = (log.to_str().unwrap(), Some(fs::metadata(&log).unwrap().ino()));
    assert_eq!(logs(10), [(LogVia::Stdout, path, inode), (LogVia::Stderr, path, inode)]);
    assert_eq!(logs(11), [(LogVia::Stdout, "pipe:[12345]", None), (LogVia::Stderr, "/dev/null", None)]);
    assert_eq!(logs(12), [(LogVia::Stdout, "socket:[1]", None), (LogVia::Stderr, "/dev/pts/99999", None)]);
    assert!(logs(13).is_empty());
    assert_eq!(watch.tail.try_iter().last(), Some(Hint::Logs(vec![log])), "each file once");
}

/// `fd` of a process is open for writing.
fn writes(tree: &Tree, pid: u32, fd: u32) {
    fs::create_dir_all(tree.file(pid, "fdinfo")).unwrap();
    fs::write(tree.file(pid, &format!("fdinfo/{fd}")), "pos:\t0\nflags:\t0102001\n").unwrap();
}

#[test]
fn what_a_pipeline_writes_is_the_log_of_what_feeds_it() {
    let tree = Tree::of(torchrun_job(1));
    let log = |name: &str| {
        fs::write(tree.at(name), "step 1\n").unwrap();
        tree.at(name)
    };
    let (tee, slurm, filtered, tape) = (log("train.log"), log("slurm-7.out"), log("filtered.log"), log("day.tape"));
    let rank = || process(200, 100, "python3 -u train.py").env(&torch_env(0, 1));
    let files = |tree: &Tree| {
        let mut watch = tree.watch();
        watch.poll();
        watch.followed()
    };
    // torchrun 2>&1 | tee train.log > slurm-7.out
    tree.put(rank().fd(1, "pipe:[5]").fd(2, "pipe:[5]"));
    tree.put(process(30, 10, "tee train.log").fd(0, "pipe:[5]").fd(1, &slurm).fd(3, &tee));
    writes(&tree, 30, 3);
    assert_eq!(files(&tree), [tee], "one copy is enough");
    // torchrun 2>&1 | grep -v noise | cat > filtered.log
    tree.put(process(30, 10, "grep -v noise").fd(0, "pipe:[5]").fd(1, "pipe:[6]"));
    tree.put(process(31, 10, "cat").fd(0, "pipe:[6]").fd(1, &filtered));
    assert_eq!(files(&tree), [filtered]);
    // torchrun 2>&1 | nccl-top watch -o day.tape -
    tree.remove(31);
    tree.put(process(30, 10, "nccl-top watch -o day.tape -").fd(0, "pipe:[5]").fd(1, "/dev/pts/0").fd(3, &tape));
    writes(&tree, 30, 3);
    assert!(files(&tree).is_empty());
    // A circle of pipes, and somebody else's tee.
    tree.put(process(30, 10, "cat").fd(0, "pipe:[5]").fd(1, "pipe:[5]"));
    tree.put(process(31, 1, "tee day.tape").fd(0, "pipe:[7]").fd(3, &tape));
    writes(&tree, 31, 3);
    assert!(files(&tree).is_empty());
}

#[test]
fn the_protocol_of_a_terminal_is_the_log_of_what_runs_in_it() {
    let tree = Tree::of(torchrun_job(1));
    fs::write(tree.at("typescript"), "step 1\n").unwrap();
    tree.put(process(10, 5, "bash job.sh"));
    tree.put(process(5, 1, "script -f typescript").fd(1, "/dev/pts/0").fd(4, tree.at("typescript")));
    writes(&tree, 5, 4);
    tree.put(process(200, 100, "python3 -u train.py").env(&torch_env(0, 1)).fd(1, "/dev/pts/1"));
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.followed(), [tree.at("typescript")]);
}

#[test]
fn nccls_own_log_is_found_once_it_is_there() {
    let rank = process(10, 1, "python3 t.py").env(&torch_env(0, 1)).env("NCCL_DEBUG_FILE=nccl.%h.%p.log");
    let tree = Tree::of([Fake { ns_pids: "10\t7".into(), ..rank }]);
    let mut watch = tree.watch();
    watch.poll();
    assert!(watch.known[&10].logs.is_empty());
    let log = tree.at("nccl.node-1.7.log");
    fs::write(&log, "").unwrap();
    let told = watch.poll();
    assert_eq!(told.news.len(), 1);
    assert_eq!((told.news[0].logs[0].via, told.news[0].logs[0].path.as_str()), (LogVia::NcclDebugFile, log.to_str().unwrap()));
    assert_eq!(watch.tail.try_iter().last(), Some(Hint::Logs(vec![log])));
}

#[test]
fn the_log_that_a_rank_keeps_itself_is_found_where_it_prints_nothing() {
    let tree = Tree::of([]);
    fs::write(tree.at("proc/uptime"), "5000.25 1.0\n").unwrap();
    let aged = |path: &Path, s: u64| {
        let at = std::time::SystemTime::now() - Duration::from_secs(s);
        fs::File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
    };
    let file = |name: &str| {
        let path = tree.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "step 1\n").unwrap();
        path
    };
    let (out, own, tracker, before) = (file("job.out"), file("run/member-0.log"), file("wandb/debug.log"), file("old.log"));
    let (text, data) = (file("samples.txt"), file("read.log"));
    aged(&before, 9000);
    let rank = |pid| process(pid, 1, "python3 t.py").env(&torch_env(0, 1));
    tree.put(rank(10).fd(1, &out).fd(3, &tracker).fd(4, &before).fd(5, &text).fd(6, &data).fd(7, &own));
    [3, 4, 5, 7].iter().for_each(|fd| writes(&tree, 10, *fd));
    let mut watch = tree.watch();
    watch.poll();
    let logs = |watch: &Watch| -> Vec<_> { watch.known[&10].logs.iter().map(|log| (log.via, PathBuf::from(&log.path))).collect() };
    watch.poll();
    assert_eq!(logs(&watch), [(LogVia::Stdout, out.clone())], "it prints");
    aged(&out, 60);
    watch.poll();
    assert_eq!(logs(&watch), [(LogVia::Stdout, out.clone()), (LogVia::Other, own.clone())]);
    assert_eq!(watch.followed(), [out.clone(), own.clone()]);
    // It stays when something is printed again.
    aged(&out, 0);
    watch.poll();
    assert_eq!(logs(&watch).len(), 2);
}

#[test]
fn lightnings_metrics_of_this_run_are_a_log() {
    let tree = Tree::of([process(10, 1, "python3 t.py").env(&torch_env(0, 1))]);
    fs::write(tree.at("proc/uptime"), "5000.25 1.0\n").unwrap();
    let write = |version: &str| {
        let dir = tree.at("lightning_logs").join(version);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("metrics.csv"), "epoch,step,train_loss\n").unwrap();
        dir.join("metrics.csv")
    };
    let before = std::time::SystemTime::now() - Duration::from_secs(6000);
    fs::File::options().append(true).open(write("version_9")).unwrap().set_modified(before).unwrap();
    write("version_x");
    let mut watch = tree.watch();
    watch.poll();
    assert!(watch.known[&10].logs.is_empty(), "of a run before");
    let log = write("version_10");
    let told = watch.poll();
    assert_eq!((told.news[0].logs[0].via, told.news[0].logs[0].path.as_str()), (LogVia::Other, log.to_str().unwrap()));
    assert_eq!(watch.tail.try_iter().last(), Some(Hint::Logs(vec![log])));
}

#[test]
fn a_containers_nccl_log_is_opened_through_its_own_root() {
    let rank = process(10, 1, "python3 t.py").env(&torch_env(0, 1)).env("HOSTNAME=pod-0 NCCL_DEBUG_FILE=/logs/%h.%%-%x-%.log");
    let tree = Tree::of([rank]);
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("logs")).unwrap();
    fs::write(root.path().join("logs/pod-0.%-%x-%.log"), "").unwrap();
    symlink(root.path(), tree.file(10, "root")).unwrap();
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.known[&10].logs[0].path, tree.file(10, "root/logs/pod-0.%-%x-%.log").to_str().unwrap());
}

#[test]
fn ras_addresses_are_those_of_ranks_that_have_the_service() {
    let rank = |pid, env: &str| process(pid, 1, "python3 t.py").env(&torch_env(pid, 8)).env(env);
    let tree = Tree::of([rank(10, "NCCL_RAS_ADDR=localhost:30000"), rank(11, "A=b"), rank(12, "NCCL_RAS_ENABLE=0 NCCL_RAS_ADDR=x:1")]);
    let mut watch = tree.watch();
    watch.poll();
    let address = |name: &str, pid| RasAddress { name: name.into(), pids: vec![pid], apart: None };
    let expected = vec![address("localhost:28028", 11), address("localhost:30000", 10)];
    assert_eq!(watch.ras.try_iter().last(), Some(Hint::RasAddresses(expected)));
    let quiet = Tree::of([rank(12, "NCCL_RAS_ENABLE=0")]);
    let mut watch = quiet.watch();
    watch.poll();
    assert_eq!(watch.ras.try_iter().count(), 0);
}

#[test]
fn an_orphaned_data_loader_does_not_become_the_rank() {
    let tree = Tree::of(torchrun_job(2));
    let mut watch = tree.watch();
    watch.poll();
    tree.remove(200);
    for orphan in [300, 400] {
        tree.put(Fake { start: 1000 + orphan as u64, ..process(orphan, 1, "python3 -u train.py").env(&torch_env(0, 2)) });
    }
    assert_eq!(watch.poll().gone.len(), 1);
    watch.poll();
    assert_eq!(watch.ranks(), [201]);
}

#[test]
fn a_wrapper_that_execs_and_a_late_rank_are_found() {
    let tree = Tree::of([process(10, 1, "bash run.sh").env(&torch_env(0, 2)), process(11, 1, "bash run.sh").env(&torch_env(1, 2))]);
    let mut watch = tree.watch();
    assert!(matches!(watch.poll().error, Some(SourceError::Absent(_))));
    tree.put(process(10, 1, "python3 t.py").env(&torch_env(0, 2)));
    watch.poll();
    assert_eq!(watch.ranks(), [10], "same pid, same start, other program");
    // Below a shell it could be anything at first.
    tree.put(process(12, 11, "python3 -m pip").env(&torch_env(1, 2)));
    watch.poll();
    assert_eq!(watch.ranks(), [10]);
    watch.poll();
    watch.poll();
    assert_eq!(watch.ranks(), [10, 12]);
}

#[test]
fn an_old_process_that_execs_into_a_rank_is_found_in_the_end() {
    let tree = Tree::of([process(10, 1, "sleep 999"), process(12, 1, "sleep 999")]);
    fs::write(tree.at("proc/uptime"), "5000.25 1.0\n").unwrap();
    let mut watch = tree.watch();
    watch.poll();
    tree.put(process(10, 1, "python3 t.py").env(&torch_env(0, 1)));
    // The program has not changed, so its environment has not either.
    tree.put(process(12, 1, "sleep 999").env(&torch_env(0, 1)));
    (0..4).for_each(|_| drop(watch.poll()));
    assert_eq!(watch.ranks(), [10]);
}

#[test]
fn a_tool_with_a_rank_in_its_environment_is_no_rank() {
    let pod = "KUBERNETES_SERVICE_HOST=10.0.0.1";
    let tree = Tree::of([
        process(10, 1, "sleep infinity").env(&torch_env(0, 2)).env(pod),
        process(11, 1, "bash -c while").env(&torch_env(0, 2)),
        process(12, 11, "sleep 25").env(&torch_env(0, 2)),
        process(13, 1, "tail -F train.log").env(&torch_env(1, 2)),
    ]);
    assert!(matches!(tree.watch().poll().error, Some(SourceError::Absent(_))));
    // The training beside it is.
    tree.put(process(14, 11, "python3 train.py").env(&torch_env(0, 2)));
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(watch.ranks(), [14]);
}

fn lightning_env(node: u32, local: u32, world: u32) -> String {
    format!("MASTER_ADDR=127.0.0.1 MASTER_PORT=51183 NODE_RANK={node} LOCAL_RANK={local} WORLD_SIZE={world}")
}

/// Pid, rank, number on the node, world and leader.
type Placed = (u32, Option<u32>, Option<u32>, Option<u32>, u32);

fn places(watch: &Watch) -> Vec<Placed> {
    let place = |pid: u32| watch.known[&pid].place.clone().unwrap_or_default();
    let of = |pid: u32| (pid, place(pid).rank, place(pid).local_rank, place(pid).world_size, place(pid).leader);
    watch.ranks().into_iter().map(of).collect()
}

#[test]
fn the_process_that_lightning_starts_the_others_from_is_rank_0() {
    let tree = Tree::of([
        process(10, 1, "bash"),
        process(20, 10, "python train.py"),
        process(21, 20, "python train.py").env(&lightning_env(0, 1, 2)),
        // Data loader workers: of the first with its environment, of the second with that of rank 1.
        process(22, 20, "python train.py"),
        process(23, 21, "python train.py").env(&lightning_env(0, 1, 2)),
    ]);
    let mut watch = tree.watch();
    watch.poll();
    assert_eq!(places(&watch), [(20, Some(0), Some(0), Some(2), 20), (21, Some(1), Some(1), Some(2), 20)]);
    assert_eq!(watch.launchers(), [] as [u32; 0]);
    assert_eq!(watch.known[&20].env.as_ref().unwrap().get("RANK"), None, "what is shown of the environment is what is there");
}

#[test]
fn on_a_later_node_lightnings_ranks_are_named_once_they_are_certain() {
    let rank = |local: u32| process(20 + local, 20, "python train.py").env(&lightning_env(1, local, 8));
    let tree = Tree::of([process(20, 1, "python train.py"), rank(1)]);
    let mut watch = tree.watch();
    watch.poll();
    // Two, or four on each node: not all may have been started.
    assert_eq!(places(&watch), [(20, None, Some(0), Some(8), 20), (21, None, Some(1), Some(8), 20)]);
    // With a third it must be four on each of two nodes.
    tree.put(rank(2));
    watch.poll();
    assert_eq!(places(&watch).iter().map(|place| place.1).collect::<Vec<_>>(), [Some(4), Some(5), Some(6)]);
}

#[test]
fn between_scans_known_processes_are_still_watched() {
    let tree = Tree::of([process(10, 1, "python3 t.py").env(&torch_env(0, 2)), process(12, 1, "python3 t.py").env(&torch_env(1, 2))]);
    let (_, inbox) = Hints::line();
    let mut procs = Procs::new(Roots::below(tree.dir.path()), Duration::from_millis(500), Some(inbox));
    let mut poll = || {
        let mut out = Vec::new();
        procs.poll(&mut out).unwrap();
        out
    };
    assert_eq!(poll().len(), 3);
    tree.put(process(14, 1, "python3 other.py").env(&torch_env(0, 1)));
    for _ in 1..6 {
        assert!(matches!(poll().as_slice(), [Body::Processes { .. }]), "no scan yet");
    }
    assert!(matches!(poll().as_slice(), [Body::Process(_), Body::Processes { .. }]), "3 s are over");
    tree.remove(12);
    assert!(matches!(poll().as_slice(), [Body::ProcessGone(_), Body::Processes { .. }]), "a death is told at once");
}

#[test]
fn a_circle_of_parents_ends() {
    let env = torch_env(0, 2);
    let tree = Tree::of([process(10, 11, "python3 a.py").env(&env), process(11, 10, "python3 a.py").env(&env)]);
    tree.watch().poll();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn no_bytes_of_a_process_can_stop_the_reader(
        files in prop::collection::vec((0usize..6, prop::collection::vec(any::<u8>(), 0..200)), 1..6),
        cut in 0usize..200,
    ) {
        let fake = process(10, 1, "python3 t.py").env(&torch_env(0, 1)).env("NCCL_DEBUG_FILE=%");
        let tree = Tree::of([fake.clone()]);
        let mut watch = tree.watch();
        watch.gpus(&[10]);
        watch.poll();
        for (file, bytes) in files {
            let name = ["stat", "environ", "cmdline", "status", "io", "cgroup"][file];
            let mut text = fs::read(tree.file(10, name)).unwrap();
            text.truncate(cut);
            text.extend(bytes);
            fs::write(tree.file(10, name), text).unwrap();
            watch.poll();
            watch.poll();
        }
        tree.put(fake);
        watch.poll();
        prop_assert!(watch.known.contains_key(&10));
    }
}

/// A process of ours that is killed even if a check fails.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(pid: u32, name: &str) {
    assert!(std::process::Command::new("sh").args(["-c", &format!("kill {name} {pid}")]).status().unwrap().success());
}

#[test]
fn a_real_child_is_found_stopped_and_killed() {
    let files = tempfile::tempdir().unwrap();
    let log = files.path().join("out.log");
    let child = std::process::Command::new(alias("sleep", files.path()))
        .arg("600")
        .envs([("RANK", "0"), ("WORLD_SIZE", "2"), ("SOME_TOKEN", "secret")])
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdout(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let child = Child(child);
    let pid = child.0.id();
    let mut procs = Procs::new(Roots::live(), Duration::from_secs(1), None);
    let mut until = |what: &dyn Fn(&Body) -> bool| -> Body {
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let mut out = Vec::new();
            let _ = procs.poll(&mut out);
            if let Some(body) = out.into_iter().find(what) {
                return body;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("not seen")
    };

    let found = until(&|body| matches!(body, Body::Process(info) if info.pid == pid));
    let Body::Process(info) = found else { unreachable!() };
    assert_eq!((info.role, info.comm.as_str(), info.ppid), (ProcessRole::Rank, "trains-as-sleep", std::process::id()));
    assert_eq!(info.cmdline[1..], ["600"]);
    assert_eq!(info.logs[0].path, log.to_str().unwrap());
    assert_eq!(info.logs[0].inode, Some(fs::metadata(&log).unwrap().ino()));
    assert!(!info.env.unwrap().contains_key("SOME_TOKEN"));
    assert!(info.hidden.is_empty(), "{:?}", info.hidden);

    // Rotated by renaming a new file over it: the child still writes to the old one, which only its descriptor names.
    fs::remove_file(&log).unwrap();
    fs::write(&log, "of somebody else").unwrap();
    fs::write(files.path().join("out.log (deleted)"), "as the link reads, but not what it leads to").unwrap();
    let Body::Process(rotated) = until(&|body| matches!(body, Body::Process(info) if info.pid == pid)) else { unreachable!() };
    assert_eq!((rotated.logs[0].path.as_str(), rotated.logs[0].inode), (format!("/proc/{pid}/fd/1").as_str(), info.logs[0].inode));

    let state = |wanted: char| move |body: &Body| matches!(body, Body::Processes { processes } if processes.iter().any(|p| p.pid == pid && p.state == Some(wanted)));
    let seen = until(&state('S'));
    let Body::Processes { processes } = seen else { unreachable!() };
    let sample = processes.iter().find(|p| p.pid == pid).unwrap();
    assert!(sample.rss_bytes.is_some_and(|rss| rss > 4096) && sample.rchar_bytes.is_some_and(|n| n > 0), "{sample:?}");

    signal(pid, "-STOP");
    until(&state('T'));
    // Not waited for: it stays a zombie, as a rank does below a launcher that is stuck.
    signal(pid, "-KILL");
    let gone = until(&|body| matches!(body, Body::ProcessGone(gone) if gone.pid == pid));
    assert_eq!(gone, Body::ProcessGone(ProcessGone { pid, start_ticks: info.start_ticks, exit_code: Some(-9) }));
}

/// The name of a program under which it is no tool of a job script.
fn alias(program: &str, dir: &Path) -> PathBuf {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap()).map(|dir| dir.join(program)).find(|path| path.exists());
    let name = dir.join(format!("trains-as-{program}"));
    std::os::unix::fs::symlink(found.unwrap(), &name).unwrap();
    name
}

/// A rank below a shell that is our child: somebody else reaps it, or nobody.
struct Grandchild {
    parent: Child,
    pid: u32,
    /// Where its program has another name.
    _names: TempDir,
}

impl Grandchild {
    /// `then` is what its parent does afterwards.
    fn of(program: &str, then: &str) -> Grandchild {
        use std::io::BufRead;
        let names = tempfile::tempdir().unwrap();
        let (tool, arguments) = program.split_once(' ').unwrap();
        let program = format!("{} {arguments}", alias(tool, names.path()).display());
        // A job in the background has no standard input of its own.
        let script = format!("exec 3<&0; RANK=0 WORLD_SIZE=2 {program} <&3 3<&- >/dev/null & echo $!; exec >/dev/null; {then}");
        let mut parent = std::process::Command::new("sh")
            .args(["-c", &script])
            .env_remove("KUBERNETES_SERVICE_HOST")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        std::io::BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Grandchild { parent: Child(parent), pid: line.trim().parse().unwrap(), _names: names }
    }

    fn tell(&mut self) {
        use std::io::Write;
        self.parent.0.stdin.take().unwrap().write_all(b"end\n").unwrap();
    }

    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        stat.rsplit_once(") ")?.1.chars().next()
    }

    /// Seen by the reader, then ended by `end`, then `until` its state is this; how it ended, as the reader tells.
    fn ended(mut self, end: impl Fn(&mut Grandchild), until: Option<char>) -> Option<i32> {
        let mut procs = Procs::new(Roots::live(), Duration::from_secs(1), None);
        let patience = || std::thread::sleep(Duration::from_millis(10));
        let mut look = |what: &dyn Fn(&Body) -> Option<Option<i32>>| {
            let started = Instant::now();
            while started.elapsed() < PATIENCE {
                let mut out = Vec::new();
                let _ = procs.poll(&mut out);
                if let Some(told) = out.iter().find_map(what) {
                    return told;
                }
                patience();
            }
            panic!("not seen")
        };
        let pid = self.pid;
        look(&|body| matches!(body, Body::Process(info) if info.pid == pid && info.comm != "sh").then_some(None));
        end(&mut self);
        while self.state() != until {
            patience();
        }
        look(&|body| match body {
            Body::ProcessGone(gone) if gone.pid == pid => Some(gone.exit_code),
            _ => None,
        })
    }
}

/// PIDFD_GET_INFO tells how a process ended from Linux 6.15 on. Who skips a test says why.
#[allow(clippy::print_stderr)]
fn kernel_tells_ends() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let tells = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15);
    if !tells {
        eprintln!("not tested: Linux {} has no PIDFD_INFO_EXIT, which came with 6.15", release.trim());
    }
    tells
}

#[test]
fn how_a_process_ended_is_known_after_its_parent_has_reaped_it() {
    if !kernel_tells_ends() {
        return;
    }
    let waits = "wait; exec sleep 600";
    assert_eq!(Grandchild::of("awk '{exit 3}'", waits).ended(Grandchild::tell, None), Some(3));
    assert_eq!(Grandchild::of("awk '{exit 0}'", waits).ended(Grandchild::tell, None), Some(0));
    assert_eq!(Grandchild::of("sleep 600", waits).ended(|g| signal(g.pid, "-SEGV"), None), Some(-11));
}

#[test]
fn how_a_process_ended_is_known_while_nobody_has_reaped_it() {
    let never_waits = "exec sleep 600";
    assert_eq!(Grandchild::of("awk '{exit 3}'", never_waits).ended(Grandchild::tell, Some('Z')), Some(3));
    assert_eq!(Grandchild::of("sleep 600", never_waits).ended(|g| signal(g.pid, "-SEGV"), Some('Z')), Some(-11));
}

#[test]
fn the_directory_that_a_rank_writes_much_to_is_known() {
    let files = tempfile::tempdir().unwrap();
    let checkpoint = files.path().join("step_100.pt");
    let child = std::process::Command::new(alias("cat", files.path()))
        .envs([("RANK", "0"), ("WORLD_SIZE", "2")])
        .env_remove("KUBERNETES_SERVICE_HOST")
        .stdin(std::process::Stdio::piped())
        .stdout(fs::File::options().append(true).create(true).open(&checkpoint).unwrap())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Child(child);
    let mut input = child.0.stdin.take().unwrap();
    let mut procs = Procs::new(Roots::live(), Duration::from_millis(100), None);
    let started = Instant::now();
    let writes = loop {
        assert!(started.elapsed() < PATIENCE, "not seen");
        let mut out = Vec::new();
        let _ = procs.poll(&mut out);
        let seen = out.into_iter().find_map(|body| match body {
            Body::Process(info) if info.pid == child.0.id() && !info.writes.is_empty() => Some(info.writes),
            _ => None,
        });
        if let Some(writes) = seen {
            break writes;
        }
        input.write_all(&[0; 1 << 20].repeat(8)).unwrap();
        fs::File::options().write(true).truncate(true).open(&checkpoint).unwrap();
    };
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!((writes[0].path.as_str(), writes[0].device), (files.path().to_str().unwrap(), fs::metadata(&checkpoint).unwrap().dev()));
}

#[test]
fn who_holds_the_lock_that_a_rank_waits_for_is_known() {
    let files = tempfile::tempdir().unwrap();
    let lock = files.path().join("build.lock");
    let mut holder = std::process::Command::new("flock");
    holder.arg("--no-fork").arg(&lock).args(["sh", "-c", "echo held; exec sleep 600"]).stdout(std::process::Stdio::piped());
    let mut holder = Child(holder.spawn().unwrap());
    let mut held = [0; 5];
    holder.0.stdout.take().unwrap().read_exact(&mut held).unwrap();
    let rank = std::process::Command::new(alias("flock", files.path()))
        .args([lock.to_str().unwrap(), "true"])
        .envs([("RANK", "0"), ("WORLD_SIZE", "2")])
        .env_remove("KUBERNETES_SERVICE_HOST")
        .spawn()
        .unwrap();
    let rank = Child(rank);
    let mut procs = Procs::new(Roots::live(), Duration::from_millis(100), None);
    let started = Instant::now();
    let wait = loop {
        assert!(started.elapsed() < PATIENCE, "not seen");
        let mut out = Vec::new();
        let _ = procs.poll(&mut out);
        let samples = out.into_iter().filter_map(|body| if let Body::Processes { processes } = body { Some(processes) } else { None });
        let mut waits = samples.flatten().filter(|sample| sample.pid == rank.0.id()).filter_map(|sample| sample.waits);
        if let Some(wait) = waits.find_map(|waits| waits.into_iter().find(|wait| wait.is_for_a_file_lock())) {
            break wait;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    let by = wait.holder.unwrap_or_else(|| panic!("{:?} in {}", wait.file, fs::read_to_string("/proc/locks").unwrap_or_default()));
    assert_eq!((by.pid, by.comm.as_deref()), (holder.0.id(), Some("sleep")));
}

/// A rank of an `env://` job that waits for a master which drops its packets, with no log. Constructed.
#[test]
fn a_master_address_that_does_not_answer_is_named_after_a_minute() {
    use nccl_top::base::time::{Stamp, Zone};
    use nccl_top::diagnosis::session::Session;
    use nccl_top::observe::{Observation, SourceId};
    let found = |state: &str, uid: u32, inode: u32, seconds: i64| {
        let rank = process(10, 1, "python train.py").env("RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=head MASTER_PORT=29500");
        let tree = Tree::of([rank.fd(7, format!("socket:[{inode}]"))]);
        fs::create_dir_all(tree.file(10, "net")).unwrap();
        // More than one read of the kernel gives.
        let other =
            "   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0\n".repeat(60);
        let to = u32::from_ne_bytes([10, 255, 255, 1]);
        let own = format!(
            "  60: 0100000A:9C40 {to:08X}:733C {state} 00000001:00000000 01:00000190 00000003  {uid}        0 777 2 0 800 0 0 1 7 -1\n"
        );
        fs::write(tree.file(10, "net/tcp"), format!("  sl  local_address rem_address   st\n{other}{own}")).unwrap();
        let mut procs = Procs::new(Roots::below(tree.dir.path()), Duration::from_secs(1), None);
        let mut session = Session::new("node-1", Zone::UTC);
        for second in 0..seconds {
            let mut out = Vec::new();
            procs.poll(&mut out).unwrap();
            for body in out.into_iter().chain([Body::Tick]) {
                let at = Stamp((1000 + second) * 1_000_000_000);
                session.apply(&Observation { at, host: None, from: SourceId::of("procs"), body }, &mut Vec::new());
            }
        }
        session.ledger.open().iter().map(|f| format!("{} {}", f.rule, f.summary)).collect::<Vec<_>>()
    };
    let words = "init-stuck rank 1 gets no answer from 10.255.255.1:29500 (MASTER_ADDR=head), where the ranks meet";
    assert_eq!(found("02", 1000, 777, 72), [words]);
    for (state, uid, inode, seconds) in [("02", 1000, 777, 50), ("01", 1000, 777, 90), ("02", 1001, 777, 90), ("02", 1000, 778, 90)] {
        assert!(found(state, uid, inode, seconds).is_empty(), "{state} {uid} {inode} {seconds}");
    }
}

#[test]
fn the_pod_of_a_rank_and_its_log_are_found_by_the_control_group() {
    const UID: &str = "2f0c8d1e-7a41-4b8e-9c55-0123456789ab";
    let id = "8d3f".repeat(16);
    let systemd = UID.replace('-', "_");
    let groups = [
        format!("/kubepods/burstable/pod{UID}/{id}"),
        format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{systemd}.slice/cri-containerd-{id}.scope"),
        format!("/../../kubelet-kubepods-pod{systemd}.slice/crio-{id}.scope"),
    ];
    for group in groups {
        let tree = Tree::of([process(20, 1, "python3 train.py").env("RANK=0 WORLD_SIZE=1").fd(1, "pipe:[7]").fd(2, "pipe:[8]")]);
        fs::write(tree.file(20, "cgroup"), format!("0::{group}\n")).unwrap();
        let pod = tree.at(&format!("var/log/pods/ml-team_pretrain-0_{UID}"));
        fs::create_dir_all(tree.at("var/log/pods/ml-team_pretrain-1_3f0c8d1e-7a41-4b8e-9c55-0123456789ab/trainer")).unwrap();
        for container in ["sidecar", "trainer"] {
            fs::create_dir_all(pod.join(container)).unwrap();
            for no in [0, 9, 10] {
                fs::write(pod.join(container).join(format!("{no}.log")), "2026-05-05T06:16:47.1Z stdout F step 1\n").unwrap();
            }
        }
        let find = || {
            let mut watch = tree.watch();
            watch.poll();
            watch.known[&20].clone()
        };
        // Of two containers nobody knows which it is, until a link names it.
        let told = find();
        let named = told.pod.clone().unwrap();
        assert_eq!(
            (named.uid.as_str(), named.namespace.as_deref(), named.name.as_deref()),
            (UID, Some("ml-team"), Some("pretrain-0")),
            "{group}"
        );
        assert_eq!((named.container, told.logs.iter().filter(|log| log.inode.is_some()).count()), (None, 0));
        fs::create_dir_all(tree.at("var/log/containers")).unwrap();
        symlink(pod.join("trainer/10.log"), tree.at(&format!("var/log/containers/pretrain-0_ml-team_trainer-{id}.log"))).unwrap();
        let told = find();
        assert_eq!(told.pod.unwrap().container.as_deref(), Some("trainer"));
        let log = told.logs.iter().find(|log| log.inode.is_some()).unwrap();
        assert_eq!((Path::new(&log.path), log.via), (pod.join("trainer/10.log").as_path(), LogVia::Stdout));
    }
    let tree = Tree::of([process(20, 1, "python3 train.py").env("RANK=0 WORLD_SIZE=1")]);
    for group in ["/user.slice/podman-1.scope", "/kubepods/pod1234/x", "/podpodpod", "/"] {
        fs::write(tree.file(20, "cgroup"), format!("0::{group}\n")).unwrap();
        let mut watch = tree.watch();
        watch.poll();
        assert_eq!(watch.known[&20].pod, None, "{group}");
    }
}
