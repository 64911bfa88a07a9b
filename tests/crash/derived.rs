//! What is derived is made anew by the next tick. Only a tile or bundle that contradicts the
//! journal stops it: others may hold a copy, so it is named and left to the operator.

use super::harness::{Fed, Ran, STATUS, line_starts, on_all_cores};
use super::peers::{StandIn, row};

/// A member with five signed lines, whose peers answer: further ticks change nothing.
fn five_lines() -> (Fed, StandIn) {
    let fed = Fed::founded();
    let peer = StandIn::answering();
    fed.list(&["n2", "n3"].map(|id| row(id, peer.port, "active")));
    fed.tick().expect(0);
    assert_eq!(fed.signed_size(), 5);
    (fed, peer)
}

/// More than one bundle: 64 peers whose rows change four times, 323 lines.
fn two_bundles() -> (Fed, StandIn) {
    let fed = Fed::founded();
    let peer = StandIn::answering();
    for state in ["active", "standby", "active", "standby", "active"] {
        let rows: Vec<String> =
            (0..64).map(|nth| row(&format!("n{nth:02}x"), peer.port, state)).collect();
        fed.list(&rows);
        fed.tick().expect(0);
    }
    assert_eq!(fed.signed_size(), 323);
    (fed, peer)
}

/// Files that come back byte for byte when nothing changed meanwhile.
const REBUILT: [&str; 7] = [
    "head.txt",
    "federation-root.txt",
    "state/committed.json",
    "snapshot.json",
    "index/offsets",
    "tile/0/000.p/5",
    "tile/entries/000.p/5",
];

#[test]
fn what_is_removed_comes_back_with_the_next_tick() {
    let (fed, _peer) = five_lines();
    let whole = fed.image();
    let mut names = REBUILT.to_vec();
    names.extend(["index", "tile", "tile/0", "tile/entries", "state/tmp", STATUS]);
    names.extend(["federated-routes.txt", "freshness.json", "tick.json"]);
    on_all_cores(names, |name| {
        let fed = fed.copy();
        let (map, journal) = (fed.map_rows(), fed.journal());
        fed.remove(name);
        fed.heals();
        assert!(fed.path(name).exists(), "{name} did not come back");
        for rebuilt in REBUILT {
            let held = fed.read(rebuilt) == whole[std::path::Path::new(rebuilt)];
            assert!(held, "{rebuilt} differs after {name} was removed");
        }
        assert_eq!((fed.map_rows(), fed.journal()), (map, journal));
    });
}

#[test]
fn a_damaged_snapshot_head_or_index_is_made_anew() {
    let (fed, _peer) = five_lines();
    for name in ["snapshot.json", "head.txt", "index/offsets"] {
        let whole = fed.read(name);
        let step = (whole.len() / 15).max(1);
        on_all_cores((0..whole.len()).step_by(step).collect(), |at| {
            let fed = fed.copy();
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            for damaged in [&flipped, &whole[..at], &[&whole[..], b"12345678"].concat()[..]] {
                fed.write(name, damaged);
                fed.heals();
                assert!(fed.read(name) == whole, "{name} damaged at {at} was left so");
            }
        });
    }
}

#[test]
fn a_damaged_map_is_written_anew_under_a_higher_generation() {
    let (fed, _peer) = five_lines();
    let map = fed.read("federated-routes.txt");
    let rows = fed.map_rows();
    let generation = |fed: &Fed| -> u64 {
        let json = Ran::of(fed.verb("routes").arg("--json")).expect(0).out;
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        value["generation"].as_u64().unwrap()
    };
    let before = generation(&fed);
    for damaged in [&[][..], &map[..map.len() - 8], b"\0\0\0\0\0\0\0\0", b"# end 0\n"] {
        fed.write("federated-routes.txt", damaged);
        fed.heals();
        assert_eq!(fed.map_rows(), rows);
        assert!(generation(&fed) >= before, "the generation went back");
    }
}

