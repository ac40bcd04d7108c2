//! Who has how many queue pairs on which RDMA device and port, as `rdma res show qp` prints it: over the kernel's RDMA netlink, which changes
//! nothing and needs no privilege.
//!
//! The kernel asks the device for the state of each queue pair that it lists, so this is done rarely, and more rarely where it takes long or
//! fails. Opening the socket loads ib_core where it is not loaded, so that is left alone where there is no RDMA device.
//!
//! Below `--sysroot` the file `.res_qp` in the directory of a device stands in for it, with what `rdma res show qp` prints.

use super::pace::{self, Answer, Pace};
use super::sysfs::{Reader, names};
use super::{Roots, Setup, Source, SourceError};
use crate::base::words::io_words;
use crate::observe::port::{QueuePairHolder, QueuePairs};
use crate::observe::{Body, SourceState};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

const CLASS: &str = "/sys/class/infiniband";
/// How often devices are asked.
const PERIOD: Duration = Duration::from_secs(15);
/// A dump that brings nothing for so long will not go on.
const PATIENCE: Duration = Duration::from_secs(2);

// linux/netlink.h
const HEADER_BYTES: usize = 16;
const REQUEST_A_DUMP: u16 = 0x301;
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Without the bits for "nested" and for byte order.
const TYPE_OF_ATTRIBUTE: u16 = 0x3fff;

// include/uapi/rdma/rdma_netlink.h
const CLIENT_NLDEV: u16 = 5;
const GET: u16 = 1;
const RES_QP_GET: u16 = 10;
const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
/// Of a device how many ports it has, of a queue pair which of them it uses.
const PORT_INDEX: u16 = 3;
const RES_QP: u16 = 19;
const RES_QP_ENTRY: u16 = 20;
const RES_PID: u16 = 28;
const RES_KERN_NAME: u16 = 29;

/// The kernel sends 32 KiB at most.
const BUFFER_BYTES: usize = 64 << 10;
/// Of one dump: with 32 KiB each, a million queue pairs.
const MOST_DATAGRAMS: usize = 4096;
const MOST_DEVICES: usize = 1024;
/// Processes, or parts of the kernel, with queue pairs on one device.
const MOST_HOLDERS: usize = 1024;
/// `IB_DEVICE_NAME_MAX`
const NAME_BYTES: usize = 64;

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    Box::new(Queues::new(setup.roots.clone()))
}

/// A socket of the kernel's RDMA netlink.
pub trait Netlink: Send {
    /// # Errors
    /// As of send(2).
    fn send(&mut self, request: &[u8]) -> io::Result<()>;

    /// One datagram, and how many bytes of it there are.
    ///
    /// # Errors
    /// As of recv(2); EAGAIN when nothing comes.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

struct Kernel(OwnedFd);

impl Netlink for Kernel {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        retry_on_intr(|| send(&self.0, request, SendFlags::empty()))?;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (n, _) = retry_on_intr(|| recv(&self.0, &mut *buffer, RecvFlags::empty()))?;
        Ok(n)
    }
}

/// The live kernel's.
///
/// # Errors
/// EPROTONOSUPPORT where the kernel has no RDMA netlink.
pub fn open() -> io::Result<Box<dyn Netlink>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::RDMA))?;
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
    Ok(Box::new(Kernel(socket)))
}

/// How a [`Netlink`] is opened.
pub type Open = Box<dyn FnMut() -> io::Result<Box<dyn Netlink>> + Send>;

pub struct Queues {
    roots: Roots,
    way: Way,
    /// By the name of the device.
    paces: BTreeMap<String, Pace>,
}

enum Way {
    Asking {
        open: Open,
        socket: Option<Box<dyn Netlink>>,
        sequence: u32,
        buffer: Vec<u8>,
    },
    /// Below `--sysroot`.
    Reading(Reader),
}

