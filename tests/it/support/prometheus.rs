//! A real Prometheus over blocks made of text, where the programs are installed (Debian's package `prometheus`).

use super::fleet_world::World;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Prometheus {
    child: Child,
    pub url: String,
    _dir: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether the programs are there; prints why a test does nothing where they are not.
#[allow(clippy::print_stdout)]
pub fn is_installed() -> bool {
    let found = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let all = found("prometheus") && found("promtool");
    if !all {
        println!("skipped: prometheus and promtool are not installed (apt-get install prometheus)");
    }
    all
}

impl Prometheus {
    pub fn of(world: &World) -> Prometheus {
        Prometheus::of_text(&world.open_metrics())
    }

    /// One that knows what stands in OpenMetrics text with time stamps.
    pub fn of_text(open_metrics: &str) -> Prometheus {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("world.txt");
        std::fs::write(&text, open_metrics).unwrap();
        let data = dir.path().join("data");
        let made =
            Command::new("promtool").args(["tsdb", "create-blocks-from", "openmetrics", "--quiet"]).args([&text, &data]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::remove_file(&text).unwrap();
        // Blocks made of text have no marks of staleness: what a node no longer exports ends by the lookback.
        Prometheus::start(dir, &data, "global: {}\n", &["--query.lookback-delta=20s", "--storage.tsdb.retention.time=100y"])
    }

    /// One that scrapes, as its configuration says.
    pub fn scraping(config: &str) -> Prometheus {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        Prometheus::start(dir, &data, config, &[])
    }

    fn start(dir: tempfile::TempDir, data: &Path, text: &str, args: &[&str]) -> Prometheus {
        let config = dir.path().join("prometheus.yml");
        std::fs::write(&config, text).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.display()))
            .args(args)
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let prometheus = Prometheus { child, url: format!("http://127.0.0.1:{port}"), _dir: dir };
        let until = Instant::now() + super::screen::PATIENCE;
        // It listens before it has opened its blocks.
        while !is_ready(port) {
            assert!(Instant::now() < until, "prometheus does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        prometheus
    }
}

fn is_ready(port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
}
