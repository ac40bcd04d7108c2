//! What the NCCL Inspector measures, put together from the ranks on this node, beside what such machines reach.

use super::comm::Comm;
use super::{MAX_PROCESSES, Model};
use crate::base::bandwidth::{self, Does, Gpu, Reach, Shape};
use crate::formats::inspector::{bucket, joins};
use crate::observe::inspector::{Inspected, InspectedComm, InspectedOp};
use std::collections::BTreeMap;

/// Of one process. The source passes on fewer.
const MAX_COMMS: usize = 64;
const MAX_OPS: usize = 128;
const MAX_PEERS: usize = 64;
/// Smaller messages are bound by latency, and tell nothing of bandwidth.
const LEAST_BYTES: u64 = 64 << 20;

/// One kind of operation of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Fastest<'a> {
    /// The newest of the rank that was done first: who comes last to a collective does not wait, so its time is that of the transfer.
    pub op: &'a InspectedOp,
    pub reach: Option<&'static Reach>,
}

impl Fastest<'_> {
    /// Of what such machines reach with the largest messages, percent.
    pub fn share_pct(&self) -> Option<f64> {
        Some(self.op.busbw_gbytes_per_s? / self.reach?.gbytes_per_s * 100.0)
    }
}

impl Model {
    pub(super) fn apply_inspected(&mut self, seen: &Inspected) {
        if self.inspected.len() >= MAX_PROCESSES && !self.inspected.contains_key(&seen.pid) {
            self.leave_out("a file of the Inspector", 1, MAX_PROCESSES);
            return;
        }
        let mut seen = seen.clone();
        seen.comms.truncate(MAX_COMMS);
        for comm in &mut seen.comms {
            comm.ops.truncate(MAX_OPS);
            comm.peers.truncate(MAX_PEERS);
        }
        self.inspected.insert(seen.pid, seen);
    }

    /// The operations of a communicator that the Inspector has measured on this node, the largest first.
    pub fn fastest_of(&self, comm: &Comm) -> Vec<Fastest<'_>> {
        let members: Vec<&InspectedComm> =
            self.inspected.values().flat_map(|i| &i.comms).filter(|c| c.n_ranks == comm.nranks && joins(&c.id, comm.hash)).collect();
        let mut fastest: BTreeMap<(&str, u64), &InspectedOp> = BTreeMap::new();
        for op in members.iter().flat_map(|member| &member.ops) {
            let known = fastest.entry((&op.name, bucket(op.bytes))).or_insert(op);
            if op.exec_us.is_some_and(|us| known.exec_us.is_none_or(|least| us < least)) {
                *known = op;
            }
        }
        let nnodes = members.iter().find_map(|member| member.nnodes);
        let shape = nnodes.and_then(|nodes| self.shape(comm.nranks, nodes));
        let reach = |op: &InspectedOp| {
            let busbw = op.busbw_gbytes_per_s.filter(|_| op.bytes >= LEAST_BYTES)?;
            // What larger ones reach: those of a training run seldom are as large.
            bandwidth::reach(shape?, Does::of_name(&op.name)?, u64::MAX, busbw, None)
        };
        let mut all: Vec<Fastest> = fastest.into_values().map(|op| Fastest { op, reach: reach(op) }).collect();
        all.sort_by(|a, b| b.op.bytes.cmp(&a.op.bytes).then_with(|| a.op.name.cmp(&b.op.name)));
        all
    }

    /// GPUs of one model, spread evenly: as far as this node shows.
    fn shape(&self, ranks: u32, nodes: u32) -> Option<Shape> {
        let mut models = self.gpus.values().map(|gpu| gpu.info.name.as_deref().and_then(Gpu::of_name));
        let gpu = models.next()??;
        let alike = models.all(|other| other == Some(gpu)) && nodes > 0 && ranks.is_multiple_of(nodes);
        alike.then_some(Shape { gpu, nodes, per_node: ranks / nodes })
    }
}
