//! Handover: the anchor names the node that serialises from the next line on.
//!
//! Both operators act: the node offers a log key of its own, the anchor signs the line that names it.
//! From that line on the old key signs nothing more. The node takes over in its own next tick, once
//! it holds that line under the old key's signature, so at no moment two of them write.

use super::admission::{Desk, authenticate};
use super::crossing::Crossing;
use super::enrolment::require_anchor;
use super::founding::{make_key, signed};
use super::pull::locked;
use super::rounds::PATIENCE;
use super::server::Server;
use super::speaking::{Claims, Signer, one_at_a_time};
use crate::auth::keys;
use crate::auth::offer::{self, Offer};
use crate::auth::vkey::VerifierKey;
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::journal::record::{Anchor, Record};
use crate::journal::replay::{Fold, Succession};
use crate::protocol::member::{Liveness, NodeId};
use crate::store::disk::Disk;
use crate::store::identity::{Identity, load_key};
use crate::store::ledger::{Ledger, Mend};
use crate::store::log_keys;
use crate::store::used_nonces::UsedNonces;
use crate::store::view::{Published, View};

/// How long the node has to show that it is there, in milliseconds.
const ASK_MS: u64 = 5_000;
/// Largest answer of it that is read.
const HEAD_BYTES_MAX: usize = 1_024;

/// What a handover did.
#[derive(Clone, Debug)]
pub struct HandedOver {
    /// `seq` of the line that says so.
    pub line: u64,
    /// The epoch it begins.
    pub epoch: u64,
    /// Who serialises in it.
    pub node: NodeId,
}

/// The node's side: makes the log key of the next epoch and shows it. Changes nothing for anybody.
pub fn offer(host: &dyn Host, config: &Config) -> Result<String, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let _one_word = one_at_a_time(&disk)?;
    let identity = Identity::require(&disk)?;
    if identity.is_anchor() {
        return Err(Failure::failed("this is the anchor already")
            .hint("run handover --offer on the node that is to take over"));
    }
    let view = View::open(disk)?;
    let urls = own_urls(&view.fold, &identity)?;
    let epoch = next_epoch(&view.fold);
    let (vkey, proof) = new_log_key(&disk, &identity.origin, epoch)?;
    let signer = Signer::load(&disk, &identity)?;
    let claims = Claims::now(&disk)?;
    let said = Offer {
        origin: identity.origin.clone(),
        node: identity.id.to_string(),
        nonce: claims.nonce.clone(),
        ts: claims.ts,
        mode: signer.mode().to_owned(),
        epoch,
        vkey,
        proof,
        urls,
    };
    let payload = serde_json::to_value(&said).expect("an offer has string keys only").to_string();
    Ok(offer::pack(&signer.seal(&identity, claims, (offer::KIND, payload))))
}

/// The anchor's side: writes the line that names the node, and follows it from then on.
///
/// # Errors
/// Kind `No` for an offer that is not for now, or unless `force` of a node that is not alive or does
/// not answer.
pub fn hand_over(
    host: &dyn Host,
    config: &Config,
    (text, force): (&str, bool),
) -> Result<HandedOver, Failure> {
    let usage = |why: String| Failure::new(Kind::Usage, format!("the offer: {why}"));
    let (envelope, said) = offer::unpack(text).map_err(usage)?;
    let node = NodeId::parse(&said.node).map_err(|error| usage(error.to_string()))?;
    let disk = Disk { host, layout: &config.layout };
    require_anchor(&disk)?;
    let _one_change = one_at_a_time(&disk)?;
    let desk = Desk::open(disk, config, PATIENCE)?;
    let origin = desk.identity.origin.clone();
    envelope.agrees(&origin).map_err(usage)?;
    let fold = desk.ledger.fold();
    let key = authenticate((&disk, fold), (offer::KIND, &envelope, &node), desk.times.keys_s)
        .map_err(|refusal| Failure::new(Kind::No, format!("the offer of '{node}': {refusal}")))?;
    if key.alg != keys::ED25519 {
        return Err(Failure::new(Kind::No, format!("'{node}' signs with {}", key.alg))
            .hint("others cannot check that: crowny-fed rotate-key on it first"));
    }
    let epoch = next_epoch(fold);
    if said.epoch != epoch {
        return Err(Failure::new(
            Kind::No,
            format!("the offer is for epoch {}, expected {epoch}", said.epoch),
        )
        .hint("its journal was behind: crowny-fed sync there, then handover --offer again"));
    }
    if !force {
        expect_there(host, fold, (&node, &said))?;
    }
    let old = load_key(&disk, &log_keys::name(epoch - 1))?;
    let record = succession(desk.ledger.floor(), (&origin, epoch), (&node, said));
    let accepted = desk.commit(vec![signed(record, &origin, &old)], 0)?;
    finish(&disk)?;
    Ok(HandedOver { line: accepted.seq, epoch, node })
}

