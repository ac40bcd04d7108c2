//! Bus bandwidth that collectives reach on known machines, as somebody has measured and published it. What nobody has published is not
//! here. Each row says who measured, with which NCCL, and when, as far as that is known.

/// A GPU of which there are figures. Those without NVLink, or with a bridge in place of switches, are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gpu {
    A100,
    H100,
    H200,
    B200,
    B300,
    Gb200,
    Gb300,
    /// DGX Spark and its kin: no NVLink, one network card.
    Gb10,
}

/// What is measured, as far as it makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    AllReduce,
    /// AllGather, ReduceScatter, Broadcast, Reduce: on rings, as fast as one another.
    Gather,
    /// Each GPU with each other.
    AllToAll,
}

/// What carries the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Rings or trees over NVLink, within a node or within an NVLink domain of several.
    NvLink,
    /// The switches add up (NVLink SHARP).
    Nvls,
    /// The ports of a node, and Gb/s of each. Their kind is not known from a table of nccl-tests.
    Network { ports: u32, gbits: u32 },
}

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reach {
    pub gpu: Gpu,
    pub nodes: u32,
    /// GPUs of each node.
    pub per_node: u32,
    pub does: Does,
    pub way: Way,
    /// 10⁹ bytes/s.
    pub gbytes_per_s: f64,
    /// Messages from this size on reach it, or come near.
    pub from_bytes: u64,
    pub source: &'static str,
}

/// A GPU's name, its NVLinks, and what PCIe carries to it.
struct Model {
    gpu: Gpu,
    name: &'static str,
    /// After `NVIDIA `: all of NVML's name, or how it begins where memory sizes and boards follow.
    begins: &'static str,
    whole: bool,
    nvlinks: u32,
    /// Measured with copies: what Azure's node health checks ask for (24 with PCIe 4, 52 with PCIe 5).
    pcie_gbytes_per_s: Option<f64>,
}

const fn model(gpu: Gpu, name: &'static str, begins: &'static str, whole: bool, nvlinks: u32, pcie: Option<f64>) -> Model {
    Model { gpu, name, begins, whole, nvlinks, pcie_gbytes_per_s: pcie }
}

/// H100 and H200 without an appendix are those on boards with NVSwitches: `H100 PCIe`, `H100 NVL`, `H200 NVL`, `H20` and `GH200` are others.
const MODELS: &[Model] = &[
    model(Gpu::A100, "A100", "A100-SXM", false, 12, Some(24.0)),
    model(Gpu::H100, "H100", "H100 80GB HBM3", true, 18, Some(52.0)),
    model(Gpu::H200, "H200", "H200", true, 18, Some(52.0)),
    model(Gpu::B200, "B200", "B200", true, 18, Some(52.0)),
    model(Gpu::B300, "B300", "B300 SXM", false, 18, None),
    model(Gpu::Gb200, "GB200", "GB200", false, 18, None),
    model(Gpu::Gb300, "GB300", "GB300", false, 18, None),
    model(Gpu::Gb10, "GB10", "GB10", true, 0, None),
];

/// For each 100 Gb/s of a port, collectives move so many GB/s at most: 12 on 100 Gb/s and 24 on 200 Gb/s (NCCL's maintainers, nccl-tests issue
/// 119, 2022-11), 48 to 49 on 400 Gb/s (nccl-tests issue 267, 2025-01).
pub const GBYTES_PER_100_GBITS: f64 = 12.0;

const GIB: u64 = 1 << 30;

const fn node(gpu: Gpu, does: Does, way: Way, gbytes_per_s: f64, from_gib: u64, source: &'static str) -> Reach {
    Reach { gpu, nodes: 1, per_node: 8, does, way, gbytes_per_s, from_bytes: from_gib * GIB, source }
}

const fn trays(gpu: Gpu, nodes: u32, does: Does, gbytes_per_s: f64, source: &'static str) -> Reach {
    Reach { gpu, nodes, per_node: 4, does, way: Way::NvLink, gbytes_per_s, from_bytes: 8 * GIB, source }
}

const fn over(nodes: u32, reach: Reach, ports: u32, gbits: u32) -> Reach {
    Reach { nodes, way: Way::Network { ports, gbits }, ..reach }
}

const fn spark(does: Does, gbytes_per_s: f64, source: &'static str) -> Reach {
    let way = Way::Network { ports: 1, gbits: 200 };
    Reach { gpu: Gpu::Gb10, nodes: 2, per_node: 1, does, way, gbytes_per_s, from_bytes: GIB / 2, source }
}

