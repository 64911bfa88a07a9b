//! Sync: a member fetches the lines it lacks, and believes them only under the log's signature.
//!
//! Anybody may hand over lines, for they prove themselves: a page must chain to what we hold and
//! its root must be, or provably lead to, the one that the log's key signed. So the anchor is asked
//! first, and any other member is as good. Each run also holds one more member's checkpoint against
//! ours: whoever shows different members different histories has to fear that they talk.

use super::against::{self, Seen};
use super::crossing::{is_of_another, is_of_origin};
use super::looking::{self, Look};
use super::pull::{Copy, Says, locked};
use super::server::{ASK_MS, Server};
use crate::config::Config;
use crate::error::Failure;
use crate::journal::checkpoint::Checkpoint;
use crate::journal::merkle::Hash;
use crate::journal::note::NOTE_BYTES_MAX;
use crate::journal::replay::Fold;
use crate::protocol::registration::check_target;
use crate::store::disk::Disk;
use crate::store::floor;
use crate::store::identity::Identity;
use crate::store::ledger::{Ledger, Mend};
use crate::store::view::Published;
use crate::wire::call::{Answer, Call, Targets};
use serde::Deserialize;

/// Other members asked when no anchor answers.
const MEMBERS_ASKED: usize = 3;
/// Largest `/head` answer read.
const HEAD_BYTES_MAX: usize = 1_024;

/// What a sync did.
#[derive(Clone, Debug, Default)]
pub struct Synced {
    /// Lines under our checkpoint before.
    pub before: u64,
    /// Lines under it now.
    pub size: u64,
    /// Who gave what was missing.
    pub from: Option<String>,
    /// Whether an anchor answered at all, as one does.
    pub anchor_answered: bool,
    /// Lines that an anchor says it has, where that is more than we got.
    pub claimed: Option<u64>,
    /// What went wrong on the way, and with whom.
    pub warnings: Vec<String>,
}

/// How a sync is run.
pub struct Run<'a> {
    /// Nothing is asked after this instant of the boot clock.
    pub until_boot_ms: u64,
    /// Which other member's checkpoint is looked at: counted up from run to run.
    pub turn: u64,
    /// URLs that an operator names: looked at before any member the journal knows.
    pub from: &'a [String],
    /// Told lines held and lines wanted, after each page.
    pub progress: &'a dyn Fn(u64, u64),
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("turn", &self.turn).finish_non_exhaustive()
    }
}

/// What `/head` says; a bare claim.
#[derive(Debug, Deserialize)]
struct Head {
    size: u64,
    head: Option<Hash>,
}

/// Brings this member's journal up to date. The lock on `keys/` must be held.
///
/// # Errors
/// Kind `Integrity` where the log's own key signed two histories, or a line that its author did not
/// sign; everything else that others do wrong is a warning.
pub fn run(disk: Disk<'_>, config: &Config, run: &Run<'_>) -> Result<Synced, Failure> {
    floor::refuse_convicted(&disk)?;
    let identity = Identity::require(&disk)?;
    let ledger = locked(&disk, || {
        let mut ledger = Ledger::open(disk, &identity, Mend::Yes)?;
        ledger.finish()?;
        Ok(ledger)
    })?;
    let mut synced = Synced { before: ledger.floor().size, ..Synced::default() };
    synced.warnings.extend_from_slice(ledger.warnings());
    // Among lines that wait for the rest of their checkpoint may be the one that names another anchor:
    // then it is the one before that has the rest.
    let waiting = ledger.tip().size > ledger.floor().size;
    let before = if waiting { identity.anchors.as_slice() } else { &[] };
    let asked = ask(&disk, config, (&identity, ledger.fold(), before), run);
    let (progress, warnings) = (run.progress, Vec::new());
    let mut copy = Copy { disk, identity, ledger, progress, warnings, stranger: false };
    follow_anchors(&mut copy, &asked, &mut synced)?;
    look_at_others(&mut copy, asked, (run, &mut synced))?;
    synced.size = copy.ledger.floor().size;
    synced.claimed = synced.claimed.filter(|claimed| *claimed > synced.size);
    synced.warnings.extend(copy.warnings);
    Ok(synced)
}

