//! Writes man pages and completions, as packages have them, into a directory: `cargo run --example manual -- DIR`.

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};
use nccl_top::cli::arguments::Cli;
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let out = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "manual".into()));
    std::fs::create_dir_all(&out)?;
    let mut cli = Cli::command();
    clap_mangen::generate_to(cli.clone(), &out)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut cli, "nccl-top", &out)?;
    }
    Ok(())
}
