//! Megatron-LM's log line and those of its forks: ` iteration 100/ 500000 | key: value | …`. The last rank prints it; its numbers are means
//! since the line before.

use super::{Line, Memory, scan};
use crate::text::{Dialect, Step, What};

/// Steps that one line may tell to be skipped.
const MAX_SKIPPED: u64 = 1000;

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    if !(line.has(b'|') && line.has(b':') && line.has(b'/')) {
        return false;
    }
    let Some((step, skipped)) = step(line.head) else { return false };
    memory.bars.step_seen();
    tell(What::Step(step));
    for _ in 0..skipped {
        tell(What::SkippedStep);
    }
    true
}

/// What stands behind `iteration` or, at the start of a line, `it`.
fn head(text: &str) -> Option<(&str, bool)> {
    if let Some(tail) = text.strip_prefix("it ") {
        return Some((tail, true));
    }
    let at = memchr::memmem::find(text.as_bytes(), b"iteration ")?;
    let (before, tail) = (text[..at].trim_end(), &text[at + 10..]);
    (before.is_empty() || before.ends_with(']')).then_some((tail, false))
}

fn step(text: &str) -> Option<(Step, u64)> {
    let (tail, short) = head(text)?;
    let tail = tail.trim_start();
    let (step, n) = scan::integer(tail)?;
    let tail = tail[n..].trim_start().strip_prefix('/')?.trim_start();
    let (total, n) = scan::integer(tail)?;
    let fields = tail[n..].trim_start();
    let fields = fields.strip_prefix('|').or(short.then_some(fields))?;
    let mut s = Step { dialect: Dialect::Megatron, step: Some(step), total_steps: Some(total), ..Step::default() };
    let (mut skipped, mut known, mut behind_loss) = (0.0, false, false);
    let mut nans = None;
    let mut pieces = fields.split('|').peekable();
    while let Some(field) = pieces.next() {
        // Every field ends with a bar; without it, the number may have been cut.
        if pieces.peek().is_none() && !short {
            break;
        }
        let Some((key, value)) = field.rsplit_once(':') else { continue };
        let Some((value, _)) = scan::number(value.trim()) else { continue };
        let key = key.trim();
        match key {
            "elapsed time per iteration (ms)" => s.step_time_s = Some(value / 1e3),
            "elapsed time per iteration (s)" => s.step_time_s = Some(value),
            "learning rate" => s.learning_rate = Some(value),
            "grad norm" => s.grad_norm = Some(value),
            "throughput per GPU (TFLOP/s/GPU)" | "TFLOPs" => rate(&mut s, value, scan::TFLOPS_GPU),
            "tokens-per-second-per-gpu" | "tokens per gpu per second (tgs)" => rate(&mut s, value, scan::TOKENS_GPU),
            "tokens per second" | "tokens-per-second" => rate(&mut s, value, scan::TOKENS),
            "samples per second" => rate(&mut s, value, scan::SAMPLES),
            "number of skipped iterations" => skipped = value,
            "lm loss" => s.loss = Some(value),
            "number of nan iterations" => nans = Some(value),
            "loss scale" => {}
            "consumed samples" | "global batch size" => {}
            _ if key.ends_with(" loss") && !key.starts_with("mtp_") && s.loss.is_none() => s.loss = Some(value),
            _ => continue,
        }
        known = true;
        behind_loss |= matches!(key, "loss scale" | "grad norm" | "number of skipped iterations" | "number of nan iterations");
    }
    // Only values that are not negative are printed: a NaN takes its field along.
    // So does a step that was skipped, which is how fp16 begins.
    let only_skipped = skipped > 0.0 && nans == Some(0.0);
    s.loss_missing = s.loss.is_none() && behind_loss && !only_skipped;
    known.then_some((s, (skipped.max(0.0) as u64).min(MAX_SKIPPED)))
}

