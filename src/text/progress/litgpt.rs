//! litgpt since 2024: `Epoch 1 | iter 10 step 5 | loss train: 1.234, val: n/a | iter time: 321.09 ms (step) remaining time: 1:02:03`. Counts
//! optimizer steps beside its iterations.

use super::{Line, Memory, scan};
use crate::text::{Dialect, Step, What};

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let Some(step) = line.head.strip_prefix("Epoch ").and_then(step) else { return false };
    memory.bars.step_seen();
    tell(What::Step(step));
    true
}

fn step(tail: &str) -> Option<Step> {
    let (epoch, n) = scan::integer(tail)?;
    let tail = tail[n..].strip_prefix(" | iter ")?;
    let (_, n) = scan::integer(tail)?;
    let tail = tail[n..].strip_prefix(" step ")?;
    let (step, n) = scan::integer(tail)?;
    let (loss, tail) = scan::whole(tail[n..].strip_prefix(" | loss train: ")?)?;
    let time = scan::after(tail, "| iter time: ").and_then(scan::whole).filter(|(_, t)| t.starts_with(" ms")).map(|(v, _)| v / 1e3);
    Some(Step {
        dialect: Dialect::LitGpt,
        step: Some(step),
        epoch: Some(epoch as f64),
        loss: Some(loss),
        step_time_s: time,
        remaining_s: scan::after(tail, "remaining time: ").and_then(scan::left),
        ..Step::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{one, step};
    use super::*;

    #[test]
    fn lines() {
        let want = Step {
            dialect: Dialect::LitGpt,
            step: Some(5),
            epoch: Some(1.0),
            loss: Some(1.234),
            step_time_s: Some(0.3215),
            remaining_s: Some(3723.0),
            ..Step::default()
        };
        let text = "Epoch 1 | iter 10 step 5 | loss train: 1.234, val: n/a | iter time: 321.50 ms (step) remaining time: 1:02:03";
        assert_eq!(step(read, text), want);
        let text = "Epoch 1 | iter 10 step 5 | loss train: 1.234, val: 2.5 | iter time: 321.50 ms remaining time: 2 days, 1:00:00";
        assert_eq!(step(read, text), Step { remaining_s: Some(176_400.0), ..want.clone() });
        let text = "Epoch 1 | iter 10 step 5 | loss train: 1.234, val: n/a | iter time: 321.50 ms (step)";
        assert_eq!(step(read, text), Step { remaining_s: None, ..want.clone() });
        assert_eq!(
            step(read, "Epoch 1 | iter 10 step 5 | loss train: 1.234, val: n/a | iter time: 32"),
            Step { remaining_s: None, step_time_s: None, ..want }
        );
    }

    #[test]
    fn torn_and_other_lines() {
        for text in ["Epoch 1 | iter 10 step 5 | loss train: 1.2", "Epoch 1 | iter 10", "Epoch 1 [100/5000] loss 2.31"] {
            assert_eq!(one(read, text), [], "{text}");
        }
    }
}
