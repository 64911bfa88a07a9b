//! A word that no anchor is there to take: kept in the branch, signed as it is, until one is.

use super::admission::check_announced;
use super::speaking::Signer;
use super::sync::anchor_urls;
use super::{observing, refuting};
use crate::auth::envelope::Envelope;
use crate::config::Config;
use crate::error::Failure;
use crate::journal::chain::Tip;
use crate::journal::line::Author;
use crate::journal::merged::MERGED_KINDS;
use crate::journal::record::{Record, Register};
use crate::journal::replay::Fold;
use crate::protocol::member::Incarnation;
use crate::store::branch::Branch;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::Identity;
use crate::store::view::View;

/// Whether a word of this kind may wait.
pub(super) fn may_wait(kind: &str) -> bool {
    MERGED_KINDS.contains(&kind)
}

/// Commits a signed word to the branch and returns how many lines that has then. The lock on
/// `keys/` is held.
///
/// # Errors
/// Where the journal here does not say that our key speaks for us, or says more than the word does:
/// then no anchor could ever take it.
pub(super) fn keep(
    disk: &Disk<'_>,
    config: &Config,
    (kind, envelope): (&str, &Envelope),
) -> Result<usize, Failure> {
    let identity = Identity::require(disk)?;
    let view = View::open(*disk)?;
    let now_s = disk.host.clock().wall_ms / 1_000;
    let signer = Signer::load(disk, &identity)?;
    let valid = view.fold.keys.valid(&identity.id, now_s);
    let key = valid.into_iter().find(|record| signer.is(record)).ok_or_else(|| {
        Failure::failed(format!("the journal here names no key of ours for {}", identity.id))
    })?;
    if let Record::Register(register) = Record::read(kind, &envelope.payload) {
        check_announced(config, &view.fold, &register).map_err(Failure::failed)?;
        expect_newer(&view, &register)?;
    }
    let sig = envelope.sig.clone().unwrap_or_default();
    let author = Author { alg: key.alg.clone(), kid: key.kid.clone(), sig };
    let last = view.line(view.checkpoint.size.saturating_sub(1))?;
    let journal = Tip { size: view.checkpoint.size, head: last.leaf, ts: last.line.ts };
    let draft = Draft::submitted(kind, &envelope.payload, author);
    Branch::load(disk)?.append(disk, draft, (journal, now_s))
}

/// Answers what the journal holds against us, where nobody told us to our face. With no anchor there
/// the answer waits in the branch, once for each number we are accused at. Returns what an operator
/// should know of it, or nothing; `None` where nobody doubts us.
pub(super) fn refute(
    disk: &Disk<'_>,
    config: &Config,
    (identity, fold, anchor_answered): (&Identity, &Fold, bool),
    until_boot_ms: u64,
) -> Result<Option<String>, Failure> {
    let own = fold.membership.member(&identity.id);
    let accused = own.map(|member| member.standing.incarnation).unwrap_or_default();
    if !anchor_answered && waits_above(disk, identity, accused)? {
        return Ok(None);
    }
    let Some(envelope) = refuting::in_own_tick(disk, identity, &fold.membership)? else {
        return Ok(None);
    };
    if anchor_answered {
        let (anchors, body) = (anchor_urls(identity, fold), envelope.render());
        let told = observing::post(disk, ("register", body.as_bytes()), (&anchors, until_boot_ms))?;
        if told.is_some() {
            return Ok(told);
        }
    }
    if waits_above(disk, identity, accused)? {
        return Ok(None);
    }
    Ok(Some(match keep(disk, config, ("register", &envelope)) {
        Ok(line) => format!(
            "this node is doubted, and no anchor takes its word now: its refutation is kept as line {line} of branch.ndjson"
        ),
        Err(failure) => {
            format!("this node is doubted and cannot say that it lives: {}", failure.message)
        }
    }))
}

/// Whether a word above this incarnation waits already.
fn waits_above(
    disk: &Disk<'_>,
    identity: &Identity,
    accused: Incarnation,
) -> Result<bool, Failure> {
    Ok(Branch::load(disk)?.registers(&identity.id, accused))
}

fn expect_newer(view: &View<'_>, register: &Register) -> Result<(), Failure> {
    let held = view.fold.membership.member(&register.node).map(|member| member.standing);
    match held.filter(|held| register.incarnation <= held.incarnation) {
        None => Ok(()),
        Some(held) => Err(Failure::failed(format!(
            "stale: incarnation {} is not above {}, at which we are {}",
            register.incarnation.value(),
            held.incarnation.value(),
            held.liveness.word()
        ))
        .hint("say it again: each word raises it by one")),
    }
}
