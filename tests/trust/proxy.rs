//! A TCP proxy that keeps every byte of both directions: what an eavesdropper would have.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};

type Taken = Arc<Mutex<Vec<u8>>>;
/// Requests whose answer is lost begin like this; empty for none.
type Lost = Arc<Mutex<String>>;

pub struct Proxy {
    pub port: u16,
    taken: Taken,
    lost: Lost,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port and passes everything on to `target`.
    pub fn to(target: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (taken, lost) = (Taken::default(), Lost::default());
        let over = Arc::new(AtomicBool::new(false));
        let (into, losing, ended) = (Arc::clone(&taken), Arc::clone(&lost), Arc::clone(&over));
        let thread = spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                // With nobody behind it, the connection just closes.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", target)) {
                    pass((stream.unwrap(), server), (&into, &losing));
                }
            }
        });
        Proxy { port, taken, lost, over, thread: Some(thread) }
    }

    /// The answer to the next request that begins like this never arrives.
    pub fn swallow(&self, beginning: &str) {
        beginning.clone_into(&mut self.lost.lock().unwrap());
    }

    /// All that went by so far.
    pub fn taken(&self) -> Vec<u8> {
        self.taken.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// One connection to its end.
fn pass((client, server): (TcpStream, TcpStream), (taken, lost): (&Taken, &Lost)) {
    let (from, to, into) =
        (client.try_clone().unwrap(), server.try_clone().unwrap(), Arc::clone(taken));
    let before = taken.lock().unwrap().len();
    let asking = spawn(move || copy(from, Some(to), &into));
    // The answer begins when the whole request is through.
    let _ = server.peek(&mut [0]);
    let mut lost = lost.lock().unwrap();
    let loses = !lost.is_empty() && taken.lock().unwrap()[before..].starts_with(lost.as_bytes());
    if loses {
        lost.clear();
    }
    drop(lost);
    copy(server, (!loses).then(|| client.try_clone().unwrap()), taken);
    let _ = client.shutdown(Shutdown::Both);
    let _ = asking.join();
}

/// Moves bytes until one side ends; without a target they are only kept.
fn copy(mut from: TcpStream, mut to: Option<TcpStream>, taken: &Taken) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        taken.lock().unwrap().extend_from_slice(&bytes[..count]);
        if to.as_mut().is_some_and(|to| to.write_all(&bytes[..count]).is_err()) {
            break;
        }
    }
    if let Some(to) = to {
        let _ = to.shutdown(Shutdown::Write);
    }
}
