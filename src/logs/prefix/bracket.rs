//! What stands in brackets in front of a line: ranks, times, places in the code, the kernel's clock, tags of launchers.

use super::{MAX_BARE_RANK, Peeled, is_level_and_ids, module_place, number, set, set_time, skip_space, stamp, tensorflow_place, torchx};
use crate::logs::RankBy;

pub(super) fn bracket<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    // A colour whose escape was lost: `[0m `.
    let colour = s[1..].bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    if (1..=8).contains(&colour) && s.as_bytes().get(1 + colour) == Some(&b'm') {
        return Some(skip_space(&s[2 + colour..]));
    }
    let end = memchr::memchr(b']', s.as_bytes().get(..s.len().min(300))?)?;
    let inner = &s[1..end];
    let after = &s[end + 1..];
    // The kernel's clock: `[ 1843.308148] `, `[  +0.000844] ` of `dmesg -e`
    let clock = inner.trim_start();
    if let Some((seconds, micros)) = clock.strip_prefix('+').unwrap_or(clock).split_once('.')
        && micros.len() == 6
        && number(micros).is_some()
        && number(seconds).is_some()
    {
        return Some(skip_space(after));
    }
    if let Some(rest) = after.strip_prefix(':') {
        if let Some(local) = torchx(inner) {
            p.origin.local_rank = Some(local);
            return Some(skip_space(rest));
        }
        let digits = inner.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (name, n) = inner.split_at(inner.len() - digits);
        let n = number(n)?;
        return match name {
            "rank" => {
                p.named(n, RankBy::PyTorch);
                Some(skip_space(rest))
            }
            // torchrun --tee: role name and local rank, no space behind it.
            _ if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')) => {
                p.origin.local_rank = Some(n);
                Some(rest)
            }
            _ => None,
        };
    }
    if let Some((rank, rest)) = mpi_tag(inner, after, p) {
        p.named(rank, RankBy::Mpi);
        return Some(rest);
    }
    if let Some(n) = number(inner) {
        // A torn NCCL header begins like this, too: there it is the CUDA device.
        let rest =
            after.strip_prefix(' ').filter(|r| !r.starts_with("NCCL ") && !r.contains(" NCCL WARN ") && !is_metrics(r) && !is_gpu(r))?;
        if n < MAX_BARE_RANK {
            set(&mut p.origin.rank, n);
        }
        return Some(rest);
    }
    if let Some(n) = inner.strip_prefix("rank: ").or_else(|| inner.strip_prefix("RANK ")).and_then(number) {
        p.named(n, RankBy::Other);
        return Some(skip_space(after));
    }
    // PyTorch's tutorials: `[GPU0] Epoch 9 | …`.
    if let Some(n) = inner.strip_prefix("GPU").and_then(number).filter(|_| after.starts_with(" Epoch ")) {
        p.origin.local_rank = Some(n);
        return Some(skip_space(after));
    }
    if let Some(pod) = inner.strip_prefix("pod/") {
        p.origin.host = Some(pod.split('/').next()?.to_string());
        return Some(skip_space(after));
    }
    if let Some((w, n)) = stamp::iso(inner)
        && let Some(tail) = inner.get(n..)
        && (tensorflow_place(tail) == Some("") || is_level_and_ids(tail))
    {
        set_time(p, w);
        p.cpp = true;
        return Some(skip_space(after));
    }
    if let Some((w, _)) = stamp::iso(inner).or_else(|| stamp::ctime(inner)).filter(|(_, n)| *n == inner.len()) {
        set_time(p, w);
        let rest = skip_space(after);
        // Determined: `[<time>] <container> || text`.
        let container = |id: &str| (4..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        return Some(rest.split_once(" ||").filter(|(id, _)| container(id)).map_or(rest, |(_, t)| skip_space(t)));
    }
    // ESPnet: `[node-1] 2026-04-23 04:59:25,764 (trainer:793) INFO: `.
    if let Some(tail) = after.strip_prefix(' ')
        && let Some((w, n)) = stamp::iso(tail)
        && let Some(rest) = tail[n..].strip_prefix(' ').and_then(module_place)
    {
        set_time(p, w);
        p.origin.host = p.origin.host.take().or_else(|| Some(inner.to_owned()));
        return Some(rest);
    }
    // PaddleDetection, detectron2: `[08/15 04:02:30] `, `[08/15 04:02:30 d2.utils.events]: `.
    if let Some((w, n)) = stamp::month_day(inner).filter(|(_, n)| inner[*n..].is_empty() || inner[*n..].starts_with(' ')) {
        set_time(p, w);
        return Some(skip_space(after.strip_prefix(':').filter(|_| n < inner.len()).unwrap_or(after)));
    }
    if let Some(rank) = sglang(inner, p) {
        if let Some(rank) = rank {
            p.named(rank, RankBy::Other);
        }
        return Some(skip_space(after));
    }
    if let Some(tail) = inner.strip_prefix("NeMo ") {
        if let Some((w, _)) = tail.get(2..).and_then(stamp::iso) {
            set_time(p, w);
        }
        return Some(skip_space(after));
    }
    if matches!(inner, "INFO" | "WARNING" | "ERROR" | "DEBUG" | "CRITICAL" | "titan") || is_code_place(inner) {
        return Some(skip_space(after));
    }
    cpp_head(inner, p)?;
    p.cpp = true;
    Some(skip_space(after))
}

