//! Python tracebacks, several processes' in one file. Told when the last line is known and nothing is chained to it.

use super::calls::Calls;
use super::{message, rich};
use crate::base::clean;
use crate::logs::prefix::Peeled;
use crate::logs::{Doing, Exception, Origin, SaidAt, TextEvent, What, catalog, cuda};
use memchr::memmem::Finder;
use std::sync::LazyLock;

#[derive(Clone, Default, PartialEq)]
pub struct Tracebacks {
    open: Vec<Open>,
    /// The next traceback of this process was survived ("Exception ignored in").
    survived: Option<Who>,
    /// The number of a line with which Python's logging begins to tell of an exception that it caught: its traceback is the next line.
    caught_at: Option<u64>,
    /// Number of the line being read.
    pub line: Option<u64>,
    /// What an unknown program put in front of the last `Traceback`: it stands in front of the lines behind it, too.
    lead: Option<String>,
    /// The process of mp.spawn whose traceback comes next: its index, which is usually the local rank.
    spawned: Option<u32>,
    /// Lines read while one was open, or which opened one.
    turn: u64,
}

/// What tells one process's lines from another's, as far as prefixes do.
type Who = (Option<u32>, Option<u32>, Option<String>, Option<u32>);

fn who(origin: &Origin) -> Who {
    (origin.rank, origin.local_rank, origin.host.clone(), origin.pid)
}

/// What PyTorch prints in front of the words of NCCL.
const LAST_ERROR: &str = "Last error:";

#[derive(Clone, PartialEq)]
struct Open {
    who: Who,
    origin: Origin,
    at: At,
    frames: Frames,
    /// The first exception of a chain, and whether the next one only hands it on.
    after: Option<String>,
    /// This one was raised from that.
    is_because: bool,
    /// The line before was part of it.
    indented: bool,
    /// Tracebacks that began: processes without a prefix mix theirs.
    depth: u32,
    /// A CUDA failure further up in the chain is the cause of what follows.
    cause: Option<What>,
    /// The one before, from which this one was raised.
    direct: Option<Box<TextEvent>>,
    ignored: bool,
    /// The log begins in the middle of it: what comes next must be its last line, or it is none.
    headless: bool,
    /// Lines of others since its last own one.
    waited: u32,
    /// The turn that it began in.
    head: u64,
    /// Number of its last line.
    last_line: Option<u64>,
}

#[derive(Clone, PartialEq)]
enum At {
    Frames,
    /// Its last line has come.
    Ended {
        class: String,
        message: String,
        frames: Box<Frames>,
        more: Option<u8>,
        /// Lines that name the actor of Ray that died may follow.
        names_actor: bool,
        /// Lines of the record behind its last line that were taken.
        further: u8,
        /// Its last line is its class, without a colon.
        is_wordless: bool,
        chained: Option<Chained>,
        said_at: Box<SaidAt>,
    },
}

const MAX_OPEN: usize = 128;
/// How long an open one waits for its last line, one without a head for its next line, and a finished one for a chain.
const MAX_FRAMES_WAIT: u32 = 2000;
const MAX_HEADLESS_WAIT: u32 = 3;
const MAX_ENDED_WAIT: u32 = 3;
const MAX_TEXT: usize = 2000;
/// Lines behind the last one that belong to its message.
const MAX_FURTHER: u8 = 12;

impl Tracebacks {
    pub fn is_idle(&self) -> bool {
        // A line that says of the next one what it is means something each time that it comes.
        let announces = self.caught_at.is_some() && self.caught_at == self.line;
        self.open.is_empty() && !announces
    }

    /// The last line of this process that was read is `Last error:`.
    pub fn awaits_last_error(&self, p: &Peeled<'_>) -> bool {
        let awaits = |o: &Open| matches!(&o.at, At::Ended { message, more: Some(_), .. } if message.ends_with(LAST_ERROR));
        !p.cpp && self.open.iter().any(|o| awaits(o) && o.who == who(&p.origin))
    }

    /// `true`: the line belongs to a traceback.
    pub fn read(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) -> bool {
        if let Some((what, origin)) = in_one_line(p) {
            out.push(TextEvent { origin, what, said_at: None });
            return true;
        }
        if let Some(index) = spawned(p.rest) {
            self.spawned = index.parse().ok();
            self.open.iter_mut().for_each(Open::only_hands_on);
            return true;
        }
        if let Some((exception, origin)) = uncaught(p) {
            out.push(TextEvent { origin, what: What::Exception(exception), said_at: None });
            return true;
        }
        if let Some(lead) = new_lead(p.rest).filter(|_| !hands_on_traceback(p.rest)) {
            self.lead = Some(lead.to_owned());
        }
        let behind = self.lead.as_deref().and_then(|lead| Some((without_lead(p.rest, lead)?, rank_in(lead))));
        match behind {
            Some((rest, rank)) => {
                let mut origin = p.origin.clone();
                origin.rank = origin.rank.or(rank);
                self.read_peeled(&Peeled { origin, rest, ..p.clone() }, out)
            }
            None => self.read_peeled(p, out),
        }
    }

