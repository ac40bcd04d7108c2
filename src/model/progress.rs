//! How far training has come and how fast it goes, from the lines of one file.

use super::arrivals::{Arrivals, Stretch};
use super::course::Course;
use super::own_loss::OwnLoss;
use super::series::{Series, Trend};
use super::told_rate::ToldRate;
use super::usual::{LOSS, NORM, Usual};
use crate::base::limit::Limit;
use crate::base::time::Stamp;
use crate::logs::{Dialect, Phase, Step, metrics};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Where training stands, from the lines of one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    pub dialect: Dialect,
    pub step: Option<u64>,
    /// The first step that was counted in this run.
    pub first_counted: Option<u64>,
    pub total_steps: Option<u64>,
    /// A bar that may be that of the training was seen at its start, of so many.
    pub at_start: Option<u64>,
    pub epoch: Option<f64>,
    pub loss: Option<f64>,
    /// The first of this run.
    pub first_loss: Option<f64>,
    /// The lowest of this run, and its step.
    pub lowest_loss: Option<(Option<u64>, f64)>,
    pub grad_norm: Option<f64>,
    /// The first of this run.
    pub first_grad_norm: Option<f64>,
    pub learning_rate: Option<f64>,
    /// The first of this run.
    pub first_learning_rate: Option<f64>,
    pub throughput: Option<f64>,
    pub throughput_unit: Option<&'static str>,
    /// As the line says, else from arrival times of steps.
    pub step_time_s: Option<f64>,
    /// The first that was told, with what a start takes.
    pub first_step_time_s: Option<f64>,
    /// To judge by, seconds.
    pub step_times: Series<600>,
    /// What was done a second in each of these; 0 where the line does not say.
    rates: Series<600>,
    /// To draw: of lines seen as they came, because when older ones were written is not known.
    pub losses: Trend,
    /// Over all that was read, older lines too.
    pub loss_course: Course,
    /// The step of its first value, where the line told one.
    pub course_from: Option<u64>,
    /// Seconds.
    pub step_trend: Trend,
    /// In [`Progress::throughput_unit`].
    pub throughput_trend: Trend,
    /// When the step last grew.
    pub last_step_at: Option<Stamp>,
    /// The time of a step that the last bar told.
    bar_step_time_s: Option<f64>,
    /// A bar was drawn anew since then, which is done once in a silence.
    drawn_anew: bool,
    /// The step of the first loss of those that are not finite now.
    pub bad_from: Option<u64>,
    /// What ranks printed as their own losses at that step; one may not be known.
    pub own_losses: BTreeMap<Option<u32>, f64>,
    /// How the loss of each rank goes on, of lines of which the rank is known.
    pub loss_of_rank: BTreeMap<u32, OwnLoss>,
    /// When the program itself last went on after it had stood still.
    resumed_at: Option<Stamp>,
    /// How long it has done so since the step last grew.
    unwatched: Duration,
    /// Seconds between the arrivals of progress lines, newest last.
    gaps: Series<32>,
    /// Steps that were made in them.
    paced_steps: u64,
    /// The newest of them that were pauses: far longer than those before. An evaluation every thousand steps is none of the newest gaps.
    pauses: Series<4>,
    /// Steps have come regularly since then: no pause, no restart.
    pub steady_since: Option<Stamp>,
    phase: Option<(Phase, Stamp)>,
    /// Named pauses that are over, with begin and end, the newest [`MAX_PHASES`].
    pub phases: VecDeque<(Phase, Stamp, Stamp)>,
    /// The log says that the server was shut down.
    pub server_ended: bool,
    pub done_at: Option<Stamp>,
    /// Number of the newest line that told a step.
    pub line: Option<u64>,
    /// The step at which a launcher reported that a worker had failed, until the next step comes.
    failed_at: Option<Option<u64>>,
    /// How often steps came after that: the launcher had started the ranks again.
    pub restarts: u32,
    /// The last step before the last of those restarts, and the first after it.
    pub restarted_from: Option<(u64, u64)>,
    /// Losses in a row that are not finite.
    pub bad_losses: u32,
    /// Steps in a row whose loss is finite, since the last one that was not; none where all were.
    pub finite_again: u32,
    /// How often losses that were not finite were followed by so many that were.
    pub recoveries: u32,
    /// The first and the last step of those before them, and how many lines there were.
    pub was_bad: Option<WasBad>,
    /// The newest loss that was finite, and its step.
    pub finite_loss: Option<(Option<u64>, f64)>,
    /// Gradient norms in a row that are not finite.
    pub bad_norms: u32,
    /// Losses in a row that are exactly 0 and have no good gradient beside them, after one that was not 0.
    pub zero_losses: u32,
    /// Gradient norms in a row that are exactly 0.
    pub zero_norms: u32,
    /// Steps in a row with the very same loss as the one before.
    pub same_losses: u32,
    pub usual_loss: Usual,
    pub usual_norm: Usual,
    /// A gradient norm from here on leaps, by those of the lines before the loss did.
    norm_leaps_from: Option<f64>,
    /// Steps that overflowed in fp16 and were left out.
    pub skipped_steps: u64,
    /// What the gradients of fp16 are multiplied with since the last of them, and the step before it.
    pub loss_scale: Option<(f64, u64)>,
    first_step: Option<(Stamp, u64)>,
    /// The step before the newest, and when it came, where the newest has told no time as yet.
    untimed: Option<(Stamp, u64)>,
    /// The first and the last step of this run whose lines carry a time.
    timed: Option<[(Stamp, u64); 2]>,
    /// Lines carry the step time themselves.
    told_step_time: bool,
    told: Told,
    arrivals: Arrivals,
    /// Steps take longer than they did, and still do.
    pub slow: Option<SlowSince>,
    told_rate: ToldRate,
    /// How often in a row the step fell soon after it had fallen, each time to a later one; the step that it last fell to, and lines since then.
    fell_back: (u32, u64, u32),
    /// What steps usually take: the median and the 90th percentile, seconds, and how many more steps until that is looked at anew.
    usual_step_s: Option<(f64, f64)>,
    usual_due: u32,
    late: Option<Late>,
    /// When rows of a `metrics.csv` came, and the last step in them: of the newest save, and of the one before.
    saves: [Option<(Stamp, u64)>; 2],
}

