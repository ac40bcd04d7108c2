//! What the words of a line say about how bad it is.

use aho_corasick::AhoCorasick;
use regex::Regex;
use std::sync::LazyLock;

/// Words that a line worth a look has.
#[rustfmt::skip]
const WORTH_A_LOOK: &[&str] = &[
    "error", "fatal", "critical", "exception", "severe", "panic", "fail", "unable to", "cannot", "can't", "could not", "couldn't",
    ": e ", ": f ", "[e]", "[f]", " e ", " c ", ".cc:", ".cpp:", ".go:", ".py:", ".cu:", ".cu(", "timed out", "timeout", "fault",
    "not usable", "lost", "crit", "refused", "denied", "no such", "not found", "unreachable", "out of", "insufficient", "mismatch",
    "invalid", "abort", "kill", "terminated", "evict", "reset", "disconnect", "stuck", "warning", "dead", "not permitted", "no space",
    "no route", "already in use", "uncorrect", "unhealthy", "exceeded", "what():", "err ", "err(", "times out", "timing out", " not ",
    "level=", "code ", "too old", "must be", "must have", "must match", "requires ", "unsupported", "incompatible", "still waiting",
];

/// Whether a line may be worth a look: most are not, and end here.
pub fn may_be_error(near: &[u8]) -> bool {
    static WORDS: LazyLock<AhoCorasick> =
        LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(WORTH_A_LOOK).expect("words"));
    WORDS.is_match(near)
}

/// It only announces what follows, hands on what came before, or is what others see of it.
pub fn is_empty(text: &str) -> bool {
    static EMPTY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix) :$
            | see\ (?:above|the\ log|stack|trace|root) | root\ cause | stack\ ?trace\ (?:above|below) | complete\ standard\ (?:error|output)
            | shut(?:ting)?\ ?down | \b(?:internal\ server\ error|request\ failed|connection\ (?:closed|reset|refused))
            | \b(?:crashed|failed)\.?$ | \bencountered\ an?\ (?:fatal\ |unexpected\ |internal\ )?(?:error|exception|issue)\.?$ | failed\ to\ start\.?$ | ^\W*Traceback | error\ trying\ to\ connect | no\ instances\ available
            ",
        )
        .expect("pattern")
    });
    EMPTY.is_match(text)
}

/// A field of a record, on a line of its own: `  expected: 8`, `  reason = no lease`.
pub fn is_field(text: &str) -> bool {
    static FIELD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\s+(?:[-*]\s+)?[A-Za-z][\w./ -]{0,30}?\s*(?::|=|->)\s*\S").expect("pattern"));
    FIELD.is_match(text) && !is_ending(text)
}

/// What is ended, and no word about why.
pub fn is_end_only(text: &str) -> bool {
    static END: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?i)^(?:exiting|aborting)\b").expect("pattern"));
    END.is_match(text)
}

/// Words that hardly stand in a line where all is well.
pub fn is_trouble(text: &str) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)\b(?:fail\w*|errors?|exception|cannot|can't|unable|invalid|mismatch\w*|differ|exceed\w*|assert\w*|panic\w*|abort\w*|exiting|crash\w*|timed\ out|timeout
            |lost|denied|missing|no\ such|not\ found|out\ of|refused|unreachable|dead|died|killed|illegal|corrupt\w*|unhealthy|empty|gone|overflow|underflow
            |unexpected\w*|not\ (?:support\w*|fit|allowed|available|usable|respond\w*)|bad|broken|faulty?|hung|hang|stuck|still\ waiting)\b|\[error\]",
        )
        .expect("pattern")
    });
    // Flags and counters of errors: `error_detection=True`, `0 errors`; shares: `5 out of 10`.
    static NONE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(?:0|no) (?:errors?|failures?|failed|failing)\b|(?:error|timeout|fail)\w*[=:]\s?(?:0|none|false|true|[0-9])|[0-9] (?:[a-z]*s )?\(?out of [0-9]")
            .expect("pattern")
    });
    WORDS.is_match(&NONE.replace_all(text, ""))
}

/// The first sentence of a launcher's report between dashes, which is no mere warning.
pub fn is_report_of_failure(text: &str) -> bool {
    static FAILS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)\b(?:unable\ to|could\ not|cannot|can't|failed|fails|failure|fatal|no\ \w+\ (?:were|was)\ (?:able|found|available)|not\ (?:found|able|enough|allowed|supported)|invalid
            |refused|denied|lost|aborted|illegal|mismatch|missing|does\ not\ (?:exist|match|have)|too\ many|error)\b",
        )
        .expect("pattern")
    });
    static MILD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?i)^\W*(?:warning|note|info|notice)\b|\bwill be ignored|may or may not").expect("pattern"));
    FAILS.is_match(text) && !MILD.is_match(text) && !is_harmless(text)
}