impl Queues {
    pub fn new(roots: Roots) -> Queues {
        let is_live = roots.is_live();
        let queues = Queues::asking(roots, Box::new(open));
        if is_live { queues } else { Queues { way: Way::Reading(Reader::default()), ..queues } }
    }

    /// With another kernel.
    pub fn asking(roots: Roots, open: Open) -> Queues {
        let way = Way::Asking { open, socket: None, sequence: 0, buffer: Vec::new() };
        Queues { roots, way, paces: BTreeMap::new() }
    }
}

impl Source for Queues {
    fn every(&self) -> Duration {
        PERIOD
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        let named = match names(&self.roots.path(CLASS)) {
            Ok(named) if !named.is_empty() => named,
            Ok(_) => return Err(SourceError::Absent(format!("{CLASS} is empty"))),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                return Err(SourceError::Absent(format!("{CLASS} does not exist: no RDMA driver loaded")));
            }
            Err(err) => return Err(SourceError::io(Path::new(CLASS), &err)),
        };
        let mut devices = match &mut self.way {
            Way::Reading(reader) => read_all(&self.roots, reader, &named)?,
            Way::Asking { open, socket, sequence, buffer } => {
                buffer.resize(BUFFER_BYTES, 0);
                let mut kernel = match socket.take() {
                    Some(socket) => socket,
                    None => open().map_err(|err| refusal(&err))?,
                };
                let mut asking = Asking { kernel: kernel.as_mut(), sequence, buffer };
                let asked = asking.all(&mut self.paces);
                // What is left of a dump that was given up would come before the next one.
                *socket = asked.is_ok().then_some(kernel);
                asked?
            }
        };
        devices.iter_mut().for_each(|device| name_processes(&self.roots, device));
        if !devices.is_empty() {
            out.push(Body::QueuePairs { devices });
        }
        Ok(())
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        pace::remark(self.paces.iter().filter_map(|(device, pace)| Some(format!("{device}: {}", pace.words(PERIOD)?))))
    }
}

fn refusal(err: &io::Error) -> SourceError {
    match err.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT) => {
            SourceError::Absent("the kernel has no RDMA netlink: it is not known which process has which queue pairs".into())
        }
        Some(Errno::INVAL | Errno::OPNOTSUPP) => {
            SourceError::Absent("the kernel's RDMA netlink lists no queue pairs: Linux 4.16 and newer do".into())
        }
        Some(Errno::PERM | Errno::ACCESS) => SourceError::Denied(format!("RDMA netlink: {}", io_words(err))),
        _ => SourceError::Failed(format!("RDMA netlink: {}", io_words(err))),
    }
}

/// What stands in below another root.
fn read_all(roots: &Roots, reader: &mut Reader, named: &[String]) -> Result<Vec<QueuePairs>, SourceError> {
    let mut devices = Vec::new();
    for name in named.iter().take(MOST_DEVICES) {
        let path = roots.path(CLASS).join(name).join(".res_qp");
        if let Ok(text) = reader.table(&path) {
            let mut counts = Counts::new();
            String::from_utf8_lossy(text).lines().filter_map(printed).for_each(|owner| add(&mut counts, owner, 1));
            devices.push(QueuePairs { device: name.clone(), holders: holders(counts) });
        }
    }
    if devices.is_empty() {
        return Err(SourceError::Absent(
            "off: it asks the live kernel, and --sysroot is given; no device has a .res_qp to stand in".into(),
        ));
    }
    Ok(devices)
}

/// `link mlx5_0/1 lqpn 212 rqpn 77 type RC state RTS … pid 4711 comm python3`, or `comm [ib_core]` without a pid.
fn printed(line: &str) -> Option<Owner> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let after = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
    let (_, port) = after("link")?.split_once('/')?;
    let pid = after("pid").and_then(|pid| pid.parse().ok());
    let kernel = after("comm").filter(|_| pid.is_none()).map(|comm| comm.trim_matches(['[', ']']).to_owned());
    Some(Owner { port: port.parse().unwrap_or(0), pid, kernel })
}

