//! The backend table: which member serves what, best first, never empty by our doing.

use super::member::{Incarnation, Liveness, NodeId};
use super::membership::{Member, Membership};
use super::service::{Service, ServiceName};
use std::collections::{BTreeMap, BTreeSet};

/// One row of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What is served.
    pub service: ServiceName,
    /// By whom.
    pub node: NodeId,
    /// Where.
    pub url: String,
    /// Share of traffic.
    pub weight: u64,
    /// Alive or suspect; dead only with `no_heir`.
    pub liveness: Liveness,
    /// The member's incarnation.
    pub incarnation: Incarnation,
    /// Nobody else offers the service, so its last member stays although it is dead.
    pub no_heir: bool,
    /// The member asked to be given no new traffic.
    pub drain: bool,
    /// This row rests on our own judgement, while no anchor answers.
    pub provisional: bool,
}

/// What one node's own map does otherwise than the journal says; the anchor's does nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// Left out as long as their services keep another usable row.
    pub without: BTreeSet<NodeId>,
    /// Doubted, or speaking for themselves, with no anchor to say so: their rows are marked.
    pub provisional: BTreeSet<NodeId>,
}

/// The rows of the map, sorted by service, state, node bytes.
pub fn routes(membership: &Membership, local: &Local, now_s: u64) -> Vec<Route> {
    let mut by_service: BTreeMap<ServiceName, Vec<(&NodeId, &Member, Service)>> = BTreeMap::new();
    for (id, member) in membership.members() {
        for offer in member.offers() {
            by_service.entry(offer.name.clone()).or_default().push((id, member, offer));
        }
    }
    let mut rows: Vec<Route> = by_service
        .into_values()
        .flat_map(|offers| within_reach(service_rows(offers, now_s), &local.without))
        .collect();
    rows.iter_mut().for_each(|row| row.provisional = local.provisional.contains(&row.node));
    rows.sort_by(|a, b| {
        let (one, two) = (a.node.as_str(), b.node.as_str());
        (&a.service, a.liveness, one, &a.url).cmp(&(&b.service, b.liveness, two, &b.url))
    });
    rows
}

/// Law 6 for our own map: what nobody else here offers stays.
fn within_reach(rows: Vec<Route>, without: &BTreeSet<NodeId>) -> Vec<Route> {
    let reached: Vec<Route> =
        rows.iter().filter(|row| !without.contains(&row.node)).cloned().collect();
    if reached.is_empty() { rows } else { reached }
}

fn service_rows(offers: Vec<(&NodeId, &Member, Service)>, now_s: u64) -> Vec<Route> {
    let usable: Vec<Route> = offers
        .iter()
        .filter(|(_, member, offer)| member.liveness_of(&offer.name).is_routable())
        .map(|offer| route(offer, now_s))
        .collect();
    if !usable.is_empty() {
        return usable;
    }
    // Law 6: an empty backend table is a worse answer than the member that died last.
    offers
        .iter()
        .filter(|(_, member, offer)| member.liveness_of(&offer.name) == Liveness::Dead)
        .max_by_key(|(_, member, offer)| member.service_died_at(&offer.name))
        .map(|offer| Route { no_heir: true, ..route(offer, now_s) })
        .into_iter()
        .collect()
}

fn route((id, member, offer): &(&NodeId, &Member, Service), now_s: u64) -> Route {
    Route {
        service: offer.name.clone(),
        node: (*id).clone(),
        url: offer.url.clone(),
        weight: offer.weight,
        liveness: member.liveness_of(&offer.name),
        incarnation: member.standing.incarnation,
        no_heir: false,
        drain: member.drain.is_some_and(|drain| drain.holds_at(now_s)),
        provisional: false,
    }
}
