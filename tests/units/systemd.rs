//! The systemd units (reference: every line here guards a trap that was measured).

use crate::run::{BUILT, Folder, INSTALLED, assert_serves, assert_ticks, has, text};
use std::path::PathBuf;
use std::process::Command;

const TICK: &str = "crowny-fed-tick.service";
const TIMER: &str = "crowny-fed-tick.timer";
const SERVE: &str = "crowny-fed-serve.service";
const SOCKET: &str = "crowny-fed-serve.socket";

/// A unit's settings in order, as (section, key, value).
struct Unit(Vec<(String, String, String)>);

impl Unit {
    fn read(name: &str) -> Unit {
        let text = text(&format!("systemd/{name}"));
        let mut section = String::new();
        let mut settings = Vec::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = name.to_owned();
                continue;
            }
            let (key, value) = line.split_once('=').expect(line);
            settings.push((section.clone(), key.to_owned(), value.to_owned()));
        }
        Unit(settings)
    }

    fn all(&self, section: &str, key: &str) -> Vec<&str> {
        let wanted = |(s, k, _): &&(String, String, String)| s == section && k == key;
        let values = self.0.iter().filter(wanted);
        values.map(|(_, _, value)| value.as_str()).collect()
    }

    /// The value of a setting that stands once.
    fn one(&self, section: &str, key: &str) -> &str {
        match self.all(section, key)[..] {
            [value] => value,
            ref other => panic!("[{section}] {key}: {other:?}"),
        }
    }

    fn seconds(&self, section: &str, key: &str) -> u64 {
        let value = self.one(section, key);
        let number = value.strip_suffix('s').expect("seconds with their unit");
        number.parse().expect("a whole number of seconds")
    }

    fn argv(&self) -> Vec<&str> {
        self.one("Service", "ExecStart").split(' ').collect()
    }
}

/// The units as installed, but for the program, which must exist to be accepted; and the targets
/// they hang on, so that nothing else on this machine can add a line.
fn installed() -> (Folder, Vec<PathBuf>) {
    let folder = Folder::new();
    let mut paths = Vec::new();
    for name in [TICK, TIMER, SERVE, SOCKET] {
        let path = folder.0.join(name);
        let unit = text(&format!("systemd/{name}")).replace(INSTALLED, BUILT);
        std::fs::write(&path, unit).unwrap();
        paths.push(path);
    }
    for target in ["sysinit", "basic", "shutdown", "sockets", "timers"] {
        std::fs::write(folder.0.join(format!("{target}.target")), "[Unit]\n").unwrap();
    }
    (folder, paths)
}

/// `systemd-analyze verify` ends with 0 on unknown keys and bad values, so any line is a failure.
fn verify(folder: &Folder, paths: &[PathBuf]) -> String {
    let ran = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(paths)
        .env("SYSTEMD_UNIT_PATH", &folder.0)
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(ran.status.success() || !said.is_empty(), "{}", ran.status);
    said
}

#[test]
fn systemd_accepts_the_units_without_a_word() {
    if !has("systemd-analyze") {
        return;
    }
    let (folder, paths) = installed();
    assert_eq!(verify(&folder, &paths), "");
    let timer = std::fs::read_to_string(&paths[1]).unwrap();
    std::fs::write(&paths[1], timer.replace("AccuracySec", "AcuracySec")).unwrap();
    assert!(verify(&folder, &paths).contains("AcuracySec"), "a typo passes");
}

