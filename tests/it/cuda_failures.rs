//! Failures of CUDA and its libraries, in all wordings.

use nccl_top::logs::What;
use nccl_top::logs::cuda::find;

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
