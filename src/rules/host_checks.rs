//! Host checks: is this host set up as jobs of NCCL need it? Each is a function from what is known to one of five answers.
//!
//! **To add a check**: its entry in the list of its group (`host.rs`, `gpu.rs`, `net.rs`) with its function. What it wants to have looked
//! at stands in `reads`; the source of the facts reads that.

mod gpu;
mod host;
mod net;

use super::findings::Finding;
use super::{Rule, TickContext};
use crate::base::platforms::{self, Platform};
use crate::base::severity::{Confidence, Role};
use crate::base::units::{counted, gib};
use crate::model::Model;
use crate::model::bringup::{Item, Seen};
use crate::model::port::Port;
use crate::observe::evidence::Evidence;
use crate::observe::facts::{HostFacts, Look, PciFacts, PciKind, Reading};
use crate::observe::port::PortKind;
use crate::observe::{SourceId, SourceState};
use serde::Serialize;

/// One question about the host.
pub struct Check {
    pub id: &'static str,
    pub group: Group,
    pub label: &'static str,
    /// Where the answer comes from.
    pub reads: &'static [Look],
    pub healthy: &'static str,
    /// Why it matters, in a sentence.
    pub why: &'static str,
    /// A command where there is one.
    pub remedy: &'static str,
    judge: fn(&Host) -> Judged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Limits, memory, the kernel.
    Host,
    /// GPUs, their driver and what belongs to it.
    Gpu,
    /// RDMA devices and interfaces.
    Net,
}

impl Group {
    pub const ALL: [Group; 3] = [Group::Host, Group::Gpu, Group::Net];

    pub fn as_str(self) -> &'static str {
        match self {
            Group::Host => "host",
            Group::Gpu => "gpu",
            Group::Net => "net",
        }
    }
}

/// In the order of how much it matters to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum State {
    /// Jobs fail or crawl.
    #[serde(rename = "fail")]
    Fail,
    /// A person should look at it.
    #[serde(rename = "warn")]
    Warn,
    /// Whether it is well is not known.
    #[serde(rename = "cannot read")]
    CannotRead,
    #[serde(rename = "pass")]
    Pass,
    /// It means nothing on this machine.
    #[serde(rename = "does not apply")]
    DoesNotApply,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub state: State,
    /// What was found; of what cannot be read or does not apply, why.
    pub value: String,
    /// Instead of the check's own.
    remedy: Option<String>,
}

/// An early end (nothing can be read, nothing applies) is an answer, too.
type Judged = Result<Answer, Answer>;

fn answer(state: State, value: impl Into<String>) -> Answer {
    Answer { state, value: value.into(), remedy: None }
}

fn pass(value: impl Into<String>) -> Answer {
    answer(State::Pass, value)
}

fn warn(value: impl Into<String>) -> Answer {
    answer(State::Warn, value)
}

fn fail(value: impl Into<String>) -> Answer {
    answer(State::Fail, value)
}

fn cannot_read(why: impl Into<String>) -> Answer {
    answer(State::CannotRead, why)
}

fn does_not_apply(why: impl Into<String>) -> Answer {
    answer(State::DoesNotApply, why)
}

impl Answer {
    fn remedy(mut self, remedy: impl Into<String>) -> Answer {
        self.remedy = Some(remedy.into());
        self
    }
}

/// A check with its answer.
pub struct Checked {
    pub check: &'static Check,
    pub answer: Answer,
}

impl Checked {
    /// What to do, where it is not well.
    pub fn remedy(&self) -> Option<&str> {
        let own = self.answer.remedy.as_deref();
        matches!(self.answer.state, State::Fail | State::Warn).then(|| own.unwrap_or(self.check.remedy)).or(own)
    }

    /// `/proc/self/limits, /proc/PID/limits`
    pub fn reads(&self) -> String {
        self.check.reads.iter().map(|look| look.name()).collect::<Vec<_>>().join(", ")
    }
}

/// All checks, by group.
pub fn all() -> impl Iterator<Item = &'static Check> {
    host::CHECKS.iter().chain(gpu::CHECKS).chain(net::CHECKS)
}

/// What the source of the facts is to look at, each once.
pub fn looks() -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    for look in all().flat_map(|check| check.reads) {
        if !looks.contains(look) {
            looks.push(*look);
        }
    }
    looks
}

/// The answers to the checks of these groups; empty where nobody has looked.
pub fn judge(model: &Model, groups: &[Group]) -> Vec<Checked> {
    answers(model, |check| groups.contains(&check.group))
}

fn answers(model: &Model, wanted: impl Fn(&Check) -> bool) -> Vec<Checked> {
    let wanted = all().filter(|check| wanted(check));
    let answered: Box<dyn Fn(&Check) -> Answer> = match (model.facts.as_deref(), model.sources.get(&SourceId::of("host"))) {
        (Some(facts), _) => Box::new(move |check| (check.judge)(&Host { model, facts }).unwrap_or_else(|early| early)),
        (None, Some(view)) => Box::new(|_| cannot_read(view.detail.clone().unwrap_or_else(|| view.state.as_str().into()))),
        (None, None) => return Vec::new(),
    };
    wanted.map(|check| Checked { check, answer: answered(check) }).collect()
}

