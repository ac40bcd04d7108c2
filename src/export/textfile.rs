//! The page as a file for node_exporter's textfile directory, where no further port may be opened.

use crate::base::time::Stamp;
use crate::base::words::io_words;
use anyhow::Result;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As often as Prometheus usually scrapes.
const EVERY: Duration = Duration::from_secs(15);
const NAME: &str = "nccl-top.prom";

pub struct Writer {
    dir: PathBuf,
    written_at: Option<Stamp>,
    /// The last attempt failed, and the user has read why.
    has_complained: bool,
    tell: fn(&str),
}

impl Writer {
    /// # Errors
    /// If nothing can be written there, in words for the user.
    pub fn new(dir: &Path, tell: fn(&str)) -> Result<Writer> {
        anyhow::ensure!(
            dir.is_dir(),
            "--textfile {}: not a directory; name that of node_exporter's --collector.textfile.directory",
            dir.display()
        );
        let writer = Writer { dir: dir.to_path_buf(), written_at: None, has_complained: false, tell };
        writer.write(b"").map_err(|err| anyhow::anyhow!("--textfile {}: {}", dir.display(), io_words(&err)))?;
        Ok(writer)
    }

    /// Writes the page, if it is time.
    pub fn offer(&mut self, now: Stamp, page: &[u8]) {
        if self.written_at.is_some_and(|at| now.since(at) < EVERY) {
            return;
        }
        self.written_at = Some(now);
        match self.write(page) {
            Ok(()) => self.has_complained = false,
            Err(err) if !self.has_complained => {
                self.has_complained = true;
                (self.tell)(&format!("--textfile {}: {}; tried again every {} s", self.dir.display(), io_words(&err), EVERY.as_secs()));
            }
            Err(_) => {}
        }
    }

    /// Whoever reads finds the page before or this one, and never a part. node_exporter takes names that end in .prom only.
    fn write(&self, page: &[u8]) -> io::Result<()> {
        let temporary = self.dir.join(format!("{NAME}.{}.tmp", std::process::id()));
        // What an earlier process of the same number has left; a link of somebody else is not followed.
        match fs::remove_file(&temporary) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            _ => {}
        }
        let written = (|| {
            use std::io::Write;
            use std::os::unix::fs::OpenOptionsExt;
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temporary)?;
            file.write_all(page)?;
            fs::rename(&temporary, self.dir.join(NAME))
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

impl Drop for Writer {
    /// What nobody renews any more must not be taken for the present.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.dir.join(NAME));
    }
}
