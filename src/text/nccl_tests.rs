use super::*;

fn read(line: &str) -> Vec<TextEvent> {
    let mut out = Vec::new();
    let p = crate::text::prefix::peel(line);
    State::default().read(p.rest, &p.origin, &mut out);
    out
}

fn info(message: &str) -> What {
    let line = format!("node-01:3873:3901 [2] NCCL INFO {message}");
    let mut got = read(&line);
    assert_eq!(got.len(), 1, "{message}: {got:?}");
    let e = got.remove(0);
    assert_eq!(
        (e.origin.host.as_deref(), e.origin.pid, e.origin.tid, e.origin.cuda_dev),
        (Some("node-01"), Some(3873), Some(3901), Some(2))
    );
    e.what
}

fn nothing(line: &str) {
    let got = read(line);
    assert!(got.is_empty(), "{line}: {got:?}");
}

fn s(text: &str) -> String {
    text.to_string()
}

#[test]
fn version_lines() {
    let want = |v: &str, c: Option<&str>| What::NcclVersion { version: s(v), cuda: c.map(s) };
    assert_eq!(info("NCCL version 2.27.7+cuda12.9"), want("2.27.7", Some("12.9")));
    assert_eq!(read("NCCL version 2.18.5+cuda12.1")[0].what, want("2.18.5", Some("12.1")));
    assert_eq!(read("[rank0]: NCCL version 2.29.2nvb1+cuda13.0")[0].what, want("2.29.2nvb1", Some("13.0")));
    assert_eq!(read("2026-05-16T16:39:51.208Z NCCL version 2.18.5")[0].what, want("2.18.5", None));
    nothing("node-01:1:1 [0] NCCL INFO NCCL git version master v2.29.2-1");
    nothing("NCCL version 2.");
    nothing("NCCL version 2.18.5+cuda12.");
}

#[test]
fn warn_sites_of_all_kinds() {
    let warn = |line: &str| {
        let e = read(line).remove(0);
        match e.what {
            What::NcclWarn { site, text } => (site.unwrap_or_default(), text, e.origin),
            other => panic!("{other:?}"),
        }
    };
    let (site, text, o) = warn("node-01:189884:189884 [3] net.cc:345 NCCL WARN Error: network FOO not found.");
    assert_eq!((site.as_str(), text.as_str(), o.cuda_dev), ("net.cc:345", "Error: network FOO not found.", Some(3)));
    let (site, _, o) =
        warn("[2026-05-05 06:16:47] node-01:189884:189890 [3] plugin/net.cc:334 NCCL WARN Failed to initialize any NET plugin");
    assert_eq!((site.as_str(), o.tid, o.written.map(|w| (w.month, w.second))), ("plugin/net.cc:334", Some(189890), Some((5, 47))));
    let (site, _, _) = warn("[2026-06-05 06:16:47] n:1:2 [3] plugin/net.cc:349 (ncclNetInit) NCCL WARN Failed");
    assert_eq!(site, "plugin/net.cc:349 (ncclNetInit)");
    let (site, text, o) = warn(
        "[2026-01-02 10:24:28] ip-172-31-3-153:35116:35475 [3] ncclResult_t nccl_net_ofi_init_v6(ncclDebugLogger_t):162 NCCL WARN NET/OFI Initializing plugin failed",
    );
    assert_eq!(site, "ncclResult_t nccl_net_ofi_init_v6(ncclDebugLogger_t):162");
    assert_eq!((text.as_str(), o.host.as_deref(), o.pid), ("NET/OFI Initializing plugin failed", Some("ip-172-31-3-153"), Some(35116)));
    let (site, _, _) = warn("h:1:2 [0] std::map<int, nccl_ofi*> ofi::get(int, char *):77 NCCL WARN x");
    assert_eq!(site, "std::map<int, nccl_ofi*> ofi::get(int, char *):77");
    let (_, text, o) = warn("some junk NCCL WARN Call to connect failed");
    assert_eq!((text.as_str(), o.pid), ("Call to connect failed", None));
}

