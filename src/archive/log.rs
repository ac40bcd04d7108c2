//! Logs: read in chunks, one core, bounded memory. Almost all lines of a large log are noise that nobody looks at; of the rest, most
//! are the same few kinds again and again, which have lanes of their own.

use super::error_level::Gleaned;
use super::intake::Intake;
use super::kinds::{Counts, Kind, Opened};
use super::sentence;
use crate::base::time::Stamp;
use crate::base::words::io_words;
use crate::base::{clean, mask};
use crate::formats::nccl_tests::{self, Tables};
use crate::logs::catalog::Part;
use crate::logs::prefilter::{self, Class};
use crate::logs::{Reader, TextEvent, What, Written, known_by, prefix};
use crate::model::bringup::host_id;
use crate::model::bringup::routes::{MAX_ROUTES, Route};
use crate::model::chronicle::{BUFFER, WATCHED_STEPS};
use crate::model::reading::ReadLine;
use memchr::{memchr, memmem, memrchr};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, Read};

pub const KIND: Kind = Kind { id: "log", name: "logs", is: |opened| super::kinds::is_text(&opened.head), read };

const CHUNK: usize = 256 << 10;
/// A line is cut here; the rest of it is read and forgotten.
const LONGEST: usize = 64 << 10;

fn read(opened: &mut Opened, intake: &mut Intake, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let early = &opened.head[..opened.head.len().min(BUFFER)];
    let early_lines = early.iter().filter(|b| **b == b'\n').count() as u64;
    let file = intake.log_file(&opened.name, intake.modified(&opened.head, opened.modified), early_lines);
    begins(intake, file, &opened.head);
    let mut lines = Lines::new(intake, file);
    let outcome = cut(opened, CHUNK, &mut lines, progress);
    let count = lines.no - 1;
    let tail = std::mem::take(&mut lines.tail);
    lines.end();
    ends(intake, file, &tail);
    intake.session.model.archive_lines(file, count);
    match outcome {
        Ok(()) => Ok(Counts { lines: Some(count) }),
        Err(err) => Err(format!("reading stopped at line {count}: {}; what came before was judged", io_words(&err))),
    }
}

/// Lines at the start of a file that are looked at for a time, and bytes at its end.
const FIRST_LINES: usize = 60;
const LAST_BYTES: usize = 4096;

/// When the first line was written, whatever it says; steps before it would tell that the run began earlier.
fn begins(intake: &mut Intake, file: u32, head: &[u8]) {
    intake.understood |= memchr::memmem::find(head, OF_MLPERF).is_some();
    let lines = head.split(|b| *b == b'\n').take(FIRST_LINES).map(text_of);
    let is_step = |line: &Cow<'_, str>| known_by(line).reader.is_some_and(|reader| reader == "step");
    let written = lines.take_while(|line| !is_step(line)).find_map(|line| prefix::peel(&clean::clean(&line)).origin.written);
    spans(intake, file, written, true);
}

/// What MLPerf's log begins its lines with; its results are told beside the findings.
const OF_MLPERF: &[u8] = b":::MLLOG {";

/// When the last line was written.
fn ends(intake: &mut Intake, file: u32, tail: &[u8]) {
    let written = tail.split(|b| *b == b'\n').rev().map(text_of).find_map(|line| prefix::peel(&clean::clean(&line)).origin.written);
    spans(intake, file, written, false);
}

fn spans(intake: &mut Intake, file: u32, written: Option<Written>, at_start: bool) {
    let model = &mut intake.session.model;
    let zone = model.zone;
    if let (Some(written), Some(log)) = (written, model.files.get_mut(&file)) {
        let modified = log.modified(Stamp::default());
        log.chronicle.spans(&written, at_start, modified, zone);
    }
}

