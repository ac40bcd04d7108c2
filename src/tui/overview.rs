//! The overview: verdict on top, then as much of each pane as fits.
//!
//! ```text
//!  nccl-top node-17 · job 2890 · 8 ranks of 8 · NCCL 2.28.9                         10:04:09 ● live
//!  ■ STUCK 14 s  rank 3 (GPU 3, pid 2939) has not joined AllReduce 236; 7 ranks wait
//!    why: AllReduce 229 of 241, still for 12 s · 7 GPUs spin without a byte for 12 s
//!    next: py-spy dump --nonblocking --pid 2939
//!  TRAINING …
//!  GPUS …
//! ```

use super::Ui;
use super::panes::{PANES, Pane};
use super::theme::{Theme, state_mark};
use crate::session::Session;
use crate::time::span;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

/// Below this there is room for one sentence.
const LEAST: (u16, u16) = (40, 10);

pub fn draw(frame: &mut Frame, session: &Session, ui: &Ui, theme: &Theme) {
    let area = frame.area();
    let verdict = verdict_lines(session, theme, usize::from(area.width));
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let style = verdict[0].spans.first().map_or(theme.text, |s| s.style);
        for (y, part) in (0..area.height).zip(wrap(verdict[0].to_string().trim(), usize::from(area.width))) {
            put(frame, area, y, &Line::styled(part, style));
        }
        return;
    }
    put(frame, area, 0, &header(session, ui, theme, area.width));
    let mut y = 1;
    for line in &verdict {
        put(frame, area, y, line);
        y += 1;
    }
    let contents: Vec<(&Pane, Vec<Line<'static>>)> =
        PANES.iter().map(|pane| (pane, (pane.lines)(session, ui, theme, area.width))).collect();
    let wants: Vec<Want> = contents
        .iter()
        .map(|(p, lines)| Want { least: p.least, all: lines.len() as u16, priority: p.priority, takes_rest: p.keeps_end })
        .collect();
    let heights = share(area.height.saturating_sub(y + 1), &wants);
    for ((pane, lines), height) in contents.into_iter().zip(heights) {
        if height == 0 {
            continue;
        }
        put(frame, area, y, &rule(&(pane.title)(session), theme, area.width));
        let room = usize::from(height - 1);
        // The newest log lines are the last ones; of everything else the first matter most.
        let skip = if pane.keeps_end { lines.len().saturating_sub(room + ui.log_back).min(lines.len().saturating_sub(room)) } else { 0 };
        for (i, line) in lines.iter().skip(skip).take(room).enumerate() {
            put(frame, area, y + 1 + i as u16, line);
        }
        y += height;
    }
    put(frame, area, area.height - 1, &Line::styled(" q quit   ↑↓ scroll the log   end newest", theme.dim));
}

/// What a pane asks for, in rows without its title.
struct Want {
    least: u16,
    all: u16,
    priority: u8,
    /// It has more to show than any screen: it grows last.
    takes_rest: bool,
}

/// Heights of the panes, title lines included: the important ones first get their least, then all get what they want, in the same
/// order. A pane that does not get its least gets nothing.
fn share(mut room: u16, wants: &[Want]) -> Vec<u16> {
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|i| wants[*i].priority);
    let mut heights = vec![0; wants.len()];
    for &i in &order {
        let least = wants[i].least.min(wants[i].all) + 1;
        if wants[i].all > 0 && least <= room {
            heights[i] = least;
            room -= least;
        }
    }
    order.sort_by_key(|i| wants[*i].takes_rest);
    for &i in &order {
        if heights[i] > 0 {
            let more = (wants[i].all + 1).saturating_sub(heights[i]).min(room);
            heights[i] += more;
            room -= more;
        }
    }
    heights
}

fn put(frame: &mut Frame, area: Rect, y: u16, line: &Line) {
    if y < area.height {
        frame.buffer_mut().set_line(area.x, area.y + y, line, area.width);
    }
}

fn rule(title: &str, theme: &Theme, width: u16) -> Line<'static> {
    let used = title.width() + 4;
    let dashes = "─".repeat(usize::from(width).saturating_sub(used));
    Line::from(vec![
        Span::styled("─ ", theme.dim),
        Span::styled(title.to_owned(), theme.title),
        Span::styled(format!(" {dashes}"), theme.dim),
    ])
}

