//! Lines of programs that nobody knows: what a log may still say is which of its lines their writer calls an error, and whether it is the
//! log of a program at all.

use crate::base::{clean, mask};
use crate::logs::catalog::{self, Part};
use crate::logs::prefix::{self, Level};
use crate::logs::{Origin, TextEvent, What};
use aho_corasick::AhoCorasick;
use regex::Regex;
use std::sync::LazyLock;

/// The entries of the catalogue that such a line stands under: as it is, where its writer ends itself with it, or where a process ended
/// after it and nothing else says why; of a driver in the kernel.
const ENTRY: &str = "error-level";
const FATAL: &str = "fatal-level";
const DRIVER: &str = "driver-error";
/// How far into a line its level is looked for.
const NEAR: usize = 200;
const LONGEST: usize = 300;
/// Lines that are looked at for a better one than the first, and for whether a program wrote them.
const MOST_LOOKED_AT: u32 = 5000;
const MOST_JUDGED: u32 = 1000;
/// So many lines with a level or a time, and at least half of all, are the log of a program.
const LEAST_OF_A_LOG: u32 = 3;
/// Devices of a driver that are named.
const MOST_DEVICES: usize = 8;

/// How much a line says about why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// It speaks of a failure, without a level.
    Words,
    /// An error that only hands on another, or announces one.
    Empty,
    Error,
    /// The writer ended itself with it.
    Fatal,
}

/// A line that its writer calls an error.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// From 1.
    pub line: u64,
    pub text: String,
    origin: Origin,
    weight: Weight,
}

/// What is gleaned from the lines of one file that nobody knows.
#[derive(Debug, Default)]
pub struct Gleaned {
    best: Option<Unknown>,
    kernel: Option<OfDriver>,
    looked_at: u32,
    judged: u32,
    of_a_program: u32,
    /// A line speaks of something that may be trouble, whatever its level.
    troubled: bool,
}

/// The first error of a driver, and the devices of which it reports the like.
#[derive(Debug)]
struct OfDriver {
    line: u64,
    origin: Origin,
    driver: String,
    devices: Vec<String>,
    text: String,
}

impl Gleaned {
    /// Looks at a line that no reader knows.
    pub fn look(&mut self, no: u64, line: &[u8]) {
        if self.looked_at >= MOST_LOOKED_AT && self.best.is_some() {
            return;
        }
        self.looked_at = self.looked_at.saturating_add(1);
        let judges = self.judged < MOST_JUDGED && !line.trim_ascii().is_empty();
        let may_be_error = may_be_error(&line[..line.len().min(NEAR)]);
        // Most lines end here.
        if !judges && !may_be_error {
            return;
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(8 * LONGEST)]);
        let text = mask::text(&text);
        let text = clean::clean(&text);
        let unwrapped = prefix::of_json(&text);
        let text = unwrapped.as_deref().unwrap_or(&text);
        let level = prefix::level(&clean::clip(text, NEAR));
        if judges {
            self.judged += 1;
            let has_time = || prefix::peel(text).origin.written.is_some() || prefix::has_kernel_clock(text);
            self.of_a_program += u32::from(level.is_some() || has_time());
        }
        self.troubled |= is_trouble(text);
        if !may_be_error {
            return;
        }
        if let Some(found) = OfDriver::of(no, text) {
            self.of_driver(found);
        } else if let Some(found) = Unknown::of(no, text, level)
            && self.best.as_ref().is_none_or(|best| best.weight.min(Weight::Error) < found.weight.min(Weight::Error))
        {
            self.best = Some(found);
        }
    }

    fn of_driver(&mut self, found: OfDriver) {
        let Some(first) = &mut self.kernel else {
            self.kernel = Some(found);
            return;
        };
        let device = found.devices.into_iter().next().filter(|device| !first.devices.contains(device));
        if found.driver == first.driver && first.devices.len() < MOST_DEVICES {
            first.devices.extend(device);
        }
    }

    /// Lines that differ in digits only may name further devices.
    pub fn wants_devices(&self) -> bool {
        self.looked_at < MOST_LOOKED_AT && self.kernel.as_ref().is_some_and(|kernel| kernel.devices.len() < MOST_DEVICES)
    }

    /// It is a log, of whatever program, and none of its lines speaks of trouble.
    pub fn is_quiet_log(&self) -> bool {
        !self.troubled && self.of_a_program >= LEAST_OF_A_LOG && 2 * self.of_a_program >= self.judged
    }

    /// Where the error stands.
    pub fn line(&self) -> Option<u64> {
        let kernel = self.kernel.as_ref().map(|found| found.line);
        self.best.as_ref().map(|best| best.line).into_iter().chain(kernel).min()
    }

    /// What is read where a log says nothing else. `ended`: a process ended after it, and nothing says why. `recognised`: the log is that of
    /// a program that is known, whose words about a failure would be known, too.
    pub fn event(&self, ended: bool, recognised: bool) -> Option<(u64, TextEvent)> {
        let of_kernel = self
            .kernel
            .as_ref()
            .filter(|kernel| self.best.as_ref().is_none_or(|best| best.weight < Weight::Error || best.line > kernel.line));
        if let Some(kernel) = of_kernel {
            return Some((kernel.line, event(DRIVER, kernel.text(), &kernel.origin)?));
        }
        let best = self.best.as_ref().filter(|best| !recognised || best.weight > Weight::Words)?;
        let is_why = best.weight == Weight::Fatal || ended && best.weight == Weight::Error;
        let mut origin = best.origin.clone();
        // What ended may carry whole seconds: of two of one second the first line is the first.
        origin.written.iter_mut().for_each(|written| written.nanosecond = 0);
        Some((best.line, event(if is_why { FATAL } else { ENTRY }, best.text.clone(), &origin)?))
    }
}

