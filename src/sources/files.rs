//! The files below a directory that somebody has named.

use std::fs;
use std::path::{Path, PathBuf};

/// How deep and how far a directory is searched.
const DEEPEST: usize = 8;
pub const MOST_ENTRIES: usize = 20_000;

/// Files in and below `dir` with names that are wanted, in order, and whether there is more than was looked at. Hidden directories and
/// links to directories are passed over; what a link leads to, or whether it is a pipe, is for the caller to see.
pub fn below(dir: &Path, wanted: impl Fn(&str) -> bool) -> (Vec<PathBuf>, bool) {
    let (mut out, mut entries) = (Vec::new(), 0);
    let mut dirs = vec![(dir.to_path_buf(), 0)];
    while let Some((dir, depth)) = dirs.pop() {
        let Ok(listing) = fs::read_dir(&dir) else { continue };
        for entry in listing.filter_map(Result::ok) {
            entries += 1;
            if entries > MOST_ENTRIES {
                out.sort();
                return (out, true);
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < DEEPEST && !name.starts_with('.') => dirs.push((entry.path(), depth + 1)),
                Ok(kind) if !kind.is_dir() && wanted(&name) => out.push(entry.path()),
                _ => {}
            }
        }
    }
    out.sort();
    (out, false)
}
