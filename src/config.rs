//! Flags and file become one checked [`Config`]; nothing past it asks whether a setting is valid.

use crate::cli::{Common, Peers};
use crate::error::{Failure, Kind};
use crate::layout::{CONFIG, Layout, ROSTER, STATUS};
use crate::protected::Protected;
use crate::protocol::address::Address;
use crate::protocol::member::NodeId;
use crate::protocol::profile::Profile;
use crate::wire::witness::{self, Witness, WrittenWitness};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where `serve` listens unless told otherwise.
pub const LISTEN: &str = "127.0.0.1:9160";
/// Host header of probes unless told otherwise.
pub const HOST_HEADER: &str = "crowny.org";

/// The Host header a probe carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostHeader {
    /// Nothing was said: [`HOST_HEADER`] for plain rows, the row's own `host:port` for https ones,
    /// whose certificate is for that name and no other.
    Usual,
    /// The row's own `host:port`.
    Own,
    /// The same name for all; for https rows it is also the name the certificate must have.
    Fixed(String),
}

/// Everything a run needs to know, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where our files stand.
    pub layout: Layout,
    /// Rule parameters.
    pub profile: Profile,
    /// Our own roster row.
    pub own: Option<NodeId>,
    /// The roster file.
    pub peers: PathBuf,
    /// The status file.
    pub status: PathBuf,
    /// The gateway's configuration, read to be hashed.
    pub gateway_config: Option<PathBuf>,
    /// Host header of `GET /` probes.
    pub host_header: HostHeader,
    /// Targets whose answer proves that our own network works.
    pub self_check: Vec<Address>,
    /// Where `serve` listens.
    pub listen: SocketAddr,
    /// What is the live gateway's.
    pub protected: Protected,
    /// Further names under which our API may be called.
    pub api_hosts: Vec<String>,
    /// Whether members may register targets on loopback.
    pub allow_loopback: bool,
    /// Certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// Who is asked to cosign our checkpoints.
    pub witnesses: Vec<Witness>,
    /// What a node's own map does while no anchor answers.
    pub anchorless: Anchorless,
}

/// What a node's own map does while no anchor answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Anchorless {
    /// It goes without those that the members agree to miss.
    #[default]
    Agree,
    /// It stays; whoever is missed is only marked.
    Hold,
}

/// `crowny-fed.toml` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    interval: Option<String>,
    timeout: Option<String>,
    slow: Option<String>,
    alpha: Option<f64>,
    beta: Option<f64>,
    accusers: Option<u64>,
    suspicion_ticks: Option<u64>,
    helpers: Option<u64>,
    probe_all_max: Option<u64>,
    reap_ticks: Option<u64>,
    peers: Option<PathBuf>,
    status: Option<PathBuf>,
    gateway_config: Option<PathBuf>,
    host_header: Option<String>,
    #[serde(default)]
    self_check: Vec<String>,
    ca_file: Option<PathBuf>,
    #[serde(default)]
    anchorless: Anchorless,
    #[serde(default)]
    allow_loopback: bool,
    #[serde(default)]
    protected: Vec<String>,
    #[serde(default)]
    protected_ports: Vec<u16>,
    #[serde(default)]
    witness: Vec<WrittenWitness>,
    #[serde(default)]
    api: WrittenApi,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenApi {
    listen: Option<String>,
    #[serde(default)]
    hosts: Vec<String>,
}

/// Which configuration file to read, and whether it must be there.
pub fn file(common: &Common) -> (PathBuf, bool) {
    match &common.config {
        Some(path) => (path.clone(), true),
        None => (common.dir.join(CONFIG), false),
    }
}

