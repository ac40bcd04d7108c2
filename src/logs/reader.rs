//! Reads the lines of one file, in order: cuts them into records, peels off who wrote them, and hands them to the readers of each program.

use super::ctest::Ctest;
use super::shipped::{unwrapped, without_json};
use super::shown::is_shown;
use super::torch::crash::Crash;
use super::{Origin, SaidAt, TextEvent, What, catalog, header, metrics, nccl, parts, prefilter, prefix, progress, tasks, torch};
use crate::base::clean::{clean, clip};
use crate::base::severity::Severity;
use memchr::memmem::Finder;
use std::sync::LazyLock;

/// What a line is known by, without the lines around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownBy {
    /// The entry of the catalogue.
    pub entry: Option<&'static catalog::Signature>,
    /// What a reader takes from it, in the reader's own word: `step`.
    pub reader: Option<String>,
}

/// The first thing that a line says; nothing where it means nothing.
pub fn known_by(line: &str) -> KnownBy {
    let mut events = Vec::new();
    let mut reader = Reader::default();
    reader.read_all(line, prefilter::classify(line.as_bytes()), &mut events);
    reader.torch.idle(&mut events);
    reader.end_warn(&mut events);
    events.extend(reader.banner.take().map(|banner| banner.event));
    events.extend(reader.crash.take().map(|mut crash| crash.told()));
    let Some(event) = events.first() else { return KnownBy::default() };
    KnownBy { entry: event.what.entry_of(line), reader: Some(event.what.name()) }
}

/// Whether a line that is worth a look says nothing worse than a warning, as far as it says anything without the lines around it.
pub fn is_only_warning(line: &[u8]) -> bool {
    let mut events = Vec::new();
    Reader::default().read(&String::from_utf8_lossy(line), prefilter::Class::Alarm, &mut events);
    !events.is_empty() && events.iter().all(|e| e.what.severity() < Some(Severity::Error))
}

/// What the user has muted is never reported.
fn drop_muted(from: usize, out: &mut Vec<TextEvent>) {
    if from < out.len() && catalog::user::has_mutes() {
        let new = out.split_off(from);
        out.extend(new.into_iter().filter(|event| event.what.signature().is_none_or(|s| !s.muted)));
    }
}

/// What the driver says of a GPU in several lines, of which only the first names it.
#[derive(Clone, Default, PartialEq)]
struct OfGpu {
    text: String,
    lines: u8,
}

impl OfGpu {
    /// The whole record, where `rest` goes on with one that names a GPU: its lines behind one another.
    fn read(&mut self, rest: &str) -> Option<String> {
        let text = rest.trim();
        let Some(tail) = text.strip_prefix("NVRM: ") else {
            *self = OfGpu::default();
            return None;
        };
        if tail.starts_with("The NVIDIA GPU ") {
            *self = OfGpu { text: text.to_owned(), lines: 1 };
            return None;
        }
        if self.lines == 0 || self.lines > 4 {
            return None;
        }
        self.lines += 1;
        self.text.push(' ');
        self.text.push_str(&clip(tail, 200));
        Some(self.text.clone())
    }
}

/// Reads the lines of one file, in order.
#[derive(Clone, Default, PartialEq)]
pub struct Reader {
    torch: torch::State,
    nccl: nccl::State,
    progress: progress::State,
    /// It is a `metrics.csv`, or has a table of steps.
    metrics: Option<metrics::Columns>,
    /// Lines in which no header of such a table was found.
    before_table: u32,
    is_first: bool,
    gpu: OfGpu,
    /// ctest wrote it: what stands before its lines is the number of a test, not of a rank.
    ctest: Ctest,
    parts: parts::Parts,
    tasks: tasks::Tasks,
    header: header::State,
    /// Horovod's `Missing ranks:` was read: a line for each of them follows.
    names_missing: bool,
    /// A process crashed, and its stack is to come.
    crash: Option<Box<Crash>>,
    /// A WARN of NCCL whose text is to come.
    broken_warn: Option<Box<BrokenWarn>>,
    /// torchrun's banner was read: a run starts, unless the next line shows that the banner is old.
    banner: Option<Box<Banner>>,
    /// The number of the present line in its file.
    no: Option<u64>,
}

