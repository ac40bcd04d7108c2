//! The program: parse, run, exit code.

use clap::Parser;
use nccl_top::cli::Cli;
use nccl_top::commands::{self, Outcome};
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = commands::run(Cli::parse()).unwrap_or_else(|err| {
        // Standard error may be closed; there is nobody else to tell.
        // It may quote a file's name or content, which are not ours.
        for line in format!("nccl-top: {err:#}").lines() {
            let _ = writeln!(io::stderr(), "{}", nccl_top::text::clean::clean(line));
        }
        Outcome::CannotJudge
    });
    ExitCode::from(outcome as u8)
}
