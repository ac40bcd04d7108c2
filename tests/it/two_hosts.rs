//! Two network namespaces, each with an exporter of its own, scraped by a real Prometheus as two hosts.
//!
//! `sudo env PATH="$PATH" cargo test --test it two_hosts:: -- --ignored --nocapture`, a quarter of a minute; needs `ip` (iproute2) and prometheus.

#![allow(clippy::print_stdout)]

use crate::support::prometheus::{Prometheus, is_installed};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// A namespace that this one reaches over an interface, as another host; gone with this.
struct Host {
    space: String,
    address: String,
    exporter: Option<Child>,
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "ip {arguments}: {status:?}; it needs root and iproute2");
}

impl Host {
    fn new(no: u8) -> Host {
        let host = Host { space: format!("nccltop-host-{}-{no}", std::process::id()), address: format!("10.78.{no}.2"), exporter: None };
        let (space, here) = (&host.space, format!("nt{}-{no}", std::process::id() % 100_000));
        ip(&format!("netns add {space}"));
        ip(&format!("link add {here} type veth peer name eth0 netns {space}"));
        ip(&format!("address add 10.78.{no}.1/24 dev {here}"));
        ip(&format!("link set {here} up"));
        ip(&format!("-n {space} address add {}/24 dev eth0", host.address));
        ip(&format!("-n {space} link set eth0 up"));
        ip(&format!("-n {space} link set lo up"));
        host
    }

    fn export(&mut self, tape: &str) {
        let tape = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes").join(tape);
        let child = Command::new("ip")
            .args(["netns", "exec", &self.space, env!("CARGO_BIN_EXE_nccl-top"), "export", "--speed", "max"])
            .args(["--web.listen-address", "0.0.0.0:10828", "--replay"])
            .arg(tape)
            .stderr(Stdio::null())
            .spawn();
        self.exporter = Some(child.unwrap());
    }

    fn end(&mut self) {
        if let Some(mut child) = self.exporter.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.end();
        let _ = Command::new("ip").args(["netns", "del", &self.space]).status();
    }
}

fn fleet(prometheus: &Prometheus) -> Option<Value> {
    let out = Command::new(env!("CARGO_BIN_EXE_nccl-top")).args(["fleet", "--json", "--prometheus", &prometheus.url]).output().unwrap();
    serde_json::from_slice(&out.stdout).ok()
}

fn until(prometheus: &Prometheus, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let document = fleet(prometheus);
        if let Some(document) = document.as_ref().filter(|document| is_so(document)) {
            println!("{what}: after {:.1} s", began.elapsed().as_secs_f64());
            return document.clone();
        }
        assert!(began.elapsed() < PATIENCE, "{what}: {document:#?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[test]
#[ignore = "needs root, iproute2 and prometheus: sudo env PATH=\"$PATH\" cargo test --test it two_hosts:: -- --ignored --nocapture"]
fn two_network_namespaces_are_two_hosts() {
    assert!(is_installed());
    let mut hosts = [Host::new(1), Host::new(2)];
    hosts[0].export("hang.jsonl.gz");
    hosts[1].export("none.jsonl.gz");
    let targets: Vec<String> = hosts.iter().map(|host| format!("\"{}:10828\"", host.address)).collect();
    let prometheus = Prometheus::scraping(&format!(
        "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\nscrape_configs:\n  - job_name: nccl-top\n    static_configs: [{{ targets: [{}] }}]\n    \
         relabel_configs: [{{ source_labels: [__address__], regex: \"([^:]+):.*\", target_label: instance }}]\n",
        targets.join(", ")
    ));
    let document = until(&prometheus, "both answer, and one names its rank", |document| {
        document["nodes"]["answering"] == 2
            && document["jobs"].as_array().is_some_and(|jobs| jobs.len() == 2 && jobs[0]["state"] == "stuck")
    });
    let culprit = &document["jobs"][0]["culprit"];
    assert_eq!(
        (&culprit["rule"], &culprit["ranks"][0], &culprit["nodes"][0]),
        (&"hang-rank-absent".into(), &3.into(), &"10.78.1.2".into())
    );
    assert_eq!(document["jobs"][1]["culprit"], Value::Null, "{document:#}");
    hosts[1].end();
    let document = until(&prometheus, "one is gone", |document| document["nodes"]["answering"] == 1);
    assert_eq!(document["nodes"]["silent"][0], "10.78.2.2");
}
