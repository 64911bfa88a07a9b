//! Witnesses that lie, babble or say nothing: none of it is kept, and none of it stops a tick.

use crate::anchor::Anchor;
use crate::rules::{Asked, Said, cosign};
use crate::server::{Mood, Witness};
use crowny_fed::auth::vkey::CosignerKey;
use crowny_fed::journal::note::{NoteSignature, SignedNote};
use ed25519_dalek::SigningKey;

/// The tick does all its work, warns with `words`, and readers see a checkpoint without a word of
/// the witness.
fn is_of_no_use(anchor: &Anchor, witness: &Witness, mood: Mood, words: &str) {
    witness.becomes(mood);
    let before = anchor.signed();
    anchor.grow(&format!("s{before}")).quietly();
    anchor.tick().ends(0, &["witness test.example/w1", words]);
    let (checkpoint, note) = anchor.shown();
    assert_eq!((checkpoint.size, note.signatures.len()), (before + 1, 1), "{words}");
    assert!(anchor.evidence().is_empty());
}

fn body(asked: &Asked) -> String {
    SignedNote::parse(&asked.note).unwrap().body
}

/// A liar that makes one line out of what it is asked.
fn line(make: impl Fn(&Asked) -> NoteSignature + Send + 'static) -> Mood {
    Mood::Lying(Box::new(move |asked| Said::new(200, make(asked).render())))
}

#[test]
fn a_cosignature_that_does_not_hold_is_not_kept() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    let (key, vkey) = witness.rules(|rules| (rules.key.clone(), rules.vkey()));

    let own = (vkey.clone(), key.clone());
    let other_body = line(move |_| cosign((&own.0, &own.1), "test.example/fed\n1\nx\n", 7));
    is_of_no_use(&anchor, &witness, other_body, "does not hold");

    let own = (vkey.clone(), key.clone());
    let turned_time = line(move |asked| {
        let mut line = cosign((&own.0, &own.1), &body(asked), 1_700_000_000);
        line.bytes[..8].reverse();
        line
    });
    is_of_no_use(&anchor, &witness, turned_time, "of no use");

    let own = (vkey.clone(), key.clone());
    let beyond = line(move |asked| cosign((&own.0, &own.1), &body(asked), 1 << 63));
    is_of_no_use(&anchor, &witness, beyond, "at most 2^63-1");

    let thief = SigningKey::from_bytes(&[99; 32]);
    let claimed = vkey.clone();
    let wrong_key = line(move |asked| {
        let honest = CosignerKey::of("test.example/w1", &thief).unwrap();
        let line = cosign((&honest, &thief), &body(asked), 7);
        NoteSignature { id: claimed.id(), ..line }
    });
    is_of_no_use(&anchor, &witness, wrong_key, "does not hold");

    let stranger = SigningKey::from_bytes(&[98; 32]);
    let unknown = line(move |asked| {
        cosign((&CosignerKey::of("stranger", &stranger).unwrap(), &stranger), &body(asked), 7)
    });
    is_of_no_use(&anchor, &witness, unknown, "no cosignature by its key");

    // The log's own key signs notes; its name in a witness's line must not get in.
    let log = anchor.vkey();
    let as_log = line(move |_| NoteSignature {
        name: log.name().to_owned(),
        id: log.id(),
        bytes: vec![1; 64],
    });
    is_of_no_use(&anchor, &witness, as_log, "no cosignature by its key");
    anchor.verifies();
}

#[test]
fn answers_that_are_none_are_warnings() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    let bad: [(u16, Vec<u8>, &str); 13] = [
        (200, b"".to_vec(), "of no use"),
        (200, b"<html>hello</html>\n".to_vec(), "of no use"),
        (200, b"\xff\xfe\n".to_vec(), "of no use"),
        (200, vec![b'x'; 1 << 20], "cut short or too long"),
        (409, b"soon\n".to_vec(), "expected a size"),
        (409, b"03\n".to_vec(), "expected a size"),
        (409, b"".to_vec(), "expected a size"),
        (400, b"".to_vec(), "(400)"),
        (403, b"".to_vec(), "(403): it has to be told this log's key"),
        (404, b"".to_vec(), "does not know this log (404)"),
        (422, b"".to_vec(), "(422)"),
        (500, b"".to_vec(), "status 500"),
        (302, b"".to_vec(), "status 302"),
    ];
    for (status, body, words) in bad {
        is_of_no_use(&anchor, &witness, Mood::Stubborn(Said::new(status, body)), words);
        assert_eq!(witness.asked().len(), 1, "{words}: nothing is tried again");
    }
    anchor.verifies();
}

/// A spoilt line in the root file would make every reader that knows the witness refuse the whole.
#[test]
fn a_spoilt_line_in_the_root_file_is_replaced() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    anchor.tick().quietly();
    let root = anchor.text("federation-root.txt");
    let mut note = SignedNote::parse(&root).unwrap();
    note.signatures[1].bytes[20] ^= 1;
    std::fs::write(anchor.path("federation-root.txt"), note.render()).unwrap();
    witness.asked();
    anchor.tick().quietly();
    assert_eq!(anchor.text("federation-root.txt"), root);
    assert_eq!(witness.asked(), [], "its line is kept twice");
    note.signatures[0].bytes[20] ^= 1;
    std::fs::write(anchor.path("federation-root.txt"), note.render()).unwrap();
    anchor.tick().quietly();
    assert_eq!(anchor.text("federation-root.txt"), root);
}

#[test]
fn a_silent_witness_costs_a_warning_and_takes_nothing_from_the_others() {
    let anchor = Anchor::found();
    let (silent, honest) = (anchor.witness(), Witness::start("w2", 12, anchor.vkey()));
    anchor.settings(&(silent.config("") + &honest.config("")));
    silent.becomes(Mood::Silent);
    anchor.grow("a").quietly();
    anchor.tick().ends(0, &["witness test.example/w1: no answer (timeout)"]);
    assert_eq!(anchor.cosigned_at(&silent), None);
    assert!(anchor.cosigned_at(&honest).is_some());
    anchor.verifies();
}

#[test]
fn a_witness_that_is_not_there_is_a_warning() {
    let anchor = Anchor::found();
    let witness = anchor.witness();
    anchor.settings(&witness.config(""));
    drop(witness);
    anchor.tick().ends(0, &["witness test.example/w1: no answer (refused)"]);
    anchor.verifies();
}
