//! NCCL's RAS service: asks the jobs of this host what their ranks have launched. Never asks another host, never has two questions
//! open, and judges nothing: answers go on as text.

pub mod question;

use super::{Hint, RasAddress, Roots, Setup, Source, SourceError};
use crate::formats::ras::diagnostics::{self, Diagnostics};
use crate::observe::log::RasAnswer;
use crate::observe::{Body, SourceState};
use question::{Limits, Outcome, Question};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Between two questions while the counts move. An answer costs every process of the job a message.
pub const MOVING: Duration = Duration::from_secs(5);
/// While they do not: whether a job hangs is what this source is for.
pub const STILL: Duration = Duration::from_millis(2500);
/// After no answer.
pub const REFUSED: Duration = Duration::from_secs(10);
/// Every process of every job of a user listens at the same address, and the kernel picks one. A job that was not heard lately is asked
/// for so many times more, this long after one another; if that does not help, not again for a while.
pub const AGAIN: Duration = Duration::from_millis(300);
const TRIES: u32 = 2;
const LATELY: Duration = Duration::from_secs(4);
const NOT_FOUND: Duration = Duration::from_secs(60);
/// Jobs on one host with an address of their own: more are not asked.
const MAX_ADDRESSES: usize = 16;

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    Box::new(Ras::new(setup.ras_inbox.take(), setup.roots.clone(), Limits::default()))
}

struct Ras {
    inbox: Option<Receiver<Hint>>,
    roots: Roots,
    limits: Limits,
    services: Vec<Service>,
}

/// One `NCCL_RAS_ADDR`, as a job has it: what its answers have shown, and how soon it is asked again.
pub struct Service {
    name: String,
    /// As in [`RasAddress`].
    apart: Option<Option<Ipv4Addr>>,
    due: Instant,
    text_only: bool,
    /// The processes of this host that have this address.
    pids: BTreeSet<u32>,
    /// When each of them was last in an answer, or should be asked for again.
    heard: BTreeMap<u32, Instant>,
    /// Questions in a row for the sake of those that were not.
    tries: u32,
    /// Of the last answer of each job, without what differs in every answer, by its first pid here.
    fingerprints: BTreeMap<u32, u64>,
    /// Why the last question had no answer.
    trouble: Option<(SourceState, String)>,
}

impl Ras {
    fn new(inbox: Option<Receiver<Hint>>, roots: Roots, limits: Limits) -> Self {
        Ras { inbox, roots, limits, services: Vec::new() }
    }

    fn listen(&mut self) {
        while let Some(Ok(hint)) = self.inbox.as_ref().map(Receiver::try_recv) {
            self.heed(hint);
        }
    }

    /// Takes the addresses of a hint for all there are. Says whether one of them is new.
    fn heed(&mut self, hint: Hint) -> bool {
        let Hint::RasAddresses(mut addresses) = hint else { return false };
        addresses.sort();
        addresses.dedup_by(|a, b| (&a.name, a.apart) == (&b.name, b.apart));
        addresses.truncate(MAX_ADDRESSES);
        self.services.retain(|service| addresses.iter().any(|a| service.is_at(a)));
        let mut new = false;
        for address in addresses {
            match self.services.iter_mut().find(|service| service.is_at(&address)) {
                Some(service) => service.has(address.pids),
                None => {
                    self.services.push(Service::new(address));
                    new = true;
                }
            }
        }
        new
    }

    fn ask(&mut self, at: usize) -> Option<RasAnswer> {
        let (roots, limits) = (&self.roots, &self.limits);
        let service = &mut self.services[at];
        let began = Instant::now();
        let asked = reachable(roots, &service.name, service.apart)
            .and_then(|addresses| ask_at(&addresses, Question::Status { text_only: service.text_only }, limits));
        let took = began.elapsed();
        let (outcome, wait) = match asked {
            Ok(outcome) => {
                let wait = service.learn(&outcome);
                (Some(outcome), wait)
            }
            Err(trouble) => {
                service.trouble = Some(trouble);
                (None, REFUSED)
            }
        };
        service.due = Instant::now() + wait;
        outcome.map(|outcome| RasAnswer {
            address: outcome.address.to_string(),
            reply: outcome.reply,
            format: if outcome.json { "json" } else { "text" }.into(),
            took_ms: took.as_secs_f64() * 1e3,
            error: outcome.error,
        })
    }