    fn read_peeled(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) -> bool {
        let header = header(p.rest);
        let frame = is_frame(p.rest);
        let bare = is_bare(p.rest);
        // Who prints the exception that it caught, and goes on: a handler of Python's logging, and Optuna, whose next trial may do better.
        if p.rest.starts_with("--- Logging error ---") || fails_a_trial(p.rest) {
            self.caught_at = self.line;
            return fails_a_trial(p.rest);
        }
        let is_caught = header.is_some() && self.caught_at.is_some_and(|no| self.line == Some(no + 1));
        if self.open.is_empty() && header.is_none() && !bare && !frame && !p.rest.starts_with("Exception ignored in") {
            return false;
        }
        self.turn += 1;
        let who = who(&p.origin);
        if p.rest.starts_with("Exception ignored in") {
            self.survived = Some(who);
            return true;
        }
        if !p.rest.trim().is_empty() {
            self.wait(Some(&who), out);
        }
        let at = self.open.iter().position(|o| o.who == who).or_else(|| self.without_prefix(p, &who));
        if is_caught {
            // Whatever of this process is open goes on behind it.
            self.begin(who, p, false);
            if let Some(mut caught) = self.open.pop() {
                caught.ignored = true;
                self.open.insert(0, caught);
            }
            return true;
        }
        if let Some(original) = header {
            match at {
                // `TuneError: Traceback (most recent call last):` only hands on the exception whose traceback follows.
                Some(i) if hands_on_traceback(p.rest) && self.open[i].at == At::Frames => {
                    let outer = &mut self.open[i];
                    (outer.frames, outer.indented, outer.waited) = (Frames::default(), true, 0);
                }
                Some(i) => self.again(i, original, p, out),
                None => self.begin(who, p, original),
            }
            return true;
        }
        match at {
            Some(i) => self.line_of(i, p, out),
            None if bare || frame => {
                self.begin(who, p, false);
                let new = self.open.len() - 1;
                self.open[new].headless = frame;
                self.line_of(new, p, out)
            }
            None => false,
        }
    }

    /// A logger puts its prefix in front of the first line of a record only: the frames behind a head that has one belong to it.
    fn without_prefix(&mut self, p: &Peeled<'_>, who: &Who) -> Option<usize> {
        let nobody = who.0.is_none() && who.1.is_none();
        // Ray goes on to name the process, where SGLang names its rank in the first line only.
        let of_it = |o: &Open| who.3.is_none() || o.who.3 == who.3;
        if !nobody || !p.rest.starts_with("  ") || p.cpp {
            return None;
        }
        let at =
            self.open.iter().position(|o| of_it(o) && o.head + 1 == self.turn && o.frames == Frames::default() && o.at == At::Frames)?;
        self.open[at].who = who.clone();
        Some(at)
    }

    /// Tells all that have ended.
    pub fn flush(&mut self, out: &mut Vec<TextEvent>) {
        for o in &mut self.open {
            o.tell(out);
        }
        self.open.retain(|o| o.depth > 0 && !o.headless);
    }

    /// The log ends. One that stands at its end and has no last line is an exception all the same.
    pub fn end(&mut self, out: &mut Vec<TextEvent>) {
        self.flush(out);
        out.extend(self.open.drain(..).filter_map(Open::cut));
    }

    /// A line that is nobody's.
    pub fn pass(&mut self, out: &mut Vec<TextEvent>) {
        self.wait(None, out);
    }

    fn wait(&mut self, who: Option<&Who>, out: &mut Vec<TextEvent>) {
        for o in &mut self.open {
            if who != Some(&o.who) {
                o.waited += 1;
            }
            if o.waited > MAX_ENDED_WAIT && o.at != At::Frames {
                o.tell(out);
            }
        }
        self.open.retain(|o| o.depth > 0 && o.waited <= if o.headless { MAX_HEADLESS_WAIT } else { MAX_FRAMES_WAIT });
    }

    fn begin(&mut self, who: Who, p: &Peeled<'_>, original: bool) {
        // Without its head, the inner traceback of a DataLoader worker stands alone: still good.
        let _ = original;
        if self.open.len() == MAX_OPEN {
            self.open.remove(0);
        }
        let ignored = self.survived.take_if(|s| *s == who).is_some();
        let mut origin = p.origin.clone();
        if origin.rank.is_none() {
            origin.local_rank = origin.local_rank.or(self.spawned.take());
        }
        self.open.push(Open {
            who,
            origin,
            at: At::Frames,
            frames: Frames::default(),
            after: None,
            is_because: false,
            indented: true,
            depth: 1,
            cause: None,
            direct: None,
            ignored,
            headless: false,
            waited: 0,
            head: self.turn,
            last_line: self.line,
        });
    }

