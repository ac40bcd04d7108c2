//! One frame: which questions are asked, in which order, and what is made of their answers.

use super::client::{Client, Failure, When};
use super::model::{Answers, Fleet};
use super::queries::{self, Query, Values};
use super::rules::{self, Finding};
use crate::base::time::Stamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// What the user looks at: its questions are asked besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    Overview,
    Job(String),
    /// A node, and the job from which the user came to it.
    Node(String, Option<String>),
}

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    pub fleet: Fleet,
    pub findings: Vec<Finding>,
    /// Answers about the node that is looked at.
    pub node: Answers,
    /// The half hour before, oldest first: open root findings, or the share that the ranks of the job waited.
    pub history: Vec<(Stamp, f64)>,
    /// How long the server took for all of it.
    pub took: Duration,
}

pub struct Asker {
    client: Client,
    matchers: String,
    /// Between two scrapes; known after the first frame.
    scrape: Option<Duration>,
}

/// Without these nothing can be said.
const NEEDED: &[&str] = &["nodes", "states", "findings"];
/// As long as the server has not shown another one: what Prometheus's own examples have.
const USUAL_SCRAPE: Duration = Duration::from_secs(15);
/// The time before a frame that is shown with it.
pub const HISTORY_STEP: Duration = Duration::from_secs(30);
pub const HISTORY_STEPS: u32 = 60;
/// Jobs about which more is asked for the overview.
const MOST_ASKED: usize = 12;

impl Asker {
    /// `matchers` are put into each selector: `cluster="east"`.
    pub fn new(client: Client, matchers: String) -> Asker {
        Asker { client, matchers, scrape: None }
    }

    pub fn server(&self) -> String {
        self.client.shown_url()
    }

