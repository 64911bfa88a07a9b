//! `verify --against URL`: two real processes that agree, fork, lag and lead, and stand-ins that lie.

use crate::federation::{ANCHOR, Federation, ORIGIN};
use crate::harness::{Ran, Serving};
use crate::stand_in::StandIn;
use crowny_fed::auth::keys::parse_seed;
use crowny_fed::journal::checkpoint::{Checkpoint, sign_checkpoint};
use crowny_fed::journal::merkle::{Hash, leaf_hash};
use ed25519_dalek::SigningKey;
use std::path::Path;
use std::process::Command;

/// Copies a member's folder while nobody writes to it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    let status =
        Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().expect("cp is there");
    assert!(status.success());
}

impl Federation {
    /// Another machine with the same files.
    fn clone_to(&self, dir: &str) {
        copy(&self.folder.join(ANCHOR), &self.folder.join(dir));
    }

    /// The same as a replica, which does not sign.
    fn replica(&self, dir: &str) {
        self.clone_to(dir);
        let path = format!("{dir}/self.json");
        let anchors = format!("{{\n  \"anchors\": [\"{}\"],", self.url());
        self.folder.write(&path, self.folder.text(&path).replacen('{', &anchors, 1));
    }

    fn log_key(&self) -> SigningKey {
        parse_seed(&self.folder.text(&format!("{ANCHOR}/keys/log.key"))).unwrap()
    }

    fn against(&self, dir: &str, url: &str) -> Ran {
        self.folder.fed(dir, &["verify", "--against", url])
    }

    fn size(&self) -> u64 {
        self.lines().len() as u64
    }

    /// A checkpoint signed by the log's own key that is not the log's.
    fn forged(&self, origin: &str, size: u64, root: Hash) -> String {
        sign_checkpoint(&Checkpoint::new(origin, size, root), &self.log_key()).unwrap().render()
    }

    /// `--against` convicts: exit 5, and both notes are kept.
    fn convicts(&self, dir: &str, url: &str, (ours, theirs): (u64, u64), words: &str) {
        let ran = self.against(dir, url);
        ran.refuses(5, words);
        let kept = |whose: &str, size: u64| {
            self.folder.text(&format!("{dir}/state/evidence/{whose}-{size}.txt"))
        };
        for (whose, size) in [("ours", ours), ("theirs", theirs)] {
            assert!(kept(whose, size).starts_with(&format!("{ORIGIN}\n{size}\n")), "{whose}");
            assert!(ran.err.contains(&format!("evidence/{whose}-{size}.txt")), "{}", ran.err);
        }
        assert_eq!(kept("ours", ours), self.folder.text(&format!("{dir}/federation-root.txt")));
    }

    fn keeps_nothing(&self, dir: &str) {
        assert!(!self.folder.join(&format!("{dir}/state/evidence")).exists());
    }
}

#[test]
fn one_log_agrees_with_itself_at_every_size() {
    let fed = Federation::found();
    let good = |dir: &str, url: &str, words: &str| {
        let out = fed.folder.good(dir, &["verify", "--against", url]);
        assert!(out.lines().last().unwrap().contains(words), "{out}");
    };
    good(ANCHOR, &fed.url(), "the same checkpoint");
    good(ANCHOR, &format!("{}/", fed.url()), "the same checkpoint");

    fed.replica("replica");
    let lagging = Serving::start(&fed.folder, "replica", 0, &[]);
    for (size, service) in (4..).zip(["a", "b", "c", "d", "e", "f"]) {
        fed.good(&["grant", service, "gw2"]);
        good("replica", &fed.url(), &format!("its {size} lines continue our 3"));
        let url = format!("http://127.0.0.1:{}", lagging.port);
        good(ANCHOR, &url, "its 3 lines are the first of ours");
    }
    let out = fed.good(&["verify", "--full", "--json", "--against", &fed.url()]);
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&told["against"]["ours"], &told["against"]["theirs"]), (&9.into(), &9.into()));
    fed.keeps_nothing(ANCHOR);
    fed.keeps_nothing("replica");
}

/// Two machines with one key: each appends a line of its own (reference/tlog.md, incident 26).
#[test]
fn a_fork_of_two_real_anchors_is_seen_from_both_sides() {
    let fed = Federation::found();
    fed.clone_to("twin");
    fed.replica("replica");
    let twin = Serving::start(&fed.folder, "twin", 0, &[]);
    let twin_url = format!("http://127.0.0.1:{}", twin.port);
    fed.good(&["grant", "shop", "gw2"]);
    fed.folder.good("twin", &["grant", "shop", "gw3"]);
    fed.convicts(ANCHOR, &twin_url, (4, 4), "another root at the same size 4");
    fed.convicts("twin", &fed.url(), (4, 4), "another root at the same size 4");

    // A person has to judge before either goes on; then neither size may pass for the other.
    for dir in [ANCHOR, "twin"] {
        fed.folder.fed(dir, &["grant", "shop", "gw4"]).refuses(5, "state/evidence");
        std::fs::remove_dir_all(fed.folder.join(dir).join("state/evidence")).unwrap();
    }
    fed.good(&["grant", "shop", "gw4"]);
    fed.convicts(ANCHOR, &twin_url, (5, 4), "our 5 lines do not begin with the 4");
    fed.convicts("twin", &fed.url(), (4, 5), "we hold 4");

    // A replica that followed the one cannot be led to the other.
    fed.folder.good("replica", &["verify", "--against", &twin_url]);
    fed.replica("follower");
    std::fs::remove_dir_all(fed.folder.join("twin/state/evidence")).unwrap();
    fed.folder.good("twin", &["grant", "shop", "gw5"]);
    fed.folder.good("twin", &["grant", "shop", "gw6"]);
    fed.convicts("follower", &twin_url, (5, 6), "fork: line 3 is another one in the 6 lines");
}

