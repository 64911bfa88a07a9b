//! A clock that ran ahead and was put right: after an operator's word members may write again, and
//! nothing that was recorded gets through, now or when that time comes.

use crate::member::{Key, Member, fresh_key};
use crate::world::Simulated;
use crowny_fed::auth::gate::Refusal;
use crowny_fed::cycle::doctor::clock::accept_clock;
use crowny_fed::cycle::tick;
use crowny_fed::error::Kind;
use crowny_fed::host::{Change, Host};

const YEAR_S: i64 = 365 * 86_400;

/// Everything ran `ahead_s` ahead for a while, with one line every ten minutes; then the clock was
/// put right.
fn ran_ahead(
    seed: u64,
    ahead_s: i64,
) -> (Simulated, Member, Vec<crowny_fed::auth::envelope::Envelope>) {
    let anchor = Simulated::found(seed);
    let member = anchor.member("n1");
    anchor.submit("register", &member.register(anchor.now_s(), 0)).unwrap();
    anchor.step_s(ahead_s);
    let mut sent = Vec::new();
    for nth in 0..8_u64 {
        // One that makes a line and one that makes none.
        for on in [nth.is_multiple_of(2), nth.is_multiple_of(2)] {
            let drain = member.drain(anchor.now_s(), on);
            anchor.submit("drain", &drain).unwrap();
            sent.push(drain);
        }
        anchor.pass_s(600);
    }
    anchor.step_s(-ahead_s);
    (anchor, member, sent)
}

fn why(ended: Result<crowny_fed::cycle::admission::Accepted, Refusal>) -> String {
    let Err(Refusal::Unavailable(why)) = ended else { panic!("{ended:?}") };
    why
}

/// The last line's `ts`.
fn last_ts(anchor: &Simulated) -> u64 {
    let journal = String::from_utf8(anchor.journal()).unwrap();
    let line: serde_json::Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
    line["ts"].as_u64().unwrap()
}

#[test]
fn after_the_operators_word_and_a_wait_members_write_again() {
    let (anchor, member, _) = ran_ahead(21, 3 * YEAR_S);
    let ahead = last_ts(&anchor);
    let told = why(anchor.submit("drain", &member.drain(anchor.now_s(), true)));
    assert!(told.starts_with("clock") && told.contains("--accept-clock"), "{told}");
    let done = accept_clock(&anchor.host, &anchor.config).unwrap();
    assert!(done.contains("601 s"), "{done}");
    let told = why(anchor.submit("drain", &member.drain(anchor.now_s(), true)));
    assert!(told.contains("wait"), "{told}");
    anchor.pass_s(601);
    for (incarnation, on) in [(1, true), (2, false), (3, true)] {
        let drain = member.drain(anchor.now_s(), on);
        anchor.submit("drain", &drain).unwrap();
        assert_eq!(last_ts(&anchor), ahead, "the journal's time neither moves nor goes back");
        // Lines and what makes none come once.
        let again = anchor.submit("drain", &drain);
        assert!(matches!(again, Err(Refusal::Replay(_))), "{again:?}");
        anchor.submit("register", &member.register(anchor.now_s(), incarnation)).unwrap();
    }
    tick::run(&anchor.host, &anchor.config, false).unwrap();
    anchor.holds();
    // It survives what everything survives.
    anchor.host.reboot(true);
    anchor.submit("drain", &member.drain(anchor.now_s(), false)).unwrap();
    let done = accept_clock(&anchor.host, &anchor.config).unwrap();
    assert!(done.starts_with("accepted"), "{done}");
}

#[test]
fn the_gate_is_the_wall_clocks_and_a_line_is_remembered_for_its_window() {
    let (anchor, member, _) = ran_ahead(22, YEAR_S);
    accept_clock(&anchor.host, &anchor.config).unwrap();
    anchor.pass_s(601);
    let now = anchor.now_s();
    for off in [301, -301, YEAR_S] {
        let ts = now.checked_add_signed(off).unwrap();
        let ended = anchor.submit("drain", &member.drain(ts, true));
        assert!(matches!(ended, Err(Refusal::Skew { .. })), "{off}: {ended:?}");
    }
    let early = member.drain(now + 299, true);
    anchor.submit("drain", &early).unwrap();
    anchor.submit("drain", &member.drain(now, false)).unwrap();
    for seconds in [100, 300, 199] {
        anchor.pass_s(seconds);
        let ended = anchor.submit("drain", &early);
        assert!(matches!(ended, Err(Refusal::Replay(_))), "{ended:?}");
    }
    anchor.pass_s(1);
    assert!(matches!(anchor.submit("drain", &early), Err(Refusal::Skew { .. })));
    // All lines are of one time, so the pace is counted by requests.
    let mut ended = Ok(());
    for nth in 0..30 {
        let drain = member.drain(anchor.now_s(), nth % 2 == 0);
        ended = ended.and(anchor.submit("drain", &drain).map(|_| ()));
    }
    assert!(matches!(ended, Err(Refusal::TooMany(_))), "{ended:?}");
    anchor.holds();
}

