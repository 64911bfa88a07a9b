//! Files that may not grow: a limit on their size at any byte, and a disk that is full at any page.
//! The run says so, leaves nothing half-written, and goes on by itself once there is room.

use super::disk::Mount;
use super::harness::{Fed, Ran, full, has, names, on_all_cores, until};
use super::scene::Scene;
use super::sender::Sender;
use super::serving::{REQUESTS, asked_by_a_member};
use super::succession::HANDOVER;
use super::sweep::{Run, Says, Verb, heals};
use super::trace::append;
use super::verbs::{INIT, REGISTER, SYNC, TICK, VERBS};
use super::word::Word;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// Places of each verb in `make test`.
const FEW: usize = 10;
/// Every how manieth byte of a journal's growth is a place in the long form, but for the verbs that
/// the journal lives by.
const STEP: usize = 16;

#[test]
fn a_limit_on_file_sizes_is_an_error_at_any_byte() {
    if !has("prlimit") {
        return;
    }
    if !full() {
        [TICK, REGISTER].iter().for_each(|verb| limited(verb, None));
        return;
    }
    for verb in own().chain(&REQUESTS) {
        let each = [TICK.name, SYNC.name, "register on the anchor", "POST /register"];
        limited(verb, Some(if each.contains(&verb.name) { 1 } else { STEP }));
    }
}

/// The verbs whose run works in the scene's own folder; a handover writes in the anchor's.
fn own() -> impl Iterator<Item = &'static Verb> {
    VERBS.iter().filter(|verb| verb.name != HANDOVER.name)
}

/// Runs the verb under each limit between nothing and what its largest file needs.
fn limited(verb: &Verb, step: Option<usize>) {
    let base = (verb.base)();
    let whole = base.copy();
    let ran = (verb.run)(&whole).ended();
    assert!(verb.says.done(&ran), "{}: {ran:#?}", verb.name);
    let (old, new) = (base.fed.journal().len(), whole.fed.journal().len());
    let largest = whole.fed.image().values().map(Vec::len).max().unwrap();
    let below = (0..old).step_by((old / FEW).max(1));
    let within = (old..=new).step_by(step.unwrap_or((new - old) / FEW).max(1));
    let limits: Vec<usize> = below.chain(within).chain([new + 1, largest + 1]).collect();
    let places = limits.len();
    on_all_cores(limits, |limit| {
        let scene = base.copy();
        let Run { command, input } = (verb.run)(&scene);
        let mut prlimit = Command::new("prlimit");
        prlimit.args([format!("--fsize={limit}"), "--core=0".to_owned()]);
        let ran = Ran::reading(append(&mut prlimit, &command), &input);
        scene.settle();
        let at = format!("{} limit {limit}", verb.name);
        // By its own exit, never by SIGXFSZ.
        assert!(verb.says.done(&ran) || verb.says.failed(&ran), "{at}: {ran:#?}");
        assert!(verb.says.done(&ran) || limit <= largest, "{at}: {ran:#?}");
        if matches!(verb.says, Says::Code) && !verb.says.done(&ran) {
            assert!(ran.err.contains("file too large"), "{at}: {ran:#?}");
        }
        mends(verb, (&scene, &ran), &at);
    });
    println!("limit {}: {places} sizes, 0 losses, 0 operator actions", verb.name);
}

/// What is known is kept, nothing is torn, and the next runs make it good.
#[track_caller]
fn mends(verb: &Verb, (scene, ran): (&Scene, &Ran), at: &str) {
    let word = Word::of(scene, (verb.says, ran), at);
    heals(verb, scene, at.len().is_multiple_of(2));
    word.is_kept(scene, at);
    let torn = scene.fed.torn();
    assert!(torn.is_empty() || verb.name == "tick that mends", "{torn:?} after {at}");
}

#[test]
fn a_disk_that_is_full_at_any_page_is_an_error_and_heals() {
    let Some(mount) = Mount::new("4m") else { return };
    if !full() {
        fills_up(&REGISTER, &mount);
        return;
    }
    for verb in own().chain(&REQUESTS) {
        fills_up(verb, &mount);
    }
}

fn fills_up(verb: &Verb, mount: &Mount) {
    let base = (verb.base)();
    let mut places = 0;
    for pages_left in 0.. {
        let mut scene = base.copy();
        mount.move_in(&mut scene.fed);
        mount.fill(pages_left);
        let ran = (verb.run)(&scene).ended();
        scene.settle();
        mount.free();
        let done = verb.says.done(&ran);
        let at = format!("{} with {pages_left} pages left", verb.name);
        assert!(done || verb.says.failed(&ran), "{at}: {ran:#?}");
        if matches!(verb.says, Says::Code) && !done {
            assert!(ran.err.contains("No space left on device"), "{at}: {ran:#?}");
        }
        mends(verb, (&scene, &ran), &at);
        fs::remove_dir_all(&scene.fed.dir).unwrap();
        if done {
            break;
        }
        places += 1;
    }
    // A word that changes nothing of ours needs no room.
    assert!(places > 0 || verb.name == "leave", "{}: the disk was never full", verb.name);
    println!("full disk {}: {places} places, 0 losses, 0 operator actions", verb.name);
}

/// A member does not fit into 64 KiB: its founding goes on once there is more.
#[test]
fn a_founding_on_a_disk_of_64_kib_goes_on_when_it_is_larger() {
    let Some(mount) = Mount::new("64k") else { return };
    let mut scene = (INIT.base)();
    mount.move_in(&mut scene.fed);
    let ran = (INIT.run)(&scene).ended().expect(1);
    assert!(ran.err.contains("the disk is full"), "{ran:#?}");
    assert_eq!(names(&scene.fed.path("state/tmp")), [""; 0], "no room, and litter");
    mount.remount("size=1m");
    heals(&INIT, &scene, true);
}

/// A resident server, killed at the end.
struct Resident(Child);

impl Resident {
    fn start(fed: &Fed) -> (Resident, u16) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let mut serve = fed.verb("serve");
        serve.args(["--listen", &format!("127.0.0.1:{port}")]);
        serve.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let resident = Resident(serve.spawn().unwrap());
        until("it listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
        (resident, port)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ask(port: u16, request: &[u8]) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Incident 3 of reference logs: a promise on a full disk. Nothing is accepted, and the same process
/// accepts it once there is room.
#[test]
fn a_server_on_a_full_disk_accepts_nothing_and_goes_on_when_there_is_room() {
    let Some(mount) = Mount::new("768k") else { return };
    let mut scene = asked_by_a_member("register");
    mount.move_in(&mut scene.fed);
    let (sender, _): &(Sender, Vec<u8>) = scene.sender.as_ref().unwrap();
    let (_resident, port) = Resident::start(&scene.fed);
    let before = scene.fed.signed_size();
    mount.fill(0);
    for _ in 0..3 {
        let answer = ask(port, &sender.request());
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert_eq!(scene.fed.signed_size(), before);
    }
    mount.free();
    let answer = ask(port, &sender.request());
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(scene.fed.signed_size(), before + 1);
    scene.fed.heals();
}
