//! The fold: journal lines in order, state out. Whole federations replay from bytes alone.

use super::keyring::{KeyRecord, KeyRing};
use super::line::Line;
use super::merged::{Merged, MergedWords};
use super::nonces::Nonces;
use super::pace::Pace;
use super::record::{Anchor, Drain, Enroll, Genesis, Record, Rotate};
use crate::auth::vkey::VerifierKey;
use crate::auth::{keys, pae};
use crate::protocol::member::{Liveness, NodeId, Standing};
use crate::protocol::membership::{Drained, Member, Membership};
use crate::protocol::service::ServiceName;
use crate::protocol::word::{Digest, Word};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How long the log key before signs along, in seconds: a member may be away for some days and
/// still recognises the checkpoint under the key it knows.
pub const LOG_KEY_OVERLAP_S: u64 = 7 * 86_400;

/// Which log keys sign checkpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogKeys {
    /// 0 for the founder's, one more at every change.
    pub epoch: u64,
    /// The verifier key in force.
    pub vkey: String,
    /// The one before, and until when it signs along.
    pub before: Option<(String, u64)>,
    /// Who serialises, where that is no more the founder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succession: Option<Succession>,
}

/// A node that took over from the one that serialised before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Succession {
    /// Who.
    pub anchor: NodeId,
    /// Where it answers.
    pub urls: Vec<String>,
    /// `seq` of the line that says so.
    pub line: u64,
}

impl LogKeys {
    fn first(vkey: &str) -> Self {
        LogKeys { epoch: 0, vkey: vkey.to_owned(), before: None, succession: None }
    }

    /// The key in force and the one before, whose last checkpoint may be all that a copy shows.
    pub fn named(&self) -> impl Iterator<Item = VerifierKey> + '_ {
        let before = self.before.as_ref().map(|(vkey, _)| vkey);
        std::iter::once(&self.vkey).chain(before).filter_map(|vkey| VerifierKey::parse(vkey).ok())
    }

    /// Verifier keys that sign at `now_s`, the one in force first.
    pub fn signing(&self, now_s: u64) -> Vec<&str> {
        let before = self.before.as_ref().filter(|(_, until_s)| now_s < *until_s);
        std::iter::once(self.vkey.as_str()).chain(before.map(|(vkey, _)| vkey.as_str())).collect()
    }
}

/// Everything the journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fold {
    /// The federation and its first anchor.
    pub genesis: Option<Genesis>,
    /// The log keys in force.
    pub log: Option<LogKeys>,
    /// All members and roster rows.
    pub membership: Membership,
    /// The keys that speak for enrolled nodes.
    pub keys: KeyRing,
    /// Service → nodes it is bound to.
    pub grants: BTreeMap<ServiceName, BTreeSet<NodeId>>,
    /// Nonces a replay could still carry.
    pub nonces: Nonces,
    /// How fast members write.
    pub pace: Pace,
    /// Lines taken in.
    #[serde(default)]
    pub lines: u64,
    /// What came out of branches.
    #[serde(default)]
    pub merged: MergedWords,
    /// Lines kept but not understood: written by a newer version.
    pub not_understood: u64,
}

