//! Whom the verdicts name. Every pane asks this, so that the same rows are marked everywhere.

use super::session::Session;
use crate::base::severity::Severity;
use crate::model::Model;
use crate::model::comm::Comm;
use crate::model::job::Job;
use crate::model::topology::{Place, Topology};
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks, processes, GPUs, ports and findings that the verdicts name, each with how bad it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Culprits {
    /// By job.
    ranks: BTreeMap<String, BTreeMap<u32, Severity>>,
    pids: BTreeMap<u32, Severity>,
    gpus: BTreeMap<u32, Severity>,
    ports: BTreeMap<String, Severity>,
    /// GPUs whose way to the network such a port is: not blamed, and worth a look.
    near: BTreeSet<u32>,
    /// By [`Finding::no`].
    findings: BTreeMap<u64, Severity>,
}

impl Culprits {
    /// Of the finding that each job's verdict rests on; while nothing is decided, of the worst that is open.
    pub fn of(session: &Session) -> Culprits {
        let mut all = Culprits::default();
        for id in session.verdicts.keys() {
            if let Some(finding) = session.named(id) {
                all.add(&session.model, session.model.jobs.get(id), finding);
            }
        }
        all
    }

    fn add(&mut self, model: &Model, job: Option<&Job>, finding: &Finding) {
        let bad = finding.severity;
        note(&mut self.findings, finding.no, bad);
        // A GPU that another job works on now is not to blame for what was.
        let is_anothers = |gpu: &u32| model.owner_of_gpu(*gpu).is_some_and(|(owner, _)| job.is_some_and(|job| job.id != owner.id));
        finding.gpus.iter().filter(|gpu| !is_anothers(gpu)).for_each(|gpu| note(&mut self.gpus, *gpu, bad));
        finding.ports.iter().for_each(|port| note(&mut self.ports, port.clone(), bad));
        if !finding.ports.is_empty() {
            let topology = Topology::of(model);
            let ports = model.ports.values().filter(|port| finding.ports.contains(&port.name()));
            let nearest = ports.map(|port| topology.nearest_gpus(&Place::of_port(&port.info)));
            self.near.extend(nearest.filter(|near| near.len() == 1).flatten());
        }
        let Some(job) = job.filter(|job| finding.job.as_ref() == Some(&job.id)) else { return };
        let ranks = self.ranks.entry(job.id.clone()).or_default();
        for rank in &finding.ranks {
            note(ranks, *rank, bad);
            let Some(pid) = job.ranks.get(rank) else { continue };
            note(&mut self.pids, *pid, bad);
            if let Some(gpu) = model.gpu_of_pid(*pid).filter(|gpu| !is_anothers(gpu)) {
                note(&mut self.gpus, gpu, bad);
            }
        }
    }

    pub fn rank(&self, job: &str, rank: u32) -> Option<Severity> {
        self.ranks.get(job)?.get(&rank).copied()
    }

    pub fn pid(&self, pid: u32) -> Option<Severity> {
        self.pids.get(&pid).copied()
    }

    pub fn gpu(&self, index: u32) -> Option<Severity> {
        self.gpus.get(&index).copied()
    }

    /// The one GPU that a port which is blamed is nearest to.
    pub fn is_near(&self, index: u32) -> bool {
        self.near.contains(&index)
    }

    /// `mlx5_0/1`, `eth0`; or the device alone, where it has one port.
    pub fn port(&self, name: &str) -> Option<Severity> {
        self.ports.get(name).or_else(|| self.ports.get(name.split_once("/")?.0)).copied()
    }

    /// What is blamed is in the network.
    pub fn are_ports(&self) -> bool {
        !self.ports.is_empty() && self.gpus.is_empty()
    }

    pub fn finding(&self, finding: &Finding) -> Option<Severity> {
        self.findings.get(&finding.no).filter(|_| finding.cleared_at.is_none()).copied()
    }

    /// The ranks of a communicator, in its own numbering, that are named.
    pub fn of_comm(&self, model: &Model, comm: &Comm) -> BTreeMap<u32, Severity> {
        let mut named = BTreeMap::new();
        for (job, ranks) in &self.ranks {
            let Some(job) = model.jobs.get(job).filter(|job| model.comms_of(job).any(|c| c.hash == comm.hash)) else { continue };
            for (rank, bad) in ranks {
                if let Some(member) = member(model, job, *rank, comm) {
                    note(&mut named, member, *bad);
                }
            }
        }
        named
    }
}

fn note<K: Ord>(all: &mut BTreeMap<K, Severity>, key: K, bad: Severity) {
    let known = all.entry(key).or_insert(bad);
    *known = bad.max(*known);
}

/// The number that a rank of a job has in a communicator.
fn member(model: &Model, job: &Job, rank: u32, comm: &Comm) -> Option<u32> {
    if job.world_size == Some(comm.nranks) {
        return Some(rank);
    }
    let pid = *job.ranks.get(&rank)?;
    let inner = model.processes.get(&pid).and_then(|p| p.info.ns_pid).unwrap_or(pid);
    let known = comm.ranks.iter().map(|(rank, known)| (*rank, known.pid));
    let missing = comm.missing.iter().map(|(rank, missing)| (*rank, missing.pid));
    let mut members: Vec<u32> = known.chain(missing).filter(|(_, pid)| *pid == Some(inner)).map(|(rank, _)| rank).collect();
    members.sort_unstable();
    members.dedup();
    // In containers, processes of two nodes may have the same pid.
    (members.len() == 1).then(|| members[0])
}
