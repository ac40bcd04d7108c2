//! What the documents say is held against the program: pages of rules, links, and every command.

use crate::support::rule_pages;
use crate::support::screen::Screen;
use clap::Parser as _;
use clap::error::ErrorKind;
use nccl_top::cli::arguments::Cli;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All documents, with their text.
fn documents() -> Vec<(PathBuf, String)> {
    let pattern = root().join("docs/**/*.md");
    let docs = glob::glob(pattern.to_str().unwrap()).unwrap().map(Result::unwrap);
    let top = ["README.md", "README.ko.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root().join(name));
    let all: Vec<_> = docs.chain(top).map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    assert!(all.len() > 20, "{}", all.len());
    all
}

#[test]
fn the_pages_of_rules_say_what_the_rules_say() {
    let dir = root().join("docs/rules");
    let there: BTreeSet<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    let pages = rule_pages::pages();
    assert_eq!(there, pages.iter().map(|(name, _)| name.clone()).collect(), "cargo run --example rule_pages");
    for (name, text) in pages {
        let page = std::fs::read_to_string(dir.join(&name)).unwrap();
        assert!(page == text, "docs/rules/{name} is not what the rule says: cargo run --example rule_pages");
    }
}

/// The text without what stands between fences.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The anchor that GitHub gives to a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase().replace(' ', "-");
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let docs = documents();
    for (path, text) in &docs {
        for link in prose(text).split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") {
                continue;
            }
            let (file, place) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link}", path.display());
            if !place.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                let has = text.lines().filter_map(|l| l.strip_prefix('#')).any(|h| anchor(h.trim_start_matches('#')) == place);
                assert!(has, "{}: {link}", path.display());
            }
        }
    }
}

/// The blocks of a document that a shell takes, and what stands between single backticks in the rest.
fn shell_texts(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (no, part) in text.split("```").enumerate() {
        if no % 2 == 0 {
            found.extend(part.split('`').skip(1).step_by(2).map(|code| code.replace("\\|", "|").replace('\n', " ")));
        } else if let Some(block) = part.strip_prefix("sh\n") {
            found.extend(block.replace("\\\n", " ").lines().map(str::to_owned));
        }
    }
    found
}

/// The arguments of each nccl-top that a line of shell runs.
fn runs(line: &str) -> Vec<Vec<String>> {
    // What may be left out stands in brackets, what may come again has dots behind it.
    let line = line.replace(['[', ']', '…'], " ").replace("...", " ").replace(['(', ')'], " ");
    let Ok(words) = shell_words::split(line.split(" #").next().unwrap_or_default()) else { return Vec::new() };
    let ends = |word: &String| matches!(word.as_str(), "|" | "&&" | "||" | "&" | ";" | ">") || word.starts_with("2>");
    words
        .split(ends)
        .filter_map(|run| {
            let at = run.iter().position(|word| word == "nccl-top" || word.ends_with("/nccl-top"))?;
            // In an argument of another program, as a path or a name: `kubectl cp ./nccl-top POD:`.
            let others = ["cp", "logger", "install", "-t", "--bin", "git", "mine=nccl-top"];
            (!run[..at].iter().any(|word| others.contains(&word.as_str()))).then(|| run[at + 1..].to_vec())
        })
        .collect()
}

#[test]
fn every_command_in_the_documents_is_one_that_the_program_takes() {
    let mut count = 0;
    for (path, text) in documents() {
        if path.ends_with("CHANGELOG.md") {
            continue;
        }
        for line in shell_texts(&text) {
            for args in runs(&line) {
                let parsed = Cli::try_parse_from(std::iter::once("nccl-top".to_owned()).chain(args.clone()));
                // A command's name alone speaks of the command.
                // What a fleet is asked of may stand in the environment.
                let is_name =
                    |err: &clap::Error| (args.len() == 1 || args[0] == "fleet") && err.kind() == ErrorKind::MissingRequiredArgument;
                let wrong = parsed.err().filter(clap::Error::use_stderr).filter(|err| !is_name(err));
                assert!(wrong.is_none(), "{}: {line}\n{}", path.display(), wrong.unwrap());
                count += 1;
            }
        }
    }
    assert!(count > 60, "{count} commands were found");
}

/// A directory with the files that the examples name.
fn desk() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(root().join("tests/fixtures/logs/hang.log"), dir.path().join("job.log")).unwrap();
    dir
}

/// Runs a line as it stands, but for how long it observes.
fn run_line(line: &str, args: &[String], dir: &Path) {
    let seconds = regex::Regex::new(r"^\d+s$").unwrap();
    let args: Vec<&str> = args.iter().map(|word| if seconds.is_match(word) { "300ms" } else { word }).collect();
    let cli = Cli::try_parse_from(std::iter::once("nccl-top").chain(args.iter().copied())).unwrap();
    if cli.command.is_none() {
        let mut screen = Screen::start(&args, dir, &[], 40, 120);
        screen.wait_for("q quit");
        screen.keys("q");
        assert_eq!(screen.wait_end(), 0, "{line}");
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    let output = command.args(&args).current_dir(dir).env("HOME", dir).stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    // A machine without a GPU has no topology to show.
    let fine = matches!(output.status.code(), Some(0 | 1)) || error.contains("no GPU and no RDMA device is seen");
    assert!(fine, "{line}: {:?}\n{error}", output.status);
}

#[test]
fn the_commands_of_the_first_steps_run() {
    let dir = desk();
    let mut count = 0;
    for name in ["docs/FIRST_STEPS.md", "docs/TROUBLESHOOTING.md"] {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        for line in text.split("```sh\n").skip(1).flat_map(|rest| rest.split("```").next().unwrap().lines()) {
            // What goes through a scheduler or a container runtime is only parsed, above.
            if line.starts_with("nccl-top") && !line.contains('$') {
                run_line(line, &runs(line).remove(0), dir.path());
                count += 1;
            }
        }
    }
    assert!(count >= 12, "{count} commands were run");
}

/// What is said in both languages is said with the same figures and the same commands.
#[test]
fn the_korean_readme_keeps_up_with_the_english_one() {
    let [english, korean] = ["README.md", "README.ko.md"].map(|name| std::fs::read_to_string(root().join(name)).unwrap());
    let blocks = |text: &str| -> Vec<String> {
        let without_remarks = |block: &str| block.lines().map(|l| l.split(" #").next().unwrap().trim_end().to_owned() + "\n").collect();
        text.split("```").skip(1).step_by(2).map(without_remarks).collect()
    };
    assert_eq!(blocks(&korean), blocks(&english));
    let figures = |text: &str, from: &str| -> BTreeSet<String> {
        let part = text.split(from).nth(1).unwrap().split("\n## ").next().unwrap();
        part.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()).map(str::to_owned).collect()
    };
    let (english, korean) = (figures(&english, "## How well it judges"), figures(&korean, "## 얼마나 정확한가"));
    let missing: Vec<_> = english.difference(&korean).collect();
    assert!(missing.is_empty(), "README.ko.md lacks {missing:?}");
}
