//! One question to one RAS service: connects, speaks the protocol, reads to the end, within limits. Knows nothing of what the answer says.

use crate::base::words::io_words;
use crate::formats::ras::diagnostics;
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
pub struct Limits {
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
pub struct Outcome {
    pub address: SocketAddr,
    pub connected: bool,
    /// What answers speaks TLS: there is a service, and only the job may ask it.
    pub encrypted: bool,
    pub json: bool,
    pub reply: String,
    pub error: Option<String>,
}

/// What a service is asked for. Neither changes anything of the job: `CONTROL` (NCCL 2.31) is never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The state of all communicators; `text_only` where JSON is known to be refused.
    Status { text_only: bool },
    /// `diagnostics`, NCCL 2.31 and newer: whether all ranks have the same GPUs, drivers and variables. Always text. Each rank asks NVML
    /// and sysfs for it, so that it is asked on request only.
    Diagnostics,
}

/// Asks the first of `addresses` at which something listens. There is at least one.
pub async fn ask(addresses: &[SocketAddr], question: Question, limits: &Limits) -> Outcome {
    let deadline = Instant::now() + limits.whole;
    let mut outcome = Outcome {
        address: addresses.first().copied().unwrap_or_else(|| ([127, 0, 0, 1], 0).into()),
        connected: false,
        encrypted: false,
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
                Ok(()) => return line.converse(outcome, question).await,
                Err(Cut::Silent) if Instant::now() + limits.line < deadline => {
                    outcome.error = Some("accepts connections, but says nothing".into())
                }
                Err(cut) => {
                    outcome.encrypted = matches!(cut, Cut::Encrypted);
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
    #[error("the job's sockets are encrypted (TLS): RAS can be asked only by who has the job's key")]
    Encrypted,
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

    async fn converse(mut self, mut outcome: Outcome, question: Question) -> Outcome {
        outcome.error = match self.settings(question).await {
            Ok(json) => {
                outcome.json = json;
                let read = timeout_at(self.deadline, self.report(question)).await.unwrap_or(Err(Cut::Silent));
                outcome.reply = String::from_utf8_lossy(&self.unread).into_owned();
                read.err().map(|cut| cut.to_string()).or_else(|| incomplete(&outcome.reply, question, json))
            }
            Err(cut) => Some(cut.to_string()),
        };
        if question == Question::Diagnostics && outcome.error.is_none() {
            return outcome;
        }
        let (report, refusal) = crate::formats::ras::without_chatter(&outcome.reply);
        if let (true, Some(refusal)) = (report.is_empty(), refusal) {
            outcome.error = Some(crate::base::clean::clean(refusal).chars().take(200).collect());
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
    async fn settings(&mut self, question: Question) -> Result<bool, Cut> {
        self.exchange(&format!("TIMEOUT {SERVICE_TIMEOUT_S}\n")).await?;
        let (wants_json, command) = match question {
            Question::Status { text_only } => (!text_only, "VERBOSE STATUS\n"),
            Question::Diagnostics => (false, "DIAGNOSTICS\n"),
        };
        // Before 2.28.7 this is an unknown command, which costs nothing but a line.
        let json = wants_json && self.exchange("SET FORMAT json\n").await? == "OK";
        timeout(self.limits.line, self.stream.write_all(command.as_bytes())).await??;
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
            if is_tls(&self.unread) {
                return Err(Cut::Encrypted);
            }
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

    async fn report(&mut self, question: Question) -> Result<(), Cut> {
        while self.stream.read_buf(&mut self.unread).await? > 0 {
            // Behind a command that it does not know the service waits for another.
            if question == Question::Diagnostics && self.unread.starts_with(b"ERROR: Unknown command") && self.unread.ends_with(b"\n") {
                return Ok(());
            }
            if self.unread.len() > self.limits.reply_bytes {
                return Err(Cut::Io(format!("the answer is larger than {} bytes: not read further", self.limits.reply_bytes)));
            }
        }
        Ok(())
    }
}

/// A record of TLS: the alert or the handshake with which it answers what is not TLS (RFC 8446, 5.1).
fn is_tls(bytes: &[u8]) -> bool {
    const ALERT: u8 = 0x15;
    const HANDSHAKE: u8 = 0x16;
    matches!(bytes, [ALERT | HANDSHAKE, 3, 0..=4, ..])
}

/// A status has no end mark, and the service closes the connection also when it dies half-way.
fn incomplete(reply: &str, question: Question, json: bool) -> Option<String> {
    let whole = match question {
        Question::Diagnostics => diagnostics::is_whole(reply),
        Question::Status { .. } if json => reply.trim_end().ends_with('}'),
        Question::Status { .. } => reply.contains("\nWarnings\n"),
    };
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
