//! Cosignatures and add-checkpoint requests of the worked example, of litewitness's own test and of
//! a mirror's checkpoint.

use crowny_fed::auth::vkey::{CosignerKey, VerifierKey};
use crowny_fed::journal::cosignature::{
    CosignatureError, Witnessed, cosignature_of, cosigned_message, parse_answer, put_cosignature,
    render_add_checkpoint, stamped_at, verify_cosignature,
};
use crowny_fed::journal::note::{NoteSignature, SignedNote};
use crowny_fed::journal::proof::consistency_proof;
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};

use crate::fixture::{bytes, hex, json, text, tile_reader, unhex};
use crate::rules::{Asked, Rules};

fn example_witness() -> CosignerKey {
    let keys = json("computed-example/keys.json");
    CosignerKey::parse(keys["witness_vkey"].as_str().unwrap()).unwrap()
}

fn signed(file: &str) -> SignedNote {
    SignedNote::parse(bytes(file)).unwrap()
}

#[test]
fn the_worked_example_has_our_requests() {
    for (old, new) in [(0, 256), (200, 300), (256, 300)] {
        let request = text(&format!("computed-example/add-checkpoint.{old}-{new}.txt"));
        let note = text(&format!("computed-example/checkpoint.{new}"));
        let path = match old {
            0 => Vec::new(),
            _ => consistency_proof(old, new, tile_reader("computed-example")).unwrap(),
        };
        assert_eq!(render_add_checkpoint(old, &path, &note), request);
    }
}

#[test]
fn the_worked_example_is_cosigned_by_its_witness_alone() {
    let witness = example_witness();
    let response = bytes("computed-example/witness-response.300.txt");
    let Ok(Witnessed::Cosigned(lines)) = parse_answer(200, &response) else { panic!() };
    let mut note = signed("computed-example/checkpoint.300");
    let time_s = verify_cosignature(&note.body, &lines[0], &witness).unwrap();
    assert_eq!((lines.len(), time_s), (1, 1_700_000_000 + 1_000));
    let older = signed("computed-example/checkpoint.256").body;
    assert_eq!(verify_cosignature(&older, &lines[0], &witness), Err(CosignatureError::Broken));
    put_cosignature(&mut note, lines[0].clone());
    assert_eq!(note.render(), text("computed-example/federation-root.txt"));
    assert_eq!(cosignature_of(&note, &witness), Some((&lines[0], time_s)));

    let seed = hex(json("computed-example/keys.json")["witness_seed_hex"].as_str().unwrap());
    let key = SigningKey::from_bytes(&seed.0);
    let signature = key.sign(cosigned_message(&note.body, time_s).as_bytes());
    assert_eq!(lines[0].bytes[8..], signature.to_bytes());
    // Its seconds the other way round are a time far beyond the limit, or another message.
    let mut turned = lines[0].clone();
    turned.bytes[..8].reverse();
    assert_eq!(verify_cosignature(&note.body, &turned, &witness), Err(CosignatureError::Form));
}

#[test]
fn a_mirrors_cosignature_verifies() {
    let about = json("sunlight-skylight-mirror/mirror.v0.json");
    let mirror = CosignerKey::parse(about["verifier_keys"][0].as_str().unwrap()).unwrap();
    let note = signed("sunlight-skylight-mirror/checkpoint");
    let (line, time_s) = cosignature_of(&note, &mirror).unwrap();
    assert_eq!(stamped_at(line), Some(time_s));
    let mut moved = note.clone();
    moved.body = moved.body.replace("\n300\n", "\n301\n");
    assert_eq!(cosignature_of(&moved, &mirror), None);
}

/// The published line is of another kind than those that show only the form.
#[test]
fn a_cosignature_line_without_a_key_still_tells_its_time() {
    let examples = json("c2sp-spec-examples/examples.json");
    let note = examples["checkpoint_with_cosignature_syntax_only"].as_str().unwrap();
    let note = SignedNote::parse(note).unwrap();
    let times: Vec<Option<u64>> = note.signatures.iter().map(stamped_at).collect();
    assert_eq!(times, [None, Some(1_679_315_147)]);
}

#[test]
fn litewitness_answers_its_own_sequence_as_our_rules_do() {
    let sequence = json("torchwood-litewitness/add-checkpoint-sequence.json");
    let steps = sequence["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 9);
    let first = steps[0]["request_body"].as_str().unwrap();
    let origin = first.lines().nth(2).unwrap();
    let public = unhex(sequence["log_public_key_hex"].as_str().unwrap());
    let public = VerifyingKey::from_bytes(&public.try_into().unwrap()).unwrap();
    let log = VerifierKey::new(origin, public).unwrap();
    let mut witness = Rules::new(sequence["witness_name"].as_str().unwrap(), 1, log);
    for (number, step) in steps.iter().enumerate() {
        let body = step["request_body"].as_str().unwrap();
        let asked = Asked::parse(body).unwrap();
        assert_eq!(render_add_checkpoint(asked.old, &asked.path, &asked.note), body);
        let said = witness.add_checkpoint(body, 1_700_000_000);
        let (status, value) = (step["status"].as_u64().unwrap(), step["value"].as_str().unwrap());
        // The specification has meanwhile moved an unknown log from 403 to 404.
        let status = if value == "unknown log" { 404 } else { status };
        assert_eq!(u64::from(said.status), status, "step {number}");
        let text = String::from_utf8(said.body.clone()).unwrap();
        let holds = match step["assert"].as_str() {
            Some("==") => text == value,
            _ => text.contains(value),
        };
        assert!(holds, "step {number}: {text}");
        let heard = parse_answer(said.status, &said.body).unwrap();
        match (heard, said.status) {
            (Witnessed::Cosigned(lines), 200) => {
                holds_by(&witness, &SignedNote::parse(&asked.note).unwrap().body, &lines);
            }
            (Witnessed::At(size), 409) => assert_eq!(format!("{size}\n"), value),
            (Witnessed::Unproven, 422) => {}
            (Witnessed::Refused(refused), 403 | 404) => assert_eq!(refused, said.status),
            (heard, status) => panic!("step {number}: {status} read as {heard:?}"),
        }
    }
    assert_eq!(witness.size(), 5);
}

fn holds_by(witness: &Rules, body: &str, lines: &[NoteSignature]) {
    let [line] = lines else { panic!("{lines:?}") };
    assert_eq!(verify_cosignature(body, line, &witness.vkey()), Ok(1_700_000_000));
}
