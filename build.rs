//! Turns `assets/catalog/*.toml` into tables of constants, so that the program parses nothing when it starts.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

#[allow(dead_code)]
#[path = "src/text/signature/entry.rs"]
mod entry;
#[allow(dead_code)]
#[path = "src/text/signature/format.rs"]
mod format;
#[allow(dead_code)]
#[path = "src/text/signature/grams.rs"]
mod grams;
#[allow(dead_code)]
#[path = "src/text/signature/pattern.rs"]
mod pattern;
#[allow(dead_code)]
#[path = "src/text/signature/template.rs"]
mod template;

use entry::{Signature, Words};
use grams::{Index, Indexes};
use pattern::{Atom, Pattern};
use template::{Piece, Template};

// As in `src/findings.rs`: the shared files know them by these names.
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
    println!("cargo::rerun-if-changed=src/text/signature");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default().join("catalog.rs");
    if let Err(why) = catalog().and_then(|text| std::fs::write(&out, text).map_err(|err| format!("{}: {err}", out.display()))) {
        println!("cargo::error={why}");
    }
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
    let mut out = String::new();
    let mut tables = String::new();
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut rows: Vec<&'static Signature> = Vec::new();
    for (no, (path, file)) in files.iter().enumerate() {
        let _ = writeln!(out, "static ROWS_{no}: [Signature; {}] = [", file.rows.len());
        for (at, (_, row)) in file.rows.iter().enumerate() {
            out += &signature(row);
            names.insert(row.id, format!("&ROWS_{no}[{at}]"));
            rows.push(Box::leak(Box::new(row.clone())));
        }
        out += "];\n";
        let title = file.title.ok_or_else(|| format!("{}: title is missing", path.display()))?;
        let _ =
            writeln!(tables, "Table {{ title: {title:?}, file: {:?}, is_users: false, rows: &ROWS_{no} }},", path.display().to_string());
    }
    let _ = writeln!(out, "pub static TABLES: &[Table] = &[\n{tables}];");
    let words = files.iter().flat_map(|(_, file)| &file.words).map(words);
    let _ = writeln!(out, "pub static WORDS: &[Words] = &{};", list(words));
    let indexes = Indexes::of(&rows);
    let unseen: Vec<&str> = indexes.unseen.iter().map(|(signature, _)| names[signature.id].as_str()).collect();
    let texts: Vec<usize> = indexes.unseen.iter().map(|(_, text)| *text).collect();
    let unseen = unseen.into_iter().zip(texts).map(|(name, text)| format!("({name}, {text})"));
    let _ = writeln!(
        out,
        "pub static INDEXES: Indexes = Indexes {{ nccl: {}, line: {}, gate: {}, unseen: &{} }};",
        index(&indexes.nccl, &names),
        index(&indexes.line, &names),
        index(&indexes.gate, &names),
        list(unseen)
    );
    Ok(out)
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

fn texts(texts: &[&str]) -> String {
    format!("&{texts:?}")
}

fn signature(s: &Signature) -> String {
    format!(
        "Signature {{ id: {:?}, scope: Scope::{:?}, rule: {:?}, severity: Severity::{:?}, part: Part::{:?}, texts: {}, alone: {}, site: {:?}, \
         captures: {}, headline: &{}, thing: {}, ranks: {}, follows: {}, confidence: Confidence::{:?}, yields_to: {}, explains: {}, \
         is_fact: {}, code: {:?}, name: {:?}, means: {:?}, next: {:?}, source: {:?}, versions: {:?}, examples: {}, muted: false }},\n",
        s.id,
        s.scope,
        s.rule,
        s.severity,
        s.part,
        patterns(s.texts),
        s.alone,
        s.site,
        patterns(s.captures),
        list(s.headline.iter().map(template)),
        optional(s.thing.as_ref()),
        texts(s.ranks),
        optional(s.follows.as_ref()),
        s.confidence,
        texts(s.yields_to),
        texts(s.explains),
        s.is_fact,
        s.code,
        s.name,
        s.means,
        s.next,
        s.source,
        s.versions,
        texts(s.examples),
    )
}

fn patterns(patterns: &[Pattern]) -> String {
    let one = |p: &Pattern| {
        let atoms = list(p.atoms.iter().map(atom));
        format!("Pattern {{ text: {:?}, atoms: &{atoms}, at_start: {}, at_end: {} }}", p.text, p.at_start, p.at_end)
    };
    format!("&{}", list(patterns.iter().map(one)))
}

fn atom(atom: &Atom) -> String {
    format!("Atom::{atom:?}")
}

fn optional(of: Option<&Template>) -> String {
    of.map_or("None".into(), |t| format!("Some({})", template(t)))
}

fn template(template: &Template) -> String {
    format!("Template {{ text: {:?}, pieces: {} }}", template.text, pieces(template.pieces))
}

fn pieces(pieces: &[Piece]) -> String {
    let one = |piece: &Piece| match piece {
        Piece::Optional(either) => format!("Piece::Optional(&{})", list(either.iter().map(|inside| self::pieces(inside)))),
        other => format!("Piece::{other:?}"),
    };
    format!("&{}", list(pieces.iter().map(one)))
}

fn words(words: &Words) -> String {
    format!("Words {{ name: {:?}, words: &{:?} }}", words.name, words.words)
}

fn index(index: &Index, names: &BTreeMap<&str, String>) -> String {
    let Index { bits, buckets, grams, slots } = index;
    let grams = grams.iter().map(|g| format!("Gram {{ letters: {}, slot: {}, offset: {} }}", g.letters, g.slot, g.offset));
    let slots = slots.iter().map(|s| format!("Slot {{ signature: {}, text: {}, key: &{:?} }}", names[s.signature.id], s.text, s.key));
    format!("Index {{ bits: &{bits:?}, buckets: &{buckets:?}, grams: &{}, slots: &{} }}", list(grams), list(slots))
}
