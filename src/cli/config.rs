//! Settings: flags over environment over the config file over defaults, and where each value came from.
//!
//! **To add a setting**: a field of [`Config`] and a row of [`SETTINGS`]; the file, the environment, what `config init` and `config` write, and
//! the options screen follow from the row, and a test prints the table of `docs/SETTINGS.md`.

mod live;
mod save;
mod table;

use crate::base::file::read_text;
use crate::base::limit;
use crate::edge::courier::{Routes, Run};
use crate::edge::diagnostics::complain;
use crate::edge::private;
use crate::rules::{Rule, settings};
use crate::tui::Alert;
use crate::tui::keys::Keymap;
use crate::tui::layout::{self, Layout, PRESETS, Slot};
use crate::tui::plain::Graphs;
use crate::tui::theme::THEMES;
pub use live::Live;
pub use save::{edit, save};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
pub use table::{SETTINGS, Setting, as_markdown, setting};

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
    /// How the overview is arranged: one of [`PRESETS`], or of `layouts`.
    pub layout: String,
    /// Of the user's own, by name: panes from top to bottom, side by side.
    pub layouts: BTreeMap<String, Vec<Vec<Slot>>>,
    /// Clicks and the wheel are nccl-top's.
    pub mouse: bool,
    pub alert: Alert,
    /// Where new critical findings are sent, and how often at most.
    pub routes: Routes,
    pub alert_every: Duration,
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
            layout: PRESETS[0].name.to_owned(),
            layouts: BTreeMap::new(),
            mouse: true,
            alert: Alert::Off,
            routes: Routes::default(),
            alert_every: Duration::from_secs(60),
            history: Duration::from_secs(600),
            axis: Duration::from_secs(120),
            keys: Keymap::default(),
            rules: limit::Settings::default(),
        }
    }
}

impl Config {
    /// What no setting can check by itself.
    ///
    /// # Errors
    /// What was found and what is expected.
    fn check(&self) -> Result<(), String> {
        let known: Vec<&str> = PRESETS.iter().map(|p| p.name).chain(self.layouts.keys().map(String::as_str)).collect();
        let is_known = known.contains(&self.layout.as_str());
        let expected =
            || format!("layout: found {:?}, expected one of {}, or a name in the table [layouts]", self.layout, known.join(", "));
        if is_known { Ok(()) } else { Err(expected()) }
    }

    fn arranged(&self) -> Layout {
        let own = self.layouts.get(&self.layout).map(|bands| Layout::own(&self.layout, bands.clone()));
        own.unwrap_or_else(|| Layout::preset(&self.layout))
    }

    /// Nothing but ASCII may be drawn.
    pub fn is_ascii(&self) -> bool {
        match self.drawing {
            Drawing::Auto => !crate::tui::plain::is_utf8(&|name| std::env::var(name).ok()),
            Drawing::Unicode => false,
            Drawing::Ascii => true,
        }
    }
}

/// A setting with another value, as the file writes it.
pub type Changed = (&'static str, String);

/// A rule of a node, or of a fleet.
pub fn any_rule(id: &str) -> Option<&'static Rule> {
    crate::rules::rule(id).or_else(|| crate::fleet::rules::rule(id))
}

const MAX_FILE_BYTES: u64 = crate::tui::MAX_CONFIG_BYTES;

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
pub fn sample() -> String {
    let defaults = Config::default();
    let mut out = String::from(
        "# nccl-top's settings with their defaults, as they are without this file. Change what you like: the screen reads it again when it is\n\
         # saved. `nccl-top config` prints the values in effect and where each came from.\n",
    );
    for setting in SETTINGS {
        out.push_str(&format!("\n# {}.\n{} = {}\n", setting.help, setting.key, (setting.get)(&defaults)));
    }
    out + SAMPLE_TABLES + &defaults.keys.toml()
}

/// What the sample says of tables.
const SAMPLE_TABLES: &str = r#"
# Layouts of your own, for the setting layout: rows of panes from top to bottom, side by side in a row; "gpus:2" gets twice the width.
# [layouts]
# mine = [["timeline"], ["gpus:2", "findings"], ["log"]]

# Thresholds of a rule, how bad its findings are, and whether there are any: `nccl-top rules ID` prints what can be set, and the defaults.
# [rules.hang-rank-absent]
# after = "15s"
# severity = "error"
#
# [rules.nvlink-errors]
# mute = true

# Texts of your own are entries in files of their own, ~/.config/nccl-top/catalog/*.toml.

# Keys: a character, f1 to f12 or a name such as enter, pgup, space, with ctrl-, alt- or shift- before it. An empty list: no key.
[keys]
"#;

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
    private::create(&path).and_then(|mut file| file.write_all(sample().as_bytes())).map_err(wrong)?;
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
    Layers::of(file, env, flags).load()
}

