//! The command line. No behaviour.

use crate::recording::without::Without;
use crate::rules::host_checks::Group;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;

/// Is the training job healthy, and if not, which rank is to blame?
///
/// With no arguments nccl-top finds the job by itself: ranks and their logs from the GPUs' processes, ports from sysfs.
#[derive(Debug, Parser)]
#[command(name = "nccl-top", version = env!("NCCL_TOP_VERSION"), subcommand_precedence_over_arg = true)]
#[command(after_help = "Exit codes: 0 nothing at error or above; 1 such findings exist; 2 something could not be judged.")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub beside: Beside,
    /// Logs to follow besides those that are found: files, globs, directories, - for standard input
    #[arg(value_name = "LOG")]
    pub logs: Vec<String>,
}

/// Metrics beside something else.
#[derive(Clone, Debug, Default, Args)]
pub struct Beside {
    /// Serve metrics for Prometheus, too, as `nccl-top export` does [default address: 127.0.0.1:10828]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, default_missing_value = EXPORT_ADDRESS)]
    pub export: Option<String>,
    /// TLS and passwords for these metrics
    #[arg(long = "web.config.file", value_name = "FILE", requires = "export")]
    pub web_config: Option<PathBuf>,
}

/// The port is [`crate::export::PORT`].
pub const EXPORT_ADDRESS: &str = "127.0.0.1:10828";

#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Where to serve /metrics: HOST:PORT, or :PORT for all interfaces [default: 127.0.0.1:10828; nowhere with --textfile alone]
    #[arg(long = "web.listen-address", value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// TLS and passwords, in the format of Prometheus's exporter toolkit; read again when it changes
    #[arg(long = "web.config.file", value_name = "FILE")]
    pub web_config: Option<PathBuf>,
    /// Write DIR/nccl-top.prom every 15 s, for the textfile collector of node_exporter
    #[arg(long, value_name = "DIR")]
    pub textfile: Option<PathBuf>,
    /// Export a recording as if it happened now, and its last moment from then on; - is standard input
    #[arg(long, value_name = "TAPE")]
    pub replay: Option<PathBuf>,
    /// How many times faster than it was: a number, or "max" [default: 1]
    #[arg(long, value_name = "N", value_parser = parse_speed, requires = "replay")]
    pub speed: Option<Speed>,
    /// Write the whole recording with time stamps, for `promtool tsdb create-blocks-from openmetrics FILE`; FILE must not exist
    #[arg(long, value_name = "FILE", requires = "replay", conflicts_with_all = ["listen", "textfile", "speed"])]
    pub openmetrics_file: Option<PathBuf>,
    /// Time between two samples in that file
    #[arg(long, value_name = "DURATION", default_value = "15s", requires = "openmetrics_file", value_parser = crate::base::time::parse_duration)]
    pub every: Duration,
    /// A label that each sample in that file has besides, as Prometheus would add it: instance=node7; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "openmetrics_file", value_parser = parse_label)]
    pub label: Vec<(String, String)>,
    #[arg(value_name = "LOG", conflicts_with = "replay")]
    pub logs: Vec<String>,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let is_name =
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if is_name { Ok((name.to_owned(), value.to_owned())) } else { Err(format!("{name:?} is no name of a label: letters, digits and _")) }
}

