//! fairseq: `train_inner | epoch 001:    100 / 5000 loss=12.3, nll_loss=…, wps=12345, ups=1.2, …, num_updates=100, lr=…, gnorm=2.3, …`.

use super::{Line, Memory, scan};
use crate::text::{Dialect, Step, What};

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    if !(line.has(b'=') && line.has(b'/') && line.has(b'|')) {
        return false;
    }
    let Some(step) = step(line.head) else { return false };
    memory.bars.step_seen();
    tell(What::Step(step));
    true
}

fn step(text: &str) -> Option<Step> {
    let tail = scan::after(text, "train_inner | epoch ")?;
    let (epoch, n) = scan::integer(tail)?;
    let tail = tail[n..].strip_prefix(':')?.trim_start();
    let (now, n) = scan::integer(tail)?;
    let tail = tail[n..].trim_start().strip_prefix('/')?.trim_start();
    let (total, n) = scan::integer(tail)?;
    // The last field is always `wall`: whatever else ends the line may have been cut.
    let field = |key: &str| {
        let at = memchr::memmem::find_iter(&tail.as_bytes()[n..], key).find(|at| tail.as_bytes()[n + at - 1] == b' ')?;
        scan::whole(&tail[n + at + key.len()..]).map(|(v, _)| v)
    };
    let updates = field("num_updates=").filter(|u| *u >= 0.0 && u.fract() == 0.0).map(|u| u as u64);
    let throughput = field("wps=").filter(|w| *w > 0.0);
    Some(Step {
        dialect: Dialect::Fairseq,
        step: updates.or(Some(now)),
        // Of the epoch, not of the updates.
        total_steps: if updates.is_some() { None } else { Some(total) },
        epoch: Some(epoch as f64),
        loss: Some(field("loss=")?),
        grad_norm: field("gnorm="),
        learning_rate: field("lr="),
        step_time_s: field("ups=").filter(|u| *u > 0.0).map(|u| 1.0 / u),
        throughput,
        throughput_unit: throughput.map(|_| scan::TOKENS),
        ..Step::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{one, step};
    use super::*;

    #[test]
    fn lines() {
        let text = "INFO | train_inner | epoch 001:    100 / 5000 loss=12.3, nll_loss=11, ppl=5, wps=12345, ups=1.25, wpb=9876, bsz=64, num_updates=99, lr=0.1, gnorm=2.3, loss_scale=128, train_wall=80, gb_free=10.2, wall=90";
        let want = Step {
            dialect: Dialect::Fairseq,
            step: Some(99),
            epoch: Some(1.0),
            loss: Some(12.3),
            grad_norm: Some(2.3),
            learning_rate: Some(0.1),
            step_time_s: Some(0.8),
            throughput: Some(12345.0),
            throughput_unit: Some("tokens/s"),
            ..Step::default()
        };
        assert_eq!(step(read, text), want);
        let torn = step(read, &text[..text.find("9, lr").unwrap()]);
        assert_eq!((torn.step, torn.total_steps, torn.learning_rate), (Some(100), Some(5000), None));
        assert_eq!(step(read, &text.replace("loss=12.3", "loss=inf")).loss, Some(f64::INFINITY));
    }

    #[test]
    fn torn_and_other_lines() {
        for text in [
            "train_inner | epoch 001:    100 / 50",
            "train_inner | epoch 001:    100 / 5000 loss=12",
            "valid | epoch 001 | valid on 'x' subset | loss=2 / 3",
        ] {
            assert_eq!(one(read, text), [], "{text}");
        }
    }
}
