//! Errors of a GPU that follow from one another are one finding with its consequences: in a log that is checked, and live.

use super::host_fault_rules::Node;
use nccl_top::archive::check;
use nccl_top::base::time::Zone;
use nccl_top::rules::findings::Finding;
use nccl_top::rules::rule;

/// What `check` makes of files: role, severity, what it is called, and the ranks.
fn judged(files: &[(&str, &str)]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<String> = files
        .iter()
        .map(|(name, text)| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        })
        .collect();
    let report = check(&paths, Zone::UTC, &mut |_, _| ());
    report.findings.iter().map(in_short).collect()
}

fn in_short(f: &Finding) -> String {
    format!("{} {} {} {:?}", f.role.as_str(), f.severity.as_str(), f.signature.unwrap_or(f.rule), f.ranks)
}

/// What stands open in a live session, causes first.
fn live(node: &Node) -> Vec<String> {
    node.open().into_iter().filter(|f| f.rule != "source-trouble").map(in_short).collect()
}

/// Halt of the micro-controller, page fault, channels, advice.
const PMU: &str = "\
[Mon Nov 17 10:00:01 2025] NVRM: Xid (PCI:0000:18:00): 62, pid='<unknown>', name=<unknown>, 2028(2a44) 00000000 00000000
[Mon Nov 17 10:00:01 2025] NVRM: Xid (PCI:0000:18:00): 31, pid=2201, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f7e_4c000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ
[Mon Nov 17 10:00:02 2025] NVRM: Xid (PCI:0000:18:00): 43, pid=2201, name=python3, Ch 00000008
[Mon Nov 17 10:00:02 2025] NVRM: Xid (PCI:0000:18:00): 45, pid=2201, name=python3, Ch 00000009
[Mon Nov 17 10:00:30 2025] NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
";

const TRAINING: &str = "\
2025-11-17 09:59:40 node1:2201:2201 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 18000 commId 0x1234 - Init COMPLETE
2025-11-17 09:59:40 node1:2202:2202 [1] NCCL INFO ncclCommInitRank comm 0x55d0 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 2a000 commId 0x1234 - Init COMPLETE
2025-11-17 09:59:50 step 10 loss 2.0
2025-11-17 09:59:55 step 11 loss 2.0
2025-11-17 10:00:00 [rank0]: Traceback (most recent call last):
2025-11-17 10:00:00 [rank0]:   File \"train.py\", line 10, in <module>
2025-11-17 10:00:00 [rank0]: torch.AcceleratorError: CUDA error: unspecified launch failure
2025-11-17 10:00:05 node1:2202:2301 [1] NCCL WARN socketProgress: Connection closed by remote peer node1<40000>
";

#[test]
fn the_first_error_of_a_gpu_is_the_cause_and_a_ranks_exception_follows() {
    let expected = [
        "root error xid-62 [0]",
        "cascade error cuda-launch-failure [0]",
        "cascade error xid-31 [0]",
        "cascade error xid-154-gpu-reset [0]",
        "cascade error sock-peer-closed [1]",
        "cascade warning xid-43 [0]",
        "cascade info xid-45 [0]",
    ];
    let mut found = judged(&[("dmesg.log", PMU), ("train.log", TRAINING)]);
    assert_eq!(found[0], expected[0], "its clock has whole seconds, and is not that of the program");
    found.sort();
    let mut sorted = expected;
    sorted.sort_unstable();
    assert_eq!(found, sorted);
    // In one file, as a job's epilog puts them together.
    assert_eq!(judged(&[("all.log", &format!("{TRAINING}{PMU}"))])[0], expected[0]);
    // Without times the process is what joins them.
    let untimed = PMU.replace("[Mon Nov 17 10:00:01 2025]", "[93291.027938]").replace("[Mon Nov 17 10:00:02 2025]", "[93292.103000]");
    let untimed = untimed.replace("[Mon Nov 17 10:00:30 2025]", "[93320.000001]").replace("62, pid='<unknown>'", "62, pid=2201");
    assert_eq!(judged(&[("dmesg.log", &untimed), ("train.log", TRAINING)])[0], expected[0]);
}

