//! A network port that was up is down, and how long NCCL can bear it.

use super::area::Area;
use super::chain::Chain;
use super::ports::{Wire, counted_times, talking_job, was_used, wires};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::{Stamp, span};
use crate::model::Model;
use crate::model::job::Job;
use crate::model::port::{Link, LinkHistory};
use crate::observe::evidence::Evidence;
use crate::observe::port::PortKind;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "nic-down",
    severity: Severity::Error,
    title: "A network port that was up is down",
    says: "{is|are} down",
    how: "state below /sys/class/infiniband, operstate and carrier below /sys/class/net; only ports that were seen up. A job that uses the \
          port over InfiniBand or RoCE ends when it is down for longer than NCCL retries: 4.096 µs x 2^NCCL_IB_TIMEOUT x NCCL_IB_RETRY_CNT, \
          30 s by default (7.5 s before NCCL 2.23). The kernel's log: a link that went down for a moment, a card that is ill",
    advice: "Look at the cable, the switch port and the kernel log; connections over this port end or hang until NCCL's timeouts. Outages \
             of some seconds are ridden out with NCCL_IB_TIMEOUT=22",
    life: while_it_holds(2, 3),
    implies: Implies::Nothing,
    area: Some(Area::Network),
    chain: Chain::KERNEL,
    limits: &[&GOES_ON],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const GOES_ON: Limit =
    Limit::seconds("nic-down", "goes-on", 60.0, "a job that still moves so long after a port went down does not need it: a warning then");

/// When NCCL gives up on a port of InfiniBand or RoCE.
struct Deadline {
    after: Duration,
    /// How it comes about: `4.096 µs x 2^20 x 7 retries`.
    words: String,
}

impl Deadline {
    /// `None`: it waits for ever.
    fn of(model: &Model, job: &Job) -> Option<Deadline> {
        let bringup = model.bringup_of(&job.id);
        let set = |name: &str| -> Option<u32> {
            let of_process = || job.pids().find_map(|pid| model.processes.get(&pid)?.env(name)?.trim().parse().ok());
            let in_log = || bringup.env.get(name)?.first()?.value.trim().parse().ok();
            of_process().or_else(in_log)
        };
        let version = bringup.nccl_versions.first().map(|said| said.value.clone()).or_else(|| model.ras.nccl_version.clone());
        // Adapters take five bits of the one and three of the other.
        let timeout = set("NCCL_IB_TIMEOUT").unwrap_or_else(|| usual_timeout(version.as_deref())).min(31);
        let retries = set("NCCL_IB_RETRY_CNT").unwrap_or(7).clamp(1, 7);
        let after = Duration::from_nanos(4096 * (1u64 << timeout) * u64::from(retries));
        (timeout > 0).then(|| Deadline { after, words: format!("4.096 µs x 2^{timeout} x {retries} retries") })
    }
}

/// The default of `NCCL_IB_TIMEOUT`: 18 before NCCL 2.23.
fn usual_timeout(version: Option<&str>) -> u32 {
    let minor = || version?.strip_prefix("2.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok();
    if minor().is_some_and(|minor| minor < 23) { 18 } else { 20 }
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for wire in wires(ctx.model) {
        let found = down(ctx, &wire).or_else(|| was_down(ctx, &wire));
        // An interface may be down over a port that is up, as with IPoIB.
        let above =
            || wire.netdev.filter(|_| wire.port.is_some()).map(|n| Wire { name: n.sample.name.clone(), port: None, netdev: Some(n) });
        out.extend(found.or_else(|| down(ctx, &above()?)));
    }
}

/// Its link, the file that shows it, and what stands there.
fn link<'a>(wire: &Wire<'a>) -> Option<(&'a LinkHistory, String, Option<String>)> {
    let port = wire.port.map(|p| {
        let path = format!("/sys/class/infiniband/{}/ports/{}/state", p.info.device, p.info.port);
        (&p.link, path, p.sample.state.clone())
    });
    let netdev = || wire.netdev.map(|n| (&n.link, format!("/sys/class/net/{}/operstate", n.sample.name), n.sample.operstate.clone()));
    port.or_else(netdev)
}

