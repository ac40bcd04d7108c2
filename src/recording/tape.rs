//! The tape: observations as JSON lines, gzip when the name ends in `.gz`. What is recorded, replayed, demonstrated and tested.
//!
//! It holds input and nothing derived, so a better judge gives an old recording a better verdict. A tape that was cut off by a crash
//! is whole up to its last line. The header of a new tape promises a mark at the end, so that one cut between two lines is known as cut;
//! older tapes promise none. Tapes are untrusted: lines are bounded, unknown kinds are skipped.

use super::bounds;
use crate::base::clean::escape;
use crate::base::file::{self, Counted};
use crate::base::time::{Stamp, Zone, span};
use crate::diagnosis::session::Session;
use crate::edge::outlet::Sink;
use crate::edge::private;
use crate::observe::masking::Masking;
use crate::observe::{Body, Observation};
use crate::sources::SOURCES;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The version this program writes. It reads this one and all before it.
pub const VERSION: u32 = 1;

/// The first line of every tape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Always `nccl-top`.
    pub tape: String,
    pub version: u32,
    /// The version of the program that wrote it.
    pub program: String,
    pub host: String,
    /// Seconds east of UTC of the recording host.
    #[serde(default)]
    pub zone_offset_s: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    #[serde(default)]
    pub interval_ms: u64,
    #[serde(default)]
    pub started_ns: Stamp,
}

/// The first line as it is written: what the file promises of itself is no fact of the host.
#[derive(Serialize, Deserialize)]
struct FirstLine<H> {
    #[serde(flatten)]
    header: H,
    /// The last line is [`EndMark`]. Older tapes have neither.
    #[serde(default)]
    end_mark: bool,
}

/// The last line of a tape that was ended in order. Versions that do not know it take it for an observation of an unknown kind.
#[derive(Serialize, Deserialize)]
struct EndMark<'a> {
    at_ns: Stamp,
    from: &'a str,
    kind: &'a str,
}

const END_MARK: EndMark<'static> = EndMark { at_ns: Stamp(0), from: "tape", kind: "tape_end" };

fn is_end_mark(line: &[u8]) -> bool {
    serde_json::from_slice::<EndMark>(line).is_ok_and(|mark| mark.kind == END_MARK.kind)
}

impl Header {
    pub fn zone(&self) -> Zone {
        Zone { offset_s: self.zone_offset_s }
    }

    /// A session of the host that was recorded, which has seen nothing yet.
    pub fn session(&self) -> Session {
        Session::new(&self.host, self.zone())
    }
}

/// Why a tape cannot be read. Names the file and, where there is one, the line.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    #[error("{path}: {}", crate::base::words::io_words(cause))]
    Io { path: String, cause: io::Error },
    #[error("{path}: not a recording of nccl-top: the first line is no header ({detail}); record one with `nccl-top record -o FILE`")]
    NotATape { path: String, detail: String },
    #[error("{path}: tape version {found} is newer than this program reads ({VERSION}); update nccl-top")]
    TooNew { path: String, found: u32 },
    #[error("{path}:{line}: {detail}; the lines before it were read")]
    Line { path: String, line: u64, detail: String },
}

/// Reads a tape, observation by observation.
pub struct Reader {
    path: String,
    header: Header,
    input: Box<dyn BufRead + Send>,
    line_no: u64,
    buf: Vec<u8>,
    /// The header promises a mark at the end, and it has not come yet.
    awaits_end_mark: bool,
    /// Bytes taken from the file, and those of the lines that they became.
    packed: Arc<AtomicU64>,
    unpacked: u64,
    /// The tape ended in the middle of a line or of the compressed stream, or without the mark.
    cut: bool,
    /// The stamps of the first and the last observation.
    seen: Option<(Stamp, Stamp)>,
    /// A tape may be from elsewhere.
    masking: Masking,
}

impl Reader {
    /// # Errors
    /// If the file cannot be opened or does not begin with a header this version understands.
    pub fn open(path: &Path) -> Result<Self, TapeError> {
        let name = path.display().to_string();
        if name == "-" {
            return Reader::from_read(Box::new(io::stdin()), "standard input");
        }
        let file = file::open(path).map_err(|cause| TapeError::Io { path: name.clone(), cause })?;
        Reader::from_read(Box::new(file), &name)
    }

    /// # Errors
    /// If it does not begin with a header this version understands.
    pub fn from_read(input: Box<dyn Read + Send>, name: &str) -> Result<Self, TapeError> {
        let (input, packed) = Counted::new(input);
        Reader::from_counted(Box::new(input), packed, name)
    }

