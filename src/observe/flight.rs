//! Flight Recorder dumps: the files as their processes wrote them.
//!
//! The whole file, compressed, and no digest of it: it is the rank's own word, a tenth of its size is what a tape of a minute has anyway, a
//! later version may judge it better, and what is judged again is what was judged. The bounds are those of the source that reads it.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::io::{Read, Write};

/// Larger ones are not taken onto a tape: 2,000 calls with their stacks are a few MiB.
pub const MAX_BYTES: u64 = 16 << 20;

/// A dump that appeared, whole; or the reason why one could not be read.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlightDump {
    /// Global rank.
    pub rank: u32,
    /// The process of this node in whose environment the place was found: it names the job, and is the writer unless the rank is
    /// another node's.
    pub pid: u32,
    pub path: String,
    pub size_bytes: u64,
    /// Last modification, nanoseconds since the Unix epoch.
    pub modified_ns: Option<i64>,
    /// Deflate, then base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub packed: String,
    /// It was written before, and is read as one of several files that are judged together.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// Why there is none.
    pub problem: Option<String>,
}

impl FlightDump {
    /// It was asked for while the job ran, and not written by the job because something had timed out.
    pub fn is_asked(&self) -> bool {
        self.modified_ns.is_none() && !self.archived
    }

    /// The bytes of a file as they go onto a tape.
    pub fn pack(bytes: &[u8]) -> String {
        let mut packed = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 6), Compression::new(6));
        // Into memory nothing can fail.
        let done = packed.write_all(bytes).and_then(|()| packed.finish());
        BASE64_STANDARD.encode(done.unwrap_or_default())
    }

    /// The bytes of the file; `None` where there are none, or more than a dump has.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let packed = BASE64_STANDARD.decode(&self.packed).ok().filter(|p| !p.is_empty())?;
        let mut bytes = Vec::new();
        DeflateDecoder::new(&packed[..]).take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() as u64 <= MAX_BYTES).then_some(bytes)
    }
}
