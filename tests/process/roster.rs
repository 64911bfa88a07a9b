//! `tick` and the roster file: a damaged wish never empties the record.

use crate::harness::{Folder, ROSTER, row};
use crate::peers::Peer;

struct Fed {
    folder: Folder,
    peers: [Peer; 3],
}

impl Fed {
    /// Three peers, well and listed.
    fn new() -> Fed {
        let fed = Fed { folder: Folder::new(), peers: [200; 3].map(Peer::status) };
        fed.folder.found("d", "");
        fed.folder.roster("d", &fed.rows());
        fed.folder.good("d", &["tick"]);
        assert_eq!(fed.mapped(), ["n1", "n2", "n3"]);
        fed
    }

    fn rows(&self) -> [String; 3] {
        std::array::from_fn(|at| row(&format!("n{}", at + 1), self.peers[at].port))
    }

    /// Nodes of the map.
    fn mapped(&self) -> Vec<String> {
        let map = self.folder.text("d/federated-routes.txt");
        let rows = map.lines().filter(|row| !row.starts_with('#'));
        rows.map(|row| row.split('|').nth(1).unwrap().to_owned()).collect()
    }

    fn journal(&self) -> String {
        self.folder.text("d/nodes.ndjson")
    }

    fn probes(&self) -> [usize; 3] {
        self.peers.each_ref().map(|peer| peer.heads().len())
    }
}

#[test]
fn a_missing_emptied_or_unreadable_roster_changes_nothing() {
    let wide: Vec<u8> =
        "\u{feff}n1|h|1|e|active".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let damages: [(&str, Option<&[u8]>); 4] = [
        ("is missing", None),
        ("has no rows", Some(b"# none\n")),
        ("UTF-16", Some(&wide)),
        ("not UTF-8", Some(b"n\xff|")),
    ];
    for (words, bytes) in damages {
        let fed = Fed::new();
        let before = (fed.mapped(), fed.journal());
        match bytes {
            Some(bytes) => fed.folder.write(&format!("d/{ROSTER}"), bytes),
            None => std::fs::remove_file(fed.folder.join(&format!("d/{ROSTER}"))).unwrap(),
        }
        let ran = fed.folder.fed("d", &["tick"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(4), ""), "{}", ran.err);
        assert!(ran.err.contains(words), "{}", ran.err);
        assert_eq!((fed.mapped(), fed.journal()), before);
        assert_eq!(fed.probes(), [2; 3], "known rows are probed on");
        assert_eq!(fed.folder.status("d").len(), 3);
    }
}

#[test]
fn a_damaged_row_keeps_its_last_good_line() {
    let fed = Fed::new();
    let before = fed.journal();
    for damaged in
        ["n2|127.0.0.1|70000|edge|active", "n2|127.0.0.1", "n\u{1}2|127.0.0.1|1|e|active"]
    {
        let [n1, _, n3] = fed.rows();
        fed.folder.roster("d", &[n1, damaged.to_owned(), n3]);
        let ran = fed.folder.fed("d", &["tick"]);
        assert_eq!(ran.code, Some(4), "{}", ran.err);
        assert!(ran.err.contains(" line 2: "), "{}", ran.err);
        assert_eq!(fed.journal(), before);
        assert_eq!(fed.mapped(), ["n1", "n2", "n3"]);
    }
    // The last one could be anybody's row: so n2 stays, and is probed like the others.
    assert_eq!(fed.probes(), [4; 3]);
}

#[test]
fn a_removed_row_is_left_and_comes_back_with_a_higher_incarnation() {
    let fed = Fed::new();
    let [n1, n2, n3] = fed.rows();
    fed.folder.roster("d", &[n1.clone(), n3.clone()]);
    assert_eq!(fed.folder.good("d", &["tick"]), "n2 gone from the roster\n");
    assert_eq!(fed.mapped(), ["n1", "n3"]);
    assert_eq!(fed.folder.good("d", &["tick"]), "");
    assert_eq!(fed.probes(), [3, 1, 3]);
    fed.folder.roster("d", &[n1, n2, n3]);
    assert_eq!(fed.folder.good("d", &["tick"]), "n2 listed\n");
    let map = fed.folder.text("d/federated-routes.txt");
    assert!(
        map.contains(&format!(
            "edge|n2|http://127.0.0.1:{}|weight=1|alive|inc=1\n",
            fed.peers[1].port
        )),
        "{map}"
    );
    assert_eq!(fed.probes(), [4, 2, 4]);
}

#[test]
fn a_row_on_standby_is_probed_but_not_routed() {
    let fed = Fed::new();
    let [n1, n2, n3] = fed.rows();
    fed.folder.roster("d", &[n1, n2.replace("active", "standby"), n3]);
    assert_eq!(fed.folder.good("d", &["tick"]), "n2 listed as standby: probed, not routed\n");
    assert_eq!(fed.mapped(), ["n1", "n3"]);
    assert_eq!(fed.probes(), [2; 3]);
    assert_eq!(fed.folder.status("d")["n2"][4], "티");
}

#[test]
fn the_row_of_an_enrolled_node_is_ignored_with_a_warning() {
    let fed = Fed::new();
    let before = (fed.mapped(), fed.journal());
    let stranger = Peer::status(200);
    let mut rows = fed.rows().to_vec();
    rows.push(row("gw1", stranger.port));
    fed.folder.roster("d", &rows);
    // Under another name of our own, so that the row is not dropped as ours.
    let ran = fed.folder.fed("d", &["tick", "--self", "another"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
    assert!(ran.err.contains("line 4: 'gw1' holds a key"), "{}", ran.err);
    assert_eq!((fed.mapped(), fed.journal()), before);
    assert!(stranger.heads().is_empty());
}

#[test]
fn our_own_row_is_neither_probed_nor_listed_in_any_spelling() {
    let fed = Fed::new();
    let before = fed.journal();
    let own = Peer::status(200);
    let mut rows = fed.rows().to_vec();
    rows.insert(0, row("GW1", own.port));
    fed.folder.roster("d", &rows);
    assert_eq!(fed.folder.good("d", &["tick"]), "");
    assert_eq!(fed.journal(), before);
    assert!(!fed.folder.good("d", &["failover"]).contains("GW1"));
    assert!(own.heads().is_empty());
}

#[test]
fn a_row_spelled_in_another_case_is_the_same_node() {
    let fed = Fed::new();
    let before = fed.journal();
    fed.folder.roster("d", &fed.rows().map(|row| row.replacen('n', "N", 1)));
    assert_eq!(fed.folder.good("d", &["tick"]), "");
    assert_eq!(fed.journal(), before);
    assert_eq!(fed.mapped(), ["n1", "n2", "n3"]);
    assert_eq!(fed.probes(), [2; 3], "each is asked once a tick");
    assert_eq!(fed.folder.good("d", &["failover"]).lines().count(), 3);
    assert_eq!(fed.folder.good("d", &["log", "--json", "--node", "N2"]).lines().count(), 1);
}
