//! Keys, clicks and sizes, read in a thread that leaves the terminal alone while another program has it.

use anyhow::{Context as _, Result};
use crossterm::event::{Event, poll, read};
use rustix::event::{PollFd, PollFlags};
use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc::Sender;

/// crossterm reads nothing where it may not wait at all; what has come is read at once.
const READ: Duration = Duration::from_millis(5);

/// crossterm's `poll` returns false, too, when the time is up before it has looked at its own buffer, as happens on a busy machine. Keys in
/// that buffer wake nobody, because the kernel has handed them out already. So it must say so this often in a row.
const NOTHING: usize = 3;

/// Who reads the terminal.
#[derive(Clone, Copy, PartialEq)]
enum Reader {
    This,
    /// Another program wants to.
    Asked,
    Other,
}

/// Lends the terminal's keys to another program.
pub struct Gate {
    reader: Mutex<Reader>,
    changed: Condvar,
    wake: Mutex<PipeWriter>,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, guard: MutexGuard<'a, Reader>, during: Reader) -> MutexGuard<'a, Reader> {
        self.changed.wait_while(guard, |reader| *reader == during).unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when no key is read here any more.
    pub fn close(&self) {
        let mut reader = self.lock();
        *reader = Reader::Asked;
        let _ = self.wake.lock().unwrap_or_else(PoisonError::into_inner).write_all(b"x");
        drop(self.wait(reader, Reader::Asked));
    }

    /// Keys are read here again.
    pub fn open(&self) {
        *self.lock() = Reader::This;
        self.changed.notify_all();
    }

    /// Stands aside while another program wants the terminal.
    fn step_aside(&self) {
        let mut reader = self.lock();
        if *reader == Reader::Asked {
            *reader = Reader::Other;
            self.changed.notify_all();
        }
        drop(self.wait(reader, Reader::Other));
    }
}

/// Not crossterm's own stream of events: with level-triggered reading it takes a turn of its thread for each event, and where the terminal
/// is gone it reads for ever and never reports it. `None` is sent when the terminal is gone.
///
/// # Errors
/// If the system has no thread, or no pipe.
pub fn start(tx: Sender<Option<Event>>) -> Result<Arc<Gate>> {
    let (woken, wake) = io::pipe().context("a pipe for input")?;
    let gate = Arc::new(Gate { reader: Mutex::new(Reader::This), changed: Condvar::new(), wake: Mutex::new(wake) });
    let of_thread = gate.clone();
    let run = move || {
        // Whatever happens to this thread, the loop must hear of it: without keys there is no way out.
        let _ = catch_unwind(AssertUnwindSafe(|| read_on(&tx, &of_thread, woken)));
        let _ = tx.blocking_send(None);
    };
    std::thread::Builder::new().name("input".into()).spawn(run).context("a thread for input")?;
    Ok(gate)
}

/// Until the terminal is gone, or nobody listens.
fn read_on(tx: &Sender<Option<Event>>, gate: &Gate, mut woken: PipeReader) -> io::Result<()> {
    let stdin = io::stdin();
    let tty = if stdin.is_terminal() { None } else { Some(File::open("/dev/tty")?) };
    let fd = tty.as_ref().map_or(stdin.as_fd(), |tty| tty.as_fd());
    loop {
        let mut fds = [PollFd::new(&fd, PollFlags::IN), PollFd::new(&woken, PollFlags::IN)];
        if let Err(err) = rustix::event::poll(&mut fds, None)
            && err != rustix::io::Errno::INTR
        {
            return Err(err.into());
        }
        let [keys, asked] = fds.map(|fd| fd.revents());
        if asked.contains(PollFlags::IN) {
            woken.read_exact(&mut [0])?;
            gate.step_aside();
            continue;
        }
        let mut nothing = 0;
        while nothing < NOTHING {
            if !poll(READ)? {
                nothing += 1;
                continue;
            }
            nothing = 0;
            if tx.blocking_send(Some(read()?)).is_err() {
                return Ok(());
            }
        }
        if keys.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(());
        }
    }
}
