//! Where the value of a name begins and ends, and whether it is a secret at all.

use super::MASK;
use super::names::{self, Class, is_among};
use std::ops::Range;

/// Words that stand where a secret might, and are none.
const PLACEHOLDERS: &str = "\
    none null nil true false yes no on off not missing invalid incorrect expired required optional unset set ok failed rejected \
    wrong unknown empty default str string bytes int bool any object type value is was to or and for the a an flag option argument \
    must can may should in with from if that this of has have does will undefined redacted hidden masked secret prompt stdin env \
    self unexpected found authentication accepted denied changed disabled enabled error loaded mismatch";

/// Ways to log in: what `auth` may be without being secret.
const METHODS: &str = "\
    basic bearer digest gssapi jwt kerberos krb ldap md5 munge negotiate ntlm oauth oauth2 pam plain scram scram-sha-256 sso token \
    trust x509 iam";

/// What stands before a secret in a header. Of the last ones all that follows is secret.
const SCHEMES: &str = "bearer basic token apikey bot negotiate ntlm splunk key digest aws4-hmac-sha256 oauth hawk";
const LONG_SCHEMES: usize = 9;

fn skip(text: &str, at: usize, which: impl Fn(u8) -> bool) -> usize {
    at + text.as_bytes()[at..].iter().take_while(|b| which(**b)).count()
}

