//! The program in a real pseudo-terminal, its screen parsed.

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub struct Screen {
    pub child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    writer: Box<dyn Write + Send>,
    seen: Arc<Mutex<Seen>>,
    reader: JoinHandle<()>,
}

/// What comes last of each frame: the cursor is hidden.
const FRAME_END: &[u8] = b"\x1b[?25l";
const CLEAR: &[u8] = b"\x1b[2J";

struct Seen {
    parser: vt100::Parser,
    /// The last frame that came whole, if it still stands there. Frames come in pieces, and half of one is nothing that the program shows.
    frame: Option<vt100::Screen>,
    /// Where it ends in `raw`.
    frame_end: usize,
    raw: Vec<u8>,
}

impl Seen {
    fn new(rows: u16, cols: u16) -> Seen {
        Seen { parser: vt100::Parser::new(cells(rows), cells(cols), 0), frame: None, frame_end: 0, raw: Vec::new() }
    }

    fn read(&mut self, bytes: &[u8]) {
        let mut done = self.raw.len();
        self.raw.extend(bytes);
        // The end of a frame may itself have come in two pieces.
        while let Some(at) = self.raw[self.frame_end..].windows(FRAME_END.len()).position(|w| w == FRAME_END) {
            self.frame_end += at + FRAME_END.len();
            self.parser.process(&self.raw[done..self.frame_end]);
            self.frame = Some(self.parser.screen().clone());
            done = self.frame_end;
        }
        self.parser.process(&self.raw[done..]);
        if !self.parser.screen().alternate_screen() || find(&self.raw[self.frame_end..], CLEAR).is_some() {
            self.frame = None;
        }
    }

    /// The last whole frame; outside of the program's screen whatever stands there.
    fn screen(&self) -> &vt100::Screen {
        self.frame.as_ref().unwrap_or(self.parser.screen())
    }
}

/// Tests are told by cargo, tools are not.
const PROGRAM: Option<&str> = option_env!("CARGO_BIN_EXE_nccl-top");

