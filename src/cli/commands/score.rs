//! `nccl-top score`: recordings whose fault is known, judged by the same code as live, and counted.

use super::{Env, Outcome, out};
use crate::base::file::read_text;
use crate::cli::arguments::{Half, ScoreArgs};
use crate::recording::score::{Case, Label, NONE, Score, case, is_first_half};
use crate::recording::tape;
use crate::recording::without::{Without, filter};
use anyhow::{Context as _, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const LABEL: &str = ".label.json";
/// A label is a few lines.
const MAX_LABEL_BYTES: u64 = 64 << 10;

pub fn run(env: &Env, args: &ScoreArgs) -> Result<Outcome> {
    let names = names(&args.dir)?;
    let mut cases = Vec::new();
    let mut unread = Vec::new();
    for name in names.iter().filter(|name| in_half(name, args.half)) {
        match one(&args.dir, name, &env.without) {
            Ok(case) => cases.push(case),
            Err(err) => {
                unread.push(name.as_str());
                // A standard error that nobody reads is no reason to stop.
                crate::edge::diagnostics::complain(&format!("{err:#}"));
            }
        }
    }
    anyhow::ensure!(
        !cases.is_empty() || !unread.is_empty(),
        "{}: no recording NAME.jsonl.gz with its NAME{LABEL} there{}",
        args.dir.display(),
        if names.is_empty() { "" } else { " in this half" }
    );
    let score = Score::of(cases);
    let missed = score.found < score.faults || score.culprit_right < score.found || score.false_findings > 0;
    out(&if args.json { json(&score, &unread) } else { table(&score, env.depth != crate::tui::theme::Depth::None) })?;
    Ok(match (unread.is_empty(), missed) {
        (true, false) => Outcome::Clean,
        (true, true) => Outcome::Findings,
        (false, _) => Outcome::CannotJudge,
    })
}

fn in_half(name: &str, half: Option<Half>) -> bool {
    half.is_none_or(|half| (half == Half::First) == is_first_half(name))
}

/// Names of recordings in a directory: what stands before `.label.json`.
fn names(dir: &Path) -> Result<Vec<String>> {
    let listed = std::fs::read_dir(dir).map_err(|err| anyhow::anyhow!("{}: {}", dir.display(), crate::base::words::io_words(&err)))?;
    let mut names = Vec::new();
    for entry in listed {
        let name = entry.with_context(|| dir.display().to_string())?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(LABEL)).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn one(dir: &Path, name: &str, without: &[Without]) -> Result<Case> {
    let path = dir.join(format!("{name}{LABEL}"));
    let text = read_text(&path, MAX_LABEL_BYTES).map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
    let label: Label = serde_json::from_str(&text).map_err(|err| {
        anyhow::anyhow!("{}: {err}; a label is {{\"class\": RULE or \"none\", \"ranks\": [..], \"since_s\": ..}}", path.display())
    })?;
    for id in std::iter::once(&label.class).chain(&label.accept) {
        anyhow::ensure!(id == NONE || crate::rules::rule(id).is_some(), "{}: no rule {id:?}; nccl-top rules lists them", path.display());
    }
    let tape: PathBuf = [".jsonl.gz", ".jsonl"]
        .iter()
        .map(|end| dir.join(format!("{name}{end}")))
        .find(|p| p.exists())
        .with_context(|| format!("{}: there is no {name}.jsonl.gz beside it", path.display()))?;
    // A FIFO would be waited for.
    anyhow::ensure!(tape.is_file(), "{}: not a regular file", tape.display());
    let mut reader = tape::Reader::open(&tape)?;
    let mut session = reader.header().session();
    let (mut events, mut start) = (Vec::new(), None);
    while let Some(seen) = reader.read()? {
        start.get_or_insert(seen.at);
        if let Some(seen) = filter(seen, without) {
            session.apply(&seen, &mut events);
            reader.afford(session.effort)?;
        }
    }
    // What is missing may be what was to be found.
    if let Some(cut) = reader.cut_off() {
        anyhow::bail!("{}: {cut}: not counted", tape.display());
    }
    if let Some(words) = session.model.left_out_words() {
        anyhow::bail!("{}: {words}: not counted", tape.display());
    }
    let start = start.with_context(|| format!("{}: the tape holds no observation", tape.display()))?;
    Ok(case(name, &label, start, &events))
}

fn json(score: &Score, unread: &[&str]) -> String {
    let mut document = serde_json::json!({ "schema": "nccl-top.score/1", "not_judged": unread });
    if let (Some(fields), Ok(serde_json::Value::Object(own))) = (document.as_object_mut(), serde_json::to_value(score)) {
        fields.extend(own);
    }
    crate::base::mask::document(&mut document);
    format!("{document:#}\n")
}

fn table(score: &Score, colour: bool) -> String {
    let seconds = |s: Option<f64>| s.map_or("–".to_owned(), |s| format!("{s:.1} s"));
    let mut text = format!(
        "{:<22} {:>5} {:>5} {:>13} {:>12} {:>8} {:>5}\n",
        "class", "cases", "found", "culprit right", "delay median", "worst", "false"
    );
    for (name, class) in &score.classes {
        let of = |n: usize| if name == NONE { "–".to_owned() } else { n.to_string() };
        let _ = writeln!(
            text,
            "{:<22} {:>5} {:>5} {:>13} {:>12} {:>8} {:>5}",
            name,
            class.cases,
            of(class.found),
            of(class.culprit_right),
            seconds(class.delay_median_s),
            seconds(class.delay_worst_s),
            class.false_findings
        );
    }
    let share = |s: Option<f64>| s.map_or("–".to_owned(), |s| format!("{s:.3}"));
    let _ = writeln!(
        text,
        "\n{} of {} faults found (recall {}), precision {}; culprit right in {} of {} found; {} false {}",
        score.found,
        score.faults,
        share(score.recall),
        share(score.precision),
        score.culprit_right,
        score.found,
        score.false_findings,
        if score.false_findings == 1 { "finding" } else { "findings" },
    );
    let (bold, plain) = if colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    for case in &score.cases {
        let mut say = |what: String| {
            let _ = writeln!(text, "{bold}{}{plain}: {}", case.name, crate::base::mask::shown(&what));
        };
        match case.culprit_right {
            None if case.class != NONE => say(format!("{} was not found", case.class)),
            Some(false) => say(format!("{} blames {}", case.found.unwrap_or_default(), crate::base::words::rank_words(&case.blamed))),
            _ => {}
        }
        for f in &case.false_findings {
            say(format!("false {} after {:.1} s: {}", f.rule, f.at_s, f.summary));
        }
    }
    text
}
