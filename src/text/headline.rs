//! Headlines: what a line of the kernel, of Slurm or of NCCL's InfiniBand transport says, in a sentence with who, which code and what it
//! means. Only what the line says; what it does not say is left out.

use super::signature::Signature;
use std::fmt::Write;

/// A line, told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    pub words: String,
    /// What it is about, where lines with one signature may be about several things: a GPU, a process that was killed.
    pub thing: Option<String>,
}

/// The headline of a text that has this signature, if there is one for its kind; `host` wrote the line.
pub fn of(signature: &Signature, text: &str, host: Option<&str>) -> Option<Headline> {
    let at = host.map_or(String::new(), |host| format!(" on {host}"));
    if text.contains("Xid (") {
        return xid(signature, text, &at);
    }
    if let Some(name) = text.split_once("fallen off the bus").and(gpu_named(text)) {
        return Some(Headline { words: format!("GPU {name}{at} has fallen off the bus"), thing: Some(format!("{name}{at}")) });
    }
    match signature.id {
        "oom-killer" | "oom-killer-cgroup" => killed(text, &at),
        id if id.starts_with("slurm-") => slurm(text).map(|words| Headline { words, thing: None }),
        id if id.starts_with("ib-") => {
            let words = completion(text).or_else(|| port_event(text))?;
            Some(Headline { words, thing: None })
        }
        _ => None,
    }
}

/// The names of the Xids that are met most, as NVIDIA's catalogue has them.
const XIDS: &[(u32, &str)] = &[
    (8, "GPU stopped processing"),
    (13, "graphics engine exception"),
    (31, "GPU memory page fault"),
    (32, "invalid or corrupted push buffer stream"),
    (43, "GPU stopped processing: the program's channel was reset"),
    (45, "preemptive cleanup, due to previous errors or the end of a process"),
    (48, "double-bit ECC error"),
    (61, "internal micro-controller breakpoint or warning"),
    (62, "internal micro-controller halt"),
    (63, "ECC page retirement or row remapping recorded"),
    (64, "ECC page retirement or row remapping failed"),
    (74, "NVLink error"),
    (79, "GPU has fallen off the bus"),
    (92, "high single-bit ECC error rate"),
    (94, "contained ECC error"),
    (95, "uncontained ECC error"),
    (109, "context switch timeout"),
    (119, "GSP RPC timeout"),
    (120, "GSP error"),
    (121, "C2C link error"),
    (136, "NVLink training failed"),
    (137, "NVLink privilege error"),
    (140, "unrecovered ECC error"),
    (143, "GPU initialization failed"),
];

/// `NVRM: Xid (PCI:0000:9b:00): 79, pid=2201, name=python3, GPU has fallen off the bus.`
fn xid(signature: &Signature, text: &str, at: &str) -> Option<Headline> {
    let (before, rest) = text.split_once("Xid (")?;
    let (place, rest) = rest.split_once("): ")?;
    let (code, tail) = digits(rest)?;
    let tail = tail.trim_start_matches(',').trim();
    let switch = before.ends_with('S');
    let (gpu, instance) = match place.split_once(" GPU-I:") {
        Some((gpu, instance)) => (gpu, format!(", GPU instance {instance}")),
        None => (place, String::new()),
    };
    let gpu = gpu.strip_prefix("PCI:").unwrap_or(gpu);
    let thing = Some(format!("{gpu}{at}"));
    if switch {
        let words = format!("SXid {code} on NVSwitch {gpu}{at}{}", if tail.is_empty() { String::new() } else { format!(" ({tail})") });
        return Some(Headline { words, thing });
    }
    let named = XIDS.iter().find(|(no, _)| *no == code).map(|(_, name)| (*name).to_owned());
    let means = match signature.id {
        "xid-other" => what_is_said(tail),
        _ => named.or_else(|| Some(in_short(signature.means))),
    };
    let mut words = format!("Xid {code} on GPU {gpu}{instance}{at}");
    if let Some(means) = means {
        let _ = write!(words, " ({means})");
    }
    let field = |key: &str| {
        let value = text.split_once(key)?.1.split([',', ' ']).next()?.trim_matches('\'');
        (!value.is_empty() && !value.starts_with('<')).then_some(value)
    };
    match (field(" name="), field(" pid=")) {
        (Some(name), Some(pid)) => {
            let _ = write!(words, ", process {name} (pid {pid})");
        }
        (None, Some(pid)) => {
            let _ = write!(words, ", pid {pid}");
        }
        _ => {}
    }
    Some(Headline { words, thing })
}

