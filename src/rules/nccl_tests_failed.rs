//! nccl-tests found wrong results, or could not run.

use super::chain::{Chain, Explains};
use super::{FactContext, Implies, ONCE, Rule};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::size_words;
use crate::formats::nccl_tests::{Failure, Row, Table};
use crate::logs::catalog::Part;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nccl-tests-failed",
    severity: Severity::Error,
    title: "nccl-tests found wrong results, or could not run",
    how: "The table's #wrong columns, its last lines, its error lines, and its bandwidths: one that falls with size, or a size far below both its neighbours",
    advice: "Wrong results are corrupted data: find the pair with `-g 2` runs, look at NVLink and ECC errors; never train on such a node",
    life: ONCE,
    implies: Implies::Failed,
    chain: Chain { explains: &[Explains { rule: "rank-exited", of_its_ranks: false }], ..Chain::PLAIN },
    on_facts: Some(check),
    limits: &[&ODD_PART, &DIP_PART],
    ..Rule::PLAIN
};

/// Below this part of the peak, the largest size is slow. Curves of healthy nodes rise, or lose a tenth where the algorithm changes.
const ODD_PART: Limit =
    Limit::percent("nccl-tests-failed", "fall", 70.0, "below this share of the peak the bandwidth of the largest size is odd");
/// Smaller than this, latency decides.
const ODD_SIZE: u64 = 64 << 20;

/// A size whose bandwidth is below this part of that of the next smaller and of the next larger one, in and out of place.
const DIP_PART: Limit =
    Limit::percent("nccl-tests-failed", "dip", 25.0, "below this share of the bandwidth of both neighbours a size has broken in");
/// Smaller than this, one late start decides.
const DIP_SIZE: u64 = 1 << 20;

/// Hosts of a failure that are named.
const MOST_HOSTS: usize = 8;

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for job in ctx.model.jobs.values() {
        let tables = &ctx.model.record_of(&job.id).tables;
        let found = tables.iter().flat_map(|(path, table)| judge(table, path));
        out.extend(found.map(|f| Finding { job: Some(job.id.clone()), ..f }));
    }
}

