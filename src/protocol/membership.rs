//! The table of members: what the fold of the journal knows about everybody.

mod merging;

pub use merging::RIVALS_MAX;

use super::address::Host;
use super::member::{Incarnation, Liveness, NodeId, Standing};
use super::roster::{RosterChange, Row};
use super::service::{Service, ServiceName};
use super::word::{Digest, Word};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One member as the journal tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Incarnation and liveness.
    pub standing: Standing,
    /// Holds a key; its lines are its own. Otherwise a keyless roster row.
    pub enrolled: bool,
    /// The roster row, for keyless members.
    pub row: Option<Row>,
    /// Where its agent answers, for keyed members, tried in turn.
    pub urls: Vec<String>,
    /// What it offers, for keyed members.
    pub services: Vec<Service>,
    /// Which registration these are of.
    word: Word,
    /// Of the same incarnation, saying something else: what each says → its greatest digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rivals: BTreeMap<Digest, Digest>,
    /// Names that it registered last with the anchor, and nobody else since.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    names: BTreeSet<ServiceName>,
    /// Announced in a branch without a right to the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    withheld: Vec<Service>,
    /// `seq` of the line that last changed its standing.
    pub changed_at: u64,
    /// `seq` of the line that declared it dead, while it is.
    pub died_at: Option<u64>,
    /// Asked to be given no new traffic: until that second, or until it says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drained>,
    /// The greatest of its drains.
    drain_word: Word,
    /// Nobody can dial it: it lives by its own observations.
    #[serde(default)]
    pub outbound: bool,
    /// Services that were doubted while the node was not, and since which line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub doubted: BTreeMap<ServiceName, Doubt>,
    /// Dead for so long that it no longer counts; still dialled from time to time.
    #[serde(default)]
    pub reaped: bool,
    /// Whether it has registered since its key was enrolled.
    pub registered: bool,
    /// `seq` of the newest line about it.
    pub last_line: u64,
}

impl Member {
    fn new(enrolled: bool, seq: u64) -> Self {
        Member {
            standing: Standing { liveness: Liveness::Alive, incarnation: Incarnation::FIRST },
            enrolled,
            row: None,
            urls: Vec::new(),
            services: Vec::new(),
            word: Word::default(),
            rivals: BTreeMap::new(),
            names: BTreeSet::new(),
            withheld: Vec::new(),
            changed_at: seq,
            died_at: None,
            drain: None,
            drain_word: Word::default(),
            outbound: false,
            doubted: BTreeMap::new(),
            reaped: false,
            registered: false,
            last_line: seq,
        }
    }

    /// What this member would be routed under: a roster row's role while it is `active`, a keyed
    /// member's registered services.
    pub fn offers(&self) -> Vec<Service> {
        let Some(row) = &self.row else {
            return self.services.clone();
        };
        let (Ok(name), Ok(address)) = (ServiceName::parse(&row.role), row.address()) else {
            return Vec::new();
        };
        // A zone means something on one machine only, and the map is for all.
        if !row.is_active() || matches!(address.host, Host::Zoned { .. }) {
            return Vec::new();
        }
        vec![Service { name, url: address.url(""), weight: 1, check: None, expect: None }]
    }

    /// How alive one of its services is: the worse of the node and the service.
    pub fn liveness_of(&self, service: &ServiceName) -> Liveness {
        let doubt = self.doubted.get(service).map_or(Liveness::Alive, |doubt| doubt.liveness);
        self.standing.liveness.max(doubt)
    }

    /// `seq` of the line since which one of its services is dead.
    pub fn service_died_at(&self, service: &ServiceName) -> Option<u64> {
        let doubt = self.doubted.get(service).filter(|doubt| doubt.liveness == Liveness::Dead);
        self.died_at.max(doubt.map(|doubt| doubt.since))
    }

    /// Where it answered, what it offered, and what was said of that.
    fn forget_offers(&mut self) {
        self.urls.clear();
        self.services.clear();
        self.withheld.clear();
        self.names.clear();
        self.doubted.clear();
        self.outbound = false;
        self.drain = None;
        self.drain_word = Word::awaited(self.standing.incarnation);
    }

    fn stand(&mut self, standing: Standing, seq: u64) {
        self.reaped = self.reaped && standing.liveness == Liveness::Dead;
        self.standing = standing;
        self.changed_at = seq;
        self.died_at = (standing.liveness == Liveness::Dead).then_some(seq);
    }
}

