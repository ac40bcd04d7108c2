//! Rules on what NVML's counters do, on the same node.

use crate::host_fault_rules::{BEGAN_TICKS, Node, PID};
use nccl_top::base::severity::{Confidence, Severity};
use nccl_top::diagnosis::session::Event;
use nccl_top::observe::Body;
use nccl_top::observe::gpu::{GpuHealth, GpuInfo, GpuSample, NvLink, NvLinks};
use nccl_top::observe::host::HostSample;
use nccl_top::observe::process::ProcessGone;
use nccl_top::rules::findings::Change;

fn healthy(index: u32) -> GpuHealth {
    GpuHealth {
        index,
        ecc_uncorrected_volatile: Some(0),
        ecc_uncorrected_aggregate: Some(0),
        remap_pending: Some(false),
        remap_failed: Some(false),
        recovery_action: Some(0),
        pcie_gen: Some(5),
        pcie_gen_max: Some(5),
        pcie_width: Some(16),
        pcie_width_max: Some(16),
        pcie_replays: Some(3),
        nvlink_states: vec![Some(1); 18],
        nvlink_replays: Some(0),
        nvlink_recoveries: Some(0),
        nvlink_crc_errors: Some(4),
        ..Default::default()
    }
}

/// A look at the health of all, GPU 2 as told, and 15 s.
fn look(node: &mut Node, of_two: &GpuHealth) {
    let gpus = (0..4).map(|i| if i == 2 { GpuHealth { index: 2, ..of_two.clone() } } else { healthy(i) }).collect();
    node.sees("nvml", Body::GpuHealth { gpus });
    node.ticks(15);
}

fn works(node: &mut Node, seconds: usize, of: impl Fn(u32) -> GpuSample) {
    for _ in 0..seconds {
        let sample = |index| {
            let told = of(index);
            let mem_util_pct = told.mem_util_pct.or(Some(40));
            GpuSample { index, util_pct: Some(98), mem_util_pct, power_mw: Some(300_000), ..told }
        };
        node.sees("nvml", Body::Gpus { gpus: (0..4).map(sample).collect() });
        node.ticks(1);
    }
}

fn at_1755(index: u32, mhz: u32, bits: u64) -> GpuSample {
    match index {
        2 => GpuSample { sm_clock_mhz: Some(mhz), throttle_bits: Some(bits), temp_c: Some(88), ..Default::default() },
        _ => GpuSample { sm_clock_mhz: Some(1755 - index), throttle_bits: Some(0), temp_c: Some(60), ..Default::default() },
    }
}

#[test]
fn errors_that_come_while_watched_are_told_those_from_before_are_not() {
    let mut node = Node::with_job();
    let old = GpuHealth { ecc_uncorrected_volatile: Some(7), ..healthy(2) };
    look(&mut node, &old);
    look(&mut node, &old);
    assert!(node.lines().is_empty(), "{:?}", node.lines());
    look(&mut node, &GpuHealth { ecc_uncorrected_volatile: Some(8), ecc_uncorrected_aggregate: Some(9), ..healthy(2) });
    assert_eq!(node.lines(), ["gpu-ecc [GPU 2 uncorrected] error [2] [2] 2100 x1"]);
    let found = node.only().clone();
    assert_eq!(found.summary, "GPU 2 (0000:3b:00.0), rank 2: an uncorrectable memory error");
    assert_eq!(found.evidence[0].text, "uncorrected ECC errors since the driver was loaded: 7 -> 8, 9 in its lifetime");
    assert_eq!(node.at().secs_since(found.since), 15.0);
    look(&mut node, &GpuHealth { ecc_uncorrected_volatile: Some(12), ..healthy(2) });
    assert!(node.only().summary.contains("5 uncorrectable memory errors"), "it is described as it is now: {}", node.only().summary);
}

#[test]
fn a_counter_and_the_xid_that_tells_of_it_are_one_finding() {
    let mut node = Node::with_job();
    look(&mut node, &healthy(2));
    node.kernel(&["NVRM: Xid (PCI:0000:3b:00): 48, pid=2202, name=python3, DBE at 0x1"]);
    look(&mut node, &GpuHealth { ecc_uncorrected_volatile: Some(1), ..healthy(2) });
    assert_eq!(node.lines(), ["gpu-ecc [GPU 2 Xid 48] error [2] [2] 2100 x1"]);
    assert!(node.only().summary.contains("Xid 48"));
    assert_eq!(node.only().evidence.iter().map(|e| e.kind).collect::<Vec<_>>(), ["kernel", "counter"]);
}

