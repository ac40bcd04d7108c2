//! Named styles; drawing code names what a thing means, never a colour.

use crate::findings::Severity;
use crate::verdict::State;
use ratatui::style::{Color, Modifier, Style};

#[derive(Clone, Copy, Debug)]
pub struct Theme {
    pub text: Style,
    pub dim: Style,
    pub title: Style,
    pub good: Style,
    pub look: Style,
    pub act: Style,
    pub accent: Style,
}

impl Theme {
    /// Blue, amber and vermilion differ for all kinds of colour vision; without colour, weight carries the meaning.
    pub fn new(color: bool) -> Theme {
        let plain = Style::new();
        if !color {
            let bold = plain.add_modifier(Modifier::BOLD);
            return Theme {
                text: plain,
                dim: plain,
                title: bold,
                good: plain,
                look: bold,
                act: plain.add_modifier(Modifier::REVERSED),
                accent: plain.add_modifier(Modifier::UNDERLINED),
            };
        }
        Theme {
            text: plain,
            dim: plain.fg(Color::Indexed(245)),
            title: plain.add_modifier(Modifier::BOLD),
            good: plain.fg(Color::Indexed(74)),
            look: plain.fg(Color::Indexed(214)),
            act: plain.fg(Color::Indexed(203)).add_modifier(Modifier::BOLD),
            accent: plain.fg(Color::Indexed(75)),
        }
    }

    pub fn severity(&self, severity: Severity) -> Style {
        match severity {
            Severity::Info => self.dim,
            Severity::Warning => self.look,
            Severity::Error | Severity::Critical => self.act,
        }
    }

    pub fn state(&self, state: State) -> Style {
        match state {
            State::Training | State::Finished => self.good,
            State::Idle | State::Unknown | State::Starting | State::Paused => self.text,
            State::Slow => self.look,
            State::Stuck | State::Failed => self.act,
        }
    }
}

/// The shape that says the same as the colour.
pub fn state_mark(state: State) -> &'static str {
    match state {
        State::Training | State::Finished => "●",
        State::Idle | State::Unknown => "○",
        State::Starting | State::Paused => "◐",
        State::Slow => "▲",
        State::Stuck | State::Failed => "■",
    }
}

pub fn severity_mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "·",
        Severity::Warning => "▲",
        Severity::Error | Severity::Critical => "■",
    }
}
