//! DeepSpeed: its report of steps, its throughput timer, the pipeline engine's line and the overflows of fp16, of all versions.

use super::{Line, Memory, scan};
use crate::text::{Dialect, Step, What};

/// The counter of skipped steps that its reports carry.
#[derive(Clone, Default, PartialEq)]
pub struct Skipped {
    last: Option<u64>,
    /// Told by lines of their own since then.
    told: u64,
}

/// More in one line than this is a counter that began somewhere else.
const MAX_SKIPPED: u64 = 1000;

impl Skipped {
    fn grown(&mut self, now: u64) -> u64 {
        let new = self.last.map_or(0, |last| now.saturating_sub(last)).saturating_sub(self.told);
        *self = Skipped { last: Some(now), told: 0 };
        new.min(MAX_SKIPPED)
    }
}

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    if is_overflow(line) {
        memory.skipped.told += 1;
        tell(What::SkippedStep);
        return true;
    }
    let (step, skipped) = match report(line).or_else(|| timer(line).or_else(|| pipeline(line)).map(|s| (s, None))) {
        Some(found) => found,
        None => return false,
    };
    memory.bars.step_seen();
    tell(What::Step(step));
    for _ in 0..skipped.map_or(0, |s| memory.skipped.grown(s)) {
        tell(What::SkippedStep);
    }
    true
}

fn base() -> Step {
    Step { dialect: Dialect::DeepSpeed, ..Step::default() }
}

/// `step=10, skipped=6, lr=[9.65e-06, 9.65e-06], mom=[(0.9, 0.95), (0.9, 0.95)]`
fn report(line: &Line<'_>) -> Option<(Step, Option<u64>)> {
    if !(line.has(b'=') && line.has(b',')) {
        return None;
    }
    let tail = scan::after(line.head, "step=")?;
    let (step, n) = scan::integer(tail)?;
    let tail = tail[n..].strip_prefix(", skipped=")?;
    let (skipped, n) = scan::integer(tail).filter(|(_, n)| *n < tail.len())?;
    let lr = tail[n..].strip_prefix(", lr=[").and_then(scan::whole).map(|(v, _)| v);
    Some((Step { step: Some(step), learning_rate: lr, ..base() }, Some(skipped)))
}

/// `epoch=0/micro_step=100/global_step=10, RunningAvgSamplesPerSec=28.93, CurrSamplesPerSec=29.11, …`; older: `0/10, SamplesPerSec=1.88`
fn timer(line: &Line<'_>) -> Option<Step> {
    if !(line.has(b'=') && line.has(b'/')) {
        return None;
    }
    let at = memchr::memmem::find(line.head.as_bytes(), b"SamplesPerSec=")?;
    let (before, tail) = (&line.head[..at], &line.head[at + 14..]);
    let throughput = match scan::after(tail, "CurrSamplesPerSec=").and_then(scan::whole) {
        Some((now, _)) => now,
        // The only one of the old line ends it.
        None => scan::number(tail)?.0,
    };
    let (step, _) = match scan::after(before, "global_step=") {
        Some(t) => scan::integer(t)?,
        None => scan::integer(before.rsplit_once('/')?.1)?,
    };
    let epoch = scan::after(before, "epoch=").and_then(scan::integer).map(|(e, _)| e as f64);
    // Before the first step its mean is minus infinity.
    let throughput = Some(throughput).filter(|t| t.is_finite());
    Some(Step { step: Some(step), epoch, throughput, throughput_unit: throughput.map(|_| scan::SAMPLES), ..base() })
}

/// `steps: 100 loss: 2.3456 iter time (s): 1.234 samples/sec: 207.455`
fn pipeline(line: &Line<'_>) -> Option<Step> {
    if !(line.has(b'(') && line.has(b':')) {
        return None;
    }
    let tail = scan::after(line.head, "steps: ")?;
    let (step, n) = scan::integer(tail)?;
    let (loss, tail) = scan::whole(tail[n..].strip_prefix(" loss: ")?)?;
    let (time, tail) = scan::after(tail, "iter time (s): ").and_then(scan::whole)?;
    let throughput = scan::after(tail, "samples/sec: ").and_then(scan::number).map(|(v, _)| v);
    Some(Step {
        step: Some(step),
        loss: Some(loss),
        step_time_s: Some(time),
        throughput,
        throughput_unit: throughput.map(|_| scan::SAMPLES),
        ..base()
    })
}

/// A step that fp16 could not represent and that was left out, as DeepSpeed, its fused optimizer and apex say it.
fn is_overflow(line: &Line<'_>) -> bool {
    let text = line.head;
    if line.has(b'O') && line.has(b'!') && text.contains("OVERFLOW!") && text.contains("kipping step") {
        return true;
    }
    line.has(b'v')
        && memchr::memmem::find(text.as_bytes(), b"verflow").is_some()
        && (text.contains("Overflow detected. Skipping step")
            || text.contains("Grad overflow on iteration")
            || text.contains("Gradient overflow.") && text.contains("Skipping step"))
}

