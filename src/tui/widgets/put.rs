//! Text into cells, as [`Buffer::set_stringn`] does it, but fast where it is ASCII: a frame is mostly that, and has no graphemes to look for.

use ratatui::buffer::Buffer;
use ratatui::style::Style;
use ratatui::text::Line;
use unicode_width::UnicodeWidthStr;

pub trait Put {
    /// Writes as much of `text` as fits into `room` columns. Returns where it ends.
    fn put(&mut self, x: u16, y: u16, text: impl AsRef<str>, room: usize, style: impl Into<Style>) -> (u16, u16);

    /// The same for parts with looks of their own.
    fn put_line(&mut self, x: u16, y: u16, line: &Line<'_>, room: u16) -> (u16, u16);

    /// One character, `count` times.
    fn put_many(&mut self, x: u16, y: u16, sign: char, count: u16, style: Style);
}

impl Put for Buffer {
    fn put(&mut self, mut x: u16, y: u16, text: impl AsRef<str>, room: usize, style: impl Into<Style>) -> (u16, u16) {
        let (mut text, style) = (text.as_ref(), style.into());
        let right = self.area.right().min(x.saturating_add(room.try_into().unwrap_or(u16::MAX)));
        if y < self.area.y || y >= self.area.bottom() || x < self.area.x {
            return (x, y);
        }
        while !text.is_empty() && x < right {
            let ascii = text.bytes().position(|byte| !byte.is_ascii()).unwrap_or(text.len());
            // What comes next may belong to the last letter, as an accent does.
            let joins = ascii < text.len() && ascii.checked_sub(1).is_some_and(|last| !text.as_bytes()[last].is_ascii_control());
            let plain = ascii - usize::from(joins);
            let from = self.index_of(x, y);
            let cells = self.content[from..from + usize::from(right - x)].iter_mut();
            let letters = text.as_bytes()[..plain].iter().filter(|byte| !byte.is_ascii_control());
            for (cell, letter) in cells.zip(letters) {
                cell.set_char(char::from(*letter)).set_style(style);
                x += 1;
            }
            text = &text[plain..];
            if text.is_empty() {
                break;
            }
            // The last letter, and all up to the next one.
            let first = usize::from(plain < ascii);
            let end = text.bytes().skip(first).position(|byte| byte.is_ascii()).map_or(text.len(), |at| at + first);
            let (after, _) = self.set_stringn(x, y, &text[..end], usize::from(right.saturating_sub(x)), style);
            let is_cut = after + 1 == right && text[..end].width() > usize::from(after - x);
            if is_cut {
                // A wide character did not fit: nothing behind it stands in its place.
                return (after, y);
            }
            (x, text) = (after, &text[end..]);
        }
        (x, y)
    }

    fn put_line(&mut self, mut x: u16, y: u16, line: &Line<'_>, room: u16) -> (u16, u16) {
        let right = x.saturating_add(room);
        for span in line {
            if x >= right {
                break;
            }
            (x, _) = self.put(x, y, &span.content, usize::from(right - x), line.style.patch(span.style));
        }
        (x, y)
    }

    fn put_many(&mut self, x: u16, y: u16, sign: char, count: u16, style: Style) {
        for x in x..x.saturating_add(count).min(self.area.right()) {
            if let Some(cell) = self.cell_mut((x, y)) {
                cell.set_char(sign).set_style(style);
            }
        }
    }
}
