//! `nccl-top rules`: the catalogue of rules, and of the texts that are known.

use super::{Outcome, out};
use crate::base::clean::{clean, clip};
use crate::base::limit;
use crate::base::severity::Severity;
use crate::base::words::wrap;
use crate::cli::config::any_rule;
use crate::fleet;
use crate::logs::catalog::{self, Signature, Table};
use crate::rules::{RULES, Rule};
use anyhow::Result;
use std::borrow::Cow;
use std::fmt::Write;

const WIDTH: usize = 96;

/// `what` is an id, in any case, or a part of what is looked for.
pub fn run(what: Option<&str>) -> Result<Outcome> {
    let text = match what {
        None => list(),
        Some(what) => match (any_rule(&what.to_lowercase()), catalog::by_id(&what.to_lowercase())) {
            (None, None) => match holding(what) {
                Some(text) => text,
                None => anyhow::bail!(
                    "no rule and no signature {what:?}, and none that says so; {}",
                    catalog::nearest(what, all().map(|r| r.id))
                ),
            },
            (about, text) => {
                let parts = [about.map(explain), text.map(|(table, s)| explain_text(table, s))];
                parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
            }
        },
    };
    out(&text)?;
    Ok(Outcome::Clean)
}

/// Of one node and of several.
fn all() -> impl Iterator<Item = &'static Rule> {
    RULES.iter().chain(fleet::rules::RULES.iter().map(|rule| &rule.about))
}

fn list() -> String {
    let mut text = String::from("Rules: what counts as trouble\n\n");
    for r in RULES {
        text.push_str(&row(r.id, r.severity, r.title));
    }
    text.push_str("\nRules over several nodes (nccl-top fleet)\n\n");
    fleet::rules::RULES.iter().map(|r| &r.about).for_each(|r| text.push_str(&row(r.id, r.severity, r.title)));
    let _ = writeln!(text, "\nSignatures: texts that are known, {} of them", catalog::all().count());
    for table in catalog::tables() {
        let _ = writeln!(text, "\n{} ({})\n", clean(table.title), place(table));
        catalog::rows(table).for_each(|s| text.push_str(&row_of(s)));
    }
    text.push_str(
        "\nnccl-top rules ID explains one: what it means, how it is known, what to do; nccl-top rules TEXT lists those that say TEXT;\n\
         nccl-top rules --test FILE shows what the lines of a log are known by.\n",
    );
    text
}

fn row(id: &str, severity: Severity, what: &str) -> String {
    format!("  {id:<26} {:<9} {what}\n", severity.as_str())
}

fn row_of(s: &Signature) -> String {
    let what = s.means.split(". ").next().unwrap_or(s.means).trim_end_matches('.');
    let muted = if s.muted { "(muted) " } else { "" };
    row(s.id, s.severity, &format!("{muted}{}", clip(&clean(what), 110)))
}

/// Where a table comes from.
fn place(table: &Table) -> Cow<'static, str> {
    if table.is_users { clean(table.file) } else { "built in".into() }
}

/// The rules and signatures that say `what` anywhere, or that know it for one of their texts.
fn holding(what: &str) -> Option<String> {
    let part = what.trim().to_lowercase();
    let says = |texts: &[&str]| texts.iter().any(|t| t.to_lowercase().contains(&part));
    if part.is_empty() {
        return None;
    }
    let mut rows: Vec<String> = all().filter(|r| says(&[r.id, r.title, r.how, r.advice])).map(|r| row(r.id, r.severity, r.title)).collect();
    let of_text = [catalog::Scope::Line, catalog::Scope::Nccl].map(|scope| catalog::find(scope, what).map(|s| s.id));
    let known = |s: &Signature| of_text.contains(&Some(s.id));
    let said = catalog::all()
        .filter(|(_, s)| known(s) || says(&[s.id, s.means, s.next]) || s.texts.iter().any(|p| says(&[p.text])) || says(s.examples));
    rows.extend(said.map(|(_, s)| row_of(s)));
    if rows.is_empty() {
        return None;
    }
    let count = if rows.len() == 1 { "1 rule or signature says".into() } else { format!("{} rules and signatures say", rows.len()) };
    Some(format!("{count} {:?}\n\n{}\nnccl-top rules ID explains one.\n", clean(what), rows.concat()))
}

fn explain(r: &Rule) -> String {
    let mut text = format!("{} (rule, {})\n", r.id, r.severity.as_str());
    put(&mut text, "", r.title);
    put(&mut text, "How it is known: ", r.how);
    put(&mut text, "What to do: ", r.advice);
    text.push_str(&settings_of(r));
    let texts: Vec<&str> = catalog::all().filter(|(_, s)| s.rule == r.id).map(|(_, s)| s.id).collect();
    if !texts.is_empty() {
        put(&mut text, "Texts that it knows: ", &texts.join(", "));
    }
    text
}

/// What can be set of a rule in the config, with the values in effect.
fn settings_of(r: &Rule) -> String {
    let mut text = format!("\nIn the config, below [rules.{}]:\n", r.id);
    for limit in r.limits {
        let default = limit.default_text();
        let now = limit.text();
        let default = if now == default { "the default".to_owned() } else { format!("the default is {default}") };
        let _ = writeln!(text, "  {} = {now}{}  ({default}): {}", limit.key, limit.unit(), limit.meaning);
    }
    let _ = writeln!(text, "  severity = {:?}, mute = {}", limit::severity_of(r.id).unwrap_or(r.severity).as_str(), limit::is_muted(r.id));
    text
}

fn explain_text(table: &Table, s: &Signature) -> String {
    let mut text = format!("{} (signature, {}, {})\n", s.id, s.severity.as_str(), s.part.as_str());
    put(&mut text, "", s.means);
    put(&mut text, "What to do: ", s.next);
    put(&mut text, "Where: ", &format!("{}: {}; versions: {}", table.title, s.source, s.versions));
    put(&mut text, "Stands under the rule: ", s.rule);
    put(&mut text, "From: ", &if table.is_users { table.file.to_owned() } else { format!("{}, built in", table.file) });
    if s.muted {
        put(&mut text, "Muted: ", "it is recognised, and never a finding");
    }
    let (alone, quoted) = s.texts.split_at(s.alone);
    text.push_str("\nThe text (* is anything, # digits, {…} is captured):\n");
    for pattern in alone {
        let _ = writeln!(text, "  {}", clean(pattern.text));
    }
    if !quoted.is_empty() {
        text.push_str("\nOnly in lines that are errors for another reason, exceptions among them:\n");
    }
    for pattern in quoted {
        let _ = writeln!(text, "  {}", clean(pattern.text));
    }
    if !s.examples.is_empty() {
        text.push_str("\nFor example:\n");
    }
    for line in s.examples.iter().take(3).flat_map(|example| example.lines()) {
        let _ = writeln!(text, "  {}", clean(line));
    }
    text
}

fn put(text: &mut String, title: &str, what: &str) {
    let what = what.trim_end_matches('.');
    text.push('\n');
    for line in wrap(&clean(&format!("{title}{what}.")), WIDTH) {
        let _ = writeln!(text, "{line}");
    }
}
