//! Ed25519 as the gate uses it: strict, so that no two verifiers disagree about a line.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crowny_fed::auth::keys::{parse_public, parse_seed, render_public, sign, verify};
use ed25519_dalek::VerifyingKey;
use serde_json::Value;

use crate::fixture::{json, strings, unhex};

fn bytes_of(case: &Value, name: &str) -> Vec<u8> {
    unhex(case[name].as_str().expect("hex"))
}

/// Strict verification under whatever point the bytes are, weak ones too.
fn holds(key: &[u8], message: &[u8], sig: &[u8]) -> bool {
    let key = <[u8; 32]>::try_from(key).ok().and_then(|key| VerifyingKey::from_bytes(&key).ok());
    key.is_some_and(|key| verify(&key, message, &STANDARD.encode(sig)))
}

/// The same by the road of a request, where a weak key never comes in.
fn holds_enrolled(key: &[u8], message: &[u8], sig: &[u8]) -> bool {
    parse_public(&STANDARD.encode(key))
        .is_ok_and(|key| verify(&key, message, &STANDARD.encode(sig)))
}

#[test]
fn wycheproof_outcomes_all_151() {
    let suite = json("wycheproof/ed25519_test.json");
    let mut seen = 0;
    for group in suite["testGroups"].as_array().expect("groups") {
        let key = bytes_of(&group["publicKey"], "pk");
        for case in group["tests"].as_array().expect("tests") {
            let (message, sig) = (bytes_of(case, "msg"), bytes_of(case, "sig"));
            let valid = case["result"] == "valid";
            assert_eq!(holds(&key, &message, &sig), valid, "{case}");
            assert_eq!(holds_enrolled(&key, &message, &sig), valid, "{case}");
            seen += 1;
        }
    }
    assert_eq!(seen, 151);
}

/// `tlog.md` incident 13: weak keys and small-order parts verify for anybody who is careless.
#[test]
fn cctv_edge_cases_of_which_exactly_43_of_914_are_accepted() {
    let suite = json("cctv-ed25519/ed25519vectors.json");
    let cases = suite.as_array().expect("cases");
    assert_eq!(cases.len(), 914);
    let accepted: Vec<&Value> = cases
        .iter()
        .filter(|case| {
            let message = case["msg"].as_str().expect("text").as_bytes();
            let (key, sig) = (bytes_of(case, "key"), bytes_of(case, "sig"));
            let strict = holds(&key, message, &sig);
            assert_eq!(holds_enrolled(&key, message, &sig), strict, "{case}");
            strict
        })
        .collect();
    assert_eq!(accepted.len(), 43);
    for case in accepted {
        let flags = strings(&case["flags"]);
        for weak in ["low_order_A", "low_order_R", "non_canonical_A", "non_canonical_R"] {
            assert!(!flags.contains(&weak), "{case}");
        }
    }
}

/// RFC 8032 section 7.1: the public half follows from the seed, and signing is deterministic.
#[test]
fn rfc_8032_keys_and_signatures() {
    let cases = json("rfc/rfc8032-ed25519.json");
    let cases = cases.as_array().expect("cases");
    assert_eq!(cases.len(), 4);
    for case in cases {
        let key = parse_seed(case["seed"].as_str().expect("hex")).expect("a seed");
        let public = key.verifying_key();
        assert_eq!(render_public(&public), STANDARD.encode(bytes_of(case, "public")));
        let (message, sig) = (bytes_of(case, "msg"), STANDARD.encode(bytes_of(case, "sig")));
        assert_eq!(sign(&key, &message), sig);
        assert!(verify(&public, &message, &sig));
        assert!(!verify(&public, &[message.as_slice(), b"."].concat(), &sig));
    }
}

/// Case O-22.
#[test]
fn an_altered_signature_and_one_under_a_weak_key_are_false() {
    let mut weak = [0; 32];
    weak[0] = 1;
    let refused = parse_public(&STANDARD.encode(weak)).expect_err("a weak key");
    assert!(refused.contains("weak"), "{refused}");
    let mut sig = [0; 64];
    sig[0] = 1;
    assert!(!holds(&weak, b"anything", &sig));

    let key = unhex("8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c");
    let first = "80bc80efac1c84e8a7384f42c73334ccb389fc5bcc91e9223d34c441456a859d";
    let good = "7fae1b02d6655e9aa7db5b490abcc01f86cd621f779f869f9e086888df21b60f";
    let altered = "6c82115ff0c870f27d7853ece8b59f3486cd621f779f869f9e086888df21b61f";
    let text = b"crowny-fed test message";
    assert!(holds_enrolled(&key, text, &unhex(&format!("{first}{good}"))));
    assert!(!holds_enrolled(&key, text, &unhex(&format!("{first}{altered}"))));
}
