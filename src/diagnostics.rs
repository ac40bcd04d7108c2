//! nccl-top's own diagnostics: to the file that `--log-file` names, and nowhere else.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

static FILE: OnceLock<Mutex<File>> = OnceLock::new();

/// # Errors
/// If the file cannot be opened for appending.
pub fn to_file(path: &Path) -> io::Result<()> {
    let file = File::options().append(true).create(true).open(path)?;
    let _ = FILE.set(Mutex::new(file));
    Ok(())
}

/// Writes one line, if there is a file. Never blocks the program on a failure to write.
pub fn note(text: std::fmt::Arguments<'_>) {
    if let Some(Ok(mut file)) = FILE.get().map(Mutex::lock) {
        let _ = writeln!(file, "{text}");
    }
}
