//! Keys: weak, confused, mismatched, revoked. Which algorithm counts is told by the stored record.

use crate::harness::Anchor;
use crate::member::{Key, Member, enrolment, fresh_key, fresh_nonce, now_s, sealed};
use crate::world::Simulated;
use crowny_fed::auth::gate::Refusal;
use crowny_fed::auth::keys;
use crowny_fed::cycle::enrolment::revoke;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::store::disk::Disk;
use crowny_fed::store::shared_keys;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use std::fs;

/// The encodings of points of small order, canonical or not (CCTV ed25519, README).
const LOW_ORDER: [&str; 14] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
];

fn base64(hex: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    keys::encode_sig(&(0..hex.len()).step_by(2).map(byte).collect::<Vec<u8>>())
}

/// O-22 and incident 13: a key under which anything verifies never comes in, by neither door.
#[test]
fn a_weak_key_is_refused_at_enrolment_and_at_rotation() {
    let anchor = Anchor::start();
    let invite = anchor.invite(&["n1"]);
    let member = anchor.enrol("n2");
    // A signature that a careless verifier accepts under the neutral point: R neutral, S zero.
    let forged = base64(&format!("01{}", "00".repeat(63)));
    for key in LOW_ORDER.map(base64) {
        let mut payload = json!({
            "origin": member.origin, "node": "n1", "nonce": fresh_nonce(), "ts": now_s(),
            "mode": "ed25519",
        });
        payload["key"] = key.clone().into();
        let mut envelope = sealed(&invite, &fresh_key(), &payload);
        envelope.proof = Some(forged.clone());
        let answer = anchor.refuses("/enroll", &envelope.render(), 400);
        assert!(answer.message().contains("key"), "{}", answer.message());
        let mut payload = member.payload(now_s(), json!({ "alg": "ed25519", "key": key }));
        payload["proof"] = forged.clone().into();
        let envelope = member.envelope("rotate", &payload.to_string());
        anchor.refuses("/rotate", &envelope.render(), 400);
    }
    for (key, why) in [("AAAA", "bytes"), ("x", "base64"), ("", "bytes")] {
        let payload = json!({
            "origin": member.origin, "node": "n1", "nonce": fresh_nonce(), "ts": now_s(),
            "mode": "ed25519", "key": key,
        });
        let answer =
            anchor.refuses("/enroll", &sealed(&invite, &fresh_key(), &payload).render(), 400);
        assert!(answer.message().contains(why), "{}", answer.message());
    }
    // The invitation is not burned by any of that.
    let body = enrolment(&invite, &fresh_key(), &fresh_nonce(), now_s()).render();
    assert_eq!(anchor.post("/enroll", &body).status, 200);
}

/// Incident 15: what everybody knows of an Ed25519 key is no shared secret.
#[test]
fn a_public_key_used_as_a_shared_secret_opens_nothing() {
    let anchor = Anchor::start();
    let moved = anchor.enrol_shared("n1");
    let next = fresh_key();
    let rotated = anchor.post("/rotate", &moved.rotate(now_s(), &next, &next).render());
    assert_eq!(rotated.status, 200, "{}", rotated.text());
    let by_birth = anchor.enrol("n2");
    let members = [moved.with(Key::Ed25519(Box::new(next))), by_birth];
    for member in &members {
        let public = *member.seed().verifying_key().as_bytes();
        let confused = member.with(Key::Shared(public));
        anchor.refuses("/register", &confused.register(now_s(), 0).render(), 403);
        // The mode of one algorithm over the code of the other, outside, inside, and both ways.
        let payload = member.registration(now_s(), 0).to_string();
        let mut envelope = member.envelope("register", &payload);
        envelope.sig = Some(confused.sign("register", &payload));
        anchor.refuses("/register", &envelope.render(), 403);
        envelope.mode = "hmac-sha256".to_owned();
        anchor.refuses("/register", &envelope.render(), 403);
        envelope.sig = Some(member.sign("register", &payload));
        anchor.refuses("/register", &envelope.render(), 403);
        envelope.mode = "none".to_owned();
        anchor.refuses("/register", &envelope.render(), 400);
        // The text of the key is no better than its bytes.
        let text = keys::render_public(&member.seed().verifying_key());
        let tag = crowny_fed::auth::mac::mac(
            text.as_bytes(),
            &[&crowny_fed::auth::pae::encode("register", &payload)],
        );
        envelope.mode = "hmac-sha256".to_owned();
        envelope.sig = Some(keys::encode_sig(&*tag));
        anchor.refuses("/register", &envelope.render(), 403);
    }
    for member in &members {
        assert_eq!(anchor.post("/register", &member.register(now_s(), 0).render()).status, 200);
    }
}

