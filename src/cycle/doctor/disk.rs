//! What the folder alone says.

use crate::auth::keys;
use crate::cycle::against;
use crate::error::{Failure, Kind};
use crate::journal::chain::Tip;
use crate::journal::replay::Fold;
use crate::journal::snapshot::Snapshot;
use crate::protocol::diagnosis::{Cause, Facts, Relation, Seen, Trouble, Weight};
use crate::store::accepted_clock::AcceptedClock;
use crate::store::audit::{Audit, Depth, audit_with};
use crate::store::disk::Disk;
use crate::store::floor;
use crate::store::identity::{Identity, load_key};
use crate::store::log_keys;
use crate::store::scan::{self, Start};
use crate::store::shared_keys;
use crate::store::used_nonces::{UsedNonces, WAIT_S};
use crate::store::view::Published;
use std::io;
use std::time::Duration;

/// Files of bytes that were set aside.
pub(super) fn torn(disk: &Disk<'_>) -> Vec<(String, u64)> {
    let names = disk.host.names(disk.layout.dir()).unwrap_or_default();
    let torn = names.into_iter().filter(|name| name.starts_with("nodes.torn-"));
    torn.map(|name| {
        let bytes = disk.length(&disk.layout.dir().join(&name)).ok().flatten().unwrap_or(0);
        (name, bytes)
    })
    .collect()
}

/// Looks at every file; who we are and what the journal says, as far as it can be followed.
pub(super) fn look(
    disk: &Disk<'_>,
    facts: &mut Facts,
    progress: &dyn Fn(u64, u64),
) -> Option<(Identity, Fold)> {
    let identity = match Identity::require(disk) {
        Ok(identity) => identity,
        Err(failure) => {
            facts.troubles.push(trouble(Cause::Identity, &failure));
            return None;
        }
    };
    facts.anchor = identity.is_anchor();
    locks(disk, facts);
    let (fold, tip) = followed(disk, &identity);
    facts.last_line_s = (tip.size > 0).then_some(tip.ts);
    keys(disk, (&identity, &fold), facts);
    let signed = signed(disk, &identity, facts);
    if signed && tip.size == 0 && facts.size == 0 {
        let told = format!("{} has no lines yet", disk.layout.journal().display());
        // A member fetches them; an anchor has lost them.
        let weight = if facts.anchor { Weight::Integrity } else { Weight::Finding };
        facts.troubles.push(Trouble { cause: Cause::Empty, weight, told });
    } else if signed {
        match audit_with(disk, Depth::Full, progress) {
            Ok(audit) => beyond(&audit, facts),
            Err(failure) => facts.troubles.push(blamed(disk, &failure)),
        }
        derived(disk, facts);
    }
    if identity.is_anchor() {
        nonces(disk, &tip, facts);
    }
    Some((identity, fold))
}

/// Without making what is missing, as whoever takes a lock does.
fn locks(disk: &Disk<'_>, facts: &mut Facts) {
    for folder in [disk.layout.keys(), disk.layout.state()] {
        let told = match disk.host.lock(&folder, Duration::ZERO) {
            Ok(_) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let told = format!("{} is missing", folder.display());
                let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                facts.troubles.push(Trouble {
                    cause: Cause::Missing(name),
                    weight: Weight::Finding,
                    told,
                });
                continue;
            }
            Err(error) => format!("cannot lock {}: {error}", folder.display()),
        };
        facts.troubles.push(Trouble { cause: Cause::Lock, weight: Weight::Config, told });
    }
}

/// The journal as far as its lines chain.
fn followed(disk: &Disk<'_>, identity: &Identity) -> (Fold, Tip) {
    let mut fold = Fold::default();
    let start = Start { tip: Tip::origin(&identity.origin), bytes: 0 };
    let tip = start.tip.clone();
    let end = scan::walk(disk, start, u64::MAX, &mut |step| {
        fold.apply(step.line);
        Ok(())
    });
    (fold, end.map_or(tip, |end| end.tip))
}

fn keys(disk: &Disk<'_>, (identity, fold): (&Identity, &Fold), facts: &mut Facts) {
    let epoch = fold.log.as_ref().map_or(0, |log| log.epoch);
    let now_s = disk.host.clock().wall_ms / 1_000;
    if identity.is_anchor()
        && let Err(failure) = log_keys::signing(disk, identity, fold, now_s)
    {
        facts.troubles.push(trouble(Cause::Key(log_keys::name(epoch)), &failure));
    }
    if identity.is_anchor() {
        for told in shared_keys::faults(disk).unwrap_or_default() {
            let weight = Weight::Finding;
            facts.troubles.push(Trouble { cause: Cause::SharedKey, weight, told });
        }
    }
    if disk.length(&disk.layout.key("shared")).is_ok_and(|length| length.is_some()) {
        return;
    }
    let told = match load_key(disk, "node") {
        Err(failure) => Some(failure.message),
        Ok(key) => {
            let own = fold.keys.of(&identity.id).and_then(|keys| keys.current.key.as_ref());
            let ours = keys::render_public(&key.verifying_key());
            let path = disk.layout.key("node");
            own.filter(|own| **own != ours).map(|own| {
                format!("{} is not the key that the journal names ({own})", path.display())
            })
        }
    };
    if let Some(told) = told {
        let cause = Cause::Key("node".to_owned());
        facts.troubles.push(Trouble { cause, weight: Weight::Config, told });
    }
}

