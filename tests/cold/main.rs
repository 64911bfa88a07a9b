//! Cold starts: what a folder that lost, gained or forgot something does with the real binary, what
//! `doctor` says of it, and that following its word is the cure.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod alone;
mod copied;
mod findings;
mod killed;
mod restored;
mod scene;
mod snapshots;

// The federation of tests/sync, of which not everything is used here.
#[allow(dead_code)]
#[path = "../sync/federation.rs"]
mod federation;
#[allow(dead_code)]
#[path = "../sync/harness.rs"]
mod harness;
#[allow(dead_code)]
#[path = "../sync/stand_in.rs"]
mod stand_in;
