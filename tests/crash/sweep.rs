//! The sweep: a run is killed at, or refused, every system call by which it could change anything,
//! and the next plain run must make everything good by itself.
//!
//! After each fault: what the dead run had published, printed or answered is still a prefix of the
//! journal, the map is whole and never empty, the next tick and the same word again end well,
//! `verify --full` passes, no temporary file is left, and no secret stands where it should not.

use super::harness::{Fed, Ran, on_all_cores};
use super::scene::{Scene, beside};
use super::secrets;
use super::trace::{CHANGING, Call, Fault, Faulted, read_with, record_reading};
use super::word::Word;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs differ by a few calls: two lines may share a file of the index or not.
const SPREAD: usize = 8;

/// What may befall a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The process ends before it.
    Kill,
    /// It fails with this.
    Error(&'static str),
    /// A signal interrupted it: nobody may notice.
    Interrupted,
    /// It reports success and did nothing.
    Lost,
}

/// Every way.
pub const WAYS: [Way; 6] = [
    Way::Kill,
    Way::Error("EIO"),
    Way::Error("ENOSPC"),
    Way::Error("EDQUOT"),
    Way::Interrupted,
    Way::Lost,
];

/// A run and what it reads on standard input.
pub struct Run {
    pub command: Command,
    pub input: Vec<u8>,
}

impl From<Command> for Run {
    fn from(command: Command) -> Run {
        Run { command, input: Vec::new() }
    }
}

impl Run {
    pub fn ended(mut self) -> Ran {
        Ran::reading(&mut self.command, &self.input)
    }
}

/// A run to be disturbed, and what must be so after it.
#[derive(Clone, Copy)]
pub struct Verb {
    pub name: &'static str,
    /// Everything as it stands before.
    pub base: fn() -> Scene,
    /// The run.
    pub run: fn(&Scene) -> Run,
    /// How the run says that it is done, and that it failed.
    pub says: Says,
    /// The same word again must end well, whatever came of the first.
    pub again: fn(&Scene),
    /// What must be so in the end.
    pub ends: fn(&Scene),
    /// Whether the rows of the map must be those of an undisturbed run.
    pub same_map: bool,
}

/// How runs end.
#[derive(Clone, Copy)]
pub enum Says {
    /// By their exit code and a reason.
    Code,
    /// By an HTTP answer on standard output.
    Answer,
}

impl Says {
    /// Whether it says so.
    pub fn done(self, ran: &Ran) -> bool {
        match self {
            Says::Code => ran.code == Some(0),
            Says::Answer => ran.out.starts_with("HTTP/1.1 200 "),
        }
    }

    /// A refused call ends the run with a reason, never with a panic; who is answered nothing asks
    /// again.
    pub fn failed(self, ran: &Ran) -> bool {
        let code = ran.code.unwrap_or(101);
        match self {
            Says::Code => code != 0 && code != 101 && ran.err.contains("error: "),
            Says::Answer => ran.out.is_empty() || ran.out.starts_with("HTTP/1.1 50"),
        }
    }
}

/// One of the verbs with its folders and the calls it makes.
pub struct Sweep {
    verb: Verb,
    base: Scene,
    rows: Option<String>,
    /// Whether what is published can be proven before the run, and so at any moment of it.
    provable: bool,
}

/// Calls of one kind on the main thread.
#[derive(Default)]
struct Made {
    all: usize,
    /// Those that can change something: ordinals, from 1, and what they returned.
    changing: Vec<(usize, Option<usize>)>,
}

/// How often each way was met.
#[derive(Default)]
struct Met {
    kills: AtomicU64,
    errors: AtomicU64,
    interrupted: AtomicU64,
    lost: AtomicU64,
}

