//! What is secret is hidden, whatever its form; what is not stays as it is.

use crate::support::fixture;
use crate::support::screen::Screen;
use flate2::read::MultiGzDecoder;
use nccl_top::base::mask::{self, MASK};
use proptest::prelude::*;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The lines of a corpus, without remarks.
fn lines(name: &str) -> Vec<String> {
    let text = fixture(&format!("secrets/{name}"));
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// A line of the corpus as it is written, and as it must be shown.
fn case(line: &str) -> (String, String) {
    let line = line.replace('¦', "");
    let mut shown = String::new();
    for (i, piece) in line.split(['«', '»']).enumerate() {
        shown.push_str(if i % 2 == 1 { MASK } else { piece });
    }
    (line.replace(['«', '»'], ""), shown)
}

#[test]
fn every_form_of_a_secret_is_hidden() {
    let cases: Vec<_> = lines("hidden.txt").iter().map(|line| case(line)).collect();
    assert!(cases.len() >= 200);
    let mut wrong = Vec::new();
    for (line, shown) in cases {
        let masked = mask::text(&line);
        if masked != shown {
            wrong.push(format!("{line}\n   shown  {masked}\n   wanted {shown}"));
        } else if mask::text(&masked) != masked {
            wrong.push(format!("{masked}\n   again  {}", mask::text(&masked)));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn harmless_lines_stay_as_they_are() {
    let lines = lines("harmless.txt");
    assert!(lines.len() >= 200);
    let wrong: Vec<String> = lines
        .iter()
        .filter(|line| mask::text(line) != line.as_str())
        .map(|line| format!("{line}\n   shown  {}", mask::text(line)))
        .collect();
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_programs_of_training_print_and_record_stays_as_it_is() {
    for name in ["healthy-big", "hf", "mismatch", "oom", "python", "all-subsystems"] {
        let text = fixture(&format!("logs/{name}.log"));
        assert_eq!(mask::text(&text), text, "{name}");
    }
    for name in ["megatron", "nemo", "torchtitan", "bars", "others", "nothing"] {
        let text = fixture(&format!("progress/{name}.txt"));
        assert_eq!(mask::text(&text), text, "{name}");
    }
}

#[test]
fn a_secret_among_colours_and_invisible_characters_is_hidden() {
    for (line, shown) in [
        ("\x1b[33mapi_key\x1b[0m=\x1b[32m'hush7'\x1b[0m", "api_key='***'"),
        ("\\x1b[33mapi_key\\x1b[0m='hush7'", "api_key='***'"),
        ("Bearer \x1b[1mhush7abcdefgh12", "Bearer ***"),
        ("hf_ab\x1b[0mcdefghijklmnop1234567 and more", "*** and more"),
        ("hf_abcdefghijklmnop1234567\x1b[0mabcdefg", "***"),
        ("HF_TOKEN\u{202e}=hush7abc", "HF_TOKEN=***"),
        ("50%\r100%\rHF_TOKEN=\x1b[1mhush7abc", "50% 100% HF_TOKEN=***"),
        ("\x1b[1mstep 1\x1b[0m\nHF_TOKEN\x1b[0m=hush7abc\nend", "\x1b[1mstep 1\x1b[0m\nHF_TOKEN=***\nend"),
    ] {
        assert_eq!(mask::text(line), shown, "{line:?}");
        assert_eq!(mask::Lines::default().line(line), shown, "{line:?}");
    }
    let harmless = "\x1b[32mstep\x1b[0m 1\r\x1b[1mloss\x1b[0m 2.5 \u{202e}|\ttokens 7";
    assert_eq!(mask::text(harmless), harmless);
}

#[test]
fn a_login_in_arguments_is_hidden() {
    for args in [&["curl", "--user", "bob:hush"][..], &["curl", "-ubob:hush"], &["curl", "--user=bob:hush"], &["curl", "-u", "bob:hush"]] {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let shown = mask::arguments(&args).join(" ");
        assert!(shown.ends_with("bob:***"), "{shown}");
    }
}

/// If a hint were looked at with all of its line, this would take many minutes.
#[test]
fn a_long_line_of_hints_takes_linear_time() {
    const HINTS: &[&str] = &[
        "key",
        "://",
        "://a:b/",
        "https://h1.example.com,",
        "wandb ",
        "token is ",
        "token ",
        "password: ",
        "password=\"",
        "password=\\\"",
        " -p",
        " -p x",
        " -u",
        " --user=a",
        "bearer ",
        "-----BEGIN ",
        "auth=x,",
        "token=[\"",
        "cookie=a",
        "\x1b[0mkey=",
    ];
    for hint in HINTS {
        let line = hint.repeat((128 << 10) / hint.len());
        assert!(mask::text(&line).len() <= line.len(), "{hint:?}");
    }
}

#[test]
fn a_long_value_is_hidden_to_its_end() {
    let value = "Ab1".repeat(5000);
    for (before, after) in [("HF_TOKEN=", " end"), ("password=\"", "\" end"), ("https://me:", "@host/x"), ("Bearer ", ", end"), ("hf_", "")]
    {
        let shown = mask::text(&format!("{before}{value}{after}")).into_owned();
        assert!(!shown.contains("Ab1") && shown.ends_with(after), "{before} {}", shown.len());
    }
}

#[test]
fn secrets_of_several_lines_are_hidden() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let begin = ["-----BEGIN ", "PRIVATE KEY-----"].concat();
    let mut lines = mask::Lines::default();
    let mut shown = |line: &str| lines.line(line).into_owned();
    assert_eq!(shown(&format!("key: {begin}")), format!("key: {begin}"));
    assert_eq!(shown(body), MASK);
    assert_eq!(shown(&format!("[rank0]: {body}")), "[rank0]: ***");
    assert_eq!(shown("AbCd12=="), MASK);
    assert_eq!(shown("-----END PRIVATE KEY-----"), "-----END PRIVATE KEY-----");
    assert_eq!(shown(body), body, "the key is over");
    // Another rank writes in between: the key is over, and the line is read.
    shown(&begin);
    assert_eq!(shown("step 3 | loss 2.5"), "step 3 | loss 2.5");
    assert_eq!(shown(body), body);
    shown("    - name: HF_TOKEN");
    assert_eq!(shown("      value: hush"), "      value: ***");
    shown("    - name: NCCL_DEBUG");
    assert_eq!(shown("      value: INFO"), "      value: INFO");
    let text = "login:\n  api_key: |-\n    hush one\n\n    hush two\n  lr: 0.1\n";
    let lines = |text: &str| {
        let mut lines = mask::Lines::default();
        text.lines().map(|line| lines.line(line) + "\n").collect::<String>()
    };
    assert_eq!(mask::text(text), "login:\n  api_key: |-\n    ***\n  lr: 0.1\n");
    assert_eq!(lines(text), "login:\n  api_key: |-\n    ***\n\n    ***\n  lr: 0.1\n");
    let harmless = "command: |\n  python train.py\napi_key: |\nlr: 0.1\n";
    assert_eq!(mask::text(harmless), harmless);
    assert_eq!(lines(harmless), harmless);
}

proptest! {
    #[test]
    fn no_text_panics(text in "(?:\\PC|\n|\\\\|[\"'=: ]|token|Authorization: |-----BEGIN |PRIVATE KEY-----|://|@| -p|wandb|key|é){0,24}") {
        let shown = mask::text(&text).into_owned();
        prop_assert!(shown.len() <= text.len() * 4);
        let args: Vec<String> = text.split(' ').map(str::to_owned).collect();
        prop_assert_eq!(mask::arguments(&args).len(), args.len());
        let mut lines = mask::Lines::default();
        text.lines().for_each(|line| drop(lines.line(line)));
    }
}

/// What every secret of this test holds, and nothing else does.
const HUSH: &str = "HUSH7";

/// Lines of a log that become findings, evidence and lines on the screen.
const LOG: &str = "\
step 1 | loss 2.5\n\
node-17:101:101 [0] transport/net.cc:220 NCCL WARN could not log in with password=HUSH7a\n\
node-17:101:101 [0] transport/net.cc:221 NCCL WARN curl -H 'Authorization: Bearer HUSH7b' https://me:HUSH7c@host/x?sig=HUSH7d\n\
Namespace(wandb_key='HUSH7e', lr=0.1)\n\
export X_TOKEN=HUSH7f\n\
KEYHEAD\n\
HUSH7MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n\
-----END PRIVATE KEY-----\n\
step 2 | loss 2.4\n\
[rank0]: Traceback (most recent call last):\n\
[rank0]:   File \"/w/train.py\", line 7, in <module>\n\
[rank0]:     hub.login(token=\"HUSH7g\")\n\
[rank0]: ValueError: {'api_key': 'HUSH7h'} was refused\n\
step 3 | loss 2.3\n\
step 4 | loss 2.2\n";

/// A rank and a launcher below a fake root, with secrets in arguments and environment, and their log.
fn node(dir: &Path) -> (PathBuf, PathBuf) {
    let root = dir.join("root");
    let log = dir.join("api_key=HUSH7i.log");
    let head = ["-----BEGIN ", "PRIVATE KEY-----"].concat();
    fs::write(&log, LOG.replace("KEYHEAD", &head)).unwrap();
    let put = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("proc/sys/kernel/hostname", "node-17\n");
    put("proc/stat", "cpu 1 2 3\nbtime 1700000000\n");
    fs::create_dir_all(root.join("sys/class/net")).unwrap();
    let uid = fs::metadata(dir).unwrap().uid();
    let env = "RANK=0\0LOCAL_RANK=0\0WORLD_SIZE=1\0LOCAL_WORLD_SIZE=1\0HF_TOKEN=HUSH7j\0NCCL_API_KEY=HUSH7k\0\
               TORCH_HOME=https://me:HUSH7l@host/\0NCCL_NET_AUTH=me:HUSH7m\0";
    let args = "/usr/bin/python3\0t.py\0--hf-token\0HUSH7n\0--passphrase=HUSH7 o\0-u\0me\0-p\0HUSH7p\0-H\0Authorization: Basic HUSH7q\0\
                --db\0redis://:HUSH7r@host\0";
    for (pid, ppid, cmdline, env) in [(100, 1, "/usr/bin/python3\0/opt/bin/torchrun\0t.py\0--token\0HUSH7s\0", ""), (101, 100, args, env)] {
        put(&format!("proc/{pid}/cmdline"), cmdline);
        put(&format!("proc/{pid}/environ"), env);
        let head = format!("{pid} (python3) S {ppid} {pid} {pid} 0 -1 4194304 1 0 0 0 300 50 0 0 20 0 1 0 1000 1000 500");
        put(&format!("proc/{pid}/stat"), &format!("{head}{} 0\n", " 0".repeat(27)));
        put(&format!("proc/{pid}/status"), &format!("Name:\tpython3\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pid}\nVmRSS:\t 64 kB\n"));
        put(&format!("proc/{pid}/cgroup"), "0::/job\n");
        fs::create_dir_all(root.join(format!("proc/{pid}/fd"))).unwrap();
        symlink(&log, root.join(format!("proc/{pid}/fd/1"))).unwrap();
    }
    (root, log)
}

/// Everything that a run of the program printed.
fn printed(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    let done = command.args(args).current_dir(dir).env("HOME", dir).env_remove("XDG_CONFIG_HOME").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(!text.contains(HUSH), "{args:?}: {text}");
    text
}

/// Every file below a directory, gzip unpacked.
fn written(dir: &Path, out: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            written(&path, out);
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let packed = std::mem::take(&mut bytes);
            let _ = MultiGzDecoder::new(&packed[..]).read_to_end(&mut bytes);
        }
        out.push((path, String::from_utf8_lossy(&bytes).into_owned()));
    }
}

#[test]
fn no_output_of_any_command_holds_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let (root, log) = node(dir.path());
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let (root, log) = (root.to_str().unwrap(), log.to_str().unwrap());
    let run = |args: &[&str]| printed(&out, args);

    for json in [&[][..], &["--json"]] {
        let check = run(&[&["check", log][..], json].concat());
        assert!(check.contains("password=***") && check.contains("Bearer ***") && check.contains("'api_key': '***'"), "{check}");
    }
    assert!(run(&["rules", "--test", log]).contains("password=***"));

    let live = |args: &[&str]| run(&[args, &["--sysroot", root, "--interval", "200ms", "--log-file", "own.log"]].concat());
    let snapshot = live(&["snapshot", "--wait", "2s", "--bundle", "evidence"]);
    assert!(snapshot.contains("rank 0") || snapshot.contains("101"), "{snapshot}");
    assert!(live(&["snapshot", "--wait", "2s", "--json"]).contains("password=***"));
    assert!(live(&["watch", "--for", "2s"]).contains("***"));
    assert!(live(&["watch", "--for", "2s", "--json", "-o", "watched.jsonl.gz"]).contains("password=***"));
    let tape = live(&["record", "--for", "2s", "-o", "-"]);
    for shown in ["X_TOKEN=***", "wandb_key='***'", "\"--hf-token\",\"***\"", "\"--passphrase=***\"", "redis://***@host", "api_key=***"] {
        assert!(tape.contains(shown), "{shown} in {tape}");
    }
    live(&["record", "--for", "2s", "-o", "recorded.jsonl"]);
    run(&["config"]);
    run(&["check", "nothing?api_key=HUSH7t"]);
    run(&["replay", "--token=HUSH7u"]);

    // A recording of a version that did not mask as much.
    let text = fs::read_to_string(out.join("recorded.jsonl")).unwrap();
    assert!(text.contains("password=***"));
    let raw = dir.path().join("raw.jsonl");
    fs::write(&raw, text.replace("***@", "me:***@").replace("***", &format!("{HUSH}w0wx2"))).unwrap();
    let raw = raw.to_str().unwrap();
    for args in [&["replay", raw, "--headless"][..], &["replay", raw, "--headless", "--json"], &["check", raw], &["check", "--json", raw]] {
        assert!(run(args).contains("***"), "{args:?}");
    }
    fs::write(dir.path().join("raw.label.json"), r#"{"class": "token=HUSH7v", "ranks": [], "gpus": [], "since_s": 0.0}"#).unwrap();
    let scored = dir.path().to_str().unwrap();
    run(&["score", scored]);
    run(&["score", "--json", scored]);

    let mut files = Vec::new();
    written(&out, &mut files);
    for name in ["findings.txt", "processes.txt", "recording.jsonl.gz", "watched.jsonl.gz", "recorded.jsonl"] {
        let found = files.iter().find(|(path, _)| path.ends_with(name));
        assert!(found.is_some_and(|(_, text)| text.contains("***")), "{name}");
    }
    for (path, text) in files {
        assert!(!text.contains(HUSH), "{}: {text}", path.display());
    }
}

#[test]
fn the_screen_and_its_evidence_hold_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = node(dir.path());
    let out = dir.path().join("out");
    fs::create_dir(&out).unwrap();
    let mut s = Screen::start(&["--sysroot", root.to_str().unwrap(), "--interval", "200ms"], &out, &[], 40, 200);
    s.wait_for("step 4");
    for (key, shown) in [("6", "password=***"), ("7", "X_TOKEN=***"), ("8", "--hf-token ***"), ("9", "netdev")] {
        s.keys(key);
        s.wait_for(shown);
    }
    s.press("e\x15evidence\r", "written", |s| s.contents().contains("evidence: "));
    s.keys("q");
    assert_eq!(s.wait_end(), 0);
    assert!(!String::from_utf8_lossy(&s.raw()).contains(HUSH));
    let mut files = Vec::new();
    written(&out, &mut files);
    assert!(files.len() >= 3);
    for (path, text) in files {
        assert!(!text.contains(HUSH), "{}: {text}", path.display());
    }
}
