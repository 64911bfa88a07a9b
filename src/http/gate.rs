//! Who may talk to us at all, decided from the head alone, before a byte of the body is read. Pure.
//!
//! The API listens on loopback, and a browser can reach loopback: a page of another site posts to
//! it (Origin gives it away), or a name the attacker owns is rebound to 127.0.0.1 (Host gives it
//! away). So only names we know we are called are answered, foreign origins are refused, a POST
//! must carry a type no plain form can send, and there are no CORS headers to relax any of it.
//! Ports are not compared: neither attack gains from one, and fronts map them freely.

use std::net::{IpAddr, SocketAddr};

use super::message::Method;
use super::refusal::Refusal;

/// The names and addresses this server answers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    hosts: Vec<String>,
    wildcard_ip: bool,
}

impl Allowed {
    /// Localhost, every address of `listen`, and `hosts` (names as A-labels or IP literals, with
    /// or without port; a malformed one matches nothing). A wildcard address in `listen` admits
    /// every IP literal, because any of the machine's addresses leads here; an IP literal cannot be
    /// rebound.
    pub fn new<H: AsRef<str>>(listen: &[SocketAddr], hosts: impl IntoIterator<Item = H>) -> Self {
        let configured = hosts.into_iter().filter_map(|host| host_of(host.as_ref()));
        let mut all: Vec<String> = listen.iter().map(|address| address.ip().to_string()).collect();
        all.push("localhost".to_owned());
        all.extend(configured);
        Allowed { hosts: all, wildcard_ip: listen.iter().any(|at| at.ip().is_unspecified()) }
    }

    /// Whether a host as `host_of` returns it is one of ours.
    pub fn admits(&self, host: &str) -> bool {
        let literal = self.wildcard_ip && host.parse::<IpAddr>().is_ok();
        literal || self.hosts.iter().any(|ours| ours == host)
    }
}

/// What the gate looks at; header values exactly as sent, one entry a header line.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The request's method.
    pub method: Method,
    /// The authority of an absolute-form target; it outranks Host (RFC 9112 3.2.2).
    pub authority: Option<&'a str>,
    /// `Host` lines.
    pub hosts: Vec<&'a [u8]>,
    /// `Origin` lines.
    pub origins: Vec<&'a [u8]>,
    /// `Content-Type` lines.
    pub content_types: Vec<&'a [u8]>,
}

/// Lets a head in and returns the host it addressed, as `host_of` writes it.
pub fn admit(head: &Head<'_>, allowed: &Allowed) -> Result<String, Refusal> {
    let host = addressed(head, allowed)?;
    let foreign = |origin: &&[u8]| !origin_host(origin).is_some_and(|from| allowed.admits(&from));
    if head.origins.iter().any(foreign) {
        return Err(Refusal::OriginForeign);
    }
    match head.method {
        Method::Get | Method::Head => Ok(host),
        Method::Post if is_json(&head.content_types) => Ok(host),
        Method::Post => Err(Refusal::ContentTypeRefused),
        Method::Other => Err(Refusal::MethodRefused),
    }
}

/// The host part of `host[:port]`: case-folded, without brackets or a final dot, IP literals in
/// their canonical form. `None` when it is anything else (user info, zone, spaces, bad port).
pub fn host_of(authority: &str) -> Option<String> {
    if let Ok(ip) = authority.parse::<IpAddr>() {
        return Some(ip.to_string());
    }
    let (host, port) = split_port(authority)?;
    if port.is_some_and(|digits| !is_port(digits)) {
        return None;
    }
    if let Some(literal) = host.strip_prefix('[') {
        let ip: IpAddr = literal.strip_suffix(']')?.parse().ok()?;
        return ip.is_ipv6().then(|| ip.to_string());
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Some(ip.to_string());
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let whole = (1..=253).contains(&name.len()) && name.bytes().all(plain);
    whole.then(|| name.to_ascii_lowercase())
}

fn addressed(head: &Head<'_>, allowed: &Allowed) -> Result<String, Refusal> {
    let sent = match head.hosts.as_slice() {
        [] => return Err(Refusal::HostMissing),
        [b""] => return Err(Refusal::HostMissing),
        [one] => std::str::from_utf8(one).ok().and_then(host_of),
        _ => return Err(Refusal::HostRepeated),
    };
    let mut host = sent.ok_or(Refusal::HostMalformed)?;
    if !allowed.admits(&host) {
        return Err(Refusal::HostForeign);
    }
    if let Some(authority) = head.authority {
        host = host_of(authority).ok_or(Refusal::HostMalformed)?;
    }
    if allowed.admits(&host) { Ok(host) } else { Err(Refusal::HostForeign) }
}

/// Splits a port off, keeping the colons of a bracketed IPv6 literal together.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let bracket = authority.rfind(']').map_or(0, |at| at + 1);
    let (host, rest) = authority.split_at_checked(bracket)?;
    match (host.is_empty(), rest.split_once(':')) {
        (true, Some((name, port))) => Some((name, Some(port))),
        (true, None) => Some((rest, None)),
        (false, Some(("", port))) => Some((host, Some(port))),
        (false, None) if rest.is_empty() => Some((host, None)),
        (false, _) => None,
    }
}

fn is_port(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
}

/// The host of an `Origin`; `null`, lists and other schemes have none (RFC 6454 7).
fn origin_host(origin: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(origin).ok()?;
    let (scheme, authority) = text.split_once("://")?;
    let web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    if web { host_of(authority) } else { None }
}

