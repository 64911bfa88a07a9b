//! Torn ends and damage in the middle (O-30): what lies beyond the signed lines is set aside and
//! the chain goes on; what was signed is never skipped, cut or appended to.

use super::harness::{Fed, Ran, assert_same, full, has, line_starts, on_all_cores, whole_lines};
use super::peers::Refusing;
use super::trace::{Fault, tick_with};

/// A member whose last tick was killed right after its append: two lines lie beyond the floor.
struct Beyond {
    fed: Fed,
    /// Length of the journal under the floor.
    floor: usize,
    /// Held, so that nobody answers there.
    _peers: [Refusing; 2],
}

impl Beyond {
    fn new() -> Beyond {
        let fed = Fed::founded();
        let peers = [Refusing::new(), Refusing::new()];
        fed.list(&[peers[0].row("n2", "active")]);
        fed.tick().expect(0);
        let floor = fed.journal().len();
        fed.list(&[peers[0].row("n2", "active"), peers[1].row("n3", "active")]);
        // The first fsync of a tick is that of a tile: the lines are synced, nothing else is.
        let killed = tick_with(&fed, &Fault::at("signal=KILL", "fsync", 1));
        assert_eq!((killed.code, killed.out.as_str()), (None, ""));
        let lines = whole_lines(&fed.journal()[floor..]).len();
        assert_eq!(lines, 2, "a roster and a verdict line");
        Beyond { fed, floor, _peers: peers }
    }
}

/// Sets `tail` in place of everything from `keep` on, and lets a tick find it.
#[track_caller]
fn goes_on(fed: &Fed, keep: usize, tail: &[u8]) {
    let mut journal = fed.journal();
    journal.truncate(keep);
    journal.extend_from_slice(tail);
    fed.write("nodes.ndjson", &journal);
    let lines = whole_lines(&journal[..keep]).len();

    let warning = format!("torn line at byte offset {keep} (line {lines}: ");
    let size = format!("; {} bytes set aside", tail.len());
    fed.heals().saying(&["nodes.ndjson: ", &warning, &size]);
    assert_eq!(fed.only_torn(), tail, "what was set aside");
    assert!(fed.journal().starts_with(&journal[..keep]), "whole lines stay as they are");
    assert!(whole_lines(&fed.journal()).len() > lines, "the chain goes on");
    assert_eq!(fed.signed_size(), whole_lines(&fed.journal()).len() as u64);
    if full() || tail.len() % 16 == 1 {
        assert_eq!(fed.tick().expect(0).err, "", "nothing left to say");
    }
}

#[test]
fn the_last_line_cut_at_any_byte_is_set_aside_and_written_again() {
    if !has("strace") {
        return;
    }
    let beyond = Beyond::new();
    let journal = beyond.fed.journal();
    let last = *line_starts(&journal).last().unwrap();
    assert!(last > beyond.floor);
    on_all_cores((last + 1..journal.len()).collect(), |end| {
        goes_on(&beyond.fed.copy(), last, &journal[last..end]);
    });
    // Cut between the lines: nothing is torn, the missing verdict is reached again.
    let fed = beyond.fed.copy();
    fed.write("nodes.ndjson", &journal[..last]);
    assert_eq!(fed.heals().err, "");
    assert!(fed.journal().starts_with(&journal[..last]));
    assert_eq!(whole_lines(&fed.journal()).len(), whole_lines(&journal).len());
}

#[test]
fn whole_lines_beyond_the_floor_are_kept_byte_for_byte() {
    if !has("strace") {
        return;
    }
    let beyond = Beyond::new();
    let journal = beyond.fed.journal();
    let told = Ran::of(beyond.fed.verb("verify").arg("--json")).expect(0);
    assert!(told.out.contains("\"unsigned_lines\":2"), "{told:?}");
    assert_eq!(beyond.fed.heals().err, "");
    assert_eq!(beyond.fed.journal(), journal);
    assert_eq!(beyond.fed.signed_size(), whole_lines(&journal).len() as u64);
}

#[test]
fn any_number_of_nul_bytes_at_the_end_is_set_aside() {
    if !has("strace") {
        return;
    }
    let beyond = Beyond::new();
    let journal = beyond.fed.journal();
    let mut counts: Vec<usize> = (1..=4096).collect();
    if !full() {
        counts.retain(|n| *n < 9 || n.is_power_of_two() || (n + 1).is_power_of_two());
    }
    // Longer than any line, and longer than what is read at once.
    counts.extend([16_384, 16_385, 20_000, 1 << 20, (1 << 20) + 1]);
    on_all_cores(counts, |count| {
        let nuls = vec![0; count];
        keeps_and_goes_on(&beyond.fed.copy(), &journal, &nuls);
    });
}

/// After whole lines beyond the floor: they are kept, so the tail alone is set aside.
#[track_caller]
fn keeps_and_goes_on(fed: &Fed, journal: &[u8], tail: &[u8]) {
    fed.write("nodes.ndjson", [journal, tail].concat());
    let warning = format!("torn line at byte offset {}", journal.len());
    fed.heals().saying(&[&warning, &format!("{} bytes set aside", tail.len())]);
    assert_eq!(fed.only_torn(), tail);
    assert_eq!(fed.journal(), journal);
}

