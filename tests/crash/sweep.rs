//! The sweep: a run is killed at, or refused, every system call by which it could change anything,
//! and the next plain run must make everything good by itself.
//!
//! After each fault: what the dead run had published or printed is still a prefix of the journal,
//! the map is whole and never empty, the next run ends with 0, `verify --full` passes, and no
//! temporary file is left.

use super::harness::{Fed, Ran, STATUS, full, has, leaf, on_all_cores, whole_lines, whole_map};
use super::peers::{Refusing, StandIn, row};
use super::trace::{Call, Fault, record, run_with, tick_with};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls that can change something; those marked `?` do not exist on every machine.
const CHANGING: [&str; 17] = [
    "openat",
    "?creat",
    "write",
    "pwrite64",
    "writev",
    "fdatasync",
    "fsync",
    "?rename",
    "renameat",
    "renameat2",
    "ftruncate",
    "?unlink",
    "unlinkat",
    "?mkdir",
    "mkdirat",
    "fchmod",
    "flock",
];
/// Runs differ by a few calls: two lines may share a file of the index or not.
const SPREAD: usize = 8;
const KILL: &str = "signal=KILL";
const FULL_DISK: &str = "error=ENOSPC";
const BROKEN_DISK: &str = "error=EIO";

/// One run to be disturbed at every place, and what must hold after it was.
struct Sweep<'a> {
    name: &'a str,
    base: &'a Fed,
    run: fn(&Fed) -> Command,
    /// Runs again after the fault; fails unless that makes everything good.
    again: fn(&Fed),
    /// Rows of the map in the end.
    rows: String,
}

/// Calls of one kind on the main thread.
#[derive(Default)]
struct Made {
    all: usize,
    /// Ordinals, from 1, of those that can change something.
    changing: Vec<usize>,
}

impl Sweep<'_> {
    /// Disturbs the run everywhere in each way, and prints the figures.
    fn of(&self, ways: &[&'static str]) {
        let places = self.places();
        let faults: Vec<Fault> = places
            .iter()
            .flat_map(|(call, made)| made.changing.iter().map(move |nth| (call, *nth)))
            .flat_map(|(call, nth)| ways.iter().map(move |way| Fault::at(way, call, nth)))
            .collect();
        let all = faults.len() as u64;
        let counts = [const { AtomicU64::new(0) }; 2];
        on_all_cores(faults, |fault| {
            if self.disturb(&fault) {
                counts[usize::from(fault.what == KILL)].fetch_add(1, Ordering::Relaxed);
            }
        });
        let [errors, kills] = counts.map(AtomicU64::into_inner);
        assert!(all - errors - kills <= all / 20, "{} places were missed", all - errors - kills);
        self.end_was_reached(&places);
        let places: usize = places.values().map(|made| made.changing.len()).sum();
        println!(
            "sweep {}: {places} places, {kills} kills, {errors} errors, 0 losses, 0 operator actions",
            self.name
        );
    }

    /// Past the last call of each kind there is none: no place was left out.
    fn end_was_reached(&self, places: &BTreeMap<String, Made>) {
        for (call, made) in places {
            let fed = self.base.copy_or_nowhere();
            let beyond = Fault::at(KILL, call, made.all + 1 + SPREAD);
            assert!(!run_with(&fed, &(self.run)(&fed), &beyond).reached, "{beyond:?}");
        }
    }

    /// The calls of the undisturbed run, by kind.
    fn places(&self) -> BTreeMap<String, Made> {
        let fed = self.base.copy_or_nowhere();
        let (ran, calls) = record(&fed, &(self.run)(&fed), &CHANGING.join(","));
        ran.expect(0);
        let main = calls[0].thread.clone();
        let mut places: BTreeMap<String, Made> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.thread == main) {
            let made = places.entry(call.name.clone()).or_default();
            made.all += 1;
            if changes(call) {
                made.changing.push(made.all);
            }
        }
        assert!(places.len() >= 5, "{:?}", places.keys());
        places
    }

    /// Whether the fault was met; a run may end a call or two before.
    #[track_caller]
    fn disturb(&self, fault: &Fault) -> bool {
        let fed = self.base.copy_or_nowhere();
        let faulted = run_with(&fed, &(self.run)(&fed), fault);
        let word = Word::of(&fed, &faulted.ran);
        if !faulted.reached {
            assert_eq!(faulted.ran.code, Some(0), "{fault:?}: {faulted:#?}");
        } else if fault.what != KILL {
            told_of_failure(&faulted.ran, fault);
        }
        (self.again)(&fed);
        word.is_kept(&fed, fault);
        assert_eq!(fed.map_rows(), self.rows, "after {fault:?}");
        faulted.reached
    }
}

