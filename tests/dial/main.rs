//! The dialer against real loopback peers that misbehave as peers do.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod limits;
mod peers;
mod tls;

use std::io::{self, Read as _, Write};
use std::net::{Shutdown, TcpListener};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::wire::call::{Call, Extent, Fault, Method, Targets};

use crate::peers::{
    LIMIT, answering, call, call_host, dial, head, names, one, peer, peer_at, reading,
};

#[test]
fn o02_ipv6_hosts_are_bracketed_and_zones_stay_here() {
    let (heads, seen) = mpsc::channel();
    let heads = Mutex::new(heads);
    let v6 = peer_at("[::1]:0", move |mut stream| {
        heads.lock().unwrap().send(head(&mut stream)).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let Ok(v6) = v6 else {
        eprintln!("skipped: no IPv6 loopback here");
        return;
    };
    let port = v6.port();
    let bad = call_host("fe80::2%nosuchif", 8080);
    let answers = dial(&[call_host("::1", port), bad, call_host("[::1]", port)]);
    assert_eq!(answers[0].as_ref().unwrap().status, 200);
    assert_eq!(answers[1], Err(Fault::Local("unknown interface `nosuchif`".into())));
    assert_eq!(answers[2].as_ref().unwrap().status, 200);
    for _ in 0..2 {
        let head = seen.recv().unwrap().to_ascii_lowercase();
        assert!(head.contains(&format!("\r\nhost: [::1]:{port}\r\n")), "{head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
        assert!(head.contains("\r\nuser-agent: crowny-fed/"), "{head}");
        assert!(!head.contains("accept-encoding"), "{head}");
    }
}

#[test]
fn o02_a_known_zone_reaches_the_connect() {
    let interface = if cfg!(target_os = "macos") { "lo0" } else { "lo" };
    let zoned =
        Call { timeout: Duration::from_secs(1), ..call_host(&format!("fe80::1%{interface}"), 1) };
    let fault = one(zoned).unwrap_err();
    assert!(!fault.to_string().contains("unknown interface"), "{fault}");
}

#[test]
fn o03_a_korean_name_is_asked_once_and_sent_as_a_label() {
    let (lookup, asked) = names(&[("xn--2i4bq6h.example.com", [127, 0, 0, 1])]);
    let (heads, seen) = mpsc::channel();
    let heads = Mutex::new(heads);
    let peer = peer(move |mut stream| {
        heads.lock().unwrap().send(head(&mut stream)).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let typed = [
        "서울.example.com",
        "\u{1109}\u{1165}\u{110b}\u{116e}\u{11af}.example.com",
        "XN--2I4BQ6H.EXAMPLE.COM",
    ];
    let calls = typed.map(|host| call_host(host, peer.port()));
    let dialer = Dialer::new(Options { lookup, ..Options::default() });
    let answers = dialer.dial(&calls, Instant::now() + LIMIT);
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().status == 200));
    for _ in typed {
        let head = seen.recv().unwrap();
        assert!(head.is_ascii());
        assert!(head.contains(&format!("xn--2i4bq6h.example.com:{}\r\n", peer.port())), "{head}");
    }
    assert_eq!(asked.lock().unwrap()["xn--2i4bq6h.example.com"], 1);
}

#[test]
fn o06_every_status_is_a_reply() {
    let statuses = [200, 204, 401, 403, 404, 500, 502, 503, 599, 999];
    let calls = statuses.map(|status| {
        let line = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
        call(answering(line))
    });
    let answers = dial(&calls);
    let seen: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap().status).collect();
    assert_eq!(seen, statuses);
}

#[test]
fn a_redirect_is_an_answer_and_is_not_followed() {
    let other = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&other);
    let target = peer(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let from = answering(format!("HTTP/1.1 302 Found\r\nLocation: http://{target}/\r\n\r\n"));
    assert_eq!(one(reading(from)).unwrap().status, 302);
    assert_eq!(other.load(Ordering::SeqCst), 0);
}

#[test]
fn a_name_without_address_is_dns_and_a_member_may_not_name_loopback() {
    let (lookup, _) = names(&[("inside.test", [127, 0, 0, 1])]);
    let dialer = Dialer::new(Options { lookup, ..Options::default() });
    let open = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let inside = |loopback| Call {
        targets: Targets::Member { loopback },
        ..call_host("inside.test", open.port())
    };
    let calls = [call_host("nobody.test", 80), inside(false), inside(true)];
    let answers = dialer.dial(&calls, Instant::now() + LIMIT);
    assert_eq!(answers[0], Err(Fault::Dns("`nobody.test` has no address".into())));
    let refused = answers[1].as_ref().unwrap_err();
    assert_eq!(refused.to_string(), "local: loopback address 127.0.0.1, refused for members");
    assert_eq!(answers[2].as_ref().unwrap().status, 200);
}

#[test]
fn o08_proxy_variables_are_ignored() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let proxy = peer(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let healthy = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "o08_child", "--ignored", "--nocapture"]);
    child.env("CROWNY_FED_TEST_PEER", healthy.to_string());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
        child.env(name, format!("http://{proxy}"));
    }
    child.env("ALL_PROXY", format!("socks5://{proxy}"));
    let output = child.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nothing may leave through the proxy");
}

