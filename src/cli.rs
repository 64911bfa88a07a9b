//! Verbs and flags exactly as typed; `config` makes sense of them.

mod doctor;
mod member;
mod simulate;

pub use doctor::Doctor;
pub use member::{Drain, Grant, Handover, Invite, Join, Reach, Recover, Register};
pub use simulate::Simulate;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Keeps services up across a few self-hosted gateways when a node dies. No daemon.
#[derive(Debug, Parser)]
#[command(name = "crowny-fed", version, about, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Cli {
    /// Flags of every verb.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The table under `--help`.
const EXIT_CODES: &str = "Exit codes:
  0   done
  1   failed, nothing half-written
  2   usage
  3   the answer is no (nothing to fail over to, not found)
  4   some input rows rejected, the rest done
  5   integrity: the disk contradicts what was signed; routes untouched
  75  another process held the lock for 10 s (a second tick exits 0)
  78  configuration, ownership or permissions";

/// Flags of every verb.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Folder of this member's files.
    #[arg(long, global = true, default_value = "data/federation-chain", value_name = "D")]
    pub dir: PathBuf,
    /// Configuration file [default: D/crowny-fed.toml, if there].
    #[arg(long, global = true, value_name = "F")]
    pub config: Option<PathBuf>,
    /// Say less.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Say more.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Colour in tables and messages.
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub color: Colour,
    /// Language of tables: en or ko.
    #[arg(long, global = true, value_enum, default_value = "en", value_name = "L")]
    pub lang: Lang,
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Language of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Lang {
    /// English.
    En,
    /// 한국어.
    Ko,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Found a federation here: keys, journal, configuration. Asks nothing.
    Init(Init),
    /// Invite a node to this anchor's federation: prints one join string.
    Invite(Invite),
    /// Join a federation with an invitation read from standard input, and register.
    Join(Join),
    /// Say where this member answers and what it offers; raises its incarnation.
    Register(Register),
    /// Bind a service name to a node, so that it may be offered beside others.
    Grant(Grant),
    /// Say goodbye: routes to this member end.
    Leave,
    /// Ask to be given no new traffic; the gateway drains, we mark.
    Drain(Drain),
    /// End a node's key at once.
    Revoke {
        /// Whose key.
        #[arg(value_name = "NODE")]
        node: String,
    },
    /// Sign with a new key from now on; the old one works for an hour more.
    RotateKey {
        /// On the anchor: the log key, which signs checkpoints. Both sign for a week.
        #[arg(long)]
        log: bool,
    },
    /// On the anchor: let another node serialise from here on, by the offer it made.
    Handover(Handover),
    /// The anchor is lost: this node serialises from here on, by the recovery key that init made.
    Recover(Recover),
    /// One run: probe, judge, journal, publish. Started by a timer.
    Tick(Tick),
    /// Probe the roster once and write 피어상태.psv. Needs nothing but a roster.
    Probe(Peers),
    /// Print who takes over now, as id|host|port, best first. Probes nothing.
    Failover(Failover),
    /// Answer HTTP: /q/health, /q/peers and the read side of the federation.
    Serve(Serve),
    /// Who is alive, how old that is, and what is wrong.
    Status(Reading),
    /// The route map.
    Routes(Routes),
    /// The journal's lines, newest last.
    Log(Log),
    /// The story of one member: what was seen of it, by whom, and what followed.
    Why(Why),
    /// On the anchor: the silent are really lost; no cap and no blindness holds their deaths back.
    AcceptLoss,
    /// Check chain, root and signature of the journal on disk.
    Verify(Verify),
    /// Say what is wrong here, why, and the next command that is safe. Writes nothing without a flag.
    Doctor(Doctor),
    /// Write snapshot.json anew from the whole journal, checked against the floor and the tiles.
    Snapshot(Reading),
    /// Fetch what this member's journal lacks, from the anchor or any member, and check it.
    Sync(Sync),
    /// Bring what this member said while no anchor answered to the one that does.
    Merge(Reading),
    /// The signed checkpoint.
    Root(Reading),
    /// An inclusion proof that verifies offline, or the check of one.
    Proof(Proof),
    /// A seeded model of many nodes under loss, silence and partition: ours, or plain SWIM.
    Simulate(Simulate),
    /// Three real processes on loopback, one killed and brought back. Takes some seconds.
    Demo(Demo),
    /// Shell completions.
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// The manual page, of one verb if named.
    Man {
        /// Of which verb.
        #[arg(value_name = "VERB")]
        verb: Option<String>,
    },
}

/// `init`.
#[derive(Args, Debug)]
pub struct Init {
    /// The federation's name for ever, e.g. fed.example.org/crowny [default: local/ and 32 hex].
    #[arg(long, value_name = "O")]
    pub origin: Option<String>,
    /// This node's id [default: the host name].
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Where others reach this node's agent; may be given more than once.
    #[arg(long = "url", value_name = "URL")]
    pub urls: Vec<String>,
    /// A service this node offers: `name=url[@weight]`.
    #[arg(long = "service", value_name = "S")]
    pub services: Vec<String>,
    /// Tick interval written into the configuration.
    #[arg(long, default_value = "30s", value_name = "T")]
    pub interval: String,
}

