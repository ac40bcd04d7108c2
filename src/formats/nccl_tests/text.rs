//! The tables as nccl-tests prints them. Rows are printed in several writes, so lines of NCCL may stand inside them.

use super::{OutOfBounds, Row, Side, Table};
use crate::logs::prefix;
use memchr::memmem;

const MAX_TABLES: usize = 1024;
/// No line of nccl-tests is longer, devices included.
const MAX_LINE: usize = 4096;
/// Words of a row: 5, twice 8, a date and a time.
const MAX_WORDS: usize = 24;

/// Reads tables out of the lines of a log, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tables {
    done: Vec<Table>,
    left_out: u64,
    open: Option<Table>,
    /// A row of which the left part is printed, and maybe one side.
    row: Option<Row>,
    /// Each side has four more columns (`-I`).
    wide: bool,
    /// Group of the first rank listed: ranks of another group run another test.
    group: Option<u32>,
}

impl Tables {
    /// `no` counts from 1. Cheap for a line that belongs to no table.
    pub fn line(&mut self, line: &str, no: u64) {
        if line.len() > MAX_LINE {
            return;
        }
        if let Some(text) = failure(line) {
            // A run that printed its last lines does not fail any more: it is the next one, whose errors come before its buffered output.
            if self.open.as_ref().is_some_and(|table| table.complete) {
                self.close();
            }
            self.begun(no).fail(no, text, true, host_of(line));
            self.touch(no);
            return;
        }
        if !may_be_ours(line) {
            return;
        }
        let rest = prefix::peel(line).rest.trim_end();
        match rest.trim_start().strip_prefix('#') {
            Some(comment) => self.comment(comment.trim(), no),
            None => self.numbers(rest, no),
        }
    }

    /// Tables of which the last line was read; the next line begins a new one.
    pub fn take_finished(&mut self) -> Vec<Table> {
        self.close();
        std::mem::take(&mut self.done)
    }

    /// All tables, and how many more there were than are kept.
    pub fn finish(mut self) -> (Vec<Table>, u64) {
        self.close();
        (self.done, self.left_out)
    }

    fn close(&mut self) {
        self.end_row();
        self.wide = false;
        self.group = None;
        let Some(mut table) = self.open.take() else { return };
        table.conclude();
        if self.done.len() < MAX_TABLES {
            self.done.push(table);
        } else {
            self.left_out += 1;
        }
    }

    /// The open table, or a new one.
    fn begun(&mut self, no: u64) -> &mut Table {
        self.open.get_or_insert_with(|| Table { first_line: no, last_line: no, ..Table::default() })
    }

    /// The same, from the middle of a run on.
    fn excerpt(&mut self, no: u64) -> &mut Table {
        self.open.get_or_insert_with(|| Table { first_line: no, last_line: no, excerpt: true, ..Table::default() })
    }

    fn touch(&mut self, no: u64) {
        if let Some(table) = &mut self.open {
            table.last_line = no;
        }
    }

    /// A line with which a run begins. With `again`, the open run has had it, or what comes after it, and this is another run.
    fn starts(&mut self, no: u64, again: fn(&Table) -> bool) -> &mut Table {
        if self.open.as_ref().is_some_and(|table| table.complete || !table.rows.is_empty() || again(table)) || self.row.is_some() {
            self.close();
        }
        self.begun(no)
    }

    fn comment(&mut self, text: &str, no: u64) {
        let mut words = text.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let ours = match first {
            "nccl-tests" => {
                let ours = words.next() == Some("version");
                if ours {
                    self.starts(no, |table| table.collective.is_some() || table.ranks.is_some());
                }
                ours
            }
            "nThread" => {
                let aggregated = text.split_once("agg iters: ").is_some_and(|(_, n)| n.split_ascii_whitespace().next() != Some("1"));
                let table = self.starts(no, |table| table.ranks.is_some());
                table.odd_timing = aggregated;
                table.unchecked = text.trim_end().ends_with("validation: 0") || text.contains("validation: 0 ");
                true
            }
            "Blocking" => match &mut self.open {
                Some(table) if text.starts_with("Blocking Enabled") => {
                    table.odd_timing = true;
                    true
                }
                _ => false,
            },
            "Collective" => self.collective(text, no),
            "Rank" => words.next().and_then(|rank| rank.parse::<u32>().ok()).is_some_and(|rank| self.rank(rank, text)),
            "size" => self.header(text, no),
            "Out" => self.out_of_bounds(text, no),
            "Avg" => self.average(text, no),
            "error:" => match &mut self.open {
                Some(table) => {
                    table.fail(no, text, false, None);
                    true
                }
                None => false,
            },
            _ => false,
        };
        if ours {
            self.touch(no);
        }
    }

