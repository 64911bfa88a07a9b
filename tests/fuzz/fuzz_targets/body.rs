//! Any request body or file of other people's making: an error or a value, never a panic.
#![no_main]

use crowny_fed::auth::{envelope, invite::Invite, json};
use crowny_fed::journal::record::Record;
use crowny_fed::protocol::registration::{check_target, parse_url};
use crowny_fed::wire::{psv, routes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(envelope) = envelope::parse(bytes) {
        let again = envelope::parse(envelope.render().as_bytes()).expect("what we print we read");
        assert_eq!(again, envelope);
        let _ = envelope.agrees("fed.example.org/crowny");
        for kind in ["register", "leave", "drain", "rotate"] {
            let _ = Record::read(kind, &envelope.payload);
        }
    }
    if let Ok(roster) = psv::parse_roster(bytes) {
        assert!(roster.rows.iter().all(|listed| listed.row.address().is_ok()));
    }
    if let Ok(rows) = psv::parse_status(bytes) {
        let again = psv::parse_status(psv::render_status(&rows).as_bytes());
        assert_eq!(again.expect("what we print we read").len(), rows.len());
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let _ = (json::check(text), Invite::parse(text), routes::split(text));
    if check_target(text, false).is_ok() {
        assert!(parse_url(text).is_ok());
    }
});
