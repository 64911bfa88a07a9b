//! A signed request becomes a line, or is refused with nothing changed.
//!
//! parse → key → signature → ts → nonce → rules → append → publish → answer, all of it after the
//! signature under the append lock, so that of 64 copies at once one makes the line and 63 meet its
//! nonce.

mod clock;
mod merging;
mod rules;

use clock::Times;
pub(super) use merging::as_signed;
pub use merging::{Brought, Fate, KIND as MERGE, merge};
pub(super) use rules::{check_announced, check_said, refutation};

use super::handover;
use super::looking;
use super::publish;
use super::rounds::take_lock;
use super::witnesses::{self, Whom};
use crate::auth::envelope::{self, Envelope};
use crate::auth::gate::{Key, Refusal, SKEW_S_MAX, check_ts};
use crate::auth::keys;
use crate::config::Config;
use crate::error::{Failure, Kind};
use crate::host::{Host, Lock};
use crate::journal::keyring::KeyRecord;
use crate::journal::line::{Author, SUBMITTED_BYTES_MAX};
use crate::journal::merkle::Hash;
use crate::journal::nonces::PER_NODE_MAX;
use crate::journal::record::Record;
use crate::journal::replay::Fold;
use crate::protocol::member::{Incarnation, NodeId};
use crate::protocol::memory::Memory;
use crate::protocol::route::Local;
use crate::store::accepted_clock::AcceptedClock;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::Identity;
use crate::store::ledger::{Ledger, Mend, Release};
use crate::store::log_keys;
use crate::store::shared_keys;
use crate::store::used_nonces::UsedNonces;
use crate::store::view::View;
use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What an accepted request is answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Index of the line it made, or of the one that says the same already.
    pub seq: u64,
    /// Leaf hash of that line.
    pub hash: Hash,
    /// The signed checkpoint that covers it.
    pub checkpoint: String,
    /// After an enrolment: where the node stands, so that a new machine goes on above a lost one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
}

/// How long a request waits for the append lock.
const REQUEST_PATIENCE: Duration = Duration::from_secs(1);

/// How long a request waits for witnesses.
const WITNESS_MS: u64 = 2_000;

/// Kinds of line that members submit.
pub const KINDS: [&str; 4] = ["register", "leave", "drain", "rotate"];

/// The anchor's side of one signed write: everything it needs, held while it decides.
pub(super) struct Desk<'a> {
    pub(super) disk: Disk<'a>,
    pub(super) config: &'a Config,
    pub(super) identity: Identity,
    pub(super) ledger: Ledger<'a>,
    pub(super) times: Times,
    _append: Lock,
}