/// What stands behind the process in a line that no catalogue explains.
fn what_is_said(tail: &str) -> Option<String> {
    let fields = tail.split(", ").filter(|part| !part.starts_with("pid=") && !part.starts_with("name="));
    let said = fields.collect::<Vec<_>>().join(", ");
    (!said.is_empty()).then_some(said)
}

/// `The GPU fell off the bus: it no longer answers. Power.` is `the GPU fell off the bus`.
fn in_short(means: &str) -> String {
    let end = [": ", "; ", ". "].iter().filter_map(|end| means.find(end)).min().unwrap_or(means.len());
    let short = means[..end].trim_end_matches('.');
    match short.split_once(' ') {
        Some((first @ ("The" | "A" | "An"), rest)) => format!("{} {rest}", first.to_lowercase()),
        _ => short.to_owned(),
    }
}

/// `NVRM: GPU 0000:2b:00.0: GPU has fallen off the bus.`, `NVRM: GPU at PCI:0000:9b:00: GPU-509665ad has fallen off the bus.`
fn gpu_named(text: &str) -> Option<&str> {
    let name = text.split_once("GPU at PCI:").or_else(|| text.split_once("NVRM: GPU "))?.1;
    let end = name.find(|c: char| !c.is_ascii_hexdigit() && !matches!(c, ':' | '.')).unwrap_or(name.len());
    let name = name[..end].trim_end_matches([':', '.']);
    name.contains(':').then_some(name)
}

/// The lines of the kernel's OOM killer; a process of that number is killed once.
fn killed(text: &str, at: &str) -> Option<Headline> {
    let group = text.contains("Memory cgroup out of memory") || text.contains("CONSTRAINT_MEMCG");
    if let Some((before, _)) = text.split_once(" invoked oom-killer") {
        let name = before.rsplit_once("kernel: ").map_or(before, |(_, name)| name);
        let name = name.rsplit_once("] ").map_or(name, |(_, name)| name).trim();
        return Some(Headline {
            words: format!("{name} asked for memory and the kernel ran its OOM killer{at}"),
            thing: Some(INVOKED.into()),
        });
    }
    let (name, pid, memory, cgroup) = if text.contains("oom-kill:constraint=") {
        let field = |key: &str| text.split_once(key).map(|(_, v)| v.split(',').next().unwrap_or(v).trim()).filter(|v| !v.is_empty());
        (field(",task=")?, digits(field(",pid=")?)?.0, None, field(",oom_memcg="))
    } else {
        let (_, rest) = ["illed process ", "ill process ", "OOM victim "].iter().find_map(|mark| text.split_once(mark))?;
        let (pid, rest) = digits(rest)?;
        let (name, rest) = rest.trim_start().strip_prefix('(')?.split_once(')')?;
        let rss = rest.split_once("anon-rss:").and_then(|(_, v)| digits(v)).map(|(kib, _)| kib);
        (name, pid, rss, None)
    };
    let mut words = format!("the kernel's OOM killer killed {name} (pid {pid}){at}");
    if let Some(kib) = memory {
        let _ = write!(words, ", which held {}", size(u64::from(kib)));
    }
    words += &match (group, cgroup) {
        (_, Some(path)) => format!(": memory cgroup {path} is at its limit"),
        (true, None) => ": its memory cgroup is at its limit".into(),
        (false, None) => ": the host is out of memory".into(),
    };
    Some(Headline { words, thing: Some(format!("pid {pid}{at}")) })
}

