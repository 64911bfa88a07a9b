//! One connection: hyper reads heads and writes answers, this reads bodies and passes questions.
//!
//! Everything refused is refused here, before the handler, and closes the connection: after a
//! request we did not like, nobody can be sure where the next one begins. hyper refuses by itself,
//! with an empty body, what it cannot parse (400), heads over the cap or of more than 100 lines
//! (431) and over-long targets (414).

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderName, HeaderValue, ORIGIN, TRANSFER_ENCODING, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::accept::Limits;
use super::gate::{Allowed, Head, admit};
use super::message::{Method, Request, Response};
use super::pace::Pace;
use super::refusal::Refusal;
use super::tap::{RawHead, Tap, is_ambiguous};
use super::target::Target;

/// How long unread input is thrown away after the last answer. Closing at once makes the kernel
/// send a reset that can overtake a 413 or 431 the client has not read yet (RFC 9112 9.6).
const LINGER: Duration = Duration::from_secs(1);

/// The one path whose body may be longer.
const MERGE: &str = "/merge";

/// Smallest read buffer hyper accepts; it panics below.
const HYPER_BUFFER_MIN: usize = 8192;

/// Anything a connection can run over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + 'static> Stream for S {}

/// The part of `Options` that connections need; see there.
pub(super) struct Terms {
    pub(super) allowed: Allowed,
    pub(super) limits: Limits,
}

/// What a connection tells the loop.
pub(super) enum Note {
    /// A whole request; the answer goes to `reply`.
    Ask { request: Request, reply: oneshot::Sender<Response> },
    /// A request refused here; `path` is as sent.
    Refused { method: Method, path: String, status: u16 },
    /// The connection is gone. Sent exactly once for each.
    Closed,
}

/// Where connections bring their questions.
pub(super) struct Desk {
    terms: Terms,
    notes: UnboundedSender<Note>,
}

impl Desk {
    /// A desk whose notes arrive at the receiver of `notes`.
    pub(super) fn new(terms: Terms, notes: UnboundedSender<Note>) -> Desk {
        Desk { terms, notes }
    }

    fn tell(&self, note: Note) {
        // The loop outlives its connections; after it nobody is left to be told.
        let _ = self.notes.send(note);
    }

    async fn ask(&self, request: Request) -> Response {
        let (reply, answer) = oneshot::channel();
        self.tell(Note::Ask { request, reply });
        answer.await.unwrap_or_else(|_| Refusal::HandlerFailed.response())
    }
}

/// Says `Closed` however the task ends, a panic included: the count of open connections decides
/// about accepting and about idle exit.
struct Leaving(Rc<Desk>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.tell(Note::Closed);
    }
}

/// One connection and what its requests share.
struct Visit {
    desk: Rc<Desk>,
    pace: Rc<Pace>,
    raw: Rc<RawHead>,
}

/// Serves one connection to its end.
pub(super) async fn run(stream: impl Stream, desk: Rc<Desk>) {
    let _leaving = Leaving(desk.clone());
    let limits = desk.terms.limits;
    let pace = Rc::new(Pace::new(limits.request, limits.idle, Instant::now()));
    let raw = Rc::new(RawHead::default());
    let tap = Tap::new(stream, pace.clone(), raw.clone());
    let visit = Rc::new(Visit { desk: desk.clone(), pace: pace.clone(), raw });
    // Boxed because taking the stream back needs a service future that can be moved.
    let service = service_fn(move |incoming| -> Pin<Box<dyn Future<Output = _>>> {
        Box::pin(exchange(incoming, visit.clone()))
    });
    // No header timeout of hyper's: the pace covers head, body and answer in one rule. Half-close
    // is allowed because `printf ... | nc` and `--stdio` end their input before they read.
    let mut http = http1::Builder::new()
        .half_close(true)
        .header_read_timeout(None)
        .max_header_size(limits.head_max)
        .max_buf_size(limits.head_max.max(HYPER_BUFFER_MIN))
        .serve_connection(TokioIo::new(tap), service);
    if in_time(&pace, |context| http.poll_without_shutdown(context).map(drop)).await {
        linger(http.into_parts().io.into_inner().into_stream()).await;
    }
}

