//! What dumps prove, and the sentences for it.

use super::compare::Court;
use super::{Entry, Frame, Op, State, op};
use crate::base::severity::Confidence;
use crate::base::time::span;
use crate::base::units::all_of;
use crate::base::words::rank_words;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct FlightFinding {
    pub kind: FlightKind,
    pub confidence: Confidence,
    /// The name of the process group.
    pub group: String,
    /// Other groups in which the same ranks are missed.
    pub also: Vec<String>,
    /// Who is to blame. Empty where nobody can be.
    pub ranks: Vec<u32>,
    /// Who waits for them.
    pub waiting: Vec<u32>,
    /// Members of the group of which there is no dump.
    pub no_dump: Vec<u32>,
    /// When the first of those who wait called what they wait in.
    pub since_ns: Option<u64>,
    /// ` of group tp`, where there is more than one.
    pub(super) of: String,
}

#[derive(Clone, Debug)]
pub enum FlightKind {
    /// Ranks called different things as one collective. The side with the most ranks first.
    Mismatch { seq: u64, sides: Vec<Side> },
    /// Ranks use groups in different order, and wait for each other.
    OrderAcrossGroups { sides: Vec<OrderSide> },
    /// Ranks have a dump, wait nowhere else, and never called it.
    Absent {
        seq: u64,
        /// Of one that waits.
        call: Option<Seen>,
        /// The least and the most that those who wait have enqueued.
        others: Option<(u64, u64)>,
        /// Of the first 16 of the absent.
        last: Vec<Late>,
    },
    /// All that have left a dump have called it: it is the others who are missed.
    NoDump { seq: u64, call: Option<Seen> },
    /// A send without its receive, or a receive without its send. Global ranks.
    PeerToPeer {
        from: u32,
        to: u32,
        call: Seen,
        last: Option<Late>,
        /// Both have called, with different numbers of elements.
        sizes_differ: bool,
    },
    /// Everybody has called it, nobody has completed it.
    AllJoined { seq: u64, call: Option<Seen> },
}

/// Ranks that called the same.
#[derive(Clone, Debug)]
pub struct Side {
    pub ranks: Vec<u32>,
    pub call: Seen,
    /// Output and input have sizes that belong together.
    pub fits: bool,
}

#[derive(Clone, Debug)]
pub struct OrderSide {
    pub group: String,
    pub seq: Option<u64>,
    /// Those whom this holds up before they come to what the others wait in.
    pub ranks: Vec<u32>,
    pub call: Option<Seen>,
    /// Of a send or receive: from, to. Global ranks.
    pub transfer: Option<(u32, u32)>,
    pub(super) of: String,
}

/// A call of one rank.
#[derive(Clone, Debug)]
pub struct Seen {
    pub entry: Box<Entry>,
    /// How much older it is than the newest time in any dump.
    pub age: Option<Duration>,
}

/// Where a rank stands that others miss.
#[derive(Clone, Debug)]
pub struct Late {
    pub rank: u32,
    /// The last collective of the group that it called.
    pub enqueued: Option<u64>,
    /// Its last call, in any group.
    pub last: Option<Seen>,
}

impl Seen {
    pub fn op(&self) -> Op {
        Op::of(&self.entry.name)
    }

    /// `train.py:57 in step`
    pub fn place(&self) -> Option<String> {
        let frame = self.entry.own_frame()?;
        let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
        Some(format!("{file}:{} in {}", frame.line, frame.name))
    }

    /// `AllReduce of 16781312 BFloat16`, `AllGather of 4 to 32 Float`
    fn what(&self) -> String {
        let entry = &self.entry;
        let (sizes, dtypes) = if entry.input_sizes.is_empty() {
            (&entry.output_sizes, &entry.output_dtypes)
        } else {
            (&entry.input_sizes, &entry.input_dtypes)
        };
        let op = self.op();
        if sizes.is_empty() {
            return op.as_str().to_string();
        }
        let elements = op::elements(sizes).iter().fold(0u64, |all, n| all.saturating_add(*n));
        let dtype = dtypes.first().map_or(String::new(), |name| format!(" {name}"));
        let output = match op {
            Op::AllGather | Op::ReduceScatter => {
                let to = op::elements(&entry.output_sizes).iter().fold(0u64, |all, n| all.saturating_add(*n));
                format!(" to {to}")
            }
            _ => String::new(),
        };
        format!("{} of {elements}{output}{dtype}", op.as_str())
    }
}

impl Entry {
    /// The innermost frame that is not torch's own.
    pub fn own_frame(&self) -> Option<&Frame> {
        let own = |frame: &&std::sync::Arc<Frame>| !frame.file.contains("/torch/") && !frame.file.starts_with('<');
        self.frames.iter().find(own).or(self.frames.first()).map(|frame| frame.as_ref())
    }
}

impl FlightKind {
    /// Ranks wait for each other in nothing but sends and receives.
    pub fn is_order_of_sends(&self) -> bool {
        matches!(self, FlightKind::OrderAcrossGroups { sides } if sides.iter().all(|side| side.transfer.is_some()))
    }

