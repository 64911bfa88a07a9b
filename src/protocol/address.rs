//! Where a peer answers: scheme, host, port.
//!
//! People type hosts in many spellings, and every spelling that is let through unchanged becomes
//! two peers, a wrong Host header or a way around the check for special addresses. So a host is
//! read once, here, into the one form that is dialled, compared and sent: a plain IP address, a
//! link-local one with its zone, or a lower-case A-label. What libc would quietly read as an
//! address (`127.1`, `0x7f.1`, `2852039166`) is refused instead of looked up.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use thiserror::Error;

/// How a peer is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// HTTP over plain TCP.
    Http,
    /// HTTP over TLS.
    Https,
}

/// The host of an [`Address`] in its one form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An IP address; an IPv4 address mapped into IPv6 is stored as plain IPv4.
    Ip(IpAddr),
    /// A link-local IPv6 address with the interface it is reached through (RFC 4007, 11).
    Zoned {
        /// The address, in `fe80::/10`.
        ip: Ipv6Addr,
        /// Interface name or number. Means something on this machine only, so it is never sent.
        zone: String,
    },
    /// A DNS name as A-labels: ASCII, lower case, no dot at the end (UTS 46).
    Name(String),
}

/// One peer's address, checked and in its one form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Plain or over TLS.
    pub scheme: Scheme,
    /// IP address or name.
    pub host: Host,
    /// TCP port, never 0.
    pub port: u16,
}

/// Why a typed host and port are no address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Nothing where the host should be.
    #[error("host is empty, expected a name or an IP address")]
    Empty,
    /// Port 0 cannot be dialled.
    #[error("port is 0, expected 1 to 65535")]
    Port,
    /// A path, query or user name around the host.
    #[error("host `{0}` has more than a host, expected at most `http://` or `https://` before it")]
    Extra(String),
    /// `name:port` in the host field.
    #[error("host `{0}` has a port inside, expected the port in its own field")]
    OwnPort(String),
    /// Colons or brackets, but no IPv6 address.
    #[error("host `{0}` is no IPv6 address, expected one such as `2001:db8::7` or `[2001:db8::7]`")]
    Ipv6(String),
    /// A zone that cannot be meant.
    #[error("host `{0}` has a zone, expected `%interface` after a link-local address (fe80::/10)")]
    Zone(String),
    /// A number that some resolvers would read as an address.
    #[error("host `{0}` ends in a number, expected four decimal parts such as `192.0.2.7`")]
    Number(String),
    /// Not a name even after UTS 46.
    #[error("host `{0}` is no DNS name, expected labels of 1-63 letters, digits, `-` or `_`")]
    Name(String),
}

impl Address {
    /// Reads a host as a person typed it, with an optional `http://` or `https://` before it.
    ///
    /// # Errors
    /// [`AddressError`] quotes the host and says what was expected.
    pub fn parse(typed: &str, port: u16) -> Result<Self, AddressError> {
        if port == 0 {
            return Err(AddressError::Port);
        }
        let (scheme, host) = split_scheme(typed);
        Ok(Self { scheme, host: Host::parse(host)?, port })
    }

    /// `host:port` as sent in a Host header: brackets around IPv6, always the port, never a zone.
    pub fn authority(&self) -> String {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) | Host::Zoned { ip, .. } => format!("[{ip}]:{}", self.port),
            Host::Ip(IpAddr::V4(ip)) => format!("{ip}:{}", self.port),
            Host::Name(name) => format!("{name}:{}", self.port),
        }
    }

    /// The URL of `path` (which starts with `/`) at this address, without a zone.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.authority())
    }
}

/// What a reader needs to find the peer again: like [`Address::url`] without a path, zone shown.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Zoned { ip, zone } => write!(f, "{}://[{ip}%{zone}]:{}", self.scheme, self.port),
            _ => write!(f, "{}://{}", self.scheme, self.authority()),
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

