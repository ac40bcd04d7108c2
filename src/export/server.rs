//! The server: GET /metrics and /-/healthy, and nothing else. It has a thread of its own and hands out the page that the loop has left, so
//! that neither a storm of scrapes nor a client that does not read costs the loop anything.

use super::Shelf;
use super::text::Format;
use super::web_config::WebConfig;
use crate::base::words::io_words;
use crate::edge::diagnostics::{complain, note, print};
use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

/// Connections at once. More wait in the kernel's queue.
const CONNECTIONS: usize = 8;
/// hyper takes no less. A longer header is refused with 431.
const HEADER_BYTES: usize = 8 << 10;
/// For the handshake, for the header, and for all of a connection: a scrape takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(5);
/// To check a password takes 0.1 s of CPU by design: strangers may make this program do so once in this time.
const BETWEEN_HASHES: Duration = Duration::from_secs(1);
/// Passwords that were right are remembered, as many as there are users at most, and no more than these.
const MOST_KNOWN: usize = 64;
/// What a user without a password is compared with, so that it takes as long.
const NOBODY: &str = "$2b$10$3UGKivxtLJEWn20o/kxZMe4I7IVJOqvi.xSoBSPyqhSDMI9mMlqWG";

/// Listens and serves until the program ends.
///
/// # Errors
/// If nothing can listen there, or the config file is not usable.
pub fn start(listen: &str, config: Option<&Path>, shelf: Shelf, tell: fn(&str)) -> Result<()> {
    let web = config.map(WebConfig::load).transpose().map_err(|why| anyhow::anyhow!("--web.config.file {why}"))?;
    let listener = bind(listen).map_err(|why| anyhow::anyhow!("--web.listen-address {listen}: {why}"))?;
    listener.set_nonblocking(true).context("the server's socket")?;
    let address = listener.local_addr().context("the server's socket")?;
    let is_guarded = web.as_ref().is_some_and(|web| !web.users.is_empty() || web.tls.is_some());
    if !address.ip().is_loopback() && !is_guarded {
        complain(&format!("{address}: whoever reaches it may read all metrics; --web.config.file asks for a password or a certificate"));
    }
    let scheme = if web.as_ref().is_some_and(|web| web.tls.is_some()) { "https" } else { "http" };
    print(&format!("metrics at {scheme}://{address}/metrics"));
    let door = Door { tell, path: config.map(Path::to_path_buf), web: Mutex::new(Arc::new(web.unwrap_or_default())) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the server's loop")?;
    let serve = move || runtime.block_on(serve(listener, shelf, door));
    std::thread::Builder::new().name("export".into()).stack_size(512 << 10).spawn(serve).context("the server's thread")?;
    Ok(())
}

/// `HOST:PORT`, `:PORT` for all interfaces, `[::1]:PORT`.
fn bind(listen: &str) -> Result<TcpListener, String> {
    let words = |err: io::Error| match err.kind() {
        io::ErrorKind::AddrInUse => "the port is taken; name another".to_owned(),
        io::ErrorKind::PermissionDenied => "ports below 1024 need more rights; name a higher one".to_owned(),
        io::ErrorKind::InvalidInput => "expected HOST:PORT".to_owned(),
        _ => io_words(&err),
    };
    let addresses: Vec<SocketAddr> = match listen.strip_prefix(':') {
        Some(port) => {
            let port: u16 = port.parse().map_err(|_| "expected :PORT".to_owned())?;
            vec![([0u16; 8], port).into(), ([0, 0, 0, 0], port).into()]
        }
        None => listen.to_socket_addrs().map_err(words)?.collect(),
    };
    TcpListener::bind(addresses.as_slice()).map_err(words)
}

/// Who may come in: as the config file says, which may change.
struct Door {
    tell: fn(&str),
    path: Option<PathBuf>,
    web: Mutex<Arc<WebConfig>>,
}

impl Door {
    /// What the file says now. One that became wrong is reported, and the one before holds.
    fn web(&self) -> Arc<WebConfig> {
        let mut web = self.web.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = self.path.as_deref().filter(|_| web.has_changed()) {
            match WebConfig::load(path) {
                Ok(new) => *web = Arc::new(new),
                Err(why) => {
                    (self.tell)(&format!("--web.config.file {why}; what it said before holds"));
                    *web = Arc::new(web.as_ref().clone().as_of_now());
                }
            }
        }
        web.clone()
    }
}

/// Passwords that were right, by a hash that nobody outside of this process can compute, and when the next one may be checked.
struct Known {
    keys: RandomState,
    right: HashSet<u64>,
    next: Instant,
}

struct Shared {
    shelf: Shelf,
    known: Mutex<Known>,
}

async fn serve(listener: TcpListener, shelf: Shelf, door: Door) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(err) => return (door.tell)(&format!("the server ends: {}", io_words(&err))),
    };
    let known = Known { keys: RandomState::new(), right: HashSet::new(), next: Instant::now() };
    let shared = Arc::new(Shared { shelf, known: Mutex::new(known) });
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            // Out of descriptors, for example.
            Err(err) => {
                note(format_args!("the server: {}", io_words(&err)));
                sleep(Duration::from_millis(200)).await;
                continue;
            }
        };
        let (web, shared) = (door.web(), shared.clone());
        tokio::spawn(async move {
            let served = async {
                match web.tls.clone() {
                    None => speak(stream, web, shared).await,
                    // What is wrong with a certificate the client learns by an alert.
                    Some(tls) => match TlsAcceptor::from(tls).accept(stream).await {
                        Ok(stream) => speak(stream, web, shared).await,
                        Err(err) => note(format_args!("the server: TLS: {err}")),
                    },
                }
            };
            let _ = timeout(DEADLINE, served).await;
            drop(slot);
        });
    }
}

