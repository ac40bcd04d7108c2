//! What is printed when a process crashes: the signal, and behind it a stack, innermost call first; by Python's faulthandler of its threads, by
//! the handlers of UCX and Open MPI, by gdb and by c10 of native code. The line of the signal is held back until the stack tells where the crash was.
//!
//! Source: CPython `Python/traceback.c` and `Modules/faulthandler.c`, 3.8 to 3.14; UCX `debug.c`; Open MPI `stacktrace.c`, glibc `backtrace_symbols`;
//! gdb `stack.c`, 9 to 16; PyTorch `c10/util/Backtrace.cpp`; TVM FFI `backtrace.cc` (FlashInfer, SGLang).

use super::traceback::{is_of_command, is_of_library, is_of_python, is_of_spawn};
use crate::base::clean::clip;
use crate::logs::prefix::Peeled;
use crate::logs::{Origin, SaidAt, TextEvent, What};

/// How the line of the signal begins.
const HEAD: &str = "Fatal Python error: ";
/// How the lines of native handlers go on in front of their stacks.
const NATIVE: &[&str] = &["] Caught signal ", "] Signal: Segmentation fault (11)", "  Fatal: ", "!!! Segfault encountered !!!"];
/// How c10 begins what nobody has caught: the text of the exception, and the stack that it was raised from.
const OF_C10: &str = "what():  ";
/// Lines that are waited for: other threads may come first.
const MOST_LINES: u16 = 400;
/// The same of a native stack, and of the lines in front of it.
const MOST_NATIVE: u16 = 80;
const MOST_IN_FRONT: u16 = 6;

/// A crash whose stack is being read.
#[derive(Clone, PartialEq)]
pub struct Crash {
    event: TextEvent,
    who: Origin,
    left: u16,
    has_thread: bool,
    /// The frames are those of the thread that crashed.
    in_current: bool,
    /// The innermost frame, where it is a library's.
    innermost: Option<String>,
    /// Its address, as long as the next frame may name the same with its source.
    innermost_at: Option<String>,
    is_native: bool,
    /// gdb's number of the thread that crashed, where it gives one.
    thread: Option<u32>,
    /// c10 prints it: its own frames, and those of PyTorch and Python, lead to where it was raised.
    is_of_c10: bool,
    /// A child of Python's `multiprocessing`, which begins with a program on a command line, too.
    of_spawn: bool,
}

impl Crash {
    /// Of the line of the signal, the `line`th of its file; `None` of another line.
    pub fn of(event: &TextEvent, line: Option<u64>) -> Option<Crash> {
        let What::Signed { text, signature, .. } = &event.what else { return None };
        let said_at = Some(SaidAt { line, text: text.clone(), ..SaidAt::default() });
        let event = TextEvent { said_at, ..event.clone() };
        let of_gdb = signature.id == "gdb-signal";
        let is_of_c10 = signature.id == "cpp-exception" && text.starts_with(OF_C10);
        let is_native = of_gdb || is_of_c10 || NATIVE.iter().any(|head| text.contains(head));
        (is_native || text.starts_with(HEAD)).then(|| Crash {
            who: event.origin.clone(),
            event,
            left: if is_native { MOST_NATIVE } else { MOST_LINES },
            has_thread: false,
            // gdb's own `bt` has no head: it is that of the thread that it stopped.
            in_current: of_gdb,
            innermost: None,
            innermost_at: None,
            is_native,
            thread: thread_no(text).filter(|_| of_gdb),
            is_of_c10,
            of_spawn: false,
        })
    }

    /// A native stack may not come at all: the crash is told without it when another one comes.
    pub fn is_native(&self) -> bool {
        self.is_native
    }

    /// Whether the same process wrote it.
    fn is_of(&self, p: &Peeled<'_>) -> bool {
        p.origin.rank == self.who.rank && p.origin.pid == self.who.pid && p.origin.host == self.who.host
    }

