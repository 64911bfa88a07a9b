//! An anchor that is disturbed while it answers: what it answered with 200 is never lost, what it
//! did not answer is there or not, and the same bytes sent again are safe.

use super::harness::{Fed, ORIGIN, full, has, whole_lines};
use super::scene::{Scene, invite, serve_one};
use super::sender::Sender;
use super::sweep::{Run, Says, Sweep, Verb, WAYS};
use crowny_fed::auth::keys::parse_seed;
use ed25519_dalek::SigningKey;

const REGISTER: Verb = Verb {
    name: "POST /register",
    base: || asked_by_a_member("register"),
    run: request,
    says: Says::Answer,
    again: is_safe,
    ends: |_| {},
    same_map: false,
};

/// What an anchor answers.
pub static REQUESTS: [Verb; 4] = [
    REGISTER,
    Verb { name: "POST /rotate", base: || asked_by_a_member("rotate"), ..REGISTER },
    Verb { name: "POST /enroll", base: || asked_by_a_stranger("ed25519"), ..REGISTER },
    Verb {
        name: "POST /enroll with a shared key",
        base: || asked_by_a_stranger("hmac-sha256"),
        ..REGISTER
    },
];

#[test]
fn a_request_disturbed_anywhere_is_answered_and_kept_or_asked_again() {
    if !full() || !has("strace") {
        println!("skipped: a long form, asked for with CROWNY_FED_FULL");
        return;
    }
    REQUESTS.iter().for_each(|verb| Sweep::of(*verb, &WAYS));
}

fn request(scene: &Scene) -> Run {
    let (_, request) = scene.sender.as_ref().expect("somebody asks");
    Run { command: serve_one(&scene.fed.dir), input: request.clone() }
}

/// An anchor with a member `n2`, which signs.
pub fn asked_by_a_member(kind: &'static str) -> Scene {
    let joined = Scene::joined("ed25519");
    let seed = String::from_utf8(joined.fed.read("keys/node.key")).unwrap();
    let sender = Sender { kind, origin: ORIGIN, key: parse_seed(&seed).unwrap(), invitation: None };
    asked(joined.journal_of().copy(), sender)
}

/// An anchor that has invited `n2`.
fn asked_by_a_stranger(alg: &str) -> Scene {
    let anchor = Scene::inviting();
    let invitation = Some(invite(&anchor, alg));
    let key = SigningKey::from_bytes(&[7; 32]);
    asked(anchor, Sender { kind: "enroll", origin: ORIGIN, key, invitation })
}

fn asked(fed: Fed, sender: Sender) -> Scene {
    let invitation = sender.invitation.clone();
    let request = sender.request();
    Scene { invitation, sender: Some((sender, request)), ..Scene::alone(fed) }
}

/// The same bytes once more: answered, or told which line they made; one line in any case.
#[track_caller]
fn is_safe(scene: &Scene) {
    let ran = request(scene).ended();
    let told = ran.out.starts_with("HTTP/1.1 409 ") && ran.out.contains("it made line");
    assert!(Says::Answer.done(&ran) || told, "the same again: {ran:#?}");
    let (_, request) = scene.sender.as_ref().expect("somebody asks");
    let request = String::from_utf8_lossy(request);
    let at = request.find("nonce").expect("a request has a nonce");
    let nonce = &request[at..].split('"').nth(2).unwrap().trim_matches('\\')[..32];
    let journal = scene.fed.journal();
    let made = whole_lines(&journal)
        .iter()
        .filter(|line| String::from_utf8_lossy(line).contains(nonce))
        .count();
    assert_eq!(made, 1, "lines of one request");
}