/// Who was asked what at the start, and the answers.
struct Asked<'a> {
    anchors: Vec<(Server<'a>, Answer)>,
    /// Whom an operator named and the next of the other members, with their `/checkpoint`.
    shown: Vec<(Server<'a>, Answer)>,
    /// Those after it.
    others: Vec<Server<'a>>,
}

/// Asks all anchors for their head and the next other member for its checkpoint, at once.
fn ask<'a>(
    disk: &Disk<'a>,
    config: &Config,
    (identity, fold, before): (&Identity, &Fold, &[String]),
    run: &Run<'_>,
) -> Asked<'a> {
    let mut urls = anchor_urls(identity, fold);
    let before = before.iter().map(|url| url.trim_end_matches('/').to_owned());
    let more: Vec<String> = before.filter(|url| !urls.contains(url)).collect();
    urls.extend(more);
    let targets = targets(config, &urls);
    let mut others = members_urls(identity, fold);
    others.retain(|url| !urls.contains(url));
    if !others.is_empty() {
        let turn = usize::try_from(run.turn).unwrap_or_default() % others.len();
        others.rotate_left(turn);
    }
    // The anchor asks no anchor, and nobody itself, though the journal may name it by now.
    let own = fold.membership.member(&identity.id);
    urls.retain(|url| {
        !own.is_some_and(|own| own.urls.iter().any(|it| it.trim_end_matches('/') == url))
    });
    if identity.is_anchor() {
        urls.clear();
    }
    let servers = |urls: &[String], targets: Targets| -> Vec<Server<'a>> {
        let named = urls.iter().filter_map(|url| Server::named(disk.host, url).ok());
        named.map(|server| server.only(targets).until(run.until_boot_ms)).collect()
    };
    let anchors = servers(&urls, Targets::Any);
    let mut others = servers(&others, targets).into_iter();
    let shown: Vec<Server<'a>> =
        servers(run.from, Targets::Any).into_iter().chain(others.next()).collect();
    let mut calls: Vec<Call> =
        anchors.iter().map(|server| server.call("/head", HEAD_BYTES_MAX)).collect();
    calls.extend(shown.iter().map(|server| server.call("/checkpoint", NOTE_BYTES_MAX)));
    let until = run.until_boot_ms.min(disk.host.clock().boot_ms + ASK_MS);
    let mut answers = disk.host.dial(&calls, until).into_iter();
    let anchors = anchors.into_iter().zip(answers.by_ref()).collect();
    Asked { anchors, shown: shown.into_iter().zip(answers).collect(), others: others.collect() }
}

/// Where the anchor answers: as we were told when we joined, and as it registered since.
pub fn anchor_urls(identity: &Identity, fold: &Fold) -> Vec<String> {
    let member = fold.anchor().and_then(|anchor| fold.membership.member(anchor));
    let registered = member.map(|member| member.urls.as_slice()).unwrap_or_default();
    let log = fold.log.as_ref();
    let succession = log.and_then(|log| log.succession.as_ref().map(|next| (log, next)));
    let told: Vec<&String> = match succession {
        // Those that we were told when we joined are of the one before, until we follow.
        Some((log, next)) if log.vkey != identity.vkey => {
            next.urls.iter().chain(registered).collect()
        }
        _ => identity.anchors.iter().chain(registered).collect(),
    };
    let mut urls: Vec<String> = Vec::new();
    for url in told {
        let url = url.trim_end_matches('/').to_owned();
        if !urls.contains(&url) {
            urls.push(url);
        }
    }
    urls
}

/// Where the other keyed members answer that have not gone, by id.
pub fn members_urls(identity: &Identity, fold: &Fold) -> Vec<String> {
    let own = identity.id.folded();
    let others = fold.membership.members().filter(|(id, member)| {
        member.enrolled && member.standing.liveness.may_answer() && id.folded() != own
    });
    others
        .filter_map(|(_, member)| member.urls.first())
        .map(|url| url.trim_end_matches('/').to_owned())
        .collect()
}

/// Members may send us to loopback only where the anchor lives there too, or an operator says so.
pub fn targets(config: &Config, anchors: &[String]) -> Targets {
    let local = anchors.iter().any(|url| check_target(url, false).is_err());
    Targets::Member { loopback: config.allow_loopback || local }
}

/// Pulls from the first anchor that has something else than we have.
fn follow_anchors(
    copy: &mut Copy<'_>,
    asked: &Asked<'_>,
    synced: &mut Synced,
) -> Result<(), Failure> {
    for (server, answer) in &asked.anchors {
        let head = match answer {
            Ok(reply) => serde_json::from_slice::<Head>(&reply.body).ok(),
            Err(fault) => {
                copy.warn(server, &fault.to_string());
                continue;
            }
        };
        let Some(head) = head else {
            copy.warn(server, "/head does not read: is this our anchor?");
            continue;
        };
        let (held, unfinished) = (copy.ledger.floor(), copy.unfinished());
        let (size, tip) = (held.size, Some(held.head));
        match head {
            head if head.size == size && head.head == tip && !unfinished => {
                synced.anchor_answered = true;
                return Ok(());
            }
            head if head.size < size => {
                copy.stranger = false;
                let answer = server.ask("/checkpoint", NOTE_BYTES_MAX);
                let shown = compare(copy, server, answer)?;
                if !copy.stranger {
                    let lines = head.size;
                    copy.warn(
                        server,
                        &format!("has {lines} lines, {size} were signed: an old copy"),
                    );
                }
                // Fewer lines, but perhaps of an epoch that is in force instead of ours.
                if matches!(shown, Shown::ByAnotherKey(_)) && copy.pull(server, Says::Hearsay)? {
                    synced.anchor_answered = true;
                    synced.from = Some(server.url.clone());
                    return Ok(());
                }
            }
            head => {
                if copy.pull(server, Says::Authority)? {
                    synced.anchor_answered = true;
                    synced.from = Some(server.url.clone());
                    return Ok(());
                }
                // A number alone says nothing; one whose lines did not come is worth telling.
                let claimed = Some(head.size).filter(|_| !copy.stranger);
                synced.claimed = synced.claimed.max(claimed);
            }
        }
        // Whoever took over the address of our anchor is none, however well it answers.
        synced.anchor_answered |= !copy.stranger;
    }
    Ok(())
}

