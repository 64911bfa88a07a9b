//! The examples of docs/formats.md are one real federation at one moment: they parse, chain, hash
//! and verify together. The sample reader of docs/operations.md is run.

use crate::markdown::{blocks, read};
use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::checkpoint::open_checkpoint;
use crowny_fed::journal::floor::Floor;
use crowny_fed::journal::line::Line;
use crowny_fed::journal::merkle::Frontier;
use crowny_fed::journal::record::Record;
use crowny_fed::journal::replay::Fold;
use crowny_fed::journal::snapshot::Snapshot;
use crowny_fed::protocol::memory::Memory;
use crowny_fed::protocol::route::routes;
use crowny_fed::store::identity::Identity;
use crowny_fed::wire::freshness::Freshness;
use crowny_fed::wire::psv::{parse_roster, parse_status};
use crowny_fed::wire::routes::{Stamp, render, render_rows, split};
use std::collections::BTreeSet;
use std::process::Command;

/// The first block of docs/formats.md under the heading that names `file`.
fn example(file: &str) -> String {
    let blocks = blocks(&read("docs/formats.md"));
    let wanted = format!("`{file}`");
    let found = blocks.into_iter().find(|block| block.heading.contains(&wanted));
    found.unwrap_or_else(|| panic!("no example of {file}")).text
}

fn identity() -> Identity {
    serde_json::from_str(&example("self.json")).unwrap()
}

/// The example journal, folded line by line.
struct Journal {
    kinds: BTreeSet<&'static str>,
    frontier: Frontier,
    tip: Tip,
    fold: Fold,
    bytes: u64,
}

fn journal() -> Journal {
    let mut journal = Journal {
        kinds: BTreeSet::new(),
        frontier: Frontier::new(),
        tip: Tip::origin(&identity().origin),
        fold: Fold::default(),
        bytes: 0,
    };
    for raw in example("nodes.ndjson").lines() {
        let line = Line::parse(raw.as_bytes()).unwrap();
        let record = Record::of(&line);
        assert_ne!(record, Record::Unknown, "{raw}");
        assert_eq!(record.payload(), line.payload, "the one spelling");
        journal.kinds.insert(record.kind());
        assert_eq!(journal.tip.accept(raw.as_bytes()).unwrap(), line);
        journal.fold.check_author(&line).unwrap();
        journal.fold.apply(&line);
        journal.frontier.push(journal.tip.head);
        journal.bytes += raw.len() as u64 + 1;
    }
    journal
}

#[test]
fn the_journal_is_chained_signed_and_understood_and_shows_every_kind() {
    let journal = journal();
    let kinds: Vec<&str> = journal.kinds.iter().copied().collect();
    assert_eq!(kinds, ["enroll", "genesis", "register", "roster", "verdict"]);
    for kind in kinds {
        assert!(read("docs/formats.md").contains(&format!("| `{kind}` |")), "{kind} is explained");
    }
}

#[test]
fn checkpoint_head_and_floor_are_those_of_the_journal() {
    let journal = journal();
    let vkey = VerifierKey::parse(&identity().vkey).unwrap();
    let (checkpoint, _) = open_checkpoint(example("federation-root.txt"), &vkey).unwrap();
    assert_eq!((checkpoint.size, checkpoint.root), (journal.tip.size, journal.frontier.root()));
    let head = format!("{} {}\n", journal.tip.size, journal.tip.head);
    assert_eq!(example("head.txt"), head);
    let floor: Floor = serde_json::from_str(&example("state/committed.json")).unwrap();
    assert_eq!(floor.checked(&vkey), Ok(checkpoint));
    assert_eq!(
        (floor.bytes, floor.head, floor.ts),
        (journal.bytes, journal.tip.head, journal.tip.ts)
    );
}

#[test]
fn snapshot_and_memory_are_those_of_the_journal() {
    let journal = journal();
    let snapshot = Snapshot::parse(example("snapshot.json").as_bytes()).unwrap();
    assert_eq!(snapshot.fold, journal.fold);
    assert_eq!((snapshot.size, snapshot.bytes), (journal.tip.size, journal.bytes));
    let memory: Memory = serde_json::from_str(&example("tick.json")).unwrap();
    let freshness: Freshness = serde_json::from_str(&example("freshness.json")).unwrap();
    assert_eq!(memory.tick, freshness.tick);
}

#[test]
fn the_map_is_that_of_the_journal() {
    let journal = journal();
    let map = example("federated-routes.txt");
    let (generation, _) = split(&map).expect("a whole map");
    let (origin, root) = (identity().origin, journal.frontier.root());
    let stamp = Stamp { origin: &origin, generation, size: journal.tip.size, root };
    assert_eq!(map, render(&stamp, &render_rows(&routes(&journal.fold.membership, 0))));
}

#[test]
fn both_psv_files_read_without_a_rejected_row() {
    let roster = parse_roster(example("피어목록.psv").as_bytes()).unwrap();
    assert!(roster.rejected.is_empty() && roster.rows.len() >= 2, "{roster:?}");
    let status = parse_status(example("피어상태.psv").as_bytes()).unwrap();
    let listed = roster.rows.iter().map(|row| &row.id);
    assert!(status.iter().map(|row| &row.id).eq(listed));
}

#[test]
fn the_sample_reader_takes_whole_maps_only() {
    let python = Command::new("python3").arg("--version").output().is_ok();
    if !python {
        let required = std::env::var_os("CROWNY_FED_REQUIRE_TOOLS").is_some();
        assert!(!required, "python3 is not installed");
        println!("skipped: python3 is not installed");
        return;
    }
    let blocks = blocks(&read("docs/operations.md"));
    let program =
        blocks.into_iter().find(|block| block.text.contains("def read_map")).unwrap().text;
    let name = format!("crowny-fed-docs-{}.txt", std::process::id());
    let path = std::env::temp_dir().join(name);
    let rows = |map: &str| {
        std::fs::write(&path, map).unwrap();
        let call = format!("{program}\nimport sys\nprint(read_map(sys.argv[1]))\n");
        let ran = Command::new("python3").args(["-c", &call]).arg(&path).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap().trim().to_owned()
    };
    let map = example("federated-routes.txt");
    let whole = rows(&map);
    assert!(whole.contains("http://127.0.0.1:18001"), "{whole}");
    let cuts = [map.len() - 1, map.len() - 3, map.rfind("# end").unwrap(), map.len() / 2, 0];
    for bytes in cuts {
        assert_eq!(rows(&map[..bytes]), "None", "{bytes} of {} bytes", map.len());
    }
    let other = map.replace("routes v1", "routes v2");
    assert_eq!(rows(&other), "None");
    std::fs::remove_file(&path).unwrap();
}
