//! Flight Recorder dumps: who did not join a collective, or called another one.

use super::intake::Intake;
use super::kinds::{Counts, Kind, Opened};
use crate::formats::flight_recorder;

pub const KIND: Kind = Kind { id: "flight-recorder", name: "Flight Recorder dumps", is, read };

const MOST_BYTES: u64 = 256 << 20;

fn is(opened: &Opened) -> bool {
    flight_recorder::looks_like(&opened.head)
}

fn read(opened: &mut Opened, intake: &mut Intake, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let bytes = opened.all(MOST_BYTES)?;
    progress();
    let dump = flight_recorder::read(&bytes).map_err(|err| err.to_string())?;
    let rank = flight_recorder::rank_of_name(opened.file_name())
        .ok_or("its name does not end in a rank, and a dump does not hold it: name it as PyTorch does, nccl_trace_rank_N")?;
    intake.understood = true;
    intake.session.model.archive_dump(opened.modified, rank, &opened.name, dump);
    Ok(Counts::default())
}
