//! The catalogue of texts: its languages, its entries with every example, and users' own.

use nccl_top::base::severity::Severity;
use nccl_top::logs::catalog::pattern::{Atom, Pattern};
use nccl_top::logs::catalog::template::Template;
use nccl_top::logs::catalog::{Part, Scope, Signature, Told, all, by_id, find, find_warn, user};
use nccl_top::logs::error_words::exception_words;
use nccl_top::logs::{Reader, What, prefilter};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text, &[("code", "79")]).unwrap()
}

fn rules() -> Vec<user::RuleName> {
    nccl_top::rules::RULES.iter().map(|rule| user::RuleName { id: rule.id, advice: rule.advice }).collect()
}

#[test]
fn a_pattern_is_what_it_says() {
    for (text, finds, not) in [
        ("Call to * failed", "x Call to bind failed : y", "Call to bind worked"),
        ("^Call to", "Call to bind", "x Call to bind"),
        ("task #: Out", "task 12: Out", "task a: Out"),
        (r"\*\*\* STEP #", "*** STEP 12.0", "x STEP 12.0"),
        ("^Killed$", "Killed ", "Killed x"),
        ("a^b$c", "xa^b$cy", "abc"),
        ("Xid (*): {code},", "Xid (0): 79, x", "Xid (0): 7, 9"),
        ("a # b*c", "a 1 a 2 b, c", "a 1 a b"),
        ("ends *here$", "ends here, ends there and here  ", "ends here no"),
    ] {
        assert!(pattern(text).is_match(finds), "{text:?} is not found in {finds:?}");
        assert!(!pattern(text).is_match(not), "{text:?} is found in {not:?}");
    }
}

#[test]
fn captures_are_named() {
    for (text, line, want) in [
        ("Killed process {pid:#} ({process})", "Killed process 12 (pt main) x", &[("pid", "12"), ("process", "pt main")][..]),
        ("ON {node:word} CANCELLED", "JOB 7 ON n-1.x CANCELLED AT", &[("node", "n-1.x")]),
        ("StepId={job:word}.{step:word}", "in StepId=12.batch. Some", &[("job", "12"), ("step", "batch")]),
        ("{process:word} invoked", "[1.2] python3 invoked x", &[("process", "python3")]),
        ("GPU {gpu:pci}", "GPU at PCI: GPU 0000:2b:00.0: lost", &[("gpu", "0000:2b:00.0")]),
        ("(PCI:{gpu:pci}", "Xid (PCI:10000:9b:00 GPU-I:05)", &[("gpu", "10000:9b:00")]),
        ("reason: {why}", "reason:  no more \nnext", &[("why", "no more")]),
        ("from {one} to {other:#}", "from a to b to 7", &[("one", "a to b"), ("other", "7")]),
    ] {
        assert_eq!(pattern(text).captures(line).as_deref(), Some(want), "{text:?}");
    }
    assert_eq!(pattern("at {gpu:pci}").captures("at 12:34 and at noon"), None);
}

#[test]
fn mistakes_in_patterns_and_headlines_are_named() {
    for (text, why) in [
        ("a {b", "a { without its }"),
        ("a *# b", "two placeholders side by side"),
        ("a {B} b", "a capture's name is of small letters"),
        ("a {b:x}", "unknown kind \"x\""),
        ("a \\", "a \\ at the end"),
        (&"a".repeat(501), "the pattern has 501 bytes"),
    ] {
        let wrong = Pattern::parse(text, &[]).unwrap_err();
        assert!(wrong.contains(why), "{wrong}");
    }
    for (text, why) in
        [("a [b", "a [ without"), ("a ]b", "a ] without"), ("a [b [c]]", "a [ inside"), ("{a", "a { without"), ("\\", "at the end")]
    {
        let wrong = Template::parse(text).unwrap_err();
        assert!(wrong.contains(why), "{wrong}");
    }
}

