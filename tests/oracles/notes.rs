//! `signed_note` and the checkpoint of `tlog_tiles` against the root file.

use crate::federation::{Federation, ORIGIN};
use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::journal::checkpoint::{Checkpoint, open_checkpoint, sign_checkpoint};
use crowny_fed::journal::merkle::leaf_hash;
use ed25519_dalek::SigningKey;
use signed_note::{Note, NoteError, StandardSigner, StandardVerifier, VerifierList};

/// How many signatures `signed_note` verifies under the key, and how many it passes over.
fn verified(note: &[u8], vkey: &str) -> Result<(usize, usize), NoteError> {
    let key = StandardVerifier::new(vkey).expect("a verifier key");
    let known = VerifierList::new(vec![Box::new(key)]);
    Note::from_bytes(note)?.verify(&known).map(|(good, other)| (good.len(), other.len()))
}

/// The same for us: whether the note is this log's checkpoint.
fn opens(note: &[u8], vkey: &str) -> bool {
    open_checkpoint(note, &VerifierKey::parse(vkey).unwrap()).is_ok()
}

#[test]
fn the_root_file_is_a_note_and_a_checkpoint() {
    let federation = Federation::found();
    let (root, said) = (federation.file("federation-root.txt"), federation.root());
    let vkey = said["vkey"].as_str().unwrap();
    assert_eq!(verified(&root, vkey).unwrap(), (1, 0));
    let note = Note::from_bytes(&root).unwrap();
    assert_eq!(note.to_bytes(), root);

    let checkpoint = tlog_tiles::Checkpoint::from_bytes(note.text()).unwrap();
    assert_eq!(checkpoint.to_bytes(), note.text());
    assert_eq!((checkpoint.origin(), checkpoint.extension()), (ORIGIN, ""));
    assert_eq!(checkpoint.size(), said["size"].as_u64().unwrap());
    let hash: crowny_fed::journal::merkle::Hash =
        serde_json::from_value(said["root"].clone()).unwrap();
    assert_eq!(checkpoint.hash().0, hash.0);

    let stranger = VerifierKey::of(ORIGIN, &SigningKey::from_bytes(&[7; 32])).unwrap().to_string();
    assert!(matches!(verified(&root, &stranger), Err(NoteError::UnverifiedNote)));
}

#[test]
fn any_changed_bit_or_missing_end_is_refused_by_both() {
    let federation = Federation::found();
    let (root, vkey) = (federation.file("federation-root.txt"), federation.vkey());
    assert!(verified(&root, &vkey).is_ok() && opens(&root, &vkey));
    for bit in 0..root.len() * 8 {
        let mut changed = root.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let verdicts = (verified(&changed, &vkey).is_ok(), opens(&changed, &vkey));
        assert_eq!(verdicts, (false, false), "bit {bit}");
    }
    for end in 0..root.len() {
        let verdicts = (verified(&root[..end], &vkey).is_ok(), opens(&root[..end], &vkey));
        assert_eq!(verdicts, (false, false), "the first {end} bytes");
    }
}

#[test]
fn each_key_of_a_rotated_log_verifies() {
    let federation = Federation::found();
    let old = federation.vkey();
    federation.good(&["rotate-key", "--log"]);
    let (root, new) = (federation.file("federation-root.txt"), federation.vkey());
    assert_ne!(old, new);
    for vkey in [old, new] {
        assert_eq!(verified(&root, &vkey).unwrap(), (1, 1), "{vkey}");
    }
}

/// Ed25519 leaves no freedom: with one seed both sign the very same bytes.
#[test]
fn one_seed_signs_the_same_note() {
    use base64::Engine as _;
    let seed = [9; 32];
    let key = SigningKey::from_bytes(&seed);
    let checkpoint = Checkpoint::new(ORIGIN, 5, leaf_hash(b"line"));
    let ours = sign_checkpoint(&checkpoint, &key).unwrap().render();

    let id = VerifierKey::of(ORIGIN, &key).unwrap().id();
    let encoded = base64::engine::general_purpose::STANDARD.encode([&[1], &seed[..]].concat());
    let signer = StandardSigner::new(&format!("PRIVATE+KEY+{ORIGIN}+{id}+{encoded}")).unwrap();
    let mut theirs = Note::new(checkpoint.render().as_bytes(), &[]).unwrap();
    theirs.add_sigs(&[&signer]).unwrap();
    assert_eq!(theirs.to_bytes(), ours.as_bytes());
}
