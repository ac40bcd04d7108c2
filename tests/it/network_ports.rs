//! Ports and interfaces: state, traffic, losses.

use crate::support::at;

use nccl_top::model::port::{Growth, Link, Netdev, Port};
use nccl_top::observe::port::{NetdevSample, PortKind, PortSample};
use nccl_top::observe::{Body, Observation, SourceId};
use proptest::prelude::*;
use std::time::Duration;

fn sample(state: &str, counters: &[(&str, u64)]) -> PortSample {
    PortSample { state: Some(state.into()), counters: counters.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(), ..Default::default() }
}

/// What takes a time that grows with the square of the interfaces takes a minute here.
#[test]
fn very_many_interfaces_are_kept_in_time() {
    let netdevs: Vec<_> = (0..50_000).map(|i| NetdevSample { name: format!("veth{i}"), ..NetdevSample::default() }).collect();
    let seen = |netdevs: &[NetdevSample]| Observation {
        at: at(1),
        host: None,
        from: SourceId::of("netdev"),
        body: Body::Netdevs { netdevs: netdevs.to_vec() },
    };
    let mut model = nccl_top::model::Model::default();
    model.apply(&seen(&netdevs));
    assert_eq!(model.netdevs.len(), 4096, "as many as the source lists; that the others are left out is shown");
    assert!(model.left_out_words().is_some_and(|words| words.contains("45,904 times an interface")), "{:?}", model.left_out_words());
    model.apply(&seen(&netdevs[7..9]));
    assert_eq!(model.netdevs.keys().collect::<Vec<_>>(), ["veth7", "veth8"]);
}

#[test]
fn infiniband_counts_words_and_efa_counts_bytes() {
    let mut ib = Port::default();
    ib.info.kind = PortKind::Infiniband;
    ib.apply(at(0), &sample("ACTIVE", &[("port_xmit_data", 0)]));
    ib.apply(at(1), &sample("ACTIVE", &[("port_xmit_data", 1000)]));
    assert_eq!(ib.tx_bytes_per_s(), Some(4000.0));
    let mut efa = Port::default();
    efa.info.kind = PortKind::Efa;
    efa.apply(at(0), &sample("ACTIVE", &[("tx_bytes", 0)]));
    efa.apply(at(2), &sample("ACTIVE", &[("tx_bytes", 1000)]));
    assert_eq!(efa.tx_bytes_per_s(), Some(500.0));
    efa.apply(at(3), &sample("ACTIVE", &[]));
    assert_eq!((efa.tx_bytes_per_s(), efa.counters.value("tx_bytes")), (Some(0.0), Some(1000)), "absent means unchanged");
    efa.apply(at(4), &sample("ACTIVE", &[("tx_bytes", 3000)]));
    assert_eq!(efa.tx_bytes_per_s(), Some(2000.0), "over one second, not over two");
}

#[test]
fn losses_are_remembered_for_half_a_minute() {
    let mut efa = Port::default();
    efa.info.kind = PortKind::Efa;
    let lost = |n| [("retrans_pkts", n), ("rx_drops", 0), ("retrans_bytes", n * 9000)];
    efa.apply(at(0), &sample("ACTIVE", &lost(0)));
    assert_eq!(efa.loss.per_s(at(0)), None, "one value is no rate");
    for s in 1..=10 {
        efa.apply(at(s), &sample("ACTIVE", &lost(if s == 3 { 20 } else { 0 })[..usize::from(s == 3) * 3]));
    }
    assert_eq!(efa.loss.per_s(at(10)), Some(2.0), "of a retransmitted packet the bytes are not counted too");
    for s in 11..=40 {
        efa.apply(at(s), &sample("ACTIVE", &[]));
    }
    assert_eq!(efa.loss.per_s(at(40)), Some(0.0));
    assert_eq!(efa.loss.per_s(at(100)), None);
}

