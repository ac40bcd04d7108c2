//! What one input costs, and what is too much.

use crate::make::Input;
use crate::parsers::Parser;
use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Counts what is allocated.
pub struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if now > PEAK.load(Ordering::Relaxed) {
        PEAK.store(now, Ordering::Relaxed);
    }
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        if new >= layout.size() {
            more(new - layout.size());
        } else {
            NOW.fetch_sub(layout.size() - new, Ordering::Relaxed);
        }
        unsafe { System.realloc(at, layout, new) }
    }
}

static LAST_PANIC: Mutex<Option<(String, String)>> = Mutex::new(None);

pub fn keep_panics() {
    std::panic::set_hook(Box::new(|info| {
        let mut place = info.location().map_or(String::new(), |l| format!("{}:{}", l.file(), l.line()));
        if place.starts_with('/') {
            // In a library: whoever called it is to blame.
            let trace = std::backtrace::Backtrace::force_capture().to_string();
            let ours = trace.lines().map(str::trim).find(|l| l.starts_with("at ./src/") || l.contains("/nccl-top/src/"));
            let function = trace.lines().find(|l| l.contains("nccl_top::")).map(str::trim);
            place = format!("{place} from {}", ours.or(function).unwrap_or_default());
        }
        let payload = info.payload();
        let text = payload.downcast_ref::<String>().cloned().or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        let text: String = text.unwrap_or_default().chars().take(300).collect();
        if std::thread::current().name() == Some("main") {
            println!("{place}: {text}");
        }
        *LAST_PANIC.lock().unwrap() = Some((place, text));
    }));
}

#[derive(Clone, Copy, Debug)]
pub struct Cost {
    pub time: Duration,
    /// Of memory, above what was there before.
    pub peak: usize,
    pub bytes: usize,
}

impl Cost {
    pub fn per_byte(&self) -> f64 {
        self.time.as_nanos() as f64 / self.bytes.max(1) as f64
    }
}

#[derive(Clone)]
pub enum Trouble {
    /// Place and text.
    Panic(String, String),
    Slow(String),
    Memory(String),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Panic(place, text) => write!(f, "panic at {place}: {text}"),
            Trouble::Slow(what) => write!(f, "slow: {what}"),
            Trouble::Memory(what) => write!(f, "memory: {what}"),
        }
    }
}

impl Trouble {
    pub fn kind(&self) -> String {
        match self {
            Trouble::Panic(place, _) => format!("panic {place}"),
            Trouble::Slow(_) => "slow".into(),
            Trouble::Memory(_) => "memory".into(),
        }
    }
}

/// What an input of this size may take.
pub fn too_slow(time: Duration, bytes: usize) -> Option<String> {
    let limit = Duration::from_millis(15) + Duration::from_nanos(2000) * bytes as u32;
    (time > limit).then(|| format!("{time:?} for {bytes} bytes"))
}

fn too_large(peak: usize, bytes: usize) -> Option<String> {
    (peak > (8 << 20) + 200 * bytes).then(|| format!("{} KiB for {bytes} bytes", peak >> 10))
}

fn cpu() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to `t` and nothing else.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) } != 0 {
        return Duration::ZERO;
    }
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

pub fn run(parser: &Parser, input: &[Vec<u8>]) -> (Cost, Option<Trouble>) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let start = cpu();
    let outcome = catch_unwind(AssertUnwindSafe(|| (parser.run)(input)));
    let time = cpu().saturating_sub(start);
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    let bytes = match &outcome {
        Ok(unpacked) => *unpacked,
        Err(_) => input.iter().map(Vec::len).sum(),
    };
    let cost = Cost { time, peak, bytes };
    let trouble = match outcome {
        Err(_) => {
            let (place, text) = LAST_PANIC.lock().unwrap().take().unwrap_or_default();
            Some(Trouble::Panic(place, text))
        }
        Ok(_) => too_slow(time, bytes).map(Trouble::Slow).or_else(|| too_large(peak, bytes).map(Trouble::Memory)),
    };
    (cost, trouble)
}

/// A smaller input with the same trouble, found by leaving out halves, quarters and so on.
pub fn minimise(parser: &Parser, mut input: Input, trouble: &Trouble) -> Input {
    let start = Instant::now();
    let same = |input: &Input| run(parser, input).1.is_some_and(|t| t.kind() == trouble.kind());
    if !same(&input) {
        return input;
    }
    let mut at = 0;
    while input.len() > 1 && at < input.len() {
        let mut less = input.clone();
        less.remove(at);
        if same(&less) { input = less } else { at += 1 }
    }
    for file in 0..input.len() {
        let mut step = input[file].len() / 2;
        while step > 0 {
            let mut at = 0;
            while at < input[file].len() {
                if start.elapsed() > Duration::from_secs(15) {
                    return input;
                }
                let mut less = input.clone();
                let end = (at + step).min(less[file].len());
                less[file].drain(at..end);
                if same(&less) { input = less } else { at += step }
            }
            step /= 2;
        }
    }
    input
}
