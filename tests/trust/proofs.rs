//! What anybody can check, and what a cheating or rolled-back log cannot hide.

use crate::harness::{Anchor, Folder, Ran, fed, run};
use crate::member::now_s;
use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::journal::checkpoint::open_checkpoint;
use crowny_fed::journal::merkle::Hash;
use crowny_fed::journal::proof::{Consistency, verify_consistency};
use crowny_fed::journal::tlog_proof::parse_tlog_proof;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// An anchor with some lines.
fn grown() -> Anchor {
    let anchor = Anchor::start();
    let member = anchor.enrol("n1");
    for incarnation in 0..4 {
        let answer = anchor.post("/register", &member.register(now_s(), incarnation).render());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    anchor
}

/// `proof --check` with nothing but these texts, far from the anchor's folder.
fn check(proof: &str, line: &str, vkey: &str) -> Ran {
    let folder = Folder::new();
    fs::write(folder.path().join("proof"), proof).unwrap();
    fs::write(folder.path().join("line"), line).unwrap();
    let args = ["proof", "--check", "proof", "--line", "line", "--vkey", vkey];
    let mut command = fed(folder.path(), &args);
    command.current_dir(folder.path());
    run(command, "")
}

/// O-33.
#[test]
fn a_proof_holds_for_its_own_index_size_and_line_alone() {
    let anchor = grown();
    let vkey = anchor.vkey();
    let journal = anchor.text("nodes.ndjson");
    let lines: Vec<&str> = journal.lines().collect();
    let size = lines.len();
    assert_eq!(size, 8);
    for (seq, line) in lines.iter().enumerate() {
        let answer = anchor.get(&format!("/proof?seq={seq}"));
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
        let ran = check(&answer.text(), line, &vkey);
        assert!(ran.code == Some(0) && ran.out.contains(&format!("line {seq} of 8")), "{ran:?}");
    }
    let good = anchor.get("/proof?seq=2").text();
    let parsed = parse_tlog_proof(&good).unwrap();
    let hash = parsed.path[0].to_base64();
    let with_path = |path: Vec<Hash>| {
        let mut other = parsed.clone();
        other.path = path;
        other.render()
    };
    let mut longer = parsed.path.clone();
    longer.push(parsed.path[0]);
    let mut swapped = parsed.path.clone();
    swapped.swap(0, 1);
    let wrong = [
        good.replace("index 2", "index 3"),
        good.replace("index 2", "index 1"),
        good.replace("index 2", "index 10"),
        good.replace("index 2", "index 18446744073709551615"),
        good.replace("index 2", "index 18446744073709551616"),
        good.replace("index 2", "index 02"),
        good.replace("index 2", "index -1"),
        with_path(longer),
        with_path(swapped),
        with_path(parsed.path[1..].to_vec()),
        with_path(Vec::new()),
        good.replacen(&hash, &hash[..40], 1),
        good.replacen(&hash, "", 1),
        good.replacen("\n8\n", "\n9\n", 1),
        good.replacen("\n8\n", "\n0\n", 1),
        good.replace("test.example/fed", "test.example/fes"),
        good.replace("tlog-proof@v1", "tlog-proof@v2"),
        good[..good.len() / 2].to_owned(),
        format!("{good}x"),
        String::new(),
    ];
    for proof in wrong {
        assert_ne!(proof, good);
        let ran = check(&proof, lines[2], &vkey);
        assert_eq!(ran.code, Some(5), "{proof}\n{ran:?}");
    }
}

/// O-33 over HTTP.
#[test]
fn a_proof_is_made_for_published_lines_alone_and_at_the_signed_size() {
    let anchor = grown();
    for (query, status) in [
        ("seq=-1", 400),
        ("seq=8", 404),
        ("seq=99", 404),
        ("seq=007", 400),
        ("seq=+1", 400),
        ("seq=18446744073709551616", 400),
        ("seq=18446744073709551615", 404),
        ("seq=", 400),
        ("hash=00", 400),
        ("hash=zz", 400),
        ("", 400),
        ("seq=1&hash=00", 400),
        ("node=..", 400),
        ("node=nobody", 404),
        (&format!("hash={}", "0".repeat(64)), 404),
    ] {
        let answer = anchor.get(&format!("/proof?{query}"));
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    // The size is the signed head's, whatever somebody asks for.
    assert_eq!(anchor.get("/proof?seq=0&size=99").text(), anchor.get("/proof?seq=0").text());
}

/// Incident 12: a valid proof of something else proves nothing. Incident 11: another log's neither.
#[test]
fn a_valid_proof_of_another_line_or_by_another_log_is_refused() {
    let (anchor, other) = (grown(), Anchor::named("test.example/other"));
    let (vkey, other_vkey) = (anchor.vkey(), other.vkey());
    let journal = anchor.text("nodes.ndjson");
    let lines: Vec<&str> = journal.lines().collect();
    let proof = anchor.get("/proof?seq=5").text();
    for line in [lines[4], lines[6], &lines[5].replace("\"seq\":5", "\"seq\": 5"), "", "x"] {
        let ran = check(&proof, line, &vkey);
        assert!(ran.code == Some(5) && ran.err.contains("does not hold"), "{ran:?}");
    }
    assert_eq!(check(&proof, lines[5], &other_vkey).code, Some(5));
    let theirs = other.get("/proof?seq=0").text();
    let their_line = other.text("nodes.ndjson").lines().next().unwrap().to_owned();
    assert_eq!(check(&theirs, &their_line, &other_vkey).code, Some(0));
    assert_eq!(check(&theirs, &their_line, &vkey).code, Some(5));
    // A true path under somebody else's signature.
    let (ours, note) = proof.split_once("\n\n").unwrap();
    let their_note = theirs.split_once("\n\n").unwrap().1;
    assert_eq!(check(&format!("{ours}\n\n{their_note}"), lines[5], &vkey).code, Some(5));
    let unsigned = note.lines().take(3).collect::<Vec<_>>().join("\n") + "\n\n";
    assert_eq!(check(&format!("{ours}\n\n{unsigned}"), lines[5], &vkey).code, Some(5));
    for bad in ["", "x", &vkey.replace("test.", "tesd."), &vkey[..vkey.len() - 3]] {
        assert_eq!(check(&proof, lines[5], bad).code, Some(2), "{bad}");
    }
}

/// Incident 4: a cache that leaves the query out must have nothing to keep.
#[test]
fn answers_that_depend_on_a_query_differ_and_are_never_stored() {
    let anchor = grown();
    let mut seen = Vec::new();
    for line in anchor.lines().iter().take(3) {
        let hash = anchor.get(&format!("/proof?seq={}", line["seq"]));
        seen.push(hash.body.clone());
    }
    let told: Vec<Value> = (0..2).map(|_| anchor.get("/head").json()).collect();
    assert_eq!(told[0], told[1]);
    let newest = anchor.get(&format!("/proof?hash={}", told[0]["head"].as_str().unwrap()));
    assert_eq!(newest.header("cache-control"), Some("no-store"));
    seen.push(newest.body);
    seen.push(anchor.get("/proof?node=gw1").body);
    let before = seen.len();
    seen.sort();
    seen.dedup();
    assert!(seen.len() >= before - 1, "one cached answer for all");
    for path in
        ["/consistency?old=1&new=2", "/consistency?old=1&new=3", "/proof", "/root", "/verify"]
    {
        assert_eq!(anchor.get(path).header("cache-control"), Some("no-store"), "{path}");
    }
    // What never changes may be kept for ever, and has a path of its own.
    let tile = anchor.get("/tile/0/000.p/8");
    assert!(tile.header("cache-control").unwrap().contains("immutable"), "{tile:?}");
    for path in [
        "/tile/0/000.p/9",
        "/tile/0/000",
        "/tile/../keys/log.key",
        "/tile/0/000.p/08",
        "/tile/%2e%2e/self.json",
    ] {
        let answer = anchor.get(path);
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.text());
    }
}

#[test]
fn growth_is_proved_from_every_size_and_nothing_else_is_called_proved() {
    let anchor = grown();
    let vkey = VerifierKey::parse(&anchor.vkey()).unwrap();
    let mut roots: Vec<Hash> = Vec::new();
    let lines = anchor.text("nodes.ndjson");
    let leaves: Vec<Hash> =
        lines.lines().map(|line| crowny_fed::journal::merkle::leaf_hash(line.as_bytes())).collect();
    for size in 0..=leaves.len() {
        roots.push(crowny_fed::journal::merkle::root_of(&leaves[..size]));
    }
    let (published, _) = open_checkpoint(anchor.get("/root").body, &vkey).unwrap();
    assert_eq!((published.size, published.root), (8, roots[8]));
    for new in 1..=8 {
        for old in 1..=new {
            let answer = anchor.get(&format!("/consistency?old={old}&new={new}"));
            assert_eq!(answer.status, 200, "{old} {new}: {}", answer.text());
            let told = answer.json();
            let path: Vec<Hash> = serde_json::from_value(told["path"].clone()).unwrap();
            let growth = Consistency {
                old_size: old,
                old_root: roots[old as usize],
                new_size: new,
                new_root: roots[new as usize],
                path: &path,
            };
            verify_consistency(&growth).unwrap();
            let forked = Consistency { old_root: roots[old as usize - 1], ..growth };
            assert!(verify_consistency(&forked).is_err(), "{old} {new}");
            assert_eq!(told["checkpoint"], anchor.text("federation-root.txt"));
        }
    }
    for (query, status) in [
        ("old=0&new=8", 400),
        ("old=0&new=0", 400),
        ("old=5&new=4", 400),
        ("old=1&new=9", 404),
        ("old=9&new=9", 404),
        ("old=-1&new=8", 400),
        ("old=1", 400),
        ("new=8", 400),
        ("", 400),
        ("old=1&new=18446744073709551616", 400),
        ("old=01&new=8", 400),
        ("old=a&new=8", 400),
    ] {
        let answer = anchor.get(&format!("/consistency?{query}"));
        assert_eq!(answer.status, status, "{query}: {}", answer.text());
        assert!(!answer.text().contains("path"), "{query}");
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let mode = fs::metadata(from).unwrap().permissions();
    fs::set_permissions(to, mode).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Law 3 and incident 2: an older copy beside a root it does not reach signs nothing any more.
#[test]
fn a_restored_older_folder_beside_a_newer_root_is_exit_5_and_keeps_both_notes() {
    let mut anchor = Anchor::start();
    let member = anchor.enrol("n1");
    let backup = anchor.folder.path().join("backup");
    copy(&anchor.dir, &backup);
    assert_eq!(anchor.post("/register", &member.register(now_s(), 0).render()).status, 200);
    let newer = anchor.text("federation-root.txt");
    for same_size in [false, true] {
        anchor.stop();
        fs::remove_dir_all(&anchor.dir).unwrap();
        copy(&backup, &anchor.dir);
        if same_size {
            // The second history, one line long like the first.
            anchor.good(&["grant", "other", "n1"]);
        }
        let older = anchor.text("federation-root.txt");
        fs::write(anchor.file("federation-root.txt"), &newer).unwrap();
        let before = anchor.journals();
        anchor.restart();
        for verb in [&["tick"][..], &["verify"], &["verify", "--full"]] {
            let ran = anchor.fed(verb);
            assert_eq!(ran.code, Some(5), "{verb:?}: {ran:?}");
        }
        let ran = anchor.fed(&["tick"]);
        assert!(ran.err.contains("rolled back or forked"), "{ran:?}");
        assert_ne!(anchor.fed(&["grant", "web", "n1"]).code, Some(0));
        let answer = anchor.post("/register", &member.register(now_s(), 1).render());
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(anchor.journals(), before, "nothing is signed or published");
        let kept: Vec<String> = fs::read_dir(anchor.file("state/evidence"))
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        assert!(kept.len() == 2 && kept.contains(&newer) && kept.contains(&older), "{kept:?}");
    }
}

/// O-31.
#[test]
fn lines_removed_from_the_end_are_counted_and_nothing_is_appended_in_their_place() {
    let mut anchor = grown();
    let member = anchor.enrol("n2");
    let whole = anchor.text("nodes.ndjson");
    let size = whole.lines().count();
    let cut: String = whole.split_inclusive('\n').take(size - 2).collect();
    for (left, missing) in [(Some(cut), 2), (Some(String::new()), size), (None, size)] {
        match &left {
            Some(text) => fs::write(anchor.file("nodes.ndjson"), text).unwrap(),
            None => fs::remove_file(anchor.file("nodes.ndjson")).unwrap(),
        }
        anchor.restart();
        let ran = anchor.fed(&["verify"]);
        assert_eq!(ran.code, Some(5), "{ran:?}");
        assert!(
            ran.err.contains(&format!("{missing} of {size} signed lines are missing")),
            "{ran:?}"
        );
        assert_eq!(anchor.get("/verify").status, 500);
        let before = anchor.journals();
        let answer = anchor.post("/register", &member.register(now_s(), 0).render());
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_ne!(anchor.fed(&["grant", "web", "n1"]).code, Some(0));
        assert_eq!(anchor.fed(&["tick"]).code, Some(5));
        assert_eq!(anchor.journals(), before);
    }
    fs::write(anchor.file("nodes.ndjson"), &whole).unwrap();
    let answer = anchor.post("/register", &member.register(now_s(), 0).render());
    assert_eq!((answer.status, &answer.json()["seq"]), (200, &(size as u64).into()));
}

/// Incidents 1 and 10: line, leaf and root are one thing; a flipped bit in any of them stops us.
#[test]
fn a_flipped_bit_in_tile_line_or_floor_stops_signing_and_is_named() {
    let anchor = grown();
    let member = anchor.enrol("n2");
    let tile = format!("tile/0/000.p/{}", anchor.lines().len());
    // In the floor: its length, its head, its note.
    for (name, at) in [
        (tile.as_str(), 70),
        ("nodes.ndjson", 900),
        ("state/committed.json", 10),
        ("state/committed.json", 40),
        ("state/committed.json", 150),
    ] {
        let good = fs::read(anchor.file(name)).unwrap();
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(anchor.file(name), bad).unwrap();
        let before = anchor.journals();
        let answer = anchor.post("/register", &member.register(now_s(), 0).render());
        assert_eq!(answer.status, 503, "{name}: {}", answer.text());
        let ran = anchor.fed(&["tick"]);
        assert_eq!(ran.code, Some(5), "{name}: {ran:?}");
        assert!(ran.err.contains(name), "{name} at {at}: {ran:?}");
        assert_eq!(anchor.fed(&["verify", "--full"]).code, Some(5), "{name}");
        assert_eq!(anchor.journals(), before, "{name}");
        fs::write(anchor.file(name), good).unwrap();
    }
    assert_eq!(anchor.post("/register", &member.register(now_s(), 0).render()).status, 200);
    anchor.good(&["verify", "--full"]);
}

/// `/root` and `/checkpoint` are the signed bytes, and readers are shown nothing beyond them.
#[test]
fn what_is_served_is_what_was_signed_and_ends_there() {
    let anchor = grown();
    let root = fs::read(anchor.file("federation-root.txt")).unwrap();
    for path in ["/root", "/checkpoint"] {
        let answer = anchor.get(path);
        assert_eq!((answer.status, &answer.body), (200, &root));
        assert_eq!(answer.header("content-length").unwrap(), root.len().to_string());
    }
    let head = anchor.get("/head").json();
    assert_eq!(head["size"], 8);
    let verified = anchor.get("/verify").json();
    assert_eq!((&verified["size"], &verified["unsigned_lines"]), (&8.into(), &0.into()));
    // A whole line that nobody signed yet: kept by the writer, shown to nobody.
    let other = grown();
    let line = other.text("nodes.ndjson").lines().nth(7).unwrap().to_owned();
    let mut unsigned: Value = serde_json::from_str(&line).unwrap();
    unsigned["prev"] = head["head"].clone();
    unsigned["seq"] = 8.into();
    let journal = anchor.text("nodes.ndjson");
    fs::write(anchor.file("nodes.ndjson"), format!("{journal}{unsigned}\n")).unwrap();
    assert_eq!(anchor.get("/head").json(), head);
    assert_eq!(anchor.get("/proof?seq=8").status, 404);
    assert_eq!(anchor.get("/verify").json()["unsigned_lines"], 1);
}
