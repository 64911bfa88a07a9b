//! PURE: who may say what. Signed bytes and keys.

pub mod envelope;
pub mod gate;
pub mod invite;
pub mod json;
pub mod keys;
pub mod mac;
pub mod offer;
pub mod pae;
pub mod vkey;
