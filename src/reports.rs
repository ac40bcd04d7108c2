//! Finished reports that `check` reads beside logs: nccl-tests, the NCCL Inspector, saved RAS answers. Text in, structures and
//! out; opens no file and knows no clock.

pub mod inspector;
pub mod nccl_tests;

use memchr::memmem;

fn holds(text: &[u8], what: &str) -> bool {
    memmem::find(text, what.as_bytes()).is_some()
}

/// The first bytes without white space before them, and no more of them than are worth a look.
fn head(first_bytes: &[u8]) -> &[u8] {
    let text = first_bytes.trim_ascii_start();
    &text[..text.len().min(4096)]
}

/// A RAS answer, JSON or text, also one that a recorder got instead of it.
pub fn looks_like_ras(first_bytes: &[u8]) -> bool {
    let text = head(first_bytes);
    let first_line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    text.starts_with(b"SERVER PROTOCOL ")
        || text.starts_with(b"# EXC ")
        || first_line.starts_with(b"NCCL version ") && holds(first_line, " compiled with CUDA ")
        || text.starts_with(b"{") && holds(text, "\"cuda_runtime_version\"") && holds(text, "\"nccl_version\"")
        || [&b"OK"[..], b"ERROR: "].iter().any(|reply| text.starts_with(reply))
            && (holds(text, "\nNCCL version ") || holds(text, "\"communicators\"") || holds(text, "nknown command"))
}

/// Records of the Inspector, one a line.
pub fn looks_like_inspector(first_bytes: &[u8]) -> bool {
    let text = head(first_bytes);
    let first_line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    first_line.starts_with(b"{") && holds(first_line, "\"header\"") && holds(first_line, "\"n_ranks\"")
}

/// What `-J` of nccl-tests writes.
pub fn looks_like_nccl_tests_json(first_bytes: &[u8]) -> bool {
    let text = head(first_bytes);
    text.starts_with(b"{") && holds(text, "\"version\"") && holds(text, "\"start_time\"") && holds(text, "\"args\"")
}

/// Metrics that the Inspector writes for Prometheus.
pub fn looks_like_prom(first_bytes: &[u8]) -> bool {
    let first_line = head(first_bytes).split(|b| *b == b'\n').find(|line| !line.is_empty() && !line.starts_with(b"#"));
    first_line.and_then(|line| std::str::from_utf8(line.split(|b| *b == b'{').next()?).ok()).is_some_and(inspector::prom::is_metric)
}

/// `1.2 MiB`, as sizes are given to nccl-tests.
pub(crate) fn size_words(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() < 0.05 { format!("{value:.0} {}", units[unit]) } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
pub(crate) fn fixture(name: &str) -> String {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    std::fs::read_to_string(fixtures.join(name)).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_kind_is_known_by_its_first_bytes_and_taken_for_no_other() {
        let kinds: [fn(&[u8]) -> bool; 4] = [looks_like_ras, looks_like_inspector, looks_like_nccl_tests_json, looks_like_prom];
        let samples: &[(&str, Option<usize>)] = &[
            (&fixture("ras/hang-5.json"), Some(0)),
            (&fixture("ras/hang-5.txt"), Some(0)),
            ("\n# EXC ConnectionRefusedError(111, 'Connection refused')\n", Some(0)),
            ("NCCL version 2.24.3 compiled with CUDA 12.8\n", Some(0)),
            ("OK\nERROR: Unknown command set format json\nNCCL version 2.27.3 compiled with CUDA 12.8\n", Some(0)),
            (&fixture("reports/inspector-rank0.log"), Some(1)),
            ("{\"version\":1,\"start_time\":\"2026-01-01 00:00:00\",\"args\":[\"x\"],\"env\":[", Some(2)),
            ("\nnccl_bus_bandwidth_gbs{version=\"v5.1\"} 1.5\n", Some(3)),
            ("NCCL version 2.18.5+cuda12.1\nvm:1:2 [0] NCCL INFO x\n", None),
            ("{\"version\":1}", None),
            ("nccl_something{} 1", None),
            (&fixture("reports/nccl-tests-1G.log"), None),
            ("", None),
        ];
        for (text, kind) in samples {
            let text = text.as_bytes();
            let seen: Vec<usize> = (0..kinds.len()).filter(|k| kinds[*k](&text[..text.len().min(4096)])).collect();
            assert_eq!(seen, kind.iter().copied().collect::<Vec<_>>(), "{}", String::from_utf8_lossy(&text[..text.len().min(80)]));
        }
    }

    #[test]
    fn sizes_in_words() {
        assert_eq!([8, 4096, 1_572_864, 1 << 30].map(size_words), ["8 B", "4 KiB", "1.5 MiB", "1 GiB"]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_sniffing_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            looks_like_ras(&bytes);
            looks_like_inspector(&bytes);
            looks_like_nccl_tests_json(&bytes);
            looks_like_prom(&bytes);
        }
    }
}
