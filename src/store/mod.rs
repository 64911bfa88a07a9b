//! SHELL: the journal and its derived files on disk, through [`crate::host::Host`] alone.
//!
//! `nodes.ndjson` is the truth; the floor says how much of it was signed; everything else here is
//! derived and rebuilt by the everyday code.

pub mod accepted_clock;
pub mod audit;
mod base;
pub mod branch;
pub mod cosigned;
pub mod cut;
pub mod decisions;
pub mod disk;
pub mod draft;
pub mod floor;
pub mod identity;
pub mod index;
pub mod invites;
pub mod ledger;
pub mod log_keys;
pub mod pages;
pub mod rebuild;
pub mod root;
pub mod scan;
pub mod shared_keys;
pub mod tree;
pub mod used_nonces;
pub mod view;
