//! One question to witnesses: what is sent, what the answers come to, what is kept of them.

use super::{Said, call, is_released, lines, told, whole};
use crate::auth::vkey::CosignerKey;
use crate::config::Config;
use crate::cycle::rounds::take_lock;
use crate::error::Failure;
use crate::journal::cosignature::{
    Witnessed, parse_answer, render_add_checkpoint, verify_cosignature,
};
use crate::journal::floor::Floor;
use crate::journal::note::NoteSignature;
use crate::store::cosigned::Cosigned;
use crate::store::disk::Disk;
use crate::store::floor;
use crate::store::root::{self, Shown};
use crate::store::view::View;
use crate::wire::call::{Answer, Call, Method};
use crate::wire::witness::Witness;
use std::time::Duration;

/// How long storing what they said waits for the append lock; the next run asks again.
const PATIENCE: Duration = Duration::from_secs(1);

/// A question under way.
pub(super) struct Exchange<'a> {
    pub(super) disk: Disk<'a>,
    /// What was signed, shown to readers or not.
    pub(super) view: View<'a>,
    pub(super) floor: Floor,
    pub(super) cosigned: Cosigned,
    /// Of whom we know more than before.
    pub(super) heard: Vec<CosignerKey>,
    pub(super) until_boot_ms: u64,
}

/// What one answer comes to.
enum Weighed {
    /// A cosignature that holds.
    Cosigned(NoteSignature),
    /// It saw so many lines, and we can prove ours from there.
    At(u64),
    /// It saw lines that another run of ours committed just now.
    Overtaken,
    /// Our own copy of the log does not explain this.
    Doubtful(String),
    /// Good for nothing.
    Worthless(String),
}

