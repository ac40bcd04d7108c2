//! What NCCL tells at level INFO only, and is worth knowing.

use crate::findings::Severity;
use crate::text::signature::{Part, Scope, Signature, Table};

#[rustfmt::skip]
pub static TABLE: Table = Table {
    title: "NCCL: worth knowing at level INFO",
    scope: Scope::Nccl,
    rows: &[
        // plugins
        Signature {
            id: "net-plugin-load-failed", rule: "fallback-to-sockets", severity: Severity::Warning, part: Part::Cause,
            texts: &[
                "^NET/Plugin: *: *cannot open shared object file", "^NET/Plugin: *: *undefined symbol: ", "^NET/Plugin: *: *invalid ELF header",
                "^NET/Plugin: *: *' not found (required by ",
            ],
            means: "The network plugin's library is there but cannot be loaded: a library that it needs is missing or of another version. NCCL goes on without it.",
            next: "`ldd` on the named library, inside the container: install what is \"not found\", or add its folder to LD_LIBRARY_PATH",
            source: "NCCL plugin/plugin_open.cc", versions: "2.28+",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO NET/Plugin: libnccl-net-ofi.so: libfabric.so.1: cannot open shared object file: No such file or directory",
                "node-04:7120:7188 [0] NCCL INFO NET/Plugin: libnccl-net.so: /opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so: undefined symbol: ucp_init_version",
                "node-04:7120:7188 [0] NCCL INFO NET/Plugin: libnccl-net.so: /opt/plugin/libnccl-net.so: invalid ELF header",
                "node-04:7120:7188 [0] NCCL INFO NET/Plugin: libnccl-net.so: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by /opt/plugin/libnccl-net.so)",
            ],
        },
        Signature {
            id: "plugin-load-failed", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["R/Plugin: *: *cannot open shared object file", "R/Plugin: *: *undefined symbol: ", "ENV/Plugin: *: *cannot open shared object file"],
            means: "A tuner, profiler or environment plugin is there but cannot be loaded. NCCL goes on without it.",
            next: "`ldd` on the named library, inside the container: install what is \"not found\"",
            source: "NCCL plugin/plugin_open.cc", versions: "2.28+",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO TUNER/Plugin: libnccl-ofi-tuner.so: libfabric.so.1: cannot open shared object file: No such file or directory",
                "node-04:7120:7188 [0] NCCL INFO PROFILER/Plugin: libnccl-profiler-inspector.so: ./libnccl-profiler-inspector.so: undefined symbol: nvtxDomainCreateA",
                "node-04:7120:7188 [0] NCCL INFO ENV/Plugin: libnccl-env-site.so: libyaml.so.2: cannot open shared object file: No such file or directory",
            ],
        },
        Signature {
            id: "net-plugin-unsupported", rule: "fallback-to-sockets", severity: Severity::Warning, part: Part::Cause,
            texts: &["External network plugin * is unsupported"],
            means: "The network plugin was built for versions of NCCL's interface that this NCCL does not have; it is not used.",
            next: "Install the plugin's release for this NCCL (aws-ofi-nccl, HPC-X), or the NCCL that it was built for",
            source: "NCCL plugin/net.cc", versions: "2.28+",
            examples: &["node-04:7120:7188 [0] NCCL INFO External network plugin libnccl-net.so is unsupported"],
        },
        Signature {
            id: "plugin-unsupported", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["External tuner plugin * is unsupported", "External profiler plugin * is unsupported", "External env plugin * is unsupported"],
            means: "A plugin was built for versions of NCCL's interface that this NCCL does not have; it is not used.",
            next: "Install the plugin's release for this NCCL",
            source: "NCCL plugin/*.cc", versions: "2.28+",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO External tuner plugin libnccl-tuner.so is unsupported",
                "node-04:7120:7188 [0] NCCL INFO External profiler plugin libnccl-profiler.so is unsupported",
                "node-04:7120:7188 [0] NCCL INFO External env plugin libnccl-env.so is unsupported",
            ],
        },
        Signature {
            id: "gin-plugin-none", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["GIN/Plugin: Failed to initialize any GIN plugin", "RMA/Plugin: Failed to initialize any plugin"],
            means: "There is no network for GPU kernels or for one-sided operations. Programs that do not use NCCL's device API need none.",
            next: "Nothing, unless the program uses DeepEP, ncclPutSignal or the like: then it needs a NIC with RDMA, and peermem or DMA-BUF",
            source: "NCCL plugin/gin.cc", versions: "2.30.7",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO GIN/Plugin: Failed to initialize any GIN plugin",
                "node-04:7120:7188 [0] NCCL INFO RMA/Plugin: Failed to initialize any plugin",
            ],
        },
        Signature {
            id: "pxn-old-plugin", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["PXN Disabled as plugin is v4"],
            means: "The network plugin is very old; traffic cannot go through another GPU's NIC.",
            next: "Install a newer release of the plugin",
            source: "NCCL init.cc", versions: "all",
            examples: &["node-04:7120:7188 [0] NCCL INFO PXN Disabled as plugin is v4"],
        },
        // libraries
        Signature {
            id: "ib-lib-missing", rule: "fallback-to-sockets", severity: Severity::Info, part: Part::Harmless,
            texts: &["Failed to open libibverbs.so", "Count not open libibverbs.so", "ncclOsDlopen(libibverbs.so*) failed: "],
            means: "libibverbs is not in the container: NCCL's own InfiniBand and RoCE code is off. It matters only where there are such NICs.",
            next: "On nodes with InfiniBand or RoCE install rdma-core (`apt-get install libibverbs1 ibverbs-providers`) into the image",
            source: "NCCL misc/ibvsymbols.cc", versions: "through 2.29; the second and third 2.30.3+",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO Failed to open libibverbs.so[.1]",
                "node-04:7120:7188 [0] NCCL INFO Count not open libibverbs.so.1",
                "node-04:7120:7188 [0] NCCL INFO ncclOsDlopen(libibverbs.so.1) failed: libibverbs.so.1: cannot open shared object file: No such file or directory",
            ],
        },
        Signature {
            id: "mlx5-lib-missing", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &[
                "Failed to open libmlx5.so", "Count not open libmlx5.so", "ncclOsDlopen(libmlx5.so*) failed: ",
                "NET/IB : Failed to open mlx5dv symbols.",
            ],
            means: "The library for Mellanox NICs is not in the container; only the features of ConnectX-8 need it.",
            next: "Nothing without such NICs; else install ibverbs-providers into the image",
            source: "NCCL misc/mlx5dvsymbols.cc", versions: "2.27+",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO Failed to open libmlx5.so[.1]",
                "node-04:7120:7188 [0] NCCL INFO Count not open libmlx5.so.1",
                "node-04:7120:7188 [0] NCCL INFO ncclOsDlopen(libmlx5.so.1) failed: libmlx5.so.1: cannot open shared object file: No such file or directory",
                "node-04:7120:7188 [0] NCCL INFO NET/IB : Failed to open mlx5dv symbols. Advance features like CX-8 Direct-NIC will be disabled.",
            ],
        },
        // variables
        Signature {
            id: "env-unused", rule: "env-no-effect", severity: Severity::Warning, part: Part::Cause,
            texts: &["ENV * is unused. Setting it has no effect."],
            means: "A variable is set that this NCCL does not use any more, or has never known.",
            next: "Take it away, or look up its new name in NCCL's list of variables",
            source: "NCCL misc/param.cc", versions: "2.30.3+",
            examples: &["node-04:7120:7188 [0] NCCL INFO Warning: ENV NCCL_TREE_THRESHOLD is unused. Setting it has no effect."],
        },
        Signature {
            id: "env-deprecated", rule: "env-no-effect", severity: Severity::Info, part: Part::Harmless,
            texts: &["Warning: ENV * is deprecated. "],
            means: "A variable is set that a later NCCL will not know.",
            next: "Use the name that the line gives",
            source: "NCCL misc/param.cc", versions: "2.30.3+",
            examples: &["node-04:7120:7188 [0] NCCL INFO Warning: ENV NCCL_MIN_NRINGS is deprecated. Use NCCL_MIN_NCHANNELS instead."],
        },
        Signature {
            id: "env-private", rule: "env-no-effect", severity: Severity::Info, part: Part::Harmless,
            texts: &["ENV: * is private. "],
            means: "A variable is set that is meant for NCCL's own developers; it may go or change its meaning at any time.",
            next: "Take it away, unless NVIDIA told you to set it",
            source: "NCCL misc/param.cc", versions: "2.30.3+",
            examples: &["node-04:7120:7188 [0] NCCL INFO ENV: NCCL_IB_QPS_DEBUG is private. It may change without notice."],
        },
        Signature {
            id: "env-invalid-value", rule: "env-no-effect", severity: Severity::Warning, part: Part::Cause,
            texts: &["^Invalid value * for NCCL_*, using default "],
            means: "A variable has a value that is no number; NCCL uses its default, as if it were not set.",
            next: "Correct the value: whole numbers only, without units or quotes",
            source: "NCCL misc/param.cc", versions: "all",
            examples: &["node-04:7120:7188 [0] NCCL INFO Invalid value 4M for NCCL_BUFFSIZE, using default -2."],
        },
        // GPUs
        Signature {
            id: "p2p-disabled-pair", rule: "transport-below-topology", severity: Severity::Warning, part: Part::Cause,
            texts: &["P2P is disabled between connected GPUs # and #."],
            means: "The topology would let two GPUs talk directly, and the driver says that they must not: they talk over host memory.",
            next: "`nvidia-smi topo -p2p r`; turn off ACS and the IOMMU's remapping in the BIOS, or in a VM pass the switch through",
            source: "NCCL graph/paths.cc", versions: "all",
            examples: &["node-04:7120:7188 [0] NCCL INFO P2P is disabled between connected GPUs 0 and 1. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1."],
        },
        Signature {
            id: "p2p-refused", rule: "transport-below-topology", severity: Severity::Info, part: Part::Harmless,
            texts: &["Legacy IPC not supported", "peer query failed between dev #", "Could not enable P2P between dev #(=*) and dev #(=*)"],
            means: "CUDA does not let a pair of GPUs read one another's memory; they talk over host memory. Normal for GPUs without NVLink and P2P.",
            next: "`nvidia-smi topo -p2p r` says whether it should work; containers of one node must share the IPC namespace and see the same GPUs",
            source: "NCCL transport/p2p.cc", versions: "all",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO Legacy IPC not supported",
                "node-04:7120:7188 [0] NCCL INFO peer query failed between dev 0(=1b000) and dev 1(=3d000)",
                "node-04:7120:7188 [0] NCCL INFO Could not enable P2P between dev 0(=1b000) and dev 1(=3d000)",
            ],
        },
        Signature {
            id: "gdr-off-for-nic", rule: "transport-below-topology", severity: Severity::Warning, part: Part::Cause,
            texts: &["NET/IB* : GPU Direct RDMA Disabled for HCA # '", "NET/*Libfabric : GPU Direct RDMA Disabled for HCA # '"],
            means: "The NIC cannot read GPU memory: everything goes through host memory first.",
            next: "`lsmod | grep nvidia_peermem`, and `modprobe nvidia-peermem` on the host; or open kernel modules with DMA-BUF (Linux 5.12+, CUDA 11.7+)",
            source: "NCCL init.cc", versions: "2.14+",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
                "node-04:7120:7188 [0] NCCL INFO NET/AWS Libfabric : GPU Direct RDMA Disabled for HCA 0 'rdmap16s27'",
            ],
        },
        Signature {
            id: "gpu-affinity-empty", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["ncclTopoGetCpuAffinity: Affinity for GPU # is empty, ignoring."],
            means: "The process is pinned to CPU cores that are all far from its GPU, or (where the GPU's own list is empty) a virtual machine hides which are near.",
            next: "Pin each rank to the cores of its GPU's NUMA node (`nvidia-smi topo -m`, column CPU Affinity), or do not pin (`srun --cpu-bind=none`)",
            source: "NCCL graph/topo.cc", versions: "2.28+",
            examples: &["node-04:7120:7188 [0] NCCL INFO ncclTopoGetCpuAffinity: Affinity for GPU 4 is empty, ignoring. (GPU affinity = 48-95 ; CPU affinity = 0-11)."],
        },
        Signature {
            id: "cumem-host-fallback", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["cuMem host allocations do not appear to be working; falling back to a /dev/shm/ based implementation."],
            means: "The container does not allow the NUMA system calls; NCCL takes /dev/shm, whose size matters then.",
            next: "Nothing, if `df -h /dev/shm` shows some GB; else `--shm-size=8g` or `--cap-add SYS_NICE`",
            source: "NCCL misc/cudawrap.cc", versions: "2.26.3+",
            examples: &["node-04:7120:7188 [0] NCCL INFO cuMem host allocations do not appear to be working; falling back to a /dev/shm/ based implementation. This could be due to the container runtime disabling NUMA support. To disable this warning, set NCCL_CUMEM_HOST_ENABLE=0"],
        },
        Signature {
            id: "stack-size-unsafe", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["Stack size limit (*) is unsafe; will use #KB for newly launched threads"],
            means: "The stack limit of the shell is unusual; NCCL takes its own for its threads.",
            next: "Nothing; `ulimit -s 8192` silences it",
            source: "NCCL init.cc", versions: "2.28+",
            examples: &["node-04:7120:7188 [0] NCCL INFO Stack size limit (unlimited) is unsafe; will use 8192KB for newly launched threads"],
        },
        // networks
        Signature {
            id: "net-rail-mismatch", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["There are mismatched physical devices between local (#) and remote (#)."],
            means: "The two ends of a connection use different numbers of NICs: slower on fabrics with rails.",
            next: "`rdma link` on both nodes: a NIC is down or filtered on one; NCCL_IB_HCA alike everywhere; NCCL_IB_WARN_RAIL_LOCAL=0 silences it",
            source: "NCCL transport/net_ib", versions: "2.24+",
            examples: &["node-04:7120:7210 [0] NCCL INFO NET/IB : There are mismatched physical devices between local (2) and remote (1). To disable this warning, set NCCL_IB_WARN_RAIL_LOCAL=0"],
        },
        Signature {
            id: "ib-speed-changed", rule: "nccl-warn", severity: Severity::Warning, part: Part::Cause,
            texts: &["NET/IB : * speed change detected: # -> # Mbps"],
            means: "A link was trained again and came up with another speed: a bad cable, transceiver or switch port if it is lower.",
            next: "`mlxlink -d <device> -m -c` or `ibstat`: width, speed, error counters; clean or change the cable",
            source: "NCCL transport/net_ib", versions: "2.30.7",
            examples: &["node-04:7120:7240 [0] NCCL INFO NET/IB : mlx5_2:1 speed change detected: 400000 -> 200000 Mbps"],
        },
        Signature {
            id: "net-speed-unknown", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["Could not get speed from *. Defaulting to 10 Gbps."],
            means: "The interface does not tell its speed, as virtual ones do; NCCL reckons with 10 Gb/s.",
            next: "Nothing for bootstrap; for data over TCP choose the physical interface with NCCL_SOCKET_IFNAME",
            source: "NCCL transport/net_socket.cc", versions: "all",
            examples: &["node-04:7120:7188 [0] NCCL INFO Could not get speed from /sys/class/net/eth0/speed. Defaulting to 10 Gbps."],
        },
        // monitoring
        Signature {
            id: "ras-init-failed", rule: "nccl-warn", severity: Severity::Info, part: Part::Harmless,
            texts: &["RAS failed to establish a client listening socket at ", "Continuing in spite of a RAS initialization error"],
            means: "This node cannot be asked over RAS; the job itself is not touched.",
            next: "Another job on the node holds port 28028 mostly: give each its own NCCL_RAS_ADDR (localhost:28029)",
            source: "NCCL ras/ras.cc", versions: "2.24+",
            examples: &[
                "node-04:7120:7188 [0] NCCL INFO RAS failed to establish a client listening socket at 127.0.0.1<28028>",
                "node-04:7120:7188 [0] NCCL INFO Continuing in spite of a RAS initialization error",
            ],
        },
    ],
};
