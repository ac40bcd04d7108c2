//! Asks a server that speaks Prometheus's query API: Prometheus itself, Thanos, Mimir, VictoriaMetrics.

use super::answer::{Answer, beginning, words};
use super::http_config::HttpConfig;
use crate::base::mask;
use crate::base::time::Stamp;
use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
use std::io::Read;
use std::time::Duration;
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

/// How long one question may take, and, as the server is asked to keep to it, what it is given as its own limit.
pub const PATIENCE: Duration = Duration::from_secs(5);
const TO_CONNECT: Duration = Duration::from_secs(3);
/// Bytes of one answer that are read: the ports of a thousand nodes take 3 MB.
const MOST_BYTES: u64 = 16 << 20;
/// Questions that are under way at once; Prometheus answers 20 at once by default, and others ask, too.
const AT_ONCE: usize = 6;

/// A server, and how to speak to it.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    url: String,
    /// Of each request: `Basic …`, `Bearer …`.
    authorization: Option<String>,
}

/// Why a question has no answer, in words.
pub type Failure = String;

/// The moments of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    At(Stamp),
    /// From, to, and the time between two values.
    Range(Stamp, Stamp, Duration),
}

impl Client {
    /// # Errors
    /// In words: the URL is none, or a file that the configuration names cannot be used.
    pub fn new(url: &str, config: &HttpConfig) -> Result<Client, String> {
        let shown = mask::shown(url).into_owned();
        let uri: ureq::http::Uri = url.parse().map_err(|_| format!("{shown:?} is no URL, expected one such as http://prometheus:9090"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(format!("{shown:?}: expected a URL such as http://prometheus:9090"));
        }
        if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(
                "the URL holds a password, which others can read in the list of processes; put it into --prometheus.config.file".into()
            );
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(PATIENCE + Duration::from_secs(1)))
            .timeout_connect(Some(TO_CONNECT))
            .http_status_as_error(false)
            .user_agent(concat!("nccl-top/", env!("CARGO_PKG_VERSION")))
            .max_idle_connections(AT_ONCE)
            .max_idle_connections_per_host(AT_ONCE)
            .tls_config(tls(config)?)
            .build()
            .new_agent();
        Ok(Client { agent, url: url.trim_end_matches('/').to_owned(), authorization: config.authorization()? })
    }

    /// The server, as it may be shown.
    pub fn shown_url(&self) -> String {
        mask::shown(&self.url).into_owned()
    }