    /// Of an input that may be unpacked already; `packed` counts the bytes that were taken from the file.
    ///
    /// # Errors
    /// As [`Reader::from_read`].
    pub fn from_counted(input: Box<dyn Read + Send>, packed: Arc<AtomicU64>, name: &str) -> Result<Self, TapeError> {
        let mut raw = BufReader::new(input);
        let io_error = |cause| TapeError::Io { path: name.to_owned(), cause };
        // By content, not by name: a recording may have been renamed, or come through a pipe.
        let gzip = raw.fill_buf().map_err(io_error)?.starts_with(&[0x1f, 0x8b]);
        let mut input: Box<dyn BufRead + Send> = if gzip { Box::new(BufReader::new(MultiGzDecoder::new(raw))) } else { Box::new(raw) };
        let mut buf = Vec::new();
        let not = |detail: &str| TapeError::NotATape { path: name.to_owned(), detail: detail.to_owned() };
        match read_line(&mut input, &mut buf) {
            Ok(Got::Line) => {}
            Ok(Got::End | Got::Cut) if buf.is_empty() => return Err(not("the file is empty")),
            Ok(Got::Cut) => {}
            Ok(Got::End | Got::TooLong) => return Err(not("no line end found")),
            Err(err) => return Err(not(&err.to_string())),
        }
        let FirstLine { header, end_mark } = serde_json::from_slice::<FirstLine<Header>>(&buf).map_err(|err| not(&err.to_string()))?;
        if header.tape != "nccl-top" {
            return Err(not("its \"tape\" is not \"nccl-top\""));
        }
        if header.version > VERSION {
            return Err(TapeError::TooNew { path: name.to_owned(), found: header.version });
        }
        Ok(Reader {
            path: name.to_owned(),
            header,
            input,
            line_no: 1,
            unpacked: buf.len() as u64,
            buf,
            packed,
            awaits_end_mark: end_mark,
            cut: false,
            seen: None,
            masking: Masking::default(),
        })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next observation; `None` at the end. A last line without its end is the mark of a crash: dropped, not an error.
    ///
    /// # Errors
    /// If a line in the middle is no observation.
    pub fn read(&mut self) -> Result<Option<Observation>, TapeError> {
        loop {
            self.buf.clear();
            match read_line(&mut self.input, &mut self.buf) {
                Ok(Got::Line) => {}
                Ok(Got::End) => {
                    self.cut = self.awaits_end_mark;
                    return Ok(None);
                }
                Ok(Got::Cut) | Err(_) => {
                    self.cut = true;
                    return Ok(None);
                }
                Ok(Got::TooLong) => {
                    self.line_no += 1;
                    return Err(self.at_line(format!("a line of more than {} MiB", bounds::LINE_BYTES >> 20)));
                }
            }
            self.line_no += 1;
            if self.buf.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            self.unpacked += self.buf.len() as u64 + 1;
            bounds::of_line(&self.buf)
                .and_then(|()| file::check_growth(self.packed.load(Ordering::Relaxed), self.unpacked))
                .map_err(|why| self.at_line(why))?;
            let mut seen = read_observation(&self.buf).map_err(|err| self.at_line(err.to_string()))?;
            if seen.body == Body::Unknown && is_end_mark(&self.buf) {
                self.awaits_end_mark = false;
                continue;
            }
            self.masking.apply(&mut seen.body);
            self.seen = Some((self.seen.map_or(seen.at, |(first, _)| first), seen.at));
            return Ok(Some(seen));
        }
    }

    /// After the end: that the tape was cut off, and where.
    pub fn cut_off(&self) -> Option<String> {
        let after = self.seen.map_or(String::new(), |(first, last)| format!(", {} from its beginning", span(last.since(first))));
        self.cut.then(|| format!("the recording is cut off after line {}{after}", self.line_no))
    }

    /// Whether judging what was read so far may take so many steps.
    ///
    /// # Errors
    /// If no tape of this size takes so many.
    pub fn afford(&self, steps: u64) -> Result<(), TapeError> {
        let seconds = self.seen.map_or(0, |(first, last)| last.since(first).as_secs());
        bounds::of_effort(self.unpacked, seconds, steps).map_err(|why| self.at_line(why))
    }

    fn at_line(&self, detail: String) -> TapeError {
        TapeError::Line { path: self.path.clone(), line: self.line_no, detail }
    }
}

fn owned(text: Cow<str>) -> Option<String> {
    match text {
        Cow::Owned(text) => Some(text),
        Cow::Borrowed(_) => None,
    }
}

enum Got {
    Line,
    /// Bytes, then the end without a line feed.
    Cut,
    End,
    TooLong,
}

fn read_line(input: &mut dyn BufRead, buf: &mut Vec<u8>) -> io::Result<Got> {
    let read = input.take(bounds::LINE_BYTES).read_until(b'\n', buf)?;
    if buf.last() == Some(&b'\n') {
        buf.pop();
        return Ok(Got::Line);
    }
    Ok(match read {
        0 => Got::End,
        n if n as u64 >= bounds::LINE_BYTES => Got::TooLong,
        _ => Got::Cut,
    })
}

/// Adds a line of a tape, with its end, to `out`. A terminal may show it.
///
/// # Errors
/// If a value has no form in JSON; `out` may then hold a part of it.
pub fn put_line(value: &impl Serialize, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let start = out.len();
    serde_json::to_writer(&mut *out, value)?;
    if let Some(escaped) = std::str::from_utf8(&out[start..]).ok().map(escape).and_then(owned) {
        out.truncate(start);
        out.extend_from_slice(escaped.as_bytes());
    }
    out.push(b'\n');
    Ok(())
}

/// Reads a line of a tape that is not its first.
///
/// # Errors
/// If it is no observation.
pub fn read_observation(line: &[u8]) -> serde_json::Result<Observation> {
    let mut seen: Observation = serde_json::from_slice(line).or_else(|err| port_of_old_tape(line).ok_or(err))?;
    if let Body::Source(report) = &mut seen.body {
        report.title = SOURCES.iter().find(|spec| spec.id == seen.from.as_str()).map(|spec| spec.title);
    }
    Ok(seen)
}

/// Tapes of the first versions hold the kind of a port as a second `kind` of the observation.
fn port_of_old_tape(line: &[u8]) -> Option<Observation> {
    memchr::memmem::find(line, b"\"kind\":\"port_info\"")?;
    // Of two values the last one is kept.
    let mut seen: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line).ok()?;
    let port_kind = seen.insert("kind".into(), "port_info".into())?;
    seen.insert("port_kind".into(), port_kind);
    serde_json::from_value(seen.into()).ok()
}

