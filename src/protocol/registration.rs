//! Whether a member may say what its registration says.
//!
//! Only the subject raises its incarnation, a name that others serve needs a grant, and nobody can
//! point the federation's probes at what is inside other people's machines (case O-26).

use super::address::{Address, Host, Special, special};
use super::member::{Incarnation, Liveness, NodeId};
use super::membership::{Membership, Registration};
use super::service::{SERVICES_PER_NODE_MAX, Service, ServiceName, WEIGHT_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// Most URLs of one agent, tried in turn.
pub const URLS_MAX: usize = 8;

/// How far one registration may raise an incarnation: a stolen key must not be able to use up all
/// that there are and so end the id for good.
pub const JUMP_MAX: u64 = 1 << 32;
/// Most tags of one member.
pub const TAGS_MAX: usize = 16;
/// Longest tag name or value in characters.
pub const TAG_CHARS_MAX: usize = 64;
/// Longest path of a service check in bytes.
pub const CHECK_BYTES_MAX: usize = 256;

/// What comes of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It becomes a line.
    Accept,
    /// It says what the journal says already; `seq` of the newest line about the node.
    Unchanged(u64),
    /// It says nothing it may.
    Refuse(Reason),
}

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Not well-formed, or a target nobody may be sent to.
    Content(String),
    /// Not above the incarnation held.
    Stale(String),
    /// The service is bound to others.
    NotGranted(String),
}

/// Decides on a registration by a node whose key was checked. `loopback` allows targets on loopback.
pub fn admit(
    told: &Registration,
    membership: &Membership,
    grants: &BTreeMap<ServiceName, BTreeSet<NodeId>>,
    loopback: bool,
) -> Admission {
    if let Err(reason) = well_formed(told, loopback) {
        return Admission::Refuse(Reason::Content(reason));
    }
    if let Some(name) = told.services.iter().find(|s| !may_offer(&told.node, s, membership, grants))
    {
        return Admission::Refuse(Reason::NotGranted(name.name.to_string()));
    }
    let Some(member) = membership.member(&told.node) else {
        return Admission::Accept;
    };
    let held = member.standing;
    let same = member.urls == told.urls && member.services == told.services;
    let alive = held.liveness == Liveness::Alive;
    if member.registered && alive && same && held.incarnation == told.incarnation {
        return Admission::Unchanged(member.last_line);
    }
    if let Err(reason) = check_jump(told.incarnation, held.incarnation) {
        return Admission::Refuse(Reason::Content(reason));
    }
    let first = !member.registered && told.incarnation >= held.incarnation;
    if first || told.incarnation > held.incarnation {
        return Admission::Accept;
    }
    Admission::Refuse(Reason::Stale(format!(
        "stale: incarnation {} is not above {}, at which {} is {}",
        told.incarnation.value(),
        held.incarnation.value(),
        told.node,
        held.liveness.word()
    )))
}

/// A name is free while nobody else offers it and it is bound to nobody; otherwise it takes a grant.
pub fn may_offer(
    node: &NodeId,
    service: &Service,
    membership: &Membership,
    grants: &BTreeMap<ServiceName, BTreeSet<NodeId>>,
) -> bool {
    let bound = grants.get(&service.name).filter(|nodes| !nodes.is_empty());
    if let Some(nodes) = bound {
        return nodes.contains(node);
    }
    let gone = [Liveness::Left, Liveness::Revoked];
    !membership.members().any(|(id, other)| {
        id != node
            && !gone.contains(&other.standing.liveness)
            && other.offers().iter().any(|offer| offer.name == service.name)
    })
}

/// Whether an incarnation is within one step's reach of the one held.
pub fn check_jump(told: Incarnation, held: Incarnation) -> Result<(), String> {
    if told.value() <= held.value().saturating_add(JUMP_MAX) {
        return Ok(());
    }
    Err(format!("incarnation {} is more than {JUMP_MAX} above {}", told.value(), held.value()))
}

