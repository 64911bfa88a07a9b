//! An anchor and its witnesses: the real binary, and witnesses that are servers of this test.
//!
//! What a witness does well, badly or not at all, and what becomes of the root file, the journal and
//! the exit code; tick and request alike.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod anchor;
mod asked;
mod conflicts;
mod lies;
mod required;
mod rules;
mod server;
mod settings;
mod together;
