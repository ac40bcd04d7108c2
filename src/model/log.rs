//! Log files, and the lines kept for the screen.

use super::alarms::Position;
use super::bringup::Bringup;
use super::chronicle::{Chronicle, PathRank, rank_of_path};
use super::counting::Counting;
use super::progress::Progress;
use crate::base::time::{Stamp, Zone};
use crate::formats::nccl_tests::{Table, Tables, begins, ends};
use crate::logs::prefilter::Class;
use crate::logs::{Reader, TextEvent, What};
use crate::observe::log::{LogFileInfo, LogFileState};
use std::collections::{BTreeMap, BTreeSet, VecDeque, vec_deque};
use std::sync::Arc;

/// One followed file.
#[derive(Clone, PartialEq)]
pub struct LogFile {
    pub info: LogFileInfo,
    /// The job whose output it is.
    pub job: String,
    /// Processes have been seen that write it.
    pub had_writer: bool,
    /// Several jobs ran, and nobody was seen to write it.
    pub of_one_of_several: bool,
    /// Processes have been seen that write it, and they are of no job.
    pub of_others: bool,
    /// The rank whose output it is, where it is that of one alone.
    pub rank: Option<u32>,
    pub reader: Reader,
    pub progress: Progress,
    /// Lines of no known shape that count something.
    pub counting: Counting,
    /// What it says of NCCL's bring-up in the run that it is of now.
    pub bringup: Bringup,
    pub lines: u64,
    pub dropped_lines: u64,
    pub folded_alarms: u64,
    pub alarms_left_out: u64,
    pub last_line_at: Option<Stamp>,
    /// Since when nothing has the path, or it cannot be read.
    pub gone_at: Option<Stamp>,
    /// The last line kept was one that the next overwrites.
    pub transient: bool,
    /// When a program that a rank ran last wrote here how it ended.
    pub ran_others_at: Option<Stamp>,
    /// pid of NCCL lines to rank, learnt from init lines of the largest communicators: in smaller ones ranks have other numbers.
    pub rank_of_pid: BTreeMap<u32, u32>,
    /// Ranks in the communicators that [`LogFile::rank_of_pid`] was learnt from.
    pub ranks_by_init: u32,
    /// Ids of the communicators that its lines tell of.
    pub comms: BTreeSet<u64>,
    /// When its lines were written, and how it went on after a failure.
    pub chronicle: Chronicle,
    /// A table of nccl-tests that has begun in it.
    pub table: Option<Tables>,
    /// The rank whose output it is, by the place where launchers put each one's.
    pub path_rank: Option<PathRank>,
    /// The newest call that timed out in it, of those that name no process group: its number, what it is, and the ranks that said so.
    pub timed_out: Option<(u64, String, BTreeSet<u32>)>,
}

impl LogFile {
    pub fn new(info: LogFileInfo) -> Self {
        LogFile {
            path_rank: rank_of_path(&info.path),
            timed_out: None,
            info,
            job: String::new(),
            had_writer: false,
            of_one_of_several: false,
            of_others: false,
            rank: None,
            reader: Reader::default(),
            progress: Progress::default(),
            counting: Counting::default(),
            bringup: Bringup::default(),
            lines: 0,
            dropped_lines: 0,
            folded_alarms: 0,
            alarms_left_out: 0,
            last_line_at: None,
            gone_at: None,
            transient: false,
            ran_others_at: None,
            rank_of_pid: BTreeMap::new(),
            ranks_by_init: 0,
            comms: BTreeSet::new(),
            chronicle: Chronicle::default(),
            table: None,
        }
    }