#[derive(Clone, Debug, Default, Args)]
pub struct Global {
    /// How often GPUs and ports are read and the screen is drawn [default: 1s]
    #[arg(long, global = true, value_name = "DURATION")]
    pub interval: Option<String>,
    /// Show times in UTC
    #[arg(long, global = true)]
    pub utc: bool,
    /// No colours, whatever the terminal
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Leave the mouse to the terminal
    #[arg(long, global = true)]
    pub no_mouse: bool,
    /// Draw less often, in sixteen colours: for lines of 2,400 bytes a second, where keys are to be answered at once
    #[arg(long, global = true)]
    pub slow_line: bool,
    /// Draw with ASCII only, whatever the locale
    #[arg(long, global = true)]
    pub ascii: bool,
    #[arg(long, global = true, value_name = "THEME", help = format!("{} or a file", crate::tui::theme::names()))]
    pub theme: Option<String>,
    /// What graphs are drawn with: braille, block or ascii [default: braille]
    #[arg(long, global = true, value_name = "SYMBOLS")]
    pub graphs: Option<String>,
    /// Another config file than ~/.config/nccl-top/config.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Texts of your own, or other severities for known ones, besides those of ~/.config/nccl-top/catalog/*.toml; may be given several times
    #[arg(long, global = true, value_name = "FILE")]
    pub catalog: Vec<PathBuf>,
    /// Read /sys and /proc below DIR; everything that asks the live system is off
    #[arg(long, global = true, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Leave a kind of signal alone; of a recording, judge as if it had not been seen; may be given several times
    #[arg(long, global = true, value_enum, value_name = "SIGNAL")]
    pub without: Vec<Without>,
    /// Write nccl-top's own diagnostics to FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Live without a screen: one line per finding opened or cleared and per state change
    Watch {
        /// JSON lines (nccl-top.event/1)
        #[arg(long)]
        json: bool,
        /// Record everything that is seen to TAPE (gzip when it ends in .gz)
        #[arg(short = 'o', long, value_name = "TAPE")]
        output: Option<PathBuf>,
        /// Stop after this long
        #[arg(long = "for", value_name = "DURATION", value_parser = crate::base::time::parse_duration)]
        duration: Option<Duration>,
        #[command(flatten)]
        beside: Beside,
        #[arg(value_name = "LOG")]
        logs: Vec<String>,
    },
    /// Serve what this node shows as metrics for Prometheus: which rank is to blame, by which rule, since when
    Export(ExportArgs),
    /// Observe this node for a moment, print what it shows, exit
    Snapshot {
        /// One JSON document (nccl-top.snapshot/1)
        #[arg(long)]
        json: bool,
        /// How long to observe
        #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = crate::base::time::parse_duration)]
        wait: Duration,
        /// Write an evidence bundle, too: recording, findings and processes as text; DIR must be new or empty
        #[arg(long, value_name = "DIR")]
        bundle: Option<PathBuf>,
        #[arg(value_name = "LOG")]
        logs: Vec<String>,
    },
    /// How GPUs and NICs are joined, as `nvidia-smi topo -m` prints it, and what NCCL uses of it
    Topo {
        /// One JSON document (nccl-top.topology/1)
        #[arg(long)]
        json: bool,
        /// How long to observe [default: 3s; 1s with --sysroot]
        #[arg(long, value_name = "DURATION", value_parser = crate::base::time::parse_duration)]
        wait: Option<Duration>,
        /// Logs with channel lines (NCCL_DEBUG=INFO), besides those of jobs that are found
        #[arg(value_name = "LOG")]
        logs: Vec<String>,
    },
    /// Record everything that is seen, to be replayed
    Record {
        /// The tape; - is standard output; gzip when it ends in .gz [default: nccl-top-HOST-TIME.jsonl.gz]
        #[arg(short = 'o', long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Stop after this long
        #[arg(long = "for", value_name = "DURATION", value_parser = crate::base::time::parse_duration)]
        duration: Option<Duration>,
        #[arg(value_name = "LOG")]
        logs: Vec<String>,
    },
    /// Show a recording, as it was or faster
    Replay(Replay),
    /// Show a recorded incident on any machine; no GPU needed
    Demo {
        /// Which one; without a name a menu asks, or it is hang where there is no terminal
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// List what there is
        #[arg(long)]
        list: bool,
        #[command(flatten)]
        options: Play,
    },
    /// Judge logs, Flight Recorder dumps, RAS reports, nccl-tests tables, Inspector files and recordings
    Check {
        /// One JSON document (nccl-top.check/1)
        #[arg(long)]
        json: bool,
        /// Exit with 1 for warnings, too
        #[arg(long)]
        strict: bool,
        /// Files, globs, directories, - for standard input; gzip is unpacked
        #[arg(value_name = "FILE", required = true)]
        files: Vec<String>,
    },
    /// Check how this host is set up for NCCL: limits, GPUs, links, network; before a job starts
    Doctor(DoctorArgs),
    /// Many nodes, read back from the Prometheus that scrapes `nccl-top export`
    Fleet(FleetArgs),
    /// Hold the judge against recordings whose fault is known: NAME.jsonl.gz with NAME.label.json
    Score(ScoreArgs),
    /// Print every rule, explain one (what it means, how it is known, what to do), or list those that say TEXT
    #[command(after_long_help = concat!("A file of your own texts looks like this:\n\n", include_str!("../../assets/catalog-sample.toml")))]
    Rules {
        #[arg(value_name = "ID|TEXT")]
        id: Option<String>,
        /// Print which entry or reader each line of FILE is known by, and under which rule it stands; - is standard input
        #[arg(long, value_name = "FILE", conflicts_with = "id")]
        test: Option<String>,
    },
    /// Print the settings in effect and where each came from
    Config {
        #[command(subcommand)]
        what: Option<ConfigCommand>,
    },
}

