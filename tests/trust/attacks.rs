//! What a member, a stranger and another user of the machine try, and do not get.

use crate::harness::{Anchor, FED, Folder, ORIGIN, Ran, fed, has, run};
use crate::member::{Key, Member, fresh_key, now_s};
use crate::world::Simulated;
use crowny_fed::auth::gate::Refusal;
use crowny_fed::journal::pace::{BURST, SECONDS_PER_LINE};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

#[test]
fn a_name_that_another_member_serves_is_not_taken_without_a_grant() {
    let anchor = Anchor::start();
    let (owner, thief) = (anchor.enrol("n1"), anchor.enrol("n2"));
    assert_eq!(anchor.post("/register", &owner.offer(now_s(), 0, "web").render()).status, 200);
    let mut beside = thief.registration(now_s(), 0);
    beside["services"] = json!([
        { "name": "own", "url": "http://127.0.0.1:1", "weight": 1 },
        { "name": "web", "url": "http://127.0.0.1:1", "weight": 256 },
    ]);
    let beside = thief.envelope("register", &beside.to_string());
    for claim in [thief.offer(now_s(), 0, "web"), beside] {
        let answer = anchor.refuses("/register", &claim.render(), 403);
        assert_eq!(answer.json()["error"], "service-not-granted");
        let message = answer.message();
        assert!(message.contains("service not granted") && message.contains("web"), "{message}");
    }
    // Bound by an invitation, a name is held even before its node offers it.
    anchor.invite(&["n3", "--service", "mail"]);
    let claim = thief.offer(now_s(), 0, "web");
    anchor.good(&["grant", "web", "n1"]);
    anchor.refuses("/register", &claim.render(), 403);
    anchor.good(&["grant", "web", "n2"]);
    // A refusal burned nothing: the same request now passes.
    let answer = anchor.post("/register", &claim.render());
    assert_eq!(answer.status, 200, "{}", answer.text());
    anchor.good(&["grant", "web", "n2", "--off"]);
    anchor.refuses("/register", &thief.offer(now_s(), 1, "web").render(), 403);
}

#[test]
fn nobody_speaks_for_another() {
    let anchor = Anchor::start();
    let (subject, attacker) = (anchor.enrol("n1"), anchor.enrol("n2"));
    assert_eq!(anchor.post("/register", &subject.offer(now_s(), 5, "web").render()).status, 200);
    let posed = subject.with(Key::Ed25519(Box::new(attacker.seed().clone())));
    anchor.refuses("/register", &posed.register(now_s(), 6).render(), 403);
    anchor.refuses("/leave", &posed.leave(now_s(), 5).render(), 403);
    anchor.refuses("/drain", &posed.drain(now_s(), true).render(), 403);
    let next = fresh_key();
    anchor.refuses("/rotate", &posed.rotate(now_s(), &next, &next).render(), 403);
    // Its own name outside, the other one in what it signed; and the other way round.
    for (kind, payload) in [
        ("register", posed.registration(now_s(), 6)),
        ("leave", posed.payload(now_s(), json!({ "incarnation": 5 }))),
        ("drain", posed.payload(now_s(), json!({ "on": true }))),
    ] {
        let mut envelope = attacker.envelope(kind, &payload.to_string());
        envelope.node = "n2".to_owned();
        let answer = anchor.refuses(&format!("/{kind}"), &envelope.render(), 400);
        assert!(answer.message().contains("node in the payload"), "{}", answer.message());
        let mut payload = payload;
        payload["node"] = "n2".into();
        let mut envelope = attacker.envelope(kind, &payload.to_string());
        envelope.node = "n1".to_owned();
        anchor.refuses(&format!("/{kind}"), &envelope.render(), 403);
    }
    for copy in ["nonce", "ts", "mode"] {
        let mut envelope = attacker.register(now_s(), 0);
        match copy {
            "nonce" => envelope.nonce = crate::member::fresh_nonce(),
            "ts" => envelope.ts += 1,
            _ => {
                let mut payload = attacker.registration(now_s(), 0);
                payload["mode"] = "hmac-sha256".into();
                envelope = attacker.envelope("register", &payload.to_string());
                envelope.mode = "ed25519".to_owned();
            }
        }
        let answer = anchor.refuses("/register", &envelope.render(), 400);
        assert!(answer.message().contains(copy), "{}", answer.message());
    }
    assert!(
        anchor
            .text("federated-routes.txt")
            .contains("web|n1|http://127.0.0.1:1|weight=1|alive|inc=5")
    );
}

