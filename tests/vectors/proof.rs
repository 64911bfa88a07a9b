//! Inclusion and consistency proofs: what must hold and, more often, what must not.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crowny_fed::journal::merkle::{Hash, empty_root, leaf_hash, root_of};
use crowny_fed::journal::proof::{
    Consistency, Inclusion, ProofError, consistency_proof, inclusion_proof, verify_consistency,
    verify_inclusion,
};
use serde_json::Value;

use crate::fixture::{base64_hash, fixture, hex, json, strings};

fn json_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            json_files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// The hash in a case; none when it is not 32 bytes, which is a refusal too.
///
/// Where upstream's rule does not look at a root, its text is `don't care` and a digit: such a
/// text stands for its own hash here, so that the case meets the rule and not the length check.
fn case_hash(value: &Value) -> Option<Hash> {
    let bytes = STANDARD.decode(value.as_str()?).ok()?;
    if bytes.starts_with(b"don't care ") { Some(leaf_hash(&bytes)) } else { base64_hash(value) }
}

/// Whether the case verifies.
fn holds(case: &Value) -> bool {
    let hash = |name: &str| case_hash(&case[name]);
    let number = |name: &str| case[name].as_u64().expect("a u64");
    let proof = case["proof"].as_array().into_iter().flatten();
    let Some(path) = proof.map(base64_hash).collect::<Option<Vec<Hash>>>() else {
        return false;
    };
    if case.get("leafIdx").is_some() {
        let (Some(leaf), Some(root)) = (hash("leafHash"), hash("root")) else {
            return false;
        };
        let (index, size) = (number("leafIdx"), number("treeSize"));
        verify_inclusion(&Inclusion { leaf, index, size, path: &path, root }).is_ok()
    } else {
        let (Some(old_root), Some(new_root)) = (hash("root1"), hash("root2")) else {
            return false;
        };
        let (old_size, new_size) = (number("size1"), number("size2"));
        let path = &path;
        verify_consistency(&Consistency { old_size, old_root, new_size, new_root, path }).is_ok()
    }
}

#[test]
fn all_transparency_dev_cases_agree() {
    let mut files = Vec::new();
    json_files(&fixture("transparency-dev-merkle/testdata"), &mut files);
    assert_eq!(files.len(), 196);
    let mut accepted = 0;
    for file in files {
        let case: Value = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("json");
        let refused = case["wantErr"].as_bool().expect("a verdict");
        assert_eq!(holds(&case), !refused, "{}: {}", file.display(), case["desc"]);
        accepted += u32::from(!refused);
    }
    assert_eq!(accepted, 12, "and the other 184 are refused");
}

/// Case O-32.
#[test]
fn small_trees_empty_and_equal_sizes() {
    let [a, b, c] = [b"A", b"B", b"C"].map(|line| leaf_hash(line));
    let cases = [
        (vec![], "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (vec![a], "c00b4d3c929cb5cc316691ed4636f634576f2c9b2954767234c5274e9dde185d"),
        (vec![a, b, c], "961d2e2be20f538ffdf56962a86d1bd165498f222684ee4c5e02c1e9f852adc5"),
        (vec![a, b, c, c], "9725a8cf4154eb2b9fc5722dc2e65536eb09eba37150859f97132466815de2ae"),
    ];
    for (leaves, root) in &cases {
        assert_eq!(root_of(leaves), hex(root));
    }
    let single = Inclusion { leaf: a, index: 0, size: 1, path: &[], root: a };
    assert_eq!(verify_inclusion(&single), Ok(()));

    let (two, three) = (root_of(&[a, b]), root_of(&[a, b, c]));
    let path = [hex("b563a5e69628743929eddec0ccfeb0745c39577e12a72e84915edd6633cb97f2")];
    let growth =
        Consistency { old_size: 2, old_root: two, new_size: 3, new_root: three, path: &path };
    assert_eq!(verify_consistency(&growth), Ok(()));
    let read = |_| Ok::<_, ProofError>(vec![a, b, c]);
    assert_eq!(consistency_proof(2, 3, read), Ok(path.to_vec()));

    let none = Consistency { old_size: 0, old_root: empty_root(), path: &[], ..growth };
    assert_eq!(verify_consistency(&none), Err(ProofError::OldEmpty));
    assert_eq!(consistency_proof(0, 3, read), Err(ProofError::OldEmpty));
    let same = Consistency { old_size: 3, old_root: three, path: &[], ..growth };
    assert_eq!(verify_consistency(&same), Ok(()));
    assert_eq!(consistency_proof(3, 3, read), Ok(vec![]));
    let forked = Consistency { old_root: two, ..same };
    assert_eq!(verify_consistency(&forked), Err(ProofError::Root));
    let padded = Consistency { path: &path, ..same };
    assert_eq!(verify_consistency(&padded), Err(ProofError::Length { found: 1 }));
}

/// Case O-33.
#[test]
fn a_wrong_index_size_or_length_is_refused() {
    let sibling = hex("ed692f01f7f6c46930d7ad8f9adad3f9f38b7379cf6a8d2f399a0ba1e914fe25");
    let root = hex("961d2e2be20f538ffdf56962a86d1bd165498f222684ee4c5e02c1e9f852adc5");
    let path = [sibling, sibling];
    let check = |index: u64, size: u64, hashes: usize| {
        let path = &path[..hashes];
        verify_inclusion(&Inclusion { leaf: leaf_hash(b"C"), index, size, path, root })
    };
    assert_eq!(check(2, 3, 1), Ok(()));
    for (index, size, hashes) in
        [(1, 3, 1), (3, 3, 1), (2, 3, 2), (2, 3, 0), (u64::MAX, 3, 1), (2, 0, 1), (0, 0, 0)]
    {
        assert!(check(index, size, hashes).is_err(), "{index} {size} {hashes}");
    }
    assert!(check(u64::MAX - 1, u64::MAX, 2).is_err());
    assert!(Hash::parse_base64(&STANDARD.encode(&sibling.0[..31])).is_err());
    let read = |_| -> Result<Vec<Hash>, ProofError> { panic!("nothing to read") };
    assert_eq!(inclusion_proof(3, 3, read), Err(ProofError::IndexOutside { index: 3, size: 3 }));
    assert_eq!(inclusion_proof(0, 0, read), Err(ProofError::IndexOutside { index: 0, size: 0 }));
}

#[test]
fn the_argon_2020_log_grew_consistently() {
    let log = json("golang-mod-sumdb/argon2020-consistency.json");
    let root = |name: &str| base64_hash(&log[name]).expect("a hash");
    let path: Vec<Hash> =
        strings(&log["consistency"]).into_iter().flat_map(Hash::parse_base64).collect();
    assert_eq!(path.len(), 30);
    let growth = Consistency {
        old_size: log["old_size"].as_u64().expect("a size"),
        old_root: root("old_root_b64"),
        new_size: log["tree_size"].as_u64().expect("a size"),
        new_root: root("root_b64"),
        path: &path,
    };
    assert_eq!(verify_consistency(&growth), Ok(()));
    let shorter = Consistency { path: &path[..29], ..growth };
    assert_eq!(verify_consistency(&shorter), Err(ProofError::Length { found: 29 }));
    let (old_root, new_root) = (growth.new_root, growth.old_root);
    let swapped = Consistency { old_root, new_root, ..growth };
    assert_eq!(verify_consistency(&swapped), Err(ProofError::OldRoot));
}
