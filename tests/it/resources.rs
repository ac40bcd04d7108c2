//! What runs out: space of the file systems that a job needs, and memory.

use nccl_top::base::severity::Severity;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::host::{CgroupMemory, DiskSample, HostSample};
use nccl_top::observe::log::{LogFileInfo, LogFileState};
use nccl_top::observe::process::{ProcessInfo, ProcessRole, ProcessSample, WrittenDir};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::rules::findings::Finding;

const GIB: u64 = 1 << 30;
const LOG_DEVICE: u64 = 11;
const CHECKPOINT_DEVICE: u64 = 22;

/// A node with one job of two ranks, whose log and checkpoints lie on file systems of their own.
struct Node {
    session: Session,
    now_s: u64,
}

impl Node {
    fn new() -> Node {
        let mut node = Node { session: Session::new("node-17", Zone::UTC), now_s: 1_795_255_200 };
        for rank in 0..2u32 {
            let env =
                [("RANK", rank.to_string()), ("WORLD_SIZE", "2".into()), ("LOCAL_RANK", rank.to_string()), ("SLURM_JOB_ID", "7".into())];
            let info = ProcessInfo {
                pid: 100 + rank,
                start_ticks: 5,
                role: ProcessRole::Rank,
                env: Some(env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
                cgroup: Some(format!("/slurm/job_7/rank_{rank}")),
                writes: vec![WrittenDir { path: "/ckpt/run7".into(), device: CHECKPOINT_DEVICE }],
                ..ProcessInfo::default()
            };
            node.see(Body::Process(info));
        }
        let held = [(100, 40), (101, 300)].map(|(pid, gib)| ProcessSample {
            pid,
            state: Some('R'),
            rss_bytes: Some(gib * GIB),
            ..ProcessSample::default()
        });
        node.see(Body::Processes { processes: held.to_vec() });
        let log = LogFileInfo {
            path: "/logs/train.log".into(),
            state: LogFileState::Open,
            device: Some(LOG_DEVICE),
            inode: Some(5),
            ..LogFileInfo::default()
        };
        node.see(Body::LogFile(log));
        node
    }

    fn see(&mut self, body: Body) {
        let at = Stamp(self.now_s as i64 * 1_000_000_000);
        self.session.apply(&Observation { at, host: None, from: SourceId::of("host"), body }, &mut Vec::new());
    }

    /// The same for so long, as the source looks at it.
    fn hold(&mut self, seconds: u64, look: impl Fn(u64) -> Body) -> Vec<Finding> {
        for passed in 0..=seconds {
            if passed % 15 == 0 {
                self.see(look(passed));
            }
            self.see(Body::Tick);
            self.now_s += 1;
        }
        self.session.ledger.open().into_iter().filter(|f| ["disk-full", "host-memory-low"].contains(&f.rule)).cloned().collect()
    }
}

fn disk(mount: &str, device: u64, free_gib: u64) -> DiskSample {
    DiskSample {
        mount: mount.into(),
        total_bytes: 1000 * GIB,
        free_bytes: free_gib * GIB,
        fs: Some("ext4".into()),
        read_only: Some(false),
        inodes_total: Some(1_000_000),
        inodes_free: Some(900_000),
        device: Some(device),
        places: Vec::new(),
    }
}

fn disks(disks: &[DiskSample]) -> Body {
    Body::Host(HostSample { disks: disks.to_vec(), ..HostSample::default() })
}

fn memory(available_gib: u64, swap_gib: u64) -> Body {
    let sample = HostSample {
        mem_total_bytes: Some(2000 * GIB),
        mem_available_bytes: Some(available_gib * GIB),
        swap_total_bytes: Some(swap_gib * GIB),
        swap_free_bytes: Some(swap_gib * GIB),
        ..HostSample::default()
    };
    Body::Host(sample)
}

#[test]
fn a_full_file_system_is_found_where_the_job_needs_it() {
    let full = |device| disk("/data", device, 0);
    let found = Node::new().hold(20, |_| disks(&[full(CHECKPOINT_DEVICE), disk("/", 1, 500)]));
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!((found.rule, found.severity, found.job.as_deref()), ("disk-full", Severity::Error, Some("7")));
    assert_eq!(found.summary, "the file system /data is full: 0.0 of 1000.0 GiB are free");
    assert_eq!(found.why, "it holds where rank 0 writes (/ckpt/run7), where rank 1 writes (/ckpt/run7)");
    assert_eq!(found.next.as_deref(), Some("df -h /data; df -i /data"));
    assert!(found.ranks.is_empty(), "nobody is to blame");

    let of_log = Node::new().hold(20, |_| disks(&[full(LOG_DEVICE)]));
    assert!(of_log[0].why.contains("the log /logs/train.log"), "{of_log:?}");
    let of_all = Node::new().hold(20, |_| disks(&[DiskSample { places: vec!["/tmp".into()], ..full(3) }]));
    assert_eq!((of_all[0].why.as_str(), &of_all[0].job), ("it holds /tmp", &None));
    let inodes = DiskSample { inodes_free: Some(12), ..disk("/data", LOG_DEVICE, 900) };
    let of_inodes = Node::new().hold(20, |_| disks(std::slice::from_ref(&inodes)));
    assert_eq!(
        of_inodes[0].summary,
        "the file system /data has no inodes left: 12 of 1000000 inodes are free, and 900.0 of 1000.0 GiB are free"
    );
}

#[test]
fn what_the_job_does_not_need_and_what_is_never_written_to_is_not_judged() {
    let read_only = DiskSample { read_only: Some(true), ..disk("/data", LOG_DEVICE, 0) };
    let before = DiskSample { device: None, ..disk("/data", 0, 0) };
    let large = DiskSample { total_bytes: 900_000 * GIB, ..disk("/lustre", LOG_DEVICE, 5000) };
    let small = DiskSample { total_bytes: 64 << 20, free_bytes: 60 << 20, places: vec!["/dev/shm".into()], ..disk("/dev/shm", 4, 0) };
    for (why, disk) in [
        ("read-only", read_only),
        ("of another", disk("/data", 99, 0)),
        ("device unknown", before),
        ("room enough", large),
        ("small, and empty", small),
    ] {
        let found = Node::new().hold(30, |_| disks(std::slice::from_ref(&disk)));
        assert!(found.is_empty(), "{why}: {found:?}");
    }
}

#[test]
fn a_file_system_that_fills_is_found_before_it_is_full() {
    // 10 GiB a minute.
    let fills = |passed: u64| disks(&[disk("/data", LOG_DEVICE, 500 - passed / 6)]);
    let mut node = Node::new();
    assert!(node.hold(550, fills).is_empty(), "too short to tell");
    let found = Node::new().hold(900, fills);
    assert_eq!((found[0].severity, found[0].summary.as_str()), (Severity::Warning, "the file system /data will be full within 35 minutes"));
    assert!(found[0].evidence[0].text.starts_with("350.0 of 1000.0 GiB are free, shrinking by 180MB/s"), "{:?}", found[0].evidence);
    // Checkpoints of which the old one is deleted.
    let saws = |passed: u64| disks(&[disk("/data", LOG_DEVICE, 500 - passed % 300)]);
    assert!(Node::new().hold(3000, saws).is_empty());
    // Once there is room again, it is over.
    let mut node = Node::new();
    assert!(!node.hold(900, fills).is_empty());
    assert!(node.hold(60, |_| disks(&[disk("/data", LOG_DEVICE, 900)])).is_empty());
}

#[test]
fn low_host_memory_is_found_with_whoever_holds_most() {
    let found = Node::new().hold(30, |_| memory(12, 0));
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!((found.rule, found.severity, found.job.as_deref()), ("host-memory-low", Severity::Warning, Some("7")));
    assert_eq!(found.summary, "host memory is nearly used up: 12.0 of 2000.0 GiB are left");
    assert!(found.why.ends_with("rank 1 (pid 101) holds 300.0 GiB, more than its other ranks"), "{}", found.why);
    assert!(Node::new().hold(30, |_| memory(12, 200)).is_empty(), "there is swap");
    assert!(Node::new().hold(600, |_| memory(150, 0)).is_empty(), "little, but no less all the time");
    // 15 GiB a minute.
    let shrinks = Node::new().hold(400, |passed| memory(230 - passed / 4, 0));
    assert_eq!(
        shrinks[0].summary,
        "host memory is nearly used up: 133.0 of 2000.0 GiB are left, and at this rate nothing within 9 minutes"
    );
    assert!(Node::new().hold(200, |passed| memory(1900 - passed * 9, 0)).is_empty(), "a model is loaded");
}

#[test]
fn the_limit_of_a_control_group_counts_once_and_without_its_cache() {
    let group = |rank: u32, cache_gib: u64| CgroupMemory {
        cgroup: format!("/slurm/job_7/rank_{rank}"),
        limited_by: Some("/slurm/job_7".into()),
        limit_bytes: Some(512 * GIB),
        used_bytes: Some(511 * GIB),
        cache_bytes: Some(cache_gib * GIB),
        ..CgroupMemory::default()
    };
    let groups = |cache_gib| Body::Cgroups { cgroups: vec![group(0, cache_gib), group(1, cache_gib)] };
    let found = Node::new().hold(30, |_| groups(3));
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!(found.summary, "the memory limit of control group /slurm/job_7 is nearly used up: 4.0 of 512.0 GiB are left");
    assert_eq!(found.evidence[0].path.as_deref(), Some("/sys/fs/cgroup/slurm/job_7"));
    assert!(Node::new().hold(30, |_| groups(300)).is_empty(), "the kernel can take the cache back");
    let others = CgroupMemory { cgroup: "/system.slice".into(), ..group(0, 3) };
    assert!(Node::new().hold(30, |_| Body::Cgroups { cgroups: vec![others.clone()] }).is_empty(), "of no job");
}
