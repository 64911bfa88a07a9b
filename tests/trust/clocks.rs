//! Clocks of members and of the anchor, to the second, in the seeded world.

use crate::member::{Key, Member, fresh_key};
use crate::world::Simulated;
use crowny_fed::auth::gate::Refusal;
use crowny_fed::cycle::admission::Accepted;
use crowny_fed::cycle::tick;
use crowny_fed::host::{Change, Host};
use crowny_fed::journal::keyring::OVERLAP_S;

type Ended = Result<Accepted, Refusal>;

fn is_replay(ended: Ended) -> bool {
    matches!(ended, Err(Refusal::Replay(_)))
}

fn is_skew(ended: Ended) -> bool {
    matches!(ended, Err(Refusal::Skew { .. }))
}

#[test]
fn the_window_is_300_seconds_to_both_sides_and_not_one_more() {
    let anchor = Simulated::found(1);
    let member = anchor.member("n1");
    let now = anchor.now_s();
    for (incarnation, ts) in [(1, now - 300), (2, now + 300), (3, now)] {
        anchor.submit("register", &member.register(ts, incarnation)).unwrap();
    }
    let refused = |ts| anchor.submit("register", &member.register(ts, 9)).unwrap_err().to_string();
    // O-28.
    for (ts, difference) in [
        (now + 301, "301 s ahead"),
        (now + 400, "400 s ahead"),
        (now - 301, "301 s behind"),
        (0, &format!("{now} s behind")),
        (9_007_199_254_740_991, "s ahead"),
    ] {
        let told = refused(ts);
        assert!(told.contains(difference) && told.contains(&now.to_string()), "{told}");
    }
}

/// Incident 17: a nonce lives as long as its ts may, not as long as its arrival.
#[test]
fn a_request_from_the_future_cannot_come_again_when_its_time_has_come() {
    let anchor = Simulated::found(2);
    let member = anchor.member("n1");
    let ahead = anchor.now_s() + 299;
    // One that makes a line and one that makes none; toggled, so that a replay would tell.
    let line = member.drain(ahead, true);
    anchor.submit("drain", &line).unwrap();
    anchor.submit("drain", &member.drain(anchor.now_s(), false)).unwrap();
    let no_line = member.drain(ahead, false);
    anchor.submit("drain", &no_line).unwrap();
    for seconds in [310, 280, 9] {
        anchor.pass_s(seconds);
        // Other members' lines are when old nonces are forgotten.
        anchor.submit("drain", &member.drain(anchor.now_s(), true)).unwrap();
        anchor.submit("drain", &member.drain(anchor.now_s(), false)).unwrap();
        assert!(is_replay(anchor.submit("drain", &line)), "{seconds} s later");
        assert!(is_replay(anchor.submit("drain", &no_line)), "{seconds} s later");
    }
    anchor.pass_s(1);
    assert!(is_skew(anchor.submit("drain", &line)) && is_skew(anchor.submit("drain", &no_line)));
    anchor.holds();
}

/// Incident 18: what was forgotten stays refused when the clock goes back.
#[test]
fn a_clock_that_goes_back_brings_no_forgotten_request_to_life() {
    for back in [1, 60, 150, 299, 300] {
        let anchor = Simulated::found(3);
        let member = anchor.member("n1");
        let old = member.drain(anchor.now_s(), true);
        let unchanged = member.drain(anchor.now_s(), false);
        anchor.submit("drain", &old).unwrap();
        anchor.submit("drain", &member.drain(anchor.now_s(), false)).unwrap();
        anchor.submit("drain", &unchanged).unwrap();
        anchor.pass_s(301);
        anchor.submit("drain", &member.drain(anchor.now_s(), true)).unwrap();
        anchor.submit("drain", &member.drain(anchor.now_s(), false)).unwrap();
        anchor.step_s(-back);
        let before = anchor.journal();
        for replay in [&old, &unchanged] {
            let ended = anchor.submit("drain", replay);
            assert!(ended.is_err(), "{back} s back: {ended:?}");
        }
        assert_eq!(anchor.journal(), before, "{back} s back");
        anchor.holds();
    }
}

/// O-28: an anchor far behind its own journal takes no signed writes, says why, and still ticks.
#[test]
fn an_anchor_before_its_own_last_line_refuses_signed_writes_and_goes_on_probing() {
    let anchor = Simulated::found(4);
    let member = anchor.member("n1");
    let now = anchor.now_s();
    anchor.step_s(-300);
    anchor.submit("register", &member.register(now, 0)).unwrap();
    anchor.step_s(-1);
    for back in [0, i64::try_from(now).unwrap() - 301] {
        anchor.step_s(-back);
        let before = anchor.journal();
        let ended = anchor.submit("register", &member.register(anchor.now_s(), 1));
        let Err(Refusal::Unavailable(why)) = ended else { panic!("{ended:?}") };
        assert!(why.starts_with("clock") && why.contains("behind its own last line"), "{why}");
        assert_eq!(anchor.journal(), before);
        tick::run(&anchor.host, &anchor.config, false).unwrap();
    }
    anchor.step_s(i64::try_from(now).unwrap());
    anchor.submit("register", &member.register(anchor.now_s(), 1)).unwrap();
    anchor.holds();
}

