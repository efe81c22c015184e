//! The HTTP side of a server: starts and ends.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tidemill_engine::Cause;
use tidemill_service::Runtime;
use tokio::sync::oneshot;

use super::listener;
use super::options::HttpOptions;
use super::shared::HttpState;
use crate::exposure::{self, Protection};

/// The HTTP side of a server: `/metrics`, `/health`, `/ready`, `/api/status`. Dropping it closes all connections.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::{SocketAddr, TcpStream};
/// use tidemill_server::{HttpOptions, HttpServer};
/// use tidemill_service::Runtime;
/// use tidemill_sql::Planner;
///
/// let any_port: SocketAddr = "127.0.0.1:0".parse().unwrap();
/// let server = HttpServer::start(any_port, HttpOptions::default()).unwrap();
/// server.serve(&Runtime::new(Planner::new())).unwrap();
/// let mut client = TcpStream::connect(server.address()).unwrap();
/// client.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).unwrap();
/// assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
/// ```
pub struct HttpServer {
    shared: Arc<HttpState>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Listens on an address; port 0: any free one. Until [`serve`](HttpServer::serve) is called, it answers that it is
    /// not ready.
    ///
    /// # Errors
    /// If the address is not of this machine alone, or is taken.
    pub fn start(address: SocketAddr, options: HttpOptions) -> Result<HttpServer, Cause> {
        // Whether there are users is known when there is something to serve.
        exposure::check(address, protection(true, &options))?;
        let cannot = |error: std::io::Error| {
            Cause::operation(format!("cannot listen on {address} for HTTP: {error}; choose another port"))
                .with_source(error)
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let shared = Arc::new(HttpState::new(options, address.ip().is_loopback()).map_err(cannot)?);
        let (stop, stopped) = oneshot::channel();
        let serve = listener::prepare(listener, Arc::clone(&shared), stopped).map_err(cannot)?;
        let thread = thread::Builder::new().name("http".into()).spawn(serve).map_err(cannot)?;
        tracing::info!(%address, "HTTP is served");
        Ok(HttpServer { shared, address, stop: Some(stop), thread: Some(thread) })
    }

    /// Answers from this runtime from now on. It counts once.
    ///
    /// # Errors
    /// If other machines reach it and the runtime has no users.
    pub fn serve(&self, runtime: &Runtime) -> Result<(), Cause> {
        exposure::check(self.address, protection(runtime.has_users(), &self.shared.options))?;
        let _ = self.shared.runtime.set(runtime.clone());
        Ok(())
    }

    /// What its addresses begin with: `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.shared.options.tls.is_some() { "https" } else { "http" }
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn protection(has_users: bool, options: &HttpOptions) -> Protection {
    Protection { has_users, is_encrypted: options.tls.is_some(), is_insecure: options.is_insecure }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
