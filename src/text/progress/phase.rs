//! Named pauses and the end: checkpoints, evaluations, compilation, data loading, "done". The words that trainers print, not any that
//! mean the same.

use super::{Line, phase_event, scan};
use crate::text::{Phase, What};
use regex::bytes::{Regex, RegexBuilder};
use std::sync::LazyLock;

/// In order: the first that matches counts.
#[rustfmt::skip]
const PHASES: &[(Phase, bool, &str)] = &[
    (Phase::Checkpoint, true, r"\bcheckpoint \S{1,80} is about to be saved"),
    (Phase::Checkpoint, false, r"\bfinished saving (?:the )?checkpoint|\bsuccessfully saved checkpoint|\bcheckpoint (?:was |has been |successfully )?saved\b|^\W*saved (?:the |model |full |latest |sharded |distributed )*checkpoint\b|\bcheckpoint \S{1,80} is ready now|\bcheckpoint(?:ing)? (?:done|finished|complete)|\bsave-checkpoint \.*:"),
    (Phase::Checkpoint, true, r"\b(?:saving|writing|storing) (?:the |a |model |full |latest |final |best |sharded |distributed )*checkpoint|\bsaving model to \S+ckpt|\bpreparing to save checkpoint|^\W*saving current state to |, saving model to '|^\W*\[?torch\]? saving \S+\.pt\b"),
    (Phase::Evaluation, false, r"\b(?:evaluation|validation) (?:done|finished|complete|ended|took)|\bvalidation loss at iteration|^\W*validate step: +[0-9]|^\W*step [0-9]+: train loss [0-9.a-z]+, val loss|^\W*iter [0-9]+: val loss|^\W*val(?:idation)? loss:? [0-9.]+$|\bvalid \| epoch [0-9]+ \| valid on "),
    (Phase::Evaluation, true, r"\*{3,} *running (?:evaluation|validation|prediction|testing)|^\W*(?:running|starting|begin|beginning|start) (?:the )?(?:evaluation|validation)\b|\bbegin validation on |^\W*(?:evaluating|validating)\b(?: \S+){0,6}\W*$"),
    (Phase::Compilation, false, r"\bcompil(?:ation|ing) (?:done|finished|complete|took)|\bcompiled \S+ in [0-9]|\bfinished compiling"),
    (Phase::Compilation, true, r"\bcompiling (?:the |each |model|graph|transformerblock|function|loss|with|train)|^\W*compiling\W*$|\busing torch\.compile|torch/_inductor/\S+\.py"),
    (Phase::DataLoading, false, r"\bfinished (?:creating|building|loading) \S*(?: \S+){0,2} ?data(?:set|loader)s?|\b(?:dataset|data|dataloader)s? (?:loaded|ready)\b|\*{3,} *running training|^\W*training starts at step [0-9]|\[before the start of training step\]"),
    (Phase::DataLoading, true, r"^\W*(?:loading|building|preparing|tokenizing|creating) (?:the |train(?:ing)?,? |validation,? |test |and |eval |gpt |tokenized |raw )*(?:dataset|data|dataloader)s?\b"),
];

const DONE: &str = r"^\W*done in [0-9.]+ ?(?:s|sec|seconds|m|min|minutes|h)\b|^\W*training (?:is )?(?:completed?|finished|done)\b|`trainer\.fit` stopped|\bexiting program (?:at iteration [0-9]|after [0-9.]+ minutes|after receiving )|\bdone training in [0-9]|\[after training is done\]";

static ANY: LazyLock<Vec<(Phase, bool, Regex)>> =
    LazyLock::new(|| PHASES.iter().map(|(p, begins, re)| (*p, *begins, pattern(re))).collect());
static IS_DONE: LazyLock<Regex> = LazyLock::new(|| pattern(DONE));
/// One look that tells most lines to be none of these.
static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"checkpoint|ckpt|\.pt|evaluat|valid|val loss|saving current state|prediction|testing|compil|_inductor/|data|done|training|total |train_iters|train_num_b|stopped|exiting",
    )
});

fn pattern(re: &str) -> Regex {
    RegexBuilder::new(re).case_insensitive(true).unicode(false).build().expect("pattern")
}

/// Nothing longer is a sentence.
const MAX_LINE: usize = 600;

pub fn read(line: &Line<'_>, tell: &mut dyn FnMut(What)) {
    let text = line.head;
    // One of these letters is in every word.
    if text.len() > MAX_LINE || !b"acdgvACDGV".iter().any(|b| line.has(*b)) || !WORDS.is_match(text.as_bytes()) {
        return;
    }
    if let Some(total) = total(text) {
        return tell(What::TotalSteps { total });
    }
    if IS_DONE.is_match(text.as_bytes()) {
        tell(What::Done);
        return;
    }
    if let Some((phase, begins, _)) = ANY.iter().find(|(_, _, re)| re.is_match(text.as_bytes())) {
        tell(phase_event(*phase, *begins));
    }
}

/// What stands before the number of all steps: the HF Trainer and accelerate, torchtitan, Megatron's arguments, llm.c's.
const TOTALS: &[&str] = &[
    "Total optimization steps = ",
    "Total training steps = ",
    "Total training steps: ",
    "total steps: ",
    ", total steps ",
    "train_iters ..",
    "| train_num_batches ",
];