#[test]
fn headlines_are_filled() {
    let value = |name: &str, how: &str| match (name, how) {
        ("a", "") => Some("1".to_owned()),
        ("b", "words") => Some("two".to_owned()),
        _ => None,
    };
    for (text, want) in [
        ("x {a} y", Some("x 1 y")),
        ("x {c} y", None),
        ("x[ {c}] y[ {b|words}]", Some("x y two")),
        ("[to {c}|from {a}|nowhere]", Some("from 1")),
        (r"\[{a}\] \{", Some("[1] {")),
    ] {
        assert_eq!(Template::parse(text).unwrap().fill(&value).as_deref(), want, "{text:?}");
    }
}

#[test]
fn every_row_is_whole() {
    let mut ids = BTreeSet::new();
    let is_known = |id: &&&str| **id == "*" || by_id(id).is_some() || nccl_top::rules::rule(id).is_some();
    for (table, s) in all() {
        assert!(ids.insert(s.id), "{} stands twice", s.id);
        assert!(nccl_top::rules::rule(s.rule).is_some(), "{}: no rule {}", s.id, s.rule);
        assert!(!s.examples.is_empty() && s.examples.len() <= 3, "{}: {} examples", s.id, s.examples.len());
        assert!(s.means.len() > 15 && s.next.len() > 10 && !s.source.is_empty() && !s.versions.is_empty(), "{}: a field is thin", s.id);
        assert!(s.part != Part::Harmless || s.severity <= Severity::Warning, "{}: harmless and {:?}", s.id, s.severity);
        assert!(!table.title.is_empty() && table.file.starts_with("assets/catalog/"), "{}", table.file);
        let unknown: Vec<_> = s.yields_to.iter().chain(s.explains).chain(s.hints).filter(|id| !is_known(id)).collect();
        assert!(unknown.is_empty(), "{}: no rule and no entry {unknown:?}", s.id);
    }
}

/// What a line is made of; `host` wrote it.
fn told(scope: Scope, text: &str, host: Option<&str>) -> Told {
    find(scope, text).unwrap_or_else(|| panic!("{text} is not known")).tell(text, host)
}

