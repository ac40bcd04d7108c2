//! Driver, fabric manager or container do not fit together: CUDA cannot start.

use super::area::Area;
use super::chain::Chain;
use super::{Implies, ONCE, Rule};
use crate::base::severity::Severity;

pub const RULE: Rule = Rule {
    id: "gpu-driver",
    severity: Severity::Error,
    title: "Driver, fabric manager or container do not fit together: CUDA cannot start",
    how: "CUDA's and NVML's error texts",
    advice: "`nvidia-smi` inside the container; `systemctl status nvidia-fabricmanager` on NVSwitch machines; driver, fabric manager and CUDA of one version",
    life: ONCE,
    implies: Implies::Failed,
    area: Some(Area::Host),
    chain: Chain { says_why: true, ..Chain::PLAIN },
    ..Rule::PLAIN
};
