//! The loop: takes connections from every listener, gives each request its turn at the handler.
//!
//! One thread, one order. Connections run as tasks on it and only move bytes; a whole request is
//! passed here, where the handler is called inline, so handlers need no locks and can block for a
//! file read without a second thread existing. What a blocked handler costs is the others' time,
//! and that time is never counted against their clients (see `pace`).

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep_until};

use super::connection::{self, Desk, Note, Stream, Terms};
use super::gate::Allowed;
use super::message::{Method, Request, Response};
use super::refusal::Refusal;
use crate::journal::branch::MERGE_BYTES_MAX;

/// After an accept that failed for lack of something (descriptors, memory): long enough not to
/// spin, short enough that nobody waiting in the backlog notices.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// What one client may take of us. The defaults are the product's documented limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The client's time for one whole request, first byte to last, and again for taking the
    /// answer (10 s). While the handler works no clock runs.
    pub request: Duration,
    /// How long a connection may be open without a request, fresh or between two (5 s).
    pub idle: Duration,
    /// Connections open at once (256); further ones wait in the kernel's backlog.
    pub connections_max: usize,
    /// Request line and headers, bytes (16 KiB; at least 8 KiB is buffered). Over it: 431.
    pub head_max: usize,
    /// Body, bytes (64 KiB). Over it: 413.
    pub body_max: usize,
    /// Body of `/merge`, bytes: lines of 1 MiB and a head. Over it: 413.
    pub merge_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request: Duration::from_secs(10),
            idle: Duration::from_secs(5),
            connections_max: 256,
            head_max: 16 * 1024,
            body_max: 64 * 1024,
            merge_max: MERGE_BYTES_MAX + 64 * 1024,
        }
    }
}

/// What a server lets in and when it ends.
#[derive(Clone, Default)]
pub struct Options<'a> {
    /// The names we answer to; the default answers to nobody.
    pub allowed: Allowed,
    /// See there.
    pub limits: Limits,
    /// Return once no connection is open and none came for this long; `None` never returns.
    pub idle_exit: Option<Duration>,
    /// Ends the server from outside; for tests, as a resident server ends by signal.
    pub stop: Option<Stop>,
    /// Called once for each request that is answered; nothing is logged without it.
    pub access: Option<&'a dyn Fn(&Access)>,
}

/// One line for an access log. Heads that hyper refused by itself have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The method; a foreign one is `Other`.
    pub method: Method,
    /// The path, escaped so that it cannot forge a line (`char::escape_debug`).
    pub path: String,
    /// The status sent.
    pub status: u16,
}

/// Ends a running `serve` from another thread; open connections are dropped.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Notify>);

impl Stop {
    /// Makes the server return `Ok` at its next turn; also when called before it started.
    pub fn stop(&self) {
        self.0.notify_one();
    }
}

/// Serves every listener until idle exit or stop. Errors are those of starting (no listener, no
/// runtime, a listener that cannot be made non-blocking); a failing accept is not one, it is tried
/// again.
pub fn serve(
    listeners: Vec<std::net::TcpListener>,
    options: &Options<'_>,
    handler: &dyn Fn(&Request) -> Response,
) -> io::Result<()> {
    if listeners.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no listening socket to serve"));
    }
    LocalSet::new().block_on(&runtime()?, async {
        let listeners = listeners.into_iter().map(adopt).collect::<io::Result<_>>()?;
        Server::new(listeners, options, handler).run().await;
        Ok(())
    })
}

/// A single-threaded runtime with sockets and timers.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().build()
}

fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// What the loop wakes up for.
enum Event {
    Arrived(TcpStream),
    AcceptFailed(io::Error),
    Told(Note),
    Over,
}

/// The loop's state.
pub(super) struct Server<'a> {
    listeners: Vec<TcpListener>,
    options: &'a Options<'a>,
    handler: &'a dyn Fn(&Request) -> Response,
    desk: Rc<Desk>,
    notes: UnboundedReceiver<Note>,
    open: usize,
    turn: usize,
    quiet_since: Instant,
    accept_after: Instant,
}

