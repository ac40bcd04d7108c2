//! A source: what it says of itself, whole.

use super::{Kind, Page};
use crate::tui::panes::{Ctx, sources};

pub const KIND: Kind = Kind { id: "source", write };

fn write(ctx: &Ctx, key: &str, page: &mut Page) -> Option<String> {
    for (label, value) in sources::cells(ctx, key)? {
        page.fact(label, value.as_deref().unwrap_or("–"), ctx.theme.text);
    }
    page.findings(|f| f.rule == "source-trouble" && f.subject == key);
    Some(format!("source {key}"))
}
