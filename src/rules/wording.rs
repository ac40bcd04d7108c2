//! What findings on text are called: the point of a text, and the ranks that it names. Where a text buries its point, the part that counts.

use super::exit_words;

/// `rank 3`, `ranks 3, 5 and 7`, `24 ranks`
pub fn rank_words(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".into(),
        [one] => format!("rank {one}"),
        [first @ .., last] if ranks.len() <= 8 => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
        many => format!("{} ranks ({}, {}, …)", many.len(), many[0], many[1]),
    }
}

/// `ValueError: bad sample`
pub fn exception_words(e: &crate::text::Exception) -> String {
    if e.message.is_empty() { e.class.clone() } else { format!("{}: {}", e.class, e.message) }
}

/// The first two sentences: what happened, and the figure that goes with it.
pub fn first_sentences(text: &str) -> String {
    let text = nccl_words(text).unwrap_or_else(|| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let end = text.match_indices(". ").nth(1).map_or(text.len(), |(at, _)| at);
    crate::text::clean::clip(&text[..end], 160).into_owned()
}

/// The reason at the end of an error of NCCL, with its kind: `Bootstrap : no socket interface found (ncclInternalError)`, or without a
/// reason `NCCL 2.14.3: internal error`. What stands before it is the same for all.
pub(super) fn nccl_words(text: &str) -> Option<String> {
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

/// The ranks that a text itself names as those that it is about, whoever printed it.
pub fn named_ranks(text: &str) -> Option<Vec<u32>> {
    let number = |t: &str| t[..t.bytes().take_while(u8::is_ascii_digit).count()].parse::<u32>().ok();
    let after = |mark: &str| text.split_once(mark).and_then(|(_, t)| number(t));
    if let Some((_, pair)) = text.split_once("Duplicate GPU detected : rank ") {
        let other = pair.split_once(" and rank ").and_then(|(_, t)| number(t));
        let mut ranks: Vec<u32> = number(pair).into_iter().chain(other).collect();
        ranks.sort_unstable();
        return Some(ranks);
    }
    if let Some((_, pair)) = text.split_once("Detected mismatch between collectives on ranks. Rank ") {
        let other = pair.split_once("Rank ").and_then(|(_, t)| number(t));
        let mut ranks: Vec<u32> = number(pair).into_iter().chain(other).collect();
        ranks.sort_unstable();
        return Some(ranks);
    }
    // It was to make the id that all others wait for.
    after("retrieving ncclUniqueId from [").or_else(|| after("Proxy Call to rank ")).map(|rank| vec![rank])
}

/// Texts whose point is buried: two fingerprints of collectives, a command line, an operator's JSON.
pub(super) fn in_short(text: &str) -> Option<String> {
    if let Some((_, command)) = text.split_once("Detected mismatch between collectives on ranks. Rank ") {
        let (one, other) = command.split_once(", but Rank ").or_else(|| command.split_once("Rank "))?;
        let rank = |t: &str| t[..t.bytes().take_while(u8::is_ascii_digit).count()].to_owned();
        let call = |t: &str| {
            let word = |key: &str, end: &[char]| t.split_once(key).map(|(_, v)| v.split(end).next().unwrap_or("").to_owned());
            let op = word("OpType=", &[',', ')', '.'])?;
            let shape = word("TensorShape=", &[']']).map_or(String::new(), |shape| format!(" of shape {shape}]"));
            let seq = word("SequenceNumber=", &[',', 'O', ')']).map_or(String::new(), |seq| format!(" at sequence number {seq}"));
            Some(format!("{op}{shape}{seq}"))
        };
        return Some(format!("rank {} called {}, rank {} called {}", rank(one), call(one)?, rank(other), call(other)?));
    }
    if let Some((_, code)) = text.split_once(" exits with return code = ") {
        let code = code.split_whitespace().next()?.parse().ok()?;
        return Some(format!("DeepSpeed's launcher: a process ended: {}", exit_words(code)));
    }
    let (pod, code) = text.split_once("Pod: ")?.1.split_once(" exited with code ")?;
    Some(format!("pod {pod} ended: exit code {}", code.split(|c: char| !c.is_ascii_digit()).next()?))
}

/// Who waits for NCCL's unique id, and who was to make it.
pub(super) fn unique_id(text: &str) -> Option<(u32, u32)> {
    let (before, after) = text.split_once("] is setting up NCCL communicator and retrieving ncclUniqueId from [")?;
    let waits = before.rsplit_once('[')?.1.parse().ok()?;
    Some((waits, after.split_once(']')?.0.parse().ok()?))
}

/// The Xid that a line names as the cause of its own, and the GPU.
pub(super) fn xid_before(text: &str) -> Option<(u32, &str)> {
    let (before, code) = text.split_once(" caused by previous Xid ")?;
    let place = before.split_once("Xid (PCI:")?.1.split_once(')')?.0;
    let digits = code.bytes().take_while(u8::is_ascii_digit).count();
    Some((code[..digits].parse().ok()?, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_nccl_are_told_by_their_reason() {
        let text = "RuntimeError: NCCL error in: /b/P.cpp:12, internal error, NCCL version 2.14.3\nncclInternalError: Internal check failed.\nLast error:\nno such thing";
        assert_eq!(first_sentences(text), "no such thing (ncclInternalError)");
        assert_eq!(first_sentences(text.split("\nLast").next().unwrap()), "NCCL 2.14.3: internal error");
        assert_eq!(first_sentences("a  wide     gap. Two. Three"), "a wide gap. Two");
        assert_eq!(last_error("Last error:\n"), None);
    }

    #[test]
    fn texts_name_ranks() {
        assert_eq!(named_ranks("Duplicate GPU detected : rank 9 and rank 4 both on CUDA device 1000"), Some(vec![4, 9]));
        assert_eq!(named_ranks("Proxy Call to rank 12 failed (Connect)"), Some(vec![12]));
        assert_eq!(named_ranks("[5] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d"), Some(vec![0]));
        assert_eq!(named_ranks("rank 3 says nothing"), None);
        assert_eq!(xid_before("Xid (PCI:0000:ab:00): 45, pid=9, name=x, Ch 01 caused by previous Xid 145"), Some((145, "0000:ab:00")));
    }

    #[test]
    fn ranks_are_named_up_to_eight() {
        assert_eq!(rank_words(&[3]), "rank 3");
        assert_eq!(rank_words(&[3, 5, 7]), "ranks 3, 5 and 7");
        assert_eq!(rank_words(&(0..24).collect::<Vec<_>>()), "24 ranks (0, 1, …)");
    }
}
