//! Turns `assets/catalog/*.toml` into tables of constants, so that the program parses nothing when it starts.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[allow(dead_code)]
#[path = "src/logs/catalog/entry.rs"]
mod entry;
#[allow(dead_code)]
#[path = "src/logs/catalog/format.rs"]
mod format;
#[allow(dead_code)]
#[path = "src/logs/catalog/grams.rs"]
mod grams;
#[allow(dead_code)]
#[path = "src/logs/catalog/pattern.rs"]
mod pattern;
#[allow(dead_code)]
#[path = "src/logs/catalog/template.rs"]
mod template;

use entry::{Signature, Table, Words};
use grams::{Index, Indexes, Slots};
use pattern::Pattern;
use template::{Piece, Template};

// As in `src/base/severity.rs`: the shared files know them by these names.
#[derive(Clone, Copy, Debug)]
pub enum Severity {
    Info,
    Warning,
    Error,
    Critical,
}

#[derive(Clone, Copy, Debug)]
pub enum Confidence {
    Possible,
    Likely,
    Certain,
}

const FOLDER: &str = "assets/catalog";

fn main() {
    println!("cargo::rerun-if-changed={FOLDER}");
    println!("cargo::rerun-if-changed=src/logs/catalog");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default().join("catalog.rs");
    if let Err(why) = catalog().and_then(|text| std::fs::write(&out, text).map_err(|err| format!("{}: {err}", out.display()))) {
        println!("cargo::error={why}");
    }
    println!("cargo::rustc-env=NCCL_TOP_VERSION={}", version());
}

/// What `--version` prints: version, commit, the kind of machine. A static build says what it lacks.
fn version() -> String {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let (number, target) = (of("CARGO_PKG_VERSION"), of("TARGET"));
    let commit = commit(&of("PROFILE")).map_or(String::new(), |commit| format!("{commit}, "));
    let lacks = if of("CARGO_CFG_TARGET_ENV") == "musl" { "; logs and recordings only: a static program cannot load NVML" } else { "" };
    format!("{number} ({commit}{target}{lacks})")
}

/// The commit that is built: as a package's builder names it, as `cargo package` has kept it, or as git knows it. Builds for development do
/// not ask git: each commit would build everything anew.
fn commit(profile: &str) -> Option<String> {
    const NAMED: &str = "NCCL_TOP_COMMIT";
    const KEPT: &str = ".cargo_vcs_info.json";
    println!("cargo::rerun-if-env-changed={NAMED}");
    if let Some(named) = std::env::var(NAMED).ok().filter(|named| !named.is_empty()) {
        return Some(named);
    }
    if let Ok(kept) = std::fs::read_to_string(KEPT) {
        let (_, hash) = kept.split_once("\"sha1\":")?;
        return Some(hash.split('"').nth(1)?.chars().take(9).collect());
    }
    if profile != "release" || !Path::new(".git").exists() {
        return None;
    }
    let git = |arguments: &[&str]| -> Option<String> {
        let done = std::process::Command::new("git").args(arguments).output().ok().filter(|done| done.status.success())?;
        Some(String::from_utf8(done.stdout).ok()?.trim().to_string()).filter(|text| !text.is_empty())
    };
    // What was changed since shows, too.
    println!("cargo::rerun-if-changed=src");
    for moves in ["HEAD", "index"] {
        println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", moves])?);
    }
    git(&["describe", "--always", "--abbrev=9", "--dirty", "--exclude=*"])
}

/// The tables as Rust.
fn catalog() -> Result<String, String> {
    let mut files: Vec<(PathBuf, format::File)> = Vec::new();
    for path in paths()? {
        let text = std::fs::read_to_string(&path).map_err(|err| format!("{}: {err}", path.display()))?;
        let file = format::read(&text, "", &[]).map_err(|wrong| format!("{}:{}: {wrong}", path.display(), wrong.line))?;
        files.push((path, file));
    }
    // NCCL's own come first, in lists too.
    files.sort_by_key(|(_, file)| file.rows.first().map(|(_, row)| row.scope));
    let mut places: BTreeMap<&str, String> = BTreeMap::new();
    for (path, file) in &files {
        for (line, row) in &file.rows {
            let place = format!("{}:{line}", path.display());
            if let Some(other) = places.insert(row.id, place.clone()) {
                return Err(format!("{place}: entry {}: it stands in {other}, too; give each entry an id of its own", row.id));
            }
        }
    }
    let mut rust = Rust::default();
    let mut tables: Vec<&'static Table> = Vec::new();
    let mut all = String::new();
    for (path, file) in &files {
        let title = file.title.ok_or_else(|| format!("{}: title is missing", path.display()))?;
        let path: &'static str = path.display().to_string().leak();
        let rows: &'static [Signature] = Vec::leak(file.rows.iter().map(|(_, row)| row.clone()).collect());
        let written = rows.iter().map(|row| rust.signature(row)).collect();
        let written = rust.list("Signature", written);
        let _ = writeln!(all, "&Table {{ title: {title:?}, file: {path:?}, is_users: false, rows: {written} }},");
        tables.push(Box::leak(Box::new(Table { title, file: path, is_users: false, rows })));
    }
    let indexes = Indexes::of(Vec::leak(tables));
    let mut out = format!("pub static TABLES: &[&Table] = &[{all}];\n");
    let words = list(files.iter().flat_map(|(_, file)| &file.words).map(words));
    let _ = writeln!(out, "pub static WORDS: &[Words] = &{words};");
    let [nccl, line, gate] = [&indexes.nccl, &indexes.line, &indexes.gate].map(slots);
    let _ = writeln!(out, "pub static INDEXES: Indexes = Indexes {{ tables: TABLES, nccl: {nccl}, line: {line}, gate: {gate} }};");
    Ok(rust.out + &out)
}