/// Polls until done, or until the client is late; `false` means late.
async fn in_time(pace: &Pace, mut poll: impl FnMut(&mut Context<'_>) -> Poll<()>) -> bool {
    let mut alarm = pin!(sleep_until(Instant::now()));
    poll_fn(|context| {
        // First the work: bytes that arrived while a handler held the thread are not late.
        if poll(context).is_ready() {
            return Poll::Ready(true);
        }
        let Some(due) = pace.due() else {
            return Poll::Pending;
        };
        if alarm.deadline() != due {
            alarm.as_mut().reset(due);
        }
        alarm.as_mut().poll(context).map(|()| false)
    })
    .await
}

async fn linger(mut stream: impl Stream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut dropped = [0; 4096];
    let drain = async { while matches!(stream.read(&mut dropped).await, Ok(1..)) {} };
    let _ = timeout(LINGER, drain).await;
}

/// One request to one answer. Chunked requests end the connection (see `RawHead::take`), refused
/// ones too.
async fn exchange(
    incoming: hyper::Request<Incoming>,
    visit: Rc<Visit>,
) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
    visit.pace.heard(Instant::now());
    let method = Method::parse(incoming.method().as_str());
    let path = incoming.uri().path().to_owned();
    let chunked = incoming.headers().contains_key(TRANSFER_ENCODING);
    let (answer, close) = match receive(incoming, &visit).await {
        Ok(request) => (visit.desk.ask(request).await, chunked),
        Err(refusal) => {
            let answer = refusal.response();
            visit.desk.tell(Note::Refused { method, path, status: answer.status });
            (answer, true)
        }
    };
    visit.pace.writing(Instant::now());
    Ok(encode(answer, close))
}

/// Checks, then reads. The order is the protection: nothing of a body is read, nor its 100 sent,
/// before host, origin, method and type have passed.
async fn receive(incoming: hyper::Request<Incoming>, visit: &Visit) -> Result<Request, Refusal> {
    let (parts, body) = incoming.into_parts();
    if is_ambiguous(&visit.raw.take(body.size_hint().exact())) {
        return Err(Refusal::FramingAmbiguous);
    }
    let head = head_of(&parts);
    let host = admit(&head, &visit.desk.terms.allowed)?;
    let method = head.method;
    let Target { path, query } = Target::parse(parts.uri.path(), parts.uri.query())?;
    let once = |name| single(&parts.headers, name);
    let (origin, authorization, content_type) =
        (once(ORIGIN)?, once(AUTHORIZATION)?, once(CONTENT_TYPE)?);
    let accept = joined(&parts.headers);
    let limits = visit.desk.terms.limits;
    let bytes_max = if path == MERGE { limits.merge_max } else { limits.body_max };
    let body = read_body(body, bytes_max, visit).await?;
    visit.pace.answering();
    Ok(Request { method, path, query, host, accept, origin, authorization, content_type, body })
}

fn head_of(parts: &Parts) -> Head<'_> {
    let all = |name| parts.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    Head {
        method: Method::parse(parts.method.as_str()),
        authority: parts.uri.authority().map(|authority| authority.as_str()),
        hosts: all(HOST),
        origins: all(ORIGIN),
        content_types: all(CONTENT_TYPE),
    }
}

/// A header that may stand once, when it stands.
fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<String>, Refusal> {
    let label = match name {
        ORIGIN => "origin",
        AUTHORIZATION => "authorization",
        _ => "content-type",
    };
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    if second.is_some() {
        return Err(Refusal::HeaderMalformed(label));
    }
    let text = first.map(HeaderValue::to_str).transpose();
    text.map(|text| text.map(str::to_owned)).map_err(|_| Refusal::HeaderMalformed(label))
}

/// `Accept` as one list (RFC 9110 5.3); an unreadable part asks for nothing.
fn joined(headers: &HeaderMap) -> String {
    let readable = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    readable.collect::<Vec<_>>().join(", ")
}

/// The whole body, within the cap and before the request is due.
async fn read_body(body: Incoming, bytes_max: usize, visit: &Visit) -> Result<Vec<u8>, Refusal> {
    let too_large = Refusal::BodyTooLarge(bytes_max);
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large);
    }
    let due = visit.pace.due().unwrap_or_else(Instant::now);
    match timeout_at(due, Limited::new(body, bytes_max).collect()).await {
        Err(_) => Err(Refusal::BodySlow),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large),
        Ok(Err(_)) => Err(Refusal::BodyBroken),
        Ok(Ok(collected)) => Ok(collected.to_bytes().to_vec()),
    }
}

/// The answer as hyper writes it. One that HTTP cannot carry becomes a 500, never half a header.
fn encode(answer: Response, close: bool) -> hyper::Response<Full<Bytes>> {
    try_encode(answer, close)
        .or_else(|_| try_encode(Refusal::HandlerFailed.response(), true))
        .unwrap_or_else(|_| {
            let mut bare = hyper::Response::new(Full::default());
            *bare.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            bare
        })
}

/// hyper adds `Date`, and leaves the body out on HEAD but keeps the length given here.
fn try_encode(
    answer: Response,
    close: bool,
) -> Result<hyper::Response<Full<Bytes>>, hyper::http::Error> {
    // A handler has no business sending 1xx: those are interim and never end a request.
    let status = StatusCode::from_u16(if answer.status < 200 { 0 } else { answer.status })?;
    let bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let body = if bodiless { Vec::new() } else { answer.body };
    let mut response = hyper::Response::builder().status(status);
    for (name, value) in answer.headers {
        response = response.header(name, value);
    }
    if !bodiless {
        response = response.header(CONTENT_TYPE, answer.content_type.as_ref());
        response = response.header(CONTENT_LENGTH, body.len());
    }
    let mut response = response.body(Full::new(Bytes::from(body)))?;
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if answer.no_store {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}
