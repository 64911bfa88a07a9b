//! A federation of the real binary: one anchor that is served, members that join it, and cheap
//! lines for long journals.

use crate::harness::{Folder, Image, Ran, Serving, fed, free_port, get, image, post, url};
use crate::stand_in::StandIn;
use crowny_fed::auth::keys::parse_seed;
use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::host::real::RealHost;
use crowny_fed::journal::checkpoint::{Checkpoint, sign_checkpoint};
use crowny_fed::journal::merkle::Hash;
use crowny_fed::journal::record::{Grant, Record};
use crowny_fed::layout::Layout;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::protocol::service::ServiceName;
use crowny_fed::store::disk::Disk;
use crowny_fed::store::draft::Draft;
use crowny_fed::store::identity::Identity;
use crowny_fed::store::ledger::{Ledger, Mend};
use crowny_fed::store::log_keys;
use ed25519_dalek::SigningKey;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const ORIGIN: &str = "test.example/fed";
const CONFIG: &str = "interval = \"0\"\nsuspicion_ticks = 2\n";
/// What a member fetched, and what it says of it.
const FETCHED: [&str; 7] = [
    "nodes.ndjson",
    "nodes.torn-",
    "federation-root.txt",
    "head.txt",
    "tile/",
    "snapshot.json",
    "state/committed.json",
];

/// What anchor and members have alike.
const SHARED: [&str; 4] = ["nodes.ndjson", "federation-root.txt", "head.txt", "tile/"];

/// One member's folder, served or not.
pub struct Node {
    pub dir: PathBuf,
    pub port: u16,
    serving: Option<Serving>,
}

impl Node {
    pub fn in_folder(folder: &Folder, name: &str) -> Node {
        let dir = folder.path().join(name);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("crowny-fed.toml"), CONFIG).unwrap();
        Node { dir, port: free_port(), serving: None }
    }

    /// Another machine with the same files, on another port.
    pub fn copy_as(&self, name: &str) -> Node {
        let dir = self.dir.with_file_name(name);
        let mut copy = Command::new("cp");
        assert!(copy.arg("-a").arg(&self.dir).arg(&dir).status().unwrap().success());
        Node { dir, port: free_port(), serving: None }
    }

    pub fn serve(&mut self) {
        self.stop();
        self.serving = Some(Serving::start(&self.dir, self.port, &self.dir.with_extension("log")));
    }

    /// kill -9.
    pub fn stop(&mut self) {
        self.serving = None;
    }

    pub fn url(&self) -> String {
        url(self.port)
    }

    pub fn fed(&self, args: &[&str]) -> Ran {
        Ran::of(fed(&self.dir, args), "")
    }

    /// A verb that must exit 0; its standard output.
    #[track_caller]
    pub fn good(&self, args: &[&str]) -> String {
        self.fed(args).expect(0).out
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.file(name)).unwrap_or_default()
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    /// Whole lines in the journal, signed or not.
    pub fn lines(&self) -> Vec<String> {
        self.text("nodes.ndjson").lines().map(str::to_owned).collect()
    }

    /// Lines under the published checkpoint, 0 without one.
    pub fn size(&self) -> u64 {
        self.text("federation-root.txt").lines().nth(1).map_or(0, |size| size.parse().unwrap())
    }

    /// Everything that a failed sync must leave as it is.
    pub fn fetched(&self) -> Image {
        image(&self.dir, &FETCHED)
    }

    /// Byte for byte the other's journal, and all of it verified. Partial tiles of sizes that one
    /// of the two never published are only on one side.
    #[track_caller]
    pub fn is_a_copy_of(&self, anchor: &Node) {
        let (mine, theirs) = (image(&self.dir, &SHARED), image(&anchor.dir, &SHARED));
        for (name, bytes) in &mine {
            assert!(theirs.get(name).is_none_or(|held| held == bytes), "{name} differs");
        }
        for name in ["nodes.ndjson", "federation-root.txt", "head.txt"] {
            assert_eq!(mine.get(name), theirs.get(name), "{name}");
        }
        let edge = |image: &Image| image.keys().filter(|name| theirs.contains_key(*name)).count();
        assert!(edge(&mine) > 4, "no tiles: {:?}", mine.keys());
        self.fed(&["verify", "--full"]).quiet();
    }

    /// Names and contents of what is kept as evidence.
    pub fn evidence(&self) -> Image {
        image(&self.dir, &["state/evidence/"])
    }

    /// Asks somebody else first for the journal from now on.
    pub fn follow(&self, anchor: &str) {
        let mut identity: Value = serde_json::from_str(&self.text("self.json")).unwrap();
        identity["anchors"] = serde_json::json!([anchor]);
        fs::write(self.file("self.json"), format!("{identity:#}\n")).unwrap();
    }

    /// Only who it is and its keys are left of it.
    pub fn forget_journal(&self) {
        for name in ["tile", "index"] {
            let _ = fs::remove_dir_all(self.file(name));
        }
        let files = ["nodes.ndjson", "snapshot.json", "federation-root.txt", "head.txt"];
        for name in files.into_iter().chain(["state/committed.json"]) {
            let _ = fs::remove_file(self.file(name));
        }
    }

    /// Rows of the map, without the stamp.
    pub fn map(&self) -> Vec<String> {
        let rows = self.text("federated-routes.txt");
        rows.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }
}

