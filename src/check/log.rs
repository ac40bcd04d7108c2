//! Logs: read in chunks, one core, bounded memory. Almost all lines of a large log are noise that nobody looks at; of the rest, most
//! are the same few kinds again and again, which have lanes of their own.

use super::case::{BUFFER, Case, WATCHED_STEPS, is_failure};
use super::kinds::{Counts, Kind, Opened};
use crate::observe::log::{LogFileInfo, LogFileState};
use crate::reports::nccl_tests::{self, Tables};
use crate::sources::io_words;
use crate::text::gate::{self, Class};
use crate::text::signature::Part;
use crate::text::{Reader, TextEvent, What};
use memchr::{memchr, memrchr};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, Read};

pub const KIND: Kind = Kind { id: "log", name: "logs", is: |opened| super::kinds::is_text(&opened.head), read };

const CHUNK: usize = 256 << 10;
/// A line is cut here; the rest of it is read and forgotten.
const LONGEST: usize = 64 << 10;

fn read(opened: &mut Opened, case: &mut Case, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let file =
        case.add_file(LogFileInfo { path: opened.name.clone(), state: LogFileState::Open, ..LogFileInfo::default() }, opened.modified);
    let early = &opened.head[..opened.head.len().min(BUFFER)];
    case.early_lines(file, early.iter().filter(|b| **b == b'\n').count() as u64);
    let mut lines = Lines::new(case, file);
    let outcome = cut(opened, CHUNK, &mut lines, progress);
    let count = lines.no - 1;
    lines.end();
    case.files_read(file, count);
    match outcome {
        Ok(()) => Ok(Counts { lines: Some(count) }),
        Err(err) => Err(format!("reading stopped at line {count}: {}; what came before was judged", io_words(&err))),
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

/// The lines of one file on their way into the case.
struct Lines<'a> {
    case: &'a mut Case,
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
}

/// Lines of which there are millions, each worth little: channels, steps, and what was said before.
struct Lanes {
    /// Transports of channel lines, whether at the receiving end, and how many lines after the first.
    channels: Vec<(Vec<u8>, bool, u64)>,
    /// The kinds of step lines, with the letters that they are told by.
    steps: Vec<StepLane>,
    /// Steps read so far, and how many are read before any is passed over.
    steps_read: u64,
    all_steps: u64,
    /// Kinds of which the last line was passed over.
    behind: usize,
    /// Hashes of lines that said nothing, or only how NCCL came up.
    said: HashSet<u64, BuildHasherDefault<Same>>,
    /// The same of lines that name no process: a further run in the file may say them again, and means itself.
    said_in_run: HashMap<u64, Said, BuildHasherDefault<Same>>,
    /// From 1.
    run: u32,
    /// Hashes of lines without their digits that are noise, whatever the digits are.
    noise: HashSet<u64, BuildHasherDefault<Same>>,
    /// Something was said in this run that was said before.
    again: bool,
}

impl Default for Lanes {
    fn default() -> Self {
        Lanes {
            channels: Vec::new(),
            steps: Vec::new(),
            steps_read: 0,
            all_steps: ALL_STEPS,
            behind: 0,
            said: HashSet::default(),
            said_in_run: HashMap::default(),
            run: 1,
            noise: HashSet::default(),
            again: false,
        }
    }
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
    /// Something else was said since one was read: the next one may end a pause.
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

/// Sixteen bytes by one multiplication: what is told apart is a few thousand lines of a log, not an attacker's.
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
    fn new(case: &'a mut Case, file: u32) -> Lines<'a> {
        Lines {
            case,
            file,
            reader: Reader::default(),
            no: 1,
            events: Vec::new(),
            inside: false,
            tabled: false,
            tables: Tables::default(),
            lanes: Lanes::default(),
        }
    }

    /// Whole lines; the last one may lack its end only at the end of the file.
    fn chunk(&mut self, chunk: &[u8]) {
        let mut sieve = gate::Sieve::new(chunk);
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
                self.pieces(line);
            }
            self.no += 1;
        }
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
        self.line(line, hash, gate::classify(line), true);
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
            return;
        }
        if nccl_tests::begins(line) {
            self.tabled = true;
            return self.one(line);
        }
        let class = match said {
            Some(said) => said.class,
            None => {
                let mut space = [0; MAX_STEP];
                let shape = digitless(line, &mut space).map(self::hash);
                if shape.is_some_and(|shape| self.lanes.noise.contains(&shape)) {
                    return;
                }
                let class = gate::classify(line);
                if class == Class::Noise
                    && let Some(shape) = shape
                    && gate::is_noise_with_any_digits(line)
                {
                    insert(&mut self.lanes.noise, shape);
                    return;
                }
                class
            }
        };
        self.line(line, hash, class, false);
    }

    /// A line of a record or table: each is looked at.
    fn one(&mut self, line: &[u8]) {
        let class = if self.inside { Class::Alarm } else { gate::classify(line) };
        if self.tabled {
            let text = text_of(line);
            self.tables.line(&text, self.no);
            // What follows the last line of a run is a log again, and a further run begins like the first.
            self.tabled = !["Collective test concluded", "Avg bus bandwidth"].iter().any(|end| text.contains(end));
        }
        if class != Class::Noise {
            self.read(line, class);
        }
    }

    /// `… NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM` over a transport that was seen before: one more of them.
    fn is_channel(&mut self, line: &[u8], pair: usize) -> bool {
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
        let class = if self.inside { Class::Alarm } else { gate::classify(start) };
        if class != Class::Noise {
            self.read(start, class);
        }
    }

    fn line(&mut self, line: &[u8], hash: u64, class: Class, names_process: bool) {
        let mut nothing_new = true;
        // Of steps hardly two are equal.
        let mut may_come_again = true;
        if class != Class::Noise {
            self.catch_up();
            let text = text_of(line);
            self.parse(&text, class);
            self.lanes.note(&self.events, line);
            // What carries a time is when the untimed lines behind it were said, each time anew.
            nothing_new = !self.inside && self.events.iter().all(|e| is_bringup(&e.what) && e.origin.written.is_none());
            may_come_again = !self.events.iter().any(|e| matches!(e.what, What::Step(_)));
            self.tell(&text);
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
        self.case.run_began(self.file);
    }

    fn flush_channels(&mut self) {
        for (transport, receive, lines) in std::mem::take(&mut self.lanes.channels) {
            self.case.more_channels(self.file, &String::from_utf8_lossy(&transport), receive, lines);
        }
    }

    fn read(&mut self, bytes: &[u8], class: Class) {
        self.catch_up();
        let text = text_of(bytes);
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
        // Whether the job goes on after it, the next steps show.
        if self.events.iter().any(|e| is_failure(&e.what)) {
            self.lanes.all_steps = self.lanes.all_steps.max(self.lanes.steps_read + WATCHED_STEPS);
        }
        if self.events.iter().any(|e| e.what == What::RunStart) {
            self.run_began();
        }
        self.case.told(self.file, self.no, text, &mut self.events);
    }

    fn end(&mut self) {
        self.catch_up();
        self.events.clear();
        self.reader.idle(&mut self.events);
        self.case.told(self.file, self.no, "", &mut self.events);
        let path = self.case.path_of(self.file);
        let (tables, _) = std::mem::take(&mut self.tables).finish();
        self.case.tables.extend(tables.into_iter().map(|t| (path.clone(), t)));
        self.flush_channels();
        if self.lanes.again {
            self.case.same_as_before(self.file);
        }
    }
}