fn event(entry: &str, text: String, origin: &Origin) -> Option<TextEvent> {
    let (_, signature) = catalog::by_id(entry)?;
    let what = What::Signed { signature, text, tried: false };
    Some(TextEvent { origin: origin.clone(), what, said_at: None })
}

/// What ended, without a word about why: an error before it may say that.
pub fn is_bare_end(what: &What) -> bool {
    match what.signature() {
        // `AssertionError` and no word more.
        _ if matches!(what, What::Exception(e) if e.message.is_empty()) => true,
        Some(signature) => matches!(signature.part, Part::Victim | Part::Teardown),
        None => matches!(what, What::TakingDown { .. } | What::Terminating { .. }),
    }
}

fn may_be_error(near: &[u8]) -> bool {
    static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let words = [
            "error",
            "fatal",
            "critical",
            "exception: ",
            "severe",
            "panic",
            "fail",
            "unable to",
            "cannot",
            "could not",
            ": e ",
            ": f ",
            "[e]",
            "[f]",
            ".cc:",
            ".cpp:",
            ".go:",
            ".py:",
            ".cu:",
            ".cu(",
            "timed out",
            "timeout",
            "fault",
            "not usable",
            "lost",
            "crit",
        ];
        AhoCorasick::builder().ascii_case_insensitive(true).build(words).expect("words")
    });
    WORDS.is_match(near)
}

impl Unknown {
    /// `text`, if it is one.
    fn of(no: u64, text: &str, level: Option<Level>) -> Option<Unknown> {
        let peeled = prefix::peel(text);
        let rest = without_level(peeled.rest.trim());
        let said = match level {
            Some(Level::Fatal) => Weight::Fatal,
            Some(Level::Error) => Weight::Error,
            Some(Level::Low | Level::Warning) => return None,
            None if is_end_of_program(rest) => Weight::Fatal,
            None if is_last_line(rest) => Weight::Error,
            None if speaks_of_failure(rest) => Weight::Words,
            None => return None,
        };
        // Some print what is only important at the highest level.
        let weight =
            if said >= Weight::Error && (is_empty(rest) || said == Weight::Fatal && !is_trouble(rest)) { Weight::Empty } else { said };
        let mut origin = peeled.origin;
        origin.rank = origin.rank.or_else(|| rank_field(rest));
        Some(Unknown { line: no, text: clean::clip(rest, LONGEST).into_owned(), origin, weight })
    }
}

/// `[FATAL] x` and `ERROR x` without what stands in front of x.
fn without_level(rest: &str) -> &str {
    static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:[\[|(<]?[A-Za-z0-9-]{1,12}[\]|)>]\s?){0,2}[\[|(]?(?:[A-Z]+_)?(?:ERROR|FATAL|CRITICAL|SEVERE)[\]|):]?\s+")
            .expect("pattern")
    });
    let end = LEVEL.find(rest).map_or(0, |found| found.end());
    if rest.len() - end >= 8 { &rest[end..] } else { rest }
}

