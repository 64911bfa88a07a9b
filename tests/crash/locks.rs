//! Two runs at once, runs that died holding a lock, and folders that cannot be locked. The kernel
//! holds the locks, on the folders themselves: nothing is to be deleted, no pid is believed.

use super::harness::{Fed, Ran, STATUS, assert_same, has, names, until, whole_lines};
use super::peers::{Refusing, StandIn, row};
use super::trace::{Fault, append, run_with, strace, tick_with};
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::process::{Child, Command, Stdio};

const IN_PROGRESS: &str = "tick in progress\n";

/// A run in the background, killed if the test does not wait for it.
struct Running(Option<Child>);

impl Running {
    fn start(command: &mut Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(Some(command.spawn().unwrap()))
    }

    fn ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    fn wait(mut self) -> Ran {
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }

    /// SIGKILL, and nothing else.
    fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A member with one listed peer that answers nobody until it is released.
fn probing_long() -> (Fed, StandIn) {
    let fed = Fed::founded();
    let peer = StandIn::holding();
    fed.list(&[row("n2", peer.port, "active")]);
    (fed, peer)
}

/// A tick that is at its probes, holding its lock.
fn at_its_probes(fed: &Fed, peer: &StandIn) -> Running {
    let before = peer.asked();
    let mut tick = Running::start(fed.verb("tick").args(["--timeout", "7s"]));
    until("the tick asks its peer", || {
        assert!(!tick.ended(), "the tick ended too soon");
        peer.asked() > before
    });
    tick
}

#[test]
fn a_second_tick_says_that_one_is_in_progress() {
    let (fed, peer) = probing_long();
    let first = at_its_probes(&fed, &peer);
    let before = fed.image();
    for quiet in [false, true] {
        let mut tick = fed.verb("tick");
        if quiet {
            tick.arg("--quiet");
        }
        let ran = Ran::of(&mut tick).expect(0);
        assert_eq!(
            (ran.out.as_str(), ran.err.as_str()),
            (["tick in progress\n", ""][usize::from(quiet)], "")
        );
    }
    assert_same(&fed.image(), &before);
    peer.release();
    assert!(first.wait().expect(0).out.starts_with("n2 listed"));
    fed.heals();
}

#[test]
fn of_eight_ticks_at_once_one_works_and_seven_step_aside() {
    let (fed, peer) = probing_long();
    let patient = || Running::start(fed.verb("tick").args(["--timeout", "7s"]));
    let mut ticks: Vec<Running> = (0..8).map(|_| patient()).collect();
    until("seven have stepped aside", || {
        ticks.iter_mut().map(Running::ended).filter(|ended| *ended).count() == 7
    });
    peer.release();
    let outs: Vec<String> = ticks.into_iter().map(|tick| tick.wait().expect(0).out).collect();
    assert_eq!(outs.iter().filter(|out| *out == IN_PROGRESS).count(), 7, "{outs:?}");
    assert_eq!(outs.iter().filter(|out| out.starts_with("n2 listed")).count(), 1, "{outs:?}");
    assert_eq!((fed.ticks(), whole_lines(&fed.journal()).len()), (1, 4));
    fed.heals();
}

#[test]
fn ticks_let_loose_at_once_write_exactly_the_winners_changes() {
    let fed = Fed::founded();
    let peer = StandIn::answering();
    let (mut winners, mut lines) = (0, 3);
    for round in 0..6 {
        fed.list(&[row("n2", peer.port, ["active", "standby"][round % 2])]);
        let ticks: Vec<Running> = (0..8).map(|_| Running::start(&mut fed.verb("tick"))).collect();
        let outs: Vec<String> = ticks.into_iter().map(|tick| tick.wait().expect(0).out).collect();
        winners += outs.iter().filter(|out| *out != IN_PROGRESS).count() as u64;
        lines += 1;
        assert_eq!(outs.iter().filter(|out| out.starts_with("n2 listed")).count(), 1, "{outs:?}");
        assert_eq!(whole_lines(&fed.journal()).len(), lines);
        assert_eq!(fed.ticks(), winners, "a winner's memory was lost");
        fed.verify().expect(0);
    }
    fed.heals();
}

#[test]
fn a_killed_tick_leaves_no_lock_behind() {
    let (fed, peer) = probing_long();
    for _ in 0..3 {
        at_its_probes(&fed, &peer).kill();
        let mut tick = fed.verb("tick");
        let ran = Ran::of(tick.args(["--timeout", "200ms", "--slow", "100ms"])).expect(0);
        assert_ne!(ran.out, IN_PROGRESS, "the dead hold no lock");
    }
    fed.verify().expect(0);
    fed.assert_tidy();
}

#[test]
fn a_lock_inherited_by_a_child_counts_until_the_child_ends() {
    if !has("sleep") {
        return;
    }
    let fed = Fed::founded();
    let keys = File::open(fed.path("keys")).unwrap();
    keys.lock().unwrap();
    // Only the child has the handle once this statement is over.
    let mut child = Command::new("sleep").arg("600").stdin(Stdio::from(keys)).spawn().unwrap();
    let ran = fed.tick();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(ran.expect(0).out, IN_PROGRESS);
    assert_eq!(fed.heals().out, "");
}

#[test]
fn a_folder_held_by_somebody_else_is_waited_for_and_then_75() {
    let fed = Fed::founded();
    let peer = Refusing::new();
    fed.list(&[peer.row("n2", "active")]);
    let fresh = Fed::nowhere();
    std::fs::create_dir(&fresh.dir).unwrap();
    std::fs::DirBuilder::new().mode(0o700).create(fresh.path("state")).unwrap();
    let folders = [fed.path("state"), fed.dir.clone(), fresh.path("state")];
    let held = folders.map(|path| File::open(path).unwrap());
    held.iter().for_each(|folder| folder.lock().unwrap());
    let before = fed.image();
    // All at once, for each waits its 10 s.
    let tick = Running::start(&mut fed.verb("tick"));
    let probe = Running::start(&mut fed.verb("probe"));
    let init = Running::start(&mut fresh.init());
    tick.wait().expect(75).saying(&["another process works on the journal"]);
    probe.wait().expect(75).saying(&["피어상태.psv is being written by another process"]);
    init.wait().expect(75).saying(&["another process works in this folder"]);
    assert_same(&fed.image(), &before);
    assert_eq!(fresh.image().len(), 0);
    // Reading takes no lock.
    fed.verify().expect(0);
    held.iter().for_each(|folder| folder.unlock().unwrap());
    fed.heals();
}

#[test]
fn a_journal_held_for_a_moment_is_waited_for() {
    if !has("strace") {
        return;
    }
    let fed = Fed::founded();
    let state = File::open(fed.path("state")).unwrap();
    state.lock().unwrap();
    let log = fed.temp.path().join("flock.log");
    let mut strace = strace(&log);
    let tick = append(strace.args(["-e", "trace=flock"]), &fed.verb("tick"));
    let waiting = Running::start(tick);
    until("the tick found the journal held", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("EAGAIN"))
    });
    state.unlock().unwrap();
    waiting.wait().expect(0);
    fed.heals();
}

