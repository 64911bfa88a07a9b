//! Joining: an invitation is burned, the node registers, and its first sync proves its own line.

use super::admission::Accepted;
use super::delivering::{Letter, accepted, post};
use super::founding::{hex_chance, make_key};
use super::loading::{beginning, save_memory};
use super::speaking::{Offer, Said, Word, one_at_a_time, say};
use super::sync;
use crate::auth::envelope::Envelope;
use crate::auth::invite::{Invite, secret_sha256};
use crate::auth::{keys, mac, pae};
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::{Host, Keep, Readers};
use crate::journal::tlog_proof::parse_tlog_proof;
use crate::protocol::member::{Incarnation, NodeId};
use crate::protocol::memory::Memory;
use crate::protocol::registration::JUMP_MAX;
use crate::store::disk::Disk;
use crate::store::identity::{Identity, load_key};
use crate::store::view::View;
use serde_json::json;
use zeroize::Zeroizing;

/// Burns an invitation, keeps who we are, and registers.
pub fn join(
    host: &dyn Host,
    config: &Config,
    invite: &Invite,
    offer: &Offer,
) -> Result<Accepted, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let id = NodeId::parse(&invite.node)
        .map_err(|error| Failure::config(format!("the invitation: {error}")))?;
    if let Some(identity) = Identity::load(&disk)?
        && (identity.origin != invite.vkey.name() || identity.id != id)
    {
        return Err(Failure::failed(format!(
            "{} belongs to '{}' already",
            disk.layout.dir().display(),
            identity.origin
        ))
        .hint("use another --dir"));
    }
    disk.folder(disk.layout.dir(), false)?;
    for private in [disk.layout.keys(), disk.layout.state(), disk.layout.state().join("tmp")] {
        disk.folder(&private, true)?;
    }
    let identity = Identity {
        origin: invite.vkey.name().to_owned(),
        vkey: invite.vkey.to_string(),
        anchors: vec![invite.url.clone()],
        incarnation: Incarnation::FIRST,
        urls: Vec::new(),
        services: Vec::new(),
        outbound: false,
        next: None,
        id,
    };
    enrol_once(&disk, invite, identity)?;
    if disk.length(&disk.layout.tick())?.is_none() {
        let now = host.clock();
        save_memory(&disk, &Memory::fresh(&beginning(&now)))?;
    }
    let half = |failure: Failure| Failure {
        message: format!("enrolled, but not registered yet: {}", failure.message),
        hint: Some(
            "run the same join again, or crowny-fed register once the anchor takes words".into(),
        ),
        ..failure
    };
    let accepted = match say(host, config, &Word::Register(offer.clone())).map_err(half)? {
        Said::Accepted(accepted) => accepted,
        Said::Kept { why, .. } => {
            let why = format!("enrolled, but not registered yet: {why}");
            return Err(Failure::failed(why)
                .hint("the registration waits in branch.ndjson, and the next ticks bring it"));
        }
    };
    first_sync(&disk, config, &accepted).map_err(|failure| match failure.kind {
        Kind::Integrity => failure,
        _ => Failure {
            message: format!("joined, but the journal is not here yet: {}", failure.message),
            hint: Some("crowny-fed sync, or the next tick, fetches it".to_owned()),
            ..failure
        },
    })?;
    Ok(accepted)
}

/// Fetches the journal and holds our own line in it against what the anchor answered.
fn first_sync(disk: &Disk<'_>, config: &Config, accepted: &Accepted) -> Result<(), Failure> {
    let _one_word = one_at_a_time(disk)?;
    let run = sync::Run { until_boot_ms: u64::MAX, turn: 0, from: &[], progress: &|_, _| {} };
    let synced = sync::run(*disk, config, &run)?;
    if synced.size <= accepted.seq {
        return Err(Failure::failed(synced.warnings.join("; ")));
    }
    let view = View::open(*disk)?;
    let line = view.line(accepted.seq)?;
    if line.leaf != accepted.hash {
        return Err(Failure::integrity(format!(
            "line {} of the journal is not the one that the anchor answered with",
            accepted.seq
        )));
    }
    let proof = parse_tlog_proof(&view.proof(accepted.seq)?);
    proof
        .and_then(|proof| proof.verify(&line.raw, &view.vkey))
        .map_err(|error| Failure::integrity(format!("line {}: {error}", accepted.seq)))?;
    Ok(())
}

