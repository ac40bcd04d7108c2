//! Keeps secrets out of what is shown and recorded. Rather one `***` too many than one password on a tape.

use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

pub const MASK: &str = "***";

const SECRET_WORDS: &[&str] = &["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// Values that give themselves away: prefix, how many more characters at least, and which besides letters and digits.
const SECRET_SHAPES: &[(&str, usize, &str)] = &[
    ("hf_", 16, ""),
    ("AKIA", 12, ""),
    ("ASIA", 12, ""),
    ("sk-", 16, "-_"),
    ("nvapi-", 16, "-_"),
    ("ghp_", 16, ""),
    ("gho_", 16, ""),
    ("ghs_", 16, ""),
    ("github_pat_", 16, "_"),
    ("glpat-", 16, "-_"),
    ("xoxb-", 16, "-"),
    ("xoxp-", 16, "-"),
    ("AIza", 16, "-_"),
    ("eyJ", 24, "-_."),
];

/// Is this the name of something secret?
pub fn is_secret_name(name: &str) -> bool {
    // Every trainer has --tokenizer-something, which nobody wants hidden.
    let name = name.to_ascii_uppercase().replace("TOKENIZER", "");
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// `--max-tokens 4096` is a count.
fn is_count(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let numeric = value.replace('_', "").parse::<f64>().is_ok();
    numeric && !is_secret_name(&name.replace("TOKENS", ""))
}

/// The arguments with every secret replaced.
pub fn arguments(args: &[String]) -> Vec<String> {
    let mut pending = None;
    args.iter()
        .map(|arg| {
            // A whole script in one argument (`bash -c "export HF_TOKEN=…; python …"`) is words within a word.
            if arg.contains(char::is_whitespace) { script(arg, &mut pending) } else { word(arg, &mut pending) }
        })
        .map(|arg| shapes(&arg))
        .collect()
}

/// A value without the parts that look like a secret.
pub fn value(text: &str) -> String {
    shapes(text)
}

/// Any text without what looks like a secret, and without the values of variables that are named like one: `env` in a job script
/// prints them. Safe on the JSON of a text: it takes no quote and no backslash.
pub fn text(text: &str) -> Cow<'_, str> {
    static ASSIGNED: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"\b[A-Z0-9_]*(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL)[A-Z0-9_]*=[^\s"'\\,;]+"#).ok());
    let hide = |found: &regex::Captures| match found[0].split_once('=') {
        Some((name, value)) if is_secret_name(name) && !is_count(name, value) => format!("{name}={MASK}"),
        _ => found[0].to_owned(),
    };
    let assigned = ASSIGNED.as_ref().map_or(Cow::Borrowed(text), |regex| regex.replace_all(text, hide));
    let masked = shapes(&assigned);
    if masked == text { Cow::Borrowed(text) } else { Cow::Owned(masked) }
}

/// The value of a variable as it may be shown.
pub fn variable(name: &str, text: &str) -> String {
    if is_secret_name(name) { MASK.into() } else { value(text) }
}

/// What the word before says about the next one.
type Pending = Option<String>;

fn word(text: &str, pending: &mut Pending) -> String {
    if let Some(name) = pending.take().filter(|name| !text.starts_with("--") && !is_count(name, text)) {
        // `--header "Authorization: Bearer xyz"`: the scheme is no secret, what follows is.
        *pending = text.eq_ignore_ascii_case("bearer").then_some(name);
        return if pending.is_some() { text.into() } else { MASK.into() };
    }
    // `--env=HF_TOKEN=abc` has two names.
    let mut start = 0;
    while let Some(equals) = text[start..].find('=').map(|at| start + at) {
        let (name, rest) = (&text[start..equals], &text[equals + 1..]);
        if is_secret_name(name) && !is_count(name, rest) {
            return format!("{}{MASK}", &text[..=equals]);
        }
        start = equals + 1;
    }
    if let Some(colon) = secret_before_colon(text) {
        return format!("{}{MASK}", &text[..=colon]);
    }
    let names_next = text.starts_with('-') || text.ends_with(':') || text.eq_ignore_ascii_case("bearer");
    if names_next && (is_secret_name(text) || text.trim_end_matches(':').eq_ignore_ascii_case("bearer")) {
        *pending = Some(text.trim_matches(['-', ':']).to_owned());
    }
    text.into()
}

/// `{"api_key":"…"}` and `api_key:…`: where the colon is.
fn secret_before_colon(text: &str) -> Option<usize> {
    let mut start = 0;
    while let Some(colon) = text[start..].find(':').map(|at| start + at) {
        let name = text[..colon].rsplit(['{', ',', ';', '/', '=']).next().unwrap_or_default();
        if colon + 1 < text.len() && is_secret_name(name) {
            return Some(colon);
        }
        start = colon + 1;
    }
    None
}

fn script(text: &str, pending: &mut Pending) -> String {
    let mut masked = String::with_capacity(text.len());
    // A quoted secret may hold spaces: hidden up to the closing quote.
    let mut open_quote: Option<char> = None;
    for piece in text.split_inclusive(char::is_whitespace) {
        let bare = piece.trim_end();
        let space = &piece[bare.len()..];
        if let Some(quote) = open_quote {
            if bare.contains(quote) {
                open_quote = None;
            }
            continue;
        }
        if bare.is_empty() {
            masked.push_str(space);
            continue;
        }
        let shown = word(bare, pending);
        if shown.ends_with(MASK) && !bare.ends_with(MASK) {
            let hidden = &bare[shown.len().saturating_sub(MASK.len()).min(bare.len())..];
            open_quote = hidden.chars().next().filter(|c| matches!(c, '"' | '\'') && hidden.matches(*c).count() == 1);
        }
        masked.push_str(&shown);
        masked.push_str(space);
    }
    masked
}

/// Replaces what looks like a secret wherever it stands: well-known prefixes, and the user part of a URL.
fn shapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let found = if before.is_ascii_alphanumeric() { None } else { shape_len(rest) };
        let skipped = match found.or_else(|| url_user_len(&out, rest)) {
            Some(len) => {
                out.push_str(MASK);
                len
            }
            None => {
                out.push(first);
                first.len_utf8()
            }
        };
        before = rest[..skipped].chars().next_back().unwrap_or(' ');
        rest = &rest[skipped..];
    }
    out
}

fn shape_len(text: &str) -> Option<usize> {
    SECRET_SHAPES.iter().find_map(|(prefix, least, also)| {
        let tail = text.strip_prefix(prefix)?;
        let len = tail.bytes().take_while(|b| b.is_ascii_alphanumeric() || also.as_bytes().contains(b)).count();
        let random = tail[..len].bytes().any(|b| b.is_ascii_digit());
        (len >= *least && random).then_some(prefix.len() + len)
    })
}

/// `https://user:password@host`: from after `://` to before `@`.
fn url_user_len(done: &str, rest: &str) -> Option<usize> {
    if !done.ends_with("://") {
        return None;
    }
    let authority = &rest[..rest.find(['/', '?', '#', ' ', '"', '\'']).unwrap_or(rest.len())];
    authority.rfind('@').filter(|at| *at > 0)
}
