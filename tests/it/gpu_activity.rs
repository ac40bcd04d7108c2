//! What a GPU does, from what is measured of it.

use nccl_top::base::time::Stamp;
use nccl_top::model::gpu::{Activity, Gpu, PciAddress};
use nccl_top::model::series::Trend;
use nccl_top::observe::gpu::{Gpm, GpuSample};

fn seen(util: u32, sm: f32, tensor: f32, dram: f32, link_mb: f64, power_w: u64) -> Activity {
    let mut gpu = Gpu::new(0);
    let gpm = Gpm {
        sm_active_pct: Some(sm),
        tensor_active_pct: Some(tensor),
        dram_active_pct: Some(dram),
        nvlink_tx_bytes_per_s: Some(link_mb * 1e6),
        nvlink_rx_bytes_per_s: Some(link_mb * 1e6),
        ..Default::default()
    };
    gpu.apply(Stamp(1), &GpuSample { util_pct: Some(util), power_mw: Some(power_w * 1000), gpm: Some(gpm), ..Default::default() });
    gpu.activity
}

#[test]
fn a_pci_address_is_the_same_however_it_is_written() {
    let address = Some(PciAddress { domain: 0, bus: 0x3b, device: 0 });
    for text in ["0000:3b:00.0", "00000000:3B:00.0", "PCI:0000:3b:00", "PCI:0000:3b:00 GPU-I:05", "3b:00.0", "0000:3b:00"] {
        assert_eq!(PciAddress::parse(text), address, "{text}");
    }
    assert_eq!(PciAddress::parse("10000:01:1c.7"), Some(PciAddress { domain: 0x10000, bus: 1, device: 0x1c }));
    for text in ["", ":", "PCI:", "0000:3b", "0000:3b:zz.0", "0:0:0:0", "1:2:3", "123456789:3b:00", "0000:+b:00", "é:é:é"] {
        assert_eq!(PciAddress::parse(text), None, "{text}");
    }
}

#[test]
fn a_gpu_at_100_percent_that_moves_nothing_waits() {
    // Measured on H200: rows of the table of states.
    assert_eq!(seen(99, 84.0, 43.0, 37.0, 59e3, 690), Activity::Working, "training");
    assert_eq!(seen(98, 92.0, 76.0, 22.0, 0.0, 692), Activity::Working, "forward only");
    assert_eq!(seen(100, 18.2, 0.0, 0.0, 0.0, 255), Activity::Waiting, "all-reduce, 24 channels");
    assert_eq!(seen(100, 0.8, 0.0, 0.0, 0.0, 118), Activity::Waiting, "barrier, 1 channel");
    assert_eq!(seen(0, 0.0, 0.0, 0.0, 0.0, 120), Activity::Idle, "context open");
    assert_eq!(seen(100, 21.0, 2.0, 2.0, 3e3, 290), Activity::Working, "waits for a straggler, but moves");
}

#[test]
fn bytes_over_pcie_are_work_only_if_they_reach_memory() {
    let seen = |util, sm, dram, pcie_tx: f64, pcie_rx: f64| {
        let mut gpu = Gpu::new(0);
        let gpm = Gpm {
            sm_active_pct: Some(sm),
            tensor_active_pct: Some(0.0),
            dram_active_pct: Some(dram),
            pcie_tx_bytes_per_s: Some(pcie_tx),
            pcie_rx_bytes_per_s: Some(pcie_rx),
            ..Default::default()
        };
        gpu.apply(Stamp(1), &GpuSample { util_pct: Some(util), gpm: Some(gpm), ..Default::default() });
        gpu.activity
    };
    // Measured on H200.
    assert_eq!(seen(100, 18.18, 0.0004, 443e6, 6_559e6), Activity::Waiting, "FSDP in an all-gather that a rank does not join");
    assert_eq!(seen(100, 18.18, 0.0005, 51e6, 242e6), Activity::Waiting, "the same, another pair of GPUs");
    assert_eq!(seen(100, 12.12, 0.0053, 3_183e6, 1_000e6), Activity::Waiting, "a stage of a pipeline that waits for another");
    assert_eq!(seen(100, 24.24, 0.0103, 185e6, 100e6), Activity::Waiting, "one that sends while the other sends, too");
    assert_eq!(seen(0, 0.0, 0.029, 1_506e6, 1e6), Activity::Working, "weights to the host");
    assert_eq!(seen(100, 0.0, 1.1, 2e9, 59e9), Activity::Working, "a copy at full speed");
    assert_eq!(seen(0, 0.0, 0.0006, 1e6, 0.6e6), Activity::Idle, "file I/O of the rank");
}

