//! Any NCCL WARN that no other rule explains, and what NCCL tells of the kind at level INFO.

use super::{Implies, ONCE, Rule, TextContext};
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::words::shape;
use crate::logs::catalog::{self, Part};
use crate::logs::{Origin, What};
use crate::model::TextSeen;
use crate::model::alarms::Alarm;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nccl-warn",
    severity: Severity::Warning,
    title: "NCCL printed a WARN, or at level INFO what is known to be trouble, that no other rule stands for",
    how: "A line of level WARN in any of NCCL's forms, or one of level INFO that the catalogue knows; lines that differ only in numbers and addresses are counted as one. It is an error where the call of NCCL's API returned one then",
    advice: "The first WARN in time is usually the cause; \"connection closed by remote peer\" and proxy warnings that follow it are consequences",
    life: ONCE,
    implies: Implies::Nothing,
    on_text: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let seen = ctx.seen;
    match &seen.event.what {
        What::NcclWarn { .. } => out.extend(unknown(ctx)),
        // Live, the return comes after its WARN was judged.
        What::Signed { .. } if result_of(&seen.event.what).is_some() => {
            let Some(warn) = alarms_of_writer(ctx).filter(|a| a.line < seen.line).max_by_key(|a| a.line) else { return };
            let seen = &TextSeen { event: &warn.event, text: &warn.text, line: warn.line, job: seen.job.clone(), ..*seen };
            out.extend(unknown(&TextContext { seen, ..*ctx }));
        }
        _ => {}
    }
}

/// A WARN that the catalogue does not know. Where the call of NCCL's API returned an error then, it is no mere warning.
fn unknown(ctx: &TextContext) -> Option<Finding> {
    let What::NcclWarn { site, text } = &ctx.seen.event.what else { return None };
    if ctx.signature().is_some() {
        return None;
    }
    let mut found = ctx.found(&RULE, shape(text), crate::base::clean::clip(text, 200).into_owned());
    found.confidence = Confidence::Certain;
    found.why = site
        .as_ref()
        .map_or("a WARN line of NCCL".into(), |site| format!("a WARN line of NCCL, from {}", crate::base::clean::clip(site, 80)));
    let of_the_system = OF_THE_SYSTEM.iter().find(|(texts, ..)| texts.iter().any(|known| text.contains(known)));
    if let Some((_, means, _)) = of_the_system {
        found.why = format!("{}: {means}", found.why);
    }
    if let Some(result) = returned_behind(ctx) {
        found.severity = Severity::Error;
        super::addresses::explain(&mut found, text);
        // What NCCL may have got over by itself needs no advice.
        found.next = of_the_system.map(|(_, _, next)| (*next).to_owned());
        found.summary = format!("{}{}", ctx.who(), found.summary);
        let words = catalog::words("nccl_result").and_then(|words| words.get(result)).unwrap_or(result);
        found.why = format!("{}; the call of NCCL returned then ({words})", found.why);
        if result == REMOTE_ERROR {
            (found.part, found.role) = (Some(Part::Victim), Role::Cascade);
        }
    }
    Some(found)
}

/// What the system's own words for an error say, whatever NCCL was about: a text of it, what that means, and what to look at.
/// From errno(3) as glibc words it.
const OF_THE_SYSTEM: &[(&[&str], &str, &str)] = &[
    (
        &["No route to host", "Network is unreachable", "Host is down"],
        "this host has no way to that address: another subnet, a firewall that rejects, or a host that is down",
        "`ip route get ADDRESS` and `nc -vz ADDRESS PORT` from this host; if the address is of the wrong network, set NCCL_SOCKET_IFNAME on all \
         nodes to the interface that joins them, else open the ports between the nodes",
    ),
    (
        &["Connection refused"],
        "nobody listens at that address: the other process has ended or did not come that far, or a firewall answers for it",
        "look for the first error on the host of that address; if its process is well, check the address (`ip route get ADDRESS`) and firewalls",
    ),
    (
        &["Connection timed out", "Operation timed out"],
        "the other host did not answer: it is down, its link is, or a firewall drops the packets",
        "from this host `ping ADDRESS` and `nc -vz ADDRESS PORT`; on the other one its kernel log and `ip -brief link`",
    ),
    (
        &["Connection reset by peer", "Broken pipe"],
        "the other process closed the connection, mostly because it ended",
        "look for the first error of the other ranks; this one only met a closed connection",
    ),
    (&["Too many open files"], "this process has used up its limit of file descriptors", "`ulimit -n 1048576` where the job starts"),
    (
        &["Cannot allocate memory"],
        "the system refused memory: mostly the limit of locked memory, else the memory of the host or the container",
        "`ulimit -l` inside the job (unlimited is wanted), `free -g`, the container's limit, and `dmesg -T | grep -i oom`",
    ),
    (
        &["No space left on device"],
        "a file system is full, often /dev/shm of a container",
        "`df -h /dev/shm /tmp` inside the job's container",
    ),
    (
        &["Operation not permitted", "Permission denied"],
        "the system refused it: rights of the container or its security profile",
        "`id` and `ls -l` of what it names, inside the container; its capabilities and seccomp profile",
    ),
];

/// Lines between a WARN and the return of the call, one for each function on the way.
const SOON: u64 = 16;
/// `ncclRemoteError`
const REMOTE_ERROR: &str = "6";
/// nccl-tests stopped at a call of NCCL that failed.
const OF_TESTS: &str = "nccl-test-failure";
/// The capture of an entry that is what a call of NCCL's API returned.
const RESULT: &str = "result";

