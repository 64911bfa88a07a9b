//! `handover`: offer, line, take-over.

use crate::federation::{Federation, Node};
use crate::harness::{Ran, fed};

/// The offer of `next`, taken by the anchor.
fn hand_over(fed_: &Federation, next: &Node) -> Ran {
    let offer = next.good(&["handover", "--offer"]);
    Ran::of(fed(&fed_.anchor.dir, &["handover", "-"]), &offer)
}

/// The file as it reads when its wait is over.
fn ten_minutes_pass(anchor: &Node) {
    std::fs::write(anchor.file("used-nonces.log"), "# crowny-fed nonces since=1 pruned=1\n")
        .unwrap();
}

#[test]
fn the_anchor_hands_over_and_everybody_follows() {
    let mut fed = Federation::found();
    let (mut n1, mut n2) = (fed.join("n1"), fed.join("n2"));
    n1.serve();
    n2.serve();
    n2.good(&["tick"]);
    n1.good(&["tick"]);
    let ran = hand_over(&fed, &n1).expect(0);
    assert!(ran.out.contains("n1 serialises in epoch 1"), "{ran:?}");
    let line = fed.anchor.size() - 1;

    // Between the two nobody writes.
    fed.anchor.fed(&["grant", "x", "n2"]).expect(78).saying(&["not the anchor"]);
    assert!(n1.fed(&["tick"]).expect(0).err.contains("serialises from now on"));
    assert_eq!(n1.size(), line + 1, "taking over writes no line");
    n1.good(&["grant", "x", "n2"]);
    assert_eq!(n1.size(), line + 2);

    // The old anchor is a node like any other, and so is who knew only it.
    fed.anchor.good(&["tick"]);
    fed.anchor.is_a_copy_of(&n1);
    n2.good(&["tick"]);
    n2.is_a_copy_of(&n1);
    // What the anchor before answered could be repeated for a while: a word is kept and merged.
    let kept = n2.good(&["drain"]);
    assert!(kept.contains("signed writes wait") && kept.contains("branch.ndjson"), "{kept}");
    n2.good(&["tick"]);
    assert_eq!(n1.size(), line + 4, "a merge, and the word");
    assert!(!n2.file("branch.ndjson").exists());
    ten_minutes_pass(&n1);
    n2.good(&["drain", "--off"]);
    assert_eq!(n1.size(), line + 5, "words go to the new anchor");
    n2.good(&["tick"]);
    assert_eq!(n2.map(), n1.map());
    fed.anchor.stop();
    n1.good(&["tick"]);
    assert!(n1.good(&["root", "--json"]).contains("\"size\""));
}

#[test]
fn a_node_that_knows_only_the_key_before_catches_up_over_several_epochs() {
    let fed = Federation::found();
    let (mut n1, mut n2, away) = (fed.join("n1"), fed.join("n2"), fed.join("n3"));
    n1.serve();
    n2.serve();
    away.good(&["tick"]);
    n1.good(&["tick"]);
    hand_over(&fed, &n1).expect(0);
    n1.good(&["tick"]);
    // More lines than one page holds stand before the line that names the next key.
    crate::federation::grow(&n1.dir, 3_000);
    n2.good(&["tick"]);
    let offer = n2.good(&["handover", "--offer"]);
    Ran::of(crate::harness::fed(&n1.dir, &["handover", "-"]), &offer).expect(0);
    n2.good(&["tick"]);
    n2.good(&["grant", "y", "n1"]);
    away.good(&["tick"]);
    away.good(&["tick"]);
    away.is_a_copy_of(&n2);
    n1.good(&["tick"]);
    n1.is_a_copy_of(&n2);
}

#[test]
fn an_offer_is_worth_nothing_elsewhere_later_or_changed() {
    let mut fed_ = Federation::found();
    let (n1, n2) = (fed_.join("n1"), fed_.join("n2"));
    fed_.anchor.serve();
    n1.good(&["tick"]);
    n2.good(&["tick"]);
    let offer = n1.good(&["handover", "--offer"]);
    assert_eq!(offer, {
        let again = n1.good(&["handover", "--offer"]);
        assert_eq!(again.len(), offer.len());
        offer.clone()
    });
    let size = fed_.anchor.size();
    let take = |text: &str| Ran::of(fed(&fed_.anchor.dir, &["handover", "-"]), text);
    take("cfedh1nothing").expect(2).saying(&["the offer"]);
    take("").expect(2).saying(&["cfedh1"]);
    let other = Federation::named("other.example/fed");
    Ran::of(fed(&other.anchor.dir, &["handover", "-"]), &offer)
        .expect(2)
        .saying(&["another federation"]);
    // Changed in the middle of the payload.
    let mut bytes = offer.trim_end().as_bytes().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(bytes).unwrap();
    assert_ne!(take(&changed).code, Some(0));
    n2.fed(&["handover", "-"]).expect(2);
    fed_.anchor.fed(&["handover", "--offer"]).expect(1).saying(&["anchor already"]);
    assert_eq!(fed_.anchor.size(), size, "nothing was written");
    fed_.anchor.good(&["rotate-key", "--log"]);
    take(&offer).expect(3).saying(&["epoch 1, expected 2"]);
}

/// From that line on nobody else writes, so whoever takes over has to be there.
#[test]
fn nobody_hands_over_to_who_is_not_there() {
    let mut fed_ = Federation::found();
    let (mut n1, mut n2) = (fed_.join("n1"), fed_.join("n2"));
    fed_.anchor.serve();
    n1.good(&["tick"]);
    let offer = n1.good(&["handover", "--offer"]);
    let take = |text: &str| Ran::of(fed(&fed_.anchor.dir, &["handover", "-"]), text);
    let size = fed_.anchor.size();
    take(&offer).expect(3).saying(&["n1", "does not answer", "serve"]);
    n2.serve();
    n2.good(&["tick"]);
    let gone = n2.good(&["handover", "--offer"]);
    n2.good(&["leave"]);
    take(&gone).expect(3).saying(&["'n2' is left"]);
    assert_eq!(fed_.anchor.size(), size + 1, "but for the goodbye nothing was written");
    n1.serve();
    take(&offer).expect(0);
}
