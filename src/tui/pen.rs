//! Writes changed cells in as few bytes as terminals understand them: a line far away carries every byte.
//!
//! Three things cost most. The way to a cell is its row and column only where nothing shorter leads there. A colour or weight is sent when
//! it changes, and of a blank only what can be seen of it. Many blanks are erased at once, on terminals that paint what they erase.

use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use std::io::Write;
use unicode_width::UnicodeWidthStr;

/// How cells look that are written next.
#[derive(Clone, Copy, PartialEq)]
struct Look {
    fg: Color,
    bg: Color,
    modifier: Modifier,
}

const PLAIN: Look = Look { fg: Color::Reset, bg: Color::Reset, modifier: Modifier::empty() };

/// What each weight is switched on and off by.
const WEIGHTS: [(Modifier, u8, u8); 9] = [
    (Modifier::BOLD, 1, 22),
    (Modifier::DIM, 2, 22),
    (Modifier::ITALIC, 3, 23),
    (Modifier::UNDERLINED, 4, 24),
    (Modifier::SLOW_BLINK, 5, 25),
    (Modifier::RAPID_BLINK, 6, 25),
    (Modifier::REVERSED, 7, 27),
    (Modifier::HIDDEN, 8, 28),
    (Modifier::CROSSED_OUT, 9, 29),
];

/// What can be seen of a blank, besides its background.
const ON_BLANKS: Modifier = Modifier::UNDERLINED.union(Modifier::REVERSED).union(Modifier::CROSSED_OUT);

/// Fewer blanks than these are written as they are: erasing them, and going on behind them, takes as many bytes.
const FEW: u16 = 10;
/// So many steps down or back are sent one by one.
const STEPS: u16 = 4;

/// So many changed cells are worth a second try.
const WORTH_SORTING: usize = 3000;

pub struct Pen {
    size: Size,
    /// What is erased gets the background.
    paints_erased: bool,
    /// Where the next character goes.
    at: Option<Position>,
    /// All characters since the cursor was placed have the width that they were taken to have.
    sure: bool,
    look: Option<Look>,
}

/// Changed cells beside one another that look alike.
struct Run<'a, 'b> {
    cells: &'b [(u16, u16, &'a Cell)],
    look: Look,
    is_blank: bool,
}

impl Pen {
    /// For one frame. Nothing is assumed of the terminal: another program may have written to it.
    pub fn new(size: Size, paints_erased: bool) -> Pen {
        Pen { size, paints_erased, at: None, sure: true, look: None }
    }