/// How runtimes end a program: `panic: ` of Go, `thread 'main' panicked at` of Rust, a check of C++.
pub fn is_end_of_program(rest: &str) -> bool {
    static END: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:panic: \S|fatal error: \S|Fatal error:$|thread '[^']*' (?:\([0-9]+\) )?panicked at |Check failed: |.{0,120}\bCheck failed: |Exception in thread |Killed$|Aborted\b|Segmentation fault)").expect("pattern")
    });
    END.is_match(rest)
}

/// `error: …`, `slurmctld: fatal: …`, or an exception that no traceback stands before.
pub fn is_last_line(rest: &str) -> bool {
    static LAST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:[\w./-]+: )?(?:[A-Za-z_][\w.]*(?:Error|Exception)|[Ee]rror|[Ff]atal|fatal error): \S").expect("pattern")
    });
    LAST.is_match(rest)
}

/// A failure in plain words, which the writer does not say to get over.
pub fn speaks_of_failure(rest: &str) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?x)^(?:\S+:\ ){0,2}(?:Failed|Failure|Unable|Cannot|Could\ not|failed)\s\S
            | \b(?:[Ff]ailed|[Uu]nable)\ to\ (?:initiali[sz]e|init|start|load|connect|open|create|allocate|communicate|launch|register|bind|mount|acquire|join|resolve)\b
            | \b(?:cannot|can't|could\ not|couldn't)\ (?:open|read|write|load|connect|create|allocate|initiali[sz]e|start|register|bind|resolve|access|reach|map)\b
            | \bcannot\ find\b | \bfailed\ with\ (?:\S+\ )?(?:error|status|code|exit)
            | \b[Ee]rror:\ (?:in\ function|code|status|\w+\ failed)
            | \b[Ff]ailed\b | \b[Ff]ailure\ (?:on|of|in|at|while|during)\b | \bError\ [a-z] | \[error\] | \btimed\ out\b | \b[Ff]ailed\ to\b
            ",
        )
        .expect("pattern")
    });
    WORDS.is_match(rest) && !is_over(rest)
}

/// The writer says that it gets over it.
pub fn is_over(rest: &str) -> bool {
    static OVER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?i)retr(?:y|ies)|try again|trying|(?:using|use|default(?:s|ing)? to)\b[^.;]{0,40}default|defaulting|default value|fall(?:ing)?[ -]?back|skip|ignor|optional|\bwarn|not fatal|instead|disabl|already (?:been|registered|exists?|loaded|initiali[sz]ed|set|running|done)|harmless|safely|no action|tainting",
        )
        .expect("pattern")
    });
    OVER.is_match(rest)
}

/// A process that ends, or a crash that is printed: the log does not go on with it.
pub fn is_ending(text: &str) -> bool {
    static ENDING: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)shut(?:ting)?\ ?down | \bstopp(?:ed|ing)\b | \bexit | terminat | clean(?:ing)?[ -]?up | \bclos(?:ed|ing)\b | \bkill | \babort | destroy
            | in-flight | \bbye\b | tear(?:ing)?[ -]?down | stack\ ?trace | traceback | ^\s*(?:at\ |\#[0-9]+|frame\ |\*{3}|goroutine) | finalize
            ",
        )
        .expect("pattern")
    });
    ENDING.is_match(text)
}

/// What a text tells of is that something else failed before it.
pub fn is_consequence(text: &str) -> bool {
    static AFTER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(?:revoked|cancell?ed|aborted|aborting|exited|terminated|giving up|gave up|shutting down|call\w* (?:acl )?api failed|result 'exit-code')\b").expect("pattern")
    });
    AFTER.is_match(text)
}

/// What is skipped is what failed: `Error syncing pod, skipping`.
pub fn only_skips(rest: &str) -> bool {
    let without = rest.replace("skipping", "").replace("Skipping", "");
    without.len() < rest.len() && !is_over(&without)
}

/// An error by its level only: what it tells changes nothing, or may come to pass, or was counted and there was none.
pub fn is_harmless(rest: &str) -> bool {
    static HARMLESS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?i)already been (?:registered|initiali[sz]ed|loaded)|harmless|safely (?:be )?ignored?|can be ignored|\(ignored\)|\bif (?:the|an?|any|you)\b[^.;]{0,120}\bwill fail\b|\b(?:fail\w*|errors?|timeouts?)\b[\w ()/%-]{0,40}[:=]\s*0(?:\.0+)?\s*%?\s*$|^\W*(?:0|no) (?:\w+ )?(?:failed|failures?|errors?)\W*$",
        )
        .expect("pattern")
    });
    HARMLESS.is_match(rest)
}