/// What a launcher prints when it starts its ranks. An older one prints it through a buffer, which a file gets at the launcher's end: behind
/// all that its ranks have written, and together with what it prints then.
#[derive(Clone, PartialEq)]
struct Banner {
    event: TextEvent,
    line: Option<u64>,
}

impl Banner {
    /// The banner has three lines.
    const NEAR: u64 = 3;

    fn is_old(&self, line: &str, no: Option<u64>) -> bool {
        let is_near = self.line.zip(no).is_none_or(|(banner, no)| no <= banner + Banner::NEAR);
        is_near && ["Killing subprocess ", "Main process received SIG"].iter().any(|last| line.trim_start().starts_with(last))
    }

    /// The line of stars below it.
    fn goes_on(line: &str) -> bool {
        line.trim().bytes().all(|b| b == b'*')
    }
}

/// A WARN of NCCL that a terminal or a mail broke: its text, or the end of it, stands in the next lines, behind blanks. Or an error of MPICH,
/// whose reason stands at the end of its stack.
#[derive(Clone, PartialEq)]
struct BrokenWarn {
    text: String,
    line: Option<u64>,
    lines: u8,
    is_stack: bool,
}

impl BrokenWarn {
    const MOST_LINES: u8 = 5;
    const LONGEST: usize = 2000;
    /// `Abort(…): Fatal error in PMPI_Send: Other MPI error, error stack:`
    const STACK: &str = "error stack:";
    /// Calls of one stack.
    const MOST_CALLS: u8 = 24;

    /// It has no text, or one that only announces the next line.
    fn opens(line: &str) -> bool {
        let line = line.trim_end();
        line.ends_with("NCCL WARN") || line.ends_with(':') && line.len() < BrokenWarn::LONGEST && line.contains("NCCL WARN ")
    }

    /// Takes the next line in, if it belongs to the text.
    fn goes_on(&mut self, line: &str) -> bool {
        if self.is_stack {
            // A launcher puts the same in front of each line.
            let line = prefix::peel(line).rest.trim();
            let call = line.split('(').next().unwrap_or_default();
            // Heads of several ranks stand together: whose stack this is shows its first call.
            let is_its = self.lines > 0 || self.text.contains(&format!("Fatal error in {call}:"));
            let is_call = is_its && self.lines < BrokenWarn::MOST_CALLS && is_call_of_mpich(line);
            // The innermost call says why: the last one that says anything.
            let says = |line: &str| line.split_once(": ").is_some_and(|(_, words)| !words.trim().is_empty());
            if is_call && says(line) && line.len() < BrokenWarn::LONGEST {
                let head = self.text.find(BrokenWarn::STACK).map_or(self.text.len(), |at| at + BrokenWarn::STACK.len());
                self.text.truncate(head);
                self.text.push(' ');
                self.text.push_str(line);
            }
            self.lines += u8::from(is_call);
            return is_call;
        }
        // A bar, a row of a launcher's table, and the end of a traceback say something of their own.
        let is_other = line.contains("%|") || line.contains(" : ") || torch::is_exception(line.trim());
        let is_text = line.starts_with("  ") && !line.trim().is_empty() && !line.contains("NCCL ");
        let is_its = is_text && !is_other && !line.trim_start().starts_with("File \"");
        if !is_its || self.lines == BrokenWarn::MOST_LINES || self.text.len() + line.len() > BrokenWarn::LONGEST {
            return false;
        }
        self.text.push(' ');
        self.text.push_str(line.trim());
        self.lines += 1;
        true
    }
}

/// `MPIDI_OFI_send_lightweight(34): OFI tagged injectdata failed (…)`
fn is_call_of_mpich(line: &str) -> bool {
    let name = line.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    let Some((place, _)) = line[name..].strip_prefix('(').and_then(|tail| tail.split_once(')')) else { return false };
    let behind = &line[name + place.len() + 2..];
    name > 3 && !place.is_empty() && place.bytes().all(|b| b.is_ascii_digit()) && behind.trim_start_matches('.').starts_with(':')
}

