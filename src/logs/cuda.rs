//! CUDA failures in any program's words. Leaves PyTorch's advice around them ("Compile with …") alone.

use super::gpu_memory::GpuMemory;
use super::{Origin, TextEvent, What};
use crate::base::clean;
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// Texts are cut here.
const MAX_TEXT: usize = 900;

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
        "Failed: Cuda error ",
        "CUDA_ERROR_",
        "CUDA out of memory.",
        "cudaErrorMem",
    ];
    static ANY: LazyLock<AhoCorasick> = LazyLock::new(|| super::torch::words(WORDS));
    // TensorFlow looks for a GPU of its own, also where only a logger brings it along.
    if !ANY.is_match(text) || text.contains("failed call to cuInit") {
        return None;
    }
    if let Some(at) = out_of_memory(text) {
        return Some(What::CudaOom { text: shorten(&text[at..]), tried_bytes: GpuMemory::of(text).wanted_bytes });
    }
    let at = ["CUDA error: ", "CUBLAS_STATUS_", "cuDNN error: ", "CUDNN_STATUS_", "Cuda failure ", "Failed: Cuda error ", "CUDA_ERROR_"]
        .iter()
        .filter_map(|mark| text.find(mark).filter(|at| speaks_of_failure(text, *at, mark)))
        .min()?;
    // XLA names the operation in front of the status.
    let at = text[..at].rfind("custom call '").unwrap_or(at);
    Some(What::CudaError { text: shorten(&text[at..]) })
}

/// A status name alone may be an argument, a symbol or an environment variable; SUCCESS is no failure.
fn speaks_of_failure(text: &str, at: usize, mark: &str) -> bool {
    let inside_a_word = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let tail = &text[at + mark.len()..];
    let word = tail.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
    let no_status = mark.ends_with('_') && (word.len() < 3 || word.starts_with("SUCCESS"));
    // XLA says the status by itself first, and what failed with it behind that.
    let is_bare = matches!(text[..at].trim(), "UNKNOWN:" | "INTERNAL:") && tail.len() == word.len();
    // What Python only warns of was got over: cuDNN tries another plan.
    let is_warned = text[..at].contains("UserWarning: ");
    !(inside_a_word || tail.is_empty() || no_status || is_warned || is_bare)
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

fn shorten(text: &str) -> String {
    clean::clip(text.trim_end(), MAX_TEXT).into_owned()
}