/// What a registration must be whoever holds what: few things, all of them well-formed, and no
/// target inside other people's machines.
pub fn well_formed(told: &Registration, loopback: bool) -> Result<(), String> {
    if told.urls.len() > URLS_MAX {
        return Err(format!("{} urls, at most {URLS_MAX}", told.urls.len()));
    }
    if told.services.len() > SERVICES_PER_NODE_MAX {
        return Err(format!("{} services, at most {SERVICES_PER_NODE_MAX}", told.services.len()));
    }
    let mut names = BTreeSet::new();
    for service in &told.services {
        if !names.insert(&service.name) {
            return Err(format!("service '{}' stands twice", service.name));
        }
        if !(1..=WEIGHT_MAX).contains(&service.weight) {
            return Err(format!("weight {}, expected 1 to {WEIGHT_MAX}", service.weight));
        }
        check_probe(service)?;
    }
    let services = told.services.iter().map(|service| &service.url);
    told.urls.iter().chain(services).try_for_each(|url| check_target(url, loopback))
}

/// How a service wants to be looked at.
fn check_probe(service: &Service) -> Result<(), String> {
    let plain = |path: &str| path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic());
    if service.check.as_ref().is_some_and(|path| !plain(path) || path.len() > CHECK_BYTES_MAX) {
        return Err(format!("check, expected a path of up to {CHECK_BYTES_MAX} ASCII bytes"));
    }
    match service.expect {
        Some(status) if !(100..=599).contains(&status) => {
            Err(format!("expect {status}, expected a status from 100 to 599"))
        }
        _ => Ok(()),
    }
}

/// Checks a member's tags: few, short, and on one line.
pub fn check_tags(tags: &BTreeMap<String, String>) -> Result<(), String> {
    let short = |text: &String| {
        text.chars().count() <= TAG_CHARS_MAX && !text.chars().any(char::is_control)
    };
    let good = |(name, value): (&String, &String)| !name.is_empty() && short(name) && short(value);
    if tags.len() <= TAGS_MAX && tags.iter().all(good) {
        return Ok(());
    }
    Err(format!("tags, expected up to {TAGS_MAX} of {TAG_CHARS_MAX} characters each"))
}

/// A target of the federation's probes and routes: http or https, a host, a port, nothing else.
pub fn check_target(url: &str, loopback: bool) -> Result<(), String> {
    let address = parse_url(url)?;
    let Host::Ip(ip) = address.host else {
        return match address.host {
            Host::Zoned { .. } => {
                Err(format!("url '{url}' has a zone, which means nothing elsewhere"))
            }
            Host::Name(name) if name == "localhost" || name.ends_with(".localhost") => {
                if loopback {
                    Ok(())
                } else {
                    Err(refused(url, "loopback"))
                }
            }
            _ => Ok(()),
        };
    };
    match special(ip) {
        None => Ok(()),
        Some(Special::Loopback) if loopback => Ok(()),
        Some(Special::Loopback) => Err(refused(url, "loopback")),
        Some(Special::LinkLocal) => Err(refused(url, "link-local")),
        Some(Special::Unspecified) => Err(refused(url, "unspecified")),
    }
}

fn refused(url: &str, what: &str) -> String {
    format!("url '{url}' points to a {what} address")
}

