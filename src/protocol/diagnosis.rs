//! What an operator has to hear when something is wrong: findings from facts.
//!
//! Each finding says what, why, and the next command that is safe. What looks alike to whoever sees
//! an error is told apart here: an old copy of the anchor's folder from a second one that went on, a
//! timer that stopped from a network that does, a clock from a journal that are wrong.

mod gathered;

pub use gathered::{Cause, Facts, Relation, Seen, Shown, Ticks, Trouble};

use serde::Serialize;

/// How bad a finding is, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Worth knowing, nothing is wrong.
    Note,
    /// Something to do or to wait for.
    Finding,
    /// Configuration, ownership or permissions.
    Config,
    /// The disk, or what others show, contradicts what was signed.
    Integrity,
}

/// One thing an operator should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub weight: Weight,
    /// What and where.
    pub what: String,
    /// What it means.
    pub why: String,
    /// What to do: a command that is safe to run, or what to wait for.
    pub next: String,
}

/// How far a clock may be behind the last line before signed writes stop, in seconds.
const BEHIND_S_MAX: u64 = 300;
/// Peers that must fail alike before the machine itself is suspected.
const ALIKE_MIN: usize = 2;

/// All findings, worst first.
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        facts.troubles.iter().map(|trouble| trouble.finding(facts)).collect();
    found.extend(two_histories(facts));
    found.extend(clock(facts));
    found.extend(nonces(facts));
    found.extend(ticks(facts));
    found.extend(local_network(facts));
    found.extend(torn(facts));
    found.sort_by_key(|finding| std::cmp::Reverse(finding.weight));
    found
}

/// Our log's signature on something that is not here: an old copy, or a second one.
fn two_histories(facts: &Facts) -> Vec<Finding> {
    let convicted = facts.evidence.iter().map(|seen| seen.who.as_str()).collect::<Vec<_>>();
    let mut found: Vec<Finding> =
        facts.shown.iter().filter_map(|shown| history(facts, shown)).collect();
    let explained = !found.is_empty();
    if convicted.is_empty() || explained {
        found.dedup_by(|a, b| a.why == b.why && a.next == b.next && a.what == b.what);
        return found;
    }
    let size = facts.evidence.iter().map(|seen| seen.size).max().unwrap_or_default();
    let what = format!("two notes under the log's signature are kept: {}", convicted.join(", "));
    let (why, next) = match facts.evidence.iter().all(|seen| seen.relation.is_one_log()) {
        true => (
            "they are moments of the one log that is here now".to_owned(),
            settle(facts),
        ),
        false if size > facts.size => (
            format!(
                "one of them has {size} lines, {} are here, and no member that was asked shows them now",
                facts.size
            ),
            format!("start the members, then: {}", facts.command("doctor")),
        ),
        false => (
            "they are no moment of the log that is here: a second copy signed, and no member that was asked shows it now".to_owned(),
            format!(
                "stop that copy; where this one is right: {}",
                settle_by_hand(facts)
            ),
        ),
    };
    found.push(Finding { weight: Weight::Integrity, what, why, next });
    found
}

fn history(facts: &Facts, shown: &Shown) -> Option<Finding> {
    let Seen { who, size, relation } = shown.seen.as_ref()?;
    let integrity = |what, why, next| Some(Finding { weight: Weight::Integrity, what, why, next });
    match relation {
        Relation::Longer if facts.anchor => integrity(
            format!(
                "rolled back: {who} shows {size} lines under our signature, the first {} of which are those here",
                facts.size
            ),
            "this folder is an older copy of itself, as from a backup; nothing is signed until it has the rest".to_owned(),
            facts.command("doctor --adopt"),
        ),
        Relation::Later { anchor, epoch } if facts.anchor => integrity(
            format!("superseded: {who} shows that {anchor} serialises in epoch {epoch}"),
            "an operator handed over or recovered while this copy was away; it signs nothing more".to_owned(),
            facts.command("tick"),
        ),
        Relation::Other { line } => {
            let at = line.map_or_else(String::new, |line| format!(" from line {line} on"));
            integrity(
                format!("fork: {who} shows other lines{at} under the log's signature, {size} in all, {} are here", facts.size),
                "two copies of the anchor signed, or the key was stolen".to_owned(),
                format!(
                    "decide which copy is right and stop the other; where it is theirs: {}; where it is ours: {}",
                    facts.command(&format!("doctor --adopt {who}")),
                    settle_by_hand(facts)
                ),
            )
        }
        _ => None,
    }
}

