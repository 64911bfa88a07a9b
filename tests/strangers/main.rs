//! People who have none of our code: they check a federation with Python, join one with bash, openssl
//! and curl, hold two checkpoints against each other, and read the table of answers.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod against;
mod answers;
mod federation;
#[path = "../process/harness.rs"]
#[allow(dead_code)] // each target uses its own part of it
mod harness;
mod python;
mod shell;
mod stand_in;
mod thieves;