/// Puts flags over file over defaults. `here` is the working folder, for relative paths.
pub fn assemble(
    common: &Common,
    peers: &Peers,
    text: Option<&str>,
    here: &Path,
) -> Result<Config, Failure> {
    let written = parse(common, text)?;
    let layout = Layout::new(here.join(&common.dir));
    let dir = layout.dir().to_owned();
    let chosen = |flag: &Option<PathBuf>, file: &Option<PathBuf>| match (flag, file) {
        (Some(path), _) => Some(here.join(path)),
        (None, Some(path)) => Some(dir.join(path)),
        (None, None) => None,
    };
    let gateway_config = chosen(&peers.gateway_config, &written.gateway_config);
    let mut protected = Protected::new(&dir, &written.protected, &written.protected_ports);
    if let Some(path) = &gateway_config {
        protected.add_gateway(path, &dir);
    }
    Ok(Config {
        profile: profile(peers, &written)?,
        own: own(peers)?,
        peers: chosen(&peers.peers, &written.peers).unwrap_or_else(|| dir.join(ROSTER)),
        status: chosen(&peers.status, &written.status).unwrap_or_else(|| dir.join(STATUS)),
        host_header: host_header(peers, &written)?,
        self_check: written
            .self_check
            .iter()
            .map(|target| self_check(target))
            .collect::<Result<_, _>>()?,
        listen: written_listen(&written, &protected)?,
        api_hosts: written.api.hosts.clone(),
        ca_file: written.ca_file.as_ref().map(|path| dir.join(path)),
        allow_loopback: written.allow_loopback,
        anchorless: written.anchorless,
        witnesses: witness::checked(&written.witness).map_err(Failure::config)?,
        gateway_config,
        layout,
        protected,
    })
}

/// Reads a listen address.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    let text = text.replacen("localhost:", "127.0.0.1:", 1);
    text.parse().map_err(|_| format!("'{text}', expected ip:port, e.g. {LISTEN} or [::1]:9160"))
}

/// Reads `30s`, `500ms`, `2m` or `0` as milliseconds.
pub fn duration_ms(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let factor = match unit {
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" => 60_000.0,
        "h" => 3_600_000.0,
        "" if number == "0" => 1.0,
        _ => {
            return Err(format!("'{text}', expected a number with ms, s, m or h, e.g. 30s"));
        }
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value * factor <= 1e12 => {
            Ok((value * factor).round() as u64)
        }
        _ => Err(format!("'{text}', expected a number with ms, s, m or h, e.g. 30s")),
    }
}

fn parse(common: &Common, text: Option<&str>) -> Result<Written, Failure> {
    let Some(text) = text else {
        return Ok(Written::default());
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    toml::from_str(&text).map_err(|error| {
        let path = file(common).0;
        let line = error.span().map_or(0, |span| 1 + text[..span.start].matches('\n').count());
        let message = error.message().replace('\n', " ");
        let failure = Failure::config(format!("{} line {line}: {message}", path.display()));
        if message.contains("expected a string") {
            return failure.hint("durations and names stand in quotes, e.g. interval = \"30s\"");
        }
        failure
    })
}

fn profile(peers: &Peers, written: &Written) -> Result<Profile, Failure> {
    let interval_ms = written_ms("interval", written.interval.as_deref())?.unwrap_or(30_000);
    let mut profile = Profile::for_interval(interval_ms);
    let timeout_ms = written_ms("timeout", written.timeout.as_deref())?;
    let slow_ms = written_ms("slow", written.slow.as_deref())?;
    let typed_timeout_ms = typed_ms("--timeout", peers.timeout.as_deref())?;
    let typed_slow_ms = typed_ms("--slow", peers.slow.as_deref())?;
    profile.timeout_ms = typed_timeout_ms.or(timeout_ms).unwrap_or(profile.timeout_ms);
    profile.slow_ms = typed_slow_ms.or(slow_ms).unwrap_or(profile.slow_ms);
    profile.alpha = written.alpha.unwrap_or(profile.alpha);
    profile.beta = written.beta.unwrap_or(profile.beta);
    profile.accusers = written.accusers.unwrap_or(profile.accusers);
    profile.suspicion_ticks = written.suspicion_ticks.or(profile.suspicion_ticks);
    profile.helpers = written.helpers.unwrap_or(profile.helpers);
    profile.probe_all_max = written.probe_all_max.unwrap_or(profile.probe_all_max);
    profile.reap_ticks = written.reap_ticks.unwrap_or(profile.reap_ticks);
    let typed = typed_timeout_ms.or(typed_slow_ms).is_some();
    let kind = if typed { Kind::Usage } else { Kind::Config };
    profile.checked().map_err(|reason| Failure::new(kind, reason))
}

fn written_listen(written: &Written, protected: &Protected) -> Result<SocketAddr, Failure> {
    let address = listen(written.api.listen.as_deref().unwrap_or(LISTEN))
        .map_err(|why| Failure::config(format!("listen: {why}")))?;
    protected.refuse_port(address.port())?;
    Ok(address)
}

fn written_ms(name: &str, text: Option<&str>) -> Result<Option<u64>, Failure> {
    let ms = text.map(duration_ms).transpose();
    ms.map_err(|reason| Failure::config(format!("{name}: {reason}")))
}

fn typed_ms(name: &str, text: Option<&str>) -> Result<Option<u64>, Failure> {
    let ms = text.map(duration_ms).transpose();
    ms.map_err(|reason| Failure::new(Kind::Usage, format!("{name}: {reason}")))
}

fn own(peers: &Peers) -> Result<Option<NodeId>, Failure> {
    let parse = |text: &String| {
        NodeId::parse(text).map_err(|error| Failure::new(Kind::Usage, format!("--self: {error}")))
    };
    peers.own.as_ref().map(parse).transpose()
}

fn host_header(peers: &Peers, written: &Written) -> Result<HostHeader, Failure> {
    let text = peers.host_header.as_ref().or(written.host_header.as_ref());
    match text.map(String::as_str) {
        None => Ok(HostHeader::Usual),
        Some("auto") => Ok(HostHeader::Own),
        Some(name) if !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic()) => {
            Ok(HostHeader::Fixed(name.to_owned()))
        }
        Some(name) => Err(Failure::config(format!(
            "host header '{}', expected auto or a name in ASCII",
            name.escape_debug()
        ))),
    }
}

