//! Secrets that are known by their looks, or by what stands before them, whatever their name.

use super::values::looks_random;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::ops::Range;

/// A value that gives itself away.
pub struct Shape {
    /// As it is written; capitals count.
    pub prefix: &'static str,
    /// So many more characters at least.
    least: usize,
    /// What they may be besides letters and digits.
    also: &'static str,
}

const fn of(prefix: &'static str, least: usize, also: &'static str) -> Shape {
    Shape { prefix, least, also }
}

pub const SHAPES: &[Shape] = &[
    of("hf_", 16, ""),
    of("api_org_", 16, ""),
    of("wandb_v1_", 16, "_"),
    of("AKIA", 12, ""),
    of("ASIA", 12, ""),
    of("ghp_", 16, ""),
    of("gho_", 16, ""),
    of("ghu_", 16, ""),
    of("ghs_", 16, ""),
    of("ghr_", 16, ""),
    of("github_pat_", 16, "_"),
    of("glpat-", 16, "-_."),
    of("gldt-", 16, "-_"),
    of("glrt-", 16, "-_"),
    of("sk_live_", 16, ""),
    of("sk_test_", 16, ""),
    of("rk_live_", 16, ""),
    of("sk-", 16, "-_"),
    of("gsk_", 16, ""),
    of("xai-", 16, "-_"),
    of("pplx-", 16, ""),
    of("r8_", 20, ""),
    of("xoxb-", 16, "-"),
    of("xoxp-", 16, "-"),
    of("xoxa-", 16, "-"),
    of("xoxs-", 16, "-"),
    of("xoxe-", 16, "-"),
    of("xapp-", 16, "-"),
    of("npm_", 16, ""),
    of("pypi-", 16, "-_"),
    of("nvapi-", 16, "-_"),
    of("AIza", 16, "-_"),
    of("ya29.", 16, "-_."),
    of("GOCSPX-", 16, "-_"),
    of("1//0", 24, "-_"),
    of("eyJ", 24, "-_."),
    of("SG.", 24, "-_."),
    of("hvs.", 16, "-_."),
    of("dapi", 30, "-"),
    of("dckr_pat_", 16, "-_"),
    of("dop_v1_", 16, ""),
    of("glsa_", 16, "_"),
    of("lin_api_", 16, ""),
    of("tskey-", 16, "-"),
    of("shpat_", 16, ""),
    of("ATATT3", 24, "-_="),
    of("AGE-SECRET-KEY-1", 24, ""),
];

fn len_of(text: &str, which: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|b| which(*b)).count()
}

/// Whether digits or both cases are among them: names of functions and hosts have neither, or short ones.
fn is_mixed(text: &str) -> bool {
    let has = |which: fn(&u8) -> bool| text.as_bytes().iter().any(which);
    has(u8::is_ascii_digit) || (has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase))
}

/// The secret of that shape which begins at a place.
pub fn shape(text: &str, at: usize, shape: &Shape) -> Option<Range<usize>> {
    let tail = text[at..].strip_prefix(shape.prefix)?;
    let before = text[..at].bytes().next_back();
    // `\nhf_…` within a text that is quoted.
    let escape = before.is_some_and(|b| matches!(b, b'n' | b't' | b'r')) && text[..at - 1].ends_with('\\');
    if before.is_some_and(|b| b.is_ascii_alphanumeric()) && !escape {
        return None;
    }
    let len = len_of(tail, |b| b.is_ascii_alphanumeric() || shape.also.as_bytes().contains(&b));
    let is_key_id = len == 16 && matches!(shape.prefix, "AKIA" | "ASIA") && tail[..len].bytes().all(|b| b.is_ascii_uppercase());
    (len >= shape.least && (is_key_id || is_mixed(&tail[..len]))).then_some(at..at + shape.prefix.len() + len)
}

/// `Bearer …` anywhere.
pub fn bearer(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    if text[..hit.start].ends_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let at = text.len() - text[hit.end..].trim_start_matches(' ').len();
    let len = len_of(&text[at..], |b| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b));
    let value = text[at..at + len].trim_end_matches(['.', '=']);
    (value.len() >= 20 || looks_random(value, 6)).then_some(at..at + len)
}

const ANY_PADDING: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent));

