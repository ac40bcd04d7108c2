//! What NCCL's RAS threads say of themselves and of one another.

use crate::findings::Severity;
use crate::text::signature::{Part, Scope, Signature, Table};

#[rustfmt::skip]
pub static TABLE: Table = Table {
    title: "NCCL: RAS",
    scope: Scope::Nccl,
    rows: &[
        Signature {
            id: "ras-thread-ended", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["fatal error - RAS thread terminating"],
            means: "The RAS thread of this process met an error and ended. The job goes on; only what RAS tells of it is lost.",
            next: "Nothing for the job. The WARN before it says why. NCCL_RAS_ENABLE=0 does without RAS.",
            source: "NCCL ras/ras.cc", versions: "2.24 to 2.25",
            examples: &["node-01:189884:189991 [0] ras/ras.cc:560 NCCL WARN fatal error - RAS thread terminating"],
        },
        Signature {
            id: "ras-unknown-message", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["RAS received unknown message type (#) from ", "RAS received unknown notification type "],
            means: "A RAS thread got a message that it does not know: processes with different NCCL versions share a RAS network, or a stranger connected.",
            next: "Compare `NCCL version` of all ranks: mixed versions break more than RAS. `ss -tnp` shows who is behind the address.",
            source: "NCCL ras/ras.cc", versions: "2.24+",
            examples: &[
                "node-01:189884:189991 [0] ras/ras.cc:348 NCCL WARN RAS received unknown message type (9) from 10.0.0.7<43211>",
                "[2026-05-05 06:16:47] node-01:189884:189991 [0] ras/ras.cc:201 NCCL WARN RAS received unknown notification type 7",
            ],
        },
        Signature {
            id: "ras-client-status", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["Invalid client status #"],
            means: "An inconsistency inside RAS about a client that asks for the job's status. The job is not affected.",
            next: "Nothing; ask again. NCCL_RAS_ENABLE=0 does without RAS.",
            source: "NCCL ras/client_support.cc", versions: "2.24+",
            examples: &["[2026-05-05 06:16:47] node-01:189884:189991 [0] ras/client_support.cc:410 NCCL WARN Invalid client status 7"],
        },
        Signature {
            id: "ras-peer-dead", rule: "nccl-warn", severity: Severity::Warning, part: Part::Victim,
            texts: &["RAS declaring peer * as DEAD"],
            means: "RAS has not reached a process of the job for a minute and counts it as dead: the process, its host or the network to it is gone.",
            next: "Look at the host of that address: is it up, does the process live (`ps`, `dmesg -T`). If it lives and works, look at the network of NCCL_SOCKET_IFNAME.",
            source: "NCCL ras/peers.cc", versions: "2.24+, with NCCL_DEBUG_SUBSYS=RAS",
            examples: &["node-01:189884:189991 [0] NCCL INFO RAS declaring peer 10.0.0.7<43211> as DEAD; rasDeadPeersHash 0x5fb3a4b11cb9a0e2"],
        },
        Signature {
            id: "ras-keepalive-late", rule: "nccl-warn", severity: Severity::Info, part: Part::Victim,
            texts: &["RAS keep-alive timeout warning (#s) on socket connection with "],
            means: "RAS has heard nothing from another process for some seconds: that process is stopped, its host is overloaded or down, or the network fails. Often the first sign of a node that dies.",
            next: "If it does not end by itself, look at the host of that address: is it up, is the process stopped (state T in `ps`).",
            source: "NCCL ras/rasnet.cc", versions: "2.24+, with NCCL_DEBUG_SUBSYS=RAS",
            examples: &["node-01:189884:189991 [0] NCCL INFO RAS keep-alive timeout warning (5s) on socket connection with 10.0.0.7<43211>"],
        },
        Signature {
            id: "ras-connect-late", rule: "nccl-warn", severity: Severity::Info, part: Part::Victim,
            texts: &["RAS connect timeout warning (#s) on socket connection with "],
            means: "RAS has been trying for some seconds to connect to another process of the job.",
            next: "If it does not end by itself, look at the host of that address: is it up, does its process live, does a firewall stand between.",
            source: "NCCL ras/rasnet.cc", versions: "2.24+, with NCCL_DEBUG_SUBSYS=RAS",
            examples: &["node-01:189884:189991 [0] NCCL INFO RAS connect timeout warning (5s) on socket connection with 10.0.0.7<43211>"],
        },
    ],
};
