//! A piece of /sys and /proc as a text file, and its reader.
//!
//! ```text
//! # a comment
//! sys/class/net/eth0/mtu = 9001            a file; `\n` in it is a line end, `\0` a NUL; a line end follows, unless it ends in `\c`
//! var/log/train.log += step 7              a line at the end of a file
//! sys/class/net/eth0/device -> ../../../x  a link
//! sys/class/net/eth0/speed !               a file that cannot be read, also not by root
//! sys/class/iommu/                         an empty directory
//! - sys/class/iommu                        what was written before is not there
//! for 4f,roce 50,ib                        what follows, up to `end`, once for each word
//!   sys/{1}/{0} = {0:d}                    its parts by number; `:d` is hexadecimal made decimal, as udev names devices
//! end
//! for bus,kind in 4f,roce 50,ib            the same with names for the parts: such loops may stand in each other; `0..7` is eight words
//!   in sys/devices/{bus}                   before every path, up to `end`
//!     use mlx5 at=pci0000:4f/0000:4f:00.0  what hosts/parts/mlx5.part says; `{at:name}` is the last part of the path
//!   end
//! end
//! ```
//!
//! `{root}` is the directory into which it is written.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Unpacks `tests/fixtures/sys/NAME.tree` of all `names` into one new directory.
pub fn unpack(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        write(dir.path(), &read(&format!("sys/{name}.tree")));
    }
    dir
}

/// Unpacks `tests/fixtures/hosts/NAME.tree` into a new directory: a whole machine.
pub fn unpack_host(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &read(&format!("hosts/{name}.tree")));
    dir
}

/// A text below `tests/fixtures`.
pub fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

/// Adds what `text` describes to `root`.
pub fn write(root: &Path, text: &str) {
    for line in expand(&content_lines(text)) {
        write_entry(root, &line.replace("{root}", &root.to_string_lossy()));
    }
}

/// Replaces or adds the content of one file, as the kernel would: with a line end.
pub fn set(root: &Path, path: &str, content: &str) {
    let path = parented(root, path);
    put(&path, &content.strip_suffix("\\c").map_or_else(|| format!("{content}\n"), str::to_owned));
}

/// Writes a file in place. One that is emptied first is empty for a reader who comes just then, and some file systems wait for the disk
/// when it is closed.
pub fn put(path: &Path, content: &str) {
    let write = || {
        let mut file = fs::OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
        file.write_all(content.as_bytes())?;
        if file.metadata()?.len() > content.len() as u64 { file.set_len(content.len() as u64) } else { Ok(()) }
    };
    write().unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}

/// Adds a line to a file, as a program that writes a log does.
pub fn append(root: &Path, path: &str, line: &str) {
    let path = parented(root, path);
    let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
    writeln!(file, "{line}").unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}

/// Makes a file unreadable: reading a directory is EISDIR for everybody.
pub fn break_file(root: &Path, path: &str) {
    let path = parented(root, path);
    fs::remove_file(&path).ok();
    fs::create_dir(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}

fn content_lines(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

fn expand(lines: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        if let Some(call) = line.strip_prefix("use ") {
            out.extend(part(call));
        } else if let Some(words) = line.strip_prefix("for ") {
            let block = block(lines, &mut at);
            let (names, words) = match words.split_once(" in ") {
                Some((names, words)) => (names.split(',').map(str::to_owned).collect(), words),
                None => ((0..16).map(|n| n.to_string()).collect::<Vec<_>>(), words),
            };
            for word in words.split_whitespace().flat_map(range) {
                let values: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(word.split(',')).collect();
                out.extend(expand(&fill_all(block, &values)));
            }
        } else if let Some(prefix) = line.strip_prefix("in ") {
            out.extend(expand(block(lines, &mut at)).into_iter().map(|line| format!("{prefix}/{line}")));
        } else {
            out.push(line.clone());
        }
    }
    out
}

/// `4..7` is four words.
fn range(word: &str) -> Vec<String> {
    let ends = word.split_once("..").and_then(|(from, to)| Some((from.parse::<u32>().ok()?, to.parse::<u32>().ok()?)));
    ends.map_or_else(|| vec![word.to_owned()], |(from, to)| (from..=to).map(|n| n.to_string()).collect())
}

/// The lines up to the `end` that belongs to what began before `at`.
fn block<'a>(lines: &'a [String], at: &mut usize) -> &'a [String] {
    let begin = *at;
    let mut depth = 1;
    while depth > 0 {
        let line = lines.get(*at).unwrap_or_else(|| panic!("no end: {}", lines[begin - 1]));
        depth = match line.split(' ').next() {
            Some("for" | "in") => depth + 1,
            Some("end") => depth - 1,
            _ => depth,
        };
        *at += 1;
    }
    &lines[begin..*at - 1]
}

