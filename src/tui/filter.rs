//! Which rows of a pane and which lines of the log are shown, and which lines are searched for.

use crate::logs::prefilter::Class;
use crate::model::log::Kept;
use regex::Regex;
use std::ops::RangeInclusive;

/// All of it must hold for a row or a line.
#[derive(Clone, Debug)]
pub struct Filter {
    /// As it was typed.
    pub text: String,
    terms: Vec<(bool, Term)>,
    files: Vec<String>,
    /// Of the typed text.
    text_ranks: Vec<RangeInclusive<u32>>,
    /// Chosen apart from the text. Empty: all, those without a rank too.
    pub ranks: Vec<RangeInclusive<u32>>,
    pub least: Class,
}

#[derive(Clone, Debug)]
enum Term {
    /// In lower case; matches whatever the case.
    Text(String),
    Regex(Regex),
}

impl Default for Filter {
    fn default() -> Self {
        Filter { text: String::new(), terms: Vec::new(), files: Vec::new(), text_ranks: Vec::new(), ranks: Vec::new(), least: Class::Noise }
    }
}

impl Filter {
    /// `text !text "two words" /regex/ rank:0-3 file:name`
    ///
    /// # Errors
    /// What cannot be understood.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let mut filter = Filter { text: text.trim().to_owned(), ..Filter::default() };
        for word in words(text) {
            let (wanted, word) = word.strip_prefix('!').filter(|w| !w.is_empty()).map_or((true, word.as_str()), |w| (false, w));
            if let Some(ranks) = word.strip_prefix("rank:").filter(|_| wanted) {
                filter.text_ranks.extend(Filter::parse_ranks(ranks)?);
            } else if let Some(file) = word.strip_prefix("file:").filter(|_| wanted) {
                filter.files.push(file.to_owned());
            } else {
                filter.terms.push((wanted, Term::parse(word)?));
            }
        }
        Ok(filter)
    }

    /// One text, spaces included, or `/regex/`; nothing ends the search.
    ///
    /// # Errors
    /// If the regular expression is none.
    pub fn parse_search(text: &str) -> Result<Option<Filter>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        Ok(Some(Filter { text: text.to_owned(), terms: vec![(true, Term::parse(text)?)], ..Filter::default() }))
    }

    /// `3`, `0-7,12`; nothing is all ranks.
    ///
    /// # Errors
    /// What was found and what is expected.
    pub fn parse_ranks(text: &str) -> Result<Vec<RangeInclusive<u32>>, String> {
        let number = |n: &str| n.trim().parse::<u32>().ok();
        let range = |part: &str| match part.split_once('-') {
            Some((from, to)) => Some(number(from)?..=number(to)?).filter(|r| !r.is_empty()),
            None => number(part).map(|n| n..=n),
        };
        let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        parts.map(|p| range(p).ok_or_else(|| format!("found {p:?}, expected a rank such as 3 or a range such as 0-7"))).collect()
    }

    pub fn ranks_text(&self) -> String {
        let one = |r: &RangeInclusive<u32>| if r.start() == r.end() { r.start().to_string() } else { format!("{}-{}", r.start(), r.end()) };
        self.ranks.iter().map(one).collect::<Vec<_>>().join(",")
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty() && self.files.is_empty() && self.ranks.is_empty() && self.text_ranks.is_empty() && self.least == Class::Noise
    }

    /// In words, for the title of its pane.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        match self.least {
            Class::Noise => {}
            Class::Fact => parts.push("known lines".to_owned()),
            Class::Alarm => parts.push("WARN and worse".to_owned()),
        }
        if !self.ranks.is_empty() {
            parts.push(format!("rank {}", self.ranks_text()));
        }
        if !self.text.is_empty() {
            parts.push(self.text.clone());
        }
        parts.join(", ")
    }

    /// `file` is the name of the line's file.
    pub fn matches(&self, line: &Kept, file: &str) -> bool {
        line.class >= self.least && self.matches_text(&line.text, line.rank.as_slice(), file)
    }

    /// For a row of a pane: its text, the ranks that it is about, and the file that it is of.
    pub fn matches_text(&self, text: &str, ranks: &[u32], file: &str) -> bool {
        [&self.ranks, &self.text_ranks]
            .into_iter()
            .all(|wanted| wanted.is_empty() || ranks.iter().any(|rank| wanted.iter().any(|r| r.contains(rank))))
            && (self.files.is_empty() || self.files.iter().any(|f| file.contains(f.as_str())))
            && self.terms.iter().all(|(wanted, term)| term.find(text, 0).is_some() == *wanted)
    }

    /// Where in a text the search matches: bytes, in order.
    pub fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let mut out = Vec::new();
        for (_, term) in self.terms.iter().filter(|(wanted, _)| *wanted) {
            let mut from = 0;
            while let Some((start, end)) = term.find(text, from) {
                // An empty match marks nothing, and would be found for ever.
                if end <= start || out.len() >= 64 {
                    break;
                }
                out.push((start, end));
                from = end;
            }
        }
        out
    }
}

impl Term {
    fn parse(word: &str) -> Result<Term, String> {
        match word.strip_prefix('/').and_then(|w| w.strip_suffix('/')).filter(|w| !w.is_empty()) {
            Some(pattern) => {
                let built = regex::RegexBuilder::new(pattern).case_insensitive(true).size_limit(1 << 20).build();
                built.map(Term::Regex).map_err(|err| {
                    let text = err.to_string();
                    format!("/{pattern}/ is no regular expression: {}", text.lines().last().unwrap_or("").trim_start_matches("error: "))
                })
            }
            None => Ok(Term::Text(word.to_ascii_lowercase())),
        }
    }

    /// The first match from byte `from` on.
    fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        match self {
            Term::Regex(regex) => regex.find_at(text, from).map(|m| (m.start(), m.end())),
            Term::Text(wanted) => {
                let hay = text.as_bytes();
                let first = *wanted.as_bytes().first()?;
                let candidates = memchr::memchr2_iter(first, first.to_ascii_uppercase(), hay.get(from..)?);
                let matches = |at: &usize| hay.get(*at..at + wanted.len()).is_some_and(|w| w.eq_ignore_ascii_case(wanted.as_bytes()));
                candidates.map(|at| from + at).find(matches).map(|at| (at, at + wanted.len()))
            }
        }
    }
}

/// Words at spaces; a word in quotes or between slashes may hold them.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (sign, after) = if first == '!' { ("!", &rest[1..]) } else { ("", rest) };
        let closing = after.chars().next().filter(|c| matches!(c, '"' | '/')).and_then(|c| after[1..].find(c).map(|at| (c, at + 1)));
        let (word, next) = match closing {
            Some(('"', end)) => (after[1..end].to_owned(), &after[end + 1..]),
            Some((_, end)) => (after[..=end].to_owned(), &after[end + 1..]),
            None => {
                let end = after.find(char::is_whitespace).unwrap_or(after.len());
                (after[..end].to_owned(), &after[end..])
            }
        };
        if !word.is_empty() {
            words.push(format!("{sign}{word}"));
        }
        rest = next.trim_start();
    }
    words
}
