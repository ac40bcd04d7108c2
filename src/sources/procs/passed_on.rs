//! Files that others write the output of a process to: `torchrun … 2>&1 | tee train.log`, also behind filters, and the protocol that
//! `script` or `screen -L` keeps of a terminal.

use super::output_files;
use super::process_table::{Entry, Table};
use super::read::Reader;
use crate::observe::process::ProcessLog;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Programs of one pipeline behind each other.
const LEVELS: usize = 4;
/// Programs that read from one pipe.
const MOST: usize = 4;
/// Scans until a pipe is looked at again whose readers are known; for one without it takes from two scans to as many.
const ANEW: u32 = 20;
const MOST_KNOWN: usize = 256;
/// They write what their terminal shows to a file.
const PROTOCOLS: &[&[u8]] = &[b"script", b"screen"];
/// What it writes is a recording of this job and no log of it.
const OWN: &[u8] = b"nccl-top";

#[derive(Default)]
pub struct PassedOn {
    /// By the pipe or terminal.
    known: HashMap<String, Known>,
    /// Who reads from which pipe, as of a scan: one look at all processes for all pipes.
    readers: (u32, HashMap<PathBuf, Vec<u32>>),
}

struct Known {
    next_scan: u32,
    /// So often in a row nothing was found.
    in_vain: u32,
    files: Vec<ProcessLog>,
}

impl PassedOn {
    /// The files behind those outputs of a process that are none themselves.
    pub fn files(&mut self, table: &Table, reader: &mut Reader, pid: u32, outputs: &[ProcessLog]) -> Vec<ProcessLog> {
        let mut files: Vec<ProcessLog> = Vec::new();
        for output in outputs.iter().filter(|output| output.inode.is_none()) {
            let is_terminal = output.path.starts_with("/dev/pts/");
            // What a container runtime writes is known already.
            let is_known = outputs.iter().any(|other| other.via == output.via && other.inode.is_some());
            if is_known || !is_terminal && !output.path.starts_with("pipe:") {
                continue;
            }
            let is_new =
                |log: &ProcessLog, all: &[ProcessLog]| all.iter().all(|other| (other.device, other.inode) != (log.device, log.inode));
            for log in self.behind_output(table, reader, pid, output, is_terminal) {
                if is_new(&log, outputs) && is_new(&log, &files) {
                    files.push(ProcessLog { via: output.via, ..log });
                }
            }
        }
        files
    }

    fn behind_output(&mut self, table: &Table, reader: &mut Reader, pid: u32, output: &ProcessLog, is_terminal: bool) -> Vec<ProcessLog> {
        let before = self.known.get(&output.path);
        if let Some(known) = before.filter(|known| table.scan < known.next_scan) {
            return known.files.clone();
        }
        let in_vain = before.map_or(0, |known| known.in_vain);
        let files = if is_terminal { protocol(table, reader, pid) } else { self.behind(table, reader, &output.path) };
        let (in_vain, wait) = if files.is_empty() { (in_vain + 1, (2 << in_vain.min(4)).min(ANEW)) } else { (0, ANEW) };
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        self.known.insert(output.path.clone(), Known { next_scan: table.scan.saturating_add(wait), in_vain, files: files.clone() });
        files
    }

    /// What the programs write that read from a pipe, or from one that these write to.
    fn behind(&mut self, table: &Table, reader: &mut Reader, pipe: &str) -> Vec<ProcessLog> {
        if self.readers.0 != table.scan {
            self.readers = (table.scan, readers(table, reader));
        }
        let mut files = Vec::new();
        let (mut pipes, mut at) = (vec![pipe.to_owned()], 0);
        while at < pipes.len().min(LEVELS) {
            for &pid in self.readers.1.get(Path::new(&pipes[at])).into_iter().flatten().take(MOST) {
                // Of copies one is enough.
                let copy = output_files::written(reader, pid).into_iter().next();
                if copy.is_some() {
                    files.extend(copy);
                    continue;
                }
                for log in output_files::output(reader, pid).unwrap_or_default() {
                    match log.inode {
                        Some(_) => files.push(log),
                        None if log.path.starts_with("pipe:") => pipes.push(log.path),
                        None => {}
                    }
                }
            }
            at += 1;
        }
        files
    }
}

fn readers(table: &Table, reader: &Reader) -> HashMap<PathBuf, Vec<u32>> {
    let passes = |entry: &Entry| !entry.dead && !entry.kernel_thread && entry.role.is_none() && entry.comm != OWN;
    let mut readers: HashMap<PathBuf, Vec<u32>> = HashMap::new();
    for (pid, _) in table.entries.iter().filter(|(_, entry)| passes(entry)) {
        if let Ok(from) = std::fs::read_link(reader.path(*pid, "fd/0"))
            && from.as_os_str().as_encoded_bytes().starts_with(b"pipe:")
        {
            readers.entry(from).or_default().push(*pid);
        }
    }
    readers.values_mut().for_each(|pids| pids.sort_unstable());
    readers
}

fn protocol(table: &Table, reader: &mut Reader, pid: u32) -> Vec<ProcessLog> {
    let keeps = |pid: &u32| table.get(*pid).is_some_and(|entry| PROTOCOLS.contains(&entry.comm.as_slice()));
    let keeper = table.ancestors(pid).find(keeps);
    keeper.map_or_else(Vec::new, |pid| output_files::written(reader, pid).into_iter().take(1).collect())
}