/// Hands whole lines to `lines`, chunk by chunk.
fn cut(input: &mut impl Read, size: usize, lines: &mut Lines<'_>, progress: &mut dyn FnMut()) -> io::Result<()> {
    let mut buffer = vec![0; size + LONGEST];
    let mut kept = 0;
    // The rest of a line that was too long.
    let mut skipping = false;
    loop {
        let n = match input.read(&mut buffer[kept..kept + size]) {
            Ok(0) => break,
            Ok(n) => n,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
            Err(err) => {
                lines.chunk(&buffer[..kept]);
                return Err(err);
            }
        };
        progress();
        let mut from = 0;
        let end = kept + n;
        if skipping {
            match memchr(b'\n', &buffer[kept..end]) {
                Some(at) => {
                    skipping = false;
                    lines.no += 1;
                    from = kept + at + 1;
                }
                None => {
                    kept = 0;
                    continue;
                }
            }
        }
        let mut whole = memrchr(b'\n', &buffer[from..end]).map_or(from, |at| from + at + 1);
        lines.chunk(&buffer[from..whole]);
        // A bar that is redrawn for hours is one line to the file, and many to whoever reads it.
        if end - whole >= LONGEST
            && let Some(at) = memrchr(b'\r', &buffer[whole..end])
        {
            lines.pieces(&buffer[whole..whole + at]);
            whole += at + 1;
        }
        if end - whole >= LONGEST {
            // What a reader knows stands at the start of a line; its end comes later, or never.
            lines.long(&buffer[whole..whole + LONGEST]);
            skipping = true;
            kept = 0;
        } else {
            buffer.copy_within(whole..end, 0);
            kept = end - whole;
        }
    }
    if skipping {
        lines.no += 1;
    } else {
        lines.chunk(&buffer[..kept]);
    }
    Ok(())
}

/// The lines of one file on their way into the session.
struct Lines<'a> {
    intake: &'a mut Intake,
    file: u32,
    reader: Reader,
    /// Of the next line, from 1.
    no: u64,
    events: Vec<TextEvent>,
    /// The reader is in the middle of a record of several lines.
    inside: bool,
    /// A table of nccl-tests began, and has not ended.
    tabled: bool,
    tables: Tables,
    lanes: Lanes,
    /// What lines that no reader knows still tell.
    gleaned: Gleaned,
    /// Lines that may still be looked at for a sentence that goes on in the next ones.
    tries: u32,
    /// Records that may still be looked at for what somebody wrapped.
    record_tries: u32,
    /// The last bytes of the file so far.
    tail: Vec<u8>,
}

/// Lines of which there are millions, each worth little: channels, steps, and lines that were read before.
#[derive(Default)]
struct Lanes {
    /// Routes of channel lines, by a hash of host, ends and transport, and how many lines after the first.
    routes: HashMap<u64, (Route, u64), BuildHasherDefault<Same>>,
    /// Where there are too many routes: transports, whether at the receiving end, and how many lines after the first.
    channels: Vec<(Vec<u8>, bool, u64)>,
    /// The kinds of step lines, with the letters that identify them.
    steps: Vec<StepLane>,
    /// Steps read so far, and how many are read before any is passed over.
    steps_read: u64,
    all_steps: u64,
    /// Kinds of which the last line was passed over.
    behind: usize,
    /// Hashes of lines that gave no event, or only how NCCL came up.
    said: HashSet<u64, BuildHasherDefault<Same>>,
    /// The same of lines that name no process: a further run in the file may say them again, and means itself.
    said_in_run: HashMap<u64, Said, BuildHasherDefault<Same>>,
    /// From 1.
    run: u32,
    /// Hashes of lines without their digits that are noise, whatever the digits are.
    noise: HashSet<u64, BuildHasherDefault<Same>>,
    /// A line of this run was read before.
    again: bool,
}

/// A line that names no process and was seen before.
#[derive(Clone, Copy)]
struct Said {
    class: Class,
    /// The run that it need not be read in again; 0: in each it has to be.
    run: u32,
}

/// Lines that were a step and nothing else, and differ in nothing but numbers.
#[derive(Default)]
struct StepLane {
    /// What stands behind the number that such a line may begin with.
    start: Vec<u8>,
    letters: Vec<u8>,
    /// Another kind of line was read since: the next step may end a pause.
    due: bool,
    /// Passed over since one was read, and the last of them with its number.
    passed: u64,
    last: Vec<u8>,
    last_no: u64,
    /// Lines of this kind, by the last bits of their lengths: most lines are like one of them.
    forms: [Form; FORMS],
}

