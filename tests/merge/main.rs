//! The real binary with its anchor away: what members say meanwhile is kept, comes home in any order,
//! and is the same everywhere afterwards; and what others try to bring in with it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod away;
mod branch;
mod conflicts;
#[allow(dead_code)] // shared with the tests of members, which use more of it
#[path = "../members/federation.rs"]
mod federation;
#[allow(dead_code)] // the same
#[path = "../members/harness.rs"]
mod harness;
mod hostile;
mod kept;
mod lost;
#[allow(dead_code)] // the same
#[path = "../members/signed.rs"]
mod signed;
#[allow(dead_code)] // the same
#[path = "../members/stand_in.rs"]
mod stand_in;
mod taken;
