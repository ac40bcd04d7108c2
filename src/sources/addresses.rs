//! Addresses of this host, or of a network namespace, from the kernel's tables.

use crate::observe::process::ProcessInfo;
use crate::sources::Roots;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Nodes with a port for each GPU have as many.
const MOST: usize = 8;

/// Those under which other nodes know this one: of hardware, of bonds and of VLANs. Those of bridges and of containers are the same on
/// every node, and are left out, as loopback and link-local ones are.
pub fn of_host(roots: &Roots) -> Vec<String> {
    let table = |path: &str| roots.table(path).unwrap_or_default();
    let routes = table("/proc/net/route");
    let is_real = |interface: &str| {
        let is_there = |path: String| roots.path(path).exists();
        is_there(format!("/sys/class/net/{interface}/device"))
            || is_there(format!("/sys/class/net/{interface}/bonding"))
            || is_there(format!("/proc/net/vlan/{interface}"))
    };
    let v4 = local_v4(&table("/proc/net/fib_trie")).into_iter().filter(|address| interface_of(&routes, *address).is_some_and(is_real));
    let inet6 = table("/proc/net/if_inet6");
    let v6 = inet6.lines().filter_map(global_v6).filter(|(_, interface)| is_real(interface)).map(|(address, _)| address);
    v4.map(IpAddr::V4).chain(v6.map(IpAddr::V6)).take(MOST).map(|address| address.to_string()).collect()
}

/// Whether a process has a network of its own, as a pod without hostNetwork has, and the address that it has there. `None`: it has that
/// of this program, or that is not known.
pub fn apart(roots: &Roots, process: &ProcessInfo) -> Option<Option<Ipv4Addr>> {
    let namespace = |pid: &str| std::fs::read_link(roots.path(format!("/proc/{pid}/ns/net"))).ok();
    let pid = process.pid.to_string();
    let (own, theirs) = (namespace("self")?, namespace(&pid)?);
    let trie = || roots.table(&format!("/proc/{pid}/net/fib_trie")).unwrap_or_default();
    (own != theirs).then(|| local_v4(&trie()).into_iter().next())
}

/// In the trie of routes a host's own address stands above a line that says so.
fn local_v4(trie: &str) -> BTreeSet<Ipv4Addr> {
    let lines = trie.lines().zip(trie.lines().skip(1));
    let local = lines.filter(|(_, below)| below.contains("/32 host LOCAL"));
    local.filter_map(|(line, _)| line.trim().strip_prefix("|-- ")?.parse().ok()).filter(|a: &Ipv4Addr| !a.is_loopback()).collect()
}

/// The interface with the narrowest route, without a gateway, that an address lies in. The table has numbers as the host orders bytes.
fn interface_of(routes: &str, address: Ipv4Addr) -> Option<&str> {
    let address = u32::from_ne_bytes(address.octets());
    let direct = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(fields.get(at)?, 16).ok();
        let (destination, gateway, mask) = (number(1)?, number(2)?, number(7)?);
        (gateway == 0 && mask != 0 && address & mask == destination).then_some((mask.count_ones(), *fields.first()?))
    });
    direct.max_by_key(|(bits, _)| *bits).map(|(_, interface)| interface)
}

/// Of a line of if_inet6: address, index, length, scope (00 is global), flags, interface.
fn global_v6(line: &str) -> Option<(Ipv6Addr, &str)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, scope, interface) = (fields.first()?, fields.get(3)?, fields.get(5)?);
    (*scope == "00").then_some((Ipv6Addr::from(u128::from_str_radix(address, 16).ok()?), *interface))
}
