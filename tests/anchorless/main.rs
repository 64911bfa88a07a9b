//! While no anchor answers: what members say and judge by themselves, and that nothing of it is left
//! when it is back. Real processes on loopback.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail
#![allow(dead_code)] // the harness is the one of tests/sync, not all of it is used here

mod agreeing;
#[path = "../sync/federation.rs"]
mod federation;
#[path = "../sync/harness.rs"]
mod harness;
#[path = "../sync/stand_in.rs"]
mod stand_in;
