//! Settings: flags over environment over the config file over defaults, and where each value came from.
//!
//! **To add a setting**: a field of [`Config`] and a row of [`SETTINGS`]; the file, the environment, `--help` of `nccl-top config` and
//! the sample in `assets/config.toml` follow from the row, and a test holds the sample to the defaults.

use crate::base::file::read_text;
use crate::base::limit;
use crate::base::time::parse_duration;
use crate::edge::diagnostics::complain;
use crate::edge::private;
use crate::rules::{Rule, settings};
use crate::tui::Alert;
use crate::tui::keys::Keymap;
use crate::tui::plain::Graphs;
use crate::tui::theme::{Depth, THEMES, Theme};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The interval of the fast lanes and of the screen.
    pub interval: Duration,
    pub utc: bool,
    pub color: Color,
    /// Followed besides what is found and what the command line names.
    pub logs: Vec<String>,
    /// A theme of the program by name, or the path of a file.
    pub theme: String,
    pub drawing: Drawing,
    pub graphs: Graphs,
    /// Clicks and the wheel are nccl-top's.
    pub mouse: bool,
    pub alert: Alert,
    /// How far back the live screen can be moved.
    pub history: Duration,
    /// The time that sparklines cover at first.
    pub axis: Duration,
    pub keys: Keymap,
    /// Thresholds, severities and what is muted.
    pub rules: limit::Settings,
}

/// Which characters the screen is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// As the locale says.
    Auto,
    Unicode,
    Ascii,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            interval: Duration::from_secs(1),
            utc: false,
            color: Color::Auto,
            logs: Vec::new(),
            theme: THEMES[0].0.to_owned(),
            drawing: Drawing::Auto,
            graphs: Graphs::Braille,
            mouse: true,
            alert: Alert::Off,
            history: Duration::from_secs(600),
            axis: Duration::from_secs(120),
            keys: Keymap::default(),
            rules: limit::Settings::default(),
        }
    }
}

/// One setting, complete.
pub struct Setting {
    pub key: &'static str,
    pub help: &'static str,
    /// # Errors
    /// What was found and what is expected.
    pub set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as the file writes it.
    pub get: fn(&Config) -> String,
}

impl Setting {
    /// The variable of the environment that sets it.
    pub fn env(&self) -> String {
        format!("NCCL_TOP_{}", self.key.to_ascii_uppercase())
    }
}

/// A rule of a node, or of a fleet.
pub fn any_rule(id: &str) -> Option<&'static Rule> {
    crate::rules::rule(id).or_else(|| crate::fleet::rules::rule(id))
}

/// A value that is one of a few words.
fn one_of<T: Copy>(found: &str, words: &[(&str, T)]) -> Result<T, String> {
    let known = || words.iter().map(|(w, _)| format!("{w:?}")).collect::<Vec<_>>().join(", ");
    words.iter().find(|(w, _)| *w == found).map(|(_, v)| *v).ok_or_else(|| format!("found {found:?}, expected one of {}", known()))
}

fn word_of<T: PartialEq>(value: &T, words: &[(&str, T)]) -> String {
    words.iter().find(|(_, v)| v == value).map_or(String::new(), |(w, _)| format!("{w:?}"))
}

