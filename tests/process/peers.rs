//! Stand-in peers: a script each, in threads that end with the test process.

use crate::harness::PATIENCE;
use rustix::fd::OwnedFd;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A peer that listens on loopback and keeps every request head it read.
pub struct Peer {
    pub port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    /// Runs `script` with the number of the connection, the stream and the head, for each request.
    pub fn new(script: impl Fn(usize, TcpStream, &str) + Send + Sync + 'static) -> Peer {
        Peer::at("127.0.0.1:0", script).unwrap()
    }

    pub fn at(
        address: &str,
        script: impl Fn(usize, TcpStream, &str) + Send + Sync + 'static,
    ) -> std::io::Result<Peer> {
        let listener = TcpListener::bind(address)?;
        let port = listener.local_addr()?.port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&heads);
        let script = Arc::new(script);
        thread::spawn(move || {
            for (number, mut stream) in listener.incoming().flatten().enumerate() {
                let (kept, script) = (Arc::clone(&kept), Arc::clone(&script));
                thread::spawn(move || {
                    let head = head(&mut stream);
                    kept.lock().unwrap().push(head.clone());
                    script(number, stream, &head);
                });
            }
        });
        Ok(Peer { port, heads })
    }

    /// Sends these bytes after the request head, and closes.
    pub fn sends(bytes: impl Into<Vec<u8>>) -> Peer {
        let bytes = bytes.into();
        Peer::new(move |_, mut stream, _| {
            let _ = stream.write_all(&bytes);
        })
    }

    /// Answers with this status at once.
    pub fn status(status: u16) -> Peer {
        Peer::sends(empty(status))
    }

    /// Answers 200 after `pause`.
    pub fn slow(pause: Duration) -> Peer {
        Peer::new(move |_, mut stream, _| {
            thread::sleep(pause);
            let _ = stream.write_all(empty(200).as_bytes());
        })
    }

    /// Answers 200 to `/`, and `health` to `/q/health`.
    pub fn with_health(health: impl Into<Vec<u8>>) -> Peer {
        let health = health.into();
        Peer::new(move |_, mut stream, head| {
            let wanted = head.starts_with("GET /q/health ");
            let _ = stream.write_all(if wanted { &health } else { OK.as_bytes() });
        })
    }

    /// Takes the request and never answers.
    pub fn silent() -> Peer {
        Peer::new(|_, mut stream, _| hold(&mut stream))
    }

    /// Accepts, then resets: closing with bytes unread sends RST.
    pub fn resetting() -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = stream.peek(&mut [0]);
            }
        });
        Peer { port, heads: Arc::default() }
    }

    /// The heads read so far.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// An answer without a body.
pub fn empty(status: u16) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
}

/// An answer with a body.
pub fn answer(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Until the other side gives up.
pub fn hold(stream: &mut TcpStream) {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    while matches!(stream.read(&mut [0; 64]), Ok(got) if got > 0) {}
    let _ = stream.shutdown(Shutdown::Both);
}

fn head(stream: &mut TcpStream) -> String {
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|got| got == 1) {
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

/// A port that is taken, so that nobody else gets it, but that nobody listens on: connections to
/// it are refused.
pub struct Vacant {
    pub port: u16,
    _bound: OwnedFd,
}

impl Vacant {
    pub fn new() -> Vacant {
        let bound = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let any: SocketAddrV4 = "127.0.0.1:0".parse().unwrap();
        bind(&bound, &any).unwrap();
        let address = SocketAddr::try_from(getsockname(&bound).unwrap()).unwrap();
        Vacant { port: address.port(), _bound: bound }
    }
}
