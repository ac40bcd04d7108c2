//! A log that somebody has pasted into a document: indented or quoted as a whole, so that what stands at the start of its lines does so behind blanks
//! or behind `> `; or with the marks of Markdown escaped: `\[12:00:01\] error: \*\*\* STEP`.

/// The text as the program had printed it.
pub fn as_printed(text: Vec<u8>) -> Vec<u8> {
    let text = without_indent(&text).unwrap_or(text);
    without_escapes(&text).unwrap_or(text)
}

/// The text without what all of its lines begin with; `None` if that is nothing.
fn without_indent(text: &[u8]) -> Option<Vec<u8>> {
    let lines = || text.split(|b| *b == b'\n');
    let is_blank = |line: &[u8]| line.iter().all(|b| b.is_ascii_whitespace() || *b == b'>');
    let mut said = lines().filter(|line| !is_blank(line));
    let first = said.next()?;
    let blanks = |line: &[u8]| line.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'>')).count();
    let alike = |line: &[u8], most: usize| line.iter().zip(&first[..most]).take_while(|(a, b)| a == b).count();
    let indent = said.fold(blanks(first), |most, line| alike(line, most));
    // A line alone may be a part of something.
    if indent == 0 || lines().filter(|line| !is_blank(line)).nth(1).is_none() {
        return None;
    }
    let cut = lines().map(|line| line.get(indent..).unwrap_or_default());
    Some(cut.collect::<Vec<_>>().join(&b'\n'))
}

/// Where several lines have marks of Markdown with a backslash before them in pairs, all such backslashes are the document's. A line alone may be a
/// warning about a backslash, and a program that prints patterns has others, too.
fn without_escapes(text: &[u8]) -> Option<Vec<u8>> {
    const LEAST: usize = 2;
    let is_mark = |b: u8| matches!(b, b'[' | b']' | b'*' | b'_' | b'~' | b'`' | b'#' | b'<' | b'>');
    let has_pair = |line: &&[u8]| {
        let at = |what: &[u8]| memchr::memmem::find(line, what);
        at(br"\*\*").is_some() || at(br"\[").zip(at(br"\]")).is_some_and(|(opens, closes)| opens < closes)
    };
    let is_other = |two: &[u8]| two[0] == b'\\' && two[1].is_ascii_graphic() && !is_mark(two[1]);
    if text.split(|b| *b == b'\n').filter(has_pair).count() < LEAST || text.windows(2).any(is_other) {
        return None;
    }
    let mut out = Vec::with_capacity(text.len());
    for (at, b) in text.iter().enumerate() {
        if *b != b'\\' || !text.get(at + 1).is_some_and(|next| is_mark(*next)) {
            out.push(*b);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{without_escapes, without_indent as without};

    #[test]
    fn backslashes_of_markdown_go_where_several_lines_have_them() {
        let cut = |text: &str| without_escapes(text.as_bytes()).map(|text| String::from_utf8(text).unwrap());
        let escaped = "\\[09:00\\] error: \\*\\*\\* STEP 1 \\*\\*\\*\n(a)-\\[u@n \\~\\]$ x\n";
        assert_eq!(cut(escaped).as_deref(), Some("[09:00] error: *** STEP 1 ***\n(a)-[u@n ~]$ x\n"));
        assert_eq!(cut("SyntaxWarning: invalid escape sequence '\\['\n  re.match('\\[a\\]', s)\n"), None);
        assert_eq!(cut("re.match('\\[a\\]\\d', s)\nre.match('\\[b\\]', s)\n"), None);
    }

    #[test]
    fn only_what_all_lines_begin_with_is_cut() {
        let cut = |text: &str| without(text.as_bytes()).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(cut("    a\n\n      b\n    c\n").as_deref(), Some("a\n\n  b\nc\n"));
        assert_eq!(cut("\ta\n\t b\r\n").as_deref(), Some("a\n b\r\n"));
        assert_eq!(cut("> a\n>\n>   b\n").as_deref(), Some("a\n\n  b\n"));
        assert_eq!(cut(" a\n\tb\n"), None);
        assert_eq!(cut("  a\nb\n"), None);
        assert_eq!(cut("  a\n"), None);
        assert_eq!(cut("\n \n"), None);
        assert_eq!(cut(""), None);
    }
}
