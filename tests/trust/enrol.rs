//! Letting a node in: once, by who holds the secret, and without losing it when a wire breaks.

use crate::harness::{Anchor, Folder, fed, free_port, run};
use crate::member::{Key, Member, enrolment, fresh_key, fresh_nonce, now_s, sealed};
use crate::proxy::Proxy;
use crate::world::Simulated;
use crowny_fed::auth::envelope::Envelope;
use crowny_fed::auth::gate::Refusal;
use crowny_fed::auth::invite::Invite;
use crowny_fed::auth::{keys, pae};
use crowny_fed::cycle::enrolment::{Wanted, invite, revoke};
use crowny_fed::protocol::member::NodeId;
use crowny_fed::sim::disk::FAULTS;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

#[test]
fn an_invitation_is_used_once_and_the_same_request_again_gets_the_same_answer() {
    let mut anchor = Anchor::start();
    for alg in ["ed25519", "hmac-sha256"] {
        let node = format!("n-{alg}");
        let invite = anchor.invite(&[&node, "--alg", alg]);
        let (key, nonce) = (fresh_key(), fresh_nonce());
        let body = enrolment(&invite, &key, &nonce, now_s()).render();
        let first = anchor.post("/enroll", &body);
        assert_eq!(first.status, 200, "{}", first.text());
        let journal = anchor.text("nodes.ndjson");
        anchor.restart();
        // The same bytes, and the same request at a later time.
        for again in [body, enrolment(&invite, &key, &nonce, now_s() + 20).render()] {
            let answer = anchor.post("/enroll", &again);
            assert_eq!((answer.status, answer.json()), (200, first.json()));
        }
        let seq = &first.json()["seq"];
        let other_nonce = enrolment(&invite, &key, &fresh_nonce(), now_s());
        let other_key = enrolment(&invite, &fresh_key(), &nonce, now_s());
        let others: &[_] =
            if alg == "ed25519" { &[other_nonce, other_key] } else { &[other_nonce] };
        for other in others {
            let answer = anchor.refuses("/enroll", &other.render(), 409);
            assert!(answer.message().contains(&format!("line {seq}")), "{}", answer.message());
        }
        assert_eq!(anchor.text("nodes.ndjson"), journal);
    }
}

/// The anchor commits, the answer is lost, the anchor is killed: the node just asks again.
#[test]
fn an_enrolment_whose_answer_was_lost_is_finished_by_asking_again() {
    let port = free_port();
    let proxy = Proxy::to(port);
    let mut anchor = Anchor::behind(crate::harness::ORIGIN, proxy.port, port);
    let string = anchor.good(&["invite", "n1"]);
    let home = Folder::new();
    let join = || run(fed(home.path(), &["join", "--url", "http://127.0.0.1:1", "-"]), &string);
    anchor.stop();
    let ran = join();
    assert!(ran.code == Some(1) && ran.err.contains("no anchor answered"), "{ran:?}");
    anchor.restart();
    // First the answer to the enrolment is lost, then the one to the registration.
    for lost in ["enroll", "register"] {
        proxy.swallow(&format!("POST /{lost} "));
        let ran = join();
        assert_eq!(ran.code, Some(1), "{lost}: {ran:?}");
        let kinds: Vec<Value> = anchor.lines().iter().map(|line| line["type"].clone()).collect();
        assert_eq!(kinds.last().unwrap(), lost, "{ran:?}");
        anchor.restart();
    }
    let ran = join();
    assert!(ran.code == Some(0) && ran.out.contains("joined"), "{ran:?}");
    let enrolled = anchor.lines().iter().filter(|line| line["type"] == "enroll").count();
    assert_eq!(enrolled, 2, "the anchor's own and this one");
    run(fed(home.path(), &["register"]), "").good();
    anchor.good(&["verify", "--full"]);
}

