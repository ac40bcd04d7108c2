//! Users' own entries: files in the format of the catalogue, from `~/.config/nccl-top/catalog/*.toml` and `--catalog FILE`.
//!
//! They add entries, replace built-in ones of the same id, mute some (`mute = ["id"]`: recognised, and never a finding) and change
//! severities (`[severity]`, `id = "info"`). A later file wins over an earlier one. `assets/catalog-sample.toml` shows all of it.
//! They are read once, before anything else, and live as long as the program.

use super::entry::{Signature, Table, Words};
use super::format::{self, Mistake};
use super::grams::Indexes;
use super::pattern::leak;
use super::{Severity, builtin};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

const MOST_ENTRIES: usize = 2000;
/// What an entry of a user need not say.
const BASE: &str = "severity = \"warning\"\npart = \"cause\"\nsource = \"your own catalogue\"\nversions = \"all\"\n";

/// What users' files say.
#[derive(Debug, Default)]
pub struct Users {
    pub(super) tables: Vec<&'static Table>,
    pub(super) words: Vec<&'static Words>,
    pub(super) indexes: Option<Indexes>,
    /// Built-in entries that a user's stand in for.
    replaced: BTreeSet<&'static str>,
    /// Copies of entries that were muted or have another severity.
    changed: BTreeMap<&'static str, &'static Signature>,
    has_mutes: bool,
}

static NONE: Users =
    Users { tables: Vec::new(), words: Vec::new(), indexes: None, replaced: BTreeSet::new(), changed: BTreeMap::new(), has_mutes: false };
static USERS: OnceLock<Users> = OnceLock::new();

pub(super) fn users() -> &'static Users {
    USERS.get().unwrap_or(&NONE)
}

/// Puts users' entries into use, for the whole program. Only the first call counts; it comes before anything is looked up.
pub fn install(users: Users) {
    let _ = USERS.set(users);
}

impl Users {
    /// Whether a built-in entry is not replaced.
    pub(super) fn is_in_use(&self, built_in: &Signature) -> bool {
        self.replaced.is_empty() || !self.replaced.contains(built_in.id)
    }

    /// The entry as the user wants it.
    pub(super) fn changed(&self, s: &'static Signature) -> &'static Signature {
        if self.changed.is_empty() { s } else { self.changed.get(s.id).copied().unwrap_or(s) }
    }
}

/// Whether the user has muted anything.
pub fn has_mutes() -> bool {
    users().has_mutes
}

/// The severity that the user gave an entry, by a setting or by an entry of that id.
pub fn severity_of(id: &str) -> Option<Severity> {
    let own = || users().tables.iter().flat_map(|table| table.rows).find(|s| s.id == id);
    users().changed.get(id).copied().or_else(own).map(|s| s.severity)
}

/// What is wrong with a user's file: the file, the line, the key, and what to do.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct CatalogError(String);

/// What an entry needs to know of the rule that its findings stand under.
#[derive(Clone, Copy, Debug)]
pub struct RuleName {
    pub id: &'static str,
    /// What to do, where the entry does not name it.
    pub advice: &'static str,
}

/// Reads files, each with the name to show it by, in order.
///
/// # Errors
/// The first mistake.
pub fn read(files: &[(String, String)], rules: &[RuleName]) -> Result<Users, CatalogError> {
    let mut read = Reading { rules, files: Vec::new(), words: Vec::new() };
    for (path, text) in files {
        read.file(path, text).map_err(|m| CatalogError(format!("{path}:{}: {m}", m.line)))?;
    }
    read.users()
}

/// Files, one after the other.
struct Reading<'a> {
    rules: &'a [RuleName],
    files: Vec<ReadFile>,
    words: Vec<&'static Words>,
}

struct ReadFile {
    path: &'static str,
    file: format::File,
}

