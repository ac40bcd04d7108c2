//! Feeds a parser with inputs that libFuzzer makes of recorded ones, guided by what they reach, and watches for panics, for time and
//! for memory beyond what an input of its size may take. `fuzz/run PARSER [TIME]` builds and runs it.

#![no_main]

mod bounds;
mod change;
#[path = "../../tests/it/support/parsers.rs"]
mod parsers;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use parsers::{PARSERS, Parser};
use std::path::Path;
use std::sync::LazyLock;

/// Stands between the files of one input.
const NEXT_FILE: &[u8] = b"\xff\0NEXT\0\xff";

static PARSER: LazyLock<&Parser> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_PARSER").unwrap_or_default();
    let names: Vec<&str> = PARSERS.iter().map(|p| p.name).collect();
    PARSERS.iter().find(|p| p.name == wanted).unwrap_or_else(|| panic!("FUZZ_PARSER is one of {names:?}"))
});

/// Writes the recorded inputs to the directory that `FUZZ_SEEDS` names: each alone, and some that belong together as one.
fn write_seeds() {
    let Some(dir) = std::env::var_os("FUZZ_SEEDS") else { return };
    let seeds = PARSER.seeds(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let together = seeds.chunks(4).map(|some| some.join(NEXT_FILE));
    for (i, seed) in seeds.iter().cloned().chain(together).enumerate() {
        // What was read once, like the catalogue, is no input's fault.
        (PARSER.run)(&files(&seed));
        std::fs::write(Path::new(&dir).join(format!("seed-{i}")), seed).expect("a seed");
    }
}

fn files(input: &[u8]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = input;
    while let Some(at) = rest.windows(NEXT_FILE.len()).position(|w| w == NEXT_FILE) {
        out.push(rest[..at].to_vec());
        rest = &rest[at + NEXT_FILE.len()..];
    }
    out.push(rest.to_vec());
    out
}

fuzz_target!(init: write_seeds(), |input: &[u8]| {
    bounds::check(*PARSER, &files(input));
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match change::structured(&data[..size], max_size, seed) {
        Some(changed) => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        None => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
});