/// Whether floor and root file agree, so that the rest can be held against them.
fn signed(disk: &Disk<'_>, identity: &Identity, facts: &mut Facts) -> bool {
    let missing = |path: &std::path::Path| matches!(disk.length(path), Ok(None));
    let (committed, root) = (disk.layout.committed(), disk.layout.root());
    match floor::read(disk, identity) {
        Ok(floor) => {
            facts.size = floor.size;
            for path in [&committed, &root].into_iter().filter(|path| missing(path)) {
                if floor.size > 0 {
                    let told = format!("{} is missing", path.display());
                    let cause = Cause::Missing(path.display().to_string());
                    facts.troubles.push(Trouble { cause, weight: Weight::Finding, told });
                }
            }
            true
        }
        Err(failure) => {
            let cause = match (missing(&committed), missing(&root)) {
                (true, true) => Cause::NoFloor,
                (true, false) => Cause::Journal,
                _ if failure.message.starts_with(&committed.display().to_string()) => Cause::Floor,
                _ => Cause::TwoNotes,
            };
            facts.troubles.push(trouble(cause, &failure));
            false
        }
    }
}

fn beyond(audit: &Audit, facts: &mut Facts) {
    if audit.unsigned_lines > 0 || audit.torn_bytes > 0 {
        facts.troubles.push(Trouble {
            cause: Cause::Beyond,
            weight: Weight::Finding,
            told: format!(
                "beyond the {} signed lines: {} whole lines and {} torn bytes",
                audit.size, audit.unsigned_lines, audit.torn_bytes
            ),
        });
    }
}

/// Which file a failed check blames.
fn blamed(disk: &Disk<'_>, failure: &Failure) -> Trouble {
    let told = &failure.message;
    let is_about = |path: std::path::PathBuf| told.starts_with(&path.display().to_string());
    let derived = ["snapshot.json", "index", "tile"];
    let named = derived.iter().find(|name| told.contains(*name)).copied();
    let cause = match named {
        _ if is_about(disk.layout.journal()) => Cause::Journal,
        _ if is_about(disk.layout.committed()) => Cause::Floor,
        Some(name) if told.ends_with("is missing") => Cause::Missing(name.to_owned()),
        Some(name) => Cause::Wrong(name.to_owned()),
        None => Cause::Journal,
    };
    let weight = match cause {
        Cause::Missing(_) => Weight::Finding,
        _ => weight(failure.kind),
    };
    Trouble { cause, weight, told: told.clone() }
}

/// What is made anew without being asked for, where it is missing or old.
fn derived(disk: &Disk<'_>, facts: &mut Facts) {
    let layout = disk.layout;
    let mut told = Vec::new();
    for path in [layout.head(), layout.snapshot(), layout.index(), layout.tile("tile")] {
        if facts.size > 0 && matches!(disk.host.entry(&path), Ok(None)) {
            told.push(format!("{} is missing", path.display()));
        }
    }
    let snapshot = disk.read(&layout.snapshot()).ok().flatten();
    if let Some(Err(why)) = snapshot.map(|bytes| Snapshot::parse(&bytes)) {
        told.push(format!("{} is not used: {why}", layout.snapshot().display()));
    }
    for told in told {
        // A missing tile was blamed already.
        if facts
            .troubles
            .iter()
            .all(|held| !held.told.starts_with("tile/") || !told.contains("tile"))
        {
            let cause = Cause::Missing(told.clone());
            facts.troubles.push(Trouble { cause, weight: Weight::Finding, told });
        }
    }
}

fn nonces(disk: &Disk<'_>, tip: &Tip, facts: &mut Facts) {
    let path = disk.layout.used_nonces();
    if matches!(disk.length(&path), Ok(None)) {
        facts.nonce_wait_s = Some(WAIT_S);
        return;
    }
    let Ok(Some(used)) = UsedNonces::peek(disk) else {
        let told = format!("{} does not read", path.display());
        facts.troubles.push(Trouble { cause: Cause::Nonces, weight: Weight::Finding, told });
        return;
    };
    let accepted = AcceptedClock::load(disk).ok().flatten();
    let rules =
        accepted.filter(|held| held.rules(tip.ts, facts.wall_s) && held.at == used.since_s());
    facts.clock_accepted = rules.is_some();
    let now_s = if rules.is_some() { facts.wall_s } else { facts.wall_s.max(tip.ts) };
    facts.nonce_wait_s = used.wait_s(now_s);
}

/// Notes that others showed and that convicted, held against what is here now.
pub(super) fn evidence(
    disk: &Disk<'_>,
    (identity, fold): (&Identity, &Fold),
    ours: Option<&Published>,
) -> Vec<Seen> {
    let folder = disk.layout.evidence();
    let names = disk.host.names(&folder).unwrap_or_default();
    let theirs = names.iter().filter(|name| name.starts_with("theirs-"));
    let seen = |name: &String| {
        let path = folder.join(name);
        let who = path.display().to_string();
        let bytes = disk.read(&path).ok().flatten();
        let opened = bytes.zip(identity.verifier().ok());
        let opened = opened.and_then(|(bytes, vkey)| against::opened(fold, &vkey, &bytes).ok());
        // A note that does not open refuses all the same: only its name counts.
        let Some((theirs, _)) = opened else {
            return Seen { who, size: 0, relation: Relation::Unproven };
        };
        let relation = match ours {
            Some(ours) if theirs.size <= ours.checkpoint.size => {
                match against::contradiction(disk, ours, &theirs) {
                    Ok(None) => Relation::Ours,
                    _ => Relation::Other { line: None },
                }
            }
            _ => Relation::Unproven,
        };
        Seen { who, size: theirs.size, relation }
    };
    theirs.map(seen).collect()
}

pub(super) fn trouble(cause: Cause, failure: &Failure) -> Trouble {
    Trouble { cause, weight: weight(failure.kind), told: failure.message.clone() }
}

fn weight(kind: Kind) -> Weight {
    match kind {
        Kind::Integrity => Weight::Integrity,
        Kind::Config => Weight::Config,
        _ => Weight::Finding,
    }
}
