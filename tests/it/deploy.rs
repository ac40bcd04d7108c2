//! The files below `assets/deploy`, as far as they can be judged without the programs that read them; `assets/deploy/check` asks those.

use nccl_top::export::metrics::METRICS;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/deploy")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(deploy().join(path)).unwrap()
}

fn dashboards() -> Vec<(&'static str, Value)> {
    ["grafana/fleet.json", "grafana/job.json"].map(|path| (path, serde_json::from_str(&read(path)).unwrap())).into()
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().unwrap()
}

fn expressions(panel: &Value) -> Vec<&str> {
    panel["targets"].as_array().into_iter().flatten().map(|target| target["expr"].as_str().unwrap_or("")).collect()
}

/// All names of metrics and recorded series in a text.
fn names(text: &str) -> BTreeSet<&str> {
    let name = Regex::new(r"[a-z_:]*\bnccltop_[a-z0-9_]+(:[a-z0-9_]+)?|[a-z_]+:nccltop_[a-z0-9_]+:[a-z0-9_]+").unwrap();
    name.find_iter(text).map(|found| found.as_str()).collect()
}

/// What follows a key, in all lines that have it.
fn values<'a>(text: &'a str, key: &str) -> BTreeSet<&'a str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("- ").unwrap_or(line.trim()).strip_prefix(key)).map(str::trim).collect()
}

#[test]
fn every_name_is_exported_or_recorded() {
    let recording = [read("prometheus/rules.yml"), read("prometheus/alerts.yml")].concat();
    let mut known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    known.extend(values(&recording, "record:"));
    for path in ["prometheus/rules.yml", "prometheus/alerts.yml", "prometheus/tests.yml", "grafana/fleet.json", "grafana/job.json"] {
        let text = read(path);
        let unknown: Vec<_> = names(&text).into_iter().filter(|name| !known.contains(name)).collect();
        assert!(!names(&text).is_empty() && unknown.is_empty(), "{path}: neither exported nor recorded: {unknown:?}");
    }
}

#[test]
fn every_alert_has_a_test_and_what_alertmanager_names_exists() {
    let rules = read("prometheus/alerts.yml");
    let alerts = values(&rules, "alert:");
    let tests = read("prometheus/tests.yml");
    for alert in &alerts {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "prometheus/tests.yml: no test in which {alert} fires");
    }
    let manager = read("alertmanager.example.yml");
    let pattern = Regex::new(r#"alertname=~?"NcclTop(?:\(([A-Za-z|]+)\)|([A-Za-z]+))""#).unwrap();
    for named in pattern.captures_iter(&manager) {
        for one in named.get(1).or(named.get(2)).unwrap().as_str().split('|') {
            assert!(alerts.contains(format!("NcclTop{one}").as_str()), "alertmanager.example.yml: there is no alert NcclTop{one}");
        }
    }
}

#[test]
fn panels_have_ids_of_their_own_and_do_not_overlap() {
    for (path, dashboard) in dashboards() {
        let mut ids = BTreeSet::new();
        let mut taken = BTreeSet::new();
        for panel in panels(&dashboard) {
            let title = &panel["title"];
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{path}: {title}: its id is another panel's, too");
            let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
            assert!(w > 0 && h > 0 && x + w <= 24, "{path}: {title}: wider than the screen");
            for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
                assert!(taken.insert(cell), "{path}: {title}: overlaps another panel");
            }
        }
    }
}

#[test]
fn panels_ask_the_chosen_data_source_with_declared_variables() {
    let variable = Regex::new(r"\$\{?([a-z_]+)").unwrap();
    for (path, dashboard) in dashboards() {
        assert!(dashboard["id"].is_null() && dashboard["uid"].is_string(), "{path}: an id of one Grafana, or no uid");
        let mut declared: BTreeSet<&str> =
            dashboard["templating"]["list"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert!(declared.contains("datasource"));
        declared.extend(["__rate_interval", "__value", "__url_time_range"]);
        for panel in panels(&dashboard).iter().filter(|panel| panel["type"] != "row") {
            let title = &panel["title"];
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{path}: {title}");
            assert!(!expressions(panel).is_empty(), "{path}: {title}: asks nothing");
            for (target, expr) in panel["targets"].as_array().unwrap().iter().zip(expressions(panel)) {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{path}: {title}");
                assert!(!expr.is_empty(), "{path}: {title}: a target without expr");
            }
            for found in variable.captures_iter(&panel.to_string()) {
                assert!(declared.contains(&found[1]), "{path}: {title}: variable {} is not declared", &found[1]);
            }
        }
    }
}

/// One port everywhere: in the unit's example, in Kubernetes, in the image.
#[test]
fn all_files_name_one_port() {
    let port = Regex::new(r"\b10[0-9]{3}\b").unwrap();
    let files = ["k8s/daemonset.yaml", "k8s/podmonitor.yaml", "systemd/nccl-top-export.service", "Dockerfile"];
    let texts = files.map(read);
    let ports: BTreeSet<&str> = texts.iter().flat_map(|text| port.find_iter(text)).map(|found| found.as_str()).collect();
    assert_eq!(ports.len(), 1, "{ports:?}");
}
