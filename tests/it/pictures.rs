//! Cells as pictures: shapes join, text is escaped, and a terminal and a buffer look the same.

use crate::support::svg;
use crate::support::svg::Cells;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use std::num::NonZeroU16;

fn buffer(line: Line) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
    buffer.set_line(0, 0, &line, 40);
    svg::picture(&Cells::of_buffer(&buffer), "t", &svg::DARK)
}

fn screen(bytes: &str) -> String {
    let size = |n| NonZeroU16::new(n).unwrap();
    let mut parser = vt100::Parser::new(size(1), size(40), 0);
    parser.process(bytes.as_bytes());
    svg::picture(&Cells::of_screen(parser.screen()), "t", &svg::DARK)
}

#[test]
fn text_of_one_style_is_one_run_and_escaped() {
    let svg = buffer(Line::from("a <b> & \"c\"   d"));
    assert!(svg.contains(">a &lt;b&gt; &amp; &quot;c&quot;</text>"), "{svg}");
    assert!(svg.contains(r#"<text x="126" textLength="9" "#), "{svg}");
}

#[test]
fn a_line_of_cells_is_one_shape() {
    for line in ["────", "████", "▄▄▄▄"] {
        let svg = buffer(Line::from(line));
        let shapes: Vec<&str> = svg.lines().filter(|l| l.contains("d=\"M0 ")).collect();
        assert!(shapes.len() == 1 && shapes[0].contains("h36v") && shapes[0].matches('z').count() == 1, "{line}: {shapes:?}");
        assert!(!svg.contains(line));
    }
    assert_eq!(buffer(Line::from("⣿⡀")).matches("h0").count(), 9);
}

#[test]
fn a_terminal_and_a_buffer_look_the_same() {
    let style = Style::new();
    let line = Line::from(vec![
        Span::styled("■ STUCK", style.fg(Color::Indexed(203)).add_modifier(Modifier::BOLD)),
        Span::styled(" dim ", style.fg(Color::Rgb(1, 2, 3)).add_modifier(Modifier::DIM)),
        Span::styled("inverse", style.add_modifier(Modifier::REVERSED)),
        Span::styled(" under", style.fg(Color::Red).bg(Color::LightBlue).add_modifier(Modifier::UNDERLINED)),
        Span::raw("日本│⣀▄"),
    ]);
    let bytes = "\x1b[1;38;5;203m■ STUCK\x1b[0m\x1b[2;38;2;1;2;3m dim \x1b[0m\x1b[7minverse\x1b[0m\x1b[4;31;104m under\x1b[0m日本│⣀▄";
    assert_eq!(buffer(line), screen(bytes));
}

#[test]
fn a_moving_picture_holds_each_part_once_and_shows_it_when_it_is_there() {
    let frame = |text: &str| {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 40, 1));
        buffer.set_line(0, 0, &Line::from(text.to_owned()), 40);
        Cells::of_buffer(&buffer)
    };
    let [one, two, three] = ["always   first", "always   second", "always   first"].map(frame);
    let svg = svg::animation(&[(&one, 1.0), (&two, 2.0), (&three, 1.0)], "t", &svg::DARK);
    for part in ["always", "first", "second"] {
        assert_eq!(svg.matches(&format!(">{part}</text>")).count(), 1, "{part} in {svg}");
    }
    assert!(svg.contains(".a{animation:4s step-end infinite}"), "{svg}");
    assert!(svg.contains("{0%{visibility:visible}25%{visibility:hidden}75%{visibility:visible}}"), "first: {svg}");
    assert!(
        svg.contains(";visibility:hidden}") && svg.contains("{0%{visibility:hidden}25%{visibility:visible}75%{visibility:hidden}}"),
        "second: {svg}"
    );
    assert!(svg.contains("prefers-reduced-motion"), "it can stand still");
    let still = svg::picture(&one, "t", &svg::DARK);
    assert!(!still.contains("<style>") && !still.contains("class="), "{still}");
}

#[test]
fn the_pictures_of_the_documents_are_there_and_small() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/screens.md")).unwrap();
    let named = page.split("](screens/").skip(1).map(|rest| format!("docs/screens/{}", rest.split(')').next().unwrap()));
    for name in named.chain(["assets/screen.svg".into(), "assets/screen-light.svg".into()]) {
        let svg = std::fs::read_to_string(root.join(&name)).unwrap_or_else(|err| panic!("{name}: {err}"));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("<script"), "{name}");
        assert!(svg.len() <= 300_000, "{name}: {} bytes", svg.len());
    }
}
