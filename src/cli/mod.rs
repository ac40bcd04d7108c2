//! The command line: arguments, the config, and a file for each subcommand.

pub mod arguments;
pub mod commands;
pub mod config;
