//! The options screen: every setting with its value, what it can be and what it means.

use super::Settings;
use super::actions::Action;
use super::choices::{Sheet, Ui};
use super::details::Entry;
use super::sheet::holds;
use super::theme::Theme;
use crate::base::clean::clean;
use crate::base::time::parse_duration;
use crate::base::words::wrap;
use crate::edge::courier;
use ratatui::text::{Line, Span};
use std::path::{Path, PathBuf};
use unicode_width::UnicodeWidthStr;

/// What a setting can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of these; behind the last one comes the first.
    Words(Vec<String>),
    /// A duration; arrows go to the next of these.
    Steps(&'static [&'static str]),
    /// Whatever is typed.
    Text,
}

/// A setting as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: &'static str,
    pub help: &'static str,
    /// As it is typed.
    pub value: String,
    pub kind: Kind,
    /// A change takes effect at once; else at the next start.
    pub is_live: bool,
    /// It was changed on the screen, and not saved.
    pub is_unsaved: bool,
    /// Where it comes from: `default`, a file and line, a variable, an option.
    pub origin: String,
}

impl Row {
    /// The value after this one, or before it; `None` where there is none, or it is to be typed.
    pub fn turned(&self, forward: bool) -> Option<String> {
        match &self.kind {
            Kind::Words(words) => {
                let now = words.iter().position(|word| *word == self.value);
                let by = if forward { 1 } else { words.len() - 1 };
                words.get(now.map_or(0, |now| (now + by) % words.len())).cloned()
            }
            Kind::Steps(steps) => {
                let now = parse_duration(&self.value).ok()?;
                let far = |step: &&&str| parse_duration(step).is_ok_and(|step| if forward { step > now } else { step < now });
                let next = if forward { steps.iter().find(far) } else { steps.iter().rev().find(far) };
                next.map(|step| (*step).to_owned())
            }
            Kind::Text => None,
        }
    }
}

/// Writes the config file, and returns which one; to be run where it may block.
pub type Saving = Box<dyn FnOnce() -> Result<PathBuf, String> + Send>;

/// The settings behind the screen.
pub trait Options {
    fn rows(&self) -> Vec<Row>;

    /// Changes one for as long as the program runs, or until it is saved.
    ///
    /// # Errors
    /// What was found and what is expected.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String>;

    /// The screen as they ask for it.
    fn settings(&self) -> Settings;

    /// How to write what was changed to the config file; `None`: nothing was.
    fn saving(&self) -> Option<Saving>;

    /// It was written there. What is to be known of it besides.
    fn saved(&mut self, path: &Path) -> Option<String>;

    /// The config file, whether it is there or not.
    fn file(&self) -> Option<PathBuf>;

    /// The file has this text now, or is gone. What changed in it holds from now on, and is returned in words.
    ///
    /// # Errors
    /// If it cannot be used, with its line: then all stays as it is.
    fn reread(&mut self, text: Option<&str>) -> Result<Option<String>, String>;
}

/// Which settings of a config file that was read again hold now, and which hold later.
pub fn reread_words(at_once: &[&str], later: &[&str]) -> Option<String> {
    let parts = [(at_once, "in effect"), (later, "takes effect at the next start")];
    let parts: Vec<String> =
        parts.iter().filter(|(keys, _)| !keys.is_empty()).map(|(keys, when)| format!("{}: {when}", keys.join(", "))).collect();
    (!parts.is_empty()).then(|| format!("the config file was read again; {}", parts.join("; ")))
}

/// The row below all settings.
const SAVE: &str = "save";
/// Columns of key and value.
const KEY: usize = 16;
const VALUE: usize = 22;

/// What a line of the screen is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picked {
    Setting(Row),
    Save,
}

/// What passes the search of the sheet.
fn shown<'a>(ui: &'a Ui, only: &str) -> Vec<&'a Row> {
    ui.options.iter().filter(|row| holds(&format!("{} {} {}", row.key, row.value, row.help), only)).collect()
}

