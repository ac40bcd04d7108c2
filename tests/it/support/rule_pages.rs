//! A page of documentation for each rule, made from the rules and the catalogue themselves.

use nccl_top::base::limit::Limit;
use nccl_top::logs::catalog::{self, Signature};
use nccl_top::rules::{RULES, Rule};
use std::fmt::Write;

/// Names below `docs/rules`, and what is in them.
pub fn pages() -> Vec<(String, String)> {
    let rules = RULES.iter().map(|rule| (format!("{}.md", rule.id), page(rule)));
    std::iter::once(("README.md".to_owned(), contents())).chain(rules).collect()
}

fn contents() -> String {
    let mut text = String::from(
        "# Rules\n\nEverything that nccl-top can find, one page for each rule. `nccl-top rules ID` prints the same in a terminal, and \
         `nccl-top rules TEXT` looks for a text of a log.\n\n| rule | severity | what it means |\n| --- | --- | --- |\n",
    );
    for rule in RULES {
        let _ = writeln!(text, "| [`{0}`]({0}.md) | {1} | {2} |", rule.id, rule.severity.as_str(), cell(rule.title));
    }
    text
}

fn page(rule: &Rule) -> String {
    let mut text = format!(
        "# {}\n\nSeverity: {}. [All rules](README.md)\n\n{}\n\n## How it is known\n\n{}\n\n## What to do\n\n{}\n\n## Settings\n\n",
        rule.id,
        rule.severity.as_str(),
        sentence(rule.title),
        sentence(rule.how),
        sentence(rule.advice)
    );
    let _ = writeln!(text, "```toml\n[rules.{}]", rule.id);
    for limit in rule.limits {
        text.push_str(&setting(limit));
    }
    let _ = writeln!(text, "severity = {:?}\nmute = false\n```", rule.severity.as_str());
    let mut texts: Vec<&Signature> = catalog::all().map(|(_, s)| s).filter(|s| s.rule == rule.id && !s.texts.is_empty()).collect();
    texts.sort_by_key(|s| s.id);
    if !texts.is_empty() {
        text.push_str(
            "\n## Texts that it knows\n\nIn a text, `*` stands for anything, `#` for digits, and `{…}` for what is taken from the line.\n",
        );
    }
    texts.into_iter().for_each(|s| text.push_str(&known(s)));
    text
}

fn setting(limit: &Limit) -> String {
    format!("{} = {}  # {}\n", limit.key, limit.default_text(), limit.meaning)
}

fn known(s: &Signature) -> String {
    let mut text = format!("\n### {}\n\n```text\n", s.id);
    for pattern in s.texts {
        let _ = writeln!(text, "{}", pattern.text);
    }
    let _ = writeln!(text, "```\n\n{}\n\nNext: {}\n\nPrinted by {} ({}).", sentence(s.means), sentence(s.next), s.source, s.versions);
    text
}

fn sentence(text: &str) -> String {
    // What stands between angle brackets is a placeholder, which a page would take for a tag.
    let text = text.trim_end_matches('.').replace('<', "\\<");
    format!("{text}.")
}

fn cell(text: &str) -> String {
    sentence(text).replace('|', "\\|")
}
