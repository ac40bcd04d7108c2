//! One question to one RAS service: connects, speaks the protocol, reads to the end, within limits. Knows nothing of what the answer says.

use crate::base::words::io_words;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

/// What the service waits for processes that do not answer. One that is stopped makes an answer take a little longer than this.
const SERVICE_TIMEOUT_S: u32 = 3;
/// An answer that is not whole serves as evidence only: so much of it is kept.
const KEPT_OF_A_BAD_REPLY: usize = 64 << 10;
/// The longest line before the report.
const MAX_LINE: usize = 4 << 10;
/// Every process of a job listens at the same port, and the kernel picks one: a stopped process still gets its share of connections
/// and never says a word. The next connection is likely to meet another.
const CONNECTIONS: usize = 3;

#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub connect: Duration,
    /// For each line before the report.
    pub line: Duration,
    pub whole: Duration,
    /// Some 11 MB are what 16,384 ranks take.
    pub reply_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { connect: Duration::from_secs(1), line: Duration::from_secs(1), whole: Duration::from_secs(8), reply_bytes: 16 << 20 }
    }
}

/// How it went. `reply` is the report without the protocol's lines, or what there is of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub address: SocketAddr,
    pub connected: bool,
    pub json: bool,
    pub reply: String,
    pub error: Option<String>,
}

/// Asks the first of `addresses` at which something listens. There is at least one.
pub(super) async fn ask(addresses: &[SocketAddr], text_only: bool, limits: &Limits) -> Outcome {
    let deadline = Instant::now() + limits.whole;
    let mut outcome = Outcome {
        address: addresses.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 0).into()),
        connected: false,
        json: false,
        reply: String::new(),
        error: Some("no address".into()),
    };
    for &address in addresses {
        for _ in 0..CONNECTIONS {
            outcome.address = address;
            let stream = match timeout(limits.connect, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(err)) => {
                    outcome.error = Some(io_words(&err));
                    break;
                }
                Err(_) => {
                    outcome.error = Some("connection timed out".into());
                    break;
                }
            };
            outcome.connected = true;
            let mut line = Conversation { stream, unread: Vec::new(), deadline, limits };
            match line.greet().await {
                Ok(()) => return line.converse(outcome, text_only).await,
                Err(Cut::Silent) if Instant::now() + limits.line < deadline => {
                    outcome.error = Some("accepts connections, but says nothing".into())
                }
                Err(cut) => {
                    outcome.error = Some(cut.to_string());
                    return outcome;
                }
            }
        }
        if outcome.connected {
            break;
        }
    }
    outcome
}

/// Why a conversation ended early.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error("no answer in time")]
    Silent,
    #[error("closed the connection before it answered")]
    Closed,
    #[error("is not a RAS service: it said {0:?}")]
    Foreign(String),
    #[error("{0}")]
    Io(String),
}

impl From<std::io::Error> for Cut {
    fn from(err: std::io::Error) -> Self {
        Cut::Io(io_words(&err))
    }
}

impl From<Elapsed> for Cut {
    fn from(_: Elapsed) -> Self {
        Cut::Silent
    }
}

struct Conversation<'a> {
    stream: TcpStream,
    unread: Vec<u8>,
    deadline: Instant,
    limits: &'a Limits,
}

