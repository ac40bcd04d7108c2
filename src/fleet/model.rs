//! The fleet at one moment: nodes, jobs, and what its nodes have found. Made of answers; it accuses nobody.

use super::answer::{Answer, Series};
use crate::base::severity::{Role, Severity};
use crate::base::time::Stamp;
use crate::diagnosis::verdict::State;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Answers of one frame, by the id of their question.
pub type Answers = BTreeMap<&'static str, Answer>;

/// Jobs that are kept: the largest sites run fewer at once.
const MOST_JOBS: usize = 4096;
const MOST_NODES: usize = 32_768;
/// Findings of nodes; a job of a thousand nodes may have several on each.
const MOST_FINDINGS: usize = 20_000;

#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The moment that all questions were about.
    pub at: Stamp,
    /// Between two scrapes of a node.
    pub scrape: Duration,
    /// By the label `instance`.
    pub nodes: BTreeMap<String, Node>,
    pub jobs: BTreeMap<String, Job>,
    /// What nodes have found, as they report it.
    pub reports: Vec<Report>,
    /// Sources of evidence that are missing, and on how many nodes.
    pub blind: BTreeMap<String, usize>,
    /// Names of nodes by address, as far as they were asked for.
    pub addresses: BTreeMap<String, String>,
    /// What could not be asked, what the server remarks, and what there was no room for.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The last scrape succeeded.
    pub answers: bool,
    /// The pod of the exporter, where the target has such labels.
    pub pod: Option<Pod>,
    /// Ids of jobs.
    pub jobs: BTreeSet<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub container: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Job {
    /// What people know it by: labels of the job that are not empty, by name.
    pub info: BTreeMap<&'static str, String>,
    /// How many nodes see it in which state.
    pub states: BTreeMap<State, usize>,
    since: BTreeMap<State, Stamp>,
    /// By instance.
    pub members: BTreeMap<String, Member>,
    pub step: Option<f64>,
    /// Steps that it is to make.
    pub steps: Option<f64>,
    pub step_time_s: Option<f64>,
    pub usual_step_time_s: Option<f64>,
    pub last_step_at: Option<Stamp>,
    pub loss: Option<f64>,
    pub world_size: Option<u32>,
    pub restarts: Option<u32>,
    /// Unit and rate.
    pub throughput: BTreeMap<String, f64>,
    /// Ranks on the nodes that answer.
    pub ranks_seen: Option<u32>,
    /// Communicators on which no node has seen a count move for longer than `still_s` of the question, and for how many seconds.
    pub still: BTreeMap<String, f64>,
    pub detail: Detail,
}

/// A node of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    pub nccl_version: String,
    /// It had the job when it was last heard of, and does not answer.
    pub is_silent: bool,
    /// When it was last reached, if it was within the hour.
    pub silent_since: Option<Stamp>,
    /// Share of their time that its ranks wait in collectives; now, a minute ago, over two minutes as a share of what was counted, and earlier.
    pub waiting: Option<f64>,
    pub waiting_before: Option<f64>,
    pub waiting_share: Option<f64>,
    pub waiting_earlier: Option<f64>,
}

/// What is asked of one job where its judgement or its screen needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detail {
    pub ranks: Vec<Rank>,
    /// Ranks that some node reports; `None` where that was not asked.
    pub present: Option<BTreeSet<u32>>,
    pub comms: BTreeMap<String, Comm>,
    /// Nodes that hold the least count of a communicator that stands still with different counts: communicator, node, count.
    pub behind: Vec<(String, String, f64)>,
    pub ports: Vec<Port>,
    /// Driver and model by instance.
    pub drivers: BTreeMap<String, (String, String)>,
}

/// Shares of its time that a rank spends on each activity.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rank {
    pub instance: String,
    pub rank: u32,
    pub gpu: Option<u32>,
    pub working: f64,
    pub waiting: f64,
    pub idle: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Comm {
    pub still_s: Option<f64>,
    pub least: Option<f64>,
    pub most: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Port {
    pub instance: String,
    pub port: String,
    pub bytes_per_s: Option<f64>,
    pub bytes_per_s_before: Option<f64>,
    /// Lost or sent again within five minutes.
    pub lost: f64,
}

/// What one node reports of one whom it blames.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The node that reports.
    pub from: String,
    pub job: Option<String>,
    pub rule: String,
    pub severity: Severity,
    pub role: Role,
    pub rank: Option<u32>,
    pub gpu: Option<u32>,
    pub port: Option<String>,
    /// Where the blame lies, by instance where that could be found out; the reporting node where it names no other.
    pub node: String,
    /// For how long it has been open, an hour at most.
    pub open_for: Duration,
}

