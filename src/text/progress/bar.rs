//! tqdm bars. Decides which bar is the training, which an evaluation, which the loading of data; the others say nothing.

use super::{Line, Memory, phase_event, scan};
use crate::text::{Dialect, Phase, Step, What};

#[derive(Clone, Default, PartialEq)]
pub struct Bars {
    /// Length of the bar without a name that was there first, and whether it is at its end.
    main: Option<(u64, bool)>,
    /// A pause that a bar began.
    pause: Option<Phase>,
    /// The line before was a last one of rich, which breaks it before the metrics.
    rich: Option<Step>,
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

/// `true`: the line is a bar.
pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let bars = &mut memory.bars;
    let before = bars.rich.take();
    if !line.wide && !line.has(b'[') && before.is_none() {
        return false;
    }
    let broken = before.and_then(|s| Some(Step { loss: Some(only_loss(line.head)?), ..s }));
    let rich = if line.wide { rich(line.head) } else { None };
    bars.rich = rich.clone().filter(|s| s.loss.is_none());
    if let Some(step) = broken.or(rich) {
        bars.end_pause(tell);
        tell(What::Step(step));
        return true;
    }
    if !line.has(b'[') {
        return false;
    }
    let Some(bar) = last(line.head) else { return false };
    match bars.kind(&bar) {
        Kind::Training => {
            bars.end_pause(tell);
            if bar.n > 0 {
                tell(What::Step(bar.step()));
            }
        }
        Kind::Pause(phase) => bars.turn_pause(phase, &bar, tell),
        Kind::Unnamed | Kind::Other => {}
    }
    true
}

impl Bars {
    /// A step came in another form: a pause that a bar began is over.
    pub fn step_seen(&mut self) {
        self.pause = None;
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
        let at_end = bar.n == length;
        match self.main {
            Some((total, _)) if total == length => self.main = Some((total, at_end)),
            Some((_, false)) => return Kind::Pause(Phase::Evaluation),
            _ if length > MIN_TOTAL || has_loss(bar.post) => self.main = Some((length, at_end)),
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
            tell(phase_event(phase, true));
        }
        if at_end {
            self.end_pause(tell);
        }
    }

    fn end_pause(&mut self, tell: &mut dyn FnMut(What)) {
        if let Some(phase) = self.pause.take() {
            tell(phase_event(phase, false));
        }
    }
}

fn by_name(bar: &Bar<'_>) -> Kind {
    if !matches!(bar.unit, "it" | "ba" | "batch" | "batches" | "step" | "steps" | "iter" | "iters" | "") {
        return match name_in(bar.name, DATA) {
            true => Kind::Pause(Phase::DataLoading),
            false => Kind::Other,
        };
    }
    if name_in(bar.name, EVALUATION) {
        Kind::Pause(Phase::Evaluation)
    } else if name_in(bar.name, DATA) {
        Kind::Pause(Phase::DataLoading)
    } else if torchtune(bar.name).is_some() || name_in(bar.name, TRAINING) || has_loss(bar.post) && !name_in(bar.name, NEITHER) {
        Kind::Training
    } else if bar.name.is_empty() {
        Kind::Unnamed
    } else {
        Kind::Other
    }
}

/// `1|2|Loss: 2.76`: epoch, step and loss, which torchtune gives its bar as a name.
fn torchtune(name: &str) -> Option<(u64, f64)> {
    let mut parts = name.trim().splitn(3, '|');
    parts.next()?.parse::<u32>().ok()?;
    let step = parts.next()?.parse().ok()?;
    let loss = parts.next()?.strip_prefix("Loss: ")?.trim_end_matches(':').parse().ok()?;
    Some((step, loss))
}

const EVALUATION: &[&str] =
    &["validation", "validating", "valid", "val ", "val:", "sanity checking", "testing", "test", "evaluat", "eval", "predicting"];
const DATA: &[&str] =
    &["map", "tokeniz", "filter", "generating", "saving the dataset", "resolving data files", "grouping texts", "packing"];
