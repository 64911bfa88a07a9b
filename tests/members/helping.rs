//! Indirect probes: who may ask for one, what a helper can claim, and what one good word is worth.

use crate::federation::{BY_HAND, Federation, Node, ORIGIN};
use crate::harness::{Answer, get, post};
use crate::health::{is_own, record};
use crate::signed::{fresh_hex, now_s, payload, sealed, with};
use crate::stand_in::{Says, StandIn, saying};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// `n1` behind a stand-in and a helper that knows it, behind another.
fn with_helper(config: &str) -> (Federation, (Node, StandIn), (Node, StandIn)) {
    let fed = Federation::with(config);
    let n1 = fed.join_agent_behind("n1");
    let n2 = fed.join_agent_behind("n2");
    n1.0.good(&["sync"]);
    n2.0.good(&["sync"]);
    (fed, n1, n2)
}

fn asking(subject: &str, c: &str) -> Value {
    payload("gw1", json!({ "subject": subject, "c": c }))
}

/// Refused like this; nobody was dialled for it and nothing written.
#[track_caller]
fn refuses(helper: &Node, subject: &StandIn, (body, status): (&str, u16)) -> Answer {
    let asked = subject.asked().len();
    let answer = helper.unchanged(|| post(helper.port, "/q/ping-req", body));
    assert_eq!(answer.status, status, "{} to {body}", answer.text());
    assert_eq!(subject.asked().len(), asked, "dialled for {body}");
    answer
}

#[test]
fn only_a_member_may_ask_and_only_for_members() {
    let (fed, (n1, way), (n2, _)) = with_helper(BY_HAND);
    let n3 = fed.join("n3");
    std::fs::write(fed.anchor.file(crowny_fed::layout::ROSTER), "p1|127.0.0.1|1|edge|active\n")
        .unwrap();
    fed.anchor.tick();
    fed.anchor.good(&["revoke", "n3"]);
    n2.good(&["sync"]);
    let (key, key1, key3, c) = (fed.anchor.key(), n1.key(), n3.key(), fresh_hex());
    let good = asking("n1", &c);
    let sealed_by = |key, payload: &Value| sealed(key, "ping-req", payload);
    let body = sealed_by(&key, &good);
    let mut unsigned: Value = serde_json::from_str(&body).unwrap();
    unsigned.as_object_mut().unwrap().remove("sig");
    let as_n3 = payload("n3", json!({ "subject": "n1", "c": c }));
    let as_n9 = payload("n9", json!({ "subject": "n1", "c": c }));
    let altered = body.replace("\\\"subject\\\":\\\"n1\\\"", "\\\"subject\\\":\\\"n2\\\"");
    assert_ne!(altered, body);
    let at = |ts: u64| sealed_by(&key, &with(&good, "ts", ts.into()));
    for (body, status) in [
        (unsigned.to_string(), 403),
        (sealed_by(&key1, &good), 403),
        (sealed(&key, "observe", &good), 403),
        (altered, 403),
        (sealed_by(&key3, &as_n3), 401),
        (sealed_by(&key3, &as_n9), 401),
        (at(now_s() - 400), 408),
        (at(now_s() + 400), 408),
        (at(0), 408),
        (sealed_by(&key, &with(&good, "origin", "other.example".into())), 400),
        (sealed_by(&key, &with(&good, "c", "0".into())), 400),
        (sealed_by(&key, &with(&good, "c", c.replace('0', "A").into())), 400),
        (sealed_by(&key, &with(&good, "subject", way.url().into())), 400),
        (sealed_by(&key, &with(&good, "subject", "../n1".into())), 400),
        (sealed_by(&key, &with(&good, "url", way.url().into())), 400),
        ("{}".to_owned(), 400),
        (String::new(), 400),
        ("[".repeat(3_000), 400),
    ] {
        refuses(&n2, &way, (&body, status));
    }
    // Rows without a key, strangers and those who are gone have no agent to be asked.
    for subject in ["p1", "n9"] {
        let answer = refuses(&n2, &way, (&sealed_by(&key, &asking(subject, &c)), 200));
        assert_eq!(answer.json(), json!({ "reason": "no such member here" }));
    }
    let answer = n2.unchanged(|| post(n2.port, "/q/ping-req", &body));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let whole = answer.json()["answer"].as_str().unwrap().as_bytes().to_vec();
    let told = Answer { body: whole, ..answer };
    assert!(is_own(&told, (ORIGIN, "n1", &c), &record(&n1)), "{}", told.text());
}

