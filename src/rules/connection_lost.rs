//! The connection of a rank to another one broke.

use super::chain::{Chain, Place};
use super::{Implies, ONCE, Rule, Stacks};
use crate::base::severity::Severity;

pub const RULE: Rule = Rule {
    id: "connection-lost",
    severity: Severity::Error,
    title: "A rank lost its connection to another one, which has ended as a rule; who reports it is a messenger, not the culprit",
    says: "lost {its|their} connection to another rank",
    how: "ncclRemoteError in the log, from PyTorch or from NCCL itself",
    advice: "Look for the rank that failed first, in its own log and on its own host: the address in the message names it. Where all ranks still lived, \
             the network between the two failed",
    life: ONCE,
    implies: Implies::Failed,
    stacks: Stacks::OfCulprits,
    chain: Chain { place: Place::Messenger, ..Chain::PLAIN },
    ..Rule::PLAIN
};
