//! The terminal, taken at the start and given back at every end: quit, error, signal, panic; and for a while when the program is
//! stopped. A terminal that does not read holds up nothing: what is drawn goes through an [`Outlet`].

use super::bounded::Bounded;
use super::budget::PART;
use super::parts::Parts;
use super::plain::Graphs;
use crate::edge::outlet::{Outlet, Stdout, is_gone};
use anyhow::{Context as _, Result};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{Action, OptionalActions, QueueSelector, Termios, tcflow, tcflush, tcgetattr, tcsetattr};
use std::cell::Cell;
use std::io::{self, Write};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;

/// The terminal is ours, and is to be given back.
static ENTERED: AtomicBool = AtomicBool::new(false);
/// Everything that is sent to the terminal goes through here, in order.
static OUTLET: OnceLock<Outlet> = OnceLock::new();
/// How the terminal was set before.
static BEFORE: OnceLock<Termios> = OnceLock::new();

/// The alternate screen, no cursor, pasted text as one piece and not as keys.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h";
/// A frame leaves its last colours behind.
const LEAVE: &str = "\x1b[m\x1b[?2004l\x1b[?1006l\x1b[?1000l\x1b[?1049l\x1b[?25h";
/// Clicks and the wheel, with coordinates beyond 223; not every motion, which would be a flood over a slow line.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";
/// How long the end of the program waits for a terminal that does not read.
const PATIENCE: Duration = Duration::from_millis(300);

pub struct Screen {
    terminal: Terminal<Bounded<Frame>>,
    drawn_bytes: Rc<Cell<usize>>,
    outlet: Outlet,
    mouse: bool,
    ascii: bool,
    graphs: Graphs,
    /// Of a slow line.
    parts: Option<Parts>,
}

/// What a frame took.
pub struct Drawn {
    pub bytes: usize,
    /// The terminal shows all of it; else the rest comes with the next one.
    pub whole: bool,
}

/// Collects what is drawn until it is flushed.
struct Frame {
    bytes: Vec<u8>,
    /// Of all frames so far.
    drawn_bytes: Rc<Cell<usize>>,
    outlet: Outlet,
}

impl Write for Frame {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drawn_bytes.set(self.drawn_bytes.get() + self.bytes.len());
        self.outlet.push(&self.bytes);
        self.bytes.clear();
        Ok(())
    }
}

impl Screen {
    /// `done` wakes the loop when the terminal has taken a frame that the next one waits for.
    ///
    /// # Errors
    /// If the terminal cannot be put into raw mode.
    pub fn enter(mouse: bool, ascii: bool, graphs: Graphs, slow_line: bool, done: &Arc<Notify>) -> Result<Screen> {
        let started = Outlet::start("screen", Stdout::open()?, done).context("a thread for the terminal")?;
        let outlet = OUTLET.get_or_init(|| started).clone();
        give_back_in_a_panic();
        give_back_in_a_crash();
        take(mouse)?;
        let drawn_bytes: Rc<Cell<usize>> = Rc::default();
        let out = Frame { bytes: Vec::with_capacity(32 << 10), drawn_bytes: drawn_bytes.clone(), outlet: outlet.clone() };
        let paints_erased = super::pen::paints_erased(&|name| std::env::var(name).ok());
        let options = TerminalOptions { viewport: Viewport::Fullscreen };
        let terminal = Terminal::with_options(Bounded::new(out, paints_erased), options).context("the terminal has no size")?;
        let parts = slow_line.then(|| Parts::new(PART, paints_erased));
        Ok(Screen { terminal, drawn_bytes, outlet, mouse, ascii, graphs, parts })
    }

    /// The terminal has taken everything: the next frame may be drawn.
    pub fn is_ready(&self) -> bool {
        self.outlet.is_idle()
    }