#[test]
fn lines_have_headlines() {
    for (text, want) in [
        (
            "NVRM: Xid (PCI:0000:9b:00): 79, pid=2201, name=python3, GPU has fallen off the bus.",
            "Xid 79 on GPU 0000:9b:00 (GPU has fallen off the bus), process python3 (pid 2201)",
        ),
        ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "Xid 14 on GPU 0000:03:00 (Channel 00000001)"),
        (
            "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 46, pid=2201, name=python3, GPU timeout",
            "Xid 46 on GPU 0000:01:00, GPU instance 05 (the GPU stopped answering in time), process python3 (pid 2201)",
        ),
        (
            "NVRM: Xid (PCI:0000:05:00): 54, pid='<unknown>', name=<unknown>, Auxiliary power is not connected",
            "Xid 54 on GPU 0000:05:00 (the GPU's auxiliary power is not connected)",
        ),
        (
            "NVRM: Xid (PCI:0000:01:00): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
            "Xid 63 on GPU 0000:01:00 (ECC page retirement or row remapping recorded), pid 1896",
        ),
        (
            "NVRM: Xid (PCI:0000:ab:00): 45, pid=9, name=x, Ch 01 caused by previous Xid 145",
            "Xid 145 on GPU 0000:ab:00; the driver took the GPU away from its programs (Xid 45)",
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
            "SXid 20034 on NVSwitch 0000:05:00.0 (Fatal, Link 30 LTSSM Fault Up)",
        ),
        ("NVRM: GPU 0000:2b:00.0: GPU has fallen off the bus.", "GPU 0000:2b:00.0 has fallen off the bus"),
        ("NVRM: GPU at PCI:0000:9b:00: GPU-509665ad has fallen off the bus.", "GPU 0000:9b:00 has fallen off the bus"),
        ("NVRM: fallen off the bus and is not responding to commands.", ""),
        (
            "Out of memory: Killed process 12345 (python3) total-vm:9kB, anon-rss:123456789kB, file-rss:0kB",
            "the kernel's OOM killer killed python3 (pid 12345), which held 117.7 GiB: the host is out of memory",
        ),
        (
            "Memory cgroup out of memory: Kill process 12345 (pt_data_worker) score 1912 or sacrifice child",
            "the kernel's OOM killer killed pt_data_worker (pid 12345): its memory cgroup is at its limit",
        ),
        (
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=abc,mems_allowed=0-1,oom_memcg=/slurm/job_12,task_memcg=/slurm/job_12/step_0,task=python3,pid=12345,uid=0",
            "the kernel's OOM killer killed python3 (pid 12345): memory cgroup /slurm/job_12 is at its limit",
        ),
        (
            "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=12345,uid=0",
            "the kernel's OOM killer killed python3 (pid 12345): the host is out of memory",
        ),
        (
            "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
            "python3 asked for memory and the kernel ran its OOM killer",
        ),
        (
            "slurmstepd: error: *** STEP 4711.0 ON node-1 CANCELLED AT 2026-04-20T09:09:37 DUE TO TIME LIMIT ***",
            "Slurm cancelled job 4711 step 0 on node-1: time limit",
        ),
        ("slurmstepd: error: *** JOB 4711 ON node-1 CANCELLED AT 2026-04-20T09:09:37 ***", "Slurm cancelled job 4711 on node-1"),
        (
            "slurmstepd: error: *** JOB 4711 ON node-1 CANCELLED AT 2026-04-20T09:09:37 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
            "Slurm cancelled job 4711 on node-1: node failure",
        ),
        (
            "slurmstepd: error: *** STEP 4711.0 ON node-1 CANCELLED AT 2026-04-20T09:09:37 DUE to SIGNAL Terminated ***",
            "Slurm cancelled job 4711 step 0 on node-1: signal Terminated",
        ),
        (
            "slurmstepd: error: *** STEP 4711.0 ON node-1 FAILED (non-zero exit code or other failure mode) ***",
            "Slurm: job 4711 step 0 failed on node-1",
        ),
        ("srun: Force Terminated StepId=4711.0", "Slurm ended job 4711 step 0 by force"),
        ("srun: launch/slurm: _step_signal: Terminating StepId=4711.0", "Slurm ends job 4711 step 0"),
        ("srun: error: Node failure on node-3", "Slurm lost node node-3: node failure"),
        (
            "slurmstepd: error: Detected 3 oom_kill events in StepId=123.batch. Some of the step tasks have been OOM Killed.",
            "Slurm saw 3 OOM kills in job 123 step batch: host memory is at the job's limit",
        ),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 123.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
            "Slurm saw 1 OOM kill in job 123 step 0: host memory is at the job's limit",
        ),
        ("srun: error: node-1: task 0: Out Of Memory", "Slurm task 0 on node-1 ran out of host memory"),
        ("srun: error: node-1: task 3: Exited with exit code 1", "Slurm task 3 on node-1 exited with exit code 1"),
        ("srun: error: node-1: task 3: Killed", "Slurm task 3 on node-1 was killed (SIGKILL)"),
        ("srun: error: node-1: tasks 0-7: Killed", "Slurm tasks 0-7 on node-1 were killed (SIGKILL)"),
        ("srun: error: node-1: task 3: Segmentation fault (core dumped)", "Slurm task 3 on node-1 ended: Segmentation fault (core dumped)"),
        ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", ""),
        (
            "srun: error: Unable to create step for job 123: More processors requested than permitted",
            "Slurm could not create a step of job 123: More processors requested than permitted",
        ),
        ("slurmstepd: error: Unable to send job complete message: Unable to contact slurm controller", ""),
        (
            "['/usr/bin/python3', 'train.py'] exits with return code = -9",
            "DeepSpeed's launcher: a process ended: killed by signal 9 (SIGKILL)",
        ),
        (r#"DEBUG events Pod: team-a.worker-3 exited with code 137 {"type": "Normal"}"#, "pod team-a.worker-3 ended: exit code 137"),
        (
            "Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=4, OpType=BROADCAST, TensorShape=[4, 2], TensorDtypes=Float), but Rank 0 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE).",
            "rank 1 called BROADCAST of shape [4, 2] at sequence number 4, rank 0 called ALLREDUCE",
        ),
        (
            "[5] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0'",
            "rank 0 did not make the NCCL communicator that rank 5 waits for",
        ),
    ] {
        assert_eq!(told(Scope::Line, text, None).headline.unwrap_or_default(), want, "{text}");
    }
    for (text, want) in [
        (
            "NET/IB : Got completion from peer 10.0.0.7<43211> with error 12, opcode 32631, len 32630, vendor err 129 (Send) localGid fe80::bace:f6ff:fe3d:1a2c",
            "InfiniBand completion status 12 (transport retry counter exceeded) to peer 10.0.0.7<43211>, vendor error 129",
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.7<43211> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_SEND(0) vendor_err=249  localGid ::ffff:10.8.0.1 remoteGids::ffff:10.8.0.7 hca mlx5_3",
            "RoCE completion status 5 (work request flushed) with peer 10.0.0.7<43211>, device mlx5_3, vendor error 249",
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.7<43211> with status=10 opcode=1 len=0 vendor err 136 (Recv) hca mlx5_3",
            "InfiniBand completion status 10 (remote access error) from peer 10.0.0.7<43211>, device mlx5_3, vendor error 136",
        ),
        ("NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)", "InfiniBand port mlx5_3:1: port error"),
        ("NET/IB : Got async event : port error", "InfiniBand port error"),
    ] {
        assert_eq!(told(Scope::Nccl, text, None).headline.unwrap_or_default(), want, "{text}");
    }
}

