//! Nodes, links and time, and the [`Host`] that shows a node its part of them.

mod exchange;
mod net;

pub use net::Weather;

use super::chance::Chance;
use super::disk::{Cut, SimDisk};
use crate::config::Config;
use crate::host::{Change, Clock, Entry, Host, Lock, Span};
use crate::http::{Request, Response};
use crate::wire::call::{Answer, Call};
use net::{Fate, Net};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Changes an answer before it leaves a machine: how a member lies.
pub type Twist = Rc<dyn Fn(&Request, Response) -> Response>;

/// One machine.
struct Node {
    config: Config,
    disk: RefCell<SimDisk>,
    /// Whether its `serve` runs.
    serving: bool,
    /// Whether the whole machine stands still: it is not heard at all.
    paused: bool,
    boot: u64,
    boot_started_ms: u64,
    /// How far its wall clock is off.
    wall_offset_ms: i64,
    /// Folders whose lock is held.
    held: BTreeSet<PathBuf>,
    twist: Option<Twist>,
}

/// Who answers at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The agent of a machine.
    Agent {
        /// Which machine.
        machine: String,
    },
    /// A web server that knows nothing of us: a gateway, or a stranger who took the address over.
    Front {
        /// On which machine; it need not be one that runs our program.
        machine: String,
        /// What it answers everything with.
        status: u16,
    },
}

/// Everything there is.
#[derive(Debug)]
struct State {
    now_ms: u64,
    chance: Chance,
    nodes: BTreeMap<String, Rc<RefCell<Node>>>,
    /// Authority (host:port) → who answers there.
    places: BTreeMap<String, Place>,
    net: Net,
}

/// A federation's world. Clones share it.
#[derive(Clone, Debug)]
pub struct World(Rc<RefCell<State>>);

/// The world as one node sees it.
#[derive(Clone, Debug)]
pub struct SimHost {
    world: World,
    name: String,
    node: Rc<RefCell<Node>>,
}

/// A lock of a folder, free again when dropped.
struct Held {
    node: Rc<RefCell<Node>>,
    folder: PathBuf,
}

impl World {
    /// An empty world whose whole future is `seed`.
    pub fn new(seed: u64) -> Self {
        World(Rc::new(RefCell::new(State {
            now_ms: 1_700_000_000_000,
            chance: Chance::new(seed),
            nodes: BTreeMap::new(),
            places: BTreeMap::new(),
            net: Net::default(),
        })))
    }

    /// Adds a machine that answers at the authority `name` (host:port) while it serves.
    pub fn add(&self, name: &str, config: Config) -> SimHost {
        self.place(name, Place::Agent { machine: name.to_owned() });
        let mut state = self.0.borrow_mut();
        let node = Rc::new(RefCell::new(Node {
            config,
            disk: RefCell::default(),
            serving: true,
            paused: false,
            boot: 0,
            boot_started_ms: state.now_ms - 1_000,
            wall_offset_ms: 0,
            held: BTreeSet::new(),
            twist: None,
        }));
        state.nodes.insert(name.to_owned(), Rc::clone(&node));
        drop(state);
        SimHost { world: self.clone(), name: name.to_owned(), node }
    }

    /// Says who answers at an authority from now on.
    pub fn place(&self, authority: &str, place: Place) {
        self.0.borrow_mut().places.insert(authority.to_owned(), place);
    }

    /// From now on nobody answers there.
    pub fn vacate(&self, authority: &str) {
        self.0.borrow_mut().places.remove(authority);
    }

    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.0.borrow_mut().now_ms += ms;
    }

    /// Milliseconds since 1970 in this world.
    pub fn now_ms(&self) -> u64 {
        self.0.borrow().now_ms
    }

    /// Cuts or restores the link from one machine to another, in this direction only: a cut one
    /// lets neither of them reach the other, for an answer needs its way too.
    pub fn link(&self, from: &str, to: &str, carries: bool) {
        set(&mut self.0.borrow_mut().net.cut, (from, to), !carries);
    }

    /// Lets one machine begin connections to another or not; the other way stays as it is.
    pub fn allow(&self, from: &str, to: &str, allowed: bool) {
        set(&mut self.0.borrow_mut().net.barred, (from, to), !allowed);
    }

    /// Whether one machine can begin a connection to another.
    pub fn is_open(&self, from: &str, to: &str) -> bool {
        self.0.borrow().net.open(from, to)
    }

    /// Sets how many of 1,000 exchanges are lost.
    pub fn lose(&self, per_thousand: u64) {
        self.0.borrow_mut().net.weather.lost = per_thousand;
    }

    /// Sets what happens on open links.
    pub fn weather(&self, weather: Weather) {
        self.0.borrow_mut().net.weather = weather;
    }

    /// Sets how many of 1,000 answers to its own questions a machine loses.
    pub fn deafen(&self, machine: &str, per_thousand: u64) {
        self.0.borrow_mut().net.deaf.insert(machine.to_owned(), per_thousand);
    }

    /// A number below `bound` from the seed.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.borrow_mut().chance.below(bound)
    }

    /// Delivers what is late and due by now; nobody waits for the answers.
    pub fn deliver_late(&self) {
        let due = {
            let mut state = self.0.borrow_mut();
            let now_ms = state.now_ms;
            state.net.due(now_ms)
        };
        for stray in due {
            if let Some(peer) = self.host(&stray.to) {
                let _ = peer.handle(&stray.request);
            }
        }
    }

    fn host(&self, name: &str) -> Option<SimHost> {
        let node = self.0.borrow().nodes.get(name).map(Rc::clone)?;
        Some(SimHost { world: self.clone(), name: name.to_owned(), node })
    }

    fn fate(&self, link: (&str, &str), is_post: bool) -> Fate {
        let State { net, chance, .. } = &mut *self.0.borrow_mut();
        net.fate(link, is_post, chance)
    }
}

