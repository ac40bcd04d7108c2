//! Reads standard input on its own thread, so that a poll never waits for it.

use super::cut::Cutter;
use super::sift::{Flow, Sift};
use super::wake::Wake;
use crate::base::words::io_words;
use crate::observe::Body;
use crate::observe::log::{LogFileInfo, LogFileState};
use std::io::{self, ErrorKind, Read};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Instant;

const CHUNK_BYTES: usize = 64 << 10;
/// So many chunks may wait; then the writer waits.
const MOST_PENDING: usize = 16;
const CHUNKS_PER_POLL: usize = 8;

enum State {
    New,
    Reading,
    Ended,
}

pub(super) struct Input {
    id: u32,
    rx: Receiver<io::Result<Vec<u8>>>,
    cutter: Cutter,
    flow: Flow,
    state: State,
}

impl Input {
    pub fn spawn(id: u32, input: impl Read + Send + 'static, wake: Option<SyncSender<Wake>>) -> io::Result<Self> {
        let (tx, rx) = sync_channel(MOST_PENDING);
        std::thread::Builder::new().name("tail:stdin".into()).spawn(move || pump(input, &tx, wake.as_ref()))?;
        Ok(Input { id, rx, cutter: Cutter::at_line(0, Some(1)), flow: Flow::default(), state: State::New })
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Tells what has come. Returns whether there may be more at once.
    pub fn poll(&mut self, sift: &mut Sift, out: &mut Vec<Body>) -> bool {
        match self.state {
            State::Ended => return false,
            State::Reading => {}
            State::New => {
                self.state = State::Reading;
                self.say(LogFileState::Open, None, out);
            }
        }
        let mut chunks = Vec::new();
        let end = loop {
            match self.rx.try_recv() {
                Ok(Ok(chunk)) => chunks.push(chunk),
                Ok(Err(err)) => break Some(io_words(&err)),
                Err(TryRecvError::Disconnected) => break Some("end of input".into()),
                Err(TryRecvError::Empty) => break None,
            }
            if chunks.len() == CHUNKS_PER_POLL {
                break None;
            }
        };
        sift.begin_under(self.flow.meets(chunks.iter().map(|c| c.len() as u64).sum(), Instant::now()));
        for chunk in &chunks {
            self.cutter.feed(chunk, &mut |piece| sift.take(piece));
        }
        let more = chunks.len() == CHUNKS_PER_POLL;
        if end.is_some() {
            self.cutter.finish(&mut |piece| sift.take(piece));
        } else if !more {
            sift.glimpse(&mut self.cutter);
        }
        out.extend(sift.finish(self.id, false).map(Body::Lines));
        if let Some(end) = end {
            self.state = State::Ended;
            self.say(LogFileState::Gone, Some(end), out);
        }
        more
    }

    /// Tells the unfinished line.
    pub fn finish(&mut self, sift: &mut Sift, out: &mut Vec<Body>) {
        sift.begin(0);
        self.cutter.finish(&mut |piece| sift.take(piece));
        out.extend(sift.finish(self.id, false).map(Body::Lines));
    }

    fn say(&self, state: LogFileState, detail: Option<String>, out: &mut Vec<Body>) {
        out.push(Body::LogFile(LogFileInfo { file: self.id, path: "-".into(), state, detail, ..LogFileInfo::default() }));
    }
}

fn pump(mut input: impl Read, tx: &SyncSender<io::Result<Vec<u8>>>, wake: Option<&SyncSender<Wake>>) {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let chunk = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => Ok(buffer[..n].to_vec()),
            Err(err) if err.kind() == ErrorKind::Interrupted => continue,
            Err(err) => Err(err),
        };
        let is_over = chunk.is_err();
        if tx.send(chunk).is_err() {
            return;
        }
        wake.inspect(|wake| drop(wake.try_send(Wake::Input)));
        if is_over {
            return;
        }
    }
    wake.inspect(|wake| drop(wake.try_send(Wake::Input)));
}