const CHANNEL: &[u8] = b"Channel ";
/// Kinds of transports that have a lane; others are read line by line.
const MOST_LANES: usize = 16;

impl Lanes {
    /// Learns from what a line said which lines are like it.
    fn note(&mut self, events: &[TextEvent], line: &[u8]) {
        if events.iter().any(|e| !matches!(e.what, What::Step(_))) {
            self.steps.iter_mut().for_each(|lane| lane.due = true);
        }
        let [event] = events else { return };
        match &event.what {
            What::Channel { .. } => {
                let pair = memchr::memmem::find(line, CHANNEL).map(|at| &line[at + CHANNEL.len()..]);
                if let Some((receive, transport)) = pair.and_then(channel)
                    && self.channels.len() < MOST_LANES
                {
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
    let is_progress =
        matches!(what, What::Step(_) | What::TotalSteps { .. } | What::Phase { .. } | What::Done | What::SkippedStep | What::RunStart);
    let is_harmless = matches!(what, What::Signed { signature, .. } if signature.part == Part::Harmless);
    is_harmless || !(is_progress || super::alarms::is_alarm(what))
}

fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    // Whether all is well is found out faster than what is not.
    let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
    if memchr(0, bytes).is_some() { text.replace('\0', "").into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Stamp, Zone};
    use proptest::prelude::*;

    /// Hands out a few bytes at a time.
    struct Drip(Vec<u8>, usize, usize);

    impl Read for Drip {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let n = self.2.min(buf.len()).min(self.0.len() - self.1);
            buf[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }

    fn case_of(text: &[u8], piece: usize) -> (Case, Option<u64>) {
        let mut case = Case::new(Zone::UTC);
        let mut opened = Opened::from_read("x.log".into(), Drip(text.to_vec(), 0, piece), Stamp(0)).unwrap();
        let counts = (KIND.read)(&mut opened, &mut case, &mut || ()).unwrap();
        (case, counts.lines)
    }

    #[test]
    fn lines_are_counted_and_found_however_they_come() {
        let mut text = b"noise\n[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a.py\", line 3, in f\n".to_vec();
        text.extend_from_slice(
            b"[rank1]: ValueError: bad\nstep 7 loss 2.5\n\rstep 8 loss 2.25\rnoise\nh:1:1 [0] a.cc:1 NCCL WARN odd\nno end",
        );
        for piece in [1, 7, 100_000] {
            let (mut case, lines) = case_of(&text, piece);
            assert_eq!(lines, Some(8), "{piece}");
            let (findings, root) = case.judge();
            let places: Vec<_> = findings.iter().map(|f| (f.rule, f.found.evidence[0].line)).collect();
            assert_eq!(places, [("python-exception", Some(4)), ("nccl-warn", Some(7))], "{piece}");
            assert_eq!(root, Some(0));
            assert_eq!(case.model.files[&0].progress.step, Some(8));
        }
    }

    #[test]
    fn a_run_begins_anew_only_after_something_has_failed() {
        let banner =
            "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded\n";
        let warn = |no: u32| format!("h:1:1 [0] a.cc:{no} NCCL WARN odd\n");
        let text = [banner, banner, &warn(1), &warn(2), banner, banner, &warn(1)].concat();
        let (case, _) = case_of(text.as_bytes(), 100_000);
        let runs: Vec<_> = case.alarms.iter().map(|a| (a.run, a.line)).collect();
        assert_eq!(runs, [(0, 3), (1, 7)]);
    }

    #[test]
    fn blank_lines_in_a_traceback_say_nothing() {
        let text =
            format!("[rank3]: Traceback (most recent call last):\n{}[rank3]: ValueError: bad\nstep 7 loss 2.5\n", "\n \n\r".repeat(2000));
        let (mut case, _) = case_of(text.as_bytes(), 100_000);
        let (findings, _) = case.judge();
        assert_eq!(findings.iter().map(|f| (f.rule, f.found.ranks.clone())).collect::<Vec<_>>(), [("python-exception", vec![3])]);
        assert_eq!(case.model.files[&0].progress.step, Some(7));
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
        let at = case.alarms.iter().last().and_then(|a| a.at).map(|at| Zone::UTC.rfc3339(at));
        assert!(at.as_deref().is_some_and(|at| at.ends_with("-11-21T00:00:01.000+00:00")), "{at:?}");
    }

    #[test]
    fn a_process_that_says_a_thing_again_when_its_rank_is_known_says_one_thing() {
        let warn = "h:1:1 [0] a.cc:1 NCCL WARN odd\n";
        let init =
            "h:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 4 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init COMPLETE\n";
        let (case, _) = case_of([warn, init, warn, &warn.replace("h:1", "i:1")].concat().as_bytes(), 100_000);
        let said: Vec<_> = case.alarms.iter().map(|a| (a.line, a.rank, a.count)).collect();
        assert_eq!(said, [(1, Some(4), 2), (4, Some(4), 1)]);
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_is_read_at_its_start() {
        let mut text = b"h:1:1 [0] a.cc:1 NCCL WARN long ".to_vec();
        text.resize(3 << 20, b'x');
        text.extend_from_slice(b"\nstep 1 loss 2.0\nstep 2 loss 1.0");
        let (mut case, lines) = case_of(&text, 100_000);
        assert_eq!(lines, Some(3));
        assert_eq!(case.judge().0[0].rule, "nccl-warn");
        assert_eq!(case.model.files[&0].progress.step, Some(2));
    }

    /// What a case knows, as far as two ways of reading must agree, in pieces. How often and when a line of bring-up came again does not
    /// matter.
    fn known(case: &mut Case) -> Vec<String> {
        let again =
            regex::Regex::new(r#" lines: \d+|\w+: Proof .*? text: "(?:\\.|[^"\\])*" \}|\w+: Some\(Proof .*? text: "(?:\\.|[^"\\])*" \}\)"#)
                .unwrap();
        let (mut all, mut said) = (Vec::new(), HashSet::new());
        for a in case.alarms.iter() {
            // Said again, it may be of a rank that is known by then.
            if let What::Signed { signature, .. } = &a.event.what
                && signature.part == Part::Harmless
            {
                if said.insert((signature.id, a.event.origin.pid)) {
                    all.push(format!("harmless {} {:?}", signature.id, a.event.origin.pid));
                }
                continue;
            }
            all.push(format!("alarm {} {} {:?} {:?} {} {} {:?}", a.run, a.line, a.rank, a.at, a.count, a.text, a.event));
        }
        let log = &case.model.files[&0];
        let p = &log.progress;
        all.push(format!("progress {:?} {:?} {:?} {} {:?}", p.step, p.total_steps, p.loss, p.skipped_steps, p.done_at));
        all.push(again.replace_all(&format!("bringup {:?}", log.bringup), "").into_owned());
        all.push(format!("{:?} {:?} {:?} {:?}", case.transports, case.hosts, case.ranks, case.init_s));
        let (mut findings, _) = case.judge();
        // Losses of exactly 0 are counted in a row, and a long row is thinned out.
        findings.retain(|f| f.found.subject != "gradients");
        all.extend(findings.iter().map(|f| format!("{} {:?} {} {:?}", f.rule, f.severity, f.found.subject, f.found.evidence)));
        all.iter().flat_map(|s| s.split(", ")).map(str::to_owned).collect()
    }

    /// The first thing that differs.
    fn difference(a: &[String], b: &[String]) -> Option<String> {
        let at = (0..a.len().max(b.len())).find(|i| a.get(*i) != b.get(*i))?;
        let around = |all: &[String]| all[at.saturating_sub(6).min(all.len())..all.len().min(at + 2)].join(", ");
        Some(format!("{}\n{}", around(a), around(b)))
    }

    fn is_chatter(line: &[u8]) -> bool {
        gate::Sieve::new(line).next_candidate().line.is_none()
    }

    /// Every line through the reader, in the plainest way.
    fn slow(text: &[u8]) -> (Case, u64) {
        let mut case = Case::new(Zone::UTC);
        let info = LogFileInfo { path: "x.log".into(), state: LogFileState::Open, ..LogFileInfo::default() };
        let file = case.add_file(info, Stamp(0));
        let (mut reader, mut events, mut no) = (Reader::default(), Vec::new(), 0);
        for line in text.split_inclusive(|b| *b == b'\n') {
            no += 1;
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            for piece in line.strip_suffix(b"\r").unwrap_or(line).split(|b| *b == b'\r') {
                reader.at_line(Some(no));
                reader.line(&text_of(piece), &mut events);
                case.told(file, no, &text_of(piece), &mut events);
            }
        }
        reader.idle(&mut events);
        case.told(file, no + 1, "", &mut events);
        (case, no)
    }

    /// The way that `check` takes, with chunks of a size; of steps some are passed over from the start.
    fn fast(text: &[u8], chunk: usize) -> (Case, u64) {
        let mut case = Case::new(Zone::UTC);
        let info = LogFileInfo { path: "x.log".into(), state: LogFileState::Open, ..LogFileInfo::default() };
        let file = case.add_file(info, Stamp(0));
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
        let text = b"vm:1:1 [0] NCCL INFO Tree 0\r\nvm:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\nstep 1 loss 2\nstep 2 loss 3\n\n\
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
            assert_eq!((lines, case.model.files[&0].progress.step), (3, Some(20_000)));
            assert_eq!(case.alarms.iter().next().map(|a| a.line), Some(3));
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
}
