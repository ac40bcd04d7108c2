//! `nccl-top replay`: a tape instead of a live node.

use super::{Env, Outcome, Printer};
use crate::cli::arguments::Play;
use crate::edge::outlet::is_gone;
use crate::recording::tape;
use crate::recording::without::filter;
use anyhow::Result;
use std::path::Path;

/// Prints the event lines of the whole tape.
pub fn headless(env: &Env, tape: &Path, options: &Play) -> Result<Outcome> {
    let may_last = tape.as_os_str() == "-" || std::fs::metadata(tape).is_ok_and(|meta| !meta.is_file());
    from(env, tape::Reader::open(tape)?, &tape.display().to_string(), options, may_last)
}

/// Prints the event lines of a tape; `name` is for messages. A tape that `may_last`, because somebody still writes it, is read for as long
/// as somebody reads what is printed.
pub fn from(env: &Env, mut reader: tape::Reader, name: &str, args: &Play, may_last: bool) -> Result<Outcome> {
    let header = reader.header().clone();
    let mut session = header.session();
    let mut printer = Printer { json: args.json, zone: env.zone(header.zone()), worst: None };
    let mut events = Vec::new();
    let mut started = None;
    let mut at = args.at;
    while let Some(seen) = reader.read()? {
        let from = *started.get_or_insert(seen.at);
        let now = seen.at;
        if at.is_some_and(|offset| now >= from.plus(offset)) {
            at = None;
            // What holds at this moment is reported as if it had just begun.
            events = session.present(now);
            printer.print(&session, &mut events)?;
        }
        let Some(seen) = filter(seen, &env.without) else { continue };
        session.apply(&seen, &mut events);
        reader.afford(session.effort)?;
        if at.is_some() {
            events.clear();
        }
        printer.print(&session, &mut events)?;
        if may_last && is_gone(&std::io::stdout()) {
            return Ok(printer.outcome());
        }
    }
    if at.is_some() && started.is_some() {
        anyhow::bail!("{}: --at is behind the end of the tape", name);
    }
    if started.is_none() {
        anyhow::bail!("{}: the tape holds no observation", name);
    }
    let left_out = session.model.left_out_words();
    if let Some(words) = &left_out {
        crate::edge::diagnostics::complain(&format!("{name}: {words}"));
    }
    let Some(cut) = reader.cut_off() else { return Ok(left_out.map_or_else(|| printer.outcome(), |_| Outcome::CannotJudge)) };
    // What is missing may be what was to be found.
    crate::edge::diagnostics::complain(&format!("{name}: {cut}; what came before was judged"));
    Ok(Outcome::CannotJudge)
}
