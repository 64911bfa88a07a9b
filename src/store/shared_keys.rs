//! `node-keys.ndjson` (0600): the keys of members that sign with HMAC, append-only.
//!
//! A public key stands in the journal for everybody; a shared one can stand only here.

use super::disk::Disk;
use crate::auth::mac::{KEY_BYTES_MIN, Secret};
use crate::error::Failure;
use crate::host::{Keep, Readers};
use crate::protocol::member::NodeId;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    node: NodeId,
    kid: String,
    key: String,
}

/// The shared key a node signs with, by its kid. A line without a usable key is as if it were not
/// there: an empty key would let anybody sign (case O-21).
pub fn find(disk: &Disk<'_>, (node, kid): (&NodeId, &str)) -> Result<Option<Secret>, Failure> {
    let mut found = None;
    for (held, key) in read(disk)?.into_iter().filter_map(Result::ok) {
        if held.node == *node && held.kid == kid {
            found = Some(key);
        }
    }
    Ok(found)
}

/// Lines without a usable key, for whoever asks what is wrong.
pub fn faults(disk: &Disk<'_>) -> Result<Vec<String>, Failure> {
    let path = disk.layout.node_keys();
    let told = |number: usize| {
        format!(
            "{} line {number} holds no key of at least {KEY_BYTES_MIN} bytes; it is set aside",
            path.display()
        )
    };
    Ok(read(disk)?.into_iter().filter_map(Result::err).map(told).collect())
}

/// A line's key, or its number where it holds none.
type Read = Result<(Stored, Secret), usize>;

fn read(disk: &Disk<'_>) -> Result<Vec<Read>, Failure> {
    let bytes = Zeroizing::new(disk.read(&disk.layout.node_keys())?.unwrap_or_default());
    let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    let parse = |(number, line): (usize, &[u8])| {
        let stored = serde_json::from_slice::<Stored>(line).ok();
        stored.and_then(|s| unhex(&s.key).map(|key| (s, key))).ok_or(number)
    };
    Ok(lines.filter(|(_, line)| !line.is_empty()).map(parse).collect())
}

/// Adds a key, durably: before the line that names it.
pub fn add(disk: &Disk<'_>, (node, kid): (&NodeId, &str), key: &Secret) -> Result<(), Failure> {
    let path = disk.layout.node_keys();
    let stored = Stored { node: node.clone(), kid: kid.to_owned(), key: hex(&**key) };
    let mut line =
        Zeroizing::new(serde_json::to_string(&stored).expect("strings have a JSON form"));
    line.push('\n');
    match disk.read(&path)?.map(Zeroizing::new) {
        // Created with its mode, so that it is never readable by others, not even for a moment.
        None => disk.put(&path, line.as_bytes(), (Keep::Durable, Readers::Owner)),
        Some(held) => {
            // A crash may have torn the last line: it ends here, or it would swallow this one.
            if !held.is_empty() && !held.ends_with(b"\n") {
                line.insert(0, '\n');
            }
            let at = held.len() as u64;
            disk.append(&path, at, line.as_bytes(), Keep::Durable)
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32 bytes in hex, which is what we store; anything shorter is no key.
pub fn unhex(text: &str) -> Option<Secret> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut key = Zeroizing::new([0; 32]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(key)
}