/// What lines tell as the time of a step, and whether it is that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Told {
    first_s: f64,
    last_s: Option<f64>,
    /// Lines that told a longer time than the one before, and whether one told a shorter.
    rises: u32,
    fell: bool,
    /// The newest was told by a bar.
    by_bar: bool,
    /// It is that of more than a step.
    is_of_more: bool,
}

/// Lines in a row that tell of steps that took longer than usual.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Late {
    since: Stamp,
    lines: usize,
    steps: u64,
    /// By how many times the least of them exceeds what was usual.
    least: f64,
}

/// A lasting change of the step time while the job runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowSince {
    pub since: Stamp,
    pub before_s: f64,
}

const MAX_PHASES: usize = 32;
/// Dialects of reinforcement learning whose loss is, or holds, that of a critic.
const OF_CRITICS: [&str; 2] = ["rsl-rl", "stable-baselines3"];
/// The first steps compile and connect.
const WARM_UP: usize = 3;
const LEAST_BEFORE: usize = 8;
const LEAST_STRETCHES: usize = 5;
/// Lines that each tell of so many steps are few, and one of them has all of the warm-up.
const STEPS_OF_LINE: u64 = 3;
const STEPS_OF_STRETCH: f64 = 4.0;
const LEAST_AFTER: usize = 10;
/// The time that slow steps must cover.
pub const COVER: Limit = Limit::seconds("slow-steps", "after", 5.0, "slow steps must cover this long");
pub const SLOWER: Limit = Limit::times("slow-steps", "slower", 1.4, "steps must take so many times as long as nine of ten did before");

/// A lasting change of the time that a step takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// Kept steps since it began.
    pub steps: usize,
    pub before_s: f64,
    pub after_s: f64,
}

/// Steps that take no more than so many times what they took are as before.
const BACK_TO_NORMAL: f64 = 1.15;
/// After so many steps with finite losses those before that were not are over.
pub const RECOVERED: u32 = 5;

/// Lines whose loss was not finite, since the run began or since the last ones that were taken back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WasBad {
    pub lines: u32,
    pub from: Option<u64>,
    pub to: Option<u64>,
    /// A finite loss was seen before them.
    pub in_the_middle: bool,
}

impl Progress {
    /// A line has a loss that is no number, or leaves it out for that.
    fn goes_bad(&mut self, step: Option<u64>) {
        let step = step.or(self.step);
        // What was finite for long is over.
        if self.finite_again >= RECOVERED {
            self.was_bad = None;
            self.recoveries = self.recoveries.saturating_add(1);
        }
        self.finite_again = 0;
        let first = WasBad { lines: 0, from: step, to: step, in_the_middle: self.lowest_loss.is_some() };
        let bad = self.was_bad.get_or_insert(first);
        (bad.lines, bad.to) = (bad.lines + 1, step);
    }

    /// A launcher reports that a worker has failed.
    pub fn worker_failed(&mut self) {
        self.failed_at.get_or_insert(self.step);
    }

    /// A step came.
    fn note_restart(&mut self, step: &Step) {
        let Some(now) = step.step.filter(|_| !step.bar) else { return };
        if let Some(before) = self.failed_at.take() {
            self.restarts += 1;
            self.restarted_from = before.map(|before| (before, now));
        }
    }

    /// tqdm's monitor draws a bar anew that was not drawn for ten seconds: with steps that were made before, and at the rate of then. A step
    /// that ends changes the rate.
    fn is_drawn_anew(&mut self, at: Stamp, step: &Step) -> bool {
        const SILENT_S: f64 = 8.0;
        if !step.bar {
            return false;
        }
        let before = std::mem::replace(&mut self.bar_step_time_s, step.step_time_s);
        let Some((own, last)) = step.step_time_s.filter(|own| Some(*own) == before).zip(self.last_step_at) else { return false };
        let made = step.step.zip(self.step).map_or(0, |(now, before)| now.saturating_sub(before));
        // Steps that fill the time since then are being made; so are those of a second bar behind a silence.
        let silent_s = at.secs_since(last);
        let is_one = silent_s >= SILENT_S && made as f64 * own < silent_s / 2.0;
        let is_first = !std::mem::replace(&mut self.drawn_anew, is_one);
        is_one && is_first
    }