/// A line, and what of it another one of the same letters and length has to repeat.
#[derive(Default)]
struct Form {
    line: Vec<u8>,
    /// All bits are set where the same byte has to stand, none where any digit may.
    fixed: Vec<u8>,
}

/// Of the steps of a long run every so many-th is read, besides the last.
const ALL_STEPS: u64 = 4000;
const PASS_STEPS: u64 = 15;
/// Of a very long one fewer.
const MANY_STEPS: u64 = 20_000;
const PASS_MANY: u64 = 63;
const MOST_STEP_LANES: usize = 16;
const MAX_STEP: usize = 512;
const FORMS: usize = 4;
const MAX_START: usize = 2;
const MOST_SAID: usize = 1 << 16;

/// A hash is its own hash.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

fn insert(set: &mut HashSet<u64, BuildHasherDefault<Same>>, hash: u64) {
    if set.len() >= MOST_SAID {
        set.clear();
    }
    set.insert(hash);
}

/// A line with zeros for all digits, if it is not longer than the space.
fn digitless<'a>(line: &[u8], space: &'a mut [u8; MAX_STEP]) -> Option<&'a [u8]> {
    let out = space.get_mut(..line.len())?;
    for (to, from) in out.iter_mut().zip(line) {
        *to = if from.is_ascii_digit() { b'0' } else { *from };
    }
    Some(out)
}

/// Sixteen bytes by one multiplication: it has to distinguish a few thousand lines of a log, not withstand an attacker.
#[inline]
fn hash(line: &[u8]) -> u64 {
    const K: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03, 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];
    let mix = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let halves = |block: &[u8; 16]| {
        let n = u128::from_le_bytes(*block);
        (n as u64, (n >> 64) as u64)
    };
    let (blocks, rest) = line.as_chunks::<16>();
    // Two chains: the next multiplication need not wait for the last one.
    let mut h = [line.len() as u64 ^ K[0], K[1]];
    let (pairs, single) = blocks.as_chunks::<2>();
    for [first, second] in pairs {
        let ((a, b), (c, d)) = (halves(first), halves(second));
        h = [mix(a ^ K[2], b ^ h[0]), mix(c ^ K[3], d ^ h[1])];
    }
    if let [block] = single {
        let (a, b) = halves(block);
        h[0] = mix(a ^ K[2], b ^ h[0]);
    }
    let mut last = [0; 16];
    match line.last_chunk::<16>() {
        Some(end) => last = *end,
        None => last[..rest.len()].copy_from_slice(rest),
    }
    let (a, b) = halves(&last);
    mix(mix(a ^ K[3], b ^ h[0]) ^ K[2], h[1] ^ K[0])
}

