//! What NCCL prints, of all versions: each line through its reader.

use nccl_top::logs::nccl::State;
use nccl_top::logs::prefix::peel;
use nccl_top::logs::*;

fn read(line: &str) -> Vec<TextEvent> {
    let mut out = Vec::new();
    let p = peel(line);
    State::default().read(p.rest, &p.origin, &mut out);
    out
}

fn info(message: &str) -> What {
    let line = format!("node-01:3873:3901 [2] NCCL INFO {message}");
    let mut got = read(&line);
    // What is trouble, too, is told twice.
    if got.len() > 1 {
        got.retain(|e| !matches!(e.what, What::Signed { .. }));
    }
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
    match info("Call to connect returned Connection refused, retrying") {
        What::Signed { signature, .. } => assert_eq!(signature.id, "sock-connect-retry"),
        other => panic!("{other:?}"),
    }
    nothing("node-01:1:2 [0] NCCL INFO misc/socket.cc:126 -> 5");
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
    let net = |state, name: Option<&str>, api| What::Plugin(Plugin { kind: PluginKind::Net, state, name: name.map(s), api, why: None });
    assert_eq!(info("NET/Plugin: Loaded net plugin AWS Libfabric (v10)"), net(PluginState::Loaded, Some("AWS Libfabric"), Some(10)));
    for absent in [
        "NET/Plugin : No plugin found, using internal implementation",
        "NET/Plugin : dlerror=x.so: cannot open shared object file No plugin found (libnccl-net.so), using internal implementation",
        "NET/Plugin: No plugin found (libnccl-net.so)",
        "NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        "NET/Plugin: Could not find: libnccl-net.so",
    ] {
        assert_eq!(info(absent), net(PluginState::NotFound, None, None));
    }
    assert_eq!(info("RAS client listening socket at 127.0.0.1<28028>"), What::RasListening { address: s("127.0.0.1:28028") });
    nothing("h:1:2 [0] NCCL INFO Bootstrap: Using eth0:10.0.");
    nothing("h:1:2 [0] NCCL INFO RAS client listening socket at 127.0.0.1<28");
}

#[test]
fn environment_values() {
    let env = |n: &str, v: &str| What::EnvSet { name: s(n), value: s(v) };
    assert_eq!(info("NCCL_IB_TIMEOUT set by environment to 22."), env("NCCL_IB_TIMEOUT", "22"));
    assert_eq!(info("NCCL_P2P_DISABLE set by environment to 1"), env("NCCL_P2P_DISABLE", "1"));
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
}