/// Holds one more member's checkpoint against ours, more of them where no anchor answers, and takes
/// from them what the anchor does not give.
fn look_at_others(
    copy: &mut Copy<'_>,
    asked: Asked<'_>,
    (run, synced): (&Run<'_>, &mut Synced),
) -> Result<(), Failure> {
    let mut seen = asked.shown;
    if !synced.anchor_answered {
        let more: Vec<Server<'_>> = asked.others.into_iter().take(MEMBERS_ASKED - 1).collect();
        let calls: Vec<Call> =
            more.iter().map(|server| server.call("/checkpoint", NOTE_BYTES_MAX)).collect();
        let until = run.until_boot_ms.min(copy.disk.host.clock().boot_ms + ASK_MS);
        let answers = copy.disk.host.dial(&calls, until);
        seen.extend(more.into_iter().zip(answers));
    }
    for (server, answer) in seen {
        let named = run.from.iter().any(|url| url.trim_end_matches('/') == server.url);
        let says = if named { Says::Authority } else { Says::Hearsay };
        let (held, head) = (copy.ledger.floor().size, copy.ledger.floor().head);
        let (newer, doubt) = match compare(copy, &server, answer)? {
            Shown::Ours(theirs) => (theirs.size > held, None),
            Shown::ByAnotherKey(why) => (true, Some(why)),
            Shown::Nothing => (false, None),
        };
        if newer && copy.pull(&server, says)? && copy.ledger.floor().head != head {
            synced.from = Some(server.url.clone());
        } else if let Some(why) = doubt {
            copy.warn(&server, &why);
        }
    }
    Ok(())
}

/// The anchor's own look at one more member's checkpoint: whoever holds our signature on more, or
/// on something else, than we do shows that we were rolled back or copied.
///
/// # Errors
/// Kind `Integrity` with both notes kept. That somebody does not answer is nothing.
pub(super) fn look_at_one(
    disk: &Disk<'_>,
    config: &Config,
    fold: &Fold,
    run: &Run<'_>,
) -> Result<Look, Failure> {
    let Ok(ours) = Published::read(disk) else { return Ok(Look::default()) };
    let asked = ask(disk, config, (&ours.identity, fold, &[]), run);
    looking::weigh(disk, fold, &asked.shown)
}

/// What somebody shows as the log's checkpoint.
enum Shown {
    /// Nothing of use.
    Nothing,
    /// A checkpoint by a key of the log.
    Ours(Checkpoint),
    /// One of our origin by a key that we do not know: of a later epoch, or of nobody. Why it is no
    /// use so far.
    ByAnotherKey(String),
}

/// What a shown checkpoint says beside ours.
fn compare(copy: &mut Copy<'_>, server: &Server<'_>, answer: Answer) -> Result<Shown, Failure> {
    let Ok(shown) = server.whole("/checkpoint", answer) else { return Ok(Shown::Nothing) };
    let vkey = copy.identity.verifier_of(&shown)?;
    let (theirs, note) = match against::opened(copy.ledger.fold(), &vkey, &shown) {
        Ok(opened) => opened,
        Err(error) => {
            if is_of_another(&shown, vkey.name()) {
                copy.stranger(server, vkey.name());
                return Ok(Shown::Nothing);
            }
            let why = format!("/checkpoint is none of {}: {error}", vkey.name());
            if is_of_origin(&shown, vkey.name()) {
                return Ok(Shown::ByAnotherKey(why));
            }
            copy.warn(server, &why);
            return Ok(Shown::Nothing);
        }
    };
    // What we have signed for, not what readers see: a killed run may have left that behind.
    let Ok((ours, _)) = Published::signed(&copy.disk) else { return Ok(Shown::Ours(theirs)) };
    if theirs.size <= ours.checkpoint.size {
        let seen = Seen { theirs: &theirs, note: &note.render(), url: &server.url };
        against::expect_earlier(&copy.disk, &ours, &seen)?;
    }
    Ok(Shown::Ours(theirs))
}
