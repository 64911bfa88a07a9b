//! What members said while nobody serialised, folded in afterwards: the same in every order, and
//! as often as one likes.
//!
//! Each rule here takes the greatest of a set, and a set has no order. What a member may route is
//! decided by native lines and grants alone, whose order the anchor has fixed before: else the
//! branch that comes in first would take a name from the one that comes second.

use super::{Drained, Member, Membership, Registration};
use crate::protocol::member::{Incarnation, Liveness, NodeId, Standing};
use crate::protocol::service::{Service, ServiceName};
use crate::protocol::word::{Digest, Word};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Most words that are remembered beside the one that holds at its incarnation.
pub const RIVALS_MAX: usize = 16;

/// Service → who may offer it.
type Grants = BTreeMap<ServiceName, BTreeSet<NodeId>>;

impl Membership {
    /// A registration from a branch: alive at its own incarnation; what it offers counts where it
    /// is the greatest word. Names to which the node has no right are kept and not routed.
    pub fn merge_register(
        &mut self,
        told: Registration,
        grants: &Grants,
        (digest, seq): (Digest, u64),
    ) {
        let Some(member) = self.spoken(&told.node, seq) else { return };
        let newer = Word::said(told.incarnation, digest) > member.word;
        member.weigh(&told, digest);
        if !newer {
            return;
        }
        // What was doubted is another word's. Which of several came first must not matter, so all
        // of it goes; the next tick asks again.
        member.doubted.clear();
        let standing = Standing { liveness: Liveness::Alive, incarnation: told.incarnation };
        let names = std::mem::take(&mut member.names);
        let may_offer = |service: &Service| match grants.get(&service.name) {
            Some(bound) if !bound.is_empty() => bound.contains(&told.node),
            _ => names.contains(&service.name),
        };
        (member.services, member.withheld) = told.services.into_iter().partition(may_offer);
        member.names = names;
        member.urls = told.urls;
        member.outbound = told.outbound;
        member.registered = true;
        if member.standing.superseded_by(standing) {
            member.stand(standing, seq);
        }
    }

    /// A goodbye from a branch.
    pub fn merge_leave(&mut self, node: &NodeId, incarnation: Incarnation, seq: u64) {
        if self.spoken(node, seq).is_some() {
            self.judge(node, Standing { liveness: Liveness::Left, incarnation }, seq);
        }
    }

    /// A drain from a branch, or the end of one.
    pub fn merge_drain(&mut self, node: &NodeId, drain: Option<Drained>, (word, seq): (Word, u64)) {
        let Some(member) = self.spoken(node, seq).filter(|member| word > member.drain_word) else {
            return;
        };
        member.drain_word = word;
        member.drain = drain;
    }

    /// A member whose word counts. Whose key was revoked says nothing any more.
    fn spoken(&mut self, node: &NodeId, seq: u64) -> Option<&mut Member> {
        let member = self.members.get_mut(node)?;
        member.last_line = seq;
        let speaks = member.enrolled && member.standing.liveness != Liveness::Revoked;
        speaks.then_some(member)
    }
}

impl Member {
    /// What it announced and may not route: names of others, or new ones, which only the anchor
    /// gives away.
    pub fn withheld(&self) -> &[Service] {
        &self.withheld
    }

    /// Digests of what was signed at the incarnation that holds, says something else, and lost.
    pub fn rivals(&self) -> impl Iterator<Item = &Digest> {
        self.rivals.values()
    }

    /// The registration that holds.
    pub fn word(&self) -> Word {
        self.word
    }

    /// The greatest signed drain, or end of one.
    pub fn drain_word(&self) -> Word {
        self.drain_word
    }

    /// Takes the greater of the word held and of this one. At one incarnation the other is kept as
    /// a rival, unless it says the same: a member signs one announcement more than once.
    pub(super) fn weigh(&mut self, told: &Registration, digest: Digest) {
        let word = Word::said(told.incarnation, digest);
        match (word.incarnation.cmp(&self.word.incarnation), self.word.digest) {
            (Ordering::Less, _) => return,
            (Ordering::Greater, _) | (Ordering::Equal, None) => self.rivals.clear(),
            (Ordering::Equal, Some(held)) => {
                let announced: Vec<&Service> = self.services.iter().chain(&self.withheld).collect();
                let ours = content(&self.urls, announced, self.outbound);
                let theirs = content(&told.urls, told.services.iter().collect(), told.outbound);
                let (loser, lost) = if digest > held { (ours, held) } else { (theirs, digest) };
                if ours != theirs {
                    let kept = self.rivals.entry(loser).or_insert(lost);
                    *kept = lost.max(*kept);
                }
                if digest > held {
                    self.rivals.remove(&theirs);
                }
                self.forget_least();
            }
        }
        self.word = self.word.max(word);
    }

    fn forget_least(&mut self) {
        while self.rivals.len() > RIVALS_MAX {
            let least = self.rivals.iter().min_by_key(|(_, digest)| **digest);
            let Some(least) = least.map(|(content, _)| *content) else { return };
            self.rivals.remove(&least);
        }
    }
}

/// What an announcement says, whatever it was signed with and in whichever order it lists.
fn content(urls: &[String], mut services: Vec<&Service>, outbound: bool) -> Digest {
    services.sort_by(|one, two| one.name.cmp(&two.name));
    let said = serde_json::json!([urls, services, outbound]);
    Digest::of(said.to_string().as_bytes())
}
