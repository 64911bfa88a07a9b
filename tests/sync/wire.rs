//! What a sync costs on the wire, counted by a proxy that looks at nothing (design section 17):
//! the missing bytes and 1.5 KiB, headers included; equal heads at most 300 bytes.

use crate::federation::{Federation, Node};
use crate::harness::{full, url};
use crowny_fed::journal::chain::origin_hash;
use crowny_fed::journal::merkle::leaf_hash;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};

/// Beside the lines themselves, headers of `/sync` included.
const BESIDE_BYTES_MAX: u64 = 1_536;
/// The whole answer to `/head`.
const HEAD_BYTES_MAX: u64 = 300;

/// One connection: the request's path, and bytes of the answer.
type Counted = Arc<Mutex<Vec<(String, u64)>>>;

/// Passes bytes on and counts those that come back.
struct Counter {
    port: u16,
    counted: Counted,
    /// Held while a connection is passed on: whoever has its answer is counted only after it.
    passing: Arc<Mutex<()>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Counter {
    fn before(target: u16) -> Counter {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (counted, over) = (Counted::default(), Arc::new(AtomicBool::new(false)));
        let (into, ended) = (Arc::clone(&counted), Arc::clone(&over));
        let passing = Arc::new(Mutex::new(()));
        let held = Arc::clone(&passing);
        let thread = spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let (client, into) = (stream.unwrap(), Arc::clone(&into));
                let _passing = held.lock().unwrap();
                pass(client, TcpStream::connect(("127.0.0.1", target)).unwrap(), &into);
            }
        });
        Counter { port, counted, passing, over, thread: Some(thread) }
    }

    /// Paths and answer bytes since the last look.
    fn taken(&self) -> Vec<(String, u64)> {
        let _passing = self.passing.lock().unwrap();
        std::mem::take(&mut *self.counted.lock().unwrap())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// One connection to its end.
fn pass(client: TcpStream, server: TcpStream, counted: &Counted) {
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let asking = spawn(move || copy(from, to));
    let (_, answered) = copy(server, client.try_clone().unwrap());
    let _ = client.shutdown(Shutdown::Both);
    let (head, _) = asking.join().unwrap();
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    counted.lock().unwrap().push((path, answered));
}

/// Moves bytes until one side ends: the first of them, and how many.
fn copy(mut from: TcpStream, mut to: TcpStream) -> (Vec<u8>, u64) {
    let (mut first, mut count) = (Vec::new(), 0);
    let mut bytes = [0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        if first.is_empty() {
            first = bytes[..read.min(512)].to_vec();
        }
        count += read as u64;
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    (first, count)
}

/// A member with `lines` lines that asks through a counter.
fn counted(lines: u64) -> (Federation, Node, Counter) {
    let fed = Federation::found();
    let node = fed.join("n1");
    let mut left = lines - fed.anchor.size();
    while left > 0 {
        let now = left.min(20_000);
        fed.grow(now);
        left -= now;
    }
    node.fed(&["sync"]).quiet();
    assert_eq!(node.size(), lines);
    let counter = Counter::before(fed.anchor.port);
    node.follow(&url(counter.port));
    (fed, node, counter)
}

fn missing_lines_cost_little(lines: u64, missing: u64) {
    let (fed, node, counter) = counted(lines);
    let before = fed.anchor.bytes("nodes.ndjson").len();
    fed.grow(missing);
    let wanted = (fed.anchor.bytes("nodes.ndjson").len() - before) as u64;
    node.fed(&["sync"]).quiet();
    assert_eq!(node.size(), lines + missing);
    let taken = counter.taken();
    let pages: Vec<u64> = taken
        .iter()
        .filter(|(path, _)| path.starts_with("/sync"))
        .map(|(_, count)| *count)
        .collect();
    let heads: Vec<u64> =
        taken.iter().filter(|(path, _)| path == "/head").map(|(_, count)| *count).collect();
    assert_eq!((pages.len(), heads.len(), taken.len()), (1, 1, 2), "{taken:?}");
    println!(
        "{lines} lines, {missing} missing: /sync {} bytes for {wanted} bytes of lines ({} beside), /head {}",
        pages[0],
        pages[0] - wanted,
        heads[0]
    );
    assert!(pages[0] + heads[0] <= wanted + BESIDE_BYTES_MAX, "{taken:?}");

    node.fed(&["sync"]).quiet();
    let taken = counter.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert!(taken[0].0 == "/head" && taken[0].1 <= HEAD_BYTES_MAX, "{taken:?}");
}

#[test]
fn ten_missing_of_ten_thousand_lines() {
    missing_lines_cost_little(10_000, 10);
}

#[test]
fn one_missing_of_many_lines() {
    if !full() {
        println!("skipped: long form: make full");
        return;
    }
    missing_lines_cost_little(200_000, 1);
}

#[test]
fn pages_are_bounded_whole_lines_under_the_checkpoint() {
    let fed = Federation::found();
    fed.grow(6_000);
    let lines = fed.anchor.lines();
    let since = |size: usize| match size {
        0 => origin_hash(crate::federation::ORIGIN),
        size => leaf_hash(lines[size - 1].as_bytes()),
    };
    for (size, most) in [(0, 0), (0, 1 << 30), (1, 40_000), (5_990, 1 << 20), (lines.len(), 1)] {
        let answer = fed.get(&format!("/sync?size={size}&since={}&most={most}", since(size)));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.head.to_lowercase().contains("cache-control: no-store"), "{}", answer.head);
        let text = answer.text();
        let empty = text.strip_prefix('\n').map(|end| ("", end));
        let (page, end) = empty.unwrap_or_else(|| text.split_once("\n\n").unwrap());
        let count = page.lines().count();
        assert!(page.len() < most.clamp(32 << 10, 1 << 20), "{} bytes of {most}", page.len());
        assert!(page.lines().eq(lines[size..size + count].iter()), "from {size}");
        let note = fed.anchor.text("federation-root.txt");
        let proof = end.strip_prefix(&note).unwrap_or_else(|| panic!("{end}"));
        assert_eq!(proof.is_empty(), size + count == lines.len(), "{proof}");
    }
    for question in [
        "".to_owned(),
        "?size=0".to_owned(),
        format!("?since={}", since(0)),
        format!("?size=-1&since={}", since(0)),
        format!("?size=01&since={}", since(1)),
        "?size=0&since=xyz".to_owned(),
        format!("?size=0&since={}&most=many", since(0)),
        format!("?size=0&since={}&locator=1", since(0)),
        format!(
            "?size=0&since={}&locator={}1.{}",
            since(0),
            format!("1.{},", since(1)).repeat(32),
            since(1)
        ),
    ] {
        let answer = fed.get(&format!("/sync{question}"));
        assert_eq!(answer.status, 400, "{question}: {}", answer.text());
    }
}

#[test]
fn an_unknown_place_is_answered_with_what_is_shared() {
    let fed = Federation::found();
    fed.grow(50);
    let lines = fed.anchor.lines();
    let place = |size: usize| format!("{size}.{}", leaf_hash(lines[size - 1].as_bytes()));
    let none = leaf_hash(b"never");
    let cases = [
        (format!("&locator={},9.{none},{}", place(7), place(3)), Some(7)),
        (format!("&locator=9.{none},99.{none}"), None),
        (String::new(), None),
    ];
    for (locator, common) in cases {
        for size in [10, lines.len(), lines.len() + 1, 1 << 40] {
            let answer = fed.get(&format!("/sync?size={size}&since={none}{locator}"));
            assert_eq!(answer.status, 409, "{}", answer.text());
            let told = answer.json();
            assert_eq!(told["error"], "unknown-position");
            assert_eq!(told["checkpoint"], fed.anchor.text("federation-root.txt"));
            assert_eq!(told["common"].as_u64(), common, "{locator}");
        }
    }
}
