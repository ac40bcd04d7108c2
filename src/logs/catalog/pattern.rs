//! The language of patterns. Shared with `build.rs`: nothing here may use the rest of the crate.
//!
//! A pattern is found anywhere in a text, case-sensitively:
//!
//! | sign | stands for |
//! | --- | --- |
//! | `*` | anything, as little as possible |
//! | `#` | digits, all that there are |
//! | `^` in front, `$` at the end | the ends of the text; white space may stand before its end |
//! | `{gpu}` | as `*`, and what it stands for is captured under that name; at the end of a pattern the rest of the line |
//! | `{pid:#}` | digits, captured |
//! | `{node:word}` | letters up to white space, a comma, a semicolon, a bracket or a quote |
//! | `{gpu:pci}` | the address of a PCI device: `0000:9b:00.0` |
//! | `{code}`, `{name}` | what the entry has under that key, if it has |
//! | `\` | takes the next sign's meaning away |

/// A part of a pattern; with the name of what it captures, which is empty where it captures nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Atom {
    Text(&'static str),
    Any(&'static str),
    Digits(&'static str),
    Word(&'static str),
    Pci(&'static str),
}

#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    /// As the catalogue has it, with its entry's constants.
    pub text: &'static str,
    pub atoms: &'static [Atom],
    pub at_start: bool,
    pub at_end: bool,
}

/// A name and what the text has for it.
pub type Captured<'t> = Vec<(&'static str, &'t str)>;

/// Of longer runs of digits, or of a word's letters, only so much is looked at, so that no text makes matching slow.
const LONGEST_RUN: usize = 256;
pub const MAX_PATTERN: usize = 500;

impl Atom {
    pub fn name(&self) -> &'static str {
        match self {
            Atom::Text(_) => "",
            Atom::Any(name) | Atom::Digits(name) | Atom::Word(name) | Atom::Pci(name) => name,
        }
    }

    fn may_begin_with(&self, c: char) -> bool {
        match self {
            Atom::Text(text) => text.starts_with(c),
            Atom::Any(_) => true,
            Atom::Digits(_) => c.is_ascii_digit(),
            Atom::Word(_) => is_of_word(c),
            Atom::Pci(_) => c.is_ascii_hexdigit(),
        }
    }
}

fn is_of_word(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, ',' | ';' | '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | '\'' | '"')
}

impl Pattern {
    /// Reads a pattern; `constants` are those of the entry, by name.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn parse(text: &str, constants: &[(&str, &str)]) -> Result<Pattern, String> {
        if text.len() > MAX_PATTERN {
            return Err(format!("the pattern has {} bytes, at most {MAX_PATTERN} are allowed", text.len()));
        }
        let mut atoms: Vec<Atom> = Vec::new();
        let mut literal = String::new();
        let (at_start, mut rest) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let mut at_end = false;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            let atom = match c {
                '*' => Atom::Any(""),
                '#' => Atom::Digits(""),
                '$' if rest.is_empty() => {
                    at_end = true;
                    break;
                }
                '{' => {
                    let (inside, behind) = rest.split_once('}').ok_or("a { without its }; write \\{ for the sign itself")?;
                    rest = behind;
                    if let Some((_, constant)) = constants.iter().find(|(name, _)| *name == inside) {
                        literal.push_str(constant);
                        continue;
                    }
                    capture(inside)?
                }
                '\\' => {
                    let next =
                        rest.chars().next().ok_or("a \\ at the end, which takes no sign's meaning away; write \\\\ for the sign itself")?;
                    literal.push(next);
                    rest = &rest[next.len_utf8()..];
                    continue;
                }
                c => {
                    literal.push(c);
                    continue;
                }
            };
            if !literal.is_empty() {
                atoms.push(Atom::Text(leak(&std::mem::take(&mut literal))));
            } else if atoms.last().is_some_and(|last| !matches!(last, Atom::Text(_))) {
                return Err("two placeholders side by side: nobody knows where the first ends; put text between them".into());
            }
            atoms.push(atom);
        }
        if !literal.is_empty() {
            atoms.push(Atom::Text(leak(&literal)));
        }
        let shown = constants.iter().fold(text.to_owned(), |shown, (name, value)| shown.replace(&format!("{{{name}}}"), value));
        Ok(Pattern { text: leak(&shown), atoms: Vec::leak(atoms), at_start, at_end })
    }

    /// Pieces of literal text.
    pub fn pieces(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.atoms.iter().filter_map(|atom| if let Atom::Text(text) = atom { Some(*text) } else { None })
    }

    /// Bytes of literal text.
    pub fn weight(&self) -> usize {
        self.pieces().map(str::len).sum()
    }

    /// Names of what it captures.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.atoms.iter().map(Atom::name).filter(|name| !name.is_empty())
    }

    /// Whether the text might have this pattern if it had other digits.
    pub fn may_match(&self, text: &str) -> bool {
        let mut parts = self.pieces().flat_map(|piece| piece.split(|c: char| c.is_ascii_digit()));
        parts.try_fold(text, |rest, part| rest.split_once(part).map(|(_, behind)| behind)).is_some()
    }

    /// Whether it may be in a text that begins so.
    pub fn may_begin(&self, start: &str) -> bool {
        match self.atoms.first() {
            Some(Atom::Text(first)) if self.at_start => first.starts_with(start) || start.starts_with(first),
            _ => true,
        }
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.captures(text).is_some()
    }

    /// What the text has for the names of this pattern; `None` if the pattern is not in the text.
    ///
    /// The time is that of a search for each piece: a piece that is found first leaves the most for the pieces behind it, so nothing has
    /// to be tried again.
    pub fn captures<'t>(&self, text: &'t str) -> Option<Captured<'t>> {
        let mut found = Vec::new();
        let mut at = 0;
        let mut open = None;
        let mut rest = self.atoms;
        loop {
            let run = rest.iter().take_while(|atom| !matches!(atom, Atom::Any(_))).count();
            let is_last = run == rest.len();
            if run > 0 {
                let fixed = self.at_start && open.is_none();
                let before = found.len();
                let (from, to) = find(&rest[..run], text, at, fixed, is_last && self.at_end, &mut found)?;
                if let Some((name, begin)) = open.filter(|(name, _): &(&str, usize)| !name.is_empty()) {
                    found.insert(before, (name, &text[begin..from]));
                }
                at = to;
            } else if let Some((name, begin)) = open.filter(|(name, _)| !name.is_empty()) {
                found.push((name, text[begin..].lines().next().unwrap_or("").trim()));
            }
            if is_last {
                return Some(found);
            }
            open = Some((rest[run].name(), at));
            rest = &rest[run + 1..];
        }
    }
}

