//! What is really so: who stood and could be reached while the anchor looked.

use super::{Federation, Member, STRANGER};
use crowny_fed::cycle::tick::Report;
use crowny_fed::journal::line::Line;
use crowny_fed::journal::record::Record;
use crowny_fed::protocol::blind::Pulse;
use crowny_fed::protocol::member::{Liveness, NodeId};
use crowny_fed::sim::world::Weather;

/// Whom the anchor heard in its last finished tick.
#[derive(Default)]
pub(super) struct Truth {
    heard: Vec<NodeId>,
}

impl Federation {
    /// Members that answer whatever the anchor asks in this tick.
    pub(super) fn sound(&self) -> Vec<NodeId> {
        if self.weather != Weather::default() {
            return Vec::new();
        }
        let sound = self.members[1..].iter().filter(|member| self.is_sound(member));
        sound.map(|member| member.id.clone()).collect()
    }

    /// Whether the anchor hears nobody at all, though there are enough to tell that by.
    pub(super) fn is_cut_off(&self) -> bool {
        let anchor = self.members[0].host.name();
        let mut others: Vec<String> =
            self.members[1..].iter().map(|member| member.host.name().to_owned()).collect();
        let known = others.len() + self.rows.len();
        others.extend(self.rows.iter().map(|row| format!("row{row}")));
        others.push(STRANGER.to_owned());
        known >= 3 && others.iter().all(|other| !self.world.is_open(anchor, other))
    }

    fn is_sound(&self, member: &Member) -> bool {
        let (anchor, machine) = (self.members[0].host.name(), member.host.name());
        member.host.answers()
            && !member.lies
            && !member.left
            && member.announced
            && member.host.disk(|disk| disk.is_untroubled())
            && self.world.is_open(anchor, machine)
    }
}

impl Truth {
    /// Nobody who stood and could be reached is doubted, and nobody who was heard a tick ago is
    /// withdrawn; a tick that cannot trust its ears takes nothing away.
    pub(super) fn judged_fairly(
        &mut self,
        seed: u64,
        new: &[Vec<u8>],
        (sound, cut_off, report): (&[NodeId], bool, Option<&Report>),
    ) {
        let fair =
            report.is_none_or(|report| !report.decision.blind && report.pulse != Pulse::Grace);
        for line in new {
            let Record::Verdict(verdict) = Record::of(&Line::parse(line).unwrap()) else {
                continue;
            };
            let own = verdict.node.as_str() == "n1";
            if verdict.to == Liveness::Alive || own {
                continue;
            }
            let accepted = report.is_some_and(|report| report.decision.losses_accepted);
            assert!(!cut_off || accepted, "SEED={seed}: it hears nobody and accuses: {verdict:?}");
            assert!(fair, "SEED={seed}: a blind or waking tick accuses: {verdict:?}");
            if verdict.service.is_some() {
                continue;
            }
            let stood = sound.contains(&verdict.node);
            assert!(!stood, "SEED={seed}: {} stood and is doubted: {verdict:?}", verdict.node);
            let heard = verdict.to == Liveness::Dead && self.heard.contains(&verdict.node);
            assert!(!heard, "SEED={seed}: {} was heard and is buried", verdict.node);
        }
        if report.is_some() {
            self.heard = sound.to_vec();
        }
    }
}
