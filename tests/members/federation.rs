//! A federation of the real binary: a served anchor, members that join it, and what the journal,
//! the map and `status` say of them.

use crate::harness::{Folder, Ran, Serving, fed, free_port, image, url};
use crate::stand_in::StandIn;
use crowny_fed::auth::keys::parse_seed;
use ed25519_dalek::SigningKey;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub const ORIGIN: &str = "test.example/members";
/// Ticks by hand that all count, and a suspicion of two of them.
pub const BY_HAND: &str = "interval = \"0\"\nsuspicion_ticks = 2\n";

/// One member's folder, served or not.
pub struct Node {
    pub id: String,
    pub dir: PathBuf,
    pub port: u16,
    serving: Option<Serving>,
}

impl Node {
    pub fn in_folder(folder: &Folder, id: &str, config: &str) -> Node {
        let dir = folder.path().join(id);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("crowny-fed.toml"), config).unwrap();
        Node { id: id.to_owned(), dir, port: free_port(), serving: None }
    }

    pub fn serve(&mut self) {
        self.stop();
        self.serving = Some(Serving::start(&self.dir, self.port, &self.dir.with_extension("log")));
    }

    /// kill -9.
    pub fn stop(&mut self) {
        self.serving = None;
    }

    pub fn url(&self) -> String {
        url(self.port)
    }

    pub fn fed(&self, args: &[&str]) -> Ran {
        Ran::of(fed(&self.dir, args), "")
    }

    /// A verb that must exit 0; its standard output.
    #[track_caller]
    pub fn good(&self, args: &[&str]) -> String {
        self.fed(args).expect(0).out
    }

    /// A tick; what it says changed.
    #[track_caller]
    pub fn tick(&self) -> String {
        self.good(&["tick"])
    }

    /// A tick that must find nothing to write.
    #[track_caller]
    pub fn idle(&self) {
        let size = self.lines().len();
        assert_eq!(self.tick(), "");
        assert_eq!(self.lines().len(), size, "{:?}", self.lines().last());
    }

    /// What a tick would say of everybody; it writes nothing.
    #[track_caller]
    pub fn explain(&self) -> String {
        self.good(&["tick", "--dry-run", "--explain"])
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    /// Lines of the journal as they stand there.
    pub fn lines(&self) -> Vec<String> {
        self.text("nodes.ndjson").lines().map(str::to_owned).collect()
    }

    /// Payloads of the lines of one kind.
    pub fn payloads(&self, kind: &str) -> Vec<Value> {
        let lines = self.lines();
        let lines = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_kind = lines.filter(|line| line["type"] == kind);
        of_kind
            .map(|line| serde_json::from_str(line["payload"].as_str().unwrap()).unwrap())
            .collect()
    }

    /// Verdicts so far, `n1 alive suspect` or `n1|web alive suspect`.
    pub fn verdicts(&self) -> Vec<String> {
        let word = |verdict: &Value, name: &str| verdict[name].as_str().unwrap().to_owned();
        let told = |verdict: &Value| {
            let service = verdict["service"].as_str().map(|name| format!("|{name}"));
            let node = word(verdict, "node") + &service.unwrap_or_default();
            format!("{node} {} {}", word(verdict, "from"), word(verdict, "to"))
        };
        self.payloads("verdict").iter().map(told).collect()
    }

    pub fn last_verdict(&self) -> Value {
        self.payloads("verdict").pop().unwrap()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.good(&["status", "--json"])).unwrap()
    }

    /// `alive 1`: liveness and incarnation of a member as this node's journal has it.
    pub fn standing(&self, id: &str) -> String {
        let status = self.status();
        let members = status["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["node"] == id).unwrap();
        format!("{} {}", member["liveness"].as_str().unwrap(), member["incarnation"])
    }

    /// Rows of the map, without the stamp.
    pub fn map(&self) -> Vec<String> {
        let rows = self.text("federated-routes.txt");
        rows.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    /// The row of a service of a node: its state and flags.
    pub fn row(&self, service: &str, node: &str) -> Option<String> {
        let rows = self.map();
        let begins = format!("{service}|{node}|");
        let row = rows.iter().find(|row| row.starts_with(&begins))?;
        let fields: Vec<&str> = row.split('|').skip(4).filter(|it| !it.contains('=')).collect();
        Some(fields.join(" "))
    }

    pub fn key(&self) -> SigningKey {
        parse_seed(&self.text("keys/node.key")).unwrap()
    }

    /// Runs `act`, which must not change a byte in this folder.
    #[track_caller]
    pub fn unchanged<T>(&self, act: impl FnOnce() -> T) -> T {
        let before = image(&self.dir, &[""]);
        let done = act();
        let after = image(&self.dir, &[""]);
        let names = before.keys().chain(after.keys());
        let changed: Vec<&String> =
            names.filter(|name| before.get(*name) != after.get(*name)).collect();
        assert!(changed.is_empty(), "changed: {changed:?}");
        done
    }
}

/// An anchor and who joined it.
pub struct Federation {
    pub folder: Folder,
    pub anchor: Node,
    config: String,
}

impl Federation {
    pub fn found() -> Federation {
        Federation::with(BY_HAND)
    }

    /// The same, everybody under this configuration.
    pub fn with(config: &str) -> Federation {
        Federation::founded(ORIGIN, config, None)
    }

    /// The anchor offers `web` at a place of its own.
    pub fn offering(config: &str, place: &str) -> Federation {
        Federation::founded(ORIGIN, config, Some(place))
    }

    pub fn founded(origin: &str, config: &str, place: Option<&str>) -> Federation {
        let folder = Folder::new();
        let mut anchor = Node::in_folder(&folder, "gw1", config);
        let at = anchor.url();
        let service = format!("web={}", place.unwrap_or(&at));
        anchor.good(&[
            "init",
            "--origin",
            origin,
            "--id",
            "gw1",
            "--url",
            &at,
            "--service",
            &service,
        ]);
        anchor.serve();
        Federation { folder, anchor, config: config.to_owned() }
    }

    /// A served member that offers `web` where its agent answers.
    pub fn join(&self, id: &str) -> Node {
        let mut node = self.machine(id);
        let (place, service) = (node.url(), format!("web={}", node.url()));
        self.enter(&node, &["--url", &place, "--service", &service]);
        node.serve();
        node
    }

    /// A served member whose agent and `web` are reached through a stand-in only.
    pub fn join_behind(&self, id: &str) -> (Node, StandIn) {
        let mut node = self.machine(id);
        let front = StandIn::before(node.port);
        let (place, service) = (front.url(), format!("web={}", front.url()));
        self.enter(&node, &["--url", &place, "--service", &service]);
        node.serve();
        (node, front)
    }

    /// A served member whose agent is reached through a stand-in; it offers nothing.
    pub fn join_agent_behind(&self, id: &str) -> (Node, StandIn) {
        let mut node = self.machine(id);
        let front = StandIn::before(node.port);
        self.enter(&node, &["--url", &front.url()]);
        node.serve();
        (node, front)
    }

    /// A folder for a member to be.
    pub fn machine(&self, id: &str) -> Node {
        Node::in_folder(&self.folder, id, &self.config)
    }

    /// Joins with these flags.
    pub fn enter(&self, node: &Node, flags: &[&str]) {
        let (command, invitation) = self.entering(node, flags);
        Ran::of(command, &invitation).expect(0);
    }

    fn entering(&self, node: &Node, flags: &[&str]) -> (Command, String) {
        let invitation = self.anchor.good(&["invite", &node.id, "--service", "web"]);
        (fed(&node.dir, &[&["join"], flags, &["-"]].concat()), invitation)
    }
}
