//! The examples of docs/formats.md are one real federation at one moment: they parse, chain, hash
//! and verify together. The sample reader of docs/operations.md is run.

use crate::markdown::{blocks, read};
use crowny_fed::auth::envelope::is_nonce;
use crowny_fed::auth::keys::decode_sig;
use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::auth::{mac, pae};
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::checkpoint::{Checkpoint, open_checkpoint};
use crowny_fed::journal::floor::Floor;
use crowny_fed::journal::line::Line;
use crowny_fed::journal::merkle::{Frontier, Hash, leaf_hash};
use crowny_fed::journal::record::Record;
use crowny_fed::journal::replay::Fold;
use crowny_fed::journal::snapshot::Snapshot;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::protocol::memory::Memory;
use crowny_fed::protocol::route::{Local, routes};
use crowny_fed::store::identity::Identity;
use crowny_fed::store::invites::Open;
use crowny_fed::store::shared_keys::unhex;
use crowny_fed::wire::freshness::Freshness;
use crowny_fed::wire::psv::{parse_roster, parse_status};
use crowny_fed::wire::routes::{Stamp, render, render_rows, split};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// The blocks of docs/formats.md under the heading that holds `words`.
pub fn examples(words: &str) -> Vec<String> {
    let blocks = blocks(&read("docs/formats.md"));
    let found: Vec<String> = blocks
        .into_iter()
        .filter(|block| block.heading.contains(words))
        .map(|block| block.text)
        .collect();
    assert!(!found.is_empty(), "no example of {words}");
    found
}

/// The first block under the heading that names `file`.
pub fn example(file: &str) -> String {
    examples(&format!("`{file}`")).remove(0)
}

pub fn identity() -> Identity {
    serde_json::from_str(&example("self.json")).unwrap()
}

/// The example journal, folded line by line.
pub struct Journal {
    pub lines: Vec<Line>,
    /// What follows each line: its head, and the tree with it.
    pub trees: Vec<Frontier>,
    pub tip: Tip,
    pub fold: Fold,
    bytes: u64,
}

impl Journal {
    pub fn root_at(&self, size: u64) -> Hash {
        self.trees[size as usize - 1].root()
    }

    pub fn leaf(&self, seq: u64) -> Hash {
        leaf_hash(self.lines[seq as usize].render().as_bytes())
    }

    /// The line of a kind about a node.
    pub fn about(&self, kind: &str, node: &str) -> &Line {
        let node = NodeId::parse(node).unwrap();
        let is_it = |line: &&Line| line.kind == kind && Record::of(line).node() == Some(&node);
        self.lines.iter().find(is_it).unwrap()
    }

    /// Checks a checkpoint of any size under either log key.
    pub fn opens(&self, note: &str) -> Checkpoint {
        let log = self.fold.log.as_ref().unwrap();
        let known = [log.vkey.as_str(), log.before.as_ref().unwrap().0.as_str()];
        let opened = known
            .iter()
            .find_map(|vkey| open_checkpoint(note, &VerifierKey::parse(vkey).unwrap()).ok());
        let (checkpoint, _) = opened.expect("a checkpoint by a log key");
        assert_eq!(checkpoint.root, self.root_at(checkpoint.size));
        checkpoint
    }
}

pub fn journal() -> Journal {
    let mut journal = Journal {
        lines: Vec::new(),
        trees: Vec::new(),
        tip: Tip::origin(&identity().origin),
        fold: Fold::default(),
        bytes: 0,
    };
    let mut frontier = Frontier::new();
    for raw in example("nodes.ndjson").lines() {
        let line = Line::parse(raw.as_bytes()).unwrap();
        let record = Record::of(&line);
        assert_ne!(record, Record::Unknown, "{raw}");
        assert_eq!(record.payload(), line.payload, "the one spelling");
        assert_eq!(journal.tip.accept(raw.as_bytes()).unwrap(), line);
        journal.fold.check_author(&line).unwrap();
        journal.fold.apply(&line);
        frontier.push(journal.tip.head);
        journal.trees.push(frontier.clone());
        journal.bytes += raw.len() as u64 + 1;
        journal.lines.push(line);
    }
    journal
}

#[test]
fn the_journal_is_chained_signed_and_understood_and_shows_every_kind() {
    let journal = journal();
    let kinds: BTreeSet<&str> = journal.lines.iter().map(|line| line.kind.as_str()).collect();
    let known = [
        "anchor", "drain", "enroll", "genesis", "grant", "leave", "reap", "register", "revoke",
        "roster", "rotate", "verdict",
    ];
    assert_eq!(kinds, BTreeSet::from(known));
    for kind in kinds {
        assert!(read("docs/formats.md").contains(&format!("| `{kind}` |")), "{kind} is explained");
    }
}

#[test]
fn checkpoint_head_and_floor_are_those_of_the_journal() {
    let journal = journal();
    let vkey = VerifierKey::parse(&identity().vkey).unwrap();
    let (checkpoint, note) = open_checkpoint(example("federation-root.txt"), &vkey).unwrap();
    assert_eq!(checkpoint.size, journal.tip.size);
    assert_eq!(journal.opens(&example("federation-root.txt")), checkpoint);
    assert_eq!(note.signatures.len(), 2, "the log key in force and the one before");
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
    let (generation, rows) = split(&map).expect("a whole map");
    assert_eq!(
        rows,
        render_rows(&routes(&journal.fold.membership, &Local::default(), journal.tip.ts))
    );
    let size = map.split(" size=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let (origin, root) = (identity().origin, journal.root_at(size));
    assert_eq!(map, render(&Stamp { origin: &origin, generation, size, root }, rows));
}

#[test]
fn what_only_anchor_and_member_hold_belongs_to_the_journal() {
    let journal = journal();
    for raw in example("invites.ndjson").lines() {
        let open: Open = serde_json::from_str(raw).unwrap();
        let burned = journal.fold.keys.burned(&open.secret_sha256).expect("it was used");
        assert!(journal.lines[burned.seq as usize].payload.contains(open.node.as_str()));
    }
    let shared: Value = serde_json::from_str(&example("node-keys.ndjson")).unwrap();
    let key = unhex(shared["key"].as_str().unwrap()).unwrap();
    let spoke = journal.about("leave", shared["node"].as_str().unwrap());
    let author = spoke.author.as_ref().unwrap();
    assert_eq!(author.kid, shared["kid"].as_str().unwrap());
    let tag = decode_sig(&author.sig).unwrap();
    assert!(mac::verify(&*key, &pae::encode("leave", &spoke.payload), &tag));

    let used = example("used-nonces.log");
    assert!(used.starts_with("# crowny-fed nonces since=0 pruned=0\n"), "{used}");
    let nonce = used.lines().nth(1).unwrap().split(' ').nth(1).unwrap();
    assert!(is_nonce(nonce) && !example("nodes.ndjson").contains(nonce), "{used}");

    let member: Identity = serde_json::from_str(&examples("`self.json`")[1]).unwrap();
    assert!(!member.is_anchor() && member.origin == identity().origin);
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
