//! A communicator: what each rank does, and the ranks of this node by name.

use super::page::MOST;
use super::process::position;
use super::{Kind, Page, Subject};
use crate::tui::choices::Opened;
use crate::tui::panes::{Ctx, nccl};

pub const KIND: Kind = Kind { id: "comm", write };

/// Rows for ranks: more than these are not drawn.
const MOST_ROWS: u32 = 400;

fn write(ctx: &Ctx, key: &str, page: &mut Page) -> Option<String> {
    let model = &ctx.session.model;
    let comm = model.comms.get(&u64::from_str_radix(key, 16).ok()?)?;
    page.facts(&nccl::cells(ctx, comm.hash));
    page.head("Ranks");
    let rows = (comm.nranks.min(MOST_ROWS * 8) / 8 + 24).min(MOST_ROWS) as u16;
    page.drawn(u16::MAX, rows, |area, buf| nccl::draw_ranks(ctx, comm.hash, area, buf));
    let here = |pid: Option<u32>| model.processes.values().find(|p| pid.is_some() && (Some(p.info.pid) == pid || p.info.ns_pid == pid));
    let mut ranks: Vec<(u32, u32)> = comm.ranks.iter().filter_map(|(rank, r)| Some((*rank, here(r.pid)?.info.pid))).collect();
    ranks.extend(comm.missing.iter().filter_map(|(rank, r)| Some((*rank, here(r.pid)?.info.pid))));
    ranks.sort_unstable();
    ranks.dedup();
    if !ranks.is_empty() {
        page.head("Of this node");
    }
    for (rank, pid) in ranks.into_iter().take(MOST) {
        let gpu = model.gpu_of_pid(pid).map_or(String::new(), |gpu| format!("  GPU {gpu}"));
        let words = format!("rank {rank}  pid {pid}{gpu}  {}", position(comm, rank));
        page.link(&words, ctx.theme.text, Opened::Detail(Subject::new("process", pid)));
    }
    Some(format!("communicator {}  {} ranks", nccl::short(comm), comm.nranks))
}
