//! The screen: terminal in and out, one loop. It draws what the session says and never waits for anything but the next message.

pub mod actions;
mod beside;
pub mod bounded;
mod budget;
pub mod choices;
pub mod details;
pub mod filter;
pub mod fleet;
mod help;
mod inbox;
mod input;
pub mod keys;
pub mod layout;
pub mod log_view;
pub mod options;
pub mod panes;
mod parts;
pub mod pen;
pub mod plain;
mod play;
pub mod repeats;
mod settings;
mod sheet;
pub mod terminal;
pub mod theme;
pub mod view;
pub mod widgets;

use crate::base::severity::Severity;
use crate::base::time::Stamp;
use crate::diagnosis::remedies;
use crate::diagnosis::session::Event;
use crate::edge::courier::{Courier, Routes};
use crate::edge::dump_pipes::Pipe;
use crate::edge::py_spy::Plan;
use crate::edge::stacks::Compared;
use crate::edge::{self, QUEUE, Signals};
use crate::export::Exporter;
use crate::observe::TICK;
use crate::output::alert::Alerts;
use crate::recording::demo::Demo;
use crate::recording::tape;
use crate::recording::without::Without;
use crate::rules::findings::Change;
use crate::sources::Setup;
use crate::sources::feed;
use anyhow::{Context as _, Result};
use beside::Work;
use budget::Budget;
use choices::{Effect, Move, Ui};
use crossterm::event::Event as Input;
use inbox::{Inbox, Message, resumed};
use input::Gate;
use options::Options;
use play::{Player, World};
pub use settings::{Alert, MAX_CONFIG_BYTES, Settings};
use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminal::Screen;
use theme::Theme;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

/// How a tape is shown.
pub struct Pace {
    /// How many times faster than it was; `None`: as fast as possible.
    pub speed: Option<f64>,
    /// It begins this long after the start.
    pub at: Duration,
    /// Kinds of signal that are left out.
    pub without: Vec<Without>,
    /// A demo goes at its own pace.
    pub is_own: bool,
}

/// The live screen of a host.
///
/// # Errors
/// If there is no terminal, or it cannot be set up.
pub fn live(options: Box<dyn Options>, header: tape::Header, setup: Setup, exporter: Option<Exporter>) -> Result<()> {
    need_terminal("watch")?;
    let mut world = World::live(header.session(), options.settings().history, exporter);
    edge::run(async {
        let (app, inbox) = App::start(options, header, &mut world)?;
        // After the first frame, which would have to share the processors with a dozen threads.
        let (send, batches) = feed::channel();
        world.start(setup, &send);
        app.run(world, Inbox { batches, ..inbox }).await
    })
}

/// The screen over a tape, or over a recording that comes with the program.
///
/// # Errors
/// If there is no terminal.
pub fn replay(options: Box<dyn Options>, reader: tape::Reader, pace: Pace, demo: Option<&'static Demo>) -> Result<()> {
    need_terminal(if demo.is_some() { "demo --headless" } else { "replay --headless" })?;
    let header = reader.header().clone();
    // Reading ahead waits while enough lies ahead: the channel is full then.
    // Of a tape that somebody made up each of them may be large.
    let (tx, tape) = mpsc::channel(4);
    let Pace { speed, at, without, is_own } = pace;
    std::thread::Builder::new().name("tape".into()).spawn(move || inbox::read(reader, &without, &tx)).context("a thread for the tape")?;
    let player = Player::new(header.session(), speed, at, demo, demo.filter(|_| is_own));
    let mut world = World::Tape(Box::new(player));
    edge::run(async {
        let (app, inbox) = App::start(options, header, &mut world)?;
        app.run(world, Inbox { tape, ..inbox }).await
    })
}

fn need_terminal(instead: &str) -> Result<()> {
    anyhow::ensure!(io::stdout().is_terminal(), "standard output is no terminal; use `nccl-top {instead}`");
    anyhow::ensure!(io::stdin().is_terminal() || crossterm_has_tty(), "there is no terminal to read keys from; use `nccl-top {instead}`");
    Ok(())
}

/// Keys are read from /dev/tty where standard input is something else, such as a log.
fn crossterm_has_tty() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// Whether the screen is out of date, and how urgently.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Due {
    No,
    /// With the next refresh.
    Refresh,
    /// As soon as the frame before has been seen, while the terminal is not flooded.
    Soon,
    Now,
}

