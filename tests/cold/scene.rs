//! Folders and what is done to them.

use crate::federation::{Federation, Node};
use crate::harness::Ran;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// What is made from the journal and the floor, and comes back by itself.
pub const DERIVED: [&str; 6] =
    ["head.txt", "federation-root.txt", "snapshot.json", "index", "tile", "federated-routes.txt"];

impl Node {
    pub fn remove(&self, name: &str) {
        let path = self.file(name);
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => drop(fs::remove_file(path)),
        }
    }

    /// As after a reboot, or on another machine: the last tick is of another boot.
    pub fn as_of_another_boot(&self) {
        let mut memory: Value = serde_json::from_str(&self.text("tick.json")).unwrap();
        memory["boot_id"] = json!("of-another-boot");
        memory["grace"] = json!(false);
        fs::write(self.file("tick.json"), memory.to_string()).unwrap();
    }

    /// A file's time and place on disk: another one after any write.
    pub fn stamp(&self, name: &str) -> (i64, i64, u64) {
        let meta = fs::metadata(self.file(name)).unwrap();
        (meta.mtime(), meta.mtime_nsec(), meta.ino())
    }

    /// The ten minutes are over: as if they had begun long ago.
    pub fn wait_is_over(&self) {
        let text = self.text("used-nonces.log");
        let (head, rest) = text.split_once('\n').unwrap();
        let since = head.split(' ').find(|word| word.starts_with("since=")).unwrap();
        assert!(since != "since=0", "nobody waits: {head}");
        let head = head.replace(since, "since=1");
        fs::write(self.file("used-nonces.log"), format!("{head}\n{rest}")).unwrap();
    }

    /// `doctor`, which must end like this and write nothing.
    #[track_caller]
    pub fn doctor(&self, code: i32, words: &[&str]) -> Ran {
        let before = crate::harness::image(&self.dir, &[""]);
        let ran = self.fed(&["doctor"]).expect(code);
        for word in words {
            assert!(ran.out.contains(word), "'{word}' is not in {ran:#?}");
        }
        let told: Value =
            serde_json::from_str(&self.fed(&["doctor", "--json"]).expect(code).out).unwrap();
        let lines = told["findings"].as_array().unwrap().len() + usize::from(code == 0);
        assert_eq!(ran.out.lines().count(), lines, "one line a finding: {ran:?}");
        assert!(before == crate::harness::image(&self.dir, &[""]), "doctor wrote something");
        ran
    }

    /// A plain tick and a full check, both good.
    #[track_caller]
    pub fn heals(&self) {
        self.fed(&["tick"]).expect(0);
        self.fed(&["verify", "--full"]).quiet();
    }
}

/// An anchor and two served members that hold all of `lines` lines more.
pub fn federation(lines: u64) -> Federation {
    let mut fed = Federation::found();
    for id in ["n1", "n2"] {
        let mut node = fed.join(id);
        node.serve();
        fed.others.push(node);
    }
    fed.grow(lines);
    for node in &fed.others {
        node.fed(&["sync"]).quiet();
    }
    fed.anchor.good(&["tick"]);
    for node in &fed.others {
        node.fed(&["sync"]).expect(0);
        node.fed(&["tick"]).expect(0);
    }
    fed
}