    fn values(&self) -> Values<'_> {
        let scrape = self.scrape.unwrap_or(USUAL_SCRAPE).as_secs().max(1);
        Values { matchers: &self.matchers, window_s: (4 * scrape).max(60), still_s: (3 * scrape).max(45), ..Values::default() }
    }

    /// All that is known at a moment.
    ///
    /// # Errors
    /// In words: why the server gives no picture.
    pub fn frame(&mut self, at: Stamp, focus: &Focus) -> Result<Frame, Failure> {
        let began = std::time::Instant::now();
        let values = self.values();
        let mut remarks = Vec::new();
        let overview: Vec<&Query> = queries::OVERVIEW.iter().collect();
        let mut answers = self.ask(&overview, &values, at, &mut remarks)?;
        if answers.get("nodes").is_none_or(|answer| answer.series.is_empty()) {
            return Err(format!(
                "the server knows no node of nccl-top at this moment{}: does it scrape `nccl-top export`?",
                if self.matchers.is_empty() { String::new() } else { format!(" that matches {{{}}}", self.matchers) }
            ));
        }
        for (recorded, raw) in [("waiting", queries::WAITING), ("waiting-before", queries::WAITING_BEFORE)] {
            if answers.get(recorded).is_none_or(|answer| answer.series.is_empty()) {
                answers.extend(self.ask(&[&raw], &values, at, &mut remarks)?);
            }
        }
        let scrape = self.learn_scrape(&answers, at);
        let values = self.values();
        let mut fleet = Fleet::of(at, scrape, &answers);
        drop(answers);
        let unknown = fleet.unknown_names();
        if !unknown.is_empty() {
            let values = Values { among: &unknown, ..values.clone() };
            if let Some(answer) = self.ask(&[&queries::ADDRESSES], &values, at, &mut remarks)?.get("addresses") {
                fleet.put_addresses(answer);
            }
        }
        let silent = fleet.silent_nodes();
        if !silent.is_empty() {
            let values = Values { among: &silent, ..values.clone() };
            if let Some(answer) = self.ask(&[&queries::REACHED], &values, at, &mut remarks)?.get("reached") {
                fleet.put_reached(answer);
            }
        }
        let mut wanted = rules::wanted(&fleet);
        wanted.truncate(MOST_ASKED);
        if let Focus::Job(job) = focus {
            wanted.retain(|(id, _)| id != job);
            wanted.push((job.clone(), [queries::JOB, &[&queries::RANKS, &queries::WAITING_SHARE, &queries::WAITING_EARLIER]].concat()));
        }
        self.ask_of_jobs(&wanted, &values, &mut fleet, &mut remarks);
        let mut node = Answers::new();
        match focus {
            Focus::Overview | Focus::Job(_) => {}
            Focus::Node(instance, _) => {
                let questions: Vec<&Query> = queries::NODE.iter().collect();
                node = self.ask(&questions, &Values { node: instance, ..values.clone() }, at, &mut remarks)?;
            }
        }
        let history = self.history(at, focus, &values);
        fleet.remarks.extend(remarks);
        let findings = rules::judge(&fleet);
        Ok(Frame { fleet, findings, node, history, took: began.elapsed() })
    }

    /// Asks of several jobs at once, and takes the answers into the fleet.
    fn ask_of_jobs(&self, wanted: &[(String, Vec<&'static Query>)], values: &Values, fleet: &mut Fleet, remarks: &mut Vec<String>) {
        let each: Vec<(&String, &Query)> =
            wanted.iter().flat_map(|(job, queries)| queries.iter().map(move |query| (job, *query))).collect();
        let asked: Vec<(String, When)> =
            each.iter().map(|(job, query)| (query.promql(&Values { job, ..values.clone() }), When::At(fleet.at))).collect();
        let mut of_jobs: BTreeMap<&String, Answers> = BTreeMap::new();
        for ((job, query), answer) in each.iter().zip(self.client.ask_all(&asked)) {
            match answer {
                Ok(answer) => drop(of_jobs.entry(job).or_default().insert(query.id, answer)),
                Err(why) => remarks.push(format!("{} of job {job}: {why}", query.id)),
            }
        }
        for (job, answers) in &of_jobs {
            fleet.put_detail(job, answers);
        }
    }

    /// What led to this moment; nothing where the server does not say.
    fn history(&self, at: Stamp, focus: &Focus, values: &Values) -> Vec<(Stamp, f64)> {
        let promql = match focus {
            Focus::Overview => queries::FINDINGS_OVER_TIME.promql(values),
            Focus::Job(job) => queries::WAITING_OVER_TIME.promql(&Values { job, ..values.clone() }),
            Focus::Node(..) => return Vec::new(),
        };
        // Whole steps: the same moments are asked for again, and the picture does not flicker.
        let end = Stamp(at.0.div_euclid(HISTORY_STEP.as_nanos() as i64) * HISTORY_STEP.as_nanos() as i64);
        let when = When::Range(end.minus(HISTORY_STEP * (HISTORY_STEPS - 1)), end, HISTORY_STEP);
        let answer = self.client.ask(&promql, when).ok();
        answer.and_then(|answer| answer.series.into_iter().next()).map_or(Vec::new(), |series| series.values)
    }

    /// Asks several questions at once. Of those that are needed one failure is that of all; others leave a remark.
    fn ask(&self, questions: &[&Query], values: &Values, at: Stamp, remarks: &mut Vec<String>) -> Result<Answers, Failure> {
        let asked: Vec<(String, When)> = questions.iter().map(|query| (query.promql(values), When::At(at))).collect();
        let mut answers = Answers::new();
        for (query, answer) in questions.iter().zip(self.client.ask_all(&asked)) {
            match answer {
                Ok(answer) => drop(answers.insert(query.id, answer)),
                Err(why) if NEEDED.contains(&query.id) => return Err(why),
                Err(why) => remarks.push(format!("{}: {why}", query.id)),
            }
        }
        Ok(answers)
    }

    /// The time between two scrapes of a node that answers.
    fn learn_scrape(&mut self, answers: &Answers, at: Stamp) -> Duration {
        if let Some(known) = self.scrape {
            return known;
        }
        let up = super::model::values(answers, "nodes").find(|(_, up)| *up > 0.0);
        let asked = up.and_then(|(series, _)| {
            let values = Values { node: series.label("instance"), ..self.values() };
            self.client.ask(&queries::SCRAPES.promql(&values), When::At(at)).ok()
        });
        let between = asked.and_then(|answer| {
            let stamps: Vec<Stamp> = answer.series.first()?.values.iter().map(|(at, _)| *at).collect();
            let mut gaps: Vec<Duration> = stamps.windows(2).map(|pair| pair[1].since(pair[0])).collect();
            gaps.sort();
            gaps.get(gaps.len() / 2).copied()
        });
        if let Some(between) = between.filter(|gap| !gap.is_zero()) {
            self.scrape = Some(between.clamp(Duration::from_secs(1), Duration::from_secs(300)));
        }
        self.scrape.unwrap_or(USUAL_SCRAPE)
    }
}
