//! `fixtures/verify.py`: a stranger's verifier accepts what is right and nothing else.

use crate::federation::{ANCHOR, Federation, ORIGIN, have, repository, skip};
use crate::harness::{ROSTER, Ran, Serving};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crowny_fed::auth::keys::parse_seed;
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::checkpoint::{Checkpoint, sign_checkpoint};
use crowny_fed::journal::line::Line;
use crowny_fed::journal::merkle::Frontier;
use std::process::Command;

fn python() -> bool {
    if !have(&["python3"]) {
        return false;
    }
    let found = Command::new("python3").args(["-c", "import cryptography"]).output().unwrap();
    found.status.success() || skip("python3 has no module cryptography")
}

impl Federation {
    /// Runs the verifier on a journal and a root file of the test's folder.
    fn verified(&self, journal: &str, root: &str, vkey: &str) -> Ran {
        let mut command = Command::new("python3");
        command.arg(repository("fixtures/verify.py"));
        command.arg(self.folder.join(journal)).arg(self.folder.join(root)).arg(vkey);
        let output = command.output().unwrap();
        Ran {
            code: output.status.code(),
            status: output.status,
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn refused(&self, journal: &str, root: &str, words: &str) {
        let ran = self.verified(journal, root, &self.vkey());
        assert!(ran.code == Some(1) && ran.err.contains(words), "{words}: {ran:?}");
        assert!(!ran.err.contains("Traceback") && ran.out.is_empty(), "{ran:?}");
    }

    /// Chains lines anew and signs for them with the log's own key: what a lying anchor can do.
    fn signed_anew(&self, lines: &[Line]) {
        let (mut tip, mut frontier, mut journal) =
            (Tip::origin(ORIGIN), Frontier::new(), String::new());
        for line in lines {
            let ts = line.ts.max(tip.ts);
            let raw = Line { prev: tip.head, seq: tip.size, ts, ..line.clone() }.render();
            tip.accept(raw.as_bytes()).unwrap();
            frontier.push(tip.head);
            journal.push_str(&raw);
            journal.push('\n');
        }
        let key = parse_seed(&self.folder.text("anchor/keys/log.key")).unwrap();
        let checkpoint = Checkpoint::new(ORIGIN, tip.size, frontier.root());
        self.folder.write("lie.ndjson", journal);
        self.folder.write("lie.txt", sign_checkpoint(&checkpoint, &key).unwrap().render());
    }
}

/// A federation with a line of every type but those of the future.
fn busy() -> Federation {
    let fed = Federation::found();
    let gone = Serving::start(&fed.folder, "gone", 0, &[]);
    fed.folder.write(
        &format!("{ANCHOR}/{ROSTER}"),
        format!("gone|127.0.0.1|{}|edge|active\n", gone.port),
    );
    fed.good(&["tick"]);
    drop(gone);
    fed.good(&["tick"]);
    let offer = ["--url", "http://127.0.0.1:9", "--service", "shop=http://127.0.0.1:9", "--quiet"];
    for (dir, alg) in [("gw2", "ed25519"), ("gw3", "hmac-sha256")] {
        let invitation = fed.invite(&[dir, "--service", "shop", "--alg", alg]);
        let ran = fed.join(dir, &invitation, &offer);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    fed.good(&["grant", "api", "gw2"]);
    for verb in [&["drain", "--for", "10m"][..], &["rotate-key"], &["register"], &["rotate-key"]] {
        fed.folder.good("gw2", verb);
    }
    fed.folder.good("gw3", &["leave"]);
    fed.good(&["revoke", "gw2"]);
    fed
}

fn parsed(lines: &[String]) -> Vec<Line> {
    lines.iter().map(|raw| Line::parse(raw.as_bytes()).unwrap()).collect()
}

#[test]
fn a_real_federation_verifies_and_every_tampering_is_named() {
    if !python() {
        return;
    }
    let fed = busy();
    let lines = fed.lines();
    let (journal, root) = ("anchor/nodes.ndjson", "anchor/federation-root.txt");
    let good = fed.verified(journal, root, &fed.vkey());
    assert_eq!(good.code, Some(0), "{good:?}");
    let told = format!("verified {ORIGIN}: {} lines, 7 signed by their authors, 2 of", lines.len());
    assert!(good.out.starts_with(&told), "{}", good.out);

    let other = Federation::found();
    let foreign = fed.verified(journal, root, &other.vkey());
    assert!(foreign.err.contains("the checkpoint's signature"), "{foreign:?}");

    let join = |lines: &[String]| lines.join("\n") + "\n";
    for at in 0..lines.len() {
        let mut changed = lines.clone();
        changed[at] = changed[at].replacen("\"ts\":1", "\"ts\":2", 1);
        fed.folder.write("changed.ndjson", join(&changed));
        fed.refused("changed.ndjson", root, "the root");
    }
    fed.folder.write("short.ndjson", join(&lines[..lines.len() - 1]));
    fed.refused("short.ndjson", root, "the root");
    let note = fed.folder.text(root);
    fed.folder.write("grown.txt", note.replacen(&format!("\n{}\n", lines.len()), "\n99\n", 1));
    fed.refused(journal, "grown.txt", "the checkpoint's signature");
}

/// The anchor signs whatever it likes, but it cannot put words into a member's mouth.
#[test]
fn a_lying_anchor_cannot_speak_for_a_member() {
    if !python() {
        return;
    }
    let fed = busy();
    let lines = parsed(&fed.lines());
    fed.signed_anew(&lines);
    assert_eq!(fed.verified("lie.ndjson", "lie.txt", &fed.vkey()).code, Some(0));
    let at = |kind: &str| {
        lines.iter().position(|line| line.kind == kind && line.payload.contains("\"gw2\"")).unwrap()
    };

    let mut reworded = lines.clone();
    let said = &mut reworded[at("register")].payload;
    *said = said.replacen("127.0.0.1:9", "127.0.0.1:8", 1);
    fed.signed_anew(&reworded);
    fed.refused("lie.ndjson", "lie.txt", "the signature of gw2");

    let mut retyped = lines.clone();
    retyped[at("drain")].kind = "leave".to_owned();
    fed.signed_anew(&retyped);
    fed.refused("lie.ndjson", "lie.txt", "the signature of gw2");

    let mut unsigned = lines.clone();
    unsigned[at("register")].author.as_mut().unwrap().sig = STANDARD.encode([0; 64]);
    fed.signed_anew(&unsigned);
    fed.refused("lie.ndjson", "lie.txt", "the signature of gw2");

    // A shared key claimed for a member that has a public one, and a key after its revocation.
    let mut weakened = lines.clone();
    weakened[at("register")].author.as_mut().unwrap().alg = "hmac-sha256".to_owned();
    weakened[at("register")].payload = weakened[at("register")].payload.replacen(":9", ":8", 1);
    fed.signed_anew(&weakened);
    fed.refused("lie.ndjson", "lie.txt", "the signature of gw2");
    let mut late = lines.clone();
    late.push(lines[at("drain")].clone());
    fed.signed_anew(&late);
    fed.refused("lie.ndjson", "lie.txt", "speaks for gw2");
    let mut early = lines.clone();
    early.swap(at("enroll"), at("register"));
    fed.signed_anew(&early);
    fed.refused("lie.ndjson", "lie.txt", "speaks for gw2");

    // The key before works for an hour after the rotation and not for a second more.
    let mut overlap = lines.clone();
    let drain = overlap[at("drain")].clone();
    overlap.truncate(overlap.iter().position(|line| line.kind == "rotate").unwrap() + 1);
    let rotated_s = overlap.last().unwrap().ts;
    for (ts, good) in [(rotated_s + 3_599, true), (rotated_s + 3_600, false)] {
        let mut lines = overlap.clone();
        lines.push(Line { ts, ..drain.clone() });
        fed.signed_anew(&lines);
        assert_eq!(fed.verified("lie.ndjson", "lie.txt", &fed.vkey()).status.success(), good);
    }
}

#[test]
fn the_log_key_may_change_and_either_key_opens_it() {
    if !python() {
        return;
    }
    let fed = busy();
    let before = fed.vkey();
    fed.good(&["rotate-key", "--log"]);
    fed.good(&["grant", "shop", "gw9"]);
    assert_ne!(fed.vkey(), before);
    for vkey in [before, fed.vkey()] {
        let ran = fed.verified("anchor/nodes.ndjson", "anchor/federation-root.txt", &vkey);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
}

/// What came out of a branch is as much its author's as what was posted.
#[test]
fn the_line_inside_a_merged_line_is_its_authors() {
    if !python() {
        return;
    }
    let fed = busy();
    let lines = parsed(&fed.lines());
    let of = |kind: &str, node: &str| {
        let by = format!("\"node\":\"{node}\"");
        lines.iter().position(|line| line.kind == kind && line.payload.contains(&by)).unwrap()
    };
    // As an anchor could append it, whatever it holds.
    let lie = |inner: &Line, at: usize| {
        let payload = serde_json::json!({ "line": STANDARD.encode(inner.render()) }).to_string();
        let outer = Line { author: None, kind: "merged".to_owned(), payload, ..lines[at].clone() };
        let mut told = lines.clone();
        told.insert(at + 1, outer);
        fed.signed_anew(&told);
    };
    let (register, leave) = (of("register", "gw2"), of("leave", "gw3"));
    lie(&lines[register], register);
    let good = fed.verified("lie.ndjson", "lie.txt", &fed.vkey());
    assert!(good.out.contains(" 8 signed by their authors, 2 of"), "{good:?}");
    lie(&lines[leave], leave);
    let shared = fed.verified("lie.ndjson", "lie.txt", &fed.vkey());
    assert!(shared.out.contains(" 7 signed by their authors, 3 of"), "{shared:?}");

    let mut reworded = lines[register].clone();
    reworded.payload = reworded.payload.replacen("127.0.0.1:9", "127.0.0.1:8", 1);
    lie(&reworded, register);
    fed.refused("lie.ndjson", "lie.txt", "the signature of gw2");
    let unsigned = Line { author: None, ..lines[register].clone() };
    lie(&unsigned, register);
    fed.refused("lie.ndjson", "lie.txt", "speaks for gw2");
    // Before its key was enrolled and after it was revoked; and what no branch may bring.
    lie(&lines[register], of("enroll", "gw2") - 1);
    fed.refused("lie.ndjson", "lie.txt", "speaks for gw2");
    lie(&lines[register], of("revoke", "gw2"));
    fed.refused("lie.ndjson", "lie.txt", "speaks for gw2");
    lie(&lines[of("rotate", "gw2")], register);
    fed.refused("lie.ndjson", "lie.txt", "a branch may bring a rotate");
}
