//! `invites.ndjson` (0600): invitations until their time is over, used or not.
//!
//! The anchor keeps the key an invitation stands for and the hash of its secret, never the secret.
//! That it was used is not written here but in the journal: the `enroll` line is the burn.

use super::disk::Disk;
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::protocol::member::NodeId;
use crate::protocol::service::ServiceName;
use serde::{Deserialize, Serialize};

/// One invitation as the anchor keeps it. No `Debug`: it holds a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// For which node.
    pub node: NodeId,
    /// What it will sign with.
    pub alg: String,
    /// Seconds since 1970.
    pub expiry: u64,
    /// Services it binds.
    pub services: Vec<ServiceName>,
    /// Whether it ends the node's lost key.
    pub replace: bool,
    /// Hex SHA-256 of the secret.
    pub secret_sha256: String,
    /// The bootstrap key, hex.
    pub bootstrap: String,
}

/// Invitations not over at `now_s`.
pub fn load(disk: &Disk<'_>, now_s: u64) -> Result<Vec<Open>, Failure> {
    let path = disk.layout.invites();
    let text = disk.read_text(&path)?.unwrap_or_default();
    let mut open = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // The reason is not repeated: it would quote the line, which holds a key.
        let invite: Open = serde_json::from_str(line).map_err(|_| {
            Failure::config(format!("{} line {number} is no invitation", path.display()))
                .hint("remove that line and invite the node again")
        })?;
        if now_s < invite.expiry {
            open.push(invite);
        }
    }
    Ok(open)
}

/// Stores the invitations, dropping none.
pub fn store(disk: &Disk<'_>, invites: &[Open]) -> Result<(), Failure> {
    let mut text = zeroize::Zeroizing::new(String::new());
    for invite in invites {
        let line =
            serde_json::to_string(invite).expect("strings, integers and lists have a JSON form");
        text.push_str(&line);
        text.push('\n');
    }
    disk.put(&disk.layout.invites(), text.as_bytes(), (Keep::Durable, Readers::Owner))
}
