//! The parsers of what others write, each as a function of the bytes of some files, for the fuzzer (`fuzz/run`) and its tests.

#[path = "near_parsers.rs"]
mod near;

use nccl_top::archive::intake::Intake;
use nccl_top::archive::kinds::{KINDS, Opened};
use nccl_top::archive::{Seen, report};
use nccl_top::base::clean;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::formats::debug_server;
use nccl_top::formats::flight_recorder;
use nccl_top::formats::inspector::{self, Inspector};
use nccl_top::formats::nccl_tests::{self, Tables};
use nccl_top::logs::catalog::{self, Scope};
use nccl_top::logs::metrics::Columns;
use nccl_top::logs::prefilter::{self, Sieve};
use nccl_top::logs::{Reader, prefix};
use nccl_top::model::job_record::Record;
use nccl_top::model::saved_report::SavedReport;
use nccl_top::output;
use nccl_top::recording::tape;
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

pub struct Parser {
    pub name: &'static str,
    /// Reads the files; how many bytes they are, unpacked. Panics if something is not as it has to be.
    pub run: fn(&[Vec<u8>]) -> usize,
    /// Files and directories of examples.
    pub seeds: &'static [&'static str],
    /// The texts that the catalogue gives as examples are its, too.
    pub has_catalogue: bool,
}

/// All of them.
pub fn parsers() -> impl Iterator<Item = &'static Parser> {
    FAR.iter().chain(near::PARSERS)
}

const FAR: &[Parser] = &[
    parser("log", log, &["tests/fixtures/logs", "tests/fixtures/reports/nccl-tests-1G.log"], true),
    parser("check-log", check_log, &["tests/fixtures/logs", "tests/fixtures/reports", "tests/fixtures/ras"], true),
    parser("flight", flight, &["tests/fixtures/flight"], false),
    parser("ras", ras, &["tests/fixtures/ras"], false),
    parser("nccl-tests", tests, &["tests/fixtures/reports"], false),
    parser("inspector", inspector, &["tests/fixtures/reports"], false),
    parser("debug-server", debug_pages, &["tests/fixtures/flight-pages"], false),
    parser("metrics", metrics, &["tests/fixtures/metrics"], false),
    parser("tape", tape, &["tests/tapes"], false),
    parser("signature", signature, &[], true),
];

const fn parser(name: &'static str, run: fn(&[Vec<u8>]) -> usize, seeds: &'static [&'static str], has_catalogue: bool) -> Parser {
    Parser { name, run, seeds, has_catalogue }
}

/// Stands between the files of one input.
pub const NEXT_FILE: &[u8] = b"\xff\0NEXT\0\xff";

/// The files of one input.
pub fn files_of(input: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = input;
    while let Some(at) = memchr::memmem::find(rest, NEXT_FILE) {
        out.push(rest[..at].to_vec());
        rest = &rest[at + NEXT_FILE.len()..];
    }
    out.push(rest.to_vec());
    out
}

/// No seed is longer, unless it is one line.
const MOST_BYTES: usize = 32 << 10;

impl Parser {
    fn kept_at(&self, repository: &Path) -> PathBuf {
        repository.join(format!("fuzz/seeds/{}.gz", self.name))
    }

    /// Inputs that the fuzzer made and the repository keeps: together they reach what it reached.
    pub fn kept(&self, repository: &Path) -> Vec<Vec<u8>> {
        let Ok(packed) = std::fs::read(self.kept_at(repository)) else { return Vec::new() };
        let (all, mut out) = (unpack(packed), Vec::new());
        let mut rest = all.as_slice();
        while let Some((length, more)) = rest.split_first_chunk() {
            let (input, more) = more.split_at(u32::from_le_bytes(*length) as usize);
            out.push(input.to_vec());
            rest = more;
        }
        out
    }

    /// Keeps inputs, each with its length in four bytes before it, the smallest first, while the file is no larger than `most` bytes.
    pub fn keep(&self, repository: &Path, mut inputs: Vec<Vec<u8>>, most: usize) -> std::io::Result<usize> {
        inputs.sort_by_key(|input| (input.len(), input.clone()));
        let pack = |some: &[Vec<u8>]| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            some.iter()
                .try_for_each(|input| packed.write_all(&(input.len() as u32).to_le_bytes()).and_then(|()| packed.write_all(input)))?;
            packed.finish()
        };
        while pack(&inputs)?.len() > most {
            inputs.truncate(inputs.len() * 9 / 10);
        }
        std::fs::create_dir_all(repository.join("fuzz/seeds"))?;
        std::fs::write(self.kept_at(repository), pack(&inputs)?)?;
        Ok(inputs.len())
    }

    /// Recorded files, unpacked; of long ones of lines a piece of the beginning, the middle and the end, each below the first line,
    /// which says of some what they are.
    pub fn seeds(&self, repository: &Path) -> Vec<Vec<u8>> {
        let mut paths = Vec::new();
        self.seeds.iter().for_each(|seed| walk(&repository.join(seed), &mut paths));
        paths.sort();
        let mut seeds: Vec<Vec<u8>> = paths.iter().flat_map(|path| pieces(unpack(std::fs::read(path).expect("a seed")))).collect();
        if self.has_catalogue {
            let examples: Vec<&str> = catalog::all().flat_map(|(_, s)| s.examples.iter().copied()).collect();
            seeds.extend(examples.chunks(8).map(|some| some.join("\n").into_bytes()));
        }
        seeds
    }
}

