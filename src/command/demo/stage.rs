//! The demo's world: a folder, processes of this same program, sockets. It knows no story.
//!
//! Whatever is started here ends here: a process is killed when its handle is dropped, the folder
//! goes with the stage, on every way out. Should the demo itself be killed, its gateways find
//! nobody talking to them and end by their idle exit.
#![allow(clippy::disallowed_methods)] // watches the program from outside, where no Host reaches

use crate::error::Failure;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// How long the whole demo may take; usually it needs two or three seconds.
const LIMIT: Duration = Duration::from_secs(25);
/// An orphaned gateway ends after this.
const IDLE_EXIT_S: &str = "30";
/// Between two looks at something that is awaited.
const PAUSE: Duration = Duration::from_millis(5);
/// One HTTP exchange on loopback.
const EXCHANGE: Duration = Duration::from_secs(5);

/// The folder, and the program that everything in it is done with.
pub(super) struct Stage {
    folder: PathBuf,
    keep: bool,
    program: PathBuf,
    until: Instant,
}

/// How a verb ended.
pub(super) struct Ran {
    /// Exit code; `None` after a signal.
    pub(super) code: Option<i32>,
    /// Standard output.
    pub(super) stdout: String,
    /// Standard error.
    pub(super) stderr: String,
}

/// A running `serve`.
pub(super) struct Gateway {
    /// Its node id.
    pub(super) id: &'static str,
    /// Where it listens on 127.0.0.1.
    pub(super) port: u16,
    process: Process,
}

