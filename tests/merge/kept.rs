//! The file: torn, damaged, full.

use crate::away::{count, three};
use crate::branch::{self, Writer, drain, said};
use crate::harness::get;
use crate::signed::{now_s, register, with};
use ed25519_dalek::SigningKey;
use serde_json::json;
use std::fs;
use std::io::Write;

#[test]
fn a_torn_end_is_cut_off_by_the_next_word() {
    let (mut federation, gw2, _) = three();
    federation.anchor.stop();
    gw2.good(&["drain"]);
    let whole = gw2.text("branch.ndjson");
    for torn in ["{\"alg\":\"ed25519\",\"payl", "\u{c11c}\u{c6b8}"] {
        let mut file = fs::OpenOptions::new().append(true).open(gw2.file("branch.ndjson")).unwrap();
        file.write_all(&torn.as_bytes()[..torn.len() - 1]).unwrap();
        assert_eq!(said(&get(gw2.port, "/sync?branch")), whole);
        assert_eq!(gw2.status()["branch"], 1);
        gw2.good(&["drain", "--off"]);
        let now = gw2.text("branch.ndjson");
        assert!(now.starts_with(&whole) && now.lines().count() == 2, "{now}");
        fs::write(gw2.file("branch.ndjson"), &whole).unwrap();
    }
    federation.anchor.serve();
    gw2.tick();
    assert_eq!(count(&gw2, "merged"), 1);
}

#[test]
fn whole_lines_behind_a_damaged_one_are_nobodys_to_cut() {
    let (mut federation, gw2, _) = three();
    federation.anchor.stop();
    for word in [&["drain"][..], &["drain", "--off"], &["drain"]] {
        gw2.good(word);
    }
    let good = gw2.text("branch.ndjson");
    let mut lines: Vec<String> = good.lines().map(|line| format!("{line}\n")).collect();
    lines[1].replace_range(3..4, "\u{1}");
    let damaged = lines.concat();
    fs::write(gw2.file("branch.ndjson"), &damaged).unwrap();
    gw2.fed(&["drain"]).expect(1).saying(&["branch.ndjson line 2 does not read"]);
    assert!(gw2.good(&["status"]).contains("branch.ndjson line 2 does not read"));
    federation.anchor.serve();
    gw2.fed(&["tick"]).expect(0).saying(&["line 2 does not read"]);
    assert_eq!(gw2.text("branch.ndjson"), damaged);
    lines.remove(1);
    fs::write(gw2.file("branch.ndjson"), lines.concat()).unwrap();
    gw2.tick();
    assert!(!gw2.file("branch.ndjson").exists());
    assert_eq!(count(&gw2, "merged"), 2);
}

#[test]
fn a_full_branch_keeps_what_it_has() {
    let (mut federation, gw2, _) = three();
    federation.anchor.stop();
    let (mut writer, key) = (Writer::after(&gw2), gw2.key());
    let mut incarnation = 100;
    // Said long before: what is inside the window has a limit of its own.
    let tags = json!({ "a": "x".repeat(64), "b": "y".repeat(64), "c": "z".repeat(64) });
    let then = json!(now_s() - 10_000);
    while writer.bytes.len() < 4 * 1024 * 1024 - 1_200 {
        let told = with(&register(&gw2, incarnation), "ts", then.clone());
        writer.say(("register", &with(&told, "tags", tags.clone())), ("gw2", &key));
        incarnation += 1;
    }
    fs::write(gw2.file("branch.ndjson"), &writer.bytes).unwrap();
    for _ in 0..6 {
        if gw2.fed(&["drain"]).code != Some(0) {
            break;
        }
    }
    let full = gw2.text("branch.ndjson");
    assert!(full.len() <= 4 * 1024 * 1024);
    gw2.fed(&["drain"]).expect(1).saying(&["branch.ndjson", "limit 4194304"]);
    assert_eq!(gw2.text("branch.ndjson"), full);
    let runs = branch::of(&gw2);
    assert_eq!(runs.len(), 1);
    let parts = runs[0].parts();
    assert!(parts.len() > 4 && parts.iter().all(|part| part.lines().len() <= 1_000));
    // Thousands of lines come home in parts, as fast as a member may write; what waits stays.
    federation.anchor.serve();
    gw2.fed(&["merge"]).expect(1).saying(&["writes too fast", "what waits stays"]);
    let home = parts[0].lines().len();
    assert_eq!((count(&gw2, "merge"), count(&gw2, "merged")), (1, home));
    assert_eq!(branch::of(&gw2)[0].lines(), &runs[0].lines()[home..]);
    gw2.good(&["verify", "--full"]);
}

