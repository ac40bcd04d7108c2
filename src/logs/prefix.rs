//! Who wrote a line: peels what launchers, loggers and log shippers put in front of it, in any order. Never looks at the message.

mod bracket;
mod level;
mod records;
pub mod stamp;

use bracket::{bracket, is_code_place};
pub use level::{Level, has_kernel_clock, is_of_kernel, level, of_json};
pub use records::{behind_bar, records};

use super::{Origin, RankBy, Written};

/// A line without its prefixes.
#[derive(Clone, Debug, Default)]
pub struct Peeled<'a> {
    pub origin: Origin,
    /// What is left, indentation included.
    pub rest: &'a str,
    /// A C++ logger of PyTorch (c10 or glog) wrote it.
    pub cpp: bool,
    /// The number of `srun -l`, which stands for the rank until the line names another.
    pub task: Option<u32>,
}

impl Peeled<'_> {
    fn named(&mut self, rank: u32, by: RankBy) {
        (self.origin.rank, self.origin.rank_by) = (Some(rank), by);
    }
}

/// Deepest stack of prefixes seen in the wild is five.
const MAX_PREFIXES: usize = 10;

/// Taken from a number in front of a line without more evidence, a larger one is a line number.
const MAX_BARE_RANK: u32 = 16_384;

pub fn peel(line: &str) -> Peeled<'_> {
    let mut p = Peeled { rest: without_box(line), ..Peeled::default() };
    for turn in 0..MAX_PREFIXES {
        match one(p.rest, &mut p, turn) {
            Some(rest) => p.rest = rest,
            None => break,
        }
    }
    if let Some(rest) = behind_tag(p.rest, &mut p) {
        p.rest = rest;
    }
    p.rest = without_box(p.rest);
    // PyTorch's own `[Rank 3]`, behind a place in its C++ code, is that of a process group.
    if p.origin.rank.is_none() && !p.cpp {
        own_words(&mut p);
    }
    if p.rest.starts_with('[') {
        p.rest = without_unknown(p.rest, &mut p.origin);
    }
    if p.rest.ends_with([']', ')', 'm']) {
        let whole = p.rest;
        p.rest = without_repeats(whole);
        p.origin.stands_for_others = p.rest.len() < whole.len();
    }
    if p.rest.ends_with("]:") {
        p.rest = without_next_prefix(p.rest);
    }
    p
}

/// `[Rank 6] `, `(rank 6) `, `Rank 6: `, `rank=6 | `, `Rank 6, Epoch 2`, `[GPU 6] `: who writes says so in the words of the program,
/// which stay in front of anything but a part of a traceback.
fn own_words(p: &mut Peeled<'_>) {
    let bare = p.rest.trim_start_matches(['[', '(']);
    let is_bracketed = bare.len() < p.rest.len();
    let name = bare.get(..4).unwrap_or_default();
    let (is_rank, is_gpu) = (name.eq_ignore_ascii_case("rank"), is_bracketed && name.starts_with("GPU"));
    if !is_rank && !is_gpu {
        return;
    }
    let tail = bare[if is_rank { 4 } else { 3 }..].trim_start_matches([' ', '=', '#', '_']);
    let tail = if is_bracketed { tail.trim_start_matches([':', ' ']) } else { tail };
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    let Some(n) = number(&tail[..digits]).filter(|n| *n < MAX_BARE_RANK) else { return };
    // `[Rank 6/8]`
    let behind = tail[digits..].strip_prefix('/').map_or(&tail[digits..], |total| total.trim_start_matches(|c: char| c.is_ascii_digit()));
    let ends = match is_bracketed {
        true => behind.starts_with([']', ')']),
        false => [": ", " | ", " - ", " > ", "> ", ", epoch", ", Epoch", ", step", ", Step"].iter().any(|end| behind.starts_with(end)),
    };
    if ends && is_rank {
        p.named(n, RankBy::Other);
    } else if ends {
        set(&mut p.origin.local_rank, n);
    }
    if let Some(text) = behind.strip_prefix(": ").filter(|text| ends && is_of_traceback(text)) {
        p.rest = text;
    }
}