/// Says why an address is not one a *member* may publish for others to dial, `None` where it is
/// (design section 7): a peer that names such an address would have us talk to ourselves, to the
/// local segment or to a cloud's metadata service.
pub fn special(ip: IpAddr) -> Option<Special> {
    match ip.to_canonical() {
        ip if ip.is_loopback() => Some(Special::Loopback),
        // All of 0.0.0.0/8 is "this network" (RFC 1122, 3.2.1.3); Linux dials 0.0.0.0 as itself.
        IpAddr::V4(ip) if ip.octets()[0] == 0 => Some(Special::Unspecified),
        IpAddr::V4(ip) if ip.is_link_local() => Some(Special::LinkLocal),
        IpAddr::V6(ip) if ip.is_unspecified() => Some(Special::Unspecified),
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Some(Special::LinkLocal),
        _ => None,
    }
}

/// The kinds of address that mean something else on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// `169.254.0.0/16`, `fe80::/10`.
    LinkLocal,
    /// `0.0.0.0/8`, `::`.
    Unspecified,
}

impl fmt::Display for Special {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Unspecified => "unspecified",
        })
    }
}

impl Host {
    /// Reads a host without scheme and port. The checks run from the narrowest spelling to the
    /// widest, because a name may be nearly anything.
    fn parse(typed: &str) -> Result<Self, AddressError> {
        if typed.is_empty() {
            return Err(AddressError::Empty);
        }
        if typed.contains(['/', '\\', '?', '#', '@']) {
            return Err(AddressError::Extra(typed.to_owned()));
        }
        if let Some(inner) = typed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            return ipv6(inner);
        }
        match typed.matches(':').count() {
            0 => name(typed),
            1 => Err(AddressError::OwnPort(typed.to_owned())),
            _ if typed.contains("]:") => Err(AddressError::OwnPort(typed.to_owned())),
            _ => ipv6(typed),
        }
    }
}

/// ASCII that no label may hold: all but letters, digits, `-` and `_` (names on private networks
/// do carry underscores, so STD 3 is one step too strict).
const DENIED: AsciiDenyList = AsciiDenyList::new(true, "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}~");

