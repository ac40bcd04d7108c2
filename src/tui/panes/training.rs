//! Where training stands.

use super::{Pane, or_dash};
use crate::model::log::Progress;
use crate::session::Session;
use crate::time::span;
use crate::tui::{Ui, theme::Theme};
use crate::units::{scaled, seconds};
use ratatui::text::Line;

pub const PANE: Pane = Pane { title: |_| "Training".into(), least: 1, priority: 0, keeps_end: false, lines };

fn lines(session: &Session, _ui: &Ui, theme: &Theme, _width: u16) -> Vec<Line<'static>> {
    let model = &session.model;
    let told: Vec<Line> = model
        .jobs
        .keys()
        .filter_map(|id| Some((id, model.progress_of(id).filter(|p| !p.is_empty())?)))
        .map(|(id, p)| {
            let ago = p.last_step_at.map_or(String::new(), |at| format!("   last step {} ago", span(model.now.since(at))));
            let job = if model.jobs.len() > 1 { format!("job {id}   ") } else { String::new() };
            let rate = p.throughput.map_or(String::new(), |t| format!("   {} {}", scaled(t), p.throughput_unit.unwrap_or("")));
            let text = format!(
                " {job}step {}   loss {}   {}/step{rate}   ETA {}{ago}",
                step(p),
                or_dash(p.loss.map(loss)),
                or_dash(p.step_time_s.map(seconds)),
                or_dash(p.eta().map(span)),
            );
            Line::styled(text, theme.text)
        })
        .collect();
    if told.is_empty() { vec![Line::styled(" no step line seen in any log", theme.dim)] } else { told }
}

fn step(p: &Progress) -> String {
    let step = or_dash(p.step.map(crate::verdict::group));
    p.total_steps.map_or(step.clone(), |total| format!("{step}/{}", crate::verdict::group(total)))
}

fn loss(loss: f64) -> String {
    if !loss.is_finite() {
        return loss.to_string();
    }
    if loss != 0.0 && loss.abs() < 1e-3 { format!("{loss:.2e}") } else { format!("{loss:.4}") }
}

/// The training state in one line.
pub fn sentence(p: &Progress, otherwise: &str) -> String {
    if p.step.is_none() {
        return otherwise.to_owned();
    }
    let mut parts = vec![format!("step {}", step(p))];
    parts.extend(p.step_time_s.map(|s| format!("{}/step", seconds(s))));
    parts.extend(p.loss.map(|l| format!("loss {}", loss(l))));
    parts.extend(p.eta().map(|eta| format!("ETA {}", span(eta))));
    parts.join("  ")
}
