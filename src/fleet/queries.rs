//! What is asked of the server, as data. PromQL of Prometheus 2.42, which Thanos, Mimir and VictoriaMetrics understand, too.
//!
//! In a selector `$M` stands for the matchers of `--match`, `$J` for the job, `$N` for the node, `$A` for a list of nodes or addresses as a
//! regular expression; elsewhere `$W` for the time over which rates are taken, `$S` for the seconds for which a communicator must have stood
//! still to be compared: nodes are scraped at different instants, and what moves differs in healthy jobs.

/// One question, by the name under which its answer is known.
#[derive(Debug)]
pub struct Query {
    pub id: &'static str,
    pub promql: &'static str,
}

const fn query(id: &'static str, promql: &'static str) -> Query {
    Query { id, promql }
}

/// Asked for each frame.
pub const OVERVIEW: &[Query] = &[
    // Whatever the scrape job is called: what has served the exporter's series within the hour is a node.
    query("nodes", r#"up{$M job=~"nccl-top.*"} or up{$M} and on (job, instance) last_over_time(nccltop_build_info{$M}[1h])"#),
    query("states", r#"count by (job_id, state) (nccltop_job_state{$M} == 1)"#),
    query(
        "since",
        r#"min by (job_id, state) ((nccltop_job_state{$M} == 1)
           * on (job, instance, job_id) group_left () nccltop_job_state_start_timestamp_seconds{$M})"#,
    ),
    query("info", r#"count by (job_id, slurm_job_id, job_name, user, account, partition, namespace, launcher) (nccltop_job_info{$M})"#),
    query("members", r#"count by (job_id, instance, nccl_version) (nccltop_job_info{$M})"#),
    query(
        "gone",
        r#"count by (job_id, instance) (last_over_time(nccltop_job_info{$M}[1h])
           unless on (job_id, instance) nccltop_job_info{$M})"#,
    ),
    query(
        "facts",
        r#"max by (__name__, job_id) ({$M __name__=~"nccltop_job_(step|steps_planned|step_time_seconds|step_time_usual_seconds|last_step_timestamp_seconds|loss|world_size|restarts_total)"})"#,
    ),
    query("throughput", r#"max by (job_id, unit) (nccltop_job_throughput_per_second{$M})"#),
    query("local-ranks", r#"sum by (job_id) (nccltop_job_local_ranks{$M})"#),
    // For how many scrapes each has been open.
    query("findings", r#"count_over_time(nccltop_finding_open{$M}[1h]) and nccltop_finding_open{$M}"#),
    query("waiting", r#"instance_job_id:nccltop_waiting:ratio{$M}"#),
    query("waiting-before", r#"instance_job_id:nccltop_waiting:ratio{$M} offset 1m"#),
    query("still", r#"min by (job_id, comm) (nccltop_comm_still_seconds{$M}) > $S"#),
    query("blind", r#"count by (source) (nccltop_source_up{$M} == 0)"#),
];

/// In place of the recorded series, where no rule records them.
pub const WAITING: Query =
    query("waiting", r#"avg by (instance, job_id) (rate(nccltop_rank_activity_seconds_total{$M activity="waiting"}[$W]))"#);
pub const WAITING_BEFORE: Query = query(
    "waiting-before",
    r#"avg by (instance, job_id) (rate(nccltop_rank_activity_seconds_total{$M activity="waiting"}[$W] offset 1m))"#,
);

/// What one job's judgement or its screen needs besides. Expensive over all jobs, cheap for one.
pub const ACTIVITY: Query =
    query("activity", r#"sum by (instance, rank, gpu, activity) (rate(nccltop_rank_activity_seconds_total{$M job_id=$J}[$W]))"#);
pub const RANKS: Query = query("ranks", r#"count by (instance, rank) (nccltop_rank_info{$M job_id=$J})"#);
/// Which node holds the least of what stands still, where counts differ.
pub const BEHIND: Query = query(
    "behind",
    r#"nccltop_comm_operations_min{$M job_id=$J}
       == on (comm) group_left () min by (comm) (nccltop_comm_operations_min{$M job_id=$J})
       and on (comm) (min by (comm) (nccltop_comm_still_seconds{$M job_id=$J}) > $S)
       and on (comm) (min by (comm) (nccltop_comm_operations_min{$M job_id=$J}) < max by (comm) (nccltop_comm_operations_max{$M job_id=$J}))"#,
);
pub const COMMS_STILL: Query = query("comms-still", r#"min by (comm) (nccltop_comm_still_seconds{$M job_id=$J})"#);
pub const COMMS_LEAST: Query = query("comms-least", r#"min by (comm) (nccltop_comm_operations_min{$M job_id=$J})"#);
pub const COMMS_MOST: Query = query("comms-most", r#"max by (comm) (nccltop_comm_operations_max{$M job_id=$J})"#);
pub const PORTS: Query =
    query("ports", r#"rate(nccltop_port_transmit_bytes_total{$M}[2m]) and on (instance) nccltop_job_info{$M job_id=$J}"#);
pub const PORTS_BEFORE: Query =
    query("ports-before", r#"rate(nccltop_port_transmit_bytes_total{$M}[5m] offset 10m) and on (instance) nccltop_job_info{$M job_id=$J}"#);
pub const LOSS: Query = query("loss", r#"increase(nccltop_port_loss_total{$M}[5m]) > 0 and on (instance) nccltop_job_info{$M job_id=$J}"#);
pub const DRIVERS: Query =
    query("drivers", r#"count by (instance, driver, model) (nccltop_gpu_info{$M} and on (instance) nccltop_job_info{$M job_id=$J})"#);
/// The share that nodes waited, now and earlier in the job's life, for those that seem to wait least. It is a share of the seconds that were
/// counted: an exporter that began to count within the time does not look as if its ranks waited less.
pub const WAITING_SHARE: Query = query(
    "waiting-share",
    r#"sum by (instance) (rate(nccltop_rank_activity_seconds_total{$M job_id=$J, activity="waiting"}[2m]))
       / sum by (instance) (rate(nccltop_rank_activity_seconds_total{$M job_id=$J}[2m]))"#,
);
pub const WAITING_EARLIER: Query = query(
    "waiting-earlier",
    r#"sum by (instance) (rate(nccltop_rank_activity_seconds_total{$M job_id=$J, activity="waiting"}[10m] offset 10m))
       / sum by (instance) (rate(nccltop_rank_activity_seconds_total{$M job_id=$J}[10m] offset 10m))"#,
);
/// When nodes that do not answer were reached.
pub const REACHED: Query = query("reached", r#"up{$M instance=~$A}[1h]"#);
/// Names of nodes for addresses, by which NCCL's RAS knows them.
pub const ADDRESSES: Query = query("addresses", r#"nccltop_node_address_info{$M address=~$A}"#);

/// What the screen of one job asks for.
pub const JOB: &[&Query] = &[&ACTIVITY, &COMMS_STILL, &COMMS_LEAST, &COMMS_MOST, &BEHIND, &PORTS, &PORTS_BEFORE, &LOSS, &DRIVERS];

/// What the screen of one node asks for.
pub const NODE: &[Query] = &[
    query("sources", r#"nccltop_source_up{$M instance=$N}"#),
    query(
        "gpus",
        r#"{$M __name__=~"nccltop_gpu_(sm_active_ratio|tensor_active_ratio|power_watts|temperature_celsius|memory_used_bytes|nvlinks_up)", instance=$N}"#,
    ),
    query("node-activity", r#"sum by (job_id, rank, gpu, activity) (rate(nccltop_rank_activity_seconds_total{$M instance=$N}[$W]))"#),
    query("node-ports", r#"rate(nccltop_port_transmit_bytes_total{$M instance=$N}[$W])"#),
    query("node-ports-up", r#"nccltop_port_up{$M instance=$N}"#),
    // A rule's count begins with its first finding, which is no increase.
    query(
        "history",
        r#"increase(nccltop_findings_total{$M instance=$N}[1d])
           + (min_over_time(nccltop_findings_total{$M instance=$N}[1d]) unless last_over_time(nccltop_findings_total{$M instance=$N}[6d] offset 1d))
           or increase(nccltop_findings_total{$M instance=$N}[1d])"#,
    ),
];

/// When one node was scraped, from which the time between two scrapes follows.
pub const SCRAPES: Query = query("scrapes", r#"up{$M instance=$N}[10m]"#);

/// Over time: how many root findings are open; how much the ranks of a job wait.
pub const FINDINGS_OVER_TIME: Query = query("findings-over-time", r#"count(nccltop_finding_open{$M role="root"}) or vector(0)"#);
pub const WAITING_OVER_TIME: Query =
    query("waiting-over-time", r#"avg(rate(nccltop_rank_activity_seconds_total{$M job_id=$J, activity="waiting"}[$W]))"#);

/// What the placeholders stand for.
#[derive(Clone, Debug, Default)]
pub struct Values<'a> {
    /// As `--match` has it: `cluster="east",pool=~"a.*"`.
    pub matchers: &'a str,
    pub window_s: u64,
    pub still_s: u64,
    pub job: &'a str,
    pub node: &'a str,
    pub among: &'a [String],
}

impl Query {
    pub fn promql(&self, values: &Values) -> String {
        let matchers = if values.matchers.is_empty() { String::new() } else { format!("{},", values.matchers) };
        let among: Vec<String> = values.among.iter().map(|one| regex::escape(one)).collect();
        // Values that a node has chosen come last: nothing in them is taken for a placeholder.
        let parts: Vec<&str> = self.promql.split_whitespace().collect();
        let mut out = String::with_capacity(self.promql.len() + 64);
        for part in parts {
            out.push_str(if out.is_empty() { "" } else { " " });
            let mut rest = part;
            while let Some(at) = rest.find('$') {
                out.push_str(&rest[..at]);
                match &rest[at + 1..at + 2] {
                    "M" => out.push_str(&matchers),
                    "W" => out.push_str(&format!("{}s", values.window_s)),
                    "S" => out.push_str(&values.still_s.to_string()),
                    "J" => out.push_str(&quoted(values.job)),
                    "N" => out.push_str(&quoted(values.node)),
                    _ => out.push_str(&quoted(&among.join("|"))),
                }
                rest = &rest[at + 2..];
            }
            out.push_str(rest);
        }
        out
    }
}

/// A string of PromQL.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}
