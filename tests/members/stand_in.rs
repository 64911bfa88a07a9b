//! A server in front of an agent or a service: it keeps every question, and answers with the truth
//! or with whatever a test tells it to.

use crate::harness::{Answer, PATIENCE, url};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};

/// One question.
#[derive(Clone, Debug)]
pub struct Asked {
    /// With its query.
    pub path: String,
    raw: Vec<u8>,
    /// Who knows the truth.
    pub behind: u16,
}

impl Asked {
    pub fn is(&self, path: &str) -> bool {
        self.path.split('?').next() == Some(path)
    }

    /// What the server behind says; `None` where it is dead.
    pub fn truth(&self) -> Option<Answer> {
        self.answer_of(self.behind)
    }

    /// What was posted.
    pub fn body(&self) -> String {
        let text = String::from_utf8_lossy(&self.raw);
        text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    /// The challenge of `GET /q/health?c=`.
    pub fn challenge(&self) -> String {
        self.path.split_once("c=").map(|(_, c)| c.to_owned()).unwrap_or_default()
    }

    /// What another server says.
    pub fn answer_of(&self, port: u16) -> Option<Answer> {
        let text = String::from_utf8_lossy(&self.raw);
        let once = text.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
        Answer::to(port, once.as_bytes())
    }
}

/// What comes back.
pub enum Says {
    /// What the server behind says; where it is dead, the connection ends.
    Truth,
    /// What the server at this port says.
    Another(u16),
    /// Exactly these bytes, then the end of the connection.
    Bytes(Vec<u8>),
    /// Not a byte, while the test runs.
    Nothing,
}

/// A whole answer.
pub fn saying(status: &str, body: &[u8]) -> Says {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n");
    Says::Bytes([head.as_bytes(), b"\r\n", body].concat())
}

type Lie = Arc<dyn Fn(&Asked) -> Says + Send + Sync>;

/// What the threads share.
struct Desk {
    behind: u16,
    lie: Mutex<Lie>,
    asked: Mutex<Vec<Asked>>,
    over: AtomicBool,
}

pub struct StandIn {
    pub port: u16,
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl StandIn {
    /// Stands honestly before the server at port `behind`.
    pub fn before(behind: u16) -> StandIn {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let lie: Mutex<Lie> = Mutex::new(Arc::new(|_: &Asked| Says::Truth));
        let desk = Arc::new(Desk { behind, lie, asked: Mutex::default(), over: false.into() });
        let shared = Arc::clone(&desk);
        let thread = spawn(move || {
            let mut visits = Vec::new();
            for stream in listener.incoming() {
                if shared.over.load(Ordering::SeqCst) {
                    break;
                }
                let (stream, desk) = (stream.unwrap(), Arc::clone(&shared));
                visits.push(spawn(move || visit(stream, &desk)));
            }
            visits.into_iter().for_each(|visit| drop(visit.join()));
        });
        StandIn { port, desk, thread: Some(thread) }
    }

    /// Answers like this from now on, and forgets what was asked.
    pub fn answer(&self, lie: impl Fn(&Asked) -> Says + Send + Sync + 'static) {
        *self.desk.lie.lock().unwrap() = Arc::new(lie);
        self.desk.asked.lock().unwrap().clear();
    }

    /// Tells the truth from now on, and forgets what was asked.
    pub fn honest(&self) {
        self.answer(|_| Says::Truth);
    }

    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Questions so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.desk.asked.lock().unwrap().clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.desk.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn visit(mut stream: TcpStream, desk: &Desk) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let Some((path, raw)) = request(&mut stream) else { return };
    let asked = Asked { path, raw, behind: desk.behind };
    desk.asked.lock().unwrap().push(asked.clone());
    let lie = Arc::clone(&desk.lie.lock().unwrap());
    let over = &desk.over;
    let mut pass = |answer: Option<Answer>| {
        answer.iter().for_each(|answer| drop(stream.write_all(&answer.bytes())));
    };
    match lie(&asked) {
        Says::Truth => pass(asked.truth()),
        Says::Another(port) => pass(asked.answer_of(port)),
        Says::Bytes(bytes) => drop(stream.write_all(&bytes)),
        Says::Nothing => {
            stream.set_nonblocking(true).unwrap();
            let gone = |stream: &TcpStream| matches!(stream.peek(&mut [0]), Ok(0));
            while !over.load(Ordering::SeqCst) && !gone(&stream) {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

/// One request as it came, its body included.
fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut raw = Vec::new();
    let mut byte = [0];
    while !raw.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        raw.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&raw).into_owned();
    let length = head.lines().filter_map(|line| line.split_once(": ")).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    raw.extend_from_slice(&body);
    Some((head.split(' ').nth(1)?.to_owned(), raw))
}