/// Reads `http://host[:port][/]` as an address.
pub fn parse_url(url: &str) -> Result<Address, String> {
    let bad = |why: &str| format!("url '{}': {why}", url.escape_debug());
    let (scheme, rest, usual) = if let Some(rest) = url.strip_prefix("https://") {
        ("https://", rest, 443)
    } else if let Some(rest) = url.strip_prefix("http://") {
        ("http://", rest, 80)
    } else {
        return Err(bad("expected http:// or https://"));
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            let port = port.parse().ok().filter(|port| digits && *port > 0);
            (host, port.ok_or_else(|| bad("expected a port from 1 to 65535"))?)
        }
        _ => (rest, usual),
    };
    Address::parse(&format!("{scheme}{host}"), port).map_err(|error| bad(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_what_is_inside() {
        for bad in [
            "http://169.254.169.254:80",
            "http://127.0.0.1:6379",
            "http://localhost",
            "http://0.0.0.0",
            "http://[::ffff:169.254.169.254]",
            "http://2852039166",
            "http://[::1]:80",
            "http://[fe80::1]",
            "http://0x7f.1",
            "ftp://a.example",
            "http://a.example/path",
            "http://u@a.example",
            "http://a:0",
            "http://",
            "http://a|b",
            "http://a.example:99999",
        ] {
            assert!(check_target(bad, false).is_err(), "{bad}");
        }
        for good in [
            "http://10.0.0.5:443",
            "https://192.168.1.20",
            "https://gw.example.org:8443",
            "http://[2001:db8::1]:80/",
        ] {
            check_target(good, false).unwrap();
        }
        check_target("http://127.0.0.1:6379", true).unwrap();
        assert!(check_target("http://169.254.169.254", true).is_err());
    }

    fn told(node: &str, incarnation: u64, service: &str) -> Registration {
        Registration {
            node: NodeId::parse(node).unwrap(),
            incarnation: Incarnation::new(incarnation).unwrap(),
            urls: vec!["http://192.0.2.1:9160".into()],
            services: vec![Service::parse(&format!("{service}=http://192.0.2.1:80")).unwrap()],
            outbound: false,
        }
    }

    fn member(membership: &mut Membership, registration: Registration, seq: u64) {
        membership.enrol(&registration.node, seq);
        membership.register(registration, seq + 1);
    }

    #[test]
    fn a_name_that_others_serve_takes_a_grant() {
        let (mut membership, mut grants) = (Membership::default(), BTreeMap::new());
        member(&mut membership, told("n1", 0, "api"), 0);
        membership.enrol(&NodeId::parse("n2").unwrap(), 2);
        let admit_n2 = |grants: &_| admit(&told("n2", 0, "api"), &membership, grants, false);
        assert_eq!(admit_n2(&grants), Admission::Refuse(Reason::NotGranted("api".into())));
        let name = ServiceName::parse("api").unwrap();
        grants.insert(name.clone(), BTreeSet::from([NodeId::parse("n1").unwrap()]));
        assert_eq!(admit_n2(&grants), Admission::Refuse(Reason::NotGranted("api".into())));
        grants.entry(name).or_default().insert(NodeId::parse("n2").unwrap());
        assert_eq!(admit_n2(&grants), Admission::Accept);
    }

    #[test]
    fn only_a_higher_incarnation_changes_what_is_held() {
        let (mut membership, grants) = (Membership::default(), BTreeMap::new());
        member(&mut membership, told("n1", 3, "api"), 0);
        let admit = |told: &Registration| admit(told, &membership, &grants, false);
        assert_eq!(admit(&told("n1", 3, "api")), Admission::Unchanged(1));
        assert!(matches!(admit(&told("n1", 3, "web")), Admission::Refuse(Reason::Stale(_))));
        assert!(matches!(admit(&told("n1", 2, "api")), Admission::Refuse(Reason::Stale(_))));
        assert_eq!(admit(&told("n1", 4, "web")), Admission::Accept);
        assert_eq!(admit(&told("n1", 3 + JUMP_MAX, "web")), Admission::Accept);
        let jump = admit(&told("n1", 4 + JUMP_MAX, "web"));
        assert!(matches!(jump, Admission::Refuse(Reason::Content(_))));
    }

    #[test]
    fn what_stands_beside_the_names_is_bounded_too() {
        let with = |check: &str, expect: u64| {
            let mut told = told("n1", 0, "api");
            told.services[0].check = Some(check.to_owned());
            told.services[0].expect = Some(expect);
            admit(&told, &Membership::default(), &BTreeMap::new(), false)
        };
        assert_eq!(with("/live?x=1", 204), Admission::Accept);
        for (check, expect) in [("live", 204), ("/a b", 204), ("/\n", 204), ("/", 99), ("/", 600)] {
            assert!(matches!(with(check, expect), Admission::Refuse(Reason::Content(_))));
        }
        let tags = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        check_tags(&tags("곳", "서울")).unwrap();
        for bad in [tags("", "x"), tags("a", "x\ny"), tags("a", &"x".repeat(65))] {
            assert!(check_tags(&bad).is_err());
        }
        assert!(check_tags(&(0..17).map(|n| (n.to_string(), String::new())).collect()).is_err());
    }
}