/// Without the sides of a box that a viewer, or rich in Python, draws around a text: `│ text   │`.
fn without_box(line: &str) -> &str {
    const SIDES: [&str; 2] = ["\u{2502} ", "\u{2503} "];
    // Most lines end here.
    if line.as_bytes().first() != Some(&0xe2) {
        return line;
    }
    let Some(inner) = SIDES.iter().find_map(|side| line.strip_prefix(side)) else { return line };
    let inner = inner.trim_end();
    inner.strip_suffix(['\u{2502}', '\u{2503}']).unwrap_or(inner).trim_end()
}

/// What stands behind `[1,0]<stderr>:` of MPI, whatever a platform puts in front of it: `UTC master.0 -- [1,0]<stderr>:x`.
fn behind_tag<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    const NEAR: usize = 100;
    let near = &s.as_bytes()[..s.len().min(NEAR)];
    let end = memchr::memmem::find(near, b"]<std")?;
    let start = memchr::memrchr(b'[', &near[..end]).filter(|start| *start > 0 && end - start < 40)?;
    let before = s.get(..start)?;
    (before.ends_with(' ') && !before.contains("%|")).then_some(())?;
    one(&s[start..], p, 1)
}

/// Without brackets of programs that nobody knows, in front of a part of a traceback: `[177/train/578 (pid 28936)] [<run>] Traceback …`.
/// Such a line is itself the proof; in front of anything else a bracket may be a part of the text.
fn without_unknown<'a>(s: &'a str, origin: &mut Origin) -> &'a str {
    const MOST: usize = 3;
    let mut rest = s;
    let mut pid = None;
    for _ in 0..MOST {
        let Some((inner, after)) = rest.strip_prefix('[').and_then(|t| t.split_once(']')).filter(|(inner, _)| inner.len() <= 120) else {
            return s;
        };
        let Some(after) = after.strip_prefix(": ").or_else(|| after.strip_prefix(' ')) else { return s };
        pid = pid.or_else(|| inner.split_once("(pid ").and_then(|(_, t)| number(t.strip_suffix(')')?)));
        if is_of_traceback(after) {
            origin.pid = origin.pid.or(pid);
            return after;
        }
        rest = after;
    }
    s
}

/// The head of a traceback, a frame, its code, or the last line.
fn is_of_traceback(s: &str) -> bool {
    let class = || s.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).count();
    let is_last = |n: usize| {
        let name = &s[..n];
        ["Error", "Exception", "Interrupt"].iter().any(|end| name.ends_with(end)) && (s[n..].is_empty() || s[n..].starts_with(": "))
    };
    s.starts_with("Traceback (most recent call last)")
        || s.starts_with("  File \"")
        || s.starts_with("    ") && !is_place_of_ucx(s.trim_start())
        || s.starts_with(|c: char| c.is_ascii_alphabetic()) && is_last(class())
}