const P4D: &str = "8 A100 of a p4d.24xlarge at 1 GiB, nccl issue 527, 2022-07; Azure's node health check asks for 228 at 4 GiB";
const P4D_TWO: &str = "p4d.24xlarge, NCCL 2.23.4, aws-ofi-nccl 1.13.2: guide to AWS Deep Learning AMIs";
const P4DE: &str = "two p4de.24xlarge, 76.8 at 1 GiB: AWS, awsome-distributed-training, guide to nccl-tests";
const HOPPER: &str = "NCCL's maintainers, nccl-tests issue 212, 2024-05; measured with NCCL 2.30.4, nccl issue 2140, 2026-04";
const LIKE_HOPPER: &str = "as H100, which has the same NVLinks; 364 measured on 8 H200 with NCCL 2.28.9, 2026-11";
const B300: &str = "NCCL 2.30.4, nccl issue 2140, 2026-04";
const LIKE_B300: &str = "as B300, which has the same NVLinks: NCCL 2.30.4, nccl issue 2140, 2026-04";
const ORACLE: &str = "NCCL 2.28.7, Oracle's guide to BM.GPU.GB300.4, 2025-12";
const RAILS: &str = "nccl-tests issue 309, 2025-05; 467 to 477 in SkyPilot's guide to InfiniBand at Nebius; 466 to 487 on two p5.48xlarge";
const P5: &str =
    "two p5.48xlarge with 32 EFA devices, at 1 GiB; 444 at 2 GiB, 487 at 16 GiB: AWS, awsome-distributed-training, guide to nccl-tests";
const LIKE_RAILS: &str = "as H100, which has the same NVLinks and ports: nccl-tests issue 309, 2025-05";
const SPARK: &str = "one cable, both halves of its port: dgx-spark-playbooks pull request 103, NCCL 2.28.9, 2026-08";

use Does::{AllReduce, AllToAll, Gather};
use Gpu::{A100, B200, Gb200, Gb300, H100, H200};
use Way::{NvLink, Nvls};

#[rustfmt::skip]
pub const REACHES: &[Reach] = &[
    node(A100, AllReduce, NvLink, 230.8, 1, P4D),
    node(A100, Gather, NvLink, 230.8, 1, P4D),
    node(H100, AllReduce, NvLink, 370.0, 1, HOPPER),
    node(H100, AllReduce, Nvls, 480.0, 1, HOPPER),
    node(H100, Gather, NvLink, 370.0, 1, HOPPER),
    node(H100, AllToAll, NvLink, 370.0, 1, HOPPER),
    node(H200, AllReduce, NvLink, 370.0, 1, LIKE_HOPPER),
    node(H200, AllReduce, Nvls, 475.0, 1, "NCCL 2.20.3, nccl-tests issue 272, 2024-11"),
    node(H200, Gather, NvLink, 370.0, 1, LIKE_HOPPER),
    node(H200, AllToAll, NvLink, 370.0, 1, LIKE_HOPPER),
    node(B200, AllReduce, NvLink, 695.0, 4, LIKE_B300),
    node(B200, AllReduce, Nvls, 835.0, 8, "NCCL 2.27.1, nccl issue 1807, 2025-08; 840 to 845 on a Google A4"),
    node(B200, Gather, NvLink, 695.0, 4, LIKE_B300),
    node(Gpu::B300, AllReduce, NvLink, 695.0, 4, B300),
    node(Gpu::B300, AllReduce, Nvls, 845.0, 8, B300),
    node(Gpu::B300, Gather, NvLink, 695.0, 4, B300),
    trays(Gb300, 1, AllReduce, 685.0, ORACLE),
    trays(Gb300, 2, AllReduce, 842.0, ORACLE),
    trays(Gb300, 16, AllReduce, 930.0, ORACLE),
    trays(Gb300, 1, AllToAll, 681.0, ORACLE),
    trays(Gb300, 2, AllToAll, 685.0, ORACLE),
    trays(Gb300, 16, AllToAll, 667.0, ORACLE),
    trays(Gb200, 2, AllReduce, 811.0, "lixueduan.com, GB200 MNNVL measured with nccl-tests; 85 over InfiniBand"),
    trays(Gb200, 18, AllReduce, 847.0, "NCCL 2.26.2, CoreWeave's nccl-tests, 2025"),
    over(2, node(A100, AllReduce, NvLink, 78.3, 2, P4DE), 4, 100),
    over(2, node(A100, AllReduce, NvLink, 76.2, 1, P4D_TWO), 4, 100),
    over(2, node(H100, AllReduce, NvLink, 470.0, 4, RAILS), 8, 400),
    over(2, node(H100, AllReduce, NvLink, 437.0, 1, P5), 32, 100),
    over(4, node(H100, AllReduce, NvLink, 366.0, 4, "nccl-tests issue 309, 2025-05"), 8, 400),
    over(2, node(H200, AllReduce, NvLink, 470.0, 4, LIKE_RAILS), 8, 400),
    over(2, node(B200, AllReduce, NvLink, 690.0, 8, "CoreWeave's nccl-tests, pull request 92, 2026-05; 684 on Google A4"), 8, 400),
    spark(Gather, 23.7, SPARK),
    spark(AllReduce, 24.0, "12 GB/s for each 100 Gb/s, of which one cable has two: nccl-tests issue 119, 2022-11"),
];

