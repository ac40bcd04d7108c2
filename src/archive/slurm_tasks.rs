//! How many tasks of a step crashed alike: Slurm names those that it collected together in a line each.

use super::Report;
use super::again::text_of;
use super::inputs::Input;
use crate::base::clean;
use crate::base::units::group;
use crate::base::words::all_words;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// More hosts are counted.
const MOST_HOSTS: usize = 4;
/// No step has more; what names more is no list of tasks.
const MOST_TASKS: u32 = 1 << 16;
/// Lines of one crash stand near one another: others are of another attempt.
const NEAR: usize = 200;

/// The headline of a cause that is such a line, where others of its file say the same of other tasks.
pub(super) fn of(report: &Report, inputs: &[Input]) -> Option<String> {
    let cause = &report.findings[report.root_cause?];
    let proof = cause.evidence.first().filter(|_| cause.signature == Some("slurm-task-crashed"))?;
    let text = text_of(proof.path.as_deref()?, inputs)?;
    headline(&String::from_utf8_lossy(&text), usize::try_from(proof.line?).ok()?)
}

fn headline(text: &str, proof: usize) -> Option<String> {
    static LINE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"srun: error: (\S{1,80}): tasks? ([0-9,-]+): ([A-Z][a-z ]+[a-z])").expect("pattern"));
    let line_of = |line: &str| {
        let found = LINE.captures(line)?;
        Some((clean::clean(&found[1]).into_owned(), tasks(&found[2])?, found[3].to_owned()))
    };
    let (_, _, words) = line_of(text.lines().nth(proof.checked_sub(1)?)?)?;
    // Whom Slurm kills because another one failed did not fail alike.
    if words == "Killed" {
        return None;
    }
    let mut hosts: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut lines = 0;
    let near = text.lines().take(proof + NEAR).skip(proof.saturating_sub(NEAR));
    for (host, tasks, _) in near.filter_map(line_of).filter(|(_, _, said)| *said == words) {
        lines += 1;
        hosts.entry(host).or_default().extend(tasks);
    }
    let all: BTreeSet<u32> = hosts.values().flatten().copied().collect();
    let (first, last) = (all.first()?, all.last()?);
    let is_whole = (last - first) as usize + 1 == all.len();
    let which = match is_whole {
        true => format!("Slurm tasks {first} to {last}"),
        false => format!("{} Slurm tasks from {first} to {last}", group(all.len() as u64)),
    };
    let on = match hosts.len() {
        n if n > MOST_HOSTS => format!("{n} nodes"),
        _ => all_words(&hosts.into_keys().collect::<Vec<_>>()),
    };
    (lines > 1 && all.len() > 1).then(|| format!("{which} on {on} ended: {words}"))
}

/// `29,31` and `1-3,5` are tasks.
fn tasks(list: &str) -> Option<BTreeSet<u32>> {
    let mut all = BTreeSet::new();
    for part in list.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?);
        if to < from || to >= MOST_TASKS {
            return None;
        }
        all.extend(from..=to);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::headline;

    #[test]
    fn tasks_that_crashed_alike_are_told_together() {
        let log = "srun: error: n1: tasks 1,3: Bus error\nstep 3\nsrun: error: n2: tasks 4-7: Bus error (core dumped)\nsrun: error: n1: task 0: Bus error\n\
                   srun: error: n1: task 2: Segmentation fault\n";
        assert_eq!(headline(log, 1).as_deref(), Some("7 Slurm tasks from 0 to 7 on n1 and n2 ended: Bus error"));
        assert_eq!(
            headline(&log.replace("Segmentation fault", "Bus error"), 1).as_deref(),
            Some("Slurm tasks 0 to 7 on n1 and n2 ended: Bus error")
        );
        // One line says it all; others crashed in another way.
        assert_eq!(headline(log, 5), None);
        assert_eq!(headline("srun: error: n1: tasks 0-3: Killed\nsrun: error: n2: tasks 4-7: Killed\n", 1), None);
        assert_eq!(headline("srun: error: n1: task 0: Bus error\nsrun: error: n2: tasks 1,4294967295: Bus error\n", 1), None);
        assert_eq!(headline("srun: error: n1: task 3: Bus error\nsrun: error: n1: task 3: Bus error\n", 1), None);
        // Another attempt is another crash.
        let later = format!("srun: error: n1: task 0: Bus error\n{}srun: error: n7: tasks 4-7: Bus error\n", "step\n".repeat(300));
        assert_eq!(headline(&later, 1), None);
        assert_eq!(headline("srun: error: n1: tasks 3-1: Bus error\nsrun: error: n2: tasks 4-7: Bus error\n", 1), None);
    }
}