struct App {
    screen: Screen,
    ui: Ui,
    theme: Theme,
    /// Of the program's themes; the next key goes on from here.
    theme_name: String,
    depth: theme::Depth,
    alert: Alert,
    routes: Routes,
    alert_every: Duration,
    alerts: Alerts,
    courier: Courier,
    options: Box<dyn Options>,
    /// Reads the config file again.
    follows_config: Cell<Option<std::thread::JoinHandle<()>>>,
    interval: Duration,
    budget: Budget,
    /// Asked for on the time axis, and not done yet.
    move_by_s: i64,
    /// A part of the frame has not been sent yet.
    unfinished: bool,
    /// Of the recording that goes with evidence.
    header: tape::Header,
    /// /proc is that of this machine.
    is_live: bool,
    /// For what is done beside the loop.
    works: mpsc::UnboundedSender<Work>,
    /// The evidence is being written.
    writing: bool,
    /// py-spy is being looked for, or runs.
    spying: bool,
    /// The pager has the terminal: nothing is drawn.
    paging: bool,
    /// When the user left the pager.
    paged_at: Option<Instant>,
    gate: Arc<Gate>,
    /// What the user is asked about.
    py_spy: Option<Plan>,
    /// What the user is asked about.
    pipes: Vec<Pipe>,
    /// The rounds of the last look at all ranks, compared.
    rounds: Vec<(Stamp, Compared)>,
}

/// So long after the pager's end an interrupt may still be the one that was typed for it.
const PAGERS_LAST_SIGNAL: Duration = Duration::from_millis(500);
/// What is due so soon is drawn with what woke the loop up: another sleep would cost more.
const SOON: Duration = Duration::from_millis(30);
/// How long the end of the program waits for what is being written.
const LAST_WORK: Duration = Duration::from_secs(5);

impl App {
    fn start(options: Box<dyn Options>, header: tape::Header, world: &mut World) -> Result<(App, Inbox)> {
        let settings = options.settings();
        let signals = Signals::of(&[edge::ending(), vec![resumed(), SignalKind::window_change()]].concat())?;
        let theme = Theme::load(&settings.theme, settings.depth).map_err(anyhow::Error::msg)?;
        let mut ui = Ui::new(settings.zone);
        ui.keys = settings.keys.clone();
        ui.window = settings.axis;
        ui.mouse = settings.mouse;
        ui.ascii = settings.ascii;
        ui.layout = settings.layout.clone();
        let sent = Arc::default();
        let screen = Screen::enter(ui.mouse, settings.ascii, settings.graphs, settings.slow_line, &sent)?;
        ui.size = screen.size()?;
        let (input, inputs) = mpsc::channel(QUEUE);
        let gate = input::start(input)?;
        let (works, works_done) = mpsc::unbounded_channel();
        let inbox = Inbox { inputs, works: works_done, batches: mpsc::channel(1).1, tape: mpsc::channel(1).1, sent, signals };
        let told = works.clone();
        let (theme_name, alert) = (settings.theme.clone(), settings.alert);
        let mut app = App {
            screen,
            ui,
            theme,
            theme_name,
            depth: settings.depth,
            alert,
            routes: settings.routes.clone(),
            alert_every: settings.alert_every,
            alerts: Alerts::default(),
            courier: Courier::new(move |how| drop(told.send(Work::Alerted(how)))),
            options,
            follows_config: Cell::default(),
            interval: settings.interval,
            budget: Budget::new(Instant::now(), settings.slow_line),
            move_by_s: 0,
            unfinished: false,
            header,
            is_live: settings.is_live,
            works,
            writing: false,
            spying: false,
            paging: false,
            paged_at: None,
            gate,
            py_spy: None,
            pipes: Vec::new(),
            rounds: Vec::new(),
        };
        app.show_options();
        app.draw(world)?;
        app.follow_config();
        Ok((app, inbox))
    }

    fn draw(&mut self, world: &mut World) -> Result<()> {
        self.ui.mode = world.mode();
        if matches!(world, World::Tape(_)) {
            self.ui.heed(world.shown());
        }
        self.ui.caption = world.caption();
        let (ui, theme) = (&mut self.ui, &self.theme);
        let first = if self.screen.goes_in_parts() { view::rows_of(world.shown(), ui, theme, ui.target()) } else { 0..0 };
        let drawn = self.screen.draw(first, |buf| {
            ui.size = (buf.area().width, buf.area().height);
            view::draw(buf, world.shown(), ui, theme);
        })?;
        self.budget.spend(drawn.bytes, Instant::now());
        self.unfinished = !drawn.whole;
        Ok(())
    }

    async fn run(mut self, world: World, mut inbox: Inbox) -> Result<()> {
        let outcome = self.go_round(world, &mut inbox).await;
        // Evidence that was asked for is finished, if it does not take long.
        let until = Instant::now() + LAST_WORK;
        while self.writing && Instant::now() < until {
            match inbox.next(false, until).await {
                Some(Message::Work(work)) => self.worked(work),
                Some(Message::Signal(kind)) if kind != resumed() => break,
                _ => {}
            }
        }
        outcome
    }

