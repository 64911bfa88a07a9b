//! Recovery: the anchor is lost, and the operator's offline key names a new one.
//!
//! The new anchor starts from the largest checkpoint that anybody who can be asked shows. Lines that
//! only somebody unreachable holds are not lost either: when it comes back it keeps them, and what
//! members signed among them is merged again (design section 9).

use super::founding::signed;
use super::handover::{self, new_log_key, next_epoch, own_urls};
use super::pull::locked;
use super::server::{ASK_MS, Server};
use super::speaking::one_at_a_time;
use super::sync::{self, Synced, anchor_urls, members_urls};
use super::witnesses;
use crate::auth::offer::Offer;
use crate::auth::vkey::VerifierKey;
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::journal::note::NOTE_BYTES_MAX;
use crate::journal::replay::Fold;
use crate::protocol::member::NodeId;
use crate::store::disk::Disk;
use crate::store::identity::{Identity, load_key};
use crate::store::ledger::{Ledger, Mend};
use crate::store::log_keys;
use crate::store::used_nonces::UsedNonces;
use crate::store::view::View;
use crate::wire::call::Call;
use ed25519_dalek::SigningKey;

/// What the operator gives.
pub struct Recovery<'a> {
    /// The recovery key, made by `init`.
    pub key: SigningKey,
    /// Where this node answers from now on; empty takes what the journal says.
    pub urls: Vec<String>,
    /// Although an anchor answers, or a witness saw more lines than anybody shows.
    pub force: bool,
    /// Told lines held and lines wanted.
    pub progress: &'a dyn Fn(u64, u64),
}

impl std::fmt::Debug for Recovery<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("urls", &self.urls).finish_non_exhaustive()
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// `seq` of the line that says so.
    pub line: u64,
    /// The epoch it begins.
    pub epoch: u64,
    /// Who serialises now: this node.
    pub node: NodeId,
    /// Members that sign with a shared key, which was the lost anchor's: they enrol again.
    pub shared: Vec<NodeId>,
    /// Members that could not be asked: what only they hold is not in this journal.
    pub unasked: Vec<NodeId>,
    /// What went wrong on the way, and with whom.
    pub warnings: Vec<String>,
}

/// Makes this node the anchor.
///
/// # Errors
/// Kind `No` for a key that is not the federation's recovery key, or where an anchor answers; and
/// everything that a sync may end with.
pub fn recover(
    host: &dyn Host,
    config: &Config,
    asked: &Recovery<'_>,
) -> Result<Recovered, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let _one_change = one_at_a_time(&disk)?;
    let mut identity = Identity::require(&disk)?;
    let view = View::open(disk)?;
    expect_recovery_key(&view, &asked.key)?;
    if disk.length(&disk.layout.key("shared"))?.is_some() {
        return Err(Failure::new(
            Kind::No,
            "this node signs with a key it shares with the lost anchor",
        )
        .hint(
            "recover on a member with an Ed25519 key: others have to check the new anchor's words",
        ));
    }
    // A run that was killed after its checkpoint was published has only to be ended.
    if handover::take_over(&disk, &identity, &view.fold)? {
        return already(&view);
    }
    let synced = ask_everybody(&disk, config, (&view, &identity), asked)?;
    // The log key may have changed with what was fetched.
    identity = Identity::require(&disk)?;
    let view = View::open(disk)?;
    let epoch = next_epoch(&view.fold);
    let urls = match asked.urls.is_empty() {
        true => own_urls(&view.fold, &identity)?,
        false => asked.urls.clone(),
    };
    let origin = identity.origin.clone();
    begin_anew(&disk, &identity, epoch)?;
    let (vkey, proof) = new_log_key(&disk, &origin, epoch)?;
    identity.expect_next(&disk, &vkey)?;
    let node = identity.id.clone();
    // Whatever the lost anchor answered meanwhile is in nobody's memory here: signed writes wait
    // until no request of before can be repeated.
    let now_s = host.clock().wall_ms / 1_000;
    locked(&disk, || UsedNonces::begin(&disk, now_s, Vec::new()))?;
    let said = Offer {
        origin: origin.clone(),
        node: node.to_string(),
        nonce: String::new(),
        ts: 0,
        mode: String::new(),
        epoch,
        vkey,
        proof,
        urls,
    };
    let unasked = unasked(&disk, config, (&identity, &view.fold));
    let line = locked(&disk, || {
        let mut ledger = Ledger::open(disk, &identity, Mend::Yes)?;
        // A run that was killed may have left the line there.
        if ledger.fold().log.as_ref().is_none_or(|log| log.vkey != said.vkey) {
            if ledger.tip().size > ledger.floor().size {
                ledger.rewind(&identity)?;
            }
            let record = handover::succession(ledger.floor(), (&origin, epoch), (&node, said));
            let now_s = disk.host.clock().wall_ms / 1_000;
            ledger.append(vec![signed(record, &origin, &asked.key)], now_s)?;
        }
        handover::publish_own(&disk, &mut identity, &mut ledger)?;
        Ok(ledger.tip().size - 1)
    })?;
    let shared = view.fold.keys.shared();
    Ok(Recovered { line, epoch, node, shared, unasked, warnings: synced.warnings })
}