fn is_blank(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`')
}

/// Where the line ends that a place is in.
fn line_end(text: &str, at: usize) -> usize {
    memchr::memchr2(b'\n', b'\r', &text.as_bytes()[at..]).map_or(text.len(), |n| at + n)
}

fn line_start(text: &str, at: usize) -> usize {
    memchr::memrchr2(b'\n', b'\r', &text.as_bytes()[..at]).map_or(0, |n| n + 1)
}

/// What is written between a name and its value.
enum Between {
    /// `=`, `:`, `=>`, `:=`, `%3D`
    Sign,
    /// A blank after an option, or `password "…"`
    Blank,
    /// `'--token', 'x'`; `"HF_TOKEN", "value": "x"`; `setenv("HF_TOKEN", "x")`
    Comma,
    /// `<password>x</password>`
    Tag,
    /// `your password is x`, `hf_token ........ x`, and columns of a table: there may be any word.
    Gap,
}

/// The value of a name, without its quotes, if it is one to hide.
pub fn after(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    // Most words are followed by no value at all.
    let (between, at) = between(text, name)?;
    let class = names::class(text, name);
    if class == Class::Plain {
        return None;
    }
    let word = &text[name.clone()];
    if matches!(between, Between::Tag) {
        let end = memchr::memchr(b'<', &text.as_bytes()[at..]).map_or(line_end(text, at), |n| at + n);
        return is_secret(&text[at..end], class, true).then_some(at..end);
    }
    let (range, quoted) = value(text, at, name.start, class)?;
    let shown = &text[range.clone()];
    if is_number(shown) && !names_a_password(word) {
        return None;
    }
    let secret = match between {
        Between::Gap => class >= Class::Counted && looks_random(shown, 5) && is_secret(shown, class, quoted),
        Between::Blank if quoted && !word.starts_with('-') => class == Class::Password,
        // `--token or`, `--password PASSWORD`: help, not a call.
        Between::Blank if !quoted => !shown.starts_with('-') && !is_metavariable(shown) && is_secret(shown, class, false),
        Between::Comma if !word.starts_with('-') => quoted && class >= Class::Counted && looks_random(shown, 5),
        _ => is_secret(shown, class, quoted),
    };
    secret.then_some(range)
}

/// `0x7f3a9b2c1d`: an address, a handle, a key of a queue. And `id=3`, as Munge has it.
fn is_number(value: &str) -> bool {
    let bare = value.trim_end_matches(['.', ',', ';', ':', ')', ']']);
    let is_hex = |hex: &str| (1..=16).contains(&hex.len()) && hex.bytes().all(|b| b.is_ascii_hexdigit());
    let is_id = |id: &str| id.len() <= 8 && id.bytes().all(|b| b.is_ascii_digit());
    bare.strip_prefix("0x").is_some_and(is_hex) || bare.strip_prefix("id=").is_some_and(is_id)
}

fn names_a_password(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["pass", "pwd", "secret"].iter().any(|word| name.contains(word))
}

/// What stands between a name and its value, and where the value begins.
fn between(text: &str, name: &Range<usize>) -> Option<(Between, usize)> {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(b'\n');
    let is_flag = byte(name.start) == b'-';
    if byte(name.end) == b'>' && name.start > 0 && bytes[name.start - 1] == b'<' {
        return Some((Between::Tag, name.end + 1));
    }
    // The end of the quotes that the name is in, and of an index.
    let mut at = skip(text, name.end, |b| b == b'\\');
    let in_quotes = is_quote(byte(at));
    at = if in_quotes { at + 1 } else { name.end };
    at += usize::from(in_quotes && matches!(byte(at), b']' | b')'));
    let close = at;
    at = skip(text, at, is_blank);
    let rest = &text[at..];
    if rest.starts_with("=>") || rest.starts_with(":=") {
        return Some((Between::Sign, at + 2));
    }
    if rest.starts_with("%3D") || rest.starts_with("%3d") || rest.starts_with("%3A") {
        return Some((Between::Sign, at + 3));
    }
    match byte(at) {
        b'=' if byte(at + 1) == b'=' && !is_flag => None,
        b'=' => Some((Between::Sign, at + 1)),
        b':' if byte(at + 1) == b':' || rest.starts_with("://") => None,
        b':' => Some((Between::Sign, typed(text, at + 1))),
        // `SecretStr('x')` itself is the name.
        b'(' if at == name.end && text[name.clone()].starts_with("Secret") && is_quote(byte(at + 1)) => Some((Between::Sign, at + 1)),
        b',' if in_quotes => {
            let next = skip(text, at + 1, is_blank);
            let value = text[next..].trim_start_matches(['"', '\'', '\\']);
            let value_at = text.len() - value.len();
            let is_pair = value.get(..5).is_some_and(|word| word.eq_ignore_ascii_case("value"));
            let sign = skip(text, value_at + if is_pair { 5 } else { 0 }, |b| is_blank(b) || is_quote(b) || b == b'\\');
            match is_pair && byte(sign) == b':' {
                true => Some((Between::Sign, sign + 1)),
                false => {
                    let is_variable = text[name.clone()].bytes().all(|b| !b.is_ascii_lowercase());
                    let is_pair = text[..name.start].trim_end_matches(['"', '\'', '\\', 'b', 'u']).ends_with('(');
                    (is_flag || is_variable || is_pair).then_some((Between::Comma, next))
                }
            }
        }
        _ if at > close && rest.starts_with("is ") => Some((Between::Gap, at + 3)),
        _ if at > close && ["|", "│", "┃", "..."].iter().any(|line| rest.starts_with(line)) => {
            let value = rest.trim_start_matches(['.', '|', '│', '┃']);
            value.starts_with(' ').then_some((Between::Gap, text.len() - value.len()))
        }
        _ if at == close || in_quotes => None,
        _ if is_flag => Some((Between::Blank, at)),
        // SQL: `WITH PASSWORD 'x'`, `IDENTIFIED BY 'x'`; files of logins: `machine … login … password x`; redis: `requirepass x`.
        b if is_quote(b) => Some((Between::Blank, at)),
        _ => {
            let before = || &text[line_start(text, name.start)..name.start];
            let word = &text[name.clone()];
            let is_login = word == "password" && (before().contains("login ") || before().contains("machine "));
            let is_command = matches!(word, "requirepass" | "masterauth") && before().trim().is_empty();
            let is_compound = word.contains('_') && at > close;
            match is_login || is_command {
                true => Some((Between::Blank, at)),
                // `ENV HF_TOKEN x`, and columns.
                false => is_compound.then_some((Between::Gap, at)),
            }
        }
    }
}

/// `api_key: str = "x"`: the value stands behind the type.
fn typed(text: &str, at: usize) -> usize {
    let word = skip(text, at, is_blank);
    let end = skip(text, word, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'[' | b']' | b'|'));
    let sign = skip(text, end, is_blank);
    let is_type = end > word && sign > end && text[sign..].starts_with("= ");
    if is_type { sign + 1 } else { at }
}

/// The value that begins at a place or behind blanks, and whether it is in quotes.
fn value(text: &str, at: usize, name: usize, class: Class) -> Option<(Range<usize>, bool)> {
    let bytes = text.as_bytes();
    let mut at = behind_tag(text, skip(text, at, is_blank));
    let end = line_end(text, at);
    if is_block_sign(&text[at..end]) {
        return block(text, name, end).map(|range| (range, true));
    }
    at = wrapped(text, at, end);
    // b'…', r"…", f'…'
    let letters = skip(text, at, |b| matches!(b, b'b' | b'r' | b'u' | b'f' | b'B' | b'R'));
    if letters - at <= 2 && letters < end && is_quote(bytes[letters]) {
        at = letters;
    }
    let quote = skip(text, at, |b| b == b'\\');
    if quote < end && is_quote(bytes[quote]) {
        let close = closing(text, quote + 1..end, bytes[quote], quote - at);
        let from = if class >= Class::Counted { scheme(text, quote + 1, close).0 } else { quote + 1 };
        return Some((from..close, true));
    }
    if at < end && matches!(bytes[at], b'[' | b'{' | b'(') {
        return listed(text, at, end, class);
    }
    if class == Class::Cookie {
        return Some((at..enclosing(text, name, at..end), false));
    }
    let (from, is_long) = if class >= Class::Counted { scheme(text, at, end) } else { (at, false) };
    let close = if is_long { enclosing(text, name, from..end) } else { word_end(text, name, from, end) };
    Some((from..close, false))
}

/// `!vault x`, `!secret x`: what a tag of YAML stands before.
fn behind_tag(text: &str, at: usize) -> usize {
    let end = skip(text, at, |b| b.is_ascii_alphanumeric() || b"!_-:.".contains(&b));
    let next = skip(text, end, is_blank);
    if text[at..].starts_with('!') && next > end { next } else { at }
}

/// `SecretStr('x')`: the place of what the call wraps.
fn wrapped(text: &str, at: usize, end: usize) -> usize {
    let open = skip(text, at, |b| b.is_ascii_alphanumeric() || b"_.".contains(&b)).min(end);
    let is_wrapper = text[open..end].starts_with('(') && text[at..open].to_ascii_lowercase().contains("secret");
    let is_quoted = || text[open + 1..end].trim_start_matches('\\').starts_with(['"', '\'']);
    if is_wrapper && is_quoted() { open + 1 } else { at }
}

/// `|`, `>-`: the value stands in the lines below, deeper than its name.
fn is_block_sign(value: &str) -> bool {
    let value = value.trim_end();
    value.starts_with(['|', '>']) && value.len() <= 3 && value.bytes().skip(1).all(|b| matches!(b, b'+' | b'-' | b'0'..=b'9'))
}

/// How deep a line stands.
pub fn depth(line: &str) -> usize {
    skip(line, 0, is_blank)
}

/// The lines of a block, below the line of its name that ends at a place.
fn block(text: &str, name: usize, end: usize) -> Option<Range<usize>> {
    let deep = depth(&text[line_start(text, name)..]);
    let mut range: Option<Range<usize>> = None;
    let mut at = end;
    for line in text[end..].split_inclusive('\n') {
        let body = line.trim();
        if !body.is_empty() {
            // The first piece is the end of the name's own line.
            if depth(line) <= deep {
                break;
            }
            let from = at + depth(line);
            range = Some(range.map_or(from, |range| range.start)..from + body.len());
        }
        at += line.len();
    }
    range
}

/// `api_key: |`: how deep the line stands whose value is in the lines after it.
pub fn names_a_block(line: &str) -> Option<usize> {
    let (name, sign) = line.rsplit_once(':')?;
    let name = name.trim_matches([' ', '\t', '-', '"', '\'']);
    let is_name = || names::class(name, &(0..name.len())) >= Class::Counted;
    (sign.starts_with(' ') && is_block_sign(behind(sign)) && !name.contains(' ') && is_name()).then(|| depth(line))
}

/// A value without the blanks and the tag before it.
fn behind(value: &str) -> &str {
    &value[behind_tag(value, skip(value, 0, is_blank))..]
}

/// A list of secrets is hidden as a whole.
fn listed(text: &str, at: usize, end: usize, class: Class) -> Option<(Range<usize>, bool)> {
    let inner = skip(text, at + 1, is_blank);
    let first = text.as_bytes().get(inner).copied().unwrap_or(b']');
    let close = memchr::memchr3(b']', b'}', b')', &text.as_bytes()[at..end]).map_or(end, |n| at + n);
    let is_list = text[at..].starts_with('[') && is_quote(first) && class >= Class::Counted;
    let is_jar = class == Class::Cookie && text[at..].starts_with('{');
    (is_list || is_jar).then_some((at + 1..close, true))
}

/// The quote that ends a value: with as many backslashes before it as its beginning has. Without one, the value goes on to the end.
fn closing(text: &str, range: Range<usize>, quote: u8, slashes: usize) -> usize {
    let bytes = text.as_bytes();
    let ends = |at: &usize| {
        let before = bytes[range.start..*at].iter().rev().take_while(|b| **b == b'\\').count();
        if slashes == 0 { before % 2 == 0 } else { before == slashes }
    };
    match memchr::memchr_iter(quote, &bytes[range.clone()]).map(|n| range.start + n).find(ends) {
        Some(at) => at - slashes,
        None => range.end,
    }
}

/// The end of the quotes that name and value are in, or of the line.
fn enclosing(text: &str, name: usize, value: Range<usize>) -> usize {
    let bytes = text.as_bytes();
    let start = line_start(text, name);
    let is_open = |quote: u8| memchr::memchr_iter(quote, &bytes[start..name]).count() % 2 == 1;
    let open = [b'"', b'\'', b'`'].into_iter().filter(|quote| is_open(*quote));
    let first = |end: usize, quote: u8| memchr::memchr(quote, &bytes[value.start..end]).map_or(end, |n| value.start + n);
    let at = open.fold(value.end, first);
    // `\"` within a text that is quoted.
    at - bytes[value.start..at].iter().rev().take_while(|b| **b == b'\\').count()
}

