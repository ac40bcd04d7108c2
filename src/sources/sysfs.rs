//! Reads small files that the kernel makes up: attributes of sysfs and tables of /proc. Never follows anything but the path it was
//! given, never waits for data, never reads without a bound.

use super::Roots;
use crate::observe::port::PciLink;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{pread, read, retry_on_intr};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// Names and identities of things that come and go are looked up again this often; counters are read at every poll.
const LISTING_PERIOD: Duration = Duration::from_secs(30);
/// An attribute is a page at most, and those read here are a line.
const ATTRIBUTE_BYTES: usize = 4096;
/// /proc/stat of a machine with 256 CPUs and thousands of interrupts stays below 100 KB.
const TABLE_BYTES: usize = 1 << 20;
/// More names than this in one directory are not the kernel's.
const MAX_NAMES: usize = 4096;

/// Attributes kept open by one source: those of 32 RDMA ports, or of 40 interfaces.
const MOST_OPEN: usize = 1024;
/// Descriptors that are left to logs, processes and everything else.
const OTHERS_NEED: u64 = 2048;

/// How many descriptors one source may keep, by the limit of this process.
fn descriptors_to_spare() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    // Interfaces and RDMA ports.
    usize::try_from(limit.saturating_sub(OTHERS_NEED) / 2).unwrap_or(usize::MAX)
}

/// How many polls lie between two listings. Counting polls needs no clock.
pub fn polls_per_listing(every: Duration) -> u32 {
    let polls = LISTING_PERIOD.as_millis() / every.as_millis().max(1);
    u32::try_from(polls).unwrap_or(u32::MAX).max(1)
}

/// A directory to look up names in: with it, a file costs the look-up of one name, not of the whole path and its links.
pub struct Dir(OwnedFd);

impl Dir {
    pub fn open(path: &Path) -> io::Result<Dir> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Dir(rustix::fs::open(path, flags, Mode::empty())?))
    }
}

/// An attribute that is read at every poll. It is kept open where that is allowed: reading it then takes one call of the system, not three.
#[derive(Default)]
pub struct Attribute(Option<(OwnedFd, Arc<()>)>);

/// Reads files into one buffer that is used again and again.
pub struct Reader {
    buf: Vec<u8>,
    /// Attributes kept open are at most so many …
    most_open: usize,
    /// … and each has a clone of this.
    open: Arc<()>,
}

impl Default for Reader {
    fn default() -> Self {
        Reader { buf: vec![0; ATTRIBUTE_BYTES], most_open: 0, open: Arc::default() }
    }
}

impl Reader {
    /// A reader that keeps attributes open. Only of a live kernel, whose attributes are made up anew at each read and fail once their device
    /// is gone: below another root they are files, which may be replaced by others of the same name.
    pub fn keeping_open(roots: &Roots) -> Reader {
        let most_open = if roots.is_live() { MOST_OPEN.min(descriptors_to_spare()) } else { 0 };
        Reader { most_open, ..Reader::default() }
    }

    /// What the attribute `name` in `dir` says, without white space around it.
    pub fn again(&mut self, attribute: &mut Attribute, dir: &Dir, name: &str) -> io::Result<&[u8]> {
        let buf = &mut self.buf[..ATTRIBUTE_BYTES];
        let kept = attribute.0.as_ref().and_then(|(file, _)| retry_on_intr(|| pread(file, &mut *buf, 0)).ok());
        let n = match kept {
            Some(n) => n,
            None => {
                // The device may be another one by now.
                attribute.0 = None;
                let file = open_file(&dir.0, Path::new(name))?;
                let n = retry_on_intr(|| read(&file, &mut *buf))?;
                if Arc::strong_count(&self.open) <= self.most_open {
                    attribute.0 = Some((file, self.open.clone()));
                }
                n
            }
        };
        Ok(self.buf[..n].trim_ascii())
    }

    /// What the file `name` in `dir` says, without white space around it.
    pub fn bytes(&mut self, dir: &Dir, name: &str) -> io::Result<&[u8]> {
        let file = open_file(&dir.0, Path::new(name))?;
        // One read: an attribute comes whole or not at all, and a second read, for the end, would cost as much as the first.
        let n = retry_on_intr(|| read(&file, &mut self.buf[..ATTRIBUTE_BYTES]))?;
        Ok(self.buf[..n].trim_ascii())
    }

    /// The same as text; `None` when it cannot be read or is empty.
    pub fn text(&mut self, dir: &Dir, name: &str) -> Option<String> {
        let bytes = self.bytes(dir, name).ok()?;
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
    }

    /// The same as a number; `None` when it cannot be read or is none.
    pub fn number<T: FromStr>(&mut self, dir: &Dir, name: &str) -> Option<T> {
        number(self.bytes(dir, name).ok()?)
    }

