//! One exchange: the question goes through the network to whoever answers at its address, and the
//! answer comes back, late, twice, changed, or not at all.

use super::net::{Fate, ROUND_TRIP_MS, Stray};
use super::{Place, SimHost};
use crate::http::router::{Face, answer};
use crate::http::{Method, Request, Response};
use crate::wire::call::{Answer, Call, Extent, Fault, Method as Asked, Read, Reply};
use std::time::Duration;

impl SimHost {
    /// One call and how long it took in milliseconds.
    pub(super) fn ask(&self, call: &Call) -> (Answer, u64) {
        let limit_ms = u64::try_from(call.timeout.as_millis()).unwrap_or(u64::MAX);
        let place = self.world.0.borrow().places.get(&call.address.authority()).cloned();
        let Some(place) = place else {
            let fault = Fault::Connect("no such host in this world".to_owned());
            return (Err(fault), ROUND_TRIP_MS);
        };
        let (Place::Agent { machine } | Place::Front { machine, .. }) = &place;
        let silent = self.world.host(machine).is_some_and(|peer| peer.is_paused());
        let is_post = call.method == Asked::Post;
        let fate = self.world.fate((&self.name, machine), is_post);
        if silent || fate == Fate::Lost {
            return (Err(Fault::Timeout), limit_ms);
        }
        let Place::Agent { machine } = place else {
            return front(&place, fate, call);
        };
        let request = request(call);
        if let Fate::Late { after_ms } = fate {
            let mut state = self.world.0.borrow_mut();
            let due_ms = state.now_ms + after_ms;
            state.net.strays.push(Stray { due_ms, to: machine, request });
            return (Err(Fault::Timeout), limit_ms);
        }
        let Some(peer) = self.world.host(&machine) else { return (Err(Fault::Refused), limit_ms) };
        let mut answer = peer.handle(&request);
        match fate {
            Fate::Carried { twice: true, .. } => answer = peer.handle(&request),
            Fate::Unanswered => return (Err(Fault::Timeout), limit_ms),
            _ => {}
        }
        (arrived(answer, fate, call), limit_ms.min(took_ms(fate)))
    }

    /// The agent's side of one request.
    pub(super) fn handle(&self, request: &Request) -> Result<Response, Fault> {
        if self.is_paused() {
            return Err(Fault::Timeout);
        }
        if !self.answers() {
            return Err(Fault::Refused);
        }
        let config = self.config();
        let response = answer(&Face { host: self, config: &config }, request);
        if self.disk(|disk| disk.was_killed()) {
            return Err(Fault::Reset);
        }
        let twist = self.node.borrow().twist.clone();
        Ok(match twist {
            Some(twist) => twist(request, response),
            None => response,
        })
    }
}

fn took_ms(fate: Fate) -> u64 {
    match fate {
        Fate::Carried { ms, .. } => ms,
        Fate::Lost | Fate::Unanswered | Fate::Late { .. } => u64::MAX,
    }
}

fn front(place: &Place, fate: Fate, call: &Call) -> (Answer, u64) {
    let Place::Front { status, .. } = place else { return (Err(Fault::Refused), ROUND_TRIP_MS) };
    let Fate::Carried { ms, .. } = fate else {
        return (Err(Fault::Timeout), call.timeout.as_millis() as u64);
    };
    let page = Response::text("<html>It works</html>\n").status(*status);
    (arrived(Ok(page), fate, call), ms)
}

/// What the asker gets of an answer: a slow one comes too late.
fn arrived(answer: Result<Response, Fault>, fate: Fate, call: &Call) -> Answer {
    let head_after = Duration::from_millis(took_ms(fate));
    let response = answer?;
    if head_after > call.timeout {
        return Err(Fault::Timeout);
    }
    let (body, extent) = match call.read {
        Read::Head => (Vec::new(), Extent::Unread),
        Read::Body { max } if response.body.len() > max => (Vec::new(), Extent::TooLarge),
        Read::Body { .. } => (response.body, Extent::Whole),
    };
    Ok(Reply { status: response.status, head_after, body, extent, speaks_tls: false })
}

fn request(call: &Call) -> Request {
    let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
    let given = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = given.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    Request {
        method: match call.method {
            Asked::Get => Method::Get,
            Asked::Post => Method::Post,
        },
        path: path.to_owned(),
        query: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        host: call.host_header.clone(),
        accept: String::new(),
        origin: None,
        authorization: None,
        content_type: None,
        body: call.body.clone(),
    }
}
