//! What somebody can do with what was good once: an old invitation, an old message, another spelling.

use crate::federation::{Federation, Member, ORIGIN};
use crowny_fed::auth::gate::Refusal;
use crowny_fed::cli::{Colour, Common, Lang, Peers};
use crowny_fed::config::assemble;
use crowny_fed::cycle::admission::submit;
use crowny_fed::cycle::enrolment::{Wanted, enroll, invite};
use crowny_fed::cycle::founding::{Founding, found};
use crowny_fed::host::Host;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::sim::world::{SimHost, World};
use serde_json::json;
use std::path::Path;

/// A lost machine still has its invitation; `--replace` and `revoke` must not make it good again.
#[test]
fn a_burned_invitation_never_lets_anybody_in_again() {
    let fed = Federation::found();
    let enrol = |member: &mut Member, invitation: &str| {
        fed.post("/enroll", &member.enrolment(invitation, fed.now_s()))
    };
    let first = fed.invite(&["gw2", "--replace"]);
    assert_eq!(enrol(&mut Member::new("gw2", 1), &first).status, 200);
    let second = fed.invite(&["gw2", "--replace"]);
    assert_eq!(enrol(&mut Member::new("gw2", 2), &second).status, 200);
    let again = enrol(&mut Member::new("gw2", 3), &first);
    assert_eq!((again.status, &again.json()["error"]), (409, &"nonce-used".into()));
    assert!(again.text().contains("it made line 3"), "{}", again.text());
    fed.good(&["revoke", "gw2"]);
    for invitation in [&first, &second] {
        assert_eq!(enrol(&mut Member::new("gw2", 3), invitation).status, 409);
    }
    // The same request is the same answer, whatever came after it.
    let mut same = Member::new("gw2", 1);
    assert_eq!(enrol(&mut same, &first).json()["seq"], 3);
    assert_eq!(fed.lines().len(), 7, "two enrolments, two revocations");
}

/// Ids are compared without case, so a member may spell its own in another one.
#[test]
fn another_spelling_of_ones_own_id_leaves_a_journal_that_verifies() {
    let fed = Federation::found();
    let mut member = Member::new("gw2", 2);
    let enrolment = member.enrolment(&fed.invite(&["gw2"]), fed.now_s());
    assert_eq!(fed.post("/enroll", &enrolment).status, 200);
    member.node = "GW2".to_owned();
    for incarnation in [1, 2] {
        let offer = Member::offer(incarnation, "http://127.0.0.1:9", "shop");
        let payload = member.payload(fed.now_s(), offer);
        assert_eq!(fed.post("/register", &member.body("register", &payload)).status, 200);
    }
    assert!(fed.good(&["verify", "--full"]).contains("4 signatures"));
    assert_eq!(fed.good(&["routes", "--service", "shop"]).lines().count(), 1);
}

/// An anchor in a world whose clock the test sets.
fn anchor() -> SimHost {
    let common = Common {
        dir: "fed".into(),
        config: None,
        quiet: true,
        verbose: 0,
        color: Colour::Never,
        lang: Lang::En,
    };
    let text = "interval = \"0\"\n";
    let config = assemble(&common, &Peers::default(), Some(text), Path::new("/x")).unwrap();
    let host = World::new(1).add("10.0.0.1:9160", config);
    let founding = Founding {
        origin: Some(ORIGIN.to_owned()),
        id: NodeId::parse("gw1").unwrap(),
        urls: vec!["http://10.0.0.1:9160".to_owned()],
        services: Vec::new(),
        config_text: String::new(),
    };
    found(&host, &host.config().layout, &founding).unwrap();
    host
}

fn now_s(host: &SimHost) -> u64 {
    host.clock().wall_ms / 1_000
}

fn admitted(host: &SimHost, node: &str, seed: u8) -> Member {
    let wanted = Wanted {
        node: NodeId::parse(node).unwrap(),
        services: Vec::new(),
        ttl_s: 3_600,
        alg: "ed25519".to_owned(),
        replace: false,
    };
    let invitation = invite(host, &host.config(), wanted).unwrap().render();
    let mut member = Member::new(node, seed);
    let body = member.enrolment(&invitation, now_s(host));
    enroll(host, &host.config(), body.as_bytes()).unwrap();
    member
}

/// The window moves on and forgets a nonce; then the clock is stepped back into it.
#[test]
fn a_clock_that_steps_back_lets_no_replay_through() {
    let host = anchor();
    let drain = |member: &mut Member, on: bool| {
        let payload = member.payload(now_s(&host), json!({ "on": on }));
        member.body("drain", &payload)
    };
    let say = |body: &str| submit(&host, &host.config(), "drain", body.as_bytes());
    let (mut gw2, mut gw3) = (admitted(&host, "gw2", 2), admitted(&host, "gw3", 3));
    let recorded = drain(&mut gw2, true);
    say(&recorded).unwrap();
    say(&drain(&mut gw2, false)).unwrap();
    host.step_clock(400_000);
    say(&drain(&mut gw3, true)).unwrap();
    for back_s in [0, 150, 100, 40] {
        host.step_clock(-back_s * 1_000);
        let refused = say(&recorded).unwrap_err();
        assert!(matches!(refused, Refusal::Skew { .. }), "{refused}");
    }
    // Whoever has the right time still is heard.
    say(&drain(&mut gw2, true)).unwrap();
}