impl Conversation<'_> {
    async fn greet(&mut self) -> Result<(), Cut> {
        let said = self.exchange("CLIENT PROTOCOL 2\n").await?;
        if said.starts_with("SERVER PROTOCOL ") { Ok(()) } else { Err(Cut::Foreign(said.chars().take(60).collect())) }
    }

    async fn converse(mut self, mut outcome: Outcome, text_only: bool) -> Outcome {
        outcome.error = match self.settings(text_only).await {
            Ok(json) => {
                outcome.json = json;
                let read = timeout_at(self.deadline, self.report()).await.unwrap_or(Err(Cut::Silent));
                outcome.reply = String::from_utf8_lossy(&self.unread).into_owned();
                read.err().map(|cut| cut.to_string()).or_else(|| incomplete(&outcome.reply, json))
            }
            Err(cut) => Some(cut.to_string()),
        };
        let (report, refusal) = crate::ras::without_chatter(&outcome.reply);
        if let (true, Some(refusal)) = (report.is_empty(), refusal) {
            outcome.error = Some(crate::text::clean::clean(refusal).chars().take(200).collect());
        }
        let mut reply = if outcome.json { minified(report) } else { report.to_string() };
        if outcome.error.is_some() {
            let end = (0..=KEPT_OF_A_BAD_REPLY.min(reply.len())).rev().find(|&at| reply.is_char_boundary(at));
            reply.truncate(end.unwrap_or(0));
        }
        outcome.reply = reply;
        outcome
    }

    /// Says whether the report will be JSON.
    async fn settings(&mut self, text_only: bool) -> Result<bool, Cut> {
        self.exchange(&format!("TIMEOUT {SERVICE_TIMEOUT_S}\n")).await?;
        // Before 2.28.7 this is an unknown command, which costs nothing but a line.
        let json = !text_only && self.exchange("SET FORMAT json\n").await? == "OK";
        timeout(self.limits.line, self.stream.write_all(b"VERBOSE STATUS\n")).await??;
        Ok(json)
    }

    /// Sends a line and waits for the one that answers it.
    async fn exchange(&mut self, said: &str) -> Result<String, Cut> {
        let patience = (Instant::now() + self.limits.line).min(self.deadline);
        timeout_at(patience, async {
            self.stream.write_all(said.as_bytes()).await?;
            self.line().await
        })
        .await?
    }

    async fn line(&mut self) -> Result<String, Cut> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.unread) {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).trim_end().to_string());
            }
            if self.unread.len() > MAX_LINE {
                return Err(Cut::Foreign(String::from_utf8_lossy(&self.unread[..60]).into_owned()));
            }
            if self.stream.read_buf(&mut self.unread).await? == 0 {
                return Err(Cut::Closed);
            }
        }
    }

    async fn report(&mut self) -> Result<(), Cut> {
        while self.stream.read_buf(&mut self.unread).await? > 0 {
            if self.unread.len() > self.limits.reply_bytes {
                return Err(Cut::Io(format!("the answer is larger than {} bytes: not read further", self.limits.reply_bytes)));
            }
        }
        Ok(())
    }
}

/// The report has no end mark, and the service closes the connection also when it dies half-way.
fn incomplete(reply: &str, json: bool) -> Option<String> {
    let whole = if json { reply.trim_end().ends_with('}') } else { reply.contains("\nWarnings\n") };
    (!whole).then(|| "the connection was closed in the middle of the answer".into())
}

