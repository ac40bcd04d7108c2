//! PyTorch's debug server (`torch.distributed.debug.start_debug_server`), where the job itself has started it beside a rank 0 of this
//! node: the Flight Recorder of all ranks, without a file. It is asked for nothing that changes the job, and not more often than PyTorch
//! itself would for its own periodic dumps.
//!
//! A port is connected to only where a child of rank 0, and not the rank itself, listens at the server's own port: what else ranks listen
//! at (NCCL, Gloo, the store) must not hear from us.

use super::procs::environ::Signs;
use super::procs::read::Reader;
use super::procs::stat::Stat;
use super::{Hint, Roots, Setup, Source, SourceError};
use crate::base::words::io_words;
use crate::formats::{debug_server, flight_recorder};
use crate::observe::flight::FlightDump;
use crate::observe::{Body, SourceState};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Where it listens unless the job's code says otherwise (torch/distributed/debug/__init__.py).
pub const PORT: u16 = 25999;
/// Between two questions: each asks every rank of the job. PyTorch's own dumps take as long.
pub const ASK: Duration = Duration::from_secs(60);
/// Between two looks for a server.
const LOOK: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(1);
/// It waits so long for ranks that do not answer, and some.
const PATIENCE: Duration = Duration::from_secs(70);
const MAX_PAGE: usize = 64 << 20;
/// Of what is passed on, compressed and as letters.
const MAX_PACKED: usize = 4 << 20;
const NCCL: &str = "/fr_trace_nccl_json";
const OTHERS: &str = "/fr_trace_json";

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    Box::new(DebugServer::new(setup.roots.clone(), PORT, ASK, setup.debug_inbox.take()))
}

pub struct DebugServer {
    reader: Reader,
    port: u16,
    ask: Duration,
    inbox: Option<Receiver<Hint>>,
    /// Global rank and start of each rank on this node.
    ranks: BTreeMap<u32, (u64, Option<u32>)>,
    server: Option<Server>,
}

struct Server {
    /// Rank 0.
    pid: u32,
    inode: u64,
    due: Instant,
    /// Of the last answers of all ranks.
    last: Option<u64>,
    /// The last answers were passed on: they were the same twice.
    passed_on: bool,
    state: SourceState,
    words: String,
}

impl DebugServer {
    pub fn new(roots: Roots, port: u16, ask: Duration, inbox: Option<Receiver<Hint>>) -> Self {
        DebugServer { reader: Reader::new(roots), port, ask, inbox, ranks: BTreeMap::new(), server: None }
    }

    fn listen(&mut self) {
        let Some(Hint::Ranks(now)) = self.inbox.iter().flat_map(Receiver::try_iter).filter(|h| matches!(h, Hint::Ranks(_))).last() else {
            return;
        };
        let now: BTreeMap<u32, u64> = now.into_iter().collect();
        self.ranks.retain(|pid, (start, _)| now.get(pid) == Some(start));
        for (pid, start) in now {
            if !self.ranks.contains_key(&pid) {
                let rank = self.reader.read(pid, "environ").ok().and_then(|raw| Signs::read(raw).key).map(|key| key.rank);
                self.ranks.insert(pid, (start, rank));
            }
        }
    }

    /// The server, where one is there.
    fn find(&mut self) -> Option<(u32, u64)> {
        let firsts: Vec<u32> = self.ranks.iter().filter(|(_, (_, rank))| *rank == Some(0)).map(|(pid, _)| *pid).collect();
        firsts.into_iter().find_map(|pid| {
            let inode = listener(&mut self.reader, pid, self.port)?;
            // What a rank has opened itself its children have, too.
            let children = self.children(pid);
            let its = |pid: &u32| self.reader.sockets(*pid).contains(&inode);
            (!its(&pid) && children.iter().any(its)).then_some((pid, inode))
        })
    }

    /// Two levels: a fork server stands between.
    fn children(&mut self, of: u32) -> BTreeSet<u32> {
        let mut parents: Vec<(u32, u32)> = Vec::new();
        for pid in self.reader.pids().unwrap_or_default() {
            parents.extend(self.reader.read(pid, "stat").ok().and_then(Stat::parse).map(|stat| (pid, stat.ppid)));
        }
        let below = |of: &BTreeSet<u32>| parents.iter().filter(|(_, parent)| of.contains(parent)).map(|(pid, _)| *pid).collect();
        let children: BTreeSet<u32> = below(&BTreeSet::from([of]));
        below(&children.clone()).into_iter().chain(children).collect()
    }

