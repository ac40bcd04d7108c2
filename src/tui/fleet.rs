//! Many nodes on one screen: the loop. A thread asks the server; the screen draws what is known and never waits for an answer.

pub mod choices;
mod grid;
mod ports;
mod rows;
pub mod view;

use super::inbox::resumed;
use super::input::{self, Gate};
use super::terminal::{self, Screen};
use super::theme::{self, Theme};
use super::{Settings, need_terminal};
use crate::base::time::{Clock, Stamp};
use crate::edge::{self, QUEUE, Signals};
use crate::fleet::asking::{Asker, Focus, Frame};
use anyhow::{Context as _, Result};
use choices::{Effect, FleetUi};
use crossterm::event::Event as Input;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::SignalKind;
use tokio::sync::{Notify, mpsc};
use view::Shown;

/// Between two frames that are asked for: a third of the usual time between two scrapes.
const REFRESH: Duration = Duration::from_secs(5);
/// Between two frames that are drawn while nothing happens: ages go on.
const DRAW: Duration = Duration::from_secs(1);

/// What the screen is to show.
struct Question {
    at: Stamp,
    focus: Focus,
}

/// What came of it.
struct Told {
    focus: Focus,
    outcome: Result<Frame, String>,
}

/// The screen of a fleet; `at`: of an earlier moment.
///
/// # Errors
/// If there is no terminal, or it cannot be set up.
pub fn run(settings: &Settings, asker: Asker, at: Option<Stamp>) -> Result<()> {
    need_terminal("fleet --json")?;
    edge::run(async { App::start(settings, asker, at)?.go_round().await })
}

struct App {
    screen: Screen,
    ui: FleetUi,
    theme: Theme,
    theme_name: String,
    depth: theme::Depth,
    server: String,
    clock: Clock,
    /// The last frame that came whole, and what it was asked for.
    frame: Option<(Frame, Focus)>,
    /// Since when the server has not answered, and why.
    failing: Option<(Stamp, String)>,
    questions: std::sync::mpsc::Sender<Question>,
    /// An answer is awaited.
    asked: bool,
    last_asked: Instant,
    inbox: Inbox,
    _gate: Arc<Gate>,
}

struct Inbox {
    signals: Signals,
    inputs: mpsc::Receiver<Option<Input>>,
    told: mpsc::UnboundedReceiver<Told>,
    sent: Arc<Notify>,
}

enum Message {
    Input(Option<Input>),
    Signal(SignalKind),
    Told(Box<Told>),
}

impl Inbox {
    /// What comes first, until then. Signals before keys, as on the screen of a node.
    async fn next(&mut self, until: Instant) -> Option<Message> {
        tokio::select! {
            biased;
            kind = self.signals.next() => Some(Message::Signal(kind)),
            Some(input) = self.inputs.recv() => Some(Message::Input(input)),
            Some(told) = self.told.recv() => Some(Message::Told(Box::new(told))),
            () = self.sent.notified() => None,
            () = tokio::time::sleep_until(until.into()) => None,
        }
    }
}

/// Answers questions until nobody asks any more. Of several that wait, only the last still matters.
fn answer(mut asker: Asker, questions: &std::sync::mpsc::Receiver<Question>, told: &mpsc::UnboundedSender<Told>) {
    while let Ok(first) = questions.recv() {
        let Question { at, focus } = questions.try_iter().last().unwrap_or(first);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| asker.frame(at, &focus)));
        let outcome = outcome.unwrap_or_else(|_| Err("it failed: a defect of nccl-top (--log-file FILE shows where)".into()));
        if told.send(Told { focus, outcome }).is_err() {
            return;
        }
    }
}

impl App {
    fn start(settings: &Settings, asker: Asker, at: Option<Stamp>) -> Result<App> {
        let signals = Signals::of(&[edge::ending(), vec![resumed(), SignalKind::window_change()]].concat())?;
        let theme = Theme::load(&settings.theme, settings.depth).map_err(anyhow::Error::msg)?;
        let sent = Arc::default();
        let server = asker.server();
        let (questions, asked) = std::sync::mpsc::channel();
        let (tell, told) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("fleet".into()).spawn(move || answer(asker, &asked, &tell)).context("a thread for the server")?;
        let mut ui = FleetUi::new(settings.zone, settings.keys.clone(), at);
        (ui.mouse, ui.ascii) = (settings.mouse, settings.ascii);
        let screen = Screen::enter(ui.mouse, settings.ascii, settings.graphs, false, &sent)?;
        ui.size = screen.size()?;
        let (input, inputs) = mpsc::channel(QUEUE);
        let gate = input::start(input)?;
        let mut app = App {
            screen,
            ui,
            theme,
            theme_name: settings.theme.clone(),
            depth: settings.depth,
            server,
            clock: Clock::start(),
            frame: None,
            failing: None,
            questions,
            asked: false,
            last_asked: Instant::now(),
            inbox: Inbox { signals, inputs, told, sent },
            _gate: gate,
        };
        app.ask();
        app.draw()?;
        Ok(app)
    }

