//! What ratatui lacks, or what must look the same in every pane.

pub mod chart;
pub mod spark;
pub mod table;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
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
            (self.x, _) = self.buf.set_stringn(self.x, self.y, text, room, style);
        } else if room > 0 {
            let (end, _) = self.buf.set_stringn(self.x, self.y, text, room - 1, style);
            self.buf.set_stringn(end, self.y, "…", 1, style);
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
    // The end of a path tells more than its beginning.
    let head = take(&mut text.chars(), room / 3);
    let tail: String = take(&mut text.chars().rev(), room - head.width()).chars().rev().collect();
    format!("{head}…{tail}")
}

/// The first of `rows` that is shown so that `selected` stands in the middle where it can.
pub fn first_shown(rows: usize, selected: Option<usize>, height: usize) -> usize {
    selected.map_or(0, |s| s.saturating_sub(height / 2)).min(rows.saturating_sub(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_long_path_stay() {
        assert_eq!(shorten("/fsx/out", 8), "/fsx/out");
        assert_eq!(shorten("/fsx/team/run-17/out", 10), "/fs…17/out");
        assert_eq!(shorten("測試測試測試", 7), "測…測試");
        assert_eq!([0, 1, 2].map(|width| shorten("abcdef", width)), ["…", "…", "…f"]);
    }

    #[test]
    fn what_does_not_fit_says_so() {
        let row = |texts: &[&str], width| {
            let area = Rect::new(1, 0, width, 1);
            let mut buf = Buffer::empty(Rect::new(0, 0, 12, 1));
            let mut pen = Pen::new(&mut buf, area);
            texts.iter().for_each(|t| pen.put(t, Style::new()));
            buf.content().iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned()
        };
        assert_eq!(row(&["one", " two"], 10), " one two");
        assert_eq!(row(&["one", " two", "three"], 6), " one t…");
        assert_eq!(row(&["測試測試"], 4), " 測 …", "a wide character has two cells");
        assert_eq!(row(&["one"], 0), "");
    }

    #[test]
    fn the_selected_row_stays_in_sight() {
        assert_eq!(first_shown(100, Some(50), 10), 45);
        assert_eq!(first_shown(100, Some(99), 10), 90);
        assert_eq!(first_shown(5, Some(4), 10), 0);
        assert_eq!(first_shown(100, None, 10), 0);
    }
}
