//! Sockets that others opened for us: systemd, launchd, inetd. The server runs as a child process,
//! which is this same test binary asked to run its ignored `child` entry.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::served::{PATIENCE, Reply, Seen, answer, drain, wait_until};
use crowny_fed::http::{Allowed, Options, listen, serve, serve_one, stdio};

const GET: &[u8] = b"GET /q/health HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The server side of these tests; does nothing unless asked by the environment.
#[test]
#[ignore = "entry of the child process"]
fn child() {
    let allowed = Allowed::new(&[], ["127.0.0.1"]);
    let mut options = Options { allowed, ..Options::default() };
    options.idle_exit = Some(Duration::from_millis(500));
    let seen = Seen::default();
    match std::env::var("CHILD").as_deref() {
        Ok("inherited") => {
            let listeners = listen::inherited().unwrap();
            assert!(listen::inherited().unwrap().len() <= 1, "the variables are cleared");
            serve(listeners, &options, &|request| answer(request, &seen)).unwrap();
        }
        Ok("refused") => {
            let refused = listen::inherited().unwrap_err();
            assert!(refused.to_string().starts_with("inherited descriptor number 0"), "{refused}");
        }
        Ok("stdio") => {
            let (input, output) = stdio::handles().unwrap();
            serve_one(input, output, &options, &|request| answer(request, &seen)).unwrap();
        }
        _ => {}
    }
}

/// Starts the child through a shell, which moves descriptors and limits without unsafe code.
fn start(mode: &str, shell: &str, stdin: Stdio, stdout: Stdio) -> Child {
    let binary = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &format!("{shell}; exec \"$0\" --ignored --exact handover::child")])
        .arg(binary)
        .env("CHILD", mode)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

fn assert_ends_well(mut child: Child) {
    wait_until("the child ends", || child.try_wait().unwrap().is_some());
    assert!(child.wait().unwrap().success());
}

fn ask(address: SocketAddr) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(GET).unwrap();
    Reply::read(&mut stream, false).expect("an answer")
}

/// A loopback listener and a second one, on IPv6 where the machine has it.
fn two_listeners() -> [TcpListener; 2] {
    let four = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let six = TcpListener::bind((Ipv6Addr::LOCALHOST, 0));
    [four, six.unwrap_or_else(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())]
}

#[test]
fn every_inherited_listener_is_served() {
    let [one, two] = two_listeners();
    let addresses = [one.local_addr().unwrap(), two.local_addr().unwrap()];
    let shell = "exec 3<&0 4<&1 0</dev/null 1>/dev/null; export LISTEN_FDS=2 LISTEN_PID=$$";
    let child = start("inherited", shell, OwnedFd::from(one).into(), OwnedFd::from(two).into());
    for address in addresses {
        assert_eq!(ask(address).status, 200);
    }
    assert_ends_well(child);
}

#[test]
fn sockets_meant_for_another_process_are_left_alone() {
    let [one, _] = two_listeners();
    let address = one.local_addr().unwrap();
    // The variables name another process, so only stdin counts, as launchd hands it over.
    let shell = "exec 1>/dev/null; export LISTEN_FDS=1 LISTEN_PID=1";
    let child = start("inherited", shell, OwnedFd::from(one).into(), Stdio::null());
    assert_eq!(ask(address).status, 200);
    assert_ends_well(child);
}

#[test]
fn a_descriptor_that_is_no_socket_is_refused_by_number() {
    let shell = "exec 3</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$";
    assert_ends_well(start("refused", shell, Stdio::null(), Stdio::null()));
}

#[test]
fn running_out_of_descriptors_is_survived() {
    let [one, _] = two_listeners();
    let address = one.local_addr().unwrap();
    let shell = "ulimit -n 16; exec 1>/dev/null";
    let child = start("inherited", shell, OwnedFd::from(one).into(), Stdio::null());
    let crowd: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    // All sixteen are taken once the first of the crowd is answered and the last is not.
    let mut first = &crowd[0];
    first.set_read_timeout(Some(PATIENCE)).unwrap();
    first.write_all(GET).unwrap();
    assert_eq!(Reply::read(&mut first, false).unwrap().status, 200);
    let mut last = &crowd[39];
    last.write_all(GET).unwrap();
    last.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(last.read(&mut [0; 1]).is_err(), "the crowd fits, nothing is tested");
    drop(crowd);
    assert_eq!(ask(address).status, 200);
    assert_ends_well(child);
}

#[test]
fn stdio_serves_one_accepted_connection() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let accepted = OwnedFd::from(listener.accept().unwrap().0);
    let child = start("stdio", "exec 1>/dev/null", accepted.into(), Stdio::null());
    for _ in 0..2 {
        client.write_all(GET).unwrap();
        assert_eq!(Reply::read(&mut client, false).unwrap().body, b"ok");
    }
    drop(client);
    assert_ends_well(child);
}

/// Runs `serve_one` on a thread of this process.
fn serve_pair(input: OwnedFd, output: OwnedFd) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let allowed = Allowed::new(&[], ["127.0.0.1"]);
        let mut options = Options { allowed, ..Options::default() };
        options.limits.request = Duration::from_millis(500);
        options.limits.idle = Duration::from_millis(500);
        let seen = Seen::default();
        serve_one(input, output, &options, &|request| answer(request, &seen)).unwrap();
    })
}

#[test]
fn stdio_works_over_a_socket_pair() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let unused = std::fs::File::open("/dev/null").unwrap();
    let server = serve_pair(theirs.into(), unused.into());
    let mut ours = ours;
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    ours.write_all(GET).unwrap();
    assert_eq!(Reply::read(&mut ours, false).unwrap().body, b"ok");
    assert_eq!(drain(&mut ours), "");
    server.join().unwrap();
}

#[test]
fn stdio_works_over_pipes_and_keeps_its_limits() {
    let (input, mut sender) = std::io::pipe().unwrap();
    let (mut receiver, output) = std::io::pipe().unwrap();
    let server = serve_pair(input.into(), output.into());
    sender.write_all(GET).unwrap();
    sender.write_all(b"GET / HTTP/1.1\r\nX-A: ").unwrap();
    // The sender stays open: only the limit ends this.
    let all = drain(&mut receiver);
    assert!(all.starts_with("HTTP/1.1 200") && all.ends_with("ok"), "{all}");
    server.join().unwrap();
}

#[test]
fn stdio_works_over_plain_files() {
    let folder = std::env::temp_dir().join(format!("crowny-stdio-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (asked, answered) = (folder.join("asked"), folder.join("answered"));
    std::fs::write(&asked, GET).unwrap();
    let input = std::fs::File::open(&asked).unwrap();
    let output = std::fs::File::create(&answered).unwrap();
    serve_pair(input.into(), output.into()).join().unwrap();
    let all = std::fs::read_to_string(&answered).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(all.starts_with("HTTP/1.1 200") && all.ends_with("\r\n\r\nok"), "{all}");
}