/// A restored backup: the same log, but its own key has signed more than it holds.
#[test]
fn an_anchor_that_was_rolled_back_learns_it_from_any_copy() {
    let fed = Federation::found();
    fed.clone_to("backup");
    fed.good(&["grant", "shop", "gw2"]);
    fed.convicts("backup", &fed.url(), (3, 4), "4 lines under our signature, but we hold 3");
}

#[test]
fn a_liar_with_the_right_key_is_convicted_and_earlier_evidence_stays() {
    let fed = Federation::found();
    let size = fed.size();
    for lie in ["one", "two"] {
        let note = fed.forged(ORIGIN, size, leaf_hash(lie.as_bytes()));
        let liar = StandIn::saying([("/checkpoint", note)]);
        fed.against(ANCHOR, &liar.url()).refuses(5, "another root at the same size");
    }
    let folder = fed.folder.join("anchor/state/evidence");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 3, "ours, and both of theirs");

    // A proof that leads nowhere, for a checkpoint that is larger.
    fed.replica("replica");
    let path = vec![leaf_hash(b"x").to_string(); 3];
    let proof = serde_json::json!({ "old": size, "new": 9, "path": path }).to_string();
    let note = fed.forged(ORIGIN, 9, leaf_hash(b"nine"));
    let liar = StandIn::saying([("/checkpoint", note.clone()), ("/consistency", proof)]);
    let words = "does not show that its 9 lines continue our 3";
    fed.against("replica", &liar.url()).refuses(1, words);
    let kept = fed.folder.text("replica/state/evidence/unproven-9.txt");
    assert_eq!(kept, note, "a proof that fails may be a broken server: it is kept, not believed");

    // The answer to another question convicts nobody (incident 4: a cache that drops the query).
    let stale = serde_json::json!({ "old": 1, "new": 2, "path": [] }).to_string();
    let cached = StandIn::saying([("/checkpoint", note.clone()), ("/consistency", stale)]);
    fed.against("replica", &cached.url()).refuses(1, "answered 1 to 2 when asked 3 to 9");
    let silent = StandIn::saying([("/checkpoint", note)]);
    fed.against("replica", &silent.url()).refuses(1, "answered 404");
}

#[test]
fn what_our_key_did_not_sign_convicts_nobody() {
    let fed = Federation::found();
    let size = fed.size();
    let stranger = SigningKey::from_bytes(&[7; 32]);
    let forged = Checkpoint::new(ORIGIN, size + 5, leaf_hash(b""));
    let by_another_key = sign_checkpoint(&forged, &stranger).unwrap().render();
    let named_so = fed.forged("other.example/fed", size + 5, leaf_hash(b""));
    let good = fed.folder.text("anchor/federation-root.txt");
    let grown = good.replacen(&format!("\n{size}\n"), &format!("\n{}\n", size + 1), 1);
    let bodies = [
        "999999\n".to_owned(),
        String::new(),
        by_another_key,
        named_so,
        grown,
        good.split("\n\n").next().unwrap().to_owned() + "\n",
        "{\"size\":99}".to_owned(),
    ];
    for body in bodies {
        let server = StandIn::saying([("/checkpoint", body.clone())]);
        let ran = fed.against(ANCHOR, &server.url());
        ran.refuses(1, &format!("/checkpoint is no checkpoint of {ORIGIN}"));
    }
    let empty = StandIn::saying([("/nothing", String::new())]);
    fed.against(ANCHOR, &empty.url()).refuses(1, "answered 404");
    let gone = empty.url();
    drop(empty);
    fed.against(ANCHOR, &gone).refuses(1, "refused");
    fed.against(ANCHOR, "ftp://x").refuses(2, "http://");
    fed.keeps_nothing(ANCHOR);
}

/// A damaged tile of ours is not the other side's fault.
#[test]
fn our_own_tiles_are_doubted_before_the_other_side() {
    let fed = Federation::found();
    fed.good(&["grant", "shop", "gw2"]);
    fed.replica("replica");
    let lagging = Serving::start(&fed.folder, "replica", 0, &[]);
    for service in ["a", "b", "c"] {
        fed.good(&["grant", service, "gw2"]);
    }
    let path = fed.folder.join("anchor/tile/0/000.p/7");
    let mut tile = std::fs::read(&path).unwrap();
    tile[5 * 32] ^= 1;
    std::fs::write(&path, tile).unwrap();
    let url = format!("http://127.0.0.1:{}", lagging.port);
    fed.against(ANCHOR, &url).refuses(5, "tile/0/000.p/7");
    fed.keeps_nothing(ANCHOR);
}

/// After a change of the log key a replica that lags still is of the same log.
#[test]
fn a_checkpoint_under_the_log_key_before_is_still_ours() {
    let fed = Federation::found();
    fed.replica("replica");
    let lagging = Serving::start(&fed.folder, "replica", 0, &[]);
    fed.good(&["rotate-key", "--log"]);
    fed.good(&["grant", "shop", "gw2"]);
    let url = format!("http://127.0.0.1:{}", lagging.port);
    fed.good(&["verify", "--against", &url]);
    fed.folder.good("replica", &["verify", "--against", &fed.url()]);
}