/// Splits off a scheme in any case; without one it is HTTP.
fn split_scheme(typed: &str) -> (Scheme, &str) {
    let strip = |prefix: &str| {
        let head = typed.get(..prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then(|| &typed[prefix.len()..])
    };
    if let Some(host) = strip("https://") {
        return (Scheme::Https, host);
    }
    (Scheme::Http, strip("http://").unwrap_or(typed))
}

/// Reads an IPv6 literal without brackets, with an optional zone.
fn ipv6(typed: &str) -> Result<Host, AddressError> {
    let (digits, zone) = match typed.split_once('%') {
        Some((digits, zone)) => (digits, Some(zone)),
        None => (typed, None),
    };
    let ip: Ipv6Addr = digits.parse().map_err(|_| AddressError::Ipv6(typed.to_owned()))?;
    match zone {
        None => Ok(Host::Ip(IpAddr::V6(ip).to_canonical())),
        Some(zone) if ip.is_unicast_link_local() && is_interface(zone) => {
            Ok(Host::Zoned { ip, zone: zone.to_owned() })
        }
        Some(_) => Err(AddressError::Zone(typed.to_owned())),
    }
}

/// Whether a kernel could call an interface so: 1-15 visible characters (IFNAMSIZ less the NUL).
fn is_interface(zone: &str) -> bool {
    (1..=15).contains(&zone.len()) && zone.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Reads a name or an IPv4 address. The number check comes after the mapping to ASCII, since
/// full-width digits become plain ones there.
fn name(typed: &str) -> Result<Host, AddressError> {
    let ascii = Uts46::new()
        .to_ascii(typed.as_bytes(), DENIED, Hyphens::CheckFirstLast, DnsLength::VerifyAllowRootDot)
        .map_err(|_| AddressError::Name(typed.to_owned()))?;
    let name = ascii.strip_suffix('.').unwrap_or(&ascii);
    if name.is_empty() {
        return Err(AddressError::Name(typed.to_owned()));
    }
    if !ends_in_number(name) {
        return Ok(Host::Name(name.to_owned()));
    }
    let ip = name.parse().map_err(|_| AddressError::Number(typed.to_owned()))?;
    Ok(Host::Ip(IpAddr::V4(ip)))
}

/// Whether the last label makes a host an IPv4 address (WHATWG URL, "ends in a number checker").
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x");
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(typed: &str) -> String {
        Address::parse(typed, 18002).map_or_else(|error| error.to_string(), |it| it.authority())
    }

    #[test]
    fn bare_and_bracketed_ipv6_are_one_address() {
        assert_eq!(authority("::1"), "[::1]:18002");
        assert_eq!(Address::parse("::1", 1), Address::parse("[0:0::1]", 1));
        assert_eq!(authority("::ffff:192.0.2.7"), "192.0.2.7:18002");
    }

    #[test]
    fn a_zone_is_shown_but_never_sent() {
        let address = Address::parse("fe80::1%lo0", 8080).expect("a link-local address");
        assert_eq!(address.authority(), "[fe80::1]:8080");
        assert_eq!(address.url("/q"), "http://[fe80::1]:8080/q");
        assert_eq!(address.to_string(), "http://[fe80::1%lo0]:8080");
        assert_eq!(Address::parse("[fe80::1%lo0]", 8080), Ok(address));
    }

    #[test]
    fn every_spelling_of_a_korean_name_is_one_a_label() {
        let decomposed = "\u{1109}\u{1165}\u{110b}\u{116e}\u{11af}.example.com";
        for typed in
            ["서울.example.com", decomposed, "XN--2I4BQ6H.EXAMPLE.COM", "서울。example.com."]
        {
            assert_eq!(authority(typed), "xn--2i4bq6h.example.com:18002", "{typed}");
        }
    }

    #[test]
    fn a_scheme_in_any_case_is_taken_off() {
        let address = Address::parse("HTTPS://Gw1.example.org", 443).expect("a name");
        assert_eq!(address.scheme, Scheme::Https);
        assert_eq!(address.to_string(), "https://gw1.example.org:443");
        assert_eq!(authority("http://my_host"), "my_host:18002");
    }

    #[test]
    fn what_is_no_host_is_refused_with_what_was_expected() {
        let refuse = |hosts: &str, error: fn(String) -> AddressError| {
            for host in hosts.split(' ') {
                assert_eq!(Host::parse(host), Err(error(host.to_owned())), "{host}");
            }
        };
        refuse(
            "2852039166 0x7f.1 127.1 0x 1.2.3.256 010.0.0.1 １２７.1 a.0x7f",
            AddressError::Number,
        );
        refuse("a/b a? u@h h# h/ https://h", AddressError::Extra);
        refuse("h:80 [::1]:80 :", AddressError::OwnPort);
        refuse("::g 1::2::3 [::1", AddressError::Ipv6);
        refuse(
            "fe80::1% ::1%lo ::ffff:1.2.3.4%lo fe80::1%a-much-too-long-name",
            AddressError::Zone,
        );
        assert_eq!(Host::parse("[1.2.3.4]"), Err(AddressError::Ipv6("1.2.3.4".into())));
    }

    #[test]
    fn what_cannot_be_a_name_is_refused() {
        let long = "a".repeat(64);
        for typed in
            ["a b", "a|b", "-a", "a..b", ".", "xn--zz", "1.2.3.4%lo", "a\u{0}", long.as_str()]
        {
            assert_eq!(Address::parse(typed, 1), Err(AddressError::Name(typed.into())), "{typed}");
        }
        assert_eq!(Address::parse("", 1), Err(AddressError::Empty));
        assert_eq!(Address::parse("a", 0), Err(AddressError::Port));
    }

    #[test]
    fn special_addresses_are_told_apart_in_every_spelling() {
        let kind = |ip: &str| special(ip.parse().expect("an IP address"));
        assert_eq!(kind("::ffff:127.0.0.2"), Some(Special::Loopback));
        assert_eq!(kind("::1"), Some(Special::Loopback));
        assert_eq!(kind("169.254.169.254"), Some(Special::LinkLocal));
        assert_eq!(kind("fe80::1"), Some(Special::LinkLocal));
        assert_eq!(kind("0.1.2.3"), Some(Special::Unspecified));
        assert_eq!(kind("::"), Some(Special::Unspecified));
        assert_eq!(kind("192.168.0.1"), None);
        assert_eq!(kind("fd00::1"), None);
    }
}
