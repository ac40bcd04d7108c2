//! Users' own entries of the catalogue: their files are found and read here, see [`crate::text::signature::user`].

use crate::sources::io_words;
use crate::text::signature::user;
use anyhow::{Context as _, Result};
use std::io::Read;
use std::path::{Path, PathBuf};

const MAX_FILE_BYTES: u64 = 1 << 20;
const MOST_FILES: usize = 64;

/// Puts the entries of `catalog/*.toml` beside the config file, and of the files that the command line names, into use.
///
/// # Errors
/// The first file that cannot be read, or the first mistake in one: file, line, key, and what to do.
pub fn install(config_file: Option<&Path>, named: &[PathBuf]) -> Result<()> {
    let folder = config_file.and_then(Path::parent).map(|folder| folder.join("catalog"));
    let mut paths = folder.map_or(Ok(Vec::new()), |folder| files_of(&folder))?;
    paths.extend(named.iter().cloned());
    anyhow::ensure!(paths.len() <= MOST_FILES, "{} files of a catalogue, at most {MOST_FILES} are read; put entries together", paths.len());
    if paths.is_empty() {
        return Ok(());
    }
    let read = |path: &PathBuf| {
        let shown = path.display().to_string();
        read_file(path).map(|text| (shown.clone(), text)).with_context(|| shown)
    };
    let files = paths.iter().map(read).collect::<Result<Vec<_>>>()?;
    user::install(user::read(&files)?);
    Ok(())
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let found = match std::fs::read_dir(folder) {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(|err| anyhow::anyhow!("{}: {}; make it readable or remove it", folder.display(), io_words(&err)))?,
    };
    let mut paths: Vec<PathBuf> = found.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml") && path.is_file());
    paths.sort();
    Ok(paths)
}

fn read_file(path: &Path) -> Result<String> {
    let wrong = |err: &std::io::Error| anyhow::anyhow!("{}", io_words(err));
    let mut text = Vec::new();
    let file = std::fs::File::open(path).map_err(|err| wrong(&err))?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(|err| wrong(&err))?;
    anyhow::ensure!(text.len() as u64 <= MAX_FILE_BYTES, "a file of a catalogue has at most {} KiB; split it", MAX_FILE_BYTES >> 10);
    String::from_utf8(text).map_err(|_| anyhow::anyhow!("it is not UTF-8; save it as UTF-8"))
}
