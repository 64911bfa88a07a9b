//! One request, one line: through restarts, torn files, lost files, races and failing disks.

use crate::harness::{Anchor, Serving, free_port, get, has, post, wait_for};
use crate::member::{enrolment, fresh_nonce, now_s};
use crate::world::Simulated;
use crowny_fed::cycle::tick;
use crowny_fed::sim::disk::{FAULTS, Fault};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::Barrier;
use std::thread::scope;

/// O-19: what was answered stays answered, whatever a crash leaves of the nonce file.
#[test]
fn a_replay_is_refused_after_kill_9_and_beside_a_torn_nonce_file() {
    let mut anchor = Anchor::start();
    let member = anchor.enrol("서울");
    let made_a_line = member.register(now_s(), 0).render();
    let changed_nothing = member.register(now_s(), 0).render();
    let seq = anchor.post("/register", &made_a_line).json()["seq"].clone();
    assert_eq!(anchor.post("/register", &changed_nothing).json()["seq"], seq);
    let whole = fs::read(anchor.file("used-nonces.log")).unwrap();
    let next = format!("{} {} 서울\n", now_s(), fresh_nonce());
    let letter = next.find('서').unwrap();
    // Nothing, half a number, half a line, two cuts inside a letter, a line without its end.
    for cut in [0, 5, 30, letter + 1, letter + 2, next.len() - 1] {
        let torn = [&whole, &next.as_bytes()[..cut]].concat();
        fs::write(anchor.file("used-nonces.log"), torn).unwrap();
        anchor.restart();
        for replay in [&made_a_line, &changed_nothing] {
            let answer = anchor.post("/register", replay);
            assert_eq!(answer.status, 409, "cut at {cut}: {}", answer.text());
        }
        assert_eq!(fs::read(anchor.file("used-nonces.log")).unwrap(), whole, "cut at {cut}");
    }
    assert_eq!(anchor.post("/register", &member.register(now_s(), 1).render()).status, 200);
}

/// O-19, third run.
#[test]
fn an_unreadable_nonce_file_stops_signed_writes_with_a_reason_and_a_lost_one_makes_them_wait() {
    let mut anchor = Anchor::start();
    let member = anchor.enrol("n1");
    let unchanged = [member.register(now_s(), 0), member.register(now_s(), 0)];
    for envelope in &unchanged {
        assert_eq!(anchor.post("/register", &envelope.render()).status, 200);
    }
    let path = anchor.file("used-nonces.log");
    let good = fs::read(&path).unwrap();
    let later = member.register(now_s(), 1).render();
    let damaged: [&[u8]; 5] = [
        b"",
        b"garbage\n",
        b"# crowny-fed nonces since=x pruned=0\n",
        &[&good[..], b"x\n"].concat(),
        b"\xff\n",
    ];
    for bytes in damaged {
        fs::write(&path, bytes).unwrap();
        anchor.restart();
        let answer = anchor.refuses("/register", &later, 503);
        assert!(answer.message().contains("used-nonces.log"), "{}", answer.message());
        // Of a line the journal itself knows the nonce; either way nothing comes through.
        let replay = anchor.post("/register", &unchanged[1].render());
        assert!([409, 503].contains(&replay.status), "{}", replay.text());
        assert_eq!(fs::read(&path).unwrap(), bytes, "an unreadable file is left to the operator");
    }
    fs::remove_file(&path).unwrap();
    anchor.restart();
    let before = anchor.text("nodes.ndjson");
    let answer = anchor.post("/register", &later);
    assert_eq!(answer.status, 503, "{}", answer.text());
    let wait = answer.message();
    assert!(
        wait.contains("lost") && (595..=601).any(|s| wait.contains(&format!("{s} s"))),
        "{wait}"
    );
    let replay = anchor.post("/register", &unchanged[1].render());
    assert_eq!(replay.status, 503, "{}", replay.text());
    assert_eq!(anchor.text("nodes.ndjson"), before);
    fs::write(&path, &good).unwrap();
    assert_eq!(anchor.post("/register", &later).status, 200);
}

/// O-20: what is signed names the action and the federation.
#[test]
fn a_signed_request_is_worth_nothing_on_another_path_or_at_another_anchor() {
    let here = Anchor::start();
    let there = Anchor::named("test.example/other");
    let member = here.enrol("n1");
    let invite = there.invite(&["n1"]);
    let body = enrolment(&invite, member.seed(), &fresh_nonce(), now_s()).render();
    assert_eq!(there.post("/enroll", &body).status, 200);
    let signed = [
        ("/register", member.register(now_s(), 0)),
        ("/leave", member.leave(now_s(), 0)),
        ("/drain", member.drain(now_s(), true)),
        ("/rotate", member.rotate(now_s(), &crate::member::fresh_key(), member.seed())),
    ];
    for (path, envelope) in &signed {
        for (other, _) in signed.iter().filter(|(other, _)| other != path) {
            here.refuses(other, &envelope.render(), 403);
        }
        here.refuses("/enroll", &envelope.render(), 403);
        let answer = there.refuses(path, &envelope.render(), 400);
        assert!(answer.message().contains("another federation"), "{}", answer.message());
    }
    for (path, envelope) in &signed[..1] {
        assert_eq!(here.post(path, &envelope.render()).status, 200);
    }
}