/// The [`Headline::thing`] of a line that tells who asked for memory, and not yet who was killed.
pub const INVOKED: &str = "invoked";

/// `118.2 GiB` of so many KiB.
fn size(kib: u64) -> String {
    match kib as f64 {
        k if k >= 1_048_576.0 => format!("{:.1} GiB", k / 1_048_576.0),
        k if k >= 1024.0 => format!("{:.0} MiB", k / 1024.0),
        k => format!("{k:.0} KiB"),
    }
}

/// What slurmstepd and srun say.
fn slurm(text: &str) -> Option<String> {
    if let Some((_, stars)) = text.split_once("*** ") {
        let (kind, rest) = stars.split_once(' ')?;
        let (id, rest) = rest.split_once(' ')?;
        let (node, rest) = rest.strip_prefix("ON ")?.split_once(' ')?;
        let what = if kind == "STEP" { step(id) } else { format!("job {id}") };
        if rest.starts_with("FAILED") {
            return Some(format!("Slurm: {what} failed on {node}"));
        }
        if !rest.starts_with("CANCELLED AT ") {
            return None;
        }
        let reason = rest.split_once(" DUE ").map(|(_, r)| r.get(3..).unwrap_or("").trim_end_matches(['*', ' ']));
        let reason = reason.map_or(String::new(), |r| match r.split_once("SIGNAL ") {
            Some((_, signal)) => format!(": signal {signal}"),
            None => format!(": {}", r.split(',').next().unwrap_or(r).to_lowercase()),
        });
        return Some(format!("Slurm cancelled {what} on {node}{reason}"));
    }
    let (program, rest) = text.split_once(": ")?;
    let rest = rest.strip_prefix("error: ").or_else(|| rest.strip_prefix("fatal: ")).unwrap_or(rest).trim();
    let after = |mark: &str| rest.split_once(mark).map(|(_, rest)| rest.trim());
    let word = |text: &str| text.split([' ', ',', ';']).next().unwrap_or(text).trim_end_matches('.').to_owned();
    if let Some(id) = after("Force Terminated StepId=") {
        return Some(format!("Slurm ended {} by force", step(&word(id))));
    }
    if let Some(id) = after("Force Terminated job ") {
        return Some(format!("Slurm ended job {} by force", word(id)));
    }
    if let Some(id) = after("Terminating StepId=").or(after("Terminating job step ")) {
        return Some(format!("Slurm ends {}", step(&word(id))));
    }
    if let Some(node) = after("Node failure on ") {
        return Some(format!("Slurm lost node {}: node failure", word(node)));
    }
    if let Some(events) = rest.strip_prefix("Detected ").filter(|r| r.contains("oom")) {
        let (count, _) = digits(events)?;
        let id = ["StepId=", " step "].iter().find_map(|mark| after(mark)).map(word);
        let kills = if count == 1 { "1 OOM kill".to_owned() } else { format!("{count} OOM kills") };
        return Some(format!(
            "Slurm saw {kills}{}: host memory is at the job's limit",
            id.map_or(String::new(), |id| format!(" in {}", step(&id)))
        ));
    }
    if let Some(job) = after("Unable to create step for job ") {
        let (id, why) = job.split_once(": ")?;
        return Some(format!("Slurm could not create a step of job {id}: {why}"));
    }
    // `srun: error: node-1: tasks 0-7: Killed`
    let (node, told) = rest.split_once(": ")?;
    let (tasks, how) = told.split_once(": ")?;
    if program != "srun" || !tasks.starts_with("task") || node.contains(' ') {
        return None;
    }
    let how = match how.trim_end_matches('.') {
        how if how.starts_with("Exited with") => format!("{}{}", how[..1].to_lowercase(), &how[1..]),
        how if how.starts_with("Out Of Memory") => "ran out of host memory".into(),
        "Killed" => "was killed (SIGKILL)".replace("was", if tasks.starts_with("tasks") { "were" } else { "was" }),
        how => format!("ended: {how}"),
    };
    Some(format!("Slurm {tasks} on {node} {how}"))
}