    fn next_due(&self) -> Option<usize> {
        (0..self.services.len()).min_by_key(|&at| self.services[at].due)
    }
}

impl Source for Ras {
    fn every(&self) -> Duration {
        let due = self.next_due().map(|at| self.services[at].due);
        due.map_or(MOVING, |due| due.saturating_duration_since(Instant::now()).max(Duration::from_millis(100)))
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        self.listen();
        let Some(at) = self.next_due() else {
            return Err(SourceError::Absent("no job with RAS seen; it is asked when ranks appear".into()));
        };
        // One per poll, so that an answer is stamped when it came.
        if self.services[at].due <= Instant::now() {
            out.extend(self.ask(at).map(Body::Ras));
        }
        Ok(())
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        let troubles = self.services.iter().filter_map(|service| service.trouble.as_ref());
        troubles.max_by_key(|(state, _)| *state).cloned()
    }

    /// A job that has just been found is asked at once.
    fn wait(&mut self, timeout: Duration) {
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let hint = match &self.inbox {
                Some(inbox) => inbox.recv_timeout(left),
                None => Err(RecvTimeoutError::Disconnected),
            };
            match hint {
                Ok(hint) => {
                    if self.heed(hint) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    self.inbox = None;
                    return std::thread::sleep(left);
                }
            }
        }
    }
}

impl Service {
    pub fn new(address: RasAddress) -> Self {
        let mut service = Service {
            name: address.name,
            apart: address.apart,
            due: Instant::now(),
            text_only: false,
            pids: BTreeSet::new(),
            heard: BTreeMap::new(),
            tries: 0,
            fingerprints: BTreeMap::new(),
            trouble: None,
        };
        service.has(address.pids);
        service
    }

    fn is_at(&self, address: &RasAddress) -> bool {
        (&self.name, self.apart) == (&address.name, address.apart)
    }

    /// The processes that have this address now.
    pub fn has(&mut self, pids: Vec<u32>) {
        self.pids = pids.into_iter().collect();
        self.heard.retain(|pid, _| self.pids.contains(pid));
        self.fingerprints.retain(|pid, _| *pid == 0 || self.pids.contains(pid));
    }

    /// Why the last question had no answer, or none of these processes.
    pub fn trouble(&self) -> Option<&(SourceState, String)> {
        self.trouble.as_ref()
    }

    /// Keeps what the answer teaches for the next question, and returns how soon that should be.
    pub fn learn(&mut self, outcome: &Outcome) -> Duration {
        if let Some(error) = &outcome.error {
            // What answers next may be another job, with another NCCL.
            (self.text_only, self.tries) = (false, 0);
            self.fingerprints.clear();
            let (state, why) = match outcome {
                Outcome { encrypted: true, .. } => (SourceState::Denied, ""),
                Outcome { connected: true, .. } => (SourceState::Slow, ""),
                _ => (SourceState::Absent, ": NCCL before 2.24, NCCL_RAS_ENABLE=0, or no communicator yet"),
            };
            self.trouble = Some((state, format!("{}: {error}{why}", outcome.address)));
            return REFUSED;
        }
        self.text_only = !outcome.json;
        self.trouble = None;
        let said = pids_in(&outcome.reply);
        let ours: BTreeSet<u32> = said.intersection(&self.pids).copied().collect();
        let foreign = outcome.json && !said.is_empty() && ours.is_empty() && !self.pids.is_empty();
        let now = fingerprint(&outcome.reply);
        let before = self.fingerprints.insert(ours.first().copied().unwrap_or(0), now);
        // The second answer says whether anything moves.
        let usual = if before.is_some_and(|before| before != now) { MOVING } else { STILL };
        let at = Instant::now();
        self.heard.extend(ours.iter().map(|pid| (*pid, at)));
        // A text report names hardly any process: whose it is cannot be known.
        let unheard = |pid: &u32| self.heard.get(pid).is_none_or(|heard| *heard <= at && at.duration_since(*heard) > LATELY);
        let unheard: Vec<u32> = self.pids.iter().filter(|pid| outcome.json && unheard(pid)).copied().collect();
        if !unheard.is_empty() && self.tries < TRIES {
            self.tries += 1;
            return AGAIN;
        }
        self.tries = 0;
        // They have no communicator yet, or none any more.
        self.heard.extend(unheard.into_iter().map(|pid| (pid, at + NOT_FOUND)));
        if foreign {
            let words = "another job answers here; where two jobs share a node, each needs an NCCL_RAS_ADDR of its own";
            self.trouble = Some((SourceState::Slow, format!("{}: {words}", outcome.address)));
        }
        usual
    }
}

