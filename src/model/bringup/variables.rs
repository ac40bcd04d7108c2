//! Variables that NCCL knows, and names that only look like them.

/// Renamed or taken away, and what to use instead.
const GONE: &[(&str, &str)] = &[
    ("NCCL_MAX_P2P_PEERS", "NCCL_P2P_MAX_PEERS"),
    ("NCCL_LL_THRESHOLD", "NCCL_PROTO, or nothing: removed in 2.5"),
    ("NCCL_TREE_THRESHOLD", "NCCL_ALGO, or nothing: removed in 2.5"),
    ("NCCL_SINGLE_RING_THRESHOLD", "nothing: removed in 2.3"),
    ("NCCL_MAX_NRINGS", "NCCL_MAX_NCHANNELS"),
    ("NCCL_MIN_NRINGS", "NCCL_MIN_NCHANNELS"),
    ("NCCL_IB_CUDA_SUPPORT", "NCCL_NET_GDR_LEVEL"),
    ("NCCL_CHECKS_DISABLE", "NCCL_CHECK_POINTERS"),
    ("NCCL_IFNAME", "NCCL_SOCKET_IFNAME"),
    ("NCCL_IB_SERVICE_LEVEL", "NCCL_IB_SL"),
    ("NCCL_IB_TRAFFIC_CLASS", "NCCL_IB_TC"),
    ("NCCL_IB_GID", "NCCL_IB_GID_INDEX"),
    ("NCCL_NET_GDR", "NCCL_NET_GDR_LEVEL"),
    ("NCCL_TIMEOUT", "the timeout argument of init_process_group"),
];

/// Read by PyTorch under a new name since 2.2; under the old one it warns.
const OF_TORCH: &[&str] =
    &["NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT", "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING", "NCCL_USE_COMM_NONBLOCKING"];

#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "NCCL_ALGO", "NCCL_ALLOC_P2P_NET_LL_BUFFERS", "NCCL_BUFFSIZE", "NCCL_CGA_CLUSTER_SIZE", "NCCL_CHECK_POINTERS", "NCCL_CHUNK_SIZE",
    "NCCL_COLLNET_ENABLE", "NCCL_COLLNET_NODE_THRESHOLD", "NCCL_COMM_BLOCKING", "NCCL_COMM_ID", "NCCL_COMM_SPLIT_SHARE_RESOURCES",
    "NCCL_CONF_FILE", "NCCL_CREATE_THREAD_CONTEXT", "NCCL_CROSS_NIC", "NCCL_CTA_POLICY", "NCCL_CUDA_PATH", "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE", "NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS", "NCCL_DMABUF_ENABLE", "NCCL_ENV_PLUGIN", "NCCL_GDRCOPY_ENABLE", "NCCL_GIN_ENABLE", "NCCL_GIN_PLUGIN",
    "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_FILE", "NCCL_GRAPH_MIXING_SUPPORT", "NCCL_GRAPH_REGISTER", "NCCL_HOSTID", "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_AR_THRESHOLD", "NCCL_IB_DATA_DIRECT", "NCCL_IB_DISABLE", "NCCL_IB_ECE_ENABLE",
    "NCCL_IB_FIFO_TC", "NCCL_IB_GID_INDEX", "NCCL_IB_HCA", "NCCL_IB_MERGE_NICS", "NCCL_IB_MERGE_VFS", "NCCL_IB_MQP_RETRY_ALL",
    "NCCL_IB_MQP_RETRY_CNT", "NCCL_IB_MQP_RETRY_SLEEP_MSEC", "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_PKEY", "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_RETRY_CNT", "NCCL_IB_RETURN_ASYNC_EVENTS", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_SL", "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_TC",
    "NCCL_IB_TIMEOUT", "NCCL_IB_USE_INLINE", "NCCL_IB_WARN_RAIL_LOCAL", "NCCL_IGNORE_CPU_AFFINITY", "NCCL_IGNORE_DISABLED_P2P",
    "NCCL_LAUNCH_MODE", "NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_LL128_BUFFSIZE", "NCCL_LL_BUFFSIZE", "NCCL_LOCAL_REGISTER", "NCCL_MAX_CTAS",
    "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MNNVL_CLIQUE_ID", "NCCL_MNNVL_ENABLE", "NCCL_MNNVL_UUID",
    "NCCL_NCHANNELS_PER_NET_PEER", "NCCL_NET", "NCCL_NET_DISABLE_INTRA", "NCCL_NET_FORCE_FLUSH", "NCCL_NET_GDR_C2C", "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ", "NCCL_NET_MERGE_LEVEL", "NCCL_NET_OPTIONAL_RECV_COMPLETION", "NCCL_NET_OVERHEAD", "NCCL_NET_PLUGIN",
    "NCCL_NET_SHARED_BUFFERS", "NCCL_NET_SHARED_COMMS", "NCCL_NSOCKS_PERTHREAD", "NCCL_NTHREADS", "NCCL_NVB_DISABLE", "NCCL_NVB_PRECONNECT",
    "NCCL_NVLS_CHUNKSIZE", "NCCL_NVLS_ENABLE", "NCCL_NVLS_NCHANNELS", "NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME", "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_P2P_LL_THRESHOLD", "NCCL_P2P_MAX_PEERS", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_P2P_NVL_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE", "NCCL_P2P_PXN_LEVEL", "NCCL_P2P_READ_ENABLE", "NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_PAT_ENABLE",
    "NCCL_PROFILER_PLUGIN", "NCCL_PROFILE_DUMP_FILE", "NCCL_PROFILE_EVENT_MASK", "NCCL_PROGRESS_APPENDOP_FREQ", "NCCL_PROTO",
    "NCCL_PROXY_APPEND_BATCH_SIZE", "NCCL_PROXY_DUMP_SIGNAL", "NCCL_PXN_DISABLE", "NCCL_RAS_ADDR", "NCCL_RAS_ENABLE",
    "NCCL_RAS_TIMEOUT_FACTOR", "NCCL_RINGS", "NCCL_RMA_PLUGIN", "NCCL_RUNTIME_CONNECT", "NCCL_SET_STACK_SIZE", "NCCL_SET_THREAD_NAME",
    "NCCL_SHM_DISABLE", "NCCL_SHM_LOCALITY", "NCCL_SHM_USE_CUDA_MEMCPY", "NCCL_SINGLE_PROC_MEM_REG_ENABLE", "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS", "NCCL_SOCKET_RETRY_CNT", "NCCL_SOCKET_RETRY_SLEEP_MSEC", "NCCL_THREAD_THRESHOLDS",
    "NCCL_TOPO_DUMP_FILE", "NCCL_TOPO_DUMP_FILE_RANK", "NCCL_TOPO_FILE", "NCCL_TUNER_PLUGIN", "NCCL_UID_STAGGER_RATE",
    "NCCL_UID_STAGGER_THRESHOLD", "NCCL_UNPACK_DOUBLE_NACK", "NCCL_WARN_ENABLE_DEBUG_INFO", "NCCL_WIN_ENABLE", "NCCL_WIN_STRIDE",
    "NCCL_WORK_ARGS_BYTES", "NCCL_WORK_FIFO_BYTES", "NCCL_VERSION", "NCCL_HOME", "NCCL_ROOT", "NCCL_INCLUDE_DIR", "NCCL_LIB_DIR",
];

