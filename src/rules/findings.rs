//! Findings and their life: opened, kept, cleared. The life cycle is written here once; rules only say what holds now.

use crate::base::limit;
use crate::base::severity::Confidence;
use crate::base::severity::Role;
use crate::base::severity::Severity;
use crate::base::time::Stamp;
use crate::logs::catalog::{Part, Signature};
use crate::model::gpu::PciAddress;
use crate::observe::evidence::Evidence;
use crate::observe::evidence::Witness;
use crate::rules::area::Area;
use std::cmp::{Ordering, Reverse};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is wrong, or worth knowing: the conclusion, its evidence and what to do. A rule describes it; its life is the ledger's.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule that it stands under: an id of [`crate::rules::RULES`].
    pub rule: &'static str,
    /// Together with the rule and the job it names the finding: the same subject seen again is the same finding.
    pub subject: String,
    pub job: Option<String>,
    pub severity: Severity,
    /// The id of the catalogue's entry, where a text was recognised, and the entry.
    pub signature: Option<&'static str>,
    pub entry: Option<&'static Signature>,
    /// What the text that it rests on is in a chain of failures, where there is one.
    pub part: Option<Part>,
    /// What it is among the findings of its job.
    pub role: Role,
    /// What it is by itself.
    pub own_role: Role,
    /// How bad it is by itself.
    pub own_severity: Severity,
    pub witness: Witness,
    pub confidence: Confidence,
    pub summary: String,
    pub why: String,
    /// What is known besides, from all findings of the job together.
    pub note: Option<String>,
    /// What to do now: a command where there is one.
    pub next: Option<String>,
    /// Global ranks to blame. Those that only wait or report are not among them.
    pub ranks: Vec<u32>,
    /// NVML indices.
    pub gpus: Vec<u32>,
    /// Where the cause lies, if its evidence tells more than its rule: see [`Area::of`].
    pub area: Option<Area>,
    /// The card that the driver names.
    pub card: Option<PciAddress>,
    /// `mlx5_0:1`, `eth0`
    pub ports: Vec<String>,
    /// Where the ranks run, or who wrote the line.
    pub hosts: Vec<String>,
    /// When it began, as far as that is known.
    pub since: Stamp,
    pub evidence: Vec<Evidence>,
    /// A fault of the machine, seen live. Kernel, driver and counters may all report it, and what each proves is kept. A job may survive
    /// it: it has failed only when it stands still, too.
    pub machine: bool,
    /// In the order in which findings were opened.
    pub no: u64,
    pub opened_at: Stamp,
    pub last_at: Stamp,
    pub cleared_at: Option<Stamp>,
    /// Why it was cleared.
    pub cleared_for: Option<&'static str>,
    /// Times that it was seen: occurrences for text, 1 for a condition.
    pub count: u64,
}

/// Behind the words of the first of several ranks of which the same is reported.
const REPORTED_FOR: &str = "; reported for ";

impl Finding {
    /// A root finding of `rule` that is likely, blames nobody and has no evidence yet.
    pub fn new(rule: &'static str, severity: Severity, subject: impl Into<String>, summary: impl Into<String>, since: Stamp) -> Self {
        Finding {
            rule,
            subject: subject.into(),
            job: None,
            severity,
            signature: None,
            entry: None,
            part: None,
            role: Role::Root,
            own_role: Role::Root,
            own_severity: severity,
            witness: Witness::Text,
            confidence: Confidence::Likely,
            summary: summary.into(),
            why: String::new(),
            note: None,
            next: None,
            ranks: Vec::new(),
            gpus: Vec::new(),
            area: None,
            card: None,
            ports: Vec::new(),
            hosts: Vec::new(),
            since,
            evidence: Vec::new(),
            machine: false,
            no: 0,
            opened_at: since,
            last_at: since,
            cleared_at: None,
            cleared_for: None,
            count: 1,
        }
    }

    /// With this reason.
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    /// With one more proof. An empty path is none.
    pub fn proved(mut self, kind: &'static str, path: &str, line: Option<u64>, text: impl Into<String>) -> Self {
        let path = (!path.is_empty()).then(|| path.to_owned());
        self.evidence.push(Evidence { path, line, ..Evidence::of(kind, text) });
        self
    }

