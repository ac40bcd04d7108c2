//! PyTorch and its launchers: watchdogs, tracebacks, torchrun. Keeps the lines so far of records that span several lines.

mod calls;
pub mod crash;
pub mod doing;
mod launcher;
mod message;
mod rich;
mod traceback;
mod watchdog;
mod work_stack;

use super::gpu_memory::GpuMemory;
use super::prefix::Peeled;
use super::{Exception, Origin, RankBy, SaidAt, TextEvent, What};
use crate::base::clean;
use aho_corasick::{AhoCorasick, MatchKind};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// `ValueError: boom`: the last line of a traceback.
pub fn is_exception(text: &str) -> bool {
    traceback::exception(text).is_some()
}

fn is_exceptional(what: &What) -> bool {
    matches!(what, What::Exception(_) | What::CudaError { .. } | What::CudaOom { .. })
}

/// Lines that only make sense together: tracebacks, the failure table. Bounded, whatever the file holds.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    tracebacks: traceback::Tracebacks,
    tables: launcher::Tables,
    watchdog: watchdog::Seen,
    torn: Option<Torn>,
    work_stack: Option<work_stack::Open>,
    cuda: Told,
    last_words: Option<LastWords>,
    /// A traceback was read to its end in this run.
    has_excepted: bool,
    /// None was, before the table that is being read.
    table_tells: bool,
}

/// An exception without its traceback, which is only believed when a launcher reports soon that the process ended.
#[derive(Clone, PartialEq)]
struct LastWords {
    exception: Exception,
    origin: Origin,
    said_at: SaidAt,
    /// Lines worth a look since.
    waited: u8,
}

const MAX_LAST_WORDS_WAIT: u8 = 16;

/// A line of the watchdog that ends in the middle: a terminal or a mail broke it, and the next one goes on with it.
#[derive(Clone, PartialEq)]
struct Torn {
    origin: Origin,
    text: String,
    /// Number of the first line.
    line: Option<u64>,
    pieces: u8,
}

/// A terminal of 80 columns breaks the longest of them into so many.
const MAX_PIECES: u8 = 6;
const MAX_TORN: usize = 2000;

impl State {
    pub fn at_line(&mut self, no: Option<u64>) {
        self.tracebacks.line = no;
    }

    /// Whether lines that mean nothing alone may be passed over.
    pub fn is_idle(&self) -> bool {
        self.tracebacks.is_idle() && self.tables.is_idle() && self.torn.is_none()
    }

    /// Frames of a collective that timed out may come.
    pub fn is_in_stack(&self) -> bool {
        self.work_stack.is_some()
    }

    /// Reads one record. `true`: it belongs to PyTorch, nobody else needs to look at it.
    pub fn read(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) -> bool {
        let from = out.len();
        if self.work_stack.as_mut().is_some_and(|stack| stack.goes_on(p)) {
            return true;
        }
        self.end_stack(out);
        if self.goes_on(p, out) {
            self.settle(from, out);
            return true;
        }
        // Within a record of several lines, every line comes here.
        let is_blank = p.rest.trim_ascii().is_empty();
        self.listen(p);
        let taken = self.table(p, out) || self.tracebacks.read(p, out) || is_blank || self.launcher(p, out) || {
            if p.cpp && watchdog::is_torn(p.rest) || watchdog::is_head(p.rest) {
                let text = clean::clip(p.rest, MAX_TORN).into_owned();
                self.torn = Some(Torn { origin: p.origin.clone(), text, line: self.tracebacks.line, pieces: 1 });
            } else {
                self.work_stack = work_stack::Open::of(p, self.tracebacks.line);
                watchdog::read(p, &mut self.watchdog, out);
                super::cuda::read(p.rest, &watchdog::origin_of(p), out);
            }
            p.cpp
        };
        self.settle(from, out);
        taken
    }

    /// A line of a launcher's table. The tracebacks in it say nothing new where one was printed before.
    fn table(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) -> bool {
        let begins = self.tables.is_idle();
        if !self.tables.read(p, out) {
            return false;
        }
        if begins {
            self.tracebacks.flush(out);
            self.has_excepted |= out.iter().any(|e| is_exceptional(&e.what));
            self.table_tells = !self.has_excepted;
        }
        match self.tables.traced(p).filter(|_| self.table_tells) {
            Some((rank, line)) => {
                let mut origin = p.origin.clone();
                (origin.rank, origin.rank_by) = (rank.or(origin.rank), rank.map_or(origin.rank_by, |_| RankBy::PyTorch));
                self.tracebacks.read(&Peeled { origin, rest: line, ..Peeled::default() }, out);
            }
            None => self.tracebacks.flush(out),
        }
        true
    }

    /// Whether a line goes on with one that was torn. One that has a prefix of its own, or looks like something else, does not.
    fn goes_on(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) -> bool {
        let Some(mut torn) = self.torn.take() else { return false };
        let other = ["Traceback", "Exception raised from", "frame #", "terminate called", "  what()"];
        let is_own =
            p.origin != Origin::default() || p.cpp || p.rest.starts_with([' ', '\t']) || other.iter().any(|o| p.rest.starts_with(o));
        if is_own || p.rest.is_empty() || torn.text.len() + p.rest.len() > MAX_TORN {
            self.read_torn(&torn, out);
            return false;
        }
        // What is left of the width of a screen.
        if torn.text.ends_with("  ") {
            torn.text.truncate(torn.text.trim_end().len());
        }
        torn.text.push_str(p.rest);
        torn.pieces += 1;
        if watchdog::is_torn(&torn.text) && torn.pieces < MAX_PIECES {
            self.torn = Some(torn);
        } else {
            self.read_torn(&torn, out);
        }
        true
    }

