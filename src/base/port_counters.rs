//! What the counters of ports and interfaces mean, and what is healthy: the one table that samples, loss, the pane and all rules ask. A
//! counter that is not here is traffic or of no use to an operator.

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
    /// Part of what another counter of these counts, or shown with the link: in no sum.
    Part,
}

impl Class {
    /// Those that have sums, in the order in which they are shown.
    pub const ALL: [Class; 4] = [Class::Retransmission, Class::Congestion, Class::Error, Class::Drop];

    pub fn as_str(self) -> &'static str {
        match self {
            Class::Retransmission => "sent again",
            Class::Congestion => "congestion",
            Class::Error => "errors",
            Class::Drop => "drops",
            Class::Part => "part of another",
        }
    }
}

/// Which rule judges a counter, and as what. The words are those of its finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// No rule: what others cause, what is usual, what a better counter shows.
    None,
    /// nic-errors: damaged or refused packets, and where that comes from.
    Damage(&'static str),
    /// nic-errors: what buffers that are full drop. TCP bears some of it.
    FullBuffer(&'static str),
    /// nic-errors: the device does not answer; one is enough.
    Silent(&'static str),
    /// fabric-retransmits: the other end missed packets.
    SentAgain,
    /// fabric-retransmits: nothing came back in time, a packet or its acknowledgement was lost.
    TimedOut,
    /// fabric-retransmits: the same for EFA, which then takes another path and bears more of them.
    TimedOutOnPath,
    Congestion(Congestion),
    /// ena-allowance
    Allowance(&'static str),
    /// nic-flapping: so many for each time that the link went down.
    WentDown {
        counts: u64,
    },
}

/// What so many events of one kind mean for the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// It sends slower because the network asks for it.
    HeldBack,
    /// It receives from too many.
    Incast,
    /// The switch stops it.
    Paused,
    /// It stops the switch.
    Pauses,
    /// Of an EFA: each is one connection.
    Peer,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Meaning {
    /// `#` is a number of one or two digits.
    pub name: &'static str,
    pub class: Class,
    /// What to expect where all is well.
    pub healthy: &'static str,
    /// It counts packets that were lost, damaged or sent again, or events that come of that: it is in the sum of what a port loses.
    pub is_loss: bool,
    /// It counts time, in ticks, and not events: it has no sum with those that do.
    pub is_time: bool,
    pub sign: Sign,
}

const fn row(name: &'static str, class: Class, healthy: &'static str) -> Meaning {
    Meaning { name, class, healthy, is_loss: false, is_time: false, sign: Sign::None }
}

impl Meaning {
    const fn lost(self) -> Meaning {
        Meaning { is_loss: true, ..self }
    }

    const fn time(self) -> Meaning {
        Meaning { is_time: true, ..self }
    }

    const fn sign(self, sign: Sign) -> Meaning {
        Meaning { sign, ..self }
    }
}

const NONE: &str = "none";
const FEW: &str = "next to none";
const SOME: &str = "some, under load";
const INSTANCE: &str = "none: more than the instance may send";
const SLOW_HOST: &str = "none: this host is too slow to take what comes";
const DAMAGED: Sign = Sign::Damage("damaged symbols: cable or optics");
const RECEIVED_DAMAGED: Sign = Sign::Damage("damaged packets received: cable or optics");
const UNSENT: Sign = Sign::Damage("packets that could not be sent");

/// By name. Sources: efa_verbs.c, mlx5/counters.c and bnxt_re/hw_counters.c of the kernel's RDMA drivers, core/sysfs.c for PortCounters of
/// the InfiniBand specification, Documentation/networking/statistics.rst for interfaces, en_stats.c, bnxt_ethtool.c, ice_ethtool.c and
/// ena_ethtool.c for `ethtool/`; for its allowances AWS, "Monitor network performance for ENA settings on your EC2 instance".
///
/// No loss are port_xmit_wait (waiting), VL15_dropped (management only) and port_rcv_switch_relay_errors (a port's own multicast counts
/// there). SRD sends again what the network dropped, so a little of an EFA's retrans_pkts is no fault. Buffers that overrun and packets
/// that no partition wants are no sign: others make them. A failed transfer of an EFA is one, because no packet lost makes one.
#[rustfmt::skip]
pub const MEANINGS: &[Meaning] = &[
    row("carrier_changes", Class::Part, "none: two for each time that the link was down").sign(Sign::WentDown { counts: 2 }),
    row("device/no_completion_cmds", Class::Error, NONE).sign(Sign::Silent("commands that the device has not answered")),
    row("duplicate_request", Class::Retransmission, FEW),
    row("ethtool/bw_in_allowance_exceeded", Class::Congestion, INSTANCE).sign(Sign::Allowance("it receives more than the instance may: packets are queued or dropped")),
    row("ethtool/bw_out_allowance_exceeded", Class::Congestion, INSTANCE).sign(Sign::Allowance("it sends more than the instance may: packets are queued or dropped")),
    row("ethtool/conntrack_allowance_exceeded", Class::Drop, "none: too many tracked connections").sign(Sign::Allowance("more connections are tracked than the instance may have: new ones are dropped")),
    row("ethtool/device_request_reset", Class::Error, NONE),
    row("ethtool/link_down_events", Class::Error, NONE),
    row("ethtool/link_down_events_phy", Class::Error, NONE).sign(Sign::WentDown { counts: 1 }),
    row("ethtool/link_xoff_rx.nic", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::Paused)),
    row("ethtool/link_xoff_tx.nic", Class::Congestion, SLOW_HOST).sign(Sign::Congestion(Congestion::Pauses)),
    row("ethtool/linklocal_allowance_exceeded", Class::Drop, "none: too much DNS, NTP or metadata traffic").sign(Sign::Allowance("too many requests of DNS, NTP or instance metadata: they are dropped")),
    row("ethtool/mac_local_faults.nic", Class::Error, NONE),
    row("ethtool/mac_remote_faults.nic", Class::Error, NONE),
    row("ethtool/missing_intr", Class::Error, NONE),
    row("ethtool/missing_tx_cmpl", Class::Error, NONE),
    row("ethtool/pps_allowance_exceeded", Class::Congestion, INSTANCE).sign(Sign::Allowance("more packets a second than the instance may have: they are queued or dropped")),
    row("ethtool/rx_crc_errors.nic", Class::Error, NONE),
    row("ethtool/rx_crc_errors_phy", Class::Error, NONE).sign(RECEIVED_DAMAGED),
    row("ethtool/rx_discards_phy", Class::Drop, "none where pause frames are on").sign(Sign::FullBuffer("packets dropped at the port, because the host or its buffers were too slow")),
    row("ethtool/rx_dropped.nic", Class::Drop, FEW),
    row("ethtool/rx_fcs_err_frames", Class::Error, NONE),
    row("ethtool/rx_global_pause", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::Paused)),
    row("ethtool/rx_out_of_buffer", Class::Drop, FEW),
    row("ethtool/rx_pause_frames", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::Paused)),
    row("ethtool/rx_pcs_symbol_err", Class::Error, FEW),
    row("ethtool/rx_pfc_ena_frames_pri#", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::Paused)),
    row("ethtool/rx_prio#_pause", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::Paused)),
    row("ethtool/rx_priority_#_xoff.nic", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::Paused)),
    row("ethtool/rx_stat_discard", Class::Drop, FEW),
    row("ethtool/rx_symbol_err_phy", Class::Error, FEW),
    row("ethtool/total_resets", Class::Error, NONE),
    row("ethtool/tx_discards_phy", Class::Drop, NONE),
    row("ethtool/tx_errors_phy", Class::Error, NONE).sign(UNSENT),
    row("ethtool/tx_global_pause", Class::Congestion, SLOW_HOST).sign(Sign::Congestion(Congestion::Pauses)),
    row("ethtool/tx_pause_frames", Class::Congestion, SLOW_HOST).sign(Sign::Congestion(Congestion::Pauses)),
    row("ethtool/tx_pfc_ena_frames_pri#", Class::Congestion, SLOW_HOST).sign(Sign::Congestion(Congestion::Pauses)),
    row("ethtool/tx_prio#_pause", Class::Congestion, SLOW_HOST).sign(Sign::Congestion(Congestion::Pauses)),
    row("ethtool/tx_priority_#_xoff.nic", Class::Congestion, SLOW_HOST).sign(Sign::Congestion(Congestion::Pauses)),
    row("ethtool/tx_stat_discard", Class::Drop, NONE),
    row("ethtool/tx_timeout", Class::Error, NONE),
    row("ethtool/wd_expired", Class::Error, NONE),
    row("excessive_buffer_overrun_errors", Class::Drop, NONE).lost(),
    row("impaired_remote_conn_events", Class::Congestion, "none: a peer is reached badly").lost().sign(Sign::Congestion(Congestion::Peer)),
    row("implied_nak_seq_err", Class::Retransmission, FEW).lost().sign(Sign::SentAgain),
    row("link_downed", Class::Error, NONE).lost().sign(Sign::WentDown { counts: 1 }),
    row("link_error_recovery", Class::Error, NONE).lost().sign(Sign::Damage("the link had to be trained again: cable or optics")),
    row("local_ack_timeout_err", Class::Retransmission, "none: the surest sign of loss").lost().sign(Sign::TimedOut),
    row("local_link_integrity_errors", Class::Error, NONE).lost().sign(DAMAGED),
    row("max_retry_exceeded", Class::Error, "none: a connection broke").lost(),
    row("missing_resp", Class::Retransmission, FEW),
    row("np_cnp_sent", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::Incast)),
    row("np_ecn_marked_roce_packets", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::Incast)),
    row("oos_drop_count", Class::Drop, NONE).lost(),
    row("out_of_buffer", Class::Drop, NONE).lost(),
    row("out_of_sequence", Class::Retransmission, "none; many with adaptive routing").lost(),
    row("packet_seq_err", Class::Retransmission, FEW).lost().sign(Sign::SentAgain),
    row("port_rcv_constraint_errors", Class::Error, NONE).lost(),
    row("port_rcv_errors", Class::Error, NONE).lost().sign(RECEIVED_DAMAGED),
    row("port_rcv_remote_physical_errors", Class::Error, "none; the fault is elsewhere").lost().sign(Sign::Damage("packets that were damaged further away")),
    row("port_xmit_constraint_errors", Class::Error, NONE).lost(),
    row("port_xmit_discards", Class::Drop, NONE).lost().sign(Sign::FullBuffer("packets that could not be sent: congestion, or the other end does not take them")),
    row("port_xmit_wait", Class::Congestion, "any; too much where throughput is low").time(),
    row("rdma_read_wr_err", Class::Error, NONE).lost().sign(Sign::Damage("RDMA reads that failed")),
    row("rdma_write_wr_err", Class::Error, NONE).lost().sign(Sign::Damage("RDMA writes that failed")),
    row("req_cqe_error", Class::Error, "none but at the end of a job"),
    row("req_remote_access_errors", Class::Error, NONE),
    row("req_rnr_retries_exceeded", Class::Error, "none: a connection broke"),
    row("req_transport_retries_exceeded", Class::Error, "none: a connection broke"),
    row("requester_oos_nak", Class::Retransmission, FEW).sign(Sign::SentAgain),
    row("requester_timeout", Class::Retransmission, NONE).sign(Sign::TimedOut),
    row("resp_cqe_error", Class::Error, "none but at the end of a job"),
    row("resp_remote_access_errors", Class::Error, NONE),
    row("retrans_pkts", Class::Retransmission, "few: the network drops some").lost().sign(Sign::SentAgain),
    row("retrans_timeout_events", Class::Retransmission, FEW).lost().sign(Sign::TimedOutOnPath),
    row("rnr_nak_retry_err", Class::Retransmission, NONE).lost(),
    row("rnr_naks_rcvd", Class::Retransmission, NONE),
    row("roce_adp_retrans", Class::Retransmission, FEW).lost().sign(Sign::SentAgain),
    row("roce_adp_retrans_to", Class::Retransmission, FEW).lost().sign(Sign::TimedOut),
    row("roce_slow_restart_cnps", Class::Congestion, FEW),
    row("rp_cnp_handled", Class::Congestion, SOME).sign(Sign::Congestion(Congestion::HeldBack)),
    row("rp_cnp_ignored", Class::Congestion, NONE).sign(Sign::Congestion(Congestion::HeldBack)),
    row("rx_crc_errors", Class::Part, NONE).sign(RECEIVED_DAMAGED),
    row("rx_dropped", Class::Drop, "some: frames that no protocol wants count, too").lost(),
    row("rx_drops", Class::Drop, NONE).lost(),
    row("rx_errors", Class::Error, NONE).lost().sign(Sign::Damage("packets received with errors")),
    row("rx_frame_errors", Class::Part, NONE).sign(RECEIVED_DAMAGED),
    row("rx_icrc_encapsulated", Class::Error, NONE).lost().sign(Sign::Damage("packets whose contents were changed on the way: optics, or a switch that rewrites headers")),
    row("rx_missed_errors", Class::Drop, NONE),
    row("rx_roce_discards", Class::Drop, NONE).lost(),
    row("rx_roce_errors", Class::Error, NONE).lost().sign(Sign::Damage("damaged packets received")),
    row("seq_err_naks_rcvd", Class::Retransmission, FEW).lost().sign(Sign::SentAgain),
    row("symbol_error", Class::Error, "few, and not steadily more").lost().sign(DAMAGED),
    row("to_retransmits", Class::Retransmission, NONE).lost().sign(Sign::TimedOut),
    row("tx_carrier_errors", Class::Part, NONE).sign(Sign::Damage("packets that could not be sent: the link went away")),
    row("tx_dropped", Class::Drop, NONE).lost(),
    row("tx_errors", Class::Error, NONE).lost().sign(UNSENT),
    row("tx_roce_discards", Class::Drop, NONE).lost(),
    row("tx_roce_errors", Class::Error, NONE).lost().sign(UNSENT),
    row("unresponsive_remote_events", Class::Error, "none: a peer does not answer").lost().sign(Sign::Congestion(Congestion::Peer)),
    row("VL15_dropped", Class::Drop, FEW),
];

/// `None`: traffic, or not known.
pub fn meaning(name: &str) -> Option<&'static Meaning> {
    MEANINGS.iter().find(|meaning| is(meaning.name, name))
}

/// Whether a name is one that a pattern means, in which `#` stands for a number of one or two digits.
pub fn is(pattern: &str, name: &str) -> bool {
    let Some((start, end)) = pattern.split_once('#') else { return pattern == name };
    let number = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    number.is_some_and(|number| (1..=2).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit()))
}
