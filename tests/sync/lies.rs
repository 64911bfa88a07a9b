//! Pages that are cut, shuffled or forged: nothing of them is kept, one warning names the server
//! and the line, the tick does the rest of its work, and the next honest server heals all.

use crate::federation::{Federation, Node, binding, note};
use crate::harness::{Answer, get};
use crate::stand_in::{Asked, Says, promising, saying};
use crowny_fed::journal::chain::Tip;
use crowny_fed::journal::line::Line;
use crowny_fed::journal::merkle::{Frontier, Hash, leaf_hash};
use crowny_fed::store::draft::Draft;
use ed25519_dalek::SigningKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An answer that ends where the connection does.
const CLOSING: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
/// Lines that the member lacks: some pages of the smallest size.
const MISSING: u64 = 300;

/// One member that lacks lines, and what an honest server would send.
struct Scene {
    fed: Federation,
    node: Node,
    held: u64,
}

/// A page taken apart.
#[derive(Clone)]
struct Page {
    lines: Vec<String>,
    /// Checkpoint and proof.
    end: String,
}

impl Page {
    fn of(truth: &Answer) -> Page {
        let text = truth.text();
        let (lines, end) = text.split_once("\n\n").unwrap();
        Page { lines: lines.lines().map(str::to_owned).collect(), end: end.to_owned() }
    }

    fn bytes(&self) -> Vec<u8> {
        let lines: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        format!("{lines}\n{}", self.end).into_bytes()
    }

    fn say(&self) -> Says {
        saying("200 OK", &self.bytes())
    }
}

/// The first part of what is missing, with a proof.
fn part(asked: &Asked) -> Page {
    let behind = asked.path.split("&most=").next().unwrap();
    Page::of(&get(asked.behind, &format!("{behind}&most=1")))
}

impl Scene {
    fn new() -> Scene {
        let fed = Federation::found();
        let node = fed.join("n1");
        node.fed(&["tick"]).expect(0);
        let held = node.size();
        fed.grow(MISSING);
        Scene { fed, node, held }
    }

    /// A tick beside a server that answers `/sync` with `lie`: all is as before, and told once.
    fn survives(
        &self,
        (name, words): (&str, &[&str]),
        lie: impl Fn(&Asked) -> Says + Send + Sync + 'static,
    ) {
        let front = &self.fed.front;
        front.answer(move |asked| match () {
            () if asked.is("/sync") => lie(asked),
            // Ticks of one second are one to the anchor; here it is about lines.
            () if asked.is("/observe") => saying("202 Accepted", b"{}"),
            () => Says::Truth,
        });
        let (before, map) = (self.node.fetched(), self.node.map());
        let ran = self.node.fed(&["tick"]).expect(0);
        assert!(before == self.node.fetched(), "{name}: something was kept");
        assert_eq!(map, self.node.map(), "{name}");
        assert!(self.node.evidence().is_empty(), "{name}: somebody was convicted");
        assert_eq!(front.paths().last().unwrap(), "/observe", "{name}: the tick did not go on");
        assert!(front.sizes().contains(&self.held), "{name}: {:?}", front.sizes());
        println!("{name}: {}", ran.err.trim_end());
        ran.warning_once(&[&[front.url().as_str()], words].concat());
    }

    /// The honest server heals all.
    fn heals(&self) {
        self.fed.front.honest();
        self.node.fed(&["sync"]).quiet();
        self.node.is_a_copy_of(&self.fed.anchor);
        self.node.fed(&["tick"]).expect(0);
    }

    fn tip(&self) -> Tip {
        let mut tip = Tip::origin(crate::federation::ORIGIN);
        for line in self.node.lines() {
            tip.accept(line.as_bytes()).unwrap();
        }
        tip
    }

    /// Lines that continue the member's journal and are in no signed log.
    fn forged(&self, count: usize) -> Vec<String> {
        chained(self.tip(), count)
    }
}

