//! The request and the response as a handler sees them: plain values, no socket, no hyper.
//!
//! A request arrives here complete and already admitted; a response leaves as status, type and
//! bytes, and the shell adds what every answer carries (length, date, `nosniff`).

use std::borrow::Cow;

use hyper::StatusCode;
use serde::Serialize;

/// The methods we serve; everything else is `Other` and is refused before a handler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET (RFC 9110 9.3.1).
    Get,
    /// HEAD: answered as GET, then sent without its body (RFC 9110 9.3.2).
    Head,
    /// POST (RFC 9110 9.3.3).
    Post,
    /// Any other method, OPTIONS included: a preflight is never answered.
    Other,
}

impl Method {
    /// The method named by a token; methods are case-sensitive (RFC 9110 9.1).
    pub fn parse(token: &str) -> Method {
        match token {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            _ => Method::Other,
        }
    }

    /// The name for a log line; a foreign method is not echoed.
    pub fn as_str(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Other => "OTHER",
        }
    }
}

/// One whole request that passed the gate.
#[derive(Clone, Debug)]
pub struct Request {
    /// Never `Other` in a handler: the gate refuses those.
    pub method: Method,
    /// Percent-decoded once, starts with `/`, no dot segments, no control characters.
    pub path: String,
    /// Decoded pairs in order of arrival; a `+` is a plus, not a space.
    pub query: Vec<(String, String)>,
    /// The host addressed, without port, case-folded, IP literals in canonical form.
    pub host: String,
    /// `Accept`, several joined with `, `; empty when absent.
    pub accept: String,
    /// `Origin` when sent; its host is one of ours.
    pub origin: Option<String>,
    /// `Authorization` exactly as sent.
    pub authorization: Option<String>,
    /// `Content-Type` exactly as sent; `application/json` on every POST.
    pub content_type: Option<String>,
    /// The whole body, at most the configured cap.
    pub body: Vec<u8>,
}

impl Request {
    /// The first value of a query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether `Accept` names `application/json` itself; wildcards keep the default form.
    pub fn accepts_json(&self) -> bool {
        self.accept
            .split(',')
            .map(|range| range.split(';').next().unwrap_or("").trim())
            .any(|range| range.eq_ignore_ascii_case("application/json"))
    }
}

/// One answer. A header value that is not visible ASCII turns the whole answer into a 500.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// 200..=599.
    pub status: u16,
    /// The media type, with charset where it has one.
    pub content_type: Cow<'static, str>,
    /// Sent with its exact byte length; left out on HEAD.
    pub body: Vec<u8>,
    /// `Cache-Control: no-store`; wins over a `Cache-Control` in `headers`.
    pub no_store: bool,
    /// Further headers; names in any case.
    pub headers: Vec<(&'static str, String)>,
}

impl Response {
    /// UTF-8 text, 200. Not stored: the next tick may change it.
    pub fn text(body: impl Into<String>) -> Response {
        Response::of("text/plain; charset=utf-8", body.into().into_bytes())
    }

    /// Journal lines, 200, not stored: bytes as they stand.
    pub fn lines(body: Vec<u8>) -> Response {
        Response::of("text/plain; charset=utf-8", body)
    }

    /// JSON, 200, not stored. The charset is redundant (RFC 8259 8.1) but helps old readers show
    /// Korean text. A value that cannot be serialised (a non-string map key) is a 500 problem.
    pub fn json(value: &impl Serialize) -> Response {
        match serde_json::to_vec(value) {
            Ok(body) => Response::of("application/json; charset=utf-8", body),
            Err(_) => Response::problem(&Problem::new(
                500,
                "answer-not-serialisable",
                "the answer could not be written as JSON",
            )),
        }
    }

    /// An HTML page, 200, not stored.
    pub fn html(body: impl Into<String>) -> Response {
        Response::of("text/html; charset=utf-8", body.into().into_bytes())
    }

