//! Updates on their way: each is passed on a limited number of times, the least passed first.

use super::setting::UPDATES_MAX;
use super::table::Told;

/// One statement about one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// About whom.
    pub subject: usize,
    /// What.
    pub told: Told,
}

/// The updates one packet carries.
pub type Updates = Vec<Update>;

/// What one member still has to pass on.
#[derive(Clone, Debug, Default)]
pub struct Gossip {
    waiting: Vec<(u32, Update)>,
}

impl Gossip {
    /// Takes an update in; it replaces an older one about the same member.
    pub fn add(&mut self, update: Update) {
        self.waiting.retain(|(_, older)| older.subject != update.subject);
        self.waiting.push((0, update));
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Up to six for one packet; those passed on `times_max` times are dropped.
    pub fn pick(&mut self, times_max: u32) -> Updates {
        if self.waiting.is_empty() {
            return Updates::new();
        }
        self.waiting.sort_by_key(|(times, _)| *times);
        let picked = self.waiting.iter_mut().take(UPDATES_MAX);
        let updates = picked
            .map(|(times, update)| {
                *times += 1;
                *update
            })
            .collect();
        self.waiting.retain(|(times, _)| *times < times_max);
        updates
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::State;
    use super::*;

    fn update(subject: usize) -> Update {
        Update { subject, told: Told { state: State::Suspect, incarnation: 1 } }
    }

    #[test]
    fn the_least_passed_go_first_and_all_end() {
        let mut gossip = Gossip::default();
        (0..8).for_each(|subject| gossip.add(update(subject)));
        assert_eq!(gossip.pick(2).len(), 6);
        let second: Vec<usize> = gossip.pick(2).iter().map(|update| update.subject).collect();
        assert!(second.contains(&6) && second.contains(&7));
        while !gossip.is_empty() {
            assert!(!gossip.pick(2).is_empty());
        }
        gossip.add(update(1));
        gossip.add(update(1));
        assert_eq!(gossip.pick(2).len(), 1);
    }
}