#[test]
fn texts_name_things_ranks_and_causes() {
    let xid = told(Scope::Line, "NVRM: Xid (PCI:0000:9b:00): 48, pid=7, name=x, DBE", Some("node-7"));
    assert_eq!(xid.headline.as_deref(), Some("Xid 48 on GPU 0000:9b:00 on node-7 (double-bit ECC error), process x (pid 7)"));
    assert_eq!(xid.thing.as_deref(), Some("0000:9b:00 on node-7"));
    let follows = told(Scope::Line, "NVRM: Xid (PCI:0000:ab:00): 45, pid=9, Ch 01 caused by previous Xid 145", None).follows;
    assert_eq!(follows.map(|s| s.id), Some("xid-145"));
    for (scope, text, ranks) in [
        (Scope::Nccl, "Duplicate GPU detected : rank 9 and rank 4 both on CUDA device 1000", Some(vec![4, 9])),
        (Scope::Line, "ncclInternalError: Internal check failed.\nLast error:\nProxy Call to rank 12 failed (Connect)", Some(vec![12])),
        (
            Scope::Line,
            "[5] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0'",
            Some(vec![0]),
        ),
        (Scope::Line, "srun: error: Node failure on node-3", None),
    ] {
        assert_eq!(told(scope, text, None).ranks, ranks, "{text}");
    }
    let step = "slurmstepd: error: *** STEP 4711.0 ON node-1 CANCELLED AT 2026-04-20T09:09:37 ***";
    assert_eq!(find(Scope::Line, step).unwrap().capture(step, "job"), Some("4711"));
}

#[test]
fn the_source_file_says_more_than_the_text() {
    let text = "Cuda failure 1 'invalid argument'";
    for (site, id) in
        [(None, "cuda-invalid-arg"), (Some("init.cc:12"), "cuda-invalid-arg"), (Some("transport/nvls.cc:300 (f)"), "nvls-cuda")]
    {
        assert_eq!(find_warn(site, text).map(|s| s.id), Some(id), "{site:?}");
    }
}

/// The same in another language: a regular expression of a pattern without words and addresses.
fn expression(pattern: &Pattern) -> Option<regex::Regex> {
    let parts = pattern.atoms.iter().map(|atom| match atom {
        Atom::Text(text) => Some(regex::escape(text)),
        Atom::Any(_) => Some(".*?".into()),
        Atom::Digits(_) => Some("[0-9]+".into()),
        Atom::Word(_) | Atom::Pci(_) => None,
    });
    let parts: Vec<String> = parts.collect::<Option<_>>()?;
    let (start, end) = (if pattern.at_start { "^" } else { "" }, if pattern.at_end { r"\s*$" } else { "" });
    Some(regex::Regex::new(&format!("(?s){start}{}{end}", parts.concat())).unwrap())
}

