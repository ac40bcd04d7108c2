//! Reads a file of the catalogue. Shared with `build.rs`: nothing here may use the rest of the crate but its neighbours.
//!
//! ```toml
//! title = "Slurm, Kubernetes, MPI"
//! scope = "line"                  # lines of everybody; "nccl": messages of NCCL and its plugins
//!
//! [defaults]                      # every entry has these, unless it says otherwise
//! severity = "error"
//!
//! [form.xid]                      # entries with a key `xid`, whose value is their {code}, or with `form = "xid"` have these, too
//! id = "xid-{code}"
//! texts = ["Xid ({gpu}): {code},"]
//!
//! [words.ibv_wc_status]           # headlines look words up in it: {status|ibv_wc_status}
//! 5 = "work request flushed"
//!
//! [[entry]]
//! xid = 79
//! name = "GPU has fallen off the bus"
//! means = "…"
//! ```
//!
//! `quoted` are texts that say something only in a line that is looked at for another reason: an exception, an error of PyTorch. `class` is
//! `alarm`, or `fact` for lines that a reader knows (progress, bring-up) and for messages that NCCL prints as INFO, too.
//!
//! A user's file may also have `mute = ["id"]` and `[severity]` with `id = "info"`. Fields of an entry are those of [`Signature`]; the
//! languages of texts and headlines are in [`super::pattern`] and [`super::template`].

use super::entry::{Part, Scope, Signature, Words};
use super::pattern::{Pattern, leak};
use super::template::{GIVEN, Template, WAYS};
use super::{Confidence, Severity};
use std::collections::BTreeSet;
use toml::de::{DeTable, DeValue};

/// What a file holds.
#[derive(Debug, Default)]
pub struct File {
    pub title: Option<&'static str>,
    /// With the line that each begins in.
    pub rows: Vec<(usize, Signature)>,
    pub words: Vec<Words>,
    /// Ids, with their lines.
    pub mute: Vec<(usize, String)>,
    pub severity: Vec<(usize, String, Severity)>,
}

/// What is wrong with a file, and what to do.
#[derive(Debug, PartialEq)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// `entry my-id: headline`
    pub key: String,
    pub what: String,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let colon = if self.key.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.key, self.what)
    }
}

pub const SEVERITIES: &[(&str, Severity)] =
    &[("info", Severity::Info), ("warning", Severity::Warning), ("error", Severity::Error), ("critical", Severity::Critical)];
pub const PARTS: &[(&str, Part)] = &[
    ("cause", Part::Cause),
    ("messenger", Part::Messenger),
    ("victim", Part::Victim),
    ("teardown", Part::Teardown),
    ("harmless", Part::Harmless),
];
pub const SCOPES: &[(&str, Scope)] = &[("nccl", Scope::Nccl), ("line", Scope::Line)];
const CLASSES: &[(&str, bool)] = &[("alarm", false), ("fact", true)];
pub const CONFIDENCES: &[(&str, Confidence)] =
    &[("certain", Confidence::Certain), ("likely", Confidence::Likely), ("possible", Confidence::Possible)];
const KEYS: &[&str] = &[
    "id",
    "scope",
    "rule",
    "severity",
    "part",
    "class",
    "texts",
    "quoted",
    "site",
    "captures",
    "headline",
    "thing",
    "ranks",
    "follows",
    "confidence",
    "yields_to",
    "explains",
    "causes",
    "hints",
    "hint",
    "form",
    "code",
    "name",
    "means",
    "next",
    "source",
    "versions",
    "examples",
];
const TOP: &[&str] = &["title", "scope", "defaults", "form", "words", "entry", "mute", "severity"];
/// Text that is shorter says too little.
const MIN_PIECE: usize = 5;
const MIN_CAPTURED_PIECE: usize = 3;
const MOST_TEXTS: usize = 64;
const MAX_ID: usize = 60;

type Value<'i> = toml::Spanned<DeValue<'i>>;

