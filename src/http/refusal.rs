//! Every answer the shell gives by itself, and the one table that gives each its status.
//!
//! A refusal never repeats what the client sent: a Host or Origin copied into a body is how a
//! rebound name or a script gets back to a browser. hyper refuses the crudest heads before we see
//! them (400, 414, 431 with an empty body); those are final too and close the connection.

use thiserror::Error;

use super::message::{Problem, Response};
use super::target::TargetError;

/// Why a request never reached its handler, or got no answer from it. Our state is unchanged,
/// except possibly for `HandlerFailed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Two ways to tell where the body ends (RFC 9112 6.3): request smuggling.
    #[error("content-length and transfer-encoding must not be sent together")]
    FramingAmbiguous,
    /// A header that may stand once stands twice, or is not visible ASCII.
    #[error("the {0} header must be sent at most once, in visible ASCII")]
    HeaderMalformed(&'static str),
    /// No Host (RFC 9112 3.2 asks for 400).
    #[error("the host header is missing")]
    HostMissing,
    /// Several Host headers (RFC 9112 3.2).
    #[error("the host header must be sent once")]
    HostRepeated,
    /// Not `name`, `ip` or `[ip6]` with an optional port.
    #[error("the host header must be a name or an IP literal with an optional port")]
    HostMalformed,
    /// A name that is not ours: DNS rebinding, or an address nobody told us about.
    #[error("this server does not answer to that host name")]
    HostForeign,
    /// A page of another site is calling.
    #[error("requests from pages of another origin are refused")]
    OriginForeign,
    /// Anything but GET, HEAD and POST; also a preflight, which therefore always fails.
    #[error("only GET, HEAD and POST are served")]
    MethodRefused,
    /// A POST a plain HTML form could have sent.
    #[error("the body must be sent as application/json")]
    ContentTypeRefused,
    /// Path or query in an ambiguous spelling.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The declared or actual body is over the cap.
    #[error("the body is larger than {0} bytes")]
    BodyTooLarge(usize),
    /// Bad chunk, or the connection ended inside the body.
    #[error("the body ended early or its framing is broken")]
    BodyBroken,
    /// The client let the limit on the whole request pass inside its body.
    #[error("the request did not arrive in time")]
    BodySlow,
    /// The handler panicked or answered something HTTP cannot carry.
    #[error("the request could not be answered because of an internal error")]
    HandlerFailed,
}

impl Refusal {
    /// The problem sent for it.
    pub fn problem(self) -> Problem {
        let (status, error) = self.status();
        let problem = Problem::new(status, error, self.to_string());
        match self.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }

    /// The whole answer; 405 names the methods that are served (RFC 9110 15.5.6).
    pub fn response(self) -> Response {
        let mut response = Response::problem(&self.problem());
        if self == Refusal::MethodRefused {
            response.headers.push(("allow", "GET, HEAD, POST".to_owned()));
        }
        response
    }

    /// 403, not 421, for a foreign Host: 421 invites the client to try again on a fresh connection
    /// (RFC 9110 15.5.20), and no connection of ours will ever serve that name.
    fn status(self) -> (u16, &'static str) {
        match self {
            Refusal::FramingAmbiguous => (400, "framing-ambiguous"),
            Refusal::HeaderMalformed(_) => (400, "header-malformed"),
            Refusal::HostMissing => (400, "host-missing"),
            Refusal::HostRepeated => (400, "host-repeated"),
            Refusal::HostMalformed => (400, "host-malformed"),
            Refusal::HostForeign => (403, "host-not-allowed"),
            Refusal::OriginForeign => (403, "origin-not-allowed"),
            Refusal::MethodRefused => (405, "method-not-allowed"),
            Refusal::ContentTypeRefused => (415, "content-type-not-json"),
            Refusal::Target(_) => (400, "target-malformed"),
            Refusal::BodyTooLarge(_) => (413, "body-too-large"),
            Refusal::BodyBroken => (400, "body-broken"),
            Refusal::BodySlow => (408, "request-timeout"),
            Refusal::HandlerFailed => (500, "internal-error"),
        }
    }

    fn hint(self) -> Option<&'static str> {
        match self {
            Refusal::HostForeign => {
                Some("use the address it listens on, or add the name to hosts under [api]")
            }
            Refusal::ContentTypeRefused => Some("send the header Content-Type: application/json"),
            Refusal::FramingAmbiguous => Some("send exactly one of the two headers"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refused_method_names_the_allowed_ones() {
        let refused = Refusal::MethodRefused.response();
        assert_eq!(refused.headers, [("allow", "GET, HEAD, POST".to_owned())]);
        assert!(Refusal::HostForeign.response().headers.is_empty());
    }

    #[test]
    fn a_foreign_host_is_told_what_to_configure() {
        let problem = Refusal::HostForeign.problem();
        assert_eq!((problem.status, problem.error), (403, "host-not-allowed"));
        assert!(problem.hint.unwrap().contains("[api]"));
    }
}
