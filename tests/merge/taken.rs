//! What a branch takes in of a journal that gave way, without a process: the file alone.

use crate::branch::drain;
use crate::harness::Folder;
use crowny_fed::auth::{keys, pae};
use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::host::real::RealHost;
use crowny_fed::journal::branch::{BRANCH_BYTES_MAX, Twig, stored};
use crowny_fed::journal::line::{Author, Line, VERSION};
use crowny_fed::journal::merged::Merged;
use crowny_fed::journal::merkle::{Hash, leaf_hash};
use crowny_fed::journal::record::Record;
use crowny_fed::layout::Layout;
use crowny_fed::store::branch::Branch;
use crowny_fed::store::disk::Disk;
use ed25519_dalek::SigningKey;
use std::fs;

/// A signed drain of gw2 in the line at `seq`.
fn word(seq: u64, incarnation: u64) -> Twig {
    let payload = drain("gw2", incarnation, true).to_string();
    let key = SigningKey::from_bytes(&[7; 32]);
    let author = Author {
        alg: "ed25519".to_owned(),
        kid: keys::kid("gw2", &key.verifying_key()),
        sig: keys::sign(&key, &pae::encode("drain", &payload)),
    };
    twig(("drain", payload), (seq, leaf_hash(b"journal")), Some(author))
}

fn twig((kind, payload): (&str, String), (seq, prev): (u64, Hash), author: Option<Author>) -> Twig {
    let kind = kind.to_owned();
    let line = Line { author, payload, prev, seq, ts: 7, kind, version: VERSION };
    Twig::parse(line.render().as_bytes()).unwrap()
}

/// The line of a journal behind `before` that holds a word of a branch.
fn merged(word: &Twig, before: &Twig) -> Twig {
    let record = Record::Merged(Box::new(Merged::of(word.line.clone()).unwrap()));
    twig(("merged", record.payload()), (before.line.seq + 1, before.leaf), None)
}

/// Takes these lines in, and returns what waits then.
fn taken(folder: &Folder, tail: &[u8]) -> Branch {
    let host = RealHost::new(Dialer::new(Options::default()));
    let layout = Layout::new(folder.path());
    let disk = Disk { host: &host, layout: &layout };
    disk.folder(&layout.state().join("tmp"), true).unwrap();
    Branch::take_in(&disk, tail).unwrap();
    Branch::load(&disk).unwrap()
}

fn leaves(branch: &Branch) -> Vec<Hash> {
    branch.lines().map(|twig| twig.leaf).collect()
}

/// A word that had come home once is said as it was said then, for nobody merges a `merged` line.
#[test]
fn words_that_had_been_merged_wait_again() {
    let folder = Folder::new();
    let (first, native, second) = (word(3, 1), word(9, 2), word(4, 3));
    let one = merged(&first, &native);
    let two = merged(&second, &one);
    let tail = [&native, &one, &two];
    let branch = taken(&folder, &stored(tail.into_iter()));
    let whole = [&native, &one, &two, &first, &second].map(|twig| twig.leaf);
    assert_eq!(leaves(&branch), whole);
    assert_eq!(branch.runs.iter().map(|run| run.lines().len()).collect::<Vec<_>>(), [3, 1, 1]);
    // Again, and as a tail of merged lines alone: nothing is there twice.
    assert_eq!(leaves(&taken(&folder, &stored(tail.into_iter()))), whole);
    assert_eq!(leaves(&taken(&folder, &stored([&two].into_iter()))), whole);
    let alone = taken(&Folder::new(), &stored([&one].into_iter()));
    assert_eq!(leaves(&alone), [one.leaf, first.leaf]);
}

/// Where not all fits, what members said does, the newest of it at least.
#[test]
fn a_tail_without_room_leaves_its_newest_words() {
    let folder = Folder::new();
    let mut tail = vec![word(0, 1)];
    let mut bytes = 0;
    while bytes <= BRANCH_BYTES_MAX {
        let last = tail.last().unwrap();
        let next = merged(&word(0, tail.len() as u64 + 1), last);
        bytes += next.raw.len() as u64 + 1;
        tail.push(next);
    }
    let branch = taken(&folder, &stored(tail.iter()));
    assert_eq!(branch.count(), tail.len());
    assert!(branch.lines().all(|twig| twig.line.kind == "drain"));
}

/// One damaged byte costs its own line, and stands in nobody's way.
#[test]
fn a_damaged_branch_is_set_aside_and_takes_in_a_tail() {
    let folder = Folder::new();
    let lines = [word(0, 1), word(1, 2), word(2, 3)];
    let mut bytes = stored(lines.iter());
    let at = lines[0].raw.len() + 5;
    bytes[at] = 0;
    fs::write(folder.path().join("branch.ndjson"), &bytes).unwrap();
    let native = word(9, 4);
    let branch = taken(&folder, &stored([&native].into_iter()));
    assert_eq!(leaves(&branch), [lines[0].leaf, lines[2].leaf, native.leaf]);
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    let aside: Vec<&String> =
        names.iter().filter(|name| name.starts_with("branch.damaged-")).collect();
    assert_eq!(aside.len(), 1, "{names:?}");
    assert_eq!(fs::read(folder.path().join(aside[0])).unwrap(), bytes);
}