impl<'a> Lines<'a> {
    fn new(intake: &'a mut Intake, file: u32) -> Lines<'a> {
        Lines {
            intake,
            file,
            reader: Reader::default(),
            no: 1,
            events: Vec::new(),
            inside: false,
            tabled: false,
            tables: Tables::default(),
            lanes: Lanes { all_steps: ALL_STEPS, run: 1, ..Lanes::default() },
            gleaned: Gleaned::default(),
            tries: sentence::MOST_TRIES,
            record_tries: sentence::MOST_RECORDS,
            tail: Vec::new(),
        }
    }

    /// Whole lines; the last one may lack its end only at the end of the file.
    fn chunk(&mut self, chunk: &[u8]) {
        if !chunk.trim_ascii().is_empty() {
            self.tail = chunk[chunk.len().saturating_sub(LAST_BYTES)..].to_vec();
        }
        let mut sieve = prefilter::Sieve::new(chunk);
        while sieve.at < chunk.len() {
            if self.inside || self.tabled {
                let line = sieve.line();
                self.one(line);
                self.no += 1;
                continue;
            }
            let found = sieve.next_candidate();
            self.no += found.passed;
            let Some(line) = found.line else { break };
            if found.message > 0 {
                self.nccl(line, found.message);
            } else {
                let start = sieve.at.saturating_sub(line.len() + 1);
                let before = chunk.get(..start).unwrap_or_default();
                let behind = chunk.get(sieve.at..).unwrap_or_default();
                let whole = sentence::whole(before, line, behind, &mut self.tries);
                match whole.or_else(|| sentence::wrapped(line, behind, &mut self.record_tries)) {
                    Some(whole) if whole.is_known => self.pieces(&whole.text),
                    Some(whole) if self.gleaned.report(self.no, &whole) => {}
                    _ => self.pieces(line),
                }
            }
            self.no += 1;
        }
        let has_nccl = self.intake.has_nccl || sieve.has_nccl();
        self.intake.has_nccl = has_nccl || memmem::find(chunk, b" NCCL INFO ").is_some();
    }

    /// A line with NCCL's header; `message` is where its message begins.
    fn nccl(&mut self, line: &[u8], message: usize) {
        if line[message..].starts_with(CHANNEL) && self.is_channel(line, message + CHANNEL.len()) {
            return;
        }
        let hash = hash(line);
        if self.lanes.said.contains(&hash) {
            self.lanes.again = true;
            return;
        }
        if memchr(b'\r', line).is_some() {
            return self.pieces(line);
        }
        self.line(line, hash, prefilter::classify(line), true);
    }

    /// Another line, with `\r` in it or not.
    fn pieces(&mut self, line: &[u8]) {
        if memchr(b'\r', line).is_some() {
            line.split(|b| *b == b'\r').for_each(|piece| self.piece(piece));
        } else {
            self.piece(line);
        }
    }

    /// Another line, or a part of one that a `\r` ended.
    fn piece(&mut self, line: &[u8]) {
        if self.inside {
            return self.one(line);
        }
        if self.is_one_step_more(line) {
            return;
        }
        let hash = hash(line);
        let said = self.lanes.said_in_run.get(&hash).copied();
        if said.is_some_and(|s| s.class == Class::Noise || s.run == self.lanes.run) {
            self.gleaned.pass(line);
            return;
        }
        if nccl_tests::begins(line) {
            self.tabled = true;
            return self.one(line);
        }
        if self.reader.is_of_table(self.no, line) {
            return self.read(line, Class::Fact);
        }
        let class = match said {
            Some(said) => said.class,
            None => {
                let mut space = [0; MAX_STEP];
                let shape = digitless(line, &mut space).map(self::hash);
                if shape.is_some_and(|shape| self.lanes.noise.contains(&shape)) {
                    if self.gleaned.wants_more() {
                        self.gleaned.look(self.no, line);
                    } else {
                        self.gleaned.pass(line);
                    }
                    return;
                }
                let class = prefilter::classify(line);
                if class == Class::Noise
                    && let Some(shape) = shape
                    && prefilter::is_noise_with_any_digits(line)
                {
                    insert(&mut self.lanes.noise, shape);
                    self.gleaned.look(self.no, line);
                    return;
                }
                class
            }
        };
        self.line(line, hash, class, false);
    }

    /// A line of a record or table: each is looked at.
    fn one(&mut self, line: &[u8]) {
        let class = if self.inside { Class::Alarm } else { prefilter::classify(line) };
        if self.tabled {
            let text = text_of(line);
            self.tables.line(&text, self.no);
            // What follows the last line of a run is a log again, and a further run begins like the first.
            self.tabled = !nccl_tests::ends(&text);
        }
        if class != Class::Noise {
            self.read(line, class);
        }
    }

    /// `… NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM` of a route that was seen before: one more of them.
    fn is_channel(&mut self, line: &[u8], pair: usize) -> bool {
        if let Some((_, lines)) = self.lanes.routes.get_mut(&route_hash(line, pair)) {
            *lines += 1;
            return true;
        }
        if self.lanes.routes.len() < MAX_ROUTES {
            return false;
        }
        let Some((receive, transport)) = channel(&line[pair..]) else { return false };
        let known = self.lanes.channels.iter_mut().find(|(t, r, _)| *r == receive && t == transport);
        if let Some((_, _, lines)) = known {
            *lines += 1;
            return true;
        }
        false
    }

    /// Of a long run's steps not every one is read. What differs from those read before in a letter, as `nan` does, always is.
    fn is_one_step_more(&mut self, line: &[u8]) -> bool {
        let lanes = &mut self.lanes;
        if lanes.steps_read < lanes.all_steps || line.len() > MAX_STEP {
            return false;
        }
        let start = start_of(line);
        if !lanes.steps.iter().any(|l| start.starts_with(&l.start)) {
            return false;
        }
        let at = lanes.steps.iter().position(|l| l.form_of(line).is_like(line)).or_else(|| {
            let mut space = [0; MAX_STEP];
            let letters = letters(line, &mut space);
            let at = lanes.steps.iter().position(|l| l.letters == letters)?;
            lanes.steps[at].forms[line.len() % FORMS].learn(line);
            Some(at)
        });
        let Some(lane) = at.and_then(|at| lanes.steps.get_mut(at)) else { return false };
        if lane.due || lane.passed >= if lanes.steps_read < MANY_STEPS { PASS_STEPS } else { PASS_MANY } {
            // This one is read, and takes the place of those before it.
            lanes.behind -= usize::from(lane.passed > 0);
            lane.passed = 0;
            lane.due = false;
            return false;
        }
        lanes.behind += usize::from(lane.passed == 0);
        lane.passed += 1;
        lane.last_no = self.no;
        lane.last.clear();
        lane.last.extend_from_slice(line);
        true
    }

    /// Reads the last steps that were passed over.
    fn catch_up(&mut self) {
        if std::mem::take(&mut self.lanes.behind) == 0 {
            return;
        }
        let mut last: Vec<(u64, Vec<u8>)> = Vec::new();
        for lane in self.lanes.steps.iter_mut().filter(|l| l.passed > 0) {
            lane.passed = 0;
            last.push((lane.last_no, std::mem::take(&mut lane.last)));
        }
        last.sort();
        let no = self.no;
        for (at, line) in last {
            self.no = at;
            self.read(&line, Class::Fact);
        }
        self.no = no;
    }

    /// The start of a line that is too long.
    fn long(&mut self, start: &[u8]) {
        let class = if self.inside { Class::Alarm } else { prefilter::classify(start) };
        if class != Class::Noise {
            self.read(start, class);
        }
    }

    fn line(&mut self, line: &[u8], hash: u64, class: Class, names_process: bool) {
        let mut nothing_new = true;
        // Of steps hardly two are equal.
        let mut may_come_again = true;
        let mut says_nothing = true;
        if class != Class::Noise {
            self.catch_up();
            let text = text_of(line);
            let text = mask::text(&text);
            self.parse(&text, class);
            self.lanes.note(&self.events, line);
            // The time of a line is that of the untimed lines behind it, each time anew.
            nothing_new = !self.inside && self.events.iter().all(|e| is_bringup(&e.what) && e.origin.written.is_none());
            may_come_again = !self.events.iter().any(|e| matches!(e.what, What::Step(_)));
            says_nothing = self.events.iter().all(|e| e.what.is_header());
            self.tell(&text);
        }
        if !names_process && !self.inside {
            match class {
                Class::Noise => self.gleaned.look(self.no, line),
                _ if says_nothing => self.gleaned.look(self.no, line),
                _ => {}
            }
        }
        if names_process {
            if nothing_new {
                insert(&mut self.lanes.said, hash);
            }
        } else if may_come_again {
            let said = &mut self.lanes.said_in_run;
            if said.len() >= MOST_SAID {
                said.clear();
            }
            said.insert(hash, Said { class, run: if nothing_new { self.lanes.run } else { 0 } });
        }
    }

    /// A further run begins in the file.
    fn run_began(&mut self) {
        self.flush_channels();
        self.lanes.run += 1;
        self.lanes.again = false;
    }

    fn flush_channels(&mut self) {
        let model = &mut self.intake.session.model;
        for (route, lines) in std::mem::take(&mut self.lanes.routes).into_values() {
            model.archive_channels(self.file, &route.transport, route.receive, Some(&route), lines);
        }
        for (transport, receive, lines) in std::mem::take(&mut self.lanes.channels) {
            model.archive_channels(self.file, &String::from_utf8_lossy(&transport), receive, None, lines);
        }
    }

    fn read(&mut self, bytes: &[u8], class: Class) {
        self.catch_up();
        let text = text_of(bytes);
        let text = mask::text(&text);
        self.parse(&text, class);
        self.tell(&text);
    }

    fn parse(&mut self, text: &str, class: Class) {
        self.events.clear();
        self.reader.at_line(Some(self.no));
        self.reader.read(text, class, &mut self.events);
        self.inside = self.reader.is_inside();
    }

    fn tell(&mut self, text: &str) {
        if self.events.is_empty() {
            return;
        }
        if self.events.iter().any(|e| matches!(e.what, What::Step(_))) {
            self.gleaned.stepped();
        }
        // Whether the job goes on after it, the next steps show.
        if self.events.iter().any(|e| e.what.is_failure()) {
            self.lanes.all_steps = self.lanes.all_steps.max(self.lanes.steps_read + WATCHED_STEPS);
        }
        if self.events.iter().any(|e| e.what == What::RunStart) {
            self.run_began();
        }
        let clean = clean::clean(text);
        let line = ReadLine { no: Some(self.no), text: &clean, bytes: text.len() };
        self.intake.session.read(self.file, &line, &mut self.events);
    }

    fn end(&mut self) {
        self.catch_up();
        self.events.clear();
        self.reader.end(&mut self.events);
        let line = ReadLine { no: Some(self.no), ..ReadLine::default() };
        self.intake.session.read(self.file, &line, &mut self.events);
        self.intake.gleaned.push((self.file, std::mem::take(&mut self.gleaned)));
        let (tables, _) = std::mem::take(&mut self.tables).finish();
        self.intake.tables(self.file, tables);
        self.flush_channels();
        if self.lanes.again {
            self.intake.session.model.archive_repeats(self.file);
        }
    }
}

const CHANNEL: &[u8] = b"Channel ";
/// Transports that have a lane beside the routes; others are read line by line.
const MOST_LANES: usize = 16;

impl Lanes {
    /// Learns from the events of a line which lines are like it.
    fn note(&mut self, events: &[TextEvent], line: &[u8]) {
        if events.iter().any(|e| !matches!(e.what, What::Step(_))) {
            self.steps.iter_mut().for_each(|lane| lane.due = true);
        }
        let [event] = events else { return };
        match &event.what {
            What::Channel { .. } => {
                let Some(pair) = memchr::memmem::find(line, CHANNEL).map(|at| at + CHANNEL.len()) else { return };
                let Some((receive, transport)) = channel(&line[pair..]) else { return };
                let host = event.origin.host.as_deref().map(host_id);
                if let Some(route) = Route::of(&event.what, host).filter(|_| self.routes.len() < MAX_ROUTES) {
                    self.routes.insert(route_hash(line, pair), (route, 0));
                } else if self.channels.len() < MOST_LANES {
                    self.channels.push((transport.to_vec(), receive, 0));
                }
            }
            What::Step(step) => {
                self.steps_read += 1;
                let is_number = |n: Option<f64>| n.is_none_or(f64::is_finite);
                if is_number(step.loss) && is_number(step.grad_norm) && !step.loss_missing {
                    self.step_line(line);
                }
            }
            _ => {}
        }
    }

