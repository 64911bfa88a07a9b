//! The worked example of 300 lines: every file in it comes out of our code byte for byte.

use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::journal::bundle::{bundle_bytes, bundles_between, parse_bundle};
use crowny_fed::journal::checkpoint::{Checkpoint, open_checkpoint, sign_checkpoint};
use crowny_fed::journal::merkle::{Hash, leaf_hash, root_of};
use crowny_fed::journal::note::NoteError;
use crowny_fed::journal::proof::{
    Consistency, ProofError, consistency_proof, inclusion_proof, verify_consistency,
};
use crowny_fed::journal::tile::{grow_tiles, tiles_between};
use crowny_fed::journal::tlog_proof::{TlogProofError, parse_tlog_proof, render_tlog_proof};
use ed25519_dalek::SigningKey;

use crate::fixture::{bytes, hex, json, text, tile_reader, vkey};

fn example_lines() -> Vec<String> {
    let lines: Vec<String> =
        text("computed-example/nodes.ndjson").lines().map(str::to_string).collect();
    assert_eq!(lines.len(), 300);
    lines
}

fn example_leaves() -> Vec<Hash> {
    example_lines().iter().map(|line| leaf_hash(line.as_bytes())).collect()
}

#[test]
fn the_worked_example_has_our_roots_tiles_and_bundles() {
    let keys = json("computed-example/keys.json");
    let (lines, leaves) = (example_lines(), example_leaves());
    assert_eq!(root_of(&leaves[..256]).to_base64(), keys["root_256_b64"]);
    assert_eq!(root_of(&leaves).to_base64(), keys["root_300_b64"]);

    let tiles = grow_tiles(0, &leaves, tile_reader("computed-example")).expect("nothing to read");
    assert_eq!(tiles.iter().map(|filled| filled.tile).collect::<Vec<_>>(), tiles_between(0, 300));
    assert_eq!(tiles.len(), 3);
    for filled in tiles {
        let path = filled.tile.path();
        assert_eq!(filled.bytes(), bytes(&format!("computed-example/{path}")), "{path}");
    }
    let bundles = bundles_between(0, 300);
    assert_eq!(bundles.len(), 2);
    for (bundle, chunk) in bundles.iter().zip(lines.chunks(256)) {
        let chunk: Vec<&[u8]> = chunk.iter().map(String::as_bytes).collect();
        let published = bytes(&format!("computed-example/{}", bundle.path()));
        assert_eq!(bundle_bytes(&chunk).as_ref(), Ok(&published), "{}", bundle.path());
        assert_eq!(parse_bundle(&published), Ok(chunk));
    }
}

#[test]
fn the_worked_example_has_our_offline_proofs() {
    let anchor = vkey(json("computed-example/keys.json")["anchor_vkey"].as_str().expect("a key"));
    let lines = example_lines();
    let checkpoint = text("computed-example/checkpoint");
    for index in [0, 42, 255, 256, 299] {
        let published = text(&format!("computed-example/proof.{index}.tlog-proof"));
        let path = inclusion_proof(index, 300, tile_reader("computed-example")).expect("a proof");
        assert_eq!(render_tlog_proof(index, &path, &checkpoint), published, "index {index}");
        let proof = parse_tlog_proof(&published).expect("a well-formed proof");
        assert_eq!((proof.index, &proof.path, proof.render()), (index, &path, published));
        let line = |at: u64| lines[at as usize].as_bytes();
        assert_eq!(proof.verify(line(index), &anchor).map(|found| found.size), Ok(300));
        let other = proof.verify(line((index + 1) % 300), &anchor);
        assert_eq!(other, Err(TlogProofError::Proof(ProofError::Root)));
    }
}

#[test]
fn another_spelling_of_an_offline_proof_is_refused() {
    let good = text("computed-example/proof.42.tlog-proof");
    let with_extra = good.replace("index 42", "extra AAE=\nindex 42");
    let proof = parse_tlog_proof(&with_extra).expect("extra bytes are allowed");
    assert_eq!((proof.extra.as_deref(), proof.render()), (Some(&[0, 1][..]), with_extra));
    for bad in [
        good.replace("@v1", "@v2"),
        good.replace("index 42", "index 042"),
        good.replace("index 42", "index +42"),
        good.replace("index 42", "index 42 "),
        good.replace("index 42", "index -1"),
        good.replace("index 42", "extra AAF=\nindex 42"),
        good.replace("index 42", "extraAAE=\nindex 42"),
        good.replace("index 42\n", ""),
        good.replace("index 42\n", "index 42\n\n"),
        good.replace("index 42\n", &format!("index 42\n{}", "AAAA\n")),
        good.replace('\n', "\r\n"),
        good.trim_end().to_string(),
        good[..good.find("\n\n").expect("a blank line")].to_string(),
    ] {
        assert!(parse_tlog_proof(&bad).is_err(), "{bad}");
    }
}

#[test]
fn the_worked_example_has_our_consistency_proofs() {
    let leaves = example_leaves();
    for (old, new) in [(200, 300), (256, 300)] {
        let request = text(&format!("computed-example/add-checkpoint.{old}-{new}.txt"));
        let path = consistency_proof(old, new, tile_reader("computed-example")).expect("a proof");
        let hashes: String = path.iter().map(|hash| hash.to_base64() + "\n").collect();
        assert!(request.starts_with(&format!("old {old}\n{hashes}\n")), "{request}");
        let old_root = root_of(&leaves[..old as usize]);
        let new_root = root_of(&leaves);
        let path = &path;
        let growth = Consistency { old_size: old, old_root, new_size: new, new_root, path };
        assert_eq!(verify_consistency(&growth), Ok(()));
    }
}

#[test]
fn the_anchor_seed_signs_the_same_bytes() {
    let keys = json("computed-example/keys.json");
    let field = |name: &str| keys[name].as_str().expect("text");
    let key = SigningKey::from_bytes(&hex(field("anchor_seed_hex")).0);
    let anchor = VerifierKey::of(field("origin"), &key).expect("a good origin");
    assert_eq!(anchor.to_string(), field("anchor_vkey"));
    let leaves = example_leaves();
    for (size, file) in [(256, "checkpoint.256"), (300, "checkpoint.300")] {
        let checkpoint = Checkpoint::new(field("origin"), size, root_of(&leaves[..size as usize]));
        let note = sign_checkpoint(&checkpoint, &key).expect("a good origin").render();
        let published = text(&format!("computed-example/{file}"));
        assert!(published.starts_with(&note), "{file}");
        let (opened, read) = open_checkpoint(&published, &anchor).expect("a signed checkpoint");
        assert_eq!((opened, read.render()), (checkpoint, published));
    }
    // The line by the witness, whose key is of another type, is passed over.
    let cosigned = text("computed-example/checkpoint");
    let (_, note) = open_checkpoint(&cosigned, &anchor).expect("a signed checkpoint");
    assert_eq!(note.signatures.len(), 2);
    let moved = cosigned.replace("\n300\n", "\n301\n");
    assert!(matches!(open_checkpoint(moved, &anchor), Err(NoteError::BadSignature { .. })));
}