    /// Why it is so, with what is known besides.
    pub fn whole_why(&self) -> String {
        let parts = [self.note.as_deref(), Some(self.why.as_str())];
        parts.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }

    /// The entry of the catalogue that its text is.
    pub fn sign(&mut self, signature: &'static Signature) {
        (self.signature, self.entry, self.part) = (Some(signature.id), Some(signature), Some(signature.part));
    }

    /// The same text again, about other ranks: an entry that names ranks, and is one finding for all of them.
    fn name_ranks_of(&mut self, seen: &Finding) {
        const MOST: usize = 1024;
        let names_them =
            self.signature == seen.signature && self.entry.is_some_and(|entry| !entry.ranks.is_empty() && entry.thing.is_none());
        if names_them {
            let new = seen.ranks.iter().filter(|rank| !self.ranks.contains(rank)).take(MOST.saturating_sub(self.ranks.len()));
            let new: Vec<u32> = new.copied().collect();
            if !new.is_empty() {
                self.ranks.extend(new);
                self.ranks.sort_unstable();
                let whose = crate::base::words::rank_words(&self.ranks);
                let first = self.summary.split(REPORTED_FOR).next().unwrap_or_default();
                self.summary = format!("{first}{REPORTED_FOR}{whose}");
                self.why = format!("{} Reported for {whose}.", self.entry.map_or("", |entry| entry.means));
            }
        }
    }

    /// Several ranks fail with one error at once: none of them before the others. Whether that is news.
    fn is_of_several(&mut self, seen: &Finding) -> bool {
        const AT_ONCE: Duration = Duration::from_secs(2);
        /// More are counted and not named.
        const MOST: usize = 64;
        let of_its_writer = super::rule(self.rule).is_some_and(|rule| rule.chain.is_of_its_writer);
        let at_once = seen.since.since(self.since) <= AT_ONCE && self.since.since(seen.since) <= AT_ONCE;
        let gist = |f: &Finding| {
            let words = crate::logs::error_words::without_who(&f.summary).to_owned();
            let words = words.split(" (of rank ").next().unwrap_or_default();
            words.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect::<String>()
        };
        let [rank] = seen.ranks[..] else { return false };
        let is_new = !self.ranks.is_empty() && self.ranks.len() < MOST && !self.ranks.contains(&rank);
        if !of_its_writer || !at_once || !is_new || self.signature != seen.signature || gist(self) != gist(seen) {
            return false;
        }
        let mut words = crate::logs::error_words::without_who(&self.summary).to_owned();
        // Numbers of one are not those of the others.
        if let [first] = self.ranks[..]
            && crate::logs::error_words::without_who(&seen.summary) != words
        {
            words.push_str(&format!(" (of rank {first})"));
        }
        self.ranks.push(rank);
        self.ranks.sort_unstable();
        self.gpus.extend(seen.gpus.iter().filter(|gpu| !self.gpus.contains(gpu)).copied().collect::<Vec<_>>());
        self.summary = format!("{}: {words}", crate::base::words::rank_words(&self.ranks));
        true
    }

    /// What looked like the number of all ranks is that of one: the others have gone on since then without it. Whether that is news.
    fn becomes_of_one(&mut self, seen: &Finding) -> bool {
        let of_numbers = super::rule(self.rule).is_some_and(|rule| rule.chain.is_of_numbers);
        let is_news = of_numbers && self.ranks.is_empty() && !seen.ranks.is_empty();
        if is_news {
            (self.ranks, self.gpus, self.why) = (seen.ranks.clone(), seen.gpus.clone(), seen.why.clone());
            self.summary = format!("{}: {}", crate::base::words::rank_words(&self.ranks), self.summary);
        }
        is_news
    }