/// What is wrong with a run. `path` is where it stands, for the evidence.
pub(crate) fn judge(table: &Table, path: &str) -> Vec<Finding> {
    let mut out = Vec::new();
    let failed = |severity, confidence, summary: String| RULE.weighed(severity, confidence, summary);
    let name = table.name();
    let line = |line: u64| (line > 0).then_some(line);
    let bad = table.out_of_bounds.filter(|seen| !seen.ok);
    if table.wrong.is_some_and(|wrong| wrong > 0) || bad.is_some() {
        let wrong = table.wrong.filter(|wrong| *wrong > 0).or(bad.map(|seen| seen.count)).unwrap_or(0);
        let elements = if table.first_wrong.is_some() { "wrong elements" } else { "results out of bounds" };
        let mut found = failed(Severity::Error, Confidence::Certain, format!("{name}: {wrong} {elements}"))
            .because("the data that arrived is not the data that was sent; a training run on these GPUs would compute nonsense");
        found.next = Some("run the test on pairs of GPUs (-g 2) to find the bad one; look at ECC and NVLink errors".into());
        if let Some(row) = &table.first_wrong {
            let text = format!("{} wrong at {}", row.wrong().unwrap_or(0), size_words(row.size_bytes));
            found = found.proved("line", path, line(row.line), text);
        }
        if let Some(seen) = bad {
            found = found.proved("line", path, line(seen.line), format!("Out of bounds values : {} FAILED", seen.count));
        }
        out.push(found);
    }
    let fatal: Vec<&Failure> = table.failures.iter().filter(|failure| failure.fatal).collect();
    if let Some(first) = fatal.first() {
        let mut hosts: Vec<&str> = fatal.iter().filter_map(|failure| failure.host.as_deref()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let on = if let [host] = hosts[..] { format!(" on {host}") } else { String::new() };
        let mut found = failed(Severity::Error, Confidence::Certain, format!("{name} failed{on}: {}", first.text));
        found.next = Some("read NCCL's first WARN on that host; without one run again with NCCL_DEBUG=INFO".into());
        let by = (!hosts.is_empty()).then(|| {
            let more = hosts.len().saturating_sub(MOST_HOSTS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("reported by {}{more}", hosts[..hosts.len().min(MOST_HOSTS)].join(", "))
        });
        let at = match (table.unfinished, table.rows.last()) {
            (Some((size, _)), _) => Some(format!("it stopped at {}", size_words(size))),
            (None, Some(row)) => Some(format!("{} was the last size that worked", size_words(row.size_bytes))),
            (None, None) => None,
        };
        found.why = by.into_iter().chain(at).collect::<Vec<_>>().join("; ");
        found.hosts = hosts.into_iter().take(MOST_HOSTS).map(str::to_owned).collect();
        // It ends itself because a call failed: NCCL's own lines say why.
        found.part = Some(Part::Messenger);
        for failure in fatal.iter().take(5) {
            found = found.proved("line", path, line(failure.line), failure.text.clone());
        }
        out.push(found);
    } else if !table.complete && table.out_of_bounds.is_none() && !table.excerpt {
        let at = match (table.unfinished, table.rows.last()) {
            (Some((size, _)), _) => format!(" at {}", size_words(size)),
            (None, Some(row)) => format!(" after {}", size_words(row.size_bytes)),
            (None, None) => " before its first result".into(),
        };
        let last = table.unfinished.map_or(table.last_line, |(_, line)| line);
        // A log that ends behind a whole row may as well be cut there.
        let sure = if table.unfinished.is_none() && table.rows.len() > 1 { Confidence::Possible } else { Confidence::Likely };
        out.push(
            failed(Severity::Warning, sure, format!("{name} did not finish: it stopped{at}"))
                .because("its last lines are missing: it hangs, was killed, still runs, or its log is cut off")
                .proved("line", path, line(last), "the last line of the test itself".to_owned()),
        );
    } else if let Some(said) = table.failures.first() {
        out.push(
            failed(Severity::Warning, Confidence::Possible, format!("{name} finished, but NCCL's last error was: {}", said.text)).proved(
                "line",
                path,
                line(said.line),
                said.text.clone(),
            ),
        );
    }
    if table.fast_enough == Some(false) {
        let average = table.avg_busbw_gbytes_per_s.unwrap_or_default();
        let summary = format!("{name}: average of {average:.1} GB/s is below the bandwidth that was asked (NCCL_TESTS_MIN_BW)");
        out.push(failed(Severity::Error, Confidence::Certain, summary).proved(
            "line",
            path,
            line(table.last_line),
            format!("Avg bus bandwidth : {average} FAILED"),
        ));
    }
    out.extend(odd_curve(table, path));
    out.extend(dip(table, path));
    out.extend(alone(table, path));
    out
}

/// Of one rank nothing crosses a bus: its bus bandwidth is 0 by definition, however fast it copies.
fn alone(table: &Table, path: &str) -> Option<Finding> {
    const LEAST_ROWS: usize = 2;
    let sides = || table.rows.iter().flat_map(|row| [row.out_of_place, row.in_place]).flatten();
    let is_alone = table.rows.len() >= LEAST_ROWS
        && table.ranks.is_none_or(|ranks| ranks == 1)
        && sides().all(|side| side.busbw == Some(0.0))
        && sides().any(|side| side.algbw.is_some_and(|algbw| algbw >= 1.0));
    if !is_alone {
        return None;
    }
    // One copy prints each size once.
    let mut sizes: Vec<_> = table.rows.iter().map(|row| (row.size_bytes, &row.dtype, &row.redop, row.root)).collect();
    let all = sizes.len();
    sizes.sort_unstable();
    sizes.dedup();
    let copies = all > sizes.len() && table.ranks.is_none();
    let name = table.name();
    let (severity, summary) = match copies {
        true => {
            (Severity::Warning, format!("{name}: several copies of it ran, each alone with one rank: nothing was measured between GPUs"))
        }
        false => (Severity::Info, format!("{name} ran with one rank: nothing was measured between GPUs")),
    };
    let mut found = RULE
        .weighed(severity, Confidence::Likely, summary)
        .because("the bus bandwidth is 0 at every size, which it is where there is one rank")
        .proved("line", path, table.rows.first().map(|row| row.line).filter(|line| *line > 0), "busbw 0".to_owned());
    found.next = Some("for several GPUs of one process give -g N; under mpirun or srun build nccl-tests with MPI=1, and have MPI start the ranks as one job".into());
    Some(found)
}

/// Bandwidth that falls again with size.
fn odd_curve(table: &Table, path: &str) -> Option<Finding> {
    let peak = table.peak.filter(|peak| peak.busbw_gbytes_per_s >= 1.0)?;
    let largest = table.rows.iter().filter(|row| row.busbw().is_some()).max_by_key(|row| row.size_bytes)?;
    let (busbw, _) = largest.busbw()?;
    if largest.size_bytes < ODD_SIZE || largest.size_bytes <= peak.size_bytes || busbw >= peak.busbw_gbytes_per_s * ODD_PART.value() / 100.0
    {
        return None;
    }
    let summary = format!(
        "{}: {busbw:.1} GB/s at {}, but {:.1} GB/s at {}",
        table.name(),
        size_words(largest.size_bytes),
        peak.busbw_gbytes_per_s,
        size_words(peak.size_bytes)
    );
    let found = RULE
        .weighed(Severity::Info, Confidence::Possible, summary)
        .because("bandwidth should not fall with size: memory, buffers or a throttled GPU may be the limit");
    let line = (largest.line > 0).then_some(largest.line);
    Some(found.proved("line", path, line, format!("{busbw:.2} GB/s at {}", size_words(largest.size_bytes))))
}

/// One size that is far slower than those around it.
fn dip(table: &Table, path: &str) -> Option<Finding> {
    const LEAST_GBYTES_PER_S: f64 = 1.0;
    let rows: Vec<(&Row, f64)> = table.rows.iter().filter_map(|row| Some((row, row.busbw()?.0))).collect();
    let is_dip = |three: &&[(&Row, f64)]| {
        let [(before, faster), (row, busbw), (after, fastest)] = three else { return false };
        let neighbours = faster.min(*fastest);
        let of_one_run = before.size_bytes < row.size_bytes
            && row.size_bytes < after.size_bytes
            && before.dtype == row.dtype
            && row.dtype == after.dtype;
        of_one_run && row.size_bytes >= DIP_SIZE && neighbours >= LEAST_GBYTES_PER_S && *busbw < neighbours * DIP_PART.value() / 100.0
    };
    let dips = || rows.windows(3).filter(is_dip);
    let [(before, faster), (row, busbw), (after, fastest)] = dips().next()? else { return None };
    let more = dips().count() - 1;
    let more = if more > 0 { format!("; {more} more such sizes") } else { String::new() };
    let summary = format!(
        "{}: {busbw:.2} GB/s at {}, but {faster:.1} GB/s at {} and {fastest:.1} GB/s at {}{more}",
        table.name(),
        size_words(row.size_bytes),
        size_words(before.size_bytes),
        size_words(after.size_bytes)
    );
    let mut found = RULE
        .weighed(Severity::Warning, Confidence::Likely, summary)
        .because("smaller and larger messages are far faster: what NCCL or the network does at this size is slow here, or something disturbed the run meanwhile")
        .proved("line", path, (row.line > 0).then_some(row.line), format!("{busbw:.2} GB/s at {}", size_words(row.size_bytes)));
    found.next = Some(format!(
        "run this size alone, a few times (-b {0} -e {0}); if it stays, without the variables that are set (`env | grep NCCL_`) and with another NCCL_ALGO or NCCL_PROTO; look at retransmissions of the NICs meanwhile",
        row.size_bytes
    ));
    Some(found)
}
