//! Power cuts on real file systems: a member works on a loop mount, and at a random moment the image
//! is cloned, in one instant, while it goes on. What the clone holds is what a disk would have held:
//! mounted, its journal replayed, the next tick must be good and every acknowledged line there.
//!
//! The image lies on an XFS of our own, whose clones (reflinks) are of one instant; a plain copy
//! would mix times. Needs root and loop devices, so it says that it skips elsewhere.

use super::harness::{Fed, ROSTER, Ran, Temp, full, has, whole_lines, whole_map};
use super::scene::{NOWHERE, Scene, Served};
use crowny_fed::sim::chance::Chance;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Cuts of each file system.
const CUTS: u64 = 60;
/// Cuts with every sync faked, which must be seen to lose something: or the method sees nothing.
const FAKED: u64 = 6;
/// A mounted image, unmounted at the end.
struct Loop {
    at: PathBuf,
}

impl Loop {
    fn mount(image: &Path, at: PathBuf, options: &str) -> Option<Loop> {
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        let ran = Ran::of(mount.args(["-o", options]).arg(image).arg(&at));
        if ran.code != Some(0) {
            println!("skipped: no right to mount a loop device: {}", ran.err.trim());
            return None;
        }
        Some(Loop { at })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-d").arg(&self.at).status();
    }
}

/// A file system to be tested, on top of one that clones.
struct Disk {
    name: &'static str,
    // Unmounted in this order.
    mounted: Loop,
    below: Loop,
    _temp: Temp,
}

impl Disk {
    fn new(name: &'static str) -> Option<Disk> {
        let temp = Temp::new();
        let below_image = temp.path().join("below");
        made("xfs", &below_image, 4_000)?;
        let below = Loop::mount(&below_image, temp.path().join("B"), "loop")?;
        let image = below.at.join("image");
        made(name, &image, if name == "xfs" { 320 } else { 64 })?;
        let mounted = Loop::mount(&image, temp.path().join("M"), "loop")?;
        Some(Disk { name, mounted, below, _temp: temp })
    }

    /// What would be left if the power went now, mounted.
    fn cut(&self) -> Loop {
        let clone = self.below.at.join("clone");
        let mut copy = Command::new("cp");
        let ran =
            Ran::of(copy.arg("--reflink=always").arg(self.below.at.join("image")).arg(&clone));
        ran.expect(0);
        let options = if self.name == "xfs" { "loop,nouuid" } else { "loop" };
        Loop::mount(&clone, self.below.at.join("N"), options).expect("one was mounted before")
    }

    fn forget(&self, cut: Loop) {
        drop(cut);
        fs::remove_file(self.below.at.join("clone")).unwrap();
    }
}

/// An empty image with a file system on it; sparse.
fn made(name: &str, image: &Path, mib: u64) -> Option<()> {
    let mkfs = format!("mkfs.{name}");
    if !has(&mkfs) {
        return None;
    }
    fs::File::create(image).unwrap().set_len(mib << 20).unwrap();
    Ran::of(Command::new(mkfs).arg("-q").arg(image)).expect(0);
    Some(())
}

/// What is repeated while the power goes.
struct Work {
    name: &'static str,
    base: fn() -> Scene,
    /// The `nth` run; some change the world first.
    run: fn(&Scene, u64) -> Command,
}

const WORK: [Work; 4] = [
    Work { name: "tick", base: || Scene::alone(Fed::founded()), run: a_row_more },
    Work {
        name: "register on the anchor",
        base: || Scene::alone(Scene::inviting()),
        run: register,
    },
    Work { name: "register", base: || Scene::joined("ed25519"), run: register },
    Work { name: "sync", base: || Scene::joined("ed25519"), run: a_line_more },
];

fn a_row_more(scene: &Scene, nth: u64) -> Command {
    let state = ["active", "standby"][(nth % 2) as usize];
    scene.fed.list(&[format!("n9|127.0.0.1|1|web|{state}\n")]);
    // The operator's file is no concern of ours: it is there whatever happens.
    fs::File::open(scene.fed.path(ROSTER)).unwrap().sync_all().unwrap();
    scene.fed.verb("tick")
}

fn register(scene: &Scene, nth: u64) -> Command {
    // Faster than a member may write for long: each run starts with what the pace allows.
    let mut register = scene.fed.verb(if nth.is_multiple_of(2) { "register" } else { "tick" });
    if nth.is_multiple_of(2) {
        register.args(["--url", NOWHERE]);
    }
    register
}

