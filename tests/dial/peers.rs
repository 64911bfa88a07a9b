//! Loopback peers with a script each, and calls to them.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crowny_fed::host::dial::{Dialer, Lookup, Options};
use crowny_fed::protocol::address::Address;
use crowny_fed::wire::call::{Answer, BODY_MAX, Call, Method, Read, Targets};

pub(crate) const LIMIT: Duration = Duration::from_secs(3);

/// A peer that runs `script` for each connection, in threads that end with the test process.
pub(crate) fn peer(script: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    peer_at("127.0.0.1:0", script).unwrap()
}

pub(crate) fn peer_at(
    address: &str,
    script: impl Fn(TcpStream) + Send + Sync + 'static,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let script = Arc::new(script);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            thread::spawn(move || script(stream));
        }
    });
    Ok(address)
}

/// A peer that reads the request head and then sends `bytes` and closes.
pub(crate) fn answering(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    peer(move |mut stream| {
        head(&mut stream);
        let _ = stream.write_all(&bytes);
    })
}

/// Reads up to the end of a request head.
pub(crate) fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|got| got == 1) {
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).unwrap()
}

pub(crate) fn call_host(host: &str, port: u16) -> Call {
    let address = Address::parse(host, port).unwrap();
    Call {
        method: Method::Get,
        host_header: address.authority(),
        address,
        path: "/".into(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: LIMIT,
        read: Read::Head,
        targets: Targets::Any,
    }
}

pub(crate) fn call(peer: SocketAddr) -> Call {
    call_host(&peer.ip().to_string(), peer.port())
}

pub(crate) fn reading(peer: SocketAddr) -> Call {
    Call { read: Read::Body { max: BODY_MAX }, ..call(peer) }
}

pub(crate) fn dial(calls: &[Call]) -> Vec<Answer> {
    Dialer::new(Options::default()).dial(calls, Instant::now() + Duration::from_secs(30))
}

pub(crate) fn one(call: Call) -> Answer {
    dial(&[call]).remove(0)
}

/// A lookup that knows some names and counts how often it was asked.
pub(crate) fn names(
    known: &'static [(&'static str, [u8; 4])],
) -> (Lookup, Arc<Mutex<BTreeMap<String, u32>>>) {
    let asked = Arc::new(Mutex::new(BTreeMap::new()));
    let log = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |name| {
        *log.lock().unwrap().entry(name.to_owned()).or_default() += 1;
        let found = known.iter().filter(|(it, _)| *it == name);
        Ok(found.map(|(_, ip)| SocketAddr::from((*ip, 0))).collect())
    });
    (lookup, asked)
}
