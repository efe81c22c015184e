//! What a server keeps so that it can refuse a client when it has no more file descriptors.
//!
//! Without one it could not even accept the connection: the client would wait for an answer that never comes.

use std::io;
use std::net::{TcpListener, TcpStream};

use crate::postgres::refusal;
use crate::report::{Report, TOO_MANY_CONNECTIONS};
use crate::sessions::client_stream::ClientStream;

/// ENFILE and EMFILE, which are the same numbers on all systems that have them.
const OUT_OF_DESCRIPTORS: [i32; 2] = [23, 24];

/// Whether an operation failed because there are too many open files.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| OUT_OF_DESCRIPTORS.contains(&code))
}

/// A descriptor that the server gives up for a moment, to tell a client why it is refused.
pub(crate) struct SpareDescriptor {
    /// A copy of the listener.
    spare: Option<TcpListener>,
}

impl SpareDescriptor {
    pub fn of(listener: &TcpListener) -> SpareDescriptor {
        SpareDescriptor { spare: listener.try_clone().ok() }
    }

    /// A client that has connected, if it can be served without the spare descriptor. Otherwise the client is refused; `None` then.
    pub fn admit(&mut self, stream: TcpStream, listener: &TcpListener) -> Option<TcpStream> {
        if self.is_kept(listener) {
            return Some(stream);
        }
        refuse(stream);
        self.is_kept(listener);
        None
    }

    /// Waits for the next client in place of the spare descriptor, when there was no other for it. Another thread may take even
    /// this one.
    ///
    /// # Errors
    /// If the connection cannot be accepted because there are no descriptors; a later call may succeed.
    pub fn accept(&mut self, listener: &TcpListener) -> io::Result<Option<TcpStream>> {
        drop(self.spare.take());
        let (stream, _) = listener.accept()?;
        Ok(self.admit(stream, listener))
    }

    /// Whether there is a spare descriptor, perhaps again.
    fn is_kept(&mut self, listener: &TcpListener) -> bool {
        if self.spare.is_none() {
            self.spare = listener.try_clone().ok();
        }
        self.spare.is_some()
    }
}

fn refuse(stream: TcpStream) {
    tracing::warn!("a connection is refused: there are no more file descriptors");
    let report = Report::fatal(TOO_MANY_CONNECTIONS, "the server has no more file descriptors");
    let hint = "close other connections, or let the server have more open files (LimitNOFILE, ulimit -n)";
    refusal::refuse(&ClientStream::new(stream), &report.with_hint(hint));
}
