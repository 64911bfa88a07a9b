//! Peers for these tests: ports that refuse, and a stand-in that answers when it is let.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// A loopback port that refuses every connection, and that nobody else gets meanwhile: bound, but
/// not listening.
#[derive(Debug)]
pub struct Refusing {
    port: u16,
    _held: OwnedFd,
}

impl Refusing {
    /// Takes a free port.
    pub fn new() -> Refusing {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
        let held = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = SocketAddrV4::try_from(getsockname(&held).unwrap()).unwrap().port();
        Refusing { port, _held: held }
    }

    /// Its row in a roster.
    pub fn row(&self, id: &str, state: &str) -> String {
        row(id, self.port, state)
    }
}

/// One roster row of the service `web`.
pub fn row(id: &str, port: u16, state: &str) -> String {
    format!("{id}|127.0.0.1|{port}|web|{state}\n")
}

#[derive(Debug, Default)]
struct Gate {
    open: Mutex<bool>,
    moved: Condvar,
}

/// A thread that answers 200 to every request, as soon as its gate is open.
#[derive(Debug)]
pub struct StandIn {
    pub port: u16,
    gate: Arc<Gate>,
    ended: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    /// Answers at once.
    pub fn answering() -> StandIn {
        let peer = StandIn::holding();
        peer.release();
        peer
    }

    /// Accepts, and answers nobody before [`StandIn::release`].
    pub fn holding() -> StandIn {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (gate, ended, asked) = <(Arc<Gate>, Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let (own_gate, own_ended, own_asked) = (gate.clone(), ended.clone(), asked.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own_ended.load(Ordering::Acquire) {
                    return;
                }
                own_asked.fetch_add(1, Ordering::AcqRel);
                let gate = own_gate.clone();
                // Ends with its gate at the latest.
                std::thread::spawn(move || {
                    let open = gate.open.lock().unwrap();
                    drop(gate.moved.wait_while(open, |open| !*open).unwrap());
                    answer(stream);
                });
            }
        });
        StandIn { port, gate, ended, asked, thread: Some(thread) }
    }

    /// Connections taken so far.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Opens the gate.
    pub fn release(&self) {
        *self.gate.open.lock().unwrap() = true;
        self.gate.moved.notify_all();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        self.release();
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whoever asked may be dead by now: what it does not read does not matter.
fn answer(mut stream: TcpStream) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}
