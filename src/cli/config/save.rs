//! Writes settings into the config file. What stands there besides keeps its place, its order and its comments.

use super::Changed;
use crate::base::file::read_text;
use crate::base::words::io_words;
use crate::edge::private;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

/// Writes these settings to the config file at `path`, which is made where there is none. Returns the file that was written: where a link
/// leads.
///
/// # Errors
/// Why nothing was written, with the file.
pub fn save(path: &Path, changes: &[Changed]) -> Result<PathBuf, String> {
    let place = if path.is_symlink() { path.canonicalize().map_err(|err| named(path, io_words(&err)))? } else { path.to_path_buf() };
    let text = match place.symlink_metadata() {
        Ok(_) => read_text(&place, super::MAX_FILE_BYTES).map_err(|why| named(&place, why))?,
        Err(_) => "# Settings of nccl-top; `nccl-top config` prints all of them.\n".to_owned(),
    };
    let edited = edit(&text, changes).map_err(|why| named(&place, why))?;
    if let Some(folder) = place.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(|err| named(folder, io_words(&err)))?;
    }
    private::replace(&place, edited.as_bytes()).map_err(|err| named(&place, io_words(&err)))?;
    Ok(place)
}

fn named(path: &Path, why: impl std::fmt::Display) -> String {
    format!("{}: {why}", path.display())
}

/// The file's text with other values.
///
/// # Errors
/// If it is no TOML as it stands: then nobody can say what belongs where.
pub fn edit(text: &str, changes: &[Changed]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|err: toml_edit::TomlError| {
        let line = err.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        format!("line {line}: {}; mend it first, nothing was written", err.message())
    })?;
    // Comments alone belong to no setting: what is new comes below them.
    if document.is_empty() && !text.trim().is_empty() {
        let end = if text.ends_with('\n') { "" } else { "\n" };
        return Ok(format!("{text}{end}{}", edit("", changes)?));
    }
    for (key, value) in changes {
        let value: Value = value.parse().map_err(|_| format!("{key}: {value} cannot be written"))?;
        let (table, name) = key.split_once('.').map_or((None, *key), |(table, name)| (Some(table), name));
        put(document.as_table_mut(), table, name, value);
    }
    Ok(document.to_string())
}

fn put(root: &mut Table, table: Option<&str>, name: &str, value: Value) {
    let Some(table) = table else { return replace(root, name, value) };
    // A setting that is in a table today may stand there by its former name, `alert = "bell"`.
    let former = root.get(table).and_then(Item::as_value).filter(|value| !value.is_inline_table()).cloned();
    match former {
        Some(_) if name == "terminal" => return replace(root, table, value),
        Some(former) => {
            root.insert(table, dotted());
            put(root, Some(table), "terminal", former);
        }
        None => {}
    }
    if let Some(inside) = root.entry(table).or_insert_with(dotted).as_table_like_mut() {
        replace(inside, name, value);
    }
}

/// A table whose keys are written as `table.key`.
fn dotted() -> Item {
    let mut table = Table::new();
    table.set_dotted(true);
    Item::Table(table)
}

/// The comment behind the value stays.
fn replace(table: &mut dyn TableLike, name: &str, mut value: Value) {
    if let Some(before) = table.get_mut(name).and_then(Item::as_value_mut) {
        value.decor_mut().clone_from(before.decor());
        *before = value;
    } else {
        table.insert(name, Item::Value(value));
    }
}
