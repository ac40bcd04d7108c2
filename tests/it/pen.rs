//! What is sent to the terminal: a terminal that takes it shows what was drawn, and it is short.

use nccl_top::tui::pen::{Pen, paints_erased};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::style::{Color, Modifier, Style};
use std::num::NonZeroU16;

const SIZE: (u16, u16) = (40, 6);

fn empty() -> Buffer {
    Buffer::empty(Rect::new(0, 0, SIZE.0, SIZE.1))
}

fn terminal() -> vt100::Parser {
    vt100::Parser::new(NonZeroU16::new(SIZE.1).unwrap(), NonZeroU16::new(SIZE.0).unwrap(), 0)
}

fn sent(before: &Buffer, after: &Buffer, paints_erased: bool) -> String {
    let pen = Pen::new(Size { width: SIZE.0, height: SIZE.1 }, paints_erased);
    String::from_utf8(pen.bytes(before.diff(after).into_iter())).unwrap()
}

fn seen(color: Color) -> vt100::Color {
    match color {
        Color::Red => vt100::Color::Idx(1),
        Color::LightBlue => vt100::Color::Idx(12),
        Color::Indexed(n) => vt100::Color::Idx(n),
        Color::Rgb(r, g, b) => vt100::Color::Rgb(r, g, b),
        _ => vt100::Color::Default,
    }
}

/// What a cell of the terminal must look like. A blank has no colour but its background.
fn assert_shows(terminal: &vt100::Parser, drawn: &Buffer) {
    for (x, y) in (0..SIZE.1).flat_map(|y| (0..SIZE.0).map(move |x| (x, y))) {
        let (cell, of) = (terminal.screen().cell(y, x).unwrap(), &drawn[(x, y)]);
        let text = if cell.contents().is_empty() { " " } else { cell.contents() };
        assert_eq!(text, of.symbol(), "{x}, {y}");
        assert_eq!(cell.bgcolor(), seen(of.bg), "{x}, {y}");
        assert_eq!(cell.underline(), of.modifier.contains(Modifier::UNDERLINED), "{x}, {y}");
        assert_eq!(cell.inverse(), of.modifier.contains(Modifier::REVERSED), "{x}, {y}");
        if text != " " {
            assert_eq!(cell.fgcolor(), seen(of.fg), "{x}, {y}");
            assert_eq!(cell.bold(), of.modifier.contains(Modifier::BOLD), "{x}, {y}");
            assert_eq!(cell.dim(), of.modifier.contains(Modifier::DIM), "{x}, {y}");
            assert_eq!(cell.italic(), of.modifier.contains(Modifier::ITALIC), "{x}, {y}");
        }
    }
}

fn colors() -> impl Strategy<Value = Color> {
    prop::sample::select(vec![Color::Reset, Color::Red, Color::LightBlue, Color::Indexed(234), Color::Indexed(9), Color::Rgb(1, 2, 3)])
}

fn styles() -> impl Strategy<Value = Style> {
    let weights = [Modifier::BOLD, Modifier::DIM, Modifier::ITALIC, Modifier::UNDERLINED, Modifier::REVERSED];
    let some = prop::collection::vec(prop::sample::select(weights.to_vec()), 0..3);
    let look = |(fg, bg, weights): (Color, Color, Vec<Modifier>)| {
        let weights: Modifier = weights.into_iter().collect();
        // The terminal of the test knows one of the two at a time.
        let weights = if weights.contains(Modifier::BOLD) { weights - Modifier::DIM } else { weights };
        Style::reset().fg(fg).bg(bg).add_modifier(weights)
    };
    (colors(), colors(), some).prop_map(look)
}

/// Texts at places, each with its look.
fn writings() -> impl Strategy<Value = Vec<(u16, u16, String, Style)>> {
    let texts = prop::sample::select(vec!["a", "step 12", "              ", "⣿⣀", "■■", "é", " ", "│", "                      ."]);
    prop::collection::vec((0..SIZE.0, 0..SIZE.1, texts.prop_map(str::to_owned), styles()), 0..12)
}

proptest! {
    #[test]
    fn a_terminal_shows_what_was_drawn(frames in prop::collection::vec((any::<bool>(), writings()), 1..6), erases: bool) {
        let (mut terminal, mut before) = (terminal(), empty());
        for (anew, writings) in frames {
            let mut drawn = if anew { empty() } else { before.clone() };
            for (x, y, text, style) in writings {
                drawn.set_stringn(x, y, text, usize::from(SIZE.0 - x), style);
            }
            terminal.process(sent(&before, &drawn, erases).as_bytes());
            assert_shows(&terminal, &drawn);
            before = drawn;
        }
    }
}

