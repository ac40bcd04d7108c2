//! Ranks that several shells have started, whose number is an argument (`--process_index=1`, `--rank 0`): nothing starts all of them, and nothing in
//! their environment tells it. They hold GPUs, run one script, and hold connections to one another.

use super::process_table::{Entry, Gpu, Table};
use super::program::Program;
use super::read::Reader;
use super::spawned::{are_joined, is_due, is_free};
use crate::base::agent::python_target;
use crate::observe::process::{Place, ProcessRole};
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// More than any node has.
const MOST: usize = 64;

/// Gives them their role and their place.
pub fn choose(table: &mut Table, reader: &mut Reader) {
    let may_be_one = |entry: &Entry| is_free(entry) && entry.gpu != Gpu::No && entry.runs() == Program::Python;
    let free: Vec<u32> = table.entries.iter().filter(|(_, entry)| may_be_one(entry)).map(|(pid, _)| *pid).collect();
    if !(2..=MOST).contains(&free.len()) || !is_due(table, &free) {
        return;
    }
    let mut alike: BTreeMap<String, BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
    for pid in free {
        let args = reader.read(pid, "cmdline").map(super::process::raw_arguments).unwrap_or_default();
        if let Some((script, number)) = python_target(&args).zip(numbered(&args)) {
            alike.entry(script.to_owned()).or_default().entry(number).or_default().push(pid);
        }
    }
    for ranks in alike.into_values() {
        // Two of one number are of two jobs.
        let group: Vec<u32> = ranks.values().flatten().copied().collect();
        if group.len() < 2 || group.len() > ranks.len() || !are_joined(reader, &group) {
            continue;
        }
        let is_whole = ranks.keys().copied().eq(0..ranks.len() as u32);
        let world_size = is_whole.then_some(ranks.len() as u32);
        let Some(leader) = ranks.values().flatten().next().copied() else { continue };
        for (local, (rank, pids)) in (0..).zip(&ranks) {
            for pid in pids {
                if let Some(entry) = table.entries.get_mut(pid) {
                    entry.role = Some(ProcessRole::Rank);
                    entry.place = Some(Place { leader, rank: Some(*rank), local_rank: Some(local), world_size });
                }
            }
        }
    }
}

/// The number in the arguments. Of two nobody knows which one counts.
fn numbered(args: &[String]) -> Option<u32> {
    static OPTION: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^--?(?:(?:global|machine|node|worker)[_-])?(?:rank|proc(?:ess)?[_-]?(?:id|index|rank)|task[_-](?:id|index))(?:=([0-9]{1,5}))?$")
            .expect("pattern")
    });
    let mut found = args.iter().enumerate().filter_map(|(at, arg)| Some((at, OPTION.captures(arg)?)));
    let (at, option) = found.next().filter(|_| found.next().is_none())?;
    option.get(1).map(|number| number.as_str()).or_else(|| args.get(at + 1).map(String::as_str))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn the_number_of_a_rank_among_its_arguments() {
        let of = |args: &str| numbered(&args.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("python3 train.py --process_index=1 --hosts a"), Some(1));
        assert_eq!(of("python3 train.py --rank 3 --world-size 8"), Some(3));
        assert_eq!(of("python3 train.py -process-id=0"), Some(0));
        for none in [
            "python3 train.py --rank",
            "python3 train.py --lora_rank 8",
            "python3 train.py --rank 0 --node_rank 1",
            "python3 train.py --rank auto",
        ] {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
