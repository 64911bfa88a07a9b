//! TLS to peers: rustls with the system's roots and, beside them, the operator's `ca_file`.
//!
//! Loading some hundred root certificates costs more than a whole tick without TLS, so it happens
//! at the first https call, once, and all later calls share the result.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::fault;
use super::line::{Timed, TlsStream};
use crate::wire::call::Fault;

/// The client side of TLS, configured when first needed.
pub(super) struct Tls {
    ca_file: Option<PathBuf>,
    config: OnceLock<Result<Arc<ClientConfig>, Fault>>,
}

impl Tls {
    /// Reads nothing yet.
    pub(super) fn new(ca_file: Option<PathBuf>) -> Self {
        Self { ca_file, config: OnceLock::new() }
    }

    /// Shakes hands with the peer, which must prove that it is `name` (a DNS name or IP address).
    pub(super) fn handshake(&self, socket: Timed, name: &str) -> Result<TlsStream, Fault> {
        let config = self.config.get_or_init(|| configure(self.ca_file.as_deref())).clone()?;
        let server = ServerName::try_from(name.to_owned())
            .map_err(|_| Fault::Local(format!("`{name}` is no TLS server name")))?;
        let client = ClientConnection::new(config, server)
            .map_err(|error| Fault::Local(error.to_string()))?;
        let mut stream = StreamOwned::new(client, socket);
        stream.conn.complete_io(&mut stream.sock).map_err(|error| fault::of_io(&error))?;
        Ok(stream)
    }
}

fn configure(ca_file: Option<&Path>) -> Result<Arc<ClientConfig>, Fault> {
    let roots = roots(ca_file)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::Local(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // A process asks each peer once; tickets would only be kept for nobody.
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The system's roots and those of `ca_file`. A single unreadable system root is skipped, as every
/// client does; an unreadable `ca_file` is an error, since somebody asked for it.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let unreadable = |error: &dyn std::fmt::Display| {
            Fault::Local(format!("ca_file {}: {error}, expected PEM certificates", path.display()))
        };
        let certs = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))?;
        for cert in certs {
            let cert = cert.map_err(|error| unreadable(&error))?;
            roots.add(cert).map_err(|error| unreadable(&error))?;
        }
    }
    if roots.is_empty() {
        return Err(Fault::Local("no root certificate on this system, expected a ca_file".into()));
    }
    Ok(roots)
}