    /// Another `Traceback` of a process that has one: chained, or a second process without a prefix.
    fn again(&mut self, i: usize, original: bool, p: &Peeled<'_>, out: &mut Vec<TextEvent>) {
        let spawned = self.spawned;
        let o = &mut self.open[i];
        o.waited = 0;
        o.indented = true;
        let is_direct = match &o.at {
            At::Ended { chained: Some(Chained::Because), .. } => true,
            At::Ended { chained: Some(Chained::After), message, .. } => is_of_machine(message),
            _ => false,
        };
        let first = is_direct.then(|| o.clone().event()).flatten();
        match &o.at {
            At::Frames => {
                o.depth = (o.depth + 1).min(64);
                o.frames.calls.mix();
            }
            At::Ended { class, message, chained, .. } if chained.is_some() || original => {
                let words = if message.is_empty() { class.clone() } else { format!("{class}: {message}") };
                o.cause = o.cause.take().or_else(|| cuda::find(&words));
                // What has no words of its own only hands on what follows; what was raised from another says more than that one.
                let only_hands_on = message.is_empty() || message.starts_with("Caught ") && original;
                let direct = *chained == Some(Chained::Because);
                let says_more = direct && o.after.as_ref().is_none_or(|first| o.is_because && first.len() < words.len());
                if !only_hands_on && (o.after.is_none() || says_more) {
                    o.after = Some(clean::clip(&words, MAX_AFTER).into_owned());
                    o.is_because = direct;
                } else {
                    o.is_because &= direct || only_hands_on;
                }
                if spawned.is_some() && o.origin.rank.is_none() {
                    (o.origin.local_rank, self.spawned) = (spawned, None);
                }
                o.direct = first.filter(|_| !only_hands_on).map(Box::new);
                (o.at, o.headless) = (At::Frames, false);
            }
            At::Ended { .. } => {
                o.tell(out);
                o.depth += 1;
                o.ignored = false;
                (o.cause, o.after, o.is_because) = (None, None, false);
                o.origin = quoted_from(p).unwrap_or_else(|| p.origin.clone());
                if o.origin.rank.is_none() {
                    o.origin.local_rank = o.origin.local_rank.or(self.spawned.take());
                }
            }
        }
    }

    fn line_of(&mut self, i: usize, p: &Peeled<'_>, out: &mut Vec<TextEvent>) -> bool {
        let no = self.line;
        let o = &mut self.open[i];
        let text = p.rest.trim_end();
        if text.trim().is_empty() {
            if let At::Ended { message, more, further, is_wordless, .. } = &mut o.at {
                // What stands apart from an exception without words is none of them.
                if *is_wordless && message.is_empty() {
                    *further = MAX_FURTHER;
                }
                if message.ends_with(LAST_ERROR) {
                    *more = None;
                }
            }
            return true;
        }
        if let At::Ended { .. } = o.at {
            if !p.cpp && o.held(text) {
                return true;
            }
            let At::Ended { more, .. } = &mut o.at else { return false };
            // Other processes' lines may stand between an NCCL error and its three lines.
            if let Some(left) = more.as_mut().filter(|left| **left > 0) {
                *left -= 1;
                return false;
            }
            o.tell(out);
            if o.depth == 0 {
                self.open.remove(i);
                return false;
            }
        }
        let is_its = o.frame(text, p, no);
        if is_its {
            o.last_line = no;
        }
        if !is_its && o.headless && o.at == At::Frames {
            self.open.remove(i);
        }
        is_its
    }
}

impl Open {
    /// A line behind the last one: a chain's text, or the rest of an NCCL error.
    fn held(&mut self, text: &str) -> bool {
        let At::Ended { message, more, chained, names_actor, further, .. } = &mut self.at else { return false };
        let marks = [(CHAINED, Chained::After), ("The above exception was the direct cause", Chained::Because)];
        if let Some((_, how)) = marks.into_iter().find(|(mark, _)| text.starts_with(mark)) {
            *chained = Some(how);
            self.waited = 0;
            return true;
        }
        // Several processes print into one line: the words of the error stand in the next one.
        if message.is_empty() && text.starts_with("[Errno ") {
            *message = clean::clip(text, MAX_TEXT).into_owned();
            return true;
        }
        // A terminal broke the first line of an error of NCCL, which ends with its version.
        if message.starts_with("NCCL error in") && !message.contains("NCCL version ") && !text.starts_with([' ', 'n']) {
            message.push_str(text);
            return true;
        }
        let is_nccl = text.starts_with("nccl") && text.contains(": ") || text.starts_with(LAST_ERROR);
        // What Ray says of the actor that died, a line for each.
        let of_actor = ["class_name: ", "actor_id: ", "pid: ", "name: ", "namespace: ", "ip: "];
        if *names_actor && of_actor.iter().any(|field| text.trim_start().starts_with(field)) {
            message.push_str(", ");
            message.push_str(text.trim_start());
            *message = clean::clip(message, MAX_TEXT).into_owned();
            self.waited = 0;
            return true;
        }
        if more.is_some() && (is_nccl || message.ends_with(LAST_ERROR)) {
            message.push('\n');
            message.push_str(text);
            *message = clean::clip(message, MAX_TEXT).into_owned();
            if !is_nccl {
                *more = None;
            }
            self.waited = 0;
            return true;
        }
        // Somebody has left the line out that announces NCCL's own words.
        if more.is_some() && message.contains("\nnccl") && catalog::find(catalog::Scope::Nccl, text).is_some() {
            message.push_str(&format!("\n{LAST_ERROR}\n"));
            message.push_str(text);
            *message = clean::clip(message, MAX_TEXT).into_owned();
            *more = None;
            self.waited = 0;
            return true;
        }
        // More of a list that is long enough.
        if *further == MAX_FURTHER && message::lists(message, text) {
            self.waited = 0;
            return true;
        }
        if more.is_none() && !*names_actor && *further < MAX_FURTHER && message::goes_on(message, *further, text) {
            *further += 1;
            message.push('\n');
            message.push_str(text);
            *message = clean::clip(message, MAX_TEXT).into_owned();
            self.waited = 0;
            return true;
        }
        false
    }

