//! The roster from disk, and one round of questions to its rows.

use crate::config::{Config, HOST_HEADER, HostHeader};
use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::layout::{ROSTER, STATUS};
use crate::protocol::address::{Address, Scheme};
use crate::protocol::member::NodeId;
use crate::protocol::probe::{Judgement, Outcome, judge};
use crate::protocol::registration::parse_url;
use crate::protocol::roster::{Listed, Roster};
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::wire::call::{Answer, Call, Extent, Fault, Method, Read, Targets};
use crate::wire::psv::{self, InSync, PeerStatus};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;
use unicode_normalization::UnicodeNormalization;

/// Largest `/q/health` answer read (design section 16).
const HEALTH_BYTES_MAX: usize = 64 * 1024;

/// What one row answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The row.
    pub listed: Listed,
    /// What the probe said.
    pub outcome: Outcome,
    /// Words beside the verdict: why it failed, or a hint.
    pub reason: String,
    /// Configuration comparison.
    pub in_sync: InSync,
}

/// Reads the roster without our own row; `None` where there is none.
pub fn find_roster(disk: &Disk<'_>, config: &Config) -> Result<Option<Roster>, Failure> {
    let path = named_file(disk.host, &config.peers)?;
    let Some(bytes) = disk.read(&path)? else {
        return Ok(None);
    };
    let mut roster = psv::parse_roster(&bytes)
        .map_err(|reason| Failure::failed(format!("{}: {reason}", path.display())))?;
    if let Some(own) = &config.own {
        roster.rows.retain(|listed| listed.id.folded() != own.folded());
    }
    Ok(Some(roster))
}

/// The roster, for verbs that are nothing without one.
pub fn require_roster(disk: &Disk<'_>, config: &Config) -> Result<Roster, Failure> {
    find_roster(disk, config)?.ok_or_else(|| {
        Failure::new(Kind::No, format!("no roster: {} is missing", config.peers.display()))
            .hint("one row a peer: 노드ID|호스트|포트|역할|상태, e.g. n2|192.0.2.7|443|edge|active")
    })
}

/// Reads the status file; `None` where there is none.
pub fn load_status(disk: &Disk<'_>, config: &Config) -> Result<Option<Vec<PeerStatus>>, Failure> {
    let path = named_file(disk.host, &config.status)?;
    let Some(bytes) = disk.read(&path)? else {
        return Ok(None);
    };
    psv::parse_status(&bytes).map(Some).map_err(|reason| {
        Failure::failed(format!("{}: {reason}", path.display()))
            .hint("crowny-fed probe writes it anew")
    })
}

/// Finds a Korean-named file under either spelling: a copy through macOS may be in NFD. Both at
/// once are an error, because nobody could tell which one is meant.
fn named_file(host: &dyn Host, wanted: &Path) -> Result<PathBuf, Failure> {
    let Some(name) = wanted.file_name().and_then(|name| name.to_str()) else {
        return Ok(wanted.to_owned());
    };
    if name != ROSTER && name != STATUS {
        return Ok(wanted.to_owned());
    }
    let folder = wanted.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let names = host
        .names(folder)
        .map_err(|error| Failure::failed(format!("cannot read {}: {error}", folder.display())))?;
    let twins: Vec<&String> =
        names.iter().filter(|found| found.nfc().collect::<String>() == name).collect();
    match twins[..] {
        [one] => Ok(folder.join(one)),
        [] => Ok(wanted.to_owned()),
        _ => Err(Failure::config(format!(
            "{} holds '{name}' twice, in composed (NFC) and decomposed (NFD) spelling",
            folder.display()
        ))
        .hint("remove one of the two files")),
    }
}

/// SHA-256 of the gateway's configuration in hex, which is only ever read.
pub fn gateway_sha256(disk: &Disk<'_>, config: &Config) -> Result<Option<String>, Failure> {
    let Some(path) = &config.gateway_config else {
        return Ok(None);
    };
    let bytes = disk.read(path)?.ok_or_else(|| {
        Failure::config(format!("gateway configuration {} is missing", path.display()))
    })?;
    Ok(Some(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect()))
}

/// Asks every row `GET /`, and those that answered for their configuration hash where we have one
/// to compare. Answers come in roster order.
pub fn ask(disk: &Disk<'_>, config: &Config, rows: &[Listed], until_boot_ms: u64) -> Vec<Heard> {
    let answers = disk.host.dial(&probe_calls(config, rows), until_boot_ms);
    heard_from(disk, config, rows, (answers, until_boot_ms))
}

/// The question to every row.
pub fn probe_calls(config: &Config, rows: &[Listed]) -> Vec<Call> {
    rows.iter().map(|listed| probe_call(config, listed)).collect()
}

/// What the answers say, configuration compared.
pub fn heard_from(
    disk: &Disk<'_>,
    config: &Config,
    rows: &[Listed],
    (answers, until_boot_ms): (Vec<Answer>, u64),
) -> Vec<Heard> {
    let ours = gateway_sha256(disk, config).ok().flatten();
    let mut heard: Vec<Heard> =
        rows.iter().zip(answers).map(|(listed, answer)| heard(config, listed, &answer)).collect();
    if let Some(ours) = ours {
        compare(disk.host, config, &mut heard, (&ours, until_boot_ms));
    }
    heard
}

