//! Lines removed from the end, and floors removed or put back (O-31): nothing is appended to a
//! journal shorter than what was signed, and the counter never starts anew from the shorter file.

use super::harness::{Fed, Ran, assert_same, line_starts};
use super::peers::{StandIn, row};
use std::path::Path;

const FLOOR: &str = "state/committed.json";
const ROOT: &str = "federation-root.txt";

/// A member with five signed lines, whose peers answer: further ticks change nothing.
fn five_lines() -> (Fed, StandIn) {
    let fed = Fed::founded();
    let peer = StandIn::answering();
    fed.list(&["n2", "n3"].map(|id| row(id, peer.port, "active")));
    fed.tick().expect(0);
    assert_eq!(fed.signed_size(), 5);
    (fed, peer)
}

/// Verify, tick and init refuse, say `words`, and leave every file as it is.
#[track_caller]
fn all_refuse(fed: &Fed, words: &[&str]) {
    let before = fed.image();
    Ran::of(&mut fed.verb("verify")).expect(5).saying(words);
    fed.verify().expect(5).saying(words);
    fed.tick().expect(5).saying(words);
    let init = Ran::of(&mut fed.init());
    assert!(matches!(init.code, Some(1 | 5)), "{init:#?}");
    assert_same(&fed.image(), &before);
}

/// What must be there again, byte for byte.
#[track_caller]
fn heals_to(fed: &Fed, name: &str, bytes: &[u8]) {
    fed.heals();
    assert!(fed.read(name) == bytes, "{name} is not what it was");
}

#[test]
fn two_last_lines_removed_are_counted_and_refused() {
    let (fed, _peer) = five_lines();
    let journal = fed.journal();
    fed.write("nodes.ndjson", &journal[..line_starts(&journal)[3]]);
    all_refuse(&fed, &["nodes.ndjson", "2 of 5 signed lines are missing (3 found)", "restore"]);
    // Nothing but the file has to come back.
    fed.write("nodes.ndjson", &journal);
    fed.heals();
    assert_eq!(fed.journal(), journal);
}

#[test]
fn a_removed_or_emptied_journal_is_refused() {
    let (fed, _peer) = five_lines();
    let words = ["nodes.ndjson", "5 of 5 signed lines are missing (0 found)"];
    fed.write("nodes.ndjson", "");
    all_refuse(&fed, &words);
    fed.remove("nodes.ndjson");
    all_refuse(&fed, &words);
    // The root file alone remembers as well.
    fed.remove(FLOOR);
    all_refuse(&fed, &words);
}

#[test]
fn lines_cut_in_the_middle_of_the_last_one_are_refused_by_offset() {
    let (fed, _peer) = five_lines();
    let journal = fed.journal();
    let last = line_starts(&journal)[4];
    for end in [last + 1, last + 100, journal.len() - 1] {
        fed.write("nodes.ndjson", &journal[..end]);
        all_refuse(&fed, &["nodes.ndjson", &format!("line 4 at byte offset {last} ")]);
    }
    assert_eq!(fed.torn(), [""; 0], "what was signed is not torn");
}

#[test]
fn without_the_floor_file_the_root_file_is_the_floor() {
    let (fed, _peer) = five_lines();
    let (floor, journal) = (fed.read(FLOOR), fed.journal());
    let short = fed.copy();
    fed.remove(FLOOR);
    heals_to(&fed, FLOOR, &floor);
    assert_eq!(fed.journal(), journal);

    short.remove(FLOOR);
    short.write("nodes.ndjson", &journal[..line_starts(&journal)[3]]);
    all_refuse(&short, &["2 of 5 signed lines are missing (3 found)"]);
}

#[test]
fn the_root_file_is_rewritten_from_the_floor() {
    let (fed, _peer) = five_lines();
    let (stranger, _other_peer) = five_lines();
    let root = fed.read(ROOT);
    let older = Fed::founded().read(ROOT);
    fed.remove(ROOT);
    heals_to(&fed, ROOT, &root);
    let foreign = stranger.read(ROOT);
    for damaged in [&[][..], &root[..40], b"\0\0\0\0", &foreign, &older] {
        fed.write(ROOT, damaged);
        heals_to(&fed, ROOT, &root);
    }
}

