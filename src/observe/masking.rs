//! Takes what is secret out of what was seen, before anything else gets it: model, tape and screen know only what may be shown.

use super::Body;
use super::facts::Reading;
use super::process::ProcessInfo;
use crate::base::mask;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Masks one observation after the other. It remembers what a secret of several lines needs.
#[derive(Debug, Default)]
pub struct Masking {
    /// Logs in the middle of such a secret, by [`super::log::Lines::file`].
    inside: BTreeMap<u32, mask::Lines>,
}

impl Masking {
    /// Numbers, and dumps as they were written, stay as they are.
    pub fn apply(&mut self, body: &mut Body) {
        match body {
            Body::Lines(lines) => {
                let mut masker = self.inside.remove(&lines.file).unwrap_or_default();
                for line in &mut lines.lines {
                    if let Cow::Owned(masked) = masker.line(&line.text) {
                        line.text = masked;
                    }
                }
                if !masker.is_idle() {
                    self.inside.insert(lines.file, masker);
                }
            }
            Body::Kernel { lines, .. } => lines.iter_mut().for_each(|line| hide(&mut line.text)),
            Body::Ras(answer) => {
                hide(&mut answer.reply);
                answer.error.iter_mut().for_each(hide);
            }
            Body::Process(info) => process(info),
            Body::Processes { processes } => {
                let waits = processes.iter_mut().flat_map(|p| p.waits.iter_mut().flatten());
                waits.flat_map(|wait| &mut wait.file).for_each(hide);
            }
            Body::HostFacts(facts) => {
                let texts = facts.looked.values_mut().filter_map(|reading| match reading {
                    Reading::Text(text) | Reading::Unreadable(text) => Some(text),
                    Reading::Absent => None,
                });
                texts.chain(facts.env.values_mut()).for_each(hide);
            }
            Body::LogFile(info) => {
                hide(&mut info.path);
                info.detail.iter_mut().for_each(hide);
            }
            Body::FlightDump(dump) => hide(&mut dump.path),
            Body::Inspector(seen) => hide(&mut seen.path),
            Body::Remark(remark) => remark.subject.iter_mut().for_each(hide),
            Body::Source(report) => report.detail.iter_mut().for_each(hide),
            _ => {}
        }
    }
}

fn process(info: &mut ProcessInfo) {
    info.cmdline = mask::arguments(&info.cmdline);
    for (name, value) in info.env.iter_mut().flatten() {
        *value = mask::variable(name, value);
    }
    let paths = info.logs.iter_mut().map(|log| &mut log.path).chain(info.writes.iter_mut().map(|dir| &mut dir.path));
    let texts = paths.chain(&mut info.cwd).chain(&mut info.cgroup).chain(&mut info.hidden);
    texts.for_each(hide);
}

fn hide(text: &mut String) {
    if let Cow::Owned(masked) = mask::text(text) {
        *text = masked;
    }
}
