//! Every answer that the table in docs/operations.md names is one that the real server gives.

use crate::federation::{Federation, Member, ORIGIN, repository};
use crate::harness::{Answer, Serving};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Rows of the table that take broken framing or ten seconds to see; `tests/http` sees them.
const SEEN_ELSEWHERE: [&str; 2] = ["body-broken", "request-timeout"];

/// Status and `error` of each row of the table.
fn table() -> BTreeSet<(u16, String)> {
    let text = std::fs::read_to_string(repository("docs/operations.md")).unwrap();
    let section = text.split("\n## Answers over HTTP").nth(1).expect("the table's section");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| {
        let mut cells = row.split(" | ");
        let status = cells.next()?.parse().ok()?;
        Some((status, cells.next()?.trim_matches('`').to_owned()))
    })
    .collect()
}

/// The answers seen so far.
struct Seen<'a> {
    fed: &'a Federation,
    answers: BTreeSet<(u16, String)>,
}

impl Seen<'_> {
    /// Notes an answer, which must be a problem with this status, word and reason.
    fn note(&mut self, answer: &Answer, (status, error): (u16, &str), words: &str) {
        let body = answer.json();
        assert_eq!((answer.status, &body["error"]), (status, &error.into()), "{body}");
        assert_eq!((&body["type"], &body["status"]), (&"about:blank".into(), &status.into()));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert!(body["message"].as_str().unwrap().contains(words), "{body}");
        self.answers.insert((status, error.to_owned()));
    }

    fn post(&mut self, path: &str, body: &str, expected: (u16, &str), words: &str) {
        let lines = self.fed.lines();
        let answer = self.fed.post(path, body);
        self.note(&answer, expected, words);
        assert_eq!(self.fed.lines(), lines, "a refusal wrote a line");
    }

    fn get(&mut self, (method, path, headers): (&str, &str, &str), expected: (u16, &str)) {
        let answer = self.fed.serving.ask(method, path, headers);
        self.note(&answer, expected, "");
    }
}

impl Federation {
    /// Enrols a member by hand and registers it.
    fn admit(&self, node: &str, seed: u8, service: &str) -> Member {
        let mut member = Member::new(node, seed);
        let enrolment = member.enrolment(&self.invite(&[node]), self.now_s());
        assert_eq!(self.post("/enroll", &enrolment).status, 200);
        let payload = member.payload(self.now_s(), Member::offer(1, "http://127.0.0.1:9", service));
        assert_eq!(self.post("/register", &member.body("register", &payload)).status, 200);
        member
    }
}

#[test]
fn the_table_of_answers_is_what_the_server_answers() {
    let fed = Federation::found();
    let mut seen = Seen { fed: &fed, answers: BTreeSet::new() };
    reads(&mut seen);
    let mut gw2 = fed.admit("gw2", 2, "shop");
    signatures(&mut seen, &mut gw2);
    contents(&mut seen, &mut gw2);
    pace(&mut seen);
    let payload = gw2.payload(fed.now_s(), json!({ "on": true }));
    std::fs::remove_file(fed.folder.join("anchor/used-nonces.log")).unwrap();
    seen.post("/drain", &gw2.body("drain", &payload), (503, "not-now"), "used-nonces.log was lost");

    broken(&mut seen);

    let (told, known) = (table(), seen.answers);
    let untold: Vec<_> = known.difference(&told).collect();
    let unseen: Vec<_> =
        told.difference(&known).filter(|row| !SEEN_ELSEWHERE.contains(&row.1.as_str())).collect();
    assert!(untold.is_empty() && unseen.is_empty(), "not told: {untold:?}, not seen: {unseen:?}");
}

/// What needs no signature to be refused.
fn reads(seen: &mut Seen<'_>) {
    seen.get(("GET", "/proof?seq=99", ""), (404, "not-found"));
    seen.get(("GET", "/proof?seq=-1", ""), (400, "bad-request"));
    seen.get(("GET", "/consistency?old=0&new=2", ""), (400, "bad-request"));
    seen.get(("DELETE", "/register", ""), (405, "method-not-allowed"));
    seen.get(("GET", "/head", "Origin: http://evil.example\r\n"), (403, "origin-not-allowed"));
    let port = seen.fed.serving.port;
    let rebound =
        Answer::to(port, b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    seen.note(&rebound, (403, "host-not-allowed"), "");
    seen.get(("POST", "/register", "Content-Length: 0\r\n"), (415, "content-type-not-json"));
    let json = "Content-Type: application/json\r\nContent-Length: 70000\r\n";
    seen.get(("POST", "/register", json), (413, "body-too-large"));
    let long = Answer::to(
        port,
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(64 << 10))
            .as_bytes(),
    );
    assert_eq!((long.status, long.body.len()), (431, 0));
    seen.answers.insert((431, "-".to_owned()));
}

