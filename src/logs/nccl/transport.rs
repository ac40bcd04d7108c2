//! Who talks to whom over what: channel lines, their counts, GPUDirect.

use crate::logs::What;

pub(super) fn read(message: &str) -> Option<What> {
    match message.as_bytes().first()? {
        b'C' if message.starts_with("Channel ") => channel(message),
        b'R' if message.starts_with("Ring ") => channel(message),
        b'C' if message.starts_with("Connected all rings") => connected(message),
        b'C' if message.starts_with("Check P2P Type ") => p2p_type(message),
        b'0'..=b'9' => channels(message),
        b'N' | b'G' => gpu_direct(message),
        _ => None,
    }
}

/// Whether what stands behind `via` is a whole transport, and not the torn start of one.
fn is_transport(text: &str) -> bool {
    // RCCL has the communicator behind it.
    let (t, rccl) = text.split_once(" comm 0x").map_or((text.trim_end(), false), |(t, _)| (t.trim_end(), true));
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    if let Some(p2p) = t.strip_prefix("P2P/") {
        if let Some((rank, dev)) = p2p.strip_prefix("indirect/").and_then(|t| t.strip_suffix(']')).and_then(|t| t.split_once('[')) {
            return is_number(rank) && !dev.is_empty();
        }
        let p2p = p2p.strip_suffix("/CE").unwrap_or(p2p);
        return matches!(p2p.strip_suffix("/read").unwrap_or(p2p), "direct pointer" | "IPC" | "CUMEM" | "MNNVL");
    }
    if let Some(shm) = t.strip_prefix("SHM/") {
        return shm.split('/').all(|w| matches!(w, "direct" | "CE"));
    }
    if let Some(net) = t.strip_prefix("NET/") {
        let net = without_gpu_direct(net.strip_suffix("/Shared").unwrap_or(net));
        let Some((name, dev)) = net.rsplit_once('/') else { return false };
        // With PXN it leaves through the proxy of a local rank, which stands in brackets.
        return !name.is_empty()
            && match dev.split_once('(') {
                Some((device, rank)) => is_number(device) && rank.strip_suffix(')').is_some_and(is_number),
                None => is_number(dev),
            };
    }
    if let Some(net) = t.strip_prefix("COLLNET/") {
        return without_gpu_direct(net).rsplit_once('/').is_some_and(|(name, dev)| !name.is_empty() && is_number(dev));
    }
    t == "direct shared memory" || rccl && matches!(t, "P2P" | "COLLNET")
}

fn without_gpu_direct(net: &str) -> &str {
    net.strip_suffix("/GDRDMA(PCI)").or_else(|| net.strip_suffix("/GDRDMA")).unwrap_or(net)
}

/// `Channel 00/0 : 3[3] -> 4[4] [send] via NET/IB/0/GDRDMA`
fn channel(message: &str) -> Option<What> {
    // Up to NCCL 2.4 it is `Ring 00 : 7 -> 8 [send] via NET/Socket/0`, over the network without the devices.
    let ring = message.strip_prefix("Ring ");
    let (number, tail) = ring.or_else(|| message.strip_prefix("Channel "))?.split_once(" : ")?;
    let (channel, connection) = number.split_once('/').map_or((number, ""), |(channel, connection)| (channel, connection.trim()));
    let channel = channel.trim().parse().ok()?;
    let (path, transport) = tail.split_once(" via ")?;
    let (from, to) = path.split_once(" -> ")?;
    let (to, receive) = match to.strip_suffix(" [receive]") {
        Some(to) => (to, true),
        None => (to.strip_suffix(" [send]").unwrap_or(to), false),
    };
    let peer = |text: &str| {
        if let Some(rank) = ring.and_then(|_| text.trim().parse::<u32>().ok()) {
            return Some((rank, None));
        }
        let (rank, place) = text.trim().split_once('[')?;
        let place = place.strip_suffix(']')?;
        (!place.is_empty() && place.bytes().all(|b| b.is_ascii_hexdigit())).then_some(())?;
        Some((rank.parse::<u32>().ok()?, u64::from_str_radix(place, 16).ok()))
    };
    is_transport(transport).then_some(())?;
    let transport = transport.split_once(" comm 0x").map_or(transport, |(t, _)| t).trim().to_string();
    let ((from_rank, from_gpu), (to_rank, to_gpu)) = (peer(from)?, peer(to)?);
    let p2p = connection == "1" && !transport.starts_with("COLLNET");
    Some(What::Channel { channel, from_rank, from_gpu, to_rank, to_gpu, transport, receive, p2p })
}

