//! A client's connection from which requests are read: heads whose lines end with a bare LF are refused.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::request_heads::RequestHeads;

/// A connection for hyper, which then answers 400 to a head with a line that does not end with CR LF.
///
/// ```
/// use tidemill_connect::http::RequestStream;
/// use tokio::net::{TcpListener, TcpStream};
///
/// async fn next_client(listener: &TcpListener) -> std::io::Result<RequestStream<TcpStream>> {
///     let (stream, _) = listener.accept().await?;
///     Ok(RequestStream::new(stream))
/// }
/// ```
pub struct RequestStream<S> {
    stream: S,
    heads: RequestHeads,
    end: RequestsEnd,
}

/// Says that a connection is for something else from here on, such as a WebSocket: what comes is not looked at any more.
///
/// ```
/// use tidemill_connect::http::RequestStream;
///
/// let stream = RequestStream::new(tokio::io::empty());
/// stream.requests_end().end();
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestsEnd(Arc<AtomicBool>);

impl RequestsEnd {
    /// No more requests come.
    pub fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<S> RequestStream<S> {
    /// A connection from which nothing was read yet.
    pub fn new(stream: S) -> RequestStream<S> {
        RequestStream { stream, heads: RequestHeads::default(), end: RequestsEnd::default() }
    }

    /// Ends the requests of this connection, from anywhere.
    pub fn requests_end(&self) -> RequestsEnd {
        self.end.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RequestStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if !self.end.0.load(Ordering::Relaxed) {
            self.heads.check(&mut buffer.filled_mut()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RequestStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
