//! The one table of what counters of ports mean: whoever asks, asks it.

use nccl_top::base::port_counters::{Class, MEANINGS, Sign, meaning};
use nccl_top::base::time::Stamp;
use nccl_top::model::port::Netdev;
use nccl_top::observe::port::NetdevSample;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[test]
fn each_counter_has_one_meaning() {
    let mut seen = BTreeSet::new();
    for m in MEANINGS {
        assert!(seen.insert(m.name), "{} twice", m.name);
        assert_eq!(meaning(&m.name.replace('#', "3")).map(|found| found.name), Some(m.name));
        assert!(m.class != Class::Part || !m.is_loss, "{}: part of another counter, and lost once more", m.name);
    }
    assert!(meaning("ethtool/rx_prio3_pause_duration").is_none() && meaning("tx_bytes").is_none());
    assert!(meaning("ethtool/rx_prio333_pause").is_none() && meaning("ethtool/rx_prio+3_pause").is_none());
}

/// A rule that names a counter itself is a second table. A check of the host may look at a single one.
#[test]
fn no_rule_names_a_counter_that_the_table_has() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rules = src.join("rules").read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut named = Vec::new();
    for path in rules.chain([src.join("sources/ethtool.rs"), src.join("tui/panes/network.rs")]) {
        let text = std::fs::read_to_string(&path).unwrap();
        let names = MEANINGS.iter().map(|m| m.name.trim_start_matches("ethtool/"));
        named.extend(names.filter(|name| text.contains(&format!("\"{name}\""))).map(|name| format!("{}: {name}", path.display())));
    }
    assert!(named.is_empty(), "{named:#?}");
}

#[test]
fn what_a_port_loses_is_the_sum_of_what_the_table_calls_loss() {
    let at = |secs: i64| Stamp(secs * 1_000_000_000);
    let mut netdev = Netdev::default();
    let counters = |n: u64| -> BTreeMap<String, u64> {
        let all = MEANINGS.iter().filter(|m| !m.name.contains(['#', '/'])).map(|m| (m.name.to_owned(), n));
        all.chain([("tx_bytes".to_owned(), n * 1000)]).collect()
    };
    for (secs, n) in [(1, 0), (2, 1)] {
        netdev.apply(at(secs), &NetdevSample { name: "eth0".into(), counters: counters(n), ..NetdevSample::default() });
    }
    let lossy = MEANINGS.iter().filter(|m| m.is_loss).count() as f64;
    assert_eq!(netdev.loss.per_s(at(2)), Some(lossy));
    for class in Class::ALL {
        let rows = MEANINGS.iter().filter(|m| m.class == class && !m.is_time && !m.name.contains(['#', '/'])).count() as f64;
        assert_eq!(netdev.counters.class_rate(class), Some(rows), "{class:?}");
    }
}

/// Of the rules' findings before there was one table.
#[test]
fn signs_are_those_that_rules_judge_by() {
    let names = |wanted: fn(Sign) -> bool| MEANINGS.iter().filter(|m| wanted(m.sign)).map(|m| m.name).collect::<Vec<_>>();
    assert_eq!(names(|s| s == Sign::SentAgain).len(), 6);
    assert_eq!(
        names(|s| matches!(s, Sign::TimedOut | Sign::TimedOutOnPath)),
        ["local_ack_timeout_err", "requester_timeout", "retrans_timeout_events", "roce_adp_retrans_to", "to_retransmits"]
    );
    assert_eq!(names(|s| matches!(s, Sign::FullBuffer(_))), ["ethtool/rx_discards_phy", "port_xmit_discards"]);
    assert_eq!(names(|s| matches!(s, Sign::Damage(_) | Sign::FullBuffer(_) | Sign::Silent(_))).len(), 20);
    assert_eq!(names(|s| matches!(s, Sign::Congestion(_))).len(), 18);
    assert_eq!(names(|s| matches!(s, Sign::Allowance(_))).len(), 5);
    assert_eq!(names(|s| matches!(s, Sign::WentDown { .. })), ["carrier_changes", "ethtool/link_down_events_phy", "link_downed"]);
}