fn paths() -> Result<Vec<PathBuf>, String> {
    let read = std::fs::read_dir(Path::new(FOLDER)).map_err(|err| format!("{FOLDER}: {err}"))?;
    let mut paths: Vec<PathBuf> = read.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    Ok(paths)
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// Rust that is written; lists that are equal are one.
#[derive(Default)]
struct Rust {
    out: String,
    names: HashMap<String, String>,
}

impl Rust {
    /// The name of a list.
    fn list(&mut self, kind: &str, items: Vec<String>) -> String {
        if items.is_empty() {
            return "&[]".into();
        }
        let text = format!("[{kind}; {}] = [{}];", items.len(), items.join(", "));
        let no = self.names.len();
        let Rust { out, names } = self;
        let name = names.entry(text).or_insert_with_key(|text| {
            let _ = writeln!(out, "static LIST_{no}: {text}");
            format!("&LIST_{no}")
        });
        name.clone()
    }

    fn texts(&mut self, texts: &[&str]) -> String {
        self.list("&str", texts.iter().map(|text| format!("{text:?}")).collect())
    }

    fn signature(&mut self, s: &Signature) -> String {
        let headline = s.headline.iter().map(|t| self.template(t)).collect();
        format!(
            "Signature {{ id: {:?}, scope: Scope::{:?}, rule: {:?}, severity: Severity::{:?}, part: Part::{:?}, texts: {}, alone: {}, \
             site: {:?}, captures: {}, headline: {}, thing: {}, ranks: {}, follows: {}, confidence: Confidence::{:?}, yields_to: {}, \
             explains: {}, hints: {}, hint: {:?}, is_fact: {}, code: {:?}, name: {:?}, means: {:?}, next: {:?}, source: {:?}, versions: {:?}, examples: {}, \
             muted: false }}\n",
            s.id,
            s.scope,
            s.rule,
            s.severity,
            s.part,
            self.patterns(s.texts),
            s.alone,
            s.site,
            self.patterns(s.captures),
            self.list("Template", headline),
            s.thing.as_ref().map_or("None".into(), |t| format!("Some({})", self.template(t))),
            self.texts(s.ranks),
            s.follows.as_ref().map_or("None".into(), |t| format!("Some({})", self.template(t))),
            s.confidence,
            self.texts(s.yields_to),
            self.texts(s.explains),
            self.texts(s.hints),
            s.hint,
            s.is_fact,
            s.code,
            s.name,
            s.means,
            s.next,
            s.source,
            s.versions,
            self.texts(s.examples),
        )
    }

    fn patterns(&mut self, patterns: &[Pattern]) -> String {
        let mut one = |p: &Pattern| {
            let atoms = self.list("Atom", p.atoms.iter().map(|atom| format!("Atom::{atom:?}")).collect());
            format!("Pattern {{ text: {:?}, atoms: {atoms}, at_start: {}, at_end: {} }}", p.text, p.at_start, p.at_end)
        };
        let written = patterns.iter().map(&mut one).collect();
        self.list("Pattern", written)
    }

    fn template(&mut self, template: &Template) -> String {
        format!("Template {{ pieces: {} }}", self.pieces(template.pieces))
    }

    fn pieces(&mut self, pieces: &[Piece]) -> String {
        let mut one = |piece: &Piece| match piece {
            Piece::Optional(either) => {
                let either = either.iter().map(|inside| self.pieces(inside)).collect();
                format!("Piece::Optional({})", self.list("&[Piece]", either))
            }
            other => format!("Piece::{other:?}"),
        };
        let written = pieces.iter().map(&mut one).collect();
        self.list("Piece", written)
    }
}

fn words(words: &Words) -> String {
    format!("Words {{ name: {:?}, words: &{:?} }}", words.name, words.words)
}

fn slots(slots: &Slots) -> String {
    let Index { bits, buckets, keys } = slots.index;
    format!("Slots {{ index: Index {{ bits: &{bits:?}, buckets: &{buckets:?}, keys: &{keys:?} }}, slots: &{:?} }}", slots.slots)
}
