//! PURE: the bytes of the journal and the proofs over them.
//!
//! A line is bytes first and meaning second: hashes, chain and tree see stored bytes only, and a
//! line whose meaning we do not know is kept, hashed and served all the same.

pub mod branch;
pub mod bundle;
pub mod chain;
pub mod checkpoint;
pub mod cosignature;
pub mod evidence;
pub mod floor;
pub mod keyring;
pub mod line;
pub mod locator;
pub mod merged;
pub mod merkle;
pub mod nonces;
pub mod note;
pub mod pace;
pub mod page;
pub mod prefix;
pub mod proof;
pub mod record;
pub mod replay;
pub mod snapshot;
pub mod statement;
pub mod tile;
pub mod tlog_proof;