    /// Bytes that never change under this name (tiles): cacheable for a year (RFC 8246).
    pub fn bytes(body: Vec<u8>) -> Response {
        let cached = ("cache-control", "public, max-age=31536000, immutable".to_owned());
        Response {
            no_store: false,
            headers: vec![cached],
            ..Response::of("application/octet-stream", body)
        }
    }

    /// A problem as `application/problem+json` (RFC 9457), never stored.
    pub fn problem(problem: &Problem) -> Response {
        let body = problem.render();
        Response { status: problem.status, ..Response::of("application/problem+json", body) }
    }

    /// The same answer with another status.
    pub fn status(self, status: u16) -> Response {
        Response { status, ..self }
    }

    fn of(content_type: &'static str, body: Vec<u8>) -> Response {
        let content_type = Cow::Borrowed(content_type);
        Response { status: 200, content_type, body, no_store: true, headers: Vec::new() }
    }
}

/// Why a request was not done, for people (`message`, `hint`) and scripts (`error`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// 400..=599.
    pub status: u16,
    /// A stable word for scripts, e.g. `host-not-allowed`.
    pub error: &'static str,
    /// What happened, lower case, no full stop; must not echo unescaped input.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Problem {
    /// A problem without a hint.
    pub fn new(status: u16, error: &'static str, message: impl Into<String>) -> Problem {
        Problem { status, error, message: message.into(), hint: None }
    }

    /// The same problem with a hint.
    pub fn hint(self, hint: impl Into<String>) -> Problem {
        Problem { hint: Some(hint.into()), ..self }
    }

    /// The JSON text. The type is `about:blank`, so the title is the status's own phrase
    /// (RFC 9457 4.2.1).
    fn render(&self) -> Vec<u8> {
        let title = StatusCode::from_u16(self.status).ok().and_then(|code| code.canonical_reason());
        let members = Members {
            kind: "about:blank",
            title: title.unwrap_or("Error"),
            status: self.status,
            error: self.error,
            message: &self.message,
            hint: self.hint.as_deref(),
        };
        serde_json::to_vec(&members).unwrap_or_default() // strings and a number always serialise
    }
}

/// The members in the order a person reads them.
#[derive(Serialize)]
struct Members<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    error: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_carries_the_standard_and_our_members() {
        let problem = Problem::new(403, "host-not-allowed", "no \"x\"\n").hint("서울");
        let response = Response::problem(&problem);
        assert_eq!((response.status, response.no_store), (403, true));
        assert_eq!(response.content_type, "application/problem+json");
        let read: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(read["type"], "about:blank");
        assert_eq!(read["title"], "Forbidden");
        assert_eq!(read["status"], 403);
        assert_eq!(read["error"], "host-not-allowed");
        assert_eq!(read["message"], "no \"x\"\n");
        assert_eq!(read["hint"], "서울");
    }

    #[test]
    fn only_the_named_type_asks_for_json() {
        let asks = |accept: &str| {
            let request = Request {
                method: Method::Get,
                path: "/".into(),
                query: vec![("a".into(), "1".into()), ("a".into(), "2".into())],
                host: "localhost".into(),
                accept: accept.into(),
                origin: None,
                authorization: None,
                content_type: None,
                body: Vec::new(),
            };
            assert_eq!((request.param("a"), request.param("b")), (Some("1"), None));
            request.accepts_json()
        };
        assert!(asks("text/html, Application/JSON;q=0.9"));
        assert!(!asks("*/*") && !asks("") && !asks("application/jsonx"));
    }

    #[test]
    fn an_unserialisable_value_is_a_problem_not_a_panic() {
        let keyed = std::collections::BTreeMap::from([((1, 2), 3)]);
        assert_eq!(Response::json(&keyed).status, 500);
        assert_eq!(Response::json(&serde_json::json!({"a": "서울-1"})).body.len(), 16);
    }
}
