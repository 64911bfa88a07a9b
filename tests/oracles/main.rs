//! Other people's libraries read what we write: `signed_note` the root file, `tlog_tiles` tiles,
//! bundles and checkpoint, `ct-merkle` the proofs. An error that our writer and our reader share
//! shows only here. Built behind the feature alone: `make oracles`.
//!
//! `SEED=7 make oracles` replays one run; a failing one prints its seed.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod bundles;
mod federation;
#[path = "../process/harness.rs"]
#[allow(dead_code)] // each target uses its own part of it
mod harness;
mod notes;
mod proofs;
mod stored;
mod tiles;

use crowny_fed::journal::merkle::Hash;
use crowny_fed::sim::chance::Chance;
use std::time::{SystemTime, UNIX_EPOCH};

/// A generator, and its seed on standard output.
fn chance() -> Chance {
    let seed = std::env::var("SEED").map(|seed| seed.parse().expect("SEED is a number"));
    let seed = seed.unwrap_or_else(|_| {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
    });
    println!("SEED={seed}");
    Chance::new(seed)
}

/// Our hashes in the type of `tlog_tiles`.
fn theirs(hashes: &[Hash]) -> Vec<tlog_tiles::Hash> {
    hashes.iter().map(|hash| tlog_tiles::Hash(hash.0)).collect()
}
