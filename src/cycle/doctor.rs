//! What `doctor` finds, and what it repairs when it is told to.
//!
//! Finding reads only: no lock is held, no folder made, no evidence kept. What the facts mean is
//! said by `protocol::diagnosis`; a repair is a verb of its own, named by an operator.

pub mod adopting;
pub mod clock;
mod disk;

use super::against;
use super::crossing::{self, Found, is_of_origin};
use super::fork;
use super::looking;
use super::server::{ASK_MS, Server};
use super::sync::anchor_urls;
use crate::config::Config;
use crate::error::Failure;
use crate::host::Host;
use crate::journal::checkpoint::Checkpoint;
use crate::journal::note::NOTE_BYTES_MAX;
use crate::journal::replay::Fold;
use crate::protocol::address::Address;
use crate::protocol::diagnosis::{Facts, Relation, Seen, Shown, Trouble};
use crate::protocol::memory::Memory;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::view::Published;
use crate::wire::call::{Answer, Call, Method, Read, Targets};
use std::time::Duration;

/// How long everybody together has to answer, in milliseconds.
const LOOK_MS: u64 = 2_000;
/// Roster rows asked.
const ROWS_MAX: usize = 16;

/// Looks at everything an operator needs when something is wrong; `troubles` were found on the way
/// here.
pub fn gather(
    host: &dyn Host,
    config: &Config,
    (place, troubles): (&str, Vec<Trouble>),
    progress: &dyn Fn(u64, u64),
) -> Facts {
    let disk = Disk { host, layout: &config.layout };
    let now = host.clock();
    let mut facts = Facts {
        dir: place.to_owned(),
        wall_s: now.wall_ms / 1_000,
        troubles,
        torn: disk::torn(&disk),
        loopback_works: loopback_works(host, config),
        ..Facts::default()
    };
    let looked = disk::look(&disk, &mut facts, progress);
    facts.shown = rows(&disk, config);
    let Some((identity, fold)) = looked else { return facts };
    facts.ticks = ticks(&disk, config);
    let ours = Published::signed(&disk).ok().map(|(ours, _)| ours);
    facts.evidence = disk::evidence(&disk, (&identity, &fold), ours.as_ref());
    for (server, answer) in asked(&disk, config, (&identity, &fold)) {
        facts.shown.push(shown(&disk, (&identity, &fold), ours.as_ref(), (&server, answer)));
    }
    facts
}