/// JSON without white space between its parts. NCCL puts every brace and number on a line of its own, which makes an answer, and
/// with it every tape, about twice as large. Also for what is not quite JSON: NCCL 2.28 forgets a comma.
fn minified(json: &str) -> String {
    let mut out = String::with_capacity(json.len() / 2);
    let mut rest = json;
    // Outside strings up to the next quote, then the string.
    while let Some(quote) = rest.find('"') {
        out.extend(rest[..quote].split_ascii_whitespace());
        let body = &rest[quote + 1..];
        let mut escaped = false;
        let end = body.bytes().position(|b| {
            let closes = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            closes
        });
        let length = end.map_or(rest.len(), |end| quote + 1 + end + 1);
        out.push_str(&rest[quote..length]);
        rest = &rest[length..];
    }
    out.extend(rest.split_ascii_whitespace());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ras::{Collective, RasError, parse};
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};

    const QUICK: Limits = Limits {
        connect: Duration::from_millis(500),
        line: Duration::from_millis(300),
        whole: Duration::from_millis(1500),
        reply_bytes: 1 << 20,
    };
    /// For answers that are to come, however busy the machine.
    const PATIENT: Limits =
        Limits { connect: Duration::from_secs(60), line: Duration::from_secs(60), whole: Duration::from_secs(60), reply_bytes: 1 << 20 };

    fn ask(addresses: &[SocketAddr], text_only: bool, limits: &Limits) -> Outcome {
        crate::edge::run(async { Ok(super::ask(addresses, text_only, limits).await) }).unwrap()
    }

    fn recorded(name: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ras").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        crate::ras::without_chatter(text.split("\n# ").next().unwrap()).0.to_string()
    }

    /// What a fake service does with a connection.
    trait Manner: Fn(TcpStream) + Send + 'static {}
    impl<F: Fn(TcpStream) + Send + 'static> Manner for F {}

    /// Serves for as long as the test runs, one connection at a time.
    fn service(manner: impl Manner) -> [SocketAddr; 1] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || listener.incoming().flatten().for_each(manner));
        [address]
    }

    /// Speaks the protocol as NCCL 2.28 (`knows_json`) or 2.24 does, and hands over when the report is asked for.
    fn polite(stream: TcpStream, knows_json: bool, report: impl Fn(&mut TcpStream)) {
        let mut out = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer = match line.to_ascii_lowercase().as_str() {
                "client protocol 2" => "SERVER PROTOCOL 2\n",
                "timeout 3" => "OK\n",
                "set format json" if knows_json => "OK\n",
                "set format json" => "ERROR: Unknown command set format json\n",
                "verbose status" => return report(&mut out),
                _ => "ERROR: Unknown command\n",
            };
            out.write_all(answer.as_bytes()).unwrap();
        }
    }

    fn says(knows_json: bool, reply: String) -> [SocketAddr; 1] {
        service(move |stream| polite(stream, knows_json, |out| drop(out.write_all(reply.as_bytes()))))
    }

    #[test]
    fn a_new_service_answers_in_json_which_is_kept_small() {
        let original = recorded("stop-4.json");
        let outcome = ask(&says(true, original.clone()), false, &PATIENT);
        assert_eq!((outcome.error, outcome.json), (None, true));
        assert!(outcome.reply.len() * 3 < original.len() * 2, "{} of {}", outcome.reply.len(), original.len());
        assert_eq!(parse(&outcome.reply), parse(&original), "it says the same");
        assert_eq!(parse(&outcome.reply).unwrap().comms[0].missing[0].rank, 4);
    }

    #[test]
    fn an_old_service_answers_in_text() {
        for text_only in [false, true] {
            let outcome = ask(&says(false, recorded("hang-5.txt")), text_only, &PATIENT);
            assert_eq!((outcome.error, outcome.json), (None, false));
            assert_eq!(parse(&outcome.reply).unwrap().comms[0].op_counts(Collective::AllReduce)[0].ranks[0].0, 3);
        }
    }

    #[test]
    fn a_service_that_says_nothing_is_left_after_a_while() {
        let outcome =
            ask(&service(|stream| std::thread::sleep(Duration::from_secs(if stream.peer_addr().is_ok() { 5 } else { 0 }))), false, &QUICK);
        assert_eq!(outcome.error.as_deref(), Some("accepts connections, but says nothing"));
        assert!(outcome.connected);
    }

    #[test]
    fn a_stopped_process_of_the_job_does_not_keep_the_others_from_answering() {
        let connections = std::sync::atomic::AtomicUsize::new(0);
        let held = std::sync::Mutex::new(Vec::new());
        let text = recorded("stop-4.json");
        let address = service(move |stream| match connections.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 => held.lock().unwrap().push(stream),
            _ => polite(stream, true, |out| out.write_all(text.as_bytes()).unwrap()),
        });
        assert_eq!(ask(&address, false, &Limits { line: Duration::from_secs(3), ..PATIENT }).error, None);
    }

    #[test]
    fn a_slow_service_is_heard_out_within_the_limit() {
        let slowly = |pause: u64| {
            let text = recorded("hang-5.txt");
            service(move |stream| {
                polite(stream, false, |out| {
                    for byte in text.as_bytes() {
                        if out.write_all(&[*byte]).is_err() {
                            return;
                        }
                        std::thread::sleep(Duration::from_micros(pause));
                    }
                })
            })
        };
        assert_eq!(ask(&slowly(100), false, &PATIENT).error, None);
        let outcome = ask(&slowly(20_000), false, &QUICK);
        assert_eq!(outcome.error.as_deref(), Some("no answer in time"));
        assert!(outcome.reply.starts_with("NCCL version"), "what came is kept");
    }

    #[test]
    fn a_connection_that_breaks_leaves_a_part() {
        let whole = recorded("stop-4.json");
        let outcome = ask(&says(true, whole[..2000].to_string()), false, &PATIENT);
        assert_eq!(outcome.error.as_deref(), Some("the connection was closed in the middle of the answer"));
        assert!(matches!(parse(&outcome.reply), Err(RasError::CutOff(_))));
        let outcome = ask(&service(drop), false, &PATIENT);
        assert!(outcome.error.is_some() && outcome.reply.is_empty());
        let refused = ask(&says(true, "ERROR: no memory\n".into()), false, &PATIENT);
        assert_eq!(refused.error.as_deref(), Some("ERROR: no memory"));
    }

    #[test]
    fn something_else_at_the_port_is_not_taken_for_ras() {
        let web = |mut stream: TcpStream| {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        };
        let outcome = ask(&service(web), false, &PATIENT);
        assert_eq!(outcome.error.as_deref(), Some("is not a RAS service: it said \"HTTP/1.1 400 Bad Request\""));
    }

    #[test]
    fn endless_garbage_ends_at_the_limit() {
        let flood = |stream: &mut TcpStream| while stream.write_all(&[b'x'; 4096]).is_ok() {};
        let outcome = ask(&service(move |stream| polite(stream, false, flood)), false, &PATIENT);
        assert_eq!(outcome.error.as_deref(), Some("the answer is larger than 1048576 bytes: not read further"));
        assert_eq!(outcome.reply.len(), KEPT_OF_A_BAD_REPLY);
        let outcome = ask(&service(move |mut stream| flood(&mut stream)), false, &PATIENT);
        assert!(outcome.error.unwrap().starts_with("is not a RAS service"));
    }

    #[test]
    fn hostile_bytes_stay_text() {
        let reply = b"{\"nccl_version\":\"\x1b]0;x\x07\xff\xfe\",\"communicators\":[]}\n".to_vec();
        let outcome = ask(&service(move |stream| polite(stream, true, |out| drop(out.write_all(&reply)))), false, &PATIENT);
        assert_eq!(outcome.error, None);
        assert!(outcome.reply.contains('\u{fffd}'));
        let refusal = "ERROR: \x1b[2J\x1b]52;c;cm0gLXJm\x07 no\n".to_owned();
        let error = ask(&says(true, refusal), false, &PATIENT).error.unwrap();
        assert!(error.contains("no") && !error.contains(|c: char| c.is_control()), "{error:?}");
        let banner = |mut stream: TcpStream| drop((stream.read(&mut [0; 64]), stream.write_all(b"\x1b[31mhello\n")));
        let error = ask(&service(banner), false, &PATIENT).error.unwrap();
        assert!(error.starts_with("is not a RAS service") && !error.contains('\x1b'), "{error:?}");
    }

    #[test]
    fn sixteen_thousand_ranks_fit() {
        let rank = recorded("hang-5.json");
        let one = &rank[rank.find("        {\n          \"rank\"").unwrap()..rank.find("\n        },").unwrap() + 10];
        let (head, _) = rank.split_once("\"ranks\": [").unwrap();
        let ranks: Vec<String> = (0..16_384).map(|n| one.replacen("\"rank\": 0", &format!("\"rank\": {n}"), 1)).collect();
        let reply =
            format!("{head}\"ranks\": [\n{}\n], \"missing_ranks\": []}}],\n\"ras\": {{\"timeouts_count\": 0}}}}\n", ranks.join(",\n"));
        let limits = Limits { reply_bytes: Limits::default().reply_bytes, ..PATIENT };
        assert!(reply.len() < limits.reply_bytes, "{}", reply.len());
        let outcome = ask(&says(true, reply), false, &limits);
        assert_eq!(outcome.error, None);
        assert_eq!(parse(&outcome.reply).unwrap().comms[0].ranks.len(), 16_384);
    }

    #[test]
    fn white_space_goes_but_not_from_strings() {
        assert_eq!(minified("{ \"a b\" : \"c\\\" d\",\n \"e\\\\\" :[ 1 , 2\t] }\n"), r#"{"a b":"c\" d","e\\":[1,2]}"#);
        assert_eq!(minified("{ \"a\" : \"never closed  "), "{\"a\":\"never closed  ");
        assert_eq!(minified("{\"nvml_dev\": 4\n  \"status\": {}"), "{\"nvml_dev\":4\"status\":{}");
    }
}