/// What the host is, which decides what applies: `p5.48xlarge, a virtual machine, in a container (docker)`.
pub fn machine(model: &Model) -> Option<String> {
    let host = Host { model, facts: model.facts.as_deref()? };
    let kind = host.is_virtual().map(|is| if is { "a virtual machine" } else { "bare metal" }.to_owned());
    let container = host.container().map(|runtime| format!("in a container ({runtime})"));
    let words: Vec<String> = host.product().map(str::to_owned).into_iter().chain(kind).chain(container).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// `host 12, gpu 5, net 7 pass; 2 cannot be read`: the rest is shown one by one.
fn sum(checked: &[Checked]) -> String {
    let of = |state, group| checked.iter().filter(|c| c.answer.state == state && group == c.check.group).count();
    let passed: Vec<String> =
        Group::ALL.iter().map(|g| (g, of(State::Pass, *g))).filter(|(_, n)| *n > 0).map(|(g, n)| format!("{} {n}", g.as_str())).collect();
    let unread = checked.iter().filter(|c| c.answer.state == State::CannotRead).count();
    let unread = if unread > 0 { format!("; {unread} cannot be read") } else { String::new() };
    if passed.is_empty() { format!("none pass{unread}") } else { format!("{} pass{unread}", passed.join(", ")) }
}

/// Rows of the checklist: what is not well one by one, what is well in one row. What the kernel's log holds is a finding already.
pub fn items(model: &Model) -> Vec<Item> {
    if model.facts.is_none() {
        return Vec::new();
    }
    let checked = answers(model, |check| check.id != "kernel-log");
    let item = |id, label, state, value| Item { id, label, state, value, proof: None, advice: None };
    let mut items = vec![item("host-checks", "Host checks", Seen::Pass, sum(&checked))];
    let bad = checked.iter().filter_map(|c| {
        let state = match c.answer.state {
            State::Fail => Seen::Fail,
            State::Warn => Seen::Warn,
            _ => return None,
        };
        Some(Item { advice: c.remedy().map(str::to_owned), ..item(c.check.id, c.check.label, state, c.answer.value.clone()) })
    });
    items.extend(bad);
    items
}

/// Whether GPUs of other hosts can be reached over NVLink, whatever this machine is; `None` where nobody has looked.
pub fn imex(model: &Model) -> Option<Answer> {
    let host = Host { model, facts: model.facts.as_deref()? };
    Some(gpu::imex_state(&host).unwrap_or_else(|early| early))
}

/// Whether a daemon of this host runs; `None` where nobody has looked.
pub fn runs(model: &Model, daemon: &str) -> Option<bool> {
    Host { model, facts: model.facts.as_deref()? }.runs(daemon)
}

/// A check that is not well, as a finding of the rule of the same name.
pub fn find(rule: &Rule, ctx: &TickContext, out: &mut Vec<Finding>) {
    let Some(facts) = ctx.model.facts.as_deref() else { return };
    let Some(check) = all().find(|check| check.id == rule.id) else { return };
    let answer = (check.judge)(&Host { model: ctx.model, facts }).unwrap_or_else(|early| early);
    if !matches!(answer.state, State::Fail | State::Warn) {
        return;
    }
    let checked = Checked { check, answer };
    let mut found = rule.finding("host", format!("{}: {}", check.label, checked.answer.value), ctx.model.now);
    // It concerns every job of this host, and explains none by itself.
    (found.role, found.confidence) = (Role::Context, Confidence::Certain);
    found.why = check.why.into();
    found.next = checked.remedy().map(str::to_owned);
    found.evidence = vec![Evidence { path: Some(checked.reads()), ..Evidence::of("counter", checked.answer.value.clone()) }];
    out.push(found);
}

/// What is known of the host.
struct Host<'a> {
    model: &'a Model,
    facts: &'a HostFacts,
}