fn chained(mut tip: Tip, count: usize) -> Vec<String> {
    let mut next = |nth| {
        let line: Line = Draft::from(binding(nth)).line(&tip, 0);
        let raw = line.render();
        tip.accept(raw.as_bytes()).unwrap();
        raw
    };
    (0..count as u64).map(&mut next).collect()
}

/// O-40 (a) and (c), and every other order but the right one.
#[test]
fn lines_that_do_not_follow_are_refused_whole() {
    let scene = Scene::new();
    let held = scene.held;
    let at = |offset: u64| format!("line {} does not follow", held + offset);
    let mangled = |change: fn(&mut Vec<String>)| {
        move |asked: &Asked| {
            let mut page = part(asked);
            change(&mut page.lines);
            page.say()
        }
    };
    scene.survives(("gap", &[&at(2)]), mangled(|lines| drop(lines.remove(2))));
    scene.survives(("gap at once", &[&at(0)]), mangled(|lines| drop(lines.drain(..20))));
    scene.survives(("twice", &[&at(6)]), mangled(|lines| lines.insert(5, lines[5].clone())));
    scene.survives(("swapped", &[&at(3)]), mangled(|lines| lines.swap(3, 4)));
    scene.survives(("backwards", &[&at(0)]), mangled(|lines| lines.reverse()));
    scene.survives(("empty line", &[]), mangled(|lines| lines.insert(4, String::new())));
    scene.survives(("no json", &[&at(4)]), mangled(|lines| lines.insert(4, "{}".to_owned())));
    scene.survives(("spaces", &[&at(4)]), mangled(|lines| lines[4].push(' ')));
    scene.survives(
        ("one bit", &[&at(8)]),
        mangled(|lines| lines[7] = lines[7].replace("name-", "nmae-")),
    );
    scene.survives(("long line", &[&at(4)]), mangled(|lines| lines[4] = "x".repeat(100_000)));

    let stranger = Federation::named("other.example/fed");
    stranger.grow(MISSING);
    let lines = stranger.anchor.lines();
    scene.survives(("another federation", &[&at(0)]), move |asked| {
        Page { lines: lines[held as usize..].to_vec(), ..part(asked) }.say()
    });
    scene.heals();
}

/// A chain needs no secret, so anybody can continue it; only the signed root tells (reference/
/// tlog.md, incident 10).
#[test]
fn lines_that_are_not_in_the_signed_tree_are_refused_whole() {
    let scene = Scene::new();
    let held = scene.held;
    let (whole, few) = (scene.forged(MISSING as usize), scene.forged(20));
    let more = scene.forged(MISSING as usize + 1);
    let page = |lines: Vec<String>, end: fn(&Asked) -> String| {
        move |asked: &Asked| Page { lines: lines.clone(), end: end(asked) }.say()
    };
    let note = |asked: &Asked| Page::of(&asked.truth().unwrap()).end;
    let proof = |asked: &Asked| part(asked).end;
    let size = held + MISSING;
    scene.survives(("forged to the end", &[&format!("at size {size}")]), page(whole, note));
    let first = format!("{} lines are not shown to be the first of {size}", held + 20);
    scene.survives(("forged beginning", &[&first]), page(few.clone(), proof));
    scene.survives(("forged without proof", &[&first]), page(few, note));
    scene.survives(("more than signed", &[&format!("{} lines", size + 1)]), page(more, note));

    // True lines, of which the proof shows nothing.
    scene.survives(("proof cut", &["are not shown to be the first"]), |asked| {
        let mut page = part(asked);
        page.end = page.end.trim_end().rsplit_once('\n').unwrap().0.to_owned() + "\n";
        page.say()
    });
    scene.survives(("proof of a hash", &["are not shown to be the first"]), |asked| {
        let mut page = part(asked);
        let last = page.end.trim_end().rsplit_once('\n').unwrap().0.to_owned();
        page.end = format!("{last}\n{}\n", leaf_hash(b"x").to_base64());
        page.say()
    });
    scene.survives(("no base64", &["the proof after the checkpoint"]), |asked| {
        let mut page = part(asked);
        page.end.push_str("!!\n");
        page.say()
    });
    scene.survives(("no line", &["gives no line"]), |asked| {
        // The proof that our own lines are the first of theirs, and none of theirs.
        let held = asked.path.split(['=', '&']).nth(1).unwrap();
        let size = part(asked).end.lines().nth(1).unwrap().to_owned();
        let grown = get(asked.behind, &format!("/consistency?old={held}&new={size}")).json();
        let path = grown["path"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hash| Hash::parse_hex(hash.as_str().unwrap()).unwrap().to_base64() + "\n");
        let end = Page::of(&asked.truth().unwrap()).end + "\n" + &path.collect::<String>();
        Page { lines: Vec::new(), end }.say_empty()
    });
    scene.heals();
}