/// What `config` does besides printing.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum ConfigCommand {
    /// Write a config file with every setting, its default and what it means
    Init,
    /// Send a sample to alert.command and alert.url, to see whether it arrives
    TestAlert,
}

#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// Only these groups of checks: host, gpu, net
    #[arg(long, value_name = "GROUP,...", value_delimiter = ',', value_parser = parse_group)]
    pub only: Vec<Group>,
    /// One JSON document (nccl-top.doctor/1)
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 for warnings, too
    #[arg(long)]
    pub strict: bool,
    /// List every check, with what it read
    #[arg(short = 'v', long, visible_alias = "verbose")]
    pub all: bool,
    /// How long to wait for the driver and the kernel; what has not answered by then cannot be judged
    #[arg(long, value_name = "DURATION", default_value = "2500ms", value_parser = crate::base::time::parse_duration)]
    pub wait: Duration,
}

#[derive(Clone, Debug, Args)]
pub struct FleetArgs {
    /// The root of a server with Prometheus's query API: http://prometheus:9090
    #[arg(long, value_name = "URL", env = "NCCL_TOP_PROMETHEUS")]
    pub prometheus: String,
    /// How to speak to it: passwords, tokens, certificates; the same file as promtool's --http.config.file
    #[arg(long = "prometheus.config.file", value_name = "FILE", env = "NCCL_TOP_PROMETHEUS_CONFIG_FILE")]
    pub config_file: Option<PathBuf>,
    /// Only series with these labels: 'cluster="east"'
    #[arg(long = "match", value_name = "MATCHERS", default_value = "", hide_default_value = true)]
    pub matchers: String,
    /// At an earlier moment: 2026-11-21T10:04:09Z, seconds since 1970, or -10m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// One JSON document (nccl-top.fleet/1)
    #[arg(long)]
    pub json: bool,
    /// With --json, exit with 1 for warnings, too
    #[arg(long, requires = "json")]
    pub strict: bool,
}

fn parse_group(text: &str) -> Result<Group, String> {
    Group::ALL.into_iter().find(|group| group.as_str() == text).ok_or_else(|| "expected host, gpu or net".into())
}

#[derive(Clone, Debug, Args)]
pub struct ScoreArgs {
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// One JSON document (nccl-top.score/1)
    #[arg(long)]
    pub json: bool,
    /// Only recordings of this half, by the hash of their names: one to improve the judge with, one to be judged by
    #[arg(long, value_enum)]
    pub half: Option<Half>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Half {
    First,
    Second,
}

#[derive(Clone, Debug, Args)]
pub struct Replay {
    /// The tape; - is standard input
    #[arg(value_name = "FILE")]
    pub tape: PathBuf,
    #[command(flatten)]
    pub options: Play,
}

/// How a recording is shown.
#[derive(Clone, Debug, Args)]
pub struct Play {
    /// How many times faster than it was: a number, or "max" [default: 1; a demo has its own pace]
    #[arg(long, value_name = "N", value_parser = parse_speed)]
    pub speed: Option<Speed>,
    /// Begin this long after the start
    #[arg(long, value_name = "+DURATION", value_parser = parse_offset)]
    pub at: Option<Duration>,
    /// No screen: print the event lines, as fast as possible
    #[arg(long)]
    pub headless: bool,
    /// JSON lines (with --headless)
    #[arg(long, requires = "headless")]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    Times(f64),
    Max,
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    match text.parse::<f64>() {
        _ if text == "max" => Ok(Speed::Max),
        Ok(n) if (0.01..=10_000.0).contains(&n) => Ok(Speed::Times(n)),
        _ => Err("expected a number from 0.01 to 10000, or \"max\"".into()),
    }
}

fn parse_offset(text: &str) -> Result<Duration, String> {
    crate::base::time::parse_duration(text.strip_prefix('+').unwrap_or(text))
}
