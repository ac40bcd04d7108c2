//! Over a slow line a frame goes in parts. What a key asks for must not wait for what was drawn before, so that no more lies in the line at
//! any time than it carries in a moment: rows that do not fit stay as they are, and come with the next part.

use super::pen::Pen;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;
use std::ops::Range;

pub struct Parts {
    /// Bytes of a part.
    most: usize,
    /// See [`super::pen::paints_erased`].
    paints_erased: bool,
    /// What the terminal shows.
    shown: Buffer,
    /// The row that comes first of those that are all alike: none waits for ever.
    next: u16,
}

impl Parts {
    pub fn new(most: usize, paints_erased: bool) -> Parts {
        Parts { most, paints_erased, shown: Buffer::default(), next: 0 }
    }

    /// The terminal shows nothing any more.
    pub fn forget(&mut self) {
        self.shown = Buffer::default();
    }

    /// Leaves in `buf` the rows that are sent now, and puts what is shown into all others. The first row and the last come first, where the
    /// state stands and what was typed, then those of the pane that keys go to. Returns whether all are sent.
    pub fn take(&mut self, buf: &mut Buffer, first: Range<u16>) -> bool {
        if self.shown.area != buf.area {
            self.shown = Buffer::empty(buf.area);
        }
        let height = buf.area.height;
        let (from, first) = (self.next.min(height), first.start.min(height)..first.end.min(height));
        let all = [0, height.saturating_sub(1)].into_iter().chain(first).chain(from..height).chain(0..from);
        let mut seen = vec![false; usize::from(height)];
        let (mut left, mut waiting) = (self.most, None);
        for y in all.filter(|y| !std::mem::replace(&mut seen[usize::from(*y)], true)) {
            let bytes = self.bytes_of(buf, y);
            // At least one row each time, however much it takes.
            if bytes <= left || left == self.most {
                left = left.saturating_sub(bytes);
            } else {
                waiting = waiting.or(Some(y));
                self.put_back(buf, y);
            }
        }
        self.next = waiting.unwrap_or(0);
        self.shown.clone_from(buf);
        waiting.is_none()
    }

    fn bytes_of(&self, buf: &Buffer, y: u16) -> usize {
        let (row, shown) = (cells_of(buf, y), cells_of(&self.shown, y));
        let changed = buf.content[row.clone()].iter().zip(&self.shown.content[shown]).zip(0..).filter(|((new, old), _)| new != old);
        let mut cells = changed.map(|((new, _), x)| (x, y, new)).peekable();
        if cells.peek().is_none() {
            return 0;
        }
        Pen::new(Size { width: buf.area.width, height: buf.area.height }, self.paints_erased).bytes(cells).len()
    }

    fn put_back(&self, buf: &mut Buffer, y: u16) {
        let row = cells_of(buf, y);
        buf.content[row.clone()].clone_from_slice(&self.shown.content[row]);
    }
}

fn cells_of(buf: &Buffer, y: u16) -> Range<usize> {
    let width = usize::from(buf.area.width);
    usize::from(y) * width..(usize::from(y) + 1) * width
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;

    fn drawn(rows: &[&str]) -> Buffer {
        Buffer::with_lines(rows.iter().copied())
    }

    fn rows(buf: &Buffer) -> Vec<String> {
        (0..buf.area.height)
            .map(|y| buf.content[cells_of(buf, y)].iter().map(|c| c.symbol()).collect::<String>().trim_end().into())
            .collect()
    }

    #[test]
    fn what_was_typed_comes_first_and_every_row_in_its_turn() {
        // Each row takes some twenty bytes.
        let mut parts = Parts::new(50, true);
        let whole = drawn(&["state 12", "chart 12", "chart 12", "chart 12", "lists 12", "lists 12", "footer 1"]);
        let mut order = Vec::new();
        for _ in 0..10 {
            let mut buf = whole.clone();
            let done = parts.take(&mut buf, 4..6);
            order.push(rows(&buf).iter().filter(|row| !row.is_empty()).count());
            if done {
                assert_eq!(buf, whole);
                break;
            }
            assert!(!rows(&buf)[0].is_empty() && !rows(&buf)[6].is_empty(), "{:?}", rows(&buf));
            assert!(order.len() < 2 || !rows(&buf)[4].is_empty(), "the pane that keys go to: {:?}", rows(&buf));
        }
        assert!(order.len() >= 3 && order.is_sorted() && order.last() == Some(&7), "{order:?}");
        // Nothing has changed: nothing is sent, and nothing waits.
        assert!(parts.take(&mut whole.clone(), 0..0));
        // Rows that change all the time do not keep the others out.
        let mut late = 0;
        for i in 0..20 {
            let texts: Vec<String> = (0..7).map(|y| format!("row {y} at {i:04} {}", i * 7919 + y)).collect();
            let mut buf = drawn(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            parts.take(&mut buf, 0..0);
            let oldest = rows(&buf).iter().filter_map(|row| row.split(" at ").nth(1)?[..4].parse::<usize>().ok()).min();
            late = late.max(i as usize - oldest.unwrap_or(0).min(i as usize));
        }
        assert!(late <= 8, "a row waits for {late} frames");
    }

    #[test]
    fn another_size_is_drawn_anew() {
        let mut parts = Parts::new(10_000, true);
        assert!(parts.take(&mut drawn(&["one", "two"]), 0..0));
        let mut wide = drawn(&["one more", "two more", "three"]);
        assert!(parts.take(&mut wide, 0..9));
        assert_eq!(rows(&wide), ["one more", "two more", "three"]);
        parts.forget();
        assert_eq!(parts.shown.area, Rect::ZERO);
    }
}
