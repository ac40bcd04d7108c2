//! Lines of programs that nobody knows: what a log may still say is which of its lines their writer calls an error, and whether it is the
//! log of a program at all. The first failure is looked for: by level, by words that all programs use for their reasons, by where it stands
//! among the others, and by whether the log goes on after it.

mod driver;
pub(super) mod line;
mod reason;
mod unknown;
mod words;

use super::sentence::{self, Sentence};
use crate::base::{clean, mask};
use crate::logs::catalog::{self, Part};
use crate::logs::ctest::Ctest;
use crate::logs::error_words;
use crate::logs::prefix::{self, Level};
use crate::logs::torch::crash::is_frame_of_gdb;
use crate::logs::{Origin, TextEvent, What};
use driver::OfDriver;
use line::Line;
use memchr::memmem;
use reason::Reason;
use unknown::{Unknown, Weight};

/// The entries of the catalogue that such a line stands under where it gives no reason that is known: as it is, where its writer ends itself
/// with it, or where a process ended after it and nothing else says why; of a driver in the kernel; where the log ends with it; and what
/// came after the first.
const ENTRY: &str = "error-level";
const FATAL: &str = "fatal-level";
const DRIVER: &str = "driver-error";
const AT_END: &str = "error-at-end";
const FOLLOWS: &str = "error-follows";
/// How far into a line something worth a look is looked for.
const NEAR: usize = 200;
const LONGEST: usize = 300;
/// Lines that are looked at for an error once there is one, and for whether a program wrote them.
const MOST_LOOKED_AT: u32 = 5000;
const MOST_JUDGED: u32 = 1000;
/// So many lines with a level or a time, and at least half of all, are the log of a program.
const LEAST_OF_A_LOG: u32 = 3;
/// Devices of a driver that are named.
const MOST_DEVICES: usize = 8;
const MOST_KEPT: usize = 48;
/// Other writers of the same line, and other errors after it, that are told.
const MOST_WRITERS: usize = 16;
const MOST_FOLLOWING: usize = 3;
/// So many quiet lines after an error, and the program went on; so many, and the next error is another story.
const WENT_ON: u32 = 2;
const ANOTHER_STORY: u32 = 10;
/// Lines between an error without a reason and the line that has it.
const REASON_BEFORE: u64 = 3;
const REASON_AFTER: u64 = 8;
/// Lines of a launcher's report between dashes.
const LONGEST_REPORT: u8 = 25;
/// Fields of a record that are told.
const MOST_FIELDS: u8 = 4;

/// Kubeflow's own words in a job's conditions, which `kubectl describe` lists above the events that came before.
const SUCCEEDED: [&[u8]; 2] = [b"is successfully completed", b"JobSucceeded"];

/// What is gleaned from the lines of one file that nobody knows.
#[derive(Debug, Default)]
pub struct Gleaned {
    found: Vec<Unknown>,
    kernel: Option<OfDriver>,
    looked_at: u32,
    judged: u32,
    of_a_program: u32,
    /// Quiet lines since the last error, and others of which nobody knows.
    quiet: u32,
    plain: u32,
    story: u32,
    /// A line speaks of something that may be trouble, whatever its level.
    troubled: bool,
    /// A controller of Kubernetes says that the job has succeeded.
    succeeded: bool,
    /// Lines that are left of what a launcher reports between dashes: advice.
    of_report: u8,
    ctest: Ctest,
}

/// What the other lines of all files say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// A process ended after it, and nothing says why.
    pub ended: bool,
    /// The log is that of a program that is known, whose words about a failure would be known, too.
    pub recognised: bool,
    /// A known text is a warning.
    pub warned: bool,
    /// What is known comes of waiting for somebody: the error may be why he did not come.
    pub waited: bool,
    /// The same, of a rank that says that it ends.
    pub gave_up: bool,
    /// A rank ended the whole job on purpose: it has said why.
    pub on_purpose: bool,
    /// All processes that ended crashed, by SIGSEGV and its kin: they had started, and read their settings.
    pub crashed: bool,
}

