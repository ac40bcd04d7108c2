//! Cells of a terminal as an SVG picture. Lines, blocks and braille are shapes, so that they join whatever the viewer's font.

use nccl_top::tui::theme::SIXTEEN;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};
use std::collections::BTreeMap;
use std::fmt::Write;

/// One row of cells after the other.
pub struct Cells {
    columns: usize,
    cells: Vec<Cell>,
}

#[derive(Clone, Default)]
struct Cell {
    /// Empty: blank, or the right half of a wide character.
    text: String,
    /// Columns.
    width: usize,
    ink: Ink,
}

#[derive(Clone, Copy, Default, PartialEq)]
struct Ink {
    fg: Tint,
    bg: Tint,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    inverse: bool,
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Tint {
    #[default]
    Default,
    Index(u8),
    Rgb(u8, u8, u8),
}

impl Cells {
    /// What is on a terminal's screen.
    pub fn of_screen(screen: &vt100::Screen) -> Cells {
        let tint = |color| match color {
            vt100::Color::Default => Tint::Default,
            vt100::Color::Idx(i) => Tint::Index(i),
            vt100::Color::Rgb(r, g, b) => Tint::Rgb(r, g, b),
        };
        let (rows, columns) = screen.size();
        let at = |row, column| {
            let cell = screen.cell(row, column).expect("a cell of the screen");
            Cell {
                text: if cell.is_wide_continuation() { String::new() } else { cell.contents().to_owned() },
                width: if cell.is_wide() { 2 } else { 1 },
                ink: Ink {
                    fg: tint(cell.fgcolor()),
                    bg: tint(cell.bgcolor()),
                    bold: cell.bold(),
                    dim: cell.dim(),
                    italic: cell.italic(),
                    underline: cell.underline(),
                    inverse: cell.inverse(),
                },
            }
        };
        let cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column)));
        Cells { columns: usize::from(columns.get()), cells: cells.map(|(row, column)| at(row, column)).collect() }
    }

    /// What was drawn, without a terminal.
    pub fn of_buffer(buffer: &Buffer) -> Cells {
        let columns = usize::from(buffer.area.width);
        let mut cells: Vec<Cell> = Vec::new();
        // The right half of a wide character still holds what was there before.
        let mut covered = 0;
        for (i, cell) in buffer.content().iter().enumerate() {
            covered = if i % columns == 0 { 0 } else { covered };
            let width = unicode_width::UnicodeWidthStr::width(cell.symbol()).max(1);
            let has = |modifier| cell.modifier.contains(modifier);
            cells.push(Cell {
                text: if covered > 0 { String::new() } else { cell.symbol().to_owned() },
                width,
                ink: Ink {
                    fg: tint(cell.fg),
                    bg: tint(cell.bg),
                    bold: has(Modifier::BOLD),
                    dim: has(Modifier::DIM),
                    italic: has(Modifier::ITALIC),
                    underline: has(Modifier::UNDERLINED),
                    inverse: has(Modifier::REVERSED),
                },
            });
            covered = if covered > 0 { covered - 1 } else { width - 1 };
        }
        Cells { columns, cells }
    }
}

fn tint(color: Color) -> Tint {
    match color {
        Color::Reset => Tint::Default,
        Color::Indexed(i) => Tint::Index(i),
        Color::Rgb(r, g, b) => Tint::Rgb(r, g, b),
        other => Tint::Index(SIXTEEN.iter().position(|c| *c == other).unwrap_or(7) as u8),
    }
}

type Rgb = (u8, u8, u8);

/// The colours of a terminal.
pub struct Paper {
    fg: Rgb,
    bg: Rgb,
    bar: Rgb,
    edge: Rgb,
    /// The first 16 of the 256.
    named: [Rgb; 16],
}

pub const DARK: Paper = Paper {
    fg: (0xd8, 0xdb, 0xe0),
    bg: (0x16, 0x18, 0x1d),
    bar: (0x25, 0x28, 0x2f),
    edge: (0x3a, 0x3e, 0x47),
    named: [
        (0x2e, 0x32, 0x3a),
        (0xe0, 0x6c, 0x75),
        (0x8f, 0xbf, 0x7a),
        (0xe0, 0xb5, 0x60),
        (0x61, 0xa5, 0xe8),
        (0xc0, 0x7e, 0xdb),
        (0x56, 0xb6, 0xc2),
        (0xb8, 0xbd, 0xc6),
        (0x6b, 0x72, 0x80),
        (0xf2, 0x8b, 0x93),
        (0xa9, 0xd6, 0x95),
        (0xf2, 0xcd, 0x83),
        (0x86, 0xbf, 0xf5),
        (0xd5, 0x9d, 0xec),
        (0x7a, 0xcf, 0xda),
        (0xff, 0xff, 0xff),
    ],
};

