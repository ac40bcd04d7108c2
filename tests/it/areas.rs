//! The class of a cause: where it lies, in headlines and in JSON, and only where evidence tells.

use super::host_fault_rules::Node;
use nccl_top::archive::check;
use nccl_top::base::time::Zone;
use nccl_top::output::check::{json, text};
use nccl_top::rules::area::Area;
use nccl_top::rules::findings::Finding;
use nccl_top::rules::rule;

fn of_log(log: &str) -> (Option<Area>, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.log");
    std::fs::write(&path, log).unwrap();
    let report = check(&[path.display().to_string()], Zone::UTC, &mut |_, _| ());
    let document = json(&report, Zone::UTC);
    let style = text::Style { color: false, ascii: true, width: 100 };
    let headline = text::text(&report, Zone::UTC, &style).lines().next().unwrap().to_owned();
    let area = Area::of(&report.findings[report.root_cause.unwrap()]);
    let name = serde_json::to_value(area).unwrap();
    assert_eq!((&document["root_cause"]["area"], &document["findings"][0]["area"]), (&name, &name));
    (area, headline)
}

#[test]
fn a_headline_names_it_where_the_cause_tells() {
    let raised = |words: &str| {
        format!("[rank0]: Traceback (most recent call last):\n[rank0]:   File \"train.py\", line 9, in <module>\n[rank0]: {words}\n")
    };
    for (area, begin, log) in [
        (Some(Area::Code), "FAIL (code)  rank 0: KeyError", raised("KeyError: 'labels'")),
        (None, "FAIL  ", raised("ConnectionResetError: [Errno 104] Connection reset by peer of the object store")),
        (Some(Area::Code), "FAIL (code)  ", raised("torch.AcceleratorError: CUDA error: device-side assert triggered")),
        (None, "FAIL  rank 0: CUDA error", raised("torch.AcceleratorError: CUDA error: an illegal memory access was encountered")),
        (Some(Area::Storage), "FAIL (storage)  ", raised("OSError: [Errno 28] No space left on device")),
        (
            Some(Area::Gpu),
            "FAIL (GPU)  Xid 62",
            "[ 9.000001] NVRM: Xid (PCI:0000:18:00): 62, pid='<unknown>', name=<unknown>, 2028(2a44) 00000000\n".into(),
        ),
        (
            None,
            "FAIL  Xid 31",
            "[ 9.000001] NVRM: Xid (PCI:0000:18:00): 31, pid=7, name=python3, Ch 00000008, intr 00000000. MMU Fault\n".into(),
        ),
        (
            Some(Area::Nvlink),
            "FAIL (NVLink)  Xid 74",
            "[ 9.000001] NVRM: Xid (PCI:0000:18:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 14\n".into(),
        ),
    ] {
        let (found, headline) = of_log(&log);
        assert!(found == area && headline.starts_with(begin), "{found:?} {headline}");
    }
}

#[test]
fn live_the_verdict_has_that_of_the_cause() {
    let mut node = Node::with_job();
    node.kernel(&["NVRM: Xid (PCI:0000:3b:00): 79, pid=2202, name=python3, GPU has fallen off the bus."]);
    let verdict = node.session.main_job().unwrap().1.clone();
    assert_eq!((verdict.area, verdict.because.unwrap().0), (Some(Area::Gpu), "gpu-lost"));
}

#[test]
fn what_a_loader_or_a_mount_holds_up_is_said_so() {
    let of = |id: &str| Area::of(&rule(id).unwrap().finding("x", "x", Default::default()));
    assert_eq!([of("input-stall"), of("host-cpu-contention")], [Area::Input, Area::Host].map(Some));
    // A checkpoint that does not end may wait for a lock.
    assert_eq!([of("hang-rank-absent"), of("hang-symmetric"), of("slow-steps"), of("rank-exited"), of("storage-hang")], [None; 5]);
    let by_loader = Finding { area: Some(Area::Input), ..rule("hang-rank-absent").unwrap().finding("x", "x", Default::default()) };
    assert_eq!(Area::of(&by_loader), Some(Area::Input));
}