impl Fold {
    /// Takes in the next line.
    pub fn apply(&mut self, line: &Line) {
        let record = Record::of(line);
        self.lines = line.seq + 1;
        if let Some((node, nonce, ts)) = submitted(&record) {
            self.nonces.remember(node, nonce, (ts, line.seq), line.ts);
            self.pace.spend(node, line.ts);
        }
        let (seq, membership) = (line.seq, &mut self.membership);
        match record {
            Record::Genesis(genesis) => {
                self.log = Some(LogKeys::first(&genesis.vkey));
                self.genesis = Some(genesis);
            }
            Record::Anchor(anchor) => self.follow(anchor, line),
            Record::Enroll(enroll) => self.enrol(enroll, seq),
            Record::Register(register) => {
                let digest = Digest::of(line.payload.as_bytes());
                membership.register_signed(register.into(), (digest, seq));
            }
            Record::Leave(leave) => {
                let standing =
                    Standing { liveness: Liveness::Left, incarnation: leave.incarnation };
                membership.judge(&leave.node, standing, seq);
            }
            Record::Drain(drain) => {
                let word = drain_word(&drain, &line.payload);
                membership.drain(&drain.node, drained(&drain), (word, seq));
            }
            Record::Rotate(rotate) => self.rotate(rotate, line.ts),
            Record::Grant(grant) if grant.on => self.bind(grant.service, grant.node),
            Record::Grant(grant) => {
                self.grants.entry(grant.service).or_default().remove(&grant.node);
            }
            Record::Revoke(revoke) => self.revoke(&revoke.node, seq),
            Record::Roster(roster) => membership.list(roster.into(), seq),
            Record::Verdict(verdict) => match &verdict.service {
                Some(service) => {
                    membership.judge_service(&verdict.node, service, (verdict.to, seq));
                }
                None => membership.judge(&verdict.node, verdict.standing(), seq),
            },
            Record::Reap(reap) => membership.reap(&reap.node, seq),
            Record::Merge(merge) => self.pace.spend_merge(&merge.node, merge.count, line.ts),
            Record::Merged(merged) => self.merge(*merged, line),
            Record::Unknown => self.not_understood += 1,
        }
    }

    /// A line of a branch. It counts by its incarnation alone: its time is its author's, and its
    /// place is where the anchor met it.
    fn merge(&mut self, merged: Merged, line: &Line) {
        let (word, seq) = (merged.word(), line.seq);
        if let Some((node, nonce, ts)) = submitted(&merged.said) {
            // The same statement, posted by itself, is a replay for as long as it is in time.
            self.nonces.remember(node, nonce, (ts, seq), line.ts);
            self.merged.remember(node, word, seq);
        }
        let digest = Digest::of(merged.line.payload.as_bytes());
        let membership = &mut self.membership;
        match merged.said {
            Record::Register(register) => {
                membership.merge_register(register.into(), &self.grants, (digest, seq));
            }
            Record::Leave(leave) => membership.merge_leave(&leave.node, leave.incarnation, seq),
            Record::Drain(drain) => {
                let word = drain_word(&drain, &merged.line.payload);
                membership.merge_drain(&drain.node, drained(&drain), (word, seq));
            }
            _ => self.not_understood += 1,
        }
    }

    /// The line that holds what a line of a branch says: it came out of a branch before, or its
    /// author had told the anchor itself.
    pub fn holds(&self, branched: &Merged) -> Option<u64> {
        let (node, nonce, _) = submitted(&branched.said)?;
        let merged = self.merged.line_of(node, branched.word());
        merged.or_else(|| self.nonces.line_of(node, nonce))
    }

    /// Whether the journal says as much as a line of a branch, or more, so that to merge it would
    /// change nothing.
    pub fn outdoes(&self, branched: &Merged) -> bool {
        let digest = Digest::of(branched.line.payload.as_bytes());
        let member = branched.node().and_then(|node| self.membership.member(node));
        let Some(member) = member else { return false };
        match &branched.said {
            Record::Register(register) => {
                let word = Word::said(register.incarnation, digest);
                let rival = member.rivals().any(|rival| *rival == digest);
                rival || word == member.word() || word.incarnation < member.word().incarnation
            }
            Record::Leave(leave) => {
                let left = Standing { liveness: Liveness::Left, incarnation: leave.incarnation };
                !member.standing.superseded_by(left)
            }
            Record::Drain(drain) => {
                drain_word(drain, &branched.line.payload) <= member.drain_word()
            }
            _ => false,
        }
    }