    fn collective(&mut self, text: &str, no: u64) -> bool {
        let name = |program: &str| program.rsplit('/').next().map(|name| name.trim_end_matches("_perf").to_owned());
        if let Some(program) = text.strip_prefix("Collective test starting: ") {
            self.starts(no, |table| table.collective.is_some() || table.ranks.is_some()).collective = name(program.trim());
            return true;
        }
        let Some(program) = text.strip_prefix("Collective test concluded: ") else { return false };
        self.end_row();
        let Some(table) = &mut self.open else { return false };
        table.complete = true;
        if table.collective.is_none() {
            table.collective = name(program.trim());
        }
        true
    }

    /// `Rank  0 Group  0 Pid  12345 on    node-01 device  0 [0000:07:00] NVIDIA H100 80GB HBM3`; no group in old versions.
    fn rank(&mut self, rank: u32, text: &str) -> bool {
        let Some((before, device)) = text.split_once(" device ") else { return false };
        let group = text.split_once("Group").and_then(|(_, tail)| tail.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0);
        let Some(table) = &mut self.open else { return false };
        if *self.group.get_or_insert(group) == group {
            table.ranks = Some(table.ranks.unwrap_or(0).saturating_add(1));
            let host = before.split_once(" on ").map(|(_, host)| host.trim()).filter(|host| !host.is_empty());
            let model = device.split_once("] ").map_or("", |(_, model)| model.trim());
            let bus = device.split_once('[').and_then(|(_, bus)| bus.split_once(']')).map_or("", |(bus, _)| bus);
            table.devices.add(rank, 1, host, bus, model);
        }
        true
    }

    fn header(&mut self, text: &str, no: u64) -> bool {
        // Other benchmarks name their columns alike, and give each a name of one word: `time_ms`, `busbw_GBps`.
        let has = |wanted: &str| text.split_ascii_whitespace().any(|word| word == wanted);
        if !text.contains("count") || !has("busbw") {
            return false;
        }
        let before = self.open.as_ref().map(|table| {
            let kind = (table.odd_timing, table.unchecked);
            (table.ranks, table.collective.clone(), table.devices.clone(), kind)
        });
        // What comes before the columns says how the test was called: without it somebody has cut the run out.
        let is_cut_out = self.open.is_none();
        // Repeated in one run (-N): the same test once more.
        let table = self.starts(no, |_| false);
        table.excerpt |= is_cut_out;
        if let Some((ranks, collective, devices, kind)) = before.filter(|_| table.ranks.is_none()) {
            table.collective = table.collective.take().or(collective);
            (table.ranks, table.devices) = (ranks, devices);
            (table.odd_timing, table.unchecked) = kind;
        }
        table.odd_timing |= text.contains("cputime");
        table.error_column = text.ends_with(" error");
        self.wide = text.contains(" i_min ");
        true
    }

    fn out_of_bounds(&mut self, text: &str, no: u64) -> bool {
        let Some(tail) = text.strip_prefix("Out of bounds values").and_then(|tail| tail.trim_start().strip_prefix(':')) else {
            return false;
        };
        self.end_row();
        let mut words = tail.split_ascii_whitespace();
        let (Some(count), verdict) = (words.next().and_then(|count| count.parse::<u64>().ok()), words.next()) else { return false };
        self.excerpt(no).out_of_bounds = Some(OutOfBounds { count, ok: verdict.map_or(count == 0, |word| word != "FAILED"), line: no });
        true
    }

    fn average(&mut self, text: &str, no: u64) -> bool {
        let Some(tail) = text.strip_prefix("Avg bus bandwidth").and_then(|tail| tail.trim_start().strip_prefix(':')) else {
            return false;
        };
        self.end_row();
        let mut words = tail.split_ascii_whitespace().peekable();
        if words.peek().is_none() {
            return false;
        }
        let table = self.excerpt(no);
        table.avg_busbw_gbytes_per_s = words.next().and_then(|word| word.parse().ok()).filter(|average: &f64| average.is_finite());
        table.fast_enough = match words.next() {
            Some("OK") => Some(true),
            Some("FAILED") => Some(false),
            _ => None,
        };
        table.complete = true;
        true
    }

    fn numbers(&mut self, text: &str, no: u64) {
        let words: Vec<(usize, &str)> = words_of(text).take(MAX_WORDS).collect();
        if let Some((mut row, used, after)) = left_part(&words) {
            if self.open.as_ref().is_some_and(|table| table.complete) {
                self.close();
            }
            self.end_row();
            self.excerpt(no);
            row.line = no;
            let gap = words.get(used).map_or(0, |(at, _)| at.saturating_sub(after.end));
            self.row = Some(row);
            let cut = after.glued || self.sides(words.get(used..).unwrap_or_default(), gap > 24);
            let has_both = self.row.as_ref().is_some_and(|row| row.in_place.is_some());
            if !cut && has_both {
                self.end_row();
            }
            self.touch(no);
        } else if self.row.is_some() && words.first().is_some_and(|(_, word)| word.starts_with(|c: char| c.is_ascii_digit())) {
            let first_gap = words.first().map_or(0, |(at, _)| *at);
            let before = self.row.clone();
            let cut = self.sides(&words, first_gap > 24);
            if self.row != before {
                self.touch(no);
                let whole = self.row.as_ref().is_some_and(|row| row.in_place.is_some());
                if whole && !cut {
                    self.end_row();
                }
            }
        }
    }

