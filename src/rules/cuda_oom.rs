//! A GPU ran out of memory.

use super::chain::Chain;
use super::{Implies, ONCE, Rule, TextContext};
use crate::base::severity::Severity;
use crate::logs::What;
use crate::logs::gpu_memory::GpuMemory;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "cuda-oom",
    severity: Severity::Error,
    title: "A GPU ran out of memory",
    says: "ran out of GPU memory",
    how: "\"CUDA out of memory\" in the log, in the forms of all PyTorch versions",
    advice: "Lower the batch or sequence length of that rank, or look for another process on its GPU; reserved far above allocated is fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    life: ONCE,
    implies: Implies::Failed,
    chain: Chain { is_of_its_writer: true, ..Chain::ENDS_ITS_RANK },
    on_text: Some(check),
    ..Rule::PLAIN
};

/// Calls of PyTorch that exchange objects: their sizes first.
const EXCHANGES: &[&str] = &["gather_object", "broadcast_object_list", "scatter_object"];

const NEXT: &str = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv";

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::CudaOom { text, .. } = &ctx.seen.event.what else { return };
    if ctx.warned(text) {
        return;
    }
    let mut found = ctx.first_of_its_kind(&RULE, text, "");
    ctx.sign(&mut found, text);
    let memory = GpuMemory::of(text);
    // The figure that matters stands last in the message, which may be cut before it.
    if let Some(end) = found.summary.find(" Tried to allocate ").filter(|_| memory.wanted_bytes.is_some()) {
        let wanted = memory.wanted_bytes.map_or(String::new(), size);
        found.summary = format!("{} Tried to allocate {wanted}{}", &found.summary[..end], place_words(&memory));
        ctx.tell_doing(&mut found);
    }
    let (mut holds, mut next) = held_words(&memory);
    // What ranks exchange there is a size at first: where it is none, one of them was in another call.
    let said = ctx.seen.event.said_at.as_ref();
    let is_object = said.is_some_and(|said| {
        let calls = [said.calls.as_str(), said.source.as_deref().unwrap_or_default()];
        EXCHANGES.iter().any(|name| calls.iter().any(|calls| calls.contains(name)))
    });
    if is_object && memory.wanted_bytes > memory.total_bytes && memory.total_bytes.is_some() {
        holds = holds.map(|words| {
            format!("{words}: a size that another rank sent in an exchange of objects, and that is none; that rank was in another call")
        });
        next = Some(
            "Not memory: see that all ranks call the same collectives in the same order, of this group too; Flight Recorder (TORCH_NCCL_TRACE_BUFFER_SIZE) shows each rank's calls.",
        );
    }
    let holds_are_told = holds.is_some();
    if let Some(holds) = holds {
        found.why = format!("{holds} · {}", found.why);
    }
    found.next = next.map(str::to_owned).or(found.next);
    // Where the message does not tell, the first question is who holds the memory.
    if !holds_are_told && !ctx.model.processes.is_empty() || found.next.is_none() {
        found.next = Some(NEXT.into());
    }
    out.push(found);
}

/// ` on its GPU 3, of whose 79.1 GiB 98 MiB were free`
fn place_words(memory: &GpuMemory) -> String {
    let gpu = memory.gpu.map(|gpu| format!(" on its GPU {gpu}"));
    let free = memory.free_bytes.zip(memory.total_bytes).map(|(free, total)| format!("{} of {} were free", size(free), size(total)));
    match (gpu, free) {
        (Some(gpu), Some(free)) => format!("{gpu}; {free}"),
        (gpu, free) => gpu.or(free.map(|free| format!("; {free}"))).unwrap_or_default(),
    }
}

/// Less than this part of the GPU is what every process has: its context, NCCL's buffers.
const MUCH: u64 = 8;

/// Who holds the memory, where the message lets it be told, and what to do about it.
fn held_words(memory: &GpuMemory) -> (Option<String>, Option<&'static str>) {
    let is_much = |bytes: &u64| memory.total_bytes.is_some_and(|total| *bytes >= total / MUCH);
    if let Some((held, total)) = memory.unnamed_bytes.zip(memory.total_bytes).filter(|(held, total)| held > total) {
        let own = memory.allocated_bytes.map_or(String::new(), |own| format!("; PyTorch used {} in this process", size(own)));
        let next = "Ask for a GPU of one's own, or for a larger part of this one; what is free on it is not what this process may have.";
        let words =
            format!("several processes hold {} on it, more than it has ({}): it is shared or a virtual one{own}", size(held), size(total));
        return (Some(words), Some(next));
    }
    let here = memory.allocated_bytes.map_or(String::new(), |own| format!("PyTorch used {} in this process, ", size(own)));
    let own = memory.own_bytes.map_or(String::new(), |own| format!("this process held {}, ", size(own)));
    if let Some(others) = memory.others_bytes().filter(is_much) {
        let next = "See who has the rest: `nvidia-smi`. End what is left of an earlier job, or give each process a GPU of its own.";
        return (Some(format!("{own}other processes {}", size(others))), Some(next));
    }
    if let Some((wanted, total)) = memory.wanted_bytes.zip(memory.total_bytes).filter(|(wanted, total)| wanted > total) {
        let next = "Look at the shapes where it was raised: a wrong length, batch or dimension.";
        return (Some(format!("one allocation of {} is more than the whole GPU has ({})", size(wanted), size(total))), Some(next));
    }
    if let Some(idle) = memory.unallocated_bytes.filter(|idle| is_much(idle) && memory.wanted_bytes.is_some_and(|wanted| *idle >= wanted)) {
        let next = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; batches of the same shape.";
        return (Some(format!("PyTorch held {} that were not in use: its memory is in pieces that are too small", size(idle))), Some(next));
    }
    if let Some(beside) = memory.beside_pytorch_bytes().filter(|beside| memory.own_bytes.is_some() && is_much(beside)) {
        let next = "Give the engine's cache a smaller part (gpu_memory_utilization, mem_fraction_static, cache_max_entry_count), or see what else allocates in this process.";
        return (Some(format!("{own}{} of it not PyTorch's", size(beside))), Some(next));
    }
    if let Some(rest) = memory.beside_pytorch_bytes().filter(|rest| memory.own_bytes.is_none() && is_much(rest)) {
        let next = "See who has the rest: `nvidia-smi` on the host: another process, or a cache in this one that is not PyTorch's.";
        return (Some(format!("{here}and {} were held beside it", size(rest))), Some(next));
    }
    (memory.own_bytes.map(|own| format!("this process held {}", size(own))), None)
}

/// As PyTorch has sizes: `12.55 GiB`.
fn size(bytes: u64) -> String {
    let of = |power: i32| bytes as f64 / 1024f64.powi(power);
    match bytes {
        0..0x10_0000 => format!("{:.2} KiB", of(1)),
        0x10_0000..0x4000_0000 => format!("{:.2} MiB", of(2)),
        _ => format!("{:.2} GiB", of(3)),
    }
}
