//! The thread that speaks HTTP.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidemill_core::SourceThreads;
use tidemill_core::error::{Cause, chain};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::answer_stream::AnswerStream;
use super::connections::Connections;
use super::request_stream::RequestStream;
use super::service::{Peer, Service};
use crate::descriptor_reserve::{self, RESERVE_PAUSE};
use crate::tls::{HANDSHAKE_TIMEOUT, failure};

/// The largest header of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most lines of a header.
const HEADERS_MAX: usize = 64;
/// How long to pause after accepting a connection has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// The running thread. Dropping it ends the thread and all connections.
#[derive(Debug)]
pub(super) struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves a non-blocking listener.
    pub(super) fn start(
        listener: TcpListener,
        service: Service,
        threads: &SourceThreads,
    ) -> Result<Server, Cause> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async move {
                tokio::select! {
                    () = accept(listener, Arc::new(service)) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = threads.spawn("http", serve)?;
        Ok(Server { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It does nothing that takes long.
            let _ = thread.join();
        }
    }
}

/// Accepts as long as there is room; further connections wait in the system's queue.
async fn accept(listener: tokio::net::TcpListener, service: Arc<Service>) {
    let settings = &service.settings;
    let connections = Connections::new(settings.connections_max, settings.connections_per_client);
    loop {
        wait_for_descriptors(&listener, &service).await;
        match listener.accept().await {
            Ok((stream, address)) => {
                let Some(slot) = connections.slot(address.ip()).await else { continue };
                let peer = Peer { name: address.to_string(), slot: Arc::new(slot) };
                let service = Arc::clone(&service);
                tokio::spawn(async move {
                    let slot = Arc::clone(&peer.slot);
                    tokio::select! {
                        () = shake_hands_and_serve(stream, peer, service) => {}
                        () = slot.closed() => {}
                    }
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Waits until the process has descriptors for another connection.
async fn wait_for_descriptors(listener: &tokio::net::TcpListener, service: &Service) {
    if descriptor_reserve::is_left(listener) {
        return;
    }
    let place = listener.local_addr().map_or_else(|_| "http".to_owned(), |address| format!("http {address}"));
    service.add_fault(descriptor_reserve::missing(&place));
    while !descriptor_reserve::is_left(listener) {
        tokio::time::sleep(RESERVE_PAUSE).await;
    }
}

async fn shake_hands_and_serve(stream: TcpStream, peer: Peer, service: Arc<Service>) {
    let name = peer.name.clone();
    let Some(tls) = &service.tls else { return serve(stream, peer, service).await };
    let accepted = TlsAcceptor::from(tls.config()).accept(stream);
    let failed = match tokio::time::timeout(HANDSHAKE_TIMEOUT, accepted).await {
        Ok(Ok(stream)) => return serve(stream, peer, service).await,
        Ok(Err(error)) => failure(&error).unwrap_or_else(|| format!("the TLS handshake failed: {error}")),
        Err(_) => "the TLS handshake took too long".to_owned(),
    };
    service.add_fault(format!("http peer {name}: closed: {failed}"));
}

async fn serve<S>(stream: S, peer: Peer, service: Arc<Service>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let head_timeout = service.settings.head_timeout;
    let slot = Arc::clone(&peer.slot);
    // From then on the server waits for the client.
    let stream =
        AnswerStream::new(RequestStream::new(stream), service.settings.write_timeout, move || slot.flushed());
    let answer = service_fn(move |request| {
        let (service, peer) = (Arc::clone(&service), peer.clone());
        async move { Ok::<_, Infallible>(service.answer(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), answer);
    // Errors are the client's; it has its answer, or is gone.
    if let Err(error) = connection.await {
        let reason = chain(&error).join(": ");
        debug!(reason, "an HTTP connection broke");
    }
}