fn settle(facts: &Facts) -> String {
    if facts.anchor { facts.command("doctor --adopt") } else { settle_by_hand(facts) }
}

fn settle_by_hand(facts: &Facts) -> String {
    let dir = &facts.dir;
    format!("mv {dir}/state/evidence {dir}/evidence-judged")
}

fn clock(facts: &Facts) -> Option<Finding> {
    let behind_s = facts.last_line_s?.saturating_sub(facts.wall_s);
    if !facts.anchor || behind_s <= BEHIND_S_MAX {
        return None;
    }
    let what = format!("the clock is {behind_s} s behind line {}", facts.size.saturating_sub(1));
    Some(match facts.clock_accepted {
        true => Finding {
            weight: Weight::Note,
            what: what + ", which was accepted",
            why: "requests are judged by the clock, new lines carry that line's time".to_owned(),
            next: format!("nothing; it ends by itself in {behind_s} s"),
        },
        false => Finding {
            weight: Weight::Finding,
            what,
            why: "it is wrong now, or it was wrong when that line was written; signed writes are answered 503".to_owned(),
            next: format!(
                "set the clock (timedatectl; date -u); if it is right: {}",
                facts.command("doctor --accept-clock")
            ),
        },
    })
}

fn nonces(facts: &Facts) -> Option<Finding> {
    let wait_s = facts.nonce_wait_s?;
    Some(Finding {
        weight: Weight::Finding,
        what: format!("signed writes wait {wait_s} s more"),
        why: "the nonces of answered requests were lost or begun anew, and what was recorded must not come again".to_owned(),
        next: "wait; nothing has to be done".to_owned(),
    })
}

fn ticks(facts: &Facts) -> Vec<Finding> {
    let finding = |what, why: &str, next| Finding {
        weight: Weight::Finding,
        what,
        why: why.to_owned(),
        next,
    };
    let timer = "systemctl list-timers crowny-fed-tick.timer (launchctl print system/org.crowny.fed.tick; crontab -l)";
    let mut found = Vec::new();
    if facts.troubles.iter().any(|trouble| trouble.cause == Cause::Identity) {
        return found;
    }
    match &facts.ticks {
        None => found.push(finding(
            "tick.json is missing or does not read".to_owned(),
            "no tick ran here, or its memory was lost: the next one accuses nobody",
            facts.command("tick"),
        )),
        Some(Ticks { ago_s, interval_s, .. }) if *interval_s > 0 && *ago_s > 3 * interval_s => {
            found.push(finding(
                format!("the last tick is {ago_s} s ago, the interval is {interval_s} s"),
                "has the timer stopped, or was the machine off?",
                format!("{timer}; by hand: {}", facts.command("tick")),
            ));
        }
        Some(_) => {}
    }
    let away = facts.ticks.as_ref().map_or(0, |ticks| ticks.anchor_away);
    if away > 0 {
        found.push(finding(
            format!("no anchor answered for {away} ticks"),
            "its machine, its network or only its serve is down; this node goes on with what it has",
            format!("on the anchor: crowny-fed doctor; here: {}", facts.command("sync")),
        ));
    }
    found
}

/// Everybody fails the one way in which the local-network privacy of macOS fails a program, while
/// loopback works.
fn local_network(facts: &Facts) -> Option<Finding> {
    let failed: Vec<&str> = facts.shown.iter().filter_map(|shown| shown.fault.as_deref()).collect();
    let alike = failed.len() == facts.shown.len()
        && failed.len() >= ALIKE_MIN
        && failed.iter().all(|fault| fault.contains("No route to host"));
    (alike && facts.loopback_works).then(|| Finding {
        weight: Weight::Finding,
        what: format!("none of {} peers can be reached: no route to host, while loopback works", failed.len()),
        why: "on macOS this is how the local network is kept from a program; elsewhere the cable or the route is gone".to_owned(),
        next: "macOS: run it as a daemon (crowny-fed units are), or allow it in System Settings, Privacy & Security, Local Network; elsewhere: ip route".to_owned(),
    })
}