fn ask_at(addresses: &[SocketAddr], question: Question, limits: &Limits) -> Result<Outcome, (SourceState, String)> {
    let asked = async { Ok(question::ask(addresses, question, limits).await) };
    crate::edge::run(asked).map_err(|err| (SourceState::Failed, format!("{err:#}")))
}

/// What NCCL itself finds wrong with the jobs at these addresses, each asked once.
pub fn diagnose(roots: &Roots, addresses: &[RasAddress], limits: &Limits) -> Vec<Diagnosed> {
    let one = |address: &RasAddress| {
        let asked = reachable(roots, &address.name, address.apart).and_then(|at| ask_at(&at, Question::Diagnostics, limits));
        let answer = match asked {
            Ok(Outcome { error: None, reply, .. }) => diagnostics::parse(&reply).map_err(|err| err.to_string()),
            Ok(Outcome { error: Some(error), .. }) => Err(error),
            Err((_, why)) => Err(why),
        };
        Diagnosed { address: address.name.clone(), answer }
    };
    addresses.iter().take(MAX_ADDRESSES).map(one).collect()
}

/// What a job answered to `diagnostics`, or why there is no answer.
pub struct Diagnosed {
    /// Its `NCCL_RAS_ADDR`.
    pub address: String,
    pub answer: Result<Diagnostics, String>,
}

/// The processes that an answer names.
fn pids_in(reply: &str) -> BTreeSet<u32> {
    let keys: &[&str] = if reply.starts_with('{') { &["\"pid\":"] } else { &["managed by process ", "  Process "] };
    let number = |text: &str| text[..text.bytes().take_while(u8::is_ascii_digit).count()].parse().ok();
    keys.iter().flat_map(|key| reply.match_indices(key).filter_map(move |(at, key)| number(&reply[at + key.len()..]))).collect()
}

/// A hash of the answer without its time and duration.
fn fingerprint(reply: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    if reply.starts_with('{') {
        let mut rest = reply;
        for (key, end) in [("\"timestamp\":\"", '"'), ("\"collection_time_sec\":", ',')] {
            if let Some((before, after)) = rest.split_once(key) {
                before.hash(&mut hasher);
                rest = after.find(end).map_or("", |at| &after[at..]);
            }
        }
        rest.hash(&mut hasher);
    } else {
        reply.lines().filter(|line| !line.starts_with("Communicators...")).for_each(|line| line.hash(&mut hasher));
    }
    hasher.finish()
}

/// The addresses to ask. In a network of its own, as a pod without hostNetwork has, RAS listens at the loopback of that one, unless the job
/// says otherwise; what is asked at this host's would be another job.
fn reachable(roots: &Roots, name: &str, apart: Option<Option<Ipv4Addr>>) -> Result<Vec<SocketAddr>, (SourceState, String)> {
    let Some(theirs) = apart else { return own_addresses(roots, name) };
    let (host, port) = name.rsplit_once(':').unwrap_or((name, ""));
    let host: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let is_asked = |ip: &Ipv4Addr| host.is_some_and(|host| host.is_unspecified() || host == IpAddr::V4(*ip));
    match (theirs.filter(is_asked), port.parse()) {
        (Some(ip), Ok(port)) => Ok(vec![(ip, port).into()]),
        _ => Err((SourceState::Denied, format!("{name}: {IN_A_POD}"))),
    }
}

