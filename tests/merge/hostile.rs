//! What somebody tries to bring in with a branch. Whatever it is, nothing of it is written.

use crate::away::three;
use crate::branch::{Writer, body, bring, drain, fates, head, under};
use crate::federation::{Federation, Node};
use crate::harness::post;
use crate::signed::{fresh_hex, payload, register, with};
use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::host::real::RealHost;
use crowny_fed::journal::line::Line;
use crowny_fed::journal::merged::Merged;
use crowny_fed::journal::record::Record;
use crowny_fed::layout::Layout;
use crowny_fed::store::disk::Disk;
use crowny_fed::store::identity::Identity;
use crowny_fed::store::ledger::{Ledger, Mend};
use crowny_fed::store::log_keys;
use ed25519_dalek::SigningKey;
use serde_json::json;

/// The journal of the anchor, which `act` must leave as it is.
#[track_caller]
fn writes_nothing<T>(federation: &Federation, act: impl FnOnce() -> T) -> T {
    let before = federation.anchor.text("nodes.ndjson");
    let done = act();
    assert_eq!(federation.anchor.text("nodes.ndjson"), before);
    done
}

/// One line, brought by gw2: what the anchor says of it.
#[track_caller]
fn refused(federation: &Federation, gw2: &Node, lines: &[u8]) -> String {
    writes_nothing(federation, || {
        fates(&bring(federation, &body(("gw2", &gw2.key()), lines))).join(", ")
    })
}

#[test]
fn a_line_that_its_author_did_not_sign_is_refused() {
    let (federation, gw2, gw3) = three();
    let stranger = SigningKey::from_bytes(&[9; 32]);
    let mut forged = Writer::after(&gw2);
    forged.say(("drain", &drain("gw3", 9, true)), ("gw3", &stranger));
    assert!(refused(&federation, &gw2, &forged.bytes).contains("signature does not hold"));
    // Signed by one member, said to be of another.
    let mut posed = Writer::after(&gw2);
    posed.say(("drain", &drain("gw3", 9, true)), ("gw3", &gw2.key()));
    assert!(refused(&federation, &gw2, &posed.bytes).contains("signature does not hold"));
    // Somebody else's line with another byte in it.
    let mut theirs = Writer::after(&gw2);
    theirs.say(("register", &register(&gw3, 5)), ("gw3", &gw3.key()));
    let changed =
        String::from_utf8(theirs.bytes).unwrap().replacen("weight\\\":1", "weight\\\":2", 1);
    assert!(refused(&federation, &gw2, changed.as_bytes()).contains("signature does not hold"));
    let nobody = Writer::after(&gw2)
        .say(("drain", &drain("gw9", 1, true)), ("gw9", &stranger))
        .bytes
        .clone();
    assert!(refused(&federation, &gw2, &nobody).contains("no key of 'gw9' is enrolled"));
}