fn set(pairs: &mut BTreeSet<(String, String)>, (from, to): (&str, &str), on: bool) {
    let pair = (from.to_owned(), to.to_owned());
    let _ = match on {
        true => pairs.insert(pair),
        false => pairs.remove(&pair),
    };
}

impl SimHost {
    /// The machine's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This node's configuration.
    pub fn config(&self) -> Config {
        self.node.borrow().config.clone()
    }

    /// Starts or stops its HTTP face; a stopped one refuses connections.
    pub fn serve(&self, serving: bool) {
        self.node.borrow_mut().serving = serving;
    }

    /// Stops the whole machine or lets it go on; meanwhile nothing of it is heard.
    pub fn pause(&self, paused: bool) {
        self.node.borrow_mut().paused = paused;
    }

    /// Whether the machine stands still.
    pub fn is_paused(&self) -> bool {
        self.node.borrow().paused
    }

    /// Whether its agent would answer a connection that arrives.
    pub fn answers(&self) -> bool {
        let node = self.node.borrow();
        node.serving && !node.paused && !node.disk.borrow().was_killed()
    }

    /// Lets its answers be changed, or be honest again.
    pub fn twist(&self, twist: Option<Twist>) {
        self.node.borrow_mut().twist = twist;
    }

    /// A new boot; with `power_cut`, what was not synced may be gone.
    pub fn reboot(&self, power_cut: bool) {
        self.reboot_after(power_cut.then_some(Cut::Mixed));
    }

    /// A new boot after this power cut, if it was one.
    pub fn reboot_after(&self, cut: Option<Cut>) {
        let mut chance = Chance::new(self.world.below(u64::MAX));
        let now_ms = self.world.0.borrow().now_ms;
        let mut node = self.node.borrow_mut();
        node.boot += 1;
        node.boot_started_ms = now_ms;
        let mut disk = node.disk.borrow_mut();
        if let Some(cut) = cut {
            disk.power_cut(cut, &mut chance);
        }
        disk.restart();
    }

    /// Steps its wall clock.
    pub fn step_clock(&self, ms: i64) {
        self.node.borrow_mut().wall_offset_ms += ms;
    }

    /// Sets how far its wall clock is off.
    pub fn set_clock_off(&self, ms: i64) {
        self.node.borrow_mut().wall_offset_ms = ms;
    }

    /// Steps its boot clock, which only ever goes forward, as a sleep does.
    pub fn step_boot_clock(&self, ms: u64) {
        let mut node = self.node.borrow_mut();
        node.boot_started_ms = node.boot_started_ms.saturating_sub(ms);
    }

    /// Looks at or changes its disk from outside.
    pub fn disk<T>(&self, look: impl FnOnce(&mut SimDisk) -> T) -> T {
        look(&mut self.node.borrow().disk.borrow_mut())
    }
}

impl Host for SimHost {
    fn clock(&self) -> Clock {
        let now_ms = self.world.0.borrow().now_ms;
        let node = self.node.borrow();
        Clock {
            wall_ms: now_ms.saturating_add_signed(node.wall_offset_ms),
            boot_ms: now_ms - node.boot_started_ms,
            boot_id: format!("{}-{}", self.name, node.boot),
        }
    }

    fn chance(&self, bytes: &mut [u8]) -> io::Result<()> {
        self.world.0.borrow_mut().chance.fill(bytes);
        Ok(())
    }

    fn read(&self, path: &Path, span: Span) -> io::Result<Vec<u8>> {
        self.node.borrow().disk.borrow().read(path, span)
    }

    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        self.node.borrow().disk.borrow().entry(path)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.node.borrow().disk.borrow().names(folder)
    }

    fn change(&self, change: Change<'_>) -> io::Result<()> {
        self.node.borrow().disk.borrow_mut().change(change)
    }

    /// Everything happens in turn, so whoever holds a lock holds it for as long as we would wait.
    fn lock(&self, folder: &Path, _patience: Duration) -> io::Result<Option<Lock>> {
        let free = self.node.borrow_mut().held.insert(folder.to_owned());
        let held = || Held { node: Rc::clone(&self.node), folder: folder.to_owned() };
        Ok(free.then(|| Lock::new(held())))
    }

    fn dial(&self, calls: &[Call], until_boot_ms: u64) -> Vec<Answer> {
        let (answers, took_ms): (Vec<Answer>, Vec<u64>) =
            calls.iter().map(|call| self.ask(call)).unzip();
        let slowest_ms = took_ms.into_iter().max().unwrap_or(0);
        let left_ms = until_boot_ms.saturating_sub(self.clock().boot_ms);
        self.world.pass(slowest_ms.min(left_ms));
        answers
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.node.borrow_mut().held.remove(&self.folder);
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("boot", &self.boot).finish_non_exhaustive()
    }
}
