//! The subcommands, one file each.

pub mod check;
pub mod demo;
pub mod doctor;
pub mod export;
pub mod fleet;
pub mod headless;
pub mod record;
pub mod replay;
pub mod rules;
pub mod score;
pub mod snapshot;
pub mod topo;
mod users_catalog;
pub mod watch;

use crate::base::clean::escape;
use crate::base::mask;
use crate::base::severity::Severity;
use crate::base::time::{Clock, Stamp, Zone};
use crate::cli::arguments::{Cli, Command, ConfigCommand, ExportArgs, Global, Play, Speed};
use crate::cli::config::{self, Color, Config, Origins};
use crate::diagnosis::session::{Event, Session};
use crate::edge::courier;
use crate::edge::diagnostics::complain;
use crate::recording::demo::Demo;
use crate::recording::tape;
use crate::recording::without::Without;
use crate::rules::host_checks;
use crate::sources::{Roots, Setup, files};
use crate::tui::{self, theme::Depth};
use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap::ValueEnum as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How the program ends. One place, so that all commands mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Clean = 0,
    Findings = 1,
    CannotJudge = 2,
}

/// What every command needs to know.
pub struct Env {
    pub config: Config,
    pub origins: Origins,
    layers: config::Layers,
    pub roots: Roots,
    /// Signals that are left out.
    pub without: Vec<Without>,
    /// What colours standard output can show, and may.
    pub depth: Depth,
    /// The terminal is at the end of a slow line.
    pub slow_line: bool,
}

impl Env {
    fn new(global: &Global) -> Result<Env> {
        let given = |flag: bool, value: &str| flag.then(|| value.to_owned());
        let flags = [
            ("interval", global.interval.clone()),
            ("utc", given(global.utc, "true")),
            ("color", given(global.no_color, "never")),
            ("mouse", given(global.no_mouse, "false")),
            ("drawing", given(global.ascii, "ascii")),
            ("theme", global.theme.clone()),
            ("graphs", global.graphs.clone()),
        ];
        let flags: Vec<_> = flags.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let var = |name: &str| std::env::var(name).ok();
        let layers = config::Layers::of(global.config.as_deref(), &var, &flags);
        let (config, origins) = layers.load_at_start()?;
        crate::base::limit::put_into_effect(config.rules.clone());
        users_catalog::install(config::default_path(&var).as_deref(), &global.catalog)?;
        let roots = match &global.sysroot {
            None => Roots::live(),
            Some(dir) => {
                anyhow::ensure!(dir.is_dir(), "{}: not a directory; --sysroot takes one that holds sys/ and proc/", dir.display());
                Roots::below(dir)
            }
        };
        // https://no-color.org: set and not empty.
        let refused = var("NO_COLOR").is_some_and(|v| !v.is_empty()) || var("TERM").is_some_and(|t| t == "dumb");
        let depth = match config.color {
            Color::Always => Depth::of_terminal(&var).max(Depth::Sixteen),
            Color::Never => Depth::None,
            Color::Auto if refused || !io::stdout().is_terminal() => Depth::None,
            Color::Auto => Depth::of_terminal(&var),
        };
        // Sequences of sixteen colours are a quarter as long, and there are no steps between two.
        let depth = if global.slow_line { depth.min(Depth::Sixteen) } else { depth };
        Ok(Env { config, origins, layers, roots, without: global.without.clone(), depth, slow_line: global.slow_line })
    }

    /// The settings behind the screen of a host in that zone.
    fn options(&self, zone: Zone) -> config::Live {
        config::Live::new(
            self.config.clone(),
            self.origins.clone(),
            self.layers.clone(),
            self.depth,
            self.slow_line,
            self.roots.is_live(),
            zone,
        )
    }

    /// Shows a tape.
    fn screen(&self, reader: tape::Reader, play: &Play, demo: Option<&'static Demo>) -> Result<Outcome> {
        let pace = tui::Pace {
            speed: match play.speed {
                Some(Speed::Times(n)) => Some(n),
                Some(Speed::Max) => None,
                None => Some(1.0),
            },
            at: play.at.or(demo.map(|demo| demo.begin)).unwrap_or_default(),
            without: self.without.clone(),
            is_own: play.speed.is_none(),
        };
        let mut options = self.options(reader.header().zone());
        // A demo is shorter than the usual axis, which would be empty for the most part.
        if demo.is_some() {
            options.default_axis(Duration::from_secs(60));
        }
        tui::replay(Box::new(options), reader, pace, demo)?;
        Ok(Outcome::Clean)
    }

