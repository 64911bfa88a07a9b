//! As much Markdown as the documents use.

use std::path::{Path, PathBuf};

/// A fenced block and the heading it stands under.
pub struct Block {
    /// The text of the nearest heading above.
    pub heading: String,
    /// Its lines.
    pub text: String,
}

/// The repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every document, READMEs first.
pub fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in [root(), root().join("docs")] {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<PathBuf> =
            names.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
        names.sort();
        found.extend(names);
    }
    assert!(found.len() >= 7, "{found:?}");
    found
}

/// A document's text.
pub fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The fenced blocks of a document.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut heading = String::new();
    let mut open: Option<String> = None;
    for line in text.lines() {
        match &mut open {
            Some(_) if line.starts_with("```") => {
                let text = open.take().unwrap();
                found.push(Block { heading: heading.clone(), text });
            }
            Some(text) => {
                text.push_str(line);
                text.push('\n');
            }
            None if line.starts_with("```") => open = Some(String::new()),
            None if line.starts_with('#') => {
                heading = line.trim_start_matches('#').trim().to_owned();
            }
            None => {}
        }
    }
    assert!(open.is_none(), "a block without end under '{heading}'");
    found
}

/// The text outside fenced blocks.
pub fn prose(text: &str) -> String {
    let mut inside = false;
    let mut kept = String::new();
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
        } else if !inside {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// What stands between single backquotes.
pub fn spans(text: &str) -> Vec<String> {
    let prose = prose(text);
    prose.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}