/// One request, and the end: whoever keeps a connection would keep others out.
async fn speak(stream: impl AsyncRead + AsyncWrite + Unpin, web: Arc<WebConfig>, shared: Arc<Shared>) {
    let answer = service_fn(move |request| {
        let (web, shared) = (web.clone(), shared.clone());
        async move { Ok::<_, Infallible>(answer(&request, &web, &shared).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(DEADLINE).max_buf_size(HEADER_BYTES).keep_alive(false);
    if let Err(err) = http.serve_connection(TokioIo::new(stream), answer).await {
        note(format_args!("the server: {err}"));
    }
}

async fn answer(request: &Request<Incoming>, web: &WebConfig, shared: &Shared) -> Response<Full<Bytes>> {
    if !web.users.is_empty() && !is_allowed(request, web, shared).await {
        let mut refused = plain(StatusCode::UNAUTHORIZED, "Unauthorized\n");
        refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
        return refused;
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    match request.uri().path() {
        "/-/healthy" => plain(StatusCode::OK, "OK\n"),
        "/metrics" => metrics(request, shared),
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics and /-/healthy\n"),
    }
}

fn metrics(request: &Request<Incoming>, shared: &Shared) -> Response<Full<Bytes>> {
    let page = shared.shelf.page();
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let format = Format::accepted(accept);
    let body = match format {
        Format::OpenMetrics => page.open_metrics,
        Format::Classic => page.classic,
    };
    if body.is_empty() {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "nothing was seen yet\n");
    }
    let mut response = Response::new(Full::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    response
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Whether name and password are those of a user.
async fn is_allowed(request: &Request<Incoming>, web: &WebConfig, shared: &Shared) -> bool {
    let given = || {
        let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, value) = value.split_once(' ')?;
        let decoded = scheme.eq_ignore_ascii_case("basic").then(|| STANDARD.decode(value.trim()).ok())??;
        let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
        Some((user.to_owned(), password.to_owned()))
    };
    let Some((user, password)) = given() else { return false };
    let hash = web.users.get(&user);
    loop {
        let next = {
            let mut known = shared.known.lock().unwrap_or_else(PoisonError::into_inner);
            let key = known.keys.hash_one((&user, &password, hash));
            if known.right.contains(&key) {
                return true;
            }
            let next = known.next;
            if next <= Instant::now() {
                let is_right = bcrypt::verify(&password, hash.map_or(NOBODY, String::as_str)).unwrap_or(false) && hash.is_some();
                if is_right {
                    if known.right.len() >= MOST_KNOWN {
                        known.right.clear();
                    }
                    known.right.insert(key);
                } else {
                    // Only strangers have to wait for one another.
                    known.next = Instant::now() + BETWEEN_HASHES;
                }
                return is_right;
            }
            next
        };
        sleep_until(next).await;
    }
}
