//! The thread that speaks HTTP.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tidemill_core::error::Cause;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

use super::service::Service;

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
    pub(super) fn start(listener: TcpListener, service: Service) -> Result<Server, Cause> {
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
        let thread = std::thread::Builder::new().name("http".to_owned()).spawn(serve)?;
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
    let connections = Arc::new(Semaphore::new(service.settings.connections_max));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let service = Arc::clone(&service);
                tokio::spawn(async move {
                    serve(stream, peer.to_string(), service).await;
                    drop(permit);
                });
            }
            // Mostly: no more file descriptors.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn serve(stream: TcpStream, peer: String, service: Arc<Service>) {
    let head_timeout = service.settings.head_timeout;
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
    let _ = connection.await;
}
