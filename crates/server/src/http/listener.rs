//! The thread that speaks HTTP.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidemill_connect::http::{AnswerStream, RequestStream};
use tidemill_connect::tls::failure;
use tidemill_engine::chain;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

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
        let Ok(permit) = Arc::clone(&shared.connections).try_acquire_owned() else {
            // Whoever does not take these few bytes at once gets none.
            let _ = stream.try_write(NO_ROOM);
            continue;
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            begin(stream, address, shared).await;
            drop(permit);
        });
    }
}

/// Serves a connection, after the handshake if there is one.
async fn begin(stream: TcpStream, address: IpAddr, shared: Arc<HttpState>) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &shared.options.tls else { return serve(stream, address, shared).await };
    let handshake = TlsAcceptor::from(tls.config()).accept(stream);
    match tokio::time::timeout(shared.options.head_timeout, handshake).await {
        Ok(Ok(stream)) => serve(stream, address, shared).await,
        Ok(Err(error)) => {
            let why = failure(&error).unwrap_or_else(|| error.to_string());
            tracing::debug!(%address, "an HTTPS connection has not begun: {why}");
        }
        Err(_) => tracing::debug!(%address, "an HTTPS connection took too long to begin"),
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    address: IpAddr,
    shared: Arc<HttpState>,
) {
    let stream = RequestStream::new(stream);
    let requests = stream.requests_end();
    let stream = AnswerStream::new(stream, shared.options.write_timeout, || {});
    let options = shared.options.clone();
    let answer = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(requests.clone());
        let shared = Arc::clone(&shared);
        async move { Ok::<_, Infallible>(routes::answer(request, address, &shared).await) }
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