/// Lines that are cut and put together: a piece of one example behind a piece of another.
fn text() -> impl Strategy<Value = String> {
    let examples: Vec<&'static str> = all().flat_map(|(_, s)| s.examples).copied().collect();
    let cut = (prop::sample::select(examples), any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(text, a, b)| {
        let at = |i: prop::sample::Index| (0..=i.index(text.len() + 1)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (a, b) = (at(a), at(b));
        text[a.min(b)..a.max(b)].to_owned()
    });
    (cut.clone(), r"\PC{0,9}|[0-9:.a-f]{0,30}|\*\*\* ", cut).prop_map(|(a, b, c)| a + &b + &c)
}

proptest! {
    #[test]
    fn no_text_makes_a_pattern_or_headline_panic(text in text()) {
        prefilter::classify(text.as_bytes());
        prefilter::is_noise_with_any_digits(text.as_bytes());
        for (_, s) in all() {
            s.tell(&text, Some("h"));
        }
    }

    #[test]
    fn a_pattern_is_found_as_a_regular_expression_is(text in text(), nos in prop::collection::vec(any::<prop::sample::Index>(), 20)) {
        let patterns: Vec<&Pattern> = all().flat_map(|(_, s)| s.texts.iter().chain(s.captures)).collect();
        for pattern in nos.iter().map(|no| *no.get(&patterns)) {
            if let Some(regex) = expression(pattern) {
                prop_assert_eq!(pattern.is_match(&text), regex.is_match(&text), "{}", pattern.text);
            }
        }
    }

    #[test]
    fn any_pattern_and_headline_is_read_or_refused(text in r"[*#^${}\[\]|\\:a-c 1]{0,20}|\PC{0,20}", line in r"[abc1 :]{0,20}") {
        if let Ok(pattern) = Pattern::parse(&text, &[("a", "b")]) {
            pattern.captures(&line);
        }
        if let Ok(template) = Template::parse(&text) {
            template.fill(&|name, _| Some(name.to_owned()));
        }
    }

    #[test]
    fn no_file_of_a_user_makes_it_panic(a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(), text in r##"[\[\]{}="#*^$|a-z0-9 \n]{0,20}"##) {
        let sample = include_str!("../../assets/catalog-sample.toml");
        let at = |i: prop::sample::Index| i.index(sample.len() + 1);
        let mutated = format!("{}{text}{}", &sample[..at(a)], &sample[at(b)..]);
        let _ = user::read(&[("a.toml".to_owned(), mutated)], &rules());
    }

    #[test]
    fn what_an_entry_finds_passes_the_gate(text in text()) {
        if let Some(s) = find(Scope::Line, &text) {
            let is_alone = s.texts[..s.alone].iter().any(|p| p.is_match(&text)) && !text.contains(" NCCL INFO ");
            prop_assert!(!is_alone || prefilter::classify(text.as_bytes()) != prefilter::Class::Noise, "{}", s.id);
        }
    }
}

/// The examples of entries that have more than three, by id: `== id` and the example, which may have several lines.
fn more_examples() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/catalog");
    let mut all = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let examples = text.strip_prefix("== ").unwrap().trim_end_matches('\n').split("\n== ");
        all.extend(examples.map(|e| e.split_once('\n').map(|(id, example)| (id.to_owned(), example.to_owned())).unwrap()));
    }
    all
}