/// Longer than anything here takes, on the slowest and busiest machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl Screen {
    pub fn start(args: &[&str], dir: &Path, env: &[(&str, &str)], rows: u16, cols: u16) -> Screen {
        Screen::start_program(Path::new(PROGRAM.expect("a test knows the program")), args, dir, env, rows, cols)
    }

    pub fn start_program(program: &Path, args: &[&str], dir: &Path, env: &[(&str, &str)], rows: u16, cols: u16) -> Screen {
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.cwd(dir);
        command.env("HOME", dir);
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        for inherited in ["COLORTERM", "NO_COLOR", "LC_ALL", "LC_CTYPE", "XDG_CONFIG_HOME"] {
            command.env_remove(inherited);
        }
        // Then the kernel has nobody to tell when the terminal hangs up.
        command.set_controlling_tty(std::env::var_os("HANG_UP_NO_SIGNAL").is_none());
        for (key, value) in env {
            command.env(key, value);
        }
        let child = pair.slave.spawn_command(command).expect("the program starts");
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let writer = pair.master.take_writer().expect("a writer");
        let seen = Arc::new(Mutex::new(Seen::new(rows, cols)));
        let sink = seen.clone();
        let reader = std::thread::spawn(move || {
            let mut buf = [0; 8192];
            while let Ok(n @ 1..) = reader.read(&mut buf) {
                sink.lock().expect("no poison").read(&buf[..n]);
            }
        });
        Screen { child, master: pair.master, writer, seen, reader }
    }

    pub fn text(&self) -> String {
        self.look(vt100::Screen::contents)
    }

    /// Looks at the cells.
    pub fn look<T>(&self, at: impl FnOnce(&vt100::Screen) -> T) -> T {
        at(self.seen.lock().expect("no poison").screen())
    }

    pub fn raw(&self) -> Vec<u8> {
        self.seen.lock().expect("no poison").raw.clone()
    }

    pub fn pid(&self) -> u32 {
        self.child.process_id().expect("a child has a pid")
    }

    pub fn keys(&mut self, keys: &str) {
        self.send(keys.as_bytes());
    }

    /// Any bytes, as if they came from the terminal.
    pub fn send(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).expect("the program reads keys");
        self.writer.flush().expect("the program reads keys");
    }

    /// Presses keys and waits for what they bring about, which must not be there before.
    pub fn press(&mut self, keys: &str, what: &str, so: impl Fn(&vt100::Screen) -> bool) {
        assert!(!self.look(&so), "before {keys:?}: {what} already; screen:\n{}", self.text());
        self.keys(keys);
        self.wait_until(&format!("after {keys:?}: {what}"), so);
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.process_id().expect("a pid");
        assert!(std::process::Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill runs").success());
    }

    pub fn resize(&self, rows: u16, cols: u16) {
        self.seen.lock().expect("no poison").parser.screen_mut().set_size(cells(rows), cells(cols));
        self.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).expect("a resize");
    }

    /// Waits until the screen holds `text`; shows the screen if it never does.
    pub fn wait_for(&self, text: &str) {
        let started = Instant::now();
        while !self.text().contains(text) {
            assert!(started.elapsed() < PATIENCE, "no {text:?} on the screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen is as it should be; shows the screen if it never is.
    pub fn wait_until(&self, what: &str, so: impl Fn(&vt100::Screen) -> bool) {
        let started = Instant::now();
        while !self.look(&so) {
            assert!(started.elapsed() < PATIENCE, "not {what}; screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until what the program sent since byte `from` holds `bytes`.
    pub fn wait_sent(&self, from: usize, bytes: &[u8]) {
        let started = Instant::now();
        while find(&self.raw()[from..], bytes).is_none() {
            assert!(started.elapsed() < PATIENCE, "{:?} was not sent; screen:\n{}", String::from_utf8_lossy(bytes), self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end of the program; returns its exit code.
    pub fn wait_end(&mut self) -> u32 {
        let started = Instant::now();
        loop {
            let ended = self.child.try_wait().expect("a child");
            // The last bytes have come when nothing has the terminal open any more.
            if let Some(status) = ended.filter(|_| self.reader.is_finished()) {
                return status.exit_code();
            }
            assert!(started.elapsed() < PATIENCE, "the program does not end; screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The terminal was given back: main screen, visible cursor.
    pub fn assert_restored(&self) {
        let seen = self.seen.lock().expect("no poison");
        let screen = seen.parser.screen();
        assert!(!screen.alternate_screen(), "still on the alternate screen");
        assert!(!screen.hide_cursor(), "the cursor is still hidden");
        let entered = find(&seen.raw, b"\x1b[?1049h");
        let left = find(&seen.raw, b"\x1b[?1049l");
        assert!(entered.is_some() && left > entered, "the alternate screen was entered and left");
    }
}

fn cells(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).expect("a terminal has cells")
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).rposition(|w| w == needle)
}

/// What a terminal sends for a key of the table.
pub fn sent_for(key: &str) -> String {
    let named = [
        ("enter", "\r"),
        ("esc", "\x1b"),
        ("tab", "\t"),
        ("shift-tab", "\x1b[Z"),
        ("space", " "),
        ("backspace", "\x7f"),
        ("up", "\x1b[A"),
        ("down", "\x1b[B"),
        ("right", "\x1b[C"),
        ("left", "\x1b[D"),
        ("home", "\x1b[H"),
        ("end", "\x1b[F"),
        ("pgup", "\x1b[5~"),
        ("pgdn", "\x1b[6~"),
        ("f1", "\x1bOP"),
        ("f2", "\x1bOQ"),
        ("shift-left", "\x1b[1;2D"),
        ("shift-right", "\x1b[1;2C"),
    ];
    if let Some((_, bytes)) = named.iter().find(|(name, _)| *name == key) {
        return (*bytes).to_owned();
    }
    match key.strip_prefix("ctrl-") {
        Some(letter) => char::from(letter.as_bytes()[0] & 0x1f).to_string(),
        None => {
            assert_eq!(key.chars().count(), 1, "what does a terminal send for {key}?");
            key.to_owned()
        }
    }
}