/// What the anchor refuses stays, is asked for once, and does not hold up the rest.
#[test]
fn a_refused_line_waits_for_a_person() {
    let (mut federation, gw2, gw3) = three();
    federation.anchor.stop();
    gw2.good(&["drain"]);
    let (good, stranger) = (gw2.text("branch.ndjson"), SigningKey::from_bytes(&[9; 32]));
    let mut writer = Writer::after(&gw2);
    writer.say(("drain", &drain("gw2", 9, true)), ("gw2", &stranger));
    let bad = String::from_utf8(writer.bytes).unwrap();
    fs::write(gw2.file("branch.ndjson"), format!("{bad}{good}")).unwrap();
    federation.anchor.serve();
    let ran = gw2.fed(&["tick"]).expect(0).saying(&["the anchor refused the drain at"]);
    assert!(ran.out.contains("holds now: 1"), "{ran:?}");
    assert_eq!(gw2.text("branch.ndjson"), bad);
    let used = federation.anchor.text("used-nonces.log");
    assert_eq!(gw2.fed(&["tick"]).expect(0).err, "");
    assert_eq!(federation.anchor.text("used-nonces.log"), used);
    assert!(gw2.good(&["status"]).contains("the anchor refused them"));
    gw2.fed(&["merge"]).expect(4).saying(&["signature does not hold"]);
    assert_eq!(gw2.text("branch.ndjson"), bad);
    // A newer word goes home all the same.
    federation.anchor.stop();
    gw2.good(&["drain", "--off"]);
    federation.anchor.serve();
    gw2.tick();
    assert_eq!((count(&gw2, "merged"), gw2.text("branch.ndjson")), (2, bad));
    drop(gw3);
}

/// What does not read is named by whoever looks, also where it is the first line.
#[test]
fn a_damaged_branch_is_named_by_every_verb() {
    let (_federation, gw2, _) = three();
    fs::write(gw2.file("branch.ndjson"), "no line\n").unwrap();
    let words = "branch.ndjson line 1 does not read";
    gw2.fed(&["merge"]).expect(1).saying(&[words]);
    assert!(gw2.good(&["status"]).contains(words));
    let ticked = gw2.fed(&["tick"]);
    assert!(ticked.err.contains(words), "{ticked:?}");
    fs::rename(gw2.file("branch.ndjson"), gw2.file("branch.damaged-7.ndjson")).unwrap();
    assert!(gw2.good(&["status"]).contains("branch.damaged-7.ndjson holds lines"));
    gw2.good(&["merge"]);
}

/// However long the branch is, others see the newest of it, and what the member saw.
#[test]
fn a_long_branch_shows_its_newest_words() {
    let (_federation, gw2, _) = three();
    gw2.tick();
    let mut writer = Writer::after(&gw2);
    for incarnation in 0..400 {
        writer.say(("drain", &drain("gw2", 100 + incarnation, true)), ("gw2", &gw2.key()));
    }
    assert!(writer.bytes.len() > 128 * 1024);
    fs::write(gw2.file("branch.ndjson"), &writer.bytes).unwrap();
    let page = get(gw2.port, "/sync?branch");
    let text = page.text();
    assert!(text.len() <= 128 * 1024 && text.len() > 120 * 1024, "{}", text.len());
    let shown = said(&page);
    assert!(std::str::from_utf8(&writer.bytes).unwrap().ends_with(&shown));
    let behind = &text[shown.len()..];
    assert!(behind.starts_with("\n{\"mode\":\"ed25519\",\"node\":\"gw2\""), "{behind}");
}