/// The head of Horovod's list of ranks that others wait for.
const MISSING: [&str; 2] = ["Missing ranks:", "Stalled ranks:"];
/// A launcher prints its warnings, a script its settings, NCCL its channels.
const MAX_BEFORE_TABLE: u32 = 1000;
/// How lines begin that a launcher prints under its own name.
const LAUNCHERS: &[&str] = &["srun: ", "slurmstepd", "mpirun ", "mpiexec ", "prterun "];

/// When Slurm says that a step was cancelled: `*** STEP 7.0 ON node-1 CANCELLED AT 2026-04-15T19:07:03 ***`.
fn cancelled_at(text: &str) -> Option<super::Written> {
    prefix::stamp::iso(text.split_once(" CANCELLED AT ")?.1).map(|(written, _)| written)
}

/// Nothing that a reader knows is longer; longer lines are read up to here.
const MAX_LINE: usize = 64 * 1024;

impl Reader {
    /// The rank that stands in front of a line of this file.
    pub fn rank_of(&self, p: &prefix::Peeled<'_>) -> Option<u32> {
        self.tasks.rank_of(p)
    }

    /// A record of several lines has begun, and the next line may belong to it although it looks like noise.
    pub fn is_inside(&self) -> bool {
        self.crash.is_some() || self.broken_warn.is_some() || self.torch.is_in_stack() || self.is_inside_text()
    }

    /// The same of records whose lines may be any text.
    fn is_inside_text(&self) -> bool {
        // What a native stack holds nobody takes for anything else.
        self.crash.as_ref().is_some_and(|crash| !crash.is_native())
            || !self.torch.is_idle()
            || self.broken_warn.as_ref().is_some_and(|warn| !warn.is_stack)
            || !self.parts.is_empty()
            || self.names_missing
            || self.header.is_inside()
    }

    /// Whether the line of this number is the header of a table of steps, a row of the one that was begun, or the end of that.
    pub fn is_of_table(&self, no: u64, line: &[u8]) -> bool {
        let text = || std::str::from_utf8(line).ok();
        match &self.metrics {
            Some(columns) if metrics::may_be_row(line) => text().is_some_and(|text| columns.row(text).is_some() || columns.is_over(text)),
            Some(columns) => text().is_some_and(|text| columns.is_over(text)),
            None => no <= u64::from(MAX_BEFORE_TABLE) && text().is_some_and(|text| metrics::Columns::of_table(text).is_some()),
        }
    }

    /// The number in its file of the line that [`Reader::line`] gets next.
    pub fn at_line(&mut self, no: Option<u64>) {
        self.torch.at_line(no);
        self.no = no;
        self.is_first = no == Some(1);
    }

    /// Puts what `line` says into `out`, if it is worth a look. `line` is one physical line without its end, as it came; it may hold
    /// several records.
    pub fn line(&mut self, line: &str, out: &mut Vec<TextEvent>) {
        self.read(line, prefilter::classify(line.as_bytes()), out);
    }

    /// Like [`Reader::line`], for a caller that has asked the gate already.
    pub fn read(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        let before = out.len();
        self.read_all(line, class, out);
        self.tasks.take_back(&mut out[before..]);
        drop_muted(before, out);
    }

    /// Like [`Reader::read`], with what the user has muted.
    pub fn read_all(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        if let Some(banner) = self.banner.take_if(|_| !Banner::goes_on(line))
            && !banner.is_old(line, self.no)
        {
            self.run_starts(*banner, out);
        }
        let before = out.len();
        match self.parts.read(line) {
            parts::Part::Whole => self.read_whole(line, class, out),
            parts::Part::Begun => {}
            parts::Part::Ended(line) => self.read_whole(&line, prefilter::classify(line.as_bytes()), out),
        }
        if let Some(at) = out[before..].iter().position(|event| event.what == What::RunStart) {
            self.banner = Some(Box::new(Banner { event: out.remove(before + at), line: self.no }));
        }
    }