/// Writes a tape.
pub struct Writer {
    out: Out,
    buf: Vec<u8>,
}

enum Out {
    Plain(BufWriter<Box<dyn Write + Send>>),
    Gzip(GzEncoder<BufWriter<Box<dyn Write + Send>>>),
}

impl Writer {
    /// Creates `path` for this user only (0600); `-` is standard output. A file that exists is never overwritten.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: &Path, header: &Header) -> Result<Self, TapeError> {
        let name = path.display().to_string();
        let io_error = |cause: io::Error| TapeError::Io { path: name.clone(), cause };
        let sink: Box<dyn Write + Send> =
            if name == "-" { Box::new(io::stdout()) } else { Box::new(private::create(path).map_err(io_error)?) };
        Writer::to(sink, name.ends_with(".gz"), header).map_err(io_error)
    }

    /// Writes to a file that is open.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn to(sink: Box<dyn Write + Send>, gzip: bool, header: &Header) -> io::Result<Self> {
        let sink = BufWriter::with_capacity(64 << 10, sink);
        let out = if gzip { Out::Gzip(GzEncoder::new(sink, Compression::new(6))) } else { Out::Plain(sink) };
        let mut writer = Writer { out, buf: Vec::with_capacity(4096) };
        writer.line(&FirstLine { header, end_mark: true })?;
        writer.flush()?;
        Ok(writer)
    }

    /// # Errors
    /// If the disk is full or the reader of a pipe is gone.
    pub fn write(&mut self, seen: &Observation) -> io::Result<()> {
        self.line(seen)
    }

    /// A line that is one already, with its end.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        match &mut self.out {
            Out::Plain(out) => out.write_all(line),
            Out::Gzip(out) => out.write_all(line),
        }
    }

    /// Brings everything written so far to the file, so that a crash of this program loses nothing before this point.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Plain(out) => out.flush(),
            Out::Gzip(out) => out.flush(),
        }
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.buf.clear();
        put_line(value, &mut self.buf)?;
        match &mut self.out {
            Out::Plain(out) => out.write_all(&self.buf),
            Out::Gzip(out) => out.write_all(&self.buf),
        }
    }

    /// Ends the tape in order, with the mark that tells it from one that was cut off.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn finish(mut self) -> io::Result<()> {
        self.line(&END_MARK)?;
        match self.out {
            Out::Plain(mut out) => out.flush(),
            Out::Gzip(out) => out.finish()?.flush(),
        }
    }
}

impl Sink for Writer {
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        self.write_line(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        Writer::flush(self)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        Writer::finish(*self)
    }
}
