//! Reading the vectors' files; a file that is missing or malformed fails the test.

use std::fs;
use std::path::{Path, PathBuf};

use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::journal::merkle::Hash;
use crowny_fed::journal::proof::ProofError;
use crowny_fed::journal::tile::Tile;
use serde_json::Value;

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors").join(name)
}

pub fn bytes(name: &str) -> Vec<u8> {
    fs::read(fixture(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn text(name: &str) -> String {
    String::from_utf8(bytes(name)).expect("utf-8")
}

pub fn json(name: &str) -> Value {
    serde_json::from_slice(&bytes(name)).expect("json")
}

pub fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|entry| entry.as_str().expect("text")).collect()
}

pub fn hex(text: &str) -> Hash {
    Hash::parse_hex(text).expect("hex")
}

pub fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(byte).collect()
}

pub fn base64_hash(value: &Value) -> Option<Hash> {
    Hash::parse_base64(value.as_str().expect("text")).ok()
}

pub fn vkey(text: &str) -> VerifierKey {
    VerifierKey::parse(text).expect("a verifier key")
}

/// Reads tiles where a log published them.
pub fn tile_reader(folder: &str) -> impl FnMut(Tile) -> Result<Vec<Hash>, ProofError> {
    move |tile| Ok(tile.parse(&bytes(&format!("{folder}/{}", tile.path())))?)
}