#[test]
fn a_line_of_another_place_or_kind_is_refused() {
    let (federation, gw2, _) = three();
    let key = gw2.key();
    let one = |kind: &str, payload: &serde_json::Value| {
        let mut writer = Writer::after(&gw2);
        writer.say((kind, payload), ("gw2", &key));
        refused(&federation, &gw2, &writer.bytes)
    };
    let good = drain("gw2", 9, true);
    let foreign = with(&good, "origin", json!("other.example/fed"));
    assert!(one("drain", &foreign).contains("another federation"));
    assert!(one("drain", &with(&good, "nonce", json!("short"))).contains("nonce"));
    assert!(one("leave", &good).contains("the payload is no leave"));
    assert!(one("rotate", &good).starts_with("skipped rotate"));
    assert!(one("genesis", &good).starts_with("skipped genesis"));
    // Without an incarnation it could be any old one of the journal.
    let old = payload("gw2", json!({ "on": true }));
    assert!(one("drain", &old).contains("without incarnation"));
    let inside = with(&register(&gw2, 9), "urls", json!(["http://169.254.169.254"]));
    assert!(one("register", &inside).contains("link-local"));
    let far = register(&gw2, (1 << 33) + 5);
    assert!(one("register", &far).contains("more than"));
    // Nor does a goodbye or a drain use up what incarnations there are.
    assert!(one("drain", &drain("gw2", (1 << 33) + 5, true)).contains("more than"));
    let gone = payload("gw2", json!({ "incarnation": (1u64 << 53) - 1 }));
    assert!(one("leave", &gone).contains("more than"));
    for (kind, said) in [("leave", &gone), ("drain", &drain("gw2", (1 << 53) - 1, true))] {
        let body = crate::signed::sealed(&key, kind, &with(said, "nonce", json!(fresh_hex())));
        let answer = writes_nothing(&federation, || {
            post(federation.anchor.port, &format!("/{kind}"), &body)
        });
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains("more than"), "{}", answer.text());
    }
    let long = with(&register(&gw2, 9), "tags", json!({ "a": "x".repeat(5_000) }));
    assert!(one("register", &long).contains("limit 4096"));
    let mut unsigned = Writer::after(&gw2);
    unsigned.line("verdict", "{}".to_owned(), None);
    assert_eq!(refused(&federation, &gw2, &unsigned.bytes), "skipped verdict");
}

#[test]
fn a_bad_line_stops_none_of_the_others() {
    let (federation, gw2, gw3) = three();
    let stranger = SigningKey::from_bytes(&[9; 32]);
    let mut writer = Writer::after(&gw2);
    let twice = drain("gw2", 8, true);
    writer
        .say(("drain", &drain("gw3", 7, true)), ("gw3", &stranger))
        .line("verdict", "{}".to_owned(), None)
        .say(("drain", &twice), ("gw2", &gw2.key()))
        .say(("drain", &drain("gw3", 7, true)), ("gw3", &gw3.key()))
        .say(("drain", &twice), ("gw2", &gw2.key()));
    let size = federation.anchor.lines().len();
    let told = fates(&bring(&federation, &body(("gw2", &gw2.key()), &writer.bytes)));
    assert!(told[0].starts_with("refused") && told[1] == "skipped verdict", "{told:?}");
    assert_eq!(
        told[2..],
        [
            format!("merged {}", size + 1),
            format!("merged {}", size + 2),
            format!("merged {}", size + 1)
        ]
    );
    // The same lines again, under another head: all held, nothing written.
    let again = refused(&federation, &gw2, &writer.bytes);
    assert!(
        again.ends_with(&format!("held {}, held {}, held {}", size + 1, size + 2, size + 1)),
        "{again}"
    );
    // Wrapped anew it is the same word.
    let mut wrapped = Writer::after(&gw2);
    wrapped
        .line("verdict", "{\"n\":1}".to_owned(), None)
        .say(("drain", &twice), ("gw2", &gw2.key()));
    assert!(refused(&federation, &gw2, &wrapped.bytes).ends_with(&format!("held {}", size + 1)));
    federation.anchor.good(&["verify", "--full"]);
}

