//! What an entry makes of a text: its headline, what it is about, the ranks that it names.

use super::pattern::Captured;
use super::template::Template;
use super::{Signature, by_id, words};

/// A text, put into words. Only what the text says; what it does not say is left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// `None`: the text speaks for itself.
    pub headline: Option<String>,
    /// What it is about, where texts of one entry may be about several things: a GPU, a process that was killed.
    pub thing: Option<String>,
    /// The ranks that the text names as those it is about, in order.
    pub ranks: Option<Vec<u32>>,
    /// The entry that explains it.
    pub follows: Option<&'static Signature>,
}

impl Signature {
    /// What the text has for the names of this entry's patterns.
    pub fn captures<'t>(&self, text: &'t str) -> Captured<'t> {
        self.texts.iter().chain(self.captures).filter_map(|pattern| pattern.captures(text)).flatten().collect()
    }

    /// What the text has for one name.
    pub fn capture<'t>(&self, text: &'t str, name: &str) -> Option<&'t str> {
        self.captures(text).into_iter().find(|(known, value)| *known == name && !value.is_empty()).map(|(_, value)| value)
    }

    /// `host` wrote the line.
    pub fn tell(&self, text: &str, host: Option<&str>) -> Told {
        let captures = self.captures(text);
        let fill = |template: &Template| template.fill(&|name, how| in_words(how, &self.value(name, &captures, host)?));
        // One number, or several with commas.
        let numbers = |name: &&str| {
            let value = self.value(name, &captures, None)?;
            value.split(',').map(|n| n.trim().parse::<u32>()).collect::<Result<Vec<u32>, _>>().ok()
        };
        let mut ranks: Vec<u32> = self.ranks.iter().filter_map(numbers).flatten().collect();
        ranks.sort_unstable();
        ranks.dedup();
        Told {
            headline: self.headline.iter().find_map(fill),
            thing: self.thing.as_ref().and_then(fill),
            ranks: (!ranks.is_empty()).then_some(ranks),
            follows: self.follows.as_ref().and_then(fill).and_then(|id| by_id(&id)).map(|(_, s)| s),
        }
    }

    /// What tells this text from others of the same entry, if anything does.
    pub fn thing(&self, text: &str, host: Option<&str>) -> Option<String> {
        self.thing.as_ref()?;
        self.tell(text, host).thing
    }

    fn value(&self, name: &str, captures: &Captured<'_>, host: Option<&str>) -> Option<String> {
        let captured = captures.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let value = captured.or_else(|| match name {
            "host" => host.map(str::to_owned),
            "code" => Some(self.code.to_owned()),
            "name" => Some(self.name.to_owned()),
            "short" => Some(in_short(self.means)),
            _ => None,
        })?;
        (!value.is_empty()).then_some(value)
    }
}

/// A capture in other words: those of a table, or as one of [`super::template::WAYS`] has it.
fn in_words(how: &str, value: &str) -> Option<String> {
    match how {
        "" => Some(value.to_owned()),
        "kib" => value.parse().ok().map(size),
        "lower" => Some(value.to_lowercase()),
        "exit" => value.parse().ok().map(crate::base::exit_code::exit_words),
        "detail" => detail(value),
        // The plural's ending.
        "s" => Some(if value == "1" { String::new() } else { "s".into() }),
        // Nothing, where there is a value.
        "if" => Some(String::new()),
        table => words(table)?.get(value).map(str::to_owned),
    }
}

/// What stands behind the process in a line of the GPU driver.
fn detail(text: &str) -> Option<String> {
    let fields = text.split(", ").filter(|part| !part.starts_with("pid=") && !part.starts_with("name="));
    let rest = fields.collect::<Vec<_>>().join(", ");
    (!rest.is_empty()).then_some(rest)
}

/// `The GPU fell off the bus: it no longer answers. Power.` is `the GPU fell off the bus`.
fn in_short(means: &str) -> String {
    let end = [": ", "; ", ". "].iter().filter_map(|end| means.find(end)).min().unwrap_or(means.len());
    let short = means[..end].trim_end_matches('.');
    match short.split_once(' ') {
        Some((first @ ("The" | "A" | "An"), rest)) => format!("{} {rest}", first.to_lowercase()),
        _ => short.to_owned(),
    }
}

/// `118.2 GiB` of so many KiB.
fn size(kib: u64) -> String {
    match kib as f64 {
        k if k >= 1_048_576.0 => format!("{:.1} GiB", k / 1_048_576.0),
        k if k >= 1024.0 => format!("{:.0} MiB", k / 1024.0),
        k => format!("{k:.0} KiB"),
    }
}