/// `tick`.
#[derive(Args, Debug)]
pub struct Tick {
    /// The roster, and how it is probed.
    #[command(flatten)]
    pub peers: Peers,
    /// Decide and print, write nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Say for every peer what was seen and why nothing more happened.
    #[arg(long)]
    pub explain: bool,
}

/// The roster, and how it is probed.
#[derive(Args, Clone, Debug, Default)]
pub struct Peers {
    /// Our own row, which is neither probed nor listed [default: the id of self.json].
    #[arg(long = "self", value_name = "ID")]
    pub own: Option<String>,
    /// Roster file [default: D/피어목록.psv].
    #[arg(long, value_name = "FILE")]
    pub peers: Option<PathBuf>,
    /// Status file [default: D/피어상태.psv].
    #[arg(long, value_name = "FILE")]
    pub status: Option<PathBuf>,
    /// The gateway's configuration: read to be hashed, never written.
    #[arg(long, value_name = "FILE")]
    pub gateway_config: Option<PathBuf>,
    /// Hard limit of one probe, lookup to last byte [default: 3s].
    #[arg(long, value_name = "T")]
    pub timeout: Option<String>,
    /// From here on an answer is slow [default: 1s].
    #[arg(long, value_name = "T")]
    pub slow: Option<String>,
    /// Host header of the probe; auto = the row's own host:port [default: crowny.org].
    #[arg(long, value_name = "H")]
    pub host_header: Option<String>,
}

/// `failover`.
#[derive(Args, Debug)]
pub struct Failover {
    /// The roster.
    #[command(flatten)]
    pub peers: Peers,
    /// JSON.
    #[arg(long)]
    pub json: bool,
}

/// `serve`.
#[derive(Args, Debug)]
pub struct Serve {
    /// The roster.
    #[command(flatten)]
    pub peers: Peers,
    /// Address to listen on [default: 127.0.0.1:9160].
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// End after this many seconds without a connection.
    #[arg(long, value_name = "S")]
    pub idle_exit: Option<u64>,
    /// Serve one connection on standard input and output (inetd style).
    #[arg(long)]
    pub stdio: bool,
}

/// A verb that only reads.
#[derive(Args, Debug)]
pub struct Reading {
    /// JSON.
    #[arg(long)]
    pub json: bool,
}

/// `sync`.
#[derive(Args, Debug)]
pub struct Sync {
    /// Ask this member too, as where the journal that names the others is gone; may be given more
    /// than once.
    #[arg(long, value_name = "URL")]
    pub from: Vec<String>,
    /// JSON.
    #[arg(long)]
    pub json: bool,
}

/// `routes`.
#[derive(Args, Debug)]
pub struct Routes {
    /// native: the bytes of federated-routes.txt; json: the same rows.
    #[arg(long, value_enum, default_value = "native", value_name = "F")]
    pub format: RouteFormat,
    /// Only this service.
    #[arg(long, value_name = "S")]
    pub service: Option<String>,
    /// Short for --format json.
    #[arg(long)]
    pub json: bool,
}

/// Formats of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RouteFormat {
    /// federated-routes.txt.
    Native,
    /// JSON.
    Json,
}

/// `log`.
#[derive(Args, Debug)]
pub struct Log {
    /// Only lines about this node.
    #[arg(long, value_name = "ID")]
    pub node: Option<String>,
    /// At most this many lines, the newest.
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N")]
    pub last: u64,
    /// JSON, one line an object.
    #[arg(long)]
    pub json: bool,
    /// The lines exactly as they stand in the journal, for `proof --check --line`.
    #[arg(long, conflicts_with = "json")]
    pub raw: bool,
}

/// `why`.
#[derive(Args, Debug)]
pub struct Why {
    /// Which member.
    #[arg(value_name = "NODE")]
    pub node: String,
    /// At most this many of its lines, the newest.
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
    pub last: u64,
    /// JSON, one line an object.
    #[arg(long)]
    pub json: bool,
}

/// `verify`.
#[derive(Args, Debug)]
pub struct Verify {
    /// Also authors' signatures, tiles, bundles, index and snapshot.
    #[arg(long)]
    pub full: bool,
    /// Also that the checkpoint a server shows and ours are of one log; asks /checkpoint there.
    #[arg(long, value_name = "URL")]
    pub against: Option<String>,
    /// JSON.
    #[arg(long)]
    pub json: bool,
}

/// `proof`.
#[derive(Args, Debug)]
pub struct Proof {
    /// A line by leaf hash or seq, or the newest line about a node.
    #[arg(value_name = "HASH|SEQ|NODE", required_unless_present = "check")]
    pub of: Option<String>,
    /// Check this tlog-proof file instead; needs --line and --vkey, and no network.
    #[arg(long, value_name = "FILE", requires = "line", requires = "vkey", conflicts_with = "of")]
    pub check: Option<PathBuf>,
    /// The journal line the proof is about, in a file.
    #[arg(long, value_name = "FILE")]
    pub line: Option<PathBuf>,
    /// The log's verifier key, name+hash+key.
    #[arg(long, value_name = "V")]
    pub vkey: Option<String>,
    /// JSON.
    #[arg(long)]
    pub json: bool,
}

/// `demo`.
#[derive(Args, Debug)]
pub struct Demo {
    /// Leave the folder behind and say where it is.
    #[arg(long)]
    pub keep: bool,
}