#[test]
fn an_older_root_file_of_ours_is_rewritten_from_the_floor() {
    let (fed, peer) = five_lines();
    let older = fed.read(ROOT);
    fed.list(&["n2", "n3"].map(|id| row(id, peer.port, "standby")));
    fed.tick().expect(0);
    let root = fed.read(ROOT);
    assert_ne!(root, older);
    fed.write(ROOT, &older);
    heals_to(&fed, ROOT, &root);
}

#[test]
fn lines_without_floor_and_root_are_not_signed_again() {
    let (fed, _peer) = five_lines();
    fed.remove(FLOOR);
    fed.remove(ROOT);
    let words = ["nodes.ndjson has lines", "state/committed.json", "federation-root.txt"];
    all_refuse(&fed, &words);
    // Not even when head and snapshot are gone, and nothing else remembers a size.
    fed.remove("head.txt");
    fed.remove("snapshot.json");
    all_refuse(&fed, &words);
}

/// A refused tick writes two files, and only them: both notes, for whoever has to judge.
#[track_caller]
fn keeps_both_notes(fed: &Fed, names: [&str; 2]) {
    let before = fed.image();
    fed.tick().expect(5);
    let mut after = fed.image();
    for name in names {
        let note = after.remove(&Path::new("state/evidence").join(name)).unwrap();
        assert!(note.starts_with(b"fed.test/crash\n"), "{name} is no note");
    }
    assert_same(&after, &before);
}

#[test]
fn a_rolled_back_floor_beside_a_newer_root_is_refused_and_both_notes_stay() {
    let (fed, peer) = five_lines();
    let old_floor = fed.read(FLOOR);
    fed.list(&["n2", "n3"].map(|id| row(id, peer.port, "standby")));
    fed.tick().expect(0);
    let (new_floor, root) = (fed.read(FLOOR), fed.read(ROOT));
    fed.write(FLOOR, &old_floor);
    keeps_both_notes(&fed, ["floor-5.txt", "root-7.txt"]);
    all_refuse(&fed, &["federation-root.txt has our signature on size 7", "rolled back or forked"]);
    assert_eq!((fed.read(FLOOR), fed.read(ROOT)), (old_floor, root));
    // Putting the floor back is all it takes.
    fed.write(FLOOR, new_floor);
    fed.heals();
}

#[test]
fn two_checkpoints_of_one_size_are_a_fork() {
    let (fed, peer) = five_lines();
    let twin = fed.copy();
    fed.list(&["n2", "n3"].map(|id| row(id, peer.port, "standby")));
    fed.tick().expect(0);
    twin.list(&["n2", "n3"].map(|id| row(id, peer.port, "reserve")));
    twin.tick().expect(0);
    let fork = twin.read(ROOT);
    assert_eq!((fed.signed_size(), twin.signed_size()), (7, 7));
    fed.write(ROOT, &fork);
    keeps_both_notes(&fed, ["floor-7.txt", "root-7.txt"]);
    all_refuse(&fed, &["federation-root.txt has our signature on size 7", "forked"]);
    assert_eq!(fed.read(ROOT), fork, "the evidence stays");
}

#[test]
fn a_floor_that_does_not_read_is_named_and_may_be_removed() {
    let (fed, _peer) = five_lines();
    let floor = fed.read(FLOOR);
    let text = String::from_utf8(floor.clone()).unwrap();
    let damaged = [
        String::new(),
        text[..text.len() / 2].to_owned(),
        text.replace("\"size\":5", "\"size\":4"),
        text.replacen("\"root\":\"", "\"root\":\"0", 1),
    ];
    for bytes in damaged {
        fed.write(FLOOR, &bytes);
        all_refuse(&fed, &["state/committed.json"]);
        fed.remove(FLOOR);
        heals_to(&fed, FLOOR, &floor);
    }
}
