//! The real binary, real processes, real sockets: what an operator would see, one file a theme.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod demo;
mod evidence;
mod failover;
mod harness;
mod output;
mod peers;
mod probe;
mod roster;
mod tick;
mod trespass;
mod world;
