//! Listening sockets: bound by us, or opened by systemd or launchd and handed over.
//!
//! Inherited sockets are all taken: a front that serves the first of two leaves whoever comes over
//! the other one (usually IPv6) waiting for ever.
#![allow(clippy::disallowed_methods)] // binding and waiting for a port is what this file is for

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use listenfd::ListenFd;
use rustix::net::sockopt::socket_type;
use rustix::net::{AddressFamily, SocketType, getpeername, getsockname};
use thiserror::Error;

/// Why there is no socket to serve.
#[derive(Debug, Error)]
pub enum ListenError {
    /// Still in use after every try, or not ours to bind.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// The last answer of the kernel.
        source: io::Error,
    },
    /// A descriptor of `LISTEN_FDS` is not a TCP socket; all are refused, so that none is silently
    /// left unserved.
    #[error("inherited descriptor number {index} is not a listening TCP socket: {source}")]
    Inherited {
        /// Counted from 0, which is descriptor 3.
        index: usize,
        /// What is wrong with it.
        source: io::Error,
    },
}

/// How often and how far apart to try an address that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries after the first.
    pub times: u32,
    /// Rest before each of them.
    pub pause: Duration,
}

impl Retry {
    /// 20 times 0.3 s: as long as a predecessor needs to drain and go.
    pub const DEFAULT: Retry = Retry { times: 20, pause: Duration::from_millis(300) };
    /// One try.
    pub const NONE: Retry = Retry { times: 0, pause: Duration::ZERO };
}

/// Binds one address, trying again while it is in use. Blocks for at most `times * pause`.
pub fn bind(address: SocketAddr, retry: Retry) -> Result<TcpListener, ListenError> {
    let mut left = retry.times;
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && left > 0 => {
                left -= 1;
                sleep(retry.pause);
            }
            Err(source) => return Err(ListenError::Bind { address, source }),
        }
    }
}

/// Every socket handed over: `LISTEN_FDS` when it is addressed to this process (sd_listen_fds(3)),
/// else a listening stdin (launchd `inetdCompatibility` with `Wait`). Empty when there is none.
/// The variables are cleared, so a second call finds nothing in them; call it before any thread
/// exists.
pub fn inherited() -> Result<Vec<TcpListener>, ListenError> {
    let passed = from_environment()?;
    if passed.is_empty() { Ok(from_stdin().into_iter().collect()) } else { Ok(passed) }
}

fn from_environment() -> Result<Vec<TcpListener>, ListenError> {
    let mut passed = ListenFd::from_env();
    let mut listeners = Vec::new();
    for index in 0..passed.len() {
        let taken = passed.take_tcp_listener(index);
        listeners.extend(taken.map_err(|source| ListenError::Inherited { index, source })?);
    }
    Ok(listeners)
}

fn from_stdin() -> Option<TcpListener> {
    let stdin = io::stdin();
    if !is_listening(stdin.as_fd()) {
        return None;
    }
    stdin.as_fd().try_clone_to_owned().ok().map(TcpListener::from)
}

/// A TCP socket that has an address but no peer. Darwin declares SO_ACCEPTCONN without
/// implementing it, and there is where launchd is; the missing peer tells the same everywhere.
fn is_listening(socket: impl AsFd) -> bool {
    let inet = [AddressFamily::INET, AddressFamily::INET6];
    let stream = socket_type(&socket).is_ok_and(|kind| kind == SocketType::STREAM);
    let family = getsockname(&socket).map(|address| address.address_family());
    let peerless = getpeername(&socket).is_err_and(|error| error == rustix::io::Errno::NOTCONN);
    stream && peerless && family.is_ok_and(|family| inet.contains(&family))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpStream};

    fn loopback() -> SocketAddr {
        (Ipv4Addr::LOCALHOST, 0).into()
    }

    #[test]
    fn only_a_listening_tcp_socket_counts() {
        let listener = bind(loopback(), Retry::NONE).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (unix, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let udp = std::net::UdpSocket::bind(loopback()).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(is_listening(&listener));
        assert!(!is_listening(&client) && !is_listening(&unix));
        assert!(!is_listening(&udp) && !is_listening(&file));
    }

    #[test]
    fn an_address_in_use_is_tried_until_it_is_free() {
        let holder = bind(loopback(), Retry::NONE).unwrap();
        let address = holder.local_addr().unwrap();
        let refused = bind(address, Retry::NONE).unwrap_err();
        assert!(refused.to_string().contains(&address.to_string()));
        let retry = Retry { times: 1000, pause: Duration::from_millis(10) };
        let waiting = std::thread::spawn(move || bind(address, retry));
        drop(holder);
        assert!(waiting.join().unwrap().is_ok());
    }
}
