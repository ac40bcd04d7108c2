use super::*;
use crate::base::time::{Stamp, Zone};
use crate::diagnosis::conclusion::Conclusion;
use crate::model::job_record::Record;
use proptest::prelude::*;

fn judged(case: &mut Intake) -> Conclusion {
    case.end();
    Conclusion::of(&case.session, &[])
}

fn record(case: &Intake) -> &Record {
    case.session.model.record_of("x.log")
}

#[test]
fn what_has_no_time_was_said_after_the_timed_line_before_it() {
    let [early, late] = ["01", "09"].map(|second| {
        format!("[rank0]:[W1121 00:00:{second}.000000000 ProcessGroupNCCL.cpp:5068] Guessing device ID based on global rank. This can cause a hang if rank to GPU mapping is heterogeneous.\n")
    });
    let text = [&early, &late, &early, "h:1:1 [0] a.cc:1 NCCL WARN odd\n"].concat();
    let (mut case, _) = fast(text.as_bytes(), CHUNK);
    let (mut plain, _) = slow(text.as_bytes());
    assert_eq!(difference(&known(&mut case), &known(&mut plain)), None);
    let at = record(&case).alarms.iter().last().and_then(|a| a.at).map(|at| Zone::UTC.rfc3339(at));
    assert!(at.as_deref().is_some_and(|at| at.ends_with("-11-21T00:00:01.000+00:00")), "{at:?}");
}

/// What a case knows, as far as two ways of reading must agree, in pieces. How often and when a line of bring-up came again does not
/// matter.
fn known(case: &mut Intake) -> Vec<String> {
    let again =
        regex::Regex::new(r#" lines: \d+|\w+: Proof .*? text: "(?:\\.|[^"\\])*" \}|\w+: Some\(Proof .*? text: "(?:\\.|[^"\\])*" \}\)"#)
            .unwrap();
    let (mut all, mut said) = (Vec::new(), HashSet::new());
    for a in record(case).alarms.iter() {
        // Said again, it may be of a rank that is known by then.
        if let What::Signed { signature, .. } = &a.event.what
            && signature.part == Part::Harmless
        {
            if said.insert((signature.id, a.event.origin.pid)) {
                all.push(format!("harmless {} {:?}", signature.id, a.event.origin.pid));
            }
            continue;
        }
        all.push(format!("alarm {} {:?} {:?} {:?} {} {} {:?}", a.run, a.line, a.rank, a.at, a.count, a.text, a.event));
    }
    let log = &case.session.model.files[&0];
    let p = &log.progress;
    all.push(format!("progress {:?} {:?} {:?} {} {:?}", p.step, p.total_steps, p.loss, p.skipped_steps, p.done_at));
    all.push(again.replace_all(&format!("bringup {:?}", log.bringup), "").into_owned());
    let of_all = record(case);
    all.push(format!("{:?} {:?} {:?} {:?}", of_all.transports, of_all.hosts, of_all.ranks, of_all.init_s));
    let mut findings = judged(case).findings;
    // Losses of exactly 0 are counted in a row, and a long row is thinned out.
    findings.retain(|f| f.subject != "gradients");
    all.extend(findings.iter().map(|f| format!("{} {:?} {} {:?}", f.rule, f.severity, f.subject, f.evidence)));
    all.iter().flat_map(|s| s.split(", ")).map(str::to_owned).collect()
}

/// The first thing that differs.
fn difference(a: &[String], b: &[String]) -> Option<String> {
    let at = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i))?;
    let around = |all: &[String]| all[at.saturating_sub(6).min(all.len())..all.len().min(at + 2)].join(", ");
    Some(format!("{}\n{}", around(a), around(b)))
}

fn is_chatter(line: &[u8]) -> bool {
    prefilter::Sieve::new(line).next_candidate().line.is_none()
}

fn tell(case: &mut Intake, file: u32, no: u64, text: &str, events: &mut Vec<TextEvent>) {
    let line = ReadLine { no: Some(no), text: &clean::clean(text), bytes: text.len() };
    case.session.read(file, &line, events);
}

/// Every line through the reader, in the plainest way.
fn slow(text: &[u8]) -> (Intake, u64) {
    let mut case = Intake::new(Zone::UTC);
    let file = case.log_file("x.log", Stamp(0), 0);
    let (mut reader, mut events, mut no) = (Reader::default(), Vec::new(), 0);
    for line in text.split_inclusive(|b| *b == b'\n') {
        no += 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        for piece in line.strip_suffix(b"\r").unwrap_or(line).split(|b| *b == b'\r') {
            reader.at_line(Some(no));
            reader.line(&text_of(piece), &mut events);
            tell(&mut case, file, no, &text_of(piece), &mut events);
        }
    }
    reader.idle(&mut events);
    tell(&mut case, file, no + 1, "", &mut events);
    (case, no)
}

/// The way that `check` takes, with chunks of a size; of steps some are passed over from the start.
fn fast(text: &[u8], chunk: usize) -> (Intake, u64) {
    let mut case = Intake::new(Zone::UTC);
    let file = case.log_file("x.log", Stamp(0), 0);
    let mut lines = Lines::new(&mut case, file);
    lines.lanes.all_steps = 3;
    cut(&mut io::Cursor::new(text), chunk, &mut lines, &mut || ()).unwrap();
    let count = lines.no - 1;
    lines.end();
    (case, count)
}