    /// A line in the middle, or the last one.
    fn frame(&mut self, text: &str, p: &Peeled<'_>, line: Option<u64>) -> bool {
        if text.starts_with("  ") {
            if memchr::memchr(b'%', text.as_bytes()).is_some() && text.contains("%|") || p.cpp {
                return false;
            }
            match text.trim_start().strip_prefix("File \"") {
                Some(tail) => self.frames.add(tail),
                // The lines around the one that was run.
                None if rich::code(text).is_some() => {}
                None => self.frames.add_code(text.trim()),
            }
            self.indented = true;
            self.waited = 0;
            return true;
        }
        let code = text.strip_prefix(rich::MARK).and_then(rich::code);
        if let Some(code) = code {
            self.frames.add_code(code);
            self.indented = true;
            self.waited = 0;
            return true;
        }
        if let Some(place) = rich::place(text) {
            self.frames.add(&place["File \"".len()..]);
            self.indented = true;
            self.waited = 0;
            return true;
        }
        if let Some(call) = text.strip_prefix("ray.exceptions.RayTaskError(") {
            // What follows is the traceback of the task's own process.
            self.name_task(call);
            self.indented = false;
            self.waited = 0;
            return true;
        }
        let last = match self.headless {
            true => exception(text),
            false => last_line(text, self.indented),
        };
        let Some((class, message)) = last else {
            self.indented = false;
            self.waited += 1;
            return false;
        };
        let message = message::of_worker(message::without_frame(message));
        let more = (message.starts_with("NCCL error in") || class.starts_with("nccl")).then_some(2);
        self.at = At::Ended {
            class: class.to_string(),
            message: clean::clip(message, MAX_TEXT).into_owned(),
            frames: Box::new(std::mem::take(&mut self.frames)),
            more,
            names_actor: class.ends_with("ActorDiedError") || class.ends_with("RayActorError"),
            further: 0,
            is_wordless: text.trim_end() == class,
            chained: None,
            said_at: Box::new(SaidAt { line, text: clean::clip(text, MAX_TEXT).into_owned(), ..SaidAt::default() }),
        };
        self.waited = 0;
        self.depth = self.depth.max(1);
        true
    }

    /// `ValueError): ray::f() (pid=310, ip=10.0.0.3, actor_id=…)`
    fn name_task(&mut self, call: &str) {
        let Some((_, ids)) = call.split_once("(pid=") else { return };
        let value = |text: &str| text.split([',', ')']).next().unwrap_or_default().to_owned();
        self.origin.pid = value(ids).parse().ok().or(self.origin.pid);
        self.origin.host = ids.split_once(", ip=").map(|(_, ip)| value(ip)).or(self.origin.host.take());
        // `repr=DTensorPolicyWorker[rank=2]`
        self.origin.rank = self.origin.rank.or_else(|| rank_in(ids.split_once("repr=")?.1));
    }

    fn tell(&mut self, out: &mut Vec<TextEvent>) {
        let At::Ended { .. } = &self.at else { return };
        self.depth = self.depth.saturating_sub(1);
        self.direct = None;
        let event = self.event();
        if !std::mem::take(&mut self.ignored) {
            out.extend(event);
        }
    }

    /// What has come to its last line.
    fn event(&mut self) -> Option<TextEvent> {
        let At::Ended { class, message, frames, mut said_at, .. } = std::mem::replace(&mut self.at, At::Frames) else { return None };
        self.origin.rank = self.origin.rank.or_else(|| message::rank_of(&message));
        let (cause, after) = (self.cause.take(), self.after.take());
        let is_because = std::mem::take(&mut self.is_because);
        // The frames of what came of a cause tell nothing of that.
        if cause.is_none() {
            (said_at.raised_at, said_at.source) = frames.where_raised();
            said_at.doing = frames.doing.clone();
            said_at.calls = frames.calls.words();
            said_at.of_command = frames.of_command;
        }
        let what = cause.or_else(|| cuda_failure(&class, &message)).unwrap_or_else(|| {
            let victim = is_victim(&class, &message);
            let Frames { last: place, own, in_loader, in_thread, assertion, .. } = *frames;
            let assertion = assertion.filter(|_| message.is_empty() && class.ends_with("AssertionError"));
            let called_from = own.filter(|own| Some(own) != place.as_ref());
            What::Exception(Exception { class, message, assertion, place, called_from, after, is_because, in_loader, in_thread, victim })
        });
        Some(TextEvent { origin: self.origin.clone(), what, said_at: Some(*said_at) })
    }

