//! tqdm bars. Decides which bar is the training, which an evaluation, which the loading of data; the others say nothing.

use super::shape::{Found, Pattern};
use super::{Line, Memory, field_names, scan};
use crate::logs::{Dialect, Phase, Step, What};
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Clone, Default, PartialEq)]
pub struct Bars {
    /// Length of the bar without a name that was there first, and whether it is at its end.
    main: Option<(u64, bool)>,
    /// A pause that a bar began.
    pause: Option<Phase>,
    behind_dictionary: bool,
    /// An evaluation was announced, and no step has come since.
    evaluates: bool,
    /// The HF Trainer announced it: the next bar is that of the evaluation, even where no training has been seen.
    is_next: bool,
    /// The length of that bar, and how far it had come: one that begins anew is another.
    evaluated: Option<(u64, u64)>,
}

struct Bar<'a> {
    name: &'a str,
    n: u64,
    total: Option<u64>,
    remaining_s: Option<f64>,
    /// Seconds per turn.
    turn_s: Option<f64>,
    unit: &'a str,
    post: &'a str,
}

enum Kind {
    Training,
    Pause(Phase),
    Unnamed,
    Other,
}

/// A bar shorter than this, without a loss, may be anything.
const MIN_TOTAL: u64 = 20;

/// No step of a training is shorter: files, lines and tokens are counted so fast.
const LEAST_TURN_S: f64 = 0.002;

/// What the names of bars mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    evaluation: Vec<String>,
    data: Vec<String>,
    training: Vec<String>,
    neither: Vec<String>,
    turns: Vec<String>,
    with_values: Vec<Pattern>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| toml::from_str(include_str!("../../../assets/progress/bars.toml")).expect("bars.toml"));

/// Where the last bar of the line ends; nothing where it has none.
pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> Option<usize> {
    if !line.has(b'[') {
        return None;
    }
    let (bar, end) = last(line.head)?;
    let bars = &mut memory.bars;
    match bars.kind(&bar) {
        Kind::Training => {
            bars.end_pause(tell);
            match (bar.n, bar.total) {
                (0, Some(total)) => tell(What::AtStart { total }),
                (0, None) => {}
                _ => tell(What::Step(bar.step())),
            }
        }
        Kind::Pause(phase) => bars.turn_pause(phase, &bar, tell),
        Kind::Unnamed | Kind::Other => {}
    }
    Some(end)
}

impl Bars {
    /// A step came in another form: a pause that a bar began is over.
    pub fn step_seen(&mut self) {
        self.pause = None;
        self.evaluates = false;
        self.is_next = false;
    }

    /// What a line without a bar says: behind the word of an evaluation, or of the end, a bar of another length is not the training.
    pub fn heard(&mut self, what: &What, text: &str) {
        match what {
            What::Phase { phase: Phase::Evaluation, begins } => {
                self.evaluates = *begins;
                self.is_next = *begins && text.contains("*** Running ");
            }
            What::Done => self.behind_dictionary = false,
            _ => {}
        }
    }

    /// A dictionary with a loss and without a step: the HF Trainer redraws the bar that counts its steps behind it.
    pub fn dictionary_seen(&mut self) {
        self.behind_dictionary = true;
    }

    fn kind(&mut self, bar: &Bar<'_>) -> Kind {
        match by_name(bar) {
            Kind::Unnamed => self.unnamed(bar),
            kind => kind,
        }
    }

    /// Without a name, the training is the bar that came first; one of another length while it stands still is an evaluation.
    fn unnamed(&mut self, bar: &Bar<'_>) -> Kind {
        let Some(length) = bar.total else { return Kind::Other };
        if bar.turn_s.is_some_and(|turn| turn < LEAST_TURN_S) && !has_loss(bar.post) {
            return Kind::Other;
        }
        let at_end = bar.n == length;
        // What is under way already when it is first seen is no evaluation that a short bar, behind whose dictionary the log begins, waits for.
        let goes_on = length > MIN_TOTAL && bar.n > MIN_TOTAL;
        match self.main {
            Some((total, false)) if total <= MIN_TOTAL && total != length && goes_on => self.main = Some((length, at_end)),
            Some((total, _)) if total == length => self.main = Some((total, at_end)),
            Some((_, false)) => return Kind::Pause(Phase::Evaluation),
            Some(_) if self.evaluates && !has_loss(bar.post) => return Kind::Pause(Phase::Evaluation),
            None if (self.is_next || self.evaluated.is_some_and(|(total, n)| total == length && n <= bar.n)) && !has_loss(bar.post) => {
                (self.is_next, self.evaluated) = (false, Some((length, bar.n)));
                return Kind::Pause(Phase::Evaluation);
            }
            _ if length > MIN_TOTAL || has_loss(bar.post) || self.behind_dictionary => self.main = Some((length, at_end)),
            _ => return Kind::Other,
        }
        Kind::Training
    }

