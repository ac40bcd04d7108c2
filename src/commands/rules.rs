//! `nccl-top rules`: the catalogue of rules, and of the texts that are known.

use super::{Outcome, out};
use crate::rules::{RULES, Rule, rule};
use crate::text::signature::{self, Signature, Table};
use crate::tui::widgets::wrap;
use anyhow::Result;
use std::fmt::Write;

const WIDTH: usize = 96;

pub fn run(id: Option<&str>) -> Result<Outcome> {
    let text = match id {
        None => list(),
        Some(id) => match (rule(id), signature::by_id(id)) {
            (None, None) => anyhow::bail!("no rule and no signature {id:?}; {}", nearest(id)),
            (about, text) => {
                let parts = [about.map(explain), text.map(|(table, s)| explain_text(table, s))];
                parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
            }
        },
    };
    out(&text)?;
    Ok(Outcome::Clean)
}

fn list() -> String {
    let mut text = String::from("Rules: what counts as trouble\n\n");
    for r in RULES {
        let _ = writeln!(text, "  {:<26} {:<9} {}", r.id, r.severity.as_str(), r.title);
    }
    let _ = writeln!(text, "\nSignatures: texts that are known, {} of them", signature::all().count());
    for table in crate::text::signatures::TABLES {
        let _ = writeln!(text, "\n{}\n", table.title);
        for s in table.rows {
            let what = s.means.split(". ").next().unwrap_or(s.means).trim_end_matches('.');
            let _ = writeln!(text, "  {:<26} {:<9} {}", s.id, severity(s), crate::text::clean::clip(what, 110));
        }
    }
    text.push_str("\nnccl-top rules ID explains one: what it means, how it is known, what to do.\n");
    text
}

fn severity(s: &Signature) -> &'static str {
    s.severity.as_str()
}

fn explain(r: &Rule) -> String {
    let mut text = format!("{} (rule, {})\n", r.id, r.severity.as_str());
    put(&mut text, "", r.title);
    put(&mut text, "How it is known: ", r.how);
    put(&mut text, "What to do: ", r.advice);
    let texts: Vec<&str> = signature::all().filter(|(_, s)| s.rule == r.id).map(|(_, s)| s.id).collect();
    if !texts.is_empty() {
        put(&mut text, "Texts that it knows: ", &texts.join(", "));
    }
    text
}

fn explain_text(table: &Table, s: &Signature) -> String {
    let mut text = format!("{} (signature, {}, {})\n", s.id, severity(s), s.part.as_str());
    put(&mut text, "", s.means);
    put(&mut text, "What to do: ", s.next);
    put(&mut text, "Where: ", &format!("{}: {}; versions: {}", table.title, s.source, s.versions));
    put(&mut text, "Stands under the rule: ", s.rule);
    text.push_str("\nThe text (* is anything, # digits):\n");
    for pattern in s.texts {
        let _ = writeln!(text, "  {pattern}");
    }
    text.push_str("\nFor example:\n");
    for example in s.examples.iter().take(3) {
        for line in example.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

fn put(text: &mut String, title: &str, what: &str) {
    let what = what.trim_end_matches('.');
    text.push('\n');
    for line in wrap(&format!("{title}{what}."), WIDTH) {
        let _ = writeln!(text, "{line}");
    }
}

/// Ids that the user may have meant.
fn nearest(id: &str) -> String {
    let ids = || RULES.iter().map(|r| r.id).chain(signature::all().map(|(_, s)| s.id));
    let part = |known: &&str| known.contains(id) || id.split('-').any(|word| word.len() > 3 && known.contains(word));
    let close: Vec<&str> = ids().filter(part).take(8).collect();
    if close.is_empty() { "nccl-top rules lists them".into() } else { format!("did you mean {}?", close.join(", ")) }
}
