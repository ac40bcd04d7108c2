//! The program: parse, run, exit code.

use clap::Parser;
use nccl_top::base::mask::shown;
use nccl_top::cli::arguments::Cli;
use nccl_top::cli::commands::{self, Outcome};
use nccl_top::edge::diagnostics;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|err| refuse(&err));
    let outcome = commands::run(cli).unwrap_or_else(|err| {
        format!("nccl-top: {err:#}").lines().for_each(diagnostics::print);
        Outcome::CannotJudge
    });
    ExitCode::from(outcome as u8)
}

/// Help, or what is wrong with the arguments. A shell puts names of files among them, which are not ours.
fn refuse(wrong: &clap::Error) -> ! {
    let text = wrong.render().to_string();
    if !wrong.use_stderr() || text.lines().all(|line| shown(line) == line) {
        wrong.exit();
    }
    text.lines().for_each(diagnostics::print);
    std::process::exit(wrong.exit_code())
}
