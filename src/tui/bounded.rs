//! A terminal that is never larger than a screen can be: whoever holds the other end may claim 65,535 cells a side, and each is kept twice.
//! What is drawn on it goes through a [`Pen`].

use super::pen::Pen;
use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use std::io::{self, Write};

/// Columns and rows that are drawn at most: a wall of displays with small letters has fewer.
const MOST: Size = Size { width: 1000, height: 500 };

pub struct Bounded<W: Write> {
    terminal: CrosstermBackend<W>,
    paints_erased: bool,
}

impl<W: Write> Bounded<W> {
    /// `paints_erased`: see [`super::pen::paints_erased`].
    pub fn new(out: W, paints_erased: bool) -> Self {
        Bounded { terminal: CrosstermBackend::new(out), paints_erased }
    }
}

fn bounded(size: Size) -> Size {
    Size { width: size.width.min(MOST.width), height: size.height.min(MOST.height) }
}

impl<W: Write> Backend for Bounded<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        let size = self.size().unwrap_or(MOST);
        self.terminal.write_all(&Pen::new(size, self.paints_erased).bytes(content))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.terminal.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.terminal.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.terminal.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.terminal.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        // With the colours of the last frame some terminals would paint everything.
        self.terminal.write_all(b"\x1b[m")?;
        self.terminal.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.terminal.clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        self.terminal.size().map(bounded)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        let size = self.terminal.window_size()?;
        Ok(WindowSize { columns_rows: bounded(size.columns_rows), ..size })
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.terminal)
    }
}
