//! What a user sets of rules in the tables `[rules.ID]` of the config.

use super::Rule;
use crate::base::limit::Settings;
use crate::base::severity::Severity;
use std::collections::BTreeMap;

/// Finds a rule by its id: among those of a node, or of a fleet, too.
pub type Find = fn(&str) -> Option<&'static Rule>;

/// One line of a table `[rules.ID]`: `after = "15s"`, `severity = "info"`, `mute = true`.
///
/// # Errors
/// What was found and what is expected.
pub fn set(settings: &mut Settings, find: Find, rule: &str, key: &str, value: &str) -> Result<(), String> {
    let known = find(rule).ok_or_else(|| format!("there is no rule {rule:?}; `nccl-top rules` lists them"))?;
    let limit = || known.limits.iter().find(|l| l.key == key);
    match key {
        "mute" => {
            let mute: bool = value.parse().map_err(|_| format!("mute: found {value:?}, expected true or false"))?;
            if mute {
                settings.muted.insert(rule.to_owned())
            } else {
                settings.muted.remove(rule)
            };
        }
        "severity" => {
            let severity = Severity::parse(value)
                .ok_or_else(|| format!("severity: found {value:?}, expected \"info\", \"warning\", \"error\" or \"critical\""))?;
            settings.severities.insert(rule.to_owned(), severity);
        }
        _ => {
            let limit = limit().ok_or_else(|| {
                let keys = known.limits.iter().map(|l| l.key).chain(["severity", "mute"]).collect::<Vec<_>>().join(", ");
                format!("{key}: the rule has no such setting, expected one of {keys}")
            })?;
            settings.limits.insert((rule.to_owned(), key.to_owned()), limit.parse(value).map_err(|why| format!("{key}: {why}"))?);
        }
    }
    Ok(())
}

/// As tables of the config.
pub fn toml(settings: &Settings, find: Find) -> String {
    let mut tables: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (rule, key) in settings.limits.keys() {
        let limit = find(rule).and_then(|r| r.limits.iter().find(|l| l.key == key));
        let value = limit.map(|l| l.words(settings.limits[&(rule.clone(), key.clone())])).unwrap_or_default();
        tables.entry(rule).or_default().push(format!("{key} = {value}"));
    }
    for (rule, severity) in &settings.severities {
        tables.entry(rule).or_default().push(format!("severity = {:?}", severity.as_str()));
    }
    for rule in &settings.muted {
        tables.entry(rule).or_default().push("mute = true".to_owned());
    }
    tables.iter().map(|(rule, lines)| format!("\n[rules.{rule}]\n{}\n", lines.join("\n"))).collect()
}