const TRAINING: &[&str] = &["train", "epoch", "step", "iteration", "iter", "global step"];
const NEITHER: &[&str] = &["loading", "downloading", "capturing", "fetching", "upload", "merging"];

fn name_in(name: &str, list: &[&str]) -> bool {
    let name = name.trim().to_ascii_lowercase();
    list.iter().any(|l| name.starts_with(l))
}

fn has_loss(post: &str) -> bool {
    post.contains("loss")
}

/// The last bar in the line: redraws may be glued together.
fn last(text: &str) -> Option<Bar<'_>> {
    let (mut from, mut found) = (0, None);
    for at in memchr::memchr_iter(b'[', text.as_bytes()) {
        if at < from || !text.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit) {
            continue;
        }
        if let Some((bar, end)) = bar(&text[from..at], &text[at + 1..]) {
            found = Some(bar);
            from = at + 1 + end;
        }
    }
    found
}

/// `name:  3%|▎    | 15/500 ` and `00:12<06:31,  1.24it/s, loss=2]…`, or `15it ` and `00:03,  4.87it/s]…`; and how much of the second
/// it takes.
fn bar<'a>(before: &'a str, times: &'a str) -> Option<(Bar<'a>, usize)> {
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
    let (elapsed, rest) = times.split_once(',').filter(|(e, _)| e.len() < 40)?;
    let (elapsed, left) = elapsed.split_once('<').unwrap_or((elapsed, "?"));
    scan::clock(elapsed)?;
    // Without an end, its last number may have been cut.
    let end = memchr::memchr(b']', rest.as_bytes());
    let (turn_s, unit, post) = rate(&rest[..end.unwrap_or(rest.len())]);
    // Whatever else is glued to its front, a name is short.
    let name = name.trim().trim_end_matches(':').rsplit(']').next().unwrap_or("").trim();
    let bar = Bar {
        name: if name.len() > 80 { "" } else { name },
        n,
        total,
        remaining_s: scan::clock(left),
        turn_s,
        unit,
        post: if end.is_some() { post } else { "" },
    };
    Some((bar, times.len() - rest.len() + end.map_or(rest.len(), |e| e + 1)))
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
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' => (&text[..text.len() - 1], 1e3),
        b'M' => (&text[..text.len() - 1], 1e6),
        b'G' => (&text[..text.len() - 1], 1e9),
        b'T' => (&text[..text.len() - 1], 1e12),
        _ => return scan::integer(text).filter(|(_, n)| *n == text.len()).map(|(v, _)| v),
    };
    digits.parse::<f64>().ok().map(|v| (v * factor) as u64)
}

impl Bar<'_> {
    fn step(&self) -> Step {
        let post = self.post.trim_start_matches([',', ' ']);
        let keyed = |keys: &[&str]| scan::keyed(post, keys);
        let whole = |v: f64| (v >= 0.0 && v.fract() == 0.0).then_some(v as u64);
        // A large one is rounded to two digits; the bar's own count is exact while it is the same.
        let near = |g: u64| self.n.abs_diff(g).saturating_mul(20) < g;
        let global = keyed(&["global_step"]).and_then(whole).map(|g| if g >= 1000 && near(g) { self.n } else { g });
        let dialect = if post.contains("reduced_train_loss") || post.contains("train_step_timing") {
            Dialect::Nemo
        } else if post.contains("v_num=") {
            Dialect::Lightning
        } else {
            Dialect::Tqdm
        };
        if let Some((step, loss)) = torchtune(self.name) {
            return Step {
                dialect,
                step: Some(step),
                total_steps: self.total,
                loss: Some(loss),
                step_time_s: self.turn_s,
                bar: true,
                remaining_s: self.remaining_s,
                ..Step::default()
            };
        }
        let epoch = self.name.split_once("poch").and_then(|(_, t)| scan::number(t.trim_start_matches([' ', ':', '[']))).map(|(v, _)| v);
        Step {
            dialect,
            step: global.or(Some(self.n)),
            // Of the epoch, not of the training.
            total_steps: if global.is_some() { None } else { self.total },
            epoch,
            loss: keyed(&["loss", "train_loss", "step_loss", "reduced_train_loss", "train/loss", "train_loss_step", "loss/train/total"]),
            grad_norm: keyed(&["grad_norm"]),
            learning_rate: keyed(&["lr", "learning_rate"]),
            step_time_s: keyed(&["train_step_timing in s"]).or(self.turn_s),
            bar: true,
            remaining_s: self.remaining_s,
            ..Step::default()
        }
    }
}