    async fn go_round(&mut self, mut world: World, inbox: &mut Inbox) -> Result<()> {
        // How the terminal fares in a panic can only be tested with one.
        #[cfg(debug_assertions)]
        match std::env::var("NCCL_TOP_TEST_PANIC").as_deref() {
            Ok("beside") => drop(self.beside("beside", |_| panic!("asked to panic"))),
            Ok(_) => panic!("asked to panic"),
            Err(_) => {}
        }
        let mut events = Vec::new();
        let mut next_tick = Instant::now() + TICK;
        let mut next_draw = Instant::now() + Duration::from_millis(100);
        let mut due = self.rest_due();
        let mut started_rush: Option<Instant> = None;
        loop {
            // While the terminal has not taken the last frame, there is no other.
            let draws = due != Due::No && self.can_draw();
            let mut until = if draws { next_tick.min(self.budget.regular(next_draw)) } else { next_tick };
            until = match due {
                Due::Soon if draws => until.min(self.budget.next()),
                Due::Now if draws => until.min(self.budget.urgent()),
                _ => until,
            };
            if let Some(wake) = world.next_due() {
                until = until.min(wake);
            }
            let first = inbox.next(world.wants_more(), until).await;
            // One is waited for, everything else that is ready is taken with it, then one frame is drawn.
            for message in first.into_iter().chain(inbox.rest()) {
                let Some(now) = self.take(message, &mut world, &mut events)? else { return Ok(()) };
                due = if now > due { now } else { due };
            }
            self.go_on(&mut world);
            while world.wants_more() {
                match inbox.tape.try_recv() {
                    Ok(seen) => world.read(seen),
                    Err(_) => break,
                }
            }
            let rushing = world.is_rushing();
            if world.play(&mut events) {
                due = if due == Due::No { Due::Refresh } else { due };
            }
            if Instant::now() >= next_tick {
                next_tick = (next_tick + TICK).max(Instant::now());
                if self.screen.is_gone() {
                    return Ok(());
                }
                if world.tick(&mut events) {
                    due = if due < Due::Refresh { Due::Refresh } else { due };
                    self.call(&world);
                }
            }
            for (_, event) in events.drain(..) {
                if world.is_current() {
                    let urgency = urgency_of(&event);
                    due = if urgency > due { urgency } else { due };
                }
                if !rushing {
                    self.alert(&event);
                }
            }
            // On the way to another moment of a tape, what lies between is not shown unless it takes long.
            let passing = world.is_rushing() && started_rush.get_or_insert_with(Instant::now).elapsed() < Duration::from_millis(500);
            if !world.is_rushing() {
                started_rush = None;
            }
            if passing {
                continue;
            }
            let now = Instant::now();
            let is_due = match due {
                Due::No => false,
                Due::Refresh => now + SOON >= self.budget.regular(next_draw),
                Due::Soon => now >= self.budget.next() || now + SOON >= self.budget.regular(next_draw),
                Due::Now => now >= self.budget.urgent(),
            };
            if is_due && self.can_draw() {
                self.draw(&mut world)?;
                next_draw = Instant::now() + self.interval;
                due = self.rest_due();
            }
        }
    }

    /// What is left of the frame that was just drawn comes as soon as the line is free.
    fn rest_due(&self) -> Due {
        if self.unfinished { Due::Soon } else { Due::No }
    }

    /// How urgently the screen is to be drawn after it; `None` ends the program.
    fn take(&mut self, message: Message, world: &mut World, events: &mut Vec<(Stamp, Event)>) -> Result<Option<Due>> {
        match message {
            Message::Input(Some(input)) => return self.input(&input, world, events),
            Message::Signal(kind) if kind == SignalKind::window_change() => {}
            // What is typed for the pager may end or stop it, and nothing else.
            Message::Signal(kind) if self.is_for_pager(kind) => {}
            Message::Signal(kind) if kind == resumed() => self.screen.resume()?,
            Message::Input(None) | Message::Signal(_) => return Ok(None),
            Message::Work(Work::Paged(how)) => self.take_back(how)?,
            Message::Work(Work::Config(what)) => self.configured(what, world)?,
            Message::Work(work) => self.worked(work),
            Message::Batch(batch) => {
                let before = world.shown().model.logbook.alarms();
                world.accept(batch, events);
                let warned = world.is_current() && world.shown().model.logbook.alarms() > before;
                return Ok(Some(if warned { Due::Soon } else { Due::Refresh }));
            }
            Message::Tape(seen) => {
                world.read(seen);
                return Ok(Some(Due::No));
            }
        }
        Ok(Some(Due::Now))
    }

