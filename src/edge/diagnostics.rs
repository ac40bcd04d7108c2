//! nccl-top's own diagnostics: in the file that `--log-file` names, and what the user must know on standard error.

use crate::base::mask::shown;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

static FILE: OnceLock<Mutex<File>> = OnceLock::new();

/// # Errors
/// As [`super::private::append`].
pub fn to_file(path: &Path) -> io::Result<()> {
    let file = super::private::append(path)?;
    let _ = FILE.set(Mutex::new(file));
    Ok(())
}

/// Writes one line, if there is a file. Never blocks the program on a failure to write.
pub fn note(text: std::fmt::Arguments<'_>) {
    if let Some(Ok(mut file)) = FILE.get().map(Mutex::lock) {
        let _ = writeln!(file, "{}", shown(&text.to_string()));
    }
}

/// [`note`] of a text, for whoever takes a function for what goes wrong.
pub fn note_text(text: &str) {
    note(format_args!("{text}"));
}

/// Prints a line on standard error, with the program's name before it.
pub fn complain(text: &str) {
    print(&format!("nccl-top: {text}"));
}

/// Prints a line on standard error. It may quote a file's name or content, which are not ours. Nobody may read it: then the program does
/// not wait longer than a moment.
pub fn print(line: &str) {
    let mut stderr = io::stderr();
    let mut fds = [PollFd::new(&stderr, PollFlags::OUT)];
    if poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).is_ok_and(|ready| ready > 0) {
        let _ = writeln!(stderr, "{}", shown(line));
    }
}
