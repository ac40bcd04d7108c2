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

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "NCCL version 2.26.2 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12080\n\nJob summary\n\
        ===========\n\n\
        Communicators... (2.05s)\n=============\n\n\
        Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
        \x20   #  in group  per comm  per node  per comm  in group\n\
        \x20   0         1         4       7-8        32        31   RUNNING  INCOMPLETE,MISMATCH\n\
        \x20   1         8         4         1         4        32   RUNNING      OK\n\n";

    fn report(errors: &str, warnings: &str) -> RasReport {
        parse(&format!("{HEAD}Errors\n======\n\n{errors}\nWarnings\n========\n\n{warnings}\n")).unwrap()
    }

    #[test]
    fn the_table_gives_the_shape_of_the_communicators() {
        let report = report("", "");
        assert_eq!(report.nccl_version.as_deref(), Some("2.26.2"));
        assert_eq!(report.collection_time_s, Some(2.05));
        let first = RasGroup {
            group: 0,
            comms: 1,
            nodes_per_comm: 4,
            ranks_per_comm: 32,
            ranks_in_group: 31,
            status: "RUNNING".into(),
            errors: "INCOMPLETE,MISMATCH".into(),
        };
        assert_eq!((report.groups.len(), &report.groups[0]), (2, &first));
        assert!(report.comms.is_empty());
    }

    #[test]
    fn missing_and_dead_processes_are_listed() {
        let errors = "INCOMPLETE\n  Missing communicator data from 3 job processes\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n\
            \x20 Process 99 on node 172.16.64.214 managing GPUs 0,1 (NVML 2,3)\n  [could not find information on 1 process]\n\n\
            DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 7 on node fe80::1 managing GPU 0\n\n\
            #0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 2 ranks\n\
            \x20 Rank 21 -- GPU 5 (NVML 6) managed by process 3487984 on node 172.16.64.213\n  Rank 22 -- [process information not found]\n\n";
        let report = report(errors, "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n");
        assert_eq!(report.timeouts_count, 2);
        assert_eq!(report.missing_processes.count, 3);
        assert_eq!(report.missing_processes.listed[1], RasProcess { pid: 99, host: "172.16.64.214".into(), gpus: vec![0, 1] });
        assert_eq!((report.dead_processes.count, report.dead_processes.listed[0].pid), (1, 7));
        let comm = &report.comms[0];
        assert_eq!((comm.hash, comm.size, comm.nnodes, comm.missing_count), (0xcf26_4af5_3edb_e986, Some(32), Some(4), 2));
        assert_eq!((comm.missing[0].rank, comm.missing[0].place.cuda_dev, comm.missing[0].place.nvml_dev), (21, Some(5), Some(6)));
        assert_eq!((comm.missing[1].rank, &comm.missing[1].place), (22, &RasPlace::default()));
    }

    #[test]
    fn the_oldest_versions_list_missing_ranks_in_a_row() {
        for (line, ranks) in [("The missing rank: 21", vec![21]), ("The missing ranks: 20,21", vec![20, 21])] {
            let errors = format!("#0-0 (1) INCOMPLETE\n  Missing communicator data from {} rank\n  {line}\n\n", ranks.len());
            let comm = &report(&errors, "").comms[0];
            assert_eq!(comm.missing.iter().map(|m| m.rank).collect::<Vec<_>>(), ranks);
        }
    }

    #[test]
    fn differences_are_kept_block_by_block() {
        let warnings = "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different status\n  30 ranks have status RUNNING\n\
            \x20 Rank 5 has status FINALIZE -- GPU 5 managed by process 483077 on node 172.16.64.210\n\
            \x20 Communicator ranks have different AllReduce operation counts\n  30 ranks have launched up to operation 6650\n\
            \x20 2 ranks have not launched any operations\n  Rank 5 -- GPU 5 managed by process 483077 on node 172.16.64.210\n\
            \x20 Rank 6 -- GPU 6 managed by process 483078 on node 172.16.64.210\n\n";
        let comm = &report("", warnings).comms[0];
        assert_eq!(comm.spreads[0].of, SpreadOf::Status);
        assert_eq!(comm.spreads[0].parts[1].value, PartValue::Said("FINALIZE".into()));
        let counts = comm.op_counts(Collective::AllReduce);
        let none = &counts[0];
        assert_eq!((&none.value, none.rank_count), (&PartValue::Count(0), 2));
        assert_eq!(none.ranks.iter().map(|(rank, place)| (*rank, place.pid)).collect::<Vec<_>>(), [(5, Some(483077)), (6, Some(483078))]);
        assert_eq!((&counts[1].value, counts[1].rank_count), (&PartValue::Count(6650), 30));
        assert!(comm.missing.is_empty());
    }

    #[test]
    fn the_oldest_versions_count_all_collectives_together() {
        let warnings = "#1-3 (00000000000000ff) MISMATCH\n  Communicator ranks have different collective operation counts\n\
            \x20 3 ranks have launched up to operation 10\n  Rank 0 has launched up to operation 9 -- GPU 0 managed by process 4 on node ::1\n\n";
        let comm = &report("", warnings).comms[0];
        assert_eq!((comm.hash, comm.size, comm.spreads[0].of), (255, Some(4), SpreadOf::Count(None)));
        assert_eq!(comm.spreads[0].parts[1].ranks[0].1.host.as_deref(), Some("::1"));
    }

    #[test]
    fn errors_of_ranks_are_kept_in_their_words() {
        let errors = "#0-0 (1) ERROR\n  Initialization error on 1 rank\n\
            \x20 Rank 2 reported Unhandled CUDA error -- GPU 2 managed by process 4 on node 10.0.0.1\n\
            \x20 Asynchronous errors on 2 ranks\n  2 ranks reported Remote process error\n\n";
        let comm =
            &report(errors, "#0-0 (1) MISMATCH\n  Communicator ranks have different status\n  2 ranks have status RUNNING\n\n").comms[0];
        let seen: Vec<_> = comm.spreads.iter().map(|s| (s.of, s.parts[0].value.clone(), s.parts[0].rank_count)).collect();
        let said = |words: &str| PartValue::Said(words.into());
        assert_eq!(
            seen,
            [
                (SpreadOf::InitError, said("Unhandled CUDA error"), 1),
                (SpreadOf::AsyncError, said("Remote process error"), 2),
                (SpreadOf::Status, said("RUNNING"), 2),
            ]
        );
    }

    #[test]
    fn nothing_gathered_is_a_report_without_communicators() {
        let text = "NCCL version 2.27.3 compiled with CUDA 12.8\n\nCommunicators... (0.00s)\n=============\n\n\
            No communicator data collected!\n\nErrors\n======\n\nWarnings\n========\n\n";
        assert_eq!(parse(text).unwrap().comms, []);
    }
}