/// The first rate of a line counts.
fn rate(s: &mut Step, value: f64, unit: &'static str) {
    if s.throughput.is_none() {
        s.throughput = Some(value);
        s.throughput_unit = Some(unit);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{one, step};
    use super::*;

    const LINE: &str = " [2026-08-22 10:11:12.345678] iteration      100/  500000 | consumed samples:       102400 | elapsed time per iteration (ms): 8654.2 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 9.150000E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 | num zeros: 0 | params norm: 1234.567 | number of skipped iterations:   0 | number of nan iterations:   0 |";

    fn whole() -> Step {
        Step {
            dialect: Dialect::Megatron,
            step: Some(100),
            total_steps: Some(500_000),
            loss: Some(2.50422),
            grad_norm: Some(0.231),
            learning_rate: Some(9.15e-6),
            step_time_s: Some(8654.2 / 1e3),
            throughput: Some(412.3),
            throughput_unit: Some("TFLOP/s/GPU"),
            ..Step::default()
        }
    }

    #[test]
    fn the_log_line() {
        assert_eq!(step(read, LINE), whole());
        // Without a time, as before 2024, and with what newer versions and other models put in.
        assert_eq!(step(read, &LINE.replace(" [2026-08-22 10:11:12.345678]", "")), whole());
        let more = LINE
            .replace("| elapsed", "| skipped samples:            0 | elapsed")
            .replace("| learning", "| energy per GPU (J/iter/GPU): 1.5 | power per GPU (W/GPU): 650.0 | learning")
            .replace("| loss scale", "| load_balancing_loss: 1.000000E+00 | mtp_1 loss: 3.100000E+00 | loss scale");
        assert_eq!(step(read, &more), whole());
    }

    #[test]
    fn forks() {
        let text = " iteration        3/   50000 | consumed samples: 96 | consumed tokens: 196608 | elapsed time per iteration (s): 16.97 | learning rate: 9.0E-08 | global batch size: 32 | lm loss: 1.2E+01 | load_balancing_loss: 1.0E+00 | loss scale: 1.0 | actual seqlen:  2048 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 1.886 | TFLOPs: 78.46 |";
        let want = Step {
            dialect: Dialect::Megatron,
            step: Some(3),
            total_steps: Some(50_000),
            loss: Some(12.0),
            learning_rate: Some(9e-8),
            step_time_s: Some(16.97),
            throughput: Some(1.886),
            throughput_unit: Some("samples/s"),
            ..Step::default()
        };
        assert_eq!(step(read, text), want);
        let s = step(read, &text.replace("samples per second: 1.886", "tokens-per-second-per-gpu: 1500.5"));
        assert_eq!((s.throughput, s.throughput_unit), (Some(1500.5), Some("tokens/s/GPU")));
        let s = step(read, &text.replace("samples per second: 1.886 | ", ""));
        assert_eq!((s.throughput, s.throughput_unit), (Some(78.46), Some("TFLOP/s/GPU")));
        let s = step(read, "it 1/1000 lm loss: 3.2 | elapsed time per iteration (ms): 101");
        assert_eq!((s.step, s.total_steps, s.loss, s.step_time_s), (Some(1), Some(1000), Some(3.2), Some(0.101)));
    }

    #[test]
    fn a_nan_loss_is_left_out_of_the_line() {
        let s = step(read, &LINE.replace("lm loss: 2.504220E+00 | ", "").replace("grad norm: 0.231", "grad norm: nan"));
        assert!(s.loss_missing && s.loss.is_none() && s.grad_norm.is_some_and(f64::is_nan));
    }

    #[test]
    fn a_torn_line_misses_no_loss_and_has_no_wrong_number() {
        let s = step(read, &LINE[..LINE.find("lm loss").unwrap()]);
        assert!(!s.loss_missing && s.loss.is_none());
        let s = step(read, &LINE[..LINE.find("04220").unwrap()]);
        assert_eq!((s.loss, s.loss_missing, s.step_time_s), (None, false, Some(8654.2 / 1e3)));
        assert_eq!(one(read, &LINE[..LINE.find("500000").unwrap() + 3]), []);
    }

    #[test]
    fn skipped_iterations() {
        let got = one(read, &LINE.replace("skipped iterations:   0", "skipped iterations:   2"));
        assert_eq!(got[1..], [What::SkippedStep, What::SkippedStep]);
    }

    #[test]
    fn other_iterations_are_not_megatrons() {
        for text in [
            "validation loss at iteration 1000 | lm loss value: 2.1E+00 | lm loss PPL: 8.2E+00 | ",
            "iteration 5",
            "iteration 5/10 done",
            "iteration 5/10 | done: yes |",
            "iteration x/y | a: 1 |",
            "saving checkpoint at iteration    1000 to /ckpt",
            "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: 1/2 |",
            "    forward-backward ...............................: (8123.45, 8130.11)",
        ] {
            assert_eq!(one(read, text), [], "{text}");
        }
    }
}