/// `/opt/lib/trainer.py:970: RuntimeWarning: invalid value encountered`: the module `warnings` prints it, and the program goes on.
pub(super) fn is_python_warning(line: &[u8]) -> bool {
    let Some(end) = memmem::find(&line[..line.len().min(NEAR)], b"Warning: ") else { return false };
    let class = line[..end].iter().rev().take_while(|b| b.is_ascii_alphanumeric()).count();
    let Some(place) = line[..end - class].strip_suffix(b": ") else { return end == class && class > 0 };
    let digits = place.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && place[..place.len() - digits].ends_with(b":")
}

/// Whether a text tells why something failed, in words that all programs use.
pub(super) fn gives_reason(text: &str) -> bool {
    reason::of(text).is_some()
}

/// The same of a line that its writer does not call less than an error, and does not say to get over: what only may be a reason has to be a demand.
pub(super) fn says_why(line: &str) -> bool {
    let read = Line::of(line);
    let is_mild = matches!(read.level, Some(Level::Low | Level::Warning)) || words::is_over(line) || words::is_harmless(line);
    !is_mild && reason::of(line).is_some_and(|reason| reason.is_failure() || line.contains("must "))
}

impl Gleaned {
    /// Looks at a line that no reader knows.
    pub fn look(&mut self, no: u64, line: &[u8]) {
        if self.is_of_report(line) {
            return;
        }
        if let Some(last) = self.found.last_mut().filter(|last| last.is_of_hdf5(no)) {
            let text = String::from_utf8_lossy(&line[..line.len().min(8 * LONGEST)]);
            if last.add_hdf5_call(no, &clean::clean(&mask::text(&text))) {
                return;
            }
        }
        if self.looked_at >= MOST_LOOKED_AT && !self.found.is_empty() {
            return self.pass_by(line);
        }
        self.looked_at = self.looked_at.saturating_add(1);
        let judges = self.judged < MOST_JUDGED && !line.trim_ascii().is_empty();
        let near = if line.first() == Some(&b'{') { 8 * LONGEST } else { NEAR };
        self.succeeded |= SUCCEEDED.iter().any(|words| memmem::find(line, words).is_some());
        let may_be_error = words::may_be_error(&line[..line.len().min(near)]);
        if may_be_error && is_python_warning(line) {
            return self.goes_on();
        }
        let follows = self.found.last().filter(|last| last.end + 1 == no);
        let is_rest = follows.is_some_and(|last| last.announces() || last.is_wrapped(line));
        // Behind the head of a logger, too.
        let may_be_part = line.starts_with(b"  ") || line.first() == Some(&b'\t') || memmem::find(line, b"]  ").is_some();
        let may_be_field = may_be_part && follows.is_some_and(Unknown::may_have_fields);
        // Most lines end here.
        if !judges && !may_be_error && !is_rest && !may_be_field {
            return self.pass_by(line);
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(8 * LONGEST)]);
        let text = mask::text(&text);
        let text = clean::clean(&text);
        let unwrapped = prefix::of_json(&text);
        let text = self.ctest.without_test(unwrapped.as_deref().unwrap_or(&text));
        let read = Line::of(text);
        if judges && !line::is_of_table(text) {
            self.judged += 1;
            // `[1,3]<stdout>:`, which mpirun puts before each line.
            let is_tagged = read.origin.rank.is_some() && memmem::find(line, b"]<std").is_some();
            self.of_a_program += u32::from(read.level.is_some() || read.has_time || is_tagged);
        }
        // Whoever calls it a warning goes on.
        self.troubled |= read.level != Some(Level::Warning) && words::is_trouble(text) || is_frame_of_gdb(text);
        if may_be_field
            && read.is_inner
            && words::is_field(&format!("  {}", read.said))
            && let Some(last) = self.found.last_mut()
        {
            return last.add_field(no, &read.said);
        }
        if is_rest
            && (read.is_inner || read.level.is_none() && !read.has_time)
            && let Some(last) = self.found.last_mut()
        {
            return last.goes_on(no, &read.said);
        }
        let found = may_be_error.then(|| self.error(no, text, &read)).flatten();
        match found {
            Some(found) => self.keep(found),
            None if read.is_inner || text.trim().is_empty() || line::is_of_table(text) => {}
            None if (read.level == Some(Level::Low) || read.level.is_none() && read.has_time) && !words::is_ending(text) => self.goes_on(),
            None if self.is_of_same_writer(text) && !words::is_trouble(text) && !words::is_ending(text) => self.goes_on(),
            // More trouble does not tell that the program went on.
            None if !self.found.is_empty() && words::is_trouble(text) => {}
            None => self.plain = self.plain.saturating_add(1),
        }
    }

    /// Takes what a launcher reports between dashes, if it speaks of a failure.
    pub fn report(&mut self, no: u64, sentence: &Sentence) -> bool {
        let text = String::from_utf8_lossy(&sentence.text);
        let text = mask::text(&text);
        let text = clean::clean(&text);
        if !words::is_report_of_failure(&text) {
            return false;
        }
        let read = Line::of(&text);
        let text = clean::clip(&read.words(), LONGEST).into_owned();
        let reason = reason::of(&text);
        let end = no + sentence.further;
        let found = Unknown {
            line: no,
            end,
            fields: 0,
            joined: 0,
            text,
            origin: read.origin,
            weight: Weight::Error,
            reason,
            is_over: false,
            story: 0,
        };
        self.keep(found);
        self.of_report = LONGEST_REPORT;
        true
    }

    fn is_of_report(&mut self, line: &[u8]) -> bool {
        let is_one = self.of_report > 0;
        self.of_report = if sentence::is_dashes(line) { 0 } else { self.of_report.saturating_sub(1) };
        is_one
    }

    /// Behind the same name with a colon as the last error: `slurmd: `.
    fn is_of_same_writer(&self, text: &str) -> bool {
        let label = text.split_once(": ").map(|(label, _)| label).filter(|label| !label.contains(' ') && label.len() >= 3);
        label.is_some_and(|label| self.found.last().is_some_and(|last| last.text.starts_with(label)))
    }

    fn error(&mut self, no: u64, text: &str, read: &Line) -> Option<Unknown> {
        // `error_handler: {` only opens what follows.
        if read.said.ends_with(['{', '[', '(']) && read.said.split_whitespace().count() <= 2 {
            return None;
        }
        let Some(found) = OfDriver::of(no, text) else { return Unknown::of(no, read) };
        match &mut self.kernel {
            Some(first) => first.add(found),
            none => *none = Some(found),
        }
        None
    }

    fn keep(&mut self, mut found: Unknown) {
        if self.quiet >= ANOTHER_STORY {
            self.story += 1;
        }
        let is_first_end = || found.weight == Weight::Fatal && self.found.iter().all(|known| known.weight < Weight::Fatal);
        if found.weight > Weight::Hint {
            (self.quiet, self.plain) = (0, 0);
        }
        if self.found.len() >= MOST_KEPT && !is_first_end() {
            return;
        }
        found.story = self.story;
        self.found.push(found);
    }

    /// A line like those that were looked at before.
    pub fn pass(&mut self, line: &[u8]) {
        if !self.is_of_report(line) {
            self.pass_by(line);
        }
    }

    fn pass_by(&mut self, line: &[u8]) {
        let is_blank = || line.trim_ascii().is_empty();
        if !self.found.is_empty() && self.quiet <= ANOTHER_STORY && !is_blank() && !words::may_be_error(&line[..line.len().min(NEAR)]) {
            self.goes_on();
        }
    }

    fn goes_on(&mut self) {
        if !self.found.is_empty() {
            self.quiet = self.quiet.saturating_add(1);
        }
    }

    /// A step was made.
    pub fn stepped(&mut self) {
        if !self.found.is_empty() {
            self.quiet = ANOTHER_STORY;
        }
    }

    /// Lines that differ in digits only may name further devices, ranks and hosts.
    pub fn wants_more(&self) -> bool {
        let of_driver = self.kernel.as_ref().is_some_and(OfDriver::wants_devices);
        self.looked_at < MOST_LOOKED_AT && (of_driver || !self.found.is_empty() && self.found.len() < MOST_KEPT)
    }

    /// None of its lines speaks of trouble.
    pub fn is_untroubled(&self) -> bool {
        !self.troubled && self.first().is_none()
    }

    /// It is a log, of whatever program, and none of its lines speaks of trouble.
    pub fn is_quiet_log(&self) -> bool {
        self.is_untroubled() && self.of_a_program >= LEAST_OF_A_LOG && 2 * self.of_a_program >= self.judged
    }

    /// Where the error stands.
    pub fn line(&self) -> Option<u64> {
        let kernel = self.kernel.as_ref().map(|found| found.line);
        self.first().or_else(|| self.hint()).map(|first| first.line).into_iter().chain(kernel).min()
    }

    /// The first failure.
    fn first(&self) -> Option<&Unknown> {
        let is_error = |known: &&Unknown| known.weight > Weight::Hint;
        let top = self.found.iter().filter(is_error).map(|known| known.weight.min(Weight::Error)).max()?;
        let end = self.found.iter().find(|known| known.weight == Weight::Fatal);
        let in_story = |known: &&Unknown| end.is_none_or(|end| known.story == end.story);
        let first = self.found.iter().filter(is_error).filter(in_story).find(|known| known.weight.min(Weight::Error) == top)?;
        if first.reason.is_some() && !words::is_consequence(&first.text) {
            return Some(first);
        }
        // The reason stands beside it.
        let follows = words::is_consequence(&first.text);
        let says_why = |known: &&Unknown| {
            let says = known.reason.is_some() || follows && known.weight == Weight::Words;
            known.story == first.story && says && !words::is_consequence(&known.text)
        };
        let before = |known: &&Unknown| known.line < first.line && first.line - known.line <= REASON_BEFORE;
        let fails =
            |known: &&Unknown| known.weight > Weight::Hint || first.reason.is_none() && known.reason.is_some_and(Reason::is_failure);
        let after = |known: &&Unknown| known.line > first.line && known.line - first.line <= REASON_AFTER && known.weight > Weight::Hint;
        let better = || self.found.iter().filter(says_why);
        better().filter(fails).find(before).or_else(|| better().find(after)).or(Some(first))
    }

    /// Where nothing is called an error: the last line with a reason, if the log ends with it.
    fn hint(&self) -> Option<&Unknown> {
        self.found.last().filter(|last| self.quiet < WENT_ON && !last.is_over && last.reason.is_some())
    }

    /// What is read where a log says nothing else: the first failure, then what other writers say of it, and what follows.
    pub fn events(&self, known: Known) -> Vec<(u64, TextEvent)> {
        let first = self.first();
        let of_kernel =
            self.kernel.as_ref().filter(|kernel| first.is_none_or(|first| first.weight < Weight::Error || first.line > kernel.line));
        if of_kernel.is_some() {
            return self.of_driver(true).into_iter().collect();
        }
        let Some(first) = first.or_else(|| self.hint().filter(|_| known.ended)) else { return Vec::new() };
        let Some((entry, is_warning)) = self.judged(first, known) else { return Vec::new() };
        let mut events: Vec<(u64, TextEvent)> = Vec::new();
        let mut put = |known: &Unknown, entry: &str, is_warning: bool| {
            let origin = whole_seconds(&known.origin);
            events.extend(event(entry, known.text.clone(), &origin, is_warning).map(|event| (known.line, event)));
        };
        put(first, entry, is_warning);
        let others = || self.found.iter().filter(|other| other.line > first.line && other.story == first.story);
        let shape = shape_of(&first.text);
        let is_same = |other: &&Unknown| shape_of(&other.text) == shape;
        let writers =
            others().filter(is_same).filter(|other| other.origin.rank != first.origin.rank || other.origin.host != first.origin.host);
        writers.take(MOST_WRITERS).for_each(|other| put(other, entry, is_warning));
        let mut told = vec![shape.clone()];
        for other in others().filter(|other| other.weight >= Weight::Empty) {
            let shape = shape_of(&other.text);
            if told.len() <= MOST_FOLLOWING && !told.contains(&shape) {
                put(other, FOLLOWS, true);
                told.push(shape);
            }
        }
        events
    }

    /// What a driver reports. Beside other errors, or where its device goes on, it is a warning.
    pub fn of_driver(&self, alone: bool) -> Option<(u64, TextEvent)> {
        let kernel = self.kernel.as_ref()?;
        Some((kernel.line, event(DRIVER, kernel.text(), &kernel.origin, !(alone && kernel.is_down()))?))
    }

    /// The entry that the first failure stands under, and whether it is a mere warning.
    fn judged(&self, first: &Unknown, known: Known) -> Option<(&'static str, bool)> {
        let went_on = self.quiet >= WENT_ON || first.story < self.story;
        let is_last = self.quiet == 0;
        let ends_so = is_last && self.plain == 0;
        let is_warning = (went_on || first.is_over || self.succeeded) && first.weight < Weight::Fatal && !known.ended;
        // The program went on after it, and ended of something else.
        if known.ended && (self.quiet >= ANOTHER_STORY || first.story < self.story) {
            return None;
        }
        if known.crashed && first.reason.is_some_and(Reason::keeps_from_starting) {
            return None;
        }
        // What ended says as much.
        let is_no_more = known.ended && !(known.on_purpose && is_last) && first.weight <= Weight::Empty && first.reason.is_none();
        if is_no_more || known.warned && (is_warning || first.weight < Weight::Error) {
            return None;
        }
        if known.waited {
            let least = if known.gave_up { Weight::Words } else { Weight::Error };
            let is_why = first.weight >= least && !went_on && !first.is_over;
            return first.reason.filter(|reason| is_why && !reason.is_absence()).map(|reason| (reason.entry(), false));
        }
        match (first.weight, first.reason) {
            (Weight::Words, None) if ends_so && self.has_error_behind(first) && !known.recognised => Some((AT_END, false)),
            (Weight::Hint | Weight::Words, reason) => {
                let is_why = known.ended && !went_on && !first.is_over;
                match reason.filter(|reason| is_why || reason.is_failure() && is_last) {
                    Some(reason) => Some((reason.entry(), is_warning || known.recognised && !is_why)),
                    None if known.recognised => None,
                    None => Some((ENTRY, true)),
                }
            }
            // A level alone, of a program that is known and goes on.
            (Weight::Empty, None) if went_on && known.recognised && !known.ended => None,
            (Weight::Fatal, None) => Some((FATAL, false)),
            (Weight::Empty, None) if known.on_purpose && is_last => Some((FATAL, false)),
            (Weight::Error, None) if known.ended => Some((FATAL, false)),
            (Weight::Error, None) if ends_so && !is_warning && !known.recognised => Some((AT_END, false)),
            (_, None) => Some((ENTRY, true)),
            (Weight::Fatal, Some(reason)) => Some((reason.entry(), false)),
            // A program that is known calls errors what it gets over, too, such as a request that is refused.
            (_, Some(reason)) => {
                let is_sure = !known.recognised || known.ended || reason.is_failure() && is_last && self.has_error_behind(first);
                Some((reason.entry(), is_warning || !is_sure))
            }
        }
    }
}

