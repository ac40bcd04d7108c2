//! The screen: terminal in and out, one loop. It draws what the session says and never waits for anything but the next message.

pub mod actions;
mod bounded;
mod budget;
pub mod choices;
pub mod details;
pub mod filter;
pub mod fleet;
mod help;
mod input;
pub mod keys;
pub mod layout;
pub mod log_view;
pub mod options;
pub mod panes;
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
use crate::diagnosis::session::Event;
use crate::edge::courier::{Courier, Routes};
use crate::edge::dump_pipes::{self, Pipe};
use crate::edge::pager::{self, Page};
use crate::edge::py_spy::{self, Plan, Stack, Target};
use crate::edge::stacks::{Compared, Whose, most_often_odd};
use crate::edge::{self, QUEUE, Signals};
use crate::export::Exporter;
use crate::observe::Observation;
use crate::observe::TICK;
use crate::output::alert::Alerts;
use crate::output::bundle::{self, Bundle};
use crate::recording::demo::Demo;
use crate::recording::tape;
use crate::recording::without::{self, Without};
use crate::rules::findings::Change;
use crate::sources::Setup;
use crate::sources::feed::{self, Batch};
use anyhow::{Context as _, Result};
use budget::Budget;
use choices::{Content, Effect, Mode, Move, Sheet, Stacks, Ui};
use crossterm::event::Event as Input;
use input::Gate;
use options::Options;
use play::{Player, World};
use settings::Configured;
pub use settings::{Alert, MAX_CONFIG_BYTES, Settings};
use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::iter::from_fn;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use terminal::Screen;
use theme::Theme;
use tokio::signal::unix::SignalKind;
use tokio::sync::{Notify, mpsc};
use unicode_width::UnicodeWidthStr;

enum Message {
    /// `None`: the terminal is gone.
    Input(Option<Input>),
    Signal(SignalKind),
    Work(Work),
    Batch(Batch),
    Tape(FromTape),
}

/// Everything that the loop waits for, but the clock.
struct Inbox {
    signals: Signals,
    inputs: mpsc::Receiver<Option<Input>>,
    works: mpsc::UnboundedReceiver<Work>,
    /// Without a sender where a tape is shown.
    batches: mpsc::Receiver<Batch>,
    /// Without a sender where the job itself is shown.
    tape: mpsc::Receiver<FromTape>,
    /// The terminal has taken something.
    sent: Arc<Notify>,
}

impl Inbox {
    /// What comes first, until then. Signals before keys: no flood of input may keep the program from ending.
    async fn next(&mut self, wants_tape: bool, until: Instant) -> Option<Message> {
        tokio::select! {
            biased;
            kind = self.signals.next() => Some(Message::Signal(kind)),
            Some(input) = self.inputs.recv() => Some(Message::Input(input)),
            Some(work) = self.works.recv() => Some(Message::Work(work)),
            () = self.sent.notified() => None,
            Some(batch) = self.batches.recv() => Some(Message::Batch(batch)),
            Some(seen) = self.tape.recv(), if wants_tape => Some(Message::Tape(seen)),
            () = tokio::time::sleep_until(until.into()) => None,
        }
    }

    /// What else is there already, so much of each that none keeps the others out.
    fn rest(&mut self) -> Vec<Message> {
        let mut rest: Vec<Message> = from_fn(|| self.inputs.try_recv().ok()).take(QUEUE).map(Message::Input).collect();
        rest.extend(from_fn(|| self.works.try_recv().ok()).take(QUEUE).map(Message::Work));
        rest.extend(from_fn(|| self.batches.try_recv().ok()).take(QUEUE).map(Message::Batch));
        rest
    }
}

/// What was done beside the loop.
enum Work {
    Evidence(Written),
    /// py-spy was found, and the processes to run it on.
    Found(Option<Plan>),
    /// So many of so many processes have been looked at.
    Looked(usize, usize),
    /// A round of py-spy: of all ranks or of one process, and whether it was the last.
    Stacks(Vec<(Whose, Stack)>, bool, bool),
    /// The pipes by which ranks can be asked for dumps.
    Pipes(Vec<Pipe>),
    /// They were asked; how it went.
    Asked(String),
    /// The user has left the pager; what went wrong.
    Paged(Result<(), String>),
    /// What became of an alert.
    Alerted(Result<(), String>),
    /// Settings were saved, or the config file has changed.
    Config(Configured),
    /// It panicked.
    Broke,
}