/// The job that a line of Slurm names.
pub fn slurm_job(text: &str) -> Option<&str> {
    let marks = ["StepId=", "*** STEP ", "*** JOB ", "Force Terminated job ", "Terminating job step ", " event(s) in step "];
    let id = marks.iter().find_map(|mark| text.split_once(mark))?.1;
    let id = &id[..id.bytes().take_while(|b| b.is_ascii_digit() || matches!(b, b'_' | b'+')).count()];
    (!id.is_empty()).then_some(id)
}

/// `494583.0` is `job 494583 step 0`.
fn step(id: &str) -> String {
    match id.split_once('.') {
        Some((job, step)) => format!("job {job} step {step}"),
        None => format!("job {id}"),
    }
}

/// The words of libibverbs for `ibv_wc_status`.
const STATUS: [&str; 22] = [
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "work request flushed",
    "memory window bind error",
    "bad response",
    "local access error",
    "remote invalid request",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation",
    "remote invalid RD request",
    "operation aborted",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout",
    "general error",
];

/// `NET/IB: Got completion from peer 10.0.0.7<43211> with status=IBV_WC_RETRY_EXC_ERR(12) opcode=… vendor_err=129 … hca mlx5_3`
fn completion(text: &str) -> Option<String> {
    let (peer, rest) = text.split_once("completion from peer ")?.1.split_once(" with ")?;
    let status = rest.strip_prefix("error ").or_else(|| rest.strip_prefix("status="))?;
    let number = status.strip_prefix("IBV_WC_").and_then(|s| Some(s.split_once('(')?.1)).unwrap_or(status);
    let (status, _) = digits(number)?;
    let name = STATUS.get(status as usize).map_or(String::new(), |name| format!(" ({name})"));
    let way = match rest {
        r if r.contains("(Send)") || r.contains("req_type=Send") => "to",
        r if r.contains("(Recv)") || r.contains("req_type=Recv") => "from",
        _ => "with",
    };
    // RoCE has IP addresses as GIDs.
    let network = if rest.contains("localGid ::ffff:") { "RoCE" } else { "InfiniBand" };
    let mut words = format!("{network} completion status {status}{name} {way} peer {peer}");
    let field = |key: &str| rest.split_once(key).map(|(_, v)| v.split([' ', ',']).next().unwrap_or(v)).filter(|v| !v.is_empty());
    if let Some(device) = field(" hca ") {
        let _ = write!(words, ", device {device}");
    }
    if let Some(vendor) = field("vendor err ").or_else(|| field("vendor_err=")) {
        let _ = write!(words, ", vendor error {vendor}");
    }
    Some(words)
}

/// `NET/IB : mlx5_3:1 Got async event : port error`
fn port_event(text: &str) -> Option<String> {
    let (before, _) = text.split_once(" Got ").filter(|_| text.contains("port error"))?;
    let device = before.rsplit(' ').next().filter(|d| d.contains(':') && d.len() > 1);
    Some(device.map_or("InfiniBand port error".into(), |device| format!("InfiniBand port {device}: port error")))
}