/// `wireup.c:346  Assertion …`, `ib_md.c:1116 UCX  ERROR …`, which UCX pads with blanks in front.
fn is_place_of_ucx(s: &str) -> bool {
    s.split(' ').next().and_then(|place| place.rsplit_once(':')).is_some_and(|(file, line)| {
        [".c", ".cc", ".h"].iter().any(|end| file.ends_with(end)) && !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Without Ray's ` [repeated 7x across cluster]` at the end.
fn without_repeats(s: &str) -> &str {
    // Most have no bracket at all.
    if memchr::memrchr(b'[', s.as_bytes()).is_none() {
        return s;
    }
    let Some(at) = s.rfind(" [repeated ").filter(|at| s.len() - at < 200) else { return s };
    let digits = s[at + 11..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || !s[at + 11 + digits..].starts_with("x across cluster]") {
        return s;
    }
    let text = s[..at].trim_end();
    // What is left of a colour.
    text.strip_suffix("[32m").map_or(text, str::trim_end)
}

/// Without the `[trainer0|0]:` of an empty record that is glued to the end.
fn without_next_prefix(s: &str) -> &str {
    match s.rfind('[') {
        Some(at) if at > 0 && torchx(&s[at + 1..s.len() - 2]).is_some() => s[..at].trim_end(),
        _ => s,
    }
}

/// The local rank in `trainer0|0`, the inner part of TorchX's prefix.
fn torchx(inner: &str) -> Option<u32> {
    let (role, local) = inner.split_once('|')?;
    let is_role = role.starts_with(|c: char| c.is_ascii_alphabetic()) && role.ends_with(|c: char| c.is_ascii_digit());
    (is_role && role.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))).then_some(())?;
    number(local)
}

fn one<'a>(s: &'a str, p: &mut Peeled<'_>, turn: usize) -> Option<&'a str> {
    match s.as_bytes().first()? {
        b'[' => bracket(s, p),
        b'(' => ray(s, p).or_else(|| module_place(s)),
        b'0'..=b'9' => tensorflow(s, p).or_else(|| stamped(s, p)).or_else(|| zap(s)).or_else(|| task(s, p)).or_else(|| host(s, p)),
        b' ' if turn == 0 => padded(s, p),
        b'|' if p.origin.written.is_some() => s.strip_prefix("| "),
        c if c.is_ascii_lowercase() && p.origin.written.is_some() && p.origin.host.is_none() => syslog(s, p).or_else(|| host(s, p)),
        b'-' if p.origin.written.is_some() => logger(s),
        // A failed test, as pytest shows it.
        b'E' if s.starts_with("E   ") && s.len() > 4 => s[1..].strip_prefix("       ").or_else(|| s[1..].strip_prefix("   ")),
        c if c.is_ascii_uppercase() && turn < 2 && p.origin.written.is_none() && leveled(s).is_some() => stamped(leveled(s)?, p),
        c if c.is_ascii_uppercase() && p.origin.written.is_some() && icefall(s, p).is_some() => icefall(s, p),
        c if c.is_ascii_uppercase() => glog(s, p).or_else(|| vllm(s, p)).or_else(|| mpi_time(s, p)).or_else(|| journal(s, p)),
        b's' if s.starts_with("stderr: ") || s.starts_with("stdout: ") => Some(&s["stderr: ".len()..]),
        b't' if s.starts_with("t=") => kaggle(s),
        c if c.is_ascii_lowercase() => host(s, p).or_else(|| stern(s, p)).or_else(|| replica(s, p)),
        _ => None,
    }
}

/// `t=114.62 | stderr | ` of Kaggle: seconds since the notebook began.
fn kaggle(s: &str) -> Option<&str> {
    let (seconds, tail) = s.strip_prefix("t=")?.split_once(" | ")?;
    let is_time = !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let tail = tail.strip_prefix("stderr |").or_else(|| tail.strip_prefix("stdout |")).filter(|_| is_time)?;
    Some(skip_space(tail))
}

fn skip_space(s: &str) -> &str {
    s.strip_prefix(' ').unwrap_or(s)
}

fn number(s: &str) -> Option<u32> {
    (!s.is_empty() && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten()
}

fn set(slot: &mut Option<u32>, value: u32) {
    slot.get_or_insert(value);
}

fn set_time(p: &mut Peeled<'_>, w: Written) {
    p.origin.written = Some(w);
}

/// `W1121 00:10:00.838000 31792 torch/distributed/run.py:851] `; C++ builds with glog look the same, with a thread.
fn glog<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let tail = s.strip_prefix(['I', 'W', 'E', 'F', 'V'])?;
    let (w, n) = stamp::glog(tail).map(|(w, n)| (Some(w), n)).or_else(|| Some((None, before_abseil(tail)?)))?;
    let tail = s[1 + n..].strip_prefix(' ')?.trim_start_matches(' ');
    let (id, tail) = tail.split_once(' ')?;
    let id: u64 = id.parse().ok()?;
    let end = memchr::memchr(b']', &tail.as_bytes()[..tail.len().min(300)])?;
    let (file, line) = tail[..end].rsplit_once(':')?;
    number(line)?;
    p.cpp = !file.ends_with(".py");
    // torch 2.3 has a pthread id here.
    if let Some(id) = u32::try_from(id).ok().filter(|id| *id <= 1 << 22) {
        let slot = if p.cpp { &mut p.origin.tid } else { &mut p.origin.pid };
        *slot = Some(id);
    }
    if let Some(w) = w {
        set_time(p, w);
    }
    Some(skip_space(&tail[end + 1..]))
}

/// `0000 00:00:1729001122.101010` of abseil's log before it knows the zone: seconds since 1970.
fn before_abseil(tail: &str) -> Option<usize> {
    let (seconds, rest) = tail.strip_prefix("0000 00:00:")?.split_once('.')?;
    number(seconds)?;
    let micros = rest.bytes().take_while(u8::is_ascii_digit).count();
    (micros > 0).then_some(tail.len() - rest.len() + micros)
}

/// `ERROR 11-18 20:27:21 [core.py:708] ` of vLLM; without the first bracket before 0.8.
fn vllm<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (level, tail) = s.split_once(' ')?;
    matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL").then_some(())?;
    let (w, n) = stamp::month_day(tail)?;
    let (place, rest) = tail[n..].strip_prefix(' ')?.split_once(']')?;
    is_code_place(place.strip_prefix('[').unwrap_or(place)).then_some(())?;
    set_time(p, w);
    Some(skip_space(rest))
}

/// `ERROR [train.py:904] (2/4) ` of icefall, behind a time: the rank, and how many there are.
fn icefall<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (level, tail) = s.split_once(" [")?;
    matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL").then_some(())?;
    let (_, tail) = tail.split_once("] (").filter(|(place, _)| is_code_place(place))?;
    let (share, rest) = tail.split_once(") ")?;
    let (rank, ranks) = share.split_once('/')?;
    let rank = number(rank).filter(|rank| number(ranks).is_some_and(|ranks| *rank < ranks))?;
    set(&mut p.origin.rank, rank);
    Some(rest)
}

