//! The log keys an anchor holds: `keys/log.key` and, after a rotation, `keys/log-<epoch>.key`.
//!
//! No file is ever renamed: which of them sign is what the journal says, found by their public
//! halves, so that a rotation cut off anywhere goes on from the journal alone.

use super::disk::Disk;
use super::identity::{Identity, load_key};
use crate::auth::vkey::VerifierKey;
use crate::error::Failure;
use crate::journal::replay::Fold;
use ed25519_dalek::SigningKey;

/// Name under `keys/` of the log key of an epoch.
pub fn name(epoch: u64) -> String {
    if epoch == 0 { "log".to_owned() } else { format!("log-{epoch}") }
}

/// The keys that sign now, the one in force first.
pub fn signing(
    disk: &Disk<'_>,
    identity: &Identity,
    fold: &Fold,
    now_s: u64,
) -> Result<Vec<SigningKey>, Failure> {
    if let Some(key) = last_word(disk, identity, fold)? {
        return Ok(vec![key]);
    }
    let epoch = fold.log.as_ref().map_or(0, |log| log.epoch);
    let mut wanted =
        fold.log.as_ref().map_or(vec![identity.vkey.as_str()], |log| log.signing(now_s));
    // As long as no checkpoint by the new key was published (a witness may hold it back for longer
    // than the overlap), readers, ourselves among them, know only the one before.
    let before = fold.log.as_ref().and_then(|log| log.before.as_ref());
    let unseen = before.filter(|(vkey, _)| *vkey == identity.vkey && wanted.len() == 1);
    wanted.extend(unseen.map(|(vkey, _)| vkey.as_str()));
    let mut keys = Vec::new();
    for (back, vkey) in (0..).zip(wanted) {
        match load_key(disk, &name(epoch - back)) {
            Ok(key) => {
                expect(disk, &identity.origin, &name(epoch - back), (&key, vkey))?;
                keys.push(key);
            }
            // The key before may have been destroyed on purpose; the one in force may not be missing.
            Err(failure) if back == 0 => return Err(failure),
            Err(_) => {}
        }
    }
    Ok(keys)
}

/// Where the journal names another node: our key signs the line that does so, the last one we write,
/// and nothing beyond.
fn last_word(
    disk: &Disk<'_>,
    identity: &Identity,
    fold: &Fold,
) -> Result<Option<SigningKey>, Failure> {
    let Some(log) = &fold.log else { return Ok(None) };
    let Some(next) = log.succession.as_ref().filter(|next| next.anchor != identity.id) else {
        return Ok(None);
    };
    let (Some((before, _)), false) = (&log.before, fold.lines > next.line + 1) else {
        return Err(Failure::integrity(format!(
            "{} serialises since line {}: this host signs nothing more",
            next.anchor, next.line
        )));
    };
    let name = name(log.epoch - 1);
    let key = load_key(disk, &name)?;
    expect(disk, &identity.origin, &name, (&key, before))?;
    Ok(Some(key))
}

fn expect(
    disk: &Disk<'_>,
    origin: &str,
    name: &str,
    (key, vkey): (&SigningKey, &str),
) -> Result<(), Failure> {
    let held = VerifierKey::of(origin, key).map_err(|error| Failure::config(error.to_string()))?;
    if held.to_string() == vkey {
        return Ok(());
    }
    Err(Failure::config(format!(
        "{} is not the key that the journal names ({vkey})",
        disk.layout.key(name).display()
    )))
}
