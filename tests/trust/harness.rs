//! An anchor as a real process in a folder of its own, and raw HTTP to it. All ends with the test.

use crate::member::{Member, enrolment, fresh_nonce, now_s};
use crowny_fed::auth::invite::Invite;
use ed25519_dalek::SigningKey;
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
pub const ORIGIN: &str = "test.example/fed";
/// Generous: only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// What a refusal must leave byte-identical.
const JOURNALS: [&str; 6] = [
    "nodes.ndjson",
    "used-nonces.log",
    "node-keys.ndjson",
    "head.txt",
    "federation-root.txt",
    "federated-routes.txt",
];

/// A folder of one test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("crowny-fed-trust-{}-{number}", std::process::id());
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
    /// It must have ended well; its standard output.
    pub fn good(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }
}

/// Runs to the end with `input` on standard input.
pub fn run(mut command: Command, input: &str) -> Ran {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Whoever does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.contains("panicked"), "{err}");
    Ran { code: output.status.code(), out: String::from_utf8(output.stdout).unwrap(), err }
}

/// The binary, not started yet.
pub fn fed(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(FED);
    command.arg("--dir").arg(dir).args(args).env("RES_OPTIONS", "attempts:0");
    command
}

/// Whether an outside program can be used; where tools are required, it must be.
pub fn has(tool: &str) -> bool {
    let mut asked = Command::new(tool);
    asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let found = asked.status().is_ok_and(|status| status.success());
    if !found {
        assert!(std::env::var_os("CROWNY_FED_REQUIRE_TOOLS").is_none(), "{tool} is not installed");
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// A running `serve`, killed when dropped.
pub struct Serving(Child);

impl Serving {
    /// Starts it and waits until it says where it listens; all it says stands in `log`.
    pub fn start(dir: &Path, port: u16, log: &Path) -> Serving {
        let said = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let before = said.metadata().unwrap().len();
        let mut command = fed(dir, &["serve", "--listen", &format!("127.0.0.1:{port}")]);
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

/// A founded and served anchor `gw1`.
pub struct Anchor {
    pub folder: Folder,
    pub dir: PathBuf,
    pub port: u16,
    serving: Option<Serving>,
}

impl Anchor {
    pub fn start() -> Anchor {
        Anchor::named(ORIGIN)
    }

    pub fn named(origin: &str) -> Anchor {
        let port = free_port();
        Anchor::behind(origin, port, port)
    }

    /// Reached at `url_port`, listening on `port`.
    pub fn behind(origin: &str, url_port: u16, port: u16) -> Anchor {
        let folder = Folder::new();
        let dir = folder.path().join("D");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("crowny-fed.toml"), "interval = \"0\"\n").unwrap();
        let mut anchor = Anchor { folder, dir, port, serving: None };
        let url = format!("http://127.0.0.1:{url_port}");
        anchor.good(&["init", "--origin", origin, "--id", "gw1", "--url", &url]);
        anchor.restart();
        anchor
    }

    /// kill -9, and another process in its place.
    pub fn restart(&mut self) {
        self.stop();
        self.serving = Some(Serving::start(&self.dir, self.port, &self.log()));
    }

    /// All that `serve` ever said.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("serve.log")
    }

    /// kill -9.
    pub fn stop(&mut self) {
        self.serving = None;
    }

    pub fn fed(&self, args: &[&str]) -> Ran {
        run(fed(&self.dir, args), "")
    }

    /// A verb that must exit 0; its standard output.
    pub fn good(&self, args: &[&str]) -> String {
        self.fed(args).good()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// Signed lines, parsed.
    pub fn lines(&self) -> Vec<Value> {
        let journal = self.text("nodes.ndjson");
        journal.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn vkey(&self) -> String {
        let root: Value = serde_json::from_str(&self.good(&["root", "--json"])).unwrap();
        root["vkey"].as_str().unwrap().to_owned()
    }

    pub fn get(&self, path: &str) -> Answer {
        get(self.port, path)
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        post(self.port, path, body)
    }

    /// A POST that is refused with `status`: nothing is written, and the server goes on.
    pub fn refuses(&self, path: &str, body: &str, status: u16) -> Answer {
        self.refuses_request(&request(path, body), status)
    }

    /// The same of raw bytes.
    pub fn refuses_request(&self, request: &[u8], status: u16) -> Answer {
        let before = self.journals();
        let answer = Answer::to(self.port, request);
        let shown = String::from_utf8_lossy(&request[..request.len().min(2_000)]);
        assert_eq!(answer.status, status, "{}\nto {shown}", answer.text());
        assert_eq!(self.journals(), before, "a refusal wrote something: {shown}");
        assert_eq!(self.get("/q/health").status, 200, "after {shown}");
        answer
    }

    /// Files that a refusal must not touch.
    pub fn journals(&self) -> BTreeMap<&'static str, Option<Vec<u8>>> {
        JOURNALS.map(|name| (name, fs::read(self.file(name)).ok())).into()
    }

    /// The join string of `invite`, read.
    pub fn invite(&self, args: &[&str]) -> Invite {
        Invite::parse(&self.good(&[&["invite"], args].concat())).unwrap()
    }

    /// A member with an Ed25519 key, enrolled but not registered.
    pub fn enrol(&self, node: &str) -> Member {
        let invite = self.invite(&[node]);
        let member = Member::ed25519(invite.vkey.name(), node);
        let body = enrolment(&invite, member.seed(), &fresh_nonce(), now_s()).render();
        let answer = self.post("/enroll", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        member
    }

    /// A member that signs with the key both sides derive, enrolled but not registered.
    pub fn enrol_shared(&self, node: &str) -> Member {
        let invite = self.invite(&[node, "--alg", "hmac-sha256"]);
        let nonce = fresh_nonce();
        let body = enrolment(&invite, &unused_key(), &nonce, now_s()).render();
        let answer = self.post("/enroll", &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        Member::shared(&invite, &nonce)
    }
}

/// Enrolments with a shared key bring none of their own.
pub fn unused_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// A GET at any anchor.
pub fn get(port: u16, path: &str) -> Answer {
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    Answer::to(port, head.as_bytes())
}

/// A whole POST of JSON, as bytes. Its Host has no port, so that it serves any anchor.
pub fn request(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

pub fn post(port: u16, path: &str, body: &str) -> Answer {
    Answer::to(port, &request(path, body))
}

pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// One HTTP answer, as bytes arrived.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    /// Sends raw bytes and reads until the other side closes.
    pub fn to(port: u16, request: &[u8]) -> Answer {
        let mut stream = connect(port);
        // A server that refuses early may close before it has read all of a long body.
        let _ = stream.write_all(request);
        Answer::from(&mut stream)
    }

    /// Reads what comes until the other side closes.
    pub fn from(stream: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Answer::read(&bytes)
    }

    /// An interim 100 is passed over.
    fn read(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap_or_else(|| {
            panic!("no whole head: {}", String::from_utf8_lossy(bytes));
        });
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        if head.starts_with("HTTP/1.1 100 ") {
            return Answer::read(&bytes[end + 4..]);
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        { lines }.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The `message` of a problem (RFC 9457), whose members are all there.
    pub fn message(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert!(problem["error"].is_string(), "{problem}");
        problem["message"].as_str().unwrap().to_owned()
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
