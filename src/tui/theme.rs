//! Named styles; drawing code names what a thing means, never a colour. Themes are files: some come with the program, others are the
//! user's. A theme paints the background that its colours are made for, and `tests/it/themes.rs` computes the contrast of each with it.

use crate::base::file::read_text;
use crate::base::severity::Severity;
use crate::diagnosis::verdict::State;
use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;
use std::path::Path;

/// What things on the screen mean, each with its look: of a file, or fit for a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Roles<S> {
    /// Its background is that of the whole screen.
    pub text: S,
    pub dim: S,
    pub title: S,
    pub border: S,
    /// Frame and title of the pane that keys go to.
    pub focus: S,
    pub good: S,
    pub look: S,
    pub act: S,
    /// What can be used: a command, a key.
    pub accent: S,
    /// The row that keys go to; laid over the others.
    pub selected: S,
    /// The row of whom the verdict names; laid over the others, which keep their colours.
    pub culprit: S,
    /// The same where it is a warning: who is slow, and has not failed. A theme without it has that of `culprit`.
    pub suspect: S,
    /// A match of the search; laid over the others.
    pub found: S,
    /// A graph at its foot, a meter at its left.
    pub chart: S,
    /// What `chart` becomes at the top of a graph and at the right end of a meter; a theme without it has that of `text`.
    pub peak: S,
    /// The second line of a chart.
    pub chart2: S,
}

/// What drawing code takes its styles from.
pub type Theme = Roles<Style>;

/// The themes that come with the program; the first is the default.
pub const THEMES: &[(&str, &str)] = &[
    ("colorblind", include_str!("../../assets/themes/colorblind.toml")),
    ("dark", include_str!("../../assets/themes/dark.toml")),
    ("light", include_str!("../../assets/themes/light.toml")),
    ("high-contrast", include_str!("../../assets/themes/high-contrast.toml")),
    ("nord", include_str!("../../assets/themes/nord.toml")),
    ("gruvbox", include_str!("../../assets/themes/gruvbox.toml")),
    ("catppuccin", include_str!("../../assets/themes/catppuccin.toml")),
    ("mono", include_str!("../../assets/themes/mono.toml")),
];

/// The names of [`THEMES`], for messages and help.
pub fn names() -> String {
    THEMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

const MAX_FILE_BYTES: u64 = 64 << 10;

/// What a terminal can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    #[default]
    None,
    Sixteen,
    Indexed,
    True,
}

impl Depth {
    /// As terminals say it: COLORTERM, then TERM.
    pub fn of_terminal(var: &dyn Fn(&str) -> Option<String>) -> Depth {
        let term = var("TERM").unwrap_or_default();
        match var("COLORTERM").unwrap_or_default().as_str() {
            "truecolor" | "24bit" => Depth::True,
            _ if term.contains("direct") => Depth::True,
            _ if term.contains("256") || term.contains("kitty") || term.contains("alacritty") || term.contains("ghostty") => Depth::Indexed,
            _ if term == "dumb" => Depth::None,
            _ => Depth::Sixteen,
        }
    }
}

/// A look as the file writes it.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Role {
    fg: Option<Hue>,
    bg: Option<Hue>,
    /// Where the nearest of 256 colours is that of another role.
    bg256: Option<Hue>,
    fg16: Option<Hue>,
    bg16: Option<Hue>,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    reverse: bool,
    /// In sixteen colours it is inverted instead of having a background: all its foregrounds stay as readable as they are.
    reverse16: bool,
}

/// A colour as the file writes it.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "toml::Value")]
struct Hue(Color);

const NAMES: [&str; 8] = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

impl TryFrom<toml::Value> for Hue {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Hue, String> {
        let wrong = || format!("found {value}, expected \"#rrggbb\", a number from 0 to 255 or a name such as \"red\" or \"bright-red\"");
        match &value {
            toml::Value::Integer(n) => u8::try_from(*n).map(|n| Hue(Color::Indexed(n))).map_err(|_| wrong()),
            toml::Value::String(text) => {
                if let Some(hex) = text.strip_prefix('#').filter(|h| h.len() == 6 && h.bytes().all(|b| b.is_ascii_hexdigit())) {
                    let n = u32::from_str_radix(hex, 16).map_err(|_| wrong())?;
                    return Ok(Hue(Color::Rgb((n >> 16) as u8, (n >> 8) as u8, n as u8)));
                }
                let (name, bright) = text.strip_prefix("bright-").map_or((text.as_str(), 0), |n| (n, 8));
                let index = NAMES.iter().position(|n| *n == name).ok_or_else(wrong)?;
                Ok(Hue(sixteen(index as u8 + bright)))
            }
            _ => Err(wrong()),
        }
    }
}

/// The colours that each terminal has, in the order of their numbers.
pub const SIXTEEN: [Color; 16] = [
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];

/// One of the sixteen colours, which every terminal has and its user has chosen.
fn sixteen(index: u8) -> Color {
    SIXTEEN[usize::from(index) % 16]
}

