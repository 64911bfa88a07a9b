//! `init`: a working local anchor, no question asked.

use super::context::{Context, working_folder};
use super::register::offer;
use super::{Ending, print};
use crate::cli::{Common, Init, Peers};
use crate::config::duration_ms;
use crate::cycle::founding::{Founding, found};
use crate::cycle::speaking::Offer;
use crate::error::{Failure, Kind};
use crate::host::owner;
use crate::protocol::member::NodeId;
use crate::protocol::profile::Profile;
use crate::protocol::service::SERVICES_PER_NODE_MAX;

pub(super) fn run(common: &Common, typed: &Init) -> Ending {
    let context = Context::new(common, &Peers::default())?;
    let founding = founding(typed)?;
    let identity = found(&context.host, &context.config.layout, &founding)?;
    if common.quiet {
        return Ok(None);
    }
    let dir = working_folder(&common.dir)?.join(&common.dir);
    let dir = dir.display();
    let mut text = format!(
        "founded {} with this node '{}' as its anchor
  folder    {dir}
  vkey      {}
  recovery  {}: move this file to a safe place off this machine

next: list the other gateways in 피어목록.psv, then run: crowny-fed tick --dir {dir}
",
        identity.origin,
        identity.id,
        identity.vkey,
        context.config.layout.key("recovery").display(),
    );
    if identity.services.is_empty() {
        text.push_str(&format!(
            "      put this gateway into the map too: crowny-fed register --dir {dir} --service web=http://192.0.2.1:80\n"
        ));
    }
    print::out(&text)?;
    Ok(None)
}

fn founding(typed: &Init) -> Result<Founding, Failure> {
    let usage = |message: String| Failure::new(Kind::Usage, message);
    let id = match &typed.id {
        Some(id) => NodeId::parse(id).map_err(|error| usage(format!("--id: {error}")))?,
        None => named_after_host(),
    };
    let Offer { urls, services, .. } = offer(&typed.urls, &typed.services)?;
    if services.len() > SERVICES_PER_NODE_MAX {
        return Err(usage(format!(
            "{} services, at most {SERVICES_PER_NODE_MAX} a node",
            services.len()
        )));
    }
    let interval_ms =
        duration_ms(&typed.interval).map_err(|reason| usage(format!("--interval: {reason}")))?;
    Profile::for_interval(interval_ms)
        .checked()
        .map_err(|reason| usage(format!("--interval: {reason}")))?;
    Ok(Founding {
        origin: typed.origin.clone(),
        id,
        urls,
        services,
        config_text: config_text(&typed.interval),
    })
}

/// The host's name as far as it is a node id.
fn named_after_host() -> NodeId {
    let name: String = owner::host_name()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' })
        .take(64)
        .collect();
    NodeId::parse(&name).or_else(|_| NodeId::parse("anchor")).expect("'anchor' is a node id")
}

/// Every default with its reason; only the interval is set.
fn config_text(interval: &str) -> String {
    format!(
        r#"# crowny-fed. Durations: 500ms, 30s, 2m. Unknown keys are refused. Paths are relative to this file.

# How often the timer starts a tick. The unit or plist says so too; 0 = by hand only.
interval = "{interval}"

# A probe's limit covers lookup, connect, send and read together; 3 s tells a dead peer from a busy one.
# timeout = "3s"
# From here on an answer counts as slow (옴). Slow is still an answer: it never starts suspicion.
# slow = "1s"

# Suspicion lasts ceil of Lifeguard's formula in executed ticks: Min = alpha * max(1, log10 n),
# Max = beta * Min. The defaults follow the interval: 1s 4/6, 10s 3/4, 30s 2/3, 60s 2/2.
# alpha = 2.0
# beta = 3.0
# accusers = 3
# Fixes the length instead.
# suspicion_ticks = 6
# Members asked to try whom we do not reach. At 5 % loss three make a false suspicion a thousand times
# rarer than none; a fourth no longer pays.
# helpers = 3
# Up to so many members with a key are all asked in each tick; above it those in doubt and three more,
# in a shuffled round, and what members tell does the rest.
# probe_all_max = 20
# Ticks after which a dead member no longer counts: three days of them. It is still asked at times.
# reap_ticks = 8640

# On a member, while no anchor answers: "agree" leaves out of its own map whom it does not reach, and
# whom two members that can be asked agree to miss; "hold" leaves the map as it is and only marks them.
# anchorless = "agree"

# The live gateway's configuration: read to be hashed and compared with the peers', never written.
# gateway_config = "/etc/gateway/gateway.yaml"
# Host header of GET / probes: a name, or auto for each row's own host:port. For https rows it is also
# the name their certificate must have, so they use their own unless a name is set here.
# host_header = "crowny.org"

# If one of these answers, our own network works, however many peers are silent. Without one, a
# tick that hears nobody accuses nobody, for as long as that lasts: name something near and steady
# that is no peer, such as the router or a resolver.
# self_check = ["192.0.2.1:443"]

# Nothing of ours may be, lie in or link to these: labels (a path part) and paths. gwlive and the
# gateway's configuration with its folder are always protected, and so are ports 8080 8443 9152.
# protected = ["prod", "/srv/live"]
# protected_ports = [9000]

# Members may not register targets on loopback, which would lead into other people's machines: only
# where this anchor's own URL is on loopback, or with true here.
# allow_loopback = false

# Certificates to trust beside the system's, in PEM.
# ca_file = "ca.pem"

# Elsewhere than in this folder:
# peers = "/etc/crowny/피어목록.psv"
# status = "/run/crowny/피어상태.psv"

# A witness cosigns the signed checkpoint after it has seen that the log only grew (c2sp.org/tlog-witness): then
# nobody can be shown another history, and an old copy of this folder that was put back is noticed. The anchor
# asks after its work is done, 2 s at most; one that is missing or lies is a warning.
# required = true: readers and members see no checkpoint that it has not cosigned; lines, map and verdicts go on.
# monitor: where the witness shows what it saw. Where that holds more under our own signature than this folder
# does, nothing is signed any more; without it, that is only told.
# [[witness]]
# url = "https://witness.example.net/w1"
# vkey = "witness.example.net/w1+f2aca289+BM/PJzusVcMfhvSurOi+xPzxEzBveac6tdzHCzZ8uS+R"
# required = false
# monitor = "https://witness.example.net/w1"

[api]
# Where serve listens. Loopback is right behind a gateway or for a first try.
# listen = "127.0.0.1:9160"
# Further names under which the API may be called.
# hosts = ["gw1.example.org"]
"#
    )
}