fn walk(at: &Path, out: &mut Vec<PathBuf>) {
    match std::fs::read_dir(at) {
        Ok(entries) => entries.flatten().for_each(|entry| walk(&entry.path(), out)),
        Err(_) => out.push(at.to_owned()),
    }
}

fn unpack(bytes: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    match flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut out) {
        Ok(_) => out,
        Err(_) => bytes,
    }
}

fn pieces(file: Vec<u8>) -> Vec<Vec<u8>> {
    let lines: Vec<&[u8]> = file.split_inclusive(|b| *b == b'\n').collect();
    if file.len() <= MOST_BYTES || lines.len() < 20 {
        return vec![file];
    }
    let piece = |from: usize| {
        let mut out = lines[0].to_vec();
        let fits = lines[from.max(1)..].iter().take_while(|line| {
            out.extend_from_slice(line);
            out.len() < MOST_BYTES
        });
        fits.count();
        out
    };
    [0, lines.len() / 2, lines.len() - 12].map(piece).into()
}

fn size(files: &[Vec<u8>]) -> usize {
    files.iter().map(Vec::len).sum()
}

/// How much there is when it is unpacked.
fn unpacked(files: &[Vec<u8>]) -> usize {
    let one = |file: &Vec<u8>| {
        if !file.starts_with(&[0x1f, 0x8b]) {
            return file.len();
        }
        let mut unzipped = flate2::read::MultiGzDecoder::new(file.as_slice());
        let (mut buffer, mut bytes) = (vec![0; 64 << 10], 0);
        while let Ok(n @ 1..) = unzipped.read(&mut buffer) {
            bytes += n;
        }
        bytes.max(file.len())
    };
    files.iter().map(one).sum()
}

fn log(files: &[Vec<u8>]) -> usize {
    for file in files {
        let mut reader = Reader::default();
        let mut events = Vec::new();
        for (no, line) in file.split(|b| *b == b'\n').enumerate() {
            let text = String::from_utf8_lossy(line);
            reader.at_line(Some(no as u64 + 1));
            reader.line(&text, &mut events);
            prefilter::classify(line);
            if line.len() < 2000 {
                let cleaned = clean::clean(&text);
                assert!(!cleaned.chars().any(|c| c.is_control() && c != '\t'), "{cleaned:?}");
                prefix::peel(&cleaned);
                // What is damaged may look like a command to a terminal.
                for event in &events {
                    let said = format!("{:?}", event.what);
                    assert!(!said.contains("\\u{1b}") && !said.contains("\\u{9b}"), "{said}");
                }
            }
            events.clear();
        }
        reader.idle(&mut events);
        sieve(file);
    }
    size(files)
}

/// No line is lost, and none is counted twice.
fn sieve(file: &[u8]) {
    let mut sieve = Sieve::new(file);
    let mut no = 0;
    loop {
        let candidate = sieve.next_candidate();
        no += candidate.passed as usize;
        if candidate.line.is_none() {
            break;
        }
        no += 1;
    }
    let lines = file.split(|b| *b == b'\n').count() - usize::from(file.is_empty() || file.ends_with(b"\n"));
    assert_eq!(no, lines, "lines");
}

fn check_log(files: &[Vec<u8>]) -> usize {
    let zone = Zone { offset_s: 3600 };
    let mut intake = Intake::new(zone);
    let mut inputs = Vec::new();
    for (no, file) in files.iter().enumerate() {
        let name = if flight_recorder::looks_like(file) { format!("nccl_trace_rank_{no}") } else { format!("logs/f{no}.log") };
        let mut seen = Seen { path: name.clone(), bytes: Some(file.len() as u64), ..Seen::default() };
        match Opened::from_read(name, Cursor::new(file.clone()), Stamp(1_795_219_809_000_000_000 + no as i64)) {
            Ok(mut opened) => {
                if let Some(kind) = KINDS.iter().find(|kind| (kind.is)(&opened)) {
                    seen.kind = Some(kind.id);
                    match (kind.read)(&mut opened, &mut intake, &mut || ()) {
                        Ok(counts) => seen.lines = counts.lines,
                        Err(why) => seen.error = Some(why),
                    }
                }
            }
            Err(why) => seen.error = Some(why),
        }
        inputs.push(seen);
    }
    tell(intake, inputs);
    unpacked(files)
}

/// Judges what was read and writes the report both ways.
fn tell(intake: Intake, inputs: Vec<Seen>) {
    let zone = intake.session.model.zone;
    let report = report(intake, inputs);
    assert!(report.root_cause.is_none_or(|at| at < report.findings.len()));
    let value = output::check::json(&report, zone);
    serde_json::to_string(&value).expect("JSON");
    for (width, ascii) in [(40, true), (100, false)] {
        let text = output::check::text::text(&report, zone, &output::check::text::Style { color: false, ascii, width });
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{:?}", text.chars().find(|c| c.is_control() && *c != '\n'));
        assert!(text.len() < 1 << 20, "a report of {} bytes", text.len());
    }
}

