//! Telling each other everything: how a newcomer joins, and how memberlist heals what gossip missed.

use super::super::field::Run;
use super::gossip::{Update, Updates};
use super::setting::{PACKET_BYTES, UPDATE_BYTES};
use super::table::{State, Told};
use super::{Event, PlainSwim};

impl PlainSwim {
    /// Now and then both sides of a random pair tell each other everything.
    pub(super) fn push_pull(&mut self, member: usize, run: &mut Run<Event>) {
        let own = &self.members[member];
        let Some(apart) = self.setting.push_pull_ticks(own.known) else { return };
        // Members take turns, so that not all do it in one period.
        if !(own.periods + member as u64).is_multiple_of(apart) {
            return;
        }
        let other = self.some_others(member, 1, Some(member), run);
        if let Some(other) = other.first() {
            self.tell_all((member, *other), run);
        }
    }

    /// A newcomer asks anybody who is there.
    pub(super) fn join(&mut self, member: usize, run: &mut Run<Event>) {
        let there: Vec<usize> = (0..self.members.len())
            .filter(|other| *other != member && self.members[*other].present)
            .collect();
        if !there.is_empty() {
            let other = there[run.chance.below(there.len() as u64) as usize];
            self.tell_all((member, other), run);
        }
    }

    fn tell_all(&mut self, (member, other): (usize, usize), run: &mut Run<Event>) {
        let bytes = |known: usize| PACKET_BYTES + UPDATE_BYTES * known as u64;
        let sizes = (bytes(self.members[member].known), bytes(self.members[other].known));
        if !self.members[other].present || !run.exchange((member, other), sizes) {
            return;
        }
        let (mine, theirs) = (self.everything(member), self.everything(other));
        mine.into_iter().for_each(|update| self.hear(other, update, run));
        theirs.into_iter().for_each(|update| self.hear(member, update, run));
    }

    /// All a member holds. The dead are told as suspects, so that they may refute (memberlist);
    /// where dead is final there is nothing to refute.
    fn everything(&self, member: usize) -> Updates {
        let told = self.members[member].table.iter().map(|held| match held.told.state {
            State::Dead if !self.setting.dead_is_final => {
                Told { state: State::Suspect, ..held.told }
            }
            _ => held.told,
        });
        told.enumerate()
            .filter(|(_, told)| told.state != State::Unknown)
            .map(|(subject, told)| Update { subject, told })
            .collect()
    }
}
