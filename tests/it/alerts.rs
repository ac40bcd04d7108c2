//! Alerts of critical findings: which are sent, what is sent, to a real program and a real listener, and what is shown where that fails.

use crate::support::screen::{PATIENCE, Screen};
use crate::support::worlds;
use nccl_top::base::severity::Severity;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::edge::courier::{Courier, Message, Routes, Run, deliver, host_of};
use nccl_top::output::alert::{Alerts, message, sample};
use nccl_top::rules::findings::Finding;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nccl-top");
/// A rank that was killed: a critical finding.
const KILLED: &str = "step 1 | loss 2.5\nE1121 00:05:26.947000 100 torch/distributed/elastic/multiprocessing/api.py:986] failed \
                      (exitcode: -9) local_rank: 1 (pid: 102) of binary: python\n";

/// A listener that answers each POST with this status, and gives away what was sent.
fn listener(status: &'static str) -> (String, Receiver<(String, serde_json::Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://user:hush7@{}/services/T0/hush7", listener.local_addr().unwrap());
    let (tx, rx) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let head: Vec<String> = stream.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            let length = head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.get_mut().write_all(answer.as_bytes());
            if tx.send((head.join("\n"), serde_json::from_slice(&body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, rx)
}

fn tree(dir: &Path) -> String {
    let root = dir.join("root");
    std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    std::fs::write(root.join("proc/sys/kernel/hostname"), "node-17\n").unwrap();
    root.display().to_string()
}

fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(started.elapsed() < PATIENCE, "no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A program that keeps what it gets.
const KEEPER: &str = "#!/bin/sh\n{ env | grep ^NCCL_TOP_; echo args \"$@\"; cat; echo; } > got.new\necho to the terminal\nmv got.new got\n";

#[test]
fn watch_sends_a_critical_finding_to_a_program_and_an_address() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (url, posted) = listener("200 OK");
    std::fs::write(dir.path().join("train.log"), KILLED).unwrap();
    let keeper = dir.path().join("keep");
    std::fs::write(&keeper, KEEPER).unwrap();
    std::fs::set_permissions(&keeper, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(dir.path().join("c.toml"), "[alert]\ncommand = [\"./keep\", \"a word\"]\nevery = \"1s\"\n").unwrap();
    let mut child = Command::new(PROGRAM)
        .args(["--sysroot", &tree(dir.path()), "--config", "c.toml", "watch", "train.log"])
        .current_dir(dir.path())
        .envs([("HOME", dir.path().as_os_str()), ("NCCL_TOP_ALERT_URL", url.as_ref())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (head, body) = posted.recv_timeout(PATIENCE).unwrap();
    assert!(
        head.starts_with("POST /services/T0/hush7 HTTP/1.1") && head.to_lowercase().contains("content-type: application/json"),
        "{head}"
    );
    assert!(body["text"].as_str().unwrap().starts_with("node-17, job train.log: critical rank-exited: "), "{body}");
    assert_eq!([&body["schema"], &body["version"], &body["status"]], ["nccl-top.alert/1", "4", "firing"]);
    assert_eq!([&body["alerts"][0]["labels"]["alertname"], &body["finding"]["rule"]], ["rank-exited", "rank-exited"]);
    let got = wait_for("message", || std::fs::read_to_string(dir.path().join("got")).ok());
    assert!(
        got.contains("NCCL_TOP_RULE=rank-exited\n") && got.contains("NCCL_TOP_HOST=node-17\n") && got.contains("args a word\n"),
        "{got}"
    );
    let json: serde_json::Value = serde_json::from_str(got.lines().last().unwrap()).unwrap();
    assert_eq!(json, body);
    // Once is enough, though it stays open.
    assert!(posted.recv_timeout(Duration::from_secs(3)).is_err());
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("critical rank-exited") && !said.contains("to the terminal"), "{said}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn the_screen_shows_what_could_not_be_sent() {
    let dir = tempfile::tempdir().unwrap();
    let (url, posted) = listener("500 Internal Server Error");
    let root = tree(dir.path());
    let env = [("NCCL_TOP_ALERT_URL", url.as_str()), ("NCCL_TOP_ALERT_COMMAND", "echo NOISE; echo NOISE >&2; exit 3")];
    let mut s = Screen::start(&["--sysroot", &root, "train.log"], dir.path(), &env, 40, 120);
    s.wait_for("IDLE");
    std::fs::write(dir.path().join("train.log"), KILLED).unwrap();
    posted.recv_timeout(PATIENCE).unwrap();
    s.wait_for("alert not sent");
    s.wait_for("alert.command: it ended with exit code 3; alert.url (127.0.0.1");
    s.keys(":");
    s.wait_for("the answer is 500");
    assert!(!s.text().contains("hush7") && !s.text().contains("NOISE"), "{}", s.text());
    s.keys("\x03");
    assert_eq!(s.wait_end(), 0);
    // A recording alarms nobody.
    let tape = format!("{}/tests/tapes/hang.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let mut s = Screen::start(&["replay", &tape, "--at", "+57s", "--speed", "8"], dir.path(), &env, 40, 120);
    s.wait_for("· end");
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    assert!(posted.recv_timeout(Duration::from_secs(1)).is_err());
}

#[test]
fn a_sample_is_sent_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let run = |env: &[(&str, &str)]| {
        let mut command = Command::new(PROGRAM);
        let out = command.args(["config", "test-alert"]).env("HOME", dir.path()).envs(env.iter().copied()).output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap())
    };
    let (code, said) = run(&[]);
    assert!(code == Some(2) && said.contains("neither alert.command nor alert.url is set"), "{said}");
    let (url, posted) = listener("204 No Content");
    assert_eq!(run(&[("NCCL_TOP_ALERT_URL", &url)]), (Some(0), "the test alert was delivered\n".into()));
    assert!(posted.recv().unwrap().1["text"].as_str().unwrap().contains("this is a test"));
    let (code, said) = run(&[("NCCL_TOP_ALERT_COMMAND", "/nowhere/program")]);
    assert!(code == Some(2) && said.contains("alert.command: it ended with exit code 127"), "{said}");
    let (code, said) = run(&[("NCCL_TOP_ALERT_URL", "gopher://x")]);
    assert!(code == Some(2) && said.contains("NCCL_TOP_ALERT_URL: expected an address that begins with https:// or http://"), "{said}");
}

#[test]
fn a_command_that_others_may_write_is_not_run() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("c.toml");
    std::fs::write(&config, "alert.command = \"touch ran\"\n").unwrap();
    std::fs::set_permissions(&config, PermissionsExt::from_mode(0o666)).unwrap();
    let out = Command::new(PROGRAM).args(["--config", "c.toml", "config", "test-alert"]).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(out.status.code() == Some(2) && said.contains("everybody may write c.toml; `chmod o-w c.toml`"), "{said}");
    assert!(!dir.path().join("ran").exists());
}

#[test]
fn each_critical_root_is_due_once_and_no_faster_than_wished() {
    let mut session = worlds::hang();
    let every = Duration::from_secs(60);
    let critical = |f: &Finding| f.severity == Severity::Critical;
    assert!(session.ledger.first_open(critical).is_some());
    let later = |session: &mut Session, s| session.model.now = session.model.now.plus(Duration::from_secs(s));
    let due = |alerts: &mut Alerts, session: &Session| alerts.due(session, Zone::UTC, every, |_| false).map(|m| m.variables[4].1.clone());
    let mut alerts = Alerts::default();
    assert_eq!(alerts.due(&session, Zone::UTC, every, |_| true), None, "muted or acknowledged");
    later(&mut session, 2);
    assert_eq!(due(&mut alerts, &session).as_deref(), Some("hang-rank-absent"));
    later(&mut session, 100);
    assert_eq!(due(&mut alerts, &session), None, "it was sent");
    let opened = session.model.now;
    let lost = Finding::new("gpu-lost", Severity::Critical, "GPU 1", "GPU 1 fell off the bus", opened);
    session.ledger.saw(opened, lost, nccl_top::rules::rule("gpu-lost").unwrap().life, 1);
    assert_eq!(due(&mut alerts, &session), None, "what it follows from may come yet");
    later(&mut session, 3);
    assert_eq!(due(&mut alerts, &session).as_deref(), Some("gpu-lost"));
    let ecc = Finding::new("gpu-ecc", Severity::Critical, "GPU 2", "GPU 2 has an ECC error", session.model.now);
    session.ledger.saw(session.model.now, ecc, nccl_top::rules::rule("gpu-ecc").unwrap().life, 1);
    later(&mut session, 30);
    assert_eq!(due(&mut alerts, &session), None, "a minute has not passed");
    later(&mut session, 30);
    assert_eq!(due(&mut alerts, &session).as_deref(), Some("gpu-ecc"));
}

#[test]
fn secrets_are_not_sent() {
    let session = Session::new("node-17", Zone::UTC);
    let mut finding =
        Finding::new("python-exception", Severity::Critical, "HF_TOKEN=hush7abcdefgh", "login with HF_TOKEN=hush7abcdefgh", Stamp(1));
    finding = finding.because("Authorization: Bearer hush7abcdefgh12").proved("log", "/x", Some(1), "export HF_TOKEN=hush7abcdefgh");
    finding.next = Some("curl -H 'Authorization: Bearer hush7abcdefgh12' x".into());
    let message = message(&session, Zone::UTC, &finding);
    assert!(!format!("{message:?}").contains("hush7"), "{message:?}");
    assert!(message.json.contains("***"));
}

#[test]
fn what_cannot_be_delivered_is_named_without_the_address() {
    let message = sample("node-17", Zone::UTC, Stamp(1));
    let to = |run: Run, url: &str| deliver(&Routes { run, url: url.to_owned() }, &message);
    assert_eq!(to(Run::Off, ""), Ok(()));
    assert_eq!(to(Run::Args(vec!["/bin/true".into()]), ""), Ok(()));
    assert_eq!(to(Run::Shell("kill -9 $$".into()), ""), Err("alert.command: it was killed by signal 9".into()));
    let why = to(Run::Args(vec!["/nowhere/program".into()]), "").unwrap_err();
    assert!(why.starts_with("alert.command: it cannot be started: no such file"), "{why}");
    // Nobody listens; and one that never answers.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let why = to(Run::Off, &format!("http://127.0.0.1:{port}/hush7")).unwrap_err();
    assert!(why.contains("connection refused") && !why.contains("hush7"), "{why}");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let why = to(Run::Off, &format!("https://{}/hush7", silent.local_addr().unwrap())).unwrap_err();
    assert!(why.contains("no answer within 5 s") && !why.contains("hush7"), "{why}");
    assert_eq!(host_of("https://user:hush7@hooks.example:443/T0/B0?x=/y"), "hooks.example:443");
}

#[test]
fn messages_that_pile_up_are_lost_and_reported() {
    let (tx, told) = channel();
    let mut courier = Courier::new(move |how| drop(tx.send(how)));
    let slow = Routes { run: Run::Shell("sleep 0.3".into()), url: String::new() };
    let message = Message { json: "{}".into(), variables: Vec::new() };
    for _ in 0..20 {
        courier.send(slow.clone(), message.clone());
    }
    courier.wait(PATIENCE);
    let told: Vec<_> = told.try_iter().collect();
    let lost = told.iter().filter(|how| how.as_ref().is_err_and(|why| why.contains("was not sent"))).count();
    assert_eq!((told.len(), told.iter().filter(|how| how.is_ok()).count() + lost), (20, 20), "{told:?}");
    assert!(lost >= 10, "{lost}");
}
