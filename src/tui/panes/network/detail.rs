//! What there is no column for, of the port or group that is selected.

use super::rows::{Nic, PACKETS_IN, PACKETS_OUT, READ, WRITTEN, Way, pct};
use crate::base::clean::clean;
use crate::base::port_counters::Class;
use crate::base::time::span;
use crate::base::units::scaled;
use crate::model::QueuePairUser;
use crate::model::port::Port;
use crate::tui::panes::Ctx;
use crate::tui::widgets::labelled;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::time::Duration;

/// What there is no column for, of one.
pub(super) fn details(ctx: &Ctx, nic: &Nic, area: Rect, buf: &mut Buffer) {
    let mut lines = Vec::new();
    for (label, text, style) in facts(ctx, nic) {
        lines.extend(labelled(&format!("{label:<12}"), ctx.theme.dim, &text, style, usize::from(area.width)));
    }
    crate::tui::panes::lines(area, buf, &lines);
}

/// Lines with their labels, what matters most first: there may be no room for all.
pub(super) fn facts(ctx: &Ctx, nic: &Nic) -> Vec<(&'static str, String, Style)> {
    let theme = ctx.theme;
    let mut out = Vec::new();
    if nic.is_group() {
        let share = |n: &Nic| n.busier().map_or("–".to_owned(), |s| format!("{}%", pct(s)));
        let each: Vec<String> = nic.members.iter().map(|n| format!("{}\u{a0}{}", n.name, share(n))).collect();
        out.push(("ports", each.join("  "), theme.text));
    } else {
        out.push(("link", link_words(ctx, nic), if nic.is_lost() { theme.act } else { theme.text }));
    }
    out.push(("traffic", traffic_words(nic), theme.text));
    for class in Class::ALL {
        let (text, is_any) = class_words(nic, class);
        if let Some(text) = text {
            out.push((class.as_str(), text, if is_any { theme.look } else { theme.text }));
        }
    }
    if nic.is_group() {
        return out;
    }
    if let Some(port) = nic.port {
        if let Some(why) = &port.info.counters_hidden {
            out.push(("counters", clean(why).into_owned(), theme.look));
        }
        if !port.sample.unreadable.is_empty() {
            let unreadable: Vec<String> = port.sample.unreadable.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            out.push(("unreadable", unreadable.join("; "), theme.look));
        }
    }
    if let Some(words) = nic.port.and_then(|port| queue_pair_words(ctx, port)) {
        out.push(("queue pairs", words, theme.text));
    }
    out.push(("device", device_words(nic), theme.text));
    if let Some(port) = nic.port {
        out.push(("GPUDirect", known(&port.info.gpu_direct), theme.text));
    }
    let lost: Vec<String> = nic.losses().filter(|l| l.value > 0).map(|l| format!("{}\u{a0}{}", l.name, l.value)).collect();
    out.push(("lost so far", if lost.is_empty() { "nothing".to_owned() } else { lost.join("  ") }, theme.text));
    let rates = nic.counters.rates().iter().filter(|(_, rate)| **rate != 0.0);
    let rates: Vec<String> = rates.map(|(name, rate)| format!("{name}\u{a0}{}/s", scaled(*rate))).collect();
    out.push(("counts", if rates.is_empty() { "nothing moves".to_owned() } else { rates.join("  ") }, theme.text));
    out
}

/// `rank 3 (pid 4711) 16  ib_core 2`; `None` where nobody knows.
fn queue_pair_words(ctx: &Ctx, port: &Port) -> Option<String> {
    /// They are listed every quarter of a minute, unless that takes long.
    const FRESH: Duration = Duration::from_secs(60);
    let model = &ctx.session.model;
    let (at, users) = model.queue_pairs_of(port)?;
    let who = |user: &QueuePairUser| match (user.rank, user.pid, user.kernel) {
        (Some(rank), Some(pid), _) => format!("rank\u{a0}{rank}\u{a0}(pid\u{a0}{pid})"),
        (_, Some(pid), _) => format!("pid\u{a0}{pid}"),
        (_, None, Some(part)) => clean(part).into_owned(),
        (_, None, None) => "a thread that has ended".to_owned(),
    };
    let mut words: Vec<String> = users.iter().map(|user| format!("{}\u{a0}{}", who(user), user.count)).collect();
    if words.is_empty() {
        words.push("none".to_owned());
    }
    let age = model.now.since(at);
    words.extend((age > FRESH).then(|| format!("({} ago)", span(age))));
    Some(words.join("  "))
}

fn known(text: &Option<String>) -> String {
    text.as_deref().map_or("–".to_owned(), |v| clean(v).into_owned())
}

