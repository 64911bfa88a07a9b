//! The look at the members before the first signed write after a boot or a gap.
//!
//! A folder that was put back from a backup does not know that it is old. Whoever followed us does:
//! a checkpoint under our own signature that is larger than ours, or another one, says that this is
//! not the newest copy. So before such a folder signs anything it asks, once. That nobody answers is
//! no obstacle, for a lone anchor has to work; and what others merely say is no reason to stop.

use super::against::{self, Seen};
use super::crossing::{self, Crossing, Found, is_of_origin};
use super::handover;
use super::rounds::take_lock;
use super::server::Server;
use super::sync::{self, anchor_urls, members_urls, targets};
use crate::config::Config;
use crate::error::Failure;
use crate::host::{Clock, Keep, Readers};
use crate::journal::note::NOTE_BYTES_MAX;
use crate::journal::replay::Fold;
use crate::protocol::memory::{Memory, is_long_ago};
use crate::store::disk::Disk;
use crate::store::floor;
use crate::store::identity::Identity;
use crate::store::view::{Published, View};
use crate::wire::call::{Answer, Call};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Members asked at once.
const MEMBERS_MAX: usize = 16;
/// How long all of them have together, in milliseconds.
const LOOK_MS: u64 = 2_000;

/// Most of those who show our log under a key that we do not know that are asked for more.
const UNKNOWN_MAX: usize = 4;

/// What a look came to, where it convicts nobody.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// Members asked.
    pub(super) asked: usize,
    /// Those of them that showed a checkpoint of our log.
    pub(super) answered: usize,
    /// That another node serialises, proven.
    pub(super) later: Option<Crossing>,
}

impl Look {
    fn expect_ours(&self) -> Result<(), Failure> {
        self.later.as_ref().map_or(Ok(()), |later| Err(handover::superseded(later)))
    }
}

/// `state/looked.json`: when the members were last asked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Looked {
    boot_id: String,
    boot_ms: u64,
}

/// Asks the members where the last tick is of another boot or long ago, and nobody has asked since.
/// The append lock must not be held: this may take two seconds.
///
/// # Errors
/// Kind `Integrity` with both notes kept: our own signature is on more than we hold, or on
/// something else.
pub(super) fn before_signing(disk: &Disk<'_>, config: &Config) -> Result<(), Failure> {
    let now = disk.host.clock();
    let looked: Option<Looked> = small_json(disk, &disk.layout.looked())?;
    let asked_since =
        looked.is_some_and(|looked| !long_ago((&looked.boot_id, looked.boot_ms), &now, config));
    if asked_since || !is_due(disk, config, &now)? {
        return Ok(());
    }
    at_members(disk, config, now.boot_ms + LOOK_MS)?.expect_ours()?;
    remember(disk, now)
}

