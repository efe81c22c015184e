//! The connection to another process as Timely sees it. Timely panics where a connection breaks; so here it does not
//! break: what is lost stops the run, and when the workers have ended, the connection ends in order.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tidemill_core::error::Cause;
use timely::communication::allocator::zero_copy::stream::Stream;

use crate::shared::{Failure, Shared, lock};

/// How long the one who knows why a connection broke has to say so.
const REASON_TIME: Duration = Duration::from_secs(1);

/// What the links of a process share.
pub(crate) struct Lines {
    shared: Arc<Shared>,
    /// To end those that wait for what no longer matters.
    sockets: Vec<TcpStream>,
    workers: AtomicUsize,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Lines {
    pub fn new(shared: &Arc<Shared>, workers: usize, sockets: Vec<TcpStream>) -> Arc<Lines> {
        let (ended, changed) = (Mutex::new(false), Condvar::new());
        let (shared, workers) = (Arc::clone(shared), AtomicUsize::new(workers));
        Arc::new(Lines { shared, sockets, workers, ended, changed })
    }

    /// A worker has dropped what it had, or has come to its end.
    pub fn worker_ended(&self) {
        if self.workers.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        *lock(&self.ended) = true;
        self.changed.notify_all();
        if self.shared.is_stopped() {
            self.close();
        }
    }

    /// The run has failed: no one needs to wait for others.
    pub fn close(&self) {
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn wait_for_workers(&self) {
        let ended = self.changed.wait_while(lock(&self.ended), |ended| !*ended);
        drop(ended.unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    /// A connection broke. Mostly another thread knows better why: that a process died, or failed.
    fn lost(&self, peer: usize) {
        let deadline = Instant::now() + REASON_TIME;
        while !self.shared.is_stopped() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let cause = Cause::Operation("the connection to it broke off; start the query again".into());
        self.shared.fail(Failure::Engine { part: format!("process {peer}"), cause });
    }
}

/// One end of a connection, for Timely's threads.
pub(crate) struct Link {
    stream: TcpStream,
    peer: usize,
    lines: Arc<Lines>,
    frames: Frames,
    broken: bool,
}

impl Link {
    pub fn new(stream: TcpStream, peer: usize, lines: &Arc<Lines>) -> Link {
        Link { stream, peer, lines: Arc::clone(lines), frames: Frames::default(), broken: false }
    }

    /// Completes what was cut off, which no worker will look at, and ends in order.
    fn end_in_order(&mut self, buffer: &mut [u8]) -> usize {
        let length = self.frames.missing().min(buffer.len());
        buffer[..length].fill(0);
        self.frames.pass(&buffer[..length]);
        length
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.broken || self.frames.ended {
            return Ok(self.end_in_order(buffer));
        }
        match self.stream.read(buffer) {
            Ok(length) if length > 0 => {
                self.frames.pass(&buffer[..length]);
                Ok(length)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => self.read(buffer),
            _ => {
                self.lines.lost(self.peer);
                self.lines.wait_for_workers();
                self.broken = true;
                Ok(self.end_in_order(buffer))
            }
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken {
            return Ok(bytes.len());
        }
        match self.stream.write(bytes) {
            Ok(length) if length > 0 => Ok(length),
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(error),
            _ => {
                self.lines.lost(self.peer);
                self.broken = true;
                Ok(bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Link {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Link::new(self.stream.try_clone()?, self.peer, &self.lines))
    }

    fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.stream.set_nonblocking(nonblocking)
    }

    fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        // The other end may be gone.
        let _ = self.stream.shutdown(how);
        Ok(())
    }
}

const HEADER_BYTES: usize = 48;

/// Where in Timely's sequence of headers and messages a connection is. A message without a length is the end.
#[derive(Default)]
struct Frames {
    header: Vec<u8>,
    /// Of the message that has begun.
    missing: usize,
    ended: bool,
}

impl Frames {
    /// How many bytes there are to the next boundary; at one, of a header. None behind the end.
    fn missing(&self) -> usize {
        match (self.ended, self.missing) {
            (true, _) => 0,
            (false, 0) => HEADER_BYTES - self.header.len(),
            (false, missing) => missing,
        }
    }

    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.ended {
            let (now, later) = bytes.split_at(self.missing().min(bytes.len()));
            bytes = later;
            if self.missing > 0 {
                self.missing -= now.len();
                continue;
            }
            self.header.extend_from_slice(now);
            if self.header.len() == HEADER_BYTES {
                self.missing = length_in(&self.header);
                self.ended = self.missing == 0;
                self.header.clear();
            }
        }
    }
}

/// The length of the message behind a header, which Timely writes.
fn length_in(header: &[u8]) -> usize {
    let length: [u8; 8] = header[32..40].try_into().expect("a header has 48 bytes");
    usize::try_from(u64::from_be_bytes(length)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use timely::communication::networking::MessageHeader;

    use super::*;

    fn frame(length: usize) -> Vec<u8> {
        let header =
            MessageHeader { channel: 1, source: 2, target_lower: 3, target_upper: 4, length, seqno: 300 };
        let mut bytes = Vec::new();
        header.write_to(&mut bytes).unwrap();
        bytes.resize(header.required_bytes(), 7);
        bytes
    }

    /// The lengths of the messages as Timely would read them.
    fn read_all(mut bytes: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while let Some(header) = MessageHeader::try_read(bytes) {
            lengths.push(header.length);
            bytes = &bytes[header.required_bytes()..];
        }
        assert!(bytes.is_empty(), "nothing is left of a message");
        lengths
    }

    #[test]
    fn wherever_a_connection_breaks_it_ends_in_order() {
        let whole: Vec<u8> = [frame(8), frame(400), frame(1)].concat();
        for cut in 0..=whole.len() {
            for step in [1, 5, 1000] {
                let mut frames = Frames::default();
                whole[..cut].chunks(step).for_each(|part| frames.pass(part));
                let mut bytes = whole[..cut].to_vec();
                while frames.missing() > 0 {
                    let padding = vec![0; frames.missing().min(step)];
                    frames.pass(&padding);
                    bytes.extend(padding);
                }
                let lengths = read_all(&bytes);
                let (last, before) = lengths.split_last().unwrap();
                assert!(*last == 0 && !before.contains(&0), "cut at {cut}: {lengths:?}");
            }
        }
    }

    #[test]
    fn an_end_in_order_is_seen() {
        let mut frames = Frames::default();
        frames.pass(&[frame(8), frame(0)].concat());
        assert!(frames.ended && frames.missing() == 0);
    }
}