/// `NAME key=value key="two words" …`: a file of `hosts/parts`, with its names filled.
fn part(call: &str) -> Vec<String> {
    let (name, mut rest) = call.split_once(' ').unwrap_or((call, ""));
    let mut values = Vec::new();
    while let Some((key, after)) = rest.trim_start().split_once('=') {
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or_else(|| panic!("no end of the quotes: use {call}")),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        values.push((key, value));
        rest = left;
    }
    assert!(rest.trim().is_empty(), "no value: use {call}");
    expand(&fill_all(&content_lines(&read(&format!("hosts/parts/{name}.part"))), &values))
}

fn fill_all(lines: &[String], values: &[(&str, &str)]) -> Vec<String> {
    lines.iter().map(|line| fill(line, values)).collect()
}

/// What stands in braces and has a value is replaced by it; a JSON text in a log has none.
fn fill(line: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let value = after.split_once('}').and_then(|(name, tail)| Some((value_of(name, values)?, tail)));
        match value {
            Some((value, tail)) => {
                out.push_str(&value);
                rest = tail;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out + rest
}

fn value_of(name: &str, values: &[(&str, &str)]) -> Option<String> {
    let (name, form) = name.split_once(':').unwrap_or((name, ""));
    let (_, value) = values.iter().find(|(known, _)| *known == name)?;
    match form {
        "d" => Some(u64::from_str_radix(value, 16).ok()?.to_string()),
        "name" => value.rsplit('/').next().map(str::to_owned),
        _ => Some((*value).to_owned()),
    }
}

/// Takes a file, a link or a directory with all in it away, if it is there.
pub fn remove(root: &Path, path: &str) -> Option<()> {
    let path = root.join(path);
    if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(path).ok() } else { fs::remove_file(path).ok() }
}

fn write_entry(root: &Path, line: &str) {
    if let Some(path) = line.strip_prefix("- ") {
        remove(root, path).unwrap_or_else(|| panic!("{path} is not there"));
    } else if let Some((path, text)) = line.split_once(" += ") {
        append(root, path, text);
    } else if let Some((path, content)) = line.split_once(" = ") {
        assert!(!path.contains('{'), "no value for a name: {line}");
        set(root, path, &content.replace("\\n", "\n").replace("\\0", "\0"));
    } else if let Some(path) = line.strip_suffix(" =") {
        set(root, path, "");
    } else if let Some((path, target)) = line.split_once(" -> ") {
        let path = parented(root, path);
        fs::remove_file(&path).ok();
        std::os::unix::fs::symlink(target, path).unwrap_or_else(|err| panic!("{line}: {err}"));
    } else if let Some(path) = line.strip_suffix(" !") {
        break_file(root, path);
    } else if let Some(path) = line.strip_suffix('/') {
        fs::create_dir_all(root.join(path)).unwrap_or_else(|err| panic!("{line}: {err}"));
    } else {
        panic!("not understood: {line}");
    }
}

fn parented(root: &Path, path: &str) -> PathBuf {
    let path = root.join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).unwrap_or_else(|err| panic!("{}: {err}", parent.display()));
    }
    path
}