#[cfg(test)]
mod tests {
    use super::super::{one, several, step};
    use super::*;

    #[test]
    fn reports() {
        for text in [
            "[Rank 0] step=10, skipped=6, lr=[9.65e-06, 9.65e-06], mom=[(0.9, 0.95), (0.9, 0.95)]",
            "step=10, skipped=6, lr=[9.65e-06], mom=[[0.9, 0.999]]",
        ] {
            assert_eq!(step(read, text), Step { step: Some(10), learning_rate: Some(9.65e-6), ..base() }, "{text}");
        }
        assert_eq!(step(read, "step=10, skipped=6, lr=[9.6").learning_rate, None);
        assert_eq!(one(read, "step=10, skipped=6"), []);
    }

    #[test]
    fn throughput_timers_of_all_versions() {
        let want = Step { step: Some(10), throughput: Some(29.11), throughput_unit: Some("samples/s"), ..base() };
        let text = "epoch=0/micro_step=100/global_step=10, RunningAvgSamplesPerSec=28.93, CurrSamplesPerSec=29.11, MemAllocated=4.5GB, MaxMemAllocated=9.2GB";
        assert_eq!(step(read, text), Step { epoch: Some(0.0), ..want.clone() });
        assert_eq!(step(read, "0/10, SamplesPerSec=29.11"), want);
        let text = "0/10, RunningAvgSamplesPerSec=28.932512, CurrSamplesPerSec=29.11, MemAllocated=4.5GB, MaxMemAllocated=9.2GB";
        assert_eq!(step(read, text), want);
        let text = "epoch=0/micro_step=2/global_step=2, RunningAvgSamplesPerSec=-inf, CurrSamplesPerSec=-inf, MemAllocated=4.5GB";
        assert_eq!((step(read, text).step, step(read, text).throughput), (Some(2), None));
    }

    #[test]
    fn the_pipeline_engine() {
        let want = Step {
            step: Some(100),
            loss: Some(2.3456),
            step_time_s: Some(1.234),
            throughput: Some(207.455),
            throughput_unit: Some("samples/s"),
            ..base()
        };
        assert_eq!(step(read, "steps: 100 loss: 2.3456 iter time (s): 1.234 samples/sec: 207.455"), want);
        assert_eq!(one(read, "steps: 100 loss: 2.3456 iter time (s): 1.2"), []);
        assert!(step(read, "steps: 1 loss: nan iter time (s): 1.2 samples/sec: 2").loss.is_some_and(f64::is_nan));
    }

    #[test]
    fn overflows_of_all_versions() {
        for text in [
            "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
            "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, but hysteresis is 2. Reducing hysteresis to 1",
            "[deepspeed] OVERFLOW! Rank 0 Skipping step.",
            "[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 67108864.0, reducing to 33554432.0",
            "[deepscale] OVERFLOW! Skipping step. Attempted loss scale: 67108864.0, reducing to 33554432.0",
            "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to 4294967296",
            "Grad overflow on iteration 13",
            "Overflow detected. Skipping step. Attempted loss scale: 524288.0, reducing to 262144.0",
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
        ] {
            assert_eq!(one(read, text), [What::SkippedStep], "{text}");
        }
        for text in ["Reducing dynamic loss scale from 524288.0 to 262144.0", "buffer overflow!", "stack OVERFLOW! abort"] {
            assert_eq!(one(read, text), [], "{text}");
        }
    }

    #[test]
    fn a_growing_counter_tells_what_no_line_told() {
        let report = |n: u64| format!("step={}0, skipped={n}, lr=[1e-05], mom=[(0.9, 0.95)]", n + 1);
        let overflow = "[deepspeed] OVERFLOW! Rank 0 Skipping step.".to_owned();
        let lines = [report(6), report(6), report(8), overflow, report(9)];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let got = several(read, &lines);
        assert_eq!(got.iter().filter(|w| **w == What::SkippedStep).count(), 3, "{got:?}");
    }

    #[test]
    fn breakdowns_of_the_wall_clock_are_no_steps() {
        for text in [
            "[Rank 0] time (ms) | fwd_microstep: 12.34 | bwd_microstep: 45.67 | bwd_inner_microstep: 40.00 | step_microstep: 5.00",
            "time (ms) | fwd: 12.34 | bwd: 45.67 | bwd_inner: 40.00 | bwd_allreduce: 1.00 | step: 5.00",
        ] {
            assert_eq!(one(read, text), [], "{text}");
        }
    }
}