/// Incident 17: two processes on one journal, 64 copies at once.
#[test]
fn of_64_copies_at_once_one_makes_the_line_and_63_meet_its_nonce() {
    let anchor = Anchor::start();
    let second = free_port();
    let log = anchor.folder.path().join("second.log");
    let _second = Serving::start(&anchor.dir, second, &log);
    let member = anchor.enrol("n1");
    // First a request that makes a line, then one that changes nothing.
    for (round, lines) in [(0, 1), (1, 0)] {
        let body = member.register(now_s(), 0).render();
        let before = anchor.lines().len();
        let start = Barrier::new(64);
        let statuses: Vec<u16> = scope(|scope| {
            let ask = |n: usize| {
                let port = if n.is_multiple_of(2) { anchor.port } else { second };
                let (start, body) = (&start, &body);
                scope.spawn(move || {
                    start.wait();
                    post(port, "/register", body).status
                })
            };
            let threads: Vec<_> = (0..64).map(ask).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let mut counted = BTreeMap::new();
        statuses.into_iter().for_each(|status| *counted.entry(status).or_insert(0) += 1);
        assert_eq!(counted, BTreeMap::from([(200, 1), (409, 63)]), "round {round}");
        assert_eq!(anchor.lines().len(), before + lines);
    }
    assert_eq!(anchor.text("used-nonces.log").lines().count(), 2, "its head and one nonce");
    assert_eq!(get(second, "/root").body, anchor.get("/root").body);
    anchor.good(&["verify", "--full"]);
}

/// Whatever the disk does at whatever change: no answer without the line, never two lines, and the
/// same request sent again ends it.
#[test]
fn a_disk_that_fails_at_any_change_never_makes_two_lines_of_one_request() {
    for fault in FAULTS {
        for after in 0.. {
            let anchor = Simulated::found(after + 1);
            let member = anchor.member("n1");
            let envelope = member.register(anchor.now_s(), 0);
            anchor.host.disk(|disk| disk.plan(after, fault));
            let first = anchor.submit("register", &envelope);
            let met = anchor.host.disk(|disk| disk.was_killed()) || first.is_err();
            anchor.host.reboot(fault == Fault::KilledWithin);
            let told = anchor.lines_with(&envelope.nonce);
            assert!(told == 1 || (told == 0 && first.is_err()), "{fault:?} after {after}");
            let again = anchor.submit("register", &envelope);
            let shown = format!("{fault:?} after {after}: {first:?}, then {again:?}");
            assert!(
                again.is_ok() || again.unwrap_err().to_string().contains("it made line"),
                "{shown}"
            );
            assert_eq!(anchor.lines_with(&envelope.nonce), 1, "{shown}");
            // Said anew, it is what the journal says already.
            let anew = anchor.submit("register", &member.register(anchor.now_s(), 0));
            assert!(anew.is_ok(), "{shown}, then {anew:?}");
            assert_eq!(anchor.lines_with("\\\"node\\\":\\\"n1\\\",\\\"nonce"), 2, "{shown}");
            // What a power cut took of derived files is the next tick's to make anew.
            tick::run(&anchor.host, &anchor.config, false).unwrap();
            anchor.holds();
            if !met && first.is_ok() {
                assert!(after > 5, "a commit makes more changes than {after}");
                break;
            }
        }
    }
}

/// The same for the answer that makes no line: its nonce is kept, or it was never answered.
#[test]
fn a_nonce_without_a_line_is_durable_before_its_answer() {
    for fault in FAULTS {
        for after in 0..3 {
            let anchor = Simulated::found(after + 1);
            let member = anchor.member("n1");
            anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
            let unchanged = member.register(anchor.now_s(), 0);
            anchor.host.disk(|disk| disk.plan(after, fault));
            let first = anchor.submit("register", &unchanged);
            anchor.host.reboot(true);
            let again = anchor.submit("register", &unchanged);
            if first.is_ok() {
                assert!(again.is_err(), "{fault:?} after {after}: a replay came through");
            }
            assert!(anchor.submit("register", &unchanged).is_err(), "{fault:?} after {after}");
        }
    }
}

/// Incidents 9 and 17: both kinds of record are on the disk before a byte of the answer is sent.
#[test]
fn the_answer_leaves_after_the_sync_and_never_before() {
    if !has("strace") {
        return;
    }
    let mut anchor = Anchor::start();
    let member = anchor.enrol("n1");
    anchor.stop();
    let trace = anchor.folder.path().join("trace");
    let serve = crate::harness::fed(
        &anchor.dir,
        &["serve", "--listen", &format!("127.0.0.1:{}", anchor.port), "--idle-exit", "1"],
    );
    let mut traced = Command::new("strace");
    traced.args(["-f", "-y", "-e", "trace=fdatasync,fsync,sendto,write,writev", "-s", "24", "-o"]);
    traced.arg(&trace).arg(serve.get_program()).args(serve.get_args());
    let mut child = traced.spawn().unwrap();
    wait_for("serve under strace", || {
        std::net::TcpStream::connect(("127.0.0.1", anchor.port)).is_ok().then_some(())
    });
    for _ in 0..2 {
        let answer = anchor.post("/register", &member.register(now_s(), 0).render());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    assert!(child.wait().unwrap().success());
    let trace = fs::read_to_string(&trace).unwrap();
    let at = |wanted: &str, from: usize| {
        let found = trace.lines().skip(from).position(|line| {
            wanted.split('*').all(|part| line.contains(part)) && !line.contains("= -1")
        });
        from + found.unwrap_or_else(|| panic!("no {wanted} after line {from} of:\n{trace}"))
    };
    let line = at("fdatasync(*nodes.ndjson", 0);
    let root = at("fsync(*federation-root.txt", line);
    let first = at("HTTP/1.1 200", 0);
    assert!(line < root && root < first, "commit, then tell:\n{trace}");
    let nonce = at("fdatasync(*used-nonces.log", 0);
    let second = at("HTTP/1.1 200", first + 1);
    assert!(first < nonce && nonce < second, "{trace}");
}