fn truth(found: &str) -> Result<bool, String> {
    found.parse().map_err(|_| format!("found {found:?}, expected true or false"))
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

const COLORS: &[(&str, Color)] = &[("auto", Color::Auto), ("always", Color::Always), ("never", Color::Never)];
const DRAWINGS: &[(&str, Drawing)] = &[("auto", Drawing::Auto), ("unicode", Drawing::Unicode), ("ascii", Drawing::Ascii)];
const GRAPHS: &[(&str, Graphs)] = &[("braille", Graphs::Braille), ("block", Graphs::Block), ("ascii", Graphs::Ascii)];
const ALERTS: &[(&str, Alert)] = &[("off", Alert::Off), ("bell", Alert::Bell), ("note", Alert::Note)];

pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "interval",
        help: "How often GPUs and ports are read and the screen is drawn: \"200ms\" to \"60s\"",
        set: |c, v| duration_within(v, "200ms", "60s").map(|d| c.interval = d),
        get: |c| duration_text(c.interval),
    },
    Setting {
        key: "utc",
        help: "Show times in UTC instead of the host's zone: true or false",
        set: |c, v| truth(v).map(|t| c.utc = t),
        get: |c| c.utc.to_string(),
    },
    Setting {
        key: "logs",
        help: "Files, globs or directories to follow besides those that are found; in the environment separated by \":\"",
        set: |c, v| {
            // A list from the file comes line by line, so that paths may hold colons.
            c.logs = v.split(if v.contains('\n') { '\n' } else { ':' }).filter(|s| !s.is_empty()).map(str::to_owned).collect();
            Ok(())
        },
        get: |c| format!("{:?}", c.logs),
    },
    Setting {
        key: "theme",
        help: "One of the themes that \"nccl-top --help\" names, or the path of a file like those in assets/themes",
        set: |c, v| {
            let home = std::env::var("HOME").unwrap_or_default();
            c.theme = v.strip_prefix("~/").map_or(v.to_owned(), |rest| format!("{home}/{rest}"));
            Theme::load(&c.theme, Depth::True).map(drop)
        },
        get: |c| format!("{:?}", c.theme),
    },
    Setting {
        key: "color",
        help: "\"auto\" (a terminal without NO_COLOR), \"always\" or \"never\"",
        set: |c, v| one_of(v, COLORS).map(|color| c.color = color),
        get: |c| word_of(&c.color, COLORS),
    },
    Setting {
        key: "drawing",
        help: "\"auto\" (as the locale says), \"unicode\" or \"ascii\"",
        set: |c, v| one_of(v, DRAWINGS).map(|drawing| c.drawing = drawing),
        get: |c| word_of(&c.drawing, DRAWINGS),
    },
    Setting {
        key: "graphs",
        help: "What graphs are drawn with: \"braille\", \"block\" (for fonts without braille) or \"ascii\"",
        set: |c, v| one_of(v, GRAPHS).map(|graphs| c.graphs = graphs),
        get: |c| word_of(&c.graphs, GRAPHS),
    },
    Setting {
        key: "mouse",
        help: "Clicks and the wheel are nccl-top's: true or false; false leaves them to the terminal, for selecting text",
        set: |c, v| truth(v).map(|t| c.mouse = t),
        get: |c| c.mouse.to_string(),
    },
    Setting {
        key: "alert",
        help: "What a new critical finding does besides being shown: \"off\", \"bell\" or \"note\" (of the desktop, by OSC 9)",
        set: |c, v| one_of(v, ALERTS).map(|alert| c.alert = alert),
        get: |c| word_of(&c.alert, ALERTS),
    },
    Setting {
        key: "history",
        help: "How far back the live screen can be moved: \"10s\" to \"2h\", as far as a few MiB reach",
        set: |c, v| duration_within(v, "10s", "2h").map(|d| c.history = d),
        get: |c| duration_text(c.history),
    },
    Setting {
        key: "axis",
        help: "The time that sparklines cover at first: \"30s\" to \"15m\"",
        set: |c, v| duration_within(v, "30s", "15m").map(|d| c.axis = d),
        get: |c| duration_text(c.axis),
    },
];

const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where a value came from, for `nccl-top config`.
pub type Origins = BTreeMap<&'static str, String>;

/// What is wrong with a config file, environment variable or flag. Names the place, what was found and what is expected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// `$XDG_CONFIG_HOME/nccl-top/config.toml`, else `~/.config/nccl-top/config.toml`.
pub fn default_path(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let base = env("XDG_CONFIG_HOME")
        .filter(|v| v.starts_with('/'))
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env("HOME")?).join(".config")))?;
    Some(base.join("nccl-top/config.toml"))
}

