//! The real binary as anchor and members: what a member fetches, from whom, what it believes, and
//! what a lying, cut or dead server can do to it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod federation;
mod forks;
mod harness;
mod joining;
mod lies;
mod locks;
mod mended;
mod namespaces;
mod observing;
mod pages;
mod peers;
mod stand_in;
mod trust;
mod wire;