/// Where settings come from, to be read more than once.
#[derive(Clone, Debug)]
pub struct Layers {
    /// The config file, whether it is there or not.
    path: Option<PathBuf>,
    /// The user has named it.
    is_named: bool,
    /// By key, with the name of the variable.
    variables: Vec<(&'static str, String, String)>,
    /// By key.
    flags: Vec<(&'static str, String)>,
}

impl Layers {
    /// As [`load`] takes them.
    pub fn of(file: Option<&Path>, env: &dyn Fn(&str) -> Option<String>, flags: &[(&'static str, String)]) -> Layers {
        let variable = |s: &Setting| {
            let names = [Some(s.env()), table::former_env(s)];
            names.into_iter().flatten().find_map(|name| Some((s.key, env(&name)?, name)))
        };
        let variables = SETTINGS.iter().filter_map(variable).map(|(key, value, name)| (key, name, value)).collect();
        let path = file.map(Path::to_path_buf).or_else(|| default_path(env));
        Layers { path, is_named: file.is_some(), variables, flags: flags.to_vec() }
    }

    /// # Errors
    /// If the file cannot be read, or as [`Layers::read`].
    pub fn load(&self) -> Result<(Config, Origins), ConfigError> {
        let Some(path) = &self.path else { return self.read(None) };
        match read_text(path, MAX_FILE_BYTES) {
            Ok(text) => self.read(Some(&text)),
            // With `su` and `sudo -E` the home is that of another user: what lies there was not written for this one.
            Err(_) if !self.is_named && is_closed(path) => {
                complain(&format!("{}: permission denied; going on without it (HOME is another user's?)", path.display()));
                self.read(None)
            }
            Err(_) if !self.is_named && !path.exists() => self.read(None),
            Err(why) => Err(ConfigError(format!("{}: {why}", path.display()))),
        }
    }

    /// [`Layers::load`], with what is left aside reported.
    ///
    /// # Errors
    /// As there.
    pub fn load_at_start(&self) -> Result<(Config, Origins), ConfigError> {
        let (config, origins) = self.load()?;
        if let Some(why) = origins.get("alert.command").filter(|origin| origin.starts_with("off: ")) {
            complain(&format!("alert.command is {why}"));
        }
        Ok((config, origins))
    }

    /// The layers with this text as the file's.
    ///
    /// # Errors
    /// The first value that does not fit, with its place.
    pub fn read(&self, text: Option<&str>) -> Result<(Config, Origins), ConfigError> {
        let mut config = Config::default();
        let mut origins: Origins = SETTINGS.iter().map(|s| (s.key, "default".to_owned())).collect();
        if let (Some(text), Some(path)) = (text, &self.path) {
            apply_file(&mut config, &mut origins, &path.display().to_string(), text)?;
        }
        let variables = self.variables.iter().map(|(key, name, value)| (*key, name.clone(), value));
        for (key, name, value) in variables.chain(self.flags.iter().map(|(key, value)| (*key, format!("--{key}"), value))) {
            if let Some(setting) = setting(key) {
                (setting.set)(&mut config, value).map_err(|e| ConfigError(format!("{name}: {e}")))?;
                origins.insert(setting.key, name);
            }
        }
        let place = origins.get_mut("alert.command").filter(|_| config.routes.run != Run::Off);
        if let Some((place, path)) = place.zip(self.path.as_ref()).filter(|(place, path)| place.starts_with(&*path.to_string_lossy()))
            && let Err(why) = trust(path)
        {
            config.routes.run = Run::Off;
            *place = why;
        }
        config.check().map_err(|why| ConfigError(format!("{}: {why}", origins["layout"])))?;
        Ok((config, origins))
    }
}

/// Whether a file may say what this user runs: nobody else may have written it, but root.
fn trust(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let meta = std::fs::metadata(path).map_err(|err| format!("off: {}: {err}", path.display()))?;
    let (uid, me) = (meta.uid(), rustix::process::geteuid().as_raw());
    if uid != me && uid != 0 {
        return Err(format!("off: {} belongs to user {uid}; set it in a file of your own (--config FILE)", path.display()));
    }
    if meta.mode() & 0o002 != 0 {
        return Err(format!("off: everybody may write {0}; `chmod o-w {0}`", path.display()));
    }
    Ok(())
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
        let table: Option<(&'static str, ReadTable)> = match key.get_ref().as_str() {
            "keys" => Some(("keys", apply_keys)),
            "rules" => Some(("rules", apply_rules)),
            "layouts" => Some(("layouts", apply_layouts)),
            _ => None,
        };
        if let Some((table, read)) = table {
            read(config, name, text, &line_of)?;
            origins.insert(table, format!("{name}:{line}"));
            continue;
        }
        // Settings that stand together in a table.
        let prefix = format!("{}.", key.get_ref());
        let inside = value.get_ref().as_table().filter(|_| SETTINGS.iter().any(|s| s.key.starts_with(&prefix)));
        for (sub, value) in inside.into_iter().flatten() {
            let line = line_of(offset_of(text, key.get_ref(), sub));
            apply_value(config, origins, &format!("{prefix}{sub}"), value, &format!("{name}:{line}"))?;
        }
        if inside.is_none() {
            apply_value(config, origins, key.get_ref(), value.get_ref(), &format!("{name}:{line}"))?;
        }
    }
    Ok(())
}

/// Reads a table of the file: its text, its name, and which line an offset is in.
type ReadTable = fn(&mut Config, &str, &str, &dyn Fn(usize) -> usize) -> Result<(), ConfigError>;

/// Where a key of a table stands in the text.
fn offset_of(text: &str, table: &str, key: &str) -> usize {
    let document = toml_edit::Document::parse(text).ok();
    let span = document.and_then(|document| document.get(table)?.as_table_like()?.key(key)?.span());
    span.map_or(0, |span| span.start)
}

/// One setting of the file; `place` is the file and the line.
fn apply_value(config: &mut Config, origins: &mut Origins, key: &str, value: &toml::Value, place: &str) -> Result<(), ConfigError> {
    let Some(setting) = setting(key) else {
        let known: Vec<&str> = SETTINGS.iter().map(|s| s.key).chain(["keys", "rules", "layouts"]).collect();
        return Err(ConfigError(format!("{place}: unknown setting {key:?}, expected one of {}", known.join(", "))));
    };
    let plain = match value {
        toml::Value::String(s) => s.clone(),
        toml::Value::Array(items) if matches!(setting.key, "logs" | "alert.command") => {
            let strings: Option<Vec<&str>> = items.iter().map(toml::Value::as_str).collect();
            let strings = strings.ok_or_else(|| ConfigError(format!("{place}: {key}: expected a list of strings")))?;
            strings.iter().map(|item| format!("{item}{}", table::LIST)).collect()
        }
        other => other.to_string(),
    };
    (setting.set)(config, &plain).map_err(|e| ConfigError(format!("{place}: {key}: {e}")))?;
    origins.insert(setting.key, place.to_owned());
    Ok(())
}

/// A value of the file as a setting takes it.
fn plain(value: &str) -> String {
    match value.parse::<toml_edit::Value>() {
        Ok(toml_edit::Value::String(text)) => text.into_value(),
        Ok(toml_edit::Value::Array(items)) => items.iter().filter_map(|item| Some(format!("{}{}", item.as_str()?, table::LIST))).collect(),
        _ => value.to_owned(),
    }
}

/// The table `[layouts]`: name = rows of panes.
fn apply_layouts(config: &mut Config, name: &str, text: &str, line_of: &dyn Fn(usize) -> usize) -> Result<(), ConfigError> {
    #[derive(serde::Deserialize)]
    struct Layouts {
        layouts: BTreeMap<toml::Spanned<String>, toml::Value>,
    }
    const EXPECTED: &str = "expected rows of panes, as mine = [[\"timeline\"], [\"gpus:2\", \"log\"]]";
    let read: Layouts =
        toml::from_str(text).map_err(|err| ConfigError(format!("{name}: layouts: {}; expected a table [layouts]", err.message())))?;
    for (key, rows) in read.layouts {
        let wrong = |why: String| ConfigError(format!("{name}:{}: layouts: {}: {why}", line_of(key.span().start), key.get_ref()));
        let rows: Option<Vec<Vec<&str>>> =
            rows.as_array().and_then(|rows| rows.iter().map(|row| row.as_array()?.iter().map(toml::Value::as_str).collect()).collect());
        let rows = rows.ok_or_else(|| wrong(EXPECTED.into()))?;
        let bands = layout::parse(key.get_ref(), &rows).map_err(wrong)?;
        config.layouts.insert(key.get_ref().clone(), bands);
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
    if let Some(origin) = origins.get("layouts") {
        let rows = |bands: &Vec<Vec<Slot>>| {
            let slot = |slot: &Slot| format!("\"{}:{}\"", slot.0, slot.1);
            let row = |row: &Vec<Slot>| format!("[{}]", row.iter().map(slot).collect::<Vec<_>>().join(", "));
            bands.iter().map(row).collect::<Vec<_>>().join(", ")
        };
        let lines = config.layouts.iter().map(|(name, bands)| format!("{} = [{}]\n", table::quoted(name), rows(bands)));
        out.push_str(&format!("\n[layouts]    # from {origin}\n{}", lines.collect::<String>()));
    }
    let origin = origins.get("keys").map_or("default", String::as_str);
    out.push_str(&format!("\n[keys]    # from {origin}\n{}", config.keys.toml()));
    if let Some(origin) = origins.get("rules") {
        out.push_str(&format!("\n# Thresholds and severities of rules, from {origin}{}", settings::toml(&config.rules, any_rule)));
    }
    out
}
