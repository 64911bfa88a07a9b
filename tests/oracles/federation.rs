//! A federation of the real binary with lines of both authors, anchor and member, that grows to
//! any size.

use crate::harness::{Folder, Serving};
use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::host::real::RealHost;
use crowny_fed::journal::merkle::Hash;
use crowny_fed::journal::record::{Record, RosterRecord};
use crowny_fed::journal::tlog_proof::{TlogProof, parse_tlog_proof};
use crowny_fed::layout::Layout;
use crowny_fed::protocol::member::{Incarnation, NodeId};
use crowny_fed::protocol::roster::Row;
use crowny_fed::store::disk::Disk;
use crowny_fed::store::draft::Draft;
use crowny_fed::store::identity::Identity;
use crowny_fed::store::ledger::{Ledger, Mend};
use crowny_fed::store::log_keys;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// Where the anchor's files are.
const ANCHOR: &str = "anchor";
/// The federation's name, and that of its log key.
pub const ORIGIN: &str = "test.example/fed";
/// When the grown lines say they were written, in seconds since 1970.
const GROWN_S: u64 = 1_700_000_000;

pub struct Federation {
    folder: Folder,
    serving: Serving,
}

impl Federation {
    /// A served anchor with a member that joined and registered.
    pub fn found() -> Federation {
        let folder = Folder::new();
        folder.write(&format!("{ANCHOR}/crowny-fed.toml"), "interval = \"0\"\n");
        let serving = Serving::start(&folder, ANCHOR, 0, &[]);
        let url = format!("http://127.0.0.1:{}", serving.port);
        folder.good(ANCHOR, &["init", "--origin", ORIGIN, "--id", "gw1", "--url", &url]);
        let federation = Federation { folder, serving };
        let invitation = federation.good(&["invite", "gw2"]);
        federation.join("gw2", &invitation);
        federation.folder.good("gw2", &["register", "--service", "web=http://127.0.0.1:9"]);
        federation
    }

    /// A verb on the anchor that must succeed.
    pub fn good(&self, args: &[&str]) -> String {
        self.folder.good(ANCHOR, args)
    }

    /// A file of the anchor.
    pub fn file(&self, name: &str) -> Vec<u8> {
        let path = self.folder.join(ANCHOR).join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Replaces a file of the anchor.
    pub fn replace(&self, name: &str, bytes: &[u8]) {
        self.folder.write(&format!("{ANCHOR}/{name}"), bytes);
    }

    /// What `root --json` says.
    pub fn root(&self) -> Value {
        serde_json::from_str(&self.good(&["root", "--json"])).unwrap()
    }

    /// The log's verifier key.
    pub fn vkey(&self) -> String {
        self.root()["vkey"].as_str().unwrap().to_owned()
    }

    /// The journal's lines without their line feeds.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        let journal = self.file("nodes.ndjson");
        let lines = journal.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n');
        lines.map(<[u8]>::to_vec).collect()
    }

    /// The served proof of one line.
    pub fn proof(&self, seq: u64) -> TlogProof {
        parse_tlog_proof(&self.serving.get(&format!("/proof?seq={seq}")).text()).unwrap()
    }

    /// The served proof between two sizes.
    pub fn consistency(&self, old: u64, new: u64) -> Vec<Hash> {
        let answer = self.serving.get(&format!("/consistency?old={old}&new={new}")).json();
        serde_json::from_value(answer["path"].clone()).unwrap()
    }

    /// Publishes at exactly `size` lines, through the product's own ledger: no tick can be told how
    /// many lines to write.
    pub fn grow_to(&self, size: u64) {
        let host = RealHost::new(Dialer::new(Options::default()));
        let layout = Layout::new(self.folder.join(ANCHOR));
        let disk = Disk { host: &host, layout: &layout };
        let identity = Identity::require(&disk).unwrap();
        let mut ledger = Ledger::open(disk, &identity, Mend::Yes).unwrap();
        let drafts = (ledger.tip().size..size).map(draft).collect();
        ledger.append(drafts, GROWN_S).unwrap();
        let keys = log_keys::signing(&disk, &identity, ledger.fold(), GROWN_S).unwrap();
        ledger.publish(&keys).unwrap();
        assert_eq!(ledger.tip().size, size);
    }

    fn join(&self, dir: &str, invitation: &str) {
        let mut command = self.folder.command(dir, &["join", "-"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(invitation.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }
}

/// A roster line unlike any other.
fn draft(seq: u64) -> Draft {
    let row = Row {
        host: "127.0.0.1".to_owned(),
        port: u16::try_from(seq).unwrap(),
        role: "edge".to_owned(),
        state: "active".to_owned(),
    };
    let node = NodeId::parse("peer").unwrap();
    Record::Roster(RosterRecord { node, inc: Incarnation::FIRST, row: Some(row) }).into()
}
