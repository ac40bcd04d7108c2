//! Ports on the fleet's screen: each that differs has a line, those that are alike have one together.

use super::view::Told;
use crate::base::units::{gbytes_per_s, group};
use crate::base::words::natural;
use crate::fleet::asking::Frame;
use crate::fleet::model::{Job, values};
use std::collections::BTreeMap;

/// What sends less than this share of what the others send is no longer one of them.
const ALIKE: f64 = 0.75;

/// The ports of one name on all nodes of a job, or one port of a node.
struct Rail<'a> {
    name: &'a str,
    /// Bytes a second: the median of all nodes.
    median: f64,
    least: f64,
    /// Which node sends least, where there are several.
    on: Option<&'a str>,
    /// What else is to be said of it; then it is unlike the others.
    remark: String,
}

impl Rail<'_> {
    fn line(&self) -> String {
        let least = self.on.map_or(String::new(), |on| format!("  least {} on {on}", gbytes_per_s(self.least)));
        format!("{}  {}{least}{}", self.name, gbytes_per_s(self.median), self.remark)
    }
}

/// The odd ones first, in the order of their names.
fn lines(mut rails: Vec<Rail>) -> Vec<Told> {
    rails.sort_by_cached_key(|rail| natural(rail.name));
    let mut medians: Vec<f64> = rails.iter().map(|rail| rail.median).collect();
    medians.sort_by(f64::total_cmp);
    let usual = medians.get(medians.len() / 2).copied().unwrap_or(0.0);
    let is_odd = |rail: &Rail| !rail.remark.is_empty() || rail.least < rail.median * ALIKE || rail.median < usual * ALIKE;
    let (odd, alike): (Vec<Rail>, Vec<Rail>) = rails.into_iter().partition(is_odd);
    let mut lines: Vec<Told> = odd.iter().map(|rail| (rail.line(), true)).collect();
    match alike.as_slice() {
        [] => {}
        [one] => lines.push((one.line(), false)),
        [first, .., last] => {
            let range = |of: fn(&Rail) -> f64| {
                let (least, most) =
                    alike.iter().map(of).fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), v| (least.min(v), most.max(v)));
                let (least, most) = (gbytes_per_s(least), gbytes_per_s(most));
                if least == most { least } else { format!("{least} to {most}") }
            };
            let lowest = alike.iter().min_by(|a, b| a.least.total_cmp(&b.least)).and_then(|rail| Some((rail.least, rail.on?)));
            let medians = range(|rail| rail.median);
            let lowest = lowest.map(|(least, on)| (gbytes_per_s(least), on)).filter(|(least, _)| *least != medians);
            let lowest = lowest.map_or(String::new(), |(least, on)| format!("  least {least} on {on}"));
            lines.push((format!("{} … {} ({})  {medians}{lowest}", first.name, last.name, alike.len()), false));
        }
    }
    lines
}

/// Of a job: by the name of the port, which is that of the rail.
pub fn of_job(job: &Job) -> Vec<Told> {
    let mut rails: BTreeMap<&str, Vec<(f64, &str)>> = BTreeMap::new();
    for port in &job.detail.ports {
        if let Some(rate) = port.bytes_per_s {
            rails.entry(&port.port).or_default().push((rate, &port.instance));
        }
    }
    let rail = |(name, mut rates): (_, Vec<(f64, _)>)| {
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, node) = rates[0];
        let lost: f64 = job.detail.ports.iter().filter(|port| port.port == name).map(|port| port.lost).sum();
        let remark = if lost > 0.0 { format!(", {} lost or sent again in 5 min", group(lost as u64)) } else { String::new() };
        Rail { name, median: rates[rates.len() / 2].0, least, on: Some(node), remark }
    };
    lines(rails.into_iter().map(rail).collect())
}

/// Of the node that is looked at.
pub fn of_node(frame: &Frame) -> Vec<Told> {
    let down: Vec<&str> = values(&frame.node, "node-ports-up").filter(|(_, up)| *up == 0.0).map(|(s, _)| s.label("port")).collect();
    let rails = values(&frame.node, "node-ports").map(|(series, rate)| {
        let name = series.label("port");
        let remark = if down.contains(&name) { "  DOWN".into() } else { String::new() };
        Rail { name, median: rate, least: rate, on: None, remark }
    });
    lines(rails.collect())
}
