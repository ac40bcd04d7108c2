//! The server of `nccl-top export`, through real sockets: what it serves, whom it lets in, and what hostile clients cannot do.

use crate::support::screen::PATIENCE;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};

/// An exporter of a recording, and what it prints on standard error.
struct Exporter {
    child: Child,
    said: Receiver<String>,
    address: String,
}

impl Exporter {
    fn start(dir: &Path, args: &[&str]) -> Exporter {
        let tape = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/hang.jsonl.gz");
        let mut child = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
            .args(["export", "--speed", "max", "--web.listen-address", "127.0.0.1:0", "--replay"])
            .arg(tape)
            .args(args)
            .current_dir(dir)
            .env("HOME", dir)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        let (tx, said) = channel();
        std::thread::spawn(move || lines.lines().map_while(Result::ok).try_for_each(|line| tx.send(line)));
        let mut exporter = Exporter { child, said, address: String::new() };
        let line = exporter.says("metrics at ");
        exporter.address = line.split("://").nth(1).unwrap().strip_suffix("/metrics").unwrap().to_owned();
        exporter.says("that was all of it");
        exporter
    }

    /// The next line that has this in it.
    fn says(&self, what: &str) -> String {
        loop {
            let line = self.said.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("it never says {what}"));
            if line.contains(what) {
                return line;
            }
        }
    }

    fn connect(&self) -> TcpStream {
        connect(&self.address)
    }

    fn get(&self, path: &str, headers: &str) -> (u16, String) {
        talk(self.connect(), &format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n"))
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The status and the whole answer. A connection that is cut is status 0.
fn talk(mut stream: impl Read + Write, request: &str) -> (u16, String) {
    let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.flush());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0), answer)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/web").join(name)
}

#[test]
fn it_serves_metrics_and_health_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(dir.path(), &[]);
    let (status, classic) = exporter.get("/metrics", "");
    assert!(status == 200 && classic.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{classic}");
    assert!(classic.contains("rule=\"hang-rank-absent\"") && !classic.contains("# EOF"));
    let (status, open) = exporter.get("/metrics?x=1", "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    assert!(status == 200 && open.contains("application/openmetrics-text; version=1.0.0") && open.ends_with("# EOF\n"));
    let healthy = exporter.get("/-/healthy", "");
    assert!(healthy.0 == 200 && healthy.1.ends_with("OK\n"));
    for path in ["/", "/metrics/", "/../etc/passwd", "/debug/pprof", "/-/reload"] {
        assert_eq!(exporter.get(path, "").0, 404, "{path}");
    }
    assert_eq!(talk(exporter.connect(), "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").0, 405);
    let long = format!("X: {}\r\n", "a".repeat(9 << 10));
    assert_eq!(exporter.get("/metrics", &long).0, 431);
    assert_eq!(talk(exporter.connect(), "\u{16}\u{3}\u{1}\r\n\r\n").0, 400);
    // One request, and the end: the second gets no answer.
    let two = "GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2);
    assert_eq!(talk(exporter.connect(), &two).1.matches("200 OK").count(), 1);
}

#[test]
fn two_hundred_scrapes_at_once_and_clients_that_say_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let exporter = Exporter::start(dir.path(), &[]);
    // As many as it takes, which it gives up in a while.
    let silent: Vec<TcpStream> = (0..16)
        .map(|no| {
            let mut stream = exporter.connect();
            stream.write_all(if no % 2 == 0 { b"GET /metrics HTTP/1.1\r\nHost" } else { b"" }).unwrap();
            stream
        })
        .collect();
    let scrapes: Vec<_> = (0..200)
        .map(|_| {
            let address = exporter.address.clone();
            // On a machine that is busy with other tests an answer may take longer than one client is given: then it asks again, as
            // Prometheus does.
            let ask = move |_| talk(connect(&address), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").0;
            std::thread::spawn(move || (0..3).map(ask).find(|status| *status != 0).unwrap_or(0))
        })
        .collect();
    let answers: Vec<u16> = scrapes.into_iter().map(|scrape| scrape.join().unwrap()).collect();
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    drop(silent);
    // Who has sent a request and does not read the answer holds nobody up either.
    let deaf: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = exporter.connect();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            stream
        })
        .collect();
    assert_eq!(exporter.get("/metrics", "").0, 200);
    drop(deaf);
}

