//! Findings on how NCCL came up.

use nccl_top::base::severity::{Role, Severity};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::model::bringup::Seen;
use nccl_top::observe::gpu::{GpuPair, GpuTopology};
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::rules::facts;
use nccl_top::rules::findings::Finding;

fn at(s: i64) -> Stamp {
    Stamp(s * 1_000_000_000)
}

fn sees(session: &mut Session, at: Stamp, body: Body) -> Vec<(Stamp, Event)> {
    let mut out = Vec::new();
    session.apply(&Observation { at, host: None, from: SourceId::of("tail"), body }, &mut out);
    out
}

fn tells(session: &mut Session, at: Stamp, lines: &[&str]) {
    let lines = lines.iter().enumerate().map(|(i, t)| Line { no: Some(i as u64 + 1), text: (*t).into(), ..Default::default() }).collect();
    sees(session, at, Body::Lines(Lines { file: 1, lines, ..Default::default() }));
}

fn log(lines: &[&str]) -> Session {
    let mut session = Session::new("node", Zone::UTC);
    sees(&mut session, at(0), Body::LogFile(LogFileInfo { file: 1, path: "/l/x.log".into(), ..Default::default() }));
    tells(&mut session, at(0), lines);
    session
}

fn info(messages: &[&str]) -> Vec<String> {
    messages.iter().enumerate().map(|(i, m)| format!("vm:{}:9 [0] NCCL INFO {m}", 10 + i)).collect()
}