/// Doubt about one service of a node that is not doubted itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubt {
    /// Suspect or dead.
    pub liveness: Liveness,
    /// `seq` of the line that says so.
    pub since: u64,
}

/// How long a member drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drained {
    /// Until it takes that back.
    Open,
    /// Until this second since 1970.
    Until(u64),
}

impl Drained {
    /// Whether it still drains.
    pub fn holds_at(self, now_s: u64) -> bool {
        match self {
            Drained::Open => true,
            Drained::Until(end_s) => now_s < end_s,
        }
    }
}

/// What a signed registration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Who.
    pub node: NodeId,
    /// At which incarnation; `register` is SWIM's alive message.
    pub incarnation: Incarnation,
    /// Where its agent answers.
    pub urls: Vec<String>,
    /// What it offers.
    pub services: Vec<Service>,
    /// Whether nobody can dial it.
    pub outbound: bool,
}

/// All members, ordered by id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Membership {
    members: BTreeMap<NodeId, Member>,
}

impl Membership {
    /// One member.
    pub fn member(&self, id: &NodeId) -> Option<&Member> {
        self.members.get(id)
    }

    /// All members, by id.
    pub fn members(&self) -> impl Iterator<Item = (&NodeId, &Member)> {
        self.members.iter()
    }

    /// Members and rows that are neither gone nor revoked: the `n` of the suspicion formula.
    pub fn present(&self) -> usize {
        let gone = [Liveness::Left, Liveness::Revoked];
        let counts = |member: &&Member| !gone.contains(&member.standing.liveness) && !member.reaped;
        self.members.values().filter(counts).count()
    }

    /// Nodes and rows alive or suspect: the `n` of law 6.
    pub fn routable(&self) -> usize {
        self.members.values().filter(|member| member.standing.liveness.is_routable()).count()
    }

    /// A key was enrolled for `node`. A row of the same name becomes that member; a revoked one
    /// begins anew above its old incarnation, which only a new key may do. Who was not routed is not
    /// again before it registers: what it offered was another key's word.
    pub fn enrol(&mut self, node: &NodeId, seq: u64) {
        let member = self.members.entry(node.clone()).or_insert_with(|| Member::new(true, seq));
        member.last_line = seq;
        member.enrolled = true;
        member.registered = false;
        member.row = None;
        if !member.standing.liveness.is_routable() {
            let incarnation = member.standing.incarnation.raised();
            member.stand(Standing { liveness: Liveness::Alive, incarnation }, seq);
            member.forget_offers();
        }
        // What was signed before, and below where it stands, is of another time.
        member.word = Word::awaited(member.standing.incarnation);
        member.rivals.clear();
    }

    /// A member spoke for itself: alive at its own incarnation, with what it offers now. For models,
    /// and for decisions ahead of the line: no signed text is at hand.
    pub fn register(&mut self, told: Registration, seq: u64) {
        self.register_signed(told, (Digest::LEAST, seq));
    }

    /// The same of a line, whose payload has this digest.
    pub fn register_signed(&mut self, told: Registration, (digest, seq): (Digest, u64)) {
        let member =
            self.members.entry(told.node.clone()).or_insert_with(|| Member::new(true, seq));
        member.last_line = seq;
        let standing = Standing { liveness: Liveness::Alive, incarnation: told.incarnation };
        if member.standing.liveness == Liveness::Revoked
            || told.incarnation < member.standing.incarnation
        {
            return;
        }
        let newer = Word::said(told.incarnation, digest) > member.word;
        member.weigh(&told, digest);
        if !newer {
            return;
        }
        member.urls = told.urls;
        let before = std::mem::replace(&mut member.services, told.services);
        member.withheld.clear();
        member.outbound = told.outbound;
        // Doubt was about a service where it was: elsewhere it is another.
        let stays = |name: &ServiceName| {
            let held = before.iter().find(|service| service.name == *name);
            member.services.iter().any(|now| held.is_some_and(|held| *now == *held))
        };
        member.doubted.retain(|name, _| stays(name));
        member.registered = true;
        if member.standing.superseded_by(standing) {
            member.stand(standing, seq);
        }
        let names = member.services.iter().map(|service| service.name.clone()).collect();
        self.name(&told.node, names);
    }

    /// The anchor gave these names to a member: whoever had one of them before has left it.
    fn name(&mut self, node: &NodeId, names: BTreeSet<ServiceName>) {
        let Some(member) = self.members.get_mut(node) else { return };
        let before = std::mem::replace(&mut member.names, names.clone());
        for new in names.difference(&before) {
            for (_, other) in self.members.iter_mut().filter(|(id, _)| *id != node) {
                other.names.remove(new);
            }
        }
    }

