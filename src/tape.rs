//! The tape: observations as JSON lines, gzip when the name ends in `.gz`. What is recorded, replayed, demonstrated and tested.
//!
//! It holds input and nothing derived, so a better judge gives an old recording a better verdict. A tape that was cut off by a crash
//! is whole up to its last line. Tapes are untrusted: lines are bounded, unknown kinds are skipped.

use crate::edge::outlet::Sink;
use crate::observe::{Body, Observation};
use crate::session::Session;
use crate::sources::SOURCES;
use crate::time::{Stamp, Zone, span};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The version this program writes. It reads this one and all before it.
pub const VERSION: u32 = 1;

/// A line longer than this is not one of ours: RAS answers of 16,384 ranks are 9 MiB.
const MAX_LINE_BYTES: u64 = 64 << 20;

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
    /// The tape ended in the middle of a line or of the compressed stream.
    cut: bool,
    /// The stamps of the first and the last observation.
    seen: Option<(Stamp, Stamp)>,
}

impl Reader {
    /// # Errors
    /// If the file cannot be opened or does not begin with a header this version understands.
    pub fn open(path: &Path) -> Result<Self, TapeError> {
        let name = path.display().to_string();
        if name == "-" {
            return Reader::from_read(Box::new(io::stdin()), "standard input");
        }
        let file = File::open(path).map_err(|cause| TapeError::Io { path: name.clone(), cause })?;
        Reader::from_read(Box::new(file), &name)
    }

    /// # Errors
    /// If it does not begin with a header this version understands.
    pub fn from_read(input: Box<dyn Read + Send>, name: &str) -> Result<Self, TapeError> {
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
        let header: Header = serde_json::from_slice(&buf).map_err(|err| not(&err.to_string()))?;
        if header.tape != "nccl-top" {
            return Err(not("its \"tape\" is not \"nccl-top\""));
        }
        if header.version > VERSION {
            return Err(TapeError::TooNew { path: name.to_owned(), found: header.version });
        }
        Ok(Reader { path: name.to_owned(), header, input, line_no: 1, buf, cut: false, seen: None })
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
                Ok(Got::End) => return Ok(None),
                Ok(Got::Cut) | Err(_) => {
                    self.cut = true;
                    return Ok(None);
                }
                Ok(Got::TooLong) => {
                    return Err(self.at_line(format!("a line of more than {} MiB", MAX_LINE_BYTES >> 20)));
                }
            }
            self.line_no += 1;
            if self.buf.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let seen = read_observation(&self.buf).map_err(|err| self.at_line(err.to_string()))?;
            self.seen = Some((self.seen.map_or(seen.at, |(first, _)| first), seen.at));
            return Ok(Some(seen));
        }
    }

    /// After the end: that the tape was cut off, and where.
    pub fn cut_off(&self) -> Option<String> {
        let after = self.seen.map_or(String::new(), |(first, last)| format!(", {} from its beginning", span(last.since(first))));
        self.cut.then(|| format!("the recording is cut off after line {}{after}", self.line_no))
    }

    fn at_line(&self, detail: String) -> TapeError {
        TapeError::Line { path: self.path.clone(), line: self.line_no, detail }
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
    let read = input.take(MAX_LINE_BYTES).read_until(b'\n', buf)?;
    if buf.last() == Some(&b'\n') {
        buf.pop();
        return Ok(Got::Line);
    }
    Ok(match read {
        0 => Got::End,
        n if n as u64 >= MAX_LINE_BYTES => Got::TooLong,
        _ => Got::Cut,
    })
}

/// Adds a line of a tape, with its end, to `out`.
///
/// # Errors
/// If a value has no form in JSON; `out` may then hold a part of it.
pub fn put_line(value: &impl Serialize, out: &mut Vec<u8>) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.push(b'\n');
    Ok(())
}

