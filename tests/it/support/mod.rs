//! What several tests share, and the tools and benches with them.

// Tools and benches take a part.
#![allow(dead_code)]

pub mod dumps;
pub mod fleet_world;
pub mod parsers;
pub mod play;
pub mod player;
pub mod prometheus;
pub mod rule_pages;
pub mod screen;
pub mod stage;
pub mod stand_in;
pub mod svg;
pub mod tree;
pub mod worlds;

use nccl_top::archive::{Report, check};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::model::Model;
use nccl_top::model::job_record::Record;
use nccl_top::rules;
use nccl_top::rules::findings::{Finding, Ledger};
use std::path::Path;

/// So many seconds after 1970 began.
pub fn at(seconds: i64) -> Stamp {
    Stamp(seconds * 1_000_000_000)
}

/// A recorded text, by its path below `tests/fixtures`.
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What `check` says of a log with this text.
pub fn report(log: &str) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job.log");
    std::fs::write(&path, log).unwrap();
    check(&[path.display().to_string()], Zone::UTC, &mut |_, _| ())
}

/// What the rules find in a report that was read, and nothing else.
pub fn judged(read: impl FnOnce(&mut Record)) -> Vec<Finding> {
    let mut model = Model::default();
    read(model.archive_record("x", Stamp(0)));
    rules::facts(&model, &Ledger::default(), true, &[])
}
