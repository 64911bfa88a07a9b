//! Full, read-only and failing disks, and readers during writes (O-14): a run that cannot write
//! says which file and why, leaves the old files whole, and the next one goes on by itself.

use super::harness::{
    Fed, Image, PATIENCE, ROSTER, Ran, STATUS, Temp, assert_same, has, whole_lines, whole_map,
};
use super::peers::{Refusing, StandIn, row};
use super::trace::{Fault, tick_with};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// A member whose next tick appends a roster and a verdict line and changes the map.
fn about_to_change() -> (Fed, [Refusing; 2]) {
    let fed = Fed::founded();
    let peers = [Refusing::new(), Refusing::new()];
    fed.list(&[peers[0].row("n2", "active")]);
    fed.tick().expect(0);
    fed.list(&[peers[0].row("n2", "active"), peers[1].row("n3", "active")]);
    (fed, peers)
}

#[test]
fn an_empty_status_file_is_rebuilt() {
    let (fed, _peers) = about_to_change();
    fed.write(STATUS, "");
    fed.heals();
    let text = String::from_utf8(fed.read(STATUS)).unwrap();
    assert!(text.contains("n2|") && text.contains("n3|") && text.ends_with('\n'), "{text}");
    // Beside a roster alone, `probe` does the same and `failover` says what is missing.
    let alone = Fed::nowhere();
    fs::create_dir(&alone.dir).unwrap();
    let peer = StandIn::answering();
    alone.list(&[row("n2", peer.port, "active")]);
    alone.write(STATUS, "");
    Ran::of(&mut alone.verb("failover")).expect(3);
    Ran::of(&mut alone.verb("probe")).expect(0);
    let listed = Ran::of(&mut alone.verb("failover")).expect(0);
    assert_eq!(listed.out, format!("n2|127.0.0.1|{}\n", peer.port));
}

/// A small file system of its own, unmounted at the end.
pub struct Mount {
    at: Temp,
}

impl Mount {
    /// `None`, with the reason printed, where this process may not mount.
    pub fn new(size: &str) -> Option<Mount> {
        if !has("mount") {
            return None;
        }
        let at = Temp::new();
        let options = format!("size={size},mode=700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "crowny-fed-crash"]).arg(at.path());
        let ran = Ran::of(&mut mount);
        if ran.code != Some(0) {
            println!("skipped: no right to mount a tmpfs: {}", ran.err.trim());
            return None;
        }
        Some(Mount { at })
    }

    /// Moves a member's folder onto it, or the place where it is going to be.
    pub fn move_in(&self, fed: &mut Fed) {
        let moved = self.at.path().join("D");
        if fed.dir.exists() {
            let mut copy = Command::new("cp");
            Ran::of(copy.arg("-a").arg(&fed.dir).arg(&moved)).expect(0);
        }
        fed.dir = moved;
    }

    /// Mounts it again with another option.
    pub fn remount(&self, how: &str) {
        let mut mount = Command::new("mount");
        Ran::of(mount.args(["-o", &format!("remount,{how}")]).arg(self.at.path())).expect(0);
    }

    /// Fills it up to the last `pages_left` pages.
    pub fn fill(&self, pages_left: u64) {
        let stat = rustix::fs::statvfs(self.at.path()).unwrap();
        let pages = stat.f_bavail.saturating_sub(pages_left);
        fs::write(self.at.path().join("ballast"), vec![1; (pages * stat.f_bsize) as usize])
            .unwrap();
    }

    /// Makes room again.
    pub fn free(&self) {
        fs::remove_file(self.at.path().join("ballast")).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.at.path()).status();
    }
}

#[test]
fn a_full_64_kib_disk_keeps_the_old_status_file() {
    let Some(mount) = Mount::new("64k") else { return };
    let mut alone = Fed::nowhere();
    fs::create_dir(&alone.dir).unwrap();
    let peer = StandIn::answering();
    // More than a page of status, so that the last free page is not enough for it.
    let rows: Vec<String> =
        (0..90).map(|nth| row(&format!("node-{nth:02}"), peer.port, "active")).collect();
    alone.list(&rows);
    mount.move_in(&mut alone);
    Ran::of(&mut alone.verb("probe")).expect(0);
    let before = alone.image();
    for pages_left in [0, 1] {
        mount.fill(pages_left);
        let ran = Ran::of(&mut alone.verb("probe")).expect(1);
        ran.saying(&[STATUS, "the disk is full"]);
        assert_same(&alone.image(), &before);
        assert_eq!(alone.image().len(), 2, "the roster, the status file and nothing else");
        mount.free();
    }
    Ran::of(&mut alone.verb("probe")).expect(0);
}

#[test]
fn a_tick_on_a_disk_full_at_any_page_fails_by_name_and_heals() {
    let Some(mount) = Mount::new("256k") else { return };
    let (base, _peers) = about_to_change();
    let mut failures = 0;
    for pages_left in 0.. {
        let mut fed = base.copy();
        mount.move_in(&mut fed);
        let before = fed.image();
        mount.fill(pages_left);
        let ran = fed.tick();
        let done = ran.code == Some(0);
        if !done {
            failures += 1;
            let told = ran.expect(1).saying(&["cannot write ", "the disk is full"]);
            assert!(told.out.is_empty(), "told before it was done: {told:#?}");
            is_whole(&fed, &before);
            fed.assert_tidy();
        }
        mount.free();
        fed.heals();
        assert!(fed.journal().starts_with(&before[Path::new("nodes.ndjson")]));
        fs::remove_dir_all(&fed.dir).unwrap();
        if done {
            break;
        }
    }
    println!("full disk: {failures} places, all healed");
    assert!(failures > 2, "{failures}");
}

