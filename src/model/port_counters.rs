//! What the counters of ports and interfaces mean, and what is healthy. A counter that is not here is traffic or of no use to an operator.

use super::port::Counters;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Sent again, or about to be: the network lost or reordered packets.
    Retransmission,
    /// Somebody has to wait for somebody else.
    Congestion,
    /// Damaged or refused: a cable, a port, a broken connection.
    Error,
    /// Arrived, or was to leave, and was thrown away.
    Drop,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Retransmission, Class::Congestion, Class::Error, Class::Drop];

    pub fn as_str(self) -> &'static str {
        match self {
            Class::Retransmission => "sent again",
            Class::Congestion => "congestion",
            Class::Error => "errors",
            Class::Drop => "drops",
        }
    }
}

pub struct Meaning {
    /// `#` is a number.
    pub name: &'static str,
    pub class: Class,
    /// What to expect where all is well.
    pub healthy: &'static str,
}

const fn row(name: &'static str, class: Class, healthy: &'static str) -> Meaning {
    Meaning { name, class, healthy }
}

const NONE: &str = "none";
const FEW: &str = "next to none";
const SOME: &str = "some, under load";
const INSTANCE: &str = "none: more than the instance may send";

/// By name. Sources: efa_verbs.c, mlx5/counters.c and bnxt_re/hw_counters.c of the kernel's RDMA drivers, core/sysfs.c for PortCounters of
/// the InfiniBand specification, en_stats.c, bnxt_ethtool.c, ice_ethtool.c and ena_ethtool.c for `ethtool/`.
#[rustfmt::skip]
pub const MEANINGS: &[Meaning] = &[
    row("duplicate_request", Class::Retransmission, FEW),
    row("ethtool/bw_in_allowance_exceeded", Class::Congestion, INSTANCE),
    row("ethtool/bw_out_allowance_exceeded", Class::Congestion, INSTANCE),
    row("ethtool/conntrack_allowance_exceeded", Class::Drop, "none: too many tracked connections"),
    row("ethtool/device_request_reset", Class::Error, NONE),
    row("ethtool/linklocal_allowance_exceeded", Class::Drop, "none: too much DNS, NTP or metadata traffic"),
    row("ethtool/link_down_events", Class::Error, NONE),
    row("ethtool/link_down_events_phy", Class::Error, NONE),
    row("ethtool/link_xoff_rx.nic", Class::Congestion, SOME),
    row("ethtool/link_xoff_tx.nic", Class::Congestion, "none: this host is too slow to take what comes"),
    row("ethtool/mac_local_faults.nic", Class::Error, NONE),
    row("ethtool/mac_remote_faults.nic", Class::Error, NONE),
    row("ethtool/missing_intr", Class::Error, NONE),
    row("ethtool/missing_tx_cmpl", Class::Error, NONE),
    row("ethtool/pps_allowance_exceeded", Class::Congestion, INSTANCE),
    row("ethtool/rx_crc_errors.nic", Class::Error, NONE),
    row("ethtool/rx_crc_errors_phy", Class::Error, NONE),
    row("ethtool/rx_discards_phy", Class::Drop, "none where pause frames are on"),
    row("ethtool/rx_dropped.nic", Class::Drop, FEW),
    row("ethtool/rx_fcs_err_frames", Class::Error, NONE),
    row("ethtool/rx_global_pause", Class::Congestion, SOME),
    row("ethtool/rx_out_of_buffer", Class::Drop, FEW),
    row("ethtool/rx_pause_frames", Class::Congestion, SOME),
    row("ethtool/rx_pcs_symbol_err", Class::Error, FEW),
    row("ethtool/rx_pfc_ena_frames_pri#", Class::Congestion, SOME),
    row("ethtool/rx_prio#_pause", Class::Congestion, SOME),
    row("ethtool/rx_priority_#_xoff.nic", Class::Congestion, SOME),
    row("ethtool/rx_stat_discard", Class::Drop, FEW),
    row("ethtool/rx_symbol_err_phy", Class::Error, FEW),
    row("ethtool/total_resets", Class::Error, NONE),
    row("ethtool/tx_discards_phy", Class::Drop, NONE),
    row("ethtool/tx_global_pause", Class::Congestion, "none: this host is too slow to take what comes"),
    row("ethtool/tx_pause_frames", Class::Congestion, "none: this host is too slow to take what comes"),
    row("ethtool/tx_pfc_ena_frames_pri#", Class::Congestion, "none: this host is too slow to take what comes"),
    row("ethtool/tx_prio#_pause", Class::Congestion, "none: this host is too slow to take what comes"),
    row("ethtool/tx_priority_#_xoff.nic", Class::Congestion, "none: this host is too slow to take what comes"),
    row("ethtool/tx_stat_discard", Class::Drop, NONE),
    row("ethtool/tx_timeout", Class::Error, NONE),
    row("ethtool/wd_expired", Class::Error, NONE),
    row("excessive_buffer_overrun_errors", Class::Drop, NONE),
    row("impaired_remote_conn_events", Class::Congestion, "none: a peer is reached badly"),
    row("implied_nak_seq_err", Class::Retransmission, FEW),
    row("link_downed", Class::Error, NONE),
    row("link_error_recovery", Class::Error, NONE),
    row("local_ack_timeout_err", Class::Retransmission, "none: the surest sign of loss"),
    row("local_link_integrity_errors", Class::Error, NONE),
    row("max_retry_exceeded", Class::Error, "none: a connection broke"),
    row("missing_resp", Class::Retransmission, FEW),
    row("np_cnp_sent", Class::Congestion, SOME),
    row("np_ecn_marked_roce_packets", Class::Congestion, SOME),
    row("oos_drop_count", Class::Drop, NONE),
    row("out_of_buffer", Class::Drop, NONE),
    row("out_of_sequence", Class::Retransmission, "none; many with adaptive routing"),
    row("packet_seq_err", Class::Retransmission, FEW),
    row("port_rcv_constraint_errors", Class::Error, NONE),
    row("port_rcv_errors", Class::Error, NONE),
    row("port_rcv_remote_physical_errors", Class::Error, "none; the fault is elsewhere"),
    row("port_xmit_constraint_errors", Class::Error, NONE),
    row("port_xmit_discards", Class::Drop, NONE),
    row("port_xmit_wait", Class::Congestion, "any; too much where throughput is low"),
    row("rdma_read_wr_err", Class::Error, NONE),
    row("rdma_write_wr_err", Class::Error, NONE),
    row("req_cqe_error", Class::Error, "none but at the end of a job"),
    row("req_remote_access_errors", Class::Error, NONE),
    row("req_rnr_retries_exceeded", Class::Error, "none: a connection broke"),
    row("req_transport_retries_exceeded", Class::Error, "none: a connection broke"),
    row("resp_cqe_error", Class::Error, "none but at the end of a job"),
    row("resp_remote_access_errors", Class::Error, NONE),
    row("retrans_pkts", Class::Retransmission, "few: the network drops some"),
    row("retrans_timeout_events", Class::Retransmission, FEW),
    row("rnr_nak_retry_err", Class::Retransmission, NONE),
    row("rnr_naks_rcvd", Class::Retransmission, NONE),
    row("roce_adp_retrans", Class::Retransmission, FEW),
    row("roce_adp_retrans_to", Class::Retransmission, FEW),
    row("roce_slow_restart_cnps", Class::Congestion, FEW),
    row("rp_cnp_handled", Class::Congestion, SOME),
    row("rp_cnp_ignored", Class::Congestion, NONE),
    row("rx_dropped", Class::Drop, "some: frames that no protocol wants count, too"),
    row("rx_drops", Class::Drop, NONE),
    row("rx_errors", Class::Error, NONE),
    row("rx_icrc_encapsulated", Class::Error, NONE),
    row("rx_missed_errors", Class::Drop, NONE),
    row("rx_roce_discards", Class::Drop, NONE),
    row("rx_roce_errors", Class::Error, NONE),
    row("seq_err_naks_rcvd", Class::Retransmission, FEW),
    row("symbol_error", Class::Error, "few, and not steadily more"),
    row("to_retransmits", Class::Retransmission, NONE),
    row("tx_dropped", Class::Drop, NONE),
    row("tx_errors", Class::Error, NONE),
    row("tx_roce_discards", Class::Drop, NONE),
    row("tx_roce_errors", Class::Error, NONE),
    row("unresponsive_remote_events", Class::Error, "none: a peer does not answer"),
    row("VL15_dropped", Class::Drop, FEW),
];

/// `None`: traffic, or not known.
pub fn meaning(name: &str) -> Option<&'static Meaning> {
    let is = |pattern: &str| match pattern.split_once('#') {
        Some((start, end)) => name.strip_prefix(start).and_then(|n| n.strip_suffix(end)).is_some_and(|n| n.parse::<u8>().is_ok()),
        None => pattern == name,
    };
    MEANINGS.iter().find(|meaning| is(meaning.name))
}

/// Per second, of all of a class; `None` where none of them is known.
pub fn rate(counters: &Counters, class: Class) -> Option<f64> {
    let rates = MEANINGS.iter().filter(|m| m.class == class).filter_map(|m| match m.name.split_once('#') {
        Some((start, end)) => (0..8).filter_map(|n| counters.rate(&format!("{start}{n}{end}"))).reduce(|a, b| a + b),
        None => counters.rate(m.name),
    });
    rates.reduce(|a, b| a + b)
}
