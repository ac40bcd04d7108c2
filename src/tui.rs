//! The screen: terminal in and out, one loop. It draws what the session says and never waits for anything but the next message.

pub mod overview;
pub mod panes;
mod terminal;
pub mod theme;

use crate::cli::{Replay, Speed};
use crate::commands::live::{QUEUE, on_signals, sender};
use crate::commands::{Env, Outcome};
use crate::feed::{Batch, Feed, TICK};
use crate::observe::Observation;
use crate::session::{Event, Session};
use crate::tape;
use crate::time::{Clock, Stamp, Zone};
use anyhow::{Context as _, Result};
use crossterm::event::{Event as Input, KeyCode, KeyEventKind, KeyModifiers};
use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use terminal::Screen;
use theme::Theme;

/// What the user has chosen; nothing about the world.
#[derive(Clone, Debug, Default)]
pub struct Ui {
    /// Lines scrolled back in the log.
    pub log_back: usize,
    pub zone: Zone,
    /// `live`, `replay 8x`: where the data comes from.
    pub mode: String,
}

enum Message {
    Batch(Batch),
    Replayed(Box<Observation>),
    /// The tape is at its end, or broke; with the reason.
    ReplayEnded(Option<String>),
    Input(Input),
    /// The terminal is gone.
    InputLost,
    Signal,
}

/// The live screen.
///
/// # Errors
/// If there is no terminal, or it cannot be set up.
pub fn live(env: &Env, logs: Vec<String>) -> Result<Outcome> {
    need_terminal("watch")?;
    let zone = Zone::of_host(Clock::start().now());
    let session = Session::new(&env.host(), zone);
    let ui = Ui { zone: env.zone(zone), mode: "live".into(), ..Ui::default() };
    let (tx, rx) = sync_channel(QUEUE);
    let screen = Screen::enter()?;
    start_input(tx.clone())?;
    let setup = env.setup(logs);
    let interval = env.config.interval;
    let feed = Feed::start(setup, &sender(tx, Message::Batch));
    run(screen, session, ui, Theme::new(env.color), &rx, Some(feed), interval)
}

/// The screen over a tape.
///
/// # Errors
/// If there is no terminal, or the tape cannot be read.
pub fn replay(env: &Env, args: &Replay) -> Result<Outcome> {
    let reader = tape::Reader::open(&args.tape)?;
    need_terminal("replay --headless")?;
    let header = reader.header().clone();
    let speed = match args.speed {
        Speed::Times(n) => format!("{n}x"),
        Speed::Max => "max".into(),
    };
    let ui = Ui { zone: env.zone(header.zone()), mode: format!("replay {speed}"), ..Ui::default() };
    let (tx, rx) = sync_channel(QUEUE);
    let screen = Screen::enter()?;
    start_input(tx.clone())?;
    let args = args.clone();
    std::thread::Builder::new().name("replay".into()).spawn(move || pace(reader, &args, &tx)).context("a thread for the tape")?;
    run(screen, Session::of_tape(&header), ui, Theme::new(env.color), &rx, None, env.config.interval)
}

fn need_terminal(instead: &str) -> Result<()> {
    anyhow::ensure!(io::stdout().is_terminal(), "standard output is no terminal; use `nccl-top {instead}`");
    Ok(())
}

fn start_input(tx: SyncSender<Message>) -> Result<()> {
    on_signals(tx.clone(), || Message::Signal)?;
    std::thread::Builder::new()
        .name("input".into())
        .spawn(move || {
            loop {
                let message = crossterm::event::read().map_or(Message::InputLost, Message::Input);
                let lost = matches!(message, Message::InputLost);
                if tx.send(message).is_err() || lost {
                    return;
                }
            }
        })
        .context("a thread for input")?;
    Ok(())
}

/// Releases a tape's observations at the pace they were made, `speed` times faster.
fn pace(mut reader: tape::Reader, args: &Replay, tx: &SyncSender<Message>) {
    let began = Instant::now();
    let mut first: Option<Stamp> = None;
    loop {
        let seen = match reader.read() {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                let _ = tx.send(Message::ReplayEnded(reader.cut_off.then(|| "the tape was cut off here".into())));
                return;
            }
            Err(err) => {
                let _ = tx.send(Message::ReplayEnded(Some(err.to_string())));
                return;
            }
        };
        let start = first.get_or_insert(seen.at).plus(args.at.unwrap_or_default());
        if let Speed::Times(n) = args.speed {
            let due = began + seen.at.since(start).div_f64(n);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let Some(seen) = crate::commands::replay::filter(seen, &args.without) else { continue };
        if tx.send(Message::Replayed(Box::new(seen))).is_err() {
            return;
        }
    }
}

