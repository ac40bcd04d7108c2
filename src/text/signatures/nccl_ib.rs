//! InfiniBand and RoCE: NCCL's own verbs transport.

use crate::findings::Severity;
use crate::text::signature::{Part, Scope, Signature, Table};

const COMPLETION: &str = "NCCL transport/net_ib";

/// The line of a failed work completion in all versions' forms, for one or several statuses.
macro_rules! status_texts {
    ($(($no:literal, $name:literal)),+) => {
        [$(
            concat!("completion from peer * with error ", $no, ", opcode "),
            concat!("completion from peer * with status=", $no, " opcode="),
            concat!("completion from peer * with status=IBV_WC_", $name, "("),
        )+]
    };
}

/// In the same order: up to 2.19, 2.20, 2.22, 2.28.7, 2.29 and 2.30.7; then GPU-initiated traffic.
#[rustfmt::skip]
macro_rules! status_examples {
    ($(($no:literal, $name:literal, $vendor:literal)),+) => {
        [$(
            concat!("node-01:189884:189997 [3] transport/net_ib.cc:1339 NCCL WARN NET/IB : Got completion from peer 10.0.0.7<43211> with error ", $no, ", opcode 32631, len 32630, vendor err ", $vendor, " (Send) localGid fe80::bace:f6ff:fe3d:1a2c remoteGid fe80::bace:f6ff:fe3d:1b44"),
            concat!("node-01:189884:189997 [3] transport/net_ib.cc:1698 NCCL WARN NET/IB : Got completion from peer 10.0.0.7<43211> with status=", $no, " opcode=32631 len=0 vendor err ", $vendor, " (Recv) localGid ::ffff:10.8.0.1 remoteGids::ffff:10.8.0.7"),
            concat!("[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib.cc:2239 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<43211> with status=", $no, " opcode=1 len=0 vendor err ", $vendor, " (Send) localGid ::ffff:10.8.0.1 remoteGids::ffff:10.8.0.7 hca mlx5_3"),
            concat!("[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib.cc:2477 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<43211> with status=IBV_WC_", $name, "(", $no, ") opcode=IBV_WC_RDMA_WRITE(1) reqSize=4194304 vendor_err=", $vendor, " req_type=Send localGid ::ffff:10.8.0.1 remoteGids::ffff:10.8.0.7 hca mlx5_3"),
            concat!("[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<43211> with status=IBV_WC_", $name, "(", $no, ") opcode=IBV_WC_SEND(0) vendor_err=", $vendor, "  localGid ::ffff:10.8.0.1 remoteGids::ffff:10.8.0.7 hca mlx5_3"),
            concat!("[2026-06-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p.cc:688 (ncclIbLogCompletionWithError) NCCL WARN NET/IB: Got completion from peer 10.0.0.7<43211> with status=IBV_WC_", $name, "(", $no, ") opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=", $vendor, "  hca mlx5_3"),
            concat!("[2026-05-05 06:16:47] node-01:189884:189998 [3] transport/net_ib/gin.cc:612 NCCL WARN NET/IB/GIN: Got completion from peer 10.0.0.7<43211> with status=", $no, " opcode=1 len=0 vendor err ", $vendor, " (Send) hca mlx5_3"),
        )+]
    };
}

