//! NCCL's RAS service: asks the jobs of this host what their ranks have launched. Never asks another host, never has two questions
//! open, and judges nothing: answers go on as text.

mod question;

use super::{Hint, Roots, Setup, Source, SourceError};
use crate::observe::log::RasAnswer;
use crate::observe::{Body, SourceState};
use question::{Limits, Outcome};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Between two questions while the counts move. An answer costs every process of the job a message.
const MOVING: Duration = Duration::from_secs(5);
/// While they do not: whether a job hangs is what this source is for.
const STILL: Duration = Duration::from_millis(2500);
/// After no answer.
const REFUSED: Duration = Duration::from_secs(10);
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

/// One `NCCL_RAS_ADDR`, as a job has it.
struct Service {
    name: String,
    due: Instant,
    text_only: bool,
    /// Of the last answer, without what differs in every answer.
    fingerprint: Option<u64>,
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
        let Hint::RasAddresses(mut names) = hint else { return false };
        names.sort();
        names.dedup();
        names.truncate(MAX_ADDRESSES);
        self.services.retain(|service| names.contains(&service.name));
        names.retain(|name| !self.services.iter().any(|service| service.name == *name));
        let new = !names.is_empty();
        self.services.extend(names.into_iter().map(Service::new));
        new
    }

    fn ask(&mut self, at: usize) -> Option<RasAnswer> {
        let (roots, limits) = (&self.roots, &self.limits);
        let service = &mut self.services[at];
        let addresses = match own_addresses(roots, &service.name) {
            Ok(addresses) => addresses,
            Err((state, text)) => {
                service.trouble = Some((state, text));
                service.due = Instant::now() + REFUSED;
                return None;
            }
        };
        let began = Instant::now();
        let outcome = question::ask(&addresses, service.text_only, limits);
        let took = began.elapsed();
        let wait = service.learn(&outcome);
        service.due = Instant::now() + wait;
        Some(RasAnswer {
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
    fn new(name: String) -> Self {
        Service { name, due: Instant::now(), text_only: false, fingerprint: None, trouble: None }
    }

    /// Keeps what the answer teaches for the next question, and says when that should be.
    fn learn(&mut self, outcome: &Outcome) -> Duration {
        if let Some(error) = &outcome.error {
            // What answers next may be another job, with another NCCL.
            (self.text_only, self.fingerprint) = (false, None);
            let state = if outcome.connected { SourceState::Slow } else { SourceState::Absent };
            let why = if outcome.connected { "" } else { ": NCCL before 2.24, NCCL_RAS_ENABLE=0, or no communicator yet" };
            self.trouble = Some((state, format!("{}: {error}{why}", outcome.address)));
            return REFUSED;
        }
        self.text_only = !outcome.json;
        self.trouble = None;
        let now = fingerprint(&outcome.reply);
        let before = self.fingerprint.replace(now);
        // The second answer says whether anything moves.
        if before.is_some_and(|before| before != now) { MOVING } else { STILL }
    }
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
    let own = std::fs::read_to_string(roots.path("/proc/sys/kernel/hostname")).unwrap_or_default();
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
mod tests {
    use super::*;
    use crate::sources::Hints;

    fn service() -> Service {
        Service::new("localhost:1".into())
    }

    fn answered(reply: &str) -> Outcome {
        Outcome { address: ([127, 0, 0, 1], 1).into(), connected: true, json: reply.starts_with('{'), reply: reply.into(), error: None }
    }

    #[test]
    fn only_this_host_is_asked() {
        let roots = Roots::live();
        assert_eq!(own_addresses(&roots, "127.0.0.1:28028").unwrap(), [([127, 0, 0, 1], 28028).into()]);
        assert_eq!(own_addresses(&roots, "0.0.0.0:7").unwrap(), [([127, 0, 0, 1], 7).into()]);
        assert_eq!(own_addresses(&roots, "[::1]:28028").unwrap()[0].to_string(), "[::1]:28028");
        assert!(own_addresses(&roots, "localhost:28028").unwrap().iter().all(|a| a.ip().is_loopback()));
        for other in ["192.0.2.77:28028", "[2001:db8::1]:28028", "example.com:28028", "255.255.255.255:1", "224.0.0.1:1"] {
            assert!(matches!(own_addresses(&roots, other), Err((SourceState::Denied, _))), "{other}");
        }
        for wrong in ["localhost", "localhost:", "localhost:99999", ""] {
            assert!(matches!(own_addresses(&roots, wrong), Err((SourceState::Failed, _))), "{wrong}");
        }
    }

    #[test]
    fn a_host_knows_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/sys/kernel")).unwrap();
        std::fs::write(dir.path().join("proc/sys/kernel/hostname"), "node7.cluster\n").unwrap();
        let roots = Roots::below(dir.path());
        assert_eq!(["node7.cluster", "NODE7", "node7.other", "node8"].map(|name| is_own_name(&roots, name)), [true, true, false, false]);
    }

    #[test]
    fn a_job_that_stands_still_is_asked_more_often() {
        let mut service = service();
        let moving =
            |n| answered(&format!(r#"{{"timestamp":"{n}","AllReduce":{n},"ras":{{"collection_time_sec":0.{n},"timeouts_count":0}}}}"#));
        let still =
            |n| answered(&format!(r#"{{"timestamp":"{n}","AllReduce":5,"ras":{{"collection_time_sec":0.{n},"timeouts_count":0}}}}"#));
        assert_eq!(service.learn(&moving(1)), STILL, "one answer says nothing of movement");
        assert_eq!(service.learn(&moving(2)), MOVING);
        assert_eq!(service.learn(&still(3)), MOVING);
        assert_eq!(service.learn(&still(4)), STILL);
        let refused = Outcome { error: Some("connection refused".into()), connected: false, ..answered("") };
        assert_eq!(service.learn(&refused), REFUSED);
        assert_eq!(service.trouble.as_ref().map(|t| t.0), Some(SourceState::Absent));
    }

    #[test]
    fn text_answers_are_compared_without_their_duration() {
        let text = |took: &str, count: u32| fingerprint(&format!("NCCL version 2\nCommunicators... ({took}s)\n operation {count}\n"));
        assert_eq!(text("0.001", 7), text("0.002", 7));
        assert_ne!(text("0.001", 7), text("0.001", 8));
    }

    #[test]
    fn without_a_job_nothing_is_asked_and_a_new_one_ends_the_wait() {
        let (hints, inbox) = Hints::line();
        let mut source = Ras::new(Some(inbox), Roots::live(), Limits::default());
        assert!(matches!(source.poll(&mut Vec::new()), Err(SourceError::Absent(_))));
        hints.send(Hint::RasAddresses(Vec::new()));
        hints.send(Hint::RasAddresses(vec!["192.0.2.77:28028".into()]));
        let began = Instant::now();
        source.wait(Duration::from_secs(20));
        assert!(began.elapsed() < Duration::from_secs(10));

        let mut out = Vec::new();
        source.poll(&mut out).unwrap();
        assert!(out.is_empty());
        assert_eq!(source.remark().unwrap().0, SourceState::Denied);

        hints.send(Hint::RasAddresses(Vec::new()));
        assert!(matches!(source.poll(&mut out), Err(SourceError::Absent(_))), "the job is gone");
    }

    #[test]
    fn a_service_that_is_not_there_is_tried_again_later() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (hints, inbox) = Hints::line();
        hints.send(Hint::RasAddresses(vec![free.to_string(), free.to_string()]));
        let mut source = Ras::new(Some(inbox), Roots::live(), Limits::default());
        let mut out = Vec::new();
        source.poll(&mut out).unwrap();
        let [Body::Ras(answer)] = out.as_slice() else { panic!("{out:?}") };
        assert_eq!((answer.address.as_str(), answer.error.as_deref()), (free.to_string().as_str(), Some("connection refused")));
        assert_eq!(source.remark().unwrap().0, SourceState::Absent);
        assert!(source.every() > Duration::from_secs(8));
    }
}
