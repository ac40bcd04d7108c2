//! Why something failed, in words that all programs use: those of errno, of sockets, of schedulers. What such a reason means, and what to do,
//! stands in the catalogue under `said-` and its name.

use regex::{Regex, RegexSet};
use std::sync::LazyLock;

/// A reason, by its name in the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(usize);

struct Words {
    entry: &'static str,
    /// A line with them tells of a failure by itself, whatever its writer calls it.
    fails: bool,
    words: &'static str,
}

const fn fails(entry: &'static str, words: &'static str) -> Words {
    Words { entry, fails: true, words }
}

const fn may(entry: &'static str, words: &'static str) -> Words {
    Words { entry, fails: false, words }
}

/// The first that a line has counts: what is exact stands before what is vague.
const REASONS: &[Words] = &[
    fails(
        "said-unresolved",
        r"could not resolve|name or service not known|temporary failure in name resolution|no such host|getaddrinfo|nodename nor servname|unknown host\b|(?:failed|unable|cannot) to resolve|cannot resolve",
    ),
    fails(
        "said-port-taken",
        r"address already in use|\bEADDRINUSE\b|\bAddrInUse\b|(?:port|address)\b[^.;]{0,60}(?:already |is |been )(?:in use|us(?:ed|ing)|occupied|taken)|\blisten on\b[^.;]{0,60}(?:port|addr)",
    ),
    fails("said-refused", r"connection refused|\bE?CONN(?:ECTION)?_?REFUSED\b|\bConnectionRefused"),
    fails(
        "said-unreachable",
        r"no route to host|network is unreachable|host is down|\bE(?:HOST|NET)UNREACH\b|destination (?:host )?unreachable|host unreachable",
    ),
    fails(
        "said-gpu-memory",
        r"(?:cuda|cu_?mem\w*|hip|gpu|device|hbm|vram|npu|xpu)[^.;]{0,60}out of memory|out of (?:gpu|device|hbm|cuda) memory|MEMORY_?ALLOCATION|OUT_OF_(?:DEVICE_)?MEMORY|hipErrorOutOfMemory|RESOURCE_EXHAUSTED|(?:gpu|device|hbm) memory[^.;]{0,60}(?:insufficient|not enough|exceed)|no available memory for the cache|free memory on device",
    ),
    fails(
        "said-host-memory",
        r"out of memory|cannot allocate memory|\bENOMEM\b|bad_alloc|oom[- _]?kill|\bMemoryError\b|memory (?:usage )?limit|OutOfMemoryError|exceeded (?:its |job |step )?memory",
    ),
    fails("said-disk-full", r"no space left|\bENOSPC\b|quota exceeded|\bEDQUOT\b|disk (?:is )?full"),
    fails(
        "said-storage-io",
        r"stale (?:nfs )?file handle|input/output error|read-only file system|\bESTALE\b|transport endpoint is not connected|i/o error|mount(?:ing)?[^.;]{0,80}(?:failed|timed out|not mounted)|failed to mount|\bMountVolume\b",
    ),
    fails(
        "said-library-missing",
        r"cannot open shared object|undefined symbol|undefined reference|version `?GLIBC|libraries? (?:was |were )?not (?:found|loaded)|could not load (?:dynamic |the )?(?:\S+ )?library|\bdlopen\b",
    ),
    fails(
        "said-no-gpu",
        r"no (?:cuda|gpus?|nvidia|hip|rocm|amd|npu)\b[^.;]{0,40}(?:found|detected|available|devices?|visible|gpus?)|insufficient (?:nvidia|amd)\.com/gpu|invalid device ordinal|communicate with the nvidia driver|failed to (?:query|initiali[sz]e|init|load) (?:nvidia devices|nvml|cuda|hip|rocm)|nvml[^.;]{0,30}(?:fail|error|not)|nvidia device files|no devices? (?:were |was )?(?:found|detected)|device not found",
    ),
    fails(
        "said-crash",
        r"illegal memory access|segmentation (?:fault|violation)|\bSIG(?:SEGV|BUS|ABRT|ILL|FPE)\b|memory access fault|\bbus error\b|core dumped|unspecified launch failure|illegal instruction|invalid memory|(?:nil|null) pointer|index out of range|general protection|kernel panic|soft lockup|hard lockup",
    ),
    fails(
        "said-hardware",
        r"uncorrect(?:able|ed)|hardware error|\becc error|machine check|link (?:is |went )?down\b|fallen off|fatal bus error|\bdbe\b|parity error|failing (?:gpu|device)|health compromised|firmware[^.;]{0,40}(?:error|fail|fatal|hang|not respond)",
    ),
    fails(
        "said-limits",
        r"too many open files|\bEMFILE\b|resource temporarily unavailable|\bmemlock\b|locked[- ]memory|pthread_create|can't start new thread|too many processes|cannot fork|fork: ",
    ),
    fails(
        "said-killed",
        r"\bSIGKILL\b|signal:? 9\b|(?:exit )?(?:code|status)[ :=]+137\b|\bkilled by\b|signal: killed|was killed|\bjob killed|code=killed",
    ),
    fails(
        "said-no-room",
        r"insufficient (?:cpu|memory|resources|capacity|gpu)|unschedulable|preempt(?:ed|ion)|\bevict(?:ed|ion|ing)\b|no nodes? (?:are |is )?available|not enough (?:free )?(?:resources|slots|gpus|nodes)|no available node|cannot be scheduled|(?:walltime|wall clock)[^.;]{0,40}(?:exceed|reached|expired|is over|used up)|exceed\w* (?:the |its )?(?:walltime|wall clock)|FailedScheduling|0/\d+ nodes are available",
    ),
    fails(
        "said-denied",
        r"permission denied|operation not permitted|access (?:is )?denied|accessdenied|\b40[13] (?:unauthorized|forbidden)|\bE(?:ACCES|PERM)\b|not authori[sz]ed|unauthorized|authentication fail|denied the request|forbidden\b",
    ),
    fails(
        "said-peer-gone",
        r"connection (?:was |has been )?(?:reset|closed|lost|aborted|dropped)|connection to [^.;]{1,80} (?:was |is )?lost|broken pipe|\bECONNRESET\b|closed by (?:the )?(?:remote|peer)|remote[_ ](?:peer )?disconnect|peer (?:has )?(?:closed|disconnected|gone|failed|died|exited)|socket closed|lost (?:connection|contact|heartbeat)|missed (?:too many )?heartbeats?|heartbeat[^.;]{0,60}(?:lost|missed|timed? ?out|fail|stopped|expired)|marked (?:as )?(?:dead|down|inactive)|lease (?:expired|lost|not found)|unresponsive|unhealthy|(?:failed|missed) (?:\S+ )?health checks?|\b50[234] (?:bad|service|gateway|slow)|service unavailable|stopped responding|not responding",
    ),
    fails(
        "said-timeout",
        r"tim(?:ed|es?|ing)?[- ]?outs?\b|still waiting for\b|deadline[ _]exceeded|did not (?:respond|answer|join|arrive|come|reply|register|connect|finish|complete|end)|no response|not (?:all|every) [^.;]{0,40}(?:arrived|joined|connected|registered|ready)|may be stuck|is stuck|hung\b|within \d+ ?(?:s|sec|seconds|min|minutes|ms)\b",
    ),
    fails(
        "said-settings",
        r"(?:has|have) an invalid|\bbad (?:line|option|argument|keyword|input)\b|invalid (?:value|argument|config\w*|option|parameter|input|spec|type|port|host)|unrecogni[sz]ed (?:option|argument)|unknown (?:option|argument|key|field|parameter|flag)|missing (?:required )?(?:argument|field|key|option|parameter|value)|malformed|failed to parse|parse error",
    ),
    may(
        "said-versions-differ",
        r"version mismatch|mismatch|incompatible|not compatible|unsupported (?:version|driver|protocol|opset)|driver[^.;]{0,40}(?:too old|insufficient)|(?:requires|needs|expected) (?:\S+ )?version|differ(?:s|ent)? (?:from|version)",
    ),
    may(
        "said-file-missing",
        r"no such (?:file|device|container|image|key)|\bENOENT\b|\bNotFound|not found|does not exist|doesn't exist|cannot find|couldn't find|could not (?:find|be (?:found|located))",
    ),
    may(
        "said-settings",
        r"must (?:be|match|have|not)\b|should (?:not )?be\b|cannot parse|is not supported|unsupported|not allowed|invalid",
    ),
    may("said-check-failed", r"assert|check failed|invariant|unwrap\(\)|panicked|precondition|expected .{1,60} (?:but )?got"),
];

