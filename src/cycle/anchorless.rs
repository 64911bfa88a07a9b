//! A tick without an anchor: what the other members say of themselves and of each other.
//!
//! Each member that can be asked shows what it said in isolation and the observation of its last
//! tick, both signed. Here the first makes a table for this node's own use, the second goes to the
//! rules in `protocol::provisional`; nothing of either is written for anybody else.

use super::admission::{as_signed, authenticate, check_said};
use super::observing;
use super::server::Server;
use super::sync::{anchor_urls, targets};
use crate::auth::envelope;
use crate::auth::keys;
use crate::config::{self, Config};
use crate::journal::branch::{self, BRANCH_PAGE_BYTES_MAX, Run, Twig, stored};
use crate::journal::chain::{Tip, origin_hash};
use crate::journal::merged::Merged;
use crate::journal::record::Record;
use crate::journal::replay::Fold;
use crate::journal::statement::{Observe, Saw};
use crate::protocol::caps::withdrawals_max;
use crate::protocol::hearsay;
use crate::protocol::member::NodeId;
use crate::protocol::membership::Membership;
use crate::protocol::memory::Memory;
use crate::protocol::provisional::{Provisional, Round, Word};
use crate::protocol::reach::Sight;
use crate::protocol::route::Local;
use crate::store::branch::Branch;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::Identity;
use crate::wire::call::{Answer, Call};
use std::collections::{BTreeMap, BTreeSet};

/// Most words of one other member that are kept for it.
const CARRIED_EACH_MAX: usize = 16;
/// Most bytes of the branch up to which others' words are taken in.
const CARRIED_BYTES_MAX: usize = 1 << 20;

/// What a tick without an anchor goes by.
#[derive(Clone, Debug, Default)]
pub(super) struct Anchorless {
    /// What the members that answered tell of their own ticks.
    pub(super) words: BTreeMap<NodeId, Word>,
    /// The journal's meaning with what members said in isolation.
    pub(super) fold: Fold,
    /// Who said something.
    pub(super) speaking: BTreeSet<NodeId>,
}

/// Who asks, and what it holds.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) disk: &'a Disk<'a>,
    pub(super) config: &'a Config,
    pub(super) identity: &'a Identity,
    pub(super) fold: &'a Fold,
}

/// Asks these members.
pub(super) fn gather(
    asking: Asking<'_>,
    whom: &[NodeId],
    (memory, until_boot_ms): (&mut Memory, u64),
) -> Anchorless {
    let Asking { disk, config, identity, fold } = asking;
    let targets = targets(config, &anchor_urls(identity, fold));
    let servers: Vec<(&NodeId, Server<'_>)> = whom
        .iter()
        .filter_map(|id| {
            let url = fold.membership.member(id)?.urls.first()?;
            Some((id, Server::named(disk.host, url).ok()?.only(targets).until(until_boot_ms)))
        })
        .collect();
    let calls: Vec<Call> = servers
        .iter()
        .map(|(_, server)| server.call("/sync?branch", BRANCH_PAGE_BYTES_MAX))
        .collect();
    let until = until_boot_ms.min(disk.host.clock().boot_ms + config.profile.timeout_ms);
    let answers = disk.host.dial(&calls, until);
    let mut gathered = Anchorless { fold: fold.clone(), ..Anchorless::default() };
    // Our own words count here as they do elsewhere, and those of others that we keep.
    let branch = Branch::load(disk).unwrap_or_default();
    gathered.take(asking, branch.lines().cloned());
    let mut heard = Vec::new();
    for ((id, server), answer) in servers.iter().zip(answers) {
        let Some((lines, told)) = parted(server, answer) else { continue };
        let said = branch::parse(&lines).0.into_iter().flat_map(Run::into_lines);
        heard.extend(gathered.take(asking, said));
        let Some(observe) = observed(asking, (id, &told)) else { continue };
        if hearsay::note(memory, id, (observe.ts, observe.tick)) {
            gathered.words.insert((*id).clone(), word(&observe, &fold.membership));
        }
    }
    // Who said it may be gone before the anchor is back. That it cannot be kept is no reason not to
    // go by it now.
    if branch.damage(disk).is_none() {
        let _ = Branch::take_in(disk, &stored(fit(&branch, &heard).into_iter()));
    }
    gathered
}

/// What others said, as far as there is room for it: nobody fills the file of another.
fn fit<'a>(branch: &Branch, heard: &'a [Twig]) -> Vec<&'a Twig> {
    let author = |twig: &Twig| Merged::of(twig.line.clone()).and_then(|it| it.node().cloned());
    let mut of_each: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
    let mut bytes = 0;
    for twig in branch.lines() {
        bytes += twig.raw.len();
        *of_each.entry(author(twig)).or_default() += 1;
    }
    let mut fits = Vec::new();
    for twig in heard {
        let count = of_each.entry(author(twig)).or_default();
        *count += 1;
        bytes += twig.raw.len();
        if *count <= CARRIED_EACH_MAX && bytes <= CARRIED_BYTES_MAX {
            fits.push(twig);
        }
    }
    fits
}

