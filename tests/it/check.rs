//! `nccl-top check` from outside: real recordings of 8 GPUs, healthy and broken, and input that cannot be judged.

use nccl_top::archive::inputs::{Source, expand};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn run(args: &[&str], stdin: Option<&[u8]>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
        .arg("check")
        .args(args)
        .current_dir(fixtures())
        .env_remove("NO_COLOR")
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    if let Some(bytes) = stdin {
        child.stdin.take().unwrap().write_all(bytes).unwrap();
    }
    child.wait_with_output().unwrap()
}

struct Judged {
    code: i32,
    report: Value,
    stderr: String,
}

fn check(args: &[&str]) -> Judged {
    let all: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
    let out = run(&all, None);
    let report =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|err| panic!("{args:?}: {err}: {}", String::from_utf8_lossy(&out.stdout)));
    Judged { code: out.status.code().unwrap(), report, stderr: String::from_utf8_lossy(&out.stderr).into_owned() }
}

impl Judged {
    fn verdict(&self) -> &str {
        self.report["verdict"].as_str().unwrap()
    }

    /// Rule and ranks of the cause.
    fn cause(&self) -> (String, Vec<u64>) {
        let cause = &self.report["root_cause"];
        let ranks = cause["ranks"].as_array().map(|r| r.iter().filter_map(Value::as_u64).collect()).unwrap_or_default();
        (cause["rule"].as_str().unwrap_or("-").to_owned(), ranks)
    }

    fn fact(&self, name: &str) -> &Value {
        &self.report["facts"][name]
    }

    fn status(&self, item: &str) -> &str {
        let list = self.report["checklist"].as_array().unwrap();
        list.iter().find(|i| i["id"] == item).unwrap_or_else(|| panic!("no item {item}"))["status"].as_str().unwrap()
    }

    fn roots(&self) -> usize {
        let findings = self.report["findings"].as_array().unwrap();
        findings.iter().filter(|f| f["role"] == "root" && (f["severity"] == "error" || f["severity"] == "critical")).count()
    }
}

