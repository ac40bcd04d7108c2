//! What the user remarks on findings.

use super::Ui;
use crate::diagnosis::session::Session;
use crate::rules::findings::Finding;
use crate::tui::panes::findings::{all as all_findings, name as finding_name};
use crate::tui::panes::selected_finding;
use std::collections::BTreeSet;

impl Ui {
    /// Takes note of the selected finding, or not.
    pub(in crate::tui) fn acknowledge(&mut self, session: &Session) {
        let Some(finding) = selected_finding(session, self) else { return self.ask_for_finding() };
        let name = finding_name(&finding);
        let is_new = !self.acknowledged.remove(&name);
        self.notice = Some(format!("{} is {}", finding.rule, if is_new { "acknowledged" } else { "no longer acknowledged" }));
        if is_new {
            // One at most for each finding that there is; what is gone is forgotten.
            let known: BTreeSet<String> = all_findings(session).into_iter().map(finding_name).collect();
            self.acknowledged.retain(|name| known.contains(name));
            self.acknowledged.insert(name);
        }
    }

    /// Keeps quiet about the rule of the selected finding, or not.
    pub(in crate::tui) fn mute(&mut self, session: &Session) {
        let Some(rule) = selected_finding(session, self).map(|finding| finding.rule) else { return self.ask_for_finding() };
        let is_new = !self.muted.remove(rule);
        if is_new {
            self.muted.insert(rule);
        }
        self.notice = Some(match is_new {
            true => format!("{rule} is muted while nccl-top runs; for good: [rules.{rule}] mute = true in the config"),
            false => format!("{rule} is no longer muted"),
        });
    }

    pub(in crate::tui) fn ask_for_finding(&mut self) {
        self.notice = Some("no finding is selected; 6 shows them".into());
    }

    /// It needs no attention any more.
    pub fn is_quiet(&self, finding: &Finding) -> bool {
        self.muted.contains(finding.rule) || self.acknowledged.contains(&finding_name(finding))
    }
}
