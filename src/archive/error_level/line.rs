//! A line of a program that nobody knows, taken apart: who wrote it, how bad its writer calls it, and what it says.

use crate::logs::prefix::{self, Level};
use crate::logs::{Origin, Written};
use regex::Regex;
use std::sync::LazyLock;

/// How far into a line its level is looked for.
const NEAR: usize = 200;

pub struct Line {
    pub origin: Origin,
    pub level: Option<Level>,
    /// The program or the part of it that wrote the line, as the line has it: `EngineCore_0`, `slurmctld`, `nvidia-persistenced`.
    pub program: Option<String>,
    /// Without prefixes and level.
    pub said: String,
    /// It has a time of its own.
    pub has_time: bool,
    /// A part of a record that began above, by its blanks.
    pub is_inner: bool,
}

impl Line {
    /// `text` without control characters.
    pub fn of(text: &str) -> Line {
        let is_tabbed = text.starts_with('\t');
        let text = &text.replace('\t', " ");
        if let Some(said) = failed_in_table(text) {
            let nobody = Origin::default();
            return Line { origin: nobody, level: Some(Level::Error), program: None, said, has_time: false, is_inner: false };
        }
        let near = crate::base::clean::clip(text, NEAR);
        let peeled = prefix::peel(text);
        let labelled = label(peeled.rest.trim());
        let in_events = event_of_kubernetes(peeled.rest);
        // A line of a record, such as a frame of a traceback, says nothing by itself.
        let has_failed = says_failure(peeled.rest);
        let is_indented = is_tabbed || peeled.rest.starts_with("  ") || peeled.rest.trim_start().starts_with("File \"");
        // Counts of a report are indented, too: `    FAILED: 2 of 400`.
        let is_verdict = has_failed && peeled.rest.contains("FAILURE: ");
        let is_inner = in_events.is_none() && is_indented && !is_verdict;
        let failed = || has_failed.then_some(Level::Error);
        let of_line = labelled.map(|(level, _)| level).or(in_events).or_else(|| prefix::level(&near)).or_else(failed);
        let level = if is_inner { Some(Level::Low) } else { of_line };
        let of_event = in_events.and_then(|_| without_columns(peeled.rest));
        let rest = of_event.as_deref().unwrap_or_else(|| labelled.map_or_else(|| without_level(peeled.rest.trim()), |(_, rest)| rest));
        let has_time = peeled.origin.written.is_some() || prefix::has_kernel_clock(text);
        let program = program(text).filter(|name| !rest.to_lowercase().contains(&name.to_lowercase()));
        let mut origin = peeled.origin;
        origin.written = origin.written.or_else(|| time_within(&near));
        origin.rank = origin.rank.or_else(|| rank_of(text));
        Line { origin, level, program, said: words_of(rest), has_time, is_inner }
    }

    /// What it says, behind the name of its writer.
    pub fn words(&self) -> String {
        if let Some(why) = without_room(&self.said) {
            return why;
        }
        match &self.program {
            Some(program) => format!("{program}: {}", self.said),
            None => self.said.clone(),
        }
    }
}

/// What keeps a pod from its node, of `Error pod w-0 condition message: 0/6 nodes are available: 5 Insufficient memory. no new claims to deallocate, …`.
fn without_room(said: &str) -> Option<String> {
    let (pod, tail) = said.split_once("Error pod ")?.1.split_once(" condition message: ")?;
    let (_, why) = tail.split_once(" nodes are available: ")?;
    let why = [". no new claims", ". preemption:"].iter().fold(why, |why, end| why.split(end).next().unwrap_or(why));
    Some(format!("pod {pod} finds no node: {}", why.trim_end_matches('.')))
}

/// `FAILURE: Some tests failed on rank 6`, with whatever stands in front of it that is no word.
fn says_failure(rest: &str) -> bool {
    let said = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
    let tail = ["FAILURE: ", "FAILED: ", "FAIL: "].iter().find_map(|label| said.strip_prefix(label)).unwrap_or_default();
    let tail = tail.trim().to_ascii_lowercase();
    tail.contains(' ') && !["0 ", "0/", "0,", "no ", "none"].iter().any(|nothing| tail.starts_with(nothing))
}

/// A row of a table, or a line between two of them.
pub fn is_of_table(text: &str) -> bool {
    let text = text.trim();
    let is_row = |side: char| text.starts_with(side) && text.ends_with(side) && text.len() > 2;
    is_row('|')
        || is_row('\u{2502}')
        || text.len() > 8 && text.chars().all(|c| "+-=|_ ".contains(c) || ('\u{2500}'..='\u{257f}').contains(&c))
}

