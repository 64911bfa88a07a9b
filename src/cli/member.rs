//! Flags of the verbs with which members enter, speak and leave.

use clap::{Args, ValueEnum};

/// `invite`.
#[derive(Args, Debug)]
pub struct Invite {
    /// Id of the node to let in.
    #[arg(value_name = "NODE")]
    pub node: String,
    /// A service name to bind to it; may be given more than once.
    #[arg(long = "service", value_name = "S")]
    pub services: Vec<String>,
    /// How long the invitation may be used.
    #[arg(long, default_value = "1h", value_name = "T")]
    pub ttl: String,
    /// What the node signs with: ed25519 or hmac-sha256.
    #[arg(long, default_value = "ed25519", value_name = "A")]
    pub alg: String,
    /// End the node's lost key and let it in again.
    #[arg(long)]
    pub replace: bool,
}

/// `join`.
#[derive(Args, Debug)]
pub struct Join {
    /// Where this node's agent answers; may be given more than once.
    #[arg(long = "url", value_name = "URL")]
    pub urls: Vec<String>,
    /// A service this node offers: `name=url[@weight]`.
    #[arg(long = "service", value_name = "S")]
    pub services: Vec<String>,
    /// Whether others can dial this node's agent [default: inbound].
    #[arg(long, value_enum, value_name = "R")]
    pub reach: Option<Reach>,
    /// The join string, or - for standard input (a string on the command line shows in ps).
    #[arg(value_name = "-")]
    pub invite: String,
}

/// `register`.
#[derive(Args, Debug)]
pub struct Register {
    /// Where this node's agent answers [default: as registered].
    #[arg(long = "url", value_name = "URL")]
    pub urls: Vec<String>,
    /// A service this node offers: `name=url[@weight]` [default: as registered].
    #[arg(long = "service", value_name = "S")]
    pub services: Vec<String>,
    /// Whether others can dial this node's agent [default: as registered].
    #[arg(long, value_enum, value_name = "R")]
    pub reach: Option<Reach>,
}

/// Whether others can dial a node's agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reach {
    /// They can.
    Inbound,
    /// Nobody can: it lives by its own observations, and is routed where its services answer.
    Outbound,
}

/// `grant`.
#[derive(Args, Debug)]
pub struct Grant {
    /// The service name.
    #[arg(value_name = "SERVICE")]
    pub service: String,
    /// Who may offer it.
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Take it back.
    #[arg(long)]
    pub off: bool,
}

/// `drain`.
#[derive(Args, Debug)]
pub struct Drain {
    /// Take it back.
    #[arg(long)]
    pub off: bool,
    /// End by itself after this long.
    #[arg(long = "for", value_name = "T", conflicts_with = "off")]
    pub for_: Option<String>,
}

/// `handover`: on the node that takes over `handover --offer`, on the anchor `handover -`.
#[derive(Args, Debug)]
pub struct Handover {
    /// On the node that is to take over: print the offer, one line, nothing secret.
    #[arg(long, conflicts_with = "taken")]
    pub offer: bool,
    /// On the anchor: the offer, or - for standard input.
    #[arg(value_name = "OFFER|-", required_unless_present = "offer")]
    pub taken: Option<String>,
    /// Although the node is not alive, or does not answer this machine.
    #[arg(long, conflicts_with = "offer")]
    pub force: bool,
}

/// `recover`.
#[derive(Args, Debug)]
pub struct Recover {
    /// The file with the recovery key, or - for standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub key: String,
    /// Where this node answers from now on [default: as registered]; may be given more than once.
    #[arg(long = "url", value_name = "URL")]
    pub urls: Vec<String>,
    /// Although an anchor answers, or a witness saw more lines than anybody shows.
    #[arg(long)]
    pub force: bool,
    /// JSON.
    #[arg(long)]
    pub json: bool,
}