    /// A log in which another rank or a launcher speaks is not that of one rank, whatever its path says: `rank0` may be a node.
    pub fn doubt_path(&mut self, event: &TextEvent) {
        let is_other = |rank: u32| self.path_rank.is_some_and(|own| matches!(own, PathRank::Global(own) if own != rank));
        let of_launcher = matches!(event.what, What::WorkerFailure(_) | What::WorkerFailed { .. } | What::Terminating { .. });
        // One process may wait in calls of two groups that have one number; of three nobody has seen that.
        const MANY: usize = 3;
        let mut are_many = false;
        if let What::CollectiveTimeout(t) = &event.what
            && let (None, None, Some(seq), Some(op), Some(rank)) = (&t.group, &t.guid, t.seq, &t.op, t.pg_rank)
        {
            let call = self.timed_out.get_or_insert_with(|| (seq, op.clone(), BTreeSet::new()));
            if (call.0, &call.1) != (seq, op) {
                *call = (seq, op.clone(), BTreeSet::new());
            }
            if call.2.len() < MANY {
                call.2.insert(rank);
            }
            are_many = call.2.len() >= MANY;
        }
        if of_launcher || are_many || event.origin.rank.is_some_and(is_other) {
            self.path_rank = None;
        }
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.info.path.rsplit('/').next().unwrap_or(&self.info.path)
    }

    /// Reads a line that may be of a table of nccl-tests; tables that end with it come back.
    pub fn read_table(&mut self, line: &str, no: Option<u64>) -> Vec<Table> {
        if self.table.is_none() && !begins(line.as_bytes()) {
            return Vec::new();
        }
        let table = self.table.get_or_insert_default();
        table.line(line, no.unwrap_or(0));
        if !ends(line) {
            return Vec::new();
        }
        let finished = table.take_finished();
        self.table = None;
        finished
    }

    /// Whether what failed in one of its runs is of the present. Of an archived log, a run of which nothing bad is known does not make
    /// the one before it the past.
    pub fn is_present(&self, run: u32) -> bool {
        run == if self.info.archived { self.chronicle.last_failed_run } else { self.chronicle.run }
    }

    /// How far training has come by its lines.
    pub fn position(&self) -> Position {
        Position {
            step: self.progress.step,
            total_steps: self.progress.total_steps,
            epoch: self.progress.epoch,
            has_trained: !self.progress.is_empty(),
            was_done: self.progress.done_at.is_some(),
            began: self.chronicle.run_began,
        }
    }

    /// When it was last changed; `now` where that is not known.
    pub fn modified(&self, now: Stamp) -> Stamp {
        self.info.modified_ns.map_or(now, Stamp)
    }

    pub fn is_readable(&self) -> bool {
        !matches!(self.info.state, LogFileState::Gone | LogFileState::Failed)
    }
}

/// A line as the screen shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    pub at: Stamp,
    pub file: u32,
    pub no: Option<u64>,
    pub rank: Option<u32>,
    pub class: Class,
    /// It stood in the file before anybody watched: when it came is not known.
    pub backlog: bool,
    /// Cleaned: safe to print. Shared by the sessions that are kept of earlier moments.
    pub text: Arc<str>,
}

impl Kept {
    /// When the line came: `10:04:09`, or `earlier`.
    pub fn came(&self, zone: Zone) -> String {
        if self.backlog { "earlier ".to_owned() } else { zone.hms(self.at) }
    }
}

/// The newest lines of all files, in the order in which they came. Noise, known lines, and WARN and worse have a ring each, bounded
/// by count and bytes: none pushes out what is worth more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logbook {
    rings: [Ring; 3],
    /// Lines are counted from 0 and keep their number.
    next: u64,
    /// Lines so far that are WARN or worse.
    alarms: u64,
}

/// The newest lines of one class, with their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Ring {
    lines: VecDeque<(u64, Kept)>,
    bytes: usize,
}

impl Ring {
    fn push(&mut self, number: u64, line: Kept, (most_lines, most_bytes): (usize, usize)) {
        self.bytes += line.text.len();
        self.lines.push_back((number, line));
        while self.lines.len() > most_lines || self.bytes > most_bytes {
            let Some((_, old)) = self.lines.pop_front() else { return };
            self.bytes -= old.text.len();
        }
    }

    fn pop(&mut self) {
        if let Some((_, line)) = self.lines.pop_back() {
            self.bytes -= line.text.len();
        }
    }

    /// The place of the first line that has this number or a later one.
    fn place(&self, number: u64) -> usize {
        self.lines.partition_point(|(n, _)| *n < number)
    }
}