#[test]
fn a_warn_text_at_info_level_is_no_warn() {
    nothing("node-01:1:2 [0] NCCL INFO Call to connect returned Connection refused, retrying");
    nothing("node-01:1:2 [0] NCCL INFO init.cc:126 -> 5");
    nothing("[1,0]<stdout>:");
}

#[test]
fn a_cuda_failure_in_a_warn_is_a_cuda_error_too() {
    let kinds = |line: &str| {
        read(line).into_iter().map(|e| format!("{:?}", e.what).split([' ', '{', '(']).next().unwrap_or("").to_string()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("h:1:2 [0] a.cc:1 NCCL WARN Cuda failure 2 'out of memory'"), ["NcclWarn", "CudaOom"]);
    assert_eq!(kinds("h:1:2 [0] a.cc:1 NCCL WARN Cuda failure 'unhandled cuda error'"), ["NcclWarn", "CudaError"]);
    assert_eq!(kinds("h:1:2 [0] NCCL INFO a.cc:1 Cuda failure 'x'"), [""; 0]);
}

#[test]
fn bootstrap_network_plugin_and_ras() {
    let boot = |i: &str, a: Option<&str>| What::Bootstrap { interface: s(i), address: a.map(s) };
    assert_eq!(info("Bootstrap : Using eth0:10.0.0.1<0>"), boot("eth0", Some("10.0.0.1")));
    assert_eq!(info("Bootstrap: Using eth0:10.0.0.1<0>"), boot("eth0", Some("10.0.0.1")));
    assert_eq!(info("Bootstrap: Using [eth0]:[fe80::1]<0>"), boot("eth0", Some("fe80::1")));
    assert_eq!(info("Bootstrap: Using mlx5_0:1"), boot("mlx5_0", None));
    assert_eq!(info("Using network AWS Libfabric"), What::Network { name: s("AWS Libfabric") });
    assert_eq!(info("NET/Plugin: Loaded net plugin AWS Libfabric (v10)"), What::NetPlugin { name: Some(s("AWS Libfabric")) });
    for absent in [
        "NET/Plugin : No plugin found, using internal implementation",
        "NET/Plugin : dlerror=x.so: cannot open shared object file No plugin found (libnccl-net.so), using internal implementation",
        "NET/Plugin: No plugin found (libnccl-net.so)",
        "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "NET/Plugin: Could not find: libnccl-net.so",
    ] {
        assert_eq!(info(absent), What::NetPlugin { name: None });
    }
    assert_eq!(info("RAS client listening socket at 127.0.0.1<28028>"), What::RasListening { address: s("127.0.0.1:28028") });
    nothing("h:1:2 [0] NCCL INFO ENV/Plugin: Could not find: libnccl-env.so");
    nothing("h:1:2 [0] NCCL INFO Bootstrap: Using eth0:10.0.");
    nothing("h:1:2 [0] NCCL INFO RAS client listening socket at 127.0.0.1<28");
}

#[test]
fn environment_values() {
    let env = |n: &str, v: &str| What::EnvSet { name: s(n), value: s(v) };
    assert_eq!(info("NCCL_IB_TIMEOUT set by environment to 22."), env("NCCL_IB_TIMEOUT", "22"));
    assert_eq!(info("NCCL_SOCKET_IFNAME set by environment to eth0"), env("NCCL_SOCKET_IFNAME", "eth0"));
    assert_eq!(info("NCCL_TOPO_FILE set by environment to /a b.xml."), env("NCCL_TOPO_FILE", "/a b.xml."));
}

#[test]
fn init_lines_of_all_versions() {
    let init = |m: &str| match info(m) {
        What::Init(i) => i,
        other => panic!("{other:?}"),
    };
    let i = init("comm 0x7f0a rank 3 nranks 8 cudaDev 3 busId 1b000 - Init COMPLETE");
    assert_eq!((i.rank, i.nranks, i.complete, i.bus_id.as_deref(), i.comm_id), (3, 8, true, Some("0000:1b:00.0"), None));
    let i = init("comm 0x7f0a rank 3 nranks 8 cudaDev 3 busId 900010 commId 0x1f - Init COMPLETE");
    assert_eq!((i.bus_id.as_deref(), i.comm_id), (Some("0009:00:01.0"), Some(0x1f)));
    let i = init("ncclCommInitRank comm 0x7f0a rank 3 nranks 8 cudaDev 3 nvmlDev 5 busId 60 commId 0xbe2de794bcb59ec0 - Init START");
    assert_eq!((i.complete, i.nvml_dev, i.comm_id), (false, Some(5), Some(0xbe2d_e794_bcb5_9ec0)));
    let i = init("[Rank 3] ncclCommInitRankConfig comm 0x7f0a rank 3 nranks 8 cudaDev 3 nvmlDev 5 busId 60 commId 0x1 - Init START");
    assert_eq!((i.rank, i.complete), (3, false));
    for split in [
        "ncclCommSplit comm 0x7f0a rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 70 parent 0x99 color 1 key 0- Init START",
        "ncclCommSplit comm 0x7f0a rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 70 parent 0x99 splitCount 2 color 1 key 0- Init START",
        "ncclCommSplit comm 0x7f0a rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 70 parent 0x99 childCount 2 color -1 key 0- Init START",
        "ncclCommShrink comm 0x7f0a rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 70 parent 0x99 color 1 key 0 - Init COMPLETE",
    ] {
        let i = init(split);
        assert_eq!((i.rank, i.nranks, i.comm_id), (1, 4, None));
    }
    nothing("h:1:2 [0] NCCL INFO comm 0x7f0a rank 9 nranks 8 cudaDev 3 busId 1b000 - Init COMPLETE");
    nothing("h:1:2 [0] NCCL INFO ncclCommInitRank comm 0x7f0a rank 3 nran");
    nothing(
        "h:1:2 [0] NCCL INFO AllReduce: opCount 1a sendbuff 0x7 recvbuff 0x7 count 4 datatype 9 op 0 root 0 comm 0x7f0a [nranks=8] stream 0x1",
    );
}

#[test]
fn layout_channels_and_ends() {
    assert_eq!(
        info("comm 0x47034bb0 rank 5 nRanks 8 nNodes 2 localRanks 4 localRank 1 MNNVL 0"),
        What::Layout { rank: 5, nranks: 8, nnodes: 2, local_ranks: 4 }
    );
    assert_eq!(
        info("24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer"),
        What::Channels { coll: 24 }
    );
    assert_eq!(info("8 coll channels, 16 p2p channels, 2 p2p channels per peer"), What::Channels { coll: 8 });
    assert_eq!(info("Connected all rings"), What::Connected);
    assert_eq!(info("Connected all rings, use ring PXN 0 GDR 1"), What::Connected);
    assert_eq!(
        info("comm 0x2a rank 7 nranks 8 cudaDev 7 busId d0 - Destroy COMPLETE"),
        What::CommEnded { comm: s("0x2a"), rank: 7, aborted: false }
    );
    assert_eq!(
        info("comm 0x2a rank 7 nranks 8 cudaDev 7 busId d0 - Abort COMPLETE"),
        What::CommEnded { comm: s("0x2a"), rank: 7, aborted: true }
    );
    nothing("h:1:2 [0] NCCL INFO comm 0x2a rank 7 nRanks 8 cudaDev 7 busId d0 - Abort START");
}

#[test]
fn transports_of_all_versions() {
    let ch = |m: &str| match info(m) {
        What::Channel { from_rank, to_rank, transport, receive } => (from_rank, to_rank, transport, receive),
        other => panic!("{other:?}"),
    };
    assert_eq!(ch("Channel 00/0 : 3[3] -> 4[4] via P2P/CUMEM"), (3, 4, s("P2P/CUMEM"), false));
    assert_eq!(ch("Channel 00 : 3[1b000] -> 4[1c000] via P2P/IPC/read"), (3, 4, s("P2P/IPC/read"), false));
    assert_eq!(ch("Channel 11/1 : 3[3] -> 4[4] via P2P/direct pointer/CE").2, "P2P/direct pointer/CE");
    assert_eq!(ch("Channel 11/1 : 3[3] -> 4[4] via P2P/indirect/5[5]").2, "P2P/indirect/5[5]");
    assert_eq!(ch("Channel 01 : 7[7] -> 0[0] via SHM/direct/direct").2, "SHM/direct/direct");
    assert_eq!(ch("Channel 01 : 7[7] -> 0[0] via SHM/direct").2, "SHM/direct");
    assert_eq!(ch("Channel 01 : 7[1b000] -> 0[2b000] via direct shared memory").2, "direct shared memory");
    assert_eq!(ch("Channel 00/0 : 3[3] -> 12[4] [send] via NET/IB/0(2)/GDRDMA"), (3, 12, s("NET/IB/0(2)/GDRDMA"), false));
    assert!(ch("Channel 00/0 : 12[4] -> 3[3] [receive] via NET/AWS Libfabric/1/GDRDMA/Shared").3);
    assert_eq!(ch("Channel 00/0 : 12[4] -> 3[3] [receive] via NET/Socket/0").2, "NET/Socket/0");
    nothing("h:1:2 [0] NCCL INFO Channel 00/24 :    0   1   2   3");
    nothing("h:1:2 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via P2P/CUM");
    nothing("h:1:2 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via NET/IB");
    nothing("h:1:2 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[");
}

#[test]
fn two_records_on_one_line_are_both_read() {
    let line = "vm:10:11 [0] NCCL INFO Using network Socketvm:12:13 [1] NCCL INFO Connected all rings";
    let got = read(line);
    assert_eq!(got.len(), 2, "{got:?}");
    assert_eq!(got[0].what, What::Network { name: s("Socket") });
    assert_eq!((got[0].origin.host.as_deref(), got[0].origin.pid), (Some("vm"), Some(10)));
    assert_eq!((got[1].origin.host.as_deref(), got[1].origin.pid), (Some("vm"), Some(12)));

    let got = read("vm:10:11 [0] NCCL INFO Chan[2026-05-05 06:16:47] vm:12:13 [1] a.cc:1 NCCL WARN boom");
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].origin.written.as_ref().map(|w| w.day), Some(5));
}

