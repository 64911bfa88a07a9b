//! What the three schedulers' tests share: a folder with a founded federation, and the argv of a
//! unit run by the real binary.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The program every unit names.
pub const INSTALLED: &str = "/usr/local/bin/crowny-fed";
/// The program under test.
pub const BUILT: &str = env!("CARGO_BIN_EXE_crowny-fed");

/// A shipped file, by its path in the repository.
pub fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The text of a shipped file: LF, UTF-8, and not executable, which systemd and launchd mind.
pub fn text(path: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = shipped(path);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "{} is executable", path.display());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.ends_with('\n') && !text.contains('\r'), "{}", path.display());
    text
}

/// Whether a program is there; missing ones fail only where the gate asks for all of them.
pub fn has(tool: &str) -> bool {
    let found = Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        let required = std::env::var_os("CROWNY_FED_REQUIRE_TOOLS").is_some();
        assert!(!required, "{tool} is not installed");
        println!("skipped: {tool} is not installed");
    }
    found
}

/// A temporary folder, removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("crowny-fed-units-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// A folder in which a federation was founded.
    pub fn founded() -> Folder {
        let folder = Folder::new();
        let dir = folder.0.to_str().unwrap();
        let made =
            program(&["init", "--dir", dir, "--id", "n1", "--origin", "fed.example.org/units"]);
        assert!(made.status.success(), "{made:?}");
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the binary as cron would: nothing in the environment, nothing on standard input.
pub fn program(args: &[&str]) -> Output {
    Command::new(BUILT)
        .args(args)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The arguments after the program, which must be the installed one, with the unit's folder
/// replaced by `dir`.
pub fn arguments<'a>(argv: &[&'a str], dir: &'a str) -> Vec<&'a str> {
    assert_eq!(argv[0], INSTALLED, "an absolute program path");
    let mut args = argv[1..].to_vec();
    let at = args.iter().position(|arg| *arg == "--dir").expect("--dir");
    assert!(args[at + 1].starts_with('/'), "an absolute folder");
    args[at + 1] = dir;
    args
}

/// A unit's tick does its work in a founded folder: silent, and with exit code 0.
pub fn assert_ticks(argv: &[&str]) {
    let folder = Folder::founded();
    let args = arguments(argv, folder.0.to_str().unwrap());
    let ran = program(&args);
    assert!(ran.status.success(), "{ran:?}");
    assert!(ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:?}");
    assert!(folder.0.join("freshness.json").exists());
    let dry: Vec<&str> = args.into_iter().chain(["--dry-run"]).collect();
    assert!(program(&dry).status.success());
}

/// A unit's server answers on a socket that it is given, and `--idle-exit` is among its arguments.
pub fn assert_serves(argv: &[&str]) {
    let folder = Folder::founded();
    let args = arguments(argv, folder.0.to_str().unwrap());
    assert!(args.contains(&"--idle-exit"), "a started server ends by itself");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _server = Ended(
        Command::new(BUILT)
            .args(&args)
            .env_clear()
            .stdin(OwnedFd::from(listener))
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let request = format!("GET /q/health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains(r#""node":"n1""#), "{answer}");
}

/// A child of ours that does not outlive the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