/// `gpu`, `pid:#`
fn capture(inside: &str) -> Result<Atom, String> {
    let (name, kind) = inside.split_once(':').unwrap_or((inside, "*"));
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
        return Err(format!("{{{inside}}}: a capture's name is of small letters and _; write \\{{ for the sign itself"));
    }
    let name = leak(name);
    match kind {
        "*" => Ok(Atom::Any(name)),
        "#" => Ok(Atom::Digits(name)),
        "word" => Ok(Atom::Word(name)),
        "pci" => Ok(Atom::Pci(name)),
        other => Err(format!("{{{inside}}}: unknown kind {other:?}, expected one of \"#\", \"word\", \"pci\", or none for anything")),
    }
}

/// The first place at or behind `at` (or just there, if `fixed`) where the atoms stand, and where they end.
fn find<'t>(atoms: &[Atom], text: &'t str, at: usize, fixed: bool, to_end: bool, found: &mut Captured<'t>) -> Option<(usize, usize)> {
    let known = found.len();
    let mut at = at;
    loop {
        let from = match atoms[0] {
            _ if fixed => at,
            Atom::Text(first) => at + text[at..].find(first)?,
            first => at + text[at..].find(|c| first.may_begin_with(c))?,
        };
        if let Some(to) = all_of(atoms, text, from, found)
            && (!to_end || text[to..].trim_end().is_empty())
        {
            return Some((from, to));
        }
        found.truncate(known);
        if fixed {
            return None;
        }
        // A run that does not fit does not fit from its middle, either.
        let skipped = match atoms[0] {
            Atom::Digits(_) => run_of(&text[from..], |c| c.is_ascii_digit()),
            Atom::Word(_) => run_of(&text[from..], is_of_word),
            _ => 0,
        };
        at = from + skipped.max(text[from..].chars().next()?.len_utf8());
    }
}

/// Where the atoms end that begin at `at`.
fn all_of<'t>(atoms: &[Atom], text: &'t str, at: usize, found: &mut Captured<'t>) -> Option<usize> {
    let mut at = at;
    for (i, atom) in atoms.iter().enumerate() {
        let rest = &text[at..];
        let len = match atom {
            Atom::Text(literal) => rest.starts_with(literal).then_some(literal.len())?,
            Atom::Digits(_) => run_of(rest, |c| c.is_ascii_digit()),
            Atom::Word(_) => word(rest, atoms.get(i + 1))?,
            Atom::Pci(_) => address(rest),
            Atom::Any(_) => return None,
        };
        if len == 0 {
            return None;
        }
        if !atom.name().is_empty() {
            found.push((atom.name(), &rest[..len]));
        }
        at += len;
    }
    Some(at)
}

fn run_of(text: &str, is_of_run: impl Fn(char) -> bool) -> usize {
    text.char_indices().find(|(at, c)| *at >= LONGEST_RUN || !is_of_run(*c)).map_or(text.len(), |(at, _)| at)
}

/// The length of a word: up to the text that must follow it; else to its end, where a sentence's stop is not of it.
fn word(text: &str, next: Option<&Atom>) -> Option<usize> {
    let run = run_of(text, is_of_word);
    match next {
        Some(Atom::Text(next)) => {
            text[..run].char_indices().map(|(at, _)| at).chain([run]).find(|at| *at > 0 && text[*at..].starts_with(next))
        }
        _ => Some(text[..run].trim_end_matches(['.', ':']).len()),
    }
}

/// The length of a PCI address: `0000:9b:00.0`, `0000:9b:00`, `9b:00.0`.
fn address(text: &str) -> usize {
    let bytes = text.as_bytes();
    let hex = |from: usize| bytes[from..].iter().take(9).take_while(|b| b.is_ascii_hexdigit()).count();
    let colon = |at: usize| bytes.get(at) == Some(&b':');
    let domain = match hex(0) {
        n @ 4..=8 if colon(n) => n + 1,
        _ => 0,
    };
    if hex(domain) != 2 || !colon(domain + 2) || hex(domain + 3) != 2 {
        return 0;
    }
    let end = domain + 5;
    match bytes.get(end..end + 2) {
        Some([b'.', b'0'..=b'7']) => end + 2,
        // Else it may be the time of day.
        _ if domain == 0 => 0,
        _ => end,
    }
}

/// The catalogue lives as long as the program.
pub fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}
