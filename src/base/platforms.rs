//! What a machine should have: GPUs, NVLinks, RDMA devices and their line rate, by the name that its firmware gives it.
//!
//! EC2: the pages of the instance types, and what aws-ofi-nccl knows of them. DGX and HGX: NVIDIA's user guides.

/// One kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// For people: `p5.48xlarge`, `DGX H100`.
    pub name: &'static str,
    /// What the product's name holds, in small letters and digits alone.
    product: &'static str,
    pub gpus: u32,
    /// NVLinks of each GPU; 0 where there are none.
    pub nvlinks: u32,
    pub fabric: Fabric,
    /// RDMA devices that join GPUs to other nodes; those of storage come on top.
    pub rdma: u32,
    /// Of each of them, bits/s.
    pub rdma_bits_per_s: u64,
    /// Nobody has confirmed the number of devices and their rate: nothing is accused by it.
    pub likely: bool,
}

/// What its RDMA devices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    Efa,
    /// InfiniBand or RoCE, as the site has it.
    Mlx5,
}

const GBIT: u64 = 1_000_000_000;

const fn ec2(name: &'static str, product: &'static str, gpus: u32, nvlinks: u32, rdma: u32, gbits: u64) -> Platform {
    Platform { name, product, gpus, nvlinks, fabric: Fabric::Efa, rdma, rdma_bits_per_s: gbits * GBIT, likely: false }
}

const fn dgx(name: &'static str, product: &'static str, gpus: u32, nvlinks: u32, rdma: u32, gbits: u64) -> Platform {
    Platform { fabric: Fabric::Mlx5, ..ec2(name, product, gpus, nvlinks, rdma, gbits) }
}

const fn likely(platform: Platform) -> Platform {
    Platform { likely: true, ..platform }
}

/// GPUs, NVLinks of each, RDMA devices, Gb/s of each.
pub const PLATFORMS: &[Platform] = &[
    ec2("p4d.24xlarge", "p4d24xlarge", 8, 12, 4, 100),
    ec2("p4de.24xlarge", "p4de24xlarge", 8, 12, 4, 100),
    ec2("p5.48xlarge", "p548xlarge", 8, 18, 32, 100),
    ec2("p5.4xlarge", "p54xlarge", 1, 0, 1, 100),
    ec2("p5e.48xlarge", "p5e48xlarge", 8, 18, 32, 100),
    ec2("p5en.48xlarge", "p5en48xlarge", 8, 18, 16, 200),
    ec2("p6-b200.48xlarge", "p6b20048xlarge", 8, 18, 8, 400),
    ec2("p6-b300.48xlarge", "p6b30048xlarge", 8, 18, 16, 400),
    likely(ec2("p6e-gb200.36xlarge", "p6egb20036xlarge", 4, 18, 4, 400)),
    ec2("g5.48xlarge", "g548xlarge", 8, 0, 1, 100),
    ec2("g6e.48xlarge", "g6e48xlarge", 8, 0, 4, 100),
    likely(ec2("g7e.48xlarge", "g7e48xlarge", 8, 0, 4, 400)),
    ec2("trn1.32xlarge", "trn132xlarge", 0, 0, 8, 100),
    ec2("trn1n.32xlarge", "trn1n32xlarge", 0, 0, 16, 100),
    ec2("trn2.48xlarge", "trn248xlarge", 0, 0, 16, 200),
    dgx("DGX A100", "dgxa100", 8, 12, 8, 200),
    dgx("DGX H100", "dgxh100", 8, 18, 8, 400),
    dgx("DGX H200", "dgxh200", 8, 18, 8, 400),
    dgx("DGX B200", "dgxb200", 8, 18, 8, 400),
    dgx("DGX B300", "dgxb300", 8, 18, 8, 800),
    likely(dgx("GB200 NVL72", "gb200nvl", 4, 18, 4, 400)),
    // Two cables, each of which shows up as two devices, one for each half of the card's lanes: never four times its rate.
    dgx("DGX Spark", "dgxspark", 1, 0, 4, 200),
];

/// The machine whose firmware gives it this name (`/sys/devices/virtual/dmi/id/product_name`). EC2's names are exact; those of others
/// come with makers, dashes and part numbers around them: `NVIDIA_DGX_Spark`, `DGXA100 920-23687-2530-000`.
pub fn of_product(product: &str) -> Option<&'static Platform> {
    let plain: String = product.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    PLATFORMS.iter().find(|p| if p.fabric == Fabric::Efa { plain == p.product } else { plain.contains(p.product) })
}

/// bits/s of each EFA of an EC2 instance, which all sizes of a family have in common.
pub fn efa_line_rate(product: &str) -> Option<u64> {
    let family = |name: &str| name.split_once('.').map(|(family, _size)| family.to_owned());
    let of = family(product)?;
    let same = |p: &&Platform| p.fabric == Fabric::Efa && !p.likely && family(p.name).as_ref() == Some(&of);
    PLATFORMS.iter().find(same).map(|p| p.rdma_bits_per_s)
}
