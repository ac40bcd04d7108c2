//! Opens files that a user names, and reads small ones. Any path may be a pipe that nobody writes to, a device without an end, or larger
//! than memory.

use crate::base::words::io_words;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Opens a file for reading without waiting for anybody and without becoming a terminal's owner. A pipe is taken only where the shell
/// has made it for this program: `nccl-top check <(kubectl logs …)`.
///
/// # Errors
/// If it cannot be opened, or is a pipe or socket with a name.
pub fn open(path: &Path) -> io::Result<File> {
    if is_handed_over(path) {
        return File::open(path);
    }
    let file = open_at_once(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other(
            "a named pipe, which may never end; name a file, or read the pipe through the shell, as `<(cat PIPE)`",
        ));
    }
    Ok(file)
}

/// Opens whatever is there for reading. What would have to be waited for reads as empty or as an error.
///
/// # Errors
/// If it cannot be opened.
pub fn open_at_once(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOCTTY | libc::O_NONBLOCK).open(path)
}

/// The first bytes of a table that the kernel makes up, `most` at most: below `--sysroot` it may have no end.
///
/// # Errors
/// If it cannot be read.
pub fn read_table(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_at_once(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The end of a file that grows, `most` bytes of it.
///
/// # Errors
/// If it cannot be read.
pub fn read_end(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open_at_once(path)?;
    let from = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A descriptor that the program was started with.
pub fn is_handed_over(path: &Path) -> bool {
    ["/dev/fd", "/proc/self/fd"].iter().any(|own| path.starts_with(own)) || path == Path::new("/dev/stdin")
}

/// A reader that counts the bytes that were taken from it.
pub struct Counted<R> {
    inner: R,
    taken: Arc<AtomicU64>,
}

impl<R> Counted<R> {
    /// The reader, and the count, which grows as it is read.
    pub fn new(inner: R) -> (Counted<R>, Arc<AtomicU64>) {
        let taken = Arc::new(AtomicU64::new(0));
        (Counted { inner, taken: taken.clone() }, taken)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// What a compressed file may be in any case, unpacked, and how many times as large as it is. Recordings of real jobs are 3 to 16 times as
/// large, of an idle node 30 times; only logs, which are not kept, may be more.
const FREE_BYTES: u64 = 32 << 20;
const UNPACKED_PER_BYTE: u64 = 64;

/// Whether a file of so many bytes may become so many when it is unpacked.
///
/// # Errors
/// In words, if it may not.
pub fn check_growth(packed: u64, unpacked: u64) -> Result<(), String> {
    if unpacked > FREE_BYTES.saturating_add(packed.saturating_mul(UNPACKED_PER_BYTE)) {
        return Err(format!(
            "{} MiB unpacked and more, over {UNPACKED_PER_BYTE} times the file: no file of its kind is so",
            unpacked >> 20
        ));
    }
    Ok(())
}

/// The text of a file of at most `most` bytes.
///
/// # Errors
/// In words, without the path: it cannot be read, is larger, or is no UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes)).map_err(|err| io_words(&err))?;
    if bytes.len() as u64 > most {
        return Err(format!("larger than {} KiB, which no file of its kind is", most >> 10));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8; save it as UTF-8".into())
}