#[test]
fn every_recording_is_judged_as_what_it_is() {
    let cases: &[(&[&str], &str, &str, &[u64])] = &[
        (&["runs/hf.log.gz"], "ok", "-", &[]),
        (&["runs/healthy-big.log.gz", "ras/healthy-2.json", "ras/healthy-4.json"], "ok", "-", &[]),
        (&["runs/all-subsystems-*.log.gz"], "ok", "-", &[]),
        (&["runs/compile.log.gz", "ras/compile-2.json"], "ok", "-", &[]),
        (&["runs/twohosts.log.gz"], "ok", "-", &[]),
        (&["runs/nccl-tests-*.log.gz"], "ok", "-", &[]),
        (&["logs/checkpoint.log", "ras/checkpoint-2.json", "ras/checkpoint-2.txt", "ras/checkpoint-4.json"], "ok", "-", &[]),
        (&["logs/evaluate.log"], "ok", "-", &[]),
        (&["runs/hang.log.gz"], "fail", "hang-rank-absent", &[3]),
        (&["flight/hang"], "fail", "hang-rank-absent", &[3]),
        (&["runs/hang.log.gz", "flight/hang", "ras/hang-2.json", "ras/hang-5.txt"], "fail", "hang-rank-absent", &[3]),
        (&["logs/mismatch.log"], "fail", "collective-mismatch", &[5]),
        (&["flight/mismatch"], "fail", "collective-mismatch", &[5]),
        (&["logs/mismatch.log", "flight/mismatch"], "fail", "collective-mismatch", &[5]),
        (&["flight/stop", "logs/stop.log", "ras/stop-4.json"], "fail", "hang-rank-absent", &[4]),
        (&["runs/symmetric.log.gz", "flight/symmetric"], "fail", "hang-symmetric", &[]),
        (&["runs/init-deadlock.log.gz", "ras/init-deadlock-4.json", "ras/init-deadlock-9.json"], "fail", "init-stuck", &[]),
        (&["logs/kill.log"], "fail", "rank-exited", &[5]),
        (&["logs/oom.log"], "fail", "cuda-oom", &[5]),
        (&["logs/python.log"], "fail", "python-exception", &[5]),
        (&["logs/nan.log"], "fail", "loss-not-finite", &[]),
        (&["logs/ifname.log"], "fail", "wrong-interface", &[]),
        (&["runs/slow.log.gz"], "warn", "slow-steps", &[]),
        (&["runs/slow-gpm.log.gz", "ras/slow-4.json", "ras/slow-6.json"], "warn", "straggler", &[6]),
        (&["runs/inspector.log.gz", "reports/inspector-rank0.log", "reports/inspector-rank6.log"], "warn", "straggler", &[6]),
    ];
    let mut wrong = Vec::new();
    for (args, verdict, rule, ranks) in cases {
        let judged = check(args);
        let got = (judged.verdict().to_owned(), judged.cause());
        let want = (verdict.to_string(), (rule.to_string(), ranks.to_vec()));
        let code = i32::from(*verdict == "fail");
        if got != want || judged.code != code || judged.roots() > 1 {
            wrong.push(format!("{args:?}: exit {} {got:?}, {} roots, {}", judged.code, judged.roots(), judged.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_facts_are_those_of_the_run() {
    let hang = check(&["runs/hang.log.gz"]);
    for (fact, value) in [
        ("nccl_version", json!("2.28.9")),
        ("cuda_version", json!("13.0")),
        ("driver_cuda_version", json!("13.0")),
        ("network", json!("Socket")),
        ("net_plugin", Value::Null),
        ("socket_ifname", json!(["eth0"])),
        ("nranks", json!(8)),
        ("nnodes", json!(1)),
        ("ranks_seen", json!([0, 1, 2, 3, 4, 5, 6, 7])),
        ("hosts_seen", json!(["vm"])),
        ("channels", json!(24)),
        ("transports", json!({ "P2P/CUMEM": 192 })),
    ] {
        assert_eq!(hang.fact(fact), &value, "{fact}");
    }
    let comm = &hang.fact("comms")[0];
    assert_eq!((&comm["id"], &comm["nranks"], &comm["init_s"]), (&json!("0xbe2de794bcb59ec0"), &json!(8), &json!(1.5)));
    assert_eq!(hang.fact("env")["NCCL_NVLS_ENABLE"], "0");
    assert_eq!((&hang.fact("training")["step"], &hang.fact("training")["throughput_unit"]), (&json!(19), &json!("tokens/s")));
    for item in ["nccl-version", "net-plugin", "network", "socket-ifname", "gpu-paths", "init-complete", "no-warnings"] {
        assert_eq!(hang.status(item), "pass", "{item}");
    }
    assert_eq!(hang.status("no-errors"), "fail");

    let hosts = check(&["runs/twohosts.log.gz"]);
    assert_eq!((hosts.fact("nnodes"), hosts.fact("transports").get("NET/Socket/0").is_some()), (&json!(2), true));
    let hf = check(&["runs/hf.log.gz"]);
    let training = hf.fact("training");
    assert_eq!((&training["dialect"], &training["step"], &training["total_steps"]), (&json!("hf-trainer"), &json!(30), &json!(30)));
    let tests = check(&["runs/nccl-tests-all_reduce.log.gz"]);
    assert_eq!(
        tests.fact("nccl_tests"),
        &json!([{
            "collective": "all_reduce", "rows": 15, "from_bytes": 8, "to_bytes": 2_147_483_648_u64, "peak_busbw_gbytes_per_s": 363.73, "largest_busbw_gbytes_per_s": 363.73, "avg_busbw_gbytes_per_s": 106.831, "least_time_us": 44.9,
            "wrong": 0, "complete": true,
            "platform": {
                "is": "8 H200 reach without NVLS", "busbw_gbytes_per_s": 370.0, "measured_gbytes_per_s": 363.73, "size_bytes": 2_147_483_648_u64,
                "share_pct": 98.3, "source": "as H100, which has the same NVLinks; 364 measured on 8 H200 with NCCL 2.28.9, 2026-11",
            },
        }])
    );
}

/// The fields of the contract, each with its place.
#[test]
fn the_document_has_the_fields_of_its_contract() {
    let judged = check(&["runs/hang.log.gz", "flight/hang", "gone.log"]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let has = |value: &Value, fields: &[&str]| {
        let keys = keys(value);
        for field in fields {
            assert!(keys.contains(*field), "{field} is missing in {value}");
        }
    };
    let report = &judged.report;
    assert_eq!(report["schema"], "nccl-top.check/1");
    has(report, &["verdict", "inputs", "facts", "checklist", "findings", "root_cause"]);
    has(&report["inputs"][0], &["path", "kind", "bytes", "lines", "error"]);
    has(&report["checklist"][0], &["id", "title", "status", "evidence", "advice"]);
    has(&report["checklist"][0]["evidence"], &["kind", "path", "line", "text"]);
    let finding = &report["findings"][0];
    has(
        finding,
        &[
            "rule",
            "signature",
            "severity",
            "role",
            "confidence",
            "summary",
            "why",
            "next",
            "job",
            "ranks",
            "gpus",
            "ports",
            "links",
            "hosts",
            "count",
            "since",
            "evidence",
        ],
    );
    has(&finding["evidence"][0], &["kind", "path", "line", "text", "at"]);
    has(&report["root_cause"], &["rule", "summary", "ranks", "gpus", "confidence"]);
    assert_eq!(
        (&finding["ranks"], &finding["gpus"], &finding["next"]),
        (
            &json!([3]),
            &json!([3]),
            &json!("look at rank 3 after /workspace/train/job-0042/fault_train.py:78 in <module>, its last call that was recorded")
        )
    );
    let ids: Vec<&str> = report["checklist"].as_array().unwrap().iter().map(|i| i["id"].as_str().unwrap()).take(8).collect();
    assert_eq!(ids, ["nccl-version", "net-plugin", "network", "socket-ifname", "gpu-paths", "init-complete", "no-warnings", "no-errors"]);
    let kinds: BTreeSet<&str> = report["inputs"].as_array().unwrap().iter().filter_map(|i| i["kind"].as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["flight-recorder", "log"]));
    let gone = report["inputs"].as_array().unwrap().last().unwrap();
    assert_eq!((&gone["error"], &gone["kind"], &gone["bytes"]), (&json!("no such file"), &Value::Null, &Value::Null));
    assert_eq!(judged.code, 2, "2 wins over 1");
    assert!(judged.stderr.contains("gone.log: no such file"), "{}", judged.stderr);
}

#[test]
fn what_cannot_be_judged_is_named_and_the_rest_is_judged() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let good =
        put("good.log", b"[rank5]: Traceback (most recent call last):\n[rank5]:   File \"t.py\", line 3, in f\n[rank5]: ValueError: x\n");
    let noise: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let cases = [
        (put("binary", &noise), "a binary file, and none of what check reads"),
        (put("empty.log", b""), "the file is empty"),
        (put("nccl_trace_rank_3", b""), "the file is empty"),
        (put("fr_1", b"\x80\x02}q\x00(X\x07\x00\x00\x00entries"), "cut off"),
        (put("fr_2", b"\x80\x02cos\nsystem\nq\x00X\x02\x00\x00\x00idq\x01\x85q\x02Rq\x03."), "it would call os.system"),
        (put("dump.gz", &fs::read(fixtures().join("flight/hang/fr_3.gz")).unwrap()), "its name does not end in a rank"),
        (
            put("cut.json", b"SERVER PROTOCOL 2\nOK\nOK\n{\n  \"nccl_version\": \"2.28.9\",\n  \"cuda_runtime_version\": 13000,\n"),
            "cut off",
        ),
        (put("log.zst", &[0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]), "zstd -dc"),
        (put("damaged.gz", &[0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5]), "damaged gzip"),
        (dir.path().join("nothing").display().to_string(), "no files in it"),
        (dir.path().join("*.none").display().to_string(), "no file matches"),
    ];
    fs::create_dir(dir.path().join("nothing")).unwrap();
    // The error output of a process that had none.
    let judged = check(&[&put("attempt_0/1/stderr.log", b""), &good]);
    assert_eq!(judged.code, 1, "{}", judged.stderr);
    for (path, says) in &cases {
        let judged = check(&[path, &good]);
        assert_eq!(judged.code, 2, "{path}: {}", judged.report);
        assert!(judged.stderr.contains(says), "{path}: {:?} does not say {says:?}", judged.stderr);
        assert!(judged.stderr.contains(path.rsplit('/').next().unwrap()), "{path} is not named: {:?}", judged.stderr);
        assert_eq!(judged.cause(), ("python-exception".into(), vec![5]), "{path}");
        let alone = check(&[path]);
        assert_eq!((alone.code, alone.verdict()), (2, "unknown"), "{path}");
    }
    // Text without a word for us is no mistake beside a log: a rank may print what it likes.
    let prose = put("prose.txt", b"hello\nthis is no log\n");
    let alone = check(&[&prose]);
    assert_eq!((alone.code, alone.verdict()), (2, "unknown"));
    assert!(alone.stderr.contains("prose.txt: nothing in it is known"), "{}", alone.stderr);
    assert_eq!(check(&[&prose, &good]).code, 1);
    // A pickle that would run a command does not.
    assert!(!dir.path().join("id").exists());
    // What nobody named is passed over.
    let judged = check(&[&good, &put("more/readme.md", b"read me").replace("/readme.md", "")]);
    assert_eq!(judged.code, 1, "{}", judged.stderr);
}

#[test]
fn input_comes_from_pipes_and_compressed_too() {
    let hang = fixtures().join("runs/hang.log.gz");
    let out = run(&["--json", "-"], Some(&fs::read(hang).unwrap()));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), &report["root_cause"]["ranks"]), (Some(1), &json!([3])));
    assert_eq!(report["inputs"][0]["path"], "standard input");
    // A recording, as it was.
    let tape = check(&["../tapes/hang.jsonl.gz"]);
    assert_eq!((tape.verdict(), tape.cause()), ("fail", ("hang-rank-absent".into(), vec![3])));
    assert_eq!(tape.report["inputs"][0]["kind"], "tape");
    let healthy = check(&["../tapes/none.jsonl.gz"]);
    assert_eq!((healthy.code, healthy.verdict()), (0, "ok"), "{}", healthy.report["findings"]);
}

/// 1,024 ranks fail alike because one did: there is one cause, the first in time, whatever the order of the files.
#[test]
fn a_thousand_equal_tracebacks_have_one_root() {
    let dir = tempfile::tempdir().unwrap();
    let traceback = |rank: u32, second: u32, what: &str| {
        format!(
            "[rank{rank}]:[W1121 10:00:{second:02}.000000000 Utils.hpp:1] Warning: x\n[rank{rank}]: Traceback (most recent call last):\n\
             [rank{rank}]:   File \"train.py\", line 7, in step\n[rank{rank}]: {what}\n"
        )
    };
    for rank in 0..1024 {
        let text = match rank {
            700 => traceback(rank, 5, "RuntimeError: the data set of rank 700 has ended"),
            _ => traceback(
                rank,
                9,
                "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error, NCCL version 2.27.5",
            ),
        };
        fs::write(dir.path().join(format!("{rank}.log")), text).unwrap();
    }
    let judged = check(&[dir.path().to_str().unwrap()]);
    assert_eq!((judged.verdict(), judged.cause(), judged.roots()), ("fail", ("python-exception".into(), vec![700]), 1));
    let total: u64 = judged.report["findings"].as_array().unwrap().iter().filter_map(|f| f["count"].as_u64()).sum();
    assert!(total >= 1024, "{total} of 1024 are counted: {}", judged.report["findings"]);
}

/// torchrun's log directory: whose output a file is stands in its path.
#[test]
fn the_path_of_a_log_tells_its_rank() {
    let dir = tempfile::tempdir().unwrap();
    for rank in 0..4 {
        let at = dir.path().join(format!("none_ab12cd34/attempt_0/{rank}"));
        fs::create_dir_all(&at).unwrap();
        let text = if rank == 2 {
            "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nKeyError: 'x'\n"
        } else {
            "step 1 loss 2.0\n"
        };
        fs::write(at.join("stderr.log"), text).unwrap();
    }
    assert_eq!(check(&[dir.path().to_str().unwrap()]).cause(), ("python-exception".into(), vec![2]));
}

#[test]
fn warnings_end_with_1_where_that_is_asked_for() {
    assert_eq!(check(&["runs/slow.log.gz"]).code, 0);
    assert_eq!(check(&["--strict", "runs/slow.log.gz"]).code, 1);
    assert_eq!(run(&[], None).status.code(), Some(2));
}

/// The text for people: the cause first, its proof, what to do; nothing wider than the page, no escape sequences in a pipe.
#[test]
fn the_report_reads_as_reviewed() {
    for (name, args) in [
        ("hang", &["runs/hang.log.gz", "flight/hang", "ras/hang-2.json"][..]),
        ("oom", &["logs/oom.log"]),
        ("healthy", &["runs/hf.log.gz"]),
        ("nccl-tests", &["runs/nccl-tests-all_reduce.log.gz"]),
        ("gone", &["gone.log"]),
    ] {
        let out = run(args, None);
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(!text.contains('\x1b'));
        assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn what_the_inspector_saw_is_joined_with_the_communicators_of_the_log() {
    let all = check(&["runs/inspector.log.gz", "reports/inspector-rank0.log", "reports/inspector-rank6.log"]);
    let text = all.fact("inspector").to_string();
    let comms = all.fact("comms").as_array().unwrap();
    let comm = comms.iter().find(|c| c["id"] == "0xfec30663df834094").unwrap_or_else(|| panic!("{comms:?}"));
    assert_eq!(comm["ranks_inspected"], json!([0, 6]));
    assert!(text.contains("\"0xfec30663df834094\"") && !text.contains("\"0xfec30663df8340\""), "{text}");
    // Without the log nobody knows the last two digits.
    let alone = check(&["reports/inspector-rank0.log"]).fact("inspector").to_string();
    assert!(alone.contains("\"0xfec30663df8340\""), "{alone}");
}

#[test]
fn files_globs_and_directories_are_expanded_once_each() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["b.log", "a.log", ".hidden", "sub/c.txt"] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    let at = |name: &str| dir.path().join(name).display().to_string();
    let names = |args: &[String]| expand(args).into_iter().map(|i| i.name.replace(&at(""), "")).collect::<Vec<_>>();
    assert_eq!(names(&[at("b.log"), at("*.log"), at("")]), ["b.log", "a.log", "sub/c.txt"]);
    let gone = expand(&[at("gone.log"), at("*.none"), "/dev/null".into()]);
    let whys: Vec<_> = gone.iter().map(|i| if let Source::Nothing(why) = &i.source { why.as_str() } else { "" }).collect();
    assert_eq!(whys, ["no such file", "no file matches", "a device, not a regular file; not opened"]);
}
