//! What a call is, as NCCL names it, and what two ranks must have in common for it to work.

use super::{Entry, Sizes};

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    AllReduce,
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AlltoAll,
    Gather,
    Scatter,
    Barrier,
    Send,
    Recv,
    /// The end of a block of calls that go out together.
    Coalesced,
    /// Torch's name for something else.
    Other(String),
}

impl Op {
    /// Of `nccl:_all_gather_base`, `gloo:send 0->1`.
    pub fn of(profiling_name: &str) -> Op {
        let name = profiling_name.rsplit(':').next().unwrap_or("").trim();
        let word = name.split(' ').next().unwrap_or("").trim_start_matches('_');
        let begins = |words: &[&str]| words.iter().any(|w| word.starts_with(w));
        match word {
            _ if word.ends_with("barrier") => Op::Barrier,
            "coalesced" => Op::Coalesced,
            "send" => Op::Send,
            "recv" | "recvAnySource" => Op::Recv,
            _ if begins(&["all_reduce", "allreduce"]) => Op::AllReduce,
            _ if begins(&["all_gather", "allgather"]) => Op::AllGather,
            _ if begins(&["reduce_scatter"]) => Op::ReduceScatter,
            _ if begins(&["all_to_all", "alltoall"]) => Op::AlltoAll,
            _ if begins(&["broadcast"]) => Op::Broadcast,
            _ if begins(&["reduce"]) => Op::Reduce,
            _ if begins(&["gather"]) => Op::Gather,
            _ if begins(&["scatter"]) => Op::Scatter,
            _ => Op::Other(name.to_string()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Op::AllReduce => "AllReduce",
            Op::Broadcast => "Broadcast",
            Op::Reduce => "Reduce",
            Op::AllGather => "AllGather",
            Op::ReduceScatter => "ReduceScatter",
            Op::AlltoAll => "AlltoAll",
            Op::Gather => "Gather",
            Op::Scatter => "Scatter",
            Op::Barrier => "Barrier",
            Op::Send => "Send",
            Op::Recv => "Recv",
            Op::Coalesced => "coalesced block",
            Op::Other(name) => name,
        }
    }

    /// No rank can end it before every rank has begun it.
    pub(super) fn synchronizes(&self) -> bool {
        matches!(self, Op::AllReduce | Op::AllGather | Op::ReduceScatter | Op::AlltoAll | Op::Barrier)
    }
}

/// Ranks inside the group: from, to. Of `nccl:send 0->1`, `nccl:recv 0<-1`.
pub(super) fn peers(profiling_name: &str) -> Option<(u32, u32)> {
    let ranks = profiling_name.rsplit(' ').next()?;
    if let Some((from, to)) = ranks.split_once("->") {
        return Some((from.parse().ok()?, to.parse().ok()?));
    }
    let (to, from) = ranks.split_once("<-")?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// What must be equal on all ranks. NCCL counts elements: it does not care for shapes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Signature {
    pub op: Op,
    pub input: Vec<u64>,
    pub output: Vec<u64>,
    pub dtype: Option<String>,
}

impl Signature {
    pub fn of(entry: &Entry) -> Signature {
        let op = Op::of(&entry.name);
        let (input, output) = (elements(&entry.input_sizes), elements(&entry.output_sizes));
        let sum = |counts: &[u64]| vec![counts.iter().fold(0u64, |all, n| all.saturating_add(*n))];
        let (input, output) = match op {
            Op::AllReduce => (input, output),
            Op::AllGather | Op::ReduceScatter => (sum(&input), sum(&output)),
            // A rank that is not the root may give no input, or no output.
            Op::Broadcast | Op::Scatter => (Vec::new(), sum(&output)),
            Op::Reduce | Op::Gather => (sum(&input), Vec::new()),
            // Each pair of ranks has sizes of its own.
            _ => (Vec::new(), Vec::new()),
        };
        let dtype = match op {
            Op::Scatter => entry.output_dtypes.first(),
            Op::Barrier => None,
            _ => entry.input_dtypes.first().or(entry.output_dtypes.first()),
        };
        let empty = input.iter().chain(&output).all(|n| *n == 0);
        let dtype = dtype.filter(|_| !empty || op == Op::AlltoAll).map(|name| name.to_string());
        Signature { op, input, output, dtype }
    }

    /// Between its own input and output, in a group of `size` ranks.
    pub fn fits(&self, size: usize) -> bool {
        let size = size as u64;
        match (&self.op, self.input.as_slice(), self.output.as_slice()) {
            (Op::AllGather, [input], [output]) => input.checked_mul(size) == Some(*output),
            (Op::ReduceScatter, [input], [output]) => output.checked_mul(size) == Some(*input),
            _ => true,
        }
    }
}

/// Elements of each tensor.
pub(super) fn elements(sizes: &Sizes) -> Vec<u64> {
    sizes.iter().map(|dims| dims.iter().fold(1u64, |all, n| all.saturating_mul(u64::try_from(*n).unwrap_or(0)))).collect()
}
