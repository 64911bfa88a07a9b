//! One other member's HTTP face, as sync and comparisons ask it.

use crate::error::{Failure, Kind};
use crate::host::Host;
use crate::protocol::address::Address;
use crate::protocol::registration::parse_url;
use crate::wire::call::{Call, Extent, Fault, Method, Read, Reply, Targets};
use std::time::Duration;

/// The time one request may take, in milliseconds.
pub const ASK_MS: u64 = 10_000;

/// Who is asked, and until when.
#[derive(Clone)]
pub struct Server<'a> {
    host: &'a dyn Host,
    /// Its URL without a slash at the end.
    pub url: String,
    address: Address,
    targets: Targets,
    until_boot_ms: u64,
}

impl std::fmt::Debug for Server<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("url", &self.url).finish_non_exhaustive()
    }
}

impl<'a> Server<'a> {
    /// A server that an operator named.
    pub fn named(host: &'a dyn Host, url: &str) -> Result<Self, Failure> {
        let address = parse_url(url).map_err(|error| Failure::new(Kind::Usage, error))?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Server { host, url, address, targets: Targets::Any, until_boot_ms: u64::MAX })
    }

    /// The same, only where members may send us.
    #[must_use]
    pub fn only(self, targets: Targets) -> Self {
        Server { targets, ..self }
    }

    /// The same, never asked beyond this instant of the boot clock.
    #[must_use]
    pub fn until(self, until_boot_ms: u64) -> Self {
        Server { until_boot_ms, ..self }
    }

    /// The question for `path`, of whose answer at most `max` bytes are read.
    pub fn call(&self, path: &str, max: usize) -> Call {
        Call {
            method: Method::Get,
            address: self.address.clone(),
            path: path.to_owned(),
            host_header: self.address.authority(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: Duration::from_millis(ASK_MS),
            read: Read::Body { max },
            targets: self.targets,
        }
    }

    /// One GET, whatever its status; a body that breaks off is handed on as far as it came.
    pub fn ask(&self, path: &str, max: usize) -> Result<Reply, Fault> {
        let until = (self.host.clock().boot_ms + ASK_MS).min(self.until_boot_ms);
        let answers = self.host.dial(&[self.call(path, max)], until);
        answers.into_iter().next().unwrap_or(Err(Fault::Unasked))
    }

    /// One GET whose answer is 200 and whole.
    pub fn fetch(&self, path: &str, max: usize) -> Result<Vec<u8>, Failure> {
        self.whole(path, self.ask(path, max))
    }

    /// The body of an answer that is 200 and whole.
    pub fn whole(&self, path: &str, answer: Result<Reply, Fault>) -> Result<Vec<u8>, Failure> {
        let why = match answer {
            Ok(reply) if reply.status != 200 => format!("answered {}", reply.status),
            Ok(reply) if reply.extent == Extent::Whole => return Ok(reply.body),
            Ok(_) => "the answer is cut short or too long".to_owned(),
            Err(fault) => fault.to_string(),
        };
        Err(Failure::failed(format!("{}{path}: {why}", self.url)))
    }

    /// Whether its time is over.
    pub fn late(&self) -> bool {
        self.host.clock().boot_ms >= self.until_boot_ms
    }
}