    /// Another witness of the same: whoever knows more describes it, and the proofs of both stay.
    fn join(&mut self, mut other: Finding) {
        let confidence = self.confidence.max(other.confidence);
        let severity = self.own_severity.max(other.own_severity);
        let since = [self.since, other.since].into_iter().filter(|at| at.0 > 0).min().unwrap_or(self.since);
        if other.witness > self.witness {
            self.become_described_as(other);
        } else {
            self.evidence.retain(|e| e.by != other.witness);
            self.evidence.append(&mut other.evidence);
        }
        (self.confidence, self.severity, self.own_severity, self.since) = (confidence, severity, severity, since);
    }

    /// Describes itself as `new` does from now on. Its life, how bad it is and what others prove stay.
    fn become_described_as(&mut self, new: Finding) {
        let bad = (self.severity, self.own_severity);
        let life = (self.since, self.no, self.opened_at, self.last_at, self.cleared_at, self.count);
        let proofs = std::mem::take(&mut self.evidence);
        *self = new;
        let by = self.witness;
        self.evidence.extend(proofs.into_iter().filter(|e| e.by != by));
        (self.severity, self.own_severity) = bad;
        (self.since, self.no, self.opened_at, self.last_at, self.cleared_at, self.count) = life;
    }

    /// More of a fault of the machine. Who reports it in words describes it; counters describe themselves anew at every look.
    fn hear(&mut self, new: Finding, times: u64) {
        let (words, new_words) = (self.signature, new.signature);
        if words.is_some() && words == new_words {
            self.count += times;
        }
        let again = times > 0 && words == new_words;
        let keeps = words.is_some();
        let before = self.own_severity;
        self.own_severity = if words.is_none() && new_words.is_none() { new.own_severity } else { before.max(new.own_severity) };
        self.severity = self.own_severity;
        let extra = if keeps {
            new.evidence
        } else {
            let before = std::mem::take(&mut self.evidence);
            self.become_described_as(new);
            before
        };
        for proof in extra {
            let proofs = &mut self.evidence;
            let same_kind = proofs.iter().position(|e| e.kind == proof.kind);
            let looked_at = matches!(proof.kind, "counter" | "gpu");
            match same_kind {
                Some(_) if again || !keeps => {}
                Some(before) if looked_at => proofs[before] = proof,
                _ if proofs.len() >= Self::MAX_EVIDENCE || proofs.iter().any(|e| e.text == proof.text) => {}
                _ => proofs.push(proof),
            }
        }
    }

    const MAX_EVIDENCE: usize = 6;
}

/// A change that the ledger made.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Opened(Box<Finding>),
    Cleared { finding: Box<Finding>, reason: String },
}

/// How a rule's findings begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// The condition must have held this long before the finding opens.
    pub hold: Duration,
    /// It must have been gone this long before the finding is cleared. `None`: it stays for the life of the run.
    pub linger: Option<Duration>,
    /// It stays, and is described anew as long as it is seen: how long a standstill has lasted goes on.
    pub renews: bool,
}

