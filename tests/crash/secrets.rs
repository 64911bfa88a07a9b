//! Seeds and the keys made from invitations stand in their own files and nowhere else, whatever
//! moment a run died at.

use super::harness::{Fed, Ran};
use super::scene::Scene;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use crowny_fed::auth::{invite::Invite, mac};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Fails where a secret of the scene stands in a file that others may read, in what a run said, or,
/// once all is well again, in a file that is not meant for it.
#[track_caller]
pub fn are_kept(scene: &Scene, ran: &Ran, well: bool) {
    let secrets = spelled(scene);
    assert!(!well || !secrets.is_empty());
    for said in [&ran.out, &ran.err] {
        assert!(!holds(said.as_bytes(), &secrets), "a secret was told: {ran:#?}");
    }
    for fed in scene.folders() {
        for (name, bytes) in fed.image_if_any() {
            if !holds(&bytes, &secrets) {
                continue;
            }
            let mode = fs::metadata(fed.dir.join(&name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{} holds a secret", name.display());
            assert!(!well || is_meant(&name), "{} holds a secret", name.display());
        }
    }
}

fn is_meant(name: &Path) -> bool {
    let own = ["invites.ndjson", "node-keys.ndjson"].iter().any(|own| name == Path::new(own));
    own || name.starts_with("keys")
}

fn holds(bytes: &[u8], secrets: &[String]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    secrets.iter().any(|secret| text.contains(secret.as_str()))
}

/// Every secret in its usual spellings.
fn spelled(scene: &Scene) -> Vec<String> {
    let mut secrets: Vec<[u8; 32]> = scene.folders().into_iter().flat_map(seeds).collect();
    if let Some(text) = &scene.invitation {
        let invitation = Invite::parse(text).unwrap();
        secrets.push(*invitation.secret);
        let origin = invitation.vkey.name();
        secrets.push(*mac::bootstrap_key(&invitation.secret, origin, &invitation.node));
    }
    if let Some(seed) = seed(scene.spoken.as_bytes()) {
        secrets.push(seed);
    }
    let spell = |secret: [u8; 32]| {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        // Without the last letter, which depends on what follows.
        let texts = [STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)];
        [hex].into_iter().chain(texts.map(|text| text[..42].to_owned()))
    };
    secrets.into_iter().flat_map(spell).collect()
}

/// The contents of `keys/`, but for the nonce of an enrolment, which is none.
fn seeds(fed: &Fed) -> Vec<[u8; 32]> {
    let keys = fed.image_if_any().into_iter().filter(|(name, _)| name.starts_with("keys"));
    let keys = keys.filter(|(name, _)| !name.ends_with("enrolment-nonce.key"));
    keys.filter_map(|(_, bytes)| seed(&bytes)).collect()
}

/// 64 hex digits and no more.
fn seed(bytes: &[u8]) -> Option<[u8; 32]> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end();
    let digits = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let seed: Option<Vec<u8>> = digits.then(|| (0..64).step_by(2).map(byte).collect());
    seed?.try_into().ok()
}
