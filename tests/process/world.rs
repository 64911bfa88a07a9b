//! Another network or other name files for one run, where this machine lets us make them.

use crate::harness::{FED, Folder, Ran};
use std::process::{Command, Stdio};

/// Whether namespaces of our own can be made. Even where unshare is installed, a container may
/// forbid them, so this skips and never fails.
fn can_unshare(what: &str) -> bool {
    let allowed = Command::new("unshare")
        .args([what, "true"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("skipped: unshare is not installed or not permitted here");
    }
    allowed
}

/// Runs a verb without any network: every connect fails with "network is unreachable".
pub fn without_network(folder: &Folder, dir: &str, args: &[&str]) -> Option<Ran> {
    if !can_unshare("-rn") {
        return None;
    }
    let mut command = Command::new("unshare");
    command.current_dir(folder.path()).stdin(Stdio::null());
    command.args(["-rn", FED, "--dir", dir]).args(args);
    Some(Ran::of(command))
}

/// Runs a verb with `contents` in the place of a file under /etc.
pub fn with_etc(folder: &Folder, (file, contents): (&str, &str), args: &[&str]) -> Option<Ran> {
    if !can_unshare("-rm") {
        return None;
    }
    folder.write("etc", contents);
    let script = format!("mount --bind etc /etc/{file} && exec \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    command.current_dir(folder.path()).stdin(Stdio::null());
    command.args(["-rm", "sh", "-c", &script, FED]).args(args);
    Some(Ran::of(command))
}