    pub fn apply(&mut self, at: Stamp, step: &Step, backlog: bool) {
        if !backlog && self.is_drawn_anew(at, step) {
            // They were made, and not now: drawn once more, it is no step either.
            self.step = step.step.or(self.step);
            return;
        }
        // A bar repeats its numbers many times a second; it fills in what no better line has given.
        let richer = !step.bar || matches!(self.dialect, Dialect::Tqdm | Dialect::Plain | Dialect::Lightning) || self.step.is_none();
        if richer && !(step.bar && self.dialect != step.dialect && self.loss.is_some() && step.loss.is_none()) {
            self.dialect = step.dialect;
        }
        self.note_restart(step);
        let before = self.last_step_at.zip(self.step);
        let advanced = step.step.is_some_and(|s| self.step.is_none_or(|before| s > before));
        // A bar of the same length that starts again is the next epoch; another one is a validation.
        let may_restart = !step.bar || (step.total_steps.is_some() && step.total_steps == self.total_steps);
        let restarted = step.step.is_some_and(|s| self.step.is_some_and(|before| s < before)) && may_restart;
        self.note_fall(step.step.filter(|_| restarted));
        // In a block of lines the time of a step comes with a later line than its number.
        let untimed = self.untimed.take_if(|_| advanced || restarted || step.step_time_s.is_some());
        let made = if advanced {
            Some(before.unwrap_or((at, 0)))
        } else {
            untimed.filter(|_| !restarted && step.step.is_none_or(|s| Some(s) == self.step))
        };
        if let Some(s) = step.step
            && (advanced || restarted)
        {
            // When steps ended whose rows are saved together is not known: that none come is no silence, and that some come no sign of life.
            if step.dialect == metrics::DIALECT {
                self.saved(at, s, backlog || restarted);
            } else {
                if !backlog {
                    self.arrived(at, s, restarted);
                }
                (self.last_step_at, self.unwatched) = (Some(at), Duration::ZERO);
            }
            self.step = Some(s);
            self.first_counted.get_or_insert(s);
            self.end_phase(at);
            // A bar that is full is drawn once more behind the last word.
            if !(step.bar && step.total_steps == Some(s)) {
                self.done_at = None;
            }
        } else if step.step.is_none() && step.loss.is_some() {
            // HF's dictionary has no step, but it is a sign of life.
            if !backlog && self.step.is_none() {
                self.watch_rate_of_lines(at, step);
                self.note_gap(at);
            }
            (self.last_step_at, self.unwatched) = (Some(at), Duration::ZERO);
            self.end_phase(at);
            self.done_at = None;
        }
        self.total_steps = step.total_steps.or(self.total_steps);
        self.epoch = step.epoch.or(self.epoch);
        self.grad_norm = step.grad_norm.or(self.grad_norm);
        self.learning_rate = step.learning_rate.or(self.learning_rate);
        self.first_grad_norm = self.first_grad_norm.or(step.grad_norm);
        self.first_learning_rate = self.first_learning_rate.or(step.learning_rate);
        if let Some(throughput) = step.throughput {
            (self.throughput, self.throughput_unit) = (step.throughput, step.throughput_unit);
            if !backlog {
                self.throughput_trend.push(at, throughput);
            }
        }
        if restarted {
            self.told = Told::default();
            self.told_rate = ToldRate::default();
            self.finite_loss = None;
            self.usual_loss.begin_anew();
            self.usual_norm.begin_anew();
            self.loss_of_rank.clear();
        }
        // What is usual is that of the lines before the loss left its place.
        if self.usual_loss.jump.is_none() {
            self.norm_leaps_from = self.usual_norm.leaps_from();
        }
        let norm_leaps = step.grad_norm.zip(self.norm_leaps_from).is_some_and(|(norm, least)| norm >= least);
        if let Some(norm) = step.grad_norm {
            self.usual_norm.note(at, step.step.or(self.step), norm, &NORM, false);
            self.bad_norms = if norm.is_finite() { 0 } else { self.bad_norms + 1 };
            self.zero_norms = if norm == 0.0 { self.zero_norms + 1 } else { 0 };
        }
        if let Some(loss) = step.loss {
            // That of a critic leaps with the rewards, and is 0 while there are none.
            let of_critic = OF_CRITICS.contains(&step.dialect.as_str());
            let learns = step.grad_norm.is_some_and(|norm| norm.is_finite() && norm != 0.0);
            // One that falls steadily is printed as 0.000 in the end.
            const LEAST_BEFORE_ZERO: f64 = 0.01;
            let was_not = self.zero_losses > 0 || self.loss.is_some_and(|before| before.abs() >= LEAST_BEFORE_ZERO);
            // That of a policy has either sign, and none where all samples are rewarded alike.
            let has_signs = self.lowest_loss.is_some_and(|(_, lowest)| lowest < 0.0) || of_critic;
            self.zero_losses = if loss == 0.0 && !learns && !has_signs && was_not { self.zero_losses + 1 } else { 0 };
            let is_next = advanced || restarted || step.step.is_none();
            self.same_losses = if self.loss == Some(loss) && !of_critic { self.same_losses + u32::from(is_next) } else { 0 };
            if is_next {
                if self.loss_course.values() == 0 {
                    self.course_from = step.step;
                }
                self.loss_course.push(loss);
            }
            self.loss = Some(loss);
            self.first_loss.get_or_insert(loss);
            if !of_critic {
                self.usual_loss.note(at, step.step.or(self.step), loss, &LOSS, norm_leaps);
            }
            if self.bad_losses == 0 && !loss.is_finite() {
                self.bad_from = step.step.or(self.step);
            }
            if !loss.is_finite() {
                self.goes_bad(step.step);
            } else if self.was_bad.is_some() && is_next {
                // A loss of exactly 0, or one beside gradients that are NaN, is none that has come back.
                let is_sound = loss != 0.0 && step.grad_norm.is_none_or(f64::is_finite);
                self.finite_again = if is_sound { self.finite_again + 1 } else { 0 };
            }
            self.bad_losses = if loss.is_finite() { 0 } else { self.bad_losses + 1 };
            if loss.is_finite() {
                self.finite_loss = Some((step.step.or(self.step), loss));
                if self.lowest_loss.is_none_or(|(_, lowest)| loss < lowest) {
                    self.lowest_loss = self.finite_loss;
                }
            }
            if !backlog {
                self.losses.push(at, loss);
            }
        } else if step.loss_missing {
            self.goes_bad(step.step);
            self.bad_losses += 1;
        }
        if let Some(s) = step.step_time_s.filter(|s| self.believes(*s)) {
            self.told_step_time = true;
            self.told.by_bar = step.bar;
            self.step_time_s = Some(s);
            self.first_step_time_s.get_or_insert(s);
            if let Some((began, first)) = made {
                let by_batch = step.global_batch.map(|samples| samples / s);
                self.took(at, s, step.throughput.or(by_batch));
                if !backlog {
                    self.step_trend.push(at, s);
                    self.watch_pace(at, began, self.step.unwrap_or(0).saturating_sub(first).max(1));
                }
            }
        } else if advanced {
            self.untimed = made;
            self.watch_rate(at, step, made.filter(|_| !backlog));
        }
    }

