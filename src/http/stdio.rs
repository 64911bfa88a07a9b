//! One connection that is already open: inetd, launchd `Wait=false`, `serve --stdio`.
//!
//! Whoever started us accepted the connection and put it on stdin. A socket there is used in both
//! directions; anything else is read from stdin and answered on stdout, which makes
//! `printf 'GET / ...' | crowny-fed serve --stdio` work. Under inetd stderr is usually the same
//! socket, so a caller must not print there.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{FileType, fstat};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, join};
use tokio::net::unix::pipe;
use tokio::task::LocalSet;

use super::accept::{Options, Server, runtime};
use super::message::{Request, Response};

/// Handles of our own on stdin and stdout; the originals stay as they are.
pub fn handles() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((input, output))
}

/// Serves the one connection on `input` and `output` under the same limits as any other, then
/// returns. When `input` is a socket (TCP or Unix), `output` is not used. The limits on time hold
/// for sockets and pipes; a regular file or a terminal is read and written blocking. Errors are
/// those of starting.
pub fn serve_one(
    input: OwnedFd,
    output: OwnedFd,
    options: &Options<'_>,
    handler: &dyn Fn(&Request) -> Response,
) -> io::Result<()> {
    LocalSet::new().block_on(&runtime()?, async {
        let mut server = Server::new(Vec::new(), options, handler);
        if is_socket(&input)? {
            server.take(socket(input)?);
        } else {
            server.take(join(reader(input)?, writer(output)?));
        }
        server.run().await;
        Ok(())
    })
}

fn is_socket(handle: &OwnedFd) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(handle)?.st_mode) == FileType::Socket)
}

/// Only reads, writes and shuts down, which a Unix stream socket does just as well.
fn socket(handle: OwnedFd) -> io::Result<tokio::net::TcpStream> {
    let stream = TcpStream::from(handle);
    stream.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(stream)
}

fn reader(handle: OwnedFd) -> io::Result<Pin<Box<dyn AsyncRead>>> {
    Ok(match pipe::Receiver::from_owned_fd(handle.try_clone()?) {
        Ok(pipe) => Box::pin(pipe),
        Err(_) => Box::pin(Blocking(File::from(handle))),
    })
}

fn writer(handle: OwnedFd) -> io::Result<Pin<Box<dyn AsyncWrite>>> {
    Ok(match pipe::Sender::from_owned_fd(handle.try_clone()?) {
        Ok(pipe) => Box::pin(pipe),
        Err(_) => Box::pin(Blocking(File::from(handle))),
    })
}

/// A file no poller accepts (regular files, /dev/null, some terminals), read and written in place.
struct Blocking(File);

impl AsyncRead for Blocking {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.0.read(buffer.initialize_unfilled())?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Blocking {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.0.write(bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
