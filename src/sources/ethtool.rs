//! The counters of an interface that only `ethtool -S` shows: what ENA was not allowed to send, priority pauses, damaged frames. By the
//! ioctl SIOCETHTOOL, which needs no privilege for what is asked here.
//!
//! Below `--sysroot` the file `.ethtool` in the directory of an interface stands in for it, with what `ethtool -S` prints.

#![allow(unsafe_code)]

use super::Roots;
use super::pace::{Answer, Pace};
use super::sysfs::Reader;
use crate::base::port_counters::{MEANINGS, is};
use rustix::ioctl::{Updater, ioctl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// An mlx5 port has a thousand counters and asks its firmware for many of them.
const PERIOD: Duration = Duration::from_secs(5);
/// Before the names, so that they differ from files of `statistics/`.
const PREFIX: &str = "ethtool/";

/// What is kept besides counters that mean something: ena_ethtool.c of amzn-drivers and of the kernel.
const KEPT: &[&str] = &[
    "conntrack_allowance_available",
    "ena_srd_mode",
    "ena_srd_tx_pkts",
    "ena_srd_eligible_tx_pkts",
    "ena_srd_rx_pkts",
    "ena_srd_resource_utilization",
];

fn is_kept(name: &str) -> bool {
    let of_ethtool = || MEANINGS.iter().filter_map(|meaning| meaning.name.strip_prefix(PREFIX));
    KEPT.contains(&name) || of_ethtool().any(|pattern| is(pattern, name))
}

// linux/ethtool.h
const SIOCETHTOOL: u32 = 0x8946;
const GET_DRIVER: u32 = 0x3;
const GET_STRINGS: u32 = 0x1b;
const GET_STATS: u32 = 0x1d;
const SET_OF_STATS: u32 = 1;
const STRING_BYTES: usize = 32;
/// Where struct ethtool_drvinfo has fw_version and n_stats.
const FIRMWARE_AT: usize = 68;
const COUNT_AT: usize = 180;
/// Where struct ethtool_gstrings and struct ethtool_stats have their data.
const STRINGS_AT: usize = 12;
const STATS_AT: usize = 8;

/// A port with 128 channels has 6,000.
const MOST_COUNTERS: usize = 16_384;
/// The kernel writes as many as there are by then, whatever it is given room for: there is room for twice the most.
const BUFFER_BYTES: usize = 2 * MOST_COUNTERS * STRING_BYTES;

/// Answers the questions of linux/ethtool.h.
pub trait Ethtool: Send {
    /// Puts the answer in place of the question, which `buffer` begins with. It is [`BUFFER_BYTES`] long.
    ///
    /// # Errors
    /// EOPNOTSUPP: the driver has no such thing.
    fn ask(&mut self, interface: &str, buffer: &mut [u8]) -> io::Result<()>;
}

struct Kernel(OwnedFd);

/// struct ifreq
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: *mut c_void,
    rest: [u8; 16],
}

impl Ethtool for Kernel {
    fn ask(&mut self, interface: &str, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.len() != BUFFER_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request = Request { name: [0; 16], data: buffer.as_mut_ptr().cast(), rest: [0; 16] };
        // The last byte stays zero.
        let room = request.name[..15].get_mut(..interface.len()).ok_or(io::ErrorKind::InvalidInput)?;
        room.copy_from_slice(interface.as_bytes());
        // SAFETY: the request is a struct ifreq whose data lies in `buffer`, which outlives the call. Only the questions of this file are
        // asked, and there is room for more than any of their answers.
        unsafe { ioctl(&self.0, Updater::<SIOCETHTOOL, Request>::new(&mut request)) }?;
        Ok(())
    }
}

/// Asks all interfaces of a machine.
pub struct Counters {
    way: Way,
    buffer: Vec<u8>,
    every: Duration,
    polls_per_sweep: u32,
    polls_to_sweep: u32,
}

enum Way {
    Asking(Box<dyn Ethtool>),
    /// Below `--sysroot`.
    Reading(Reader),
    /// The system gives no socket.
    Off,
}

/// What is known of the counters of one interface.
#[derive(Default)]
pub struct Known {
    firmware: Option<String>,
    names: Names,
    pace: Pace,
}

#[derive(Default)]
enum Names {
    #[default]
    Unread,
    /// There are so many, and these are kept, each with its place.
    Read(usize, Vec<(usize, String)>),
    /// The driver has none, or none that is kept.
    None,
}

impl Counters {
    pub fn of(roots: &Roots, every: Duration) -> Counters {
        let socket = || socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        let way = match roots.is_live().then(socket) {
            None => Way::Reading(Reader::default()),
            Some(Ok(socket)) => Way::Asking(Box::new(Kernel(socket))),
            Some(Err(_)) => Way::Off,
        };
        Counters::through(way, every)
    }

    /// With another kernel.
    pub fn asking(kernel: Box<dyn Ethtool>, every: Duration) -> Counters {
        Counters::through(Way::Asking(kernel), every)
    }