/// `(RayWorkerWrapper pid=248, ip=10.0.3.8) `, `(pid=248)`, `(MapWorker(MapBatches(f)) pid=248)`
fn ray<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let near = s.as_bytes().get(..s.len().min(200))?;
    // The name of a task may hold brackets, what stands behind it does not.
    let name = memchr::memmem::find(near, b"pid=")?;
    let end = name + memchr::memchr(b')', &near[name..])?;
    let inner = &s[1..end];
    let tail = inner.strip_prefix("pid=").or_else(|| inner.split_once(" pid=").map(|(_, t)| t))?;
    // vLLM: `(VllmWorker rank=3 pid=2301)`
    if let Some(rank) = inner.split_once(" rank=").and_then(|(_, t)| number(t.split([' ', ',']).next()?)) {
        set(&mut p.origin.rank, rank);
    }
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    p.origin.pid = Some(number(&tail[..digits])?);
    let worker = inner.split_once(" pid=").and_then(|(name, _)| name.split([' ', '(']).next()).filter(|name| !name.is_empty());
    p.origin.worker = worker.map(Into::into);
    if let Some(ip) = tail[digits..].strip_prefix(", ip=") {
        p.origin.host = Some(ip.to_string());
    }
    let after = &s[end + 1..];
    Some(skip_space(after.strip_prefix("[0m").unwrap_or(after)))
}

/// `(trainer:793) INFO: ` of Python's logging, as ESPnet has it.
fn module_place(s: &str) -> Option<&str> {
    let (place, tail) = s.strip_prefix('(')?.split_once(") ")?;
    let (module, line) = place.split_once(':')?;
    let is_module = !module.is_empty() && module.len() <= 40 && module.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let (level, rest) = tail.split_once(": ").filter(|_| is_module && number(line).is_some())?;
    matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL").then_some(rest)
}

fn stamped<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (w, n) = stamp::iso(s).or_else(|| stamp::american(s)).or_else(|| {
        // `10/01 00:00:01` alone may be steps and the time that they took.
        stamp::month_day(s).filter(|(_, n)| s[..*n].ends_with(['M', 'm']))
    })?;
    let rest = &s[n..];
    // A log shipper may put a colon between it and the launcher's prefix, nnU-Net between it and the text.
    let rest = rest.strip_prefix(':').filter(|r| r.starts_with(' ')).unwrap_or(rest);
    if let Some(text) = placed(rest, p) {
        set_time(p, w);
        return Some(text);
    }
    if !rest.is_empty() && !rest.starts_with([' ', '[']) {
        return None;
    }
    set_time(p, w);
    Some(skip_space(rest))
}

/// What stands behind `\tnode3:1\tolmo_core.train.trainer:648\tERROR\t` of OLMo-core: host and local rank, place, level.
fn placed<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let mut words = s.strip_prefix(['\t', ' '])?.splitn(4, ['\t', ' ']);
    let (host, local) = words.next()?.split_once(':')?;
    let local = number(local).filter(|local| *local < 64)?;
    let is_host =
        host.starts_with(|c: char| c.is_ascii_alphabetic()) && !host.contains(|c: char| !c.is_ascii_alphanumeric() && !"-.".contains(c));
    let (_, line) = words.next().filter(|_| is_host)?.rsplit_once(':')?;
    number(line)?;
    matches!(words.next()?, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL").then_some(())?;
    let text = words.next()?;
    p.origin.host = Some(host.to_owned());
    p.origin.local_rank = Some(local);
    Some(text)
}