    pub(super) fn order(&self) -> u8 {
        match self {
            FlightKind::Mismatch { .. } => 0,
            FlightKind::OrderAcrossGroups { .. } => 1,
            FlightKind::Absent { .. } => 2,
            FlightKind::NoDump { .. } => 3,
            FlightKind::PeerToPeer { .. } => 4,
            FlightKind::AllJoined { .. } => 5,
        }
    }
}

impl FlightFinding {
    pub(super) fn of(court: &Court, team: usize, kind: FlightKind) -> FlightFinding {
        FlightFinding {
            kind,
            confidence: Confidence::Possible,
            group: court.teams[team].name.clone(),
            also: Vec::new(),
            ranks: Vec::new(),
            waiting: Vec::new(),
            no_dump: court.without_dump(team),
            since_ns: None,
            of: court.of_group(team),
        }
    }

    /// What is wrong, in a sentence.
    pub fn summary(&self) -> String {
        let who = rank_words(&self.ranks);
        let waits = match self.waiting.len() {
            0 => String::new(),
            1 => format!("; rank {} waits", self.waiting[0]),
            n => format!("; {n} ranks wait"),
        };
        let of = &self.of;
        match &self.kind {
            FlightKind::Absent { seq, call, .. } => format!("{who} did not join {} {seq}{of}{waits}", op_word(call)),
            FlightKind::NoDump { seq, call } => {
                format!("{who} left no dump; {} in {} {seq}{of}", waits_words(&self.waiting), op_word(call))
            }
            FlightKind::Mismatch { seq, sides } if self.ranks.is_empty() => {
                let mut words = Vec::new();
                for (i, side) in sides.iter().take(3).enumerate() {
                    let (called, seq) = if i == 0 { (" called", format!(" as collective {seq}{of}")) } else { ("", String::new()) };
                    words.push(format!("{}{called} {}{seq}", rank_words(&side.ranks), side.call.what()));
                }
                words.join(", ")
            }
            FlightKind::Mismatch { seq, sides } => {
                let theirs: Vec<&Side> = sides.iter().filter(|side| side.ranks.iter().any(|rank| self.ranks.contains(rank))).collect();
                let majority = sides.iter().find(|side| !side.ranks.iter().any(|rank| self.ranks.contains(rank)));
                let others = majority.map_or(String::new(), |side| {
                    let who = if side.ranks.len() == 1 { rank_words(&side.ranks) } else { "the others".into() };
                    format!(", {who} {}", side.call.what())
                });
                match theirs.as_slice() {
                    [one] => format!("{who} called {} as collective {seq}{of}{others}", one.call.what()),
                    _ => format!("{who} called something else as collective {seq}{of}{others}"),
                }
            }
            FlightKind::OrderAcrossGroups { sides } if self.kind.is_order_of_sends() => {
                let ways: Vec<String> = sides.iter().filter_map(OrderSide::way).take(8).collect();
                format!("{} wait for each other: {}", rank_words(&self.waiting), ways.join(", "))
            }
            FlightKind::OrderAcrossGroups { sides } => {
                let sides: Vec<String> = sides.iter().map(|s| format!("{} in {}", waits_words(&s.ranks), s.what())).collect();
                format!("a deadlock by order: {}", sides.join(", "))
            }
            FlightKind::PeerToPeer { from, to, sizes_differ: true, .. } => {
                format!("rank {from} sends something else than rank {to} receives{of}")
            }
            FlightKind::PeerToPeer { from, to, .. } if self.ranks.is_empty() => {
                format!("rank {from} sends, rank {to} receives{of}, and it does not end")
            }
            FlightKind::PeerToPeer { from, to, call, .. } => {
                let silent = self.ranks.iter().any(|rank| self.no_dump.contains(rank));
                match (call.op(), silent) {
                    (Op::Send, true) => format!("rank {from} sends to rank {to}{of}, which left no dump"),
                    (Op::Send, false) => format!("rank {from} sends to rank {to}{of}, which does not receive"),
                    (_, true) => format!("rank {to} waits for a send of rank {from}{of}, which left no dump"),
                    (_, false) => format!("rank {to} waits for a send of rank {from}{of}, which does not send"),
                }
            }
            FlightKind::AllJoined { seq, call } => {
                format!("{} joined {} {seq}{of}, and it does not end", all_of(self.waiting.len(), "rank"), op_word(call))
            }
        }
    }

