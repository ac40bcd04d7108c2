//! Findings on what kernel and driver say of the machine.

use nccl_top::base::severity::{Confidence, Severity};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::gpu::{GpuEvent, GpuHealth, GpuInfo, GpuProcess, GpuProcesses, GpuSample, GpuTrouble, GpuTroubleKind};
use nccl_top::observe::log::{KernelLine, Line, Lines, LogFileInfo};
use nccl_top::observe::port::PortInfo;
use nccl_top::observe::process::{LogVia, ProcessGone, ProcessInfo, ProcessLog, ProcessRole};
use nccl_top::observe::{Body, Observation, SourceId, SourceReport, SourceState};
use nccl_top::rules::findings::Finding;
use std::time::Duration;

/// A node with GPUs and one job of a rank each, seen second by second.
pub struct Node {
    pub session: Session,
    second: i64,
    pub events: Vec<Event>,
}

const BUS: [&str; 4] = ["0000:18:00.0", "0000:2a:00.0", "0000:3b:00.0", "10000:5d:00.0"];
/// Pid of rank 0; the others follow.
pub const PID: u32 = 2200;
/// 1000 s after boot the job began; nccl-top at 2000 s.
pub const BEGAN_TICKS: u64 = 100_000;
const SEEN_AT_US: u64 = 2_000_000_000;

