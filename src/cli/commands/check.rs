//! `nccl-top check`: judge what was written.

use super::{Env, Outcome, out};
use crate::archive::{self, Verdict};
use crate::base::severity::Severity;
use crate::base::time::{Clock, Zone};
use crate::edge::diagnostics::complain;
use crate::output;
use crate::tui::theme::Depth;
use anyhow::Result;
use std::io::{self, IsTerminal, Write};

pub fn run(env: &Env, json: bool, strict: bool, files: &[String]) -> Result<Outcome> {
    let zone = env.zone(Zone::of_host(Clock::start().now()));
    let mut bar = Bar::new();
    let report = archive::check(files, zone, &mut |done, total| bar.show(done, total));
    bar.clear();
    if json {
        out(&format!("{:#}\n", output::check::json(&report, zone)))?;
    } else {
        let width = terminal_width();
        let style = output::check::text::Style { color: env.depth != Depth::None, ascii: env.config.is_ascii(), width };
        out(&output::check::text::text(&report, zone, &style))?;
    }
    for input in &report.inputs {
        if let Some(why) = &input.error {
            complain(&format!("{}: {why}", input.path));
        }
    }
    let worst = report.findings.iter().map(|f| f.severity).max();
    let bad = if strict { Severity::Warning } else { Severity::Error };
    Ok(if report.verdict == Verdict::Unknown || report.inputs.iter().any(|i| i.error.is_some()) {
        Outcome::CannotJudge
    } else if worst >= Some(bad) {
        Outcome::Findings
    } else {
        Outcome::Clean
    })
}

/// Columns of the terminal on standard output; 100 if it is none.
pub(super) fn terminal_width() -> usize {
    if !io::stdout().is_terminal() {
        return 100;
    }
    crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns)).clamp(40, 160)
}

/// A line on standard error that says how far reading is, where it takes longer than anybody likes to wait for.
struct Bar {
    started: std::time::Instant,
    shown: Option<std::time::Instant>,
    is_terminal: bool,
}

impl Bar {
    const AFTER: std::time::Duration = std::time::Duration::from_millis(500);
    const EVERY: std::time::Duration = std::time::Duration::from_millis(100);

    fn new() -> Bar {
        Bar { started: std::time::Instant::now(), shown: None, is_terminal: io::stderr().is_terminal() }
    }

    fn show(&mut self, done: u64, total: Option<u64>) {
        if !self.is_terminal || self.started.elapsed() < Self::AFTER || self.shown.is_some_and(|at| at.elapsed() < Self::EVERY) {
            return;
        }
        self.shown = Some(std::time::Instant::now());
        let mib = |bytes: u64| bytes >> 20;
        let text = match total.filter(|t| *t > 0) {
            Some(total) => {
                let filled = (done.min(total) * 30 / total) as usize;
                format!("[{}{}] {} of {} MiB", "#".repeat(filled), ".".repeat(30 - filled), mib(done), mib(total))
            }
            None => format!("{} MiB", mib(done)),
        };
        let _ = write!(io::stderr(), "\rreading {text}\x1b[K");
        let _ = io::stderr().flush();
    }

    fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
            let _ = io::stderr().flush();
        }
    }
}