    /// The figures that go with it.
    pub fn why(&self) -> String {
        let mut parts = Vec::new();
        match &self.kind {
            FlightKind::Absent { call, others, last, .. } => {
                parts.push(enqueued_words(&self.ranks, last, *others));
                parts.extend(call.as_ref().map(|call| format!("the others wait in {}", seen_words(call))));
                parts.extend(last.first().and_then(last_words));
                if self.ranks.len() > self.waiting.len() {
                    let few = rank_words(&self.waiting);
                    parts.push(format!("most ranks have not called it: it may be {few} that made a call too many"));
                }
            }
            FlightKind::NoDump { call, .. } => {
                parts.push("all that left a dump have called it and none has completed it".into());
                parts.push(match self.ranks.as_slice() {
                    [one] => format!("rank {one} is dead or stopped, or its dump is elsewhere"),
                    _ => "the others are dead or stopped, or their dumps are elsewhere".into(),
                });
                parts.extend(call.as_ref().map(seen_words));
            }
            FlightKind::Mismatch { sides, .. } => {
                for side in sides.iter().take(4) {
                    let wrong = if side.fits { "" } else { ", whose sizes cannot be right" };
                    parts.push(format!("{}: {}{wrong}", rank_words(&side.ranks), seen_words(&side.call)));
                }
                if self.ranks.is_empty() {
                    parts.push("no side has a majority: nobody can be blamed".into());
                } else {
                    parts.push("what came later is shifted by it".into());
                }
            }
            FlightKind::OrderAcrossGroups { sides } => {
                parts.push("each side has called first what the other calls later: no single rank is to blame".into());
                parts.extend(sides.iter().filter_map(|side| Some(format!("{} at {}", side.what(), side.call.as_ref()?.place()?))));
            }
            FlightKind::PeerToPeer { call, last, .. } => {
                parts.push(seen_words(call));
                parts.extend(last.as_ref().and_then(last_words));
            }
            FlightKind::AllJoined { call, .. } => {
                parts.push(
                    "every rank has called it and none has completed it: the network or a GPU, not one rank, unless the job still ran"
                        .into(),
                );
                parts.extend(call.as_ref().map(seen_words));
            }
        }
        if !self.also.is_empty() {
            let more = if self.also.len() > 4 { ", …" } else { "" };
            let names: Vec<&str> = self.also.iter().take(4).map(String::as_str).collect();
            parts.push(format!("also in group {}{more}", names.join(", ")));
        }
        if !self.no_dump.is_empty() && !matches!(self.kind, FlightKind::NoDump { .. }) {
            parts.push(format!("no dump of {}", rank_words(&self.no_dump)));
        }
        parts.join(" · ")
    }
}

impl OrderSide {
    /// `rank 0 sends to rank 1 at train.py:57 in step`
    fn way(&self) -> Option<String> {
        let (from, to) = self.transfer?;
        let call = self.call.as_ref()?;
        let place = call.place().map_or(String::new(), |place| format!(" at {place}"));
        Some(match call.op() {
            Op::Recv => format!("rank {to} receives from rank {from}{place}"),
            _ => format!("rank {from} sends to rank {to}{place}"),
        })
    }

    /// `AllReduce 2 of group 1`
    fn what(&self) -> String {
        let seq = self.seq.map_or(String::new(), |seq| format!(" {seq}"));
        format!("{}{seq}{}", op_word(&self.call), self.of)
    }
}

fn op_word(call: &Option<Seen>) -> String {
    match call {
        Some(call) => match call.op() {
            Op::Send | Op::Recv => call.entry.name.rsplit(':').next().unwrap_or("").to_string(),
            op => op.as_str().to_string(),
        },
        None => "collective".into(),
    }
}

/// `rank 3 waits`, `ranks 3 and 5 wait`
fn waits_words(ranks: &[u32]) -> String {
    match ranks {
        [one] => format!("rank {one} waits"),
        [_, ..] if ranks.len() > 4 => format!("{} ranks wait", ranks.len()),
        _ => format!("{} wait", rank_words(ranks)),
    }
}

/// `rank 3 last enqueued 235, the others 247`
fn enqueued_words(ranks: &[u32], last: &[Late], others: Option<(u64, u64)>) -> String {
    let all: Vec<Option<u64>> = last.iter().map(|late| late.enqueued).collect();
    let word = |seq: Option<u64>| seq.map_or("nothing".into(), |seq| seq.to_string());
    let (least, most) = (all.iter().min().copied().flatten(), all.iter().max().copied().flatten());
    let theirs = if least == most { word(least) } else { format!("{} to {}", word(least), word(most)) };
    let others = match others {
        Some((least, most)) if least == most => format!(", the others {most}"),
        Some((least, most)) => format!(", the others {least} to {most}"),
        None => String::new(),
    };
    format!("{} last enqueued {theirs}{others}", rank_words(ranks))
}

/// `AllReduce of 7 BFloat16 at train.py:57 in step`
fn seen_words(call: &Seen) -> String {
    let place = call.place().map_or(String::new(), |place| format!(" at {place}"));
    format!("{}{place}", call.what())
}

fn last_words(late: &Late) -> Option<String> {
    let last = late.last.as_ref()?;
    let state = match last.entry.state {
        Some(State::Completed) => ", completed",
        Some(State::Started) => ", in its kernel",
        Some(State::Scheduled) | None => "",
    };
    let age =
        last.age.filter(|age| age.as_millis() >= 1000).map_or(String::new(), |age| format!(", {} before the newest record", span(age)));
    Some(format!("last call of rank {}: {}{state}{age}", late.rank, seen_words(last)))
}
