//! The branch goes home: posted to the anchor that is back, fetched again as journal, and only then
//! taken out of the file.
//!
//! The answer to a post decides nothing here. A line leaves the branch when the synced journal, under
//! the log's signature, holds it; so an answer that is lost, or a run that is killed anywhere, costs
//! one more post of lines that are there already.

use super::admission::{self, Brought, Fate, MERGE};
use super::delivering::{Letter, Undelivered, post};
use super::pull::locked;
use super::server::ASK_MS;
use super::speaking::{Claims, Signer};
use super::sync::{self, Synced, anchor_urls};
use crate::config::Config;
use crate::error::Failure;
use crate::journal::branch::{Run, Twig};
use crate::journal::merged::{MERGED_KINDS, Merged};
use crate::journal::merkle::Hash;
use crate::journal::record::Record;
use crate::journal::replay::Fold;
use crate::journal::statement::MergeHead;
use crate::protocol::member::NodeId;
use crate::protocol::memory::Memory;
use crate::protocol::word::{Digest, Word};
use crate::store::branch::Branch;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::view::View;
use std::collections::BTreeSet;

/// Largest answer to a merge that is read: a word or a sentence a line.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What became of the branch.
#[derive(Clone, Debug, Default)]
pub struct Merging {
    /// The journal after it.
    pub synced: Synced,
    /// Lines taken out, which the journal holds.
    pub merged: usize,
    /// What two machines of one name said differently, and names that are not ours to route.
    pub conflicts: Vec<String>,
    /// Lines that the anchor refused, and why.
    pub refused: Vec<String>,
    /// What kept it from going on.
    pub trouble: Option<String>,
    /// Lines that still wait.
    pub waiting: usize,
}

