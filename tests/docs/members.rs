//! What a member has alone, and what it asks for: the examples of docs/formats.md belong together.

use crate::bodies::{enrolled, json, sent};
use crate::examples::{example, examples, identity, journal};
use crate::markdown::read;
use crowny_fed::auth::gate::Key;
use crowny_fed::auth::keys;
use crowny_fed::cycle::observing;
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::page::Page;
use crowny_fed::protocol::memory::Memory;

#[test]
fn the_page_is_the_end_of_the_journal_under_its_checkpoint() {
    let journal = journal();
    let page = Page::parse(examples("`GET /sync`")[0].as_bytes()).unwrap();
    let end = page.end.unwrap();
    assert_eq!((end.note, end.path), (example("federation-root.txt"), Vec::new()));
    let size = journal.lines.len() - page.lines.len();
    let rest: Vec<_> =
        journal.lines[size..].iter().map(|line| line.render().into_bytes()).collect();
    assert_eq!(page.lines, rest);
    assert!(read("docs/formats.md").contains(&format!("Here `?size={size}`")), "{size}");
}

#[test]
fn an_unknown_place_is_answered_with_what_is_common() {
    let journal = journal();
    let told = json(&examples("`GET /sync`")[1]);
    assert_eq!((&told["status"], &told["error"]), (&409.into(), &"unknown-position".into()));
    assert_eq!(journal.opens(told["checkpoint"].as_str().unwrap()).size, journal.tip.size);
    assert!(told["common"].as_u64().unwrap() < journal.tip.size);
}

#[test]
fn the_observation_is_signed_and_names_who_did_not_answer_first() {
    let blocks = examples("`POST /observe`");
    assert_eq!(blocks[0], example("observations/"));
    let request = sent(&blocks[0]);
    let key = keys::parse_public(&enrolled("gw4").key.unwrap()).unwrap();
    assert!(Key::Ed25519(key).verifies("observe", &request));
    let told = observing::read(blocks[0].trim_end().as_bytes()).unwrap();
    assert_eq!((told.node.as_str(), told.size), ("gw4", journal().tip.size));
    assert!(told.seen.is_sorted_by_key(|sighting| format!("{:?}", sighting.saw) == "Answered"));
    assert_eq!(json(&blocks[1])["tick"], told.tick);
}

#[test]
fn decisions_are_chained_and_agree_with_the_memory_of_the_tick() {
    let mut tip = Tip::origin(&format!("{}/decisions", identity().origin));
    let memory: Memory = serde_json::from_str(&examples("`tick.json`")[1]).unwrap();
    let mut left_out = std::collections::BTreeSet::new();
    for raw in example("decisions.ndjson").lines() {
        let line = tip.accept(raw.as_bytes()).unwrap();
        assert!(line.kind == "reach" && line.author.is_none(), "{raw}");
        let told = json(&line.payload);
        if told["tick"].as_u64().unwrap() <= memory.tick {
            assert_eq!(told["reachable"], false);
            left_out.insert(told["node"].as_str().unwrap().to_owned());
        } else {
            assert_eq!(told["reachable"], true);
        }
    }
    let named: Vec<&str> = memory.reach.unreachable.iter().map(|node| node.as_str()).collect();
    assert!(!named.is_empty() && left_out.iter().eq(named), "{left_out:?}");
}