/// `ib_write_bw failed: mlx5_3: 112 Gb/s` of the row `| ib_write_bw | FAIL | mlx5_3: 112 Gb/s |`.
fn failed_in_table(text: &str) -> Option<String> {
    let text = text.trim();
    let side = text.chars().next().filter(|c| matches!(c, '|' | '\u{2502}'))?;
    if !is_of_table(text) {
        return None;
    }
    let cells: Vec<&str> = text.split(side).map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let is_failure = |cell: &&str| matches!(cell.to_ascii_lowercase().as_str(), "fail" | "failed" | "failure" | "error");
    let at = cells.iter().position(is_failure).filter(|_| cells.len() > 1)?;
    let before = cells[..at].join(", ");
    let behind = if at + 1 < cells.len() { format!(": {}", cells[at + 1..].join(", ")) } else { String::new() };
    Some(format!("{before} failed{behind}"))
}

/// `2026-10-11-15:09:34` of CANN, and other times within the head of a line.
fn time_within(near: &str) -> Option<Written> {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:^|[^0-9])([0-9]{4})[-:/]([0-9]{2})[-:/]([0-9]{2})[-T ]([0-9]{2}:[0-9]{2}:[0-9]{2})").expect("pattern")
    });
    let found = TIME.captures(near)?;
    let (written, _) = prefix::stamp::iso(&format!("{}-{}-{} {}", &found[1], &found[2], &found[3], &found[4]))?;
    Some(written)
}

/// `slurmctld: error: text`, `[63532.0] error: text`, `fatal: text`: a level in small letters with a colon, behind nothing but the names of
/// programs and brackets.
fn label(rest: &str) -> Option<(Level, &str)> {
    static LABEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"^(?:(?:\[[^\]\[]{1,60}\]|\([^()]{1,60}\)|[\w./@-]{1,40}(?:\[[0-9]+\])?:)\s*){0,4}(?P<level>(?:[Ff]atal )?[Ee]rror|[Ff]atal|[Cc]ritical|ERR|CRIT|[Ww]arning|[Ii]nfo|[Dd]ebug|[Nn]otice):\s+(?P<said>\S.*)$",
        )
        .expect("pattern")
    });
    let found = LABEL.captures(rest)?;
    let level = match found["level"].to_ascii_lowercase().as_str() {
        "error" | "err" => Level::Error,
        "warning" => Level::Warning,
        "info" | "debug" | "notice" => Level::Low,
        _ => Level::Fatal,
    };
    Some((level, found.name("said")?.as_str()))
}

/// `Warning  BackOff  2m49s  kubelet  text` in the list of a pod's events.
fn event_of_kubernetes(rest: &str) -> Option<Level> {
    static EVENT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\s*(?:\S+\s+)?(?P<type>Warning|Normal)\s+[A-Z][A-Za-z]{3,40}\s+\S").expect("pattern"));
    // A warning of Kubernetes is all that it has for failures.
    EVENT.captures(rest).map(|found| if &found["type"] == "Normal" { Level::Low } else { Level::Error })
}

/// `BackOff: text` of such an event.
fn without_columns(rest: &str) -> Option<String> {
    static COLUMNS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:Warning|Normal)\s+(?P<reason>[A-Z]\w+)\s+\S+(?: \(x[0-9]+ over \S+\))?\s+(?P<from>[\w-]+)\s+(?P<text>\S.*)$")
            .expect("pattern")
    });
    let found = COLUMNS.captures(rest)?;
    Some(format!("{}: {}", &found["reason"], &found["text"]))
}