impl<'a> Host<'a> {
    /// The text of what was looked at; `None`: it is not there.
    fn read(&self, path: &str) -> Result<Option<&'a str>, Answer> {
        match self.facts.looked.get(path) {
            Some(Reading::Text(text)) => Ok(Some(text)),
            Some(Reading::Absent) => Ok(None),
            Some(Reading::Unreadable(why)) => Err(cannot_read(format!("{path}: {why}"))),
            None => Err(cannot_read(format!("{path}: not looked at"))),
        }
    }

    /// The names in a directory; `None`: it is not there.
    fn names(&self, path: &str) -> Result<Option<Vec<&'a str>>, Answer> {
        Ok(self.read(path)?.map(|text| text.lines().collect()))
    }

    /// What must be there to be judged.
    fn there(&self, path: &str) -> Result<&'a str, Answer> {
        self.read(path)?.ok_or_else(|| cannot_read(format!("{path}: no such file")))
    }

    /// `None`: nothing says.
    fn is_virtual(&self) -> Option<bool> {
        const VENDORS: &[&str] = &["QEMU", "Google", "VMware", "Xen", "OpenStack", "Alibaba Cloud", "Tencent Cloud", "innotek"];
        let node = self.model.node.as_ref();
        let (vendor, product) =
            node.map_or(("", ""), |n| (n.vendor.as_deref().unwrap_or_default(), n.product.as_deref().unwrap_or_default()));
        let flags = self.read("/proc/cpuinfo").ok().flatten().unwrap_or_default();
        if flags.split(' ').any(|flag| flag == "hypervisor") || product == "Virtual Machine" {
            Some(true)
        } else if vendor == "Amazon EC2" {
            Some(!product.contains(".metal"))
        } else if VENDORS.iter().any(|known| vendor.starts_with(known)) {
            Some(true)
        } else {
            (!vendor.is_empty() || flags.starts_with("flags")).then_some(false)
        }
    }

    fn container(&self) -> Option<&'a str> {
        self.model.node.as_ref()?.container.as_deref()
    }

    fn unless_virtual(&self) -> Result<(), Answer> {
        if self.is_virtual() == Some(true) { Err(does_not_apply("a virtual machine: the host below it decides")) } else { Ok(()) }
    }

    fn pci(&self, what: PciKind) -> impl Iterator<Item = &'a PciFacts> {
        self.facts.pci.iter().filter(move |device| device.what == what)
    }

    fn efa(&self) -> impl Iterator<Item = &'a Port> {
        self.model.ports.values().filter(|port| port.info.kind == PortKind::Efa && !port.is_gone())
    }

    fn rdma(&self) -> Result<Vec<&'a Port>, Answer> {
        let ports: Vec<&Port> = self.model.ports.values().filter(|port| !port.is_gone() && !port.info.device.is_empty()).collect();
        if ports.is_empty() { Err(self.without("rdma", "no RDMA device")) } else { Ok(ports) }
    }

    /// Why there is nothing of what a source reports: the source could not read it, or it is not there.
    fn without(&self, source: &'static str, nothing: &str) -> Answer {
        match self.model.sources.get(&SourceId::of(source)) {
            Some(view) if !matches!(view.state, SourceState::Ok | SourceState::Absent) => {
                cannot_read(format!("{source}: {}", view.detail.as_deref().unwrap_or(view.state.as_str())))
            }
            None => cannot_read(format!("{source}: not looked at")),
            Some(_) => does_not_apply(nothing),
        }
    }

    /// A GPU by the PCI bus, or by NVML.
    fn any_gpu(&self) -> Result<(), Answer> {
        let any = self.pci(PciKind::Gpu).next().is_some() || !self.model.gpus.is_empty();
        if any { Ok(()) } else { Err(self.without("nvml", "no NVIDIA GPU")) }
    }

    /// NVML has said who the GPUs are.
    fn nvml(&self) -> Result<(), Answer> {
        self.any_gpu()?;
        if self.model.gpus.values().any(|gpu| gpu.info.uuid.is_some() || gpu.info.driver.is_some()) {
            return Ok(());
        }
        let view = self.model.sources.get(&SourceId::of("nvml"));
        let detail = view.and_then(|view| view.detail.as_deref()).unwrap_or("no answer");
        Err(cannot_read(format!("NVML: {detail}")))
    }

    fn runs(&self, daemon: &str) -> Option<bool> {
        self.facts.daemons.as_ref().map(|daemons| daemons.iter().any(|name| name == daemon))
    }

    /// Whether processes outside of this container are seen; the number is that of the first PID namespace (linux/proc_ns.h).
    fn sees_all_processes(&self) -> bool {
        self.facts.own.pid_namespace.as_deref().is_none_or(|ns| ns == "pid:[4026531836]")
    }

    /// Name of the machine: `p5.48xlarge`.
    fn product(&self) -> Option<&'a str> {
        self.model.node.as_ref()?.product.as_deref()
    }

    /// What this kind of machine has, where that is known for sure.
    fn platform(&self) -> Option<&'static Platform> {
        platforms::of_product(self.product()?).filter(|platform| !platform.likely)
    }
}

/// `64 KiB`, `8.0 MiB`, `1.0 GiB`, `unlimited`
fn size(bytes: u64) -> String {
    match bytes {
        u64::MAX => "unlimited".into(),
        0..=0x3ff => format!("{bytes} bytes"),
        0x400..=0xf_ffff => format!("{} KiB", bytes >> 10),
        0x10_0000..=0x3fff_ffff => format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20)),
        _ => format!("{} GiB", gib(bytes)),
    }
}

/// `a, b and 3 more`
fn some_of(names: &[String]) -> String {
    const MOST: usize = 4;
    match names.len().saturating_sub(MOST) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..MOST].join(", ")),
    }
}

/// `2 of 8 GPUs`
fn of_all(bad: usize, all: usize, what: &str) -> String {
    if all == 1 { format!("the {what}") } else { format!("{bad} of {}", counted(all as u64, what)) }
}