impl Gpu {
    /// By the name that NVML, nccl-tests and nvidia-smi give: `NVIDIA H100 80GB HBM3`.
    pub fn of_name(name: &str) -> Option<Gpu> {
        let name = name.trim().trim_start_matches("NVIDIA ");
        let is = |m: &&Model| if m.whole { name == m.begins } else { name.starts_with(m.begins) };
        MODELS.iter().find(is).map(|m| m.gpu)
    }

    fn model(self) -> &'static Model {
        MODELS.iter().find(|m| m.gpu == self).unwrap_or(&MODELS[0])
    }

    /// `H200`
    pub fn name(self) -> &'static str {
        self.model().name
    }

    /// That one of it has; 0 where there are none.
    pub fn nvlinks(self) -> u32 {
        self.model().nvlinks
    }

    /// What PCIe carries to it, 10⁹ bytes/s.
    pub fn pcie_gbytes_per_s(self) -> Option<f64> {
        self.model().pcie_gbytes_per_s
    }
}

impl Does {
    /// By the name that nccl-tests, the Inspector or RAS gives it: `all_reduce`, `AllReduce`.
    pub fn of_name(name: &str) -> Option<Does> {
        let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
        match plain.as_str() {
            "allreduce" => Some(Does::AllReduce),
            "allgather" | "reducescatter" | "broadcast" | "reduce" => Some(Does::Gather),
            "alltoall" => Some(Does::AllToAll),
            _ => None,
        }
    }
}

/// GPUs of one model, as many on each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub gpu: Gpu,
    pub nodes: u32,
    pub per_node: u32,
}

/// What such GPUs reach with messages of this size. Whether NVLS was used, if that is not known, follows from what was measured: more than
/// rings can carry.
pub fn reach(shape: Shape, does: Does, bytes: u64, measured: f64, nvls: Option<bool>) -> Option<&'static Reach> {
    let here = |r: &&Reach| (r.gpu, r.nodes, r.per_node, r.does) == (shape.gpu, shape.nodes, shape.per_node, does) && bytes >= r.from_bytes;
    let best = REACHES.iter().filter(here).find(|r| r.way == Way::Nvls);
    let plain = REACHES.iter().filter(here).find(|r| r.way != Way::Nvls)?;
    let uses = nvls.unwrap_or(measured > plain.gbytes_per_s * 1.05);
    // Over another network more may be had than over that of the table.
    let other = matches!(plain.way, Way::Network { .. }) && measured > plain.gbytes_per_s * 1.15;
    (!other).then_some(best.filter(|_| uses).unwrap_or(plain))
}

impl Reach {
    /// `8 H200 reach without NVLS`, `2 nodes of 8 H100 reach with 8 ports of 400 Gb/s`
    pub fn words(&self) -> String {
        let gpu = self.gpu.name();
        let who = match (self.nodes, self.per_node) {
            (1, n) => format!("{n} {gpu}"),
            (nodes, 1) => format!("{nodes} nodes with a {gpu}"),
            (nodes, n) => format!("{nodes} nodes of {n} {gpu}"),
        };
        let mut switched = REACHES.iter().filter(|r| r.way == Way::Nvls);
        let how = match self.way {
            Way::Nvls => " with NVLS".to_owned(),
            Way::NvLink if self.nodes > 1 => " in one NVLink domain".to_owned(),
            Way::NvLink if switched.any(|r| r.gpu == self.gpu && r.does == self.does) => " without NVLS".to_owned(),
            Way::NvLink => String::new(),
            Way::Network { ports: 1, gbits } => format!(" with a port of {gbits} Gb/s"),
            Way::Network { ports, gbits } => format!(" with {ports} ports of {gbits} Gb/s"),
        };
        format!("{who} reach{how}")
    }
}
