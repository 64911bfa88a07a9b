//! `init`: makes a working local anchor, asking nothing.
//!
//! Every step leaves what is there as it is, so an `init` cut off anywhere is finished by running
//! it again, with the keys it made the first time.

use super::publish;
use super::rounds::{PATIENCE, take_lock};
use crate::auth::vkey::VerifierKey;
use crate::auth::{keys, pae};
use crate::error::{Failure, Kind};
use crate::host::{Host, Keep, Readers, Span};
use crate::journal::line::{Author, LINE_BYTES_MAX};
use crate::journal::record::{Enroll, Genesis, Record, Register};
use crate::layout::{CONFIG, Layout, ROSTER};
use crate::protocol::member::{Incarnation, NodeId};
use crate::protocol::memory::{Beginning, Memory};
use crate::protocol::route::Local;
use crate::protocol::service::Service;
use crate::store::disk::Disk;
use crate::store::draft::Draft;
use crate::store::identity::{Identity, load_key};
use crate::store::ledger::{Ledger, Mend};
use crate::store::log_keys;
use crate::store::used_nonces::UsedNonces;
use crate::wire::psv::ROSTER_HEADER;
use ed25519_dalek::SigningKey;
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// Lines that [`found`] writes.
const FOUNDING_LINES: usize = 3;

/// What the operator chose, defaults filled in.
#[derive(Clone, Debug)]
pub struct Founding {
    /// The federation's name; `None` for `local/<32 hex>`.
    pub origin: Option<String>,
    /// This node's id.
    pub id: NodeId,
    /// Where others reach its agent.
    pub urls: Vec<String>,
    /// What it offers.
    pub services: Vec<Service>,
    /// The commented configuration to write if there is none.
    pub config_text: String,
}

/// Founds the federation and returns who we are.
pub fn found(host: &dyn Host, layout: &Layout, founding: &Founding) -> Result<Identity, Failure> {
    let disk = Disk { host, layout };
    disk.folder(layout.dir(), false)?;
    for private in [layout.keys(), layout.state(), layout.state().join("tmp")] {
        disk.folder(&private, true)?;
    }
    let busy = || Failure::new(Kind::Busy, "another process works in this folder");
    let _keys = take_lock(host, &layout.keys(), PATIENCE)?.ok_or_else(busy)?;
    let _state = take_lock(host, &layout.state(), PATIENCE)?.ok_or_else(busy)?;
    refuse_founded(&disk)?;
    if let Some(member) = Identity::load(&disk)?.filter(|identity| !identity.is_anchor()) {
        return Err(Failure::failed(format!("this folder is a member of '{}'", member.origin))
            .hint("use another --dir for a federation of its own"));
    }
    for name in ["log", "node", "recovery"] {
        make_key(&disk, name)?;
    }
    let identity = identify(&disk, founding)?;
    let folder = layout.dir();
    write_if_absent(&disk, &folder.join(CONFIG), &founding.config_text)?;
    let roster = format!("{ROSTER_HEADER}\n# n2|192.0.2.7|443|edge|active\n");
    write_if_absent(&disk, &folder.join(ROSTER), &roster)?;
    write_first_lines(disk, &identity, founding)?;
    Ok(identity)
}

fn refuse_founded(disk: &Disk<'_>) -> Result<(), Failure> {
    for path in [disk.layout.committed(), disk.layout.root()] {
        if disk.length(&path)?.is_some() && !is_unfinished(disk)? {
            return Err(Failure::failed(format!(
                "{} already holds a federation",
                disk.layout.dir().display()
            ))
            .hint("crowny-fed status shows it; use another --dir for another one"));
        }
    }
    Ok(())
}

/// `tick.json` is what `init` writes last: without it, and with no line but its own, it was cut off.
fn is_unfinished(disk: &Disk<'_>) -> Result<bool, Failure> {
    if disk.length(&disk.layout.tick())?.is_some() {
        return Ok(false);
    }
    let most = FOUNDING_LINES as u64 * (LINE_BYTES_MAX as u64 + 1) + 1;
    let present = disk.length(&disk.layout.journal())?.is_some();
    let span = Span { from: 0, most };
    let lines = if present { disk.read_span(&disk.layout.journal(), span)? } else { Vec::new() };
    Ok(lines.iter().filter(|byte| **byte == b'\n').count() <= FOUNDING_LINES)
}

/// Makes a seed under `keys/` unless it is there.
pub(super) fn make_key(disk: &Disk<'_>, name: &str) -> Result<(), Failure> {
    let path = disk.layout.key(name);
    if disk.length(&path)?.is_some() {
        return Ok(());
    }
    let mut seed = Zeroizing::new([0_u8; 32]);
    chance(disk, &mut *seed)?;
    disk.put(&path, keys::render_seed(&seed).as_bytes(), (Keep::Durable, Readers::Owner))
}

fn identify(disk: &Disk<'_>, founding: &Founding) -> Result<Identity, Failure> {
    if let Some(identity) = Identity::load(disk)? {
        return same_as_begun(identity, founding);
    }
    let origin = match &founding.origin {
        Some(origin) => origin.clone(),
        None => format!("local/{}", hex_chance(disk)?),
    };
    let vkey = named(&origin, &load_key(disk, "log")?)?;
    let identity = Identity {
        id: founding.id.clone(),
        origin,
        vkey,
        anchors: Vec::new(),
        incarnation: Incarnation::FIRST,
        urls: founding.urls.clone(),
        outbound: false,
        next: None,
        services: founding.services.clone(),
    };
    identity.store(disk)?;
    Ok(identity)
}

