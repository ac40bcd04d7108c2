//! What kinds of files there are, told apart by their first bytes.

use super::Seen;
use super::inputs::{Input, Source};
use super::intake::Intake;
use crate::base::file::{self, Counted};
use crate::base::time::{Clock, Stamp};
use crate::base::words::io_words;
use flate2::read::MultiGzDecoder;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One kind of input.
pub struct Kind {
    /// `log`, `flight-recorder`, …: as in the report.
    pub id: &'static str,
    /// For people, plural: "Flight Recorder dumps".
    pub name: &'static str,
    pub is: fn(&Opened) -> bool,
    pub read: Reading,
}

/// Reads an input into a session; the last argument is called now and then. An error says, in words, why the input, or the rest of it,
/// could not be judged.
pub type Reading = fn(&mut Opened, &mut Intake, &mut dyn FnMut()) -> Result<Counts, String>;

/// All kinds; the first that a file is.
#[rustfmt::skip]
pub const KINDS: &[Kind] = &[
    super::tape::KIND,
    super::flight::KIND,
    super::nccl_tests::KIND,
    super::inspector::KIND,
    super::inspector::PROM,
    super::ras::KIND,
    super::metrics::KIND,
    super::log::KIND,
];

/// What reading counted.
#[derive(Debug, Default)]
pub struct Counts {
    pub lines: Option<u64>,
}

/// An input that is open, at its start.
pub struct Opened {
    /// As the user may know it.
    pub name: String,
    /// The first bytes, decompressed. They come again when it is read.
    pub head: Vec<u8>,
    input: Box<dyn Read + Send>,
    head_at: usize,
    /// When the file was last written; now for a pipe.
    pub modified: Stamp,
    /// Bytes taken from the file, still compressed.
    taken: Arc<AtomicU64>,
}

const HEAD: usize = 64 << 10;

impl Read for Opened {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = &self.head[self.head_at..];
        if left.is_empty() {
            return self.input.read(buf);
        }
        let n = left.len().min(buf.len());
        buf[..n].copy_from_slice(&left[..n]);
        self.head_at += n;
        Ok(n)
    }
}

/// The rest of an input that is damaged.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

impl Opened {
    /// # Errors
    /// As [`Opened::from_read`].
    pub fn of(input: &Input) -> Result<Opened, String> {
        let now = || Clock::start().now();
        match &input.source {
            Source::Nothing(why) => Err(why.clone()),
            Source::Stdin => Opened::from_read(input.name.clone(), io::stdin(), now()),
            Source::File(path) => {
                let file = file::open(path).map_err(|err| io_words(&err))?;
                // A log that was truncated under a writer that does not append begins with a hole. A pipe has none.
                let _ = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0));
                let modified = file.metadata().ok().and_then(|m| m.modified().ok());
                let since = modified.and_then(|m| m.duration_since(std::time::UNIX_EPOCH).ok());
                let modified = since.map_or_else(now, |d| Stamp(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)));
                Opened::from_read(input.name.clone(), file, modified)
            }
        }
    }

    /// # Errors
    /// If it cannot be read, or is compressed and damaged at its start.
    pub fn from_read(name: String, input: impl Read + Send + 'static, modified: Stamp) -> Result<Opened, String> {
        let (mut raw, taken) = Counted::new(input);
        let mut head = read_up_to(&mut raw, HEAD).map_err(|err| io_words(&err))?;
        let mut input: Box<dyn Read + Send> = Box::new(raw);
        if head.starts_with(&[0x1f, 0x8b]) {
            let mut unzipped = MultiGzDecoder::new(io::Cursor::new(head).chain(input));
            head = Vec::new();
            // What was written before the process was killed can still be unpacked.
            input = match (&mut unzipped).take(HEAD as u64).read_to_end(&mut head) {
                Ok(_) => Box::new(unzipped),
                Err(err) if head.is_empty() => return Err(format!("damaged gzip: {}", io_words(&err))),
                Err(err) => Box::new(Broken(Some(err))),
            };
        }
        // All of it is there: it may have been pasted into a document.
        if head.len() < HEAD && is_text(&head) {
            head = super::pasted::as_printed(head);
        }
        Ok(Opened { name, head, input, head_at: 0, modified, taken })
    }

    /// Stands in for one that was handed on.
    pub fn nothing() -> Opened {
        let taken = Arc::new(AtomicU64::new(0));
        Opened { name: String::new(), head: Vec::new(), input: Box::new(io::empty()), head_at: 0, modified: Stamp::default(), taken }
    }

    /// The last part of the path, without `.gz`.
    pub fn file_name(&self) -> &str {
        let name = self.name.rsplit('/').next().unwrap_or(&self.name);
        name.strip_suffix(".gz").unwrap_or(name)
    }

    /// Everything.
    ///
    /// # Errors
    /// If it cannot be read, or is larger than `most` bytes.
    pub fn all(&mut self, most: u64) -> Result<Vec<u8>, String> {
        const PIECE: u64 = 8 << 20;
        let mut bytes = Vec::new();
        while bytes.len() as u64 <= most {
            let room = (most + 1 - bytes.len() as u64).min(PIECE);
            if self.take(room).read_to_end(&mut bytes).map_err(|err| io_words(&err))? == 0 {
                break;
            }
            file::check_growth(self.taken.load(Ordering::Relaxed), bytes.len() as u64)?;
        }
        if bytes.len() as u64 > most {
            return Err(format!("larger than {} MiB, which no file of its kind is", most >> 20));
        }
        Ok(bytes)
    }

    /// Counts the bytes that were taken from the file, still compressed.
    pub fn taken(&self) -> Arc<AtomicU64> {
        self.taken.clone()
    }
}