fn a_line_more(scene: &Scene, nth: u64) -> Command {
    let mut grant = scene.journal_of().verb("grant");
    let name = format!("s{}", nth / 2);
    grant.args([&name, "n2"]);
    if !nth.is_multiple_of(2) {
        grant.arg("--off");
    }
    Ran::of(&mut grant).expect(0);
    scene.fed.verb("sync")
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_any_moment() {
    if !full() {
        println!("skipped: a long form, asked for with CROWNY_FED_FULL");
        return;
    }
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    for name in ["ext4", "xfs"] {
        for work in &WORK {
            let Some(disk) = Disk::new(name) else { return };
            cut_while(work, &disk, seed);
        }
        let Some(disk) = Disk::new(name) else { return };
        let lost = faked(&disk);
        println!("power {name}, every sync faked: {lost} of {FAKED} cuts lost something");
        assert!(lost > 0, "a cut without syncs lost nothing: this test sees nothing");
    }
}

fn cut_while(work: &Work, disk: &Disk, seed: u64) {
    let mut chance = Chance::new(seed);
    let mut inside = 0;
    let scene = moved((work.base)(), &disk.mounted.at);
    let began = Instant::now();
    Ran::of(&mut (work.run)(&scene, CUTS)).expect(0);
    let longest_us = began.elapsed().as_micros() as u64;
    for nth in 0..CUTS / WORK.len() as u64 {
        let at = format!("SEED={seed} {} on {} cut {nth}", work.name, disk.name);
        let before = Acknowledged::by(&scene.fed);
        let mut run = (work.run)(&scene, nth);
        run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let began = Instant::now();
        let moment = Duration::from_micros(chance.below(longest_us));
        let mut child = run.spawn().unwrap();
        while began.elapsed() < moment && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        let ended = child.try_wait().unwrap().is_some();
        let sure = if ended { Acknowledged::by(&scene.fed) } else { before };
        let cut = disk.cut();
        inside += u64::from(!ended);
        Ran::from(child.wait_with_output().unwrap()).expect(0);
        scene.settle();
        survives(&scene, &cut, (&sure, &at));
        disk.forget(cut);
    }
    let cuts = CUTS / WORK.len() as u64;
    println!(
        "power {} {}: {cuts} cuts, {inside} inside a run, 0 losses, 0 operator actions (SEED={seed})",
        disk.name, work.name
    );
}

/// The same files on the disk under test.
fn moved(mut scene: Scene, onto: &Path) -> Scene {
    let moved = onto.join("D");
    Ran::of(Command::new("cp").arg("-a").arg(&scene.fed.dir).arg(&moved)).expect(0);
    Ran::of(Command::new("sync").arg("-f").arg(&moved)).expect(0);
    scene.fed.dir = moved;
    scene.follow();
    scene
}

/// Lines that somebody was told of.
struct Acknowledged(Vec<Vec<u8>>);

impl Acknowledged {
    fn by(fed: &Fed) -> Acknowledged {
        let (signed, journal) = (fed.signed_size() as usize, fed.journal());
        let lines = whole_lines(&journal).into_iter().take(signed);
        Acknowledged(lines.map(<[u8]>::to_vec).collect())
    }

    fn are_in(&self, fed: &Fed) -> bool {
        let journal = fed.journal();
        let lines = whole_lines(&journal);
        lines.len() >= self.0.len() && self.0.iter().zip(lines).all(|(one, other)| one == other)
    }
}

/// The machine comes up again, beside an anchor of its own: a tick, a check, and nothing is missing.
#[track_caller]
fn survives(scene: &Scene, cut: &Loop, (sure, at): (&Acknowledged, &str)) {
    let anchor = scene.anchor.as_ref().map(|anchor| Served::by(anchor.fed.copy()));
    let after = Scene { anchor, ..Scene::alone(on(cut)) };
    after.follow();
    assert!(sure.are_in(&after.fed), "{at}: lines were lost");
    let map = fs::read_to_string(after.fed.path("federated-routes.txt")).unwrap();
    whole_map(&map);
    let ran = after.fed.tick();
    assert_eq!(ran.code, Some(0), "{at}: {ran:#?}");
    after.fed.heals();
    assert!(sure.are_in(&after.fed), "{at}: lines were lost");
    if scene.anchor.is_some() {
        // Its key and number are good for another word.
        let ran = Ran::of(after.fed.verb("register").args(["--url", NOWHERE]));
        assert!(ran.code == Some(0) || ran.err.contains("writes too fast"), "{at}: {ran:#?}");
    }
}

fn on(cut: &Loop) -> Fed {
    Fed { temp: Temp::new(), dir: cut.at.join("D") }
}

/// How many of some cuts lose what was acknowledged where no sync does anything.
fn faked(disk: &Disk) -> u64 {
    let scene = moved(Scene::alone(Fed::founded()), &disk.mounted.at);
    let lost = (0..FAKED).filter(|nth| {
        let tick = a_row_more(&scene, *nth);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync"]);
        strace.args(["-e", "inject=fsync,fdatasync:retval=0"]);
        Ran::of(super::trace::append(&mut strace, &tick)).expect(0);
        let sure = Acknowledged::by(&scene.fed);
        let cut = disk.cut();
        let lost = !sure.are_in(&on(&cut));
        disk.forget(cut);
        lost
    });
    lost.count() as u64
}