impl Job {
    /// The worst that any node sees.
    pub fn state(&self) -> State {
        self.states.keys().next_back().copied().unwrap_or(State::Unknown)
    }

    /// Since when the first node has seen that state.
    pub fn since(&self) -> Option<Stamp> {
        self.since.get(&self.state()).copied()
    }

    pub fn answering(&self) -> usize {
        self.members.values().filter(|member| !member.is_silent).count()
    }

    pub fn silent(&self) -> Vec<&str> {
        self.members.iter().filter(|(_, member)| member.is_silent).map(|(node, _)| node.as_str()).collect()
    }

    /// What is left at the usual pace, while it makes steps.
    pub fn eta(&self) -> Option<Duration> {
        let left = self.steps? - self.step?;
        let pace = self.usual_step_time_s.or(self.step_time_s)?;
        let goes = matches!(self.state(), State::Training | State::Slow | State::Paused);
        (goes && left > 0.0).then(|| Duration::try_from_secs_f64(left * pace).ok()).flatten()
    }

    /// The name that people gave it, if they gave it one.
    pub fn name(&self) -> Option<&str> {
        self.info.get("job_name").map(String::as_str)
    }
}

fn set(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn state_of(word: &str) -> Option<State> {
    use State::{Failed, Finished, Idle, Paused, Slow, Starting, Stuck, Training, Unknown};
    [Idle, Finished, Unknown, Starting, Training, Paused, Slow, Stuck, Failed].into_iter().find(|state| state.as_str() == word)
}

/// Labels of `nccltop_job_info` by which people know a job.
const INFO: &[&str] = &["slurm_job_id", "job_name", "user", "account", "partition", "namespace", "launcher"];

impl Fleet {
    /// The fleet as the answers of a frame show it; `scrape` is the time between two scrapes.
    pub fn of(at: Stamp, scrape: Duration, answers: &Answers) -> Fleet {
        let mut fleet = Fleet { at, scrape, ..Fleet::default() };
        fleet.put_nodes(answers);
        fleet.put_jobs(answers);
        fleet.put_reports(answers);
        for (series, count) in values(answers, "blind") {
            fleet.blind.insert(series.label("source").to_owned(), count as usize);
        }
        for (id, answer) in answers {
            fleet.remarks.extend(answer.warnings.iter().map(|warning| format!("the server warns: {warning}")));
            if answer.left_out > 0 {
                fleet.remarks.push(format!("{id}: {} series are left out: too many, or with a label that is too long", answer.left_out));
            }
        }
        fleet.remarks.sort();
        fleet.remarks.dedup();
        fleet
    }

    fn put_nodes(&mut self, answers: &Answers) {
        for (series, up) in values(answers, "nodes") {
            let instance = series.label("instance");
            if instance.is_empty() || self.nodes.len() >= MOST_NODES {
                continue;
            }
            let node = self.nodes.entry(instance.to_owned()).or_default();
            // One that is scraped by two jobs answers if it answers one of them.
            node.answers |= up > 0.0;
            if let Some(name) = set(series.label("pod")) {
                let label = |name: &str| series.label(name).to_owned();
                node.pod = Some(Pod { namespace: label("namespace"), name, container: label("container") });
            }
        }
    }

    fn put_jobs(&mut self, answers: &Answers) {
        for (series, _) in values(answers, "members") {
            let Some(job) = self.job(series) else { continue };
            let instance = series.label("instance").to_owned();
            job.members.insert(instance.clone(), Member { nccl_version: series.label("nccl_version").to_owned(), ..Member::default() });
            let id = series.label("job_id").to_owned();
            self.nodes.entry(instance).or_default().jobs.insert(id);
        }
        for (series, _) in values(answers, "gone") {
            let (id, instance) = (series.label("job_id").to_owned(), series.label("instance"));
            // A node that answers without the job has ended it.
            if self.nodes.get(instance).is_some_and(|node| node.answers) {
                continue;
            }
            let Some(job) = self.job(series) else { continue };
            job.members.entry(instance.to_owned()).or_insert(Member { is_silent: true, ..Member::default() });
            self.nodes.entry(instance.to_owned()).or_default().jobs.insert(id);
        }
        for (series, count) in values(answers, "states") {
            if let (Some(state), Some(job)) = (state_of(series.label("state")), self.job(series)) {
                job.states.insert(state, count as usize);
            }
        }
        for (series, at) in values(answers, "since") {
            if let (Some(state), Some(job)) = (state_of(series.label("state")), self.job(series)) {
                job.since.insert(state, Stamp::from_secs_f64(at));
            }
        }
        for (series, _) in values(answers, "info") {
            let Some(job) = self.job(series) else { continue };
            job.info.extend(INFO.iter().filter_map(|name| Some((*name, set(series.label(name))?))));
        }
        for (series, value) in values(answers, "facts") {
            let Some(job) = self.job(series) else { continue };
            match series.label("__name__").trim_start_matches("nccltop_job_") {
                "step" => job.step = Some(value),
                "steps_planned" => job.steps = Some(value),
                "step_time_seconds" => job.step_time_s = Some(value),
                "step_time_usual_seconds" => job.usual_step_time_s = Some(value),
                "last_step_timestamp_seconds" => job.last_step_at = Some(Stamp::from_secs_f64(value)),
                "loss" => job.loss = Some(value),
                "world_size" => job.world_size = Some(value as u32),
                "restarts_total" => job.restarts = Some(value as u32),
                _ => {}
            }
        }
        for (series, value) in values(answers, "throughput") {
            let unit = series.label("unit").to_owned();
            if let Some(job) = self.job(series) {
                job.throughput.insert(unit, value);
            }
        }
        for (series, value) in values(answers, "local-ranks") {
            if let Some(job) = self.job(series) {
                job.ranks_seen = Some(value as u32);
            }
        }
        for (series, value) in values(answers, "still") {
            if let Some(job) = self.job(series) {
                job.still.insert(series.label("comm").to_owned(), value);
            }
        }
        for (id, put) in [("waiting", put_waiting as fn(&mut Member, f64)), ("waiting-before", |m, v| m.waiting_before = Some(v))] {
            for (series, value) in values(answers, id) {
                let member = self.jobs.get_mut(series.label("job_id")).and_then(|job| job.members.get_mut(series.label("instance")));
                if let Some(member) = member {
                    put(member, value);
                }
            }
        }
    }

    /// The job that a series is about; none where it names none, or there is no room.
    fn job(&mut self, series: &Series) -> Option<&mut Job> {
        let id = series.label("job_id");
        let fits = !id.is_empty() && (self.jobs.len() < MOST_JOBS || self.jobs.contains_key(id));
        fits.then(|| self.jobs.entry(id.to_owned()).or_default())
    }

    fn put_reports(&mut self, answers: &Answers) {
        for (series, scrapes) in values(answers, "findings").take(MOST_FINDINGS) {
            let from = series.label("instance").to_owned();
            let named = series.label("node");
            self.reports.push(Report {
                job: set(series.label("job_id")),
                rule: series.label("rule").to_owned(),
                severity: Severity::parse(series.label("severity")).unwrap_or(Severity::Warning),
                role: role_of(series.label("role")),
                rank: series.number("rank"),
                gpu: series.number("gpu"),
                port: set(series.label("port")),
                node: if named.is_empty() { from.clone() } else { self.resolve(named).unwrap_or_else(|| named.to_owned()) },
                open_for: self.scrape.mul_f64(scrapes.clamp(0.0, 1e6)),
                from,
            });
        }
    }

    /// The instance of a node that another one names: by name, with or without domain and port, or by address.
    fn resolve(&self, named: &str) -> Option<String> {
        if self.nodes.contains_key(named) {
            return Some(named.to_owned());
        }
        if let Some(instance) = self.addresses.get(named) {
            return Some(instance.clone());
        }
        let mut like = self.nodes.keys().filter(|instance| host(instance) == named || short(host(instance)) == short(named));
        let first = like.next()?;
        // Of two that could be meant, none is.
        like.next().is_none().then(|| first.clone())
    }

    /// Nodes with a job that do not answer.
    pub fn silent_nodes(&self) -> Vec<String> {
        let silent = self.jobs.values().flat_map(|job| job.silent()).map(str::to_owned);
        silent.collect::<BTreeSet<_>>().into_iter().take(64).collect()
    }

    /// Takes in when nodes were reached: `up` over time.
    pub fn put_reached(&mut self, answer: &Answer) {
        for series in &answer.series {
            let last = series.values.iter().rev().find(|(_, up)| *up > 0.0).map(|(at, _)| *at);
            let members = self.jobs.values_mut().filter_map(|job| job.members.get_mut(series.label("instance")));
            members.for_each(|member| member.silent_since = member.silent_since.max(last));
        }
    }

    /// Names that nodes blame and that are no node's: addresses, perhaps.
    pub fn unknown_names(&self) -> Vec<String> {
        let unknown = self.reports.iter().filter(|report| !self.nodes.contains_key(&report.node)).map(|report| report.node.clone());
        unknown.collect::<BTreeSet<_>>().into_iter().take(64).collect()
    }

    /// Takes in which addresses nodes have.
    pub fn put_addresses(&mut self, answer: &Answer) {
        for series in &answer.series {
            self.addresses.insert(series.label("address").to_owned(), series.label("instance").to_owned());
        }
        let names: Vec<Option<String>> = self.reports.iter().map(|report| self.addresses.get(&report.node).cloned()).collect();
        for (report, name) in self.reports.iter_mut().zip(names) {
            report.node = name.unwrap_or(std::mem::take(&mut report.node));
        }
    }

    /// Takes in what was asked of one job.
    pub fn put_detail(&mut self, id: &str, answers: &Answers) {
        let Some(job) = self.jobs.get_mut(id) else { return };
        for (question, put) in [
            ("waiting-earlier", (|m, v| m.waiting_earlier = Some(v)) as fn(&mut Member, f64)),
            ("waiting-share", |m, v| m.waiting_share = Some(v)),
        ] {
            for (series, value) in values(answers, question) {
                if let Some(member) = job.members.get_mut(series.label("instance")) {
                    put(member, value);
                }
            }
        }
        let detail = &mut job.detail;
        if answers.contains_key("activity") {
            detail.ranks = ranks_of(answers, "activity");
        }
        if answers.contains_key("ranks") {
            detail.present = Some(values(answers, "ranks").filter_map(|(series, _)| series.number("rank")).collect());
        }
        type Put = fn(&mut Comm, f64);
        let comms: [(&str, Put); 3] = [
            ("comms-still", |comm, value| comm.still_s = Some(value)),
            ("comms-least", |comm, value| comm.least = Some(value)),
            ("comms-most", |comm, value| comm.most = Some(value)),
        ];
        for (question, put) in comms {
            for (series, value) in values(answers, question) {
                put(detail.comms.entry(series.label("comm").to_owned()).or_default(), value);
            }
        }
        if answers.contains_key("behind") {
            let behind = values(answers, "behind");
            detail.behind = behind.map(|(s, value)| (s.label("comm").to_owned(), s.label("instance").to_owned(), value)).collect();
        }
        if answers.contains_key("ports") {
            detail.ports = ports_of(answers);
        }
        for (series, _) in values(answers, "drivers") {
            let of = (series.label("driver").to_owned(), series.label("model").to_owned());
            detail.drivers.insert(series.label("instance").to_owned(), of);
        }
    }
}

fn put_waiting(member: &mut Member, value: f64) {
    member.waiting = Some(value);
}

/// The series of an answer that have a value, with it.
pub fn values<'a>(answers: &'a Answers, id: &str) -> impl Iterator<Item = (&'a Series, f64)> {
    answers.get(id).into_iter().flat_map(|answer| &answer.series).filter_map(|series| Some((series, series.value()?)))
}

