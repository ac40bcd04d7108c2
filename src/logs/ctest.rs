//! What ctest puts in front of the lines of a test.

/// Whether a log is ctest's, by what was read of it so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ctest {
    is_its: bool,
}

impl Ctest {
    /// The line without the number of a test, which looks like a rank: `    Start 12: name`, then `12: what the test says`.
    pub fn without_test<'a>(&mut self, line: &'a str) -> &'a str {
        self.is_its |= line.trim_start().strip_prefix("Start ").is_some_and(|tail| numbered(tail).is_some());
        if self.is_its { numbered(line).unwrap_or(line) } else { line }
    }
}

/// What stands behind a number and a colon.
fn numbered(line: &str) -> Option<&str> {
    let inner = line.trim_start_matches(' ');
    let digits = inner.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| inner[digits..].strip_prefix(": ")).flatten()
}
