//! One connection to a peer whose every byte is under the call's end.
//!
//! A socket time-out limits one system call, so a peer that drips bytes could stretch a call for
//! ever. [`Timed`] sets the time-out anew before each read and write to what is left until the
//! call's end; above it TLS and HTTP may do as they like, none of them can wait longer.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Agent, Error};

use super::fault;
use crate::wire::call::Fault;

/// Most bytes of a response head (design section 16).
pub(super) const HEAD_MAX: usize = 16 * 1024;

/// Bytes of a connection's input and output buffer (design section 15).
const BUFFER: usize = 8 * 1024;

/// Most bytes of one line of a request head: ureq cannot split a line over two buffers, and the
/// method, version and punctuation need a little of it.
pub(super) const SENT_LINE_MAX: usize = BUFFER - 64;

/// The input buffer of a head that outgrows [`BUFFER`]; larger than [`HEAD_MAX`], so that ureq
/// sees the limit passed before it sees the buffer full, which it would call a closed connection.
const BUFFER_MAX: usize = HEAD_MAX + 1024;

/// Connects to the first address that answers. Each address gets half of the time left and the
/// last one all of it, so one dead address of a name does not hide the live one behind it.
pub(super) fn connect(addresses: &[SocketAddr], until: Instant) -> Result<Timed, Fault> {
    let mut last = Fault::Timeout;
    for (index, address) in addresses.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let share = if index + 1 == addresses.len() { left } else { left / 2 };
        if share.is_zero() {
            return Err(Fault::Timeout);
        }
        match TcpStream::connect_timeout(address, share).and_then(settle) {
            Ok(stream) => return Ok(Timed { stream, until }),
            Err(error) => last = fault::of_io(&error),
        }
    }
    Err(last)
}

/// Makes a fresh connection ready. A dead port in the ephemeral range can meet itself (TCP
/// simultaneous open); that is nobody's answer.
fn settle(stream: TcpStream) -> io::Result<TcpStream> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A socket that fails with [`ErrorKind::TimedOut`] once its end has come.
#[derive(Debug)]
pub(super) struct Timed {
    stream: TcpStream,
    until: Instant,
}

impl Timed {
    /// Runs one system call under the time left, again if a signal interrupts it.
    fn within<T>(
        &mut self,
        limit: fn(&TcpStream, Option<Duration>) -> io::Result<()>,
        mut step: impl FnMut(&mut TcpStream) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            match limit(&self.stream, Some(left)) {
                // macOS refuses a new limit once the peer has closed; what it sent is still there.
                Err(error) if error.kind() != ErrorKind::InvalidInput => return Err(error),
                _ => {}
            }
            match step(&mut self.stream) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(ErrorKind::TimedOut.into());
                }
                done => return done,
            }
        }
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.within(TcpStream::set_read_timeout, |stream| stream.read(bytes))
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.within(TcpStream::set_write_timeout, |stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A TLS connection over a [`Timed`] socket.
pub(super) type TlsStream = StreamOwned<ClientConnection, Timed>;

enum Stream {
    Plain(Timed),
    Tls(Box<TlsStream>),
}

/// The connection as ureq sees it: a stream and its buffers.
pub(super) struct Line {
    stream: Stream,
    buffers: LazyBuffers,
    /// Nothing has been read yet.
    fresh: bool,
}

impl Line {
    /// HTTP straight over the socket.
    pub(super) fn plain(socket: Timed) -> Self {
        Self::over(Stream::Plain(socket))
    }

    /// HTTP over a finished handshake.
    pub(super) fn tls(stream: TlsStream) -> Self {
        Self::over(Stream::Tls(Box::new(stream)))
    }

    fn over(stream: Stream) -> Self {
        Self { stream, buffers: LazyBuffers::new(BUFFER, BUFFER), fresh: true }
    }

    /// An agent that speaks over this connection, once.
    pub(super) fn into_agent(self, config: Config) -> Agent {
        Agent::with_parts(config, HandedOver(Mutex::new(Some(self))), Resolved)
    }

    fn send(&mut self, amount: usize) -> io::Result<()> {
        let bytes = &self.buffers.output()[..amount];
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }

    /// Gives a head that filled the buffer the larger one. Bodies never come here full: they are
    /// consumed as they arrive.
    fn make_room(&mut self) {
        let held = self.buffers.input().len();
        if held != BUFFER {
            return;
        }
        let mut larger = LazyBuffers::new(BUFFER_MAX, BUFFER);
        larger.input_append_buf()[..held].copy_from_slice(self.buffers.input());
        larger.input_appended(held);
        self.buffers = larger;
    }
}

impl Transport for Line {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    /// Sends. That the peer has closed is no error yet: its answer (413, 400) may be waiting, and
    /// if not, the read that follows finds the reset.
    fn transmit_output(&mut self, amount: usize, _: NextTimeout) -> Result<(), Error> {
        match self.send(amount) {
            Err(error) if !fault::is_end(error.kind()) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn await_input(&mut self, _: NextTimeout) -> Result<bool, Error> {
        self.make_room();
        let room = self.buffers.input_append_buf();
        let got = match &mut self.stream {
            Stream::Plain(stream) => stream.read(room)?,
            Stream::Tls(stream) => stream.read(room)?,
        };
        if let Some(what) = foreign(&room[..got]).filter(|_| self.fresh) {
            return Err(Error::Other(Box::new(Fault::NotHttp(what.into()))));
        }
        self.fresh = false;
        self.buffers.input_appended(got);
        Ok(got > 0)
    }

    /// Never fit for a second request.
    fn is_open(&mut self) -> bool {
        false
    }

    fn is_tls(&self) -> bool {
        matches!(self.stream, Stream::Tls(_))
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("tls", &self.is_tls()).finish_non_exhaustive()
    }
}

/// Names two protocols that often sit behind a mistyped port, by the first bytes they send.
fn foreign(first: &[u8]) -> Option<&'static str> {
    match first {
        // A TLS record: handshake or alert, version 3.x (RFC 8446, 5.1).
        [0x15 | 0x16, 0x03, ..] => Some("the answer is TLS, the port may want https://"),
        [b'S', b'S', b'H', b'-', ..] => Some("the answer is an SSH banner"),
        _ => None,
    }
}

/// Connector that hands over a connection made beforehand.
#[derive(Debug)]
struct HandedOver(Mutex<Option<Line>>);

impl Connector for HandedOver {
    type Out = Line;

    fn connect(&self, _: &ConnectionDetails, _: Option<()>) -> Result<Option<Line>, Error> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).take())
    }
}

/// Resolver for a connection that is already made: ureq asks for addresses first, and must get one
/// from somewhere other than its own lookup.
#[derive(Debug)]
struct Resolved;

impl Resolver for Resolved {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let mut addresses = self.empty();
        addresses.push(SocketAddr::from(([0, 0, 0, 0], 0)));
        Ok(addresses)
    }
}
