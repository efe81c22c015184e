//! The thread that speaks HTTP.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tidemill_connect::http::{AnswerStream, ConnectionSlot, RequestStream};
use tidemill_connect::tls::failure;
use tidemill_engine::chain;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::answer::Answer;
use super::routes;
use super::shared::HttpState;

/// The most lines of a header.
const HEADERS_MAX: usize = 64;
/// How long to pause after accepting a connection has failed: mostly there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// What a client is told if there is no room for it.
const NO_ROOM: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n\
    Connection: close\r\nContent-Length: 70\r\n\r\n\
    {\"error\":{\"code\":\"53300\",\"message\":\"there are too many connections\"}}\n";

/// The body of the thread that serves a non-blocking listener until it is stopped.
pub(super) fn prepare(
    listener: std::net::TcpListener,
    shared: Arc<HttpState>,
    stopped: oneshot::Receiver<()>,
) -> io::Result<impl FnOnce() + Send + 'static> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let listener = {
        let _entered = runtime.enter();
        TcpListener::from_std(listener)?
    };
    Ok(move || {
        runtime.block_on(async move {
            tokio::select! {
                () = accept(&listener, &shared) => {}
                _ = stopped => {}
            }
        });
    })
}

async fn accept(listener: &TcpListener, shared: &Arc<HttpState>) {
    loop {
        let (stream, address) = match listener.accept().await {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) => {
                tracing::warn!(%error, "an HTTP connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(slot) = shared.connections.slot_now(address) else {
            // Whoever does not take these few bytes at once gets none.
            let _ = stream.try_write(NO_ROOM);
            continue;
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let slot = Arc::new(slot);
            tokio::select! {
                () = begin(stream, &slot, shared) => {}
                () = slot.closed() => tracing::debug!(%address, "a silent HTTP connection has made room for another"),
            }
        });
    }
}

/// Serves a connection, after the handshake if there is one.
async fn begin(stream: TcpStream, slot: &Arc<ConnectionSlot>, shared: Arc<HttpState>) {
    let _ = stream.set_nodelay(true);
    let address = slot.client;
    let Some(tls) = &shared.options.tls else { return serve(stream, slot, shared).await };
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    match tokio::time::timeout(shared.options.head_timeout, handshake).await {
        Ok(Ok(stream)) => serve(stream, slot, shared).await,
        Ok(Err(error)) => {
            let why = failure(&error).unwrap_or_else(|| error.to_string());
            tracing::debug!(%address, "an HTTPS connection has not begun: {why}");
        }
        Err(_) => tracing::debug!(%address, "an HTTPS connection took too long to begin"),
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    slot: &Arc<ConnectionSlot>,
    shared: Arc<HttpState>,
) {
    let stream = RequestStream::new(stream);
    let requests = stream.requests_end();
    let of_stream = Arc::clone(slot);
    let stream = AnswerStream::new(stream, shared.options.write_timeout, move || of_stream.flushed());
    let options = shared.options.clone();
    let slot = Arc::clone(slot);
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(requests.clone());
        request.extensions_mut().insert(Arc::clone(&slot));
        let (shared, slot) = (Arc::clone(&shared), Arc::clone(&slot));
        async move { Ok::<_, Infallible>(answer_for(&slot, request, &shared).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.head_timeout)
        .max_buf_size(options.head_bytes_max)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades();
    // Errors are the client's; it has its answer, or is gone.
    if let Err(error) = connection.await {
        let reason = chain(&error).join(": ");
        tracing::debug!(reason, "an HTTP connection broke");
    }
}

/// Answers, and notes whose turn it is: a connection that nothing is expected of any more may make room for another.
async fn answer_for(slot: &ConnectionSlot, request: Request<Incoming>, shared: &HttpState) -> Answer {
    slot.passed_on();
    let answer = routes::answer(request, slot.client, shared).await;
    // An answer without a known end, and what follows a change of protocol, still comes.
    if answer.body().size_hint().exact().is_some() && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        slot.answered();
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::NO_ROOM;

    #[test]
    fn the_length_of_the_refusal_is_right() {
        let text = std::str::from_utf8(NO_ROOM).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
