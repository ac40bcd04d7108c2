//! What a GPU did, second by second, so that ranks can be seen beside each other.

use crate::base::time::Stamp;
use std::collections::VecDeque;
use std::time::Duration;

/// What a GPU did in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doing {
    Idle,
    /// A kernel is resident that neither computes nor moves bytes.
    Waiting,
    /// Bytes move over its links, and next to nothing is computed.
    Communicating,
    Working,
    Lost,
}

const KINDS: [Doing; 5] = [Doing::Idle, Doing::Waiting, Doing::Communicating, Doing::Working, Doing::Lost];

/// The newest [`Deeds::MOST`] seconds, a byte each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deeds {
    /// Seconds since the Unix epoch of the oldest that is kept.
    first: i64,
    /// `None`: nothing was sampled, or a sample did not show it.
    seconds: VecDeque<Option<Doing>>,
}

const NS_PER_S: i64 = 1_000_000_000;

fn second_of(at: Stamp) -> i64 {
    at.0.div_euclid(NS_PER_S)
}

impl Deeds {
    /// As many as [`super::series::Trend`] keeps.
    pub const MOST: usize = 900;

    /// What was seen at a moment stands for its second; of several the last one.
    pub fn push(&mut self, at: Stamp, doing: Option<Doing>) {
        let second = second_of(at);
        let after = second.saturating_sub(self.first).saturating_sub(self.seconds.len() as i64);
        if self.seconds.is_empty() || after >= Self::MOST as i64 {
            self.first = second;
            self.seconds.clear();
        }
        let Ok(place) = usize::try_from(second - self.first) else { return };
        while self.seconds.len() <= place {
            self.seconds.push_back(None);
        }
        self.seconds[place] = doing;
        while self.seconds.len() > Self::MOST {
            self.seconds.pop_front();
            self.first += 1;
        }
    }

    /// What was seen in a second, counted from the Unix epoch.
    fn at(&self, second: i64) -> Option<Doing> {
        *self.seconds.get(usize::try_from(second.checked_sub(self.first)?).ok()?)?
    }

    /// Seconds that are kept.
    pub fn len(&self) -> usize {
        self.seconds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }

    /// What it did for most of each of `n` spans of `step` from `from` on, by the seconds that each has a part in; of equals the later one.
    /// `None` where nothing was sampled: what was seen last stands for `hold`.
    pub fn columns(&self, from: Stamp, step: Duration, n: usize, hold: Duration) -> Vec<Option<Doing>> {
        let (start, hold) = (second_of(from), hold.as_secs().min(600) as i64);
        let step = (step.as_nanos() as i64).max(1);
        let mut held = (1..=hold).find_map(|back| Some((start - back, self.at(start - back)?)));
        let column = |i: usize| {
            let begins = from.0.saturating_add(step.saturating_mul(i as i64));
            let (begins, ends) = (begins.div_euclid(NS_PER_S), (begins.saturating_add(step - 1)).div_euclid(NS_PER_S));
            let mut times = [0; KINDS.len()];
            let mut last = None;
            for (second, doing) in (begins..=ends).filter_map(|second| Some((second, self.at(second)?))) {
                times[doing as usize] += 1;
                last = Some((second, doing));
            }
            let most = times.iter().max().copied().unwrap_or(0);
            let is_last = |doing: Doing| last.is_some_and(|(_, l)| l == doing);
            let found = KINDS.into_iter().filter(|d| most > 0 && times[*d as usize] == most).max_by_key(|d| is_last(*d));
            held = last.or(held);
            found.or(held.filter(|(second, _)| begins - second <= hold).map(|(_, doing)| doing))
        };
        (0..n).map(column).collect()
    }
}
