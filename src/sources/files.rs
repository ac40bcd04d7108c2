//! The files below a directory that somebody has named, or that a pattern matches.

use crate::base::units::group;
use crate::base::words::io_words;
use std::fs;
use std::path::{Path, PathBuf};

/// How deep a directory is searched.
const DEEPEST: usize = 8;
/// Entries of directories, or matches of a pattern, that are looked at again and again.
pub const MOST_ENTRIES: usize = 20_000;
/// So many that are left out are named.
const MOST_NAMED: usize = 100;

/// Files, in order, and what was left out.
#[derive(Debug, Default)]
pub struct Listing {
    pub files: Vec<PathBuf>,
    /// What was not looked at, and why.
    pub left_out: Vec<(PathBuf, String)>,
}

impl Listing {
    fn leave_out(&mut self, path: &Path, why: impl Into<String>) {
        if self.left_out.len() < MOST_NAMED {
            self.left_out.push((path.to_path_buf(), why.into()));
        }
    }
}

/// Files in and below `dir` with names that are wanted. Looks at no more than `most` entries. Hidden directories and links to directories
/// are passed over; what a link leads to, or whether it is a pipe, is for the caller to see.
pub fn below(dir: &Path, most: usize, wanted: impl Fn(&str) -> bool) -> Listing {
    let (mut out, mut entries) = (Listing::default(), 0);
    let root = dir;
    let mut dirs = vec![(dir.to_path_buf(), 0)];
    'all: while let Some((dir, depth)) = dirs.pop() {
        let listing = match fs::read_dir(&dir) {
            Ok(listing) => listing,
            Err(err) => {
                out.leave_out(&dir, io_words(&err));
                continue;
            }
        };
        for entry in listing.filter_map(Result::ok) {
            entries += 1;
            if entries > most {
                out.leave_out(
                    root,
                    format!("more than {} entries; the rest is not looked at: name fewer directories, or files", group(most as u64)),
                );
                break 'all;
            }
            let name = entry.file_name();
            let name = name.to_string_lossy();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name.starts_with('.') => {}
                Ok(kind) if kind.is_dir() && depth < DEEPEST => dirs.push((entry.path(), depth + 1)),
                Ok(kind) if kind.is_dir() => out.leave_out(&entry.path(), format!("more than {DEEPEST} levels deep; name it")),
                Ok(_) if wanted(&name) => out.files.push(entry.path()),
                _ => {}
            }
        }
    }
    out.files.sort();
    out
}

/// Whether an argument that names nothing is a pattern.
pub fn is_pattern(arg: &str) -> bool {
    arg.contains(['*', '?', '['])
}

/// What a pattern matches, no more than `most`. Directories that may not be read are among what is left out.
pub fn matches(pattern: &str, most: usize) -> Listing {
    let mut out = Listing::default();
    let found = match glob::glob(pattern) {
        Ok(found) => found,
        Err(err) => {
            out.leave_out(Path::new(pattern), format!("not a pattern: {}", err.msg));
            return out;
        }
    };
    for path in found {
        match path {
            Ok(_) if out.files.len() >= most => {
                out.leave_out(
                    Path::new(pattern),
                    format!("more than {} matches; the rest is not looked at: name fewer files", group(most as u64)),
                );
                break;
            }
            Ok(path) => out.files.push(path),
            Err(err) => out.leave_out(err.path(), io_words(err.error())),
        }
    }
    out
}

/// Why a path is no file to be read; `None`: it is one.
pub fn refusal(found: &std::io::Result<fs::Metadata>, path: &Path) -> Option<String> {
    match found {
        Ok(meta) if meta.is_file() => None,
        Ok(meta) => Some(format!("{}, not a regular file; not opened", kind_of(meta.file_type()))),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound && path.is_symlink() => Some("a link that leads nowhere".into()),
        Err(err) => Some(io_words(err)),
    }
}

fn kind_of(kind: fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_dir() {
        "a directory"
    } else {
        "a device"
    }
}