    /// Reads one side or two into the row. Says whether something else is glued to the last number.
    fn sides(&mut self, mut words: &[(usize, &str)], only_in_place: bool) -> bool {
        let Some(row) = &mut self.row else { return false };
        let errors = self.open.as_ref().is_some_and(|table| table.error_column);
        if let [rest @ .., (_, date), (_, time)] = words
            && is_date(date)
            && time.len() == 8
            && time.as_bytes()[2] == b':'
        {
            words = rest;
        }
        // Root and both sides, or neither, decide whether the four columns of -I are there where no header says so.
        let width = if self.wide || words.len() == 16 { 8 } else { 4 };
        while words.len() >= 4 {
            let Some((mut side, glued)) = side_of(&words[..4]) else { return true };
            if errors {
                side.wrong = None;
            }
            let first = row.out_of_place.is_none() && !only_in_place;
            if first {
                row.out_of_place = Some(side);
            } else if row.in_place.is_none() {
                row.in_place = Some(side);
            } else {
                return false;
            }
            if glued {
                return true;
            }
            words = &words[width.min(words.len())..];
        }
        !words.is_empty()
    }

    /// The row is as complete as it gets.
    fn end_row(&mut self) {
        let Some(row) = self.row.take() else { return };
        let Some(table) = &mut self.open else { return };
        if row.out_of_place.is_none() && row.in_place.is_none() {
            table.unfinished = Some((row.size_bytes, row.line));
        } else {
            table.unfinished = None;
            table.add(row);
        }
    }
}

/// The last line of a run.
pub fn ends(line: &str) -> bool {
    ["Collective test concluded", "Avg bus bandwidth"].iter().any(|end| line.contains(end))
}

/// The first line of a run, or of what is left of one: a header, a row, a last line.
pub fn begins(line: &[u8]) -> bool {
    if memchr::memchr(b'#', line).is_some() {
        let starts = [
            "# nccl-tests version",
            "# Collective test starting",
            "# nThread ",
            "# Out of bounds values",
            "# Avg bus bandwidth",
            "# Collective test concluded",
        ];
        return starts.iter().any(|start| memmem::find(line, start.as_bytes()).is_some())
            || memmem::find(line, b"busbw").is_some() && memmem::find(line, b"count").is_some();
    }
    let row = without_task(line.trim_ascii_start()).trim_ascii_start();
    if !row.first().is_some_and(u8::is_ascii_digit) || line.len() > MAX_LINE {
        return false;
    }
    let numbers = row.iter().take_while(|b| b.is_ascii_digit() || **b == b' ').count();
    if !row[numbers..].first().is_some_and(u8::is_ascii_lowercase) {
        return false;
    }
    let Ok(row) = std::str::from_utf8(row) else { return false };
    let words: Vec<(usize, &str)> = words_of(row).take(MAX_WORDS).collect();
    left_part(&words).is_some_and(|(_, used, after)| !after.glued && words.get(used..used + 4).is_some_and(|w| side_of(w).is_some()))
}

/// Without the number of the task, which `srun -l` puts in front: ` 0: `.
fn without_task(line: &[u8]) -> &[u8] {
    let digits = line.iter().take_while(|b| b.is_ascii_digit()).count();
    line[digits..].strip_prefix(b": ").filter(|_| digits > 0).unwrap_or(line)
}

/// What comes after the left part of a row.
struct After {
    end: usize,
    /// Text without a space between.
    glued: bool,
}

/// Size, count, type, operator and root; the last two are missing in old versions where the collective has none.
fn left_part(words: &[(usize, &str)]) -> Option<(Row, usize, After)> {
    let whole = |at: usize| words.get(at)?.1.parse::<u64>().ok();
    let (size_bytes, count) = (whole(0)?, whole(1)?);
    let &(type_at, dtype) = words.get(2)?;
    if !is_type(dtype) {
        return None;
    }
    let mut row = Row { size_bytes, count, dtype: dtype.to_owned(), ..Row::default() };
    let mut used = 3;
    let mut after = After { end: type_at + dtype.len(), glued: false };
    if let Some((at, word)) = words.get(used)
        && matches!(*word, "sum" | "prod" | "max" | "min" | "avg" | "all" | "mulsum" | "none")
    {
        row.redop = Some((*word).to_owned());
        after.end = at + word.len();
        used += 1;
    }
    if let Some(&(at, word)) = words.get(used) {
        let (digits, tail) = split_number(word);
        // Without a root the next number is a time: then nothing but one side or two are left.
        let sides = words.len() - used;
        let no_root = matches!(sides, 4 | 8) && words[used..].iter().all(|(_, word)| *word == "N/A" || number(word).is_some());
        if !no_root && let Ok(root) = digits.parse::<i32>() {
            row.root = u32::try_from(root).ok();
            after = After { end: at + digits.len(), glued: !tail.is_empty() };
            used += 1;
        }
    }
    Some((row, used, after))
}