/// `Epoch 1/1  ━━━━━━━━━ 8/8 0:00:00 • 0:00:00 785.04it/s v_num: 1.000` of Lightning with rich.
fn rich(text: &str) -> Option<Step> {
    let tail = text.trim_start().strip_prefix("Epoch ")?;
    let (epoch, n) = scan::integer(tail)?;
    let tail = &tail[n..];
    if !tail.contains('━') && !tail.contains('╺') {
        return None;
    }
    let mut words = tail.split_whitespace().skip_while(|w| w.starts_with('/') || w.starts_with(['━', '╸', '╺', '╶']));
    let (now, total) = words.next()?.split_once('/')?;
    let left = tail.split_once(" • ").and_then(|(_, t)| scan::clock(t.split_whitespace().next()?));
    let rate = words.find_map(|w| w.strip_suffix("it/s"))?.parse::<f64>().ok().filter(|r| *r > 0.0);
    Some(Step {
        dialect: Dialect::Lightning,
        step: Some(now.parse().ok()?),
        total_steps: total.parse().ok(),
        epoch: Some(epoch as f64),
        loss: scan::keyed(tail, &["train_loss", "loss", "train_loss_step"]),
        step_time_s: rate.map(|r| 1.0 / r),
        bar: true,
        remaining_s: left,
        ..Step::default()
    })
}

