//! Whom a line of the kernel's log is about: addresses, processes, control groups and interfaces in its text.

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

/// `\b` keeps SXid, which an NVSwitch has, out.
static XID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bXid \((?P<at>[^)]{0,40})\): (?P<no>[0-9]{1,5})\b,?\s*").expect("constant"));
static PCI: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b|PCI:[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\b")
        .expect("constant")
});
static PROCESS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"Kill(?:ed)? process (?P<pid>[0-9]{1,9}) \((?P<comm>[^)]{0,64})\)",
        r"OOM victim (?P<pid>[0-9]{1,9}) \((?P<comm>[^)]{0,64})\)",
        r"reaped process (?P<pid>[0-9]{1,9}) \((?P<comm>[^)]{0,64})\)",
        r"oom-kill:.*\btask=(?P<comm>[^,]{0,64}),pid=(?P<pid>[0-9]{1,9})\b",
        r"^(?:traps: )?(?P<comm>[^\[\]]{1,32})\[(?P<pid>[0-9]{1,9})\]:? (?:segfault|general protection|trap )",
        r"INFO: task (?P<comm>[^:]{1,64}):(?P<pid>[0-9]{1,9}) .*blocked for more",
        r"Sending SIGBUS to (?P<comm>[^:]{1,64}):(?P<pid>[0-9]{1,9}) ",
    ]
    .iter()
    .map(|text| Regex::new(text).expect("constant"))
    .collect()
});
/// So many of them tell of memory that ran out.
const KILLED: usize = 4;
static GROUP: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\btask_memcg=(?P<group>[^,]{1,512})").expect("constant"));
static INTERFACE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?:[0-9a-f]:[0-9a-f]{2}\.[0-7] (?P<a>[A-Za-z0-9_.-]{1,15}): (?:NIC )?Link|NETDEV WATCHDOG: (?P<b>[A-Za-z0-9_.-]{1,15}) |for interface (?P<c>[A-Za-z0-9_.-]{1,15}))")
        .expect("constant")
});

impl<'a> Named<'a> {
    pub fn of(text: &'a str) -> Named<'a> {
        let mut named = Named::default();
        if let Some(found) = XID.captures(text) {
            named.xid = found["no"].parse().ok().map(|no| (no, text[found.get(0).map_or(0, |m| m.end())..].trim()));
            named.pci = PciAddress::parse(&found["at"]);
            named.device = Some(found["at"].to_owned());
            return named;
        }
        if let Some(found) = PCI.find(text) {
            named.pci = PciAddress::parse(found.as_str());
            named.device = Some(found.as_str().to_owned());
        }
        if let Some((no, found)) = PROCESS.iter().enumerate().find_map(|(no, r)| Some((no, r.captures(text)?))) {
            named.killed_for_memory = no < KILLED;
            named.pid = found["pid"].parse().ok();
            named.comm = Some(found["comm"].trim().to_owned()).filter(|c| !c.is_empty());
        }
        named.group = GROUP.captures(text).map(|c| c["group"].to_owned());
        named.interface = INTERFACE.captures(text).and_then(|c| c.name("a").or(c.name("b")).or(c.name("c"))).map(|m| m.as_str().to_owned());
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_xid_is_its_number_its_gpu_and_what_follows() {
        let named = Named::of("NVRM: Xid (PCI:0000:3b:00): 79, pid=2201, name=python, GPU has fallen off the bus.");
        assert_eq!(named.xid, Some((79, "pid=2201, name=python, GPU has fallen off the bus.")));
        assert_eq!(named.pci, PciAddress::parse("0000:3b:00.0"));
        assert_eq!(Named::of("NVRM: Xid (0000:03:00): 31, Ch 8").pci, PciAddress::parse("03:00.0"));
        let switch = Named::of("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Non-fatal");
        assert_eq!((switch.xid, switch.pci), (None, PciAddress::parse("c1:00.0")));
    }

    #[test]
    fn processes_are_named_in_many_ways() {
        for (text, pid, comm) in [
            ("Out of memory: Killed process 1234 (python3) total-vm:1kB", 1234, "python3"),
            ("Memory cgroup out of memory: Kill process 7 (pt_data_worker) score 9", 7, "pt_data_worker"),
            ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/a/b,task=python,pid=9,uid=0", 9, "python"),
            ("python3[123]: segfault at 0 ip 00007f", 123, "python3"),
            ("traps: python3[123] general protection fault ip:7f", 123, "python3"),
            ("INFO: task python3:1234 <writer> blocked for more than 120 seconds.", 1234, "python3"),
            ("Memory failure: 0x12345: Sending SIGBUS to python3:1234 due to hardware memory corruption", 1234, "python3"),
        ] {
            let named = Named::of(text);
            assert_eq!((named.pid, named.comm.as_deref()), (Some(pid), Some(comm)), "{text}");
        }
        assert_eq!(Named::of("oom-kill:constraint=X,task_memcg=/a/b,task=p,pid=9,uid=0").group.as_deref(), Some("/a/b"));
    }

    #[test]
    fn cards_and_interfaces_are_named() {
        let named = Named::of("mlx5_core 0000:0c:00.0 ens1np0: Link down");
        assert_eq!((named.pci, named.interface.as_deref()), (PciAddress::parse("0c:00.0"), Some("ens1np0")));
        assert_eq!(
            Named::of("bond0: (slave eth1): link status definitely down for interface eth1, disabling").interface.as_deref(),
            Some("eth1")
        );
        assert_eq!(Named::of("NETDEV WATCHDOG: ens1f0 (ice): transmit queue 7 timed out").interface.as_deref(), Some("ens1f0"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r"(NVRM: Xid \(|Killed process |oom-kill:|PCI:|[0-9a-f]{2}:){0,3}\PC{0,60}") {
            let _ = Named::of(&text);
        }
    }
}
