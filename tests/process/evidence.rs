//! The two-node evidence, step by step as it was asked for.

use crate::harness::{Folder, Serving, columns, row};
use crate::peers::Vacant;
use std::fs;
use std::net::{TcpListener, TcpStream};

const GATEWAY: &str = "listen: 8443\n";

/// The columns 판정, http and 동기화 of one row.
fn judged(psv: &str, id: &str) -> [String; 3] {
    let rows = columns(psv);
    let fields = &rows[id];
    [fields[4].clone(), fields[5].clone(), fields[7].clone()]
}

struct Node<'a> {
    folder: &'a Folder,
    id: &'static str,
    serving: Serving,
}

impl Node<'_> {
    fn start<'a>(folder: &'a Folder, id: &'static str) -> Node<'a> {
        folder
            .write(&format!("{id}/crowny-fed.toml"), "gateway_config = \"../live/gateway.yaml\"\n");
        let serving = Serving::start(folder, id, 0, &["--self", id]);
        Node { folder, id, serving }
    }

    fn probe(&self) -> String {
        self.folder.good(self.id, &["probe", "--self", self.id]);
        let shown = self.serving.get("/q/peers").text();
        assert_eq!(shown, self.folder.text(&format!("{}/피어상태.psv", self.id)));
        shown
    }

    fn failover(&self) -> String {
        self.folder.good(self.id, &["failover", "--self", self.id])
    }

    fn config_hash(&self) -> String {
        self.serving.get("/q/health").json()["config_sha256"].as_str().unwrap().to_owned()
    }
}

#[test]
fn two_nodes_watch_each_other_and_a_third_that_is_not_there() {
    let folder = Folder::new();
    folder.write("live/gateway.yaml", GATEWAY);
    let mut live = Serving::start(&folder, "gateway", 0, &[]);
    let (live_pid, live_file) = (live.pid(), folder.contents("live"));

    let (qw1, qw2) = (Node::start(&folder, "qw1"), Node::start(&folder, "qw2"));
    let nobody = Vacant::new();
    let rows =
        [row("qw1", qw1.serving.port), row("qw2", qw2.serving.port), row("qw3", nobody.port)];
    for id in ["qw1", "qw2"] {
        folder.roster(id, &rows);
    }
    assert_eq!(qw1.config_hash(), qw2.config_hash());
    assert_eq!(qw1.config_hash().len(), 64);

    let seen = qw1.probe();
    assert_eq!(judged(&seen, "qw2"), ["티", "200", "티"]);
    assert_eq!(judged(&seen, "qw3")[..2], ["타", "000"]);
    assert!(!columns(&seen).contains_key("qw1"), "nobody probes itself");
    assert_eq!(qw1.failover(), format!("qw2|127.0.0.1|{}\n", qw2.serving.port));

    let mirrored = qw2.probe();
    assert_eq!(judged(&mirrored, "qw1"), ["티", "200", "티"]);
    assert_eq!(judged(&mirrored, "qw3")[..2], ["타", "000"]);
    assert_eq!(qw2.failover(), format!("qw1|127.0.0.1|{}\n", qw1.serving.port));

    let gone = qw2.serving.port;
    drop(qw2);
    let seen = qw1.probe();
    assert_eq!(judged(&seen, "qw2")[..2], ["타", "000"]);
    let empty = folder.fed("qw1", &["failover", "--self", "qw1"]);
    empty.refuses(3, "nobody to fail over to");

    let ours = qw1.serving.port;
    drop(qw1);
    for port in [gone, ours] {
        assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "port {port} is still taken");
    }
    assert!(live.runs() && live.pid() == live_pid);
    assert_eq!(live.get("/").status, 200);
    assert_eq!(folder.contents("live"), live_file);
}

#[test]
fn a_changed_configuration_is_shown_and_changes_no_verdict() {
    let folder = Folder::new();
    folder.write("live/gateway.yaml", GATEWAY);
    let qw2 = Node::start(&folder, "qw2");
    folder.roster("qw1", &[row("qw2", qw2.serving.port)]);
    folder.write("other.yaml", "listen: 9443\n");
    let config = ["--gateway-config", "other.yaml"];
    folder.good("qw1", &[&["probe"], config.as_slice()].concat());
    let row = &folder.status("qw1")["qw2"];
    assert_eq!([&row[4], &row[7], &row[8]], ["티", "옴", "config differs"]);
    assert!(folder.good("qw1", &["failover"]).starts_with("qw2|"));

    fs::remove_file(folder.join("qw2/crowny-fed.toml")).unwrap();
    folder.good("qw1", &["probe"]);
    assert_eq!(folder.status("qw1")["qw2"][7], "-", "nothing of ours to compare with");
}

#[test]
fn serve_takes_its_port_as_soon_as_another_process_leaves_it() {
    let folder = Folder::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    let waiting = std::thread::scope(|scope| {
        let starting = scope.spawn(|| Serving::start(&folder, "d", port, &[]));
        // Its first try comes while we hold the port; whether it did is not observable from here.
        let _ = TcpStream::connect(("127.0.0.1", port));
        drop(holder);
        starting.join().unwrap()
    });
    assert_eq!(waiting.get("/q/health").json()["status"], "ok");
}
