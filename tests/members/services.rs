//! One service of a living node: only its row is doubted, withdrawn and back.

use crate::federation::{BY_HAND, Federation, Node};
use crate::harness::{free_port, url};
use crate::stand_in::{Says, StandIn, saying};
use serde_json::json;
use std::fs;

/// A stand-in that answers 200 to everybody.
fn gateway() -> StandIn {
    let gateway = StandIn::before(1);
    gateway.answer(|_| saying("200 OK", b"hello"));
    gateway
}

/// A served member whose `web` answers at a place of its own.
fn with_gateway(fed: &Federation, id: &str) -> (Node, StandIn) {
    let gateway = gateway();
    let mut node = fed.machine(id);
    let (place, service) = (node.url(), format!("web={}", gateway.url()));
    fed.enter(&node, &["--url", &place, "--service", &service]);
    node.serve();
    (node, gateway)
}

/// Announces `web` with a path to look at and the status that counts as well.
fn look_at(node: &Node, check: &str, expect: Option<u64>) {
    let mut held = node.json("self.json");
    held["services"][0]["check"] = check.into();
    match expect {
        Some(status) => held["services"][0]["expect"] = status.into(),
        None => drop(held["services"][0].as_object_mut().unwrap().remove("expect")),
    }
    fs::write(node.file("self.json"), held.to_string()).unwrap();
    node.good(&["register"]);
}

fn says(status: &'static str) -> Box<dyn Fn() -> Says + Send + Sync> {
    Box::new(move || saying(status, b""))
}

#[test]
fn a_service_that_fails_loses_its_own_row_alone() {
    let fed = Federation::found();
    let (_n1, gateway) = with_gateway(&fed, "n1");
    fed.anchor.idle();
    let failures = [says("500 Oops"), says("503 Later"), Box::new(|| Says::Bytes(Vec::new()))];
    for (nth, failure) in failures.into_iter().enumerate() {
        let before = fed.anchor.verdicts().len();
        gateway.answer(move |_| failure());
        fed.anchor.tick();
        assert_eq!(fed.anchor.verdicts()[before..], ["n1|web alive suspect"], "{nth}");
        assert_eq!(fed.anchor.row("web", "n1").unwrap(), "suspect");
        fed.anchor.idle();
        fed.anchor.tick();
        assert_eq!(fed.anchor.verdicts()[before + 1..], ["n1|web suspect dead"], "{nth}");
        let dead = fed.anchor.last_verdict();
        assert_eq!(dead["heirs"], json!({ "web": ["gw1"] }), "{dead}");
        assert_eq!(dead["evidence"]["target"], gateway.url());
        assert_eq!(fed.anchor.row("web", "n1"), None);
        assert_eq!(fed.anchor.standing("n1"), "alive 1", "the node itself was never doubted");
        fed.anchor.idle();
        gateway.answer(|_| saying("404 Not Found", b""));
        fed.anchor.tick();
        assert_eq!(fed.anchor.verdicts()[before + 2..], ["n1|web dead alive"], "{nth}");
        assert_eq!(fed.anchor.row("web", "n1").unwrap(), "alive");
        assert_eq!(fed.anchor.standing("n1"), "alive 1");
    }
    let story = fed.anchor.good(&["why", "n1"]);
    assert!(story.contains("n1|web: suspect -> dead") && story.contains("n1 is alive"), "{story}");
}

#[test]
fn a_service_that_answers_in_time_is_alive_again() {
    let fed = Federation::found();
    let (n1, gateway) = with_gateway(&fed, "n1");
    gateway.answer(|_| saying("500 Oops", b""));
    fed.anchor.tick();
    fed.anchor.idle();
    gateway.answer(|_| saying("200 OK", b""));
    fed.anchor.tick();
    assert_eq!(fed.anchor.verdicts(), ["n1|web alive suspect", "n1|web suspect alive"]);
    // Doubt about one row is nothing that the node has to refute.
    assert_eq!(n1.json("self.json")["incarnation"], 1);
    fed.anchor.idle();
}

