//! `simulate` as people run it: the same seed is the same run, the baseline is the SWIM of its
//! paper, and what makes no sense is refused in a line.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod baseline;
mod flags;
mod ours;

use serde_json::Value;
use std::process::{Command, Output};

/// Runs `simulate` with flags as typed.
fn simulate(flags: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_crowny-fed"))
        .arg("simulate")
        .args(flags.split_whitespace())
        .output()
        .unwrap()
}

/// The object that `--json` prints.
fn told(flags: &str) -> Value {
    let ran = simulate(&format!("{flags} --json"));
    assert!(ran.status.success(), "{flags}: {}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}
