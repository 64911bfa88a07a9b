//! https: who is trusted, which name is asked for, and how each failure is called.

use std::io::{Read as _, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crowny_fed::host::dial::{Dialer, Options};
use crowny_fed::wire::call::{BODY_MAX, Call, Read};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::peers::{LIMIT, answering, call_host, one, peer};

/// A TLS gateway for `gw.test` that answers with the server name it was asked for, and the PEM
/// file to trust it by.
fn gateway() -> (SocketAddr, PathBuf) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["gw.test".into()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let address = peer(move |stream| {
        let server = ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = StreamOwned::new(server, stream);
        if !matches!(stream.read(&mut [0; 1024]), Ok(1..)) {
            return;
        }
        let name = stream.conn.server_name().unwrap_or("none").to_owned();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.read(&mut [0]);
    });
    let file = std::env::temp_dir().join(format!(
        "crowny-fed-ca-{}-{}.pem",
        std::process::id(),
        address.port()
    ));
    std::fs::write(&file, cert.pem()).unwrap();
    (address, file)
}

fn https(peer: SocketAddr, host_header: &str) -> Call {
    Call {
        host_header: host_header.into(),
        read: Read::Body { max: BODY_MAX },
        ..call_host("https://127.0.0.1", peer.port())
    }
}

#[test]
fn a_trusted_peer_answers_and_the_server_name_is_that_of_the_host_header() {
    let (gateway, ca_file) = gateway();
    let dialer = Dialer::new(Options { ca_file: Some(ca_file.clone()), ..Options::default() });
    let deadline = Instant::now() + Duration::from_secs(20);
    let answers =
        dialer.dial(&[https(gateway, "gw.test:443"), https(gateway, "other.test")], deadline);
    std::fs::remove_file(ca_file).unwrap();
    let reply = answers[0].as_ref().unwrap();
    assert_eq!((reply.status, reply.body.as_slice()), (200, b"gw.test".as_slice()));
    assert_eq!(answers[1].as_ref().unwrap_err().word(), "tls");
}

#[test]
fn an_unknown_issuer_plain_http_and_silence_are_told_apart() {
    let (gateway, ca_file) = gateway();
    let talking = peer(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        let _ = stream.read(&mut [0; 1024]);
    });
    let (keep, _kept) = mpsc::channel();
    let keep = Mutex::new(keep);
    let silent = peer(move |stream| keep.lock().unwrap().send(stream).unwrap());
    let closing = peer(|mut stream| {
        let _ = stream.read(&mut [0; 1024]);
    });
    let trusting = Dialer::new(Options { ca_file: Some(ca_file.clone()), ..Options::default() });
    let calls = [talking, silent, closing]
        .map(|peer| Call { timeout: Duration::from_secs(2), ..https(peer, "gw.test") });
    let began = Instant::now();
    let answers = trusting.dial(&calls, began + Duration::from_secs(20));
    std::fs::remove_file(ca_file).unwrap();
    let words: Vec<_> = answers.iter().map(|it| it.as_ref().unwrap_err().word()).collect();
    assert_eq!(words, ["tls", "timeout", "reset"]);
    assert!(began.elapsed() <= Duration::from_millis(3300), "{:?}", began.elapsed());
    // Without the ca_file the peer is not trusted; a system without roots cannot even try.
    let word = one(https(gateway, "gw.test")).unwrap_err().word();
    assert!(["tls", "local"].contains(&word), "{word}");
}

#[test]
fn a_missing_ca_file_is_local_and_names_the_file() {
    let file = PathBuf::from("/nonexistent/ca.pem");
    let dialer = Dialer::new(Options { ca_file: Some(file), ..Options::default() });
    let peer = answering("");
    let fault = dialer.dial(&[https(peer, "gw.test")], Instant::now() + LIMIT).remove(0);
    let fault = fault.unwrap_err();
    assert!(fault.to_string().contains("/nonexistent/ca.pem"), "{fault}");
    assert_eq!(fault.word(), "local");
}