    /// Whether a line of a branch may be one that came in so long ago that it is forgotten. What it
    /// says changes nothing, so nobody writes it again.
    pub fn has_passed(&self, branched: &Merged) -> bool {
        let forgotten = branched.node().is_some_and(|node| self.merged.are_full(node));
        forgotten && self.outdoes(branched)
    }

    fn enrol(&mut self, enroll: Enroll, seq: u64) {
        self.membership.enrol(&enroll.node, seq);
        for service in enroll.services {
            self.bind(service, enroll.node.clone());
        }
        let record = KeyRecord { alg: enroll.alg, kid: enroll.kid, key: enroll.key };
        self.keys.enrol(&enroll.node, record, enroll.invite.zip(enroll.nonce), seq);
    }

    /// The first binding of a name takes nothing from those who offer it already: they are bound too.
    fn bind(&mut self, service: ServiceName, node: NodeId) {
        let offering = |member: &Member| member.services.iter().any(|held| held.name == service);
        let nodes = self.grants.entry(service.clone()).or_default();
        if nodes.is_empty() {
            let members = self.membership.members();
            nodes.extend(members.filter(|(_, m)| offering(m)).map(|(id, _)| id.clone()));
        }
        nodes.insert(node);
    }

    fn rotate(&mut self, rotate: Rotate, now_s: u64) {
        let Ok(key) = keys::parse_public(&rotate.key) else {
            return;
        };
        let kid = keys::kid(rotate.node.as_str(), &key);
        let record = KeyRecord { alg: rotate.alg, kid, key: Some(rotate.key) };
        self.keys.rotate(&rotate.node, record, now_s);
    }

    /// Epochs count up by one. Where the log key before signed the change itself, it still signs
    /// along for a while; where the recovery key did, it is lost or in wrong hands.
    fn follow(&mut self, anchor: Anchor, line: &Line) {
        let recovery = self.recovery_kid();
        let kid = line.author.as_ref().map(|author| author.kid.clone());
        if let Some(log) = self.log.as_mut().filter(|log| anchor.epoch == log.epoch + 1) {
            let before = std::mem::replace(&mut log.vkey, anchor.vkey);
            let recovered = kid.is_some() && kid == recovery;
            log.before = (!recovered).then_some((before, line.ts + LOG_KEY_OVERLAP_S));
            log.epoch = anchor.epoch;
            if let Some(node) = anchor.anchor {
                log.succession =
                    Some(Succession { anchor: node, urls: anchor.urls, line: line.seq });
            }
        }
    }

    /// The key id of the recovery key.
    pub fn recovery_kid(&self) -> Option<String> {
        self.genesis.as_ref().and_then(|genesis| kid_of(&genesis.recovery))
    }

    /// Who serialises now.
    pub fn anchor(&self) -> Option<&NodeId> {
        let successor = self.log.as_ref().and_then(|log| log.succession.as_ref());
        let founder = self.genesis.as_ref().map(|genesis| &genesis.anchor);
        successor.map(|succession| &succession.anchor).or(founder)
    }

    fn revoke(&mut self, node: &NodeId, seq: u64) {
        self.keys.revoke(node);
        let held = self.membership.member(node).map(|member| member.standing);
        if let Some(standing) = held {
            self.membership.judge(node, Standing { liveness: Liveness::Revoked, ..standing }, seq);
        }
    }

    /// Checks, before [`Fold::apply`], that a line carries the signature its kind asks for. A line
    /// of a member with a shared key rests on the checkpoint alone: `Ok(false)`.
    pub fn check_author(&self, line: &Line) -> Result<bool, String> {
        let record = Record::of(line);
        if let Record::Merged(merged) = &record {
            return self.check_signed((&merged.line, &merged.said), line.ts);
        }
        self.check_signed((line, &record), line.ts)
    }

