//! A port, or an interface: its link, its traffic over time, every counter.

use super::{Kind, Page};
use crate::base::units::scaled;
use crate::tui::panes::{Ctx, network};
use std::time::Duration;

pub const KIND: Kind = Kind { id: "port", write };

/// Counters are read every second: a value stands that long.
const HOLD: Duration = Duration::from_secs(3);
/// Gbit/s in bytes/s.
const GBITS: f32 = 8e-9;

fn write(ctx: &Ctx, key: &str, page: &mut Page) -> Option<String> {
    let seen = network::seen(ctx, key)?;
    page.facts(&seen.cells);
    for (label, text, style) in seen.facts {
        page.fact(label, &text, style);
    }
    page.head("History");
    let word = |v: f64| format!("{:.2}", v.max(0.0));
    page.chart("in, Gbit/s", seen.trends.1, GBITS, HOLD, word);
    page.chart("out, Gbit/s", seen.trends.0, GBITS, HOLD, word);
    let known: Vec<_> = seen.counters.meaningful().collect();
    if !known.is_empty() {
        page.head("Counters that mean something");
    }
    for counter in known {
        let rate = counter.rate.map_or("–".to_owned(), |rate| format!("{}/s", scaled(rate)));
        let style = if counter.rate.is_some_and(|rate| rate > 0.0) { ctx.theme.look } else { ctx.theme.text };
        let words = format!("{}  {rate}  in all {}  (healthy: {})", counter.name, counter.value, counter.meaning.healthy);
        page.fact(counter.meaning.class.as_str(), &words, style);
    }
    let others: Vec<String> = seen.counters.rates().iter().map(|(name, rate)| format!("{name}\u{a0}{}/s", scaled(*rate))).collect();
    if !others.is_empty() {
        page.head("All that counts");
        page.fact("per second", &others.join("  "), ctx.theme.text);
    }
    page.findings(|f| f.ports.iter().any(|port| port == key || port.split(':').next() == Some(key)));
    Some(format!("{}  {}", seen.kind, key))
}
