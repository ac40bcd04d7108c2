//! Which job it is for everybody: an id that all nodes of a job have, whatever each of them sees of it, and the names that Slurm and
//! Kubernetes have for it. Ranks that are started anew are another attempt of the same job.

use super::Model;
use super::job::Job;
use super::process::Process;
use crate::base::agent::Agent;
use crate::base::clean::{clean, clip};
use core::net::IpAddr;

/// A job outside of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub id: String,
    pub slurm: Option<Slurm>,
    pub pod: Option<Pod>,
}

/// As Slurm gives them to the tasks of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slurm {
    pub job_id: String,
    pub name: Option<String>,
    pub user: Option<String>,
    pub account: Option<String>,
    pub partition: Option<String>,
    pub cluster: Option<String>,
}

/// A pod that the first rank on this node runs in, as kubelet names its directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub uid: String,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub container: Option<String>,
}

impl Identity {
    /// What Slurm and Kubernetes call it: `4711 pretrain · user ann · partition h100 · pod ml/pretrain-0`. `None`: neither runs it.
    pub fn words(&self) -> Option<String> {
        let slurm = self.slurm.as_ref().map(|slurm| {
            let named = [("", &slurm.name), (" · user", &slurm.user), (" · account", &slurm.account), (" · partition", &slurm.partition)];
            let named = named.iter().filter_map(|(what, value)| Some(format!("{what} {}", clean(value.as_ref()?))));
            format!("{}{}", clean(&slurm.job_id), named.collect::<String>())
        });
        let pod = self.pod.as_ref().map(|pod| match (&pod.namespace, &pod.name) {
            (Some(namespace), Some(name)) => format!("pod {}/{}", clean(namespace), clean(name)),
            _ => format!("pod {}", clean(&pod.uid)),
        });
        let all: Vec<String> = slurm.into_iter().chain(pod).collect();
        (!all.is_empty()).then(|| clip(&all.join(" · "), MAX_CHARS).into_owned())
    }
}

/// Longer ids are of nobody's making.
const MAX_CHARS: usize = 120;

pub fn of(model: &Model, job: &Job) -> Identity {
    let ranks: Vec<&Process> = job.pids().chain(job.launcher).filter_map(|pid| model.processes.get(&pid)).collect();
    let slurm = ranks.iter().find_map(|p| slurm_of(p));
    let pod = ranks.iter().find_map(|p| p.info.pod.as_ref()).map(|pod| Pod {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        container: pod.container.clone(),
    });
    let id = shared_id(model, job, &ranks, slurm.as_ref(), pod.as_ref()).unwrap_or_else(|| format!("{}/{}", model.host, job.id));
    Identity { id: clip(&clean(&id), MAX_CHARS).into_owned(), slurm, pod }
}

fn slurm_of(process: &Process) -> Option<Slurm> {
    let get = |name: &str| process.env(name).filter(|value| !value.is_empty()).map(str::to_owned);
    Some(Slurm {
        job_id: get("SLURM_JOB_ID").or_else(|| get("SLURM_JOBID"))?,
        name: get("SLURM_JOB_NAME"),
        user: get("SLURM_JOB_USER"),
        account: get("SLURM_JOB_ACCOUNT"),
        partition: get("SLURM_JOB_PARTITION"),
        cluster: get("SLURM_CLUSTER_NAME"),
    })
}

/// What is the same on all nodes, and no other job has at the same time. `None`: nothing of the kind is seen.
fn shared_id(model: &Model, job: &Job, ranks: &[&Process], slurm: Option<&Slurm>, pod: Option<&Pod>) -> Option<String> {
    // With its step: two that run at once are two jobs.
    if let Some(slurm) = slurm {
        return Some(if job.id.split('.').next() == Some(slurm.job_id.as_str()) { job.id.clone() } else { slurm.job_id.clone() });
    }
    let var = |name: &str| ranks.iter().find_map(|p| p.env(name)).filter(|value| !value.is_empty());
    let scope = pod.and_then(|pod| pod.namespace.as_deref());
    let scoped = |id: String| scope.map_or(id.clone(), |namespace| format!("{namespace}/{id}"));
    let endpoint = endpoint_of(model, job, &var);
    // Without --rdzv-id, torchrun says none to all.
    let run = var("TORCHELASTIC_RUN_ID").filter(|run| !matches!(*run, "none" | "None"));
    match (run, &endpoint) {
        (Some(run), Some(at)) => return Some(scoped(format!("{run}@{at}"))),
        (Some(run), None) => return Some(scoped(run.to_owned())),
        (None, _) => {}
    }
    if let Some(space) = var("PMIX_NAMESPACE") {
        return Some(scoped(space.to_owned()));
    }
    if let Some(ray) = var("RAY_JOB_ID") {
        // Each cluster of Ray numbers its jobs from 1.
        return Some(scoped(endpoint.map_or_else(|| format!("{}/ray-{ray}", model.host), |at| format!("ray-{ray}@{at}"))));
    }
    endpoint.map(scoped).or_else(|| world_comm(model, job))
}

/// Where the ranks meet: as the launcher was asked, because what it gives to ranks may change with each attempt.
fn endpoint_of<'a>(model: &'a Model, job: &Job, var: &dyn Fn(&str) -> Option<&'a str>) -> Option<String> {
    let agent = job.launcher.and_then(|pid| model.processes.get(&pid)).and_then(|p| Agent::of(&p.info.cmdline)?.meets_at());
    let by_env = || Some(format!("{}:{}", var("MASTER_ADDR")?, var("MASTER_PORT").unwrap_or("29500")));
    let at = agent.or_else(by_env)?;
    let (host, port) = at.rsplit_once(':').unwrap_or((&at, ""));
    let host = host.trim_matches(['[', ']']);
    // Every node calls itself so; only this one knows which it is.
    let is_own = matches!(host, "localhost" | "") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified());
    let port = if port == "0" { "" } else { port };
    Some(match (is_own, port) {
        (true, "") => return None,
        (true, port) => format!("{}:{port}", model.host),
        (false, "") => host.to_owned(),
        (false, port) => format!("{host}:{port}"),
    })
}

impl Model {
    /// The version of NCCL that a job runs with, by RAS or its log: `2.27.5`.
    pub fn nccl_version_of(&self, job: &Job) -> Option<String> {
        let by_ras = || self.ras.nccl_version.clone().filter(|_| self.comms_of(job).any(|comm| comm.answered_at.is_some()));
        let in_log = self.files_of(&job.id).flat_map(|file| &file.bringup.nccl_versions.said).max_by_key(|said| said.lines);
        in_log.map(|said| said.value.clone()).or_else(by_ras).map(|version| version.split('+').next().unwrap_or_default().to_owned())
    }
}

/// The communicator of all ranks: RAS and logs know it on every node, and it is another one after a restart.
fn world_comm(model: &Model, job: &Job) -> Option<String> {
    let of_job = model.comms_of(job).filter(|comm| comm.nranks > 1);
    let whole = of_job.filter(|comm| job.world_size.is_none_or(|n| n == comm.nranks)).max_by_key(|comm| (comm.nranks, comm.init_from));
    whole.map(|comm| format!("comm-{:016x}", comm.hash))
}