#[test]
fn traffic_is_the_mean_of_some_seconds() {
    let mut eth = Netdev::default();
    for s in 0..10 {
        let sent = (s as u64).div_ceil(2) * 1000;
        eth.apply(at(s), &NetdevSample { counters: [("tx_bytes".to_owned(), sent)].into(), ..Default::default() });
    }
    assert_eq!((eth.tx_newest(at(9)), eth.rx_newest(at(9))), (Some(500.0), None));
}

#[test]
fn only_a_port_that_was_up_can_go_down() {
    let mut port = Port::default();
    port.apply(at(0), &sample("DOWN", &[]));
    assert!(!port.link.was_up);
    port.apply(at(1), &sample("ACTIVE", &[]));
    port.apply(at(5), &sample("INIT", &[]));
    port.apply(at(6), &sample("INIT", &[]));
    assert_eq!((port.link.now, port.link.since, port.link.was_up), (Link::Down, at(5), true));
}

const MINUTE: Duration = Duration::from_secs(60);

/// One counter of a port, read at these seconds.
fn read(name: &str, values: &[(i64, u64)]) -> Port {
    let mut port = Port::default();
    values.iter().for_each(|(s, value)| port.apply(at(*s), &sample("ACTIVE", &[(name, *value)])));
    port
}

fn grown(port: &Port, name: &str, now: i64) -> Option<Growth> {
    port.counters.grown(name, at(now), MINUTE)
}

#[test]
fn what_a_counter_grew_by_within_a_time() {
    let port = read("symbol_error", &[(0, 500), (1, 500), (30, 510), (31, 512), (100, 513)]);
    assert_eq!(grown(&port, "symbol_error", 100).map(|g| (g.by, g.from, g.to)), Some((0, 513, 513)), "over 69 s nobody looked");
    let port = read("symbol_error", &[(0, 500), (1, 500), (30, 510), (31, 512)]);
    let all = grown(&port, "symbol_error", 31).expect("known");
    assert_eq!((all.by, all.from, all.to, all.over, all.last), (12, 500, 512, Duration::from_secs(31), Some(at(31))));
    assert_eq!(all.words("symbol_error"), "symbol_error 500 -> 512 in 31 s");
    assert_eq!(grown(&port, "symbol_error", 200), None, "it was not read in that time");
    assert_eq!(grown(&port, "packet_seq_err", 31), None, "not there is not 0");
    assert_eq!(grown(&read("symbol_error", &[(0, 500)]), "symbol_error", 0), None, "one value shows no growth");
}

#[test]
fn counters_wrap_are_full_or_begin_anew() {
    let end = u64::from(u32::MAX);
    let wrapped = read("packet_seq_err", &[(0, end - 5), (1, 10)]);
    assert_eq!((grown(&wrapped, "packet_seq_err", 1).map(|g| g.by), wrapped.counters.rate("packet_seq_err")), (Some(16), Some(16.0)));
    for (name, before) in [("tx_bytes", end - 5), ("packet_seq_err", end / 2), ("packet_seq_err", end + 7)] {
        let anew = read(name, &[(0, before), (1, 10)]);
        assert_eq!((grown(&anew, name, 1), anew.counters.rate(name)), (None, None), "{name} {before}");
    }
    let mut full = read("excessive_buffer_overrun_errors", &[(0, 15), (1, 15)]);
    full.apply(at(2), &sample("ACTIVE", &[]));
    assert_eq!(grown(&full, "excessive_buffer_overrun_errors", 2), None, "it cannot show that nothing happens");
    assert_eq!(full.counters.rate("excessive_buffer_overrun_errors"), None);
    assert_eq!(full.counters.full().collect::<Vec<_>>(), ["excessive_buffer_overrun_errors"]);
    let filled = read("link_downed", &[(0, 250), (1, 255)]);
    assert_eq!(grown(&filled, "link_downed", 1).map(|g| g.by), Some(5), "it grew before it was full");
}

