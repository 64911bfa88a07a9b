//! Any claim: the verifiers end without a panic, and a proof that holds for one leaf holds for no
//! other.
#![no_main]

use crowny_fed::journal::bundle::{bundle_bytes, parse_bundle};
use crowny_fed::journal::merkle::{Hash, leaf_hash};
use crowny_fed::journal::proof::{Consistency, Inclusion, verify_consistency, verify_inclusion};
use crowny_fed::journal::tile::Tile;
use crowny_fed::journal::tlog_proof::parse_tlog_proof;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, u64, &[u8])| {
    let (first, second, bytes) = input;
    let hashes: Vec<Hash> = bytes
        .chunks_exact(32)
        .map(|chunk| Hash(chunk.try_into().expect("chunks are 32 bytes long")))
        .collect();
    if let [one, two, path @ ..] = hashes.as_slice() {
        let claim = Inclusion { leaf: *one, index: first, size: second, path, root: *two };
        let other = Inclusion { leaf: leaf_hash(b"another"), ..claim };
        assert!(verify_inclusion(&claim).is_err() || verify_inclusion(&other).is_err());
        let _ = verify_consistency(&Consistency {
            old_size: first,
            old_root: *one,
            new_size: second,
            new_root: *two,
            path,
        });
    }
    if let Ok(lines) = parse_bundle(bytes) {
        assert_eq!(bundle_bytes(&lines).expect("it was one"), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        if let Ok(proof) = parse_tlog_proof(text) {
            assert_eq!(proof.render(), text);
        }
        if let Some(tile) = Tile::parse_path(text) {
            assert_eq!(tile.path(), text);
        }
    }
});
