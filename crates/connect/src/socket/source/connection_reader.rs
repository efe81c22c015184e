//! The thread of a connection: reads its bytes, and passes them on to the thread that decodes them.

use std::io;
use std::sync::Arc;
use std::thread;

use tidemill_core::error::Cause;

use super::connection::{NobodyListens, Socket};
use super::decoding_threads::{Input, InputEnd, ToDecoder};
use super::read_permits::ReadPermits;
use crate::quotas::ClientQuota;

/// The most bytes that are read at once. They lie on the thread's stack until there is room for them in the queue.
const READ_BYTES: usize = 64 * 1024;
/// The fewest bytes that are read at once, however large the rows can be that they become.
const READ_BYTES_MIN: usize = 256;
/// One read takes at most this part of the room.
const READS_IN_ROOM: usize = 4;

/// Reports that a thread is done when it is dropped, however the thread ended. Must be created on that thread.
pub(super) struct EndNotifier {
    /// The thread.
    pub(super) number: u64,
    pub(super) decoder: ToDecoder,
}

impl EndNotifier {
    /// The source cannot continue.
    pub(super) fn fail(&self, cause: Cause) {
        // If nobody listens any more, nobody needs to know.
        let _ = self.decoder.send(Input::Failed(cause));
    }
}

impl EndNotifier {
    /// Something that was sent is left out.
    pub(super) fn tell(&self, fault: String) {
        let _ = self.decoder.send(Input::Fault(fault));
    }
}

impl Drop for EndNotifier {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail(Cause::bug("the thread of a connection panicked"))
        } else {
            drop(self.decoder.send(Input::Done(self.number)))
        }
    }
}

/// Why reading a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was closed, broke, was idle for too long or sent something that cannot be decoded.
    Closed,
    /// The query does not accept rows any more.
    NobodyListens,
}

/// Reads one connection to its end.
pub(super) struct Connection<'a> {
    pub(super) socket: Socket,
    /// To close it from other threads.
    pub(super) handle: Arc<Socket>,
    /// The name of the connection in messages.
    pub(super) name: &'a str,
    pub(super) done: &'a EndNotifier,
    pub(super) permits: Arc<ReadPermits>,
    /// What its client may send.
    pub(super) quota: Option<ClientQuota>,
}

impl Connection<'_> {
    /// Reads until the end; `received` is called with the number of bytes that came.
    pub(super) fn read(mut self, received: impl FnMut(usize)) -> End {
        let ended = self.read_all(received);
        self.socket.end();
        match ended {
            Ok(()) => End::Closed,
            Err(NobodyListens) => End::NobodyListens,
        }
    }

    fn read_all(&mut self, mut received: impl FnMut(usize)) -> Result<(), NobodyListens> {
        let (number, decoder) = (self.done.number, &self.done.decoder);
        decoder.send(Input::Begin {
            connection: number,
            name: self.name.to_owned(),
            handle: Arc::clone(&self.handle),
            permits: Arc::clone(&self.permits),
        })?;
        let mut buffer = [0; READ_BYTES];
        let buffer = &mut buffer[..self.read_bytes()];
        let mut is_first = true;
        let end = loop {
            let Some(mut permit) = self.permits.take() else { break InputEnd::Closed };
            self.permits.set_reading(true);
            let read = self.socket.read(buffer);
            self.permits.set_reading(false);
            let bytes = match read {
                Ok(0) => break InputEnd::Closed,
                Ok(count) => &buffer[..count],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A read that timed out is reported in one of two ways, by system.
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    break InputEnd::Idle;
                }
                Err(error) => break InputEnd::Broken(error),
            };
            if std::mem::take(&mut is_first) && begins_http(bytes) {
                let name = self.name;
                self.done.tell(format!(
                    "{name}: closed: it sent an HTTP request, as a web page can; use connector = 'http' to accept them"
                ));
                break InputEnd::Closed;
            }
            received(bytes.len());
            self.permits.set_has_read();
            let Some(share) = decoder.take_room(bytes.len(), || self.permits.is_closed()) else {
                break InputEnd::Closed;
            };
            permit.hold(share);
            decoder.send(Input::Bytes { connection: number, bytes: decoder.copy(bytes), permit })?;
            if let Some(quota) = &self.quota {
                quota.spend_and_wait(bytes, || self.permits.is_closed());
            }
        };
        decoder.send(Input::End { connection: number, end })
    }

    /// How much is read at once, so that what becomes of it takes no more than its share of the room.
    fn read_bytes(&self) -> usize {
        (self.done.decoder.text_bytes_max() / READS_IN_ROOM).clamp(READ_BYTES_MIN, READ_BYTES)
    }
}

/// Returns whether a connection begins with an HTTP request. A page of any origin can make a browser of this machine send
/// one, and lines of its body would be rows.
fn begins_http(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let is_method = matches!(
        words.next(),
        Some(b"GET" | b"HEAD" | b"POST" | b"PUT" | b"PATCH" | b"DELETE" | b"OPTIONS" | b"CONNECT")
    );
    let is_path = words.next().is_some_and(|path| path.starts_with(b"/") || path.starts_with(b"http"));
    // A long path may continue in the next read.
    let version = words.next();
    is_method && is_path && version.is_none_or(|version| version.starts_with(b"HTTP/"))
}
