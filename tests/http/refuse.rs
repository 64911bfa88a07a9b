//! What the HTTP shell refuses over real sockets, and that a refusal is the end of its connection.

use std::io::{Read, Write};

use super::served::{JSON, Reply, Served};

/// O-27.
#[test]
fn browser_pages_and_rebound_names_are_refused() {
    let served = Served::start(|_| {});
    let body_never_sent = "Content-Length: 40000\r\nExpect: 100-continue\r\n\r\n";
    let cases = [
        (
            "POST /register",
            "Host: rebind.example:9160\r\nOrigin: http://rebind.example\r\nContent-Type: text/plain",
            403,
            "host-not-allowed",
        ),
        (
            "POST /register",
            "Host: localhost\r\nOrigin: http://rebind.example\r\nContent-Type: application/json",
            403,
            "origin-not-allowed",
        ),
        (
            "POST /register",
            "Host: localhost\r\nContent-Type: text/plain",
            415,
            "content-type-not-json",
        ),
        ("POST /register", "Host: localhost", 415, "content-type-not-json"),
        (
            "OPTIONS /register",
            "Host: localhost\r\nOrigin: http://localhost\r\nAccess-Control-Request-Method: POST",
            405,
            "method-not-allowed",
        ),
        (
            "OPTIONS /register",
            "Host: localhost\r\nOrigin: http://evil.example",
            403,
            "origin-not-allowed",
        ),
        ("POST /register", "Content-Type: application/json", 400, "host-missing"),
        ("POST /register", "Host: localhost\r\nHost: localhost", 400, "host-repeated"),
        ("POST /register", "Host: \"><script>alert(1)</script>", 400, "host-malformed"),
        ("POST http://evil.example/register", "Host: localhost", 403, "host-not-allowed"),
    ];
    for (line, headers, status, error) in cases {
        let all = served.send_all(format!("{line} HTTP/1.1\r\n{headers}\r\n{body_never_sent}"));
        let reply = Reply::read(&mut all.as_bytes(), false).unwrap();
        assert_eq!((reply.status, reply.json()["error"].as_str()), (status, Some(error)), "{all}");
        let lower = all.to_ascii_lowercase();
        for never in ["access-control", "evil", "rebind", "<script", "100 continue"] {
            assert!(!lower.contains(never), "{never} in {all}");
        }
    }
    let health = served.send("GET /q/health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert_eq!(health.status, 403);
    assert_eq!(served.seen(), [] as [&str; 0]);
    let ours = served.send("GET /q/health HTTP/1.1\r\nHost: GW.example.org:443\r\n\r\n");
    assert_eq!(ours.status, 200);
}

/// O-29, the requests nobody can find the end of; each is followed by one that must never run.
#[test]
fn broken_framing_is_refused_and_ends_the_connection() {
    let served = Served::start(|_| {});
    let broken = [
        "Content-Length: abc\r\n\r\n",
        "Content-Length: -5\r\n\r\n",
        "Content-Length: +5\r\n\r\n12345",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: gzip\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        "Content-Length : 5\r\n\r\n12345",
        "X: a\r\n b: folded\r\n\r\n",
        "X Y: a\r\n\r\n",
    ];
    for headers in broken {
        let request = format!("POST /register HTTP/1.1\r\n{JSON}{headers}{}", smuggled());
        assert_refused_alone(&served, &request, 400);
    }
    for line in ["GET /../etc", "GET /%2e%2e/etc", "GET /%zz", "GET /%ff", "GET localhost", "\0"] {
        let request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n{}", smuggled());
        assert_refused_alone(&served, &request, 400);
    }
    assert_eq!(served.seen(), [] as [&str; 0]);
    assert_eq!(served.get("/q/health").status, 200);
}

/// O-29, requests over a cap.
#[test]
fn oversize_requests_are_refused_and_end_the_connection() {
    let served = Served::start(|_| {});
    let header = format!("X: {}\r\n", "a".repeat(1000));
    let megabyte = header.repeat(1024);
    assert_refused_alone(&served, &format!("GET / HTTP/1.1\r\n{megabyte}\r\n{}", smuggled()), 431);
    let lines = "X: a\r\n".repeat(200);
    assert_refused_alone(&served, &format!("GET / HTTP/1.1\r\n{lines}\r\n{}", smuggled()), 431);
    let body = "x".repeat(10 << 20);
    let declared = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let chunked =
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let endless = "Content-Length: 18446744073709551615\r\n\r\n".to_owned();
    for tail in [declared, chunked] {
        let request = format!("POST /register HTTP/1.1\r\n{JSON}{tail}{}", smuggled());
        assert_refused_alone(&served, &request, 413);
    }
    let reply = served.send_all(format!("POST / HTTP/1.1\r\n{JSON}{endless}"));
    assert!(reply.starts_with("HTTP/1.1 4"), "{reply}");
    assert_eq!(served.seen(), [] as [&str; 0]);
    assert_eq!(served.get("/q/health").status, 200);
}

fn smuggled() -> &'static str {
    "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
}