    /// An exception without a name: the log ends before it.
    fn cut(mut self) -> Option<TextEvent> {
        // Of one that was raised from another, which is whole, that one is what failed.
        let at_end = self.at == At::Frames && self.waited <= MAX_ENDED_WAIT && !self.ignored;
        if let Some(direct) = self.direct.take().filter(|_| at_end) {
            return Some(*direct);
        }
        let (raised_at, source) = self.frames.where_raised();
        let calls = self.frames.calls.words();
        let Frames { last, own, in_loader, in_thread, doing, raises, of_command, .. } = self.frames;
        let (class, message) = raises.unwrap_or_default();
        let text = last.clone().filter(|_| at_end)?;
        let of_launcher = LAUNCHER_FILES.iter().any(|file| text.contains(file));
        let said_at = SaidAt { line: self.last_line, text, raised_at, source, doing, calls, of_command };
        let called_from = own.filter(|own| Some(own) != last.as_ref());
        let exception = Exception {
            class,
            message,
            place: last,
            called_from,
            after: self.after,
            in_loader,
            in_thread,
            victim: of_launcher,
            ..Exception::default()
        };
        Some(TextEvent { origin: self.origin, what: What::Exception(exception), said_at: Some(said_at) })
    }

    /// mp.spawn raises an exception without words of its own in front of that of a process.
    fn only_hands_on(&mut self) {
        if let At::Ended { message, chained, .. } = &mut self.at
            && message.is_empty()
        {
            *chained = Some(Chained::After);
            self.waited = 0;
        }
    }
}

/// What no handler of the program puts right: whatever came while it was handled, this is why.
fn is_of_machine(message: &str) -> bool {
    ["No space left on device", "Disk quota exceeded", "Cannot allocate memory", "Read-only file system", "Stale file handle"]
        .iter()
        .any(|words| message.contains(words))
}

/// How an exception came out of the one above it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chained {
    /// While that one was handled.
    After,
    /// It was raised from that one.
    Because,
}

const CHAINED: &str = "During handling of the above exception";

/// The frames of a traceback, as far as they tell where to look.
#[derive(Clone, Default, PartialEq)]
struct Frames {
    /// The last that is not of Python's own library, else the first.
    last: Option<String>,
    /// The last that is of no library.
    own: Option<String>,
    /// One is of PyTorch's data loader.
    in_loader: bool,
    /// The first is where a thread begins.
    in_thread: bool,
    /// The first is that of `python -c`, and what follows is no child of `multiprocessing`, which begins so, too.
    of_command: bool,
    doing: Doing,
    calls: Calls,
    /// The source of these two.
    last_source: Option<String>,
    own_source: Option<String>,
    /// The next line is their source.
    awaits_last: bool,
    awaits_own: bool,
    /// The assertion that the last one shows as its source.
    assertion: Option<String>,
    /// The exception that the last one raises by its source: class and words.
    raises: Option<(String, String)>,
}

/// Source lines are cut here.
const MAX_SOURCE: usize = 120;

impl Frames {
    /// Where it was raised, by the program's own frames if there are any, and what stands there.
    fn where_raised(&self) -> (Option<String>, Option<String>) {
        match &self.own {
            Some(own) => (Some(own.clone()), self.own_source.clone()),
            None => (self.last.clone(), self.last_source.clone()),
        }
    }

    /// The source of the last frame: an assertion without words says nothing else.
    fn add_code(&mut self, code: &str) {
        let is_code = !code.is_empty() && !code.bytes().all(|b| matches!(b, b'^' | b'~' | b' '));
        let source = || Some(clean::clip(&without_strings(code), MAX_SOURCE).into_owned());
        if self.awaits_last && is_code {
            self.last_source = source();
        }
        if self.awaits_own && is_code {
            self.own_source = source();
        }
        (self.awaits_last, self.awaits_own) = (false, false);
        self.raises = raised(code);
        if code.starts_with("assert ") {
            self.assertion = Some(clean::clip(code.split(" #").next().unwrap_or(code).trim_end(), 160).into_owned());
        }
    }

    /// `tail` stands behind `File "`.
    fn add(&mut self, tail: &str) {
        (self.assertion, self.raises) = (None, None);
        self.in_loader |= tail.contains("/torch/utils/data/");
        self.in_thread |= self.last.is_none() && tail.contains("/threading.py\"") && tail.contains("_bootstrap");
        self.of_command = if self.last.is_none() { is_of_command(tail, ", in <module>") } else { self.of_command && !is_of_spawn(tail) };
        self.doing.add(tail);
        self.calls.add(tail);
        let frame = || clean::clip(&format!("File \"{tail}"), 300).into_owned();
        self.awaits_last = self.last.is_none() || !is_of_python(tail);
        self.awaits_own = !is_of_python(tail) && !is_of_library(tail);
        if self.awaits_last {
            (self.last, self.last_source) = (Some(frame()), None);
        }
        if self.awaits_own {
            (self.own, self.own_source) = (Some(frame()), None);
        }
    }
}

/// `ValueError` and `Output shape` of `raise ValueError(f"Output shape {shape} is not …`: its words up to the first value.
fn raised(code: &str) -> Option<(String, String)> {
    let (class, tail) = code.strip_prefix("raise ")?.split_once('(')?;
    let is_name = class.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'));
    let is_class = class.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_uppercase()));
    if !is_name || !is_class || class.starts_with("self.") || class.starts_with("cls.") {
        return None;
    }
    let text = tail.trim_start_matches(['f', 'r', 'F', 'R']);
    let is_template = tail.len() > text.len() && !tail.starts_with(['r', 'R']);
    let words = ["\"\"\"", "'''", "\"", "'"].iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?;
        Some(inner.split_once(quote).map_or(inner, |(inner, _)| inner))
    });
    // Up to the first value, where enough of it stands in front of that.
    const LEAST: usize = 12;
    let words = words.map_or("", |words| if is_template { words.split('{').next().unwrap_or_default() } else { words });
    let words = words.split('%').next().filter(|words| words.trim().len() >= LEAST).unwrap_or_default();
    Some((class.to_owned(), clean::clip(words.trim(), MAX_SOURCE).into_owned()))
}