/// Nobody hands over to somebody who is not there: from that line on nobody else writes.
fn expect_there(
    host: &dyn Host,
    fold: &Fold,
    (node, said): (&NodeId, &Offer),
) -> Result<(), Failure> {
    let liveness = fold.membership.member(node).map(|member| member.standing.liveness);
    if let Some(held) = liveness.filter(|held| *held != Liveness::Alive) {
        return Err(Failure::new(Kind::No, format!("'{node}' is {}", held.word()))
            .hint("hand over to a node that is alive"));
    }
    let until = host.clock().boot_ms + ASK_MS;
    let answers = |url: &String| {
        let server = Server::named(host, url).map(|server| server.until(until));
        server.is_ok_and(|server| server.fetch("/head", HEAD_BYTES_MAX).is_ok())
    };
    if said.urls.iter().any(answers) {
        return Ok(());
    }
    Err(Failure::new(Kind::No, format!("'{node}' does not answer at {}", said.urls.join(", ")))
        .hint("start its serve: it is the one that everybody asks from then on; --force where only this machine does not reach it"))
}

/// The line that begins an epoch.
pub(super) fn succession(
    floor: &crate::journal::floor::Floor,
    (origin, epoch): (&str, u64),
    (node, said): (&NodeId, Offer),
) -> Record {
    Record::Anchor(Anchor {
        origin: origin.to_owned(),
        epoch,
        vkey: said.vkey,
        size: floor.size,
        root: floor.root,
        proof: said.proof,
        anchor: Some(node.clone()),
        urls: said.urls,
    })
}

/// Makes the log key of an epoch, unless it is there, and shows that it is held.
pub(super) fn new_log_key(
    disk: &Disk<'_>,
    origin: &str,
    epoch: u64,
) -> Result<(String, String), Failure> {
    let name = log_keys::name(epoch);
    make_key(disk, &name)?;
    let key = load_key(disk, &name)?;
    let vkey = VerifierKey::of(origin, &key)
        .map_err(|error| Failure::config(error.to_string()))?
        .to_string();
    let proof = keys::sign(&key, &Anchor::possession(origin, epoch, &vkey));
    Ok((vkey, proof))
}

/// The epoch after the one in force.
pub(super) fn next_epoch(fold: &Fold) -> u64 {
    fold.log.as_ref().map_or(0, |log| log.epoch) + 1
}

/// Where the journal says that we answer: whoever serialises must be found.
pub(super) fn own_urls(fold: &Fold, identity: &Identity) -> Result<Vec<String>, Failure> {
    let member = fold.membership.member(&identity.id);
    let urls = member.map(|member| member.urls.clone()).unwrap_or_default();
    if urls.is_empty() {
        return Err(Failure::failed("this node has no URL, so nobody could follow it")
            .hint("crowny-fed register --url http://HOST:9160"));
    }
    Ok(urls)
}

/// Who serialises instead of us, as our own journal says.
pub(super) fn successor<'a>(identity: &Identity, fold: &'a Fold) -> Option<&'a Succession> {
    let succession = fold.log.as_ref()?.succession.as_ref()?;
    (succession.anchor != identity.id).then_some(succession)
}

