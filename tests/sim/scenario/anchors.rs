//! Commands about partitions, who serialises, and what comes home afterwards.

use super::stage::Stage;
use crate::lies;
use crowny_fed::cycle::handover::{hand_over, offer};
use crowny_fed::cycle::recovery::{Recovery, recover};
use crowny_fed::error::Failure;
use crowny_fed::protocol::member::NodeId;
use crowny_fed::store::disk::Disk;
use crowny_fed::store::identity::load_key;

/// What an operator was answered, where a command is an operator's.
type Said = Option<Result<(), Failure>>;

impl Stage {
    /// One such command.
    pub(super) fn reorder(&mut self, words: &[&str]) -> Result<Said, String> {
        match words {
            ["part", ids @ ..] => self.part(ids)?,
            ["rejoin"] => self.fed().heal_links(),
            ["wake", id] => self.host(id)?.serve(true),
            ["replay", by, whom] => self.replay(by, whom)?,
            ["count", "anew"] => self.fed().count_anew(),
            ["handover", from, to] => return self.hand(from, to).map(Some),
            ["recover", id, how @ ..] => return self.recover(id, !how.is_empty()).map(Some),
            _ => return Err("no such command".to_owned()),
        }
        Ok(None)
    }

    /// Those named on one side, everybody else on the other.
    fn part(&mut self, ids: &[&str]) -> Result<(), String> {
        let side: Vec<usize> = ids.iter().map(|id| self.at(id)).collect::<Result<_, _>>()?;
        let federation = self.fed();
        for (one, here) in federation.members.iter().enumerate() {
            for (other, there) in federation.members.iter().enumerate() {
                let carries = side.contains(&one) == side.contains(&other);
                federation.world.link(here.host.name(), there.host.name(), carries);
            }
        }
        Ok(())
    }

    /// One member brings what another once said to the anchor, as if out of a branch.
    fn replay(&mut self, by: &str, whom: &str) -> Result<(), String> {
        let host = self.host(by)?;
        let whom = NodeId::parse(whom).map_err(|error| error.to_string())?;
        let federation = self.fed();
        let (said, anchor) =
            (federation.history.said_by(&whom), federation.members[0].agent.clone());
        let told = lies::replays(&host, &said, &anchor).unwrap_or_default();
        self.told.push(format!("{by} is answered {told}"));
        Ok(())
    }

    fn hand(&mut self, from: &str, to: &str) -> Result<Result<(), Failure>, String> {
        let (from, to) = (self.host(from)?, self.host(to)?);
        let offered = offer(&to, &to.config());
        Ok(offered.and_then(|text| hand_over(&from, &from.config(), (&text, false)).map(drop)))
    }

    /// With the key that the founder made. Forced, it is done although another anchor writes: until
    /// they are one again nothing of the one history is checked.
    fn recover(&mut self, id: &str, force: bool) -> Result<Result<(), Failure>, String> {
        let (founder, host) = (self.fed().members[0].host.clone(), self.host(id)?);
        let layout = founder.config().layout;
        let key = load_key(&Disk { host: &founder, layout: &layout }, "recovery");
        let key = key.map_err(|failure| failure.message)?;
        self.fed().two_histories |= force;
        let asked = Recovery { key, urls: Vec::new(), force, progress: &|_, _| {} };
        Ok(recover(&host, &host.config(), &asked).map(drop))
    }
}