fn header(session: &Session, ui: &Ui, theme: &Theme, width: u16) -> Line<'static> {
    let model = &session.model;
    let mut parts = vec![format!("nccl-top {}", model.host)];
    if let Some((id, _)) = session.main_job() {
        parts.push(format!("job {id}"));
        if let Some(job) = model.jobs.get(id).filter(|j| !j.log_only) {
            let alive = job.ranks.values().filter(|pid| model.processes.get(pid).is_some_and(|p| p.is_alive())).count();
            parts.push(match job.world_size {
                Some(world) => format!("{alive} ranks here of {world}"),
                None => format!("{alive} ranks"),
            });
        }
    }
    if let Some(version) = &model.ras.nccl_version {
        parts.push(format!("NCCL {version}"));
    }
    let left = format!(" {}", parts.join(" · "));
    let dropped: u64 = model.files.values().map(|f| f.dropped_lines).sum();
    let dropped = if dropped > 0 { format!("{dropped} lines dropped  ") } else { String::new() };
    let right = format!("{dropped}{} {} ", ui.zone.hms(model.now), ui.mode);
    let room = usize::from(width).saturating_sub(right.width());
    let left = crate::text::clean::clip(&left, room).into_owned();
    let gap = room.saturating_sub(left.width());
    Line::from(vec![Span::styled(left, theme.title), Span::raw(" ".repeat(gap)), Span::styled(right, theme.dim)])
}

/// State, culprit, since, evidence, next step: of every job, the worst first.
fn verdict_lines(session: &Session, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let model = &session.model;
    let mut jobs: Vec<_> = session.verdicts.iter().collect();
    let main = session.main_job().map(|(id, _)| id.to_owned());
    jobs.sort_by_key(|(id, _)| main.as_deref() != Some(id));
    let mut lines = Vec::new();
    for (id, verdict) in jobs.iter().take(3) {
        let for_s = match verdict.state {
            crate::verdict::State::Idle | crate::verdict::State::Training => String::new(),
            _ => format!(" {}", span(model.now.since(verdict.since))),
        };
        let job = if jobs.len() > 1 { format!("job {id}: ") } else { String::new() };
        let mut summary = verdict.summary.clone();
        if verdict.state == crate::verdict::State::Training
            && let Some(progress) = model.progress_of(id)
        {
            summary = super::panes::training::sentence(progress, &summary);
        }
        let head = format!(" {} {}{for_s}  ", state_mark(verdict.state), verdict.state.as_str().to_uppercase());
        lines.push(Line::from(vec![Span::styled(head, theme.state(verdict.state)), Span::styled(format!("{job}{summary}"), theme.text)]));
        let finding = verdict.because.as_ref().and_then(|(rule, subject)| {
            session
                .ledger
                .open()
                .into_iter()
                .find(|f| f.rule == *rule && f.found.subject == *subject && f.found.job.as_deref() == Some(*id))
        });
        if let Some(finding) = finding {
            // Evidence may take a second line; a command is never cut into two.
            for (i, part) in wrap(&finding.found.why, width.saturating_sub(9)).into_iter().take(2).enumerate() {
                lines.push(if i == 0 {
                    labelled("why", &part, theme.text, theme)
                } else {
                    Line::styled(format!("        {part}"), theme.text)
                });
            }
            if let Some(next) = &finding.found.next {
                lines.push(labelled("next", next, theme.accent, theme));
            }
        }
    }
    if lines.is_empty() {
        lines.push(Line::from(vec![Span::styled(" ○ IDLE  ", theme.text), Span::styled("no job on this node yet", theme.dim)]));
    }
    lines
}

/// Cuts a text into lines at spaces.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in crate::text::clean::clean(text).split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn labelled(label: &str, text: &str, style: Style, theme: &Theme) -> Line<'static> {
    let text = crate::text::clean::clean(text).into_owned();
    Line::from(vec![Span::styled(format!("   {label}: "), theme.dim), Span::styled(text, style)])
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn panes_share_the_height_by_importance_and_never_exceed_it() {
        let want = |least, all, priority, takes_rest| super::Want { least, all, priority, takes_rest };
        let wants = [want(1, 1, 0, false), want(2, 8, 1, false), want(1, 30, 3, false), want(3, 500, 2, true)];
        for room in 0..100 {
            let heights = share(room, &wants);
            assert!(heights.iter().sum::<u16>() <= room, "{room}: {heights:?}");
            for (h, w) in heights.iter().zip(&wants) {
                assert!(*h == 0 || *h > w.least.min(w.all), "{room}: {heights:?}");
            }
        }
        assert_eq!(share(100, &wants), [2, 9, 31, 58], "the log takes what the others leave");
        assert_eq!(share(5, &wants), [2, 3, 0, 0]);
    }
}