#[test]
fn a_look_up_bucket_that_lost_a_line_is_named_by_verify() {
    let (fed, _peer) = five_lines();
    let buckets = super::harness::names(&fed.path("index"));
    let bucket = buckets.iter().find(|name| *name != "offsets").unwrap();
    fed.write(&format!("index/{bucket}"), "");
    fed.tick().expect(0);
    fed.verify().expect(5).saying(&["the index does not find line", "remove the folder index"]);
    fed.remove("index");
    fed.heals();
}

/// A tick refuses and names `name`, so does verify; removing it is the whole cure.
#[track_caller]
fn is_named(fed: &Fed, name: &str, damaged: &[u8]) {
    let whole = fed.read(name);
    fed.write(name, damaged);
    let (map, journal) = (fed.read("federated-routes.txt"), fed.journal());
    fed.tick().expect(5).saying(&[name, "remove", "the next tick rebuilds it"]);
    fed.verify().expect(5).saying(&[name, "remove"]);
    assert_eq!((fed.read("federated-routes.txt"), fed.journal()), (map, journal));
    fed.remove(name);
    fed.heals();
    assert!(fed.read(name) == whole, "{name} is not what it was");
}

#[test]
fn a_wrong_tile_or_bundle_is_named_and_heals_once_removed() {
    let (fed, _peer) = five_lines();
    for name in ["tile/0/000.p/5", "tile/entries/000.p/5"] {
        let whole = fed.read(name);
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            is_named(&fed, name, &flipped);
        }
        is_named(&fed, name, &whole[..whole.len() - 1]);
        is_named(&fed, name, &[]);
    }
}

#[test]
fn a_full_tile_or_bundle_is_rechecked_and_made_anew() {
    let (fed, _peer) = two_bundles();
    for name in ["tile/0/000", "tile/entries/000", "tile/0/001.p/67", "tile/entries/001.p/67"] {
        let whole = fed.read(name);
        fed.remove(name);
        fed.heals();
        assert!(fed.read(name) == whole, "{name} is not what it was");
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        is_named(&fed, name, &flipped);
    }
    let upper = "tile/1/000.p/1";
    let whole = fed.read(upper);
    fed.remove(upper);
    fed.heals();
    fed.write(upper, [7; 32]);
    fed.tick().expect(5).saying(&["the tiles give root", "remove the folder tile"]);
    fed.verify().expect(5);
    fed.remove("tile");
    fed.heals();
    assert!(fed.read(upper) == whole);
}

#[test]
fn damage_in_an_old_bundle_is_found_by_its_turn_and_by_verify() {
    let (fed, _peer) = two_bundles();
    let journal = fed.journal();
    let starts = line_starts(&journal);
    for line in [5, 200, 255] {
        let mut damaged = journal.clone();
        damaged[starts[line] + 30] ^= 1;
        fed.write("nodes.ndjson", &damaged);
        let place = format!("line {line} at byte offset {} ", starts[line]);
        fed.verify().expect(5).saying(&["nodes.ndjson", &place]);
        fed.tick().expect(5).saying(&["nodes.ndjson", &place]);
        assert_eq!(fed.journal(), damaged, "nothing is appended");
    }
    fed.write("nodes.ndjson", &journal);
    fed.heals();
}

#[test]
fn a_misleading_index_never_accuses_the_journal() {
    let (fed, _peer) = two_bundles();
    let whole = fed.read("index/offsets");
    for line in [0, 100, 256, 300] {
        let mut wrong = whole.clone();
        wrong[line * 8] ^= 1;
        fed.write("index/offsets", &wrong);
        fed.tick().expect(0);
        if fed.read("index/offsets") != whole {
            let told = ["index/offsets says that line", "remove the folder index"];
            fed.verify().expect(5).saying(&told);
            fed.remove("index");
        }
        fed.heals();
        assert!(fed.read("index/offsets") == whole);
    }
}
