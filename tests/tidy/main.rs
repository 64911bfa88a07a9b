//! House rules as tests: who may import whom, how long a file may be, that no file is an orphan.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic, unreachable_pub)] // tests meet the world and panic to fail

mod dependencies;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folder → what it may import of ours. `host::real`, `host::dial` and the like are named apart,
/// because most layers may know the trait and not the machine behind it.
const LAYERS: [(&str, &[&str]); 11] = [
    ("protocol", &["protocol"]),
    ("auth", &["auth"]),
    ("journal", &["journal", "protocol", "auth"]),
    ("wire", &["wire", "journal", "protocol", "auth"]),
    ("host", &["host", "host::real", "wire", "protocol"]),
    ("store", &["store", "journal", "wire", "protocol", "auth", "host", "error", "layout"]),
    (
        "cycle",
        &[
            "cycle", "store", "journal", "wire", "protocol", "auth", "host", "error", "layout",
            "config",
        ],
    ),
    (
        "http",
        &[
            "http", "cycle", "store", "journal", "wire", "protocol", "auth", "host", "error",
            "config",
        ],
    ),
    ("sim", &["sim", "http", "wire", "protocol", "host", "config"]),
    ("cli", &["cli"]),
    (
        "command",
        &[
            "command",
            "cli",
            "config",
            "cycle",
            "http",
            "store",
            "journal",
            "wire",
            "protocol",
            "auth",
            "host",
            "host::real",
            "error",
            "layout",
            "sim",
        ],
    ),
];
/// Folders that never meet the world.
const PURE: [&str; 4] = ["protocol", "auth", "journal", "wire"];
/// What a pure file may not even name.
const WORLD: [&str; 9] = [
    "std::fs",
    "std::net::Tcp",
    "std::env",
    "std::thread",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "tokio",
];
/// Real-world halves of `host`, for `command` and `host` alone.
const REAL: [&str; 4] = ["real", "dial", "owner", "path"];
/// Longest file in lines, tests at its end included.
const LINES_MAX: usize = 400;
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Code without comments and string contents, good enough for naming rules.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// `crate::a::b` paths in a file, `use crate::{a, b}` included.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let path: String =
            rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_' || *c == ':').collect();
        found.insert(path.trim_end_matches(':').to_owned());
    }
    found
}

fn layer_of(import: &str) -> String {
    let mut parts = import.split("::");
    let (first, second) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    if first == "host" && REAL.contains(&second) {
        "host::real".to_owned()
    } else {
        first.to_owned()
    }
}

#[test]
fn each_layer_imports_only_what_its_row_allows() {
    let mut wrong = Vec::new();
    for (folder, allowed) in LAYERS {
        for file in rust_files(&root().join("src").join(folder)) {
            for import in imports(&code(&file)) {
                if !allowed.contains(&layer_of(&import).as_str()) {
                    wrong.push(format!("{}: crate::{import}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "imports across the walls:\n{}", wrong.join("\n"));
}

#[test]
fn every_folder_has_a_row() {
    for entry in fs::read_dir(root().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(
            !path.is_dir() || LAYERS.iter().any(|(folder, _)| *folder == name),
            "{name} is in no layer"
        );
    }
}

#[test]
fn pure_folders_never_name_the_world() {
    let mut wrong = Vec::new();
    for folder in PURE {
        for file in rust_files(&root().join("src").join(folder)) {
            let code = code(&file);
            wrong.extend(
                WORLD
                    .iter()
                    .filter(|word| code.contains(**word))
                    .map(|word| format!("{}: {word}", file.display())),
            );
        }
    }
    assert!(wrong.is_empty(), "the world in a pure file:\n{}", wrong.join("\n"));
}

#[test]
fn no_file_is_too_long_or_an_orphan() {
    let src = root().join("src");
    for file in rust_files(&src) {
        let name = file.strip_prefix(root()).unwrap().display().to_string();
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert!(lines <= LINES_MAX, "{name} has {lines} lines, at most {LINES_MAX}");
        let stem = file.file_stem().unwrap().to_str().unwrap();
        if ["lib", "main", "mod"].contains(&stem) {
            continue;
        }
        let folder = file.parent().unwrap();
        let beside = folder.with_extension("rs");
        let parents = [folder.join("mod.rs"), folder.join("lib.rs"), beside];
        let declared = parents.iter().filter(|parent| parent.is_file()).any(|parent| {
            code(parent).lines().any(|line| line.trim_end().ends_with(&format!("mod {stem};")))
        });
        assert!(declared, "{name} is declared by no module");
    }
}

#[test]
fn switched_off_lints_say_why() {
    for file in rust_files(&root().join("src")) {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in (1..).zip(text.lines()) {
            let off = line.contains("[allow(") || line.contains("[expect(");
            let told = line.contains("reason")
                || line.split("//").nth(1).is_some_and(|why| why.len() > 10);
            assert!(
                !off || told,
                "{} line {number}: a lint is off without a reason",
                file.display()
            );
        }
    }
}

#[test]
fn an_expect_carries_its_reason() {
    for file in rust_files(&root().join("src")) {
        let code = code(&file);
        let product = code.split("#[cfg(test)]").next().unwrap_or("");
        assert!(!product.contains(".unwrap()"), "{}: unwrap", file.display());
        assert!(
            !product.contains(".expect(\"\")"),
            "{}: an expect without a reason",
            file.display()
        );
    }
}