    /// The sources as the command line and the config ask for them.
    pub(crate) fn setup(&self, mut logs: Vec<String>) -> Setup {
        logs.extend(self.config.logs.iter().cloned());
        let option = |kind: &Without| kind.to_possible_value().map(|value| format!("--without {}", value.get_name()));
        let left_out = self.without.iter().flat_map(|kind| kind.sources().iter().map(|id| (*id, option(kind).unwrap_or_default())));
        let usual = Setup::new(self.roots.clone(), self.config.interval, logs);
        Setup { left_out: left_out.collect(), looks: host_checks::looks(), ..usual }
    }

    pub(crate) fn host(&self) -> String {
        self.first_line("/proc/sys/kernel/hostname").unwrap_or_else(|| "localhost".into())
    }

    /// The first line of a small file below the root. A FIFO there is not waited for.
    fn first_line(&self, path: &str) -> Option<String> {
        let text = self.roots.table(path).ok()?;
        text.lines().next().map(|l| l.trim().chars().take(256).collect::<String>()).filter(|l| !l.is_empty())
    }

    /// The zone in which times are printed; `seen` is that of the observed host.
    pub(crate) fn zone(&self, seen: Zone) -> Zone {
        if self.config.utc { Zone::UTC } else { seen }
    }

    pub(crate) fn header(&self) -> tape::Header {
        let now = Clock::start().now();
        tape::Header {
            tape: "nccl-top".into(),
            version: tape::VERSION,
            program: env!("CARGO_PKG_VERSION").into(),
            host: self.host(),
            zone_offset_s: Zone::of_host(now).offset_s,
            boot_id: self.first_line("/proc/sys/kernel/random/boot_id"),
            interval_ms: self.config.interval.as_millis() as u64,
            started_ns: now,
        }
    }
}

/// Runs what the command line says.
///
/// # Errors
/// Usage, configuration and start-up errors, to be printed for the user; the exit code is then 2.
pub fn run(cli: Cli) -> Result<Outcome> {
    if let Some(path) = &cli.global.log_file {
        crate::edge::diagnostics::to_file(path).with_context(|| format!("--log-file {}", path.display()))?;
    }
    anyhow::ensure!(cli.command.is_none() || cli.beside.export.is_none(), "--export: give it after `watch`, or without a subcommand");
    anyhow::ensure!(cli.command.is_none() || cli.logs.is_empty(), "{}: name logs after the subcommand", cli.logs.join(" "));
    if let Some(Command::Config { what: Some(ConfigCommand::Init) }) = cli.command {
        // What is there already may be what is wrong.
        let path = config::init(cli.global.config.as_deref(), &|name| std::env::var(name).ok()).map_err(anyhow::Error::msg)?;
        out(&format!("{} is written\n", path.display()))?;
        return Ok(Outcome::Clean);
    }
    if let Some(name) = cli.logs.first().filter(|_| cli.command.is_none()).and_then(|log| meant(log)) {
        anyhow::bail!(
            "{}: no such file, and no command; did you mean `nccl-top {name}`? A log of that name: ./{}",
            cli.logs[0],
            cli.logs[0]
        );
    }
    let env = Env::new(&cli.global)?;
    let is_live = matches!(
        cli.command,
        None | Some(
            Command::Watch { .. } | Command::Snapshot { .. } | Command::Record { .. } | Command::Export(ExportArgs { replay: None, .. })
        )
    );
    anyhow::ensure!(
        !is_live || !env.without.contains(&Without::Gpm),
        "--without gpm: only of a recording; live, NVML is read as a whole, or with --without nvml not at all"
    );
    match cli.command {
        None => {
            let setup = env.setup(cli.logs);
            let exporter = export::beside(&setup, cli.beside, crate::edge::diagnostics::note_text)?;
            tui::live(Box::new(env.options(Zone::of_host(Clock::start().now()))), env.header(), setup, exporter)?;
            Ok(Outcome::Clean)
        }
        Some(Command::Watch { json, output, duration, beside, logs }) => watch::run(&env, json, output.as_deref(), duration, beside, logs),
        Some(Command::Export(args)) => export::run(&env, args),
        Some(Command::Snapshot { json, wait, bundle, logs }) => snapshot::run(&env, json, wait, bundle.as_deref(), logs),
        Some(Command::Topo { json, wait, logs }) => topo::run(&env, json, wait, logs),
        Some(Command::Record { output, duration, logs }) => record::run(&env, output, duration, logs),
        Some(Command::Replay(args)) if args.options.headless => replay::headless(&env, &args.tape, &args.options),
        Some(Command::Replay(args)) => env.screen(tape::Reader::open(&args.tape)?, &args.options, None),
        Some(Command::Demo { name, list, options }) => demo::run(&env, name.as_deref(), list, &options),
        Some(Command::Check { json, strict, files }) => check::run(&env, json, strict, &files),
        Some(Command::Doctor(args)) => doctor::run(&env, &args),
        Some(Command::Fleet(args)) => fleet::run(&env, &args),
        Some(Command::Score(args)) => score::run(&env, &args),
        Some(Command::Rules { test: Some(file), .. }) => users_catalog::test(&file),
        Some(Command::Rules { id, test: None }) => rules::run(id.as_deref()),
        Some(Command::Config { what: Some(ConfigCommand::TestAlert) }) => test_alert(&env),
        Some(Command::Config { .. }) => {
            out(&config::print(&env.config, &env.origins))?;
            Ok(Outcome::Clean)
        }
    }
}