/// The config file that `config init` writes: every setting with its default and what it means.
const SAMPLE: &str = include_str!("../../assets/config.toml");

/// Writes the sample to `file`, else to where the config is looked for. Returns the path.
///
/// # Errors
/// If there is such a file, or it cannot be written.
pub fn init(file: Option<&Path>, env: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, String> {
    let path = file.map(Path::to_path_buf).or_else(|| default_path(env)).ok_or("HOME is not set; name a file with --config FILE")?;
    let shown = path.display().to_string();
    let wrong = |err: std::io::Error| format!("{shown}: {err}");
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(wrong)?;
    }
    private::create(&path).and_then(|mut file| file.write_all(SAMPLE.as_bytes())).map_err(wrong)?;
    Ok(path)
}

/// Puts the layers together. `file` names a config file that must exist; without it the default one is read if it exists. `flags` are
/// the settings given on the command line, by key.
///
/// # Errors
/// The first value that does not fit, with its place.
pub fn load(
    file: Option<&Path>,
    env: &dyn Fn(&str) -> Option<String>,
    flags: &[(&'static str, String)],
) -> Result<(Config, Origins), ConfigError> {
    let mut config = Config::default();
    let mut origins: Origins = SETTINGS.iter().map(|s| (s.key, "default".to_owned())).collect();
    let default = default_path(env);
    if let Some(path) = file.or(default.as_deref()) {
        match read_text(path, MAX_FILE_BYTES) {
            Ok(text) => apply_file(&mut config, &mut origins, &path.display().to_string(), &text)?,
            // With `su` and `sudo -E` the home is that of another user: what lies there was not written for this one.
            Err(_) if file.is_none() && is_closed(path) => {
                complain(&format!("{}: permission denied; going on without it (HOME is another user's?)", path.display()));
            }
            Err(_) if file.is_none() && !path.exists() => {}
            Err(why) => return Err(ConfigError(format!("{}: {why}", path.display()))),
        }
    }
    for setting in SETTINGS {
        if let Some(value) = env(&setting.env()) {
            (setting.set)(&mut config, &value).map_err(|e| ConfigError(format!("{}: {e}", setting.env())))?;
            origins.insert(setting.key, setting.env());
        }
    }
    for (key, value) in flags {
        if let Some(setting) = SETTINGS.iter().find(|s| s.key == *key) {
            (setting.set)(&mut config, value).map_err(|e| ConfigError(format!("--{key}: {e}")))?;
            origins.insert(setting.key, format!("--{key}"));
        }
    }
    Ok((config, origins))
}

/// This user may not read it, whether it is there or not.
pub fn is_closed(path: &Path) -> bool {
    crate::base::file::open(path).is_err_and(|err| err.kind() == std::io::ErrorKind::PermissionDenied)
}

/// The keys of the table `[keys]`: action = list of keys.
fn apply_keys(config: &mut Config, name: &str, text: &str, line_of: &dyn Fn(usize) -> usize) -> Result<(), ConfigError> {
    #[derive(serde::Deserialize)]
    struct Keys {
        keys: BTreeMap<toml::Spanned<String>, toml::Spanned<toml::Value>>,
    }
    let table: Keys =
        toml::from_str(text).map_err(|err| ConfigError(format!("{name}: keys: {}; expected a table [keys]", err.message())))?;
    let mut last = 1;
    for (action, keys) in table.keys {
        let line = line_of(action.span().start);
        last = last.max(line);
        let wrong = |why: String| ConfigError(format!("{name}:{line}: keys: {why}"));
        let list: Option<Vec<&str>> = match keys.get_ref() {
            toml::Value::String(one) => Some(vec![one.as_str()]),
            toml::Value::Array(items) => items.iter().map(toml::Value::as_str).collect(),
            _ => None,
        };
        let list =
            list.ok_or_else(|| wrong(format!("{}: expected a key or a list of keys such as [\"q\", \"ctrl-c\"]", action.get_ref())))?;
        config.keys.bind(action.get_ref(), &list).map_err(wrong)?;
    }
    config.keys.check().map_err(|why| ConfigError(format!("{name}:{last}: keys: {why}")))
}

/// The tables `[rules.ID]`.
fn apply_rules(config: &mut Config, name: &str, text: &str, line_of: &dyn Fn(usize) -> usize) -> Result<(), ConfigError> {
    type Tables = BTreeMap<String, BTreeMap<toml::Spanned<String>, toml::Value>>;
    #[derive(serde::Deserialize)]
    struct Rules {
        rules: Tables,
    }
    let read: Rules = toml::from_str(text)
        .map_err(|err| ConfigError(format!("{name}: rules: {}; expected tables such as [rules.hang-rank-absent]", err.message())))?;
    for (rule, keys) in read.rules {
        for (key, value) in keys {
            let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let place = line_of(key.span().start);
            settings::set(&mut config.rules, any_rule, &rule, key.get_ref(), &plain)
                .map_err(|why| ConfigError(format!("{name}:{place}: rules.{rule}: {why}")))?;
        }
    }
    Ok(())
}

fn apply_file(config: &mut Config, origins: &mut Origins, name: &str, text: &str) -> Result<(), ConfigError> {
    let line_of = |offset: usize| text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
    let table: BTreeMap<toml::Spanned<String>, toml::Spanned<toml::Value>> = toml::from_str(text).map_err(|err| {
        let line = err.span().map_or(1, |s| line_of(s.start));
        ConfigError(format!("{name}:{line}: {}", err.message()))
    })?;
    for (key, value) in table {
        let line = line_of(key.span().start);
        if key.get_ref() == "keys" {
            apply_keys(config, name, text, &line_of)?;
            origins.insert("keys", format!("{name}:{line}"));
            continue;
        }
        if key.get_ref() == "rules" {
            apply_rules(config, name, text, &line_of)?;
            origins.insert("rules", format!("{name}:{line}"));
            continue;
        }
        let Some(setting) = SETTINGS.iter().find(|s| s.key == key.get_ref()) else {
            let known: Vec<&str> = SETTINGS.iter().map(|s| s.key).chain(["keys", "rules"]).collect();
            return Err(ConfigError(format!("{name}:{line}: unknown setting {:?}, expected one of {}", key.get_ref(), known.join(", "))));
        };
        let plain = match value.get_ref() {
            toml::Value::String(s) => s.clone(),
            toml::Value::Array(items) if setting.key == "logs" => {
                let strings: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
                strings.ok_or_else(|| ConfigError(format!("{name}:{line}: {}: expected a list of strings", setting.key)))?.join("\n") + "\n"
            }
            other => other.to_string(),
        };
        (setting.set)(config, &plain).map_err(|e| ConfigError(format!("{name}:{line}: {}: {e}", setting.key)))?;
        origins.insert(setting.key, format!("{name}:{line}"));
    }
    Ok(())
}

/// The effective settings as a config file, each with its origin.
pub fn print(config: &Config, origins: &Origins) -> String {
    let mut out = String::new();
    for setting in SETTINGS {
        let origin = origins.get(setting.key).map_or("default", String::as_str);
        out.push_str(&format!(
            "# {}. Environment: {}\n{} = {}    # from {origin}\n",
            setting.help,
            setting.env(),
            setting.key,
            (setting.get)(config)
        ));
    }
    let origin = origins.get("keys").map_or("default", String::as_str);
    out.push_str(&format!("\n[keys]    # from {origin}\n{}", config.keys.toml()));
    if let Some(origin) = origins.get("rules") {
        out.push_str(&format!("\n# Thresholds and severities of rules, from {origin}{}", settings::toml(&config.rules, any_rule)));
    }
    out
}
