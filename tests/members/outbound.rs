//! A member that nobody can dial: it lives by what it tells, and is routed where its service answers.

use crate::federation::{BY_HAND, Federation, Node};
use crate::stand_in::{Says, StandIn, saying};
use serde_json::json;

/// An outbound member that has had its first tick, and the gateway in front of its service. Another
/// one is served, lest the anchor hear nobody.
fn outbound(fed: &Federation) -> (Node, (Node, StandIn), StandIn) {
    let gateway = StandIn::before(1);
    gateway.answer(|_| saying("200 OK", b""));
    let n1 = fed.machine("n1");
    let service = format!("web={}", gateway.url());
    fed.enter(&n1, &["--reach", "outbound", "--service", &service]);
    n1.tick();
    (n1, fed.join_agent_behind("n9"), gateway)
}

#[test]
fn an_outbound_member_lives_by_its_observations() {
    let fed = Federation::found();
    let (n1, _other, gateway) = outbound(&fed);
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "alive");
    for _ in 0..4 {
        fed.anchor.idle();
        n1.tick();
    }
    assert!(gateway.asked().iter().all(|asked| asked.is("/")), "its agent is nobody's to ask");
    // It falls silent: two ticks are no silence yet.
    for _ in 0..3 {
        fed.anchor.idle();
    }
    fed.anchor.tick();
    assert_eq!(fed.anchor.verdicts(), ["n1 alive suspect"]);
    assert_eq!(fed.anchor.last_verdict()["evidence"]["probe"]["reason"], "no-observation");
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "suspect");
    fed.anchor.idle();
    fed.anchor.tick();
    assert_eq!(fed.anchor.standing("n1"), "dead 1");
    assert_eq!(fed.anchor.last_verdict()["heirs"], json!({ "web": ["gw1"] }));
    assert_eq!(fed.anchor.row("web", "n1"), None);
    // Its own tick refutes, and it goes on from there.
    n1.tick();
    assert_eq!(fed.anchor.standing("n1"), "alive 2");
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "alive");
    for _ in 0..3 {
        fed.anchor.idle();
    }
}

#[test]
fn an_outbound_member_is_routed_only_while_its_service_answers() {
    let fed = Federation::found();
    let (n1, _other, gateway) = outbound(&fed);
    fed.anchor.idle();
    gateway.answer(|_| Says::Bytes(Vec::new()));
    for _ in 0..3 {
        n1.tick();
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.verdicts(), ["n1|web alive suspect", "n1|web suspect dead"]);
    assert_eq!(fed.anchor.row("web", "n1"), None);
    assert_eq!(fed.anchor.standing("n1"), "alive 1");
    gateway.answer(|_| saying("200 OK", b""));
    n1.tick();
    fed.anchor.tick();
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "alive");
}

/// Nobody dials it, so nobody can miss it: no member accuses it, and none leaves it out of its map.
#[test]
fn nobody_misses_whom_nobody_can_dial() {
    let fed = Federation::found();
    let (n1, _other, _gateway) = outbound(&fed);
    let n2 = fed.join("n2");
    for _ in 0..4 {
        n1.tick();
        n2.tick();
        fed.anchor.idle();
        assert_eq!(n2.row("web", "n1").unwrap(), "alive");
    }
    let told = n2.status();
    assert_eq!(told["unreachable_here"], json!([]), "{told}");
    assert!(!fed.anchor.text("observations/n2.json").contains("\\\"n1\\\""), "it was not asked");
    // With a member that it can dial gone, it still speaks for itself alone.
    assert_eq!(n1.row("web", "n2").unwrap(), "alive");
}

/// Before its first tick there is nothing to miss.
#[test]
fn a_member_that_has_only_joined_is_not_missed() {
    let fed = Federation::found();
    let gateway = StandIn::before(1);
    gateway.answer(|_| saying("200 OK", b""));
    let n1 = fed.machine("n1");
    let service = format!("web={}", gateway.url());
    fed.enter(&n1, &["--reach", "outbound", "--service", &service]);
    for _ in 0..5 {
        fed.anchor.idle();
    }
}

/// Ticks sooner than half an interval do not count, so they age no observation either.
#[test]
fn ticks_that_do_not_count_age_no_observation() {
    let fed = Federation::with(&BY_HAND.replace("\"0\"", "\"1h\""));
    let (_n1, _other, _gateway) = outbound(&fed);
    for _ in 0..5 {
        fed.anchor.idle();
    }
    assert_eq!(fed.anchor.standing("n1"), "alive 1");
}

/// A lost memory does not turn a spoken word into silence.
#[test]
fn a_lost_memory_accuses_no_outbound_member() {
    let fed = Federation::found();
    let (n1, _other, _gateway) = outbound(&fed);
    fed.anchor.idle();
    std::fs::remove_file(fed.anchor.file("tick.json")).unwrap();
    fed.anchor.fed(&["tick"]).expect(0).saying(&["tick.json is missing"]);
    fed.anchor.idle();
    n1.tick();
    fed.anchor.idle();
    assert_eq!(fed.anchor.verdicts(), [""; 0]);
}
