//! Themes can be read: the contrast of all that is drawn is computed, by WCAG 2.1, at each depth of colour. And graphs are drawn with the
//! characters that were asked for.

use crate::support::worlds;
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::tui::choices::Ui;
use nccl_top::tui::panes::PANES;
use nccl_top::tui::plain::{Graphs, redraw_graphs};
use nccl_top::tui::theme::{Depth, SIXTEEN, THEMES, Theme, rgb_of};
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use std::collections::BTreeMap;

type Rgb = (u8, u8, u8);

const DEPTHS: [Depth; 3] = [Depth::True, Depth::Indexed, Depth::Sixteen];
/// What WCAG asks for at level AA: of text, and of what is no text.
const TEXT: f64 = 4.5;
const GRAPHICS: f64 = 3.0;

/// As xterm shows it; `None` is the terminal's own colour, of which nothing is known.
fn rgb(color: Color) -> Option<Rgb> {
    match color {
        Color::Rgb(r, g, b) => Some((r, g, b)),
        Color::Indexed(i) => Some(rgb_of(i)),
        other => SIXTEEN.iter().position(|c| *c == other).map(|i| rgb_of(i as u8)),
    }
}

fn linear((r, g, b): Rgb) -> [f64; 3] {
    [r, g, b].map(|v| {
        let v = f64::from(v) / 255.0;
        if v <= 0.04045 { v / 12.92 } else { ((v + 0.055) / 1.055).powf(2.4) }
    })
}