#[test]
fn who_has_no_password_is_not_let_in_and_a_changed_file_counts() {
    let dir = tempfile::tempdir().unwrap();
    let users = |users: &[(&str, &str)]| {
        let lines = users.iter().map(|(name, password)| format!("  {name}: {}\n", bcrypt::hash(password, 4).unwrap()));
        let text = format!("basic_auth_users:\n{}", lines.collect::<String>());
        std::fs::write(dir.path().join("new.yml"), text).unwrap();
        std::fs::rename(dir.path().join("new.yml"), dir.path().join("web.yml")).unwrap();
    };
    users(&[("prometheus", "right")]);
    let exporter = Exporter::start(dir.path(), &["--web.config.file", "web.yml"]);
    let encoded = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
    let with = |text: &str| exporter.get("/metrics", &format!("Authorization: Basic {}\r\n", encoded(text))).0;
    let (status, answer) = exporter.get("/metrics", "");
    assert!(status == 401 && answer.contains("www-authenticate: Basic") && !answer.contains("nccltop_"));
    assert_eq!(exporter.get("/-/healthy", "").0, 401);
    assert_eq!([with("prometheus:right"), with("prometheus:wrong"), with("prometheus:right")], [200, 401, 200]);
    assert_eq!([with("nobody:right"), with("prometheus"), with("")], [401; 3]);
    assert_eq!(exporter.get("/metrics", "Authorization: Bearer abc\r\n").0, 401);
    assert_eq!(exporter.get("/metrics", "Authorization: Basic \u{7f}\u{80}!\r\n").0 / 100, 4);
    users(&[("other", "secret")]);
    assert_eq!([with("other:secret"), with("prometheus:right")], [200, 401]);
    std::fs::write(dir.path().join("web.yml"), "basic_auth_users: [").unwrap();
    assert_eq!(with("other:secret"), 200, "what it said before holds");
    assert!(exporter.says("web.yml").contains("what it said before holds"));
}

/// A client that trusts the test's authority, with this certificate of its own.
fn client(own: Option<&str>) -> Arc<ClientConfig> {
    let certificates = |name: &str| CertificateDer::pem_file_iter(fixture(name)).unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let mut roots = RootCertStore::empty();
    certificates("ca.pem").into_iter().for_each(|certificate| roots.add(certificate).unwrap());
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_file(fixture(&format!("{own}.key"))).unwrap();
            builder.with_client_auth_cert(certificates(&format!("{own}.pem")), key).unwrap()
        }
    })
}