/// Source without what stands between quotation marks: it may be a password.
fn without_strings(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut open: Option<char> = None;
    for c in code.chars() {
        match open {
            Some(quote) if c == quote => {
                open = None;
                out.push(c);
            }
            Some(_) => {}
            None if matches!(c, '"' | '\'') => {
                open = Some(c);
                out.extend([c, '…']);
            }
            // The reports put source between these.
            None => out.push(if c == '`' { '\'' } else { c }),
        }
    }
    out
}

/// What raises there hands on that a process ended.
const LAUNCHER_FILES: &[&str] = &["/torch/distributed/run.py", "/torch/distributed/launcher/", "/torch/distributed/elastic/"];

/// The longest text of an exception that another one came after.
const MAX_AFTER: usize = 300;

/// `[W 2026-11-29 08:11:03,117] Trial 1 failed with parameters: {'lr': 0.1} because of the following error: ValueError('…').`
fn fails_a_trial(rest: &str) -> bool {
    rest.contains("Trial ") && rest.contains(" failed with parameters: ") && rest.contains(" because of the following error: ")
}

/// `… CRITICAL [olmo.util:158, rank=0] Uncaught OLMoThreadError: thread 3 failed`: a program's own last word, without a traceback.
fn uncaught(p: &Peeled<'_>) -> Option<(Exception, Origin)> {
    let (before, tail) = p.rest.split_once("Uncaught ")?;
    let tail = tail.strip_prefix("exception: ").or_else(|| tail.strip_prefix("exception ")).unwrap_or(tail);
    let (class, message) = last_line(tail.trim_end(), false).filter(|(_, message)| !message.is_empty())?;
    // Behind the head of a logger only, or at the start: anything else quotes it.
    let is_head = before.trim_end().is_empty() || before.trim_end().ends_with([']', ':', '-', '|', '>']) || p.origin.written.is_some();
    is_head.then_some(())?;
    let mut origin = p.origin.clone();
    origin.rank = origin.rank.or_else(|| rank_in(before));
    let (class, message) = (class.to_owned(), clean::clip(message, MAX_TEXT).into_owned());
    Some((Exception { victim: is_victim(&class, &message), class, message, ..Exception::default() }, origin))
}

const HEAD: &str = "Traceback (most recent call last)";
/// No prefix is longer.
const MAX_LEAD: usize = 120;

/// What stands in front of `Traceback`, where it is neither blank nor known to be a part of something else.
fn new_lead(text: &str) -> Option<&str> {
    let lead = &text[..text.find(HEAD).filter(|at| (1..=MAX_LEAD).contains(at))?];
    header(text).filter(|original| !original)?;
    // A bar, or a program's own words, which nothing repeats.
    let is_text = lead.contains("%|") || lead.trim_end().ends_with('.');
    (!lead.trim().is_empty() && !is_text).then_some(lead)
}

/// The line without this prefix; numbers in it, as those of a clock, may be others.
fn without_lead<'a>(text: &'a str, lead: &str) -> Option<&'a str> {
    let same = |(a, b): (&u8, &u8)| a == b || a.is_ascii_digit() && b.is_ascii_digit();
    let is_same = |n: usize| text.is_char_boundary(n) && text.as_bytes()[..n].iter().zip(lead.as_bytes()).all(same);
    if text.len() >= lead.len() {
        return is_same(lead.len()).then(|| &text[lead.len()..]);
    }
    // Of an empty line the blanks at the end are missing.
    let bare = lead.trim_end();
    (text.len() == bare.len() && is_same(bare.len())).then_some("")
}

/// `4` of `worker | rank 4 | ` and `Rank=4> `.
fn rank_in(lead: &str) -> Option<u32> {
    let lower = lead.to_ascii_lowercase();
    let (_, tail) = lower.split_once("rank")?;
    let tail = tail.strip_prefix([' ', '=', ':', '_', '-', '#']).unwrap_or(tail).trim_start();
    let n = tail.bytes().take_while(u8::is_ascii_digit).count();
    let ends = !tail[n..].starts_with(|c: char| c.is_ascii_alphanumeric());
    tail[..n].parse().ok().filter(|_| ends)
}

/// `1` of `-- Process 1 terminated with the following error:`, also behind what an unknown program puts in front of each line.
fn spawned(text: &str) -> Option<&str> {
    let (before, tail) = text.split_once("-- Process ")?;
    let is_lead = before.len() <= MAX_LEAD && (before.is_empty() || before.ends_with(' '));
    tail.trim_end().strip_suffix(" terminated with the following error:").filter(|_| is_lead)
}

