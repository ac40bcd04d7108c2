//! Files that others write the output of a process to: `torchrun … 2>&1 | tee train.log`, also behind filters, and the protocol that
//! `script` or `screen -L` keeps of a terminal.

use super::output_files;
use super::process_table::{Entry, Table};
use super::read::Reader;
use crate::observe::process::ProcessLog;
use std::collections::HashMap;
use std::path::Path;

/// Programs of one pipeline behind each other.
const LEVELS: usize = 4;
/// Programs that read from one pipe.
const MOST: usize = 4;
/// Scans until one is looked for again, where none was found and where one was.
const AGAIN: u32 = 2;
const ANEW: u32 = 20;
const MOST_KNOWN: usize = 256;
/// They write what their terminal shows to a file.
const PROTOCOLS: &[&[u8]] = &[b"script", b"screen"];
/// What it writes is a recording of this job and no log of it.
const OWN: &[u8] = b"nccl-top";

/// What was found, by the pipe or terminal.
#[derive(Default)]
pub struct PassedOn(HashMap<String, (u32, Vec<ProcessLog>)>);

impl PassedOn {
    /// The files behind those outputs of a process that are none themselves.
    pub fn files(&mut self, table: &Table, reader: &mut Reader, pid: u32, outputs: &[ProcessLog]) -> Vec<ProcessLog> {
        let mut files: Vec<ProcessLog> = Vec::new();
        for output in outputs.iter().filter(|output| output.inode.is_none()) {
            let is_terminal = output.path.starts_with("/dev/pts/");
            if !is_terminal && !output.path.starts_with("pipe:") {
                continue;
            }
            let known = self.0.get(&output.path).filter(|(scan, files)| {
                let age = table.scan.wrapping_sub(*scan);
                age < if files.is_empty() { AGAIN } else { ANEW }
            });
            let found = match known {
                Some((_, files)) => files.clone(),
                None => {
                    let found = if is_terminal { protocol(table, reader, pid) } else { behind(table, reader, &output.path) };
                    if self.0.len() >= MOST_KNOWN {
                        self.0.clear();
                    }
                    self.0.insert(output.path.clone(), (table.scan, found.clone()));
                    found
                }
            };
            let is_new =
                |log: &ProcessLog, all: &[ProcessLog]| all.iter().all(|other| (other.device, other.inode) != (log.device, log.inode));
            for log in found {
                if is_new(&log, outputs) && is_new(&log, &files) {
                    files.push(ProcessLog { via: output.via, ..log });
                }
            }
        }
        files
    }
}

/// What the programs write that read from a pipe, or from one that these write to.
fn behind(table: &Table, reader: &mut Reader, pipe: &str) -> Vec<ProcessLog> {
    let passes = |entry: &Entry| !entry.dead && !entry.kernel_thread && entry.role.is_none() && entry.comm != OWN;
    let mut files = Vec::new();
    let (mut pipes, mut at) = (vec![pipe.to_owned()], 0);
    while at < pipes.len().min(LEVELS) {
        let reads = |pid: &u32| std::fs::read_link(reader.path(*pid, "fd/0")).is_ok_and(|from| from == Path::new(&pipes[at]));
        let mut readers: Vec<u32> = table.entries.iter().filter(|(_, entry)| passes(entry)).map(|(pid, _)| *pid).filter(reads).collect();
        readers.sort_unstable();
        for pid in readers.into_iter().take(MOST) {
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

fn protocol(table: &Table, reader: &mut Reader, pid: u32) -> Vec<ProcessLog> {
    let keeps = |pid: &u32| table.get(*pid).is_some_and(|entry| PROTOCOLS.contains(&entry.comm.as_slice()));
    let keeper = table.ancestors(pid).find(keeps);
    keeper.map_or_else(Vec::new, |pid| output_files::written(reader, pid).into_iter().take(1).collect())
}