/// A child that does not outlive its handle.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only where the child has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage {
    /// Makes a private folder of our own among the temporary ones.
    pub(super) fn open(keep: bool) -> Result<Stage, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find myself: {error}")))?;
        let folder = make_folder().map_err(|error| {
            Failure::failed(format!("no temporary folder: {error}"))
                .hint("TMPDIR names the folder in which one is made")
        })?;
        Ok(Stage { folder, keep, program, until: Instant::now() + LIMIT })
    }

    /// Where everything lies.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file, making its folder. Private whatever the umask: the program refuses a
    /// configuration that others may write.
    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let write = || {
            if let Some(parent) = path.parent() {
                private_folder().recursive(true).create(parent)?;
            }
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
            file.write_all(bytes.as_ref())
        };
        write().map_err(|error| Failure::failed(format!("cannot write {name}: {error}")))
    }

    /// Reads a file.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
        fs::read(self.folder.join(name)).map_err(|error| unreadable(name, &error))
    }

    /// When a file was last written.
    pub(super) fn written_at(&self, name: &str) -> Result<SystemTime, Failure> {
        fs::metadata(self.folder.join(name))
            .and_then(|meta| meta.modified())
            .map_err(|error| unreadable(name, &error))
    }

    /// Runs a verb to its end, in `folder`.
    pub(super) fn run(&self, folder: &str, args: &[&str]) -> Result<Ran, Failure> {
        let failed = |error| Failure::failed(format!("cannot run {}: {error}", args.join(" ")));
        let mut process = Process(self.command(folder, args).spawn().map_err(failed)?);
        let status = self.await_that(&args.join(" "), || process.0.try_wait().transpose())?;
        let read = |pipe: Option<&mut dyn Read>| -> io::Result<String> {
            let mut text = String::new();
            pipe.map_or(Ok(0), |pipe| pipe.read_to_string(&mut text))?;
            Ok(text)
        };
        Ok(Ran {
            code: status.map_err(failed)?.code(),
            stdout: read(process.0.stdout.as_mut().map(|it| it as _)).map_err(failed)?,
            stderr: read(process.0.stderr.as_mut().map(|it| it as _)).map_err(failed)?,
        })
    }

    /// Starts `serve` in the folder named after the node, and waits until it answers.
    pub(super) fn serve(&self, id: &'static str, port: u16) -> Result<Gateway, Failure> {
        let listen = format!("127.0.0.1:{port}");
        let args = ["serve", "--dir", ".", "--self", id, "--listen", &listen];
        let child = self
            .command(id, &args)
            .args(["--idle-exit", IDLE_EXIT_S])
            .stdout(Stdio::null())
            .stderr(self.log(id)?)
            .spawn()
            .map_err(|error| Failure::failed(format!("cannot start {id}: {error}")))?;
        let mut gateway = Gateway { id, port, process: Process(child) };
        self.await_that(&format!("the port of {id}"), || {
            let ended = !gateway.runs();
            (ended || gateway.exchange("/q/health").is_ok()).then_some(())
        })?;
        if gateway.runs() {
            return Ok(gateway);
        }
        let said = self.read(&format!("{id}.log"))?;
        let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
        Err(Failure::failed(format!("{id} ended at once: {said}")))
    }

    /// Removes the folder unless it is to be kept.
    pub(super) fn close(self) -> Result<(), Failure> {
        if self.keep {
            return Ok(());
        }
        let name = self.folder.display();
        fs::remove_dir_all(&self.folder)
            .map_err(|error| Failure::failed(format!("cannot remove {name}: {error}")))
    }

    fn command(&self, folder: &str, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .args(["--color", "never"])
            .current_dir(self.folder.join(folder))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn log(&self, id: &str) -> Result<Stdio, Failure> {
        let path = self.folder.join(format!("{id}.log"));
        OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(path)
            .map(Stdio::from)
            .map_err(|error| Failure::failed(format!("no log for {id}: {error}")))
    }

    fn await_that<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T, Failure> {
        loop {
            if let Some(found) = look() {
                return Ok(found);
            }
            if Instant::now() >= self.until {
                let limit = LIMIT.as_secs();
                return Err(Failure::failed(format!("over {limit} s, waiting for {what}")));
            }
            sleep(PAUSE);
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.keep {
            // Best effort on the way out of a failure, which is what gets reported.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

impl Gateway {
    /// Its process id.
    pub(super) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// `http://host:port`.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Whether the process is there.
    pub(super) fn runs(&mut self) -> bool {
        matches!(self.process.0.try_wait(), Ok(None))
    }

    /// The body of `GET path`; anything but 200 is an error.
    pub(super) fn fetch(&self, path: &str) -> Result<String, Failure> {
        self.exchange(path)
            .map_err(|error| Failure::failed(format!("GET {path} of {}: {error}", self.id)))
    }

    /// SIGKILL by process id, which is what dropping the handle does: no last word, as a machine
    /// that lost its power. Returns the port it leaves.
    pub(super) fn kill(self) -> u16 {
        self.port
    }

    fn exchange(&self, path: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&loopback(self.port), EXCHANGE)?;
        stream.set_read_timeout(Some(EXCHANGE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n", loopback(self.port))?;
        stream.write_all(b"Connection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200 ") => Ok(body.to_owned()),
            _ => Err(io::Error::other(answer.lines().next().unwrap_or("no answer").to_owned())),
        }
    }
}

/// Whether nobody listens on a port.
pub(super) fn is_free(port: u16) -> bool {
    TcpListener::bind(loopback(port)).is_ok()
}

/// Three ports that are free now. They are taken from below the ranges the kernels hand out by
/// themselves, or a chance connection could take the port of a gateway that is to come back.
pub(super) fn free_ports() -> Result<[u16; 3], Failure> {
    let start = (std::process::id() % 1_000) as u16 * 10;
    let mut found =
        (0..10_000).map(|step| 20_000 + (start + step) % 10_000).filter(|p| is_free(*p));
    match (found.next(), found.next(), found.next()) {
        (Some(one), Some(two), Some(three)) => Ok([one, two, three]),
        _ => Err(Failure::failed("no free port from 20000 to 29999")),
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// A number that an earlier run left behind is passed over, never used again.
fn make_folder() -> io::Result<PathBuf> {
    let base = std::env::temp_dir();
    let name = format!("crowny-fed-demo-{}", std::process::id());
    for number in 0..100 {
        let folder = base.join(format!("{name}-{number}"));
        match private_folder().create(&folder) {
            Ok(()) => return folder.canonicalize(),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot read {name}: {error}"))
}
