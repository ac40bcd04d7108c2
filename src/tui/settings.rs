//! How the user wants the screen, and how that changes while it runs: by keys, on the options screen, or in the config file.

use super::beside::Work;
use super::choices::{Ask, Content, Sheet};
use super::options::Row;
use super::play::World;
use super::{App, keys, layout, plain, theme};
use crate::base::time::{Zone, parse_duration, span};
use crate::edge::courier::Routes;
use crate::edge::watched;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;
use theme::Theme;

/// A config file is not larger than this.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// What the terminal does at a new critical finding, besides showing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alert {
    Off,
    Bell,
    /// A note of the desktop, where the terminal passes it on (OSC 9).
    Note,
}

/// How the user wants the screen, and what it is of.
pub struct Settings {
    /// Of one of the program's themes, or a path.
    pub theme: String,
    pub depth: theme::Depth,
    /// Nothing but ASCII may be drawn.
    pub ascii: bool,
    pub graphs: plain::Graphs,
    pub keys: keys::Keymap,
    pub mouse: bool,
    /// The terminal is at the end of a line that carries no more than 2,400 bytes a second: what is drawn keeps to that.
    pub slow_line: bool,
    pub alert: Alert,
    /// Where new critical findings are sent, and how often at most.
    pub routes: Routes,
    pub alert_every: Duration,
    pub layout: layout::Layout,
    /// Between two frames.
    pub interval: Duration,
    /// Of the time axis.
    pub axis: Duration,
    /// So much of what is past can be shown again.
    pub history: Duration,
    /// /proc is that of this machine.
    pub is_live: bool,
    /// In which times are shown.
    pub zone: Zone,
}

/// What was done beside the loop, for settings.
pub(super) enum Configured {
    /// They were written there; or why not.
    Saved(Result<PathBuf, String>),
    /// The config file has another text.
    Changed(watched::Text),
}

impl App {
    /// The settings as they are now hold from now on.
    pub(super) fn apply(&mut self, world: &mut World) -> Result<()> {
        let settings = self.options.settings();
        if settings.theme != self.theme_name {
            match Theme::load(&settings.theme, settings.depth) {
                Ok(theme) => (self.theme, self.theme_name) = (theme, settings.theme),
                Err(why) => self.ui.notice = Some(why),
            }
        }
        self.screen.set_drawing(settings.ascii, settings.graphs)?;
        (self.alert, self.interval) = (settings.alert, settings.interval);
        (self.routes, self.alert_every) = (settings.routes, settings.alert_every);
        let ui = &mut self.ui;
        (ui.keys, ui.mouse, ui.window) = (settings.keys, settings.mouse, settings.axis);
        (ui.layout, ui.zone, ui.ascii) = (settings.layout, settings.zone, settings.ascii);
        world.set_pace(settings.history, settings.interval);
        self.show_options();
        Ok(())
    }

    /// For the options screen.
    pub(super) fn show_options(&mut self) {
        self.ui.options = self.options.rows();
        self.ui.config_file = self.options.file();
    }

    /// Gives a setting its next value, or the one before.
    pub(super) fn turn(&mut self, key: &'static str, forward: bool, world: &mut World) -> Result<()> {
        let row = self.ui.options.iter().find(|row| row.key == key);
        match row.map(|row| row.turned(forward)) {
            Some(Some(value)) => self.set(key, &value, world),
            Some(None) => {
                self.ui.notice = Some(format!("{key}: there is no value beyond this one"));
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn set(&mut self, key: &'static str, value: &str, world: &mut World) -> Result<()> {
        let asked = self.ui.prompt.take_if(|prompt| matches!(prompt.kind, Ask::Setting { .. }));
        if let Err(why) = self.options.set(key, value) {
            self.ui.notice = asked.is_none().then(|| format!("{key}: {why}"));
            // It may be mended.
            self.ui.prompt = asked.map(|prompt| super::choices::Prompt { error: Some(why), ..prompt });
            return Ok(());
        }
        self.ui.notice = None;
        self.apply(world)?;
        let row = self.ui.options.iter().find(|row| row.key == key);
        if let Some(words) = row.map(|row| self.words_of(row)).filter(|_| self.ui.notice.is_none()) {
            self.ui.notice = Some(words);
        }
        Ok(())
    }

    /// What a setting is now.
    fn words_of(&self, row: &Row) -> String {
        let later = if row.is_live { "" } else { " (at the next start, once it is saved)" };
        match (row.key, row.value.as_str()) {
            ("mouse", "true") => "mouse on".into(),
            ("mouse", _) => "mouse off: the terminal selects text".into(),
            ("axis", axis) => format!("time axis: {}", parse_duration(axis).map_or(axis.to_owned(), span)),
            ("theme", name) if self.depth == theme::Depth::None => format!("theme {name} (colours are off)"),
            (key, value) => format!("{key} {value}{later}"),
        }
    }

    pub(super) fn save(&mut self) {
        let Some(saving) = self.options.saving() else {
            self.ui.notice = Some("nothing was changed".into());
            return;
        };
        self.ui.notice = Some("writing the config file".into());
        self.beside("config", move |tell| tell(Work::Config(Configured::Saved(saving()))));
    }

    /// Reads the config file again whenever it is saved.
    pub(super) fn follow_config(&self) {
        let Some(path) = self.options.file() else { return };
        let works = self.works.clone();
        let follow = move || watched::follow(&path, MAX_CONFIG_BYTES, |text| works.send(Work::Config(Configured::Changed(text))).is_ok());
        // Without a thread the file is read at the next start.
        self.follows_config.set(std::thread::Builder::new().name("config-file".into()).spawn(follow).ok());
    }

    pub(super) fn configured(&mut self, what: Configured, world: &mut World) -> Result<()> {
        match what {
            Configured::Saved(Ok(path)) => {
                let besides = self.options.saved(&path).map_or(String::new(), |words| format!("; {words}"));
                self.show_options();
                self.note_around("saved to ", &path.display().to_string(), &besides);
                // Its directory may be new.
                if self.follows_config.take().is_none_or(|thread| thread.is_finished()) {
                    self.follow_config();
                }
            }
            Configured::Saved(Err(why)) => self.ui.popup = Some(("The settings were not saved".into(), why)),
            Configured::Changed(text) => {
                let read = text.and_then(|text| self.options.reread(text.as_deref()));
                self.ui.config_error = read.as_ref().err().cloned();
                match read {
                    Ok(words) => {
                        self.apply(world)?;
                        self.ui.notice = words.or(self.ui.notice.take());
                    }
                    Err(why) if self.is_free() => {
                        let text = format!("{why}\n\nThe settings stay as they are. Mend the file and save it again: it is read at once.");
                        self.ui.popup = Some(("The config file cannot be used".into(), text));
                    }
                    Err(why) => self.ui.notice = Some(why),
                }
            }
        }
        self.hold_options(world);
        Ok(())
    }

    /// The cursor of the options screen stays on one of its rows.
    pub(super) fn hold_options(&mut self, world: &World) {
        if self.ui.sheet.as_ref().is_some_and(|Sheet { content, .. }| *content == Content::Options) {
            self.ui.hold_sheet(world.shown(), &self.theme);
        }
    }
}