/// Whose a queue pair is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// 0 where it is not bound to one yet.
    pub port: u32,
    pub pid: Option<u32>,
    pub kernel: Option<String>,
}

/// Queue pairs by their owners.
pub type Counts = BTreeMap<Owner, u32>;

fn add(counts: &mut Counts, owner: Owner, by: u32) {
    if counts.len() < MOST_HOLDERS || counts.contains_key(&owner) {
        let count = counts.entry(owner).or_default();
        *count = count.saturating_add(by);
    }
}

fn holders(counts: Counts) -> Vec<QueuePairHolder> {
    counts.into_iter().map(|(Owner { port, pid, kernel }, count)| QueuePairHolder { port, pid, kernel, count }).collect()
}

/// The kernel names the thread that made them, as NCCL's proxies do. What counts is the process.
fn name_processes(roots: &Roots, device: &mut QueuePairs) {
    let process = |thread: u32| {
        let status = roots.table(&format!("/proc/{thread}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
    };
    let mut known: BTreeMap<u32, u32> = BTreeMap::new();
    let mut counts = Counts::new();
    for QueuePairHolder { port, pid, kernel, count } in device.holders.drain(..) {
        let pid = pid.map(|thread| *known.entry(thread).or_insert_with(|| process(thread).unwrap_or(thread)));
        add(&mut counts, Owner { port, pid, kernel }, count);
    }
    device.holders = holders(counts);
}

/// One socket, while it is asked.
struct Asking<'a> {
    kernel: &'a mut dyn Netlink,
    sequence: &'a mut u32,
    buffer: &'a mut [u8],
}

/// Why there is no list.
enum NoList {
    /// The kernel's answer.
    Refused(io::Error),
    /// What is still to come of the answer, nobody knows.
    Lost(io::Error),
}

impl Asking<'_> {
    fn all(&mut self, paces: &mut BTreeMap<String, Pace>) -> Result<Vec<QueuePairs>, SourceError> {
        let mut devices: Vec<Device> = Vec::new();
        let listed = self.dump(GET, None, |payload| devices.extend(Device::of(payload)));
        listed.map_err(|(NoList::Refused(err) | NoList::Lost(err))| refusal(&err))?;
        devices.truncate(MOST_DEVICES);
        paces.retain(|name, _| devices.iter().any(|device| device.name == *name));
        let mut out = Vec::new();
        let mut refused = None;
        for device in devices {
            let pace = paces.entry(device.name.clone()).or_default();
            if !pace.is_due() {
                continue;
            }
            let began = Instant::now();
            let mut counts = BTreeMap::new();
            match self.dump(RES_QP_GET, Some(device.index), |payload| device.count(payload, &mut counts)) {
                Ok(()) => {
                    out.push(QueuePairs { device: device.name, holders: holders(counts) });
                    pace.answered(Answer::within(began.elapsed(), Duration::from_secs(1)));
                }
                Err(NoList::Refused(err)) if is_no(&err) => refused = Some(err),
                Err(NoList::Refused(_)) => pace.answered(Answer::Failed),
                Err(NoList::Lost(err)) => {
                    pace.answered(Answer::Failed);
                    return Err(refusal(&err));
                }
            }
        }
        match refused {
            Some(err) if out.is_empty() => Err(refusal(&err)),
            _ => Ok(out),
        }
    }

    /// Asks for a list, and passes on what each of its messages carries.
    fn dump(&mut self, operation: u16, device: Option<u32>, mut each: impl FnMut(&[u8])) -> Result<(), NoList> {
        *self.sequence = self.sequence.wrapping_add(1);
        self.kernel.send(&request(operation, device, *self.sequence)).map_err(NoList::Lost)?;
        for _ in 0..MOST_DATAGRAMS {
            let n = self.kernel.receive(self.buffer).map_err(NoList::Lost)?;
            match take(self.buffer.get(..n).unwrap_or_default(), *self.sequence, &mut each) {
                Dump::GoesOn => {}
                Dump::Ends => return Ok(()),
                Dump::Failed(errno) => return Err(NoList::Refused(io::Error::from_raw_os_error(errno))),
            }
        }
        Err(NoList::Lost(io::Error::other("a list without an end")))
    }
}

