//! `doctor --adopt`: takes a journal as the base of what is signed on.
//!
//! An anchor refuses to sign where it cannot know that its folder is the newest copy: its own notes
//! are gone, or somebody holds its signature on more. The members know: what they show is held
//! against every line here, a tail that we signed and lost is fetched from them as any member would
//! fetch it, and only where every note under our signature is a moment of this one log, it goes on.

use super::relation;
use crate::config::Config;
use crate::cycle::against;
use crate::cycle::fork::{self, Fork};
use crate::cycle::looking;
use crate::cycle::pull::{Copy, Says, locked};
use crate::cycle::rounds::{PATIENCE, take_lock};
use crate::cycle::server::Server;
use crate::cycle::sync::{anchor_urls, targets};
use crate::cycle::witnesses;
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::journal::chain::Tip;
use crate::journal::checkpoint::Checkpoint;
use crate::journal::merkle::{Frontier, Hash};
use crate::journal::note::NOTE_BYTES_MAX;
use crate::journal::replay::Fold;
use crate::store::cut::{self, Cut};
use crate::store::disk::Disk;
use crate::store::floor::{self, Held};
use crate::store::identity::Identity;
use crate::store::ledger::{Ledger, Mend};
use crate::store::log_keys;
use crate::store::scan::{self, Start};
use crate::store::used_nonces::{UsedNonces, WAIT_S};
use crate::store::view::Published;
use crate::wire::call::Targets;
use std::collections::BTreeMap;

/// How long members have to show their checkpoints, in milliseconds.
const ASK_MS: u64 = 2_000;

/// What only an operator can do about two histories.
const DECIDE: &str = "decide which copy is the right one and stop the other; where it is theirs: crowny-fed doctor --adopt URL; nothing was signed";

fn other_history(failure: Failure) -> Failure {
    match failure.kind {
        Kind::Integrity => failure.hint(DECIDE),
        _ => failure,
    }
}

/// Our own signature somewhere, and who shows it.
struct Claim {
    checkpoint: Checkpoint,
    who: String,
    /// Where it was shown just now by somebody who can hand over the lines: whom to ask for them.
    shown: bool,
}

/// A repair on its way.
struct Adoption<'a> {
    disk: Disk<'a>,
    config: &'a Config,
    copy: Copy<'a>,
    claims: Vec<Claim>,
    /// Members asked, and those that showed something.
    asked: (usize, usize),
    /// Where lines may be fetched from: anywhere that an operator names.
    targets: Targets,
}

/// Takes what is here, with what members hold of our own later lines, as the base to sign on, and
/// says what was done. With `from` only that server is asked.
///
/// # Errors
/// Kind `Integrity` where our signature is on lines that are not these, with nothing changed; `No`
/// where there is nothing to adopt.
pub fn adopt(
    host: &dyn Host,
    config: &Config,
    from: Option<&str>,
    progress: &dyn Fn(u64, u64),
) -> Result<String, Failure> {
    let disk = Disk { host, layout: &config.layout };
    let identity = Identity::require(&disk)?;
    if !identity.is_anchor() && from.is_none() {
        return Err(Failure::failed("a member signs nothing, so it has nothing to adopt").hint(
            "crowny-fed sync fetches what it lacks; crowny-fed doctor says what is wrong with what it has",
        ));
    }
    let busy = || Failure::new(Kind::Busy, "a tick is at work");
    let _whole = take_lock(host, &disk.layout.keys(), PATIENCE)?.ok_or_else(busy)?;
    locked(&disk, || cut::finish(&disk))?;
    let begin = || {
        let held = floor::held(&disk, &identity)?;
        let founded = held.floor.is_some();
        let mut adoption = Adoption::open((disk, config), identity.clone(), held, progress)?;
        adoption.ask(from)?;
        Ok::<_, Failure>((adoption, founded))
    };
    let (mut adoption, mut founded) = begin()?;
    let mut kept = None;
    if let Some(url) = from
        && let Some(fork) = adoption.other_history(url)?
    {
        kept = Some(cut_at(&disk, &identity, fork.line)?);
        // Without our own lines there is no floor either: what is left is proven by what comes.
        (adoption, founded) = begin()?;
    }
    let needed = !founded || adoption.is_needed();
    if !needed {
        return Err(Failure::new(
            Kind::No,
            "nothing to adopt: floor and journal agree, and nobody holds our signature on anything else",
        ));
    }
    adoption.refuse_others()?;
    let before = adoption.copy.ledger.tip().size;
    // What was answered without a line is not known any more. Before anything is fetched: a run that
    // is cut off after it would find nothing left to adopt.
    if identity.is_anchor() {
        let now_s = host.clock().wall_ms / 1_000;
        locked(&disk, || UsedNonces::begin(&disk, now_s, Vec::new()))?;
    }
    let given = adoption.fetch()?;
    let told = adoption.go_on((before, given))?;
    Ok(kept
        .into_iter()
        .fold(told, |told, kept| format!("{told}; our own lines are kept in {kept}")))
}

