//! Scenarios are text: commands, a line `----`, and the trace they must give.
//!
//! Blocks are parted by blank lines, comments begin with `#`. The trace holds every line that the
//! journal gained, what ticks noticed, and what `show` prints; the same line again and again is told
//! once with a count. `REWRITE=1` writes the traces anew: read the difference before keeping it.

mod anchors;
mod stage;
mod trace;

use stage::Stage;
use std::fs;
use std::path::{Path, PathBuf};

fn scenarios() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    files.sort();
    files
}

#[test]
fn every_scenario_gives_its_trace() {
    let rewrite = std::env::var_os("REWRITE").is_some();
    let mut differ = Vec::new();
    for path in scenarios() {
        let text = fs::read_to_string(&path).unwrap();
        let played = play(&text, &path);
        if played == text {
            continue;
        }
        if rewrite {
            fs::write(&path, &played).unwrap();
        } else {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            differ.push(format!("{name}\n{}", difference(&text, &played)));
        }
    }
    assert!(differ.is_empty(), "other traces than written:\n{}", differ.join("\n"));
}

#[test]
fn every_scenario_names_what_it_protects_against() {
    for path in scenarios() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("# Protects against "), "{}", path.display());
    }
}

/// The same text with the traces that its commands give.
fn play(text: &str, path: &Path) -> String {
    let mut stage = Stage::default();
    let mut played = Vec::new();
    for block in text.trim_end().split("\n\n") {
        let (commands, _) = block.split_once("----").unwrap_or((block, ""));
        let mut lines: Vec<String> = commands.trim_end().lines().map(str::to_owned).collect();
        let is_command = |line: &&String| !line.starts_with('#') && !line.trim().is_empty();
        let wanted: Vec<String> = lines.iter().filter(is_command).cloned().collect();
        for command in &wanted {
            let words: Vec<&str> = command.split_whitespace().collect();
            stage.act(&words).unwrap_or_else(|why| panic!("{}: {command}: {why}", path.display()));
        }
        if !wanted.is_empty() {
            lines.push("----".to_owned());
            lines.extend(trace::counted(stage.told()));
        }
        played.push(lines.join("\n"));
    }
    format!("{}\n", played.join("\n\n"))
}

fn difference(expected: &str, found: &str) -> String {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (expected, found) = (lines(expected), lines(found));
    let at = expected.iter().zip(&found).take_while(|(one, other)| one == other).count();
    let show = |lines: &[String]| lines.iter().skip(at).take(6).cloned().collect::<Vec<_>>();
    format!(
        "from line {}:\n  written: {:#?}\n  played: {:#?}",
        at + 1,
        show(&expected),
        show(&found)
    )
}
