//! What the user remarks on findings.

use super::{Effect, Ui};
use crate::base::severity::Severity;
use crate::diagnosis::session::Session;
use crate::observe::Remark;
use crate::rules::findings::Finding;
use crate::tui::panes::findings::{self, all as all_findings, name as finding_name};
use crate::tui::panes::selected_finding;
use std::collections::BTreeSet;

impl Ui {
    /// Takes note of the selected finding, or not.
    pub(in crate::tui) fn acknowledge(&mut self, session: &Session) -> Effect {
        let Some(finding) = self.meant(session) else { return self.ask_for_finding() };
        let name = finding_name(&finding);
        let is_new = !self.acknowledged.remove(&name);
        // It moves below the others: the next key is about it still, and not about who took its place.
        self.lists[crate::tui::view::pane_index(findings::PANE.id)].row = Some(name.clone());
        self.notice = Some(format!("{} is {}", finding.rule, if is_new { "acknowledged" } else { "no longer acknowledged" }));
        if is_new {
            // One at most for each finding that there is; what is gone is forgotten.
            let known: BTreeSet<String> = all_findings(session).into_iter().map(finding_name).collect();
            self.acknowledged.retain(|name| known.contains(name));
            self.acknowledged.insert(name);
        }
        Effect::Note(Remark { rule: finding.rule.to_owned(), subject: Some(finding.subject), job: finding.job, over: !is_new })
    }

    /// Keeps quiet about the rule of the selected finding, or not.
    pub(in crate::tui) fn mute(&mut self, session: &Session) -> Effect {
        let Some(rule) = self.meant(session).map(|finding| finding.rule) else { return self.ask_for_finding() };
        let is_new = !self.muted.remove(rule);
        if is_new {
            self.muted.insert(rule);
        }
        self.notice = Some(match is_new {
            true => format!("{rule} is muted while nccl-top runs; for good: [rules.{rule}] mute = true in the config"),
            false => format!("{rule} is no longer muted"),
        });
        Effect::Note(Remark { rule: rule.to_owned(), subject: None, job: None, over: !is_new })
    }

    /// What a recording has of notes holds as it did when it was made, unless the user changes it here.
    pub fn heed(&mut self, session: &Session) {
        let recorded = &session.model.remarks;
        if *recorded == self.heeded {
            return;
        }
        let changed: Vec<(Remark, bool)> = recorded.symmetric_difference(&self.heeded).map(|r| (r.clone(), recorded.contains(r))).collect();
        for (remark, holds) in changed {
            let Some(rule) = crate::rules::rule(&remark.rule).map(|rule| rule.id) else { continue };
            let Some(subject) = &remark.subject else {
                if holds {
                    self.muted.insert(rule)
                } else {
                    self.muted.remove(rule)
                };
                continue;
            };
            let is_it = |f: &&Finding| f.rule == rule && f.job == remark.job && f.subject == *subject;
            for name in all_findings(session).into_iter().filter(is_it).map(finding_name) {
                if holds {
                    self.acknowledged.insert(name)
                } else {
                    self.acknowledged.remove(&name)
                };
            }
        }
        self.heeded = recorded.clone();
    }

    /// The finding that is selected; where none is, the only one that is open and more than a note.
    fn meant(&self, session: &Session) -> Option<Finding> {
        let only = || {
            let is_shown = |job: &Option<String>| job.is_none() || self.job.is_none() || *job == self.job;
            let mut open = session.ledger.open().into_iter().filter(|f| f.severity >= Severity::Warning && is_shown(&f.job));
            open.next().filter(|_| open.next().is_none()).cloned()
        };
        selected_finding(session, self).or_else(only)
    }

    fn ask_for_finding(&mut self) -> Effect {
        self.notice = Some("no finding is selected; 6 shows them".into());
        Effect::Draw
    }

    /// It needs no attention any more.
    pub fn is_quiet(&self, finding: &Finding) -> bool {
        self.muted.contains(finding.rule) || self.acknowledged.contains(&finding_name(finding))
    }
}
