//! Whom a line of the kernel's log is about: addresses, processes, control groups and interfaces that its entry captures.

use crate::logs::catalog::Signature;
use crate::model::gpu::PciAddress;
use regex::Regex;
use std::sync::LazyLock;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Named<'a> {
    /// Number, and what stands behind it.
    pub xid: Option<(u64, &'a str)>,
    pub pci: Option<PciAddress>,
    /// The address as the text has it.
    pub device: Option<String>,
    pub pid: Option<u32>,
    pub killed_for_memory: bool,
    /// The program's name.
    pub comm: Option<String>,
    /// The control group of the process.
    pub group: Option<String>,
    pub interface: Option<String>,
}

/// Any entry's line may name a card.
static PCI: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b|PCI:[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\b")
        .expect("constant")
});

impl<'a> Named<'a> {
    pub fn of(signature: &Signature, text: &'a str) -> Named<'a> {
        let captures = signature.captures(text);
        let get = |name: &str| captures.iter().find(|(known, value)| *known == name && !value.is_empty()).map(|(_, value)| *value);
        let number = |digits: &str| digits.parse().ok();
        let device = get("device").or_else(|| PCI.find(text).map(|found| found.as_str()));
        Named {
            xid: get("xid").and_then(number).map(|number| (number, get("detail").unwrap_or(""))),
            pci: device.and_then(PciAddress::parse),
            device: device.map(str::to_owned),
            pid: get("pid").and_then(|digits| digits.parse().ok()).filter(|_| get("xid").is_none()),
            killed_for_memory: signature.rule == "rank-oom-killed",
            comm: get("process").map(|name| name.trim().to_owned()),
            group: get("group").map(str::to_owned),
            interface: get("interface").map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::catalog::{self, Scope};
    use proptest::prelude::*;

    fn read(text: &str) -> Named<'_> {
        Named::of(catalog::find(Scope::Line, text).unwrap_or_else(|| panic!("{text:?} is not known")), text)
    }

    #[test]
    fn an_xid_is_its_number_its_gpu_and_what_follows() {
        let named = read("NVRM: Xid (PCI:0000:3b:00): 79, pid=2201, name=python, GPU has fallen off the bus.");
        assert_eq!(named.xid, Some((79, "pid=2201, name=python, GPU has fallen off the bus.")));
        assert_eq!(named.pci, PciAddress::parse("0000:3b:00.0"));
        assert_eq!(read("NVRM: Xid (0000:03:00): 31, Ch 8").pci, PciAddress::parse("03:00.0"));
        let switch = read("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Non-fatal");
        assert_eq!((switch.xid, switch.pci), (None, PciAddress::parse("c1:00.0")));
    }

    #[test]
    fn processes_are_named_in_many_ways() {
        for (text, pid, comm) in [
            ("Out of memory: Killed process 1234 (python3) total-vm:1kB", 1234, "python3"),
            ("Memory cgroup out of memory: Kill process 7 (pt_data_worker) score 9", 7, "pt_data_worker"),
            ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/a/b,task=python,pid=9,uid=0", 9, "python"),
            ("python3[123]: segfault at 0 ip 00007f sp 00007f error 4 in x.so", 123, "python3"),
            ("traps: python3[123] general protection fault ip:7f sp:7f error:0 in x.so", 123, "python3"),
            ("INFO: task python3:1234 <writer> blocked for more than 120 seconds.", 1234, "python3"),
            ("Memory failure: 0x12345: Sending SIGBUS to python3:1234 due to hardware memory corruption", 1234, "python3"),
        ] {
            let named = read(text);
            assert_eq!((named.pid, named.comm.as_deref()), (Some(pid), Some(comm)), "{text}");
        }
        assert_eq!(read("oom-kill:constraint=X,task_memcg=/a/b,task=p,pid=9,uid=0").group.as_deref(), Some("/a/b"));
    }

    #[test]
    fn cards_and_interfaces_are_named() {
        let named = read("mlx5_core 0000:0c:00.0 ens1np0: Link down");
        assert_eq!((named.pci, named.interface.as_deref()), (PciAddress::parse("0c:00.0"), Some("ens1np0")));
        assert_eq!(
            read("bond0: (slave eth1): link status definitely down for interface eth1, disabling").interface.as_deref(),
            Some("eth1")
        );
        assert_eq!(read("NETDEV WATCHDOG: ens1f0 (ice): transmit queue 7 timed out").interface.as_deref(), Some("ens1f0"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r"(NVRM: Xid \(|Killed process |oom-kill:|PCI:|[0-9a-f]{2}:){0,3}\PC{0,60}") {
            catalog::all().for_each(|(_, s)| drop(Named::of(s, &text)));
        }
    }
}