/// `[FATAL] x` and `ERROR x` without what stands in front of x.
fn without_level(rest: &str) -> &str {
    static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?x)^(?:
                \[[0-9]{4}-[0-9]{2}-[0-9]{2}[\x20T][0-9:.,]+\x20[A-Z]\x20[0-9\x20]+\]\s+(?:\([\w-]+\)\s+)?
                | [0-9]{4}-[0-9]{2}-[0-9]{2}[\x20T][0-9:.]+:\x20[EFW]\x20
                | \[[A-Z][a-z]{2}\x20[0-9]{1,2}\x20[0-9]{4}\x20[0-9:]{8}\]\s+
                | [0-9]{2,4}[-:/][0-9]{2}[-:/][0-9]{2}[-T\x20][0-9]{2}:[0-9]{2}:[0-9]{2}[0-9.,]*Z?:?\s*(?:\([^()]{1,60}\)\s+)?
                )?
                (?:[\[|(<]?[A-Za-z0-9-]{1,12}[\]|)>]\s?){0,2}
                (?:[\[|(]?(?:[A-Z]+_)?(?:ERROR|FATAL|CRITICAL|SEVERE|WARN(?:ING)?|INFO|NOTICE|DEBUG)[\]|):]?\s+)?",
        )
        .expect("pattern")
    });
    // Whatever stands between the level and the text: `HCCL(4120,python3):2026-08-02-11:22:57.070.463 [socket.cc:100] [4120]`.
    static HEAD: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"^(?:[A-Za-z][\w.-]{0,20}\([^()\s]{0,40}\):)?(?:[0-9]{4}[-:/][0-9]{2}[-:/][0-9]{2}[-T ][0-9:.,]{8,}\s*)?(?:\[(?:[pt]id )?[^\[\]\s]*[0-9:][^\[\]\s]*\]\s*){0,4}",
        )
        .expect("pattern")
    });
    let cut = |rest: &str, pattern: &Regex, least: usize| {
        let end = pattern.find(rest).map_or(0, |found| found.end());
        if rest.len() - end >= least { end } else { 0 }
    };
    // The place in the source stands in the proof.
    static PLACE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\[?[\w./+<>-]+\.(?:cc|cpp|cu|cuh|h|hpp|c|go|rs|py):[0-9]+[:\]]\s+").expect("pattern"));
    let behind = &rest[cut(rest, &LEVEL, 8)..];
    let behind = &behind[cut(behind, &HEAD, 20)..];
    &behind[cut(behind, &PLACE, 20)..]
}

/// What a structured logger puts behind its text is told in the order of a sentence: `text {"name":"x","error":"why"}` is `text: why (name x)`,
/// and so is `msg="text" error="why"`.
fn words_of(rest: &str) -> String {
    // Of a long list of numbers the ends suffice.
    static LIST: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b([0-9]{1,6})(?:, ?[0-9]{1,6}){5,}, ?([0-9]{1,6})\b").expect("pattern"));
    let rest = rest.trim_start_matches([':', ' ']);
    let said = of_fields(rest).or_else(|| of_pairs(rest)).unwrap_or_else(|| rest.to_owned());
    LIST.replace_all(&said, "$1, …, $2").into_owned()
}

fn of_fields(rest: &str) -> Option<String> {
    let at = rest.find('{').filter(|at| *at >= 4 && rest.ends_with('}'))?;
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&rest[at..]).ok()?;
    let text = |key: &&str| fields.get(*key)?.as_str();
    let error = ["error", "err", "reason", "exception"].iter().find_map(text)?;
    let named = ["name", "pod", "node", "device", "job"].iter().find_map(|key| Some((key, text(key)?)));
    let named = named.map_or(String::new(), |(key, name)| format!(" ({key} {name})"));
    Some(format!("{}: {error}{named}", rest[..at].trim().trim_end_matches(':')))
}

