//! Turns the LOG arguments into paths: files, globs, directories. Follows nothing itself.

use super::follow::{Known, Origin};
use super::open::{Inode, inode_of};
use super::print::is_named_after;
use crate::sources::files::{self, MOST_ENTRIES};
use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const SNIFF_BYTES: u64 = 4096;
const MOST_SNIFFED: usize = 4096;

/// A path that is not followed yet.
pub(super) struct Candidate {
    pub path: PathBuf,
    pub origin: Origin,
    /// `None`: there is nothing to follow yet.
    pub meta: Option<Metadata>,
}

pub(super) struct Targets {
    args: Vec<String>,
    /// Files that turned out to be binary, with the size they had.
    binary: HashMap<Inode, u64>,
    left_out: Vec<(PathBuf, String)>,
}

impl Targets {
    pub fn new(args: Vec<String>) -> Self {
        Targets { args, binary: HashMap::new(), left_out: Vec::new() }
    }

    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// What the last scan found and could not follow, as far as it is named, and why.
    pub fn left_out(&self) -> &[(PathBuf, String)] {
        &self.left_out
    }

    /// What the arguments lead to and is not in `followed` yet, in the order of the arguments.
    pub fn scan(&mut self, followed: &HashSet<PathBuf>, known: &Known) -> Vec<Candidate> {
        let mut out = Vec::new();
        let mut seen = HashSet::new();
        self.left_out.clear();
        for arg in self.args.clone() {
            let path = Path::new(&arg);
            let found = match fs::metadata(path) {
                Ok(meta) if meta.is_dir() => self.below(path),
                Err(_) if files::is_pattern(&arg) => self.matches_of(&arg),
                found => {
                    if !followed.contains(path) && seen.insert(path.to_path_buf()) {
                        out.push(Candidate { path: path.to_path_buf(), origin: Origin::Named, meta: found.ok() });
                    }
                    continue;
                }
            };
            for path in found {
                if followed.contains(&path) || !seen.insert(path.clone()) {
                    continue;
                }
                out.extend(self.candidate(path, known));
            }
        }
        out
    }

    fn candidate(&mut self, path: PathBuf, known: &Known) -> Option<Candidate> {
        let found = fs::metadata(&path);
        match files::refusal(&found, &path) {
            // Deleted in between.
            Some(_) if found.as_ref().is_err_and(|err| err.kind() == ErrorKind::NotFound) && !path.is_symlink() => return None,
            Some(why) => {
                self.left_out.push((path, why));
                return None;
            }
            None => {}
        }
        let meta = found.ok().filter(|meta| !known.is_open(inode_of(meta)) && !known.is_read(meta))?;
        if !self.is_text(&path, &meta) {
            self.left_out.push((path, "binary, not text".into()));
            return None;
        }
        Some(Candidate { path, origin: Origin::Found, meta: Some(meta) })
    }

    fn below(&mut self, dir: &Path) -> Vec<PathBuf> {
        let listing = files::below(dir, MOST_ENTRIES, looks_like_log);
        self.left_out.extend(listing.left_out);
        listing.files
    }

    /// Files that match, and logs below directories that do.
    fn matches_of(&mut self, pattern: &str) -> Vec<PathBuf> {
        let listing = files::matches(pattern, MOST_ENTRIES);
        self.left_out.extend(listing.left_out);
        let below = |path: PathBuf| if path.is_dir() { self.below(&path) } else { vec![path] };
        listing.files.into_iter().flat_map(below).collect()
    }

    /// Judged by its first bytes. A few NULs are in real logs: a DataLoader worker that dies writes one in front of its traceback.
    fn is_text(&mut self, path: &Path, meta: &Metadata) -> bool {
        let inode = inode_of(meta);
        if self.binary.get(&inode) == Some(&meta.len()) {
            return false;
        }
        let mut first = Vec::new();
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        // What cannot be read is followed, so that it is reported.
        let Ok(file) = opened else { return true };
        // A hole is what a writer leaves that does not append, after a truncation.
        let _ = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0));
        if file.take(SNIFF_BYTES).read_to_end(&mut first).is_err() {
            return true;
        }
        let written = first.iter().position(|b| *b != 0).unwrap_or(0);
        first.drain(..written);
        let nuls = first.iter().filter(|b| **b == 0).count();
        let is_text = nuls * 64 <= first.len();
        if !is_text {
            if self.binary.len() >= MOST_SNIFFED {
                self.binary.clear();
            }
            self.binary.insert(inode, meta.len());
        }
        is_text
    }
}

/// Newest first, for when not all can be followed.
pub(super) fn newest_first(candidates: &mut [Candidate]) {
    candidates.sort_by_key(|c| std::cmp::Reverse(c.meta.as_ref().map(|m| (m.mtime(), m.mtime_nsec()))));
}

/// Files beside `path` that are named after it, as rotation names them, and that nobody has read.
pub(super) fn siblings(path: &Path, known: &Known) -> Vec<(PathBuf, Metadata)> {
    // A relative path without a directory has an empty parent.
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(listing) = fs::read_dir(directory) else { return Vec::new() };
    let paths = listing.take(MOST_ENTRIES).filter_map(Result::ok).map(|entry| entry.path());
    let logs = paths.filter(|p| is_named_after(p, path) && p.file_name().is_some_and(|name| is_readable(&name.to_string_lossy())));
    let unread = |meta: &Metadata| meta.is_file() && !known.is_open(inode_of(meta)) && !known.is_read(meta);
    logs.filter_map(|path| Some((path.clone(), fs::metadata(path).ok().filter(unread)?))).collect()
}

/// Of parts of names that logs do not have.
const OTHERS: &[&str] = &[
    "tfevents",
    ".gz",
    ".xz",
    ".zst",
    ".bz2",
    ".zip",
    ".tar",
    ".pt",
    ".pth",
    ".bin",
    ".safetensors",
    ".np",
    ".pkl",
    ".parquet",
    ".so",
    ".py",
    ".sh",
    ".yaml",
    ".yml",
    ".toml",
    ".ini",
    ".csv",
    ".md",
    ".html",
    ".png",
    ".json",
    ".pickle",
    ".ckpt",
    ".lock",
];

/// Not compressed, and nothing else that is no text.
fn is_readable(name: &str) -> bool {
    let name = name.to_lowercase();
    name.ends_with(".jsonl") || !OTHERS.iter().any(|other| name.contains(other))
}

fn looks_like_log(name: &str) -> bool {
    const EXTENSIONS: &[&str] = &["log", "logs", "txt", "text", "out", "err", "stdout", "stderr", "output", "jsonl", "nccl"];
    const WORDS: &[&str] = &["log", "stdout", "stderr", "output", "nccl", "slurm", "rank", "nohup"];
    if name.starts_with('.') || !is_readable(name) {
        return false;
    }
    let name = name.to_lowercase();
    let has_extension = name.rsplit('.').next().is_some_and(|ext| EXTENSIONS.contains(&ext));
    has_extension || WORDS.iter().any(|word| name.contains(word))
}
