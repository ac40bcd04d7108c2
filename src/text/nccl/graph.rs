//! Rings, trees and the dump of the topology that NCCL sees.

use super::facts::{GraphPath, GraphPaths, GraphPattern, PathKind, Tree};
use crate::text::What;

/// NCCL has no more of them.
const MAX_CHANNELS: u32 = 64;

pub(super) fn read(message: &str) -> Option<What> {
    match message.as_bytes().first()? {
        b'C' if message.starts_with("Channel ") => ring(message),
        b'T' if message.starts_with("Trees ") => Some(What::Trees(trees(message)?)),
        b'G' if message.starts_with("GPU/") => paths(message),
        b'N' if message.starts_with("NET/") => paths(message),
        b'P' if message.starts_with("Pattern ") => pattern(message),
        _ => None,
    }
}

/// `Channel 00/24 : 0 1 2 3`, with the ranks padded before 2.23.
fn ring(message: &str) -> Option<What> {
    let (number, tail) = message.strip_prefix("Channel ")?.split_once(" : ")?;
    let (channel, channels) = number.split_once('/')?;
    let (channel, channels): (u32, u32) = (channel.trim().parse().ok()?, channels.trim().parse().ok()?);
    (channel < channels && channels <= MAX_CHANNELS).then_some(())?;
    let ranks: Option<Vec<u32>> =
        tail.split_whitespace().take_while(|w| *w != "...").map(|w| w.trim_end_matches("...").parse().ok()).collect();
    Some(What::Ring { channel, channels, ranks: ranks.filter(|r| !r.is_empty())? })
}

/// `Trees [0] 1/-1/-1->0->-1 [1] …`: below, itself, above. A torn last one is left out.
pub fn trees(message: &str) -> Option<Vec<Tree>> {
    let peer = |word: &str| -> Option<Option<u32>> { if word == "-1" { Some(None) } else { word.parse().ok().map(Some) } };
    let tree = |head: &str, body: &str| {
        let channel = head.strip_prefix('[')?.strip_suffix(']')?.parse().ok().filter(|c| *c < MAX_CHANNELS)?;
        let mut parts = body.split("->");
        let (down, rank, up) = (parts.next()?, parts.next()?, parts.next()?);
        let down: Option<Vec<Option<u32>>> = down.split('/').map(peer).collect();
        let down = down.filter(|d| d.len() == 3)?.into_iter().flatten().collect();
        Some(Tree { channel, rank: rank.parse().ok()?, up: peer(up)?, down })
    };
    let mut words = message.strip_prefix("Trees ")?.split_whitespace().peekable();
    let mut out = Vec::new();
    while let (Some(head), Some(body)) = (words.next(), words.next()) {
        // The number above of the last one may have lost digits.
        if words.peek().is_none() && !body.ends_with("-1") {
            break;
        }
        out.push(tree(head, body)?);
    }
    (!out.is_empty()).then_some(out)
}

/// `GPU/0-9000 :GPU/0-9000 (0/5000.0/LOC) GPU/0-b000 (2/288.0/NVL) …`
fn paths(message: &str) -> Option<What> {
    let (from, tail) = message.split_once(" :")?;
    is_node(from).then_some(())?;
    let mut to = Vec::new();
    let mut rest = tail;
    while let Some((name, after)) = rest.split_once(" (") {
        let Some((path, after)) = after.split_once(')') else { break };
        rest = after;
        // 2.30 may have more in brackets behind the name.
        let name = name.trim().split(' ').next().unwrap_or("");
        let mut parts = path.split('/');
        let (hops, bandwidth, kind) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, PathKind::of(parts.next()?)?);
        if is_node(name) && name != from {
            to.push(GraphPath { to: name.to_string(), hops, bandwidth, kind });
        }
    }
    (tail.starts_with(|c: char| c.is_ascii_uppercase()) && (!to.is_empty() || tail.contains("/LOC)")))
        .then(|| What::GraphPaths(GraphPaths { from: from.to_string(), to }))
}

/// `GPU/9000`, `GPU/0-9000`, `NVS/0-0`
fn is_node(name: &str) -> bool {
    name.split_once('/').is_some_and(|(kind, id)| {
        kind.len() == 3
            && kind.bytes().all(|b| b.is_ascii_uppercase())
            && !id.is_empty()
            && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
    })
}

/// `Pattern 4, crossNic 0, nChannels 12, bw 24.000000/24.000000, type NVL/PIX, sameChannels 1`
fn pattern(message: &str) -> Option<What> {
    let mut parts = message.trim_end().split(", ");
    let pattern = parts.next()?.strip_prefix("Pattern ")?.parse().ok()?;
    let (mut channels, mut bandwidth, mut kinds, mut whole) = (None, None, None, false);
    for part in parts {
        if let Some(n) = part.strip_prefix("nChannels ") {
            channels = Some(n.parse().ok()?);
        } else if let Some(bw) = part.strip_prefix("bw ").or_else(|| part.strip_prefix("speed ")) {
            let (inside, between) = bw.split_once('/')?;
            bandwidth = Some((inside.parse().ok()?, between.parse().ok()?));
        } else if let Some(kind) = part.strip_prefix("type ") {
            let (inside, between) = kind.split_once('/')?;
            kinds = Some((PathKind::of(inside)?, PathKind::of(between)?));
        }
        whole |= part.starts_with("sameChannels ");
    }
    whole.then_some(What::GraphPattern(GraphPattern { pattern, channels: channels?, bandwidth: bandwidth?, kinds: kinds? }))
}