fn flight(files: &[Vec<u8>]) -> usize {
    let mut dumps = BTreeMap::new();
    for (rank, file) in files.iter().enumerate() {
        flight_recorder::rank_of_name(&String::from_utf8_lossy(&file[..file.len().min(40)]));
        flight_recorder::looks_like(file);
        match flight_recorder::read(file) {
            Ok(dump) => drop(dumps.insert(rank as u32, dump)),
            Err(err) => drop(err.to_string()),
        }
    }
    for entry in dumps.values().flat_map(|dump| &dump.entries) {
        entry.own_frame();
        flight_recorder::Op::of(&entry.name);
    }
    for finding in flight_recorder::judge(&dumps).findings {
        finding.summary();
        finding.why();
    }
    size(files)
}

fn ras(files: &[Vec<u8>]) -> usize {
    let mut looks = Vec::new();
    for (no, file) in files.iter().enumerate() {
        let text = String::from_utf8_lossy(file);
        match nccl_top::formats::ras::parse(&text) {
            Ok(report) => {
                for comm in &report.comms {
                    for op in nccl_top::formats::ras::Collective::ALL {
                        comm.op_counts(op);
                    }
                }
            }
            Err(err) => drop(err.to_string()),
        }
        looks.extend(SavedReport::read("x", &text, Some(Stamp(no as i64 * 5_000_000_000))));
    }
    judged(|record| record.reports = looks);
    size(files)
}

/// Judges what was put into the record of an archive.
fn judged(put: impl FnOnce(&mut Record)) {
    let mut intake = Intake::new(Zone::UTC);
    put(intake.session.model.archive_record("x", Stamp(0)));
    tell(intake, Vec::new());
}

fn tests(files: &[Vec<u8>]) -> usize {
    for file in files {
        let text = String::from_utf8_lossy(file);
        let mut tables = Tables::default();
        for (no, line) in text.split('\n').enumerate() {
            tables.line(line, no as u64 + 1);
        }
        let (mut tables, _) = tables.finish();
        tables.extend(nccl_tests::parse_json(&text));
        judged(|record| record.tables = tables.into_iter().map(|table| ("x".to_owned(), table)).collect());
    }
    size(files)
}

fn inspector(files: &[Vec<u8>]) -> usize {
    let mut all = Vec::new();
    for (no, file) in files.iter().enumerate() {
        let mut inspector = Inspector::new(format!("x{no}"));
        for (no, line) in file.split(|b| *b == b'\n').enumerate() {
            inspector.line(&String::from_utf8_lossy(line), no as u64 + 1);
        }
        for stats in inspector.comms.iter().flat_map(|comm| comm.groups.values()) {
            stats.median_exec_us();
            stats.p95_exec_us();
            stats.median_busbw_gbytes_per_s();
        }
        all.push(inspector);
        inspector::prom::parse(&String::from_utf8_lossy(file));
    }
    judged(|record| record.inspectors = all);
    size(files)
}

fn debug_pages(files: &[Vec<u8>]) -> usize {
    for file in files {
        let page = String::from_utf8_lossy(file);
        debug_server::is_its(&page);
        for (_, json) in debug_server::answers(&page) {
            assert!(json.starts_with('{') && json.ends_with('}'), "{json:?}");
            let _ = flight_recorder::read(json.as_bytes());
        }
    }
    size(files)
}

fn metrics(files: &[Vec<u8>]) -> usize {
    for file in files {
        let text = String::from_utf8_lossy(file);
        let mut lines = text.split('\n');
        let Some(columns) = lines.next().and_then(Columns::of) else { continue };
        for line in lines {
            let step = columns.row(line);
            assert!(step.is_none_or(|step| step.step.is_some()), "{line:?}");
        }
    }
    size(files)
}

fn tape(files: &[Vec<u8>]) -> usize {
    for file in files {
        let Ok(mut reader) = tape::Reader::from_read(Box::new(Cursor::new(file.clone())), "x") else { continue };
        let mut session = reader.header().session();
        let mut events = Vec::new();
        let mut last = Stamp::default();
        while let Ok(Some(seen)) = reader.read() {
            last = seen.at;
            session.apply(&seen, &mut events);
            events.clear();
        }
        session.present(last);
        session.state();
        session.bytes();
        let mut intake = Intake::new(Zone::UTC);
        intake.understood = true;
        intake.recordings.push(("x".to_owned(), session));
        tell(intake, vec![Seen { path: "x".into(), kind: Some("tape"), ..Seen::default() }]);
    }
    unpacked(files)
}

fn signature(files: &[Vec<u8>]) -> usize {
    for file in files {
        for line in file.split(|b| *b == b'\n') {
            let text = String::from_utf8_lossy(line);
            for scope in [Scope::Nccl, Scope::Line] {
                catalog::find(scope, &text);
                catalog::find(scope, prefix::peel(&text).rest);
            }
        }
    }
    size(files)
}
