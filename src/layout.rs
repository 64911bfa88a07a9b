//! Where everything stands under `--dir` (design section 4).

use std::path::{Path, PathBuf};

/// The roster's file name, in NFC.
pub const ROSTER: &str = "피어목록.psv";
/// The status file's name, in NFC.
pub const STATUS: &str = "피어상태.psv";
/// How the names of damaged branches that were set aside begin.
pub const DAMAGED_BRANCH: &str = "branch.damaged-";
/// The configuration's file name.
pub const CONFIG: &str = "crowny-fed.toml";

/// The folder of one federation member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// The layout under an absolute folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Layout { dir: dir.into() }
    }

    /// The folder itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The journal, source of truth.
    pub fn journal(&self) -> PathBuf {
        self.dir.join("nodes.ndjson")
    }

    /// Derived look-ups: seq → offset, hash → seq.
    pub fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// `<size> <hex leaf hash of last line>`.
    pub fn head(&self) -> PathBuf {
        self.dir.join("head.txt")
    }

    /// The signed checkpoint.
    pub fn root(&self) -> PathBuf {
        self.dir.join("federation-root.txt")
    }

    /// The fold at some size.
    pub fn snapshot(&self) -> PathBuf {
        self.dir.join("snapshot.json")
    }

    /// Locked while the journal is read, decided on and appended to.
    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The floor.
    pub fn committed(&self) -> PathBuf {
        self.state().join("committed.json")
    }

    /// A cut of the journal that was begun.
    pub fn cut(&self) -> PathBuf {
        self.state().join("cut.json")
    }

    /// Where the witnesses stand, and what they cosigned last.
    pub fn witnesses(&self) -> PathBuf {
        self.state().join("witnesses.json")
    }

    /// Notes that contradict each other, kept.
    pub fn evidence(&self) -> PathBuf {
        self.state().join("evidence")
    }

    /// When the members' checkpoints were last looked at.
    pub fn looked(&self) -> PathBuf {
        self.state().join("looked.json")
    }

    /// An operator's word that the wall clock is right although the journal is ahead of it.
    pub fn accepted_clock(&self) -> PathBuf {
        self.state().join("clock.json")
    }

    /// Temporary files of ours.
    pub fn temporary(&self, target: &Path) -> PathBuf {
        let name = target.file_name().unwrap_or_default();
        self.state().join("tmp").join(name)
    }

    /// Ages and counters from tick to tick.
    pub fn tick(&self) -> PathBuf {
        self.dir.join("tick.json")
    }

    /// Who we are.
    pub fn identity(&self) -> PathBuf {
        self.dir.join("self.json")
    }

    /// Seeds; locked for a whole tick.
    pub fn keys(&self) -> PathBuf {
        self.dir.join("keys")
    }

    /// One seed: `log`, `node` or `recovery`.
    pub fn key(&self, name: &str) -> PathBuf {
        self.keys().join(format!("{name}.key"))
    }

    /// Invitations until their time is over.
    pub fn invites(&self) -> PathBuf {
        self.dir.join("invites.ndjson")
    }

    /// Keys of members that sign with HMAC.
    pub fn node_keys(&self) -> PathBuf {
        self.dir.join("node-keys.ndjson")
    }

    /// Nonces of answered requests that made no line.
    pub fn used_nonces(&self) -> PathBuf {
        self.dir.join("used-nonces.log")
    }

    /// What this node decided for itself alone.
    pub fn decisions(&self) -> PathBuf {
        self.dir.join("decisions.ndjson")
    }

    /// The decisions before the current file.
    pub fn decisions_before(&self) -> PathBuf {
        self.dir.join("decisions.before.ndjson")
    }

    /// What was said while no anchor answered.
    pub fn branch(&self) -> PathBuf {
        self.dir.join("branch.ndjson")
    }

    /// What that was before a byte of it changed.
    pub fn damaged_branch(&self, ms: u64) -> PathBuf {
        self.dir.join(format!("{DAMAGED_BRANCH}{ms}.ndjson"))
    }

    /// The last signed observation of one member.
    pub fn observation(&self, node: &str) -> PathBuf {
        self.dir.join("observations").join(format!("{node}.json"))
    }

    /// The map.
    pub fn routes(&self) -> PathBuf {
        self.dir.join("federated-routes.txt")
    }

    /// Age of the map.
    pub fn freshness(&self) -> PathBuf {
        self.dir.join("freshness.json")
    }

    /// Bytes of a torn journal tail.
    pub fn torn(&self, stamp: u64) -> PathBuf {
        self.dir.join(format!("nodes.torn-{stamp}"))
    }

    /// A tile or bundle by its C2SP path.
    pub fn tile(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }
}

/// The temporary name that `writer` uses beside a published file outside our folder.
pub fn beside(target: &Path, writer: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{writer}.tmp"))
}