    fn run_starts(&mut self, banner: Banner, out: &mut Vec<TextEvent>) {
        self.header.restart();
        out.push(banner.event);
    }

    fn read_whole(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        if let Some(warn) = &mut self.broken_warn {
            let text = clean(line);
            match warn.goes_on(&text) {
                // What a stack names is known by itself, too.
                true if warn.is_stack => return self.read_one(line, class, out),
                true => return,
                false => self.end_warn(out),
            }
        }
        static WARN: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("NCCL WARN"));
        static STACK: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(BrokenWarn::STACK));
        let is_stack = class == prefilter::Class::Alarm && STACK.find(line.as_bytes()).is_some();
        if is_stack || WARN.find(line.as_bytes()).is_some() {
            let text = clean(line);
            if is_stack && text.trim_end().ends_with(BrokenWarn::STACK) || BrokenWarn::opens(&text) {
                let text = text.trim_end().to_owned();
                self.broken_warn = Some(Box::new(BrokenWarn { text, line: self.no, lines: 0, is_stack }));
                return;
            }
        }
        self.read_one(line, class, out);
    }

    /// No further line of it comes.
    fn end_warn(&mut self, out: &mut Vec<TextEvent>) {
        let Some(warn) = self.broken_warn.take() else { return };
        let from = out.len();
        self.read_one(&warn.text, prefilter::Class::Alarm, out);
        for event in out[from..].iter_mut().filter(|event| event.said_at.is_none()) {
            event.said_at = Some(SaidAt { line: warn.line, text: clip(&warn.text, 2000).into_owned(), ..SaidAt::default() });
        }
    }

    fn read_one(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        if std::mem::take(&mut self.is_first) {
            self.metrics = metrics::Columns::of(line);
        }
        if self.metrics.is_none() && self.before_table < MAX_BEFORE_TABLE {
            self.before_table += 1;
            self.metrics = metrics::Columns::of_table(line);
        }
        if self.metrics.as_ref().is_some_and(|columns| columns.is_over(line)) {
            self.metrics = metrics::Columns::of_table(line);
        }
        if let Some(step) = self.metrics.as_ref().and_then(|columns| columns.row(line)) {
            out.push(TextEvent { origin: Origin::default(), what: What::Step(step), said_at: None });
            return;
        }
        // Lines that belong to a record that has begun may look like anything.
        let class = match class {
            _ if !self.torch.is_idle() || self.torch.is_in_stack() || self.crash.is_some() => prefilter::Class::Alarm,
            prefilter::Class::Noise if self.header.is_inside() => prefilter::Class::Fact,
            class => class,
        };
        if class == prefilter::Class::Noise {
            return;
        }
        let rest = &line[..(0..=line.len().min(MAX_LINE)).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0)];
        let of_logger = || prefix::of_json(rest).filter(|_| class == prefilter::Class::Alarm);
        match unwrapped(rest).or_else(of_logger) {
            Some(text) => self.pieces(&text, class, out),
            None => self.pieces(rest, class, out),
        }
    }

    fn pieces(&mut self, line: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        let mut rest = line;
        while let Some(at) = memchr::memchr2(b'\r', b'\n', rest.as_bytes()) {
            self.piece(&rest[..at], class, out);
            rest = &rest[at + 1..];
        }
        if !rest.is_empty() || line.is_empty() {
            self.piece(rest, class, out);
        }
    }

    fn piece(&mut self, piece: &str, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        let cleaned = clean(piece);
        if let Some(event) = self.missing(&cleaned) {
            return out.push(event);
        }
        let text = self.ctest.without_test(&cleaned);
        if class == prefilter::Class::Alarm && !self.is_inside() && is_shown(prefix::peel(text).rest) {
            return;
        }
        // Every head of another record has a bracket, or stands behind a bar.
        if memchr::memchr(b']', text.as_bytes()).is_none() && prefix::behind_bar(text).is_none() {
            return self.record(prefix::peel(text), class, out);
        }
        let records = prefix::records(text);
        let (first, further) = records.split_first().unwrap_or((&text, &[]));
        let first = prefix::peel(first);
        // Who stands in front of the line wrote all of it.
        let host = if further.is_empty() { None } else { first.origin.host.clone() };
        self.record(first, class, out);
        for record in further {
            let mut peeled = prefix::peel(record);
            if peeled.origin.host.is_none() {
                peeled.origin.host.clone_from(&host);
            }
            self.record(peeled, class, out);
        }
    }

    /// `2: [grads_0, grads_1]` of Horovod's list of ranks that others wait for.
    fn missing(&mut self, text: &str) -> Option<TextEvent> {
        // The number is no prefix of a launcher.
        let tail = ["]<stderr>:", "]<stdout>:"].iter().find_map(|tag| Some(text.split_once(tag)?.1)).unwrap_or(text).trim();
        if !std::mem::replace(&mut self.names_missing, MISSING.contains(&tail)) {
            return None;
        }
        let (rank, tensors) = tail.split_once(": [")?;
        rank.parse::<u32>().ok()?;
        let tensor = tensors.split([',', ']']).next()?;
        let text = format!("{} [missing ranks: {rank}]", clip(tensor, 120));
        let signature = catalog::find(catalog::Scope::Line, &text)?;
        self.names_missing = true;
        let origin = prefix::peel(text.as_str()).origin;
        Some(TextEvent { origin, what: What::Signed { signature, text, tried: false }, said_at: None })
    }

    /// The file has been silent for a while, or has ended: puts what was held back, because more of it might have come, into `out`.
    pub fn idle(&mut self, out: &mut Vec<TextEvent>) {
        let before = out.len();
        if let Some(banner) = self.banner.take() {
            self.run_starts(*banner, out);
        }
        for line in self.parts.take() {
            self.read_whole(&line, prefilter::classify(line.as_bytes()), out);
        }
        self.end_warn(out);
        self.torch.idle(out);
        self.header.idle(out);
        out.extend(self.crash.take().map(|mut crash| crash.told()));
        self.tasks.take_back(&mut out[before..]);
        drop_muted(before, out);
    }

    /// The file has ended for good: what is known of a record that it cuts off, too.
    pub fn end(&mut self, out: &mut Vec<TextEvent>) {
        let before = out.len();
        self.idle(out);
        self.torch.end(out);
        self.tasks.take_back(&mut out[before..]);
    }

    /// One record: what it says by itself, and beside that what it tells of the run.
    fn record(&mut self, p: prefix::Peeled<'_>, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        let (mut of_run, before) = (Vec::new(), out.len());
        if self.tasks.before(&p) {
            of_run.push(TextEvent { origin: p.origin.clone(), what: What::TasksAreLaunchers, said_at: None });
        }
        self.header.read(p.rest, &p.origin, &mut of_run);
        let task = p.task;
        self.told(p, class, out);
        if self.tasks.after(task, &out[before..]) {
            of_run.push(TextEvent { origin: Origin::default(), what: What::TasksAreLaunchers, said_at: None });
        }
        out.append(&mut of_run);
    }

    fn told(&mut self, mut p: prefix::Peeled<'_>, class: prefilter::Class, out: &mut Vec<TextEvent>) {
        static NCCL: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("NCCL "));
        static DRIVER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("NVRM: "));
        static BANNER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("OMP_NUM_THREADS"));
        static OPTIONS: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("ProcessGroupNCCL initialization options"));
        static PLACED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(") world_rank="));
        if let Some(crash) = &mut self.crash {
            let (event, taken) = crash.read(&p);
            if let Some(event) = event {
                out.push(event);
                self.crash = None;
            }
            if taken {
                return;
            }
        }
        let is_of_nccl = NCCL.find(p.rest.as_bytes()).is_some()
            || nccl::may_be_early(p.rest)
            || p.rest.starts_with(nccl::OF_PLUGIN_TEST)
            || nccl::is_bare(p.rest)
            || nccl::unnumbered(p.rest).starts_with("RCCL version");
        // What NCCL said last stands in a record of PyTorch without a head of its own.
        let is_bare = NCCL.find(p.rest.as_bytes()).is_none();
        if is_of_nccl && !(is_bare && self.torch.awaits_last_error(&p)) {
            match self.nccl.read(p.rest, &p.origin, out) {
                None => {}
                Some(before) if before.trim().is_empty() => return self.torch.pass(out),
                Some(before) => p.rest = before,
            }
        }
        if let Some((_, version)) = p.rest.split_once("vLLM is using nccl==") {
            let version = version.split_whitespace().next().unwrap_or_default().to_owned();
            out.push(TextEvent { origin: p.origin.clone(), what: What::NcclVersion { version, cuda: None }, said_at: None });
            return;
        }
        // What PyTorch says is an alarm, but for torchrun's banner, the timeout of a process group, Ray's list of workers, and records in
        // whose middle a log begins.
        let in_middle = || p.rest.starts_with("  File \"") || p.rest.starts_with("  time ");
        let is_fact = || in_middle() || [&BANNER, &OPTIONS, &PLACED].iter().any(|words| words.find(p.rest.as_bytes()).is_some());
        let torch = class == prefilter::Class::Alarm || is_fact();
        // A traceback that waits for a line behind its last one gets none from a launcher.
        let is_launcher = torch && LAUNCHERS.iter().any(|name| p.rest.starts_with(name));
        if is_launcher {
            self.torch.idle(out);
            p.origin.written = p.origin.written.take().or_else(|| cancelled_at(p.rest));
        }
        let before = out.len();
        let taken = torch && self.torch.read(&p, out);
        // What no reader tells is looked up. What a record of several lines holds belongs to it, but not what the driver prints between
        // them on a console. A record that ended with this line is of earlier ones.
        let of_driver = || !taken && DRIVER.find(p.rest.as_bytes()).is_some();
        let is_told = if taken { out.len() > before } else { out[before..].iter().any(|event| event.said_at.is_none()) };
        if torch
            && (!is_told && (is_launcher || !self.is_inside_text()) || of_driver())
            && let of_gpu = self.gpu.read(p.rest)
            // A line of a program that a traceback shows says what may happen.
            && !p.rest.trim_start().starts_with("raise ")
            && let Some(signature) = catalog::find(catalog::Scope::Line, p.rest)
        {
            let text = of_gpu.as_deref().unwrap_or_else(|| without_row(without_json(p.rest.trim())));
            let text = the_part_that_says_it(text, signature);
            let event = TextEvent { origin: p.origin.clone(), what: What::Signed { signature, text, tried: false }, said_at: None };
            let crash = Crash::of(&event, self.no).filter(|_| self.crash.as_ref().is_none_or(|open| open.is_native()));
            match crash {
                Some(crash) => out.extend(self.crash.replace(Box::new(crash)).map(|mut before| before.told())),
                None => out.push(event),
            }
            return;
        }
        if !taken && !p.cpp {
            self.progress.read(&p, out);
        }
    }
}

/// `node0: Test CUDA failure …` of nccl-tests without the row of the table that it broke off.
fn without_row(text: &str) -> &str {
    let at = ["Test CUDA failure ", "Test NCCL failure "].iter().find_map(|what| text.find(what));
    let of_host = |at: usize| text[..at].trim_end().strip_suffix(':').map(|host| host.rfind(' ').map_or(0, |blank| blank + 1));
    at.and_then(of_host).map_or(text, |from| &text[from..])
}

/// The beginning of a text that is too long to be kept, or its end where only that is known: a launcher prints the whole command in front.
fn the_part_that_says_it(text: &str, signature: &'static catalog::Signature) -> String {
    let head = clip(text, catalog::MAX_TEXT);
    let says_it = |part: &str| catalog::find(catalog::Scope::Line, part).is_some_and(|found| found.id == signature.id);
    let from = text.char_indices().rev().nth(catalog::MAX_TEXT - 2).map_or(0, |(at, _)| at);
    match from {
        1.. if !says_it(&head) && says_it(&text[from..]) => format!("…{}", &text[from..]),
        _ => head.into_owned(),
    }
}
