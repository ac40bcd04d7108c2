//! What a run says of how it came out, in words that trainers have in common: its best result, why it stopped early, and how long it took.

use super::Report;
use super::again;
use super::error_level::line::Line;
use super::inputs::Input;
use crate::base::{clean, mask};
use crate::observe::evidence::Evidence;
use memchr::memmem;
use regex::Regex;
use std::sync::LazyLock;

/// Of more logs nobody reads how each came out.
const MOST_LOGS: usize = 3;
const LONGEST: usize = 200;
/// What is longer is a dump of settings or of source.
const LONGEST_LINE: usize = 600;
/// Bytes at the end of a log.
const LOOKED_AT: usize = 4 << 20;

struct Outcome {
    row: &'static str,
    /// Letters that each of its lines has, whatever their case is elsewhere.
    has: &'static [&'static str],
    /// By the line in small letters.
    is: fn(&str) -> bool,
}

/// In the order of their rows.
const OUTCOMES: &[Outcome] = &[
    Outcome { row: "stopped", has: &["stop", "Stop", "STOP"], is: is_early_stop },
    Outcome { row: "best", has: &["best", "Best", "BEST"], is: is_best },
    Outcome { row: "took", has: &["ime", "IME", "ompleted in", "inished", "one in", "took", "uration"], is: is_duration },
];

/// What the newest line of each kind says.
#[derive(Debug)]
pub struct CameOut {
    pub row: &'static str,
    pub said: Evidence,
}

pub(super) fn of(report: &Report, inputs: &[Input]) -> Vec<CameOut> {
    let paths: Vec<&String> = report.model().files.values().map(|log| &log.info.path).collect();
    if paths.len() > MOST_LOGS {
        return Vec::new();
    }
    let of_log = |path: &String| -> Vec<CameOut> {
        let Some(text) = again::text_of(path, inputs) else { return Vec::new() };
        let told = newest(&text).into_iter().map(|(row, line, words)| {
            let said = Evidence { path: Some(path.clone()), line: Some(line), ..Evidence::of("line", words) };
            CameOut { row, said }
        });
        told.collect()
    };
    paths.into_iter().flat_map(of_log).collect()
}

/// Of each outcome the last line that tells it, with its number.
fn newest(text: &[u8]) -> Vec<(&'static str, u64, String)> {
    let mut found: Vec<Option<(usize, String)>> = OUTCOMES.iter().map(|_| None).collect();
    let mut end = text.len();
    let least = text.len().saturating_sub(LOOKED_AT);
    while end > least && found.iter().any(Option::is_none) {
        let start = memchr::memrchr(b'\n', &text[..end]).map_or(0, |at| at + 1);
        for (outcome, found) in OUTCOMES.iter().zip(&mut found).filter(|(_, found)| found.is_none()) {
            *found = told(&text[start..end], outcome).map(|words| (start, words));
        }
        end = start.saturating_sub(1);
    }
    let line = |start: usize| memchr::memchr_iter(b'\n', &text[..start]).count() as u64 + 1;
    let mut out: Vec<(&'static str, u64, String)> =
        OUTCOMES.iter().zip(found).filter_map(|(outcome, found)| found.map(|(start, words)| (outcome.row, line(start), words))).collect();
    // One line may tell two of them.
    out.dedup_by_key(|told| told.1);
    out
}

fn told(line: &[u8], outcome: &Outcome) -> Option<String> {
    let line = again::last_drawn(line);
    if line.len() > LONGEST_LINE || !outcome.has.iter().any(|letters| memmem::find(line, letters.as_bytes()).is_some()) {
        return None;
    }
    let text = String::from_utf8_lossy(line);
    let text = clean::clean(&text);
    let read = Line::of(&text);
    let words = read.said.trim();
    let lower = words.to_ascii_lowercase();
    // A line of source or of a traceback tells nothing of the run; nor does advice, or a question.
    let is_code = lower.starts_with("file \"") || lower.contains("def ") || lower.contains("();") || lower.ends_with(['?', '{', '(']);
    (!is_code && (outcome.is)(&lower)).then(|| clean::clip(&mask::text(words), LONGEST).into_owned())
}

/// A word that stands alone: neither `load_best_model` nor `bestow`.
fn word_behind<'a>(lower: &'a str, word: &str) -> Option<&'a str> {
    lower.match_indices(word).find_map(|(at, _)| {
        let before = lower[..at].bytes().next_back();
        let behind = &lower[at + word.len()..];
        let is_part = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/' | b'.'));
        (!is_part(before) && !is_part(behind.bytes().next())).then_some(behind)
    })
}

