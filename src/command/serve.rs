//! `serve`: the HTTP face. Never ticks, never probes.

use super::Ending;
use super::context::Context;
use crate::cli::Serve;
use crate::config::{HOST_HEADER, HostHeader, listen};
use crate::error::{Failure, Kind};
use crate::http::listen::{Retry, bind, inherited};
use crate::http::router::{Face, answer};
use crate::http::{Allowed, Options, Request, serve, serve_one, stdio};
use anyhow::Context as _;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

pub(super) fn run(context: &Context, typed: &Serve) -> Ending {
    let face = Face { host: &context.host, config: &context.config };
    let handler = |request: &Request| answer(&face, request);
    if typed.stdio {
        let options =
            Options { allowed: allowed(context, &[context.config.listen]), ..Options::default() };
        let (input, output) = stdio::handles().context("serving ended")?;
        serve_one(input, output, &options, &handler).context("serving ended")?;
        return Ok(None);
    }
    let listeners = listeners(context, typed)?;
    let addresses: Vec<SocketAddr> = listeners.iter().filter_map(|l| l.local_addr().ok()).collect();
    let options = Options {
        allowed: allowed(context, &addresses),
        idle_exit: typed.idle_exit.map(Duration::from_secs),
        ..Options::default()
    };
    if !context.common.quiet && typed.idle_exit.is_none() {
        let list: Vec<String> =
            addresses.iter().map(|address| format!("http://{address}")).collect();
        super::print::warn(&format!("listening on {}", list.join(" ")));
    }
    serve(listeners, &options, &handler).context("serving ended")?;
    Ok(None)
}

/// Passed sockets win over `--listen`.
fn listeners(context: &Context, typed: &Serve) -> Result<Vec<TcpListener>, Failure> {
    let passed = inherited().map_err(|error| Failure::config(error.to_string()))?;
    if !passed.is_empty() {
        for address in passed.iter().filter_map(|listener| listener.local_addr().ok()) {
            context.config.protected.refuse_port(address.port())?;
        }
        return Ok(passed);
    }
    let address = match &typed.listen {
        Some(text) => {
            listen(text).map_err(|why| Failure::new(Kind::Usage, format!("--listen: {why}")))?
        }
        None => context.config.listen,
    };
    context.config.protected.refuse_port(address.port())?;
    let listener = bind(address, Retry::DEFAULT).map_err(|error| {
        Failure::new(Kind::Failed, error.to_string())
            .hint("another process holds the port, or --listen names a foreign address")
    })?;
    Ok(vec![listener])
}

/// Names we answer to: where we listen, our probes' host header, `[api] hosts`.
fn allowed(context: &Context, addresses: &[SocketAddr]) -> Allowed {
    let mut hosts = context.config.api_hosts.clone();
    hosts.push(match &context.config.host_header {
        HostHeader::Fixed(name) => name.clone(),
        HostHeader::Usual | HostHeader::Own => HOST_HEADER.to_owned(),
    });
    Allowed::new(addresses, &hosts)
}
