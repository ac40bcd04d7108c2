//! Kinds of file systems, by the functions of the kernel that wait for them and by the types that mounts have.

/// What the names of a kind's functions and of its mounts begin with. Functions: the modules of Linux, and Lustre's client.
struct Kind {
    id: &'static str,
    functions: &'static [&'static str],
    mounts: &'static [&'static str],
    /// A server answers for it.
    remote: bool,
}

/// The kind of file systems on disks of this machine.
pub const LOCAL: &str = "block";

const KINDS: &[Kind] = &[
    Kind { id: "nfs", functions: &["nfs", "rpc_", "xprt_", "__rpc", "nlm"], mounts: &["nfs"], remote: true },
    Kind {
        id: "lustre",
        functions: &["ll_", "osc_", "ptlrpc_", "cl_sync", "cl_io", "lov_", "mdc_", "ldlm_"],
        mounts: &["lustre"],
        remote: true,
    },
    Kind { id: "fuse", functions: &["fuse_", "request_wait_answer", "__fuse"], mounts: &["fuse"], remote: true },
    Kind { id: "ceph", functions: &["ceph_"], mounts: &["ceph"], remote: true },
    Kind { id: "cifs", functions: &["cifs_", "smb2_", "SMB2_", "wait_for_response"], mounts: &["cifs", "smb3"], remote: true },
    Kind { id: "beegfs", functions: &["FhgfsOps", "beegfs"], mounts: &["beegfs"], remote: true },
    Kind { id: "gpfs", functions: &["cxiWait", "mmfs", "gpfs"], mounts: &["gpfs"], remote: true },
    Kind { id: "9p", functions: &["p9_", "v9fs_"], mounts: &["9p"], remote: true },
    Kind { id: "wekafs", functions: &["weka"], mounts: &["wekafs"], remote: true },
    Kind {
        id: LOCAL,
        functions: &[
            "io_schedule",
            "folio_wait",
            "wait_on_page",
            "blk_",
            "submit_bio_wait",
            "jbd2_",
            "ext4_",
            "xfs_",
            "xlog_",
            "btrfs_",
            "wait_on_buffer",
            "__wait_on_buffer",
            "bit_wait_io",
            "balance_dirty_pages",
            "rq_qos_wait",
            "do_get_write_access",
        ],
        mounts: &["ext4", "ext3", "ext2", "xfs", "btrfs", "f2fs", "zfs", "overlay"],
        remote: false,
    },
];

/// The kind of file system that a function of the kernel belongs to: `nfs`, `lustre`, `block`, …
pub fn of_place(function: &str) -> Option<&'static str> {
    KINDS.iter().find(|kind| kind.functions.iter().any(|prefix| function.starts_with(prefix))).map(|kind| kind.id)
}

/// Whether a mount of this type is of that kind.
pub fn same_kind(kind: &str, fs: &str) -> bool {
    KINDS.iter().any(|k| k.id == kind && k.mounts.iter().any(|prefix| fs.starts_with(prefix)))
}

/// Whether a mount of this type is served by another machine, or by a program.
pub fn is_remote(fs: &str) -> bool {
    KINDS.iter().any(|kind| kind.remote && kind.mounts.iter().any(|prefix| fs.starts_with(prefix)))
}