#[test]
fn tls_lets_in_whom_the_authority_has_signed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["server.pem", "server.key", "ca.pem"] {
        std::fs::copy(fixture(name), dir.path().join(name)).unwrap();
    }
    let text = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  min_version: TLS13\n";
    std::fs::write(dir.path().join("web.yml"), text).unwrap();
    let exporter = Exporter::start(dir.path(), &["--web.config.file", "web.yml"]);
    let get = |own: Option<&str>| {
        let session = ClientConnection::new(client(own), ServerName::try_from("127.0.0.1").unwrap()).unwrap();
        talk(StreamOwned::new(session, exporter.connect()), "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    };
    for turn in 0..2 {
        let (status, page) = get(Some("client"));
        assert!(status == 200 && page.contains("nccltop_finding_open"), "turn {turn}: {page}");
        assert_eq!([get(None).0, get(Some("stranger")).0], [0, 0]);
        assert_eq!(exporter.get("/metrics", "").0, 0, "without TLS");
    }
    // Whoever trusts another authority does not trust this server.
    let mut strange = RootCertStore::empty();
    strange.add(CertificateDer::from_pem_file(fixture("stranger.pem")).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_root_certificates(strange).with_no_client_auth());
    let session = ClientConnection::new(config, ServerName::try_from("127.0.0.1").unwrap()).unwrap();
    assert_eq!(talk(StreamOwned::new(session, exporter.connect()), "GET /metrics HTTP/1.1\r\n\r\n").0, 0);
}

#[test]
fn a_recording_is_served_as_if_it_happened_now() {
    let dir = tempfile::tempdir().unwrap();
    let page = Exporter::start(dir.path(), &[]).get("/metrics", "").1;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    for name in ["nccltop_job_state_start_timestamp_seconds", "nccltop_job_last_step_timestamp_seconds"] {
        let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {page}"));
        let ago = now - line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        assert!((0.0..3600.0).contains(&ago), "{line}: {ago} s ago");
    }
}

/// The client of the fleet before a server with a certificate: it trusts whom the file names, and nobody else.
#[test]
fn the_fleet_asks_no_server_whose_certificate_it_does_not_trust() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["server.pem", "server.key", "ca.pem", "stranger.pem", "client.pem", "client.key"] {
        std::fs::copy(fixture(name), dir.path().join(name)).unwrap();
    }
    let text = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n";
    std::fs::write(dir.path().join("web.yml"), text).unwrap();
    let exporter = Exporter::start(dir.path(), &["--web.config.file", "web.yml"]);
    let ask = |tls: &str| {
        std::fs::write(dir.path().join("c.yml"), format!("tls_config: {{{tls}}}\n")).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
            .args(["fleet", "--json", "--prometheus", &format!("https://{}", exporter.address), "--prometheus.config.file", "c.yml"])
            .current_dir(dir.path())
            .env("HOME", dir.path())
            .output()
            .unwrap();
        assert_eq!(out.status.code(), Some(2), "{tls}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    const OWN: &str = "cert_file: client.pem, key_file: client.key";
    for tls in [OWN.to_owned(), format!("ca_file: stranger.pem, {OWN}")] {
        let said = ask(&tls);
        assert!(said.contains("signed the server's certificate"), "{tls}: {said}");
    }
    let said = ask("ca_file: ca.pem");
    assert!(said.contains("no connection"), "without a certificate of its own: {said}");
    // It is let in, and finds no Prometheus there.
    let said = ask(&format!("ca_file: ca.pem, {OWN}"));
    assert!(said.contains("405") && said.contains("is it a Prometheus?"), "{said}");
}

#[test]
fn a_config_file_that_is_wrong_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["server.pem", "server.key", "ca.pem", "stranger.key"] {
        std::fs::copy(fixture(name), dir.path().join(name)).unwrap();
    }
    let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
    for (text, says) in [
        ("basic_auth_user:\n  a: b\n", "unknown field `basic_auth_user`"),
        ("basic_auth_users:\n  ann: secret\n", "the password of ann is no bcrypt hash"),
        ("tls_server_config:\n  cert_file: gone.pem\n  key_file: server.key\n", "cert_file: gone.pem: no such file"),
        ("tls_server_config:\n  cert_file: server.key\n  key_file: server.key\n", "no certificate in PEM form"),
        ("tls_server_config:\n  cert_file: server.pem\n  key_file: stranger.key\n", "cert_file and key_file"),
        ("tls_server_config:\n  cert_file: server.pem\n", "key_file is missing"),
        (&format!("{tls}  client_ca_file: ca.pem\n"), "client_auth_type asks for no certificate"),
        (&format!("{tls}  client_auth_type: RequireAnyClientCert\n"), "is not supported"),
        (&format!("{tls}  cipher_suites: [TLS_AES_128_GCM_SHA256]\n"), "are not supported; remove them"),
        (&format!("{tls}  min_version: SSL3\n"), "min_version: \"SSL3\""),
        ("http_server_config:\n  headers:\n    X-Frame-Options: deny\n", "headers is not supported"),
        ("\u{0}", "web.yml"),
    ] {
        std::fs::write(dir.path().join("web.yml"), text).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
            .args(["export", "--web.listen-address", "127.0.0.1:0", "--web.config.file", "web.yml"])
            .current_dir(dir.path())
            .env("HOME", dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{text}");
        assert!(said.contains(says) && said.contains("web.yml"), "{text}: {said}");
    }
    // What is taken here promtool takes, too.
    let good = format!(
        "{tls}  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\nbasic_auth_users:\n  ann: {}\n",
        bcrypt::hash("x", 4).unwrap()
    );
    std::fs::write(dir.path().join("web.yml"), good).unwrap();
    nccl_top::export::web_config::WebConfig::load(&dir.path().join("web.yml")).map_err(|why| panic!("{why}")).ok();
    if let Ok(out) = Command::new("promtool").args(["check", "web-config", "web.yml"]).current_dir(dir.path()).output() {
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}

#[test]
fn bad_addresses_and_a_taken_port_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (args, says) in [
        (&["--web.listen-address", &address][..], "the port is taken; name another"),
        (&["--web.listen-address", "127.0.0.1"], "expected HOST:PORT"),
        (&["--web.listen-address", ":x"], "expected :PORT"),
        (&["--textfile", "nowhere"], "--textfile nowhere: not a directory"),
        (&["--replay", "gone.jsonl"], "gone.jsonl: no such file"),
        (&["--speed", "2"], "--replay"),
        (&["--replay", "x", "--openmetrics-file", "y", "--label", "a-b=c"], "no name of a label"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
        let out = command.arg("export").args(args).current_dir(dir.path()).env("HOME", dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && said.contains(says), "{args:?}: {said}");
    }
}

#[test]
fn the_textfile_is_whole_and_goes_with_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("textfile");
    std::fs::create_dir(&into).unwrap();
    let mut exporter = Exporter::start(dir.path(), &["--textfile", "textfile"]);
    let file = into.join("nccl-top.prom");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("nccltop_finding_open{") && !text.contains("# EOF"));
    let is_plain = |line: &str| line.starts_with('#') || line.rsplit_once(' ').is_some_and(|(_, value)| value.parse::<f64>().is_ok());
    assert!(text.lines().all(is_plain));
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 1, "nothing else is left there");
    assert!(Command::new("kill").args(["-TERM", &exporter.child.id().to_string()]).status().unwrap().success());
    let started = Instant::now();
    while exporter.child.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!file.exists(), "what nobody renews must not be taken for the present");
}

#[test]
fn a_live_node_without_anything_is_exported_beside_watch() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("root/proc")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
        .args(["--sysroot", "root", "watch", "--export=127.0.0.1:0"])
        .current_dir(dir.path())
        .env("HOME", dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(address) = line.strip_prefix("metrics at http://") {
            break address.strip_suffix("/metrics").unwrap().to_owned();
        }
    };
    let started = Instant::now();
    let page = loop {
        let stream = TcpStream::connect(&address).unwrap();
        let (status, page) = talk(&stream, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let _ = stream.shutdown(Shutdown::Both);
        // Until the first second has passed there is nothing to show.
        match status {
            200 if page.contains("nccltop_poll_duration_seconds") => break page,
            200 | 503 => assert!(started.elapsed() < PATIENCE),
            other => panic!("{other}: {page}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(page.contains("process_resident_memory_bytes ") && page.contains("nccltop_build_info{version="));
    assert!(!page.contains("nccltop_job_info"), "no job is there, and none is made up: {page}");
    let _ = child.kill();
    let _ = child.wait();
}