/// The first reason that a text gives.
pub fn of(text: &str) -> Option<Reason> {
    static ALL: LazyLock<RegexSet> =
        LazyLock::new(|| RegexSet::new(REASONS.iter().map(|reason| format!("(?i){}", reason.words))).expect("patterns"));
    // Settings and counters that only name one: `timeout=600`, `--timeout 10`, `(timeout: 30s)`, `handle_oom_kill: false`, `0 times out of 12`.
    static NAMED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\btimes out of [0-9]+|--[\w-]*timeout[= ][0-9]\w*|\b[\w.-]*(?:time_?out|deadline|memory_limit|oom|unsupported|unhealthy|evict\w*|preempt\w*)[\w.]*(?:\(\w+\))?(?:(?: \w+){0,2} to be)?\s*(?:[=:|]|(?:is |was |are )?set to)\s*(?:[0-9]|none|false|true|inf)").expect("pattern")
    });
    // An I/O error of a network's library is no file's.
    static OF_NETWORK: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\bucx|\bucp|_ucx\b|\bibv_|\bfi_\w+\(|libfabric|\bverbs|mlx[45]_[0-9]|\bbtl_|NET/").expect("pattern")
    });
    // Paths, and what stands in a program, are resolved by no name server.
    static OF_NO_HOST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)\bresolve\b.{0,60}(?:\bdirectory\b|\bpaths?\b|symlink|\bimport\b|\bmodule\b|state dict|\breference\b|\bpackage\b|dependenc|\btype\b|attribute|\bvariable\b|placeholder|\bsymbol)")
            .expect("pattern")
    });
    // A row of a table, or a counter of errors, that counts none: `| Single Bit ECC Errors | 0 |`, `uncorrectable errors: 0`.
    static COUNTS_NONE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)^\s*\|[^|]*\|\s*(?:0(?:\.0+)?|none|no|n/?a|pass(?:ed)?|ok|healthy)\s*\|\s*$|\b(?:ecc|uncorrect(?:able|ed)|parity|machine check) errors?\s*[=:]\s*0\s*$").expect("pattern")
    });
    if COUNTS_NONE.is_match(text) {
        return None;
    }
    let named = NAMED.replace_all(text, "");
    let by_network = |reason: &Reason| reason.entry() == "said-storage-io" && OF_NETWORK.is_match(text);
    let of_no_host = |reason: &Reason| reason.entry() == "said-unresolved" && OF_NO_HOST.is_match(text);
    ALL.matches(&named).iter().map(Reason).find(|reason| !by_network(reason) && !of_no_host(reason))
}

