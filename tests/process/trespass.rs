//! Law 1 and the ownership of files: what may not be written is refused before anything is.

use crate::harness::{Folder, Serving, row};
use crate::peers::Peer;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

fn mode(folder: &Folder, name: &str, mode: u32) {
    fs::set_permissions(folder.join(name), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn no_output_may_lie_under_the_label_of_the_live_gateway() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.roster("d", &[row("n1", peer.port)]);
    folder.write("gwlive/config", "x");
    let before = folder.contents("gwlive");
    let verbs: [&[&str]; 4] =
        [&["init"], &["tick"], &["probe"], &["serve", "--listen", "127.0.0.1:0"]];
    for verb in verbs {
        for dir in ["gwlive", "gwlive/inside", "d/../gwlive"] {
            folder.fed(dir, verb).refuses(78, "gwlive");
        }
    }
    folder.fed("d", &["probe", "--status", "gwlive/s.psv"]).refuses(78, "gwlive");
    symlink(folder.join("gwlive"), folder.join("alias")).unwrap();
    folder.fed("alias", &["init"]).refuses(78, "gwlive");
    folder.fed("d", &["probe", "--status", "alias/s.psv"]).refuses(78, "gwlive");
    assert_eq!(folder.contents("gwlive"), before);
    assert!(peer.heads().is_empty(), "refused before anything was asked");
}

#[test]
fn the_gateways_file_and_folder_are_out_of_reach_by_any_road() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.roster("d", &[row("n1", peer.port)]);
    folder.write("live/gateway.yaml", "listen: 8443\n");
    let before = folder.contents("live");
    symlink(folder.join("live/gateway.yaml"), folder.join("link.psv")).unwrap();
    symlink(folder.join("live"), folder.join("road")).unwrap();
    let config = ["--gateway-config", "live/gateway.yaml"];
    for status in ["live/gateway.yaml", "live/s.psv", "link.psv", "road/s.psv", "road/gateway.yaml"]
    {
        let args = [&["probe", "--status", status], config.as_slice()].concat();
        folder.fed("d", &args).refuses(78, "protected");
    }
    folder.fed("live", &[&["probe"], config.as_slice()].concat()).refuses(3, "no roster");
    assert_eq!(folder.contents("live"), before);
    folder.good("d", &[&["probe"], config.as_slice()].concat());
    assert_eq!(folder.contents("live"), before);
}

#[test]
fn listed_paths_labels_and_ports_are_protected_like_the_gateways_own() {
    let folder = Folder::new();
    folder.write("srv/x", "");
    let settings = format!(
        "protected = [\"{}\", \"prod\"]\nprotected_ports = [19999]\n",
        folder.join("srv").display()
    );
    folder.write("d/crowny-fed.toml", settings);
    folder.fed("d", &["probe", "--status", "srv/s.psv"]).refuses(78, "protected");
    folder.fed("d", &["probe", "--status", "a/prod/s.psv"]).refuses(78, "prod");
    for port in ["8080", "8443", "9152", "19999"] {
        for address in ["127.0.0.1", "[::1]", "0.0.0.0"] {
            let listen = format!("{address}:{port}");
            folder
                .fed("d", &["serve", "--listen", &listen])
                .refuses(78, "belongs to the live gateway");
        }
    }
}

#[test]
fn state_that_others_may_write_is_refused() {
    let folder = Folder::new();
    folder.found("d", "");
    for (name, back) in
        [("d", 0o755), ("d/keys", 0o700), ("d/state", 0o700), ("d/crowny-fed.toml", 0o644)]
    {
        mode(&folder, name, back | 0o002);
        for verb in ["tick", "status", "probe"] {
            folder.fed("d", &[verb]).refuses(78, "may be written by others");
        }
        mode(&folder, name, back);
    }
    folder.good("d", &["status"]);
}

