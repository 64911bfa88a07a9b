//! One tick's questions: roster rows, agents, services, then helpers for those that failed.
//!
//! All first questions leave at once and share one limit; a second round goes to further URLs of
//! whoever failed and to helpers, if there is time for it.

use super::agents::{self, Agent};
use super::founding::hex_chance;
use super::helping;
use super::peers::{self, Heard};
use super::speaking::Signer;
use super::sync::{anchor_urls, targets};
use crate::config::Config;
use crate::error::Failure;
use crate::journal::replay::Fold;
use crate::protocol::address::Address;
use crate::protocol::contact::{Contact, Sign};
use crate::protocol::member::NodeId;
use crate::protocol::roster::Listed;
use crate::protocol::subject::Subject;
use crate::store::disk::Disk;
use crate::store::identity::Identity;
use crate::wire::call::{Answer, Call, Method, Read, Targets};
use crate::wire::health::Accusation;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Whom a tick asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whom<'a> {
    pub(super) identity: &'a Identity,
    pub(super) fold: &'a Fold,
    /// Roster rows.
    pub(super) rows: &'a [Listed],
    /// Keyed members, by their agents.
    pub(super) agents: &'a [NodeId],
    /// What some of them are accused of, which the question tells them.
    pub(super) accusations: &'a BTreeMap<NodeId, Accusation>,
    /// Whether services and helpers are asked too; a node asks neither.
    pub(super) in_depth: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    pub(super) heard: Vec<Heard>,
    pub(super) contacts: BTreeMap<Subject, Contact>,
    /// Signed registers with which accused members refuted.
    pub(super) refutes: Vec<(NodeId, String)>,
    /// Whether a configured `self_check` target answered.
    pub(super) checked: bool,
}

/// Asks everybody; the answers are in at `until_boot_ms` at the latest.
pub(super) fn ask(
    disk: &Disk<'_>,
    config: &Config,
    whom: &Whom<'_>,
    until_boot_ms: u64,
) -> Result<Learnt, Failure> {
    let c = hex_chance(disk)?;
    let targets = targets(config, &anchor_urls(whom.identity, whom.fold));
    let agents = agents::of(whom, config, (&c, targets));
    let services = if whom.in_depth { service_calls(whom, config, targets) } else { Vec::new() };
    let mut calls: Vec<Call> = peers::probe_calls(config, whom.rows);
    calls.extend(agents.iter().map(|agent| agent.call.clone()));
    calls.extend(services.iter().map(|(_, _, call)| call.clone()));
    calls.extend(self_check_calls(config));
    let mut answers = disk.host.dial(&calls, until_boot_ms).into_iter();

    let mut learnt = Learnt::default();
    let rows: Vec<Answer> = answers.by_ref().take(whom.rows.len()).collect();
    learnt.heard = peers::heard_from(disk, config, whom.rows, (rows, until_boot_ms));
    for heard in &learnt.heard {
        let contact = Contact::from(heard.outcome.clone());
        learnt.contacts.insert(Subject::node(&heard.listed.id), contact);
    }
    let told: Vec<Answer> = answers.by_ref().take(agents.len()).collect();
    for (agent, answer) in agents.iter().zip(&told) {
        learn(&mut learnt, config, agent, answer);
    }
    for ((id, service, _), answer) in services.iter().zip(answers.by_ref().take(services.len())) {
        let outcome = agents::service_outcome(config, service, &answer);
        learnt.contacts.insert(Subject::service(id, &service.name), outcome.into());
    }
    let heard = |answer: Answer| answer.as_ref().map_or_else(|fault| fault.heard(), |_| true);
    learnt.checked = answers.map(heard).fold(false, |any, heard| any | heard);
    if whom.in_depth {
        second_round(disk, config, (whom, &agents, &c), (&mut learnt, until_boot_ms))?;
    }
    Ok(learnt)
}

fn learn(learnt: &mut Learnt, config: &Config, agent: &Agent<'_>, answer: &Answer) {
    let (outcome, own) = agents::outcome(config, agent, answer);
    if let Some(refute) = own.and_then(|own| own.refute) {
        learnt.refutes.push((agent.id.clone(), refute));
    }
    learnt.contacts.insert(Subject::node(agent.id), outcome.into());
}

/// The services of members that are routed, each at its own URL.
fn service_calls<'a>(
    whom: &Whom<'a>,
    config: &Config,
    targets: Targets,
) -> Vec<(NodeId, &'a crate::protocol::service::Service, Call)> {
    let mut calls = Vec::new();
    for (id, member) in whom.fold.membership.members() {
        let asked = whom.agents.contains(id) || member.outbound || *id == whom.identity.id;
        if !member.enrolled
            || !member.standing.liveness.is_routable()
            || !asked && member.doubted.is_empty()
        {
            continue;
        }
        for service in &member.services {
            if let Some(call) = agents::service_call(config, service, targets) {
                calls.push((id.clone(), service, call));
            }
        }
    }
    calls
}

/// For every agent that failed: its other URLs, and helpers.
fn second_round(
    disk: &Disk<'_>,
    config: &Config,
    (whom, agents, c): (&Whom<'_>, &[Agent<'_>], &str),
    (learnt, until_boot_ms): (&mut Learnt, u64),
) -> Result<(), Failure> {
    let failed: Vec<&Agent<'_>> = agents
        .iter()
        .filter(|agent| {
            let contact = learnt.contacts.get(&Subject::node(agent.id));
            contact.is_some_and(|contact| contact.sign() == Sign::Bad)
        })
        .collect();
    if failed.is_empty() || disk.host.clock().boot_ms >= until_boot_ms {
        return Ok(());
    }
    let signer = Signer::load(disk, whom.identity)?;
    let silent: BTreeSet<&NodeId> = failed.iter().map(|agent| agent.id).collect();
    let helpers = helping::helpers(whom, &silent, &learnt.contacts);
    let mut calls = Vec::new();
    let mut asked: Vec<(&Agent<'_>, Option<NodeId>)> = Vec::new();
    for agent in failed {
        for call in agent.other_calls(config) {
            calls.push(call);
            asked.push((agent, None));
        }
        for helper in helping::choose(disk, &helpers, (agent.id, config.profile.helpers)) {
            let request = helping::Request { subject: agent.id, c };
            if let Some(call) = helping::call(disk, config, (whom, &signer), (&helper, &request))? {
                calls.push(call);
                asked.push((agent, Some(helper)));
            }
        }
    }
    for ((agent, helper), answer) in asked.into_iter().zip(disk.host.dial(&calls, until_boot_ms)) {
        let subject = Subject::node(agent.id);
        let Some(contact) = learnt.contacts.get_mut(&subject) else { continue };
        match helper {
            Some(helper) => contact.helped.push(helping::read(agent, helper, &answer)),
            None => {
                let (outcome, _) = agents::outcome(config, agent, &answer);
                if outcome.is_success() {
                    contact.outcome = outcome;
                }
            }
        }
    }
    Ok(())
}

/// The questions to targets that tell whether our own network works.
fn self_check_calls(config: &Config) -> Vec<Call> {
    let timeout = Duration::from_millis(config.profile.timeout_ms);
    let call = |address: &Address| Call {
        method: Method::Get,
        address: address.clone(),
        path: "/".to_owned(),
        host_header: address.authority(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout,
        read: Read::Head,
        targets: Targets::Any,
    };
    config.self_check.iter().map(call).collect()
}
