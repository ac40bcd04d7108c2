//! Packets are lost on the way: they are sent again all the time.

use super::area::Area;
use super::chain::Chain;
use super::ports::{Grew, Wire, sum, talking_job, wires};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::port_counters::Sign;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::Stamp;
use crate::base::units::scaled;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "fabric-retransmits",
    severity: Severity::Warning,
    title: "Packets keep getting lost and retransmitted: the port, its link or the fabric is slower for it",
    says: "{keeps|keep} losing packets and sending them again",
    how: "EFA: retrans_pkts and retrans_timeout_events. mlx5: local_ack_timeout_err, packet_seq_err, implied_nak_seq_err, roce_adp_retrans. \
          bnxt_re: to_retransmits, seq_err_naks_rcvd. They must grow in two of three parts of the time. out_of_sequence alone is no loss: \
          adaptive routing makes packets overtake each other. One retransmission now and then is usual",
    advice: "One port: its cable, optics, switch port. All ports at once: the fabric or a peer; on RoCE look at PFC and ECN of the traffic class of \
             NCCL_IB_TC on host and switches",
    life: while_it_holds(5, 60),
    implies: Implies::Nothing,
    area: Some(Area::Network),
    chain: Chain::OF_THE_NETWORK,
    limits: &[&PER_S, &SHARE, &TIMEOUTS, &WINDOW],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const PER_S: Limit = Limit::count("fabric-retransmits", "per-second", 2.0, "fewer packets sent again than this in a second are usual");
const SHARE: Limit = Limit::percent("fabric-retransmits", "share", 0.01, "and, where packets are counted, a smaller part of them is");
const TIMEOUTS: Limit = Limit::count("fabric-retransmits", "timeouts", 5.0, "timeouts of acknowledgements in the window that are too many");
const WINDOW: Limit = Limit::seconds("fabric-retransmits", "window", 30.0, "what is sent again is counted over this time");

const SENT: &[&str] = &["tx_pkts", "port_xmit_packets"];
/// More than that many times what its siblings send again is too much for one port, however little of all it is.
const TIMES_SIBLINGS: f64 = 10.0;

struct Loss {
    grew: Vec<Grew>,
    sent_again_per_s: f64,
    /// Of all packets, %.
    share_pct: Option<f64>,
    timeouts: u64,
}

impl Loss {
    fn of(wire: &Wire, now: Stamp) -> Loss {
        let of = |wanted: Sign| wire.steady(|sign| sign == wanted, now, WINDOW.duration());
        let (timed_out, efa, again) = (of(Sign::TimedOut), of(Sign::TimedOutOnPath), of(Sign::SentAgain));
        let sent_again_per_s = again.iter().map(|g| g.growth.per_s()).fold(0.0, f64::max);
        let sent = SENT.iter().find_map(|name| wire.grown(name, now, WINDOW.duration())).map(|g| g.per_s());
        let share_pct = sent.filter(|sent| *sent > 0.0).map(|sent| sent_again_per_s / sent * 100.0);
        let timeouts = sum(&timed_out) + sum(&efa) / 4;
        Loss { grew: timed_out.into_iter().chain(efa).chain(again).collect(), sent_again_per_s, share_pct, timeouts }
    }

    fn is_much(&self, siblings_per_s: f64) -> bool {
        let share = self.share_pct.is_none_or(|pct| pct >= SHARE.value()) || self.sent_again_per_s > siblings_per_s * TIMES_SIBLINGS;
        let many = self.sent_again_per_s >= PER_S.value() * if self.share_pct.is_some_and(|p| p < SHARE.value()) { 10.0 } else { 1.0 };
        self.timeouts as f64 >= TIMEOUTS.value() || many && share
    }
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let now = ctx.model.now;
    let wires: Vec<Wire> = wires(ctx.model).into_iter().filter(|w| w.port.is_some()).collect();
    let losses: Vec<(Wire, Loss)> = wires.into_iter().map(|wire| (Loss::of(&wire, now), wire)).map(|(loss, wire)| (wire, loss)).collect();
    let mut rates: Vec<f64> = losses.iter().map(|(_, loss)| loss.sent_again_per_s).collect();
    rates.sort_by(f64::total_cmp);
    let median = if rates.len() > 2 { rates[rates.len() / 2] } else { f64::MAX };
    let up = losses.len();
    let lossy: Vec<(Wire, Loss)> = losses.into_iter().filter(|(wire, loss)| loss.is_much(median) && !wire.is_unsettled(now)).collect();
    let (job, many) = (talking_job(ctx.model), lossy.len() > 2 && lossy.len() * 2 >= up);
    if many {
        // What all ports see is not the fault of one of them.
        let names: Vec<String> = lossy.iter().map(|(wire, _)| wire.name.clone()).collect();
        let Some((wire, loss)) = lossy.into_iter().max_by(|a, b| a.1.sent_again_per_s.total_cmp(&b.1.sent_again_per_s)) else { return };
        let summary = format!("{} of {up} ports retransmit: the fabric or a peer is dropping packets", names.len());
        let mut found = ctx.of_wire(&RULE, &Wire { name: "all ports".into(), ..wire }, summary, now.minus(WINDOW.duration()), job);
        (found.ports, found.confidence) = (names, Confidence::Likely);
        out.push(described(found, &loss));
        return;
    }
    for (wire, loss) in lossy {
        let rate = match loss.sent_again_per_s {
            r if r > 0.0 => format!("{} packets a second", scaled(r)),
            _ => format!("{} timeouts in {:.0} s", loss.timeouts, WINDOW.value()),
        };
        let summary = format!("{} {} is losing packets: {rate} retransmitted", wire.kind(), wire.name);
        let mut found = ctx.of_wire(&RULE, &wire, summary, now.minus(WINDOW.duration()), job);
        found.confidence = Confidence::Certain;
        out.push(described(found, &loss));
    }
}

fn described(mut found: Finding, loss: &Loss) -> Finding {
    let share = loss.share_pct.map(|pct| format!("{pct:.2} % of the packets sent; "));
    let what = if loss.timeouts > 0 {
        "acknowledgements time out: packets are lost, not only late"
    } else {
        "the other end reports packets missing, and no acknowledgement times out"
    };
    found.why = format!("{}{what}", share.unwrap_or_default());
    let is_efa = loss.grew.iter().any(|g| g.name.starts_with("retrans_"));
    found.next = Some(match is_efa {
        true => {
            "compare with the devices of the other nodes: `rdma statistic show`; if only one path stays bad, report its device and the time to AWS".into()
        }
        false => "compare both ends: `rdma statistic show`, `ethtool -S`; PFC and ECN of the switch on RoCE".into(),
    });
    found.evidence = loss.grew.iter().map(Grew::proof).collect();
    found
}