impl Reason {
    pub fn entry(self) -> &'static str {
        REASONS.get(self.0).map_or("error-level", |reason| reason.entry)
    }

    /// Somebody else is not there: who says so is not to blame.
    pub fn is_absence(self) -> bool {
        matches!(self.entry(), "said-timeout" | "said-peer-gone" | "said-refused" | "said-unreachable")
    }

    /// Who fails so ends by itself, with a code of its own.
    pub fn keeps_from_starting(self) -> bool {
        matches!(self.entry(), "said-library-missing" | "said-file-missing" | "said-settings" | "said-denied")
    }

    pub fn is_failure(self) -> bool {
        REASONS.get(self.0).is_some_and(|reason| reason.fails)
    }
}

#[cfg(test)]
mod tests {
    use super::{REASONS, of};
    use crate::logs::catalog;

    #[test]
    fn each_reason_stands_in_the_catalogue() {
        for reason in REASONS {
            assert!(catalog::by_id(reason.entry).is_some(), "{}", reason.entry);
        }
    }

    #[test]
    fn what_is_exact_comes_first() {
        let entry = |text: &str| of(text).map(|reason| reason.entry());
        for (text, expected) in [
            ("dial tcp 10.0.0.7:2379: connect: connection refused (timeout)", Some("said-refused")),
            ("lookup etcd-0 on 10.96.0.10:53: no such host", Some("said-unresolved")),
            ("failed to resolve remote address gpu-02", Some("said-unresolved")),
            ("failed to resolve session directory /mnt/session: permission denied", Some("said-denied")),
            ("unable to resolve name 'wte' in the state dict", None),
            ("cannot open shared object file: No such file or directory", Some("said-library-missing")),
            ("bind: Address already in use", Some("said-port-taken")),
            ("worker 3 did not join the slice within 120s", Some("said-timeout")),
            ("item FOO has an invalid value", Some("said-settings")),
            ("HIP error: out of memory", Some("said-gpu-memory")),
            ("std::bad_alloc", Some("said-host-memory")),
            ("options: timeout=600, oom_kill: false", None),
            ("mpirun -host a,b --timeout 10 all_reduce_perf", None),
            ("synchronized the GPU 0 times out of 12 frees", None),
            ("| exit_timeout     | 30", None),
            ("worker 3: still waiting for head-0 (600 s)", Some("said-timeout")),
            ("| Single Bit ECC Errors              | 0              |", None),
            ("uncorrectable errors: 0", None),
            ("| Single Bit ECC Errors | 2 |", Some("said-hardware")),
            ("all is well", None),
        ] {
            assert_eq!(entry(text), expected, "{text}");
        }
    }
}
