//! Where secrets must never be: on the wire, in an answer, in an error, in a file that is not theirs.

use crate::harness::{Anchor, Folder, ORIGIN, Ran, fed, free_port, run};
use crate::member::{Member, bootstrap, now_s};
use crate::proxy::Proxy;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use crowny_fed::auth::invite::Invite;
use crowny_fed::auth::mac;
use std::fs;
use std::path::Path;

/// A secret and what it is called.
type Secret = (&'static str, [u8; 32]);

/// Where one of `secrets` stands in `bytes`, raw or in a usual spelling.
fn found(bytes: &[u8], secrets: &[Secret]) -> Option<&'static str> {
    let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let spelled = |secret: &[u8; 32]| {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        // Base64 without its last letter, which depends on what follows.
        let texts = [STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
        holds(secret)
            || holds(hex.as_bytes())
            || holds(hex.to_uppercase().as_bytes())
            || texts.iter().any(|text| holds(&text.as_bytes()[..42]))
    };
    secrets.iter().find(|(_, secret)| spelled(secret)).map(|(name, _)| *name)
}

/// Seeds as they stand in a folder of keys; the enrolment's nonce is no secret.
fn seeds(dir: &Path) -> Vec<Secret> {
    let mut seeds = Vec::new();
    for name in ["log", "node", "recovery", "shared"] {
        if let Ok(text) = fs::read_to_string(dir.join(format!("keys/{name}.key"))) {
            let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
            let seed: Vec<u8> = (0..64).step_by(2).map(byte).collect();
            seeds.push((name_of(name), seed.try_into().unwrap()));
        }
    }
    seeds
}

fn name_of(name: &str) -> &'static str {
    match name {
        "log" => "the log key",
        "node" => "a node key",
        "recovery" => "the recovery key",
        _ => "a shared key",
    }
}

/// Every file below but those that may hold secrets.
fn public_files(dir: &Path, into: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if ["keys", "invites.ndjson", "node-keys.ndjson"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            public_files(&path, into);
        } else {
            into.push((path.display().to_string(), fs::read(&path).unwrap()));
        }
    }
}

/// Everything anybody could read, with the place it stood in.
#[derive(Default)]
struct Said(Vec<(String, Vec<u8>)>);

impl Said {
    fn add(&mut self, place: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((place.into(), bytes.into()));
    }

    fn ran(&mut self, place: String, ran: Ran) {
        self.add(place, ran.out + &ran.err);
    }

    /// All verbs that read, and all paths.
    fn reading(&mut self, anchor: &Anchor) {
        for path in ["/", "/q/health", "/head", "/root", "/verify", "/proof?seq=1", "/routes"] {
            self.add(path, anchor.get(path).body);
        }
        for path in ["/keys/log.key", "/invites.ndjson", "/node-keys.ndjson", "/nodes"] {
            self.add(path, anchor.get(path).body);
        }
        let verbs: [&[&str]; 6] = [
            &["status"],
            &["log"],
            &["verify", "--full"],
            &["root", "--json"],
            &["routes"],
            &["tick"],
        ];
        for verb in verbs {
            self.ran(format!("{verb:?}"), anchor.fed(verb));
        }
    }

    /// Damaged files of secrets: an error names the line and shows none of it.
    fn damage(&mut self, anchor: &Anchor, forged: &str) {
        for name in ["invites.ndjson", "node-keys.ndjson", "keys/node.key", "self.json"] {
            let good = fs::read(anchor.file(name)).unwrap();
            fs::write(anchor.file(name), &good[..good.len() - 5]).unwrap();
            for verb in [&["invite", "n9"][..], &["register"], &["tick"], &["status"]] {
                self.ran(format!("{name} cut, {verb:?}"), anchor.fed(verb));
            }
            for path in ["/register", "/enroll"] {
                self.add(format!("{name} cut, {path}"), anchor.post(path, forged).body);
            }
            fs::write(anchor.file(name), good).unwrap();
        }
    }
}

