//! Pages from one server, each checked before it is appended.
//!
//! What is appended without the end of its checkpoint is not shown to anybody until the rest has
//! come, from whomever: the tree over it must then give the signed root, so a run that is cut off
//! goes on at its last whole line and nothing unproven is ever believed.

mod asking;

use self::asking::{Asking, Step};
use super::against::{self, Seen};
use super::crossing::{self, Found, is_of_another};
use super::fork::{self, Unknown};
use super::rounds::{PATIENCE, take_lock};
use super::server::Server;
use crate::auth::vkey::VerifierKey;
use crate::error::{Failure, Kind};
use crate::host::{Keep, Readers};
use crate::journal::checkpoint::open_checkpoint;
use crate::journal::note::NOTE_BYTES_MAX;
use crate::journal::page::{ANSWER_BYTES_MAX, End, Page};
use crate::journal::prefix::{Forged, Prefix};
use crate::journal::replay::LogKeys;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::store::ledger::{Ledger, Mend};
use crate::store::view::Published;
use crate::wire::call::Extent;

/// Largest `/nodes` answer read, as large as a server sends it.
const NODES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A copy of the journal on its way.
pub(super) struct Copy<'a> {
    pub(super) disk: Disk<'a>,
    pub(super) identity: Identity,
    pub(super) ledger: Ledger<'a>,
    pub(super) progress: &'a dyn Fn(u64, u64),
    pub(super) warnings: Vec<String>,
    /// The server asked last showed the checkpoint of another federation.
    pub(super) stranger: bool,
}

/// Lines with everything that should prove them.
struct Claimed {
    prefix: Prefix,
    lines: Vec<Vec<u8>>,
    end: End,
    /// The key that signed the checkpoint.
    vkey: VerifierKey,
}

/// Whose word that our unfinished lines are of no log is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// An anchor, or whom an operator named: it is believed, for what it costs is asking again.
    Authority,
    /// Any member: it may lag, or want to keep us back, and the lines were proven.
    Hearsay,
}

impl<'a> Copy<'a> {
    /// Whether lines beyond our checkpoint wait for the rest of theirs.
    pub(super) fn unfinished(&self) -> bool {
        self.ledger.tip().size > self.ledger.floor().size
    }

    /// Notes what is wrong with a server.
    pub(super) fn warn(&mut self, server: &Server<'_>, what: &str) {
        self.warnings.push(format!("{}: {what}", server.url));
    }

    /// Notes that another federation answers there.
    pub(super) fn stranger(&mut self, server: &Server<'_>, origin: &str) {
        self.stranger = true;
        self.warn(server, &format!("shows the log of another federation than {origin}"));
    }

    /// Takes pages until the end of the checkpoint; `true` where it was reached. What a server does
    /// wrong is a warning.
    pub(super) fn pull(&mut self, server: &Server<'_>, says: Says) -> Result<bool, Failure> {
        self.stranger = false;
        let mut asking = Asking::begun();
        while !server.late() {
            match self.step(server, &mut asking)? {
                Step::Further => {}
                Step::Whole => return Ok(true),
                Step::Unknown(answer) => {
                    if !self.unknown_to(server, &answer, says)? {
                        return Ok(false);
                    }
                    asking.reached = None;
                    asking.carried.clear();
                }
                Step::GivenUp(why) => {
                    self.warn(server, &why);
                    return Ok(false);
                }
            }
        }
        let held = self.ledger.tip().size;
        self.warn(server, &format!("no time left after line {held}; the next run goes on there"));
        Ok(false)
    }

    /// One page: asked, checked, appended.
    fn step(&mut self, server: &Server<'_>, asking: &mut Asking) -> Result<Step, Failure> {
        let mut prefix = asking.reached.take().unwrap_or_else(|| self.ledger.prefix());
        let from = prefix.tip.size;
        let (page, cut) = match self.page(server, &prefix, asking.most) {
            Ok(page) => page,
            Err(step) => return Ok(step),
        };
        if let Err(why) = take_all(&mut prefix, &page.lines) {
            return Ok(Step::GivenUp(format!(
                "/sync after {from} lines: {why}; none of it is kept"
            )));
        }
        asking.carried.extend(page.lines);
        let Some(end) = page.end.filter(|_| !cut) else {
            return Ok(asking.broke_off(from, prefix));
        };
        match self.key_of(&prefix, &end.note) {
            Ok(vkey) => {
                let lines = std::mem::take(&mut asking.carried);
                self.settle(server, Claimed { prefix, lines, end, vkey })
            }
            Err(why) => Ok(asking.carry_on(from, prefix, &why)),
        }
    }