/// The rows of the status file.
pub fn status_rows(
    config: &Config,
    heard: &[Heard],
    blind: bool,
    checked_at: &str,
) -> Vec<PeerStatus> {
    heard
        .iter()
        .map(|heard| {
            let judgement = judge(&heard.outcome, config.profile.slow_ms, blind);
            let (http, ms) = match &heard.outcome {
                Outcome::Answered { http, ms } => (*http, *ms),
                Outcome::Failed { ms, .. } => (0, *ms),
            };
            let local = blind && judgement == Judgement::Unknown;
            let reason = if local {
                format!("local network problem: {}", heard.reason)
            } else {
                heard.reason.clone()
            };
            let row = &heard.listed.row;
            PeerStatus {
                id: heard.listed.id.clone(),
                host: row.host.clone(),
                port: row.port,
                role: row.role.clone(),
                judgement,
                http,
                ms,
                in_sync: heard.in_sync,
                reason,
                checked_at: checked_at.to_owned(),
            }
        })
        .collect()
}

fn probe_call(config: &Config, listed: &Listed) -> Call {
    let address = address_of(listed);
    let host_header = match &config.host_header {
        HostHeader::Usual if address.scheme == Scheme::Http => HOST_HEADER.to_owned(),
        HostHeader::Usual | HostHeader::Own => address.authority(),
        HostHeader::Fixed(name) => name.clone(),
    };
    call(config, address, host_header, ("/", Read::Head))
}

/// Rows were checked when read: the address always parses again.
fn address_of(listed: &Listed) -> Address {
    Address::parse(&listed.row.host, listed.row.port).expect("a roster row holds a parsed address")
}

/// A GET under the profile's limit.
pub fn call(config: &Config, address: Address, host_header: String, what: (&str, Read)) -> Call {
    Call {
        method: Method::Get,
        address,
        path: what.0.to_owned(),
        host_header,
        headers: Vec::new(),
        body: Vec::new(),
        timeout: Duration::from_millis(config.profile.timeout_ms),
        read: what.1,
        targets: Targets::Any,
    }
}

fn heard(config: &Config, listed: &Listed, answer: &Answer) -> Heard {
    let outcome = outcome(config, answer);
    let reason = match answer {
        Ok(reply) if reply.speaks_tls => {
            "tls: this port speaks TLS, write https:// before the host".to_owned()
        }
        Ok(reply) if reply.status >= 500 => format!("http {}", reply.status),
        Ok(_) => String::new(),
        Err(fault) => fault.to_string(),
    };
    let in_sync = InSync::NotCompared;
    Heard { listed: listed.clone(), outcome, reason, in_sync }
}

/// The question to another member's agent; `None` where its URL is none.
pub fn health_call(config: &Config, url: &str, targets: Targets) -> Option<Call> {
    let address = parse_url(url).ok()?;
    let authority = address.authority();
    let read = Read::Body { max: HEALTH_BYTES_MAX };
    Some(Call { targets, ..call(config, address, authority, ("/q/health", read)) })
}

/// What an answer, or its lack, says of whoever was asked.
pub fn outcome(config: &Config, answer: &Answer) -> Outcome {
    let whole = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match answer {
        Ok(reply) => Outcome::Answered { http: reply.status, ms: whole(reply.head_after) },
        Err(fault) => Outcome::Failed {
            reason: fault.word().to_owned(),
            heard: fault.heard(),
            ms: if matches!(fault, Fault::Timeout) { config.profile.timeout_ms } else { 0 },
        },
    }
}

fn compare(host: &dyn Host, config: &Config, heard: &mut [Heard], ours: (&str, u64)) {
    let (ours, until_boot_ms) = ours;
    let answered: Vec<usize> =
        (0..heard.len()).filter(|at| heard[*at].outcome.is_success()).collect();
    let calls: Vec<Call> = answered
        .iter()
        .map(|at| {
            let address = address_of(&heard[*at].listed);
            let authority = address.authority();
            let read = Read::Body { max: HEALTH_BYTES_MAX };
            let mut call = call(config, address, authority, ("/q/health", read));
            // Both questions to one row share its time limit.
            if let Outcome::Answered { ms, .. } = &heard[*at].outcome {
                call.timeout = call.timeout.saturating_sub(Duration::from_millis(*ms));
            }
            call
        })
        .collect();
    let silent = (InSync::Differs, "config unknown (no answer)".to_owned());
    let mut found = vec![silent; heard.len()];
    for (at, answer) in answered.into_iter().zip(host.dial(&calls, until_boot_ms)) {
        found[at] = in_sync(&answer, ours);
    }
    for (peer, (in_sync, words)) in heard.iter_mut().zip(found) {
        peer.in_sync = in_sync;
        peer.reason = join(&peer.reason, &words);
    }
}

fn in_sync(answer: &Answer, ours: &str) -> (InSync, String) {
    let unknown = |why: &str| (InSync::Differs, format!("config unknown ({why})"));
    let reply = match answer {
        Ok(reply) => reply,
        Err(fault) => return unknown(fault.word()),
    };
    match reply.extent {
        Extent::TooLarge => return unknown("too large"),
        Extent::Cut => return unknown("answer cut short"),
        Extent::Whole | Extent::Unread => {}
    }
    if reply.status != 200 {
        return unknown(&format!("/q/health answered {}", reply.status));
    }
    let Ok(health) = serde_json::from_slice::<serde_json::Value>(&reply.body) else {
        return unknown("/q/health is not JSON");
    };
    match health.get("config_sha256").and_then(serde_json::Value::as_str) {
        Some(theirs) if theirs == ours => (InSync::Equal, String::new()),
        Some(_) => (InSync::Differs, "config differs".to_owned()),
        None => unknown("the peer names none"),
    }
}

fn join(first: &str, second: &str) -> String {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second.to_owned(),
        (_, true) => first.to_owned(),
        _ => format!("{first}; {second}"),
    }
}

/// The id of `self.json`, where a federation was founded or joined.
pub fn own_id(disk: &Disk<'_>) -> Result<Option<NodeId>, Failure> {
    Ok(Identity::load(disk)?.map(|identity| identity.id))
}
