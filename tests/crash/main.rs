//! What a crash, a full disk, a cut file or a second process may do to the files of a member, and
//! what the next plain tick makes of it. Only the real binary is driven; the disk is looked at
//! from outside, as an operator would.
//!
//! Long forms of the sweeps run with `CROWNY_FED_FULL` set.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod derived;
mod disk;
mod hands_off;
mod harness;
mod locks;
mod peers;
mod power;
mod rows;
mod scene;
mod secrets;
mod sender;
mod serving;
mod short;
mod shortness;
mod succession;
mod sweep;
mod torn;
mod trace;
mod verbs;
mod word;
