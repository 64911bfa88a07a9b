//! Witnesses are asked to cosign what was just signed.
//!
//! Asked after the append lock is released, all at once, for two seconds at most: whatever they
//! answer, or do not, the lines are committed and the map is written by then. What comes back is
//! worth something only as a cosignature by a configured key over exactly the text we sent, or as a
//! checkpoint under our own signature; everything else a witness says is a warning and no more.

mod exchange;

use self::exchange::Exchange;
use super::against::{self, Seen};
use crate::config::Config;
use crate::error::Failure;
use crate::journal::checkpoint::Checkpoint;
use crate::journal::cosignature::{cosignature_of, stamped_at};
use crate::journal::floor::Floor;
use crate::journal::note::{NOTE_BYTES_MAX, NoteSignature, SignedNote};
use crate::store::cosigned::Cosigned;
use crate::store::disk::Disk;
use crate::store::floor;
use crate::store::identity::Identity;
use crate::store::ledger::Release;
use crate::store::root;
use crate::store::view::{Published, View};
use crate::wire::call::{Answer, Call, Extent, Method, Read, Targets};
use crate::wire::witness::{Prefix, Witness};
use std::time::Duration;

/// How long all witnesses together may take, in milliseconds (design section 6).
const ASK_MS: u64 = 2_000;

/// Age in seconds from which a cosignature of an unchanged log is asked for anew. A later one says
/// that nothing more was seen until later, which is what a reader who fears a stale copy wants to
/// know; but each costs a call to somebody else's machine and a write of the root file, and the
/// public witness network expects a rate of minutes. An older copy of this folder that was put back
/// is noticed by then too, or with the first line it adds.
const FRESH_S: u64 = 600;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Every witness: a tick.
    All,
    /// Those that readers wait for: a request, which waits itself and leaves the others to the
    /// next tick.
    Required,
}

/// Whether readers see what is signed at once.
pub fn release(config: &Config) -> Release {
    let waits = config.witnesses.iter().any(|witness| witness.required);
    if waits { Release::Cosigned } else { Release::AtOnce }
}

/// Asks for cosignatures of the floor and puts them into the root file. Returns warnings; without
/// witnesses it reads nothing at all.
///
/// # Errors
/// Kind `Integrity`, with evidence kept, where a witness shows a checkpoint under our own signature
/// that cannot be of the log we hold; failures of our own disk. Nothing else a witness does.
pub fn ask(
    disk: Disk<'_>,
    config: &Config,
    whom: Whom,
    until_boot_ms: u64,
) -> Result<Vec<String>, Failure> {
    let asked = |witness: &&Witness| whom == Whom::All || witness.required;
    let witnesses: Vec<&Witness> = config.witnesses.iter().filter(asked).collect();
    if witnesses.is_empty() {
        return Ok(Vec::new());
    }
    let until = until_boot_ms.min(disk.host.clock().boot_ms + ASK_MS);
    let mut said = round((disk, config), &witnesses, until)?;
    if said.overtaken {
        // Another run committed more while we asked: a witness has no use for our older checkpoint
        // any more, and readers wait for the newer one.
        let before = said.doubtful;
        said = round((disk, config), &witnesses, until)?;
        said.doubtful.extend(before);
    }
    let until = until_boot_ms.min(disk.host.clock().boot_ms + ASK_MS);
    said.warnings.extend(look(disk, &said.doubtful, until)?);
    let missing = missing(&disk, config)?;
    said.warnings.extend(missing.iter().map(|name| {
        format!("waiting for witness {name}: readers see no newer checkpoint before it cosigns")
    }));
    Ok(said.warnings)
}

/// Names of the required witnesses that have not cosigned what is signed.
pub fn missing(disk: &Disk<'_>, config: &Config) -> Result<Vec<String>, Failure> {
    if release(config) == Release::AtOnce {
        return Ok(Vec::new());
    }
    let body = body(&floor::read(disk, &Identity::require(disk)?)?)?;
    let cosigned = Cosigned::load(disk)?;
    let required = config.witnesses.iter().filter(|witness| witness.required);
    let missing = required.filter(|witness| cosigned.over(&witness.key, &body).is_none());
    Ok(missing.map(|witness| witness.key.name().to_owned()).collect())
}

