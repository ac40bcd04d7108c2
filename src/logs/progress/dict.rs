//! `{'loss': '10.78', 'epoch': '0.0016'}` of the HF Trainer and `{"step": 100, "loss": 2.31}` of JSON loggers. Reads the outermost level only.

use super::shape::{Found, Is};
use super::{Line, Memory, field_names};
use crate::logs::{Dialect, Phase, Step, What};

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    if !(line.has(b'{') && line.has(b'}') && line.has(b':')) {
        return false;
    }
    let Some(what) = event(line.head) else { return false };
    memory.bars.step_seen();
    memory.bars.heard(&what, "");
    if matches!(&what, What::Step(step) if step.step.is_none()) {
        memory.bars.dictionary_seen();
    }
    tell(what);
    true
}

fn event(text: &str) -> Option<What> {
    let begin = memchr::memchr(b'{', text.as_bytes())?;
    let inner = &text[begin + 1..];
    let inner = &inner[..memchr::memrchr(b'}', inner.as_bytes())?];
    let quote = inner.trim_start().chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let dialect = if quote == '"' { Dialect::Json } else { Dialect::HfTrainer };
    let mut found = Found::default();
    pairs(inner, quote, |key, value| field_names::take_key(&mut found, key, value));
    if found.rank(Is::Done).is_some() && found.rank(Is::Loss) != Some(0) {
        return Some(What::Done);
    }
    if found.rank(Is::Evaluated).is_some() {
        return Some(What::Phase { phase: Phase::Evaluation, begins: false });
    }
    if found.rank(Is::Step).is_none() {
        // `Global step 17: {…}`
        let before = field_names::read(&text[..begin]);
        before.get(Is::Step).into_iter().for_each(|step| found.put(Is::Step, 0, step));
    }
    // The HF Trainer's has no step; a JSON line without one may be anything.
    let has = |is| found.rank(is).is_some();
    // LLaMA-Factory's last one has no loss.
    let is_last = || has(Is::Step) && has(Is::TotalSteps) && has(Is::Left);
    // A trainer that writes a line for each epoch has no step.
    let in_run = || has(Is::Step) || has(Is::Epoch) || dialect == Dialect::HfTrainer;
    let counts = has(Is::Loss) && in_run() || has(Is::Step) && has(Is::StepTime) || is_last();
    let mut step = Step { dialect, ..Step::default() };
    found.fill(&mut step);
    // Few dictionaries have one, and each would be read twice for it.
    if step.throughput.is_none()
        && ["throughput", "eps"].iter().any(|name| memchr::memmem::find(inner.as_bytes(), name.as_bytes()).is_some())
        && let Some((rate, unit)) = rate_of_family(inner, quote)
    {
        (step.throughput, step.throughput_unit) = (Some(rate), Some(unit));
    }
    counts.then_some(What::Step(step))
}

/// Rates whose names mean something else elsewhere: LLaMA-Factory's `throughput` is tokens a second, TRL's `eps` episodes a second.
fn rate_of_family(inner: &str, quote: char) -> Option<(f64, &'static str)> {
    let (mut throughput, mut eps, mut of_trl, mut of_llama) = (None, None, false, 0);
    pairs(inner, quote, |key, value| match key {
        "throughput" => throughput = value.parse().ok(),
        "eps" => eps = value.parse().ok(),
        "learning_rate" | "epoch" => of_llama += 1,
        _ => of_trl |= key.starts_with("objective/"),
    });
    let positive = |rate: &f64| rate.is_finite() && *rate > 0.0;
    let tokens = throughput.filter(|_| of_llama == 2).filter(positive).map(|rate| (rate, "tokens/s"));
    tokens.or_else(|| eps.filter(|_| of_trl).filter(positive).map(|rate| (rate, "samples/s")))
}

const MAX_PAIRS: usize = 200;

/// `key: value` pairs of the outermost level; values without quotes around them.
fn pairs<'a>(inner: &'a str, quote: char, mut each: impl FnMut(&'a str, &'a str)) {
    let mut rest = inner;
    for _ in 0..MAX_PAIRS {
        let Some((_, after)) = rest.split_once(quote) else { break };
        let Some((key, after)) = after.split_once(quote) else { break };
        let Some(value) = after.trim_start().strip_prefix(':') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        if let Some(quoted) = value.strip_prefix(['\'', '"']) {
            let Some((v, after)) = quoted.split_once(&value[..1]) else { break };
            each(key, v);
            rest = after;
        } else if value.starts_with(['{', '[']) {
            rest = skip_nested(value);
        } else {
            let n = value.find([',', '}']).unwrap_or(value.len());
            // LLaMA-Factory has a key for all that a line may hold.
            if !matches!(value[..n].trim(), "null" | "None") {
                each(key, value[..n].trim());
            }
            rest = &value[n..];
        }
    }
}

fn skip_nested(text: &str) -> &str {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth -= 1;
                if depth == 0 {
                    return &text[at + 1..];
                }
            }
            _ => {}
        }
    }
    ""
}