impl Node {
    pub fn empty(sources: &[(&'static str, SourceState)]) -> Node {
        let mut node = Node { session: Session::new("node", Zone::UTC), second: 1_000_000, events: Vec::new() };
        for (id, state) in sources {
            node.sees(id, Body::Source(SourceReport { state: *state, detail: None, title: None }));
        }
        node
    }

    pub fn with_job() -> Node {
        let mut node = Node::empty(&[("nvml", SourceState::Ok), ("procs", SourceState::Ok), ("kmsg", SourceState::Ok)]);
        for (index, bus) in (0..).zip(BUS) {
            node.sees("nvml", Body::GpuInfo(GpuInfo { index, bus_id: Some(bus.into()), ..Default::default() }));
        }
        node.starts_job();
        node.ticks(4);
        node
    }

    pub fn starts_job(&mut self) {
        self.starts_job_of(PID, 2100);
    }

    pub fn starts_job_of(&mut self, first_pid: u32, launcher: u32) {
        for rank in 0..4 {
            let env = [("RANK", rank), ("WORLD_SIZE", 4), ("LOCAL_WORLD_SIZE", 4)];
            self.sees(
                "procs",
                Body::Process(ProcessInfo {
                    pid: first_pid + rank,
                    ppid: launcher,
                    start_ticks: BEGAN_TICKS,
                    role: ProcessRole::Rank,
                    comm: "python3".into(),
                    cgroup: Some("/slurm/job_7".into()),
                    env: Some(env.iter().map(|(k, v)| ((*k).to_owned(), v.to_string())).collect()),
                    ..Default::default()
                }),
            );
            let processes = vec![GpuProcess { pid: first_pid + rank, mem_bytes: Some(1 << 30) }];
            self.sees("nvml", Body::GpuProcesses { gpus: vec![GpuProcesses { index: rank, processes }] });
        }
    }

    pub fn at(&self) -> Stamp {
        Stamp(self.second * 1_000_000_000)
    }

    pub fn sees(&mut self, from: &'static str, body: Body) {
        let mut out = Vec::new();
        self.session.apply(&Observation { at: self.at(), host: None, from: SourceId::of(from), body }, &mut out);
        self.events.extend(out.into_iter().map(|(_, e)| e));
    }

    pub fn ticks(&mut self, n: usize) {
        for _ in 0..n {
            self.second += 1;
            self.sees("feed", Body::Tick);
        }
    }

    pub fn kernel(&mut self, texts: &[&str]) {
        let line = |text: &&str| KernelLine { level: 3, uptime_us: Some(SEEN_AT_US), text: (*text).into(), backlog: false };
        self.sees("kmsg", Body::Kernel { lines: texts.iter().map(line).collect(), uptime_us: Some(SEEN_AT_US) });
        self.ticks(1);
    }

    /// Lines that the buffer held, of so many seconds after boot.
    pub fn backlog(&mut self, texts: &[(u64, &str)]) {
        let line = |(s, text): &(u64, &str)| KernelLine { level: 3, uptime_us: Some(s * 1_000_000), text: (*text).into(), backlog: true };
        self.sees("kmsg", Body::Kernel { lines: texts.iter().map(line).collect(), uptime_us: Some(SEEN_AT_US) });
        self.ticks(1);
    }

    pub fn event(&mut self, index: u32, event_bits: u64, data: u64) {
        self.sees("events", Body::GpuEvents { events: vec![GpuEvent { index: Some(index), event_bits, data, mig_instance: None }] });
    }

    pub fn open(&self) -> Vec<&Finding> {
        self.session.ledger.open()
    }

    /// Rule, subject, severity, GPU, rank, job and count of all that is open.
    pub fn lines(&self) -> Vec<String> {
        let one = |f: &&Finding| {
            let Finding { subject, gpus, ranks, job, .. } = f;
            format!("{} [{subject}] {} {gpus:?} {ranks:?} {} x{}", f.rule, f.severity.as_str(), job.as_deref().unwrap_or("-"), f.count)
        };
        self.open().iter().filter(|f| f.rule != "source-trouble").map(one).collect()
    }

    pub fn only(&self) -> &Finding {
        let open = self.open();
        assert_eq!(open.len(), 1, "{:?}", self.lines());
        open[0]
    }
}

const XID_79: &str = "NVRM: Xid (PCI:0000:3b:00): 79, pid=2202, name=python3, GPU has fallen off the bus.";

#[test]
fn an_xid_names_its_gpu_its_rank_and_its_job() {
    let mut node = Node::with_job();
    node.kernel(&[XID_79]);
    assert_eq!(node.lines(), ["gpu-lost [GPU 2] critical [2] [2] 2100 x1"]);
    let f = node.only();
    assert_eq!(f.summary, "GPU 2 (0000:3b:00.0), rank 2: Xid 79, pid=2202, name=python3, GPU has fallen off the bus.");
    assert_eq!((f.signature, f.evidence[0].kind), (Some("xid-79"), "kernel"));
    assert!(f.next.as_deref().is_some_and(|n| n.contains("Drain")));
    assert_eq!(node.session.state().0, State::Failed);
}

#[test]
fn a_line_that_comes_after_its_process_is_the_last_jobs_that_ended_there() {
    let mut node = Node::with_job();
    let ends = |node: &mut Node, first_pid: u32| {
        for pid in first_pid..first_pid + 4 {
            node.sees("procs", Body::ProcessGone(ProcessGone { pid, start_ticks: BEGAN_TICKS, exit_code: None }));
        }
        node.ticks(1);
    };
    ends(&mut node, PID);
    node.ticks(10);
    node.starts_job_of(3200, 3100);
    node.ticks(10);
    ends(&mut node, 3200);
    node.kernel(&["NVRM: Xid (PCI:0000:3b:00): 31, pid=3202, name=python3, channel 0x0000000a, intr 00000000. MMU Fault"]);
    assert!(node.lines().iter().any(|l| l.starts_with("gpu-xid [GPU 2") && l.contains("[2] [2] 3100 ")), "{:?}", node.lines());
}

#[test]
fn bus_ids_of_any_width_and_case_and_lines_said_again() {
    let mut node = Node::with_job();
    for text in [
        "NVRM: Xid (PCI:00000000:3B:00): 31, pid=2202, name=python3, Ch 00000008, MMU Fault",
        "NVRM: Xid (0000:3b:00): 31, pid=2202, name=python3, Ch 00000008, MMU Fault",
        "NVRM: Xid (PCI:10000:5d:00): 63, Row Remapper: New row marked for remapping",
    ] {
        node.kernel(&[text]);
        node.ticks(20);
    }
    assert_eq!(node.lines(), ["gpu-xid [GPU 2 Xid 31] error [2] [2] 2100 x2", "gpu-ecc [GPU 3 Xid 63] warning [3] [3] 2100 x1"]);
    assert_ne!(node.session.state().0, State::Failed, "a warning fails nobody");
}

#[test]
fn lines_about_gpus_that_are_not_seen_blame_nobody() {
    let mut node = Node::with_job();
    node.kernel(&["NVRM: Xid (PCI:0000:99:00): 48, An uncorrectable double bit error (DBE) has been detected"]);
    node.kernel(&["NVRM: Xid (PCI:zz:99:00:77): 48, nonsense", "NVRM: Xid (): 48, x", "NVRM: Xid (PCI:0000:98:00): 99999999, x"]);
    let lines = node.lines();
    assert!(lines.iter().all(|l| l.contains("warning [] [] - ")), "{lines:?}");
}

#[test]
fn hostile_lines_are_shown_harmless_and_bounded() {
    let mut node = Node::with_job();
    let huge = format!("NVRM: Xid (PCI:0000:3b:00): 31, \u{1b}]52;c;AAAA\u{7}\u{1b}[2J{}", "x\u{202e}".repeat(2000));
    node.kernel(&[&huge]);
    let f = node.only();
    assert!(f.summary.chars().count() <= 165 && f.evidence[0].text.chars().count() <= 305);
    for text in [&f.summary, &f.evidence[0].text] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{text:?}");
    }
    let lines: Vec<String> = (0..3000).map(|i| format!("NVRM: Xid (PCI:0000:{:02x}:00): {}, x", i % 256, i % 170)).collect();
    node.kernel(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(node.open().len() <= 512 + 2, "and for the job and the host one that counts the rest");
}

#[test]
fn a_killed_process_is_a_rank() {
    let mut node = Node::with_job();
    node.kernel(&[
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/slurm/job_7,task=python3,pid=2201,uid=0",
        "Memory cgroup out of memory: Killed process 2201 (python3) total-vm:1kB, anon-rss:1kB",
        "oom_reaper: reaped process 2201 (python3), now anon-rss:0kB",
    ]);
    assert_eq!(node.lines(), ["rank-oom-killed [pid 2201] critical [1] [1] 2100 x1"]);
    assert!(node.only().evidence.len() >= 2, "{:?}", node.only().evidence);
    assert!(node.only().summary.starts_with("rank 1 (pid 2201): "), "{}", node.only().summary);
}

#[test]
fn a_killed_process_of_another_name_or_pid_is_no_rank() {
    let mut node = Node::with_job();
    node.kernel(&["Out of memory: Killed process 2201 (sshd) total-vm:1kB"]);
    assert_eq!(node.lines(), ["rank-oom-killed [pid 2201] warning [] [] - x1"]);
    node.kernel(&["Memory cgroup out of memory: Killed process 9001 (pt_data_worker) total-vm:1kB"]);
    let worker = node.open().into_iter().find(|f| f.subject == "pid 9001").cloned().unwrap();
    assert_eq!((worker.job.as_deref(), worker.confidence), (Some("2100"), Confidence::Possible));
    assert_eq!(worker.severity, Severity::Error, "that alone fails nobody");
    node.kernel(&["bash[777]: segfault at 0 ip 00007f sp 0 error 4 in libc.so.6"]);
    let other = node.open().into_iter().find(|f| f.subject == "pid 777").cloned().unwrap();
    assert_eq!((other.severity, other.job), (Severity::Info, None));
}

#[test]
fn several_lines_about_one_killed_process_are_one_finding_of_one_job() {
    let group = |path: &str| format!("oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg={path},task=python3,pid=9001,uid=0");
    let killed = "Memory cgroup out of memory: Killed process 9001 (python3) total-vm:1kB";
    let mut node = Node::with_job();
    node.kernel(&[&group("/slurm/job_7"), killed]);
    assert_eq!(node.lines(), ["rank-oom-killed [pid 9001] error [] [] 2100 x1"]);
    assert_eq!(node.only().confidence, Confidence::Likely);
    let mut node = Node::with_job();
    node.kernel(&[&group("/user.slice/somebody"), killed]);
    assert_eq!(node.lines(), ["rank-oom-killed [pid 9001] warning [] [] - x1"], "the group says that it is another's");
    let mut node = Node::with_job();
    node.kernel(&["python3[9001]: segfault at 0 ip 00007f sp 0 error 4 in libc.so.6"]);
    assert_eq!(node.lines(), ["rank-exited [pid 9001] info [] [] - x1"], "a name alone is little");
    node.kernel(&["python3[2203]: segfault at 0 ip 00007f sp 0 error 4 in libnccl.so.2"]);
    assert_eq!(node.lines()[0], "rank-exited [pid 2203] error [3] [3] 2100 x1");
}

#[test]
fn an_xid_explains_what_a_program_said_a_moment_before() {
    let mut node = Node::with_job();
    let logs = vec![ProcessLog { via: LogVia::Stderr, path: "/l/7".into(), inode: Some(7), device: Some(1) }];
    let info = node.session.model.processes[&(PID + 2)].info.clone();
    node.sees("procs", Body::Process(ProcessInfo { logs, ..info }));
    let file = LogFileInfo { file: 1, path: "/l/7".into(), inode: Some(7), device: Some(1), ..Default::default() };
    node.sees("tail", Body::LogFile(file));
    node.ticks(1);
    let text = "[rank2]: torch.AcceleratorError: CUDA error: unspecified launch failure";
    let lines = ["[rank2]: Traceback (most recent call last):", "[rank2]:   File \"t.py\", line 9, in main", text, "x"];
    let lines = lines.iter().map(|t| Line { text: (*t).into(), ..Default::default() }).collect();
    node.sees("tail", Body::Lines(Lines { file: 1, lines, ..Default::default() }));
    node.ticks(2);
    assert_eq!(node.session.state().0, State::Failed, "{:?}", node.lines());
    node.kernel(&[XID_79]);
    assert!(node.session.state().1.contains("Xid 79"), "{:?}", node.session.state());
}

#[test]
fn what_was_said_before_the_job_began_blames_nobody() {
    let mut node = Node::with_job();
    node.backlog(&[(900, XID_79), (10, "mlx5_core 0000:0c:00.0 ens1np0: Link down"), (20, "systemd: hello")]);
    assert!(node.lines().iter().all(|l| l.contains(" info ") && l.contains(" - ")), "{:?}", node.lines());
    assert_eq!(node.lines()[0], "gpu-lost [before: GPU 2] info [2] [] - x1");
    assert_eq!(node.open()[0].since, node.open()[0].opened_at.minus(Duration::from_secs(1101)));
    assert_ne!(node.session.state().0, State::Failed);
}

#[test]
fn what_was_said_while_the_job_ran_is_its() {
    let mut node = Node::with_job();
    node.backlog(&[(1500, XID_79)]);
    assert_eq!(node.lines(), ["gpu-lost [GPU 2] critical [2] [2] 2100 x1"]);
    assert_eq!(node.at().secs_since(node.only().since), 501.0);
}

#[test]
fn what_was_said_before_the_job_and_still_holds_is_told_in_full() {
    let mut node = Node::with_job();
    let trouble = GpuTrouble { kind: GpuTroubleKind::Lost, detail: "nvmlDeviceGetUtilizationRates: GPU is lost".into() };
    node.sees("nvml", Body::Gpus { gpus: vec![GpuSample { index: 2, trouble: Some(trouble), ..Default::default() }] });
    node.backlog(&[(900, XID_79)]);
    assert_eq!(node.lines(), ["gpu-lost [GPU 2] critical [2] [2] 2100 x1"]);
    let kinds: Vec<&str> = node.only().evidence.iter().map(|e| e.kind).collect();
    assert_eq!(kinds, ["kernel", "gpu"], "one finding, with what each proves");
}

#[test]
fn an_old_xid_of_a_program_is_not_why_the_gpu_needs_a_reset_today() {
    let mut node = Node::with_job();
    let health = GpuHealth { index: 2, recovery_action: Some(1), ..Default::default() };
    node.sees("nvml", Body::GpuHealth { gpus: vec![health] });
    let line = |s: u64| KernelLine {
        level: 3,
        uptime_us: Some(s * 1_000_000),
        text: "NVRM: Xid (PCI:0000:3b:00): 62, pid=1, x".into(),
        backlog: true,
    };
    node.sees("kmsg", Body::Kernel { lines: vec![line(100)], uptime_us: Some(90_000 * 1_000_000) });
    node.ticks(1);
    assert_eq!(node.lines(), ["gpu-ecc [GPU 2 recovery] warning [2] [2] 2100 x1"]);
    node.sees("kmsg", Body::Kernel { lines: vec![line(900)], uptime_us: Some(SEEN_AT_US) });
    node.ticks(1);
    assert_eq!(node.lines()[0], "gpu-xid [GPU 2 Xid 62] error [2] [2] 2100 x1");
    assert!(node.open()[0].why.ends_with("it was reported before the job began, and still holds"));
}

#[test]
fn a_lost_gpu_is_one_finding_whoever_tells_it_first() {
    let mut node = Node::with_job();
    let trouble = GpuTrouble { kind: GpuTroubleKind::Lost, detail: "nvmlDeviceGetUtilizationRates: GPU is lost".into() };
    node.sees("nvml", Body::Gpus { gpus: vec![GpuSample { index: 2, trouble: Some(trouble), ..Default::default() }] });
    node.ticks(2);
    assert_eq!(node.lines(), ["gpu-lost [GPU 2] critical [2] [2] 2100 x1"]);
    assert_eq!(node.only().summary, "GPU 2 (0000:3b:00.0), rank 2 is lost: it fell off the bus");
    node.kernel(&[XID_79]);
    node.event(2, 0x8, 79);
    node.ticks(5);
    assert_eq!(node.lines(), ["gpu-lost [GPU 2] critical [2] [2] 2100 x1"]);
    let mut kinds: Vec<&str> = node.only().evidence.iter().map(|e| e.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["event", "gpu", "kernel"]);
    // Its process ends; the finding stays one, and the job's.
    node.sees("procs", Body::ProcessGone(ProcessGone { pid: 2202, start_ticks: BEGAN_TICKS, ..Default::default() }));
    node.ticks(90);
    assert_eq!(node.lines().iter().filter(|l| l.starts_with("gpu-lost")).count(), 1, "{:?}", node.lines());
}

#[test]
fn an_event_and_the_kernels_line_are_one_finding_in_either_order() {
    for event_first in [true, false] {
        let mut node = Node::with_job();
        let line = "NVRM: Xid (PCI:0000:3b:00): 48, pid=2202, name=python3, DBE at 0x1";
        if event_first {
            node.event(2, 0x8, 48);
            node.ticks(1);
            assert!(node.lines().is_empty(), "the kernel's own line is waited for");
        }
        node.kernel(&[line]);
        node.event(2, 0x8, 48);
        if event_first {
            node.kernel(&[line]);
        }
        node.ticks(4);
        let times = if event_first { 2 } else { 1 };
        assert_eq!(node.lines(), [format!("gpu-ecc [GPU 2 Xid 48] error [2] [2] 2100 x{times}")]);
        assert_eq!(node.only().evidence.iter().map(|e| e.kind).collect::<Vec<_>>(), ["kernel", "event"]);
    }
}

#[test]
fn without_the_kernels_log_the_event_alone_tells() {
    let mut node = Node::with_job();
    node.sees(
        "kmsg",
        Body::Source(SourceReport { state: SourceState::Denied, detail: Some("/dev/kmsg: operation not permitted".into()), title: None }),
    );
    node.event(3, 0x8, 94);
    node.event(3, 0x8, 94);
    node.event(1, 0x2, 0);
    node.event(0, 0x4000, 0);
    node.event(0, 0x10, 0);
    node.ticks(1);
    assert_eq!(
        node.lines(),
        [
            "gpu-ecc [GPU 1 Xid 48] error [1] [1] 2100 x1",
            "gpu-ecc [GPU 3 Xid 94] error [3] [3] 2100 x2",
            "gpu-xid [GPU 0 (0000:18:00.0), rank 0 unavailable] error [0] [0] 2100 x1",
        ]
    );
    assert!(node.open()[1].summary.starts_with("GPU 3 (10000:5d:00.0), rank 3: Xid 94"));
    assert!(node.open()[1].evidence[0].text.contains("0x8"));
}

#[test]
fn an_xid_without_the_gpus_number_is_told_all_the_same() {
    let mut node = Node::with_job();
    node.sees("events", Body::GpuEvents { events: vec![GpuEvent { index: None, event_bits: 0x8, data: 79, mig_instance: None }] });
    node.ticks(5);
    assert_eq!(node.lines(), ["gpu-lost [a GPU] critical [] [] - x1"]);
}

#[test]
fn without_gpus_lines_still_tell() {
    let mut node = Node::empty(&[("nvml", SourceState::Absent), ("procs", SourceState::Absent), ("kmsg", SourceState::Ok)]);
    node.kernel(&[XID_79]);
    assert!(node.lines().is_empty(), "who is there is not known yet");
    node.ticks(5);
    assert_eq!(node.lines(), ["gpu-lost [PCI:0000:3b:00] critical [] [] - x1"]);
}

#[test]
fn a_job_that_goes_on_after_an_xid_has_not_failed_and_the_fault_stays() {
    let mut node = Node::with_job();
    let work = |node: &mut Node, s: usize, util| {
        for _ in 0..s {
            let sample = |index| GpuSample {
                index,
                util_pct: Some(util),
                mem_util_pct: Some(util / 2),
                power_mw: Some(600_000),
                ..Default::default()
            };
            node.sees("nvml", Body::Gpus { gpus: (0..4).map(sample).collect() });
            node.ticks(1);
        }
    };
    work(&mut node, 60, 98);
    node.kernel(&["NVRM: Xid (PCI:0000:3b:00): 74, pid=2202, name=python3, NVLink: fatal error detected on link 5"]);
    work(&mut node, 30, 98);
    assert_eq!(node.lines(), ["nvlink-down [GPU 2 Xid 74] error [2] [2] 2100 x1"]);
    assert_ne!(node.session.state().0, State::Failed);
    node.kernel(&["NVRM: Xid (PCI:0000:3b:00): 74, pid=2202, name=python3, NVLink: fatal error detected on link 5"]);
    work(&mut node, 70, 0);
    assert_eq!(node.session.state().0, State::Failed, "{:?}", node.session.state());
}

#[test]
fn a_card_is_named_by_its_port_and_a_link_that_is_up_again_is_over() {
    let mut node = Node::with_job();
    let info = PortInfo { device: "mlx5_3".into(), port: 1, bus_id: Some("0000:0c:00.0".into()), ..Default::default() };
    node.sees("rdma", Body::PortInfo(info));
    node.kernel(&["mlx5_core 0000:0c:00.0 ens1np0: Link down"]);
    let f = node.only();
    assert_eq!((f.rule, f.ports.clone(), f.job.clone()), ("nic-down", vec!["mlx5_3/1".to_owned()], None));
    node.ticks(5);
    assert!(node.lines().is_empty(), "{:?}", node.lines());
    node.kernel(&["mlx5_core 0000:0c:00.0: temp_warn: High temperature on sensors with bit set 0x1"]);
    node.ticks(60);
    assert_eq!(node.lines(), ["nic-down [mlx5_3/1 mlx5-temperature] warning [] [] - x1"]);
}

#[test]
fn what_is_no_fault_is_no_finding() {
    let mut node = Node::with_job();
    node.kernel(&[
        "mlx5_core 0000:0c:00.0 ens1np0: Link up",
        "nvidia-uvm: Loaded the UVM driver, major device number 510.",
        "pcieport 0000:15:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        "",
    ]);
    node.ticks(3);
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
fn health_that_nobody_watches_changes_nothing() {
    let mut node = Node::with_job();
    node.sees("nvml", Body::GpuHealth { gpus: vec![GpuHealth { index: 1, ecc_uncorrected_volatile: Some(9), ..Default::default() }] });
    node.ticks(5);
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}
