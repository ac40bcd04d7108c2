//! Named pauses and the end: checkpoints, evaluations, compilation, data loading, "done". The words that trainers print, not any that
//! mean the same.

use super::phase_event;
use crate::text::{Phase, What};
use regex::bytes::{Regex, RegexBuilder};
use std::sync::LazyLock;

/// In order: the first that matches counts.
#[rustfmt::skip]
const PHASES: &[(Phase, bool, &str)] = &[
    (Phase::Checkpoint, true, r"\bcheckpoint \S{1,80} is about to be saved"),
    (Phase::Checkpoint, false, r"\bfinished saving (?:the )?checkpoint|\bsuccessfully saved checkpoint|\bcheckpoint (?:was |has been |successfully )?saved\b|^\W*saved (?:the |model |full |latest |sharded |distributed )*checkpoint\b|\bcheckpoint \S{1,80} is ready now|\bcheckpoint(?:ing)? (?:done|finished|complete)|\bsave-checkpoint \.*:"),
    (Phase::Checkpoint, true, r"\b(?:saving|writing|storing) (?:the |a |model |full |latest |final |best |sharded |distributed )*checkpoint|\bsaving model to \S+ckpt|, saving model to '|^\W*\[?torch\]? saving \S+\.pt\b"),
    (Phase::Evaluation, false, r"\b(?:evaluation|validation) (?:done|finished|complete|ended|took)|\bvalidation loss at iteration|^\W*validate step: +[0-9]|^\W*step [0-9]+: train loss [0-9.a-z]+, val loss"),
    (Phase::Evaluation, true, r"\*{3,} *running (?:evaluation|validation|prediction|testing)|^\W*(?:running|starting|begin|beginning|start) (?:the )?(?:evaluation|validation)\b|^\W*(?:evaluating|validating)\b(?: \S+){0,6}\W*$|^\W*\[eval batch=1/"),
    (Phase::Compilation, false, r"\bcompil(?:ation|ing) (?:done|finished|complete|took)|\bcompiled \S+ in [0-9]|\bfinished compiling"),
    (Phase::Compilation, true, r"\bcompiling (?:the |each |model|graph|transformerblock|function|loss|with|train)|^\W*compiling\W*$|\busing torch\.compile|torch/_inductor/\S+\.py"),
    (Phase::DataLoading, false, r"\bfinished (?:creating|building|loading) \S*(?: \S+){0,2} ?data(?:set|loader)s?|\b(?:dataset|data|dataloader)s? (?:loaded|ready)\b"),
    (Phase::DataLoading, true, r"^\W*(?:loading|building|preparing|tokenizing|creating) (?:the |train(?:ing)?,? |validation,? |test |and |eval |gpt |tokenized |raw )*(?:dataset|data|dataloader)s?\b"),
];

const DONE: &str = r"^\W*done in [0-9.]+ ?(?:s|sec|seconds|m|min|minutes|h)\b|^\W*training (?:is )?(?:completed?|finished|done)\b|`trainer\.fit` stopped|\bexiting program at iteration [0-9]|\[after training is done\]";

static ANY: LazyLock<Vec<(Phase, bool, Regex)>> =
    LazyLock::new(|| PHASES.iter().map(|(p, begins, re)| (*p, *begins, pattern(re))).collect());
static IS_DONE: LazyLock<Regex> = LazyLock::new(|| pattern(DONE));
/// One look that tells most lines to be none of these.
static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"checkpoint|ckpt|\.pt|evaluat|validat|val loss|eval batch|prediction|testing|compil|_inductor/|dataset|data|done|training|stopped|exiting",
    )
});

fn pattern(re: &str) -> Regex {
    RegexBuilder::new(re).case_insensitive(true).unicode(false).build().expect("pattern")
}

/// Nothing longer is a sentence.
const MAX_LINE: usize = 600;

pub fn read(text: &str, tell: &mut impl FnMut(What)) {
    if text.len() > MAX_LINE || !WORDS.is_match(text.as_bytes()) {
        return;
    }
    if IS_DONE.is_match(text.as_bytes()) {
        tell(What::Done);
        return;
    }
    if let Some((phase, begins, _)) = ANY.iter().find(|(_, _, re)| re.is_match(text.as_bytes())) {
        tell(phase_event(*phase, *begins));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Option<What> {
        let mut out = Vec::new();
        read(text, &mut |w| out.push(w));
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
                "[Eval batch=1/10] Eval on eval data",
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
    }

    #[test]
    fn the_end() {
        for l in [
            "done in 9.6 s",
            "Training completed",
            "Training completed. Do not forget to share your model",
            "`Trainer.fit` stopped: `max_epochs=2` reached.",
            "exiting program at iteration 500",
            "Training finished!",
        ] {
            assert_eq!(one(l), Some(What::Done), "{l}");
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