/// Where a value without quotes ends: at a blank, at the quotes that it is in, and at what looks like the next name or a bracket's end.
/// Passwords may have commas and brackets.
fn word_end(text: &str, name: usize, from: usize, end: usize) -> usize {
    let bytes = text.as_bytes();
    let stop = enclosing(text, name, from..end);
    let mut at = from;
    while at < stop {
        let b = bytes[at];
        let next = bytes.get(at + 1).copied().unwrap_or(b' ');
        let ends = match b {
            b' ' | b'\t' => true,
            b'\\' => matches!(next, b'n' | b'r' | b't' | b'"' | b'\''),
            b'<' => next == b'/',
            b',' | b';' | b'&' | b'|' | b')' | b']' | b'}' | b'>' => next_begins(&text[at + 1..]),
            _ => false,
        };
        if ends {
            break;
        }
        at += 1;
    }
    at
}

/// Whether what follows a comma, a bracket and the like is no part of a value.
fn next_begins(rest: &str) -> bool {
    let rest = rest.trim_start_matches([')', ']', '}', ',', ';', '.', ':', '>']);
    let Some(first) = rest.bytes().next() else { return true };
    if first.is_ascii_whitespace() || is_quote(first) || matches!(first, b'&' | b'|' | b'(' | b'[' | b'{' | b'<' | b'\\') {
        return true;
    }
    let name = skip(rest, 0, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    name > 0 && matches!(rest.as_bytes().get(name), Some(b'=' | b':'))
}

/// Behind the scheme that a value may begin with; and whether all that follows is secret.
fn scheme(text: &str, at: usize, end: usize) -> (usize, bool) {
    let word = skip(text, at, |b| b.is_ascii_alphanumeric() || b == b'-').min(end);
    let next = skip(text, word, is_blank).min(end);
    let known = SCHEMES.split(' ').position(|scheme| text[at..word].eq_ignore_ascii_case(scheme));
    match known.filter(|_| next > word) {
        Some(no) => (next, no >= LONG_SCHEMES),
        None => (at, false),
    }
}

/// Whether a value is one to hide, by what its name says.
pub fn is_secret(value: &str, class: Class, quoted: bool) -> bool {
    let value = value.trim();
    let bare = value.trim_end_matches(['.', ',', ';', ':', '!', '?']);
    let is_word = |words: &str| is_among(words, bare);
    if is_reference(value) || bare.is_empty() || (!quoted && (is_word(PLACEHOLDERS) || is_code(value))) {
        return false;
    }
    if quoted && is_word("none null true false") {
        return false;
    }
    match class {
        Class::Plain => false,
        Class::Weak => !is_word(METHODS) && !is_hash(value) && (looks_random(value, 10) || is_login(value)),
        Class::Cookie => (value.contains('=') && !value.contains("==")) || (quoted && value.contains(':')) || looks_random(value, 5),
        Class::Token => {
            !is_count(value) && !value.starts_with(['/', '~', '.']) && (looks_random(value, 4) || (bare.len() >= 8 && !value.contains(' ')))
        }
        Class::Counted => !is_count(value) && !is_word(METHODS),
        Class::Password => true,
        Class::Header => !is_word(SCHEMES) && !is_count(value),
    }
}

/// `user:password`
fn is_login(value: &str) -> bool {
    let Some((user, password)) = value.split_once(':') else { return false };
    let is_user = !user.is_empty() && user.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@".contains(&b));
    is_user && password.len() >= 3 && !password.contains(['/', ' ', ':']) && !is_count(password)
}

/// What a shell or a template would put there; what hides already.
fn is_reference(value: &str) -> bool {
    let name = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    value.strip_prefix('$').is_some_and(|rest| rest.starts_with(['{', '(']) || name(rest))
        || value.starts_with("{{")
        || value.starts_with("%(")
        || value == "%s"
        || value
            .strip_prefix('<')
            .is_some_and(|rest| rest.trim_end_matches('>').bytes().all(|b| b.is_ascii_alphabetic() || b"_- ".contains(&b)))
        || (value.starts_with('{') && value.ends_with('}'))
        || value.starts_with(MASK)
        || value.bytes().all(|b| matches!(b, b'*' | b'.' | b'-' | b'_' | b'?' | b'#' | b'/' | b',' | b')' | b']' | b'}'))
        || (value.len() > 2 && value.bytes().all(|b| b.eq_ignore_ascii_case(&b'x')))
        || value.starts_with('\u{2026}')
        || value.starts_with('\u{2022}')
}

/// `self.token`, `os.environ[…]`, `get_token()`: a line of a program, as a traceback shows it.
fn is_code(value: &str) -> bool {
    let end = skip(value, 0, |b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'.'));
    let path = &value[..end];
    let begins = path.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_call = value[end..].starts_with(['(', '[']);
    let is_attribute = end == value.len() && path.contains('.') && path.split('.').all(|part| !part.is_empty() && part.len() < 24);
    let is_own_name = end == value.trim_end_matches([')', ',']).len() && ["token", "password", "api_key", "key", "secret"].contains(&path);
    begins && (is_call || is_attribute || is_own_name)
}

