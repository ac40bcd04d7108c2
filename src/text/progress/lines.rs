//! Step lines with a shape of their own: torchtitan, DeepSpeed, nanoGPT and its children, Composer.

use super::scan;
use crate::text::{Dialect, Step, What};

pub fn read(text: &str, batch: &mut Option<Step>) -> Option<Step> {
    torchtitan(text).or_else(|| deepspeed(text)).or_else(|| nanogpt(text)).or_else(|| composer(text, batch))
}

/// What else these trainers say.
pub fn other(text: &str) -> Option<What> {
    let overflow =
        text.contains("OVERFLOW! Rank") || text.contains("Overflow detected. Skipping step") || text.contains("Grad overflow on iteration");
    if overflow
        || text.contains("Gradient overflow.") && text.contains("Skipping step")
        || text.contains("OVERFLOW!") && text.contains("kipping step")
    {
        return Some(What::SkippedStep);
    }
    let tail = ["Total optimization steps = ", "Total training steps = ", "Total training steps: ", "total steps: "]
        .iter()
        .find_map(|m| text.split_once(m))?
        .1;
    let (total, _) = scan::integer(tail.trim_start())?;
    Some(What::TotalSteps { total })
}

/// `step: 200  loss:  6.13840  grad_norm:  0.8319  memory: 49.66GiB(52.28%)  tps: 5,856  tflops: 339.16  mfu: 34.29%`
fn torchtitan(text: &str) -> Option<Step> {
    let at = text.find("step: ")?;
    if text[..at].trim_end().ends_with("validate") || text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let (step, n) = scan::integer(text[at + 6..].trim_start())?;
    let tail = text[at + 6..].trim_start()[n..].trim_start();
    let loss = scan::number(tail.strip_prefix("loss:")?.trim_start())?.0;
    if !["  memory: ", "  tps: ", "  wps: "].iter().any(|m| tail.contains(m)) {
        return None;
    }
    let (throughput, throughput_unit) = scan::throughput(tail).unzip();
    Some(Step {
        dialect: Dialect::Torchtitan,
        step: Some(step),
        loss: Some(loss),
        grad_norm: scan::keyed(tail, &["grad_norm"]),
        throughput,
        throughput_unit,
        ..Step::default()
    })
}

/// `step=10, skipped=6, lr=[9.65e-06], mom=[…]`; `epoch=0/micro_step=100/global_step=10, RunningAvgSamplesPerSec=28.93, CurrSamplesPerSec=29.11, …`;
/// `steps: 100 loss: 2.3456 iter time (s): 1.234 samples/sec: 207.455`
fn deepspeed(text: &str) -> Option<Step> {
    let base = Step { dialect: Dialect::DeepSpeed, ..Step::default() };
    if let Some((_, tail)) = text.split_once("step=").filter(|(_, t)| t.contains(", skipped=")) {
        let (step, _) = scan::integer(tail)?;
        let lr = tail.split_once("lr=[").and_then(|(_, t)| scan::number(t)).map(|(v, _)| v);
        return Some(Step { step: Some(step), learning_rate: lr, ..base });
    }
    if let Some((before, tail)) = text.split_once("SamplesPerSec=") {
        let rate = tail.split_once("CurrSamplesPerSec=").map_or(tail, |(_, t)| t);
        let throughput = scan::number(rate)?.0;
        let step = match before.split_once("global_step=") {
            Some((_, t)) => scan::integer(t)?.0,
            // Older: `0/10, SamplesPerSec=1.88`
            None => scan::integer(before.rsplit_once('/')?.1)?.0,
        };
        return Some(Step { step: Some(step), throughput: Some(throughput), throughput_unit: Some("samples/s"), ..base });
    }
    let (_, tail) = text.split_once("steps: ")?;
    let (step, n) = scan::integer(tail)?;
    let tail = tail[n..].strip_prefix(" loss: ")?;
    let time = tail.split_once("iter time (s): ").and_then(|(_, t)| scan::number(t))?.0;
    let (throughput, throughput_unit) = scan::throughput(tail).unzip();
    Some(Step { step: Some(step), loss: scan::number(tail).map(|(v, _)| v), step_time_s: Some(time), throughput, throughput_unit, ..base })
}