/// Takes our lines out from the one on at which another history, which the operator named, parts
/// from them. What members signed among them is merged again by whoever holds it.
fn cut_at(disk: &Disk<'_>, identity: &Identity, line: u64) -> Result<String, Failure> {
    let stays = scan::prefix(disk, &identity.origin, line)?;
    let kept =
        locked(disk, || cut::begin(disk, &Cut { size: stays.tip.size, bytes: stays.bytes }))?;
    Ok(match kept.operators.is_empty() {
        true => kept.path,
        false => format!("{}; to be done again: {}", kept.path, kept.operators.join(", ")),
    })
}

impl<'a> Adoption<'a> {
    /// Opens the journal upon what our own notes say, and believes no line that its author did not
    /// sign.
    fn open(
        (disk, config): (Disk<'a>, &'a Config),
        identity: Identity,
        held: Held,
        progress: &'a dyn Fn(u64, u64),
    ) -> Result<Adoption<'a>, Failure> {
        let floor = held.floor.unwrap_or_else(|| floor::nothing_signed(&identity));
        let ledger = locked(&disk, || Ledger::upon((disk, &identity), floor, Mend::Yes))?;
        let mut claims = Vec::new();
        claims.extend(held.against.map(|checkpoint| Claim {
            checkpoint,
            who: disk.layout.root().display().to_string(),
            shown: false,
        }));
        claims.extend(evidence(&disk, &identity, ledger.fold())?);
        let warnings = Vec::new();
        let copy = Copy { disk, identity, ledger, progress, warnings, stranger: false };
        let urls = anchor_urls(&copy.identity, copy.ledger.fold());
        let targets = targets(config, &urls);
        Ok(Adoption { disk, config, copy, claims, asked: (0, 0), targets })
    }

    /// Asks the members, or whom an operator named, for their checkpoints.
    fn ask(&mut self, from: Option<&str>) -> Result<(), Failure> {
        let (disk, fold) = (self.disk, self.copy.ledger.fold());
        let until = disk.host.clock().boot_ms + ASK_MS;
        let shown = match from {
            Some(url) => {
                self.targets = Targets::Any;
                let server = Server::named(disk.host, url)?;
                let answer = server.ask("/checkpoint", NOTE_BYTES_MAX);
                server.whole("/checkpoint", answer.clone())?;
                vec![(server, answer)]
            }
            None => looking::ask(&disk, self.config, (&self.copy.identity, fold), until),
        };
        let vkey = self.copy.identity.verifier()?;
        let mut found = Vec::new();
        for (server, answer) in &shown {
            let Ok(bytes) = server.whole("/checkpoint", answer.clone()) else { continue };
            if let Ok((checkpoint, _)) = against::opened(fold, &vkey, &bytes) {
                found.push(Claim { checkpoint, who: server.url.clone(), shown: true });
            }
        }
        self.asked = (shown.len(), found.len());
        self.claims.extend(found);
        Ok(())
    }

    /// Where an operator named the copy that is right, and it is another history than ours: where
    /// the two part.
    fn other_history(&self, url: &str) -> Result<Option<Fork>, Failure> {
        let server = Server::named(self.disk.host, url)?;
        let Ok((ours, _)) = Published::signed(&self.disk) else { return Ok(None) };
        let shown = self.claims.iter().find(|claim| claim.who == server.url);
        let Some(Claim { checkpoint, .. }) = shown else {
            let why = format!("{url}/checkpoint is none of {}", ours.checkpoint.origin);
            return Err(Failure::failed(why));
        };
        if relation(&self.disk, &ours, (&server, checkpoint))?.is_one_log() {
            return Ok(None);
        }
        let Some(fork) = fork::shown_by(&self.disk, &ours, &server)? else {
            return Err(Failure::failed(format!("{url} does not show its lines")));
        };
        // As evidence before anything is cut: with our floor gone, it is what keeps a repair that
        // is cut off from signing on before the other lines have come.
        let _kept = against::forked(&self.disk, &ours, &fork, url);
        Ok(Some(fork))
    }

    /// Whether anything stands in the way of signing on.
    fn is_needed(&self) -> bool {
        let floor = self.copy.ledger.floor();
        let beyond = |claim: &Claim| !claim.shown || claim.checkpoint.size > floor.size;
        self.claims.iter().any(beyond)
    }

    /// Every note of as many lines as we have, or fewer, must be a moment of them.
    fn refuse_others(&self) -> Result<(), Failure> {
        let roots = self.roots()?;
        for Claim { checkpoint, who, .. } in &self.claims {
            let size = checkpoint.size;
            let Some(root) = roots.get(&size).filter(|root| **root != checkpoint.root) else {
                continue;
            };
            return Err(Failure::integrity(format!(
                "{who} has our signature on {size} lines with root {}, but the first {size} lines here give {root}: two histories",
                checkpoint.root
            ))
            .hint(DECIDE));
        }
        Ok(())
    }

    /// The roots at the sizes that are claimed, from the lines alone.
    fn roots(&self) -> Result<BTreeMap<u64, Hash>, Failure> {
        let identity = &self.copy.identity;
        let mut roots: BTreeMap<u64, Hash> = BTreeMap::new();
        let (mut frontier, mut fold) = (Frontier::new(), Fold::default());
        let start = Start { tip: Tip::origin(&identity.origin), bytes: 0 };
        let size = self.copy.ledger.tip().size;
        if size == 0 {
            return Ok(roots);
        }
        scan::walk(&self.disk, start, size, &mut |step| {
            fold.check_author(step.line).map_err(|reason| {
                floor::changed(&self.disk, step.line.seq, step.at, &reason.to_string())
            })?;
            fold.apply(step.line);
            frontier.push(step.tip.head);
            if self.claims.iter().any(|claim| claim.checkpoint.size == step.tip.size) {
                roots.insert(step.tip.size, frontier.root());
            }
            (self.copy.progress)(step.tip.size, size);
            Ok(())
        })?;
        Ok(roots)
    }

    /// Fetches what we signed and lost from those that hold it; returns who gave it.
    fn fetch(&mut self) -> Result<Option<String>, Failure> {
        let disk = self.disk;
        self.claims.sort_by_key(|claim| std::cmp::Reverse(claim.checkpoint.size));
        let mut given = None;
        for Claim { checkpoint, who, .. } in self.claims.iter().filter(|claim| claim.shown) {
            if checkpoint.size <= self.copy.ledger.tip().size {
                continue;
            }
            let server = Server::named(disk.host, who)?.only(self.targets);
            // Lines that we never signed give way to those that we did. Without any floor all of
            // ours are such lines, and they stay.
            let founded = self.copy.ledger.floor().size > 0;
            let says = if founded { Says::Authority } else { Says::Hearsay };
            // Once more, where lines had to give way first.
            for _ in 0..=u8::from(founded) {
                if self.copy.pull(&server, says).map_err(other_history)? {
                    given = Some(who.clone());
                    break;
                }
            }
        }
        let held = self.copy.ledger.tip().size;
        if held == 0 {
            return Err(Failure::failed("there is no journal here, and so no member to ask")
                .hint("name a member that has it: crowny-fed doctor --adopt URL"));
        }
        match self.claims.iter().find(|claim| claim.checkpoint.size > held) {
            None => Ok(given),
            Some(claim) => Err(Failure::integrity(format!(
                "{} has our signature on {} lines, {held} are here, and nobody gave the rest: {}",
                claim.who,
                claim.checkpoint.size,
                self.copy.warnings.join("; ")
            ))
            .hint("start the members that have them and run it again; nothing is signed before")),
        }
    }

    /// Everything fits: signs what was never signed, and lets signing go on.
    fn go_on(mut self, (before, given): (u64, Option<String>)) -> Result<String, Failure> {
        // Again, for what was fetched.
        self.refuse_others()?;
        let (disk, config) = (self.disk, self.config);
        let Copy { identity, ledger, .. } = &mut self.copy;
        let now_s = disk.host.clock().wall_ms / 1_000;
        let settled = locked(&disk, || {
            if ledger.floor().size < ledger.tip().size {
                let keys = log_keys::signing(&disk, identity, ledger.fold(), now_s)?;
                ledger.publish_by(&keys, witnesses::release(config))?;
            }
            identity.follow(&disk, ledger.fold(), &ledger.floor().note)?;
            ledger.finish()?;
            floor::settle(&disk)
        })?;
        let size = ledger.tip().size;
        let mut told = match given {
            Some(who) => {
                format!("adopted: {} lines from {who}, {size} now", size - before.min(size))
            }
            None => format!("adopted: the {size} lines here are what is signed on"),
        };
        if let (asked @ 1.., 0) = self.asked {
            told.push_str(&format!("; none of {asked} members answered"));
        }
        if let Some(aside) = settled {
            told.push_str(&format!("; evidence set aside in {aside}"));
        }
        if identity.is_anchor() {
            told.push_str(&format!("; signed writes wait {WAIT_S} s from now"));
        }
        Ok(told)
    }
}

/// Notes of the log's that convicted us before.
fn evidence(disk: &Disk<'_>, identity: &Identity, fold: &Fold) -> Result<Vec<Claim>, Failure> {
    let (folder, vkey) = (disk.layout.evidence(), identity.verifier()?);
    let mut claims = Vec::new();
    for name in disk.host.names(&folder).unwrap_or_default() {
        let counts = name.starts_with("theirs-") || name.starts_with("root-");
        let path = folder.join(&name);
        let Some(bytes) = disk.read(&path).ok().flatten().filter(|_| counts) else { continue };
        if let Ok((checkpoint, _)) = against::opened(fold, &vkey, &bytes) {
            claims.push(Claim { checkpoint, who: path.display().to_string(), shown: false });
        }
    }
    Ok(claims)
}
