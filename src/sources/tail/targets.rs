//! Turns the LOG arguments into paths: files, globs, directories. Follows nothing itself.

use super::follow::{Known, Origin};
use super::open::{Inode, inode_of};
use crate::sources::files::{self, MOST_ENTRIES};
use std::collections::{HashMap, HashSet};
use std::fs::{self, Metadata, OpenOptions};
use std::io::Read;
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
}

impl Targets {
    pub fn new(args: Vec<String>) -> Self {
        Targets { args, binary: HashMap::new() }
    }

    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// What the arguments lead to and is not in `followed` yet, in the order of the arguments.
    pub fn scan(&mut self, followed: &HashSet<PathBuf>, known: &Known) -> Vec<Candidate> {
        let mut out = Vec::new();
        let mut seen = HashSet::new();
        for arg in self.args.clone() {
            let path = Path::new(&arg);
            let found = match fs::metadata(path) {
                Ok(meta) if meta.is_dir() => files::below(path, looks_like_log).0,
                Err(_) if arg.contains(['*', '?', '[']) => matches_of(&arg),
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
                let Ok(meta) = fs::metadata(&path) else { continue };
                let inode = inode_of(&meta);
                if meta.is_file() && !known.is_open(inode) && !known.is_read(inode, meta.len()) && self.is_text(&path, &meta) {
                    out.push(Candidate { path, origin: Origin::Found, meta: Some(meta) });
                }
            }
        }
        out
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
        if file.take(SNIFF_BYTES).read_to_end(&mut first).is_err() {
            return true;
        }
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

fn matches_of(pattern: &str) -> Vec<PathBuf> {
    glob::glob(pattern).map(|paths| paths.filter_map(Result::ok).take(MOST_ENTRIES).collect()).unwrap_or_default()
}

fn looks_like_log(name: &str) -> bool {
    const EXTENSIONS: &[&str] = &["log", "logs", "txt", "text", "out", "err", "stdout", "stderr", "output", "jsonl", "nccl"];
    const WORDS: &[&str] = &["log", "stdout", "stderr", "output", "nccl", "slurm", "rank", "nohup"];
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
    let name = name.to_lowercase();
    if name.starts_with('.') || OTHERS.iter().any(|other| name.contains(other)) && !name.ends_with(".jsonl") {
        return false;
    }
    let has_extension = name.rsplit('.').next().is_some_and(|ext| EXTENSIONS.contains(&ext));
    has_extension || WORDS.iter().any(|word| name.contains(word))
}