/// Each example goes the whole way: through the gate, off with its prefix, to its signature and no other.
#[test]
fn every_example_is_found_as_what_it_is() {
    let more = more_examples();
    let mut wrong: Vec<String> = more.iter().filter(|(id, _)| by_id(id).is_none()).map(|(id, _)| format!("{id}: no such entry")).collect();
    for (_, s) in all() {
        let further = more.iter().filter(|(id, _)| id == s.id).map(|(_, example)| example.as_str());
        let examples: Vec<&str> = s.examples.iter().copied().chain(further).collect();
        wrong.extend(examples.iter().filter_map(|e| check(s, e).err().map(|why| format!("{}: {why}\n    {e}", s.id))));
        for pattern in s.texts {
            // A prefix may stand before the text.
            let bare = Pattern { at_start: false, at_end: false, ..*pattern };
            if !examples.iter().any(|e| bare.is_match(e)) {
                wrong.push(format!("{}: no example shows {:?}", s.id, pattern.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn check(s: &Signature, example: &str) -> Result<(), String> {
    let mut events = Vec::new();
    let mut reader = Reader::default();
    for line in example.split('\n') {
        if !reader.is_inside() && prefilter::classify(line.as_bytes()) == prefilter::Class::Noise {
            return Err(format!("the gate lets {line:?} not through"));
        }
        reader.line(line, &mut events);
    }
    reader.idle(&mut events);
    let of_event = |what: &What| match what {
        What::TakingDown { .. } => None,
        // By its own words, whatever NCCL's last error in it is.
        What::Exception(e) => find(Scope::Line, &exception_words(e)),
        what => what.signature(),
    };
    let found: Vec<&str> = events.iter().filter_map(|e| of_event(&e.what)).map(|f| f.id).collect();
    match found.first() {
        Some(id) if *id == s.id => Ok(()),
        // Lines that a reader takes whole (the watchdog's, torchrun's) are known by their text alone.
        None if !events.is_empty() && s.scope == Scope::Line && find(s.scope, &nccl_top::base::clean::clean(example)) == Some(s) => Ok(()),
        _ => Err(format!("found {found:?}")),
    }
}

#[test]
fn mistakes_in_users_files_are_named_with_their_place() {
    let entry = |more: &str| format!("[[entry]]\nid = \"own\"\nrule = \"nccl-warn\"\nmeans = \"m\"\n{more}\n");
    let long = "x".repeat(501);
    for (text, says) in [
        ("title = 3\n".to_owned(), "a.toml:1: title: expected a text in quotes, found a number"),
        ("\nscope = \"all\"\n".into(), "a.toml:2: scope: found \"all\", expected one of \"nccl\", \"line\""),
        ("a = 1\nb\n".into(), "a.toml:2: "),
        ("\ntitel = \"x\"\n".into(), "a.toml:2: titel: unknown key, expected one of title, scope, defaults"),
        ("[defaults]\nsevere = 1\n".into(), "a.toml:2: severe: unknown key, expected one of id, scope"),
        ("mute = [\"no-such\"]\n".into(), "a.toml:1: mute: \"no-such\" is no entry; nccl-top rules lists them"),
        ("mute = [\"straggler\", \"gpu-xid\"]\n".into(), "a.toml:1: mute: \"gpu-xid\" is a rule; name entries that stand under it"),
        ("[severity]\nxid-79 = \"bad\"\n".into(), "a.toml:2: xid-79: found \"bad\", expected one of \"info\", \"warning\""),
        ("[severity]\nxid-7 = \"info\"\n".into(), "a.toml:2: severity: \"xid-7\" is no entry; did you mean xid-70"),
        (entry(""), "a.toml:1: entry own: texts: missing; an entry is found by its texts"),
        ("[[entry]]\ntexts = [\"abcdef\"]\n".into(), "a.toml:1: entry: id: missing; the entry, [defaults] or its form must have it"),
        (
            entry("texts = [\"abcdef\"]\n[[entry]]\nid = \"own\"\ntexts = \"fedcba\"\nrule = \"nccl-warn\"\nmeans = \"m\""),
            "a.toml:7: entry own: id: it stands twice",
        ),
        (
            entry("texts = [\"abcdef\"]\nheadline = \"{x}\""),
            "a.toml:6: entry own: headline: \"{x}\": {x}: no text and none of captures has that name",
        ),
        (
            entry("texts = [\"abcdef {x}\"]\nheadline = \"{x|y}\""),
            "a.toml:6: entry own: headline: \"{x|y}\": {x|y}: no such table of words",
        ),
        (entry("texts = [\"abcdef\"]\nranks = [\"r\"]"), "a.toml:6: entry own: ranks: no text and none of captures has the name \"r\""),
        (entry("texts = [\"abc*def\"]"), "a.toml:5: entry own: texts: \"abc*def\": no piece of text of 5 letters or more"),
        (entry("texts = [\"abcdef {x\"]"), "a.toml:5: entry own: texts: \"abcdef {x\": a { without its }"),
        (entry(&format!("texts = [\"{long}\"]")), "the pattern has 501 bytes, at most 500 are allowed"),
        (entry("texts = [\"abcdef\"]\nseverity = \"awful\""), "a.toml:6: entry own: severity: found \"awful\", expected one of"),
        (entry("texts = [\"abcdef\"]\nyields_to = [\"nobody\"]"), "a.toml:1: entry own: no rule and no entry \"nobody\""),
        (
            entry("texts = [\"abcdef\"]").replace("nccl-warn", "no-rule"),
            "a.toml:1: entry own: rule: no rule \"no-rule\"; nccl-top rules lists them",
        ),
        (entry("texts = [\"abcdef\"]").replace("\"own\"", "\"Own\""), "a.toml:2: entry Own: id: found \"Own\", expected small letters"),
        (
            entry("texts = [\"abcdef\"]").replace("\"m\"", "\"\\u001b[31m\""),
            "a.toml:4: entry own: means: '\\u{1b}' is no sign to show; remove it",
        ),
        (entry("texts = [\"abcdef\"]\nform = \"f\""), "a.toml:6: form: found \"f\", expected one of "),
    ] {
        let wrong = user::read(&[("a.toml".to_owned(), text.clone())], &rules()).map(drop).expect_err(&text).to_string();
        assert!(wrong.contains(says), "{text}\n got {wrong}\nwant {says}");
    }
}

fn nccl_top(home: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    command.args(args).current_dir(home).env("XDG_CONFIG_HOME", home.join("config")).env("HOME", home).env("NO_COLOR", "1");
    let out = command.output().unwrap();
    (out.status.code(), String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
}

const LOG: &str = "\
wekafs: mount /data lost its backend, error 5\n\
wekafs: mount /home lost its backend, error 9\n\
step 7 | loss 2.0\n\
[rank5]: rank 3 diverged at step 12\n\
WARNING: destroy_process_group() was not called before program exit\n\
srun: error: Timed out waiting for job step to complete\n\
vm:1:1 [0] NCCL INFO NET/Ours : retrying queue pair 7\n\
vm:1:1 [0] a.cc:1 NCCL WARN Cuda failure 'unknown error'\n\
nothing of \x1b[31mnote\n";

/// Severity, rule, entry, ranks and headline of each finding of `check`.
fn findings(home: &Path, args: &[&str]) -> Vec<String> {
    let (code, out, err) = nccl_top(home, &[&["check", "--json"], args, &["job.log"]].concat());
    assert!(code != Some(2), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let words = |f: &Value| format!("{} {} {} {} {}", f["severity"], f["rule"], f["signature"], f["ranks"], f["summary"]).replace('"', "");
    report["findings"].as_array().unwrap().iter().map(words).collect()
}

#[test]
fn users_add_replace_mute_and_judge_texts() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let write = |name: &str, text: &str| std::fs::write(home.join(name), text).unwrap();
    write("job.log", LOG);
    let sample = include_str!("../../assets/catalog-sample.toml");
    let all_of = |found: &[String], wanted: &[&str]| {
        wanted.iter().for_each(|want| assert!(found.iter().any(|f| f.contains(want)), "{want} is not in {found:#?}"));
    };
    let before = findings(home, &[]);
    all_of(&before, &["cuda-failure [] CUDA device 0 of vm: Cuda failure 'unknown error'", "warning program-error slurm-error"]);
    assert!(before.iter().all(|f| !f.contains("weka") && !f.contains("diverged") && !f.contains("own-")), "{before:#?}");
    // The sample, from the command line.
    write("own.toml", sample);
    let found = findings(home, &["--catalog", "own.toml"]);
    all_of(
        &found,
        &[
            "critical storage-failed weka-lost [] the file system /data is gone (input/output error)",
            "critical storage-failed weka-lost [] the file system /home is gone",
            "error loss-not-finite own-divergence [3] rank 3 diverged",
            "info program-error slurm-error",
            "info nccl-warn own-plugin-retry",
        ],
    );
    assert!(found.iter().all(|f| !f.contains("pg-not-destroyed")), "{found:#?}");
    // Besides it, what stands in the folder of settings: the later file wins.
    let folder = home.join("config/nccl-top/catalog");
    std::fs::create_dir_all(&folder).unwrap();
    let replaced = "mute = [\"cuda-failure\"]\n[[entry]]\nid = \"slurm-error\"\nrule = \"job-cancelled\"\nmeans = \"ours\"\ntexts = [\"Timed out waiting for job\"]\n\
         [[entry]]\nid = \"own-divergence\"\nrule = \"nccl-warn\"\nmeans = \"not this\"\ntexts = [\"abcdefg\"]\n";
    std::fs::write(folder.join("a.toml"), replaced).unwrap();
    let found = findings(home, &["--catalog", "own.toml"]);
    all_of(&found, &["info job-cancelled slurm-error", "own-divergence [3]"]);
    assert!(found.iter().all(|f| !f.contains("Cuda failure")), "{found:#?}");
    let warnings: Value = serde_json::from_str(&nccl_top(home, &["check", "--json", "job.log"]).1).unwrap();
    let check = warnings["checklist"].as_array().unwrap().iter().find(|item| item["id"] == "no-warnings").unwrap();
    assert_ne!(check["status"], "warn", "a muted WARN is counted: {check}");

    let (_, list, _) = nccl_top(home, &["rules", "--catalog", "own.toml"]);
    for want in
        ["\nOur cluster (own.toml)\n", "\nNCCL: RAS (built in)\n", "  weka-lost                  critical  The WEKA", "(muted) A CUDA call"]
    {
        assert!(list.contains(want), "{want} is not in the list");
    }
    assert_eq!(list.matches("\n  slurm-error ").count(), 1);
    let (_, one, _) = nccl_top(home, &["rules", "weka-lost", "--catalog", "own.toml"]);
    assert!(one.contains("From: own.toml.") && one.contains("Stands under the rule: storage-failed"), "{one}");
    let (_, one, _) = nccl_top(home, &["rules", "cuda-failure"]);
    assert!(one.contains("From: assets/catalog/nccl-gpu.toml, built in.") && one.contains("Muted: "), "{one}");

    let (code, tested, _) = nccl_top(home, &["rules", "--test", "job.log", "--catalog", "own.toml"]);
    let words: Vec<String> = tested.lines().map(|l| l.split_whitespace().take(4).collect::<Vec<_>>().join(" ")).collect();
    let want = [
        "1 weka-lost storage-failed wekafs:",
        "2 weka-lost storage-failed wekafs:",
        "3 reader: step -",
        "4 own-divergence loss-not-finite [rank5]:",
        "5 pg-not-destroyed (muted) rank-exited",
        "6 slurm-error job-cancelled srun:",
        "7 own-plugin-retry nccl-warn vm:1:1",
        "8 cuda-failure (muted) cuda-error",
        "",
        "9 lines, 1 of",
    ];
    assert_eq!((code, words.iter().map(String::as_str).collect::<Vec<_>>()), (Some(0), want.to_vec()));
    assert!(!tested.contains('\x1b'));
}

#[test]
fn a_file_that_is_wrong_ends_every_command() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    std::fs::write(home.join("job.log"), LOG).unwrap();
    std::fs::write(home.join("bad.toml"), "mute = 1\n").unwrap();
    std::fs::write(home.join("large.toml"), "#".repeat((1 << 20) + 1)).unwrap();
    let fails = |args: &[&str], says: &str| {
        let (code, _, err) = nccl_top(home, args);
        assert!(code == Some(2) && err.contains(says), "{args:?}: {code:?} {err}");
    };
    fails(&["check", "--catalog", "bad.toml", "job.log"], "bad.toml:1: mute: expected a list, found a number");
    fails(&["rules", "--catalog", "none.toml"], "none.toml: no such file");
    fails(&["rules", "--catalog", "large.toml"], "large.toml: larger than 1024 KiB, which no file of its kind is");
    fails(&["rules", "--test", "none.log"], "none.log: no such file");
    fails(&["rules", "--test", "."], ".: not one file; name one, or - for standard input");
    let folder = home.join("config/nccl-top/catalog");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("b.toml"), "[[entry]]\nid = \"own\"\nmeans = \"m\"\ntexts = \"abcdef\"\n").unwrap();
    fails(&["check", "job.log"], "catalog/b.toml:1: entry own: rule: missing; the entry, [defaults] or its form must have it");
}
