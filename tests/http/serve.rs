//! The HTTP shell over real sockets: what it lets in, and what it bears.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::served::{JSON, PATIENCE, Reply, Served, drain, wait_until};

/// O-11: the length counts bytes, HEAD has the same headers.
#[test]
fn korean_text_has_its_byte_length() {
    let served = Served::start(|_| {});
    let get = served.get("/q/peers");
    assert_eq!(get.body, "{\"peers\":[\"서울-1\"]}".as_bytes());
    assert_eq!(get.header("content-length"), Some("22"));
    assert_eq!(get.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(get.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(get.header("cache-control"), Some("no-store"));

    let mut stream = served.connect();
    let request = "HEAD /q/peers HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let head = Reply::read(&mut stream, true).unwrap();
    assert_eq!(drain(&mut stream), "");
    let named = |reply: &Reply| {
        let fields = reply.head.lines().map(|line| line.to_ascii_lowercase());
        fields.filter(|line| !line.starts_with("connection")).collect::<Vec<_>>()
    };
    let dateless = |lines: Vec<String>| {
        let count = lines.len();
        let kept: Vec<_> = lines.into_iter().filter(|line| !line.starts_with("date: ")).collect();
        assert_eq!(kept.len() + 1, count, "one Date header");
        kept
    };
    assert_eq!(dateless(named(&head)), dateless(named(&get)));
}

/// O-12 with the limit on the whole request at 1 s instead of 10 s; the dribbling heads are what
/// axum#2741 never closed.
#[test]
fn slow_clients_are_closed_and_hold_up_nobody() {
    let limit = Duration::from_secs(1);
    let served = Served::start(move |options| options.limits.request = limit);
    let start = Instant::now();
    let mut slow: Vec<TcpStream> = (0..50).map(|_| served.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"GET /q/health HTTP/1.1\r\nX-A: ").unwrap();
    }
    let mut stopped = served.connect();
    let head = format!("POST /register HTTP/1.1\r\n{JSON}Content-Length: 1000\r\n\r\n{{");
    stopped.write_all(head.as_bytes()).unwrap();

    let asked = Instant::now();
    assert_eq!(served.get("/q/health").status, 200);
    assert!(asked.elapsed() < limit, "a normal request waited {:?}", asked.elapsed());

    let reply = Reply::read(&mut stopped, false).unwrap();
    assert_eq!((reply.status, reply.header("connection")), (408, Some("close")));
    for stream in &mut slow {
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        wait_until("a dribbling client is cut off", || is_cut_off(stream));
    }
    assert!(start.elapsed() < 10 * limit, "closing took {:?}", start.elapsed());
    assert_eq!(served.seen(), ["GET /q/health 0"]);
}

/// Dribbles one more byte and looks whether the server has closed.
fn is_cut_off(stream: &mut TcpStream) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    if stream.write_all(b"x").is_err() {
        return true;
    }
    match stream.read(&mut [0; 64]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(error.kind(), WouldBlock | TimedOut),
    }
}

#[test]
fn silent_and_idle_connections_are_closed() {
    let served = Served::start(|options| {
        options.limits.idle = Duration::from_millis(300);
        options.limits.request = 10 * PATIENCE;
    });
    assert_eq!(drain(&mut served.connect()), "");
    let mut kept = served.connect();
    for _ in 0..3 {
        kept.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert_eq!(Reply::read(&mut kept, false).unwrap().status, 200);
    }
    assert_eq!(drain(&mut kept), "");
}