/// An interrupted `init` goes on under the name it began with.
fn same_as_begun(identity: Identity, founding: &Founding) -> Result<Identity, Failure> {
    if founding.origin.as_ref().is_some_and(|origin| *origin != identity.origin) {
        return Err(Failure::failed(format!(
            "an interrupted init here began as '{}'",
            identity.origin
        ))
        .hint("run init without --origin to finish it, or use another --dir"));
    }
    Ok(identity)
}

fn named(origin: &str, key: &SigningKey) -> Result<String, Failure> {
    let vkey = VerifierKey::of(origin, key).map_err(|error| {
        Failure::new(Kind::Usage, format!("--origin '{}': {error}", origin.escape_debug()))
            .hint("a name such as fed.example.org/crowny: no scheme, no blank, no '+'")
    })?;
    Ok(vkey.to_string())
}

fn write_if_absent(disk: &Disk<'_>, path: &std::path::Path, text: &str) -> Result<(), Failure> {
    if disk.length(path)?.is_some() {
        return Ok(());
    }
    disk.put(path, text.as_bytes(), (Keep::Durable, Readers::Usual))
}

fn write_first_lines(
    disk: Disk<'_>,
    identity: &Identity,
    founding: &Founding,
) -> Result<(), Failure> {
    let clock = disk.host.clock();
    let now_s = clock.wall_ms / 1_000;
    let mut ledger = Ledger::open(disk, identity, Mend::Yes)?;
    if disk.length(&disk.layout.used_nonces())?.is_none() {
        UsedNonces::found(&disk)?;
    }
    let drafts = first_lines(&disk, identity, founding, now_s)?;
    let missing = drafts.into_iter().skip(usize::try_from(ledger.tip().size).unwrap_or(usize::MAX));
    ledger.append(missing.collect(), now_s)?;
    let keys = log_keys::signing(&disk, identity, ledger.fold(), now_s)?;
    // Nobody waits for a federation that is not there yet: its first lines are shown at once, and
    // the first tick asks the witnesses.
    ledger.publish(&keys)?;
    let shown = publish::Shown {
        origin: &identity.origin,
        membership: &ledger.fold().membership,
        local: &Local::default(),
        size: ledger.floor().size,
        root: ledger.floor().root,
        generation: 0,
    };
    let generation = publish::map(&disk, &shown)?;
    let now = Beginning { boot_id: &clock.boot_id, boot_ms: clock.boot_ms, wall_ms: clock.wall_ms };
    let memory = Memory { generation, ..Memory::fresh(&now) };
    super::loading::save_memory(&disk, &memory)
}

/// `genesis` signed by the log key, `enroll` of our node key, and our own signed `register`.
fn first_lines(
    disk: &Disk<'_>,
    identity: &Identity,
    founding: &Founding,
    now_s: u64,
) -> Result<Vec<Draft>, Failure> {
    let origin = &identity.origin;
    let (log, node) = (load_key(disk, "log")?, load_key(disk, "node")?);
    let genesis = Record::Genesis(Genesis {
        origin: origin.clone(),
        anchor: identity.id.clone(),
        vkey: identity.vkey.clone(),
        recovery: named(origin, &load_key(disk, "recovery")?)?,
        created: now_s,
    });
    let enroll = Record::Enroll(Enroll {
        node: identity.id.clone(),
        alg: keys::ED25519.to_owned(),
        kid: keys::kid(identity.id.as_str(), &node.verifying_key()),
        key: Some(keys::render_public(&node.verifying_key())),
        invite: None,
        nonce: None,
        services: founding.services.iter().map(|service| service.name.clone()).collect(),
    });
    let register = Record::Register(Register {
        origin: origin.clone(),
        node: identity.id.clone(),
        nonce: hex_chance(disk)?,
        ts: now_s,
        mode: keys::ED25519.to_owned(),
        incarnation: Incarnation::FIRST,
        urls: founding.urls.clone(),
        services: founding.services.clone(),
        reach: "inbound".to_owned(),
        tags: BTreeMap::new(),
    });
    Ok(vec![
        signed(genesis, origin, &log),
        enroll.into(),
        signed(register, identity.id.as_str(), &node),
    ])
}

/// A line signed by `key` under `name`.
pub(super) fn signed(record: Record, name: &str, key: &SigningKey) -> Draft {
    let author = Author {
        alg: keys::ED25519.to_owned(),
        kid: keys::kid(name, &key.verifying_key()),
        sig: keys::sign(key, &pae::encode(record.kind(), &record.payload())),
    };
    Draft::submitted(record.kind(), &record.payload(), author)
}

/// 128 bits in hex.
pub(super) fn hex_chance(disk: &Disk<'_>) -> Result<String, Failure> {
    let mut bytes = [0_u8; 16];
    chance(disk, &mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn chance(disk: &Disk<'_>, bytes: &mut [u8]) -> Result<(), Failure> {
    disk.host.chance(bytes).map_err(|error| Failure::failed(format!("no randomness: {error}")))
}
