//! One culprit from many witnesses: what nodes report of the same one is one finding, the surer the more of them report it.

use super::Finding;
use crate::base::severity::Confidence;
use crate::base::units::counted;
use crate::base::words::{agree, gpu_words, rank_words};
use crate::fleet::model::{Fleet, Report};
use crate::observe::evidence::Evidence;
use crate::rules;
use std::collections::BTreeMap;

/// Names of witnesses that stand in the evidence.
const NAMED: usize = 4;

/// Reports of the same rule about the same node and job, as one finding each.
pub fn join(fleet: &Fleet) -> Vec<Finding> {
    let mut same: BTreeMap<_, Vec<&Report>> = BTreeMap::new();
    for report in &fleet.reports {
        // What blames nobody is one thing for all nodes of the job.
        let blames = report.rank.is_some() || report.gpu.is_some() || report.port.is_some() || report.node != report.from;
        let whom = (blames || report.job.is_none()).then_some(&report.node);
        same.entry((&report.job, &report.rule, report.role, whom)).or_default().push(report);
    }
    same.into_iter().map(|((_, _, _, node), reports)| finding(fleet, node, &reports)).collect()
}

fn finding(fleet: &Fleet, node: Option<&String>, reports: &[&Report]) -> Finding {
    let first = reports[0];
    let mut found = Finding {
        rule: first.rule.clone(),
        severity: reports.iter().map(|r| r.severity).max().unwrap_or(first.severity),
        role: first.role,
        ..Finding::new(&rules::Rule::PLAIN, first.job.as_deref(), "")
    };
    found.ranks = sorted(reports.iter().filter_map(|r| r.rank));
    found.gpus = sorted(reports.iter().filter_map(|r| r.gpu));
    found.ports = sorted(reports.iter().filter_map(|r| r.port.clone()));
    found.witnesses = sorted(reports.iter().map(|r| r.from.clone()));
    found.nodes = node.into_iter().cloned().collect();
    let open_for = reports.iter().map(|r| r.open_for).max().unwrap_or_default();
    found.since = Some(fleet.at.minus(open_for));
    let others = found.witnesses.iter().filter(|from| Some(*from) != node).count();
    found.confidence = if others >= 2 || others == 0 { Confidence::Certain } else { Confidence::Likely };
    found.summary = sentence(&found);
    found.next = node.map(|node| open_command(fleet, node));
    let named = found.witnesses.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = found.witnesses.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    found.evidence.push(Evidence::of(
        "node",
        format!(
            "{} {}: {named}{more}",
            counted(found.witnesses.len() as u64, "node"),
            if found.witnesses.len() == 1 { "reports it" } else { "report it" }
        ),
    ));
    if node.and_then(|node| fleet.nodes.get(node)).is_some_and(|node| !node.answers) {
        found.evidence.push(Evidence::of("node", "the node itself does not answer"));
    }
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
    found
}

/// Who, and what is said of it, as near to the words of its own node as the rule's own words come.
fn sentence(found: &Finding) -> String {
    let Some(known) = rules::rule(&found.rule) else { return format!("{}: {}", whom(found), found.rule) };
    let named = [found.ranks.len(), found.gpus.len(), found.ports.len()].into_iter().find(|n| *n > 0);
    match named {
        Some(n) if !known.says.is_empty() => format!("{} {}", whom(found), agree(known.says, n)),
        None if found.nodes.is_empty() => known.title.to_owned(),
        _ => format!("{}: {}", whom(found), known.title),
    }
}

/// `rank 267 (GPU 3) on node0417`
pub fn whom(found: &Finding) -> String {
    let ranks = (!found.ranks.is_empty()).then(|| rank_words(&found.ranks));
    let gpus = (!found.gpus.is_empty()).then(|| gpu_words(&found.gpus));
    let ports = (!found.ports.is_empty()).then(|| found.ports.join(", "));
    let who = match (ranks, gpus, ports) {
        (Some(ranks), Some(gpus), _) => format!("{ranks} ({gpus})"),
        (Some(ranks), None, _) => ranks,
        (None, Some(gpus), _) => gpus,
        (None, None, Some(ports)) => ports,
        (None, None, None) => return found.nodes.first().map_or_else(|| "the job".to_owned(), Clone::clone),
    };
    found.nodes.first().map_or(who.clone(), |node| format!("{who} on {node}"))
}

/// The command that opens a node's own screen.
pub fn open_command(fleet: &Fleet, node: &str) -> String {
    use crate::base::words::shell_word;
    match fleet.nodes.get(node).and_then(|node| node.pod.as_ref()) {
        Some(pod) => {
            let part = |flag: &str, word: &str| if word.is_empty() { String::new() } else { format!(" {flag} {}", shell_word(word)) };
            format!("kubectl exec -it{} {}{} -- nccl-top", part("-n", &pod.namespace), shell_word(&pod.name), part("-c", &pod.container))
        }
        // A name that begins with a dash would be an option.
        None => format!("ssh -t -- {} nccl-top", shell_word(crate::fleet::model::host(node))),
    }
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.collect();
    all.sort();
    all.dedup();
    all
}