#[test]
fn what_cannot_be_read_is_not_known() {
    let mut port = read("retrans_pkts", &[(0, 5), (1, 5)]);
    assert_eq!(port.counters.rate("retrans_pkts"), Some(0.0));
    for file in ["retrans_pkts", "hw_counters", "state"] {
        let unreadable = [(file.to_owned(), "EINVAL".to_owned())].into();
        let hidden = PortSample { unreadable, ..sample("ACTIVE", &[]) };
        (2..5).for_each(|s| port.apply(at(s), &hidden));
        assert_eq!(port.counters.rate("retrans_pkts"), None, "{file}");
        assert_eq!(grown(&port, "retrans_pkts", 4).map(|g| g.over), Some(Duration::from_secs(1)), "{file}");
    }
    port.apply(at(6), &sample("ACTIVE", &[("retrans_pkts", 15)]));
    assert_eq!(grown(&port, "retrans_pkts", 6).map(|g| (g.by, g.over)), Some((10, Duration::from_secs(6))), "over all of the time");
}

#[test]
fn time_in_which_nobody_looked_is_no_rate() {
    let port = read("retrans_pkts", &[(0, 5), (1, 5), (2, 5), (3602, 4000)]);
    assert_eq!((port.counters.rate("retrans_pkts"), grown(&port, "retrans_pkts", 3602).map(|g| g.by)), (None, Some(0)));
}

#[test]
fn downtime_adds_up() {
    let mut port = Port::default();
    for (s, state) in [(0, "ACTIVE"), (10, "DOWN"), (14, "INIT"), (16, "ACTIVE"), (50, "DOWN"), (51, "ACTIVE"), (90, "DOWN")] {
        port.apply(at(s), &sample(state, &[]));
    }
    assert_eq!((port.link.times, port.link.down_for, port.link.down_at), (2, Duration::from_secs(7), Some(at(90))));
    assert_eq!((port.link.outages_since(at(0)), port.link.outages_since(at(20))), (2, 1));
}

proptest! {
    /// Against all that was read: what lies within the window counts, and nothing that ended before it, or that began before it while
    /// nobody looked for longer.
    #[test]
    fn growth_is_that_of_all_samples(
        steps in proptest::collection::vec((1i64..200, prop_oneof![Just(0u64), 1u64..50, Just(u64::MAX)]), 1..300),
        window in 10u64..600,
        late in 0i64..30,
    ) {
        let (mut now, mut value) = (0i64, 1000u64);
        let mut port = Port::default();
        port.apply(at(0), &sample("ACTIVE", &[("retrans_pkts", value)]));
        let mut grew: Vec<(i64, i64, u64)> = Vec::new();
        for (pause, by) in steps {
            let before = now;
            now += pause;
            if by == u64::MAX {
                value = 3;
                grew.clear();
            } else {
                value += by;
                grew.push((before, now, by));
            }
            port.apply(at(now), &sample("ACTIVE", &[("retrans_pkts", value)]));
        }
        let (now, length) = (now + late, i64::try_from(window).unwrap());
        let sum = |which: &dyn Fn(i64, i64) -> bool| grew.iter().filter(|(b, e, _)| which(*b, *e)).map(|g| g.2).sum::<u64>();
        let least = sum(&|began, ended| began >= now - length && ended > now - length);
        let most = sum(&|began, ended| ended > now - length - 5 && ended - began <= length.max(5));
        let found = port.counters.grown("retrans_pkts", at(now), Duration::from_secs(window));
        if let Some(found) = found {
            prop_assert!((least..=most).contains(&found.by), "{found:?} {least} {most}");
            prop_assert!(found.from + found.by <= found.to && !found.over.is_zero());
            prop_assert!(found.over <= Duration::from_secs(window * 2 + 5));
        } else {
            prop_assert_eq!(least, 0);
        }
        prop_assert!(port.counters.parts("retrans_pkts", at(now), Duration::from_secs(window)) <= 3);
    }
}
