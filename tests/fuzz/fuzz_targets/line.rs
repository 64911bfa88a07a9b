//! Any bytes: a line that parses has exactly one spelling, and no payload breaks the fold.
#![no_main]

use crowny_fed::journal::line::Line;
use crowny_fed::journal::record::Record;
use crowny_fed::journal::replay::Fold;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(line) = Line::parse(bytes) else {
        return;
    };
    assert_eq!(line.render().as_bytes(), bytes);
    let mut fold = Fold::default();
    let _ = fold.check_author(&line);
    fold.apply(&line);
    if let Record::Unknown = Record::of(&line) {
        assert_eq!(fold.not_understood, 1);
    }
});
