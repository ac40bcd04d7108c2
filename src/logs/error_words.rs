//! What an exception, or an error of NCCL in it, comes down to: the point of a text.

/// `ValueError: bad sample`
pub fn exception_words(e: &super::Exception) -> String {
    if e.message.is_empty() { e.class.clone() } else { format!("{}: {}", e.class, e.message) }
}

/// The first two sentences: what happened, and the figure that goes with it.
pub fn first_sentences(text: &str) -> String {
    let text = nccl_words(text).unwrap_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let end = text.match_indices(". ").nth(1).map_or(text.len(), |(at, _)| at);
    crate::base::clean::clip(&text[..end], 160).into_owned()
}

/// The reason at the end of an error of NCCL, with its kind: `Bootstrap : no socket interface found (ncclInternalError)`, or without a
/// reason `NCCL 2.14.3: internal error`. What stands before it is the same for all.
pub fn nccl_words(text: &str) -> Option<String> {
    let Some(reason) = last_error(text) else {
        let (_, tail) = text.split_once("NCCL error in: ")?.1.split_once(", ")?;
        let (kind, version) = tail.split_once(", NCCL version ")?;
        let kind = kind.split(" (run with").next().unwrap_or(kind);
        return Some(format!("NCCL {}: {kind}", version.split_whitespace().next()?));
    };
    let kind = text.split(|c: char| !c.is_ascii_alphanumeric()).find(|w| w.starts_with("nccl") && w.len() > 8);
    Some(format!("{reason}{}", kind.map_or(String::new(), |kind| format!(" ({kind})"))))
}

/// What stands behind `Last error:` in an error of NCCL.
pub fn last_error(text: &str) -> Option<&str> {
    let (_, reason) = text.split_once("Last error:")?;
    let reason = reason.trim_start().lines().next()?.trim();
    (!reason.is_empty()).then_some(reason)
}
