//! PURE: who may say what. Signed bytes and keys.

pub mod keys;
pub mod pae;
pub mod vkey;
