//! HTTP calls to peers, many at once, each with one hard end.
//!
//! A hung peer must never hang a tick, and ureq's own time limits leave gaps (a lookup thread per
//! request, one extra second when a budget hits zero, a fresh limit for each partial write). So the
//! end of a call is one instant, enforced where bytes move: the lookup waits until it, and every
//! read and write on the socket gets what is left of it (`line`). ureq is left with what it does
//! well, speaking HTTP/1.1 over a connection that is handed to it. Each call has an agent of its
//! own: nothing is shared that could leak from one peer's call into another's, and it costs no more
//! than the copy of the configuration that a limit per request would make anyway.

mod fault;
mod line;
mod lookup;
mod tls;

use std::io::Read as _;
use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rustix::process::{Resource, getrlimit};
use ureq::config::Config;
use ureq::http::{Request, Response, header};
use ureq::{Agent, Body};

use self::line::Line;
use self::lookup::Lookups;
use self::tls::Tls;
use crate::protocol::address::{Host, Scheme};
use crate::wire::call::{Answer, Call, Extent, Fault, HINT_MAX, Method, Read, Reply, says_tls};

pub use self::lookup::{Lookup, system_lookup};

/// Most calls in flight at once (design section 16).
pub const SLOTS_MAX: usize = 256;

/// Descriptors left alone for files, locks and the standard streams.
const DESCRIPTORS_KEPT: u64 = 32;

/// Stack of a call's thread. A TLS handshake in an unoptimised build is the deepest user.
const STACK: usize = 256 * 1024;

/// What a [`Dialer`] is built from.
pub struct Options {
    /// PEM file with certificates to trust beside the system's roots.
    pub ca_file: Option<PathBuf>,
    /// Calls in flight at once; held to 1..=[`SLOTS_MAX`] and to the descriptor limit.
    pub slots: usize,
    /// How a name becomes addresses; tests put a hanging one here.
    pub lookup: Lookup,
}

impl Default for Options {
    fn default() -> Self {
        Self { ca_file: None, slots: SLOTS_MAX, lookup: system_lookup() }
    }
}

/// Runs calls. Built once per process; holds no connection between calls.
pub struct Dialer {
    slots: usize,
    config: Config,
    lookups: Lookups,
    tls: Tls,
}

impl Dialer {
    /// Builds the shared parts. Reads no file: TLS roots are loaded by the first https call.
    pub fn new(options: Options) -> Self {
        let slots = options.slots.clamp(1, SLOTS_MAX).min(slots_by_descriptors());
        Self {
            slots,
            config: config(),
            lookups: Lookups::new(options.lookup, slots),
            tls: Tls::new(options.ca_file),
        }
    }

