//! The binary under strace: what it asked of the kernel, and what happens if the kernel says no.

use super::harness::{Fed, Ran};
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls that can change something on a disk, or hold others off it; those marked `?` do not exist on
/// every machine.
pub const CHANGING: &str = "?open,openat,?openat2,?creat,write,pwrite64,writev,pwritev,?pwritev2,\
    fdatasync,fsync,?sync,?syncfs,?sync_file_range,?rename,renameat,renameat2,ftruncate,truncate,\
    fallocate,?unlink,unlinkat,?rmdir,?mkdir,mkdirat,?link,linkat,?symlink,symlinkat,?mknod,mknodat,\
    fchmod,?chmod,fchmodat,fchown,?chown,fchownat,utimensat,fsetxattr,copy_file_range,sendfile,\
    splice,flock";

/// A fault to be injected: at the `nth` call of a kind that a thread makes.
#[derive(Clone, Debug)]
pub struct Fault {
    /// `signal=KILL`, `error=ENOSPC`, or `retval=N`: success reported and nothing done.
    pub what: Cow<'static, str>,
    /// Which system call.
    pub call: String,
    /// The how manieth, from 1; `None` for all.
    pub nth: Option<usize>,
}

impl Fault {
    /// The `nth` call of a kind.
    pub fn at(what: impl Into<Cow<'static, str>>, call: &str, nth: usize) -> Fault {
        Fault { what: what.into(), call: call.to_owned(), nth: Some(nth) }
    }

    /// Every call of a kind.
    pub fn always(what: &'static str, call: &str) -> Fault {
        Fault { what: what.into(), call: call.to_owned(), nth: None }
    }
}

/// A faulty run and whether the fault was reached.
#[derive(Debug)]
pub struct Faulted {
    pub ran: Ran,
    pub reached: bool,
    /// How many bytes the call was to write, where the fault met one that writes.
    pub bytes: Option<usize>,
}

/// Runs `command` with a fault.
pub fn run_with(fed: &Fed, command: &Command, fault: &Fault) -> Faulted {
    read_with(fed.temp.path(), (command, b""), fault)
}

/// The same of a run that reads; what strace saw stands in `folder`.
pub fn read_with(folder: &Path, (command, input): (&Command, &[u8]), fault: &Fault) -> Faulted {
    let log = folder.join("fault.log");
    let mut inject = format!("inject={}:{}", fault.call, fault.what);
    if let Some(nth) = fault.nth {
        inject.push_str(&format!(":when={nth}"));
    }
    let mut strace = strace(&log);
    strace.args(["-e", &format!("trace={}", fault.call), "-e", &inject]);
    let ran = Ran::reading(append(&mut strace, command), input);
    let text = fs::read_to_string(&log).unwrap();
    let met = text.lines().find(|line| line.contains("(INJECTED)"));
    let reached = met.is_some() || text.contains("killed by SIGKILL");
    Faulted { ran, reached, bytes: met.and_then(|met| bytes_to_write(&text, met)) }
}

/// The last argument of `write(4, "..."..., 57) = 57 (INJECTED)`, which stands in an earlier line
/// where another thread's call came between.
fn bytes_to_write(text: &str, met: &str) -> Option<usize> {
    let arguments = if met.contains(" resumed>") {
        let thread = met.split(' ').next()?;
        let begun = text.lines().take_while(|line| *line != met);
        let begun = begun.filter(|line| line.starts_with(thread)).last()?;
        begun.rsplit_once(" <unfinished")?.0
    } else {
        met.rsplit_once(") = ")?.0
    };
    arguments.rsplit_once(", ")?.1.parse().ok()
}

/// Runs a tick of `fed` with a fault that must be reached.
#[track_caller]
pub fn tick_with(fed: &Fed, fault: &Fault) -> Ran {
    let faulted = run_with(fed, &fed.verb("tick"), fault);
    assert!(faulted.reached, "{fault:?} was not reached: {:#?}", faulted.ran);
    faulted.ran
}

/// One system call as logged, `path` and names unescaped.
#[derive(Clone, Debug)]
pub struct Call {
    /// Thread that made it.
    pub thread: String,
    pub name: String,
    /// Everything between the parentheses, and the result.
    pub rest: String,
}

impl Call {
    /// Whether it opens a file for writing.
    pub fn opens_to_write(&self) -> bool {
        self.name.starts_with("open")
            && ["O_WRONLY", "O_RDWR"].iter().any(|f| self.rest.contains(f))
    }

    /// What it returned, where that was no error.
    pub fn result(&self) -> Option<usize> {
        let (_, result) = self.rest.rsplit_once(" = ")?;
        result.split(['<', ' ']).next()?.parse().ok()
    }
}

/// Runs `command` and returns its calls in order. `which` is strace's `trace=` list.
pub fn record(fed: &Fed, command: &Command, which: &str) -> (Ran, Vec<Call>) {
    record_reading(fed.temp.path(), (command, b""), which)
}

/// The same of a run that reads; what strace saw stands in `folder`.
pub fn record_reading(
    folder: &Path,
    (command, input): (&Command, &[u8]),
    which: &str,
) -> (Ran, Vec<Call>) {
    let log = folder.join("calls.log");
    let mut strace = strace(&log);
    strace.args(["-y", "-s", "4096", "-e", &format!("trace={which}")]);
    let ran = Ran::reading(append(&mut strace, command), input);
    (ran, calls(&log))
}

/// The calls of a log.
pub fn calls(log: &PathBuf) -> Vec<Call> {
    let text = fs::read_to_string(log).unwrap();
    text.lines().filter_map(call).collect()
}

/// `strace` that follows threads and children and logs to `log`.
pub fn strace(log: &PathBuf) -> Command {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(log);
    strace
}

/// Puts `command` behind `runner`.
pub fn append<'a>(runner: &'a mut Command, command: &Command) -> &'a mut Command {
    runner.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        runner.current_dir(folder);
    }
    runner
}

fn call(line: &str) -> Option<Call> {
    let (thread, line) = line.split_once(' ')?;
    let (name, rest) = line.trim_start().split_once('(')?;
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    plain.then(|| Call { thread: thread.to_owned(), name: name.to_owned(), rest: unescaped(rest) })
}

/// strace writes bytes beyond ASCII as `\355` or `\x..`; file names of ours are UTF-8.
fn unescaped(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|digits| {
            bytes[at] == b'\\' && digits.iter().all(|digit| (b'0'..b'8').contains(digit))
        });
        let value =
            octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&plain).into_owned()
}
