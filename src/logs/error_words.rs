//! What an exception, or an error of NCCL in it, comes down to: the point of a text.

use super::header::nccl_version;
use regex::Regex;
use std::sync::LazyLock;

/// `ValueError: bad sample`
pub fn exception_words(e: &super::Exception) -> String {
    if e.message.is_empty() { e.class.clone() } else { format!("{}: {}", e.class, e.message) }
}

/// Whether a message only says that something follows: `Engine start failed:`, `2 validation errors for TrainConfig`, the first command of a
/// build that failed.
pub fn announces(message: &str) -> bool {
    static COUNT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^[0-9]+ \S*\s?errors? (?:for|in|while|during) |: \[[0-9]+/[0-9]+\] \S").expect("pattern"));
    message.trim_end().ends_with(':') || COUNT.is_match(message)
}

/// A line of a library behind an exception: `EI0006: …`, `[PID: 2969] … (EJ0002): …`, `[ERROR] 2026-… (PID:2969, …) ERR02200 …` of Ascend.
pub fn is_library_report(text: &str) -> bool {
    static REPORT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:E[A-Z0-9][0-9]{4}: |\[PID: ?[0-9]+\] |\[Error\]: |(?:\[ERROR\] )?(?:[0-9:.-]+ )?\(PID:[0-9]+, |ERR[0-9]{5} )")
            .expect("pattern")
    });
    REPORT.is_match(text)
}

/// What an exception says that only hands on another error: of a process that it started, or in lines above and below.
pub fn hands_on(message: &str) -> bool {
    static HANDS_ON: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)\b(?:see|check|inspect|look\ at|refer\ to)\b[^.]{0,40}\b(?:above|below|logs?|outputs?|errors?|trace\w*|stderr) | root\ cause
            | \b(?:worker|process|subprocess|actor|engine|child|task|thread|rank|replica|server|node|launcher|program|script|command|pool|core)\w*\b[^.;]{0,80}
              \b(?:died|dead|failed|exited|crashed|terminated|killed|broken|stopped|not\ alive|disappeared|unexpectedly|abruptly)\b
            | ^(?:\w+:\ )?On\ WorkerInfo\(id=[0-9]+,
            | \breturned?\ (?:a\ )?non-?zero | \bexit(?:ed)?\ (?:with\ )?(?:code|status)\b | \b(?:initiali[sz]ation|startup|launch)\ failed | \bfailed\ to\ (?:start|launch|initiali[sz]e) | \ban\ error\ occurr?ed\ (?:while|during|in|when)\b
            ",
        )
        .expect("pattern")
    });
    HANDS_ON.is_match(message.lines().next().unwrap_or_default())
}

/// A finding's words without who it is, in front of them: `rank 3: `, `local rank 2 of node-a: `, `host node-a: `.
pub fn without_who(words: &str) -> &str {
    static WHO: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:ranks? [0-9]+(?:, [0-9]+)*(?: (?:and|to) [0-9]+)?|local rank [0-9]+(?: of [^\s:]+)?|host [^\s:]+|[\w.:-]+ \(pid [0-9]+\)(?: of [^\s:]+)?): ")
            .expect("pattern")
    });
    WHO.find(words).map_or(words, |who| &words[who.end()..])
}

/// A call of a library that failed, by a number: why, the library says elsewhere.
fn is_call_by_number(message: &str) -> bool {
    static CALL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\berror code (?:is )?:?[0-9]+\b|\bret(?:code|urn code)?[ =:]+(?:0x)?[0-9a-f]+\.?$").expect("pattern")
    });
    CALL.is_match(message)
}

/// MXNet and TVM put the time of day in front of what they throw: `[11:55:41] fused_op.cu:605: Check failed: …`. Alibaba's store of objects puts
/// the number of the request there.
fn without_stamp(message: &str) -> &str {
    static STAMP: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(?:\[\d\d:\d\d:\d\d\] |req_id: \w+, http status code: \d+, )").expect("pattern"));
    STAMP.find(message).map_or(message, |stamp| &message[stamp.end()..])
}

/// The point of a message of several lines: its first line, and where that only announces what follows, the line that says it.
pub fn point(message: &str) -> String {
    if let Some(words) = of_traced_call(message) {
        return words;
    }
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    // PyTorch puts it in front of the reason.
    let first = &without_stamp(first).replace(", please report a bug to PyTorch.", ":");
    let rest: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let by_number = is_call_by_number(first);
    // A short one may lack what it is about.
    let is_short = first.len() < SHORT;
    if rest.is_empty() || !first.is_empty() && !announces(first) && !by_number && !is_short {
        return first.to_owned();
    }
    let indent = |line: &str| line.len() - line.trim_start().len();
    let at = rest.iter().position(|line| is_error(line)).or_else(|| rest.iter().position(|line| says_why(line)));
    let told = match at {
        // What a line that stands less deep names, the next one is about.
        Some(at) => {
            let above = at.checked_sub(1).map(|above| rest[above]).filter(|above| indent(above) < indent(rest[at]));
            above.into_iter().chain([rest[at]]).map(str::trim).collect::<Vec<_>>().join(": ")
        }
        None if by_number => return first.to_owned(),
        None => rest[0].trim().to_owned(),
    };
    match () {
        () if by_number || first.is_empty() => told,
        // The command of a build is not worth telling.
        () if announces(first) && !first.ends_with(':') && first.contains(": [") => {
            format!("{}: {told}", first.split(": [").next().unwrap_or_default())
        }
        () if first.ends_with(':') || announces(first) => format!("{first} {told}"),
        () => format!("{first}: {told}"),
    }
}