fn total(text: &str) -> Option<u64> {
    let tail = TOTALS.iter().find_map(|m| scan::after(text, m))?;
    scan::integer(tail.trim_start_matches(['.', ' ', '|'])).map(|(total, _)| total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<What> {
        let mut out = Vec::new();
        read(&Line::new(text), &mut |w| out.push(w));
        assert!(out.len() <= 1);
        out.pop()
    }

    fn all(phase: Phase, begins: bool, lines: &[&str]) {
        for l in lines {
            assert_eq!(one(l), Some(phase_event(phase, begins)), "{l}");
        }
    }

    #[test]
    fn checkpoints() {
        all(
            Phase::Checkpoint,
            true,
            &[
                "saving checkpoint to /tmp/ckpt-200",
                "saving checkpoint at step 1000",
                "saving checkpoint at iteration    1000 to /ckpt in torch_dist format",
                "Saving model checkpoint to out/checkpoint-500",
                "Saving the checkpoint (or staging if async is enabled).",
                "[Torch] Checkpoint global_step10 is about to be saved!",
                "Preparing to save checkpoint for epoch 1 @ 100 updates",
                "Saving current state to out/step_500",
                "Saving checkpoint at 1 epochs",
                "[Torch] Saving output/global_step10/mp_rank_00_model_states.pt...",
                "Epoch 0, global step 100: 'val_loss' reached 2.30 (best 2.30), saving model to '/x/last.ckpt' as top 1",
            ],
        );
        all(
            Phase::Checkpoint,
            false,
            &[
                "checkpoint saved in 15.0 s",
                "  successfully saved checkpoint from iteration    1000 to /ckpt [ t 1/1, p 1/1 ]",
                "Finished saving the checkpoint (or staging if async is enabled)in 1.23 seconds.",
                "[Torch] Checkpoint global_step10 is ready now!",
                "Saved checkpoint to /x",
                "Saved checkpoint out/checkpoint1.pt (epoch 1 @ 100 updates, score 2.3) (writing took 1.2 seconds)",
            ],
        );
    }

    #[test]
    fn evaluations() {
        all(
            Phase::Evaluation,
            true,
            &[
                "running evaluation",
                "***** Running Evaluation *****",
                "***** Running Prediction *****",
                "Evaluating...",
                "Starting validation",
                "begin validation on \"valid\" subset",
                "Validating ...",
            ],
        );
        all(
            Phase::Evaluation,
            false,
            &[
                "evaluation done | eval_loss 0.0000",
                " validation loss at iteration 1000 | lm loss value: 2.1E+00 | lm loss PPL: 8.2E+00 | ",
                "validate step: 100  loss:  2.1  memory: 1GiB  tps: 5",
                "step 2000: train loss 2.1, val loss 2.2",
                "validation loss: 3.2712",
                "val loss 3.271234",
                "iter 100: val loss 2.1000, val time: 1234.50 ms",
                "valid | epoch 001 | valid on \"valid\" subset | loss 9.1 | nll_loss 8.0",
            ],
        );
    }

    #[test]
    fn compilation_and_data() {
        all(
            Phase::Compilation,
            true,
            &[
                "compiling the model... (takes a ~minute)",
                "Compiling each TransformerBlock with torch.compile",
                "compiling",
                "W1121 00:1 torch/_inductor/utils.py:1137] [0/0] Not enough SMs to use max_autotune_gemm mode",
            ],
        );
        all(Phase::Compilation, false, &["compilation done in 31 s", "compilation finished"]);
        all(
            Phase::DataLoading,
            true,
            &["> building train, validation, and test datasets for GPT ...", "Loading dataset wikitext", "loading data"],
        );
        all(Phase::DataLoading, false, &["> finished creating GPT datasets ...", "dataset loaded in 3 s"]);
        all(
            Phase::DataLoading,
            false,
            &[
                "***** Running training *****",
                "Training starts at step 1",
                "[before the start of training step] datetime: 2026-08-22 10:11:12 ",
            ],
        );
    }

    #[test]
    fn the_end() {
        for l in [
            "done in 9.6 s",
            "Training completed",
            "Training completed. Do not forget to share your model",
            "`Trainer.fit` stopped: `max_epochs=2` reached.",
            "`Trainer.fit` stopped: `max_steps=100` reached.",
            "exiting program at iteration 500",
            "exiting program after 230.5 minutes",
            "exiting program after receiving SIGTERM.",
            "[after training is done] datetime: 2026-08-22 10:11:12 ",
            "done training in 123.4 seconds",
            "Training finished!",
        ] {
            assert_eq!(one(l), Some(What::Done), "{l}");
        }
    }

    #[test]
    fn the_number_of_all_steps() {
        for (l, total) in [
            ("  Total optimization steps = 1,875", 1875),
            ("  Total optimization steps = 1875", 1875),
            ("Total training steps: 500", 500),
            (
                "Trainer is initialized with local batch size 8, global batch size 64, sequence length 8192, total steps 1000 (warmup 200)",
                1000,
            ),
            ("  train_iters ..................................... 500000", 500_000),
            ("| train_num_batches     | 18865                                              |", 18865),
        ] {
            assert_eq!(one(l), Some(What::TotalSteps { total }), "{l}");
        }
        for l in ["  Num examples = 5,000", "  Num Epochs = 3", "  Total train batch size (w. parallel, distributed & accumulation) = 64"] {
            assert_eq!(one(l), None, "{l}");
        }
    }

    #[test]
    fn other_sentences_say_nothing() {
        for l in [
            "Loading checkpoint from /ckpt/step-100",
            "Configuration saved in out/checkpoint-500/config.json",
            "No training data given",
            "resuming from checkpoint out/checkpoint-500",
            "evaluation_strategy: steps",
            "torch_compile=False",
            "data parallel size: 8",
            "well done in general",
            "training is hard",
            "Config: checkpoint_interval 500",
            "step 5 | loss 2.0",
            "",
        ] {
            assert_eq!(one(l), None, "{l}");
        }
    }
}
