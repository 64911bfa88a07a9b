//! One federation in a temporary folder, the binary that works on it, and what its files promise.

use super::peers::StandIn;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Far beyond every limit under test; reaching it fails the test instead of hanging it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The origin of every federation here.
pub const ORIGIN: &str = "fed.test/crash";
/// The roster's file name.
pub const ROSTER: &str = "피어목록.psv";
/// The status file's name.
pub const STATUS: &str = "피어상태.psv";
/// The configuration of every member here: ticks by hand, all of which count.
pub const CONFIG: &str = "interval = \"0\"\nsuspicion_ticks = 2\n";

/// Whether the long forms are asked for.
pub fn full() -> bool {
    std::env::var_os("CROWNY_FED_FULL").is_some()
}

/// Whether an outside program is there; says that the test skips where it is not.
pub fn has(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    if !found {
        println!("skipped: {tool} is not installed");
        let required = std::env::var_os("CROWNY_FED_REQUIRE_TOOLS").is_some();
        assert!(!required, "{tool} is required here");
    }
    found
}

/// Waits until `done` holds.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Works off `cases` on all cores; the first panic fails the test.
pub fn on_all_cores<T: Send>(cases: Vec<T>, work: impl Fn(T) + Sync) {
    let cores = std::thread::available_parallelism().map_or(2, |cores| cores.get());
    let queue = std::sync::Mutex::new(cases.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some(case) = next else { break };
                    work(case);
                }
            });
        }
    });
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

impl Ran {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Ran {
        command.output().unwrap().into()
    }

    /// The same with `input`, no longer than a pipe takes at once, on standard input.
    pub fn reading(command: &mut Command, input: &[u8]) -> Ran {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Whoever does not read it may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap().into()
    }

    /// Fails unless the exit code is `code`.
    #[track_caller]
    pub fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Fails unless stderr holds each of `words`.
    #[track_caller]
    pub fn saying(self, words: &[&str]) -> Ran {
        for word in words {
            assert!(self.err.contains(word), "'{word}' is not in {self:#?}");
        }
        self
    }
}

/// A temporary folder, removed at the end.
#[derive(Debug)]
pub struct Temp(PathBuf);

impl Temp {
    /// A fresh folder.
    pub fn new() -> Temp {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("crowny-fed-crash-{}-{nth}", std::process::id());
        let path = fs::canonicalize(std::env::temp_dir()).unwrap().join(name);
        fs::create_dir_all(&path).unwrap();
        Temp(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The binary under test.
pub fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_crowny-fed")
}

/// Contents of every file below a folder, by relative path.
pub type Image = BTreeMap<PathBuf, Vec<u8>>;

/// A member's folder.
#[derive(Debug)]
pub struct Fed {
    /// Holds the folder, and whatever a test wants beside it.
    pub temp: Temp,
    /// `--dir`.
    pub dir: PathBuf,
}

/// The gateway in front of every first node: its service has to answer, or it would be doubted.
fn gateway() -> &'static StandIn {
    static GATEWAY: OnceLock<StandIn> = OnceLock::new();
    GATEWAY.get_or_init(StandIn::answering)
}

impl Fed {
    /// An empty place, before `init`.
    pub fn nowhere() -> Fed {
        let temp = Temp::new();
        let dir = temp.path().join("D");
        Fed { temp, dir }
    }

    /// A founded member `n1` that offers `web`, with ticks by hand that all count.
    pub fn founded() -> Fed {
        let fed = Fed::nowhere();
        Ran::of(&mut fed.init()).expect(0);
        fed.write("crowny-fed.toml", CONFIG);
        fed
    }

    /// The `init` of [`Fed::founded`].
    pub fn init(&self) -> Command {
        let mut init = self.verb("init");
        init.args(["--id", "n1", "--origin", ORIGIN, "--interval", "0"]);
        init.args(["--service", &format!("web=http://127.0.0.1:{}", gateway().port)]);
        init
    }

    /// The same folder once more.
    pub fn copy(&self) -> Fed {
        let copy = Fed::nowhere();
        copy_folder(&self.dir, &copy.dir);
        copy
    }

    /// The same folder once more, or another empty place for a founding.
    pub fn copy_or_nowhere(&self) -> Fed {
        if self.dir.exists() { self.copy() } else { Fed::nowhere() }
    }

    /// A verb on this folder.
    pub fn verb(&self, verb: &str) -> Command {
        let mut command = Command::new(binary());
        command.arg(verb).arg("--dir").arg(&self.dir).current_dir(self.temp.path());
        command
    }

