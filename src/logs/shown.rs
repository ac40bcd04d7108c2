//! Text that a program shows: what a model wrote, was asked, or should have written. It may say anything, errors of other jobs among it.

/// What such a text stands behind.
const LABELS: &[&str] = &[
    "sample",
    "generated",
    "generation",
    "completion",
    "prompt",
    "hypothesis",
    "translation",
    "continuation",
    "decoded",
    "output",
    "prediction",
    "predicted",
    "pred",
    "response",
    "answer",
    "question",
    "text",
    "input",
    "example",
    "target",
    "reference",
    "ref",
    "hyp",
    "source",
    "summary",
    "label",
    "document",
    "query",
];
/// Words that may stand between the two: which of them it is.
const WHICH: &[&str] = &["no", "nr", "text", "output", "id", "of"];
const LONGEST_LABEL: usize = 40;
const QUOTES: &[(char, char)] = &[('"', '"'), ('\'', '\''), ('`', '`'), ('\u{201c}', '\u{201d}'), ('\u{ab}', '\u{bb}')];

/// `sample 3: "CUDA out of memory"`, `prediction = 'Segmentation fault'`: a label, and nothing but a quoted text behind it. Without quotes it may be
/// what a program says of that phase.
pub fn is_shown(text: &str) -> bool {
    let text = text.trim_start_matches(|c: char| !c.is_alphanumeric());
    let Some(at) = text.bytes().take(LONGEST_LABEL).position(|b| matches!(b, b':' | b'=')) else { return false };
    let (label, shown) = (&text[..at], text[at + 1..].trim_start_matches([':', '=', '>', ' ', '\t']).trim_end());
    let words = label.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_ascii_lowercase);
    let mut words = words.map(|word| if word.len() > 4 { word.trim_end_matches('s').to_owned() } else { word });
    let is_label = words.next().is_some_and(|first| LABELS.contains(&first.as_str()))
        && words.all(|word| word.bytes().all(|b| b.is_ascii_digit()) || WHICH.contains(&word.as_str()));
    is_label && is_one_quotation(shown)
}

/// It begins with a quotation mark, and the one that ends it ends the text, or is cut off with the end of it.
fn is_one_quotation(text: &str) -> bool {
    let Some((open, close)) = QUOTES.iter().find(|(open, _)| text.starts_with(*open)) else { return false };
    let inner = &text[open.len_utf8()..];
    inner
        .rfind(*close)
        .is_none_or(|end| inner[end + close.len_utf8()..].chars().all(|c| matches!(c, '.' | ',' | ';' | ')' | ']' | '}' | '\u{2026}')))
}

#[cfg(test)]
mod tests {
    use super::is_shown;

    #[test]
    fn what_a_model_wrote_is_no_error() {
        for shown in [
            "sample 1: \"srun: error: node03: task 5: Exited with exit code 1\"",
            "                sample 2: \"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB\"",
            "### Prompt [0]: 'Traceback (most recent call last):'",
            "Generated text: \"Segmentation fault (core dumped)",
            "prediction = 'Segmentation fault'",
            "* answer #2: \"NCCL WARN Call to connect failed\"",
        ] {
            assert!(is_shown(shown), "{shown}");
        }
        for said in [
            "RuntimeError: CUDA out of memory",
            "generation failed: \"CUDA out of memory\"",
            "Generation: RuntimeError: CUDA out of memory",
            "Generation:  12%|#2        | 3/25 [00:01<00:09] slurmstepd: error: *** JOB 7 CANCELLED DUE TO TIME LIMIT ***",
            "samples: 12 node-a:1:2 [0] x.cc:3 NCCL WARN odd",
            "text = \"x\" slurmstepd: error: *** JOB 7 CANCELLED DUE TO TIME LIMIT ***",
            "source: \"s3://b/x\" RuntimeError: CUDA out of memory",
            "output: RuntimeError: CUDA out of memory",
            "error: \"CUDA out of memory\"",
            "{\"message\": \"CUDA out of memory\"}",
            "srun: error: node03: task 5: Exited with exit code 1",
            "sampler error: CUDA out of memory",
            "node-a:1:2 [0] NCCL WARN odd: \"x\"",
            "sample",
        ] {
            assert!(!is_shown(said), "{said}");
        }
    }
}