/// Red, green and blue of the 256 colours, as xterm has them.
pub fn rgb_of(index: u8) -> (u8, u8, u8) {
    const FIRST: [(u8, u8, u8); 16] = [
        (0, 0, 0),
        (205, 0, 0),
        (0, 205, 0),
        (205, 205, 0),
        (0, 0, 238),
        (205, 0, 205),
        (0, 205, 205),
        (229, 229, 229),
        (127, 127, 127),
        (255, 0, 0),
        (0, 255, 0),
        (255, 255, 0),
        (92, 92, 255),
        (255, 0, 255),
        (0, 255, 255),
        (255, 255, 255),
    ];
    match index {
        0..=15 => FIRST[usize::from(index)],
        16..=231 => {
            let level = |n: u8| if n == 0 { 0 } else { 55 + n * 40 };
            let n = index - 16;
            (level(n / 36), level(n / 6 % 6), level(n % 6))
        }
        _ => {
            let grey = 8 + (index - 232) * 10;
            (grey, grey, grey)
        }
    }
}

/// How different two colours look.
fn apart(one: (u8, u8, u8), other: (u8, u8, u8)) -> u32 {
    let apart = |a: u8, b: u8| i32::from(a).abs_diff(i32::from(b)).pow(2);
    apart(one.0, other.0) * 3 + apart(one.1, other.1) * 4 + apart(one.2, other.2) * 2
}

fn nearest_of_16(color: (u8, u8, u8)) -> u8 {
    (0..=15).min_by_key(|i| apart(rgb_of(*i), color)).unwrap_or(7)
}

/// The same among the 240 that are alike on all terminals, by their order: it is asked for cell by cell.
fn nearest_of_240(color: (u8, u8, u8)) -> u8 {
    let (r, g, b) = color;
    // The levels of a channel are 0, 95, 135, 175, 215 and 255.
    let level = |channel: u8| match channel {
        0..48 => 0,
        48..115 => 1,
        _ => (channel - 35) / 40,
    };
    let cube = 16 + 36 * level(r) + 6 * level(g) + level(b);
    let mean = (u32::from(r) * 3 + u32::from(g) * 4 + u32::from(b) * 2) / 9;
    let grey = 232 + (mean.saturating_sub(3) / 10).min(23) as u8;
    let distance = |i: u8| apart(rgb_of(i), color);
    if distance(grey) < distance(cube) { grey } else { cube }
}

/// What a terminal of this depth shows for a colour.
pub fn fit(color: Color, depth: Depth) -> Option<Color> {
    match (color, depth) {
        (_, Depth::None) => None,
        (Color::Rgb(r, g, b), Depth::Indexed) => Some(Color::Indexed(nearest_of_240((r, g, b)))),
        (Color::Rgb(r, g, b), Depth::Sixteen) => Some(sixteen(nearest_of_16((r, g, b)))),
        (Color::Indexed(i), Depth::Sixteen) => Some(sixteen(nearest_of_16(rgb_of(i)))),
        (other, _) => Some(other),
    }
}

impl Role {
    fn style(&self, depth: Depth) -> Style {
        let pick = |wide: Option<Hue>, indexed: Option<Hue>, sixteen: Option<Hue>| {
            let own = match depth {
                Depth::Sixteen => sixteen,
                Depth::Indexed => indexed,
                _ => None,
            };
            own.or(wide).and_then(|h| fit(h.0, depth))
        };
        let inverted = self.reverse16 && depth == Depth::Sixteen;
        let mut style = Style::new();
        style.fg = pick(self.fg, None, self.fg16);
        style.bg = pick(self.bg, self.bg256, self.bg16).filter(|_| !inverted);
        let modifiers = [
            (self.bold, Modifier::BOLD),
            (self.dim, Modifier::DIM),
            (self.italic, Modifier::ITALIC),
            (self.underline, Modifier::UNDERLINED),
            (self.reverse || inverted, Modifier::REVERSED),
        ];
        modifiers.into_iter().filter(|(on, _)| *on).fold(style, |s, (_, m)| s.add_modifier(m))
    }
}

impl Theme {
    /// A theme of this program by name, or a file.
    ///
    /// # Errors
    /// Names the file, the line, what was found and what is expected.
    pub fn load(name: &str, depth: Depth) -> Result<Theme, String> {
        if let Some((_, text)) = THEMES.iter().find(|(n, _)| *n == name) {
            return Theme::parse(text, name, depth);
        }
        if !name.contains('/') && !name.ends_with(".toml") {
            return Err(format!("no theme {name:?}, expected one of {}, or the path of a file", names()));
        }
        let text = read_text(Path::new(name), MAX_FILE_BYTES).map_err(|why| format!("{name}: {why}"))?;
        Theme::parse(&text, name, depth)
    }

