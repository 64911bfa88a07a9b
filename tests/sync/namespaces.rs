//! Three machines with a network of their own between them, as real processes: the anchor dies, a
//! node that is behind heals from the other, and all are equal again when it is back.

use crate::federation::Node;
use crate::harness::{FED, Folder, Ran, Serving, wait_for};
use std::fs;
use std::process::{Child, Command, Stdio};

const PORT: u16 = 9160;

/// A network namespace, which lives as long as the process that waits in it.
struct Space(Child);

impl Space {
    /// Waits in the namespaces that `command` makes before it becomes `cat`.
    fn of(mut command: Command) -> Space {
        let silent = command.arg("cat").stdin(Stdio::piped()).stdout(Stdio::null());
        let space = Space(silent.spawn().unwrap());
        let name = format!("/proc/{}/comm", space.0.id());
        wait_for("a namespace", || (fs::read_to_string(&name).ok()? == "cat\n").then_some(()));
        space
    }

    /// A command that will run inside.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--preserve-credentials", "-U", "-n", "-t", &self.0.id().to_string()]);
        command.arg(program);
        command
    }

    fn ip(&self, args: &str) -> bool {
        let mut command = self.command("ip");
        command.args(args.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One machine of the network.
struct Machine {
    node: Node,
    space: Space,
    address: String,
    serving: Option<Serving>,
}

impl Machine {
    fn url(&self) -> String {
        format!("http://{}:{PORT}", self.address)
    }

    fn verb(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.space.command(FED);
        command.arg("--dir").arg(&self.node.dir).args(args).env("RES_OPTIONS", "attempts:0");
        Ran::of(command, input)
    }

    #[track_caller]
    fn good(&self, args: &[&str]) -> String {
        self.verb(args, "").expect(0).out
    }

    fn serve(&mut self) {
        let mut command = self.space.command(FED);
        let listen = format!("{}:{PORT}", self.address);
        command.arg("--dir").arg(&self.node.dir).args(["serve", "--listen", &listen]);
        let log = self.node.dir.with_extension("log");
        self.serving = Some(Serving::of(command, PORT, &log));
    }

    /// Whose rows stand in the map.
    fn routed(&self) -> Vec<bool> {
        let map = self.node.map();
        let has = |id: &str| map.iter().any(|row| row.split([' ', '|', '\t']).any(|it| it == id));
        ["gw1", "n1", "n2"].map(has).into()
    }
}

/// One switch and a machine for each name; `None` where this machine lets us make none.
fn network(folder: &Folder) -> Option<(Space, Vec<Machine>)> {
    let may = |args: &[&str]| {
        let mut asked = Command::new("unshare");
        asked.args(args).stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    let bridge = ["-rn", "ip", "link", "add", "br0", "type", "bridge"];
    if !may(&["-rn", "true"])
        || !may(&bridge)
        || Command::new("nsenter").arg("-V").output().is_err()
    {
        return None;
    }
    let mut switch = Command::new("unshare");
    switch.arg("-rn");
    let switch = Space::of(switch);
    assert!(switch.ip("link add br0 type bridge") && switch.ip("link set br0 up"));
    let machines = (1..).zip(["gw1", "n1", "n2"]).map(|(number, name)| {
        let mut inside = switch.command("unshare");
        inside.arg("-n");
        let space = Space::of(inside);
        let address = format!("10.77.0.{number}");
        let peer = space.0.id();
        let linked = switch
            .ip(&format!("link add v{number} type veth peer name eth0 netns {peer}"))
            && switch.ip(&format!("link set v{number} master br0 up"))
            && space.ip(&format!("addr add {address}/24 dev eth0"))
            && space.ip("link set lo up")
            && space.ip("link set eth0 up");
        assert!(linked, "{name} has no link");
        Machine { node: Node::in_folder(folder, name), space, address, serving: None }
    });
    let machines = machines.collect();
    Some((switch, machines))
}

/// A founded anchor and two members that joined over the network, all of them served.
fn joined(machines: &mut [Machine]) {
    for at in 0..machines.len() {
        let (place, service) = (machines[at].url(), format!("web={}", machines[at].url()));
        let id = machines[at].node.dir.file_name().unwrap().to_str().unwrap().to_owned();
        if at == 0 {
            let init = ["init", "--origin", "test.example/net", "--id", "gw1", "--url", &place];
            machines[0].good(&[&init[..], &["--service", &service]].concat());
        } else {
            let invitation = machines[0].good(&["invite", &id, "--service", "web"]);
            let join = ["join", "--url", &place, "--service", &service, "-"];
            machines[at].verb(&join, &invitation).expect(0);
        }
        machines[at].serve();
    }
}

#[test]
fn three_machines_lose_their_anchor_and_heal_from_each_other() {
    let folder = Folder::new();
    let Some((switch, mut machines)) = network(&folder) else {
        eprintln!("skipped: unshare is not installed or not permitted here");
        return;
    };
    joined(&mut machines);
    let [anchor, n1, n2] = &mut machines[..] else { panic!("three machines") };
    let all = vec![true, true, true];
    for _ in 0..2 {
        for machine in [&*anchor, n1, n2] {
            machine.good(&["tick"]);
        }
    }
    for machine in [&*anchor, n1, n2] {
        assert_eq!(machine.routed(), all, "{:?}", machine.node.map());
        assert_eq!(machine.node.lines(), anchor.node.lines());
    }

    // One node is behind when the anchor dies: it heals from the other.
    for name in ["a", "b", "c"] {
        anchor.good(&["grant", name, "n1"]);
    }
    n2.good(&["sync"]);
    assert!(n1.node.size() < n2.node.size());
    anchor.serving = None;
    let out = n1.good(&["sync"]);
    assert!(out.contains(&format!("3 lines from {}", n2.url())), "{out}");
    assert_eq!(n1.node.lines(), n2.node.lines());
    for _ in 0..3 {
        for machine in [&*n1, n2] {
            machine.good(&["tick"]);
            assert_eq!(machine.routed()[1..], all[1..], "{:?}", machine.node.map());
        }
    }

    // A node whose link is cut keeps its map, and takes nothing away.
    let rows = n1.node.map();
    assert!(switch.ip("link set v2 down"));
    n1.good(&["tick"]);
    let unmarked = |row: String| row.trim_end_matches("|provisional").to_owned();
    assert_eq!(n1.node.map().into_iter().map(unmarked).collect::<Vec<_>>(), rows);
    assert!(switch.ip("link set v2 up"));

    // The anchor is back, with one line more: all are equal again.
    anchor.serve();
    anchor.good(&["grant", "d", "n1"]);
    wait_for("both to be up to date", || {
        for machine in [&*anchor, n1, n2] {
            machine.good(&["tick"]);
        }
        let equal = |machine: &Machine| machine.node.lines() == anchor.node.lines();
        (equal(n1) && equal(n2) && n1.routed() == all && n2.routed() == all).then_some(())
    });
    for machine in [&*n1, n2] {
        assert_eq!(machine.node.map(), anchor.node.map());
        machine.node.is_a_copy_of(&anchor.node);
    }
}
