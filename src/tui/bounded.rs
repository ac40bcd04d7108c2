//! A terminal that is never larger than a screen can be: whoever holds the other end may claim 65,535 cells a side, and each is kept twice.

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use std::io::{self, Write};

/// Columns and rows that are drawn at most: a wall of displays with small letters has fewer.
const MOST: Size = Size { width: 1000, height: 500 };

pub struct Bounded<W: Write>(CrosstermBackend<W>);

impl<W: Write> Bounded<W> {
    pub fn new(out: W) -> Self {
        Bounded(CrosstermBackend::new(out))
    }
}

fn bounded(size: Size) -> Size {
    Size { width: size.width.min(MOST.width), height: size.height.min(MOST.height) }
}

impl<W: Write> Backend for Bounded<W> {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        self.0.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        self.0.get_cursor_position()
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.0.clear_region(clear_type)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size().map(bounded)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        let size = self.0.window_size()?;
        Ok(WindowSize { columns_rows: bounded(size.columns_rows), ..size })
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}