/// A traceback whose lines were joined to one, with the ends of its lines spelled out, or with blanks instead of them.
fn in_one_line(p: &Peeled<'_>) -> Option<(What, Origin)> {
    let (before, tail) = p.rest.split_once(HEAD)?;
    let tail = tail.strip_prefix(':')?;
    // JSON escapes the quotes, and may have been escaped once more.
    if !tail.trim_start().trim_start_matches("\\\\n").trim_start_matches("\\n").trim_start().starts_with(['F', '\\'])
        || !tail.contains("File ")
    {
        return None;
    }
    let text = tail.replace("\\\\", "\\").replace("\\n", "\n").replace("\\\"", "\"");
    let place = text.rmatch_indices("File \"").find_map(|(at, _)| {
        let (file, line) = text[at..].split_once("\", line ")?;
        let n = line.bytes().take_while(u8::is_ascii_digit).count();
        let call = line[n..].strip_prefix(", in ")?.split_whitespace().next()?;
        Some(clean::clip(&format!("{file}\", line {}, in {call}", &line[..n]), 300).into_owned())
    })?;
    let last = match text.trim().contains('\n') {
        true => {
            let lines = text.lines().map(|line| line.trim_end_matches(['"', ',', '}']));
            lines
                .filter(|line| !line.starts_with(' ') && !line.trim().is_empty())
                .filter_map(|line| last_line(line.trim_end(), true))
                .next_back()
        }
        false => {
            let starts = text.match_indices(' ').map(|(at, _)| &text[at + 1..]);
            let ends = |class: &str| ["Error", "Exception", "Interrupt", "Exit", "Failure"].iter().any(|end| class.ends_with(end));
            starts.filter_map(|from| last_line(from, false)).rfind(|(class, _)| ends(class))
        }
    };
    let (class, message) = last?;
    let what = cuda_failure(class, message).unwrap_or_else(|| {
        let message = clean::clip(message, MAX_TEXT).into_owned();
        What::Exception(Exception {
            victim: is_victim(class, &message),
            class: class.to_owned(),
            message,
            place: Some(place),
            ..Exception::default()
        })
    });
    let mut origin = p.origin.clone();
    origin.rank = origin.rank.or_else(|| rank_in(before));
    Some((what, origin))
}

/// `Traceback (most recent call last):`, true for the `Original …` one that a worker of a DataLoader hands up. Indented ones are part
/// of something else.
fn header(text: &str) -> Option<bool> {
    static TRACEBACK: LazyLock<Finder> = LazyLock::new(|| Finder::new("Traceback (most recent call last)"));
    let at = TRACEBACK.find(text.as_bytes())?;
    let before = text[..at].trim_end();
    if text.starts_with("  ") || before.ends_with('|') || before.ends_with("+ Exception Group") {
        return None;
    }
    Some(before.ends_with("Original"))
}

/// `Traceback (most recent call last): (RANK 1)`: a distributed checkpoint failed there, and all ranks print it.
fn quoted_from(p: &Peeled<'_>) -> Option<Origin> {
    let (_, rank) = p.rest.trim_end().strip_suffix(')')?.rsplit_once(": (RANK ")?;
    Some(Origin { rank: Some(rank.parse().ok()?), written: p.origin.written.clone(), ..Origin::default() })
}

/// The last line of a traceback whose message is another one.
fn hands_on_traceback(text: &str) -> bool {
    let class = text.trim_end().strip_suffix("Traceback (most recent call last):").map(str::trim_end);
    class.is_some_and(|class| class.ends_with(':') && last_line(class, true).is_some())
}

/// A frame of Python's own library, which is where an error shows, seldom where it comes from: `/usr/lib/python3.10/socket.py`.
pub fn is_of_python(file: &str) -> bool {
    let path = file.split('"').next().unwrap_or_default();
    let library = || path.split_once("/python3.").map(|(_, tail)| tail).is_some_and(|tail| !tail.contains("-packages/"));
    path.starts_with('<') || path.contains("/lib/python3.") && library()
}

/// `<string>", line 1, in <module>`
pub fn is_of_command(frame: &str, outermost: &str) -> bool {
    frame.starts_with("<string>\"") && frame.trim_end().ends_with(outermost)
}

pub fn is_of_spawn(frame: &str) -> bool {
    frame.contains("/multiprocessing/")
}

/// A frame of a library that was installed.
pub fn is_of_library(file: &str) -> bool {
    let path = file.split('"').next().unwrap_or_default();
    path.contains("/site-packages/") || path.contains("/dist-packages/")
}

/// A frame of a traceback. Those of `faulthandler`, which come in the other order, have no comma behind the number.
pub(super) fn is_frame(text: &str) -> bool {
    let tail = text.strip_prefix("  File \"").and_then(|tail| tail.split_once("\", line "));
    tail.is_some_and(|(_, tail)| tail.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(", in "))
}

/// `ValueError: boom` by itself, as the last line of a traceback of which nothing else is known.
pub fn exception(text: &str) -> Option<(&str, &str)> {
    last_line(text, false).filter(|(class, message)| !class.ends_with("Warning") && !message.is_empty())
}