#[test]
fn half_a_character_and_foreign_bytes_are_set_aside() {
    if !has("strace") {
        return;
    }
    let beyond = Beyond::new();
    let journal = beyond.fed.journal();
    let last = whole_lines(&journal).last().unwrap().to_vec();
    let tails: Vec<Vec<u8>> = vec![
        [br#"{"seq":4,"node":""#.as_slice(), &"서".as_bytes()[..2]].concat(),
        b"\n".to_vec(),
        b"\r\n".to_vec(),
        b"{}\n".to_vec(),
        b"foreign\nbytes".to_vec(),
        b"\xff\xfe\xfd\n".to_vec(),
        // A line that is one, but not the next.
        [last.as_slice(), b"\n"].concat(),
        // The right line in another spelling would need another hash.
        [b" ".as_slice(), &last, b"\n"].concat(),
    ];
    on_all_cores(tails, |tail| {
        keeps_and_goes_on(&beyond.fed.copy(), &journal, &tail);
        // And the same right after the floor.
        goes_on(&beyond.fed.copy(), beyond.floor, &tail);
    });
}

#[test]
fn damage_between_lines_beyond_the_floor_sets_aside_from_there_on() {
    if !has("strace") {
        return;
    }
    let beyond = Beyond::new();
    let journal = beyond.fed.journal();
    for at in [beyond.floor, *line_starts(&journal).last().unwrap() - 1] {
        let mut tail = journal[beyond.floor..].to_vec();
        tail[at - beyond.floor] ^= 1;
        goes_on(&beyond.fed.copy(), beyond.floor, &tail);
    }
}

#[test]
fn a_dry_run_mends_nothing() {
    if !has("strace") {
        return;
    }
    let beyond = Beyond::new();
    let torn = [beyond.fed.journal(), b"torn".to_vec()].concat();
    beyond.fed.write("nodes.ndjson", torn);
    let before = beyond.fed.image();
    Ran::of(beyond.fed.verb("tick").arg("--dry-run")).expect(0).saying(&["torn line"]);
    assert!(beyond.fed.image() == before, "a dry run wrote something");
}

/// A member at its floor, every file whole.
fn at_floor() -> (Fed, [Refusing; 1]) {
    let fed = Fed::founded();
    let peers = [Refusing::new()];
    fed.list(&[peers[0].row("n2", "active")]);
    fed.tick().expect(0);
    (fed, peers)
}

/// A tick and a check refuse `journal`, name line and byte offset, and leave every file as it is.
#[track_caller]
fn is_refused(fed: &Fed, journal: &[u8], (line, at): (usize, usize)) {
    fed.write("nodes.ndjson", journal);
    let before = fed.image();
    let place = format!("line {line} at byte offset {at} ");
    fed.tick().expect(5).saying(&["nodes.ndjson", &place, "restore the file"]);
    assert_same(&fed.image(), &before);
    fed.verify().expect(5).saying(&["nodes.ndjson", "line ", "byte offset "]);
    assert_same(&fed.image(), &before);
}

#[test]
fn a_changed_byte_inside_the_floor_is_refused_by_line_and_offset() {
    let (fed, _peers) = at_floor();
    let journal = fed.journal();
    let starts = line_starts(&journal);
    let mut places: Vec<usize> = (0..journal.len()).collect();
    if !full() {
        let edge = |at: usize| starts.contains(&at) || journal[at] == b'\n';
        places.retain(|at| at % 29 == 0 || edge(*at));
    }
    on_all_cores(places, |at| {
        let fed = fed.copy();
        let line = starts.iter().rposition(|start| *start <= at).unwrap();
        for foreign in [journal[at] ^ 1, b'\n', 0] {
            let mut damaged = journal.clone();
            damaged[at] = foreign;
            if foreign != journal[at] {
                is_refused(&fed, &damaged, (line, starts[line]));
            }
        }
    });
}

#[test]
fn a_byte_more_or_less_inside_the_floor_is_refused_and_nothing_is_cut() {
    let (fed, _peers) = at_floor();
    let journal = fed.journal();
    let starts = line_starts(&journal);
    for line in [0, 2, starts.len() - 1] {
        let (fed, at) = (fed.copy(), starts[line] + 40);
        let mut longer = journal.clone();
        longer.insert(at, b'x');
        is_refused(&fed, &longer, (line, starts[line]));
        let mut shorter = journal.clone();
        shorter.remove(at);
        is_refused(&fed, &shorter, (line, starts[line]));
        // Shorter inside, longer behind: the length alone says nothing.
        is_refused(&fed, &[shorter.as_slice(), b"12"].concat(), (line, starts[line]));
    }
}

#[test]
fn damage_inside_the_floor_with_lines_and_a_torn_end_beyond_it_is_refused() {
    if !has("strace") {
        return;
    }
    let beyond = Beyond::new();
    let mut journal = [beyond.fed.journal(), b"torn".to_vec()].concat();
    let at = line_starts(&journal)[1];
    journal[at + 30] ^= 1;
    is_refused(&beyond.fed, &journal, (1, at));
}
