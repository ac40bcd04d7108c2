//! The figures in PyTorch's words for a GPU that is out of memory, of all its versions.

/// What an out-of-memory message says, as far as it does. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuMemory {
    /// As the process counts its GPUs.
    pub gpu: Option<u32>,
    pub wanted_bytes: Option<u64>,
    pub total_bytes: Option<u64>,
    pub free_bytes: Option<u64>,
    /// Of the process that says it, with what is not PyTorch's (from 2.1).
    pub own_bytes: Option<u64>,
    /// Of processes that it cannot tell from itself: in a container the driver numbers them otherwise.
    pub unnamed_bytes: Option<u64>,
    /// PyTorch's own, in use.
    pub allocated_bytes: Option<u64>,
    /// PyTorch's own, not in use.
    pub unallocated_bytes: Option<u64>,
}

impl GpuMemory {
    /// PyTorch up to 2.0: `Tried to allocate 2.50 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free; 13.71 GiB
    /// reserved in total by PyTorch)`. Later: `Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB of which 11.06 MiB is free.
    /// Including non-PyTorch memory, this process has 79.08 GiB memory in use. Of the allocated memory 77.01 GiB is allocated by PyTorch, and
    /// 512.00 MiB is reserved by PyTorch but unallocated.`
    pub fn of(text: &str) -> GpuMemory {
        let behind = |words: &str| size_at(text.split_once(words)?.1);
        let before = |words: &str| size_at_end(text.split_once(words)?.0);
        let allocated_bytes = before(" already allocated").or_else(|| before(" is allocated by PyTorch"));
        let of_reserved = || before(" reserved in total by PyTorch")?.checked_sub(allocated_bytes?);
        GpuMemory {
            gpu: gpu(text),
            wanted_bytes: behind("Tried to allocate ").or_else(|| behind("Requested size: ")),
            total_bytes: before(" total capacity").or_else(|| behind(" total capacity of ")).or_else(|| behind(" total capacty of ")),
            free_bytes: before(" free;").or_else(|| before(" is free")),
            own_bytes: behind("this process has "),
            unnamed_bytes: of_processes(text),
            allocated_bytes,
            unallocated_bytes: before(" is reserved by PyTorch but unallocated").or_else(of_reserved),
        }
    }

    /// What other processes hold, where the message lets it be told.
    pub fn others_bytes(&self) -> Option<u64> {
        self.total_bytes?.checked_sub(self.free_bytes?)?.checked_sub(self.own_bytes?)
    }

    /// What this process holds beside PyTorch's pool: CUDA's context, NCCL, the cache of an inference engine. With others, where they cannot be
    /// told from it, as up to PyTorch 2.0.
    pub fn beside_pytorch_bytes(&self) -> Option<u64> {
        let in_use = || self.total_bytes?.checked_sub(self.free_bytes?);
        self.own_bytes.or(self.unnamed_bytes).or_else(in_use)?.checked_sub(self.allocated_bytes?)?.checked_sub(self.unallocated_bytes?)
    }
}

/// Of `Process 4120 has 30.00 GiB memory in use.`, of all of them.
fn of_processes(text: &str) -> Option<u64> {
    let held = text.split("Process ").skip(1).filter_map(|tail| {
        let (pid, tail) = tail.split_once(" has ")?;
        pid.parse::<u32>().ok()?;
        size_at(tail)
    });
    held.reduce(u64::saturating_add)
}

/// `GPU 1 has a total capacity of`, and `(GPU 1; ` up to 2.0.
fn gpu(text: &str) -> Option<u32> {
    let (before, _) = text.split_once(" has a total").or_else(|| text.split_once("; ").filter(|(before, _)| before.contains("(GPU ")))?;
    before.rsplit_once("GPU ")?.1.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// `79.10 GiB of which` in bytes.
fn size_at(tail: &str) -> Option<u64> {
    let mut words = tail.split_whitespace();
    bytes(words.next()?, words.next().unwrap_or_default().trim_end_matches(['.', ',', ';', ')']))
}

/// `(GPU 0; 14.76 GiB` in bytes.
fn size_at_end(head: &str) -> Option<u64> {
    let mut words = head.rsplit(' ');
    let unit = words.next()?;
    bytes(words.next()?, unit)
}

fn bytes(number: &str, unit: &str) -> Option<u64> {
    let value: f64 = number.parse().ok().filter(|value| *value >= 0.0)?;
    let scale = match unit {
        "bytes" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024f64.powi(4),
        _ => return None,
    };
    Some((value * scale).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::GpuMemory;

    const GIB: f64 = (1u64 << 30) as f64;

    fn tenths(bytes: Option<u64>) -> Option<u64> {
        bytes.map(|bytes| (bytes as f64 / GIB * 10.0).round() as u64)
    }

    #[test]
    fn what_is_whose() {
        let of_now = GpuMemory::of(
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity of 79.10 GiB of which 1.10 GiB is free. Process 4120 \
             has 30.00 GiB memory in use. Including non-PyTorch memory, this process has 48.00 GiB memory in use. Of the allocated memory \
             40.00 GiB is allocated by PyTorch, and 5.00 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large",
        );
        assert_eq!((of_now.gpu, of_now.wanted_bytes), (Some(3), Some(20 << 20)));
        assert_eq!((tenths(of_now.total_bytes), tenths(of_now.free_bytes), tenths(of_now.own_bytes)), (Some(791), Some(11), Some(480)));
        assert_eq!((tenths(of_now.others_bytes()), tenths(of_now.beside_pytorch_bytes())), (Some(300), Some(30)));
        let of_old = GpuMemory::of(
            "CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 14.76 GiB total capacity; 8.70 GiB already allocated; 19.75 MiB free; \
             13.70 GiB reserved in total by PyTorch)",
        );
        assert_eq!((of_old.gpu, tenths(of_old.total_bytes), tenths(of_old.allocated_bytes)), (Some(0), Some(148), Some(87)));
        assert_eq!((tenths(of_old.unallocated_bytes), of_old.own_bytes, of_old.others_bytes()), (Some(50), None, None));
        assert_eq!(tenths(of_old.beside_pytorch_bytes()), Some(10));
        assert_eq!(GpuMemory::of("CUDA error: out of memory"), GpuMemory::default());
    }
}
