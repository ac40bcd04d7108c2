//! The language of headlines. Shared with `build.rs`: nothing here may use the rest of the crate.
//!
//! Text with `{name}` for what was captured and `[…]` for parts that vanish where a capture inside of them is missing; `[…|…]` is the first
//! of several that has all of its captures. `{status|ibv_wc_status}` looks the captured word up in a table of the catalogue, or puts it into words by one of [`WAYS`]; where that
//! gives nothing the capture counts as missing. `\` takes the next sign's meaning away.
//!
//! Besides the captures there are `{host}`, which wrote the line, `{code}` and `{name}` of the entry, and `{short}`: its meaning up to the
//! first stop.

use super::pattern::leak;

/// Ways to put a capture into words that are no table: functions of this name know how.
pub const WAYS: &[&str] = &["kib", "lower", "exit", "detail", "s", "if"];
/// What every text has.
pub const GIVEN: &[&str] = &["host", "code", "name", "short"];

#[derive(Clone, Copy, Debug)]
pub struct Template {
    pub pieces: &'static [Piece],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Piece {
    Text(&'static str),
    /// A capture, and the table or way that puts it into words; empty: as it is.
    Value(&'static str, &'static str),
    /// The first of these whose captures are all there, if there is one.
    Optional(&'static [&'static [Piece]]),
}

impl Template {
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut rest = text;
        let pieces = pieces(&mut rest, false)?;
        Ok(Template { pieces })
    }

    /// Each capture that it uses, with the table or way.
    pub fn values(&self) -> Vec<(&'static str, &'static str)> {
        fn of(pieces: &'static [Piece], out: &mut Vec<(&'static str, &'static str)>) {
            for piece in pieces {
                match piece {
                    Piece::Text(_) => {}
                    Piece::Value(name, how) => out.push((name, how)),
                    Piece::Optional(either) => either.iter().for_each(|inside| of(inside, out)),
                }
            }
        }
        let mut out = Vec::new();
        of(self.pieces, &mut out);
        out
    }

    /// The words; `None` where a capture is missing that does not stand in brackets. `value` gives a capture in words.
    pub fn fill(&self, value: &dyn Fn(&str, &str) -> Option<String>) -> Option<String> {
        let mut out = String::new();
        fill(self.pieces, value, &mut out).then_some(out)
    }
}

fn fill(pieces: &[Piece], value: &dyn Fn(&str, &str) -> Option<String>, out: &mut String) -> bool {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Value(name, how) => match value(name, how) {
                Some(words) => out.push_str(&words),
                None => return false,
            },
            Piece::Optional(either) => {
                let before = out.len();
                for inside in *either {
                    if fill(inside, value, out) {
                        break;
                    }
                    out.truncate(before);
                }
            }
        }
    }
    true
}

/// Reads pieces up to the end of the text or, inside of brackets, up to a `|` or `]`, which is left for the caller.
fn pieces(rest: &mut &str, is_inside: bool) -> Result<&'static [Piece], String> {
    let mut out = Vec::new();
    let mut literal = String::new();
    while let Some(c) = rest.chars().next() {
        if is_inside && matches!(c, '|' | ']') {
            break;
        }
        *rest = &rest[c.len_utf8()..];
        let piece = match c {
            '[' if is_inside => return Err("a [ inside of brackets; write \\[ for the sign itself".into()),
            ']' => return Err("a ] without its [; write \\] for the sign itself".into()),
            '[' => Piece::Optional(either(rest)?),
            '{' => {
                let (inside, behind) = rest.split_once('}').ok_or("a { without its }; write \\{ for the sign itself")?;
                *rest = behind;
                let (name, how) = inside.split_once('|').unwrap_or((inside, ""));
                Piece::Value(leak(name), leak(how))
            }
            '\\' => {
                let next = rest.chars().next().ok_or("a \\ at the end; write \\\\ for the sign itself")?;
                literal.push(next);
                *rest = &rest[next.len_utf8()..];
                continue;
            }
            c => {
                literal.push(c);
                continue;
            }
        };
        if !literal.is_empty() {
            out.push(Piece::Text(leak(&std::mem::take(&mut literal))));
        }
        out.push(piece);
    }
    if !literal.is_empty() {
        out.push(Piece::Text(leak(&literal)));
    }
    Ok(Vec::leak(out))
}

/// What stands in brackets, the first of which has been read.
fn either(rest: &mut &str) -> Result<&'static [&'static [Piece]], String> {
    let mut out = Vec::new();
    loop {
        out.push(pieces(rest, true)?);
        let end = rest.chars().next().ok_or("a [ without its ]; write \\[ for the sign itself")?;
        *rest = &rest[1..];
        if end == ']' {
            return Ok(Vec::leak(out));
        }
    }
}
