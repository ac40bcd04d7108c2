//! Which folder below `src` may use which: the drawing in `docs/ARCHITECTURE.md`, checked. What is pure reads no clock and no file, starts
//! no thread and knows no terminal, because it uses nothing that does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each folder with what it may use, lowest first. Whoever is in the list may use only what stands above it: there are no circles.
const FOLDERS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("observe", &["base"]),
    ("logs", &["base"]),
    ("formats", &["base", "logs"]),
    ("model", &["base", "observe", "logs", "formats"]),
    ("rules", &["base", "observe", "logs", "formats", "model"]),
    ("diagnosis", &["base", "observe", "logs", "model", "rules"]),
    ("edge", &["base"]),
    ("fleet", &["base", "observe", "rules", "diagnosis"]),
    ("sources", &["base", "observe", "logs", "formats", "edge"]),
    ("recording", &["base", "observe", "model", "rules", "diagnosis", "edge", "sources"]),
    ("archive", &["base", "observe", "logs", "formats", "model", "rules", "diagnosis", "sources", "recording"]),
    ("output", &["base", "observe", "logs", "formats", "model", "rules", "diagnosis", "edge", "fleet", "sources", "recording", "archive"]),
    ("export", &["base", "observe", "model", "rules", "diagnosis", "edge", "sources"]),
    ("tui", &["base", "observe", "logs", "model", "rules", "diagnosis", "edge", "fleet", "sources", "recording", "output", "export"]),
    (
        "cli",
        &["base", "observe", "logs", "rules", "diagnosis", "edge", "fleet", "sources", "recording", "archive", "output", "export", "tui"],
    ),
];

/// Folders that only turn values into values.
const PURE: &[&str] =
    &["observe", "logs", "formats", "model", "rules", "diagnosis", "fleet/answer.rs", "fleet/model.rs", "fleet/queries.rs", "fleet/rules"];
/// What reaches out of the program, or depends on when it is called.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::env",
    "std::process",
    "std::os",
    "Instant",
    "SystemTime",
    "Clock",
    "tokio",
    "rustix",
    "libc",
    "sysinfo",
    "notify",
    "nvml_wrapper",
    "crossterm",
    "ratatui",
    "println!",
    "eprintln!",
];
/// The panes and widgets draw what they are given.
const DRAWING: &[&str] = &[
    "tui/panes",
    "tui/widgets",
    "tui/panes.rs",
    "tui/widgets.rs",
    "tui/view.rs",
    "tui/layout.rs",
    "tui/help.rs",
    "tui/log_view.rs",
    "tui/details",
    "tui/details.rs",
    "tui/sheet.rs",
];
const IMPURE_FOR_DRAWING: &[&str] =
    &["std::fs", "std::net", "std::thread", "std::env", "std::process", "Instant", "SystemTime", "Clock", "tokio", "println!"];

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files_below(path: &Path, out: &mut Vec<PathBuf>) {
    if path.is_file() {
        out.push(path.to_path_buf());
        return;
    }
    for entry in std::fs::read_dir(path).unwrap() {
        files_below(&entry.unwrap().path(), out);
    }
}

/// The lines of a file with their numbers, without comments and without its tests, which may use what they like.
fn code(path: &Path) -> Vec<(usize, String)> {
    let text = std::fs::read_to_string(path).unwrap();
    let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    lines.map(|(at, line)| (at + 1, line.to_owned())).collect()
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
        || path.file_stem().is_some_and(|name| name.to_string_lossy().ends_with("tests"))
}

/// Whether a path or word stands in a line as a whole.
fn names(line: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(inside) && !after.is_some_and(|c| inside(c) && !word.ends_with('!'))
    })
}

/// The folders that a file names by `crate::`, with the line.
fn used(path: &Path) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    for (no, line) in code(path) {
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + "crate::".len()..];
            assert!(!rest.starts_with('{'), "{}:{no}: name each folder on a line of its own: {line}", path.display());
            used.push((no, rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()));
        }
    }
    used
}

#[test]
fn each_folder_uses_only_what_it_may() {
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (no, (folder, may)) in FOLDERS.iter().enumerate() {
        let lower: Vec<&str> = FOLDERS[..no].iter().map(|(name, _)| *name).collect();
        assert!(may.iter().all(|name| lower.contains(name)), "{folder} uses a folder that stands below it in the list");
        let mut files = Vec::new();
        files_below(&src().join(folder), &mut files);
        for file in files.iter().filter(|file| !is_test(file)) {
            for (line, other) in used(file) {
                if other != *folder && !may.contains(&other.as_str()) {
                    wrong.push(format!("{}:{line}: {folder} may not use {other}", file.display()));
                }
                seen.entry(folder).or_default().insert(other);
            }
        }
        let unused: Vec<_> = may.iter().filter(|name| !seen.get(folder).is_some_and(|seen| seen.contains(**name))).collect();
        assert!(unused.is_empty(), "{folder} does not use {unused:?}: take it out of the list");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_loose() {
    let mut here: Vec<String> = std::fs::read_dir(src()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    here.sort();
    let mut known: Vec<&str> = FOLDERS.iter().map(|(name, _)| *name).chain(["lib.rs", "main.rs"]).collect();
    known.sort_unstable();
    assert_eq!(here, known);
}

fn forbid(parts: &[&str], words: &[&str]) {
    let mut files = Vec::new();
    parts.iter().for_each(|part| files_below(&src().join(part), &mut files));
    assert!(files.len() >= parts.len());
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        for (no, line) in code(file) {
            wrong.extend(words.iter().filter(|word| names(&line, word)).map(|word| format!("{}:{no}: {word}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a property test once failed on is tried first, each time. Its file has the name of the source, and is lost when that moves.
#[test]
fn saved_cases_belong_to_a_test() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut saved = Vec::new();
    for (cases, sources) in [("proptest-regressions", "src"), ("tests/proptest-regressions", "tests/it")] {
        let mut files = Vec::new();
        if top.join(cases).is_dir() {
            files_below(&top.join(cases), &mut files);
        }
        saved.extend(files.into_iter().map(|file| (top.join(sources).join(file.strip_prefix(top.join(cases)).unwrap()), file)));
    }
    assert!(!saved.is_empty());
    for (source, file) in saved {
        let source = source.with_extension("rs");
        let text = std::fs::read_to_string(&source).unwrap_or_default();
        assert!(text.contains("proptest! {"), "{}: no property test in {}", file.display(), source.display());
    }
}

/// `cargo test` tries the same cases each time.
#[test]
fn property_tests_have_one_seed() {
    assert!(std::env::var("PROPTEST_RNG_SEED").is_ok_and(|seed| seed.parse::<u64>().is_ok()), "cargo sets it: see .cargo/config.toml");
}

#[test]
fn what_is_pure_names_nothing_that_is_not() {
    forbid(PURE, IMPURE);
}

#[test]
fn panes_only_draw() {
    forbid(DRAWING, IMPURE_FOR_DRAWING);
}

#[test]
fn the_project_stands_alone() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for part in ["src", "tests", "assets", "docs", "fuzz/src", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Cargo.toml", ".ci"] {
        files_below(&top.join(part), &mut files);
    }
    let elsewhere = ["..", "/shared"].concat();
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(&elsewhere), "{} names a place outside the project", file.display());
    }
}