impl Reading<'_> {
    fn rule(&self, id: &str) -> Option<&RuleName> {
        self.rules.iter().find(|rule| rule.id == id)
    }

    fn nearest(&self, id: &str) -> String {
        super::nearest(id, self.rules.iter().map(|rule| rule.id))
    }

    fn file(&mut self, path: &str, text: &str) -> Result<(), Mistake> {
        let known: Vec<&str> = builtin().words.iter().chain(self.words.iter().copied()).map(|w| w.name).collect();
        let mut file = format::read(text, BASE, &known)?;
        for (line, row) in &mut file.rows {
            let rule = self.rule(row.rule).ok_or_else(|| Mistake {
                line: *line,
                key: format!("entry {}: rule", row.id),
                what: format!("no rule {:?}; nccl-top rules lists them, nccl-warn is the one for everything else", row.rule),
            })?;
            if row.next.is_empty() {
                row.next = rule.advice;
            }
        }
        self.words.extend(std::mem::take(&mut file.words).into_iter().map(|w| &*Box::leak(Box::new(w))));
        self.files.push(ReadFile { path: leak(path), file });
        let entries: usize = self.files.iter().map(|f| f.file.rows.len()).sum();
        if entries > MOST_ENTRIES {
            let what = format!("{entries} entries of users, at most {MOST_ENTRIES} are allowed; remove some");
            return Err(Mistake { line: 1, key: "entry".into(), what });
        }
        Ok(())
    }

    fn users(self) -> Result<Users, CatalogError> {
        let mut users = Users { words: self.words.clone(), ..Users::default() };
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (no, read) in self.files.iter().enumerate() {
            last.extend(read.file.rows.iter().map(|(_, row)| (row.id, no)));
        }
        let built_in = |id: &str| builtin().tables.iter().flat_map(|t| t.rows).find(|s| s.id == id);
        let mut rows: BTreeMap<&str, &'static Signature> = BTreeMap::new();
        for (no, read) in self.files.iter().enumerate() {
            let own = read.file.rows.iter().filter(|(_, row)| last[row.id] == no).map(|(_, row)| row.clone());
            let own: &'static [Signature] = Vec::leak(own.collect());
            rows.extend(own.iter().map(|row| (row.id, row)));
            users.replaced.extend(own.iter().map(|row| row.id).filter(|id| built_in(id).is_some()));
            let name = Path::new(read.path).file_name().map_or(read.path.into(), |name| name.to_string_lossy());
            let title = read.file.title.unwrap_or_else(|| leak(&name));
            users.tables.push(Box::leak(Box::new(Table { title, file: read.path, is_users: true, rows: own })));
        }
        if !rows.is_empty() {
            users.indexes = Some(Indexes::of(Vec::leak(users.tables.clone())));
        }
        let by_id = |id: &str| rows.get(id).copied().or_else(|| built_in(id));
        let is_known = |id: &&&str| by_id(id).is_some() || self.rule(id).is_some();
        for read in &self.files {
            let wrong = |line: usize, what: String| Err(CatalogError(format!("{}:{line}: {what}", read.path)));
            for (line, row) in &read.file.rows {
                if let Some(id) = row.yields_to.iter().chain(row.explains).chain(row.causes).chain(row.hints).find(|id| !is_known(id)) {
                    return wrong(*line, format!("entry {}: no rule and no entry {id:?}; {}", row.id, self.nearest(id)));
                }
            }
            let mutes = read.file.mute.iter().map(|(line, id)| (*line, id, None));
            for (line, id, severity) in mutes.chain(read.file.severity.iter().map(|(line, id, s)| (*line, id, Some(*s)))) {
                let key = if severity.is_some() { "severity" } else { "mute" };
                let Some(known) = users.changed.get(id.as_str()).copied().or_else(|| by_id(id)) else {
                    let is_rule = self.rule(id).is_some();
                    let why = if is_rule {
                        "is a rule; name entries that stand under it".into()
                    } else {
                        format!("is no entry; {}", self.nearest(id))
                    };
                    return wrong(line, format!("{key}: {id:?} {why}"));
                };
                let muted = known.muted || severity.is_none();
                let copy = Signature { muted, severity: severity.unwrap_or(known.severity), ..known.clone() };
                users.has_mutes |= muted;
                users.changed.insert(known.id, Box::leak(Box::new(copy)));
            }
        }
        Ok(users)
    }
}