/// `24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer`
fn channels(message: &str) -> Option<What> {
    let (mut coll, mut collnet, mut nvls, mut p2p, mut per_peer) = (None, None, None, None, None);
    for part in message.trim_end().split(", ") {
        let (n, what) = part.split_once(' ')?;
        let slot = match what {
            "coll channels" => &mut coll,
            "collnet channels" => &mut collnet,
            "nvls channels" => &mut nvls,
            "p2p channels" => &mut p2p,
            "p2p channels per peer" => &mut per_peer,
            _ => return None,
        };
        *slot = Some(n.parse().ok()?);
    }
    Some(What::Channels { coll: coll?, collnet, nvls, p2p: p2p?, per_peer: per_peer? })
}

fn flag(word: &str) -> Option<bool> {
    match word {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// `Connected all rings, use ring PXN 0 GDR 1`
fn connected(message: &str) -> Option<What> {
    let tail = message.strip_prefix("Connected all rings")?.trim_end();
    let (mut pxn, mut gdr) = (None, None);
    if let Some((p, g)) = tail.strip_prefix(", use ring PXN ").and_then(|t| t.split_once(" GDR ")) {
        (pxn, gdr) = (flag(p), flag(g));
    }
    Some(What::Connected { pxn, gdr })
}

/// `Check P2P Type isAllDirectP2p 1 directMode 0 isAllCudaP2p 1`, `Check P2P Type intraNodeP2pSupport 1 directMode 0`
fn p2p_type(message: &str) -> Option<What> {
    let mut words = message.strip_prefix("Check P2P Type ")?.split_whitespace();
    let (mut all_direct, mut direct_mode, mut all_cuda) = (None, None, None);
    while let Some(key) = words.next() {
        let Some(value) = words.next() else { break };
        match key {
            "isAllDirectP2p" | "intraNodeP2pSupport" => all_direct = Some(flag(value)?),
            "directMode" => direct_mode = Some(flag(value)?),
            "isAllCudaP2p" => all_cuda = Some(flag(value)?),
            _ => {}
        }
    }
    Some(What::P2pType { all_direct: all_direct?, direct_mode: direct_mode?, all_cuda })
}

/// `NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'`, and for one GPU and one device, of all versions.
fn gpu_direct(message: &str) -> Option<What> {
    let at = message.find("GPU Direct RDMA ")?;
    let in_front = message[..at].trim();
    (in_front.is_empty() || (in_front.starts_with("NET/") && in_front.ends_with(':'))).then_some(())?;
    let tail = message[at + 16..].trim_end();
    let (state, tail) = tail.split_once(" for ")?;
    let enabled = match state {
        "Enabled" => true,
        "Disabled" => false,
        _ => return None,
    };
    if let Some((_, device)) = tail.strip_prefix("HCA ").and_then(|t| t.split_once(" '")) {
        return Some(What::GpuDirect { enabled, device: Some(device.strip_suffix('\'')?.to_string()), distance: None });
    }
    // `GPU 1b000 / HCA 0 (distance 4 <= 5), read 1`, `GPU/0-1b000 (rank 3) - NET/0-0 (distance 6 > 5)`
    let (pair, limits) = tail.split_once("(distance ")?;
    let (limits, _) = limits.split_once(')')?;
    let (far, limit) = limits.split_once(" <= ").or_else(|| limits.split_once(" > "))?;
    let device = pair.split_once(" / ").or_else(|| pair.split_once(" - ")).map(|(_, d)| d.trim().to_string());
    Some(What::GpuDirect { enabled, device, distance: Some((far.parse().ok()?, limit.parse().ok()?)) })
}
