//! Keeps secrets out of everything that is shown, printed and recorded. There is no other masker.
//!
//! What comes in is masked once, before anything is kept or cut: half a secret is a secret too. What is printed is masked once more, for
//! what comes by other ways, such as names of files. Rather one `***` too many than one password on a tape; but a line without a secret
//! stays as it is, byte for byte.

mod flags;
mod names;
mod shapes;
mod values;

use super::clean::clean;
use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};
use names::Class;
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

/// What stands in the place of a secret.
pub const MASK: &str = "***";

/// What each secret has: a word in its name, a beginning, or what stands before it. Only there is a text looked at more closely.
const WORDS: &[&str] = &[
    "token",
    "secret",
    "pass",
    "pwd",
    "key",
    "cred",
    "auth",
    "cookie",
    "signature",
    "sig=",
    "code=",
    "sessionid",
    "jwt",
    "webhook",
    "_pat=",
    "_pat:",
];

/// What is found in a text by something else than a name.
const PLACES: &[(&str, Find)] = &[
    ("bearer ", shapes::bearer),
    ("basic ", shapes::basic),
    ("://", shapes::url_user),
    ("-----begin ", shapes::private_key),
    ("wandb", shapes::wandb),
    ("hooks.slack.com/services/", shapes::to_the_end_of_word),
    ("hooks.slack.com/workflows/", shapes::to_the_end_of_word),
    ("/api/webhooks/", shapes::to_the_end_of_word),
    ("office.com/webhook", shapes::to_the_end_of_word),
    ("api.telegram.org/bot", shapes::to_the_end_of_word),
    ("identified by ", values::in_quotes),
    ("azurekeycredential(", values::in_quotes),
    (" -p", flags::short),
    (" -u", flags::short),
    (" --user", flags::short),
    (" -a ", flags::short),
    (" -w ", flags::short),
];

/// From a text and where one of [`PLACES`] stands in it to what is to be hidden.
type Find = fn(&str, Range<usize>) -> Option<Range<usize>>;

static HINTS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let places = PLACES.iter().map(|(word, _)| *word);
    let shapes = shapes::SHAPES.iter().map(|shape| shape.prefix);
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostFirst).start_kind(StartKind::Unanchored);
    builder.build(shapes.chain(WORDS.iter().copied()).chain(places)).ok()
});

/// How many bytes before and behind a hint are looked at: a text of hints only takes linear time too.
const NEAR: usize = 1024;
/// A value that ends so close to the end of what was looked at may go on behind it.
const MARGIN: usize = 16;

/// Any text, of one line or several, without what is secret in it. Where colours or invisible characters stand between the parts of a
/// secret, its line comes back without them.
pub fn text(text: &str) -> Cow<'_, str> {
    if !may_be_coloured(text) {
        return plain(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut changed = false;
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches(['\r', '\n']);
        // What a carriage return parts stays apart.
        let parted = body.replace('\r', " ");
        let cleaned = if may_be_coloured(body) { clean(&parted) } else { Cow::Borrowed(body) };
        match plain(&cleaned) {
            Cow::Owned(masked) => {
                changed = true;
                out.push_str(&masked);
                out.push_str(&line[body.len()..]);
            }
            Cow::Borrowed(_) => out.push_str(line),
        }
    }
    match plain(&out) {
        Cow::Owned(masked) => masked.into(),
        Cow::Borrowed(_) if changed => out.into(),
        Cow::Borrowed(_) => text.into(),
    }
}

/// Whether a text may hold escape sequences, as such or spelled out, or characters that are not seen.
fn may_be_coloured(text: &str) -> bool {
    let printable = text.bytes().fold(true, |all, b| all & ((0x20..0x7f).contains(&b) | (b == b'\n') | (b == b'\t')));
    let is_spelled = || super::clean::SPELLED.iter().any(|escape| text.contains(escape));
    !printable || (memchr::memchr2(b'\\', b'^', text.as_bytes()).is_some() && is_spelled())
}

/// A text without escape sequences.
fn plain(text: &str) -> Cow<'_, str> {
    let Some(hints) = HINTS.as_ref() else { return MASK.into() };
    let mut out = String::new();
    let (mut done, mut at) = (0, 0);
    while let Some(hit) = hints.find(Input::new(text).range(at..).anchored(Anchored::No)) {
        let (found, next) = look_near(text, hit.pattern().as_usize(), hit.range());
        at = next;
        if let Some(range) = found.filter(|range| range.start >= done && range.start < range.end && &text[range.clone()] != MASK) {
            out.push_str(&text[done..range.start]);
            out.push_str(MASK);
            done = range.end;
            at = range.end.max(hit.start() + 1);
        }
    }
    if done == 0 {
        return text.into();
    }
    out.push_str(&text[done..]);
    out.into()
}

