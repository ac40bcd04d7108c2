//! Lines of subsystem COLL: one for each call of each rank. They are too many to be looked at in a running job.

use super::comm::pointer;
use super::facts::Collective;
use crate::text::What;

pub(super) fn read(message: &str) -> Option<What> {
    Some(What::Collective(collective(message)?))
}

/// `AllReduce: opCount 1a sendbuff 0x… recvbuff 0x… count 4 datatype 9 op 0 root 0 comm 0x… [nranks=8] stream 0x…`, the message alone.
pub fn collective(message: &str) -> Option<Collective> {
    let (op, tail) = message.split_once(": opCount ")?;
    (!op.is_empty() && op.len() <= 32 && op.bytes().all(|b| b.is_ascii_alphabetic())).then_some(())?;
    let mut words = tail.split_whitespace();
    let op_count = u64::from_str_radix(words.next()?, 16).ok()?;
    let (mut count, mut datatype, mut reduction, mut root, mut comm, mut nranks, mut whole) = (None, None, None, None, None, None, false);
    while let Some(key) = words.next() {
        if let Some(n) = key.strip_prefix("[nranks=") {
            nranks = Some(n.strip_suffix(']')?.parse().ok()?);
            continue;
        }
        let Some(value) = words.next() else { break };
        match key {
            "count" => count = Some(value.parse().ok()?),
            "datatype" => datatype = Some(value.parse().ok()?),
            "op" => reduction = Some(value.parse().ok()?),
            "root" => root = Some(value.parse().ok()?),
            "comm" => comm = Some(pointer(value)?),
            "stream" => whole = true,
            _ => {}
        }
    }
    whole.then_some(())?;
    Some(Collective {
        op: op.to_string(),
        op_count,
        count: count?,
        datatype: datatype?,
        reduction: reduction?,
        root: root?,
        comm: comm?,
        nranks,
    })
}
