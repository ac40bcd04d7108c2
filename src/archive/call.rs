//! What NCCL was about when a call of it failed, by the source files that it names on the way out: `transport.cc:97 -> 3`.

use super::Report;
use super::again::Proof;
use crate::logs::What;

/// Files of it that are told.
const MOST_FILES: usize = 5;

/// `while NCCL set up a communicator (transport/p2p.cc, transport.cc, init.cc)`, of the process that the cause is of. Once a job has made steps
/// the way out may be that of the end of its communicators.
pub(super) fn of(report: &Report, proof: &Proof) -> Option<String> {
    let alarm = report.alarm_of(&report.findings[report.root_cause?]).filter(|alarm| !alarm.position.has_trained)?;
    let What::NcclWarn { site, .. } = &alarm.event.what else { return None };
    let site = site.as_deref().and_then(file_in)?;
    // NCCL's own head: `node-01:189884:189990 [3]`.
    let origin = &alarm.event.origin;
    let process = format!("{}:{}:", origin.host.as_deref()?, origin.pid?);
    let thread = format!("{process}{} ", origin.tid?);
    let mut files = vec![site.to_owned()];
    let mut own_files = files.clone();
    for line in proof.below() {
        let line = String::from_utf8_lossy(line);
        let Some(tail) = behind(&line, &process) else { continue };
        let way_out = tail.split_once(" -> ").filter(|(_, code)| code.starts_with(|c: char| c.is_ascii_digit()));
        let Some(file) = way_out.and_then(|(place, _)| file_in(place)) else { break };
        files.push(file.to_owned());
        own_files.extend(behind(&line, &thread).map(|_| file.to_owned()));
    }
    let has_way_out = files.len() > 1;
    files.dedup();
    let has = |start: &str| files.iter().any(|file| file.starts_with(start));
    let is_of_init = site.starts_with("init.c") && files.iter().all(|file| file.starts_with("init.c") || file.starts_with("group.c"));
    let comes_up = has("bootstrap.cc")
        || is_of_init && has_way_out
        || has("init.c") && ["transport", "graph/", "misc/socket.cc"].iter().any(|part| has(part));
    // Since 2.21 the first collective of a kind connects ranks; what goes on in a transfer comes from proxies alone.
    let connects = ["transport.c", "transport/p2p.c", "transport/shm.c"].iter().any(|part| has(part));
    let doing = match (comes_up, connects) {
        (true, _) => "while NCCL set up a communicator",
        (_, true) => "while NCCL connected ranks",
        _ if own_files.iter().any(|file| file.starts_with("enqueue.cc")) => {
            files = own_files;
            files.dedup();
            "while NCCL started a collective"
        }
        _ => return None,
    };
    files.truncate(MOST_FILES);
    Some(format!("{doing} ({})", files.join(", ")))
}

/// What stands behind the head of a line, where that is no end of a longer name.
fn behind<'a>(line: &'a str, head: &str) -> Option<&'a str> {
    let (before, tail) = line.split_once(head)?;
    before.chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.')).then_some(tail)
}

/// `transport/p2p.cc` of `NCCL INFO /build/src/transport/p2p.cc:438`.
fn file_in(place: &str) -> Option<&str> {
    let word = place.split_whitespace().next_back()?;
    let (file, line) = word.split_once(':')?;
    let file = file.rsplit_once("/src/").map_or(file, |(_, file)| file);
    let is_source = file.ends_with(".cc") || file.ends_with(".cu") || file.ends_with(".h");
    (is_source && line.starts_with(|c: char| c.is_ascii_digit())).then_some(file)
}