/// What the cursor is on.
pub fn picked(ui: &Ui, sheet: &Sheet) -> Picked {
    shown(ui, &sheet.only).get(sheet.cursor).map_or(Picked::Save, |row| Picked::Setting((*row).clone()))
}

/// Lines that the cursor can be on.
pub fn rows(ui: &Ui, sheet: &Sheet) -> usize {
    shown(ui, &sheet.only).len() + 1
}

/// The row at a line: below the row that the cursor is on stands what is to be known of it.
pub fn row_at(ui: &Ui, sheet: &Sheet, line: usize, width: usize) -> usize {
    let more = about(ui, sheet, width).len();
    if line <= sheet.cursor { line } else { line.saturating_sub(more).max(sheet.cursor) }
}

/// What is to be known of the setting that the cursor is on.
pub fn about(ui: &Ui, sheet: &Sheet, width: usize) -> Vec<String> {
    let Picked::Setting(row) = picked(ui, sheet) else { return Vec::new() };
    let mut texts = vec![format!("{}.", row.help)];
    match &row.kind {
        Kind::Words(words) => texts.push(words.join(" · ")),
        Kind::Steps(_) => {}
        Kind::Text => texts.push("enter: type it".into()),
    }
    let when = if row.is_live { "" } else { "; a change takes effect at the next start" };
    texts.push(format!("from {}{}{when}", row.origin, if row.is_unsaved { ", changed since and not saved" } else { "" }));
    texts.iter().flat_map(|text| wrap(&clean(text), width.saturating_sub(4).max(20))).collect()
}

/// Title and lines for this width.
pub fn lines(ui: &Ui, theme: &Theme, sheet: &Sheet, width: usize) -> (String, Vec<Entry>) {
    let plain = |line: Line<'static>| Entry { line, to: None };
    let mut entries = Vec::new();
    for (no, row) in shown(ui, &sheet.only).into_iter().enumerate() {
        // What stands behind the host of such an address is often a secret, and screens are shown to others.
        let is_address = row.key == "alert.url" && !row.value.is_empty();
        let value = if is_address { format!("{} …", courier::host_of(&row.value)) } else { row.value.clone() };
        let value = clean(&value);
        let value = super::widgets::shorten(if value.is_empty() { "–" } else { &value }, VALUE - 4);
        let value = if row.kind == Kind::Text { format!("  {value}") } else { format!("‹ {value} ›") };
        let gap = " ".repeat(VALUE.saturating_sub(value.width()));
        let mark = if row.is_unsaved { "* " } else { "  " };
        let style = if row.is_unsaved { theme.look } else { theme.accent };
        let spans = vec![
            Span::styled(format!("{mark}{:<KEY$}", row.key), theme.text),
            Span::styled(format!("{value}{gap}"), style),
            Span::styled(row.help, theme.dim),
        ];
        entries.push(plain(Line::from(spans)));
        if no == sheet.cursor {
            entries.extend(about(ui, sheet, width).into_iter().map(|text| plain(Line::styled(format!("    {text}"), theme.text))));
        }
    }
    let changed = ui.options.iter().filter(|row| row.is_unsaved).count();
    let file = ui.config_file.as_ref().map_or("the config file".into(), |path| path.display().to_string());
    let key = ui.keys.words(Action::Sort).first().map_or(String::new(), |key| format!(" or {key}"));
    let words = match changed {
        0 => format!("nothing changed; settings are in {file}"),
        n => format!("enter{key}: write {n} changed to {file}"),
    };
    let style = if changed > 0 { theme.look } else { theme.dim };
    entries.push(plain(Line::from(vec![
        Span::styled(format!("  {SAVE:<KEY$}"), theme.text),
        Span::styled(clean(&words).into_owned(), style),
    ])));
    for why in [&ui.config_error, &ui.alert_error].into_iter().flatten() {
        let wrapped = wrap(&clean(why), width.saturating_sub(4).max(20));
        entries.extend(wrapped.into_iter().map(|text| plain(Line::styled(format!("  {text}"), theme.act))));
    }
    ("Options: ← → change, at once".into(), entries)
}
