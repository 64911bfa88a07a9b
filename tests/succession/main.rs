//! Another node serialises: handed over by the anchor, or recovered by the operator's offline key
//! when the anchor is lost. Real processes on loopback.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail
#![allow(dead_code)] // the harness is the one of tests/sync, not all of it is used here

#[path = "../sync/federation.rs"]
mod federation;
mod handover;
#[path = "../sync/harness.rs"]
mod harness;
mod recover;
mod rivals;
#[path = "../sync/stand_in.rs"]
mod stand_in;
