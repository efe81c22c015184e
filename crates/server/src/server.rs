//! Accepts connections, and ends cleanly.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_service::Runtime;

use crate::authentication::LoginAttempts;
use crate::exposure::{self, Protection};
use crate::postgres::opening::Opening;
use crate::postgres::refusal;
use crate::postgres::spare_descriptor::{SpareDescriptor, is_out_of_descriptors};
use crate::report::{Report, TOO_MANY_CONNECTIONS};
use crate::sessions::client_reader::ClientReader;
use crate::sessions::client_stream::ClientStream;
use crate::sessions::connections::Connections;
use crate::sessions::server_state::{ServerOptions, ServerState};
use crate::sessions::workers::Workers;

/// Connections that may be there beside the sessions: those that are being opened or have not proved who they are, and those
/// that only cancel.
const BEGINNING_MAX: usize = 64;
/// How long a further one waits for room. A thousand clients that come at once are all served; clients that never begin only delay
/// the refusal.
const BEGINNING_WAIT: Duration = Duration::from_secs(2);
/// So many sessions are answered at once for each processor: one may wait for its turn, or for room in a connection.
const SLOTS_PER_PROCESSOR: usize = 2;
/// How long a client that does not read may delay the end of the server.
const LEAVE_TIME: Duration = Duration::from_secs(2);

/// A server that listens. Dropping it ends it as [`stop`](Server::stop) does.
pub struct Server {
    shared: Arc<ServerState>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on an address; port 0: any free one.
    ///
    /// # Errors
    /// If the address is not of this machine alone, or is taken.
    pub fn start(runtime: &Runtime, address: SocketAddr, options: ServerOptions) -> Result<Server, Cause> {
        let protection = Protection {
            has_users: runtime.has_users(),
            is_encrypted: options.tls.is_some(),
            is_insecure: options.is_insecure,
        };
        exposure::check(address, protection)?;
        let cannot = |error: std::io::Error| {
            Cause::operation(format!("cannot listen on {address}: {error}")).with_source(error)
        };
        let listener = TcpListener::bind(address).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let connections = Arc::new(Connections::new(options.connections_max));
        let asks_nobody = address.ip().is_loopback() || options.is_insecure;
        let (runtime, attempts) = (runtime.clone(), LoginAttempts::default());
        let of_reader = runtime.clone();
        let reader = ClientReader::start(move || of_reader.be_reader()).map_err(cannot)?;
        let (of_workers, release) = (runtime.clone(), options.release_memory);
        let at_once = SLOTS_PER_PROCESSOR * thread::available_parallelism().map_or(2, usize::from);
        let workers = Workers::start(at_once, move || of_workers.be_reader(), release).map_err(cannot)?;
        let shared = ServerState {
            runtime,
            options,
            workers,
            connections,
            attempts,
            deadlines: Arc::default(),
            reader,
            asks_nobody,
        };
        let shared = Arc::new(shared);
        let accepting = Arc::clone(&shared);
        let thread = thread::Builder::new().name("accept clients".into());
        let thread = thread.spawn(move || accept(&listener, &accepting)).map_err(cannot)?;
        tracing::info!(%address, "the server accepts PostgreSQL clients");
        Ok(Server { shared, address, accepting: Some(thread) })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.shared.connections.sessions()
    }

    /// Accepts no more clients, ends what the sessions wait for, tells them, and closes their connections. Queries that run
    /// by name continue.
    pub fn stop(self) {}

    fn end(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.shared.connections.stop();
        // It waits for a connection, for which there may be no descriptor before some sessions have ended.
        while !accepting.is_finished() && TcpStream::connect(self.address).is_err() {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = accepting.join();
        self.shared.connections.wait_until_closed(LEAVE_TIME);
        self.shared.workers.end();
        self.shared.reader.end();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>) {
    let mut spare = SpareDescriptor::of(listener);
    for stream in listener.incoming() {
        let accepted = match stream {
            Ok(stream) => Ok(spare.admit(stream, listener)),
            Err(error) if is_out_of_descriptors(&error) => spare.accept(listener),
            Err(error) => Err(error),
        };
        if shared.connections.is_stopping() {
            return;
        }
        match accepted {
            Ok(Some(stream)) => open(stream, shared),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

fn open(stream: TcpStream, shared: &Arc<ServerState>) {
    let stream = Arc::new(ClientStream::new(stream));
    if !shared.connections.wait_for_beginning(BEGINNING_MAX, BEGINNING_WAIT) {
        tracing::warn!("a connection is refused: too many are being opened");
        let report = Report::fatal(
            TOO_MANY_CONNECTIONS,
            format!("{BEGINNING_MAX} other connections are being opened, and none has begun its session"),
        );
        return refusal::refuse(&stream, &report.with_hint("connect again in some seconds"));
    }
    let key = shared.connections.add(Arc::clone(&stream));
    Opening::begin(stream, key, Arc::clone(shared));
}