#[test]
#[ignore = "run by o08_proxy_variables_are_ignored with proxies in its environment"]
fn o08_child() {
    let peer = std::env::var("CROWNY_FED_TEST_PEER").unwrap();
    assert_eq!(one(call(peer.parse().unwrap())).unwrap().status, 200);
}

#[test]
fn o10_each_wrong_peer_has_its_own_reason() {
    let banner = |bytes: &'static [u8]| {
        peer(move |mut stream| {
            let _ = stream.write_all(bytes);
            let _ = stream.read(&mut [0; 1024]);
        })
    };
    let text = "<center>The plain HTTP request was sent to HTTPS port</center>";
    let hint = format!("HTTP/1.1 400 Bad Request\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    let tls = banner(b"\x15\x03\x01\x00\x02\x02\x46");
    let ssh = banner(b"SSH-2.0-OpenSSH_9.6\r\n");
    let cut = answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{\"node\":\"x\",\"status\":\"ok\",\"version\":\"1\"}",
    );
    let closing = peer(|mut stream| {
        head(&mut stream);
    });
    // Closing with unread bytes makes the kernel send a reset.
    let resetting = peer(|mut stream| {
        let _ = stream.read(&mut [0]);
    });
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let answers = dial(&[
        call(tls),
        call(ssh),
        call(answering(hint.clone())),
        reading(answering(hint)),
        reading(cut),
        call(closing),
        call(resetting),
        call(gone),
    ]);
    assert_eq!(answers[0].as_ref().unwrap_err().word(), "not-http");
    assert_eq!(answers[1], Err(Fault::NotHttp("the answer is an SSH banner".into())));
    let hinted = answers[2].as_ref().unwrap();
    assert!(hinted.speaks_tls && hinted.status == 400 && hinted.extent == Extent::Unread);
    assert!(answers[3].as_ref().unwrap().speaks_tls);
    let cut = answers[4].as_ref().unwrap();
    assert_eq!((cut.status, cut.extent, cut.body.len()), (200, Extent::Cut, 40));
    assert_eq!(answers[5], Err(Fault::Reset));
    assert_eq!(answers[6], Err(Fault::Reset));
    assert_eq!(answers[7], Err(Fault::Refused));
}

#[test]
fn a_body_without_length_ends_whole_at_the_close() {
    let reply = one(reading(answering("HTTP/1.1 200 OK\r\n\r\nall of it"))).unwrap();
    assert_eq!((reply.extent, reply.body.as_slice()), (Extent::Whole, b"all of it".as_slice()));
}

#[test]
fn a_post_carries_its_headers_and_exact_body_and_hears_an_early_refusal() {
    let echo = peer(|mut stream| {
        let head = head(&mut stream).to_ascii_lowercase();
        let mut body = [0; 5];
        stream.read_exact(&mut body).unwrap();
        let text = format!("{head}{}", String::from_utf8_lossy(&body));
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len());
    });
    let early = peer(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.shutdown(Shutdown::Write);
        let _ = io::copy(&mut stream, &mut io::sink());
    });
    let post = |peer, body: &[u8]| Call {
        method: Method::Post,
        path: "/register?x=1".into(),
        headers: vec![("X-Kid".into(), "152eb291".into())],
        body: body.into(),
        ..reading(peer)
    };
    let answers = dial(&[post(echo, b"hello"), post(early, &vec![0; 1 << 20])]);
    let seen = String::from_utf8(answers[0].as_ref().unwrap().body.clone()).unwrap();
    assert!(seen.starts_with("post /register?x=1 http/1.1\r\n"), "{seen}");
    for line in ["\r\ncontent-length: 5\r\n", "\r\nx-kid: 152eb291\r\n", "\r\n\r\nhello"] {
        assert!(seen.contains(line), "{seen}");
    }
    assert_eq!(answers[1].as_ref().unwrap().status, 413);
}

#[test]
fn a_request_that_cannot_be_sent_is_local() {
    let peer = answering("HTTP/1.1 200 OK\r\n\r\n");
    let long = Call { headers: vec![("X".into(), "a".repeat(9000))], ..call(peer) };
    let bad = Call { headers: vec![("X".into(), "a\nb".into())], ..call(peer) };
    for answer in dial(&[long, bad]) {
        assert_eq!(answer.unwrap_err().word(), "local");
    }
}