    /// Runs all calls in parallel and returns their answers in the order of the calls, at the
    /// latest when the last call that began before `deadline` has ended. No call outlives
    /// `deadline` or its own timeout, whichever comes first.
    pub fn dial(&self, calls: &[Call], deadline: Instant) -> Vec<Answer> {
        self.lookups.forget_answered();
        let answers: Vec<OnceLock<Answer>> = calls.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(call), Some(answer)) = (calls.get(at), answers.get(at)) else {
                return;
            };
            // Each index is handed out once, so the cell is empty.
            let _ = answer.set(self.answer(call, deadline));
        };
        thread::scope(|scope| {
            for _ in 1..self.slots.min(calls.len()) {
                let slot = thread::Builder::new().name("dial".into()).stack_size(STACK);
                // A full process table means fewer slots, not a lost tick.
                if slot.spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        answers.into_iter().map(|it| it.into_inner().unwrap_or(Err(Fault::Unasked))).collect()
    }

    /// One call from its turn to its answer. A panic inside the HTTP library costs this answer
    /// only: one bad peer never stops the rest (law 7).
    fn answer(&self, call: &Call, deadline: Instant) -> Answer {
        let start = Instant::now();
        if start >= deadline {
            return Err(Fault::Unasked);
        }
        let until = start.checked_add(call.timeout).map_or(deadline, |end| end.min(deadline));
        panic::catch_unwind(AssertUnwindSafe(|| self.exchange(call, Span { start, until })))
            .unwrap_or_else(|_| Err(Fault::Local("the HTTP library failed".into())))
    }

    fn exchange(&self, call: &Call, span: Span) -> Answer {
        let addresses = self.addresses(call, span.until)?;
        let socket = line::connect(&addresses, span.until)?;
        let line = match call.address.scheme {
            Scheme::Http => Line::plain(socket),
            Scheme::Https => Line::tls(self.tls.handshake(socket, &call.server_name())?),
        };
        let agent = line.into_agent(self.config.clone());
        let response = send(&agent, call)?;
        let head_after = span.start.elapsed();
        Ok(Reply { head_after, ..read(response, call.read) })
    }

    /// The addresses to try in order. Literals are never looked up.
    fn addresses(&self, call: &Call, until: Instant) -> Result<Vec<SocketAddr>, Fault> {
        let port = call.address.port;
        let mut found = match &call.address.host {
            Host::Ip(ip) => vec![SocketAddr::new(*ip, port)],
            Host::Zoned { ip, zone } => self.lookups.zoned(*ip, zone, until)?,
            Host::Name(name) => self.lookups.find(name, until)?,
        };
        let refused = found.iter().find_map(|it| Some((it.ip(), call.targets.refusal(it.ip())?)));
        if let Some((ip, kind)) = refused {
            return Err(Fault::Local(format!("{kind} address {ip}, refused for members")));
        }
        found.iter_mut().for_each(|it| it.set_port(port));
        Ok(found)
    }
}

/// When a call began and when it must have ended.
#[derive(Clone, Copy)]
struct Span {
    start: Instant,
    until: Instant,
}

/// ureq without the parts that surprise: no proxy from the environment, no redirects, statuses as
/// values, nothing kept for reuse. Time limits are the line's, so none are set here.
fn config() -> Config {
    Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .max_idle_connections(0)
        .max_response_header_size(line::HEAD_MAX)
        .user_agent(concat!("crowny-fed/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Half of the descriptors that are free by the limit: a slot holds one socket, and as many
/// abandoned lookups may still hold theirs.
fn slots_by_descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let slots = (limit.saturating_sub(DESCRIPTORS_KEPT) / 2).max(1);
    usize::try_from(slots).unwrap_or(usize::MAX)
}

/// Sends the request and waits for the response head.
fn send(agent: &Agent, call: &Call) -> Result<Response<Body>, Fault> {
    let lines = call.headers.iter().map(|(name, value)| name.len() + value.len());
    let longest = lines.chain([call.path.len(), call.host_header.len()]).max().unwrap_or(0);
    if longest > line::SENT_LINE_MAX {
        let most = line::SENT_LINE_MAX;
        return Err(Fault::Local(format!("a request line of {longest} bytes, expected <= {most}")));
    }
    let mut request = Request::builder()
        .uri(call.address.url(&call.path))
        .header(header::HOST, &call.host_header)
        .header(header::CONNECTION, "close");
    for (name, value) in &call.headers {
        request = request.header(name, value);
    }
    let bad = |error: ureq::http::Error| Fault::Local(format!("request cannot be sent: {error}"));
    match call.method {
        Method::Get => agent.run(request.method("GET").body(()).map_err(bad)?),
        Method::Post => agent.run(request.method("POST").body(call.body.as_slice()).map_err(bad)?),
    }
    .map_err(fault::of_ureq)
}

/// Reads as much of the body as was asked for. The head came in time, so nothing that happens from
/// here on turns the reply into a fault. `head_after` is the caller's to fill in.
fn read(mut response: Response<Body>, wanted: Read) -> Reply {
    let status = response.status().as_u16();
    let most = match wanted {
        Read::Body { max } => max,
        Read::Head if status == 400 => HINT_MAX,
        Read::Head => 0,
    };
    let (body, extent) = match most {
        0 if wanted == Read::Head => (Vec::new(), Extent::Unread),
        _ => read_body(response.body_mut(), most),
    };
    let speaks_tls = status == 400 && says_tls(&body);
    let reply = Reply { status, head_after: Default::default(), body, extent, speaks_tls };
    match wanted {
        Read::Body { .. } => reply,
        Read::Head => Reply { body: Vec::new(), extent: Extent::Unread, ..reply },
    }
}

fn read_body(body: &mut Body, most: usize) -> (Vec<u8>, Extent) {
    let mut bytes = Vec::new();
    // One byte more than wanted tells "exactly `most`" from "goes on".
    let ended = body.as_reader().take(most as u64 + 1).read_to_end(&mut bytes);
    let extent = match ended {
        _ if bytes.len() > most => Extent::TooLarge,
        Ok(_) => Extent::Whole,
        Err(_) => Extent::Cut,
    };
    bytes.truncate(most);
    (bytes, extent)
}