impl Gleaned {
    fn has_error_behind(&self, first: &Unknown) -> bool {
        self.found.iter().any(|known| known.line > first.line && known.story == first.story && known.weight >= Weight::Error)
    }
}

fn event(entry: &str, text: String, origin: &Origin, tried: bool) -> Option<TextEvent> {
    let (_, signature) = catalog::by_id(entry)?;
    let what = What::Signed { signature, text, tried };
    Some(TextEvent { origin: origin.clone(), what, said_at: None })
}

/// What ended may carry whole seconds: of two of one second the first line is the first.
fn whole_seconds(origin: &Origin) -> Origin {
    let mut origin = origin.clone();
    origin.written.iter_mut().for_each(|written| written.nanosecond = 0);
    origin
}

/// A text without its digits: lines that differ in nothing else say the same.
pub(super) fn shape_of(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).take(80).collect()
}

/// Whoever ends a whole job on purpose has said why before.
pub(super) const ON_PURPOSE: &[&str] = &["mpi-abort-called"];

pub fn is_on_purpose(what: &What) -> bool {
    what.signature().is_some_and(|signature| ON_PURPOSE.contains(&signature.id))
}

/// What ended, without a word about why: an error before it may say that.
pub fn is_bare_end(what: &What) -> bool {
    if is_on_purpose(what) {
        return true;
    }
    match (what.signature(), what) {
        // `AssertionError` and no word more.
        (_, What::Exception(e)) if e.message.is_empty() => true,
        // A launcher's word that something ended yields to whoever knows why.
        (Some(signature), _) => matches!(signature.part, Part::Victim | Part::Teardown) || signature.yields_to.contains(&signature.rule),
        (None, What::Exception(e)) => error_words::hands_on(&e.message),
        (None, What::WorkerFailure(_) | What::WorkerFailed { .. }) => true,
        (None, _) => matches!(what, What::TakingDown { .. } | What::Terminating { .. }),
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
        let (_, event) = gleaned(log).events(super::Known::default()).into_iter().next()?;
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
            "2026:02:03-09:15:21:(4121) |ACME_ERROR| worker.cpp:36 start: no thread",
            "[10/04/2026-10:26:10] [ACME] [E] the engine does not fit",
            "26/10/04 10:00:00 ERROR Executor: Exception in task 3.0",
            "2026/10/04 10:00:00 Failed to initialize the device list",
        ] {
            let is_error = said(line).is_some_and(|text| text.starts_with("error-") || text.starts_with("said-"));
            assert!(is_error, "{line}: {:?}", said(line));
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
        let (line, event) = gleaned.events(super::Known::default()).into_iter().next().unwrap();
        assert_eq!((line, event.origin.rank), (2, Some(3)));
        assert_eq!(
            said("[TM][FATAL] kernels/mask.cu(212): two shapes differ\n").unwrap(),
            "fatal-level kernels/mask.cu(212): two shapes differ"
        );
        assert!(said("panic: runtime error: index out of range\n").unwrap().starts_with("said-crash panic"));
        let banner = "Fri Dec 13 07:57:31 2026: CRITICAL  : Started the daemon, version 3\nFri Dec 13 07:57:32 2026: ERROR     : Error 7 listening on 'rdma'\n";
        assert!(said(banner).unwrap().contains("Error 7 listening"), "{:?}", said(banner));
        // That an engine ended says nothing about why.
        assert!(super::Gleaned::default().events(super::Known { ended: true, ..super::Known::default() }).is_empty());
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
        // A stack that somebody took of what stands.
        let of_gdb = "#0  0x00007ffff7476e30 in ucs_async_check_miss (async=0x7ffff5396018)\n    at async.h:96\n#1  ucp_worker_progress (worker=0x7)\n";
        let times = "2026/05/05 12:29:36 Loading\n2026/05/05 12:29:45 Starting\n2026/05/05 12:29:46 Serving\n2026/05/05 12:29:47 Ready\n";
        assert!(gleaned(times).is_quiet_log() && !gleaned(&format!("{times}{of_gdb}")).is_quiet_log());
        assert!(gleaned(&format!("{times}#7 of 9 (all) done\n")).is_quiet_log());
        assert!(!gleaned("hello\nthis is no log\nof anything\n").is_quiet_log());
        assert!(!gleaned("2026-05-05 12:29:36 one line\nand prose\nand prose\nand prose\nand more\n").is_quiet_log());
    }
}