    /// Which log key a note is by: one that we know, or the one that the lines shown before it name,
    /// for each log key signs the next one in, and the recovery key may.
    fn key_of(&self, prefix: &Prefix, note: &str) -> Result<VerifierKey, String> {
        let known = self.identity.verifier_of(note.as_bytes()).map_err(|f| f.message)?;
        let error = match open_checkpoint(note, &known) {
            Ok(_) => return Ok(known),
            Err(error) => error.to_string(),
        };
        let log = prefix.fold.log.as_ref().filter(|_| prefix.forged.is_none());
        let mut named = log.into_iter().flat_map(LogKeys::named);
        named.find(|vkey| open_checkpoint(note, vkey).is_ok()).ok_or(error)
    }

    /// The page after `held`, and whether it broke off.
    fn page(&self, server: &Server<'_>, held: &Prefix, most: u64) -> Result<(Page, bool), Step> {
        let path = format!("/sync?size={}&since={}&most={most}", held.tip.size, held.tip.head);
        let reply = server
            .ask(&path, ANSWER_BYTES_MAX)
            .map_err(|fault| Step::GivenUp(format!("/sync: {fault}")))?;
        match reply.status {
            200 => Page::parse(&reply.body)
                .map(|page| (page, reply.extent != Extent::Whole))
                .map_err(|why| Step::GivenUp(format!("/sync: {why}"))),
            409 => Err(Step::Unknown(reply.body)),
            // Whoever knows no /sync may still show the whole journal.
            400 | 404 | 405 | 501 => self
                .dump(server, held)
                .map(|page| (page, false))
                .map_err(|why| Step::GivenUp(format!("/sync answered {}; {why}", reply.status))),
            status => Err(Step::GivenUp(format!("/sync answered {status}"))),
        }
    }

    /// The whole journal in one piece, as a page.
    fn dump(&self, server: &Server<'_>, held: &Prefix) -> Result<Page, String> {
        let told = |failure: Failure| failure.message;
        let note = server.fetch("/checkpoint", NOTE_BYTES_MAX).map_err(told)?;
        let dump = server.fetch("/nodes", NODES_BYTES_MAX).map_err(told)?;
        let note = String::from_utf8(note).map_err(|_| "/checkpoint is not UTF-8".to_owned())?;
        let vkey = self.identity.verifier_of(note.as_bytes()).map_err(told)?;
        let (checkpoint, _) =
            open_checkpoint(&note, &vkey).map_err(|error| format!("/checkpoint: {error}"))?;
        let whole = |lines: u64| usize::try_from(lines).unwrap_or(usize::MAX);
        let lines = dump
            .split(|byte| *byte == b'\n')
            .skip(whole(held.tip.size))
            .take(whole(checkpoint.size.saturating_sub(held.tip.size)))
            .map(<[u8]>::to_vec)
            .collect();
        Ok(Page { lines, end: Some(End { note, path: Vec::new() }) })
    }

    /// Believes the lines, or says why not.
    fn settle(&mut self, server: &Server<'_>, claimed: Claimed) -> Result<Step, Failure> {
        let Claimed { prefix, lines, end, vkey } = claimed;
        let (checkpoint, note) = match open_checkpoint(&end.note, &vkey) {
            Ok(opened) => opened,
            Err(error) => return Ok(Step::GivenUp(format!("/sync: {error}"))),
        };
        if checkpoint.size <= self.ledger.floor().size
            && let Ok((ours, _)) = Published::signed(&self.disk)
        {
            // However it came: two histories under one signature are told, not passed over.
            let seen = Seen { theirs: &checkpoint, note: &note.render(), url: &server.url };
            against::expect_earlier(&self.disk, &ours, &seen)?;
        }
        if checkpoint.size < self.ledger.floor().size {
            return Ok(Step::GivenUp("/sync shows an older checkpoint than ours".to_owned()));
        }
        if let Err(why) = prefix.proves(&checkpoint, &end.path) {
            return Ok(Step::GivenUp(format!("/sync: {why}; none of it is kept")));
        }
        if let Some(forged) = &prefix.forged {
            return Err(keep_forged(&self.disk, forged, &end.note));
        }
        let whole = prefix.tip.size == checkpoint.size;
        if lines.is_empty() && !whole {
            return Ok(Step::GivenUp("/sync gives no line".to_owned()));
        }
        let Copy { disk, identity, ledger, .. } = self;
        locked(disk, || {
            ledger.commit(&joined(&lines))?;
            if !whole {
                return Ok(());
            }
            // Stored before the floor holds a note by it.
            identity.expect_next(disk, &vkey.to_string())?;
            ledger.publish_under(&note.render(), checkpoint.root)?;
            identity.follow(disk, ledger.fold(), &ledger.floor().note)
        })?;
        (self.progress)(prefix.tip.size, checkpoint.size);
        Ok(if whole { Step::Whole } else { Step::Further })
    }