    fn through(way: Way, every: Duration) -> Counters {
        let is_asking = matches!(way, Way::Asking(_));
        let polls = if is_asking { PERIOD.as_millis().div_ceil(every.as_millis().max(1)) } else { 1 };
        let polls_per_sweep = u32::try_from(polls).unwrap_or(u32::MAX).max(1);
        let buffer = if is_asking { vec![0; BUFFER_BYTES] } else { Vec::new() };
        Counters { way, buffer, every, polls_per_sweep, polls_to_sweep: 0 }
    }

    /// Whether this poll is one of those at which interfaces are asked.
    pub fn is_due(&mut self) -> bool {
        let due = self.polls_to_sweep == 0;
        self.polls_to_sweep = if due { self.polls_per_sweep - 1 } else { self.polls_to_sweep - 1 };
        due
    }

    /// Adds the counters of an interface, all that are kept, also those that did not change.
    pub fn sweep(&mut self, interface: &str, dir: &Path, known: &mut Known, out: &mut BTreeMap<String, u64>) {
        let kernel = match &mut self.way {
            Way::Off => return,
            Way::Reading(reader) => {
                let text = reader.table(&dir.join(".ethtool")).map(String::from_utf8_lossy);
                let pairs = text.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once(':'));
                let pairs = pairs.filter_map(|(name, value)| Some((name.trim(), value.trim().parse().ok()?)));
                out.extend(pairs.filter(|(name, _)| is_kept(name)).map(|(name, value)| (format!("{PREFIX}{name}"), value)));
                return;
            }
            Way::Asking(kernel) => kernel.as_mut(),
        };
        if matches!(known.names, Names::None) || !known.pace.is_due() {
            return;
        }
        let began = Instant::now();
        let answer = match known.ask(kernel, interface, &mut self.buffer, out) {
            Ok(()) => Answer::within(began.elapsed(), self.every),
            Err(err) if err.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
                known.names = Names::None;
                return;
            }
            Err(_) => Answer::Failed,
        };
        known.pace.answered(answer);
    }

    /// `eth0: 2 of 3 reads of ethtool counters fail, asked every 20 s`
    pub fn remark(&self, interface: &str, known: &Known) -> Option<String> {
        let words = known.pace.words(self.every * self.polls_per_sweep)?;
        Some(format!("{interface}: {}", words.replacen("reads", "reads of ethtool counters", 1)))
    }
}

impl Known {
    /// Of the interface's firmware, as the driver prints it; known from the first sweep on.
    pub fn firmware(&self) -> Option<&str> {
        self.firmware.as_deref()
    }

    /// The driver has logged an error, which may be about what was asked here.
    pub fn complained(&mut self, line: &str) {
        if matches!(self.names, Names::Read(..)) {
            self.pace.complained(line.to_owned());
        }
    }

    fn ask(&mut self, kernel: &mut dyn Ethtool, interface: &str, buffer: &mut [u8], out: &mut BTreeMap<String, u64>) -> io::Result<()> {
        if matches!(self.names, Names::Unread) {
            self.learn(kernel, interface, buffer)?;
        }
        let Names::Read(count, kept) = &self.names else { return Ok(()) };
        put(buffer, &[GET_STATS, *count as u32]);
        kernel.ask(interface, buffer)?;
        if number(buffer, 4) != *count {
            // Channels were added or taken away: every place is another one now.
            self.names = Names::Unread;
            return Ok(());
        }
        for (place, name) in kept {
            let at = STATS_AT + place * 8;
            if let Some(bytes) = buffer.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()) {
                out.insert(format!("{PREFIX}{name}"), u64::from_ne_bytes(bytes));
            }
        }
        Ok(())
    }

    /// Asks for the number of counters and for their names.
    fn learn(&mut self, kernel: &mut dyn Ethtool, interface: &str, buffer: &mut [u8]) -> io::Result<()> {
        buffer[..COUNT_AT + 16].fill(0);
        put(buffer, &[GET_DRIVER]);
        kernel.ask(interface, buffer)?;
        let firmware = text(&buffer[FIRMWARE_AT..FIRMWARE_AT + STRING_BYTES]);
        self.firmware = (!firmware.is_empty() && firmware != "N/A").then_some(firmware);
        let count = number(buffer, COUNT_AT);
        self.names = Names::None;
        if count == 0 || count > MOST_COUNTERS {
            return Ok(());
        }
        put(buffer, &[GET_STRINGS, SET_OF_STATS, count as u32]);
        kernel.ask(interface, buffer)?;
        if number(buffer, 8) != count {
            self.names = Names::Unread;
            return Ok(());
        }
        let names = buffer[STRINGS_AT..].chunks_exact(STRING_BYTES).take(count).map(text);
        let kept: Vec<(usize, String)> = names.enumerate().filter(|(_, name)| is_kept(name)).collect();
        if !kept.is_empty() {
            self.names = Names::Read(count, kept);
        }
        Ok(())
    }
}

fn put(buffer: &mut [u8], words: &[u32]) {
    for (room, word) in buffer.chunks_exact_mut(4).zip(words) {
        room.copy_from_slice(&word.to_ne_bytes());
    }
}

fn number(buffer: &[u8], at: usize) -> usize {
    let bytes = buffer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes) as usize
}

/// Up to the first NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}