    /// The same of a line that stands in the journal since `now_s`, itself or in another.
    fn check_signed(&self, (line, record): (&Line, &Record), now_s: u64) -> Result<bool, String> {
        let author = line.author.as_ref();
        let (kid, key) = match (record, submitted(record)) {
            (Record::Genesis(genesis), _) => {
                let vkey = VerifierKey::parse(&genesis.vkey).map_err(|e| e.to_string())?;
                (keys::kid(&genesis.origin, vkey.key()), *vkey.key())
            }
            (Record::Anchor(anchor), _) => {
                let held = self.log.as_ref().ok_or("no genesis before it")?;
                expect_possession(anchor)?;
                if anchor.epoch != held.epoch + 1 {
                    return Err(format!("epoch {}, expected {}", anchor.epoch, held.epoch + 1));
                }
                if anchor.anchor.is_some() && anchor.urls.is_empty() {
                    return Err("it names a node that serialises, and no URL of it".to_owned());
                }
                let recovery = self.genesis.as_ref().map(|genesis| genesis.recovery.as_str());
                let by_recovery =
                    recovery.filter(|vkey| kid_of(vkey) == author.map(|author| author.kid.clone()));
                let signer = by_recovery.unwrap_or(&held.vkey);
                let vkey = VerifierKey::parse(signer).map_err(|e| e.to_string())?;
                (keys::kid(&anchor.origin, vkey.key()), *vkey.key())
            }
            (_, Some((node, _, _))) => {
                let kid = author.map_or("", |author| author.kid.as_str());
                let valid = self.keys.valid(node, now_s);
                let record = valid
                    .into_iter()
                    .find(|record| record.kid == kid)
                    .ok_or_else(|| format!("key '{kid}' does not speak for {node} at this line"))?;
                let Some(public) = &record.key else {
                    return Ok(false);
                };
                // As enrolled: a line may spell the node's id in another case.
                (record.kid.clone(), keys::parse_public(public)?)
            }
            _ => return Ok(false),
        };
        let author = author.ok_or("this kind of line must be signed")?;
        if author.alg != keys::ED25519 || author.kid != kid {
            return Err(format!(
                "signed with {} key {}, which is not the one enrolled",
                author.alg, author.kid
            ));
        }
        if !keys::verify(&key, &pae::encode(&line.kind, &line.payload), &author.sig) {
            return Err("the signature does not fit the payload".to_owned());
        }
        Ok(true)
    }
}

fn drained(drain: &Drain) -> Option<Drained> {
    drain.on.then(|| drain.until.map_or(Drained::Open, Drained::Until))
}

/// The place of a drain among those of its member. One without an incarnation has none.
fn drain_word(drain: &Drain, payload: &str) -> Word {
    drain.incarnation.map_or_else(Word::default, |incarnation| {
        Word::said(incarnation, Digest::of(payload.as_bytes()))
    })
}

/// The id under which a log or recovery key signs lines.
fn kid_of(vkey: &str) -> Option<String> {
    let vkey = VerifierKey::parse(vkey).ok()?;
    Some(keys::kid(vkey.name(), vkey.key()))
}

fn expect_possession(anchor: &Anchor) -> Result<(), String> {
    let vkey = VerifierKey::parse(&anchor.vkey).map_err(|error| error.to_string())?;
    let signed = Anchor::possession(&anchor.origin, anchor.epoch, &anchor.vkey);
    if vkey.name() == anchor.origin && keys::verify(vkey.key(), &signed, &anchor.proof) {
        return Ok(());
    }
    Err("the new log key does not show that it is held".to_owned())
}

/// Who submitted a line, with its nonce and ts; `None` for what the anchor writes itself.
pub fn submitted(record: &Record) -> Option<(&NodeId, &str, u64)> {
    match record {
        Record::Register(register) => Some((&register.node, &register.nonce, register.ts)),
        Record::Leave(leave) => Some((&leave.node, &leave.nonce, leave.ts)),
        Record::Drain(drain) => Some((&drain.node, &drain.nonce, drain.ts)),
        Record::Rotate(rotate) => Some((&rotate.node, &rotate.nonce, rotate.ts)),
        _ => None,
    }
}
