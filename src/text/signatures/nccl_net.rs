//! Which network is taken, its plugins, virtual NICs, and the transports between two ranks.

use crate::findings::Severity;
use crate::text::signature::{Part, Scope, Signature, Table};

#[rustfmt::skip]
pub static TABLE: Table = Table {
    title: "NCCL: network selection and transports",
    scope: Scope::Nccl,
    rows: &[
        Signature {
            id: "net-requested-missing", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Error: network * not found."],
            means: "NCCL_NET names a network that neither NCCL nor any plugin that it could load provides.",
            next: "`env | grep NCCL_NET`; the names are IB, Socket or that of the plugin (\"AWS Libfabric\", UCX). For a plugin: is its libnccl-net.so on LD_LIBRARY_PATH inside the container (`ldd` shows what it lacks). Without NCCL_NET NCCL chooses itself.",
            source: "NCCL net.cc", versions: "up to 2.26",
            examples: &[
                "node-01:189884:189884 [3] net.cc:345 NCCL WARN Error: network AWS Libfabric not found.",
                "[2026-05-05 06:16:47] node-01:189884:189884 [3] plugin/net.cc:220 NCCL WARN Error: network FOO not found.",
            ],
        },
        Signature {
            id: "net-init-failed", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Failed to initialize any NET plugin"],
            means: "No network came up: NCCL_NET names one that is absent, such as a plugin whose library was not found, or there is no usable interface at all.",
            next: "`env | grep -E 'NCCL_(NET|SOCKET_IFNAME|IB)'` and `ip -brief address` in the container; NCCL_DEBUG=INFO shows the plugin's own lines above this one; `ldd libnccl-net.so` what it lacks.",
            source: "NCCL plugin/net.cc", versions: "2.27+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189884 [3] plugin/net.cc:334 NCCL WARN Failed to initialize any NET plugin",
                "[2026-06-05 06:16:47] node-01:189884:189884 [3] plugin/net.cc:349 (ncclNetInit) NCCL WARN Failed to initialize any NET plugin",
            ],
        },
        Signature {
            id: "net-comm-name-mismatch", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Comm config netName (*) does not match the parent (*)"],
            means: "A communicator was made from another one with a network name in its configuration that is not its parent's.",
            next: "Leave netName out of the ncclConfig of the split, or give the one of its parent.",
            source: "NCCL plugin/net.cc", versions: "2.28.7+",
            examples: &["[2026-05-05 06:16:47] node-01:189884:189990 [3] plugin/net.cc:301 NCCL WARN Comm config netName (Socket) does not match the parent (IB)"],
        },
        Signature {
            id: "net-split-mismatch", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Split shares resources, but parent comm netName * is different from child comm netName "],
            means: "A communicator that was split off with shared resources would use another network than its parent.",
            next: "Give both the same netName, or set splitShare (shrinkShare) to 0.",
            source: "NCCL init.cc", versions: "2.18+",
            examples: &["node-01:189884:189990 [3] init.cc:352 NCCL WARN Split shares resources, but parent comm netName IB is different from child comm netName Socket"],
        },
        Signature {
            id: "net-device-version", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["NCCL_DEVICE_UNPACK plugin has incompatible version #, ", "Unknown device code index #"],
            means: "The network plugin unpacks data on the GPU in a version that this NCCL does not know; NCCL does not use it.",
            next: "Take the plugin's version that belongs to this NCCL (`NCCL version` in the log), or the NCCL that the plugin was built for.",
            source: "NCCL plugin/net.cc", versions: "2.19+",
            examples: &[
                "node-01:189884:189990 [3] net.cc:401 NCCL WARN NCCL_DEVICE_UNPACK plugin has incompatible version 6, this NCCL build is compatible with 7, not using it",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] plugin/net.cc:145 NCCL WARN Unknown device code index 9",
            ],
        },
        Signature {
            id: "net-count-mismatch", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Detected mixed local Net device counts across ranks ", "Detected mixed local CollNet device counts across ranks "],
            means: "The ranks do not see equally many network devices: on some node a NIC is down or missing, or is not given into the container.",
            next: "`ibstat` or `rdma link` on all nodes: find the node with fewer active ports, drain it; compare NCCL_IB_HCA and /dev/infiniband in the containers. NCCL_IGNORE_NET_MISMATCH=1 (NCCL_IGNORE_COLLNET_MISMATCH=1) goes on regardless.",
            source: "NCCL init.cc", versions: "2.30.3+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] init.cc:1240 NCCL WARN Detected mixed local Net device counts across ranks (min 7, max 8). Set NCCL_IGNORE_NET_MISMATCH=1 to continue.",
                "[2026-06-05 06:16:47] node-01:189884:189990 [3] init.cc:1262 (initTransportsRank) NCCL WARN Detected mixed local CollNet device counts across ranks (min 0, max 2). Set NCCL_IGNORE_COLLNET_MISMATCH=1 to continue.",
            ],
        },
        Signature {
            id: "no-transport", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["No transport found for rank "],
            means: "Between two ranks neither P2P nor shared memory nor a network can be used: they are switched off, or containers keep the ranks apart.",
            next: "`env | grep -E 'NCCL_(P2P|SHM|NET|IB)'`: do not set NCCL_P2P_DISABLE and NCCL_SHM_DISABLE together without a network. For ranks of one host in several containers: --ipc=host, and a network interface other than lo.",
            source: "NCCL transport.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] transport.cc:52 NCCL WARN No transport found for rank 3[1b000] -> rank 4[1c000]",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport.cc:60 NCCL WARN No transport found for rank 3[9d000] -> rank 4[ab000]",
            ],
        },
        Signature {
            id: "proxy-no-transport", rule: "nccl-warn", severity: Severity::Error, part: Part::Victim,
            texts: &["Rank # has no transport for send peer # on channel ", "Rank # has no transport for recv peer # on channel "],
            means: "A rank was to send to or receive from a peer that it never connected to, as a rule after a connection that failed.",
            next: "Look for the first WARN of the connection set-up of both ranks. Without one: ranks that took different algorithms; compare NCCL_* of the ranks.",
            source: "NCCL proxy.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] proxy.cc:538 NCCL WARN Rank 3 has no transport for send peer 7 on channel 4/1",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] proxy.cc:551 NCCL WARN Rank 3 has no transport for recv peer 7 on channel 4/1",
            ],
        },
        Signature {
            id: "peer-access-failed", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["failed to peer with device "],
            means: "CUDA refused direct access from one GPU to another although it had said that it is possible.",
            next: "`nvidia-smi topo -p2p r` and `nvidia-smi nvlink -s`; on NVSwitch machines `systemctl status nvidia-fabricmanager`; virtual machines and IOMMU/ACS can break it. NCCL_P2P_DISABLE=1 to go on without, slower.",
            source: "NCCL transport/p2p.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] transport/p2p.cc:183 NCCL WARN failed to peer with device 5(=ab000): 217 peer access is not supported between these two devices",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/p2p.cc:340 NCCL WARN failed to peer with device 5: 217 peer access is not supported between these two devices",
            ],
        },
        Signature {
            id: "ipc-handle-failed", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["cudaIpcGetMemHandle failed : "],
            means: "A buffer cannot be shared with other processes by CUDA IPC: it comes from an allocator that has no such handles (expandable segments, memory pools), or the container forbids it.",
            next: "Run the containers of one host with --ipc=host; PYTORCH_CUDA_ALLOC_CONF without expandable_segments, or NCCL_CUMEM_ENABLE=1 (2.19+); NCCL_P2P_DISABLE=1 tells whether that is it.",
            source: "NCCL transport/p2p.cc", versions: "all",
            examples: &["node-01:189884:189990 [3] transport/p2p.cc:241 NCCL WARN cudaIpcGetMemHandle failed : invalid argument"],
        },
        Signature {
            id: "pxn-host-buffers", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["PXN should not use host buffers for data"],
            means: "An inconsistency inside NCCL: data that goes over another GPU's NIC was placed in host memory.",
            next: "NCCL_PXN_DISABLE=1 avoids it; try a newer NCCL and report it with NCCL_DEBUG=INFO output.",
            source: "NCCL transport/net.cc", versions: "all",
            examples: &["node-01:189884:189990 [3] transport/net.cc:705 NCCL WARN PXN should not use host buffers for data"],
        },
        Signature {
            id: "net-maxbytes", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["ProxySetup: net plugin returned invalid value for maxP2pBytes ", "ProxySetup: collnet plugin returned invalid value for maxCollBytes "],
            means: "The network plugin gave NCCL a largest message size that cannot be: a plugin built for another version of the interface.",
            next: "Update or rebuild the network plugin for this NCCL version; NCCL_NET_PLUGIN=none shows whether NCCL's own network works.",
            source: "NCCL transport/net.cc, transport/coll_net.cc", versions: "2.24+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net.cc:290 NCCL WARN sendProxySetup: net plugin returned invalid value for maxP2pBytes 0       [allowed range: 0 - 1099511627776]",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/net.cc:330 NCCL WARN recvProxySetup: net plugin returned invalid value for maxP2pBytes 0       [allowed range: 0 - 1099511627776]",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] transport/coll_net.cc:310 NCCL WARN sendProxySetup: collnet plugin returned invalid value for maxCollBytes -1       [allowed range: 0 - 1099511627776]",
            ],
        },
        Signature {
            id: "gdr-flush-x86", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["NET: GDR Flush only supported on x86_64"],
            means: "GDRCopy's way to flush GPUDirect writes exists on x86 only; NCCL takes another.",
            next: "Nothing; NCCL_GDRCOPY_FLUSH_ENABLE=0 takes the message away.",
            source: "NCCL transport/net.cc", versions: "up to 2.30.4",
            examples: &["node-01:189884:189990 [3] transport/net.cc:1290 NCCL WARN NET: GDR Flush only supported on x86_64"],
        },
        // Virtual NICs
        Signature {
            id: "topo-vnic-fuse", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &[
                "TOPO/NET : Tried merging multiple devices together and failed.", "TOPO/NET : Could not force merge NICs ",
                "TOPO/NET : Only matched # devices, # requested from ", "Specified fused NIC * which has too many devices (#)",
                "TOPO/NET : Tried to merge too many NICs. # > #",
            ],
            means: "Several NICs or ports were to be joined to one virtual NIC, and that failed; NCCL uses them singly, or stops if NCCL_NET_FORCE_MERGE asked for it.",
            next: "NCCL_NET_MERGE_LEVEL=LOC switches joining off. If NCCL_NET_FORCE_MERGE is set, compare its names with `rdma link`: groups with commas, separated by semicolons, at most 4 NICs each.",
            source: "NCCL graph/topo.cc", versions: "2.24+",
            examples: &[
                "node-01:189884:189990 [3] graph/topo.cc:810 NCCL WARN TOPO/NET : Tried merging multiple devices together and failed. Try setting NCCL_NET_MERGE_LEVEL=LOC",
                "node-01:189884:189990 [3] NCCL INFO TOPO/NET : Tried merging multiple devices together and failed. vProps={ndevs=2, devs=[0 1 0 0]}. Set NCCL_NET_MERGE_LEVEL=LOC to disable NIC fusion.",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] graph/topo.cc:871 NCCL WARN TOPO/NET : Could not force merge NICs mlx5_0,mlx5_9. Please specify a valid NCCL_NET_FORCE_MERGE string.",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] graph/topo.cc:852 NCCL WARN TOPO/NET : Only matched 1 devices, 2 requested from mlx5_0,mlx5_9",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] graph/topo.cc:858 NCCL WARN Specified fused NIC mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4 which has too many devices (5). Max 4",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] graph/topo.cc:790 NCCL WARN TOPO/NET : Tried to merge too many NICs. 5 > 4",
            ],
        },
        Signature {
            id: "topo-nic-busid", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["TOPO/NET : Couldn't generate unique busId after # tries", "TOPO/NET : Can't find busId of child 0 "],
            means: "NCCL could not place a virtual NIC in the node's PCI tree.",
            next: "NCCL_NET_MERGE_LEVEL=LOC does without virtual NICs; if NCCL_TOPO_FILE is set, try without it: it may not describe this machine.",
            source: "NCCL graph/topo.cc", versions: "2.24+",
            examples: &[
                "node-01:189884:189990 [3] graph/topo.cc:741 NCCL WARN TOPO/NET : Couldn't generate unique busId after 1000 tries",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] graph/topo.cc:780 NCCL WARN TOPO/NET : Can't find busId of child 0 mlx5_0",
            ],
        },
        Signature {
            id: "topo-no-local-net", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Could not find any local path from gpu # to net."],
            means: "NCCL knows of no network device that a GPU can reach: none was found, or the topology file or the virtual machine hides them.",
            next: "`nvidia-smi topo -m` should show NICs; `rdma link` or `ip -brief address` in the container; try without NCCL_TOPO_FILE; check NCCL_IB_HCA and NCCL_SOCKET_IFNAME.",
            source: "NCCL graph/topo.cc", versions: "2.25+",
            examples: &["[2026-05-05 06:16:47] node-01:189884:189990 [3] graph/topo.cc:1550 NCCL WARN Could not find any local path from gpu 2 to net."],
        },
        Signature {
            id: "netdevs-policy", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["Invalid number of network devices = # for policy MAX", "Unknown netDevs policy"],
            means: "NCCL_NETDEVS_POLICY has a value that NCCL cannot use.",
            next: "Take AUTO, ALL or MAX:N with N of at least 1, or unset NCCL_NETDEVS_POLICY.",
            source: "NCCL graph/topo.cc", versions: "2.28+",
            examples: &[
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] graph/topo.cc:1575 NCCL WARN Invalid number of network devices = 0 for policy MAX",
                "[2026-05-05 06:16:47] node-01:189884:189990 [3] graph/topo.cc:1580 NCCL WARN Unknown netDevs policy",
            ],
        },
        // CollNet, SHARP
        Signature {
            id: "collnet-fallback", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["Cannot initialize CollNet, using point-to-point network instead"],
            means: "Reductions in the network (SHARP) were asked for and are not available; the job runs without them.",
            next: "Nothing if you do not need SHARP: NCCL_COLLNET_ENABLE=0. Otherwise look at the lines of sharp_plugin above it, and whether the SHARP aggregation manager runs (`sharp_hello`).",
            source: "NCCL init.cc, transport/coll_net.cc", versions: "all",
            examples: &[
                "node-01:189884:189990 [3] init.cc:890 NCCL WARN Cannot initialize CollNet, using point-to-point network instead",
                "[2026-05-05 06:16:47] node-01:189884:189990 [0] transport/coll_net.cc:1330 NCCL WARN Cannot initialize CollNet, using point-to-point network instead",
            ],
        },
        Signature {
            id: "collnet-gpus", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["CollNet currently only supports up to # GPUs per node, disabling CollNet"],
            means: "There are more GPUs of the job on a node than CollNet can serve; it is switched off.",
            next: "Nothing; NCCL_COLLNET_ENABLE=0 takes the message away.",
            source: "NCCL init.cc", versions: "up to 2.22",
            examples: &["node-01:189884:189990 [3] init.cc:702 NCCL WARN CollNet currently only supports up to 8 GPUs per node, disabling CollNet"],
        },
        Signature {
            id: "collnet-share", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["Child comms (nRanks #) fails to share parent comms (nRanks #) sharp resources"],
            means: "A communicator that was split off cannot use its parent's SHARP resources; it runs without SHARP.",
            next: "Nothing, or set splitShare to 0 for the split: then it takes SHARP resources of its own if there are any.",
            source: "NCCL transport/coll_net.cc", versions: "2.18+",
            examples: &["node-01:189884:189990 [3] transport/coll_net.cc:1221 NCCL WARN Child comms (nRanks 8) fails to share parent comms (nRanks 16) sharp resources"],
        },
        Signature {
            id: "collnet-algo-ignored", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["CollNet is not supported or fails to initialize, ignoring NCCL_ALGO=COLLNET"],
            means: "NCCL_ALGO asks for CollNet, which is not available; another algorithm is taken.",
            next: "Unset NCCL_ALGO, or make SHARP work: look at the lines of the CollNet plugin above.",
            source: "NCCL graph/tuning.cc", versions: "up to 2.19",
            examples: &["node-01:189884:189990 [3] graph/tuning.cc:170 NCCL WARN CollNet is not supported or fails to initialize, ignoring NCCL_ALGO=COLLNET"],
        },
    ],
};