impl<'a> Desk<'a> {
    /// For a member's request: refuses at once where signed writes are not safe, since the one
    /// thread that serves may not wait for long.
    pub(super) fn for_request(disk: Disk<'a>, config: &'a Config) -> Result<Desk<'a>, Refusal> {
        let wall_s = disk.host.clock().wall_ms / 1_000;
        let desk = Desk::open(disk, config, REQUEST_PATIENCE).map_err(unavailable)?;
        desk.times.expect_near(wall_s)?;
        Ok(desk)
    }

    /// Takes the append lock and opens the journal; after a boot or a gap asks the members first
    /// whether it is the newest copy.
    pub(super) fn open(
        disk: Disk<'a>,
        config: &'a Config,
        patience: Duration,
    ) -> Result<Desk<'a>, Failure> {
        looking::before_signing(&disk, config)?;
        let busy = || Failure::new(Kind::Busy, "another process works on the journal");
        let append = take_lock(disk.host, &config.layout.state(), patience)?.ok_or_else(busy)?;
        let identity = Identity::require(&disk)?;
        let ledger = Ledger::open(disk, &identity, Mend::Yes)?;
        ledger.expect_begun()?;
        handover::expect_none(&identity, ledger.fold())?;
        let last_s = ledger.tip().ts;
        let wall_s = disk.host.clock().wall_ms / 1_000;
        let times = Times::of(wall_s, last_s, AcceptedClock::load(&disk)?);
        Ok(Desk { disk, config, identity, ledger, times, _append: append })
    }

    /// Appends, signs, publishes the map, and answers with the line that `answer_at` names counted
    /// from the first new one.
    pub(super) fn commit(
        mut self,
        drafts: Vec<Draft>,
        answer_at: u64,
    ) -> Result<Accepted, Failure> {
        let first = self.ledger.tip().size;
        // Before the commit: what cannot be signed must not become a line.
        self.log_keys()?;
        self.ledger.append(drafts, self.times.line_s)?;
        self.tell(first + answer_at)
    }

    /// The answer for a line that is committed. Whatever becomes of the rest, the line is there: a
    /// failure says so.
    fn tell(mut self, seq: u64) -> Result<Accepted, Failure> {
        let there = |failure: Failure| Failure {
            message: format!(
                "line {seq} is committed and the next tick publishes it: {}",
                failure.message
            ),
            ..failure
        };
        self.publish().map_err(there)?;
        if witnesses::release(self.config) == Release::AtOnce {
            return View::open(self.disk).and_then(|view| answer(&view, seq)).map_err(there);
        }
        let (disk, config) = (self.disk, self.config);
        // Others may write while a witness takes its time.
        drop(self);
        let until = disk.host.clock().boot_ms + WITNESS_MS;
        witnesses::ask(disk, config, Whom::Required, until).map_err(there)?;
        let view = View::open(disk).map_err(there)?;
        if seq < view.checkpoint.size {
            return answer(&view, seq);
        }
        let missing = witnesses::missing(&disk, config)?.join(", ");
        Err(Failure::failed(format!("line {seq} is committed, waiting for witness {missing}"))
            .hint("readers see it once that witness has cosigned; the next tick asks again"))
    }

    fn publish(&mut self) -> Result<(), Failure> {
        let keys = self.log_keys()?;
        if self.ledger.publish_by(&keys, witnesses::release(self.config))? {
            let (fold, floor) = (self.ledger.fold(), self.ledger.floor());
            self.identity.follow(&self.disk, fold, &floor.note)?;
        }
        let memory: Option<Memory> = self
            .disk
            .read(&self.config.layout.tick())?
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let generation = memory.map_or(0, |memory| memory.generation);
        let shown = publish::Shown {
            origin: &self.identity.origin,
            membership: &self.ledger.fold().membership,
            local: &Local::default(),
            size: self.ledger.floor().size,
            root: self.ledger.floor().root,
            generation,
        };
        publish::map(&self.disk, &shown).map(|_| ())
    }

    /// The answer for a line that is there already. One that a crash kept from being published is
    /// published first: who asks again must not have to wait for a tick.
    pub(super) fn told(self, seq: u64) -> Result<Accepted, Failure> {
        let view = View::open(self.disk)?;
        if view.checkpoint.size <= seq {
            return self.tell(seq);
        }
        answer(&view, seq)
    }

    fn log_keys(&self) -> Result<Vec<SigningKey>, Failure> {
        log_keys::signing(&self.disk, &self.identity, self.ledger.fold(), self.times.line_s)
    }
}

fn answer(view: &View<'_>, seq: u64) -> Result<Accepted, Failure> {
    let placed = view.line(seq)?;
    let member = match Record::of(&placed.line) {
        Record::Enroll(enroll) => view.fold.membership.member(&enroll.node),
        _ => None,
    };
    let incarnation = member.map(|member| member.standing.incarnation);
    Ok(Accepted { seq, hash: placed.leaf, checkpoint: view.note.clone(), incarnation })
}

/// One signed request of a kind in [`KINDS`].
pub fn submit(
    host: &dyn Host,
    config: &Config,
    kind: &str,
    body: &[u8],
) -> Result<Accepted, Refusal> {
    let envelope = envelope::parse(body).map_err(Refusal::Malformed)?;
    let node =
        NodeId::parse(&envelope.node).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let disk = Disk { host, layout: &config.layout };
    let identity = anchor_identity(&disk)?;
    envelope.expect_for(&identity.origin).map_err(Refusal::Malformed)?;
    // A forged request is turned away on what is published already, without holding the lock.
    let published = View::open(disk).map_err(unavailable)?;
    let now_s = host.clock().wall_ms / 1_000;
    authenticate((&disk, &published.fold), (kind, &envelope, &node), now_s)?;
    envelope.agrees(&identity.origin).map_err(Refusal::Malformed)?;

    let desk = Desk::for_request(disk, config)?;
    let (fold, times) = (desk.ledger.fold(), &desk.times);
    let key = authenticate((&disk, fold), (kind, &envelope, &node), times.keys_s)?;
    check_ts(envelope.ts, times.gate_s)?;
    let mut used = UsedNonces::load(&disk, times.gate_s).map_err(unavailable)?;
    check_nonce(fold, &used, (&node, &envelope), times.gate_s)?;
    expect_remembered(&used, times.gate_s)?;
    times.expect_safe(&used, (&node, envelope.ts))?;
    let record = Record::read(kind, &envelope.payload);
    if record == Record::Unknown {
        return Err(Refusal::Malformed(format!("the payload is no {kind}: see docs/formats.md")));
    }
    let once = (&node, envelope.nonce.as_str(), envelope.ts);
    if let Some(seq) = rules::of(&desk, &record, &key)? {
        used.add(&disk, once, times.gate_s).map_err(unavailable)?;
        return desk.told(seq).map_err(unavailable);
    }
    let draft = submitted(&desk, (kind, &envelope, &node), key)?;
    if times.keeps_nonces_of_lines() {
        // Before the line: one that is not remembered could be sent again.
        used.add(&disk, once, times.gate_s).map_err(unavailable)?;
    }
    desk.commit(vec![draft], 0).map_err(unavailable)
}

