//! Names that a member began to offer while no anchor answered: asked for like any other, once the
//! anchor is back. First come, first served; a name of somebody else's takes a grant.

use super::delivering::{Letter, Undelivered, post};
use super::speaking::{Claims, Signer, registration};
use super::sync::anchor_urls;
use crate::error::Failure;
use crate::journal::replay::Fold;
use crate::protocol::registration::may_offer;
use crate::protocol::service::Service;
use crate::store::disk::Disk;
use crate::store::identity::Identity;

/// Registers where the journal withholds what we offer. Returns what to tell of it. The lock on
/// `keys/` is held.
pub(super) fn claim(
    disk: &Disk<'_>,
    fold: &Fold,
    until_boot_ms: u64,
) -> Result<Option<String>, Failure> {
    // Read now: a refutation in the same tick may have raised the incarnation.
    let mut identity = Identity::require(disk)?;
    let Some(member) = fold.membership.member(&identity.id) else { return Ok(None) };
    let offered = |service: &&Service| identity.services.iter().any(|own| own.name == service.name);
    let withheld: Vec<&Service> = member.withheld().iter().filter(offered).collect();
    let free =
        |service: &&Service| may_offer(&identity.id, service, &fold.membership, &fold.grants);
    let (free, taken): (Vec<&Service>, Vec<&Service>) = withheld.into_iter().partition(free);
    let told = give_up(disk, &mut identity, &taken)?;
    if free.is_empty() {
        return Ok(told);
    }
    identity.incarnation = identity.incarnation.raised();
    identity.store(disk)?;
    let signer = Signer::load(disk, &identity)?;
    let claims = Claims::now(disk)?;
    let record = registration(&identity, (&claims, signer.mode()));
    let envelope = signer.seal(&identity, claims, (record.kind(), record.payload()));
    let letter = Letter { until_boot_ms, ..Letter::word(disk.host, record.kind(), &envelope) };
    match post(disk.host, &anchor_urls(&identity, fold), &letter) {
        Ok(_) | Err(Undelivered::Away(_)) => Ok(told),
        // Somebody was faster.
        Err(Undelivered::Refused(403, _)) => {
            give_up(disk, &mut identity, &free).map(|now| now.or(told))
        }
        Err(Undelivered::Refused(_, failure)) => Ok(Some(failure.message)),
    }
}

/// Offers these no more: announced again and again they would have every later word refused, a
/// refutation too.
fn give_up(
    disk: &Disk<'_>,
    identity: &mut Identity,
    names: &[&Service],
) -> Result<Option<String>, Failure> {
    if names.is_empty() {
        return Ok(None);
    }
    identity.services.retain(|own| names.iter().all(|service| service.name != own.name));
    identity.store(disk)?;
    let names: Vec<&str> = names.iter().map(|service| service.name.as_str()).collect();
    Ok(Some(format!(
        "service not granted: {}; it is offered no more (crowny-fed grant on the anchor, then register)",
        names.join(" ")
    )))
}