    /// The bytes of changed cells, which come row by row and in a row from the left.
    pub fn bytes<'a>(&self, cells: impl Iterator<Item = (u16, u16, &'a Cell)>) -> Vec<u8> {
        let cells: Vec<_> = cells.collect();
        let mut runs = runs(&cells);
        let by_rows = self.written(&runs);
        if cells.len() > WORTH_SORTING {
            return by_rows;
        }
        // What changes every second are some numbers and the ends of graphs: of those, one colour after the other takes fewer bytes.
        let mut looks: Vec<Look> = Vec::new();
        runs.sort_by_cached_key(|run| {
            looks.iter().position(|look| *look == run.look).unwrap_or_else(|| {
                looks.push(run.look);
                looks.len() - 1
            })
        });
        let by_looks = self.written(&runs);
        if by_looks.len() < by_rows.len() { by_looks } else { by_rows }
    }

    fn written(&self, runs: &[Run]) -> Vec<u8> {
        let mut pen = Pen { ..*self };
        let mut out = Vec::with_capacity(4096);
        for run in runs {
            let Some((x, y, first)) = run.cells.first() else { continue };
            if run.is_blank {
                pen.blanks(Position { x: *x, y: *y }, run.cells.len() as u16, first.bg, &mut out);
            } else {
                run.cells.iter().for_each(|(x, y, cell)| pen.glyph(*x, *y, cell, &mut out));
            }
        }
        out
    }

    fn glyph(&mut self, x: u16, y: u16, cell: &Cell, out: &mut Vec<u8>) {
        self.go(Position { x, y }, out);
        self.wear(Look { fg: cell.fg, bg: cell.bg, modifier: cell.modifier }, out);
        out.extend_from_slice(cell.symbol().as_bytes());
        self.sure &= cell.symbol().chars().all(has_sure_width);
        self.advance(cell.symbol().width() as u16);
    }

    fn blanks(&mut self, at: Position, count: u16, bg: Color, out: &mut Vec<u8>) {
        self.go(at, out);
        let worn = self.look.unwrap_or(PLAIN);
        self.wear(Look { bg, modifier: worn.modifier - ON_BLANKS, ..worn }, out);
        if count <= FEW || !(self.paints_erased || bg == Color::Reset) {
            out.extend(std::iter::repeat_n(b' ', usize::from(count)));
            self.advance(count);
        } else if at.x + count >= self.size.width {
            out.extend_from_slice(b"\x1b[K");
        } else {
            put(out, format_args!("\x1b[{count}X"));
        }
    }

    fn advance(&mut self, columns: u16) {
        // Behind the last column terminals differ in where the cursor is.
        self.at = self.at.map(|at| Position { x: at.x + columns, ..at }).filter(|at| at.x < self.size.width);
    }

    /// Moves the cursor by what is shortest.
    fn go(&mut self, to: Position, out: &mut Vec<u8>) {
        if self.at == Some(to) {
            return;
        }
        let mut way = Vec::with_capacity(16);
        match to.x {
            0 => put(&mut way, format_args!("\x1b[{}H", to.y + 1)),
            x => put(&mut way, format_args!("\x1b[{};{}H", to.y + 1, x + 1)),
        }
        if let Some(from) = self.at.filter(|from| self.sure && to.y >= from.y) {
            let steps = from_here(from, to);
            if steps.len() < way.len() {
                way = steps;
            }
        }
        self.sure |= way.contains(&b'H');
        out.append(&mut way);
        self.at = Some(to);
    }

    fn wear(&mut self, look: Look, out: &mut Vec<u8>) {
        if self.look == Some(look) {
            return;
        }
        let mut codes = Vec::with_capacity(32);
        let was = self.look.unwrap_or_else(|| {
            codes.extend_from_slice(b"0;");
            PLAIN
        });
        let (removed, mut added) = (was.modifier - look.modifier, look.modifier - was.modifier);
        if removed.intersects(Modifier::BOLD | Modifier::DIM) {
            // Both are switched off at once.
            added |= look.modifier & (Modifier::BOLD | Modifier::DIM);
        }
        let mut off = 0;
        for (_, _, code) in WEIGHTS.iter().filter(|(weight, ..)| removed.contains(*weight)) {
            if std::mem::replace(&mut off, *code) != *code {
                put(&mut codes, format_args!("{code};"));
            }
        }
        for (_, code, _) in WEIGHTS.iter().filter(|(weight, ..)| added.contains(*weight)) {
            put(&mut codes, format_args!("{code};"));
        }
        for (color, before, base) in [(look.fg, was.fg, 30), (look.bg, was.bg, 40)] {
            if color != before {
                dye(&mut codes, color, base);
            }
        }
        codes.pop();
        put(out, format_args!("\x1b["));
        out.append(&mut codes);
        out.push(b'm');
        self.look = Some(look);
    }
}

fn put(out: &mut Vec<u8>, words: std::fmt::Arguments) {
    // A vector takes everything.
    let _ = out.write_fmt(words);
}

fn is_blank(cell: &Cell) -> bool {
    cell.symbol() == " " && !cell.modifier.intersects(ON_BLANKS)
}

