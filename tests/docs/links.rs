//! Relative links lead to files that are there, and fragments to headings.

use crate::markdown::{documents, prose, read};

#[test]
fn every_relative_link_resolves() {
    let mut dead = Vec::new();
    for document in documents() {
        let text = read(&document);
        for target in targets(&text) {
            if target.contains("://") {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((&target, ""));
            let file = match path {
                "" => document.clone(),
                path => document.parent().unwrap().join(path),
            };
            let known = || slugs(&read(&file)).iter().any(|slug| slug == fragment);
            if !file.exists() || !(fragment.is_empty() || known()) {
                dead.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}

fn targets(text: &str) -> Vec<String> {
    let prose = prose(text);
    let after = prose.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned()).collect()
}

/// Headings as the fragments that GitHub makes of them.
fn slugs(text: &str) -> Vec<String> {
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let text = line.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}
