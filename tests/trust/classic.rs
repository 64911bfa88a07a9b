//! The four classic checks, over real HTTP: impostor, good node, replay, wrong clock.

use crate::harness::{Anchor, fed, run};
use crate::member::{Key, Member, fresh_key, now_s};
use crowny_fed::auth::envelope::Envelope;
use serde_json::Value;
use std::fs;

#[test]
fn an_impostor_without_the_key_is_refused_and_nothing_is_written() {
    let anchor = Anchor::start();
    let member = anchor.enrol("n1");
    let good = member.register(now_s(), 0);
    let mut unsigned = good.clone();
    unsigned.sig = None;
    let other = member.with(Key::Ed25519(Box::new(fresh_key()))).register(now_s(), 0);
    let anchors = Member::ed25519(&member.origin, "gw1").register(now_s(), 9);
    let mut altered = good.clone();
    altered.payload = altered.payload.replace("127.0.0.1:1", "127.0.0.1:2");
    let mut bodies = Vec::new();
    for forged in [unsigned, other, anchors, altered] {
        let answer = anchor.refuses("/register", &forged.render(), 403);
        assert_eq!(answer.json()["error"], "signature");
        bodies.push(answer.body);
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "all forgeries look alike");
    let stranger = Member::ed25519(&member.origin, "stranger").register(now_s(), 0);
    let answer = anchor.refuses("/register", &stranger.render(), 401);
    assert!(answer.message().contains("stranger"), "{}", answer.message());
    // Nothing was burned by all that: the real one still passes.
    assert_eq!(anchor.post("/register", &good.render()).status, 200);
}

#[test]
fn a_good_node_passes_and_its_line_can_be_checked_offline() {
    let anchor = Anchor::start();
    for member in [anchor.enrol("n1"), anchor.enrol_shared("서울-1")] {
        let envelope = member.offer(now_s(), 0, &format!("web-{}", member.node));
        let answer = anchor.post("/register", &envelope.render());
        assert_eq!(answer.status, 200, "{}", answer.text());
        let told = answer.json();
        let line = anchor.lines().pop().unwrap();
        assert_eq!(told["seq"], line["seq"]);
        assert_eq!(line["payload"], envelope.payload, "the bytes as they were signed");
        assert_eq!((&line["alg"], &line["sig"]), (&member.mode().into(), &envelope.sig.into()));
        assert_eq!(told["checkpoint"], anchor.text("federation-root.txt"));
        checks(&anchor, told["hash"].as_str().unwrap());
    }
    let verified = anchor.good(&["verify", "--full", "--json"]);
    let verified: Value = serde_json::from_str(&verified).unwrap();
    // Genesis, the anchor's own registration and n1's; the other one rests on the checkpoint.
    assert_eq!((&verified["signatures"], &verified["by_checkpoint_alone"]), (&3.into(), &1.into()));
    assert!(anchor.text("federated-routes.txt").contains("web-n1|n1|"));
}

/// The proof of the newest line holds with nothing but files and the key.
fn checks(anchor: &Anchor, hash: &str) {
    let proof = anchor.get(&format!("/proof?hash={hash}"));
    let elsewhere = anchor.folder.path();
    let newest = anchor.text("nodes.ndjson").lines().last().unwrap().to_owned();
    fs::write(elsewhere.join("proof"), proof.body).unwrap();
    fs::write(elsewhere.join("line"), newest + "\n").unwrap();
    let mut check = fed(elsewhere, &["proof", "--check", "proof", "--line", "line", "--vkey"]);
    check.arg(anchor.vkey()).current_dir(elsewhere);
    let ran = run(check, "");
    assert!(ran.code == Some(0) && ran.out.starts_with("verified"), "{ran:?}");
}

#[test]
fn a_replay_is_refused_and_names_the_line_it_made() {
    let anchor = Anchor::start();
    let member = anchor.enrol("n1");
    let envelope = member.register(now_s(), 0).render();
    let seq = anchor.post("/register", &envelope).json()["seq"].clone();
    for _ in 0..2 {
        let answer = anchor.refuses("/register", &envelope, 409);
        assert_eq!(answer.json()["error"], "nonce-used");
        assert!(answer.message().contains(&format!("line {seq}")), "{}", answer.message());
    }
    // A nonce is one use, whatever it is used for.
    let mut again = member.registration(now_s(), 1);
    again["nonce"] = serde_json::from_str::<Value>(&envelope).unwrap()["nonce"].clone();
    let again = member.envelope("register", &again.to_string());
    anchor.refuses("/register", &again.render(), 409);
    // What changes nothing makes no line, and its nonce is used up all the same.
    let same = member.register(now_s(), 0).render();
    let answer = anchor.post("/register", &same);
    assert_eq!((answer.status, &answer.json()["seq"]), (200, &seq));
    assert_eq!(anchor.lines().len() as u64, seq.as_u64().unwrap() + 1);
    anchor.refuses("/register", &same, 409);
}

#[test]
fn a_word_that_changes_nothing_makes_no_line() {
    let anchor = Anchor::start();
    let member = anchor.enrol("n1");
    let say = |path: &str, envelope: Envelope| {
        let answer = anchor.post(path, &envelope.render());
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()["seq"].clone()
    };
    let first = say("/register", member.register(now_s(), 0));
    assert_eq!(say("/drain", member.drain(now_s(), false)), first);
    let drains = say("/drain", member.drain(now_s(), true));
    assert_eq!(say("/drain", member.drain(now_s(), true)), drains);
    let left = say("/leave", member.leave(now_s(), 0));
    assert_eq!(say("/leave", member.leave(now_s(), 0)), left);
    assert_eq!(anchor.lines().len() as u64, left.as_u64().unwrap() + 1);
    assert!(first.as_u64() < drains.as_u64() && drains.as_u64() < left.as_u64());
}

#[test]
fn a_clock_beyond_the_window_is_refused_and_the_difference_named() {
    let anchor = Anchor::start();
    let member = anchor.enrol("n1");
    for (ts, direction) in [
        (now_s() + 400, "ahead"),
        (now_s() - 400, "behind"),
        (0, "behind"),
        (now_s() + 310, "ahead"),
    ] {
        let sent_at = now_s();
        let answer = anchor.refuses("/register", &member.register(ts, 0).render(), 408);
        assert_eq!(answer.json()["error"], "clock-skew");
        let message = answer.message();
        let near = |wanted: u64, unit: &str| {
            (wanted.saturating_sub(5)..=wanted + 5)
                .any(|number| message.contains(&format!("{number}{unit}")))
        };
        assert!(near(ts.abs_diff(sent_at), &format!(" s {direction}")), "{message}");
        assert!(near(sent_at, ""), "server time in {message}");
        let date = answer.header("date").expect("a Date header");
        let date = jiff::fmt::rfc2822::parse(date).unwrap().timestamp().as_second();
        assert!(date.unsigned_abs().abs_diff(sent_at) <= 5, "{date}");
    }
    // Without the key nobody learns what time it is here.
    let stranger = member.with(Key::Ed25519(Box::new(fresh_key())));
    let answer = anchor.refuses("/register", &stranger.register(0, 0).render(), 403);
    assert!(!answer.message().contains(" s "), "{}", answer.message());
    for (ts, incarnation) in [(now_s() - 290, 1), (now_s() + 290, 2)] {
        let answer = anchor.post("/register", &member.register(ts, incarnation).render());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}
