//! torchtitan: `step: 200  loss:  6.13840  grad_norm:  0.8319  memory: 49.66GiB(52.28%)  tps: 5,856  tflops: 339.16  mfu: 34.29%`, in older
//! versions `wps` and no norm. Two blanks between the fields. Its rate is of one device, the step time is not printed.

use super::{Line, Memory, scan};
use crate::text::{Dialect, Step, What};

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let Some(step) = (line.has(b':') && line.has(b'm')).then(|| step(line.head)).flatten() else { return false };
    memory.bars.step_seen();
    tell(What::Step(step));
    true
}

fn step(text: &str) -> Option<Step> {
    let at = memchr::memmem::find(text.as_bytes(), b"step: ")?;
    let before = text[..at].trim_end();
    if before.ends_with("validate") || text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let tail = text[at + 6..].trim_start();
    let (step, n) = scan::integer(tail)?;
    let (loss, fields) = scan::whole(tail[n..].trim_start().strip_prefix("loss:")?.trim_start())?;
    if !["  memory: ", "  tps: ", "  wps: "].iter().any(|m| fields.contains(m)) {
        return None;
    }
    let field = |key| scan::after(fields, key).and_then(scan::whole).map(|(v, _)| v);
    let throughput = field("  tps: ").or_else(|| field("  wps: "));
    Some(Step {
        dialect: Dialect::Torchtitan,
        step: Some(step),
        loss: Some(loss),
        grad_norm: field("  grad_norm: "),
        throughput,
        throughput_unit: throughput.map(|_| scan::TOKENS_GPU),
        ..Step::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{one, step};
    use super::*;

    #[test]
    fn lines_of_all_versions() {
        for (text, at, loss, norm, rate) in [
            ("step: 10  loss:  7.85  memory: 10.00GiB(12%)  wps: 1,234  mfu: 49.1%", 10, 7.85, None, 1234.0),
            ("step:  1  loss: 12.2611  memory: 23.41GiB(24.64%)  tps: 1,052  tflops: 60.93  mfu: 6.16%", 1, 12.2611, None, 1052.0),
            (
                "step: 20  loss:  9.1234  grad_norm:  1.2500  memory: 47.65GiB(60.20%)  tps: 6,012  tflops: 348.16  mfu: 35.20%",
                20,
                9.1234,
                Some(1.25),
                6012.0,
            ),
            (
                "step: 200  loss:  6.13840  grad_norm:  0.8319  memory: 49.66GiB(52.28%)  tps: 5,856  tflops: 339.16  mfu: N/A",
                200,
                6.1384,
                Some(0.8319),
                5856.0,
            ),
            ("step: 1,000  loss:  3.0  memory: 1.00GiB(1.00%)  tps: 1,045,856  tflops: 339.16  mfu: 1%", 1000, 3.0, None, 1_045_856.0),
        ] {
            let want = Step {
                dialect: Dialect::Torchtitan,
                step: Some(at),
                loss: Some(loss),
                grad_norm: norm,
                throughput: Some(rate),
                throughput_unit: Some("tokens/s/GPU"),
                ..Step::default()
            };
            assert_eq!(step(read, text), want, "{text}");
        }
        let nan = step(read, "step: 2  loss:      nan  grad_norm:     inf  memory: 1GiB(1%)  tps: 5  mfu: 1%");
        assert!(nan.loss.is_some_and(f64::is_nan) && nan.grad_norm == Some(f64::INFINITY));
    }

    #[test]
    fn a_torn_line_gives_no_wrong_number() {
        let torn = step(read, "step: 200  loss:  6.13840  grad_norm:  0.8319  memory: 49.66GiB(52.28%)  tps: 5,8");
        assert_eq!((torn.loss, torn.throughput, torn.throughput_unit), (Some(6.1384), None, None));
        for text in [
            "step: 200  loss:  6.1",
            "step: 20",
            "validate step: 100  loss:  2.1  memory: 1.5GiB  tps: 5  x",
            "my_step: 2  loss: 1.0  tps: 5 ",
        ] {
            assert_eq!(one(read, text), [], "{text}");
        }
    }
}
