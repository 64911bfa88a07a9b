//! What a doubted member believes of its accuser, and what the anchor believes of a refutation.

use crate::federation::{BY_HAND, Federation, Node, ORIGIN};
use crate::harness::{Answer, post};
use crate::signed::{fresh_hex, now_s, register, sealed, with};
use crate::stand_in::{Says, StandIn, saying};
use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::host::real::RealHost;
use crowny_fed::journal::record::Record;
use crowny_fed::layout::Layout;
use crowny_fed::store::disk::Disk;
use crowny_fed::store::draft::Draft;
use crowny_fed::store::identity::Identity;
use crowny_fed::store::ledger::{Ledger, Mend};
use crowny_fed::store::log_keys;
use serde_json::{Value, json};

/// `n1` behind a stand-in, alive and suspect.
fn doubted() -> (Federation, Node, StandIn) {
    let fed = Federation::found();
    let (mut n1, front) = fed.join_agent_behind("n1");
    n1.stop();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "suspect 1");
    n1.serve();
    (fed, n1, front)
}

/// An accusation by the line at `seq` of a journal.
fn accusation(anchor: &Node, seq: usize) -> Value {
    let proof = anchor.good(&["proof", &seq.to_string()]);
    json!({ "ts": now_s(), "c": fresh_hex(), "line": anchor.lines()[seq], "proof": proof })
}

/// The last line that satisfies `wanted`.
fn last(anchor: &Node, wanted: impl Fn(&str) -> bool) -> usize {
    anchor.lines().iter().rposition(|line| wanted(line)).unwrap()
}

#[test]
fn one_accused_incarnation_is_answered_by_one_raise() {
    let (fed, n1, front) = doubted();
    front.honest();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
    let told: Vec<String> =
        front.asked().iter().map(|asked| asked.body()).filter(|body| !body.is_empty()).collect();
    assert_eq!(told.len(), 1, "asked once");
    // The same again, and the same line under another challenge.
    let held = n1.text("self.json");
    let seq = last(&fed.anchor, |line| line.contains("verdict"));
    for body in [told[0].clone(), accusation(&fed.anchor, seq).to_string()] {
        for _ in 0..3 {
            let answer = post(n1.port, "/q/health", &body);
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(answer.json()["incarnation"], 2);
            assert_eq!(n1.text("self.json"), held);
        }
    }
    fed.anchor.idle();
}

#[test]
fn a_false_refutation_changes_nothing_and_is_told() {
    let (fed, n1, front) = doubted();
    let n2 = fed.join("n2");
    let honest = sealed(&n1.key(), "register", &register(&n1, 2));
    let other = sealed(&n2.key(), "register", &register(&n2, 2));
    let far = sealed(&n1.key(), "register", &register(&n1, 1 << 40));
    let away = with(&register(&n1, 2), "urls", json!(["http://169.254.169.254"]));
    let late = with(&register(&n1, 2), "ts", (now_s() - 400).into());
    let abroad = with(&register(&n1, 2), "origin", "other.example".into());
    let altered = honest.replace("\\\"incarnation\\\":2", "\\\"incarnation\\\":3");
    assert_ne!(altered, honest);
    let lies = [
        ("wrong key", sealed(&n2.key(), "register", &register(&n1, 2))),
        ("another node", other),
        ("no higher incarnation", sealed(&n1.key(), "register", &register(&n1, 1))),
        ("far too high", far),
        ("another kind", sealed(&n1.key(), "drain", &register(&n1, 2))),
        ("special address", sealed(&n1.key(), "register", &away)),
        ("old", sealed(&n1.key(), "register", &late)),
        ("another federation", sealed(&n1.key(), "register", &abroad)),
        ("altered", altered),
        ("no envelope", "{}".to_owned()),
        ("text", "\"register\"".to_owned()),
    ];
    for (name, lie) in lies {
        lying(&front, lie);
        let size = fed.anchor.lines().len();
        let ran = fed.anchor.fed(&["tick"]).expect(0);
        assert!(ran.err.contains("n1 refutes in vain"), "{name}: {ran:?}");
        assert_eq!(fed.anchor.lines().len(), size, "{name}: {ran:?}");
        assert_eq!(fed.anchor.standing("n1"), "suspect 1", "{name}");
        assert_eq!(fed.anchor.standing("n2"), "alive 1", "{name}");
    }
    // The true one counts, and once.
    lying(&front, honest.clone());
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
    let held = n1.text("self.json");
    front.answer(|_| Says::Bytes(Vec::new()));
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "suspect 2");
    lying(&front, honest);
    let size = fed.anchor.lines().len();
    fed.anchor.fed(&["tick"]).expect(0).saying(&["n1 refutes in vain"]);
    assert_eq!((fed.anchor.lines().len(), n1.text("self.json") != held), (size, true));
}

/// The agent answers for itself, and somebody in front puts another refutation in.
fn lying(front: &StandIn, refute: String) {
    front.answer(move |asked| {
        if asked.body().is_empty() {
            return Says::Truth;
        }
        let Some(truth) = asked.truth() else { return Says::Bytes(Vec::new()) };
        let mut told = truth.json();
        if told.get("refute").is_some() {
            told["refute"] = serde_json::from_str(&refute).unwrap();
        }
        saying("200 OK", told.to_string().as_bytes())
    });
}

/// Refused, with not a byte changed at the member.
#[track_caller]
fn refused(n1: &Node, body: &str) -> Answer {
    let answer = n1.unchanged(|| post(n1.port, "/q/health", body));
    assert_eq!(answer.status, 400, "{} to {body}", answer.text());
    answer
}