/// Brings what waits to the anchor, which has just answered a sync. The lock on `keys/` is held.
pub fn bring(
    disk: Disk<'_>,
    config: &Config,
    (synced, run): (Synced, &sync::Run<'_>),
) -> Result<Merging, Failure> {
    let mut merging = Merging { synced, ..Merging::default() };
    merging.take_out(&disk)?;
    if merging.synced.anchor_answered {
        for part in Branch::load(&disk)?.runs.iter().flat_map(Run::parts) {
            if !merging.bring_part(disk, config, (&part, run))? {
                break;
            }
        }
    }
    merging.waiting = Branch::load(&disk)?.count();
    Ok(merging)
}

/// The anchor's own branch: what it said as a node, or signed in a history that gave way. The lock on
/// `keys/` is held, the append lock is not.
pub fn bring_own(disk: Disk<'_>, config: &Config) -> Result<Merging, Failure> {
    let synced = Synced { anchor_answered: true, ..Synced::default() };
    let mut merging = Merging { synced, ..Merging::default() };
    merging.take_out(&disk)?;
    for part in Branch::load(&disk)?.runs.iter().flat_map(Run::parts) {
        let body = signed(&disk, &part)?;
        match admission::merge(disk.host, config, &body) {
            Ok(brought) => merging.refused.extend(refusals(&part, &brought)),
            Err(refusal) => {
                merging.trouble = Some(refusal.to_string());
                break;
            }
        }
        merging.take_out(&disk)?;
    }
    merging.waiting = Branch::load(&disk)?.count();
    Ok(merging)
}

/// Fetches what is new, and brings what was said meanwhile to an anchor that answers.
pub(super) fn bring_home(
    (disk, config): (Disk<'_>, &Config),
    (memory, until_boot_ms): (&mut Memory, u64),
    progress: &dyn Fn(u64, u64),
) -> Result<Merging, Failure> {
    let run = sync::Run { until_boot_ms, turn: memory.tick, from: &[], progress };
    let synced = sync::run(disk, config, &run)?;
    let refused = memory.branch_refused.take();
    let (merging, refused) = in_tick(disk, config, (synced, &run), refused.as_deref())?;
    memory.branch_refused = refused;
    Ok(merging)
}

/// The same in a tick, which does not ask again for lines that were refused when it asked last.
/// Returns what it is to remember of that.
fn in_tick(
    disk: Disk<'_>,
    config: &Config,
    (synced, run): (Synced, &sync::Run<'_>),
    refused: Option<&str>,
) -> Result<(Merging, Option<String>), Failure> {
    let branch = Branch::load(&disk)?;
    if branch.is_empty() {
        let trouble = branch.damage(&disk).map(|damage| damage.message);
        return Ok((Merging { synced, trouble, ..Merging::default() }, None));
    }
    if refused.is_some() && refused == mark(&branch).as_deref() {
        let waiting = branch.count();
        return Ok((Merging { synced, waiting, ..Merging::default() }, mark(&branch)));
    }
    let merging = bring(disk, config, (synced, run))?;
    let all_refused = merging.waiting > 0 && merging.refused.len() >= merging.waiting;
    let remembered = if all_refused { mark(&Branch::load(&disk)?) } else { None };
    Ok((merging, remembered))
}

/// How many lines wait, and the last of them.
fn mark(branch: &Branch) -> Option<String> {
    let head = branch.runs.last().map(Run::head)?;
    Some(format!("{} {head}", branch.count()))
}

impl Merging {
    /// One request; `false` where no more of them makes sense now.
    fn bring_part(
        &mut self,
        disk: Disk<'_>,
        config: &Config,
        (part, run): (&Run, &sync::Run<'_>),
    ) -> Result<bool, Failure> {
        if disk.host.clock().boot_ms >= run.until_boot_ms {
            return Ok(false);
        }
        let view = View::open(disk)?;
        // In a file that is damaged further on, lines stay that are home already.
        if left_of(part, &view.identity.id, &view.fold).is_empty() {
            return Ok(true);
        }
        let sent = send(&disk, part, run.until_boot_ms);
        if let Ok(brought) = &sent {
            self.refused.extend(refusals(part, brought));
        }
        // Whatever was answered, or lost on the way: the journal tells what came in.
        let before = self.synced.before;
        let told = std::mem::take(&mut self.synced.warnings);
        self.synced = sync::run(disk, config, run)?;
        self.synced.before = before;
        self.synced.warnings.splice(0..0, told);
        self.take_out(&disk)?;
        let Err(undelivered) = sent else { return Ok(true) };
        let branch = Branch::load(&disk)?;
        let here = |twig: &Twig| branch.lines().any(|waiting| waiting.leaf == twig.leaf);
        let lost = part.lines().iter().any(here);
        if lost {
            self.trouble = Some(Failure::from(undelivered).message);
        }
        Ok(!lost)
    }

    /// Takes out what the journal holds, and tells what it made of it.
    fn take_out(&mut self, disk: &Disk<'_>) -> Result<(), Failure> {
        let branch = Branch::load(disk)?;
        if branch.is_empty() {
            return Ok(());
        }
        if let Some(damage) = branch.damage(disk) {
            self.trouble = Some(damage.message);
            return Ok(());
        }
        let view = View::open(*disk)?;
        let own = &view.identity.id;
        let left: Vec<&Twig> =
            branch.runs.iter().flat_map(|run| left_of(run, own, &view.fold)).collect();
        let stays: BTreeSet<Hash> = left.iter().map(|twig| twig.leaf).collect();
        let gone: Vec<&Twig> = branch.lines().filter(|twig| !stays.contains(&twig.leaf)).collect();
        if gone.is_empty() {
            return Ok(());
        }
        locked(disk, || Branch::keep(disk, left.iter().copied()))?;
        self.merged += gone.len();
        self.conflicts.extend(gone.iter().flat_map(|twig| conflicts(twig, &view.fold)));
        Ok(())
    }
}

/// The lines of a run that the journal does not hold yet. What an anchor wrote for a journal that is
/// no more goes with the last word of its run.
fn left_of<'a>(run: &'a Run, own: &NodeId, fold: &Fold) -> Vec<&'a Twig> {
    let waits = |twig: &&Twig| {
        let Some(merged) = Merged::of(twig.line.clone()) else {
            return MERGED_KINDS.contains(&twig.line.kind.as_str());
        };
        let of_another = merged.node() != Some(own);
        let over = || fold.outdoes(&merged) || !speaks(fold, &merged);
        fold.holds(&merged).is_none() && !fold.has_passed(&merged) && !(of_another && over())
    };
    let words = run.lines().iter().filter(waits).count();
    let stays = |twig: &&Twig| {
        let passes = !MERGED_KINDS.contains(&twig.line.kind.as_str());
        words > 0 && (passes || waits(twig))
    };
    run.lines().iter().filter(stays).collect()
}

/// Whether the key that signed it may still speak for its author.
fn speaks(fold: &Fold, merged: &Merged) -> bool {
    let keys = merged.node().and_then(|node| fold.keys.of(node)).filter(|keys| !keys.revoked);
    let retiring = keys.and_then(|keys| keys.retiring.as_ref().map(|(record, _)| record));
    let mut records = keys.map(|keys| &keys.current).into_iter().chain(retiring);
    let kid = merged.line.author.as_ref().map(|author| author.kid.as_str());
    records.any(|record| Some(record.kid.as_str()) == kid)
}

/// What a registration met in the journal that does not say the same.
fn conflicts(twig: &Twig, fold: &Fold) -> Vec<String> {
    let Record::Register(register) = Record::of(&twig.line) else { return Vec::new() };
    let Some(member) = fold.membership.member(&register.node) else { return Vec::new() };
    let digest = Digest::of(twig.line.payload.as_bytes());
    let (node, inc) = (&register.node, register.incarnation.value());
    let held = member.word();
    let mut told = Vec::new();
    if let Some(winner) = held.digest.filter(|_| member.rivals().any(|rival| *rival == digest)) {
        told.push(format!(
            "conflict: {node} said two things at incarnation {inc}; {digest} lost to {winner}"
        ));
    }
    if held == Word::said(register.incarnation, digest) {
        told.extend(member.rivals().map(|loser| {
            format!(
                "conflict: {node} said two things at incarnation {inc}; {loser} lost to {digest}"
            )
        }));
        told.extend(member.withheld().iter().map(|service| {
            format!(
                "conflict: {node} may not route {} before the anchor gives it the name",
                service.name
            )
        }));
    }
    told
}

/// The refused lines of one request, in words.
fn refusals(part: &Run, brought: &Brought) -> Vec<String> {
    let fates = part.lines().iter().zip(&brought.lines);
    fates
        .filter_map(|(twig, fate)| match fate {
            Fate::Refused(why) => Some(format!(
                "the anchor refused the {} at {}: {why}",
                twig.line.kind, twig.line.seq
            )),
            _ => None,
        })
        .collect()
}

/// Posts these lines under a head of ours.
fn send(disk: &Disk<'_>, part: &Run, until_boot_ms: u64) -> Result<Brought, Undelivered> {
    let ours = |failure: Failure| Undelivered::Refused(0, failure);
    let identity = Identity::require(disk).map_err(ours)?;
    let anchors = View::open(*disk).map(|view| anchor_urls(&identity, &view.fold)).map_err(ours)?;
    let body = signed(disk, part).map_err(ours)?;
    let until_boot_ms = until_boot_ms.min(disk.host.clock().boot_ms + ASK_MS);
    let letter = Letter { kind: MERGE, body, answer_max: ANSWER_BYTES_MAX, until_boot_ms };
    let answer = post(disk.host, &anchors, &letter)?;
    serde_json::from_value(answer).map_err(|error| {
        ours(Failure::failed(format!("the anchor's answer does not read: {error}")))
    })
}

/// The lines with a head of ours before them.
fn signed(disk: &Disk<'_>, part: &Run) -> Result<Vec<u8>, Failure> {
    let identity = Identity::require(disk)?;
    let signer = Signer::load(disk, &identity)?;
    let claims = Claims::now(disk)?;
    let head = MergeHead {
        origin: identity.origin.clone(),
        node: identity.id.clone(),
        nonce: claims.nonce.clone(),
        ts: claims.ts,
        mode: signer.mode().to_owned(),
        fork: part.fork(),
        head: part.head(),
        count: part.lines().len() as u64,
    };
    let payload = serde_json::to_value(&head).unwrap_or_default().to_string();
    let envelope = signer.seal(&identity, claims, (MERGE, payload));
    let mut body = envelope.render().into_bytes();
    body.push(b'\n');
    body.extend_from_slice(&part.bytes());
    Ok(body)
}
