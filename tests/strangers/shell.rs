//! `fixtures/register.sh`: a member made of bash, openssl and curl.

use crate::federation::{Federation, fed, have, repository};
use crate::harness::Ran;
use crowny_fed::auth::invite::Invite;
use crowny_fed::auth::mac;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const TOOLS: [&str; 3] = ["bash", "openssl", "curl"];

impl Federation {
    fn script(&self, folder: &str, invitation: &str, args: &[&str]) -> Ran {
        let mut command = Command::new("bash");
        command.arg(repository("fixtures/register.sh")).arg(self.folder.join(folder)).args(args);
        fed(command, invitation)
    }

    fn says(&self, folder: &str, invitation: &str, args: &[&str]) -> Vec<Value> {
        let ran = self.script(folder, invitation, args);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

#[test]
fn a_member_without_our_program_joins_repeats_and_registers_anew() {
    if !have(&TOOLS) {
        return;
    }
    let fed = Federation::found();
    let invitation = fed.invite(&["서울-2", "--service", "가게"]);
    let offer = ["http://127.0.0.1:9", "가게", "http://127.0.0.1:9"];
    let said = fed.says("m", &invitation, &offer);
    assert_eq!((&said[0]["seq"], &said[1]["seq"]), (&3.into(), &4.into()));
    // The interrupted enrolment again: the same line answers.
    let again = fed.says("m", &invitation, &offer);
    assert_eq!((&again[0]["seq"], &again[1]["seq"]), (&3.into(), &5.into()));
    assert_eq!(again[0]["hash"], said[0]["hash"]);

    let map = fed.good(&["routes", "--service", "가게"]);
    assert_eq!(map, "가게|서울-2|http://127.0.0.1:9|weight=1|alive|inc=2\n");
    let full = fed.good(&["verify", "--full"]);
    assert!(full.contains("4 signatures"), "{full}");
}

#[test]
fn what_the_anchor_refuses_ends_the_script_with_the_reason() {
    if !have(&TOOLS) {
        return;
    }
    let fed = Federation::found();
    let invitation = fed.invite(&["gw2"]);
    let offer = ["http://127.0.0.1:9", "shop", "http://127.0.0.1:9"];
    fed.says("m", &invitation, &offer);
    // Somebody else with the burned invitation, a target nobody may name, no invitation.
    let stolen = fed.script("thief", &invitation, &offer);
    assert!(
        !stolen.status.success() && stolen.out.contains("the invitation was used"),
        "{stolen:?}"
    );
    let taken = fed.script("m", &invitation, &["http://169.254.1.1", "shop", "http://127.0.0.1:9"]);
    assert!(!taken.status.success() && taken.out.contains("link-local"), "{taken:?}");
    let none = fed.script("none", "nonsense\n", &offer);
    assert_eq!((none.code, none.out.as_str()), (Some(2), ""), "{none:?}");
    assert_eq!(fed.lines().len(), 5);
}

/// Whatever a program is given as an argument shows in `ps`.
#[test]
fn no_secret_is_an_argument_of_any_program() {
    if !have(&TOOLS) {
        return;
    }
    let fed = Federation::found();
    let invitation = fed.invite(&["gw2"]);
    let bin = fed.folder.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let log = fed.folder.join("arguments");
    for tool in ["openssl", "curl", "od", "tr", "tail", "cat", "date", "mkdir"] {
        let real = Command::new("bash").args(["-c", &format!("command -v {tool}")]).output();
        let real = String::from_utf8(real.unwrap().stdout).unwrap();
        let text = format!(
            "#!/bin/sh\nprintf '%s\\n' \"{tool} $*\" >>'{}'\nexec {} \"$@\"\n",
            log.display(),
            real.trim()
        );
        std::fs::write(bin.join(tool), text).unwrap();
        std::fs::set_permissions(bin.join(tool), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new("bash");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    command.arg(repository("fixtures/register.sh")).arg(fed.folder.join("m")).env("PATH", path);
    command.args(["http://127.0.0.1:9", "shop", "http://127.0.0.1:9"]);
    let ran = crate::federation::fed(command, &invitation);
    assert_eq!(ran.code, Some(0), "{ran:?}");

    let invite = Invite::parse(&invitation).unwrap();
    let bootstrap = mac::bootstrap_key(&invite.secret, invite.vkey.name(), "gw2");
    let arguments = fed.folder.text("arguments");
    assert!(arguments.lines().count() > 10, "{arguments}");
    for secret in [*invite.secret, *bootstrap] {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!arguments.contains(&hex), "a key stood in an argument");
    }
    assert!(!arguments.contains(&invitation.trim()[5..60]), "the invitation stood in an argument");
    for file in ["key.pem", "nonce"] {
        let mode = std::fs::metadata(fed.folder.join("m").join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o77, 0, "{file}");
    }
}