/// Shares of activity by rank, in the order of ranks.
pub fn ranks_of(answers: &Answers, id: &str) -> Vec<Rank> {
    let mut ranks: BTreeMap<(u32, &str), Rank> = BTreeMap::new();
    for (series, share) in values(answers, id) {
        let Some(rank) = series.number("rank") else { continue };
        let instance = series.label("instance");
        let new = || Rank { instance: instance.to_owned(), rank, gpu: series.number("gpu"), ..Rank::default() };
        let entry = ranks.entry((rank, instance)).or_insert_with(new);
        match series.label("activity") {
            "working" => entry.working += share,
            "waiting" => entry.waiting += share,
            "idle" => entry.idle += share,
            _ => {}
        }
    }
    ranks.into_values().collect()
}

fn ports_of(answers: &Answers) -> Vec<Port> {
    let mut ports: BTreeMap<(&str, &str), Port> = BTreeMap::new();
    type Put = fn(&mut Port, f64);
    let fields: [(&str, Put); 3] = [
        ("ports", |port, value| port.bytes_per_s = Some(value)),
        ("ports-before", |port, value| port.bytes_per_s_before = Some(value)),
        ("loss", |port, value| port.lost = value),
    ];
    for (question, put) in fields {
        for (series, value) in values(answers, question) {
            let (instance, name) = (series.label("instance"), series.label("port"));
            let new = || Port { instance: instance.to_owned(), port: name.to_owned(), ..Port::default() };
            put(ports.entry((instance, name)).or_insert_with(new), value);
        }
    }
    ports.into_values().collect()
}

fn role_of(word: &str) -> Role {
    // The exporter's word for what follows from a root may be either.
    match word {
        "root" | "" => Role::Root,
        "cascade" | "consequence" => Role::Cascade,
        "teardown" => Role::Teardown,
        _ => Role::Context,
    }
}

/// The host of an instance: without the port.
pub fn host(instance: &str) -> &str {
    match instance.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host.trim_start_matches('[').trim_end_matches(']'),
        _ => instance,
    }
}

/// Without the domain; an address stays whole.
fn short(host: &str) -> &str {
    let is_address = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if is_address { host } else { host.split('.').next().unwrap_or(host) }
}
