//! PURE: who may say what. Signed bytes and keys.

pub mod json;
pub mod keys;
pub mod mac;
pub mod pae;
pub mod vkey;
