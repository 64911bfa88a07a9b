//! What `/q/health` says is the node's own, and an answer that is not is the gateway's.

use crate::federation::{Federation, Node, ORIGIN};
use crate::harness::{Answer, get};
use crate::signed::fresh_hex;
use crate::stand_in::{Says, saying};
use crowny_fed::auth::keys;
use crowny_fed::journal::keyring::KeyRecord;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::wire::health::Question;
use serde_json::Value;

/// The key of a node as the journal has it.
pub fn record(node: &Node) -> KeyRecord {
    let key = keys::render_public(&node.key().verifying_key());
    KeyRecord { alg: "ed25519".into(), kid: String::new(), key: Some(key) }
}

/// Whether `answer` is the word of `node` under the challenge `c`.
pub fn is_own(answer: &Answer, (origin, node, c): (&str, &str, &str), key: &KeyRecord) -> bool {
    let node = NodeId::parse(node).unwrap();
    Question { origin, node: &node, c, keys: &[key] }.own(&answer.body).is_some()
}

#[test]
fn an_agent_signs_what_it_says_for_whoever_asks() {
    let fed = Federation::found();
    let (n1, n2) = (fed.join("n1"), fed.join("n2"));
    for node in [&fed.anchor, &n1] {
        let (c, key) = (fresh_hex(), record(node));
        let answer = node.unchanged(|| get(node.port, &format!("/q/health?c={c}")));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let id = node.id.as_str();
        assert!(is_own(&answer, (ORIGIN, id, &c), &key), "{}", answer.text());
        assert!(!is_own(&answer, (ORIGIN, id, &fresh_hex()), &key), "an old answer");
        assert!(!is_own(&answer, ("other.example", id, &c), &key), "another federation");
        assert!(!is_own(&answer, (ORIGIN, "n2", &c), &key), "another node");
        assert!(!is_own(&answer, (ORIGIN, id, &c), &record(&n2)), "another key");
        let held: Value = answer.json();
        assert_eq!(held["incarnation"], node.json("self.json")["incarnation"]);
        // Every field that is signed counts.
        for name in ["incarnation", "size", "head", "tick", "node", "c", "sig"] {
            let mut changed = held.clone();
            changed[name] = Value::Null;
            let body = changed.to_string().into_bytes();
            assert!(!is_own(&Answer { body, ..answer.clone() }, (ORIGIN, id, &c), &key), "{name}");
        }
        let plain = node.unchanged(|| get(node.port, "/q/health")).json();
        assert!(plain.get("sig").is_none() && plain.get("c").is_none(), "{plain}");
    }
}

#[test]
fn a_challenge_of_another_form_is_refused() {
    let fed = Federation::found();
    let (lower, upper) = ("0123456789abcdef".repeat(2), "0123456789ABCDEF".repeat(2));
    assert_eq!(get(fed.anchor.port, &format!("/q/health?c={lower}")).status, 200);
    let long = format!("{lower}0");
    let wrong = ["", "0", &lower[1..], &long, &upper, &lower.replace('f', "g"), "%20", "-1"];
    for c in wrong {
        let path = format!("/q/health?c={c}");
        let answer = fed.anchor.unchanged(|| get(fed.anchor.port, &path));
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.text().contains("32"), "{}", answer.text());
    }
}

/// (grafana/dskit PR 1034.) While the node itself still speaks, its gateway accuses it of nothing.
#[test]
fn an_answer_that_is_not_the_nodes_own_is_the_gateways() {
    let fed = Federation::found();
    let (mut n1, front) = fed.join_agent_behind("n1");
    let n2 = fed.join("n2");
    fed.anchor.idle();
    let old = get(n1.port, &format!("/q/health?c={}", fresh_hex())).body;
    let unsigned = get(n1.port, "/q/health").body;
    let lies: [Box<dyn Fn() -> Says + Send + Sync>; 6] = [
        Box::new(move || saying("200 OK", &unsigned)),
        Box::new(move || saying("200 OK", &old)),
        Box::new(move || Says::Another(n2.port)),
        Box::new(|| saying("200 OK", b"<html>welcome</html>")),
        Box::new(|| saying("502 Bad Gateway", b"")),
        Box::new(|| saying("301 Moved Permanently", b"")),
    ];
    for (nth, lie) in lies.into_iter().enumerate() {
        // A word of its own with the tick after next, and then the agent is dead.
        n1.tick();
        n1.stop();
        front.answer(move |_| lie());
        for _ in 0..3 {
            fed.anchor.idle();
        }
        let told = fed.anchor.tick();
        assert_eq!(told, "n1 alive -> suspect (probe-failed)\n", "lie {nth}");
        let verdict = fed.anchor.last_verdict();
        let probe = &verdict["evidence"]["probe"];
        assert_eq!(probe["reason"], "unsigned", "lie {nth}: {verdict}");
        assert_eq!(probe["heard"], true, "the gateway was heard: {verdict}");
        n1.serve();
        front.honest();
        fed.anchor.tick();
        assert_eq!(fed.anchor.standing("n1"), format!("alive {}", nth + 2));
    }
}

/// A member that shares its key with the anchor alone has a plain answer, which has to do.
#[test]
fn a_member_with_a_shared_key_answers_plainly() {
    let fed = Federation::found();
    let mut n1 = fed.machine("n1");
    let invitation = fed.anchor.good(&["invite", "n1", "--alg", "hmac-sha256"]);
    let join = crate::harness::fed(&n1.dir, &["join", "--url", &n1.url(), "-"]);
    crate::harness::Ran::of(join, &invitation).quiet();
    n1.serve();
    fed.anchor.idle();
    n1.stop();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "suspect 1");
    n1.serve();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
}