/// Reads a line of a tape that is not its first.
///
/// # Errors
/// If it is no observation.
pub fn read_observation(line: &[u8]) -> serde_json::Result<Observation> {
    let mut seen: Observation = serde_json::from_slice(line)?;
    if let Body::Source(report) = &mut seen.body {
        report.title = SOURCES.iter().find(|spec| spec.id == seen.from.as_str()).map(|spec| spec.title);
    }
    Ok(seen)
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
        let sink: Box<dyn Write + Send> = if name == "-" {
            Box::new(io::stdout())
        } else {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|err| {
                io_error(match err.kind() {
                    io::ErrorKind::AlreadyExists => io::Error::other("the file exists; name another, or remove it first"),
                    _ => err,
                })
            })?;
            Box::new(file)
        };
        let sink = BufWriter::with_capacity(64 << 10, sink);
        let out = if name.ends_with(".gz") { Out::Gzip(GzEncoder::new(sink, Compression::new(6))) } else { Out::Plain(sink) };
        let mut writer = Writer { out, buf: Vec::with_capacity(4096) };
        writer.line(header).and_then(|()| writer.flush()).map_err(io_error)?;
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

    /// Ends the tape properly.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn finish(self) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Body, SourceId, gpu};

    fn header() -> Header {
        Header {
            tape: "nccl-top".into(),
            version: VERSION,
            program: "0".into(),
            host: "node-17".into(),
            zone_offset_s: 3600,
            boot_id: None,
            interval_ms: 1000,
            started_ns: Stamp(1),
        }
    }

    fn tick(ns: i64) -> Observation {
        Observation { at: Stamp(ns), host: None, from: SourceId::of("feed"), body: Body::Tick }
    }

    fn read_all(bytes: &[u8]) -> (Vec<Observation>, Option<String>) {
        let mut reader = Reader::from_read(Box::new(io::Cursor::new(bytes.to_vec())), "t").expect("a header");
        let mut all = Vec::new();
        while let Some(seen) = reader.read().expect("whole lines") {
            all.push(seen);
        }
        (all, reader.cut_off())
    }

    #[test]
    fn what_is_written_is_read_plain_and_gzip_and_only_by_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let gpus = Body::Gpus {
            gpus: vec![gpu::GpuSample {
                index: 3,
                util_pct: Some(100),
                gpm: Some(gpu::Gpm { sm_active_pct: Some(18.2), nvlink_tx_bytes_per_s: Some(0.1 + 0.2), ..Default::default() }),
                ..Default::default()
            }],
        };
        let seen = Observation { at: Stamp(1_795_220_968_682_416_201), host: None, from: SourceId::of("nvml"), body: gpus };
        for name in ["t.jsonl", "t.jsonl.gz"] {
            let path = dir.path().join(name);
            let mut writer = Writer::create(&path, &header()).unwrap();
            writer.write(&seen).unwrap();
            writer.write(&tick(2)).unwrap();
            writer.finish().unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let mut reader = Reader::open(&path).unwrap();
            assert_eq!(reader.header(), &header());
            assert_eq!(reader.read().unwrap(), Some(seen.clone()));
            assert_eq!(reader.read().unwrap(), Some(tick(2)));
            assert_eq!(reader.read().unwrap(), None);
            assert_eq!(reader.cut_off(), None);
            assert!(Writer::create(&path, &header()).is_err(), "an existing tape is not overwritten");
        }
    }

    #[test]
    fn a_tape_is_whole_up_to_the_last_line_wherever_it_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["t.jsonl", "t.jsonl.gz"] {
            let path = dir.path().join(name);
            let mut writer = Writer::create(&path, &header()).unwrap();
            for i in 0..50 {
                writer.write(&tick(i)).unwrap();
                writer.flush().unwrap();
            }
            drop(writer);
            let bytes = std::fs::read(&path).unwrap();
            let (all, _) = read_all(&bytes);
            assert_eq!(all.len(), 50);
            for cut in (bytes.len() - 200..bytes.len()).step_by(7) {
                let (some, _) = read_all(&bytes[..cut]);
                assert!(some.len() >= 20 && some[..] == all[..some.len()], "cut at {cut}");
            }
        }
    }

    #[test]
    fn where_a_tape_was_cut_is_named_by_line_and_time() {
        let mut bytes = serde_json::to_vec(&header()).unwrap();
        for s in [5, 6, 70] {
            bytes.push(b'\n');
            serde_json::to_writer(&mut bytes, &tick(s * 1_000_000_000)).unwrap();
        }
        assert_eq!(read_all(&bytes).1.as_deref(), Some("the recording is cut off after line 3, 1 s from its beginning"));
        bytes.push(b'\n');
        assert_eq!(read_all(&bytes).1, None);
        bytes.extend(b"{\"at_ns\":");
        assert_eq!(read_all(&bytes).1.as_deref(), Some("the recording is cut off after line 4, 1 m 05 s from its beginning"));
    }

    #[test]
    fn kinds_and_fields_of_later_versions_are_skipped() {
        let mut bytes = serde_json::to_vec(&header()).unwrap();
        bytes.extend(b"\n{\"at_ns\":5,\"from\":\"warp\",\"kind\":\"warp_drive\",\"factor\":9}\n{\"at_ns\":6,\"from\":\"feed\",\"kind\":\"tick\",\"new\":1}\n");
        let (all, _) = read_all(&bytes);
        assert_eq!(all[0].body, Body::Unknown);
        assert_eq!(all[1].body, Body::Tick);
    }

    #[test]
    fn what_is_no_tape_is_named() {
        for (bytes, says) in [
            (&b""[..], "the file is empty"),
            (b"step 1\n", "not a recording of nccl-top"),
            (b"\x1f\x8b\x00garbage", "not a recording"),
            (b"{\"tape\":\"nccl-top\",\"version\":99,\"program\":\"9\",\"host\":\"h\"}\n", "update nccl-top"),
        ] {
            let err = Reader::from_read(Box::new(io::Cursor::new(bytes.to_vec())), "x.jsonl").err().expect("an error").to_string();
            assert!(err.starts_with("x.jsonl: ") && err.contains(says), "{err}");
        }
    }
}