/// `iter 100: loss 2.3012, time 123.40ms, mfu 30.12%`; litgpt; llm.c: `step  100/18865 | train loss 3.1 | norm 0.31 | … | 300.12 ms | …`
fn nanogpt(text: &str) -> Option<Step> {
    let base = Step { dialect: Dialect::NanoGpt, ..Step::default() };
    if let Some((_, tail)) = text.split_once("iter ").filter(|(b, _)| b.is_empty() || b.ends_with("| ")) {
        let (iter, n) = scan::integer(tail.trim_start())?;
        let tail = &tail.trim_start()[n..];
        let loss = scan::keyed(tail, &["loss", "loss train"])?;
        // litgpt counts optimizer steps beside its iterations.
        let step = tail.strip_prefix(" step ").and_then(scan::integer).map_or(iter, |(s, _)| s);
        let (throughput, throughput_unit) = scan::throughput(tail).unzip();
        let remaining_s = tail.split_once("remaining time: ").and_then(|(_, t)| scan::clock(t.split_whitespace().next()?));
        let epoch = text.strip_prefix("Epoch ").and_then(scan::integer).map(|(e, _)| e as f64);
        return Some(Step {
            step: Some(step),
            epoch,
            loss: Some(loss),
            step_time_s: scan::seconds(tail, &["iter time", "time"], 1.0),
            throughput,
            throughput_unit,
            remaining_s,
            ..base
        });
    }
    let tail = text.trim_start().strip_prefix("step ")?.trim_start();
    let (step, n) = scan::integer(tail)?;
    let (total, tail) = match tail[n..].strip_prefix('/').and_then(scan::integer) {
        Some((total, m)) => (Some(total), &tail[n + 1 + m..]),
        None => (None, &tail[n..]),
    };
    let fields = tail.trim_start().strip_prefix('|')?;
    let llm_c = fields.trim_start().starts_with("train loss ");
    let norm = scan::keyed(fields, &["norm"]);
    let gpt = norm.is_some() && fields.contains("dt: ");
    if !(llm_c || gpt) {
        return None;
    }
    let loss = scan::keyed(fields, &["train loss", "loss"])?;
    let bare_ms = || fields.split('|').find_map(|f| f.trim().strip_suffix(" ms")).and_then(scan::number).map(|(v, _)| v / 1e3);
    let (throughput, throughput_unit) = scan::throughput(fields).unzip();
    Some(Step {
        step: Some(step),
        total_steps: total,
        loss: Some(loss),
        grad_norm: norm,
        learning_rate: scan::keyed(fields, &["lr"]),
        step_time_s: scan::seconds(fields, &["dt"], 1.0).or_else(bare_ms),
        throughput,
        throughput_unit,
        ..base
    })
}