    /// A line that is a step and nothing else, and all right.
    fn step_line(&mut self, line: &[u8]) {
        if line.len() > MAX_STEP {
            return;
        }
        if self.steps.iter().any(|l| l.form_of(line).is_like(line)) {
            return;
        }
        let mut space = [0; MAX_STEP];
        let letters = letters(line, &mut space);
        if self.steps.iter().any(|l| l.letters == letters) {
            return;
        }
        if self.steps.len() >= MOST_STEP_LANES {
            self.steps.remove(0);
        }
        let start = start_of(line);
        let start = start[..start.len().min(MAX_START)].to_vec();
        self.steps.push(StepLane { start, letters: letters.to_vec(), ..StepLane::default() });
    }
}

/// A line without the blanks and the number that it may begin with, as bars do.
fn start_of(line: &[u8]) -> &[u8] {
    let skipped = line.iter().take_while(|b| **b == b' ' || b.is_ascii_digit()).count();
    &line[skipped..]
}

/// The letters of a line, which is no longer than the space, and the numbers behind a slash: bars of one form differ in their lengths.
fn letters<'a>(line: &[u8], space: &'a mut [u8; MAX_STEP]) -> &'a [u8] {
    let (mut n, mut length) = (0, false);
    for byte in line {
        // Written in any case, kept only if it is one: a step line has too many turns to guess.
        space[n % MAX_STEP] = *byte;
        length &= byte.is_ascii_digit();
        n += usize::from(byte.is_ascii_alphabetic() | length);
        length |= *byte == b'/';
    }
    &space[..n]
}

