//! The launchd property lists, checked here because launchd itself only runs on macOS.

use crate::plist::parse;
use crate::run::{assert_serves, assert_ticks, has, shipped, text};
use serde_json::{Value, json};
use std::process::Command;

const TICK: &str = "launchd/org.crowny.fed.tick.plist";
const SERVE: &str = "launchd/org.crowny.fed.serve.plist";

/// What a value of ours must look like.
#[derive(Clone, Copy)]
enum Form {
    Text,
    AbsolutePath,
    Integer(i64),
    True,
    Words,
    Dict(&'static [(&'static str, Form)]),
}

/// launchd ignores a key it does not know, so a typo would silently be no setting at all.
const KEYS: &[(&str, Form)] = &[
    ("Label", Form::Text),
    ("ProgramArguments", Form::Words),
    ("UserName", Form::Text),
    ("Umask", Form::Integer(0)),
    ("StartInterval", Form::Integer(10)),
    ("RunAtLoad", Form::True),
    ("ProcessType", Form::Text),
    ("SoftResourceLimits", Form::Dict(&[("NumberOfFiles", Form::Integer(1_024))])),
    ("StandardOutPath", Form::AbsolutePath),
    ("StandardErrorPath", Form::AbsolutePath),
    ("inetdCompatibility", Form::Dict(&[("Wait", Form::True)])),
    ("Sockets", Form::Dict(&[("Listeners", Form::Dict(LISTENER))])),
];

const LISTENER: &[(&str, Form)] = &[
    ("SockNodeName", Form::Text),
    ("SockServiceName", Form::Text),
    ("SockFamily", Form::Text),
    ("SockType", Form::Text),
];

fn check(text: &str) -> Result<Value, String> {
    let job = parse(text)?;
    check_dict(&job, KEYS)?;
    Ok(job)
}

fn check_dict(dict: &Value, keys: &[(&str, Form)]) -> Result<(), String> {
    for (key, value) in dict.as_object().ok_or("not a dict")? {
        let known = keys.iter().find(|(name, _)| name == key);
        let (_, form) = known.ok_or_else(|| format!("unknown key {key}"))?;
        check_value(value, *form).map_err(|reason| format!("{key}: {reason}"))?;
    }
    Ok(())
}

fn check_value(value: &Value, form: Form) -> Result<(), String> {
    let absolute = |text: &str| text.starts_with('/') && !text.contains('~');
    let good = match form {
        Form::Text => value.is_string(),
        Form::AbsolutePath => value.as_str().is_some_and(absolute),
        Form::Integer(least) => value.as_i64().is_some_and(|number| number >= least),
        Form::True => value == &json!(true),
        Form::Words => {
            let words = value.as_array().ok_or("not an array")?;
            let first = words.first().and_then(Value::as_str);
            first.is_some_and(absolute) && words.iter().all(Value::is_string)
        }
        Form::Dict(keys) => return check_dict(value, keys),
    };
    good.then_some(()).ok_or_else(|| format!("{value} is not it"))
}

fn argv(job: &Value) -> Vec<&str> {
    let words = job["ProgramArguments"].as_array().unwrap();
    words.iter().filter_map(Value::as_str).collect()
}

#[test]
fn the_tick_runs_at_load_and_at_an_interval_and_is_not_kept_alive() {
    let job = check(&text(TICK)).unwrap();
    assert_eq!(job["Label"], "org.crowny.fed.tick");
    assert_eq!(job["StartInterval"], 30);
    assert_eq!(job["RunAtLoad"], true);
    assert_eq!(job["ProcessType"], "Standard");
    assert_eq!(job.get("KeepAlive"), None);
    assert_ticks(&argv(&job));
}

#[test]
fn the_server_gets_the_listening_socket_and_ends_when_idle() {
    let job = check(&text(SERVE)).unwrap();
    assert_eq!(job["Label"], "org.crowny.fed.serve");
    assert_eq!(job["inetdCompatibility"], json!({"Wait": true}));
    let listener = &job["Sockets"]["Listeners"];
    assert_eq!(listener["SockNodeName"], "127.0.0.1");
    assert_eq!(listener["SockServiceName"], "9160");
    for absent in ["KeepAlive", "StartInterval", "RunAtLoad", "StandardOutPath"] {
        assert_eq!(job.get(absent), None, "{absent}");
    }
    assert_serves(&argv(&job));
}

#[test]
fn both_jobs_are_one_user_in_one_folder_with_a_log_beside_no_state() {
    let (tick, serve) = (check(&text(TICK)).unwrap(), check(&text(SERVE)).unwrap());
    for key in ["UserName", "Umask"] {
        assert_eq!(tick[key], serve[key], "{key}");
    }
    let folder = *argv(&tick).last().unwrap();
    assert_eq!(argv(&serve).last(), Some(&folder));
    for job in [&tick, &serve] {
        let log = job["StandardErrorPath"].as_str().unwrap();
        assert!(!log.starts_with(folder), "{log}");
    }
}

#[test]
fn python_reads_the_same_values() {
    if !has("python3") {
        return;
    }
    for path in [TICK, SERVE] {
        let program =
            "import json, plistlib, sys; print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
        let ran =
            Command::new("python3").args(["-c", program]).arg(shipped(path)).output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let theirs: Value = serde_json::from_slice(&ran.stdout).unwrap();
        assert_eq!(check(&text(path)).unwrap(), theirs, "{path}");
    }
}

#[test]
fn a_plist_that_launchd_would_misread_is_refused() {
    let good = text(TICK);
    for (from, to) in [
        ("<integer>30</integer>", "<integer>30s</integer>"),
        ("<integer>30</integer>", "<integer>5</integer>"),
        ("<integer>30</integer>", "<string>30</string>"),
        ("<string>/usr/local/bin/crowny-fed", "<string>crowny-fed"),
        ("<string>/usr/local/var/log", "<string>~/log"),
        ("StartInterval", "StartIntervall"),
        ("<key>Umask</key>", "<key>UserName</key>"),
        ("<true/>", "<false/>"),
        ("<string>tick</string>", "<integer>1</integer>"),
        ("_crownyfed", "a&b"),
        ("</dict>\n</plist>", "</plist>"),
        ("</array>", ""),
        ("-->", ""),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        assert!(check(&bad).is_err(), "{from} -> {to}");
    }
    let escaped = good.replacen("/usr/local/var/crowny-fed", "/Volumes/집 R&amp;D/fed", 1);
    assert_eq!(argv(&check(&escaped).unwrap())[3], "/Volumes/집 R&D/fed");
}
