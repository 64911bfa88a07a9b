//! Observations of members: whose word shortens a suspicion, and how it is quoted.

use crate::federation::{BY_HAND, Federation, Node};
use crate::harness::Ran;
use crate::signed::{observation, payload, saw, sealed};
use crate::stand_in::{StandIn, saying};
use crowny_fed::auth::keys;
use crowny_fed::auth::pae;
use crowny_fed::auth::vkey::key_id;
use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::host::real::RealHost;
use crowny_fed::journal::line::Author;
use crowny_fed::journal::record::{Enroll, Record};
use crowny_fed::layout::Layout;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::store::disk::Disk;
use crowny_fed::store::draft::Draft;
use crowny_fed::store::identity::Identity;
use crowny_fed::store::ledger::{Ledger, Mend};
use crowny_fed::store::log_keys;
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Five of them: 6, 4, 3, 2 ticks with 0 to 3 accusers beside the anchor.
const FORMULA: &str = "interval = \"0\"\n";

/// Five members, all served and equal.
fn five() -> (Federation, Vec<Node>) {
    let fed = Federation::with(FORMULA);
    let nodes: Vec<Node> = ["n1", "n2", "n3", "n4"].map(|id| fed.join(id)).into();
    nodes.iter().for_each(|node| drop(node.good(&["sync"])));
    (fed, nodes)
}

#[track_caller]
fn tell(fed: &Federation, (node, key): (&str, &SigningKey), what: (u64, Vec<Value>)) {
    let answer = crate::harness::post(fed.anchor.port, "/observe", &observation(node, key, what));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn what_the_anchor_reaches_itself_is_not_accused() {
    let (fed, nodes) = five();
    for _ in 0..3 {
        for node in &nodes[1..] {
            tell(
                &fed,
                (&node.id, &node.key()),
                (0, vec![saw("n1", 1, "failed"), saw("n1", 1, "unheard")]),
            );
        }
        fed.anchor.idle();
    }
}

#[test]
fn only_the_healthy_accuse_and_only_whom_they_know_as_it_is_now() {
    let (fed, mut nodes) = five();
    nodes[0].stop();
    let [_, n2, n3, n4] = &nodes[..] else { panic!("four") };
    tell(&fed, (&n2.id, &n2.key()), (1, vec![saw("n1", 1, "unheard")]));
    tell(&fed, (&n3.id, &n3.key()), (2, vec![saw("n1", 1, "failed")]));
    tell(&fed, (&n4.id, &n4.key()), (0, vec![saw("n1", 2, "failed"), saw("n3", 1, "answered")]));
    fed.anchor.tick();
    let doubted = fed.anchor.payloads("verdict").remove(0);
    assert_eq!(doubted["evidence"]["accusers"], json!(["gw1", "n2"]));
    let quoted = doubted["evidence"]["observations"].as_array().unwrap().clone();
    assert_eq!(quoted, [fed.anchor.text("observations/n2.json")], "verbatim");
    // Whoever holds the line can check it without asking anybody.
    let told: Value = serde_json::from_str(quoted[0].as_str().unwrap()).unwrap();
    let signed = pae::encode("observe", told["payload"].as_str().unwrap());
    assert!(keys::verify(&n2.key().verifying_key(), &signed, told["sig"].as_str().unwrap()));
    for _ in 0..3 {
        fed.anchor.idle();
    }
    fed.anchor.tick();
    let verdicts = fed.anchor.payloads("verdict");
    let dead = verdicts.iter().find(|verdict| verdict["to"] == "dead").unwrap();
    assert_eq!((&dead["needed"], &dead["waited"]), (&json!(4), &json!(4)));
    assert_eq!(dead["evidence"]["accusers"], json!(["gw1", "n2"]));
    let story = fed.anchor.good(&["why", "n1"]);
    assert!(story.contains("missed by gw1 n2"), "{story}");
    assert!(story.contains("signed observations in the line: 1"), "{story}");
}

#[test]
fn all_who_miss_it_shorten_a_suspicion_to_its_least() {
    let (fed, mut nodes) = five();
    nodes[0].stop();
    fed.anchor.tick();
    // By their own ticks, as they see it.
    for node in &nodes[1..] {
        node.tick();
    }
    fed.anchor.idle();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "dead 1");
    let verdicts = fed.anchor.payloads("verdict");
    let dead = verdicts.iter().find(|verdict| verdict["to"] == "dead").unwrap();
    assert_eq!((&dead["needed"], &dead["waited"]), (&json!(2), &json!(2)));
    assert_eq!(dead["evidence"]["accusers"], json!(["gw1", "n2", "n3", "n4"]));
}