#[test]
fn only_the_holder_of_secret_and_key_comes_in_and_nobody_learns_who_is_invited() {
    let anchor = Anchor::start();
    let (invite, other) = (anchor.invite(&["n1"]), anchor.invite(&["n2"]));
    let key = fresh_key();
    let good = enrolment(&invite, &key, &fresh_nonce(), now_s());
    let with = |change: &dyn Fn(&mut Envelope)| {
        let mut envelope = good.clone();
        change(&mut envelope);
        envelope
    };
    let proof_of =
        |key: &SigningKey, kind: &str| keys::sign(key, &pae::encode(kind, &good.payload));
    let under = |invite: &Invite| enrolment(invite, &key, &fresh_nonce(), now_s());
    let theirs = under(&other);
    let wrong = [
        // No code, one of another invitation, and none that was ever given.
        with(&|it| it.sig = None),
        with(&|it| it.sig.clone_from(&theirs.sig)),
        under(&Invite { secret: [3; 32].into(), ..copy(&invite) }),
        // K is bound to the node: n2's secret opens nothing for n1, in either reading.
        under(&Invite { node: "n1".into(), ..copy(&other) }),
        sealed(&other, &key, &serde_json::from_str(&good.payload).unwrap()),
        under(&Invite { node: "nobody".into(), ..copy(&invite) }),
        // Without the key, or with the word of another key or for another purpose.
        with(&|it| it.proof = None),
        with(&|it| it.proof = Some(proof_of(&fresh_key(), "enroll"))),
        with(&|it| it.proof = Some(proof_of(&key, "register"))),
    ];
    let told = wrong.map(|envelope| anchor.refuses("/enroll", &envelope.render(), 403).body);
    assert!(told.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(anchor.post("/enroll", &good.render()).status, 200);
}

#[test]
fn an_invited_node_comes_in_as_agreed_and_not_otherwise() {
    let anchor = Anchor::start();
    let invite = anchor.invite(&["n1", "--service", "web"]);
    let key = fresh_key();
    let good = enrolment(&invite, &key, &fresh_nonce(), now_s());
    let asks = |change: &dyn Fn(&mut Value)| {
        let mut payload: Value = serde_json::from_str(&good.payload).unwrap();
        change(&mut payload);
        sealed(&invite, &key, &payload)
    };
    let refused = [
        (asks(&|it| it["origin"] = "elsewhere.example".into()), 400),
        (asks(&|it| it["mode"] = "hmac-sha256".into()), 400),
        (asks(&|it| it["services"] = json!(["web", "more"])), 400),
        (asks(&|it| drop(it.as_object_mut().unwrap().remove("key"))), 400),
        (asks(&|it| it["ts"] = (now_s() - 400).into()), 408),
        (asks(&|it| it["ts"] = (now_s() + 400).into()), 408),
    ];
    for (envelope, status) in refused {
        anchor.refuses("/enroll", &envelope.render(), status);
    }
    assert_eq!(anchor.post("/enroll", &good.render()).status, 200);
    // What the invitation binds is this node's from here on.
    let thief = anchor.enrol("n2");
    anchor.refuses("/register", &thief.offer(now_s(), 0, "web").render(), 403);
    let member = thief.with(Key::Ed25519(Box::new(key)));
    let member = Member { node: "n1".to_owned(), ..member };
    assert_eq!(anchor.post("/register", &member.offer(now_s(), 0, "web").render()).status, 200);
}

/// Secrets have no `Clone` by accident, so a test copies each part.
fn copy(invite: &Invite) -> Invite {
    Invite {
        url: invite.url.clone(),
        vkey: invite.vkey.clone(),
        node: invite.node.clone(),
        alg: invite.alg.clone(),
        expiry: invite.expiry,
        secret: invite.secret.clone(),
    }
}

#[test]
fn an_invitation_is_over_to_the_second_and_at_most_64_are_open() {
    let anchor = Simulated::found(1);
    let late = anchor.invite("n1", "ed25519", false);
    anchor.pass_s(3_599);
    let in_time = anchor.invite("n2", "ed25519", false);
    let (key, nonce) = (fresh_key(), fresh_nonce());
    let burned = enrolment(&in_time, &key, &nonce, anchor.now_s());
    let first = anchor.enroll(&burned).unwrap();
    anchor.pass_s(1);
    let before = anchor.journal();
    let ended = anchor.enroll(&enrolment(&late, &fresh_key(), &fresh_nonce(), anchor.now_s()));
    assert_eq!(ended, Err(Refusal::Signature));
    // Repeatable until its time is over, and not after.
    anchor.pass_s(3_598);
    assert_eq!(anchor.enroll(&enrolment(&in_time, &key, &nonce, anchor.now_s())), Ok(first));
    anchor.pass_s(1);
    let ended = anchor.enroll(&enrolment(&in_time, &key, &nonce, anchor.now_s()));
    assert_eq!(ended, Err(Refusal::Signature));
    assert_eq!(anchor.journal(), before);

    let wanted = |n: usize| Wanted {
        node: NodeId::parse(&format!("m{n}")).unwrap(),
        services: Vec::new(),
        ttl_s: 60,
        alg: "ed25519".to_owned(),
        replace: false,
    };
    for n in 0..64 {
        invite(&anchor.host, &anchor.config, wanted(n)).unwrap();
    }
    let refused = invite(&anchor.host, &anchor.config, wanted(64)).err().unwrap();
    assert!(refused.message.contains("64 invitations are open"), "{refused}");
    anchor.pass_s(60);
    invite(&anchor.host, &anchor.config, wanted(64)).unwrap();
}

#[test]
fn replace_ends_the_lost_key_and_the_incarnation_goes_on_above() {
    let anchor = Anchor::start();
    let lost = anchor.enrol("n1");
    assert_eq!(anchor.post("/register", &lost.register(now_s(), 41).render()).status, 200);
    let refused = anchor.fed(&["invite", "n1"]);
    assert!(refused.code == Some(1) && refused.err.contains("--replace"), "{refused:?}");
    let invite = anchor.invite(&["n1", "--replace"]);
    // Until the new key is there, the old one speaks.
    assert_eq!(anchor.post("/register", &lost.register(now_s(), 42).render()).status, 200);
    let found = lost.with(Key::Ed25519(Box::new(fresh_key())));
    let body = enrolment(&invite, found.seed(), &fresh_nonce(), now_s()).render();
    assert_eq!(anchor.post("/enroll", &body).status, 200);
    let kinds: Vec<Value> = anchor.lines().iter().map(|line| line["type"].clone()).collect();
    assert_eq!(kinds[kinds.len() - 2..], ["revoke", "enroll"]);
    anchor.refuses("/register", &lost.register(now_s(), 50).render(), 403);
    let answer = anchor.refuses("/register", &found.register(now_s(), 42).render(), 409);
    assert!(answer.message().contains("42"), "{}", answer.message());
    assert_eq!(anchor.post("/register", &found.register(now_s(), 43).render()).status, 200);
    anchor.good(&["verify", "--full"]);
}

/// The same with the verbs, on a machine that knows nothing of the lost one.
#[test]
fn a_machine_that_replaces_a_lost_one_joins_with_one_command() {
    let anchor = Anchor::start();
    let (old, new) = (Folder::new(), Folder::new());
    let url = ["--url", "http://127.0.0.1:1"];
    let string = anchor.good(&["invite", "n1"]);
    run(fed(old.path(), &["join", url[0], url[1], "-"]), &string).good();
    for _ in 0..4 {
        run(fed(old.path(), &["register"]), "").good();
    }
    let string = anchor.good(&["invite", "n1", "--replace"]);
    run(fed(new.path(), &["join", url[0], url[1], "-"]), &string).good();
    let ran = run(fed(old.path(), &["register"]), "");
    assert!(ran.code == Some(1) && ran.err.contains("403"), "{ran:?}");
    run(fed(new.path(), &["register"]), "").good();
}

/// An invitation that was used stays used, whatever was invited and revoked since.
#[test]
fn no_later_invitation_makes_an_earlier_one_good_again() {
    let node = NodeId::parse("n1").unwrap();
    for replace in [false, true] {
        let anchor = Simulated::found(2);
        let mut used = Vec::new();
        for round in 0..3 {
            let invite = anchor.invite("n1", "ed25519", replace && round > 0);
            let key = fresh_key();
            let request = enrolment(&invite, &key, &fresh_nonce(), anchor.now_s());
            anchor.enroll(&request).unwrap();
            used.push((invite, key, request));
            if !replace {
                revoke(&anchor.host, &anchor.config, &node).unwrap();
            }
        }
        let before = anchor.journal();
        for (round, (invite, key, request)) in used.iter().enumerate() {
            let newest = round == 2;
            // Told again what it made, or refused: it makes nothing more.
            let _ = anchor.enroll(request);
            assert_eq!(anchor.journal(), before, "{round}: a burned invitation was taken again");
            let other = enrolment(invite, &fresh_key(), &fresh_nonce(), anchor.now_s());
            assert!(matches!(anchor.enroll(&other), Err(Refusal::Replay(_))), "{round}");
            let member = Member {
                url: "http://10.0.0.2:9160".to_owned(),
                ..Member::of(invite.vkey.name(), "n1", Key::Ed25519(Box::new(key.clone())))
            };
            let ended = anchor.submit("register", &member.register(anchor.now_s(), 99));
            assert_eq!(ended.is_ok(), replace && newest, "{round}: {ended:?}");
        }
        anchor.holds();
    }
}

/// Whatever the disk does at whatever change, asking again ends it, with one line and one key.
#[test]
fn an_enrolment_cut_off_at_any_change_of_the_disk_is_finished_by_asking_again() {
    for alg in ["ed25519", "hmac-sha256"] {
        for fault in FAULTS {
            for after in 0.. {
                let anchor = Simulated::found(after + 1);
                let invite = anchor.invite("n1", alg, false);
                let (key, nonce) = (fresh_key(), fresh_nonce());
                let request = enrolment(&invite, &key, &nonce, anchor.now_s());
                anchor.host.disk(|disk| disk.plan(after, fault));
                let first = anchor.enroll(&request);
                let met = first.is_err() || anchor.host.disk(|disk| disk.was_killed());
                anchor.host.reboot(false);
                let again = anchor.enroll(&request);
                let shown = format!("{alg} {fault:?} after {after}: {first:?}, then {again:?}");
                assert!(again.is_ok(), "{shown}");
                assert_eq!(anchor.lines_with("\\\"invite\\\""), 1, "{shown}");
                let member = if alg == "ed25519" {
                    Member::of(invite.vkey.name(), "n1", Key::Ed25519(Box::new(key)))
                } else {
                    Member::shared(&invite, &nonce)
                };
                let member = Member { url: "http://10.0.0.2:9160".to_owned(), ..member };
                let ended = anchor.submit("register", &member.register(anchor.now_s(), 0));
                assert!(ended.is_ok(), "{shown}, then {ended:?}");
                if !met {
                    assert!(after > 5, "a commit makes more changes than {after}");
                    break;
                }
            }
        }
    }
}

/// `-` reads the string from standard input, and no error repeats any of it.
#[test]
fn a_join_string_that_is_none_is_refused_without_repeating_it() {
    let anchor = Anchor::start();
    let string = anchor.good(&["invite", "n1"]);
    assert!(string.starts_with("cfed1") && string.lines().count() == 1);
    let home = Folder::new();
    let cut = &string[..string.len() / 2];
    let twisted = string.replacen("cfed1", "cfed2", 1);
    let long = "A".repeat(20_000);
    for bad in ["", "cfed1", cut, &twisted, &format!("{}!", string.trim_end()), &long] {
        let ran = run(fed(home.path(), &["join", "-"]), bad);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        let secret_part = &string[40..60];
        assert!(!ran.err.contains(secret_part) && !ran.out.contains(secret_part), "{ran:?}");
    }
    let mut names = std::fs::read_dir(home.path()).unwrap();
    assert!(names.next().is_none(), "nothing was begun");
}
