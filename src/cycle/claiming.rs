//! Names that a member began to offer while no anchor answered: asked for like any other, once the
//! anchor is back. First come, first served; a name of somebody else's takes a grant.

use super::delivering::{Letter, Undelivered, post};
use super::speaking::{Claims, Signer, registration};
use super::sync::anchor_urls;
use crate::error::Failure;
use crate::journal::replay::Fold;
use crate::protocol::service::ServiceName;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use std::collections::BTreeSet;

/// Registers where the journal withholds what we offer. Returns what to tell of it. The lock on
/// `keys/` is held.
pub(super) fn claim(
    disk: &Disk<'_>,
    fold: &Fold,
    until_boot_ms: u64,
) -> Result<Option<String>, Failure> {
    // Read now: a refutation in the same tick may have raised the incarnation.
    let mut identity = Identity::require(disk)?;
    let member = fold.membership.member(&identity.id);
    let withheld: BTreeSet<&ServiceName> =
        member.iter().flat_map(|member| member.withheld()).map(|service| &service.name).collect();
    if !identity.services.iter().any(|service| withheld.contains(&service.name)) {
        return Ok(None);
    }
    identity.incarnation = identity.incarnation.raised();
    identity.store(disk)?;
    let signer = Signer::load(disk, &identity)?;
    let claims = Claims::now(disk)?;
    let record = registration(&identity, (&claims, signer.mode()));
    let envelope = signer.seal(&identity, claims, (record.kind(), record.payload()));
    let letter = Letter { until_boot_ms, ..Letter::word(disk.host, record.kind(), &envelope) };
    match post(disk.host, &anchor_urls(&identity, fold), &letter) {
        Ok(_) => Ok(None),
        Err(Undelivered::Away(_)) => Ok(None),
        Err(Undelivered::Refused(403, failure)) => {
            // Announced again and again they would have every later word refused, a refutation too.
            identity.services.retain(|service| !withheld.contains(&service.name));
            identity.store(disk)?;
            let names: Vec<&str> = withheld.iter().map(|name| name.as_str()).collect();
            let why = format!("{}; {} is offered no more", failure.message, names.join(" "));
            Ok(Some(why))
        }
        Err(Undelivered::Refused(_, failure)) => Ok(Some(failure.message)),
    }
}
