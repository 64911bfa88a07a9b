//! Questions between members, and how long doubt lasts: what the documents show is what the
//! program's own rules read and say.

use crate::bodies::{enrolled, json, sent};
use crate::examples::{examples, identity, journal};
use crate::markdown::read;
use crowny_fed::auth::gate::Key;
use crowny_fed::auth::keys;
use crowny_fed::config::duration_ms;
use crowny_fed::journal::record::Record;
use crowny_fed::journal::tlog_proof::parse_tlog_proof;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::protocol::profile::Profile;
use crowny_fed::protocol::suspicion;
use crowny_fed::wire::health::{Accusation, Own, Question};

/// An answer read as the asker reads it; `None` where it is not the node's own.
fn own(node: &str, c: &str, answer: &str) -> Option<Own> {
    let (origin, node) = (identity().origin, NodeId::parse(node).unwrap());
    let journal = journal();
    let keys = journal.fold.keys.of(&node).unwrap();
    Question { origin: &origin, node: &node, c, keys: &[&keys.current] }.own(answer.as_bytes())
}

#[test]
fn a_challenge_is_answered_with_the_nodes_own_signature() {
    let answer = &examples("`GET /q/health`")[1];
    let c = json(answer)["c"].as_str().unwrap().to_owned();
    assert_eq!(own("anchor", &c, answer).unwrap().standing.size, Some(journal().tip.size));
    assert_eq!(own("anchor", &"0".repeat(32), answer), None, "another challenge");
    assert_eq!(own("anchor", &c, &examples("`GET /q/health`")[0]), None, "unsigned");
}

#[test]
fn an_accusation_is_proven_and_refuted_one_incarnation_higher() {
    let blocks = examples("`POST /q/health`");
    let accusation: Accusation = serde_json::from_str(&blocks[0]).unwrap();
    let proof = parse_tlog_proof(&accusation.proof).unwrap();
    proof.verify(accusation.line.as_bytes(), &identity().verifier().unwrap()).unwrap();
    let journal = journal();
    let line = &journal.lines[proof.index as usize];
    assert_eq!(line.render(), accusation.line);
    let Record::Verdict(verdict) = Record::of(line) else { panic!("{line:?}") };
    assert!(!verdict.evidence.observations.is_empty() && !verdict.evidence.helped.is_empty());

    let answer = own("gw4", &accusation.c, &blocks[1]).unwrap();
    assert_eq!(answer.standing.incarnation, Some(verdict.inc.raised().value()));
    let refute = sent(&answer.refute.unwrap());
    let key = keys::parse_public(&enrolled("gw4").key.unwrap()).unwrap();
    assert!(Key::Ed25519(key).verifies("register", &refute));
    assert_eq!(json(&refute.payload)["incarnation"], verdict.inc.raised().value());
}

#[test]
fn a_question_for_help_is_signed_and_names_a_member() {
    let blocks = examples("`POST /q/ping-req`");
    let request = sent(&blocks[0]);
    let key = keys::parse_public(&enrolled("anchor").key.unwrap()).unwrap();
    assert!(Key::Ed25519(key).verifies("ping-req", &request));
    enrolled(json(&request.payload)["subject"].as_str().unwrap());
    assert!(json(&blocks[1])["reason"].is_string());
}

#[test]
fn the_table_of_suspicions_is_what_the_rule_says() {
    let text = read("docs/membership.md");
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.ends_with(" s |"));
    let mut seen = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let profile = Profile::for_interval(duration_ms(&cells[0].replace(' ', "")).unwrap());
        let members: u64 = cells[3].parse().unwrap();
        let mut told =
            vec![cells[0].to_owned(), profile.alpha.to_string(), profile.beta.to_string()];
        told.push(members.to_string());
        told.extend((0..4).map(|more| suspicion::ticks(&profile, members, more).to_string()));
        let ms = suspicion::detection_ms_max(&profile, members).unwrap();
        told.push(format!("{} s", ms / 1_000));
        assert_eq!(cells, told);
        seen += 1;
    }
    assert_eq!(seen, 12);
}
