//! What is asked of the user before it is done: stacks, dumps, evidence.

use super::prompt::{Ask, Prompt};
use super::{Effect, Mode, Ui};
use crate::diagnosis::session::Session;
use crate::tui::view;

/// Whose stacks are asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Stacks {
    /// Of this process.
    One(u32),
    /// Of all ranks of this job, and of what loads their data; several times.
    All { job: String, rounds: usize },
}

/// One look shows nothing of a job that goes on, if slowly.
const SLOW_ROUNDS: usize = 5;

fn is_slow(session: &Session, job: &str) -> bool {
    session.ledger.first_open(|f| matches!(f.rule, "straggler" | "slow-steps") && f.job.as_deref() == Some(job)).is_some()
}

impl Ui {
    pub(in crate::tui) fn ask_evidence(&mut self, session: &Session) -> Effect {
        let text = format!("./{}", crate::output::bundle::default_name(&session.model.host, session.model.now, self.zone));
        self.prompt = Some(Prompt { kind: Ask::Evidence, text, proposed: true, error: None });
        Effect::Draw
    }

    pub(in crate::tui) fn ask_stack(&mut self, session: &Session) -> Effect {
        let culprit = || view::culprit(session, self).map(Stacks::One);
        self.ask_py_spy(culprit())
    }

    pub(in crate::tui) fn ask_stacks(&mut self, session: &Session) -> Effect {
        let job = view::job_told(session, self).ok_or_else(|| "no job to look at".to_owned());
        let wanted = job.map(|job| Stacks::All { rounds: if is_slow(session, &job) { SLOW_ROUNDS } else { 1 }, job });
        self.ask_py_spy(wanted)
    }

    pub(in crate::tui) fn ask_dumps(&mut self, session: &Session) -> Effect {
        let job = match self.mode {
            Mode::Replay { .. } => Err("dumps come from live ranks: a recording has none"),
            _ => view::job_told(session, self).ok_or("no job to ask"),
        };
        match job {
            Ok(job) => Effect::AskDumps(job),
            Err(why) => {
                self.notice = Some(why.into());
                Effect::Draw
            }
        }
    }

    pub(in crate::tui) fn ask_py_spy(&mut self, wanted: Result<Stacks, String>) -> Effect {
        let wanted = match self.mode {
            Mode::Replay { .. } => Err("py-spy needs a live process: a recording has none".into()),
            _ => wanted,
        };
        match wanted {
            Ok(stacks) => Effect::AskStacks(stacks),
            Err(why) => {
                self.notice = Some(why);
                Effect::Draw
            }
        }
    }
}