#[test]
fn without_gpm_memory_utilisation_links_and_power_decide() {
    let mut gpu = Gpu::new(0);
    gpu.info.power_limit_mw = Some(400_000);
    let look = |gpu: &mut Gpu, s: i64, util, mem_util, power_w: u64, kib| {
        let sample = GpuSample {
            util_pct: Some(util),
            mem_util_pct: Some(mem_util),
            power_mw: Some(power_w * 1000),
            nvlink_tx_kib: Some(kib),
            nvlink_rx_kib: Some(kib),
            ..Default::default()
        };
        gpu.apply(Stamp(s * 1_000_000_000), &sample);
        gpu.activity
    };
    assert_eq!(look(&mut gpu, 1, 98, 40, 350, 0), Activity::Working);
    assert_eq!(look(&mut gpu, 2, 100, 0, 110, 0), Activity::Waiting);
    assert_eq!(look(&mut gpu, 3, 100, 0, 110, 1 << 20), Activity::Working);
    assert_eq!(gpu.nvlink_tx_bytes_per_s, Some(1_073_741_824.0));
    assert_eq!(look(&mut gpu, 4, 0, 0, 60, 1 << 20), Activity::Idle);
    assert_eq!(look(&mut gpu, 5, 0, 0, 60, 0).as_str(), Some("idle"));
    assert_eq!(gpu.nvlink_tx_bytes_per_s, None, "the driver was reloaded");
    let trend = |t: &Trend| t.iter().map(|(at, v)| (at.0 / 1_000_000_000, v)).collect::<Vec<_>>();
    assert_eq!(trend(&gpu.nvlink_trend), [(2, 0.0), (3, 2_147_483_648.0), (4, 0.0)]);
    assert_eq!(trend(&gpu.power_trend)[0], (1, 350.0));
    assert!(gpu.sm_trend.is_empty(), "only GPM tells");
}

#[test]
fn a_gpm_reading_that_holds_is_drawn_once() {
    let mut gpu = Gpu::new(0);
    let gpm = Gpm { sm_active_pct: Some(80.0), nvlink_tx_bytes_per_s: Some(1e9), nvlink_rx_bytes_per_s: Some(2e9), ..Default::default() };
    for s in 0..3 {
        gpu.apply(Stamp(s * 1_000_000_000), &GpuSample { gpm: (s == 0).then_some(gpm), util_pct: Some(9), ..Default::default() });
    }
    let seen = [&gpu.sm_trend, &gpu.nvlink_trend, &gpu.util_trend].map(|t| (t.iter().count(), t.last()));
    assert_eq!(seen, [(1, Some(80.0)), (1, Some(3e9)), (3, Some(9.0))]);
}

/// Made up, like an A100 whose power limit was lowered: a spinning kernel draws more than half of the limit.
#[test]
fn without_gpm_power_is_held_against_that_of_work() {
    let look = |gpu: &mut Gpu, s: i64, mem_util: Option<u32>, power_w: Option<u64>| {
        let sample = GpuSample { util_pct: Some(100), mem_util_pct: mem_util, power_mw: power_w.map(|w| w * 1000), ..Default::default() };
        gpu.apply(Stamp(s * 1_000_000_000), &sample);
        gpu.activity
    };
    let mut gpu = Gpu::new(0);
    gpu.info.power_limit_mw = Some(200_000);
    for s in 1..=9 {
        assert_eq!(look(&mut gpu, s, Some(30), Some(195)), Activity::Working);
    }
    assert_eq!((look(&mut gpu, 10, Some(0), Some(110)), gpu.at_work_w()), (Activity::Working, None), "too little is known");
    look(&mut gpu, 11, Some(30), Some(195));
    assert_eq!((look(&mut gpu, 12, Some(0), Some(110)), gpu.at_work_w()), (Activity::Waiting, Some(195.0)));
    assert_eq!(look(&mut gpu, 13, Some(1), Some(190)), Activity::Working, "it computes, and reads little");
    gpu.info.power_limit_mw = Some(500_000);
    assert_eq!(look(&mut gpu, 14, Some(1), Some(190)), Activity::Working, "whatever the limit is");
    assert_eq!(look(&mut gpu, 15, Some(0), Some(140)), Activity::Waiting, "in between, the limit decides as before");
    // Where power cannot be read, nothing is made of it.
    assert_eq!(look(&mut gpu, 16, Some(0), None), Activity::Waiting);
    assert_eq!(gpu.draws_as_at_work(), None);
    assert_eq!(look(&mut gpu, 17, None, None), Activity::Unknown, "nor of utilisation alone");
}
