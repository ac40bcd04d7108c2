//! The kernel log: records of the device, copies in files, what of them is forwarded, and what is said where it cannot be read.

use nccl_top::observe::log::KernelLine;
use nccl_top::observe::{Body, SourceState};
use nccl_top::sources::kmsg::Kmsg;
use nccl_top::sources::{Complaint, Hint, Hints, Roots, Source, SourceError};
use proptest::prelude::*;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::time::Duration;
use tempfile::TempDir;

const XID: &str = "NVRM: Xid (PCI:0000:04:00): 79, pid=2201, name=python, GPU has fallen off the bus.";

fn lines_of(out: &[Body]) -> Vec<KernelLine> {
    let lines = |body: &Body| match body {
        Body::Kernel { lines, .. } => lines.clone(),
        _ => Vec::new(),
    };
    out.iter().flat_map(lines).collect()
}

fn source(dir: &TempDir) -> Kmsg {
    Kmsg::new(Roots::below(dir.path()), Duration::from_secs(1))
}

/// What a first poll tells of a log at this path.
fn told(path: &str, content: &[u8]) -> Vec<KernelLine> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
    let mut out = Vec::new();
    source(&dir).poll(&mut out).unwrap();
    lines_of(&out)
}

/// Of a regular file in the place of the device: it gives all in one read, as the device gives one record.
fn record(content: impl AsRef<[u8]>) -> Option<KernelLine> {
    told("dev/kmsg", content.as_ref()).pop()
}

fn copied(line: &str) -> KernelLine {
    told("var/log/kern.log", format!("{line}\n").as_bytes()).pop().unwrap()
}

fn is_forwarded(text: &str) -> bool {
    record(format!("6,1,2,-;{text}\n")).is_some()
}

#[test]
fn a_record_is_its_level_time_and_first_line() {
    let line = record(format!("11,1234,98765432,-;{XID}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:04:00.0\n")).unwrap();
    assert_eq!(line, KernelLine { level: 3, uptime_us: Some(98_765_432), text: XID.into(), backlog: true });
    let line = record("6,1,2,-,caller=T1;mlx5_core: a;b\n").unwrap();
    assert_eq!(line.text, "mlx5_core: a;b", "fields that later kernels add are skipped");
}

#[test]
fn what_is_no_record_is_none() {
    for bytes in ["", ";", "6,1,2,-", "a,1,2,-;NVRM", "6,,2,-;NVRM", "6,1;NVRM", "-1,1,2,-;NVRM", "6,1,99999999999999999999,-;NVRM"] {
        assert_eq!(record(bytes), None, "{bytes:?}");
    }
}

