//! Prometheus's text formats: OpenMetrics 1.0, and the classic one (0.0.4) that node_exporter's textfile directory and `promtool check
//! metrics` read. They differ in the names of counters, in what is escaped, in the unit of time stamps, and in the end.

use super::metrics::{Family, Kind};
use crate::base::time::Stamp;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Classic,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// What the header `Accept` of a request prefers; the classic format where it names neither.
    pub fn accepted(accept: &str) -> Format {
        let quality = |wanted: &str| {
            let ranges = accept.split(',').map(str::trim).filter(|range| range.split(';').next().is_some_and(|t| t.trim() == wanted));
            let q = |range: &str| range.split(';').find_map(|p| p.trim().strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0);
            ranges.map(q).fold(0.0, f64::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Format::OpenMetrics } else { Format::Classic }
    }
}

/// The whole page.
pub fn write(families: &[Family], format: Format) -> String {
    let mut out = String::with_capacity(64 << 10);
    for Family { metric, samples } in families.iter().filter(|family| !family.samples.is_empty()) {
        head(&mut out, metric.name, metric.kind, metric.help, format);
        for (labels, value) in samples {
            sample(&mut out, metric.name, metric.labels.iter().copied().zip(labels.iter().map(String::as_str)), *value, None);
        }
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

/// What stands above the samples of a metric.
pub fn head(out: &mut String, name: &str, kind: Kind, help: &str, format: Format) {
    let (name, kind) = match (kind, format) {
        (Kind::Gauge, _) => (name, "gauge"),
        (Kind::Counter, Format::Classic) => (name, "counter"),
        (Kind::Counter, Format::OpenMetrics) => (name.strip_suffix("_total").unwrap_or(name), "counter"),
    };
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// One line. A label without a value is the same as none; `at` is written in seconds, as OpenMetrics has it.
pub fn sample<'a>(out: &mut String, name: &str, labels: impl Iterator<Item = (&'a str, &'a str)>, value: f64, at: Option<Stamp>) {
    out.push_str(name);
    let mut before = '{';
    for (name, value) in labels.filter(|(_, value)| !value.is_empty()) {
        out.push(before);
        before = ',';
        out.push_str(name);
        out.push_str("=\"");
        escape(out, value);
        out.push('"');
    }
    if before == ',' {
        out.push('}');
    }
    let _ = write!(out, " {value}");
    if let Some(at) = at {
        let _ = write!(out, " {}.{:03}", at.0.div_euclid(1_000_000_000), at.0.rem_euclid(1_000_000_000) / 1_000_000);
    }
    out.push('\n');
}

/// Both formats escape these in the value of a label.
fn escape(out: &mut String, value: &str) {
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            _ => out.push(c),
        }
    }
}
