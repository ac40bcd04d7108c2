//! Training progress in the dialects of the common trainers: steps, pauses, ends. Requires a number and what it counts; prose is no step.
//!
//! **A line is a step** when a dialect knows its shape, or, in no known shape, when it names a step and beside it a loss or the time of a
//! step, each with its number. A dictionary of the HF Trainer has a loss and no step: it is one too, and its step is in the bar beside it.
//! Of the bars only that of the training counts; those of evaluations and of the loading of data are pauses, others nothing.
//!
//! What a step's fields mean, in all dialects:
//! - `step`, `total_steps`: optimizer steps of the training where the line has them, else batches of the epoch. NeMo 2 counts from 0.
//! - `epoch`: as printed, from 0 or from 1, whole or not.
//! - `loss`: of the training; the newest where the line also has a mean. NaN and infinity are values.
//! - `loss_missing`: the dialect always prints a loss, and this whole line has none: Megatron leaves out what is NaN.
//! - `step_time_s`: of one step, in seconds, as printed or from a rate in steps. Never derived from a total.
//! - `throughput`, `throughput_unit`: of tokens, samples or operations. Steps per second are a step time, no throughput. `/GPU` where the
//!   trainer divides by the devices.
//! - `remaining_s`: as the line says, of the whole bar or run that it counts.
//! - `bar`: redrawn in place.
//!
//! A number that the end of a torn line may have cut is left out where the dialect goes on behind it.
//!
//! **To teach it a dialect**: a file with a reader and its lines as tests, and its line in [`DIALECTS`].

mod bar;
mod composer;
mod deepspeed;
mod dict;
mod fairseq;
mod litgpt;
mod megatron;
mod nanogpt;
mod nemo;
mod phase;
mod plain;
mod scan;
mod torchtitan;
mod vision;

use super::prefix::Peeled;
use super::{Phase, TextEvent, What};

/// Puts what a line of its dialect says into the last argument. `false`: it is of another one.
type Reader = fn(&Line<'_>, &mut Memory, &mut dyn FnMut(What)) -> bool;

/// The first that knows the line reads it. Each turns other lines away by a byte or a word that they lack.
const DIALECTS: &[Reader] = &[
    bar::read,
    dict::read,
    megatron::read,
    torchtitan::read,
    deepspeed::read,
    nemo::read,
    nanogpt::read,
    litgpt::read,
    composer::read,
    fairseq::read,
    vision::read,
];

/// What one line of a file leaves for the next: which bar is the training, and the heads of multi-line blocks.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    memory: Memory,
}

#[derive(Clone, Default, PartialEq)]
struct Memory {
    bars: bar::Bars,
    block: composer::Block,
    skipped: deepspeed::Skipped,
}

/// A line and what it holds, so that most dialects need not search it.
struct Line<'a> {
    /// Without blanks in front.
    head: &'a str,
    /// The ASCII characters in it.
    holds: u128,
    wide: bool,
}

impl<'a> Line<'a> {
    fn new(text: &'a str) -> Self {
        let head = text.trim_start_matches([' ', '\t']);
        let (mut holds, mut all) = (0, 0);
        for b in head.bytes() {
            holds |= 1u128 << (b & 0x7f);
            all |= b;
        }
        Line { head, holds, wide: all >= 0x80 }
    }

    fn has(&self, b: u8) -> bool {
        self.holds >> (b & 0x7f) & 1 == 1
    }
}

/// Longer lines hold configurations and data, not progress.
const MAX_LINE: usize = 4096;

impl State {
    pub fn read(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) {
        if p.rest.len() > MAX_LINE {
            return;
        }
        let line = Line::new(p.rest);
        let mut tell = |what| out.push(TextEvent { origin: p.origin.clone(), what, said_at: None });
        let memory = &mut self.memory;
        if DIALECTS.iter().any(|read| read(&line, memory, &mut tell)) {
            return;
        }
        phase::read(&line, &mut tell);
        if plain::read(&line, memory, &mut tell) {
            memory.bars.step_seen();
        }
    }
}

fn phase_event(phase: Phase, begins: bool) -> What {
    What::Phase { phase, begins }
}