#[test]
fn a_service_is_looked_at_where_and_how_it_says() {
    let fed = Federation::found();
    let (n1, gateway) = with_gateway(&fed, "n1");
    look_at(&n1, "/ready", Some(503));
    gateway.answer(|asked| match asked.is("/ready") {
        true => saying("503 As Wanted", b""),
        false => saying("200 OK", b""),
    });
    fed.anchor.idle();
    assert!(gateway.asked().iter().all(|asked| asked.is("/ready")), "{:?}", gateway.asked());
    assert!(!gateway.asked().is_empty());
    gateway.answer(|_| saying("200 OK", b""));
    fed.anchor.tick();
    assert_eq!(fed.anchor.verdicts(), ["n1|web alive suspect"]);
    assert_eq!(fed.anchor.last_verdict()["evidence"]["probe"]["reason"], "http-200");
    fed.anchor.idle();
    fed.anchor.tick();
    assert_eq!(fed.anchor.row("web", "n1"), None);
    // Another way of looking takes effect with its line.
    look_at(&n1, "/", None);
    fed.anchor.tick();
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "alive");
    assert_eq!(fed.anchor.standing("n1"), "alive 3");
}

#[test]
fn the_last_row_of_a_service_stays() {
    let gateway = gateway();
    let fed = Federation::offering(BY_HAND, &gateway.url());
    let _n1 = fed.join_agent_behind("n1");
    gateway.answer(|_| saying("500 Oops", b""));
    for _ in 0..3 {
        fed.anchor.tick();
    }
    // The anchor judges its own service like any other.
    assert_eq!(fed.anchor.verdicts(), ["gw1|web alive suspect", "gw1|web suspect dead"]);
    assert_eq!(fed.anchor.last_verdict()["no_heir"], json!(["web"]));
    assert_eq!(fed.anchor.row("web", "gw1").unwrap(), "dead no-heir");
    assert_eq!(fed.anchor.standing("gw1"), "alive 0");
    gateway.answer(|_| saying("200 OK", b""));
    fed.anchor.tick();
    assert_eq!(fed.anchor.row("web", "gw1").unwrap(), "alive");
}

#[test]
fn the_anchors_own_service_gives_way_to_an_heir() {
    let gateway = gateway();
    let fed = Federation::offering(BY_HAND, &gateway.url());
    let (n1, own) = with_gateway(&fed, "n1");
    gateway.answer(|_| Says::Bytes(Vec::new()));
    for _ in 0..3 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.verdicts(), ["gw1|web alive suspect", "gw1|web suspect dead"]);
    assert_eq!((fed.anchor.row("web", "gw1"), fed.anchor.map().len()), (None, 1));
    n1.tick();
    assert_eq!(n1.map(), fed.anchor.map());
    // Law 6: when the heir fails too, the one that died last stays.
    own.answer(|_| Says::Bytes(Vec::new()));
    for _ in 0..3 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "dead no-heir");
    assert_eq!(fed.anchor.map().len(), 1);
}

/// A node that dies takes its doubted services with it, and brings them back by answering.
#[test]
fn a_dead_nodes_services_wait_for_the_node() {
    let fed = Federation::found();
    let (mut n1, gateway) = with_gateway(&fed, "n1");
    gateway.answer(|_| saying("500 Oops", b""));
    n1.stop();
    for _ in 0..4 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.standing("n1"), "dead 1");
    gateway.answer(|_| saying("200 OK", b""));
    for _ in 0..2 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.row("web", "n1"), None, "its gateway alone is not the node");
    n1.serve();
    fed.anchor.tick();
    fed.anchor.tick();
    assert_eq!(fed.anchor.row("web", "n1").unwrap(), "alive");
    fed.anchor.idle();
}

/// A service behind nothing at all is refused at once, and no other member pays for it.
#[test]
fn a_place_where_nobody_listens_is_a_failure_of_that_row() {
    let fed = Federation::found();
    let mut n1 = fed.machine("n1");
    let nobody = format!("web={}", url(free_port()));
    let place = n1.url();
    fed.enter(&n1, &["--url", &place, "--service", &nobody]);
    n1.serve();
    for _ in 0..3 {
        fed.anchor.tick();
    }
    assert_eq!(fed.anchor.verdicts(), ["n1|web alive suspect", "n1|web suspect dead"]);
    assert_eq!(fed.anchor.row("web", "gw1").unwrap(), "alive");
}
