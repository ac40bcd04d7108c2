//! The settings while the program runs: changed on the screen, saved, and read again when the file changes.

use super::{Changed, Config, Layers, Origins, save, table};
use crate::base::time::Zone;
use crate::tui::options::{Options, Row, Saving};
use crate::tui::theme::Depth;
use crate::tui::{self, Settings};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct Live {
    /// What the command line, the environment and the file say, as they were read last.
    read: Config,
    /// What was read or saved last, of each setting.
    base: Config,
    origins: Origins,
    /// What holds.
    now: Config,
    layers: Layers,
    depth: Depth,
    slow_line: bool,
    /// /proc is that of this machine.
    is_live: bool,
    /// Of the host that is shown.
    zone: Zone,
    /// Of the time axis, unless the user has said which.
    axis: Option<Duration>,
}

impl Live {
    pub fn new(config: Config, origins: Origins, layers: Layers, depth: Depth, slow_line: bool, is_live: bool, zone: Zone) -> Live {
        Live { read: config.clone(), base: config.clone(), origins, now: config, layers, depth, slow_line, is_live, zone, axis: None }
    }

    /// Of the time axis, unless the user has said which.
    pub fn default_axis(&mut self, axis: Duration) {
        self.axis = Some(axis);
        for config in [&mut self.read, &mut self.base, &mut self.now] {
            prefer_axis(config, &self.origins, self.axis);
        }
    }

    fn changed(&self) -> Vec<Changed> {
        let changed = table::SETTINGS.iter().filter(|s| (s.get)(&self.base) != (s.get)(&self.now));
        changed.map(|s| (s.key, (s.get)(&self.now))).collect()
    }
}

fn prefer_axis(config: &mut Config, origins: &Origins, axis: Option<Duration>) {
    let is_default = origins.get("axis").is_some_and(|origin| origin == "default");
    if let Some(axis) = axis.filter(|_| is_default) {
        config.axis = axis;
    }
}

/// A value as it is typed: paths with colons between them, the words of a command as the file has them.
fn typed(key: &str, value: &str) -> String {
    match value.parse::<toml_edit::Value>() {
        Ok(toml_edit::Value::String(text)) => text.into_value(),
        Ok(toml_edit::Value::Array(items)) if key == "logs" => {
            items.iter().filter_map(toml_edit::Value::as_str).collect::<Vec<_>>().join(":")
        }
        _ => value.to_owned(),
    }
}

impl Options for Live {
    fn rows(&self) -> Vec<Row> {
        let row = |s: &table::Setting| Row {
            key: s.key,
            help: s.help,
            value: typed(s.key, &(s.get)(&self.now)),
            kind: (s.kind)(&self.now),
            is_live: s.live,
            is_unsaved: (s.get)(&self.base) != (s.get)(&self.now),
            origin: self.origins.get(s.key).cloned().unwrap_or_default(),
        };
        table::SETTINGS.iter().map(row).collect()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let setting = table::setting(key).ok_or_else(|| format!("there is no setting {key:?}"))?;
        let mut next = self.now.clone();
        (setting.set)(&mut next, value)?;
        next.check()?;
        self.now = next;
        Ok(())
    }

    fn settings(&self) -> Settings {
        let config = &self.now;
        Settings {
            theme: config.theme.clone(),
            depth: self.depth,
            ascii: config.is_ascii(),
            graphs: config.graphs,
            keys: config.keys.clone(),
            mouse: config.mouse,
            slow_line: self.slow_line,
            alert: config.alert,
            routes: config.routes.clone(),
            alert_every: config.alert_every,
            layout: config.arranged(),
            interval: config.interval,
            axis: config.axis,
            history: config.history,
            is_live: self.is_live,
            zone: if config.utc { Zone::UTC } else { self.zone },
        }
    }

    fn saving(&self) -> Option<Saving> {
        let changes = self.changed();
        let path = self.layers.path.clone();
        (!changes.is_empty()).then(|| -> Saving {
            Box::new(move || match path {
                Some(path) => save::save(&path, &changes),
                None => Err("HOME is not set; name a file with --config FILE".into()),
            })
        })
    }

    fn saved(&mut self, path: &Path) -> Option<String> {
        let mut wins = None;
        for (key, value) in self.changed() {
            let origin = self.origins.entry(key).or_default();
            // What the command line or the environment says wins over the file again, at the next start.
            if origin.starts_with("--") || origin.starts_with("NCCL_TOP_") {
                wins.get_or_insert_with(|| format!("{origin} wins over it at the next start"));
            } else if let Some(setting) = table::setting(key) {
                let _ = (setting.set)(&mut self.read, &super::plain(&value));
            }
            *origin = path.display().to_string();
        }
        self.base = self.now.clone();
        wins
    }

    fn file(&self) -> Option<PathBuf> {
        self.layers.path.clone()
    }

    fn reread(&mut self, text: Option<&str>) -> Result<Option<String>, String> {
        let (mut next, origins) = self.layers.read(text).map_err(|err| err.to_string())?;
        prefer_axis(&mut next, &origins, self.axis);
        let mut at_once = Vec::new();
        let mut later = Vec::new();
        let (mut base, mut now) = (self.base.clone(), self.now.clone());
        for setting in table::SETTINGS {
            let value = (setting.get)(&next);
            if value == (setting.get)(&self.read) {
                continue;
            }
            (setting.set)(&mut base, &super::plain(&value))?;
            let differs = value != (setting.get)(&self.now);
            (setting.set)(&mut now, &super::plain(&value))?;
            if differs {
                if setting.live { &mut at_once } else { &mut later }.push(setting.key);
            }
        }
        for (is_other, name) in [(next.keys != self.read.keys, "keys"), (next.layouts != self.read.layouts, "layouts")] {
            if is_other {
                at_once.push(name);
            }
        }
        if next.rules != self.read.rules {
            later.push("rules");
        }
        (now.keys, now.layouts, now.rules) = (next.keys.clone(), next.layouts.clone(), next.rules.clone());
        // A layout that was chosen on the screen may be gone from the file.
        if now.check().is_err() {
            now.layout.clone_from(&next.layout);
        }
        (self.read, self.base, self.now, self.origins) = (next, base, now, origins);
        Ok(tui::options::reread_words(&at_once, &later))
    }
}
