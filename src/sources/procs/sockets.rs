//! Connections that a process tries to make and that nothing answers: sockets in state SYN_SENT, by /proc/PID/net/tcp and tcp6. A port that
//! nobody listens at refuses at once; packets that are dropped leave a socket in this state for minutes.

use super::read::Reader;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Sockets of one user that are tried at once.
const MAX_TRIED: usize = 256;
/// `TCP_SYN_SENT` of the kernel's `include/net/tcp_states.h`.
const SYN_SENT: &str = "02";
/// Calls in which a process waits for a connection.
const CALLS: &[&str] = &["connect", "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait"];

/// It may wait for a connection; where its call may not be read, it may wait for anything.
pub fn may_connect(call: Option<&str>) -> bool {
    call.is_none_or(|call| CALLS.contains(&call))
}

/// What a process of this user tries to reach at this port.
pub fn unanswered(reader: &Reader, pid: u32, uid: u32, port: u16) -> Option<String> {
    let table = |name: &str| reader.roots().table(&format!("/proc/{pid}/net/{name}")).unwrap_or_default();
    let of = |text: String| text.lines().filter_map(Tried::parse).filter(|t| t.uid == uid && t.to.port() == port).take(MAX_TRIED).collect();
    let tried: Vec<Tried> = ["tcp", "tcp6"].into_iter().map(table).flat_map(|text| -> Vec<Tried> { of(text) }).collect();
    if tried.is_empty() {
        return None;
    }
    // The table is that of all processes of the network namespace.
    let own = reader.sockets(pid);
    let own = tried.iter().find(|tried| own.contains(&tried.inode));
    own.map(|tried| tried.to.to_string())
}

/// A socket that has sent its SYN.
#[derive(Debug, PartialEq, Eq)]
struct Tried {
    to: SocketAddr,
    uid: u32,
    inode: u64,
}

impl Tried {
    /// `  3: 0100000A:9C40 0700000A:733C 02 00000001:00000000 01:00000190 00000003  1000        0 777 2 …`
    fn parse(line: &str) -> Option<Tried> {
        let mut words = line.split_ascii_whitespace().skip(2);
        let (to, state) = (words.next()?, words.next()?);
        if state != SYN_SENT {
            return None;
        }
        let (ip, port) = to.split_once(':')?;
        let to = SocketAddr::new(address(ip)?, u16::from_str_radix(port, 16).ok()?);
        Some(Tried { to, uid: words.nth(3)?.parse().ok()?, inode: words.nth(1)?.parse().ok()? })
    }
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
    use super::Tried;

    #[test]
    fn addresses_are_read_from_either_table() {
        let line = |to: &str, state: &str| {
            format!(
                "   3: 0100000A:9C40 {to} {state} 00000001:00000000 01:00000190 00000003  1000        0 777 2 0000000000000000 800 0 0 1 7 -1"
            )
        };
        let to = |text: &str| Tried::parse(&line(text, "02")).map(|tried| (tried.to.to_string(), tried.uid, tried.inode));
        assert_eq!(to("0700000A:733C"), Some(("10.0.0.7:29500".into(), 1000, 777)));
        assert_eq!(to("000080FE000000000000000001000000:733C"), Some(("[fe80::1]:29500".into(), 1000, 777)));
        assert_eq!(to("0000000000000000FFFF00000700000A:733C"), Some(("10.0.0.7:29500".into(), 1000, 777)));
        for torn in ["", "0700000A", "07:733C", "0700000A:733CC", "é700000:1"] {
            assert_eq!(to(torn), None, "{torn:?}");
        }
        assert_eq!(Tried::parse(&line("0700000A:733C", "01")), None, "it is connected");
    }
}