/// A name in another case is the same node, in lines, invitations and audits.
#[test]
fn another_spelling_of_a_name_is_no_second_member_and_breaks_no_audit() {
    let anchor = Anchor::start();
    let member = anchor.enrol("Node-1");
    assert_eq!(anchor.post("/register", &member.register(now_s(), 0).render()).status, 200);
    let key = || Key::Ed25519(Box::new(member.seed().clone()));
    for (incarnation, spelled) in [(1, "node-1"), (2, "NODE-1")] {
        let other = Member { node: spelled.to_owned(), ..member.with(key()) };
        let said = other.register(now_s(), incarnation);
        let answer = anchor.post("/register", &said.render());
        assert_eq!(answer.status, 200, "{}", answer.text());
        // One incarnation, one nonce list, one key for both.
        anchor.refuses("/register", &member.register(now_s(), incarnation - 1).render(), 409);
        let mut again = member.registration(now_s(), incarnation + 1);
        again["nonce"] = said.nonce.into();
        let again = member.envelope("register", &again.to_string());
        anchor.refuses("/register", &again.render(), 409);
        let stranger = Member { node: spelled.to_owned(), ..Member::ed25519(ORIGIN, spelled) };
        anchor.refuses("/register", &stranger.register(now_s(), 9).render(), 403);
        let ran = anchor.fed(&["invite", spelled]);
        assert!(ran.code == Some(1) && ran.err.contains("enrolled already"), "{ran:?}");
    }
    let status: Value = serde_json::from_str(&anchor.good(&["status", "--json"])).unwrap();
    let shown = status.to_string().to_lowercase();
    assert_eq!(shown.matches("\"node-1\"").count(), 1, "{status}");
    anchor.good(&["revoke", "nODE-1"]);
    anchor.refuses("/register", &member.register(now_s(), 9).render(), 401);
    anchor.good(&["verify", "--full"]);
}

#[test]
fn a_flood_is_slowed_down_and_touches_neither_map_nor_neighbours() {
    let anchor = Anchor::start();
    let (flood, quiet) = (anchor.enrol("n1"), anchor.enrol("n2"));
    for incarnation in 0..BURST {
        let answer = anchor.post("/register", &flood.register(now_s(), incarnation).render());
        assert_eq!(answer.status, 200, "{incarnation}: {}", answer.text());
    }
    let held_up = flood.register(now_s(), 100).render();
    for _ in 0..3 {
        let answer = anchor.refuses("/register", &held_up, 429);
        assert!(answer.message().contains("try again in"), "{}", answer.message());
        anchor.refuses("/drain", &flood.drain(now_s(), true).render(), 429);
    }
    // What makes no line is not held up, and others are not either.
    let same = flood.register(now_s(), BURST - 1).render();
    assert_eq!(anchor.post("/register", &same).status, 200);
    assert_eq!(anchor.post("/register", &quiet.register(now_s(), 0).render()).status, 200);
}

#[test]
fn a_member_that_waits_a_minute_may_write_one_line_more() {
    let anchor = Simulated::found(1);
    let member = anchor.member("n1");
    let mut incarnation = 0;
    let mut say = || {
        incarnation += 1;
        anchor.submit("register", &member.register(anchor.now_s(), incarnation)).map(|_| ())
    };
    for _ in 0..BURST {
        assert_eq!(say(), Ok(()));
    }
    for _ in 0..3 {
        assert!(matches!(say(), Err(Refusal::TooMany(_))));
        anchor.pass_s(SECONDS_PER_LINE - 1);
        assert!(matches!(say(), Err(Refusal::TooMany(_))));
        anchor.pass_s(1);
        assert_eq!(say(), Ok(()));
    }
}

