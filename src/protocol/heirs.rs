//! Who takes over when a member dies: per service, the others that still offer it.

use super::member::NodeId;
use super::membership::Membership;
use super::service::Service;
use super::subject::Subject;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The heirs a `dead` line names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heirs {
    /// Service → members alive or suspect that offer it, by id.
    #[serde(rename = "heirs", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub by_service: BTreeMap<String, Vec<NodeId>>,
    /// Services nobody else offers: their last row stays in the map, flagged `no-heir`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_heir: Vec<String>,
}

/// Heirs of a node, or of one of its services, once the nodes in `gone` are out of the map.
pub fn of(subject: &Subject, gone: &[&NodeId], membership: &Membership) -> Heirs {
    let mut heirs = Heirs::default();
    let Some(member) = membership.member(&subject.node) else {
        return heirs;
    };
    let concerned =
        |offer: &Service| subject.service.as_ref().is_none_or(|name| *name == offer.name);
    for service in member.offers().into_iter().filter(concerned) {
        let others: Vec<NodeId> = membership
            .members()
            .filter(|(id, _)| !gone.contains(id) && **id != subject.node)
            .filter(|(_, other)| other.liveness_of(&service.name).is_routable())
            .filter(|(_, other)| other.offers().iter().any(|offer| offer.name == service.name))
            .map(|(id, _)| id.clone())
            .collect();
        if others.is_empty() {
            heirs.no_heir.push(service.name.to_string());
        } else {
            heirs.by_service.insert(service.name.to_string(), others);
        }
    }
    heirs
}
