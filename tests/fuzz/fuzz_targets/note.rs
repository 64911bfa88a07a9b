//! Any text: a note, checkpoint or key that parses prints as it was read.
#![no_main]

use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::journal::checkpoint::Checkpoint;
use crowny_fed::journal::note::SignedNote;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(note) = SignedNote::parse(text) {
        assert_eq!(note.render(), text);
        assert!(note.verify(&[]).is_err());
    }
    if let Ok(checkpoint) = Checkpoint::parse(text) {
        assert_eq!(checkpoint.render(), text);
    }
    if let Ok(vkey) = VerifierKey::parse(text) {
        assert_eq!(vkey.to_string(), text);
    }
});
