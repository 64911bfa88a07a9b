//! One signed word to the anchor, and whether anybody who may take it was there.

use super::admission::Accepted;
use super::server::ASK_MS;
use crate::auth::envelope::Envelope;
use crate::error::Failure;
use crate::host::Host;
use crate::journal::checkpoint::open_checkpoint;
use crate::protocol::registration::parse_url;
use crate::store::identity::Identity;
use crate::wire::call::{Call, Extent, Method, Read, Reply, Targets};
use serde_json::Value;
use std::time::Duration;

/// The status of an anchor that takes no signed words now.
pub(super) const NOT_NOW: u16 = 503;

/// Largest answer to one word that is read.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A signed request on its way.
pub(super) struct Letter<'a> {
    /// What was signed, and the path it goes to.
    pub(super) kind: &'a str,
    pub(super) body: Vec<u8>,
    /// Largest answer read.
    pub(super) answer_max: usize,
    /// Nothing is sent after this instant of the boot clock.
    pub(super) until_boot_ms: u64,
}

impl<'a> Letter<'a> {
    /// One word, for as long as a verb waits.
    pub(super) fn word(host: &dyn Host, kind: &'a str, envelope: &Envelope) -> Letter<'a> {
        Letter {
            kind,
            body: envelope.render().into_bytes(),
            answer_max: ANSWER_BYTES_MAX,
            until_boot_ms: host.clock().boot_ms + ASK_MS,
        }
    }
}

/// Why a word was not taken.
#[derive(Debug)]
pub(super) enum Undelivered {
    /// No anchor was there; each URL with what came of it.
    Away(String),
    /// An anchor said no, with this status; 0 where we did.
    Refused(u16, Failure),
}

impl From<Undelivered> for Failure {
    fn from(undelivered: Undelivered) -> Failure {
        match undelivered {
            Undelivered::Away(why) => Failure::failed(format!("no anchor answered: {why}")),
            Undelivered::Refused(_, failure) => failure,
        }
    }
}

/// Posts to the anchor's URLs in turn until one answers as an anchor does. A gateway that has lost
/// it answers 502 or the like, which is nobody's word.
pub(super) fn post(
    host: &dyn Host,
    anchors: &[String],
    letter: &Letter<'_>,
) -> Result<Value, Undelivered> {
    let mut trouble = Vec::new();
    for url in anchors {
        let address =
            parse_url(url).map_err(|why| Undelivered::Refused(0, Failure::config(why)))?;
        let call = Call {
            method: Method::Post,
            host_header: address.authority(),
            address,
            path: format!("/{}", letter.kind),
            headers: vec![("Content-Type".to_owned(), "application/json".to_owned())],
            body: letter.body.clone(),
            timeout: Duration::from_millis(ASK_MS),
            read: Read::Body { max: letter.answer_max },
            targets: Targets::Any,
        };
        match host.dial(&[call], letter.until_boot_ms).into_iter().next() {
            Some(Ok(reply)) if reply.extent != Extent::Whole => {
                trouble.push(format!("{url}: the answer was cut short"));
            }
            Some(Ok(reply)) => match answered(url, &reply) {
                Err(Undelivered::Away(why)) => trouble.push(format!("{url}: {why}")),
                answer => return answer,
            },
            Some(Err(fault)) => trouble.push(format!("{url}: {fault}")),
            None => trouble.push(format!("{url}: not asked")),
        }
    }
    Err(Undelivered::Away(trouble.join("; ")))
}

fn answered(url: &str, reply: &Reply) -> Result<Value, Undelivered> {
    let value: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let status = reply.status;
    if status == 200 {
        return Ok(value);
    }
    let told = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let (Some(_), Some(message)) = (told("error"), told("message")) else {
        if status >= 500 {
            return Err(Undelivered::Away(format!("{status} from whoever stands before it")));
        }
        let failure = Failure::failed(format!("{url} refused with {status}: no reason given"));
        return Err(Undelivered::Refused(status, failure));
    };
    let failure = Failure::failed(format!("{url} refused with {status}: {message}"));
    let failure = match told("hint") {
        Some(hint) => failure.hint(hint),
        None => failure,
    };
    Err(Undelivered::Refused(status, failure))
}

/// The anchor's answer, believed only under the log's signature: somebody else's "done" must not
/// make us throw a key away.
pub(super) fn accepted(answer: Value, identity: &Identity) -> Result<Accepted, Failure> {
    let accepted: Accepted = serde_json::from_value(answer)
        .map_err(|error| Failure::failed(format!("the anchor's answer does not read: {error}")))?;
    let vkey = identity.verifier_of(accepted.checkpoint.as_bytes())?;
    let (checkpoint, _) = open_checkpoint(&accepted.checkpoint, &vkey)
        .map_err(|error| Failure::integrity(format!("the answer is not by our anchor: {error}")))?;
    if accepted.seq >= checkpoint.size {
        return Err(Failure::integrity(format!(
            "the answer names line {}, its checkpoint has {} lines",
            accepted.seq, checkpoint.size
        )));
    }
    Ok(accepted)
}