/// `2026-04-13 13:53:31.851506: W tensorflow/core/kernels/data.cc:588] `, which Horovod puts into brackets as a whole.
fn tensorflow<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (w, n) = stamp::iso(s)?;
    let rest = tensorflow_place(&s[n..])?.strip_prefix(']')?;
    set_time(p, w);
    p.cpp = true;
    Some(skip_space(rest))
}

/// ` E 27497 27511` of Ray's C++ logger: level, process and thread.
fn is_level_and_ids(tail: &str) -> bool {
    let ids = tail.strip_prefix(' ').and_then(|tail| tail.strip_prefix(['D', 'I', 'W', 'E', 'C', 'F'])).and_then(|t| t.strip_prefix(' '));
    ids.and_then(|ids| ids.split_once(' ')).is_some_and(|(pid, tid)| number(pid).is_some() && number(tid).is_some())
}

/// What stands behind `: W tensorflow/core/kernels/data.cc:588`.
fn tensorflow_place(tail: &str) -> Option<&str> {
    let tail = tail.strip_prefix(": ")?.strip_prefix(['I', 'W', 'E', 'F'])?.strip_prefix(' ')?;
    let end = memchr::memchr(b']', &tail.as_bytes()[..tail.len().min(300)]).unwrap_or(tail.len());
    let (file, line) = tail.get(..end)?.rsplit_once(':')?;
    number(line)?;
    (file.contains('.') && !file.contains(' ')).then(|| &tail[end..])
}

/// What stands behind the level of a logger that prints it in front of the time: `INFO 2026-12-02 14:52:20,806 hooks.py: 27: text`.
fn leveled(s: &str) -> Option<&str> {
    let (level, tail) = s.split_once(' ')?;
    matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL").then_some(())?;
    stamp::iso(tail).map(|_| tail)
}

/// Kubernetes operators: `1.7e+09 DEBUG events text`.
fn zap(s: &str) -> Option<&str> {
    let mut words = s.splitn(4, [' ', '\t']);
    let at = words.next().filter(|t| t.ends_with("e+09"))?;
    at.parse::<f64>().ok()?;
    words.next().filter(|level| matches!(*level, "DEBUG" | "INFO" | "WARN" | "ERROR"))?;
    words.next()?;
    words.next()
}

/// `- root - INFO - `, `- INFO - __main__ - `
fn logger(s: &str) -> Option<&str> {
    let (first, tail) = s.strip_prefix("- ")?.split_once(" - ")?;
    let (second, rest) = tail.split_once(" - ")?;
    let level = |w: &str| matches!(w, "INFO" | "WARNING" | "ERROR" | "DEBUG" | "CRITICAL");
    (level(first) || level(second)).then_some(rest)
}

/// `srun -l`: `3: `
fn task<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let digits = s.bytes().take_while(u8::is_ascii_digit).count();
    let rest = s[digits..].strip_prefix(": ").or_else(|| s[digits..].strip_prefix(':').filter(|r| r.is_empty()))?;
    let n = number(&s[..digits]).filter(|n| *n < MAX_BARE_RANK)?;
    if p.origin.rank.is_none() {
        p.task = Some(n);
        p.named(n, RankBy::Task);
    }
    Some(rest)
}

/// `  3: ` of `srun -l`, and `  | <time> | ` of log viewers.
fn padded<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let inner = s.trim_start_matches(' ');
    if let Some(tail) = inner.strip_prefix("| ") {
        let (w, n) = stamp::iso(tail)?;
        let rest = match tail[n..].strip_prefix(" | ") {
            Some(rest) => rest,
            // CloudWatch's table may hold the text twice: `  | <time>text | text`.
            None => {
                let both = tail[n..].trim_end();
                let (once, again) = (both.get(..both.len().checked_sub(3)? / 2)?, both.get(both.len().div_ceil(2) + 1..)?);
                (once == again && both[once.len()..].starts_with(" | ")).then_some(again)?
            }
        };
        set_time(p, w);
        return Some(rest);
    }
    // Megatron starts its lines with a space.
    if s.len() - inner.len() == 1 && inner.strip_prefix('[').is_some_and(|t| stamp::iso(t).is_some()) {
        return bracket(inner, p);
    }
    if s.len() - inner.len() > 5 {
        return None;
    }
    task(inner, p)
}