#[test]
fn an_accusation_that_is_not_a_proven_line_against_us_raises_nothing() {
    let (fed, n1, front) = doubted();
    let mut n2 = fed.join("n2");
    n2.stop();
    front.answer(|_| Says::Bytes(Vec::new()));
    fed.anchor.tick();
    assert_eq!(n1.json("self.json")["incarnation"], 1);
    let (n1_line, n2_line) = (
        last(&fed.anchor, |line| {
            line.contains("\\\"node\\\":\\\"n1\\\"") && line.contains("verdict")
        }),
        last(&fed.anchor, |line| {
            line.contains("\\\"node\\\":\\\"n2\\\"") && line.contains("verdict")
        }),
    );
    n1.good(&["sync"]);
    let good = accusation(&fed.anchor, n1_line);
    let about_n2 = accusation(&fed.anchor, n2_line);
    refused(&n1, &about_n2.to_string());
    // The line of one and the proof of another, either way.
    refused(&n1, &with(&good, "proof", about_n2["proof"].clone()).to_string());
    refused(&n1, &with(&good, "line", about_n2["line"].clone()).to_string());
    refused(&n1, &accusation(&fed.anchor, n1_line - 1).to_string());
    let line = good["line"].as_str().unwrap();
    for changed in
        [line.replace("\\\"inc\\\":1", "\\\"inc\\\":9"), format!("{line} "), String::new()]
    {
        assert_ne!(changed, line);
        refused(&n1, &with(&good, "line", changed.into()).to_string());
    }
    for ts in [
        json!(now_s() - 301 - 5),
        json!(now_s() + 301 + 5),
        json!(0),
        json!("1"),
        json!(-1),
        Value::Null,
    ] {
        refused(&n1, &with(&good, "ts", ts).to_string());
    }
    for c in [json!(""), json!("0"), json!("G".repeat(32)), json!(7)] {
        refused(&n1, &with(&good, "c", c).to_string());
    }
    for proof in ["", "c2sp.org/tlog-proof@v1\n", "\n\n\n", &"x".repeat(30_000)] {
        refused(&n1, &with(&good, "proof", proof.into()).to_string());
    }
    refused(&n1, &with(&good, "more", json!(1)).to_string());
    for body in ["", "{}", "null", "[]", "\u{0}", "{\"ts\":1", &"[".repeat(5_000)] {
        refused(&n1, body);
    }
    let answer = post(n1.port, "/q/health", &good.to_string());
    assert_eq!((answer.status, &answer.json()["incarnation"]), (200, &json!(2)), "the true one");
}

/// Its own tick is at work, and will say so itself: the question is answered all the same.
#[test]
fn a_busy_member_answers_without_a_refutation() {
    let (fed, n1, _front) = doubted();
    let seq = last(&fed.anchor, |line| line.contains("verdict"));
    let body = accusation(&fed.anchor, seq).to_string();
    let keys = std::fs::File::open(n1.file("keys")).unwrap();
    keys.lock().unwrap();
    let answer = n1.unchanged(|| post(n1.port, "/q/health", &body));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.json()["sig"].is_string() && answer.json().get("refute").is_none());
    // Who answers never dies.
    for _ in 0..4 {
        fed.anchor.idle();
    }
    assert_eq!(fed.anchor.standing("n1"), "suspect 1");
    keys.unlock().unwrap();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
}

/// Another federation's log, in which a member of the same name is doubted.
#[test]
fn another_federations_line_accuses_nobody_here() {
    let (_fed, n1, _front) = doubted();
    for origin in ["other.example/fed", ORIGIN] {
        let others = Federation::founded(origin, BY_HAND, None);
        let mut namesake = others.join("n1");
        namesake.stop();
        others.anchor.tick();
        let seq =
            last(&others.anchor, |line| line.contains("verdict") && !line.contains("service"));
        refused(&n1, &accusation(&others.anchor, seq).to_string());
    }
}

/// Lines of our own log about us that hold nothing against us.
#[test]
fn a_line_that_does_not_doubt_the_node_itself_raises_nothing() {
    let (fed, n1, _front) = doubted();
    let seq = last(&fed.anchor, |line| line.contains("verdict"));
    let line: Value = serde_json::from_str(&fed.anchor.lines()[seq]).unwrap();
    let doubt: Value = serde_json::from_str(line["payload"].as_str().unwrap()).unwrap();
    for (name, value) in [("to", "alive"), ("to", "left"), ("service", "web"), ("node", "gw1")] {
        let payload = with(&doubt, name, value.into()).to_string();
        let record = Record::read("verdict", &payload);
        assert_ne!(record, Record::Unknown, "{payload}");
        write(&fed.anchor, record);
        refused(&n1, &accusation(&fed.anchor, fed.anchor.lines().len() - 1).to_string());
    }
}

/// Appends and signs one line as the anchor would.
fn write(anchor: &Node, record: Record) {
    let host = RealHost::new(Dialer::new(Options::default()));
    let layout = Layout::new(&anchor.dir);
    let disk = Disk { host: &host, layout: &layout };
    let identity = Identity::require(&disk).unwrap();
    let mut ledger = Ledger::open(disk, &identity, Mend::Yes).unwrap();
    let now_s = ledger.tip().ts;
    ledger.append(vec![Draft::from(record)], now_s).unwrap();
    ledger.publish(&log_keys::signing(&disk, &identity, ledger.fold(), now_s).unwrap()).unwrap();
}
