//! An anchor that was restored from an old backup (O-38): what it refuses, what `doctor` says, and
//! how it goes on.

use crate::federation::{Federation, Node, append, binding};
use crate::scene::federation;
use serde_json::json;

/// A federation of which the anchor's folder is replaced by a copy of `lost` lines ago, rebooted.
fn restored(lost: u64) -> (Federation, Vec<String>) {
    let mut fed = federation(60);
    let mut old = fed.anchor.copy_as("backup");
    fed.grow(lost);
    for node in &fed.others {
        node.fed(&["sync"]).quiet();
    }
    let lines = fed.anchor.lines();
    old.port = fed.anchor.port;
    old.as_of_another_boot();
    fed.anchor.stop();
    fed.anchor = old;
    fed.anchor.serve();
    (fed, lines)
}

/// Whatever is asked of it, it signs nothing.
#[track_caller]
fn signs_nothing(fed: &Fed<'_>, lines: &[String]) {
    let map = fed.anchor.stamp("federated-routes.txt");
    fed.others[0].fed(&["drain"]).kept(&["503"]);
    fed.others[1].fed(&["register"]).kept(&["503"]);
    fed.anchor.fed(&["tick"]).expect(5);
    fed.anchor.fed(&["grant", "api", "n1"]).expect(5);
    assert_eq!(fed.anchor.lines(), lines);
    assert_eq!(fed.anchor.stamp("federated-routes.txt"), map);
}

type Fed<'a> = &'a Federation;

/// First run: A was at 120, is restored to 100 and started; a registration arrives.
#[test]
fn an_old_copy_refuses_says_so_and_takes_what_it_lost_from_its_members() {
    let (fed, lines) = restored(20);
    let held = fed.anchor.lines();
    assert_eq!(held.len() + 20, lines.len());
    let told = fed.others[0].fed(&["drain"]).kept(&["503", "rolled back"]);
    assert!(told.out.contains(&lines.len().to_string()), "{told:?}");
    signs_nothing(&&fed, &held);
    let (size, all) = (held.len(), lines.len());
    let ran = fed.anchor.doctor(5, &["rolled back", "next: crowny-fed doctor --adopt --dir"]);
    let words = [format!("shows {all} lines"), format!("first {size} of which are those here")];
    assert!(words.iter().all(|word| ran.out.contains(word)), "{ran:?}");
    // Nobody is asked to forget anything.
    fed.others[1].doctor(0, &["all well"]);

    let told = fed.anchor.good(&["doctor", "--adopt"]);
    assert!(told.starts_with("adopted: 20 lines from http://"), "{told}");
    assert!(told.contains(&format!("{all} now")) && told.contains("601 s"), "{told}");
    assert_eq!(fed.anchor.lines(), lines);
    fed.anchor.is_a_copy_of(&fed.others[0]);
    // Both notes are kept, out of the way.
    let kept = fed.anchor.evidence();
    assert!(kept.len() >= 2 && kept.keys().all(|name| name.contains("/settled-")), "{kept:?}");

    fed.anchor.heals();
    fed.others[0].fed(&["drain"]).kept(&["503", "wait"]);
    fed.anchor.wait_is_over();
    fed.others[0].fed(&["drain"]).expect(0);
    for node in &fed.others {
        node.fed(&["sync"]).quiet();
        node.is_a_copy_of(&fed.anchor);
    }
    assert_eq!(fed.anchor.lines()[..all], lines);
    fed.anchor.doctor(0, &["all well"]);
}

/// A whole line that was written and never signed gives way to the signed one; its bytes are kept.
#[test]
fn a_line_that_was_never_signed_gives_way_to_the_signed_one() {
    let (fed, lines) = restored(20);
    let anchor = &fed.anchor;
    let mut twin = anchor.copy_as("twin");
    append(&twin.dir, &mut |seq| binding(seq + 150).into(), 1);
    let unsigned = twin.lines().pop().unwrap();
    let held = anchor.text("nodes.ndjson");
    std::fs::write(anchor.file("nodes.ndjson"), format!("{held}{unsigned}\n")).unwrap();
    twin.stop();
    anchor.fed(&["tick"]).expect(5).saying(&["rolled back"]);
    anchor.good(&["doctor", "--adopt"]);
    assert_eq!(anchor.lines(), lines);
    let torn = crate::harness::image(&anchor.dir, &["nodes.torn-"]);
    assert!(torn.values().any(|bytes| *bytes == format!("{unsigned}\n").into_bytes()), "{torn:?}");
    anchor.doctor(3, &["nodes.torn-", "signed writes wait"]);
    anchor.heals();
}

