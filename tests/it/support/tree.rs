//! A piece of /sys and /proc as a text file, and its reader.
//!
//! ```text
//! # a comment
//! sys/class/net/eth0/mtu = 9001            a file; `\n` in it is a line end, another one follows at the end
//! sys/class/net/eth0/device -> ../../../x  a link
//! sys/class/net/eth0/speed !               a file that cannot be read, also not by root
//! sys/class/iommu/                         an empty directory
//! for 4f,roce 50,ib                        what follows, up to `end`, once for each word
//!   sys/{1}/{0} = {0:d}                    its parts by number; `:d` is hexadecimal made decimal, as udev names devices
//! end
//! ```

use std::fs;
use std::path::{Path, PathBuf};

/// Unpacks `tests/fixtures/sys/NAME.tree` of all `names` into one new directory.
pub fn unpack(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/sys/{name}.tree"));
        let text = fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        write(dir.path(), &text);
    }
    dir
}

/// Adds what `text` describes to `root`.
pub fn write(root: &Path, text: &str) {
    for line in expand(text) {
        write_entry(root, &line);
    }
}

/// Replaces or adds the content of one file, as the kernel would: with a line end.
pub fn set(root: &Path, path: &str, content: &str) {
    let path = parented(root, path);
    fs::write(&path, format!("{content}\n")).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}

/// Makes a file unreadable: reading a directory is EISDIR for everybody.
pub fn break_file(root: &Path, path: &str) {
    let path = parented(root, path);
    fs::remove_file(&path).ok();
    fs::create_dir(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
}

fn expand(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut words: Option<Vec<&str>> = None;
    let mut block: Vec<&str> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(list) = line.strip_prefix("for ") {
            assert!(words.is_none(), "nested: {line}");
            words = Some(list.split_whitespace().collect());
        } else if line == "end" {
            let words = words.take().expect("end without for");
            lines.extend(words.iter().flat_map(|word| block.iter().map(move |line| fill(line, word))));
            block.clear();
        } else if words.is_some() {
            block.push(line);
        } else {
            lines.push(line.to_owned());
        }
    }
    assert!(words.is_none(), "for without end");
    lines
}

fn fill(line: &str, word: &str) -> String {
    let mut line = line.to_owned();
    for (i, part) in word.split(',').enumerate() {
        line = line.replace(&format!("{{{i}}}"), part);
        if let Ok(n) = u64::from_str_radix(part, 16) {
            line = line.replace(&format!("{{{i}:d}}"), &n.to_string());
        }
    }
    line
}

fn write_entry(root: &Path, line: &str) {
    if let Some((path, content)) = line.split_once(" = ") {
        set(root, path, &content.replace("\\n", "\n"));
    } else if let Some(path) = line.strip_suffix(" =") {
        set(root, path, "");
    } else if let Some((path, target)) = line.split_once(" -> ") {
        std::os::unix::fs::symlink(target, parented(root, path)).unwrap_or_else(|err| panic!("{line}: {err}"));
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
