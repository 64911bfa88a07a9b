//! `probe` against peers that are slow, broken, hostile or not there.

use crate::harness::{Folder, ROSTER, Ran, Serving, fed_in, row};
use crate::peers::{Peer, Vacant, answer, empty};
use crate::world::with_etc;
use std::io::Write;
use std::net::UdpSocket;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What one row says: verdict, http, reason.
fn told(folder: &Folder, id: &str) -> (String, String, String) {
    let rows = folder.status("d");
    let fields = &rows[id];
    (fields[4].clone(), fields[5].clone(), fields[8].clone())
}

fn reason(folder: &Folder, id: &str) -> String {
    told(folder, id).2
}

fn host(head: &str) -> String {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut hosts = lines.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let found = hosts.next().unwrap().1.to_owned();
    assert!(hosts.next().is_none() && head.is_ascii(), "{head}");
    found
}

#[test]
fn o01_a_trickling_peer_times_out_alone() {
    let folder = Folder::new();
    let slow1 = Peer::new(|_, mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX-Pad: ");
        for _ in 0..75 {
            sleep(Duration::from_millis(200));
            if stream.write_all(b"a").is_err() {
                return;
            }
        }
    });
    let well = Peer::status(200);
    folder.roster("d", &[row("a", well.port), row("slow1", slow1.port), row("z", well.port)]);
    let began = Instant::now();
    folder.good("d", &["probe"]);
    let took = began.elapsed();
    assert_eq!(told(&folder, "slow1"), ("타".into(), "000".into(), "timeout".into()));
    assert!(took >= Duration::from_secs(3) && took < Duration::from_secs(10), "{took:?}");
    for id in ["a", "z"] {
        assert_eq!(told(&folder, id), ("티".into(), "200".into(), String::new()));
    }
}

#[test]
fn o02_ipv6_is_bracketed_and_a_wrong_zone_costs_its_row_only() {
    let folder = Folder::new();
    let Ok(six) = Peer::at("[::1]:0", |_, mut stream, _| {
        let _ = stream.write_all(empty(200).as_bytes());
    }) else {
        eprintln!("skipped: no IPv6 loopback here");
        return;
    };
    let interface = if cfg!(target_os = "macos") { "lo0" } else { "lo" };
    let (four, port) = (Peer::status(200), six.port);
    let rows = [
        format!("a|::1|{port}|edge|active"),
        format!("b|[::1]|{port}|edge|active"),
        format!("ll|fe80::1%{interface}|1|edge|active"),
        "bad|fe80::2%nosuchif|8080|edge|active".to_owned(),
        row("c", four.port),
    ];
    folder.roster("d", &rows);
    folder.good("d", &["probe", "--host-header", "auto"]);
    for id in ["a", "b", "c"] {
        assert_eq!(told(&folder, id).0, "티", "{id}");
    }
    let hosts: Vec<String> = six.heads().iter().map(|head| host(head)).collect();
    assert_eq!(hosts, [format!("[::1]:{port}"), format!("[::1]:{port}")]);
    assert_eq!(host(&four.heads()[0]), format!("127.0.0.1:{}", four.port));
    assert!(reason(&folder, "bad").contains("unknown interface `nosuchif`"));
    assert!(!reason(&folder, "ll").contains("unknown interface"));

    folder.good("d", &["probe"]);
    assert_eq!(host(&four.heads()[1]), "crowny.org", "the host header of the Q-peer rule");
}

const SEOUL: [(&str, &str); 3] = [
    ("composed", "서울.example.com"),
    ("decomposed", "\u{1109}\u{1165}\u{110b}\u{116e}\u{11af}.example.com"),
    ("label", "XN--2I4BQ6H.EXAMPLE.COM"),
];

#[test]
fn o03_every_spelling_of_a_korean_name_is_asked_as_one_label() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.roster("d", &SEOUL.map(|(id, host)| format!("{id}|{host}|{}|edge|active", peer.port)));
    let hosts = ("hosts", "127.0.0.1 xn--2i4bq6h.example.com\n");
    let args = ["--dir", "d", "probe", "--host-header", "auto"];
    let Some(ran) = with_etc(&folder, hosts, &args) else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let sent: Vec<String> = peer.heads().iter().map(|head| host(head)).collect();
    assert_eq!(sent, vec![format!("xn--2i4bq6h.example.com:{}", peer.port); 3]);
}