/// What the same process printed near the line that was seen.
fn alarms_of_writer<'a>(ctx: &TextContext<'a>) -> impl Iterator<Item = &'a Alarm> {
    let (seen, model) = (ctx.seen, ctx.model);
    // Threads of one process may print at once.
    let who = |origin: &Origin| (origin.host.clone(), origin.pid, origin.tid);
    let (writer, file, line) = (who(&seen.event.origin), seen.file, seen.line.unwrap_or(0));
    // What nccl-tests prints itself says at most on which host: then all that warned nearby has to be of one process of it.
    let alarms = move || {
        model.record_of(&seen.job).alarms.iter().filter(move |a| a.file == file && a.line.is_some_and(|l| l.abs_diff(line) <= SOON))
    };
    let is_warn = |a: &&Alarm| matches!(a.event.what, What::NcclWarn { .. });
    let (host, pid) = (writer.0.clone(), writer.1);
    let is_of_tests = move |a: &Alarm| {
        let on = a.event.origin.host.as_ref();
        a.event.what.signature().is_some_and(|entry| entry.id == OF_TESTS)
            && (on.is_none() || host.is_none() || on == host.as_ref())
            && alarms().filter(is_warn).all(|a| a.event.origin.host == host && a.event.origin.pid == pid)
    };
    let is_writer = move |a: &Alarm| who(&a.event.origin) == writer || is_of_tests(a);
    let is_near = move |a: &&Alarm| a.file == file && a.line.is_some_and(|l| l.abs_diff(line) <= SOON) && is_writer(a);
    model.record_of(&seen.job).alarms.iter().filter(is_near).filter(move |_| line > 0)
}

/// What the call of NCCL returned, where the process printed no other trouble in between.
fn returned_behind<'a>(ctx: &TextContext<'a>) -> Option<&'a str> {
    let next = alarms_of_writer(ctx).filter(|a| a.line > ctx.seen.line).min_by_key(|a| a.line)?;
    result_of(&next.event.what)
}

fn result_of(what: &What) -> Option<&str> {
    match what {
        // `Test NCCL failure common.cu:212 'invalid argument (run with …`
        What::Signed { signature, text, .. } if signature.id == OF_TESTS => {
            let quoted = text.split('\'').nth(1).unwrap_or("an error");
            Some(quoted.split_once(" (run").map_or(quoted, |(error, _)| error))
        }
        What::Signed { signature, text, .. } => signature.capture(text, RESULT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::shape;

    #[test]
    fn warns_that_differ_only_in_numbers_have_one_shape() {
        assert_eq!(
            shape("socketProgress: Connection closed by remote peer node-3<43211>"),
            shape("socketProgress: Connection closed by remote peer node-17<9>")
        );
        assert_eq!(shape("comm 0x55d0c0de0010 rank 3"), shape("comm 0x7f31c2000000 rank 12"));
        assert_ne!(shape("Cuda failure 2 'out of memory'"), shape("Cuda failure 2 'invalid argument'"));
    }

    #[test]
    fn pointers_ids_and_addresses_fold_whatever_they_begin_with() {
        for (one, other) in [
            ("buffer 0xdeadbeefcafe lost", "buffer 0x7f31c2000000 lost"),
            ("buffer 0xa lost", "buffer 0X7F lost"),
            ("buffer deadbeefcafe lost", "buffer 7f31c2000000 lost"),
            ("(fa7e12cd)", "(00112233)"),
            ("commId fedcba9876543210, next", "commId 0123456789abcdef, next"),
            ("guid c0ffee00-dead-beef-a1b2-0123456789ab.", "guid 01234567-89ab-cdef-0123-456789abcdef."),
            ("gid fe80:0000:0000:0000:e41d:2d03:00f2:9a01 gone", "gid fe80:0000:0000:0000:0002:c903:00a1:b2c3 gone"),
            ("port guid e41d:2d03:00f2:9a01", "port guid 0002:c903:00a1:b2c3"),
            ("peer fe80::a1b2:c3ff:fe00:1%eth0<43211>", "peer 2001:db8::1%eth0<9>"),
            ("peer ::ffff:10.0.0.1<1>", "peer fd00::7<1>"),
            ("peer 10.1.2.3<40011>", "peer 192.168.100.200<9>"),
            ("mac de:ad:be:ef:00:01", "mac 00:11:22:33:44:55"),
            ("at 2026-11-21T22:00:00.123Z pid 4711", "at 2027-01-02T03:04:05.678Z pid 9"),
            ("[1763762400.123] key deadbeefcafe", "[9.1] key 0123456789"),
        ] {
            assert_eq!(shape(one), shape(other));
        }
    }

    #[test]
    fn names_of_devices_and_words_do_not_fold() {
        for (one, other) in [
            ("0000:c1:00.0 lost", "0000:d1:00.0 lost"),
            ("GPU-c0ffee00-dead-beef-a1b2-0123456789ab", "GPU-01234567-89ab-cdef-0123-456789abcdef"),
            ("mlx5_0 down", "efa_0 down"),
            ("eth0 down", "ib0 down"),
            ("op face", "op bead"),
            ("facade of AllReduce", "decade of AllReduce"),
            ("abc::def failed", "abd::def failed"),
            ("bad.cc:123:fee", "bad.cc:123:fed"),
        ] {
            assert_ne!(shape(one), shape(other));
        }
        assert_eq!(shape("std::bad_alloc at c10::Error"), "std::bad_alloc at c#::Error");
        assert_eq!(shape("ä 5 🎉 ö"), "ä # 🎉 ö");
        assert_eq!(shape(&"é".repeat(500)).chars().count(), 200);
    }
}
