//! Shared memory and Unix sockets between the ranks of one host.

use crate::findings::Severity;
use crate::text::signature::{Part, Scope, Signature, Table};

#[rustfmt::skip]
pub static TABLE: Table = Table {
    title: "NCCL: shared memory and local sockets",
    scope: Scope::Nccl,
    rows: &[
        Signature {
            id: "shm-no-space", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Error: failed to extend * to # bytes"],
            means: "/dev/shm is too small or full: a file of NCCL could not get its size. Docker gives 64 MB unless told otherwise; files of jobs that were killed stay there.",
            next: "`df -h /dev/shm` in the container; give it more: `docker run --shm-size=16g` or --ipc=host, in Kubernetes an emptyDir with medium: Memory on /dev/shm. With no job running: rm /dev/shm/nccl-*. Data loader workers use it too.",
            source: "NCCL misc/shmutils.cc", versions: "2.16+",
            examples: &[
                "node-01:189884:189990 [3] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-WpTg9k to 33030532 bytes",
                "node-01:189884:189990 [3] misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-WpTg9k to 33030532 bytes, error: No space left on device (28)",
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] os/linux.cc:480 (ncclOsShmOpen) NCCL WARN Error: failed to extend /dev/shm/nccl-WpTg9k to 33030532 bytes, error: No space left on device (28)",
            ],
        },
        Signature {
            id: "shm-create", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Error: failed to create shared memory file "],
            means: "NCCL could not make a file in /dev/shm: it is read-only, not mounted, or belongs to somebody else.",
            next: "`ls -ld /dev/shm; mount | grep shm` in the container: it should be a tmpfs with mode 1777. NCCL_SHM_DISABLE=1 to go on without, slower.",
            source: "NCCL misc/shmutils.cc", versions: "2.22+; a number in place of the path up to 2.23",
            examples: &[
                "node-01:189884:189990 [3] misc/shmutils.cc:78 NCCL WARN Error: failed to create shared memory file 0x7f1c2bffe2a0, error Permission denied (13)",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/shmutils.cc:81 NCCL WARN Error: failed to create shared memory file /dev/shm/nccl-XXXXXX, error Read-only file system (30)",
            ],
        },
        Signature {
            id: "shm-map", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Could not map * size #, error: "],
            means: "A shared memory file exists but could not be mapped into this process: memory or address space has run out, or a limit is reached.",
            next: "`ulimit -v; ulimit -l; free -g; cat /proc/sys/vm/max_map_count`, and the container's memory limit: pages of /dev/shm count against it.",
            source: "NCCL misc/shmutils.cc", versions: "2.16+",
            examples: &[
                "node-01:189884:189990 [3] misc/shmutils.cc:88 NCCL WARN Could not map /dev/shm/nccl-WpTg9k size 33030528, error: Cannot allocate memory",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/shmutils.cc:104 NCCL WARN Error: Could not map /dev/shm/nccl-WpTg9k size 33030528, error: Cannot allocate memory (12)",
            ],
        },
        Signature {
            id: "shm-segment", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Error while creating shared memory segment ", "Error while attaching to shared memory segment "],
            means: "Shared memory between two ranks of one host could not be made, or not be found by the second one: then the two are in containers that do not share /dev/shm.",
            next: "Creating: `df -h /dev/shm`, see the WARN before. Attaching with \"No such file\": run the containers of one host with --ipc=host or a common /dev/shm. If the name is empty or size is 0: NCCL_CUMEM_HOST_ENABLE=0. NCCL_SHM_DISABLE=1 goes around it, slower.",
            source: "NCCL misc/shmutils.cc", versions: "2.16+",
            examples: &[
                "node-01:189884:189990 [3] misc/shmutils.cc:114 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-WpTg9k (size 33030528)",
                "node-01:189884:189990 [4] misc/shmutils.cc:114 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-WpTg9k (size 33030528)",
                "[2026-05-05 06:16:47] node-01:189884:189990 [4] misc/shmutils.cc:129 NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-WpTg9k (size 33030528), error: No such file or directory (2)",
            ],
        },
        Signature {
            id: "shm-unmap", rule: "nccl-warn", severity: Severity::Info, part: Part::Teardown,
            texts: &["munmap of shared memory * failed, error: ", "unlink shared memory * failed, error: "],
            means: "Shared memory could not be given back when a communicator ended.",
            next: "Nothing; with no job running, rm /dev/shm/nccl-* removes what was left.",
            source: "NCCL misc/shmutils.cc", versions: "2.16+",
            examples: &[
                "node-01:189884:189990 [3] misc/shmutils.cc:141 NCCL WARN munmap of shared memory 0x7f1c20000000 size 33030528 failed, error: Invalid argument",
                "node-01:189884:189990 [3] misc/shmutils.cc:165 NCCL WARN unlink shared memory /dev/shm/nccl-WpTg9k failed, error: No such file or directory",
            ],
        },
        Signature {
            id: "shm-locality", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["Ignoring SHM locality, must be 1 (sender side) or 2 (receiver side, default)"],
            means: "NCCL_SHM_LOCALITY has a value that NCCL does not know; it took 2.",
            next: "Unset NCCL_SHM_LOCALITY, or set 1 or 2.",
            source: "NCCL transport/shm.cc", versions: "2.14+",
            examples: &["node-01:189884:189990 [3] transport/shm.cc:521 NCCL WARN Ignoring SHM locality, must be 1 (sender side) or 2 (receiver side, default)"],
        },
        Signature {
            id: "shm-invalid", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Invalid argument comm *, desc *, hptr ", "Invalid argument desc *, hptr "],
            means: "An inconsistency inside NCCL's shared memory transport.",
            next: "Look for an earlier WARN of this process. Without one: NCCL_SHM_DISABLE=1 goes around it; try another NCCL version and report it with NCCL_DEBUG=INFO output.",
            source: "NCCL transport/shm.cc", versions: "2.23+",
            examples: &[
                "node-01:189884:189990 [3] transport/shm.cc:590 NCCL WARN Invalid argument comm 0x55d0c0de0010, desc 0x7f1c2bffe2a0, hptr (nil), descOut 0x7f1c2bffe310",
                "node-01:189884:189990 [3] transport/shm.cc:534 NCCL WARN Invalid argument desc (nil), hptr 0x7f1c2bffe2a0",
            ],
        },
        Signature {
            id: "uds-failed", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &[
                "UDS: Socket creation error : ", "UDS: Binding to socket*failed : ", "UDS: Sending data over socket*failed : ", "UDS: Receiving data over socket*failed",
                "UDS: Cannot bind provided name to socket. Name too large",
            ],
            means: "Ranks of one host could not pass file descriptors of GPU memory over a Unix socket. \"Connection refused\" (111) is what containers with separate network namespaces give; \"Too many open files\" is the limit of descriptors.",
            next: "Put all ranks of one host in one container, or run the containers with --network=host and --ipc=host; `ulimit -n 1048576`; NCCL_CUMEM_ENABLE=0 does without these sockets. If a local rank died before, its own error is the cause.",
            source: "NCCL os/linux_ipcsocket.cc, misc/ipcsocket.cc", versions: "2.17+; only the number up to 2.18",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ipcsocket.cc:35 NCCL WARN UDS: Socket creation error : Too many open files (24)",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ipcsocket.cc:63 NCCL WARN UDS: Binding to socket /tmp/nccl-socket-3-9f1e2d failed : Address already in use (98)",
                "node-01:189884:189990 [3] misc/ipcsocket.cc:200 NCCL WARN UDS: Sending data over socket failed : 111",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] misc/ipcsocket.cc:212 NCCL WARN UDS: Sending data over socket /tmp/nccl-socket-5-9f1e2d failed : Connection refused (111)",
                "node-01:189884:189990 [3] misc/ipcsocket.cc:131 NCCL WARN UDS: Receiving data over socket failed : 104",
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] os/linux_ipcsocket.cc:140 (ncclIpcSocketRecvMsg) NCCL WARN UDS: Receiving data over socket /tmp/nccl-socket-5-9f1e2d failed",
                "node-01:189884:189990 [3] misc/ipcsocket.cc:48 NCCL WARN UDS: Cannot bind provided name to socket. Name too large",
            ],
        },
        Signature {
            id: "uds-proxy", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &[
                "ncclProxyClientGetFd call to tpRank * failed : #", "ncclProxyCallBlockingUDS call to tpRank * failed : #",
                "ncclProxyClientQueryFdBlocking call to tpRank * failed : #", "ncclProxyClientGetFd call to rank * failed : #",
                "ncclProxyCallBlockingUDS call to rank * failed : #", "ncclProxyClientConvertFd call to top parent rank * failed : #",
            ],
            means: "Another rank of this host did not give a file descriptor of its GPU memory: its process is gone, or in a container that Unix sockets do not reach.",
            next: "Look for the UDS WARN before it and the first error of the rank that it names; see uds-failed for containers.",
            source: "NCCL proxy.cc", versions: "2.18+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] proxy.cc:1102 NCCL WARN ncclProxyClientGetFd call to tpRank 5 handle 0x7f1c2bffe2a0 failed : 2",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] proxy.cc:1205 NCCL WARN ncclProxyCallBlockingUDS call to tpRank 5(9f1e2d7c11aa0b3e) failed : 2",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] proxy.cc:1150 NCCL WARN ncclProxyClientQueryFdBlocking call to tpRank 5 localFd 212 failed : 2",
                "node-01:189884:189990 [3] proxy.cc:991 NCCL WARN ncclProxyClientGetFd call to rank 5 handle 0x7f1c2bffe2a0 failed : 2",
                "node-01:189884:189990 [3] proxy.cc:960 NCCL WARN ncclProxyCallBlockingUDS call to rank 5(9f1e2d7c11aa0b3e) failed : 2",
                "node-01:189884:189990 [3] proxy.cc:1001 NCCL WARN ncclProxyClientConvertFd call to top parent rank 5 handle 0x7f1c2bffe2a0 failed : 2",
            ],
        },
    ],
};