impl<'a> Server<'a> {
    /// A server over `listeners`, which may be empty when connections are given by `take`.
    pub(super) fn new(
        listeners: Vec<TcpListener>,
        options: &'a Options<'a>,
        handler: &'a dyn Fn(&Request) -> Response,
    ) -> Server<'a> {
        let (sender, notes) = unbounded_channel();
        let terms = Terms { allowed: options.allowed.clone(), limits: options.limits };
        let desk = Rc::new(Desk::new(terms, sender));
        let (quiet_since, accept_after) = (Instant::now(), Instant::now());
        let (open, turn) = (0, 0);
        Server { listeners, options, handler, desk, notes, open, turn, quiet_since, accept_after }
    }

    /// Starts serving one connection; a `Closed` note follows whatever becomes of it.
    pub(super) fn take(&mut self, stream: impl Stream) {
        self.open += 1;
        spawn_local(connection::run(stream, self.desk.clone()));
    }

    /// Runs until told to end, or until nothing is open and nothing can come.
    pub(super) async fn run(mut self) {
        while self.open > 0 || !self.listeners.is_empty() {
            match self.event().await {
                Event::Arrived(stream) => {
                    // Answers are written whole, so Nagle only delays them; failing is harmless.
                    let _ = stream.set_nodelay(true);
                    self.take(stream);
                }
                Event::AcceptFailed(error) => self.rest_after(&error),
                Event::Told(note) => self.attend(note),
                Event::Over => return,
            }
        }
    }

    async fn event(&mut self) -> Event {
        let stop = self.options.stop.clone().unwrap_or_default();
        let mut stopped = pin!(stop.0.notified());
        let mut rested = pin!(sleep_until(self.accept_after));
        let quiet_due = self.options.idle_exit.map(|limit| self.quiet_since + limit);
        let mut quiet = quiet_due.map(|due| Box::pin(sleep_until(due)));
        poll_fn(|context| {
            if stopped.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Over);
            }
            if let Poll::Ready(Some(note)) = self.notes.poll_recv(context) {
                return Poll::Ready(Event::Told(note));
            }
            let room = self.open < self.options.limits.connections_max;
            if room && rested.as_mut().poll(context).is_ready() {
                match self.poll_accept(context) {
                    Poll::Ready(Ok(stream)) => return Poll::Ready(Event::Arrived(stream)),
                    Poll::Ready(Err(error)) => return Poll::Ready(Event::AcceptFailed(error)),
                    Poll::Pending => {}
                }
            }
            // After accept: a connection that came in the last moment is served, not left behind.
            match &mut quiet {
                Some(quiet) if self.open == 0 => quiet.as_mut().poll(context).map(|()| Event::Over),
                _ => Poll::Pending,
            }
        })
        .await
    }

    /// Asks each listener in turn, starting after the last that answered, so that a busy or broken
    /// one does not hide the others.
    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        for step in 0..self.listeners.len() {
            let at = (self.turn + step) % self.listeners.len();
            if let Poll::Ready(accepted) = self.listeners[at].poll_accept(context) {
                self.turn = at + 1;
                return Poll::Ready(accepted.map(|(stream, _)| stream));
            }
        }
        Poll::Pending
    }

    /// Errors of the connection that was to be accepted pass at once (accept(2)); the others
    /// (EMFILE, ENFILE, ENOBUFS, ENOMEM) need someone to let go of something first.
    fn rest_after(&mut self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if !matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            self.accept_after = Instant::now() + ACCEPT_REST;
        }
    }

    fn attend(&mut self, note: Note) {
        match note {
            Note::Ask { request, reply } => {
                let response = self.answer(&request);
                self.log(request.method, &request.path, response.status);
                // The connection may have gone meanwhile; the work is done all the same.
                let _ = reply.send(response);
            }
            Note::Refused { method, path, status } => self.log(method, &path, status),
            Note::Closed => {
                self.open -= 1;
                self.quiet_since = Instant::now();
            }
        }
    }

    /// Unwind safety is the handler's: it is `Fn` and keeps what must last on disk, so a panic
    /// costs its own request only.
    fn answer(&self, request: &Request) -> Response {
        catch_unwind(AssertUnwindSafe(|| (self.handler)(request)))
            .unwrap_or_else(|_| Refusal::HandlerFailed.response())
    }

    fn log(&self, method: Method, path: &str, status: u16) {
        if let Some(access) = self.options.access {
            access(&Access { method, path: path.escape_debug().to_string(), status });
        }
    }
}