    /// A whole table of /proc, which comes in as many reads as the kernel likes.
    pub fn table(&mut self, path: &Path) -> io::Result<&[u8]> {
        let file = open_file(CWD, path)?;
        let mut len = 0;
        loop {
            if len == self.buf.len() {
                if len >= TABLE_BYTES {
                    break;
                }
                self.buf.resize(len * 2, 0);
            }
            match retry_on_intr(|| read(&file, &mut self.buf[len..]))? {
                0 => break,
                n => len += n,
            }
        }
        Ok(&self.buf[..len])
    }
}

/// Below `--sysroot` a path may be anything; without NONBLOCK a pipe would stop the source for good.
fn open_file(dir: impl AsFd, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(rustix::fs::openat(dir, path, flags, Mode::empty())?)
}

/// A decimal number and nothing else: `N/A (no PMA)` is none.
pub fn number<T: FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// The names in a directory, sorted.
pub fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = std::fs::read_dir(dir)?.take(MAX_NAMES);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

/// The last part of a link's target: how sysfs names drivers and subsystems.
pub fn link_name(link: &Path) -> Option<String> {
    Some(std::fs::read_link(link).ok()?.file_name()?.to_str()?.to_owned())
}

/// A PCI function and its place in the tree of bridges.
#[derive(Debug, PartialEq, Eq)]
pub struct PciFunction {
    /// `0000:86:00.0`
    pub bus_id: String,
    /// `/sys/devices/pci0000:80/0000:80:01.1/0000:86:00.0`, without the root.
    pub path: PathBuf,
    /// The sub-function of it that was asked for: `mlx5_core.sf.4`.
    pub sub_function: Option<String>,
}

impl PciFunction {
    /// The function that the device behind `link` is, or is a part of: a sub-function or a virtio device lies below one.
    pub fn above(roots: &Roots, link: &Path) -> Option<PciFunction> {
        let device = real_path(roots, link)?;
        let function = device.ancestors().find(|dir| bus_id(dir).is_some())?;
        let name = device.file_name().and_then(|name| name.to_str());
        let sub_function = name.filter(|name| name.contains(".sf.")).map(str::to_owned);
        Some(PciFunction { bus_id: bus_id(function)?.to_owned(), path: function.to_owned(), sub_function })
    }
}

/// What sysfs says of a PCI function, whatever it does.
#[derive(Debug, Default)]
pub struct PciFacts {
    pub numa: Option<u32>,
    pub link: Option<PciLink>,
    /// Of a virtual function, the bus id of the physical one.
    pub physical_function: Option<String>,
}

impl PciFacts {
    pub fn of(roots: &Roots, reader: &mut Reader, function: &PciFunction) -> PciFacts {
        let path = roots.path(&function.path);
        let Ok(dir) = Dir::open(&path) else { return PciFacts::default() };
        // `32.0 GT/s PCIe`, or `Unknown`.
        let mut speed = |name| reader.text(&dir, name)?.split_once(" GT/s")?.0.parse().ok().filter(|n| *n > 0.0);
        let (gt_per_s, max_gt_per_s) = (speed("current_link_speed"), speed("max_link_speed"));
        // 0 and 255 stand for unknown.
        let mut width = |name| reader.number(&dir, name).filter(|n| (1..=64).contains(n));
        let link = PciLink { gt_per_s, max_gt_per_s, width: width("current_link_width"), max_width: width("max_link_width") };
        PciFacts {
            // -1: the firmware did not say.
            numa: reader.number(&dir, "numa_node"),
            link: Some(link).filter(|link| *link != PciLink::default()),
            physical_function: link_name(&path.join("physfn")),
        }
    }
}

/// Of drivers that have a version of their own: those of the kernel itself have none.
pub fn driver_version(roots: &Roots, reader: &mut Reader, driver: Option<&str>) -> Option<String> {
    let dir = Dir::open(&roots.path("/sys/module").join(driver?)).ok()?;
    reader.text(&dir, "version")
}

/// Where `path` leads, as a path below the root; `None` when it leads nowhere or out of the root.
pub fn real_path(roots: &Roots, path: &Path) -> Option<PathBuf> {
    let root = std::fs::canonicalize(roots.path("/")).ok()?;
    let real = std::fs::canonicalize(path).ok()?;
    Some(Path::new("/").join(real.strip_prefix(root).ok()?))
}

fn bus_id(dir: &Path) -> Option<&str> {
    let name = dir.file_name()?.to_str()?;
    is_bus_id(name).then_some(name)
}

/// `hhhh:hh:hh.h`; domains of VMD controllers and of some hypervisors have more than four digits.
pub fn is_bus_id(name: &str) -> bool {
    let hex = |s: &str| s.bytes().all(|b| b.is_ascii_hexdigit());
    let Some((domain, rest)) = name.split_once(':') else { return false };
    let Some((bus, rest)) = rest.split_once(':') else { return false };
    let Some((slot, function)) = rest.split_once('.') else { return false };
    let lengths = (4..=8).contains(&domain.len()) && bus.len() == 2 && slot.len() == 2 && function.len() == 1;
    lengths && hex(domain) && hex(bus) && hex(slot) && hex(function)
}
