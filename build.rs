//! Reads `assets/catalog/*.toml` and packs it, so that the program has little to read when it starts.

use std::collections::BTreeMap;
use std::io::Write;
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
#[path = "src/logs/catalog/packed.rs"]
mod packed;
#[allow(dead_code)]
#[path = "src/logs/catalog/pattern.rs"]
mod pattern;
#[allow(dead_code)]
#[path = "src/logs/catalog/template.rs"]
mod template;

use entry::{Signature, Table};
use flate2::{Compression, write::GzEncoder};
use grams::Indexes;
use packed::Builtin;

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
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default().join("catalog.gz");
    if let Err(why) = catalog().and_then(|bytes| std::fs::write(&out, bytes).map_err(|err| format!("{}: {err}", out.display()))) {
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

/// The tables, packed and compressed.
fn catalog() -> Result<Vec<u8>, String> {
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
    let mut tables: Vec<&'static Table> = Vec::new();
    let mut words = Vec::new();
    for (path, file) in files {
        let title = file.title.ok_or_else(|| format!("{}: title is missing", path.display()))?;
        let rows: Vec<Signature> = file.rows.into_iter().map(|(_, row)| row).collect();
        tables.push(Box::leak(Box::new(Table { title, file: path.display().to_string().leak(), is_users: false, rows: rows.leak() })));
        words.extend(file.words);
    }
    let tables = tables.leak();
    let packed = Builtin { tables, words: words.leak(), indexes: Indexes::of(tables) }.pack();
    let mut out = GzEncoder::new(Vec::new(), Compression::best());
    out.write_all(&packed).and_then(|()| out.finish()).map_err(|err| err.to_string())
}

fn paths() -> Result<Vec<PathBuf>, String> {
    let read = std::fs::read_dir(Path::new(FOLDER)).map_err(|err| format!("{FOLDER}: {err}"))?;
    let mut paths: Vec<PathBuf> = read.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    Ok(paths)
}