fn drawn(writings: &[(u16, u16, &str, Style)]) -> Buffer {
    let mut buf = empty();
    for (x, y, text, style) in writings {
        buf.set_string(*x, *y, text, *style);
    }
    buf
}

#[test]
fn the_way_to_a_cell_is_short() {
    let plain = Style::new();
    // A chart that goes on by a column: a step down and one back for each row.
    let chart = drawn(&[(30, 1, "⣿", plain), (30, 2, "⣿", plain), (30, 3, "⣿", plain)]);
    assert_eq!(sent(&empty(), &chart, true), "\x1b[2;31H\x1b[0m⣿\n\x08⣿\n\x08⣿");
    let row = drawn(&[(2, 0, "1", plain), (4, 0, "2", plain), (20, 0, "3", plain), (0, 1, "4", plain), (0, 5, "5", plain)]);
    assert_eq!(sent(&empty(), &row, true), "\x1b[1;3H\x1b[0m1\x1b[C2\x1b[15C3\n\r4\x1b[6H5");
    // How wide some terminals draw a sign is not known: what follows stands where it belongs all the same.
    let sign = drawn(&[(2, 0, "■", plain), (5, 0, "x", plain)]);
    assert_eq!(sent(&empty(), &sign, true), "\x1b[1;3H\x1b[0m■\x1b[1;6Hx");
    let wide = drawn(&[(0, 0, "界x", plain), (9, 0, "y", plain)]);
    assert_eq!(sent(&empty(), &wide, true), "\x1b[1H\x1b[0m界x\x1b[1;10Hy");
    // Nor where the cursor is after the last column.
    let last = drawn(&[(39, 0, "1", plain), (38, 1, "2", plain)]);
    assert_eq!(sent(&empty(), &last, true), "\x1b[1;40H\x1b[0m1\x1b[2;39H2");
}

#[test]
fn a_look_is_sent_where_it_changes() {
    let (red, painted) = (Style::new().fg(Color::Red), Style::new().fg(Color::LightBlue).bg(Color::Indexed(17)));
    let text = drawn(&[(0, 0, "a", red), (1, 0, " ", painted), (2, 0, "b", painted.add_modifier(Modifier::BOLD)), (3, 0, "c", painted)]);
    assert_eq!(sent(&empty(), &text, true), "\x1b[1H\x1b[0;31ma\x1b[48;5;17m \x1b[1;94mb\x1b[22mc");
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let both = drawn(&[(0, 0, "a", bold.add_modifier(Modifier::DIM)), (1, 0, "b", bold), (2, 0, "c", Style::new())]);
    assert_eq!(sent(&empty(), &both, true), "\x1b[1H\x1b[0;1;2ma\x1b[22;1mb\x1b[22mc");
}

#[test]
fn many_blanks_are_erased() {
    let full = drawn(&[(0, 0, "0123456789012345678901234567890123456789", Style::new())]);
    let painted = Style::new().bg(Color::Indexed(17));
    let part = |style| {
        let mut buf = full.clone();
        buf.set_string(3, 0, "               ", style);
        buf.set_string(18, 0, "x", style);
        buf
    };
    assert_eq!(sent(&full, &part(Style::new()), false), "\x1b[1;4H\x1b[0m\x1b[15X\x1b[15Cx");
    assert_eq!(sent(&full, &part(painted), true), "\x1b[1;4H\x1b[0;48;5;17m\x1b[15X\x1b[15Cx");
    assert_eq!(sent(&full, &part(painted), false), "\x1b[1;4H\x1b[0;48;5;17m               x");
    let mut rest = full.clone();
    rest.set_string(20, 0, " ".repeat(20), painted);
    assert_eq!(sent(&full, &rest, true), "\x1b[1;21H\x1b[0;48;5;17m\x1b[K");
}

#[test]
fn terminals_that_paint_what_they_erase_are_known() {
    let of = |set: &'static [(&str, &str)]| {
        paints_erased(&move |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    };
    assert!(of(&[("TERM", "xterm-256color")]) && of(&[("TERM", "alacritty"), ("TMUX", "")]));
    for set in [&[][..], &[("TERM", "screen-256color")], &[("TERM", "xterm"), ("STY", "1.x")], &[("TERM", "xterm"), ("TMUX", "/tmp/t")]] {
        assert!(!of(set), "{set:?}");
    }
}