pub const LIGHT: Paper = Paper {
    fg: (0x1f, 0x23, 0x28),
    bg: (0xff, 0xff, 0xff),
    bar: (0xec, 0xee, 0xf1),
    edge: (0xc8, 0xcd, 0xd4),
    named: [
        (0x1f, 0x23, 0x28),
        (0xb4, 0x23, 0x2c),
        (0x1a, 0x7f, 0x37),
        (0x95, 0x6a, 0x00),
        (0x09, 0x59, 0xb8),
        (0x82, 0x38, 0xb0),
        (0x0b, 0x76, 0x82),
        (0x8b, 0x94, 0x9e),
        (0x57, 0x60, 0x6a),
        (0xd1, 0x3a, 0x43),
        (0x2b, 0x98, 0x4a),
        (0xb5, 0x85, 0x12),
        (0x2f, 0x7b, 0xd8),
        (0x9c, 0x52, 0xca),
        (0x20, 0x91, 0x9d),
        (0xd9, 0xdd, 0xe3),
    ],
};

impl Paper {
    /// The window of a program that paints its own background.
    fn as_painted(&self, cells: &Cells) -> Paper {
        let (fg, bg) = cells.cells.first().map_or((self.fg, self.bg), |cell| (self.fg, self.rgb(cell.ink.bg, self.bg)));
        let is_other = bg != self.bg;
        let (bar, edge) = if is_other { (mixed(bg, fg, 0.1), mixed(bg, fg, 0.25)) } else { (self.bar, self.edge) };
        Paper { fg, bg, bar, edge, named: self.named }
    }

    fn rgb(&self, tint: Tint, default: Rgb) -> Rgb {
        match tint {
            Tint::Default => default,
            Tint::Rgb(r, g, b) => (r, g, b),
            Tint::Index(i @ 0..16) => self.named[usize::from(i)],
            Tint::Index(i @ 16..232) => {
                let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
                let i = i - 16;
                (level(i / 36), level(i / 6 % 6), level(i % 6))
            }
            Tint::Index(i) => (8 + 10 * (i - 232), 8 + 10 * (i - 232), 8 + 10 * (i - 232)),
        }
    }

    /// Foreground and background as they are seen.
    fn seen(&self, ink: Ink) -> (Rgb, Rgb) {
        let (fg, bg) = (self.rgb(ink.fg, self.fg), self.rgb(ink.bg, self.bg));
        let (fg, bg) = if ink.inverse { (bg, fg) } else { (fg, bg) };
        (if ink.dim { mixed(fg, bg, 0.4) } else { fg }, bg)
    }
}

