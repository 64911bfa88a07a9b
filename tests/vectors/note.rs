//! Signed notes and verifier keys of the specification and of Go's reader.

use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::journal::checkpoint::{Checkpoint, open_checkpoint};
use crowny_fed::journal::note::{NoteError, SignedNote};
use serde_json::Value;

use crate::fixture::{json, strings, unhex, vkey};

#[test]
fn the_specification_and_the_go_checksum_database_verify() {
    let examples = json("c2sp-spec-examples/examples.json");
    let go = json("golang-mod-sumdb/note.json");
    for example in [&examples["signed_note"], &go["go_sum_checkpoint"]] {
        let key = vkey(example["vkey"].as_str().expect("a key"));
        let published = example["note"].as_str().expect("a note");
        let note = SignedNote::parse(published).expect("a well-formed note");
        assert_eq!(note.render(), published);
        assert_eq!(note.verify(std::slice::from_ref(&key)), Ok(vec![&key]));
    }
    // Its origin has spaces and is not the name of its key: fine to read, not to follow.
    let example = &go["go_sum_checkpoint"];
    let key = vkey(example["vkey"].as_str().expect("a key"));
    let opened = open_checkpoint(example["note"].as_str().expect("a note"), &key);
    assert!(matches!(opened, Err(NoteError::Origin { .. })));
    let cosigned = &examples["checkpoint_with_cosignature_syntax_only"];
    let note = SignedNote::parse(cosigned.as_str().expect("a note")).expect("a well-formed note");
    let checkpoint = Checkpoint::parse(&note.body).expect("a checkpoint");
    assert_eq!((checkpoint.size, note.signatures.len()), (20_852_163, 2));
}

#[test]
fn go_notes_good_malformed_and_unverified() {
    let go = json("golang-mod-sumdb/note.json");
    let parse = |note: &Value| SignedNote::parse(note.as_str().expect("a note"));
    for case in go["good"].as_array().expect("cases") {
        let known: Vec<VerifierKey> = strings(&case["known"]).into_iter().map(vkey).collect();
        let note = parse(&case["note"]).expect("a well-formed note");
        let verified = note.verify(&known).expect("good signatures");
        let names: Vec<&str> = verified.iter().map(|key| key.name()).collect();
        assert_eq!(names, strings(&case["verified"]));
        let mut altered = note.clone();
        altered.body.insert(0, ' ');
        assert!(matches!(altered.verify(&known), Err(NoteError::BadSignature { .. })));
    }
    for case in go["unverified"].as_array().expect("cases") {
        let note = parse(&case["note"]).expect("a well-formed note");
        assert_eq!(note.verify(&[]), Err(NoteError::Unverified));
    }
    let malformed = strings(&go["malformed"]);
    assert_eq!(malformed.len(), 6);
    for note in malformed {
        assert!(SignedNote::parse(note).is_err(), "{note}");
    }
    let not_utf8 = strings(&go["malformed_bytes_hex"]);
    assert_eq!(not_utf8.len(), 1);
    assert_eq!(SignedNote::parse(unhex(not_utf8[0])), Err(NoteError::NotUtf8));
    let many = &go["too_many_signatures"];
    let line = many["signature_line"].as_str().expect("a line");
    let lines = line.repeat(many["repeat"].as_u64().expect("a count") as usize);
    assert_eq!(SignedNote::parse(format!("x\n\n{lines}")), Err(NoteError::TooManySignatures));
}

#[test]
fn go_verifier_keys_good_and_bad() {
    let go = json("golang-mod-sumdb/note.json");
    for good in strings(&go["vkeys"]) {
        assert_eq!(vkey(good).to_string(), good);
    }
    let bad = strings(&go["bad_vkeys"]);
    assert_eq!(bad.len(), 2);
    for key in bad {
        assert!(VerifierKey::parse(key).is_err(), "{key}");
    }
}
