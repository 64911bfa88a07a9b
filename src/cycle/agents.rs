//! Questions to members' agents and services, and what their answers are worth.

use super::peers;
use super::probing::Whom;
use crate::config::Config;
use crate::journal::keyring::KeyRecord;
use crate::protocol::contact::UNSIGNED;
use crate::protocol::member::NodeId;
use crate::protocol::probe::Outcome;
use crate::protocol::registration::parse_url;
use crate::protocol::service::Service;
use crate::wire::call::{Answer, Call, Extent, Method, Read, Targets};
use crate::wire::health::{Accusation, Own, Question};

/// One agent and the question to it.
#[derive(Debug)]
pub(super) struct Agent<'a> {
    pub(super) id: &'a NodeId,
    pub(super) call: Call,
    urls: &'a [String],
    targets: Targets,
    origin: &'a str,
    c: String,
    keys: Vec<&'a KeyRecord>,
}

/// The agents of a tick. Whoever is accused is told so by the same question.
pub(super) fn of<'a>(
    whom: &Whom<'a>,
    config: &Config,
    (c, targets): (&str, Targets),
) -> Vec<Agent<'a>> {
    let members = whom.agents.iter().filter_map(|id| Some((id, whom.fold.membership.member(id)?)));
    members
        .filter_map(|(id, member)| {
            let url = member.urls.first()?;
            let mut call = health_call(config, url, (c, targets))?;
            if let Some(accusation) = whom.accusations.get(id) {
                let told = Accusation { c: c.to_owned(), ..accusation.clone() };
                call.method = Method::Post;
                call.path = "/q/health".to_owned();
                call.headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
                call.body = serde_json::to_vec(&told).unwrap_or_default();
            }
            let keys = whom.fold.keys.of(id).map(|keys| {
                let retiring = keys.retiring.iter().map(|(record, _)| record);
                std::iter::once(&keys.current).chain(retiring).collect()
            });
            Some(Agent {
                id,
                call,
                urls: &member.urls,
                targets,
                origin: &whom.identity.origin,
                c: c.to_owned(),
                keys: keys.unwrap_or_default(),
            })
        })
        .collect()
}

fn health_call(config: &Config, url: &str, (c, targets): (&str, Targets)) -> Option<Call> {
    let mut call = peers::health_call(config, url, targets)?;
    call.path = format!("/q/health?c={c}");
    Some(call)
}

impl Agent<'_> {
    /// The plain question to its further URLs; to all of them where the first question was an
    /// accusation, which it may have refused for reasons of its own.
    pub(super) fn other_calls(&self, config: &Config) -> Vec<Call> {
        let asked_plainly = usize::from(self.call.method == Method::Get);
        let further = self.urls.iter().skip(asked_plainly);
        further.filter_map(|url| health_call(config, url, (&self.c, self.targets))).collect()
    }

    /// Reads a body as this agent's own answer.
    pub(super) fn own(&self, body: &[u8]) -> Option<Own> {
        let question =
            Question { origin: self.origin, node: self.id, c: &self.c, keys: &self.keys };
        question.own(body)
    }
}

/// What an agent's answer says: an answer that is not its own is the gateway's.
pub(super) fn outcome(
    config: &Config,
    agent: &Agent<'_>,
    answer: &Answer,
) -> (Outcome, Option<Own>) {
    let seen = peers::outcome(config, answer);
    let Ok(reply) = answer else { return (seen, None) };
    let own =
        (reply.status == 200 && reply.extent == Extent::Whole).then(|| agent.own(&reply.body));
    match own.flatten() {
        Some(own) => (seen, Some(own)),
        None => {
            let ms = u64::try_from(reply.head_after.as_millis()).unwrap_or(u64::MAX);
            (Outcome::Failed { reason: UNSIGNED.to_owned(), heard: true, ms }, None)
        }
    }
}

/// The question to a service at its own URL.
pub(super) fn service_call(config: &Config, service: &Service, targets: Targets) -> Option<Call> {
    let address = parse_url(&service.url).ok()?;
    let authority = address.authority();
    let path = service.check.as_deref().unwrap_or("/");
    let call = peers::call(config, address, authority, (path, Read::Head));
    Some(Call { targets, ..call })
}

/// What a service's answer says: below 500, or the status it expects.
pub(super) fn service_outcome(config: &Config, service: &Service, answer: &Answer) -> Outcome {
    let seen = peers::outcome(config, answer);
    match (&seen, service.expect) {
        (Outcome::Answered { http, ms }, Some(expect)) => match u64::from(*http) == expect {
            // Whatever it is, it is what its owner calls well.
            true => Outcome::Answered { http: 200, ms: *ms },
            false => Outcome::Failed { reason: format!("http-{http}"), heard: true, ms: *ms },
        },
        _ => seen,
    }
}