#[test]
fn layout_channels_and_ends() {
    assert_eq!(
        info("comm 0x47034bb0 rank 5 nRanks 8 nNodes 2 localRanks 4 localRank 1 MNNVL 0"),
        What::Layout { rank: 5, nranks: 8, nnodes: 2, local_ranks: 4, mnnvl: Some(false) }
    );
    assert_eq!(info("MNNVL 1 cliqueId 7fe cliqueSize 72 cliqueRank 4 nvlDomainSize 72"), What::Clique { used: true, size: 72 });
    let fabric =
        |cluster: Option<&str>, clique, health| What::Fabric(FabricLine { cluster: cluster.map(str::to_owned), clique, state: 3, health });
    assert_eq!(
        info("MNNVL busId 0x801000 fabric UUID 8f1e5c.a2b3 cliqueId 0x7ffe state 3 healthMask 0x1aa"),
        fabric(Some("8f1e5c.a2b3"), 0x7ffe, 0x1aa)
    );
    assert_eq!(info("MNNVL busId 0x1b000 fabric UUID 0.0 cliqueId 0x0 state 3 healthMask 0x0"), fabric(None, 0, 0));
    nothing("h:1:2 [0] NCCL INFO MNNVL busId 0x1b000 fabric UUID 0.0 cliqueId 0x0 sta");
    for (line, coll, collnet, nvls, p2p, per_peer) in [
        (
            "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 30 p2p channels per peer",
            24,
            Some(24),
            Some(0),
            32,
            30,
        ),
        ("24 coll channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer", 24, None, Some(16), 32, 32),
        ("8 coll channels, 16 p2p channels, 2 p2p channels per peer", 8, None, None, 16, 2),
    ] {
        assert_eq!(info(line), What::Channels { coll, collnet, nvls, p2p, per_peer });
    }
    assert_eq!(info("Connected all rings"), What::Connected { pxn: None, gdr: None });
    assert_eq!(info("Connected all rings, use ring PXN 0 GDR 1"), What::Connected { pxn: Some(false), gdr: Some(true) });
    assert_eq!(
        info("comm 0x2a rank 7 nranks 8 cudaDev 7 busId d0 - Destroy COMPLETE"),
        What::CommEnded { comm: s("0x2a"), rank: 7, nranks: 8, how: Ending::Destroy }
    );
    assert_eq!(
        info("comm 0x2a rank 7 nranks 8 cudaDev 7 busId d0 - Abort COMPLETE"),
        What::CommEnded { comm: s("0x2a"), rank: 7, nranks: 8, how: Ending::Abort }
    );
    let comm = "comm 0x2a rank 7 nRanks 8 cudaDev 7 busId d0";
    assert_eq!(info(&format!("{comm} - Abort START")), What::CommEnding { comm: s("0x2a"), rank: 7, nranks: 8, how: Ending::Abort });
    assert_eq!(info(&format!("{comm} - Revoke START")), What::CommEnding { comm: s("0x2a"), rank: 7, nranks: 8, how: Ending::Revoke });
    assert_eq!(
        info(&format!("{comm} - Revoke COMPLETE, result 0")),
        What::CommEnded { comm: s("0x2a"), rank: 7, nranks: 8, how: Ending::Revoke }
    );
}

