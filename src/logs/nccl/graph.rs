//! Rings and the dump of the topology that NCCL sees.

use super::types::{GraphPath, GraphPaths, PathKind};
use crate::logs::{Branch, What};

/// NCCL has no more of them.
const MAX_CHANNELS: u32 = 64;

pub(super) fn read(message: &str) -> Option<What> {
    match message.as_bytes().first()? {
        b'C' if message.starts_with("Channel ") => ring(message),
        b'T' if message.starts_with("Trees [") => trees(message),
        b'G' if message.starts_with("GPU/") => paths(message),
        b'N' if message.starts_with("NET/") => paths(message),
        _ => None,
    }
}

/// `Channel 00/24 : 0 1 2 3`, with the ranks padded before 2.23.
fn ring(message: &str) -> Option<What> {
    let (number, tail) = message.strip_prefix("Channel ")?.split_once(" : ")?;
    let (channel, channels) = number.split_once('/')?;
    let (channel, channels): (u32, u32) = (channel.trim().parse().ok()?, channels.trim().parse().ok()?);
    (channel < channels && channels <= MAX_CHANNELS).then_some(())?;
    // What stands before the dots may be a piece of a number.
    let ranks: Option<Vec<u32>> = tail.split_whitespace().take_while(|w| !w.ends_with("...")).map(|w| w.parse().ok()).collect();
    Some(What::Ring { channel, channels, ranks: ranks.filter(|r| !r.is_empty())? })
}

/// `Trees [0] 1/-1/-1->0->-1 [1] …`: down, rank, up. Up to 2.7 the way back stands behind it (`1/-1/-1->0->-1|-1->0->1/-1/-1`), up to 2.4 it
/// stands alone. RCCL has the communicator behind all of them.
fn trees(message: &str) -> Option<What> {
    let text = message.strip_prefix("Trees ")?;
    let text = text.split_once(" comm 0x").map_or(text, |(text, _)| text);
    let mut words = text.split_whitespace();
    let (mut rank, mut branches) = (None, Vec::new());
    while let (Some(channel), Some(word)) = (words.next(), words.next()) {
        let channel = channel.strip_prefix('[').and_then(|c| c.strip_suffix(']')?.parse().ok()).filter(|c| *c < MAX_CHANNELS);
        let (Some(channel), Some((of, branch))) = (channel, branch(word)) else { break };
        // NCCL's buffer cuts a long line: the last number may be a piece.
        if *rank.get_or_insert(of) != of || words.clone().next().is_none() && text.len() >= LONGEST_TREES {
            break;
        }
        branches.push((channel, branch));
    }
    Some(What::Trees { rank: rank.filter(|_| !branches.is_empty())?, branches })
}

/// Of 1,024 bytes with the word in front.
const LONGEST_TREES: usize = 1010;

fn branch(word: &str) -> Option<(u32, Branch)> {
    let one = |text: &str| match text {
        "-1" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let mut parts = word.split('|').next()?.split("->");
    let (first, rank, last) = (parts.next()?, parts.next()?.parse().ok()?, parts.next()?);
    let (down, up) = if first.contains('/') { (first, last) } else { (last, first) };
    let mut below = [None; 3];
    let mut numbers = down.split('/');
    for place in &mut below {
        *place = one(numbers.next()?)?;
    }
    (parts.next().is_none() && numbers.next().is_none()).then_some((rank, Branch { up: one(up)?, down: below }))
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
