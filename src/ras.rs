//! What NCCL's RAS service answers, in JSON (2.28.7 and newer) or as text (2.24 and newer), as one report. Reads no socket and knows
//! no clock; judges nothing.

mod json;
mod text;

use std::collections::BTreeMap;

/// One answer. What a format does not tell is empty or `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasReport {
    /// `2.28.9`
    pub nccl_version: Option<String>,
    /// In JSON every communicator; in text only those with something to report.
    pub comms: Vec<RasComm>,
    /// The table of the text report: communicators by shape and status. Empty in JSON.
    pub groups: Vec<RasGroup>,
    /// Text: processes that gave nothing, and how many there are, which may be more than are listed.
    pub missing_processes: RasProcesses,
    /// Text: processes that RAS has given up (unreachable for 60 s). In JSON see [`RasMissing::considered_dead`].
    pub dead_processes: RasProcesses,
    /// How often RAS itself waited in vain while it gathered this.
    pub timeouts_count: u64,
    pub collection_time_s: Option<f64>,
}

/// A communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasComm {
    /// `commId` of the Init lines.
    pub hash: u64,
    pub size: Option<u32>,
    pub nnodes: Option<u32>,
    /// Ranks that answered. Empty in text: see `spreads`.
    pub ranks: Vec<RasRank>,
    /// Ranks that did not. Text lists them only when they are few.
    pub missing: Vec<RasMissing>,
    /// How many did not, at least.
    pub missing_count: u32,
    /// What ranks disagree about, as the text report says it. Empty in JSON: see [`RasComm::op_counts`].
    pub spreads: Vec<RasSpread>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasRank {
    pub rank: u32,
    pub place: RasPlace,
    /// ncclResult: 0 is done, 7 in progress, anything else an error.
    pub init_state: i32,
    pub async_error: i32,
    pub finalized: bool,
    pub destroyed: bool,
    pub aborted: bool,
    /// Operations launched so far.
    pub counts: BTreeMap<Collective, u64>,
}

/// A rank of a communicator of which RAS has nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasMissing {
    pub rank: u32,
    pub place: RasPlace,
    /// Its process does not answer. `Some(false)`: it does, but no longer (or not yet) belongs to the communicator.
    pub unresponsive: Option<bool>,
    pub considered_dead: Option<bool>,
}

/// Where a rank runs, as far as RAS knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasPlace {
    /// An IP address, not a name.
    pub host: Option<String>,
    /// In the process's own PID namespace.
    pub pid: Option<u32>,
    /// Index after CUDA_VISIBLE_DEVICES.
    pub cuda_dev: Option<u32>,
    pub nvml_dev: Option<u32>,
}

