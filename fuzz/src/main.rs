//! Feeds a parser with inputs that libFuzzer makes of recorded ones, guided by what they reach, and watches for panics, for time and
//! for memory beyond what an input of its size may take. `fuzz/run PARSER [TIME]` builds and runs it.

#![no_main]

mod bounds;
mod change;
#[path = "../../tests/it/support/parsers.rs"]
mod parsers;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use parsers::{NEXT_FILE, Parser, files_of, parsers};
use std::path::Path;
use std::sync::LazyLock;

/// What the repository keeps of the corpus of each parser.
const KEPT_BYTES: usize = 40 << 10;

static PARSER: LazyLock<&Parser> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_PARSER").unwrap_or_default();
    let names: Vec<&str> = parsers().map(|p| p.name).collect();
    parsers().find(|p| p.name == wanted).unwrap_or_else(|| panic!("FUZZ_PARSER is one of {names:?}"))
});

/// Prints the names of the parsers where `FUZZ_LIST` asks for them. Puts the corpus that `FUZZ_KEEP` names into the repository. Writes the recorded inputs to the directory that `FUZZ_SEEDS` names: each alone, and some that belong together as one.
fn write_seeds() {
    if std::env::var_os("FUZZ_LIST").is_some() {
        parsers().for_each(|p| println!("{}", p.name));
        std::process::exit(0);
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if let Some(dir) = std::env::var_os("FUZZ_KEEP") {
        let inputs = std::fs::read_dir(dir).expect("a corpus").map(|file| std::fs::read(file.expect("a file").path()).expect("an input"));
        let kept = PARSER.keep(&repository, inputs.collect(), KEPT_BYTES).expect("a file");
        println!("{}: {kept} inputs", PARSER.name);
        std::process::exit(0);
    }
    let Some(dir) = std::env::var_os("FUZZ_SEEDS") else { return };
    let seeds = PARSER.seeds(&repository);
    let together = seeds.chunks(4).map(|some| some.join(NEXT_FILE));
    for (i, seed) in seeds.iter().cloned().chain(together).chain(PARSER.kept(&repository)).enumerate() {
        // What was read once, like the catalogue, is no input's fault.
        (PARSER.run)(&files_of(&seed));
        std::fs::write(Path::new(&dir).join(format!("seed-{i}")), seed).expect("a seed");
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| {
    bounds::check(*PARSER, &files_of(input));
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