/// `Basic …` anywhere: user and password with a colon between them, in base64.
pub fn basic(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let len = len_of(&text[hit.end..], |b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    let range = hit.end..hit.end + len;
    let login = ANY_PADDING.decode(&text[range.clone()]).ok()?;
    (len >= 6 && login.contains(&b':') && login.iter().all(|b| !b.is_ascii_control())).then_some(range)
}

/// `https://user:password@host`: from after `://` to before `@`. A name alone is no secret, unless it looks like one.
pub fn url_user(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let rest = &text[hit.end..];
    let ends_word = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>');
    let authority = &rest[..rest.find(|c: char| ends_word(c) || matches!(c, '/' | '?' | '#' | '\\')).unwrap_or(rest.len())];
    let at = match authority.rfind('@') {
        Some(at) => at,
        // A password that should have been encoded: what follows the colon is no port.
        None => {
            let (user, port) = authority.split_once(':')?;
            let is_port = port.is_empty() || port.bytes().all(|b| b.is_ascii_digit());
            if is_port || user.starts_with('[') || hit.start == 0 || text[..hit.start].ends_with("file") {
                return None;
            }
            let word = &rest[..rest.find(ends_word).unwrap_or(rest.len())];
            word.rfind('@').filter(|at| at + 1 < word.len())?
        }
    };
    let user = &rest[..at];
    let secret = user.contains(':') || user.contains("%3A") || user.len() >= 20 || looks_random(user, 12);
    (at > 0 && secret).then_some(hit.end..hit.end + at)
}

/// What is left of the word: the path of a web hook is its secret.
pub fn to_the_end_of_word(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let len = len_of(&text[hit.end..], |b| b.is_ascii_alphanumeric() || b"-_/:.@".contains(&b));
    let word = text[hit.end..hit.end + len].trim_end_matches(['.', ':']);
    (word.len() >= 8).then_some(hit.end..hit.end + word.len())
}

/// 40 hexadecimal digits soon after the word: a key of Weights & Biases, unless it is called a commit.
pub fn wandb(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    const NEAR: usize = 64;
    const COMMITS: &[&str] = &["commit", "sha", "rev", "hash", "head", "git", "digest", "checksum", "branch", "run"];
    // A word that begins near has 40 letters.
    let end = super::boundary(text, hit.end + NEAR + 41);
    let line = text[hit.end..end].lines().next().unwrap_or_default();
    let mut at = 0;
    while at < line.len().min(NEAR) {
        let start = at + len_of(&line[at..], |b| !b.is_ascii_alphanumeric());
        let len = len_of(&line[start..], |b| b.is_ascii_alphanumeric());
        let word = line.get(start..start + len)?;
        if len == 40 && word.bytes().all(|b| b.is_ascii_hexdigit()) {
            let between = line[..start].to_ascii_lowercase();
            return (!COMMITS.iter().any(|word| between.contains(word))).then_some(hit.end + start..hit.end + start + len);
        }
        at = start + len.max(1);
    }
    None
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// Behind `-----BEGIN … PRIVATE KEY-----`.
fn behind_begin(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at + BEGIN.len()..];
    let title = &rest[..rest.find("-----")?];
    (title.len() <= 40 && title.contains("PRIVATE KEY")).then_some(at + BEGIN.len() + title.len() + "-----".len())
}

/// A private key in one text: what stands between its first and its last line, or all the rest.
pub fn private_key(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let from = behind_begin(text, hit.start)?;
    let to = text[from..].find(END).map_or(text.len(), |n| from + n);
    let body = text[from..to].trim_start_matches(['\\', 'n', 'r', '\n', '\r', ' ']);
    let body = body.trim_end_matches(['\n', '\r', ' ']);
    let from = to - text[from..to].trim_start_matches(['\\', 'n', 'r', '\n', '\r', ' ']).len();
    let body = body.strip_suffix("\\n").unwrap_or(body);
    (body.len() >= 8).then_some(from..from + body.len())
}

/// Whether a private key begins on a line and does not end there.
pub fn opens_key(line: &str) -> bool {
    line.rfind(BEGIN).is_some_and(|at| behind_begin(line, at).is_some() && !line[at..].contains(END))
}

/// A line after the first one of a private key.
pub enum KeyLine {
    Body(Range<usize>),
    /// `Proc-Type: 4,ENCRYPTED`, or a line of somebody else in between.
    Head,
    Foot,
}

/// `None`: the key is over.
pub fn key_line(line: &str) -> Option<KeyLine> {
    if line.contains(END) {
        return Some(KeyLine::Foot);
    }
    let trimmed = line.trim_end();
    let start = trimmed.len() - trimmed.bytes().rev().take_while(|b| !b.is_ascii_whitespace() && *b != b'|' && b.is_ascii()).count();
    let word = trimmed[start..].trim_end_matches(['"', '\'', ',']);
    let is_base64 = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/=".contains(&b));
    // The last line may be short, if nothing stands before it.
    if is_base64 && (word.len() >= 40 || (start == trimmed.len() - trimmed.trim_start().len() && word.len() >= 4)) {
        return Some(KeyLine::Body(start..start + word.len()));
    }
    let is_head = trimmed.is_empty() || trimmed.starts_with("Proc-Type:") || trimmed.starts_with("DEK-Info:");
    is_head.then_some(KeyLine::Head)
}