/// `train_loss: 1.044`, with other metrics beside it and nothing else.
fn only_loss(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let mut loss = None;
    while let Some(key) = words.next() {
        let key = key.strip_suffix(':')?;
        let value = scan::number(words.next()?)?.0;
        if matches!(key, "train_loss" | "loss" | "train_loss_step") {
            loss = Some(value);
        }
    }
    loss
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &[&str]) -> Vec<What> {
        let (mut memory, mut out) = (Memory::default(), Vec::new());
        for l in lines {
            assert!(read(&Line::new(l), &mut memory, &mut |w| out.push(w)), "{l}");
        }
        out
    }

    fn step(line: &str) -> Step {
        match all(&[line]).as_slice() {
            [What::Step(s)] => s.clone(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn bars_of_all_shapes() {
        let s = step("  3%|▎         | 15/500 [00:12<06:31,  1.25it/s]");
        assert_eq!((s.step, s.total_steps, s.step_time_s, s.remaining_s, s.bar), (Some(15), Some(500), Some(0.8), Some(391.0), true));
        let s = step("  1%|          | 6/1184 [00:21<1:09:10,  3.52s/it]");
        assert_eq!((s.step_time_s, s.remaining_s), (Some(3.52), Some(4150.0)));
        let s = step("1|7|Loss: 2.75:   3%|▏         | 8/101 [00:53<27:44, 16.98s/it]");
        assert_eq!((s.step, s.total_steps, s.loss, s.step_time_s), (Some(7), Some(101), Some(2.75), Some(16.98)));
        let s = step("Steps:   1%|▏         | 8/800 [00:17<3:57:13, 17.81s/it, lr=5e-5, step_loss=0.0114]");
        assert_eq!((s.loss, s.learning_rate, s.step), (Some(0.0114), Some(5e-5), Some(8)));
        let s = step("Epoch 0:  25%|##5       | 2/8 [00:00<00:00, 80.00it/s, v_num=0, train_loss=0.988]");
        assert_eq!(
            (s.dialect, s.epoch, s.step, s.loss, s.step_time_s),
            (Dialect::Lightning, Some(0.0), Some(2), Some(0.988), Some(0.0125))
        );
        let s = step("Epoch 3/10: 100%|██████████| 99/99 [00:08<00:00, 8.77s/it, loss=nan]");
        assert!(s.loss.is_some_and(f64::is_nan) && s.epoch == Some(3.0));
        let s = step(
            "Epoch 0:   1%|  | 795/77225 [9:07:58<878:01:48, 41.36s/it, loss=3.1, v_num=, reduced_train_loss=3.090, global_step=794.0, consumed_samples=1.63e+6, train_step_timing in s=40.9]",
        );
        assert_eq!((s.dialect, s.step, s.loss, s.step_time_s, s.total_steps), (Dialect::Nemo, Some(794), Some(3.1), Some(40.9), None));
        let s = step("train          Epoch   0:   25%|███  | 5/20 [00:03<00:09, 2.0ba/s, loss/train/total=11.5]");
        assert_eq!((s.loss, s.step_time_s), (Some(11.5), Some(0.5)));
        assert_eq!(step("  0%| | 1/40 [00:00<?, ?it/s]  2%|▎| 2/40 [00:00<00:09, 4.00it/s]").step, Some(2));
    }

    #[test]
    fn rich_bars() {
        let s = step("Epoch 1/3  ━━━━━━━━━ 8/8 0:00:00 • 0:00:00 500.0it/s v_num: 1.000 train_loss: 1.044");
        assert_eq!((s.step, s.total_steps, s.epoch, s.step_time_s, s.loss), (Some(8), Some(8), Some(1.0), Some(0.002), Some(1.044)));
    }

    #[test]
    fn rich_breaks_its_line_before_the_metrics() {
        let got = all(&["Epoch 1/1  ━━━━━━━━━ 8/8 0:00:00 • 0:01:05 500.0it/s v_num: 1.000", "          train_loss: 1.044 "]);
        let bar = Step {
            dialect: Dialect::Lightning,
            step: Some(8),
            total_steps: Some(8),
            epoch: Some(1.0),
            step_time_s: Some(0.002),
            remaining_s: Some(65.0),
            bar: true,
            ..Step::default()
        };
        assert_eq!(got, [What::Step(bar.clone()), What::Step(Step { loss: Some(1.044), ..bar })]);
        let mut memory = Memory::default();
        assert!(!read(&Line::new("train_loss: 1.044"), &mut memory, &mut |_| {}), "of no bar");
    }

    #[test]
    fn bars_of_unknown_length() {
        let s = step("15it [00:03,  4.00it/s, loss=2.5]");
        assert_eq!((s.step, s.total_steps, s.loss, s.step_time_s, s.remaining_s), (Some(15), None, Some(2.5), Some(0.25), None));
        let s = step("Epoch 0: |          | 5/? [00:01<00:00,  4.00it/s, v_num=0, train_loss=0.5]");
        assert_eq!((s.dialect, s.step, s.total_steps, s.loss, s.epoch), (Dialect::Lightning, Some(5), None, Some(0.5), Some(0.0)));
        for line in ["15it [00:03,  4.87it/s]", "0it [00:00, ?it/s]", "Training: |          | 0/? [00:00<?, ?it/s]"] {
            assert_eq!(all(&[line]), [], "{line}");
        }
    }

    #[test]
    fn lightning_of_old() {
        let s = step("Epoch 0:   6%|▌ | 41234/500150 [00:08<02:29,  0.02it/s, v_num=1, global_step=4.1e+4]");
        assert_eq!(s.step, Some(41234));
        let s = step("Epoch 0:   6%|▌ | 1/18 [00:08<02:29,  8.77s/it, loss=0.532, v_num=1]");
        assert_eq!((s.dialect, s.step, s.total_steps, s.loss), (Dialect::Lightning, Some(1), Some(18), Some(0.532)));
        assert_eq!((s.step_time_s, s.remaining_s), (Some(8.77), Some(149.0)));
        // A damaged one may be of any size.
        all(&["Epoch|1/8 [2:1,global_step=922337203685477580]"]);
        let s = step("Epoch 0:   6%|▌ | 1/18 [00:08<02:29,  0.02it/s, v_num=1, global_step=794.0]");
        assert_eq!((s.step, s.step_time_s), (Some(794), Some(50.0)));
    }

    #[test]
    fn a_torn_bar_gives_no_wrong_number() {
        let s = step("Epoch 0:   6%|▌ | 1/18 [00:08<02:29,  8.77s/it, loss=0.5");
        assert_eq!((s.step, s.loss, s.step_time_s), (Some(1), None, Some(8.77)));
        assert_eq!(step("Epoch 0:   6%|▌ | 1/18 [00:08<02:29,  8.").step_time_s, None);
    }

    #[test]
    fn brackets_that_are_no_bars() {
        for line in [
            "[12:00:01] step 5 loss 2",
            "x [3, 4] | 5/6 | [7",
            "| a/b [00:01<00:02, 3it/s]",
            "[00:01<00:02, 3it/s]",
            " [1,2it/s]",
            "| 1/2 [x",
        ] {
            assert!(!read(&Line::new(line), &mut Memory::default(), &mut |_| {}), "{line}");
        }
    }

    #[test]
    fn other_bars_are_no_steps() {
        for line in [
            "Loading checkpoint shards:  50%|█████     | 2/4 [00:12<00:12,  6.31s/it]",
            "Downloading data:  50%|█████     | 2.1M/4.2M [00:12<00:12,  6.31MB/s]",
            "Capturing CUDA graphs:  50%|█████     | 20/67 [00:12<00:12,  6.31it/s]",
            "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:12<00:12,  6.31s/it]",
            "Fetching 10 files:  50%|█████     | 5/10 [00:12<00:12,  6.31it/s]",
            " 50%|█████     | 5/10 [00:12<00:12,  6.31it/s]",
            "100%|██████████| 5000/5000 [00:01<00:00, 4000.11 examples/s]",
            "  0%|          | 0/40 [00:00<?, ?it/s]",
        ] {
            assert_eq!(all(&[line]), [], "{line}");
        }
    }

    #[test]
    fn validation_and_data_bars_are_pauses() {
        let p = |phase, begins| phase_event(phase, begins);
        assert_eq!(
            all(&[
                "Validation DataLoader 0:   0%|          | 0/20 [00:00<?, ?it/s]",
                "Validation DataLoader 0:  50%|█████     | 10/20 [00:01<00:01, 10.00it/s]",
                "Validation DataLoader 0: 100%|██████████| 20/20 [00:02<00:00, 10.00it/s]",
                "Validation DataLoader 0: 100%|██████████| 20/20 [00:02<00:00, 10.00it/s]",
            ]),
            [p(Phase::Evaluation, true), p(Phase::Evaluation, false)]
        );
        assert_eq!(
            all(&[
                "Map (num_proc=8):  10%|█         | 500/5000 [00:00<00:01, 4000.00 examples/s]",
                "Map (num_proc=8): 100%|█| 5000/5000 [00:00<00:00, 4000.00 examples/s]"
            ]),
            [p(Phase::DataLoading, true), p(Phase::DataLoading, false)]
        );
    }

    #[test]
    fn an_unnamed_bar_inside_the_training_is_an_evaluation() {
        let got = all(&[
            " 10%|█         | 50/500 [00:12<06:31,  1.25it/s]",
            " 20%|██        | 10/50 [00:01<00:31,  9.25it/s]",
            " 40%|████      | 20/50 [00:02<00:31,  9.25it/s]",
            " 10%|█         | 51/500 [00:22<06:31,  1.25it/s]",
        ]);
        assert_eq!(got.len(), 4);
        assert_eq!(got[1], phase_event(Phase::Evaluation, true));
        assert_eq!(got[2], phase_event(Phase::Evaluation, false));
        assert!(matches!(&got[3], What::Step(s) if s.step == Some(51)));
    }
}