#[test]
fn o03_a_name_that_is_none_costs_its_row_only() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    let mut rows = SEOUL.map(|(id, host)| format!("{id}|{host}|1|edge|active")).to_vec();
    rows.push("long|".to_owned() + &"가".repeat(64) + ".invalid|1|edge|active");
    rows.push("broken|xn--a.invalid|1|edge|active".to_owned());
    rows.push(row("well", peer.port));
    folder.roster("d", &rows);
    let ran = folder.fed("d", &["probe", "--timeout", "2s"]);
    assert_eq!(ran.code, Some(4), "{}", ran.err);
    let lines: Vec<&str> = ran.err.lines().collect();
    assert!(lines[0].contains(" line 4: ") && lines[1].contains(" line 5: "), "{}", ran.err);
    for (id, _) in SEOUL {
        assert!(reason(&folder, id).starts_with("dns: "), "{}", reason(&folder, id));
    }
    assert_eq!(told(&folder, "well").0, "티");
}

#[test]
fn o04_bom_crlf_and_a_missing_last_newline_leave_no_trace() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    let text =
        format!("\u{feff}{}\r\n# 주석\r\n\r\n{}", row("n1", peer.port), row("n2", peer.port));
    folder.write(&format!("d/{ROSTER}"), &text);
    folder.good("d", &["probe"]);
    let listed = folder.good("d", &["failover"]);
    assert_eq!(listed, format!("n1|127.0.0.1|{0}\nn2|127.0.0.1|{0}\n", peer.port));
    let status = folder.text("d/피어상태.psv");
    assert!(!status.contains(['\r', '\u{feff}']), "{status}");
    assert_eq!(folder.status("d").len(), 2);
}

#[test]
fn o04_utf16_is_named_and_never_an_empty_success() {
    let folder = Folder::new();
    let wide = "\u{feff}n1|127.0.0.1|18003|edge|active\r\n".encode_utf16();
    let bytes: Vec<u8> = wide.flat_map(u16::to_le_bytes).collect();
    folder.write(&format!("d/{ROSTER}"), bytes);
    for verb in ["probe", "failover"] {
        folder.fed("d", &[verb]).refuses(1, "UTF-16");
    }
    assert!(!folder.join("d/피어상태.psv").exists());
}

#[test]
fn o05_each_bad_row_is_named_and_the_rest_is_done() {
    let folder = Folder::new();
    let (one, six) = (Peer::status(200), Peer::status(200));
    let rows = [
        row("n1", one.port),
        "n2|127.0.0.1|18004|edge|x | y|active".into(),
        "n3|127.0.0.1|70000|edge|active".into(),
        "n4|127.0.0.1|+80|edge|active".into(),
        "n5|127.0.0.1||edge|active".into(),
        format!(" n6 |127.0.0.1|{}|edge| active ", six.port),
        "n7|127.0.0.1|18007".into(),
    ];
    folder.roster("d", &rows);
    let ran = folder.fed("d", &["probe"]);
    assert_eq!(ran.code, Some(4));
    let named: Vec<&str> = ran.err.lines().collect();
    let expected = [
        "line 2: 7 columns",
        "line 3: port '70000'",
        "line 4: port '+80'",
        "line 5: port ''",
        "line 7: 3 columns",
    ];
    assert_eq!(named.len(), expected.len(), "{}", ran.err);
    for (line, words) in named.iter().zip(expected) {
        assert!(line.contains(ROSTER) && line.contains(words), "{line}");
    }
    let ids: Vec<String> = folder.status("d").into_keys().collect();
    assert_eq!(ids, ["n1", "n6"]);
    let listed = folder.good("d", &["failover"]);
    assert_eq!(listed, format!("n1|127.0.0.1|{}\nn6|127.0.0.1|{}\n", one.port, six.port));
}