/// `accuracy=0.61, loss=2.31` of clu, in front of which the step stands in brackets.
fn is_metrics(text: &str) -> bool {
    let is_field = |field: &str| {
        field.trim().split_once('=').is_some_and(|(name, value)| {
            !name.is_empty() && !name.contains(' ') && value.trim().trim_matches(['[', ']']).parse::<f64>().is_ok()
        })
    };
    text.contains('=') && text.split(", ").take(3).all(is_field)
}

/// `2026-04-21 07:28:41 TP5` and `2026-04-21 07:28:41 DP1 TP5 EP5` of SGLang, also without the date. With one stage the tensor-parallel
/// rank is the rank.
fn sglang(inner: &str, p: &mut Peeled<'_>) -> Option<Option<u32>> {
    let clock = || inner.bytes().take_while(|b| b.is_ascii_digit() || *b == b':').count();
    let (w, n) = stamp::iso(inner).map_or_else(|| (None, clock()), |(w, n)| (Some(w), n));
    // Without a time only what no other program writes: tensor and expert-parallel rank, of the same number.
    let parts = if n >= 8 {
        inner.get(n..)?.strip_prefix(' ')?
    } else {
        let (tensor, expert) = inner.strip_prefix("TP")?.split_once(" EP")?;
        (tensor == expert).then_some(inner)?
    };
    let mut rank = None;
    for part in parts.split(' ') {
        let (axis, no) = part.split_at_checked(2).filter(|(axis, _)| matches!(*axis, "TP" | "DP" | "EP" | "PP"))?;
        let no = number(no)?;
        rank = if axis == "TP" { Some(no) } else { rank };
    }
    if let Some(w) = w {
        set_time(p, w);
    }
    Some(rank.filter(|_| !parts.contains("PP")))
}

/// `[1,12]<stdout>:`: job and rank. Open MPI 5 writes `[prterun-host-1@1,12]<stdout>: `, SageMaker `[1,mpirank:12,algo-2]<stdout>:`,
/// horovodrun `[12]<stdout>:`.
fn mpi_tag<'a>(inner: &str, after: &'a str, p: &mut Peeled<'_>) -> Option<(u32, &'a str)> {
    let rest = ["<stdout>:", "<stderr>:", "<stddiag>:"].iter().find_map(|t| after.strip_prefix(t))?;
    let Some((job, rank)) = inner.split_once(',') else { return Some((number(inner)?, rest)) };
    if let Some((rank, host)) = rank.strip_prefix("mpirank:").and_then(|t| t.split_once(',')) {
        number(job)?;
        let rank = number(rank)?;
        p.origin.host = Some(host.to_string());
        return Some((rank, rest));
    }
    if let Some((_, no)) = job.rsplit_once('@') {
        number(no)?;
        return Some((number(rank)?, skip_space(rest)));
    }
    number(job)?;
    Some((number(rank)?, rest))
}

/// `E1121 00:04:23.008941232 ProcessGroupNCCL.cpp:689`, or without a time before torch 2.4.
fn cpp_head(inner: &str, p: &mut Peeled<'_>) -> Option<()> {
    let tail = inner.strip_prefix(['I', 'W', 'E', 'F', 'V'])?;
    let (w, place) = match stamp::glog(tail) {
        Some((w, n)) => (Some(w), tail[n..].strip_prefix(' ')?),
        None => (None, tail.strip_prefix(' ')?),
    };
    let (file, line) = place.rsplit_once(':')?;
    number(line)?;
    if !file.contains('.') || file.contains(' ') {
        return None;
    }
    if let Some(w) = w {
        set_time(p, w);
    }
    Some(())
}

/// `logging.py:96:log_dist`
pub(super) fn is_code_place(inner: &str) -> bool {
    inner.split_once(".py:").is_some_and(|(file, line)| !file.contains(' ') && line.starts_with(|c: char| c.is_ascii_digit()))
}

/// `[0] NVIDIA B200 | 67°C, 100 % | 124906 / 183359 MB`: a row of gpustat, which has the index of a GPU in front.
fn is_gpu(after: &str) -> bool {
    ["NVIDIA ", "Tesla ", "GeForce ", "Quadro "].iter().any(|vendor| after.starts_with(vendor)) && after.contains(" | ")
}
