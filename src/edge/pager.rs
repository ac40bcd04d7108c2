//! `$PAGER`, on a terminal that was given back for it.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};

/// What is to be read.
pub enum Page {
    /// A file, from this line on.
    File { path: String, line: Option<u64> },
    /// A text of which there is no file.
    Text(String),
}

/// Where the user has chosen none.
const USUAL: &str = "less";
/// Pagers that know `+N` as the line to begin at.
const KNOW_LINES: [&str; 4] = ["less", "more", "most", "view"];

/// Runs the pager until the user leaves it.
///
/// # Errors
/// Why it could not be run, or how it ended.
pub fn run(page: &Page) -> Result<(), String> {
    let pager = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty()).unwrap_or_else(|| USUAL.to_owned());
    let mut command = Command::new("sh");
    // As other programs do: the variable may hold arguments. The name of the file is no part of the text that the shell reads.
    command.arg("-c").arg(format!("{pager} \"$@\"")).arg("sh");
    match page {
        Page::File { path, line } => {
            let program = pager.split_whitespace().next().and_then(|word| word.rsplit('/').next());
            if let (Some(line), true) = (line, program.is_some_and(|program| KNOW_LINES.contains(&program))) {
                command.arg(format!("+{line}"));
            }
            command.arg(if path.starts_with('-') { format!("./{path}") } else { path.clone() });
            if !std::io::stdin().is_terminal() {
                command.stdin(File::open("/dev/tty").map_or_else(|_| Stdio::null(), Stdio::from));
            }
        }
        Page::Text(_) => {
            command.stdin(Stdio::piped());
        }
    }
    let mut child = command.spawn().map_err(|err| format!("{pager}: {}", crate::base::words::io_words(&err)))?;
    if let (Page::Text(text), Some(mut input)) = (page, child.stdin.take()) {
        // Who leaves it before the end of the text has seen enough.
        let _ = input.write_all(text.as_bytes());
    }
    let status = child.wait().map_err(|err| format!("{pager}: {}", crate::base::words::io_words(&err)))?;
    match status.code() {
        Some(0) | None => Ok(()),
        Some(127) => Err(format!("{pager} was not found; set PAGER to a program that is there")),
        Some(code) => Err(format!("{pager} ended with {code}")),
    }
}