    fn turn_pause(&mut self, phase: Phase, bar: &Bar<'_>, tell: &mut dyn FnMut(What)) {
        let at_end = bar.total.is_some_and(|total| bar.n >= total);
        if self.pause != Some(phase) {
            self.end_pause(tell);
            if at_end {
                // Redrawn at its end.
                return;
            }
            self.pause = Some(phase);
            tell(What::Phase { phase, begins: true });
        }
        if at_end {
            self.end_pause(tell);
        }
    }

    fn end_pause(&mut self, tell: &mut dyn FnMut(What)) {
        if let Some(phase) = self.pause.take() {
            tell(What::Phase { phase, begins: false });
        }
    }
}

fn by_name(bar: &Bar<'_>) -> Kind {
    let names = &*NAMES;
    let is = |list: &[String]| is_one_of(bar.name, list);
    if !names.turns.iter().any(|turn| turn == bar.unit) {
        return if is(&names.data) { Kind::Pause(Phase::DataLoading) } else { Kind::Other };
    }
    if is(&names.evaluation) {
        Kind::Pause(Phase::Evaluation)
    } else if is(&names.data) {
        Kind::Pause(Phase::DataLoading)
    } else if bar.named_values().is_some() || is(&names.training) || has_loss(bar.post) && !is(&names.neither) {
        Kind::Training
    } else if bar.name.is_empty() {
        Kind::Unnamed
    } else {
        Kind::Other
    }
}

fn is_one_of(name: &str, list: &[String]) -> bool {
    list.iter().any(|start| scan::starts_with(name, start))
}

fn has_loss(post: &str) -> bool {
    post.contains("loss")
}

/// The last bar in the line, and where it ends: redraws may be glued together.
fn last(text: &str) -> Option<(Bar<'_>, usize)> {
    let (mut from, mut found) = (0, None);
    for at in memchr::memchr_iter(b'[', text.as_bytes()) {
        if at < from || !text.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit) {
            continue;
        }
        if let Some((bar, end)) = bar(&text[from..at], &text[at + 1..]) {
            from = at + 1 + end;
            found = Some((bar, from));
        }
    }
    found
}

/// `name:  3%|▎    | 15/500 ` and `00:12<06:31,  1.24it/s, loss=2]…`, or `15it ` and `00:03,  4.87it/s]…`; and how much of the second
/// it takes.
fn bar<'a>(before: &'a str, times: &'a str) -> Option<(Bar<'a>, usize)> {
    // What is far away is not looked for: a line may be full of brackets.
    let comma = times.bytes().take(40).position(|b| b == b',')?;
    let (elapsed, rest) = (&times[..comma], &times[comma + 1..]);
    let (elapsed, left) = elapsed.split_once('<').unwrap_or((elapsed, "?"));
    let elapsed_s = scan::clock(elapsed)?;
    let before = before.strip_suffix(' ')?;
    let (name, n, total) = match before.rsplit_once('|') {
        Some((front, count)) => {
            let (n, total) = count.split_once('/')?;
            let front = front.rfind('|').map_or(front, |at| &front[..at]);
            let name = match front.strip_suffix('%') {
                Some(percent) => percent.trim_end_matches(|c: char| c.is_ascii_digit()),
                None => front,
            };
            let total = total.trim();
            (name, scaled(n.trim())?, if total == "?" { None } else { Some(scaled(total)?) })
        }
        // Of a length that is not known.
        None => {
            let start = before.rfind([' ', ']']).map_or(0, |at| at + 1);
            let digits = before[start..].bytes().take_while(|b| b.is_ascii_digit()).count();
            if !before[start + digits..].bytes().all(|b| b.is_ascii_alphabetic()) {
                return None;
            }
            (&before[..start], scaled(&before[start..start + digits])?, None)
        }
    };
    // Without an end, its last number may have been cut.
    let end = memchr::memchr(b']', rest.as_bytes());
    let (turn_s, unit, post) = rate(&rest[..end.unwrap_or(rest.len())]);
    let turn_s = if is_of_one_digit(rest) { turn_s.map(|s| exact(s, elapsed_s / n as f64)) } else { turn_s };
    // Whatever else is glued to its front, a name is short.
    let name = name.trim().trim_end_matches(':');
    // `[rank0]` alone tells who draws it.
    let name = if name.starts_with('[') && name.find(']') == Some(name.len() - 1) { "" } else { name };
    let name = name.trim_end_matches(']').rfind(']').map_or(name, |at| &name[at + 1..]).trim();
    let bar = Bar {
        name: if name.len() > 80 && !is_one_of(name, &NAMES.data) && !is_one_of(name, &NAMES.evaluation) { "" } else { name },
        n,
        total,
        remaining_s: scan::clock(left),
        turn_s,
        unit,
        post: if end.is_some() { post } else { "" },
    };
    Some((bar, times.len() - rest.len() + end.map_or(rest.len(), |e| e + 1)))
}