/// Asks one more member what it holds of us; the first tick after a boot or a gap asks all of them
/// before anything is signed.
pub(super) fn in_tick(
    (disk, config): (&Disk<'_>, &Config),
    fold: &Fold,
    (turn, probing_ms): (u64, u64),
) -> Result<Option<String>, Failure> {
    let now = disk.host.clock();
    if !is_due(disk, config, &now)? {
        let until_boot_ms = probing_ms.min(now.boot_ms + config.profile.timeout_ms);
        let run = sync::Run { until_boot_ms, turn, from: &[], progress: &|_, _| {} };
        let looked = sync::look_at_one(disk, config, fold, &run)?;
        return in_force(disk, &looked).map(|()| None);
    }
    let looked = at_members(disk, config, probing_ms)?;
    in_force(disk, &looked)?;
    let silent = looked.asked > 0 && looked.answered == 0;
    Ok(silent.then(|| {
        format!(
            "first tick after a boot or a gap: none of {} members showed its checkpoint, so nobody could say whether this is the newest copy",
            looked.asked
        )
    }))
}

/// The lock on `keys/` is held: where another node serialises, we follow it from now on.
fn in_force(disk: &Disk<'_>, looked: &Look) -> Result<(), Failure> {
    if let Some(later) = &looked.later {
        handover::step_down(disk, later)?;
    }
    looked.expect_ours()
}

/// Whether the last tick is so long ago that this folder may be an old copy.
fn is_due(disk: &Disk<'_>, config: &Config, now: &Clock) -> Result<bool, Failure> {
    let memory: Memory = small_json(disk, &disk.layout.tick())?.unwrap_or_default();
    Ok(long_ago((&memory.boot_id, memory.boot_ms), now, config))
}

/// Asks all members that can be asked, at most [`MEMBERS_MAX`].
pub(super) fn at_members(
    disk: &Disk<'_>,
    config: &Config,
    until_boot_ms: u64,
) -> Result<Look, Failure> {
    floor::refuse_convicted(disk)?;
    // Where nothing is signed yet, nobody can hold more of it; where it does not read, opening the
    // journal says so.
    let Ok((view, _)) = View::signed(*disk) else { return Ok(Look::default()) };
    let shown = ask(disk, config, (&view.identity, &view.fold), until_boot_ms);
    weigh(disk, &view.fold, &shown)
}

/// What the members show as their checkpoints.
pub(super) fn ask<'a>(
    disk: &Disk<'a>,
    config: &Config,
    (identity, fold): (&Identity, &Fold),
    until_boot_ms: u64,
) -> Vec<(Server<'a>, Answer)> {
    let targets = targets(config, &anchor_urls(identity, fold));
    let until = until_boot_ms.min(disk.host.clock().boot_ms + LOOK_MS);
    let urls = members_urls(identity, fold);
    let named = urls.iter().filter_map(|url| Server::named(disk.host, url).ok());
    let servers: Vec<Server<'a>> =
        named.map(|server| server.only(targets).until(until)).take(MEMBERS_MAX).collect();
    let calls: Vec<Call> =
        servers.iter().map(|server| server.call("/checkpoint", NOTE_BYTES_MAX)).collect();
    let answers = disk.host.dial(&calls, until);
    servers.into_iter().zip(answers).collect()
}

/// Holds what others show against what we signed.
pub(super) fn weigh(
    disk: &Disk<'_>,
    fold: &Fold,
    shown: &[(Server<'_>, Answer)],
) -> Result<Look, Failure> {
    // Read now: a line committed since they were asked must not look like one that we lost.
    let (ours, _) = Published::signed(disk)?;
    let mut look = Look { asked: shown.len(), ..Look::default() };
    let mut unknown = Vec::new();
    for (server, answer) in shown {
        let Ok(bytes) = server.whole("/checkpoint", answer.clone()) else { continue };
        let Ok((theirs, note)) = against::opened(fold, &ours.vkey, &bytes) else {
            if is_of_origin(&bytes, ours.vkey.name()) {
                unknown.push(server);
            }
            continue;
        };
        look.answered += 1;
        let seen = Seen { theirs: &theirs, note: &note.render(), url: &server.url };
        if theirs.size > ours.checkpoint.size {
            return Err(against::rolled_back(disk, &ours, &seen));
        }
        against::expect_earlier(disk, &ours, &seen)?;
    }
    // By a log key that we do not know: of a later epoch, or of nobody. Each has a time of its own,
    // so that one who dawdles hides nobody.
    for server in unknown.into_iter().take(UNKNOWN_MAX) {
        let patient = server.clone().until(disk.host.clock().boot_ms + LOOK_MS);
        match crossing::shown_by(disk, &ours.identity, &patient)? {
            Found::Later(later) => {
                look.later = Some(*later);
                break;
            }
            Found::Fork(line) => return Err(handover::parted(&server.url, line)),
            Found::Nothing => {}
        }
    }
    Ok(look)
}

/// Forgetting costs one look more, so whoever holds the lock just now is not waited for.
fn remember(disk: &Disk<'_>, now: Clock) -> Result<(), Failure> {
    let Some(_append) = take_lock(disk.host, &disk.layout.state(), Duration::ZERO)? else {
        return Ok(());
    };
    let looked = Looked { boot_id: now.boot_id, boot_ms: now.boot_ms };
    let bytes = serde_json::to_vec(&looked).expect("two plain fields have a JSON form");
    disk.folder(&disk.layout.state().join("tmp"), true)?;
    disk.put(&disk.layout.looked(), &bytes, (Keep::Cached, Readers::Usual))
}

fn long_ago(last: (&str, u64), now: &Clock, config: &Config) -> bool {
    is_long_ago(last, &super::loading::beginning(now), config.profile.interval_ms)
}

fn small_json<T: serde::de::DeserializeOwned>(
    disk: &Disk<'_>,
    path: &std::path::Path,
) -> Result<Option<T>, Failure> {
    Ok(disk.read(path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}