#[test]
fn a_host_glued_to_other_text_is_not_believed() {
    let got = read("a torn tail: fooNODE_x/CUMEMvm:12:13 [1] NCCL INFO Connected all rings");
    assert_eq!((got[0].origin.host.as_deref(), got[0].origin.pid), (None, Some(12)));
}

#[test]
fn a_shippers_time_is_no_header() {
    let got = read("2026-01-02T10:24:28 vm:12:13 [1] NCCL INFO Connected all rings");
    assert_eq!(got[0].origin.host.as_deref(), Some("vm"));
    nothing("x 2026-01-02T10:24:28 [0] NCCL INFO Connected all rings");
    nothing(" 10:24:28 [0] NCCL INFO Connected all rings");
    nothing("[0] NCCL INFO Connected all rings");
}

#[test]
fn text_before_a_record_is_handed_back() {
    let mut out = Vec::new();
    let mut st = State::default();
    let line = " 17%|█ | 5/30 [00:02<00:07,  3.28it/s]vm:12:13 [1] NCCL INFO Connected all rings";
    assert_eq!(st.read(line, &Origin::default(), &mut out), Some(" 17%|█ | 5/30 [00:02<00:07,  3.28it/s]"));
    assert_eq!(out.len(), 1);
    assert_eq!(st.read("step 1 loss 2", &Origin::default(), &mut out), None);
}