impl Sweep {
    /// Disturbs the verb everywhere in each way, and prints the figures.
    pub fn of(verb: Verb, ways: &[Way]) {
        let base = (verb.base)();
        let rows = verb.same_map.then(|| {
            let whole = base.copy();
            let ran = (verb.run)(&whole).ended();
            assert!(verb.says.done(&ran), "{}: {ran:#?}", verb.name);
            whole.fed.map_rows()
        });
        let provable = base.folders().into_iter().all(is_provable);
        Sweep { verb, base, rows, provable }.in_all(ways);
    }

    fn in_all(&self, ways: &[Way]) {
        let places = self.places();
        let faults: Vec<(Way, Fault)> = places
            .iter()
            .flat_map(|(call, made)| made.changing.iter().map(move |place| (call, *place)))
            .flat_map(|place| ways.iter().filter_map(move |way| fault(*way, place)))
            .collect();
        let all = faults.len() as u64;
        let met = Met::default();
        on_all_cores(faults, |(way, fault)| {
            if self.disturb(way, &fault) {
                met.count(way);
            }
        });
        let reached = met.all();
        assert!(all - reached <= all / 20, "{} places were missed", all - reached);
        self.end_was_reached(&places);
        let places: usize = places.values().map(|made| made.changing.len()).sum();
        println!("sweep {}: {places} places, {met}, 0 losses, 0 operator actions", self.verb.name);
    }

    /// Past the last call of each kind there is none: no place was left out.
    fn end_was_reached(&self, places: &BTreeMap<String, Made>) {
        for (call, made) in places {
            let beyond = Fault::at("signal=KILL", call, made.all + 1 + SPREAD);
            assert!(!self.run(&self.base.copy(), &beyond).reached, "{beyond:?}");
        }
    }

    /// The calls of the undisturbed run, by kind.
    fn places(&self) -> BTreeMap<String, Made> {
        let scene = self.base.copy();
        let run = (self.verb.run)(&scene);
        let folder = beside(&scene).path();
        let (ran, calls) = record_reading(folder, (&run.command, &run.input), CHANGING);
        assert!(self.verb.says.done(&ran), "{}: {ran:#?}", self.verb.name);
        let main = calls[0].thread.clone();
        let mut places: BTreeMap<String, Made> = BTreeMap::new();
        for call in calls.iter().filter(|call| call.thread == main) {
            let made = places.entry(call.name.clone()).or_default();
            made.all += 1;
            if changes(call) {
                made.changing.push((made.all, call.result()));
            }
        }
        assert!(places.contains_key("flock"), "{:?}", places.keys());
        places
    }

    fn run(&self, scene: &Scene, fault: &Fault) -> Faulted {
        let run = (self.verb.run)(scene);
        read_with(beside(scene).path(), (&run.command, &run.input), fault)
    }

    /// A lost write must report exactly what it was asked to write, which may differ by a digit.
    fn run_as_asked(&self, way: Way, fault: &Fault) -> (Scene, Faulted) {
        let mut fault = fault.clone();
        for _ in 0..16 {
            let scene = self.base.copy();
            let faulted = self.run(&scene, &fault);
            let told = fault.what.strip_prefix("retval=").map(str::to_owned);
            if way != Way::Lost || !fault.call.contains("write") || !faulted.reached {
                return (scene, faulted);
            }
            // Unknown where another thread's call stands between in the log.
            match faulted.bytes {
                Some(asked) if Some(asked.to_string()) == told => return (scene, faulted),
                Some(asked) => fault.what = format!("retval={asked}").into(),
                None => {}
            }
        }
        // A write whose length is another in every run is a place that was missed, and counted so.
        fault.nth = Some(65_000);
        let scene = self.base.copy();
        let faulted = self.run(&scene, &fault);
        (scene, faulted)
    }