    fn read_torn(&mut self, torn: &Torn, out: &mut Vec<TextEvent>) {
        let from = out.len();
        let whole = Peeled { origin: torn.origin.clone(), rest: &torn.text, cpp: true, ..Peeled::default() };
        watchdog::read(&whole, &mut self.watchdog, out);
        super::cuda::read(whole.rest, &watchdog::origin_of(&whole), out);
        for event in &mut out[from..] {
            event.said_at = Some(SaidAt { line: torn.line, text: torn.text.clone(), raised_at: None, ..SaidAt::default() });
        }
    }

    /// No further frame of it comes.
    fn end_stack(&mut self, out: &mut Vec<TextEvent>) {
        if let Some(stack) = self.work_stack.take() {
            stack.end(out);
        }
    }

    /// Keeps what may be the last words of a process.
    fn listen(&mut self, p: &Peeled<'_>) {
        self.last_words.iter_mut().for_each(|words| words.waited += 1);
        self.last_words.take_if(|words| words.waited > MAX_LAST_WORDS_WAIT);
        if p.cpp || !self.tracebacks.is_idle() {
            return;
        }
        let Some((class, message)) = traceback::exception(p.rest.trim_end()) else { return };
        let said_at = SaidAt { line: self.tracebacks.line, text: clean::clip(p.rest, MAX_TORN).into_owned(), ..SaidAt::default() };
        let (class, message) = (class.to_owned(), clean::clip(message, MAX_TORN).into_owned());
        let exception = Exception { victim: traceback::is_victim(&class, &message), class, message, ..Exception::default() };
        self.last_words = Some(LastWords { exception, origin: p.origin.clone(), said_at, waited: 0 });
    }

    /// A launcher speaks of processes that have ended: nothing is chained to their tracebacks any more.
    fn launcher(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) -> bool {
        let Some(what) = launcher::find(p.rest) else { return false };
        self.tracebacks.flush(out);
        self.has_excepted |= out.iter().any(|e| is_exceptional(&e.what));
        if matches!(what, What::WorkerFailed { exit_code: 1.., .. })
            && let Some(words) = self.last_words.take().filter(|_| !self.has_excepted)
        {
            let LastWords { exception, origin, said_at, .. } = words;
            out.push(TextEvent { origin, what: What::Exception(exception), said_at: Some(said_at) });
        }
        emit(out, &p.origin, what);
        true
    }

    /// The last line of this process that was read is `Last error:`.
    pub fn awaits_last_error(&self, p: &Peeled<'_>) -> bool {
        self.tracebacks.awaits_last_error(p)
    }

    /// A line of another program went by.
    pub fn pass(&mut self, out: &mut Vec<TextEvent>) {
        if !self.tracebacks.is_idle() {
            let from = out.len();
            self.tracebacks.pass(out);
            self.settle(from, out);
        }
    }

    /// What is held back because more of it may come.
    pub fn idle(&mut self, out: &mut Vec<TextEvent>) {
        let from = out.len();
        self.end_stack(out);
        if let Some(torn) = self.torn.take() {
            self.read_torn(&torn, out);
        }
        self.tables.flush(out);
        self.tracebacks.flush(out);
        self.settle(from, out);
    }

    /// Nothing comes any more.
    pub fn end(&mut self, out: &mut Vec<TextEvent>) {
        self.idle(out);
        let from = out.len();
        self.tracebacks.end(out);
        self.settle(from, out);
    }

    /// A new run forgets the old one; the same CUDA failure of one process is reported once, whatever repeats it (`what():`, the watchdog).
    fn settle(&mut self, from: usize, out: &mut Vec<TextEvent>) {
        if out.len() == from {
            return;
        }
        self.has_excepted |= out[from..].iter().any(|e| is_exceptional(&e.what));
        if out[from..].iter().any(|e| e.what == What::RunStart) {
            *self = State::default();
        }
        let mut i = from;
        while i < out.len() {
            let repeated = match &out[i].what {
                What::CudaError { text } | What::CudaOom { text, .. } => {
                    // Processes without a rank have GPUs of their own.
                    !self.cuda.first_time(&(&out[i].origin.rank, &out[i].origin.pid, GpuMemory::of(text).gpu, gist(text)))
                }
                _ => false,
            };
            if repeated {
                out.remove(i);
            } else {
                i += 1;
            }
        }
    }
}

/// The start of a failure's text: repeats differ in their ends.
fn gist(text: &str) -> &str {
    let end = text.find(['\n', '.']).unwrap_or(text.len()).min(text.char_indices().nth(60).map_or(text.len(), |(i, _)| i));
    text[..end].trim_end()
}

/// Remembers the last few hundred things reported.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Told {
    hashes: VecDeque<u64>,
}

const MAX_TOLD: usize = 512;

impl Told {
    pub(super) fn first_time(&mut self, thing: &impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        thing.hash(&mut hasher);
        let hash = hasher.finish();
        if self.hashes.contains(&hash) {
            return false;
        }
        if self.hashes.len() == MAX_TOLD {
            self.hashes.pop_front();
        }
        self.hashes.push_back(hash);
        true
    }
}

fn emit(out: &mut Vec<TextEvent>, origin: &Origin, what: What) {
    out.push(TextEvent { origin: origin.clone(), what, said_at: None });
}

/// Whether a text has one of some words. Most lines have none: asking for them all at once is cheap, one by one is not.
pub(super) fn words(words: &[&str]) -> AhoCorasick {
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(words).expect("words")
}

/// The unsigned number at the start of `text`.
fn leading_number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..n].parse().ok()
}

/// The number right behind `mark`.
fn number_after<T: std::str::FromStr>(text: &str, mark: &str) -> Option<T> {
    leading_number(text.split_once(mark)?.1)
}