    /// A line behind that of a native handler. What is no frame ends the stack, once there is one.
    fn read_native(&mut self, p: &Peeled<'_>) -> (Option<TextEvent>, bool) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return (Some(self.told()), false);
        }
        if !self.is_of(p) {
            return (None, false);
        }
        if let Some((thread, of)) = self.thread.zip(thread_no(p.rest)) {
            self.in_current = thread == of;
            return (None, true);
        }
        let frame = Frame::of(p.rest.trim());
        // The stacks of all threads come one after the other, that of the crash anywhere between them.
        if self.thread.is_some() && frame.is_some() && !self.in_current {
            return (None, true);
        }
        // Where Python calls, the stack has left what threw.
        if self.is_of_c10 && frame.as_ref().is_some_and(Frame::is_of_python) {
            return (Some(self.told()), true);
        }
        let ends = if self.has_thread { frame.is_none() } else { frame.is_none() && self.left < MOST_NATIVE - MOST_IN_FRONT };
        if ends {
            return (Some(self.told()), false);
        }
        let Some(frame) = frame else { return (None, false) };
        self.has_thread = true;
        // Of several names of one address the last one is the function's own, with its source.
        if let Some(at) = self.innermost_at.take() {
            if frame.address != Some(at.as_str()) {
                return (Some(self.told()), true);
            }
            self.innermost = frame.place().or(self.innermost.take());
            if frame.source.is_some() {
                return (Some(self.told()), true);
            }
            self.innermost_at = Some(at);
            return (None, true);
        }
        // The first library that is not of the system, and the first function of it that has a name.
        let place = frame.place().filter(|_| !self.is_of_c10 || !frame.is_of_pytorch());
        match (&self.innermost, place) {
            (None, Some(place)) => self.innermost = Some(place),
            (Some(told), _) if Some(told.as_str()) == frame.library && frame.function.is_some() => self.innermost = frame.place(),
            _ => {}
        }
        let is_whole = self.innermost.as_deref().is_some_and(|told| !told.contains(".so") || told.ends_with(')'));
        if let Some(at) = frame.address.filter(|_| is_whole && frame.source.is_none()) {
            self.innermost_at = Some(at.to_owned());
            return (None, true);
        }
        (is_whole.then(|| self.told()), true)
    }

    /// Takes a line of the same process in. The event, when nothing more is to come; and whether the line belongs to the stack.
    pub fn read(&mut self, p: &Peeled<'_>) -> (Option<TextEvent>, bool) {
        if self.is_native {
            return self.read_native(p);
        }
        self.left = self.left.saturating_sub(1);
        let same = self.is_of(p);
        let text = p.rest.trim_end();
        // Before the first thread nothing but blank lines is its own, and a traceback of another process may stand open.
        if same && self.left > 0 && !self.has_thread && (text.is_empty() || text.starts_with("  File \"")) {
            return (None, false);
        }
        let of_stack = text.is_empty() || text.starts_with("  File \"") || is_thread(text) || text.starts_with("  ...");
        if self.left == 0 || same && !of_stack {
            return (Some(self.told()), false);
        }
        if !same || !of_stack {
            return (None, false);
        }
        if is_thread(text) {
            self.has_thread = true;
            self.in_current = text.starts_with("Current thread ");
        } else if let Some(frame) = text.strip_prefix("  File \"").filter(|_| self.in_current) {
            if !is_of_python(frame) && !is_of_library(frame) {
                self.innermost = place(frame);
                return (Some(self.told()), true);
            }
            self.innermost = self.innermost.take().or_else(|| place(frame));
            if let Some(said_at) = &mut self.event.said_at {
                self.of_spawn |= is_of_spawn(frame);
                said_at.of_command = is_of_command(frame, " in <module>") && !self.of_spawn;
            }
        } else if text.is_empty() && self.innermost.is_some() {
            return (Some(self.told()), true);
        }
        (None, true)
    }

    /// The event with what is known of where it happened.
    pub fn told(&mut self) -> TextEvent {
        let mut event = self.event.clone();
        if let (What::Signed { text, .. }, Some(place)) = (&mut event.what, &self.innermost) {
            text.push_str(&if self.is_native { format!(" [in {place}]") } else { format!(", in {place}") });
        }
        event
    }
}

/// `Current thread 0x00007f971efd6b80 (most recent call first):`, `Thread 0x… [python] (most recent call first):`
fn is_thread(text: &str) -> bool {
    (text.starts_with("Current thread ") || text.starts_with("Thread ")) && text.ends_with("(most recent call first):")
}

/// 10 of `Thread 10 "all_reduce_perf" received signal …` and of `Thread 10 (Thread 0x7ffd6e5dd000 (LWP 7468) "all_reduce_perf"):`.
fn thread_no(text: &str) -> Option<u32> {
    let (number, tail) = text.strip_prefix("Thread ")?.split_once(' ')?;
    (tail.starts_with('"') || tail.starts_with("(Thread 0x")).then(|| number.parse().ok()).flatten()
}