/// With nobody there who has the rest, nothing is adopted; evidence is no journal.
#[test]
fn what_nobody_hands_over_is_not_adopted() {
    let (mut fed, lines) = restored(5);
    fed.anchor.fed(&["tick"]).expect(5);
    fed.others.iter_mut().for_each(Node::stop);
    let held = fed.anchor.fetched();
    let ran = fed.anchor.fed(&["doctor", "--adopt"]).expect(5);
    ran.saying(&["nobody gave the rest", "state/evidence/theirs-"]);
    assert!(held == fed.anchor.fetched(), "something was signed");
    fed.anchor.doctor(5, &["no member that was asked shows them now"]);
    fed.anchor.fed(&["tick"]).expect(5);
    fed.others.iter_mut().for_each(Node::serve);
    fed.anchor.good(&["doctor", "--adopt", &fed.others[0].url()]);
    assert_eq!(fed.anchor.lines(), lines);
    fed.anchor.heals();
}

/// Second run: A wrote a second 101 before it met anyone. B and C report the fork at that line, keep
/// theirs, and nothing is dropped on any side.
#[test]
fn a_second_line_101_is_a_fork_that_everybody_keeps_and_names() {
    let (fed, lines) = restored(20);
    let anchor = &fed.anchor;
    let fork = anchor.lines().len();
    for (nth, count) in [(0, 1), (1, 25)] {
        append(&anchor.dir, &mut |seq| binding(seq + 150).into(), count);
        let other = anchor.lines();
        for node in &fed.others {
            node.fed(&["tick"]).expect(5);
            assert_eq!(node.lines(), lines, "a member dropped something");
            let notes = node.evidence();
            assert!(notes.keys().any(|name| name.contains("theirs-")), "{notes:?}");
            // Larger or not, whoever looks is told where they part.
            let told = format!("from line {fork} on");
            node.doctor(5, &["fork: ", &told, "decide which copy is right"]);
            std::fs::rename(node.file("state/evidence"), node.file(&format!("judged-{nth}")))
                .unwrap();
        }
        anchor.fed(&["tick"]).expect(5);
        assert_eq!(anchor.lines(), other, "the anchor dropped something");
        let url = fed.others[0].url();
        let ran = anchor.doctor(5, &["fork: ", &format!("from line {fork} on")]);
        assert!(ran.out.contains(&format!("doctor --adopt {url} --dir")), "{ran:?}");
        anchor.fed(&["doctor", "--adopt"]).expect(5).saying(&["doctor --adopt URL"]);
        // On a copy of it, for the next round needs the fork: the other history is taken whole, ours
        // is kept whole.
        let taken = anchor.copy_as(&format!("taken-{nth}"));
        let told = taken.good(&["doctor", "--adopt", &url]);
        assert!(told.contains(&url) && told.contains("601 s"), "{told}");
        assert_eq!(taken.lines(), lines);
        let kept = taken.evidence();
        let tail = kept
            .iter()
            .find(|(name, _)| name.contains(&format!("tail-{fork}-")) && name.ends_with(".ndjson"));
        let tail = String::from_utf8(tail.unwrap().1.clone()).unwrap();
        assert_eq!(tail.lines().collect::<Vec<_>>(), other[fork..], "something of ours is lost");
        taken.heals();
        taken.is_a_copy_of(&fed.others[0]);
        anchor.remove("state/evidence");
    }
}

/// The folder holds parts of two times: an old floor beside newer lines, or newer notes beside old.
#[test]
fn parts_of_two_times_are_told_and_adopted_where_they_fit() {
    let fed = federation(30);
    let anchor = &fed.anchor;
    let old = anchor.bytes("state/committed.json");
    fed.grow(8);
    for node in &fed.others {
        node.fed(&["sync"]).quiet();
    }
    let (lines, held) = (anchor.lines(), anchor.size());
    std::fs::write(anchor.file("state/committed.json"), old).unwrap();
    anchor.fed(&["tick"]).expect(5).saying(&["rolled back or forked"]);
    anchor.doctor(5, &["parts of two times", "next: crowny-fed doctor --adopt"]);
    anchor.good(&["doctor", "--adopt"]);
    assert_eq!((anchor.lines(), anchor.size()), (lines, held));
    anchor.heals();
    anchor.is_a_copy_of(&fed.others[0]);
}

#[test]
fn a_member_has_nothing_to_adopt_and_flags_exclude_each_other() {
    let fed = federation(3);
    fed.others[0].fed(&["doctor", "--adopt"]).expect(1).saying(&["crowny-fed sync"]);
    fed.others[0].fed(&["doctor", "--accept-clock"]).expect(78);
    fed.anchor.fed(&["doctor", "--adopt", "--accept-clock"]).expect(2);
    fed.anchor.fed(&["doctor", "--accept-clock"]).expect(3).saying(&["nothing to accept"]);
    fed.anchor.fed(&["doctor", "--adopt", "ftp://x"]).expect(2);
    let told = fed.anchor.good(&["doctor", "--json"]);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&told).unwrap(),
        json!({"well": true, "findings": []})
    );
}