impl StepLane {
    fn form_of(&self, line: &[u8]) -> &Form {
        &self.forms[line.len() % FORMS]
    }
}

impl Form {
    /// Whether a line differs in nothing but digits that [`letters`] passes over: then it has the same letters.
    fn is_like(&self, line: &[u8]) -> bool {
        if self.line.len() != line.len() {
            return false;
        }
        // Without a way out in between, many bytes are compared at once.
        let mut different = 0;
        for ((b, known), fixed) in line.iter().zip(&self.line).zip(&self.fixed) {
            let no_digit = u8::from(b.wrapping_sub(b'0') > 9).wrapping_neg();
            different |= (b ^ known) & (fixed | no_digit);
        }
        different == 0
    }

    fn learn(&mut self, line: &[u8]) {
        self.line.clear();
        self.line.extend_from_slice(line);
        self.fixed.clear();
        let mut length = false;
        self.fixed.extend(line.iter().map(|b| {
            length &= b.is_ascii_digit();
            let is_free = b.is_ascii_digit() && !length;
            length |= *b == b'/';
            if is_free { 0 } else { !0 }
        }));
    }
}

/// Equal for lines of one route: of `node-1:100:101 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM` without numbers of processes
/// and of the channel. `pair` is where that number begins.
fn route_hash(line: &[u8], pair: usize) -> u64 {
    let without_number = |text: &[u8]| {
        let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let rest = text.len() - digits;
        if digits > 0 && text[..rest].ends_with(b":") { rest - 1 } else { text.len() }
    };
    let before = &line[..pair - CHANNEL.len()];
    let before = memrchr(b'[', before).map_or(before, |at| before[..at].trim_ascii_end());
    let word = memrchr(b' ', before).map_or(before, |at| &before[at + 1..]);
    let word = &word[..without_number(word)];
    let host = &word[..without_number(word)];
    let pair = &line[pair..];
    let ends = memchr(b':', pair).map_or(pair, |at| &pair[at..]);
    hash(host).rotate_left(32) ^ hash(ends.trim_ascii_end())
}

