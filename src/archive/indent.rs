//! A log that somebody has pasted into a document, indented or quoted as a whole: what stands at the start of its lines does so behind blanks
//! or behind `> `.

/// The text without what all of its lines begin with; `None` if that is nothing.
pub fn without(text: &[u8]) -> Option<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::without;

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