impl Page {
    /// No line stands before the blank one.
    fn say_empty(&self) -> Says {
        saying("200 OK", format!("\n{}", self.end).as_bytes())
    }
}

/// Chain and tree are tied to each other line by line, whatever the log's key signed.
#[test]
fn a_signed_tree_and_a_chain_that_are_not_the_same_lines_are_refused() {
    let scene = Scene::new();
    let (held, key) = (scene.held, scene.fed.log_key());
    let rooted = |node: &Node, lines: &[String]| {
        let mut frontier = Frontier::new();
        for line in node.lines().iter().chain(lines) {
            frontier.push(leaf_hash(line.as_bytes()));
        }
        (frontier.size(), frontier.root())
    };
    // The chain is right, its leaves are not in the tree.
    let (lines, others) = (scene.forged(10), chained(Tip::origin("x"), 10));
    let end = note(crate::federation::ORIGIN, rooted(&scene.node, &others), &key);
    let right_chain = Page { lines, end };
    scene.survives(("wrong leaves", &["none of it is kept"]), move |_| right_chain.say());
    // The leaves are in the tree, the chain is broken.
    let mut lines = scene.forged(10);
    lines.swap(4, 5);
    let end = note(crate::federation::ORIGIN, rooted(&scene.node, &lines), &key);
    let broken = Page { lines, end };
    let words = format!("line {} does not follow", held + 4);
    scene.survives(("wrong chain", &[&words]), move |_| broken.say());
    scene.heals();
}

/// Only the pinned origin and key are believed (reference/tlog.md, incident 11).
#[test]
fn a_checkpoint_that_is_not_the_logs_is_refused() {
    let scene = Scene::new();
    let key = scene.fed.log_key();
    let stranger = SigningKey::from_bytes(&[7; 32]);
    let named = move |origin: &'static str, key: SigningKey| {
        move |asked: &Asked| {
            let mut page = Page::of(&asked.truth().unwrap());
            let mut told = page.end.lines().skip(1);
            let size = told.next().unwrap().parse().unwrap();
            let root = Hash::parse_base64(told.next().unwrap()).unwrap();
            page.end = note(origin, (size, root), &key);
            page.say()
        }
    };
    scene.survives(("another key", &[]), named(crate::federation::ORIGIN, stranger));
    scene.survives(("another origin", &[]), named("other.example/fed", key));
    scene.survives(("another root", &[]), |asked| {
        let mut page = Page::of(&asked.truth().unwrap());
        let root = page.end.lines().nth(2).unwrap().to_owned();
        page.end = page.end.replace(&root, &leaf_hash(b"x").to_base64());
        page.say()
    });
    scene.survives(("another signature", &[]), |asked| {
        let mut page = Page::of(&asked.truth().unwrap());
        let at = page.end.trim_end().len() - 20;
        let other = if &page.end[at..=at] == "A" { "B" } else { "A" };
        page.end.replace_range(at..=at, other);
        page.say()
    });
    scene.heals();
}

