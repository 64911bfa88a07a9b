//! Every command in the documents is one the program takes, and the two READMEs tell the same.

use crate::markdown::{blocks, documents, prose, read, spans};
use std::collections::BTreeMap;
use std::process::Command;

/// What `--help` prints after `args`.
fn help(args: &[&str]) -> String {
    let ran =
        Command::new(env!("CARGO_BIN_EXE_crowny-fed")).args(args).arg("--help").output().unwrap();
    assert!(ran.status.success(), "{args:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// The verbs of `--help`, each with its own help.
fn verbs() -> BTreeMap<String, String> {
    let text = help(&[]);
    let list = text.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let verbs: BTreeMap<String, String> = names
        .filter_map(|line| line.split_whitespace().next())
        .map(|verb| (verb.to_owned(), help(&[verb])))
        .collect();
    assert!(verbs.len() >= 10, "{text}");
    verbs
}

/// Every command line of a document: lines of fenced blocks and inline code.
fn command_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = spans(text);
    for block in blocks(text) {
        // A comment, or the first line of a file of ours.
        let told = block.text.lines().filter(|line| !line.starts_with('#'));
        lines.extend(told.map(str::to_owned));
    }
    lines
}

/// The verb and flags of each call of ours in a line.
fn calls(line: &str) -> Vec<(String, Vec<String>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ours = |word: &str| word == "crowny-fed" || word.ends_with("/crowny-fed");
    let is_verb = |word: &str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    let mut found = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, word)| ours(word)) {
        let after: Vec<&str> = words[at + 1..]
            .iter()
            .copied()
            .skip_while(|word| ["--quiet", "-q"].contains(word))
            .take_while(|word| !matches!(*word, "|" | ">" | "&&" | "&" | ";" | "#" | "||"))
            .collect();
        // `-u crowny-fed crowny-fed tick`: the first is a user's name, the second is us.
        let Some(verb) = after.first().filter(|word| is_verb(word) && !word.starts_with('-'))
        else {
            continue;
        };
        if ours(verb) {
            continue;
        }
        let flags = after.iter().filter(|word| word.starts_with("--"));
        let flags = flags.map(|flag| flag.split('=').next().unwrap_or(flag).to_owned());
        found.push((verb.to_string(), flags.collect()));
    }
    found
}

#[test]
fn every_command_told_is_one_that_exists() {
    let verbs = verbs();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for document in documents() {
        for line in command_lines(&read(&document)) {
            for (verb, flags) in calls(&line) {
                seen += 1;
                let Some(help) = verbs.get(&verb) else {
                    wrong.push(format!("{}: no verb {verb}: {line}", document.display()));
                    continue;
                };
                let unknown = flags.iter().filter(|flag| !help.contains(flag.as_str()));
                wrong.extend(
                    unknown.map(|flag| {
                        format!("{}: {verb} has no {flag}: {line}", document.display())
                    }),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 30, "{seen} commands found");
}

#[test]
fn both_readmes_name_every_verb_and_every_exit_code() {
    let help = help(&[]);
    let codes = help.split_once("Exit codes:\n").unwrap().1;
    let codes: Vec<&str> =
        codes.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(codes, ["0", "1", "2", "3", "4", "5", "75", "78"]);
    for readme in ["README.md", "README.ko.md"] {
        let text = read(readme);
        for verb in verbs().keys() {
            let row = format!("| `{verb}");
            assert!(text.contains(&row), "{readme}: {row}");
        }
        for code in &codes {
            assert!(text.contains(&format!("| {code} |")), "{readme}: exit code {code}");
        }
    }
}

#[test]
fn the_readmes_tell_the_same_session_under_the_same_sections() {
    let (english, korean) = (read("README.md"), read("README.ko.md"));
    let sections = |text: &str| prose(text).lines().filter(|line| line.starts_with("## ")).count();
    assert_eq!(sections(&english), sections(&korean));
    let code = |text: &str| -> Vec<String> {
        let lines = blocks(text);
        let lines = lines.iter().flat_map(|block| block.text.lines());
        lines.filter(|line| !line.trim_start().starts_with('#')).map(str::to_owned).collect()
    };
    assert_eq!(code(&english), code(&korean));
    assert!(code(&english).len() > 20);
}

#[test]
fn make_targets_that_are_told_exist() {
    let makefile = read("Makefile");
    for document in documents() {
        for span in command_lines(&read(&document)) {
            let line = span.trim_start_matches("$ ");
            if let Some(target) = line.strip_prefix("make ") {
                let rule = format!("\n{}:", target.split_whitespace().next().unwrap_or(""));
                assert!(makefile.contains(&rule), "{}: make {target}", document.display());
            }
        }
    }
}
