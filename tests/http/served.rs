//! A small server on a free port, and a client that sees raw bytes.
#![allow(dead_code)] // each test file uses its own part

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crowny_fed::http::{Allowed, Method, Options, Request, Response, Stop, serve};

/// Far beyond every limit under test; reaching it fails the test instead of hanging it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The headers every POST needs.
pub const JSON: &str = "Host: localhost\r\nContent-Type: application/json\r\n";

/// What handlers saw: `METHOD path body-length`, in order.
pub type Seen = Arc<Mutex<Vec<String>>>;

pub struct Served {
    pub address: SocketAddr,
    pub seen: Seen,
    /// Locked by a test to make the handler of `/hold` wait.
    pub hold: Arc<Mutex<()>>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Serves until dropped, with the options changed by `change`.
    pub fn start(change: impl FnOnce(&mut Options<'_>) + Send + 'static) -> Served {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, stop) = (Seen::default(), Stop::default());
        let hold = Arc::new(Mutex::new(()));
        let (noted, stopper, held) = (seen.clone(), stop.clone(), hold.clone());
        let thread = std::thread::spawn(move || {
            let allowed = Allowed::new(&[address], ["gw.example.org"]);
            let mut options = Options { allowed, ..Options::default() };
            options.stop = Some(stopper);
            change(&mut options);
            let handler = |request: &Request| {
                let response = answer(request, &noted);
                let held = (request.path == "/hold").then(|| held.lock().unwrap());
                drop(held);
                response
            };
            serve(vec![listener], &options, &handler).unwrap();
        });
        Served { address, seen, hold, stop, thread: Some(thread) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends bytes on a fresh connection and reads one reply.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> Reply {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        Reply::read(&mut stream, false).expect("an answer")
    }

    /// Sends bytes and returns everything until the server closes.
    pub fn send_all(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        // A refused upload is cut off under our feet; what counts is the answer.
        let _ = stream.write_all(bytes.as_ref());
        drain(&mut stream)
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until `serve` has returned by itself.
    pub fn ended(mut self) {
        let thread = self.thread.take().unwrap();
        wait_until("the server ends", || thread.is_finished());
        thread.join().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server thread panicked");
        }
    }
}

/// What the test server serves.
pub fn answer(request: &Request, seen: &Seen) -> Response {
    let name = request.method.as_str();
    let line = format!("{name} {} {}", request.path, request.body.len());
    seen.lock().unwrap().push(line.clone());
    match request.path.as_str() {
        "/q/peers" => Response::json(&serde_json::json!({ "peers": ["서울-1"] })),
        "/panic" => panic!("asked to"),
        "/bad-header" => {
            let headers = vec![("x-name", "서울\r\nX: y".to_owned())];
            Response { headers, ..Response::text("") }
        }
        "/continue" => Response::text("").status(100),
        "/none" => Response::text("dropped").status(204),
        "/big" => Response::bytes(vec![b'x'; 64 << 20]),
        _ if request.method == Method::Post => Response::text(request.body.len().to_string()),
        _ => Response::text("ok"),
    }
}

/// One answer as it came over the wire.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    /// Reads one answer; `bodiless` for HEAD. `None` when the connection ends before one.
    pub fn read(stream: &mut impl Read, bodiless: bool) -> Option<Reply> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return None,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut reply = Reply { status, head, body: Vec::new() };
        let length = if bodiless { None } else { reply.header("content-length") };
        reply.body = vec![0; length.map_or(0, |text| text.parse().unwrap())];
        stream.read_exact(&mut reply.body).ok()?;
        Some(reply)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Everything until the other side closes; a reset ends it as well, our own patience does not.
pub fn drain(stream: &mut impl Read) -> String {
    let mut all = Vec::new();
    let ended = stream.read_to_end(&mut all);
    let kind = ended.as_ref().map_err(std::io::Error::kind);
    assert_ne!(kind, Err(std::io::ErrorKind::WouldBlock), "never closed after {all:?}");
    String::from_utf8_lossy(&all).into_owned()
}

/// Polls a condition until it holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "gave up waiting until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