/// How far the evidence is: the words before and after the name of its directory.
struct Written {
    before: String,
    dir: String,
    after: String,
    done: bool,
}

/// From the thread that reads a tape ahead.
enum FromTape {
    Seen(Box<Observation>),
    /// The tape is at its end, or broke; with the reason.
    End(Option<String>),
}

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
    std::thread::Builder::new().name("tape".into()).spawn(move || read(reader, &without, &tx)).context("a thread for the tape")?;
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

fn read(mut reader: tape::Reader, without: &[Without], tx: &mpsc::Sender<FromTape>) {
    loop {
        let message = match reader.read() {
            Ok(Some(seen)) => match without::filter(seen, without) {
                Some(seen) => FromTape::Seen(Box::new(seen)),
                None => continue,
            },
            Ok(None) => FromTape::End(reader.cut_off()),
            Err(err) => FromTape::End(Some(err.to_string())),
        };
        let last = matches!(message, FromTape::End(_));
        if tx.blocking_send(message).is_err() || last {
            return;
        }
    }
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
    gate: Arc<Gate>,
    /// What the user is asked about.
    py_spy: Option<Plan>,
    /// What the user is asked about.
    pipes: Vec<Pipe>,
    /// The rounds of the last look at all ranks, compared.
    rounds: Vec<(Stamp, Compared)>,
}

/// What is due so soon is drawn with what woke the loop up: another sleep would cost more.
const SOON: Duration = Duration::from_millis(30);
/// How long the end of the program waits for what is being written.
const LAST_WORK: Duration = Duration::from_secs(5);
/// Stacks kept for the evidence.
const MAX_STACKS: usize = py_spy::MAX_TARGETS;
/// The sheet of all ranks' stacks.
const ALL_STACKS: &str = "Stacks of all ranks (main threads, equal ones together)";