fn torn(facts: &Facts) -> Vec<Finding> {
    let told = |(name, bytes): &(String, u64)| {
        Finding {
        weight: Weight::Finding,
        what: format!("{name} has {bytes} bytes"),
        why: "a crash left them behind the last whole line, or they were of no signed log; nothing reads them".to_owned(),
        next: format!("look at it, then move it away: {}", facts.aside(name)),
    }
    };
    facts.torn.iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor() -> Facts {
        let ticks = Some(Ticks { ago_s: 1, interval_s: 30, anchor_away: 0 });
        Facts { dir: "/d".to_owned(), anchor: true, size: 100, ticks, ..Facts::default() }
    }

    fn shows(size: u64, relation: Relation) -> Shown {
        let who = "http://n1".to_owned();
        Shown { seen: Some(Seen { who, size, relation }), fault: None }
    }

    fn fails(fault: &str) -> Shown {
        Shown { seen: None, fault: Some(fault.to_owned()) }
    }

    #[test]
    fn a_well_anchor_has_no_findings() {
        let shown = vec![shows(100, Relation::Ours), shows(90, Relation::Ours), fails("refused")];
        assert_eq!(findings(&Facts { shown, ..anchor() }), []);
    }

    #[test]
    fn an_old_copy_a_second_copy_and_a_lagging_member_are_told_apart() {
        let told = |facts: &Facts| -> Vec<String> {
            findings(facts).into_iter().map(|finding| finding.what + "; " + &finding.next).collect()
        };
        let old = Facts { shown: vec![shows(120, Relation::Longer)], ..anchor() };
        assert!(told(&old)[0].starts_with("rolled back: http://n1 shows 120 lines"));
        assert!(told(&old)[0].ends_with("crowny-fed doctor --adopt --dir /d"));
        // To a member the same is only news.
        assert_eq!(told(&Facts { anchor: false, ..old }), [""; 0]);
        let fork = Relation::Other { line: Some(100) };
        let second = Facts { shown: vec![shows(101, fork)], ..anchor() };
        assert!(told(&second)[0].starts_with("fork: http://n1 shows other lines from line 100 on"));
        assert!(told(&second)[0].contains("crowny-fed doctor --adopt http://n1 --dir /d"));
        // Whoever does not show what its lines are convicts nobody.
        assert_eq!(
            told(&Facts { shown: vec![shows(120, Relation::Unproven)], ..anchor() }),
            [""; 0]
        );
    }

    #[test]
    fn evidence_is_explained_with_and_without_who_showed_it() {
        let note = |relation| Seen { who: "theirs-120.txt".to_owned(), size: 120, relation };
        let unseen = Facts { evidence: vec![note(Relation::Unproven)], ..anchor() };
        let found = findings(&unseen);
        assert_eq!((found.len(), found[0].weight), (1, Weight::Integrity));
        assert!(found[0].why.contains("120 lines, 100 are here"), "{found:?}");
        let seen = Facts { shown: vec![shows(120, Relation::Longer)], ..unseen.clone() };
        assert!(findings(&seen)[0].what.starts_with("rolled back"));
        let caught_up = Facts { size: 120, evidence: vec![note(Relation::Ours)], ..anchor() };
        assert!(findings(&caught_up)[0].next.contains("doctor --adopt"));
        let member = Facts { anchor: false, ..caught_up };
        assert!(findings(&member)[0].next.starts_with("mv /d/state/evidence"));
    }

    #[test]
    fn only_everybody_without_a_route_beside_a_loopback_that_works_is_the_local_network() {
        let fault = "192.0.2.1:80: connect: No route to host (os error 65)";
        let all = Facts { shown: vec![fails(fault); 3], loopback_works: true, ..anchor() };
        assert_eq!(findings(&all).len(), 1);
        let one_alone = Facts { shown: vec![fails(fault)], ..all.clone() };
        let one_else = Facts { shown: vec![fails(fault), fails("timeout")], ..all.clone() };
        let one_good = Facts {
            shown: vec![fails(fault), fails(fault), shows(9, Relation::Ours)],
            ..all.clone()
        };
        let no_loopback = Facts { loopback_works: false, ..all };
        for facts in [one_alone, one_else, one_good, no_loopback] {
            assert_eq!(findings(&facts), [], "{facts:?}");
        }
    }

    #[test]
    fn a_clock_is_behind_from_the_second_in_which_writes_stop() {
        let at = |wall_s| Facts { wall_s, last_line_s: Some(1_000), ..anchor() };
        assert_eq!(findings(&at(700)), []);
        let found = findings(&at(699));
        assert_eq!((found.len(), found[0].weight), (1, Weight::Finding));
        let accepted = Facts { clock_accepted: true, ..at(0) };
        assert_eq!(findings(&accepted)[0].weight, Weight::Note);
        assert_eq!(findings(&Facts { anchor: false, ..at(0) }), []);
    }
}