/// The last line of a traceback of NCCL or of a dead actor whose head is missing or stands under another process's name: more follows it.
fn is_bare(text: &str) -> bool {
    // Frames are most of the lines, and indented.
    if text.starts_with(' ') {
        return false;
    }
    let class = text.split_once(": ").map_or("", |(class, _)| class);
    let ray = class.starts_with("ray.exceptions.") && class.ends_with("DiedError") || class == "ray.exceptions.RayActorError";
    let nccl = class.starts_with("nccl") && class.ends_with("Error") || matches!(class, "ncclInvalidUsage" | "ncclInvalidArgument");
    ray || nccl || class.ends_with("Error") && !class.contains(' ') && text[class.len() + 2..].starts_with("NCCL error in")
}

/// `TypeErrorTypeError: : TypeError: boomboom` of processes that print one exception into one line: its name, and its words once.
fn untangled<'a>(class: &'a str, message: &'a str) -> (&'a str, &'a str) {
    /// No name of an exception is shorter.
    const SHORTEST: usize = 5;
    /// Two texts that begin with the same so many letters are one twice.
    const HEAD: usize = 16;
    let is_repeated = |n: &usize| class.len().is_multiple_of(*n) && class.as_bytes().chunks(*n).all(|part| part == &class.as_bytes()[..*n]);
    let Some(n) = (SHORTEST..=class.len() / 2).find(is_repeated).filter(|n| class.is_char_boundary(*n)) else { return (class, message) };
    let name = &class[..n];
    let mut rest = message;
    while let Some(tail) = rest.strip_prefix(':').or_else(|| rest.strip_prefix(' ')).or_else(|| rest.strip_prefix(name)) {
        rest = tail;
    }
    let head = rest.char_indices().nth(HEAD).map(|(at, _)| &rest[..at]);
    let again = head.and_then(|head| rest[head.len()..].find(head).map(|at| at + head.len()));
    (name, again.map_or(rest, |at| &rest[..at]))
}

/// `ValueError: boom`, `SystemExit`, `a.b.ChildFailedError:`. Right behind a frame, any capitalised name will do.
fn last_line(text: &str, behind_frame: bool) -> Option<(&str, &str)> {
    let n = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'<' | b'>')).count();
    let (class, tail) = text.split_at(n);
    let message = match tail.strip_prefix(':') {
        None if tail.is_empty() => "",
        Some("") => "",
        Some(m) => m.strip_prefix(' ')?,
        None => return None,
    };
    let (class, message) = untangled(class, message);
    // Torn in two, it may begin with the dot.
    if class.len() > 200 || !class.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '.')) {
        return None;
    }
    // What Python's logging prints below an exception that it caught.
    if matches!(class, "Message" | "Arguments") {
        return None;
    }
    let name = class.rsplit('.').next().unwrap_or(class);
    if name.starts_with("nccl") && (name.ends_with("Error") || name.starts_with("ncclInvalid")) {
        return Some((class, message.trim()));
    }
    let capital = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().any(|b| b.is_ascii_lowercase());
    let known = ["Error", "Exception", "Interrupt", "Exit", "Warning", "Failure", "Timeout", "Expired", "StopIteration"];
    // `torch._dynamo.exc.BackendCompilerFailed`
    let of_module = name.ends_with("Failed") && class.contains('.');
    let sure = (known.iter().any(|k| name.ends_with(k)) || of_module) && capital;
    // Bindings name their errors as they like: `nixl._bindings.nixlBackendError`.
    let of_bindings = || ["Error", "Exception"].iter().any(|k| name.ends_with(k));
    // Those of Python's oldest modules: `re.error`, `struct.error`, `socket.timeout`.
    let old = || class.contains('.') && matches!(name, "error" | "timeout" | "gaierror" | "herror");
    (sure || behind_frame && (capital || of_bindings() || old())).then_some((class, message.trim()))
}

fn cuda_failure(class: &str, message: &str) -> Option<What> {
    let found = cuda::find(message);
    found.or_else(|| {
        class
            .ends_with("OutOfMemoryError")
            .then(|| What::CudaOom { text: message.to_string(), tried_bytes: None })
            .filter(|_| class.starts_with("torch"))
    })
}

/// Modules whose exceptions are about a server that is asked by HTTP.
pub const HTTP_CLIENTS: &[&str] = &["requests.", "urllib3.", "aiohttp.", "httpx.", "httpcore.", "botocore.", "http.client.", "openai."];

/// A consequence of another process's end.
pub fn is_victim(class: &str, message: &str) -> bool {
    // What an HTTP client says is of its server, which is no process of the job.
    if HTTP_CLIENTS.iter().any(|client| class.starts_with(client)) {
        return false;
    }
    let name = class.rsplit('.').next().unwrap_or(class);
    let gone = [
        "ncclRemoteError",
        "remote process exited or there was a network error",
        "Connection reset by peer",
        "Broken pipe",
        "Connection closed by peer",
        "Connection closed by remote peer",
        "Connection was likely closed",
        "failed to recv, got 0 bytes",
        "Socket Timeout",
        "recvValue failed",
        "The connection to the C10d store has failed",
        "The actor died because of an error raised in its creation task",
    ];
    matches!(
        name,
        "ChildFailedError"
            | "SignalException"
            | "KeyboardInterrupt"
            | "DistStoreError"
            | "ConnectionResetError"
            | "BrokenPipeError"
            | "RendezvousConnectionError"
            | "RendezvousClosedError"
    ) || gone.iter().any(|g| message.contains(g))
}