fn ring_of(class: Class) -> usize {
    match class {
        Class::Noise => 0,
        Class::Fact => 1,
        Class::Alarm => 2,
    }
}

impl Logbook {
    /// Lines and bytes that are kept of noise, of known lines, and of WARN and worse.
    const MOST: [(usize, usize); 3] = [(2500, 1 << 19), (5000, 1 << 20), (2500, 1 << 19)];
    const MAX_LINE: usize = 1000;

    pub fn push(&mut self, mut line: Kept, replaces_last: bool) {
        if line.text.len() > Self::MAX_LINE {
            line.text = crate::base::clean::clip(&line.text, Self::MAX_LINE).into();
        }
        let last =
            self.next.checked_sub(1).and_then(|last| self.rings.iter_mut().find(|r| r.lines.back().is_some_and(|(n, _)| *n == last)));
        if let Some(ring) = last.filter(|ring| replaces_last && ring.lines.back().is_some_and(|(_, l)| l.file == line.file)) {
            ring.pop();
            self.next -= 1;
        }
        self.alarms += u64::from(line.class == Class::Alarm);
        let ring = ring_of(line.class);
        self.rings[ring].push(self.next, line, Self::MOST[ring]);
        self.next += 1;
    }

    /// Lines with their numbers, oldest first.
    pub fn numbered(&self) -> Merged<'_> {
        self.range(0, u64::MAX)
    }

    /// Lines from number `at` on, and those before it, both outwards from there.
    pub fn around(&self, at: u64) -> (impl Iterator<Item = (u64, &Kept)>, impl Iterator<Item = (u64, &Kept)>) {
        (self.range(at, u64::MAX), self.range(0, at).rev())
    }

    fn range(&self, from: u64, to: u64) -> Merged<'_> {
        Merged { rings: self.rings.each_ref().map(|ring| ring.lines.range(ring.place(from)..ring.place(to))) }
    }

    pub fn get(&self, number: u64) -> Option<&Kept> {
        self.range(number, number.checked_add(1)?).next().map(|(_, line)| line)
    }

    /// The number that the next line will have.
    pub fn end(&self) -> u64 {
        self.next
    }

    /// Kept lines that are WARN or worse, the newest first.
    pub fn newest_alarms(&self) -> impl Iterator<Item = &Kept> {
        self.rings[ring_of(Class::Alarm)].lines.iter().rev().map(|(_, line)| line)
    }

    /// The kept line of a file that is WARN or worse and has this number in it, with its own.
    pub fn alarm_of(&self, file: u32, no: u64) -> Option<(u64, &Kept)> {
        let mut newest = self.rings[ring_of(Class::Alarm)].lines.iter().rev();
        newest.find(|(_, line)| line.file == file && line.no == Some(no)).map(|(number, line)| (*number, line))
    }

    /// How many lines so far were WARN or worse, kept or not.
    pub fn alarms(&self) -> u64 {
        self.alarms
    }

    /// Memory, the texts included although other sessions may share them.
    pub fn bytes(&self) -> usize {
        self.rings.iter().map(|ring| ring.bytes + ring.lines.len() * size_of::<(u64, Kept)>()).sum()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Kept> {
        self.numbered().map(|(_, line)| line)
    }
}

/// Lines of all rings, by their numbers.
pub struct Merged<'a> {
    rings: [vec_deque::Iter<'a, (u64, Kept)>; 3],
}

impl<'a> Iterator for Merged<'a> {
    type Item = (u64, &'a Kept);

    fn next(&mut self) -> Option<Self::Item> {
        let first = |ring: &&mut vec_deque::Iter<'a, (u64, Kept)>| (**ring).clone().next().map_or(u64::MAX, |(n, _)| *n);
        self.rings.iter_mut().min_by_key(first)?.next().map(|(n, line)| (*n, line))
    }
}

impl DoubleEndedIterator for Merged<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let last = |ring: &&mut vec_deque::Iter<'_, (u64, Kept)>| (**ring).clone().next_back().map(|(n, _)| *n);
        self.rings.iter_mut().max_by_key(last)?.next_back().map(|(n, line)| (*n, line))
    }
}
