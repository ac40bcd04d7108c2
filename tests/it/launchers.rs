//! Real output of launchers and trainers on CPUs: what `check` concludes from each, and whom it blames. Which versions wrote it stands in
//! the README beside the fixtures.

use nccl_top::archive::{Report, check};
use nccl_top::base::time::Zone;

fn report(fixture: &str) -> Report {
    let path = format!("{}/tests/fixtures/launchers/{fixture}.log", env!("CARGO_MANIFEST_DIR"));
    check(&[path], Zone::UTC, &mut |_, _| ())
}

/// `fail rank-exited [1] Slurm task 1…`, or the verdict alone.
fn said(fixture: &str) -> String {
    let report = report(fixture);
    let errors: Vec<&str> = report.inputs.iter().filter_map(|input| input.error.as_deref()).collect();
    let verdict = report.verdict.as_str();
    match report.root_cause.map(|i| &report.findings[i]) {
        Some(f) => format!("{verdict} {} {:?} {}{}", f.rule, f.ranks, f.summary, errors.concat()),
        None => format!("{verdict}{}", errors.concat()),
    }
}

#[test]
fn slurm_names_the_task_that_failed_first_and_not_the_one_that_lost_its_peer() {
    let first = "fail rank-exited [1] Slurm task 1 on node001 exited with exit code 3";
    assert_eq!(said("slurm-exit-code"), first);
    assert_eq!(said("slurm-kill-on-bad-exit"), first);
}

#[test]
fn slurm_ends_a_step() {
    assert_eq!(said("slurm-scancel"), "fail job-cancelled [] Slurm cancelled job 1 step 0 on node001");
    assert_eq!(said("slurm-time-limit"), "fail job-cancelled [] Slurm cancelled job 5 step 0 on node001: time limit");
}

#[test]
fn who_waits_for_gloo_is_no_culprit() {
    assert_eq!(
        said("torchrun-gloo-timeout"),
        "fail hang-rank-absent [1] rank 1 never arrived; 1 rank waited for it in Gloo until the timeout"
    );
    // Nothing tells how many ranks there are: nobody is blamed.
    assert!(said("slurm-stopped").starts_with("fail collective-timeout [] "), "{}", said("slurm-stopped"));
}

#[test]
fn a_lost_peer_of_gloo_is_not_the_store() {
    let report = report("open-mpi-exit-code");
    let lost = report.findings.iter().find(|f| f.rule == "rendezvous-failed").unwrap();
    assert_eq!(lost.signature, Some("gloo-peer-closed"));
}

#[test]
fn open_mpi_names_the_rank_and_its_exit_code() {
    assert_eq!(said("open-mpi-exit-code"), "fail rank-exited [1] rank 1 ended: exit code 3");
}

#[test]
fn the_hint_about_a_taken_port_has_the_port_of_the_log() {
    let report = report("torchrun-port-in-use");
    let next = report.findings[report.root_cause.unwrap()].next.clone().unwrap();
    assert!(next.contains("grep 29555") && !next.contains("29500"), "{next}");
}

#[test]
fn ray_names_the_process_of_each_rank() {
    assert_eq!(said("ray-train-exception"), "fail python-exception [1] rank 1: ValueError: bad batch, in loop (ray_t.py:13)");
}

#[test]
fn what_ends_well_is_known_and_well() {
    for fixture in ["hf-without-bars", "keras-bars", "keras-lines", "lightning", "ray-train", "deepspeed"] {
        assert_eq!(said(fixture), "ok", "{fixture}");
    }
}
