//! Parse, call, exit code.

use clap::Parser;
use crowny_fed::cli::Cli;
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(crowny_fed::command::run(&Cli::parse()))
}