/// `rank=3` of structured loggers.
fn rank_field(text: &str) -> Option<u32> {
    let (_, tail) = text.rsplit_once(" rank=").or_else(|| text.split_once("rank="))?;
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    tail[..digits].parse().ok().filter(|rank| *rank < 1 << 20)
}

/// It only announces what follows, hands on what came before, or is what others see of it.
fn is_empty(text: &str) -> bool {
    static EMPTY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix) :$
            | see\ (?:above|the\ log|stack|trace|root) | root\ cause | stack\ ?trace\ (?:above|below) | complete\ standard\ (?:error|output)
            | shut(?:ting)?\ ?down | ^exiting | ^aborting | \b(?:internal\ server\ error|request\ failed|connection\ (?:closed|reset|refused))
            | \b(?:crashed|failed)$ | failed\ to\ start$ | ^\W*Traceback | error\ trying\ to\ connect | no\ instances\ available
            ",
        )
        .expect("pattern")
    });
    EMPTY.is_match(text)
}

/// Words that hardly stand in a line where all is well.
fn is_trouble(text: &str) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)\b(?:fail\w*|errors?|exception|cannot|can't|unable|invalid|mismatch\w*|differ|exceed\w*|assert\w*|panic\w*|abort\w*|exiting|crash\w*|timed\ out|timeout
            |lost|denied|missing|no\ such|not\ found|out\ of|refused|unreachable|dead|died|killed|illegal|corrupt\w*|unhealthy|empty|gone|overflow|underflow
            |unexpected\w*|not\ (?:support\w*|fit|allowed|available|usable|respond\w*)|bad|broken|faulty?|hung|hang|stuck|still\ waiting)\b|\[error\]",
        )
        .expect("pattern")
    });
    // Flags and counters of errors: `error_detection=True`, `0 errors`.
    static NONE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\b(?:0|no) (?:errors?|failures?)\b|(?:error|timeout|fail)\w*[=:]\s?(?:0|none|false|true|[0-9])").expect("pattern")
    });
    WORDS.is_match(&NONE.replace_all(text, ""))
}

/// How runtimes end a program: `panic: ` of Go, `thread 'main' panicked at` of Rust, a check of C++.
fn is_end_of_program(rest: &str) -> bool {
    static END: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:panic: \S|thread '[^']*' (?:\([0-9]+\) )?panicked at |Check failed: |.{0,120}\bCheck failed: )").expect("pattern")
    });
    END.is_match(rest)
}

/// `error: …`, `slurmctld: fatal: …`, or an exception that no traceback stands before.
fn is_last_line(rest: &str) -> bool {
    static LAST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:[\w./-]+: )?(?:[A-Za-z_][\w.]*(?:Error|Exception)|[Ee]rror|[Ff]atal|fatal error): \S").expect("pattern")
    });
    LAST.is_match(rest)
}

/// A failure in plain words, which the writer does not say to get over.
fn speaks_of_failure(rest: &str) -> bool {
    static WORDS: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?x)^(?:\S+:\ ){0,2}(?:Failed|Failure|Unable|Cannot|Could\ not|failed)\s\S
            | \b(?:[Ff]ailed|[Uu]nable)\ to\ (?:initiali[sz]e|init|start|load|connect|open|create|allocate|communicate|launch|register|bind|mount|acquire|join|resolve)\b
            | \bfailed\ with\ (?:\S+\ )?(?:error|status|code|exit)
            | \b[Ee]rror:\ (?:in\ function|code|status|\w+\ failed)
            | \bfailed\b | \bError\ [a-z] | \[error\] | \btimed\ out\b | \b[Ff]ailed\ to\b
            ",
        )
        .expect("pattern")
    });
    static OVER: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?i)retry|retries|try again|trying|default|fall(?:ing)?[ -]?back|skip|ignor|optional|warn|not fatal|instead|disabl|already",
        )
        .expect("pattern")
    });
    WORDS.is_match(rest) && !OVER.is_match(rest)
}

