//! One HTTP call to a peer and what came of it.
//!
//! Plain values between the rules, which decide whom to ask, and the shell, which asks. The
//! intuition: three outcomes matter to a failure detector. Somebody answered (a [`Reply`], and
//! every [`Fault`] that is [heard](Fault::heard)), nobody answered, or nothing was learnt because
//! the trouble is on this machine. Mixing up the last two makes a blind observer accuse its peers
//! (law 5 of the design).

use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

use crate::protocol::address::{Address, Host, Special, special};

/// The usual most bytes read of an answer's body (design section 16).
pub const BODY_MAX: usize = 64 * 1024;

/// Bytes of a 400 answer that are read for the TLS hint even when the body is not asked for.
pub const HINT_MAX: usize = 4 * 1024;

/// What the call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads; carries no body.
    Get,
    /// Writes; carries `body` with its exact length.
    Post,
}

/// How much of the answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// The response head decides; the body stays unread, but for [`HINT_MAX`] bytes of a 400.
    Head,
    /// The body too.
    Body {
        /// Most bytes kept; a longer body ends as [`Extent::TooLarge`].
        max: usize,
    },
}

/// Which resolved addresses the call may go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Targets {
    /// Every address: the operator wrote this peer down.
    #[default]
    Any,
    /// What a member may publish about itself (design section 7): no [`special`] address.
    Member {
        /// Loopback is let through, as where the anchor's own URL is loopback.
        loopback: bool,
    },
}

/// One HTTP call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// GET or POST.
    pub method: Method,
    /// Where to connect.
    pub address: Address,
    /// Path and query, ASCII, starting with `/`.
    pub path: String,
    /// Sent as Host; its name is also the TLS server name (SNI).
    pub host_header: String,
    /// Further headers in order; Host, Content-Length and Connection are not theirs to set.
    pub headers: Vec<(String, String)>,
    /// The body of a POST.
    pub body: Vec<u8>,
    /// The whole call's limit: lookup, connect, send and read, from its start.
    pub timeout: Duration,
    /// How much of the answer is read.
    pub read: Read,
    /// Which addresses a name may resolve to.
    pub targets: Targets,
}

/// An HTTP answer, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Status code as sent, 100-999.
    pub status: u16,
    /// From the call's start to the complete response head.
    pub head_after: Duration,
    /// The bytes read; empty when `extent` is [`Extent::Unread`].
    pub body: Vec<u8>,
    /// How much of the body `body` is.
    pub extent: Extent,
    /// A 400 whose text says that plain HTTP came to a TLS port.
    pub speaks_tls: bool,
}

/// How much of an answer's body was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it; a body without length that ends by close is whole.
    Whole,
    /// It ended, broke or ran out of time before its announced end.
    Cut,
    /// It goes on after the most bytes asked for.
    TooLarge,
    /// It was not asked for.
    Unread,
}

/// Why there is no [`Reply`]. Printed as the reason word, then the detail.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// The name has no address, or none was found in time.
    #[error("dns: {0}")]
    Dns(String),
    /// The connection failed in a way that tells nothing about the peer's machine.
    #[error("connect: {0}")]
    Connect(String),
    /// The peer's machine refused the connection.
    #[error("refused")]
    Refused,
    /// The peer accepted, then closed or reset before a response head.
    #[error("reset")]
    Reset,
    /// The call's limit or the deadline passed.
    #[error("timeout")]
    Timeout,
    /// Bytes came that are no HTTP/1 response head.
    #[error("not-http: {0}")]
    NotHttp(String),
    /// The TLS handshake or certificate failed.
    #[error("tls: {0}")]
    Tls(String),
    /// The trouble is on this machine: no route, no descriptor, no such interface, a bad request.
    #[error("local: {0}")]
    Local(String),
    /// The deadline passed before this call's turn; nothing was sent.
    #[error("unasked: the deadline came before this call's turn")]
    Unasked,
}

/// What came of a call.
pub type Answer = Result<Reply, Fault>;