    fn ask(&mut self) {
        let at = self.ui.at.unwrap_or_else(|| self.clock.now());
        self.asked = self.questions.send(Question { at, focus: self.ui.focus().clone() }).is_ok();
        self.last_asked = Instant::now();
    }

    fn draw(&mut self) -> Result<()> {
        let shown = Shown {
            frame: self.frame.as_ref().map(|(frame, focus)| (frame, focus)),
            failing: self.failing.as_ref(),
            server: &self.server,
            now: self.clock.now(),
            asked: self.asked,
        };
        let (ui, theme) = (&mut self.ui, &self.theme);
        self.screen.draw(0..0, |buf| {
            ui.size = (buf.area().width, buf.area().height);
            view::draw(buf, &shown, ui, theme);
        })?;
        Ok(())
    }

    async fn go_round(mut self) -> Result<()> {
        let mut next_draw = Instant::now() + DRAW;
        let mut is_due = false;
        loop {
            let message = self.inbox.next(next_draw).await;
            let rest = std::iter::from_fn(|| self.inbox.inputs.try_recv().ok()).take(QUEUE).map(Message::Input).collect::<Vec<_>>();
            for message in message.into_iter().chain(rest) {
                is_due = true;
                if !self.take(message)? {
                    return Ok(());
                }
            }
            if self.ui.at.is_none() && !self.asked && self.last_asked.elapsed() >= REFRESH {
                self.ask();
            }
            let now = Instant::now();
            if now >= next_draw {
                if self.screen.is_gone() {
                    return Ok(());
                }
                is_due = true;
                next_draw = now + DRAW;
            }
            if is_due && self.screen.is_ready() {
                self.draw()?;
                is_due = false;
            }
        }
    }

    /// Whether the program goes on.
    fn take(&mut self, message: Message) -> Result<bool> {
        match message {
            Message::Signal(kind) if kind == SignalKind::window_change() => {}
            Message::Signal(kind) if kind == resumed() => self.screen.resume()?,
            Message::Input(None) | Message::Signal(_) => return Ok(false),
            Message::Told(told) => self.told(*told),
            Message::Input(Some(input)) => return self.input(&input),
        }
        Ok(true)
    }

    fn told(&mut self, told: Told) {
        self.asked = false;
        match told.outcome {
            Ok(frame) => {
                self.failing = None;
                self.frame = Some((frame, told.focus));
            }
            Err(why) => {
                let since = self.failing.take().map_or_else(|| self.clock.now(), |(since, _)| since);
                self.failing = Some((since, why));
            }
        }
    }

    fn input(&mut self, input: &Input) -> Result<bool> {
        let frame = self.frame.as_ref().map(|(frame, _)| frame);
        match self.ui.input(input, frame, self.clock.now()) {
            Effect::Draw => {}
            Effect::Redraw => self.screen.forget()?,
            Effect::Quit => return Ok(false),
            Effect::Suspend => self.screen.suspend()?,
            Effect::Ask => self.ask(),
            Effect::NextTheme => self.next_theme(),
            Effect::Copy(text) => {
                let text = crate::base::clean::clean(&text).into_owned();
                self.screen.send(&terminal::clipboard(&text));
                self.ui.popup = Some(format!(
                    "{text}\n\nIf your terminal or tmux does not take it (OSC 52), select it here with the mouse. Any key closes this box."
                ));
            }
        }
        self.screen.set_mouse(self.ui.mouse && self.ui.popup.is_none());
        Ok(true)
    }

    fn next_theme(&mut self) {
        let now = theme::THEMES.iter().position(|(name, _)| *name == self.theme_name);
        let next = theme::THEMES[now.map_or(0, |n| (n + 1) % theme::THEMES.len())].0;
        if let Ok(theme) = Theme::load(next, self.depth) {
            (self.theme, self.theme_name) = (theme, next.to_owned());
            self.ui.notice = Some(format!("theme {next}"));
        }
    }
}