    /// Over a slow line what is drawn comes part by part.
    pub fn goes_in_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// Columns and rows.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn size(&self) -> Result<(u16, u16)> {
        let size = self.terminal.size().context("the terminal is gone")?;
        Ok((size.width, size.height))
    }

    /// The other end has hung up, and no signal came of it.
    pub fn is_gone(&self) -> bool {
        self.outlet.has_ended() || is_gone(&io::stdout())
    }

    /// Draws what differs from the frame before; over a slow line a part of that, the rows of `first` before others.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, first: Range<u16>, view: impl FnOnce(&mut Buffer)) -> Result<Drawn> {
        let before = self.drawn_bytes.get();
        let (ascii, graphs, parts) = (self.ascii, self.graphs, &mut self.parts);
        let mut whole = true;
        let drawn = self.terminal.draw(|frame| {
            view(frame.buffer_mut());
            if ascii {
                super::plain::to_ascii(frame.buffer_mut());
            } else {
                super::plain::redraw_graphs(frame.buffer_mut(), graphs);
            }
            if let Some(parts) = parts {
                whole = parts.take(frame.buffer_mut(), first);
            }
        });
        drawn.context("the terminal is gone")?;
        Ok(Drawn { bytes: self.drawn_bytes.get() - before, whole })
    }

    /// Whatever is on the terminal, everything is drawn anew by the next frame.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn forget(&mut self) -> Result<()> {
        // Not `clear`, which asks the terminal where the cursor is, while its answer goes to the thread that reads keys.
        let (width, height) = self.size()?;
        if let Some(parts) = &mut self.parts {
            parts.forget();
        }
        self.terminal.resize(Rect::new(0, 0, width, height)).context("the terminal is gone")
    }

    /// Sends a sequence that moves nothing on the screen: bell, note, clipboard. To a terminal that does not read, not without end.
    pub fn send(&mut self, sequence: &str) {
        if self.outlet.has_room() {
            self.outlet.push(sequence.as_bytes());
        }
    }

    /// A note of the desktop.
    pub fn send_note(&mut self, text: &str) {
        let text = note(text);
        self.send(&if self.ascii { text.replace(|c: char| !c.is_ascii(), "?") } else { text });
    }

    /// What the next frame is drawn with.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn set_drawing(&mut self, ascii: bool, graphs: Graphs) -> Result<()> {
        if (self.ascii, self.graphs) == (ascii, graphs) {
            return Ok(());
        }
        (self.ascii, self.graphs) = (ascii, graphs);
        self.forget()
    }

    pub fn set_mouse(&mut self, on: bool) {
        if std::mem::replace(&mut self.mouse, on) != on {
            self.send(if on { MOUSE_ON } else { MOUSE_OFF });
        }
    }

    /// Gives the terminal back, stops as the shell's job control expects it, and takes the terminal again when it goes on.
    ///
    /// # Errors
    /// If the terminal cannot be taken again.
    pub fn suspend(&mut self) -> Result<()> {
        leave();
        // The whole process group, as the terminal would do it. The kernel ignores this where no shell could make it go on.
        let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP);
        // The stop comes at once, but not necessarily before that call returns.
        std::thread::sleep(Duration::from_millis(50));
        self.resume()
    }

    /// Gives the terminal to another program, until [`Screen::resume`].
    pub fn lend(&mut self) {
        leave();
    }

    /// After a stop that gave no warning: the terminal may be in any state.
    ///
    /// # Errors
    /// If the terminal cannot be taken again.
    pub fn resume(&mut self) -> Result<()> {
        take(self.mouse)?;
        self.forget()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

fn take(mouse: bool) -> Result<()> {
    let set = || {
        let before = tcgetattr(io::stdout())?;
        // The shell may have changed it meanwhile; what holds is what was found first.
        let mut raw = BEFORE.get_or_init(|| before).clone();
        raw.make_raw();
        tcsetattr(io::stdout(), OptionalActions::Now, &raw)
    };
    set().context("the terminal cannot be put into raw mode")?;
    ENTERED.store(true, Ordering::SeqCst);
    if let Some(outlet) = OUTLET.get() {
        outlet.push(ENTER.as_bytes());
        outlet.push(if mouse { MOUSE_ON } else { "" }.as_bytes());
    }
    Ok(())
}

/// Gives the terminal back; safe to call twice. What a terminal that does not read has not taken yet is dropped.
fn leave() {
    let Some(outlet) = OUTLET.get().filter(|_| ENTERED.swap(false, Ordering::SeqCst)) else { return };
    if !outlet.drain(PATIENCE) {
        outlet.discard();
        let _ = tcflush(io::stdout(), QueueSelector::OFlush);
        // It may have been stopped, as with ^S: whoever lets it go on later would be left on our screen.
        let _ = tcflow(io::stdout(), Action::OOn);
        // Linux lets a waiting writer know of the new room only when the modes change.
        set_back();
    }
    outlet.push(LEAVE.as_bytes());
    outlet.drain(PATIENCE);
    set_back();
}

fn set_back() {
    if let Some(before) = BEFORE.get() {
        let _ = tcsetattr(io::stdout(), OptionalActions::Now, before);
    }
}

fn give_back_in_a_panic() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // A source's thread that panics is reported as that source's state and does not end the screen.
        let main = std::thread::current().name() == Some("main");
        if main || !ENTERED.load(Ordering::SeqCst) {
            leave();
            before(info);
        } else {
            crate::edge::diagnostics::note(format_args!("{info}"));
        }
    }));
}

/// What kills a program that does not expect it: asked for from outside, or a fault or `abort` in a driver's library.
const DEADLY: &[libc::c_int] = &[
    libc::SIGQUIT,
    libc::SIGABRT,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGXCPU,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// Gives the terminal back also where the program dies at once.
#[allow(unsafe_code)]
fn give_back_in_a_crash() {
    extern "C" fn crash(signal: libc::c_int) {
        if ENTERED.swap(false, Ordering::SeqCst) {
            // Nothing here takes a lock or memory: the signal may have come in the middle of anything.
            let out = rustix::stdio::stdout();
            let mut fds = [PollFd::new(&out, PollFlags::OUT)];
            // One that reads takes the rest of a frame in that time, one that does not is not waited for.
            if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 200_000_000 })).is_ok_and(|ready| ready > 0) {
                let _ = rustix::io::write(out, LEAVE.as_bytes());
            }
            set_back();
        }
        // SAFETY: both may be called in a handler. The signal is held back until it returns, and then ends the program.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
    for signal in DEADLY {
        // SAFETY: all zeros are an empty mask and no flags. The handler is a function that lives as long as the program and keeps to what a
        // handler may do; where a stack has run over, it runs on the one that the standard library keeps for that.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = crash as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_ONSTACK;
            libc::sigaction(*signal, &action, std::ptr::null_mut());
        }
    }
}

/// OSC 52: the terminal's own clipboard, also over ssh. The text goes as base64, so that it cannot end the sequence.
pub fn clipboard(text: &str) -> String {
    format!("\x1b]52;c;{}\x07", BASE64_STANDARD.encode(text))
}

/// A note of the desktop, for terminals that pass it on (OSC 9), and the bell for all others.
pub fn note(text: &str) -> String {
    let safe: String = crate::base::clean::clean(text).chars().filter(|c| !c.is_control() && *c != ';').take(200).collect();
    format!("\x1b]9;nccl-top: {safe}\x07")
}
