//! Flight Recorder dumps: who did not join a collective, or called another one.

use super::case::Case;
use super::judge::MOST_JUDGED;
use super::kinds::{Counts, Kind, Opened};
use crate::findings::Finding;
use crate::flight;
use crate::rules::dumps::{self, Given};
use crate::time::Stamp;

pub const KIND: Kind = Kind { id: "flight-recorder", name: "Flight Recorder dumps", is, read };

const MOST_BYTES: u64 = 256 << 20;

/// A dump of one rank.
pub struct Dumped {
    pub path: String,
    modified: Stamp,
    pub dump: flight::Dump,
}

fn is(opened: &Opened) -> bool {
    flight::looks_like(&opened.head)
}

fn read(opened: &mut Opened, case: &mut Case, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let bytes = opened.all(MOST_BYTES)?;
    progress();
    let dump = flight::read(&bytes).map_err(|err| err.to_string())?;
    let rank = flight::rank_of_name(opened.file_name())
        .ok_or("its name does not end in a rank, and a dump does not hold it: name it as PyTorch does, nccl_trace_rank_N")?;
    case.understood = true;
    let newest = case.dumps.get(&rank).is_none_or(|known| known.modified < opened.modified);
    if newest {
        case.dumps.insert(rank, Dumped { path: opened.name.clone(), modified: opened.modified, dump });
    }
    Ok(Counts::default())
}

/// What the dumps of all ranks say together.
pub fn judge(case: &Case) -> Vec<Finding> {
    if case.dumps.is_empty() {
        return Vec::new();
    }
    let given = Given {
        dumps: case.dumps.iter().map(|(rank, d)| (*rank, d.dump.clone())).collect(),
        path: &|rank| case.dumps.get(&rank).map(|d| d.path.clone()),
        py_spy: &|rank| case.py_spy(rank),
    };
    dumps::judge(&given, MOST_JUDGED).into_iter().map(|told| told.found).collect()
}