    /// Whether the fault was met; a run may end a call or two before.
    #[track_caller]
    fn disturb(&self, way: Way, fault: &Fault) -> bool {
        let (scene, faulted) = self.run_as_asked(way, fault);
        scene.settle();
        let at = format!("{} {way:?} {fault:?}", self.verb.name);
        let word = Word::of(&scene, (self.verb.says, &faulted.ran), &at);
        assert!(!faulted.ran.err.contains("panicked"), "{at}: {faulted:#?}");
        let says = self.verb.says;
        let (done, failed) = (says.done(&faulted.ran), says.failed(&faulted.ran));
        let as_it_should = match way {
            _ if !faulted.reached => done,
            Way::Kill => true,
            // What a run can do without is a warning.
            Way::Error(_) => failed || done && faulted.ran.err.contains("cannot write"),
            Way::Interrupted => done,
            Way::Lost => done || failed,
        };
        assert!(as_it_should, "{at}: {faulted:#?}");
        let provable = !self.provable || scene.folders().into_iter().all(is_provable);
        assert!(provable, "published and not proven: {at}: {faulted:#?}");
        secrets::are_kept(&scene, &faulted.ran, false);
        heals(&self.verb, &scene, fault.nth.is_none_or(|nth| nth % 2 == 0));
        word.is_kept(&scene, &at);
        if let Some(rows) = &self.rows {
            assert_eq!(scene.fed.map_rows(), *rows, "after {at}");
        }
        secrets::are_kept(&scene, &faulted.ran, true);
        faulted.reached
    }
}

/// Whether the published checkpoint is of the lines that are there; nothing published is fine.
fn is_provable(fed: &Fed) -> bool {
    let shown = fed.path("federation-root.txt").exists();
    !shown || Ran::of(&mut fed.verb("verify")).code == Some(0)
}

/// The timer and whoever says it again come in either order.
#[track_caller]
pub fn heals(verb: &Verb, scene: &Scene, word_first: bool) {
    let begun = scene.fed.path("self.json").exists() && scene.fed.path("tick.json").exists();
    let word_first = word_first || !begun;
    if word_first {
        (verb.again)(scene);
    }
    scene.folders().into_iter().for_each(|fed| drop(fed.heals()));
    if !word_first {
        (verb.again)(scene);
    }
    for fed in scene.folders() {
        fed.verify().expect(0);
        fed.assert_tidy();
        fed.map_rows();
    }
    (verb.ends)(scene);
}

/// The fault of a way at a place; none where it makes no sense there.
fn fault(
    way: Way,
    (call, (nth, result)): (&String, (usize, Option<usize>)),
) -> Option<(Way, Fault)> {
    let what = match way {
        Way::Kill => "signal=KILL".to_owned(),
        Way::Error(name) => format!("error={name}"),
        Way::Interrupted => "error=EINTR".to_owned(),
        // A descriptor cannot be made up; who holds no lock, or is answered half, asks again.
        Way::Lost if call.contains("open") || call == "flock" || call == "writev" => return None,
        Way::Lost => format!("retval={}", result?),
    };
    Some((way, Fault::at(what, call, nth)))
}

/// A warning that cannot be written is nobody's loss, and what wakes our own event loop is no file.
fn changes(call: &Call) -> bool {
    let warns = call.name == "write" && call.rest.starts_with("2<");
    let own = call.rest.contains("<anon_inode:");
    let looks =
        call.name.contains("open") && !call.opens_to_write() && !call.rest.contains("O_CREAT");
    !warns && !own && !looks
}

impl Met {
    fn count(&self, way: Way) {
        let counter = match way {
            Way::Kill => &self.kills,
            Way::Error(_) => &self.errors,
            Way::Interrupted => &self.interrupted,
            Way::Lost => &self.lost,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn each(&self) -> [u64; 4] {
        [&self.kills, &self.errors, &self.interrupted, &self.lost]
            .map(|counter| counter.load(Ordering::Relaxed))
    }

    fn all(&self) -> u64 {
        self.each().iter().sum()
    }
}

impl std::fmt::Display for Met {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [kills, errors, interrupted, lost] = self.each();
        write!(f, "{kills} kills, {errors} errors, {interrupted} interrupted, {lost} lost writes")
    }
}
