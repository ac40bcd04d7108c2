//! Sockets of a process by /proc/PID/net/tcp and tcp6: connections that it tries to make and that nothing answers (a port that nobody listens
//! at refuses at once; packets that are dropped leave a socket in state SYN_SENT for minutes), ports at which it listens, and connections
//! within its host.

use super::read::Reader;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Sockets that may be the ones looked for.
const MAX_SOCKETS: usize = 256;
/// `TCP_SYN_SENT` and `TCP_LISTEN` of the kernel's `include/net/tcp_states.h`.
const SYN_SENT: &[u8; 2] = b"02";
const LISTEN: &[u8; 2] = b"0A";
/// `TCP_ESTABLISHED`.
const ESTABLISHED: &[u8; 2] = b"01";
/// Sockets of connections within one host: ranks of a node have some for each pair.
const MAX_WITHIN: usize = 16384;
/// Calls in which a process waits for a connection.
const CALLS: &[&str] = &["connect", "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"];

/// It may wait for a connection; where its call may not be read, it may wait for anything.
pub fn may_connect(call: Option<&str>) -> bool {
    call.is_none_or(|call| CALLS.contains(&call))
}

/// What a process of this user tries to reach at this port.
pub fn unanswered(reader: &Reader, pid: u32, uid: u32, port: u16) -> Option<String> {
    let tried = table(reader, pid, |socket| socket.state == *SYN_SENT && socket.uid == uid && socket.remote.port() == port);
    owned(reader, pid, &tried).map(|tried| tried.remote.to_string())
}

/// The other end of a connection, by the name that /proc/PID/fd has for it: `socket:[777]`.
pub fn peer(reader: &Reader, pid: u32, file: &str) -> Option<String> {
    let inode: u64 = file.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()?;
    let found = at_most(reader, pid, 1, |socket| socket.state == *ESTABLISHED && socket.inode == inode);
    Some(found.first()?.remote.to_string())
}

/// The first of these ports that a process listens at.
pub fn listens(reader: &Reader, pid: u32, ports: &BTreeSet<u16>) -> Option<u16> {
    let listening = table(reader, pid, |socket| socket.state == *LISTEN && ports.contains(&socket.local.port()));
    owned(reader, pid, &listening).map(|listening| listening.local.port())
}

/// Connections between processes of one host, in the network namespace of this process: the number of each socket, its own address and that
/// of the other end.
pub fn on_one_host(reader: &Reader, pid: u32) -> Vec<(u64, (SocketAddr, SocketAddr))> {
    let within = |socket: &Socket| socket.state == *ESTABLISHED && socket.local.ip() == socket.remote.ip();
    let sockets = at_most(reader, pid, MAX_WITHIN, within);
    sockets.into_iter().map(|socket| (socket.inode, (socket.local, socket.remote))).collect()
}

fn table(reader: &Reader, pid: u32, wanted: impl Fn(&Socket) -> bool) -> Vec<Socket> {
    at_most(reader, pid, MAX_SOCKETS, wanted)
}

/// The table is that of all processes of the network namespace.
fn at_most(reader: &Reader, pid: u32, most: usize, wanted: impl Fn(&Socket) -> bool) -> Vec<Socket> {
    let text = |name: &str| reader.roots().table(&format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let of = |text: String| -> Vec<Socket> { text.lines().filter_map(Socket::parse).filter(&wanted).take(most).collect() };
    ["tcp", "tcp6"].into_iter().map(text).flat_map(of).collect()
}

/// The first that is of this process.
fn owned<'a>(reader: &Reader, pid: u32, sockets: &'a [Socket]) -> Option<&'a Socket> {
    if sockets.is_empty() {
        return None;
    }
    let own = reader.sockets(pid);
    sockets.iter().find(|socket| own.contains(&socket.inode))
}

/// A line of the table.
#[derive(Debug, PartialEq, Eq)]
struct Socket {
    local: SocketAddr,
    remote: SocketAddr,
    /// Two digits of hex.
    state: [u8; 2],
    uid: u32,
    inode: u64,
}

impl Socket {
    /// `  3: 0100000A:9C40 0700000A:733C 02 00000001:00000000 01:00000190 00000003  1000        0 777 2 …`
    fn parse(line: &str) -> Option<Socket> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (socket_address(words.next()?)?, socket_address(words.next()?)?);
        let state = words.next()?.as_bytes().try_into().ok()?;
        Some(Socket { local, remote, state, uid: words.nth(3)?.parse().ok()?, inode: words.nth(1)?.parse().ok()? })
    }
}

fn socket_address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    Some(SocketAddr::new(address(ip)?, u16::from_str_radix(port, 16).ok()?))
}

/// Words of 32 bits in the order of this machine, whose bytes are in the order of the network.
fn address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(IpAddr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use super::{LISTEN, SYN_SENT, Socket};

    #[test]
    fn addresses_are_read_from_either_table() {
        let line = |to: &str, state: &str| {
            format!(
                "   3: 0100000A:9C40 {to} {state} 00000001:00000000 01:00000190 00000003  1000        0 777 2 0000000000000000 800 0 0 1 7 -1"
            )
        };
        let to = |text: &str| Socket::parse(&line(text, "02")).map(|socket| (socket.remote.to_string(), socket.uid, socket.inode));
        assert_eq!(to("0700000A:733C"), Some(("10.0.0.7:29500".into(), 1000, 777)));
        assert_eq!(to("000080FE000000000000000001000000:733C"), Some(("[fe80::1]:29500".into(), 1000, 777)));
        assert_eq!(to("0000000000000000FFFF00000700000A:733C"), Some(("10.0.0.7:29500".into(), 1000, 777)));
        for torn in ["", "0700000A", "07:733C", "0700000A:733CC", "é700000:1"] {
            assert_eq!(to(torn), None, "{torn:?}");
        }
        let states = ["02", "0A"].map(|state| Socket::parse(&line("0700000A:733C", state)).unwrap().state);
        assert_eq!(states, [*SYN_SENT, *LISTEN]);
    }
}