    /// The terminal sends an interrupt to the pager and to this program at once, and the pager's end may be seen first.
    fn is_for_pager(&self, kind: SignalKind) -> bool {
        let was_paging = self.paged_at.is_some_and(|ended| ended.elapsed() < PAGERS_LAST_SIGNAL);
        (self.paging && kind == resumed()) || ((self.paging || was_paging) && kind == SignalKind::interrupt())
    }

    fn can_draw(&self) -> bool {
        !self.paging && self.screen.is_ready()
    }

    fn go(&mut self, world: &mut World, to: Move) {
        if let Some(notice) = world.go(to) {
            self.ui.notice = Some(notice);
        }
    }

    /// Makes the moves that were asked for since the last time.
    fn go_on(&mut self, world: &mut World) {
        match std::mem::take(&mut self.move_by_s) {
            0 => {}
            s => self.go(world, Move::By(s)),
        }
    }

    /// `None` ends the program.
    fn input(&mut self, input: &Input, world: &mut World, events: &mut Vec<(Stamp, Event)>) -> Result<Option<Due>> {
        match self.ui.input(input, world.shown(), &self.theme) {
            Effect::None => return Ok(Some(Due::No)),
            Effect::Draw => {}
            Effect::Redraw => self.screen.forget()?,
            Effect::Quit => return Ok(None),
            Effect::Suspend => self.screen.suspend()?,
            Effect::Copy(text) => self.copy(&text, world),
            Effect::CopyLine(text) => {
                self.screen.send(&terminal::clipboard(&crate::base::clean::clean(&text)));
                self.ui.notice = Some("the line was sent to the clipboard (OSC 52); enter shows it whole".into());
            }
            Effect::Page(number) => self.page(number, world),
            Effect::Turn(key, forward) => self.turn(key, forward, world)?,
            Effect::Set(key, value) => self.set(key, &value, world)?,
            Effect::Save => self.save(),
            Effect::Evidence(dir) => self.write_evidence(&dir, world),
            Effect::AskStacks(wanted) => self.find_py_spy(&wanted, world),
            Effect::RunStacks => self.run_py_spy(world),
            Effect::AskDumps(job) => self.find_pipes(&job, world),
            Effect::RunDumps => self.ask_for_dumps(),
            Effect::Note(remark) => world.note(remark, events),
            // A key that is held down comes many times at once, and each move may take a while: they are made in one.
            Effect::Time(Move::By(s)) => self.move_by_s += s,
            Effect::Time(to) => {
                self.go_on(world);
                self.go(world, to);
            }
        }
        // While a text is shown to be selected, the mouse is the terminal's.
        if !self.paging {
            self.screen.set_mouse(self.ui.mouse && self.ui.popup.is_none());
        }
        Ok(Some(Due::Now))
    }

    /// To the terminal's clipboard; and onto the screen with the mouse given back, for terminals that do not take it.
    fn copy(&mut self, text: &str, world: &World) {
        let text = crate::base::clean::clean(text).into_owned();
        self.screen.send(&terminal::clipboard(&text));
        let others = view::other_steps(world.shown(), &self.ui);
        let warned = |note: &str| if note.starts_with(remedies::LAST_RESORT) { format!("  # {note}") } else { String::new() };
        let others: String =
            others.iter().map(|step| format!("\n{}{}", crate::base::clean::clean(&step.what), warned(step.note))).collect();
        let others = if others.is_empty() { others } else { format!("\n\nBesides:{others}") };
        let shown = format!(
            "{text}{others}\n\nIf your terminal or tmux does not take it (OSC 52), select it here with the mouse. Any key closes this box."
        );
        self.ui.popup = Some(("Sent to the clipboard".into(), shown));
    }

    /// Sends a new critical finding to where the user wants it: of the job as it is, wherever the screen stands.
    fn call(&mut self, world: &World) {
        let Some(session) = world.live_session().filter(|_| !self.routes.is_off()) else { return };
        let due = self.alerts.due(session, self.ui.zone, self.alert_every, |finding| self.ui.is_quiet(finding));
        due.into_iter().for_each(|message| self.courier.send(self.routes.clone(), message));
    }

    /// Draws attention to a new critical finding, if the user asked for that.
    fn alert(&mut self, event: &Event) {
        let Event::Finding(Change::Opened(finding)) = event else { return };
        match self.alert {
            _ if finding.severity < Severity::Critical || self.ui.muted.contains(finding.rule) => {}
            Alert::Off => {}
            Alert::Bell => self.screen.send("\x07"),
            Alert::Note => self.screen.send_note(&finding.summary),
        }
    }
}

/// What is worse than a warning, or changes the state of a job, is drawn at once, whatever that costs.
fn urgency_of(event: &Event) -> Due {
    match event {
        Event::Finding(Change::Opened(finding)) if finding.severity < Severity::Error => Due::Soon,
        Event::Finding(_) | Event::State { .. } => Due::Now,
    }
}