#[test]
fn a_head_must_be_of_its_lines() {
    let (federation, gw2, _) = three();
    let key = gw2.key();
    let mut writer = Writer::after(&gw2);
    writer.say(("drain", &drain("gw2", 8, true)), ("gw2", &key));
    writer.say(("drain", &drain("gw2", 9, false)), ("gw2", &key));
    let lines = writer.bytes.clone();
    let said = head("gw2", &lines);
    let bad = |head: &serde_json::Value, lines: &[u8], words: &str| {
        let answer = writes_nothing(&federation, || bring(&federation, &under(&key, head, lines)));
        assert_eq!(answer.status, 400, "{}", answer.text());
        assert!(answer.text().contains(words), "{}", answer.text());
    };
    bad(&with(&said, "count", json!(3)), &lines, "count 3 is signed");
    bad(&with(&said, "fork", json!(1)), &lines, "fork 1 is signed");
    bad(&with(&said, "head", json!("0".repeat(64))), &lines, "in line 2");
    let end = lines.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let swapped = [&lines[end..], &lines[..end]].concat();
    bad(
        &with(&head("gw2", &swapped), "fork", said["fork"].clone()),
        &swapped,
        "line 2 does not continue",
    );
    bad(&said, &lines[..lines.len() - 1], "line 2 is cut");
    bad(&said, b"", "no line after the head");
    bad(&said, b"{}\n", "line 1");
    let extra = with(&said, "more", json!(1));
    bad(&extra, &lines, "the payload is no merge");
    // None of that has burned anything.
    assert!(fates(&bring(&federation, &under(&key, &said, &lines)))[1].starts_with("merged"));
    let answer = writes_nothing(&federation, || bring(&federation, &under(&key, &said, &lines)));
    assert_eq!((answer.status, &answer.json()["error"]), (409, &json!("nonce-used")));
}

#[test]
fn a_head_meets_the_same_gate_as_every_word() {
    let (mut federation, gw2, gw3) = three();
    let key = gw2.key();
    let mut writer = Writer::after(&gw2);
    writer.say(("drain", &drain("gw2", 8, true)), ("gw2", &key));
    let lines = writer.bytes.clone();
    let said = head("gw2", &lines);
    let status = |body: &str| writes_nothing(&federation, || bring(&federation, body)).status;
    assert_eq!(status(&under(&SigningKey::from_bytes(&[9; 32]), &said, &lines)), 403);
    assert_eq!(status(&under(&key, &with(&said, "node", json!("gw9")), &lines)), 401);
    assert_eq!(status(&under(&key, &with(&said, "ts", json!(7)), &lines)), 408);
    assert_eq!(status(&under(&key, &with(&said, "origin", json!("x")), &lines)), 400);
    assert_eq!(status("{}\n"), 400);
    assert_eq!(status("no line at all"), 400);
    // A head that changes nothing burns its nonce all the same.
    let held = body(("gw3", &gw3.key()), &lines);
    assert!(fates(&bring(&federation, &held))[0].starts_with("merged"));
    let again = under(&key, &said, &lines);
    assert!(fates(&bring(&federation, &again))[0].starts_with("held"));
    federation.anchor.serve();
    assert_eq!(bring(&federation, &again).status, 409);
    // Nobody but the anchor takes one.
    assert_eq!(post(gw3.port, "/merge", &body(("gw2", &key), &lines)).status, 503);
}

#[test]
fn a_request_has_its_limits() {
    let (federation, gw2, _) = three();
    let key = gw2.key();
    let mut writer = Writer::after(&gw2);
    for incarnation in 0..1_001 {
        writer.say(("drain", &drain("gw2", 100 + incarnation, true)), ("gw2", &key));
    }
    let answer =
        writes_nothing(&federation, || bring(&federation, &body(("gw2", &key), &writer.bytes)));
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("1001 lines, at most 1000"), "{}", answer.text());
    let mut wide = Writer::after(&gw2);
    let tags: serde_json::Map<String, serde_json::Value> =
        (0..16).map(|n| (format!("t{n}"), json!("x".repeat(64)))).collect();
    let mut incarnation = 100;
    while wide.bytes.len() <= 1 << 20 {
        let told = with(&register(&gw2, incarnation), "tags", json!(tags));
        wide.say(("register", &told), ("gw2", &key));
        incarnation += 1;
    }
    assert!(incarnation < 1_000);
    let answer =
        writes_nothing(&federation, || bring(&federation, &body(("gw2", &key), &wide.bytes)));
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("at most 1048576"), "{}", answer.text());
    let huge = " ".repeat((1 << 20) + (64 << 10) + 1);
    assert_eq!(post(federation.anchor.port, "/merge", &huge).status, 413);
    // Other paths keep theirs.
    assert_eq!(post(federation.anchor.port, "/register", &" ".repeat((64 << 10) + 1)).status, 413);
}