/// An anchor whose members reach it through a stand-in, honest until it is told otherwise.
pub struct Federation {
    pub folder: Folder,
    pub anchor: Node,
    pub front: StandIn,
    /// Members that only have to be there.
    pub others: Vec<Node>,
}

impl Federation {
    pub fn found() -> Federation {
        Federation::named(ORIGIN)
    }

    pub fn named(origin: &str) -> Federation {
        let folder = Folder::new();
        let mut anchor = Node::in_folder(&folder, "anchor");
        let front = StandIn::before(anchor.port);
        let place = front.url();
        let service = format!("web={place}");
        let init = ["init", "--origin", origin, "--id", "gw1", "--url", &place];
        anchor.good(&[&init[..], &["--service", &service]].concat());
        anchor.serve();
        Federation { folder, anchor, front, others: Vec::new() }
    }

    /// A member that joined, not served.
    pub fn join(&self, id: &str) -> Node {
        let node = Node::in_folder(&self.folder, id);
        let place = node.url();
        self.join_at(node, &place)
    }

    /// The same, saying that it answers at `place`.
    pub fn join_at(&self, node: Node, place: &str) -> Node {
        self.join_with(&node, place).expect(0);
        node
    }

    /// Runs `join`, which offers the service that every member has.
    pub fn join_with(&self, node: &Node, place: &str) -> Ran {
        let (command, invitation) = self.joining(node, place);
        Ran::of(command, &invitation)
    }

    /// A `join` that is not started yet, and what it reads.
    pub fn joining(&self, node: &Node, place: &str) -> (Command, String) {
        let id = node.dir.file_name().unwrap().to_str().unwrap();
        let invitation = self.anchor.good(&["invite", id, "--service", "web"]);
        let service = format!("web={place}");
        let args = ["join", "--url", place, "--service", &service, "-"];
        (fed(&node.dir, &args), invitation)
    }

    /// Appends `count` lines as the anchor would, much faster.
    pub fn grow(&self, count: u64) {
        grow(&self.anchor.dir, count);
    }

    pub fn get(&self, path: &str) -> crate::harness::Answer {
        get(self.anchor.port, path)
    }

    pub fn post(&self, path: &str, body: &str) -> crate::harness::Answer {
        post(self.anchor.port, path, body)
    }

    pub fn log_key(&self) -> SigningKey {
        parse_seed(&self.anchor.text("keys/log.key")).unwrap()
    }
}

pub fn note(origin: &str, (size, root): (u64, Hash), key: &SigningKey) -> String {
    sign_checkpoint(&Checkpoint::new(origin, size, root), key).unwrap().render()
}

/// Appends and signs lines in an anchor's folder: names bound and let go again and again.
pub fn grow(anchor: &Path, count: u64) {
    append(anchor, &mut |seq| binding(seq).into(), count);
}

/// Appends and signs any lines there.
pub fn append(anchor: &Path, draft: &mut dyn FnMut(u64) -> Draft, count: u64) {
    let host = RealHost::new(Dialer::new(Options::default()));
    let layout = Layout::new(anchor);
    let disk = Disk { host: &host, layout: &layout };
    let identity = Identity::require(&disk).unwrap();
    let mut ledger = Ledger::open(disk, &identity, Mend::Yes).unwrap();
    let now_s = ledger.tip().ts;
    let from = ledger.tip().size;
    ledger.append((from..from + count).map(draft).collect(), now_s).unwrap();
    ledger.publish(&log_keys::signing(&disk, &identity, ledger.fold(), now_s).unwrap()).unwrap();
}

/// A line that binds a name to nobody who offers it, or takes that back.
pub fn binding(seq: u64) -> Record {
    let service = ServiceName::parse(&format!("name-{}", seq % 100)).unwrap();
    let node = NodeId::parse("gw1").unwrap();
    Record::Grant(Grant { service, node, on: (seq / 100).is_multiple_of(2) })
}