/// Design section 7: a key is rotated to Ed25519 only, with the new key's own word.
#[test]
fn a_rotation_needs_both_keys_and_leads_to_ed25519_only() {
    let anchor = Anchor::start();
    let member = anchor.enrol("n1");
    let (next, other) = (fresh_key(), fresh_key());
    anchor.refuses("/rotate", &member.rotate(now_s(), &next, &other).render(), 403);
    anchor.refuses("/rotate", &member.rotate(now_s(), &next, member.seed()).render(), 403);
    let stolen = member.with(Key::Ed25519(Box::new(other)));
    anchor.refuses("/rotate", &stolen.rotate(now_s(), &next, &next).render(), 403);
    let own = member.seed().clone();
    anchor.refuses("/rotate", &member.rotate(now_s(), &own, &own).render(), 409);
    let to_hmac = member
        .rotate(now_s(), &next, &next)
        .payload
        .replace("\"alg\":\"ed25519\"", "\"alg\":\"hmac-sha256\"");
    let answer = anchor.refuses("/rotate", &member.envelope("rotate", &to_hmac).render(), 400);
    assert!(answer.message().contains("ed25519 only"), "{}", answer.message());
    // A proof of possession is for one member and one request.
    let good = member.rotate(now_s(), &next, &next);
    let elsewhere = anchor.enrol("n2");
    let mut payload: Value = serde_json::from_str(&good.payload).unwrap();
    payload["node"] = "n2".into();
    let moved = elsewhere.envelope("rotate", &payload.to_string());
    anchor.refuses("/rotate", &moved.render(), 403);
    assert_eq!(anchor.post("/rotate", &good.render()).status, 200);
    anchor.good(&["verify", "--full"]);
}

/// O-23: at once, after a restart, and whatever ts says.
#[test]
fn a_revoked_key_is_dead_at_once_and_after_a_restart() {
    let mut anchor = Anchor::start();
    let (first, shared) = (anchor.enrol("n1"), anchor.enrol_shared("n2"));
    let next = first.with(Key::Ed25519(Box::new(fresh_key())));
    let waiting =
        [first.register(now_s(), 4), next.register(now_s(), 5), shared.register(now_s(), 6)];
    assert_eq!(
        anchor.post("/rotate", &first.rotate(now_s(), next.seed(), next.seed()).render()).status,
        200
    );
    for (member, incarnation) in [(&first, 1), (&next, 2), (&shared, 3)] {
        let answer = anchor.post("/register", &member.register(now_s(), incarnation).render());
        assert_eq!(answer.status, 200, "both keys during the overlap: {}", answer.text());
    }
    anchor.good(&["revoke", "n1"]);
    anchor.good(&["revoke", "n2"]);
    for round in 0..2 {
        for envelope in &waiting {
            let answer = anchor.refuses("/register", &envelope.render(), 401);
            assert!(answer.message().contains("revoked"), "{round}: {}", answer.message());
        }
        for member in [&first, &next, &shared] {
            for envelope in [member.register(now_s() - 299, 9), member.register(now_s(), 9)] {
                anchor.refuses("/register", &envelope.render(), 401);
            }
            anchor.refuses("/leave", &member.leave(now_s(), 9).render(), 401);
            anchor.refuses(
                "/rotate",
                &member.rotate(now_s(), &fresh_key(), &fresh_key()).render(),
                401,
            );
        }
        anchor.restart();
    }
    assert_eq!(anchor.good(&["revoke", "n1"]), "revoked: no change\n");
    assert_eq!(anchor.fed(&["revoke", "nobody"]).code, Some(3));
    assert_eq!(anchor.fed(&["revoke", "gw1"]).code, Some(1));
    anchor.good(&["verify", "--full"]);
}

