//! One connection: reads bytes, decodes them, passes the rows on.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arrow_array::RecordBatch;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::source::Faults;

use super::room::{Place, Room};
use crate::formats::RecordDecoder;

/// How many bytes are read at once initially.
const READ_BYTES: usize = 32 * 1024;
/// The most bytes that are read at once from a fast sender.
const READ_BYTES_MAX: usize = 128 * 1024;

/// A connected socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Makes reads wait for bytes, no longer than the timeout.
    pub(super) fn prepare(&self, idle_timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(idle_timeout))
            }
            Socket::Unix(stream) => {
                stream.set_nonblocking(false).and_then(|()| stream.set_read_timeout(idle_timeout))
            }
        }
    }

    pub(super) fn try_clone(&self) -> io::Result<Socket> {
        match self {
            Socket::Tcp(stream) => stream.try_clone().map(Socket::Tcp),
            Socket::Unix(stream) => stream.try_clone().map(Socket::Unix),
        }
    }

    /// Closes the connection, and wakes up any thread that waits in a read of it or of a clone.
    pub(super) fn close(&self) {
        // Fails if the other side has closed it already: then there is nothing to do.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(target),
            Socket::Unix(stream) => stream.read(target),
        }
    }
}

/// What a connection's thread passes to the query's.
#[derive(Debug)]
pub(super) enum Delivery {
    /// Rows, in the order in which they came.
    Rows(Delivered),
    /// Records that were left out.
    Faults(Faults),
    /// The thread with this number is done; nothing more comes from it.
    Done(u64),
    /// The source cannot continue.
    Failed(Cause),
}

/// Rows of a connection.
#[derive(Debug)]
pub(super) struct Delivered {
    /// The number of the connection's thread.
    pub(super) connection: u64,
    pub(super) rows: RecordBatch,
    /// The room that they take, together with what else the read brought.
    pub(super) _place: Arc<Place>,
}

/// Reports that a thread is done when it is dropped, however the thread ended. Must be created on that thread.
pub(super) struct Done {
    /// The thread.
    pub(super) number: u64,
    pub(super) deliveries: SyncSender<Delivery>,
}

impl Done {
    /// Delivers, if there is still a receiver.
    pub(super) fn send(&self, delivery: Delivery) {
        let _ = self.deliveries.send(delivery);
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.send(match thread::panicking() {
            true => Delivery::Failed(Cause::bug("the thread of a connection panicked")),
            false => Delivery::Done(self.number),
        });
    }
}

/// Starts a thread that reads connections.
pub(super) fn spawn(number: u64, read: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(format!("socket {number}")).spawn(read)
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
    /// The name of the connection in messages.
    pub(super) name: &'a str,
    pub(super) decoder: Box<dyn RecordDecoder>,
    pub(super) done: &'a Done,
    pub(super) room: Arc<Room>,
}

/// The query does not accept rows any more.
struct NobodyListens;

impl Connection<'_> {
    /// Reads until the end; `received` is called with the number of bytes that came.
    pub(super) fn read(mut self, mut received: impl FnMut(usize)) -> End {
        self.decoder.begin(self.name);
        let mut buffer = vec![0; READ_BYTES];
        // Of the last byte: whether the last line is complete.
        let mut in_line = false;
        let ended = loop {
            let place = self.room.take();
            self.room.set_reading(true);
            let read = self.socket.read(&mut buffer);
            self.room.set_reading(false);
            let bytes = match read {
                Ok(0) => break self.ended(in_line, "was closed", &place),
                Ok(count) => &buffer[..count],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => break self.broken(in_line, &error, &place),
            };
            received(bytes.len());
            in_line = bytes.last() != Some(&b'\n');
            let is_full = bytes.len() == buffer.len();
            let mut batches = VecDeque::new();
            let decoded = self.decoder.decode(bytes, &mut batches);
            if is_full && buffer.len() < READ_BYTES_MAX {
                buffer.resize(buffer.len() * 2, 0);
            }
            match self.deliver(batches, &place).and_then(|()| self.check(decoded)) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(NobodyListens) => break Err(NobodyListens),
            }
        };
        self.socket.close();
        match ended {
            Ok(()) => End::Closed,
            Err(NobodyListens) => End::NobodyListens,
        }
    }

    /// The connection has ended normally, or was idle for too long.
    fn ended(&mut self, in_line: bool, how: &str, place: &Arc<Place>) -> Result<(), NobodyListens> {
        if in_line {
            return self.fault(format!(
                "{}: {how} in the middle of a line, which was left out; end every line with a newline",
                self.name
            ));
        }
        let mut batches = VecDeque::new();
        let decoded = self.decoder.finish(&mut batches);
        self.deliver(batches, place)?;
        self.check(decoded).map(|_| ())
    }

    fn broken(&mut self, in_line: bool, error: &io::Error, place: &Arc<Place>) -> Result<(), NobodyListens> {
        // A read that timed out is reported in one of two ways, by system.
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            return self.ended(in_line, "was idle for too long", place);
        }
        self.fault(format!("{}: reading failed, what it still sent is lost: {error}", self.name))
    }

    /// False if reading from the connection cannot continue.
    fn check(&mut self, decoded: Result<(), Cause>) -> Result<bool, NobodyListens> {
        match decoded {
            Ok(()) => Ok(true),
            // The sender's fault, and others may do better: the query continues without this one.
            Err(cause) if cause.fault == Fault::User => {
                self.fault(format!("{}: closed: {}", self.name, cause.message)).map(|()| false)
            }
            Err(cause) => self.send(Delivery::Failed(cause)).map(|()| false),
        }
    }

    fn deliver(&mut self, batches: VecDeque<RecordBatch>, place: &Arc<Place>) -> Result<(), NobodyListens> {
        for batch in batches {
            let _place = Arc::clone(place);
            self.send(Delivery::Rows(Delivered { connection: self.done.number, rows: batch, _place }))?;
        }
        let faults = self.decoder.faults();
        match faults.count {
            0 => Ok(()),
            _ => self.send(Delivery::Faults(faults)),
        }
    }

    fn fault(&self, text: String) -> Result<(), NobodyListens> {
        let mut faults = Faults::default();
        faults.add(text);
        self.send(Delivery::Faults(faults))
    }

    /// Waits while the queue is full, which holds back the sender.
    fn send(&self, delivery: Delivery) -> Result<(), NobodyListens> {
        self.done.deliveries.send(delivery).map_err(|_| NobodyListens)
    }
}
