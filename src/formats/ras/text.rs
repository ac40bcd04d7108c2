//! The text report of NCCL 2.24 to 2.30. One pass over the lines; a line that is not known is skipped.

use super::{
    Collective, PartValue, RasComm, RasError, RasGroup, RasMissing, RasPart, RasPlace, RasProcess, RasReport, RasSpread, SpreadOf,
};
use std::collections::HashMap;

pub(super) fn parse(text: &str) -> Result<RasReport, RasError> {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.line(line);
    }
    // Both sections are printed even when empty; before them the service gathers what the processes answer.
    match reader.section {
        Section::Warnings => Ok(reader.report),
        Section::Header => Err(RasError::CutOff("before the communicators".into())),
        Section::Communicators => Err(RasError::CutOff("while the communicators were gathered".into())),
        Section::Errors => Err(RasError::CutOff("in the section Errors".into())),
    }
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Section {
    #[default]
    Header,
    Communicators,
    Errors,
    Warnings,
}

/// The entry of a section that indented lines belong to.
#[derive(Clone, Copy, Default)]
enum Entry {
    #[default]
    None,
    Incomplete,
    Dead,
    Timeout,
    /// Its place in `report.comms`.
    Comm(usize),
}

#[derive(Default)]
struct Reader {
    report: RasReport,
    section: Section,
    entry: Entry,
    /// Where in the report each communicator is, by its hash, and each row, by its group: an answer may hold very many.
    comms: HashMap<u64, usize>,
    groups: HashMap<u32, usize>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        match line.trim_end() {
            "Errors" => self.section = Section::Errors,
            "Warnings" => self.section = Section::Warnings,
            line if line.starts_with("Communicators...") => {
                self.section = Section::Communicators;
                self.report.collection_time_s = between(line, "(", "s)").and_then(|s| s.parse().ok()).filter(|s: &f64| s.is_finite());
            }
            line => match self.section {
                Section::Header => self.header(line),
                Section::Communicators => self.table(line),
                Section::Errors | Section::Warnings => match line.strip_prefix("  ") {
                    Some(detail) => self.detail(detail.trim_start()),
                    None => self.heading(line),
                },
            },
        }
    }

    fn header(&mut self, line: &str) {
        if let Some(version) = line.strip_prefix("NCCL version ") {
            self.report.nccl_version = version.split_whitespace().next().map(str::to_string);
        }
    }

    fn heading(&mut self, line: &str) {
        self.entry = match line {
            "INCOMPLETE" => Entry::Incomplete,
            "DEAD" => Entry::Dead,
            "TIMEOUT" => Entry::Timeout,
            line => match comm_heading(line) {
                Some((group, hash)) => Entry::Comm(self.comm(group, hash)),
                None => Entry::None,
            },
        };
    }

    fn table(&mut self, line: &str) {
        if let Some(row) = group(line) {
            self.groups.insert(row.group, self.report.groups.len());
            self.report.groups.push(row);
        }
    }

    /// A communicator can have an entry in both sections, and more than one in the first.
    fn comm(&mut self, group: u32, hash: u64) -> usize {
        let comms = &mut self.report.comms;
        let row = self.groups.get(&group).and_then(|&at| self.report.groups.get(at));
        *self.comms.entry(hash).or_insert_with(|| {
            comms.push(RasComm {
                hash,
                size: row.map(|row| row.ranks_per_comm),
                nnodes: row.map(|row| row.nodes_per_comm),
                ..RasComm::default()
            });
            comms.len() - 1
        })
    }

    fn detail(&mut self, line: &str) {
        let count = first_number(line);
        match self.entry {
            Entry::None => {}
            Entry::Timeout => {
                if line.starts_with("Encountered ") {
                    self.report.timeouts_count = u64::from(number_after(line, "Encountered ").unwrap_or(0));
                }
            }
            Entry::Incomplete => match process(line) {
                Some(process) => self.report.missing_processes.listed.push(process),
                None if line.starts_with("Missing ") => self.report.missing_processes.count = number_after(line, " from ").unwrap_or(0),
                None => {}
            },
            Entry::Dead => match process(line) {
                Some(process) => self.report.dead_processes.listed.push(process),
                None if line.contains("considered dead") => self.report.dead_processes.count = count.unwrap_or(0),
                None => {}
            },
            Entry::Comm(at) => {
                if let Some(comm) = self.report.comms.get_mut(at) {
                    comm_detail(comm, line);
                }
            }
        }
    }
}