/// `PASSWORD`, `<TOKEN>`, `API_KEY]`
fn is_metavariable(value: &str) -> bool {
    let name = value.trim_matches(['[', ']', '<', '>', '(', ')', ',', '.']);
    name.is_empty()
        || (name.len() <= 24
            && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
            && names::class(name, &(0..name.len())) != Class::Plain)
}

/// A number, perhaps with a unit. One of more than eight digits together may be a secret.
fn is_count(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let longest = value.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or_default();
    let is_number = value.replace(['_', ','], "").parse::<f64>().is_ok() && (longest <= 8 || value.contains(['.', '_', ',']));
    let begins = value.trim_start_matches(['-', '+', '(', '[', '~', '<', '>']).starts_with(|c: char| c.is_ascii_digit());
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    is_number
        || (begins
            && longest <= 8
            && letters <= 3
            && digits + letters <= 16
            && value.bytes().all(|b| b.is_ascii_alphanumeric() || b".,_-+/%[]() ~".contains(&b)))
}

/// A checksum, a commit, an address.
fn is_hash(value: &str) -> bool {
    let hex = value.strip_prefix("0x").unwrap_or(value);
    hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        && (value.len() > hex.len() || matches!(hex.len(), 7..=16 | 32 | 40 | 64 | 96 | 128))
}