/// Exactly one `application/json`, parameters allowed. A missing type is refused as well: a
/// browser can leave it out without a preflight.
fn is_json(content_types: &[&[u8]]) -> bool {
    let [one] = content_types else { return false };
    let media = one.split(|&byte| byte == b';').next().unwrap_or_default();
    media.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(listen: &str) -> Allowed {
        Allowed::new(&[listen.parse().unwrap()], ["Gw.Example.org", "10.1.2.3:443", "bad host"])
    }

    fn get(host: &str) -> Head<'_> {
        let (origins, content_types) = (vec![], vec![]);
        let hosts = vec![host.as_bytes()];
        Head { method: Method::Get, authority: None, hosts, origins, content_types }
    }

    #[test]
    fn a_loopback_listener_answers_to_its_own_names_only() {
        let ours = allowed("127.0.0.1:9160");
        for host in ["127.0.0.1:9160", "127.0.0.1", "LOCALHOST:1", "localhost.", "10.1.2.3"] {
            assert!(admit(&get(host), &ours).is_ok(), "{host}");
        }
        assert_eq!(admit(&get("gw.example.ORG:443"), &ours).unwrap(), "gw.example.org");
        for host in ["evil.example", "127.0.0.2", "[::1]", "x.gw.example.org", "localhost.x", "bad"]
        {
            assert_eq!(admit(&get(host), &ours), Err(Refusal::HostForeign), "{host}");
        }
    }

    #[test]
    fn a_wildcard_listener_answers_to_every_ip_literal() {
        let ours = allowed("[::]:9160");
        for host in ["192.168.0.7:9160", "[fe80::1]:9160", "[::1]", "localhost"] {
            assert!(admit(&get(host), &ours).is_ok(), "{host}");
        }
        for host in ["rebind.example:9160", "0x7f.1", "2130706433"] {
            assert_eq!(admit(&get(host), &ours), Err(Refusal::HostForeign), "{host}");
        }
    }

    #[test]
    fn ip_literals_are_compared_by_value() {
        let ours = Allowed::new(&["[::1]:9160".parse().unwrap()], ["[2001:DB8:0::1]:443"]);
        assert!(admit(&get("[0:0:0:0:0:0:0:1]:9160"), &ours).is_ok());
        assert_eq!(admit(&get("[2001:db8::1]"), &ours).unwrap(), "2001:db8::1");
    }

    #[test]
    fn a_host_that_is_not_one_plain_authority_is_malformed() {
        let ours = allowed("127.0.0.1:9160");
        for host in [
            "user@localhost",
            "localhost:",
            "localhost:99999",
            "localhost:+1",
            "localhost:1:2",
            "[::1",
            "::1]",
            "[127.0.0.1]",
            "[::1]x",
            "[::1]x:80",
            "[fe80::1%25eth0]",
            "a b",
            ".",
            "<script>",
            "localhost/x",
            "localhost,evil",
            "서울",
        ] {
            assert_eq!(admit(&get(host), &ours), Err(Refusal::HostMalformed), "{host}");
        }
        assert_eq!(admit(&get(""), &ours), Err(Refusal::HostMissing));
        let none = Head { hosts: vec![], ..get("x") };
        assert_eq!(admit(&none, &ours), Err(Refusal::HostMissing));
        let two = Head { hosts: vec![b"localhost", b"localhost"], ..get("x") };
        assert_eq!(admit(&two, &ours), Err(Refusal::HostRepeated));
    }

    #[test]
    fn an_absolute_target_is_held_to_the_same_names() {
        let ours = allowed("127.0.0.1:9160");
        let at = |authority| Head { authority: Some(authority), ..get("localhost") };
        assert_eq!(admit(&at("gw.example.org:80"), &ours).unwrap(), "gw.example.org");
        assert_eq!(admit(&at("evil.example"), &ours), Err(Refusal::HostForeign));
        assert_eq!(admit(&at("u@localhost"), &ours), Err(Refusal::HostMalformed));
    }

    #[test]
    fn a_foreign_origin_is_refused_before_anything_else_about_the_request() {
        let ours = allowed("127.0.0.1:9160");
        let from = |origin| Head { origins: vec![origin], ..get("localhost:9160") };
        assert!(admit(&from(b"http://localhost:9160"), &ours).is_ok());
        assert!(admit(&from(b"https://GW.example.org"), &ours).is_ok());
        let foreign: [&[u8]; 7] = [
            b"http://rebind.example",
            b"null",
            b"",
            b"file://localhost",
            b"localhost",
            b"http://localhost http://evil.example",
            b"http://localhost@evil.example",
        ];
        for origin in foreign {
            assert_eq!(admit(&from(origin), &ours), Err(Refusal::OriginForeign));
        }
        let preflight = Head { method: Method::Other, ..from(b"http://evil.example") };
        assert_eq!(admit(&preflight, &ours), Err(Refusal::OriginForeign));
        let bare = Head { method: Method::Other, ..get("localhost") };
        assert_eq!(admit(&bare, &ours), Err(Refusal::MethodRefused));
    }

    #[test]
    fn a_post_must_be_json() {
        let ours = allowed("127.0.0.1:9160");
        let typed = |content_types| {
            admit(&Head { method: Method::Post, content_types, ..get("localhost") }, &ours)
        };
        assert!(typed(vec![b"application/json"]).is_ok());
        assert!(typed(vec![b"Application/JSON ; charset=utf-8"]).is_ok());
        let refused: [Vec<&[u8]>; 5] = [
            vec![],
            vec![b"text/plain"],
            vec![b"application/jsonp"],
            vec![b""],
            vec![b"application/json", b"application/json"],
        ];
        for content_types in refused {
            assert_eq!(typed(content_types), Err(Refusal::ContentTypeRefused));
        }
    }
}
