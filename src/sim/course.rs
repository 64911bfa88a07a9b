//! What happens to the members of a run: who is silent, cut off, gone or new, and when. Packets
//! that get lost are the run's own chance.
//!
//! The course depends on the plan and the seed alone, never on the protocol, so that two protocols
//! under one seed meet the same misfortune.

use super::chance::Chance;
use super::moment::Moment;

/// Most members of a run: every one holds a view of every other.
pub const MEMBERS_MAX: usize = 2_000;
/// Most ticks of a run.
pub const TICKS_MAX: u64 = 1_000_000;
/// Loss is counted in parts of this.
pub const WHOLE: u64 = 1_000_000;
/// Ticks at the start in which nothing happens, so that phases and probe orders have settled.
pub const QUIET_TICKS: u64 = 10;

/// `D:I:C`: silence of `ticks`, `apart` ticks from the end of one to the start of the next, of
/// `members` at once. The same members each time, as in Lifeguard's interval runs; `apart` 0 means
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// How long a member executes nothing and answers nothing.
    pub ticks: u64,
    /// From the end of one silence to the start of the next.
    pub apart: u64,
    /// How many at once.
    pub members: usize,
}

impl Pause {
    /// Reads `D:I:C`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no D:I:C (ticks of silence, ticks apart, members)");
        let parts: Vec<&str> = text.split(':').collect();
        let [ticks, apart, members] = parts[..] else { return Err(wrong()) };
        let number = |part: &str| part.parse::<u64>().map_err(|_| wrong());
        let pause = Pause {
            ticks: number(ticks)?,
            apart: number(apart)?,
            members: usize::try_from(number(members)?).map_err(|_| wrong())?,
        };
        if pause.ticks.max(pause.apart) > TICKS_MAX {
            return Err(format!("'{text}' is longer than any run, at most {TICKS_MAX} ticks"));
        }
        if pause.ticks == 0 || pause.members == 0 {
            return Err(format!("'{text}' pauses nobody, expected D and C of 1 or more"));
        }
        Ok(pause)
    }
}

impl Pause {
    /// The end of the spell that `at` lies in.
    fn until(&self, at: Moment) -> Option<Moment> {
        let since = at.tick().checked_sub(QUIET_TICKS)?;
        let cycle = self.ticks + self.apart;
        let nth = if self.apart == 0 { 0 } else { since / cycle };
        let end = QUIET_TICKS + nth * cycle + self.ticks;
        (at.tick() < end).then(|| Moment::of_tick(end))
    }
}

/// `A:B@T1-T2`: nothing passes between two sides for a while. Members of neither reach both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// First and last member of the first side.
    pub first: (usize, usize),
    /// First and last member of the second side, which counts as the one in trouble.
    pub second: (usize, usize),
    /// First tick of it.
    pub from_tick: u64,
    /// First tick after it.
    pub to_tick: u64,
}

impl Split {
    /// Reads `A:B@T1-T2`; a side is a count, taken from 0 upwards and side after side, or a range
    /// of members `0-2`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no A:B@T1-T2 (sides by count or range, ticks)");
        let (sides, ticks) = text.split_once('@').ok_or_else(wrong)?;
        let (first, second) = sides.split_once(':').ok_or_else(wrong)?;
        let first = side(first, 0).ok_or_else(wrong)?;
        let second = side(second, first.1 + 1).ok_or_else(wrong)?;
        let (from_tick, to_tick) = range(ticks).ok_or_else(wrong)?;
        if first.1 >= second.0 && second.1 >= first.0 {
            return Err(format!("'{text}' has members on both sides"));
        }
        if from_tick >= to_tick {
            return Err(format!("'{text}' ends before it begins"));
        }
        Ok(Split { first, second, from_tick, to_tick })
    }

    fn cuts(&self, a: usize, b: usize, tick: u64) -> bool {
        let within = |side: (usize, usize), member| side.0 <= member && member <= side.1;
        let between = |a, b| within(self.first, a) && within(self.second, b);
        self.from_tick <= tick && tick < self.to_tick && (between(a, b) || between(b, a))
    }
}

fn side(text: &str, from: usize) -> Option<(usize, usize)> {
    if text.contains('-') {
        let (first, last) = range(text)?;
        let side = (usize::try_from(first).ok()?, usize::try_from(last).ok()?);
        return (side.0 <= side.1 && side.1 < MEMBERS_MAX).then_some(side);
    }
    let count: usize = text.parse().ok()?;
    (1..=MEMBERS_MAX).contains(&count).then(|| (from, from + count - 1))
}

