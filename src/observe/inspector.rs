//! What the NCCL Inspector writes of a process: the newest operation of each kind and size, and no more. A file has a record for each
//! operation.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// What a process of this node measures, whenever its file has grown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Inspected {
    pub pid: u32,
    pub path: String,
    pub comms: Vec<InspectedComm>,
}

/// A rank of a communicator.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InspectedComm {
    /// Hexadecimal digits of the hash; the last two may be missing.
    pub id: String,
    pub rank: u32,
    pub n_ranks: u32,
    pub nnodes: Option<u32>,
    pub ops: Vec<InspectedOp>,
    /// With whom it has exchanged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<InspectedPeer>,
}

/// The newest send to a rank, or receive from it, that was completed. Ranks are those of the communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InspectedPeer {
    pub peer: u32,
    /// It was sent, not received.
    pub sent: bool,
    pub bytes: u64,
    /// Its number in the communicator.
    pub sn: u64,
}

/// The newest operation of its kind and size. Bandwidths in 10⁹ bytes/s, time in microseconds.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InspectedOp {
    /// `AllReduce`, `Send`
    pub name: String,
    pub bytes: u64,
    /// Its number in the communicator.
    pub sn: u64,
    pub exec_us: Option<f64>,
    pub algbw_gbytes_per_s: Option<f64>,
    pub busbw_gbytes_per_s: Option<f64>,
}