fn assert_refused_alone(served: &Served, request: &str, status: u16) {
    let shown = &request[..request.len().min(120)];
    let all = served.send_all(request);
    assert!(all.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?} gave {all:?}");
    assert_eq!(all.matches("HTTP/1.1 ").count(), 1, "{shown:?} gave {all:?}");
}

/// Closing on unread input resets the connection and can take the answer with it; a refusal must
/// end as cleanly as any answer.
#[test]
fn a_refusal_is_not_lost_in_a_reset() {
    let served = Served::start(|_| {});
    let body = "x".repeat(100_000);
    let mut stream = served.connect();
    let head = format!("POST / HTTP/1.1\r\n{JSON}Content-Length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).expect("a clean end");
    assert!(all.starts_with("HTTP/1.1 413"), "{all}");
}

/// The documented caps are exact enough to rely on: just below passes, just above does not.
#[test]
fn caps_are_where_they_are_said_to_be() {
    let served = Served::start(|_| {});
    let head = |bytes: usize| {
        let start = "GET / HTTP/1.1\r\nHost: localhost\r\n";
        let filler = bytes - start.len() - "X: \r\n\r\n".len();
        format!("{start}X: {}\r\n\r\n", "a".repeat(filler))
    };
    assert_eq!(served.send(head(16 * 1024)).status, 200);
    assert_eq!(served.send(head(16 * 1024 + 1)).status, 431);
    let post = |bytes: usize| {
        let body = "x".repeat(bytes);
        format!("POST / HTTP/1.1\r\n{JSON}Content-Length: {bytes}\r\n\r\n{body}")
    };
    assert_eq!(served.send(post(64 * 1024)).body, b"65536");
    assert_eq!(served.send(post(64 * 1024 + 1)).status, 413);
}

/// O-29, the two legal but unusual ways to send a body.
#[test]
fn expect_is_answered_and_chunks_are_read() {
    let served = Served::start(|_| {});
    let mut stream = served.connect();
    let head =
        format!("POST / HTTP/1.1\r\n{JSON}Content-Length: 2048\r\nExpect: 100-continue\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(Reply::read(&mut stream, true).unwrap().status, 100);
    stream.write_all(&[b'x'; 2048]).unwrap();
    assert_eq!(Reply::read(&mut stream, false).unwrap().body, b"2048");
    stream.write_all(b"GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(Reply::read(&mut stream, false).unwrap().body, b"ok");

    let chunks = "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\n\r\n";
    let all = served.send_all(format!("POST / HTTP/1.1\r\n{JSON}{chunks}{}", smuggled()));
    assert!(all.starts_with("HTTP/1.1 200") && all.ends_with("\r\n\r\n8"), "{all}");
    assert_eq!(served.seen(), ["POST / 2048", "GET /next 0", "POST / 8"]);
}