/// The kernel does not do this at all, or not for this user; else a device has trouble.
fn is_no(err: &io::Error) -> bool {
    let no = [Errno::INVAL, Errno::OPNOTSUPP, Errno::PERM, Errno::ACCESS];
    err.raw_os_error().is_some_and(|errno| no.iter().any(|no| no.raw_os_error() == errno))
}

/// struct nlmsghdr, and for one device struct nlattr with its index.
fn request(operation: u16, device: Option<u32>, sequence: u32) -> Vec<u8> {
    let index = device.map(|index| [&8u16.to_ne_bytes()[..], &DEV_INDEX.to_ne_bytes(), &index.to_ne_bytes()].concat()).unwrap_or_default();
    let length = (HEADER_BYTES + index.len()) as u32;
    let kind = CLIENT_NLDEV << 10 | operation;
    let head = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &REQUEST_A_DUMP.to_ne_bytes(), &sequence.to_ne_bytes(), &[0; 4], &index];
    head.concat()
}

/// How a dump stands after a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dump {
    GoesOn,
    Ends,
    /// With an errno.
    Failed(i32),
}

/// Passes on what each message of a datagram carries that belongs to the question of this number.
pub fn take(datagram: &[u8], sequence: u32, mut each: impl FnMut(&[u8])) -> Dump {
    let mut rest = datagram;
    while let (Some(length), Some(kind), Some(number)) = (u32_at(rest, 0), u16_at(rest, 4), u32_at(rest, 8)) {
        let length = length as usize;
        let Some(payload) = rest.get(HEADER_BYTES..length) else { break };
        // An error is a negative number in both; 0 is none.
        let errno = || u32_at(payload, 0).map_or(0, |code| (code as i32).wrapping_neg());
        match kind {
            _ if number != sequence => {}
            DONE | ERROR if errno() > 0 => return Dump::Failed(errno()),
            DONE => return Dump::Ends,
            kind if kind >> 10 == CLIENT_NLDEV => each(payload),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Dump::GoesOn
}

/// A device as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    pub index: u32,
    pub name: String,
    pub ports: u32,
}

impl Device {
    pub fn of(payload: &[u8]) -> Option<Device> {
        let value = |wanted: u16| attributes(payload).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
        Some(Device {
            index: u32_at(value(DEV_INDEX)?, 0)?,
            name: text(value(DEV_NAME)?),
            ports: value(PORT_INDEX).and_then(|value| u32_at(value, 0)).unwrap_or(0),
        })
    }

    /// Adds the queue pairs that a message lists.
    pub fn count(&self, payload: &[u8], counts: &mut Counts) {
        let entries = attributes(payload).filter(|(kind, _)| *kind == RES_QP).flat_map(|(_, table)| attributes(table));
        for (_, entry) in entries.filter(|(kind, _)| *kind == RES_QP_ENTRY) {
            let mut owner = Owner::default();
            for (kind, value) in attributes(entry) {
                match kind {
                    PORT_INDEX => owner.port = u32_at(value, 0).unwrap_or(0),
                    RES_PID => owner.pid = u32_at(value, 0),
                    RES_KERN_NAME => owner.kernel = Some(text(value)),
                    _ => {}
                }
            }
            // One that is not bound to a port yet can only be bound to this one.
            if owner.port == 0 && self.ports == 1 {
                owner.port = 1;
            }
            add(counts, owner, 1);
        }
    }
}

/// struct nlattr, one after the other: length, type, value.
fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const HEAD: usize = 4;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & TYPE_OF_ATTRIBUTE;
        let value = rest.get(HEAD..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Up to the first NUL.
fn text(bytes: &[u8]) -> String {
    let name = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES)]).into_owned()
}
