//! Mishaps, drawn from the seed, and their end.

use super::{Federation, STRANGER, row_at};
use crate::lies;
use crowny_fed::cycle::speaking::Word;
use crowny_fed::sim::disk::FAULTS;
use crowny_fed::sim::world::{Place, Weather};

/// Largest step of the anchor's own clock: beyond 300 s it would refuse all signed writes, rightly.
const ANCHOR_STEP_MS_MAX: u64 = 140_000;

impl Federation {
    fn pick(&self, bound: usize) -> usize {
        usize::try_from(self.world.below(bound as u64)).unwrap()
    }

    /// One mishap, or none.
    pub fn trouble(&mut self) {
        match self.pick(20) {
            0..3 => self.trouble_a_link(),
            3 => self.trouble_the_weather(),
            4..8 => self.trouble_a_machine(),
            8..11 => self.trouble_a_disk(),
            11 => self.trouble_a_clock(),
            12 => self.trouble_a_gateway(),
            13 => self.trouble_a_row(),
            14 => self.trouble_an_address(),
            15 => self.trouble_with_lies(),
            16 => self.trouble_by_a_word(),
            _ => {}
        }
    }

    fn trouble_a_link(&mut self) {
        let (from, to) = (self.pick(self.members.len()), self.pick(self.members.len()));
        let name = |at: usize| self.members[at].host.name().to_owned();
        match self.pick(5) {
            3 => {
                // One machine without a network.
                let rows = (1..=4).map(|row| format!("row{row}"));
                let members = (0..self.members.len()).filter(|at| *at != from).map(name);
                let all = members.chain(rows).chain([STRANGER.to_owned()]);
                all.for_each(|to| self.world.link(&name(from), &to, false));
            }
            0 => self.world.link(&name(from), &name(to), false),
            1 => self.world.allow(&name(from), &name(to), false),
            2 => {
                // A partition: all below one number on one side.
                for one in 0..self.members.len() {
                    for other in one + 1..self.members.len() {
                        let carries = (one < from) == (other < from);
                        self.world.link(&name(one), &name(other), carries);
                    }
                }
            }
            _ => self.heal_links(),
        }
    }

    fn trouble_the_weather(&mut self) {
        let weather = Weather {
            lost: self.world.below(300),
            unanswered: self.world.below(150),
            doubled: self.world.below(500),
            late: self.world.below(150),
            delay_ms: self.world.below(4_000),
        };
        let calm = self.pick(3) == 0;
        self.weather(if calm { Weather::default() } else { weather });
    }

    fn trouble_a_machine(&mut self) {
        let host = &self.members[self.pick(self.members.len())].host;
        match self.pick(6) {
            0 => host.pause(true),
            1 => host.pause(false),
            2 => host.serve(false),
            3 => host.serve(true),
            4 => host.reboot(true),
            _ => host.step_boot_clock(self.world.below(40) * 600_000),
        }
    }

    fn trouble_a_disk(&mut self) {
        let host = &self.members[self.pick(self.members.len())].host;
        let fault = FAULTS[self.pick(FAULTS.len())];
        let (after, fill) = (self.world.below(30), self.pick(8));
        host.disk(|disk| match fill {
            0 => disk.fill(true),
            1 => disk.fill(false),
            _ => disk.plan(after, fault),
        });
    }

    fn trouble_a_clock(&mut self) {
        let at = self.pick(self.members.len());
        let most = if at == 0 { ANCHOR_STEP_MS_MAX } else { 90_000_000 };
        let off = i64::try_from(self.world.below(2 * most)).unwrap() - most as i64;
        self.members[at].host.set_clock_off(off);
    }

    fn trouble_a_gateway(&mut self) {
        let member = &self.members[self.pick(self.members.len())];
        let machine = member.host.name().to_owned();
        match self.pick(3) {
            0 => self.world.vacate(&member.gateway),
            1 => self.world.place(&member.gateway, Place::Front { machine, status: 502 }),
            _ => self.world.place(&member.gateway, Place::Front { machine, status: 200 }),
        }
    }

    fn trouble_a_row(&mut self) {
        let mut rows = self.rows.clone();
        match self.pick(4) {
            0 if rows.len() > 1 => {
                rows.remove(self.pick(rows.len()));
                self.list(&rows);
            }
            1 if rows.len() < 4 => {
                rows.push(rows.iter().max().unwrap_or(&0) + 1);
                self.list(&rows);
            }
            2 => rows.iter().for_each(|row| self.world.vacate(&row_at(*row))),
            _ => self.list(&rows),
        }
    }

    fn trouble_an_address(&mut self) {
        let at = 1 + self.pick(self.members.len() - 1);
        let (part, stranger) = (self.world.below(200), self.pick(2) == 0);
        let agent = format!("10.3.{part}.{}:9160", at + 1);
        if agent != self.members[at].agent && !self.members[at].left {
            let _ = self.move_to(at, &agent, stranger);
        }
    }

    fn trouble_with_lies(&mut self) {
        let at = 1 + self.pick(self.members.len() - 1);
        if self.pick(3) == 0 {
            self.members[at].lies = false;
            self.members[at].host.twist(None);
        } else {
            self.members[at].lies = true;
            self.members[at].host.twist(Some(lies::answers(self.world.below(5))));
        }
    }

    fn trouble_by_a_word(&mut self) {
        let at = 1 + self.pick(self.members.len() - 1);
        match self.pick(4) {
            0 if self.members.iter().filter(|member| member.left).count() == 0 => {
                self.members[at].left = self.say(at, &Word::Leave).is_ok();
            }
            1 => {
                let _ = self.say(at, &Word::Drain { on: true, for_s: None });
            }
            2 => {
                let _ = self.say(at, &Word::Drain { on: false, for_s: None });
            }
            _ => {
                let _ = self.announce(at);
            }
        }
    }

    /// All links carry again, both ways.
    pub fn heal_links(&self) {
        for from in &self.members {
            for to in &self.members {
                self.world.link(from.host.name(), to.host.name(), true);
                self.world.allow(from.host.name(), to.host.name(), true);
            }
            let rows = (1..=4).map(|row| format!("row{row}"));
            let others = rows.chain([STRANGER.to_owned()]);
            others.for_each(|to| self.world.link(from.host.name(), &to, true));
        }
    }

    /// A process that was killed is started again, on the same boot or after a power cut.
    pub fn restart_killed(&mut self) {
        for at in 0..self.members.len() {
            let host = self.members[at].host.clone();
            if !host.disk(|disk| disk.was_killed()) {
                continue;
            }
            match self.pick(3) {
                0 => host.reboot(true),
                1 => host.reboot(false),
                _ => host.disk(|disk| disk.restart()),
            }
        }
    }

    /// All mishaps over: whatever does not mend itself from here on is broken.
    pub fn heal(&mut self) {
        self.heal_links();
        self.weather(Weather::default());
        for at in 0..self.members.len() {
            let member = &mut self.members[at];
            member.lies = false;
            let host = member.host.clone();
            host.twist(None);
            host.pause(false);
            host.serve(true);
            host.set_clock_off(0);
            host.disk(|disk| {
                disk.fill(false);
                disk.restart();
            });
            let machine = host.name().to_owned();
            self.world.place(&member.gateway, Place::Front { machine, status: 200 });
            // Whoever moved says so until it is heard, as an operator would.
            if !self.members[at].announced && !self.members[at].left {
                let _ = self.announce(at);
            }
        }
        let rows = self.rows.clone();
        self.list(&rows);
    }
}