#[test]
fn the_services_are_confined() {
    if !has("systemd-analyze") {
        return;
    }
    let (_folder, paths) = installed();
    for path in paths.iter().filter(|path| path.extension().unwrap() == "service") {
        let ran = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--threshold=25", "--no-pager"])
            .arg(path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    }
}

#[test]
fn the_timer_fires_on_time_and_a_hung_tick_cannot_stop_it() {
    let (timer, tick) = (Unit::read(TIMER), Unit::read(TICK));
    // Without AccuracySec a lone 30 s timer fires once a minute; without OnActiveSec, never.
    assert_eq!(timer.one("Timer", "AccuracySec"), "1s");
    assert!(timer.seconds("Timer", "OnActiveSec") <= 60);
    assert!(timer.seconds("Timer", "RandomizedDelaySec") <= 5);
    assert_eq!(timer.one("Install", "WantedBy"), "timers.target");
    assert_eq!(tick.one("Service", "Type"), "oneshot");
    // In [Service] it would be ignored with a warning, and short timers would be refused.
    assert_eq!(tick.one("Unit", "StartLimitIntervalSec"), "0");
    let period = timer.seconds("Timer", "OnUnitActiveSec");
    let stopping = tick.seconds("Service", "TimeoutStopSec");
    let limit = tick.seconds("Service", "TimeoutStartSec");
    assert!(limit + stopping < period, "{limit} + {stopping} < {period}");
    assert!(limit * 10 > period * 8, "the tick's own deadline comes first");
    assert!(
        tick.all("Service", "Restart").is_empty() && tick.all("Install", "WantedBy").is_empty()
    );
    let fine: Vec<&str> = tick.one("Service", "SuccessExitStatus").split(' ').collect();
    assert_eq!(fine, ["4", "75"], "integrity (5) and configuration (78) stay failures");
}

#[test]
fn the_socket_outlives_its_server() {
    let (socket, serve) = (Unit::read(SOCKET), Unit::read(SERVE));
    assert_eq!(socket.one("Socket", "ListenStream"), "127.0.0.1:9160");
    assert_eq!(socket.one("Socket", "Accept"), "no");
    assert_eq!(socket.one("Install", "WantedBy"), "sockets.target");
    assert_eq!(serve.one("Unit", "Requires"), SOCKET);
    // `always` would fight idle exit; none at all lets five failures switch the socket off.
    assert_eq!(serve.one("Service", "Restart"), "on-failure");
    assert!(serve.seconds("Service", "RestartSec") > 2, "below the start limit, 5 in 10 s");
    assert!(serve.all("Unit", "StartLimitIntervalSec").is_empty());
}

#[test]
fn both_services_are_one_user_in_one_folder_that_a_gateway_can_enter() {
    let (tick, serve) = (Unit::read(TICK), Unit::read(SERVE));
    for key in ["User", "Group", "StateDirectory", "StateDirectoryMode", "UMask"] {
        assert_eq!(tick.one("Service", key), serve.one("Service", key), "{key}");
    }
    assert_eq!(tick.one("Service", "StateDirectoryMode"), "0755");
    assert_eq!(tick.one("Service", "UMask"), "0022");
    let folder = format!("/var/lib/{}", tick.one("Service", "StateDirectory"));
    for unit in [&tick, &serve] {
        // /var/lib/private is 0700: nobody else would get to the map.
        assert!(unit.all("Service", "DynamicUser").is_empty());
        assert_eq!(unit.argv().last(), Some(&folder.as_str()));
    }
}

#[test]
fn confinement_leaves_the_way_out_and_the_boot_id_open() {
    for unit in [Unit::read(TICK), Unit::read(SERVE)] {
        let families = unit.one("Service", "RestrictAddressFamilies");
        for family in ["AF_INET", "AF_INET6", "AF_UNIX"] {
            assert!(families.split(' ').any(|allowed| allowed == family));
        }
        for key in ["PrivateNetwork", "IPAddressDeny", "ProcSubset", "WatchdogSec"] {
            assert!(unit.all("Service", key).is_empty(), "{key}");
        }
        // LogLevelMax also drops our own lines, which are info unless SyslogLevel says otherwise.
        assert_eq!(unit.one("Service", "LogLevelMax"), "notice");
        assert_eq!(unit.one("Service", "SyslogLevel"), "notice");
        let descriptors: u64 = unit.one("Service", "LimitNOFILE").parse().unwrap();
        assert!(descriptors >= 1_024);
    }
}

#[test]
fn the_binary_takes_the_units_arguments() {
    assert_ticks(&Unit::read(TICK).argv());
    assert_serves(&Unit::read(SERVE).argv());
}