/// What somebody said three ticks ago is no longer what it sees.
#[test]
fn an_old_accusation_does_not_count() {
    let (fed, mut nodes) = five();
    let n2 = &nodes[1];
    tell(&fed, (&n2.id, &n2.key()), (0, vec![saw("n1", 1, "failed")]));
    for _ in 0..3 {
        fed.anchor.idle();
    }
    nodes[0].stop();
    fed.anchor.tick();
    let doubted = fed.anchor.payloads("verdict").remove(0);
    assert_eq!(doubted["evidence"]["accusers"], json!(["gw1"]), "{doubted}");
    assert!(doubted["evidence"].get("observations").is_none());
}

/// A word about an incarnation that was refuted says nothing of the one that followed.
#[test]
fn a_refuted_accusation_is_over() {
    let (fed, mut nodes) = five();
    nodes[0].stop();
    fed.anchor.tick();
    tell(&fed, ("n2", &nodes[1].key()), (0, vec![saw("n1", 1, "failed")]));
    nodes[0].serve();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
    nodes[0].stop();
    fed.anchor.tick();
    let verdicts = fed.anchor.payloads("verdict");
    let of_node = |verdict: &&Value| verdict["inc"] == 2 && verdict.get("service").is_none();
    let again = verdicts.iter().find(of_node).unwrap();
    assert_eq!(again["evidence"]["accusers"], json!(["gw1"]));
}

fn key(nth: u8) -> SigningKey {
    SigningKey::from_bytes(&[nth + 1; 32])
}

/// Members that nobody can dial, whose keys the test holds, offering these services.
fn crowd(anchor: &Node, ids: &[String], services: &Value) {
    let host = RealHost::new(Dialer::new(Options::default()));
    let layout = Layout::new(&anchor.dir);
    let disk = Disk { host: &host, layout: &layout };
    let identity = Identity::require(&disk).unwrap();
    let mut ledger = Ledger::open(disk, &identity, Mend::Yes).unwrap();
    let now_s = ledger.tip().ts;
    let mut drafts = Vec::new();
    for (nth, id) in (0..).zip(ids) {
        let public = keys::render_public(&key(nth).verifying_key());
        let kid = key_id(id, 1, key(nth).verifying_key().as_bytes()).to_string();
        let node = NodeId::parse(id).unwrap();
        let enroll = Enroll {
            node,
            alg: keys::ED25519.into(),
            kid: kid.clone(),
            key: Some(public),
            invite: None,
            nonce: None,
            services: Vec::new(),
        };
        drafts.push(Draft::from(Record::Enroll(enroll)));
        let fields =
            json!({ "incarnation": 1, "urls": [], "services": services, "reach": "outbound" });
        let envelope = sealed(&key(nth), "register", &payload(id, fields));
        let envelope: Value = serde_json::from_str(&envelope).unwrap();
        let sig = envelope["sig"].as_str().unwrap().to_owned();
        let author = Author { alg: keys::ED25519.into(), kid, sig };
        drafts.push(Draft::submitted("register", envelope["payload"].as_str().unwrap(), author));
    }
    ledger.append(drafts, now_s).unwrap();
    ledger.publish(&log_keys::signing(&disk, &identity, ledger.fold(), now_s).unwrap()).unwrap();
}

/// 64 members miss one more: the line holds as many of their words as fit, and hashes of the rest.
#[test]
fn a_line_with_many_accusers_has_its_limit() {
    for (digits, sightings) in [(2, 1), (2, 64), (64, 1), (64, 64)] {
        let fed = Federation::with(BY_HAND);
        let mut n1 = fed.join("n1");
        let ids: Vec<String> =
            (0..64).map(|nth| format!("m{nth:0width$}", width = digits - 1)).collect();
        crowd(&fed.anchor, &ids, &json!([]));
        n1.stop();
        for (nth, id) in (0..).zip(&ids) {
            let seen = vec![saw("n1", 1, "unheard"); sightings];
            tell(&fed, (id, &key(nth)), (0, seen));
        }
        let ran = fed.anchor.fed(&["tick"]);
        assert_eq!(ran.code, Some(0), "{digits} digits, {sightings} sightings: {ran:?}");
        let line =
            fed.anchor.lines().into_iter().find(|line| line.contains("probe-failed")).unwrap();
        assert!(line.len() <= 16_384, "{}", line.len());
        let evidence = fed.anchor.payloads("verdict").remove(0)["evidence"].clone();
        let list = |name: &str| evidence[name].as_array().cloned().unwrap_or_default();
        assert_eq!(list("accusers").len(), 65);
        let (quoted, hashed) = (list("observations"), list("observation_hashes"));
        assert_eq!(quoted.len() + hashed.len(), 64);
        assert!(!quoted.is_empty() || sightings == 64, "none is quoted");
        let bytes: usize = quoted.iter().map(|text| text.as_str().unwrap().len()).sum();
        assert!(bytes <= 12_000, "{bytes}");
        let mut held: Vec<String> =
            ids.iter().map(|id| fed.anchor.text(&format!("observations/{id}.json"))).collect();
        held.retain(|text| !quoted.iter().any(|quote| quote == text));
        let hash = |text: &String| -> Value {
            Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
        };
        let (mut hashes, mut hashed) = (held.iter().map(hash).collect::<Vec<_>>(), hashed);
        hashes.sort_by_key(Value::to_string);
        hashed.sort_by_key(Value::to_string);
        assert_eq!(hashed, hashes, "of every other one");
        fed.anchor.good(&["verify", "--full"]);
    }
}

