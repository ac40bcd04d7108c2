//! The lines in `tests/fixtures/progress` and what they say. Below a line stands what it says, `    = …`, a row for each event; a line without
//! such a row says nothing. Lines without a blank one between them come one after the other out of one file. `\e`, `\r` and `\t` are
//! written so, `#` begins a remark.

use nccl_top::logs::{Reader, Step, What, prefilter};
use proptest::prelude::*;
use std::fmt::Write;

/// A line, and the rows below it.
type Case = (String, Vec<String>);

/// The cases of all files, in groups, with the place of each group.
fn groups() -> Vec<(String, Vec<Case>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/progress");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let mut groups = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let mut begins = true;
        for (no, row) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            if row.trim().is_empty() || row.starts_with('#') {
                begins = true;
            } else if let Some(says) = row.strip_prefix("    = ") {
                let group: &mut (String, Vec<Case>) = groups.last_mut().expect("a line before what it says");
                group.1.last_mut().unwrap().1.push(rounded(says));
            } else {
                if begins {
                    groups.push((format!("{name}:{}", no + 1), Vec::new()));
                    begins = false;
                }
                let line = row.replace("\\e", "\x1b").replace("\\r", "\r").replace("\\t", "\t");
                groups.last_mut().unwrap().1.push((line, Vec::new()));
            }
        }
    }
    assert!(groups.len() > 300, "{} groups", groups.len());
    groups
}

/// What a line says, as the files have it.
fn row(what: &What) -> Option<String> {
    Some(match what {
        What::Step(step) => step_row(step),
        What::Phase { phase, begins } => format!("{} {}", phase.as_str(), if *begins { "begins" } else { "ends" }),
        What::TotalSteps { total } => format!("total steps {total}"),
        What::SkippedStep { scale } => format!("skipped step{}", scale.map_or(String::new(), |scale| format!(" scale={}", number(scale)))),
        What::Done => "done".to_owned(),
        _ => return None,
    })
}

fn step_row(s: &Step) -> String {
    let mut row = s.dialect.as_str().to_owned();
    let whole = |n: Option<u64>| n.map(|n| n as f64);
    for (name, value) in [
        ("step", whole(s.step)),
        ("total", whole(s.total_steps)),
        ("epoch", s.epoch),
        ("loss", s.loss),
        ("grad_norm", s.grad_norm),
        ("lr", s.learning_rate),
        ("step_time", s.step_time_s),
        (s.throughput_unit.unwrap_or("no unit"), s.throughput),
        ("left", s.remaining_s),
    ] {
        value.into_iter().for_each(|v| write!(row, " {name}={}", number(v)).unwrap());
    }
    for (name, set) in
        [("loss-missing", s.loss_missing), ("bar", s.bar), ("unit-alone", s.throughput.is_none() && s.throughput_unit.is_some())]
    {
        row.push_str(&if set { format!(" {name}") } else { String::new() });
    }
    row
}

/// To nine digits: values are computed.
fn number(v: f64) -> String {
    if v.is_finite() { format!("{}", format!("{v:.8e}").parse::<f64>().unwrap()) } else { v.to_string() }
}