    /// Asks for the Flight Recorder of all ranks, and passes it on where nothing has moved since the last question: a job that runs always
    /// has operations that have not ended, and each rank answers in a moment of its own.
    fn ask(&mut self, out: &mut Vec<Body>) {
        let Some(server) = &mut self.server else { return };
        server.due = Instant::now() + self.ask;
        let page = match recorded(self.port) {
            Ok(page) => page,
            Err(why) => {
                (server.state, server.words, server.last) = (SourceState::Slow, why, None);
                return;
            }
        };
        let answers = debug_server::answers(&page);
        if answers.is_empty() {
            (server.state, server.words, server.last) = (SourceState::Slow, "no rank answers it".into(), None);
            return;
        }
        let mut hasher = DefaultHasher::new();
        answers.hash(&mut hasher);
        let now = hasher.finish();
        let is_still = server.last.replace(now) == Some(now);
        let ranks = crate::base::units::counted(answers.len() as u64, "rank");
        (server.state, server.words) = match is_still {
            true => (SourceState::Ok, format!("Flight Recorder of {ranks}: nothing moves, compared")),
            false => (SourceState::Ok, format!("Flight Recorder of {ranks}, asked every {} s", self.ask.as_secs())),
        };
        // What was passed on before must not stand for what goes on.
        if is_still == server.passed_on {
            return;
        }
        server.passed_on = is_still;
        let mut room = MAX_PACKED;
        for (rank, json) in answers {
            let packed = FlightDump::pack(json.as_bytes());
            if packed.len() > room || json.len() as u64 > crate::observe::flight::MAX_BYTES {
                server.words.push_str(&format!("; those from rank {rank} on are too large"));
                break;
            }
            room -= packed.len();
            let is_rank = |(_, (_, of)): &(&u32, &(u64, Option<u32>))| *of == Some(rank);
            let pid = self.ranks.iter().find(is_rank).map_or(server.pid, |(pid, _)| *pid);
            let path = format!("http://localhost:{} rank {rank}", self.port);
            out.push(Body::FlightDump(FlightDump { rank, pid, path, size_bytes: json.len() as u64, packed, ..FlightDump::default() }));
        }
    }
}

/// The page with the calls of NCCL, or of another backend where NCCL makes none.
fn recorded(port: u16) -> Result<String, String> {
    let page = get(port, NCCL)?;
    if !debug_server::is_its(&page) {
        return Err(format!("what answers at port {port} is not PyTorch's debug server"));
    }
    let says = |json: &str| flight_recorder::read(json.as_bytes()).is_ok_and(|dump| !dump.entries.is_empty() || !dump.status.is_empty());
    if debug_server::answers(&page).iter().any(|(_, json)| says(json)) { Ok(page) } else { get(port, OTHERS) }
}

/// A page of the server, by loopback.
fn get(port: u16, path: &str) -> Result<String, String> {
    let words = |err: std::io::Error| format!("port {port}: {}", io_words(&err));
    let loopback = [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    let connect = |address: &SocketAddr| TcpStream::connect_timeout(address, CONNECT);
    let mut stream = connect(&loopback[0]).or_else(|_| connect(&loopback[1])).map_err(words)?;
    stream.set_write_timeout(Some(CONNECT)).map_err(words)?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes()).map_err(words)?;
    let until = Instant::now() + PATIENCE;
    let (mut page, mut piece) = (Vec::new(), [0; 1 << 14]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("port {port}: no whole answer in {} s", PATIENCE.as_secs()));
        }
        stream.set_read_timeout(Some(left)).map_err(words)?;
        match stream.read(&mut piece).map_err(words)? {
            0 => break,
            _ if page.len() > MAX_PAGE => return Err(format!("port {port}: more than {} MiB", MAX_PAGE >> 20)),
            n => page.extend_from_slice(&piece[..n]),
        }
    }
    let page = String::from_utf8_lossy(&page).into_owned();
    let status = page.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(page),
        _ => Err(format!("port {port}: {}", crate::base::clean::clip(&crate::base::mask::shown(status), 100))),
    }
}

/// The socket that listens at a port in the network of a process, if that is ours, too.
fn listener(reader: &mut Reader, pid: u32, port: u16) -> Option<u64> {
    let network = |pid: &str| std::fs::read_link(reader.roots().path(format!("/proc/{pid}/ns/net"))).ok();
    let is_ours = network(&pid.to_string()).is_some_and(|its| network("self") == Some(its));
    let tables = if is_ours { ["net/tcp6", "net/tcp"] } else { return None };
    tables.into_iter().find_map(|table| {
        let text = String::from_utf8_lossy(reader.read(pid, table).ok()?).into_owned();
        text.lines().skip(1).find_map(|line| inode_at(line, port))
    })
}

/// `   0: 00000000000000000000000000000000:658F …:0000 0A 00000000:00000000 00:00000000 00000000     0        0 49131 1 …`
fn inode_at(line: &str, port: u16) -> Option<u64> {
    const LISTENS: &str = "0A";
    let words: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let (_, own) = words.get(1)?.rsplit_once(':')?;
    let is_it = u16::from_str_radix(own, 16) == Ok(port) && words.get(3) == Some(&LISTENS);
    is_it.then(|| words.get(9)?.parse().ok())?
}

impl Source for DebugServer {
    fn every(&self) -> Duration {
        LOOK
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        self.listen();
        match self.find() {
            Some((pid, inode)) if self.server.as_ref().is_none_or(|known| (known.pid, known.inode) != (pid, inode)) => {
                let (state, words) = (SourceState::Ok, "not asked yet".to_owned());
                self.server = Some(Server { pid, inode, due: Instant::now(), last: None, passed_on: false, state, words });
            }
            Some(_) => {}
            None => self.server = None,
        }
        match &self.server {
            None if self.ranks.is_empty() => Err(SourceError::Absent("no rank that could have started it".into())),
            None => Err(SourceError::Absent(format!("no rank 0 of this node has started PyTorch's debug server at port {}", self.port))),
            Some(server) => {
                if server.due <= Instant::now() {
                    self.ask(out);
                }
                Ok(())
            }
        }
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        let server = self.server.as_ref()?;
        Some((server.state, format!("port {} of rank 0 (pid {}): {}", self.port, server.pid, server.words)))
    }
}