    /// A member asked to be drained, or took that back: what it tells the anchor holds in the order
    /// of lines.
    pub fn drain(&mut self, node: &NodeId, drain: Option<Drained>, (word, seq): (Word, u64)) {
        if let Some(member) = self.members.get_mut(node) {
            member.last_line = seq;
            member.drain = drain;
            member.drain_word = member.drain_word.max(word);
        }
    }

    /// The roster changed.
    pub fn list(&mut self, change: RosterChange, seq: u64) {
        let member = self.members.entry(change.node).or_insert_with(|| Member::new(false, seq));
        member.last_line = seq;
        if member.enrolled {
            return;
        }
        let liveness = if change.row.is_some() { Liveness::Alive } else { Liveness::Left };
        let standing = Standing { liveness, incarnation: change.incarnation };
        if change.row.is_some() {
            member.row = change.row;
        }
        if member.standing.superseded_by(standing) {
            member.stand(standing, seq);
        }
    }

    /// The anchor judged one service of a node.
    pub fn judge_service(
        &mut self,
        node: &NodeId,
        service: &ServiceName,
        (liveness, seq): (Liveness, u64),
    ) {
        let Some(member) = self.members.get_mut(node) else {
            return;
        };
        member.last_line = seq;
        if matches!(liveness, Liveness::Suspect | Liveness::Dead) {
            member.doubted.insert(service.clone(), Doubt { liveness, since: seq });
        } else {
            member.doubted.remove(service);
        }
    }

    /// A dead member no longer counts.
    pub fn reap(&mut self, node: &NodeId, seq: u64) {
        let dead = |member: &&mut Member| member.standing.liveness == Liveness::Dead;
        if let Some(member) = self.members.get_mut(node).filter(dead) {
            member.last_line = seq;
            member.reaped = true;
        }
    }

    /// The anchor judged. Says nothing about members nobody has heard of.
    pub fn judge(&mut self, node: &NodeId, standing: Standing, seq: u64) {
        let Some(member) = self.members.get_mut(node) else {
            return;
        };
        member.last_line = seq;
        if member.standing.superseded_by(standing) {
            member.stand(standing, seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registered(liveness: Liveness) -> (Membership, NodeId) {
        let (mut membership, node) = (Membership::default(), NodeId::parse("n1").unwrap());
        membership.enrol(&node, 0);
        let incarnation = Incarnation::new(4).unwrap();
        let told = Registration {
            node: node.clone(),
            incarnation,
            urls: vec!["http://192.0.2.1:9160".into()],
            services: vec![Service::parse("api=http://192.0.2.1:80").unwrap()],
            outbound: true,
        };
        membership.register(told, 1);
        let far = Word::said(Incarnation::new(1 << 40).unwrap(), Digest::LEAST);
        membership.drain(&node, Some(Drained::Open), (far, 2));
        let api = ServiceName::parse("api").unwrap();
        membership.judge_service(&node, &api, (Liveness::Suspect, 3));
        membership.judge(&node, Standing { liveness, incarnation }, 4);
        (membership, node)
    }

    #[test]
    fn a_new_key_routes_nothing_of_the_one_before_where_that_was_gone() {
        for liveness in [Liveness::Dead, Liveness::Left, Liveness::Revoked] {
            let (mut membership, node) = registered(liveness);
            membership.enrol(&node, 5);
            let member = membership.member(&node).unwrap();
            assert_eq!(member.standing.liveness, Liveness::Alive, "{liveness:?}");
            assert!(member.offers().is_empty() && member.urls.is_empty());
            assert!(member.names.is_empty() && member.doubted.is_empty());
            assert!(member.drain.is_none() && !member.outbound && !member.registered);
            let next = Word::said(member.standing.incarnation, Digest::LEAST);
            assert!(next > member.drain_word, "a drain of the new key counts");
        }
    }

    #[test]
    fn a_member_that_is_routed_stays_so_while_its_key_is_replaced() {
        for liveness in [Liveness::Alive, Liveness::Suspect] {
            let (mut membership, node) = registered(liveness);
            membership.enrol(&node, 5);
            let member = membership.member(&node).unwrap();
            assert_eq!((member.offers().len(), member.urls.len()), (1, 1), "{liveness:?}");
            assert!(member.drain.is_some() && !member.registered);
        }
    }
}