fn link_words(ctx: &Ctx, nic: &Nic) -> String {
    let model = &ctx.session.model;
    let lasting = span(model.now.since(nic.link.since));
    let first = model.started.is_some_and(|at| nic.link.since.since(at) < Duration::from_secs(5));
    let lasting = match (nic.state(), first) {
        (None, _) => "not known".to_owned(),
        (Some(word), true) => format!("{word} for {lasting} or longer"),
        (Some(word), false) => format!("{word} for {lasting}"),
    };
    let mut link = format!("{}  {lasting}", nic.name.trim());
    if let Some(port) = nic.port {
        link += &format!("  physical {}  layer {}", known(&port.sample.phys_state), known(&port.info.link_layer));
    }
    if let Some(netdev) = nic.netdev {
        let sample = &netdev.sample;
        let number = |n: Option<u64>| n.map_or("–".to_owned(), |n| n.to_string());
        link += &format!("  MTU {}  carrier changes {}", number(sample.mtu.map(u64::from)), number(sample.carrier_changes));
        if let Some(downs) = sample.carrier_down_count {
            link += &format!("  downs {downs}");
        }
    }
    link
}

fn traffic_words(nic: &Nic) -> String {
    let bits = |bytes: Option<f64>| bytes.map_or("–".to_owned(), |b| format!("{:.2} Gbit/s", b * 8.0 / 1e9));
    let share = |way| nic.share(way).map_or(String::new(), |s| format!(" {}%", pct(s)));
    let mut out = format!("in {}{}  out {}{}", bits(nic.rx), share(Way::In), bits(nic.tx), share(Way::Out));
    if let (Some(into), Some(sent)) = (nic.rate(PACKETS_IN), nic.rate(PACKETS_OUT)) {
        out += &format!("  packets {}/s in {}/s out", scaled(into), scaled(sent));
    }
    for (label, names) in [("RDMA read", READ), ("write", WRITTEN)] {
        if let Some(rate) = nic.rate(names) {
            out += &format!("  {label} {}", bits(Some(rate)));
        }
    }
    out
}

/// What of a class counts now, with what is healthy; `None` where there is no such counter. Whether one counts now that should
/// not.
fn class_words(nic: &Nic, class: Class) -> (Option<String>, bool) {
    if nic.is_group() {
        let rate = nic.class(class);
        return (rate.map(|rate| format!("{}/s", scaled(rate))), nic.members.iter().any(|member| class_words(member, class).1));
    }
    let of_class = nic.counters.meaningful().filter(|known| known.meaning.class == class);
    let mut known = of_class.filter_map(|known| Some((known.name, known.rate?, known.meaning))).peekable();
    if known.peek().is_none() {
        return (None, false);
    }
    let moving: Vec<_> = known.filter(|(_, rate, _)| *rate > 0.0).collect();
    let is_ill = moving.iter().any(|(_, _, meaning)| meaning.healthy.starts_with("none"));
    let words: Vec<String> = moving.iter().map(|(name, rate, m)| format!("{name} {}/s (healthy: {})", scaled(*rate), m.healthy)).collect();
    (Some(if words.is_empty() { "none now".to_owned() } else { words.join("  ") }), is_ill)
}

fn device_words(nic: &Nic) -> String {
    let mut parts = Vec::new();
    let mut say = |label: &str, value: Option<String>| parts.extend(value.map(|value| format!("{label} {}", clean(&value))));
    let (link, physical) = if let Some(port) = nic.port {
        let info = &port.info;
        say("driver", info.driver.clone());
        say("version", info.driver_version.clone());
        say("model", info.model.clone());
        say("firmware", info.firmware.clone());
        say("GUID", info.guid.clone());
        say("bus", info.bus_id.clone());
        say("part", info.sub_function.clone());
        say("NUMA", info.numa.map(|n| n.to_string()));
        (&info.pci_link, &info.physical_function)
    } else if let Some(netdev) = nic.netdev {
        say("driver", netdev.sample.driver.clone());
        say("version", netdev.info.driver_version.clone());
        say("firmware", netdev.info.firmware.clone());
        say("bus", netdev.sample.bus_id.clone());
        say("NUMA", netdev.info.numa.map(|n| n.to_string()));
        (&netdev.info.pci_link, &netdev.info.physical_function)
    } else {
        return String::new();
    };
    say("virtual function of", physical.clone());
    if let Some(link) = link {
        let words = |speed: Option<f64>, width: Option<u32>| Some(format!("{} GT/s x{}", speed?, width?));
        say("PCIe", words(link.gt_per_s, link.width));
        say("of", words(link.max_gt_per_s, link.max_width));
    }
    if parts.is_empty() { "nothing known".into() } else { parts.join("  ") }
}