impl App {
    fn start(options: Box<dyn Options>, header: tape::Header, world: &mut World) -> Result<(App, Inbox)> {
        let settings = options.settings();
        let signals = Signals::of(&[edge::ending(), vec![resumed(), SignalKind::window_change()]].concat())?;
        let theme = Theme::load(&settings.theme, settings.depth).map_err(anyhow::Error::msg)?;
        let mut ui = Ui::new(settings.zone);
        ui.keys = settings.keys.clone();
        ui.window = settings.axis;
        ui.mouse = settings.mouse;
        ui.layout = settings.layout.clone();
        let sent = Arc::default();
        let screen = Screen::enter(ui.mouse, settings.ascii, settings.graphs, settings.depth, &sent)?;
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
            header,
            is_live: settings.is_live,
            works,
            writing: false,
            spying: false,
            paging: false,
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
        let bytes = self.screen.draw(|buf| {
            ui.size = (buf.area().width, buf.area().height);
            view::draw(buf, world.shown(), ui, theme);
        })?;
        self.budget.spend(bytes, Instant::now());
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
        let mut due = Due::No;
        let mut started_rush: Option<Instant> = None;
        loop {
            // While the terminal has not taken the last frame, there is no other.
            let draws = due != Due::No && self.can_draw();
            let mut until = if draws { next_tick.min(self.budget.regular(next_draw)) } else { next_tick };
            if draws && due == Due::Soon {
                until = until.min(self.budget.next());
            }
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
                Due::Now => true,
            };
            if is_due && self.can_draw() {
                self.draw(&mut world)?;
                next_draw = Instant::now() + self.interval;
                due = Due::No;
            }
        }
    }

    /// How urgently the screen is to be drawn after it; `None` ends the program.
    fn take(&mut self, message: Message, world: &mut World, events: &mut Vec<(Stamp, Event)>) -> Result<Option<Due>> {
        match message {
            Message::Input(Some(input)) => return self.input(&input, world, events),
            Message::Signal(kind) if kind == SignalKind::window_change() => {}
            // What is typed for the pager may end or stop it, and nothing else.
            Message::Signal(kind) if self.paging && (kind == SignalKind::interrupt() || kind == resumed()) => {}
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

    fn can_draw(&self) -> bool {
        !self.paging && self.screen.is_ready()
    }

    /// The pager with the selected line's file; where that is not at hand, as of a recording, with the lines that are kept.
    fn page(&mut self, number: Option<u64>, world: &World) {
        let session = world.shown();
        let line = number.and_then(|number| session.model.logbook.get(number)).or_else(|| session.model.logbook.iter().next_back());
        let Some(line) = line else {
            self.ui.notice = Some("there is no log to open".into());
            return;
        };
        let path = session.model.files.get(&line.file).map(|file| file.info.path.clone());
        let is_here = self.is_live && !matches!(self.ui.mode, Mode::Replay { .. });
        let page = match path.filter(|path| is_here && std::path::Path::new(path).is_file()) {
            Some(path) => Page::File { path, line: line.no },
            None => Page::Text(log_view::text(&self.ui.log, session, self.ui.zone)),
        };
        let gate = self.gate.clone();
        self.paging = true;
        self.screen.lend();
        let started = self.beside("pager", move |tell| {
            gate.close();
            let how = pager::run(&page);
            gate.open();
            tell(Work::Paged(how));
        });
        if !started {
            let _ = self.works.send(Work::Paged(Err("the system has no thread to give".into())));
        }
    }

    fn take_back(&mut self, how: Result<(), String>) -> Result<()> {
        self.paging = false;
        self.ui.notice = how.err();
        self.screen.resume()
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
        let others: String = others.iter().map(|step| format!("\n{}", crate::base::clean::clean(&step.what))).collect();
        let others = if others.is_empty() { others } else { format!("\n\nBesides:{others}") };
        let shown = format!(
            "{text}{others}\n\nIf your terminal or tmux does not take it (OSC 52), select it here with the mouse. Press any key to continue."
        );
        self.ui.popup = Some(("Sent to the clipboard".into(), shown));
    }

    /// Does something that may block, in a thread. What comes of it arrives as a message.
    fn beside(&mut self, name: &str, work: impl FnOnce(&dyn Fn(Work)) + Send + 'static) -> bool {
        let works = self.works.clone();
        let tell = move |work| drop(works.send(work));
        let run = move || {
            if std::panic::catch_unwind(AssertUnwindSafe(|| work(&tell))).is_err() {
                tell(Work::Broke);
            }
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(run).is_ok();
        if !started {
            self.ui.notice = Some("the system refuses another thread".into());
        }
        started
    }

    fn write_evidence(&mut self, dir: &str, world: &World) {
        if self.writing {
            self.ui.notice = Some("evidence is already being written".into());
            return;
        }
        let (session, kept) = world.evidence();
        let stacks = self.ui.stacks.values().cloned().collect();
        let summary = (!self.rounds.is_empty()).then(|| self.summary());
        let bundle = Bundle { header: self.header.clone(), zone: self.ui.zone, session, kept, stacks, summary };
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let path = dir.strip_prefix("~/").zip(home).map_or_else(|| PathBuf::from(dir), |(below, home)| home.join(below));
        let dir = dir.to_owned();
        self.note_around("writing evidence to ", &dir, "");
        self.writing = self.beside("evidence", move |tell| {
            let say = |before: String, after: String, done| tell(Work::Evidence(Written { before, dir: dir.clone(), after, done }));
            let written = bundle::write(&path, &bundle, &mut |what| say("writing evidence to ".into(), format!(": {what}"), false));
            match written {
                Ok(w) => say(format!("evidence: {} files, {} kB, in ", w.files, w.bytes.div_ceil(1000)), String::new(), true),
                Err(why) => say(format!("evidence failed: {why}: "), String::new(), true),
            }
        });
    }

    /// A note with a path in it, which is shortened where there is no room for all: why something failed must stay.
    fn note_around(&mut self, before: &str, path: &str, after: &str) {
        let (before, after) = (crate::base::clean::clean(before), crate::base::clean::clean(after));
        let room = usize::from(self.ui.size.0).saturating_sub(before.width() + after.width() + 2);
        let path = widgets::shorten(&crate::base::clean::clean(path), room.max(3));
        self.ui.notice = Some(format!("{before}{path}{after}"));
    }

    fn find_py_spy(&mut self, wanted: &Stacks, world: &World) {
        let target = |(rank, pid, start_ticks)| Target { whose: Whose { rank, pid, loads: false }, start_ticks };
        let (targets, rounds, gone) = match wanted {
            Stacks::One(pid) => {
                (world.start_of(*pid).map(|start| target((None, *pid, start))).into_iter().collect(), 1, format!("process {pid} has ended"))
            }
            Stacks::All { job, rounds } => {
                let ranks: Vec<Target> = world.ranks_of(job).into_iter().map(target).collect();
                (ranks, *rounds, format!("job {job} has no live process on this node"))
            }
        };
        let why_not = match () {
            () if self.spying => Some("py-spy is already running".to_owned()),
            () if !self.is_live => Some("--sysroot: the process is not on this machine".to_owned()),
            () if targets.is_empty() => Some(gone),
            () => None,
        };
        if why_not.is_some() {
            self.ui.notice = why_not;
            return;
        }
        let all = matches!(wanted, Stacks::All { .. });
        self.spying = self.beside("find", move |tell| {
            let targets = if all { py_spy::with_loaders(targets) } else { targets };
            tell(Work::Found(py_spy::find().map(|program| Plan { program, targets, rounds, all })));
        });
    }

    fn find_pipes(&mut self, job: &str, world: &World) {
        let target = |(rank, pid, start_ticks)| Target { whose: Whose { rank, pid, loads: false }, start_ticks };
        let ranks: Vec<Target> = world.ranks_of(job).into_iter().map(target).collect();
        if !self.is_live {
            self.ui.notice = Some("--sysroot: the ranks are not on this machine".into());
            return;
        }
        self.beside("pipes", move |tell| tell(Work::Pipes(dump_pipes::find(ranks))));
    }

    fn ask_for_dumps(&mut self) {
        let pipes = std::mem::take(&mut self.pipes);
        self.beside("pipes", move |tell| {
            let asked: Vec<_> = pipes.into_iter().map(|pipe| (pipe.clone(), dump_pipes::ask(&pipe))).collect();
            tell(Work::Asked(dump_pipes::summary(&asked)));
        });
    }

    /// The user may be asked: what he has begun to type meanwhile is not taken away, and is no answer.
    fn is_free(&self) -> bool {
        let reads_help = self.ui.sheet.as_ref().is_some_and(|sheet| sheet.content == Content::Help);
        self.ui.prompt.is_none() && self.ui.popup.is_none() && !reads_help
    }

    fn run_py_spy(&mut self, world: &World) {
        let Some(plan) = self.py_spy.take() else { return };
        let clock = crate::base::time::Clock::start();
        let least = world.shown().model.now;
        self.ui.notice = Some(format!("{} runs", plan.command()));
        self.spying = true;
        if plan.all {
            self.rounds.clear();
        }
        let works = self.works.clone();
        // Where the program ends first, so does this, and py-spy with it.
        tokio::spawn(async move {
            let mut turns = tokio::time::interval(py_spy::ROUND);
            turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            for round in 1..=plan.rounds {
                turns.tick().await;
                let tell = |done| {
                    if plan.all {
                        let _ = works.send(Work::Looked(done, plan.targets.len()));
                    }
                };
                let stacks = py_spy::round(&plan, least.max(clock.now()), tell).await;
                let _ = works.send(Work::Stacks(stacks, plan.all, round == plan.rounds));
            }
        });
    }

    /// Shows a round: one process's whole stack, or who is where of all.
    fn show_stacks(&mut self, stacks: Vec<(Whose, Stack)>, all: bool, last: bool) {
        self.spying = !last;
        self.ui.notice = None;
        let content = match stacks.first() {
            Some((_, stack)) if !all => Some(Content::Text { title: stack.command.clone(), lines: stack.lines.clone() }),
            Some((_, stack)) => {
                self.rounds.push((stack.at, Compared::of(&py_spy::taken(&stacks))));
                Some(Content::Text { title: ALL_STACKS.into(), lines: self.summary() })
            }
            None => None,
        };
        // The first round opens the sheet; a later one does not take from the user what is looked at meanwhile.
        let shown = |sheet: &Sheet| matches!(&sheet.content, Content::Text { title, .. } if title == ALL_STACKS);
        let pid = stacks.first().map(|(_, stack)| stack.pid.to_string());
        let in_detail = !all && self.ui.detail().is_some_and(|subject| subject.kind == "process" && Some(&subject.key) == pid.as_ref());
        match (&mut self.ui.sheet, content) {
            (Some(sheet), Some(content)) if shown(sheet) => sheet.content = content,
            // There it stands among all else.
            (Some(_), Some(_)) if in_detail => self.ui.notice = Some("its stack stands below".into()),
            (_, Some(content)) if !all || self.rounds.len() == 1 => self.ui.open_sheet(content),
            _ => self.ui.notice = last.then(|| most_often(&self.rounds)).flatten(),
        }
        for (_, stack) in stacks {
            if self.ui.stacks.len() >= MAX_STACKS && !self.ui.stacks.contains_key(&stack.pid) {
                self.ui.stacks.pop_first();
            }
            self.ui.stacks.insert(stack.pid, Arc::new(stack));
        }
    }

    /// The rounds in words, the newest in full.
    fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let [earlier @ .., (_, _)] = self.rounds.as_slice()
            && !earlier.is_empty()
        {
            lines.extend(most_often(&self.rounds).map(|words| format!("{words} (an observation, no finding)")));
            lines.extend(self.rounds.iter().map(|(at, round)| format!("{}  {}", self.ui.zone.hms(*at), round.short())));
            lines.push(String::new());
        }
        if let Some((at, newest)) = self.rounds.last() {
            lines.push(format!("at {}:", self.ui.zone.hms(*at)));
            lines.extend(newest.lines());
        }
        lines
    }

    fn worked(&mut self, work: Work) {
        match work {
            Work::Broke => {
                (self.writing, self.spying) = (false, false);
                self.ui.notice = Some("it failed: a defect of nccl-top (--log-file FILE shows where)".into());
            }
            Work::Evidence(Written { before, dir, after, done }) => {
                self.writing = !done;
                self.note_around(&before, &dir, &after);
            }
            Work::Found(None) => {
                self.spying = false;
                self.ui.notice = Some(format!("py-spy is not installed: {}", py_spy::INSTALL));
            }
            Work::Found(Some(plan)) => {
                self.spying = false;
                if self.is_free() {
                    let (kind, text) = (choices::Ask::Run { processes: plan.targets.len() }, plan.command());
                    self.ui.prompt = Some(choices::Prompt { kind, text, proposed: false, error: None });
                    self.py_spy = Some(plan);
                }
            }
            Work::Pipes(pipes) if pipes.is_empty() => {
                self.ui.notice =
                    Some("no rank here was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE and TORCH_NCCL_TRACE_BUFFER_SIZE".into());
            }
            Work::Pipes(pipes) => {
                if self.is_free() {
                    let (kind, text) = (choices::Ask::Dump { ranks: pipes.len() }, dump_pipes::command(&pipes));
                    self.ui.prompt =
                        Some(choices::Prompt { kind, text: crate::base::mask::shown(&text).into_owned(), proposed: false, error: None });
                    self.pipes = pipes;
                }
            }
            Work::Alerted(how) => {
                let said = how.as_ref().err().cloned().unwrap_or_else(|| "the finding was sent (alert.command, alert.url)".into());
                self.ui.notice = Some(said);
                self.ui.alert_error = how.err();
            }
            // They are seen to where they may fail.
            Work::Paged(_) | Work::Config(_) => {}
            Work::Asked(how) => self.ui.notice = Some(crate::base::mask::shown(&how).into_owned()),
            Work::Looked(done, of) => self.ui.notice = Some(format!("py-spy: {done} of {of} processes")),
            Work::Stacks(stacks, all, last) => self.show_stacks(stacks, all, last),
        }
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

fn most_often(rounds: &[(Stamp, Compared)]) -> Option<String> {
    most_often_odd(&rounds.iter().map(|(_, round)| round.clone()).collect::<Vec<_>>())
}

/// What is worse than a warning, or changes the state of a job, is drawn at once, whatever that costs.
fn urgency_of(event: &Event) -> Due {
    match event {
        Event::Finding(Change::Opened(finding)) if finding.severity < Severity::Error => Due::Soon,
        Event::Finding(_) | Event::State { .. } => Due::Now,
    }
}

/// The program goes on after a stop.
fn resumed() -> SignalKind {
    SignalKind::from_raw(libc::SIGCONT)
}