/// A pipe gives what was written piece by piece, as the device does.
fn pipe(dir: &TempDir) -> File {
    std::fs::create_dir(dir.path().join("dev")).unwrap();
    let path = dir.path().join("dev/kmsg");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn records_that_were_overwritten_are_counted_and_only_the_first_are_old() {
    let dir = tempfile::tempdir().unwrap();
    let mut device = pipe(&dir);
    let mut kmsg = source(&dir);
    let mut poll = |record: &str| {
        device.write_all(record.as_bytes()).unwrap();
        let mut out = Vec::new();
        kmsg.poll(&mut out).unwrap();
        (lines_of(&out).iter().map(|line| line.backlog).collect::<Vec<_>>(), kmsg.remark())
    };
    assert_eq!(poll("3,7,1,-;NVRM: one\n"), (vec![true], None));
    assert_eq!(poll("3,8,2,-;NVRM: two\n"), (vec![false], None));
    let lost = Some((SourceState::Ok, "3 kernel messages were overwritten before they were read".to_owned()));
    assert_eq!(poll("3,12,3,-;NVRM: three\n"), (vec![false], lost));
}

#[test]
fn lines_that_may_concern_a_job_are_forwarded() {
    for text in [
        XID,
        "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Non-fatal",
        "mlx5_core 0000:18:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        "efa 0000:10:1b.0: Failed to process command",
        "ena 0000:00:05.0 ens5: TX hasn't completed",
        "infiniband rdmap16s27: ib_query_port failed (-5)",
        "python invoked oom-killer: gfp_mask=0xcc0",
        "Memory cgroup out of memory: Killed process 2201 (python)",
        "Out of memory: Killed process 77 (pt_data_worker)",
        "INFO: task python:2201 blocked for more than 120 seconds.",
        "python[2201]: segfault at 0 ip 00007f",
        "pcieport 0000:00:01.0: AER: Corrected error message received",
        "{1}[Hardware Error]: Hardware error from APEI",
        "mce: [Hardware Error]: Machine check events logged",
        "bnxt_en 0000:86:00.0 eth2: NIC Link is Down",
        "ixgbe 0000:01:00.0 eno1: NIC Link is Up 10 Gbps",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0",
        "nfs: server 10.0.9.9 not responding, still trying",
        "watchdog: BUG: soft lockup - CPU#3 stuck for 22s!",
        "DMAR: [DMA Read NO_PASID] Request device [16:00.0] fault addr 0xfffa0000",
    ] {
        assert!(is_forwarded(text), "{text}");
    }
}

#[test]
fn other_lines_are_not_forwarded() {
    for text in [
        "systemd[1]: Started Update UTMP.",
        "no room left, feature enabled by header",
        "usb 1-1: new high-speed USB device",
        "audit: type=1400",
        "commence",
        "laser printer",
    ] {
        assert!(!is_forwarded(text), "{text}");
    }
}

#[test]
fn a_line_is_cut_at_4_kib() {
    let text = record(format!("3,1,2,-;NVRM {}", "é".repeat(5000))).unwrap().text;
    assert!(text.len() <= 4096 + 2 && text.starts_with("NVRM é"), "{}", text.len());
}

#[test]
fn copies_have_a_time_where_the_daemon_kept_it() {
    for (line, uptime_us, text) in [
        ("Nov 21 01:02:03 node-1 kernel: [  123.456789] NVRM: Xid 79", Some(123_456_789), "NVRM: Xid 79"),
        ("2026-11-21T01:02:03.123456+00:00 node-1 kernel: NVRM: Xid 79", None, "NVRM: Xid 79"),
        ("[    1.000002] mlx5_core 0000:18:00.0: firmware version", Some(1_000_002), "mlx5_core 0000:18:00.0: firmware version"),
        ("[drm] nvidia", None, "[drm] nvidia"),
    ] {
        let copied = copied(line);
        assert_eq!((copied.uptime_us, copied.text.as_str()), (uptime_us, text), "{line}");
    }
}

#[test]
fn without_device_and_copies_the_log_is_absent_and_says_what_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let err = source(&dir).poll(&mut Vec::new()).unwrap_err();
    let text = "kernel log: /dev/kmsg: no such file or directory; Xid lines will be missed";
    assert_eq!(err, SourceError::Absent(text.to_owned()));
}

#[test]
fn a_tree_with_a_device_gives_records_and_the_time_since_boot() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("dev")).unwrap();
    std::fs::create_dir_all(dir.path().join("proc")).unwrap();
    std::fs::write(dir.path().join("proc/uptime"), "2000.25 9.00\n").unwrap();
    // A regular file gives in one read what the device gives one by one: one record.
    std::fs::write(dir.path().join("dev/kmsg"), format!("3,7,1500000000,-;{XID}\n SUBSYSTEM=pci\n")).unwrap();
    let mut out = Vec::new();
    source(&dir).poll(&mut out).unwrap();
    let line = KernelLine { level: 3, uptime_us: Some(1_500_000_000), text: XID.into(), backlog: true };
    assert_eq!(out, [Body::Kernel { lines: vec![line], uptime_us: Some(2_000_250_000) }]);
    std::fs::write(dir.path().join("proc/uptime"), "nonsense\n").unwrap();
    let mut out = Vec::new();
    source(&dir).poll(&mut out).unwrap();
    assert!(matches!(out[..], [Body::Kernel { uptime_us: None, .. }]), "{out:?}");
}

#[test]
fn a_copy_is_followed_from_the_last_boot_on_and_over_a_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("var/log/kern.log");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    let first = "n kernel: [ 9.000000] NVRM: before\nn kernel: [ 0.000000] Linux version 6.8\nn kernel: [ 1.000000] NVRM: after\nn ker";
    std::fs::write(&log, first).unwrap();
    let mut kmsg = source(&dir);
    let mut poll = || {
        let mut out = Vec::new();
        kmsg.poll(&mut out).unwrap();
        lines_of(&out).into_iter().map(|line| (line.text, line.backlog)).collect::<Vec<_>>()
    };
    assert_eq!(poll(), [("NVRM: after".to_owned(), true)]);
    assert_eq!(poll(), []);
    std::fs::write(&log, format!("{first}nel: [ 2.000000] NVRM: now\n")).unwrap();
    assert_eq!(poll(), [("NVRM: now".to_owned(), false)]);
    std::fs::rename(&log, log.with_extension("log.1")).unwrap();
    std::fs::write(&log, "n kernel: [ 3.000000] NVRM: rotated\n").unwrap();
    assert_eq!(poll(), [("NVRM: rotated".to_owned(), false)]);
    let (state, remark) = kmsg.remark().unwrap();
    assert_eq!(state, SourceState::Ok);
    assert_eq!(remark, "reading /var/log/kern.log: /dev/kmsg: no such file or directory");
}