/// Reads a file; what neither an entry nor the file's own defaults have is taken from `base`, a table as TOML. `known` are the names of
/// tables of words that exist already.
///
/// # Errors
/// The first mistake.
pub fn read(text: &str, base: &str, known: &[&str]) -> Result<File, Mistake> {
    let place = Place { text };
    let top = place.parse(text)?;
    let base = place.parse(base)?;
    place.check_keys(&top, TOP, &[], "")?;
    let scope = top.get("scope").map(|v| place.one_of("scope", v, SCOPES)).transpose()?;
    let mut file = File { title: top.get("title").map(|v| place.string("title", v)).transpose()?.map(leak), ..File::default() };
    for (name, table) in place.tables(&top, "words")? {
        let words = table.iter().map(|(k, v)| Ok((leak(k.get_ref()), leak(place.string(k.get_ref(), v)?))));
        file.words.push(Words { name: leak(name), words: Vec::leak(words.collect::<Result<_, Mistake>>()?) });
    }
    let known: Vec<&str> = known.iter().copied().chain(file.words.iter().map(|w| w.name)).collect();
    let forms = place.tables(&top, "form")?;
    let none = DeTable::new();
    let defaults = top.get("defaults").map(|v| place.table("defaults", v)).transpose()?.unwrap_or(&none);
    for table in forms.iter().map(|(_, table)| *table).chain([defaults]) {
        place.check_keys(table, KEYS, &[], "")?;
    }
    let mut ids = BTreeSet::new();
    for entry in top.get("entry").map_or(Ok(&[][..]), |v| place.array("entry", v))? {
        let own = place.table("entry", entry)?;
        let names: Vec<&str> = forms.iter().map(|(name, _)| *name).collect();
        let named = own.get("form").map(|v| place.one_of("form", v, &names.iter().map(|n| (*n, *n)).collect::<Vec<_>>())).transpose()?;
        let by_key = names.iter().find(|name| own.contains_key(**name));
        let form = forms.iter().find(|(name, _)| named.or(by_key.copied()) == Some(*name)).map(|(_, table)| *table);
        let layers: Vec<&DeTable> = [Some(own), form, Some(defaults), Some(&base)].into_iter().flatten().collect();
        let line = place.line(entry.span().start);
        let reading = Entry { place: &place, layers, code: by_key.and_then(|name| own.get(*name)), line, known: &known };
        place.check_keys(own, KEYS, &names, &reading.label())?;
        let signature = reading.read(scope)?;
        if !ids.insert(signature.id) {
            return Err(reading.mistake("id", "it stands twice in this file; give each entry an id of its own".into()));
        }
        file.rows.push((line, signature));
    }
    for value in top.get("mute").map_or(Ok(&[][..]), |v| place.array("mute", v))? {
        file.mute.push((place.line(value.span().start), place.string("mute", value)?.to_owned()));
    }
    if let Some(table) = top.get("severity").map(|v| place.table("severity", v)).transpose()? {
        for (id, value) in table {
            let severity = place.one_of(id.get_ref(), value, SEVERITIES)?;
            file.severity.push((place.line(id.span().start), id.get_ref().to_string(), severity));
        }
    }
    Ok(file)
}

/// Where in the file something stands, and what it is there.
struct Place<'i> {
    text: &'i str,
}

impl<'i> Place<'i> {
    fn line(&self, offset: usize) -> usize {
        self.text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count() + 1
    }

    fn parse<'t>(&self, text: &'t str) -> Result<DeTable<'t>, Mistake> {
        DeTable::parse(text).map(toml::Spanned::into_inner).map_err(|err| {
            let line = self.line(err.span().map_or(0, |span| span.start));
            Mistake { line, key: String::new(), what: err.message().to_owned() }
        })
    }

    fn mistake(&self, key: &str, offset: usize, what: String) -> Mistake {
        Mistake { line: self.line(offset), key: key.to_owned(), what }
    }

    fn expected(&self, key: &str, value: &Value, what: &str) -> Mistake {
        self.mistake(key, value.span().start, format!("expected {what}, found {}", kind(value.get_ref())))
    }

    fn string<'v>(&self, key: &str, value: &'v Value<'_>) -> Result<&'v str, Mistake> {
        let text = value.get_ref().as_str().ok_or_else(|| self.expected(key, value, "a text in quotes"))?;
        match text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
            Some(c) => Err(self.mistake(key, value.span().start, format!("{c:?} is no sign to show; remove it"))),
            None => Ok(text),
        }
    }

    fn array<'v, 't>(&self, key: &str, value: &'v Value<'t>) -> Result<&'v [Value<'t>], Mistake> {
        Ok(value.get_ref().as_array().ok_or_else(|| self.expected(key, value, "a list"))?)
    }

    fn table<'v, 't>(&self, key: &str, value: &'v Value<'t>) -> Result<&'v DeTable<'t>, Mistake> {
        value.get_ref().as_table().ok_or_else(|| self.expected(key, value, "a table"))
    }

    /// The tables in a table, by name.
    fn tables<'v, 't>(&self, top: &'v DeTable<'t>, key: &str) -> Result<Vec<(&'v str, &'v DeTable<'t>)>, Mistake> {
        let Some(all) = top.get(key).map(|v| self.table(key, v)).transpose()? else { return Ok(Vec::new()) };
        all.iter().map(|(name, v)| Ok((name.get_ref().as_ref(), self.table(name.get_ref(), v)?))).collect()
    }

    fn one_of<T: Copy>(&self, key: &str, value: &Value, words: &[(&str, T)]) -> Result<T, Mistake> {
        let found = self.string(key, value)?;
        words.iter().find(|(word, _)| *word == found).map(|(_, v)| *v).ok_or_else(|| {
            let known: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
            self.mistake(key, value.span().start, format!("found {found:?}, expected one of {}", known.join(", ")))
        })
    }

    fn check_keys(&self, table: &DeTable, known: &[&str], more: &[&str], label: &str) -> Result<(), Mistake> {
        let is_known = |key: &str| known.contains(&key) || more.contains(&key);
        match table.keys().find(|key| !is_known(key.get_ref())) {
            None => Ok(()),
            Some(key) => {
                let all: Vec<&str> = known.iter().chain(more).copied().collect();
                let what = format!("unknown key, expected one of {}", all.join(", "));
                Err(self.mistake(&format!("{label}{}", key.get_ref()), key.span().start, what))
            }
        }
    }
}

fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// One entry, with what it inherits.
struct Entry<'a, 'i> {
    place: &'a Place<'i>,
    /// The entry itself first.
    layers: Vec<&'a DeTable<'i>>,
    /// The value of the key that names its form.
    code: Option<&'a Value<'i>>,
    line: usize,
    known: &'a [&'a str],
}

impl<'a, 'i> Entry<'a, 'i> {
    fn get(&self, key: &str) -> Option<&'a Value<'i>> {
        self.layers.iter().find_map(|layer| layer.get(key))
    }

    /// `entry my-id: `, as far as that is known.
    fn label(&self) -> String {
        let id = self.get("id").and_then(|v| v.get_ref().as_str()).map_or(String::new(), |id| format!(" {id}"));
        format!("entry{id}: ")
    }

    fn key(&self, key: &str) -> String {
        self.label() + key
    }

    /// What is inherited is a mistake of the place where it stands.
    fn mistake(&self, key: &str, what: String) -> Mistake {
        let line = self.get(key).map_or(self.line, |v| self.place.line(v.span().start));
        Mistake { line, key: self.key(key), what }
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, Mistake> {
        self.get(key).map(|v| self.place.string(&self.key(key), v)).transpose()
    }

    fn needed(&self, key: &str) -> Result<&'a str, Mistake> {
        self.text(key)?.ok_or_else(|| self.mistake(key, "missing; the entry, [defaults] or its form must have it".into()))
    }

