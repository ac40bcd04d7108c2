//! The terminal, taken at the start and given back at every end: quit, error, signal, panic.

use anyhow::{Context as _, Result};
use crossterm::{cursor, execute, terminal};
use ratatui::Frame;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static ENTERED: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// # Errors
    /// If the terminal cannot be put into raw mode.
    pub fn enter() -> Result<Screen> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                // A source's thread that panics is reported as that source's state and does not end the screen.
                let main = std::thread::current().name() == Some("main");
                if main || !ENTERED.load(Ordering::SeqCst) {
                    leave();
                    before(info);
                } else {
                    crate::diagnostics::note(format_args!("{info}"));
                }
            }));
        });
        terminal::enable_raw_mode().context("the terminal cannot be put into raw mode")?;
        ENTERED.store(true, Ordering::SeqCst);
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide).context("the terminal")?;
        let out = BufWriter::with_capacity(32 << 10, io::stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out)).context("the terminal has no size")?;
        Ok(Screen { terminal })
    }

    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, view: impl FnOnce(&mut Frame)) -> Result<()> {
        self.terminal.draw(view).context("the terminal is gone")?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back; safe to call twice.
fn leave() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        let _ = execute!(out, terminal::LeaveAlternateScreen, cursor::Show);
        let _ = terminal::disable_raw_mode();
        let _ = out.flush();
    }
}