#[test]
fn the_live_log_can_be_drained_or_says_why_not() {
    let mut kmsg = Kmsg::new(Roots::live(), Duration::from_secs(1));
    let mut out = Vec::new();
    if kmsg.poll(&mut out).is_ok() {
        assert!(lines_of(&out).iter().all(|line| line.backlog));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        told("dev/kmsg", &bytes);
        told("var/log/kern.log", &[&bytes[..], b"\n"].concat());
        prop_assert!(record([b"3,1,2,-;NVRM ", &bytes[..]].concat()).is_some());
    }

    #[test]
    fn no_time_in_brackets_makes_it_panic(text in "\\[[ 0-9.]{0,30}\\]?.{0,5}") {
        told("var/log/kern.log", format!("{text} nvidia\n").as_bytes());
    }
}

#[test]
fn what_drivers_complain_about_is_told_to_those_who_read_counters() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("var/log/kern.log");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let q_counter =
        "mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:808:(pid 47): QUERY_Q_COUNTER(0x773) op_mod(0x0) failed, status bad resource(0x5)";
    std::fs::write(&path, format!("{q_counter}\n")).unwrap();
    for thread in [47, 73] {
        std::fs::create_dir_all(dir.path().join(format!("proc/self/task/{thread}"))).unwrap();
    }
    let (to_rdma, inbox) = Hints::line();
    let (to_netdev, other) = Hints::line();
    let mut source = source(&dir).telling(vec![to_rdma, to_netdev]);
    let mut told = |text: &str| {
        writeln!(OpenOptions::new().append(true).open(&path).unwrap(), "{text}").unwrap();
        source.poll(&mut Vec::new()).unwrap();
        let of = |inbox: &std::sync::mpsc::Receiver<Hint>| inbox.try_iter().collect::<Vec<_>>();
        let (first, second) = (of(&inbox), of(&other));
        assert_eq!(first, second);
        first.into_iter().map(|hint| if let Hint::Complaint(told) = hint { told } else { panic!("{hint:?}") }).collect::<Vec<_>>()
    };
    assert_eq!(told("nothing"), [], "what was there before is over");
    for (line, bus_id) in [
        (q_counter, "0000:1a:00.0"),
        (
            "mlx5_core 0000:1b:00.0: wait_func:1151:(pid 73): ACCESS_REG(0x805) timeout. Will cause a leak of a command resource",
            "0000:1b:00.0",
        ),
        ("bnxt_en 0000:65:00.0 eth3: hwrm req_type 0x23 seq id 0x6fca error 0x2", "0000:65:00.0"),
        ("bnxt_en 0000:65:00.1: Error (timeout: 500015) msg {0xb4 0x3} len:0", "0000:65:00.1"),
        ("efa 0000:4f:00.0 rdmap79s0: Failed to process command GET_STATS (opcode 11) comp_status 2 err -22", "0000:4f:00.0"),
        ("ena 0000:00:05.0 eth0: Failed to get stats. error: -110", "0000:00:05.0"),
    ] {
        assert_eq!(told(line), [Complaint { bus_id: bus_id.into(), line: line.into() }]);
    }
    for other in [
        "mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:808:(pid 47): CREATE_QP(0x500) op_mod(0x0) failed, status no resources(0xf)",
        "mlx5_core 0000:1a:00.0: QUERY_Q_COUNTER(0x773) took 12 ms",
        "mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:808:(pid 99): ACCESS_REG(0x805) op_mod(0x1) failed, status bad parameter(0x3)",
        "bnxt_en 0000:65:00.0 eth3: hwrm req_type 0x53 seq id 0x6fca error 0x2",
        "efa 0000:4f:00.0 rdmap79s0: Failed to process command CREATE_QP (opcode 1) comp_status 2 err -22",
        "NVRM: GET_STATS failed",
        "mlx5_core",
    ] {
        assert_eq!(told(other), [], "{other}");
    }
    let many = told(&[q_counter; 40].join("\n"));
    assert_eq!(many.len(), 1, "many lines about one device are one complaint");
    assert_eq!(told(&format!("{q_counter}{}", "x".repeat(3000)))[0].line.chars().count(), 160);
}