/// Cells beside one another that look alike. A blank goes with what stands before it where it can.
fn runs<'a, 'b>(cells: &'b [(u16, u16, &'a Cell)]) -> Vec<Run<'a, 'b>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut from = 0;
    while let Some((_, y, cell)) = cells.get(from) {
        let (is_blank, before) = (is_blank(cell), runs.last().map_or(PLAIN, |run| run.look));
        let look = match is_blank {
            true => Look { bg: cell.bg, modifier: before.modifier - ON_BLANKS, ..before },
            false => Look { fg: cell.fg, bg: cell.bg, modifier: cell.modifier },
        };
        let same = |cell: &Cell| {
            self::is_blank(cell) == is_blank && cell.bg == look.bg && (is_blank || (cell.fg, cell.modifier) == (look.fg, look.modifier))
        };
        let goes_on = |pair: &&[(u16, u16, &Cell)]| {
            let ((x, ..), (x1, y1, next)) = (&pair[0], &pair[1]);
            let wide = if is_blank { 1 } else { pair[0].2.symbol().width() as u16 };
            y1 == y && *x1 == x + wide && same(next)
        };
        let count = 1 + cells[from..].windows(2).take_while(goes_on).count();
        runs.push(Run { cells: &cells[from..from + count], look, is_blank });
        from += count;
    }
    runs
}

/// Those that no terminal shows in two columns, whatever it takes for East Asian, or that nothing can be drawn with where it does.
fn has_sure_width(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{2500}'..='\u{259f}' | '\u{2800}'..='\u{28ff}')
}

/// Steps from one place to another that is not above it. A terminal in raw mode takes a line feed as a step down.
fn from_here(from: Position, to: Position) -> Vec<u8> {
    let mut way = Vec::with_capacity(16);
    match to.y - from.y {
        down @ 0..=STEPS => way.extend(std::iter::repeat_n(b'\n', usize::from(down))),
        down => put(&mut way, format_args!("\x1b[{down}B")),
    }
    let (right, left) = (to.x.saturating_sub(from.x), from.x.saturating_sub(to.x));
    match (right, left) {
        (0, 0) => {}
        (_, _) if to.x == 0 => way.push(b'\r'),
        (1, _) => put(&mut way, format_args!("\x1b[C")),
        (_, 0) => put(&mut way, format_args!("\x1b[{right}C")),
        (_, 1..=STEPS) => way.extend(std::iter::repeat_n(8, usize::from(left))),
        _ => put(&mut way, format_args!("\x1b[{left}D")),
    }
    way
}

/// The code of a colour. The sixteen of old go as every terminal knows them.
fn dye(codes: &mut Vec<u8>, color: Color, base: u8) {
    let named = match color {
        Color::Reset => 9,
        Color::Black => 0,
        Color::Red => 1,
        Color::Green => 2,
        Color::Yellow => 3,
        Color::Blue => 4,
        Color::Magenta => 5,
        Color::Cyan => 6,
        Color::Gray => 7,
        Color::DarkGray => 60,
        Color::LightRed => 61,
        Color::LightGreen => 62,
        Color::LightYellow => 63,
        Color::LightBlue => 64,
        Color::LightMagenta => 65,
        Color::LightCyan => 66,
        Color::White => 67,
        Color::Indexed(n @ 0..8) => n,
        Color::Indexed(n @ 8..16) => n + 52,
        Color::Indexed(n) => return put(codes, format_args!("{};5;{n};", base + 8)),
        Color::Rgb(r, g, b) => return put(codes, format_args!("{};2;{r};{g};{b};", base + 8)),
    };
    put(codes, format_args!("{};", base + named));
}

/// Whether a terminal gives what it erases the background that holds ("bce" of terminfo). What multiplexes a terminal need not.
pub fn paints_erased(var: &dyn Fn(&str) -> Option<String>) -> bool {
    const KNOWN: [&str; 10] = ["xterm", "alacritty", "foot", "ghostty", "gnome", "konsole", "linux", "rxvt", "vte", "wezterm"];
    let term = var("TERM").unwrap_or_default();
    KNOWN.iter().any(|known| term.starts_with(known)) && ["TMUX", "STY"].iter().all(|name| var(name).is_none_or(|v| v.is_empty()))
}