    /// A list of texts, or one text.
    fn texts(&self, key: &str) -> Result<Vec<&'a str>, Mistake> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let key = self.key(key);
        let list = match value.get_ref().as_array() {
            None => vec![self.place.string(&key, value)?],
            Some(list) => list.iter().map(|v| self.place.string(&key, v)).collect::<Result<_, _>>()?,
        };
        if list.len() > MOST_TEXTS {
            return Err(self.place.mistake(&key, value.span().start, format!("{} texts, at most {MOST_TEXTS} are allowed", list.len())));
        }
        Ok(list)
    }

    fn ids(&self, key: &str) -> Result<&'static [&'static str], Mistake> {
        Ok(Vec::leak(self.texts(key)?.into_iter().map(leak).collect()))
    }

    fn one_of<T: Copy>(&self, key: &str, words: &[(&str, T)], without: T) -> Result<T, Mistake> {
        self.get(key).map_or(Ok(without), |v| self.place.one_of(&self.key(key), v, words))
    }

    fn code(&self) -> Result<String, Mistake> {
        match self.code.or_else(|| self.get("code")) {
            None => Ok(String::new()),
            Some(value) => match value.get_ref() {
                DeValue::Integer(number) => Ok(number.to_string()),
                DeValue::String(text) => Ok(text.to_string()),
                _ => Err(self.place.expected(&self.key("code"), value, "a number or a text")),
            },
        }
    }

    fn patterns(&self, key: &str, constants: &[(&str, &str)], least: usize) -> Result<Vec<Pattern>, Mistake> {
        let read = |text: &str| {
            let pattern = Pattern::parse(text, constants)?;
            let longest = pattern.pieces().map(str::len).max().unwrap_or(0);
            if longest < least {
                return Err(format!("no piece of text of {least} letters or more, which could be looked for; write out more of the line"));
            }
            Ok(pattern)
        };
        let all = self.texts(key)?.into_iter().map(|text| read(text).map_err(|what| self.mistake(key, format!("{text:?}: {what}"))));
        all.collect()
    }

    fn template(&self, key: &str, text: &str, names: &BTreeSet<&str>) -> Result<Template, Mistake> {
        let wrong = |what: String| self.mistake(key, format!("{text:?}: {what}"));
        let template = Template::parse(text).map_err(wrong)?;
        for (name, how) in template.values() {
            if !names.contains(name) && !GIVEN.contains(&name) {
                let known: Vec<&str> = names.iter().chain(GIVEN).copied().collect();
                return Err(wrong(format!("{{{name}}}: no text and none of captures has that name, expected one of {}", known.join(", "))));
            }
            if !how.is_empty() && !WAYS.contains(&how) && !self.known.contains(&how) {
                let known: Vec<&str> = WAYS.iter().chain(self.known).copied().collect();
                return Err(wrong(format!("{{{name}|{how}}}: no such table of words, expected one of {}", known.join(", "))));
            }
        }
        Ok(template)
    }

    fn id(&self, constants: &[(&str, &str)]) -> Result<&'static str, Mistake> {
        let mut id = self.needed("id")?.to_owned();
        for (name, value) in constants {
            id = id.replace(&format!("{{{name}}}"), value);
        }
        let is_good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        if id.is_empty() || id.len() > MAX_ID || !id.bytes().all(is_good) {
            return Err(self.mistake("id", format!("found {id:?}, expected small letters, digits and dashes, at most {MAX_ID} of them")));
        }
        Ok(leak(&id))
    }

    fn read(&self, scope: Option<Scope>) -> Result<Signature, Mistake> {
        let (code, name) = (self.code()?, self.text("name")?.unwrap_or(""));
        let constants: Vec<(&str, &str)> =
            [("code", code.as_str()), ("name", name)].into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let mut texts = self.patterns("texts", &constants, MIN_PIECE)?;
        let alone = texts.len();
        texts.extend(self.patterns("quoted", &constants, MIN_PIECE)?);
        if texts.is_empty() {
            return Err(self.mistake("texts", "missing; an entry is found by its texts".into()));
        }
        let captures = self.patterns("captures", &constants, MIN_CAPTURED_PIECE)?;
        let names: BTreeSet<&str> = texts.iter().chain(&captures).flat_map(Pattern::names).collect();
        let ranks = self.ids("ranks")?;
        if let Some(unknown) = ranks.iter().find(|name| !names.contains(*name)) {
            return Err(self.mistake("ranks", format!("no text and none of captures has the name {unknown:?}")));
        }
        let template = |key: &str| self.text(key)?.map(|text| self.template(key, text, &names)).transpose();
        let headline = self.texts("headline")?.into_iter().map(|text| self.template("headline", text, &names));
        Ok(Signature {
            id: self.id(&constants)?,
            scope: self.one_of("scope", SCOPES, scope.unwrap_or(Scope::Line))?,
            rule: leak(self.needed("rule")?),
            severity: self.one_of("severity", SEVERITIES, Severity::Error)?,
            part: self.one_of("part", PARTS, Part::Cause)?,
            texts: Vec::leak(texts),
            alone,
            site: leak(self.text("site")?.unwrap_or("")),
            captures: Vec::leak(captures),
            headline: Vec::leak(headline.collect::<Result<_, _>>()?),
            thing: template("thing")?,
            ranks,
            follows: template("follows")?,
            confidence: self.one_of("confidence", CONFIDENCES, Confidence::Certain)?,
            yields_to: self.ids("yields_to")?,
            explains: self.ids("explains")?,
            causes: self.ids("causes")?,
            hints: self.ids("hints")?,
            hint: leak(self.text("hint")?.unwrap_or("")),
            is_fact: self.one_of("class", CLASSES, false)?,
            code: leak(&code),
            name: leak(name),
            means: leak(self.needed("means")?),
            next: leak(self.text("next")?.unwrap_or("")),
            source: leak(self.needed("source")?),
            versions: leak(self.needed("versions")?),
            examples: self.ids("examples")?,
            muted: false,
        })
    }
}
