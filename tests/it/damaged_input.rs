//! The parsers that the fuzzer drives (`fuzz/run`), over recorded inputs that are damaged a little, the same each time, and over
//! whatever the fuzzer has once found.

use crate::support::parsers::{files_of, parsers};
use std::path::Path;

/// Some of many seeds: the fuzzer takes all.
const MOST_SEEDS: usize = 24;

/// Cut, doubled, and with a byte changed, at a place that the number says.
fn damaged(seed: &[u8], no: usize) -> Vec<Vec<u8>> {
    let at = no.wrapping_mul(0x9e37_79b9) % seed.len().max(1);
    let mut flipped = seed.to_vec();
    flipped.iter_mut().skip(at).step_by(997).for_each(|b| *b ^= 1 << (no % 8));
    vec![seed[..at].to_vec(), [&seed[at..], &seed[..at]].concat(), flipped]
}

#[test]
fn damaged_recordings_do_no_harm() {
    for parser in parsers() {
        let seeds = parser.seeds(Path::new(env!("CARGO_MANIFEST_DIR")));
        assert!(!seeds.is_empty(), "{} has no seeds", parser.name);
        let step = seeds.len().div_ceil(MOST_SEEDS);
        for (no, seed) in seeds.iter().enumerate().step_by(step) {
            (parser.run)(std::slice::from_ref(seed));
            for input in damaged(seed, no) {
                (parser.run)(&[input, seed.clone()]);
            }
        }
    }
}

#[test]
fn what_the_fuzzer_once_found_is_mended() {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/found");
    for parser in parsers() {
        let Ok(files) = std::fs::read_dir(found.join(parser.name)) else { continue };
        for file in files.flatten() {
            (parser.run)(&files_of(&std::fs::read(file.path()).unwrap()));
        }
    }
}

/// The corpus that the repository keeps.
#[test]
fn what_the_fuzzer_has_reached_does_no_harm() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    for parser in parsers() {
        let kept = parser.kept(repository);
        assert!(!kept.is_empty(), "{}: `fuzz/run seeds` keeps its corpus", parser.name);
        for input in kept {
            (parser.run)(&files_of(&input));
        }
    }
    let all = std::fs::read_dir(repository.join("fuzz/seeds")).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    assert!(all.sum::<u64>() <= 1 << 20, "the corpus is larger than a MiB");
}