#[rustfmt::skip]
pub static TABLE: Table = Table {
    title: "NCCL: InfiniBand and RoCE",
    scope: Scope::Nccl,
    rows: &[
        // Work completions; opcode and length mean nothing in them
        Signature {
            id: "ib-local-len", rule: "collective-mismatch", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("1", "LOC_LEN_ERR")),
            means: "A message did not fit the receive buffer: the two ranks expected different sizes, as with mismatched collectives or settings that differ.",
            next: "Compare NCCL_* and NCCL versions of the two ranks; look in the program for shapes that differ by rank (uneven last batch); TORCH_DISTRIBUTED_DEBUG=DETAIL checks each collective.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("1", "LOC_LEN_ERR", "0")),
        },
        Signature {
            id: "ib-qp-op", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("2", "LOC_QP_OP_ERR")),
            means: "The adapter found an inconsistency in a queue pair while it carried out a request of this host: as a rule driver or firmware, seldom a bad request.",
            next: "`dmesg -T | grep mlx5`; `ibv_devinfo -v` for the firmware; bring driver (OFED) and firmware of both hosts to one supported version; `ibv_rc_pingpong` and `ib_write_bw` between the two hosts.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("2", "LOC_QP_OP_ERR", "0")),
        },
        Signature {
            id: "ib-local-eec-op", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("3", "LOC_EEC_OP_ERR")),
            means: "An inconsistency in an end-to-end context, which only reliable datagrams have. NCCL uses none: the status itself is a fault of driver or adapter.",
            next: "`dmesg -T | grep mlx5`; update driver and firmware; swap the adapter if it comes again on the same one.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("3", "LOC_EEC_OP_ERR", "0")),
        },
        Signature {
            id: "ib-local-prot", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("4", "LOC_PROT_ERR")),
            means: "The adapter of this host may not read or write the buffer: memory that is no longer registered, or GPUDirect RDMA that does not work here (ACS, IOMMU, nvidia-peermem).",
            next: "Try NCCL_NET_GDR_LEVEL=0: if that helps, `lspci -vvv | grep ACSCtl` must show no SrcValid+ on the PCI switches, IOMMU off or in passthrough, `lsmod | grep nvidia_peermem`. Otherwise a buffer was freed while in use.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("4", "LOC_PROT_ERR", "81")),
        },
        Signature {
            id: "ib-flush", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &status_texts!(("5", "WR_FLUSH_ERR")),
            means: "The queue pair was in error already and what waited in it was thrown away. It follows from another error: an earlier completion with another status, a port that went down, or the peer.",
            next: "Look for the first completion with another status and for \"port error\", on this host and the peer's. If this is the very first error at start-up: GPUDirect RDMA between the NICs of one host; try NCCL_NET_GDR_LEVEL=0 and look at ACS (`lspci -vvv | grep ACSCtl`).",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("5", "WR_FLUSH_ERR", "249")),
        },
        Signature {
            id: "ib-mw-bind", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("6", "MW_BIND_ERR")),
            means: "A memory window could not be bound. NCCL binds none: the status is a fault of a plugin, the driver or the adapter.",
            next: "If a network plugin is loaded, try NCCL_NET_PLUGIN=none; `dmesg -T | grep mlx5`; update driver and firmware.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("6", "MW_BIND_ERR", "0")),
        },
        Signature {
            id: "ib-bad-resp", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("7", "BAD_RESP_ERR")),
            means: "The other adapter answered with something that this one did not expect.",
            next: "Update driver and firmware of both hosts to one version; look for a peer that was restarted; `ib_write_bw` between the two hosts shows whether the pair fails without NCCL.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("7", "BAD_RESP_ERR", "0")),
        },
        Signature {
            id: "ib-local-access", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("8", "LOC_ACCESS_ERR")),
            means: "Incoming data was to be written to memory of this host that is not registered for it.",
            next: "A buffer that was freed or registered anew while transfers were under way: with user buffer registration try NCCL_LOCAL_REGISTER=0; try NCCL_NET_GDR_LEVEL=0 to leave out GPUDirect.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("8", "LOC_ACCESS_ERR", "0")),
        },
        Signature {
            id: "ib-remote-inv-req", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("9", "REM_INV_REQ_ERR")),
            means: "The other side did not accept the request: it expected another size or nothing at all, or its process was restarted and the connection is stale.",
            next: "Look for the first error of the peer's host; compare NCCL_* and NCCL versions of the two ranks; TORCH_DISTRIBUTED_DEBUG=DETAIL finds collectives of different sizes.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("9", "REM_INV_REQ_ERR", "138")),
        },
        Signature {
            id: "ib-remote-access", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("10", "REM_ACCESS_ERR")),
            means: "The other side does not permit access to the address: its buffer was freed or registered anew, or its keys are wrong.",
            next: "Look for the first error of the peer's host; with user buffer registration try NCCL_LOCAL_REGISTER=0; try NCCL_NET_GDR_LEVEL=0, and NCCL_NET_PLUGIN=none if a plugin is loaded.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("10", "REM_ACCESS_ERR", "136")),
        },
        Signature {
            id: "ib-remote-op", rule: "nccl-warn", severity: Severity::Error, part: Part::Messenger,
            texts: &status_texts!(("11", "REM_OP_ERR")),
            means: "The other side could not carry out the request: a fault of its adapter, its PCI path or its memory.",
            next: "Look on the peer's host: the first WARN there, `dmesg -T | grep -i -E 'mlx5|AER|Xid'`.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("11", "REM_OP_ERR", "137")),
        },
        Signature {
            id: "ib-retry-exceeded", rule: "nccl-warn", severity: Severity::Error, part: Part::Messenger,
            texts: &status_texts!(("12", "RETRY_EXC_ERR")),
            means: "The other adapter did not acknowledge for the whole retry time: its host, process, port, cable or switch is gone, or the network loses packets (RoCE without working PFC/ECN), or GID or MTU do not fit.",
            next: "Find what is dead: the host of that address, its first WARN and `dmesg -T`. On both hosts `ibstat` or `rdma link`, `ethtool -S IFACE | grep -E 'discard|pause|out_of_seq'`, `perfquery -x`. If all live: show_gids and NCCL_IB_GID_INDEX, PFC of NCCL_IB_TC; NCCL_IB_TIMEOUT=22 rides out short outages.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("12", "RETRY_EXC_ERR", "129")),
        },
        Signature {
            id: "ib-rnr-retry", rule: "nccl-warn", severity: Severity::Error, part: Part::Messenger,
            texts: &status_texts!(("13", "RNR_RETRY_EXC_ERR")),
            means: "The other rank had no receive ready for longer than the adapter waits: its process or proxy thread hangs, is stopped or starved of CPU.",
            next: "Look at the peer: `ps -o stat,wchan PID`, CPU pinning and load, `py-spy dump --pid PID`; a GPU that hangs (Xid).",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("13", "RNR_RETRY_EXC_ERR", "135")),
        },
        Signature {
            id: "ib-local-rdd-violation", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("14", "LOC_RDD_VIOL_ERR")),
            means: "A reliable datagram domain does not fit. NCCL uses none: the status itself is a fault of driver or adapter.",
            next: "`dmesg -T | grep mlx5`; update driver and firmware; swap the adapter if it comes again on the same one.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("14", "LOC_RDD_VIOL_ERR", "0")),
        },
        Signature {
            id: "ib-remote-inv-rd-req", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("15", "REM_INV_RD_REQ_ERR")),
            means: "The other side refused a reliable datagram request. NCCL uses none: the status itself is a fault of driver or adapter.",
            next: "`dmesg -T | grep mlx5` on both hosts; update driver and firmware.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("15", "REM_INV_RD_REQ_ERR", "0")),
        },
        Signature {
            id: "ib-remote-abort", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &status_texts!(("16", "REM_ABORT_ERR")),
            means: "The other side aborted the operation.",
            next: "Look for the first error on the peer's host; its end is the cause.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("16", "REM_ABORT_ERR", "0")),
        },
        Signature {
            id: "ib-inv-eecn", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("17", "INV_EECN_ERR")),
            means: "A number of an end-to-end context that does not exist. NCCL uses none: the status itself is a fault of driver or adapter.",
            next: "`dmesg -T | grep mlx5`; update driver and firmware; swap the adapter if it comes again on the same one.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("17", "INV_EECN_ERR", "0")),
        },
        Signature {
            id: "ib-inv-eec-state", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("18", "INV_EEC_STATE_ERR")),
            means: "An end-to-end context in a wrong state. NCCL uses none: the status itself is a fault of driver or adapter.",
            next: "`dmesg -T | grep mlx5`; update driver and firmware; swap the adapter if it comes again on the same one.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("18", "INV_EEC_STATE_ERR", "0")),
        },
        Signature {
            id: "ib-fatal", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &status_texts!(("19", "FATAL_ERR"), ("20", "RESP_TIMEOUT_ERR"), ("21", "GENERAL_ERR")),
            means: "The adapter or its firmware failed: a fatal transport error (19), no answer in time (20), or an error that has no other name (21).",
            next: "`dmesg -T | grep -i -E 'mlx5|AER'` on this host: health and PCI errors; drain the node and reset the adapter (mlxfwreset or reboot), update its firmware; swap it if it comes again.",
            source: COMPLETION, versions: "all",
            examples: &status_examples!(("19", "FATAL_ERR", "0"), ("20", "RESP_TIMEOUT_ERR", "0"), ("21", "GENERAL_ERR", "0")),
        },
        Signature {
            id: "ib-completion", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Got completion from peer * with "],
            means: "A transfer over InfiniBand or RoCE failed with a status that only some adapters have (tag matching: 22, 23), or the line is torn.",
            next: "Look for the first completion error of the job with another status, and for the first WARN of the host of that address; `dmesg -T | grep mlx5` on both.",
            source: COMPLETION, versions: "all",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p.cc:688 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<43211> with status=IBV_WC_TM_ERR(22) opcode=IBV_WC_SEND(0) vendor_err=0  hca mlx5_3",
            ],
        },
        // Events
        Signature {
            id: "ib-port-event", rule: "nic-down", severity: Severity::Error, part: Part::Cause,
            texts: &["Got async event : port error", "Got async error event: port error", "Got non-fatal async event: port error("],
            means: "A port of an InfiniBand or RoCE adapter went down: cable, switch port, switch, or somebody took the link away. Transfers over it fail with status 12 some seconds later.",
            next: "`ibstat DEV` or `rdma link`, `ip -brief link`, `dmesg -T | grep -i link`; cable and optics: `mlxlink -d DEV -m -c`; the switch's log. The line names device and port from 2.20 on.",
            source: "NCCL transport/net_ib", versions: "all",
            examples: &[
                "node-01:189884:189990 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error",
                "node-01:189884:189990 [0] transport/net_ib.cc:108 NCCL WARN NET/IB : mlx5_3:1 Got async event : port error",
                "node-01:189884:189990 [0] transport/net_ib.cc:255 NCCL WARN NET/IB : mlx5_3:1 Got async error event: port error",
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/net_ib.cc:271 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)",
                "[2026-06-05 06:16:47] node-01:189884:189990 [0] transport/net_ib/common.cc:120 (ncclIbAsyncThreadMain) NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)",
            ],
        },
        Signature {
            id: "ib-port-active", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["Got async event : port active", "Got async error event: port active", "Got non-fatal async event: port active("],
            means: "A port of an InfiniBand or RoCE adapter is up again. It was down before: a link that flaps.",
            next: "Look for the \"port error\" before it and how long it was down; cable and optics: `mlxlink -d DEV -m -c`. Short outages are ridden out with NCCL_IB_TIMEOUT=22 and NCCL_IB_RETRY_CNT=7.",
            source: "NCCL transport/net_ib", versions: "all",
            examples: &[
                "node-01:189884:189990 [0] transport/net_ib.cc:108 NCCL WARN NET/IB : mlx5_3:1 Got async event : port active",
                "node-01:189884:189990 [0] transport/net_ib.cc:255 NCCL WARN NET/IB : mlx5_3:1 Got async error event: port active",
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/net_ib.cc:271 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: port active(9)",
            ],
        },
        Signature {
            id: "ib-lid-changed", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &[
                "Got async event : LID change", "Got async error event: LID change", "Got non-fatal async event: LID change(",
                "Got async event : P_Key change", "Got async error event: P_Key change", "Got non-fatal async event: P_Key change(",
            ],
            means: "The subnet manager gave the port another address (LID) or other partition keys. Connections that use the old ones fail.",
            next: "Look at the subnet manager: was it restarted or moved, without keeping its LIDs (`sminfo`, opensm's log); NCCL_IB_PKEY if partitions changed. Restart the job if it does not go on.",
            source: "NCCL transport/net_ib", versions: "all",
            examples: &[
                "node-01:189884:189990 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : LID change",
                "node-01:189884:189990 [0] transport/net_ib.cc:255 NCCL WARN NET/IB : mlx5_3:1 Got async error event: LID change",
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/net_ib.cc:271 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: LID change(11)",
                "node-01:189884:189990 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : P_Key change",
                "node-01:189884:189990 [0] transport/net_ib.cc:255 NCCL WARN NET/IB : mlx5_3:1 Got async error event: P_Key change",
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/net_ib.cc:271 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: P_Key change(12)",
            ],
        },
        Signature {
            id: "ib-async-event", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["Got async event : ", "Got async error event: ", "Got non-fatal async event: "],
            means: "The adapter told of something that breaks no connection by itself, such as another subnet manager (\"SM change\", \"client reregistration\") or a queue that has emptied.",
            next: "Nothing while the job goes on. Many of them: look at the subnet manager (`sminfo`, its log).",
            source: "NCCL transport/net_ib", versions: "all",
            examples: &[
                "node-01:189884:189990 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : client reregistration",
                "node-01:189884:189990 [0] transport/net_ib.cc:108 NCCL WARN NET/IB : mlx5_3:1 Got async event : SM change",
                "node-01:189884:189990 [0] transport/net_ib.cc:255 NCCL WARN NET/IB : mlx5_3:1 Got async error event: client reregistration",
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/net_ib.cc:271 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: client reregistration(17)",
            ],
        },
        Signature {
            id: "ib-gid-changed", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["NET/IB : * GID table changed", "Got async event : GID table change", "Got async error event: GID table change", "Got non-fatal async event: GID table change"],
            means: "An IP address was added to or taken from a RoCE interface, so that the numbers of its GIDs may have moved. Connections over a GID that is gone break.",
            next: "`show_gids` and `ip -brief address` on that host; find what changes addresses while jobs run (DHCP, NetworkManager, a CNI plugin). Do not set NCCL_IB_GID_INDEX if the index is not the same on all hosts.",
            source: "NCCL transport/net_ib", versions: "all; its own text from 2.28",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/net_ib.cc:262 NCCL WARN NET/IB : mlx5_3:1 GID table changed",
                "node-01:189884:189990 [0] transport/net_ib.cc:108 NCCL WARN NET/IB : mlx5_3:1 Got async event : GID table change",
                "node-01:189884:189990 [0] transport/net_ib.cc:255 NCCL WARN NET/IB : mlx5_3:1 Got async error event: GID table change",
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/net_ib.cc:271 NCCL WARN NET/IB : mlx5_3:1 Got non-fatal async event: GID table change(18)",
            ],
        },
        Signature {
            id: "ib-async-fatal", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &[
                "async fatal event: ", "async fatal event on CQ (", "async fatal event on QP (", "async fatal event on SRQ, unused for now (",
                "Got async event : local catastrophic error", "Got async event : local work queue catastrophic error",
                "Got async event : local access violation work queue error", "Got async event : invalid request local work queue error", "Got async event : CQ error",
            ],
            means: "The adapter reported a failure of itself (\"local catastrophic error\"), of a completion queue or of a connection. On a QP, \"access violation\" and \"invalid request\" mean that the peer sent what was not expected, or that a buffer was gone.",
            next: "Of the device: `dmesg -T | grep -i -E 'mlx5|AER'`, drain the node, reset the adapter, update its firmware. Of a QP: the completion errors at the same time on both hosts; compare NCCL versions and settings of the ranks.",
            source: "NCCL transport/net_ib", versions: "2.23+; as \"Got async event\" before",
            examples: &[
                "node-01:189884:189990 [0] transport/net_ib.cc:224 NCCL WARN NET/IB : mlx5_3:1 async fatal event: local catastrophic error",
                "node-01:189884:189990 [0] transport/net_ib.cc:229 NCCL WARN NET/IB : mlx5_3:1 async fatal event on CQ (0x7f1c2bffe2a0): CQ error",
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/net_ib.cc:236 NCCL WARN NET/IB : mlx5_3:1 async fatal event on QP (0x762cfc0e23c8): invalid request local work queue error",
                "[2026-06-05 06:16:47] node-01:189884:189990 [0] transport/net_ib/common.cc:101 (ncclIbAsyncThreadMain) NCCL WARN NET/IB : mlx5_3:1 async fatal event on QP (0x762cfc0e23c8) qpn=4711: local access violation work queue error",
                "node-01:189884:189990 [0] transport/net_ib.cc:241 NCCL WARN NET/IB : mlx5_3:1 async fatal event on SRQ, unused for now (0x762cfc0e23c8): SRQ catastrophic error",
                "node-01:189884:189990 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : local catastrophic error",
                "node-01:189884:189990 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : local work queue catastrophic error",
                "node-01:189884:189990 [0] transport/net_ib.cc:108 NCCL WARN NET/IB : mlx5_3:1 Got async event : local access violation work queue error",
                "node-01:189884:189990 [0] transport/net_ib.cc:108 NCCL WARN NET/IB : mlx5_3:1 Got async event : invalid request local work queue error",
                "node-01:189884:189990 [0] transport/net_ib.cc:108 NCCL WARN NET/IB : mlx5_3:1 Got async event : CQ error",
            ],
        },
        Signature {
            id: "ib-comm-fatal", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["communicator encountered a fatal error (detected in "],
            means: "The adapter had reported a fatal event before; NCCL noticed it now and gives the communicator up.",
            next: "Look for the \"async fatal event\" line before it: it names the device and the kind. NCCL_IB_RETURN_ASYNC_EVENTS=0 only takes this check away.",
            source: "NCCL transport/net_ib", versions: "2.23+",
            examples: &[
                "node-01:189884:189997 [1] transport/net_ib.cc:113 NCCL WARN communicator encountered a fatal error (detected in ncclIbIrecv)",
                "[2026-05-05 06:16:47] node-01:189884:189997 [1] transport/net_ib/common.cc:31 NCCL WARN communicator encountered a fatal error (detected in ncclIbTest)",
            ],
        },
        Signature {
            id: "ib-unknown-event", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["NET/IB : * unknown event type (#)"],
            means: "The adapter told of an event that this NCCL does not know.",
            next: "Nothing while the job goes on; `dmesg -T | grep mlx5` if it fails at the same time.",
            source: "NCCL transport/net_ib", versions: "2.23+",
            examples: &["node-01:189884:189990 [0] transport/net_ib.cc:259 NCCL WARN NET/IB : mlx5_3:1 unknown event type (21)"],
        },
        // Verbs
        Signature {
            id: "ib-verbs-failed", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Call to ibv_* failed"],
            means: "A call of the verbs library failed; the line names it and mostly the reason.",
            next: "`ibv_devinfo` in the container: does it see the devices of the host, is /dev/infiniband there (docker --device=/dev/infiniband). `ulimit -l` should be unlimited; `dmesg -T | grep mlx5`.",
            source: "NCCL misc/ibvwrap.cc", versions: "all; errno from 2.19",
            examples: &[
                "node-01:189884:189990 [3] misc/ibvwrap.cc:94 NCCL WARN Call to ibv_open_device failed",
                "node-01:189884:189990 [3] misc/ibvwrap.cc:130 NCCL WARN Call to ibv_query_gid failed with error No such file or directory",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ibvwrap.cc:208 NCCL WARN Call to ibv_create_qp failed with error Invalid argument errno 22",
            ],
        },
        Signature {
            id: "ib-no-memory", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Call to ibv_* failed with error Cannot allocate memory"],
            means: "The process may not pin (lock) as much memory as InfiniBand needs for its queues and buffers; seldom the adapter has no queues left.",
            next: "`ulimit -l unlimited`: in /etc/security/limits.d, LimitMEMLOCK=infinity of slurmd, `docker run --ulimit memlock=-1`, in Kubernetes the runtime's limits; /proc/PID/limits shows what the process has. If it is unlimited: fewer communicators or NCCL_IB_QPS_PER_CONNECTION=1.",
            source: "NCCL misc/ibvwrap.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] misc/ibvwrap.cc:177 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ibvwrap.cc:208 NCCL WARN Call to ibv_create_qp failed with error Cannot allocate memory errno 12",
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] misc/ibvwrap.cc:231 (wrap_ibv_create_cq) NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory errno 12",
            ],
        },
        Signature {
            id: "ib-reg-bad-address", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Call to ibv_reg_mr* failed with error Bad address"],
            means: "GPU memory could not be registered with the adapter: nvidia-peermem is not loaded, or does not know this kind of memory.",
            next: "`lsmod | grep nvidia_peermem`, `modprobe nvidia-peermem`; with open kernel modules and CUDA 11.7 or later DMA-BUF does without it (NCCL_DMABUF_ENABLE=1). NCCL_NET_GDR_LEVEL=0 goes on without GPUDirect, slower.",
            source: "NCCL misc/ibvwrap.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] misc/ibvwrap.cc:188 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ibvwrap.cc:196 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address errno 14",
            ],
        },
        Signature {
            id: "ib-modify-qp", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Call to ibv_modify_qp failed with "],
            means: "A connection could not be set up: the adapter cannot use the peer's address, or has no way to it.",
            next: "From 2.24 on the line holds both GIDs: `show_gids` on both hosts, `ip route get PEER` for RoCE, `ibping` for InfiniBand. \"Network is unreachable\" or \"No such device\": the interface of that GID has no route or is down.",
            source: "NCCL misc/ibvwrap.cc", versions: "all; with states and GIDs from 2.24",
            examples: &[
                "node-01:189884:189990 [3] misc/ibvwrap.cc:228 NCCL WARN Call to ibv_modify_qp failed with error No such device",
                "node-01:189884:189990 [3] misc/ibvwrap.cc:228 NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable errno 101",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ibvwrap.cc:314 NCCL WARN Call to ibv_modify_qp failed with 101 Network is unreachable, on dev mlx5_3:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.8.0.1, remote GID ::ffff:10.9.0.7",
            ],
        },
        Signature {
            id: "ib-modify-qp-timeout", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Call to ibv_modify_qp failed with 110 ", "Call to ibv_modify_qp failed with error Connection timed out"],
            means: "RoCE could not find the peer's hardware address: there is no route from this NIC to that one (rails that are not connected to one another), or ARP is not answered.",
            next: "`ping -I LOCAL_IP REMOTE_IP` with the IPs of the two GIDs. If rails are separate networks: NCCL_CROSS_NIC=0; otherwise repair the route, VLAN or firewall. Many addresses in one subnet: net.ipv4.conf.all.arp_ignore and arp_announce.",
            source: "NCCL misc/ibvwrap.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] misc/ibvwrap.cc:228 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
                "node-01:189884:189990 [3] misc/ibvwrap.cc:228 NCCL WARN Call to ibv_modify_qp failed with error Connection timed out errno 110",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ibvwrap.cc:314 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.8.0.1, remote GID ::ffff:10.9.0.7",
            ],
        },
        Signature {
            id: "ib-modify-qp-invalid", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Call to ibv_modify_qp failed with 22 ", "Call to ibv_modify_qp failed with error Invalid argument"],
            means: "The adapter refused the parameters of a connection, as a rule because of a GID index that does not exist or is of another kind (RoCE v1, link-local, IPv6) than the peer's.",
            next: "`show_gids` on both hosts; unset NCCL_IB_GID_INDEX (2.21+ finds it) or set the index of the RoCE v2 entry with the IPv4 address. Containers need the network namespace of the interface: --network=host or a CNI for RDMA.",
            source: "NCCL misc/ibvwrap.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] misc/ibvwrap.cc:228 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ibvwrap.cc:314 NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_3:1, curr state INIT, next state RTR, local GID index 0, local GID fe80::bace:f6ff:fe3d:1a2c, remote GID ::ffff:10.8.0.7",
            ],
        },
        Signature {
            id: "ib-modify-qp-retry", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["Call to ibv_modify_qp failed with *, retrying #/# after # ms"],
            means: "A RoCE connection could not be set up yet, because the peer's hardware address was not found; NCCL tries again.",
            next: "Nothing if it goes on afterwards. If it comes for every connection: `ping -I LOCAL_IP REMOTE_IP` with the IPs of the two GIDs.",
            source: "NCCL misc/ibvwrap.cc", versions: "2.24+, with NCCL_DEBUG_SUBSYS=NET",
            examples: &["node-01:189884:189990 [3] NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:10.8.0.1, remote GID ::ffff:10.8.0.7, retrying 1/34 after 100 msec of sleep"],
        },
        Signature {
            id: "ib-hint", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["HINT: In many cases this error indicates that "],
            means: "NCCL's own guess at the reason of the InfiniBand or RoCE error just before.",
            next: "Try what the next HINT line says (NCCL_CROSS_NIC=0, NCCL_IB_GID_INDEX, NCCL_NET_GDR_LEVEL=0, NCCL_IB_TIMEOUT): it is a quick test, not always the cure.",
            source: "NCCL misc/ibvwrap.cc, transport/net_ib", versions: "2.30.7, with NCCL_DEBUG_SUBSYS=NET",
            examples: &[
                "node-01:189884:189990 [3] NCCL INFO HINT: In many cases this error indicates that the NICs are not cross-rail connected.",
                "node-01:189884:189997 [3] NCCL INFO HINT: In many cases this error indicates that ACS is enabled, which breaks the GPU Direct RDMA protocol.",
            ],
        },
        Signature {
            id: "ib-post-failed", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["ibv_post_send() failed with error ", "ibv_post_recv() failed with error ", "Call to ibv_poll_cq() returned "],
            means: "The adapter took no further request or gave no results: the queue pair is in error or full, or the adapter is gone.",
            next: "Look for a completion error or port event before it. Without one: `dmesg -T | grep mlx5`; \"Cannot allocate memory\" is a full queue: try without NCCL_IB_QPS_PER_CONNECTION and NCCL_IB_SPLIT_DATA_ON_QPS.",
            source: "NCCL include/ibvwrap.h", versions: "all",
            examples: &[
                "node-01:189884:189997 [3] include/ibvwrap.h:78 NCCL WARN ibv_post_send() failed with error Cannot allocate memory, Bad WR 0x7f1c2bffe2a0, First WR 0x7f1c2bffe2a0",
                "node-01:189884:189997 [3] include/ibvwrap.h:88 NCCL WARN ibv_post_recv() failed with error Invalid argument",
                "[2026-06-05 06:16:47] node-01:189884:189997 [3] include/ibvwrap.h:68 (wrap_ibv_poll_cq) NCCL WARN Call to ibv_poll_cq() returned -1",
            ],
        },
        Signature {
            id: "ib-symbol", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["dlvsym failed on * version "],
            means: "The verbs library in this container is older than NCCL would like; NCCL does without what it lacks.",
            next: "Install a newer rdma-core (libibverbs1, ibverbs-providers) in the image if DMA-BUF or relaxed ordering are wanted.",
            source: "NCCL misc/ibvsymbols.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] misc/ibvsymbols.cc:87 NCCL WARN dlvsym failed on ibv_reg_dmabuf_mr - /lib/x86_64-linux-gnu/libibverbs.so.1: undefined symbol: ibv_reg_dmabuf_mr, version IBVERBS_1.12 version IBVERBS_1.12",
            ],
        },
        // Devices
        Signature {
            id: "ib-open-device", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["NET/IB : Unable to open device ", "NET/IB : Unable to query device ", "NET/IB : Unable to query port"],
            means: "An adapter is listed but cannot be used: no permission on /dev/infiniband in the container, or it was reset or taken away. NCCL leaves it out.",
            next: "`ls -l /dev/infiniband; ibv_devinfo` in the container; give it in with --device=/dev/infiniband or the RDMA device plugin; `dmesg -T | grep mlx5`. NCCL_IB_HCA=^DEV leaves it out on purpose.",
            source: "NCCL transport/net_ib", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] transport/net_ib.cc:222 NCCL WARN NET/IB : Unable to open device mlx5_3",
                "node-01:189884:189990 [3] transport/net_ib.cc:229 NCCL WARN NET/IB : Unable to query device mlx5_3",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net_ib.cc:662 NCCL WARN NET/IB : Unable to query port_num 1",
            ],
        },
        Signature {
            id: "ib-no-ip", rule: "wrong-interface", severity: Severity::Error, part: Part::Cause,
            texts: &["NET/IB : No IP interface found."],
            means: "There are InfiniBand adapters, but no IP interface over which the ranks could exchange addresses.",
            next: "`ip -brief address` in the container; give it a network (--network=host), or correct NCCL_SOCKET_IFNAME.",
            source: "NCCL transport/net_ib", versions: "all",
            examples: &["node-01:189884:189990 [3] transport/net_ib.cc:206 NCCL WARN NET/IB : No IP interface found."],
        },
        Signature {
            id: "ib-realpath", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["^Could not find real path of * (*)"],
            means: "A device is not found below /sys in this container, so that NCCL does not know where it is plugged in and may choose a farther one.",
            next: "Mount /sys into the container (read-only is enough), or give NCCL_TOPO_FILE.",
            source: "NCCL transport/net_ib, graph/xml.cc", versions: "all",
            examples: &["node-01:189884:189990 [3] transport/net_ib.cc:180 NCCL WARN Could not find real path of /sys/class/infiniband/mlx5_3/device (/sys/class/infiniband/mlx5_3/device)"],
        },
        Signature {
            id: "ib-not-ready", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["ncclIbIsend() called when comm->", "ncclIbIrecv() called when comm->"],
            means: "NCCL was to use a connection that was never completed, after an error while it was being made.",
            next: "Look for the first WARN of the connection set-up on this rank and its peer.",
            source: "NCCL transport/net_ib", versions: "2.17+",
            examples: &[
                "node-01:189884:189997 [3] transport/net_ib.cc:1066 NCCL WARN NET/IB: ncclIbIsend() called when comm->ready == 0",
                "[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib.cc:2052 NCCL WARN NET/IB: ncclIbIrecv() called when comm->base.ready == 0",
            ],
        },
        // Transfers
        Signature {
            id: "ib-recv-mismatch", rule: "collective-mismatch", severity: Severity::Error, part: Part::Cause,
            texts: &["collective mismatch error, local size # remote size #"],
            means: "This rank wants to send more than the other one expects at the same place: they called different collectives, or the same one with different sizes.",
            next: "Look in the program for shapes that differ by rank (uneven last batch, branches on data or rank); TORCH_DISTRIBUTED_DEBUG=DETAIL checks each collective. Compare NCCL_* of the ranks.",
            source: "NCCL transport/net_ib.cc", versions: "up to 2.19",
            examples: &["node-01:189884:189997 [3] transport/net_ib.cc:1087 NCCL WARN NET/IB : req 0/1 tag 1f peer 10.0.0.7<43211> collective mismatch error, local size 1048576 remote size 524288"],
        },
        Signature {
            id: "ib-recv-bad-info", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["posted incorrect receive info: size "],
            means: "The receive that the other rank announced makes no sense (no address, no key): another NCCL version there, or memory that was overwritten.",
            next: "Compare `NCCL version` and NCCL_IB_* of the two ranks; look for an earlier error of the peer.",
            source: "NCCL transport/net_ib", versions: "all",
            examples: &[
                "node-01:189884:189997 [3] transport/net_ib.cc:1094 NCCL WARN NET/IB : req 0/1 tag 1f peer 10.0.0.7<43211> posted incorrect receive info: size 0 addr 0 rkey 0",
                "[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p.cc:170 NCCL WARN NET/IB : req 0/1 tag 1f peer 10.0.0.7<43211> posted incorrect receive info: size 0 addr 0 rkeys[0]=0",
            ],
        },
        Signature {
            id: "ib-mr-cache", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["NET/IB: could not find mr * inside cache of # entries", "NET/IB : could not find mr * inside cache of # entries"],
            means: "A memory registration was to be given back that NCCL does not know: given back twice, or an inconsistency inside NCCL.",
            next: "With user buffer registration: is each ncclCommDeregister called once and before the buffer is freed. Otherwise look for an earlier WARN, try NCCL_LOCAL_REGISTER=0.",
            source: "NCCL transport/net_ib", versions: "all",
            examples: &[
                "node-01:189884:189997 [3] transport/net_ib.cc:1020 NCCL WARN NET/IB: could not find mr 0x7f1c2bffe2a0 inside cache of 12 entries",
                "node-01:189884:189997 [3] transport/net_ib.cc:1020 NCCL WARN NET/IB : could not find mr 0x7f1c2bffe2a0 inside cache of 12 entries",
            ],
        },
        // Several devices
        Signature {
            id: "ib-merge-mismatch", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &[
                "Trying to merge multiple devices together when NCCL_IB_MERGE_NICS=0", "Can't merge net devices with different link_layer", "Attempted to merge incompatible devices: ",
            ],
            means: "NICs or ports that do not fit together, such as one InfiniBand and one RoCE, were to be joined to one virtual NIC.",
            next: "`ibstat | grep -E 'CA |Link layer'`: take ports of one kind with NCCL_IB_HCA, or switch joining off with NCCL_NET_MERGE_LEVEL=LOC (NCCL_IB_MERGE_NICS=0 up to 2.23).",
            source: "NCCL transport/net_ib", versions: "2.20+",
            examples: &[
                "node-01:189884:189990 [3] transport/net_ib.cc:410 NCCL WARN NET/IB : Trying to merge multiple devices together when NCCL_IB_MERGE_NICS=0. Please enable it or disable device merging in NCCL.",
                "node-01:189884:189990 [3] transport/net_ib.cc:1340 NCCL WARN NET/IB : Can't merge net devices with different link_layer. i=1 remMeta.ndevs=2 link_layer=1 rem_link_layer=2",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net_ib.cc:470 NCCL WARN NET/IB : Attempted to merge incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE. Try selecting NICs of only one link type using NCCL_IB_HCA",
            ],
        },
        Signature {
            id: "ib-connect-mismatch", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &[
                "NET/IB : Attempted to connect incompatible devices: ", "NET/IB : Remote * device is incompatible with the local ",
                "Can't connect net devices with different link_layer",
            ],
            means: "One rank's NIC is InfiniBand and its peer's RoCE: the two cannot talk. The nodes use different NICs or list them in different order.",
            next: "`ibstat | grep -E 'CA |Link layer'` on both nodes; set NCCL_IB_HCA so that all nodes use ports of one kind, such as NCCL_IB_HCA=^mlx5_bond_0.",
            source: "NCCL transport/net_ib", versions: "2.20+",
            examples: &[
                "node-01:189884:189990 [3] transport/net_ib.cc:1120 NCCL WARN NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [4]mlx5_4:1/RoCE. Try selecting NICs of only one link type using NCCL_IB_HCA",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net_ib.cc:1502 NCCL WARN NET/IB : Remote RoCE device is incompatible with the local [4]mlx5_4:1/IB. Try selecting NICs of only one link type using NCCL_IB_HCA",
                "node-01:189884:189990 [3] transport/net_ib.cc:1333 NCCL WARN NET/IB : Can't connect net devices with different link_layer. i=1 remMeta.ndevs=2 link_layer=1 rem_link_layer=2",
            ],
        },
        Signature {
            id: "ib-vdev", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &[
                "NET/IB : Can't make virtual NIC with 0 devices", "NET/IB : Cannot allocate any more virtual devices (#)", "NET/IB : Cannot use physical device #, max #",
                "NET/IB : Trying to use non-existent virtual device #", "NET/IB : Trying to use non-existant virtual device #",
                "NET/IB : Requested properties for vNic #, only # vNics have been created",
            ],
            means: "A virtual NIC was asked for that cannot be made or does not exist.",
            next: "If NCCL_NET_FORCE_MERGE or NCCL_TOPO_FILE is set, try without it; NCCL_NET_MERGE_LEVEL=LOC does without virtual NICs.",
            source: "NCCL transport/net_ib", versions: "2.24+",
            examples: &[
                "node-01:189884:189990 [3] transport/net_ib.cc:415 NCCL WARN NET/IB : Can't make virtual NIC with 0 devices",
                "node-01:189884:189990 [3] transport/net_ib.cc:420 NCCL WARN NET/IB : Cannot allocate any more virtual devices (64)",
                "node-01:189884:189990 [3] transport/net_ib.cc:460 NCCL WARN NET/IB : Cannot use physical device 9, max 8",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net_ib.cc:1250 NCCL WARN NET/IB : Trying to use non-existent virtual device 9",
                "node-01:189884:189990 [3] transport/net_ib.cc:1250 NCCL WARN NET/IB : Trying to use non-existant virtual device 9",
                "node-01:189884:189990 [3] transport/net_ib.cc:905 NCCL WARN NET/IB : Requested properties for vNic 9, only 8 vNics have been created",
            ],
        },
        Signature {
            id: "ib-too-many-planes", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["NCCL cannot use more than # plane IDs.", "NCCL cannot use a plane ID that is "],
            means: "The NICs carry more plane numbers than NCCL can tell apart, or one that it keeps for itself.",
            next: "Use fewer planes: take NICs with NCCL_IB_HCA, and correct the plane numbers in its setting or the topology file.",
            source: "NCCL transport/net_ib", versions: "2.30.7",
            examples: &[
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] transport/net_ib/init.cc:88 (ncclIbGetPlaneIndex) NCCL WARN NCCL cannot use more than 16 plane IDs.",
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] transport/net_ib/init.cc:92 (ncclIbGetPlaneIndex) NCCL WARN NCCL cannot use a plane ID that is 16384.",
            ],
        },
        // Addresses
        Signature {
            id: "ib-flid", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["Warning: remote FLID configured as zero even when endpoints are on different subnets"],
            means: "Two ranks are in different InfiniBand subnets, and the subnet manager has given no address (FLID) that routers could use; NCCL takes the local one, which will hardly work.",
            next: "Have FLIDs configured in the subnet managers and the IB router; or keep the job within one subnet.",
            source: "NCCL transport/net_ib", versions: "2.22+",
            examples: &["node-01:189884:189990 [3] transport/net_ib.cc:1050 NCCL WARN Warning: remote FLID configured as zero even when endpoints are on different subnets, using dlid as fallback"],
        },
        Signature {
            id: "ib-roce-gid-file", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["open failed in ncclIbRoceGetVersionNum: ", "read failed in ncclIbRoceGetVersionNum: "],
            means: "NCCL could not read below /sys which RoCE version a GID has, and may take a wrong one.",
            next: "Mount /sys into the container; `cat /sys/class/infiniband/DEV/ports/1/gid_attrs/types/*`. Or set NCCL_IB_GID_INDEX to the RoCE v2 entry that `show_gids` lists.",
            source: "NCCL transport/net_ib", versions: "2.23+",
            examples: &[
                "node-01:189884:189990 [3] transport/net_ib.cc:520 NCCL WARN NET/IB: open failed in ncclIbRoceGetVersionNum: No such file or directory",
                "node-01:189884:189990 [3] transport/net_ib.cc:526 NCCL WARN NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument",
            ],
        },
        Signature {
            id: "ib-addr-range", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["NET/IB: Ip address '*' is invalid for family *, ignoring address"],
            means: "NCCL_IB_ADDR_RANGE is not an address of the family that NCCL_IB_ADDR_FAMILY names; NCCL ignores it.",
            next: "Write NCCL_IB_ADDR_RANGE as 10.8.0.0/16, and NCCL_IB_ADDR_FAMILY=AF_INET or AF_INET6 to match.",
            source: "NCCL transport/net_ib", versions: "2.21+; INFO from 2.24",
            examples: &[
                "node-01:189884:189990 [3] transport/net_ib.cc:390 NCCL WARN NET/IB: Ip address '10.8.0' is invalid for family AF_INET, ignoring address",
                "node-01:189884:189990 [3] NCCL INFO NET/IB: Ip address '10.8.0' is invalid for family AF_INET, ignoring address",
            ],
        },
        Signature {
            id: "ib-subnet-prefix", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["NET/IB: NCCL_IB_SUBNET_PREFIX_LEN=* is out of range [1,32]"],
            means: "NCCL_IB_SUBNET_PREFIX_LEN has a value that no IPv4 prefix can have.",
            next: "Set it to the length of the RoCE network's prefix, 1 to 32, or unset it.",
            source: "NCCL transport/net_ib", versions: "2.30.7",
            examples: &[
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] transport/net_ib/init.cc:140 (ncclIbInitDevices) NCCL WARN NET/IB: NCCL_IB_SUBNET_PREFIX_LEN=64 is out of range [1,32]",
                "node-01:189884:189990 [3] NCCL INFO NET/IB: NCCL_IB_SUBNET_PREFIX_LEN=64 is out of range [1,32]",
            ],
        },
        Signature {
            id: "ib-data-direct", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["NET/IB: Error in mlx5dv_get_data_direct_sysfs_path with device ", "^NET/MLX5: "],
            means: "The direct data path of ConnectX-8 adapters (Data Direct), or another part of their own interface, could not be used.",
            next: "NCCL_IB_DATA_DIRECT=0 goes on without it, slower; update rdma-core, driver and firmware; mount /sys into the container.",
            source: "NCCL transport/net_ib, misc/mlx5dvwrap.cc", versions: "2.28+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net_ib.cc:788 NCCL WARN NET/IB: Error in mlx5dv_get_data_direct_sysfs_path with device mlx5_3",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/mlx5dvwrap.cc:71 NCCL WARN NET/MLX5: Failed to get data direct sysfs path",
            ],
        },
        Signature {
            id: "ib-ooo-rq", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["OOO RQ is force enabled but "],
            means: "Out-of-order receive queues were forced on, and this NIC, its adaptive routing setting or the peer does not support them.",
            next: "Unset NCCL_IB_OOO_RQ; or give all nodes NICs and firmware that can do it, with NCCL_IB_ADAPTIVE_ROUTING=1.",
            source: "NCCL transport/net_ib/connect.cc", versions: "2.30.3+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net_ib/connect.cc:520 NCCL WARN NET/IB: ncclIbSenderQpsCreate: OOO RQ is force enabled but AR is not enabled, which is required for OOO RQ (device=mlx5_3)",
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] transport/net_ib/connect.cc:531 (ncclIbSenderQpsCreate) NCCL WARN NET/IB: OOO RQ is force enabled but not supported on both sides of the connection (device=mlx5_3, localOooRq=1, remOooRq=0)",
            ],
        },
        // Fail-over
        Signature {
            id: "ib-failover", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["NET/IB:* Device # marked as failed."],
            means: "A NIC or its link failed and NCCL moves its traffic to another one: the job goes on, slower.",
            next: "Find the port that went down: `ibstat` or `rdma link`, `dmesg -T | grep -i link`, on this host and the peer's; drain the node at the next checkpoint.",
            source: "NCCL transport/net_ib/p2p_resiliency.cc", versions: "2.29.7+, with NCCL_IB_RESILIENCY_PORT_FAILOVER=1",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p_resiliency.cc:310 NCCL WARN NET/IB: ncclIbResiliencyHandleCompletionError: Device 1 marked as failed. (send comm=0x7f1c2bffe2a0)",
                "[2026-06-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p_resiliency.cc:340 (ncclIbResiliencyHandleCompletionError) NCCL WARN NET/IB: Device 1 marked as failed. Initiating recovery? Yes (recv comm=0x7f1c2bffe2a0)",
            ],
        },
        Signature {
            id: "ib-failover-fatal", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &[
                "NET/IB:* The error is fatal (*). Cannot continue.", "NET/IB:* Fatal error. Detected # failed devices out of # devices",
                "NET/IB:* Could not find a replacement QP ", "NET/IB:* Maximum number of probing attempts ", "NET/IB:* Could not find a functional device ",
            ],
            means: "A NIC or its link failed, and there is no other one left to move the traffic to.",
            next: "Find the ports that are down: `ibstat` or `rdma link` and `dmesg -T | grep -i link` on this host and the peer's; fail-over needs two NICs for each virtual one (NCCL_NET_MERGE_LEVEL).",
            source: "NCCL transport/net_ib/p2p_resiliency.cc", versions: "2.29.7+, with NCCL_IB_RESILIENCY_PORT_FAILOVER=1",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p_resiliency.cc:282 NCCL WARN NET/IB: ncclIbResiliencyHandleCompletionError: The error is fatal (No functional devices left). Cannot continue.",
                "[2026-06-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p_resiliency.cc:290 (ncclIbResiliencyHandleCompletionError) NCCL WARN NET/IB: Fatal error. Detected 2 failed devices out of 2 devices on send communicator",
                "[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p_resiliency.cc:92 NCCL WARN NET/IB: ncclIbResiliencyReplaceQps: Could not find a replacement QP for the failed QP with qpIndex=1 (devIndex=1)",
                "[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p_resiliency.cc:401 NCCL WARN NET/IB: ncclIbResiliencyPostProbe: Maximum number of probing attempts (10) reached for request 0x7f1c2bffe2a0 (id=77). Cannot post another probe.",
                "[2026-05-05 06:16:47] node-01:189884:189997 [3] transport/net_ib/p2p_resiliency.cc:423 NCCL WARN NET/IB: ncclIbResiliencyPostProbe: Could not find a functional device to post the probe for request 0x7f1c2bffe2a0 (id=77)",
            ],
        },
        Signature {
            id: "ib-resiliency-single", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["NET/IB:* Resiliency is enabled on a * communicator * with a single device."],
            means: "Fail-over between NICs is switched on, but each GPU's virtual NIC consists of one device: there is nothing to fail over to.",
            next: "Join NICs (NCCL_NET_MERGE_LEVEL, NCCL_NET_FORCE_MERGE), or leave NCCL_IB_RESILIENCY_PORT_FAILOVER unset.",
            source: "NCCL transport/net_ib/p2p_resiliency.cc", versions: "2.29.7+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net_ib/p2p_resiliency.cc:801 NCCL WARN NET/IB: ncclIbResiliencyDeviceNumSet: Resiliency is enabled on a send communicator (comm=0x7f1c2bffe2a0) with a single device. This does not make sense since there is no other device to fail over to.",
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] transport/net_ib/p2p_resiliency.cc:812 (ncclIbResiliencyDeviceNumSet) NCCL WARN NET/IB: Resiliency is enabled on a recv communicator (comm=0x7f1c2bffe2a0) with a single device. This does not make sense since there is no other device to fail over to.",
            ],
        },
    ],
};
