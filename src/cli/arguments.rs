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
#[command(name = "nccl-top", version, subcommand_precedence_over_arg = true)]
#[command(after_help = "Exit codes: 0 nothing at error or above; 1 such findings exist; 2 something could not be judged.")]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Logs to follow besides those that are found: files, globs, directories, - for standard input
    #[arg(value_name = "LOG")]
    pub logs: Vec<String>,
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
        #[arg(value_name = "LOG")]
        logs: Vec<String>,
    },
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