/// A warning that cannot be written is nobody's loss.
fn changes(call: &Call) -> bool {
    let warns = call.name == "write" && call.rest.starts_with("2<");
    !warns && (call.name != "openat" || call.opens_to_write() || call.rest.contains("O_CREAT"))
}

/// A refused call ends the run with a reason, never with 0 or a panic.
#[track_caller]
fn told_of_failure(ran: &Ran, fault: &Fault) {
    let told = ran.err.contains("error: cannot ") || ran.err.contains("error: no ");
    let code = ran.code.unwrap_or(101);
    assert!(code != 0 && code != 101 && told, "{fault:?}: {ran:#?}");
}

/// What a run had made known before it died.
struct Word {
    lines: Vec<Vec<u8>>,
}

impl Word {
    /// Reads it off the disk, and checks that nobody could have seen half a thing.
    #[track_caller]
    fn of(fed: &Fed, ran: &Ran) -> Word {
        let journal = fed.journal();
        let lines: Vec<Vec<u8>> = whole_lines(&journal).iter().map(|line| line.to_vec()).collect();
        assert!(fed.signed_size() <= lines.len() as u64, "a root ahead of the journal");
        let text = |name: &str| std::fs::read_to_string(fed.path(name)).ok();
        if let Some(head) = text("head.txt") {
            let (size, hash) = head.trim_end().split_once(' ').unwrap();
            let size: usize = size.parse().unwrap();
            assert_eq!(leaf(&lines[size - 1]), hash, "head.txt names another line");
        }
        if let Some(map) = text("federated-routes.txt") {
            whole_map(&map);
        }
        if let Some(status) = text(STATUS) {
            assert!(status.ends_with('\n') && status.lines().count() > 1, "cut: {status:?}");
        }
        for node in ["n2", "n3"] {
            let listed = lines.iter().any(|line| {
                let line = String::from_utf8_lossy(line);
                line.contains("\"type\":\"roster\"") && line.contains(node)
            });
            assert!(listed || !ran.out.contains(&format!("{node} listed")), "told, not written");
        }
        Word { lines }
    }

    #[track_caller]
    fn is_kept(&self, fed: &Fed, fault: &Fault) {
        let journal = fed.journal();
        let lines = whole_lines(&journal);
        let kept = self.lines.iter().zip(&lines).all(|(before, after)| before == after);
        assert!(kept && lines.len() >= self.lines.len(), "lines were lost after {fault:?}");
        assert_eq!(fed.signed_size(), lines.len() as u64);
    }
}

/// A member whose next tick declares `n2` dead, lists `n3` and suspects it: three lines, and a map
/// with one row gone and one row new.
fn about_to_bury() -> (Fed, [Refusing; 2]) {
    let fed = Fed::founded();
    let peers = [Refusing::new(), Refusing::new()];
    fed.list(&[peers[0].row("n2", "active")]);
    fed.tick().expect(0);
    fed.tick().expect(0);
    fed.list(&[peers[0].row("n2", "active"), peers[1].row("n3", "active")]);
    (fed, peers)
}

fn tick(fed: &Fed) -> Command {
    fed.verb("tick")
}

fn a_plain_tick_heals(fed: &Fed) {
    fed.heals();
    assert_eq!(fed.torn(), [""; 0], "nothing was torn");
}