#[test]
fn a_folder_that_cannot_be_locked_is_refused_without_a_write() {
    if !has("strace") {
        return;
    }
    let fed = Fed::founded();
    let peer = Refusing::new();
    fed.list(&[peer.row("n2", "active")]);
    let before = fed.image();
    for error in ["error=ENOLCK", "error=ENOSYS", "error=EBADF", "error=EOPNOTSUPP"] {
        // The keys folder, then the state folder: before and after the probes.
        for nth in 1..=3 {
            let ran = tick_with(&fed, &Fault::at(error, "flock", nth)).expect(78);
            ran.saying(&["cannot lock ", "must support flock", "nothing was written"]);
            assert_same(&fed.image(), &before);
        }
    }
    let fresh = Fed::nowhere();
    let refused = run_with(&fresh, &fresh.init(), &Fault::always("error=ENOLCK", "flock"));
    refused.ran.expect(78).saying(&["cannot lock "]);
    assert_eq!(fresh.image().len(), 0, "init wrote before it had its lock");
    let mut probe = fed.verb("probe");
    probe.arg("--quiet");
    run_with(&fed, &probe, &Fault::always("error=ENOLCK", "flock")).ran.expect(78);
    assert_same(&fed.image(), &before);
}

#[test]
fn an_interrupted_lock_is_tried_again() {
    if !has("strace") {
        return;
    }
    let fed = Fed::founded();
    for nth in 1..=3 {
        let ran = tick_with(&fed, &Fault::at("error=EINTR", "flock", nth)).expect(0);
        assert_ne!(ran.out, IN_PROGRESS, "interrupted is not locked");
    }
    fed.heals();
}

#[test]
fn a_tick_and_a_probe_may_write_the_status_file_at_once() {
    if !has("strace") {
        return;
    }
    let fed = Fed::founded();
    let peer = StandIn::answering();
    fed.list(&[row("n2", peer.port, "active")]);
    let log = fed.temp.path().join("rename.log");
    let mut strace = strace(&log);
    strace.args(["-e", "inject=?rename,renameat,renameat2:delay_enter=1000000"]);
    let probe = Running::start(append(&mut strace, &fed.verb("probe")));
    let temporary = |name: &String| name.starts_with('.') && name.ends_with(".tmp");
    until("the probe stands before its rename", || names(&fed.dir).iter().any(temporary));
    fed.tick().expect(0);
    probe.wait().expect(0);
    assert!(fed.read(STATUS).ends_with(b"Z\n"));
    fed.assert_tidy();
}