/// Only the job that used it can miss it.
fn user<'a>(ctx: &TickContext<'a>, wire: &Wire, since: Stamp) -> Option<&'a Job> {
    let port = wire.port?;
    talking_job(ctx.model).filter(|_| was_used(port, since))
}

/// NCCL's own transport goes over these; EFA has retries of its own, and an interface carries TCP.
fn has_deadline(wire: &Wire) -> bool {
    wire.port.is_some_and(|p| matches!(p.info.kind, PortKind::Infiniband | PortKind::Roce))
}

/// The seconds in which it was down before.
fn before(link: &LinkHistory) -> String {
    match link.times {
        0 => String::new(),
        n => format!("; it was down {} before, {} in all", counted_times(u64::from(n)), span(link.down_for)),
    }
}

fn down(ctx: &TickContext, wire: &Wire) -> Option<Finding> {
    let (link, path, said) = link(wire)?;
    let LinkHistory { now: Link::Down, since, was_up: true, .. } = *link else { return None };
    let mut found = ctx.of_wire(&RULE, wire, format!("{} {} went down", wire.kind(), wire.name), since, user(ctx, wire, since));
    found.confidence = Confidence::Certain;
    let for_so_long = ctx.model.now.since(since);
    found.why = format!("down for {}{}", span(for_so_long), before(link));
    if let Some(job) = found.job.as_ref().and_then(|id| ctx.model.jobs.get(id)) {
        let deadline = Deadline::of(ctx.model, job).filter(|_| has_deadline(wire));
        let after = deadline.as_ref().map_or(GOES_ON.duration(), |d| d.after.max(GOES_ON.duration()));
        if ctx.moved_at(job).is_some_and(|at| at > since.plus(after)) {
            found.severity = Severity::Warning;
            found.why += "; the job goes on without it";
        } else if let Some(Deadline { after, words }) = deadline {
            found.why += &match after.checked_sub(for_so_long) {
                Some(left) => format!("; NCCL gives up in {}, {} after it went down ({words})", span(left), span(after)),
                None => format!("; NCCL gave up {} after it went down ({words}): that ends the job", span(after)),
            };
        }
    }
    found.next = Some("dmesg -T | grep -i -e link -e mlx5 -e efa | tail".into());
    found.evidence = vec![Evidence { path: Some(path), ..Evidence::of("counter", said.unwrap_or_else(|| "no carrier".into())) }];
    found.machine = true;
    Some(found)
}

/// It is up again, but was down for longer than NCCL bears, and its job has not moved since: that is why.
fn was_down(ctx: &TickContext, wire: &Wire) -> Option<Finding> {
    let (link, path, _) = link(wire)?;
    let &(from, to) = link.outages.back().filter(|_| link.now == Link::Up && has_deadline(wire))?;
    let open = ctx.open_on(&RULE, &wire.name)?;
    let job = ctx.model.jobs.get(open.job.as_ref()?)?;
    let Deadline { after, words } = Deadline::of(ctx.model, job)?;
    let stands = ctx.moved_at(job).is_some_and(|at| at <= from.plus(after));
    let was_there = job.ended_at.is_none_or(|ended| ended >= from.plus(after));
    if to.since(from) < after || !stands || !was_there {
        return None;
    }
    let mut found = ctx.of_wire(&RULE, wire, format!("{} {} was down for {}", wire.kind(), wire.name, span(to.since(from))), from, None);
    found.confidence = Confidence::Certain;
    found.why = format!("up again, but NCCL gave up {} after it went down ({words}), and the job has not moved since", span(after));
    found.next = Some("dmesg -T | grep -i -e link -e mlx5 | tail; then start the job again".into());
    found.evidence = vec![Evidence { path: Some(path), ..Evidence::of("counter", format!("down for {}", span(to.since(from)))) }];
    found.machine = true;
    Some(found)
}
