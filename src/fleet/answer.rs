//! What a server of Prometheus's query API answers, read as data.
//! The form: <https://prometheus.io/docs/prometheus/latest/querying/api/>.

use crate::base::clean::{clean, clip};
use crate::base::time::Stamp;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Series of one answer that are kept: a thousand nodes with 64 ports each.
const MOST_SERIES: usize = 100_000;
/// Bytes of a label that is used; `nccl-top export` writes 128 at most. A series with a longer one is left out.
const LONGEST_LABEL: usize = 512;
/// Warnings that are kept of one answer.
const MOST_WARNINGS: usize = 8;

/// The series that an expression gave, and what the server remarks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub series: Vec<Series>,
    pub warnings: Vec<String>,
    /// Series for which there was no room, or with a label that is too long.
    pub left_out: usize,
}

/// One series: its labels, and its values, oldest first. An answer at one moment has one value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    labels: Labels,
    pub values: Vec<(Stamp, f64)>,
}

impl Series {
    /// A label; empty where there is none, as PromQL has it.
    pub fn label(&self, name: &str) -> &str {
        self.labels.0.iter().find(|(n, _)| **n == *name).map_or("", |(_, value)| value)
    }

    /// A label that holds a number, such as a rank.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.label(name).parse().ok()
    }

    /// The last value, where it is a number.
    pub fn value(&self) -> Option<f64> {
        self.values.last().map(|(_, value)| *value).filter(|value| value.is_finite())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Labels(Vec<(Box<str>, Box<str>)>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Labels(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[derive(Deserialize)]
struct Envelope {
    status: String,
    data: Option<Data>,
    error: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    result: Items,
}

#[derive(Deserialize)]
struct Item {
    metric: Labels,
    value: Option<(f64, String)>,
    values: Option<Vec<(f64, String)>>,
}

/// The series of an answer, as many as there is room for.
#[derive(Default)]
struct Items {
    series: Vec<Series>,
    left_out: usize,
}

impl<'de> Deserialize<'de> for Items {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Items, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Items;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a list of series")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Items, A::Error> {
                let mut items = Items::default();
                while let Some(item) = all.next_element::<Item>()? {
                    let fits = item.metric.0.iter().all(|(name, value)| name.len() <= LONGEST_LABEL && value.len() <= LONGEST_LABEL);
                    if !fits || items.series.len() >= MOST_SERIES {
                        items.left_out += 1;
                        continue;
                    }
                    let raw = item.values.unwrap_or_default().into_iter().chain(item.value);
                    let values = raw.filter_map(|(at, value)| Some((Stamp::from_secs_f64(at), value.parse().ok()?))).collect();
                    items.series.push(Series { labels: item.metric, values });
                }
                Ok(items)
            }
        }
        deserializer.deserialize_seq(All)
    }
}

impl Answer {
    /// # Errors
    /// In words: the server refuses, or this is no answer of the API.
    pub fn parse(body: &[u8]) -> Result<Answer, String> {
        let answer: Envelope = serde_json::from_slice(body).map_err(|err| {
            if err.is_eof() {
                return "the answer ends in the middle of its JSON".to_owned();
            }
            format!("the answer is not that of Prometheus's query API ({})", beginning(body))
        })?;
        match (answer.status.as_str(), answer.data) {
            ("success", Some(data)) => {
                let warnings = answer.warnings.iter().take(MOST_WARNINGS).map(|w| words(w)).collect();
                Ok(Answer { series: data.result.series, warnings, left_out: data.result.left_out })
            }
            _ => Err(answer.error.map_or_else(|| "the server refuses without a reason".into(), |error| words(&error))),
        }
    }
}

/// What a server says, safe to print and short enough for a line.
pub fn words(text: &str) -> String {
    clip(&clean(&text.split_whitespace().collect::<Vec<_>>().join(" ")), 200).into_owned()
}

/// The first words of something that is no JSON, to know it by: `it begins with "<!DOCTYPE html>"`.
pub fn beginning(body: &[u8]) -> String {
    if body.is_empty() {
        return "it is empty".into();
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(200)]);
    format!("it begins with {:?}", clip(&words(&text), 50))
}
