//! Who may say what, and what anybody can check: the gate, enrolment, keys and proofs, met with
//! forged bodies over real sockets and, where clocks and crashes matter, in a seeded world.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod accepted;
mod attacks;
mod bodies;
mod classic;
mod clocks;
mod enrol;
mod harness;
mod keys;
mod member;
mod proofs;
mod proxy;
mod replay;
mod secrets;
mod world;