    /// Notes when the rate that lines tell falls for good, where they tell no time of a step.
    fn watch_rate(&mut self, at: Stamp, step: &Step, made: Option<(Stamp, u64)>) {
        let ((began, first), Some(now), Some(rate)) = (made.unwrap_or_default(), step.step, step.throughput) else { return };
        if made.is_none() || self.told_step_time || step.bar {
            return;
        }
        let slow = self.told_rate.note(began, at, now.saturating_sub(first).max(1), rate);
        self.slow = self.slow.or(slow);
    }

    /// The same of lines that name no step: each stands for as many as any other.
    fn watch_rate_of_lines(&mut self, at: Stamp, step: &Step) {
        let (Some(before), Some(rate)) = (self.last_step_at, step.throughput) else { return };
        if self.told_step_time || step.bar {
            return;
        }
        // What is usual is learnt anew behind the change: a rate far above it is the old one.
        let over = self.slow.filter(|slow| self.line_s_since(slow.since).is_some_and(|now_s| now_s < slow.before_s * BACK_TO_NORMAL));
        if over.is_some() {
            (self.slow, self.told_rate) = (None, ToldRate::default());
        }
        let slow = self.told_rate.note(before, at, 1, rate);
        self.slow = self.slow.or(slow);
    }

    /// Seconds from one line to the next since then, where lines name no step.
    pub fn line_s_since(&self, since: Stamp) -> Option<f64> {
        let newest = self.gaps.iter().rev().take_while(|(at, _)| *at > since).count().min(10);
        self.gaps.median_of_last(newest).filter(|_| self.step.is_none() && newest > 0)
    }

    /// Whether the time that a line tells is that of a step. One that grows from line to line and never falls is that since the start, and
    /// so is one that is much longer than steps take by the arrival of their lines.
    fn believes(&mut self, told_s: f64) -> bool {
        const LEAST_LINES: u32 = 12;
        const GROWN: f64 = 4.0;
        let told = &mut self.told;
        match told.last_s {
            Some(last) if told_s > last => told.rises = told.rises.saturating_add(1),
            Some(_) => told.fell = true,
            None => told.first_s = told_s,
        }
        told.last_s = Some(told_s);
        if !told.fell && told.rises >= LEAST_LINES && told_s >= told.first_s * GROWN {
            self.disbelieve();
        }
        !self.told.is_of_more
    }

    /// Times of steps come from the arrival of lines from now on.
    fn disbelieve(&mut self) {
        if !std::mem::replace(&mut self.told.is_of_more, true) {
            (self.told_step_time, self.step_time_s) = (false, None);
            (self.step_times, self.rates, self.step_trend) = (Series::default(), Series::default(), Trend::default());
            (self.usual_step_s, self.usual_due, self.late, self.slow) = (None, 0, None, None);
            self.arrivals.made().into_iter().for_each(|stretch| self.took_by_arrival(stretch));
        }
    }

    /// The line of a step was written then, as it says itself.
    pub fn written(&mut self, at: Stamp, step: u64) {
        self.timed = match self.timed {
            Some([first, last]) if step >= last.1 && at >= last.0 => Some([first, (at, step)]),
            _ => Some([(at, step); 2]),
        };
    }

    /// Seconds of a step by the times that lines carry, where there are at least two steps.
    pub fn written_pace_s(&self) -> Option<f64> {
        let [(from, first), (to, last)] = self.timed?;
        (last > first && to > from).then(|| to.secs_since(from) / (last - first) as f64)
    }

    /// It has counted up to the number of steps that it named. Bars of Keras and Lightning count those of an epoch.
    pub fn has_made_its_last_step(&self) -> bool {
        let of_an_epoch = matches!(self.dialect, Dialect::Lightning | Dialect::Tqdm | Dialect::Other("keras"));
        !of_an_epoch && self.total_steps.is_some() && self.step >= self.total_steps
    }