/// `Best results observed at epoch 4, best model saved as best.pt`, `New best EMA pseudo Dice: 0.186`, `best metric, hmean: 0.9998`.
fn is_best(lower: &str) -> bool {
    const OF: &[&str] = &[
        "model",
        "checkpoint",
        "ckpt",
        "epoch",
        "step",
        "iter",
        "iteration",
        "result",
        "metric",
        "score",
        "val",
        "valid",
        "validation",
        "test",
        "eval",
        "evaluation",
        "dev",
        "loss",
        "acc",
        "accuracy",
        "map",
        "f1",
        "bleu",
        "wer",
        "cer",
        "ema",
        "dice",
        "iou",
        "miou",
        "reward",
        "ppl",
        "perplexity",
        "performance",
        "top1",
        "auc",
        "rmse",
        "mae",
        "fid",
        "recall",
        "precision",
        "train",
        "training",
    ];
    /// Settings, and what a library says of what would be better.
    const OTHER: &[&str] = &["best practice", "at best", "for best", "best effort", "the best way", "best_", "--", "best of luck"];
    let Some(behind) = word_behind(lower, "best") else { return false };
    let next = behind.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
    let end = next.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(next.len());
    let is_of = OF.contains(&next[..end].strip_suffix('s').unwrap_or(&next[..end])) || OF.contains(&&next[..end]);
    is_of && lower.bytes().any(|b| b.is_ascii_digit()) && !OTHER.iter().any(|other| lower.contains(other))
}

/// `Stopping training early as no improvement observed in last 50 epochs`, `Signaling Trainer to stop`, `Early stopping at epoch 12`.
fn is_early_stop(lower: &str) -> bool {
    const WORDS: &[&str] = &[
        "stopping training early",
        "training stopped early",
        "stopped early",
        "early stopping at ",
        "early stopping after ",
        "early stopping triggered",
        "early stop at ",
        "earlystopping triggered",
        "signaling trainer to stop",
        "stopping training due to",
        "stopping early",
        "early stopping!",
        "early stopped",
    ];
    /// What would be, or is set.
    const OTHER: &[&str] = &[" if ", "default", "enabl", "disabl", "=false", ": false", "config", " will ", "would", "pass a new patience"];
    WORDS.iter().any(|words| lower.contains(words)) && !OTHER.iter().any(|other| lower.contains(other))
}

/// `Run finished 3 round(s) in 143.02s`, `Finished in 12.3 s`, `All done in 3 m`; not that of one epoch or job of many.
fn is_end(lower: &str) -> bool {
    const WORDS: &[&str] =
        &["run finished ", "finished in ", "completed in ", "done in ", "all done in ", "finished after ", "all trials finished"];
    let Some(behind) = WORDS.iter().find_map(|words| lower.strip_prefix(words)) else { return false };
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^[0-9][0-9.]*(?:\s?(?:ms|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|days?)\b|:[0-9])").expect("pattern")
    });
    TIME.is_match(behind.rsplit(" in ").next().unwrap_or(behind))
}

/// `54 epochs completed in 0.011 hours.`, `Total training time: 0:00:02`, `'train_runtime': 9117.7233`, `Training took 461.3 s`.
fn is_duration(lower: &str) -> bool {
    /// With the time behind it.
    const WORDS: &[&str] = &[
        "epochs completed in ",
        "training completed in ",
        "training finished in ",
        "training took ",
        "total training time",
        "total time taken",
        "total time",
        "total elapsed time",
        "training time",
        "train_runtime",
        "total runtime",
        "training finished after ",
        "total duration",
    ];
    /// Of each step, or of one part.
    const OTHER: &[&str] =
        &["per iteration", "per step", "iteration ", "average", "avg", "s/it", "it/s", "load", " eta", "batch ", "limit", "remaining"];
    let behind = WORDS.iter().find_map(|words| Some(&lower[lower.find(words)? + words.len()..]));
    let Some(behind) = behind else { return is_end(lower) };
    let value = behind
        .trim_start_matches([' ', ':', '=', '\'', '"', '|', '(', ')'])
        .trim_start_matches("taken")
        .trim_start_matches([' ', ':', '=']);
    let is_time = value.starts_with(|c: char| c.is_ascii_digit());
    is_time && !OTHER.iter().any(|other| lower.contains(other))
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn how_a_run_came_out_is_told_in_its_own_words() {
        let told = |row: &str, log: &str| {
            newest(log.as_bytes()).into_iter().find(|told| told.0 == row).map(|(_, line, words)| format!("{line}: {words}"))
        };
        let log = "load_best_model_at_end=True\nnew best val_loss: 0.52 at epoch 3\nepoch 4 val_loss 0.61\n\
                   Early stopping at epoch 9: no better val_loss for 6 epochs\n[INFO] Training took 461.3 s\nbye\n";
        assert_eq!(told("best", log).as_deref(), Some("2: new best val_loss: 0.52 at epoch 3"));
        assert_eq!(told("stopped", log).as_deref(), Some("4: Early stopping at epoch 9: no better val_loss for 6 epochs"));
        assert_eq!(told("took", log).as_deref(), Some("5: Training took 461.3 s"));
        for said in ["INFO :      Run finished 3 round(s) in 143.02s", "Finished in 12.3 s", "Done in 4 minutes"] {
            assert!(told("took", &format!("{said}\n")).is_some(), "{said}");
        }
        let other = "Run finished with errors\nFinished in vain\nAll done in 5 of 8 zones\nFor best performance set OMP_NUM_THREADS to 4\n--early-stopping 3\nelapsed time per iteration (ms): 21133.8\n\
                     checkpoint load time: 3.1 s\nGET /best/model/3\nEpoch 3 finished in 12.3 s\nbest device 0\nearly stopping after 10 epochs is enabled\n  File \"best.py\", line 3, in best_model\n";
        assert_eq!(newest(other.as_bytes()), []);
    }
}