/// The line that a request becomes, if its member does not write too fast or too much.
fn submitted(
    desk: &Desk<'_>,
    (kind, envelope, node): (&str, &Envelope, &NodeId),
    key: KeyRecord,
) -> Result<Draft, Refusal> {
    let (fold, times) = (desk.ledger.fold(), &desk.times);
    // Whoever wants to go may, however fast it wrote before. Lines that are all of one time tell
    // nothing about how fast they came.
    let paced = kind != "leave" && !times.keeps_nonces_of_lines();
    if let Some(wait_s) = fold.pace.wait_s(node, times.line_s).filter(|_| paced) {
        return Err(Refusal::TooMany(format!("{node} writes too fast, try again in {wait_s} s")));
    }
    let sig = envelope.sig.clone().unwrap_or_default();
    let author = Author { alg: key.alg, kid: key.kid, sig };
    let draft = Draft::submitted(kind, &envelope.payload, author);
    let bytes = desk.ledger.size_of(&draft, times.line_s);
    if bytes > SUBMITTED_BYTES_MAX {
        return Err(Refusal::TooLarge(format!(
            "the line would have {bytes} bytes, limit {SUBMITTED_BYTES_MAX}"
        )));
    }
    Ok(draft)
}

pub(super) fn anchor_identity(disk: &Disk<'_>) -> Result<Identity, Refusal> {
    let identity = Identity::require(disk).map_err(unavailable)?;
    if !identity.is_anchor() {
        let anchor = identity.anchors.first().cloned().unwrap_or_default();
        return Err(Refusal::Unavailable(format!("this node is not the anchor: ask {anchor}")));
    }
    Ok(identity)
}

/// The key record under which the signature holds.
pub(super) fn authenticate(
    (disk, fold): (&Disk<'_>, &Fold),
    (kind, envelope, node): (&str, &Envelope, &NodeId),
    now_s: u64,
) -> Result<KeyRecord, Refusal> {
    let held = fold
        .keys
        .of(node)
        .ok_or_else(|| Refusal::Unknown(format!("no key of '{node}' is enrolled")))?;
    if held.revoked {
        return Err(Refusal::Unknown(format!("the key of '{node}' was revoked")));
    }
    for record in fold.keys.valid(node, now_s) {
        let key = load_key(disk, node, record)?;
        if key.is_some_and(|key| key.verifies(kind, envelope)) {
            return Ok(record.clone());
        }
    }
    Err(Refusal::Signature)
}

fn load_key(disk: &Disk<'_>, node: &NodeId, record: &KeyRecord) -> Result<Option<Key>, Refusal> {
    match &record.key {
        Some(public) => Ok(keys::parse_public(public).ok().map(Key::Ed25519)),
        None => shared_keys::find(disk, (node, &record.kid))
            .map(|key| key.map(Key::Hmac))
            .map_err(unavailable),
    }
}

fn check_nonce(
    fold: &Fold,
    used: &UsedNonces,
    (node, envelope): (&NodeId, &Envelope),
    now_s: u64,
) -> Result<(), Refusal> {
    if let Some(seq) = fold.nonces.line_of(node, &envelope.nonce) {
        return Err(Refusal::Replay(format!("nonce used: it made line {seq}")));
    }
    if used.holds(node, &envelope.nonce, envelope.ts) {
        return Err(Refusal::Replay(
            "nonce used: that request was answered and made no line".to_owned(),
        ));
    }
    if used.is_full(node, now_s) || fold.nonces.count(node) >= PER_NODE_MAX {
        return Err(Refusal::Unavailable(format!(
            "too many requests of {node} inside {SKEW_S_MAX} s"
        )));
    }
    Ok(())
}

/// Where it is not known what was answered before, a recorded request could be taken again until its
/// time is over. What can only be taken once whenever it comes, such as what a merge brings or a
/// higher incarnation, does not wait.
fn expect_remembered(used: &UsedNonces, now_s: u64) -> Result<(), Refusal> {
    let Some(wait_s) = used.wait_s(now_s) else { return Ok(()) };
    Err(Refusal::Unavailable(format!(
        "what was answered before is not known here (another anchor took over, or used-nonces.log was lost): signed writes wait {wait_s} s more"
    )))
}

/// A failure of ours is never the sender's: it is told that we cannot now, and may try again.
pub(super) fn unavailable(failure: Failure) -> Refusal {
    Refusal::Unavailable(failure.message)
}
