//! What the kernel saw (law 1 and law 2): the gateway's configuration is opened for reading and
//! nothing else; the journal is synced before anything is told; published files appear by rename.

use super::harness::{Fed, ROSTER, Ran, STATUS, has, until};
use super::peers::{Refusing, StandIn};
use super::trace::{Call, append, calls, record, strace};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::SystemTime;

const TRACED: &str = "%file,%desc";
/// Files that others read, or that a run must find whole.
const PUBLISHED: [&str; 10] = [
    "federated-routes.txt",
    STATUS,
    "federation-root.txt",
    "head.txt",
    "freshness.json",
    "snapshot.json",
    "tick.json",
    "state/committed.json",
    "self.json",
    "crowny-fed.toml",
];

/// A gateway's folder beside the member's, with a date of long ago.
struct Gateway {
    config: PathBuf,
    bytes: Vec<u8>,
    touched: SystemTime,
}

impl Gateway {
    fn beside(fed: &Fed) -> Gateway {
        let folder = fed.temp.path().join("gateway");
        fs::create_dir(&folder).unwrap();
        let config = folder.join("gateway.yaml");
        let bytes = b"routes: [live]\n".to_vec();
        fs::write(&config, &bytes).unwrap();
        let touched = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
        fs::File::options().append(true).open(&config).unwrap().set_modified(touched).unwrap();
        Gateway { config, bytes, touched }
    }

    /// Fails unless `calls` only read it, and it is as it was.
    #[track_caller]
    fn was_only_read(&self, calls: &[Call]) {
        let folder = self.config.parent().unwrap().to_str().unwrap();
        let looks = ["read", "pread64", "close", "fstat", "newfstatat", "statx", "stat", "lstat"];
        let harmless = ["lseek", "fcntl", "readlink", "readlinkat", "access", "execve"];
        let mut opened = 0;
        for call in calls.iter().filter(|call| call.rest.contains(folder)) {
            if call.name.starts_with("open") {
                let reading = call.rest.contains("O_RDONLY") && !call.opens_to_write();
                let plain = !["O_CREAT", "O_TRUNC"].iter().any(|flag| call.rest.contains(flag));
                assert!(reading && plain, "opened to write: {call:?}");
                opened += 1;
            } else {
                let name = call.name.as_str();
                assert!(looks.contains(&name) || harmless.contains(&name), "{call:?}");
            }
        }
        assert!(opened > 0, "the configuration was never read");
        assert_eq!(fs::read(&self.config).unwrap(), self.bytes);
        assert_eq!(fs::metadata(&self.config).unwrap().modified().unwrap(), self.touched);
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "something was left in its folder");
    }
}