/// Burns the invitation, unless this machine did so before: then it only registers anew, with
/// whatever key speaks for it by now.
fn enrol_once(disk: &Disk<'_>, invite: &Invite, identity: Identity) -> Result<(), Failure> {
    let _one_word = one_at_a_time(disk)?;
    let enrolment = Enrolment::begun(disk, invite)?;
    let known = Identity::load(disk)?;
    if enrolment.answered && known.is_some() {
        return Ok(());
    }
    let standing = enrol(disk, invite, (&identity, &enrolment.nonce))?;
    let mut identity = known.unwrap_or(identity);
    identity.incarnation = identity.incarnation.max(standing);
    identity.store(disk)?;
    Enrolment { answered: true, ..enrolment }.store(disk)
}

/// The request that burns the invitation; made again with the same nonce it is the same request.
/// Returns the incarnation that the anchor holds of this node, perhaps from a machine that was lost.
fn enrol(
    disk: &Disk<'_>,
    invite: &Invite,
    (identity, nonce): (&Identity, &str),
) -> Result<Incarnation, Failure> {
    make_key(disk, "node")?;
    let ts = disk.host.clock().wall_ms / 1_000;
    let mut payload = json!({
        "origin": identity.origin, "node": identity.id, "nonce": nonce, "ts": ts, "mode": invite.alg,
    });
    let node_key = load_key(disk, "node")?;
    if invite.alg == keys::ED25519 {
        payload["key"] = keys::render_public(&node_key.verifying_key()).into();
    }
    let payload = payload.to_string();
    let signed = pae::encode("enroll", &payload);
    let bootstrap = mac::bootstrap_key(&invite.secret, &identity.origin, identity.id.as_str());
    let proof = (invite.alg == keys::ED25519).then(|| keys::sign(&node_key, &signed));
    let envelope = Envelope {
        mode: invite.alg.clone(),
        node: identity.id.to_string(),
        nonce: nonce.to_owned(),
        ts,
        payload,
        sig: Some(keys::encode_sig(&*mac::mac(&*bootstrap, &[&signed]))),
        proof,
    };
    let letter = Letter::word(disk.host, "enroll", &envelope);
    let answer = post(disk.host, &identity.anchors, &letter)?;
    let accepted = accepted(answer, identity)?;
    if invite.alg == mac::HMAC_SHA256 {
        let shared = mac::node_key(&bootstrap, nonce);
        let hex: Zeroizing<String> =
            Zeroizing::new(shared.iter().map(|byte| format!("{byte:02x}")).collect());
        let text = Zeroizing::new(format!("{}\n", *hex));
        disk.put(&disk.layout.key("shared"), text.as_bytes(), (Keep::Durable, Readers::Owner))?;
    }
    let standing = accepted.incarnation.unwrap_or_default();
    // Beside the signed part of the answer: a false one must not lead us where no register is taken.
    if standing.value() > JUMP_MAX {
        return Err(Failure::failed(format!(
            "the answer says that we stand at incarnation {}, which nobody reaches",
            standing.value()
        )));
    }
    Ok(standing)
}

/// `keys/enrolment-nonce.key`: how far this machine came with an invitation. A join that was cut off,
/// or whose answer was lost, asks the same again; one that is repeated later is done already.
struct Enrolment {
    nonce: String,
    /// Hex SHA-256 of the invitation's secret, as the journal has it too.
    invitation: String,
    answered: bool,
}

impl Enrolment {
    fn begun(disk: &Disk<'_>, invite: &Invite) -> Result<Enrolment, Failure> {
        let invitation = secret_sha256(&invite.secret);
        let held = disk.read_text(&disk.layout.key("enrolment-nonce"))?.unwrap_or_default();
        let words: Vec<&str> = held.split_whitespace().collect();
        if let [nonce, of, rest @ ..] = words.as_slice()
            && *of == invitation
        {
            let answered = rest == ["answered"];
            return Ok(Enrolment { nonce: (*nonce).to_owned(), invitation, answered });
        }
        let begun = Enrolment { nonce: hex_chance(disk)?, invitation, answered: false };
        begun.store(disk)?;
        Ok(begun)
    }

    fn store(&self, disk: &Disk<'_>) -> Result<(), Failure> {
        let answered = if self.answered { " answered" } else { "" };
        let text = format!("{} {}{answered}\n", self.nonce, self.invitation);
        let path = disk.layout.key("enrolment-nonce");
        disk.put(&path, text.as_bytes(), (Keep::Durable, Readers::Owner))
    }
}