#[test]
fn after_the_nonce_file_was_lost_signed_writes_wait_600_seconds() {
    let anchor = Simulated::found(5);
    let member = anchor.member("n1");
    anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
    let answered = member.register(anchor.now_s() + 300, 0);
    anchor.submit("register", &answered).unwrap();
    let path = anchor.config.layout.used_nonces();
    anchor.host.change(Change::Remove { path: &path }).unwrap();
    let wait = |anchor: &Simulated| {
        let ended = anchor.submit("register", &member.register(anchor.now_s(), 1));
        let Err(Refusal::Unavailable(why)) = ended else { panic!("{ended:?}") };
        why
    };
    let first = wait(&anchor);
    assert!(first.contains("600 s") || first.contains("601 s"), "{first}");
    // The last second in which both ends of the window are still in.
    for seconds in [300, 299, 1] {
        anchor.pass_s(seconds);
        assert!(anchor.submit("register", &answered).is_err(), "a replay came through");
        assert!(wait(&anchor).contains("lost"));
        anchor.host.reboot(false);
    }
    anchor.pass_s(1);
    assert!(is_skew(anchor.submit("register", &answered)));
    anchor.submit("register", &member.register(anchor.now_s(), 1)).unwrap();
}

/// O-23: both keys during the overlap, by the anchor's time and journal order alone.
#[test]
fn a_retired_key_works_until_its_hour_is_over_whatever_ts_says() {
    let anchor = Simulated::found(6);
    let old = anchor.member("n1");
    let next = old.with(Key::Ed25519(Box::new(fresh_key())));
    let rotated_at = anchor.now_s();
    anchor.submit("rotate", &old.rotate(rotated_at, next.seed(), next.seed())).unwrap();
    let mut incarnation = 0;
    let mut say = |by: &Member, ts: u64| {
        incarnation += 1;
        anchor.submit("register", &by.register(ts, incarnation)).map(|_| ())
    };
    anchor.pass_s(OVERLAP_S - 1);
    assert_eq!(say(&old, anchor.now_s()), Ok(()));
    assert_eq!(say(&next, anchor.now_s()), Ok(()));
    anchor.pass_s(1);
    for ts in [anchor.now_s(), anchor.now_s() - 299] {
        assert_eq!(say(&old, ts), Err(Refusal::Signature));
    }
    assert_eq!(say(&next, anchor.now_s() - 299), Ok(()));
    // A clock that goes back does not give the hour back.
    anchor.pass_s(60);
    assert_eq!(say(&next, anchor.now_s()), Ok(()));
    anchor.step_s(-200);
    assert_eq!(say(&old, anchor.now_s()), Err(Refusal::Signature));
    assert_eq!(say(&next, anchor.now_s()), Ok(()));
    anchor.holds();
}

/// Incident 16: the cap refuses new ones and evicts none.
#[test]
fn a_member_at_its_cap_waits_and_none_of_its_nonces_is_forgotten() {
    let anchor = Simulated::found(7);
    let (member, other) = (anchor.member("n1"), anchor.member("n2"));
    anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
    anchor.submit("register", &other.register(anchor.now_s(), 0)).unwrap();
    let first = member.register(anchor.now_s(), 0);
    anchor.submit("register", &first).unwrap();
    fill(&anchor, "n1", 4_095);
    let path = anchor.config.layout.used_nonces();
    let full = anchor.file(&path);
    let ended = anchor.submit("register", &member.register(anchor.now_s(), 0));
    let Err(Refusal::Unavailable(why)) = ended else { panic!("{ended:?}") };
    assert!(why.contains("too many requests"), "{why}");
    assert!(is_replay(anchor.submit("register", &first)));
    // Its name in another case is no other member.
    let shouted = Member { node: "N1".to_owned(), ..member.with(member_key(&member)) };
    let ended = anchor.submit("register", &shouted.register(anchor.now_s(), 0));
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(anchor.file(&path), full);
    anchor.submit("register", &other.register(anchor.now_s(), 0)).unwrap();
    anchor.pass_s(301);
    anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
}

fn member_key(member: &Member) -> Key {
    Key::Ed25519(Box::new(member.seed().clone()))
}

/// Adds answered requests of now, as they stand in the file.
fn fill(anchor: &Simulated, node: &str, count: usize) {
    let path = anchor.config.layout.used_nonces();
    let mut bytes = anchor.file(&path);
    for number in 0..count {
        bytes.extend(format!("{} f{number:031x} {node}\n", anchor.now_s()).into_bytes());
    }
    anchor.host.disk(|disk| disk.put(&path, &bytes));
}

/// Incident 16: a day of requests leaves a file of minutes.
#[test]
fn the_nonce_file_holds_a_window_and_not_a_history() {
    let anchor = Simulated::found(8);
    let node = "서".repeat(64);
    let member = anchor.member(&node);
    anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
    let path = anchor.config.layout.used_nonces();
    let mut longest = 0;
    // What a busy day would have left between two requests is put there at once.
    for hour in 0..24 {
        anchor.pass_s(3_600);
        fill(&anchor, &node, 1_000);
        for _ in 0..5 {
            let unchanged = member.register(anchor.now_s(), 0);
            anchor.submit("register", &unchanged).unwrap();
            assert!(is_replay(anchor.submit("register", &unchanged)), "hour {hour}");
        }
        longest = longest.max(anchor.file(&path).len());
    }
    assert!(longest < 768 * 1_024, "{longest} bytes");
    anchor.pass_s(3_600);
    fill(&anchor, &node, 1_100);
    anchor.pass_s(301);
    anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
    anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
    assert!(anchor.file(&path).len() < 1_024, "only what could still be replayed is left");
}