/// The anchors, on another node, and the members.
fn asked<'a>(
    disk: &Disk<'a>,
    config: &Config,
    (identity, fold): (&Identity, &Fold),
) -> Vec<(Server<'a>, Answer)> {
    let until = disk.host.clock().boot_ms + LOOK_MS;
    let urls = if identity.is_anchor() { Vec::new() } else { anchor_urls(identity, fold) };
    let anchors: Vec<Server<'a>> =
        urls.iter().filter_map(|url| Server::named(disk.host, url).ok()).collect();
    let calls: Vec<Call> =
        anchors.iter().map(|server| server.call("/checkpoint", NOTE_BYTES_MAX)).collect();
    let answers = disk.host.dial(&calls, until);
    let mut asked: Vec<(Server<'a>, Answer)> = anchors.into_iter().zip(answers).collect();
    let until = disk.host.clock().boot_ms + LOOK_MS;
    let others = looking::ask(disk, config, (identity, fold), until);
    asked.extend(others.into_iter().filter(|(server, _)| !urls.contains(&server.url)));
    asked
}

fn shown(
    disk: &Disk<'_>,
    (identity, fold): (&Identity, &Fold),
    ours: Option<&Published>,
    (server, answer): (&Server<'_>, Answer),
) -> Shown {
    let fault = answer.as_ref().err().map(|fault| format!("{}: {fault}", server.url));
    let bytes = server.whole("/checkpoint", answer).ok();
    // The search for a fork takes more questions than the first look has time for.
    let patient = server.clone().until(disk.host.clock().boot_ms + ASK_MS);
    let seen = bytes.zip(identity.verifier().ok()).and_then(|(bytes, vkey)| {
        let Ok((theirs, _)) = against::opened(fold, &vkey, &bytes) else {
            return later(disk, identity, (&patient, &bytes));
        };
        let relation = ours.map(|ours| relation(disk, ours, (&patient, &theirs)));
        let relation = relation.and_then(Result::ok).unwrap_or(Relation::Unproven);
        Some(Seen { who: server.url.clone(), size: theirs.size, relation })
    });
    Shown { seen, fault }
}

/// A checkpoint by a log key that we do not know, where it is of a later epoch.
fn later(
    disk: &Disk<'_>,
    identity: &Identity,
    (server, bytes): (&Server<'_>, &[u8]),
) -> Option<Seen> {
    if !is_of_origin(bytes, &identity.origin) {
        return None;
    }
    let Found::Later(crossing) = crossing::shown_by(disk, identity, server).ok()? else {
        return None;
    };
    let relation =
        Relation::Later { anchor: crossing.succession.anchor.clone(), epoch: crossing.epoch };
    Some(Seen { who: server.url.clone(), size: crossing.succession.line + 1, relation })
}

/// What `theirs`, which `server` shows, is beside ours; keeps nothing.
pub(super) fn relation(
    disk: &Disk<'_>,
    ours: &Published,
    (server, theirs): (&Server<'_>, &Checkpoint),
) -> Result<Relation, Failure> {
    let larger = theirs.size > ours.checkpoint.size;
    let broken = match larger {
        true => against::unlike_growth(ours, theirs, server)?,
        false => against::contradiction(disk, ours, theirs)?,
    };
    if broken.is_none() {
        return Ok(if larger { Relation::Longer } else { Relation::Ours });
    }
    let fork = fork::shown_by(disk, ours, server)?;
    Ok(match (fork, larger) {
        (Some(fork), _) => Relation::Other { line: Some(fork.line) },
        (None, true) => Relation::Unproven,
        (None, false) => Relation::Other { line: None },
    })
}

/// Whether the roster's rows answer at all.
fn rows(disk: &Disk<'_>, config: &Config) -> Vec<Shown> {
    let roster = super::peers::find_roster(disk, config).ok().flatten().unwrap_or_default();
    let addresses: Vec<Address> =
        roster.rows.iter().filter_map(|listed| listed.row.address().ok()).take(ROWS_MAX).collect();
    let calls: Vec<Call> = addresses.iter().map(knock).collect();
    let answers = disk.host.dial(&calls, disk.host.clock().boot_ms + LOOK_MS);
    let told = |(address, answer): (&Address, Answer)| {
        answer.err().map(|fault| format!("{}: {fault}", address.authority()))
    };
    addresses.iter().zip(answers).map(|asked| Shown { seen: None, fault: told(asked) }).collect()
}

/// Whether our own address on loopback says anything, if only no.
fn loopback_works(host: &dyn Host, config: &Config) -> bool {
    let Ok(address) = Address::parse("127.0.0.1", config.listen.port()) else { return false };
    let answers = host.dial(&[knock(&address)], host.clock().boot_ms + LOOK_MS);
    answers.iter().any(|answer| answer.as_ref().map_or_else(|fault| fault.heard(), |_| true))
}

fn knock(address: &Address) -> Call {
    Call {
        method: Method::Get,
        address: address.clone(),
        path: "/".to_owned(),
        host_header: address.authority(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: Duration::from_millis(LOOK_MS),
        read: Read::Head,
        targets: Targets::Any,
    }
}

fn ticks(disk: &Disk<'_>, config: &Config) -> Option<crate::protocol::diagnosis::Ticks> {
    let bytes = disk.read(&disk.layout.tick()).ok().flatten()?;
    let memory: Memory = serde_json::from_slice(&bytes).ok()?;
    let now = disk.host.clock();
    let same_boot = memory.boot_id == now.boot_id && now.boot_ms >= memory.boot_ms;
    let ago_ms = match same_boot {
        true => now.boot_ms - memory.boot_ms,
        false => now.wall_ms.saturating_sub(memory.wall_ms),
    };
    Some(crate::protocol::diagnosis::Ticks {
        ago_s: ago_ms / 1_000,
        interval_s: config.profile.interval_ms / 1_000,
        anchor_away: memory.anchor_away,
    })
}
