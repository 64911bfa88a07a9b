//! HMAC-SHA256 as RFC 2104 really is: keys of any length, tags whole or worth nothing.

use crowny_fed::auth::mac::{mac, verify};

use crate::fixture::{json, unhex};

#[test]
fn wycheproof_outcomes_all_174_and_no_truncated_tag_is_one() {
    let suite = json("wycheproof/hmac_sha256_test.json");
    let mut seen = 0;
    for group in suite["testGroups"].as_array().expect("groups") {
        let tag_bytes = group["tagSize"].as_u64().expect("bits") as usize / 8;
        for case in group["tests"].as_array().expect("tests") {
            let part = |name: &str| unhex(case[name].as_str().expect("hex"));
            let (key, message, tag) = (part("key"), part("msg"), part("tag"));
            let valid = case["result"] == "valid";
            let ours = mac(&key, &[&message]);
            assert_eq!(ours[..tag_bytes] == tag[..], valid, "{case}");
            assert_eq!(verify(&key, &message, &tag), valid && tag_bytes == 32, "{case}");
            seen += 1;
        }
    }
    assert_eq!(seen, 174);
}

#[test]
fn rfc_4231_all_seven() {
    let cases = json("rfc/rfc4231-hmac-sha256.json");
    let cases = cases.as_array().expect("cases");
    assert_eq!(cases.len(), 7);
    for case in cases {
        let part = |name: &str| unhex(case[name].as_str().expect("hex"));
        let (key, message, tag) = (part("key"), part("data"), part("hmac_sha256"));
        let ours = mac(&key, &[&message]);
        assert_eq!(ours[..tag.len()], tag[..], "{case}");
        // Case 5 is cut to 128 bits: a prefix is not the tag.
        assert_eq!(verify(&key, &message, &tag), tag.len() == 32, "{case}");
        let (left, right) = message.split_at(message.len() / 2);
        assert_eq!(*mac(&key, &[left, right]), *ours);
    }
}

/// The digests printed in cases O-16 and O-21, over exactly the bytes shown there.
#[test]
fn a_code_is_over_the_bytes_received() {
    let body = |note: &str| {
        format!(
            r#"{{"node":"n1","host":"gw.example.com","port":8443,"w":1.0,"note":"{note}","ts":1700000000,"nonce":"a1"}}"#
        )
    };
    let (escaped, plain) = (body(r"\uc11c\uc6b8"), body("서울"));
    let escaped_tag = unhex("e446317995a6d490f0d3488b2111c4b504009733c55658e67857a5250062df71");
    let plain_tag = unhex("38cb7c27b36473a3d60d177ba04de8d7efb493e79b1f83a790bb14e57a78a289");
    let key = b"test-key-0001-not-a-real-secret!";
    assert!(verify(key, escaped.as_bytes(), &escaped_tag));
    assert!(verify(key, plain.as_bytes(), &plain_tag));
    assert!(!verify(key, escaped.as_bytes(), &plain_tag));
    assert!(!verify(key, plain.as_bytes(), &escaped_tag));
    let empty = unhex("1f0778a62efc63be3d29a53b9fd72c846daa7defc889c4e7566f0c9125a604e6");
    assert!(verify(b"", escaped.as_bytes(), &empty), "what an empty stored key would let in");
}
