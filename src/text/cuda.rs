//! CUDA failures in any program's words. Leaves PyTorch's advice around them ("Compile with …") alone.

use super::{Origin, TextEvent, What, clean};
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// Texts are cut here: the useful part of an out-of-memory message is its first half.
const MAX_TEXT: usize = 600;

pub fn read(text: &str, origin: &Origin, out: &mut Vec<TextEvent>) {
    if let Some(what) = find(text) {
        out.push(TextEvent { origin: origin.clone(), what, said_at: None });
    }
}

/// The CUDA failure that `text` tells of.
pub fn find(text: &str) -> Option<What> {
    const WORDS: &[&str] = &[
        "CUDA error: ",
        "CUBLAS_STATUS_",
        "cuDNN error: ",
        "CUDNN_STATUS_",
        "Cuda failure ",
        "CUDA_ERROR_",
        "CUDA out of memory.",
        "cudaErrorMem",
    ];
    static ANY: LazyLock<AhoCorasick> = LazyLock::new(|| super::torch::words(WORDS));
    if !ANY.is_match(text) {
        return None;
    }
    if let Some(at) = out_of_memory(text) {
        return Some(What::CudaOom { text: shorten(&text[at..]), tried_bytes: tried_bytes(text) });
    }
    let at = ["CUDA error: ", "CUBLAS_STATUS_", "cuDNN error: ", "CUDNN_STATUS_", "Cuda failure ", "CUDA_ERROR_"]
        .iter()
        .filter_map(|mark| text.find(mark).filter(|at| speaks_of_failure(text, *at, mark)))
        .min()?;
    Some(What::CudaError { text: shorten(&text[at..]) })
}

/// A status name alone may be an argument, a symbol or an environment variable; SUCCESS is no failure.
fn speaks_of_failure(text: &str, at: usize, mark: &str) -> bool {
    let inside_a_word = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let tail = &text[at + mark.len()..];
    let word = tail.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
    let no_status = mark.ends_with('_') && (word.len() < 3 || word.starts_with("SUCCESS"));
    !(inside_a_word || tail.is_empty() || no_status)
}

fn out_of_memory(text: &str) -> Option<usize> {
    [
        "CUDA out of memory.",
        "CUDA error: out of memory",
        "cudaErrorMemoryAllocation",
        "CUDA_ERROR_OUT_OF_MEMORY",
        "CUBLAS_STATUS_ALLOC_FAILED",
    ]
    .iter()
    .filter_map(|m| text.find(m))
    .min()
    .filter(|at| !text[*at..].starts_with("cudaErrorMemoryAllocation'"))
    .or_else(|| text.find("Cuda failure ").filter(|at| text[*at..].contains("'out of memory'")))
}

/// `Tried to allocate 20.00 MiB`
fn tried_bytes(text: &str) -> Option<u64> {
    let tail = ["Tried to allocate ", "Requested size: "].iter().find_map(|m| text.split_once(m))?.1;
    let mut words = tail.split_whitespace();
    let number = words.next()?;
    let value: f64 = number.parse().ok()?;
    let unit = words.next().unwrap_or("").trim_end_matches(['.', ',', ';']);
    let scale = match unit {
        "bytes" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024f64.powi(4),
        _ => return None,
    };
    (value >= 0.0).then(|| (value * scale).round() as u64)
}

fn shorten(text: &str) -> String {
    clean::clip(text.trim_end(), MAX_TEXT).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oom(text: &str) -> Option<u64> {
        match find(text) {
            Some(What::CudaOom { tried_bytes, .. }) => tried_bytes,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn error(text: &str) -> String {
        match find(text) {
            Some(What::CudaError { text }) => text,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn out_of_memory_in_all_forms() {
        assert_eq!(
            oom("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.10 GiB"),
            Some(20 << 20)
        );
        assert_eq!(
            oom("RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB already"),
            Some(5 << 29)
        );
        assert_eq!(
            oom("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 KiB. GPU 0 has a total capacty of"),
            Some(1 << 19)
        );
        assert_eq!(
            oom(
                "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 3 GiB"
            ),
            Some(3 << 30)
        );
        assert_eq!(oom("RuntimeError: CUDA error: out of memory"), None);
        assert_eq!(oom("Cuda failure 2 'out of memory'"), None);
        assert_eq!(oom("CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), None);
    }

    #[test]
    fn cuda_errors() {
        assert_eq!(
            error("torch.AcceleratorError: CUDA error: an illegal memory access was encountered"),
            "CUDA error: an illegal memory access was encountered"
        );
        assert_eq!(error("CUDA error: uncorrectable ECC error encountered"), "CUDA error: uncorrectable ECC error encountered");
        assert_eq!(
            error("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `x`"),
            "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `x`"
        );
        assert_eq!(error("RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR"), "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR");
        assert_eq!(error("Cuda failure 'unspecified launch failure'"), "Cuda failure 'unspecified launch failure'");
        assert_eq!(error("Cuda failure 802 'system not yet initialized'"), "Cuda failure 802 'system not yet initialized'");
    }

    #[test]
    fn advice_is_no_error() {
        for line in [
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            "Search for `cudaErrorMemoryAllocation' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.",
            "CUBLAS_STATUS_SUCCESS",
            "CUDA error: ",
        ] {
            assert_eq!(find(line), None, "{line}");
        }
    }
}
