//! nanoGPT: `iter 100: loss 2.3012, time 123.40ms, mfu 30.12%`; build-nanogpt: `step   100 | loss: 3.123456 | lr 1.2e-04 | norm: 0.31 |
//! dt: 95.12ms | tok/sec: 5512345.67`; llm.c: `step  100/18865 | train loss 3.1 | norm 0.31 | lr 6.0e-04 | 300.12 ms | 55% bf16 MFU |
//! 1745000 tok/s`; lit-llama: `iter 83594: loss 1.9491, time: 6235.95ms, speed: 1771 toks/s/device`.

use super::{Line, Memory, plain, scan};
use crate::text::{Dialect, Step, What};

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let step = if let Some(tail) = line.head.strip_prefix("iter ") {
        nano(tail)
    } else if let Some(tail) = line.head.strip_prefix("step ") {
        fields(tail)
    } else {
        None
    };
    let Some(step) = step else { return false };
    memory.bars.step_seen();
    tell(What::Step(step));
    true
}

fn milliseconds(text: &str) -> Option<f64> {
    let (v, rest) = scan::whole(text)?;
    let rest = rest.trim_start_matches(' ').strip_prefix("ms")?;
    (!rest.starts_with(|c: char| c.is_ascii_alphabetic())).then_some(v / 1e3)
}

fn nano(tail: &str) -> Option<Step> {
    let (step, n) = scan::integer(tail.trim_start())?;
    let tail = tail.trim_start()[n..].strip_prefix(": loss ")?;
    let (loss, tail) = scan::whole(tail)?;
    let tail = tail.strip_prefix(',')?;
    let time = scan::after(tail, " time").and_then(|t| milliseconds(t.trim_start_matches([':', ' '])));
    let throughput = scan::after(tail, " speed: ").and_then(scan::whole).filter(|(_, t)| t.starts_with(" toks/s/device")).map(|(v, _)| v);
    Some(Step {
        dialect: Dialect::NanoGpt,
        step: Some(step),
        loss: Some(loss),
        step_time_s: time,
        throughput,
        throughput_unit: throughput.map(|_| scan::TOKENS_GPU),
        ..Step::default()
    })
}

fn fields(tail: &str) -> Option<Step> {
    let tail = tail.trim_start();
    let (step, total_steps) = plain::count(tail)?;
    let (_, fields) = tail.split_once('|').filter(|(n, _)| n.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'/' | b' ')))?;
    let llm_c = fields.trim_start().starts_with("train loss ");
    if !(llm_c || fields.contains("norm") && fields.contains("dt: ")) {
        return None;
    }
    let mut s = Step { dialect: Dialect::NanoGpt, step: Some(step), total_steps, ..Step::default() };
    let mut pieces = fields.split('|').map(str::trim).peekable();
    while let Some(field) = pieces.next() {
        // A last one without its unit may have been cut.
        let last = pieces.peek().is_none();
        let named = |key: &str| {
            let value = field.strip_prefix(key)?.trim_start_matches([':', ' ']);
            scan::number(value).map(|(v, _)| v).filter(|_| !last)
        };
        if let Some(v) = named("train loss").or_else(|| named("loss")) {
            s.loss = Some(v);
        } else if let Some(v) = named("norm") {
            s.grad_norm = Some(v);
        } else if let Some(v) = named("lr") {
            s.learning_rate = Some(v);
        } else if let Some(time) = milliseconds(field.strip_prefix("dt: ").unwrap_or(field)) {
            s.step_time_s = Some(time);
        } else {
            let rate = match field.strip_suffix(" tok/s") {
                Some(rate) => Some(rate),
                None => field.strip_prefix("tok/sec: "),
            };
            let rate = rate.and_then(|r| scan::number(r.trim())).map(|(v, _)| v);
            (s.throughput, s.throughput_unit) = (rate.or(s.throughput), rate.map(|_| scan::TOKENS).or(s.throughput_unit));
        }
    }
    s.loss.map(|_| s)
}

#[cfg(test)]
mod tests {
    use super::super::{one, step};
    use super::*;