fn luminance(color: Rgb) -> f64 {
    let [r, g, b] = linear(color);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn coloured() -> impl Iterator<Item = (&'static str, Depth, Theme)> {
    let names = THEMES.iter().map(|(name, _)| *name).filter(|name| *name != "mono");
    names.flat_map(|name| DEPTHS.map(|depth| (name, depth, Theme::load(name, depth).unwrap())))
}

fn draw(session: &Session, theme: &Theme, zoom: Option<usize>) -> Buffer {
    let size = (120, 40);
    let mut ui = Ui::new(Zone::UTC);
    (ui.size, ui.zoom, ui.focus) = (size, zoom, zoom.unwrap_or(ui.focus));
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    view::draw(&mut buf, session, &ui, theme);
    buf
}

fn is_graphic(c: char) -> bool {
    matches!(c, '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}')
}

#[test]
fn whatever_is_drawn_can_be_read_in_every_theme() {
    let worlds = [worlds::healthy(), worlds::hang(), worlds::straggler(), worlds::p5(), worlds::two_jobs(), worlds::absent()];
    let mut weak = Vec::new();
    for (name, depth, theme) in coloured() {
        // Which pair is first seen where.
        let mut pairs: BTreeMap<(String, bool), String> = BTreeMap::new();
        for session in &worlds {
            for zoom in (0..PANES.len()).map(Some).chain([None]) {
                let buf = draw(session, &theme, zoom);
                for (i, cell) in buf.content().iter().enumerate() {
                    assert!(rgb(cell.bg).is_some(), "{name}: the cell {:?} of pane {zoom:?} is not painted", buf.pos_of(i));
                    let c = cell.symbol().chars().next().unwrap_or(' ');
                    if c == ' ' {
                        continue;
                    }
                    let least = if is_graphic(c) { GRAPHICS } else { TEXT };
                    let seen = contrast(rgb(cell.fg).unwrap(), rgb(cell.bg).unwrap());
                    if seen < least {
                        pairs
                            .entry((format!("{:?} on {:?}: {seen:.2}", cell.fg, cell.bg), is_graphic(c)))
                            .or_insert(format!("{c:?} of {zoom:?}"));
                    }
                }
            }
        }
        weak.extend(pairs.into_iter().map(|((pair, graphic), place)| format!("{name} at {depth:?}: {pair}, graphic {graphic}, {place}")));
    }
    assert!(weak.is_empty(), "{weak:#?}");
}

/// A state keeps its colour on the selected row and on that of the culprit, too.
#[test]
fn every_role_can_be_read_on_the_screen_and_on_the_selected_row() {
    for (name, depth, theme) in coloured() {
        let of = |style: Style| {
            let (fg, bg) = (rgb(style.fg.unwrap()).unwrap(), rgb(style.bg.unwrap()).unwrap());
            // Inverted, the contrast is the same.
            contrast(fg, bg)
        };
        let roles = [
            ("text", theme.text),
            ("dim", theme.dim),
            ("title", theme.title),
            ("focus", theme.focus),
            ("good", theme.good),
            ("look", theme.look),
            ("act", theme.act),
            ("accent", theme.accent),
        ];
        for (role, style) in &roles {
            for (place, seen) in
                [("screen", of(theme.text.patch(*style))), ("selected row", of(theme.text.patch(theme.selected).patch(*style)))]
            {
                assert!(seen >= TEXT, "{name} at {depth:?}: {role} on the {place}: {seen:.2}");
            }
        }
        for (role, style) in [("found", theme.found), ("culprit", theme.culprit), ("suspect", theme.suspect)] {
            assert!(of(theme.text.patch(style)) >= TEXT, "{name} at {depth:?}: {role}");
        }
        for (row, laid) in [("culprit", theme.culprit), ("suspect", theme.suspect)] {
            for (role, style) in &roles[4..] {
                let seen = of(theme.text.patch(laid).patch(Style { bg: None, ..*style }));
                assert!(seen >= TEXT, "{name} at {depth:?}: {role} in the row of the {row}: {seen:.2}");
            }
        }
        for (role, style) in [("border", theme.border), ("chart", theme.chart), ("chart2", theme.chart2)] {
            let seen = of(theme.text.patch(style));
            assert!(seen >= GRAPHICS, "{name} at {depth:?}: {role}: {seen:.2}");
        }
        let marked = theme.selected.bg.is_some() || theme.selected.add_modifier.contains(Modifier::REVERSED);
        assert!(marked, "{name} at {depth:?}: the selected row is marked over its whole width");
    }
    assert!(contrast(rgb_of(15), rgb_of(0)) > 20.9, "white on black is 21:1");
    assert!((contrast((0x77, 0x77, 0x77), (0xff, 0xff, 0xff)) - 4.48).abs() < 0.01, "#777 on white is the known pair that just fails");
}

/// How red-blind, green-blind and blue-blind eyes see linear red, green and blue (Machado, Oliveira and Fernandes, 2009, severity 1).
const EYES: [(&str, [[f64; 3]; 3]); 3] = [
    ("red-blind", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    ("green-blind", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    ("blue-blind", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
];

/// CIELAB of linear red, green and blue.
fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
    let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.95047);
    let y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
    let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.08883);
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

#[test]
fn the_default_tells_states_apart_for_every_kind_of_colour_vision() {
    let theme = Theme::load(THEMES[0].0, Depth::True).unwrap();
    let states = [("text", theme.text), ("good", theme.good), ("look", theme.look), ("act", theme.act)];
    for (eyes, matrix) in EYES {
        let seen = |style: Style| {
            let color = linear(rgb(style.fg.unwrap()).unwrap());
            lab(matrix.map(|row| row.iter().zip(color).map(|(a, b)| a * b).sum::<f64>().clamp(0.0, 1.0)))
        };
        for (i, (a, first)) in states.iter().enumerate() {
            for (b, second) in &states[i + 1..] {
                let apart = seen(*first).iter().zip(seen(*second)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                // Two that differ by 2.3 can just be told apart side by side.
                assert!(apart >= 30.0, "{a} and {b} are {apart:.0} apart for {eyes} eyes");
            }
        }
    }
}

#[test]
fn each_theme_is_named_where_themes_are_chosen() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_nccl-top")).arg("--help").output().unwrap().stdout;
    let help = String::from_utf8(help).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let docs = include_str!("../../docs/SCREEN.md");
    for (name, text) in THEMES {
        assert!(docs.contains(&format!("`{name}`")), "docs/SCREEN.md does not name {name}");
        assert_eq!(std::fs::read_to_string(format!("{}/assets/themes/{name}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap(), *text);
    }
    assert!(help.contains(&format!("{} or a file", nccl_top::tui::theme::names())), "{help}");
}

#[test]
fn graphs_are_drawn_with_what_the_font_has() {
    let drawn = |graphs| {
        let mut buf = Buffer::with_lines(["⠀⡀⠁⢸⣿⣀⠒ ▁▄▇ │ a"]);
        redraw_graphs(&mut buf, graphs);
        buf.content().iter().map(|cell| cell.symbol()).collect::<String>()
    };
    assert_eq!(drawn(Graphs::Braille), "⠀⡀⠁⢸⣿⣀⠒ ▁▄▇ │ a");
    assert_eq!(drawn(Graphs::Block), " ▖▘▐█▄▀ ▁▄▇ │ a");
    assert_eq!(drawn(Graphs::Ascii), " ..-#.. _:= │ a");
}