impl OfDriver {
    /// `[ 72.99] habanalabs hl2: Failed to communicate with Device CPU`: a driver of what training needs, and what it says of a device.
    fn of(no: u64, text: &str) -> Option<OfDriver> {
        static LINE: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(
                r"(?x)^(?P<driver>amdgpu|habanalabs|i915|xe|nvidia[a-z-]*|mlx[45]_[a-z0-9_]+|infiniband|ib_[a-z]+|irdma|ice|bnxt_(?:en|re)|qedr?e?|hfi1|cxi[a-z0-9_-]*|cxgb4
                    |efa|ena|rdmap[0-9a-z]+|hns_[a-z]+|erdma|nvme[0-9a-z]*|neuron|davinci[a-z_]*)
                (?:/[0-9]+)?(?:\x20(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]|[a-z]+[0-9][a-z0-9_]*))?:\x20(?P<text>.+)$",
            )
            .expect("pattern")
        });
        static FAULT: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?i)\bfail|\berror\b|time(?:d )?-?out|page fault|not usable|\bhang|\bhung|\blost\b|fatal|unrecover")
                .expect("pattern")
        });
        let in_kernel = prefix::has_kernel_clock(text)
            || text.contains(" kernel: ")
            || text.contains("kern: ")
            || prefix::peel(text).origin.written.is_some();
        if !in_kernel {
            return None;
        }
        let peeled = prefix::peel(text);
        let rest = peeled.rest.trim_start();
        let found = LINE.captures(rest)?;
        let words = found["text"].trim();
        if !FAULT.is_match(words) {
            return None;
        }
        let driver = found["driver"].to_owned();
        let probe = || words.strip_prefix("probe of ")?.split_once(' ').map(|(device, _)| device.to_owned());
        // `mlx5_bond_0/1: QP …`: a device, not a driver.
        let own_name = || driver.ends_with(|c: char| c.is_ascii_digit()).then(|| driver.clone());
        let device = found.name("device").map(|m| m.as_str().to_owned()).or_else(probe).or_else(own_name);
        let driver = driver.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_').to_owned();
        let words = words.strip_prefix("amdgpu: ").unwrap_or(words).trim();
        Some(OfDriver {
            line: no,
            origin: peeled.origin,
            driver,
            devices: device.into_iter().collect(),
            text: clean::clip(words, 160).into_owned(),
        })
    }

    fn text(&self) -> String {
        match self.devices.as_slice() {
            [] => format!("{} reports: {}", self.driver, self.text),
            devices => format!("{} reports an error of {}: {}", self.driver, devices.join(", "), self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Gleaned;

    fn gleaned(log: &str) -> Gleaned {
        let mut gleaned = Gleaned::default();
        for (no, line) in (1..).zip(log.lines()) {
            gleaned.look(no, line.as_bytes());
        }
        gleaned
    }

    fn said(log: &str) -> Option<String> {
        let (_, event) = gleaned(log).event(false, false)?;
        match event.what {
            crate::logs::What::Signed { signature, text, .. } => Some(format!("{} {text}", signature.id)),
            _ => None,
        }
    }

    #[test]
    fn only_what_its_writer_calls_an_error() {
        for line in [
            "2026-10-20 15:54:35,127 - LearnerExecutor - ERROR - [identity=site-1] no data",
            "[2026-10-20 15:54:35] [ERROR] the shard is empty",
            "ERROR:root:failed to activate new hosts",
            "E1011 08:02:59.084688 1 repository.cc:1919] Poll failed for 'x'",
            "E20261011 08:02:59.084688 1 repository.cc:1919] Poll failed for 'x'",
            "2026-05-25 11:10:57.934361: E tensorflow/core/kernels/x.cc:249] it cannot be done",
            "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout",
            "slurmctld: error: gres/gpu count too low",
            "acme.core.ShardError: shard 7 is empty",
            "time=\"2026-05-04T10:00:00Z\" level=error msg=\"the volume is gone\"",
            "ts=2026-05-04T10:00:00Z level=error caller=main.go:12 msg=\"the volume is gone\"",
            "{\"ts\":\"2026-05-04T10:00:00Z\",\"severity\":\"ERROR\",\"message\":\"the volume is gone\"}",
            "{\"timestamp\":\"2026-05-04T10:00:00Z\",\"level\":\"error\",\"fields\":{\"message\":\"the volume is gone\"}}",
            "2026:11:28-16:35:45:(35980) |ACME_ERROR| worker.cpp:36 start: no thread",
            "[10/04/2026-10:26:10] [ACME] [E] the engine does not fit",
            "26/10/04 10:00:00 ERROR Executor: Exception in task 3.0",
            "2026/10/04 10:00:00 Failed to initialize the device list",
        ] {
            assert!(said(line).is_some_and(|text| text.starts_with("error-level")), "{line}: {:?}", said(line));
        }
        for line in [
            "log_level: ERROR",
            "--log-level ERROR",
            "LEVEL=ERROR nothing else matters here",
            "mean squared error: 0.01",
            "validation ERROR",
            "loss 2.5 error: 0.3",
            "I1011 08:02:59.084688 1 repository.cc:1919] loaded 'x'",
            "TERRORS and others are no level of a logger",
            "level=info msg=\"retry after error\"",
            "{\"level\":\"info\",\"message\":\"0 errors\"}",
            "2026-10-04 10:00:00 WARNING could not open cache, using default",
            "failed to open cache, trying again",
            "I1011 08:02:59.084688 1 master.cc:19] the call failed with status 3",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
    }

    #[test]
    fn the_line_that_says_most_is_taken() {
        let log = "2026-10-04T10:00:00Z ERROR manager: launcher: complete standard error output:\n\
                   2026-10-04T10:00:00Z ERROR manager: launcher: the card has too few lanes rank=3\n\
                   Error: CannotStart\n";
        let gleaned = gleaned(log);
        let (line, event) = gleaned.event(false, false).unwrap();
        assert_eq!((line, event.origin.rank), (2, Some(3)));
        assert_eq!(
            said("[TM][FATAL] kernels/mask.cu(212): two shapes differ\n").unwrap(),
            "fatal-level kernels/mask.cu(212): two shapes differ"
        );
        assert!(said("panic: runtime error: index out of range\n").unwrap().starts_with("fatal-level panic"));
        let banner = "Fri Dec 13 07:57:31 2026: CRITICAL  : Started the daemon, version 3\nFri Dec 13 07:57:32 2026: ERROR     : Error 7 listening on 'rdma'\n";
        assert!(said(banner).unwrap().contains("Error 7 listening"), "{:?}", said(banner));
        // That an engine ended says nothing about why.
        assert_eq!(super::Gleaned::default().event(true, false), None);
    }

    #[test]
    fn a_driver_names_its_devices() {
        let log = "[   43.05] x\n[   72.993087] habanalabs hl2: Failed to communicate with the device (timeout)\n\
                   [   72.993269] habanalabs 0000:1a:00.0: Failed to initialize hl2\n[   73.023132] habanalabs hl6: Failed to communicate\n";
        assert_eq!(
            said(log).unwrap(),
            "driver-error habanalabs reports an error of hl2, 0000:1a:00.0, hl6: Failed to communicate with the device (timeout)"
        );
        let qp = "[Wed Jul 29 14:40:27 2026] mlx5_bond_0/1: QP 51 error: local length error (0x8e 0x0 0x0)\n\
                  [Wed Jul 29 14:40:27 2026] mlx5_bond_1/1: QP 52 error: local length error (0x8e 0x0 0x0)\n";
        assert_eq!(
            said(qp).unwrap(),
            "driver-error mlx5_bond reports an error of mlx5_bond_0: QP 51 error: local length error (0x8e 0x0 0x0)"
                .replace("mlx5_bond_0:", "mlx5_bond_0, mlx5_bond_1:")
        );
        assert_eq!(said("[    5.66] mlx5_core 0000:01:00.0: firmware version: 14.32.1010\n"), None);
    }

    #[test]
    fn a_log_has_levels_or_times() {
        assert!(gleaned("2026/05/05 12:29:36 Loading\n2026/05/05 12:29:45 Starting\n2026/05/05 12:29:45 Serving\n").is_quiet_log());
        assert!(
            gleaned("I0513 11:04:17.446540 59 engine.cpp:350] on\nI0513 11:04:17.446540 59 engine.cpp:44] up\n[INFO] ready for work\n")
                .is_quiet_log()
        );
        // A line that speaks of trouble, of whatever level, is not passed over in silence.
        assert!(
            !gleaned("2026/05/05 12:29:36 Loading\n2026/05/05 12:29:45 the peer is dead\n2026/05/05 12:29:45 Serving\n").is_quiet_log()
        );
        assert!(!gleaned("hello\nthis is no log\nof anything\n").is_quiet_log());
        assert!(!gleaned("2026-05-05 12:29:36 one line\nand prose\nand prose\nand prose\nand more\n").is_quiet_log());
    }
}
