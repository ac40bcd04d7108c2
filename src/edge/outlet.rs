//! Output that cannot hold up the loop: bytes are queued here, and a thread writes them.
//!
//! A reader may be slow, or never read: a pipe, a terminal behind a dead connection, a disk on the network. Nothing that was queued is
//! dropped for that: the loop asks [`Outlet::has_room`] before it takes in what would add to the queue, and sees to signals meanwhile.

use super::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Queued beyond this, an outlet has no room; the thread may hold as much. What one batch brings is added as a whole.
pub const ROOM: usize = 1 << 20;
/// A piece is written at once: one that a pipe takes as a whole (PIPE_BUF), so that a reader that reads at all is seen to do so.
pub const PIECE: usize = 4096;
/// A reader that takes nothing for so long is not waited for when the program was asked to end.
pub const STALLED: Duration = Duration::from_secs(1);

/// Where the bytes of an outlet go.
pub trait Sink: Send + 'static {
    /// # Errors
    /// If the reader is gone or the disk is full: nothing more is written then.
    fn write(&mut self, piece: &[u8]) -> io::Result<()>;

    /// Brings what was written to where a crash of this program does not lose it.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// # Errors
    /// As [`Sink::write`].
    fn finish(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Standard output without the buffer and the lock of `std`: who waits for a lock held by a blocked thread waits with it.
pub struct Stdout(std::fs::File);

impl Stdout {
    /// # Errors
    /// If the system has no descriptor to give.
    pub fn open() -> io::Result<Stdout> {
        Ok(Stdout(io::stdout().as_fd().try_clone_to_owned()?.into()))
    }
}

impl Sink for Stdout {
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut self.0, piece)
    }
}

/// Whether nobody reads what is written there any more: the other end of a pipe is closed, the terminal has hung up.
pub fn is_gone(out: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// The loop's end of it.
#[derive(Clone)]
pub struct Outlet {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// For the thread: there is something to do.
    work: Condvar,
    /// The thread has done something: for the loop, which may wait for several outlets at once, and for who waits outside of it.
    done: Arc<Notify>,
    done_outside: Condvar,
}

#[derive(Default)]
struct State {
    queue: Vec<u8>,
    /// The thread holds bytes that are not written yet.
    writing: bool,
    flush: bool,
    /// What the thread holds is not to be written any more.
    discard: bool,
    closed: bool,
    /// The loop found no room, or something not written yet: it wants to hear of the next change.
    awaited: bool,
    /// Pieces so far: whether a reader reads at all.
    pieces: u64,
    /// The thread has ended, for this reason if not in order.
    ended: bool,
    failed: Option<io::Error>,
}

impl State {
    fn is_idle(&self) -> bool {
        self.ended || (self.queue.is_empty() && !self.writing)
    }
}

impl Outlet {
    /// `done` wakes the loop when the thread has done something that the loop waits for.
    ///
    /// # Errors
    /// If the system refuses another thread.
    pub fn start(name: &str, sink: impl Sink, done: &Arc<Notify>) -> io::Result<Outlet> {
        let shared = Arc::new(Shared { done: done.clone(), ..Shared::default() });
        let theirs = shared.clone();
        let run = move || {
            let failed = theirs.write_all(Box::new(sink)).err();
            let mut state = theirs.lock();
            (state.ended, state.failed, state.awaited) = (true, failed, true);
            theirs.wake(state);
        };
        std::thread::Builder::new().name(name.into()).stack_size(256 << 10).spawn(run)?;
        Ok(Outlet { shared })
    }

    /// Never blocks. After the end the bytes are dropped.
    pub fn push(&self, bytes: &[u8]) {
        let mut state = self.shared.lock();
        if !bytes.is_empty() && !state.ended && !state.closed {
            state.queue.extend_from_slice(bytes);
            self.shared.work.notify_one();
        }
    }

    /// What was pushed so far is to survive a crash of this program.
    pub fn flush(&self) {
        self.shared.lock().flush = true;
        self.shared.work.notify_one();
    }

    /// Whether what follows should be queued now. An outlet that has ended takes everything, to drop it.
    pub fn has_room(&self) -> bool {
        let mut state = self.shared.lock();
        let has_room = state.ended || state.queue.len() < ROOM;
        state.awaited |= !has_room;
        has_room
    }

    /// Everything was written, or never will be.
    pub fn is_idle(&self) -> bool {
        let mut state = self.shared.lock();
        state.awaited |= !state.is_idle();
        state.is_idle()
    }

    /// Nothing more will be written: all of it was, or it failed.
    pub fn has_ended(&self) -> bool {
        self.shared.lock().ended
    }

    /// Waits outside the loop until everything was written; `false`: it was not in time.
    pub fn drain(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.shared.lock();
        while !state.is_idle() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.shared.done_outside.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Drops what was not written yet.
    pub fn discard(&self) {
        let mut state = self.shared.lock();
        state.queue.clear();
        state.discard = state.writing;
    }

    /// Writes what is queued and ends. Waits for as long as the reader needs; once the program was `asked` to end, only while the reader
    /// reads; asked twice, not at all.
    ///
    /// # Errors
    /// If not everything was written: `TimedOut` where the reader does not read.
    pub async fn finish(&self, signals: &mut Signals, asked: &mut bool) -> io::Result<()> {
        self.shared.lock().closed = true;
        self.shared.work.notify_one();
        loop {
            let pieces = self.shared.lock().pieces;
            let stalled = || io::Error::new(io::ErrorKind::TimedOut, "nobody reads it");
            tokio::select! {
                result = self.end() => return result,
                _ = signals.next() => if std::mem::replace(asked, true) {
                    return Err(stalled());
                },
                () = tokio::time::sleep(STALLED), if *asked => if self.shared.lock().pieces == pieces {
                    return Err(stalled());
                },
            }
        }
    }

    /// Waits until nothing more will be written.
    ///
    /// # Errors
    /// Why not everything was written; to the first who asks.
    pub async fn end(&self) -> io::Result<()> {
        while !self.has_ended() {
            self.shared.done.notified().await;
        }
        self.shared.lock().failed.take().map_or(Ok(()), Err)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let awaited = std::mem::take(&mut state.awaited);
        drop(state);
        if awaited {
            self.done.notify_one();
        }
        self.done_outside.notify_all();
    }

    fn write_all(&self, mut sink: Box<impl Sink>) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let mut state = self.lock();
            while state.queue.is_empty() && !state.flush && !state.closed {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.queue.is_empty() && !state.flush {
                break;
            }
            bytes.clear();
            std::mem::swap(&mut bytes, &mut state.queue);
            state.writing = true;
            let flush = std::mem::take(&mut state.flush);
            drop(state);
            self.write_pieces(&mut *sink, &bytes)?;
            if flush {
                sink.flush()?;
            }
            let mut state = self.lock();
            (state.writing, state.discard) = (false, false);
            self.wake(state);
        }
        sink.finish()
    }

    fn write_pieces(&self, sink: &mut impl Sink, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(PIECE) {
            sink.write(piece)?;
            let mut state = self.lock();
            state.pieces += 1;
            if std::mem::take(&mut state.discard) {
                break;
            }
        }
        Ok(())
    }
}