fn digits(text: &str) -> Option<(u32, &str)> {
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..n].parse().ok()?, &text[n..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::signature::{self, Scope};

    fn told(scope: Scope, text: &str) -> String {
        let signature = signature::find(scope, text).unwrap_or_else(|| panic!("{text} is not known"));
        of(signature, text, None).map_or(String::new(), |h| h.words)
    }

    #[test]
    fn lines_of_the_driver() {
        for (text, want) in [
            (
                "NVRM: Xid (PCI:0000:9b:00): 79, pid=2201, name=python3, GPU has fallen off the bus.",
                "Xid 79 on GPU 0000:9b:00 (GPU has fallen off the bus), process python3 (pid 2201)",
            ),
            ("NVRM: Xid (0000:03:00): 14, Channel 00000001", "Xid 14 on GPU 0000:03:00 (Channel 00000001)"),
            (
                "NVRM: Xid (PCI:0000:01:00 GPU-I:05): 46, pid=2201, name=python3, GPU timeout",
                "Xid 46 on GPU 0000:01:00, GPU instance 05 (the GPU stopped answering in time), process python3 (pid 2201)",
            ),
            (
                "NVRM: Xid (PCI:0000:05:00): 54, pid='<unknown>', name=<unknown>, Auxiliary power is not connected",
                "Xid 54 on GPU 0000:05:00 (the GPU's auxiliary power is not connected)",
            ),
            (
                "NVRM: Xid (PCI:0000:01:00): 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.",
                "Xid 63 on GPU 0000:01:00 (ECC page retirement or row remapping recorded), pid 1896",
            ),
            (
                "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
                "SXid 20034 on NVSwitch 0000:05:00.0 (Fatal, Link 30 LTSSM Fault Up)",
            ),
            ("NVRM: GPU 0000:2b:00.0: GPU has fallen off the bus.", "GPU 0000:2b:00.0 has fallen off the bus"),
            ("NVRM: GPU at PCI:0000:9b:00: GPU-509665ad has fallen off the bus.", "GPU 0000:9b:00 has fallen off the bus"),
            ("NVRM: fallen off the bus and is not responding to commands.", ""),
        ] {
            assert_eq!(told(Scope::Line, text), want);
        }
    }

    #[test]
    fn the_host_is_told_where_the_line_has_one() {
        let text = "NVRM: Xid (PCI:0000:9b:00): 48, pid=7, name=x, DBE";
        let headline = of(signature::find(Scope::Line, text).unwrap(), text, Some("node-7")).unwrap();
        assert_eq!(headline.words, "Xid 48 on GPU 0000:9b:00 on node-7 (double-bit ECC error), process x (pid 7)");
        assert_eq!(headline.thing.as_deref(), Some("0000:9b:00 on node-7"));
    }

    #[test]
    fn lines_of_the_oom_killer() {
        for (text, want) in [
            (
                "Out of memory: Killed process 12345 (python3) total-vm:9kB, anon-rss:123456789kB, file-rss:0kB",
                "the kernel's OOM killer killed python3 (pid 12345), which held 117.7 GiB: the host is out of memory",
            ),
            (
                "Memory cgroup out of memory: Kill process 12345 (pt_data_worker) score 1912 or sacrifice child",
                "the kernel's OOM killer killed pt_data_worker (pid 12345): its memory cgroup is at its limit",
            ),
            (
                "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=abc,mems_allowed=0-1,oom_memcg=/slurm/job_12,task_memcg=/slurm/job_12/step_0,task=python3,pid=12345,uid=0",
                "the kernel's OOM killer killed python3 (pid 12345): memory cgroup /slurm/job_12 is at its limit",
            ),
            (
                "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=python3,pid=12345,uid=0",
                "the kernel's OOM killer killed python3 (pid 12345): the host is out of memory",
            ),
            (
                "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
                "python3 asked for memory and the kernel ran its OOM killer",
            ),
        ] {
            assert_eq!(told(Scope::Line, text), want);
        }
    }

    #[test]
    fn lines_of_slurm() {
        for (text, want) in [
            (
                "slurmstepd: error: *** STEP 4711.0 ON node-1 CANCELLED AT 2026-04-20T09:09:37 DUE TO TIME LIMIT ***",
                "Slurm cancelled job 4711 step 0 on node-1: time limit",
            ),
            ("slurmstepd: error: *** JOB 4711 ON node-1 CANCELLED AT 2026-04-20T09:09:37 ***", "Slurm cancelled job 4711 on node-1"),
            (
                "slurmstepd: error: *** JOB 4711 ON node-1 CANCELLED AT 2026-04-20T09:09:37 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
                "Slurm cancelled job 4711 on node-1: node failure",
            ),
            (
                "slurmstepd: error: *** STEP 4711.0 ON node-1 CANCELLED AT 2026-04-20T09:09:37 DUE to SIGNAL Terminated ***",
                "Slurm cancelled job 4711 step 0 on node-1: signal Terminated",
            ),
            ("srun: Force Terminated StepId=4711.0", "Slurm ended job 4711 step 0 by force"),
            ("srun: error: Node failure on node-3", "Slurm lost node node-3: node failure"),
            (
                "slurmstepd: error: Detected 3 oom_kill events in StepId=123.batch. Some of the step tasks have been OOM Killed.",
                "Slurm saw 3 OOM kills in job 123 step batch: host memory is at the job's limit",
            ),
            (
                "slurmstepd: error: Detected 1 oom-kill event(s) in step 123.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.",
                "Slurm saw 1 OOM kill in job 123 step 0: host memory is at the job's limit",
            ),
            ("srun: error: node-1: task 0: Out Of Memory", "Slurm task 0 on node-1 ran out of host memory"),
            ("srun: error: node-1: task 3: Exited with exit code 1", "Slurm task 3 on node-1 exited with exit code 1"),
            ("srun: error: node-1: tasks 0-7: Killed", "Slurm tasks 0-7 on node-1 were killed (SIGKILL)"),
            (
                "srun: error: node-1: task 3: Segmentation fault (core dumped)",
                "Slurm task 3 on node-1 ended: Segmentation fault (core dumped)",
            ),
            ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", ""),
            (
                "srun: error: Unable to create step for job 123: More processors requested than permitted",
                "Slurm could not create a step of job 123: More processors requested than permitted",
            ),
            ("slurmstepd: error: Unable to send job complete message: Unable to contact slurm controller", ""),
        ] {
            assert_eq!(told(Scope::Line, text), want);
        }
    }

    #[test]
    fn lines_of_infiniband() {
        for (text, want) in [
            (
                "NET/IB : Got completion from peer 10.0.0.7<43211> with error 12, opcode 32631, len 32630, vendor err 129 (Send) localGid fe80::bace:f6ff:fe3d:1a2c",
                "InfiniBand completion status 12 (transport retry counter exceeded) to peer 10.0.0.7<43211>, vendor error 129",
            ),
            (
                "NET/IB: Got completion from peer 10.0.0.7<43211> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=IBV_WC_SEND(0) vendor_err=249  localGid ::ffff:10.8.0.1 remoteGids::ffff:10.8.0.7 hca mlx5_3",
                "RoCE completion status 5 (work request flushed) with peer 10.0.0.7<43211>, device mlx5_3, vendor error 249",
            ),
            (
                "NET/IB: Got completion from peer 10.0.0.7<43211> with status=10 opcode=1 len=0 vendor err 136 (Recv) hca mlx5_3",
                "InfiniBand completion status 10 (remote access error) from peer 10.0.0.7<43211>, device mlx5_3, vendor error 136",
            ),
            ("NET/IB : mlx5_3:1 Got non-fatal async event: port error(10)", "InfiniBand port mlx5_3:1: port error"),
            ("NET/IB : Got async event : port error", "InfiniBand port error"),
        ] {
            assert_eq!(told(Scope::Nccl, text), want);
        }
    }

    /// Every line of the catalogue has a headline or none, and none panics, however it is cut.
    #[test]
    fn cut_lines_are_told_as_far_as_they_go() {
        for (_, s) in signature::all() {
            for example in s.examples {
                for end in (0..=example.len()).filter(|end| example.is_char_boundary(*end)) {
                    of(s, &example[..end], None);
                }
            }
        }
    }
}