#[test]
fn keys_are_private_whatever_the_umask_says() {
    let folder = Folder::new();
    folder.found("d", "");
    for entry in folder.contents("d/keys").keys() {
        assert_eq!(fs::metadata(entry).unwrap().permissions().mode() & 0o777, 0o600);
    }
    for name in ["d/keys", "d/state"] {
        assert_eq!(fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777, 0o700);
    }
    assert_eq!(
        fs::metadata(folder.join("d/self.json")).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn reading_verbs_make_no_folder() {
    let folder = Folder::new();
    for verb in ["status", "routes", "log", "verify", "root", "failover", "probe", "tick"] {
        let ran = folder.fed("none", &[verb]);
        assert!(matches!(ran.code, Some(3 | 78)) && ran.out.is_empty(), "{verb}: {ran:?}");
    }
    let serving = Serving::start(&folder, "none", 0, &[]);
    for path in ["/", "/q/health"] {
        assert_eq!(serving.get(path).status, 200, "{path}");
    }
    for path in ["/q/peers", "/routes", "/verify", "/tile/0/000", "/proof?seq=0"] {
        assert!(matches!(serving.get(path).status, 404 | 503), "{path}");
    }
    assert!(!folder.join("none").exists());
}

/// A link in our own folder is a road like any other.
#[test]
fn no_link_in_our_folder_leads_into_the_gateway() {
    let folder = Folder::new();
    let peer = Peer::status(200);
    folder.found("d", "");
    folder.roster("d", &[row("n1", peer.port)]);
    folder.write("live/gateway.yaml", "listen: 8443\n");
    folder.write("live/other", "x");
    let before = folder.contents("live");
    let config = ["--gateway-config", "live/gateway.yaml"];
    let tick = [&["tick"], config.as_slice()].concat();
    for (name, target) in [
        ("d/state/tmp", "live"),
        ("d/tile", "live"),
        ("d/index", "live"),
        ("d/nodes.ndjson", "live/other"),
        ("d/federated-routes.txt", "live/other"),
    ] {
        let aside = folder.join("aside");
        let held = fs::rename(folder.join(name), &aside).is_ok();
        symlink(folder.join(target), folder.join(name)).unwrap();
        folder.fed("d", &tick).refuses(78, "protected");
        assert_eq!(folder.contents("live"), before, "{name}");
        fs::remove_file(folder.join(name)).unwrap();
        if held {
            fs::rename(&aside, folder.join(name)).unwrap();
        }
    }
    for temporary in [".피어상태.psv.tmp", ".피어상태.psv.probe.tmp", ".피어상태.psv.tick.tmp"]
    {
        symlink(folder.join("live/other"), folder.join(&format!("d/{temporary}"))).unwrap();
        folder.fed("d", &["probe"]);
        folder.fed("d", &["tick"]);
        assert_eq!(folder.contents("live"), before, "{temporary}");
        let _ = fs::remove_file(folder.join(&format!("d/{temporary}")));
    }
    folder.good("d", &tick);
}

/// Law 3: what our own signature contradicts is not signed over by the next tick.
#[test]
fn a_conviction_stands_until_a_person_has_judged_it() {
    let folder = Folder::new();
    folder.found("d", "");
    folder.good("d", &["grant", "web", "n2"]);
    folder.write("d/state/evidence/ours-4.txt", "a note\n");
    folder.write("d/state/evidence/theirs-4.txt", "another\n");
    let journal = folder.text("d/nodes.ndjson");
    folder.fed("d", &["tick"]).refuses(5, "the log's signature is on two histories");
    folder.fed("d", &["grant", "api", "n2"]).refuses(5, "the log's signature is on two histories");
    assert!(folder.good("d", &["status"]).contains("theirs-4.txt"));
    assert_eq!(folder.text("d/nodes.ndjson"), journal);
    fs::rename(folder.join("d/state/evidence"), folder.join("judged")).unwrap();
    folder.good("d", &["tick"]);
}
