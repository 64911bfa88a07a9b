//! A federation of the real binary whose anchor answers on a free port.

use crate::harness::{FED, Folder, Ran, Serving};
use crowny_fed::auth::envelope::Envelope;
use crowny_fed::auth::invite::Invite;
use crowny_fed::auth::keys::{self, ED25519};
use crowny_fed::auth::{mac, pae};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where the anchor's files are.
pub const ANCHOR: &str = "anchor";
/// Its name.
pub const ORIGIN: &str = "test.example/fed";

pub struct Federation {
    pub folder: Folder,
    pub serving: Serving,
}

impl Federation {
    /// An anchor that is served and invites.
    pub fn found() -> Federation {
        let folder = Folder::new();
        let config = "interval = \"0\"\nsuspicion_ticks = 2\n";
        folder.write(&format!("{ANCHOR}/crowny-fed.toml"), config);
        let serving = Serving::start(&folder, ANCHOR, 0, &[]);
        let url = format!("http://127.0.0.1:{}", serving.port);
        folder.good(ANCHOR, &["init", "--origin", ORIGIN, "--id", "gw1", "--url", &url]);
        Federation { folder, serving }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.serving.port)
    }

    /// A verb on the anchor that must succeed.
    pub fn good(&self, args: &[&str]) -> String {
        self.folder.good(ANCHOR, args)
    }

    /// A join string.
    pub fn invite(&self, args: &[&str]) -> String {
        self.good(&[&["invite"], args].concat())
    }

    /// A member joins with our own program.
    pub fn join(&self, dir: &str, invitation: &str, args: &[&str]) -> Ran {
        let command = self.folder.command(dir, &[&["join"], args, &["-"]].concat());
        fed(command, invitation)
    }

    pub fn vkey(&self) -> String {
        let root: Value = serde_json::from_str(&self.good(&["root", "--json"])).unwrap();
        root["vkey"].as_str().unwrap().to_owned()
    }

    pub fn lines(&self) -> Vec<String> {
        self.folder.text(&format!("{ANCHOR}/nodes.ndjson")).lines().map(str::to_owned).collect()
    }

    pub fn now_s(&self) -> u64 {
        self.serving.get("/q/health").json()["ts"].as_u64().unwrap()
    }

    pub fn post(&self, path: &str, body: &str) -> crate::harness::Answer {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.serving.port,
            body.len()
        );
        crate::harness::Answer::to(self.serving.port, format!("{head}{body}").as_bytes())
    }
}

/// A member without any program: it signs by hand.
pub struct Member {
    pub node: String,
    pub key: SigningKey,
    nonces: u64,
}

impl Member {
    pub fn new(node: &str, seed: u8) -> Member {
        Member { node: node.to_owned(), key: SigningKey::from_bytes(&[seed; 32]), nonces: 0 }
    }

    /// The next payload: what every kind says, with `more` beside it.
    pub fn payload(&mut self, ts: u64, more: Value) -> Value {
        self.nonces += 1;
        let mut payload = json!({
            "mode": ED25519, "node": self.node, "nonce": format!("{:032x}", self.nonces),
            "origin": ORIGIN, "ts": ts,
        });
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        payload
    }

    /// The body that says `payload` as `kind`.
    pub fn body(&self, kind: &str, payload: &Value) -> String {
        let text = payload.to_string();
        let sig = keys::sign(&self.key, &pae::encode(kind, &text));
        self.envelope(payload, text, sig).render()
    }

    /// The body that burns an invitation.
    pub fn enrolment(&mut self, invitation: &str, ts: u64) -> String {
        let invite = Invite::parse(invitation).unwrap();
        let key = keys::render_public(&self.key.verifying_key());
        let payload = self.payload(ts, json!({ "key": key }));
        let text = payload.to_string();
        let signed = pae::encode("enroll", &text);
        let bootstrap = mac::bootstrap_key(&invite.secret, ORIGIN, &self.node);
        let tag = keys::encode_sig(&*mac::mac(&*bootstrap, &[&signed]));
        let proof = Some(keys::sign(&self.key, &signed));
        Envelope { proof, ..self.envelope(&payload, text, tag) }.render()
    }

    /// What a registration adds.
    pub fn offer(incarnation: u64, url: &str, service: &str) -> Value {
        let services = json!([{ "name": service, "url": url, "weight": 1 }]);
        json!({ "incarnation": incarnation, "reach": "inbound", "services": services, "urls": [url] })
    }

    fn envelope(&self, payload: &Value, text: String, sig: String) -> Envelope {
        Envelope {
            mode: ED25519.to_owned(),
            node: payload["node"].as_str().unwrap().to_owned(),
            nonce: payload["nonce"].as_str().unwrap().to_owned(),
            ts: payload["ts"].as_u64().unwrap(),
            payload: text,
            sig: Some(sig),
            proof: None,
        }
    }
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Whether all of `tools` are there; says so where one is not.
pub fn have(tools: &[&str]) -> bool {
    for tool in tools {
        let there = Command::new(tool).arg("--version").output().is_ok();
        if !there {
            return skip(&format!("{tool} is not installed"));
        }
    }
    true
}

/// Says why a test does nothing; a failure where nothing may be skipped.
pub fn skip(why: &str) -> bool {
    assert!(std::env::var_os("CROWNY_FED_REQUIRE_TOOLS").is_none(), "{why}");
    println!("skipped: {why}");
    false
}

/// Runs a command to its end with text on its standard input.
pub fn fed(mut command: Command, input: &str) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{FED}: {error}"));
    // A program that refuses its arguments reads nothing; what counts is how it ends.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        status: output.status,
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
