//! Everything about one thing, in place of the panes: what `enter` on a row opens. It is drawn anew with every frame, and can be scrolled.
//!
//! **To add a kind**: a file below `details/` with a `pub const KIND: Kind`, and its line in [`KINDS`]. A pane's `open` leads to it.

mod comm;
mod finding;
mod gpu;
mod line;
mod page;
mod port;
mod process;
mod source;

use super::choices::Opened;
use super::panes::Ctx;
pub use page::{Facts, Page};
use ratatui::text::Line;

/// What there is to look at: a kind of thing, and which one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Of [`KINDS`].
    pub kind: &'static str,
    /// Its number or name, as its kind reads it.
    pub key: String,
}

impl Subject {
    pub fn new(kind: &'static str, key: impl ToString) -> Subject {
        Subject { kind, key: key.to_string() }
    }
}

pub struct Kind {
    pub id: &'static str,
    /// Writes all about the thing of this name and returns the title; `None`: at the moment that is shown there is no such thing.
    pub write: fn(&Ctx, &str, &mut Page) -> Option<String>,
}

pub const KINDS: &[Kind] = &[gpu::KIND, process::KIND, port::KIND, finding::KIND, comm::KIND, line::KIND, source::KIND];

/// A line, and where enter leads from it.
pub struct Entry {
    pub line: Line<'static>,
    pub to: Option<Opened>,
}

/// Title and lines for this width.
pub fn lines(ctx: &Ctx, subject: &Subject, width: usize) -> (String, Vec<Entry>) {
    let mut page = Page::new(ctx, width);
    let kind = KINDS.iter().find(|kind| kind.id == subject.kind);
    let title = kind.and_then(|kind| (kind.write)(ctx, &subject.key, &mut page));
    let title = title.unwrap_or_else(|| {
        page.note("not known at the moment that is shown");
        format!("{} {}", subject.kind, subject.key)
    });
    (title, page.entries())
}
