//! Where the cause of a failure or a hang lies: the class that a headline names where evidence allows.

use super::findings::Finding;
use super::rule;
use serde::Serialize;

/// Whose part of the system it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// CPUs, memory, settings and driver of the machine.
    Host,
    Gpu,
    Nvlink,
    Network,
    Storage,
    /// Data loaders and what feeds them.
    Input,
    /// The program itself.
    Code,
}

/// Texts that say something else than their rule.
const BY_TEXT: &[(&str, Option<Area>)] = &[
    ("cuda-assert", Some(Area::Code)),
    ("cuda-assertion", Some(Area::Code)),
    ("dataloader-bus", Some(Area::Host)),
    ("dataloader-crash", Some(Area::Input)),
    ("dataloader-killed", Some(Area::Input)),
    ("dataloader-timeout", Some(Area::Input)),
    ("nothing-to-join", Some(Area::Input)),
    ("psm3-address-format", Some(Area::Network)),
    // A kernel that is wrong makes these as well as a GPU that is.
    ("xid-13", None),
    ("xid-31", None),
    ("xid-32", None),
    ("xid-43", None),
    ("xid-45", None),
    ("xid-69", None),
    ("xid-other", None),
];

impl Area {
    /// As a headline has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Area::Host => "host",
            Area::Gpu => "GPU",
            Area::Nvlink => "NVLink",
            Area::Network => "network",
            Area::Storage => "storage",
            Area::Input => "input",
            Area::Code => "code",
        }
    }

    /// Whether the text `id` says itself where the cause lies, or that nobody knows.
    pub fn told_by(id: &str) -> bool {
        BY_TEXT.iter().any(|(text, _)| *text == id)
    }

    /// By what the finding's evidence shows, else by its text, else by its rule; `None` where none of them tells.
    pub fn of(found: &Finding) -> Option<Area> {
        let by_text = BY_TEXT.iter().find(|(id, _)| found.signature == Some(id)).map(|(_, area)| *area);
        found.area.or_else(|| by_text.unwrap_or_else(|| rule(found.rule)?.area))
    }
}