#[test]
fn o06_one_mapping_of_statuses_in_probe_failover_and_serve() {
    let folder = Folder::new();
    let statuses = [200, 204, 401, 403, 404, 500, 502, 503, 599, 999];
    let peers = statuses.map(Peer::status);
    let rows: Vec<String> = statuses
        .iter()
        .zip(&peers)
        .map(|(code, peer)| row(&format!("s{code}"), peer.port))
        .collect();
    folder.roster("d", &rows);
    let table = folder.good("d", &["probe"]);
    let serving = Serving::start(&folder, "d", 0, &[]);
    let served = serving.ask("GET", "/q/peers", "Accept: application/json\r\n").json();
    for (at, code) in statuses.iter().enumerate() {
        let id = format!("s{code}");
        let (word, english, why) = if *code < 500 {
            ("티", "ok", String::new())
        } else {
            ("타", "down", format!("http {code}"))
        };
        assert_eq!(told(&folder, &id), (word.into(), code.to_string(), why));
        let line = table.lines().find(|line| line.contains(&id)).unwrap();
        assert!(line.contains(word) && line.contains(&code.to_string()), "{line}");
        let shown = &served["peers"][at];
        assert_eq!((&shown["node"], &shown["judgement"]), (&id.into(), &english.into()));
    }
    let listed = folder.good("d", &["failover"]);
    let ids: Vec<&str> = listed.lines().filter_map(|line| line.split('|').next()).collect();
    assert_eq!(ids, ["s200", "s204", "s401", "s403", "s404"]);
}

#[test]
fn o07_a_name_without_address_says_dns() {
    let folder = Folder::new();
    let well = Peer::status(200);
    folder.roster("d", &["d1|gw1.invalid|80|edge|active".into(), row("ip1", well.port)]);
    folder.good("d", &["probe"]);
    let (word, http, why) = told(&folder, "d1");
    assert!(word == "타" && http == "000" && why.starts_with("dns: "), "{why}");
    assert_eq!(told(&folder, "ip1").0, "티");
}