    /// Notes when steps begin to take longer for good, and when they are as before again. The newest of the step times came `now` and is
    /// that of `steps` steps, which began at `began` or later.
    fn watch_pace(&mut self, now: Stamp, began: Stamp, steps: u64) {
        /// The number of slow steps: a few of them are a hiccup.
        const AGREE: usize = 6;
        /// One slow line is a checkpoint, a second one what it left cold.
        const LEAST_LINES: usize = 3;
        /// So many times as long, and for so long, is no hiccup, however few the steps are: each is compiled anew, say.
        const FAR_LONGER: f64 = 8.0;
        const FOR_LONG: Duration = Duration::from_secs(10);
        let Some(last) = self.step_times.last() else { return };
        if let Some(slow) = self.slow {
            let recent = || self.step_times.iter().rev().take(AGREE);
            if recent().count() == AGREE && recent().all(|s| s.1 < slow.before_s * BACK_TO_NORMAL) {
                (self.slow, self.late) = (None, None);
            }
            return;
        }
        if let Some((median, most)) = self.usual_step_s {
            let usual = most.max(median * 1.1);
            if last > usual * SLOWER.value() {
                // A pause before them is not theirs.
                let took = Duration::try_from_secs_f64(last * steps as f64).unwrap_or(Duration::MAX);
                let late = self.late.get_or_insert(Late { since: began.max(now.minus(took)), lines: 0, steps: 0, least: f64::INFINITY });
                (late.lines, late.steps, late.least) = (late.lines + 1, late.steps.saturating_add(steps), late.least.min(last / usual));
                // Each line speaks for a change by as much as it exceeds what was usual, on a scale of ratios: six by 1.4, three by 2.
                let told = late.lines as f64 * late.least.ln() >= AGREE as f64 * SLOWER.value().ln();
                let lasts = now.since(late.since);
                let many = late.steps >= AGREE as u64 && lasts >= COVER.duration();
                let enough = late.lines >= LEAST_LINES && (many || late.least >= FAR_LONGER && lasts >= FOR_LONG);
                let (lines, since) = (late.lines, late.since);
                if told && enough {
                    // What is usual is learnt anew, then.
                    (self.slow, self.late) = match self.does_as_much(lines) {
                        true => (None, None),
                        false => (Some(SlowSince { since, before_s: median }), self.late),
                    };
                }
                return;
            }
            self.late = None;
        }
        self.usual_due = self.usual_due.saturating_sub(1);
        // By the times of lines each of them is the mean of a second and of several steps.
        let stretches = !self.told_step_time && self.step_times.iter().all(|(_, s)| s * STEPS_OF_STRETCH <= 1.0);
        if self.usual_due == 0 || stretches {
            self.slow = self.shifted(now, stretches);
        }
        if self.usual_due == 0 {
            // Lines of many steps each are few: what is usual is known from some of them until there are more.
            let few = steps >= STEPS_OF_LINE && self.step_times.len() < WARM_UP + LEAST_BEFORE;
            let (warm_up, least) = if stretches || few { (1, LEAST_STRETCHES) } else { (WARM_UP, LEAST_BEFORE) };
            let warm = self.step_times.len().saturating_sub(warm_up);
            let mut usual: Vec<f64> = self.step_times.iter().rev().take(warm.min(200)).map(|s| s.1).filter(|s| s.is_finite()).collect();
            if usual.len() >= least {
                usual.sort_by(f64::total_cmp);
                self.usual_step_s = Some((usual[usual.len() / 2], usual[(usual.len() - 1) * 9 / 10]));
                self.usual_due = if few { 1 } else { 16 };
            }
        }
    }

    /// Many steps that take longer than those before, of which some are not much longer: nine of ten take longer than nine of ten did.
    fn shifted(&self, now: Stamp, stretches: bool) -> Option<SlowSince> {
        const LASTS: Duration = Duration::from_secs(10);
        const LEAST: usize = 40;
        /// A stretch is the mean of a second.
        const LEAST_AFTER: usize = 9;
        const BEFORE: usize = 200;
        const MEDIAN_GREW: f64 = 1.4;
        const APART: f64 = 1.05;
        let is_recent = |at: Stamp| now.since(at) <= LASTS;
        let (least, least_before, warm_up) = if stretches { (LEAST_AFTER, LEAST_BEFORE, 1) } else { (LEAST, LEAST, WARM_UP) };
        let recent = self.step_times.iter().rev().take_while(|(at, _)| is_recent(*at)).count().max(least);
        let warm = self.step_times.len().saturating_sub(recent + warm_up);
        if warm < least_before {
            return None;
        }
        let sorted = |times: &mut dyn Iterator<Item = (Stamp, f64)>| {
            let mut times: Vec<f64> = times.map(|(_, s)| s).filter(|s| s.is_finite()).collect();
            times.sort_by(f64::total_cmp);
            times
        };
        let newest_first = || self.step_times.iter().rev();
        let after = sorted(&mut newest_first().take(recent));
        let before = sorted(&mut newest_first().skip(recent).take(warm.min(BEFORE)));
        let part = |times: &[f64], tenths: usize| times.get(times.len().saturating_sub(1) * tenths / 10).copied();
        let ((low, median), (usual, high)) = part(&after, 1).zip(part(&after, 5)).zip(part(&before, 5).zip(part(&before, 9)))?;
        let (since, _) = newest_first().nth(recent - 1)?;
        let is_slower = median >= usual * MEDIAN_GREW && low >= high * APART && now.since(since) >= LASTS.mul_f64(0.8);
        (is_slower && !self.does_as_much(recent)).then_some(SlowSince { since, before_s: usual })
    }

