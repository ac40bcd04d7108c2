//! Which ranks of a job send to each other, and which stage of a pipeline each of them is.

use super::Model;
use super::alarms::Alarm;
use super::bringup::routes::Route;
use super::comm::Comm;
use super::job::Job;
use super::topology::used::Placing;
use crate::base::units::size_words;
use crate::logs::What;
use crate::observe::evidence::Evidence;
use crate::observe::inspector::InspectedPeer;
use std::collections::{BTreeMap, BTreeSet};

/// Who sends to whom, by the channel lines of logs, by communicators of two and by the Inspector, and the stages that the arguments of the
/// job ask for. Ranks are those of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peers {
    /// The smaller rank first.
    pairs: BTreeSet<(u32, u32)>,
    /// The newest exchange of one rank with another that the Inspector has seen completed, by these two.
    exchanged: BTreeMap<(u32, u32), InspectedPeer>,
    /// Ranks of each stage, and stages.
    by_arguments: Option<(u32, u32)>,
    /// PyTorch remarks that sends and receives are not batched.
    remarked: bool,
    /// Ranks on other nodes, whose lines are not seen, may belong to it.
    partial: bool,
}

/// A stage of a pipeline, from 1, and how many there are, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stage {
    pub no: u32,
    pub of: Option<u32>,
}

/// What Megatron-LM, NeMo, torchtitan, DeepSpeed and others call the number of stages, behind the last dot and with `_` for `-`.
const STAGES: &[&str] = &["pipeline_model_parallel_size", "pipeline_parallel_size", "pipeline_parallel_degree", "pipe_parallel_size"];

/// The catalogue's entry for it.
const UNBATCHED: &str = "pg-p2p-serialized";

impl Peers {
    pub(super) fn of(model: &Model, job: &Job) -> Peers {
        let world = job.world_size.unwrap_or(0);
        let infos = || job.ranks.values().filter_map(|pid| model.processes.get(pid)).map(|p| &p.info);
        // All of them number their ranks stage by stage.
        let stages = infos().find_map(|info| stages(&info.cmdline)).filter(|n| *n > 1 && world > 0 && world.is_multiple_of(*n));
        let remarks = |alarm: &Alarm| matches!(&alarm.event.what, What::Signed { signature, .. } if signature.id == UNBATCHED);
        let remarked = model.record_of(&job.id).alarms.iter().any(remarks);
        let mut peers =
            Peers { remarked, by_arguments: stages.map(|n| (world / n, n)), partial: job.has_ranks_elsewhere(), ..Peers::default() };
        // Pids of another node may be those of this one.
        if remarked && !peers.partial {
            peers.pairs.extend(own_communicators(model, job));
        }
        peers.exchanged = exchanged(model, job);
        peers.pairs.extend(peers.exchanged.keys().map(|(a, b)| (*a.min(b), *a.max(b))));
        let rank_of_gpu: BTreeMap<u32, u32> = job.ranks.iter().filter_map(|(rank, pid)| Some((model.gpu_of_pid(*pid)?, *rank))).collect();
        for bringup in model.files_of(&job.id).map(|f| &f.bringup).filter(|b| b.routes.known.keys().any(|route| route.p2p)) {
            let Some(place) = Placing::of(model, job, bringup) else { continue };
            let here = bringup.routes.known.keys().filter(|route| route.p2p && route.host == place.host);
            let pairs = here.filter_map(|route| pair(&place, &rank_of_gpu, route)).filter(|(a, b)| a != b);
            peers.pairs.extend(pairs.map(|(a, b)| (a.min(b), a.max(b))));
        }
        peers
    }

    /// The job sends and receives.
    pub fn is_known(&self) -> bool {
        self.remarked || !self.pairs.is_empty() || self.by_arguments.is_some()
    }

    /// Those with which a rank exchanges, as far as lines tell.
    pub fn neighbours(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        self.pairs.iter().filter_map(move |(a, b)| if *a == rank { Some(*b) } else { (*b == rank).then_some(*a) })
    }

    /// The last exchanges with these ranks that others completed before they began to wait, and those of these ranks: a few of them.
    pub fn last_exchanges(&self, with: &[u32]) -> Vec<Evidence> {
        const MOST: usize = 4;
        let of = |(who, other): &(u32, u32)| with.contains(who) != with.contains(other);
        let words = |((who, other), last): (&(u32, u32), &InspectedPeer)| {
            let (did, call) = if last.sent { ("sent to", "Send") } else { ("received from", "Recv") };
            Evidence::of(
                "file",
                format!("the Inspector's last of rank {who}: {did} rank {other}, {call} {} of {}", last.sn, size_words(last.bytes)),
            )
        };
        self.exchanged.iter().filter(|(pair, _)| of(pair)).take(MOST).map(words).collect()
    }

    /// The stage that a rank is of: by the arguments, else by its place in a chain of neighbours.
    pub fn stage(&self, rank: u32) -> Option<Stage> {
        if let Some((ranks, stages)) = self.by_arguments {
            return Some(Stage { no: rank / ranks + 1, of: Some(stages) });
        }
        let chain = self.chain(rank)?;
        let no = chain.iter().position(|r| *r == rank)? as u32 + 1;
        Some(Stage { no, of: Some(chain.len() as u32) })
    }

