//! Rings and the dump of the topology that NCCL sees.

use super::types::{GraphPath, GraphPaths, PathKind};
use crate::logs::What;

/// NCCL has no more of them.
const MAX_CHANNELS: u32 = 64;

pub(super) fn read(message: &str) -> Option<What> {
    match message.as_bytes().first()? {
        b'C' if message.starts_with("Channel ") => ring(message),
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
    let ranks: Option<Vec<u32>> =
        tail.split_whitespace().take_while(|w| *w != "...").map(|w| w.trim_end_matches("...").parse().ok()).collect();
    Some(What::Ring { channel, channels, ranks: ranks.filter(|r| !r.is_empty())? })
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
