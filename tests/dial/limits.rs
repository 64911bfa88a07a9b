//! No peer, name or crowd holds a call beyond its end or memory beyond its cap.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crowny_fed::host::dial::{Dialer, Lookup, Options};
use crowny_fed::wire::call::{BODY_MAX, Call, Extent, Fault, Method};

use crate::peers::{LIMIT, answering, call, call_host, dial, head, one, peer, reading};

#[test]
fn o01_a_trickling_peer_ends_at_the_limit_and_delays_nobody() {
    let drip = |start: &'static str| {
        peer(move |mut stream| {
            head(&mut stream);
            let _ = stream.write_all(start.as_bytes());
            while stream.write_all(b"a").is_ok() {
                thread::sleep(Duration::from_millis(200));
            }
        })
    };
    let in_head = drip("HTTP/1.1 200 OK\r\nX-Pad: ");
    let in_body = drip("HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n");
    let quick = answering("HTTP/1.1 204 No Content\r\n\r\n");
    let began = Instant::now();
    let answers = dial(&[call(in_head), reading(in_body), call(quick)]);
    assert!(began.elapsed() <= Duration::from_millis(3300), "{:?}", began.elapsed());
    assert_eq!(answers[0], Err(Fault::Timeout));
    let body = answers[1].as_ref().unwrap();
    assert_eq!((body.status, body.extent), (200, Extent::Cut));
    assert!(!body.body.is_empty());
    assert!(answers[2].as_ref().unwrap().head_after < Duration::from_secs(1));
}

#[test]
fn a_peer_that_reads_nothing_cannot_hold_a_long_body() {
    let deaf = peer(|stream| {
        thread::sleep(Duration::from_secs(20));
        drop(stream);
    });
    let post = Call { method: Method::Post, body: vec![b'x'; 16 << 20], ..reading(deaf) };
    let began = Instant::now();
    assert_eq!(one(Call { timeout: Duration::from_secs(1), ..post }), Err(Fault::Timeout));
    assert!(began.elapsed() <= Duration::from_millis(3300));
}

#[test]
fn o07_a_hanging_lookup_is_dns_and_is_not_asked_twice() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        loop {
            thread::park();
        }
    });
    let dialer = Dialer::new(Options { lookup, ..Options::default() });
    let healthy = answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let calls = [call_host("gw1.example.com", 80), call(healthy)];
    let began = Instant::now();
    let answers = dialer.dial(&calls, began + Duration::from_secs(20));
    assert!(began.elapsed() <= Duration::from_millis(3300), "{:?}", began.elapsed());
    assert_eq!(answers[0].as_ref().unwrap_err().word(), "dns");
    assert_eq!(answers[1].as_ref().unwrap().status, 200);

    let again = dialer.dial(&calls[..1], Instant::now() + Duration::from_millis(100));
    assert_eq!(again[0].as_ref().unwrap_err().word(), "dns");
    assert_eq!(asked.load(Ordering::SeqCst), 1, "one thread per name");
}

#[test]
fn o07_lookups_that_hang_are_bounded_by_the_slots() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let lookup: Lookup = Arc::new(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        loop {
            thread::park();
        }
    });
    let dialer = Dialer::new(Options { lookup, slots: 2, ..Options::default() });
    let short = |name: &str| Call { timeout: Duration::from_millis(50), ..call_host(name, 80) };
    let calls = ["a.test", "b.test", "c.test", "d.test"].map(short);
    let answers = dialer.dial(&calls, Instant::now() + LIMIT);
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap_err().word() == "dns"));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[test]
fn o09_endless_bodies_and_heads_stop_at_their_caps() {
    let endless = peer(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [b"1000\r\n".as_slice(), &[0; 4096], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {}
    });
    let bomb = answering(
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n".as_slice(), &vec![7; 2 << 20]]
            .concat(),
    );
    let header = |size: usize| {
        let line = format!("X-Pad: {}\r\n", "a".repeat(1000));
        answering(format!("HTTP/1.1 200 OK\r\n{}\r\n", line.repeat(size / line.len())))
    };
    let began = Instant::now();
    let answers = dial(&[
        call(endless),
        reading(endless),
        reading(bomb),
        call(header(10 << 20)),
        call(header(12 << 10)),
    ]);
    assert!(began.elapsed() <= LIMIT, "{:?}", began.elapsed());
    let reply = |index: usize| answers[index].as_ref().unwrap();
    assert_eq!((reply(0).status, reply(0).extent), (200, Extent::Unread));
    assert_eq!((reply(1).extent, reply(1).body.len()), (Extent::TooLarge, BODY_MAX));
    assert_eq!((reply(2).extent, reply(2).body.len()), (Extent::TooLarge, BODY_MAX));
    assert_eq!(answers[3], Err(Fault::NotHttp("response head over 16384 bytes".into())));
    assert_eq!(reply(4).status, 200, "a long but honest head fits");
}

#[test]
fn five_hundred_answers_come_back_in_the_order_of_the_calls() {
    let echo = || {
        peer(|mut stream| {
            let path = head(&mut stream).split(' ').nth(1).unwrap().to_owned();
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
        })
    };
    let peers: Vec<_> = (0..10).map(|_| echo()).collect();
    let calls: Vec<_> = (0..500)
        .map(|n| Call {
            path: format!("/{n}"),
            timeout: Duration::from_secs(20),
            ..reading(peers[n % 10])
        })
        .collect();
    for (n, answer) in dial(&calls).into_iter().enumerate() {
        assert_eq!(answer.unwrap().body, format!("/{n}").into_bytes());
    }
}

#[test]
fn the_deadline_ends_calls_under_way_and_leaves_the_rest_unasked() {
    let (keep, _kept) = mpsc::channel();
    let keep = Mutex::new(keep);
    let silent = peer(move |stream| keep.lock().unwrap().send(stream).unwrap());
    let calls = vec![Call { timeout: Duration::from_secs(60), ..call(silent) }; 20];
    let dialer = Dialer::new(Options { slots: 8, ..Options::default() });
    let began = Instant::now();
    let answers = dialer.dial(&calls, began + Duration::from_secs(1));
    assert!(began.elapsed() <= Duration::from_secs(4), "{:?}", began.elapsed());
    let count = |fault: Fault| answers.iter().filter(|it| **it == Err(fault.clone())).count();
    assert_eq!((count(Fault::Timeout), count(Fault::Unasked)), (8, 12));
}
