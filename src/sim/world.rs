//! Nodes, links and time, and the [`Host`] that shows a node its part of them.

use super::chance::Chance;
use super::disk::SimDisk;
use crate::config::Config;
use crate::host::{Change, Clock, Entry, Host, Lock, Span};
use crate::http::router::{Face, answer};
use crate::http::{Method, Request};
use crate::protocol::address::Address;
use crate::wire::call::{Answer, Call, Extent, Fault, Method as Asked, Read, Reply};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Milliseconds from question to answer on an untroubled link.
const ROUND_TRIP_MS: u64 = 10;

/// One machine.
#[derive(Debug)]
struct Node {
    config: Config,
    disk: RefCell<SimDisk>,
    /// Whether its `serve` runs.
    serving: bool,
    boot: u64,
    boot_started_ms: u64,
    /// How far its wall clock is off.
    wall_offset_ms: i64,
}

/// Everything there is.
#[derive(Debug)]
struct State {
    now_ms: u64,
    chance: Chance,
    nodes: BTreeMap<String, Rc<RefCell<Node>>>,
    /// Directed links that carry nothing.
    cut: BTreeSet<(String, String)>,
    /// Exchanges lost out of 1,000.
    loss: u64,
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

impl World {
    /// An empty world whose whole future is `seed`.
    pub fn new(seed: u64) -> Self {
        World(Rc::new(RefCell::new(State {
            now_ms: 1_700_000_000_000,
            chance: Chance::new(seed),
            nodes: BTreeMap::new(),
            cut: BTreeSet::new(),
            loss: 0,
        })))
    }

    /// Adds a machine that answers at the authority `name` (host:port) while it serves.
    pub fn add(&self, name: &str, config: Config) -> SimHost {
        let mut state = self.0.borrow_mut();
        let node = Rc::new(RefCell::new(Node {
            config,
            disk: RefCell::default(),
            serving: true,
            boot: 0,
            boot_started_ms: state.now_ms - 1_000,
            wall_offset_ms: 0,
        }));
        state.nodes.insert(name.to_owned(), Rc::clone(&node));
        SimHost { world: self.clone(), name: name.to_owned(), node }
    }

    /// Lets time pass.
    pub fn pass(&self, ms: u64) {
        self.0.borrow_mut().now_ms += ms;
    }

    /// Cuts or restores the link from one machine to another, in this direction only.
    pub fn link(&self, from: &str, to: &str, carries: bool) {
        let link = (from.to_owned(), to.to_owned());
        let mut state = self.0.borrow_mut();
        if carries {
            state.cut.remove(&link)
        } else {
            state.cut.insert(link)
        };
    }

    /// Sets how many of 1,000 exchanges are lost.
    pub fn lose(&self, per_thousand: u64) {
        self.0.borrow_mut().loss = per_thousand;
    }

    /// A number below `bound` from the seed.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.borrow_mut().chance.below(bound)
    }

    fn target(&self, address: &Address) -> Option<(String, Rc<RefCell<Node>>)> {
        let name = address.authority();
        self.0.borrow().nodes.get(&name).map(|node| (name, Rc::clone(node)))
    }

    fn carries(&self, from: &str, to: &str) -> bool {
        let mut state = self.0.borrow_mut();
        let cut = |a: &str, b: &str| state.cut.contains(&(a.to_owned(), b.to_owned()));
        let open = !cut(from, to) && !cut(to, from);
        let loss = state.loss;
        open && !state.chance.hits(loss, 1_000)
    }
}

impl SimHost {
    /// This node's configuration.
    pub fn config(&self) -> Config {
        self.node.borrow().config.clone()
    }

    /// Starts or stops its HTTP face; a stopped one refuses connections.
    pub fn serve(&self, serving: bool) {
        self.node.borrow_mut().serving = serving;
    }

    /// A new boot; with `power_cut`, what was not synced may be gone.
    pub fn reboot(&self, power_cut: bool) {
        let mut chance = Chance::new(self.world.below(u64::MAX));
        let now_ms = self.world.0.borrow().now_ms;
        let mut node = self.node.borrow_mut();
        node.boot += 1;
        node.boot_started_ms = now_ms;
        let mut disk = node.disk.borrow_mut();
        if power_cut {
            disk.power_cut(&mut chance);
        }
        disk.restart();
    }

    /// Steps its wall clock.
    pub fn step_clock(&self, ms: i64) {
        self.node.borrow_mut().wall_offset_ms += ms;
    }

    /// Looks at or changes its disk from outside.
    pub fn disk<T>(&self, look: impl FnOnce(&mut SimDisk) -> T) -> T {
        look(&mut self.node.borrow().disk.borrow_mut())
    }

    fn ask(&self, call: &Call) -> Answer {
        let Some((name, node)) = self.world.target(&call.address) else {
            return Err(Fault::Connect("no such host in this world".to_owned()));
        };
        if !self.world.carries(&self.name, &name) {
            return Err(Fault::Timeout);
        }
        if !node.borrow().serving {
            return Err(Fault::Refused);
        }
        let peer = SimHost { world: self.world.clone(), name, node: Rc::clone(&node) };
        let config = peer.config();
        let response = answer(&Face { host: &peer, config: &config }, &request(call));
        let (body, extent) = match call.read {
            Read::Head => (Vec::new(), Extent::Unread),
            Read::Body { max } if response.body.len() > max => (Vec::new(), Extent::TooLarge),
            Read::Body { .. } => (response.body, Extent::Whole),
        };
        Ok(Reply {
            status: response.status,
            head_after: Duration::from_millis(ROUND_TRIP_MS),
            body,
            extent,
            speaks_tls: false,
        })
    }
}

fn request(call: &Call) -> Request {
    let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    Request {
        method: match call.method {
            Asked::Get => Method::Get,
            Asked::Post => Method::Post,
        },
        path: path.to_owned(),
        query: pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        host: call.host_header.clone(),
        accept: String::new(),
        origin: None,
        authorization: None,
        content_type: None,
        body: call.body.clone(),
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

    /// One run at a time: nobody else is there to hold a lock.
    fn lock(&self, _folder: &Path, _patience: Duration) -> io::Result<Option<Lock>> {
        Ok(Some(Lock::new(())))
    }

    fn dial(&self, calls: &[Call], until_boot_ms: u64) -> Vec<Answer> {
        let answers: Vec<Answer> = calls.iter().map(|call| self.ask(call)).collect();
        let slowest = if answers.iter().any(|answer| matches!(answer, Err(Fault::Timeout))) {
            calls.iter().map(|call| call.timeout.as_millis() as u64).max().unwrap_or(0)
        } else {
            ROUND_TRIP_MS
        };
        let left = until_boot_ms.saturating_sub(self.clock().boot_ms);
        self.world.pass(if calls.is_empty() { 0 } else { slowest.min(left) });
        answers
    }
}