/// What one witness cosigned last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its name.
    pub name: String,
    /// Whether readers wait for it.
    pub required: bool,
    /// So many lines, at that time in seconds since 1970.
    pub last: Option<(u64, u64)>,
}

/// Where every witness stands: by the root file that `view` shows or, where that says nothing of
/// it, by what is noted of it, which only its owner can read.
pub fn standings(disk: &Disk<'_>, config: &Config, view: &View<'_>) -> Vec<Standing> {
    let shown = SignedNote::parse(&view.note).ok();
    let cosigned = Cosigned::load(disk).unwrap_or_default();
    let standing = |witness: &Witness| {
        let key = &witness.key;
        let on_root = shown.as_ref().and_then(|note| cosignature_of(note, key));
        let noted = || Some((cosigned.size(key), stamped_at(&cosigned.line(key)?)?));
        Standing {
            name: key.name().to_owned(),
            required: witness.required,
            last: on_root.map(|(_, time_s)| (view.checkpoint.size, time_s)).or_else(noted),
        }
    };
    config.witnesses.iter().map(standing).collect()
}

/// What a round brought beside cosignatures.
#[derive(Default)]
struct Said<'a> {
    warnings: Vec<String>,
    /// Who said something that our own copy of the log does not explain.
    doubtful: Vec<&'a Witness>,
    /// Whether more was signed meanwhile than what was asked for.
    overtaken: bool,
}

/// One checkpoint, shown to those who have not cosigned it lately; what they add is stored.
fn round<'a>(
    (disk, config): (Disk<'_>, &'a Config),
    witnesses: &[&'a Witness],
    until_boot_ms: u64,
) -> Result<Said<'a>, Failure> {
    let mut said = Said::default();
    let now_s = disk.host.clock().wall_ms / 1_000;
    let identity = Identity::require(&disk)?;
    let cosigned = Cosigned::load(&disk)?;
    let body = body(&floor::read(&disk, &identity)?)?;
    let fresh = |witness: &Witness| {
        let last = cosigned.over(&witness.key, &body);
        last.is_some_and(|(_, time_s)| now_s.saturating_sub(time_s) < FRESH_S)
    };
    let due: Vec<&Witness> = witnesses.iter().copied().filter(|witness| !fresh(witness)).collect();
    let stored = is_stored(&disk, (config, &identity), (&cosigned, &body))?;
    if due.is_empty() && stored {
        return Ok(said);
    }
    let (view, floor) = View::signed(disk)?;
    let mut exchange = Exchange { disk, view, floor, cosigned, heard: Vec::new(), until_boot_ms };
    let again = exchange.ask(&due, &mut said)?;
    for witness in exchange.ask(&again, &mut said)? {
        said.warnings
            .push(told(witness, "asked from where it said it stands, it stands elsewhere"));
    }
    if !stored || !exchange.heard.is_empty() {
        exchange.store(config, &mut said)?;
    }
    Ok(said)
}

/// Whether the root file holds everything it may hold: an idle tick has nothing to write.
fn is_stored(
    disk: &Disk<'_>,
    (config, identity): (&Config, &Identity),
    (cosigned, body): (&Cosigned, &str),
) -> Result<bool, Failure> {
    Ok(match root::read(disk, &identity.verifier()?)? {
        Some((_, held)) if held.body == body => {
            lines(config, cosigned, body).iter().all(|line| held.signatures.contains(line))
        }
        // It waits for a witness, or for the next tick to write it.
        _ => !is_released(config, cosigned, body),
    })
}

/// Whether a root file that waits for witnesses need not wait any more.
fn is_released(config: &Config, cosigned: &Cosigned, body: &str) -> bool {
    let mut required = config.witnesses.iter().filter(|witness| witness.required);
    release(config) == Release::Cosigned
        && required.all(|witness| cosigned.over(&witness.key, body).is_some())
}

/// All cosignatures of the configured witnesses over a text.
fn lines(config: &Config, cosigned: &Cosigned, body: &str) -> Vec<NoteSignature> {
    let last = |witness: &Witness| Some(cosigned.over(&witness.key, body)?.0);
    config.witnesses.iter().filter_map(last).collect()
}

