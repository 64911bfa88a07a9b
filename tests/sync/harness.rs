//! The binary, run and served, in a folder that ends with the test, and raw HTTP to it.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const FED: &str = env!("CARGO_BIN_EXE_crowny-fed");
/// Generous: only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of one test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("crowny-fed-sync-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Runs to the end with `input` on standard input.
    pub fn of(mut command: Command, input: &str) -> Ran {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Whoever does not read its input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::ended(child)
    }

    /// Waits for the end of a child whose outputs are piped.
    pub fn ended(child: Child) -> Ran {
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!err.contains("panicked"), "{err}");
        Ran { code: output.status.code(), out: String::from_utf8(output.stdout).unwrap(), err }
    }

    /// It must have ended like this.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Standard error must hold each of `words`.
    #[track_caller]
    pub fn saying(self, words: &[&str]) -> Ran {
        for word in words {
            assert!(self.err.contains(word), "'{word}' is not in {self:#?}");
        }
        self
    }

    /// A word that the anchor does not take now: told why, and kept.
    #[track_caller]
    pub fn kept(self, words: &[&str]) -> Ran {
        let ran = self.expect(0);
        for word in words.iter().chain(&["branch.ndjson"]) {
            assert!(ran.out.contains(word), "'{word}' is not in {ran:#?}");
        }
        ran
    }

    /// It ended well, and had nothing to say on standard error.
    #[track_caller]
    pub fn quiet(self) -> Ran {
        let ran = self.expect(0);
        assert_eq!(ran.err, "", "{ran:?}");
        ran
    }

    /// The one line of standard error, which must hold each of `words`.
    #[track_caller]
    pub fn warning_once(self, words: &[&str]) -> Ran {
        assert_eq!(self.err.lines().count(), 1, "{self:#?}");
        self.saying(words)
    }
}

/// The binary on a member's folder, not started yet. Names are looked up in files only.
pub fn fed(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(FED);
    command.arg("--dir").arg(dir).args(args).env("RES_OPTIONS", "attempts:0");
    command
}

/// Whether the long forms are asked for.
pub fn full() -> bool {
    std::env::var_os("CROWNY_FED_FULL").is_some()
}

/// A port that was free a moment ago, below those that connections get by themselves: whoever serves
/// on it later must still find it free.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 10_000 + std::process::id().wrapping_mul(977).wrapping_add(nth) % 22_000;
        if TcpListener::bind(("127.0.0.1", port as u16)).is_ok() {
            return port as u16;
        }
    }
}

/// Where a server of this machine answers.
pub fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// A running `serve`, killed when dropped.
pub struct Serving(Child);

impl Serving {
    /// Starts it and waits until it says where it listens; all it says stands in `log`.
    pub fn start(dir: &Path, port: u16, log: &Path) -> Serving {
        Serving::of(fed(dir, &["serve", "--listen", &format!("127.0.0.1:{port}")]), port, log)
    }

    /// The same of a command that serves.
    pub fn of(mut command: Command, port: u16, log: &Path) -> Serving {
        let said = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let before = said.metadata().unwrap().len();
        command.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
        let mut serving = Serving(command.spawn().unwrap());
        wait_for("serve to listen", || {
            let said = fs::read_to_string(log).unwrap();
            assert_eq!(serving.0.try_wait().unwrap(), None, "serve said: {said}");
            said[before as usize..].contains(&format!(":{port}\n")).then_some(())
        });
        serving
    }
}

impl Drop for Serving {
    /// SIGKILL: nothing is tidied up, as after a crash.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One HTTP answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// Sends raw bytes and reads until the other side closes; `None` where nobody listens.
    pub fn to(port: u16, request: &[u8]) -> Option<Answer> {
        let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request).unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, head, body: bytes[end + 4..].to_vec() })
    }

    /// The whole as it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        [self.head.as_bytes(), b"\r\n\r\n", &self.body].concat()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
}

pub fn get(port: u16, path: &str) -> Answer {
    let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    Answer::to(port, head.as_bytes()).unwrap()
}

pub fn post(port: u16, path: &str, body: &str) -> Answer {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Answer::to(port, request.as_bytes()).unwrap()
}

/// Contents of every file below a folder, by relative path.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Every file below `folder` whose relative path begins with one of `names`.
pub fn image(folder: &Path, names: &[&str]) -> Image {
    let mut image = Image::new();
    gather(folder, folder, &mut image);
    image.retain(|path, _| names.iter().any(|name| path.starts_with(name)));
    image
}

fn gather(folder: &Path, root: &Path, image: &mut Image) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, root, image);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            // A file may be renamed away while it is looked at.
            fs::read(&path).into_iter().for_each(|bytes| drop(image.insert(name.clone(), bytes)));
        }
    }
}

/// Polls until `look` finds something.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
