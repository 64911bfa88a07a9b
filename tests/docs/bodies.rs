//! The HTTP bodies of docs/formats.md belong to the journal beside them: what was sent made those
//! lines, what was answered is true of them. docs/verify.md shows the scripts that the tests run.

use crate::examples::{examples, identity, journal};
use crate::markdown::{blocks, read};
use crowny_fed::auth::envelope::{self, Envelope};
use crowny_fed::auth::gate::Key;
use crowny_fed::auth::invite::{Invite, secret_sha256};
use crowny_fed::auth::{keys, mac, pae};
use crowny_fed::journal::merkle::Hash;
use crowny_fed::journal::proof::{Consistency, verify_consistency};
use crowny_fed::journal::record::{Enroll, Record, Rotate};
use crowny_fed::journal::tlog_proof::parse_tlog_proof;
use serde_json::Value;

pub fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A request as sent, read as the server reads it.
pub fn sent(body: &str) -> Envelope {
    let envelope = envelope::parse(body.trim_end().as_bytes()).unwrap();
    envelope.agrees(&identity().origin).unwrap();
    envelope
}

/// The key a node was enrolled with.
pub fn enrolled(node: &str) -> Enroll {
    match Record::of(journal().about("enroll", node)) {
        Record::Enroll(enroll) => enroll,
        other => panic!("{other:?}"),
    }
}

/// An answer tells index and hash of a line and a checkpoint that covers it.
fn tells(answer: &Value, seq: u64) {
    let journal = journal();
    let told = |name: &str| answer[name].as_str().unwrap().to_owned();
    assert_eq!(answer["seq"], seq);
    assert_eq!(told("hash"), journal.leaf(seq).to_string());
    assert!(journal.opens(&told("checkpoint")).size > seq);
}

#[test]
fn the_worked_example_is_the_drain_line_to_the_byte() {
    let blocks = examples("What is signed");
    let journal = journal();
    let line = journal.about("drain", "gw3");
    let encoded = pae::encode("drain", &line.payload);
    assert_eq!(blocks[0].trim_end().as_bytes(), encoded);
    let hex: String = encoded.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(blocks[1].replace('\n', ""), hex);
    let key = keys::parse_public(&enrolled("gw3").key.unwrap()).unwrap();
    assert!(keys::verify(&key, &encoded, &line.author.as_ref().unwrap().sig));
}

#[test]
fn the_registration_is_the_one_that_made_its_line() {
    let blocks = examples("`POST /register`");
    let request = sent(&blocks[0]);
    let journal = journal();
    let line = journal.about("register", "gw5");
    assert_eq!(request.payload, line.payload);
    assert_eq!(request.sig.as_ref(), line.author.as_ref().map(|author| &author.sig));
    let key = keys::parse_public(&enrolled("gw5").key.unwrap()).unwrap();
    assert!(Key::Ed25519(key).verifies("register", &request));
    assert!(!Key::Ed25519(key).verifies("leave", &request));
    tells(&json(&blocks[1]), line.seq);
}

#[test]
fn the_enrolment_follows_from_the_invitation_and_made_its_line() {
    let blocks = examples("`POST /enroll`");
    let invite = Invite::parse(&blocks[0]).unwrap();
    let (packed, line) = (json(&blocks[1]), enrolled("gw5"));
    let of_packed = [packed["node"].as_str(), packed["url"].as_str(), packed["alg"].as_str()];
    assert_eq!(of_packed, [Some(invite.node.as_str()), Some(&invite.url), Some(&invite.alg)]);
    let bootstrap = mac::bootstrap_key(&invite.secret, &identity().origin, &invite.node);
    let hex: String = bootstrap.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(blocks[2].trim_end(), hex);

    let request = sent(&blocks[3]);
    let signed = pae::encode("enroll", &request.payload);
    let tag = keys::decode_sig(request.sig.as_ref().unwrap()).unwrap();
    assert!(mac::verify(&*bootstrap, &signed, &tag));
    let key = line.key.clone().unwrap();
    assert_eq!(json(&request.payload)["key"], key);
    let key = keys::parse_public(&key).unwrap();
    assert!(keys::verify(&key, &signed, request.proof.as_ref().unwrap()));
    assert_eq!(line.kid, keys::kid("gw5", &key));
    assert_eq!(line.invite, Some(secret_sha256(&invite.secret)));
    assert_eq!(line.nonce, Some(request.nonce));

    let answer = json(&blocks[4]);
    tells(&answer, journal().about("enroll", "gw5").seq);
    assert_eq!(answer["incarnation"], 0);
}

/// What the table of types says about possession and about keys that are shared.
#[test]
fn rotated_and_shared_keys_are_what_the_text_says() {
    let journal = journal();
    let Record::Rotate(rotate) = Record::of(journal.about("rotate", "gw3")) else { panic!() };
    let key = keys::parse_public(&rotate.key).unwrap();
    let signed = Rotate::possession(&rotate.origin, &rotate.node, &rotate.nonce, &rotate.key);
    assert!(keys::verify(&key, &signed, &rotate.proof));
    let shared = enrolled("gw6");
    assert_eq!((shared.alg.as_str(), shared.key), ("hmac-sha256", None));
}

#[test]
fn the_proofs_verify() {
    let journal = journal();
    let vkey = identity().verifier().unwrap();
    let proof = parse_tlog_proof(&examples("`GET /proof`")[0]).unwrap();
    let line = journal.lines[proof.index as usize].render();
    assert_eq!(proof.verify(line.as_bytes(), &vkey).unwrap().size, journal.tip.size);
    assert!(line.contains("gw5"));

    let told = json(&examples("`GET /consistency`")[0]);
    let (old_size, new_size) = (told["old"].as_u64().unwrap(), told["new"].as_u64().unwrap());
    let path: Vec<Hash> = serde_json::from_value(told["path"].clone()).unwrap();
    let (old_root, new_root) = (journal.root_at(old_size), journal.root_at(new_size));
    let claim = Consistency { old_size, old_root, new_size, new_root, path: &path };
    verify_consistency(&claim).unwrap();
    assert!(!path.is_empty());
    journal.opens(told["checkpoint"].as_str().unwrap());
}

#[test]
fn the_small_answers_are_true_of_the_journal() {
    let journal = journal();
    let one = |words: &str| json(&examples(words)[0]);
    let (head, health, verify) = (one("`GET /head`"), one("`GET /q/health`"), one("`GET /verify`"));
    for told in [&head, &health] {
        assert_eq!(told["size"], journal.tip.size);
        assert_eq!(told["head"], journal.tip.head.to_string());
    }
    assert_eq!(health["node"], identity().id.as_str());
    assert_eq!(verify["root"], journal.root_at(journal.tip.size).to_string());
    let refused = one("Refusals");
    assert_eq!((&refused["status"], &refused["error"]), (&409.into(), &"nonce-used".into()));
    let seq = journal.about("register", "gw5").seq;
    assert!(refused["message"].as_str().unwrap().ends_with(&format!("line {seq}")));
    assert_eq!(one("`GET /q/peers`")["peers"].as_array().unwrap().len(), 2);
}

#[test]
fn the_scripts_in_the_text_are_those_that_run() {
    let text = read("docs/verify.md");
    for file in ["fixtures/verify.py", "fixtures/register.sh"] {
        let script = read(file);
        assert!(blocks(&text).iter().any(|block| block.text == script), "{file}");
    }
}
