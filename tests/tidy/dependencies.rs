//! What may come in from outside: known licences, one registry, TLS by rustls alone.

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// A package passes when one side of each `OR` of its licence expression is made of these.
const LICENCES: [&str; 9] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "Unlicense",
    "MPL-2.0",
];
const BANNED: [&str; 3] = ["openssl", "openssl-sys", "native-tls"];

/// What the build at hand may pull in: with the feature `oracles` its packages too, which nothing
/// else downloads.
fn packages() -> Vec<Value> {
    let features =
        if cfg!(feature = "oracles") { "--all-features" } else { "--no-default-features" };
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", features])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

fn allowed(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    plain
        .split(" OR ")
        .any(|side| side.split(" AND ").all(|licence| LICENCES.contains(&licence.trim())))
}

#[test]
fn every_dependency_has_a_known_licence_and_comes_from_the_registry() {
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let licence = package["license"].as_str().unwrap_or("none");
        if !allowed(licence) {
            wrong.push(format!("{name}: licence {licence}"));
        }
        let source = package["source"].as_str().unwrap_or("registry+here");
        if !source.starts_with("registry+") {
            wrong.push(format!("{name}: source {source}"));
        }
        if BANNED.contains(&name) {
            wrong.push(format!("{name}: banned, TLS is rustls"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every direct dependency has its sentence in docs/architecture.md: what it saves, what it costs.
#[test]
fn every_direct_dependency_is_argued() {
    let root = env!("CARGO_MANIFEST_DIR");
    let argued = std::fs::read_to_string(format!("{root}/docs/architecture.md")).unwrap();
    let own = packages().into_iter().find(|package| package["name"] == "crowny-fed").unwrap();
    let missing: BTreeSet<String> = own["dependencies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
        .filter(|name| !argued.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "not argued in docs/architecture.md: {missing:?}");
}
