//! Pages of PyTorch's debug server (`torch.distributed.debug`): what each rank answered, as HTML. Bytes in, texts out.

use serde::de::IgnoredAny;

/// What stands on every page.
const TITLE: &str = "Torch Distributed Debug Server";
/// Before what a rank answered: `<h2>Rank 3: http://node-2:40123/handler/fr_trace_json?</h2>`.
const HEAD: &str = "<h2>Rank ";
const FAILED: &str = "<p>Failed to fetch:";
const TEXT: &str = "<pre>";
/// More than any job has.
const MAX_RANKS: usize = 1 << 14;

/// The page is one of this server's.
pub fn is_its(page: &str) -> bool {
    page.contains(TITLE)
}

/// The JSON of each rank that answered. It stands there as it is: a text in it may hold whatever ends an element of HTML.
pub fn answers(page: &str) -> Vec<(u32, &str)> {
    let mut found = Vec::new();
    let mut rest = page;
    // Each part of the page is searched once: it may be large, and hold heads without a text.
    while let Some((before, text)) = rest.split_once(TEXT).filter(|_| found.len() < MAX_RANKS) {
        rest = text;
        let Some((_, head)) = before.rsplit_once(HEAD) else { continue };
        let Some(rank) = head.split_once(':').and_then(|(rank, _)| rank.parse().ok()) else { continue };
        if head.contains(FAILED) || !text.starts_with('{') {
            continue;
        }
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        if let Some(Ok(_)) = values.next() {
            let (json, after) = text.split_at(values.byte_offset());
            found.push((rank, json));
            rest = after;
        }
    }
    found
}