    /// Runs `tick`.
    pub fn tick(&self) -> Ran {
        Ran::of(&mut self.verb("tick"))
    }

    /// Runs `verify --full`.
    pub fn verify(&self) -> Ran {
        Ran::of(self.verb("verify").arg("--full"))
    }

    /// A plain tick and a full check, both good.
    #[track_caller]
    pub fn heals(&self) -> Ran {
        let ran = self.tick().expect(0);
        self.verify().expect(0);
        self.assert_tidy();
        ran
    }

    /// Path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Bytes of a file in the folder.
    #[track_caller]
    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes a file in the folder, as an operator or a crash would.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Removes a file or folder in the folder.
    pub fn remove(&self, name: &str) {
        let path = self.path(name);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    /// Lists these peers, one row each.
    pub fn list(&self, rows: &[String]) {
        self.write(ROSTER, rows.concat());
    }

    /// The journal's bytes; none where there is no file.
    pub fn journal(&self) -> Vec<u8> {
        fs::read(self.path("nodes.ndjson")).unwrap_or_default()
    }

    /// Every file below the folder.
    pub fn image(&self) -> Image {
        let mut image = Image::new();
        gather(&self.dir, &self.dir, &mut image);
        image
    }

    /// The same of a folder that may not be there yet.
    pub fn image_if_any(&self) -> Image {
        if self.dir.exists() { self.image() } else { Image::new() }
    }

    /// Names of torn tails set aside, oldest first.
    pub fn torn(&self) -> Vec<String> {
        names(&self.dir).into_iter().filter(|name| name.starts_with("nodes.torn-")).collect()
    }

    /// The one torn tail set aside.
    #[track_caller]
    pub fn only_torn(&self) -> Vec<u8> {
        let torn = self.torn();
        assert_eq!(torn.len(), 1, "{torn:?}");
        self.read(&torn[0])
    }

    /// The map's rows without its stamp; fails unless the map is whole and not empty.
    #[track_caller]
    pub fn map_rows(&self) -> String {
        whole_map(&String::from_utf8(self.read("federated-routes.txt")).unwrap())
    }

    /// Fails where a run left temporary files behind.
    #[track_caller]
    pub fn assert_tidy(&self) {
        assert_eq!(names(&self.path("state/tmp")), [""; 0], "left in state/tmp");
        let dotted: Vec<String> =
            names(&self.dir).into_iter().filter(|name| name.starts_with('.')).collect();
        assert_eq!(dotted, [""; 0], "left beside published files");
    }

    /// Executed ticks so far, as `tick.json` counts them.
    pub fn ticks(&self) -> u64 {
        let memory: serde_json::Value = serde_json::from_slice(&self.read("tick.json")).unwrap();
        memory["tick"].as_u64().unwrap()
    }

    /// Size in the signed checkpoint, 0 where none is published.
    pub fn signed_size(&self) -> u64 {
        let note = fs::read_to_string(self.path("federation-root.txt")).unwrap_or_default();
        note.lines().nth(1).map_or(0, |size| size.parse().unwrap())
    }
}

/// Fails where a file other than a temporary one differs.
#[track_caller]
pub fn assert_same(after: &Image, before: &Image) {
    let names = before.keys().chain(after.keys()).filter(|name| !name.starts_with("state/tmp"));
    let differing: Vec<_> = names.filter(|name| before.get(*name) != after.get(*name)).collect();
    assert!(differing.is_empty(), "written: {differing:?}");
}

/// The rows of a whole map; fails on any other text.
#[track_caller]
pub fn whole_map(text: &str) -> String {
    let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(text.starts_with("# crowny-fed routes v1\n"), "no map: {text:?}");
    assert!(text.ends_with(&format!("\n# end {}\n", rows.len())), "cut map: {text:?}");
    assert!(!rows.is_empty(), "an empty map");
    rows.join("\n")
}

/// Whole lines of a journal, without LF.
pub fn whole_lines(journal: &[u8]) -> Vec<&[u8]> {
    let whole = journal.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let lines = journal[..whole].split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty()).collect()
}

/// Offset of the first byte of each line.
pub fn line_starts(journal: &[u8]) -> Vec<usize> {
    let ends = journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).filter(|at| *at < journal.len()).collect()
}

/// Leaf hash of a line in hex: SHA-256(0x00 || line).
pub fn leaf(line: &[u8]) -> String {
    let digest = Sha256::new().chain_update([0]).chain_update(line).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names in a folder, sorted.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn gather(folder: &Path, root: &Path, image: &mut Image) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, root, image);
        } else {
            image.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