#[test]
fn an_old_leave_takes_nobody_away_who_came_back() {
    let anchor = Anchor::start();
    let member = anchor.enrol("n1");
    let say = |path: &str, envelope: &crowny_fed::auth::envelope::Envelope| {
        let answer = anchor.post(path, &envelope.render());
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    say("/register", &member.offer(now_s(), 1, "web"));
    let (kept_back, ancient) = (member.leave(now_s(), 1), member.leave(now_s() - 301, 9));
    let spoken = member.leave(now_s(), 1);
    say("/leave", &spoken);
    assert!(!anchor.text("federated-routes.txt").contains("web|n1"));
    say("/register", &member.offer(now_s(), 2, "web"));
    let answer = anchor.refuses("/leave", &spoken.render(), 409);
    assert_eq!(answer.json()["error"], "nonce-used");
    let answer = anchor.refuses("/leave", &kept_back.render(), 409);
    assert!(answer.message().contains("stale"), "{}", answer.message());
    anchor.refuses("/leave", &ancient.render(), 408);
    // Signed for one purpose, it serves no other.
    anchor.refuses("/leave", &member.register(now_s(), 3).render(), 403);
    anchor.refuses("/register", &member.leave(now_s(), 3).render(), 403);
    // An old registration is as stale.
    let answer = anchor.refuses("/register", &member.offer(now_s(), 1, "web").render(), 409);
    assert!(answer.message().contains("stale"), "{}", answer.message());
    assert!(anchor.text("federated-routes.txt").contains("web|n1"));
}

/// O-26.
#[test]
fn nobody_points_the_federation_at_what_is_inside() {
    let anchor = Simulated::found(2);
    let mut member = anchor.member("n1");
    let before = anchor.journal();
    for host in [
        "169.254.169.254:80",
        "127.0.0.1:6379",
        "localhost",
        "x.localhost:80",
        "0.0.0.0",
        "[::]",
        "[::1]:9160",
        "[::ffff:169.254.169.254]",
        "[::ffff:127.0.0.1]",
        "2852039166",
        "0x7f.1",
        "017700000001",
        "[fe80::1%25eth0]:80",
        "user@10.0.0.5",
        "10.0.0.5:99999",
        "10.0.0.5/x",
    ] {
        member.url = format!("http://{host}");
        for envelope in [member.register(anchor.now_s(), 1), member.offer(anchor.now_s(), 1, "web")]
        {
            let ended = anchor.submit("register", &envelope);
            assert!(matches!(ended, Err(Refusal::Malformed(_))), "{host}: {ended:?}");
        }
    }
    assert_eq!(anchor.journal(), before);
    for (incarnation, host) in [(1, "10.0.0.5:443"), (2, "192.168.1.20:443")] {
        member.url = format!("http://{host}");
        anchor.submit("register", &member.offer(anchor.now_s(), incarnation, "web")).unwrap();
    }
}

/// Another user of the machine.
struct Neighbour(u32);

impl Neighbour {
    /// `None` where the test cannot become somebody else.
    fn find() -> Option<Neighbour> {
        if fs::metadata("/proc/self").map_or(1, |meta| meta.uid()) != 0 {
            eprintln!("skipped: only root can act as another user");
            return None;
        }
        has("setpriv").then_some(Neighbour(65_534))
    }

    fn runs(&self, program: &str, args: &[&str], at: &Path) -> Ran {
        let mut command = Command::new("setpriv");
        let id = self.0;
        command.args([&format!("--reuid={id}"), &format!("--regid={id}"), "--clear-groups"]);
        command.arg(program).args(args).current_dir(at);
        run(command, "")
    }
}

#[test]
fn another_user_reads_no_secret_holds_no_lock_and_plants_no_file() {
    let Some(neighbour) = Neighbour::find() else { return };
    let anchor = Anchor::start();
    let member = anchor.enrol_shared("n1");
    anchor.invite(&["n2"]);
    let dir = anchor.dir.to_str().unwrap();
    for name in [
        "keys/log.key",
        "keys/node.key",
        "keys/recovery.key",
        "keys",
        "state",
        "state/committed.json",
        "self.json",
        "invites.ndjson",
        "node-keys.ndjson",
        "used-nonces.log",
    ] {
        assert!(fs::symlink_metadata(anchor.file(name)).is_ok(), "{name}");
        let path = format!("{dir}/{name}");
        let read = neighbour.runs("cat", &[&path], &anchor.dir);
        assert!(read.code != Some(0) && read.out.is_empty(), "{name}: {read:?}");
        let listed = neighbour.runs("ls", &[&format!("{path}/")], &anchor.dir);
        assert!(listed.code != Some(0) && listed.out.is_empty(), "{name}: {listed:?}");
        // A lock takes an open handle, and none can be had.
        let locked = neighbour.runs("flock", &["-n", &path, "true"], &anchor.dir);
        assert_ne!(locked.code, Some(0), "{name}");
    }
    let before = anchor.journals();
    for name in ["crowny-fed.toml", "피어목록.psv", "nodes.ndjson", "federated-routes.txt", "new"]
    {
        let planted =
            neighbour.runs("sh", &["-c", &format!("echo x >> '{dir}/{name}'")], &anchor.dir);
        assert_ne!(planted.code, Some(0), "{name}");
        let renamed =
            neighbour.runs("mv", &[&format!("{dir}/{name}"), &format!("{dir}/x")], &anchor.dir);
        assert_ne!(renamed.code, Some(0), "{name}");
    }
    // The program itself does nothing for them, and the map stays readable.
    for verb in [
        &["tick"][..],
        &["invite", "n3"],
        &["register"],
        &["revoke", "n1"],
        &["grant", "web", "n1"],
    ] {
        let args = [&["--dir", dir], verb].concat();
        let ran = neighbour.runs(FED, &args, &anchor.dir);
        assert_eq!(ran.code, Some(78), "{verb:?}: {ran:?}");
    }
    assert_eq!(anchor.journals(), before);
    let map = neighbour.runs("cat", &[&format!("{dir}/federated-routes.txt")], &anchor.dir);
    assert_eq!(map.code, Some(0), "{map:?}");
    assert_eq!(anchor.post("/register", &member.register(now_s(), 0).render()).status, 200);
}

#[test]
fn a_folder_or_file_that_others_may_change_or_secrets_they_may_read_stop_every_verb() {
    let anchor = Anchor::start();
    let cases = [
        (".", 0o757, 0o755),
        ("keys", 0o755, 0o700),
        ("state", 0o701, 0o700),
        ("keys/log.key", 0o644, 0o600),
        ("keys/node.key", 0o640, 0o600),
        ("invites.ndjson", 0o604, 0o600),
        ("crowny-fed.toml", 0o666, 0o644),
    ];
    anchor.invite(&["n1"]);
    for (name, bad, good) in cases {
        let mode =
            |mode| fs::set_permissions(anchor.file(name), Permissions::from_mode(mode)).unwrap();
        mode(bad);
        for verb in
            [&["tick"][..], &["invite", "n2"], &["register"], &["serve", "--listen", "127.0.0.1:0"]]
        {
            let ran = anchor.fed(verb);
            assert_eq!(ran.code, Some(78), "{name} {bad:o} {verb:?}: {ran:?}");
            assert!(ran.err.contains("hint: chmod"), "{ran:?}");
        }
        mode(good);
        anchor.good(&["tick"]);
    }
}

/// A folder made by somebody else is not taken for one's own.
#[test]
fn a_folder_prepared_by_another_user_is_not_used() {
    let Some(neighbour) = Neighbour::find() else { return };
    let shared = Folder::new();
    fs::set_permissions(shared.path(), Permissions::from_mode(0o1777)).unwrap();
    let made = neighbour.runs("mkdir", &["D"], shared.path());
    assert_eq!(made.code, Some(0), "{made:?}");
    // Started as root it works as that user; in no case does root own files there.
    let ran = run(fed(&shared.path().join("D"), &["init", "--id", "gw1"]), "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let key = fs::metadata(shared.path().join("D/keys/log.key")).unwrap();
    assert_eq!(key.uid(), 65_534);
    // A third user refuses it.
    let dir = shared.path().join("D");
    let third =
        Neighbour(65_533).runs(FED, &["--dir", dir.to_str().unwrap(), "tick"], shared.path());
    assert_eq!(third.code, Some(78), "{third:?}");
}

/// An answer is worth something only under the log's signature: a portal that says 200 to everything
/// must not cost a member its key.
#[test]
fn a_lying_answer_costs_no_key() {
    let mut anchor = Anchor::start();
    let invite = anchor.invite(&["n1"]);
    let member = Folder::new();
    run(fed(member.path(), &["join", "-"]), &invite.render()).good();
    let key = fs::read(member.path().join("keys/node.key")).unwrap();
    anchor.stop();
    let port = anchor.port;
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let liar = std::thread::spawn(move || {
        let body = r#"{"seq":1,"hash":"0000000000000000000000000000000000000000000000000000000000000000","checkpoint":"x"}"#;
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut seen = [0; 4096];
            let _ = stream.read(&mut seen);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    for verb in ["rotate-key", "register"] {
        let ran = run(fed(member.path(), &[verb]), "");
        assert!(ran.code == Some(5) && ran.err.contains("not by our anchor"), "{ran:?}");
    }
    liar.join().unwrap();
    assert_eq!(fs::read(member.path().join("keys/node.key")).unwrap(), key);
    anchor.restart();
    run(fed(member.path(), &["rotate-key"]), "").good();
    run(fed(member.path(), &["register"]), "").good();
}