fn mpi_time<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (w, n) = stamp::ctime(s)?;
    let rest = s[n..].strip_prefix('[').map(|_| &s[n..])?;
    set_time(p, w);
    Some(rest)
}

/// `10.0.3.7: ` and `worker-1: ` of pdsh, `worker-1 | ` of docker compose. Words that are no host names also end in a colon, so
/// a name needs a digit and a dash or dot.
fn host<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let n = s.bytes().take(64).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')).count();
    let (name, after) = s.split_at(n);
    let rest = after.strip_prefix(": ").or_else(|| column(after)).or_else(|| after.strip_prefix(':').filter(|r| r.is_empty()))?;
    let digit = name.bytes().any(|b| b.is_ascii_digit());
    let joint = name.bytes().any(|b| matches!(b, b'-' | b'.'));
    let lower = !name.bytes().any(|b| b.is_ascii_uppercase());
    let address = name.split('.').count() == 4 && name.split('.').all(|part| part.parse::<u8>().is_ok());
    let float = name.parse::<f64>().is_ok();
    let word = [
        "epoch",
        "step",
        "iter",
        "rank",
        "layer",
        "loss",
        "phase",
        "stage",
        "torch",
        "python",
        "cuda",
        "gpu",
        "nvidia-",
        "slurmstepd-",
        "mount.",
    ];
    // The loader begins so what it says of a library.
    let library = name.ends_with(".so") || name.contains(".so.");
    if !(address || digit && joint && lower && !float && name.starts_with(|c: char| c.is_ascii_lowercase()))
        || word.iter().any(|w| name.starts_with(w))
        || library
    {
        return None;
    }
    p.origin.host = Some(name.to_string());
    Some(rest)
}

/// `worker-1  | ` of docker compose, which makes all names equally wide.
fn column(after: &str) -> Option<&str> {
    let rest = after.trim_start_matches(' ');
    rest.strip_prefix("| ").filter(|_| (1..=32).contains(&(after.len() - rest.len())))
}

/// `trainer/0 [1]:` of TorchX: role, replica and local rank.
fn replica<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    // Most lines end here.
    let n = s.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
    s[n..].starts_with('/').then_some(())?;
    let (place, tail) = s.split_once(" [")?;
    let (role, no) = place.split_once('/')?;
    (role.len() <= 32 && role.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))).then_some(())?;
    number(no)?;
    let (local, rest) = tail.split_once("]:")?;
    p.origin.local_rank = Some(number(local)?);
    Some(skip_space(rest))
}

/// `trainer-0 pytorch ` of stern: a pod and its container. Two words are no proof, so only usual names are taken.
fn stern<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (pod, tail) = s.split_once(' ')?;
    let (container, rest) = tail.split_once(' ')?;
    let usual = matches!(container, "pytorch" | "trainer" | "worker" | "main" | "master" | "launcher" | "node" | "mpi" | "app");
    let number = || pod.rsplit_once('-').is_some_and(|(_, n)| !n.is_empty() && n.len() <= 5 && n.bytes().any(|b| b.is_ascii_digit()));
    let name = || pod.len() <= 253 && pod.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'));
    (usual && number() && name()).then_some(())?;
    p.origin.host = Some(pod.to_string());
    Some(rest)
}

/// `Nov 21 00:05:26 node-01 python[1234]: `
fn journal<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (w, n) = stamp::syslog(s)?;
    let tail = s[n..].strip_prefix(' ')?;
    // A log of one host may leave its name out.
    let rest = tail.strip_prefix("kernel: ").or_else(|| syslog(tail, p))?;
    set_time(p, w);
    Some(rest)
}

/// `node-01 python[1234]: `, `node-01 kernel: `, behind a time. The process may be the one that collects the output of containers.
fn syslog<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (host, tail) = s.split_once(' ')?;
    let word =
        |w: &str| !w.is_empty() && w.len() <= 64 && w.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'));
    let rest = match tail.strip_prefix("kernel: ") {
        Some(rest) => rest,
        None => {
            let (program, rest) = tail.split_once("]: ")?;
            let (name, pid) = program.split_once('[')?;
            number(pid).filter(|_| word(name))?;
            rest
        }
    };
    word(host).then_some(())?;
    p.origin.host = Some(host.to_string());
    Some(rest)
}
