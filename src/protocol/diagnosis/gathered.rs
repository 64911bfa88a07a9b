//! The facts that findings are made of, as plain values.

use super::{Finding, Weight};
use crate::protocol::member::NodeId;

/// Everything that was looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The folder, as one word of a shell.
    pub dir: String,
    /// Whether this node serialises and signs.
    pub anchor: bool,
    /// Lines under what was signed.
    pub size: u64,
    /// What could not be read, or contradicts itself.
    pub troubles: Vec<Trouble>,
    /// Members, and roster rows, that were asked just now.
    pub shown: Vec<Shown>,
    /// The notes of others in `state/evidence`.
    pub evidence: Vec<Seen>,
    /// Our clock in seconds since 1970.
    pub wall_s: u64,
    /// `ts` of the journal's last line.
    pub last_line_s: Option<u64>,
    /// Whether an operator said that the clock is right and the journal ahead.
    pub clock_accepted: bool,
    /// Seconds for which signed writes wait.
    pub nonce_wait_s: Option<u64>,
    /// What the last tick left; none where it left nothing that reads.
    pub ticks: Option<Ticks>,
    /// Whether something on loopback answered or refused.
    pub loopback_works: bool,
    /// Files of bytes set aside, with their lengths.
    pub torn: Vec<(String, u64)>,
}

impl Facts {
    /// A command on this folder.
    pub fn command(&self, verb: &str) -> String {
        format!("crowny-fed {verb} --dir {}", self.dir)
    }

    /// A command that moves a file of the folder out of the way.
    pub fn aside(&self, name: &str) -> String {
        let dir = &self.dir;
        format!("mkdir -p {dir}/aside && mv {dir}/{name} {dir}/aside/")
    }
}

/// When ticks ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Seconds since the last one.
    pub ago_s: u64,
    /// The configured interval; 0 where they are started by hand.
    pub interval_s: u64,
    /// On a node: ticks in a row in which no anchor answered.
    pub anchor_away: u64,
}

/// Somebody who was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// What it shows under the log's signature.
    pub seen: Option<Seen>,
    /// Why it did not answer.
    pub fault: Option<String>,
}

/// A note under the log's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who shows it, or the file it is in.
    pub who: String,
    /// Its lines.
    pub size: u64,
    /// What it is beside ours.
    pub relation: Relation,
}

/// What a checkpoint is beside ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same, or an earlier moment of our log.
    Ours,
    /// More lines, which are shown to continue ours.
    Longer,
    /// Another history, from this line on where that is known.
    Other {
        /// The first line that differs.
        line: Option<u64>,
    },
    /// A later epoch, in which this member serialises; proven.
    Later {
        /// Who.
        anchor: NodeId,
        /// Its number.
        epoch: u64,
    },
    /// More lines, and nothing shows what they are.
    Unproven,
}

impl Relation {
    /// Whether both are moments of one log.
    pub fn is_one_log(&self) -> bool {
        matches!(self, Relation::Ours | Relation::Longer)
    }
}

/// Something that could not be read, or that contradicts what was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What it is.
    pub cause: Cause,
    /// How bad it is.
    pub weight: Weight,
    /// What was found, with file, line and numbers.
    pub told: String,
}

/// What kinds of trouble there are; each has a way out of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Configuration, owner or mode, with the way out that the check gives.
    Setting(String),
    /// `self.json` is missing or does not read.
    Identity,
    /// The folder does not support locks.
    Lock,
    /// A key that is missing, unreadable or another one.
    Key(String),
    /// A member's shared key on the anchor.
    SharedKey,
    /// Neither floor nor root file says how much was signed.
    NoFloor,
    /// The floor does not read.
    Floor,
    /// Floor and root file are of two times.
    TwoNotes,
    /// The journal is shorter than, or not, what was signed.
    Journal,
    /// Nothing was fetched yet.
    Empty,
    /// A derived file or folder is missing.
    Missing(String),
    /// A derived file or folder contradicts the journal.
    Wrong(String),
    /// The file of nonces does not read.
    Nonces,
    /// Lines or bytes beyond what was signed.
    Beyond,
}

impl Trouble {
    pub(super) fn finding(&self, facts: &Facts) -> Finding {
        let (why, next) = self.cause.way_out(facts);
        Finding { weight: self.weight, what: self.told.clone(), why, next }
    }
}

impl Cause {
    fn way_out(&self, facts: &Facts) -> (String, String) {
        let (dir, tick) = (&facts.dir, facts.command("tick"));
        let (why, next) = match self {
            Cause::Setting(hint) => ("no verb that writes goes on before", hint.clone()),
            Cause::Identity => (
                "without it nobody knows who this node is",
                format!("put self.json and keys/ back from a backup into {dir}; a member may also be invited anew with --replace"),
            ),
            Cause::Lock => (
                "without locks two runs could write at once, so nothing is written",
                format!("move {dir} to a local disk"),
            ),
            Cause::Key(name) => (
                "nothing can be signed with it",
                match facts.anchor {
                    true => format!("put {dir}/keys/{name}.key back from a backup"),
                    false => "put it back from a backup, or on the anchor: crowny-fed invite NODE --replace".to_owned(),
                },
            ),
            Cause::SharedKey => (
                "that member's signatures cannot be checked and are refused",
                "put node-keys.ndjson back from a backup, or: crowny-fed invite NODE --replace".to_owned(),
            ),
            Cause::NoFloor => (
                "nobody can say how much of the journal was signed",
                facts.command("doctor --adopt"),
            ),
            Cause::Floor => (
                "it only repeats what federation-root.txt says",
                format!("{}; then: {tick}", facts.aside("state/committed.json")),
            ),
            Cause::TwoNotes => (
                "the folder holds parts of two times: an old backup over newer files, or two machines with one key",
                facts.command("doctor --adopt"),
            ),
            Cause::Journal => (
                "signed lines are not skipped; nothing is appended or signed before they are back",
                Cause::journal_way_out(facts),
            ),
            Cause::Empty if facts.anchor => (
                "only a founding writes the first line; anything else would be another log under the same key",
                format!(
                    "where a federation was: {}; an init that was cut off: run it again",
                    facts.command("doctor --adopt URL-OF-A-MEMBER")
                ),
            ),
            Cause::Empty => ("it is fetched by sync or the next tick", facts.command("sync")),
            Cause::Missing(_) => ("it is derived; the next tick makes it anew", tick),
            Cause::Wrong(name) => (
                "it is derived, and others may hold a copy of it, so it is left to you",
                format!("{}; then: {tick}", facts.aside(name)),
            ),
            Cause::Nonces => (
                "nobody can say which requests were answered, so none is taken",
                format!("{}; signed writes then wait ten minutes", facts.aside("used-nonces.log")),
            ),
            Cause::Beyond => ("a run was cut off; the next tick takes care of it", tick),
        };
        (why.to_owned(), next)
    }

    fn journal_way_out(facts: &Facts) -> String {
        let dir = &facts.dir;
        match facts.anchor {
            true => format!(
                "put nodes.ndjson back from a backup, or that of a member that `crowny-fed root` says has as many lines, into {dir}; then: {}",
                facts.command("verify --full")
            ),
            false => format!(
                "cd {dir} && mkdir -p aside && mv nodes.ndjson federation-root.txt state/committed.json aside/; then: {}",
                facts.command("sync")
            ),
        }
    }
}
