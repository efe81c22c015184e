//! The connection to another process as Timely sees it. Timely panics if a connection breaks, so this one never does: a
//! loss stops the run, and when the workers have ended, the connection ends normally. Long messages take the bulk channel,
//! which Timely does not see.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidemill_core::error::Cause;
use timely::communication::allocator::zero_copy::stream::Stream;

use super::framing::{self, FrameReader};
use super::sequence::Sequence;
use crate::error::Failure;
use crate::run_state::RunState;
use crate::transport::bulk_channels::{BulkChannel, BulkChannels};

/// How long the thread that knows why a connection broke has to report it.
const REASON_TIME: Duration = Duration::from_secs(1);

/// What the links of a process share.
pub(crate) struct LinkGroup {
    run_state: Arc<RunState>,
    bulk: Arc<BulkChannels>,
    /// To end waits for what no longer matters.
    sockets: Vec<TcpStream>,
    workers: AtomicUsize,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl LinkGroup {
    pub fn new(
        run_state: &Arc<RunState>,
        workers: usize,
        sockets: Vec<TcpStream>,
        bulk: Arc<BulkChannels>,
    ) -> Arc<LinkGroup> {
        let (ended, changed) = (Mutex::new(false), Condvar::new());
        let (run_state, workers) = (Arc::clone(run_state), AtomicUsize::new(workers));
        Arc::new(LinkGroup { run_state, bulk, sockets, workers, ended, changed })
    }

    /// A worker has dropped its dataflow, or has ended.
    pub fn worker_ended(&self) {
        if self.workers.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        *self.ended.lock() = true;
        self.changed.notify_all();
        if self.run_state.is_stopped() {
            self.close();
        }
    }

    /// The run has failed: no one needs to wait for others.
    pub fn close(&self) {
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Both directions beside Timely's, between this process and another one.
    fn channel(&self, peer: usize) -> &BulkChannel {
        self.bulk.of(peer)
    }

    fn wait_for_workers(&self) {
        self.changed.wait_while(&mut self.ended.lock(), |ended| !*ended);
    }

    /// A connection broke. Usually another thread knows the reason better: that a process died, or failed.
    fn lost(&self, peer: usize) {
        let deadline = Instant::now() + REASON_TIME;
        while !self.run_state.is_stopped() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let cause = Cause::operation("the connection to it was lost; start the query again");
        self.run_state.fail(Failure::Engine { part: format!("process {peer}"), cause });
    }
}

/// One end of a connection, for Timely's threads.
pub(crate) struct Link {
    stream: TcpStream,
    peer: usize,
    group: Arc<LinkGroup>,
    arriving: FrameReader,
    /// The position in what is read.
    sequence: Sequence,
    broken: bool,
}

impl Link {
    pub fn new(stream: TcpStream, peer: usize, group: &Arc<LinkGroup>) -> Link {
        let (arriving, sequence) = (FrameReader::new(), Sequence::default());
        Link { stream, peer, group: Arc::clone(group), arriving, sequence, broken: false }
    }

    /// Completes the message that was cut off, which no worker will look at, and ends normally.
    fn end_in_order(&mut self, buffer: &mut [u8]) -> usize {
        let length = self.sequence.missing().min(buffer.len());
        buffer[..length].fill(0);
        self.sequence.pass(&buffer[..length]);
        length
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.broken || self.sequence.ended {
            return Ok(self.end_in_order(buffer));
        }
        match self.arriving.read(&mut self.stream, self.group.channel(self.peer), buffer) {
            Ok(length) if length > 0 => {
                self.sequence.pass(&buffer[..length]);
                Ok(length)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => self.read(buffer),
            _ => {
                self.group.lost(self.peer);
                self.group.wait_for_workers();
                self.broken = true;
                Ok(self.end_in_order(buffer))
            }
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The messages for which Timely's bytes may have tickets, and perhaps more.
        let messages = self.group.channel(self.peer).take_outgoing();
        if !self.broken && framing::write(&mut self.stream, &messages, bytes).is_err() {
            self.group.lost(self.peer);
            self.broken = true;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Link {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(Link::new(self.stream.try_clone()?, self.peer, &self.group))
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

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use arrow_buffer::Buffer;
    use timely::communication::networking::MessageHeader;

    use super::*;
    use crate::topology::Layout;
    use crate::transport::bulk_channels::BulkTicket;

    /// One end of a connection to the other of two processes.
    struct End {
        run_state: Arc<RunState>,
        group: Arc<LinkGroup>,
        link: Link,
    }

    fn end(process: u32, stream: TcpStream) -> End {
        let run_state = RunState::idle(Layout { workers: 1, processes: 2, process });
        let group = LinkGroup::new(
            &run_state,
            1,
            vec![stream.try_clone().unwrap()],
            BulkChannels::of_run(&run_state),
        );
        let link = Link::new(stream, 1 - process as usize, &group);
        End { run_state, group, link }
    }

    fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (stream, listener.accept().unwrap().0)
    }

    /// A message with this many bytes, as Timely writes it.
    fn timely(length: usize) -> Vec<u8> {
        let header =
            MessageHeader { channel: 1, source: 2, target_lower: 3, target_upper: 4, length, seqno: 300 };
        let mut bytes = Vec::new();
        header.write_to(&mut bytes).unwrap();
        bytes.resize(header.required_bytes(), 7);
        bytes
    }

    /// The lengths of the messages that Timely reads before it ends.
    fn lengths(link: &mut Link) -> Vec<usize> {
        let (mut bytes, mut lengths, mut buffer) = (Vec::new(), Vec::new(), [0; 100]);
        loop {
            let read = link.read(&mut buffer).unwrap();
            assert!(read > 0, "Timely would panic");
            bytes.extend_from_slice(&buffer[..read]);
            while let Some(header) = MessageHeader::try_read(&bytes) {
                lengths.push(header.length);
                bytes.drain(..header.required_bytes());
            }
            if lengths.last() == Some(&0) {
                assert!(bytes.is_empty() && link.read(&mut buffer).unwrap() == 0);
                return lengths;
            }
        }
    }

    #[test]
    fn a_message_on_the_lane_is_there_before_the_note_of_it() {
        let (near, far) = sockets();
        let (mut near, mut far) = (end(0, near), end(1, far));
        let mut buffer = [0; 1000];
        std::thread::spawn(move || {
            let message = vec![5; 300_000];
            for _ in 0..20 {
                near.group.bulk.enqueue(1, vec![Buffer::from(&message[..]), Buffer::from(&[6; 8])]);
                near.link.write_all(&timely(16)).unwrap();
            }
        });
        for number in 1..=20 {
            let read = far.link.read(&mut buffer[..64]).unwrap();
            let found = far.group.bulk.take(BulkTicket { process: 0, number });
            assert_eq!(found.expect("it is here").len(), 300_008);
            far.link.read_exact(&mut buffer[read..64]).unwrap();
        }
    }

    #[test]
    fn wherever_a_connection_breaks_timely_sees_an_end_in_order() {
        let mut whole = Vec::new();
        let message = |number| crate::transport::bulk_channels::OutgoingMessage {
            number,
            pieces: vec![Buffer::from(&[9; 50])],
        };
        framing::write(&mut whole, &[message(1)], &timely(8)).unwrap();
        framing::write(&mut whole, &[message(2), message(3)], &[timely(40), timely(1)].concat()).unwrap();
        for cut in 0..=whole.len() {
            let (mut near, far) = sockets();
            let mut far = end(1, far);
            // The reason is known, and the workers have ended.
            far.run_state.fail(Failure::Aborted);
            *far.group.ended.lock() = true;
            near.write_all(&whole[..cut]).unwrap();
            drop(near);
            let lengths = lengths(&mut far.link);
            let (_, before) = lengths.split_last().unwrap();
            assert!([8, 40, 1].starts_with(before), "cut at {cut}: {before:?}");
            assert!(
                far.group.bulk.take(BulkTicket { process: 0, number: 1 }).is_none(),
                "the run has stopped"
            );
        }
    }

    #[test]
    fn a_lost_connection_is_a_failure_and_keeps_nothing() {
        let (near, far) = sockets();
        let mut near = end(0, near);
        drop(far);
        let piece = || vec![Buffer::from(&[1; 100])];
        let start = Instant::now();
        while !near.run_state.is_stopped() {
            assert!(start.elapsed() < Duration::from_secs(30), "it is not noticed");
            near.group.bulk.enqueue(1, piece());
            assert_eq!(near.link.write(&timely(8)).unwrap(), 56);
        }
        let failure = near.run_state.failure().unwrap().to_string();
        assert!(failure.starts_with("process 1: the connection to it was lost"), "{failure}");
        near.group.bulk.enqueue(1, piece());
        assert_eq!(near.link.write(&timely(8)).unwrap(), 56);
        assert!(near.group.bulk.of(1).take_outgoing().is_empty());
    }
}
