//! The bytes under hyper: tells the pace when they move, and keeps the raw head.
//!
//! hyper answers a request with both Content-Length and Transfer-Encoding by dropping the first
//! header, so the service cannot see that the framing was ambiguous. The tap can: it keeps the head
//! as it came and counts the body away to know where the next head begins.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::pace::Pace;

/// A stream that is watched while hyper reads and writes it.
pub(super) struct Tap<S> {
    stream: S,
    pace: Rc<Pace>,
    raw: Rc<RawHead>,
}

impl<S> Tap<S> {
    /// Watches `stream`, reporting to `pace` and `raw`.
    pub(super) fn new(stream: S, pace: Rc<Pace>, raw: Rc<RawHead>) -> Tap<S> {
        Tap { stream, pace, raw }
    }

    /// The stream itself, once hyper is done with it.
    pub(super) fn into_stream(self) -> S {
        self.stream
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tap<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(again(|| Pin::new(&mut self.stream).poll_read(context, buffer)))?;
        let fresh = &buffer.filled()[before..];
        if !fresh.is_empty() {
            self.pace.heard(Instant::now());
            self.raw.keep(fresh);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tap<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        again(|| Pin::new(&mut self.stream).poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes the stream only once its own buffer is empty.
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.pace.flushed(Instant::now());
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        again(|| Pin::new(&mut self.stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A signal that interrupts a call is nobody's reason to go without an answer.
fn again<T>(mut poll: impl FnMut() -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
    loop {
        match poll() {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            ended => return ended,
        }
    }
}

/// The head of the request being read, as it came over the wire.
#[derive(Debug, Default)]
pub(super) struct RawHead {
    bytes: RefCell<Vec<u8>>,
    body_left: Cell<u64>,
}

impl RawHead {
    /// Bytes as they arrive; those of a body are counted, not kept, so this holds no more than
    /// hyper buffers for a head.
    fn keep(&self, fresh: &[u8]) {
        let body = usize::try_from(self.body_left.get()).unwrap_or(usize::MAX).min(fresh.len());
        self.body_left.set(self.body_left.get() - body as u64);
        self.bytes.borrow_mut().extend_from_slice(&fresh[body..]);
    }

    /// Takes the head hyper has just parsed and starts counting its body. `body_bytes` is `None`
    /// when only the body tells its length (chunked); such a connection serves no further request.
    pub(super) fn take(&self, body_bytes: Option<u64>) -> Vec<u8> {
        let mut bytes = self.bytes.borrow_mut();
        let end = head_end(&bytes);
        let mut rest = bytes.split_off(end);
        let body_bytes = body_bytes.unwrap_or(u64::MAX);
        let here = usize::try_from(body_bytes).unwrap_or(usize::MAX).min(rest.len());
        self.body_left.set(body_bytes - here as u64);
        rest.drain(..here);
        std::mem::replace(&mut *bytes, rest)
    }
}

/// Whether a head gives its body two ends: Content-Length beside Transfer-Encoding
/// (RFC 9112 6.1 allows refusing it, and refusing leaves nothing to disagree about).
pub(super) fn is_ambiguous(head: &[u8]) -> bool {
    let named = |name: &[u8]| {
        let field = |line: &[u8]| line.split(|&byte| byte == b':').next().map(<[u8]>::to_vec);
        head.split(|&byte| byte == b'\n')
            .filter_map(field)
            .any(|field| field.eq_ignore_ascii_case(name))
    };
    named(b"content-length") && named(b"transfer-encoding")
}

/// Where the first head ends: after the first empty line that follows a line with content, since
/// blank lines before a request are skipped (RFC 9112 2.2) and a bare LF may end a line.
fn head_end(bytes: &[u8]) -> usize {
    let mut begun = false;
    let mut end = 0;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        end += line.len();
        let blank = matches!(line, b"\r\n" | b"\n");
        if begun && blank {
            return end;
        }
        begun |= !blank;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_bodies_are_told_apart_across_any_cut() {
        let wire = b"\r\nPOST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nx\r\n\r\nGET /b HTTP/1.1\n\n";
        for cut in 0..wire.len() {
            let raw = RawHead::default();
            raw.keep(&wire[..cut]);
            // hyper calls only after a whole head, 44 bytes here.
            if cut < 44 {
                raw.keep(&wire[cut..44]);
            }
            assert!(raw.take(Some(5)).ends_with(b"5\r\n\r\n"), "{cut}");
            raw.keep(&wire[cut.max(44)..]);
            assert_eq!(raw.take(Some(0)), b"GET /b HTTP/1.1\n\n", "{cut}");
        }
    }

    #[test]
    fn a_body_of_unknown_length_is_never_taken_for_a_head() {
        let raw = RawHead::default();
        raw.keep(b"POST / HTTP/1.1\r\n\r\n5\r\n");
        raw.take(None);
        raw.keep(b"GET /b HTTP/1.1\r\n\r\n");
        assert!(raw.take(None).is_empty());
    }

    #[test]
    fn two_lengths_are_seen_in_any_order_and_case() {
        assert!(is_ambiguous(
            b"POST / HTTP/1.1\r\nCONTENT-LENGTH: 1\r\nTransfer-Encoding: x\r\n\r\n"
        ));
        assert!(is_ambiguous(b"POST / HTTP/1.1\ntransfer-encoding: x\ncontent-length: 1\n\n"));
        assert!(!is_ambiguous(b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTE: x\r\n\r\n"));
        assert!(!is_ambiguous(b"POST / HTTP/1.1\r\nX: content-length:transfer-encoding:\r\n\r\n"));
    }
}
