//! The one list of settings: the file, the environment, `config init`, the options screen and the table in `docs/SETTINGS.md` are made from it.

use super::{Color, Config, Drawing};
use crate::base::time::parse_duration;
use crate::edge::courier::Run;
use crate::tui::Alert;
use crate::tui::layout::PRESETS;
use crate::tui::options::Kind;
use crate::tui::plain::Graphs;
use crate::tui::theme::{Depth, THEMES, Theme};
use std::time::Duration;

/// One setting, complete.
pub struct Setting {
    /// As the file has it; one with a dot stands in a table.
    pub key: &'static str,
    pub help: &'static str,
    /// A change takes effect at once; else when the program starts again.
    pub live: bool,
    /// What it can be.
    pub kind: fn(&Config) -> Kind,
    /// # Errors
    /// What was found and what is expected.
    pub set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as the file writes it.
    pub get: fn(&Config) -> String,
}

impl Setting {
    /// The variable of the environment that sets it.
    pub fn env(&self) -> String {
        format!("NCCL_TOP_{}", self.key.to_ascii_uppercase().replace('.', "_"))
    }
}

/// A value that is one of a few words.
fn one_of<T: Copy>(found: &str, words: &[(&str, T)]) -> Result<T, String> {
    let known = || words.iter().map(|(w, _)| format!("{w:?}")).collect::<Vec<_>>().join(", ");
    words.iter().find(|(w, _)| *w == found).map(|(_, v)| *v).ok_or_else(|| format!("found {found:?}, expected one of {}", known()))
}

fn word_of<T: PartialEq>(value: &T, words: &[(&str, T)]) -> String {
    words.iter().find(|(_, v)| v == value).map_or(String::new(), |(w, _)| format!("{w:?}"))
}

fn words<T>(words: &[(&str, T)]) -> Kind {
    Kind::Words(words.iter().map(|(word, _)| (*word).to_owned()).collect())
}

fn truth(found: &str) -> Result<bool, String> {
    found.parse().map_err(|_| format!("found {found:?}, expected true or false"))
}

fn truths(_: &Config) -> Kind {
    Kind::Words(["true", "false"].map(str::to_owned).to_vec())
}

fn duration_within(found: &str, from: &str, to: &str) -> Result<Duration, String> {
    let value = parse_duration(found)?;
    let range = parse_duration(from)?..=parse_duration(to)?;
    if range.contains(&value) { Ok(value) } else { Err(format!("found {found:?}, expected a duration from {from:?} to {to:?}")) }
}

/// As [`parse_duration`] reads it.
fn duration_text(d: Duration) -> String {
    match (d.subsec_millis(), d.as_secs()) {
        (0, s) if s >= 60 && s % 60 == 0 => format!("\"{}m\"", s / 60),
        (0, s) => format!("\"{s}s\""),
        _ => format!("\"{}ms\"", d.as_millis()),
    }
}

/// A text as TOML writes it, whatever is in it.
pub fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// With the user's home in place of `~/`.
fn at_home(path: &str) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    path.strip_prefix("~/").map_or(path.to_owned(), |rest| format!("{home}/{rest}"))
}

/// Stands behind each item of a list that is set: what is in an item may hold anything else.
pub const LIST: char = '\0';

/// A line for the shell, or a list of words; on the screen it may be typed as the file has it.
fn parse_command(found: &str) -> Result<Run, String> {
    let words = |found: &str| found.split_terminator(LIST).map(str::to_owned).collect::<Vec<_>>();
    let run = match found {
        _ if found.trim().is_empty() => Run::Off,
        _ if found.contains(LIST) => Run::Args(words(found)),
        _ if found.starts_with('[') && found.parse::<toml_edit::Value>().is_ok_and(|v| v.is_array()) => {
            Run::Args(words(&super::plain(found)))
        }
        _ => Run::Shell(found.to_owned()),
    };
    match &run {
        Run::Args(words) if words.first().is_none_or(String::is_empty) => Err("expected a program as the first word".into()),
        _ => Ok(run),
    }
}

