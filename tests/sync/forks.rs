//! One log key on two machines: copied folders and restored backups that go on by themselves.

use crate::federation::{Federation, Node, append, binding};
use crate::stand_in::Says;
use crate::trust::{convicts, stays_convicted};

/// Lines that no other machine writes.
fn grow_otherwise(node: &Node, count: u64) {
    append(&node.dir, &mut |seq| binding(seq + 150).into(), count);
}

/// A member, and two anchors that share `shared` lines and write different ones after.
fn parted(shared: u64, (ours, theirs): (u64, u64)) -> (Federation, Node, Node, u64) {
    let fed = Federation::found();
    let node = fed.join("n1");
    fed.grow(shared);
    let mut twin = fed.anchor.copy_as("twin");
    let fork = twin.size();
    fed.grow(ours);
    grow_otherwise(&twin, theirs);
    twin.serve();
    node.fed(&["tick"]).expect(0);
    node.fed(&["tick"]).expect(0);
    assert_eq!(node.size(), fork + ours);
    let port = twin.port;
    fed.front.answer(move |_| Says::Another(port));
    (fed, node, twin, fork)
}

/// O-38, second run: what the restored anchor wrote is another line 101 (reference/tlog.md,
/// incident 26). Both notes are kept, the fork is named, and ours stays.
#[test]
fn a_larger_fork_is_proven_by_its_own_lines() {
    for (shared, ours, theirs) in [(3, 1, 2), (100, 20, 25), (700, 300, 900), (20, 400, 401)] {
        let (fed, node, twin, fork) = parted(shared, (ours, theirs));
        let words = format!("fork: line {fork} is another one");
        let sizes = (node.size(), twin.size());
        let ran = convicts(&node, &[&words, &fed.front.url()], sizes);
        assert!(ran.err.contains(&twin.size().to_string()), "{ran:?}");
        let asked = fed.front.sizes().len();
        assert!(asked <= 12, "{asked} questions to find a fork");
        fed.front.honest();
        stays_convicted(&node);
        node.fed(&["tick"]).expect(0);
        node.is_a_copy_of(&fed.anchor);
    }
}

/// The same where the restored anchor has not overtaken us.
#[test]
fn a_smaller_or_equal_fork_is_proven_by_its_signature() {
    for (ours, theirs) in [(20, 5), (20, 20)] {
        let (fed, node, twin, _) = parted(100, (ours, theirs));
        convicts(&node, &[&fed.front.url()], (node.size(), twin.size()));
        fed.front.honest();
        stays_convicted(&node);
    }
}

/// A fork is seen as well where only another member follows it.
#[test]
fn a_fork_that_another_member_follows_is_seen() {
    let mut fed = Federation::found();
    let node = fed.join("n1");
    let mut other = fed.join("n2");
    other.serve();
    fed.grow(10);
    node.fed(&["sync"]).quiet();
    let mut twin = fed.anchor.copy_as("twin");
    twin.serve();
    let fork = twin.size();
    grow_otherwise(&twin, 9);
    let port = twin.port;
    fed.front.answer(move |_| Says::Another(port));
    other.fed(&["sync"]).quiet();
    fed.grow(4);
    fed.front.honest();
    node.fed(&["sync"]).expect(5).saying(&[&format!("fork: line {fork}"), &other.url()]);
    assert_eq!(node.lines(), fed.anchor.lines());
    fed.others.push(other);
}

/// A server that shows a larger checkpoint and refuses the lines may be broken: nobody is accused.
#[test]
fn a_larger_log_that_is_not_shown_to_be_a_fork_is_only_told() {
    let (fed, node, twin, _) = parted(100, (20, 25));
    let port = twin.port;
    fed.front.answer(move |asked| {
        let truth = asked.answer_of(port).unwrap();
        match asked.is("/sync") && truth.status == 200 {
            true => crate::stand_in::saying("500 Oops", b""),
            false => Says::Bytes(truth.bytes()),
        }
    });
    let before = node.fetched();
    let ran = node.fed(&["sync"]).expect(1);
    ran.saying(&[&fed.front.url(), "but not that they continue our", "unproven-"]);
    assert!(before == node.fetched());
    let kept = node.evidence();
    let name = format!("state/evidence/unproven-{}.txt", twin.size());
    assert_eq!(kept.keys().collect::<Vec<_>>(), [&name]);
    fed.front.honest();
    node.fed(&["tick"]).expect(0);
    fed.grow(3);
    node.fed(&["sync"]).expect(0);
    node.is_a_copy_of(&fed.anchor);
}

/// O-38, first run: a restored anchor learns from its members that it has signed more.
#[test]
fn an_anchor_that_was_rolled_back_learns_it_in_its_tick() {
    let mut fed = Federation::found();
    let mut node = fed.join("n1");
    node.serve();
    fed.grow(10);
    let mut restored = fed.anchor.copy_as("restored");
    fed.grow(20);
    node.fed(&["sync"]).quiet();
    fed.anchor.stop();
    restored.port = fed.anchor.port;
    restored.serve();
    let (journal, map) = (restored.lines(), restored.bytes("federated-routes.txt"));
    let words = format!("{} lines under our signature", node.size());
    restored.fed(&["tick"]).expect(5).saying(&["rolled back", &words, &node.url()]);
    assert_eq!(restored.lines(), journal);
    assert_eq!(restored.bytes("federated-routes.txt"), map);
    // From then on nothing is signed, and the member loses nothing.
    node.fed(&["register"]).kept(&["503"]);
    restored.fed(&["grant", "api", "n1"]).expect(5);
    assert_eq!(restored.lines(), journal);
    let held = node.lines();
    node.fed(&["tick"]).expect(0).saying(&["an old copy"]);
    assert_eq!(node.lines(), held);
    fed.others.push(node);
}