/// Of `00/0 : 3[3] -> 4[4] [receive] via P2P/CUMEM` whether it is the receiving end, and the transport.
fn channel(pair: &[u8]) -> Option<(bool, &[u8])> {
    let part = |b: &u8| b.is_ascii_hexdigit() || matches!(b, b' ' | b'/' | b':' | b'[' | b']' | b'-' | b'>');
    let numbers = pair.iter().take_while(|b| part(b)).count();
    let tail = &pair[numbers..];
    // The words in between begin with a letter that is no number's.
    let (receive, tail) = match pair[..numbers].ends_with(b" [") {
        true if tail.starts_with(b"send] ") => (false, &tail[6..]),
        true if tail.starts_with(b"receive] ") => (true, &tail[9..]),
        _ => (false, tail),
    };
    Some((receive, tail.strip_prefix(b"via ")?))
}

/// How NCCL came up: saying it again adds nothing. A step may come twice, and a failure is counted.
fn is_bringup(what: &What) -> bool {
    let is_progress = matches!(
        what,
        What::Joined { .. }
            | What::Present(_)
            | What::Saved { .. }
            | What::Resumed { .. }
            | What::Evaluated { .. }
            | What::Result { .. }
            | What::Last { .. }
            | What::Step(_)
            | What::TotalSteps { .. }
            | What::AtStart { .. }
            | What::Phase { .. }
            | What::Done
            | What::SkippedStep { .. }
            | What::RunStart
            | What::TasksAreLaunchers
    );
    let is_harmless = matches!(what, What::Signed { signature, .. } if signature.part == Part::Harmless);
    is_harmless || !(is_progress || what.is_alarm())
}

fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    // Whether all is well is found out faster than what is not.
    let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
    if memchr(0, bytes).is_some() { text.replace('\0', "").into() } else { text }
}

#[cfg(test)]
mod tests;