/// The helper's word is the subject's word, or it is nothing.
#[test]
fn a_helper_cannot_claim_to_have_reached_the_dead() {
    let (fed, (mut n1, _), (n2, way)) = with_helper(BY_HAND);
    let c = fresh_hex();
    let old = get(n1.port, &format!("/q/health?c={c}")).text();
    let plain = get(n1.port, "/q/health").text();
    let own = get(n2.port, &format!("/q/health?c={c}")).text();
    n1.stop();
    let answer = |text: &str| json!({ "answer": text }).to_string();
    let mut posed: Value = serde_json::from_str(&plain).unwrap();
    posed["sig"] = "A".repeat(86).into();
    let lies = [
        (answer(&old), "could not either"),
        (answer(&plain), "could not either"),
        (answer(&own), "could not either"),
        (answer(&posed.to_string()), "could not either"),
        (answer("{}"), "could not either"),
        (answer(""), "could not either"),
        (json!({ "reason": "timeout" }).to_string(), "could not either"),
        ("{}".to_owned(), "could not either"),
        (json!({ "answer": true }).to_string(), "was silent"),
        (json!({ "reached": true }).to_string(), "could not either"),
        ("<html>".to_owned(), "was silent"),
    ];
    for (lie, told) in lies {
        let said = lie.clone();
        way.answer(move |asked| match asked.is("/q/ping-req") {
            true => saying("200 OK", said.as_bytes()),
            false => Says::Truth,
        });
        let explained = fed.anchor.explain();
        assert!(explained.contains(&format!("n2 {told}")), "{lie}: {explained}");
        assert!(explained.contains("n1 alive -> suspect"), "{lie}: {explained}");
    }
    fed.anchor.tick();
    let help = fed.anchor.last_verdict()["evidence"]["helped"].clone();
    assert_eq!(help, json!([{ "helper": "n2", "said": "silent", "reason": "answered 200" }]));
}

/// A helper that answers and could not is a word against the subject; one that says nothing while it
/// answers our own question is a word against ourselves.
#[test]
fn a_silent_helper_speaks_against_the_asker() {
    let (fed, (mut n1, _), (_n2, way)) = with_helper(BY_HAND);
    n1.stop();
    assert!(fed.anchor.explain().contains("n2 could not either"));
    fed.anchor.tick();
    assert_eq!(fed.anchor.status()["health"], 0, "nothing speaks against us");
    let help = fed.anchor.last_verdict()["evidence"]["helped"].clone();
    assert_eq!(help, json!([{ "helper": "n2", "said": "could-not", "reason": "refused" }]));
    for (nth, silence) in ["500 Oops", "403 Forbidden", ""].into_iter().enumerate() {
        way.answer(move |asked| match (asked.is("/q/ping-req"), silence) {
            (true, "") => Says::Bytes(Vec::new()),
            (true, status) => saying(status, b""),
            (false, _) => Says::Truth,
        });
        fed.anchor.tick();
        assert_eq!(fed.anchor.status()["health"], nth + 1, "{silence}");
    }
    n1.serve();
    way.honest();
    fed.anchor.tick();
    fed.anchor.tick();
    assert_eq!(fed.anchor.status()["health"], 1, "every good tick takes one off");
}

/// (cockroachdb/cockroach#84289.) The anchor's questions get lost on their way, a helper's do not.
#[test]
fn whom_a_helper_reaches_is_never_suspect() {
    let config = format!("{BY_HAND}timeout = \"1s\"\nslow = \"500ms\"\n");
    let (fed, (_n1, way), _n2) = with_helper(&config);
    one_way(&way, false);
    for _ in 0..4 {
        fed.anchor.idle();
    }
    assert_eq!(fed.anchor.standing("n1"), "alive 1");
    assert!(
        fed.anchor.explain().contains("n2 reached it: stays alive"),
        "{}",
        fed.anchor.explain()
    );
    let health = fed.anchor.status()["health"].as_u64().unwrap();
    assert!(health >= 4, "it is our own path that is bad: {health}");
}

/// The same with a service on the same machine: the anchor's path there is the one that is bad.
#[test]
fn a_service_behind_the_anchors_bad_path_is_not_withdrawn() {
    let config = format!("{BY_HAND}timeout = \"1s\"\nslow = \"500ms\"\n");
    let fed = Federation::with(&config);
    let (n1, way) = fed.join_behind("n1");
    let n2 = fed.join("n2");
    n1.good(&["sync"]);
    n2.good(&["sync"]);
    one_way(&way, true);
    for _ in 0..4 {
        fed.anchor.tick();
        assert_eq!(fed.anchor.verdicts(), [""; 0]);
    }
}

/// Loses the first question under each challenge, which is the anchor's; where `service`, also
/// those to the service, which only the anchor asks.
fn one_way(way: &StandIn, service: bool) {
    let seen: Mutex<BTreeSet<String>> = Mutex::default();
    way.answer(move |asked| match asked.is("/q/health") {
        true if seen.lock().unwrap().insert(asked.challenge()) => Says::Nothing,
        false if service && asked.is("/") => Says::Nothing,
        _ => Says::Truth,
    });
}
