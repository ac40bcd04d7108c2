//! Turns the arguments of `check` into files: files, globs, directories, `-`.

use crate::sources::files::{below, is_pattern, matches, refusal};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Files are read one after the other. What is known of each log stays: some 9 KB of one with steps.
const MOST_FILES: usize = 100_000;

/// One file to read.
#[derive(Debug)]
pub struct Input {
    /// As the user may know it.
    pub name: String,
    pub source: Source,
    /// The user named it: that nothing can be made of it is worth saying.
    pub named: bool,
    pub size_bytes: Option<u64>,
}

#[derive(Debug)]
pub enum Source {
    Stdin,
    File(PathBuf),
    /// It cannot be read, and why.
    Nothing(String),
}

/// What the arguments lead to, in their order, each file once.
pub fn expand(args: &[String]) -> Vec<Input> {
    let mut out: Vec<Input> = Vec::new();
    for arg in args {
        let path = Path::new(arg);
        if arg == "-" {
            out.push(Input { name: "standard input".into(), source: Source::Stdin, named: true, size_bytes: None });
            continue;
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => directory(path, &mut out),
            Ok(meta) if meta.is_file() => out.push(file(path.to_path_buf(), true, meta.len())),
            // `nccl-top check <(kubectl logs …)`
            Ok(_) if ["/dev/fd/", "/proc/self/fd/", "/dev/stdin"].iter().any(|own| arg.starts_with(own)) => {
                out.push(Input { size_bytes: None, ..file(path.to_path_buf(), true, 0) });
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound && is_pattern(arg) && !path.is_symlink() => pattern(arg, &mut out),
            Err(err) if err.kind() == io::ErrorKind::NotFound && !path.is_symlink() => out.push(nothing(arg, "no such file".into())),
            found => out.push(nothing(arg, refusal(&found, path).unwrap_or_default())),
        }
    }
    let mut seen = std::collections::HashSet::new();
    out.retain(|i| match &i.source {
        Source::File(path) => seen.insert(path.clone()),
        _ => true,
    });
    out
}

fn file(path: PathBuf, named: bool, size: u64) -> Input {
    Input { name: path.display().to_string(), source: Source::File(path), named, size_bytes: Some(size) }
}

fn nothing(arg: &str, why: String) -> Input {
    Input { name: arg.to_owned(), source: Source::Nothing(why), named: true, size_bytes: Some(0) }
}

/// What matches: files, and those in and below directories. What else matches is named.
fn pattern(pattern: &str, out: &mut Vec<Input>) {
    let before = out.len();
    let listing = matches(pattern, MOST_FILES);
    for path in listing.files {
        let found = fs::metadata(&path);
        match &found {
            Ok(meta) if meta.is_file() => out.push(file(path, false, meta.len())),
            Ok(meta) if meta.is_dir() => directory(&path, out),
            _ => out.extend(refusal(&found, &path).map(|why| nothing(&path.display().to_string(), why))),
        }
    }
    out.extend(listing.left_out.into_iter().map(|(path, why)| nothing(&path.display().to_string(), why)));
    if out.len() == before {
        out.push(nothing(pattern, "no file matches".into()));
    }
}

/// Regular files in and below `dir`, by name; hidden ones are passed over. Through a link to a file, but never to a pipe or a device.
/// Where a link leads nowhere a file is missed.
fn directory(dir: &Path, out: &mut Vec<Input>) {
    let before = out.len();
    let listing = below(dir, MOST_FILES, |name| !name.starts_with('.'));
    for path in listing.files {
        match fs::metadata(&path) {
            Ok(meta) if meta.is_file() => out.push(file(path, false, meta.len())),
            Ok(_) => {}
            found => out.extend(refusal(&found, &path).map(|why| nothing(&path.display().to_string(), why))),
        }
    }
    out.extend(listing.left_out.into_iter().map(|(path, why)| nothing(&path.display().to_string(), why)));
    if out.len() == before {
        out.push(nothing(&dir.display().to_string(), "no files in it".into()));
    }
}