/// The same where a snapshot is lost and the journal alone has to tell.
#[test]
fn a_revocation_is_read_from_the_journal_alone() {
    let anchor = Simulated::found(1);
    let member = anchor.member("n1");
    revoke(&anchor.host, &anchor.config, &NodeId::parse("n1").unwrap()).unwrap();
    let snapshot = anchor.config.layout.snapshot();
    anchor.host.disk(|disk| disk.put(&snapshot, b"nothing"));
    anchor.host.reboot(true);
    let ended = anchor.submit("register", &member.register(anchor.now_s(), 0));
    assert!(matches!(ended, Err(Refusal::Unknown(_))), "{ended:?}");
}

/// O-21: a line without a usable key is as if it were not there, and is named.
#[test]
fn an_empty_or_short_stored_secret_lets_nobody_in_and_is_named() {
    let anchor = Anchor::start();
    let (good, broken) = (anchor.enrol_shared("n1"), anchor.enrol_shared("n2"));
    let stored = anchor.text("node-keys.ndjson");
    let line: Value =
        stored.lines().nth(1).map(|line| serde_json::from_str(line).unwrap()).unwrap();
    assert_eq!(line["node"], "n2");
    let short = "ab".repeat(31);
    for (key, tried) in
        [("", &b""[..]), ("   ", b"   "), (&short, &[0xab; 31]), ("zz", b"zz"), ("00", &[0])]
    {
        let mut entry = line.clone();
        entry["key"] = key.into();
        let mut missing = line.clone();
        missing.as_object_mut().unwrap().remove("key");
        for entry in [entry, missing] {
            let first = stored.lines().next().unwrap();
            fs::write(anchor.file("node-keys.ndjson"), format!("{first}\n{entry}\n")).unwrap();
            let payload = broken.registration(now_s(), 0).to_string();
            let mut envelope = broken.envelope("register", &payload);
            anchor.refuses("/register", &envelope.render(), 403);
            let signed = crowny_fed::auth::pae::encode("register", &payload);
            for key in [tried, b"", &[0; 32]] {
                let tag = crowny_fed::auth::mac::mac(key, &[&signed]);
                envelope.sig = Some(keys::encode_sig(&*tag));
                anchor.refuses("/register", &envelope.render(), 403);
            }
        }
    }
    let answer = anchor.post("/register", &good.register(now_s(), 0).render());
    assert_eq!(answer.status, 200, "the entry beside it works: {}", answer.text());
    fs::write(anchor.file("node-keys.ndjson"), &stored).unwrap();
    assert_eq!(anchor.post("/register", &broken.register(now_s(), 0).render()).status, 200);
}

#[test]
fn the_line_of_a_stored_secret_that_is_none_is_told_by_its_number() {
    let anchor = Simulated::found(2);
    let path = anchor.config.layout.node_keys();
    let disk = Disk { host: &anchor.host, layout: &anchor.config.layout };
    let node = NodeId::parse("n1").unwrap();
    shared_keys::add(&disk, (&node, "00000001"), &[5; 32].into()).unwrap();
    let good = anchor.file(&path);
    let bad = b"{\"node\":\"n1\",\"kid\":\"00000002\",\"key\":\"secret-looking\"}\n";
    anchor.host.disk(|disk| disk.put(&path, &[&good[..], bad, &good].concat()));
    let found = shared_keys::find(&disk, (&node, "00000001")).unwrap();
    let warnings = shared_keys::faults(&disk).unwrap();
    assert_eq!(found.as_deref(), Some(&[5; 32]));
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(
        warning.contains("node-keys.ndjson line 2") && warning.contains("16 bytes"),
        "{warning}"
    );
    assert!(!warning.contains("secret-looking"), "{warning}");
    assert_eq!(shared_keys::find(&disk, (&node, "00000002")).unwrap(), None);
}