/// A log key that was offered for this epoch before may be named by a line that others hold and that
/// is to be no more: each recovery signs with a key of its own. One that our own unfinished line
/// names is that line's.
fn begin_anew(disk: &Disk<'_>, identity: &Identity, epoch: u64) -> Result<(), Failure> {
    let name = log_keys::name(epoch);
    if disk.length(&disk.layout.key(&name))?.is_none() {
        return Ok(());
    }
    let key = load_key(disk, &name)?;
    let vkey = VerifierKey::of(&identity.origin, &key).map(|vkey| vkey.to_string());
    let fold = locked(disk, || Ledger::open(*disk, identity, Mend::Yes).map(|l| l.fold().clone()))?;
    let named = fold.log.is_some_and(|log| vkey.is_ok_and(|vkey| vkey == log.vkey));
    if named {
        return Ok(());
    }
    disk.remove(&disk.layout.key(&name))
}

/// What an earlier run did, as the journal has it.
fn already(view: &View<'_>) -> Result<Recovered, Failure> {
    let log = view.fold.log.as_ref();
    let Some((log, begun)) = log.and_then(|log| Some((log, log.succession.as_ref()?))) else {
        return Err(Failure::failed("no line names this node as the anchor"));
    };
    Ok(Recovered {
        line: begun.line,
        epoch: log.epoch,
        node: begun.anchor.clone(),
        shared: view.fold.keys.shared(),
        unasked: Vec::new(),
        warnings: Vec::new(),
    })
}

fn expect_recovery_key(view: &View<'_>, key: &SigningKey) -> Result<(), Failure> {
    let named = view.fold.genesis.as_ref().map(|genesis| genesis.recovery.as_str());
    let held = VerifierKey::of(&view.identity.origin, key).map(|vkey| vkey.to_string()).ok();
    if held.as_deref() == named {
        return Ok(());
    }
    Err(Failure::new(
        Kind::No,
        format!(
            "this is not the recovery key of {}: {}",
            view.identity.origin,
            named.unwrap_or("none")
        ),
    )
    .hint("init wrote it to keys/recovery.key on the first anchor, to be kept offline"))
}

/// Whether the anchor that the journal names by now answers: another recovery may have come first.
fn another_answers(disk: &Disk<'_>, identity: &Identity) -> Result<bool, Failure> {
    let fold = View::open(*disk)?.fold;
    let until = disk.host.clock().boot_ms + ASK_MS;
    let answers = |url: &String| {
        let server = Server::named(disk.host, url).map(|server| server.until(until));
        server.is_ok_and(|server| server.fetch("/head", NOTE_BYTES_MAX).is_ok())
    };
    Ok(fold.anchor() != Some(&identity.id) && anchor_urls(identity, &fold).iter().any(answers))
}

/// Members with a URL that do not show a checkpoint, the lost anchor left out.
fn unasked(disk: &Disk<'_>, config: &Config, (identity, fold): (&Identity, &Fold)) -> Vec<NodeId> {
    let targets = sync::targets(config, &anchor_urls(identity, fold));
    let until = disk.host.clock().boot_ms + ASK_MS;
    let others = fold.membership.members().filter(|(id, member)| {
        let known = member.enrolled && member.standing.liveness.may_answer();
        known && **id != identity.id && fold.anchor() != Some(*id)
    });
    let servers: Vec<(&NodeId, Server<'_>)> = others
        .filter_map(|(id, member)| Some((id, member.urls.first()?)))
        .filter_map(|(id, url)| Some((id, Server::named(disk.host, url).ok()?)))
        .map(|(id, server)| (id, server.only(targets).until(until)))
        .collect();
    let calls: Vec<Call> =
        servers.iter().map(|(_, server)| server.call("/checkpoint", NOTE_BYTES_MAX)).collect();
    let answers = disk.host.dial(&calls, until);
    let silent = servers.into_iter().zip(answers).filter(|(_, answer)| answer.is_err());
    silent.map(|((id, _), _)| id.clone()).collect()
}

/// Syncs from everybody there is, and asks the witnesses what they saw.
fn ask_everybody(
    disk: &Disk<'_>,
    config: &Config,
    (view, identity): (&View<'_>, &Identity),
    asked: &Recovery<'_>,
) -> Result<Synced, Failure> {
    let from = members_urls(identity, &view.fold);
    let run = sync::Run { until_boot_ms: u64::MAX, turn: 0, from: &from, progress: asked.progress };
    let synced = sync::run(*disk, config, &run)?;
    if asked.force {
        return Ok(synced);
    }
    if synced.anchor_answered || another_answers(disk, identity)? {
        return Err(Failure::new(Kind::No, "an anchor answers".to_owned())
            .hint("handover moves it without a break; --force where its key is in wrong hands"));
    }
    let most = witnesses::largest_seen(disk, config)?;
    match most.filter(|(_, lines)| *lines > synced.size) {
        None => Ok(synced),
        Some((name, lines)) => Err(Failure::new(
            Kind::No,
            format!(
                "witness {name} saw {lines} lines, and nobody who answers holds more than {}",
                synced.size
            ),
        )
        .hint(
            "bring back a member that holds them, or --force: they are merged when it comes back",
        )),
    }
}
