//! As if one kind of signal did not exist: what the judge makes of the rest. A recording is read without it; live, it is not asked for.

use crate::observe::{Body, Observation};

/// A kind of signal that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Without {
    Ras,
    Gpm,
    Nvml,
    Log,
    Procs,
    Flight,
    Rdma,
    Netdev,
    Inspector,
}

impl Without {
    /// The sources that bring nothing else, by their names in [`crate::sources::SOURCES`].
    pub fn sources(self) -> &'static [&'static str] {
        match self {
            Without::Ras => &["ras"],
            Without::Nvml => &["nvml", "events"],
            Without::Log => &["tail"],
            Without::Procs => &["procs"],
            Without::Flight => &["flight", "debug"],
            Without::Rdma => &["rdma", "qpairs"],
            Without::Netdev => &["netdev"],
            Without::Inspector => &["inspector"],
            Without::Gpm => &[],
        }
    }
}

/// The observation as if some kinds of signal did not exist; `None` when nothing is left.
pub fn filter(mut seen: Observation, without: &[Without]) -> Option<Observation> {
    for kind in without {
        if let (Without::Gpm, Body::Gpus { gpus }) = (kind, &mut seen.body) {
            gpus.iter_mut().for_each(|g| g.gpm = None);
        }
        if kind.sources().contains(&seen.from.as_str()) {
            return None;
        }
    }
    Some(seen)
}