const IN_A_POD: &str = "the ranks have a network of their own, and RAS listens inside it: run the pods with hostNetwork, or set \
                        NCCL_RAS_ADDR=0.0.0.0:28028 in them, which lets everybody on the pod network ask it";

/// The addresses behind `host:port`, if they are this host's own. Other names than its own are not even looked up: a job's
/// environment must not make us talk to a third machine.
fn own_addresses(roots: &Roots, name: &str) -> Result<Vec<SocketAddr>, (SourceState, String)> {
    let refuse = || (SourceState::Denied, format!("NCCL_RAS_ADDR={name} is not an address of this host: not asked"));
    let wrong = || (SourceState::Failed, format!("NCCL_RAS_ADDR={name}: expected host:port"));
    let (host, port) = name.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let found: Vec<IpAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![ip],
        Err(_) if host.eq_ignore_ascii_case("localhost") || is_own_name(roots, host) => {
            let resolved =
                (host, port).to_socket_addrs().map_err(|err| (SourceState::Failed, format!("{host}: {}", super::io_words(&err))))?;
            resolved.map(|address| address.ip()).collect()
        }
        Err(_) => return Err(refuse()),
    };
    let own: Vec<SocketAddr> = found.into_iter().filter_map(own_address).map(|ip| SocketAddr::new(ip, port)).collect();
    if own.is_empty() { Err(refuse()) } else { Ok(own) }
}

fn is_own_name(roots: &Roots, host: &str) -> bool {
    let own = roots.table("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = own.trim();
    let short = |name: &str| name.split('.').next().map(str::to_ascii_lowercase);
    !own.is_empty() && (own.eq_ignore_ascii_case(host) || (short(own) == short(host) && !(own.contains('.') && host.contains('.'))))
}

/// The address to connect to, if it is of this host.
fn own_address(ip: IpAddr) -> Option<IpAddr> {
    match ip.to_canonical() {
        // "Any address" of a listener is loopback to a client.
        IpAddr::V4(ip) if ip.is_unspecified() => Some(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => Some(Ipv6Addr::LOCALHOST.into()),
        ip if ip.is_loopback() => Some(ip),
        ip => {
            // Linux talks to its own addresses from the very address. This sends nothing: a UDP connect only looks up the route.
            let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let socket = UdpSocket::bind((any, 0)).ok()?;
            socket.connect((ip, 9)).ok()?;
            (socket.local_addr().ok()?.ip() == ip).then_some(ip)
        }
    }
}

#[cfg(test)]
#[test]
fn a_host_knows_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
    std::fs::write(dir.path().join("proc/sys/kernel/hostname"), "node7.cluster\n").unwrap();
    let roots = Roots::below(dir.path());
    assert_eq!(["node7.cluster", "NODE7", "node7.other", "node8"].map(|name| is_own_name(&roots, name)), [true, true, false, false]);
}

#[cfg(test)]
#[test]
fn ras_in_a_network_of_its_own_is_asked_only_where_the_job_lets_others_ask() {
    let roots = Roots::live();
    let ip = Ipv4Addr::new(10, 244, 1, 7);
    let ask = |name: &str, theirs| reachable(&roots, name, Some(theirs));
    assert_eq!(ask("0.0.0.0:28028", Some(ip)), Ok(vec![SocketAddr::from((ip, 28028))]));
    assert_eq!(ask("10.244.1.7:28028", Some(ip)), Ok(vec![SocketAddr::from((ip, 28028))]));
    for (name, theirs) in
        [("localhost:28028", Some(ip)), ("127.0.0.1:28028", Some(ip)), ("10.9.9.9:1", Some(ip)), ("0.0.0.0:28028", None), ("x", Some(ip))]
    {
        let (state, why) = ask(name, theirs).expect_err(name);
        assert!(state == SourceState::Denied && why.contains("hostNetwork"), "{name}: {why}");
    }
    assert!(reachable(&roots, "127.0.0.1:28028", None).is_ok());
}