impl Fault {
    /// The reason word of status files and metrics (design section 12).
    pub fn word(&self) -> &'static str {
        match self {
            Self::Dns(_) => "dns",
            Self::Connect(_) => "connect",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::NotHttp(_) => "not-http",
            Self::Tls(_) => "tls",
            Self::Local(_) => "local",
            Self::Unasked => "unasked",
        }
    }

    /// Whether the peer's machine answered, if only to refuse: the network between works, so the
    /// observer is not blind (law 5 of the design).
    pub fn heard(&self) -> bool {
        match self {
            Self::Refused | Self::Reset | Self::NotHttp(_) | Self::Tls(_) => true,
            Self::Dns(_) | Self::Connect(_) | Self::Timeout | Self::Local(_) | Self::Unasked => {
                false
            }
        }
    }
}

impl Targets {
    /// Why `ip` may not be dialled under this rule, `None` where it may.
    pub fn refusal(self, ip: IpAddr) -> Option<Special> {
        match self {
            Self::Any => None,
            Self::Member { loopback } => {
                special(ip).filter(|kind| !(loopback && *kind == Special::Loopback))
            }
        }
    }
}

impl Call {
    /// The name the peer must prove under TLS: that of the Host header, because gateways refuse a
    /// request whose SNI and Host differ (421, RFC 9110, 15.5.20). Without port and brackets.
    pub fn server_name(&self) -> String {
        let header = self.host_header.as_str();
        if let Some((inside, _)) = header.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            return inside.to_owned();
        }
        match (header.split(':').next(), &self.address.host) {
            (Some(name), _) if !name.is_empty() => name.to_owned(),
            (_, Host::Name(name)) => name.clone(),
            (_, Host::Ip(ip)) => ip.to_string(),
            (_, Host::Zoned { ip, .. }) => ip.to_string(),
        }
    }
}

/// Whether the text of a 400 answer says that plain HTTP came to a TLS port. The phrases are those
/// of nginx, Go's net/http (Caddy, Traefik) and Apache.
pub fn says_tls(body: &[u8]) -> bool {
    const PHRASES: [&str; 3] = ["to https port", "to an https server", "ssl-enabled server port"];
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    PHRASES.iter().any(|phrase| text.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(host_header: &str) -> Call {
        Call {
            method: Method::Get,
            address: Address::parse("192.0.2.7", 443).expect("an address"),
            path: "/".into(),
            host_header: host_header.into(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: Duration::from_secs(3),
            read: Read::Head,
            targets: Targets::Any,
        }
    }

    #[test]
    fn the_server_name_is_the_host_header_without_port() {
        assert_eq!(call("crowny.org").server_name(), "crowny.org");
        assert_eq!(call("crowny.org:8443").server_name(), "crowny.org");
        assert_eq!(call("[2001:db8::7]:443").server_name(), "2001:db8::7");
        assert_eq!(call("").server_name(), "192.0.2.7");
    }

    #[test]
    fn a_fault_prints_its_word_first() {
        let all = [
            Fault::Dns("x".into()),
            Fault::Connect("x".into()),
            Fault::Refused,
            Fault::Reset,
            Fault::Timeout,
            Fault::NotHttp("x".into()),
            Fault::Tls("x".into()),
            Fault::Local("x".into()),
            Fault::Unasked,
        ];
        for fault in &all {
            assert!(fault.to_string().starts_with(fault.word()), "{fault}");
        }
        let heard: Vec<_> = all.iter().filter(|fault| fault.heard()).map(Fault::word).collect();
        assert_eq!(heard, ["refused", "reset", "not-http", "tls"]);
    }

    #[test]
    fn known_gateways_are_recognised_as_tls_ports() {
        assert!(says_tls(b"<center>The plain HTTP request was sent to HTTPS port</center>"));
        assert!(says_tls(b"Client sent an HTTP request to an HTTPS server.\n"));
        assert!(says_tls(b"You're speaking plain HTTP to an SSL-enabled server port.<br />"));
        assert!(!says_tls(b"Bad Request \xff"));
    }

    #[test]
    fn members_may_not_send_us_to_special_addresses() {
        let loopback: IpAddr = [127, 0, 0, 1].into();
        let metadata: IpAddr = [169, 254, 169, 254].into();
        assert_eq!(Targets::Any.refusal(metadata), None);
        let strict = Targets::Member { loopback: false };
        assert_eq!(strict.refusal(loopback), Some(Special::Loopback));
        let lenient = Targets::Member { loopback: true };
        assert_eq!(lenient.refusal(loopback), None);
        assert_eq!(lenient.refusal(metadata), Some(Special::LinkLocal));
    }
}