fn comm_detail(comm: &mut RasComm, line: &str) {
    if let Some(of) = spread_of(line) {
        comm.spreads.push(RasSpread { of, parts: Vec::new() });
    } else if line.starts_with("Missing communicator data from ") {
        comm.missing_count = number_after(line, " from ").unwrap_or(0);
    } else if let Some(list) = line.strip_prefix("The missing rank: ").or_else(|| line.strip_prefix("The missing ranks: ")) {
        comm.missing
            .extend(list.split(',').filter_map(|rank| Some(RasMissing { rank: rank.trim().parse().ok()?, ..RasMissing::default() })));
    } else if let Some((rank, said)) = line.strip_prefix("Rank ").and_then(split_number) {
        let (said, place) = match said.split_once("-- ") {
            Some((said, place)) => (said.trim(), place_of(place)),
            None => (said.trim(), RasPlace::default()),
        };
        match (comm.spreads.last_mut(), part_value(said)) {
            (Some(spread), Some(value)) => spread.parts.push(RasPart { value, rank_count: 1, ranks: vec![(rank, place)] }),
            // Listed below "7 ranks have ...".
            (Some(RasSpread { parts, .. }), None) => {
                if let Some(part) = parts.last_mut() {
                    part.ranks.push((rank, place));
                }
            }
            (None, _) => comm.missing.push(RasMissing { rank, place, ..RasMissing::default() }),
        }
    } else if let Some((rank_count, said)) = split_number(line)
        && let Some(value) = said.trim().strip_prefix("ranks ").and_then(part_value)
        && let Some(spread) = comm.spreads.last_mut()
    {
        spread.parts.push(RasPart { value, rank_count, ranks: Vec::new() });
    }
}

/// `  0   8   4   7-8   32   32   RUNNING  INCOMPLETE`
fn group(line: &str) -> Option<RasGroup> {
    let mut words = line.split_whitespace();
    let mut number = || words.next()?.split('-').next_back()?.parse::<u32>().ok();
    let (group, comms, nodes_per_comm, _ranks_per_node, ranks_per_comm, ranks_in_group) =
        (number()?, number()?, number()?, number()?, number()?, number()?);
    let (status, errors) = (words.next()?.to_string(), words.next()?.to_string());
    Some(RasGroup { group, comms, nodes_per_comm, ranks_per_comm, ranks_in_group, status, errors })
}

/// `#0-0 (cf264af53edbe986) INCOMPLETE`: the group and the hash.
fn comm_heading(line: &str) -> Option<(u32, u64)> {
    let (name, rest) = line.strip_prefix('#')?.split_once(" (")?;
    let (hash, _kind) = rest.split_once(')')?;
    Some((name.split('-').next()?.parse().ok()?, u64::from_str_radix(hash, 16).ok()?))
}

fn spread_of(line: &str) -> Option<SpreadOf> {
    if let Some(what) = line.strip_prefix("Communicator ranks have different ") {
        return match what.strip_suffix(" operation counts") {
            Some("collective") => Some(SpreadOf::Count(None)),
            Some(name) => Collective::named(name).map(|op| SpreadOf::Count(Some(op))),
            None => (what == "status").then_some(SpreadOf::Status),
        };
    }
    match line {
        line if line.starts_with("Initialization error") => Some(SpreadOf::InitError),
        line if line.starts_with("Asynchronous error") => Some(SpreadOf::AsyncError),
        _ => None,
    }
}

/// What follows `Rank 3 ` or `7 ranks `.
fn part_value(said: &str) -> Option<PartValue> {
    let said = said.strip_prefix("have ").or_else(|| said.strip_prefix("has ")).unwrap_or(said);
    if let Some(count) = said.strip_prefix("launched up to operation ") {
        return Some(PartValue::Count(count.trim().parse().ok()?));
    }
    if said.starts_with("not launched any operations") {
        return Some(PartValue::Count(0));
    }
    let words = said.strip_prefix("status ").or_else(|| said.strip_prefix("reported "))?;
    Some(PartValue::Said(words.trim().to_string()))
}

/// `Process 3487984 on node 172.16.64.213 managing GPUs 4,5 (NVML 6,7)`
fn process(line: &str) -> Option<RasProcess> {
    let (pid, rest) = split_number(line.strip_prefix("Process ")?)?;
    let mut words = rest.trim_start().strip_prefix("on node ")?.split_whitespace();
    let host = words.next()?.to_string();
    let gpus = words.nth(2).map(|list| list.split(',').filter_map(|gpu| gpu.parse().ok()).collect()).unwrap_or_default();
    Some(RasProcess { pid, host, gpus })
}

/// `GPU 5 (NVML 7) managed by process 3487984 on node 172.16.64.213`, or `[process information not found]`.
fn place_of(text: &str) -> RasPlace {
    let cuda_dev = number_after(text, "GPU ");
    RasPlace {
        host: text.split_once("on node ").and_then(|(_, host)| host.split_whitespace().next()).map(str::to_string),
        pid: number_after(text, "by process "),
        cuda_dev,
        // Printed only where it is another one.
        nvml_dev: number_after(text, "(NVML ").or(cuda_dev),
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?.1.split_once(after).map(|(inside, _)| inside)
}

fn number_after(text: &str, before: &str) -> Option<u32> {
    split_number(text.split_once(before)?.1).map(|(number, _)| number)
}

fn first_number(text: &str) -> Option<u32> {
    split_number(text).map(|(number, _)| number)
}

/// The digits at the start, and the rest.
fn split_number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}
