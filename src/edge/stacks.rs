//! `py-spy dump`: where the main thread of a process is, and which processes are at the same place.

use crate::base::words::rank_words;
use std::collections::BTreeMap;

/// A call on a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// `all_reduce`
    pub function: String,
    /// As py-spy shortens it: `torch/distributed/distributed_c10d.py`.
    pub file: String,
    pub line: Option<u32>,
}

/// More calls than this are not compared: what leads to them is the same.
const MAX_FRAMES: usize = 64;
/// Calls of a group that are shown.
const SHOWN_FRAMES: usize = 8;

/// The calls of the main thread, innermost first; `None` where py-spy printed no stack. `lines` are what it printed.
pub fn main_thread(lines: &[String]) -> Option<Vec<Frame>> {
    let heads = || lines.iter().enumerate().filter(|(_, line)| line.starts_with("Thread "));
    let (at, _) = heads().find(|(_, line)| line.contains("\"MainThread\"")).or_else(|| heads().next())?;
    let frames: Vec<Frame> = lines[at + 1..].iter().map_while(|line| frame(line)).take(MAX_FRAMES).collect();
    (!frames.is_empty()).then_some(frames)
}

/// `    all_reduce (torch/distributed/distributed_c10d.py:2501)`
fn frame(line: &str) -> Option<Frame> {
    let text = line.strip_prefix("    ")?.trim();
    let (function, place) = text.strip_suffix(')')?.rsplit_once(" (")?;
    let (file, number) = match place.rsplit_once(':') {
        Some((file, number)) => (file, number.parse().ok()),
        None => (place, None),
    };
    Some(Frame { function: function.to_owned(), file: file.to_owned(), line: number })
}

impl Frame {
    fn key(&self) -> (&str, &str) {
        (&self.function, &self.file)
    }

    fn words(&self) -> String {
        let line = self.line.map_or(String::new(), |line| format!(":{line}"));
        format!("{} ({}{line})", self.function, self.file)
    }

    /// Calls of `torch.distributed`: whoever is in one probably waits for the others.
    fn is_of_collectives(&self) -> bool {
        self.file.contains("torch/distributed/") || self.file.contains("distributed_c10d")
    }
}

/// Whose stack it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whose {
    pub rank: Option<u32>,
    pub pid: u32,
    /// A child that loads data for the rank.
    pub loads: bool,
}

/// What py-spy printed of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub whose: Whose,
    pub lines: Vec<String>,
}

/// Processes whose main threads are at the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub whose: Vec<Whose>,
    /// Innermost first. A line number stands where all agree on it.
    pub frames: Vec<Frame>,
}

/// The stacks of one moment, compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Of ranks, the odd ones first.
    pub ranks: Vec<Group>,
    /// Of their loaders.
    pub loaders: Vec<Group>,
    /// Those without a stack, and the last line that py-spy printed of them.
    pub unread: Vec<(Whose, String)>,
}

impl Compared {
    pub fn of(taken: &[Taken]) -> Compared {
        let mut unread = Vec::new();
        let mut read: [Vec<(&Whose, Vec<Frame>)>; 2] = Default::default();
        for one in taken {
            match main_thread(&one.lines) {
                Some(frames) => read[usize::from(one.whose.loads)].push((&one.whose, frames)),
                None => unread.push((one.whose.clone(), one.lines.last().cloned().unwrap_or_else(|| "py-spy printed nothing".into()))),
            }
        }
        let [ranks, loaders] = read.map(groups);
        Compared { ranks, loaders, unread }
    }

    /// The ranks that are not where most are. Where no group is the greatest, those outside of collectives while others are in one; else
    /// nobody.
    pub fn odd(&self) -> Vec<u32> {
        let Some((most, others)) = self.ranks.split_last() else { return Vec::new() };
        let clear = others.last().is_some_and(|next| next.whose.len() < most.whose.len());
        let waits = |group: &Group| group.frames.iter().any(Frame::is_of_collectives);
        let is_odd = |group: &&Group| clear || waits(most) && !waits(group);
        others.iter().filter(is_odd).flat_map(|group| group.whose.iter().filter_map(|whose| whose.rank)).collect()
    }

