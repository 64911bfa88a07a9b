//! `POST /merge`: a branch comes back. Its head is judged like every signed request, its lines each
//! by itself: a bad one is told and stops none of the others.

use super::rules::check_said;
use super::{Desk, anchor_identity, authenticate, check_nonce, unavailable};
use crate::auth::envelope::{self, Envelope};
use crate::auth::gate::{Refusal, SKEW_S_MAX, check_ts};
use crate::auth::json;
use crate::config::Config;
use crate::host::Host;
use crate::journal::branch::{MERGE_BYTES_MAX, MERGE_LINES_MAX, Run, Twig, one_run};
use crate::journal::line::SUBMITTED_BYTES_MAX;
use crate::journal::merged::{MERGED_KINDS, Merge, Merged};
use crate::journal::merkle::Hash;
use crate::journal::nonces::PER_NODE_MAX;
use crate::journal::record::Record;
use crate::journal::replay::submitted;
use crate::journal::statement::MergeHead;
use crate::protocol::member::NodeId;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::used_nonces::UsedNonces;
use crate::store::view::View;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The kind under which a head is signed, and the path it is posted to.
pub const KIND: &str = "merge";

/// What became of one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It is in the journal now, in this line.
    Merged(u64),
    /// It was there already, or it says less than what is there: `seq` of that line.
    Held(u64),
    /// No branch brings such a line: an anchor wrote it, or it changes a key. Its kind.
    Skipped(String),
    /// It may not be merged, and why.
    Refused(String),
}

/// What became of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Brought {
    /// The fate of each line, in order.
    pub lines: Vec<Fate>,
    /// The signed checkpoint that covers them.
    pub checkpoint: String,
}

/// One signed head and the lines it speaks of.
pub fn merge(host: &dyn Host, config: &Config, body: &[u8]) -> Result<Brought, Refusal> {
    let (envelope, lines) = parse(body)?;
    let node =
        NodeId::parse(&envelope.node).map_err(|error| Refusal::Malformed(error.to_string()))?;
    let disk = Disk { host, layout: &config.layout };
    let identity = anchor_identity(&disk)?;
    envelope.expect_for(&identity.origin).map_err(Refusal::Malformed)?;
    let published = View::open(disk).map_err(unavailable)?;
    let now_s = host.clock().wall_ms / 1_000;
    authenticate((&disk, &published.fold), (KIND, &envelope, &node), now_s)?;
    envelope.agrees(&identity.origin).map_err(Refusal::Malformed)?;

    let desk = Desk::for_request(disk, config)?;
    let (fold, times) = (desk.ledger.fold(), desk.times.clone());
    authenticate((&disk, fold), (KIND, &envelope, &node), times.keys_s)?;
    check_ts(envelope.ts, times.gate_s)?;
    let mut used = UsedNonces::load(&disk, times.gate_s).map_err(unavailable)?;
    check_nonce(fold, &used, (&node, &envelope), times.gate_s)?;
    times.expect_safe(&used, (&node, envelope.ts))?;
    let (head, run) = of_one_mind(&envelope, lines)?;
    let judged = judge(&desk, &node, &run);
    if !judged.fresh.is_empty()
        && let Some(wait_s) = fold.pace.wait_merge_s(&node, head.count, times.line_s)
    {
        return Err(Refusal::TooMany(format!("{node} writes too fast, try again in {wait_s} s")));
    }
    used.add(&disk, (&node, &envelope.nonce, envelope.ts), times.gate_s).map_err(unavailable)?;
    for merged in judged.fresh.iter().filter(|_| times.keeps_nonces_of_lines()) {
        let Some((node, nonce, ts)) = submitted(&merged.said) else { continue };
        if ts.saturating_add(SKEW_S_MAX) >= times.gate_s {
            used.add(&disk, (node, nonce, ts), times.gate_s).map_err(unavailable)?;
        }
    }
    settle(desk, head, judged)
}

/// The head, and the bytes after its line.
fn parse(body: &[u8]) -> Result<(Envelope, &[u8]), Refusal> {
    let end = body.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or_else(|| Refusal::Malformed("no line after the head".to_owned()))?;
    let envelope = envelope::parse(&body[..end]).map_err(Refusal::Malformed)?;
    let lines = &body[end + 1..];
    let count = lines.iter().filter(|byte| **byte == b'\n').count();
    if count > MERGE_LINES_MAX {
        let why = format!("{count} lines, at most {MERGE_LINES_MAX} in one request");
        return Err(Refusal::TooLarge(why));
    }
    if lines.len() > MERGE_BYTES_MAX {
        let why =
            format!("{} bytes of lines, at most {MERGE_BYTES_MAX} in one request", lines.len());
        return Err(Refusal::TooLarge(why));
    }
    Ok((envelope, lines))
}

/// The lines must be the ones that the head was signed for.
fn of_one_mind(envelope: &Envelope, lines: &[u8]) -> Result<(MergeHead, Run), Refusal> {
    let head: MergeHead = serde_json::from_str(&envelope.payload)
        .map_err(|error| Refusal::Malformed(format!("the payload is no {KIND}: {error}")))?;
    let run = one_run(lines).map_err(Refusal::Malformed)?;
    let differs = |what: &str, said: String, found: String| {
        Err(Refusal::Malformed(format!("{what} {said} is signed, the lines have {found}")))
    };
    let count = run.lines().len() as u64;
    if head.fork != run.fork() {
        return differs("fork", head.fork.to_string(), format!("{} in line 1", run.fork()));
    }
    if head.count != count {
        return differs("count", head.count.to_string(), count.to_string());
    }
    if head.head != run.head() {
        let found = format!("{} in line {count}", run.head());
        return differs("head", head.head.to_string(), found);
    }
    Ok((head, run))
}

