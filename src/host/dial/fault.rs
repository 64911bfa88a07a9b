//! Errors of sockets, TLS and ureq, sorted into the [`Fault`]s the rules know.
//!
//! The line that matters runs between "the peer's machine said no", "no answer" and "this machine
//! could not ask": the last must never count against a peer.

use std::io::{self, ErrorKind};

use rustix::io::Errno;

use crate::wire::call::Fault;

use super::line::HEAD_MAX;

/// Sorts an I/O error of any phase. An error without a place of its own is a [`Fault::Connect`].
pub(super) fn of_io(error: &io::Error) -> Fault {
    if let Some(inner) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return of_tls(inner);
    }
    if is_local(error) {
        return Fault::Local(error.to_string());
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => Fault::Refused,
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Fault::Timeout,
        kind if is_end(kind) => Fault::Reset,
        _ => Fault::Connect(error.to_string()),
    }
}

/// Whether an error kind means that the other side has gone.
pub(super) fn is_end(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof
    )
}

/// Whether this machine failed. `EHOSTUNREACH` is not among them: it is what the LAN says of a peer
/// without power. (macOS also gives it to a program without the local-network permission, but then
/// for every peer alike, which makes the tick blind.)
pub(super) fn is_local(error: &io::Error) -> bool {
    let by_kind = matches!(
        error.kind(),
        ErrorKind::NetworkUnreachable
            | ErrorKind::NetworkDown
            | ErrorKind::AddrNotAvailable
            | ErrorKind::AddrInUse
            | ErrorKind::PermissionDenied
            | ErrorKind::OutOfMemory
            | ErrorKind::InvalidInput
    );
    // std has no kinds for these: out of descriptors or buffers, no IPv6, no such device.
    let by_number = matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::AFNOSUPPORT | Errno::NODEV)
    );
    by_kind || by_number
}

/// Sorts an error of a TLS peer. Plain bytes where a handshake should be get a hint.
pub(super) fn of_tls(error: &rustls::Error) -> Fault {
    match error {
        rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType) => {
            Fault::Tls("the answer is not TLS, the port may speak plain http".into())
        }
        other => Fault::Tls(other.to_string()),
    }
}

/// Sorts what ureq returns between sending a request and the complete response head.
pub(super) fn of_ureq(error: ureq::Error) -> Fault {
    match error {
        ureq::Error::Io(error) => of_io(&error),
        ureq::Error::Timeout(_) => Fault::Timeout,
        ureq::Error::Protocol(error) => Fault::NotHttp(error.to_string()),
        ureq::Error::LargeResponseHeader(..) => {
            Fault::NotHttp(format!("response head over {HEAD_MAX} bytes"))
        }
        ureq::Error::Other(error) => match error.downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(error) => Fault::Local(error.to_string()),
        },
        other => Fault::Local(other.to_string()),
    }
}