/// A folder without a federation, and a journal that was changed.
fn broken(seen: &mut Seen<'_>) {
    let nothing = Serving::start(&seen.fed.folder, "nothing", 0, &[]);
    seen.note(&nothing.get("/head"), (503, "not-available"), "no federation");
    let journal = seen.fed.folder.text("anchor/nodes.ndjson");
    seen.fed.folder.write("anchor/nodes.ndjson", journal.replacen("shop", "shoq", 1));
    seen.get(("GET", "/verify", ""), (500, "integrity"));
}

/// Who speaks, and when: the four classic checks, and those about keys.
fn signatures(seen: &mut Seen<'_>, gw2: &mut Member) {
    let (fed, now_s) = (seen.fed, seen.fed.now_s());
    seen.post("/register", "{\"mode\":1}", (400, "malformed"), "body");
    let mut stranger = Member::new("gw7", 7);
    let payload = stranger.payload(now_s, json!({ "on": true }));
    seen.post("/drain", &stranger.body("drain", &payload), (401, "unknown-key"), "gw7");
    let forged = Member::new("gw2", 7);
    let payload = gw2.payload(now_s, json!({ "on": true }));
    seen.post("/drain", &forged.body("drain", &payload), (403, "signature"), "does not hold");
    seen.post("/leave", &gw2.body("drain", &payload), (403, "signature"), "does not hold");
    let enrolment = stranger.enrolment(&fed.invite(&["gw8"]), now_s);
    seen.post("/enroll", &enrolment, (403, "signature"), "does not hold");

    let good = gw2.body("drain", &payload);
    assert_eq!(fed.post("/drain", &good).status, 200, "a forgery burnt the nonce");
    seen.post("/drain", &good, (409, "nonce-used"), "it made line");
    let early = gw2.payload(now_s + 400, json!({ "on": true }));
    seen.post("/drain", &gw2.body("drain", &early), (408, "clock-skew"), "s ahead");
    let late = gw2.payload(now_s - 400, json!({ "on": true }));
    seen.post("/drain", &gw2.body("drain", &late), (408, "clock-skew"), "s behind");
}

/// What is said by whoever may speak.
fn contents(seen: &mut Seen<'_>, gw2: &mut Member) {
    let (fed, now_s) = (seen.fed, seen.fed.now_s());
    fed.admit("gw3", 3, "api");
    let mut register = |offer: Value| {
        let payload = gw2.payload(now_s, offer);
        gw2.body("register", &payload)
    };
    let taken = register(Member::offer(2, "http://127.0.0.1:9", "api"));
    seen.post("/register", &taken, (403, "service-not-granted"), "'api'");
    let stale = register(Member::offer(1, "http://127.0.0.1:8", "shop"));
    seen.post("/register", &stale, (409, "conflict"), "stale: incarnation 1");
    for url in ["http://169.254.169.254", "http://0.0.0.0:9", "http://[fe80::1]:9"] {
        let inside = register(Member::offer(2, url, "shop"));
        seen.post("/register", &inside, (400, "malformed"), "points to");
    }
    let mut long = Member::offer(2, "http://127.0.0.1:9", "shop");
    let url = format!("http://{}:9", ["h".repeat(60), "h".repeat(60)].join("."));
    long["services"] = (0..32)
        .map(|number| json!({ "name": format!("s{number}"), "url": url, "weight": 1 }))
        .collect();
    let long = register(long);
    seen.post("/register", &long, (413, "too-large"), "limit 4096");
}

/// 20 lines at once, then one a minute.
fn pace(seen: &mut Seen<'_>) {
    let fed = seen.fed;
    let mut gw4 = fed.admit("gw4", 4, "pace");
    for incarnation in 2..=20 {
        let offer = Member::offer(incarnation, "http://127.0.0.1:9", "pace");
        let payload = gw4.payload(fed.now_s(), offer);
        assert_eq!(fed.post("/register", &gw4.body("register", &payload)).status, 200);
    }
    let payload = gw4.payload(fed.now_s(), Member::offer(21, "http://127.0.0.1:9", "pace"));
    let body = gw4.body("register", &payload);
    seen.post("/register", &body, (429, "too-many-lines"), "try again in");
    assert!(fed.good(&["verify", "--full"]).contains(ORIGIN));
}