    pub fn parse(text: &str, name: &str, depth: Depth) -> Result<Theme, String> {
        let file: Roles<Role> = toml::from_str(text).map_err(|err| {
            let line = err.span().map_or(1, |s| text[..s.start.min(text.len())].matches('\n').count() + 1);
            format!("{name}:{line}: {}", err.message())
        })?;
        // Without colour the roles of a coloured theme would all look alike.
        if depth == Depth::None && name != "mono" {
            return Ok(Theme::mono());
        }
        let of = |role: &Role| role.style(depth);
        Ok(Theme {
            text: of(&file.text),
            dim: of(&file.dim),
            title: of(&file.title),
            border: of(&file.border),
            focus: of(&file.focus),
            good: of(&file.good),
            look: of(&file.look),
            act: of(&file.act),
            accent: of(&file.accent),
            selected: of(&file.selected),
            culprit: of(&file.culprit),
            suspect: if of(&file.suspect) == Style::new() { of(&file.culprit) } else { of(&file.suspect) },
            found: of(&file.found),
            chart: of(&file.chart),
            peak: of(&file.peak),
            chart2: of(&file.chart2),
        })
    }

    /// The theme without colour.
    pub fn mono() -> Theme {
        Theme::load("mono", Depth::None).unwrap_or_default()
    }

    pub fn severity(&self, severity: Severity) -> Style {
        match severity {
            Severity::Info => self.dim,
            Severity::Warning => self.look,
            Severity::Error | Severity::Critical => self.act,
        }
    }

    /// What a cell becomes in the row of whom the verdict names: what says how something stands keeps its colour.
    pub fn blamed(&self, cell: Style, bad: Severity) -> Style {
        let row = if bad > Severity::Warning { self.culprit } else { self.suspect };
        let plain = [self.text, self.dim].into_iter().any(|role| alike(cell, self.text.patch(role)));
        if plain { self.text.patch(row) } else { cell.patch(Style { fg: None, ..row }) }
    }

    /// What a cell becomes in the row that keys go to: what says how something stands keeps its colour. Where it is reversed itself, as the
    /// row is, it is underlined, so that the row stays one band.
    pub fn selected(&self, cell: Style) -> Style {
        let states = [self.act, self.look, self.good].map(|role| self.text.patch(role));
        let blamed = |state: &Style| [Severity::Warning, Severity::Error].into_iter().any(|bad| alike(cell, self.blamed(*state, bad)));
        let is = |state: &Style| !alike(*state, self.text) && (alike(cell, *state) || blamed(state));
        let Some(state) = states.into_iter().find(is) else { return self.text.patch(self.selected) };
        let both = state.add_modifier & self.selected.add_modifier & Modifier::REVERSED;
        let line = if both.is_empty() { Modifier::empty() } else { Modifier::UNDERLINED };
        state.patch(self.selected).add_modifier(line)
    }

    /// `chart` at so much of the height of a graph or the length of a meter, 0 to 1. Terminals of sixteen colours have no steps between two.
    pub fn graded(&self, share: f32) -> Style {
        let peak = if self.peak.fg.is_some() { self.peak } else { self.text };
        between(self.chart, peak, share)
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

/// Steps between two colours: more are not seen, and each change of colour has to be sent.
pub const STEPS: u8 = 16;

/// The first look, with its colour on the way to that of the second.
pub fn between(from: Style, to: Style, share: f32) -> Style {
    let channels = |style: Style| match style.fg? {
        Color::Rgb(r, g, b) => Some((r, g, b)),
        Color::Indexed(i) => Some(rgb_of(i)),
        _ => None,
    };
    let (Some(low), Some(high)) = (channels(from), channels(to)) else { return from };
    let share = (share.clamp(0.0, 1.0) * f32::from(STEPS)).round() / f32::from(STEPS);
    let part = |a: u8, b: u8| (f32::from(a) * (1.0 - share) + f32::from(b) * share).round() as u8;
    let mixed = (part(low.0, high.0), part(low.1, high.1), part(low.2, high.2));
    from.fg(match from.fg {
        Some(Color::Indexed(_)) => Color::Indexed(nearest_of_240(mixed)),
        _ => Color::Rgb(mixed.0, mixed.1, mixed.2),
    })
}

/// Whether two looks are the same on the screen.
fn alike(one: Style, other: Style) -> bool {
    let shown = |style: Style| (style.fg.unwrap_or_default(), style.bg.unwrap_or_default(), style.add_modifier);
    shown(one) == shown(other)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_colour_is_found_without_looking_at_all() {
        for (r, g, b) in (0..=255u8)
            .step_by(15)
            .flat_map(|r| (0..=255u8).step_by(15).map(move |g| (r, g)))
            .flat_map(|(r, g)| (0..=255u8).step_by(17).map(move |b| (r, g, b)))
        {
            let least = (16..=255).map(|i| apart(rgb_of(i), (r, g, b))).min().unwrap_or(0);
            assert_eq!(apart(rgb_of(nearest_of_240((r, g, b))), (r, g, b)), least, "{r} {g} {b}");
        }
    }
}
