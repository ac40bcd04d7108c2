//! Processes that train alone: no launcher, no rank, no GPU that is seen. What tells one from any other program of Python is that its own
//! output counts steps and that it has a training framework loaded. What it starts inherits both, so that the topmost is the one.

use super::passed_on::PassedOn;
use super::process_table::{Entry, Gpu, Table};
use super::program::Program;
use super::read::Reader;
use super::{ask, output_files};
use crate::base::file;
use crate::logs::{self, TextEvent, What};
use crate::observe::process::ProcessRole;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Libraries of PyTorch, JAX (since 0.5 and before), TensorFlow and Paddle, as /proc/PID/maps has them.
const FRAMEWORKS: &[&str] =
    &["/libtorch_cpu.so", "/libjax_common.so", "/xla_extension.so", "/libtensorflow_framework.so", "/libtensorflow_cc.so", "/libpaddle.so"];
/// So much of the end of its output is read: steps are not far apart.
const END_BYTES: u64 = 32 << 10;
/// Steps that it counts up, so that a number in some line is none.
const LEAST_STEPS: usize = 3;

/// Gives those that train their role, and names them. `taken` are the outputs of processes that are known to be of a job: what else writes there may be
/// a helper.
pub fn choose(table: &mut Table, reader: &mut Reader, passed_on: &mut PassedOn, taken: &BTreeSet<(u64, u64)>) -> Vec<u32> {
    let mut found = Vec::new();
    let may_train = |entry: &Entry| {
        let free = entry.role.is_none() && entry.signs.key.is_none() && entry.gpu == Gpu::No && !entry.helper && !entry.agent;
        free && entry.busy && !entry.dead && entry.is_python()
    };
    let candidates: Vec<u32> = table.entries.iter().filter(|(_, entry)| may_train(entry)).map(|(pid, _)| *pid).collect();
    for pid in candidates {
        let in_job = |pid: u32| table.ancestors(pid).chain([pid]).any(|at| table.get(at).is_some_and(|entry| entry.role.is_some()));
        // What starts ranks writes their steps, too.
        let starts_ranks = || table.entries.iter().any(|(other, entry)| entry.role.is_some() && table.ancestors(*other).any(|a| a == pid));
        if in_job(pid) || starts_ranks() || !trains(table, reader, passed_on, pid, taken) {
            continue;
        }
        let top = topmost(table, reader, pid);
        if let Some(entry) = table.entries.get_mut(&top) {
            (entry.role, entry.program) = (Some(ProcessRole::Trainer), Some(Program::Python));
            found.push(top);
        }
    }
    found
}

fn trains(table: &Table, reader: &mut Reader, passed_on: &mut PassedOn, pid: u32, taken: &BTreeSet<(u64, u64)>) -> bool {
    let start_ticks = reader.read(pid, "stat").ok().and_then(super::stat::Stat::parse).map(|stat| stat.start_ticks);
    let Some(start_ticks) = start_ticks else { return false };
    let mut outputs = output_files::output(reader, pid).unwrap_or_default();
    outputs.extend(passed_on.files(table, reader, pid, &outputs));
    let own = outputs.iter().filter(|log| log.inode.zip(log.device).is_some_and(|(inode, device)| !taken.contains(&(device, inode))));
    let own = own.filter(|log| output_files::is_written_since(reader, log, start_ticks)).map(|log| PathBuf::from(&log.path));
    let paths: BTreeSet<PathBuf> = own.collect();
    // A library's list is a thousand lines long: the log comes first.
    paths.iter().any(|path| counts_steps(path, pid)) && has_framework(reader, pid) && !is_launcher(reader, pid)
}

/// The first of those above that is the same program with the same output.
fn topmost(table: &Table, reader: &mut Reader, pid: u32) -> u32 {
    let output = |reader: &Reader, pid: u32| std::fs::read_link(reader.path(pid, "fd/1")).ok();
    let own = output(reader, pid);
    let mut top = pid;
    for above in table.ancestors(pid) {
        let same = table.get(above).is_some_and(Entry::is_python) && own.is_some() && output(reader, above) == own;
        if !same || !has_framework(reader, above) || is_launcher(reader, above) {
            break;
        }
        top = above;
    }
    top
}

fn is_launcher(reader: &mut Reader, pid: u32) -> bool {
    let args = reader.read(pid, "cmdline").map(super::process::raw_arguments).unwrap_or_default();
    Program::of("python", &args) != Program::Python
}

/// It has loaded a library that trains.
pub fn has_framework(reader: &mut Reader, pid: u32) -> bool {
    let Ok(maps) = reader.read(pid, "maps") else { return false };
    FRAMEWORKS.iter().any(|library| memchr::memmem::find(maps, library.as_bytes()).is_some())
}

/// Whether the end of a log counts steps of this process up. Lines that name another process, or a rank, are passed on from others.
fn counts_steps(path: &Path, pid: u32) -> bool {
    if ask::is_waiting() {
        return false;
    }
    let Ok(end) = file::read_end(path, END_BYTES) else { return false };
    let mut reader = logs::Reader::default();
    let mut events: Vec<TextEvent> = Vec::new();
    for line in end.split(|byte| matches!(byte, b'\n' | b'\r')) {
        reader.line(&String::from_utf8_lossy(line), &mut events);
    }
    let is_own = |event: &&TextEvent| event.origin.rank.is_none() && event.origin.pid.is_none_or(|named| named == pid);
    let steps = events.iter().filter(is_own).filter_map(|event| match &event.what {
        What::Step(step) => step.step,
        _ => None,
    });
    let steps: Vec<u64> = steps.collect();
    steps.windows(2).filter(|two| two[0] < two[1]).count() + 1 >= LEAST_STEPS
}

#[cfg(test)]
mod tests {
    use super::counts_steps;

    #[test]
    fn steps_of_others_are_not_its_own() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let counts = |text: &str| {
            std::fs::write(file.path(), text).unwrap();
            counts_steps(file.path(), 7)
        };
        let lines = |head: &str| (1..6).map(|step| format!("{head}step {step}/100 loss 0.3\n")).collect::<String>();
        assert!(counts(&lines("")));
        assert!(counts(
            "63/63 [====] - 1s loss: 0.3\nEpoch 2/3\r 1/63 [=>..] - ETA: 1s - loss: 0.3\r 2/63 [==>.] - ETA: 1s - loss: 0.3\r 3/63 [===>] - ETA: 1s - loss: 0.3"
        ));
        assert!(!counts(&lines("(RayTrainWorker pid=23816) ")), "a driver prints what its workers print");
        assert!(!counts(&lines("[rank0]: ")));
        assert!(!counts("step 5/100 loss 0.3\n"), "one line is no rhythm");
        assert!(!counts("step 5/100 loss 0.3\nstep 5/100 loss 0.3\nstep 5/100 loss 0.3\n"));
        assert!(!counts("listening at 8000\nGET /step/1\nGET /step/2\nGET /step/3\n"));
    }
}
