//! The one table from refusals and failures to HTTP statuses.

use super::message::{Problem, Response};
use crate::auth::gate::Refusal;
use crate::error::{Failure, Kind};

/// A refused signed write. Nothing was written, and no secret or digest is in the answer.
pub(super) fn refusal(refusal: &Refusal) -> Response {
    let (status, error, hint) = match refusal {
        Refusal::Malformed(_) => (400, "malformed", None),
        Refusal::TooLarge(_) => (413, "too-large", None),
        Refusal::Signature => (403, "signature", None),
        Refusal::NotGranted(_) => (
            403,
            "service-not-granted",
            Some("the anchor's operator grants it: crowny-fed grant SERVICE NODE"),
        ),
        Refusal::Unknown(_) => (
            401,
            "unknown-key",
            Some("the anchor's operator invites a node: crowny-fed invite NODE"),
        ),
        Refusal::Skew { .. } => {
            (408, "clock-skew", Some("set the clock of the machine that is off"))
        }
        Refusal::Replay(_) => (409, "nonce-used", None),
        Refusal::Conflict(_) => (409, "conflict", None),
        Refusal::TooMany(_) => (429, "too-many-lines", None),
        Refusal::Unavailable(_) => {
            (503, "not-now", Some("send the same request again later: it makes at most one line"))
        }
    };
    let problem = Problem::new(status, error, refusal.to_string());
    Response::problem(&match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    })
}

/// A read that failed.
pub(super) fn failure(failure: &Failure) -> Response {
    let (status, error) = match failure.kind {
        Kind::Usage => (400, "bad-request"),
        Kind::No => (404, "not-found"),
        Kind::Integrity => (500, "integrity"),
        Kind::Busy => (503, "busy"),
        Kind::Failed | Kind::Partial | Kind::Config => (503, "not-available"),
    };
    let problem = Problem::new(status, error, failure.message.clone());
    Response::problem(&match &failure.hint {
        Some(hint) => problem.hint(hint.clone()),
        None => problem,
    })
}