/// Rule, job and subject.
type Key = (&'static str, Option<String>, String);

/// Open and past findings, bounded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger {
    open: BTreeMap<Key, Finding>,
    /// Open findings that say nothing which another one does not say better.
    covered: BTreeSet<Key>,
    pending: BTreeMap<Key, Pending>,
    past: Vec<Finding>,
    changes: Vec<Changed>,
    opened: u64,
    /// How many were opened so far.
    totals: BTreeMap<(&'static str, Severity), u64>,
    /// By job and rule, what was seen and is not open, because there was no room for it.
    left_out: BTreeMap<(Option<String>, &'static str), LeftOut>,
    /// Conditions among them, which are seen again and again.
    refused: BTreeSet<Key>,
    /// The end of the last time in which nobody looked.
    watched_since: Stamp,
}

/// What had no room among the open findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub since: Stamp,
    /// Lines that report it, each as often as it was printed; conditions count once.
    pub times: u64,
    pub worst: Severity,
}

#[derive(Clone, Debug, PartialEq)]
struct Pending {
    first: Stamp,
    last: Stamp,
}

/// What happened since changes were last taken. What was opened is described when they are taken.
#[derive(Clone, Debug, PartialEq)]
enum Changed {
    Opened(Key),
    Cleared(Box<Finding>, String),
}

/// Causes before consequences, then worst first, then oldest first.
fn by_weight(a: &Finding, b: &Finding) -> Ordering {
    let key = |f: &Finding| (f.role, Reverse(f.severity), f.opened_at, f.rule);
    key(a).cmp(&key(b)).then_with(|| a.subject.cmp(&b.subject))
}

impl Ledger {
    /// More distinct findings than anybody reads; beyond it the least severe gives way, or is counted.
    const MAX_OPEN: usize = 512;
    /// Of one rule, one text and one severity no more than so many are kept open: none can crowd out the others.
    pub const MAX_OF_KIND: usize = 128;
    const MAX_PAST: usize = 512;
    /// The rule that says how much had no room: it has room itself, one finding for each job.
    pub const LEFT_OUT: &str = "findings-left-out";

    /// How many findings were opened so far, by rule and severity.
    pub fn totals(&self) -> &BTreeMap<(&'static str, Severity), u64> {
        &self.totals
    }

    /// Open findings: causes before consequences, then worst first, then oldest first.
    pub fn open(&self) -> Vec<&Finding> {
        let mut all: Vec<&Finding> = self.shown().collect();
        all.sort_by(|a, b| by_weight(a, b));
        all
    }

    fn shown(&self) -> impl Iterator<Item = &Finding> {
        self.open.iter().filter(|(key, _)| !self.covered.contains(*key)).map(|(_, f)| f)
    }

    /// The one of these that would stand first in [`Ledger::open`]; for what is asked at every frame.
    pub fn first_open(&self, which: impl Fn(&Finding) -> bool) -> Option<&Finding> {
        self.shown().filter(|f| which(f)).min_by(|a, b| by_weight(a, b))
    }

    /// Cleared findings, newest first.
    pub fn past(&self) -> impl Iterator<Item = &Finding> {
        self.past.iter().rev()
    }

    pub fn is_open(&self, rule: &str, job: Option<&str>) -> bool {
        self.shown().any(|f| f.rule == rule && f.job.as_deref() == job)
    }

    /// A condition (`times` is 0), or a line of text so many times, was seen by a rule.
    pub fn saw(&mut self, now: Stamp, mut seen: Finding, life: Life, times: u64) {
        if limit::is_muted(seen.rule) {
            return;
        }
        seen.severity = limit::severity_of(seen.rule).unwrap_or(seen.severity);
        (seen.own_role, seen.own_severity) = (seen.role, seen.severity);
        let by = seen.witness;
        seen.evidence.iter_mut().for_each(|e| e.by = by);
        let key = key_of(&seen);
        if let Some(open) = self.open.get_mut(&key) {
            // Counters that still prove what is known do not count as new.
            if times > 0 || !open.machine || seen.signature == open.signature {
                open.last_at = now;
            }
            if open.machine && seen.machine {
                let before = open.severity;
                open.hear(seen, times);
                if open.severity > before && open.severity >= Severity::Error {
                    self.changes.push(Changed::Opened(key));
                }
            } else if open.witness != seen.witness {
                let before = open.summary.clone();
                open.join(seen);
                // Who knows more says it in other words: that is news.
                if open.summary != before {
                    self.changes.push(Changed::Opened(key));
                }
            } else if times > 0 {
                open.count += times;
                open.name_ranks_of(&seen);
                if open.is_of_several(&seen) || open.becomes_of_one(&seen) {
                    self.changes.push(Changed::Opened(key));
                    return;
                }
                // The same words may come at a higher level.
                if seen.severity > open.severity && seen.severity > open.own_severity {
                    let bad = (seen.severity, seen.own_severity);
                    open.become_described_as(seen);
                    (open.severity, open.own_severity) = bad;
                    self.changes.push(Changed::Opened(key));
                }
            } else if life.linger.is_some() || life.renews || seen.witness.is_of_facts() {
                // A condition is described anew at every look; when it began does not change. A number that has ten times as many is news.
                // A look that sees less does not take back what was seen.
                if seen.own_severity < open.own_severity && seen.confidence < open.confidence {
                    return;
                }
                let (before, count) = (open.count, open.count.max(seen.count));
                let (bad, is_worse) = ((seen.severity, seen.own_severity), seen.own_severity > open.own_severity);
                open.become_described_as(seen);
                open.count = count;
                // It is as bad as it ever was.
                if is_worse {
                    (open.severity, open.own_severity) = bad;
                }
                if is_worse || count.ilog10() > before.max(1).ilog10() {
                    self.changes.push(Changed::Opened(key));
                }
            }
            return;
        }
        if !life.hold.is_zero() {
            let pending = self.pending.entry(key.clone()).or_insert(Pending { first: now, last: now });
            pending.last = now;
            if now.since(pending.first) < life.hold {
                return;
            }
        }
        self.pending.remove(&key);
        if !self.has_room(now, &seen) {
            // A condition is seen at every look, and counts once.
            if times > 0 || self.refused.len() < Self::MAX_OPEN && self.refused.insert(key) {
                self.leave_out(now, &seen, times.max(1));
            }
            return;
        }
        self.opened += 1;
        *self.totals.entry((seen.rule, seen.own_severity)).or_default() += 1;
        (seen.no, seen.opened_at, seen.last_at, seen.count) = (self.opened, now, now, times.max(seen.count).max(1));
        self.open.insert(key.clone(), seen);
        self.changes.push(Changed::Opened(key));
    }

    /// Whether one more may be opened. Where all room is taken, one that is less severe is cleared for it, or one of a kind of which there
    /// are more: the newest of them, because what came first is more likely to be a cause.
    fn has_room(&mut self, now: Stamp, new: &Finding) -> bool {
        let of_rule = self.open.range((new.rule, None, String::new())..).take_while(|(k, _)| k.0 == new.rule);
        let alike = of_rule.filter(|(_, f)| kind_of(f) == kind_of(new)).count();
        if alike >= Self::MAX_OF_KIND {
            return false;
        }
        if self.open.len() < Self::MAX_OPEN || new.rule == Self::LEFT_OUT {
            return true;
        }
        let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
        self.open.values().for_each(|f| *kinds.entry(kind_of(f)).or_default() += 1);
        let weight = |f: &Finding| (Reverse(f.own_severity), kinds.get(&kind_of(f)).copied().unwrap_or(0), f.no);
        let others = self.open.iter().filter(|(_, f)| f.rule != Self::LEFT_OUT);
        let Some((key, least)) = others.max_by_key(|(_, f)| weight(f)).map(|(key, f)| (key.clone(), f.clone())) else {
            return true;
        };
        let gives_way = weight(&least) > (Reverse(new.own_severity), alike + 1, u64::MAX);
        if gives_way {
            self.leave_out(now, &least, least.count);
            self.clear(now, &key, "a worse finding needed its room");
        }
        gives_way
    }

    fn leave_out(&mut self, now: Stamp, f: &Finding, times: u64) {
        let new = LeftOut { since: now, times: 0, worst: f.own_severity };
        let left = self.left_out.entry((f.job.clone(), f.rule)).or_insert(new);
        left.times = left.times.saturating_add(times);
        left.worst = left.worst.max(f.own_severity);
    }

    /// What had no room, by job and rule.
    pub fn left_out(&self) -> impl Iterator<Item = (Option<&str>, &'static str, LeftOut)> {
        self.left_out.iter().map(|((job, rule), left)| (job.as_deref(), *rule, *left))
    }

    /// What was left out of jobs is no longer of interest: another run has begun, or the job is forgotten.
    pub fn forget_left_out(&mut self, is_past: impl Fn(&str) -> bool) {
        self.left_out.retain(|(job, _), _| !job.as_deref().is_some_and(&is_past));
        self.refused.retain(|(_, job, _)| !job.as_deref().is_some_and(&is_past));
    }

    /// What was opened and cleared since this was last asked. What is covered by another finding was not opened for anybody.
    pub fn take_changes(&mut self) -> Vec<Change> {
        let changes = std::mem::take(&mut self.changes);
        let change = |change| match change {
            Changed::Opened(key) if self.covered.contains(&key) => None,
            Changed::Opened(key) => self.open.get(&key).map(|f| Change::Opened(Box::new(f.clone()))),
            Changed::Cleared(finding, reason) => Some(Change::Cleared { finding, reason }),
        };
        changes.into_iter().filter_map(change).collect()
    }

    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Nobody is to be informed of what was opened and cleared so far.
    pub fn forget_changes(&mut self) {
        self.changes.clear();
    }

    /// The jobs that have open findings.
    pub fn jobs(&self) -> BTreeSet<String> {
        self.open.values().filter_map(|f| f.job.clone()).collect()
    }

    /// What the lines of a log report has been judged anew as a whole: that replaces what was opened line by line.
    pub fn replace_text(&mut self, now: Stamp, job: &str, whole: Ledger) {
        let is_text = |f: &Finding| f.job.as_deref() == Some(job) && f.witness == Witness::Text && !f.machine;
        let gone = |f: &Finding| is_text(f) && !whole.open.contains_key(&key_of(f));
        self.clear_where(now, "the whole log shows otherwise", gone);
        let first = self.opened;
        self.opened += whole.opened;
        // Lines that had no room may have been counted when they came, or the last time: they count once.
        let before = std::mem::replace(&mut self.left_out, whole.left_out);
        for (key, mut found) in whole.open {
            found.no += first;
            match self.open.get_mut(&key) {
                Some(known) if known.witness == Witness::Text => {
                    (found.opened_at, found.last_at) = (known.opened_at, known.last_at);
                    *known = found;
                }
                Some(known) => known.join(found),
                None => {
                    if self.has_room(now, &found) {
                        (found.opened_at, found.last_at) = (now, now);
                        *self.totals.entry((found.rule, found.own_severity)).or_default() += 1;
                        self.open.insert(key.clone(), found);
                        self.changes.push(Changed::Opened(key));
                    } else {
                        self.leave_out(now, &found, found.count.max(1));
                    }
                }
            }
        }
        for (key, known) in before {
            let left = self.left_out.entry(key).or_insert(known);
            (left.since, left.times, left.worst) = (left.since.min(known.since), left.times.max(known.times), left.worst.max(known.worst));
        }
    }

    /// The open findings of a job, or of none, in the order in which they were opened, covered ones too, to be given their roles.
    pub fn of_job(&mut self, job: Option<&str>) -> Vec<&mut Finding> {
        let mut all: Vec<&mut Finding> = self.open.values_mut().filter(|f| f.job.as_deref() == job).collect();
        all.sort_by_key(|f| f.no);
        all
    }

    /// From now on these findings of a job, by their number, are covered by others, and no others of it.
    pub fn cover(&mut self, now: Stamp, job: &str, numbers: &BTreeSet<u64>) {
        for (key, f) in self.open.iter().filter(|(key, _)| key.1.as_deref() == Some(job)) {
            let was = self.covered.contains(key);
            let is_new = || self.changes.iter().any(|c| matches!(c, Changed::Opened(opened) if opened == key));
            match (was, numbers.contains(&f.no)) {
                (false, true) => {
                    self.covered.insert(key.clone());
                    if !is_new() {
                        let finding = Box::new(Finding { cleared_at: Some(now), ..f.clone() });
                        self.changes.push(Changed::Cleared(finding, "another finding says more".to_owned()));
                    }
                }
                (true, false) => {
                    self.covered.remove(key);
                    self.changes.push(Changed::Opened(key.clone()));
                }
                _ => {}
            }
        }
    }

    /// Nobody looked for so long, up to now: what has to hold for a while has not held meanwhile, and what is not seen is not gone yet.
    pub fn stood_still(&mut self, now: Stamp, gap: Duration) {
        self.pending.values_mut().for_each(|p| p.first = p.first.plus(gap));
        self.watched_since = now;
    }

    /// A second has passed: whatever was not seen at `now` begins to end. `lingers` says how long that takes.
    pub fn settle(&mut self, now: Stamp, lingers: impl Fn(&Finding) -> Option<Duration>) {
        self.pending.retain(|_, p| p.last == now);
        let watched_since = self.watched_since;
        let over = |f: &Finding| lingers(f).is_some_and(|linger| f.last_at < now && now.since(f.last_at.max(watched_since)) >= linger);
        self.clear_where(now, "it is no longer so", over);
    }

    /// Clears what `which` says, whatever its life.
    pub fn clear_where(&mut self, now: Stamp, reason: &'static str, which: impl Fn(&Finding) -> bool) {
        let keys: Vec<Key> = self.open.iter().filter(|(_, f)| which(f)).map(|(k, _)| k.clone()).collect();
        for key in keys {
            self.clear(now, &key, reason);
        }
    }

    /// It is no worse than that.
    pub fn lessen(&mut self, most: Severity, which: impl Fn(&Finding) -> bool) {
        for finding in self.open.values_mut().filter(|f| which(f)) {
            (finding.severity, finding.own_severity) = (finding.severity.min(most), finding.own_severity.min(most));
        }
    }

    /// Whose it is has become known.
    pub fn name(&mut self, which: impl Fn(&Finding) -> bool, whose: &Finding) {
        for finding in self.open.values_mut().filter(|f| which(f)) {
            (finding.ranks, finding.gpus) = (whose.ranks.clone(), whose.gpus.clone());
            finding.summary = format!("{}: {}", crate::base::words::rank_words(&whose.ranks), finding.summary);
            finding.evidence.extend(whose.evidence.first().cloned());
        }
    }

    /// What is known of one job is known of another: the same job under its better name.
    pub fn adopt(&mut self, from: &str, to: &str) {
        let renamed = |key: Key| if key.1.as_deref() == Some(from) { (key.0, Some(to.to_owned()), key.2) } else { key };
        self.covered = std::mem::take(&mut self.covered).into_iter().map(renamed).collect();
        for (key, mut finding) in std::mem::take(&mut self.open) {
            let key = renamed(key);
            finding.job.clone_from(&key.1);
            match self.open.entry(key) {
                Entry::Vacant(place) => drop(place.insert(finding)),
                // Both have it: the one that was there first, and all that was counted.
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    let (count, last_at) = (known.count + finding.count, known.last_at.max(finding.last_at));
                    if finding.opened_at < known.opened_at {
                        *known = finding;
                    }
                    (known.count, known.last_at) = (count, last_at);
                }
            }
        }
        for finding in self.past.iter_mut().filter(|f| f.job.as_deref() == Some(from)) {
            finding.job = Some(to.to_owned());
        }
        for ((job, rule), left) in std::mem::take(&mut self.left_out) {
            let job = if job.as_deref() == Some(from) { Some(to.to_owned()) } else { job };
            let known = self.left_out.entry((job, rule)).or_insert(LeftOut { times: 0, ..left });
            *known = LeftOut { since: known.since.min(left.since), times: known.times + left.times, worst: known.worst.max(left.worst) };
        }
    }

    fn clear(&mut self, now: Stamp, key: &Key, reason: &'static str) {
        let Some(mut finding) = self.open.remove(key) else { return };
        (finding.cleared_at, finding.cleared_for) = (Some(now), Some(reason));
        let is_new = |c: &Changed| matches!(c, Changed::Opened(opened) if opened == key);
        let was_shown = !self.covered.remove(key) && !self.changes.iter().any(is_new);
        self.changes.retain(|c| !is_new(c));
        if was_shown {
            self.changes.push(Changed::Cleared(Box::new(finding.clone()), reason.to_owned()));
        }
        self.past.push(finding);
        if self.past.len() > Self::MAX_PAST
            && let Some(least) = (0..self.past.len()).min_by_key(|i| self.past[*i].own_severity)
        {
            self.past.remove(least);
        }
    }
}

/// Findings that share room: of one rule, of one text where the catalogue knows it, and equally severe.
type Kind = (&'static str, Option<&'static str>, Severity);

fn kind_of(f: &Finding) -> Kind {
    (f.rule, f.signature, f.own_severity)
}

fn key_of(f: &Finding) -> Key {
    (f.rule, f.job.clone(), f.subject.clone())
}