/// Nothing is written here any more once the journal names another node.
pub(super) fn expect_none(identity: &Identity, fold: &Fold) -> Result<(), Failure> {
    let Some(next) = successor(identity, fold) else { return Ok(()) };
    Err(Failure::failed(format!("{} serialises since line {}", next.anchor, next.line))
        .hint("the next tick of this host follows it"))
}

/// The old anchor's last act, by whichever run comes to it: once readers see the line that names
/// another node, we follow it. Returns whether we do.
pub(super) fn finish(disk: &Disk<'_>) -> Result<bool, Failure> {
    let published = Published::read(disk)?;
    let mut identity = published.identity;
    let view = View::open(*disk)?;
    let Some(succession) = successor(&identity, &view.fold) else { return Ok(false) };
    if published.checkpoint.size <= succession.line {
        return Ok(false);
    }
    identity.step_down(disk, &succession.urls)?;
    // Whoever serialises again later knows nothing of what was answered meanwhile.
    disk.remove(&disk.layout.used_nonces())?;
    Ok(true)
}

/// The node's last act: signs what it holds with the key that its journal names. Returns whether it
/// serialises now.
pub(super) fn take_over(
    disk: &Disk<'_>,
    identity: &Identity,
    fold: &Fold,
) -> Result<bool, Failure> {
    let ours = |log: &&crate::journal::replay::LogKeys| {
        log.succession.as_ref().is_some_and(|next| next.anchor == identity.id)
    };
    let Some(log) = fold.log.as_ref().filter(ours).filter(|_| !identity.is_anchor()) else {
        return Ok(false);
    };
    let key = load_key(disk, &log_keys::name(log.epoch)).map_err(|failure| {
        failure.hint("the journal names this node as the anchor: put that key back, or run crowny-fed recover")
    })?;
    let mut identity = identity.clone();
    identity.expect_next(disk, &log.vkey)?;
    locked(disk, || {
        let mut ledger = Ledger::open(*disk, &identity, Mend::Yes)?;
        if ledger.tip().size > ledger.floor().size {
            // Lines that nobody proved: only we could.
            ledger.rewind(&identity)?;
        }
        // What the anchor before answered is not known here: signed writes wait.
        if disk.length(&disk.layout.used_nonces())?.is_none() {
            UsedNonces::begin(disk, disk.host.clock().wall_ms / 1_000, Vec::new())?;
        }
        ledger.sign_along(&key)?;
        identity.follow(disk, ledger.fold(), &ledger.floor().note)
    })?;
    Ok(identity.is_anchor())
}

/// Signs and publishes what was appended as the anchor that it names, and is that anchor from then on.
pub(super) fn publish_own(
    disk: &Disk<'_>,
    identity: &mut Identity,
    ledger: &mut Ledger<'_>,
) -> Result<(), Failure> {
    let now_s = disk.host.clock().wall_ms / 1_000;
    let keys = log_keys::signing(disk, identity, ledger.fold(), now_s)?;
    ledger.publish(&keys)?;
    identity.follow(disk, ledger.fold(), &ledger.floor().note)
}

/// Somebody showed a later epoch: we were the anchor, and follow like everybody else from now on.
pub(super) fn step_down(disk: &Disk<'_>, later: &Crossing) -> Result<(), Failure> {
    locked(disk, || Identity::require(disk)?.step_down(disk, &later.succession.urls))
}

/// Why nothing is signed here any more.
pub(super) fn superseded(later: &Crossing) -> Failure {
    let Succession { anchor, line, .. } = &later.succession;
    Failure::integrity(format!(
        "{} shows that {anchor} serialises in epoch {} since line {line}: this host signs nothing more and follows it",
        later.url, later.epoch
    ))
    .hint("the next tick fetches its journal; what members signed here since then is merged there")
}

/// Our own key named a successor in what somebody shows, and wrote on here.
pub(super) fn parted(url: &str, line: u64) -> Failure {
    Failure::integrity(format!(
        "fork: {url} shows that this log's key named a successor at line {line}, but other lines were written here"
    ))
    .hint("an old copy of this folder wrote on: where theirs is right, crowny-fed doctor --adopt URL")
}