#[test]
fn rows_and_the_recovery_action() {
    let mut node = Node::with_job();
    look(&mut node, &GpuHealth { remap_pending: Some(true), ..healthy(2) });
    assert_eq!(node.lines(), ["gpu-ecc [GPU 2 rows] info [2] [2] 2100 x1"], "it was so at the start");
    look(&mut node, &GpuHealth { remap_pending: Some(true), remap_failed: Some(true), recovery_action: Some(1), ..healthy(2) });
    assert_eq!(node.lines(), ["gpu-ecc [GPU 2 rows] error [2] [2] 2100 x1", "gpu-ecc [GPU 2 recovery] error [2] [2] 2100 x1"]);
    let told = node.events.iter().filter(|e| matches!(e, Event::Finding(Change::Opened(_)))).count();
    assert_eq!(told, 3, "what became worse is told again");
    assert_eq!(node.open()[1].summary, "GPU 2 (0000:3b:00.0), rank 2 needs a reset of the GPU, says the driver");
    look(&mut node, &healthy(2));
    look(&mut node, &healthy(2));
    look(&mut node, &healthy(2));
    assert!(node.lines().is_empty(), "after a reset: {:?}", node.lines());
}

#[test]
fn a_link_that_goes_down_is_named() {
    let mut node = Node::with_job();
    look(&mut node, &healthy(2));
    let mut down = healthy(2);
    for no in [3, 4, 5, 9] {
        down.nvlink_states[no] = Some(0);
    }
    look(&mut node, &down);
    assert!(node.lines().is_empty(), "one look is none: {:?}", node.lines());
    look(&mut node, &down);
    assert_eq!(node.lines(), ["nvlink-down [GPU 2 links] error [2] [2] 2100 x1"]);
    let found = node.only();
    assert_eq!(found.summary, "GPU 2 (0000:3b:00.0), rank 2: NVLink 3-5, 9 down, 14 of 18 active");
    assert_eq!(found.why, "4 went down while watched, for 30 s now");
    look(&mut node, &healthy(2));
    look(&mut node, &healthy(2));
    look(&mut node, &healthy(2));
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
fn a_link_that_is_down_from_the_start_is_wrong_only_beside_others() {
    let mut node = Node::with_job();
    let mut down = healthy(2);
    down.nvlink_states[17] = Some(0);
    look(&mut node, &down);
    look(&mut node, &down);
    assert_eq!(node.lines(), ["nvlink-down [GPU 2 links] error [2] [2] 2100 x1"]);
    assert!(node.only().why.starts_with("off since nccl-top began"), "{}", node.only().why);
    // Two bridged pairs would be one thing; here only GPUs 0 and 1 are bridged.
    let mut node = Node::with_job();
    let bridged = |index: u32| GpuHealth { nvlink_states: vec![Some(u32::from(index < 2)); 4], ..healthy(index) };
    node.sees("nvml", Body::GpuHealth { gpus: (0..4).map(bridged).collect() });
    node.ticks(40);
    assert!(node.lines().is_empty(), "{:?}", node.lines());
    // Links that sleep, and those of a partitioned GPU.
    let mut node = Node::with_job();
    look(&mut node, &GpuHealth { nvlink_states: vec![Some(2); 18], ..healthy(2) });
    node.sees("nvml", Body::GpuInfo(GpuInfo { index: 2, mig: Some(true), ..Default::default() }));
    look(&mut node, &GpuHealth { nvlink_states: vec![Some(0); 18], ..healthy(2) });
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
fn an_xid_74_and_the_link_that_is_down_are_one_finding() {
    let mut node = Node::with_job();
    look(&mut node, &healthy(2));
    node.kernel(&["NVRM: Xid (PCI:0000:3b:00): 74, pid=2202, name=python3, NVLink: fatal error detected on link 5"]);
    let mut down = healthy(2);
    down.nvlink_states[5] = Some(0);
    look(&mut node, &down);
    assert_eq!(node.lines(), ["nvlink-down [GPU 2 Xid 74] error [2] [2] 2100 x1"]);
    assert_eq!(node.only().evidence[1].text, "NVML field 165, state of link 5: 1 -> 0");
}

#[test]
fn link_errors_count_when_they_rise_look_after_look() {
    let mut node = Node::with_job();
    for errors in [4, 4, 5, 6, 7] {
        look(&mut node, &GpuHealth { nvlink_crc_errors: Some(errors), ..healthy(2) });
        node.ticks(30);
    }
    assert!(node.lines().is_empty(), "{:?}", node.lines());
    for errors in [107, 207, 307] {
        look(&mut node, &GpuHealth { nvlink_crc_errors: Some(errors), pcie_replays: Some(errors), ..healthy(2) });
        node.ticks(30);
    }
    assert_eq!(
        node.lines(),
        ["nvlink-errors [GPU 2 errors] warning [2] [2] 2100 x1", "pcie-degraded [GPU 2 PCIe] warning [2] [2] 2100 x1"]
    );
    let found = node.open()[0];
    assert!(found.summary.contains("CRC errors a minute") && found.evidence[0].text == "NVLink CRC errors: 4 -> 307", "{found:?}");
    for _ in 0..6 {
        look(&mut node, &GpuHealth { nvlink_crc_errors: Some(307), pcie_replays: Some(307), ..healthy(2) });
        node.ticks(30);
    }
    assert!(node.lines().is_empty(), "it is over: {:?}", node.lines());
}

fn links(errors_of_5: u64, recoveries_of_5: u64) -> NvLinks {
    let mut links = vec![NvLink { replays: Some(7), recoveries: Some(0), crc_errors: Some(4), ..Default::default() }; 18];
    (links[5].crc_errors, links[5].recoveries) = (Some(errors_of_5), Some(recoveries_of_5));
    NvLinks { index: 2, links, c2c: None }
}

#[test]
fn the_link_that_counts_is_named() {
    let mut node = Node::with_job();
    for errors in [4, 4, 104, 204, 304] {
        look(&mut node, &GpuHealth { nvlink_crc_errors: Some(errors), ..healthy(2) });
        node.sees("nvml", Body::Nvlinks(links(errors, 0)));
        node.ticks(30);
    }
    let found = node.open()[0];
    assert!(found.summary.contains("NVLink 5 counts ") && found.summary.ends_with("CRC errors a minute"), "{}", found.summary);
    assert_eq!(found.evidence[1].text, "link 5: CRC errors 4 -> 304");
}

#[test]
fn recoveries_that_come_again_and_again_over_hours_are_found() {
    let mut node = Node::with_job();
    let mut recoveries = 2;
    let mut hours = |node: &mut Node, hours: usize, rises: u64| {
        for hour in 0..hours {
            recoveries += u64::from(hour > 0) * rises;
            node.sees("nvml", Body::Nvlinks(links(4, recoveries)));
            for _ in 0..4 {
                look(node, &GpuHealth { nvlink_recoveries: Some(recoveries), ..healthy(2) });
                node.ticks(900 - 15);
            }
        }
    };
    hours(&mut node, 3, 1);
    assert!(node.lines().is_empty(), "twice is no habit: {:?}", node.lines());
    hours(&mut node, 2, 1);
    assert_eq!(node.lines(), ["nvlink-errors [GPU 2 errors] warning [2] [2] 2100 x1"]);
    let found = node.open()[0];
    assert!(found.summary.contains("NVLink 5 had to recover 3 times in "), "{}", found.summary);
    assert_eq!(found.evidence[0].text, "NVLink recoveries: 2 -> 5");
}

#[test]
fn a_link_that_was_trained_again_once_is_no_habit() {
    let mut node = Node::with_job();
    for recoveries in [0, 3, 6, 9, 9, 9, 9] {
        look(&mut node, &GpuHealth { nvlink_recoveries: Some(recoveries), ..healthy(2) });
        node.ticks(30);
    }
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
fn a_narrow_or_slow_pcie_link_is_told_where_the_others_have_more() {
    let mut node = Node::with_job();
    look(&mut node, &GpuHealth { pcie_width: Some(8), pcie_gen: Some(1), ..healthy(2) });
    assert_eq!(node.lines(), ["pcie-degraded [GPU 2 PCIe] warning [2] [2] 2100 x1"]);
    assert_eq!(node.only().summary, "GPU 2 (0000:3b:00.0), rank 2: PCIe x8 instead of x16", "at rest any generation is well");
    let mut node = Node::with_job();
    works(&mut node, 5, |i| at_1755(i, 1755, 0));
    look(&mut node, &GpuHealth { pcie_gen: Some(3), ..healthy(2) });
    assert_eq!(node.only().summary, "GPU 2 (0000:3b:00.0), rank 2: PCIe generation 3 instead of 5 at work");
    assert_eq!(node.only().evidence[0].text, "link generation 3 of 5 at work, others 5");
    works(&mut node, 5, |i| at_1755(i, 1755, 0));
    look(&mut node, &healthy(2));
    node.ticks(40);
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
fn a_link_that_is_the_same_everywhere_is_the_machines_design() {
    let mut node = Node::with_job();
    let virtual_machine = |index| GpuHealth { pcie_width: Some(8), pcie_gen: Some(3), ..healthy(index) };
    works(&mut node, 5, |i| at_1755(i, 1755, 0));
    for _ in 0..3 {
        node.sees("nvml", Body::GpuHealth { gpus: (0..4).map(virtual_machine).collect() });
        node.ticks(15);
    }
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
fn a_gpu_below_its_siblings_makes_the_job_slower_and_says_why() {
    let mut node = Node::with_job();
    works(&mut node, 40, |i| at_1755(i, 1230, 0x40));
    assert_eq!(node.lines(), ["gpu-throttled [GPU 2] warning [2] [2] 2100 x1"]);
    let found = node.only();
    assert_eq!(found.summary, "GPU 2 (0000:3b:00.0), rank 2 runs at 1230 MHz, the others at 1754: HW thermal slowdown, 88 °C");
    assert!(found.why.starts_with("30 % below them at the same work: it makes the job slower"), "{}", found.why);
    assert!(found.evidence[0].text.contains("0x40") && found.evidence[0].text.contains("median of 3 others 1754 MHz"), "{found:?}");
    works(&mut node, 40, |i| at_1755(i, 1755, 0));
    assert!(node.lines().is_empty(), "{:?}", node.lines());
}

#[test]
fn a_power_cap_is_information_at_most() {
    let mut node = Node::with_job();
    works(&mut node, 40, |i| at_1755(i, 1700, 0x4));
    assert!(node.lines().is_empty(), "{:?}", node.lines());
    works(&mut node, 40, |i| at_1755(i, 1400, 0x4));
    assert_eq!(node.lines(), ["gpu-throttled [GPU 2] info [2] [2] 2100 x1"]);
    assert!(node.only().summary.ends_with("power cap, 88 °C"), "{}", node.only().summary);
    assert!(
        node.only().why.ends_with("slower only where all have the same") && !node.only().why.contains("it makes"),
        "{}",
        node.only().why
    );
    // Under load it comes and goes.
    let mut told = std::collections::BTreeSet::new();
    for bits in [0x4, 0, 0, 0x4, 0, 0, 0, 0x4].repeat(5) {
        works(&mut node, 1, |i| at_1755(i, 1400, bits));
        told.extend(node.lines());
    }
    assert_eq!(told.into_iter().collect::<Vec<_>>(), ["gpu-throttled [GPU 2] info [2] [2] 2100 x1"]);
    // One that waits runs at any clock.
    let mut node = Node::with_job();
    works(&mut node, 40, |i| match i {
        1 => GpuSample { mem_util_pct: Some(0), ..at_1755(i, 0, 0) },
        _ => at_1755(i, 1400, 0),
    });
    assert!(node.lines().iter().all(|l| !l.starts_with("gpu-throttled")), "{:?}", node.lines());
}

#[test]
fn heat_that_the_driver_answers_without_a_cost_is_information() {
    let mut node = Node::with_job();
    works(&mut node, 20, |i| at_1755(i, 1755, 0));
    works(&mut node, 20, |i| at_1755(i, 1710, 0x20));
    assert_eq!(node.lines(), ["gpu-throttled [GPU 2] info [2] [2] 2100 x1"], "2 % below is nothing");
    assert!(node.only().why.ends_with("neither clock nor steps show that it costs anything"), "{}", node.only().why);
    // All of them at once: nobody is below the others, and each is below itself.
    let mut node = Node::with_job();
    let all = |mhz, bits| move |_| GpuSample { sm_clock_mhz: Some(mhz), throttle_bits: Some(bits), temp_c: Some(86), ..Default::default() };
    works(&mut node, 20, all(1755, 0));
    works(&mut node, 20, all(1300, 0x20));
    let lines = node.lines();
    assert!(lines.len() == 4 && lines.iter().all(|l| l.contains(" warning ")), "{lines:?}");
}

#[test]
fn a_count_of_killed_processes_makes_a_vanished_rank_possible_to_explain() {
    let mut node = Node::with_job();
    let host = |kills| Body::Host(HostSample { oom_kills: Some(kills), ..Default::default() });
    node.sees("host", host(3));
    node.ticks(10);
    let gone = |rank, exit_code| Body::ProcessGone(ProcessGone { pid: PID + rank, start_ticks: BEGAN_TICKS, exit_code });
    node.sees("procs", gone(1, None));
    node.sees("procs", gone(3, Some(1)));
    node.ticks(2);
    assert!(node.lines().iter().all(|l| !l.starts_with("rank-oom-killed")), "{:?}", node.lines());
    node.sees("host", host(4));
    node.ticks(2);
    let open: Vec<_> = node.open().into_iter().filter(|f| f.rule == "rank-oom-killed").cloned().collect();
    assert_eq!(open.len(), 1, "who ended with a code was not killed");
    let f = &open[0];
    assert_eq!((f.ranks.clone(), f.severity, f.confidence), (vec![1], Severity::Warning, Confidence::Possible));
    assert_eq!(f.evidence[0].text, "oom_kill 3 -> 4");
}