/// What one line says, by one reader and with nothing before it.
#[cfg(test)]
fn one(read: Reader, text: &str) -> Vec<What> {
    several(read, &[text])
}

#[cfg(test)]
fn several(read: Reader, lines: &[&str]) -> Vec<What> {
    let (mut memory, mut out) = (Memory::default(), Vec::new());
    for l in lines {
        read(&Line::new(l), &mut memory, &mut |what| out.push(what));
    }
    out
}

/// The step that one line is, if it is one and nothing else.
#[cfg(test)]
fn step(read: Reader, text: &str) -> super::Step {
    match one(read, text).as_slice() {
        [What::Step(s)] => s.clone(),
        other => panic!("{text}: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Dialect, Reader, Step, gate};
    use super::*;

    fn read(lines: &[&str]) -> Vec<TextEvent> {
        let (mut reader, mut out) = (Reader::default(), Vec::new());
        lines.iter().for_each(|l| reader.line(l, &mut out));
        out
    }

    fn steps(events: &[TextEvent]) -> Vec<&Step> {
        events.iter().filter_map(|e| if let What::Step(s) = &e.what { Some(s) } else { None }).collect()
    }

    #[rustfmt::skip]
    const LINES: &[(&str, Dialect, Option<u64>, Option<f64>)] = &[
        ("{'loss': '0.897', 'grad_norm': '1.685', 'learning_rate': '3.875e-05', 'epoch': '0.08333'}", Dialect::HfTrainer, None, Some(0.897)),
        ("  3%|▎         | 15/500 [00:12<06:31,  1.24it/s]", Dialect::Tqdm, Some(15), None),
        ("Steps:   1%|▏ | 8/800 [00:17<3:57:13, 17.81s/it, lr=5e-5, step_loss=0.0114]", Dialect::Tqdm, Some(8), Some(0.0114)),
        ("Epoch 0:  25%|██▌       | 2/8 [00:00<00:00, 78.50it/s, v_num=0, train_loss=0.988]", Dialect::Lightning, Some(2), Some(0.988)),
        ("Training epoch 0, iteration 120/149 | lr: 3e-05 | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146", Dialect::Nemo, Some(120), Some(1.233)),
        ("step=10, skipped=6, lr=[9.65e-06, 9.65e-06], mom=[(0.9, 0.95), (0.9, 0.95)]", Dialect::DeepSpeed, Some(10), None),
        (" iteration      100/  500000 | elapsed time per iteration (ms): 8654.2 | lm loss: 2.5E+00 | loss scale: 1.0 |", Dialect::Megatron, Some(100), Some(2.5)),
        ("step: 200  loss:  6.13840  grad_norm:  0.8319  memory: 49.66GiB(52.28%)  tps: 5,856  tflops: 339.16  mfu: 34.29%", Dialect::Torchtitan, Some(200), Some(6.1384)),
        ("iter 100: loss 2.3012, time 123.40ms, mfu 30.12%", Dialect::NanoGpt, Some(100), Some(2.3012)),
        ("Epoch 1 | iter 10 step 5 | loss train: 1.234, val: n/a | iter time: 321.09 ms (step) remaining time: 1:02:03", Dialect::LitGpt, Some(5), Some(1.234)),
        ("INFO | train_inner | epoch 001:    100 / 5000 loss=12.3, num_updates=99, wall=90", Dialect::Fairseq, Some(99), Some(12.3)),
        ("Epoch: [0][ 100/5005]\tTime  0.35 ( 0.40)\tData  0.01 ( 0.05)\tLoss 6.5e+00 (6.9e+00)", Dialect::Vision, Some(100), Some(6.5)),
        (r#"{"step": 100, "loss": 2.31}"#, Dialect::Json, Some(100), Some(2.31)),
        ("Step 100/5000, Loss: 2.31", Dialect::Plain, Some(100), Some(2.31)),
    ];

    const PREFIXES: &[(&str, Option<u32>)] = &[
        ("", None),
        ("[default3]:", None),
        ("[rank3]:", Some(3)),
        ("[1,12]<stdout>:", Some(12)),
        ("worker-1: ", None),
        ("[RANK 3] ", Some(3)),
        ("[NeMo I 2026-05-01 12:00:00 exp_manager:396] ", None),
        ("\x1b[36m(RayWorkerWrapper pid=248, ip=10.0.3.8)\x1b[0m ", None),
        ("2026-05-16T16:39:51.208Z ", None),
        ("[2026-09-11 17:52:18,030] [INFO] [logging.py:96:log_dist] ", None),
        ("09/26/2026 12:00:00 - INFO - __main__ - ", None),
        ("[rank0]:[titan] 2026-06-16 22:30:50,322 - root - INFO - ", Some(0)),
    ];

    #[test]
    fn every_dialect_behind_every_prefix() {
        for (text, dialect, step, loss) in LINES {
            for (prefix, rank) in PREFIXES {
                let line = format!("{prefix}{text}");
                let events = read(&[&line]);
                let [s] = steps(&events)[..] else { panic!("{line}: {events:?}") };
                assert_eq!((s.dialect, s.step, s.loss), (*dialect, *step, *loss), "{line}");
                assert_eq!(events[0].origin.rank, *rank, "{line}");
            }
        }
    }

    #[test]
    fn torchtitan_colours_its_fields() {
        let line = "[rank0]:[titan] 2026-06-16 22:30:50,322 - root - INFO - \x1b[31mstep: 200  \x1b[32mloss:  6.13840  \x1b[38;2;180;60;0mgrad_norm:  0.8319  \x1b[38;2;54;234;195mmemory: 49.66GiB(52.28%)  \x1b[34mtps: 5,856  \x1b[36mtflops: 339.16  \x1b[35mmfu: 34.29%\x1b[39m";
        let events = read(&[line]);
        let [s] = steps(&events)[..] else { panic!("{events:?}") };
        assert_eq!((s.step, s.loss, s.grad_norm, s.throughput), (Some(200), Some(6.1384), Some(0.8319), Some(5856.0)));
    }

    #[test]
    fn a_bar_and_the_dictionary_beside_it() {
        let events = read(&[" 25%|██▌  | 10/40 [00:00<00:01, 20.00it/s]\r                    \r{'loss': 1.5, 'epoch': 0.25}"]);
        assert_eq!(steps(&events).iter().map(|s| (s.step, s.loss)).collect::<Vec<_>>(), [(Some(10), None), (None, Some(1.5))]);
    }

    #[test]
    fn a_block_of_composer_passes_the_gate() {
        let events = read(&[
            "[epoch=1][batch=5/10]:",
            "\t Train loss/train/total: 12.0123",
            "\t Train throughput/tokens_per_sec: 132000.5",
            "\t Train time/remaining_estimate: 0.5",
            "\t Train lr-DecoupledAdamW/group0: 0.0001",
        ]);
        assert_eq!(steps(&events).len(), 4, "{events:?}");
    }

    #[test]
    fn pauses_and_ends_pass_the_gate() {
        for line in [
            "***** Running training *****",
            "***** Running Prediction *****",
            "  Total optimization steps = 1875",
            "| train_num_batches     | 18865 |",
            "[Eval batch=1/10] Eval on eval data:",
            "Epoch(val) [1][10/50]",
            "Test: [  0/98]  Time  0.35 ( 0.40)",
            " *   Acc@1 69.758 Acc@5 89.078",
            "done training in 123.4 seconds",
            "exiting program after receiving SIGTERM.",
            "`Trainer.fit` stopped: `max_epochs=2` reached.",
            "Training completed",
            "Saving current state to checkpoint-5",
            "Validation DataLoader 0:   0%|          | 0/20 [00:00<?, ?it/s]",
            "Tokenizing:  10%|█         | 500/5000 [00:00<00:01, 4000.00 examples/s]",
        ] {
            assert_eq!(read(&[line]).len(), 1, "{line}");
        }
    }

    #[test]
    fn any_cut_of_a_line_is_read() {
        for (text, ..) in LINES {
            for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
                read(&[&text[..at], &text[at..]]);
                gate::classify(&text.as_bytes()[at..]);
            }
        }
    }
}
