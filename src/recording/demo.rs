//! Recordings that come with the program, with the pace at which they are shown and a line for each part: what happens, where to look.

use crate::recording::tape::{Reader, TapeError};
use std::time::Duration;

/// A recording of a real job on 2 or 4 GPUs, or one of a machine that was modelled. Offsets are from the first observation of the tape.
///
/// What is recorded stays as it was measured, but for the names of script and log (`train.py`, `train.log`), and in `none` for the loss of a job
/// that learns nothing, which is left out: `cargo run --example trim_tape` with `--script` and `--replace`. Jobs that learn are of `tests/lab/demo.py`.
pub struct Demo {
    pub name: &'static str,
    pub title: &'static str,
    /// No such job ran: the sources read a tree of files whose counters a script moved (`cargo run --example play_host -- --tape`).
    pub modelled: bool,
    tape: &'static [u8],
    /// Where it begins to be shown, seconds before it becomes interesting. What comes before is read at once: sparklines have a past.
    pub begin: Duration,
    /// From when on the tape is shown how many times faster than it was made.
    pub speeds: &'static [(Duration, f64)],
    /// From when on which line is shown.
    pub captions: &'static [(Duration, &'static str)],
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The first is what is shown when none is named.
pub const DEMOS: &[Demo] = &[
    Demo {
        name: "hang",
        title: "one rank stops, the others wait for it",
        modelled: false,
        tape: include_bytes!("../../assets/demo/hang.jsonl.gz"),
        begin: ms(28_900),
        speeds: &[(ms(0), 2.0), (ms(28_900), 1.0)],
        captions: &[
            (ms(0), "4 GPUs idle, no job yet"),
            (ms(5_600), "A torchrun job starts: 4 ranks import, then set up NCCL; no step yet"),
            (ms(20_600), "Training a GPT of 219 M parameters: a step takes 37 ms, and the loss falls"),
            (ms(28_900), "A step takes 37 ms, and the loss falls. Soon rank 3 stops: watch GPU 3 and the step"),
            (ms(40_000), "No step after 462. GPU 3 is idle, the others spin at 170 W. The log says nothing"),
            (ms(43_500), "RAS counts fewer operations for rank 3 than for the others, and no count moves"),
            (ms(47_500), "Stuck, 10 seconds after it happened: rank 3 has not joined the AllReduce that 3 ranks wait in"),
            (ms(53_000), "Below the verdict: what proves it, and what to run next, py-spy on the process of rank 3"),
        ],
    },
    Demo {
        name: "slow",
        title: "one rank is late at every step",
        modelled: false,
        tape: include_bytes!("../../assets/demo/slow.jsonl.gz"),
        begin: ms(29_700),
        speeds: &[(ms(0), 2.0), (ms(29_700), 1.0)],
        captions: &[
            (ms(0), "4 GPUs idle, no job yet"),
            (ms(5_600), "A torchrun job starts: 4 ranks import, then set up NCCL; no step yet"),
            (ms(21_200), "Training a GPT of 219 M parameters: a step takes 38 ms, each of the 4 GPUs draws 680 W"),
            (ms(29_700), "A step takes 38 ms, and the loss falls. Soon rank 2 slows down: watch GPU 2"),
            (ms(38_800), "A step takes 157 ms instead of 38 ms. Nothing fails, and no line in the log says why"),
            (ms(43_700), "Slow steps. GPUs 0, 1 and 3 are busy all the time, because they wait; GPU 2 is not"),
            (ms(48_300), "Slow: rank 2 (GPU 2) is late every step, and the other 3 ranks wait for it"),
            (ms(54_000), "All ranks make the same steps; how long each GPU is busy tells which one is late"),
            (ms(60_000), "Below the verdict: what proves it, and what to run next, py-spy on the process of rank 2"),
        ],
    },
    Demo {
        name: "pipeline",
        title: "the last stage of a pipeline stops sending and receiving",
        modelled: false,
        tape: include_bytes!("../../assets/demo/pipeline.jsonl.gz"),
        begin: ms(29_500),
        speeds: &[(ms(0), 2.0), (ms(29_500), 1.0)],
        captions: &[
            (ms(0), "4 GPUs idle, no job yet"),
            (ms(5_600), "A pipeline of 4 stages starts: each rank holds a part of the model"),
            (ms(20_300), "Training: activations go from stage to stage, gradients come back, by send and receive"),
            (ms(29_500), "A step takes 56 ms, and the loss falls. Soon rank 3, the last stage, stops: watch GPU 3"),
            (ms(40_600), "No step after 317. RAS cannot tell: it does not count sends and receives"),
            (ms(48_300), "Stuck: rank 3 neither sends nor receives; stage 3 waits for it, and the stages before wait behind"),
            (ms(54_500), "Below the verdict: what proves it, and what to run next, py-spy on the process of rank 3"),
        ],
    },
    Demo {
        name: "xid",
        title: "a GPU falls off the bus",
        modelled: true,
        tape: include_bytes!("../../assets/demo/xid.jsonl.gz"),
        begin: ms(27_000),
        speeds: &[(ms(0), 2.0), (ms(27_000), 1.0)],
        captions: &[
            (ms(0), "Modelled: a DGX H100, 8 GPUs, 8 InfiniBand ports of 400 Gb/s; no job yet"),
            (ms(6_100), "A job of 16 ranks starts, 8 of them here"),
            (ms(13_100), "Training: a step takes 1.0 s, and the loss falls"),
            (ms(27_000), "A step takes 1.0 s. Soon GPU 5 falls off the bus"),
            (ms(35_100), "Failed, with the line of the kernel's log: Xid 79. GPU 5 is lost, rank 13 ran on it"),
            (ms(42_000), "The other 7 GPUs of the node read 100 %, because they wait in a collective for rank 13"),
            (ms(50_000), "The job itself may not say so for 10 minutes: PyTorch's default timeout for a collective"),
        ],
    },
    Demo {
        name: "nan",
        title: "the loss becomes NaN, and the job goes on",
        modelled: true,
        tape: include_bytes!("../../assets/demo/nan.jsonl.gz"),
        begin: ms(27_000),
        speeds: &[(ms(0), 2.0), (ms(27_000), 1.0)],
        captions: &[
            (ms(0), "Modelled: a DGX H100, 8 GPUs, 8 InfiniBand ports of 400 Gb/s; no job yet"),
            (ms(6_100), "A job of 16 ranks starts, 8 of them here"),
            (ms(13_100), "Training: two steps a second, and the loss falls"),
            (ms(27_000), "Training: two steps a second. Soon the loss is no number any more"),
            (ms(36_100), "NaN at step 1246. All GPUs still work at full power, and no rank is to blame"),
            (ms(44_000), "Every step from here on is wasted: go back to the last checkpoint before it"),
        ],
    },
    Demo {
        name: "none",
        title: "a healthy run from start to end",
        modelled: false,
        tape: include_bytes!("../../assets/demo/none.jsonl.gz"),
        begin: ms(50_000),
        speeds: &[(ms(0), 2.0), (ms(10_000), 1.0), (ms(21_000), 2.0), (ms(50_000), 1.0)],
        captions: &[
            (ms(0), "4 GPUs idle, no job yet"),
            (ms(10_100), "A torchrun job starts: 4 ranks hold GPUs and set up NCCL; no step yet"),
            (ms(21_100), "Training: a step takes 100 ms, each of the 4 GPUs draws 690 W"),
            (ms(35_000), "RAS counts the same number of operations for all 4 ranks"),
            (ms(48_000), "No warning and no error: a healthy run has nothing to report"),
            (ms(62_000), "A step takes as long as ever: the run ends after step 519"),
            (ms(71_100), "The last step is done: the ranks end, and the GPUs fall idle"),
            (ms(74_100), "Finished: all processes ended at step 519. A normal end raises no alarm"),
        ],
    },
    // Scripts: tests/fixtures/hosts/scripts/demo-*.play
    Demo {
        name: "efa",
        title: "one of 32 EFA devices loses packets, and a peer stops answering",
        modelled: true,
        tape: include_bytes!("../../assets/demo/efa.jsonl.gz"),
        begin: ms(27_000),
        speeds: &[(ms(0), 2.0), (ms(16_000), 1.5), (ms(27_000), 1.0), (ms(37_500), 2.0), (ms(55_500), 1.0)],
        captions: &[
            (ms(0), "Modelled counters: a p5.48xlarge, 8 GPUs, 32 EFA devices of 100 Gb/s; no job yet"),
            (ms(6_100), "A job of 16 ranks starts, 8 of them here; NCCL's plugin finds 32 devices, 4 for each GPU"),
            (ms(16_100), "Training: a step takes 1.0 s, and each device carries 62 Gb/s in and out, in bursts"),
            (ms(27_000), "A step takes 1.0 s. Soon one device begins to lose packets: watch the step time"),
            (ms(37_500), "A step takes 1.6 s. Device rdmap147s0 retransmits 900 packets a second, the others none"),
            (ms(45_100), "Slow: all GPUs wait for one device of 32, and no line in the log says so"),
            (ms(54_000), "Since second 41 a peer behind the same device does not answer: its flows are called impaired"),
            (ms(66_000), "The 31 others are clean: it is the path of this device, not the job and not the GPUs"),
        ],
    },
    Demo {
        name: "roce-rail",
        title: "one of 8 RoCE rails carries half of what the others carry",
        modelled: true,
        tape: include_bytes!("../../assets/demo/roce-rail.jsonl.gz"),
        begin: ms(27_000),
        speeds: &[(ms(0), 2.0), (ms(16_000), 1.5), (ms(27_000), 1.0), (ms(37_500), 2.0), (ms(54_000), 1.0)],
        captions: &[
            (ms(0), "Modelled counters: an HGX board, 8 GPUs, a RoCE port of 400 Gb/s for each; no job yet"),
            (ms(6_100), "A job of 16 ranks starts, 8 of them here; NCCL uses mlx5_0 to mlx5_7, not the bond"),
            (ms(16_100), "Training: a step takes 1.0 s, and each rail carries 210 Gb/s in and out, in bursts"),
            (ms(27_000), "A step takes 1.0 s. Soon one rail falls to half its rate: watch the step time"),
            (ms(36_500), "A step takes 1.6 s. No port is down, nothing is lost, and the log says nothing"),
            (ms(45_100), "Slow: seven rails carry 131 Gb/s, mlx5_5 carries 66, and every step waits for it"),
            (ms(54_000), "GPU 5 uses mlx5_5: look at its cable, its switch port, and what else is behind that port"),
        ],
    },
];

impl Demo {
    /// # Errors
    /// If the recording in this program is damaged.
    pub fn open(&self) -> Result<Reader, TapeError> {
        Reader::from_read(Box::new(self.tape), self.name)
    }

    /// How many times faster than it was made the tape is shown at `offset`.
    pub fn speed_at(&self, offset: Duration) -> f64 {
        last_at(self.speeds, offset).unwrap_or(1.0)
    }

    pub fn caption_at(&self, offset: Duration) -> &'static str {
        last_at(self.captions, offset).unwrap_or_default()
    }
}

fn last_at<T: Copy>(entries: &[(Duration, T)], offset: Duration) -> Option<T> {
    entries.iter().rev().find(|e| e.0 <= offset).map(|e| e.1)
}