fn mixed(a: Rgb, b: Rgb, share: f64) -> Rgb {
    let mix = |a: u8, b: u8| (f64::from(a) * (1.0 - share) + f64::from(b) * share).round() as u8;
    (mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

fn hex((r, g, b): Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// A cell, the size of a letter, the margin around the cells, the title bar: pixels.
const CELL: (f64, f64) = (9.0, 19.0);
const LETTER: f64 = 15.0;
const BASE: f64 = 14.0;
const MARGIN: f64 = 12.0;
const BAR: f64 = 30.0;

/// The picture of a window with these cells in it.
pub fn picture(cells: &Cells, title: &str, paper: &Paper) -> String {
    animation(&[(cells, 1.0)], title, paper)
}

/// The picture of a window whose cells change, over and over again: each frame with the seconds that it is shown. What several frames have
/// in common is in it once. Where nothing moves, because the viewer cannot or the reader does not want it, the last frame is shown.
pub fn animation(frames: &[(&Cells, f64)], title: &str, paper: &Paper) -> String {
    let first = frames[0].0;
    let paper = &paper.as_painted(first);
    let rows = first.cells.len() / first.columns;
    let (width, height) = (first.columns as f64 * CELL.0 + 2.0 * MARGIN, rows as f64 * CELL.1 + BAR + 2.0 * MARGIN);
    // Each part with the frames that show it: layer by layer, those that are always there first.
    let mut parts: BTreeMap<(Layer, Part), Vec<bool>> = BTreeMap::new();
    for (n, (cells, _)) in frames.iter().enumerate() {
        for part in Drawing::of(cells, paper).parts {
            parts.entry(part).or_insert_with(|| vec![false; frames.len()])[n] = true;
        }
    }
    let mut groups: BTreeMap<(Layer, Vec<bool>), Vec<Part>> = BTreeMap::new();
    for ((layer, part), shown) in parts {
        groups.entry((layer, shown.iter().map(|shown| !shown).collect())).or_default().push(part);
    }
    let mut styles: Vec<Vec<bool>> = groups.keys().map(|(_, hidden)| hidden.clone()).filter(|hidden| hidden.contains(&true)).collect();
    styles.sort();
    styles.dedup();
    let (bg, bar, edge) = (hex(paper.bg), hex(paper.bar), hex(paper.edge));
    let (middle, title) = (width / 2.0, escaped(title));
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">
<title>{title}</title>
{}<rect x=".5" y=".5" width="{}" height="{}" rx="8" fill="{bg}" stroke="{edge}"/>
<path d="M1 {BAR}V8.5Q1 1 8.5 1H{}Q{} 1 {} 8.5V{BAR}Z" fill="{bar}"/>
<g fill="{edge}"><circle cx="18" cy="15" r="5"/><circle cx="36" cy="15" r="5"/><circle cx="54" cy="15" r="5"/></g>
<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="{LETTER}">
<text x="{middle}" y="20" font-size="13" text-anchor="middle" fill="{}">{title}</text>
<g transform="translate({MARGIN} {})">
"#,
        timing(&styles, frames),
        width - 1.0,
        height - 1.0,
        width - 8.5,
        width - 1.0,
        width - 1.0,
        hex(mixed(paper.fg, paper.bar, 0.3)),
        BAR + MARGIN,
    );
    for ((layer, hidden), parts) in &groups {
        let class = styles.binary_search(hidden).map_or(String::new(), |n| format!(r#" class="a k{n}""#));
        let crisp = if matches!(layer, Layer::Ground | Layer::Shape) { r#" shape-rendering="crispEdges""# } else { "" };
        let _ = writeln!(svg, "<g{class}{crisp}>");
        // Paths of one look are one.
        let mut begun: Option<&Look> = None;
        for part in parts {
            if begun.is_some_and(|look| *look != part.0) {
                svg.push_str("\"/>\n");
                begun = None;
            }
            match &part.0 {
                Look::Own => svg.push_str(&part.1),
                Look::Path(style) => {
                    if begun.is_none() {
                        let _ = write!(svg, r#"<path {style} d=""#);
                        begun = Some(&part.0);
                    }
                    svg.push_str(&part.1);
                }
            }
        }
        svg.push_str(if begun.is_some() { "\"/>\n</g>\n" } else { "</g>\n" });
    }
    svg.push_str("</g>\n</g>\n</svg>\n");
    svg
}

/// When what is not always there is shown: CSS, by the frames that hide it.
fn timing(styles: &[Vec<bool>], frames: &[(&Cells, f64)]) -> String {
    if styles.is_empty() {
        return String::new();
    }
    let whole: f64 = frames.iter().map(|(_, seconds)| seconds).sum();
    let mut css = format!("<style>\n.a{{animation:{}s step-end infinite}}\n", short(whole));
    for (n, hidden) in styles.iter().enumerate() {
        let word = |hidden: bool| if hidden { "hidden" } else { "visible" };
        let _ = write!(css, ".k{n}{{animation-name:k{n}");
        if hidden.last() == Some(&true) {
            css.push_str(";visibility:hidden");
        }
        let _ = write!(css, "}}@keyframes k{n}{{");
        let mut at = 0.0;
        for (frame, (_, seconds)) in frames.iter().enumerate() {
            if frame == 0 || hidden[frame] != hidden[frame - 1] {
                let _ = write!(css, "{}%{{visibility:{}}}", short(at / whole * 100.0), word(hidden[frame]));
            }
            at += seconds;
        }
        css.push_str("}\n");
    }
    css.push_str("@media(prefers-reduced-motion:reduce){.a{animation:none}}\n</style>\n");
    css
}

/// From the back to the front.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Ground,
    Shape,
    Line,
    Dots,
    Text,
}

/// How a part is drawn.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    /// It is an element of its own.
    Own,
    /// It is a piece of a path with these attributes.
    Path(String),
}

type Part = (Look, String);

struct Rect {
    x: f64,
    y: f64,
    w: f64,
    h: f64,
    fill: Rgb,
    opacity: f64,
}

/// The parts of a picture.
struct Drawing<'a> {
    paper: &'a Paper,
    /// The rectangle that the next may join.
    last: Option<(Layer, Rect)>,
    parts: Vec<(Layer, Part)>,
}

impl<'a> Drawing<'a> {
    fn of(cells: &Cells, paper: &'a Paper) -> Self {
        let mut drawing = Drawing { paper, last: None, parts: Vec::new() };
        for (row, line) in cells.cells.chunks(cells.columns).enumerate() {
            drawing.row(row, line);
        }
        drawing.put_rect();
        drawing
    }

    fn path(&mut self, layer: Layer, style: String, d: String) {
        self.parts.push((layer, (Look::Path(style), d)));
    }

    fn row(&mut self, row: usize, cells: &[Cell]) {
        let y = row as f64 * CELL.1;
        let x = |column: usize| column as f64 * CELL.0;
        for (column, cell) in cells.iter().enumerate() {
            let (_, bg) = self.paper.seen(cell.ink);
            if bg != self.paper.bg {
                self.rect(Layer::Ground, (x(column), y, CELL.0, CELL.1), bg, 1.0);
            }
        }
        for (column, cell) in cells.iter().enumerate() {
            let (fg, _) = self.paper.seen(cell.ink);
            if cell.ink.underline {
                self.rect(Layer::Shape, (x(column), y + BASE + 2.0, CELL.0, 1.0), fg, 1.0);
            }
            self.shape(x(column), y, cell, fg);
        }
        // Letters that follow one another in one style are one text; what a font may lack or make wider stands alone.
        let mut column = 0;
        while column < cells.len() {
            let cell = &cells[column];
            if !is_letter(cell) {
                let c = cell.text.chars().next().unwrap_or(' ');
                if !c.is_whitespace() && !is_shape(c) {
                    let middle = x(column) + CELL.0 * cell.width as f64 / 2.0;
                    self.text(cell.ink, &cell.text, &format!(r#"x="{}" text-anchor="middle""#, short(middle)), y);
                }
                column += 1;
                continue;
            }
            let from = column;
            let mut run = String::new();
            while let Some(next) = cells.get(column) {
                // One blank between two words does not part them.
                let joins = next.text.trim().is_empty() && cells.get(column + 1).is_some_and(is_letter) && column > from;
                if next.ink != cell.ink || !(is_letter(next) || joins) {
                    break;
                }
                run.push_str(if is_letter(next) { &next.text } else { " " });
                column += 1;
            }
            if run.ends_with(' ') {
                run.pop();
            }
            let length = short(run.chars().count() as f64 * CELL.0);
            self.text(cell.ink, &run, &format!(r#"x="{}" textLength="{length}""#, short(x(from))), y);
        }
    }

    fn text(&mut self, ink: Ink, text: &str, place: &str, y: f64) {
        let (fg, _) = self.paper.seen(ink);
        let bold = if ink.bold { r#" font-weight="bold""# } else { "" };
        let italic = if ink.italic { r#" font-style="italic""# } else { "" };
        let text = format!("<text {place} y=\"{}\" fill=\"{}\"{bold}{italic}>{}</text>\n", short(y + BASE), hex(fg), escaped(text));
        self.parts.push((Layer::Text, (Look::Own, text)));
    }

    /// Beside one of the same height and colour it makes that one longer.
    fn rect(&mut self, layer: Layer, (x, y, w, h): (f64, f64, f64, f64), fill: Rgb, opacity: f64) {
        match &mut self.last {
            Some((of, b)) if (*of, b.y, b.h, b.fill, b.opacity) == (layer, y, h, fill, opacity) && b.x + b.w == x => b.w += w,
            _ => {
                self.put_rect();
                self.last = Some((layer, Rect { x, y, w, h, fill, opacity }));
            }
        }
    }

    fn put_rect(&mut self) {
        let Some((layer, b)) = self.last.take() else { return };
        let opacity = if b.opacity < 1.0 { format!(r#" fill-opacity="{}""#, b.opacity) } else { String::new() };
        let style = format!(r#"fill="{}"{opacity}"#, hex(b.fill));
        self.path(layer, style, format!("M{} {}h{}v{}h{}z", short(b.x), short(b.y), short(b.w), short(b.h), short(-b.w)));
    }

    fn shape(&mut self, x: f64, y: f64, cell: &Cell, fg: Rgb) {
        let Some(c) = cell.text.chars().next() else { return };
        match c {
            '\u{2500}'..='\u{257f}' => self.lines(x, y, c, fg),
            '\u{2580}'..='\u{259f}' => self.block(x, y, c, fg),
            '\u{2801}'..='\u{28ff}' => self.braille(x, y, c, fg),
            _ => {}
        }
    }

    fn lines(&mut self, x: f64, y: f64, c: char, fg: Rgb) {
        let (w, h) = CELL;
        let (mx, my) = (x + w / 2.0, y + h / 2.0);
        let code = c as usize - 0x2500;
        let curve = match c {
            '╭' => Some(format!("M{mx} {}V{}Q{mx} {my} {} {my}", y + h, my + 4.0, x + w)),
            '╮' => Some(format!("M{mx} {}V{}Q{mx} {my} {x} {my}", y + h, my + 4.0)),
            '╯' => Some(format!("M{mx} {y}V{}Q{mx} {my} {x} {my}", my - 4.0)),
            '╰' => Some(format!("M{mx} {y}V{}Q{mx} {my} {} {my}", my - 4.0, x + w)),
            '╱' => Some(format!("M{x} {}L{} {y}", y + h, x + w)),
            '╲' => Some(format!("M{x} {y}L{} {}", x + w, y + h)),
            '╳' => Some(format!("M{x} {}L{} {y}M{x} {y}L{} {}", y + h, x + w, x + w, y + h)),
            _ => None,
        };
        if let Some(d) = curve {
            self.path(Layer::Line, format!(r#"fill="none" stroke="{}""#, hex(fg)), d);
            return;
        }
        let dashes = match code {
            0x04..=0x07 => 3,
            0x08..=0x0b => 4,
            0x4c..=0x4f => 2,
            _ => 1,
        };
        let mut arms = ARMS[code].bytes().map(|b| b - b'0');
        let mut arm = || arms.next().unwrap_or(0);
        let [left, right, up, down] = [arm(), arm(), arm(), arm()];
        // Each arm goes a little over the middle, so that corners are whole.
        let over = |a: u8, b: u8| if a.max(b) > 1 { 1.5 } else { 0.5 };
        for &(weight, from, to) in &spans(left, right, w, over(up, down)) {
            for &(offset, thick) in strokes(weight) {
                for (from, long) in dashed(from, to, dashes) {
                    self.rect(Layer::Shape, (x + from, my + offset - thick / 2.0, long, thick), fg, 1.0);
                }
            }
        }
        for &(weight, from, to) in &spans(up, down, h, over(left, right)) {
            for &(offset, thick) in strokes(weight) {
                for (from, long) in dashed(from, to, dashes) {
                    self.rect(Layer::Shape, (mx + offset - thick / 2.0, y + from, thick, long), fg, 1.0);
                }
            }
        }
    }

    fn block(&mut self, x: f64, y: f64, c: char, fg: Rgb) {
        let (w, h) = CELL;
        let code = c as u32 - 0x2580;
        let (x1, y1, w1, h1, opacity) = match code {
            0x00 => (0.0, 0.0, 1.0, 0.5, 1.0),
            0x01..=0x08 => (0.0, 1.0 - f64::from(code) / 8.0, 1.0, f64::from(code) / 8.0, 1.0),
            0x09..=0x0f => (0.0, 0.0, f64::from(16 - code) / 8.0, 1.0, 1.0),
            0x10 => (0.5, 0.0, 0.5, 1.0, 1.0),
            0x11..=0x13 => (0.0, 0.0, 1.0, 1.0, f64::from(code - 0x10) / 4.0),
            0x14 => (0.0, 0.0, 1.0, 0.125, 1.0),
            0x15 => (0.875, 0.0, 0.125, 1.0, 1.0),
            _ => {
                // Upper left, upper right, lower left, lower right.
                let quarters = [0b0010, 0b0001, 0b1000, 0b1011, 0b1001, 0b1110, 0b1101, 0b0100, 0b0110, 0b0111][code as usize - 0x16];
                for (bit, (qx, qy)) in [(8, (0.0, 0.0)), (4, (0.5, 0.0)), (2, (0.0, 0.5)), (1, (0.5, 0.5))] {
                    if quarters & bit != 0 {
                        self.rect(Layer::Shape, (x + qx * w, y + qy * h, w / 2.0, h / 2.0), fg, 1.0);
                    }
                }
                return;
            }
        };
        self.rect(Layer::Shape, (x + x1 * w, y + y1 * h, w1 * w, h1 * h), fg, opacity);
    }

    fn braille(&mut self, x: f64, y: f64, c: char, fg: Rgb) {
        let mut dots = String::new();
        for (bit, (column, row)) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3)].into_iter().enumerate() {
            if (c as u32 - 0x2800) & (1 << bit) != 0 {
                let (cx, cy) = (x + CELL.0 * (0.25 + 0.5 * f64::from(column)), y + CELL.1 * (0.125 + 0.25 * f64::from(row)));
                // A line without length and with round ends is a dot.
                let _ = write!(dots, "M{} {}h0", short(cx), short(cy));
            }
        }
        self.path(Layer::Dots, format!(r#"stroke="{}" stroke-width="3.8" stroke-linecap="round""#, hex(fg)), dots);
    }
}

/// Weight, start and end of what two opposite arms make of a cell's side: one line when they are equal.
fn spans(a: u8, b: u8, side: f64, over: f64) -> Vec<(u8, f64, f64)> {
    if a == b { vec![(a, 0.0, side)] } else { vec![(a, 0.0, side / 2.0 + over), (b, side / 2.0 - over, side)] }
}

/// Starts and lengths.
fn dashed(from: f64, to: f64, dashes: u32) -> Vec<(f64, f64)> {
    let part = (to - from) / f64::from(dashes);
    let long = if dashes == 1 { part } else { part * 0.6 };
    (0..dashes).map(|i| (from + part * f64::from(i), long)).collect()
}

/// Offsets from the middle of an arm, and thicknesses.
fn strokes(weight: u8) -> &'static [(f64, f64)] {
    match weight {
        1 => &[(0.0, 1.0)],
        2 => &[(0.0, 3.0)],
        3 => &[(-1.5, 1.0), (1.5, 1.0)],
        _ => &[],
    }
}

/// How heavy the left, right, upper and lower arm of each character from U+2500 is: 1 light, 2 heavy, 3 double.
#[rustfmt::skip]
const ARMS: [&str; 128] = [
    "1100", "2200", "0011", "0022", "1100", "2200", "0011", "0022", "1100", "2200", "0011", "0022", "0101", "0201", "0102", "0202",
    "1001", "2001", "1002", "2002", "0110", "0210", "0120", "0220", "1010", "2010", "1020", "2020", "0111", "0211", "0121", "0112",
    "0122", "0221", "0212", "0222", "1011", "2011", "1021", "1012", "1022", "2021", "2012", "2022", "1101", "2101", "1201", "2201",
    "1102", "2102", "1202", "2202", "1110", "2110", "1210", "2210", "1120", "2120", "1220", "2220", "1111", "2111", "1211", "2211",
    "1121", "1112", "1122", "2121", "1221", "2112", "1212", "2221", "2212", "2122", "1222", "2222", "1100", "2200", "0011", "0022",
    "3300", "0033", "0301", "0103", "0303", "3001", "1003", "3003", "0310", "0130", "0330", "3010", "1030", "3030", "0311", "0133",
    "0333", "3011", "1033", "3033", "3301", "1103", "3303", "3310", "1130", "3330", "3311", "1133", "3333", "0101", "1001", "1010",
    "0110", "0000", "0000", "0000", "1000", "0010", "0100", "0001", "2000", "0020", "0200", "0002", "1200", "0012", "2100", "0021",
];

/// Any monospace font has it, one cell wide.
fn is_letter(cell: &Cell) -> bool {
    let mut chars = cell.text.chars();
    matches!((chars.next(), chars.next()), (Some('!'..='~' | '\u{a1}'..='\u{ff}' | '–' | '…'), None))
}

fn is_shape(c: char) -> bool {
    matches!(c, '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}')
}

/// At most two decimals.
fn short(n: f64) -> f64 {
    (n * 100.0).round() / 100.0
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML knows no other controls.
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
