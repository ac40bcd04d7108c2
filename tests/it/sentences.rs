//! Every sentence that the program can say, in one table, to be reviewed as prose: what panes, help, notices, captions, verdicts and findings
//! are made of. `{…}` stands for a number or a name. Who changes a sentence sees it here beside its neighbours.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Folders below `src`, each a file of its own.
const TABLES: [(&str, &[&str]); 4] = [
    ("screen", &["tui"]),
    ("verdicts", &["diagnosis", "recording/demo.rs"]),
    ("findings", &["rules"]),
    ("facts", &["model", "base/agent.rs", "base/exit_code.rs", "base/port_counters.rs", "base/units.rs", "base/words.rs"]),
];

fn files(path: &Path, out: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let mut inside: Vec<PathBuf> = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        inside.sort();
        inside.iter().for_each(|path| files(path, out));
    } else if path.extension().is_some_and(|e| e == "rs") {
        out.push(path.to_owned());
    }
}

/// The texts in quotation marks, but for those of comments.
fn literals(source: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            3 + raw.find("\"#").map_or(raw.len(), |end| end + 2)
        } else if c == '\'' {
            // A character, or the beginning of a lifetime.
            let escaped = rest[1..].starts_with('\\');
            let end = rest[1..].char_indices().nth(if escaped { 2 } else { 1 }).map_or(rest.len(), |(at, _)| at + 1);
            if rest[end..].starts_with('\'') { end + 1 } else { 1 }
        } else if c == '"' {
            let (text, end) = quoted(&rest[1..]);
            out.push(text);
            1 + end
        } else {
            c.len_utf8()
        };
        rest = &rest[skipped.min(rest.len())..];
    }
    out
}

/// A text up to its closing quotation mark, as the program has it, and how long it is in the source.
fn quoted(source: &str) -> (String, usize) {
    let mut text = String::new();
    let mut chars = source.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return (text, at + 1),
            '\\' => match chars.next() {
                // The text goes on in the next line.
                Some((_, '\n')) => while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {},
                Some((_, 'n')) => text.push_str("\\n"),
                Some((_, c)) => text.push(c),
                None => break,
            },
            c => text.push(c),
        }
    }
    (text, source.len())
}

/// Two words of at least two letters each, one of them no name of a thing; what is a path, a pattern or a command is no sentence.
fn is_prose(text: &str) -> bool {
    let fixed = text.split('{').enumerate().map(|(i, part)| if i == 0 { part } else { part.split_once('}').map_or("", |(_, rest)| rest) });
    let words = fixed.flat_map(str::split_whitespace).filter(|w| {
        let letters = w.trim_matches(|c: char| !c.is_alphabetic());
        !w.contains('/') && letters.len() >= 2 && letters.chars().all(|c| c.is_alphabetic() || "-'’".contains(c))
    });
    words.count() >= 2
}

#[test]
fn every_sentence_stands_in_a_table() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for (name, places) in TABLES {
        let mut table = String::new();
        for place in places {
            let mut all = Vec::new();
            files(&src.join(place), &mut all);
            assert!(!all.is_empty(), "nothing in {place}");
            for file in all {
                let source = std::fs::read_to_string(&file).unwrap();
                // What tests of the file itself quote, the program does not print.
                let source = source.split("#[cfg(test)]").next().unwrap_or_default();
                let mut sentences: Vec<String> = literals(source).into_iter().filter(|text| is_prose(text)).collect();
                let mut seen = std::collections::BTreeSet::new();
                sentences.retain(|text| seen.insert(text.clone()));
                if !sentences.is_empty() {
                    let _ = writeln!(table, "\n{}", file.strip_prefix(&src).unwrap().display());
                    sentences.iter().for_each(|text| table.push_str(&format!("    {}\n", text.trim())));
                }
            }
        }
        insta::assert_snapshot!(format!("sentences-{name}"), table);
    }
}

#[test]
fn sentences_are_told_from_the_rest() {
    let source = "let a = \"3 GPUs are \\\n    spinning\"; // \"no comment\"\nlet b = ('\"', '\\'', r#\"a raw one\"#, \"ab\"); fn f<'a>(x: &'a str) { \"it \\\"waits\\\"\" }";
    assert_eq!(literals(source), ["3 GPUs are spinning", "ab", "it \"waits\""]);
    let prose = ["no step for {} (usually a line every {})", "rank {} is late every step", "no findings"];
    assert!(prose.iter().all(|text| is_prose(text)));
    assert!(!["{} {}", "ab", "/proc/{pid}/stat", "rank {rank}"].iter().any(|text| is_prose(text)));
}