/// Fails where a published file or a tile is opened to be written in place.
#[track_caller]
fn appears_by_rename(fed: &Fed, calls: &[Call]) {
    let published = PUBLISHED.map(|name| quoted(&fed.path(name)));
    let tiles = format!("\"{}/", fed.path("tile").display());
    for call in calls.iter().filter(|call| call.opens_to_write()) {
        let in_place = published.iter().any(|name| call.rest.contains(name));
        assert!(!in_place && !call.rest.contains(&tiles), "written in place: {call:?}");
    }
    let cut = calls.iter().find(|call| call.name.contains("truncate"));
    assert!(cut.is_none_or(|call| call.rest.contains("nodes.ndjson")), "{cut:?}");
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

/// Fails unless the journal was synced before the first rename and the first word.
#[track_caller]
fn committed_then_told(fed: &Fed, calls: &[Call]) {
    let at = |wanted: &dyn Fn(&Call) -> bool| calls.iter().position(wanted);
    let journal = format!("<{}>", fed.path("nodes.ndjson").display());
    let written = at(&|call| call.name == "write" && call.rest.contains(&journal)).unwrap();
    let synced = at(&|call| call.name == "fdatasync" && call.rest.contains(&journal)).unwrap();
    let told = at(&|call| call.name == "write" && call.rest.starts_with("1<")).unwrap();
    let renamed = at(&|call| call.name.starts_with("rename")).unwrap();
    assert!(written < synced && synced < renamed && renamed < told);
    let folder_sync = |call: &Call| call.name == "fsync" && call.rest.contains("/D>");
    let root = quoted(&fed.path("federation-root.txt"));
    let published = at(&|call| call.name.starts_with("rename") && call.rest.contains(&root));
    let after = calls[published.unwrap()..].iter().position(folder_sync).unwrap();
    assert!(published.unwrap() + after < told, "the root's folder is synced before the word");
}

#[test]
fn tick_commits_then_tells_and_only_reads_the_gateway() {
    if !has("strace") {
        return;
    }
    let fed = Fed::founded();
    let gateway = Gateway::beside(&fed);
    let (up, down) = (StandIn::answering(), Refusing::new());
    fed.list(&[super::peers::row("n2", up.port, "active"), down.row("n3", "active")]);
    for appends in [true, false] {
        let mut tick = fed.verb("tick");
        tick.arg("--gateway-config").arg(&gateway.config);
        let (ran, calls) = record(&fed, &tick, TRACED);
        assert_eq!(ran.expect(0).out.is_empty(), !appends);
        gateway.was_only_read(&calls);
        appears_by_rename(&fed, &calls);
        if appends {
            committed_then_told(&fed, &calls);
        } else {
            one_durable_write(&calls);
        }
    }
    fed.heals();
}

/// An idle tick makes one durable write: one file and its folder are synced.
#[track_caller]
fn one_durable_write(calls: &[Call]) {
    let syncs: Vec<&Call> = calls.iter().filter(|call| call.name.ends_with("sync")).collect();
    assert_eq!(syncs.len(), 2, "{syncs:#?}");
    assert!(syncs[0].rest.contains("state/tmp/tick.json"), "{syncs:#?}");
}

#[test]
fn a_tick_that_was_told_in_the_configuration_only_reads_the_gateway() {
    if !has("strace") {
        return;
    }
    let fed = Fed::founded();
    let gateway = Gateway::beside(&fed);
    let config = format!("interval = \"0\"\ngateway_config = {:?}\n", gateway.config);
    fed.write("crowny-fed.toml", config);
    let down = Refusing::new();
    fed.list(&[down.row("n2", "active")]);
    let (ran, calls) = record(&fed, &fed.verb("tick"), TRACED);
    ran.expect(0);
    gateway.was_only_read(&calls);
    appears_by_rename(&fed, &calls);
    committed_then_told(&fed, &calls);
}

#[test]
fn probe_only_reads_the_gateway_and_writes_one_file() {
    if !has("strace") {
        return;
    }
    let fed = Fed::nowhere();
    fs::create_dir(&fed.dir).unwrap();
    let gateway = Gateway::beside(&fed);
    let up = StandIn::answering();
    fed.list(&[super::peers::row("n2", up.port, "active")]);
    let mut probe = fed.verb("probe");
    probe.arg("--gateway-config").arg(&gateway.config);
    let (ran, calls) = record(&fed, &probe, TRACED);
    ran.expect(0);
    gateway.was_only_read(&calls);
    appears_by_rename(&fed, &calls);
    let names: Vec<PathBuf> = fed.image().into_keys().collect();
    assert_eq!(names, [ROSTER, STATUS].map(PathBuf::from));
}

#[test]
fn reading_verbs_open_nothing_to_write() {
    if !has("strace") {
        return;
    }
    let fed = Fed::founded();
    let down = Refusing::new();
    fed.list(&[down.row("n2", "active")]);
    fed.tick().expect(0);
    let before = fed.image();
    for verb in ["verify", "status", "routes", "root", "log", "failover"] {
        let (ran, calls) = record(&fed, &fed.verb(verb), TRACED);
        ran.expect(0);
        let writes: Vec<&Call> = calls.iter().filter(|call| call.opens_to_write()).collect();
        assert!(writes.is_empty(), "{verb}: {writes:#?}");
        let changing = ["rename", "unlink", "mkdir", "truncate", "chmod", "flock", "sync"];
        let changes = calls.iter().find(|call| changing.iter().any(|c| call.name.contains(c)));
        assert!(changes.is_none(), "{verb}: {changes:?}");
    }
    super::harness::assert_same(&fed.image(), &before);
}

#[test]
fn serve_only_reads() {
    if !has("strace") {
        return;
    }
    let fed = Fed::founded();
    let gateway = Gateway::beside(&fed);
    let down = Refusing::new();
    fed.list(&[down.row("n2", "active")]);
    fed.tick().expect(0);
    let before = fed.image();
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let log = fed.temp.path().join("serve.log");
    let mut serve = fed.verb("serve");
    serve.args(["--listen", &format!("127.0.0.1:{port}"), "--idle-exit", "2"]);
    serve.arg("--gateway-config").arg(&gateway.config);
    let mut strace = strace(&log);
    let run = append(strace.args(["-y", "-s", "4096", "-e", &format!("trace={TRACED}")]), &serve);
    let child = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = None;
    until("serve listens", || {
        first = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok();
        first.is_some()
    });
    for path in
        ["/q/health", "/q/peers", "/head", "/routes", "/root", "/checkpoint", "/verify", "/"]
    {
        let stream = first
            .take()
            .unwrap_or_else(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap());
        let answer = ask(stream, path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    // It ends by itself, two seconds after the last of them.
    Ran::from(child.wait_with_output().unwrap()).expect(0);
    let calls = calls(&log);
    gateway.was_only_read(&calls);
    let own = format!("\"{}", fed.dir.display());
    let writes: Vec<&Call> =
        calls.iter().filter(|call| call.opens_to_write() && call.rest.contains(&own)).collect();
    assert!(writes.is_empty(), "{writes:#?}");
    super::harness::assert_same(&fed.image(), &before);
}

fn ask(mut stream: TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn init_writes_in_its_folder_alone_and_seeds_for_the_owner_alone() {
    if !has("strace") {
        return;
    }
    let fed = Fed::nowhere();
    let (ran, calls) = record(&fed, &fed.init(), TRACED);
    ran.expect(0);
    let own = format!("\"{}/", fed.dir.display());
    for call in calls.iter().filter(|call| call.opens_to_write()) {
        assert!(call.rest.contains(&own), "written elsewhere: {call:?}");
    }
    // Seeds are never readable by others, not even for a moment.
    let keys = calls.iter().filter(|call| call.opens_to_write() && call.rest.contains(".key\""));
    assert!(keys.clone().count() == 3 && keys.clone().all(|call| call.rest.contains("0600")));
}
