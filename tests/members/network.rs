//! Machines with a network of their own between them, and timers that start their ticks.

use crate::federation::{Node, ORIGIN};
use crate::harness::{FED, Folder, Ran, Serving, wait_for};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

const PORT: u16 = 9160;
/// Where a machine's gateway answers: its own agent once more, at another port.
const GATEWAY: u16 = 9161;
const INTERVAL: Duration = Duration::from_secs(1);

/// A network namespace, which lives as long as the process that waits in it.
pub struct Space(Child);

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

    /// Whether `program` does this inside.
    pub fn does(&self, program: &str, args: &str) -> bool {
        let mut command = self.command(program);
        command.args(args.split(' ')).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    pub fn ip(&self, args: &str) -> bool {
        self.does("ip", args)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One machine of the network.
pub struct Machine {
    pub node: Node,
    pub space: Space,
    address: String,
    serving: Vec<Serving>,
}

impl Machine {
    fn url(&self, port: u16) -> String {
        format!("http://{}:{port}", self.address)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.space.command(FED);
        command.arg("--dir").arg(&self.node.dir).args(args).env("RES_OPTIONS", "attempts:0");
        command
    }

    #[track_caller]
    pub fn good(&self, args: &[&str]) -> String {
        Ran::of(self.command(args), "").expect(0).out
    }

    /// Its agent and its gateway.
    pub fn serve(&mut self) {
        self.serving = [PORT, GATEWAY].map(|port| self.listen(port)).into();
    }

    fn listen(&self, port: u16) -> Serving {
        let at = format!("{}:{port}", self.address);
        let log = self.node.dir.with_extension(format!("{port}.log"));
        Serving::of(self.command(&["serve", "--listen", &at]), port, &log)
    }

    /// kill -9 of all that answers there.
    pub fn stop(&mut self) {
        self.serving.clear();
    }

    /// Loses a share of what comes in, or all of a kind; `false` where the kernel lets us not.
    pub fn drop_input(&self, matching: &str) -> bool {
        ["add table inet loss", "add chain inet loss in { type filter hook input priority 0 ; }"]
            .iter()
            .all(|rule| self.space.does("nft", rule))
            && self.space.does("nft", &format!("add rule inet loss in {matching} drop"))
    }

    /// Nothing is lost any more.
    pub fn lose_nothing(&self) {
        assert!(self.space.does("nft", "delete table inet loss"));
    }

    /// Starts a tick every second.
    pub fn timer(&self) -> Timer {
        let seen: Arc<Mutex<Vec<Tick>>> = Arc::default();
        let (pid, dir, ticks) = (self.space.0.id(), self.node.dir.clone(), Arc::clone(&seen));
        let (stop, stopped) = channel();
        let thread = spawn(move || {
            loop {
                let began = Instant::now();
                let mut command = Command::new("nsenter");
                command.args(["--preserve-credentials", "-U", "-n", "-t", &pid.to_string(), FED]);
                command.arg("--dir").arg(&dir).arg("tick").env("RES_OPTIONS", "attempts:0");
                let ran = Ran::of(command, "");
                let map = fs::read_to_string(dir.join("federated-routes.txt")).unwrap();
                ticks.lock().unwrap().push(Tick { ran, map });
                match stopped.recv_timeout(INTERVAL.saturating_sub(began.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        });
        Timer { seen, stop, thread: Some(thread) }
    }
}

/// One run that a timer started, and the map after it.
pub struct Tick {
    pub ran: Ran,
    pub map: String,
}

impl Tick {
    pub fn routes(&self, id: &str) -> bool {
        let rows = self.map.lines().filter(|line| !line.starts_with('#'));
        { rows }.any(|row| row.split('|').nth(1) == Some(id))
    }
}

/// A timer of one machine; ends when dropped.
pub struct Timer {
    seen: Arc<Mutex<Vec<Tick>>>,
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    pub fn ticks(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// Waits until so many more ticks have ended.
    pub fn wait(&self, more: usize) {
        let until = self.ticks() + more;
        wait_for("ticks", || (self.ticks() >= until).then_some(()));
    }

    /// Ends it; all that it saw.
    pub fn end(mut self) -> Vec<Tick> {
        self.join();
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    fn join(&mut self) {
        let _ = self.stop.send(());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.join();
    }
}

/// Whether `program` is here; where tools are required, it must be.
pub fn has(program: &str) -> bool {
    let found = Command::new(program).arg("-V").output().is_ok();
    let required = std::env::var_os("CROWNY_FED_REQUIRE_TOOLS").is_some();
    assert!(found || !required, "{program} is not installed");
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// One switch and a machine for each id, joined and served; `None` where we may make none.
pub fn network(folder: &Folder, config: &str, ids: &[&str]) -> Option<(Space, Vec<Machine>)> {
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
        eprintln!("skipped: unshare is not installed or not permitted here");
        return None;
    }
    let mut switch = Command::new("unshare");
    switch.arg("-rn");
    let switch = Space::of(switch);
    assert!(switch.ip("link add br0 type bridge") && switch.ip("link set br0 up"));
    let machines = (1..).zip(ids).map(|(number, id)| {
        let mut inside = switch.command("unshare");
        inside.arg("-n");
        let space = Space::of(inside);
        let (address, peer) = (format!("10.77.0.{number}"), space.0.id());
        let linked = switch
            .ip(&format!("link add v{number} type veth peer name eth0 netns {peer}"))
            && switch.ip(&format!("link set v{number} master br0 up"))
            && space.ip(&format!("addr add {address}/24 dev eth0"))
            && space.ip("link set lo up")
            && space.ip("link set eth0 up");
        assert!(linked, "{id} has no link");
        Machine { node: Node::in_folder(folder, id, config), space, address, serving: Vec::new() }
    });
    let mut machines: Vec<Machine> = machines.collect();
    join(&mut machines);
    Some((switch, machines))
}

/// The first founds, the others join over the network; all are served and equal.
fn join(machines: &mut [Machine]) {
    for at in 0..machines.len() {
        let place = machines[at].url(PORT);
        let service = format!("web={}", machines[at].url(GATEWAY));
        let id = machines[at].node.id.clone();
        if at == 0 {
            let init = ["init", "--origin", ORIGIN, "--id", &id, "--url", &place];
            machines[0].good(&[&init[..], &["--service", &service]].concat());
        } else {
            let invitation = machines[0].good(&["invite", &id, "--service", "web"]);
            let join = ["join", "--url", &place, "--service", &service, "-"];
            Ran::of(machines[at].command(&join), &invitation).expect(0);
        }
        machines[at].serve();
    }
    machines[1..].iter().for_each(|machine| drop(machine.good(&["sync"])));
}