/// A crash within the write of one shared key must not cost the next one.
#[test]
fn a_torn_line_of_shared_keys_spoils_no_key_that_is_added_after_it() {
    let anchor = Simulated::found(3);
    let path = anchor.config.layout.node_keys();
    for node in ["n1", "n2"] {
        let invite = anchor.invite(node, "hmac-sha256", false);
        let nonce = fresh_nonce();
        let envelope = enrolment(&invite, &fresh_key(), &nonce, anchor.now_s());
        anchor.enroll(&envelope).unwrap();
        let url = "http://10.0.0.2:9160".to_owned();
        let member = Member { url, ..Member::shared(&invite, &nonce) };
        anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
        let whole = anchor.file(&path);
        let torn = [&whole[..], b"{\"node\":\"n9\",\"kid\":\"00"].concat();
        anchor.host.disk(|disk| disk.put(&path, &torn));
        anchor.submit("register", &member.register(anchor.now_s(), 1)).unwrap();
    }
}

/// Incident 14: only the seed is stored, so no public half can disagree; another seed is noticed.
#[test]
fn a_key_file_that_is_not_the_enrolled_key_signs_nothing() {
    let anchor = Anchor::start();
    let member = anchor.enrol("n1");
    let log_key = anchor.text("keys/log.key");
    let other = keys::render_seed(&[9; 32]);
    let public = SigningKey::from_bytes(&[9; 32]).verifying_key();
    let pair = format!("{}{}\n", other.trim_end(), hex(public.as_bytes()));
    let before = anchor.journals();
    for text in [other.as_str(), &pair, "", "zz\n", &log_key[..63]] {
        fs::write(anchor.file("keys/log.key"), text).unwrap();
        let answer = anchor.post("/register", &member.register(now_s(), 0).render());
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.message().contains("log.key"), "{}", answer.message());
        assert!(!answer.text().contains(other.trim_end()), "a seed in an answer");
        let ran = anchor.fed(&["grant", "web", "n1"]);
        assert!(ran.code != Some(0) && ran.err.contains("log.key"), "{ran:?}");
        assert_eq!(anchor.journals(), before, "nothing is committed that cannot be signed");
    }
    fs::write(anchor.file("keys/log.key"), &log_key).unwrap();
    // The anchor's own node key: refused by its own gate.
    let node_key = anchor.text("keys/node.key");
    fs::write(anchor.file("keys/node.key"), other.as_str()).unwrap();
    let ran = anchor.fed(&["register"]);
    assert!(ran.code == Some(1) && ran.err.contains("signature"), "{ran:?}");
    assert_eq!(anchor.journals(), before);
    fs::write(anchor.file("keys/node.key"), node_key).unwrap();
    anchor.good(&["register"]);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Incident 21: codes are compared by the one function that takes the same time for all.
#[test]
fn no_code_or_secret_is_compared_byte_by_byte() {
    let source = |name: &str| {
        fs::read_to_string(format!("{}/src/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    assert!(source("auth/mac.rs").contains(".verify_slice(tag)"));
    for name in [
        "auth/mac.rs",
        "auth/gate.rs",
        "auth/keys.rs",
        "auth/invite.rs",
        "cycle/admission.rs",
        "cycle/enrolment.rs",
        "store/shared_keys.rs",
        "store/invites.rs",
    ] {
        for line in source(name).lines().filter(|line| line.contains("==") || line.contains("!=")) {
            for word in ["tag", "sig ", "sig)", "secret ", "bootstrap", "shared"] {
                assert!(!line.contains(word), "{name}: {line}");
            }
        }
    }
}