impl Exchange<'_> {
    /// Asks them all at once; returns those to ask once more, from where they say they stand.
    pub(super) fn ask<'w>(
        &mut self,
        witnesses: &[&'w Witness],
        said: &mut Said<'w>,
    ) -> Result<Vec<&'w Witness>, Failure> {
        let calls = witnesses.iter().map(|witness| self.call(witness));
        let calls = calls.collect::<Result<Vec<Call>, Failure>>()?;
        let answers = self.disk.host.dial(&calls, self.until_boot_ms);
        let mut again = Vec::new();
        for (&witness, answer) in witnesses.iter().zip(&answers) {
            match self.weigh(witness, answer)? {
                Weighed::Cosigned(line) => {
                    self.cosigned.stands_at(&witness.key, self.floor.size);
                    self.cosigned.signed(&witness.key, &line);
                    self.heard.push(witness.key.clone());
                }
                Weighed::At(size) => {
                    self.cosigned.stands_at(&witness.key, size);
                    self.heard.push(witness.key.clone());
                    again.push(witness);
                }
                Weighed::Overtaken => said.overtaken = true,
                Weighed::Doubtful(why) => {
                    said.warnings.push(told(witness, &why));
                    said.doubtful.push(witness);
                }
                Weighed::Worthless(why) => said.warnings.push(told(witness, &why)),
            }
        }
        Ok(again)
    }

    /// The size to prove from: never more than we have, whatever was noted.
    fn old(&self, witness: &Witness) -> u64 {
        self.cosigned.size(&witness.key).min(self.floor.size)
    }

    fn call(&self, witness: &Witness) -> Result<Call, Failure> {
        let (old, new) = (self.old(witness), self.floor.size);
        // To a witness that saw nothing there is nothing to prove.
        let path = if old == 0 { Vec::new() } else { self.view.consistency(old, new)? };
        let body = render_add_checkpoint(old, &path, &self.floor.note);
        let call = call(&witness.submission, format!("{}/add-checkpoint", witness.submission.path));
        Ok(Call { method: Method::Post, body: body.into_bytes(), ..call })
    }

    fn weigh(&self, witness: &Witness, answer: &Answer) -> Result<Weighed, Failure> {
        let witnessed = whole(answer).and_then(|(status, body)| {
            parse_answer(status, body).map_err(|error| format!("its answer is of no use: {error}"))
        });
        Ok(match witnessed {
            Err(why) => Weighed::Worthless(why),
            Ok(Witnessed::Cosigned(lines)) => self.held(witness, &lines),
            Ok(Witnessed::At(size)) => self.elsewhere(witness, size)?,
            Ok(Witnessed::Unproven) => {
                Weighed::Doubtful("what it saw of this log is not how ours begins (422)".to_owned())
            }
            Ok(Witnessed::Refused(status)) => Weighed::Worthless(refused(status).to_owned()),
        })
    }

    /// The newest line that holds: a witness may add lines by keys and of types we do not know.
    fn held(&self, witness: &Witness, lines: &[NoteSignature]) -> Weighed {
        let body = self.view.checkpoint.render();
        let mut why = "its answer has no cosignature by its key".to_owned();
        let mut newest: Option<(u64, &NoteSignature)> = None;
        for line in lines.iter().filter(|line| line.is_by(&witness.key)) {
            match verify_cosignature(&body, line, &witness.key) {
                Ok(time_s) if newest.is_none_or(|(held_s, _)| held_s < time_s) => {
                    newest = Some((time_s, line));
                }
                Ok(_) => {}
                Err(error) => why = format!("its answer is of no use: {error}"),
            }
        }
        newest.map_or(Weighed::Worthless(why), |(_, line)| Weighed::Cosigned(line.clone()))
    }

    /// A 409. A number is nobody's signature: it sends us to another place in our own log, or makes
    /// us wonder, and never convicts.
    fn elsewhere(&self, witness: &Witness, size: u64) -> Result<Weighed, Failure> {
        let ours = self.floor.size;
        if size > ours {
            let now = floor::read(&self.disk, &self.view.identity)?.size;
            let rolled_back =
                format!("says it saw {size} lines of this log, we have {ours}: restored backup?");
            return Ok(if size <= now {
                Weighed::Overtaken
            } else {
                Weighed::Doubtful(rolled_back)
            });
        }
        // This is also how a witness says that it saw another root at our size.
        if size == self.old(witness) {
            let other = format!("says it saw another log of {size} lines under this name (409)");
            return Ok(Weighed::Doubtful(other));
        }
        Ok(Weighed::At(size))
    }

    /// Keeps what was heard and, where that is enough, lets readers see what was signed.
    pub(super) fn store(&self, config: &Config, said: &mut Said<'_>) -> Result<(), Failure> {
        let disk = &self.disk;
        let Some(_append) = take_lock(disk.host, &disk.layout.state(), PATIENCE)? else {
            said.warnings.push("the journal is busy: witnesses are asked again later".to_owned());
            return Ok(());
        };
        let mut cosigned = Cosigned::load(disk)?;
        // What another run heard of the others meanwhile is newer.
        self.heard.iter().for_each(|key| cosigned.take(&self.cosigned, key));
        cosigned.keep_only(config.witnesses.iter().map(|witness| &witness.key));
        cosigned.store(disk)?;
        let signed = floor::read(disk, &self.view.identity)?.size;
        if signed < self.floor.size {
            // Somebody put an older copy of this folder in place: that one is not ours to raise.
            return Ok(());
        }
        let body = self.view.checkpoint.render();
        // What readers saw can be told from the root file alone: without it, only what is newest
        // is sure not to be older.
        let newest = signed == self.floor.size || root::read(disk, &self.view.vkey)?.is_some();
        let released = newest && is_released(config, &cosigned, &body);
        let lines = lines(config, &cosigned, &body);
        match root::cosign(disk, &self.view.vkey, (&self.floor, released), lines)? {
            Shown::More => self.follow_up(),
            Shown::Same | Shown::Other => Ok(()),
        }
    }

    /// What [`crate::store::ledger::Ledger::publish`] left undone while readers had to wait.
    fn follow_up(&self) -> Result<(), Failure> {
        self.view.store_snapshot(&self.floor)?;
        self.view.identity.clone().follow(&self.disk, &self.view.fold, &self.floor.note)
    }
}

fn refused(status: u16) -> &'static str {
    match status {
        403 => "does not take our signature (403): it has to be told this log's key",
        404 => "does not know this log (404): it has to be told its origin and key",
        _ => "cannot read our question (400)",
    }
}