/// Published files are the old or the new ones, and whole; the journal only grew.
#[track_caller]
fn is_whole(fed: &Fed, before: &Image) {
    fed.map_rows();
    assert!(fed.read(STATUS).ends_with(b"\n"));
    let old = &before[Path::new("nodes.ndjson")];
    assert!(fed.journal().starts_with(old), "the journal lost bytes");
    assert!(fed.signed_size() <= whole_lines(&fed.journal()).len() as u64);
}

#[test]
fn a_read_only_folder_is_named_and_nothing_is_touched() {
    let Some(mount) = Mount::new("512k") else { return };
    let (mut fed, _peers) = about_to_change();
    mount.move_in(&mut fed);
    let before = fed.image();
    mount.remount("ro");
    fed.tick().expect(78).saying(&["cannot write ", "nodes.ndjson", "must be writable"]);
    Ran::of(&mut fed.verb("probe")).expect(78).saying(&[STATUS]);
    assert_same(&fed.image(), &before);
    // What only reads goes on.
    for verb in ["verify", "status", "routes", "root", "log"] {
        Ran::of(&mut fed.verb(verb)).expect(0);
    }
    Ran::of(fed.verb("tick").arg("--dry-run")).expect(0);
    mount.remount("rw");
    fed.heals();
}

#[test]
fn a_failed_sync_of_the_journal_tells_nobody() {
    if !has("strace") {
        return;
    }
    for error in ["error=EIO", "error=ENOSPC", "error=EDQUOT"] {
        let (fed, _peers) = about_to_change();
        let before = fed.image();
        let ran = tick_with(&fed, &Fault::at(error, "fdatasync", 1));
        let ran = ran.expect(1).saying(&["cannot write ", "nodes.ndjson"]);
        assert_eq!(ran.out, "");
        assert_same(&fed.image(), &before);
        fed.assert_tidy();
        fed.heals();
    }
}

#[test]
fn lines_beyond_the_floor_survive_a_failed_sync() {
    if !has("strace") {
        return;
    }
    let (fed, _peers) = about_to_change();
    tick_with(&fed, &Fault::at("signal=KILL", "fsync", 1));
    let journal = fed.journal();
    for error in ["error=EIO", "error=ENOSPC"] {
        for call in ["fdatasync", "write"] {
            tick_with(&fed, &Fault::at(error, call, 1)).expect(1).saying(&["nodes.ndjson"]);
            assert!(fed.journal() == journal, "lines were lost");
        }
    }
    fed.heals();
    assert!(fed.journal().starts_with(&journal));
}

#[test]
fn readers_during_200_ticks_never_see_half_a_file() {
    let (fed, _peers) = about_to_change();
    let peer = StandIn::answering();
    let done = AtomicBool::new(false);
    let mut seen = (0, 0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_until(&done, &fed));
        let verbs = scope.spawn(|| verbs_until(&done, &fed));
        let end = Instant::now() + PATIENCE * 3;
        for nth in 0..200 {
            let state = ["active", "standby"][nth % 2];
            fed.write(&format!("{ROSTER}.new"), row("n2", peer.port, state));
            fs::rename(fed.path(&format!("{ROSTER}.new")), fed.path(ROSTER)).unwrap();
            let ran = fed.tick();
            if ran.code != Some(0) || Instant::now() > end {
                done.store(true, Ordering::Release);
                panic!("tick {nth}: {ran:#?}");
            }
        }
        done.store(true, Ordering::Release);
        seen = (reader.join().unwrap(), verbs.join().unwrap());
    });
    println!("200 ticks beside {} looks at the files and {} verbs", seen.0, seen.1);
    fed.heals();
}

/// Reads the published files over and over; each must be whole.
fn read_until(done: &AtomicBool, fed: &Fed) -> u64 {
    let mut looks = 0;
    while !done.load(Ordering::Acquire) {
        let text = |name: &str| String::from_utf8(fed.read(name)).unwrap();
        let status = text(STATUS);
        assert!(status.starts_with("# 노드ID|"), "cut status: {status:?}");
        assert!(status.ends_with("Z\n") && status.lines().count() > 1, "cut: {status:?}");
        whole_map(&text("federated-routes.txt"));
        let note = text("federation-root.txt");
        assert!(note.starts_with("fed.test/crash\n") && note.ends_with("=\n"), "cut: {note:?}");
        assert!(text("head.txt").ends_with('\n'));
        assert!(text("freshness.json").ends_with("}\n"));
        looks += 1;
    }
    looks
}

/// Runs verbs that read, over and over; none may stumble over a tick at work.
fn verbs_until(done: &AtomicBool, fed: &Fed) -> u64 {
    let mut runs = 0;
    while !done.load(Ordering::Acquire) {
        for verb in ["verify", "status", "routes", "root", "log"] {
            Ran::of(&mut fed.verb(verb)).expect(0);
            runs += 1;
        }
        fed.verify().expect(0);
    }
    runs
}