/// Sends a sample to where alerts go, and prints whether it arrived.
fn test_alert(env: &Env) -> Result<Outcome> {
    let routes = &env.config.routes;
    anyhow::ensure!(!routes.is_off(), "neither alert.command nor alert.url is set; `nccl-top config` prints where settings come from");
    let now = Clock::start().now();
    let message = crate::output::alert::sample(&env.host(), env.zone(Zone::of_host(now)), now);
    courier::deliver(routes, &message).map_err(anyhow::Error::msg)?;
    out("the test alert was delivered\n")?;
    Ok(Outcome::Clean)
}

/// Prints to standard output; whether somebody still reads it. A reader that went away is no error, and changes nothing of what the exit
/// code means: who asks for that alone need not read to the end.
fn out(text: &str) -> Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(escape(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true).context("standard output"),
    }
}

/// The command that a word was probably meant as, which is no file and looks like none.
fn meant(log: &str) -> Option<String> {
    /// Letters that may be wrong, or stand the other way round.
    const WRONG: usize = 2;
    let is_word = log.len() > WRONG + 1 && log.bytes().all(|b| b.is_ascii_lowercase());
    let commands = Cli::command();
    let names = commands.get_subcommands().map(clap::Command::get_name);
    let near = names.map(|name| (strsim::osa_distance(name, log), name)).filter(|(wrong, _)| (1..=WRONG).contains(wrong)).min();
    near.filter(|_| is_word && std::fs::symlink_metadata(log).is_err()).map(|(_, name)| name.to_owned())
}

/// Reports which of the logs that the user named are not there yet: they are waited for.
fn name_awaited(logs: &[String]) {
    for log in logs.iter().filter(|log| *log != "-" && std::fs::metadata(log).is_err()) {
        let path = std::path::Path::new(log);
        let is_pattern = files::is_pattern(log) && !path.is_symlink();
        if is_pattern && files::matches(log, 1).files.is_empty() {
            complain(&format!("{log}: no file matches yet; waiting for one"));
        } else if path.is_symlink() {
            complain(&format!("{log}: a link that leads nowhere yet; waiting for its file"));
        } else if !is_pattern && std::fs::metadata(log).is_err_and(|err| err.kind() == io::ErrorKind::NotFound) {
            complain(&format!("{log}: no such file yet; waiting for it"));
        }
    }
}

/// Says which of the logs that the user named could not be read; something was then not judged.
fn name_unread(session: &Session, logs: &[String]) -> bool {
    // The model knows paths without what is secret in them.
    let shown: Vec<_> = logs.iter().map(|log| mask::text(log)).collect();
    let unread = session.model.files.values().filter(|f| !f.is_readable() && shown.iter().any(|log| *log == f.info.path));
    let mut any = false;
    for file in unread {
        any = true;
        let why = file.info.detail.as_deref().unwrap_or("it is gone");
        complain(&format!("{}: {why}", file.info.path));
    }
    let is_dead = |log: &&String| files::is_pattern(log) && std::fs::metadata(log).is_err() && files::matches(log, 1).files.is_empty();
    for pattern in logs.iter().filter(is_dead) {
        any = true;
        complain(&format!("{pattern}: no file matches"));
    }
    any
}

/// Prints events as they come, and remembers how bad it got.
struct Printer {
    json: bool,
    zone: Zone,
    worst: Option<Severity>,
}

impl Printer {
    /// Adds their lines to `text`.
    fn put(&mut self, session: &Session, events: &mut Vec<(Stamp, Event)>, text: &mut String) {
        for (at, event) in events.drain(..) {
            if let Event::Finding(crate::rules::findings::Change::Opened(f)) = &event {
                self.worst = self.worst.max(Some(f.severity));
            }
            text.push_str(&if self.json {
                crate::output::events::json_line(session, self.zone, at, &event)
            } else {
                crate::output::events::spoken(session, self.zone, at, &event)
            });
            text.push('\n');
        }
    }

    fn print(&mut self, session: &Session, events: &mut Vec<(Stamp, Event)>) -> Result<()> {
        let mut text = String::new();
        self.put(session, events, &mut text);
        if !text.is_empty() {
            out(&text)?;
        }
        Ok(())
    }

    fn outcome(&self) -> Outcome {
        if self.worst >= Some(Severity::Error) { Outcome::Findings } else { Outcome::Clean }
    }
}