fn read_up_to(input: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The error output of a process alone, in which a healthy one may write nothing: `stderr.log` of torchrun, `slurm-7.err`, `err.3`.
fn is_for_errors(name: &str) -> bool {
    name.starts_with("stderr") || name.ends_with(".err") || name.starts_with("err.")
}

/// Reads one input into a session. `progress` gets the bytes taken from it so far.
pub fn read(input: &Input, intake: &mut Intake, progress: &mut dyn FnMut(u64)) -> Seen {
    let mut seen = Seen { path: input.name.clone(), ..Seen::default() };
    let mut opened = match Opened::of(input) {
        Ok(opened) => opened,
        Err(why) => {
            seen.error = Some(why);
            return seen;
        }
    };
    seen.bytes = input.size_bytes;
    if opened.head.is_empty() {
        if is_for_errors(opened.file_name()) {
            seen.note = Some("empty: nothing was written to the error output");
            return seen;
        }
        // A dump that was never written is missed even where nobody named it.
        let dump = opened.file_name().contains("trace_rank_");
        seen.error = (input.named || dump).then(|| "the file is empty: whoever should have written it did not".into());
        return seen;
    }
    if let Some(why) = utf_16(&opened) {
        seen.error = (input.named || why.1).then_some(why.0);
        return seen;
    }
    let Some(kind) = KINDS.iter().find(|k| (k.is)(&opened)) else {
        seen.error = input.named.then(|| unknown(&opened.head));
        return seen;
    };
    seen.kind = Some(kind.id);
    let taken = opened.taken();
    match (kind.read)(&mut opened, intake, &mut || progress(taken.load(Ordering::Relaxed))) {
        Ok(counts) => seen.lines = counts.lines,
        Err(why) => seen.error = Some(why),
    }
    seen.bytes = seen.bytes.or(Some(taken.load(Ordering::Relaxed)));
    seen
}

/// The error for UTF-16 text, as PowerShell's `>` writes it, and whether the file's name is that of a log.
fn utf_16(opened: &Opened) -> Option<(String, bool)> {
    let mark = [[0xff, 0xfe], [0xfe, 0xff]].iter().any(|mark| opened.head.starts_with(mark));
    let is_log = [".log", ".out", ".err", ".txt"].iter().any(|end| opened.file_name().ends_with(end));
    mark.then(|| ("UTF-16 text; convert it: iconv -f UTF-16 -t UTF-8 FILE | nccl-top check -".to_owned(), is_log))
}

/// The error for a file of no known kind.
fn unknown(head: &[u8]) -> String {
    let packed: &[(&[u8], &str)] = &[
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd -dc"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "xz -dc"),
        (b"BZh", "bzip2 -dc"),
        (b"PK\x03\x04", "unzip -p"),
    ];
    if let Some((_, command)) = packed.iter().find(|(magic, _)| head.starts_with(magic)) {
        return format!("compressed in a way that is not read here; unpack it: {command} FILE | nccl-top check -");
    }
    let names: Vec<&str> = KINDS.iter().map(|k| k.name).collect();
    format!("a binary file, and none of what check reads: {}", names.join(", "))
}

/// Text, for all that the first bytes tell. A few NULs are in real logs: a DataLoader worker that dies writes one in front of its
/// traceback. Bars that step back over themselves (Keras) are mostly backspaces.
pub fn is_text(head: &[u8]) -> bool {
    let odd = head.iter().filter(|b| matches!(b, 0..=7 | 0x0e..=0x1a | 0x1c..=0x1f)).count();
    odd * 64 <= head.len()
}