fn range(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// `C@T`: members that die for good, picked by the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// How many.
    pub members: usize,
    /// At the start of which tick.
    pub tick: u64,
}

impl Crash {
    /// Reads `C@T`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is no C@T (members, tick)");
        let (members, tick) = text.split_once('@').ok_or_else(wrong)?;
        let members: usize = members.parse().map_err(|_| wrong())?;
        if members == 0 {
            return Err(format!("'{text}' crashes nobody, expected 1 or more"));
        }
        Ok(Crash { members, tick: tick.parse().map_err(|_| wrong())? })
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Members, the anchor (number 0) included.
    pub members: usize,
    /// Length of the run.
    pub ticks: u64,
    /// Lost packets (of an exchange over TCP: lost exchanges) in [`WHOLE`].
    pub loss: u64,
    /// Silences: members execute nothing.
    pub pause: Option<Pause>,
    /// Deafness: members go on executing, and nothing reaches them or leaves them.
    pub deaf: Option<Pause>,
    /// A partition.
    pub split: Option<Split>,
    /// Deaths.
    pub crash: Option<Crash>,
    /// Members come one after another, so many ticks apart; otherwise all know all from the start.
    pub join_apart: Option<u64>,
}

impl Plan {
    /// A run in which nothing happens.
    pub fn quiet(members: usize, ticks: u64) -> Self {
        Plan {
            members,
            ticks,
            loss: 0,
            pause: None,
            deaf: None,
            split: None,
            crash: None,
            join_apart: None,
        }
    }

    /// Refuses nonsense with the reason.
    pub fn checked(self) -> Result<Self, String> {
        if !(2..=MEMBERS_MAX).contains(&self.members) {
            return Err(format!("{} nodes, expected 2 to {MEMBERS_MAX}", self.members));
        }
        if !(1..=TICKS_MAX).contains(&self.ticks) {
            return Err(format!("{} ticks, expected 1 to {TICKS_MAX}", self.ticks));
        }
        let struck = self.pause.map_or(0, |pause| pause.members)
            + self.deaf.map_or(0, |deaf| deaf.members)
            + self.crash.map_or(0, |crash| crash.members);
        if struck > self.members - 1 {
            return Err(format!("{struck} of {} nodes struck, nobody left", self.members));
        }
        let last = self.split.map_or(0, |split| split.first.1.max(split.second.1));
        if last >= self.members {
            return Err(format!("the partition names node {last}, there are {}", self.members));
        }
        Ok(self)
    }
}

/// One misfortune of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Whom it strikes.
    pub member: usize,
    /// When.
    pub start: Moment,
    /// When it is over; `None` for a crash.
    pub end: Option<Moment>,
}

/// A plan with its victims.
#[derive(Clone, Debug)]
pub struct Course {
    plan: Plan,
    /// Per member: whether pauses strike it, and whether deafness does.
    paused: Vec<bool>,
    deaf: Vec<bool>,
    /// Per member: when it dies.
    dies: Vec<Option<Moment>>,
}