/// An hour ahead by a wrong time zone, or a year: what was sent then is refused when its time comes.
#[test]
fn requests_of_the_wrong_time_do_not_come_again_when_it_is_the_right_time() {
    for ahead_s in [3_600, 7_200, YEAR_S] {
        let (anchor, member, sent) = ran_ahead(23, ahead_s);
        accept_clock(&anchor.host, &anchor.config).unwrap();
        let mut replayed = 0;
        if ahead_s == YEAR_S {
            anchor.step_s(YEAR_S - 4_900);
        }
        while anchor.now_s() < last_ts(&anchor) + 900 {
            anchor.pass_s(200);
            for old in &sent {
                replayed += usize::from(old.ts.abs_diff(anchor.now_s()) <= 300);
                let before = anchor.journal();
                let ended = anchor.submit("drain", old);
                assert!(ended.is_err(), "{ahead_s}: {ended:?}");
                assert_eq!(anchor.journal(), before);
            }
        }
        assert!(replayed > 10, "{replayed} were in time");
        // By then it is over, and the member writes as ever.
        anchor.pass_s(600);
        anchor.submit("register", &member.register(anchor.now_s(), 7)).unwrap();
        assert_eq!(last_ts(&anchor), anchor.now_s());
        anchor.holds();
    }
}

/// Without the file of nonces nobody knows what was answered in that time.
#[test]
fn with_the_nonces_of_that_time_lost_it_stays_closed() {
    let (anchor, member, sent) = ran_ahead(24, 7_200);
    let path = anchor.config.layout.used_nonces();
    anchor.host.change(Change::Remove { path: &path }).unwrap();
    accept_clock(&anchor.host, &anchor.config).unwrap();
    anchor.pass_s(700);
    while anchor.now_s() < last_ts(&anchor) {
        for old in &sent {
            assert!(anchor.submit("drain", old).is_err());
        }
        anchor.pass_s(100);
    }
    anchor.pass_s(301);
    anchor.submit("register", &member.register(anchor.now_s(), 7)).unwrap();
    // Lost after the word was given, the word has to be given again.
    let (anchor, member, _) = ran_ahead(25, YEAR_S);
    accept_clock(&anchor.host, &anchor.config).unwrap();
    anchor.pass_s(601);
    anchor.submit("register", &member.register(anchor.now_s(), 1)).unwrap();
    anchor.host.change(Change::Remove { path: &path }).unwrap();
    for _ in 0..2 {
        let told = why(anchor.submit("register", &member.register(anchor.now_s(), 2)));
        assert!(told.contains("lost") || told.contains("accepts it again"), "{told}");
        anchor.pass_s(700);
    }
    accept_clock(&anchor.host, &anchor.config).unwrap();
    anchor.pass_s(601);
    anchor.submit("register", &member.register(anchor.now_s(), 2)).unwrap();
}

#[test]
fn a_clock_that_goes_back_behind_the_accepted_time_is_refused_again() {
    let (anchor, member, _) = ran_ahead(26, YEAR_S);
    let recorded = member.drain(anchor.now_s() - 4_000, true);
    accept_clock(&anchor.host, &anchor.config).unwrap();
    anchor.pass_s(601);
    anchor.step_s(-4_601);
    let told = why(anchor.submit("drain", &recorded));
    assert!(told.contains("the time that was accepted"), "{told}");
    anchor.step_s(4_601);
    anchor.submit("drain", &member.drain(anchor.now_s(), true)).unwrap();
    // A clock that runs is not put back.
    let other = Simulated::found(27);
    let refused = accept_clock(&other.host, &other.config).unwrap_err();
    assert_eq!(refused.kind, Kind::No, "{refused}");
}

/// The journal's time stands still, so an overlap would never end.
#[test]
fn a_key_that_was_rotated_ends_at_once() {
    let (anchor, member, _) = ran_ahead(28, YEAR_S);
    let next = member.with(Key::Ed25519(Box::new(fresh_key())));
    accept_clock(&anchor.host, &anchor.config).unwrap();
    anchor.pass_s(601);
    let rotate = member.rotate(anchor.now_s(), next.seed(), next.seed());
    anchor.submit("rotate", &rotate).unwrap();
    let refused = anchor.submit("drain", &member.drain(anchor.now_s(), true));
    assert!(matches!(refused, Err(Refusal::Signature)), "{refused:?}");
    anchor.submit("drain", &next.drain(anchor.now_s(), true)).unwrap();
    assert!(anchor.host.clock().wall_ms / 1_000 < last_ts(&anchor));
    anchor.holds();
}
