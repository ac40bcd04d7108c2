//! NCCL's proxy threads: they make connections and move data over the network for their GPU.

use crate::findings::Severity;
use crate::text::signature::{Part, Scope, Signature, Table};

#[rustfmt::skip]
pub static TABLE: Table = Table {
    title: "NCCL: proxy threads",
    scope: Scope::Nccl,
    rows: &[
        Signature {
            id: "proxy-op-failed", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["[Proxy Service #] Failed to execute operation "],
            means: "A proxy thread could not do what a rank asked of it (the line names the step). The reason is the WARN just before, often in another process.",
            next: "Read the WARN before it on this host, then the first WARN of the rank that is named.",
            source: "NCCL proxy.cc", versions: "all",
            examples: &[
                "node-01:189884:189995 [3] proxy.cc:1497 NCCL WARN [Proxy Service 3] Failed to execute operation Connect from rank 3, retcode 3",
                "[2026-05-05 06:16:47] node-01:189884:189995 [3] proxy.cc:1714 NCCL WARN [Proxy Service 3] Failed to execute operation Setup from rank 3, retcode 2",
                "[2026-06-05 06:16:47] node-01:189884:189995 [3] proxy.cc:1750 (ncclProxyService) NCCL WARN [Proxy Service 3] Failed to execute operation SharedInit from rank 3, retcode 6",
            ],
        },
        Signature {
            id: "proxy-recv-failed", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["Socket recv failed while polling for opId=", "^Socket recv failed$"],
            means: "The process whose proxy should have answered is gone.",
            next: "Look for the first error of the other ranks of this host, and for SIGKILL: `dmesg -T | grep -i -E 'oom|killed'`.",
            source: "NCCL proxy.cc", versions: "2.17+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] proxy.cc:1326 NCCL WARN Socket recv failed",
                "node-01:189884:189990 [3] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x7f1c2bffe2a0",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] proxy.cc:1256 NCCL WARN Socket recv failed while polling for opId=0x7f1c2bffe2a0",
            ],
        },
        Signature {
            id: "proxy-progress-error", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["[Service thread] Error encountered progressing operation="],
            means: "A proxy thread met an error while it set up a connection and hung up on the rank that had asked.",
            next: "Read the WARN before it of the same process: socket, InfiniBand or CUDA; then the peer's.",
            source: "NCCL proxy.cc", versions: "2.17+",
            examples: &["[2026-05-05 06:16:47] node-01:189884:189995 [3] proxy.cc:1609 NCCL WARN [Service thread] Error encountered progressing operation=Connect, res=3, closing connection"],
        },
        Signature {
            id: "proxy-recv-type", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["[Service thread] Could not receive type from localRank "],
            means: "Another rank of this host closed its connection to the proxy: its process has ended.",
            next: "Look for the first error of the local rank that is named, and for SIGKILL: `dmesg -T | grep -i -E 'oom|killed'`.",
            source: "NCCL proxy.cc", versions: "2.17+",
            examples: &[
                "node-01:189884:189995 [3] proxy.cc:1443 NCCL WARN [Service thread] Could not receive type from localRank 5, res=3, closed=0",
                "[2026-05-05 06:16:47] node-01:189884:189995 [3] proxy.cc:1658 NCCL WARN [Service thread] Could not receive type from localRank 5, res=3, closed=0",
            ],
        },
        Signature {
            id: "proxy-conn-closed", rule: "nccl-warn", severity: Severity::Info, part: Part::Teardown,
            texts: &["[Service thread] Connection closed by localRank "],
            means: "A rank of this host took its communicator down, or its process ended. Usual at the end of a job; many before that mean that a local process died.",
            next: "At the end of the job nothing. Otherwise look for the first error of that local rank.",
            source: "NCCL proxy.cc", versions: "all; hidden unless NCCL_DEBUG_SUBSYS has DESTROY from 2.30.3",
            examples: &["node-01:189884:189995 [3] NCCL INFO [Service thread] Connection closed by localRank 5"],
        },
        Signature {
            id: "proxy-accept", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["[Service thread] Accept failed "],
            means: "The proxy could not take a connection of a local rank: out of file descriptors, or the communicator is being taken down.",
            next: "\"Too many open files\": `ulimit -n 1048576`. Otherwise look for the first WARN of this process.",
            source: "NCCL proxy.cc", versions: "all; INFO from 2.30.3",
            examples: &[
                "node-01:189884:189995 [3] proxy.cc:1401 NCCL WARN [Service thread] Accept failed Too many open files",
            ],
        },
        Signature {
            id: "proxy-too-many", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["[Proxy service] Too many connections (# max)"],
            means: "More local ranks connected to a proxy than NCCL provides for: several ranks on one GPU, or strangers on its port.",
            next: "One rank for each GPU: check CUDA_VISIBLE_DEVICES and --nproc-per-node; look for left-over processes (`nvidia-smi`).",
            source: "NCCL proxy.cc", versions: "all",
            examples: &["node-01:189884:189995 [3] proxy.cc:1394 NCCL WARN [Proxy service] Too many connections (64 max)"],
        },
        Signature {
            id: "proxy-poll", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["[Proxy Service] Poll failed: ", "[Proxy Service UDS] Poll failed: "],
            means: "The proxy thread cannot wait for requests any more; its sockets are gone or the system is out of memory.",
            next: "Look for the first WARN of this process; `free -g` and the kernel log if there is none.",
            source: "NCCL proxy.cc", versions: "2.16+",
            examples: &[
                "node-01:189884:189995 [3] proxy.cc:1378 NCCL WARN [Proxy Service] Poll failed: Bad file descriptor",
                "[2026-05-05 06:16:47] node-01:189884:189996 [3] proxy.cc:1801 NCCL WARN [Proxy Service UDS] Poll failed: Cannot allocate memory",
            ],
        },
        Signature {
            id: "proxy-cuda-ctx", rule: "nccl-warn", severity: Severity::Warning, part: Part::Victim,
            texts: &[
                "[Proxy Service] Failed to set CUDA device #", "[Proxy Progress] Failed to set CUDA device #", "[Proxy Service UDS] Failed to set CUDA device #",
                "Failed to create CUDA context on device #", "Unable to create thread context due to old driver, disabling.",
            ],
            means: "A proxy thread could not use its GPU: usually CUDA is shutting down already, or broken by an earlier error; \"old driver\" only switches an option off.",
            next: "Look for the CUDA error or Xid before it. At the end of the job it means nothing.",
            source: "NCCL proxy.cc", versions: "all",
            examples: &[
                "node-01:189884:189995 [3] proxy.cc:1339 NCCL WARN [Proxy Service] Failed to set CUDA device 3",
                "node-01:189884:189997 [3] proxy.cc:872 NCCL WARN [Proxy Progress] Failed to set CUDA device 3",
                "[2026-05-05 06:16:47] node-01:189884:189996 [3] proxy.cc:1780 NCCL WARN [Proxy Service UDS] Failed to set CUDA device 3",
                "node-01:189884:189995 [3] proxy.cc:810 NCCL WARN Failed to create CUDA context on device 3",
                "node-01:189884:189995 [3] proxy.cc:799 NCCL WARN Unable to create thread context due to old driver, disabling.",
            ],
        },
        Signature {
            id: "proxy-mismatch", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &[
                "Mismatched response size for opId=", "Proxy response for opId=* doesn't match any expected response", "Couldn't find opId=",
                "Storing response for already completed opId=",
            ],
            means: "A proxy's answer does not fit any question of this rank: the connection got out of step after an error, or an inconsistency inside NCCL.",
            next: "Look for the first WARN of this process. Without one: compare the NCCL versions of the ranks and report it with NCCL_DEBUG=INFO output.",
            source: "NCCL proxy.cc", versions: "2.17+",
            examples: &[
                "node-01:189884:189990 [3] proxy.cc:61 NCCL WARN Mismatched response size for opId=0x7f1c2bffe2a0",
                "node-01:189884:189990 [3] proxy.cc:82 NCCL WARN Proxy response for opId=0x7f1c2bffe2a0 doesn't match any expected response",
                "node-01:189884:189990 [3] proxy.cc:141 NCCL WARN Couldn't find opId=0x7f1c2bffe2a0",
                "node-01:189884:189990 [3] proxy.cc:66 NCCL WARN Storing response for already completed opId=0x7f1c2bffe2a0",
            ],
        },
        Signature {
            id: "proxy-abort", rule: "nccl-warn", severity: Severity::Info, part: Part::Victim,
            texts: &["Comm 0x* is in abort state"],
            means: "The communicator is being aborted, by the application or its watchdog; a call that was under way ended for that reason.",
            next: "Look for who aborted it: the watchdog's timeout, an exception, or the first WARN.",
            source: "NCCL proxy.cc", versions: "2.17+",
            examples: &["node-01:189884:189990 [3] proxy.cc:1261 NCCL WARN Comm 0x55d0c0de0010 is in abort state"],
        },
        Signature {
            id: "proxy-shutdown", rule: "nccl-warn", severity: Severity::Info, part: Part::Teardown,
            texts: &["[Proxy Service] proxyDestroy failed", "[Service thread] shm close failed", "[Service thread] proxy ops shm unlink failed"],
            means: "The proxy could not give everything back when the communicator ended.",
            next: "Nothing; with no job running, rm /dev/shm/nccl-* removes what was left.",
            source: "NCCL proxy.cc", versions: "all",
            examples: &[
                "node-01:189884:189995 [3] proxy.cc:1530 NCCL WARN [Proxy Service] proxyDestroy failed",
                "node-01:189884:189995 [3] proxy.cc:1545 NCCL WARN [Service thread] shm close failed",
                "node-01:189884:189995 [3] proxy.cc:1551 NCCL WARN [Service thread] proxy ops shm unlink failed",
            ],
        },
    ],
};