const COLORS: &[(&str, Color)] = &[("auto", Color::Auto), ("always", Color::Always), ("never", Color::Never)];
const DRAWINGS: &[(&str, Drawing)] = &[("auto", Drawing::Auto), ("unicode", Drawing::Unicode), ("ascii", Drawing::Ascii)];
const GRAPHS: &[(&str, Graphs)] = &[("braille", Graphs::Braille), ("block", Graphs::Block), ("ascii", Graphs::Ascii)];
const ALERTS: &[(&str, Alert)] = &[("off", Alert::Off), ("bell", Alert::Bell), ("note", Alert::Note)];

pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "interval",
        help: "How often GPUs and ports are read and the screen is drawn: \"200ms\" to \"60s\"",
        live: true,
        kind: |_| Kind::Steps(&["200ms", "500ms", "1s", "2s", "5s", "10s", "30s", "60s"]),
        set: |c, v| duration_within(v, "200ms", "60s").map(|d| c.interval = d),
        get: |c| duration_text(c.interval),
    },
    Setting {
        key: "utc",
        help: "Show times in UTC instead of the host's zone: true or false",
        live: true,
        kind: truths,
        set: |c, v| truth(v).map(|t| c.utc = t),
        get: |c| c.utc.to_string(),
    },
    Setting {
        key: "logs",
        help: "Files, globs or directories to follow besides those that are found; in the environment separated by \":\"",
        live: false,
        kind: |_| Kind::Text,
        set: |c, v| {
            c.logs = v.split(if v.contains(LIST) { LIST } else { ':' }).filter(|s| !s.is_empty()).map(str::to_owned).collect();
            Ok(())
        },
        get: |c| format!("{:?}", c.logs),
    },
    Setting {
        key: "theme",
        help: "One of the themes that \"nccl-top --help\" names, or the path of a file like those in assets/themes",
        live: true,
        kind: |_| words(THEMES),
        set: |c, v| {
            c.theme = at_home(v);
            Theme::load(&c.theme, Depth::True).map(drop)
        },
        get: |c| quoted(&c.theme),
    },
    Setting {
        key: "color",
        help: "\"auto\" (a terminal without NO_COLOR), \"always\" or \"never\"",
        live: false,
        kind: |_| words(COLORS),
        set: |c, v| one_of(v, COLORS).map(|color| c.color = color),
        get: |c| word_of(&c.color, COLORS),
    },
    Setting {
        key: "drawing",
        help: "\"auto\" (as the locale says), \"unicode\" or \"ascii\"",
        live: true,
        kind: |_| words(DRAWINGS),
        set: |c, v| one_of(v, DRAWINGS).map(|drawing| c.drawing = drawing),
        get: |c| word_of(&c.drawing, DRAWINGS),
    },
    Setting {
        key: "graphs",
        help: "What graphs are drawn with: \"braille\", \"block\" (for fonts without braille) or \"ascii\"",
        live: true,
        kind: |_| words(GRAPHS),
        set: |c, v| one_of(v, GRAPHS).map(|graphs| c.graphs = graphs),
        get: |c| word_of(&c.graphs, GRAPHS),
    },
    Setting {
        key: "layout",
        help: "How the overview is arranged: \"all\", \"gpus\", \"network\", \"logs\", or a name of your own from the table [layouts]",
        live: true,
        kind: |c| Kind::Words(PRESETS.iter().map(|p| p.name).chain(c.layouts.keys().map(String::as_str)).map(str::to_owned).collect()),
        set: |c, v| {
            // Layouts of the file may be read later than this; whether there is such a one is asked once all is read.
            v.clone_into(&mut c.layout);
            Ok(())
        },
        get: |c| quoted(&c.layout),
    },
    Setting {
        key: "mouse",
        help: "Clicks and the wheel are nccl-top's: true or false; false leaves them to the terminal, for selecting text",
        live: true,
        kind: truths,
        set: |c, v| truth(v).map(|t| c.mouse = t),
        get: |c| c.mouse.to_string(),
    },
    Setting {
        key: "history",
        help: "How far back the live screen can be moved: \"10s\" to \"2h\", as far as a few MiB reach",
        live: true,
        kind: |_| Kind::Steps(&["1m", "5m", "10m", "30m", "60m", "120m"]),
        set: |c, v| duration_within(v, "10s", "2h").map(|d| c.history = d),
        get: |c| duration_text(c.history),
    },
    Setting {
        key: "axis",
        help: "The time that sparklines cover at first: \"30s\" to \"15m\"",
        live: true,
        kind: |_| Kind::Steps(&["30s", "1m", "2m", "5m", "10m", "15m"]),
        set: |c, v| duration_within(v, "30s", "15m").map(|d| c.axis = d),
        get: |c| duration_text(c.axis),
    },
    Setting {
        key: "alert.terminal",
        help: "What the terminal does at a new critical finding: \"off\", \"bell\" or \"note\" (of the desktop, by OSC 9)",
        live: true,
        kind: |_| words(ALERTS),
        set: |c, v| one_of(v, ALERTS).map(|alert| c.alert = alert),
        get: |c| word_of(&c.alert, ALERTS),
    },
    Setting {
        key: "alert.command",
        help: "A program that runs at a new critical finding, as a line for the shell or as a list of words; it gets the finding as JSON",
        live: true,
        kind: |_| Kind::Text,
        set: |c, v| parse_command(v).map(|run| c.routes.run = run),
        get: |c| match &c.routes.run {
            Run::Off => quoted(""),
            Run::Shell(line) => quoted(line),
            Run::Args(words) => format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ")),
        },
    },
    Setting {
        key: "alert.url",
        help: "An address that the JSON of a new critical finding is posted to: a webhook of Slack or its like, or what takes those of Alertmanager",
        live: true,
        kind: |_| Kind::Text,
        set: |c, v| match v.trim() {
            v if v.is_empty() || v.starts_with("https://") || v.starts_with("http://") => {
                v.clone_into(&mut c.routes.url);
                Ok(())
            }
            _ => Err("expected an address that begins with https:// or http://".into()),
        },
        get: |c| quoted(&c.routes.url),
    },
    Setting {
        key: "alert.every",
        help: "At most one of these is sent in this time: \"1s\" to \"24h\"; others wait, and are sent if they are open still",
        live: true,
        kind: |_| Kind::Steps(&["10s", "30s", "1m", "5m", "15m", "60m"]),
        set: |c, v| duration_within(v, "1s", "24h").map(|d| c.alert_every = d),
        get: |c| duration_text(c.alert_every),
    },
];

/// Keys that have another name today.
const FORMER: &[(&str, &str)] = &[("alert", "alert.terminal")];

/// The setting of this key, also by its former name.
pub fn setting(key: &str) -> Option<&'static Setting> {
    let key = FORMER.iter().find(|(former, _)| *former == key).map_or(key, |(_, now)| now);
    SETTINGS.iter().find(|s| s.key == key)
}

/// The former variable of the environment, where there was one.
pub fn former_env(setting: &Setting) -> Option<String> {
    let (former, _) = FORMER.iter().find(|(_, now)| *now == setting.key)?;
    Some(format!("NCCL_TOP_{}", former.to_ascii_uppercase()))
}

/// The table of settings as docs/SETTINGS.md shows it.
pub fn as_markdown() -> String {
    let defaults = Config::default();
    let row = |s: &Setting| {
        let when = if s.live { "at once" } else { "at the next start" };
        format!("| `{}` | `{}` | {} | {when} |\n", s.key, (s.get)(&defaults), s.help)
    };
    let head = "| setting | default | what it is | a change takes effect |\n| --- | --- | --- | --- |\n".to_owned();
    SETTINGS.iter().fold(head, |text, s| text + &row(s))
}