    fn base(step: u64, loss: f64) -> Step {
        Step { dialect: Dialect::NanoGpt, step: Some(step), loss: Some(loss), ..Step::default() }
    }

    #[test]
    fn nanogpt() {
        assert_eq!(step(read, "iter 100: loss 2.3012, time 123.50ms, mfu 30.12%"), Step { step_time_s: Some(0.1235), ..base(100, 2.3012) });
        assert_eq!(step(read, "iter 0: loss 10.9, time 500ms, mfu -100.00%"), Step { step_time_s: Some(0.5), ..base(0, 10.9) });
        assert!(step(read, "iter 7: loss nan, time 123.50ms, mfu 30.12%").loss.is_some_and(f64::is_nan));
        for torn in ["iter 100: loss 2.3", "iter 100: lo", "iter 10"] {
            assert_eq!(one(read, torn), [], "{torn}");
        }
        assert_eq!(step(read, "iter 100: loss 2.3012, time 123.4"), base(100, 2.3012));
    }

    #[test]
    fn lit_llama() {
        let want = Step {
            step_time_s: Some(6235.95 / 1e3),
            throughput: Some(1771.0),
            throughput_unit: Some("tokens/s/GPU"),
            ..base(83594, 1.9491)
        };
        assert_eq!(step(read, "iter 83594: loss 1.9491, time: 6235.95ms, speed: 1771 toks/s/device"), want);
        assert_eq!(
            step(read, "iter 83594: loss 1.9491, time: 6235.95ms, speed: 17"),
            Step { throughput: None, throughput_unit: None, ..want }
        );
        assert_eq!(step(read, "iter 5: loss 1.5, time: 250.00ms"), Step { step_time_s: Some(0.25), ..base(5, 1.5) });
    }

    #[test]
    fn build_nanogpt() {
        let want = Step {
            grad_norm: Some(0.31),
            learning_rate: Some(1.2e-4),
            step_time_s: Some(0.0955),
            throughput: Some(5_512_345.67),
            throughput_unit: Some("tokens/s"),
            ..base(100, 3.123456)
        };
        assert_eq!(step(read, "step   100 | loss: 3.123456 | lr 1.2e-04 | norm: 0.31 | dt: 95.50ms | tok/sec: 5512345.67"), want);
        let torn = step(read, "step   100 | loss: 3.123456 | lr 1.2e-04 | norm: 0.31 | dt: 95.5");
        assert_eq!(torn, Step { step_time_s: None, throughput: None, throughput_unit: None, ..want });
    }

    #[test]
    fn llm_c() {
        let want = Step {
            total_steps: Some(18865),
            grad_norm: Some(0.31),
            learning_rate: Some(6e-4),
            step_time_s: Some(0.3125),
            throughput: Some(1_745_000.0),
            throughput_unit: Some("tokens/s"),
            ..base(100, 3.1)
        };
        assert_eq!(
            step(read, "step  100/18865 | train loss 3.1 | norm 0.31 | lr 6.0e-04 | 312.50 ms | 55% bf16 MFU | 1745000 tok/s"),
            want
        );
        // With the z-scores of newer versions.
        let text = "step  100/18865 | loss 3.1 (+0.52z)| norm 0.31 (-1.10z)| lr 6.00e-04 | 312.50 ms | 55.0% bf16 MFU | 1745000 tok/s";
        let s = step(read, &text.replace("| loss", "| train loss"));
        assert_eq!(s, want);
        let torn = step(read, "step  100/18865 | train loss 3.1 | norm 0.31 | lr 6.0e-04 | 312.50 ms | 55% bf16 MFU | 1745");
        assert_eq!((torn.throughput, torn.throughput_unit), (None, None));
    }

    #[test]
    fn other_lines() {
        for text in ["step 2000: train loss 2.1, val loss 2.2", "step 3 | of the plan", "iter 5: val loss 2.0", "steps 5 | loss 2"] {
            assert_eq!(one(read, text), [], "{text}");
        }
    }
}