    fn took(&mut self, at: Stamp, step_s: f64, rate: Option<f64>) {
        self.step_times.push(at, step_s);
        self.rates.push(at, rate.unwrap_or(0.0));
    }

    /// Two loops that write into one log fall back every few lines, and further on each time. An epoch begins where the one before did, who
    /// goes on from a checkpoint does so once, and lines of several ranks are out of order by a few steps.
    fn note_fall(&mut self, fell_to: Option<u64>) {
        const SOON: u32 = 6;
        let (times, last, lines) = &mut self.fell_back;
        *lines = lines.saturating_add(1);
        let Some(to) = fell_to.filter(|to| self.step.is_some_and(|before| *to <= before - before / 10)) else { return };
        *times = if to > *last && (*lines <= SOON || *times == 0) { *times + 1 } else { 0 };
        (*last, *lines) = (to, 0);
    }

    /// Steps of several loops stand in one log, each with its own count and its own time.
    pub fn is_of_several(&self) -> bool {
        self.fell_back.0 >= 3
    }

    /// The newest steps, so many, did as much a second as those before: they are longer because more is in them, a sequence or a batch.
    fn does_as_much(&self, newest: usize) -> bool {
        const AS_MUCH: f64 = 0.9;
        self.rate_share(newest).is_some_and(|share| share >= AS_MUCH)
    }

    /// What the steps since then do a second, in parts of what those before did; `None` where the log does not tell.
    pub fn rate_share_since(&self, since: Stamp) -> Option<f64> {
        self.rate_share(self.step_times.iter().rev().take_while(|(at, _)| *at > since).count())
    }

    fn rate_share(&self, newest: usize) -> Option<f64> {
        const LEAST: usize = 3;
        let median = |rates: &mut dyn Iterator<Item = f64>| {
            let mut rates: Vec<f64> = rates.filter(|rate| rate.is_finite() && *rate > 0.0).collect();
            rates.sort_by(f64::total_cmp);
            (rates.len() >= LEAST).then(|| rates[rates.len() / 2])
        };
        let newest_first = || self.rates.iter().rev().map(|(_, rate)| rate);
        let before = median(&mut newest_first().skip(newest).take(200));
        median(&mut newest_first().take(newest)).zip(before).map(|(after, before)| after / before)
    }

    /// The program itself stood still for so long, up to now.
    pub fn stood_still(&mut self, now: Stamp, gap: Duration) {
        self.resumed_at = Some(now);
        self.unwatched = self.unwatched.saturating_add(gap);
        if let Some((then, _)) = &mut self.first_step {
            *then = then.plus(gap);
        }
    }

    /// A row of a `metrics.csv`. The time of a step is that from one save to the next, by the steps between: rows of one come together.
    fn saved(&mut self, at: Stamp, step: u64, begins_anew: bool) {
        let [newest, before] = self.saves;
        self.saves = match (newest, before) {
            _ if begins_anew => [None, None],
            (Some((last, _)), _) if last == at => [Some((at, step)), before],
            (Some((last, to)), Some((then, from))) if to > from && last > then => {
                let per_step = last.secs_since(then) / (to - from) as f64;
                self.step_time_s = Some(per_step);
                self.took(last, per_step, None);
                self.step_trend.push(last, per_step);
                [Some((at, step)), newest]
            }
            _ => [Some((at, step)), newest],
        };
    }

    fn arrived(&mut self, at: Stamp, step: u64, restarted: bool) {
        if restarted {
            self.arrivals = Arrivals::default();
        }
        if restarted || self.first_step.is_none() {
            self.first_step = Some((at, step));
            self.steady_since = Some(at);
        }
        if self.note_gap(at) {
            let made = step.saturating_sub(self.step.unwrap_or(step));
            self.paced_steps = if restarted { 0 } else { self.paced_steps.saturating_add(made) };
        }
        // What was written while nobody looked comes all at once.
        if self.resumed_at.is_some_and(|resumed_at| at.secs_since(resumed_at) < 1.0) {
            self.first_step = Some((at, step));
        }
        // Lines of several steps arrive together: the time of one step is taken over a stretch of at least a second.
        if let Some((then, first)) = self.first_step
            && at.secs_since(then) >= 1.0
            && step > first
        {
            self.first_step = Some((at, step));
            let told_s = self.told.last_s.filter(|_| self.told_step_time);
            let stretch = Stretch { from: then, to: at, steps: step - first, rate: self.throughput, has_loss: self.loss.is_some() };
            if self.arrivals.push(stretch, told_s, self.told.by_bar) {
                self.disbelieve();
            } else if !self.told_step_time {
                self.took_by_arrival(stretch);
            }
        }
    }

    fn took_by_arrival(&mut self, stretch: Stretch) {
        let per_step = stretch.per_step_s();
        self.step_time_s = Some(per_step);
        self.took(stretch.to, per_step, stretch.rate);
        self.step_trend.push(stretch.to, per_step);
        self.watch_pace(stretch.to, stretch.from, stretch.steps);
    }