    /// The server does not know where we stand: it lags, or it shows another history. `true` where
    /// we stand elsewhere now and should ask again.
    fn unknown_to(
        &mut self,
        server: &Server<'_>,
        answer: &[u8],
        says: Says,
    ) -> Result<bool, Failure> {
        let told = match serde_json::from_slice::<Unknown>(answer) {
            Ok(told) => told,
            Err(why) => {
                self.warn(server, &format!("does not know our lines and shows none: {why}"));
                return Ok(false);
            }
        };
        let vkey = self.identity.verifier_of(told.checkpoint.as_bytes())?;
        let (theirs, note) = match open_checkpoint(&told.checkpoint, &vkey) {
            Ok(opened) => opened,
            Err(_) if is_of_another(told.checkpoint.as_bytes(), vkey.name()) => {
                self.stranger(server, vkey.name());
                return Ok(false);
            }
            Err(why) => return self.cross_over(server, &why.to_string()),
        };
        if self.unfinished() {
            // They were proven under a checkpoint that we did not keep.
            let held = self.ledger.floor().size;
            if says == Says::Hearsay {
                let what = format!("does not have our unfinished lines after {held}; they stay");
                self.warn(server, &what);
                return Ok(false);
            }
            self.warn(
                server,
                &format!("does not have our unfinished lines after {held}; they are set aside"),
            );
            let Copy { disk, identity, ledger, .. } = self;
            return locked(disk, || ledger.rewind(identity)).map(|()| false);
        }
        let Ok((ours, _)) = Published::signed(&self.disk) else { return Ok(false) };
        let seen = Seen { theirs: &theirs, note: &note.render(), url: &server.url };
        if theirs.size <= ours.checkpoint.size {
            return against::expect_earlier(&self.disk, &ours, &seen).map(|()| false);
        }
        if let Some(fork) = fork::shown_by(&self.disk, &ours, server)? {
            return Err(against::forked(&self.disk, &ours, &fork, &server.url));
        }
        let kept = against::keep_unproven(&self.disk, &seen);
        let what = format!(
            "shows {} lines under the log's signature, but not that they continue our {}{kept}",
            theirs.size, ours.checkpoint.size
        );
        self.warn(server, &what);
        Ok(false)
    }

    /// A log key that we do not know signed what `server` shows, and it does not have our lines: of
    /// another federation, or of a later epoch that began before our last lines.
    fn cross_over(&mut self, server: &Server<'_>, why: &str) -> Result<bool, Failure> {
        let crossing = match crossing::shown_by(&self.disk, &self.identity, server)? {
            Found::Later(crossing) => crossing,
            Found::Nothing => {
                self.warn(server, &format!("does not know our lines and shows none: {why}"));
                return Ok(false);
            }
            Found::Fork(line) => {
                let told = format!(
                    "shows that the log's key named a successor at line {line}, below our last: two histories, which only crowny-fed recover settles"
                );
                self.warn(server, &told);
                return Ok(false);
            }
        };
        if crossing.succession.anchor != self.identity.id {
            // Proven: whom to ask for the rest, whoever showed it.
            self.identity.step_down(&self.disk, &crossing.succession.urls)?;
        }
        let Copy { disk, identity, ledger, .. } = self;
        let moved = locked(disk, || {
            let moved = crossing::cut(disk, &crossing)?;
            *ledger = Ledger::open(*disk, identity, Mend::Yes)?;
            Ok(moved)
        })?;
        self.warn(server, &moved);
        Ok(true)
    }
}

fn take_all(prefix: &mut Prefix, lines: &[Vec<u8>]) -> Result<(), String> {
    for line in lines {
        let at = prefix.tip.size;
        prefix.take(line).map_err(|error| format!("line {at} does not follow: {error}"))?;
    }
    Ok(())
}

fn joined(lines: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = lines.join(&b'\n');
    if !lines.is_empty() {
        bytes.push(b'\n');
    }
    bytes
}

/// The log's key signed a line that is not by the member it speaks for (law 4).
fn keep_forged(disk: &Disk<'_>, forged: &Forged, note: &str) -> Failure {
    let Forged { seq, raw, reason } = forged;
    let path = disk.layout.evidence().join(format!("forged-{seq}.txt"));
    let bytes = [raw.as_slice(), b"\n\n", note.as_bytes()].concat();
    let kept = locked(disk, || {
        disk.folder(&disk.layout.evidence(), true)?;
        disk.put(&path, &bytes, (Keep::Durable, Readers::Usual))
    });
    let failure = Failure::integrity(format!(
        "line {seq} is under the log's signature, but not by its author: {reason}"
    ));
    match kept {
        Ok(()) => failure.hint(format!("line and checkpoint are kept: {}", path.display())),
        Err(_) => failure,
    }
}

/// Runs `work` under the append lock.
pub(super) fn locked<T>(
    disk: &Disk<'_>,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let busy = || Failure::new(Kind::Busy, "another process works on the journal");
    let _append = take_lock(disk.host, &disk.layout.state(), PATIENCE)?.ok_or_else(busy)?;
    work()
}