/// Whether the screen is out of date, and how urgently.
#[derive(PartialEq, PartialOrd)]
enum Due {
    No,
    /// With the next refresh.
    Refresh,
    Now,
}

fn run(
    mut screen: Screen,
    mut session: Session,
    mut ui: Ui,
    theme: Theme,
    rx: &std::sync::mpsc::Receiver<Message>,
    mut feed: Option<Feed>,
    interval: Duration,
) -> Result<Outcome> {
    let mut events = Vec::new();
    screen.draw(|frame| overview::draw(frame, &session, &ui, &theme))?;
    // How the terminal fares in a panic can only be tested with one.
    #[cfg(debug_assertions)]
    if std::env::var_os("NCCL_TOP_TEST_PANIC").is_some() {
        panic!("asked to panic");
    }
    let mut next_tick = Instant::now() + TICK;
    let mut next_draw = Instant::now() + Duration::from_millis(100);
    let mut due = Due::No;
    loop {
        let until = if due == Due::No { next_tick } else { next_tick.min(next_draw) };
        let first = match rx.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(Outcome::Clean),
        };
        // One is waited for, everything else that is ready is taken with it, then one frame is drawn.
        for message in first.into_iter().chain(rx.try_iter().take(QUEUE)) {
            let mut apply = |seen: Observation| session.apply(&seen, &mut events);
            let now = match message {
                Message::Batch(batch) => {
                    if let Some(feed) = &mut feed {
                        feed.accept(batch, apply);
                    }
                    Due::Refresh
                }
                Message::Replayed(seen) => {
                    apply(*seen);
                    Due::Refresh
                }
                Message::ReplayEnded(why) => {
                    ui.mode = format!("{} · ended{}", ui.mode, why.map_or(String::new(), |w| format!(": {w}")));
                    Due::Now
                }
                Message::Input(input) => match on_input(&mut ui, &input) {
                    Some(now) => {
                        ui.log_back = ui.log_back.min(session.model.logbook.iter().len());
                        now
                    }
                    None => return Ok(Outcome::Clean),
                },
                Message::InputLost | Message::Signal => return Ok(Outcome::Clean),
            };
            if now > due {
                due = now;
            }
        }
        if Instant::now() >= next_tick {
            next_tick = (next_tick + TICK).max(Instant::now());
            if let Some(feed) = &mut feed {
                feed.tick(|seen| session.apply(&seen, &mut events));
                due = if due == Due::Now { due } else { Due::Refresh };
            }
        }
        if events.drain(..).any(|(_, e)| matches!(e, Event::Finding(_) | Event::State { .. })) {
            due = Due::Now;
        }
        if due == Due::Now || (due == Due::Refresh && Instant::now() >= next_draw) {
            screen.draw(|frame| overview::draw(frame, &session, &ui, &theme))?;
            next_draw = Instant::now() + interval;
            due = Due::No;
        }
    }
}

/// `None` ends the program.
fn on_input(ui: &mut Ui, input: &Input) -> Option<Due> {
    match input {
        Input::Resize(..) => Some(Due::Now),
        Input::Key(key) if key.kind != KeyEventKind::Release => {
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') => return None,
                KeyCode::Char('c') if control => return None,
                KeyCode::Up | KeyCode::Char('k') => ui.log_back = ui.log_back.saturating_add(1),
                KeyCode::Down | KeyCode::Char('j') => ui.log_back = ui.log_back.saturating_sub(1),
                KeyCode::PageUp => ui.log_back = ui.log_back.saturating_add(10),
                KeyCode::PageDown => ui.log_back = ui.log_back.saturating_sub(10),
                KeyCode::End | KeyCode::Char('G') => ui.log_back = 0,
                _ => return Some(Due::No),
            }
            Some(Due::Now)
        }
        _ => Some(Due::No),
    }
}
