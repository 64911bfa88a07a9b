//! RFC 6962 2.1: roots and the odd leaf.

use crowny_fed::journal::merkle::{Frontier, Hash, leaf_hash, root_of};

use crate::fixture::{hex, json, strings, unhex};

#[test]
fn rfc_6962_roots_and_hashes() {
    let vectors = json("rfc/rfc6962-roots.json");
    let inputs = strings(&vectors["leaf_inputs_hex"]);
    let leaves: Vec<Hash> = inputs.iter().map(|input| leaf_hash(&unhex(input))).collect();
    let roots = strings(&vectors["root_by_size_hex"]);
    assert_eq!(roots.len(), 9);
    let mut frontier = Frontier::new();
    for (size, root) in roots.iter().enumerate() {
        assert_eq!(root_of(&leaves[..size]), hex(root), "size {size}");
        assert_eq!(frontier.root(), hex(root), "size {size}");
        leaves.get(size).into_iter().for_each(|leaf| frontier.push(*leaf));
    }
    let examples = &vectors["hash_examples"];
    assert_eq!(leaf_hash(b"L123456").to_string(), examples[0]["hash"]);
    // The second example joins children shorter than a hash, which our types cannot even say.
    assert_eq!(examples[1]["op"], "node");
}

#[test]
fn an_odd_leaf_is_promoted_and_never_copied() {
    let trap = json("computed-example/odd-leaf-trap.json");
    let rfc = json("rfc/rfc6962-roots.json");
    let roots = strings(&rfc["root_by_size_hex"]);
    for (size, pair) in trap["sizes"].as_object().expect("sizes") {
        let root = roots[size.parse::<usize>().expect("a size")];
        assert_eq!(pair["rfc6962"], root);
        assert_ne!(pair["duplicate_last"], root);
    }
    let leaves = [b"a", b"b", b"c", b"c"].map(|line| leaf_hash(line));
    assert_ne!(root_of(&leaves[..3]), root_of(&leaves));
}