/// One member's whole life by the verbs; the secrets it had on the way.
fn live(anchor: &Anchor, alg: &str, said: &mut Said) -> (Folder, Vec<Secret>) {
    let home = Folder::new();
    let node = format!("n-{alg}");
    let string = anchor.good(&["invite", &node, "--alg", alg]);
    let invite = Invite::parse(&string).unwrap();
    let mut secrets = vec![("an invitation's secret", *invite.secret), ("K", bootstrap(&invite))];
    let join: &[&str] = &["join", "--url", "http://127.0.0.1:1", "-"];
    let service = format!("{node}=http://127.0.0.1:1");
    let offer = ["register", "--service", &service];
    for verb in [join, join, &offer, &["drain"], &["rotate-key"], &["register"], &["leave"]] {
        said.ran(format!("{node} {verb:?}"), run(fed(home.path(), verb), &string));
        secrets.extend(seeds(home.path()));
    }
    (home, secrets)
}

/// Section 7: the secret stays in the join string, the derived keys are computed on both sides.
#[test]
fn no_secret_travels_and_none_is_in_an_answer_an_error_or_a_public_file() {
    let port = free_port();
    let proxy = Proxy::to(port);
    let anchor = Anchor::behind(ORIGIN, proxy.port, port);
    let mut said = Said::default();
    let mut secrets = seeds(&anchor.dir);
    for alg in ["ed25519", "hmac-sha256"] {
        let (home, had) = live(&anchor, alg, &mut said);
        secrets.extend(had);
        public_files(home.path(), &mut said.0);
    }
    secrets.sort();
    secrets.dedup();
    // Three of the anchor's; two of each invitation; each member's first and next key, one shared.
    let names: Vec<&str> = secrets.iter().map(|(name, _)| *name).collect();
    assert_eq!((names.len(), names.contains(&"a shared key")), (12, true), "{names:?}");

    let posed = Member::ed25519(ORIGIN, "n-hmac-sha256");
    let forged = posed.register(now_s(), 9).render();
    said.add("a refusal", anchor.post("/register", &forged).body);
    said.reading(&anchor);
    said.damage(&anchor, &forged);
    public_files(&anchor.dir, &mut said.0);
    said.add("what serve said", fs::read(anchor.log()).unwrap());
    said.add("the wire", proxy.taken());
    assert!(proxy.taken().windows(13).any(|bytes| bytes == b"POST /enroll "), "it was captured");
    for (place, bytes) in &said.0 {
        assert_eq!(found(bytes, &secrets), None, "in {place}: {}", String::from_utf8_lossy(bytes));
    }
    // The search finds what is there.
    for name in ["node-keys.ndjson", "invites.ndjson", "keys/node.key"] {
        assert!(found(&fs::read(anchor.file(name)).unwrap(), &secrets).is_some(), "{name}");
    }
    assert!(found(STANDARD.encode(secrets[0].1).as_bytes(), &secrets).is_some());
}

/// Two layers: neither the bootstrap key nor the node key follows from what is public.
#[test]
fn derived_keys_are_bound_to_federation_node_and_nonce() {
    let secret = [1; 32];
    let k = mac::bootstrap_key(&secret, "a.example", "n1");
    assert_ne!(k, mac::bootstrap_key(&secret, "a.example", "n2"));
    assert_ne!(k, mac::bootstrap_key(&secret, "b.example", "n1"));
    assert_ne!(k, mac::bootstrap_key(&[2; 32], "a.example", "n1"));
    assert_ne!(mac::node_key(&k, "00"), mac::node_key(&k, "01"));
    assert_ne!(mac::node_key(&k, "00"), k);
}

/// Secrets have no printed form that could end in a log.
#[test]
fn types_that_hold_a_secret_cannot_be_printed() {
    let source = |name: &str| {
        fs::read_to_string(format!("{}/src/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    for (name, holder) in [
        ("auth/invite.rs", "pub struct Invite {"),
        ("auth/invite.rs", "struct Packed {"),
        ("auth/gate.rs", "pub enum Key {"),
        ("store/invites.rs", "pub struct Open {"),
        ("store/shared_keys.rs", "struct Stored {"),
        ("cycle/speaking.rs", "enum Signer {"),
        ("cycle/enrolment.rs", "struct Offered {"),
    ] {
        let text = source(name);
        let at = text.find(holder).unwrap_or_else(|| panic!("{name} has no {holder}"));
        let above: Vec<&str> =
            text[..at].lines().rev().take_while(|line| !line.is_empty()).collect();
        let derived = above.iter().find(|line| line.starts_with("#[derive"));
        assert!(derived.is_none_or(|line| !line.contains("Debug")), "{name}: {holder} {derived:?}");
    }
}
