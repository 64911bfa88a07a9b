//! Branches as their holder, or somebody else, could write them.

use crate::federation::{Federation, Node};
use crate::harness::{Answer, post};
use crate::signed::{payload, sealed};
use crowny_fed::auth::keys;
use crowny_fed::auth::pae;
use crowny_fed::journal::branch::{Run, Twig, one_run, parse};
use crowny_fed::journal::line::{Author, Line, VERSION};
use crowny_fed::journal::merkle::{Hash, leaf_hash};
use ed25519_dalek::SigningKey;
use serde_json::{Value, json};

/// The file as it stands there.
pub fn of(node: &Node) -> Vec<Run> {
    parse(node.text("branch.ndjson").as_bytes()).0
}

/// Lines that continue a journal, as bytes of a file.
pub struct Writer {
    seq: u64,
    prev: Hash,
    pub bytes: Vec<u8>,
}

impl Writer {
    /// Behind the journal that this node holds.
    pub fn after(node: &Node) -> Writer {
        let lines = node.lines();
        let prev = leaf_hash(lines.last().unwrap().as_bytes());
        Writer { seq: lines.len() as u64, prev, bytes: Vec::new() }
    }

    /// A signed line of `kind`.
    pub fn say(&mut self, (kind, payload): (&str, &Value), by: (&str, &SigningKey)) -> &mut Writer {
        let (node, key) = by;
        let payload = payload.to_string();
        let author = Author {
            alg: "ed25519".to_owned(),
            kid: keys::kid(node, &key.verifying_key()),
            sig: keys::sign(key, &pae::encode(kind, &payload)),
        };
        self.line(kind, payload, Some(author))
    }

    pub fn line(&mut self, kind: &str, payload: String, author: Option<Author>) -> &mut Writer {
        let (prev, seq) = (self.prev, self.seq);
        let kind = kind.to_owned();
        let line = Line { author, payload, prev, seq, ts: 7, kind, version: VERSION };
        let raw = line.render();
        self.prev = leaf_hash(raw.as_bytes());
        self.seq += 1;
        self.bytes.extend_from_slice(raw.as_bytes());
        self.bytes.push(b'\n');
        self
    }
}

/// A drain, which costs its author no name and no place.
pub fn drain(node: &str, incarnation: u64, on: bool) -> Value {
    payload(node, json!({ "incarnation": incarnation, "on": on }))
}

/// What a head says of these lines.
pub fn head(node: &str, lines: &[u8]) -> Value {
    let run = one_run(lines);
    let first = lines.split(|byte| *byte == b'\n').next().unwrap();
    let fork = Twig::parse(first).map_or(0, |twig| twig.line.seq);
    let last = lines.strip_suffix(b"\n").unwrap_or(lines);
    let last = last.rsplit(|byte| *byte == b'\n').next().unwrap();
    let head = run.map_or(leaf_hash(last), |run| run.head());
    let count = lines.iter().filter(|byte| **byte == b'\n').count();
    payload(node, json!({ "fork": fork, "head": head, "count": count }))
}

/// A whole request body.
pub fn body((node, key): (&str, &SigningKey), lines: &[u8]) -> String {
    under(key, &head(node, lines), lines)
}

/// The same under any head.
pub fn under(key: &SigningKey, head: &Value, lines: &[u8]) -> String {
    sealed(key, "merge", head) + "\n" + std::str::from_utf8(lines).unwrap()
}

pub fn bring(federation: &Federation, body: &str) -> Answer {
    post(federation.anchor.port, "/merge", body)
}

/// The fates of the lines, `merged 12`, `refused why`.
#[track_caller]
pub fn fates(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let told = answer.json();
    let fate = |fate: &Value| {
        let (name, of) = fate.as_object().unwrap().iter().next().unwrap();
        format!("{name} {}", of.as_str().map_or_else(|| of.to_string(), str::to_owned))
    };
    told["lines"].as_array().unwrap().iter().map(fate).collect()
}

/// The lines of `GET /sync?branch`: behind a blank line stands what the member saw.
pub fn said(shown: &Answer) -> String {
    let text = shown.text();
    match text.strip_prefix('\n') {
        Some(_) => String::new(),
        None => text.split_once("\n\n").map_or(text.clone(), |(lines, _)| format!("{lines}\n")),
    }
}