fn of_pairs(rest: &str) -> Option<String> {
    static MESSAGE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"(?:^|\s)(?:msg|message)="((?:[^"\\]|\\.)*)""#).expect("pattern"));
    static ERROR: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"\s(?:err|error|reason)="((?:[^"\\]|\\.)*)""#).expect("pattern"));
    static KLOG: LazyLock<Regex> = LazyLock::new(|| Regex::new(r#"^"((?:[^"\\]|\\.)*)"(?:\s|$)"#).expect("pattern"));
    let first = |pattern: &Regex| Some(pattern.captures(rest)?.get(1)?.as_str().replace("\\\"", "\""));
    let message = first(&MESSAGE).or_else(|| first(&KLOG))?;
    let error = first(&ERROR).map_or(String::new(), |error| format!(": {error}"));
    let named = ["pod", "node", "device", "container", "job"].iter().find_map(|key| Some((key, pair(rest, key)?)));
    let named = named.map_or(String::new(), |(key, name)| format!(" ({key} {name})"));
    Some(format!("{message}{error}{named}"))
}

/// The value of ` key="value"` or ` key=value`.
fn pair<'a>(rest: &'a str, key: &str) -> Option<&'a str> {
    let tail = rest.split_once(&format!(" {key}="))?.1;
    let value = tail.strip_prefix('"').map_or_else(|| tail.split(' ').next(), |tail| tail.split('"').next())?;
    (!value.is_empty() && value.len() <= 80).then_some(value)
}

/// The name of who wrote a line, where a usual form has it.
fn program(text: &str) -> Option<String> {
    static FORMS: LazyLock<[Regex; 6]> = LazyLock::new(|| {
        [
            // A role with a process: vLLM, Ray.
            r"^\((?P<name>[A-Za-z]\w{2,30}) (?:rank=\d+ )?pid=",
            // The system's log.
            r"^(?:[A-Z][a-z]{2} +\d+ [\d:]{8}|\d{4}-\d\d-\d\dT\S+) [\w.-]+ (?P<name>[A-Za-z][\w.@/-]{1,40})\[\d+\]: ",
            // Slurm and other daemons, by their own name.
            r"^(?:\[[^\]]{1,40}\] ?)*(?P<name>[a-z][a-z0-9_.-]{2,30})(?:\[\d+\])?: (?:error|fatal|warning|Error|Fatal|failed|Failed|cannot|unable)\b",
            // TensorRT-LLM and its like.
            r"^(?:\S+ )?\[(?P<name>[A-Z][A-Za-z][\w-]{2,24})\]\s?\[(?:E|F|ERROR|FATAL|CRITICAL)\]",
            // A logger's name behind the level: Rust, log4j, Python.
            r"\s(?:ERROR|FATAL|CRITICAL|SEVERE)\s+(?:\[[^\]]{1,60}\] )?(?P<name>[A-Za-z][\w:.-]{2,60}?): ",
            // The kernel's part: `LustreError: `.
            r"(?:kernel: |^\[[ \d.]+\] )(?P<name>[A-Z][A-Za-z]{2,20}): ",
        ]
        .map(|form| Regex::new(form).expect("pattern"))
    });
    let name = FORMS.iter().find_map(|form| Some(form.captures(text)?.name("name")?.as_str()))?;
    // `ValueError: ` is what is said, not who says it.
    let is_kind = name.ends_with("Error") || name.ends_with("Exception") || matches!(name, "error" | "fatal" | "Traceback");
    (!is_kind).then(|| name.rsplit("::").next().unwrap_or(name).to_owned())
}

/// The rank that a line's own head names: `rank=3` of structured loggers, `RankID:101`, `[rank 2]`, `rank 2:` at the start.
fn rank_of(text: &str) -> Option<u32> {
    static RANK: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?:\brank=|[,(\[ ]RankID:\s?|^\W{0,2}[Rr]ank[ :#]{0,2}|\[[Rr]ank[ :_]?)(?P<rank>\d{1,6})\b").expect("pattern")
    });
    // Of `rank=`, the last is the writer's.
    RANK.captures_iter(text).last()?["rank"].parse().ok().filter(|rank| *rank < 1 << 20)
}

#[cfg(test)]
mod tests {
    use super::Line;
    use crate::logs::prefix::Level;

    #[test]
    fn who_says_what() {
        for (text, program, level, said) in [
            ("slurmctld: error: node c3 is down", Some("slurmctld"), Some(Level::Error), "node c3 is down"),
            ("[2026-12-14T09:44:56.002] [63532.0] error: step hangs on c3", None, Some(Level::Error), "step hangs on c3"),
            ("Oct 02 09:10:11 c3 gpud[14]: Failed to query", Some("gpud"), None, "Failed to query"),
            ("(EngineCore_0 pid=412) ERROR 11-13 01:33:24 [core.py:700] no room", Some("EngineCore_0"), Some(Level::Error), "no room"),
            (
                "2026-10-04T10:00:00Z ERROR acme_feeder::net: the peer is gone",
                Some("net"),
                Some(Level::Error),
                "acme_feeder::net: the peer is gone",
            ),
            (
                "time=\"2026-05-04T10:00:00Z\" level=error msg=\"cannot sync\" error=\"no lease\" node=c3",
                None,
                Some(Level::Error),
                "cannot sync: no lease (node c3)",
            ),
            (
                "2026-07-01T10:02:31Z\tERROR\tReconcile failed\t{\"name\": \"job-1\", \"error\": \"denied\"}",
                None,
                Some(Level::Error),
                "Reconcile failed: denied (name job-1)",
            ),
            ("  Warning  BackOff  2m (x3 over 9m)  kubelet  it ends", None, Some(Level::Error), "BackOff: it ends"),
            ("[7] ERROR devices=[0,1,2,3,4,5,6,7] never came", None, Some(Level::Error), "devices=[0, …, 7] never came"),
            ("ValueError: shard 7 is empty", None, None, "ValueError: shard 7 is empty"),
        ] {
            let line = Line::of(text);
            let name = line.program.as_deref().filter(|_| program.is_some());
            assert_eq!((line.level, line.said.as_str()), (level, said), "{text}");
            assert!(name == program || line.said.contains(program.unwrap_or_default()), "{text}: {:?}", line.program);
        }
    }

    #[test]
    fn the_writers_rank() {
        assert_eq!(Line::of("[ERROR] 2026-10-11-15:09:34 (PID:2969, Device:0, RankID:101) it failed").origin.rank, Some(101));
        assert_eq!(Line::of("worker lost rank=3").origin.rank, Some(3));
        assert_eq!(Line::of("[rank 2] reader.cpp:88: cannot open it").origin.rank, Some(2));
        assert_eq!(Line::of("nobody is named, the rank is unknown").origin.rank, None);
    }
}