/// A tick that could not write its line would never write another.
#[test]
fn a_death_with_many_heirs_has_its_limit() {
    let fed = Federation::with(BY_HAND);
    let gateway = StandIn::before(1);
    gateway.answer(|_| saying("200 OK", b""));
    let names = ["web", "api", "mail"];
    let mut n1 = fed.machine("n1");
    let invited: Vec<&str> = names.iter().flat_map(|name| ["--service", name]).collect();
    let invitation = fed.anchor.good(&[&["invite", "n1"], &invited[..]].concat());
    let offers = names.map(|name| format!("{name}={}", gateway.url()));
    let offered: Vec<&str> = offers.iter().flat_map(|offer| ["--service", offer]).collect();
    let place = n1.url();
    let join = [&["join", "--url", &place], &offered[..], &["-"]].concat();
    Ran::of(crate::harness::fed(&n1.dir, &join), &invitation).expect(0);
    n1.serve();
    let service = |name: &&str| json!({ "name": name, "url": gateway.url(), "weight": 1 });
    let services: Vec<Value> = names.iter().map(service).collect();
    let ids: Vec<String> = (0..80).map(|nth| format!("m{nth:063}")).collect();
    crowd(&fed.anchor, &ids, &services.into());
    fed.anchor.idle();
    n1.stop();
    for _ in 0..3 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.standing("n1"), "dead 1");
    let dead = fed.anchor.last_verdict();
    for name in names {
        let heirs = dead["heirs"][name].as_array().unwrap();
        assert!(!heirs.is_empty() && heirs.len() <= 81, "{name}: {}", heirs.len());
    }
    assert!(fed.anchor.lines().iter().all(|line| line.len() <= 16_384));
    fed.anchor.good(&["verify", "--full"]);
}

/// Names of 64 Hangul syllables take three times the room.
#[test]
fn long_names_cost_no_line() {
    let fed = Federation::with(BY_HAND);
    let mut n1 = fed.join("n1");
    let syllables = |nth: u32| -> String {
        (0..64).map(|at| char::from_u32('가' as u32 + nth * 64 + at).unwrap()).collect()
    };
    let ids: Vec<String> = (0..64).map(syllables).collect();
    crowd(&fed.anchor, &ids, &json!([]));
    n1.stop();
    for (nth, id) in (0..).zip(&ids) {
        tell(&fed, (id, &key(nth)), (0, vec![saw("n1", 1, "unheard")]));
    }
    for _ in 0..3 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.standing("n1"), "dead 1");
    assert!(fed.anchor.lines().iter().all(|line| line.len() <= 16_384));
    fed.anchor.good(&["verify", "--full"]);
}

/// It runs the tick, so it lives: others that cannot reach it accuse it in vain (law 5).
#[test]
fn the_anchor_is_not_accused_of_being_dead() {
    let (fed, nodes) = five();
    for _ in 0..3 {
        for node in &nodes {
            tell(&fed, (&node.id, &node.key()), (0, vec![saw("gw1", 0, "unheard")]));
        }
        fed.anchor.idle();
    }
    assert_eq!(fed.anchor.row("web", "gw1").unwrap(), "alive");
}

/// Nobody can have dialled a member that is outbound, or has not said where it answers.
#[test]
fn who_cannot_be_dialled_is_not_accused_of_silence() {
    let fed = Federation::with(BY_HAND);
    let n1 = fed.join("n1");
    let outbound = fed.machine("n2");
    fed.enter(&outbound, &["--reach", "outbound"]);
    for _ in 0..3 {
        tell(&fed, ("n1", &n1.key()), (0, vec![saw("n2", 1, "failed")]));
        fed.anchor.idle();
    }
}
