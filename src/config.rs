//! Settings: flags over environment over the config file over defaults, and where each value came from.
//!
//! **To add a setting**: a field of [`Config`] and a row of [`SETTINGS`]; the file, the environment, `--help` of `nccl-top config` and
//! the sample in `assets/config.toml` follow from the row, and a test holds the sample to the defaults.

use crate::time::parse_duration;
use std::collections::BTreeMap;
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Default for Config {
    fn default() -> Self {
        Config { interval: Duration::from_secs(1), utc: false, color: Color::Auto, logs: Vec::new() }
    }
}

/// One setting, complete.
pub struct Setting {
    pub key: &'static str,
    pub env: &'static str,
    pub help: &'static str,
    /// # Errors
    /// What was found and what is expected.
    set: fn(&mut Config, &str) -> Result<(), String>,
    /// The value as the file writes it.
    get: fn(&Config) -> String,
}

pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "interval",
        env: "NCCL_TOP_INTERVAL",
        help: "How often GPUs and ports are read and the screen is drawn: \"500ms\" to \"60s\"",
        set: |c, v| {
            let interval = parse_duration(v)?;
            if !(Duration::from_millis(200)..=Duration::from_secs(60)).contains(&interval) {
                return Err(format!("found {v:?}, expected a duration from \"200ms\" to \"60s\""));
            }
            c.interval = interval;
            Ok(())
        },
        get: |c| {
            format!(
                "{:?}",
                if c.interval.subsec_millis() == 0 {
                    format!("{}s", c.interval.as_secs())
                } else {
                    format!("{}ms", c.interval.as_millis())
                }
            )
        },
    },
    Setting {
        key: "utc",
        env: "NCCL_TOP_UTC",
        help: "Show times in UTC instead of the host's zone: true or false",
        set: |c, v| {
            c.utc = v.parse().map_err(|_| format!("found {v:?}, expected true or false"))?;
            Ok(())
        },
        get: |c| c.utc.to_string(),
    },
    Setting {
        key: "color",
        env: "NCCL_TOP_COLOR",
        help: "\"auto\" (a terminal without NO_COLOR), \"always\" or \"never\"",
        set: |c, v| {
            c.color = match v {
                "auto" => Color::Auto,
                "always" => Color::Always,
                "never" => Color::Never,
                _ => return Err(format!("found {v:?}, expected \"auto\", \"always\" or \"never\"")),
            };
            Ok(())
        },
        get: |c| {
            format!(
                "{:?}",
                match c.color {
                    Color::Auto => "auto",
                    Color::Always => "always",
                    Color::Never => "never",
                }
            )
        },
    },
    Setting {
        key: "logs",
        env: "NCCL_TOP_LOGS",
        help: "Files, globs or directories to follow besides those that are found; in the environment separated by \":\"",
        set: |c, v| {
            // A list from the file comes line by line, so that paths may hold colons.
            c.logs = v.split(if v.contains('\n') { '\n' } else { ':' }).filter(|s| !s.is_empty()).map(str::to_owned).collect();
            Ok(())
        },
        get: |c| format!("{:?}", c.logs),
    },
];

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
        match std::fs::read_to_string(path) {
            Ok(text) => apply_file(&mut config, &mut origins, &path.display().to_string(), &text)?,
            Err(err) if file.is_none() && err.kind() == std::io::ErrorKind::NotFound => {}
            Err(err) => return Err(ConfigError(format!("{}: {}", path.display(), crate::sources::io_words(&err)))),
        }
    }
    for setting in SETTINGS {
        if let Some(value) = env(setting.env) {
            (setting.set)(&mut config, &value).map_err(|e| ConfigError(format!("{}: {e}", setting.env)))?;
            origins.insert(setting.key, setting.env.to_owned());
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

fn apply_file(config: &mut Config, origins: &mut Origins, name: &str, text: &str) -> Result<(), ConfigError> {
    let line_of = |offset: usize| text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
    let table: BTreeMap<toml::Spanned<String>, toml::Spanned<toml::Value>> = toml::from_str(text).map_err(|err| {
        let line = err.span().map_or(1, |s| line_of(s.start));
        ConfigError(format!("{name}:{line}: {}", err.message()))
    })?;
    for (key, value) in table {
        let line = line_of(key.span().start);
        let Some(setting) = SETTINGS.iter().find(|s| s.key == key.get_ref()) else {
            let known: Vec<&str> = SETTINGS.iter().map(|s| s.key).collect();
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
            setting.env,
            setting.key,
            (setting.get)(config)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    fn file(text: &str) -> Result<(Config, Origins), ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, text).unwrap();
        load(Some(&path), &none, &[]).map_err(|e| ConfigError(e.0.replace(&format!("{}/", dir.path().display()), "")))
    }

    #[test]
    fn the_sample_is_the_defaults() {
        let (config, _) = file(include_str!("../assets/config.toml")).unwrap();
        assert_eq!(config, Config::default());
        for setting in SETTINGS {
            assert!(
                include_str!("../assets/config.toml").contains(&format!("\n{} = ", setting.key)),
                "{} is not in the sample",
                setting.key
            );
        }
    }

    #[test]
    fn what_is_printed_is_a_config_file_with_the_same_values() {
        let (config, origins) = file("interval = \"500ms\"\nutc = true\ncolor = \"never\"\nlogs = [\"/a\", \"/b\"]\n").unwrap();
        assert!(origins["utc"].ends_with("/c.toml:2"), "{origins:?}");
        assert_eq!(file(&print(&config, &origins)).unwrap().0, config);
    }

    #[test]
    fn flags_win_over_environment_over_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "interval = \"3s\"\nutc = true\ncolor = \"never\"\n").unwrap();
        let env = |name: &str| match name {
            "NCCL_TOP_INTERVAL" => Some("4s".to_owned()),
            "NCCL_TOP_COLOR" => Some("always".to_owned()),
            _ => None,
        };
        let (config, origins) = load(Some(&path), &env, &[("interval", "5s".into())]).unwrap();
        assert_eq!((config.interval, config.utc, config.color), (Duration::from_secs(5), true, Color::Always));
        assert_eq!([&origins["interval"], &origins["color"], &origins["logs"]], ["--interval", "NCCL_TOP_COLOR", "default"]);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, says) in [
            (
                "utc = false\ninterval = \"2\"\n",
                "c.toml:2: interval: found \"2\", expected a duration such as \"500ms\", \"2s\" or \"10m\"",
            ),
            ("interval = \"1ms\"\n", "c.toml:1: interval: found \"1ms\", expected a duration from \"200ms\" to \"60s\""),
            ("intervall = \"2s\"\n", "c.toml:1: unknown setting \"intervall\", expected one of interval, utc, color, logs"),
            ("\n\ncolor = \"blue\"\n", "c.toml:3: color: found \"blue\", expected \"auto\", \"always\" or \"never\""),
            ("logs = [1]\n", "c.toml:1: logs: expected a list of strings"),
            ("utc = maybe\n", "c.toml:1: "),
        ] {
            let err = file(text).unwrap_err().to_string();
            assert!(err.starts_with(says), "{err}");
        }
        assert_eq!(
            load(Some(Path::new("/nowhere/c.toml")), &none, &[]).unwrap_err().to_string(),
            "/nowhere/c.toml: no such file or directory"
        );
    }
}
