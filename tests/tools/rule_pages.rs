//! Writes `docs/rules`: `cargo run --example rule_pages`, after each change of a rule or of the catalogue.

#[path = "../it/support/rule_pages.rs"]
mod rule_pages;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/rules");
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    std::fs::create_dir_all(&dir)?;
    for (name, text) in rule_pages::pages() {
        std::fs::write(dir.join(name), text)?;
    }
    Ok(())
}