/// What PyTorch's tracer says of a call that it could not run, without the call's arguments, whose tensors fill lines:
/// `Dynamo failed to run FX node with fake tensors: call_method view(*(FakeTensor(…), 7), **{}): got RuntimeError("…")` (2.7 and later),
/// `Failed running call_function <built-in function add>(*(FakeTensor(…), 7), **{}):` and a line with the reason before.
fn of_traced_call(message: &str) -> Option<String> {
    static CALL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?s)\b(?:Dynamo failed to run FX node with fake tensors: |Failed running )(?P<call>call_\w+ [^*]{1,120}?)\(\*\(.*\*\*\{.*?\}\):\s*(?:got )?(?P<got>[^\n]+)").expect("pattern")
    });
    let found = CALL.captures(message)?;
    let call = found["call"].split_whitespace().collect::<Vec<_>>().join(" ");
    Some(format!("Dynamo could not run {call}: {}", found["got"].trim()))
}

/// A message that is shorter may be followed by what it is about.
const SHORT: usize = 60;

/// A line that a compiler or another program calls an error.
fn is_error(line: &str) -> bool {
    static ERROR: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|[\s:])(?:fatal|error|Fatal|Error)\s*(?:C?[0-9]+)?\s*: ").expect("pattern"));
    ERROR.is_match(line)
}

/// A line with words of a failure.
fn says_why(line: &str) -> bool {
    static WHY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)\b(?:fail\w*|errors?|cannot|can't|could\ not|unable|invalid|mismatch\w*|exceed\w*|missing|no\ such|not\ (?:found|supported|match\w*|installed|available|enough|valid)|out\ of|refused
            |denied|timed?\ ?outs?|times\ out|insufficient|should|must|required|requires|expected|unknown|down|no\ module|does\ not|is\ not|lost|killed|died|busy|in\ use)\b",
        )
        .expect("pattern")
    });
    WHY.is_match(line)
}

/// The first two sentences: what happened, and the figure that goes with it.
pub fn first_sentences(text: &str) -> String {
    // A field of JSON has its lines as `\\n`.
    let is_cut = |first: &str| first.len() >= 20 && !text.contains(":\\");
    let text = text.split_once("\\n").map_or(text, |(first, _)| if is_cut(first) { first } else { text });
    let text = nccl_words(text).or_else(|| of_traced_call(text)).unwrap_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let end = text.match_indices(". ").nth(1).map_or(text.len(), |(at, _)| at);
    crate::base::clean::clip(&text[..end], 160).into_owned()
}

/// The reason at the end of an error of NCCL, with its kind: `Bootstrap : no socket interface found (ncclInternalError)`, or without a
/// reason `NCCL 2.14.3: internal error`. What stands before it is the same for all.
pub fn nccl_words(text: &str) -> Option<String> {
    let Some(reason) = last_error(text) else {
        let (_, tail) = text.split_once("NCCL error in: ")?.1.split_once(", ")?;
        let (kind, version) = tail.split_once(", NCCL version ")?;
        let kind = kind.split(" (run with").next().unwrap_or(kind);
        return Some(format!("NCCL {}: {kind}", release(version.split_whitespace().next()?)));
    };
    let kind = text.split(|c: char| !c.is_ascii_alphanumeric()).find(|w| w.starts_with("nccl") && w.len() > 8);
    Some(format!("{reason}{}", kind.map_or(String::new(), |kind| format!(" ({kind})"))))
}

/// PyTorch 1.9 to 1.11 takes NCCL's number apart as it was made before NCCL 2.9: `21.0.3` is 21003, which is 2.10.3.
fn release(version: &str) -> String {
    let parts: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some(&[major @ 20..100, minor @ 0..10, patch @ 0..100]) => nccl_version(major * 1000 + minor * 100 + patch),
        _ => version.to_owned(),
    }
}

/// What stands behind `Last error:` in an error of NCCL.
pub fn last_error(text: &str) -> Option<&str> {
    let (_, reason) = text.split_once("Last error:")?;
    let reason = reason.trim_start().lines().next()?.trim();
    (!reason.is_empty()).then_some(reason)
}