#[test]
fn errors_of_other_gpus_nodes_and_days_are_roots_of_their_own() {
    let gsp = "\
[Mon Nov 17 10:01:30 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=4071838, name=python, Timeout after 45s of waiting for RPC response from GPU4 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801702 0x4).
[Mon Nov 17 10:01:36 2025] NVRM: Xid (PCI:0000:9b:00): 119, pid=28232, name=cache_mgr_main, Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20810108 0x3e0).
[Mon Nov 17 10:01:40 2025] NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[Mon Nov 17 10:01:41 2025] NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
";
    let roots = |files: &[(&str, &str)]| -> Vec<String> {
        judged(files).into_iter().filter(|f| f.starts_with("root") && !f.contains("several-runs")).collect()
    };
    assert_eq!(roots(&[("dmesg.log", &format!("{PMU}{gsp}"))]), ["root error xid-62 []", "root error xid-119 []"]);
    let later = gsp.replace("9b:00", "18:00").replace("Nov 17", "Nov 19").replace("Mon", "Wed");
    assert_eq!(roots(&[("dmesg.log", &format!("{PMU}{later}"))]), ["root error xid-62 []", "root error xid-119 []"]);
    let days_of_uptime = "\
[93291.027938] NVRM: Xid (PCI:0000:18:00): 48, pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU
[932910.027938] NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
";
    assert_eq!(roots(&[("dmesg.log", days_of_uptime)]), ["root error xid-48 []", "root critical xid-79 []"]);
    let node = |name: &str, text: &str| text.replace("[Mon Nov 17 ", "Nov 17 ").replace(" 2025] ", &format!(" {name} kernel: "));
    let other = node("node-2", &gsp.replace("9b:00", "18:00"));
    let both = [("a.log", node("node-1", PMU)), ("b.log", other)];
    assert_eq!(roots(&both.each_ref().map(|(name, text)| (*name, text.as_str()))), ["root error xid-62 []", "root error xid-119 []"]);
}

#[test]
fn a_gpu_that_is_no_ranks_is_not_why_a_rank_fails() {
    let other = PMU.replace("18:00", "9b:00").replace("2201", "99");
    let found = judged(&[("dmesg.log", &other), ("train.log", TRAINING)]);
    assert_eq!(found[0], "root error cuda-launch-failure [0]");
    let xids: Vec<&String> = found.iter().filter(|f| f.contains("xid-")).collect();
    assert!(xids.len() == 5 && xids.iter().all(|f| f.starts_with("context")), "{found:?}");
}

#[test]
fn memory_errors_are_one_finding_with_the_rows_and_the_advice() {
    let contained = "\
Aug  9 13:32:55 node4 kernel: NVRM: Xid (PCI:0000:00:08): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate.
Aug  9 13:32:56 node4 kernel: NVRM: Xid (PCI:0000:00:08): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No
Aug  9 13:32:57 node4 kernel: NVRM: Xid (PCI:0000:00:08): 45, pid=4001, name=python3, Ch 00000009
Aug  9 13:32:58 node4 kernel: NVRM: Xid (PCI:0000:00:08): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)
";
    assert_eq!(
        judged(&[("messages", contained)]),
        ["root error xid-94 []", "cascade error xid-154-gpu-reset []", "cascade warning xid-63 []", "cascade info xid-45 []"]
    );
    let double = "\
[  811.402111] NVRM: Xid (PCI:0000:3b:00): 48, pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error
[  811.402305] NVRM: Xid (PCI:0000:3b:00): 63, pid=12, name=python3, Row Remapper: New row (0x0000000003200040) marked for remapping, reset gpu to activate.
[  811.422305] NVRM: Xid (PCI:0000:3b:00): 64, pid=12, name=python3, Row Remapper: Error marking row for remapping
[  812.000001] NVRM: Xid (PCI:0000:3b:00): 95, pid='<unknown>', name=<unknown>, Uncontained: FBHUB. RST: Yes, D-RST: No
";
    let found = judged(&[("dmesg", double)]);
    assert_eq!((found[0].as_str(), found.iter().filter(|f| f.starts_with("root")).count()), ("root error xid-48 []", 1), "{found:?}");
}