/// ` 0.01it/s`, of tqdm's two decimals.
fn is_of_one_digit(rate: &str) -> bool {
    let Some(tail) = rate.trim_start().strip_prefix("0.0") else { return false };
    tail.starts_with(|c: char| matches!(c, '1'..='9')) && tail[1..].starts_with(|c: char| c.is_ascii_alphabetic()) && tail.contains("/s")
}

/// `0.01it/s` says less of a slow bar than its time and count do: the mean, as far as the rate lets it be true.
fn exact(turn_s: f64, mean_s: f64) -> f64 {
    const HALF_A_DIGIT: f64 = 0.005;
    let rate = 1.0 / turn_s;
    if !mean_s.is_finite() {
        return turn_s;
    }
    mean_s.clamp(1.0 / (rate + HALF_A_DIGIT), 1.0 / (rate - HALF_A_DIGIT))
}

/// `  1.24it/s, loss=2`, `  3.52s/it`, `?it/s`: seconds per turn, what turns, and the rest.
fn rate(text: &str) -> (Option<f64>, &str, &str) {
    let tail = text.trim_start_matches(' ');
    let n = tail.bytes().take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b'?')).count();
    let value = tail[..n].parse::<f64>().ok().filter(|r| *r > 0.0);
    let tail = tail[n..].trim_start_matches(' ');
    let letters = |s: &str| s.bytes().take_while(u8::is_ascii_alphabetic).count();
    let first = letters(tail);
    let Some(second) = tail[first..].strip_prefix('/').filter(|_| n > 0) else { return (None, "", text) };
    let m = letters(second);
    let (first, second, post) = (&tail[..first], &second[..m], &second[m..]);
    match (first, second) {
        (unit, "s") => (value.map(|r| 1.0 / r), unit, post),
        ("s", unit) => (value, unit, post),
        _ => (None, "", text),
    }
}

/// `2.1k` of `unit_scale`
fn scaled(text: &str) -> Option<u64> {
    scan::count(text).filter(|(_, n)| *n == text.len()).map(|(v, _)| v as u64)
}

impl Bar<'_> {
    /// What the name holds: `1|2|Loss: 2.76`.
    fn named_values(&self) -> Option<Found> {
        let mut found = Found::default();
        NAMES.with_values.iter().any(|p| p.find(self.name, &mut found).is_some()).then_some(found)
    }

    fn step(&self) -> Step {
        let dialect = if self.post.contains("reduced_train_loss") || self.post.contains("train_step_timing") {
            Dialect::Nemo
        } else if self.post.contains("v_num=") {
            Dialect::Lightning
        } else {
            Dialect::Tqdm
        };
        let mut step = Step { dialect, ..Step::default() };
        // A name that counts the steps of the run stands before a bar that counts those of the epoch.
        self.named_values().unwrap_or_default().fill(&mut step);
        let found = field_names::read(self.post);
        // A large one is rounded to two digits; the bar's own count is exact while it is the same.
        let near = |g: u64| self.n.abs_diff(g).saturating_mul(20) < g;
        let of_run = found.step_of_run().map(|g| if g >= 1000 && near(g) { self.n } else { g });
        step.step = step.step.or(of_run).or(Some(self.n));
        // Of the epoch, not of the training.
        step.total_steps = self.total.filter(|total| of_run.is_none() && step.step.is_none_or(|step| step <= *total));
        let epoch = self.name.split_once("poch").and_then(|(_, t)| scan::number(t.trim_start_matches([' ', ':', '['])));
        step.epoch = step.epoch.or(epoch.map(|(v, _)| v));
        found.fill(&mut step);
        step.step_time_s = step.step_time_s.or(self.turn_s);
        step.remaining_s = self.remaining_s;
        step.bar = true;
        step
    }
}