fn rounded(row: &str) -> String {
    let word = |w: &str| match w.split_once('=').and_then(|(name, v)| Some((name, v.parse::<f64>().ok()?))) {
        Some((name, v)) => format!("{name}={}", number(v)),
        None => w.to_owned(),
    };
    row.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn read(reader: &mut Reader, line: &str) -> Vec<String> {
    let mut events = Vec::new();
    reader.line(line, &mut events);
    events.iter().filter_map(|e| row(&e.what)).collect()
}

#[test]
fn lines_say_what_an_expert_reads() {
    let mut wrong = String::new();
    for (place, group) in groups() {
        let mut reader = Reader::default();
        for (line, want) in group {
            let got = read(&mut reader, &line);
            if got != want {
                write!(wrong, "\n{place}: {line}\n  want {want:?}\n  got  {got:?}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Lines that are one step and nothing else.
fn step_lines() -> Vec<(String, String)> {
    let single = |(_, group): (String, Vec<Case>)| match <[Case; 1]>::try_from(group).ok()? {
        [(line, says)] if says.len() == 1 && says[0].contains(" step=") => Some((line, says.into_iter().next()?)),
        _ => None,
    };
    groups().into_iter().filter_map(single).collect()
}

/// The rank in the words of the program itself.
fn named(line: &str) -> Option<u32> {
    let tail = line.trim_start_matches(['[', '(']).strip_prefix("Rank ").or_else(|| line.strip_prefix("rank "))?;
    tail.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[test]
fn every_dialect_is_read_behind_every_prefix() {
    let prefixes = [
        ("[default3]:", None),
        ("[rank3]:", Some(3)),
        ("[1,12]<stdout>:", Some(12)),
        ("worker-1: ", None),
        ("[RANK 3] ", Some(3)),
        ("[NeMo I 2026-05-01 12:00:00 exp_manager:396] ", None),
        ("\x1b[36m(RayWorkerWrapper pid=248, ip=10.0.3.8)\x1b[0m ", None),
        ("2026-05-16T16:39:51.208Z ", None),
        ("[2026-09-11 17:52:18,030] [INFO] [logging.py:96:log_dist] ", None),
        ("09/26/2026 12:00:00 - INFO - __main__ - ", None),
        ("[rank0]:[titan] 2026-06-16 22:30:50,322 - root - INFO - ", Some(0)),
    ];
    for (line, says) in step_lines().into_iter().filter(|(line, _)| !line.starts_with("[rank") && !line.starts_with('\r')) {
        for (prefix, rank) in prefixes {
            let mut events = Vec::new();
            Reader::default().line(&format!("{prefix}{line}"), &mut events);
            let got: Vec<_> = events.iter().filter(|e| !e.what.is_header()).map(|e| (row(&e.what), e.origin.rank)).collect();
            let rank = rank.or_else(|| named(&line));
            assert_eq!(got, [(Some(says.clone()), rank)], "{prefix}{line}");
        }
    }
}

/// Whatever of a line has come, its numbers are those of the whole line. What is read by names may end with any of them.
#[test]
fn a_torn_line_has_no_wrong_number() {
    let by_name = ["plain", "json", "hf-trainer", "keras", "ignite", "maxtext"];
    // Of bars that are glued together the last one counts; what rich draws ends with what is read by names.
    for (line, says) in step_lines().into_iter().filter(|(line, _)| line.matches("%|").count() < 2 && !line.contains("train_loss: ")) {
        let dialect = says.split(' ').next().filter(|d| !by_name.contains(d));
        for torn in dialect.into_iter().flat_map(|_| torn(&line)) {
            for row in read(&mut Reader::default(), torn).iter().filter(|row| row.split(' ').next() == dialect) {
                // fairseq's step of the epoch counts until that of the run comes; some lines of NeMo end with the time of a step, some of
                // MMEngine with the loss.
                let may_differ = |field: &str| match row.split('=').next() {
                    Some("fairseq step") => field.starts_with("step=") || field.starts_with("total="),
                    Some("nemo step") => field.starts_with("step_time="),
                    Some("vision step") => field.starts_with("loss=") || field.starts_with("grad_norm="),
                    _ => false,
                };
                let strange = row.split(' ').find(|field| !says.split(' ').any(|w| w == *field) && !may_differ(field));
                assert_eq!(strange, None, "{torn}\n  {row}\n  {says}");
            }
        }
    }
}

/// The starts of a line. Where its last number is, nothing shows that it was cut.
fn torn(line: &str) -> impl Iterator<Item = &str> {
    let last = line.rfind([' ', '=', '[']).unwrap_or(0);
    line.char_indices().map(|(at, _)| &line[..at]).filter(move |torn| torn.len() <= last)
}

#[test]
fn a_step_that_shows_up_behind_a_pause_of_a_bar_is_no_end_of_it() {
    let mut reader = Reader::default();
    assert_eq!(read(&mut reader, "Validation DataLoader 0:  50%|█████     | 10/20 [00:01<00:01, 10.00it/s]"), ["evaluation begins"]);
    assert_eq!(read(&mut reader, "step 5 loss 2.0"), ["plain step=5 loss=2"]);
    assert_eq!(read(&mut reader, "Validation DataLoader 0: 100%|██████████| 20/20 [00:02<00:00, 10.00it/s]"), [""; 0]);
}

/// The longest lines that are read, of one piece again and again.
#[test]
fn lines_of_nothing_but_one_word_end() {
    for (line, _) in step_lines() {
        for word in line.split_inclusive([' ', '|', ',', '=', ':', '[']).chain([line.as_str(), "[1:2, ", "[1<2,", "| 1/2 [1:2<3:4, "]) {
            read(&mut Reader::default(), &word.repeat(4096 / word.len()));
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prefilter::classify(&bytes);
        read(&mut Reader::default(), &String::from_utf8_lossy(&bytes));
    }

    /// Pieces of lines that mean something, in any order, with numbers that mean nothing.
    #[test]
    fn any_line_made_of_known_pieces_is_read(picks in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 1..24)) {
        static PIECES: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(|| {
            let numbers = "1e309 nan -inf - 1,2,3 1,234,567 99999999999999999999 0x1 +.e5 1e-400 ½ ━ ▏ █ {' '} [ ] |";
            let pieces = step_lines().into_iter().flat_map(|(line, _)| line.split_inclusive(' ').map(str::to_owned).collect::<Vec<_>>());
            pieces.chain(numbers.split(' ').map(str::to_owned)).collect()
        });
        let mut reader = Reader::default();
        let mut line = String::new();
        for (index, cut) in picks {
            let piece = index.get(&PIECES);
            line.push_str(&piece[..piece.char_indices().nth(usize::from(cut)).map_or(piece.len(), |(at, _)| at)]);
            for says in read(&mut reader, &line) {
                prop_assert!(!says.contains("unit-alone") && !says.contains("step_time=NaN") && !says.contains("=-inf bar"), "{says}");
            }
        }
    }
}
