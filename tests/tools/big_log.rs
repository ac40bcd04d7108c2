//! Writes a large log of mixed lines, made from the recorded ones: `cargo run --example big_log -- FILE BYTES`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Mostly the chatter of all of NCCL's subsystems, as `NCCL_DEBUG_SUBSYS=ALL` prints it; then runs that say little.
const PARTS: &[(&str, u32)] = &[("all-subsystems", 2), ("hf", 3), ("healthy-big", 1), ("twohosts", 1)];

/// At least as many bytes, and whole files of the mix.
pub fn write(to: &Path, bytes: u64) -> io::Result<u64> {
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs");
    let mut round = Vec::new();
    for (name, times) in PARTS {
        let mut text = std::fs::read(logs.join(format!("{name}.log")))?;
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
        (0..*times).for_each(|_| round.extend_from_slice(&text));
    }
    let mut file = BufWriter::with_capacity(1 << 20, File::create(to)?);
    let mut written = 0;
    while written < bytes {
        file.write_all(&round)?;
        written += round.len() as u64;
    }
    file.flush()?;
    Ok(written)
}

#[allow(dead_code, clippy::print_stdout, clippy::print_stderr)]
fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wanted = match &args[..] {
        [file, bytes] => bytes.parse().ok().map(|bytes| (Path::new(file), bytes)),
        _ => None,
    };
    let Some((file, bytes)) = wanted else {
        eprintln!("usage: big_log FILE BYTES");
        return 2.into();
    };
    match write(file, bytes) {
        Ok(written) => {
            println!("{}: {written} bytes", file.display());
            0.into()
        }
        Err(err) => {
            eprintln!("{}: {err}", file.display());
            1.into()
        }
    }
}