/// A client that asks and never reads lets go of its place too: idle exit follows.
#[test]
fn a_client_that_never_reads_is_dropped() {
    let served = Served::start(|options| {
        options.limits.request = Duration::from_millis(300);
        options.idle_exit = Some(Duration::from_millis(100));
    });
    let mut stream = served.connect();
    stream.write_all(b"GET /big HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 9];
    stream.read_exact(&mut first).unwrap();
    served.ended();
}

#[test]
fn good_requests_may_be_sent_ahead() {
    let served = Served::start(|_| {});
    let post = format!("POST /b HTTP/1.1\r\n{JSON}Content-Length: 3\r\n\r\nabc");
    let get = "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let last = "GET /c HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let all = served.send_all(format!("{get}{post}{get}{post}{last}"));
    assert_eq!(all.matches("HTTP/1.1 200").count(), 5, "{all}");
    assert_eq!(served.seen(), ["GET /a 0", "POST /b 3", "GET /a 0", "POST /b 3", "GET /c 0"]);
}

/// A handler that takes longer than the limit: whoever waits behind it was not late.
#[test]
fn a_busy_server_is_not_the_clients_fault() {
    let limit = Duration::from_millis(300);
    let served = Served::start(move |options| {
        options.limits.request = limit;
        options.limits.idle = limit;
    });
    let mut halves: Vec<TcpStream> = (0..20).map(|_| served.connect()).collect();
    for stream in &mut halves {
        stream.write_all(b"GET /late HTTP/1.1\r\n").unwrap();
    }
    let held = served.hold.lock().unwrap();
    let mut busy = served.connect();
    busy.write_all(b"GET /hold HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    wait_until("the handler is busy", || !served.seen().is_empty());
    let start = Instant::now();
    for stream in &mut halves {
        stream.write_all(b"Host: localhost\r\n\r\n").unwrap();
    }
    wait_until("the limit has passed", || start.elapsed() > 2 * limit);
    drop(held);
    assert_eq!(Reply::read(&mut busy, false).unwrap().status, 200);
    for stream in &mut halves {
        assert_eq!(Reply::read(stream, false).unwrap().status, 200);
    }
}

#[test]
fn old_http_is_answered_and_closed() {
    let served = Served::start(|_| {});
    let all = served.send_all("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert!(all.starts_with("HTTP/1.0 200") && all.ends_with("\r\n\r\nok"), "{all}");
}

#[test]
fn a_client_may_close_its_side_before_it_reads() {
    let served = Served::start(|_| {});
    let mut stream = served.connect();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(drain(&mut stream).ends_with("\r\n\r\nok"));
    let mut cut = served.connect();
    let half = format!("POST / HTTP/1.1\r\n{JSON}Content-Length: 10\r\n\r\nabc");
    cut.write_all(half.as_bytes()).unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    assert!(drain(&mut cut).starts_with("HTTP/1.1 400"));
    assert_eq!(served.seen(), ["GET / 0"]);
}

#[test]
fn a_handler_that_fails_costs_one_request() {
    let served = Served::start(|_| {});
    for path in ["/panic", "/bad-header", "/continue"] {
        let reply = served.get(path);
        assert_eq!(
            (reply.status, &reply.json()["error"]),
            (500, &"internal-error".into()),
            "{path}"
        );
    }
    let none = served.get("/none");
    assert_eq!((none.status, none.header("content-length")), (204, None));
    assert_eq!(served.get("/q/health").status, 200);
}

#[test]
fn idle_exit_waits_for_open_connections() {
    let limit = Duration::from_millis(200);
    let served = Served::start(move |options| options.idle_exit = Some(limit));
    let mut open = served.connect();
    open.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    Reply::read(&mut open, false).unwrap();
    let start = Instant::now();
    wait_until("the limit has passed", || start.elapsed() > 3 * limit);
    open.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(Reply::read(&mut open, false).unwrap().status, 200);
    drop(open);
    served.ended();
}

#[test]
fn connections_over_the_limit_wait_their_turn() {
    let served = Served::start(|options| options.limits.idle = PATIENCE);
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut held: Vec<TcpStream> = (0..256).map(|_| served.connect()).collect();
    for stream in &mut held {
        stream.write_all(request).unwrap();
        assert_eq!(Reply::read(stream, false).unwrap().status, 200);
    }
    let mut waiting: Vec<TcpStream> = (0..44).map(|_| served.connect()).collect();
    for stream in &mut waiting {
        stream.write_all(request).unwrap();
    }
    waiting[0].set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(waiting[0].read(&mut [0; 1]).is_err(), "a connection over the limit was served");
    waiting[0].set_read_timeout(Some(PATIENCE)).unwrap();
    drop(held);
    for stream in &mut waiting {
        assert_eq!(Reply::read(stream, false).unwrap().status, 200);
    }
    assert_eq!(served.seen().len(), 300);
}

#[test]
fn each_answered_request_gives_one_access_line() {
    let (sender, lines) = mpsc::channel::<String>();
    let served = Served::start(|options| {
        // Leaked so that the callback outlives the options; one per run of this test.
        options.access = Some(Box::leak(Box::new(move |access: &crowny_fed::http::Access| {
            let line = format!("{} {} {}", access.method.as_str(), access.path, access.status);
            sender.send(line).unwrap();
        })));
    });
    served.get("/nodes/%EC%84%9C%EC%9A%B8%22x");
    served.send("OPTIONS /a%0ab HTTP/1.1\r\nHost: localhost\r\n\r\n");
    served.get("/panic");
    let wait = || lines.recv_timeout(PATIENCE).unwrap();
    let seen = [wait(), wait(), wait()];
    assert_eq!(seen, ["GET /nodes/서울\\\"x 200", "OTHER /a%0ab 405", "GET /panic 500"]);
}