#[test]
fn transports_of_all_versions() {
    let ch = |m: &str| match info(m) {
        What::Channel { from_rank, to_rank, transport, receive, .. } => (from_rank, to_rank, transport, receive),
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
    // Who pasted it left out host and process.
    let got = read(" [3] NCCL INFO Connected all rings");
    assert_eq!((got[0].origin.host.as_deref(), got[0].origin.cuda_dev), (None, Some(3)));
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

#[test]
fn drivers_and_versions_with_suffixes() {
    assert_eq!(info("cudaDriverVersion 12090"), What::CudaDriver { version: s("12.9") });
    assert_eq!(info("cudaDriverVersion 11080"), What::CudaDriver { version: s("11.8") });
    let version = |v: &str, c: Option<&str>| What::NcclVersion { version: s(v), cuda: c.map(s) };
    assert_eq!(read("RCCL version 2.18.3+hip6.0 HEAD:2f6d59e+")[0].what, version("RCCL 2.18.3", None));
    assert_eq!(read("RCCL version : 2.22.3-develop:12ab34c")[0].what, version("RCCL 2.22.3", None));
    for torn in ["cudaDriverVersion 1209", "cudaDriverVersion 120", "NCCL version 2.27.7+cud", "NCCL version 2.27.7+cuda12"] {
        nothing(&format!("h:1:2 [0] NCCL INFO {torn}"));
    }
}

#[test]
fn plugin_lines_of_all_versions() {
    use PluginKind::*;
    use PluginState::*;
    for (line, kind, state, name, api) in [
        ("NET/Plugin : No plugin found, using internal implementation", Net, NotFound, None, None),
        ("NET/Plugin: Using internal network plugin.", Net, Internal, None, None),
        ("TUNER/Plugin: Could not find: libnccl-tuner.so", Tuner, NotFound, None, None),
        ("PROFILER/Plugin: Could not find: libnccl-profiler.so", Profiler, NotFound, None, None),
        ("ENV/Plugin: Could not find: libnccl-env.so", Env, NotFound, None, None),
        ("Plugin name set by env to libnccl-net-x.so", Net, SetByEnv, Some("libnccl-net-x.so"), None),
        ("NET/Plugin: Plugin name set by env to libnccl-net-x.so", Net, SetByEnv, Some("libnccl-net-x.so"), None),
        (
            "Plugin Path : /opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so",
            Net,
            LibraryLoaded,
            Some("/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so"),
            None,
        ),
        ("P2P plugin IBext_v8", Net, Loaded, Some("IBext_v8"), None),
        ("NET/Plugin: Loaded net plugin IBext_v8 (v8)", Net, Loaded, Some("IBext_v8"), Some(8)),
        ("NET/Plugin: Loaded coll plugin SHARP (v7)", CollNet, Loaded, Some("SHARP"), Some(7)),
        ("NET/Plugin: Loaded collnet plugin SHARP (v10)", CollNet, Loaded, Some("SHARP"), Some(10)),
        ("Successfully loaded external plugin libnccl-net.so", Net, LibraryLoaded, Some("libnccl-net.so"), None),
        ("Successfully loaded external plugin libnccl-tuner-x.so", Tuner, LibraryLoaded, Some("libnccl-tuner-x.so"), None),
        ("Successfully loaded external network plugin libnccl-net.so", Net, LibraryLoaded, Some("libnccl-net.so"), None),
        ("Successfully loaded external tuner plugin libnccl-ofi-tuner.so", Tuner, LibraryLoaded, Some("libnccl-ofi-tuner.so"), None),
        ("Successfully loaded external profiler plugin /a b/libx.so", Profiler, LibraryLoaded, Some("/a b/libx.so"), None),
        ("External network plugin libnccl-net.so is unsupported", Net, Unsupported, Some("libnccl-net.so"), None),
        ("External tuner plugin t.so is unsupported", Tuner, Unsupported, Some("t.so"), None),
        ("Initialized NET plugin Socket", Net, Initialized, Some("Socket"), None),
        ("Failed to initialize NET plugin IB", Net, FailedToInitialize, Some("IB"), None),
        ("Assigned NET plugin AWS Libfabric to comm", Net, Assigned, Some("AWS Libfabric"), None),
        ("Assigned GIN plugin GIN_IB to comm", Gin, Assigned, Some("GIN_IB"), None),
        ("GIN/Plugin: Assigned plugin GIN_IB type 2 to comm", Gin, Assigned, Some("GIN_IB"), None),
        ("RMA/Plugin: Assigned plugin IB to comm", Rma, Assigned, Some("IB"), None),
        ("Disabling external plugins: NET", Net, Disabled, Some("NET"), None),
        ("TUNER/Plugin: Using tuner plugin nccl_ofi_tuner", Tuner, Loaded, Some("nccl_ofi_tuner"), None),
        ("TUNER/Plugin: Using nccl_ofi_tuner (v4)", Tuner, Loaded, Some("nccl_ofi_tuner"), Some(4)),
        ("Using tuner plugin: 'nccl_ofi_tuner'", Tuner, Loaded, Some("nccl_ofi_tuner"), None),
        ("TUNER/Plugin: Using internal tuner plugin.", Tuner, Internal, None, None),
        ("PROFILER/Plugin: loaded inspector", Profiler, Loaded, Some("inspector"), None),
        ("PROFILER/Plugin: Loaded inspector (v5)", Profiler, Loaded, Some("inspector"), Some(5)),
        ("ENV/Plugin: Using ncclEnvDefault (v1)", Env, Loaded, Some("ncclEnvDefault"), Some(1)),
    ] {
        assert_eq!(info(line), What::Plugin(Plugin { kind, state, name: name.map(s), api, why: None }), "{line}");
    }
    let state = |line: &str| match read(&format!("h:1:2 [0] NCCL INFO {line}")).remove(0).what {
        What::Plugin(p) => (p.state, p.why.is_some()),
        other => panic!("{other:?}"),
    };
    let missing = "libnccl-net.so: cannot open shared object file: No such file or directory";
    assert_eq!(state(&format!("NET/Plugin : Plugin load (libnccl-net.so) returned 2 : {missing}")), (NotFound, false));
    let dependency = "NET/Plugin: libnccl-net.so: libfabric.so.1: cannot open shared object file: No such file or directory";
    assert_eq!(state(dependency), (FailedToLoad, true));
    assert_eq!(state("TUNER/Plugin: libt.so: undefined symbol: fi_getinfo"), (FailedToLoad, true));
}

#[test]
fn devices_of_the_network() {
    let devices = |line: &str| match info(line) {
        What::NetDevices(d) => d,
        other => panic!("{other:?}"),
    };
    let names = |d: &NetDevices| d.devices.iter().map(|d| format!("{} {:?} {}", d.name, d.port, d.link)).collect::<Vec<_>>();
    let d = devices("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>");
    assert_eq!(names(&d), ["mlx5_0 Some(1) IB", "mlx5_1 Some(1) RoCE"]);
    assert_eq!((d.relaxed_ordering, d.oob.as_deref(), d.whole), (true, Some("eth0"), true));
    let d = devices("NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>");
    assert_eq!((names(&d), d.relaxed_ordering), (vec![s("mlx5_0 Some(1) IB")], false));
    let d = devices("NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [1]={[2] mlx5_2:1/IB} [RO]; OOB ib0:10.0.0.1<0>");
    assert_eq!(d.devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["mlx5_0", "mlx5_1", "mlx5_2"]);
    assert_eq!(names(&devices("NET/IB : Using [0]mlx5_0:1:2:3/IB [RO]; OOB eth0:10.0.0.1<0>")), ["mlx5_0 Some(1) IB"]);
    let sharp = devices("NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/IB/SHARP [RO]; OOB bond0:10.0.0.1<0>");
    assert_eq!(names(&sharp), ["mlx5_0 Some(1) IB", "mlx5_1 Some(1) IB"]);
    let torn = devices("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/I");
    assert_eq!((names(&torn), torn.whole), (vec![s("mlx5_0 Some(1) IB")], false));
    let none = devices("NET/IB : Using [RO]; OOB eth0:172.16.0.2<0>");
    assert!(none.devices.is_empty() && none.whole);
    assert!(devices("NET/IB : No device found.").devices.is_empty());
    let d = devices("NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>");
    assert_eq!(names(&d), ["eth0 None 10.0.0.1", "eth1 None 10.0.1.1"]);
    nothing("h:1:2 [0] NCCL INFO NET/Socket: Using 2 threads and 8 sockets per thread");
}

#[test]
fn aws_ofi_nccl() {
    let provider = |name: &str, fabric: Option<&str>, nics| Ofi::Provider { name: s(name), fabric: fabric.map(s), nics };
    for (line, want) in [
        ("Initializing aws-ofi-nccl 1.13.2-aws", Ofi::Version(s("1.13.2-aws"))),
        ("Using aws-ofi-nccl 1.6.0", Ofi::Version(s("1.6.0"))),
        ("Initializing aws-ofi-nccl git-dev", Ofi::Version(s("git-dev"))),
        ("Using Libfabric version 1.22", Ofi::Libfabric(s("1.22"))),
        ("Plugin selected platform: AWS", Ofi::Platform(s("AWS"))),
        ("Using transport protocol SENDRECV", Ofi::Protocol { name: s("SENDRECV"), set_by: None }),
        ("Using transport protocol RDMA (platform set)", Ofi::Protocol { name: s("RDMA"), set_by: Some(s("platform set")) }),
        ("Selected Provider is efa (found 4 nics)", provider("efa", None, 4)),
        ("Selected provider is efa, fabric is efa-direct (found 32 nics)", provider("efa", Some("efa-direct"), 32)),
        ("Selected Provider is tcp;ofi_rxm (found 1 nics)", provider("tcp;ofi_rxm", None, 1)),
        ("Running on p5.48xlarge platform, topology file /o/p5.xml", Ofi::Topology { instance: s("p5.48xlarge"), file: s("/o/p5.xml") }),
        (
            "Running on p4d.24xlarge platform, Setting NCCL_TOPO_FILE environment variable to /o/p4d.xml",
            Ofi::Topology { instance: s("p4d.24xlarge"), file: s("/o/p4d.xml") },
        ),
        ("Could not disable CUDA API usage for HMEM, disabling GDR", Ofi::NoGpuDirect),
        ("No eligible providers were found", Ofi::NoProvider),
    ] {
        let got = read(&format!("h:1:2 [0] NCCL INFO NET/OFI {line}"));
        assert_eq!(got[0].what, What::Ofi(want), "{line}");
    }
    for torn in ["Selected provider is efa, fabric is efa-direct (found 3", "Plugin selected platform: AW", "Using transport protocol RDM"]
    {
        nothing(&format!("h:1:2 [0] NCCL INFO NET/OFI {torn}"));
    }
}

#[test]
fn settings_that_have_no_effect() {
    assert_eq!(info("NCCL_NET_GDR_LEVEL set by environment to PHB"), What::EnvSet { name: s("NCCL_NET_GDR_LEVEL"), value: s("PHB") });
    let first = |line: &str| read(&format!("h:1:2 [0] NCCL INFO {line}")).remove(0).what;
    let invalid = What::EnvInvalid { name: s("NCCL_IB_TIMEOUT"), value: s("abc") };
    assert_eq!(first("Invalid value abc for NCCL_IB_TIMEOUT, using default 20."), invalid);
    let unused = What::EnvUnused { name: s("NCCL_FOO"), how: "unused" };
    assert_eq!(first("Warning: ENV NCCL_FOO is unused. Setting it has no effect."), unused);
    nothing("h:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 2");
}

#[test]
fn times_of_bring_up() {
    let timings = |line: &str| match info(line) {
        What::Timings(t) => (t.of, t.rank, t.total_s, t.parts.len()),
        other => panic!("{other:?}"),
    };
    let parts = "(create 0.000021, send 0.000117, recv 0.000308, ring 0.000101, delay 0.000000)";
    assert_eq!(timings(&format!("Bootstrap timings total 0.000693 {parts}")), ("bootstrap", None, 0.000693, 5));
    let parts = "(kernels 0.14, alloc 0.11, bootstrap 0.01, allgathers 0.00, topo 0.06, graphs 0.01, connections 0.02, rest 0.00)";
    assert_eq!(timings(&format!("Init timings - ncclCommInitRankConfig: rank 3 nranks 8 total 0.35 {parts}")), ("init", Some(3), 0.35, 8));
    assert_eq!(timings("Init timings: rank 0 nranks 2 total 0.75 (kernels 0.40, rest 0.35)"), ("init", Some(0), 0.75, 2));
    assert_eq!(timings("timings: rank 5 nranks 8 P2p connect done in 2.31"), ("p2p connect", Some(5), 2.31, 0));
    nothing("h:1:2 [0] NCCL INFO timings: rank 5 nranks 8 P2p connect done in 2.3");
    nothing("h:1:2 [0] NCCL INFO Init timings: rank 0 nranks 2 total 0.75 (kernels 0.40, rest 0.3");
}

#[test]
fn rings_and_paths() {
    let ring = |channel, channels, ranks: &[u32]| What::Ring { channel, channels, ranks: ranks.to_vec() };
    assert_eq!(info("Channel 00/24 :    0   1   2   3"), ring(0, 24, &[0, 1, 2, 3]));
    assert_eq!(info("Channel 23/24 : 0 3 2 1"), ring(23, 24, &[0, 3, 2, 1]));
    assert_eq!(info("Channel 01/02 : 0 1 2 ..."), ring(1, 2, &[0, 1, 2]));
    assert_eq!(info("Channel 01/02 : 10 11 1..."), ring(1, 2, &[10, 11]), "the last one may be a piece");
    let paths = |line: &str| match info(line) {
        What::GraphPaths(p) => p.to.iter().map(|t| format!("{} {} {}", t.to, t.bandwidth, t.kind.as_str())).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        paths("GPU/0-9000 :GPU/0-9000 (0/5000.0/LOC) GPU/0-b000 (2/288.0/NVL) NVS/0-0 (1/288.0/NVL) NET/0-0 (3/24.0/PIX)"),
        ["GPU/0-b000 288 NVL", "NVS/0-0 288 NVL", "NET/0-0 24 PIX"]
    );
    assert_eq!(paths("GPU/9000 :GPU/9000 (0/5000.000000/LOC) GPU/B000 (3/24.000000/PHB)"), ["GPU/B000 24 PHB"]);
    assert_eq!(paths("NET/0-0 :GPU/0-9000 (3/24.0/PXB) GPU/0-b000 (4/2"), ["GPU/0-9000 24 PXB"]);
}

#[test]
fn trees_of_all_versions() {
    let tree = |channel, up, down: [i64; 3]| (channel, Branch { up, down: down.map(|d| u32::try_from(d).ok()) });
    let trees = |rank, branches: &[(u32, Branch)]| What::Trees { rank, branches: branches.to_vec() };
    let both = trees(5, &[tree(0, Some(4), [6, 9, -1]), tree(1, None, [-1, -1, -1])]);
    for line in [
        "Trees [0] 6/9/-1->5->4 [1] -1/-1/-1->5->-1",
        "Trees [0] 6/9/-1->5->4|4->5->6/9/-1 [1] -1/-1/-1->5->-1|-1->5->-1/-1/-1",
        "Trees [0] 4->5->6/9/-1 [1] -1->5->-1/-1/-1",
        "Trees [0] 6/9/-1->5->4 [1] -1/-1/-1->5->-1 comm 0x530000380400 nRanks 16 busId 45000",
        "Trees [0] 6/9/-1->5->4 [1] -1/-1/-1->5->-1 [2] 6/9/-1->5",
        "Trees [0] 6/9/-1->5->4 [1] -1/-1/-1->5->-1 [2] 6/9/-1->5->4vm:1:2 [0] NCCL INFO Connected",
    ] {
        assert_eq!(info(line), both, "{line}");
    }
    for line in ["Trees [0] 6/9->5->4", "Trees [99] 6/9/-1->5->4", "Trees [0] 6/9/-1->x->4", "Trees ", "Trees [0] 6/9/-1->5->4->3"] {
        nothing(&format!("h:1:2 [0] NCCL INFO {line}"));
    }
}

#[test]
fn gpudirect_and_what_the_node_can_do() {
    let gdr = |line: &str| match read(&format!("h:1:2 [0] NCCL INFO {line}")).remove(0).what {
        What::GpuDirect { enabled, device, distance } => (enabled, device.unwrap_or_default(), distance),
        other => panic!("{other:?}"),
    };
    assert_eq!(gdr("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'"), (true, s("mlx5_0"), None));
    assert_eq!(gdr("NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'"), (false, s("eth0"), None));
    assert_eq!(gdr("GPU Direct RDMA Enabled for GPU 1b000 / HCA 0 (distance 4 <= 5), read 1"), (true, s("HCA 0"), Some((4, 5))));
    assert_eq!(gdr("GPU Direct RDMA Disabled for GPU 3 / HCA 1 (distance 7 > 5)"), (false, s("HCA 1"), Some((7, 5))));
    assert_eq!(gdr("GPU Direct RDMA Enabled for GPU 3 / HCA 1 (distance 4 <= 5), read 0 mode Default").2, Some((4, 5)));
    assert_eq!(gdr("GPU Direct RDMA Enabled for GPU/0-1b000 (rank 3) - NET/0-0 (distance 4 <= 5), read 0 mode Default").2, Some((4, 5)));
    assert_eq!(info("DMA-BUF is available on GPU device 3"), What::DmaBuf);
    let p2p = |all_direct, direct_mode, all_cuda| What::P2pType { all_direct, direct_mode, all_cuda };
    assert_eq!(info("Check P2P Type intraNodeP2pSupport 1 directMode 0"), p2p(true, false, None));
    assert_eq!(info("Check P2P Type isAllDirectP2p 0 directMode 1 isAllCudaP2p 1"), p2p(false, true, Some(true)));
}

#[test]
fn whole_transports_are_kept_and_torn_ones_are_not() {
    let line = |transport: &str| format!("Channel 00/0 : 3[3] -> 4[4] via {transport}");
    for transport in [
        "P2P/CUMEM/read",
        "P2P/MNNVL",
        "P2P/IPC/CE",
        "P2P/indirect/5[1b000]",
        "SHM/CE/direct",
        "direct shared memory",
        "NET/IB/3",
        "NET/IB/3(2)/GDRDMA",
        "NET/IBext_v10/3/GDRDMA(PCI)/Shared",
        "NET/AWS Libfabric/3/Shared",
        "COLLNET/SHARP/0/GDRDMA(PCI)",
    ] {
        for end in ["", " comm 0x7f00 nRanks 16"] {
            let (from_gpu, to_gpu) = (Some(3), Some(4));
            let want = What::Channel {
                channel: 0,
                from_rank: 3,
                from_gpu,
                to_rank: 4,
                to_gpu,
                transport: s(transport),
                receive: false,
                p2p: false,
            };
            assert_eq!(info(&line(&format!("{transport}{end}"))), want);
        }
    }
    for torn in [
        "P2P",
        "P2P/CUM",
        "P2P/indirect/5[",
        "P2P/indirect/5",
        "SHM/dir",
        "NET/IB",
        "NET/IB/3(2",
        "NET//3",
        "COLLNET/SHARP",
        "direct shared",
    ] {
        nothing(&format!("h:1:2 [0] NCCL INFO {}", line(torn)));
    }
    assert!(matches!(info(&line("P2P comm 0x7f00 nRanks 16")), What::Channel { transport, .. } if transport == "P2P"));
}

/// Lines with one fact each.
const WHOLE: &[&str] = &[
    "cudaDriverVersion 12090",
    "NCCL version 2.27.7+cuda12.9",
    "Bootstrap: Using eth0:10.0.0.1<0>",
    "Using network Socket",
    "Using network AWS Libfabric",
    "Initialized NET plugin Socket",
    "Assigned NET plugin IB to comm",
    "NET/Plugin: Loaded net plugin AWS Libfabric (v10)",
    "NET/Socket : Using [0]eth0:10.0.0.1<0>",
    "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)",
    "NCCL_IB_TIMEOUT set by environment to 22.",
    "ncclCommInitRankConfig comm 0x7f0a rank 3 nranks 8 cudaDev 3 nvmlDev 5 busId 60 commId 0x1f - Init COMPLETE",
    "comm 0x47034bb0 rank 5 nRanks 16 nNodes 2 localRanks 8 localRank 1 MNNVL 0",
    "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",
    "Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1",
    "Channel 00/0 : 3[3] -> 4[4] via P2P/indirect/15[7]",
    "Channel 00/0 : 3[3] -> 4[4] [send] via SHM/direct",
    "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
    "timings: rank 5 nranks 8 P2p connect done in 2.31",
];

/// What a line tells when it is cut anywhere is nothing, or the same.
#[test]
fn a_torn_line_tells_nothing_or_the_same() {
    for message in WHOLE {
        let want = info(message);
        let line = format!("node-01:3873:3901 [2] NCCL INFO {message}");
        for at in 0..line.len() {
            for e in read(&line[..at]) {
                let part = match (&e.what, &want) {
                    (What::P2pType { all_direct, .. }, What::P2pType { all_direct: want, .. }) => all_direct == want,
                    (What::NcclVersion { version, cuda: None }, What::NcclVersion { version: want, .. }) => want == version,
                    (What::Bootstrap { interface, .. }, What::Bootstrap { interface: want, .. }) => interface == want,
                    (What::Layout { nranks, nnodes, local_ranks, .. }, What::Layout { nranks: n, nnodes: m, local_ranks: l, .. }) => {
                        (nranks, nnodes, local_ranks) == (n, m, l)
                    }
                    (a, b) => a == b,
                };
                assert!(part, "{:?} of {}", e.what, &line[..at]);
            }
        }
    }
}

/// The start of one line and another behind it, without a line end between them.
#[test]
fn glued_lines_tell_no_wrong_fact() {
    let all: Vec<What> = WHOLE.iter().map(|m| info(m)).collect();
    for first in WHOLE {
        let first = format!("node-01:3873:3901 [2] NCCL INFO {first}");
        for second in ["Connected all rings", "Using network IB", "cudaDriverVersion 13000"] {
            let second = format!("node-01:12:13 [1] NCCL INFO {second}");
            let own: Vec<What> = read(&second).into_iter().map(|e| e.what).collect();
            for at in 40..first.len() {
                let mut state = State::default();
                let mut out = Vec::new();
                state.read(&first, &Origin::default(), &mut Vec::new());
                state.read(&format!("{}{second}", &first[..at]), &Origin::default(), &mut out);
                for e in &out {
                    let partial =
                        matches!(e.what, What::NcclVersion { .. } | What::Bootstrap { .. } | What::P2pType { .. } | What::Layout { .. });
                    assert!(partial || all.contains(&e.what) || own.contains(&e.what), "{:?} of {}{second}", e.what, &first[..at]);
                }
                assert!(own.iter().all(|w| out.iter().any(|e| e.what == *w)), "{}{second}: {out:?}", &first[..at]);
            }
        }
    }
}

#[test]
fn headers_without_a_thread_and_hosts_of_digits() {
    let e = read("[2026-03-14 02:06:02] node-31.example.org:4211 [5] ibvwrap.cc:262 NCCL WARN Call to x failed").remove(0);
    assert_eq!((e.origin.host.as_deref(), e.origin.pid, e.origin.cuda_dev), (Some("node-31.example.org"), Some(4211), Some(5)));
    assert!(matches!(&e.what, What::NcclWarn { site: Some(site), .. } if site == "ibvwrap.cc:262"), "{e:?}");
    let e = read("71:220:577 [5] NCCL INFO Using network IB").remove(0);
    assert_eq!((e.origin.host.as_deref(), e.origin.pid), (Some("71"), Some(220)));
    nothing("10:24:28 [0] NCCL INFO Using network IB");
}

#[test]
fn rings_of_nccl_2_4() {
    let ring = |from_rank, to_rank, gpus: Option<(u64, u64)>, transport: &str, receive| {
        let (from_gpu, to_gpu) = gpus.unzip();
        What::Channel { channel: 1, from_rank, from_gpu, to_rank, to_gpu, transport: s(transport), receive, p2p: false }
    };
    assert_eq!(info("Ring 01 : 7 -> 8 [send] via NET/Socket/0"), ring(7, 8, None, "NET/Socket/0", false));
    assert_eq!(info("Ring 01 : 15 -> 0 [receive] via NET/AWS Libfabric/0"), ring(15, 0, None, "NET/AWS Libfabric/0", true));
    assert_eq!(info("Ring 01 : 2[2] -> 3[3] via P2P/IPC"), ring(2, 3, Some((2, 3)), "P2P/IPC", false));
    nothing("n:1:1 [0] NCCL INFO Ring 00 : 0 -> 1 -> 0");
}

#[test]
fn old_bootstraps_list_all_interfaces() {
    let want = What::Bootstrap { interface: s("eth7"), address: Some(s("10.1.0.7")) };
    assert_eq!(info("Bootstrap : Using [0]eth7:10.1.0.7<0> [1]veth9:fe80::1%veth9<0>"), want);
}

#[test]
fn a_version_behind_what_is_left_of_a_colour() {
    assert_eq!(read(" NCCL version 2.7.8+cuda11.1")[0].what, What::NcclVersion { version: s("2.7.8"), cuda: Some(s("11.1")) });
}