    /// The time since the line before, if this one came later.
    fn note_gap(&mut self, at: Stamp) -> bool {
        let Some(last) = self.last_step_at.filter(|last| at > *last) else { return false };
        // Lines without a step begin with the first of them.
        self.steady_since.get_or_insert(last);
        // A time in which nobody looked is not known to be a pause of the job.
        let gap = at.secs_since(last.plus(self.unwatched)).max(0.0);
        if gap > self.gaps.median_of_last(8).map_or(3.0, |usual| (usual * 4.0).max(3.0)) {
            self.steady_since = Some(at);
            self.pauses.push(at, gap);
        }
        self.gaps.push(at, gap);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.step.is_none() && self.loss.is_none() && self.epoch.is_none()
    }

    /// When rows of a `metrics.csv` last came, of which the last is the newest step. `None` for rows that were there before.
    pub fn saved_at(&self) -> Option<Stamp> {
        Some(self.saves[0]?.0)
    }

    /// Its steps are those of a `metrics.csv`, which show how far training came and not when.
    pub fn is_by_saves(&self) -> bool {
        self.dialect == metrics::DIALECT
    }

    pub fn phase_said(&mut self, at: Stamp, phase: Phase, begins: bool) {
        if phase == Phase::Serving {
            self.server_ended = !begins && self.phase.is_some_and(|(p, _)| p == phase);
        }
        if begins {
            if self.phase.is_none_or(|(p, _)| p != phase) {
                self.end_phase(at);
                self.phase = Some((phase, at));
            }
        } else if self.phase.is_some_and(|(p, _)| p == phase) {
            self.end_phase(at);
        }
    }

    fn end_phase(&mut self, at: Stamp) {
        if let Some((phase, from)) = self.phase.take()
            && at > from
        {
            if self.phases.len() == MAX_PHASES {
                self.phases.pop_front();
            }
            self.phases.push_back((phase, from, at));
        }
    }

    /// The pause that the log names, and since when.
    pub fn phase(&self) -> Option<(Phase, Stamp)> {
        self.phase
    }

    /// What steps usually take, before they became slower if they did: the median and the 90th percentile, seconds.
    pub fn usual_step_s(&self) -> Option<(f64, f64)> {
        let (median, most) = self.usual_step_s?;
        // Where many of the steps that are known are slow ones already, what was usual before them is told apart.
        Some(self.slow.filter(|slow| slow.before_s < median).map_or((median, most), |slow| (slow.before_s, slow.before_s)))
    }

    /// The usual and the longest pause between two progress lines, seconds.
    pub fn usual_gap_s(&self) -> Option<(f64, f64)> {
        let median = self.gaps.median_of_last(32)?;
        let longest = self.gaps.iter().map(|g| g.1).fold(0.0, f64::max);
        Some((median, longest))
    }

    /// By how many times longer the newest pauses between progress lines are than those before; `None` while too few are known.
    pub fn gaps_grew(&self) -> Option<f64> {
        const NEWEST: usize = 4;
        const BEFORE: usize = 8;
        let mut before: Vec<f64> = self.gaps.iter().rev().skip(NEWEST).map(|(_, gap)| gap).collect();
        before.sort_by(f64::total_cmp);
        let usual = before.get(before.len() / 2).filter(|usual| before.len() >= BEFORE && **usual > 0.0)?;
        Some(self.gaps.median_of_last(NEWEST)? / usual)
    }

    /// How long the log may be silent before that means anything.
    pub fn patience(&self) -> Duration {
        /// Steps of seconds differ by less than short ones, as multiples of themselves.
        fn several(usual_s: f64) -> f64 {
            (usual_s * 4.0).min(usual_s * 1.5 + 10.0)
        }
        // Silence says nothing while the usual pace is not known.
        let Some((median, longest)) = self.pace_s() else { return Duration::from_secs(60) };
        let step = self.step_time_s.unwrap_or(0.0);
        Duration::from_secs_f64(several(median).max(longest * 1.5).max(several(step)).clamp(6.0, 3600.0))
    }

    /// Longer than any rank of this job has waited for another: none waits for longer than it takes from one line to the next.
    pub fn longer_than_waits(&self) -> Duration {
        const MOST_S: f64 = 120.0;
        let Some((_, longest)) = self.pace_s() else { return self.patience().mul_f64(0.75) };
        let step = self.step_time_s.filter(|s| s.is_finite()).unwrap_or(0.0);
        Duration::from_secs_f64((longest.max(step) * 1.25).clamp(0.0, MOST_S))
    }

    /// How long a step takes is known well enough for silence to mean something.
    pub fn is_paced(&self) -> bool {
        self.pace_s().is_some()
    }

