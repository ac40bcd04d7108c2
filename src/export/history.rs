//! A recording as samples with time stamps, in OpenMetrics: what `promtool tsdb create-blocks-from openmetrics` makes blocks of, so that a
//! Prometheus shows it as if it had scraped it.

use super::metrics::{self, Kind};
use super::own::Own;
use super::text::{self, Format};
use crate::diagnosis::session::Session;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The samples of each metric, in the order of time.
pub struct History {
    labels: Vec<(String, String)>,
    own: Own,
    /// Head and samples, by the place in the table.
    of_metric: Vec<(String, String)>,
    /// What Prometheus notes of each scrape.
    up: String,
}

impl History {
    /// Each sample is given these labels, too.
    pub fn new(labels: Vec<(String, String)>) -> History {
        History { labels, own: Own::unknown(), of_metric: Vec::new(), up: String::new() }
    }

    /// The session as it is at its own moment.
    pub fn add(&mut self, session: &Session) {
        let now = session.model.now;
        let families = metrics::read(session, &self.own);
        self.of_metric.resize(families.len(), (String::new(), String::new()));
        for (family, (head, samples)) in families.iter().zip(&mut self.of_metric) {
            if head.is_empty() {
                text::head(head, family.metric.name, family.metric.kind, family.metric.help, Format::OpenMetrics);
            }
            for (labels, value) in &family.samples {
                let own = family.metric.labels.iter().copied().zip(labels.iter().map(String::as_str));
                text::sample(samples, family.metric.name, own.chain(pairs(&self.labels)), *value, Some(now));
            }
        }
        text::sample(&mut self.up, "up", pairs(&self.labels), 1.0, Some(now));
    }

    pub fn is_empty(&self) -> bool {
        self.up.is_empty()
    }

    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        for (head, samples) in self.of_metric.iter().filter(|(_, samples)| !samples.is_empty()) {
            to.write_all(head.as_bytes())?;
            to.write_all(samples.as_bytes())?;
        }
        let mut head = String::new();
        text::head(&mut head, "up", Kind::Gauge, "Whether the node answered.", Format::OpenMetrics);
        let _ = writeln!(head, "{}# EOF", self.up);
        to.write_all(head.as_bytes())?;
        to.flush()
    }
}

fn pairs(labels: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}
