//! The program: parse, run, exit code.

use clap::Parser;
use nccl_top::cli::arguments::Cli;
use nccl_top::cli::commands::{self, Outcome};
use nccl_top::edge::diagnostics;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = commands::run(Cli::parse()).unwrap_or_else(|err| {
        format!("nccl-top: {err:#}").lines().for_each(diagnostics::print);
        Outcome::CannotJudge
    });
    ExitCode::from(outcome as u8)
}
