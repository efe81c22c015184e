//! A client's connection on which answers are written: it knows when one has left, and a client may not leave one unread for
//! ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection on which writing fails if the client takes nothing for some time.
///
/// ```
/// use std::time::Duration;
/// use tidemill_connect::http::AnswerStream;
/// use tokio::net::{TcpListener, TcpStream};
///
/// async fn next_client(listener: &TcpListener) -> std::io::Result<AnswerStream<TcpStream, fn()>> {
///     let (stream, _) = listener.accept().await?;
///     Ok(AnswerStream::new(stream, Duration::from_secs(30), || {}))
/// }
/// ```
pub struct AnswerStream<S, F> {
    stream: S,
    timeout: Duration,
    /// Runs while something that was written waits for the client.
    deadline: Option<Pin<Box<Sleep>>>,
    flushed: F,
}

impl<S, F: Fn()> AnswerStream<S, F> {
    /// Fails if the client takes nothing for `timeout`. Calls `flushed` whenever everything that was written has left.
    pub fn new(stream: S, timeout: Duration, flushed: F) -> AnswerStream<S, F> {
        AnswerStream { stream, timeout, deadline: None, flushed }
    }

    /// The result of a write, or that it took too long.
    fn within_time<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.deadline = None;
            return written;
        }
        let timeout = self.timeout;
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(timeout)));
        if deadline.as_mut().poll(context).is_pending() && Instant::now() < deadline.deadline() {
            return Poll::Pending;
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read its answer")))
    }
}

impl<S: AsyncRead + Unpin, F: Unpin> AsyncRead for AnswerStream<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, F: Fn() + Unpin> AsyncWrite for AnswerStream<S, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.within_time(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.within_time(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes when it has written everything that it has. With TLS, this is where bytes wait for the client.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        ready!(self.within_time(context, flushed))?;
        (self.flushed)();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut_down = Pin::new(&mut self.stream).poll_shutdown(context);
        self.within_time(context, shut_down)
    }
}