fn sweep_tick(ways: &[&'static str]) {
    let (base, _peers) = about_to_bury();
    let whole = base.copy();
    let told = whole.tick().expect(0).out;
    for line in ["n3 listed", "n3 alive -> suspect", "n2 suspect -> dead"] {
        assert!(told.contains(line), "{told}");
    }
    assert_ne!(whole.map_rows(), base.map_rows());
    let rows = whole.map_rows();
    Sweep { name: "tick", base: &base, run: tick, again: a_plain_tick_heals, rows }.of(ways);
}

#[test]
fn a_tick_killed_or_refused_anywhere_heals_by_itself() {
    if !has("strace") {
        return;
    }
    sweep_tick(&[KILL, FULL_DISK]);
    if full() {
        sweep_tick(&[BROKEN_DISK]);
    }
}

fn init(fed: &Fed) -> Command {
    fed.init()
}

/// Running `init` again finishes it with the keys of the first time. Only where it died after its
/// last write there is nothing left to finish.
#[track_caller]
fn init_again_heals(fed: &Fed) {
    let keys = |fed: &Fed| {
        let image = if fed.dir.exists() { fed.image() } else { Default::default() };
        image.into_iter().filter(|(name, _)| name.starts_with("keys")).collect::<Vec<_>>()
    };
    let made = keys(fed);
    let was_done = fed.path("tick.json").exists();
    let ran = Ran::of(&mut fed.init());
    if was_done {
        ran.expect(1).saying(&["already holds a federation"]);
    } else {
        ran.expect(0);
    }
    let kept = keys(fed);
    assert!(made.iter().all(|key| kept.contains(key)) && kept.len() == 3, "a key was made anew");
    fed.heals();
}

fn sweep_init(ways: &[&'static str]) {
    let base = Fed::nowhere();
    let whole = Fed::nowhere();
    Ran::of(&mut whole.init()).expect(0);
    let rows = whole.map_rows();
    Sweep { name: "init", base: &base, run: init, again: init_again_heals, rows }.of(ways);
}

#[test]
fn an_init_killed_anywhere_is_finished_by_the_next() {
    if !has("strace") {
        return;
    }
    sweep_init(&[KILL]);
    if full() {
        sweep_init(&[FULL_DISK, BROKEN_DISK]);
    }
}

/// Lines beyond the floor and a torn end after them; the peer answers, so that one tick more or
/// less decides nothing.
fn torn_beyond_the_floor() -> (Fed, StandIn) {
    let fed = Fed::founded();
    let peer = StandIn::answering();
    for state in ["standby", "active"] {
        fed.list(&["n2", "n3"].map(|id| row(id, peer.port, state)));
        if state == "standby" {
            fed.tick().expect(0);
        }
    }
    tick_with(&fed, &Fault::at(KILL, "fsync", 1));
    fed.write("nodes.ndjson", [fed.journal(), TORN.to_vec()].concat());
    // Its stamp has whole seconds: whether a tick writes it must not depend on the clock.
    fed.remove(STATUS);
    (fed, peer)
}

const TORN: &[u8] = b"{\"seq\":8,\"node\":\"";

/// A mending run may be killed between setting aside and cutting: then the tail is aside twice.
#[track_caller]
fn a_tick_mends(fed: &Fed) {
    fed.heals();
    let torn = fed.torn();
    assert!(matches!(torn.len(), 1 | 2), "{torn:?}");
    assert!(torn.iter().all(|name| fed.read(name) == TORN), "{torn:?}");
}

#[test]
fn a_mending_tick_killed_anywhere_mends_at_last() {
    if !has("strace") {
        return;
    }
    let (base, _peer) = torn_beyond_the_floor();
    let whole = base.copy();
    whole.heals();
    let rows = whole.map_rows();
    let sweep = Sweep { name: "mending tick", base: &base, run: tick, again: a_tick_mends, rows };
    sweep.of(&[KILL]);
    if full() {
        sweep.of(&[FULL_DISK, BROKEN_DISK]);
    }
}

/// 255 lines, so that the next ones fill the first bundle and begin the second.
fn before_a_full_bundle() -> (Fed, StandIn) {
    let fed = Fed::founded();
    let peer = StandIn::answering();
    let rows = |state: &str, more: &[String]| -> Vec<String> {
        let rows = (0..63).map(|nth| row(&format!("p{nth}"), peer.port, state));
        rows.chain(more.iter().cloned()).collect()
    };
    for state in ["active", "standby", "active", "standby"] {
        fed.list(&rows(state, &[]));
        fed.tick().expect(0);
    }
    assert_eq!(fed.signed_size(), 255);
    let more = ["n2", "n3"].map(|id| row(id, peer.port, "active"));
    fed.list(&rows("standby", &more));
    (fed, peer)
}

#[test]
fn a_tick_that_fills_a_bundle_heals_when_killed_anywhere() {
    if !full() || !has("strace") {
        println!("skipped: a long form, asked for with CROWNY_FED_FULL");
        return;
    }
    let (base, _peer) = before_a_full_bundle();
    let whole = base.copy();
    whole.heals();
    let rows = whole.map_rows();
    let again = a_plain_tick_heals;
    Sweep { name: "bundle tick", base: &base, run: tick, again, rows }.of(&[KILL, FULL_DISK]);
    // Everything derived is gone: the tick that makes it anew may die as well.
    for name in ["index", "tile", "snapshot.json", "head.txt"] {
        base.remove(name);
    }
    let rows = whole.map_rows();
    Sweep { name: "rebuilding tick", base: &base, run: tick, again, rows }.of(&[KILL]);
}
