//! What an input of some size may cost.

use crate::parsers::Parser;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Instrumented code is some three times slower: what is quadratic takes more than this at a few 10 KB.
const TIME: Duration = Duration::from_millis(100);
const TIME_PER_BYTE: Duration = Duration::from_micros(20);
const MEMORY: usize = 8 << 20;
const MEMORY_PER_BYTE: usize = 200;

/// Counts what is allocated.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: it hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        more(size);
        unsafe { System.realloc(at, layout, size) }
    }
}

fn more(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Time, memory above what there was before, and how many bytes the input has, unpacked.
fn cost(parser: &Parser, files: &[Vec<u8>]) -> (Duration, usize, usize) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let began = cpu();
    let bytes = (parser.run)(files);
    (cpu() - began, PEAK.load(Ordering::Relaxed) - before, bytes)
}

/// Runs a parser; panics if it does, or if it takes too much.
pub fn check(parser: &Parser, files: &[Vec<u8>]) {
    let (mut time, memory, bytes) = cost(parser, files);
    assert!(memory <= MEMORY + MEMORY_PER_BYTE * bytes, "{} KiB of memory for {bytes} bytes", memory >> 10);
    let limit = TIME + TIME_PER_BYTE * bytes as u32;
    // Time may have been lost to something else.
    for _ in 0..3 {
        if time > limit {
            time = time.min(cost(parser, files).0);
        }
    }
    assert!(time <= limit, "{time:?} for {bytes} bytes");
}