/// Why a name that is set does nothing, as far as that is known.
#[derive(Debug, PartialEq)]
pub(super) enum Doubt {
    /// Gone; and what to use instead.
    Gone(&'static str),
    /// Of PyTorch, which has another name for it.
    OfTorch,
    /// Nearly this one.
    Like(&'static str),
}

pub(super) fn doubt(name: &str) -> Option<Doubt> {
    if let Some((_, now)) = GONE.iter().find(|(gone, _)| *gone == name) {
        return Some(Doubt::Gone(now));
    }
    if OF_TORCH.contains(&name) {
        return Some(Doubt::OfTorch);
    }
    // Plugins and tools have their own.
    let own = ["NCCL_OFI_", "NCCL_TESTS_", "NCCL_FASTRAK_", "NCCL_GPUVIZ_", "NCCL_INSPECTOR_", "NCCL_SHARP_", "NCCL_TUNER_", "NCCL_GCP"];
    if !(name.starts_with("NCCL_") || name.starts_with("NCLL_") || name.starts_with("NCC_"))
        || KNOWN.contains(&name)
        || own.iter().any(|o| name.starts_with(o))
    {
        return None;
    }
    // Short names are near one another.
    let most = match name.len() {
        ..=11 => 1,
        _ => 2,
    };
    let near = KNOWN.iter().map(|known| (distance(name, known, most), *known)).filter(|(d, _)| *d <= most);
    near.min().map(|(_, known)| Doubt::Like(known))
}

/// Letters to change, leave out or put in; `most + 1` where it is more.
fn distance(a: &str, b: &str, most: usize) -> usize {
    if a.len().abs_diff(b.len()) > most || a.len() > 64 {
        return most + 1;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()].min(most + 1)
}

/// These differ from rank to rank or from node to node in sound jobs.
pub(super) fn may_differ(name: &str) -> bool {
    name.ends_with("_FILE") || name.ends_with("_FILE_RANK") || matches!(name, "NCCL_HOSTID" | "NCCL_COMM_ID" | "NCCL_CONF_FILE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_nothing() {
        for (name, want) in [
            ("NCCL_SOCKET_IFNAME", None),
            ("NCCL_SOCKET_IFNAMES", Some(Doubt::Like("NCCL_SOCKET_IFNAME"))),
            ("NCCL_SOCKET_INFAME", Some(Doubt::Like("NCCL_SOCKET_IFNAME"))),
            ("NCLL_DEBUG", Some(Doubt::Like("NCCL_DEBUG"))),
            ("NCCL_IB_DISABLED", Some(Doubt::Like("NCCL_IB_DISABLE"))),
            ("NCCL_MAX_P2P_PEERS", Some(Doubt::Gone("NCCL_P2P_MAX_PEERS"))),
            ("NCCL_ASYNC_ERROR_HANDLING", Some(Doubt::OfTorch)),
            ("NCCL_OFI_PROTOCOL", None),
            ("NCCL_MY_OWN_THING", None),
            ("TORCH_NCCL_TRACE_BUFFER_SIZE", None),
        ] {
            assert_eq!(doubt(name), want, "{name}");
        }
        assert!(KNOWN.iter().all(|k| doubt(k).is_none()));
    }
}