/// No server, or no page at all.
#[test]
fn answers_that_are_no_page_are_refused() {
    let scene = Scene::new();
    let html = b"<html>\n<body>\n\nSign in\n\nto this network</body></html>\n";
    scene.survives(("html", &["does not follow"]), |_| saying("200 OK", html));
    scene.survives(("json", &[]), |_| saying("200 OK", b"{}"));
    scene.survives(("nothing", &["breaks off"]), |_| saying("200 OK", b""));
    scene.survives(("not utf-8", &[]), |_| saying("200 OK", b"\n\xff\n\n\xff\n"));
    for status in ["500 Oops", "502 Bad Gateway", "503 Later", "403 Forbidden", "429 Slow"] {
        let words = ["answered ", &status[..3]];
        scene.survives((status, &words), move |_| saying(status, b"oops\n"));
    }
    for status in ["301 Moved", "302 Found", "307 There", "308 There"] {
        let words = ["answered ", &status[..3]];
        scene.survives((status, &words), move |asked| {
            let place = format!("http://127.0.0.1:{}{}", asked.behind, asked.path);
            let head = format!("HTTP/1.1 {status}\r\nLocation: {place}\r\nContent-Length: 0\r\n");
            Says::Bytes(format!("{head}Connection: close\r\n\r\n").into_bytes())
        });
    }
    scene.survives(("409 of nothing", &[]), |_| saying("409 Conflict", b"{}"));
    scene.survives(("no http", &[]), |_| Says::Bytes(b"SSH-2.0-OpenSSH\r\n".to_vec()));
    scene.survives(("closed", &[]), |_| Says::Bytes(Vec::new()));
    scene.survives(("endless line", &[]), move |_| Says::Endless(format!("{CLOSING}x").into()));
    scene.survives(("endless length", &[]), move |asked| {
        let body = String::from_utf8(part(asked).bytes()).unwrap();
        Says::Endless(format!("{CLOSING}{body}x").into())
    });
    scene.heals();
}

/// O-40 (b): whole lines of a page that breaks off count, and the next question goes on after them.
#[test]
fn a_page_that_is_cut_costs_its_rest_and_nothing_else() {
    let scene = Scene::new();
    let held = scene.held;
    let tip = scene.tip();
    let truth = scene.fed.get(&format!("/sync?size={held}&since={}", tip.head)).body;
    let text = String::from_utf8(truth.clone()).unwrap();
    let lines = text.find("\n\n").unwrap() + 1;
    let ends: Vec<usize> = text[..lines].match_indices('\n').map(|(at, _)| at + 1).collect();
    // Inside record 15, at its end, inside the checkpoint, at the last byte.
    let cuts = [
        (ends[14] + 40, 15),
        (ends[14], 15),
        (ends[14] - 1, 14),
        (10, 0),
        (lines, MISSING),
        (lines + 30, MISSING),
        (truth.len() - 1, MISSING),
    ];
    for promised in [true, false] {
        for (at, whole) in cuts {
            let node = scene.node.copy_as(&format!("cut-{at}-{promised}"));
            let (truth, times) = (truth.clone(), Arc::new(AtomicUsize::new(0)));
            scene.fed.front.answer(move |asked| {
                if !asked.is("/sync") || times.fetch_add(1, Ordering::SeqCst) > 0 {
                    return Says::Truth;
                }
                match promised {
                    true => promising("200 OK", &truth[..at], truth.len()),
                    false => Says::Bytes([CLOSING.as_bytes(), &truth[..at]].concat()),
                }
            });
            node.fed(&["sync"]).quiet();
            let sizes = scene.fed.front.sizes();
            assert_eq!(sizes, [held, held + whole], "cut at {at}, promised {promised}");
            node.is_a_copy_of(&scene.fed.anchor);
        }
    }
}

/// A link that never lets a page through: the member gives up, and keeps nothing unproven.
#[test]
fn a_server_whose_pages_always_break_off_is_given_up() {
    let scene = Scene::new();
    scene.survives(("always cut", &["breaks off again and again"]), |asked| {
        let page = part(asked);
        let bytes = page.bytes();
        let end = page.lines.iter().take(3).map(|line| line.len() + 1).sum::<usize>() + 10;
        promising("200 OK", &bytes[..end], bytes.len())
    });
    scene.heals();
}