fn is_type(word: &str) -> bool {
    matches!(
        word,
        "int8" | "uint8" | "char" | "int32" | "int" | "uint32" | "int64" | "uint64" | "half" | "float16" | "float" | "double" | "bfloat16"
    ) || word.starts_with("f8e")
        || word.starts_with("fp8")
}

/// Time, two bandwidths, wrong elements; and whether text is glued to the last.
fn side_of(words: &[(usize, &str)]) -> Option<(Side, bool)> {
    let number = |at: usize| number(words.get(at)?.1);
    let last = words.get(3)?.1;
    let (wrong, glued) = match last.strip_prefix("N/A") {
        Some(tail) => (None, !tail.is_empty()),
        None => {
            let (digits, tail) = split_number(last);
            let value: f64 = digits.parse().ok()?;
            // With a part behind the point it is an error, not a count.
            ((value >= 0.0 && value.fract() == 0.0).then_some(value as u64), !tail.is_empty())
        }
    };
    let side = Side { time_us: number(0)?, algbw: number(1)?, busbw: number(2)?, wrong };
    Some((side, glued))
}

/// `Some(None)` for a number that is none.
fn number(word: &str) -> Option<Option<f64>> {
    let first = word.bytes().next()?;
    if !(first.is_ascii_digit() || matches!(first, b'-' | b'n' | b'i')) {
        return None;
    }
    let value: f64 = word.parse().ok()?;
    Some(value.is_finite().then_some(value))
}

/// The number in front of a word, and what is glued to it: `-1vm:10:11`.
fn split_number(word: &str) -> (&str, &str) {
    let bytes = word.as_bytes();
    let mut end = 0;
    while let Some(b) = bytes.get(end) {
        let exponent = matches!(b, b'e' | b'E') && matches!(bytes.get(end + 1), Some(b'+' | b'-'));
        let sign = matches!(b, b'+' | b'-') && (end == 0 || matches!(bytes[end - 1], b'e' | b'E'));
        if !(b.is_ascii_digit() || *b == b'.' || exponent || sign) {
            break;
        }
        end += 1;
    }
    word.split_at(end)
}

fn is_date(word: &str) -> bool {
    word.len() == 10 && word.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() })
}

fn words_of(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let start = text.as_ptr() as usize;
    text.split_ascii_whitespace().map(move |word| (word.as_ptr() as usize - start, word))
}

/// A line that could belong to a table, launcher's prefix included. Most lines of a log could not.
fn may_be_ours(line: &str) -> bool {
    let bytes = line.as_bytes();
    match bytes.first() {
        None => false,
        Some(b'#' | b' ' | b'\t' | b'[' | b'(') => true,
        Some(b) if b.is_ascii_digit() => true,
        // A launcher's name of the host.
        Some(_) => memmem::find(&bytes[..bytes.len().min(100)], b": ").is_some_and(|at| matches!(bytes.get(at + 2), Some(b'#' | b' '))),
    }
}

/// `vm` of `vm: Test NCCL failure …` and of ` .. vm pid 7: Test failure …`.
fn host_of(line: &str) -> Option<String> {
    let (before, _) = prefix::peel(line).rest.split_once(": Test ")?;
    let name = before.trim().trim_start_matches(".. ").split(" pid ").next()?;
    (!name.is_empty() && name.len() <= 253 && !name.contains(' ')).then(|| name.to_owned())
}

/// The text of a line with which a test ends itself.
fn failure(line: &str) -> Option<&str> {
    let bytes = line.as_bytes();
    if let Some(at) = memmem::find(bytes, b": Test ") {
        let (before, text) = (&line[..at], &line[at + 2..]);
        // `vm: Test NCCL failure`; ` .. vm pid 7: Test failure`
        let ours = text.starts_with("Test NCCL failure ")
            || text.starts_with("Test CUDA failure ")
            || text.starts_with("Test failure ") && before.contains(".. ") && before.contains(" pid ")
            || text.starts_with("Test timeout (") && text.contains("s) ");
        return ours.then(|| text.trim());
    }
    let at = memmem::find(bytes, b"Invalid number of GPUs: ")?;
    line[at..].contains(" requested but only ").then(|| line[at..].trim())
}