    /// The stage that all of these are of.
    pub fn stage_of(&self, ranks: &[u32]) -> Option<Stage> {
        let first = self.stage(*ranks.first()?)?;
        ranks.iter().all(|rank| self.stage(*rank) == Some(first)).then_some(first)
    }

    pub fn exchange(&self, a: u32, b: u32) -> bool {
        self.pairs.contains(&(a.min(b), a.max(b)))
    }

    /// All that are joined to a rank, if each of them exchanges with the next, and only the last perhaps with the first. Two that exchange
    /// need not be a pipeline.
    pub fn chain(&self, rank: u32) -> Option<Vec<u32>> {
        let mut known = BTreeSet::from([rank]);
        let mut todo = vec![rank];
        while let Some(one) = todo.pop() {
            todo.extend(self.neighbours(one).filter(|other| known.insert(*other)));
        }
        let chain: Vec<u32> = known.into_iter().collect();
        let joined = |a: u32, b: u32| self.exchange(a, b);
        let others = chain.iter().flat_map(|one| self.neighbours(*one)).count() / 2 + 1 - chain.len();
        let closed = chain.len() > 3 && joined(chain[0], chain[chain.len() - 1]);
        let is_chain = chain.len() > 2 && chain.windows(2).all(|pair| joined(pair[0], pair[1])) && others == usize::from(closed);
        (is_chain && !self.partial).then_some(chain)
    }
}

impl Stage {
    /// `stage 3 of 4`
    pub fn words(self) -> String {
        self.of.map_or_else(|| format!("stage {}", self.no), |of| format!("stage {} of {of}", self.no))
    }
}

/// For sends and receives that are not batched, PyTorch makes a communicator for each two ranks that exchange (its
/// remark says so). RAS lists them, and counts nothing in them.
fn own_communicators(model: &Model, job: &Job) -> Vec<(u32, u32)> {
    let inner = |pid: u32| model.processes.get(&pid).and_then(|p| p.info.ns_pid).unwrap_or(pid);
    let rank_of_pid: BTreeMap<u32, u32> = job.ranks.iter().map(|(rank, pid)| (inner(*pid), *rank)).collect();
    let own = model.comms_of(job).filter(|comm| comm.nranks == 2 && comm.ranks.len() == 2 && comm.operations() == 0);
    let pair = |comm: &Comm| {
        let mut ranks = comm.ranks.values().map(|known| rank_of_pid.get(&known.pid?).copied());
        let (a, b) = (ranks.next()??, ranks.next()??);
        (a != b).then(|| (a.min(b), a.max(b)))
    };
    own.filter_map(pair).collect()
}

/// What the Inspector has seen completed between two ranks, the newest of each direction's end. Its peers are ranks of the communicator:
/// those on this node are known by who writes of the same communicator, others where it is that of the whole job.
fn exchanged(model: &Model, job: &Job) -> BTreeMap<(u32, u32), InspectedPeer> {
    let written = || {
        let inspected = job.ranks.iter().filter_map(|(rank, pid)| Some((*rank, model.inspected.get(pid)?)));
        inspected.flat_map(|(rank, seen)| seen.comms.iter().map(move |comm| (rank, comm)))
    };
    let members: BTreeMap<(&str, u32), u32> = written().map(|(rank, comm)| ((comm.id.as_str(), comm.rank), rank)).collect();
    let mut exchanged: BTreeMap<(u32, u32), InspectedPeer> = BTreeMap::new();
    for (rank, comm) in written() {
        let of_all = Some(comm.n_ranks) == job.world_size && comm.rank == rank;
        for seen in comm.peers.iter().filter(|seen| seen.peer < comm.n_ranks) {
            let known = members.get(&(comm.id.as_str(), seen.peer)).copied();
            let Some(other) = known.or(of_all.then_some(seen.peer)).filter(|other| *other != rank) else { continue };
            let last = exchanged.entry((rank, other)).or_insert_with(|| seen.clone());
            if seen.sn > last.sn {
                *last = seen.clone();
            }
        }
    }
    exchanged
}

/// The ranks at the two ends of a channel. What is on another node has only its number in the communicator, which is that in the job where
/// the end on this node has the same in both.
fn pair(place: &Placing, rank_of_gpu: &BTreeMap<u32, u32>, route: &Route) -> Option<(u32, u32)> {
    let here = |end| rank_of_gpu.get(&place.gpu(end)?).copied();
    if !route.transport.starts_with("NET/") && route.transport != "P2P/MNNVL" {
        return Some((here(route.from)?, here(route.to)?));
    }
    let (own, other) = if route.receive { (route.to, route.from) } else { (route.from, route.to) };
    here(own).filter(|rank| *rank == own.rank).map(|rank| (rank, other.rank))
}

/// `--pipeline-model-parallel-size 4`, `model.pipeline_model_parallel_size=4`
fn stages(arguments: &[String]) -> Option<u32> {
    arguments.iter().enumerate().find_map(|(at, argument)| {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument.as_str(), arguments.get(at + 1).map(String::as_str)),
        };
        let name = name.rsplit('.').next()?.trim_start_matches(['-', '+']).replace('-', "_");
        STAGES.contains(&name.as_str()).then(|| value?.trim().parse().ok())?
    })
}