/// A row of the communicators table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasGroup {
    pub group: u32,
    pub comms: u32,
    pub nodes_per_comm: u32,
    pub ranks_per_comm: u32,
    /// Ranks of the whole group that answered.
    pub ranks_in_group: u32,
    /// `RUNNING`
    pub status: String,
    /// `OK`, or of `INCOMPLETE`, `ERROR`, `MISMATCH`, joined by commas.
    pub errors: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasProcesses {
    pub count: u32,
    pub listed: Vec<RasProcess>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasProcess {
    pub pid: u32,
    pub host: String,
    /// CUDA indices.
    pub gpus: Vec<u32>,
}

/// One thing about which the ranks of a communicator differ, or some of them complain.
#[derive(Clone, Debug, PartialEq)]
pub struct RasSpread {
    pub of: SpreadOf,
    pub parts: Vec<RasPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadOf {
    /// Operations launched; `None` before NCCL 2.26, which counted all collectives together.
    Count(Option<Collective>),
    Status,
    InitError,
    AsyncError,
}

/// Ranks that agree.
#[derive(Clone, Debug, PartialEq)]
pub struct RasPart {
    pub value: PartValue,
    pub rank_count: u32,
    /// Who they are, unless they are too many to be listed.
    pub ranks: Vec<(u32, RasPlace)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartValue {
    /// Has launched up to this operation; 0 is none.
    Count(u64),
    /// `RUNNING`, or `Unhandled CUDA error`.
    Said(String),
}

/// The operations that RAS counts. Send, Recv and what is built from them are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllReduce,
}

impl Collective {
    pub const ALL: [Collective; 5] =
        [Collective::Broadcast, Collective::Reduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce];

    pub fn as_str(self) -> &'static str {
        match self {
            Collective::Broadcast => "Broadcast",
            Collective::Reduce => "Reduce",
            Collective::AllGather => "AllGather",
            Collective::ReduceScatter => "ReduceScatter",
            Collective::AllReduce => "AllReduce",
        }
    }

    pub fn named(name: &str) -> Option<Collective> {
        Collective::ALL.into_iter().find(|op| op.as_str() == name)
    }
}

impl RasRank {
    /// Of all kinds.
    pub fn operations(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl RasComm {
    /// The ranks by their count of `op`, the furthest behind first. From either format; empty where text reports no difference.
    pub fn op_counts(&self, op: Collective) -> Vec<RasPart> {
        let mut parts: Vec<RasPart> = match self.spreads.iter().find(|spread| spread.of == SpreadOf::Count(Some(op))) {
            Some(spread) => spread.parts.clone(),
            None => {
                let mut by_count: BTreeMap<u64, Vec<(u32, RasPlace)>> = BTreeMap::new();
                for rank in &self.ranks {
                    if let Some(&count) = rank.counts.get(&op) {
                        by_count.entry(count).or_default().push((rank.rank, rank.place.clone()));
                    }
                }
                let part =
                    |(count, ranks): (u64, Vec<_>)| RasPart { value: PartValue::Count(count), rank_count: ranks.len() as u32, ranks };
                by_count.into_iter().map(part).collect()
            }
        };
        parts.sort_by_key(|part| match part.value {
            PartValue::Count(count) => count,
            PartValue::Said(_) => u64::MAX,
        });
        parts
    }
}

/// Why an answer is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RasError {
    #[error("the answer is empty")]
    Empty,
    #[error("RAS answered {0:?}")]
    Refused(String),
    #[error("the answer is not a RAS report; it begins {0:?}")]
    NotAReport(String),
    #[error("the answer is cut off: {0}")]
    CutOff(String),
    #[error("the answer is not the JSON that NCCL prints: {0}")]
    Json(String),
}

/// Reads an answer, with or without the lines of the protocol before it.
///
/// # Errors
/// The answer is no report, or not a whole one.
pub fn parse(reply: &str) -> Result<RasReport, RasError> {
    let (report, refusal) = without_chatter(reply);
    match report.as_bytes().first() {
        Some(b'{') => json::parse(report),
        Some(_) if report.starts_with("NCCL version ") => text::parse(report),
        Some(_) => Err(RasError::NotAReport(report.chars().take(60).collect())),
        None => Err(refusal.map_or(RasError::Empty, |line| RasError::Refused(line.chars().take(200).collect()))),
    }
}

/// The report, and the last line with which the service refused something.
pub(crate) fn without_chatter(reply: &str) -> (&str, Option<&str>) {
    let mut rest = reply.trim_start();
    let mut refusal = None;
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        match line.trim_end() {
            "OK" => {}
            // A server that does not know a command echoes it and goes on.
            line if line.starts_with("ERROR:") => refusal = Some(line),
            line if line.starts_with("SERVER PROTOCOL ") => {}
            _ => return (rest, refusal),
        }
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Answers of NCCL 2.28.9 on 8 H200, recorded 2026-11-21. A last line `# took` is the recorder's.
    fn recorded(name: &str) -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/ras").join(name);
        let text = std::fs::read_to_string(path).unwrap();
        text.split("\n# ").next().unwrap().to_string()
    }

    fn counts(comm: &RasComm, op: Collective) -> Vec<(PartValue, u32)> {
        comm.op_counts(op).into_iter().map(|part| (part.value, part.rank_count)).collect()
    }

    #[test]
    fn a_hang_shows_who_is_behind_in_both_formats() {
        for name in ["hang-5.json", "hang-5.txt"] {
            let report = parse(&recorded(name)).unwrap();
            assert_eq!(report.nccl_version.as_deref(), Some("2.28.9"));
            assert_eq!(report.comms[0].hash, 0xbe2d_e794_bcb5_9ec0);
            let parts = report.comms[0].op_counts(Collective::AllReduce);
            let behind = &parts[0];
            assert_eq!((&behind.value, behind.rank_count, behind.ranks[0].0), (&PartValue::Count(229), 1, 3), "{name}");
            assert_eq!(behind.ranks[0].1.pid, Some(2939));
            assert_eq!((&parts[1].value, parts[1].rank_count), (&PartValue::Count(241), 7));
        }
    }

    #[test]
    fn a_stopped_process_is_missing_in_both_formats() {
        let json = parse(&recorded("stop-4.json")).unwrap();
        assert_eq!(json.timeouts_count, 2);
        assert_eq!(json.collection_time_s, Some(3.347));
        let comm = &json.comms[0];
        assert_eq!((comm.hash, comm.size, comm.ranks.len(), comm.missing_count), (0x41b7_b3e9_a4b3_d962, Some(8), 7, 1));
        let place = RasPlace { host: Some("192.0.2.2".into()), pid: Some(1837), cuda_dev: Some(4), nvml_dev: Some(4) };
        assert_eq!(comm.missing, [RasMissing { rank: 4, place: place.clone(), unresponsive: Some(true), considered_dead: Some(false) }]);

        let text = parse(&recorded("stop-4.txt")).unwrap();
        let comm = &text.comms[0];
        assert_eq!((comm.hash, comm.size, comm.missing_count), (0x41b7_b3e9_a4b3_d962, Some(8), 1));
        assert_eq!(comm.missing, [RasMissing { rank: 4, place, unresponsive: None, considered_dead: None }]);
        assert_eq!(text.missing_processes.listed, [RasProcess { pid: 1837, host: "192.0.2.2".into(), gpus: vec![4] }]);
        assert_eq!(text.groups[0].errors, "INCOMPLETE");
    }

    #[test]
    fn a_checkpoint_leaves_the_writer_one_operation_behind() {
        for name in ["checkpoint-2.json", "checkpoint-2.txt"] {
            let report = parse(&recorded(name)).unwrap();
            let parts = report.comms[0].op_counts(Collective::AllReduce);
            assert_eq!((&parts[0].value, parts[0].ranks[0].0), (&PartValue::Count(2389), 0), "{name}");
            assert_eq!(counts(&report.comms[0], Collective::AllReduce)[1], (PartValue::Count(2390), 7));
        }
    }

    #[test]
    fn a_symmetric_deadlock_has_equal_counts() {
        let report = parse(&recorded("symmetric-6.json")).unwrap();
        assert_eq!(report.comms.len(), 3);
        for comm in &report.comms {
            for op in Collective::ALL {
                assert_eq!(comm.op_counts(op).len(), 1, "{:x} {op:?}", comm.hash);
            }
        }
        let text = parse(&recorded("symmetric-6.txt")).unwrap();
        assert_eq!((text.comms.len(), text.groups[0].comms, text.groups[0].errors.as_str()), (0, 3, "OK"));
    }

    #[test]
    fn a_deadlock_in_the_first_collective_has_counts_of_zero() {
        let report = parse(&recorded("init-deadlock-9.json")).unwrap();
        let idle = report.comms.iter().filter(|comm| counts(comm, Collective::AllReduce) == [(PartValue::Count(0), 8)]).count();
        assert_eq!((report.comms.len(), idle), (3, 2));
        assert!(report.comms.iter().flat_map(|comm| &comm.ranks).all(|rank| rank.init_state == 0 && !rank.aborted));
    }

    #[test]
    fn what_is_no_report_is_said_to_be_none() {
        assert_eq!(parse(""), Err(RasError::Empty));
        assert_eq!(parse("SERVER PROTOCOL 2\nOK\n"), Err(RasError::Empty));
        assert_eq!(parse("ERROR: Unknown command foo\n"), Err(RasError::Refused("ERROR: Unknown command foo".into())));
        assert!(matches!(parse("220 smtp ready\r\n"), Err(RasError::NotAReport(_))));
    }

    #[test]
    fn a_cut_answer_is_no_report() {
        for name in ["stop-4.json", "hang-5.json"] {
            let whole = recorded(name);
            for end in (200..whole.trim_end().len()).step_by(97) {
                assert!(matches!(parse(&whole[..end]), Err(RasError::CutOff(_))), "{name} cut at {end}");
            }
        }
        let whole = recorded("stop-4.txt");
        for end in 60..whole.find("Warnings").unwrap() {
            assert!(matches!(parse(&whole[..end]), Err(RasError::CutOff(_))), "cut at {end}");
        }
    }

    #[test]
    fn an_old_server_refuses_json_and_answers_in_text() {
        let reply =
            format!("SERVER PROTOCOL 2\nOK\nERROR: Unknown command set format json\n{}", without_chatter(&recorded("hang-5.txt")).0);
        assert_eq!(parse(&reply).unwrap().comms.len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(reply in "\\PC*", lines in proptest::collection::vec("( {0,2}(Rank|Process|INCOMPLETE|#0-0 \\(\\PC{0,16}\\) MISMATCH|Errors|Warnings|[0-9 ]{0,40}) ?\\PC{0,40})?", 0..20)) {
            let _ = parse(&reply);
            let _ = parse(&format!("{{{reply}"));
            let _ = parse(&format!("NCCL version {reply}\nCommunicators...\n{}", lines.join("\n")));
        }

        #[test]
        fn no_damage_to_an_answer_makes_it_panic(which in 0usize..4, at in 0.0f64..1.0, byte in 0u8..128, cut in any::<bool>()) {
            let mut bytes = recorded(["stop-4.json", "stop-4.txt", "hang-5.json", "init-deadlock-4.txt"][which]).into_bytes();
            let at = (at * bytes.len() as f64) as usize;
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            let _ = parse(&String::from_utf8(bytes).unwrap());
        }
    }
}