/// `[epoch=1][batch=5/10]:`, then `Train loss/train/total: 12.0123` on a line of its own.
fn composer(text: &str, batch: &mut Option<Step>) -> Option<Step> {
    let text = text.trim();
    if let Some(head) = text.strip_suffix("]:").filter(|h| h.starts_with('[')) {
        let (before, tail) = head.split_once("batch=")?;
        let (now, total) = tail.split_once('/')?;
        let epoch = before.split_once("epoch=").and_then(|(_, t)| scan::integer(t)).map(|(e, _)| e as f64);
        *batch = Some(Step { step: now.parse().ok(), total_steps: total.parse().ok(), epoch, ..Step::default() });
        return None;
    }
    let loss = text.strip_prefix("Train loss/train/total: ")?;
    let loss = scan::number(loss)?.0;
    batch.take().map(|s| Step { loss: Some(loss), ..s })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Step {
        read(text, &mut None).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn torchtitan_lines() {
        let s = step("step: 200  loss:  6.13840  grad_norm:  0.8319  memory: 49.66GiB(52.28%)  tps: 5,856  tflops: 339.16  mfu: 34.29%");
        assert_eq!((s.dialect, s.step, s.loss, s.grad_norm), (Dialect::Torchtitan, Some(200), Some(6.1384), Some(0.8319)));
        assert_eq!((s.throughput, s.throughput_unit), (Some(5856.0), Some("tokens/s/GPU")));
        let s = step("step: 10  loss:  7.85  memory: 10.00GiB(12%)  wps: 1,234  mfu: 49.1%");
        assert_eq!((s.step, s.throughput), (Some(10), Some(1234.0)));
        assert_eq!(read("validate step: 100  loss:  2.1  memory: 1GiB  tps: 5", &mut None), None);
    }

    #[test]
    fn deepspeed_lines() {
        let s = step("[Rank 0] step=10, skipped=6, lr=[9.65e-06, 9.65e-06], mom=[(0.9, 0.95), (0.9, 0.95)]");
        assert_eq!((s.dialect, s.step, s.learning_rate, s.loss), (Dialect::DeepSpeed, Some(10), Some(9.65e-6), None));
        let s = step(
            "epoch=0/micro_step=100/global_step=10, RunningAvgSamplesPerSec=28.93, CurrSamplesPerSec=29.11, MemAllocated=4.5GB, MaxMemAllocated=9.2GB",
        );
        assert_eq!((s.step, s.throughput, s.throughput_unit), (Some(10), Some(29.11), Some("samples/s")));
        assert_eq!(step("0/10, SamplesPerSec=1.88").step, Some(10));
        let s = step("steps: 100 loss: 2.3456 iter time (s): 1.234 samples/sec: 207.455");
        assert_eq!((s.step, s.loss, s.step_time_s, s.throughput), (Some(100), Some(2.3456), Some(1.234), Some(207.455)));
        assert_eq!(read("[Rank 0] time (ms) | fwd_microstep: 12.34 | bwd_microstep: 45.67", &mut None), None);
    }

    #[test]
    fn overflows() {
        for text in [
            "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
            "[deepspeed] OVERFLOW! Rank 0 Skipping step.",
            "[deepscale] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 67108864.0, reducing to 33554432.0",
            "Grad overflow on iteration 13",
            "Overflow detected. Skipping step. Attempted loss scale: 524288.0, reducing to 262144.0",
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
        ] {
            assert_eq!(other(text), Some(What::SkippedStep), "{text}");
        }
        assert_eq!(other("Reducing dynamic loss scale from 524288.0 to 262144.0"), None);
        assert_eq!(other("  Total optimization steps = 1,875"), Some(What::TotalSteps { total: 1875 }));
    }

    #[test]
    fn nanogpt_and_its_children() {
        let s = step("iter 100: loss 2.3012, time 123.40ms, mfu 30.12%");
        assert_eq!((s.dialect, s.step, s.loss), (Dialect::NanoGpt, Some(100), Some(2.3012)));
        assert!((s.step_time_s.unwrap() - 0.1234).abs() < 1e-12);
        let s = step("iter 83594: loss 1.9491, time: 6235.95ms, speed: 1771 toks/s/device");
        assert_eq!((s.throughput, s.throughput_unit), (Some(1771.0), Some("tokens/s/GPU")));
        let s = step("Epoch 1 | iter 10 step 5 | loss train: 1.234, val: n/a | iter time: 321.09 ms (step) remaining time: 1:02:03");
        assert_eq!((s.step, s.epoch, s.loss, s.remaining_s), (Some(5), Some(1.0), Some(1.234), Some(3723.0)));
        let s = step("step   100 | loss: 3.123456 | lr 1.2e-04 | norm: 0.31 | dt: 95.12ms | tok/sec: 5512345.67");
        assert_eq!((s.step, s.loss, s.learning_rate, s.throughput), (Some(100), Some(3.123456), Some(1.2e-4), Some(5_512_345.67)));
        let s = step("step  100/18865 | train loss 3.1 | norm 0.31 | lr 6.0e-04 | 300.12 ms | 55% bf16 MFU | 1745000 tok/s");
        assert_eq!((s.total_steps, s.loss, s.grad_norm, s.throughput), (Some(18865), Some(3.1), Some(0.31), Some(1_745_000.0)));
        assert!((s.step_time_s.unwrap() - 0.30012).abs() < 1e-12);
    }

    #[test]
    fn composer_blocks() {
        let mut batch = None;
        assert_eq!(read("[epoch=1][batch=5/10]:", &mut batch), None);
        assert_eq!(read("\t Train time/batch: 4", &mut batch), None);
        let s = read("\t Train loss/train/total: 12.0123", &mut batch).unwrap();
        assert_eq!((s.step, s.total_steps, s.epoch, s.loss), (Some(5), Some(10), Some(1.0), Some(12.0123)));
        assert_eq!(read("\t Train loss/train/total: 12.0123", &mut batch), None);
    }
}
