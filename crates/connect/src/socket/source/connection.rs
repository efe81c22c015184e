//! A connected socket, and what comes over it.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;
use rustls::ServerConfig;
use tidemill_core::SourceThreads;
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::read_permits::ReadPermit;
use crate::tls::TlsStream;

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Tls(TlsStream),
    Unix(UnixStream),
}

impl Socket {
    /// The same connection, encrypted: what listens shakes hands with what has connected.
    pub(super) fn accept_tls(self, config: Arc<ServerConfig>) -> io::Result<Socket> {
        match self {
            Socket::Tcp(stream) => TlsStream::accept(stream, config).map(Socket::Tls),
            other => Ok(other),
        }
    }

    /// Makes reads wait for bytes, no longer than the timeout.
    pub(super) fn prepare(&self, idle_timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(idle_timeout))
            }
            Socket::Tls(stream) => stream.socket().set_read_timeout(idle_timeout),
            Socket::Unix(stream) => {
                stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(idle_timeout))
            }
        }
    }

    pub(super) fn try_clone(&self) -> io::Result<Socket> {
        match self {
            Socket::Tcp(stream) => stream.try_clone().map(Socket::Tcp),
            // Only to close it: what is read from it is encrypted.
            Socket::Tls(stream) => stream.socket().try_clone().map(Socket::Tcp),
            Socket::Unix(stream) => stream.try_clone().map(Socket::Unix),
        }
    }

    /// Closes the connection, with a farewell if it is encrypted.
    pub(super) fn end(&mut self) {
        if let Socket::Tls(stream) = self {
            // Whoever does not take it sees the end of the connection all the same.
            let _ = stream.end();
        }
        self.close();
    }

    /// Closes the connection, and wakes up any thread that waits in a read of it or of a clone.
    pub(super) fn close(&self) {
        // Fails if the other side has closed it already: then there is nothing to do.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Tls(stream) => stream.socket().shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    pub(super) fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(target),
            Socket::Tls(stream) => stream.read(target),
            Socket::Unix(stream) => stream.read(target),
        }
    }
}

/// What a connection's thread passes to the query's.
#[derive(Debug)]
pub(super) enum ConnectionMessage {
    /// Rows, in the order in which they came.
    Rows(ConnectionRows),
    /// Records that were left out.
    Faults(Faults),
    /// The thread with this number is done; nothing more comes from it.
    Done(u64),
    /// The source cannot continue.
    Failed(Cause),
}

/// Rows of a connection.
#[derive(Debug)]
pub(super) struct ConnectionRows {
    /// The number of the connection's thread.
    pub(super) connection: u64,
    pub(super) rows: RecordBatch,
    /// The permit of the read that brought them; `None` behind the last one.
    pub(super) _permit: Option<Arc<ReadPermit>>,
}

/// Starts a thread of a source that reads connections.
pub(super) fn spawn(
    threads: &SourceThreads,
    number: u64,
    read: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    threads.spawn(format!("socket {number}"), read)
}

/// The query does not accept rows any more.
#[derive(Debug)]
pub(super) struct NobodyListens;