/// What is to become of the lines.
struct Judged {
    fates: Vec<Fate>,
    fresh: Vec<Merged>,
}

fn judge(desk: &Desk<'_>, poster: &NodeId, run: &Run) -> Judged {
    // The merge line comes first.
    let first = desk.ledger.tip().size + 1;
    let (mut fates, mut fresh) = (Vec::new(), Vec::new());
    let mut seen: BTreeMap<Hash, u64> = BTreeMap::new();
    for twig in run.lines() {
        fates.push(match admit(desk, poster, twig) {
            Err(fate) => fate,
            Ok(merged) => {
                let next = first + fresh.len() as u64;
                let word = merged.word();
                let seq = *seen.entry(word).or_insert_with(|| {
                    fresh.push(merged);
                    next
                });
                Fate::Merged(seq)
            }
        });
    }
    Judged { fates, fresh }
}

/// One line: by whom, for us, and of what a member may say. That it is old, or stale, is no reason
/// against it: where it counts is decided by the fold, in the same way in every order.
fn admit(desk: &Desk<'_>, poster: &NodeId, twig: &Twig) -> Result<Merged, Fate> {
    let (merged, node, envelope) = as_signed(&desk.identity.origin, twig)?;
    let refused = |why: String| Fate::Refused(why);
    let fold = desk.ledger.fold();
    let request = (twig.line.kind.as_str(), &envelope, &node);
    let key = authenticate((&desk.disk, fold), request, desk.times.keys_s)
        .map_err(|refusal| refused(refusal.to_string()))?;
    let kid = twig.line.author.as_ref().map(|author| author.kid.as_str()).unwrap_or_default();
    if key.kid != kid {
        return Err(refused(format!("signed with key {}, not {kid}", key.kid)));
    }
    check_said(desk.config, fold, &merged.said).map_err(refused)?;
    if let Some(seq) = fold.holds(&merged) {
        return Err(Fate::Held(seq));
    }
    // What a member said is kept where it brings it itself. From others only what counts comes in:
    // anybody could bring all that everybody ever said.
    if fold.has_passed(&merged) || (*poster != node && fold.outdoes(&merged)) {
        let member = fold.membership.member(&node);
        return Err(Fate::Held(member.map_or(0, |member| member.last_line)));
    }
    let in_time = envelope.ts.saturating_add(SKEW_S_MAX) >= desk.times.gate_s;
    if in_time && fold.nonces.count(&node) >= PER_NODE_MAX {
        return Err(refused(format!("too many words of {node} inside {SKEW_S_MAX} s")));
    }
    Ok(merged)
}

/// A line of a branch as the request that its author would have posted, well-formed and said for
/// this federation; whether the signature holds, and what it says, is looked at next.
pub(in crate::cycle) fn as_signed(
    origin: &str,
    twig: &Twig,
) -> Result<(Merged, NodeId, Envelope), Fate> {
    let line = &twig.line;
    let Some(author) = line.author.as_ref().filter(|_| MERGED_KINDS.contains(&line.kind.as_str()))
    else {
        return Err(Fate::Skipped(line.kind.clone()));
    };
    let refused = |why: String| Fate::Refused(why);
    if twig.raw.len() > SUBMITTED_BYTES_MAX {
        let why = format!("the line has {} bytes, limit {SUBMITTED_BYTES_MAX}", twig.raw.len());
        return Err(refused(why));
    }
    json::check_object(&line.payload)
        .map_err(|error| refused(format!("the payload is not strict JSON: {error}")))?;
    let merged = Merged::of(line.clone())
        .ok_or_else(|| refused(format!("the payload is no {}", line.kind)))?;
    let (node, nonce, ts) = submitted(&merged.said)
        .map(|(node, nonce, ts)| (node.clone(), nonce.to_owned(), ts))
        .ok_or_else(|| refused("nobody says it".to_owned()))?;
    if !envelope::is_nonce(&nonce) {
        return Err(refused("its nonce is none".to_owned()));
    }
    let envelope = Envelope {
        mode: author.alg.clone(),
        node: node.to_string(),
        nonce,
        ts,
        payload: line.payload.clone(),
        sig: Some(author.sig.clone()),
        proof: None,
    };
    envelope.agrees(origin).map_err(refused)?;
    Ok((merged, node, envelope))
}

fn settle(desk: Desk<'_>, head: MergeHead, judged: Judged) -> Result<Brought, Refusal> {
    let Judged { fates, fresh } = judged;
    let accepted = if fresh.is_empty() {
        let last = desk.ledger.tip().size.saturating_sub(1);
        desk.told(last)
    } else {
        let MergeHead { fork, head, node, count, .. } = head;
        let merge = Record::Merge(Merge { fork, head, node, count });
        let lines = fresh.into_iter().map(|merged| Record::Merged(Box::new(merged)));
        let drafts: Vec<Draft> = std::iter::once(merge).chain(lines).map(Draft::from).collect();
        let last = drafts.len() as u64 - 1;
        desk.commit(drafts, last)
    };
    let checkpoint = accepted.map_err(unavailable)?.checkpoint;
    Ok(Brought { lines: fates, checkpoint })
}