/// The text that is signed, and that cosignatures are over.
fn body(floor: &Floor) -> Result<String, Failure> {
    let note = SignedNote::parse(&floor.note);
    note.map(|note| note.body)
        .map_err(|error| Failure::failed(format!("nothing is signed: {error}")))
}

/// Looks where doubtful witnesses show what they saw: only our own signature convicts us.
fn look(disk: Disk<'_>, doubtful: &[&Witness], until_boot_ms: u64) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    for (name, url, shown) in shown_by(disk, doubtful, until_boot_ms)? {
        // Ours is read after theirs, or a line committed in between would look like one that we lost.
        let (ours, _) = Published::signed(&disk)?;
        match shown {
            Err(why) => warnings.push(format!("witness {name}: what it shows is of no use: {why}")),
            Ok((theirs, _)) if theirs.size == 0 => {}
            Ok((theirs, note)) => {
                let seen = Seen { theirs: &theirs, note: &note.render(), url: &url };
                if theirs.size > ours.checkpoint.size {
                    return Err(against::rolled_back(&disk, &ours, &seen));
                }
                against::expect_earlier(&disk, &ours, &seen)?;
            }
        }
    }
    Ok(warnings)
}

/// The checkpoint that a witness shows, or why that is of no use.
type Shown = Result<(Checkpoint, SignedNote), String>;

/// What those with a monitoring URL show of our log, with their names and that URL.
fn shown_by(
    disk: Disk<'_>,
    witnesses: &[&Witness],
    until_boot_ms: u64,
) -> Result<Vec<(String, String, Shown)>, Failure> {
    let watched =
        |witness: &&Witness| Some((witness.key.name().to_owned(), witness.monitor.clone()?));
    let watched: Vec<(String, Prefix)> = witnesses.iter().filter_map(watched).collect();
    if watched.is_empty() {
        return Ok(Vec::new());
    }
    let origin = Identity::require(&disk)?.origin;
    let calls: Vec<Call> = watched
        .iter()
        .map(|(_, prefix)| call(prefix, Witness::shown_at(prefix, &origin)))
        .collect();
    let answers = disk.host.dial(&calls, until_boot_ms);
    let (view, _) = View::signed(disk)?;
    let opened = |answer: &Answer| {
        let (status, body) = whole(answer)?;
        match status {
            200 => against::opened(&view.fold, &view.vkey, body).map_err(|error| error.to_string()),
            _ => Err(format!("status {status}")),
        }
    };
    let shown = watched.into_iter().zip(&answers).map(|((name, prefix), answer)| {
        (name, format!("{}{}", prefix.address, prefix.path), opened(answer))
    });
    Ok(shown.collect())
}

/// Which witness shows the largest checkpoint of our log, and its size; `None` where none is of use.
pub fn largest_seen(disk: &Disk<'_>, config: &Config) -> Result<Option<(String, u64)>, Failure> {
    let all: Vec<&Witness> = config.witnesses.iter().collect();
    let until = disk.host.clock().boot_ms + ASK_MS;
    let shown = shown_by(*disk, &all, until)?.into_iter();
    let sizes = shown.filter_map(|(name, _, shown)| Some((name, shown.ok()?.0.size)));
    Ok(sizes.max_by_key(|(_, size)| *size))
}

fn call(prefix: &Prefix, path: String) -> Call {
    Call {
        method: Method::Get,
        address: prefix.address.clone(),
        path,
        host_header: prefix.address.authority(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: Duration::from_millis(ASK_MS),
        read: Read::Body { max: NOTE_BYTES_MAX },
        targets: Targets::Any,
    }
}

/// Status and body of an answer that came whole.
fn whole(answer: &Answer) -> Result<(u16, &[u8]), String> {
    match answer {
        Ok(reply) if reply.extent == Extent::Whole => Ok((reply.status, &reply.body)),
        Ok(_) => Err("its answer is cut short or too long".to_owned()),
        Err(fault) => Err(format!("no answer ({fault})")),
    }
}

fn told(witness: &Witness, what: &str) -> String {
    format!("witness {}: {what}", witness.key.name())
}
