//! What ratatui lacks, or what must look the same in every pane.

pub mod cards;
pub mod chart;
pub mod graph;
pub mod meter;
pub mod put;
pub mod spark;
pub mod table;
pub mod time_axis;

use crate::base::words::wrap;
use put::Put;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Writes texts into one row, one after the other; what does not fit ends with `…`.
pub struct Pen<'a> {
    buf: &'a mut Buffer,
    x: u16,
    y: u16,
    right: u16,
}

impl<'a> Pen<'a> {
    /// At the first row of an area.
    pub fn new(buf: &'a mut Buffer, area: Rect) -> Pen<'a> {
        let right = if area.height == 0 { area.x } else { area.right() };
        Pen { buf, x: area.x, y: area.y, right }
    }

    pub fn room(&self) -> u16 {
        self.right - self.x
    }

    pub fn put(&mut self, text: &str, style: Style) {
        let room = usize::from(self.room());
        if text.width() <= room {
            (self.x, _) = self.buf.put(self.x, self.y, text, room, style);
        } else if room > 0 {
            let (end, _) = self.buf.put(self.x, self.y, text, room - 1, style);
            self.buf.put(end, self.y, "…", 1, style);
            self.x = self.right;
        }
    }

    /// Leaves columns free.
    pub fn skip(&mut self, columns: u16) {
        self.x = self.x.saturating_add(columns).min(self.right);
    }
}

/// A text, such as a path, in so many columns: both ends stay, and `…` stands for what is left out between them.
pub fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(1);
    let take = |chars: &mut dyn Iterator<Item = char>, most: usize| {
        let mut used = 0;
        let fits = |c: &char| {
            used += UnicodeWidthChar::width(*c).unwrap_or(0);
            used <= most
        };
        chars.take_while(fits).collect::<String>()
    };
    // The end of a path matters more than its beginning.
    let head = take(&mut text.chars(), room / 3);
    let tail: String = take(&mut text.chars().rev(), room - head.width()).chars().rev().collect();
    format!("{head}…{tail}")
}

/// The first of `rows` that is shown so that `selected` stands in the middle where it can.
pub fn first_shown(rows: usize, selected: Option<usize>, height: usize) -> usize {
    selected.map_or(0, |s| s.saturating_sub(height / 2)).min(rows.saturating_sub(height))
}

/// A text behind its label, wrapped at `width` columns. The label stands on the first line and is as wide as the text is indented.
pub fn labelled(label: &str, label_style: Style, text: &str, style: Style, width: usize) -> impl Iterator<Item = Line<'static>> {
    let blank = " ".repeat(label.width());
    let labels = std::iter::once(label.to_owned()).chain(std::iter::repeat(blank));
    let parts = wrap(text, width.saturating_sub(label.width()));
    labels.zip(parts).map(move |(label, part)| Line::from(vec![Span::styled(label, label_style), Span::styled(part, style)]))
}