fn recordings() -> Vec<(String, Vec<u8>)> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/logs");
    let paths = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    paths.map(|p| (p.display().to_string(), std::fs::read(&p).unwrap())).collect()
}

#[test]
fn the_fast_way_sees_what_every_line_says() {
    for (name, text) in recordings() {
        let (mut plain, lines) = slow(&text);
        let want = known(&mut plain);
        for chunk in [1000, CHUNK] {
            let (mut case, count) = fast(&text, chunk);
            assert_eq!(count, lines, "{name}");
            assert_eq!(difference(&known(&mut case), &want), None, "{name} {chunk}");
        }
    }
}

#[test]
fn chunks_may_end_anywhere() {
    let text =
        b"vm:1:1 [0] NCCL INFO Tree 0\r\nvm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\nstep 1 loss 2\nstep 2 loss 3\n\n\
        vm:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/IPC\rstep 3 loss 3\rstep 4 loss nan\nvm:1:1 [0] NCCL INFO Ring 0 x\
        vm:1:2 [1] a.cc:1 NCCL WARN torn\n[rank1]: Traceback (most recent call last):\r\n[rank1]: ValueError: bad\r\nstep 5 loss 1";
    let (mut plain, lines) = slow(text);
    let want = known(&mut plain);
    for chunk in 1..text.len() + 2 {
        let (mut case, count) = fast(text, chunk);
        assert_eq!(count, lines, "{chunk}");
        assert_eq!(difference(&known(&mut case), &want), None, "{chunk}");
    }
}

#[test]
fn a_bar_that_is_redrawn_for_hours_is_read_to_its_end() {
    let mut text = b"start\n".to_vec();
    (1..=20_000).for_each(|i| text.extend_from_slice(format!("\r  9%|#    | {i}/90000 [00:01<10:00, 9.00it/s]").as_bytes()));
    text.extend_from_slice(b"\nh:1:1 [0] a.cc:1 NCCL WARN odd\n");
    for chunk in [999, CHUNK] {
        let (case, lines) = fast(&text, chunk);
        assert_eq!((lines, case.session.model.files[&0].progress.step), (3, Some(20_000)));
        assert_eq!(record(&case).alarms.iter().next().and_then(|a| a.line), Some(3));
    }
}

proptest! {
    #[test]
    fn what_is_like_a_form_has_its_letters(known in "[a1/. ]{0,12}", other in "[a12/. ]{0,12}") {
        let mut form = Form::default();
        form.learn(known.as_bytes());
        let of = |line: &str| letters(line.as_bytes(), &mut [0; MAX_STEP]).to_vec();
        prop_assert!(form.is_like(known.as_bytes()));
        prop_assert!(!form.is_like(other.as_bytes()) || of(&known) == of(&other));
    }

    #[test]
    fn lines_are_told_apart(line in prop::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut other = line.clone();
        other.push(0);
        prop_assert_ne!(hash(&line), hash(&other));
        if !line.is_empty() {
            other.pop();
            other[at.index(line.len())] ^= 1_u8 << bit;
            prop_assert_ne!(hash(&line), hash(&other));
        }
    }
}

/// The same mixes each time, so that a change is what makes it fail; PROPTEST_RNG_SEED and PROPTEST_CASES try others.
fn cases() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let is_set = |name| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if is_set("PROPTEST_CASES") { asked.cases } else { 48 },
        rng_seed: if is_set("PROPTEST_RNG_SEED") { asked.rng_seed } else { proptest::test_runner::RngSeed::Fixed(1) },
        ..asked
    }
}

proptest! {
    #![proptest_config(cases())]
    #[test]
    fn any_mix_of_lines_says_the_same_either_way(
        picks in prop::collection::vec((any::<prop::sample::Index>(), 0..12_u8, any::<prop::sample::Index>()), 0..150),
        chunk in 1..5000_usize,
    ) {
        static LINES: std::sync::LazyLock<Vec<Vec<u8>>> = std::sync::LazyLock::new(|| {
            let all = recordings();
            let lines = all.iter().flat_map(|(_, text)| text.split(|b| *b == b'\n'));
            // A run that begins again says the same of its bring-up again, and it is not read again.
            lines.filter(|l| memchr::memmem::find(l, b"OMP_NUM_THREADS").is_none()).map(<[u8]>::to_vec).collect()
        });
        let mut text = Vec::new();
        for (pick, end, cut) in picks {
            let line = pick.get(&LINES);
            // What is glued to chatter is passed over with it.
            let begun = text.rsplit(|b| *b == b'\n').next().is_some_and(is_chatter);
            match end {
                0 | 2 if begun || is_chatter(line) => text.extend_from_slice(&[line, &b"\n"[..]].concat()),
                0 => text.extend_from_slice(&line[..cut.index(line.len() + 1)]),
                1 => text.extend_from_slice(&[line, &b"\r\n"[..]].concat()),
                2 => text.extend_from_slice(&[line, &b"\r"[..]].concat()),
                3 => text.extend_from_slice(b"\n"),
                _ => text.extend_from_slice(&[line, &b"\n"[..]].concat()),
            }
        }
        let (mut plain, lines) = slow(&text);
        let (mut case, count) = fast(&text, chunk);
        prop_assert_eq!(count, lines);
        prop_assert_eq!(difference(&known(&mut case), &known(&mut plain)), None);
    }
}
