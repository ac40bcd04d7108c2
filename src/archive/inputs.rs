//! Turns the arguments of `check` into files: files, globs, directories, `-`.

use crate::sources::files::{MOST_ENTRIES, below};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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
            Ok(meta) if meta.is_dir() => {
                let (files, too_many) = files_below(path);
                let why = if files.is_empty() {
                    Some("no files in it".to_owned())
                } else {
                    too_many.then(|| format!("more than {MOST_ENTRIES} entries: the rest was not read; name the files, or a glob"))
                };
                out.extend(why.map(|why| nothing(arg, why)));
                out.extend(files.into_iter().map(|(path, size)| file(path, false, size)));
            }
            Ok(meta) if meta.is_file() => out.push(file(path.to_path_buf(), true, meta.len())),
            // `nccl-top check <(kubectl logs …)`
            Ok(_) if ["/dev/fd/", "/proc/self/fd/", "/dev/stdin"].iter().any(|own| arg.starts_with(own)) => {
                out.push(Input { size_bytes: None, ..file(path.to_path_buf(), true, 0) });
            }
            Ok(_) => out.push(nothing(arg, "neither a file nor a directory".into())),
            Err(err) if err.kind() == io::ErrorKind::NotFound && arg.contains(['*', '?', '[']) => {
                let before = out.len();
                let matches: Vec<PathBuf> = glob::glob(arg).into_iter().flatten().filter_map(Result::ok).take(MOST_ENTRIES).collect();
                for path in matches {
                    match fs::metadata(&path) {
                        Ok(meta) if meta.is_file() => out.push(file(path, false, meta.len())),
                        Ok(meta) if meta.is_dir() => {
                            out.extend(files_below(&path).0.into_iter().map(|(path, size)| file(path, false, size)))
                        }
                        _ => {}
                    }
                }
                if out.len() == before {
                    out.push(nothing(arg, "no file matches".into()));
                }
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => out.push(nothing(arg, "no such file".into())),
            Err(err) => out.push(nothing(arg, crate::base::words::io_words(&err))),
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

/// Regular files in and below `dir`, by name, with their sizes; hidden ones are passed over. Through a link to a file, but never to a
/// pipe or a device.
fn files_below(dir: &Path) -> (Vec<(PathBuf, u64)>, bool) {
    let (files, too_many) = below(dir, |name| !name.starts_with('.'));
    let regular = files.into_iter().filter_map(|path| {
        let meta = fs::metadata(&path).ok().filter(|m| m.is_file())?;
        Some((path, meta.len()))
    });
    (regular.collect(), too_many)
}