/// What comes in by a merge is replayed by no other path.
#[test]
fn a_merged_word_cannot_be_posted_again() {
    let (federation, gw2, gw3) = three();
    let key = gw2.key();
    let (on, off) = (drain("gw2", 8, true), drain("gw2", 9, false));
    let mut writer = Writer::after(&gw2);
    writer.say(("drain", &on), ("gw2", &key)).say(("drain", &off), ("gw2", &key));
    fates(&bring(&federation, &body(("gw3", &gw3.key()), &writer.bytes)));
    let replayed = crate::signed::sealed(&key, "drain", &on);
    let answer = writes_nothing(&federation, || post(federation.anchor.port, "/drain", &replayed));
    assert_eq!(answer.status, 409);
}

/// Nobody fills the journal with what it said before, however much that is.
#[test]
fn old_branches_replayed_write_nothing() {
    let (federation, gw2, gw3) = three();
    let (key, other) = (gw2.key(), gw3.key());
    let part = |from: u64| {
        let mut writer = Writer::after(&gw2);
        for incarnation in from..from + 1_000 {
            writer.say(("drain", &drain("gw2", incarnation, true)), ("gw2", &key));
        }
        writer.bytes
    };
    let (first, second) = (part(100), part(1_100));
    let taken = fates(&bring(&federation, &body(("gw2", &key), &first)));
    assert!(taken.iter().all(|fate| fate.starts_with("merged")));
    // So much at once costs more than half of what its bringer had.
    let waits = writes_nothing(&federation, || bring(&federation, &body(("gw2", &key), &second)));
    assert_eq!((waits.status, waits.text().contains("try again in")), (429, true));
    let taken = fates(&bring(&federation, &body(("gw3", &other), &second)));
    assert!(taken.iter().all(|fate| fate.starts_with("merged")));
    for old in [&first, &second] {
        let again = refused(&federation, &gw2, old);
        assert!(again.split(", ").all(|fate| fate.starts_with("held")), "{again}");
    }
    // Its bringer is rid of them.
    std::fs::write(gw2.file("branch.ndjson"), &first).unwrap();
    gw2.good(&["merge"]);
    assert!(!gw2.file("branch.ndjson").exists());
}

/// An anchor that puts words into a member's mouth is caught by whoever syncs: a merged line is
/// checked like one that was posted.
#[test]
fn a_merged_line_that_nobody_signed_convicts_the_anchor() {
    let (mut federation, gw2, gw3) = three();
    let mut forged = Writer::after(&gw2);
    forged.say(("leave", &payload("gw2", json!({ "incarnation": 1 }))), ("gw2", &gw3.key()));
    let raw = forged.bytes.strip_suffix(b"\n").unwrap();
    let merged = Merged::of(Line::parse(raw).unwrap()).unwrap();
    federation.anchor.stop();
    append(&federation.anchor, Record::Merged(Box::new(merged)));
    federation.anchor.serve();
    let before = gw3.text("nodes.ndjson");
    gw3.fed(&["sync"]).expect(5).saying(&["not by its author"]);
    assert_eq!(gw3.text("nodes.ndjson"), before);
}

/// Appends and signs a line as an anchor that checks nothing.
fn append(anchor: &Node, record: Record) {
    let host = RealHost::new(Dialer::new(Options::default()));
    let layout = Layout::new(&anchor.dir);
    let disk = Disk { host: &host, layout: &layout };
    let identity = Identity::require(&disk).unwrap();
    let mut ledger = Ledger::open(disk, &identity, Mend::Yes).unwrap();
    let now_s = ledger.tip().ts;
    ledger.append(vec![record.into()], now_s).unwrap();
    ledger.publish(&log_keys::signing(&disk, &identity, ledger.fold(), now_s).unwrap()).unwrap();
}