/// `length (tokenize_native.py:7)` of `/root/tokenize_native.py", line 7 in length`
fn place(frame: &str) -> Option<String> {
    let (path, tail) = frame.split_once("\", line ")?;
    let (line, function) = tail.split_once(" in ")?;
    const LONGEST: usize = 160;
    let place = format!("{} ({}:{line})", clip(function.trim(), 60), path.rsplit('/').next()?);
    Some(clip(&place, LONGEST).into_owned())
}

/// A call of a native stack.
struct Frame<'a> {
    /// `libnccl.so.2`
    library: Option<&'a str>,
    function: Option<&'a str>,
    /// `misc/strongstream.cc:30`, which gdb knows, and UCX where the library was built with it.
    source: Option<&'a str>,
    /// UCX has a frame for each name that an address has.
    address: Option<&'a str>,
}

/// What handlers, threads and the C library do around the call that crashed: libraries without their `lib`, and functions.
const OF_THE_SYSTEM: &[&str] = &["c.so", "pthread", "m.so", "gcc_s", "stdc++", "ucs.", "ucm.", "open-pal", "open-rte", "asan", "ld-linux"];
/// Modules of Python itself, and loops that take their place.
const PYTHONS: &[&str] = &["_asyncio.", "_ctypes.", "_queue.", "_multiprocessing.", "loop.cpython"];
const SYSTEM_CALLS: &[&str] =
    &["killpg", "raise", "gsignal", "abort", "start_thread", "clone", "_start", "main", "memset", "memcpy", "memmove", "strlen"];
const MEMORY_OF_OPEN_MPI: &str = "opal_memory_";
/// What the loader of libraries does, of glibc `elf/dl-load.c`.
const LOADING: &[&str] = &["dlopen", "_dl_map_segments", "_dl_map_object", "_dl_map_object_from_fd", "_dl_relocate_object", "_dl_open"];

