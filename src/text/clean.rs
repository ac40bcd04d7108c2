//! Placeholder.
use std::borrow::Cow;

pub fn clean(text: &str) -> Cow<'_, str> {
    Cow::Borrowed(text)
}

pub fn clip(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}