impl Course {
    /// Picks the victims.
    pub fn new(plan: Plan, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..plan.members).collect();
        Chance::new(seed ^ 0x636f_7572_7365).shuffle(&mut order);
        let mut victims = order.into_iter();
        let mut struck = |pause: Option<Pause>| {
            let mut struck = vec![false; plan.members];
            for member in victims.by_ref().take(pause.map_or(0, |pause| pause.members)) {
                struck[member] = true;
            }
            struck
        };
        let (paused, deaf) = (struck(plan.pause), struck(plan.deaf));
        let mut dies = vec![None; plan.members];
        if let Some(crash) = plan.crash {
            for member in victims.take(crash.members) {
                dies[member] = Some(Moment::of_tick(crash.tick));
            }
        }
        Course { plan, paused, deaf, dies }
    }

    /// The plan it came from.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// When a member enters.
    pub fn enters(&self, member: usize) -> Moment {
        Moment::of_tick(self.plan.join_apart.map_or(0, |apart| apart * member as u64))
    }

    /// Whether a member is there at all.
    pub fn is_up(&self, member: usize, at: Moment) -> bool {
        self.enters(member) <= at && self.dies[member].is_none_or(|dies| at < dies)
    }

    /// Until when a member is silent, if it is.
    pub fn paused_until(&self, member: usize, at: Moment) -> Option<Moment> {
        self.plan.pause.filter(|_| self.paused[member])?.until(at)
    }

    /// Whether packets pass between two members.
    pub fn connects(&self, from: usize, to: usize, at: Moment) -> bool {
        let deaf = |member: usize| {
            let deaf = self.plan.deaf.filter(|_| self.deaf[member]);
            deaf.is_some_and(|deaf| deaf.until(at).is_some())
        };
        let cut = self.plan.split.is_some_and(|split| split.cuts(from, to, at.tick()));
        !cut && !deaf(from) && !deaf(to)
    }

    /// Whether nothing ever befalls a member in this run: verdicts on it are false, and its own
    /// are those of a healthy member.
    pub fn is_healthy(&self, member: usize) -> bool {
        let cut = |split: Split| split.second.0 <= member && member <= split.second.1;
        !self.paused[member]
            && !self.deaf[member]
            && self.dies[member].is_none()
            && !self.plan.split.is_some_and(cut)
    }

    /// Every misfortune that should be noticed, by its start.
    pub fn anomalies(&self) -> Vec<Anomaly> {
        let mut all: Vec<Anomaly> = (0..self.plan.members)
            .flat_map(|member| {
                let pauses = self.plan.pause.filter(|_| self.paused[member]);
                let deaf = self.plan.deaf.filter(|_| self.deaf[member]);
                let spells = pauses.into_iter().chain(deaf);
                spells.flat_map(move |spell| self.spells(spell, member)).chain(self.crash(member))
            })
            .collect();
        all.sort_by_key(|anomaly| (anomaly.start, anomaly.member));
        all
    }

    /// Those that end before the run does: of others nobody knows whether they would be noticed.
    fn spells(&self, spell: Pause, member: usize) -> impl Iterator<Item = Anomaly> + use<> {
        let most = if spell.apart == 0 { 1 } else { usize::MAX };
        let cycle = usize::try_from(spell.ticks + spell.apart).unwrap_or(usize::MAX);
        let last = (self.plan.ticks + 1).saturating_sub(spell.ticks);
        (QUIET_TICKS..last).step_by(cycle).take(most).map(move |start| Anomaly {
            member,
            start: Moment::of_tick(start),
            end: Some(Moment::of_tick(start + spell.ticks)),
        })
    }

    fn crash(&self, member: usize) -> Option<Anomaly> {
        self.dies[member].map(|start| Anomaly { member, start, end: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_in_one_spelling_and_nonsense_is_named() {
        let pause = Pause { ticks: 8, apart: 4, members: 2 };
        assert_eq!(Pause::parse("8:4:2"), Ok(pause));
        for bad in ["", "8", "8:4", "8:4:2:1", "a:4:2", "0:4:2", "8:4:0", "8:-4:2"] {
            assert!(Pause::parse(bad).is_err(), "{bad}");
        }
        let by_count = Split::parse("3:2@10-20").unwrap();
        assert_eq!(by_count, Split::parse("0-2:3-4@10-20").unwrap());
        for bad in ["3:2", "3@10-20", "3:2@20-10", "0-3:2-4@1-2", "0:2@1-2", "3:9999@1-2"] {
            assert!(Split::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Crash::parse("2@30"), Ok(Crash { members: 2, tick: 30 }));
        assert!(Crash::parse("0@3").is_err() && Crash::parse("3").is_err());
    }

    #[test]
    fn a_pause_comes_again_and_strikes_the_same_members() {
        let pause = Some(Pause { ticks: 4, apart: 2, members: 2 });
        let course = Course::new(Plan { pause, ..Plan::quiet(8, 40) }, 3);
        let victims: Vec<usize> = (0..8).filter(|member| !course.is_healthy(*member)).collect();
        assert_eq!(victims.len(), 2);
        let silent: Vec<u64> = (0..30)
            .filter(|tick| course.paused_until(victims[0], Moment::of_tick(*tick)).is_some())
            .collect();
        assert_eq!(silent[..8], [10, 11, 12, 13, 16, 17, 18, 19]);
        let starts: Vec<u64> =
            course.anomalies().iter().map(|anomaly| anomaly.start.tick()).collect();
        assert_eq!(starts, [10, 10, 16, 16, 22, 22, 28, 28, 34, 34]);
    }

    #[test]
    fn a_partition_cuts_both_ways_and_ends() {
        let split = Some(Split::parse("2:1@5-9").unwrap());
        let course = Course::new(Plan { split, ..Plan::quiet(4, 40) }, 3);
        let open = |from, to, tick| course.connects(from, to, Moment::of_tick(tick));
        assert!(!open(0, 2, 5) && !open(2, 1, 8));
        assert!(open(0, 2, 9) && open(0, 1, 5) && open(3, 2, 5));
        assert!(course.is_healthy(0) && !course.is_healthy(2));
    }
}
