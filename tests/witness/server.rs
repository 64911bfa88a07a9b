//! A witness on a free port of loopback: HTTP by hand over the rules, and ways to misbehave.

use crate::rules::{Asked, Rules, Said};
use crowny_fed::auth::vkey::VerifierKey;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where it is asked and read, so that a prefix with a path is always part of the test.
const PREFIX: &str = "/w";

/// How it treats those who ask.
pub enum Mood {
    /// By the rules.
    Honest,
    /// By the rules, with a clock that is so many seconds slow.
    Slow(u64),
    /// One answer to everything.
    Stubborn(Said),
    /// Makes an answer out of what was asked.
    Lying(Box<dyn FnMut(&Asked) -> Said + Send>),
    /// Takes the request and never answers.
    Silent,
    /// The next request waits until [`Witness::open`], then all is by the rules.
    Gated,
}

struct State {
    rules: Rules,
    mood: Mood,
    /// Every request, with the status it got.
    asked: Vec<(u64, u64, u16)>,
    /// What is shown for reading instead of what was cosigned last.
    shows: Option<Vec<u8>>,
    /// A request stands before the gate.
    waits: bool,
    gate_open: bool,
    kept: Vec<TcpStream>,
    over: bool,
}

/// A running witness.
pub struct Witness {
    pub port: u16,
    shared: Arc<(Mutex<State>, Condvar)>,
    serving: Option<JoinHandle<()>>,
}

impl Witness {
    pub fn start(name: &str, seed: u8, log: VerifierKey) -> Witness {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = State {
            rules: Rules::new(name, seed, log),
            mood: Mood::Honest,
            asked: Vec::new(),
            shows: None,
            waits: false,
            gate_open: false,
            kept: Vec::new(),
            over: false,
        };
        let shared = Arc::new((Mutex::new(state), Condvar::new()));
        let served = Arc::clone(&shared);
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if served.0.lock().unwrap().over {
                    return;
                }
                let (stream, served) = (stream.unwrap(), Arc::clone(&served));
                std::thread::spawn(move || serve(stream, &served));
            }
        });
        Witness { port, shared, serving: Some(serving) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap()
    }

    /// `[[witness]]` with further settings.
    pub fn config(&self, more: &str) -> String {
        let (url, vkey) = (self.url(), self.state().rules.vkey());
        format!("[[witness]]\nurl = \"{url}\"\nvkey = \"{vkey}\"\n{more}\n")
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PREFIX}", self.port)
    }

    pub fn becomes(&self, mood: Mood) {
        self.state().mood = mood;
    }

    /// What it shows to whoever reads it, whatever it cosigned.
    pub fn shows(&self, note: impl Into<Vec<u8>>) {
        self.state().shows = Some(note.into());
    }

    /// Looks into its state, and may change it.
    pub fn rules<T>(&self, look: impl FnOnce(&mut Rules) -> T) -> T {
        look(&mut self.state().rules)
    }

    /// Old size, size and status of every request since the last call.
    pub fn asked(&self) -> Vec<(u64, u64, u16)> {
        std::mem::take(&mut self.state().asked)
    }

    /// Whether a request stands before the gate.
    pub fn waits(&self) -> bool {
        self.state().waits
    }

    pub fn open(&self) {
        self.state().gate_open = true;
        self.shared.1.notify_all();
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.state().over = true;
        self.open();
        // The loop looks up once more and sees that it is over.
        let _ = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], self.port)));
        let _ = self.serving.take().map(JoinHandle::join);
    }
}

fn serve(mut stream: TcpStream, shared: &(Mutex<State>, Condvar)) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let Some((head, body)) = request(&stream) else { return };
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let said = if method == "GET" {
        shown(&shared.0.lock().unwrap(), path)
    } else {
        assert_eq!((method, path), ("POST", format!("{PREFIX}/add-checkpoint").as_str()));
        match answer(shared, &body) {
            Some(said) => said,
            None => return shared.0.lock().unwrap().kept.push(stream),
        }
    };
    let head = format!(
        "HTTP/1.1 {} x\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        said.status,
        said.content_type,
        said.body.len()
    );
    // Whoever asked may have gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&said.body));
}

fn request(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap();
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, String::from_utf8(body).unwrap()))
}

/// What it cosigned last, at the one path of its log.
fn shown(state: &State, path: &str) -> Said {
    let hash = sha256_hex(state.rules.log.name());
    let note = state.rules.latest.as_ref().map(|(_, note)| note.clone().into_bytes());
    match state.shows.clone().or(note) {
        Some(note) if path == format!("{PREFIX}/{hash}/checkpoint") => Said::new(200, note),
        _ => Said::new(404, "not found\n"),
    }
}

fn sha256_hex(text: &str) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `None`: no answer ever.
fn answer((state, changed): &(Mutex<State>, Condvar), body: &str) -> Option<Said> {
    let asked = Asked::parse(body).unwrap();
    let size = asked.note.lines().nth(1).unwrap().parse().unwrap();
    let mut state = state.lock().unwrap();
    if matches!(state.mood, Mood::Gated) {
        state.mood = Mood::Honest;
        state.waits = true;
        state = changed.wait_while(state, |state| !state.gate_open).unwrap();
    }
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let State { rules, mood, .. } = &mut *state;
    let said = match mood {
        Mood::Honest | Mood::Gated => Some(rules.add_checkpoint(body, now_s)),
        Mood::Slow(late_s) => Some(rules.add_checkpoint(body, now_s - *late_s)),
        Mood::Stubborn(said) => Some(said.clone()),
        Mood::Lying(lie) => Some(lie(&asked)),
        Mood::Silent => None,
    };
    state.asked.push((asked.old, size, said.as_ref().map_or(0, |said| said.status)));
    said
}
