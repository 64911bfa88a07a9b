//! Published and computed vectors for keys, codes, tree, tiles, proofs and notes; where each comes from and
//! under which licence is told in `fixtures/vectors/SOURCES.md`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod fixture;
mod mac;
mod note;
mod proof;
mod properties;
mod signature;
mod tile;
mod tree;
mod witness;
mod worked_example;

#[path = "../witness/rules.rs"]
mod rules;
