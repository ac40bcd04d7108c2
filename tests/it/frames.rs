//! How much a second of a job costs on the line to the terminal: one frame a second is drawn, and only what differs from the one
//! before is sent. `cargo bench --bench terminal` measures the same of the real program.

use crate::support::worlds;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::tape::Reader;
use nccl_top::tui::bounded::Bounded;
use nccl_top::tui::choices::Ui;
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const SIZE: (u16, u16) = (200, 60);
const SECOND: Duration = Duration::from_secs(1);

/// A line to a terminal that only counts.
#[derive(Clone, Default)]
struct Wire(Rc<Cell<usize>>);

impl io::Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set(self.0.get() + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Screen {
    terminal: Terminal<Bounded<Wire>>,
    line: Wire,
    theme: Theme,
    ui: Ui,
}

impl Screen {
    fn new() -> Screen {
        let line = Wire::default();
        let viewport = Viewport::Fixed(Rect::new(0, 0, SIZE.0, SIZE.1));
        let terminal = Terminal::with_options(Bounded::new(line.clone(), true), TerminalOptions { viewport }).unwrap();
        let mut ui = Ui::new(Zone::UTC);
        ui.size = SIZE;
        Screen { terminal, line, theme: Theme::load("colorblind", Depth::Indexed).unwrap(), ui }
    }

    /// Bytes of the next frame.
    fn frame(&mut self, session: &Session) -> usize {
        let before = self.line.0.get();
        self.terminal.draw(|frame| view::draw(frame.buffer_mut(), session, &self.ui, &self.theme)).unwrap();
        self.line.0.get() - before
    }
}

/// A second later.
fn see(session: &mut Session, from: &'static str, body: Body) {
    let at = session.model.now.plus(SECOND);
    session.apply(&Observation { at, host: None, from: SourceId::of(from), body }, &mut Vec::new());
}

fn mean(frames: &[usize]) -> usize {
    frames.iter().sum::<usize>() / frames.len()
}

#[test]
fn a_job_that_writes_ten_lines_a_second_fits_on_a_slow_line() {
    let mut reader = Reader::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes/none.jsonl.gz")).unwrap();
    let mut session = reader.header().session();
    let mut screen: Option<(Screen, Stamp)> = None;
    let (mut began, mut frames) = (None, Vec::new());
    while let Some(seen) = reader.read().unwrap().filter(|_| frames.len() <= 10) {
        let from = *began.get_or_insert(seen.at);
        if seen.at.secs_since(from) >= 30.0 {
            let at = seen.at;
            let (screen, due) = screen.get_or_insert_with(|| (Screen::new(), at));
            if at >= *due {
                frames.push(screen.frame(&session));
                *due = due.plus(SECOND);
            }
        }
        session.apply(&seen, &mut Vec::new());
    }
    // The first one draws everything.
    assert!(frames.len() == 11 && frames[0] > 8000, "{frames:?}");
    assert!(mean(&frames[1..]) <= 4000, "{frames:?}");
}

#[test]
fn a_calm_or_idle_screen_sends_little() {
    // One line a second, from the beginning of the job.
    let mut session = Session::new("node-17", Zone::UTC);
    session.model.now = Stamp(1_795_255_200_000_000_000);
    see(&mut session, "tail", Body::LogFile(LogFileInfo { file: 1, path: "train.log".into(), ..LogFileInfo::default() }));
    let mut calm = Screen::new();
    let mut frames = Vec::new();
    for i in 0..20 {
        let text = format!("step {i} | loss {:.4} | step_time 1000.{} ms", 3.0 - i as f64 * 0.01, i % 7);
        let line = Line { no: Some(1 + i), offset: i * 60, text, transient: false };
        see(&mut session, "tail", Body::Lines(Lines { file: 1, lines: vec![line], ..Lines::default() }));
        frames.push(calm.frame(&session));
    }
    assert!(mean(&frames[10..]) <= 1000, "{frames:?}");
    // Nothing at all: the clock.
    let mut session = worlds::absent();
    let mut idle = Screen::new();
    let mut frames = Vec::new();
    for _ in 0..10 {
        frames.push(idle.frame(&session));
        see(&mut session, "feed", Body::Tick);
    }
    assert!(mean(&frames[1..]) <= 300, "{frames:?}");
}