impl Anchorless {
    /// What a member said, each line for itself: whoever signed it speaks, whoever handed it over,
    /// and says nothing here that an anchor would not take. Returns those that said something new.
    fn take(&mut self, asking: Asking<'_>, said: impl Iterator<Item = Twig>) -> Vec<Twig> {
        let origin = asking.identity.origin.as_str();
        let now_s = asking.disk.host.clock().wall_ms / 1_000;
        let mut new = Vec::new();
        for twig in said {
            let Ok((merged, node, _)) = as_signed(origin, &twig) else { continue };
            let known = self.fold.holds(&merged).is_some() || self.fold.outdoes(&merged);
            if known || check_said(asking.config, &self.fold, &merged.said).is_err() {
                continue;
            }
            // As the anchor will write it; the hash before it is nobody's business here.
            let tip = Tip { size: self.fold.lines, head: origin_hash(origin), ts: now_s };
            let line = Draft::from(Record::Merged(Box::new(merged))).line(&tip, now_s);
            if self.fold.check_author(&line) == Ok(true) {
                self.fold.apply(&line);
                self.speaking.insert(node);
                new.push(twig);
            }
        }
        new
    }
}

/// Judges with no anchor to judge; over as soon as one answers. `held` are those who were out of
/// reach before this tick.
pub(super) fn judge(
    (config, own): (&Config, &NodeId),
    away: Option<&Anchorless>,
    (sight, held): (&Sight<'_>, &BTreeSet<NodeId>),
    memory: &mut Memory,
) {
    let Some(away) = away else {
        memory.provisional = Provisional::default();
        return;
    };
    let holds = config.anchorless == config::Anchorless::Hold;
    if holds {
        memory.reach.unreachable.retain(|id| held.contains(id));
    }
    let gone = memory.reach.unreachable.difference(held).count();
    let most = withdrawals_max(sight.membership.routable()).saturating_sub(gone);
    memory.provisional = memory.provisional.after(&Round {
        own,
        membership: sight.membership,
        contacts: sight.contacts,
        words: &away.words,
        counts: sight.counts,
        ticks_max: sight.ticks_max,
        most: if holds { 0 } else { most },
    });
}

/// What our own map does otherwise than the table.
pub(super) fn local(memory: &Memory, away: Option<&Anchorless>) -> Local {
    let Memory { reach, provisional, .. } = memory;
    let speaking = away.map(|away| &away.speaking);
    let marked = provisional.dead.union(&provisional.doubted);
    Local {
        without: reach.unreachable.union(&provisional.dead).cloned().collect(),
        provisional: marked.chain(speaking.into_iter().flatten()).cloned().collect(),
    }
}

/// The lines and, after the blank line, the observation.
fn parted(server: &Server<'_>, answer: Answer) -> Option<(Vec<u8>, Vec<u8>)> {
    let body = server.whole("/sync?branch", answer).ok()?;
    let end = match body.first() {
        Some(b'\n') => Some(0),
        _ => body.windows(2).position(|pair| pair == b"\n\n").map(|at| at + 1),
    };
    let end = end.unwrap_or(body.len());
    let told = body.get(end + 1..).unwrap_or_default().to_vec();
    Some((body[..end].to_vec(), told))
}

/// The member's own observation, by a key that anybody can check.
fn observed(asking: Asking<'_>, (id, told): (&NodeId, &[u8])) -> Option<Observe> {
    let envelope = envelope::parse(told.trim_ascii_end()).ok()?;
    let node = NodeId::parse(&envelope.node).ok().filter(|node| node == id)?;
    let now_s = asking.disk.host.clock().wall_ms / 1_000;
    let key = authenticate((asking.disk, asking.fold), (observing::KIND, &envelope, &node), now_s);
    key.ok().filter(|key| key.alg == keys::ED25519)?;
    envelope.agrees(&asking.identity.origin).ok()?;
    observing::read(told.trim_ascii_end())
}

/// What counts of it: an answer at once, a miss only at the incarnation that we know.
fn word(observe: &Observe, membership: &Membership) -> Word {
    let mut word = Word::default();
    for sighting in &observe.seen {
        let held = membership.member(&sighting.node).map(|member| member.standing.incarnation);
        if sighting.saw == Saw::Answered {
            word.answered.insert(sighting.node.clone());
        } else if held == Some(sighting.inc) {
            word.missed.insert(sighting.node.clone());
        }
    }
    word
}
