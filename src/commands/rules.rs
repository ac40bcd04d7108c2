//! `nccl-top rules`: the catalogue.

use super::{Outcome, out};
use crate::rules::{RULES, rule};
use anyhow::Result;

pub fn run(id: Option<&str>) -> Result<Outcome> {
    let text = match id {
        None => RULES.iter().map(|r| format!("{:<20} {:<9} {}\n", r.id, r.severity.as_str(), r.title)).collect(),
        Some(id) => {
            let known = || RULES.iter().map(|r| r.id).collect::<Vec<_>>().join(", ");
            let rule = rule(id).ok_or_else(|| anyhow::anyhow!("no rule {id:?}; there are {}", known()))?;
            format!(
                "{} ({})\n{}.\n\nHow it is known: {}.\n\nWhat to do: {}.\n",
                rule.id,
                rule.severity.as_str(),
                rule.title,
                rule.how,
                rule.advice
            )
        }
    };
    out(&text)?;
    Ok(Outcome::Clean)
}