/// Rule, subject, severity and evidence lines of what is found in these messages, each of another process.
fn found(messages: &[&str]) -> Vec<(&'static str, Finding)> {
    let lines = info(messages);
    let session = log(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    facts(&session.model, &session.ledger, true, &[]).into_iter().map(|f| (f.rule, f)).collect()
}

fn ids(messages: &[&str]) -> Vec<String> {
    found(messages).into_iter().map(|(id, f)| format!("{id} {}", f.subject)).collect()
}

const TWO_NODES: &str = "comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0";
const ONE_NODE: &str = "comm 0x1 rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0";
const SHM: &str = "Channel 00 : 3[3] -> 4[4] via SHM/direct/direct";

#[test]
fn sockets_are_a_fallback_where_something_better_was_named() {
    let all = found(&["NCCL_NET set by environment to AWS Libfabric", "Using network Socket", TWO_NODES]);
    assert_eq!(all.len(), 1);
    let (id, f) = &all[0];
    assert_eq!((*id, f.severity, f.job.as_deref()), ("fallback-to-sockets", Severity::Warning, Some("x.log")));
    assert_eq!((f.evidence[0].line, f.evidence[0].path.as_deref()), (Some(2), Some("/l/x.log")));
    assert!(f.evidence[1].text.contains("NCCL_NET set by"));
    let (_, f) = &found(&[
        "NCCL_IB_DISABLE set by environment to 1.",
        "NET/Plugin: Plugin name set by env to libx.so",
        "Using network Socket",
        TWO_NODES,
    ])[0];
    assert!(f.summary.contains("because of NCCL_IB_DISABLE=1") && f.severity == Severity::Warning, "{}", f.summary);
    assert!(ids(&["NCCL_NET set by environment to IB", "Using network Socket", ONE_NODE]).is_empty());
    // Without anything faster it is worth knowing, and no more.
    let plain = found(&["NET/Plugin: Could not find: libnccl-net.so", "NET/IB : No device found.", "Using network Socket", TWO_NODES]);
    assert_eq!(
        plain.iter().map(|(id, f)| (*id, f.severity, f.role)).collect::<Vec<_>>(),
        [("fallback-to-sockets", Severity::Info, Role::Context)]
    );
}

#[test]
fn ranks_on_different_networks_cannot_connect() {
    let (ib, sockets) = ("Using network IB", "Using network Socket");
    let mixed = |warns: bool| {
        let mut lines =
            info(&["NET/IB : No device found.", sockets, sockets, "NET/IB : Using [0]mlx5_0:1/IB; OOB ib0:10.0.0.4<0>", ib, ib]);
        if warns {
            lines.push("vm:11:9 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong type 4 != 3".into());
        }
        let session = log(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        facts(&session.model, &session.ledger, true, &[]).into_iter().find(|f| f.rule == "fallback-to-sockets")
    };
    let found = mixed(true).unwrap();
    let words = "ranks use different networks, which cannot connect to one another: IB on 2 processes and TCP sockets on 2 processes";
    assert_eq!((found.summary.as_str(), found.severity, found.role), (words, Severity::Error, Role::Root));
    assert_eq!((found.evidence[0].line, found.evidence[1].line), (Some(2), Some(5)));
    // Two runs, one after the other, may each have their own.
    assert!(mixed(false).is_none_or(|f| f.severity < Severity::Error));
}

#[test]
fn the_nvlink_fabric_as_nccl_prints_it() {
    const WELL: &str = "MNNVL busId 0x801000 fabric UUID 8f1e.a2b3 cliqueId 0x1 state 3 healthMask 0x1aa";
    let hgx = WELL.replace("8f1e.a2b3 cliqueId 0x1", "0.0 cliqueId 0x0").replace("0x1aa", "0x0");
    assert!(ids(&[WELL, WELL, TWO_NODES]).is_empty() && ids(&[&hgx, &hgx, TWO_NODES]).is_empty());
    let other = WELL.replace("cliqueId 0x1", "cliqueId 0x2");
    assert_eq!(ids(&[WELL, WELL, &other, TWO_NODES]), ["fabric-state clique"]);
    assert!(ids(&["NCCL_MNNVL_CLIQUE_ID set by environment to -2.", WELL, &other, TWO_NODES]).is_empty(), "the user chose so");
    let (_, waits) = &found(&[WELL, &WELL.replace("state 3", "state 2"), TWO_NODES])[0];
    assert!(waits.summary.ends_with("it has not come up (state 2)"), "{}", waits.summary);
    let (_, ill) = &found(&[WELL, &WELL.replace("0x1aa", "0x19a"), TWO_NODES])[0];
    assert!(ill.summary.ends_with("routes are unhealthy"), "{}", ill.summary);
    // Cliques of several hosts differ where a job spans racks.
    let lines = [format!("a:10:9 [0] NCCL INFO {WELL}"), format!("b:10:9 [0] NCCL INFO {other}")];
    let session = log(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(facts(&session.model, &session.ledger, true, &[]).len(), 0);
}

#[test]
fn transports_are_held_against_what_joins_the_gpus() {
    let nvlink = "GPU/0-9000 :GPU/0-9000 (0/5000.0/LOC) GPU/0-b000 (2/288.0/NVL)";
    assert!(ids(&[SHM, ONE_NODE]).is_empty(), "PCIe only, as far as is known");
    assert_eq!(ids(&[nvlink, SHM, ONE_NODE]), ["transport-below-topology local"]);
    let (_, f) = &found(&["NCCL_P2P_DISABLE set by environment to 1.", nvlink, SHM, ONE_NODE])[0];
    assert!(f.summary.contains("because of NCCL_P2P_DISABLE=1") && f.evidence.len() == 3, "{f:?}");
    assert_eq!(ids(&["Channel 00/0 : 3[3] -> 4[4] via P2P/indirect/5[5]"]), ["transport-below-topology indirect"]);
    let refused = "Check P2P Type isAllDirectP2p 0 directMode 0 isAllCudaP2p 1";
    assert_eq!(ids(&[nvlink, refused, ONE_NODE]), ["transport-below-topology direct"]);
    assert!(ids(&[refused, ONE_NODE]).is_empty());
    for sound in ["P2P/CUMEM", "P2P/CUMEM/read", "P2P/IPC", "P2P/IPC/read", "P2P/direct pointer", "P2P/MNNVL"] {
        assert!(ids(&[nvlink, &format!("Channel 00/0 : 3[3] -> 4[4] via {sound}"), ONE_NODE]).is_empty(), "{sound}");
    }
    let mut session = log(&info(&[SHM, ONE_NODE]).iter().map(String::as_str).collect::<Vec<_>>());
    sees(
        &mut session,
        at(1),
        Body::GpuTopology(GpuTopology { pairs: vec![GpuPair { a: 0, b: 1, nvlinks: Some(4), ..Default::default() }] }),
    );
    assert_eq!(facts(&session.model, &session.ledger, false, &[]).len(), 1);
}

#[test]
fn gpudirect_is_missed_where_it_is_there() {
    let net = "Channel 00/0 : 3[3] -> 12[4] [send] via NET/IB/0";
    assert!(ids(&[net, TWO_NODES]).is_empty());
    assert_eq!(ids(&["DMA-BUF is available on GPU device 0", net, TWO_NODES]), ["transport-below-topology gpudirect"]);
    let rings = "Connected all rings, use ring PXN 0 GDR 0";
    assert_eq!(
        ids(&["DMA-BUF is available on GPU device 0", "Using network IB", rings, TWO_NODES]),
        ["transport-below-topology gpudirect"]
    );
    let (_, f) = &found(&["NCCL_NET_GDR_LEVEL set by environment to LOC", net, TWO_NODES])[0];
    assert!(f.summary.contains("NCCL_NET_GDR_LEVEL=LOC"), "{}", f.summary);
    assert!(ids(&["DMA-BUF is available on GPU device 0", &format!("{net}/GDRDMA"), TWO_NODES]).is_empty());
}

#[test]
fn interfaces_that_nobody_else_reaches() {
    assert_eq!(ids(&["Bootstrap: Using docker0:172.17.0.1<0>", TWO_NODES]), ["wrong-interface docker0"]);
    assert!(ids(&["Bootstrap: Using lo:127.0.0.1<0>", ONE_NODE]).is_empty());
    assert!(ids(&["Bootstrap: Using eth0:10.0.0.1<0>", TWO_NODES]).is_empty());
}

#[test]
fn ranks_that_differ_are_named() {
    let init = |rank: u32| {
        format!("ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xab00000000 - Init COMPLETE")
    };
    let lines = [
        format!("vm:10:9 [0] NCCL INFO {}", init(0)),
        format!("vm:11:9 [0] NCCL INFO {}", init(1)),
        "vm:10:9 [0] NCCL INFO NCCL version 2.27.7+cuda12.9".into(),
        "vm:11:9 [0] NCCL INFO NCCL version 2.28.9+cuda12.9".into(),
        "vm:10:9 [0] NCCL INFO NCCL_ALGO set by environment to Ring".into(),
        "vm:11:9 [0] NCCL INFO NCCL_ALGO set by environment to Tree".into(),
        "vm:11:9 [0] NCCL INFO NCCL_HOSTID set by environment to b".into(),
        "vm:10:9 [0] NCCL INFO NCCL_HOSTID set by environment to a".into(),
    ];
    let session = log(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let all: Vec<(&str, String)> = facts(&session.model, &session.ledger, true, &[]).into_iter().map(|f| (f.rule, f.summary)).collect();
    assert_eq!(
        all,
        [
            ("env-mismatch", "NCCL_ALGO differs between ranks: Ring on rank 0, Tree on rank 1".to_owned()),
            ("version-mismatch", "ranks have different versions of NCCL: 2.27.7+cuda12.9 on rank 0, 2.28.9+cuda12.9 on rank 1".to_owned()),
        ]
    );
    // A line that lost its end is no other version.
    assert!(ids(&["NCCL version 2.27.7+cuda12.9", "NCCL version 2.27.7"]).is_empty());
    assert!(
        ids(&["NCCL_ALGO set by environment to Ring", "NCCL_ALGO set by environment to Ring", "NCCL_ALGO set by environment to Ri"])
            .is_empty()
    );
    let job = session.model.jobs.values().next().unwrap();
    let items = session.model.bringup_of("x.log").items(&session.model, job);
    let state = |id: &str| items.iter().find(|i| i.id == id).map(|i| (i.state, i.advice.is_some()));
    assert_eq!(state("ranks-agree"), Some((Seen::Fail, true)));
    assert_eq!(state("env-settings"), Some((Seen::Warn, true)));
}

#[test]
fn variables_that_do_nothing() {
    assert_eq!(ids(&["Warning: ENV NCCL_FOO is unused. Setting it has no effect.", ONE_NODE]), ["env-no-effect NCCL_FOO"]);
    assert!(ids(&["NCCL_MAX_P2P_PEERS set by environment to 4.", ONE_NODE]).is_empty(), "NCCL took it");
}

#[test]
fn an_init_that_stands_still_opens_and_clears_when_it_goes_on() {
    let start = |rank: u32| {
        format!(
            "vm:1{rank}:9 [0] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} nranks 3 cudaDev 0 nvmlDev 0 busId 60 commId 0xab00000000 - Init START"
        )
    };
    let (zero, one) = (start(0), start(1));
    let mut session = log(&[&zero, &one]);
    sees(&mut session, at(20), Body::Tick);
    assert!(!session.ledger.is_open("init-stuck", Some("x.log")));
    sees(&mut session, at(41), Body::Tick);
    let open = session.ledger.open().into_iter().find(|f| f.rule == "init-stuck").cloned().unwrap();
    assert_eq!(
        open.summary,
        "initialisation finished on 0 of 3 ranks after 41 s: ranks 0 and 1 began, rank 2 never did, as far as the logs here show"
    );
    assert_eq!(open.ranks, [2]);
    let done: Vec<String> = (0..3).map(|r| start(r).replace("START", "COMPLETE")).collect();
    tells(&mut session, at(42), &done.iter().map(String::as_str).collect::<Vec<_>>());
    sees(&mut session, at(43), Body::Tick);
    assert!(!session.ledger.is_open("init-stuck", Some("x.log")));
    // At the end of the input nothing is waited for.
    let session = log(&[&zero, &one]);
    assert!(facts(&session.model, &session.ledger, false, &[]).is_empty());
    assert_eq!(facts(&session.model, &session.ledger, true, &[])[0].rule, "init-stuck");
}