/// The place itself, or where the character ends that it is in.
fn boundary(text: &str, at: usize) -> usize {
    (at..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// [`look`] with a bounded part of the text, and with more of it only as long as the secret goes on.
fn look_near(text: &str, hint: usize, at: Range<usize>) -> (Option<Range<usize>>, usize) {
    let from = boundary(text, at.start.saturating_sub(NEAR));
    // A login in an address may be a long token. No other address begins before its end, so that nothing is looked at twice.
    let ends_login = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'/' | b'"' | b'\'' | b'<' | b'>' | b'`');
    let is_address = text[at.clone()].ends_with("://");
    let login = if is_address { text.as_bytes()[at.end..].iter().position(ends_login).unwrap_or_default() } else { 0 };
    let mut ahead = NEAR + login;
    let mut longest: Option<Range<usize>> = None;
    loop {
        let to = boundary(text, at.end + ahead);
        let (found, next) = look(&text[from..to], hint, at.start - from..at.end - from);
        let found = found.map(|range| range.start + from..range.end + from);
        let goes_on = to < text.len() && found.as_ref().is_some_and(|range| range.end + MARGIN >= to);
        longest = found.or(longest);
        if !goes_on {
            return (longest, next + from);
        }
        ahead *= 2;
    }
}

/// What is to be hidden where a hint stands, and where to look on: what begins as this does may be something else, ` -p` and ` -pass`.
fn look(text: &str, hint: usize, at: Range<usize>) -> (Option<Range<usize>>, usize) {
    let again = at.start + 1;
    let Some(no) = hint.checked_sub(shapes::SHAPES.len()) else {
        return (shapes::shape(text, at.start, &shapes::SHAPES[hint]), again);
    };
    match (WORDS.get(no), PLACES.get(no.wrapping_sub(WORDS.len()))) {
        (Some(word), _) => (named(text, at.start..at.end - usize::from(word.ends_with(['=', ':']))), at.end),
        (None, Some((_, find))) => (find(text, at), again),
        (None, None) => (None, again),
    }
}

/// A line as it may be printed: [`clean`], and without what is secret in it.
pub fn shown(line: &str) -> Cow<'_, str> {
    match clean(line) {
        Cow::Borrowed(line) => text(line),
        Cow::Owned(line) => text(&line).into_owned().into(),
    }
}

/// A document without what is secret in its texts.
pub fn document(value: &mut Value) {
    match value {
        Value::String(string) => {
            if let Cow::Owned(masked) = text(string) {
                *string = masked;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(document),
        Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| match field {
            // Variables of the environment by their names; our own fields are written in small letters.
            Value::String(value) if !name.bytes().any(|b| b.is_ascii_lowercase()) => *value = variable(name, value),
            _ => document(field),
        }),
        _ => {}
    }
}

/// The value that the name around a word has, if it is one to hide.
fn named(text: &str, word: Range<usize>) -> Option<Range<usize>> {
    values::after(text, &names::around(text, word))
}

/// The arguments of a program with every secret replaced.
pub fn arguments(args: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::with_capacity(args.len());
    for (i, arg) in args.iter().enumerate() {
        let masked = match flags::argument(&args[..i], arg) {
            Some(range) => format!("{}{MASK}{}", &arg[..range.start], &arg[range.end..]),
            None => text(arg).into_owned(),
        };
        shown.push(masked);
    }
    shown
}

/// The value of a variable as it may be shown.
pub fn variable(name: &str, value: &str) -> String {
    let class = names::class(name, &(0..name.len()));
    if class != Class::Plain && values::is_secret(value, class, true) { MASK.into() } else { text(value).into_owned() }
}

/// Whether a variable has the name of something secret, whatever its value.
pub fn is_secret_name(name: &str) -> bool {
    names::class(name, &(0..name.len())) >= Class::Counted
}

/// Lines that come one after the other. A secret may stand in several: a private key, or the value below the name of a variable.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    expects: Expects,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Expects {
    #[default]
    Nothing,
    /// So many more lines may belong to a private key.
    Key(u8),
    /// `- name: HF_TOKEN` was there; `value: …` follows.
    Value,
    /// `api_key: |` was there, so deep in the text; what stands deeper belongs to it, for so many more lines.
    Block(usize, u8),
}

/// A key of 16,384 bits has about 200 lines.
const MOST_KEY_LINES: u8 = 220;

impl Lines {
    /// The next line without what is secret in it.
    pub fn line<'a>(&mut self, line: &'a str) -> Cow<'a, str> {
        let masked = match std::mem::take(&mut self.expects) {
            Expects::Key(left) => match shapes::key_line(line) {
                Some(shapes::KeyLine::Body(range)) => {
                    self.expects = left.checked_sub(1).map_or(Expects::Nothing, Expects::Key);
                    return format!("{}{MASK}{}", &line[..range.start], &line[range.end..]).into();
                }
                Some(shapes::KeyLine::Head) => {
                    self.expects = Expects::Key(left);
                    return line.into();
                }
                Some(shapes::KeyLine::Foot) => return line.into(),
                None => text(line),
            },
            Expects::Value => match values::of_value_line(line) {
                Some(range) => return format!("{}{MASK}{}", &line[..range.start], &line[range.end..]).into(),
                None => text(line),
            },
            Expects::Block(deep, left) if line.trim().is_empty() || values::depth(line) > deep => {
                self.expects = left.checked_sub(1).map_or(Expects::Nothing, |left| Expects::Block(deep, left));
                if line.trim().is_empty() {
                    return line.into();
                }
                return format!("{}{MASK}", &line[..values::depth(line)]).into();
            }
            Expects::Block(..) | Expects::Nothing => text(line),
        };
        if shapes::opens_key(line) {
            self.expects = Expects::Key(MOST_KEY_LINES);
        } else if values::names_a_secret(line) {
            self.expects = Expects::Value;
        } else if let Some(deep) = values::names_a_block(line) {
            self.expects = Expects::Block(deep, MOST_KEY_LINES);
        }
        masked
    }

    /// Whether the line before it makes a difference to the next.
    pub fn is_idle(&self) -> bool {
        self.expects == Expects::Nothing
    }
}
