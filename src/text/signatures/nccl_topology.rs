//! What NCCL says about the machine's topology, its files and its tuning.

use crate::findings::Severity;
use crate::text::signature::{Part, Scope, Signature, Table};

#[rustfmt::skip]
pub static TABLE: Table = Table {
    title: "NCCL: topology and tuning",
    scope: Scope::Nccl,
    rows: &[
        Signature {
            id: "topo-gpu-cpu", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Error : could not find CPU close to GPU #"],
            means: "NCCL cannot tell which CPU a GPU hangs on: /sys is missing in the container, or the VM hides the topology.",
            next: "Mount /sys (read-only is enough); in VMs give NCCL_TOPO_FILE the file that the cloud provider ships",
            source: "NCCL graph/paths.cc", versions: "all",
            examples: &["gpu-a07:6120:6188 [0] graph/paths.cc:600 NCCL WARN Error : could not find CPU close to GPU 3"],
        },
        Signature {
            id: "topo-numa", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["GetXmlFromCpu : could not find CPU numa ID."],
            means: "The NUMA nodes are not in /sys of this container.",
            next: "Mount /sys; `ls /sys/devices/system/node` must show node0",
            source: "NCCL graph/xml.cc", versions: "all",
            examples: &["gpu-a07:6120:6188 [0] graph/xml.cc:380 NCCL WARN GetXmlFromCpu : could not find CPU numa ID."],
        },
        Signature {
            id: "topo-file-open", rule: "env-no-effect", severity: Severity::Warning, part: Part::Cause,
            texts: &["Could not open XML topology file * : "],
            means: "NCCL_TOPO_FILE names a file that cannot be read; NCCL looks at /sys instead.",
            next: "Correct NCCL_TOPO_FILE, mount the file into the container, or take the variable away",
            source: "NCCL graph/xml.cc", versions: "WARN through 2.26, INFO later",
            examples: &[
                "gpu-a07:6120:6188 [0] graph/xml.cc:330 NCCL WARN Could not open XML topology file /opt/topo/a100.xml : No such file or directory",
                "gpu-a07:6120:6188 [0] NCCL INFO Could not open XML topology file /opt/topo/a100.xml : No such file or directory",
            ],
        },
        Signature {
            id: "topo-file-parse", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &[
                "^XML Parse", "^XML Mismatch : ", "XML Topology has wrong version #, # needed", "^Attribute * of node * not found",
                "Error : too many XML nodes (max #)",
            ],
            means: "The topology file is damaged, of another format version, or too large.",
            next: "Take NCCL_TOPO_FILE away (and /var/run/nvidia-topologyd/virtualTopology.xml), or get the file of this instance type and NCCL version",
            source: "NCCL graph/xml.cc", versions: "all",
            examples: &[
                "gpu-a07:6120:6188 [0] graph/xml.cc:205 NCCL WARN XML Parse : unterminated system",
                "gpu-a07:6120:6188 [0] graph/xml.cc:214 NCCL WARN XML Mismatch : system / cpu",
                "gpu-a07:6120:6188 [0] graph/xml.cc:352 NCCL WARN XML Topology has wrong version 2, 1 needed",
                "gpu-a07:6120:6188 [0] graph/xml.h:120 NCCL WARN Attribute busid of node pci not found",
                "gpu-a07:6120:6188 [0] graph/xml.h:290 NCCL WARN Error : too many XML nodes (max 1024)",
            ],
        },
        Signature {
            id: "topo-realpath", rule: "nccl-warn", severity: Severity::Warning, part: Part::Harmless,
            texts: &["^Could not find real path of *$"],
            means: "A device has no entry in /sys; NCCL knows less of the topology.",
            next: "Mount /sys into the container",
            source: "NCCL graph/xml.cc", versions: "all",
            examples: &["gpu-a07:6120:6188 [0] graph/xml.cc:408 NCCL WARN Could not find real path of /sys/class/pci_bus/0000:1b/../../0000:1b:00.0"],
        },
        Signature {
            id: "topo-nvlink", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Add NVLink error : could not find GPU ", "Add NVLink error : could not find DEV for GPU "],
            means: "The topology names an NVLink of a GPU that is not there.",
            next: "Take NCCL_TOPO_FILE away; compare with `nvidia-smi topo -m` and `nvidia-smi nvlink -s`",
            source: "NCCL graph/topo.cc", versions: "all",
            examples: &[
                "gpu-a07:6120:6188 [0] graph/topo.cc:560 NCCL WARN Add NVLink error : could not find GPU 1b000",
                "[2026-06-05 06:16:47] gpu-a07:6120:6188 [0] graph/topo.cc:602 (ncclTopoAddNvLinks) NCCL WARN Add NVLink error : could not find DEV for GPU 0-1b000",
            ],
        },
        Signature {
            id: "graph-fallback", rule: "transport-below-topology", severity: Severity::Warning, part: Part::Cause,
            texts: &["Could not find a path for pattern #, falling back to simple order"],
            means: "NCCL did not understand the topology and joins the GPUs in plain order: expect far less bandwidth.",
            next: "`nvidia-smi topo -m` here and on a good node; NCCL_DEBUG_SUBSYS=GRAPH shows what NCCL sees; NCCL_TOPO_FILE in VMs",
            source: "NCCL graph/search.cc", versions: "WARN through 2.26, INFO later",
            examples: &[
                "gpu-a07:6120:6188 [0] graph/search.cc:1080 NCCL WARN Could not find a path for pattern 4, falling back to simple order",
                "gpu-a07:6120:6188 [0] NCCL INFO Could not find a path for pattern 4, falling back to simple order",
            ],
        },
        Signature {
            id: "graph-ring-broken", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Error : ring # does not loop back to start (# != #)", "Error : ring # does not contain rank #"],
            means: "The ranks worked out rings that do not fit together: their topology or their environment differs.",
            next: "Compare the NCCL_* variables and `nvidia-smi topo -m` of all nodes: one differs",
            source: "NCCL graph/rings.cc", versions: "all",
            examples: &[
                "gpu-a07:6120:6188 [0] graph/rings.cc:42 NCCL WARN Error : ring 0 does not loop back to start (5 != 0)",
                "gpu-a07:6120:6188 [0] graph/rings.cc:56 NCCL WARN Error : ring 0 does not contain rank 5",
            ],
        },
        Signature {
            id: "graph-nic-missing", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &[
                "Rank # requires NIC # but that NIC is not available for rank #", "Could not find NIC for rank # in NVLS graph",
                "Could not find intermediate GPU between GPU rank # and NIC ",
            ],
            means: "The ranks do not all see the same NICs.",
            next: "`ibstat -l` or `rdma link` on all nodes and in all containers: a NIC is down, missing or filtered (NCCL_IB_HCA) on one",
            source: "NCCL graph/search.cc, graph/paths.cc", versions: "the first through 2.20, the second 2.18+, the third 2.17+",
            examples: &[
                "gpu-a07:6120:6188 [0] graph/search.cc:1190 NCCL WARN Rank 3 requires NIC 2 but that NIC is not available for rank 5",
                "gpu-a07:6120:6188 [0] graph/search.cc:1320 NCCL WARN Could not find NIC for rank 3 in NVLS graph",
                "gpu-a07:6120:6188 [0] graph/paths.cc:720 NCCL WARN Could not find intermediate GPU between GPU rank 3 and NIC 2",
            ],
        },
        Signature {
            id: "graph-file", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["XML Import Channel : dev * not found.", "Could not open XML graph file "],
            means: "NCCL_GRAPH_FILE does not fit this machine, or cannot be read.",
            next: "Take NCCL_GRAPH_FILE away",
            source: "NCCL graph/search.cc", versions: "all",
            examples: &[
                "gpu-a07:6120:6188 [0] graph/search.cc:780 NCCL WARN XML Import Channel : dev 9 not found.",
                "gpu-a07:6120:6188 [0] graph/xml.cc:980 NCCL WARN Could not open XML graph file /opt/topo/graph.xml : No such file or directory",
            ],
        },
        Signature {
            id: "tuning-parse", rule: "nccl-warn", severity: Severity::Error, part: Part::Cause,
            texts: &["Unrecognized element token \"*\" when parsing \"", "Unrecognized prefix token ", "All entries except the first must have a prefix: "],
            means: "NCCL_ALGO or NCCL_PROTO is misspelt; no communicator can be made.",
            next: "Correct it: NCCL_ALGO=ring,tree or NCCL_ALGO=\"ring;allreduce:tree,nvls\"; names of collectives stand before `:`, entries are parted by `;`",
            source: "NCCL graph/tuning.cc", versions: "2.24+",
            examples: &[
                "[2026-05-05 06:16:47] gpu-a07:6120:6188 [0] graph/tuning.cc:88 NCCL WARN Unrecognized element token \"CollNet\" when parsing \"CollNet\"",
                "[2026-05-05 06:16:47] gpu-a07:6120:6188 [0] graph/tuning.cc:98 NCCL WARN Unrecognized prefix token \"alreduce\" when parsing \"alreduce:ring\"",
                "gpu-a07:6120:6188 [0] graph/tuning.cc:58 NCCL WARN All entries except the first must have a prefix: \"ring;tree\"",
            ],
        },
        Signature {
            id: "env-threads", rule: "env-no-effect", severity: Severity::Info, part: Part::Harmless,
            texts: &["^Invalid * # (must be a multiple of #)", "^Invalid * # (maximum #)", "^Invalid * # (minimum #)"],
            means: "A variable for the number of threads is out of range; NCCL uses its own value.",
            next: "Correct the variable (NCCL_NTHREADS, NCCL_LL128_NTHREADS), or take it away",
            source: "NCCL graph/tuning.cc", versions: "WARN through 2.26, INFO later",
            examples: &[
                "gpu-a07:6120:6188 [0] graph/tuning.cc:20 NCCL WARN Invalid NCCL_NTHREADS 100 (must be a multiple of 32)",
                "gpu-a07:6120:6188 [0] graph/tuning.cc:23 NCCL WARN Invalid NCCL_NTHREADS 2048 (maximum 640)",
                "gpu-a07:6120:6188 [0] graph/tuning.cc:26 NCCL WARN Invalid NCCL_LL128_NTHREADS 32 (minimum 160)",
            ],
        },
    ],
};