    /// Asks one question.
    ///
    /// # Errors
    /// In words: why there is no answer.
    pub fn ask(&self, promql: &str, when: When) -> Result<Answer, Failure> {
        let seconds = |at: Stamp| format!("{:.3}", at.0 as f64 / 1e9);
        let timeout = format!("{}s", PATIENCE.as_secs());
        let mut form = vec![("query", promql.to_owned()), ("timeout", timeout)];
        let path = match when {
            When::At(at) => {
                form.push(("time", seconds(at)));
                "query"
            }
            When::Range(from, to, step) => {
                form.extend([("start", seconds(from)), ("end", seconds(to)), ("step", format!("{}", step.as_secs_f64()))]);
                "query_range"
            }
        };
        let mut request = self.agent.post(format!("{}/api/v1/{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let response = request.send_form(form).map_err(|err| self.why(&err))?;
        let status = response.status();
        let mut body = Vec::new();
        let mut reader = response.into_body().into_with_config().limit(u64::MAX).reader().take(MOST_BYTES + 1);
        let read = reader.read_to_end(&mut body);
        if body.len() as u64 > MOST_BYTES {
            return Err(format!("the answer is larger than {} MiB; ask for less with --match", MOST_BYTES >> 20));
        }
        if !status.is_success() {
            // The API gives a reason as JSON also with a failure; a proxy in front of it gives a page.
            let reason = Answer::parse(&body).err().filter(|_| body.starts_with(b"{")).unwrap_or_else(|| beginning(&body));
            return Err(refused(status, &reason));
        }
        read.map_err(|err| format!("the answer breaks off after {} bytes: {}", body.len(), words(&err.to_string())))?;
        Answer::parse(&body)
    }

    /// Why there was no answer at all.
    fn why(&self, err: &ureq::Error) -> String {
        match err {
            ureq::Error::Timeout(_) => format!("no answer within {} s", PATIENCE.as_secs()),
            ureq::Error::HostNotFound => "there is no host of that name".into(),
            ureq::Error::Io(err) if err.to_string().contains("UnknownIssuer") => {
                "no connection: nobody that is trusted has signed the server's certificate; tls_config in --prometheus.config.file names a ca_file".into()
            }
            ureq::Error::Io(err) => {
                // A server that wants a certificate ends the connection, and often no reason arrives.
                let may_want_one = self.url.starts_with("https") && matches!(err.kind(), BrokenPipe | ConnectionReset | ConnectionAborted | UnexpectedEof);
                let hint = if may_want_one { "; does the server want a certificate (cert_file and key_file of tls_config)?" } else { "" };
                format!("no connection: {}{hint}", crate::base::words::io_words(err))
            }
            other => words(&other.to_string()),
        }
    }

    /// Asks several questions at once, and gives the answers in their order.
    pub fn ask_all(&self, questions: &[(String, When)]) -> Vec<Result<Answer, Failure>> {
        let next = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((promql, when)) = questions.get(at) else { return done };
                done.push((at, self.ask(promql, *when)));
            }
        };
        let mut answers: Vec<Result<Answer, Failure>> = questions.iter().map(|_| Err("it was not asked".into())).collect();
        std::thread::scope(|scope| {
            let start = |_| std::thread::Builder::new().name("ask".into()).stack_size(512 << 10).spawn_scoped(scope, work);
            let threads: Vec<_> = (0..AT_ONCE.min(questions.len())).map(start).collect();
            for done in threads.into_iter().filter_map(|thread| thread.ok()?.join().ok()) {
                done.into_iter().for_each(|(at, answer)| answers[at] = answer);
            }
        });
        answers
    }
}

fn refused(status: StatusCode, reason: &str) -> String {
    let name = status.canonical_reason().unwrap_or("");
    let hint = match status.as_u16() {
        401 | 403 => "; --prometheus.config.file FILE gives a password or a token",
        404 => "; is the URL that of the server's root, without /api/v1?",
        405 => "; is it a Prometheus?",
        _ => "",
    };
    format!("the server answers {} {name}: {reason}{hint}", status.as_u16())
}

fn tls(config: &HttpConfig) -> Result<TlsConfig, String> {
    let mut tls = TlsConfig::builder().disable_verification(config.insecure_skip_verify);
    if let Some(file) = &config.ca_file {
        let (certificates, _) = pem(file)?;
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
    }
    if let (Some(certificate), Some(key)) = (&config.cert_file, &config.key_file) {
        let (chain, _) = pem(certificate)?;
        let key = pem(key)?.1.ok_or_else(|| format!("{}: no private key in it", key.display()))?;
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(tls.build())
}

/// The certificates and the key of a file.
fn pem(path: &std::path::Path) -> Result<(Vec<Certificate<'static>>, Option<PrivateKey<'static>>), String> {
    let text = crate::base::file::read_text(path, 4 << 20).map_err(|why| format!("{}: {why}", path.display()))?;
    let (mut certificates, mut key) = (Vec::new(), None);
    for item in parse_pem(text.as_bytes()) {
        match item.map_err(|err| format!("{}: {err}", path.display()))? {
            PemItem::Certificate(certificate) => certificates.push(certificate),
            PemItem::PrivateKey(found) => key = Some(found),
            _ => {}
        }
    }
    if certificates.is_empty() && key.is_none() {
        return Err(format!("{}: neither a certificate nor a key in PEM form", path.display()));
    }
    Ok((certificates, key))
}
