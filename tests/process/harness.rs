//! A folder to work in, the binary to run in it, a `serve` to talk to. All of it ends with the test.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

pub const ROSTER: &str = "피어목록.psv";
pub const STATUS: &str = "피어상태.psv";
pub const FED: &str = env!("CARGO_BIN_EXE_crowny-fed");
/// Generous: only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A folder of one test, removed at its end.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("crowny-fed-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.join(name)).unwrap()).unwrap()
    }

    /// The roster of `dir`, one line a row.
    pub fn roster(&self, dir: &str, rows: &[String]) {
        self.write(&format!("{dir}/{ROSTER}"), rows.join("\n") + "\n");
    }

    /// The rows of the status file of `dir`, split into their columns.
    pub fn status(&self, dir: &str) -> BTreeMap<String, Vec<String>> {
        columns(&self.text(&format!("{dir}/{STATUS}")))
    }

    /// Every file below, with its bytes and time of change.
    pub fn contents(&self, dir: &str) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
        let mut found = BTreeMap::new();
        collect(&self.join(dir), &mut found);
        found
    }

    /// A verb with `--dir dir`, run to its end.
    pub fn fed(&self, dir: &str, args: &[&str]) -> Ran {
        Ran::of(self.command(dir, args))
    }

    /// The same, which must exit 0; its standard output.
    pub fn good(&self, dir: &str, args: &[&str]) -> String {
        let ran = self.fed(dir, args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// A verb with `--dir dir`, not started yet.
    pub fn command(&self, dir: &str, args: &[&str]) -> Command {
        let mut command = fed_in(&self.0);
        command.args(["--dir", dir]).args(args);
        command
    }

    /// A federation in `dir` whose ticks all count, with a suspicion of two of them.
    pub fn found(&self, dir: &str, settings: &str) {
        let config = format!("interval = \"0\"\nsuspicion_ticks = 2\n{settings}");
        self.write(&format!("{dir}/crowny-fed.toml"), config);
        self.good(dir, &["init", "--origin", "test.example/fed", "--id", "gw1"]);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The binary in a working folder. Names are looked up in files only: a test sends nothing beyond
/// loopback (glibc's `attempts:0`; elsewhere a name under `.invalid` fails at the resolver).
pub fn fed_in(folder: &Path) -> Command {
    let mut command = Command::new(FED);
    command.current_dir(folder).env("RES_OPTIONS", "attempts:0").stdin(Stdio::null());
    command
}

fn collect(path: &Path, found: &mut BTreeMap<PathBuf, (Vec<u8>, SystemTime)>) {
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
        }
    }
}

/// psv rows by their first column.
pub fn columns(psv: &str) -> BTreeMap<String, Vec<String>> {
    psv.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('|').map(str::to_owned).collect::<Vec<_>>())
        .map(|fields| (fields[0].clone(), fields))
        .collect()
}

/// An active roster row on loopback.
pub fn row(id: &str, port: u16) -> String {
    format!("{id}|127.0.0.1|{port}|edge|active")
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(mut command: Command) -> Ran {
        let output = command.output().unwrap();
        let ran = Ran {
            code: output.status.code(),
            status: output.status,
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    /// It refused: this exit code, nothing on standard output, and a reason that holds `words`.
    pub fn refuses(&self, code: i32, words: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "");
        let first = self.err.lines().next().unwrap_or_default();
        assert!(first.starts_with("crowny-fed: error: ") && first.contains(words), "{}", self.err);
        let rest: Vec<&str> = self.err.lines().skip(1).collect();
        assert!(
            rest.iter().all(|line| line.starts_with("  hint: ")) && rest.len() <= 1,
            "{rest:?}"
        );
    }
}

/// A running `serve`, killed when dropped.
pub struct Serving {
    pub port: u16,
    child: Child,
}

impl Serving {
    /// Starts it on `port` (0: a free one) and waits until it says where it listens.
    pub fn start(folder: &Folder, dir: &str, port: u16, args: &[&str]) -> Serving {
        let listen = format!("127.0.0.1:{port}");
        let mut child = folder
            .command(dir, &["serve", "--listen", &listen])
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let serving = said.trim().rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        match serving {
            Some(port) => Serving { port, child },
            None => panic!("serve said: {said}"),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    /// One request; `headers` is empty or whole lines.
    pub fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let host = format!("Host: 127.0.0.1:{}\r\nConnection: close\r\n", self.port);
        let request = format!("{method} {path} HTTP/1.1\r\n{host}{headers}\r\n");
        Answer::to(self.port, request.as_bytes())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
        let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let end = bytes.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
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