/// Letters and digits as chance, not a person or a program, puts them together.
pub fn looks_random(value: &str, least: usize) -> bool {
    let value = value.trim_matches(['.', ',', ')', ']', '}', ';']);
    let has = |which: fn(&u8) -> bool| value.as_bytes().iter().any(which);
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let mixed =
        digits >= if least < 10 { 1 } else { 2 } || (value.len() >= 16 && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase));
    let plain = value.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'(' | b'[' | b'{' | b'<' | b',' | b'\\'));
    let is_path = value.starts_with(['/', '~', '.']) || value.contains("://") || value.matches('/').count() > 2;
    value.len() >= least && mixed && has(u8::is_ascii_alphabetic) && plain && !is_path && !is_count(value)
}

/// `IDENTIFIED BY 'x'`
pub fn in_quotes(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let (range, quoted) = value(text, hit.end, hit.start, Class::Password)?;
    (quoted && is_secret(&text[range.clone()], Class::Password, true)).then_some(range)
}

/// `- name: HF_TOKEN`: the line after it has the value.
pub fn names_a_secret(line: &str) -> bool {
    let Some((before, name)) = line.trim_end().rsplit_once("name:") else { return false };
    let name = name.trim().trim_matches(['"', '\'', ',']);
    before.trim_matches([' ', '\t', '-', '"']).len() <= 40 && names::class(name, &(0..name.len())) >= Class::Counted && !name.contains(' ')
}

/// The value of such a line.
pub fn of_value_line(line: &str) -> Option<Range<usize>> {
    let at = line.find("value:")? + "value:".len();
    let (range, quoted) = value(line, at, 0, Class::Password)?;
    is_secret(&line[range.clone()], Class::Password, quoted).then_some(range)
}
