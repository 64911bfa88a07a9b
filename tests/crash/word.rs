//! What a run had published, printed or answered before it died, and that none of it is lost.

use super::harness::{Fed, Ran, STATUS, leaf, whole_lines, whole_map};
use super::scene::Scene;
use super::sweep::Says;

/// What a run had made known before it died.
pub struct Word {
    /// Of each folder.
    lines: Vec<Vec<Vec<u8>>>,
}

impl Word {
    /// Reads it off the disks, and checks that nobody could have seen half a thing.
    #[track_caller]
    pub fn of(scene: &Scene, (says, ran): (Says, &Ran), at: &str) -> Word {
        let lines: Vec<Vec<Vec<u8>>> =
            scene.folders().into_iter().map(|fed| seen(fed, at)).collect();
        let author = lines.last().expect("a scene has a folder");
        match says {
            Says::Code => {
                // A line of our own branch is no line of the journal.
                let told = ran.out.lines().find(|line| !line.contains("branch.ndjson"));
                let told = told.unwrap_or_default().split("line ").nth(1).and_then(|rest| {
                    rest.split(|end: char| !end.is_ascii_digit()).next()?.parse::<usize>().ok()
                });
                let there = told.is_none_or(|seq| seq < author.len());
                assert!(there, "told, not written: {at}: {ran:#?}");
            }
            Says::Answer if says.done(ran) => {
                let body = ran.out.rsplit("\r\n\r\n").next().unwrap();
                let told: serde_json::Value = serde_json::from_str(body).unwrap();
                let seq = told["seq"].as_u64().unwrap() as usize;
                let there = author.get(seq).map(|line| leaf(line));
                assert_eq!(there.as_deref(), told["hash"].as_str(), "answered, not written: {at}");
            }
            Says::Answer => {}
        }
        for node in ["n2", "n3"] {
            let listed = author.iter().any(|line| {
                let line = String::from_utf8_lossy(line);
                line.contains("\"type\":\"roster\"") && line.contains(node)
            });
            assert!(listed || !ran.out.contains(&format!("{node} listed")), "told, not written");
        }
        Word { lines }
    }

    #[track_caller]
    pub fn is_kept(&self, scene: &Scene, at: &str) {
        for (before, fed) in self.lines.iter().zip(scene.folders()) {
            let journal = fed.journal();
            let lines = whole_lines(&journal);
            let kept = before.iter().zip(&lines).all(|(before, after)| before == after);
            assert!(kept && lines.len() >= before.len(), "lines were lost after {at}");
            assert_eq!(fed.signed_size(), lines.len() as u64, "{at}");
        }
    }
}

/// The whole lines of a folder whose published files must each be whole.
#[track_caller]
fn seen(fed: &Fed, at: &str) -> Vec<Vec<u8>> {
    let signed = fed.signed_size();
    let journal = fed.journal();
    let lines: Vec<Vec<u8>> = whole_lines(&journal).iter().map(|line| line.to_vec()).collect();
    assert!(signed <= lines.len() as u64, "a root ahead of the journal: {at}");
    let text = |name: &str| std::fs::read_to_string(fed.path(name)).ok();
    if let Some(head) = text("head.txt") {
        let (size, hash) = head.trim_end().split_once(' ').unwrap();
        let size: usize = size.parse().unwrap();
        assert_eq!(leaf(&lines[size - 1]), hash, "head.txt names another line: {at}");
    }
    if let Some(map) = text("federated-routes.txt") {
        whole_map(&map);
    }
    if let Some(status) = text(STATUS) {
        assert!(status.starts_with("# ") && status.ends_with('\n'), "cut: {at}: {status:?}");
    }
    lines
}