    /// The usual and the longest time between two lines, seconds, once there are enough: three, two that are the same, or one of many
    /// steps.
    fn pace_s(&self) -> Option<(f64, f64)> {
        const MANY_STEPS: u64 = 8;
        let same = || {
            let (least, most) = self.gaps.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), (_, gap)| (least.min(gap), most.max(gap)));
            self.gaps.len() == 2 && most <= least * 1.2
        };
        self.usual_gap_s().filter(|_| self.gaps.len() >= 3 || same() || self.paced_steps >= MANY_STEPS)
    }

    /// The silence from which on the log is worth a look: more than this job has shown, be it between two lines, for an evaluation or for
    /// a checkpoint. It accuses nobody. `None` while the usual pace is not known.
    pub fn look_after(&self) -> Option<Duration> {
        /// Lines are read twice a second, and a loader may stumble once.
        const LEAST_S: f64 = 2.0;
        const MOST_S: f64 = 3600.0;
        let (median, longest) = self.usual_gap_s().filter(|_| self.gaps.len() >= 3 && !self.is_by_saves())?;
        let paused = self.pauses.iter().map(|p| p.1).fold(0.0, f64::max);
        let step = self.step_time_s.filter(|s| s.is_finite()).unwrap_or(0.0);
        let most = (median * 3.0).max(longest * 1.5).max(paused * 1.25).max(step * 2.0);
        Some(Duration::from_secs_f64(most.clamp(LEAST_S, MOST_S)))
    }

    /// How much step times differ: the span from the 10th to the 90th percentile of the last 50, as a share of their median. `None`
    /// below 10 of them. Since steps take longer for good, those before are not among them.
    pub fn jitter(&self) -> Option<f64> {
        let of_now = |(at, _): &(Stamp, f64)| self.slow.is_none_or(|slow| *at > slow.since);
        let newest = self.step_times.iter().rev().take(50).take_while(of_now);
        let mut times: Vec<f64> = newest.map(|s| s.1).filter(|t| t.is_finite()).collect();
        times.sort_by(f64::total_cmp);
        let percentile = |p: usize| times.get((times.len().saturating_sub(1) * p + 50) / 100).copied();
        let median = percentile(50).filter(|m| *m > 0.0 && times.len() >= 10)?;
        Some((percentile(90)? - percentile(10)?) / median)
    }

    /// Since how many of the kept step times they have lasted longer, and from what to what, seconds: the one lasting change that
    /// stands out from all others. `None` while steps vary more than they changed.
    pub fn slowdown(&self) -> Option<Slowdown> {
        let times: Vec<f64> = self.step_times.iter().map(|s| s.1).filter(|t| t.is_finite()).collect();
        let sorted = |part: &[f64]| {
            let mut part = part.to_vec();
            part.sort_by(f64::total_cmp);
            part
        };
        let at = |part: &[f64], percent: usize| part[(part.len() - 1) * percent / 100];
        let candidates = (WARM_UP + LEAST_BEFORE..times.len().saturating_sub(LEAST_AFTER)).filter_map(|i| {
            let (before, after) = (sorted(&times[WARM_UP..i]), sorted(&times[i..]));
            // Nine of ten steps before it were faster than nine of ten behind it.
            let apart = at(&after, 10) > at(&before, 90) * SLOWER.value();
            let middle = (at(&before, 50) * at(&after, 50)).sqrt();
            (apart && times[i - 1] < middle && times[i] > middle).then(|| Slowdown {
                steps: times.len() - i,
                before_s: at(&before, 50),
                after_s: at(&after, 50),
            })
        });
        let candidates = candidates.filter(|slow| !self.does_as_much(slow.steps));
        candidates.max_by(|a, b| (a.after_s / a.before_s).total_cmp(&(b.after_s / b.before_s)).then(a.steps.cmp(&b.steps)))
    }

    /// Time left at the current pace.
    pub fn eta(&self) -> Option<Duration> {
        let left = self.total_steps?.checked_sub(self.step?)?;
        let per_step = self.newest_pace_s().or_else(|| self.step_times.median_of_last(50)).or(self.step_time_s)?;
        Duration::try_from_secs_f64(left as f64 * per_step).ok()
    }

    /// What a step takes since all of the newest take much more, or much less, than most of those before.
    fn newest_pace_s(&self) -> Option<f64> {
        const NEWEST: usize = 8;
        const OTHER: f64 = 1.25;
        // Of lines that stand far apart a few tell, where they are of another order.
        const FEW: usize = 3;
        const FAR: f64 = 4.0;
        let usual = self.step_times.median_of_last(50).filter(|_| self.step_times.len() >= 2 * NEWEST)?;
        let newest = |n: usize| self.step_times.iter().rev().take(n).map(|(_, s)| s);
        let is_other = newest(NEWEST).all(|s| s > usual * OTHER) || newest(NEWEST).all(|s| s * OTHER < usual);
        let is_far = || newest(FEW).all(|s| s > usual * FAR);
        let n = is_other.then_some(NEWEST).or_else(|| is_far().then_some(FEW))?;
        self.step_times.median_of_last(n)
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;
    use crate::base::time::Stamp;
    use std::time::Duration;

    /// 1,000 steps are planned, and so many were made of a second each, then so many of `slow_s`.
    fn after(fast: u64, slow: u64, slow_s: f64) -> Option<Duration> {
        let mut progress = Progress { total_steps: Some(1000), step: Some(fast + slow), ..Progress::default() };
        for step in 0..fast + slow {
            progress.step_times.push(Stamp(step as i64 * 1_000_000_000), if step < fast { 1.0 } else { slow_s });
        }
        progress.eta()
    }

    #[test]
    fn the_end_is_reckoned_by_the_pace_of_now() {
        assert_eq!(after(100, 0, 2.0), Some(Duration::from_secs(900)));
        // A few long steps may be a checkpoint.
        assert_eq!(after(100, 7, 2.0), Some(Duration::from_secs(893)));
        assert_eq!(after(100, 8, 2.0), Some(Duration::from_secs(892 * 2)));
        assert_eq!([after(100, 2, 9.0), after(100, 3, 9.0)], [898, 897 * 9].map(|s| Some(Duration::from_secs(s))));
    }
}
