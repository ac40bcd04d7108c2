//! What to do next about a finding.

use nccl_top::base::severity::Severity;
use nccl_top::base::time::Stamp;
use nccl_top::diagnosis::remedies::of;
use nccl_top::model::Model;
use nccl_top::model::job::Job;
use nccl_top::model::process::{Gone, Process};
use nccl_top::observe::process::{ProcessInfo, ProcessRole, ProcessSample};
use nccl_top::rules::findings::Finding;

fn model(state: char, env: &[(&str, &str)]) -> Model {
    let mut model = Model::default();
    let mut job = Job::new("j".into(), Stamp(1));
    for rank in 0..2 {
        let pid = 100 + rank;
        let info = ProcessInfo {
            pid,
            role: ProcessRole::Rank,
            comm: "python3".into(),
            env: Some(env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()),
            ..Default::default()
        };
        let mut process = Process::new(Stamp(1), info);
        process.apply(Stamp(1), &ProcessSample { pid, state: Some(state), ..Default::default() });
        model.processes.insert(pid, process);
        job.ranks.insert(rank, pid);
    }
    model.jobs.insert("j".into(), job);
    model
}

fn finding(rule: &'static str, ranks: &[u32], next: Option<&str>) -> Finding {
    let mut found = Finding::new(rule, Severity::Critical, "s", "it holds", Stamp(1));
    (found.job, found.ranks, found.next) = (Some("j".into()), ranks.to_vec(), next.map(Into::into));
    found
}

fn told(model: &Model, finding: &Finding) -> Vec<String> {
    of(model, finding).into_iter().map(|s| s.what).collect()
}

#[test]
fn the_state_of_the_culprit_decides_what_helps() {
    let absent = finding("hang-rank-absent", &[1], Some("py-spy dump --nonblocking --pid 101"));
    let gdb = "gdb -p 101 --batch -ex 'thread apply all bt'";
    let cuda = "cuda-gdb -p 101 --batch -ex 'info cuda kernels'";
    let spy = "py-spy dump --nonblocking --pid 101";
    assert_eq!(told(&model('S', &[]), &absent), [spy, gdb, cuda]);
    assert_eq!(told(&model('D', &[]), &absent), [spy, "sudo cat /proc/101/stack", "cat /proc/101/wchan", gdb, cuda]);
    assert_eq!(told(&model('T', &[]), &absent), [spy, "kill -CONT 101"]);
    assert_eq!(told(&model('t', &[]), &finding("rank-stopped", &[1], None)), ["grep TracerPid /proc/101/status"]);
    let stuck = finding("init-stuck", &[], None);
    assert_eq!(told(&model('S', &[]), &stuck)[..2], ["py-spy dump --nonblocking --pid 100", "py-spy dump --nonblocking --pid 101"]);
    assert_eq!(told(&model('S', &[]), &finding("cuda-oom", &[1], Some("use less"))), ["use less"]);
    assert_eq!(told(&model('S', &[]), &finding("hang-rank-absent", &[7], Some("x"))), ["x"], "of another node");
}

#[test]
fn nobody_is_sent_to_a_process_that_is_gone() {
    let absent = finding("hang-rank-absent", &[1], Some("py-spy dump --nonblocking --pid 101"));
    let mut ended = model('S', &[]);
    for process in ended.processes.values_mut() {
        process.gone = Some(Gone { at: Stamp(2), exit_code: None });
    }
    assert_eq!(told(&ended, &absent), ["its process is gone: read what it wrote last, and Flight Recorder's dumps if there are any"]);
    assert_eq!(told(&ended, &finding("cuda-oom", &[1], Some("use less"))), ["use less"]);
}

#[test]
fn flight_recorder_is_asked_where_the_job_listens() {
    let all = finding("hang-symmetric", &[], None);
    let steps = told(&model('S', &[("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "/tmp/fr pipe'_")]), &all);
    assert_eq!(steps[..2], ["py-spy dump --nonblocking --pid 100", "py-spy dump --nonblocking --pid 101"]);
    assert_eq!(steps[2], "for p in '/tmp/fr pipe'\\''_'*.pipe; do timeout 2 sh -c 'echo 1 > \"$0\"' \"$p\"; done");
}