#[test]
fn o07_a_resolver_that_drops_packets_holds_up_nobody_and_not_the_end() {
    let folder = Folder::new();
    let Ok(_deaf) = UdpSocket::bind("127.0.0.153:53") else {
        eprintln!("skipped: no right to stand in for a name server here");
        return;
    };
    let well = Peer::status(200);
    folder.roster("d", &["d1|gw1.example.com|80|edge|active".into(), row("ip1", well.port)]);
    let resolver = ("resolv.conf", "nameserver 127.0.0.153\n");
    let began = Instant::now();
    let Some(ran) = with_etc(&folder, resolver, &["--dir", "d", "probe"]) else { return };
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(began.elapsed() <= Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(reason(&folder, "d1").starts_with("dns: "), "{}", reason(&folder, "d1"));
    assert_eq!(told(&folder, "ip1").0, "티");
}

#[test]
fn o08_proxy_variables_are_not_ours() {
    let folder = Folder::new();
    let (well, proxy) = (Peer::status(200), Peer::status(200));
    folder.roster("d", &[row("n1", well.port)]);
    let mut command = folder.command("d", &["probe"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"] {
        command.env(name, format!("http://127.0.0.1:{}", proxy.port));
    }
    for name in ["ALL_PROXY", "all_proxy"] {
        command.env(name, format!("socks5://127.0.0.1:{}", proxy.port));
    }
    assert_eq!(Ran::of(command).code, Some(0));
    assert_eq!(told(&folder, "n1").0, "티");
    assert_eq!((well.heads().len(), proxy.heads().len()), (1, 0));
}

/// As a shell would run it, with at most `kib` of data beside the binary's own.
fn with_memory(folder: &Folder, kib: u32, args: &[&str]) -> Ran {
    let plain = fed_in(folder.path());
    let mut command = Command::new("sh");
    command.current_dir(folder.path()).stdin(std::process::Stdio::null());
    command.arg("-c").arg(format!("ulimit -d {kib} && exec \"$0\" \"$@\""));
    command.arg(plain.get_program()).args(args);
    Ran::of(command)
}

#[test]
fn o09_endless_bodies_bombs_and_giant_heads_are_cut_at_a_cap() {
    let folder = Folder::new();
    let endless = Peer::new(|_, mut stream, _| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunk = [b"10000\r\n".as_slice(), &[0; 0x10000], b"\r\n"].concat();
        while stream.write_all(&chunk).is_ok() {}
    });
    let mut bomb = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n".to_vec();
    bomb.extend_from_slice(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03");
    bomb.resize(2 << 20, 0);
    let bomb = Peer::with_health(bomb);
    let head =
        format!("HTTP/1.1 200 OK\r\n{}\r\n", format!("X: {}\r\n", "a".repeat(1000)).repeat(10_000));
    let giant = Peer::sends(head);
    folder.write("gateway.yaml", "listen: 8443\n");
    folder.roster("d", &[row("x", endless.port), row("y", bomb.port), row("z", giant.port)]);
    let args = ["--dir", "d", "probe", "--gateway-config", "gateway.yaml"];
    let began = Instant::now();
    let ran = with_memory(&folder, 48 << 10, &args);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    for id in ["x", "y"] {
        let expected = ("티".into(), "200".into(), "config unknown (too large)".into());
        assert_eq!(told(&folder, id), expected, "{id}");
    }
    assert!(reason(&folder, "z").starts_with("not-http: response head over"));
    assert_eq!(told(&folder, "z").0, "타");
}

#[test]
fn o10_what_is_no_http_says_what_it_is() {
    let folder = Folder::new();
    let hint = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n\
                The plain HTTP request was sent to HTTPS port";
    let cut =
        "HTTP/1.1 200 OK\r\nContent-Length: 200\r\n\r\n{\"config_sha256\":\"0123456789abcdef01234";
    let peers = [
        ("a", Peer::sends(b"\x15\x03\x01\x00\x02\x02\x46".as_slice())),
        ("b", Peer::sends("SSH-2.0-OpenSSH_9.6\r\n")),
        ("c", Peer::sends(hint)),
        ("d", Peer::with_health(cut)),
        ("e", Peer::resetting()),
    ];
    folder.write("gateway.yaml", "listen: 8443\n");
    folder.roster("d", &peers.each_ref().map(|(id, peer)| row(id, peer.port)));
    folder.good("d", &["probe", "--gateway-config", "gateway.yaml"]);
    let expected = [
        ("a", "타", "not-http: the answer is TLS"),
        ("b", "타", "not-http: the answer is an SSH banner"),
        ("c", "티", "tls: this port speaks TLS"),
        ("d", "티", "config unknown (answer cut short)"),
        ("e", "타", "reset"),
    ];
    for (id, word, why) in expected {
        let (found, _, reason) = told(&folder, id);
        assert!(found == word && reason.starts_with(why), "{id}: {found} {reason}");
        assert!(!reason.contains("differs"), "{reason}");
    }
}

#[test]
fn silence_refusal_and_trouble_of_our_own_are_told_apart() {
    let folder = Folder::new();
    let (silent, nobody) = (Peer::silent(), Vacant::new());
    let rows = [
        row("silent", silent.port),
        row("gone", nobody.port),
        "here|255.255.255.255|9|edge|active".into(),
    ];
    folder.roster("d", &rows);
    folder.good("d", &["probe", "--timeout", "1s"]);
    assert_eq!(told(&folder, "silent"), ("타".into(), "000".into(), "timeout".into()));
    assert_eq!(told(&folder, "gone"), ("타".into(), "000".into(), "refused".into()));
    let (word, http, why) = told(&folder, "here");
    assert!(word == "음" && http == "000" && why.starts_with("local: "), "{word} {why}");
}

#[test]
fn a_health_answer_is_compared_only_where_it_is_whole() {
    let folder = Folder::new();
    let hash = "0".repeat(64);
    let peers = [
        (
            "other",
            Peer::with_health(answer(&format!("{{\"config_sha256\":\"{hash}\"}}"))),
            "config differs",
        ),
        (
            "none",
            Peer::with_health(answer("{\"config_sha256\":null}")),
            "config unknown (the peer names none)",
        ),
        ("html", Peer::with_health(answer("<html>")), "config unknown (/q/health is not JSON)"),
        ("absent", Peer::with_health(empty(404)), "config unknown (/q/health answered 404)"),
    ];
    folder.write("gateway.yaml", "listen: 8443\n");
    folder.roster("d", &peers.each_ref().map(|(id, peer, _)| row(id, peer.port)));
    folder.good("d", &["probe", "--gateway-config", "gateway.yaml"]);
    for (id, _, why) in &peers {
        let row = &folder.status("d")[*id];
        assert_eq!([row[4].as_str(), row[7].as_str(), row[8].as_str()], ["티", "옴", why], "{id}");
    }
}