impl<'a> Frame<'a> {
    /// `[node:956] [ 4] /usr/lib/libnccl.so.2(ncclGroupEnd+0x37)[0x7d1d]`, ` 2  /usr/lib/libuct.so.0(+0xed99) [0x2aab]`,
    /// `2 0x0000000000068d7c ncclGroupEnd() ???:0`
    fn of(text: &'a str) -> Option<Frame<'a>> {
        if let Some(tail) = text.strip_prefix('#') {
            return Frame::of_gdb(tail);
        }
        if let Some(tail) = text.strip_prefix("frame #") {
            return Frame::of_c10(tail);
        }
        if let Some(tail) = text.strip_prefix("File \"") {
            return Frame::of_tvm(tail);
        }
        let text = text.rsplit_once("] [").map_or(text, |(before, tail)| if before.starts_with('[') { tail } else { text });
        let text = text.trim_start_matches(['[', ' ']);
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let tail = text[digits..].trim_start_matches([']', ' ']);
        if digits == 0 || digits > 3 || tail.len() == text.len() - digits {
            return None;
        }
        if let Some(rest) = tail.strip_prefix("0x") {
            let (address, call) = rest.split_once(' ')?;
            let function = call.split(['(', ' ']).next().filter(|name| is_name(name));
            let source = call.rsplit_once(' ').map(|(_, place)| place).filter(|place| place.contains('/') && !place.contains('?'));
            return Some(Frame { library: None, function, source, address: Some(address) });
        }
        let (path, rest) = tail.split_once('(')?;
        let name = path.rsplit('/').next().filter(|name| !name.is_empty() && !name.contains(' '))?;
        let library = Some(name).filter(|name| name.contains(".so"));
        let function = rest.split(['+', ')']).next().filter(|name| is_name(name));
        // A program's own calls: `solver(init_bands_+0x153) [0xb24072]`.
        let is_call = || function.is_some() && rest.contains("+0x") && rest.ends_with(']');
        (library.is_some() || is_call()).then_some(Frame { library, function, source: None, address: None })
    }

    /// `1  0x00007fffc2c329b5 in ncclCudaContextTrack (out=0x5555) at misc/strongstream.cc:30`, `2  0x00007fff in abort () from /lib64/libc.so.6`
    fn of_gdb(tail: &'a str) -> Option<Frame<'a>> {
        let (number, tail) = tail.split_once(' ')?;
        number.parse::<u16>().ok()?;
        let tail = tail.trim_start();
        let call = if tail.starts_with("0x") { tail.split_once(" in ")?.1 } else { tail };
        let (name, rest) = call.split_once(" (")?;
        let library = rest.rsplit_once(") from ").and_then(|(_, path)| path.trim().rsplit('/').next());
        let source = rest.rsplit_once(") at ").map(|(_, place)| place.trim());
        Some(Frame { library, function: Some(name).filter(|name| is_name(name)), source, address: None })
    }

    /// `5: deep_ep::Buffer::dispatch(int) + 0x4d0 (0x7b99 in /opt/deep_ep/_C.so)`, `3: <unknown function> + 0x23e00 (/opt/libc10_cuda.so)`
    fn of_c10(tail: &'a str) -> Option<Frame<'a>> {
        let (number, tail) = tail.split_once(": ")?;
        number.parse::<u16>().ok()?;
        let (call, place) =
            tail.rsplit_once(" + 0x").map_or((tail, ""), |(call, tail)| (call, tail.split_once(" (").map_or("", |(_, place)| place)));
        let path = place.trim_end_matches(')').rsplit(' ').next().unwrap_or(place);
        let library = path.rsplit('/').next().filter(|name| name.contains(".so"));
        Some(Frame { library, function: call.split('(').next().filter(|name| is_name(name)), source: None, address: None })
    }

    /// `misc/cudawrap.cc", line 92, in ncclCuMemHostEnable()`, `<unknown>", line 0, in cuMemCreate`; a file of Python is another stack's.
    fn of_tvm(tail: &'a str) -> Option<Frame<'a>> {
        let (file, tail) = tail.split_once("\", line ")?;
        let is_native = file == "<unknown>" || !file.starts_with('<') && !file.ends_with(".py") && !file.ends_with(".pyx");
        let (_, function) = tail.split_once(", in ").filter(|_| is_native)?;
        let source = Some(file).filter(|file| !file.starts_with('<'));
        Some(Frame { library: None, function: function.split('(').next().filter(|name| is_name(name)), source, address: None })
    }

    fn is_of_pytorch(&self) -> bool {
        let Some(library) = self.library else { return true };
        let name = library.strip_prefix("lib").unwrap_or(library);
        ["torch", "c10", "cudart", "cuda.so", "cublas", "python"].iter().any(|own| name.starts_with(own))
    }

    /// `_PyEval_EvalFrameDefault`, `PyObject_Call`, `_asyncio.cpython-312-x86_64-linux-gnu.so`
    fn is_of_python(&self) -> bool {
        let calls = self.function.is_some_and(|name| name.starts_with("_Py") || name.starts_with("Py"));
        let of_its_library = self.library.is_some_and(|name| PYTHONS.iter().any(|own| name.starts_with(own)));
        calls || of_its_library
    }

    /// `libnccl.so.2 (ncclGroupEnd)`, `libnccl.so.2`, `ncclGroupEnd`; `None` of the system's own.
    fn place(&self) -> Option<String> {
        const LONGEST: usize = 60;
        if self.function.is_some_and(|name| LOADING.contains(&name)) {
            return Some("dlopen".to_owned());
        }
        let name = |text: &str| clip(text, LONGEST).into_owned();
        match (self.library, self.function) {
            (Some(library), _) if is_of_the_system(library) => None,
            // The memory of Open MPI up to 2, in the place of the C library's.
            (_, Some(function)) if function.starts_with(MEMORY_OF_OPEN_MPI) => None,
            (Some(library), Some(function)) => Some(format!("{} ({})", name(library), name(function))),
            (Some(library), None) => Some(name(library)),
            (None, Some(function)) if function.starts_with('_') || function.starts_with("Py") || SYSTEM_CALLS.contains(&function) => None,
            (None, Some(function)) => Some(match self.source.and_then(|source| source.rsplit('/').next()) {
                Some(source) => format!("{} ({})", name(function), name(source)),
                None => name(function),
            }),
            (None, _) => None,
        }
    }
}

/// A function of a native stack.
pub struct Call<'a> {
    pub name: &'a str,
    pub library: Option<&'a str>,
    /// Where the stack has a frame for each name of one address; the last one is the function's own.
    pub address: Option<&'a str>,
}

/// What a line of a native stack calls, and the library that it is in: `Some(None)` of a frame of the system, of Python or without a name, `None` of
/// a line that is no frame.
pub fn native_call(line: &str) -> Option<Option<Call<'_>>> {
    let frame = Frame::of(line.trim())?;
    let is_foreign = frame.is_of_python() || frame.library.is_some_and(is_of_the_system);
    let is_told = |name: &&str| {
        let own = name.rsplit("::").next().unwrap_or(name);
        let of_handlers = ["c10::", "torch::", "at::", "std::"].iter().any(|space| name.starts_with(space));
        !is_foreign
            && !of_handlers
            && !name.starts_with(MEMORY_OF_OPEN_MPI)
            && !own.starts_with('_')
            && !SYSTEM_CALLS.contains(&own)
            && !LOADING.contains(&own)
    };
    Some(frame.function.filter(is_told).map(|name| Call { name, library: frame.library, address: frame.address }))
}

/// `#3  opal_common_ucx_wait_request (type=1,`: nobody looks at the stack of what is well.
pub fn is_frame_of_gdb(line: &str) -> bool {
    line.strip_prefix('#').and_then(Frame::of_gdb).is_some_and(|frame| frame.function.is_some())
}

/// Whether a crash's own stack begins below such a line.
pub fn begins_stack(line: &str) -> bool {
    NATIVE.iter().any(|head| line.contains(head)) || line.contains("  Assertion `") || line.contains("received signal SIG")
}

fn is_of_the_system(library: &str) -> bool {
    let name = library.strip_prefix("lib").unwrap_or(library);
    OF_THE_SYSTEM.iter().any(|own| name.starts_with(own))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::Frame;

    #[test]
    fn frames_of_all_handlers() {
        let cases = [
            ("[k8s-worker07:00956] [ 4] /usr/local/nccl/lib/libnccl.so.2(+0xbd72c)[0x7d1d0c8f372c]", Some("libnccl.so.2")),
            ("[ 4] /usr/lib/libnccl.so.2(ncclGroupEnd+0x37)[0x7d1d0c903ee7]", Some("libnccl.so.2 (ncclGroupEnd)")),
            ("2  /opt/ucx/lib/libuct.so.0(uct_rkey_release+0xe) [0x2aab2393f51e]", Some("libuct.so.0 (uct_rkey_release)")),
            ("2 0x0000000000068d7c ncclGroupEnd() ???:0", Some("ncclGroupEnd")),
            ("0 0x0000000000014420 __funlockfile() ???:0", None),
            ("[ 0] /usr/lib/x86_64-linux-gnu/libc.so.6(+0x45330)[0x7d1d0c3eb330]", None),
            ("#0  0x0000000000000000 in ?? ()", None),
            (
                "#1  0x00007ff2c2c329b5 in ncclContextOf (out=0x555557) at /nccl/src/misc/strongstream.cc:30",
                Some("ncclContextOf (strongstream.cc:30)"),
            ),
            ("#2  commAlloc (comm=0x55, parent=0x0, rank=<optimized out>) at init.cc:349", Some("commAlloc (init.cc:349)")),
            ("#3  0x00007ff2c26a370a in abort () from /lib64/libc.so.6", None),
            (
                "frame #5: deep_ep::Buffer::dispatch(int, bool) + 0x4d0 (0x7b99 in /opt/deep_ep/_C.cpython-312.so)",
                Some("_C.cpython-312.so (deep_ep::Buffer::dispatch)"),
            ),
            ("frame #3: <unknown function> + 0x23e00 (/opt/torch/lib/libc10_cuda.so)", Some("libc10_cuda.so")),
            ("#1  0x0000155555523f0f in _dl_map_segments (header=0x1555) at ./dl-map-segments.h:176", Some("dlopen")),
            ("#0  memset () at ../sysdeps/x86_64/memset.S:392", None),
            ("2  /lib64/libc.so.6(dlopen+0x6f) [0x2aab2393f51e]", Some("dlopen")),
            ("frame #8: VLLM::Worker_DP4() [0x5821ef]", Some("VLLM::Worker_DP4")),
            ("File \"misc/cudawrap.cc\", line 41, in ncclCuMemProbe()", Some("ncclCuMemProbe (cudawrap.cc)")),
            ("File \"<unknown>\", line 0, in cuMemMap", Some("cuMemMap")),
            ("[node-a:2342] [ 3] solver(symmetry_+0x3c2) [0x12f2802]", Some("symmetry_")),
            ("[node-a:2342] [ 2] /opt/openmpi/lib/libmpi.so.1(opal_memory_ptmalloc2_free+0xd3) [0x2ad4adc5dbc3]", None),
            ("File \"./nptl/pthread_kill.c\", line 44, in __pthread_kill_internal", None),
        ];
        for (line, place) in cases {
            assert_eq!(Frame::of(line).expect(line).place().as_deref(), place, "{line}");
        }
        for line in [
            "==== backtrace (tid: 7025) ====",
            "[node:956] Signal code:  (-6)",
            "Epoch 1: 10 (of 20)",
            "12 steps (0.3 s)",
            "File \"a/b.py\", line 3, in main",
        ] {
            assert!(Frame::of(line).is_none(), "{line}");
        }
    }
}
