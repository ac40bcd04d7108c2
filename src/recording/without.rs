//! A recording as if one kind of signal did not exist: what the judge makes of the rest.

use crate::observe::{Body, Observation};

/// A kind of signal that replay can leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Without {
    Ras,
    Gpm,
    Nvml,
    Log,
    Procs,
    Flight,
    Inspector,
}

/// The observation as if some kinds of signal did not exist; `None` when nothing is left.
pub fn filter(mut seen: Observation, without: &[Without]) -> Option<Observation> {
    for kind in without {
        let sources: &[&str] = match kind {
            Without::Ras => &["ras"],
            Without::Nvml => &["nvml", "events"],
            Without::Log => &["tail"],
            Without::Procs => &["procs"],
            Without::Flight => &["flight"],
            Without::Inspector => &["inspector"],
            Without::Gpm => {
                if let Body::Gpus { gpus } = &mut seen.body {
                    gpus.iter_mut().for_each(|g| g.gpm = None);
                }
                continue;
            }
        };
        if sources.contains(&seen.from.as_str()) {
            return None;
        }
    }
    Some(seen)
}
