//! What a server keeps so that it can refuse a client when it has no more file descriptors.
//!
//! Without one it could not even accept the connection: the client would wait for an answer that never comes.

use std::io;
use std::net::{TcpListener, TcpStream};

use crate::client_stream::ClientStream;
use crate::connection;
use crate::report::{Report, TOO_MANY_CONNECTIONS};

/// ENFILE and EMFILE, which are the same numbers on all systems that have them.
const OUT_OF_DESCRIPTORS: [i32; 2] = [23, 24];

/// Whether an operation failed because there are too many open files.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| OUT_OF_DESCRIPTORS.contains(&code))
}

/// A descriptor that is given up for a moment, for the connection of a client that is told why it is refused.
pub(crate) struct SpareDescriptor {
    /// A copy of the listener.
    spare: Option<TcpListener>,
}

impl SpareDescriptor {
    pub fn of(listener: &TcpListener) -> SpareDescriptor {
        SpareDescriptor { spare: listener.try_clone().ok() }
    }

    /// Waits for the next connection in place of the spare descriptor. If there is still no other descriptor when it comes, it
    /// is refused; `None` then.
    ///
    /// # Errors
    /// If the connection cannot be accepted, or other threads have taken even the spare descriptor.
    pub fn accept(&mut self, listener: &TcpListener) -> io::Result<Option<TcpStream>> {
        if self.spare.take().is_none() {
            self.spare = Some(listener.try_clone()?);
            return Ok(None);
        }
        let (stream, _) = listener.accept()?;
        self.spare = listener.try_clone().ok();
        if self.spare.is_some() {
            return Ok(Some(stream));
        }
        tracing::warn!("a connection is refused: there are no more file descriptors");
        let report = Report::fatal(TOO_MANY_CONNECTIONS, "the server has no more file descriptors");
        let hint = "close other connections, or let the server have more open files (LimitNOFILE, ulimit -n)";
        connection::refuse(&ClientStream::new(stream), &report.with_hint(hint));
        self.spare = listener.try_clone().ok();
        Ok(None)
    }
}
