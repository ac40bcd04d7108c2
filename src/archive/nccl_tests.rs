//! What nccl-tests writes with `-J`. Its tables stand in logs.

use super::intake::Intake;
use super::kinds::{Counts, Kind, Opened};
use crate::formats::nccl_tests;

pub const KIND: Kind =
    Kind { id: "nccl-tests", name: "nccl-tests results", is: |o| crate::formats::recognise::looks_like_nccl_tests_json(&o.head), read };

fn read(opened: &mut Opened, intake: &mut Intake, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let bytes = opened.all(64 << 20)?;
    progress();
    let table = nccl_tests::parse_json(&String::from_utf8_lossy(&bytes))?;
    intake.understood = true;
    intake.session.model.archive_record(&opened.name, opened.modified).tables.push((opened.name.clone(), table));
    Ok(Counts::default())
}
