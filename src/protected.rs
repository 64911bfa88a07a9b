//! Law 1: what belongs to the live gateway and is never ours to write, link to or listen on.

use crate::error::Failure;
use std::path::{Path, PathBuf};

/// Ports of live gateways: never ours.
pub const PORTS: [u16; 3] = [8080, 8443, 9152];
/// The label that is always protected.
pub const LABEL: &str = "gwlive";

/// Paths no output of ours may be, lie in or link to, labels no path of ours may carry, and ports
/// we never listen on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// Absolute files and folders.
    pub paths: Vec<PathBuf>,
    /// Path parts such as `gwlive`.
    pub labels: Vec<String>,
    /// TCP ports.
    pub ports: Vec<u16>,
}

impl Protected {
    /// What the operator lists (paths hold a `/`, labels do not), on top of what always is; relative
    /// paths are meant from `dir`.
    pub fn new(dir: &Path, listed: &[String], ports: &[u16]) -> Self {
        let mut protected =
            Protected { labels: vec![LABEL.to_owned()], ports: PORTS.to_vec(), ..Self::default() };
        protected.ports.extend(ports);
        for held in listed {
            if held.contains('/') {
                protected.paths.push(dir.join(held));
            } else {
                protected.labels.push(held.clone());
            }
        }
        protected
    }

    /// The gateway's configuration, and its folder unless our own folder lies in it or is it.
    pub fn add_gateway(&mut self, config: &Path, dir: &Path) {
        self.paths.push(config.to_owned());
        let folder = config.parent().filter(|folder| !dir.starts_with(folder));
        self.paths.extend(folder.map(Path::to_owned));
    }

    /// Refuses a path (absolute, links resolved) that may not be written.
    pub fn refuse_path(&self, path: &Path) -> Result<(), Failure> {
        let carries = |label: &&String| {
            path.components().any(|part| {
                part.as_os_str().to_str().is_some_and(|part| part.eq_ignore_ascii_case(label))
            })
        };
        let reason = if let Some(held) = self.paths.iter().find(|held| path.starts_with(held)) {
            format!("{} is protected ({})", path.display(), held.display())
        } else if let Some(label) = self.labels.iter().find(carries) {
            format!("{} carries the protected label '{label}'", path.display())
        } else {
            return Ok(());
        };
        Err(Failure::config(format!("not written: {reason}"))
            .hint("the live gateway is never touched; choose another --dir or --status"))
    }

    /// Refuses a port that is the gateway's.
    pub fn refuse_port(&self, port: u16) -> Result<(), Failure> {
        if !self.ports.contains(&port) {
            return Ok(());
        }
        Err(Failure::config(format!("port {port} belongs to the live gateway (protected_ports)"))
            .hint("listen elsewhere; the default is 127.0.0.1:9160"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gateway_and_its_folder_are_out_of_reach() {
        let dir = Path::new("/x/d");
        let mut protected = Protected::new(dir, &["/srv/live".into(), "prod".into()], &[9999]);
        protected.add_gateway(Path::new("/etc/gw/gateway.yaml"), dir);
        let out = [
            "/etc/gw/gateway.yaml",
            "/etc/gw/x",
            "/srv/live/a",
            "/a/gwlive/b",
            "/a/GWLIVE",
            "/a/prod",
        ];
        for path in out {
            assert!(protected.refuse_path(Path::new(path)).is_err(), "{path}");
        }
        for path in ["/x/d/피어상태.psv", "/a/production", "/srv/livelier"] {
            assert!(protected.refuse_path(Path::new(path)).is_ok(), "{path}");
        }
        for port in [8080, 8443, 9152, 9999] {
            assert!(protected.refuse_port(port).is_err(), "{port}");
        }
        assert!(protected.refuse_port(9160).is_ok());
    }

    #[test]
    fn a_folder_that_holds_ours_is_not_taken_from_us_but_the_file_is() {
        let mut protected = Protected::default();
        protected.add_gateway(Path::new("/x/gateway.yaml"), Path::new("/x/d"));
        assert!(protected.refuse_path(Path::new("/x/d/피어상태.psv")).is_ok());
        assert!(protected.refuse_path(Path::new("/x/gateway.yaml")).is_err());
    }
}
