//! Ports and interfaces: state, traffic, losses.

use crate::support::at;
use nccl_top::model::port::{Link, Netdev, Port};
use nccl_top::observe::port::{NetdevSample, PortKind, PortSample};
use nccl_top::observe::{Body, Observation, SourceId};

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