#[test]
fn an_error_of_a_link_is_seen_from_both_ends() {
    let links = "\
kernel: NVRM: Xid (PCI:0000:66:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001 0x00000000)
kernel: NVRM: Xid (PCI:0000:66:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 13 (0x026001c6 0x00000000 0x00000000 0x00000000)
kernel: NVRM: Xid (PCI:0000:66:00): 45, pid=1818990, name=python3, Ch 00000001 caused by previous Xid 149
kernel: NVRM: Xid (PCI:0000:76:00): 145, RLW_REMAP Fatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x00000001 0x00000000)
kernel: NVRM: Xid (PCI:0000:76:00): 45, pid=1818992, name=python3, Ch 0000000c caused by previous Xid 145
kernel: NVRM: Xid (PCI:0000:66:00): 154, GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)
";
    let found = judged(&[("journal", links)]);
    assert_eq!((found[0].as_str(), found.iter().filter(|f| f.starts_with("root")).count()), ("root error xid-149 []", 1), "{found:?}");
    assert!(found.contains(&"cascade warning xid-145-nonfatal []".into()), "{found:?}");
    let lost = "\
[ 100.000001] NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
[ 100.200001] NVRM: Xid (PCI:0000:2a:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14(0x100000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)
[ 101.200001] NVRM: Xid (PCI:0000:3b:00): 13, Graphics SM Warp Exception on (GPC 1, TPC 0, SM 0): Illegal Instruction Encoding
";
    assert_eq!(judged(&[("dmesg", lost)]), ["root critical xid-79 []", "root error xid-13 []", "cascade error xid-74 []"]);
}

#[test]
fn live_it_is_the_same() {
    let mut node = Node::with_job();
    node.kernel(&["NVRM: Xid (PCI:0000:3b:00): 62, pid='<unknown>', name=<unknown>, 2028(2a44) 00000000 00000000"]);
    node.kernel(&[
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=2202, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
        "NVRM: Xid (PCI:0000:3b:00): 43, pid=2202, name=python3, Ch 00000008",
        "NVRM: Xid (PCI:0000:3b:00): 45, pid=2202, name=python3, Ch 00000009",
    ]);
    node.ticks(30);
    node.kernel(&[
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
        "NVRM: Xid (PCI:0000:18:00): 31, pid=2200, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
        "NVRM: Xid (PCI:0000:18:00): 43, pid=2200, name=python3, Ch 00000008",
    ]);
    let mut found = live(&node);
    assert_eq!(found[..2], ["root error xid-62 [2]", "root error xid-31 [0]"], "{found:?}");
    found.sort();
    assert_eq!(
        found,
        [
            "cascade error xid-154-gpu-reset [2]",
            "cascade error xid-31 [2]",
            "cascade info xid-45 [2]",
            "cascade warning xid-43 [0]",
            "cascade warning xid-43 [2]",
            "root error xid-31 [0]",
            "root error xid-62 [2]",
        ]
    );
}

#[test]
fn on_a_gpu_without_a_job_too() {
    let mut node = Node::with_job();
    for text in ["119, pid=1, name=x, Timeout after 6s of waiting for RPC response from GPU4 GSP!", "79, GPU has fallen off the bus."] {
        node.kernel(&[&format!("NVRM: Xid (PCI:0000:99:00): {text}")]);
    }
    let roles: Vec<&str> = node.open().iter().map(|f| f.role.as_str()).collect();
    assert_eq!(roles, ["root", "root"], "a GPU that is not seen is worth a warning, which nothing follows from");
    let mut node = Node::empty(&[]);
    node.ticks(20);
    for text in ["119, pid=1, name=x, Timeout after 6s of waiting for RPC response from GPU4 GSP!", "79, GPU has fallen off the bus."] {
        node.kernel(&[&format!("NVRM: Xid (PCI:0000:99:00): {text}")]);
    }
    let found = live(&node);
    assert_eq!(found, ["root error xid-119 []", "cascade critical xid-79 []"]);
    assert!(node.open().iter().all(|f| rule(f.rule).is_some() && f.job.is_none()));
}
