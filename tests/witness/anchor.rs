//! An anchor as a folder that the real binary works in, one line more at a time.

use crate::server::Witness;
use crowny_fed::auth::vkey::VerifierKey;
use crowny_fed::journal::checkpoint::{Checkpoint, open_checkpoint};
use crowny_fed::journal::cosignature::cosignature_of;
use crowny_fed::journal::note::SignedNote;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const ORIGIN: &str = "test.example/fed";
/// Generous: only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// It ended so and said all of `words`.
    pub fn ends(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "without '{word}': {}", self.err);
        }
    }

    /// It ended well and had nothing to complain about.
    pub fn quietly(&self) {
        self.ends(0, &[]);
        assert_eq!(self.err, "");
    }
}

/// A founded anchor `gw1` of three lines, removed at the end.
pub struct Anchor {
    folder: PathBuf,
    dir: PathBuf,
}

impl Anchor {
    pub fn found() -> Anchor {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("crowny-fed-witness-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).unwrap();
        let folder = folder.canonicalize().unwrap();
        let anchor = Anchor { dir: folder.join("D"), folder };
        fs::create_dir(&anchor.dir).unwrap();
        anchor.settings("");
        anchor.fed(&["init", "--origin", ORIGIN, "--id", "gw1"]).ends(0, &[]);
        anchor.tick().quietly();
        anchor
    }

    /// A witness `w1` of this log.
    pub fn witness(&self) -> Witness {
        Witness::start("test.example/w1", 11, self.vkey())
    }

    pub fn settings(&self, more: &str) {
        let text = format!("interval = \"0\"\n{more}");
        fs::write(self.dir.join("crowny-fed.toml"), text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crowny-fed"));
        command.arg("--dir").arg(&self.dir).args(args);
        command.env("RES_OPTIONS", "attempts:0").stdin(Stdio::null());
        command
    }

    pub fn fed(&self, args: &[&str]) -> Ran {
        finished(self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    pub fn tick(&self) -> Ran {
        self.fed(&["tick"])
    }

    /// Some lines more.
    pub fn grow_by(&self, services: &[&str]) {
        services.iter().for_each(|service| self.grow(service).quietly());
    }

    /// One line more, by a verb that asks only required witnesses.
    pub fn grow(&self, service: &str) -> Ran {
        self.fed(&["grant", service, "gw1"])
    }

    /// Lines under the floor: signed, shown or not.
    pub fn signed(&self) -> u64 {
        let floor: Value = serde_json::from_str(&self.text("state/committed.json")).unwrap();
        floor["size"].as_u64().unwrap()
    }

    pub fn vkey(&self) -> VerifierKey {
        let identity: Value = serde_json::from_str(&self.text("self.json")).unwrap();
        VerifierKey::parse(identity["vkey"].as_str().unwrap()).unwrap()
    }

    /// The checkpoint that readers see, which every reader must be able to open.
    pub fn shown(&self) -> (Checkpoint, SignedNote) {
        open_checkpoint(self.text("federation-root.txt"), &self.vkey()).unwrap()
    }

    /// When `witness` cosigned what readers see.
    pub fn cosigned_at(&self, witness: &Witness) -> Option<u64> {
        let (_, note) = self.shown();
        cosignature_of(&note, &witness.rules(|rules| rules.vkey())).map(|(_, time_s)| time_s)
    }

    /// Everything is provable and in its place.
    pub fn verifies(&self) {
        self.fed(&["verify", "--full"]).ends(0, &[]);
        let size = self.shown().0.size;
        let head = self.text("head.txt");
        assert_eq!(head.split(' ').next(), Some(size.to_string().as_str()));
        self.fed(&["proof", &(size - 1).to_string()]).ends(0, &[]);
    }

    /// Another machine with a copy of all that is here, keys included.
    pub fn copy(&self) -> Anchor {
        let folder = self.folder.with_extension(format!("copy-{}", self.signed()));
        copy_all(&self.folder, &folder);
        Anchor { dir: folder.join("D"), folder }
    }

    pub fn evidence(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path("state/evidence")) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() { copy_all(&from, &to) } else { assert!(fs::copy(from, to).is_ok()) }
    }
}

/// Waits for a run to end.
pub fn finished(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.contains("panicked"), "{err}");
    Ran { code: output.status.code(), out: String::from_utf8(output.stdout).unwrap(), err }
}

/// Polls until `look` says yes.
pub fn wait_until(what: &str, mut look: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !look() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running `serve`, killed when dropped.
pub struct Serving {
    port: u16,
    child: Child,
}

impl Serving {
    pub fn start(anchor: &Anchor) -> Serving {
        let mut command = anchor.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let port = said.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Serving { port: port.unwrap_or_else(|| panic!("serve said: {said}")), child }
    }

    /// Status and body.
    pub fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    pub fn post(&self, path: &str, body: &str) -> (u16, String) {
        let head = format!(
            "POST {path} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        self.ask(&head, body)
    }

    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = format!("Host: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", self.port);
        stream.write_all(format!("{head}{host}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