    /// For people: who is where, the odd ones first.
    pub fn lines(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.ranks.iter().for_each(|group| group.put(&mut out));
        if !self.loaders.is_empty() {
            out.push("data loaders:".into());
            self.loaders.iter().for_each(|group| group.put(&mut out));
        }
        out.extend(self.unread.iter().map(|(whose, why)| format!("{}: no stack: {why}", who(std::slice::from_ref(whose)))));
        out
    }

    /// One line: `rank 2: in sleep (train.py:57) / ranks 0, 1 and 3: in all_reduce (…)`.
    pub fn short(&self) -> String {
        let heads: Vec<String> = self.ranks.iter().map(Group::head).collect();
        if heads.is_empty() { "no stack of a rank could be read".into() } else { heads.join(" / ") }
    }
}

fn groups(read: Vec<(&Whose, Vec<Frame>)>) -> Vec<Group> {
    let mut by_place: BTreeMap<Vec<(String, String)>, Group> = BTreeMap::new();
    for (whose, frames) in read {
        let place = frames.iter().map(|f| (f.key().0.to_owned(), f.key().1.to_owned())).collect();
        match by_place.get_mut(&place) {
            None => drop(by_place.insert(place, Group { whose: vec![whose.clone()], frames })),
            Some(group) => {
                group.whose.push(whose.clone());
                for (kept, other) in group.frames.iter_mut().zip(&frames).filter(|(kept, other)| kept.line != other.line) {
                    debug_assert_eq!(kept.key(), other.key());
                    kept.line = None;
                }
            }
        }
    }
    let mut groups: Vec<Group> = by_place.into_values().collect();
    // Few before many; where they are as many, those outside of collectives.
    let waits = |group: &Group| group.frames.iter().any(Frame::is_of_collectives);
    groups.sort_by_key(|group| (group.whose.len(), waits(group), group.whose.iter().map(|w| (w.rank, w.pid)).min()));
    groups
}

impl Group {
    fn head(&self) -> String {
        format!("{}: in {}", who(&self.whose), self.frames.first().map_or_else(String::new, Frame::words))
    }

    fn put(&self, out: &mut Vec<String>) {
        out.push(self.head());
        let more = self.frames.len().saturating_sub(SHOWN_FRAMES + 1);
        out.extend(self.frames.iter().skip(1).take(SHOWN_FRAMES).map(|frame| format!("    {}", frame.words())));
        if more > 0 {
            out.push(format!("    … {more} more"));
        }
    }
}

/// `rank 2 (pid 4711)`, `ranks 0, 1 and 3`, `3 loaders of ranks 0 and 1`, `pid 4711`.
fn who(whose: &[Whose]) -> String {
    let mut ranks: Vec<u32> = whose.iter().filter_map(|w| w.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    match whose {
        [one] => match (one.rank, one.loads) {
            (Some(rank), false) => format!("rank {rank} (pid {})", one.pid),
            (Some(rank), true) => format!("loader of rank {rank} (pid {})", one.pid),
            (None, _) => format!("pid {}", one.pid),
        },
        [first, ..] if first.loads => format!("{} loaders of {}", whose.len(), rank_words(&ranks)),
        _ if ranks.len() == whose.len() => rank_words(&ranks),
        _ => format!("pids {}", whose.iter().map(|w| w.pid.to_string()).collect::<Vec<_>>().join(", ")),
    }
}

/// What several rounds say together: who was odd most often. An observation: whoever is late for a moment is odd, too.
pub fn most_often_odd(rounds: &[Compared]) -> Option<String> {
    let mut times = BTreeMap::<u32, usize>::new();
    rounds.iter().flat_map(Compared::odd).for_each(|rank| *times.entry(rank).or_default() += 1);
    let most = *times.values().max()?;
    let ranks: Vec<u32> = times.iter().filter(|(_, n)| **n == most).map(|(rank, _)| *rank).collect();
    let verb = if ranks.len() == 1 { "was" } else { "were" };
    Some(format!("{} {verb} elsewhere than the others in {most} of {} rounds", rank_words(&ranks), rounds.len()))
}
