//! Recordings of nccl-top itself: judged as they were, moment by moment.

use super::intake::Intake;
use super::kinds::{Counts, Kind, Opened};
use crate::recording::tape;
use memchr::memmem;
use std::io::Read;

pub const KIND: Kind = Kind { id: "tape", name: "recordings", is, read };

fn is(opened: &Opened) -> bool {
    let first = opened.head.split(|b| *b == b'\n').next().unwrap_or_default();
    first.starts_with(b"{") && memmem::find(first, b"\"tape\":\"nccl-top\"").is_some()
}

fn read(opened: &mut Opened, intake: &mut Intake, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let name = opened.name.clone();
    let taken = opened.taken();
    // The reader keeps its input to itself: the rest of this one is handed over.
    let input = std::mem::replace(opened, Opened::nothing());
    let mut reader = tape::Reader::from_counted(Box::new(input) as Box<dyn Read + Send>, taken, &name).map_err(|err| err.to_string())?;
    let mut session = reader.header().session();
    let mut events = Vec::new();
    let mut outcome = Ok(Counts::default());
    let mut count = 0;
    loop {
        match reader.read() {
            Ok(Some(seen)) => session.apply(&seen, &mut events),
            Ok(None) => break,
            Err(err) => {
                outcome = Err(err.to_string());
                break;
            }
        }
        events.clear();
        if let Err(err) = reader.afford(session.effort) {
            outcome = Err(err.to_string());
            break;
        }
        count += 1;
        if count % 64 == 0 {
            progress();
        }
    }
    if count == 0 && outcome.is_ok() {
        return Err("the recording holds no observation".into());
    }
    if let Some(cut) = reader.cut_off() {
        outcome = Err(format!("{cut}; what came before was judged"));
    }
    if let Some(words) = session.model.left_out_words().filter(|_| outcome.is_ok()) {
        outcome = Err(words);
    }
    intake.understood = true;
    intake.recordings.push((name, session));
    outcome
}