fn self_check(target: &str) -> Result<Address, Failure> {
    let bad = || Failure::config(format!("self_check '{target}', expected host:port"));
    let (host, port) = target.rsplit_once(':').ok_or_else(bad)?;
    let port = port.parse().map_err(|_| bad())?;
    Address::parse(host, port).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common() -> Common {
        Common {
            dir: "d".into(),
            config: None,
            quiet: false,
            verbose: 0,
            color: crate::cli::Colour::Never,
            lang: crate::cli::Lang::En,
        }
    }

    fn with(text: &str) -> Result<Config, Failure> {
        assemble(&common(), &Peers::default(), Some(text), Path::new("/x"))
    }

    #[test]
    fn bom_crlf_and_trailing_blanks_change_nothing_and_unknown_keys_are_refused() {
        let plain = with("interval = \"10s\"\nslow = \"500ms\"\n").unwrap();
        let windows = with("\u{feff}interval = \"10s\"  \r\nslow = \"500ms\"\r\n").unwrap();
        assert_eq!(plain, windows);
        let refused = with("interval = \"10s\"\nintervall = \"1s\"\n").unwrap_err();
        assert_eq!(refused.kind, Kind::Config);
        assert!(refused.message.contains("line 2"), "{refused}");
    }

    #[test]
    fn nonsense_numbers_are_refused_with_the_reason() {
        for bad in [
            "interval = \"soon\"",
            "interval = \"-1s\"",
            "interval = \"2s\"\ntimeout = \"3s\"",
            "slow = \"9s\"",
            "suspicion_ticks = 0",
            "reap_ticks = 0",
            "helpers = 17",
            "alpha = 0.0",
            "beta = 1e9",
            "self_check = [\"x\"]",
            "host_header = \"\"",
            "[api]\nlisten = \"127.0.0.1:8443\"",
            "protected_ports = [9999]\n[api]\nlisten = \"127.0.0.1:9999\"",
            "[api]\nlisten = \"nowhere\"",
            "interval = \"1000h\"",
            "anchorless = \"die\"",
            "[[witness]]\nurl = \"https://w.example\"",
            "[[witness]]\nurl = \"https://w.example\"\nvkey = \"w+00000000+BA==\"",
            "[[witness]]\nurl = \"https://w.example\"\nvkey = \"w\"\nquorum = 1",
        ] {
            assert_eq!(with(bad).map(|_| ()).unwrap_err().kind, Kind::Config, "{bad}");
        }
    }
}
